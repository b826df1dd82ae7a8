/* SPDX-License-Identifier: BSD-2-Clause */
/* Adapters that have only the near path, and packets between them. */
#pragma once

#include "driver/near/near.h"
#include "own_network.h"
#include "test.h"

enum { NEAR_SLOT = 7, FAR_SLOT = 9, PATIENCE_MS = 20000 };

#define WORLD_OR_SKIP()                                                                            \
	do {                                                                                       \
		const char *why = own_network_enter();                                             \
		if (why)                                                                           \
			SKIP(why);                                                                 \
	} while (0)

struct end {
	struct near *near;
	int epoll;
};

void end_open(struct end *e, uint8_t adapter_slot);
void end_open_for_runs(struct end *e, uint8_t adapter_slot);
void end_close(struct end *e);

/* Handles what epoll reports now, or within so much time. False: nothing. */
bool end_look(struct end *e, int timeout_ms);

/* The first of what epoll reports. */
void end_look_once(struct end *e);

extern const struct ib_path path_to_far;

/* The number of the way from one to the other, which has taken the ring. */
uint32_t connect_ends(struct end *from, struct end *to, uint8_t to_slot);

struct pair {
	struct end near, far;
	struct ib_path path; /* from near to far */
};

void pair_open(struct pair *p);
void pair_close(struct pair *p);

/* Sends a packet of two spans, with bytes that tell its number; and takes it. */
enum near_sent put(struct end *e, const struct ib_path *path, uint32_t n, size_t length);
void expect_packet(struct end *e, uint32_t n, size_t length);

/* Sends until there is no room; the number of packets. And takes so many. */
uint32_t fill(struct pair *p);
void take_all(struct pair *p, uint32_t packets);
