/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections in spaces over the process, and pages that are put out of memory. */
#pragma once

#include "live/verbs_fixture.h"

enum way { OVER_TCP, OVER_UDP, WAYS };

/*
 * One side: memory of the process, all of it one segment of a space, registered as one region. The
 * space has a pager: the test.
 */
struct side {
	struct tcp_end end; /* its node is of the space */
	struct weft_space *space;
	uint64_t bytes;
	/* Set by the test. */
	bool is_kernel;	 /* its domain is privileged */
	bool is_handing; /* of its space: SEND-04 */
};

struct live_pair {
	enum way way;
	struct side near, far;
};

enum {
	ALL_RIGHTS = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ | WEFT_REMOTE_WRITE |
		     WEFT_REMOTE_ATOMIC | WEFT_BIND
};

/* Two adapters, connected, with so many bytes of memory each. */
void live_pair_open(struct live_pair *p, enum way way, uint64_t bytes);
void live_pair_close(struct live_pair *p);

/* New queue pairs of the same adapters, for those that failed. */
void live_pair_connect_anew(struct live_pair *p);

/* Over TCP a Write has ended when the kernel has it: a message behind it shows it placed. */
void live_pair_expect_placed(struct live_pair *p);

/* An end of a pair: without its connection. */
void side_open(struct side *s, enum way way, uint64_t bytes, enum weft_qp_service service);
void side_close(struct side *s);

/* How many of the pages of a range are in memory. */
uint64_t pages_in_memory(const void *at, uint64_t bytes);

/* How many accesses had to wait for a page so far. */
uint64_t side_faults(const struct side *s);

/*
 * Swap for the tests of this process, in a file of /tmp that goes when the process ends, however it
 * ends. NULL, or why it cannot be had.
 */
const char *swap_open(void);
void swap_close(void);

/*
 * What is touched for the first time between these two can be swapped out; the rest of the process
 * stays in memory, else its own faults would bring neighbours in.
 */
void swap_enter(void);
void swap_leave(void);

/* Asks the kernel once to put pages into swap: it may keep some. */
void swap_press(void *at, uint64_t bytes);

/* Puts pages into swap. False: the kernel keeps some of them in memory. */
bool swap_out(void *at, uint64_t bytes);
