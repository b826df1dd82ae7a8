/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes, each with its own adapter, that talk iWARP to each other over simulated TCP
 * connections (tcp_link.h), which delay, chop, clog, cut, reset and corrupt. They post random work,
 * some of it wrong on purpose; they crash, leave and dial again.
 *
 * The judges stand outside the cores. They know what was posted, and so which bytes may be where:
 *
 *	iwarp_world.c   the world: parameters drawn from the seed, the loop, crashes, the end
 *	iwarp_links.c   queue pairs and connections: made, dialled, left, ended
 *	iwarp_memory.c  arenas, slots of memory, and the judge of every byte
 *	iwarp_work.c    requests that are posted, right and wrong
 *	iwarp_judge.c   completions: order, number, contents; permitted ends of connections
 */
#pragma once

#include "sim/world/tcp_link.h"
#include "verbs/verbs.h"

enum {
	IW_PROCESSES = 4,
	IW_LINKS = 4,
	IW_LOG = 160, /* requests of an end per connection */
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

/* Parameters that each run draws from its seed. */
struct iw_limits {
	uint32_t process_count, link_count, actions;
	bool is_honest; /* none of the below, and no request may fail */
	bool has_resets, has_corruption, has_crashes, has_leaving, has_pulling, is_lazy;
	uint32_t mischief_ppm;
	uint32_t slot_bytes;  /* of every slot */
	uint32_t length_max;  /* per message; at most slot_bytes */
	uint32_t gap_ns;      /* between actions of a process, at most */
	uint32_t burst;	      /* actions in a row, at most */
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
	IW_SINK,   /* for answers to Reads and atomics */
	IW_WORD,   /* the peer may do atomics here */
	IW_KINDS
};

/* A part of the arena with its own region and a canary behind it. */
struct iw_slot {
	enum iw_kind kind;
	uint32_t end;	 /* its end: 2 * link + side; IW_NONE: the process's, for all peers */
	uint32_t offset; /* in the arena */
	uint32_t size;
	uint32_t users;		 /* requests of its owner that use it */
	uint32_t region, window; /* tags; 0: none */
	uint32_t window_next;	 /* the window's tag once the pending bind is done */
	uint64_t base;		 /* address of its first byte, by its region */
	uint32_t tag;		 /* by which peers reach it; 0: they cannot */
	uint64_t start;		 /* address of its first byte, by that tag */
	uint32_t old_tag;	 /* a former tag, now invalid; 0: none */
	uint64_t key;		 /* a source's pattern */
	bool is_one_touch, is_spent;
	bool is_qp_bound;
	bool is_moving;	 /* a request that opens or closes it is in flight */
	bool is_tainted; /* a corrupted frame may have changed it */
};

/* A word that all peers increment. */
struct iw_word {
	uint64_t first;
	uint32_t posted, done, unsent; /* increments; unsent: never sent */
	uint8_t seen[IW_OLDS / 8];     /* old values returned so far, relative to first */
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
	uint32_t slot; /* local; IW_NONE: inline, or no data */
	struct iw_part parts[IW_PARTS];
	uint32_t part_count;
	uint32_t remote;     /* slot of the peer; IW_NONE: no known slot */
	uint32_t remote_tag; /* also the tag to invalidate or bind */
	uint32_t at;	     /* offset in the remote slot */
	uint64_t key;	     /* pattern of its bytes, or of those it reads */
	uint64_t expected;   /* atomic: the expected old value */
	uint64_t after;	     /* atomic: the new value */
	uint32_t word;	     /* of IW_WORDS; IW_NONE: the end's own word */
	uint32_t imm;
	uint32_t birth; /* incarnation of the peer's process it was meant for */
	bool is_signalled;
	bool is_forbidden;	   /* the peer must refuse it */
	bool is_partial;	   /* forbidden, but its first frames may be within bounds */
	bool is_doomed;		   /* it must fail locally */
	bool is_local_bad;	   /* it may fail locally: its memory was taken back */
	bool is_pulled;		   /* the peer may refuse it: the peer's memory was taken back */
	enum weft_status status;   /* set when it has ended */
	bool is_ended, is_dropped; /* dropped: ended without success */
	bool is_unsent;		   /* dropped, and the connection continued without it */
	bool is_dead;	/* its target closed while it was in flight: no byte may follow */
	bool was_whole; /* all its bytes had arrived by then */
};

struct iw_recv {
	uint64_t id;
	uint32_t slot;
	struct iw_part parts[IW_PARTS];
	uint32_t part_count;
	uint32_t room;
	bool is_local_bad; /* as in struct iw_wr */
	bool is_dead;
};

struct iw_recv_queue {
	struct iw_recv recvs[IW_RECVS];
	uint32_t first, count;
};

/* One end of a link, as known to its owner and the judges. */
struct iw_end {
	uint32_t process;
	uint32_t qp_number; /* kept for a while after the queue pair is gone */
	bool has_srq;
	bool is_live;	  /* its queue pair is operational */
	bool is_frozen;	  /* nothing more can arrive from the peer */
	bool is_left;	  /* its owner has reset or destroyed the queue pair */
	bool is_flushing; /* receives of its own queue are being flushed */
	bool is_awake;	  /* an initiator that has sent its first FPDU */
	bool is_deciding; /* its answer to a connection request is delayed */
	bool is_stubborn; /* posts no receives at the end: messages that wait for one must fail */
	uint32_t lacks;	  /* rights that its queue pair denies the peer */
	uint64_t reasons[2]; /* reasons for which the connection may end here, as bits */
	struct iw_wr log[IW_LOG];
	uint32_t posted;
	uint32_t ended;	   /* earlier requests have had their completions */
	uint32_t settled;  /* earlier requests have taken effect at the peer, or never will */
	uint32_t received; /* earlier Sends have been received by the peer */
	struct iw_recv_queue recvs;
	uint64_t word_now, word_next; /* the peer's word: as settled; after all requests */
};

struct iw_process {
	struct adapter adapter;
	struct list attention;
	struct weft_space *space;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_srq *srq;
	struct iw_recv_queue srq_recvs;
	uint8_t *arena, *shadow; /* the shadow is in address order */
	uint32_t *chunks;	 /* position in the arena of each chunk of addresses */
	uint32_t size;
	struct iw_slot slots[IW_SLOTS];
	uint32_t slot_count;
	struct iw_word words[IW_WORDS];
	uint32_t actions_left;
	bool is_armed, has_news; /* armed for solicited completions; one has come since */
	uint32_t births;	 /* incarnations: one more after each crash */
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
	uint64_t quiet_ns; /* start of the quiet phase */
	/* how much was checked */
	uint64_t requests, succeeded, received, bytes, forbidden, dials, deaths, corruptions;
	char failure[IW_FAILURE_BYTES];
};

/* 0, or -1: out of memory. */
int iwarp_world_open(struct iwarp_world *w, uint64_t seed);

/* Runs one event. False: the run is over, or a check failed. */
bool iwarp_world_step(struct iwarp_world *w);

/* The failed check in words; empty: none failed. */
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

/* Records the first failed check, in words. */
void iw_fail(struct iwarp_world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Runs the process's cores, and checks its connections. */
void iw_settle(struct iwarp_world *w, uint32_t p);

/* iwarp_memory.c */
int iw_memory_open(struct iwarp_world *w, uint32_t p);
void iw_memory_close(struct iw_process *proc);

/*
 * Registers the slot if needed, and opens it to peers if it should be open; only while it is
 * unused.
 */
void iw_slot_open(struct iwarp_world *w, uint32_t p, struct iw_slot *s);

/* Takes the slot's memory back: transfers to or from it must stop. */
void iw_slot_pull(struct iwarp_world *w, uint32_t p, struct iw_slot *s);

/* Permits the reasons for which a connection may end when its owner takes back memory in use. */
void iw_allow_pulled(struct iwarp_world *w, uint32_t end);

/* The slot's remote tag has become invalid. */
void iw_slot_closed(struct iwarp_world *w, uint32_t p, struct iw_slot *s);

/* Can a peer reach the slot by its tag? */
bool iw_slot_is_reached(struct iwarp_world *w, uint32_t p, const struct iw_slot *s);

/* An unused registered slot of the end, of this kind; NULL: none. */
struct iw_slot *iw_slot_draw(struct iwarp_world *w, uint32_t end, enum iw_kind kind);

/* The pattern of `key`, from offset `at` on. */
uint8_t iw_pattern(uint64_t key, uint32_t at);
void iw_fill(struct iwarp_world *w, uint32_t p, const struct iw_part *part, uint64_t key,
	     uint32_t at);
bool iw_equals(const struct iw_process *proc, const struct iw_part *part, uint64_t key,
	       uint32_t at);
uint64_t iw_word_read(const struct iw_process *proc, uint32_t offset);

/* Copies the present content into the shadow. */
void iw_shadow_sync(struct iw_process *proc, uint32_t offset, uint32_t length);

/* Checks every byte of the process. */
void iw_memory_judge(struct iwarp_world *w, uint32_t p);

/* iwarp_judge.c */
void iw_poll(struct iwarp_world *w, uint32_t p);

/* Permits the connection of this end to end for this reason. */
void iw_allow(struct iwarp_world *w, uint32_t end, enum weft_reason reason);

/* An act may end the connection: permits what either end may then see. */
void iw_allow_end(struct iwarp_world *w, uint32_t end);

/* Checks the states of the process's queue pairs. */
void iw_judge_ends(struct iwarp_world *w, uint32_t p);

/* Everything is at rest: the final checks. */
void iw_judge_quiet(struct iwarp_world *w);

/* The queue pair is gone or reset: all its requests must have ended. */
void iw_judge_log_over(struct iwarp_world *w, uint32_t end);

/* iwarp_links.c */
int iw_end_open(struct iwarp_world *w, uint32_t end);
void iw_dial(struct iwarp_world *w, uint32_t link);
void iw_leave(struct iwarp_world *w, uint32_t end);

/* Iterates over the ends of a process: IW_NONE gives the first; IW_NONE returned: no more. */
uint32_t iw_end_next(const struct iwarp_world *w, uint32_t p, uint32_t end);

/* iwarp_work.c */
typedef void iw_action(struct iwarp_world *w, uint32_t p);

iw_action iw_act_send, iw_act_write, iw_act_read, iw_act_atomic, iw_act_bind, iw_act_wrong,
	iw_act_pull, iw_act_state, iw_act_delay;

/* Resumes a queue that pauses or has failed a request. */
void iw_resume(struct iwarp_world *w, uint32_t end);

/* Posts receives as long as there is room and memory. */
void iw_receive_all(struct iwarp_world *w, uint32_t p);
void iw_receive_one(struct iwarp_world *w, uint32_t end);

/* Posts a zero-length Write, so that the responder may send. False: the log is full. */
bool iw_wake(struct iwarp_world *w, uint32_t end);
