/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames as they are on a link of the fabric (FAB-02, docs/wire/fabric.md): the local route header
 * (IBA 7.7), the global one for other subnets, transport headers, payload, the invariant CRC that
 * the endnodes check, and the variant CRC that every link checks (IBA 7.8).
 *
 * Not here: flits, of which a link makes frames (wire/flit.h), and RoCE, which has UDP instead.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "wire/iba.h"
#include "wire/iba_grh.h"

enum {
	IBA_LRH_BYTES = 8,
	IBA_VCRC_BYTES = 2,
	IBA_FRAME_MIN = IBA_LRH_BYTES + IBA_ICRC_BYTES + IBA_VCRC_BYTES,
	IBA_FRAME_MAX = IBA_LRH_BYTES + IBA_GRH_BYTES + IBA_PACKET_MAX + IBA_VCRC_BYTES,
	IBA_LID_NONE = 0,
	IBA_LID_MULTICAST_MIN = 0xc000, /* up to 0xfffe */
	IBA_LID_PERMISSIVE = 0xffff,	/* this end of the link, whatever its LID is */
	IBA_LANES = 16,
	IBA_LANE_MANAGEMENT = 15
};

/* What follows the local route header. */
enum iba_next {
	IBA_NEXT_RAW = 0,  /* an EtherType and a packet of that */
	IBA_NEXT_IPV6 = 1, /* an IPv6 packet of no transport of ours */
	IBA_NEXT_BTH = 2,
	IBA_NEXT_GRH = 3
};

struct iba_lrh {
	uint8_t lane;  /* virtual lane of this link */
	uint8_t level; /* service level: the same in the whole subnet (FAB-11) */
	enum iba_next next;
	uint16_t to, from; /* LIDs */
	uint32_t bytes;	   /* from this header to the ICRC: a multiple of 4 */
};

struct iba_frame {
	struct iba_lrh lrh;
	bool has_grh;
	struct iba_grh grh;
	bool has_packet; /* not of a raw one */
	struct iba_packet packet;
};

/*
 * The local route header of a whole frame, with its VCRC; `length` is that of the frame. On error
 * *h has not changed. Reads no byte behind the header.
 */
enum weft_reason iba_lrh_decode(struct iba_lrh *h, const uint8_t *bytes, size_t length);
void iba_lrh_encode(const struct iba_lrh *h, uint8_t bytes[IBA_LRH_BYTES]);

/* A whole frame; checks both CRCs. On error *f has not changed. The payload points into bytes. */
enum weft_reason iba_frame_decode(struct iba_frame *f, const uint8_t *bytes, size_t length);

/* The same without a look at the VCRC, of a frame that crossed no cable. */
enum weft_reason iba_frame_decode_inner(struct iba_frame *f, const uint8_t *bytes, size_t length);

/* What a port looks at in passing. */
struct iba_glance {
	struct iba_lrh lrh;
	bool has_bth; /* else it is raw, or ends before its BTH does; and the rest is 0 */
	uint8_t opcode;
	uint16_t p_key;
	uint32_t dest_qp;
};

/* Of a whole frame; no CRC is looked at. On error *g has not changed. */
enum weft_reason iba_frame_glance(struct iba_glance *g, const uint8_t *bytes, size_t length);

/*
 * A frame with a transport header: fills in lrh.bytes, the padding, and both CRCs. Returns its
 * length.
 */
uint32_t iba_frame_encode(const struct iba_frame *f, uint8_t bytes[IBA_FRAME_MAX]);

/* The lane that a frame says it is on, which each link may change; the VCRC is of it, too. */
static inline uint8_t iba_lane(const uint8_t *bytes)
{
	return bytes[0] >> 4;
}

static inline void iba_lane_put(uint8_t *bytes, uint8_t lane)
{
	bytes[0] = (uint8_t)(lane << 4 | (bytes[0] & 0xf));
}

/*
 * The CRC register of the ICRC behind the headers of a route: the local one, which `bytes` begin
 * with, and the global one. What may change on the way counts as ones (IBA 7.8.1).
 */
uint32_t iba_frame_icrc_begin(const uint8_t *bytes, bool has_grh);

/* Over what precedes it on the wire. */
uint16_t iba_vcrc(const uint8_t *bytes, size_t length);

/* Writes it at the end of a whole frame. */
void iba_vcrc_put(uint8_t *bytes, size_t length);
