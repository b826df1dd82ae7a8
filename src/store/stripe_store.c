/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stripe k of the device is stripe k / n of member k % n, n being the number of members:
 *
 *	device	 | 0 | 1 | 2 | 3 | 4 | 5 |
 *	member 0 | 0 | 2 | 4 |		member 1 | 1 | 3 | 5 |
 *
 * So the share of one member in a range is contiguous there. A part works through it, in pieces of
 * as many spans as a request takes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "store/joint.h"

struct stripe_store {
	struct store store;
	struct joint joint;
	uint64_t unit_bytes;
	struct span_list *spans; /* one per part, by index in joint.parts */
};

static struct stripe_store *stripe_of(struct store *s)
{
	return CONTAINER_OF(s, struct stripe_store, store);
}

/* The range of the member that the part covers; empty if at == end. */
static void part_range(const struct stripe_store *st, struct part *p)
{
	const struct store_request *whole = p->job->whole;
	uint64_t unit = st->unit_bytes, n = st->joint.count;
	uint64_t last_byte = whole->offset + whole->length - 1;
	uint64_t first = whole->offset / unit, last = last_byte / unit;
	uint64_t k = first + (p->member + n - first % n) % n;	/* the member's first stripe */
	uint64_t k_end = last - (last % n + n - p->member) % n; /* the member's last stripe */

	p->at = 0;
	p->end = 0;
	/*
	 * A range shorter than a full row may skip this member; k_end may then be below stripe 0.
	 */
	if (k > last)
		return;
	p->at = k / n * unit + (k == first ? whole->offset % unit : 0);
	p->end = k_end / n * unit + (k_end == last ? last_byte % unit + 1 : unit);
}

/* Fills the list with the spans for the member's bytes from p->at on; whole blocks only. */
static void part_spans(const struct stripe_store *st, const struct part *p, struct span_list *l)
{
	const struct store_request *whole = p->job->whole;
	uint64_t unit = st->unit_bytes, at = p->at;
	size_t rest;

	l->count = 0;
	l->length = 0;
	while (at < p->end) {
		uint64_t piece = least(unit - at % unit, p->end - at);
		uint64_t stripe = at / unit * st->joint.count + p->member;
		uint64_t offset = stripe * unit + at % unit;
		uint64_t added = store_span_cut(l, whole, offset - whole->offset, piece);

		at += added;
		if (added < piece)
			break;
	}
	/* A block has at most as many spans as a request, so the list holds at least one block. */
	for (rest = l->length % st->store.shape.block_bytes; rest > 0;) {
		struct span *last = &l->spans[l->count - 1];
		size_t cut = least(rest, last->length);

		last->length -= cut;
		l->length -= cut;
		rest -= cut;
		l->count -= last->length == 0;
	}
}

static void part_go(struct stripe_store *st, struct part *p, uint64_t now_ns)
{
	const struct store_request *whole = p->job->whole;
	struct span_list *l = &st->spans[p - st->joint.parts];

	p->request = (struct store_request){ .op = whole->op, .flags = whole->flags };
	if (whole->op != STORE_FLUSH) {
		p->request.offset = p->at;
		p->request.length = p->end - p->at;
	}
	if (whole->span_count > 0) {
		part_spans(st, p, l);
		p->request.length = l->length;
		p->request.spans = l->spans;
		p->request.span_count = l->count;
	}
	p->at += p->request.length;
	joint_part_submit(&st->joint, p, now_ns);
}

static void job_start(struct stripe_store *st, struct job *job, uint64_t now_ns)
{
	bool is_flush = job->whole->op == STORE_FLUSH;

	store_request_end(job->whole, WEFT_OK, 0);
	for (uint32_t m = 0; m < st->joint.count; m++) {
		struct part *p = &job->parts[m];

		p->at = 0;
		p->end = 0;
		if (!is_flush)
			part_range(st, p);
		if (is_flush || p->at < p->end)
			part_go(st, p, now_ns);
	}
}

