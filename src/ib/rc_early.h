/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Early requests: packets of Sends and Writes that came before one that was lost. They are kept
 * until the lost one comes, and then taken in order. Nothing is checked or placed before.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/iba.h"

struct ib_conn;
struct ib_port;

enum {
	IB_EARLY_MAX = 512,	/* PSNs ahead of the expected one; a power of two */
	IB_EARLY_GAP = 8,	/* packets that may be missing at a place */
	IB_EARLY_PACKETS = 512, /* of all connections of a port */
	IB_EARLY_LISTS = 64	/* connections that have some at a time */
};

struct early_packet {
	struct early_packet *next; /* of the free ones */
	struct iba_packet p;
	uint8_t payload[IBA_PAYLOAD_MAX];
};

/* Lent to a connection while it keeps packets. */
struct early_list {
	struct early_list *next; /* of the free ones */
	uint32_t count;
	uint32_t base; /* the expected PSN; the kept ones are behind it */
	uint32_t high; /* the highest kept PSN */
	struct early_packet *packets[IB_EARLY_MAX]; /* by PSN */
};

/* The memory of a port for both; a page of it is touched when it is first needed. */
struct early_pool {
	struct early_packet *packets, *packets_free;
	struct early_list *lists, *lists_free;
	uint32_t packets_fresh, lists_fresh; /* index of the first that was never used */
	uint32_t packets_max;
};

/* False: out of memory. */
bool early_pool_init(struct early_pool *pool, uint32_t packets_max);
void early_pool_fini(struct early_pool *pool);

/* Copies a request that is ahead of the expected PSN. False: it is not kept. */
bool rc_early_keep(struct ib_conn *c, const struct iba_packet *p);

/*
 * Takes the packet of the expected PSN, to be returned by rc_early_free(); NULL: it is not there.
 * Packets of PSNs before it are dropped.
 */
struct early_packet *rc_early_take(struct ib_conn *c);
void rc_early_free(struct ib_port *port, struct early_packet *packet);

/* Drops all packets of the connection. */
void rc_early_drop(struct ib_conn *c);
