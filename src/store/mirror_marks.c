/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "store/mirror_inside.h"

/* ---- Writing -------------------------------------------------------------------------------- */

bool marks_cover(struct mirror_store *mi, uint64_t offset, uint64_t length)
{
	uint32_t first = (uint32_t)(offset / mi->region_bytes);
	uint32_t last = (uint32_t)((offset + length - 1) / mi->region_bytes);
	bool is_covered = true;

	if (!mi->has_marks)
		return true;
	for (uint32_t i = first; i <= last; i++) {
		region_add(&mi->clean.recent, i);
		if (region_has(&mi->marks.stable, i) && region_has(&mi->marks.dirty, i))
			continue;
		region_add(&mi->marks.dirty, i);
		mi->marks.is_wanted = true;
		is_covered = false;
	}
	return is_covered;
}

static uint64_t area_offset(const struct mirror_store *mi, uint32_t member)
{
	return mi->joint.members[member]->shape.size_bytes - MARK_AREA_BYTES;
}

static void mark_write(struct mirror_store *mi, uint32_t member, uint64_t now_ns)
{
	const struct mirror_marks *marks = &mi->marks;
	struct member_state *state = &mi->states[member];
	struct own_request *o = &state->mark;
	struct mirror_mark mark = { .generation = marks->generation,
				    .serial = marks->serial,
				    .size_bytes = mi->store.shape.size_bytes,
				    .region_bytes = mi->region_bytes,
				    .members = marks->set,
				    .number = member };

	memcpy(mark.identity, mi->identity, sizeof(mark.identity));
	memcpy(mark.current_at, marks->current_at, sizeof(mark.current_at));
	/* The dirty bits of a member that is not current have no meaning. */
	if (marks->set & set_of(member))
		memcpy(mark.dirty, marks->coming.words, sizeof(mark.dirty));
	mark_encode(&mark, state->mark_bytes);
	o->kind = OWN_MARK;
	o->span = (struct span){ state->mark_bytes, MARK_BYTES };
	o->request = (struct store_request){
		.op = STORE_WRITE,
		.flags = mirror_own_fua(mi, member),
		.offset = area_offset(mi, member) + (uint64_t)state->next_copy * MARK_BYTES,
		.length = MARK_BYTES,
		.spans = &o->span,
		.span_count = 1,
	};
	mirror_own_submit(mi, o, now_ns);
}

void marks_join(struct mirror_store *mi)
{
	mi->marks.joining = mi->behind;
	mi->marks.is_wanted |= mi->behind != 0;
}

/* The joining members stay behind. Marks that name them stay valid until the next round. */
static void join_stop(struct mirror_store *mi, uint64_t now_ns)
{
	if (mi->marks.joining)
		sync_again(mi, now_ns);
	mi->marks.joining = 0;
	mi->marks.named = 0;
}

/* After a round of marks: joining members are now named, or have their own mark and are current. */
static void join_step(struct mirror_store *mi)
{
	struct mirror_marks *marks = &mi->marks;
	uint32_t joined = marks->named & marks->on;

	for (uint32_t m = 0; m < mi->joint.count; m++) {
		if (!(joined & set_of(m)))
			continue;
		mi->states[m].has_event = true;
		mi->states[m].event = (struct store_event){ .member = m };
	}
	mi->current |= joined;
	mi->behind &= ~joined;
	marks->joining &= ~joined;
	marks->named = marks->joining & marks->set;
	marks->is_wanted |= marks->named != 0;
}

void marks_go(struct mirror_store *mi, uint64_t now_ns)
{
	struct mirror_marks *marks = &mi->marks;
	uint32_t set;

	if (!mi->has_marks || !marks->is_wanted || marks->pending > 0 ||
	    mi->store.shape.is_readonly || mi->phase == MIRROR_REFUSED)
		return;
	/* A write has failed since the members were equal. */
	if (marks->joining & ~marks->set_stable && !region_none(&mi->sync.uncopied))
		join_stop(mi, now_ns);
	set = mi->current | marks->joining;
	marks->is_wanted = false;
	marks->serial++;
	marks->generation += set != marks->set;
	marks->set = set;
	marks->on = marks->is_for_behind ? mi->behind : mi->current | marks->named;
	marks->failed = 0;
	marks->coming = marks->dirty;
	for (uint32_t i = 0; i < MARK_WORDS; i++)
		marks->stable.words[i] &= marks->coming.words[i];
	marks->set_stable |= marks->set;
	marks->pending = set_count(marks->on);
	for (uint32_t m = 0; m < mi->joint.count; m++) {
		if (set & set_of(m))
			marks->current_at[m] = marks->generation;
	}
	for (uint32_t m = 0; m < mi->joint.count; m++) {
		if (marks->on & set_of(m))
			mark_write(mi, m, now_ns);
	}
}

