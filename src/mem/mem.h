/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory translation and protection table: the only gate to consumer memory.
 *
 * An entry describes what a tag names: a range of addresses, its owner, its access rights, and its
 * translation. mem_access_check() is the only way from a tag to memory; it grants a cursor from
 * which real spans are taken. Other processes of the host have mem_published_check() (published.h).
 * Not here: queues, connections, and the purpose of an access.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#include <weft/weft.h>

#include "base/secret.h"
#include "base/trace.h"
#include "mem/att.h"
#include "mem/space.h"

/* MEM-04d; 3 is reserved. */
enum mem_type { MEM_REGION = 0, MEM_WINDOW = 1, MEM_ISCSI_REGION = 2 };

enum mem_state {
	MEM_FREE = 0, /* the index is not in use */
	MEM_RESERVED, /* in use, but names no memory: the valid bit is clear */
	MEM_VALID
};

/* MEM-04h. */
enum mem_touch {
	MEM_ONE_TOUCH = 1 << 0,
	MEM_TOUCHED = 1 << 1, /* the message's last segment came early; see stored_sn */
	MEM_SPENT = 1 << 2    /* the peer has used it up, therefore the valid bit is clear */
};

enum {
	MEM_TAGS_MAX = 1 << 24,
	MEM_NULL_BYTES = 1 << 16, /* of a null region, before its memory repeats */
	MEM_REMOTE_RIGHTS = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC
};

/* Of an iSCSI command: which way its data goes. */
enum mem_way {
	MEM_WAY_NONE = 0, /* it has no data */
	MEM_WAY_IN,	  /* device read: the target sends Data-In */
	MEM_WAY_OUT	  /* device write: the target asks by R2T */
};

/* One entry of the region/window table: one cache line. */
struct mem_entry {
	uint64_t start, length; /* MEM-04a; start of a command: its slot, as memory begins at 0 */
	/*
	 * Location of the first byte: with an ATT its offset from the start of page 0 (which
	 * includes the first page's byte offset, AMB-06), else its address in the space. A window
	 * points into its region's translation (MEM-08).
	 */
	uint64_t origin;
	struct weft_space *space;
	struct att *att; /* NULL: translated by the space */
	uint32_t pd;	 /* MEM-04b */
	uint32_t qp;	 /* the only QP that may use it; 0: all of the PD */
	union {
		uint32_t region;     /* of a bound window: index of its region */
		uint32_t windows;    /* of a region: windows bound to it */
		uint32_t command_id; /* MEM-04j, with way */
	};
	uint32_t stored_sn;	/* MEM-04i */
	uint8_t instance;	/* MEM-04c */
	uint8_t instance_given; /* the newest instance promised to a posted bind */
	uint8_t type, state, rights, touch;
	uint8_t is_by_queue; /* a region registered by a send queue: invalidation frees it */
	union {
		uint8_t promised; /* of a window: posted binds that have not ended keep it */
		uint8_t is_own;	  /* of a region: its domain's own space translates it, no ATT */
		uint8_t way;	  /* of a command: enum mem_way */
	};
};

_Static_assert(sizeof(struct mem_entry) == 64, "one cache line");

struct mem_limits {
	uint32_t tags_max, translations_max;
	uint32_t pds_max, qps_max; /* numbered by id tables of that size */
	enum weft_policy policy;
	uint64_t secret[2];	       /* makes tags hard to guess */
	mem_probe *is_there;	       /* NULL: there are no on-demand regions */
	const struct mem_guard *guard; /* NULL: the memory of the process stays mapped */
	struct mem_watch *watch;       /* NULL: nothing is known of its changes */
};

struct mem_publisher;

