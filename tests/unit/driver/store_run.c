/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/driver/store_run.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "driver/file/file_inside.h"
#include "test.h"

enum { PATIENCE_MS = 60000 };

void store_run_pass_time(struct store_run *run)
{
	if (store_due(run->store) == STORE_NEVER)
		return;
	run->now_ns = store_due(run->store);
	store_expire(run->store, run->now_ns);
}

/* Waits for the files below. If they have nothing done in a millisecond, virtual time passes. */
static void wait_or_pass_time(struct store_run *run)
{
	uint64_t due_ns = store_due(run->store);
	struct pollfd p = { .fd = run->fd, .events = POLLIN };

	REQUIRE(run->fd >= 0 || due_ns != STORE_NEVER);
	if (run->fd >= 0 && poll(&p, 1, due_ns == STORE_NEVER ? PATIENCE_MS : 1) == 1)
		return;
	REQUIRE(due_ns != STORE_NEVER);
	store_run_pass_time(run);
}

struct store_request *store_run_wait(struct store_run *run)
{
	uint64_t begin_ms = store_run_clock();

	for (;;) {
		struct store_request *r = store_next_done(run->store, run->now_ns);

		if (r)
			return r;
		REQUIRE(run->store->under_way > 0 && store_run_may_wait(begin_ms));
		wait_or_pass_time(run);
	}
}

bool store_run_is_readable(const struct store_run *run)
{
	struct pollfd p = { .fd = run->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

enum weft_reason store_run_one(struct store_run *run, struct store_request *r)
{
	enum weft_reason reason = store_submit(run->store, r, run->now_ns);

	if (reason != WEFT_OK)
		return reason;
	REQUIRE(store_run_wait(run) == r);
	return r->reason;
}

enum weft_reason store_run_op(struct store_run *run, enum store_op op, uint64_t offset, void *bytes,
			      uint64_t length)
{
	struct span span = { bytes, (size_t)length };
	struct store_request r = { .op = op, .offset = offset, .length = length };

	if (bytes) {
		r.spans = &span;
		r.span_count = 1;
	}
	return store_run_one(run, &r);
}

static void make_in(const char *where, char path[64])
{
	snprintf(path, 64, "%.40s/weft-store-XXXXXX", where);
	REQUIRE(mkdtemp(path) != NULL);
}

void store_folder_make(char path[64])
{
	make_in(harness_folder(), path);
}

void store_folder_make_on_disk(char path[64])
{
	const char *chosen = getenv("TMPDIR");

	make_in(chosen ? chosen : "/tmp", path);
}

void store_folder_remove(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	char name[400];

	REQUIRE(folder != NULL);
	while ((entry = readdir(folder))) {
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (entry->d_name[0] != '.')
			REQUIRE(unlink(name) == 0);
	}
	closedir(folder);
	REQUIRE(rmdir(path) == 0);
}

bool store_has_uring(void)
{
	struct file_ring *ring;

	if (file_ring_create(&ring) < 0)
		return false;
	file_ring_destroy(ring);
	return true;
}

uint64_t store_run_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000) + (uint64_t)ts.tv_nsec / 1000000;
}

bool store_run_may_wait(uint64_t begin_ms)
{
	return store_run_clock() - begin_ms < PATIENCE_MS;
}
