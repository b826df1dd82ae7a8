/* SPDX-License-Identifier: BSD-2-Clause */
/* Sessions of <weft/iscsi.h>: what programs do with a disk, by TCP and by iSER on both wires. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/sys/clock.h"
#include "live/iscsi/session_fixture.h"
#include "live/iscsi/session_sends.h"

enum { MIB = 1 << 20, BLOCK = 512 };

static uint64_t random_of(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

/* Elements that end anywhere, over all of the memory. */
static uint32_t cut(struct weft_sge *sges, uint8_t *memory, uint32_t length, uint64_t *state)
{
	uint32_t count = 0, at = 0;

	while (at < length) {
		uint32_t n = 1 + (uint32_t)random_of(state) % (length / 3 + 1);

		if (n > length - at || count == 15)
			n = length - at;
		sges[count++] = (struct weft_sge){ (uintptr_t)memory + at, n, 0 };
		at += n;
	}
	return count;
}

/* What is written at random places is read there, whatever the elements are. */
static void move_at_random(enum session_way way)
{
	enum { DISK = 32 * MIB, MOST = 3 * MIB };
	uint8_t *model = calloc(1, DISK), *memory = malloc(MOST);
	struct weft_sge sges[16];
	struct weft_iscsi_session *s;
	uint64_t state = 7 + (uint64_t)way;
	struct unit u = { 0 };

	unit_open(&u, NULL);
	s = must_open(unit_url(&u, way, NULL), NULL);
	for (uint32_t i = 0; i < 60; i++) {
		bool is_large = i % 10 == 0;
		uint32_t blocks = 1 + (uint32_t)random_of(&state) % (is_large ? 6000 : 200);
		uint64_t lba = random_of(&state) % (DISK / BLOCK - blocks);
		struct weft_iscsi_request r = { .offset = lba * BLOCK,
						.length = blocks * BLOCK,
						.sges = sges };
		struct weft_iscsi_result e;

		r.operation = i % 2 ? WEFT_ISCSI_READ : WEFT_ISCSI_WRITE;
		r.is_fua = i % 3 == 0;
		fill(memory, r.length, i);
		r.sge_count = cut(sges, memory, (uint32_t)r.length, &state);
		EXPECT_EQ(weft_iscsi_request_do(s, &r, &e), WEFT_OK);
		EXPECT_EQ(e.done_bytes, r.length);
		if (r.operation == WEFT_ISCSI_WRITE)
			memcpy(model + r.offset, memory, r.length);
		else
			EXPECT(memcmp(model + r.offset, memory, r.length) == 0);
	}
	for (uint64_t at = 0; at < DISK; at += MIB) {
		EXPECT_EQ(move(s, WEFT_ISCSI_READ, at, memory, MIB), WEFT_OK);
		EXPECT(memcmp(model + at, memory, MIB) == 0);
	}
	weft_iscsi_session_close(s);
	unit_close(&u);
	free(model);
	free(memory);
}

TEST(test_iscsi_s1_session_moves_data_by_tcp)
{
	move_at_random(WAY_TCP);
}

TEST(test_iscsi_s1_session_moves_data_by_iser_on_roce)
{
	move_at_random(WAY_ROCE);
}

TEST(test_iscsi_s1_session_moves_data_by_iser_on_iwarp)
{
	move_at_random(WAY_IWARP);
}

/* Requests that a program submits one behind another leave together, not by a send each. */
TEST(test_iscsi_session_requests_of_a_burst_share_sends)
{
	enum { BYTES = 4096, DEPTH = 16, ROUNDS = 100 };
	uint8_t *memory = calloc(DEPTH, BYTES);
	struct weft_iscsi_result e[DEPTH];
	struct weft_iscsi_session *s;
	struct unit u = { 0 };
	uint64_t before;

	unit_open(&u, NULL);
	s = must_open(unit_url(&u, WAY_TCP, NULL), NULL);
	before = session_sends(s);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t ended = 0, count;

		for (uint32_t i = 0; i < DEPTH; i++) {
			struct weft_sge sge = { (uintptr_t)memory + i * BYTES, BYTES, 0 };
			struct weft_iscsi_request r = { .operation = WEFT_ISCSI_READ,
							.offset = i * BYTES,
							.length = BYTES,
							.sges = &sge,
							.sge_count = 1 };

			EXPECT_EQ(weft_iscsi_request_submit(s, &r), WEFT_OK);
		}
		for (; ended < DEPTH; ended += count)
			REQUIRE(weft_iscsi_request_wait(s, UINT64_MAX, e, DEPTH, &count) ==
				WEFT_OK);
	}
	harness_note("%u requests, %llu sends", ROUNDS * DEPTH,
		     (unsigned long long)(session_sends(s) - before));
	EXPECT(session_sends(s) - before < ROUNDS * DEPTH / 2);
	weft_iscsi_session_close(s);
	unit_close(&u);
	free(memory);
}

