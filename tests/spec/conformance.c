/* SPDX-License-Identifier: BSD-2-Clause */
/* The fixture of the conformance suite: pairs, and waiting for what they do. */
#include "conformance.h"

#include <stdlib.h>
#include <string.h>

enum {
	QUIET_ROUNDS = 3,
	ALL_RIGHTS = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ | WEFT_REMOTE_WRITE |
		     WEFT_REMOTE_ATOMIC | WEFT_BIND
};

/* A message waits for its receive longer than a busy machine may keep a case waiting. */
static const uint64_t receiver_wait_ns = UINT64_C(60) * 1000000000;

/* What has not happened by then will not. */
static const uint64_t patience_ns = UINT64_C(20) * 1000000000;

/* ---- Opening -------------------------------------------------------------------------------- */

static void end_open_memory(struct pair_end *e, const struct pair_options *o)
{
	struct weft_pd_options pd = { .is_privileged = o->is_privileged,
				      .authority = e->authority };
	struct weft_space_options space = { .size_bytes = END_BYTES, .mappings_max = 8 };

	e->memory = aligned_alloc(4096, END_BYTES);
	REQUIRE(e->memory);
	memset(e->memory, BLANK, END_BYTES);
	e->addr = (uintptr_t)e->memory;
	if (o->has_spaces) {
		space.memory = e->memory;
		MUST(weft_space_create(e->adapter, &space, &e->space));
		MUST(weft_space_map(e->space, SPACE_ADDR, END_BYTES, 0));
		pd.space = e->space;
		e->addr = SPACE_ADDR;
	}
	MUST(weft_pd_create(e->adapter, &pd, &e->pd));
	e->tag = end_register(e, 0, END_BYTES, ALL_RIGHTS);
}

static void end_open_queues(struct pair_end *e, const struct pair_options *o)
{
	const struct weft_cq_options cq = { .entries_max = o->cq_entries };

	MUST(weft_cq_create(e->adapter, &cq, &e->send_cq));
	e->recv_cq = e->send_cq;
	if (!o->has_one_cq)
		MUST(weft_cq_create(e->adapter, &cq, &e->recv_cq));
	if (o->has_srq && e == &e->pair->ends[1])
		MUST(weft_srq_create(e->pd, NULL, &e->srq));
}

static void end_open_qp(struct pair_end *e, const struct pair_options *o)
{
	const struct weft_qp_attr attr = {
		.is_register_enabled = o->is_privileged,
		.on_failure = o->on_failure,
		.receiver_wait_ns = receiver_wait_ns,
	};
	struct weft_qp_options qp = o->qp;

	qp.service = o->service;
	qp.send_cq = e->send_cq;
	qp.recv_cq = e->recv_cq;
	qp.srq = e->srq;
	MUST(weft_qp_create(e->pd, &qp, &e->qp));
	MUST(weft_qp_modify(e->qp, &attr,
			    WEFT_QP_REGISTER | WEFT_QP_ON_FAILURE | WEFT_QP_RECEIVER_WAIT));
}

/* So that each privileged domain of the suite has its privilege from the owner. */
static void claim_adapters(struct pair *p)
{
	MUST(weft_adapter_claim(p->ends[0].adapter, &p->ends[0].authority));
	if (p->ends[1].adapter == p->ends[0].adapter)
		p->ends[1].authority = p->ends[0].authority;
	else
		MUST(weft_adapter_claim(p->ends[1].adapter, &p->ends[1].authority));
}

void pair_open(struct pair *p, const struct pair_options *options)
{
	memset(p, 0, sizeof(*p));
	if (options)
		p->options = *options;
	if (p->options.beside)
		memcpy(p->ends, p->options.beside->ends, sizeof(p->ends));
	else
		pair_maker.open(p);
	if (!p->options.beside)
		claim_adapters(p);
	for (int i = 0; i < 2; i++) {
		p->ends[i].pair = p;
		p->ends[i].peer = &p->ends[!i];
		p->ends[i].event_count = 0;
		MUST(weft_adapter_query(p->ends[i].adapter, &p->ends[i].before));
	}
	for (int i = 0; i < 2; i++) {
		if (!p->options.beside) {
			end_open_memory(&p->ends[i], &p->options);
			end_open_queues(&p->ends[i], &p->options);
		}
		end_open_qp(&p->ends[i], &p->options);
	}
	pair_maker.connect(p);
}

struct weft_qp *end_qp_create(struct pair_end *e, enum weft_qp_service service)
{
	const struct weft_qp_options o = {
		.send_cq = e->send_cq,
		.recv_cq = e->recv_cq,
		.service = service,
	};
	struct weft_qp *qp;

