/* SPDX-License-Identifier: BSD-2-Clause */
#include "live/near/near_end.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/prng.h"

/* A connection's part of the memory: what it sends, what the peer accesses, what it receives. */
enum { AREA_BYTES = 64 * 1024, PART_BYTES = 3 * AREA_BYTES, PACKET_BYTES = 1024 };
enum { MEMORY_BYTES = NEAR_CONNECTIONS * PART_BYTES, SPARE_BYTES = 64 * 1024 };
enum { RECEIVES = 4, RECEIVE_ID = 1000 };

struct connection {
	struct weft_qp *qp;
	uint32_t sends, receives; /* without a completion */
	bool is_connected, has_failed;
};

struct memory {
	uint8_t *at;
	uint64_t bytes;
	uint32_t tag;
	bool is_mapped;
};

struct process {
	struct near_stand *stand;
	struct near_account *account, *other;
	uint32_t own;
	enum near_drive drive;
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct memory memory, spare;
	struct connection each[NEAR_CONNECTIONS];
	struct prng dice;
};

/* ---- Memory --------------------------------------------------------------------------------- */

static void memory_open(struct process *p, struct memory *m, uint64_t bytes)
{
	struct weft_region_options o = {
		.length = bytes,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ |
			  WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC,
	};

	m->bytes = bytes;
	m->at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(m->at != MAP_FAILED);
	m->is_mapped = true;
	o.addr = (uintptr_t)m->at;
	MUST(weft_region_register(p->pd, &o, &m->tag));
}

/* Notes a time that is longer than all before, and must be within the bound. */
static void note(uint64_t *longest, uint64_t since_ns)
{
	uint64_t took_ns = thread_now_ns() - since_ns;

	harness_note("it took %llu us", (unsigned long long)took_ns / 1000);
	REQUIRE(took_ns < NEAR_BOUND_NS);
	harness_note("%s", "");
	if (took_ns > *longest)
		*longest = took_ns;
}

static void memory_unmap(struct process *p, struct memory *m)
{
	uint64_t since_ns = thread_now_ns();

	REQUIRE(munmap(m->at, m->bytes) == 0);
	m->is_mapped = false;
	note(&p->account->unmap_ns, since_ns);
}

static void memory_deregister(struct process *p, struct memory *m)
{
	uint64_t since_ns = thread_now_ns();

	MUST(weft_region_deregister(p->pd, m->tag));
	m->tag = 0;
	note(&p->account->deregister_ns, since_ns);
}

static void memory_end(struct process *p, struct memory *m)
{
	if (m->tag != 0)
		memory_deregister(p, m);
	if (m->is_mapped)
		memory_unmap(p, m);
}

/* ---- Completions ---------------------------------------------------------------------------- */

static void receive_post(struct process *p, uint32_t i)
{
	const struct weft_sge s = {
		.addr = (uintptr_t)p->memory.at + i * PART_BYTES + 2 * AREA_BYTES,
		.length = AREA_BYTES,
		.tag = p->memory.tag,
	};
	const struct weft_recv_wr wr = { .id = RECEIVE_ID + i, .sges = &s, .sge_count = 1 };

	MUST(weft_qp_post_recv(p->each[i].qp, &wr, 1, NULL));
	p->each[i].receives++;
}

/* The first failure of a connection is that the peer has gone, which must be true. */
static void failure_note(struct process *p, struct connection *c, const struct weft_completion *w)
{
	p->account->failed++;
	if (c->has_failed)
		return;
	c->has_failed = true;
	REQUIRE(atomic_load(&p->stand->is_killing));
	if (w->id < RECEIVE_ID)
		MUST_EQ(w->status, WEFT_ERR_PEER_GONE);
}

static void completion_take(struct process *p, const struct weft_completion *w)
{
	bool is_send = w->id < RECEIVE_ID;
	uint32_t i = (uint32_t)(is_send ? w->id : w->id - RECEIVE_ID);
	struct connection *c = &p->each[i];
	uint32_t *left = is_send ? &c->sends : &c->receives;

	REQUIRE(i<NEAR_CONNECTIONS && * left> 0);
	--*left;
	if (w->status != WEFT_SUCCESS) {
		failure_note(p, c, w);
		return;
	}
	p->account->succeeded++;
	if (is_send)
		atomic_fetch_add(&p->account->completed, 1);
	else if (!c->has_failed)
		receive_post(p, i);
}

