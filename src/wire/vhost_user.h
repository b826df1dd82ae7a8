/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of vhost-user (QEMU's docs/interop/vhost-user.rst), by which a virtual machine shows its
 * memory and the rings of its network card. Little endian on the processors that weft is for.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	VHOST_HEADER_BYTES = 12,
	VHOST_REGIONS_MAX = 8,
	VHOST_REGION_BYTES = 32,
	VHOST_BODY_MAX = 8 + VHOST_REGIONS_MAX * VHOST_REGION_BYTES,
	VHOST_MESSAGE_MAX = VHOST_HEADER_BYTES + VHOST_BODY_MAX,
};

enum vhost_request {
	VHOST_GET_FEATURES = 1,
	VHOST_SET_FEATURES = 2,
	VHOST_SET_OWNER = 3,
	VHOST_RESET_OWNER = 4,
	VHOST_SET_MEM_TABLE = 5,
	VHOST_SET_VRING_NUM = 8,
	VHOST_SET_VRING_ADDR = 9,
	VHOST_SET_VRING_BASE = 10,
	VHOST_GET_VRING_BASE = 11,
	VHOST_SET_VRING_KICK = 12,
	VHOST_SET_VRING_CALL = 13,
	VHOST_SET_VRING_ERR = 14,
	VHOST_GET_PROTOCOL_FEATURES = 15,
	VHOST_SET_PROTOCOL_FEATURES = 16,
	VHOST_GET_QUEUE_NUM = 17,
	VHOST_SET_VRING_ENABLE = 18,
	VHOST_NET_SET_MTU = 20,
	VHOST_REQUESTS,
};

enum vhost_flag {
	VHOST_VERSION = 1,
	VHOST_VERSION_MASK = 3,
	VHOST_REPLY = 1 << 2,
	VHOST_NEED_REPLY = 1 << 3,
};

/* Of SET_VRING_KICK, _CALL and _ERR: no descriptor comes with it. */
enum { VHOST_INDEX_MASK = 0xff, VHOST_NO_DESCRIPTOR = 0x100 };

struct vhost_header {
	uint32_t request;
	uint32_t flags;
	uint32_t size; /* of the body */
};

struct vhost_region {
	uint64_t guest; /* where the guest sees it */
	uint64_t length;
	uint64_t user;	 /* where the machine's process does */
	uint64_t offset; /* in its file */
};

struct vhost_address {
	uint32_t index, flags;
	uint64_t descriptors, used, available;
};

struct vhost_state {
	uint32_t index, number;
};

void vhost_header_decode(struct vhost_header *h, const uint8_t bytes[VHOST_HEADER_BYTES]);

/* Each false if the body has another size; *region_count is at most VHOST_REGIONS_MAX. */
bool vhost_u64_decode(uint64_t *value, const uint8_t *body, uint32_t size);
bool vhost_state_decode(struct vhost_state *s, const uint8_t *body, uint32_t size);
bool vhost_address_decode(struct vhost_address *a, const uint8_t *body, uint32_t size);
bool vhost_regions_decode(struct vhost_region *regions, uint32_t *region_count, const uint8_t *body,
			  uint32_t size);

/* An answer of 8 bytes: a number, or a ring's index and number. Returns its length. */
uint32_t vhost_u64_reply(uint8_t *to, uint32_t request, uint64_t value);
uint32_t vhost_state_reply(uint8_t *to, uint32_t request, const struct vhost_state *s);
