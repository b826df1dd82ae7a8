/* SPDX-License-Identifier: BSD-2-Clause */
/* A requester that many threads use, and one that no thread uses. */
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "rio/cluster.h"

enum { THREADS = 16, ROUNDS = 100, BLOCK = 4096, FEW = 3 };

static struct cluster c;
static struct weft_rio_requester *shared;
static uint32_t number, tag;
static uint8_t memory[THREADS][BLOCK];
static atomic_uint wrong;

static enum weft_reason move(enum weft_rio_operation operation, size_t nth)
{
	const struct weft_rio_sge segment = { .memory = memory[nth], .length = BLOCK, .tag = tag };

	return cluster_io(shared, &(struct weft_rio_transaction){ .operation = operation,
								  .device = number,
								  .offset = nth * BLOCK,
								  .length = BLOCK,
								  .sges = &segment,
								  .sge_count = 1 });
}

/* Each has a block of its own. */
static void *write_and_read(void *mine)
{
	size_t nth = (size_t)((uint8_t(*)[BLOCK])mine - memory);

	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint8_t byte = (uint8_t)(nth * ROUNDS + i);

		memset(memory[nth], byte, BLOCK);
		wrong += move(WEFT_RIO_WRITE, nth) != WEFT_OK;
		memset(memory[nth], 0, BLOCK);
		wrong += move(WEFT_RIO_READ, nth) != WEFT_OK;
		wrong += memory[nth][0] != byte || memory[nth][BLOCK - 1] != byte;
	}
	return NULL;
}

/* Looks for a device that never comes, meanwhile. */
static void *look(void *nothing)
{
	struct weft_rio_device d;

	(void)nothing;
	wrong += weft_rio_device_find(shared, "none", SECONDS / 2, &d) != WEFT_R_RIO_DEVICE;
	return NULL;
}

static void requester_open(uint32_t requests_max)
{
	const struct weft_rio_peer owner = cluster_peer(OWNER_UNIT, WEFT_RIO_OWNER, &c.owner_at);
	const struct weft_rio_self self = cluster_self(FIRST_REQUESTER, &owner, 1);
	const struct weft_rio_requester_options options = { .requests_max = requests_max };

	REQUIRE(weft_rio_requester_open(&self, &options, &shared) == WEFT_OK);
	number = cluster_device(shared, "disk").number;
	REQUIRE(weft_rio_memory_add(shared, memory, sizeof(memory), &tag) == WEFT_OK);
}

static void all_threads(uint32_t requests_max)
{
	pthread_t threads[THREADS + 1];

	cluster_open(&c, "mem:1M");
	requester_open(requests_max);
	wrong = 0;
	for (size_t i = 0; i < THREADS; i++)
		REQUIRE(pthread_create(&threads[i], NULL, write_and_read, memory[i]) == 0);
	REQUIRE(pthread_create(&threads[THREADS], NULL, look, NULL) == 0);
	for (size_t i = 0; i <= THREADS; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQ(wrong, 0U);
	weft_rio_requester_close(shared);
	cluster_close(&c);
}

TEST(test_rio_02c_many_threads_ask_at_once)
{
	all_threads(0);
}

/* Most of them wait for room, and get it. */
TEST(test_rio_02c_more_threads_ask_than_requests_may_be_under_way)
{
	all_threads(FEW);
}

/* Nothing ends what they wait for but that the owner leaves. */
TEST(test_rio_03_all_waiting_threads_learn_that_the_owner_left)
{
	pthread_t threads[THREADS];

	cluster_open(&c, "delay:2s(mem:1M)");
	requester_open(FEW);
	wrong = 0;
	for (size_t i = 0; i < THREADS; i++)
		REQUIRE(pthread_create(&threads[i], NULL, write_and_read, memory[i]) == 0);
	cluster_stop_owner(&c);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	EXPECT(wrong > 0);
	weft_rio_requester_close(shared);
	cluster_close(&c);
}

static uint32_t came_count(void)
{
	uint32_t count = 0;

	pthread_mutex_lock(&c.lock);
	for (uint32_t i = 0; i < c.note_count; i++)
		count += strstr(c.notes[i], "came requester 7.1") != NULL;
	pthread_mutex_unlock(&c.lock);
	return count;
}

/* Connections are restored in the background, without any call. */
TEST(test_rio_03_an_unused_requester_finds_its_owner_again)
{
	const struct timespec moment = { .tv_nsec = 1000 * 1000 };

	cluster_open(&c, "mem:1M");
	requester_open(0);
	EXPECT_EQ(came_count(), 1U);
	cluster_stop_owner(&c);
	cluster_start_owner(&c);
	for (int i = 0; i < 10000 && came_count() < 2; i++)
		nanosleep(&moment, NULL); /* there is no notification: poll */
	EXPECT_EQ(came_count(), 2U);
	weft_rio_requester_close(shared);
	cluster_close(&c);
}