struct mem_table {
	struct mem_entry *entries;
	/* base/free_list.h: the free indices, from 1 on, in any order; index 0 is never free. */
	uint32_t *free;
	void *memory; /* the allocation that contains entries */
	uint32_t tags_max, free_count;
	uint32_t by_type[2][3]; /* entries in use: [is valid][type] */
	uint32_t *by_pd;	/* entries in use, by slot of the protection domain */
	uint32_t *by_qp;	/* valid entries for one queue pair only, by its slot */
	enum weft_policy policy;
	struct secret secret;
	struct att_pool atts;
	/* Null regions: the source of reads, and the sink of writes. */
	struct weft_space zeroes, discard;
	void *null_memory;	     /* of both */
	struct weft_space on_demand; /* of on-demand regions */
	struct mem_paging demand;    /* of on_demand */
	struct mem_paging process;   /* of the process */
	struct mem_watch *watch;     /* may be NULL */
	const atomic_uint *unmapped; /* of the watch; never NULL */
	/* Of each region of process memory: the changes when it began; 0: it is not watched. */
	uint64_t *begun;
	const struct mem_publisher *publisher; /* NULL: entries are not published */
	struct trace *trace;		       /* may be NULL */
	uint64_t refused;
	uint32_t changes; /* of valid entries, their ends too: see mem_known_span(); wraps */
};

/* 0, or -1 when memory is short. */
int mem_table_init(struct mem_table *t, const struct mem_limits *limits);
void mem_table_fini(struct mem_table *t);

/* How many entries a protection domain has. */
uint32_t mem_table_pd_tags(const struct mem_table *t, uint32_t pd);

static inline uint32_t mem_tag(uint32_t index, uint8_t instance)
{
	return index << 8 | instance;
}

/* ---- Regions and windows: the owner's side (region.c, window.c) ----------------------------- */

/* The owner of a registration. */
struct mem_owner {
	uint32_t pd;
	struct weft_space *space;
	bool is_privileged;
};

enum weft_reason mem_region_register(struct mem_table *t, const struct mem_owner *owner,
				     const struct weft_region_options *options, uint32_t *tag);
enum weft_reason mem_region_share(struct mem_table *t, const struct mem_owner *owner, uint32_t tag,
				  const struct weft_region_options *options, uint32_t *shared_tag);
enum weft_reason mem_region_deregister(struct mem_table *t, uint32_t pd, uint32_t tag);

/*
 * Changes the memory or the domain of a region under the same tag. Only for ordinary memory. A
 * length of 0 keeps the memory: see weft_region_change().
 */
enum weft_reason mem_region_change(struct mem_table *t, uint32_t pd, uint32_t tag,
				   const struct mem_owner *owner,
				   const struct weft_region_options *options);

/*
 * A region of all addresses without memory: reads return zeroes, and writes are discarded. For
 * local use only.
 */
enum weft_reason mem_region_register_null(struct mem_table *t, uint32_t pd, uint32_t *tag);

/* Reserves an index for a registration by a send queue; releases it. */
enum weft_reason mem_tag_reserve(struct mem_table *t, uint32_t pd, uint32_t *tag);
enum weft_reason mem_tag_release(struct mem_table *t, uint32_t pd, uint32_t tag);

/* SQR-04b to d: creates the region of a reserved tag. On failure the tag stays reserved. */
enum weft_reason mem_region_register_reserved(struct mem_table *t, const struct mem_owner *owner,
					      const struct weft_region_options *options,
					      uint32_t tag);

/*
 * Undoes it after a later failure: ends the region if it still exists; the tag stays reserved.
 */
void mem_region_unregister_reserved(struct mem_table *t, uint32_t pd, uint32_t tag);

enum weft_reason mem_window_alloc(struct mem_table *t, uint32_t pd, uint32_t *tag);
enum weft_reason mem_window_free(struct mem_table *t, uint32_t pd, uint32_t tag);

/* The same, by any tag that the window ever had, whether it is bound or not. */
enum weft_reason mem_window_discard(struct mem_table *t, uint32_t pd, uint32_t tag);

/*
 * Assigns the tag that a bind posted now will give the window, before the bind is executed. Until
 * mem_window_bind() executes it or mem_window_forget() cancels it, the window cannot be freed.
 */
enum weft_reason mem_window_promise(struct mem_table *t, uint32_t pd, struct weft_bind *bind);
void mem_window_forget(struct mem_table *t, const struct weft_bind *bind);

/*
 * Executes a promised bind, successfully or not: binds (RKEY-02b) under the tag in bind->tag, or
 * unbinds if the length is 0. qp is 0 for a window that serves the whole protection domain.
 */
enum weft_reason mem_window_bind(struct mem_table *t, uint32_t pd, uint32_t qp,
				 const struct weft_bind *bind);
enum weft_reason mem_window_unbind(struct mem_table *t, uint32_t pd, uint32_t tag);

