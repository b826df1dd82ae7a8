/* SPDX-License-Identifier: BSD-2-Clause */
/* Directed I/O when one of the three is gone, or slow: every request ends, and memory is safe. */
#include <dirent.h>
#include <string.h>

#include "rio/cluster.h"

enum { MIB = 1 << 20, KIB = 1 << 10, MANY = 24, LENGTH = 16 * KIB, MS = 1000 * 1000 };

static struct cluster c;
static uint8_t memory[MANY * LENGTH], kept[MANY * LENGTH];

/* ---- Requests that are under way ------------------------------------------------------------ */

struct crowd {
	struct weft_rio_requester *q;
	uint32_t device, tag;
	uint32_t ended;
	uint32_t reasons[WEFT_REASON_COUNT];
};

static void crowd_open(struct crowd *w, int nth)
{
	*w = (struct crowd){ .q = cluster_requester(&c, nth) };
	w->device = cluster_device(w->q, "disk").number;
	w->tag = cluster_memory(w->q, memory, sizeof(memory));
}

/* As many as there are places in memory, reads and writes in turn. */
static void crowd_ask(struct crowd *w, uint64_t timeout_ns)
{
	for (uint32_t i = 0; i < MANY; i++) {
		const struct weft_rio_sge s = { .memory = memory + (size_t)i * LENGTH,
						.length = LENGTH,
						.tag = w->tag };
		const struct weft_rio_transaction t = {
			.operation = i % 2 ? WEFT_RIO_WRITE : WEFT_RIO_READ,
			.device = w->device,
			.offset = (uint64_t)i * LENGTH,
			.length = LENGTH,
			.sges = &s,
			.sge_count = 1,
		};

		REQUIRE(weft_rio_request_submit(w->q, &(struct weft_rio_request){
							      .transactions = &t,
							      .transaction_count = 1,
							      .timeout_ns = timeout_ns,
							      .context = memory + i }) == WEFT_OK);
	}
}

/* Until all have ended, each once. */
static void crowd_wait(struct crowd *w)
{
	bool seen[MANY] = { false };

	for (int i = 0; i < 1000 && w->ended < MANY; i++) {
		struct weft_rio_result e[8];
		uint32_t count;

		REQUIRE(weft_rio_request_wait(w->q, SECONDS / 50, e, 8, &count) == WEFT_OK);
		for (uint32_t k = 0; k < count; k++) {
			size_t nth = (size_t)((uint8_t *)e[k].context - memory);

			REQUIRE(nth < MANY && !seen[nth]);
			seen[nth] = true;
			w->ended++;
			w->reasons[e[k].reason]++;
		}
	}
	REQUIRE(w->ended == MANY);
}

/* One read, as soon as an I/O unit carries it out; until then only the expected errors may come. */
static void works_soon(struct weft_rio_requester *q, uint32_t tag, uint8_t *bytes)
{
	enum weft_reason r = WEFT_R_RIO_DEVICE;
	struct weft_rio_device d;

	for (int i = 0; i < 2000 && r != WEFT_OK; i++) {
		if (weft_rio_device_find(q, "disk", SECONDS / 100, &d) == WEFT_OK)
			r = cluster_read(q, (struct cluster_move){ .device = d.number,
								   .bytes = bytes,
								   .length = 512,
								   .tag = tag });
		REQUIRE(r == WEFT_OK || r == WEFT_R_RIO_OWNER_LEFT || r == WEFT_R_RIO_DEVICE ||
			r == WEFT_R_RIO_IOUNIT_LEFT || r == WEFT_R_RIO_PLATFORM);
	}
	REQUIRE(r == WEFT_OK);
}

/* ---- The owner ------------------------------------------------------------------------------ */

/*
 * What had not been said to be done ends for that reason; from then on the memory is the
 * requester's alone, whatever the I/O unit is at.
 */
