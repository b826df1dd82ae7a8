/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The header before a frame that says what its receiver has still to do (VIRTIO 1.2 section 5.1.6),
 * little endian, as virtio, TAP interfaces and packet sockets of Linux have it on the processors
 * that weft is for.
 */
#pragma once

#include <stdint.h>

enum {
	VIRTIO_NET_BYTES = 10,
	VIRTIO_NET_BUFFERS_BYTES = 12, /* with num_buffers */
};

enum virtio_net_flag {
	VIRTIO_NET_NEEDS_CSUM = 1, /* the checksum from csum_start on is the pseudo header's */
	VIRTIO_NET_DATA_VALID = 2, /* the checksum was found good */
};

enum virtio_net_gso {
	VIRTIO_NET_GSO_NONE = 0,
	VIRTIO_NET_GSO_TCPV4 = 1,
	VIRTIO_NET_GSO_TCPV6 = 4,
	VIRTIO_NET_GSO_UDP_L4 = 5,
	VIRTIO_NET_GSO_ECN = 0x80, /* with one of TCP */
};

struct virtio_net {
	uint8_t flags;
	uint8_t gso_type;
	uint16_t hdr_len;
	uint16_t gso_size;
	uint16_t csum_start;
	uint16_t csum_offset;
	uint16_t buffers;
};

/* The first 10 bytes, which leave buffers as it is, or all 12. */
void virtio_net_decode(struct virtio_net *h, const uint8_t *bytes, uint32_t length);
void virtio_net_encode(const struct virtio_net *h, uint8_t bytes[VIRTIO_NET_BUFFERS_BYTES]);