/* Restricts a bound window, under its present tag, to one queue pair; qp 0: as above. */
enum weft_reason mem_window_give(struct mem_table *t, uint32_t pd, uint32_t tag, uint32_t qp);

/* The queue pair's stream has ended: closes the entries restricted to it. */
void mem_qp_gone(struct mem_table *t, uint32_t qp);

/*
 * Whether a Send with Invalidate, or a local invalidate, of this tag would succeed; executes it.
 */
enum weft_reason mem_invalidate_check(const struct mem_table *t, uint32_t pd, uint32_t qp,
				      uint32_t tag);
enum weft_reason mem_invalidate(struct mem_table *t, uint32_t pd, uint32_t qp, uint32_t tag);

/* The same for a peer: what was sent under the tag stays identifiable (mem_access_retired()). */
enum weft_reason mem_invalidate_by_peer(struct mem_table *t, uint32_t pd, uint32_t qp,
					uint32_t tag);

/* ---- iSCSI commands (iscsi.c) --------------------------------------------------------------- */

/* What an iSCSI command puts into its entry (ISCSI-03). */
struct mem_command {
	uint32_t qp;   /* its queue pair, the only one that may use it */
	uint32_t slot; /* of the command in that queue pair: what the address field points to */
	uint32_t id;   /* its Command ID */
	enum mem_way way;
	uint64_t length;
	/* ISCSI-02. NULL: its memory is that of the elements of the request. */
	const struct weft_page_list *pages;
	uint64_t end_offset; /* of the last page; 0: all of it */
};

/* How much memory a page list of a command has. False: it is none. */
bool mem_command_bytes(const struct weft_page_list *list, uint64_t end_offset, uint64_t *length);

/*
 * Implicit registration: makes an entry of type 10, addressed from zero (MEM-12). Its tag is never
 * 0xffffffff. Refusals: WEFT_R_TABLE_FULL, WEFT_R_TRANSLATIONS_FULL, and those of page lists.
 */
enum weft_reason mem_command_register(struct mem_table *t, const struct mem_owner *owner,
				      const struct mem_command *c, uint32_t *tag);

/* Ends the entry, which must be there. */
void mem_command_deregister(struct mem_table *t, uint32_t tag);

/* The command's slot; of a tag that has passed the access check. */
uint32_t mem_command_slot(const struct mem_table *t, uint32_t tag);

/* ---- The access check (access.c) ------------------------------------------------------------ */

enum mem_kind {
	MEM_LOCAL_READ = 0, /* source of a Send or Write */
	MEM_LOCAL_WRITE,    /* receive buffer, and the result of an atomic */
	MEM_READ_SINK,	    /* destination of an RDMA Read (AMB-04) */
	MEM_REMOTE_READ,
	MEM_REMOTE_WRITE,
	MEM_REMOTE_ATOMIC,
	MEM_BIND, /* a window is to be bound to this range */
	/* By an Initiator Task Tag (ISCSI-05): from an offset on; also of 0 bytes. */
	MEM_TASK_KINDS,
	MEM_DATA_IN = MEM_TASK_KINDS, /* the target places data */
	MEM_R2T,		      /* the target asks for data */
	MEM_RESPONSE,		      /* the target ends the command; without a range */
	MEM_KIND_COUNT
};

struct mem_access {
	uint64_t addr, length;
	uint32_t tag;
	uint32_t pd, qp; /* of the requesting queue pair, or of the one that a peer accesses */
	enum mem_kind kind;
	bool is_ahead; /* checked again when used: pages that are brought need not be present now */
	bool can_wait; /* WEFT_R_SPACE_UNMAPPED if the process's pages are not in memory */
};

/* A range that passed the check, from which spans are taken front to back. */
struct mem_grant {
	const struct weft_space *space;
	const struct att *att;
	uint64_t origin; /* of the next byte, as in mem_entry */
	uint64_t length; /* left */
};

/* Why memory of a request that passed the check cannot be used now. */
static inline enum weft_reason mem_gone_reason(enum weft_reason r, enum weft_reason other)
{
	return r == WEFT_R_MEMORY_GONE ? r : other;
}

/* Contiguous memory: a real address of the space, and where that is in this process. */
struct mem_span {
	uint64_t real;
	uint8_t *bytes;
	uint64_t length;
	struct mem_paging *paging; /* NULL: it stays mapped */
};

