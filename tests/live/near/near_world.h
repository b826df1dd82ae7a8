/* SPDX-License-Identifier: BSD-2-Clause */
/* Adapters of this host with a queue pair each, whose packets go by shared memory. */
#pragma once

#include <stdlib.h>

#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"

#define WORLD_OR_SKIP()                                                                            \
	do {                                                                                       \
		const char *why = own_network_enter();                                             \
		if (why)                                                                           \
			SKIP(why);                                                                 \
		REQUIRE(setenv("WEFT_NEAR", "on", 1) == 0);                                        \
	} while (0)

struct end {
	struct weft_adapter *adapter;
	struct node node;
};

void end_open(struct end *e, struct weft_adapter *adapter);
void end_close(struct end *e);
struct weft_roce_counts counts_of(const struct end *e);

/* What a peer in another process has to know of a node. */
struct card {
	uint32_t number, tag;
	uint64_t addr;
};

struct card card_of(const struct node *n);

/* Whether the kernel lets processes access memory of others, as their user. */
bool direct_is_allowed(void);

/* How often memory shared with other adapters is mapped, without the two parts of our own board. */
int shared_mapped(void);
