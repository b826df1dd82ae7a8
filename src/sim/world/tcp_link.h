/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulated TCP connection that carries iWARP: two byte streams, and at each end first the MPA
 * set-up (cm/mpa_setup.h), then the stream (iwarp/iwarp.h), driven as the real driver does.
 *
 * The scenario decides who dials, what is posted, and whether the outcome is right.
 */
#pragma once

#include "cm/mpa_setup.h"
#include "iwarp/iwarp.h"
#include "sim/world/stream.h"

/* Events of an end; their node is 2 * link + side. The scenario numbers them from kind_first on. */
enum tcp_event { TCP_READABLE = 0, TCP_WRITABLE, TCP_DUE, TCP_EVENTS };

enum tcp_phase {
	TCP_IDLE = 0, /* not dialled yet */
	TCP_SETUP,
	TCP_STREAM,
	TCP_ENDED
};

struct tcp_link;

struct tcp_end {
	struct tcp_link *link;
	uint32_t side;
	enum tcp_phase phase;
	struct weft_qp *qp;	/* set and cleared by the scenario */
	struct list *attention; /* the process's, as for iwarp_attend() */
	struct mpa_setup setup;
	struct iwarp_terms terms; /* valid once the stream has begun */
	struct iwarp_stream *stream;
	struct sim_stream out; /* to the other end */
	struct world_alarm due;
	bool has_request;  /* responder: tcp_end_answer() is due */
	bool was_stream;   /* the stream has begun */
	bool is_blocked;   /* the outgoing pipe is full */
	bool is_readable;  /* the incoming pipe may have data */
	bool is_deaf;	   /* set by the scenario: reads nothing, like a hung process */
	bool is_corrupted; /* a received bit was flipped */
};

struct tcp_link {
	struct world *world;
	struct prng prng;
	uint32_t id, kind_first;
	struct tcp_end ends[2];
	enum iwarp_rtr rtr;   /* replaces the RTR message that the set-up chose, if any */
	uint32_t corrupt_ppm; /* chance that a received bit is flipped, if a CRC is used */
	uint64_t corruptions;
	bool has_pipes;
};

struct tcp_dial {
	uint32_t initiator; /* side */
	struct mpa_config configs[2];
	struct sim_faults faults[2]; /* per sending side */
	uint32_t bytes_max[2];	     /* capacity of its pipe */
	enum iwarp_rtr rtr;
	uint32_t corrupt_ppm;
};

void tcp_link_init(struct tcp_link *l, struct world *w, uint32_t id, uint32_t kind_first);
void tcp_link_fini(struct tcp_link *l);

/* Starts a connection; a former one must be over. 0, or -1: out of memory. */
int tcp_link_dial(struct tcp_link *l, const struct tcp_dial *dial);

/* Have both ends finished with the connection? */
bool tcp_link_is_over(const struct tcp_link *l);

/* The network resets the connection. */
void tcp_link_reset(struct tcp_link *l);

/* Ends all faults, and heals cuts. */
void tcp_link_calm(struct tcp_link *l);

/* Handles an event of an end. */
void tcp_end_event(struct tcp_end *e, enum tcp_event event);

/* The stream asked for attention, or the queue pair was changed. */
void tcp_end_service(struct tcp_end *e);

/* The responder's answer to the connection request. */
void tcp_end_answer(struct tcp_end *e, bool accepts);

/* The queue pair is no longer available: a set-up ends, a stream continues without it. */
void tcp_end_abandon(struct tcp_end *e);

/* The process is gone: its kernel sends a reset or the end of the stream. */
void tcp_end_kill(struct tcp_end *e, bool is_reset);
