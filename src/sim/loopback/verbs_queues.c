/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/check.h"
#include "loopback/loopback.h"
#include "sim/loopback/verbs_world.h"

enum { PAYLOAD_MAX = 192, WAIT_MAX_NS = 5000000 };

static struct model_qp *model_of(struct verbs_world *w, const struct weft_qp *qp)
{
	return model_qp_find(&w->model, qp->number);
}

static struct weft_qp *draw_qp(struct verbs_world *w, uint32_t p)
{
	return w->processes[p].qps[draw(w, PROCESS_QPS)];
}

/* Prefers a queue pair that works (or does not); gives up soon. */
static struct weft_qp *draw_qp_working(struct verbs_world *w, uint32_t p, bool is_working)
{
	struct weft_qp *qp = draw_qp(w, p);

	for (uint32_t i = 0; i < 2 * PROCESS_QPS; i++) {
		if ((qp->state == WEFT_QPS_RTS) == is_working || is_mischief(w))
			break;
		qp = draw_qp(w, p);
	}
	return qp;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static int qp_open(struct verbs_world *w, uint32_t p, uint32_t i)
{
	static const enum weft_qp_service services[] = { WEFT_RC, WEFT_RC, WEFT_RC,
							 WEFT_UC, WEFT_RD, WEFT_UD };
	struct process *proc = &w->processes[p];
	struct model_qp *mqp = &w->model.qps[p * PROCESS_QPS + i];
	struct weft_qp_options o = {
		.send_cq = proc->cq,
		.recv_cq = proc->cq,
		.srq = draw(w, 3) == 0 ? proc->srq : NULL,
		.service = services[draw(w, sizeof(services) / sizeof(services[0]))],
		.send_max = w->limits.send_max,
		.recv_max = w->limits.recv_max,
		.sges_max = MODEL_SEGMENTS,
		.inline_max_bytes = MODEL_INLINE,
		.is_every_send_signalled = draw(w, 3) == 0,
	};
	struct weft_qp_attr attr = { 0 };

	if (qp_create(proc->pd, &o, &loopback_transport, &proc->qps[i]) != WEFT_OK)
		return -1;
	attr.receiver_wait_ns = draw(w, 3) == 0 ? 0 : draw(w, WAIT_MAX_NS);
	attr.is_register_enabled = draw(w, 4);
	CHECK(qp_modify(proc->qps[i], &attr, WEFT_QP_RECEIVER_WAIT) == WEFT_OK);
	/* Only privileged processes may; a refusal is fine. */
	(void)qp_modify(proc->qps[i], &attr, WEFT_QP_REGISTER);
	*mqp = (struct model_qp){
		.is_open = true,
		.number = proc->qps[i]->number,
		.process = p,
		.service = o.service,
		.has_srq = o.srq != NULL,
		.remote_rights = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC,
		.is_every_send_signalled = o.is_every_send_signalled,
		.is_register_enabled = proc->qps[i]->is_register_enabled,
	};
	return 0;
}

int queues_open(struct verbs_world *w, uint32_t p)
{
	struct process *proc = &w->processes[p];
	const struct weft_cq_options cq = { .entries_max = w->limits.cq_max };
	const struct weft_srq_options srq = {
		.recv_max = w->limits.recv_max,
		.sges_max = MODEL_SEGMENTS,
	};

	if (cq_create(&w->adapter, &cq, &proc->cq) != WEFT_OK ||
	    srq_create(proc->pd, &srq, &proc->srq) != WEFT_OK)
		return -1;
	w->model.processes[p].cq = (struct model_cq){ .max = w->limits.cq_max };
	w->model.processes[p].srq.count = 0;
	for (uint32_t i = 0; i < PROCESS_QPS; i++) {
		if (qp_open(w, p, i) < 0)
			return -1;
	}
	return 0;
}

/* Ends a queue pair's work in the model when its owner resets or destroys it. */
static void queue_stop(struct verbs_world *w, struct weft_qp *qp, bool is_destroyed)
{
	const struct weft_qp_attr reset = { .state = WEFT_QPS_RESET };
	struct model_qp *mqp = model_of(w, qp);

	verbs_observe(w);
	mqp->is_stopping = true;
	if (is_destroyed)
		qp_destroy(qp);
	else
		CHECK(qp_modify(qp, &reset, WEFT_QP_STATE) == WEFT_OK);
	verbs_observe(w);
	if (mqp->count > 0 || mqp->recvs.count > 0)
		model_fail(&w->model, "QP %u stopped but kept %u sends and %u receives",
			   mqp->number, mqp->count, mqp->recvs.count);
	for (uint32_t i = 0; i < MODEL_TAGS; i++) {
		if (w->model.tags[i].qp == mqp->number)
			w->model.tags[i].is_valid = false; /* it was valid for that stream only */
	}
	mqp->is_stopping = false;
	mqp->peer = 0;
	mqp->is_open = !is_destroyed;
}

void queues_close(struct verbs_world *w, uint32_t p)
{
	struct process *proc = &w->processes[p];
	struct model_cq *owed = &w->model.processes[p].cq;

	for (uint32_t i = 0; i < PROCESS_QPS; i++)
		queue_stop(w, proc->qps[i], true);
	act_poll(w, p);
	if (owed->count > 0 || owed->lost != proc->cq->lost)
		model_fail(&w->model, "process %u is owed %u completions more, lost %lu not %lu", p,
			   owed->count, (unsigned long)proc->cq->lost, (unsigned long)owed->lost);
	CHECK(srq_destroy(proc->srq) == WEFT_OK && cq_destroy(proc->cq) == WEFT_OK);
}

/*
 * ---- Connecting and changing ------------------------------------------------------------------
 */

/* A random queue pair of another process with the same service. */
static struct weft_qp *draw_peer(struct verbs_world *w, uint32_t p, const struct weft_qp *qp)
{
	uint32_t first = draw(w, MODEL_QPS);