	MUST(weft_qp_create(e->pd, &o, &qp));
	return qp;
}

/* ---- Closing -------------------------------------------------------------------------------- */

/* Takes one completion without waiting for it. False if there is none. */
static bool cq_try(struct weft_cq *cq, struct weft_completion *c)
{
	uint32_t count = 0;

	MUST(weft_cq_poll(cq, c, 1, &count));
	return count == 1;
}

bool pair_wait(struct pair *p, uint64_t since_ns)
{
	pair_maker.progress(p);
	return pair_maker.now_ns(p) - since_ns < patience_ns;
}

void pair_settle(struct pair *p)
{
	if (pair_maker.settle)
		pair_maker.settle(p);
}

void pair_quiet(struct pair *p)
{
	struct weft_completion c;

	pair_settle(p);
	for (int round = 0; round < QUIET_ROUNDS; round++) {
		pair_maker.progress(p);
		for (int i = 0; i < 2; i++) {
			REQUIRE(!cq_try(p->ends[i].send_cq, &c));
			REQUIRE(!cq_try(p->ends[i].recv_cq, &c));
		}
	}
}

static uint32_t count_flushed(struct weft_cq *cq)
{
	struct weft_completion c;
	uint32_t count = 0;

	for (; cq_try(cq, &c); count++)
		MUST_EQ(c.status, WEFT_ERR_FLUSHED);
	return count;
}

/* Destroys the queue pairs: what was still queued is flushed, each request once (QP-14). */
static void pair_close_qps(struct pair *p)
{
	uint32_t queued = 0, flushed = 0;

	if (!p->is_overrun)
		pair_quiet(p);
	for (int i = 0; i < 2; i++) {
		if (p->ends[i].qp) {
			struct weft_qp_attr attr = end_query(&p->ends[i]);

			queued += attr.send_queued + attr.recv_queued;
		}
	}
	for (int i = 0; i < 2; i++) {
		if (p->ends[i].qp)
			MUST(weft_qp_destroy(p->ends[i].qp));
	}
	for (int i = 0; i < 2 && !p->is_overrun; i++) {
		flushed += count_flushed(p->ends[i].send_cq);
		flushed += count_flushed(p->ends[i].recv_cq);
	}
	if (!p->is_overrun)
		MUST_EQ(flushed, queued);
}

static void end_close(struct pair_end *e)
{
	MUST(weft_region_deregister(e->pd, e->tag));
	if (e->srq)
		MUST(weft_srq_destroy(e->srq));
	MUST(weft_cq_destroy(e->send_cq));
	if (e->recv_cq != e->send_cq)
		MUST(weft_cq_destroy(e->recv_cq));
	MUST(weft_pd_destroy(e->pd));
	if (e->space)
		MUST(weft_space_destroy(e->space));
	free(e->memory);
}

/* Nothing has been left behind in the adapter. */
static void end_check_usage(const struct pair_end *e)
{
	const struct weft_usage *was = &e->before;
	struct weft_usage now;

	MUST(weft_adapter_query(e->adapter, &now));
	MUST_EQ(now.regions, was->regions);
	MUST_EQ(now.windows, was->windows);
	MUST_EQ(now.tags_reserved, was->tags_reserved);
	MUST_EQ(now.tags_free, was->tags_free);
	MUST_EQ(now.translations, was->translations);
	MUST_EQ(now.spaces, was->spaces);
	MUST_EQ(now.pds, was->pds);
	MUST_EQ(now.cqs, was->cqs);
	MUST_EQ(now.srqs, was->srqs);
	MUST_EQ(now.qps, was->qps);
}

void pair_close(struct pair *p)
{
	pair_close_qps(p);
	for (int i = 0; i < 2 && !p->options.beside; i++)
		end_close(&p->ends[i]);
	for (int i = 0; i < 2; i++)
		end_check_usage(&p->ends[i]);
	if (!p->options.beside)
		pair_maker.close(p);
}

void pair_revive(struct pair *p)
{
	const struct weft_qp_attr reset = { .state = WEFT_QPS_RESET };
	struct weft_completion c;

	for (int i = 0; i < 2; i++)
		end_await(&p->ends[i], WEFT_QPS_ERROR);
	for (int i = 0; i < 2; i++) {
		MUST(weft_qp_modify(p->ends[i].qp, &reset, WEFT_QP_STATE));
		while (cq_try(p->ends[i].send_cq, &c) || cq_try(p->ends[i].recv_cq, &c))
			;
	}
	pair_maker.connect(p);
}

