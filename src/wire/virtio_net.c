/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/virtio_net.h"

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] | at[1] << 8);
}

static void put16(uint8_t *at, uint16_t value)
{
	at[0] = (uint8_t)value;
	at[1] = (uint8_t)(value >> 8);
}

void virtio_net_decode(struct virtio_net *h, const uint8_t *bytes, uint32_t length)
{
	h->flags = bytes[0];
	h->gso_type = bytes[1];
	h->hdr_len = get16(bytes + 2);
	h->gso_size = get16(bytes + 4);
	h->csum_start = get16(bytes + 6);
	h->csum_offset = get16(bytes + 8);
	if (length >= VIRTIO_NET_BUFFERS_BYTES)
		h->buffers = get16(bytes + 10);
}

void virtio_net_encode(const struct virtio_net *h, uint8_t bytes[VIRTIO_NET_BUFFERS_BYTES])
{
	bytes[0] = h->flags;
	bytes[1] = h->gso_type;
	put16(bytes + 2, h->hdr_len);
	put16(bytes + 4, h->gso_size);
	put16(bytes + 6, h->csum_start);
	put16(bytes + 8, h->csum_offset);
	put16(bytes + 10, h->buffers);
}
