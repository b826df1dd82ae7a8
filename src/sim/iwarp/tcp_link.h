/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One simulated TCP connection that carries iWARP: two byte streams, and at each end first the
 * set-up (cm/mpa_setup.h), then the stream (iwarp/iwarp.h), driven as the real driver does.
 *
 * Not here: who dials, what is posted, and whether what happens is right.
 */
#pragma once

#include "cm/mpa_setup.h"
#include "iwarp/iwarp.h"
#include "sim/world/stream.h"

/* Events of an end, whose node is 2 * link + side; the scenario numbers them from kind_first on. */
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
	struct weft_qp *qp;	/* of the scenario, which sets it and takes it away */
	struct list *attention; /* of the process, that of iwarp_attend() */
	struct mpa_setup setup;
	struct iwarp_terms terms; /* from the stream's beginning on */
	struct iwarp_stream *stream;
	struct sim_stream out; /* to the other end */
	struct world_alarm due;
	bool has_request;  /* responder: tcp_end_answer() is due */
	bool was_stream;   /* the stream has begun */
	bool is_blocked;   /* the pipe takes no more */
	bool is_readable;  /* the other pipe may have something */
	bool is_deaf;	   /* of the scenario: it reads nothing, as a process that hangs */
	bool is_corrupted; /* a bit that came here was flipped */
};

struct tcp_link {
	struct world *world;
	struct prng prng;
	uint32_t id, kind_first;
	struct tcp_end ends[2];
	enum iwarp_rtr rtr;   /* wished instead of the one that the set-up chose, if it chose one */
	uint32_t corrupt_ppm; /* a bit of what is received is flipped, if there is a CRC */
	uint64_t corruptions;
	bool has_pipes;
};

struct tcp_dial {
	uint32_t initiator; /* side */
	struct mpa_config configs[2];
	struct sim_faults faults[2]; /* of what a side sends */
	uint32_t bytes_max[2];	     /* of its pipe */
	enum iwarp_rtr rtr;
	uint32_t corrupt_ppm;
};

void tcp_link_init(struct tcp_link *l, struct world *w, uint32_t id, uint32_t kind_first);
void tcp_link_fini(struct tcp_link *l);

/* Begins a connection, anew if there was one that is over. 0, or -1 when memory is short. */
int tcp_link_dial(struct tcp_link *l, const struct tcp_dial *dial);

/* Whether neither end has anything to do with it any more. */
bool tcp_link_is_over(const struct tcp_link *l);

/* The connection is reset by the network. */
void tcp_link_reset(struct tcp_link *l);

/* No fault happens from now on, and cuts are healed. */
void tcp_link_calm(struct tcp_link *l);

/* What an end's event says. */
void tcp_end_event(struct tcp_end *e, enum tcp_event event);

/* The stream asked for attention, or something was done to the queue pair. */
void tcp_end_service(struct tcp_end *e);

/* A responder's answer to its request. */
void tcp_end_answer(struct tcp_end *e, bool accepts);

/* The queue pair is not to be had any more: a set-up ends, a stream goes on without it. */
void tcp_end_abandon(struct tcp_end *e);

/* The process is gone: all that is left is what its kernel sends, a reset or the end. */
void tcp_end_kill(struct tcp_end *e, bool is_reset);
