/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A guest's memory is what the input says: its rings, chains and buffers. Whatever they are, only
 * that memory is touched, which the address sanitizer watches, and a frame is within its room.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "lan/vring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY = 4096, SIZE = 8, TURNS = 64, ROOM = 256 };

/* Small addresses, so that inputs find them. */
static const struct vhost_region region = { .guest = 0x1000, .length = MEMORY, .user = 0x100 };

static void play(struct lan_vring *v, const struct lan_guest *g, bool is_sending)
{
	const struct lan_vring_form form = { VIRTIO_NET_BUFFERS_BYTES, true };
	uint8_t *bytes = malloc(ROOM);
	enum weft_reason r = WEFT_OK;
	bool is_done = true;

	CHECK(bytes);
	memset(bytes, 1, ROOM);
	for (int i = 0; i < TURNS && is_done && (r == WEFT_OK || r == WEFT_R_LAN_LONG); i++) {
		struct lan_frame f = { .bytes = bytes, .room = ROOM, .length = ROOM };

		if (is_sending)
			r = lan_vring_send(v, g, &form, &f, &is_done);
		else
			r = lan_vring_receive(v, g, form.header_bytes, &f, &is_done);
		CHECK(f.length <= ROOM);
		(void)lan_vring_wants_call(v);
		(void)lan_vring_ask_kick(v);
	}
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct vhost_address where = { .descriptors = 0x100,
					     .available = 0x200,
					     .used = 0x300 };
	struct lan_guest g = { .count = 1, .regions[0].is = region };
	struct lan_vring v = { 0 };
	uint8_t *memory = aligned_alloc(MEMORY, MEMORY);

	if (size < 1) {
		free(memory);
		return 0;
	}
	CHECK(memory && lan_guest_is_good(&g));
	memset(memory, 0, MEMORY);
	memcpy(memory, data + 1, size - 1 < MEMORY ? size - 1 : MEMORY);
	g.regions[0].at = memory;
	v.has_event_idx = data[0] & 1;
	CHECK(lan_vring_size(&v, SIZE) == WEFT_OK);
	CHECK(lan_vring_place(&v, &g, &where) == WEFT_OK);
	play(&v, &g, data[0] & 2);
	free(memory);
	return 0;
}
