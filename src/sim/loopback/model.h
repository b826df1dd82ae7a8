/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shadow model: computes a second time, in the simplest way, what the adapter should do. It
 * stands outside the system, reads its trace, and keeps its own copy of every process's memory, of
 * all rights and of all queues. After each step the copies must equal the real ones.
 *
 *	model.c       tags, rights and bytes
 *	model_wr.c    the required effect of each request, when the trace says that it ended
 *	model_queue.c posted requests, and the completions owed for them
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
	bool is_valid; /* window: bound */
	bool is_by_queue, is_one_touch;
	uint32_t tag, process, qp, rights;
	uint64_t start, length;
	uint32_t region; /* bound window: slot of its region */
	uint64_t offset; /* bound window: offset in its region */
	/* The memory of a region. */
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
	uint64_t pages[MODEL_PAGES]; /* of a registration; valid as long as the request */
	struct weft_page_list list;
	uint64_t length;
	bool is_made; /* a registration that the trace shows as carried out */
};

struct model_cq {
	struct weft_completion owed[MODEL_CQ];
	uint32_t max, head, count;
	uint64_t lost;
	bool is_overrun; /* a completion was lost since poll last reported it */
};

struct model_qp {
	bool is_open, is_stopping;	/* stopping: its owner is resetting or destroying it */
	uint32_t number, process, peer; /* peer: QP number */
	enum weft_qp_service service;
	enum weft_qp_state state;
	enum weft_qp_state state_due; /* the state due after a failure; RESET: none */
	enum weft_failure on_failure;
	uint32_t remote_rights;
	bool is_register_enabled, is_every_send_signalled, has_srq;
	struct model_send sends[MODEL_QUEUE];
	uint32_t head, count;
	struct model_recv_queue recvs;
};

struct model_process {
	bool is_privileged;
	uint8_t *shadow; /* the expected content of its memory */
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
	struct weft_completion *owed; /* its expected completion; NULL: lost */
};

struct model {
	enum weft_policy policy;
	bool is_tight; /* translations may run out at any time */
	struct model_process processes[MODEL_PROCESSES];
	struct model_qp qps[MODEL_QPS];
	struct model_tag tags[MODEL_TAGS];
	struct model_pending pending;
	bool is_dropped; /* the next request to end was dropped in transit */
	uint64_t retired, succeeded, refused, bytes; /* how much was checked */
	char failure[MODEL_FAILURE_BYTES];	     /* the first failed check; empty: none */
};

/* Records the first failed check, in words. */
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

/* A free slot. The scenario stays below the limit. */
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

/* May the queue pair make this access? */
bool model_may(struct model *m, const struct model_qp *qp, const struct weft_sge *range,
	       enum model_access_kind kind);

/* Byte number i of a range that model_may() allowed. */
uint8_t *model_byte(struct model *m, const struct weft_sge *range, uint64_t i);

/* A message has used the tag: a one-touch entry closes. */
void model_touch(struct model *m, uint32_t tag);

/* ---- Queues ---------------------------------------------------------------------------------- */

struct model_qp *model_qp_find(struct model *m, uint32_t number);
struct model_recv_queue *model_recvs(struct model *m, struct model_qp *qp);

/* Is a bind of this window queued anywhere? */
bool model_is_bind_queued(const struct model *m, uint32_t tag);

/* The slot for the next request, to be filled before posting; NULL: the queue is full. */
struct model_send *model_send_slot(struct model_qp *qp);

/* The request in the slot was accepted. */
void model_posted_send(struct model_qp *qp);
void model_posted_recv(struct model *m, struct model_recv_queue *q, const struct model_recv *recv);

/* Processes an event of the trace. */
void model_observe(struct model *m, const struct trace_event *event);

/* A process polled this completion. */
void model_polled(struct model *m, uint32_t process, const struct weft_completion *completion);

/* The byte count in the completion of a successful request. */
uint32_t model_byte_count(const struct model_send *send);

/* The request at the head of qp ended: checks the outcome, and applies its effect. */
void model_retired(struct model *m, struct model_qp *qp, enum weft_status status,
		   enum weft_reason reason);
