/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of devices that take their time: runs requests to their end, in virtual time. */
#pragma once

#include "roles/device.h"

struct store_run {
	struct store *store;
	int fd;		 /* of the device; -1: it has none */
	uint64_t now_ns; /* goes to what is due when nothing else happens */
};

/* Waits for a request that is done. Something is under way. */
struct store_request *store_run_wait(struct store_run *run);

/* Goes to what is due by time, if something is. A request that is done at once takes no time. */
void store_run_pass_time(struct store_run *run);

/* Does its descriptor say that something may be done? */
bool store_run_is_readable(const struct store_run *run);

/* Submits one and waits for it; nothing else is under way. Gives the reason, of refusals too. */
enum weft_reason store_run_one(struct store_run *run, struct store_request *r);

/* A read or write of one piece of memory, or any other operation (bytes is NULL). */
enum weft_reason store_run_op(struct store_run *run, enum store_op op, uint64_t offset, void *bytes,
			      uint64_t length);

/* A folder of its own, and how to get rid of it with all that is in it. */
void store_folder_make(char path[64]);
/* For direct I/O, which not every kernel has for files in memory. */
void store_folder_make_on_disk(char path[64]);
void store_folder_remove(const char *path);

/* False where io_uring is not to be had. */
bool store_has_uring(void);

/* Milliseconds of real time. */
uint64_t store_run_clock(void);

/* False: a loop that began then has lasted longer than anything takes. */
bool store_run_may_wait(uint64_t begin_ms);
