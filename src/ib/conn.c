/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib/conn.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "ib/datagram.h"
#include "ib/direct.h"
#include "ib/ee.h"
#include "ib/group.h"
#include "ib/migrate.h"
#include "ib/pace.h"
#include "ib/port.h"
#include "ib/rc.h"
#include "ib/rc_holes.h"
#include "ib/rc_retry.h"
#include "ib/requester.h"
#include "ib/responder.h"
#include "wire/iba_aeth.h"
#include "wire/iba_psn.h"

void conn_ready(struct ib_conn *c)
{
	if (!list_is_linked(&c->ready_link))
		list_add_tail(&c->port->ready, &c->ready_link);
}

void conn_alarm(struct ib_conn *c)
{
	uint64_t at = c->req.deadline_ns;

	if (at != UINT64_MAX && (!timer_is_set(&c->timer) || at < c->timer.deadline_ns))
		timer_queue_set(&c->port->timers, &c->timer, at);
}

void conn_deadline(struct ib_conn *c, uint64_t deadline_ns)
{
	c->req.deadline_ns = deadline_ns;
	conn_alarm(c);
}

void conn_fail(struct ib_conn *c, enum weft_reason reason)
{
	if (c->qp)
		qp_fail(c->qp, reason);
	CHECK(!c->qp);
}

