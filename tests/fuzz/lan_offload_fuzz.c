/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A virtio-net header and a frame: segments have the frame's payload, in order, and are no longer
 * than it says. All memory is as long as what it holds, for the address sanitizer to watch.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "lan/offload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void cut(const struct lan_frame *f)
{
	struct lan_cut c;
	uint32_t want, at;

	if (lan_cut_begin(&c, f) != WEFT_OK)
		return;
	at = c.payload;
	for (uint32_t i = 0; (want = lan_cut_want(&c)) > 0; i++) {
		uint8_t *segment = malloc(want);

		CHECK(segment && i < LAN_SEGMENTS_MAX);
		CHECK(want <= c.payload + f->net.gso_size);
		lan_cut_next(&c, segment);
		CHECK(memcmp(segment + c.payload, f->bytes + at, want - c.payload) == 0);
		at += want - c.payload;
		free(segment);
	}
	CHECK(at == f->length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lan_frame f = { 0 };

	if (size < VIRTIO_NET_BYTES)
		return 0;
	virtio_net_decode(&f.net, data, VIRTIO_NET_BYTES);
	f.length = (uint32_t)(size - VIRTIO_NET_BYTES);
	f.bytes = malloc(f.length + 1);
	CHECK(f.bytes);
	memcpy(f.bytes, data + VIRTIO_NET_BYTES, f.length);
	f.bytes = realloc(f.bytes, f.length ? f.length : 1);
	CHECK(f.bytes);
	if (lan_frame_check(&f) == WEFT_OK) {
		if (f.net.gso_type != VIRTIO_NET_GSO_NONE)
			cut(&f);
		else if (lan_frame_needs(&f) & LAN_CSUM)
			lan_checksum(&f);
	}
	free(f.bytes);
	return 0;
}
