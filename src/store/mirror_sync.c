/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes members equal, and regions clean.
 *
 * A chunk is read from the first current member and from every member that must match it, and
 * written where it differs. So equal data costs no writes, and holes in files stay holes. Writes to
 * the chunk wait meanwhile. Chunks that a read waits for alternate with chunks of regions. A copy
 * to a member that marks may call current is made stable, because a read may have returned the
 * data.
 *
 * A chunk that no current member can read is skipped, and retried after all others are equal and
 * some time has passed. Its region stays marked, so members behind do not become current.
 */
#include <string.h>

#include "base/least.h"
#include "store/mirror_inside.h"

static const uint64_t clean_after_ns = UINT64_C(5000000000), again_after_ns = UINT64_C(1000000000);
static const uint64_t skipped_after_ns = UINT64_C(60000000000);

/* ---- Copying -------------------------------------------------------------------------------- */

static bool may_sync(const struct mirror_store *mi)
{
	return mi->phase == MIRROR_OPEN && !mi->store.shape.is_readonly && mi->sync.has_work;
}

static bool region_next(struct mirror_store *mi)
{
	struct mirror_sync *sync = &mi->sync;

	for (uint32_t i = 0; i < MARK_WORDS; i++) {
		uint64_t unequal = sync->unequal.words[i] & ~sync->skipped.words[i];
		uint64_t word = unequal ? unequal
					: sync->uncopied.words[i] & ~sync->skipped.words[i];

		if (word == 0)
			continue;
		sync->region = i * 64 + (uint32_t)__builtin_ctzll(word);
		sync->region_at = sync->region * mi->region_bytes;
		sync->is_within = true;
		sync->is_again = false;
		return true;
	}
	return false;
}

static void own_read_write(struct mirror_store *mi, uint32_t set, enum store_op op, uint64_t now_ns)
{
	struct mirror_sync *sync = &mi->sync;

	sync->pending = set_count(set);
	sync->failed = 0;
	for (uint32_t m = 0; m < mi->joint.count; m++) {
		struct own_request *o = &mi->states[m].sync;
		uint8_t *bytes = mi->states[op == STORE_WRITE ? sync->source : m].sync_bytes;
		bool is_stable = op == STORE_WRITE && mirror_counted(mi) & set_of(m);

		if (!(set & set_of(m)))
			continue;
		o->kind = OWN_SYNC;
		o->span = (struct span){ bytes, (size_t)sync->length };
		o->request = (struct store_request){ .op = op,
						     .flags = is_stable ? mirror_own_fua(mi, m) : 0,
						     .offset = sync->at,
						     .length = sync->length,
						     .spans = &o->span,
						     .span_count = 1 };
		mirror_own_submit(mi, o, now_ns);
	}
}

/* The end of the region that contains the byte. */
static uint64_t region_end(const struct mirror_store *mi, uint64_t at)
{
	return least((at / mi->region_bytes + 1) * mi->region_bytes, mi->store.shape.size_bytes);
}

/* Continues with the rest of the region, or with another region. */
static void region_go_on(struct mirror_store *mi, uint64_t end)
{
	struct mirror_sync *sync = &mi->sync;

	sync->region_at = end;
	if (end < region_end(mi, sync->region * mi->region_bytes))
		return;
	sync->is_within = false;
	if (sync->is_again)
		return;
	region_remove(&sync->unequal, sync->region);
	region_remove(&sync->uncopied, sync->region);
	region_remove(&sync->reported, sync->region);
}

/* The chunk is equal on all members. */
static void chunk_end(struct mirror_store *mi, uint64_t now_ns)
{
	struct mirror_sync *sync = &mi->sync;
	struct job *read = sync->read;
	uint64_t end = sync->at + sync->length;

	sync->step = SYNC_IDLE;
	sync->read = NULL;
	if (read) {
		read->equal_to = end;
		if (end < read->whole->offset + read->whole->length)
			return;
		list_remove(&read->link);
		sync->is_region_turn = true;
		mirror_equal(mi, read, now_ns);
		return;
	}
	/* A member dropped meanwhile may be current after a crash, without this chunk. */
	sync->is_again |= mirror_is_unsure(mi);
	region_go_on(mi, end);
}

