/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs. */
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "base/check.h"
#include "base/list.h"
#include "compat/ibverbs/async.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/pd.h"

struct wr_batch;
struct xrcd;

/* Limits of a queue pair: Reads and atomics in flight each way; requests in a queue. */
enum { READS_MAX = 128, QUEUE_MAX = 1 << 16 };

enum qp_events {
	QP_FATAL,
	QP_ACCESS,
	QP_REQUEST,
	QP_ESTABLISHED,
	QP_DRAINED,
	QP_LAST_WQE,
	QP_MIGRATED,
	QP_MIGRATION_REFUSED,
	QP_EVENTS
};

struct qp {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ex; /* begins with it */
	};
	struct list link; /* of all queue pairs */
	struct weftv_sink sink;
	struct weft_qp *weft;
	struct pd_memory memory; /* its own */
	struct xrcd *xrcd;	 /* of an XRC receive queue pair, or NULL */
	struct weftv_sink *_Atomic connection_sink;
	struct ibv_qp_cap cap;
	int sq_sig_all;
	uint8_t timeout; /* local ACK timeout: only stored, for ibv_query_qp() */
	unsigned int access;
	_Atomic uint32_t named; /* the queue pair number that it wants to connect to, 0: none */
	/* RoCE. The lock guards the attributes; it is taken before the engine's. */
	pthread_mutex_t attr_lock;
	struct ibv_qp_attr attr;
	uint32_t migrations;		       /* from path to path, of which attr knows */
	struct list groups;		       /* that it is attached to */
	uint32_t rdd;			       /* of a reliable datagram queue pair */
	atomic_bool is_drained, wants_drained; /* since SQD was requested; event requested */
	struct wr_batch *batch;
	struct async_record events[QP_EVENTS];
	uint32_t events_taken;
};

static inline struct qp *qp_of(struct ibv_qp *q)
{
	return CONTAINER_OF(q, struct qp, ibv);
}

/* Verbs have no type for reliable datagrams: weft uses the one for driver-specific types. */
static inline bool type_is_rd(enum ibv_qp_type type)
{
	return type == IBV_QPT_DRIVER;
}

/* A reliable datagram queue pair, in an RD domain. NULL and errno. */
struct ibv_qp *qp_create_rd(struct ibv_qp_init_attr_ex *attr, uint32_t rdd);

/* Lock the list of all queue pairs. */
void qps_lock(void);
void qps_unlock(void);

/* In a child of fork(), with it locked: drops the parent's queue pairs, whose numbers recur. */
void qps_forked(void);

enum ibv_qp_state qp_state_of(enum weft_qp_state state);
int qp_to_weft_state(enum ibv_qp_state state, enum weft_qp_state *weft);

/* Removes the flushed completions of a reset: verbs report none. */
void qp_forget_completions(struct qp *qp);

/* Function in the table of a context. */
struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
