/* SPDX-License-Identifier: BSD-2-Clause */
/* An incoming Send or Write: every check, placement, delivery. */
#pragma once

#include "ib/ib.h"

/* A message of the peer that is arriving. */
struct message {
	uint8_t kind;	       /* IBA_KIND_SEND, IBA_KIND_WRITE; IBA_KIND_NONE: no message */
	uint32_t bytes;	       /* received so far */
	struct recv_wqe *recv; /* RD Send: its receive, between its packets */
	uint64_t room;	       /* Send: of its receive */
	/* The memory of the receive was checked, and that of the Write: see mem_known_span(). */
	uint32_t recv_checked, write_checked;
	/* Write. */
	uint64_t va;
	uint32_t r_key, length;
};

/* The result of a packet of a Send or Write. */
struct verdict {
	enum weft_reason reason; /* WEFT_OK: it was placed */
	uint8_t nak;		 /* enum iba_nak, for any other reason */
	bool is_not_ready;	 /* there is no receive; no state has changed */
	bool is_absent;		 /* its page is on its way; the packet must come again */
};

/* Checks and places an in-order packet of the connection; the last one delivers the message. */
struct verdict message_take(struct ib_conn *c, const struct iba_packet *p);

/*
 * LOC-06: checks the whole receive before any of it is used. On-demand memory is paged in packet by
 * packet: else one byte of a peer would page in all of a large receive.
 */
enum weft_reason receive_check(struct weft_qp *qp);

/* Copies received bytes to the memory of a stretch. */
enum weft_reason place_list(struct weft_qp *qp, struct stretch *part, const uint8_t *bytes);
