/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of a RoCE device: the program moves them through their states, and says with each
 * move what the two ends have agreed on. All of it is kept for who asks.
 */
#include "compat/ibverbs/qp_roce.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/roce.h>

#include "compat/ibverbs/address.h"
#include "compat/ibverbs/attributes.h"
#include "compat/ibverbs/device.h"
#include "compat/ibverbs/fabric_port.h"
#include "compat/ibverbs/group.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/memory.h"
#include "compat/ibverbs/qp.h"
#include "compat/ibverbs/say.h"

enum {
	PSN_MASK = 0xffffff,
	TIMER_MAX = 31,
	RETRIES_MAX = 7,
	QPN_MAX = 0xffffff,
	P_KEY_MASK = 0x7fff,
	MIGRATION = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE
};

static enum weft_qp_state state_now(const struct qp *qp)
{
	struct weft_qp_attr now;

	(void)weft_qp_query(qp->weft, &now);
	return now.state;
}

static void attr_init(struct qp *qp)
{
	qp->migrations = 0;
	qp->attr = (struct ibv_qp_attr){
		.path_mtu = IBV_MTU_1024,
		.path_mig_state = IBV_MIG_MIGRATED,
		.port_num = 1,
	};
}

/*
 * A peer may do nothing yet. How long a Send waits for a receive, RNR retries say alone; and a
 * request that fails here stops the send queue only, where the peer does not know (IBA 10.3.1.6).
 */
void qp_roce_init(struct qp *qp)
{
	bool is_unreliable = qp->ibv.qp_type == IBV_QPT_UD || qp->ibv.qp_type == IBV_QPT_UC;
	struct weft_qp_attr attr = {
		.receiver_wait_ns = UINT64_MAX,
		.on_failure = is_unreliable ? WEFT_FAIL_DRAIN : WEFT_FAIL_TERMINATE,
	};

	attr_init(qp);
	(void)weft_qp_modify(qp->weft, &attr,
			     WEFT_QP_REMOTE_RIGHTS | WEFT_QP_RECEIVER_WAIT | WEFT_QP_ON_FAILURE);
}

/* ---- What is brought ------------------------------------------------------------------------ */

static int out_of_range(const char *what, unsigned int value, unsigned int max)
{
	if (value <= max)
		return 0;
	say("ibv_modify_qp: %s is %u, and may be %u at most", what, value, max);
	return EINVAL;
}