static void marks_fail(struct mirror_store *mi, const struct store_request *why, uint64_t now_ns)
{
	join_stop(mi, now_ns);
	if (mi->phase == MIRROR_OPENING)
		mirror_refuse(mi, why->reason, set_first(mi->marks.failed & mi->current));
	mirror_marked(mi, why, now_ns);
}

/*
 * A member that is to be copied to must be marked incomplete from the start, but only after a
 * current member is marked complete: a crash in between would leave none.
 */
static void marks_opened(struct mirror_store *mi)
{
	struct mirror_marks *marks = &mi->marks;

	marks->is_for_behind = !marks->is_for_behind && mi->behind != 0;
	marks->is_wanted |= marks->is_for_behind;
	if (!marks->is_for_behind)
		mirror_phase_move(mi, MIRROR_OPEN);
}

static void marks_written(struct mirror_store *mi, uint64_t now_ns)
{
	struct mirror_marks *marks = &mi->marks;
	uint32_t failed = marks->failed & (mi->current | mi->behind);
	uint32_t on_current = marks->on & mi->current;

	/* All current members failed: none is dropped. Members behind do not matter for this. */
	if (on_current && !(on_current & ~failed)) {
		marks_fail(mi, &mi->states[set_first(on_current)].mark.request, now_ns);
		return;
	}
	for (uint32_t m = 0; m < mi->joint.count; m++) {
		if (failed & set_of(m))
			mirror_leave(mi, m, &mi->states[m].mark.request);
	}
	if (!(failed & marks->set)) {
		marks->set_stable = marks->set;
		marks->stable = marks->coming;
		for (uint32_t i = 0; i < MARK_WORDS; i++)
			mi->clean.has_dirty |= marks->stable.words[i] != 0;
		join_step(mi);
		if (mi->phase == MIRROR_OPENING)
			marks_opened(mi);
		mirror_marked(mi, NULL, now_ns);
	}
	marks_go(mi, now_ns);
}

/* ---- Opening -------------------------------------------------------------------------------- */

void marks_read(struct mirror_store *mi, uint64_t now_ns)
{
	mi->marks.pending = set_count(mi->present);
	for (uint32_t m = 0; m < mi->joint.count; m++) {
		struct own_request *o = &mi->states[m].mark;

		if (!(mi->present & set_of(m)))
			continue;
		o->kind = OWN_MARK;
		o->span = (struct span){ mi->states[m].mark_bytes, MARK_AREA_BYTES };
		o->request = (struct store_request){ .op = STORE_READ,
						     .offset = area_offset(mi, m),
						     .length = MARK_AREA_BYTES,
						     .spans = &o->span,
						     .span_count = 1 };
		mirror_own_submit(mi, o, now_ns);
	}
}

struct look {
	struct mirror_mark best; /* the mark with the highest generation */
	uint32_t marked, other;	 /* members with marks; members with other data */
	uint64_t serial;	 /* the highest */
};

static void look_at_all(struct mirror_store *mi, struct look *look)
{
	struct mirror_mark mark;
	uint32_t copy;

	for (uint32_t m = 0; m < mi->joint.count; m++) {
		enum mark_area area;

		if (!(mi->present & set_of(m)))
			continue;
		area = mark_area_read(&mark, mi->states[m].mark_bytes, &copy);
		if (area == MARK_AREA_OTHER)
			look->other |= set_of(m);
		if (area != MARK_AREA_MARK)
			continue;
		look->marked |= set_of(m);
		mi->states[m].next_copy = 1 - copy;
		if (mark.serial > look->serial)
			look->serial = mark.serial;
		if (mark.generation > look->best.generation)
			look->best = mark;
	}
}

/*
 * Was this member used without the members of the latest mark? Then it was current in a generation
 * that they do not know. It cannot be decided which side is right.
 */
static bool is_apart(const struct mirror_mark *mark, const struct mirror_mark *best)
{
	uint64_t known = 0;

	for (uint32_t i = 0; i < MARK_MEMBERS_MAX; i++)
		known |= best->current_at[i];
	if (mark->generation == best->generation)
		return mark->members != best->members;
	return known != 0 && mark->members & set_of(mark->number) &&
	       mark->generation > best->current_at[mark->number];
}

/*
 * Finds the members with all the data of the highest generation, and the regions that may differ.
 */
