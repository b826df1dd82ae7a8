/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder: the PSN that it expects, the message that is arriving, and what is to be answered.
 * rc_resp.c takes the requests of the peer, rc_reply.c makes responses and acknowledgements.
 */
#pragma once

#include "ib/message.h"
#include "wire/iba_aeth.h"
#include "wire/iba_psn.h"

/* A Read or atomic of the peer: kept for its response, and for repeated responses. */
struct resource {
	uint32_t psn : 24, kind : 8; /* IBA_KIND_READ, IBA_KIND_ATOMIC */
	/* refused: the NAK syndrome of a refused Read; 0: it is served. */
	uint32_t msn : 24, refused : 8;
	uint32_t count : 24;
	bool is_touch_due : 1; /* once the peer has the response, a one-touch tag is used up */
	uint32_t r_key, length;
	uint32_t pd; /* of the memory */
	uint64_t va;
	uint64_t original; /* of an atomic: the value of the response */
};

/* A repeated request for packets of a kept response: those from at up to end are due. */
struct again {
	uint32_t res; /* number of the resource */
	uint32_t began, at, end;
};

struct early_list;

struct responder {
	struct weft_qp *qp; /* serves the peer's requests; NULL: it has left */
	uint32_t psn_first;
	uint32_t psn; /* expected */
	uint32_t msn;
	struct message in;
	/* To be sent after all responses. */
	bool is_ack_due, is_nak_due;
	uint32_t psn_unsaid;	  /* in a fabric: of the first frame whose ACK is due */
	uint32_t src_qp;	  /* RD: queue pair of the latest request, to which replies go */
	uint8_t nak;		  /* syndrome */
	bool is_deaf;		  /* after a NAK or RNR NAK: takes only the expected packet */
	uint32_t psn_early;	  /* the latest out-of-order PSN, while is_deaf */
	struct early_list *early; /* kept packets; NULL: none */
	uint64_t far_next_ns;	  /* until then PSNs that are far ahead are not answered */
	enum weft_reason refusal; /* of the expected request: NAKed after all responses */
	bool is_hungry;		  /* the peer was told that there is no receive */
	bool is_sink_absent;	  /* the expected packet came, and was dropped: its page was away */
	bool is_source_absent;	  /* responses wait for a page of a Read */
	bool has_touch_due;	  /* is_touch_due of a resource */
	/* Reads and atomics by number, the newest is res_next - 1. A ring of res_mask + 1. */
	struct resource *res;
	uint32_t res_mask, res_max;   /* res_max: that may wait for a response */
	uint32_t res_first, res_next; /* the kept ones */
	uint32_t res_at, res_packet;  /* the next response packet */
	uint32_t res_began;	      /* the first packet of this response */
	uint32_t res_answered;	      /* all before it had a response at least once */
	/* Repeated responses, in the order of the requests. A ring of the same size. */
	struct again *again;
	uint32_t again_first, again_next;
};

/* Whether responses to Reads or atomics are due, or to be repeated. */
static inline bool responder_is_answering(const struct responder *r)
{
	return r->res_at != r->res_next || r->again_first != r->again_next;
}

/* An ACK is due; in a fabric, of each frame from that PSN on. */
static inline void responder_ack(struct responder *r, uint32_t psn)
{
	if (!r->is_ack_due)
		r->psn_unsaid = psn;
	r->is_ack_due = true;
}

/* One of all that has come. */
static inline void responder_ack_all(struct responder *r)
{
	responder_ack(r, iba_psn_add(r->psn, IBA_PSN_MASK));
}

/* rc_resp.c */
enum weft_reason rc_resp_recv(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p);
void rc_resp_touch(struct ib_conn *c);
/* Memory has changed: asks for the packet that was dropped, and goes on with its answers. */
void rc_resp_page_came(struct ib_conn *c);
bool rc_resp_is_touched(const struct ib_conn *c, uint32_t tag);

/* Refuses the peer's request at this PSN with a fatal NAK, before responses that are due. */
void rc_resp_end(struct ib_conn *c, uint32_t psn, enum iba_nak nak, enum weft_reason reason);

/* rc_reply.c */

/* Whether an ACK is all that the responder has to send. */
bool rc_reply_is_ack(const struct ib_conn *c);
