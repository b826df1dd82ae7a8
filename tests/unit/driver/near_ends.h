/* SPDX-License-Identifier: BSD-2-Clause */
/* Near paths of adapters, without adapters: what sends and takes packets by shared memory. */
#pragma once

#include "driver/near/near.h"
#include "own_network.h"
#include "test.h"

enum { NEAR_SLOT = 7, FAR_SLOT = 9, PATIENCE_MS = 20000, STALL_NS = 10 * 1000 * 1000 };

struct end {
	struct near *near;
	int epoll;
};

struct pair {
	struct end near, far;
	struct ib_path path; /* from near to far */
};

#define WORLD_OR_SKIP()                                                                            \
	do {                                                                                       \
		const char *why = own_network_enter();                                             \
		if (why)                                                                           \
			SKIP(why);                                                                 \
	} while (0)

extern const struct ib_path path_to_far;

void end_open(struct end *e, uint8_t adapter_slot);
void end_open_for_runs(struct end *e, uint8_t adapter_slot);
void end_close(struct end *e);

/* Handles what epoll reports now, or within so much time. False: nothing. */
bool end_look(struct end *e, int timeout_ms);

/* The first of what epoll reports. */
void end_look_once(struct end *e);

/* The number of the way from one to the other, which has taken the ring. */
uint32_t connect_ends(struct end *from, struct end *to, uint8_t to_slot);

void pair_open(struct pair *p);
void pair_close(struct pair *p);

/* Sends a packet of two spans, with bytes that tell its number. */
enum near_sent put(struct end *e, const struct ib_path *path, uint32_t n, size_t length);
void expect_packet(struct end *e, uint32_t n, size_t length);