TEST(test_rio_03_an_owner_that_stops_ends_requests_and_nothing_is_written_afterwards)
{
	struct crowd w;
	uint8_t other[512];

	for (int round = 0; round < 6; round++) {
		cluster_open(&c, "delay:20ms(mem:1M)");
		crowd_open(&w, 0);
		if (round % 2) /* they are connected already */
			works_soon(w.q, w.tag, memory);
		crowd_ask(&w, 0);
		if (round >= 4) {
			struct weft_rio_result e;
			uint32_t count;

			/* Some have been carried out. */
			REQUIRE(weft_rio_request_wait(w.q, SECONDS, &e, 1, &count) == WEFT_OK);
			EXPECT_EQ(count, 1);
			EXPECT_EQ(e.reason, WEFT_OK);
			w.ended++;
			w.reasons[WEFT_OK]++;
		}
		cluster_stop_owner(&c);
		if (round < 4) {
			crowd_wait(&w);
			EXPECT_EQ(w.reasons[WEFT_OK] + w.reasons[WEFT_R_RIO_OWNER_LEFT], MANY);
			EXPECT(w.reasons[WEFT_R_RIO_OWNER_LEFT] > 0);
		} else {
			struct weft_rio_result e[MANY];
			uint32_t count;

			for (int i = 0; i < 1000 && w.ended < MANY; i++) {
				REQUIRE(weft_rio_request_wait(w.q, SECONDS / 50, e, MANY, &count) ==
					WEFT_OK);
				w.ended += count;
			}
			EXPECT_EQ(w.ended, MANY);
		}
		cluster_fill(memory, sizeof(memory), (uint8_t)round);
		memcpy(kept, memory, sizeof(memory));
		/* No owner is connected: the call fails at once. */
		EXPECT_EQ(cluster_read(w.q, (struct cluster_move){ .device = w.device,
								   .bytes = memory,
								   .length = 512,
								   .tag = w.tag }),
			  WEFT_R_RIO_OWNER_LEFT);
		cluster_start_owner(&c);
		/* The device is offered again when it has nothing to do any more. */
		works_soon(w.q, cluster_memory(w.q, other, sizeof(other)), other);
		EXPECT_MEM(memory, kept, sizeof(memory));
		cluster_close(&c);
	}
}

/* Over and over: what is kept of each time would be found here. */
TEST(test_rio_03_an_owner_comes_and_goes_under_load)
{
	struct crowd w;

	cluster_open(&c, "mem:1M");
	crowd_open(&w, 0);
	for (int round = 0; round < 20; round++) {
		w.ended = 0;
		crowd_ask(&w, 0);
		cluster_stop_owner(&c);
		crowd_wait(&w);
		cluster_start_owner(&c);
		works_soon(w.q, w.tag, memory);
	}
	EXPECT_EQ(w.reasons[WEFT_OK] + w.reasons[WEFT_R_RIO_OWNER_LEFT], 20 * MANY);
	cluster_close(&c);
}

/* ---- The I/O unit --------------------------------------------------------------------------- */

