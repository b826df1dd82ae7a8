/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What XRC promises (IBA annex A14): the rules of RC for the requests of a connection, each carried
 * out once and in order; a Send ends a receive of the queue that it names, and memory is reached by
 * the right of that queue's process. A request is refused just if it names no queue of the domain,
 * or no memory of the process, and then nothing behind it is carried out. A process that has ended
 * takes no other with it.
 */
#include "sim/roce/xrc_world.h"

#include <string.h>

/* What a Send begins with. */
struct letter {
	uint32_t conn, number;
};

static uint32_t bytes_number(const struct xrc_conn *c, const struct xrc_op *op)
{
	return c->index * XRC_OF_CONN + op->number;
}

static bool is_send(const struct xrc_op *op)
{
	return op->opcode == WEFT_OP_SEND || op->opcode == WEFT_OP_SEND_IMM;
}

static bool takes_receive(const struct xrc_op *op)
{
	return is_send(op) || op->opcode == WEFT_OP_WRITE_IMM;
}

static bool is_read(const struct xrc_op *op)
{
	return op->opcode == WEFT_OP_READ || op->opcode == WEFT_OP_FETCH_ADD;
}

static struct xrc_process *process_of(struct xrc_world *x, const struct xrc_conn *c,
				      const struct xrc_op *op)
{
	return &x->processes[xrc_to(c)][op->to];
}

/* The process that the request is for has not ended since. */
static bool is_alive(struct xrc_world *x, const struct xrc_conn *c, const struct xrc_op *op)
{
	const struct xrc_process *p = process_of(x, c, op);

	return p->srq && p->epoch == op->epoch;
}

void xrc_judge_fill(struct roce_world *w, const struct xrc_conn *c, const struct xrc_op *op)
{
	struct roce_node *n = xrc_world_of(w)->nodes[xrc_from(c)];
	const struct letter head = { c->index, op->number };
	uint32_t at = xrc_local_at(c, op);

	if (is_read(op)) {
		roce_node_set(n, at, 0xcc, op->bytes);
		return;
	}
	roce_node_fill(n, at, bytes_number(c, op), op->bytes);
	if (!is_send(op))
		return;
	memcpy(n->memory + at, &head, sizeof(head));
	roce_node_accept(n, at, sizeof(head));
}

/* ---- Requests ------------------------------------------------------------------------------- */

static void ended_well(struct roce_world *w, struct xrc_conn *c, struct xrc_op *op)
{
	struct xrc_world *x = xrc_world_of(w);
	struct xrc_process *p = process_of(x, c, op);
	bool is_of_source = op->opcode == WEFT_OP_READ;

	if (op->fault != XRC_GOOD || c->is_broken) {
		roce_fail(w, "connection %u: request %u had to be refused and ended well", c->index,
			  op->number);
		return;
	}
	op->state = XRC_DONE;
	w->succeeded++;
	w->bytes += op->bytes;
	if (!is_alive(x, c, op)) { /* its memory may be that of the next life */
		if (is_read(op))
			roce_node_accept(x->nodes[xrc_from(c)], xrc_local_at(c, op), op->bytes);
		return;
	}
	roce_judge_done(
		w, &(struct roce_done){
			   .who = "connection",
			   .index = c->index,
			   .request = op->number,
			   .opcode = op->opcode,
			   .number = is_of_source ? XRC_OF_SOURCE + op->to : bytes_number(c, op),
			   .bytes = op->bytes,
			   .node = x->nodes[xrc_from(c)],
			   .other = x->nodes[xrc_to(c)],
			   .local = xrc_local_at(c, op),
			   .target = xrc_target_at(p, c, op),
			   .adds = &p->adds,
		   });
}

/* Not known: it may still be carried out, until the target hears that the connection has ended. */
static void ended_perhaps(struct xrc_world *x, struct xrc_conn *c, struct xrc_op *op)
{
	op->state = op->number < c->settled ? XRC_SETTLED : XRC_PERHAPS;
	if (is_read(op))
		roce_node_accept(x->nodes[xrc_from(c)], xrc_local_at(c, op), op->bytes);
	if (op->opcode == WEFT_OP_FETCH_ADD && op->fault == XRC_GOOD && is_alive(x, c, op))
		process_of(x, c, op)->lost_adds++;
}