/*
 * A program that submits and does something else: its requests are carried out meanwhile. Memory is
 * the session's until it says otherwise: only the kernel may look at it before.
 */
TEST(test_iscsi_session_requests_go_without_a_wait)
{
	enum { BYTES = 4096, DEPTH = 16 };
	uint8_t *memory = malloc(DEPTH * BYTES);
	struct weft_iscsi_result e[DEPTH];
	struct weft_iscsi_session *s;
	struct unit u = { 0 };
	uint32_t ended = 0, count;
	uint64_t end_ns;
	int self;

	unit_open(&u, NULL);
	self = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	REQUIRE(self >= 0);
	s = must_open(unit_url(&u, WAY_TCP, NULL), NULL);
	memset(memory, 0xaa, DEPTH * BYTES);
	REQUIRE(move(s, WEFT_ISCSI_WRITE, 0, memory, DEPTH * BYTES) == WEFT_OK);
	memset(memory, 0, DEPTH * BYTES);
	for (uint32_t i = 0; i < DEPTH; i++) {
		struct weft_sge sge = { (uintptr_t)memory + i * BYTES, BYTES, 0 };
		struct weft_iscsi_request r = { .operation = WEFT_ISCSI_READ,
						.offset = i * BYTES,
						.length = BYTES,
						.sges = &sge,
						.sge_count = 1 };

		REQUIRE(weft_iscsi_request_submit(s, &r) == WEFT_OK);
	}
	end_ns = clock_ns() + UINT64_C(20000000000);
	for (uint32_t i = 0; i < DEPTH; i++) {
		off_t last = (off_t)(uintptr_t)&memory[(i + 1) * BYTES - 1];
		uint8_t byte = 0;

		while (byte != 0xaa) {
			REQUIRE(pread(self, &byte, 1, last) == 1 && clock_ns() < end_ns);
			sched_yield();
		}
	}
	close(self);
	for (; ended < DEPTH; ended += count)
		REQUIRE(weft_iscsi_request_wait(s, UINT64_MAX, e, DEPTH, &count) == WEFT_OK);
	weft_iscsi_session_close(s);
	unit_close(&u);
	free(memory);
}

TEST(test_iscsi_session_tells_unit_and_terms)
{
	struct weft_iscsi_session *s;
	struct weft_iscsi_info i;
	struct unit u = { 0 };

	unit_open(&u, "lun 0 mem:32M\nlun 3 readonly mem:1M\n");
	s = must_open(unit_url(&u, WAY_TCP, "0?header_digest=crc32c&data_digest=crc32c"), NULL);
	EXPECT_EQ(weft_iscsi_session_query(s, &i), WEFT_OK);
	EXPECT_EQ(i.state, WEFT_ISCSI_CONNECTED);
	EXPECT_EQ(i.reason, WEFT_OK);
	EXPECT_EQ(i.size_bytes, 32 * MIB);
	EXPECT_EQ(i.block_bytes, BLOCK);
	EXPECT_EQ(i.device_type, 0);
	EXPECT(!i.is_readonly && i.has_write_cache && i.can_fua && i.can_unmap && i.is_thin);
	EXPECT_STR(i.vendor, "weft");
	EXPECT(strncmp(i.identity, "naa.3", 5) == 0);
	EXPECT_STR(i.target_name, SESSION_TARGET);
	EXPECT(strncmp(i.initiator_name, "iqn.2026-11.local.weft:", 23) == 0);
	EXPECT_EQ(i.portal.port, u.ports[WAY_TCP]);
	EXPECT(i.has_header_digest && i.has_data_digest);
	EXPECT_EQ(i.r2t_max, 8);
	EXPECT(i.commands > 5);
	weft_iscsi_session_close(s);
	s = must_open(unit_url(&u, WAY_TCP, "3"), NULL);
	EXPECT_EQ(weft_iscsi_session_query(s, &i), WEFT_OK);
	EXPECT(i.is_readonly && i.lun == 3 && i.size_bytes == MIB);
	EXPECT(!i.has_header_digest && !i.has_data_digest);
	weft_iscsi_session_close(s);
	unit_close(&u);
}

