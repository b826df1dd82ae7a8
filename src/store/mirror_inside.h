/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of a mirror share.
 *
 * Members are current (they have all the data, reads go to them), behind (they get all writes and
 * are being copied to) or out. Sets of members are bits. The marks (wire/mirror_mark.h) name the
 * current ones, and before a write goes out, its regions are dirty in the marks of all of them.
 *
 * A write is acknowledged when every member has it that some mark may call current: the write waits
 * until a mark without the others is stable.
 *
 * A member that is behind and has all the data becomes current in two steps. First the marks of the
 * current members name it, so that none of them opens without it from then on; then it gets its own
 * mark. When that is stable, too, it is current, and the others may leave.
 */
#pragma once

#include "store/joint.h"
#include "store/mirror_area.h"

enum { SYNC_CHUNK_BYTES = 64 * 1024 };

enum mirror_phase {
	MIRROR_NEW,	 /* the marks are not asked for yet */
	MIRROR_OPENING,	 /* they are read, decided on, and written */
	MIRROR_OPEN,	 /* requests are worked on, and members are made equal */
	MIRROR_SETTLING, /* it is about to be destroyed: nothing more is made equal */
	MIRROR_SETTLED,	 /* the last flush and marks have begun */
	MIRROR_REFUSED,
	MIRROR_PHASES
};

/* A request of the mirror itself. */
enum own_kind { OWN_MARK, OWN_SYNC, OWN_FLUSH };

struct own_request {
	struct store_request request;
	enum own_kind kind;
	uint32_t member;
	struct span span;
};

struct member_state {
	uint8_t *mark_bytes; /* MARK_AREA_BYTES: what was read at first, then one mark */
	uint8_t *sync_bytes; /* SYNC_CHUNK_BYTES */
	uint32_t next_copy;  /* of the mark: the one that is not the latest */
	struct own_request mark, sync, flush;
	bool has_event;
	struct store_event event;
};

/* Which bits are set for the regions. */
struct region_set {
	uint64_t words[MARK_WORDS];
};

/* Writing the marks: one at a time, to all current members. */
struct mirror_marks {
	bool is_wanted;	    /* what is to be in them has changed */
	bool is_for_behind; /* while opening: current members have theirs */
	uint32_t joining;   /* of those behind: they have all the data, and are to be current */
	uint32_t named;	    /* of those joining: the marks of all current members name them */
	uint32_t pending;
	uint32_t on;	     /* members this one goes to */
	uint32_t failed;     /* of those */
	uint32_t set;	     /* of this one, or the last: who is current */
	uint32_t set_stable; /* who may be current by some mark that is out there */
	uint64_t generation; /* of the set */
	uint64_t serial;
	uint64_t current_at[MARK_MEMBERS_MAX]; /* the last generation with the member in the set */
	struct region_set dirty;	       /* what is to be in them */
	struct region_set coming;	       /* what is in the one under way */
	struct region_set stable;	       /* dirty in every mark that may be found */
	/* Jobs whose regions are not dirty yet, or that a member which left would undo. */
	struct list waiting;
};

/* Copying, a chunk at a time: what a read waits for, and regions, in turn. */
enum sync_step { SYNC_IDLE, SYNC_LOCK, SYNC_READ, SYNC_WRITE };

struct mirror_sync {
	enum sync_step step;
	struct list reads;   /* jobs that read where members may differ */
	struct job *read;    /* the chunk is of this one, the first of them; NULL: of the region */
	uint64_t at, length; /* the chunk */
	uint64_t lock_at, lock_length; /* no write to it goes out meanwhile */
	uint32_t region;
	uint64_t region_at;  /* up to there it is equal */
	bool is_within;	     /* the region has begun */
	bool is_region_turn; /* a read has had its turn */
	bool is_again;	     /* the region has become unequal once more */
	bool has_work;	     /* some region may be unequal or uncopied, or a member behind */
	uint32_t source, targets, pending, failed;
	struct region_set unequal;  /* current members may differ there: reads make them equal */
	struct region_set uncopied; /* members behind do not have it */
	struct region_set skipped;  /* no current member can read some of it: it is tried again */
	struct region_set reported; /* the same, and that was reported */
	uint64_t reported_at[MARK_REGIONS_MAX]; /* which chunk of those it was */
	uint64_t after_ns;
};

/* Making regions clean again: a flush, then marks. */
struct mirror_clean {
	uint32_t pending, on, failed;
	bool is_admitting; /* the flush is for members that were behind */
	bool has_dirty;	   /* some region may be dirty */
	struct region_set candidates;
	struct region_set recent; /* written since the last look */
	uint64_t due_ns;
};

struct mirror_store {
	struct store store;
	struct joint joint;
	struct member_state states[STORE_MEMBERS_MAX];
	enum mirror_phase phase; /* written by mirror_phase_move() */
	/* As it was created. */
	bool has_marks;
	bool is_degraded_ok, is_adopting;
	uint8_t identity[MARK_IDENTITY_BYTES];
	enum weft_reason refusal;
	uint32_t refused_member;
	uint64_t region_bytes;
	uint32_t region_count;
	uint32_t present, current, behind; /* sets of members */
	uint32_t turn;			   /* who reads next */
	uint32_t own_under_way;
	struct list changes; /* jobs that write */
	struct mirror_marks marks;
	struct mirror_sync sync;
	struct mirror_clean clean;
};