/* For a completion. */
static void wait_a_moment(struct process *p)
{
	MUST(weft_cq_wait(p->cq, -1, 1000 * 1000, NULL));
}

static void progress(struct process *p)
{
	enum { COMPLETIONS = 16 };
	struct weft_completion taken[COMPLETIONS];
	uint32_t count = 0;

	MUST(weft_cq_poll(p->cq, taken, COMPLETIONS, &count));
	for (uint32_t i = 0; i < count; i++)
		completion_take(p, &taken[i]);
	if (count == 0 && p->drive != NEAR_POLLS)
		wait_a_moment(p);
}

/* ---- Requests ------------------------------------------------------------------------------- */

static enum weft_opcode draw_opcode(struct process *p, enum near_traffic traffic)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_WRITE,     WEFT_OP_READ,
						    WEFT_OP_SEND,      WEFT_OP_WRITE_IMM,
						    WEFT_OP_FETCH_ADD, WEFT_OP_COMPARE_SWAP };

	return opcodes[prng_below(&p->dice, traffic == NEAR_DIRECT  ? 2
					    : traffic == NEAR_LARGE ? 4
								    : 6)];
}

static uint32_t draw_bytes(struct process *p, enum near_traffic traffic)
{
	bool is_large = traffic == NEAR_LARGE ||
			(traffic == NEAR_MIXED && prng_below(&p->dice, 2) == 0);

	return 1 + prng_below(&p->dice, is_large ? AREA_BYTES : PACKET_BYTES);
}

static void request_post(struct process *p, uint32_t i, enum near_traffic traffic)
{
	enum weft_opcode opcode = draw_opcode(p, traffic);
	bool is_atomic = opcode == WEFT_OP_FETCH_ADD || opcode == WEFT_OP_COMPARE_SWAP;
	const struct weft_sge s = {
		.addr = (uintptr_t)p->memory.at + i * PART_BYTES,
		.length = is_atomic ? sizeof(uint64_t) : draw_bytes(p, traffic),
		.tag = p->memory.tag,
	};
	struct weft_send_wr wr = {
		.id = i,
		.opcode = opcode,
		.flags = WEFT_SIGNALLED,
		.sges = &s,
		.sge_count = 1,
		.remote_tag = p->other->tag,
		.remote_addr = p->other->addr + i * PART_BYTES + AREA_BYTES,
		.compare_add = 1,
	};

	MUST(weft_qp_post_send(p->each[i].qp, &wr, 1, NULL));
	p->each[i].sends++;
}

static void requests_post(struct process *p)
{
	const struct near_plan *plan = &p->stand->plan;

	for (uint32_t i = 0; i < NEAR_CONNECTIONS; i++) {
		const struct connection *c = &p->each[i];

		while ((plan->requesters[i] >> p->own & 1) && c->sends < plan->depth[i] &&
		       !c->has_failed)
			request_post(p, i, plan->traffic[i]);
	}
}

/* ---- A round -------------------------------------------------------------------------------- */

static void reach(struct process *p, enum near_stage stage)
{
	atomic_store(&p->account->stage, near_stage_of(atomic_load(&p->stand->round), stage));
}

/* Until the other end has got there as well, or the round is over. */
static void await_other(struct process *p, enum near_stage stage)
{
	unsigned int wanted = near_stage_of(atomic_load(&p->stand->round), stage);

	while (atomic_load(&p->other->stage) < wanted && !atomic_load(&p->stand->is_over))
		progress(p);
}

static void round_open(struct process *p)
{
	const struct weft_qp_options o = { .send_cq = p->cq, .recv_cq = p->cq };

	p->dice = (struct prng){ p->stand->plan.seed + p->own };
	memory_open(p, &p->memory, MEMORY_BYTES);
	memory_open(p, &p->spare, SPARE_BYTES);
	for (uint32_t i = 0; i < NEAR_CONNECTIONS; i++) {
		p->each[i] = (struct connection){ 0 };
		MUST(weft_qp_create(p->pd, &o, &p->each[i].qp));
		p->account->numbers[i] = weft_qp_number(p->each[i].qp);
	}
	p->account->tag = p->memory.tag;
	p->account->addr = (uintptr_t)p->memory.at;
	atomic_store(&p->account->completed, 0);
	reach(p, NEAR_HAS_CARDS);
}