/* The program may unmap the memory between the check and the access. */
static inline bool mem_span_may_go(const struct mem_span *s)
{
	return s->paging && s->paging->guard;
}

/* Whether it must be pinned while it is sent from (SEND-05). */
static inline bool mem_span_has_pins(const struct mem_span *s)
{
	return s->paging && !s->paging->is_flat;
}

/*
 * Copies a span to or from memory of ours. All code accesses spans through these functions and
 * those below; or passes them to the kernel, which reports EFAULT, between mem_watch_enter() and
 * mem_watch_leave(). False: the memory is missing.
 */

static inline bool mem_span_read(const struct mem_span *s, void *to)
{
	bool is_there;

	if (!mem_span_may_go(s)) {
		memcpy(to, s->bytes, s->length);
		return true;
	}
	is_there = mem_watch_enter(s->paging->watch, s->bytes, s->length) &&
		   s->paging->guard->copy(to, s->bytes, s->length);
	mem_watch_leave(s->paging->watch);
	return is_there;
}

static inline bool mem_span_write(const struct mem_span *s, const void *from)
{
	bool is_there;

	if (!mem_span_may_go(s)) {
		memcpy(s->bytes, from, s->length);
		return true;
	}
	is_there = mem_watch_enter(s->paging->watch, s->bytes, s->length) &&
		   s->paging->guard->copy(s->bytes, from, s->length);
	mem_watch_leave(s->paging->watch);
	return is_there;
}

/* Calls work(argument), which accesses bytes of a span with that paging. False: some are gone. */
bool mem_run(const struct mem_paging *paging, const void *bytes, uint64_t length,
	     void (*work)(void *), void *argument);

/* Whether the span can be read now. */
bool mem_span_is_there(const struct mem_span *s);

/* Adds bytes of a span with that paging to a CRC. False: the memory is missing. */
bool mem_crc32c(const struct mem_paging *paging, uint32_t *crc, const uint8_t *bytes,
		size_t length);

/*
 * Applies the checks of LOC-02, IWARP-06, IWARP-09 and ISCSI-05 in their order. An access of 0
 * bytes is granted without a check of the tag, as it touches no memory, unless it is by a task tag.
 * On WEFT_R_SPACE_UNMAPPED *grant still describes the range, for the two calls below. A grant by a
 * task tag has no space if the memory is that of elements, which have checks of their own.
 */
enum weft_reason mem_access_check(struct mem_table *t, const struct mem_access *access,
				  struct mem_grant *grant);

/*
 * AMB-39: local reads under a tag that was valid when the data was sent. It was retired by the peer
 * since, by its one touch or by a Send with Invalidate, and not by its owner: the memory is found
 * by its virtual address in the owner's space.
 */
enum weft_reason mem_access_retired(const struct mem_table *t, const struct mem_access *a,
				    struct weft_space *space, struct mem_grant *grant);

/* After WEFT_R_SPACE_UNMAPPED: whether weft's own pager brings what is missing; or any pager. */
bool mem_grant_is_paging(const struct mem_grant *grant);
bool mem_grant_will_come(const struct mem_grant *grant);

/* An access that passed; kept by who asks for others like it. All 0: none. */
struct mem_passed {
	uint32_t tag, kind, changes; /* the table's, then */
};

/*
 * The same check, for a range by the tag and of the kind of an access that passed, by the same
 * queue pair with the same domain: only the range is checked, as nothing else has changed since.
 * False: it needs the whole check.
 */
bool mem_access_again(const struct mem_table *t, const struct mem_passed *passed,
		      const struct mem_access *access, struct mem_grant *grant);

/* The same checks, except that the memory itself is not looked at. */
enum weft_reason mem_access_look(const struct mem_table *t, const struct mem_access *access);

/* Takes the next spans off the grant, at most max; 0 when all has been taken. */
uint32_t mem_grant_spans(struct mem_grant *grant, struct mem_span *spans, uint32_t max);

/*
 * The same of a range, not empty, that passed the check when the table's `changes` were these. They
 * are still the same, so it would pass again. False: it needs another check, as entries have
 * changed, or its memory is not that of the process at all times.
 */
