/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A member is dropped only when another member completed a request that it failed: then it lacks
 * data that the device has. A request that all members fail drops none, so that an error of the
 * caller, or a full file system under all of them, does not cost the last copy.
 *
 * Where members may differ, after a crash or a failed write, a range is made equal on all members
 * before it is read, so that its content stays the same whichever member fails next.
 *
 * Overlapping writes run one after the other, so that an old write delayed at a slow member never
 * overwrites a newer one.
 */
#include <stdlib.h>
#include <string.h>

#include "store/mirror_inside.h"

static struct mirror_store *mirror_of(struct store *s)
{
	return CONTAINER_OF(s, struct mirror_store, store);
}

static bool is_change(enum store_op op)
{
	return op == STORE_WRITE || op == STORE_WRITE_ZEROES || op == STORE_DISCARD;
}

static bool is_overlap(uint64_t a, uint64_t a_length, uint64_t b, uint64_t b_length)
{
	return a < b ? b - a < a_length : a - b < b_length;
}

/* ---- Phases --------------------------------------------------------------------------------- */

void mirror_phase_move(struct mirror_store *mi, enum mirror_phase to)
{
	static const bool is_legal[MIRROR_PHASES][MIRROR_PHASES] = {
		[MIRROR_NEW] = { [MIRROR_OPENING] = true, [MIRROR_REFUSED] = true },
		[MIRROR_OPENING] = { [MIRROR_OPEN] = true, [MIRROR_REFUSED] = true },
		[MIRROR_OPEN] = { [MIRROR_SETTLING] = true },
		[MIRROR_SETTLING] = { [MIRROR_SETTLED] = true },
		[MIRROR_REFUSED] = { [MIRROR_REFUSED] = true },
	};

	CHECK(is_legal[mi->phase][to]);
	mi->phase = to;
}

/* If there are several reasons, the last one counts. */
void mirror_refuse(struct mirror_store *mi, enum weft_reason reason, uint32_t member)
{
	mirror_phase_move(mi, MIRROR_REFUSED);
	mi->refusal = reason;
	mi->refused_member = member;
}

/* ---- Members -------------------------------------------------------------------------------- */

static void event_add(struct mirror_store *mi, uint32_t member, enum weft_reason reason, int error)
{
	mi->states[member].has_event = true;
	mi->states[member].event = (struct store_event){ .member = member,
							 .reason = reason,
							 .error = error };
}

void mirror_lose(struct mirror_store *mi, uint32_t member, const struct store_request *why)
{
	mi->present &= ~set_of(member);
	event_add(mi, member, why->reason, why->error);
}

void mirror_leave(struct mirror_store *mi, uint32_t member, const struct store_request *why)
{
	uint32_t left = set_of(member);

	mi->current &= ~left;
	CHECK(mi->current != 0);
	mi->behind &= ~left;
	mi->marks.joining &= ~left;
	mi->marks.named &= ~left;
	mi->marks.is_wanted |= ((mi->marks.set | mi->marks.set_stable) & left) != 0;
	if (!mi->has_marks)
		mi->marks.set_stable = mi->current;
	event_add(mi, member, why->reason, why->error);
}

void mirror_own_submit(struct mirror_store *mi, struct own_request *o, uint64_t now_ns)
{
	mi->own_under_way++;
	CHECK(store_submit(mi->joint.members[o->member], &o->request, now_ns) == WEFT_OK);
}

uint32_t mirror_own_fua(const struct mirror_store *mi, uint32_t member)
{
	return mi->joint.members[member]->shape.can & STORE_CAN_FUA ? STORE_FUA : 0;
}

bool mirror_own_flush(struct mirror_store *mi, struct own_request *o, uint64_t now_ns)
{
	uint32_t can = mi->joint.members[o->member]->shape.can;

	if (o->request.reason != WEFT_OK || o->request.op != STORE_WRITE || can & STORE_CAN_FUA ||
	    !(can & STORE_CAN_FLUSH))
		return false;
	o->request = (struct store_request){ .op = STORE_FLUSH };
	mirror_own_submit(mi, o, now_ns);
	return true;
}

/* ---- Ranges --------------------------------------------------------------------------------- */

bool mirror_is_changing(const struct mirror_store *mi, uint64_t offset, uint64_t length)
{
	for (const struct list *l = mi->changes.next; l != &mi->changes; l = l->next) {
		const struct store_request *r = CONTAINER_OF(l, struct job, change)->whole;

		if (is_overlap(offset, length, r->offset, r->length))
			return true;
	}
	return false;
}