static int check_numbers(const struct ibv_qp_attr *a, int mask)
{
	const struct {
		int attribute;
		const char *name;
		unsigned int value, max;
	} numbers[] = {
		{ IBV_QP_TIMEOUT, "timeout", a->timeout, TIMER_MAX },
		{ IBV_QP_RETRY_CNT, "retry_cnt", a->retry_cnt, RETRIES_MAX },
		{ IBV_QP_RNR_RETRY, "rnr_retry", a->rnr_retry, RETRIES_MAX },
		{ IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", a->min_rnr_timer, TIMER_MAX },
		{ IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", a->max_rd_atomic, READS_MAX },
		{ IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", a->max_dest_rd_atomic,
		  READS_MAX },
		{ IBV_QP_DEST_QPN, "dest_qp_num", a->dest_qp_num, QPN_MAX },
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if ((mask & numbers[i].attribute) &&
		    out_of_range(numbers[i].name, numbers[i].value, numbers[i].max) != 0)
			return EINVAL;
	}
	return 0;
}

static uint32_t ports_of(const struct ibv_context *context)
{
	return is_in_fabric(context) ? fabric_port_count() : 1;
}

/* The port, and a key of its table: of the new one, or of the one that it has. */
static int check_port(const struct qp *qp, const struct ibv_qp_attr *a, int mask)
{
	const struct ibv_context *context = qp->ibv.context;
	uint8_t port = mask & IBV_QP_PORT ? a->port_num : qp->attr.port_num;
	uint16_t p_key;

	if ((mask & IBV_QP_PORT) && (port < 1 || port > ports_of(context))) {
		say("ibv_modify_qp: port_num is %u, and there are %u", port, ports_of(context));
		return EINVAL;
	}
	if ((mask & IBV_QP_AV) && a->ah_attr.port_num != port) {
		say("ibv_modify_qp: ah_attr.port_num is %u, and the queue pair is at port %u",
		    a->ah_attr.port_num, port);
		return EINVAL;
	}
	if (!(mask & IBV_QP_PKEY_INDEX))
		return 0;
	if (pkey_read(context, port, a->pkey_index, &p_key) == 0 && (p_key & P_KEY_MASK) != 0)
		return 0;
	say("ibv_modify_qp: the table of P_Keys has no key at pkey_index %u", a->pkey_index);
	return EINVAL;
}

/* A packet that is longer than the interface takes would be lost, again and again. */
static int check_mtu(struct qp *qp, enum ibv_mtu mtu)
{
	enum ibv_mtu most = port_mtu(qp->ibv.context, qp->attr.port_num);

	if (mtu >= IBV_MTU_256 && mtu <= most)
		return 0;
	say("ibv_modify_qp: path_mtu is %d, and may be %d (of 256 bytes) to %d (%s's active_mtu)",
	    (int)mtu, IBV_MTU_256, (int)most, qp->ibv.context->device->name);
	return EINVAL;
}

/* IBA 10.3.1.3: by which port and to where, in which partition. */
static int check_alternate(const struct qp *qp, const struct ibv_qp_attr *a)
{
	const struct ibv_context *context = qp->ibv.context;
	struct weft_path path;
	uint16_t p_key;

	if (out_of_range("alt_timeout", a->alt_timeout, TIMER_MAX) != 0)
		return EINVAL;
	if (a->alt_ah_attr.port_num != a->alt_port_num) {
		say("ibv_modify_qp: alt_port_num is %u and alt_ah_attr.port_num %u",
		    a->alt_port_num, a->alt_ah_attr.port_num);
		return EINVAL;
	}
	if (pkey_read(context, a->alt_port_num, a->alt_pkey_index, &p_key) != 0 ||
	    (p_key & P_KEY_MASK) == 0) {
		say("ibv_modify_qp: the table of P_Keys has no key at alt_pkey_index %u",
		    a->alt_pkey_index);
		return EINVAL;
	}
	return path_of(qp->ibv.context, &a->alt_ah_attr, &path);
}

static int check_migration(const struct qp *qp, const struct ibv_qp_attr *a, int mask)
{
	bool has_state = mask & IBV_QP_PATH_MIG_STATE;

	if (!is_in_fabric(qp->ibv.context) &&
	    ((mask & IBV_QP_ALT_PATH) || (has_state && a->path_mig_state != IBV_MIG_MIGRATED))) {
		say("ibv_modify_qp: there are no alternate paths");
		return EOPNOTSUPP;
	}
	if (has_state && a->path_mig_state != IBV_MIG_MIGRATED &&
	    a->path_mig_state != IBV_MIG_REARM) {
		say("ibv_modify_qp: path_mig_state is %d, and may be IBV_MIG_REARM or "
		    "IBV_MIG_MIGRATED: ARMED it becomes by itself",
		    (int)a->path_mig_state);
		return EINVAL;
	}
	return mask & IBV_QP_ALT_PATH ? check_alternate(qp, a) : 0;
}

static int check_values(struct qp *qp, const struct ibv_qp_attr *a, int mask)
{
	struct weft_path path;
	int error = check_numbers(a, mask);

	if (!error)
		error = check_port(qp, a, mask);
	if (!error && (mask & IBV_QP_PATH_MTU))
		error = check_mtu(qp, a->path_mtu);
	if (!error && (mask & IBV_QP_AV))
		error = path_of(qp->ibv.context, &a->ah_attr, &path);
	return error ? error : check_migration(qp, a, mask);
}

static void keep(struct ibv_qp_attr *k, const struct ibv_qp_attr *a, int mask)
{
	if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
		k->en_sqd_async_notify = a->en_sqd_async_notify;
	if (mask & IBV_QP_ACCESS_FLAGS)
		k->qp_access_flags = a->qp_access_flags;
	if (mask & IBV_QP_PKEY_INDEX)
		k->pkey_index = a->pkey_index;
	if (mask & IBV_QP_PORT)
		k->port_num = a->port_num;
	if (mask & IBV_QP_QKEY)
		k->qkey = a->qkey;
	if (mask & IBV_QP_AV)
		k->ah_attr = a->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		k->path_mtu = a->path_mtu;
	if (mask & IBV_QP_TIMEOUT)
		k->timeout = a->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		k->retry_cnt = a->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		k->rnr_retry = a->rnr_retry;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		k->max_rd_atomic = a->max_rd_atomic;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		k->max_dest_rd_atomic = a->max_dest_rd_atomic;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		k->min_rnr_timer = a->min_rnr_timer;
	if (mask & IBV_QP_DEST_QPN)
		k->dest_qp_num = a->dest_qp_num;
	if (mask & IBV_QP_PATH_MIG_STATE)
		k->path_mig_state = a->path_mig_state;
	if (mask & IBV_QP_ALT_PATH) {
		k->alt_ah_attr = a->alt_ah_attr;
		k->alt_pkey_index = a->alt_pkey_index;
		k->alt_port_num = a->alt_port_num;
		k->alt_timeout = a->alt_timeout;
	}
	if (mask & IBV_QP_RATE_LIMIT)
		k->rate_limit = a->rate_limit;
	/* As adapters take them. */
	if (mask & IBV_QP_RQ_PSN)
		k->rq_psn = a->rq_psn & PSN_MASK;
	if (mask & IBV_QP_SQ_PSN)
		k->sq_psn = a->sq_psn & PSN_MASK;
}

/* ---- What comes of it ----------------------------------------------------------------------- */

static uint32_t mtu_bytes(enum ibv_mtu mtu)
{
	return 128U << mtu;
}

/* 0, or EINVAL: the address vector names an address that is no longer there. */
static int roce_of(struct qp *qp, const struct ibv_qp_attr *a, struct weft_roce_attr *r)
{
	bool is_rd = type_is_rd(qp->ibv.qp_type),
	     is_datagram = is_rd || qp->ibv.qp_type == IBV_QPT_UD;
	int error;

	*r = (struct weft_roce_attr){
		.peer_number = a->dest_qp_num,
		.psn_recv = a->rq_psn,
		.reads_in = a->max_dest_rd_atomic,
		.rnr_timer_code = a->min_rnr_timer,
		.q_key = a->qkey,
		.psn_send = a->sq_psn,
		.rdd = qp->rdd,
		.reads_out = is_rd ? READS_MAX : a->max_rd_atomic, /* RD: its context has one */
		.timeout_code = a->timeout,
		.retries = a->retry_cnt,
		.rnr_retries = a->rnr_retry,
		.rate_bps = (uint64_t)a->rate_limit * 1000,
	};
	error = pkey_read(qp->ibv.context, a->port_num, a->pkey_index, &r->p_key);
	if (!error && !is_datagram)
		error = path_of(qp->ibv.context, &a->ah_attr, &r->path);
	r->path.mtu_bytes = mtu_bytes(is_datagram ? port_mtu(qp->ibv.context, a->port_num)
						  : a->path_mtu);
	return error;
}

static int alternate_of(struct qp *qp, const struct ibv_qp_attr *a, struct weft_alternate *to)
{
	*to = (struct weft_alternate){ .timeout_code = a->alt_timeout };
	if (pkey_read(qp->ibv.context, a->alt_port_num, a->alt_pkey_index, &to->p_key) != 0)
		return EINVAL;
	return path_of(qp->ibv.context, &a->alt_ah_attr, &to->path);
}

static uint32_t fields_of(int mask)
{
	static const struct {
		int attribute;
		uint32_t field;
	} table[] = {
		{ IBV_QP_MIN_RNR_TIMER, WEFT_ROCE_RNR_TIMER },
		{ IBV_QP_QKEY, WEFT_ROCE_Q_KEY },
		{ IBV_QP_RATE_LIMIT, WEFT_ROCE_RATE },
		{ IBV_QP_AV, WEFT_ROCE_PATH },
		{ IBV_QP_PKEY_INDEX, WEFT_ROCE_P_KEY },
		{ IBV_QP_TIMEOUT, WEFT_ROCE_TIMEOUT },
		{ IBV_QP_RETRY_CNT, WEFT_ROCE_RETRIES },
		{ IBV_QP_RNR_RETRY, WEFT_ROCE_RNR_RETRIES },
		{ IBV_QP_MAX_QP_RD_ATOMIC, WEFT_ROCE_READS_OUT },
		{ IBV_QP_MAX_DEST_RD_ATOMIC, WEFT_ROCE_READS_IN },
		{ IBV_QP_ALT_PATH, WEFT_ROCE_ALTERNATE },
		{ IBV_QP_PATH_MIG_STATE, WEFT_ROCE_MIGRATION },
	};
	uint32_t fields = 0;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		fields |= mask & table[i].attribute ? table[i].field : 0;
	return fields;
}

static int refusal(const struct qp *qp, enum weft_reason r)
{
	if (r != WEFT_OK)
		say("ibv_modify_qp: QP %06x: %s: %s", qp->ibv.qp_num, weft_reason_name(r),
		    weft_reason_text(r));
	return weftv_errno(r);
}

static int set_rights(struct qp *qp, unsigned int access)
{
	struct weft_qp_attr attr = { .remote_rights = qp_rights_of(access) };

	return refusal(qp, weft_qp_modify(qp->weft, &attr, WEFT_QP_REMOTE_RIGHTS));
}

static int set_state(struct qp *qp, enum ibv_qp_state to)
{
	struct weft_qp_attr attr = { 0 };
	int error = qp_to_weft_state(to, &attr.state);

	return error ? error : refusal(qp, weft_qp_modify(qp->weft, &attr, WEFT_QP_STATE));
}

static int adjust(struct qp *qp, const struct ibv_qp_attr *next, int mask)
{
	uint32_t fields = fields_of(mask);
	struct weft_alternate alternate;
	struct weft_roce_attr roce;
	int error = fields ? roce_of(qp, next, &roce) : 0;

	if (!error && (fields & WEFT_ROCE_ALTERNATE))
		error = alternate_of(qp, next, &alternate);
	if (error || !fields)
		return error;
	roce.alternate = &alternate;
	roce.migration = next->path_mig_state == IBV_MIG_REARM ? WEFT_REARM : WEFT_MIGRATED;
	return refusal(qp, weft_qp_modify_roce(qp->weft, &roce, fields));
}

static int pause_sending(struct qp *qp, const struct ibv_qp_attr *next, int mask)
{
	atomic_store(&qp->is_drained, false);
	atomic_store(&qp->wants_drained,
		     (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) && next->en_sqd_async_notify);
	return set_state(qp, IBV_QPS_SQD);
}

/* One that cannot be in its groups fails, rather than miss what is sent there. */
static int receive(struct qp *qp, const struct weft_roce_attr *roce, const struct ibv_qp_attr *next,
		   int mask)
{
	int error = refusal(qp, weft_qp_to_rtr(qp->weft, roce));

	if (error)
		return error;
	error = groups_join(qp);
	if (!error)
		error = adjust(qp, next, mask & MIGRATION);
	if (error)
		(void)set_state(qp, IBV_QPS_ERR);
	return error;
}

/* The move is one that there is. */
static int move(struct qp *qp, enum ibv_qp_state from, const struct ibv_qp_attr *next, int mask)
{
	struct weft_roce_attr roce;
	int error;

	switch (next->qp_state) {
	case IBV_QPS_INIT:
		return from == IBV_QPS_INIT ? 0 : set_state(qp, IBV_QPS_INIT);
	case IBV_QPS_RTR:
		error = roce_of(qp, next, &roce);
		return error ? error : receive(qp, &roce, next, mask);
	case IBV_QPS_RTS:
		if (from == IBV_QPS_RTR) {
			error = adjust(qp, next, mask & MIGRATION);
			if (!error)
				error = roce_of(qp, next, &roce);
			return error ? error : refusal(qp, weft_qp_to_rts(qp->weft, &roce));
		}
		error = adjust(qp, next, mask);
		return error || from == IBV_QPS_RTS ? error : set_state(qp, IBV_QPS_RTS);
	case IBV_QPS_SQD:
		return from == IBV_QPS_SQD ? adjust(qp, next, mask) : pause_sending(qp, next, mask);
	default:
		return set_state(qp, next->qp_state);
	}
}

/* All of it or nothing. */
static int change(struct qp *qp, enum ibv_qp_state from, const struct ibv_qp_attr *next, int mask)
{
	int error = mask & IBV_QP_ACCESS_FLAGS ? set_rights(qp, next->qp_access_flags) : 0;

	if (error)
		return error;
	error = move(qp, from, next, mask);
	if (error && (mask & IBV_QP_ACCESS_FLAGS))
		(void)set_rights(qp, qp->attr.qp_access_flags);
	return error;
}

/*
 * An end of XRC has one half of RC's attributes. Programs set those of both halves (perftest does):
 * Linux drops the other half before it looks at the rest.
 */
static int without_meaning(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	case IBV_QPT_XRC_RECV:
		return IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
	default:
		return 0;
	}
}

/* A queue pair that has gone to its alternate path has that as its path now. */
static void follow(struct qp *qp)
{
	static const enum ibv_mig_state states[] = {
		[WEFT_MIGRATED] = IBV_MIG_MIGRATED,
		[WEFT_REARM] = IBV_MIG_REARM,
		[WEFT_ARMED] = IBV_MIG_ARMED,
	};
	struct ibv_qp_attr *a = &qp->attr;
	const struct ibv_qp_attr was = *a;
	struct weft_qp_paths now;

	if (weft_qp_query_paths(qp->weft, &now) != WEFT_OK)
		return;
	a->path_mig_state = states[now.migration];
	if ((now.migrations - qp->migrations) % 2 != 0) {
		a->ah_attr = was.alt_ah_attr;
		a->alt_ah_attr = was.ah_attr;
		a->pkey_index = was.alt_pkey_index;
		a->alt_pkey_index = was.pkey_index;
		a->port_num = was.alt_port_num;
		a->alt_port_num = was.port_num;
		a->timeout = was.alt_timeout;
		a->alt_timeout = was.timeout;
	}
	qp->migrations = now.migrations;
}

static int modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state from = qp_state_of(state_now(qp));
	struct ibv_qp_attr next;
	int error;

	follow(qp);
	next = qp->attr;
	mask &= ~without_meaning(qp->ibv.qp_type);
	if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != from) {
		say("ibv_modify_qp: QP %06x: cur_qp_state is %d, and the queue pair's is %d",
		    qp->ibv.qp_num, (int)attr->cur_qp_state, (int)from);
		return EINVAL;
	}
	next.qp_state = mask & IBV_QP_STATE ? attr->qp_state : from;
	error = qp_move_check(qp->ibv.qp_type, from, next.qp_state, mask);
	if (!error)
		error = check_values(qp, attr, mask);
	if (error)
		return error;
	keep(&next, attr, mask);
	error = change(qp, from, &next, mask);
	if (error)
		return error;
	qp->attr = next;
	if (next.qp_state == IBV_QPS_RESET) {
		attr_init(qp);
		(void)set_rights(qp, 0);
		qp_forget_completions(qp);
	}
	qp->ibv.state = next.qp_state;
	return 0;
}

