/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mirror's internals, shared by its files.
 *
 * A member is current (it has all the data and serves reads), behind (it gets all writes, and older
 * data is being copied to it) or out. Sets of members are bit masks. The marks (wire/mirror_mark.h)
 * name the current members. Before a write is sent to members, its regions are dirty in the marks
 * of all current members.
 *
 * A write is acknowledged when it is on every member that any mark may still call current. If a
 * member failed, the write waits until marks without that member are stable.
 *
 * A member that is behind and has caught up becomes current in two steps. First the marks of the
 * current members name it, so that the mirror can no longer be opened without it; then it gets a
 * mark of its own. Once that is stable too, it is current, and the other members may fail.
 */
#pragma once

#include "store/joint.h"
#include "store/mirror_area.h"

enum { SYNC_CHUNK_BYTES = 64 * 1024 };

enum mirror_phase {
	MIRROR_NEW,	 /* the marks have not been requested yet */
	MIRROR_OPENING,	 /* marks are being read, evaluated and written */
	MIRROR_OPEN,	 /* serves requests, and makes members equal */
	MIRROR_SETTLING, /* about to be destroyed: copying has stopped */
	MIRROR_SETTLED,	 /* the last flush and marks have started */
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
	uint8_t *mark_bytes; /* MARK_AREA_BYTES: first the area as read, then one mark */
	uint8_t *sync_bytes; /* SYNC_CHUNK_BYTES */
	uint32_t next_copy;  /* the mark copy to overwrite next: not the latest */
	struct own_request mark, sync, flush;
	bool has_event;
	struct store_event event;
};

/* One bit per region. */
struct region_set {
	uint64_t words[MARK_WORDS];
};

/* Writing marks: one round at a time, to all current members. */
struct mirror_marks {
	bool is_wanted;	    /* their content has changed */
	bool is_for_behind; /* opening: current members have their marks, now those behind */
	uint32_t joining;   /* members behind that have caught up and are to be current */
	uint32_t named;	    /* joining members that the marks of all current members name */
	uint32_t pending;
	uint32_t on;	     /* members that get this mark */
	uint32_t failed;     /* members on which it failed */
	uint32_t set;	     /* members that this mark (or the last one) calls current */
	uint32_t set_stable; /* members that any mark on disk may call current */
	uint64_t generation; /* of `set` */
	uint64_t serial;
	uint64_t current_at[MARK_MEMBERS_MAX]; /* last generation whose set has the member */
	struct region_set dirty;	       /* to be in the next mark */
	struct region_set coming;	       /* in the mark being written */
	struct region_set stable;	       /* dirty in every mark that may be on disk */
	/*
	 * Jobs whose regions are not marked dirty yet, or that must outwait marks naming a failed
	 * member.
	 */
	struct list waiting;
};

/* Copying, one chunk at a time; chunks that a read waits for alternate with chunks of regions. */
enum sync_step { SYNC_IDLE, SYNC_LOCK, SYNC_READ, SYNC_WRITE };

struct mirror_sync {
	enum sync_step step;
	struct list reads;	       /* jobs that read where members may differ */
	struct job *read;	       /* the chunk's job; NULL: the chunk is of the region */
	uint64_t at, length;	       /* the chunk */
	uint64_t lock_at, lock_length; /* writes to this range wait */
	uint32_t region;
	uint64_t region_at;  /* the region is equal up to this offset */
	bool is_within;	     /* the region has been started */
	bool is_region_turn; /* the last chunk was for a read */
	bool is_again;	     /* the region became unequal again meanwhile */
	bool has_work;	     /* regions may be unequal or uncopied, or a member is behind */
	uint32_t source, targets, pending, failed;
	struct region_set unequal;  /* current members may differ; reads make them equal first */
	struct region_set uncopied; /* not yet copied to members behind */
	struct region_set skipped;  /* partly unreadable on all current members; retried later */
	struct region_set reported; /* skipped, and reported */
	uint64_t reported_at[MARK_REGIONS_MAX]; /* the chunk that was reported */
	uint64_t after_ns;
};

/* Cleaning regions: a flush, then marks. */
struct mirror_clean {
	uint32_t pending, on, failed;
	bool is_admitting; /* the flush is for members that have caught up */
	bool has_dirty;	   /* some regions may be dirty */
	struct region_set candidates;
	struct region_set recent; /* written since the last round */
	uint64_t due_ns;
};

