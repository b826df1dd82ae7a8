/* SPDX-License-Identifier: BSD-2-Clause */
/* When lines of the owner's log are where they belong: at once, or soon (docs/security.md). */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rio/cluster.h"

enum { BLOCK = 512, ROUNDS = 20, TRIES = 5 };

static struct cluster c;
static uint8_t memory[BLOCK];
static uint32_t written; /* lines that are, guarded by the notes' lock */

/* What a program's log does when it is told that it should be written out. */
static void write_out(void *context)
{
	struct cluster *of = context;

	pthread_mutex_lock(&of->lock);
	written = of->note_count;
	pthread_mutex_unlock(&of->lock);
}

/* How many of the lines that are written have this in them. */
static uint32_t count_written(const char *text)
{
	uint32_t count = 0;

	pthread_mutex_lock(&c.lock);
	for (uint32_t i = 0; i < written; i++)
		count += strstr(c.notes[i], text) != NULL;
	pthread_mutex_unlock(&c.lock);
	return count;
}

/* Of a device that may be read, and not written. */
static struct weft_rio_requester *open_logging(struct cluster_move *block)
{
	static const struct weft_rio_store store = { .number = 1,
						     .name = "disk",
						     .text = "mem:64k" };
	static const struct weft_rio_rule rule = { .operations = 1 << WEFT_RIO_READ };
	struct weft_rio_requester *q;

	cluster_begin(&c);
	written = 0;
	c.owner_options.rules = &rule;
	c.owner_options.noted = write_out;
	cluster_add_iounit(&c, &store, 1);
	cluster_start_owner(&c);
	q = cluster_requester(&c, 0);
	*block = (struct cluster_move){ .device = cluster_device(q, "disk").number,
					.bytes = memory,
					.length = BLOCK,
					.tag = cluster_memory(q, memory, sizeof(memory)) };
	return q;
}

/*
 * A refusal is in the log before the requester learns of it, however many requests succeeded
 * before.
 */
TEST(test_rio_03_a_refusal_is_in_the_log_at_once)
{
	struct cluster_move block;
	struct weft_rio_requester *q = open_logging(&block);

	for (uint32_t i = 1; i <= ROUNDS; i++) {
		EXPECT_EQ(cluster_read(q, block), WEFT_OK);
		EXPECT_EQ(cluster_write(q, block), WEFT_R_RIO_DENIED);
		EXPECT_EQ(count_written("refused 7.1#"), i);
		EXPECT_EQ(count_written("allowed 7.1#"), i); /* it came before */
	}
	cluster_close(&c);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECONDS + (uint64_t)now.tv_nsec;
}

/* Nothing else happens that would wake the owner up. The machine may be slow, but not each time. */
TEST(test_rio_03_what_went_well_is_in_the_log_soon)
{
	struct cluster_move block;
	struct weft_rio_requester *q = open_logging(&block);
	uint64_t least_ns = UINT64_MAX;

	for (uint32_t i = 1; i <= TRIES; i++) {
		uint64_t from_ns, took_ns = 0;

		EXPECT_EQ(cluster_read(q, block), WEFT_OK);
		from_ns = now_ns();
		while (count_written("ended 7.1#") < i && took_ns < 20 * SECONDS) {
			usleep(100);
			took_ns = now_ns() - from_ns;
		}
		EXPECT_EQ(count_written("ended 7.1#"), i);
		EXPECT_EQ(count_written("allowed 7.1#"), i);
		least_ns = took_ns < least_ns ? took_ns : least_ns;
	}
	EXPECT(least_ns < SECONDS / 2); /* by itself it would look once in a second */
	cluster_close(&c);
}

TEST(test_rio_03_all_is_in_the_log_of_an_owner_that_has_ended)
{
	for (int round = 0; round < TRIES; round++) {
		struct cluster_move block;
		struct weft_rio_requester *q = open_logging(&block);

		for (uint32_t i = 0; i < ROUNDS; i++)
			EXPECT_EQ(cluster_read(q, block), WEFT_OK);
		cluster_stop_owner(&c);
		EXPECT_EQ(count_written("allowed 7.1#"), ROUNDS);
		EXPECT_EQ(written, c.note_count);
		cluster_close(&c);
	}
}

/* The owner hears later than the requester that a read went well, but before that it has left. */
TEST(test_rio_02i_a_requester_that_leaves_in_order_has_no_reads_that_failed)
{
	struct cluster_move block;
	struct weft_rio_requester *q = open_logging(&block);

	for (uint32_t i = 1; i <= TRIES; i++) {
		uint32_t left = 20000;

		for (uint32_t k = 0; k < ROUNDS; k++)
			EXPECT_EQ(cluster_read(q, block), WEFT_OK);
		cluster_close_requester(&c, 0);
		while (count_written("left requester 7.1") < i && --left > 0)
			usleep(1000);
		EXPECT(left > 0);
		EXPECT_EQ(count_written(" 512 bytes"), i * ROUNDS);
		EXPECT_EQ(count_written("peer_gone"), 0U);
		q = cluster_requester(&c, 0);
		block.device = cluster_device(q, "disk").number;
		block.tag = cluster_memory(q, memory, sizeof(memory));
	}
	cluster_close(&c);
}

TEST(test_rio_02i_an_iounit_that_ends_in_order_has_said_what_went_well)
{
	for (int round = 0; round < TRIES; round++) {
		struct cluster_move block;
		struct weft_rio_requester *q = open_logging(&block);

		for (uint32_t k = 0; k < ROUNDS; k++)
			EXPECT_EQ(cluster_read(q, block), WEFT_OK);
		cluster_stop_iounit(&c, 0);
		cluster_wait_note(&c, "left iounit 2.1");
		cluster_stop_owner(&c);
		EXPECT_EQ(count_written(" 512 bytes"), ROUNDS);
		EXPECT_EQ(count_written("rio_iounit_left"), 0U);
		cluster_close(&c);
	}
}