	for (uint32_t i = 0; i < MODEL_QPS; i++) {
		uint32_t slot = (first + i) % MODEL_QPS;
		const struct model_qp *m = &w->model.qps[slot];

		if (m->is_open && m->process != p && m->service == qp->service)
			return w->processes[m->process].qps[slot % PROCESS_QPS];
	}
	return NULL;
}

static void become_datagram(struct verbs_world *w, struct weft_qp *qp)
{
	static const enum weft_qp_state path[] = { WEFT_QPS_INIT, WEFT_QPS_RTR, WEFT_QPS_RTS };

	queue_stop(w, qp, false);
	for (uint32_t i = 0; i < 3; i++)
		CHECK(qp_modify(qp, &(struct weft_qp_attr){ .state = path[i] }, WEFT_QP_STATE) ==
		      WEFT_OK);
}

void act_connect(struct verbs_world *w, uint32_t p)
{
	struct weft_qp *qp = draw_qp_working(w, p, false), *peer;

	/* Mostly leave working or recoverable queue pairs alone. */
	if (qp_is_receiving(qp) && draw(w, 64) != 0)
		return;
	if (!qp_is_connected_service(qp)) {
		become_datagram(w, qp);
		return;
	}
	peer = draw_peer(w, p, qp);
	if (!peer || (qp_is_receiving(peer) && draw(w, 16) != 0))
		return;
	queue_stop(w, qp, false);
	queue_stop(w, peer, false);
	CHECK(qp_connect(qp, peer) == WEFT_OK);
	model_of(w, qp)->peer = peer->number;
	model_of(w, peer)->peer = qp->number;
}

void act_modify(struct verbs_world *w, uint32_t p)
{
	struct weft_qp *qp = draw_qp(w, p);
	struct model_qp *mqp = model_of(w, qp);
	struct weft_qp_attr attr = {
		.remote_rights = draw(w, 4) == 0 ? (uint32_t)WEFT_REMOTE_READ << draw(w, 3)
						 : mqp->remote_rights,
		.is_register_enabled = draw(w, 4) != 0,
		.on_failure = (enum weft_failure)draw(w, 2),
		.receiver_wait_ns = draw(w, 4) == 0 ? 0 : draw(w, WAIT_MAX_NS),
		.state = qp->state == WEFT_QPS_SQE || qp->state == WEFT_QPS_SQD ? WEFT_QPS_RTS
										: WEFT_QPS_SQD,
	};
	uint32_t fields = draw(w, 32) & ~(uint32_t)WEFT_QP_STATE;
	bool is_privileged = w->model.processes[p].is_privileged;

	if (is_mischief(w))
		attr.state = (enum weft_qp_state)draw(w, WEFT_QPS_COUNT + 1);
	if (qp->state != WEFT_QPS_RTS || draw(w, 8) == 0)
		fields |= WEFT_QP_STATE;
	/* Other actions move to RESET and INIT, and tell the model. */
	if (attr.state <= WEFT_QPS_INIT)
		fields &= ~(uint32_t)WEFT_QP_STATE;
	if (qp_modify(qp, &attr, fields) != WEFT_OK)
		return;
	if (fields & WEFT_QP_REMOTE_RIGHTS)
		mqp->remote_rights = attr.remote_rights;
	if (fields & WEFT_QP_ON_FAILURE)
		mqp->on_failure = attr.on_failure;
	if (fields & WEFT_QP_REGISTER) {
		mqp->is_register_enabled = attr.is_register_enabled;
		if (attr.is_register_enabled && !is_privileged)
			model_fail(&w->model, "QP %u may register without privilege", mqp->number);
	}
}

/*
 * ---- Posting and polling ----------------------------------------------------------------------
 */

/* Shortens a request, last segments first. */
static void fit_payload(struct model_send *send, uint64_t length_max)
{
	uint64_t length = 0;

	for (uint32_t i = 0; i < send->wr.sge_count; i++) {
		if (length + send->sges[i].length > length_max)
			send->sges[i].length = (uint32_t)(length_max - length);
		length += send->sges[i].length;
	}
	send->length = length;
}

/* The remote right that an operation needs; 0: none. */
static uint32_t right_of(enum weft_opcode op)
{
	switch (op) {
	case WEFT_OP_READ:
		return WEFT_REMOTE_READ;
	case WEFT_OP_WRITE:
	case WEFT_OP_WRITE_IMM:
		return WEFT_REMOTE_WRITE;
	case WEFT_OP_COMPARE_SWAP:
	case WEFT_OP_FETCH_ADD:
		return WEFT_REMOTE_ATOMIC;
	default:
		return 0;
	}
}

/* The queue pair that will get the request, or NULL. */
static const struct model_qp *target_of(struct verbs_world *w, const struct weft_qp *qp,
					uint32_t dest_qp_number)
{
	return model_qp_find(&w->model, qp_is_connected_service(qp) ? qp->peer : dest_qp_number);
}

/*
 * An advertisement that the process has received, once the target's, with the right for the
 * operation. The process cannot know whether the tag is still valid. NULL: none.
 */
static const struct weft_advert *draw_known(struct verbs_world *w, uint32_t p,
					    const struct model_qp *target, enum weft_opcode op)
{
	const struct process *proc = &w->processes[p];
	uint32_t first = draw(w, KNOWN_MAX), right = right_of(op);

	for (uint32_t i = 0; i < KNOWN_MAX; i++) {
		const struct weft_advert *a = &proc->known[(first + i) % KNOWN_MAX];
		const struct model_tag *t = model_tag_find(&w->model, a->tag);

		if (target && t && t->process == target->process && (a->rights & right) == right)
			return a;
	}
	return NULL;
}

/* The first known word suitable for an atomic: random addresses rarely hit one. */
static uint64_t aim_atomic(struct verbs_world *w, const struct model_qp *target,
			   const struct weft_advert *known)
{
	struct weft_sge word = { .addr = known->addr, .length = 8, .tag = known->tag };

	for (uint32_t i = 0; i < 64 && !model_may(&w->model, target, &word, MODEL_REMOTE_ATOMIC);
	     i++)
		word.addr++;
	return word.addr;
}

static void draw_remote(struct verbs_world *w, uint32_t p, struct weft_qp *qp,
			struct model_send *send)
{
	const struct model_qp *target = target_of(w, qp, send->wr.dest_qp_number);
	enum weft_opcode op = send->wr.opcode;
	const struct weft_advert *known = draw_known(w, p, target, op);
	bool is_fitted = op == WEFT_OP_WRITE || op == WEFT_OP_WRITE_IMM || op == WEFT_OP_READ;
	uint64_t offset;