static void stripe_submit(struct store *s, struct store_request *r, uint64_t now_ns)
{
	struct stripe_store *st = stripe_of(s);
	struct job *job = joint_job_begin(&st->joint, r);

	if (job)
		job_start(st, job, now_ns);
}

/* The first failure decides the whole request; other parts stop. */
static void part_done(struct stripe_store *st, struct part *p, uint64_t now_ns)
{
	struct job *job = p->job;
	struct store_request *whole = job->whole;

	if (p->request.reason != WEFT_OK && whole->reason == WEFT_OK)
		store_request_end(whole, p->request.reason, p->request.error);
	if (p->at < p->end && whole->reason == WEFT_OK) {
		part_go(st, p, now_ns);
		return;
	}
	if (job->pending > 0)
		return;
	joint_job_end(&st->joint, job, whole->reason, whole->error);
	job = joint_job_next(&st->joint);
	if (job)
		job_start(st, job, now_ns);
}

static struct store_request *stripe_next_done(struct store *s, uint64_t now_ns)
{
	struct stripe_store *st = stripe_of(s);
	struct part *p;

	while ((p = joint_part_done(&st->joint, now_ns)))
		part_done(st, p, now_ns);
	return joint_pop_done(&st->joint);
}

static uint64_t stripe_due(const struct store *s)
{
	return joint_due(&CONTAINER_OF(s, struct stripe_store, store)->joint);
}

static void stripe_expire(struct store *s, uint64_t now_ns)
{
	joint_expire(&stripe_of(s)->joint, now_ns);
}

static struct span stripe_memory(struct store *s, uint64_t offset, uint64_t length)
{
	struct stripe_store *st = stripe_of(s);
	uint64_t unit = st->unit_bytes, stripe = offset / unit;
	struct store *member = st->joint.members[stripe % st->joint.count];

	return store_memory(member, stripe / st->joint.count * unit + offset % unit,
			    least(length, unit - offset % unit));
}

static bool stripe_event(struct store *s, struct store_event *event)
{
	return joint_event(&stripe_of(s)->joint, event);
}

static void stripe_destroy(struct store *s)
{
	struct stripe_store *st = stripe_of(s);

	joint_fini(&st->joint);
	free(st->spans);
	free(st);
}

static const struct store_calls stripe_calls = {
	.submit = stripe_submit,
	.next_done = stripe_next_done,
	.due = stripe_due,
	.expire = stripe_expire,
	.memory = stripe_memory,
	.event = stripe_event,
	.destroy = stripe_destroy,
};

static enum weft_reason stripe_shape(struct store_shape *shape, uint64_t unit_bytes, uint32_t count)
{
	if (unit_bytes == 0 || unit_bytes % shape->block_bytes != 0)
		return WEFT_R_STORE_UNIT;
	shape->size_bytes -= shape->size_bytes % unit_bytes;
	if (shape->size_bytes > INT64_MAX / count)
		return WEFT_R_STORE_SIZE;
	shape->size_bytes *= count;
	return store_shape_check(shape);
}

enum weft_reason stripe_store_create(const struct joint_config *c, uint64_t unit_bytes,
				     struct store **out)
{
	struct stripe_store *st = calloc(1, sizeof(*st));
	enum weft_reason reason;

	if (!st)
		return WEFT_R_NO_MEMORY;
	st->store.calls = &stripe_calls;
	st->unit_bytes = unit_bytes;
	reason = joint_init(&st->joint, c, &st->store.shape);
	if (reason != WEFT_OK) {
		free(st);
		return reason;
	}
	reason = stripe_shape(&st->store.shape, unit_bytes, c->member_count);
	st->spans = calloc((size_t)c->requests_max * c->member_count, sizeof(*st->spans));
	if (reason == WEFT_OK && !st->spans)
		reason = WEFT_R_NO_MEMORY;
	if (reason != WEFT_OK) {
		stripe_destroy(&st->store);
		return reason;
	}
	*out = &st->store;
	return WEFT_OK;
}
