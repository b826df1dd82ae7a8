/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One captured frame taken apart: link header, IP, TCP or the UDP of RoCE. What is neither is named
 * and left alone. Frames of an InfiniBand fabric are taken apart elsewhere.
 * Checksums are not looked at: a capture on the sending machine has them before they are filled in.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"

/* What the frame begins with. */
enum packet_link {
	PACKET_ETHERNET,
	PACKET_SLL,	   /* Linux cooked */
	PACKET_SLL2,	   /* the same, version 2 */
	PACKET_IP,	   /* either version, at once */
	PACKET_NULL,	   /* BSD loopback: four bytes of address family, in either order */
	PACKET_INFINIBAND, /* frames of a fabric */
	PACKET_ERF,	   /* records of ERF, in which Wireshark reads such frames */
};

enum packet_kind {
	PACKET_TCP,
	PACKET_ROCE,	 /* UDP to port 4791 */
	PACKET_FRAME,	 /* of a fabric, from its local route header to its VCRC */
	PACKET_OTHER,	 /* another protocol */
	PACKET_FRAGMENT, /* of an IP packet, which is not put together here */
	PACKET_MALFORMED /* a header that is cut off or contradicts itself */
};

enum { PACKET_FIN = 0x01, PACKET_SYN = 0x02, PACKET_RST = 0x04, PACKET_ACK = 0x10 };

struct packet_end {
	uint8_t version; /* of IP: 4 or 6 */
	uint8_t addr[16];
	uint16_t port;
};

struct packet {
	struct packet_end from, to;
	uint32_t seq, ack;
	uint8_t flags;
	uint32_t ipv4_word;   /* identification and fragment word; of IPv6 0 */
	struct rd data;	      /* what the capture has of the segment, or of the datagram */
	uint32_t lacks_bytes; /* what it has not: the frame was cut when captured */
};

/*
 * The frame is what was captured of frame_bytes. The packet is filled in for PACKET_TCP,
 * PACKET_ROCE, which has no seq, ack and flags, and PACKET_FRAME, which has data only; its data
 * then points into the frame.
 */
enum packet_kind packet_decode(struct packet *p, enum packet_link link, struct rd frame,
			       uint32_t frame_bytes);
