/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shadow model: what the adapter should do, worked out a second time in the plainest way. It
 * stands outside the system, reads its trace, and keeps its own copy of every process's memory, of
 * every right, of every queue. After each step the copies must equal the real ones.
 *
 *	model.c       tags, rights and bytes
 *	model_wr.c    what each request should have done, when the trace says that it ended
 *	model_queue.c who posted what, and which completions that owes
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "base/trace.h"

enum {
	MODEL_PROCESSES = 6,
	MODEL_QPS = 24,
	MODEL_TAGS = 160,
	MODEL_QUEUE = 16,
	MODEL_SEGMENTS = 4,
	MODEL_INLINE = 64,
	MODEL_PAGES = 8,
	MODEL_MAPPINGS = 6,
	MODEL_CQ = 64,
	MODEL_FAILURE_BYTES = 256,
	MODEL_NONE = UINT32_MAX
};

enum model_tag_kind { MODEL_TAG_FREE = 0, MODEL_TAG_RESERVED, MODEL_TAG_REGION, MODEL_TAG_WINDOW };

struct model_tag {
	enum model_tag_kind kind;
	bool is_valid; /* of a window: bound */
	bool is_by_queue, is_one_touch;
	uint32_t tag, process, qp, rights;
	uint64_t start, length;
	uint32_t region; /* of a bound window: slot of its region */
	uint64_t offset; /* of a bound window: in its region */
	/* What is behind a region. */
	uint64_t addr;
	bool has_pages;
	uint64_t pages[MODEL_PAGES], page_size, first_offset;
};

struct model_mapping {
	uint64_t addr, length, real;
};

struct model_recv {
	uint64_t id;
	struct weft_sge sges[MODEL_SEGMENTS];
	uint32_t sge_count;
};

struct model_recv_queue {
	struct model_recv wrs[MODEL_QUEUE];
	uint32_t head, count;
};

struct model_send {
	struct weft_send_wr wr;
	struct weft_sge sges[MODEL_SEGMENTS];
	uint8_t inline_data[MODEL_INLINE];
	uint64_t pages[MODEL_PAGES]; /* of a registration; lives as long as the request */
	struct weft_page_list list;
	uint64_t length;
	bool is_made; /* a registration that was seen to be carried out */
};

struct model_cq {
	struct weft_completion owed[MODEL_CQ];
	uint32_t max, head, count;
	uint64_t lost;
	bool is_overrun; /* one was lost since poll last said so */
};

struct model_qp {
	bool is_open, is_stopping;	/* stopping: its owner resets or destroys it just now */
	uint32_t number, process, peer; /* peer: number */
	enum weft_qp_service service;
	enum weft_qp_state state;
	enum weft_qp_state state_due; /* where a failure must lead it; RESET: nowhere */
	enum weft_failure on_failure;
	uint32_t remote_rights;
	bool is_register_enabled, is_every_send_signalled, has_srq;
	struct model_send sends[MODEL_QUEUE];
	uint32_t head, count;
	struct model_recv_queue recvs;
};

struct model_process {
	bool is_privileged;
	uint8_t *shadow; /* its memory, as it should be */
	uint64_t size;
	struct model_mapping mappings[MODEL_MAPPINGS];
	uint32_t mapping_count;
	struct model_recv_queue srq;
	struct model_cq cq;
};

/* A receive that has ended; the request that ended it is retired next. */
struct model_pending {
	bool is_set;
	uint32_t qp; /* slot */
	enum weft_status status;
	uint32_t byte_count;
	struct model_recv recv;
	struct weft_completion *owed; /* what its completion must say; NULL: it is lost */
};

struct model {
	enum weft_policy policy;
	bool is_tight; /* translations may run out at any time */
	struct model_process processes[MODEL_PROCESSES];
	struct model_qp qps[MODEL_QPS];
	struct model_tag tags[MODEL_TAGS];
	struct model_pending pending;
	bool is_dropped; /* the request that ends next was dropped on its way */
	uint64_t retired, succeeded, refused, bytes; /* how much was checked */
	char failure[MODEL_FAILURE_BYTES]; /* the first thing that was wrong; empty: none */
};

/* Records the first failure, in words. */
void model_fail(struct model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- Tags, rights and bytes ----------------------------------------------------------------- */

enum model_access_kind {
	MODEL_LOCAL_READ,
	MODEL_LOCAL_WRITE,
	MODEL_SINK,
	MODEL_REMOTE_READ,
	MODEL_REMOTE_WRITE,
	MODEL_REMOTE_ATOMIC
};

struct model_tag *model_tag_find(struct model *m, uint32_t tag);

/* An unused slot. The scenario keeps below the limit. */
struct model_tag *model_tag_new(struct model *m, uint32_t process, uint32_t tag,
				enum model_tag_kind kind);
uint32_t model_tags_used(const struct model *m);
bool model_region_has_windows(const struct model *m, const struct model_tag *region);

bool model_can_register(const struct model *m, uint32_t process,
			const struct weft_region_options *options);
void model_register(struct model_tag *t, const struct weft_region_options *options);
bool model_can_bind(struct model *m, uint32_t process, const struct weft_bind *bind);
void model_bind(struct model *m, const struct weft_bind *bind, uint32_t qp);
bool model_can_invalidate(struct model *m, uint32_t process, uint32_t qp, uint32_t tag);
void model_invalidate(struct model *m, uint32_t tag);

/* Whether the queue pair may do this. */
bool model_may(struct model *m, const struct model_qp *qp, const struct weft_sge *range,
	       enum model_access_kind kind);

/* Byte number i of a range that model_may() allowed. */
uint8_t *model_byte(struct model *m, const struct weft_sge *range, uint64_t i);

/* A message has passed: a one-touch entry closes. */
void model_touch(struct model *m, uint32_t tag);

/* ---- Queues ---------------------------------------------------------------------------------- */

struct model_qp *model_qp_find(struct model *m, uint32_t number);
struct model_recv_queue *model_recvs(struct model *m, struct model_qp *qp);

/* Whether a bind of this window waits in some queue. */
bool model_is_bind_queued(const struct model *m, uint32_t tag);

/* Where the next request is written before it is posted; NULL when the queue is full. */
struct model_send *model_send_slot(struct model_qp *qp);

/* The request in the slot was accepted. */
void model_posted_send(struct model_qp *qp);
void model_posted_recv(struct model *m, struct model_recv_queue *q, const struct model_recv *recv);

/* The trace says that something happened. */
void model_observe(struct model *m, const struct trace_event *event);

/* A process polled and got this. */
void model_polled(struct model *m, uint32_t process, const struct weft_completion *completion);

/* What the completion of a request that was carried out says of its length. */
uint32_t model_byte_count(const struct model_send *send);

/* The request at the head of qp ended: was that right, and what should have changed? */
void model_retired(struct model *m, struct model_qp *qp, enum weft_status status,
		   enum weft_reason reason);