/* Many requests under way, and a program that waits by poll() on the descriptor alone. */
static void run_by_descriptor(enum session_way way)
{
	enum { BYTES = 8192, REQUESTS = 400, DEPTH = 32 };
	uint8_t *memory = malloc(DEPTH * BYTES);
	struct weft_iscsi_options o = { .requests_max = DEPTH };
	struct weft_iscsi_result e[8];
	uint32_t submitted = 0, ended = 0, count;
	struct weft_iscsi_session *s;
	struct unit u = { 0 };
	int fd;

	unit_open(&u, NULL);
	s = must_open(unit_url(&u, way, NULL), &o);
	EXPECT_EQ(weft_iscsi_session_fd(s, &fd), WEFT_OK);
	while (ended < REQUESTS) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		for (; submitted < REQUESTS && submitted - ended < DEPTH; submitted++) {
			uint8_t *at = memory + submitted % DEPTH * BYTES;
			struct weft_sge sge = { (uintptr_t)at, BYTES, 0 };
			struct weft_iscsi_request r = { .operation = WEFT_ISCSI_WRITE,
							.offset = submitted * BYTES,
							.length = BYTES,
							.sges = &sge,
							.sge_count = 1,
							.context = &memory[submitted] };

			EXPECT_EQ(weft_iscsi_request_submit(s, &r), WEFT_OK);
			if (submitted - ended == DEPTH - 1)
				EXPECT_EQ(weft_iscsi_request_submit(s, &r), WEFT_R_BUSY);
		}
		REQUIRE(poll(&p, 1, 20000) == 1);
		EXPECT_EQ(weft_iscsi_request_wait(s, 0, e, 8, &count), WEFT_OK);
		for (uint32_t i = 0; i < count; i++) {
			EXPECT_EQ(e[i].reason, WEFT_OK);
			EXPECT_EQ(e[i].done_bytes, BYTES);
			EXPECT((uint8_t *)e[i].context >= memory &&
			       (uint8_t *)e[i].context < memory + REQUESTS);
		}
		ended += count;
	}
	EXPECT_EQ(weft_iscsi_request_wait(s, 0, e, 8, &count), WEFT_OK);
	EXPECT_EQ(count, 0);
	weft_iscsi_session_close(s);
	unit_close(&u);
	free(memory);
}

TEST(test_iscsi_session_descriptor_tells_by_tcp)
{
	run_by_descriptor(WAY_TCP);
}

TEST(test_iscsi_session_descriptor_tells_by_iser)
{
	run_by_descriptor(WAY_IWARP);
}

/* ---- Threads -------------------------------------------------------------------------------- */

struct worker {
	struct weft_iscsi_session *s;
	const char *url;
	uint32_t number;
	bool has_failed;
};

static void *work(void *of)
{
	enum { BYTES = 16384 };
	struct worker *w = of;
	uint8_t *a = malloc(BYTES), *b = malloc(BYTES);
	struct weft_iscsi_session *own = w->s;

	if (!own)
		w->has_failed |= weft_iscsi_session_open(w->url, NULL, &own) != WEFT_OK;
	for (uint32_t i = 0; i < 50 && !w->has_failed; i++) {
		uint64_t at = (uint64_t)w->number * MIB + i % 8 * BYTES;

		fill(a, BYTES, w->number * 100 + i);
		w->has_failed |= move(own, WEFT_ISCSI_WRITE, at, a, BYTES) != WEFT_OK;
		w->has_failed |= move(own, WEFT_ISCSI_READ, at, b, BYTES) != WEFT_OK;
		w->has_failed |= memcmp(a, b, BYTES) != 0;
	}
	if (!w->s)
		weft_iscsi_session_close(own);
	free(a);
	free(b);
	return NULL;
}

