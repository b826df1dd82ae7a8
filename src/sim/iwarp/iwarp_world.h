/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A world of processes, each with an adapter of its own, that talk iWARP to each other over
 * simulated TCP connections (tcp_link.h) which delay, chop, clog, cut, reset and corrupt. They post
 * random work, and now and then work that is wrong on purpose; they crash, leave and dial again.
 *
 * The judges stand outside the cores. They know what was posted, and so which bytes may be where:
 *
 *	iwarp_world.c   the world: what the seed draws, the loop, crashes, the end
 *	iwarp_links.c   queue pairs and connections: made, dialled, left, ended
 *	iwarp_memory.c  arenas, slots of memory, and the judge of every byte
 *	iwarp_work.c    what is posted, rightly and wrongly
 *	iwarp_judge.c   completions: order, number, contents; what a connection may end for
 */
#pragma once

#include "sim/iwarp/tcp_link.h"
#include "verbs/verbs.h"

enum {
	IW_PROCESSES = 4,
	IW_LINKS = 4,
	IW_LOG = 160, /* requests of an end in one connection */
	IW_RECVS = 8,
	IW_PARTS = 4,
	IW_SLOTS = 96,
	IW_WORDS = 3,
	IW_OLDS = 512,
	IW_CHUNK = 4096,
	IW_INLINE = 96,
	IW_FAILURE_BYTES = 256,
	IW_NONE = UINT32_MAX
};

/* What each run draws from its seed. */
struct iw_limits {
	uint32_t process_count, link_count, actions;
	bool is_honest; /* nothing below happens, and nothing may fail */
	bool has_resets, has_corruption, has_crashes, has_leaving, has_pulling, is_lazy;
	uint32_t mischief_ppm;
	uint32_t slot_bytes;  /* of every slot */
	uint32_t length_max;  /* of a message; at most slot_bytes */
	uint32_t gap_ns;      /* between actions of a process, at most */
	uint32_t burst;	      /* of actions, at most */
	uint32_t weights[16]; /* of the actions */
	uint32_t weight_sum;
	struct sim_faults faults;
	uint32_t pipe_bytes;
	enum weft_policy policy;
	bool has_srq;
};

/* ---- Memory --------------------------------------------------------------------------------- */

enum iw_kind {
	IW_SENDBUF = 0, /* source of Sends and Writes */
	IW_RECVBUF,
	IW_TARGET, /* the peer may write here */
	IW_SOURCE, /* the peer may read here; constant while it may */
	IW_SINK,   /* answers to Reads and atomics */
	IW_WORD,   /* the peer may do atomics here */
	IW_KINDS
};

/* A stretch of the arena that has a region of its own, and a canary behind it. */
struct iw_slot {
	enum iw_kind kind;
	uint32_t end;	 /* whose: 2 * link + side; IW_NONE: of the process, for all */
	uint32_t offset; /* in the arena */
	uint32_t size;
	uint32_t users;		 /* requests of its owner that use it */
	uint32_t region, window; /* tags; 0: none */
	uint32_t window_next;	 /* the window's tag, if the bind on its way has been done */
	uint64_t base;		 /* address of its first byte, by its region */
	uint32_t tag;		 /* by which peers reach it; 0: they do not */
	uint64_t start;		 /* address of its first byte, by that tag */
	uint32_t old_tag;	 /* one that it had: names nothing any more; 0: none */
	uint64_t key;		 /* of the contents of a source */
	bool is_one_touch, is_spent;
	bool is_qp_bound;
	bool is_moving;	 /* a request that opens or closes it is on its way */
	bool is_tainted; /* a corrupted frame may have changed it */
};

/* A word that all peers add one to. */
struct iw_word {
	uint64_t first;
	uint32_t posted, done, unsent; /* adds; unsent: they never left */
	uint8_t seen[IW_OLDS / 8];     /* old values that came back, from first on */
};

/* ---- Work ----------------------------------------------------------------------------------- */

struct iw_part {
	uint32_t offset, length; /* in the arena */
};

