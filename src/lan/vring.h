/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The split rings of a virtual network card (VIRTIO 1.2 section 2.7), as the device sees them, in
 * memory that the guest shares and may change at any time. Every address is looked up in the table
 * of its memory, every index is bounded, and what is read is read once. The caller
 * sees to it that the memory stays mapped.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "lan/frame.h"
#include "wire/vhost_user.h"

enum {
	LAN_VRING_MAX = 32768,
	LAN_CHAIN_MAX = 64,  /* buffers of one chain */
	LAN_CHAINS_MAX = 64, /* of one frame */
};

struct lan_guest {
	uint32_t count;
	struct lan_guest_region {
		struct vhost_region is;
		uint8_t *at;
	} regions[VHOST_REGIONS_MAX];
};

/* Regions that neither wrap, are empty, nor overlap, where the guest sees them. */
bool lan_guest_is_good(const struct lan_guest *g);

struct lan_vring {
	uint32_t size; /* a power of 2; 0: not known yet */
	uint16_t seen; /* chains that were taken */
	uint16_t made; /* chains that the guest had made available at the last look for one */
	uint16_t used; /* chains that were given back */
	uint16_t told; /* used, when the guest was last asked whether it wants to know */
	bool has_event_idx;
	uint8_t *descriptors, *available, *in_use; /* NULL: not known yet */
};

enum weft_reason lan_vring_size(struct lan_vring *v, uint32_t size);

/* Where its parts are, in addresses of the machine's process; aligned as section 2.7 says. */
enum weft_reason lan_vring_place(struct lan_vring *v, const struct lan_guest *g,
				 const struct vhost_address *a);

/*
 * Takes the next frame that the guest sends into f (room bytes at most), behind a header of so many
 * bytes. *got: there was one; with WEFT_R_LAN_LONG and _SHORT it is gone, any other reason ends the
 * use of the ring.
 */
enum weft_reason lan_vring_receive(struct lan_vring *v, const struct lan_guest *g,
				   uint32_t header_bytes, struct lan_frame *f, bool *got);

/*
 * Puts a frame into buffers of the guest: one chain, or with may_merge as many as it takes. *done:
 * it is there; with WEFT_OK and not done the guest has no room now. WEFT_R_LAN_LONG: a chain is too
 * short for it, and stays.
 */
struct lan_vring_form {
	uint32_t header_bytes;
	bool may_merge;
};
enum weft_reason lan_vring_send(struct lan_vring *v, const struct lan_guest *g,
				const struct lan_vring_form *form, const struct lan_frame *f,
				bool *done);

/* Whether the guest wants to be told of what was given back since this was last asked. */
bool lan_vring_wants_call(struct lan_vring *v);

/*
 * Asks the guest to tell of the chains that it makes available after the last look for one. True:
 * there is one more already, of which it may not tell.
 */
bool lan_vring_ask_kick(struct lan_vring *v);