bool mem_known_span(const struct mem_table *t, uint32_t changes, const struct weft_sge *range,
		    struct mem_span *span);

/* A grant of memory of our own, such as inline data. */
struct mem_grant mem_grant_of(const void *bytes, uint64_t length);

/* A scatter/gather list that passed the check. */
struct mem_vec {
	struct mem_grant grants[WEFT_SGES_MAX];
	uint32_t count, at;
	uint64_t length; /* of all grants together */
};

static inline void mem_vec_init(struct mem_vec *v)
{
	v->count = 0;
	v->at = 0;
	v->length = 0;
}

static inline void mem_vec_add(struct mem_vec *v, const struct mem_grant *g)
{
	v->grants[v->count++] = *g;
	v->length += g->length;
}

/* Which of the two sides was unmapped before all was copied. */
enum mem_gone { MEM_NONE_GONE = 0, MEM_FROM_GONE, MEM_TO_GONE };

/* Copies length bytes, which both sides must have, and advances both. */
enum mem_gone mem_vec_copy(struct mem_vec *to, struct mem_vec *from, uint64_t length);

/* ---- FetchOp (atomic.c) --------------------------------------------------------------------- */

/* Adds to the fields into which the mask splits the word (0: one field). Returns the old value. */
uint64_t mem_fetch_add(uint64_t *word, uint64_t add, uint64_t mask);

struct mem_swap {
	uint64_t compare, compare_mask; /* only these bits are compared ... */
	uint64_t swap, swap_mask;	/* ... and if they are equal, these are changed */
};

/* Returns the old value. */
uint64_t mem_compare_swap(uint64_t *word, const struct mem_swap *s);

struct mem_atomic {
	bool is_add;
	uint64_t add, mask;
	struct mem_swap swap;
};

/* Executes one on a word that passed the check. False: it is missing; no state has changed. */
bool mem_atomic_run(const struct mem_atomic *op, struct mem_grant *grant, uint64_t *original);

/* ---- One touch (touch.c) -------------------------------------------------------------------- */

/*
 * TCP's view of a segment; see TOUCH-09. A transport without byte sequence uses
 * mem_touch_message().
 */
struct touch_stream {
	uint32_t end_sn;      /* of the segment's last byte, pad and CRC included */
	uint32_t expected_sn; /* next expected, before this segment was absorbed */
	uint32_t next_sn;     /* and after: past end_sn + 1 if it filled a gap */
	uint32_t window;      /* bytes that may still arrive from next_sn on */
	uint32_t qp;	      /* owner of the stream: while touched, no other may use the entry */
};

struct touch_input {
	bool is_last, is_one_touch, is_touched;
	uint32_t stored_sn;
	struct touch_stream stream;
};

enum touch_action {
	TOUCH_PLACE = 0,	/* 05a, 05b */
	TOUCH_PLACE_AND_CLOSE,	/* 05d */
	TOUCH_PLACE_AND_STORE,	/* 05e */
	TOUCH_DROP,		/* 05f, and duplicates of the stored segment (08) */
	TOUCH_CLOSE_AND_REFUSE, /* 05c */
	TOUCH_REFUSE		/* 07 */
};

/* TOUCH-05, 07 and 08 as a pure function. */
enum touch_action touch_decide(const struct touch_input *in);

/*
 * Decides about a tagged segment that passed the access check, and updates the entry. The caller
 * then places the payload (*is_placed), drops it, or refuses it (a reason). A grant taken before
 * stays valid for the placement as long as no other call changes the table.
 */
enum weft_reason mem_touch_segment(struct mem_table *t, uint32_t tag, bool is_last,
				   const struct touch_stream *stream, bool *is_placed);

/*
 * TOUCH-06: the in-order point of the stream that touched this tag moved to next_sn. Only tests
 * place out of order, as TOUCH-05 allows: iwarp/ places in order, where mem_touch_segment() closes
 * the entry itself.
 */
void mem_touch_advance(struct mem_table *t, uint32_t tag, uint32_t next_sn);

/* Whether the tag names an entry that ends with its first message. */
bool mem_touch_is_once(const struct mem_table *t, uint32_t tag);

/* A complete message to this tag arrived, or (TOUCH-10) the last response byte left, in order. */
void mem_touch_message(struct mem_table *t, uint32_t tag);