	if (!known || is_mischief(w)) {
		send->wr.remote_tag = (uint32_t)prng_next(&w->world.prng);
		send->wr.remote_addr = prng_next(&w->world.prng);
		return;
	}
	offset = prng_next(&w->world.prng) % (known->length + 1);
	if (is_fitted && send->length > known->length && !is_mischief(w))
		fit_payload(send, known->length);
	if (offset > known->length - send->length && !is_mischief(w))
		offset = 0;
	send->wr.remote_tag = known->tag;
	send->wr.remote_addr = known->addr + offset;
	send->wr.invalidate_tag = known->tag;
	if (right_of(op) == WEFT_REMOTE_ATOMIC && !is_mischief(w))
		send->wr.remote_addr = aim_atomic(w, target, known);
}

static void draw_payload(struct verbs_world *w, uint32_t p, struct model_send *send)
{
	bool is_atomic = send->wr.opcode == WEFT_OP_COMPARE_SWAP ||
			 send->wr.opcode == WEFT_OP_FETCH_ADD;
	bool is_sink = is_atomic || send->wr.opcode == WEFT_OP_READ;
	uint32_t draws = 0;

	send->wr.sges = send->sges;
	send->wr.sge_count = is_atomic ? 1 : draw(w, MODEL_SEGMENTS + 1);
	send->length = 0;
	if (send->wr.flags & WEFT_INLINE) {
		send->wr.sge_count = 1;
		send->sges[0] = (struct weft_sge){
			.addr = (uintptr_t)send->inline_data,
			.length = draw(w, MODEL_INLINE + 1),
		};
		for (uint32_t i = 0; i < MODEL_INLINE; i++)
			send->inline_data[i] = (uint8_t)prng_next(&w->world.prng);
	}
	for (uint32_t i = 0; i < send->wr.sge_count; i++) {
		if (!(send->wr.flags & WEFT_INLINE)) {
			do
				draw_range(w, p, &send->sges[i],
					   is_sink ? WEFT_LOCAL_WRITE : WEFT_LOCAL_READ);
			while (is_atomic && send->sges[i].length < 8 && ++draws < 8);
			if (send->sges[i].length > PAYLOAD_MAX && !is_mischief(w))
				send->sges[i].length = draw(w, PAYLOAD_MAX);
		}
		if (is_atomic && !is_mischief(w))
			send->sges[i].length = 8;
		send->length += send->sges[i].length;
	}
}

/*
 * Two queues registering under the same tag would race, and the model could not tell which one won.
 */
static bool is_queued_elsewhere(struct verbs_world *w, const struct weft_qp *qp, uint32_t tag)
{
	for (uint32_t i = 0; i < MODEL_QPS; i++) {
		const struct model_qp *m = &w->model.qps[i];

		for (uint32_t k = 0; m->is_open && m->number != qp->number && k < m->count; k++) {
			if (m->sends[(m->head + k) % MODEL_QUEUE].wr.reg.tag == tag)
				return true;
		}
	}
	return false;
}

/* An own tag that the process can invalidate; 0: none found soon. */
static uint32_t draw_own_tag(struct verbs_world *w, uint32_t p)
{
	for (uint32_t i = 0; i < 8; i++) {
		enum model_tag_kind kind = draw(w, 2) ? MODEL_TAG_WINDOW : MODEL_TAG_REGION;
		const struct model_tag *t = draw_tag(w, p, kind);

		if (t && t->is_valid && (t->is_by_queue || t->kind == MODEL_TAG_WINDOW))
			return t->tag;
	}
	return 0;
}

/* Would a correct process post this? */
static bool is_sensible(struct verbs_world *w, uint32_t p, const struct weft_qp *qp,
			const struct weft_send_wr *wr)
{
	const struct model_qp *target = target_of(w, qp, wr->dest_qp_number);
	bool is_strict = w->model.policy == WEFT_POLICY_STRICT;

	switch (wr->opcode) {
	case WEFT_OP_REGISTER:
	case WEFT_OP_REGISTER_SEND:
		return qp->is_register_enabled;
	case WEFT_OP_READ:
		return !is_strict && draw_known(w, p, target, wr->opcode);
	case WEFT_OP_COMPARE_SWAP:
	case WEFT_OP_FETCH_ADD:
	case WEFT_OP_WRITE:
	case WEFT_OP_WRITE_IMM:
	case WEFT_OP_SEND_INVALIDATE:
		return draw_known(w, p, target, wr->opcode);
	case WEFT_OP_BIND:
		return draw_tag(w, p, MODEL_TAG_WINDOW) != NULL;
	case WEFT_OP_INVALIDATE:
		return draw_own_tag(w, p) != 0;
	default:
		return true;
	}
}

static void draw_send(struct verbs_world *w, uint32_t p, struct weft_qp *qp,
		      struct model_send *send)
{
	static const uint8_t opcodes[WEFT_SERVICE_COUNT][WEFT_OP_ISCSI_COMMAND] = {
		[WEFT_RC] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 },
		[WEFT_UC] = { 0, 1, 3, 4, 8, 9, 10, 11, 12, 3, 0, 1, 4 },
		[WEFT_RD] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 },
		[WEFT_UD] = { 0, 1, 12, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1 },
	};
	const struct model_tag *reserved = draw_tag(w, p, MODEL_TAG_RESERVED);
	const struct weft_qp *dest = draw_peer(w, p, qp);
	enum weft_opcode op = (enum weft_opcode)
		opcodes[qp->service][draw(w, WEFT_OP_ISCSI_COMMAND)];

	memset(send, 0, sizeof(*send));
	send->wr.id = ++w->id_next;
	send->wr.dest_qp_number = dest && !is_mischief(w) ? dest->number : draw(w, 1 << 18);
	send->wr.opcode = op;
	if (!is_sensible(w, p, qp, &send->wr) && !is_mischief(w))
		op = WEFT_OP_SEND;
	send->wr.opcode = is_mischief(w) ? (enum weft_opcode)draw(w, 20) : op;
	send->wr.flags = draw(w, 4); /* signalled, fence */
	if (op <= WEFT_OP_WRITE_IMM && draw(w, 4) == 0)
		send->wr.flags |= WEFT_INLINE;
	if (op <= WEFT_OP_SEND_INVALIDATE && draw(w, 4) == 0)
		send->wr.flags |= WEFT_SOLICITED;
	send->wr.imm = draw(w, 1 << 20);
	send->wr.compare_add = draw(w, 4);
	send->wr.swap = draw(w, 4);
	send->wr.delay_ns = draw(w, 2000000);
	if (op < WEFT_OP_BIND || op == WEFT_OP_REGISTER_SEND)
		draw_payload(w, p, send);
	draw_remote(w, p, qp, send);
	if (op == WEFT_OP_INVALIDATE)
		send->wr.invalidate_tag = draw_own_tag(w, p);
	draw_bind(w, p, &send->wr.bind);
	send->wr.bind.is_qp_bound = draw(w, 2);
	draw_region(w, p, &send->wr.reg.region, send);
	if (reserved && draw(w, 2) && !is_queued_elsewhere(w, qp, reserved->tag))
		send->wr.reg.tag = reserved->tag;
}

