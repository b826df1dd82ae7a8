/* SPDX-License-Identifier: BSD-2-Clause */
/* The fixture's second half: requests, completions, states, events. */
#include "conformance.h"

/* ---- Requests ------------------------------------------------------------------------------- */

struct weft_send_wr wr_make(enum weft_opcode opcode, uint64_t id, const struct weft_sge *segments,
			    uint32_t count)
{
	return (struct weft_send_wr){
		.id = id,
		.opcode = opcode,
		.flags = WEFT_SIGNALLED,
		.sges = segments,
		.sge_count = count,
	};
}

void end_aim(const struct pair_end *e, struct weft_send_wr *wr, const struct pair_end *at,
	     const struct weft_qp *qp)
{
	wr->dest_qp_number = weft_qp_number(qp);
	if (pair_maker.aim)
		pair_maker.aim(e, wr, at);
}

struct weft_send_wr end_wr(struct pair_end *e, enum weft_opcode opcode, uint64_t id,
			   const struct weft_sge *segment, uint64_t remote_offset)
{
	struct weft_send_wr wr = wr_make(opcode, id, segment, segment ? 1 : 0);

	wr.remote_tag = e->peer->tag;
	wr.remote_addr = e->peer->addr + remote_offset;
	end_aim(e, &wr, e->peer, e->peer->qp);
	return wr;
}

void end_post(struct pair_end *e, struct weft_send_wr *wr)
{
	uint32_t posted = 0;

	MUST(weft_qp_post_send(e->qp, wr, 1, &posted));
	MUST_EQ(posted, 1);
}

void end_post_recv(struct pair_end *e, uint64_t id, uint64_t offset, uint32_t length)
{
	const struct weft_sge segment = end_seg(e, offset, length);
	const struct weft_recv_wr wr = { .id = id, .sges = &segment, .sge_count = 1 };
	uint32_t posted = 0;

	if (e->srq)
		MUST(weft_srq_post_recv(e->srq, &wr, 1, &posted));
	else
		MUST(weft_qp_post_recv(e->qp, &wr, 1, &posted));
	MUST_EQ(posted, 1);
}

/* ---- Completions ---------------------------------------------------------------------------- */

struct weft_completion end_take(struct pair_end *e, struct weft_cq *cq)
{
	uint64_t start = pair_maker.now_ns(e->pair);
	struct weft_completion c;
	uint32_t count = 0;

	for (;;) {
		MUST(weft_cq_poll(cq, &c, 1, &count));
		if (count == 1)
			return c;
		REQUIRE(pair_wait(e->pair, start));
	}
}

static void is_good(const struct pair_end *e, const struct weft_completion *c, uint64_t id)
{
	MUST_EQ(c->id, id);
	MUST_EQ(c->status, WEFT_SUCCESS);
	MUST_EQ(c->reason, WEFT_OK);
	MUST_EQ(c->qp_number, weft_qp_number(e->qp));
}

static struct weft_completion end_take_good(struct pair_end *e, struct weft_cq *cq, uint64_t id)
{
	struct weft_completion c = end_take(e, cq);

	is_good(e, &c, id);
	return c;
}

struct weft_completion end_sent(struct pair_end *e, uint64_t id)
{
	struct weft_completion c = end_take_good(e, e->send_cq, id);

	REQUIRE((unsigned int)c.opcode < WEFT_OP_SEND_COUNT);
	REQUIRE(!c.has_imm && !c.has_invalidated);
	return c;
}

struct weft_completion end_received(struct pair_end *e, uint64_t id)
{
	struct weft_completion c = end_take_good(e, e->recv_cq, id);

	REQUIRE(c.opcode == WEFT_OP_RECV || c.opcode == WEFT_OP_RECV_WRITE_IMM);
	if (pair_can(PAIR_KNOWS_SENDER))
		MUST_EQ(c.src_qp_number, weft_qp_number(e->peer->qp));
	return c;
}