TEST(test_rio_02i_an_iounit_that_stops_ends_requests_and_is_used_again_when_it_is_back)
{
	static struct weft_rio_store stores[2] = {
		{ .number = 5, .name = "disk", .text = "delay:30ms(mem:1M)" },
		{ .number = 6, .name = "more", .text = "mem:1M" }
	};
	static struct weft_rio_store others[1] = {
		{ .number = 5, .name = "other", .text = "mem:1M" }
	};
	struct weft_rio_device d;
	uint32_t noted;
	struct crowd w;

	cluster_begin(&c);
	cluster_add_iounit(&c, stores, 2);
	cluster_add_iounit(&c, others, 1);
	cluster_start_owner(&c);
	crowd_open(&w, 0);
	for (int round = 0; round < 4; round++) {
		struct cluster_move m = { .bytes = memory, .length = 512, .tag = w.tag };

		memset(w.reasons, 0, sizeof(w.reasons));
		w.ended = 0;
		noted = cluster_notes(&c);
		crowd_ask(&w, 0);
		cluster_wait_notes(&c, noted + MANY); /* all of them were allowed at least */
		cluster_stop_iounit(&c, 0);
		crowd_wait(&w);
		EXPECT_EQ(w.reasons[WEFT_OK] + w.reasons[WEFT_R_RIO_IOUNIT_LEFT], MANY);
		EXPECT(w.reasons[WEFT_R_RIO_IOUNIT_LEFT] > 0);
		cluster_fill(memory, sizeof(memory), (uint8_t)round);
		memcpy(kept, memory, sizeof(memory));
		/* Its devices are gone, the other unit's are not. */
		EXPECT_EQ(weft_rio_device_find(w.q, "disk", 0, &d), WEFT_R_RIO_DEVICE);
		EXPECT_EQ(weft_rio_device_find(w.q, "more", 0, &d), WEFT_R_RIO_DEVICE);
		m.device = w.device;
		EXPECT_EQ(cluster_read(w.q, m), WEFT_R_RIO_DEVICE);
		m.device = cluster_device(w.q, "other").number;
		EXPECT_EQ(cluster_write(w.q, m), WEFT_OK);
		EXPECT_MEM(memory, kept, sizeof(memory));
		cluster_start_iounit(&c, 0);
		works_soon(w.q, w.tag, memory);
		/* What was in its memory is lost: it is another device now. */
		EXPECT(cluster_device(w.q, "disk").number != w.device);
		w.device = cluster_device(w.q, "disk").number;
	}
	EXPECT(cluster_noted(&c, "left iounit 2.1"));
	cluster_close(&c);
}

static void *stop_iounit(void *is_stopped)
{
	cluster_stop_iounit(&c, 0);
	atomic_store((atomic_bool *)is_stopped, true);
	return NULL;
}

/* It waits for its devices when it stops; those who ask do not. */
TEST(test_rio_02i_an_iounit_that_stops_says_so_before_its_devices_are_done)
{
	atomic_bool is_stopped = false;
	struct weft_rio_device d;
	struct weft_rio_traffic m;
	pthread_t thread;
	struct crowd w;

	cluster_open(&c, "delay:5s(mem:1M)");
	crowd_open(&w, 0);
	crowd_ask(&w, 0);
	/* Writes have been taken from memory, so the device has them. */
	do
		weft_rio_requester_traffic(w.q, &m);
	while (m.payload_out < MANY / 2 * LENGTH);
	REQUIRE(pthread_create(&thread, NULL, stop_iounit, &is_stopped) == 0);
	crowd_wait(&w);
	EXPECT_EQ(w.reasons[WEFT_R_RIO_IOUNIT_LEFT], MANY);
	/* For a while yet. */
	EXPECT_EQ(weft_rio_device_find(w.q, "disk", SECONDS, &d), WEFT_R_RIO_DEVICE);
	EXPECT(!atomic_load(&is_stopped));
	pthread_join(thread, NULL);
	cluster_close(&c);
}

/* ---- A requester ---------------------------------------------------------------------------- */

/* What it had wanted is dropped, and noted; others are served as before; it may come again. */
TEST(test_rio_03_a_requester_that_is_gone_does_no_harm)
{
	static uint8_t others[LENGTH];
	struct weft_rio_requester *other;
	struct cluster_move m = { .bytes = others, .length = LENGTH };
	struct crowd w;
	uint32_t noted;

	cluster_open(&c, "delay:20ms(mem:1M)");
	other = cluster_requester(&c, 1);
	m.device = cluster_device(other, "disk").number;
	m.tag = cluster_memory(other, others, sizeof(others));
	for (int round = 0; round < 5; round++) {
		crowd_open(&w, 0);
		noted = cluster_notes(&c);
		crowd_ask(&w, 0);
		cluster_wait_notes(&c, noted + MANY);
		cluster_close_requester(&c, 0);
		cluster_fill(memory, sizeof(memory), (uint8_t)round);
		memcpy(kept, memory, sizeof(memory));
		EXPECT_EQ(cluster_write(other, m), WEFT_OK);
		EXPECT_EQ(cluster_read(other, m), WEFT_OK);
		EXPECT_MEM(memory, kept, sizeof(memory));
	}
	cluster_wait_note(&c, "left requester 7.1");
	EXPECT(cluster_noted(&c, "peer_gone"));
	crowd_open(&w, 0);
	crowd_ask(&w, 0);
	crowd_wait(&w);
	EXPECT_EQ(w.reasons[WEFT_OK], MANY);
	cluster_close(&c);
}