static void ended_flushed(struct roce_world *w, struct xrc_conn *c, struct xrc_op *op)
{
	const struct weft_qp *target = c->qps[xrc_to(c)];
	bool has_target_failed = target && target->state == WEFT_QPS_ERROR;

	if (!c->is_broken && !c->is_resetting && !has_target_failed && !*c->is_excused)
		roce_fail(w, "connection %u: request %u was flushed without a failure before it",
			  c->index, op->number);
	if (!c->is_broken)
		c->is_cut = true;
	c->is_broken = true;
	if (c->is_cut)
		ended_perhaps(xrc_world_of(w), c, op);
	else
		op->state = XRC_UNDONE;
}

/* IBA annex A14: a queue that cannot serve makes an invalid request; the target knows why. */
static bool is_refused_rightly(struct roce_world *w, const struct xrc_conn *c,
			       const struct xrc_op *op, const struct weft_completion *done)
{
	struct weft_qp_attr target;
	bool is_alive_now = is_alive(xrc_world_of(w), c, op);

	if (*c->is_excused)
		return true;
	qp_query(c->qps[xrc_to(c)], &target);
	switch (done->status) {
	case WEFT_ERR_REMOTE_REQUEST:
		return (op->fault == XRC_NO_QUEUE || !is_alive_now) &&
		       done->reason == WEFT_R_IB_INVALID && target.reason == WEFT_R_IB_XRC;
	case WEFT_ERR_REMOTE_ACCESS:
		/* Of a Read the answer may be refused that is due, behind another refusal. */
		return op->fault == XRC_NO_RIGHT ? target.reason != WEFT_R_IB_XRC : !is_alive_now;
	default: /* no answer came, as the target's queue pair has ended */
		return target.state == WEFT_QPS_ERROR;
	}
}

/*
 * What stands behind a refused request was not carried out; but a Read whose answer is asked for
 * again, when its process has ended, was carried out before, and so may be what follows it.
 */
static void ended_badly(struct roce_world *w, struct xrc_conn *c, struct xrc_op *op,
			const struct weft_completion *done)
{
	struct xrc_world *x = xrc_world_of(w);
	bool is_answer = done->status == WEFT_ERR_REMOTE_REQUEST ||
			 done->status == WEFT_ERR_REMOTE_ACCESS;

	if (c->is_broken || !is_refused_rightly(w, c, op, done))
		roce_fail(w,
			  "connection %u: request %u to process %u failed without a cause: %s, %s",
			  c->index, op->number, op->to, weft_status_name(done->status),
			  weft_reason_name(done->reason));
	c->is_broken = true;
	c->is_cut = !is_answer || *c->is_excused ||
		    (op->opcode == WEFT_OP_READ && !is_alive(x, c, op));
	if (c->is_cut)
		ended_perhaps(x, c, op);
	else
		op->state = XRC_UNDONE;
}

static void ended(struct roce_world *w, struct xrc_conn *c, const struct weft_completion *done)
{
	struct xrc_op *op = &c->ops[c->ended % XRC_OPS];

	w->requests++;
	if (c->ended == c->begun || done->id != c->ended) {
		roce_fail(w, "connection %u: request %u ended twice, or out of order", c->index,
			  c->ended);
		return;
	}
	if (done->status == WEFT_SUCCESS)
		ended_well(w, c, op);
	else if (done->status == WEFT_ERR_FLUSHED)
		ended_flushed(w, c, op);
	else
		ended_badly(w, c, op, done);
	c->ended++;
}

/* ---- Receives ------------------------------------------------------------------------------- */

/* The connection whose queue pair at this node has the number. */
static struct xrc_conn *conn_of(struct roce_world *w, int node, uint32_t number)
{
	struct xrc_world *x = xrc_world_of(w);

	for (uint32_t i = 0; i < XRC_CONNS; i++) {
		if (x->conns[i].qps[node] && x->conns[i].numbers[node] == number)
			return &x->conns[i];
	}
	roce_fail(w, "node %d: a completion of QP %06x, which is not there", node, number);
	return NULL;
}