uint64_t conn_timeout_ns(uint8_t code)
{
	return code ? iba_timeout_ns(code) : UINT64_MAX;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static uint32_t power_of_two(uint32_t at_least)
{
	uint32_t n = 1;

	while (n < at_least)
		n *= 2;
	return n;
}

static bool path_is_good(const struct ib_path *path)
{
	return path->mtu_bytes > 0 &&
	       iba_mtu_bytes(iba_mtu_code(path->mtu_bytes)) == path->mtu_bytes;
}

static bool config_is_good(const struct ib_config *k)
{
	return k->peer_qp <= IBA_NUMBER_MAX && k->psn_send <= IBA_PSN_MASK &&
	       k->psn_recv <= IBA_PSN_MASK && k->timeout_code < 32 && k->retries <= 7 &&
	       k->rnr_retries <= IB_RNR_RETRY_FOREVER && k->rnr_timer_code < 32 &&
	       k->window_packets < IB_PSNS_MAX / 2 && k->alternate.timeout_code < 32 &&
	       k->migration < IB_MIGRATIONS;
}

static void set_timeout(struct ib_conn *c, const struct ib_config *k)
{
	c->timeout_ns = conn_timeout_ns(k->timeout_code);
}

static void set_retries(struct ib_conn *c, const struct ib_config *k)
{
	c->retries = k->retries;
	c->req.retries_left = k->retries;
}

static void set_rnr_retries(struct ib_conn *c, const struct ib_config *k)
{
	c->rnr_retries = k->rnr_retries;
	c->req.rnr_left = k->rnr_retries;
}

static void set_reads_out(struct ib_conn *c, const struct ib_config *k)
{
	uint32_t max = c->qp->outstanding_max;

	c->qp->reads_max = k->reads_out < max ? k->reads_out : max;
}

/* What it sends from now on, if it has sent nothing yet. */
static void set_requester(struct ib_conn *c, const struct ib_config *k)
{
	struct requester *q = &c->req;

	q->psn_first = k->psn_send;
	q->psn_una = q->psn_high = q->psn_reported = k->psn_send;
	q->psn_send = q->psn_sent = q->psn_next = k->psn_send;
	q->back_psn = iba_psn_add(k->psn_send, IBA_PSN_MASK); /* nowhere */
	set_timeout(c, k);
	set_retries(c, k);
	set_rnr_retries(c, k);
	c->window = k->window_packets ? k->window_packets : IB_WINDOW_DEFAULT;
	c->ack_every = k->ack_every ? k->ack_every : (c->window + 3) / 4;
	c->pace.limit_bps = k->rate_bps;
}

static void requester_init(struct ib_conn *c, const struct ib_config *k)
{
	struct requester *q = &c->req;

	set_requester(c, k);
	q->deadline_ns = UINT64_MAX;
	q->rnr_since_ns = UINT64_MAX;
	q->qp = c->qp;
	q->max = c->service == WEFT_RD ? 1 : c->qp->sq.max; /* RD: the context has it */
	q->sent = malloc(q->max * sizeof(*q->sent));
	q->hole_max = c->service == WEFT_RC ? IB_HOLES_MAX : 0;
}

static void responder_init(struct ib_conn *c, const struct ib_config *k)
{
	struct responder *r = &c->resp;

	r->qp = c->qp;
	r->psn = r->psn_first = k->psn_recv;
	r->res_max = c->service == WEFT_RC ? k->reads_in : 0; /* RD: the context has them */
	r->res_mask = power_of_two(r->res_max) - 1;
	r->res = calloc(r->res_mask + 1U, sizeof(*r->res));
	r->again = calloc(r->res_mask + 1U, sizeof(*r->again));
}

static void conn_free(struct ib_conn *c)
{
	free(c->req.sent);
	rc_holes_return(&c->req);
	rc_early_drop(c);
	free(c->resp.res);
	free(c->resp.again);
	free(c->other);
	free(c);
}

static struct ib_conn *conn_alloc(struct ib_port *port, struct weft_qp *qp,
				  const struct ib_config *k)
{
	struct ib_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->port = port;
	c->qp = qp;
	c->service = qp->service;
	c->is_xrc = qp->is_xrc;
	c->number = qp->number;
	c->peer_qp = k->peer_qp;
	c->p_key = k->p_key ? k->p_key : port->p_keys[0];
	c->path = k->path;
	c->rnr_timer_code = k->rnr_timer_code;
	c->q_key = k->q_key;
	c->owner = k->owner;
	c->rdd = k->rdd;
	list_init(&c->ready_link);
	list_init(&c->ended_link);
	pace_init(&c->pace);
	list_init(&c->turn_link);
	list_init(&c->raw_link);
	requester_init(c, k);
	responder_init(c, k);
	if (!c->req.sent || !c->resp.res || !c->resp.again) {
		conn_free(c);
		return NULL;
	}
	return c;
}

static struct weft_address address_of(const struct inet_end *end, bool is_ipv6)
{
	struct weft_address a = { .family = is_ipv6 ? 6 : 4, .port = end->port };

	memcpy(a.ip, end->address, is_ipv6 ? 16 : 4);
	return a;
}

void conn_note_path(struct ib_conn *c)
{
	if (!qp_is_connected_service(c->qp))
		return;
	c->qp->ends = (struct qp_ends){
		.local = address_of(&c->path.from, c->path.is_ipv6),
		.peer = address_of(&c->path.to, c->path.is_ipv6),
		.peer_number = c->peer_qp,
	};
}

enum weft_reason ib_create(struct ib_port *port, struct weft_qp *qp, const struct ib_config *k,
			   struct ib_conn **conn)
{
	struct ib_conn *c;

	if (qp->service == WEFT_ISCSI) /* it has a target, by TCP */
		return WEFT_R_WR_SERVICE;
	if (qp->adapter != port->adapter || !config_is_good(k) ||
	    (qp->service != WEFT_RD && !path_is_good(&k->path)))
		return WEFT_R_BAD_ARGUMENT;
	if (qp->state > WEFT_QPS_INIT)
		return WEFT_R_QP_STATE;
	c = conn_alloc(port, qp, k);
	if (!c)
		return WEFT_R_NO_MEMORY;
	port->conns_used++;
	/* One that the queue pair had before is not heard any more. */
	port->conns[id_slot(c->number)] = c;
	qp_attach_receiving(qp, &ib_transport, c);
	qp->tally.is_begun = true;
	conn_note_path(c);
	set_reads_out(c, k);
	direct_begin(c);
	*conn = c;
	return WEFT_OK;
}

enum weft_reason ib_start(struct ib_conn *c, const struct ib_config *k)
{
	if (!config_is_good(k))
		return WEFT_R_BAD_ARGUMENT;
	if (!c->qp || c->qp->state != WEFT_QPS_RTR)
		return WEFT_R_QP_STATE;
	set_requester(c, k);
	set_reads_out(c, k);
	qp_start(c->qp);
	return WEFT_OK;
}

/* A ring for as many; what is kept stays. False: memory is short. */
static bool set_reads_in(struct ib_conn *c, uint32_t reads_in)
{
	struct responder *r = &c->resp;
	uint32_t mask = power_of_two(reads_in) - 1;
	struct resource *res;
	struct again *again;

	if (mask > r->res_mask) {
		res = calloc(mask + 1U, sizeof(*res));
		again = calloc(mask + 1U, sizeof(*again));
		if (!res || !again) {
			free(res);
			free(again);
			return false;
		}
		for (uint32_t n = r->res_first; n != r->res_next; n++)
			res[n & mask] = r->res[n & r->res_mask];
		for (uint32_t n = r->again_first; n != r->again_next; n++)
			again[n & mask] = r->again[n & r->res_mask];
		free(r->res);
		free(r->again);
		r->res = res;
		r->again = again;
		r->res_mask = mask;
	}
	r->res_max = reads_in;
	return true;
}

/* What takes memory: all of it, or nothing. */
static bool set_memory(struct ib_conn *c, const struct ib_config *k, uint32_t fields)
{
	struct ib_way *own_other = NULL;

	if ((fields & IB_ALTERNATE) && !c->other) {
		own_other = calloc(1, sizeof(*own_other));
		if (!own_other)
			return false;
	}
	if ((fields & IB_READS_IN) && !set_reads_in(c, k->reads_in)) {
		free(own_other);
		return false;
	}
	if (own_other)
		c->other = own_other;
	return true;
}

static bool is_drained(const struct weft_qp *qp)
{
	return qp->state == WEFT_QPS_SQD && !qp->is_draining && qp->sq.begun == 0;
}

enum weft_reason ib_adjust(struct ib_conn *c, const struct ib_config *k, uint32_t fields)
{
	const uint32_t any_time = IB_RNR_TIMER | IB_Q_KEY | IB_RATE | IB_ALTERNATE | IB_MIGRATION;
	uint32_t mtu_bytes = c->path.mtu_bytes;
	enum weft_reason r;

	if (!config_is_good(k) || fields >= IB_MIGRATION << 1)
		return WEFT_R_BAD_ARGUMENT;
	if (!c->qp || ((fields & ~any_time) && !is_drained(c->qp)))
		return WEFT_R_QP_STATE;
	r = migrate_check(c, k, fields);
	if (r != WEFT_OK)
		return r;
	if (!set_memory(c, k, fields))
		return WEFT_R_NO_MEMORY;
	if (fields & IB_RNR_TIMER)
		c->rnr_timer_code = k->rnr_timer_code;
	if (fields & IB_Q_KEY)
		c->q_key = k->q_key;
	if (fields & IB_RATE)
		c->pace.limit_bps = k->rate_bps;
	if (fields & IB_PATH) {
		c->path = k->path;
		c->path.mtu_bytes = mtu_bytes;
		c->is_peer_gone = false;
		c->req.tries_left = 0;
		if (list_is_linked(&c->ready_link)) { /* held, for room on the old path? */
			list_remove(&c->ready_link);
			conn_ready(c);
		}
		conn_note_path(c);
	}
	if (fields & IB_P_KEY)
		c->p_key = k->p_key ? k->p_key : c->port->p_keys[0];
	if (fields & IB_TIMEOUT)
		set_timeout(c, k);
	if (fields & IB_RETRIES)
		set_retries(c, k);
	if (fields & IB_RNR_RETRIES)
		set_rnr_retries(c, k);
	if (fields & IB_READS_OUT)
		set_reads_out(c, k);
	migrate_adjust(c, k, fields);
	if (fields & (IB_PATH | IB_P_KEY))
		direct_begin(c);
	else if (fields & IB_READS_IN)
		direct_grant(c);
	return WEFT_OK;
}

void ib_paths_tell(const struct ib_conn *c, struct ib_paths *paths)
{
	*paths = (struct ib_paths){
		.path = c->path,
		.migration = c->migration,
		.migrations = c->migrations,
	};
	if (c->other)
		paths->alternate = c->other->path;
}

void ib_destroy(struct ib_conn *c)
{
	struct ib_port *port = c->port;
	struct ib_conn **place = &port->conns[id_slot(c->number)];

	if (c->qp)
		conn_fail(c, WEFT_R_STREAM_LOST);
	timer_queue_cancel(&port->timers, &c->timer);
	timer_queue_cancel(&port->wakes, &c->pace.wake);
	list_remove(&c->ready_link);
	list_remove(&c->ended_link);
	if (*place == c)
		*place = NULL;
	port->conns_used--;
	conn_free(c);
}

bool ib_last_nak(const struct ib_conn *c, uint32_t *psn, uint8_t *syndrome)
{
	if (c->service != WEFT_RC || !c->has_final)
		return false;
	*psn = c->resp.psn;
	*syndrome = c->resp.nak;
	return true;
}

void ib_peer_nak(struct ib_conn *c, uint64_t now_ns, uint32_t psn, uint8_t syndrome)
{
	const struct iba_packet p = {
		.opcode = iba_opcode(IBA_RC, IBA_ACKNOWLEDGE),
		.psn = psn & IBA_PSN_MASK,
		.syndrome = syndrome,
	};

	if (c->service == WEFT_RC && iba_syndrome(syndrome) == IBA_SYNDROME_NAK)
		(void)rc_recv(c, now_ns, &p);
}

void ib_peer_left(struct ib_conn *c, enum weft_reason reason)
{
	if (c->qp)
		conn_fail(c, reason);
}

void ib_port_near_ended(struct ib_port *port, uint64_t now_ns, uint32_t near_number)
{
	for (uint32_t i = 0; i < port->conns_max; i++) {
		struct ib_conn *c = port->conns[i];

		if (!c || c->path.near_number != near_number)
			continue;
		if (c->service == WEFT_RC)
			rc_retry_give_up(c, now_ns);
		else if (c->service == WEFT_UD)
			c->path.near_number = 0;
	}
	ee_near_ended(port, near_number);
}

struct ib_path *ib_port_near_refused(struct ib_port *port, uint32_t near_number)
{
	for (uint32_t i = 0; i < port->conns_max; i++) {
		struct ib_conn *c = port->conns[i];

		if (!c || c->path.near_number != near_number)
			continue;
		c->path.near_number = 0;
		if (c->service != WEFT_UD) /* whose datagrams have a path each */
			return &c->path;
	}
	return ee_near_refused(port, near_number);
}

struct ib_conn *ib_conn_of(const struct weft_qp *qp)
{
	return qp->transport == &ib_transport ? qp->stream : NULL;
}

bool ib_is_near(const struct ib_conn *c)
{
	bool is_datagram = c->service == WEFT_UD || c->service == WEFT_RD;

	return is_datagram ? c->is_near_latest : c->path.near_number != 0;
}

void *ib_owner(const struct ib_conn *c)
{
	return c->owner;
}

enum weft_reason ib_why(const struct ib_conn *c)
{
	return c->why;
}

bool ib_is_busy(const struct ib_conn *c)
{
	if (c->service == WEFT_RD)
		return c->rd_state == RD_WAITING || c->rd_state == RD_ACTIVE;
	return list_is_linked(&c->ready_link) ||
	       (c->qp && c->req.count > 0 && !requester_is_waiting(&c->req) && !c->req.is_absent);
}

/* ---- The transport's face to the verbs ------------------------------------------------------ */

/* UD-03: one packet; and it must be known where to. */
static enum weft_reason ud_check(const struct ib_conn *c, const struct weft_send_wr *wr,
				 uint64_t bytes)
{
	uint32_t mtu = c->path.mtu_bytes;
	bool is_raw = list_is_linked(&c->raw_link); /* it says itself where it goes */

	bool has_path = c->path.to.port != 0 || ib_path_is_local(&c->path);

	if (!wr->ah && !has_path && !is_raw && opcode_is_carried(wr->opcode))
		return WEFT_R_NULL_ARGUMENT;
	if (wr->ah && wr->ah->path.mtu_bytes > 0 && wr->ah->path.mtu_bytes < mtu)
		mtu = wr->ah->path.mtu_bytes;
	return bytes <= mtu ? WEFT_OK : WEFT_R_WR_LENGTH;
}

static enum weft_reason ib_check(const struct weft_qp *qp, const struct weft_send_wr *wr)
{
	const struct ib_conn *c = qp->stream;
	bool is_read = wr->opcode == WEFT_OP_READ || wr->opcode == WEFT_OP_COMPARE_SWAP ||
		       wr->opcode == WEFT_OP_FETCH_ADD;
	uint64_t bytes = 0;

	if (is_read && qp->reads_max == 0)
		return WEFT_R_READS_NONE;
	if (qp->service == WEFT_RD)
		return rd_check(qp, wr);
	if (!is_read && qp->service != WEFT_UD)
		return WEFT_OK;
	for (uint32_t i = 0; i < wr->sge_count; i++)
		bytes += wr->sges[i].length;
	if (qp->service == WEFT_UD)
		return ud_check(c, wr, bytes);
	/* Its response must fit into half of the circle of numbers, beside others. */
	return bytes <= (uint64_t)IB_READ_PSNS_MAX * c->path.mtu_bytes ? WEFT_OK : WEFT_R_WR_LENGTH;
}

static enum issue ib_issue(struct weft_qp *qp, struct send_wqe *wqe)
{
	struct ib_conn *c = qp->stream;

	if (c->rd_state != RD_IDLE)
		return ISSUE_NO_ROOM;
	if (qp->service == WEFT_UD && !ud_has_path(qp->stream, wqe)) {
		send_queue_end(qp, wqe,
			       &(struct outcome){
				       .status = WEFT_ERR_LOCAL_ACCESS,
				       .reason = WEFT_R_PEER_UNKNOWN,
				       .is_local = true,
			       });
		return ISSUE_BEGUN;
	}
	if (wqe->opcode == WEFT_OP_WRITE && direct_issue(c, wqe)) /* which checks its source */
		return ISSUE_BEGUN;
	/* What a reliable datagram's context sends is there, or it fails: others wait behind it. */
	if (!request_check(qp, wqe, qp->service != WEFT_RD) ||
	    (wqe->opcode != WEFT_OP_WRITE && direct_issue(c, wqe)))
		return ISSUE_BEGUN;
	return qp->service == WEFT_RD ? rd_issue(qp->stream, wqe) : rc_issue(qp->stream, wqe);
}

/* Whatever waited for a page tries again. */
static void page_came(struct ib_conn *c)
{
	if (c->req.is_absent) {
		c->req.is_absent = false;
		conn_ready(c);
	}
	if (c->req.is_sink_absent) {
		c->req.is_sink_absent = false;
		rc_retry_probe(c);
	}
	rc_resp_page_came(c);
}

/* Perhaps there is a receive again: the peer was told that there is none. */
static void ib_advance(struct weft_qp *qp, uint64_t now_ns)
{
	struct ib_conn *c = qp->stream;
	struct responder *r = &c->resp;

	(void)now_ns;
	if (!list_is_linked(&qp->absent_link))
		page_came(c);
	if (!r->is_hungry)
		return;
	if (!qp_has_receive(qp)) { /* another one of a shared queue was faster */
		qp_await_receive(qp, qp_recv_queue(qp));
		return;
	}
	r->is_hungry = false;
	responder_ack_all(r);
	conn_ready(c);
}

/* What was being said ends here, but for a last NAK; its owner hears of it when that is out. */
static void ib_down(struct weft_qp *qp, enum weft_reason why)
{
	struct ib_conn *c = qp->stream;
	struct responder *r = &c->resp;

	direct_revoke(c);
	if (qp->service == WEFT_RD)
		rd_down(c);
	rc_resp_touch(c);
	rc_early_drop(c);
	group_leave_all(c);
	list_remove(&c->raw_link);
	list_remove(&qp->sender_link);
	list_remove(&qp->absent_link);
	port_kept(c->port, &c->req, -(int64_t)c->req.kept_bytes);
	timer_queue_cancel(&c->port->timers, &c->timer);
	c->req.deadline_ns = UINT64_MAX;
	timer_queue_cancel(&c->port->wakes, &c->pace.wake);
	c->pace.is_notice_due = false;
	c->req.count = c->req.at = 0;
	r->res_at = r->res_answered = r->res_first = r->res_next;
	r->again_first = r->again_next;
	r->is_ack_due = false;
	r->is_nak_due = c->has_final;
	c->qp = c->req.qp = r->qp = NULL;
	c->why = why;
	conn_ready(c);
}

static void ib_rights_changed(struct weft_qp *qp)
{
	direct_grant(qp->stream);
}

const struct transport ib_transport = {
	.check = ib_check,
	.issue = ib_issue,
	.advance = ib_advance,
	.down = ib_down,
	.rights_changed = ib_rights_changed,
};
