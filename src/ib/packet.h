/* SPDX-License-Identifier: BSD-2-Clause */
/* Builds outgoing packets: headers, payload, ICRC. */
#pragma once

#include "ib/ib.h"

/* The payload of a packet. */
struct load {
	struct mem_span spans[IB_OUT_SPANS_MAX];
	uint32_t count;
	uint32_t bytes;	  /* in all */
	uint8_t *room;	  /* for a copy; used if the payload is short, or it must be copied */
	bool is_snapshot; /* it must */
	uint8_t *copy;	  /* where it is copied to; NULL: it is sent from where it lies */
	uint64_t copied;  /* bytes of it so far */
	bool is_copied;	  /* the first span is that of the copy */
	bool is_bounced;  /* the copy is in port->bounce */
};

/* A payload that is still to be gathered; load_init_in: for a packet that is built in *out. */
void load_init(struct load *load, uint8_t *room, bool is_snapshot);
void load_init_in(struct load *load, struct ib_out *out, uint8_t opcode);

/* Copies memory to where the payload is to be. False: it is not to be copied, or is missing. */
bool load_copy(struct load *load, const struct mem_span *span);

/* Builds a packet for a path, which must live as long as *out. load: its payload, or NULL. */
void packet_write(struct ib_port *port, const struct ib_path *path, struct iba_packet *p,
		  const struct load *load, struct ib_out *out);

/* The same to the peer of a connection: fills in the fields common to its packets. */
void packet_make(struct ib_conn *c, struct iba_packet *p, const struct load *load,
		 struct ib_out *out);

/*
 * Several without payload, by a local route, alike but for their PSNs: that of *p, and those that
 * follow. Their room is given.
 */
void packet_make_row(struct ib_conn *c, struct iba_packet *p, struct ib_out *outs, uint32_t count);

/* The same by one of its two paths. */
void packet_make_by(struct ib_conn *c, const struct ib_path *path, struct iba_packet *p,
		    const struct load *load, struct ib_out *out);

/* Gathers the payload of a grant. WEFT_OK: all of it is in *load. */
enum weft_reason packet_gather_grant(struct ib_conn *c, struct mem_grant *grant, struct load *load);

/* Whether the data of the request is inline. */
static inline bool request_is_inline(const struct send_wqe *wqe)
{
	return wqe->flags & WEFT_INLINE;
}

/* Packet number i of a Send or Write: opcode and headers; payload, or why it is not available. */
void request_packet(struct ib_conn *c, const struct send_wqe *wqe, uint32_t i,
		    struct iba_packet *p);
enum weft_reason request_payload(struct ib_conn *c, struct send_wqe *wqe, uint32_t i,
				 struct load *load);

/* Its bytes; those that lie in memory: the block where they begin, and the payload from there. */
uint32_t request_bytes(const struct ib_conn *c, const struct send_wqe *wqe, uint32_t i);
bool request_block(const struct ib_conn *c, struct send_wqe *wqe, uint32_t i,
		   struct ib_block *block);
enum weft_reason request_gather(struct ib_conn *c, const struct ib_block *block, uint32_t bytes,
				struct load *load);