static void round_connect(struct process *p)
{
	for (uint32_t i = 0; i < NEAR_CONNECTIONS; i++) {
		struct weft_roce_attr way = roce_way(p->other->numbers[i]);

		way.reads_in = way.reads_out = 4;
		way.timeout_code = p->stand->plan.has_timeouts ? 10 : 20; /* 4 ms, 4 s */
		roce_start(p->each[i].qp, &way);
		p->each[i].is_connected = true;
		for (int left = RECEIVES; left > 0; left--)
			receive_post(p, i);
	}
	reach(p, NEAR_IS_CONNECTED);
}

/* The region that is not used ends while marks of the peer may be set. */
static void spare_end(struct process *p)
{
	switch (p->stand->plan.ending) {
	case NEAR_UNMAP_FIRST:
		memory_unmap(p, &p->spare);
		memory_deregister(p, &p->spare);
		break;
	case NEAR_DEREGISTER_FIRST:
		memory_end(p, &p->spare);
		break;
	default:
		break;
	}
}

/* Whether a connection has requests without a completion, or has not failed. */
static bool has_ended(const struct connection *c)
{
	return c->sends == 0 && (c->has_failed || !c->is_connected);
}

/* The peer is dead: requests fail, those that are posted only now as well. False: one has not. */
static bool requests_try(struct process *p)
{
	bool have_ended = true;

	for (uint32_t i = 0; i < NEAR_CONNECTIONS; i++) {
		const struct connection *c = &p->each[i];

		if (c->is_connected && !c->has_failed && c->sends == 0)
			request_post(p, i, NEAR_SMALL);
		have_ended &= has_ended(c);
	}
	return have_ended;
}

static void requests_end(struct process *p)
{
	uint64_t since_ns = thread_now_ns();

	while (!requests_try(p)) {
		REQUIRE(thread_now_ns() - since_ns < NEAR_BOUND_NS);
		progress(p);
	}
	note(&p->account->drain_ns, since_ns);
}

static void round_close(struct process *p)
{
	const struct weft_qp_attr error = { .state = WEFT_QPS_ERROR };
	uint64_t since_ns = thread_now_ns();
	struct weft_roce_counts counts;

	for (uint32_t i = 0; i < NEAR_CONNECTIONS; i++) {
		struct connection *c = &p->each[i];

		if (c->is_connected)
			MUST(weft_qp_modify(c->qp, &error, WEFT_QP_STATE));
		while (c->receives > 0) {
			REQUIRE(thread_now_ns() - since_ns < NEAR_BOUND_NS);
			progress(p);
		}
		MUST(weft_qp_destroy(c->qp));
	}
	memory_end(p, &p->spare);
	memory_end(p, &p->memory);
	MUST(weft_roce_query(p->adapter, &counts));
	p->account->direct = counts.direct;
}

static void round_run(struct process *p)
{
	const struct near_stand *s = p->stand;

	round_open(p);
	await_other(p, NEAR_HAS_CARDS);
	if (!atomic_load(&s->is_over)) {
		round_connect(p);
		await_other(p, NEAR_IS_CONNECTED);
	}
	while (!atomic_load(&s->is_over) && !(s->plan.is_quiet && atomic_load(&s->is_killing))) {
		requests_post(p);
		progress(p);
	}
	reach(p, NEAR_IS_QUIET);
	while (!atomic_load(&s->is_over))
		sched_yield();
	spare_end(p);
	requests_end(p);
	round_close(p);
}

void near_end_run(struct near_stand *stand, uint32_t own, enum near_drive drive)
{
	struct process p = { .stand = stand,
			     .account = &stand->ends[own],
			     .other = &stand->ends[1 - own],
			     .own = own,
			     .drive = drive };
	unsigned int round = atomic_load(&stand->round);

	harness_in_child();
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* Yama: its peer, too */
	p.adapter = roce_adapter_open();
	MUST(weft_pd_create(p.adapter, NULL, &p.pd));
	MUST(weft_cq_create(p.adapter, &(struct weft_cq_options){ .entries_max = 8192 }, &p.cq));
	if (drive == NEAR_DRIVES)
		MUST(weft_adapter_drive(p.adapter, true));
	for (;;) {
		reach(&p, NEAR_RESTS);
		while (atomic_load(&stand->round) == round)
			wait_a_moment(&p);
		round = atomic_load(&stand->round);
		round_run(&p);
	}
}
