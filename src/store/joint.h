/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What stripes and mirrors share: a job for each request in progress, with one part per member.
 * Requests beyond the number of jobs wait in order of arrival.
 */
#pragma once

#include "store/store.h"

struct job;

struct part {
	struct store_request request;
	struct job *job;
	uint32_t member;
	uint64_t at, end; /* stripe: the member's range that is left to do */
};

struct job {
	struct list link;
	struct store_request *whole;
	uint32_t pending;   /* parts in progress */
	uint32_t tried;	    /* mirror: bit n: member n was asked */
	uint32_t failed;    /* bit n: member n failed */
	bool is_sent;	    /* mirror: members were asked; the job waits for a mark */
	struct list change; /* mirror: in mirror_store.changes */
	uint64_t equal_to;  /* mirror, read: members are equal up to this offset */
	struct part *parts;
};

struct joint {
	struct store *members[STORE_MEMBERS_MAX]; /* mirror: NULL if missing */
	uint32_t count, request_count;
	uint32_t under_way; /* parts at the members */
	struct job *jobs;
	struct part *parts;
	struct list free, waiting, done;
};

/* shape: the smallest member's size, the largest block, and the abilities that all members have. */
enum weft_reason joint_init(struct joint *j, const struct joint_config *c,
			    struct store_shape *shape);
void joint_fini(struct joint *j);

/* NULL: the request is queued until joint_job_next() picks it. */
struct job *joint_job_begin(struct joint *j, struct store_request *whole);

/* A job for the oldest waiting request; NULL: none waits, or no job is free. */
struct job *joint_job_next(struct joint *j);

/* A job for a request that is not queued. A job must be free. */
struct job *joint_job_of(struct joint *j, struct store_request *whole);

/* Completes the request and frees the job. */
void joint_job_end(struct joint *j, struct job *job, enum weft_reason reason, int error);

/* Submits a part whose request the caller has filled in. */
void joint_part_submit(struct joint *j, struct part *p, uint64_t now_ns);

/* Takes a part that a member has completed; NULL: there is none. */
struct part *joint_part_done(struct joint *j, uint64_t now_ns);

struct store_request *joint_pop_done(struct joint *j);
uint64_t joint_due(const struct joint *j);
void joint_expire(struct joint *j, uint64_t now_ns);
bool joint_event(struct joint *j, struct store_event *event);