/* The request that it says to be; NULL: none that was posted. */
static struct xrc_op *op_of(struct xrc_world *x, int node, struct xrc_conn *c, uint32_t at,
			    const struct weft_completion *done)
{
	struct letter head = { c->index, done->imm };

	if (done->opcode == WEFT_OP_RECV && done->byte_count < sizeof(head))
		return NULL;
	if (done->opcode == WEFT_OP_RECV)
		memcpy(&head, x->nodes[node]->memory + at, sizeof(head));
	return head.conn == c->index && head.number < c->begun ? &c->ops[head.number] : NULL;
}

static bool is_told_right(const struct xrc_conn *c, const struct xrc_op *op,
			  const struct weft_completion *done)
{
	bool has_imm = op->opcode != WEFT_OP_SEND;

	return (done->opcode == WEFT_OP_RECV_WRITE_IMM) == (op->opcode == WEFT_OP_WRITE_IMM) &&
	       done->byte_count == op->bytes && done->has_imm == has_imm &&
	       (!has_imm || done->imm == op->number) &&
	       done->src_qp_number == c->numbers[xrc_from(c)];
}

static bool is_whole(struct xrc_world *x, int node, const struct xrc_conn *c,
		     const struct xrc_op *op, uint32_t at)
{
	const struct roce_node *n = x->nodes[node];

	if (is_send(op))
		return roce_node_holds(n, at, bytes_number(c, op), XRC_LETTER_BYTES, op->bytes);
	/* A later one may have written there, once this one has ended. */
	return op->state != XRC_QUEUED ||
	       roce_node_holds(n, xrc_target_at(process_of(x, c, op), c, op), bytes_number(c, op),
			       0, op->bytes);
}

static void message_judge(struct roce_world *w, int node, struct xrc_process *p, uint32_t at,
			  const struct weft_completion *done)
{
	struct xrc_world *x = xrc_world_of(w);
	struct xrc_conn *c = conn_of(w, node, done->qp_number);
	struct xrc_op *op = c ? op_of(x, node, c, at, done) : NULL;

	if (!c)
		return;
	if (!op || !takes_receive(op) || op->to != p->index || op->epoch != p->epoch ||
	    op->fault != XRC_GOOD || op->state == XRC_UNDONE || op->state == XRC_SETTLED)
		roce_fail(w, "node %d: a message came to process %u that was not sent to it", node,
			  p->index);
	else if (!is_told_right(c, op, done) || !is_whole(x, node, c, op, at))
		roce_fail(w, "node %d: message %u of connection %u is not what was sent", node,
			  op->number, c->index);
	else if (op->number < p->next[c->index])
		roce_fail(w, "node %d: message %u of connection %u came twice or late", node,
			  op->number, c->index);
	if (roce_has_failed(w))
		return;
	op->is_received = true;
	p->next[c->index] = op->number + 1;
}

/* Receives end in any order, as messages of several connections may arrive at a time. */
static void received(struct roce_world *w, int node, struct xrc_process *p,
		     const struct weft_completion *done)
{
	struct roce_node *n = xrc_world_of(w)->nodes[node];
	uint32_t at = p->at + XRC_AT_RECEIVE + (uint32_t)done->id % XRC_RECEIVES * XRC_SLOT;

	if (done->id >= XRC_RECEIVES || !p->is_posted[done->id]) {
		roce_fail(w, "node %d: process %u: a receive ended that was not posted", node,
			  p->index);
		return;
	}
	p->is_posted[done->id] = false;
	p->received++;
	if (done->status == WEFT_ERR_FLUSHED) { /* the connection ended in the middle of a Send */
		const struct xrc_conn *c = conn_of(w, node, done->qp_number);

		if (c && c->qps[node]->state != WEFT_QPS_ERROR)
			roce_fail(w, "node %d: process %u: a receive was flushed without a cause",
				  node, p->index);
		roce_node_accept(n, at, XRC_SLOT);
		return;
	}
	if (done->status != WEFT_SUCCESS)
		roce_fail(w, "node %d: process %u: a receive failed: %s", node, p->index,
			  weft_status_name(done->status));
	else
		message_judge(w, node, p, at, done);
	if (done->opcode == WEFT_OP_RECV && !roce_has_failed(w))
		roce_node_accept(n, at, done->byte_count);
}

