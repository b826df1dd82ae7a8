/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The conformance suite: what the verbs mean, whatever carries them.
 *
 * Its cases know only <weft/weft.h> and this header. A transport is one more file that defines
 * `pair_maker` and is linked with the same cases. A case opens a pair, uses it, and closes it;
 * closing checks that every request ended in exactly one completion and that the adapter holds no
 * more than before. What happens elsewhere is waited for, never assumed to be done when a call
 * returns.
 */
#pragma once

#include <weft/weft.h>

#include "test.h"

/* Adapters are opened by the hundred: a sanitizer too can clear such tables in no time. */
enum { PAIR_TAGS_MAX = 4096, PAIR_TRANSLATIONS_MAX = 1 << 16 };

/* What a transport can do beyond what every transport must. */
enum pair_ability {
	PAIR_REFUSAL_COMPLETES = 1 << 0, /* a refused request fails, and names the peer's reason */
	PAIR_READ_SCATTERS = 1 << 1,	 /* a Read may have several sinks (AMB-04) */
	PAIR_ATOMICS = 1 << 2,
	PAIR_KNOWS_SENDER = 1 << 3, /* receives of connected services name the sender's number */
	PAIR_ONE_ADAPTER = 1 << 4,  /* both ends are of one adapter */
	PAIR_NO_CALLS = 1 << 5,	    /* posting and polling make no system call (QP-16) */
	PAIR_ACKNOWLEDGES = 1 << 6, /* a reliable Send or Write ends when the peer has taken it */
	PAIR_SEND_IMM = 1 << 7,	    /* a Send may carry an immediate */
	PAIR_CHECKS_WHOLE = 1 << 8, /* no byte of a refused message is placed, however long it is */
	PAIR_NAMES_REASON = 1 << 9, /* what is told of a refusal is the peer's own reason */
	PAIR_PIPELINES = 1 << 10    /* requests begin while one before them waits for a receive */
};

enum {
	END_BYTES = 256 * 1024,
	SRC = 0,	     /* offset from which cases take bytes */
	DST = END_BYTES / 2, /* offset to which they bring them */
	BLANK = 0xa5,	     /* every byte of an end's memory at first */
	EVENTS_MAX = 128,
	PAIR_SEGMENTS = 32, /* of the largest requests that cases make */
	PIECE_GAP = 3	    /* bytes between the pieces of a cut */
};

struct pair_options {
	enum weft_qp_service service;
	enum weft_policy policy;
	enum weft_failure on_failure;
	bool is_privileged; /* domains are, and registration by send queue is enabled */
	bool has_srq;	    /* end 1 takes receives from a shared queue */
	bool has_spaces; /* each end has an address space, in which its memory is at SPACE_ADDR */
	bool has_one_cq; /* one completion queue serves both queues of an end */
	uint32_t cq_entries, tags_max, translations_max;
	struct weft_qp_options qp; /* sizes and flags; the queues are filled in */
	struct pair *beside;	   /* share its adapters, domains, memory and completion queues */
};

#define SPACE_ADDR ((uint64_t)0x40000)

struct pair_end {
	struct pair *pair;
	struct pair_end *peer;
	struct weft_adapter *adapter;
	uint64_t authority;	  /* of the adapter, which the suite has claimed */
	struct weft_space *space; /* NULL: the process */
	struct weft_pd *pd;
	struct weft_cq *send_cq, *recv_cq;
	struct weft_srq *srq; /* or NULL */
	struct weft_qp *qp;
	uint8_t *memory; /* END_BYTES, aligned to a page; the adapter knows it as */
	uint64_t addr;	 /* this address */
	uint32_t tag;	 /* and this region, which grants everything */
	struct weft_usage before;
	struct weft_event events[EVENTS_MAX]; /* seen, not asked for yet */
	uint32_t event_count;
};