/* A posted send request. */
struct iw_wr {
	uint64_t id;
	enum weft_opcode opcode;
	uint32_t flags;
	uint32_t length;
	uint32_t slot; /* local; IW_NONE: inline, or none */
	struct iw_part parts[IW_PARTS];
	uint32_t part_count;
	uint32_t remote;     /* slot of the peer; IW_NONE: none that is known */
	uint32_t remote_tag; /* also what is invalidated, or bound */
	uint32_t at;	     /* offset in it */
	uint64_t key;	     /* of its bytes, or of those it reads */
	uint64_t expected;   /* atomic: the old value due */
	uint64_t after;	     /* atomic: the value that it leaves */
	uint32_t word;	     /* of IW_WORDS, or IW_NONE: a word of its own */
	uint32_t imm;
	uint32_t birth; /* of the peer's process that was meant */
	bool is_signalled;
	bool is_forbidden;	   /* the peer must refuse it */
	bool is_partial;	   /* forbidden, but its first frames may be within bounds */
	bool is_doomed;		   /* it must fail here */
	bool is_local_bad;	   /* it may: its memory is no more fit */
	bool is_pulled;		   /* the peer may refuse it: the peer's memory is no more fit */
	enum weft_status status;   /* when it has ended */
	bool is_ended, is_dropped; /* dropped: ended without success */
	bool is_unsent;		   /* dropped, and the connection has gone on without it */
	bool is_dead;	/* its target closed while it was on its way: no byte may follow */
	bool was_whole; /* all of them were there by then */
};

struct iw_recv {
	uint64_t id;
	uint32_t slot;
	struct iw_part parts[IW_PARTS];
	uint32_t part_count;
	uint32_t room;
	bool is_local_bad; /* as above */
	bool is_dead;
};

struct iw_recv_queue {
	struct iw_recv recvs[IW_RECVS];
	uint32_t first, count;
};

/* One end of a link, as its owner and the judges know it. */
struct iw_end {
	uint32_t process;
	uint32_t qp_number; /* also for a while after it is gone */
	bool has_srq;
	bool is_live;	     /* its queue pair is operational */
	bool is_frozen;	     /* nothing of the peer's can arrive any more */
	bool is_left;	     /* its owner has reset or destroyed the queue pair */
	bool is_flushing;    /* receives of its own queue are being flushed */
	bool is_awake;	     /* an initiator that has spoken in any case */
	bool is_deciding;    /* its answer to a request has its time */
	bool is_stubborn;    /* it posts no receives in the end: what waits for one must fail */
	uint32_t lacks;	     /* rights that its queue pair does not give the peer */
	uint64_t reasons[2]; /* for which the connection may end here, as bits */
	struct iw_wr log[IW_LOG];
	uint32_t posted;
	uint32_t ended;	   /* those before it have had their completions */
	uint32_t settled;  /* those before it have taken effect at the peer, or never will */
	uint32_t received; /* Sends before it have been received by the peer */
	struct iw_recv_queue recvs;
	uint64_t word_now, word_next; /* the peer's word: as settled; when all has been done */
};

struct iw_process {
	struct adapter adapter;
	struct list attention;
	struct weft_space *space;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_srq *srq;
	struct iw_recv_queue srq_recvs;
	uint8_t *arena, *shadow; /* the shadow is in the order of addresses */
	uint32_t *chunks;	 /* where each chunk of addresses lies in the arena */
	uint32_t size;
	struct iw_slot slots[IW_SLOTS];
	uint32_t slot_count;
	struct iw_word words[IW_WORDS];
	uint32_t actions_left;
	bool is_armed, has_news; /* for solicited completions; one has come since */
	uint32_t births;	 /* a crash is followed by another */
	struct world_alarm due;
};

struct iwarp_world {
	struct world world;
	struct iw_limits limits;
	struct iw_process processes[IW_PROCESSES];
	struct tcp_link links[IW_LINKS];
	struct iw_end ends[2 * IW_LINKS];
	uint64_t id_next;
	bool is_quiet, is_over;
	uint64_t steps;
	uint64_t quiet_ns; /* when it began */
	/* how much was judged */
	uint64_t requests, succeeded, received, bytes, forbidden, dials, deaths, corruptions;
	char failure[IW_FAILURE_BYTES];
};

/* 0, or -1 when memory is short. */
int iwarp_world_open(struct iwarp_world *w, uint64_t seed);

/* One event. False when the world has come to its end, or something was wrong. */
bool iwarp_world_step(struct iwarp_world *w);

/* What was wrong; empty: nothing. */
const char *iwarp_world_failure(const struct iwarp_world *w);
void iwarp_world_close(struct iwarp_world *w);

/* ---- Among the files of the scenario --------------------------------------------------------- */

static inline uint32_t iw_draw(struct iwarp_world *w, uint32_t below)
{
	return prng_below(&w->world.prng, below);
}

