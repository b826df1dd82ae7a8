/* SPDX-License-Identifier: BSD-2-Clause */
#include "lan/frame.h"

enum { CHECKSUM_BYTES = 2 };

static bool is_gso(uint8_t type)
{
	switch (type) {
	case VIRTIO_NET_GSO_TCPV4:
	case VIRTIO_NET_GSO_TCPV4 | VIRTIO_NET_GSO_ECN:
	case VIRTIO_NET_GSO_TCPV6:
	case VIRTIO_NET_GSO_TCPV6 | VIRTIO_NET_GSO_ECN:
	case VIRTIO_NET_GSO_UDP_L4:
		return true;
	default:
		return false;
	}
}

enum weft_reason lan_frame_check(struct lan_frame *f)
{
	struct virtio_net *n = &f->net;

	if (f->length < LAN_HEADER_BYTES)
		return WEFT_R_LAN_SHORT;
	if (f->length > LAN_FRAME_MAX)
		return WEFT_R_LAN_LONG;
	n->flags &= VIRTIO_NET_NEEDS_CSUM | VIRTIO_NET_DATA_VALID;
	if (n->flags & VIRTIO_NET_NEEDS_CSUM &&
	    (n->csum_start < LAN_HEADER_BYTES ||
	     (uint32_t)n->csum_start + n->csum_offset + CHECKSUM_BYTES > f->length))
		return WEFT_R_LAN_OFFLOAD;
	if (n->gso_type == VIRTIO_NET_GSO_NONE)
		return WEFT_OK;
	/* Segments have checksums of their own: they cannot be cut where there is none. */
	if (!is_gso(n->gso_type) || n->gso_size == 0 || !(n->flags & VIRTIO_NET_NEEDS_CSUM))
		return WEFT_R_LAN_OFFLOAD;
	return WEFT_OK;
}

uint32_t lan_frame_needs(const struct lan_frame *f)
{
	uint32_t needs = f->net.flags & VIRTIO_NET_NEEDS_CSUM ? LAN_CSUM : 0;

	switch (f->net.gso_type & ~VIRTIO_NET_GSO_ECN) {
	case VIRTIO_NET_GSO_TCPV4:
		needs |= LAN_TSO4;
		break;
	case VIRTIO_NET_GSO_TCPV6:
		needs |= LAN_TSO6;
		break;
	case VIRTIO_NET_GSO_UDP_L4:
		needs |= LAN_USO;
		break;
	default:
		break;
	}
	return needs | (f->net.gso_type & VIRTIO_NET_GSO_ECN ? LAN_TSO_ECN : 0);
}