struct pair {
	struct pair_options options;
	struct pair_end ends[2];
	bool is_overrun; /* completions were lost on purpose: do not count them at the end */
};

struct pair_maker {
	const char *name;
	uint32_t abilities; /* enum pair_ability */
	uint32_t services;  /* 1 << enum weft_qp_service */

	/* Sets ends[0].adapter and ends[1].adapter, with the limits in p->options; and back. */
	void (*open)(struct pair *p);
	void (*close)(struct pair *p);

	/* Makes the ends' queue pairs, which are in RESET, operational and able to talk. */
	void (*connect)(struct pair *p);

	/* Lets the world move; the time by which deadlines are kept. */
	void (*progress)(struct pair *p);

	/*
	 * Lets the world move until what was given to the wire is where it belongs, or waits there
	 * for a receive. NULL: it is there when a call returns.
	 */
	void (*settle)(struct pair *p);
	uint64_t (*now_ns)(const struct pair *p);

	/* How e's requests reach another end's node; NULL: they need not be told. */
	void (*aim)(const struct pair_end *e, struct weft_send_wr *wr, const struct pair_end *at);
};

extern const struct pair_maker pair_maker;

static inline bool pair_can(enum pair_ability ability)
{
	return pair_maker.abilities & ability;
}

static inline bool pair_has_service(enum weft_qp_service service)
{
	return pair_maker.services & 1U << service;
}

/* ---- Pairs ---------------------------------------------------------------------------------- */

/* NULL options: a reliable connection with every default. */
void pair_open(struct pair *p, const struct pair_options *options);

/* Ends what is left, checks that all was accounted for. */
void pair_close(struct pair *p);

/* Both queue pairs have failed, or will: throws their completions away and connects them anew. */
void pair_revive(struct pair *p);

/* Lets the world move while a case waits; false: it has waited too long since then. */
bool pair_wait(struct pair *p, uint64_t since_ns);

/* What was given to the wire has arrived. */
void pair_settle(struct pair *p);

/* No completion is waiting at either end, nor on its way. */
void pair_quiet(struct pair *p);

/* Fills both memories with BLANK. */
void pair_blank(struct pair *p);

/* One of several queue pairs of an end: made and destroyed by the case. */
struct weft_qp *end_qp_create(struct pair_end *e, enum weft_qp_service service);

/* ---- Memory --------------------------------------------------------------------------------- */

/* The bytes that pattern `seed` puts at a position. */
uint8_t pattern(uint32_t seed, uint64_t position);
void end_fill(struct pair_end *e, uint64_t offset, uint64_t length, uint32_t seed);

/*
 * The memory holds the pattern before long, or is still blank; else the case ends. A Write may end
 * before its bytes are there, and no event tells when they are.
 */
void end_holds(const struct pair_end *e, uint64_t offset, uint64_t length, uint32_t seed);
void end_is_blank(const struct pair_end *e, uint64_t offset, uint64_t length);

struct weft_sge end_seg(const struct pair_end *e, uint64_t offset, uint32_t length);

/* Cuts length bytes from offset on into uneven pieces, the first highest, with gaps after each. */
void end_cut(const struct pair_end *e, uint64_t offset, uint32_t length, uint32_t count,
	     struct weft_sge *pieces);
void pieces_fill(struct pair_end *e, const struct weft_sge *pieces, uint32_t count, uint32_t seed);

/* The same of one byte. */
void byte_holds(const struct pair_end *e, uint64_t offset, uint8_t value);

/* The same of the pieces' first length bytes; what follows and the gaps are blank. */
void pieces_hold(const struct pair_end *e, const struct weft_sge *pieces, uint32_t count,
		 uint32_t length, uint32_t seed);

/* Registers part of the memory with chosen rights; deregistered by the case. */
uint32_t end_register(struct pair_end *e, uint64_t offset, uint64_t length, uint32_t rights);

