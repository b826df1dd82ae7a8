/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside the hub: fabric_hub.c has connections and what they say, fabric_hub_frames.c frames. */
#pragma once

#include "base/list.h"
#include "driver/fabric/fabric_hub.h"

/* A service or a group that an adapter has asked for. */
struct claim {
	struct list link;
	uint64_t service;
	uint8_t gid[16]; /* of a group */
	uint32_t count;
};

struct hub_port {
	struct list link; /* of the node's */
	uint32_t node, port;
	struct attach_state state;
	struct list adapters;
	struct list ready; /* in hub.ready: has room again */
	bool is_refused;   /* a frame was, since */
	uint8_t slot_last;
	uint32_t leaving; /* adapters that are gone, in hub.leaving */
};

struct hub_adapter {
	struct list link;   /* of the port's; not attached yet: of hub.guests; gone: hub.leaving */
	struct list active; /* in hub.active: its ring is to be read */
	struct list touched;
	struct hub_port *port; /* NULL: not attached */
	int fd;		       /* -1: it is gone */
	int bell;	       /* rung by it, and never read; -1: not attached */
	uint8_t slot;
	bool is_blocked;  /* the fabric had no room for its next frame */
	struct list full; /* in hub.full: it has had no room for a frame */
	uint64_t full_ns; /* since then */
	bool is_still;	  /* for too long: what comes is lost */
	uint32_t news;	  /* not told yet */
	uint32_t claim_count;
	struct list services, groups;
	struct ring in, out; /* gone: `in` alone */
	size_t left;	     /* of one that is gone: bytes of its ring that were put before */
};

struct fabric_hub {
	struct fabric_hub_config config;
	int epoll, listener, spare;
	bool is_awake;	    /* rings stay in active when they are empty */
	struct list *nodes; /* ports that adapters have asked for, by node */
	struct list guests, leaving, active, touched, ready;
	struct list full; /* the longest first */
	struct fabric_hub_counts counts;
	uint8_t frame[IBA_FRAME_MAX]; /* where the fabric has no room */
};

/* ---- fabric_hub.c ---- */

/* NULL: no adapter has asked for it. */
struct hub_port *hub_port_find(struct fabric_hub *h, uint32_t node, uint32_t port);

/* The adapter of a slot, or of a service; NULL: there is none. */
struct hub_adapter *hub_slot_find(struct hub_port *p, uint32_t slot);
struct hub_adapter *hub_slot_of_node(struct fabric_hub *h, uint32_t node, uint32_t slot);
struct hub_adapter *hub_service_find(struct hub_port *p, uint64_t service);
bool hub_is_member(struct hub_adapter *a, const uint8_t gid[16]);

/* Its ring is to be read. */
void hub_activate(struct fabric_hub *h, struct hub_adapter *a);

/* An adapter that does not read its messages has no use for more. */
void hub_say(struct hub_adapter *a, const struct attach_message *m);

/* What it held back may go on. What it has put goes on its way only if it leaves. */
void hub_adapter_leave(struct fabric_hub *h, struct hub_adapter *a);
void hub_adapter_end(struct fabric_hub *h, struct hub_adapter *a);

/* It has not taken as much as its ring may have at rest. */
static inline bool hub_is_half_full(struct hub_adapter *a)
{
	ring_see_taken(&a->out);
	return !a->out.is_broken && ring_used(&a->out) > a->out.bytes / 2;
}

/* What is left of it is what it has put. */
static inline bool hub_is_gone(const struct hub_adapter *a)
{
	return a->fd < 0;
}

static inline struct hub_adapter *hub_adapter_at(struct list *l)
{
	return CONTAINER_OF(l, struct hub_adapter, link);
}

/* ---- fabric_hub_frames.c ---- */

/* Reads the rings of active adapters. True: they may have more. */
bool hub_frames_take(struct fabric_hub *h);