static inline uint32_t set_of(uint32_t member)
{
	return UINT32_C(1) << member;
}

/* A library call on some processors, which the core has not. */
static inline uint32_t set_count(uint32_t set)
{
	uint32_t count = 0;

	for (; set != 0; set &= set - 1)
		count++;
	return count;
}

static inline uint32_t set_first(uint32_t set)
{
	return (uint32_t)__builtin_ctz(set);
}

static inline bool region_has(const struct region_set *s, uint32_t region)
{
	return s->words[region / 64] >> region % 64 & 1;
}

static inline void region_add(struct region_set *s, uint32_t region)
{
	s->words[region / 64] |= UINT64_C(1) << region % 64;
}

static inline void region_remove(struct region_set *s, uint32_t region)
{
	s->words[region / 64] &= ~(UINT64_C(1) << region % 64);
}

static inline bool region_none(const struct region_set *s)
{
	uint64_t any = 0;

	for (uint32_t i = 0; i < MARK_WORDS; i++)
		any |= s->words[i];
	return any == 0;
}

/* Members that some mark may call current, and that are still written to. */
static inline uint32_t mirror_counted(const struct mirror_store *mi)
{
	return mi->current | (mi->behind & mi->marks.set_stable);
}

/* Some mark may call a member current that has left: what it has may count after a crash. */
static inline bool mirror_is_unsure(const struct mirror_store *mi)
{
	return (mi->marks.set_stable & ~(mi->current | mi->behind)) != 0;
}

/* Its marks were read, and it was not refused for them. */
static inline bool mirror_is_open(const struct mirror_store *mi)
{
	return mi->phase == MIRROR_OPEN || mi->phase == MIRROR_SETTLING ||
	       mi->phase == MIRROR_SETTLED;
}

/* ---- mirror_store.c ------------------------------------------------------------------------- */

void mirror_phase_move(struct mirror_store *mi, enum mirror_phase to);
void mirror_refuse(struct mirror_store *mi, enum weft_reason reason, uint32_t member);

/* The member is neither read nor written from now on. It is current and not the last, or behind. */
void mirror_leave(struct mirror_store *mi, uint32_t member, const struct store_request *why);

/* A member cannot be read when the mirror is opened. */
void mirror_lose(struct mirror_store *mi, uint32_t member, const struct store_request *why);

/* Does a write to the range wait for the end of another? */
bool mirror_is_changing(const struct mirror_store *mi, uint64_t offset, uint64_t length);

/* The write may have been done here and not there: reads make its regions equal. */
void mirror_unequal(struct mirror_store *mi, uint64_t offset, uint64_t length);

/* A member does a request of the mirror's own. */
void mirror_own_submit(struct mirror_store *mi, struct own_request *o, uint64_t now_ns);

/* Its flags and, if it is done, what else is needed that a write is on stable storage: true. */
uint32_t mirror_own_fua(const struct mirror_store *mi, uint32_t member);
bool mirror_own_flush(struct mirror_store *mi, struct own_request *o, uint64_t now_ns);

/* All that is read is equal on all members, or could not be read at all. */
void mirror_equal(struct mirror_store *mi, struct job *read, uint64_t now_ns);
void mirror_unreadable(struct mirror_store *mi, struct job *read, const struct store_request *why);

/* What waits for marks: goes on, or ends with what the marks failed of (NULL: they did not). */
void mirror_marked(struct mirror_store *mi, const struct store_request *failure, uint64_t now_ns);

/* ---- mirror_marks.c ------------------------------------------------------------------------- */

/* Are all regions of the range dirty in every mark? Else they will be. */
bool marks_cover(struct mirror_store *mi, uint64_t offset, uint64_t length);

/* All members behind have all the data, on stable storage: they are to be current. */
void marks_join(struct mirror_store *mi);

/* Writes them if that is wanted and not under way. */
void marks_go(struct mirror_store *mi, uint64_t now_ns);
void marks_done(struct mirror_store *mi, struct own_request *o, uint64_t now_ns);

/* Reads the marks of all members that are there. */
void marks_read(struct mirror_store *mi, uint64_t now_ns);

/* ---- mirror_sync.c -------------------------------------------------------------------------- */

void sync_go(struct mirror_store *mi, uint64_t now_ns);
void sync_done(struct mirror_store *mi, struct own_request *o, uint64_t now_ns);

/* There is something to copy, or a member to make current, in a while. */
void sync_again(struct mirror_store *mi, uint64_t now_ns);

/* A look at what can be clean again: now, or when it is time. */
void clean_go(struct mirror_store *mi, bool is_now, uint64_t now_ns);
void clean_done(struct mirror_store *mi, struct own_request *o, uint64_t now_ns);

/* When sync_go or clean_go have something to do by themselves. */
uint64_t sync_due(const struct mirror_store *mi);
