/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/stream.h"

#include <string.h>

enum {
	LAYER_RDMAP = 0,
	LAYER_DDP = 1,
	LAYER_MPA = 2,
	/* Error types of RDMAP and of DDP. */
	LOCAL = 0,
	PROTECTION = 1,
	OPERATION = 2,
	TAGGED = 1,
	UNTAGGED = 2
};

/*
 * The Terminate for each reason: in answer to a Read or atomic request, and in answer to anything
 * else. Reasons that are not listed are local (RFC 5040 section 4.8: local catastrophic error).
 */
static const struct cause {
	uint8_t reason;
	uint8_t request[3]; /* layer, type, code */
	uint8_t other[3];
} causes[] = {
	/* IWARP-06 and IWARP-09, a to f. DDP has no code for access rights, so RDMAP's is used. */
	{ WEFT_R_TAG_INDEX, { 0, 1, 0x00 }, { 1, 1, 0x00 } },
	{ WEFT_R_TAG_INVALID, { 0, 1, 0x00 }, { 1, 1, 0x00 } },
	{ WEFT_R_TAG_SPENT, { 0, 1, 0x00 }, { 1, 1, 0x00 } },
	{ WEFT_R_TAG_REGION_REMOTE, { 0, 1, 0x00 }, { 1, 1, 0x00 } },
	{ WEFT_R_TAG_TYPE, { 0, 1, 0x00 }, { 1, 1, 0x00 } },
	{ WEFT_R_TAG_INSTANCE, { 0, 1, 0x00 }, { 1, 1, 0x00 } },
	{ WEFT_R_TAG_PD, { 0, 1, 0x03 }, { 1, 1, 0x02 } },
	{ WEFT_R_TAG_QP, { 0, 1, 0x03 }, { 1, 1, 0x02 } },
	{ WEFT_R_RANGE_BOUNDS, { 0, 1, 0x01 }, { 1, 1, 0x01 } },
	{ WEFT_R_RANGE_WRAP, { 0, 1, 0x04 }, { 1, 1, 0x03 } },
	{ WEFT_R_RIGHT_REMOTE_READ, { 0, 1, 0x02 }, { 0, 1, 0x02 } },
	{ WEFT_R_RIGHT_REMOTE_WRITE, { 0, 1, 0x02 }, { 0, 1, 0x02 } },
	{ WEFT_R_RIGHT_REMOTE_ATOMIC, { 0, 1, 0x02 }, { 0, 1, 0x02 } },
	{ WEFT_R_QP_REMOTE_RIGHTS, { 0, 1, 0x02 }, { 0, 1, 0x02 } },
	{ WEFT_R_SPACE_MAPPING, { 0, 1, 0x01 }, { 1, 1, 0x01 } },
	{ WEFT_R_MEMORY_GONE, { 0, 1, 0x01 }, { 1, 1, 0x01 } },
	{ WEFT_R_SPACE_UNMAPPED, { 0, 1, 0x01 }, { 1, 1, 0x01 } },
	{ WEFT_R_TOUCH_SECOND, { 0, 1, 0x00 }, { 1, 1, 0x00 } },
	{ WEFT_R_TOUCH_BEYOND, { 0, 1, 0x00 }, { 1, 1, 0x00 } },
	{ WEFT_R_ATOMIC_ALIGN, { 0, 2, 0x07 }, { 0, 2, 0x07 } },
	{ WEFT_R_READ_SINK, { 1, 1, 0x00 }, { 1, 1, 0x00 } },
	/* Messages. */
	{ WEFT_R_MPA_CRC, { 2, 0, 0x02 }, { 2, 0, 0x02 } },
	{ WEFT_R_MPA_MARKER, { 2, 0, 0x03 }, { 2, 0, 0x03 } },
	{ WEFT_R_MPA_DEPTH, { 2, 0, 0x06 }, { 2, 0, 0x06 } },
	{ WEFT_R_MPA_RTR, { 2, 0, 0x07 }, { 2, 0, 0x07 } },
	{ WEFT_R_DDP_QUEUE, { 1, 2, 0x01 }, { 1, 2, 0x01 } },
	{ WEFT_R_RECEIVER_NOT_READY, { 1, 2, 0x02 }, { 1, 2, 0x02 } },
	{ WEFT_R_READS_BEYOND, { 1, 2, 0x02 }, { 1, 2, 0x02 } },
	{ WEFT_R_DDP_MSN, { 1, 2, 0x03 }, { 1, 2, 0x03 } },
	{ WEFT_R_DDP_OFFSET, { 1, 2, 0x04 }, { 1, 2, 0x04 } },
	{ WEFT_R_RECEIVE_TOO_SHORT, { 1, 2, 0x05 }, { 1, 2, 0x05 } },
	{ WEFT_R_RDMAP_VERSION, { 0, 2, 0x05 }, { 0, 2, 0x05 } },
	{ WEFT_R_RDMAP_OPCODE, { 0, 2, 0x06 }, { 0, 2, 0x06 } },
	{ WEFT_R_RDMAP_RESPONSE, { 0, 2, 0x06 }, { 0, 2, 0x06 } },
	{ WEFT_R_RDMAP_BODY, { 0, 2, 0xff }, { 0, 2, 0xff } },
	{ WEFT_R_PEER_RECEIVE, { 0, 2, 0x07 }, { 0, 2, 0x07 } },
};