int qp_roce_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	int error;

	pthread_mutex_lock(&qp->attr_lock);
	error = modify(qp, attr, mask);
	pthread_mutex_unlock(&qp->attr_lock);
	return error;
}

/* In kilobits a second; 0: none. Packets are spread evenly, whatever it says of bursts. */
int modify_qp_rate_limit(struct ibv_qp *ibv, struct ibv_qp_rate_limit_attr *limit)
{
	struct qp *qp = qp_of(ibv);
	struct ibv_qp_attr next;
	enum weft_qp_state now;
	int error = 0;

	if (limit->comp_mask)
		return EINVAL;
	if (ibv->qp_type == IBV_QPT_UD || type_is_rd(ibv->qp_type))
		return EOPNOTSUPP;
	pthread_mutex_lock(&qp->attr_lock);
	now = state_now(qp);
	next = qp->attr;
	next.rate_limit = limit->rate_limit;
	if (now == WEFT_QPS_RTS || now == WEFT_QPS_SQD)
		error = adjust(qp, &next, IBV_QP_RATE_LIMIT);
	if (!error)
		qp->attr = next;
	pthread_mutex_unlock(&qp->attr_lock);
	return error;
}

void qp_roce_query(struct qp *qp, struct ibv_qp_attr *attr)
{
	pthread_mutex_lock(&qp->attr_lock);
	qp->ibv.state = qp_state_of(state_now(qp));
	follow(qp);
	*attr = qp->attr;
	pthread_mutex_unlock(&qp->attr_lock);
	attr->qp_state = attr->cur_qp_state = qp->ibv.state;
	attr->cap = qp->cap;
	attr->sq_draining = qp->ibv.state == IBV_QPS_SQD && !atomic_load(&qp->is_drained);
}