static void chunk_read(struct mirror_store *mi, uint64_t now_ns)
{
	struct mirror_sync *sync = &mi->sync;
	uint32_t region = (uint32_t)(sync->at / mi->region_bytes);

	sync->source = set_first(mi->current);
	sync->targets = 0;
	if (region_has(&sync->unequal, region))
		sync->targets |= mirror_counted(mi) & ~set_of(sync->source);
	if (!sync->read && region_has(&sync->uncopied, region))
		sync->targets |= mi->behind;
	if (sync->targets == 0) {
		if (!sync->read)
			sync->length = region_end(mi, sync->at) - sync->at;
		chunk_end(mi, now_ns);
		return;
	}
	sync->step = SYNC_READ;
	own_read_write(mi, sync->targets | set_of(sync->source), STORE_READ, now_ns);
}

static bool may_sync_now(struct mirror_store *mi, uint64_t now_ns)
{
	if (!may_sync(mi) || now_ns < mi->sync.after_ns)
		return false;
	if (!mirror_is_unsure(mi))
		return true;
	mi->marks.is_wanted |= mi->marks.pending == 0;
	marks_go(mi, now_ns);
	sync_again(mi, now_ns);
	return false;
}

/* Only unreadable chunks are left: retry them later. */
static bool skipped_try_again(struct mirror_store *mi, uint64_t now_ns)
{
	if (region_none(&mi->sync.skipped))
		return false;
	memset(&mi->sync.skipped, 0, sizeof(mi->sync.skipped));
	mi->sync.after_ns = now_ns + skipped_after_ns;
	return true;
}

/* The next chunk of a region. */
static bool region_chunk(struct mirror_store *mi, uint64_t now_ns)
{
	struct mirror_sync *sync = &mi->sync;

	if (may_sync(mi) && now_ns < sync->after_ns)
		return false;
	if (!may_sync_now(mi, now_ns)) {
		sync->is_within = false;
		return false;
	}
	if (!sync->is_within && !region_next(mi)) {
		if (skipped_try_again(mi, now_ns))
			return false;
		sync->has_work = (mi->behind & ~mi->marks.joining) != 0;
		/* A flush in progress may have started before the last copy. */
		if (sync->has_work && mi->clean.pending == 0) {
			mi->clean.is_admitting = true;
			clean_go(mi, true, now_ns);
		}
		return false;
	}
	sync->is_region_turn = false;
	sync->read = NULL;
	sync->at = sync->region_at;
	sync->length = least(SYNC_CHUNK_BYTES, region_end(mi, sync->at) - sync->at);
	sync->lock_at = sync->at;
	sync->lock_length = sync->length;
	return true;
}

/* The next chunk of a read. The whole range of the read is locked until its last chunk is equal. */
static bool read_chunk(struct mirror_store *mi)
{
	struct mirror_sync *sync = &mi->sync;
	struct job *read;

	if (list_is_empty(&sync->reads))
		return false;
	read = CONTAINER_OF(sync->reads.next, struct job, link);
	sync->is_region_turn = false;
	sync->read = read;
	sync->at = read->equal_to;
	sync->length = least(SYNC_CHUNK_BYTES,
			     read->whole->offset + read->whole->length - sync->at);
	sync->length = least(sync->length, region_end(mi, sync->at) - sync->at);
	sync->lock_at = read->whole->offset;
	sync->lock_length = read->whole->length;
	return true;
}

static bool chunk_next(struct mirror_store *mi, uint64_t now_ns)
{
	if (mi->sync.is_region_turn && region_chunk(mi, now_ns))
		return true;
	return read_chunk(mi) || region_chunk(mi, now_ns);
}

void sync_again(struct mirror_store *mi, uint64_t now_ns)
{
	mi->sync.has_work = true;
	mi->sync.after_ns = now_ns + again_after_ns;
}

void sync_go(struct mirror_store *mi, uint64_t now_ns)
{
	struct mirror_sync *sync = &mi->sync;

	while (sync->step == SYNC_IDLE || sync->step == SYNC_LOCK) {
		if (sync->step == SYNC_LOCK && !sync->read && !may_sync_now(mi, now_ns))
			sync->step = SYNC_IDLE;
		if (sync->step == SYNC_IDLE && !chunk_next(mi, now_ns))
			return;
		sync->step = SYNC_LOCK;
		if (mirror_is_changing(mi, sync->lock_at, sync->lock_length))
			return;
		chunk_read(mi, now_ns);
	}
}