static void post_one_recv(struct verbs_world *w, uint32_t p, struct weft_qp *qp)
{
	struct process *proc = &w->processes[p];
	bool is_shared = qp->srq ? draw(w, 8) != 0 : is_mischief(w);
	struct model_qp *mqp = model_of(w, qp);
	struct model_recv recv = { .id = ++w->id_next, .sge_count = MODEL_SEGMENTS - draw(w, 3) };
	struct weft_recv_wr wr = { .id = recv.id, .sges = recv.sges };
	uint32_t posted;
	enum weft_reason r;

	for (uint32_t i = 0; i < recv.sge_count; i++)
		draw_range(w, p, &recv.sges[i], WEFT_LOCAL_WRITE);
	wr.sge_count = recv.sge_count;
	if (is_shared)
		r = srq_post(proc->srq, &wr, 1, &posted);
	else
		r = qp_post_recv(qp, &wr, 1, &posted);
	if (r != WEFT_OK)
		return;
	if (!is_shared && mqp->has_srq)
		model_fail(&w->model, "QP %u took a receive for itself", mqp->number);
	model_posted_recv(&w->model, is_shared ? &w->model.processes[p].srq : &mqp->recvs, &recv);
}

/* Mostly makes sure that the message will find a receive. */
static void prepare_target(struct verbs_world *w, const struct weft_qp *qp,
			   const struct model_send *send)
{
	const struct model_qp *target = target_of(w, qp, send->wr.dest_qp_number);
	uint32_t slot = target ? (uint32_t)(target - w->model.qps) : 0;

	if (target && draw(w, 4) != 0 && right_of(send->wr.opcode) != WEFT_REMOTE_READ)
		post_one_recv(w, target->process,
			      w->processes[target->process].qps[slot % PROCESS_QPS]);
}