/* A write may have reached only some members: reads must first make its regions equal. */
static void mirror_unequal(struct mirror_store *mi, uint64_t offset, uint64_t length)
{
	uint32_t first = (uint32_t)(offset / mi->region_bytes);
	uint32_t last = (uint32_t)((offset + length - 1) / mi->region_bytes);
	bool is_one = set_count(mi->current | mi->marks.set_stable) == 1;

	for (uint32_t i = first; i <= last; i++) {
		if (!is_one)
			region_add(&mi->sync.unequal, i);
		if (mi->behind)
			region_add(&mi->sync.uncopied, i);
		if (mi->sync.region == i)
			mi->sync.is_again = true;
		mi->sync.has_work = true;
	}
}

static bool is_unequal(const struct mirror_store *mi, const struct store_request *r)
{
	uint32_t first = (uint32_t)(r->offset / mi->region_bytes);
	uint32_t last = (uint32_t)((r->offset + r->length - 1) / mi->region_bytes);

	for (uint32_t i = first; i <= last && mi->sync.has_work; i++) {
		if (region_has(&mi->sync.unequal, i))
			return true;
	}
	return false;
}

/* ---- Jobs ----------------------------------------------------------------------------------- */

static void part_go(struct mirror_store *mi, struct part *p, uint64_t now_ns)
{
	const struct store_request *whole = p->job->whole;

	/* After a discard one member may read old data and another zeroes: write zeroes instead. */
	p->request = (struct store_request){ .op = whole->op == STORE_DISCARD ? STORE_WRITE_ZEROES
									      : whole->op,
					     .flags = whole->flags,
					     .offset = whole->offset,
					     .length = whole->length,
					     .spans = whole->spans,
					     .span_count = whole->span_count };
	p->job->tried |= set_of(p->member);
	joint_part_submit(&mi->joint, p, now_ns);
}

static void parts_go(struct mirror_store *mi, struct job *job, uint64_t now_ns)
{
	for (uint32_t m = 0; m < mi->joint.count; m++) {
		if ((mi->current | mi->behind) & set_of(m))
			part_go(mi, &job->parts[m], now_ns);
	}
}

/*
 * Reads from a member that was not tried yet: the next in turn, or always the first where members
 * may differ because a write is in progress. False: all were tried.
 */
static bool read_go(struct mirror_store *mi, struct job *job, uint64_t now_ns)
{
	const struct store_request *r = job->whole;
	uint32_t may = mi->current & ~job->tried, m;

	if (!may)
		return false;
	if (mirror_is_changing(mi, r->offset, r->length)) {
		m = set_first(may);
	} else {
		do
			m = mi->turn++ % mi->joint.count;
		while (!(may & set_of(m)));
	}
	part_go(mi, &job->parts[m], now_ns);
	return true;
}

/* Queues the job until marks without the dropped members are stable. */
static void marks_await(struct mirror_store *mi, struct job *job, uint64_t now_ns)
{
	list_add_tail(&mi->marks.waiting, &job->link);
	/* Retry marks that failed before. */
	mi->marks.is_wanted |= mi->marks.pending == 0;
	marks_go(mi, now_ns);
}

static void read_start(struct mirror_store *mi, struct job *job, uint64_t now_ns)
{
	if (!is_unequal(mi, job->whole)) {
		CHECK(read_go(mi, job, now_ns));
	} else if (mirror_is_unsure(mi)) {
		marks_await(mi, job, now_ns);
	} else {
		job->equal_to = job->whole->offset;
		list_add_tail(&mi->sync.reads, &job->link);
		sync_go(mi, now_ns);
	}
}

static void job_start(struct mirror_store *mi, struct job *job, uint64_t now_ns)
{
	const struct store_request *r = job->whole;

	if (r->op == STORE_READ) {
		read_start(mi, job, now_ns);
		return;
	}
	if (is_change(r->op)) {
		list_add_tail(&mi->changes, &job->change);
		if (!marks_cover(mi, r->offset, r->length)) {
			list_add_tail(&mi->marks.waiting, &job->link);
			marks_go(mi, now_ns);
			return;
		}
	}
	parts_go(mi, job, now_ns);
}

/*
 * Must the request wait for a write in progress, for an earlier waiting one, or for a chunk's copy?
 */