/* ---- Memory --------------------------------------------------------------------------------- */

void pair_blank(struct pair *p)
{
	for (int i = 0; i < 2; i++)
		memset(p->ends[i].memory, BLANK, END_BYTES);
}

uint8_t pattern(uint32_t seed, uint64_t position)
{
	uint64_t x = (position + 1) * UINT64_C(0x9e3779b97f4a7c15) +
		     seed * UINT64_C(0xd1342543de82ef95);

	return (uint8_t)(x >> 56);
}

void end_fill(struct pair_end *e, uint64_t offset, uint64_t length, uint32_t seed)
{
	for (uint64_t i = 0; i < length; i++)
		e->memory[offset + i] = pattern(seed, i);
}

/* A peer may be writing the byte just now: to look is a race, and meant to be. */
__attribute__((no_sanitize("thread"))) static uint8_t byte_now(const struct pair_end *e,
							       uint64_t offset)
{
	return *(const volatile uint8_t *)(e->memory + offset);
}

void byte_holds(const struct pair_end *e, uint64_t offset, uint8_t value)
{
	uint64_t since;

	if (byte_now(e, offset) == value)
		return;
	since = pair_maker.now_ns(e->pair);
	while (byte_now(e, offset) != value && pair_wait(e->pair, since))
		;
	MUST_EQ(byte_now(e, offset), value);
}

void end_holds(const struct pair_end *e, uint64_t offset, uint64_t length, uint32_t seed)
{
	for (uint64_t i = 0; i < length; i++)
		byte_holds(e, offset + i, pattern(seed, i));
	pair_settle(e->pair); /* the end of the message, which is no payload */
}

void end_is_blank(const struct pair_end *e, uint64_t offset, uint64_t length)
{
	for (uint64_t i = 0; i < length; i++) {
		if (e->memory[offset + i] != BLANK)
			MUST_EQ(e->memory[offset + i], BLANK);
	}
}

struct weft_sge end_seg(const struct pair_end *e, uint64_t offset, uint32_t length)
{
	return (struct weft_sge){ .addr = e->addr + offset, .length = length, .tag = e->tag };
}

uint32_t end_register(struct pair_end *e, uint64_t offset, uint64_t length, uint32_t rights)
{
	const struct weft_region_options o = {
		.addr = e->addr + offset,
		.length = length,
		.rights = rights,
	};
	uint32_t tag;

	MUST(weft_region_register(e->pd, &o, &tag));
	return tag;
}

uint32_t end_bind(struct pair_end *e, uint64_t offset, uint64_t length, uint32_t rights)
{
	struct weft_bind bind = {
		.region_tag = e->tag,
		.addr = e->addr + offset,
		.length = length,
		.rights = rights,
	};

	MUST(weft_window_alloc(e->pd, &bind.window_tag));
	MUST(weft_window_bind(e->pd, &bind));
	return bind.tag;
}

void end_unbind(struct pair_end *e, uint32_t tag)
{
	MUST(weft_window_unbind(e->pd, tag));
	MUST(weft_window_free(e->pd, tag));
}

void end_cut(const struct pair_end *e, uint64_t offset, uint32_t length, uint32_t count,
	     struct weft_sge *pieces)
{
	uint64_t above = offset + length + (uint64_t)count * PIECE_GAP;
	uint32_t from = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t to = (uint32_t)((uint64_t)length * (i + 1) / count);

		if (i + 1 < count && to < length)
			to += i % 2;
		to = to < from ? from : to;
		above -= to - from + PIECE_GAP;
		pieces[i] = end_seg(e, above, to - from);
		from = to;
	}
}

void pieces_fill(struct pair_end *e, const struct weft_sge *pieces, uint32_t count, uint32_t seed)
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < count; i++) {
		for (uint64_t k = 0; k < pieces[i].length; k++)
			e->memory[pieces[i].addr - e->addr + k] = pattern(seed, at++);
	}
}

void pieces_hold(const struct pair_end *e, const struct weft_sge *pieces, uint32_t count,
		 uint32_t length, uint32_t seed)
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t offset = pieces[i].addr - e->addr;
		uint64_t n = pieces[i].length < length - at ? pieces[i].length : length - at;

		for (uint64_t k = 0; k < n; k++)
			byte_holds(e, offset + k, pattern(seed, at + k));
		end_is_blank(e, offset + n, pieces[i].length - n + PIECE_GAP);
		at += n;
	}
	MUST_EQ(at, length);
	pair_settle(e->pair);
}