static bool is_request(enum rdmap_opcode opcode)
{
	return opcode == RDMAP_READ_REQUEST || opcode == RDMAP_ATOMIC_REQUEST;
}

/* All refusals of a Send's tag have one code (SQR-10). */
static bool is_bad_invalidate(enum weft_reason reason, const struct rx_segment *seg)
{
	bool is_of_tag = (reason >= WEFT_R_TAG_INDEX && reason <= WEFT_R_TAG_INSTANCE) ||
			 reason == WEFT_R_INVALIDATE_REGION || reason == WEFT_R_WINDOW_UNBOUND ||
			 reason == WEFT_R_REGION_HAS_WINDOWS;

	return is_of_tag && seg && !seg->is_tagged &&
	       (seg->opcode == RDMAP_SEND_INVALIDATE || seg->opcode == RDMAP_SEND_SE_INVALIDATE);
}

static void set_cause(struct rdmap_terminate *t, const uint8_t cause[3])
{
	t->layer = cause[0];
	t->type = cause[1];
	t->code = cause[2];
}

/* RFC 5040 section 4.8: which headers a Terminate carries, by error. */
static void add_headers(struct rdmap_terminate *t, const struct rx_segment *seg)
{
	bool is_local = t->layer != LAYER_MPA && t->type == LOCAL;

	if (!seg || seg->header_bytes == 0 || is_local || t->layer == LAYER_MPA)
		return;
	t->has_length = true;
	t->has_ddp = true;
	t->segment_bytes = (uint16_t)seg->ulpdu_bytes;
	t->ddp_bytes = seg->header_bytes;
	memcpy(t->ddp, seg->header, seg->header_bytes);
	if (t->layer == LAYER_RDMAP && t->type == PROTECTION && seg->has_read) {
		t->has_rdma = true;
		t->read = seg->read;
	}
}

/* The peer named the memory; else its loss is a local error. */
static bool is_named(const struct rx_segment *seg)
{
	return seg && (seg->opcode == RDMAP_WRITE || is_request(seg->opcode));
}

void terminate_of(enum weft_reason reason, const struct rx_segment *seg, struct rdmap_terminate *t)
{
	static const uint8_t not_invalidated[3] = { LAYER_RDMAP, PROTECTION, 0x09 };
	static const uint8_t version[2][3] = { { LAYER_DDP, UNTAGGED, 0x06 },
					       { LAYER_DDP, TAGGED, 0x04 } };

	*t = (struct rdmap_terminate){ .layer = LAYER_RDMAP, .type = LOCAL };
	if (is_bad_invalidate(reason, seg)) {
		set_cause(t, not_invalidated);
	} else if (reason == WEFT_R_DDP_VERSION && seg) {
		set_cause(t, version[seg->is_tagged]);
	} else if (reason != WEFT_R_MEMORY_GONE || is_named(seg)) {
		for (size_t i = 0; i < sizeof(causes) / sizeof(*causes); i++) {
			const struct cause *c = &causes[i];

			if (c->reason == reason)
				set_cause(t,
					  seg && is_request(seg->opcode) ? c->request : c->other);
		}
	}
	add_headers(t, seg);
}