static bool must_wait(const struct mirror_store *mi, const struct store_request *r)
{
	const struct list *waiting = &mi->joint.waiting;

	if (!is_change(r->op))
		return false;
	if (mirror_is_changing(mi, r->offset, r->length))
		return true;
	if (mi->sync.step != SYNC_IDLE &&
	    is_overlap(r->offset, r->length, mi->sync.lock_at, mi->sync.lock_length))
		return true;
	for (const struct list *l = waiting->next; l != &r->link; l = l->next) {
		const struct store_request *other = CONTAINER_OF(l, struct store_request, link);

		if (is_change(other->op) &&
		    is_overlap(r->offset, r->length, other->offset, other->length))
			return true;
	}
	return false;
}

static void waiting_go(struct mirror_store *mi, uint64_t now_ns)
{
	struct list *l, *next;

	if (mi->phase == MIRROR_NEW || mi->phase == MIRROR_OPENING)
		return;
	for (l = mi->joint.waiting.next; l != &mi->joint.waiting; l = next) {
		struct store_request *r = CONTAINER_OF(l, struct store_request, link);

		next = l->next;
		if (mi->phase == MIRROR_REFUSED) {
			list_remove(&r->link);
			store_request_end(r, mi->refusal, 0);
			list_add_tail(&mi->joint.done, &r->link);
			continue;
		}
		if (list_is_empty(&mi->joint.free))
			return;
		if (must_wait(mi, r))
			continue;
		list_remove(&r->link);
		job_start(mi, joint_job_of(&mi->joint, r), now_ns);
	}
}

static void job_finish(struct mirror_store *mi, struct job *job, const struct store_request *as)
{
	if (is_change(job->whole->op))
		list_remove(&job->change);
	joint_job_end(&mi->joint, job, as ? as->reason : WEFT_OK, as ? as->error : 0);
}

/* Every member that any mark may call current has the write. */
static bool is_safe(const struct mirror_store *mi, const struct job *job)
{
	return (mi->marks.set_stable & ~(job->tried & ~job->failed)) == 0;
}

static bool is_marked(struct mirror_store *mi, const struct job *job)
{
	if (job->whole->op == STORE_READ)
		return !mirror_is_unsure(mi);
	return job->is_sent ? is_safe(mi, job)
			    : marks_cover(mi, job->whole->offset, job->whole->length);
}

/* A dropped member may be current after a crash, and lacks this write. */
static void mark_missed(struct mirror_store *mi, struct job *job, const struct store_request *why)
{
	if (job->is_sent && is_change(job->whole->op))
		mirror_unequal(mi, job->whole->offset, job->whole->length);
	job_finish(mi, job, why);
}

void mirror_marked(struct mirror_store *mi, const struct store_request *failure, uint64_t now_ns)
{
	struct list *l, *next;

	for (l = mi->marks.waiting.next; l != &mi->marks.waiting; l = next) {
		struct job *job = CONTAINER_OF(l, struct job, link);
		bool is_ready = is_marked(mi, job);

		next = l->next;
		if (!is_ready && !failure)
			continue;
		list_remove(&job->link);
		if (!is_ready)
			mark_missed(mi, job, failure);
		else if (job->whole->op == STORE_READ)
			read_start(mi, job, now_ns);
		else if (job->is_sent)
			job_finish(mi, job, NULL);
		else
			parts_go(mi, job, now_ns);
	}
}

void mirror_equal(struct mirror_store *mi, struct job *read, uint64_t now_ns)
{
	if (mirror_is_unsure(mi))
		marks_await(mi, read, now_ns);
	else
		CHECK(read_go(mi, read, now_ns));
}

void mirror_unreadable(struct mirror_store *mi, struct job *read, const struct store_request *why)
{
	job_finish(mi, read, why);
}

/* All members that were asked have answered. */
static void job_end(struct mirror_store *mi, struct job *job, uint64_t now_ns)
{
	const struct store_request *r = job->whole;
	uint32_t done = job->tried & ~job->failed;

	/* A member dropped in the meantime does not count: data that only it has is lost. */
	if ((done & mi->current) == 0) {
		if (is_change(r->op))
			mirror_unequal(mi, r->offset, r->length);
		/* Some member is always current, so a current one was asked and failed. */
		job_finish(mi, job, &job->parts[set_first(job->failed)].request);
		return;
	}
	for (uint32_t m = 0; m < mi->joint.count; m++) {
		if (job->failed & (mi->current | mi->behind) & set_of(m))
			mirror_leave(mi, m, &job->parts[m].request);
	}
	if (r->op == STORE_READ || is_safe(mi, job)) {
		job_finish(mi, job, NULL);
		marks_go(mi, now_ns);
	} else {
		job->is_sent = true;
		marks_await(mi, job, now_ns);
	}
}

