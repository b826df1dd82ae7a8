/* SPDX-License-Identifier: BSD-2-Clause */
/* Roles that look for what comes before they sleep (docs/rio.md, Latency). */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rio/cluster.h"

enum { KIB = 1 << 10, ROUNDS = 50, LOOKS = 100 };

static struct cluster c;
static uint8_t out[64 * KIB], in[64 * KIB];

static const struct weft_rio_store store = { .number = 1, .name = "disk", .text = "mem:1M" };

static void open_spinning(uint64_t spin_ns)
{
	cluster_begin(&c);
	c.spin_ns = spin_ns;
	cluster_add_iounit(&c, &store, 1);
	cluster_start_owner(&c);
}

/* For much less than a request takes, for about as long, and for longer than the test. */
TEST(test_rio_02_a_cluster_whose_roles_spin_reads_what_it_wrote)
{
	static const uint64_t spins_ns[] = { 1, 50 * 1000, 3600 * SECONDS };

	for (size_t k = 0; k < sizeof(spins_ns) / sizeof(spins_ns[0]); k++) {
		struct weft_rio_requester *q;
		uint32_t device, out_tag, in_tag;

		open_spinning(spins_ns[k]);
		q = cluster_requester(&c, 0);
		device = cluster_device(q, "disk").number;
		out_tag = cluster_memory(q, out, sizeof(out));
		in_tag = cluster_memory(q, in, sizeof(in));
		for (uint32_t i = 0; i < ROUNDS; i++) {
			uint32_t length = i % 2 ? 512 : sizeof(out);

			cluster_fill(out, length, (uint8_t)i);
			EXPECT_EQ(cluster_write(q, (struct cluster_move){ device, 4096, out, length,
									  out_tag }),
				  WEFT_OK);
			EXPECT_EQ(cluster_read(q, (struct cluster_move){ device, 4096, in, length,
									 in_tag }),
				  WEFT_OK);
			EXPECT(memcmp(in, out, length) == 0);
		}
		cluster_close(&c); /* a spinning thread must not delay the end */
	}
}

/* However long it would look for more: else this would not end today. */
TEST(test_rio_02i_who_waits_and_spins_waits_no_longer_than_it_said)
{
	struct weft_rio_requester *q;
	struct weft_rio_result ended;
	uint32_t count = 1;

	open_spinning(24 * 3600 * SECONDS);
	q = cluster_requester(&c, 0);
	(void)cluster_device(q, "disk");
	for (uint32_t i = 0; i < 3; i++) {
		EXPECT_EQ(weft_rio_request_wait(q, SECONDS / 1000, &ended, 1, &count), WEFT_OK);
		EXPECT_EQ(count, 0U);
	}
	cluster_close(&c);
}

/* Whether a thread of this process, other than the caller, runs or wants to. */
static bool is_busy(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	bool is_any = false;

	REQUIRE(d);
	while ((e = readdir(d)) != NULL) {
		char path[64], line[256] = "";
		const char *state;
		FILE *f;

		if (e->d_name[0] == '.' || atoi(e->d_name) == gettid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atoi(e->d_name));
		f = fopen(path, "r");
		if (!f)
			continue; /* it has ended */
		REQUIRE(fgets(line, sizeof(line), f));
		fclose(f);
		state = strrchr(line, ')');
		REQUIRE(state);
		is_any |= state[2] == 'R';
	}
	closedir(d);
	return is_any;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECONDS + (uint64_t)t.tv_nsec;
}

/* Most looks find all threads asleep; timers wake them now and then. */
TEST(test_rio_02_roles_that_spin_sleep_when_nothing_is_asked)
{
	struct weft_rio_requester *q;
	uint64_t end_ns = now_ns() + 30 * SECONDS;
	uint32_t device, tag, asleep = 0;

	open_spinning(50 * 1000);
	q = cluster_requester(&c, 0);
	device = cluster_device(q, "disk").number;
	tag = cluster_memory(q, in, sizeof(in));
	for (uint32_t i = 0; i < ROUNDS; i++)
		EXPECT_EQ(cluster_read(q, (struct cluster_move){ device, 0, in, 4096, tag }),
			  WEFT_OK);
	while (asleep < LOOKS) {
		asleep = is_busy() ? asleep / 2 : asleep + 1;
		REQUIRE(now_ns() < end_ns);
		sched_yield();
	}
	cluster_close(&c);
}
