/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The trace: what the system did, as plain values. A ring keeps the latest events; a running hash
 * covers all of them, so two runs can be compared by one number. No event contains a memory
 * address of its own.
 */
#pragma once

#include <stdint.h>

enum trace_kind {
	TRACE_NONE = 0,
	/* verbs: who = QP number */
	TRACE_QP_STATE,	    /* a = from, b = to, reason */
	TRACE_SEND_RETIRED, /* a = id, b = opcode << 8 | status, reason: a send request ended */
	TRACE_RECV_RETIRED, /* a = id, b = bytes << 8 | status, reason: a receive ended */
	TRACE_REFUSED,	    /* a = address, b = tag, reason: a peer's access was refused */
	TRACE_DROPPED,	    /* a = id, reason: an unreliable message was dropped */
	TRACE_STREAM_STATE, /* a = from, b = to: of its stream */
	/* memory: who = PD number */
	TRACE_TAG_MADE, /* a = tag, b = length */
	TRACE_TAG_GONE, /* a = tag */
	/* iwarp: who = QP number */
	TRACE_TERMINATE_SENT, /* a = layer << 16 | type << 8 | code, reason */
	TRACE_TERMINATE_TAKEN,
	/*
	 * connections: who = QP number, 0 while there is none. Each comes after a TRACE_ADDRESS of
	 * the same, and the low 16 bits of its a are that address's port.
	 */
	TRACE_ADDRESS,	      /* a, b = address of IPv6, an IPv4 one within it */
	TRACE_LISTENING,      /* at the address */
	TRACE_DIALLED,	      /* a connect to the address */
	TRACE_ARRIVED,	      /* a connection from the address */
	TRACE_ACCEPTED,	      /* the request from the address */
	TRACE_REJECTED,	      /* the same */
	TRACE_AGREED,	      /* a | ird << 16 | ord << 32, b = enum trace_terms */
	TRACE_CONNECTED,      /* both ends are in full operation */
	TRACE_CONNECT_FAILED, /* reason */
	TRACE_ENDED,	      /* reason */
	TRACE_RESET,	      /* the same, without a proper end */
	/* Events were lost before this one for lack of room: a = how many. */
	TRACE_LOST,
	/* Connections, as above. */
	TRACE_LINK_PHASE, /* a | from << 16, b = to */
	/* who = QP number or 0: an injected fault, a = enum fault */
	TRACE_FAULT,
	/* who = communication id: state of a cm_id of the IB CM; a = from, b = to, reason */
	TRACE_CM_STATE,
	/* ib: who = QP number */
	TRACE_PEER,	      /* its peer's address, as above; b = the peer's QP number */
	TRACE_PACKET_DROPPED, /* a packet to it, reason */
	TRACE_NAK_SENT,	      /* a = PSN, b = syndrome */
	TRACE_NAK_TAKEN,      /* the same */
	TRACE_TIMEOUT,	      /* a = PSN: the peer did not acknowledge it in time */
	/* iscsi: who = QP number */
	TRACE_ISCSI_STATE,	/* a = from, b = to: of its stream */
	TRACE_RESPONSE_DROPPED, /* a = task tag, reason: a SCSI Response */
	/* verbs: who = QP number; of the request or receive that has just ended */
	TRACE_IMMEDIATE_OUT, /* a = immediate data, b = bytes */
	TRACE_IMMEDIATE_IN,  /* the same */
	TRACE_PATH_STATE,    /* ib: who = QP number; a = from, b = to: of enum ib_migration */
	TRACE_KINDS,
	/* The simulator's own kinds start here. */
	TRACE_SIM = 64
};

/* In b of TRACE_AGREED; the MPA revision and the RTR message have a byte each. */
enum trace_terms {
	TRACE_IS_INITIATOR = 1 << 0,
	TRACE_HAS_CRC = 1 << 1,
	TRACE_SENDS_MARKERS = 1 << 2,
	TRACE_TAKES_MARKERS = 1 << 3,
	TRACE_REVISION_SHIFT = 8,
	TRACE_RTR_SHIFT = 16
};

struct trace_event {
	uint64_t time_ns;
	uint64_t a, b;
	uint32_t who;
	uint16_t kind;
	uint16_t reason;
};

struct trace {
	struct trace_event *events;
	uint32_t capacity;
	uint64_t count; /* events ever */
	uint64_t hash;
	uint64_t now_ns; /* set by the caller that reads the clock */
	uint64_t only;	 /* mask of 1 << kind: of the kinds below TRACE_SIM only these; 0: all */
};

/* 0, or -1 when memory is short. */
int trace_init(struct trace *t, uint32_t capacity);
void trace_fini(struct trace *t);

/* Cold: kept out of the way of code that is not traced. */
__attribute__((cold)) void trace_put(struct trace *t, const struct trace_event *event);

/* Records an event at now_ns; nothing if the trace is NULL. */
static inline void trace_add(struct trace *t, struct trace_event event)
{
	if (t)
		trace_put(t, &event);
}

/* Event number i, counted from 0; NULL if it was overwritten, or has not happened yet. */
const struct trace_event *trace_at(const struct trace *t, uint64_t i);