struct mirror_store {
	struct store store;
	struct joint joint;
	struct member_state states[STORE_MEMBERS_MAX];
	enum mirror_phase phase; /* changed only by mirror_phase_move() */
	/* From the configuration. */
	bool has_marks;
	bool is_degraded_ok, is_adopting;
	uint8_t identity[MARK_IDENTITY_BYTES];
	enum weft_reason refusal;
	uint32_t refused_member;
	uint64_t region_bytes;
	uint32_t region_count;
	uint32_t present, current, behind; /* sets of members */
	uint32_t turn;			   /* the member that serves the next read */
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

/* Without a builtin: it is a library call on some processors, which the core must not make. */
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

/* Members that any mark may call current and that still get writes. */
static inline uint32_t mirror_counted(const struct mirror_store *mi)
{
	return mi->current | (mi->behind & mi->marks.set_stable);
}

/* May any mark still call a failed member current? Its data would count after a crash. */
static inline bool mirror_is_unsure(const struct mirror_store *mi)
{
	return (mi->marks.set_stable & ~(mi->current | mi->behind)) != 0;
}

/* The marks were read and accepted. */
static inline bool mirror_is_open(const struct mirror_store *mi)
{
	return mi->phase == MIRROR_OPEN || mi->phase == MIRROR_SETTLING ||
	       mi->phase == MIRROR_SETTLED;
}

/* ---- mirror_store.c ------------------------------------------------------------------------- */

void mirror_phase_move(struct mirror_store *mi, enum mirror_phase to);
void mirror_refuse(struct mirror_store *mi, enum weft_reason reason, uint32_t member);

/*
 * Drops a member: no more reads or writes go to it. It must be behind, or current but not the last.
 */
void mirror_leave(struct mirror_store *mi, uint32_t member, const struct store_request *why);

/* A member's mark cannot be read while the mirror is opened. */
void mirror_lose(struct mirror_store *mi, uint32_t member, const struct store_request *why);

/* Is a write to any part of the range in progress? */
bool mirror_is_changing(const struct mirror_store *mi, uint64_t offset, uint64_t length);

/* Submits a request of the mirror's own to its member. */
void mirror_own_submit(struct mirror_store *mi, struct own_request *o, uint64_t now_ns);

/*
 * The flags that make an own write stable; and the flush after it, if the member has no FUA. True:
 * a flush was submitted.
 */
uint32_t mirror_own_fua(const struct mirror_store *mi, uint32_t member);
bool mirror_own_flush(struct mirror_store *mi, struct own_request *o, uint64_t now_ns);

/* The range of the read is equal on all members; or no current member could read it. */
void mirror_equal(struct mirror_store *mi, struct job *read, uint64_t now_ns);
void mirror_unreadable(struct mirror_store *mi, struct job *read, const struct store_request *why);

/* Marks were written: continues the jobs that wait for them, or fails them (failure not NULL). */
void mirror_marked(struct mirror_store *mi, const struct store_request *failure, uint64_t now_ns);

/* ---- mirror_marks.c ------------------------------------------------------------------------- */

/* Are all regions of the range dirty in every mark? If not, they are added to the next one. */
bool marks_cover(struct mirror_store *mi, uint64_t offset, uint64_t length);

/* All members behind have all the data on stable storage: starts to make them current. */
void marks_join(struct mirror_store *mi);

/* Writes the marks if they have changed and no round is in progress. */
void marks_go(struct mirror_store *mi, uint64_t now_ns);
void marks_done(struct mirror_store *mi, struct own_request *o, uint64_t now_ns);

/* Reads the marks of all present members. */
void marks_read(struct mirror_store *mi, uint64_t now_ns);

/* ---- mirror_sync.c -------------------------------------------------------------------------- */

void sync_go(struct mirror_store *mi, uint64_t now_ns);
void sync_done(struct mirror_store *mi, struct own_request *o, uint64_t now_ns);

/* Retries copying, or making a member current, after a delay. */
void sync_again(struct mirror_store *mi, uint64_t now_ns);

/* Cleans regions that can be clean: now, or when it is due. */
void clean_go(struct mirror_store *mi, bool is_now, uint64_t now_ns);
void clean_done(struct mirror_store *mi, struct own_request *o, uint64_t now_ns);

/* When sync_go() or clean_go() is due by time alone. */
uint64_t sync_due(const struct mirror_store *mi);
