/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What stripes and mirrors have in common: a job for each request that is worked on, with a part
 * for each member. Requests beyond the number of jobs wait in the order they came.
 */
#pragma once

#include "store/store.h"

struct job;

struct part {
	struct store_request request;
	struct job *job;
	uint32_t member;
	uint64_t at, end; /* of a stripe: what of the member is left to do */
};

struct job {
	struct list link;
	struct store_request *whole;
	uint32_t pending;   /* parts under way */
	uint32_t tried;	    /* of a mirror: bit n, member n was asked */
	uint32_t failed;    /* bit n: and it failed */
	bool is_sent;	    /* of a mirror: members were asked, and what is missing is a mark */
	struct list change; /* of a mirror: among those that write */
	uint64_t equal_to;  /* of a mirror's read: its range was made equal up to there */
	struct part *parts;
};

struct joint {
	struct store *members[STORE_MEMBERS_MAX]; /* of a mirror: NULL if it is missing */
	uint32_t count, request_count;
	uint32_t under_way; /* parts */
	struct job *jobs;
	struct part *parts;
	struct list free, waiting, done;
};

/* The smallest size, the largest block, what all can; the size is that of one member. */
enum weft_reason joint_init(struct joint *j, const struct joint_config *c,
			    struct store_shape *shape);
void joint_fini(struct joint *j);

/* NULL: it waits; joint_job_next gives it its turn. */
struct job *joint_job_begin(struct joint *j, struct store_request *whole);

/* A job for the request that has waited longest; NULL if none waits, or there is no job free. */
struct job *joint_job_next(struct joint *j);

/* A job for this request, which is in no list. There is one free. */
struct job *joint_job_of(struct joint *j, struct store_request *whole);

/* The request is done, the job is free. */
void joint_job_end(struct joint *j, struct job *job, enum weft_reason reason, int error);

/* The caller has filled in the part's request. */
void joint_part_submit(struct joint *j, struct part *p, uint64_t now_ns);

/* Takes a part that some member has done; NULL if there is none. */
struct part *joint_part_done(struct joint *j, uint64_t now_ns);

struct store_request *joint_pop_done(struct joint *j);
uint64_t joint_due(const struct joint *j);
void joint_expire(struct joint *j, uint64_t now_ns);
bool joint_event(struct joint *j, struct store_event *event);