/* Binds a new window to part of the memory; freed with end_unbind(). */
uint32_t end_bind(struct pair_end *e, uint64_t offset, uint64_t length, uint32_t rights);
void end_unbind(struct pair_end *e, uint32_t tag);

/* ---- Work ----------------------------------------------------------------------------------- */

/* A signalled request; segments are borrowed as in weft.h. */
struct weft_send_wr wr_make(enum weft_opcode opcode, uint64_t id, const struct weft_sge *segments,
			    uint32_t count);

/* The same of one segment of e's, towards the peer's memory where that matters. */
struct weft_send_wr end_wr(struct pair_end *e, enum weft_opcode opcode, uint64_t id,
			   const struct weft_sge *segment, uint64_t remote_offset);

/* Of a service that is not connected: it goes to this queue pair, at that end. */
void end_aim(const struct pair_end *e, struct weft_send_wr *wr, const struct pair_end *at,
	     const struct weft_qp *qp);

void end_post(struct pair_end *e, struct weft_send_wr *wr);
void end_post_recv(struct pair_end *e, uint64_t id, uint64_t offset, uint32_t length);

/* Waits for the next completion. */
struct weft_completion end_take(struct pair_end *e, struct weft_cq *cq);

/* Waits for the next completion of the queue: it must be of this request, and good. */
struct weft_completion end_sent(struct pair_end *e, uint64_t id);
struct weft_completion end_received(struct pair_end *e, uint64_t id);

/* The same for requests of these ids, in order. */
void end_all_sent(struct pair_end *e, uint64_t first, uint64_t last);

/*
 * The requests of these ids wait for a receive of the peer. Takes the completions of those that
 * have ended all the same, as they may where the wire does not acknowledge; gives the first of the
 * rest.
 */
uint64_t end_waiting(struct pair_end *e, uint64_t first, uint64_t last);

/*
 * The next completion is of this request, which failed like this; WEFT_REASON_COUNT: whatever the
 * reason.
 */
void end_send_failed(struct pair_end *e, uint64_t id, enum weft_status status,
		     enum weft_reason reason);
void end_recv_failed(struct pair_end *e, uint64_t id, enum weft_status status,
		     enum weft_reason reason);

/* The next send completions, or receive completions, flush the ids first to last. */
void end_sends_flushed(struct pair_end *e, uint64_t first, uint64_t last);
void end_recvs_flushed(struct pair_end *e, uint64_t first, uint64_t last);

/* The same, but where the wire does not acknowledge, some before them may have ended well. */
void end_sends_cut(struct pair_end *e, uint64_t first, uint64_t last);

/*
 * The next send completions are of the ids first to last, of which the peer refused the first: it
 * failed like this and the others were flushed, if the transport can tell; else they were cut.
 */
void end_sends_refused(struct pair_end *e, uint64_t first, uint64_t last, enum weft_status status,
		       enum weft_reason reason);

/*
 * Posts a request that the peer refuses: the peer's consumer is told the reason, the requester too
 * if the transport can, and the connection is over.
 */
void end_refused(struct pair_end *e, struct weft_send_wr *wr, enum weft_reason reason);

/* Posts the request, it succeeds, and the peer has taken it. */
void end_succeeds(struct pair_end *e, struct weft_send_wr *wr);

/* ---- States and events ---------------------------------------------------------------------- */

struct weft_qp_attr end_query(struct pair_end *e);

/* It failed because the peer refused something for this reason, as far as the wire can tell. */
void end_refused_for(struct pair_end *e, enum weft_reason reason);
void end_modify(struct pair_end *e, enum weft_qp_state state);
void end_await(struct pair_end *e, enum weft_qp_state state);

/* Waits for an event of this object. */
struct weft_event end_event(struct pair_end *e, enum weft_event_kind kind, uint32_t number);

/* Whether there has been one that was not asked for, by all that was given to the wire. */
bool end_has_event(struct pair_end *e, enum weft_event_kind kind, uint32_t number);