/* Fails a read that no current member can serve. */
static void read_failed(struct mirror_store *mi)
{
	struct mirror_sync *sync = &mi->sync;
	struct job *read = sync->read;

	sync->step = SYNC_IDLE;
	sync->read = NULL;
	sync->is_region_turn = true;
	list_remove(&read->link);
	mirror_unreadable(mi, read, &mi->states[set_first(mi->current)].sync.request);
}

/*
 * Reports the first unreadable chunk of each region and round, unless it was reported the last time
 * too. Once that chunk is readable, the next one is reported.
 */
static void chunk_tell(struct mirror_store *mi)
{
	struct mirror_sync *sync = &mi->sync;
	struct member_state *source = &mi->states[sync->source];

	if (region_has(&sync->skipped, sync->region))
		return;
	if (region_has(&sync->reported, sync->region) &&
	    sync->reported_at[sync->region] == sync->at)
		return;
	region_add(&sync->reported, sync->region);
	sync->reported_at[sync->region] = sync->at;
	source->has_event = true;
	source->event = (struct store_event){ .member = sync->source,
					      .reason = source->sync.request.reason,
					      .error = source->sync.request.error,
					      .offset = sync->at,
					      .length = sync->length };
}

/*
 * No current member can read the chunk: no member changes, and copying continues with the next
 * chunk after a delay, because the whole disk may be unreadable and others use it.
 */
static void chunk_skip(struct mirror_store *mi, uint64_t now_ns)
{
	struct mirror_sync *sync = &mi->sync;

	chunk_tell(mi);
	region_add(&sync->skipped, sync->region);
	sync->is_again = true;
	sync->step = SYNC_IDLE;
	region_go_on(mi, sync->at + sync->length);
	sync_again(mi, now_ns);
}

static void sync_failed(struct mirror_store *mi, uint64_t now_ns)
{
	struct mirror_sync *sync = &mi->sync;

	if ((mi->current & ~sync->failed) == 0) {
		if (sync->read)
			read_failed(mi);
		else
			chunk_skip(mi, now_ns);
		return;
	}
	for (uint32_t m = 0; m < mi->joint.count; m++) {
		if (sync->failed & (mi->current | mi->behind) & set_of(m))
			mirror_leave(mi, m, &mi->states[m].sync.request);
	}
	sync->step = SYNC_LOCK;
	marks_go(mi, now_ns);
}

static uint32_t differing(const struct mirror_store *mi)
{
	const struct mirror_sync *sync = &mi->sync;
	uint32_t set = 0;

	for (uint32_t m = 0; m < mi->joint.count; m++) {
		if (sync->targets & (mi->current | mi->behind) & set_of(m) &&
		    memcmp(mi->states[m].sync_bytes, mi->states[sync->source].sync_bytes,
			   (size_t)sync->length) != 0)
			set |= set_of(m);
	}
	return set;
}

void sync_done(struct mirror_store *mi, struct own_request *o, uint64_t now_ns)
{
	struct mirror_sync *sync = &mi->sync;
	uint32_t set;

	if (mirror_counted(mi) & set_of(o->member) && mirror_own_flush(mi, o, now_ns))
		return;
	if (o->request.reason != WEFT_OK)
		sync->failed |= set_of(o->member);
	if (--sync->pending > 0)
		return;
	if (sync->failed) {
		sync_failed(mi, now_ns);
	} else if (sync->step == SYNC_READ) {
		set = differing(mi);
		if (set) {
			sync->step = SYNC_WRITE;
			own_read_write(mi, set, STORE_WRITE, now_ns);
			return;
		}
		chunk_end(mi, now_ns);
	} else {
		chunk_end(mi, now_ns);
	}
	sync_go(mi, now_ns);
}

/* ---- Clean ---------------------------------------------------------------------------------- */

