/* SPDX-License-Identifier: BSD-2-Clause */
/* A guest's network card, by vhost-user: what its messages (lan_vhost_messages.c) set up. */
#pragma once

#include "driver/lan/lan_inside.h"
#include "lan/vring.h"

/* As the guest sees them: it receives by the first, and sends by the second. */
enum { VHOST_RX, VHOST_TX, VHOST_RINGS };

struct vhost_ring {
	struct lan_watch kick;
	int call; /* -1: none */
	bool is_enabled, is_placed;
	struct vhost_address where;
	struct lan_vring ring;
};

/* What a guest shares: all its regions, in one range of this process's addresses. */
struct vhost_memory {
	uint8_t *at; /* NULL: nothing is mapped */
	uint64_t bytes;
	bool is_guarded; /* it may be cut short at any time */
};

struct lan_vhost {
	struct lan_port port;
	char path[LAN_NAME_MAX];
	struct lan_listener from;
	struct lan_watch peer;
	uint64_t features, protocol;
	struct lan_guest guest;
	struct vhost_memory memory;
	struct vhost_ring rings[VHOST_RINGS];
	struct lan_vring_form form;
	/* A message that has come in part, and its descriptors. */
	uint32_t got;
	uint8_t message[VHOST_MESSAGE_MAX];
	uint32_t fd_count;
	int fds[VHOST_REGIONS_MAX];
};

/* Reads messages and does what they say. Another reason than WEFT_OK ends the connection. */
enum weft_reason vhost_messages(struct lan_vhost *v);

/* Gives up all that the peer gave. */
void vhost_forget(struct lan_vhost *v);

/* Maps the regions of a guest, each from its file. What is mapped is to be unmapped in any case. */
enum weft_reason vhost_memory_map(struct vhost_memory *m, struct lan_guest *g, const int *fds);
void vhost_memory_unmap(struct vhost_memory *m);

/*
 * Calls work(argument), which accesses the memory, and makes no system call. False: some of it is
 * not there any more, and work did not return.
 */
bool vhost_memory_touch(const struct vhost_memory *m, void (*work)(void *), void *argument);

/* Rings that can be used: enabled, placed, with a descriptor for kicks. */
bool vhost_is_ready(const struct lan_vhost *v);