void end_all_sent(struct pair_end *e, uint64_t first, uint64_t last)
{
	for (uint64_t id = first; id <= last; id++)
		end_sent(e, id);
}

uint64_t end_waiting(struct pair_end *e, uint64_t first, uint64_t last)
{
	struct weft_completion c;
	uint32_t count = 1;

	pair_settle(e->pair);
	while (first <= last && !pair_can(PAIR_ACKNOWLEDGES)) {
		MUST(weft_cq_poll(e->send_cq, &c, 1, &count));
		if (count == 0)
			break;
		is_good(e, &c, first++);
	}
	return first;
}

static bool is_refusal(enum weft_status status)
{
	return status == WEFT_ERR_REMOTE_ACCESS || status == WEFT_ERR_REMOTE_OPERATION ||
	       status == WEFT_ERR_REMOTE_REQUEST;
}

static void failed_like(const struct weft_completion *c, enum weft_status status,
			enum weft_reason reason)
{
	if (is_refusal(status) && !pair_can(PAIR_NAMES_REASON)) {
		REQUIRE(is_refusal(c->status));
		REQUIRE(c->reason != WEFT_OK);
		return;
	}
	MUST_EQ(c->status, status);
	if (reason == WEFT_REASON_COUNT)
		REQUIRE(c->reason != WEFT_OK);
	else
		EXPECT_STR(weft_reason_name(c->reason), weft_reason_name(reason));
}

void end_send_failed(struct pair_end *e, uint64_t id, enum weft_status status,
		     enum weft_reason reason)
{
	struct weft_completion c = end_take(e, e->send_cq);

	MUST_EQ(c.id, id);
	MUST_EQ(c.qp_number, weft_qp_number(e->qp));
	failed_like(&c, status, reason);
}

void end_recv_failed(struct pair_end *e, uint64_t id, enum weft_status status,
		     enum weft_reason reason)
{
	struct weft_completion c = end_take(e, e->recv_cq);

	MUST_EQ(c.id, id);
	MUST_EQ(c.qp_number, weft_qp_number(e->qp));
	failed_like(&c, status, reason);
}