static void part_done(struct mirror_store *mi, struct part *p, uint64_t now_ns)
{
	struct job *job = p->job;
	bool is_failed = p->request.reason != WEFT_OK;

	mi->joint.under_way--;
	job->pending--;
	if (is_failed)
		job->failed |= set_of(p->member);
	if (job->whole->op == STORE_READ && (is_failed || !(mi->current & set_of(p->member))) &&
	    read_go(mi, job, now_ns))
		return;
	if (job->pending == 0)
		job_end(mi, job, now_ns);
}

/* ---- Calls ---------------------------------------------------------------------------------- */

static void done_take(struct mirror_store *mi, struct store_request *r, uint64_t now_ns)
{
	size_t parts_bytes = (size_t)mi->joint.request_count * mi->joint.count *
			     sizeof(struct part);
	struct own_request *o;

	if ((uintptr_t)r - (uintptr_t)mi->joint.parts < parts_bytes) {
		part_done(mi, CONTAINER_OF(r, struct part, request), now_ns);
		return;
	}
	o = CONTAINER_OF(r, struct own_request, request);
	mi->own_under_way--;
	if (o->kind == OWN_MARK)
		marks_done(mi, o, now_ns);
	else if (o->kind == OWN_SYNC)
		sync_done(mi, o, now_ns);
	else
		clean_done(mi, o, now_ns);
}

static void pump(struct mirror_store *mi, uint64_t now_ns)
{
	bool is_moving = true;

	if (mi->phase == MIRROR_NEW) {
		mirror_phase_move(mi, MIRROR_OPENING);
		marks_read(mi, now_ns);
	}
	while (is_moving) {
		is_moving = false;
		for (uint32_t m = 0; m < mi->joint.count; m++) {
			struct store *member = mi->joint.members[m];
			struct store_request *r = member ? store_next_done(member, now_ns) : NULL;

			if (!r)
				continue;
			is_moving = true;
			done_take(mi, r, now_ns);
			waiting_go(mi, now_ns);
			if (mi->sync.step == SYNC_LOCK)
				sync_go(mi, now_ns);
		}
	}
	waiting_go(mi, now_ns);
}

static void mirror_submit(struct store *s, struct store_request *r, uint64_t now_ns)
{
	struct mirror_store *mi = mirror_of(s);

	list_add_tail(&mi->joint.waiting, &r->link);
	waiting_go(mi, now_ns);
}

static struct store_request *mirror_next_done(struct store *s, uint64_t now_ns)
{
	struct mirror_store *mi = mirror_of(s);

	pump(mi, now_ns);
	return joint_pop_done(&mi->joint);
}

static uint64_t mirror_due(const struct store *s)
{
	const struct mirror_store *mi = CONTAINER_OF(s, struct mirror_store, store);
	uint64_t own_ns = sync_due(mi), members_ns = joint_due(&mi->joint);

	return own_ns < members_ns ? own_ns : members_ns;
}

static void mirror_expire(struct store *s, uint64_t now_ns)
{
	struct mirror_store *mi = mirror_of(s);

	joint_expire(&mi->joint, now_ns);
	sync_go(mi, now_ns);
	clean_go(mi, false, now_ns);
}

static bool mirror_event(struct store *s, struct store_event *event)
{
	struct mirror_store *mi = mirror_of(s);

	for (uint32_t m = 0; m < mi->joint.count; m++) {
		struct member_state *state = &mi->states[m];

		if (!state->has_event)
			continue;
		state->has_event = false;
		*event = state->event;
		return true;
	}
	return joint_event(&mi->joint, event);
}

/* Stops copying and cleans the regions that can be clean. */
static bool mirror_settle(struct store *s, uint64_t now_ns)
{
	struct mirror_store *mi = mirror_of(s);

	if (mi->phase == MIRROR_OPEN)
		mirror_phase_move(mi, MIRROR_SETTLING);
	pump(mi, now_ns);
	if (mi->phase == MIRROR_OPEN) /* the first call */
		mirror_phase_move(mi, MIRROR_SETTLING);
	if (mi->own_under_way == 0 && mi->phase == MIRROR_SETTLING) {
		mirror_phase_move(mi, MIRROR_SETTLED);
		clean_go(mi, true, now_ns);
		pump(mi, now_ns);
	}
	return mi->own_under_way == 0;
}

