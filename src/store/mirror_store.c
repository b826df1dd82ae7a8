/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A member is left out only when another one did what it failed: then it no longer has what the
 * device has. What all fail leaves them as they are, so that an error of the caller's, or a full
 * file system under all of them, does not cost the last copy.
 */
#include <stdlib.h>

#include "store/joint.h"

struct member_state {
	bool is_out, is_reported;
	enum weft_reason reason;
	int error;
};

struct mirror_store {
	struct store store;
	struct joint joint;
	struct member_state states[STORE_MEMBERS_MAX];
	uint32_t turn; /* who reads next */
};

static struct mirror_store *mirror_of(struct store *s)
{
	return CONTAINER_OF(s, struct mirror_store, store);
}

static void part_go(struct mirror_store *mi, struct part *p, uint64_t now_ns)
{
	const struct store_request *whole = p->job->whole;

	p->request = (struct store_request){ .op = whole->op,
					     .flags = whole->flags,
					     .offset = whole->offset,
					     .length = whole->length,
					     .spans = whole->spans,
					     .span_count = whole->span_count };
	p->job->tried |= UINT32_C(1) << p->member;
	joint_part_submit(&mi->joint, p, now_ns);
}

/* Asks the next member in turn that was not asked for this request. False: all were. */
static bool read_go(struct mirror_store *mi, struct job *job, uint64_t now_ns)
{
	for (uint32_t i = 0; i < mi->joint.count; i++) {
		uint32_t m = mi->turn++ % mi->joint.count;

		if (mi->states[m].is_out || (job->tried >> m & 1))
			continue;
		part_go(mi, &job->parts[m], now_ns);
		return true;
	}
	return false;
}

static void job_start(struct mirror_store *mi, struct job *job, uint64_t now_ns)
{
	if (job->whole->op == STORE_READ) {
		CHECK(read_go(mi, job, now_ns));
		return;
	}
	for (uint32_t m = 0; m < mi->joint.count; m++) {
		if (!mi->states[m].is_out)
			part_go(mi, &job->parts[m], now_ns);
	}
}

static void mirror_submit(struct store *s, struct store_request *r, uint64_t now_ns)
{
	struct mirror_store *mi = mirror_of(s);
	struct job *job = joint_job_begin(&mi->joint, r);

	if (job)
		job_start(mi, job, now_ns);
}

static void members_leave(struct mirror_store *mi, const struct job *job)
{
	for (uint32_t m = 0; m < mi->joint.count; m++) {
		const struct store_request *r = &job->parts[m].request;
		struct member_state *state = &mi->states[m];

		if (!(job->failed >> m & 1) || state->is_out)
			continue;
		*state = (struct member_state){ .is_out = true,
						.reason = r->reason,
						.error = r->error };
	}
}

/*
 * Whether one did it that still counts. A member that has left while it worked on this does not: a
 * write that only it has would be gone.
 */
static bool is_well(const struct mirror_store *mi, const struct job *job)
{
	for (uint32_t m = 0; m < mi->joint.count; m++) {
		if ((job->tried & ~job->failed) >> m & 1 && !mi->states[m].is_out)
			return true;
	}
	return false;
}

static const struct store_request *first_failure(const struct job *job)
{
	uint32_t m = 0;

	while (!(job->failed >> m & 1))
		m++;
	return &job->parts[m].request;
}

static void job_end(struct mirror_store *mi, struct job *job, uint64_t now_ns)
{
	const struct store_request *r;

	if (is_well(mi, job)) {
		members_leave(mi, job);
		joint_job_end(&mi->joint, job, WEFT_OK, 0);
	} else {
		/* Somebody is never left out, so somebody was asked who counts, and failed. */
		r = first_failure(job);
		joint_job_end(&mi->joint, job, r->reason, r->error);
	}
	job = joint_job_next(&mi->joint);
	if (job)
		job_start(mi, job, now_ns);
}

static void part_done(struct mirror_store *mi, struct part *p, uint64_t now_ns)
{
	struct job *job = p->job;
	bool is_failed = p->request.reason != WEFT_OK;

	if (is_failed)
		job->failed |= UINT32_C(1) << p->member;
	if (job->whole->op == STORE_READ && (is_failed || !is_well(mi, job)) &&
	    read_go(mi, job, now_ns))
		return;
	if (job->pending == 0)
		job_end(mi, job, now_ns);
}

static struct store_request *mirror_next_done(struct store *s, uint64_t now_ns)
{
	struct mirror_store *mi = mirror_of(s);
	struct part *p;

	while ((p = joint_part_done(&mi->joint, now_ns)))
		part_done(mi, p, now_ns);
	return joint_pop_done(&mi->joint);
}

static uint64_t mirror_due(const struct store *s)
{
	return joint_due(&CONTAINER_OF(s, struct mirror_store, store)->joint);
}

static void mirror_expire(struct store *s, uint64_t now_ns)
{
	joint_expire(&mirror_of(s)->joint, now_ns);
}

static bool mirror_event(struct store *s, struct store_event *event)
{
	struct mirror_store *mi = mirror_of(s);

	for (uint32_t m = 0; m < mi->joint.count; m++) {
		struct member_state *state = &mi->states[m];

		if (!state->is_out || state->is_reported)
			continue;
		state->is_reported = true;
		*event = (struct store_event){ m, state->reason, state->error };
		return true;
	}
	return joint_event(&mi->joint, event);
}

static void mirror_destroy(struct store *s)
{
	struct mirror_store *mi = mirror_of(s);

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
	.destroy = mirror_destroy,
};

uint32_t mirror_store_out(const struct store *mirror)
{
	const struct mirror_store *mi = CONTAINER_OF(mirror, struct mirror_store, store);
	uint32_t out = 0;

	CHECK(mirror->calls == &mirror_calls);
	for (uint32_t m = 0; m < mi->joint.count; m++)
		out |= (uint32_t)mi->states[m].is_out << m;
	return out;
}

enum weft_reason mirror_store_create(const struct joint_config *c, struct store **out)
{
	struct mirror_store *mi = calloc(1, sizeof(*mi));
	enum weft_reason reason;

	if (!mi)
		return WEFT_R_NO_MEMORY;
	mi->store.calls = &mirror_calls;
	reason = joint_init(&mi->joint, c, &mi->store.shape);
	if (reason == WEFT_OK) {
		reason = store_shape_check(&mi->store.shape);
		if (reason == WEFT_OK) {
			*out = &mi->store;
			return WEFT_OK;
		}
		joint_fini(&mi->joint);
	}
	free(mi);
	return reason;
}