/* Finds regions that were not written since the last round and have no write in progress. */
static bool candidates_find(struct mirror_store *mi, bool is_now)
{
	struct mirror_clean *clean = &mi->clean;
	uint64_t any = 0;

	for (uint32_t i = 0; i < MARK_WORDS; i++)
		clean->candidates.words[i] = mi->marks.stable.words[i] & mi->marks.dirty.words[i] &
					     ~mi->sync.unequal.words[i] &
					     (is_now ? ~UINT64_C(0) : ~clean->recent.words[i]);
	for (const struct list *l = mi->changes.next; l != &mi->changes; l = l->next) {
		const struct store_request *r = CONTAINER_OF(l, struct job, change)->whole;
		uint64_t last = (r->offset + r->length - 1) / mi->region_bytes;

		for (uint64_t i = r->offset / mi->region_bytes; i <= last; i++)
			region_remove(&clean->candidates, (uint32_t)i);
	}
	memset(&clean->recent, 0, sizeof(clean->recent));
	for (uint32_t i = 0; i < MARK_WORDS; i++)
		any |= clean->candidates.words[i];
	return any != 0;
}

static bool may_clean(const struct mirror_store *mi)
{
	return mi->has_marks && mirror_is_open(mi) && mi->clean.pending == 0 &&
	       !mi->store.shape.is_readonly;
}

static void flushed(struct mirror_store *mi, uint64_t now_ns)
{
	struct mirror_clean *clean = &mi->clean;

	for (uint32_t i = 0; i < MARK_WORDS; i++) {
		uint64_t gone = clean->candidates.words[i] & ~clean->recent.words[i] &
				~mi->sync.unequal.words[i];

		mi->marks.dirty.words[i] &= ~gone;
		mi->marks.is_wanted |= gone != 0;
	}
	if (clean->is_admitting && region_none(&mi->sync.uncopied))
		marks_join(mi);
	clean->is_admitting = false;
	clean->has_dirty = !region_none(&mi->marks.dirty);
	marks_go(mi, now_ns);
}

void clean_go(struct mirror_store *mi, bool is_now, uint64_t now_ns)
{
	struct mirror_clean *clean = &mi->clean;

	if (!may_clean(mi) || (!is_now && (now_ns < clean->due_ns || !clean->has_dirty)))
		return;
	clean->due_ns = now_ns + clean_after_ns;
	if (!candidates_find(mi, is_now && mi->phase == MIRROR_SETTLED) && !clean->is_admitting) {
		clean->has_dirty = !region_none(&mi->marks.dirty);
		return;
	}
	if (!(mi->store.shape.can & STORE_CAN_FLUSH)) {
		flushed(mi, now_ns);
		return;
	}
	clean->on = mi->current | mi->behind;
	clean->failed = 0;
	clean->pending = set_count(clean->on);
	for (uint32_t m = 0; m < mi->joint.count; m++) {
		struct own_request *o = &mi->states[m].flush;

		if (!(clean->on & set_of(m)))
			continue;
		o->kind = OWN_FLUSH;
		o->request = (struct store_request){ .op = STORE_FLUSH };
		mirror_own_submit(mi, o, now_ns);
	}
}

void clean_done(struct mirror_store *mi, struct own_request *o, uint64_t now_ns)
{
	struct mirror_clean *clean = &mi->clean;

	if (o->request.reason != WEFT_OK)
		clean->failed |= set_of(o->member);
	if (--clean->pending > 0)
		return;
	if ((clean->on & ~clean->failed & mi->current) == 0) {
		/* All members failed: none is dropped; the next round retries. */
		clean->is_admitting = false;
		mi->sync.after_ns = now_ns + again_after_ns;
		return;
	}
	for (uint32_t m = 0; m < mi->joint.count; m++) {
		if (clean->failed & (mi->current | mi->behind) & set_of(m))
			mirror_leave(mi, m, &mi->states[m].flush.request);
	}
	flushed(mi, now_ns);
}

uint64_t sync_due(const struct mirror_store *mi)
{
	uint64_t due_ns = STORE_NEVER;

	if (mi->phase == MIRROR_NEW)
		return 0;
	if (may_sync(mi) && mi->sync.step == SYNC_IDLE && mi->clean.pending == 0)
		due_ns = mi->sync.after_ns;
	if (may_clean(mi) && mi->clean.has_dirty && mi->clean.due_ns < due_ns)
		due_ns = mi->clean.due_ns;
	return due_ns;
}