static void mirror_destroy(struct store *s)
{
	struct mirror_store *mi = mirror_of(s);

	for (uint32_t m = 0; m < mi->joint.count; m++) {
		free(mi->states[m].mark_bytes);
		free(mi->states[m].sync_bytes);
	}
	joint_fini(&mi->joint);
	free(mi);
}

static const struct store_calls mirror_calls = {
	.submit = mirror_submit,
	.next_done = mirror_next_done,
	.due = mirror_due,
	.expire = mirror_expire,
	.memory = store_no_memory,
	.event = mirror_event,
	.settle = mirror_settle,
	.destroy = mirror_destroy,
};

enum weft_reason mirror_store_opened(const struct store *mirror, uint32_t *member)
{
	const struct mirror_store *mi = CONTAINER_OF(mirror, struct mirror_store, store);

	CHECK(mirror->calls == &mirror_calls);
	*member = mi->refused_member;
	if (mi->phase == MIRROR_NEW || mi->phase == MIRROR_OPENING)
		return WEFT_R_BUSY;
	return mi->phase == MIRROR_REFUSED ? mi->refusal : WEFT_OK;
}

void mirror_store_refuse(struct store *mirror, enum weft_reason reason, uint32_t member)
{
	struct mirror_store *mi = mirror_of(mirror);

	CHECK(mirror->calls == &mirror_calls);
	mirror_refuse(mi, reason, member);
}

/* ---- Creation ------------------------------------------------------------------------------- */

static bool member_init(struct mirror_store *mi, uint32_t m)
{
	struct member_state *state = &mi->states[m];

	state->mark.member = m;
	state->sync.member = m;
	state->flush.member = m;
	if (mi->joint.members[m])
		mi->present |= set_of(m);
	else
		event_add(mi, m, WEFT_R_STORE_MIRROR_MISSING, 0);
	state->mark_bytes = malloc(MARK_AREA_BYTES);
	state->sync_bytes = malloc(SYNC_CHUNK_BYTES);
	return state->mark_bytes && state->sync_bytes;
}

static enum weft_reason shape_init(struct mirror_store *mi)
{
	struct store_shape *shape = &mi->store.shape;
	enum weft_reason reason;

	if (mi->has_marks) {
		if (shape->size_bytes <= MARK_AREA_BYTES)
			return WEFT_R_STORE_SIZE;
		shape->size_bytes -= MARK_AREA_BYTES;
		shape->size_bytes -= shape->size_bytes % shape->block_bytes;
	}
	if (!(shape->can & STORE_CAN_WRITE_ZEROES))
		shape->can &= ~(uint32_t)STORE_CAN_DISCARD;
	reason = store_shape_check(shape);
	if (reason == WEFT_OK)
		mi->region_bytes = mark_region_bytes(shape->size_bytes);
	return reason;
}

static enum weft_reason create(const struct mirror_store_config *c, bool has_marks,
			       struct store **out)
{
	struct mirror_store *mi = calloc(1, sizeof(*mi));
	enum weft_reason reason;

	if (!mi)
		return WEFT_R_NO_MEMORY;
	mi->store.calls = &mirror_calls;
	mi->has_marks = has_marks;
	mi->is_degraded_ok = c->is_degraded_ok;
	mi->is_adopting = c->is_adopting;
	memcpy(mi->identity, c->identity, sizeof(mi->identity));
	list_init(&mi->changes);
	list_init(&mi->marks.waiting);
	list_init(&mi->sync.reads);
	reason = joint_init(&mi->joint, &c->joint, &mi->store.shape);
	if (reason != WEFT_OK) {
		free(mi);
		return reason;
	}
	reason = shape_init(mi);
	for (uint32_t m = 0; m < mi->joint.count && reason == WEFT_OK; m++) {
		if (!member_init(mi, m))
			reason = WEFT_R_NO_MEMORY;
	}
	if (reason != WEFT_OK) {
		mirror_destroy(&mi->store);
		return reason;
	}
	if (!has_marks) {
		mi->phase = MIRROR_OPEN;
		mi->current = mi->present;
		mi->marks.set_stable = mi->present;
	}
	*out = &mi->store;
	return WEFT_OK;
}

enum weft_reason mirror_store_create(const struct joint_config *c, struct store **out)
{
	return create(&(struct mirror_store_config){ .joint = *c }, false, out);
}

enum weft_reason mirror_store_open(const struct mirror_store_config *c, struct store **out)
{
	return create(c, true, out);
}