static uint32_t count_in(const char *folder)
{
	uint32_t count = 0;
	DIR *d = opendir(folder);

	REQUIRE(d);
	while (readdir(d))
		count++;
	closedir(d);
	return count;
}

/* Memory that it was not told to forget is forgotten with it, and all else that it had. */
TEST(test_rio_02i_a_requester_that_is_closed_leaves_nothing_behind)
{
	uint32_t threads = 0, descriptors = 0;

	cluster_open(&c, "mem:1M");
	for (int round = 0; round < 12; round++) {
		struct weft_rio_sge s = { .memory = memory, .length = 512 };
		struct crowd w;
		uint32_t handle;

		crowd_open(&w, 0);
		s.tag = w.tag;
		EXPECT_EQ(weft_rio_memory_expose(w.q, &s, true, &handle), WEFT_OK);
		if (round % 2) {
			EXPECT_EQ(weft_rio_memory_expose(w.q, &s, false, &handle), WEFT_OK);
			EXPECT_EQ(weft_rio_memory_conceal(w.q, handle), WEFT_OK);
		}
		crowd_ask(&w, 0);
		if (round % 3 == 0)
			crowd_wait(&w);
		cluster_close_requester(&c, 0);
		if (round == 5) {
			threads = count_in("/proc/self/task");
			descriptors = count_in("/proc/self/fd");
		}
	}
	/* The others may not have seen yet that the last one is gone. */
	EXPECT(count_in("/proc/self/task") <= threads);
	EXPECT(count_in("/proc/self/fd") <= descriptors + 4);
	cluster_close(&c);
}

/* ---- Time ----------------------------------------------------------------------------------- */

/* A request that is late is over: what its device does later is not written to memory. */
TEST(test_rio_02i_a_late_request_ends_in_time_and_nothing_is_written_afterwards)
{
	struct crowd w;

	cluster_open(&c, "delay:300ms(mem:1M)");
	crowd_open(&w, 0);
	crowd_ask(&w, 50 * MS);
	crowd_wait(&w);
	EXPECT_EQ(w.reasons[WEFT_R_RIO_TIMEOUT], MANY);
	cluster_fill(memory, sizeof(memory), 9);
	memcpy(kept, memory, sizeof(memory));
	/* Behind all of those. */
	EXPECT_EQ(cluster_io(w.q, &(struct weft_rio_transaction){ .operation = WEFT_RIO_FLUSH,
								  .device = w.device }),
		  WEFT_OK);
	EXPECT_MEM(memory, kept, sizeof(memory));
	cluster_close(&c);
}

/* No process listens: the waiting caller is told why. */
TEST(test_rio_02i_caller_that_finds_no_owner_learns_why)
{
	struct weft_rio_requester *q;
	struct weft_rio_device d;
	enum weft_reason r;

	cluster_open(&c, "mem:1M");
	cluster_stop_owner(&c);
	q = cluster_requester(&c, 0);
	r = weft_rio_device_find(q, "", SECONDS / 5, &d);
	EXPECT(r != WEFT_OK && r != WEFT_R_RIO_DEVICE);
	EXPECT_EQ(cluster_io(q, &(struct weft_rio_transaction){ .operation = WEFT_RIO_FLUSH }),
		  WEFT_R_RIO_OWNER_LEFT);
	/* And is heard when there is one. */
	cluster_start_owner(&c);
	(void)cluster_device(q, "disk");
	cluster_close(&c);
}