/* ---- The peer's ----------------------------------------------------------------------------- */

/* The reason for a Terminate of the peer: the first of ours that has this code. */
static const struct {
	uint8_t cause[3];
	uint8_t reason;
} meanings[] = {
	{ { 0, 1, 0x00 }, WEFT_R_TAG_INVALID },
	{ { 1, 1, 0x00 }, WEFT_R_TAG_INVALID },
	{ { 0, 1, 0x01 }, WEFT_R_RANGE_BOUNDS },
	{ { 1, 1, 0x01 }, WEFT_R_RANGE_BOUNDS },
	{ { 0, 1, 0x02 }, WEFT_R_PEER_RIGHTS },
	{ { 0, 1, 0x03 }, WEFT_R_TAG_PD },
	{ { 1, 1, 0x02 }, WEFT_R_TAG_PD },
	{ { 0, 1, 0x04 }, WEFT_R_RANGE_WRAP },
	{ { 1, 1, 0x03 }, WEFT_R_RANGE_WRAP },
	{ { 0, 1, 0x09 }, WEFT_R_PEER_INVALIDATE },
	{ { 0, 2, 0x09 }, WEFT_R_PEER_INVALIDATE },
	{ { 0, 2, 0x05 }, WEFT_R_RDMAP_VERSION },
	{ { 0, 2, 0x06 }, WEFT_R_RDMAP_OPCODE },
	{ { 0, 2, 0x07 }, WEFT_R_PEER_RECEIVE },
	{ { 0, 2, 0xff }, WEFT_R_RDMAP_BODY },
	{ { 1, 1, 0x04 }, WEFT_R_DDP_VERSION },
	{ { 1, 2, 0x06 }, WEFT_R_DDP_VERSION },
	{ { 1, 2, 0x01 }, WEFT_R_DDP_QUEUE },
	{ { 1, 2, 0x02 }, WEFT_R_RECEIVER_NOT_READY },
	{ { 1, 2, 0x03 }, WEFT_R_DDP_MSN },
	{ { 1, 2, 0x04 }, WEFT_R_DDP_OFFSET },
	{ { 1, 2, 0x05 }, WEFT_R_RECEIVE_TOO_SHORT },
	{ { 2, 0, 0x02 }, WEFT_R_MPA_CRC },
	{ { 2, 0, 0x03 }, WEFT_R_MPA_MARKER },
	{ { 2, 0, 0x06 }, WEFT_R_MPA_DEPTH },
	{ { 2, 0, 0x07 }, WEFT_R_MPA_RTR },
};

enum weft_reason terminate_reason(const struct rdmap_terminate *t)
{
	const uint8_t cause[3] = { t->layer, t->type, t->code };

	for (size_t i = 0; i < sizeof(meanings) / sizeof(*meanings); i++) {
		if (memcmp(meanings[i].cause, cause, sizeof(cause)) == 0)
			return (enum weft_reason)meanings[i].reason;
	}
	return WEFT_R_PEER_TERMINATED;
}

bool terminate_is_of_request(const struct rdmap_terminate *t, uint32_t *msn)
{
	struct rd r = rd_of(t->ddp, t->ddp_bytes);
	struct ddp_untagged h;
	enum rdmap_opcode opcode;

	if (!t->has_ddp || ddp_is_tagged(t->ddp[0]) || ddp_untagged_decode(&h, &r) != DDP_OK)
		return false;
	*msn = h.msn;
	return rdmap_control_decode(h.ulp, false, h.qn, &opcode) == RDMAP_OK && is_request(opcode);
}

enum weft_status terminate_status(enum weft_reason reason)
{
	switch (reason) {
	case WEFT_R_TAG_INVALID:
	case WEFT_R_RANGE_BOUNDS:
	case WEFT_R_RANGE_WRAP:
	case WEFT_R_TAG_PD:
	case WEFT_R_PEER_RIGHTS:
		return WEFT_ERR_REMOTE_ACCESS;
	case WEFT_R_PEER_RECEIVE:
	case WEFT_R_PEER_TERMINATED:
		return WEFT_ERR_REMOTE_OPERATION;
	default:
		return WEFT_ERR_REMOTE_REQUEST;
	}
}
