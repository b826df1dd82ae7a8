/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/joint.h"

#include <stdlib.h>

enum { REQUESTS_MAX = 4096 };

static void shape_join(struct store_shape *all, const struct store_shape *one)
{
	if (one->size_bytes < all->size_bytes)
		all->size_bytes = one->size_bytes;
	if (one->block_bytes > all->block_bytes)
		all->block_bytes = one->block_bytes;
	all->can &= one->can;
	all->is_readonly |= one->is_readonly;
	all->outlives_process &= one->outlives_process;
}

enum weft_reason joint_init(struct joint *j, const struct joint_config *c,
			    struct store_shape *shape)
{
	if (c->member_count > STORE_MEMBERS_MAX)
		return WEFT_R_STORE_MEMBERS;
	if (c->requests_max == 0 || c->requests_max > REQUESTS_MAX)
		return WEFT_R_BAD_ARGUMENT;
	for (uint32_t i = 0; i < c->member_count; i++) {
		j->members[i] = c->members[i];
		if (!c->members[i])
			continue;
		if (shape->block_bytes == 0)
			*shape = c->members[i]->shape;
		shape_join(shape, &c->members[i]->shape);
	}
	if (shape->block_bytes == 0) /* none is there */
		return WEFT_R_STORE_MEMBERS;
	shape->size_bytes -= shape->size_bytes % shape->block_bytes;
	j->count = c->member_count;
	j->request_count = c->requests_max;
	j->jobs = calloc(c->requests_max, sizeof(*j->jobs));
	j->parts = calloc((size_t)c->requests_max * j->count, sizeof(*j->parts));
	list_init(&j->free);
	list_init(&j->waiting);
	list_init(&j->done);
	if (!j->jobs || !j->parts) {
		joint_fini(j);
		return WEFT_R_NO_MEMORY;
	}
	for (uint32_t i = 0; i < c->requests_max; i++) {
		j->jobs[i].parts = &j->parts[(size_t)i * j->count];
		for (uint32_t m = 0; m < j->count; m++) {
			j->jobs[i].parts[m].job = &j->jobs[i];
			j->jobs[i].parts[m].member = m;
		}
		list_add_tail(&j->free, &j->jobs[i].link);
	}
	return WEFT_OK;
}

void joint_fini(struct joint *j)
{
	free(j->jobs);
	free(j->parts);
}

struct job *joint_job_begin(struct joint *j, struct store_request *whole)
{
	list_add_tail(&j->waiting, &whole->link);
	return joint_job_next(j);
}

struct job *joint_job_next(struct joint *j)
{
	if (list_is_empty(&j->free) || list_is_empty(&j->waiting))
		return NULL;
	return joint_job_of(j, CONTAINER_OF(list_pop(&j->waiting), struct store_request, link));
}

struct job *joint_job_of(struct joint *j, struct store_request *whole)
{
	struct job *job = CONTAINER_OF(list_pop(&j->free), struct job, link);

	job->whole = whole;
	job->pending = 0;
	job->tried = 0;
	job->failed = 0;
	job->is_sent = false;
	return job;
}

void joint_job_end(struct joint *j, struct job *job, enum weft_reason reason, int error)
{
	CHECK(job->pending == 0);
	store_request_end(job->whole, reason, error);
	list_add_tail(&j->done, &job->whole->link);
	list_add_tail(&j->free, &job->link);
}

void joint_part_submit(struct joint *j, struct part *p, uint64_t now_ns)
{
	p->job->pending++;
	j->under_way++;
	/* The shape is the intersection of the members' shapes, so each member accepts the part. */
	CHECK(store_submit(j->members[p->member], &p->request, now_ns) == WEFT_OK);
}

struct part *joint_part_done(struct joint *j, uint64_t now_ns)
{
	/* Poll members even with no part in progress: a member may have work of its own. */
	for (uint32_t m = 0; m < j->count; m++) {
		struct store_request *r = store_next_done(j->members[m], now_ns);
		struct part *p;

		if (!r)
			continue;
		p = CONTAINER_OF(r, struct part, request);
		p->job->pending--;
		j->under_way--;
		return p;
	}
	return NULL;
}

struct store_request *joint_pop_done(struct joint *j)
{
	if (list_is_empty(&j->done))
		return NULL;
	return CONTAINER_OF(list_pop(&j->done), struct store_request, link);
}

uint64_t joint_due(const struct joint *j)
{
	uint64_t due_ns = STORE_NEVER;

	for (uint32_t m = 0; m < j->count; m++) {
		uint64_t one_ns = j->members[m] ? store_due(j->members[m]) : STORE_NEVER;

		due_ns = one_ns < due_ns ? one_ns : due_ns;
	}
	return due_ns;
}

void joint_expire(struct joint *j, uint64_t now_ns)
{
	for (uint32_t m = 0; m < j->count; m++) {
		if (j->members[m])
			store_expire(j->members[m], now_ns);
	}
}

bool joint_event(struct joint *j, struct store_event *event)
{
	for (uint32_t m = 0; m < j->count; m++) {
		if (j->members[m] && store_event(j->members[m], event))
			return true;
	}
	return false;
}
