/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stream's own struct, for the files of the offload:
 *
 *	offload.c     states, closing, deadlines, the transport's table for the verbs, public calls
 *	offload_rx.c  PDUs of the target: checks, placement, Responses, the receive queue
 *	offload_tx.c  commands, their data, control PDUs
 *
 * Bytes <-> PDUs: framing.h.
 */
#pragma once

#include "iscsi/framing/framing.h"
#include "iscsi/offload/offload.h"
#include "verbs/commands.h"

enum {
	TX_BATCH = 256 * 1024, /* bytes that are prepared ahead of the connection */
	R2TS_SPARE = 8,	       /* R2Ts that may wait, beyond one for each command */
	SCRATCH_BYTES = 512    /* for bytes that are thrown away */
};

enum offload_state {
	OFFLOAD_OPEN = 0,
	OFFLOAD_CLOSING, /* our direction is closed, the target's is not */
	OFFLOAD_CLOSED,
	OFFLOAD_ABORTED, /* closed without a proper end */
	OFFLOAD_STATES
};

/* ---- Receiving ------------------------------------------------------------------------------ */

/* Where the PDU at hand goes. */
enum rx_path {
	RX_UNKNOWN = 0, /* not judged yet */
	RX_PLACED,	/* Data-In that passed ISCSI-05: data to the command, header to a receive */
	RX_ASKED,	/* R2T that did */
	RX_ENDING,	/* SCSI Response that passed ISCSI-01i */
	RX_DROPPED,	/* one that did not */
	RX_CONSUMER	/* all of it to a receive */
};

struct offload_rx {
	enum rx_path path;
	enum weft_reason reason; /* of RX_DROPPED; of RX_CONSUMER, or WEFT_OK */
	uint32_t command_id;	 /* that it belongs to; 0: none */
	bool is_whole;		 /* its data segment goes to a receive, with the header */
	bool has_header;	 /* the header is in the claimed receive */
	uint32_t offset, bytes;	 /* of its data segment: Buffer Offset, length */
	uint32_t header_bytes;
	bool is_held;	      /* the login has ended, and its terms are awaited */
	bool is_released;     /* they have come */
	bool is_absent;	      /* it waits for a page */
	bool is_waiting;      /* it waits for a receive */
	bool is_crowded;      /* an R2T waits for room among those before it */
	uint64_t deadline_ns; /* of a receive; UINT64_MAX: none */
	bool has_stat_sn;
	uint32_t exp_stat_sn;
	uint8_t scratch[SCRATCH_BYTES];
};

/* ---- Sending -------------------------------------------------------------------------------- */

/* Data-Out PDUs that are due: the answer to an R2T, or unsolicited data. */
struct burst {
	uint32_t command_id;
	uint32_t ttt;
	uint64_t lun;
	uint32_t offset, left;
	uint32_t data_sn;
};

struct offload_tx {
	struct burst now; /* that is being cut into PDUs, if has_burst */
	bool has_burst;
	bool was_r2t;	 /* the last burst was the answer to an R2T: requests are next */
	bool is_absent;	 /* the next data waits for a page */
	uint64_t queued; /* bytes given to the framing */
	/* R2Ts that wait: a ring. */
	struct burst *r2ts;
	uint32_t r2ts_max, first, count;
};

/* What a PDU that was sent means: in the high half of its cookie. */
enum tx_cookie {
	TX_COOKIE_PART = 1, /* of a command, whose request has more */
	TX_COOKIE_LAST,	    /* the request of the command has ended */
	TX_COOKIE_CONTROL   /* low half: slot of the send queue, and this bit: */
};

#define TX_SLOT_BIT UINT32_C(0x80000000)

/* ---- The stream ----------------------------------------------------------------------------- */

struct iscsi_offload {
	struct weft_qp *qp; /* NULL: it has left */
	uint32_t number;    /* of that queue pair, for the trace */
	struct adapter *adapter;
	struct list attention_link;
	struct list *attention;
	void *owner;
	enum offload_state state;
	bool is_shut_due, is_peer_done;
	uint64_t close_wait_ns, close_ns;
	struct iscsi_framing *framing;
	struct weft_iscsi_terms terms; /* with the defaults filled in */
	struct weft_iscsi_attr counts; /* the counters of it */
	struct offload_rx rx;
	struct offload_tx tx;
};

/* offload.c */

/* Puts the stream on its owner's list. */
void offload_attention(struct iscsi_offload *s);

/* Ends the stream for an error: the queue pair fails for the reason, the connection is reset. */
__attribute__((cold)) void offload_abort(struct iscsi_offload *s, enum weft_reason reason);

/*
 * Memory of a command, through the gate: part has the kind, MEM_DATA_IN or MEM_R2T, offset and
 * length. WEFT_R_SPACE_UNMAPPED: a pager brings it, and the queue pair becomes ready then.
 */
enum weft_reason offload_spans(struct iscsi_offload *s, const struct command *c,
			       const struct stretch *part, struct mem_span *spans, uint32_t *count);

/* The same of a list of elements. */
enum weft_reason offload_list_spans(struct iscsi_offload *s, struct stretch part,
				    struct mem_span *spans, uint32_t *count);

/* The command is over: what waits of its data is sent as zeroes. False: the stream has ended. */
bool offload_command_over(struct iscsi_offload *s, struct command *c);

/* offload_rx.c */
enum iscsi_place offload_rx_place(void *owner, const struct iscsi_arrival *a, uint64_t now_ns);
enum weft_reason offload_rx_sink(void *owner, uint32_t offset, struct mem_span *spans,
				 uint32_t *count);
enum iscsi_take offload_rx_take(void *owner, const struct iscsi_arrival *a, uint64_t now_ns);

/* offload_tx.c */
enum weft_reason offload_tx_source(void *owner, uint64_t cookie, uint64_t data_at,
				   struct mem_span *spans, uint32_t *count);
void offload_tx_taken(void *owner, uint64_t cookie);
enum issue offload_tx_issue(struct weft_qp *qp, struct send_wqe *wqe);

/* Makes PDUs while there is room; wakes the send queue if it waits for room. */
void offload_tx_fill(struct iscsi_offload *s);

/* Queues the answer to an R2T; there must be room. */
bool offload_tx_can_answer(const struct iscsi_offload *s);
void offload_tx_answer(struct iscsi_offload *s, const struct burst *r2t);
