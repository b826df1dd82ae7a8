/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The send queue: work queue elements in the order they were posted.
 *
 *	head                issued from here on          posted from here on
 *	 |  ended, begun, ended, begun ...  |  queued, queued ...  |
 *
 * Requests begin in order. Requests in flight may end in any order, but are retired in order, each
 * with at most one completion. Not here: the execution of a request (the transports).
 */
#pragma once

#include <stddef.h>

#include <weft/iscsi_qp.h>

enum wqe_state {
	WQE_QUEUED = 0,
	WQE_BEGUN, /* in flight */
	WQE_ENDED  /* its outcome is known */
};

/* One posted request. Its segments, or its inline data, or its bind follow in the slot. */
struct send_wqe {
	uint64_t id;
	uint64_t remote_addr;
	uint64_t operand; /* the value compared or added; the time of a Delay */
	uint64_t swap;
	uint32_t length; /* of all segments */
	union {
		uint32_t remote_tag;
		uint32_t ah; /* UD: number of the address handle; 0: none */
	};
	union {
		uint32_t imm;
		uint32_t invalidate_tag;
		uint32_t register_tag;
		uint32_t command_id; /* ISCSI_COMMAND */
	};
	uint32_t dest_qp_number;
	union {
		uint32_t ee;		 /* RD: number of the end-to-end context */
		uint32_t source_checked; /* RC, once begun: see mem_known_span() */
	};
	union {
		uint32_t byte_count;   /* of the outcome */
		uint32_t remote_q_key; /* until then */
	};
	uint8_t opcode, flags, sge_count;
	uint8_t state;		/* enum wqe_state */
	uint16_t reason;	/* of the outcome */
	uint8_t status;		/* the same */
	bool is_local : 1;	/* it failed locally, before anything was sent */
	bool is_registered : 1; /* the first half of REGISTER_SEND is done */
	bool has_new_tag : 1;	/* posting assigned the tag that it will make valid */
	/* Injected faults: it fails; it waits before it begins; the wait has begun. */
	bool is_doomed : 1, is_held_up : 1, is_holding : 1;
	uint64_t data[]; /* slot_bytes of the queue hold all of it */
};

/* How a request ended. */
struct outcome {
	enum weft_status status;
	enum weft_reason reason;
	uint32_t byte_count;
	bool is_local; /* it failed locally, before anything was sent */
};

enum send_wait {
	SEND_RUNNING = 0,
	SEND_DELAYED, /* the next request is a Delay whose time has not come */
	SEND_BLOCKED, /* the next request waits for a receive of the peer */
	SEND_FULL     /* the transport has no room; it calls qp_ready() when it has */
};

struct send_queue {
	uint8_t *slots;
	size_t slot_bytes, register_at; /* offset of region options in a slot; 0: none */
	size_t header_at;		/* offset of the BHS of an iSCSI PDU in a slot; 0: none */
	uint32_t max, sges_max, inline_max;
	uint32_t head;
	uint32_t begun;	 /* from head on: begun or ended, not retired */
	uint32_t count;	 /* from head on: all */
	uint32_t flying; /* requests that the transport carries, in flight */
	uint32_t reads;	 /* Reads and atomics among them */
	enum send_wait wait;
	bool is_expired; /* the time of the wait has passed */
	bool is_stopped; /* a request has failed: no later request begins */
	bool is_worked;	 /* send_queue_run() is active: it sees requests that end meanwhile */
};

/* The slot of the n-th element from the head; the element of a slot; the slot of an element. */
static inline uint32_t send_queue_slot(const struct send_queue *q, uint32_t n)
{
	return q->head + n < q->max ? q->head + n : q->head + n - q->max;
}

static inline struct send_wqe *send_queue_at(const struct send_queue *q, uint32_t slot)
{
	return (struct send_wqe *)(void *)(q->slots + slot * q->slot_bytes);
}

static inline uint32_t send_queue_index(const struct send_queue *q, const struct send_wqe *wqe)
{
	uint32_t newest = send_queue_slot(q, q->begun - 1);

	/* Nearly always the one that begins now: no division. */
	if (q->begun > 0 && send_queue_at(q, newest) == wqe)
		return newest;
	return (uint32_t)((size_t)((const uint8_t *)wqe - q->slots) / q->slot_bytes);
}

/* The length of the request that was posted last, if it has not been retired yet. */
static inline uint32_t send_queue_last_bytes(const struct send_queue *q)
{
	return q->count > 0 ? send_queue_at(q, send_queue_slot(q, q->count - 1))->length : 0;
}

static inline struct weft_sge *wqe_segments(struct send_wqe *wqe)
{
	return (struct weft_sge *)(void *)wqe->data;
}

static inline const uint8_t *wqe_inline(const struct send_wqe *wqe)
{
	return (const uint8_t *)wqe->data;
}

static inline struct weft_bind *wqe_bind(struct send_wqe *wqe)
{
	return (struct weft_bind *)(void *)wqe->data;
}

/* Only if the queue has room for region options: in privileged domains. */
static inline struct weft_region_options *wqe_region(const struct send_queue *q,
						     struct send_wqe *wqe)
{
	return (struct weft_region_options *)(void *)((uint8_t *)wqe + q->register_at);
}

/* The BHS of an ISCSI_CONTROL. Only in queues of that service. */
static inline uint8_t *wqe_header(const struct send_queue *q, struct send_wqe *wqe)
{
	return (uint8_t *)wqe + q->header_at;
}

/* Whether the transport executes it; other opcodes need no peer. */
static inline bool opcode_is_carried(uint32_t opcode)
{
	return opcode < WEFT_OP_BIND || opcode == WEFT_OP_REGISTER_SEND ||
	       opcode == WEFT_OP_ISCSI_COMMAND || opcode == WEFT_OP_ISCSI_CONTROL;
}

/* A request with a response: a Read or an atomic. */
static inline bool wqe_is_read(const struct send_wqe *wqe)
{
	return wqe->opcode == WEFT_OP_READ || wqe->opcode == WEFT_OP_COMPARE_SWAP ||
	       wqe->opcode == WEFT_OP_FETCH_ADD;
}

/* 0, or -1 when memory is short. */
int send_queue_init(struct send_queue *q, const struct weft_qp_options *options,
		    bool is_privileged);
void send_queue_fini(struct send_queue *q);
