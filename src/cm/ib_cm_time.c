/* SPDX-License-Identifier: BSD-2-Clause */
/* Deadlines: retransmission, peers that do not answer, and the end of time wait. */
#include "base/check.h"
#include "base/deadline.h"
#include "base/least.h"
#include "cm/ib_cm_inside.h"

void cm_id_wait(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c, uint64_t wait_ns)
{
	uint64_t at_ns = deadline_after(now_ns, wait_ns);

	timer_queue_set(&cm->timers, &c->timer, at_ns < c->limit_ns ? at_ns : c->limit_ns);
}

/*
 * IBA 12.9.8.5 lets a sender wait for as long as it said that the answer may take. Sending again
 * sooner costs the peer a duplicate if it is only slow, and repairs a loss quickly. So the first
 * interval is short, and intervals double up to one that users do not mind. The last tries wait the
 * full time, for a peer that is stopped.
 */
void cm_id_wait_answer(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c)
{
	uint64_t first_ns = cm->config.first_retry_ns;
	uint64_t most_ns = cm->config.soon_retry_ns > first_ns ? cm->config.soon_retry_ns
							       : first_ns;
	uint64_t wait_ns = c->response_ns > first_ns ? c->response_ns : first_ns;

	if (c->tries < c->retries * 2U / 3)
		wait_ns = least(wait_ns, least(most_ns, first_ns << least(c->tries, 16)));
	cm_id_wait(cm, now_ns, c, wait_ns);
}

void cm_id_wait_owner(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c)
{
	cm_id_wait(cm, now_ns, c, c->mra_ns);
}

/* The peer does not answer. It is sent a REJ, in case it is waiting for us. */
static void give_up(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c)
{
	static const struct ib_cm_reject timeout = { .code = IBCM_REJECT_TIMEOUT };

	if (c->state == IB_CM_SIDR_SENT || c->state == IB_CM_SIDR_RCVD) {
		c->reason = WEFT_R_CONNECT_TIMEOUT;
		cm_id_tell(cm, c, IB_CM_FAILED);
		if (!c->is_known)
			cm_id_forget(cm, c);
		cm_id_release(cm, c);
		return;
	}
	if (c->state == IB_CM_DREQ_SENT) {
		cm_id_end(cm, now_ns, c, WEFT_R_STREAM_LOST);
		return;
	}
	cm_id_say_reject(cm, c, &timeout);
	cm_id_end(cm, now_ns, c, WEFT_R_CONNECT_TIMEOUT);
}

static void try_again(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c)
{
	if (c->tries >= c->retries || now_ns >= c->limit_ns) {
		give_up(cm, now_ns, c);
		return;
	}
	c->tries++;
	cm_id_say_again(cm, c);
	cm_id_wait_answer(cm, now_ns, c);
}

static void cm_id_expire(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c)
{
	switch (c->state) {
	case IB_CM_REQ_SENT:
	case IB_CM_MRA_REQ_RCVD:
	case IB_CM_REP_SENT:
	case IB_CM_MRA_REP_RCVD:
	case IB_CM_DREQ_SENT:
	case IB_CM_SIDR_SENT:
		try_again(cm, now_ns, c);
		break;
	case IB_CM_REP_RCVD:
	case IB_CM_MRA_REP_SENT:
	case IB_CM_REQ_RCVD:
	case IB_CM_MRA_REQ_SENT:
		cm_id_say_mra(cm, c);
		cm_id_wait_owner(cm, now_ns, c);
		break;
	case IB_CM_DREQ_RCVD:
		cm_id_say_drep(cm, c, (struct ibcm_bytes){ 0 });
		cm_id_end(cm, now_ns, c, WEFT_OK);
		break;
	case IB_CM_SIDR_RCVD:
		give_up(cm, now_ns, c);
		break;
	case IB_CM_TIMEWAIT:
		cm_id_release(cm, c);
		break;
	case IB_CM_IDLE:
	case IB_CM_CONNECTED:
	case IB_CM_STATE_COUNT:
		CHECK(false);
	}
}

uint64_t ib_cm_due(const struct ib_cm *cm)
{
	return timer_queue_due(&cm->timers);
}

/* Bound: the timers. Each is set again only for later than now. */
void ib_cm_expire(struct ib_cm *cm, uint64_t now_ns)
{
	struct timer *t;

	resend_budget_refill(cm, now_ns);
	while ((t = timer_queue_expire(&cm->timers, now_ns)) != NULL)
		cm_id_expire(cm, now_ns, CONTAINER_OF(t, struct cm_id, timer));
}
