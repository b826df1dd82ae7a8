/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside the near path on Linux: near.c has its life and the listener, near_host.c all else. */
#pragma once

#include <stdatomic.h>

#include "driver/near/near.h"
#include "mem/watch.h"

struct near_host {
	struct near_config config;
	struct near *near;
	struct watch listener;
	int spare_fd; /* closed to accept a connection when descriptors are short; or -1 */
	bool is_paused, is_abandoned;
	struct mem_peers peers;
	/* By slot, of adapters that send to us: the descriptor + 1, or 0. Any thread reads it. */
	atomic_int connections[MEM_PEERS_MAX];
};

struct near_link {
	struct watch watch;
	struct near_host *host;
	void (*ready)(void *end);
	void *end;
	uint8_t adapter_slot; /* of the other end; 0: not known */
};

/* Its owner is a struct near_host. */
extern const struct near_system near_linux;

/* Takes over the descriptor. NULL: out of memory; the descriptor is closed. */
struct near_link *near_link_open(struct near_host *h, int fd);

/* The unix socket of an adapter. */
struct unix_names near_names_of(uint8_t adapter_slot);