static void post_one(struct verbs_world *w, uint32_t p, struct weft_qp *qp)
{
	struct model_qp *mqp = model_of(w, qp);
	struct model_send *send = model_send_slot(mqp);
	bool is_full = mqp->count == w->limits.send_max, is_reserving;
	uint32_t posted;
	enum weft_reason r;

	if (!send)
		return;
	draw_send(w, p, qp, send);
	prepare_target(w, qp, send);
	is_reserving = (send->wr.opcode == WEFT_OP_REGISTER ||
			send->wr.opcode == WEFT_OP_REGISTER_SEND) &&
		       send->wr.reg.tag == 0;
	r = qp_post_send(qp, &send->wr, 1, &posted);
	if (posted != (r == WEFT_OK) || (r == WEFT_R_QUEUE_FULL && !is_full) ||
	    (r == WEFT_OK && is_full))
		model_fail(&w->model, "QP %u posted %u: %s", qp->number, posted,
			   weft_reason_name(r));
	if (r != WEFT_OK)
		return;
	if (is_reserving)
		model_tag_new(&w->model, p, send->wr.reg.tag, MODEL_TAG_RESERVED)->is_by_queue =
			true;
	model_posted_send(mqp);
}

void act_post_send(struct verbs_world *w, uint32_t p)
{
	struct weft_qp *qp = draw_qp_working(w, p, true);
	uint32_t count = 1 + draw(w, 4);

	if (draw(w, 4) != 0)
		act_poll(w, p);
	if (qp->state != WEFT_QPS_RTS && !is_mischief(w)) {
		act_connect(w, p);
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		post_one(w, p, qp);
}

void act_post_recv(struct verbs_world *w, uint32_t p)
{
	struct weft_qp *qp = draw_qp_working(w, p, true);
	uint32_t count = 1 + draw(w, 4);

	for (uint32_t i = 0; i < count; i++)
		post_one_recv(w, p, qp);
}

void act_poll(struct verbs_world *w, uint32_t p)
{
	struct weft_completion completions[8];
	uint32_t count;
	enum weft_reason r;

	verbs_observe(w);
	/* Bound: the queue is drained, and nothing fills it meanwhile. */
	do {
		r = cq_poll(w->processes[p].cq, completions, 8, &count);
		for (uint32_t i = 0; i < count; i++)
			model_polled(&w->model, p, &completions[i]);
	} while (count > 0);
	if ((r == WEFT_R_CQ_OVERRUN) != w->model.processes[p].cq.is_overrun)
		model_fail(&w->model, "process %u: poll says %s after %lu completions were lost", p,
			   weft_reason_name(r), (unsigned long)w->model.processes[p].cq.lost);
	w->model.processes[p].cq.is_overrun = false;
}