void end_sends_flushed(struct pair_end *e, uint64_t first, uint64_t last)
{
	for (uint64_t id = first; id <= last; id++)
		end_send_failed(e, id, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
}

void end_recvs_flushed(struct pair_end *e, uint64_t first, uint64_t last)
{
	for (uint64_t id = first; id <= last; id++)
		end_recv_failed(e, id, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
}

void end_sends_cut(struct pair_end *e, uint64_t first, uint64_t last)
{
	bool is_flushing = pair_can(PAIR_ACKNOWLEDGES);

	for (uint64_t id = first; id <= last; id++) {
		struct weft_completion c = end_take(e, e->send_cq);

		MUST_EQ(c.id, id);
		MUST_EQ(c.qp_number, weft_qp_number(e->qp));
		is_flushing |= c.status != WEFT_SUCCESS;
		failed_like(&c, is_flushing ? WEFT_ERR_FLUSHED : WEFT_SUCCESS,
			    is_flushing ? WEFT_R_FLUSHED : WEFT_OK);
	}
}

void end_sends_refused(struct pair_end *e, uint64_t first, uint64_t last, enum weft_status status,
		       enum weft_reason reason)
{
	if (!pair_can(PAIR_REFUSAL_COMPLETES)) {
		end_sends_cut(e, first, last);
		return;
	}
	end_send_failed(e, first, status, reason);
	end_sends_flushed(e, first + 1, last);
}

/* Whether the request waits for something that the peer has. */
static bool is_answered(enum weft_opcode opcode)
{
	return opcode == WEFT_OP_READ || opcode == WEFT_OP_COMPARE_SWAP ||
	       opcode == WEFT_OP_FETCH_ADD;
}

/* It is still there when the refusal comes, which may say less than the peer knows. */
static void end_request_failed(struct pair_end *e, uint64_t id)
{
	struct weft_completion c = end_take(e, e->send_cq);

	MUST_EQ(c.id, id);
	REQUIRE(is_refusal(c.status));
	REQUIRE(c.reason != WEFT_OK);
}

void end_refused(struct pair_end *e, struct weft_send_wr *wr, enum weft_reason reason)
{
	struct weft_event event;

	end_post(e, wr);
	event = end_event(e->peer, WEFT_EVENT_QP_REFUSED, weft_qp_number(e->peer->qp));
	EXPECT_STR(weft_reason_name(event.reason), weft_reason_name(reason));
	if (is_answered(wr->opcode) && !pair_can(PAIR_REFUSAL_COMPLETES))
		end_request_failed(e, wr->id);
	else
		end_sends_refused(e, wr->id, wr->id, WEFT_ERR_REMOTE_ACCESS, reason);
	if (e->pair->options.service == WEFT_RC) {
		end_await(e, WEFT_QPS_ERROR);
		end_await(e->peer, WEFT_QPS_ERROR);
	}
}

void end_succeeds(struct pair_end *e, struct weft_send_wr *wr)
{
	end_post(e, wr);
	MUST_EQ(end_sent(e, wr->id).opcode, wr->opcode);
	pair_settle(e->pair);
}

/* ---- States and events ---------------------------------------------------------------------- */

struct weft_qp_attr end_query(struct pair_end *e)
{
	struct weft_qp_attr attr;

	MUST(weft_qp_query(e->qp, &attr));
	return attr;
}

void end_refused_for(struct pair_end *e, enum weft_reason reason)
{
	if (pair_can(PAIR_NAMES_REASON))
		MUST_EQ(end_query(e).reason, reason);
	else
		REQUIRE(end_query(e).reason != WEFT_OK);
}

void end_modify(struct pair_end *e, enum weft_qp_state state)
{
	const struct weft_qp_attr attr = { .state = state };

	MUST(weft_qp_modify(e->qp, &attr, WEFT_QP_STATE));
	MUST_EQ(end_query(e).state, state);
}

void end_await(struct pair_end *e, enum weft_qp_state state)
{
	uint64_t start = pair_maker.now_ns(e->pair);

	while (end_query(e).state != state)
		REQUIRE(pair_wait(e->pair, start));
}

/* Takes a remembered event out. */
static bool event_recall(struct pair_end *e, enum weft_event_kind kind, uint32_t number,
			 struct weft_event *event)
{
	for (uint32_t i = 0; i < e->event_count; i++) {
		if (e->events[i].kind != kind || e->events[i].number != number)
			continue;
		*event = e->events[i];
		e->events[i] = e->events[--e->event_count];
		return true;
	}
	return false;
}

/* The end that keeps the events of e's adapter: the first end of the first pair that uses it. */
static struct pair_end *events_keeper(struct pair_end *e)
{
	struct pair *p = e->pair;

	while (p->options.beside)
		p = p->options.beside;
	return e->adapter == p->ends[0].adapter ? &p->ends[0] : &p->ends[1];
}

/* Remembers every event there is now. */
static struct pair_end *events_fetch(struct pair_end *e)
{
	struct pair_end *keeper = events_keeper(e);
	struct weft_event event;
	bool has_event = true;

	while (has_event) {
		MUST(weft_event_next(e->adapter, 0, &event, &has_event));
		if (has_event) {
			REQUIRE(keeper->event_count < EVENTS_MAX);
			keeper->events[keeper->event_count++] = event;
		}
	}
	return keeper;
}

struct weft_event end_event(struct pair_end *e, enum weft_event_kind kind, uint32_t number)
{
	uint64_t start = pair_maker.now_ns(e->pair);
	struct weft_event event;

	while (!event_recall(events_fetch(e), kind, number, &event))
		REQUIRE(pair_wait(e->pair, start));
	return event;
}

bool end_has_event(struct pair_end *e, enum weft_event_kind kind, uint32_t number)
{
	struct weft_event event;

	pair_settle(e->pair);
	return event_recall(events_fetch(e), kind, number, &event);
}