static void run_threads(struct worker *workers, uint32_t count)
{
	pthread_t threads[4];

	for (uint32_t i = 0; i < count; i++)
		REQUIRE(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
	for (uint32_t i = 0; i < count; i++) {
		pthread_join(threads[i], NULL);
		EXPECT(!workers[i].has_failed);
	}
}

TEST(test_iscsi_session_threads_share_one)
{
	struct worker workers[4];
	struct weft_iscsi_session *s;
	struct unit u = { 0 };

	unit_open(&u, NULL);
	s = must_open(unit_url(&u, WAY_TCP, NULL), NULL);
	for (uint32_t i = 0; i < 4; i++)
		workers[i] = (struct worker){ .s = s, .number = i };
	run_threads(workers, 4);
	weft_iscsi_session_close(s);
	unit_close(&u);
}

TEST(test_iscsi_session_threads_have_one_each)
{
	struct worker workers[3];
	struct unit u = { 0 };

	unit_open(&u, NULL);
	for (uint32_t i = 0; i < WAYS; i++)
		workers[i] = (struct worker){ .url = unit_url(&u, (enum session_way)i, NULL),
					      .number = i };
	run_threads(workers, WAYS);
	unit_close(&u);
}

static uint32_t descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	uint32_t count = 0;

	REQUIRE(d);
	while (readdir(d))
		count++;
	closedir(d);
	return count;
}

/*
 * Closing leaves nothing, of sessions that were and of those that could not be opened. The target
 * is in this process: its adapter keeps sockets of its last peers by UDP, and closes others in its
 * time.
 */
TEST(test_iscsi_session_leaves_no_descriptors)
{
	enum { SESSIONS = 16 * WAYS, KEPT_MAX = 32 };
	struct weft_iscsi_session *s;
	struct unit u = { 0 };
	uint32_t before;
	int fd;

	unit_open(&u, NULL);
	weft_iscsi_session_close(must_open(unit_url(&u, WAY_ROCE, NULL), NULL));
	before = descriptors();
	for (int i = 0; i < SESSIONS; i++) {
		enum session_way way = (enum session_way)(i % WAYS);

		s = must_open(unit_url(&u, way, NULL), NULL);
		EXPECT_EQ(weft_iscsi_session_fd(s, &fd), WEFT_OK);
		weft_iscsi_session_close(s);
		EXPECT_EQ(weft_iscsi_session_open(unit_url(&u, way, "9"), NULL, &s),
			  WEFT_R_ISCSI_LUN);
	}
	for (int i = 0; i < 20000 && descriptors() > before + KEPT_MAX; i++)
		poll(NULL, 0, 1);
	EXPECT(descriptors() <= before + KEPT_MAX);
	unit_close(&u);
}

/* The child of a fork has a session that is over, and closes it; the parent's goes on. */
TEST(test_iscsi_session_is_its_process_own)
{
	struct weft_iscsi_session *s;
	struct weft_iscsi_info i;
	uint8_t block[BLOCK] = { 1 };
	struct unit u = { 0 };
	int status;
	pid_t child;

	unit_open(&u, NULL);
	s = must_open(unit_url(&u, WAY_TCP, NULL), NULL);
	child = fork();
	if (child == 0) {
		bool is_over = move(s, WEFT_ISCSI_WRITE, 0, block, BLOCK) == WEFT_R_ISCSI_ENDED &&
			       weft_iscsi_session_query(s, &i) == WEFT_R_ISCSI_ENDED;

		weft_iscsi_session_close(s);
		_exit(is_over ? 0 : 1);
	}
	REQUIRE(waitpid(child, &status, 0) == child);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(move(s, WEFT_ISCSI_WRITE, 0, block, BLOCK), WEFT_OK);
	EXPECT_EQ(weft_iscsi_session_query(s, &i), WEFT_OK);
	EXPECT_EQ(i.reconnects, 0);
	weft_iscsi_session_close(s);
	unit_close(&u);
}