/* One look at what has arrived, so that what is changed afterwards holds for all the rest. */
bool xrc_judge_poll(struct roce_world *w, int node)
{
	struct xrc_world *x = xrc_world_of(w);
	struct roce_node *n = x->nodes[node];
	struct weft_completion done;
	bool has_some = false;

	ib_node_look(n->ib);
	for (uint32_t i = 0; i < XRC_PROCESSES; i++) {
		struct xrc_process *p = &x->processes[node][i];

		while (p->srq && roce_node_next(w, p->cq, &done)) {
			received(w, node, p, &done);
			has_some = true;
		}
	}
	while (roce_node_next(w, n->send_cq, &done)) {
		struct xrc_conn *c = conn_of(w, node, done.qp_number);

		if (c)
			ended(w, c, &done);
		has_some = true;
	}
	if (roce_node_next(w, n->recv_cq, &done))
		roce_fail(w, "node %d: a receive ended at no process's queue", node);
	return has_some;
}

/* ---- The end -------------------------------------------------------------------------------- */

void xrc_judge_death(struct roce_world *w, int node, struct xrc_process *p)
{
	struct roce_node *n = xrc_world_of(w)->nodes[node];

	roce_node_accept(n, p->at + XRC_AT_WORD, ROCE_WORD_BYTES);
	roce_node_accept(n, p->at + XRC_AT_RECEIVE, XRC_PROCESS_BYTES - XRC_AT_RECEIVE);
}

/* A request that its initiator does not know the end of yet may have begun. */
void xrc_judge_broken(struct roce_world *w, struct xrc_conn *c)
{
	struct xrc_world *x = xrc_world_of(w);

	for (uint32_t i = 0; i < c->begun; i++) {
		struct xrc_op *op = &c->ops[i];

		if (op->state != XRC_PERHAPS && op->state != XRC_QUEUED)
			continue;
		if (op->state == XRC_PERHAPS)
			op->state = XRC_SETTLED;
		if ((op->opcode == WEFT_OP_WRITE || op->opcode == WEFT_OP_WRITE_IMM) &&
		    op->fault == XRC_GOOD && is_alive(x, c, op))
			roce_node_accept(x->nodes[xrc_to(c)],
					 xrc_target_at(process_of(x, c, op), c, op), op->bytes);
	}
	c->settled = c->begun;
}

void xrc_judge_lost(struct roce_world *w, struct xrc_conn *c)
{
	while (c->ended < c->begun)
		ended_perhaps(xrc_world_of(w), c, &c->ops[c->ended++]);
	c->is_broken = c->is_cut = true;
}

static void conn_judge(struct roce_world *w, const struct xrc_conn *c)
{
	for (uint32_t i = 0; i < c->begun; i++) {
		const struct xrc_op *op = &c->ops[i];

		if (op->state == XRC_DONE && takes_receive(op) && !op->is_received &&
		    !op->is_untold)
			roce_fail(w, "connection %u: message %u ended well and did not come",
				  c->index, i);
		if (op->state == XRC_UNDONE && op->is_received)
			roce_fail(w, "connection %u: message %u was refused, and came", c->index,
				  i);
	}
}

void xrc_judge_conns(struct roce_world *w)
{
	struct xrc_world *x = xrc_world_of(w);

	for (uint32_t i = 0; i < XRC_CONNS; i++)
		conn_judge(w, &x->conns[i]);
}

void xrc_judge_node(struct roce_world *w, int node)
{
	struct xrc_world *x = xrc_world_of(w);

	for (uint32_t i = 0; i < XRC_PROCESSES; i++) {
		struct xrc_process *p = &x->processes[node][i];

		if (p->srq)
			roce_judge_word(w, x->nodes[node], p->at + XRC_AT_WORD, &p->adds,
					p->lost_adds);
	}
	roce_node_judge(w, x->nodes[node]);
}