static void find_current(struct mirror_store *mi, const struct look *look)
{
	struct mirror_mark mark;
	uint32_t copy;

	for (uint32_t m = 0; m < mi->joint.count && mi->phase != MIRROR_REFUSED; m++) {
		const struct mirror_mark *best = &look->best;

		if (!(mi->present & set_of(m)))
			continue;
		if (area_offset(mi, m) < best->size_bytes)
			mirror_refuse(mi, WEFT_R_STORE_MIRROR_FOREIGN, m);
		/*
		 * The mirror's size was set with smaller blocks: this member's last block would be
		 * cut.
		 */
		if (best->size_bytes % mi->joint.members[m]->shape.block_bytes != 0)
			mirror_refuse(mi, WEFT_R_STORE_SIZE, m);
		if (!(look->marked & set_of(m)))
			continue;
		(void)mark_area_read(&mark, mi->states[m].mark_bytes, &copy);
		if (memcmp(mark.identity, best->identity, sizeof(mark.identity)) != 0 ||
		    mark.number != m || mark.size_bytes != best->size_bytes)
			mirror_refuse(mi, WEFT_R_STORE_MIRROR_FOREIGN, m);
		else if (is_apart(&mark, best))
			mirror_refuse(mi, WEFT_R_STORE_MIRROR_STALE, m);
		if (mark.generation != best->generation)
			continue;
		if (!(best->members & set_of(m)))
			continue;
		mi->current |= set_of(m);
		for (uint32_t i = 0; i < MARK_WORDS; i++)
			mi->marks.dirty.words[i] |= mark.dirty[i];
	}
}

static void open_marked(struct mirror_store *mi, const struct look *look)
{
	uint32_t missing = look->best.members & ~look->marked;

	find_current(mi, look);
	if (mi->phase == MIRROR_REFUSED)
		return;
	if (missing && !mi->is_degraded_ok) {
		mirror_refuse(mi, WEFT_R_STORE_MIRROR_MISSING, set_first(missing));
		return;
	}
	if (!mi->current) {
		mirror_refuse(mi, WEFT_R_STORE_MIRROR_STALE, set_first(look->marked));
		return;
	}
	memcpy(mi->identity, look->best.identity, sizeof(mi->identity));
	mi->store.shape.size_bytes = look->best.size_bytes;
	mi->marks.serial = look->serial;
	mi->marks.generation = look->best.generation;
	mi->marks.set = look->best.members;
	mi->marks.set_stable = look->best.members;
	memcpy(mi->marks.current_at, look->best.current_at, sizeof(mi->marks.current_at));
	if (mi->store.shape.is_readonly && !region_none(&mi->marks.dirty)) {
		/* They cannot be made equal: only one of them stays current. */
		mi->current = set_of(set_first(mi->current));
	} else if (set_count(mi->current) > 1) {
		memcpy(&mi->sync.unequal, &mi->marks.dirty, sizeof(mi->sync.unequal));
		mi->sync.has_work = !region_none(&mi->sync.unequal);
	}
}

/* The first member's content, whatever it is, is the data; it is copied to the others. */
static void open_new(struct mirror_store *mi)
{
	mi->current = set_of(set_first(mi->present));
}

static void open_decide(struct mirror_store *mi, uint64_t now_ns)
{
	uint32_t all = set_of(mi->joint.count) - 1;
	struct look look = { 0 };

	look_at_all(mi, &look);
	if (look.marked)
		open_marked(mi, &look);
	else if (mi->present != all && !mi->is_degraded_ok)
		mirror_refuse(mi, WEFT_R_STORE_MIRROR_MISSING, set_first(all & ~mi->present));
	else if (mi->present)
		open_new(mi);
	else
		mirror_refuse(mi, mi->states[0].mark.request.reason, 0);
	if (mi->phase != MIRROR_REFUSED && look.other && !mi->is_adopting)
		mirror_refuse(mi, WEFT_R_STORE_MIRROR_UNMARKED, set_first(look.other));
	if (mi->phase == MIRROR_REFUSED)
		return;
	mi->region_bytes = mark_region_bytes(mi->store.shape.size_bytes);
	mi->region_count = (uint32_t)((mi->store.shape.size_bytes - 1) / mi->region_bytes) + 1;
	if (mi->store.shape.is_readonly) {
		mirror_phase_move(mi, MIRROR_OPEN);
		return;
	}
	mi->behind = mi->present & ~mi->current;
	for (uint32_t i = 0; i < mi->region_count && mi->behind; i++)
		region_add(&mi->sync.uncopied, i);
	mi->sync.has_work |= mi->behind != 0;
	mi->marks.is_wanted = true;
	marks_go(mi, now_ns);
}

void marks_done(struct mirror_store *mi, struct own_request *o, uint64_t now_ns)
{
	bool is_ok = o->request.reason == WEFT_OK;

	if (mirror_own_flush(mi, o, now_ns))
		return;
	if (!is_ok)
		mi->marks.failed |= set_of(o->member);
	else if (o->request.op != STORE_READ)
		mi->states[o->member].next_copy = 1 - mi->states[o->member].next_copy;
	if (--mi->marks.pending > 0)
		return;
	if (o->request.op != STORE_READ) {
		marks_written(mi, now_ns);
		return;
	}
	for (uint32_t m = 0; m < mi->joint.count; m++) {
		if (mi->marks.failed & set_of(m))
			mirror_lose(mi, m, &mi->states[m].mark.request);
	}
	open_decide(mi, now_ns);
}