static inline bool iw_mischief(struct iwarp_world *w)
{
	return prng_chance(&w->world.prng, w->limits.mischief_ppm);
}

static inline struct tcp_end *iw_tcp(struct iwarp_world *w, uint32_t end)
{
	return &w->links[end / 2].ends[end % 2];
}

static inline struct iw_process *iw_owner(struct iwarp_world *w, uint32_t end)
{
	return &w->processes[w->ends[end].process];
}

/* Records the first failure, in words. */
void iw_fail(struct iwarp_world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Lets the process's cores move, and sees what has become of its connections. */
void iw_settle(struct iwarp_world *w, uint32_t p);

/* iwarp_memory.c */
int iw_memory_open(struct iwarp_world *w, uint32_t p);
void iw_memory_close(struct iw_process *proc);

/* Registers what is not, opens what peers may reach and is closed, if nobody uses it. */
void iw_slot_open(struct iwarp_world *w, uint32_t p, struct iw_slot *s);

/* Its memory is taken back; what is on its way to it, or from it, must not go on. */
void iw_slot_pull(struct iwarp_world *w, uint32_t p, struct iw_slot *s);

/* For what connections may end when their owner takes back memory that they use. */
void iw_allow_pulled(struct iwarp_world *w, uint32_t end);

/* The slot's remote tag names nothing any more. */
void iw_slot_closed(struct iwarp_world *w, uint32_t p, struct iw_slot *s);

/* Whether a peer would reach the slot by its tag. */
bool iw_slot_is_reached(struct iwarp_world *w, uint32_t p, const struct iw_slot *s);

/* An unused slot of the end, of this kind and registered; NULL: none. */
struct iw_slot *iw_slot_draw(struct iwarp_world *w, uint32_t end, enum iw_kind kind);

/* The bytes of key from offset at on. */
uint8_t iw_pattern(uint64_t key, uint32_t at);
void iw_fill(struct iwarp_world *w, uint32_t p, const struct iw_part *part, uint64_t key,
	     uint32_t at);
bool iw_equals(const struct iw_process *proc, const struct iw_part *part, uint64_t key,
	       uint32_t at);
uint64_t iw_word_read(const struct iw_process *proc, uint32_t offset);

/* What is there now is what should be there. */
void iw_shadow_sync(struct iw_process *proc, uint32_t offset, uint32_t length);

/* Judges every byte of the process. */
void iw_memory_judge(struct iwarp_world *w, uint32_t p);

/* iwarp_judge.c */
void iw_poll(struct iwarp_world *w, uint32_t p);

/* All requests of the end's log before n have taken effect at the peer: is that to be seen? */
void iw_log_settle(struct iwarp_world *w, uint32_t end, uint32_t n);

/* The connection of this end may end for this reason. */
void iw_allow(struct iwarp_world *w, uint32_t end, enum weft_reason reason);

/* Something was done by which the connection may end: what either end may then see of it. */
void iw_allow_end(struct iwarp_world *w, uint32_t end);

/* Looks at the state of the process's queue pairs. */
void iw_judge_ends(struct iwarp_world *w, uint32_t p);

/* Everything has come to rest. */
void iw_judge_quiet(struct iwarp_world *w);

/* The queue pair is gone or reset: every request of it must have ended. */
void iw_judge_log_over(struct iwarp_world *w, uint32_t end);

/* iwarp_links.c */
int iw_end_open(struct iwarp_world *w, uint32_t end);
void iw_dial(struct iwarp_world *w, uint32_t link);
void iw_leave(struct iwarp_world *w, uint32_t end);

/* Ends of one process, in turn: from IW_NONE on, until IW_NONE. */
uint32_t iw_end_next(const struct iwarp_world *w, uint32_t p, uint32_t end);

/* iwarp_work.c */
typedef void iw_action(struct iwarp_world *w, uint32_t p);

iw_action iw_act_send, iw_act_write, iw_act_read, iw_act_atomic, iw_act_bind, iw_act_wrong,
	iw_act_pull, iw_act_state, iw_act_delay;

/* A queue that pauses, or has failed a request, goes on. */
void iw_resume(struct iwarp_world *w, uint32_t end);

/* Posts receives for as long as there is room and memory. */
void iw_receive_all(struct iwarp_world *w, uint32_t p);
void iw_receive_one(struct iwarp_world *w, uint32_t end);

/* A Write of nothing: so that a responder may begin. False: there is no room for it. */
bool iw_wake(struct iwarp_world *w, uint32_t end);
