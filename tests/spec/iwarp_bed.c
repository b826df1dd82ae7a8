/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp_peer.h"

#include <stdlib.h>
#include <string.h>

#include "loopback/loopback.h"

/* How the bytes move; the plain ways come first, all bytes at once before them. */
static const struct {
	size_t in_max, out_max;
	bool has_markers;
} ways[] = {
	{ SIZE_MAX, SIZE_MAX, false },
	{ 1, SIZE_MAX, false },
	{ SIZE_MAX, 1, false },
	{ 1, 1, false },
	{ 7, 5, false },
	{ SIZE_MAX, SIZE_MAX, true },
	{ 1, 1, true },
};

enum { WAYS = sizeof(ways) / sizeof(*ways), WAYS_PLAIN = 5, CQ_MAX = 256 };

static struct iwarp_bed the_bed;

/* ---- Life ----------------------------------------------------------------------------------- */

static void open_qp(struct iwarp_bed *b)
{
	const struct weft_qp_attr attr = { .receiver_wait_ns = RECEIVER_WAIT_NS };
	const struct iwarp_config config = {
		.terms = b->terms,
		.close_wait_ns = CLOSE_WAIT_NS,
		.begin_ns = b->now_ns,
		.again_wait_ns = b->setup.again_wait_ns,
		.first_wait_ns = b->setup.first_wait_ns,
		.attention = &b->attention,
		.owner = b,
	};

	if (b->setup.has_srq)
		MUST(srq_create(b->pd, &(struct weft_srq_options){ 0 }, &b->srq));
	b->qp = bed_qp(b);
	MUST(qp_modify(b->qp, &attr, WEFT_QP_RECEIVER_WAIT));
	MUST(iwarp_create(b->qp, &config, &b->stream));
	REQUIRE(iwarp_owner(b->stream) == b);
}

struct weft_qp *bed_qp(struct iwarp_bed *b)
{
	const struct weft_qp_options options = {
		.send_cq = b->cq,
		.recv_cq = b->cq,
		.srq = b->srq,
		.send_max = b->setup.send_max,
	};
	struct weft_qp *qp;

	MUST(qp_create(b->pd, &options, &loopback_transport, &qp));
	return qp;
}

static bool is_there(uint64_t addr, uint64_t length, bool is_written)
{
	(void)addr;
	(void)length;
	(void)is_written;
	return true;
}

static bool copy(void *to, const void *from, uint64_t length)
{
	the_bed.guarded += length;
	if (!the_bed.is_gone)
		memmove(to, from, length);
	return !the_bed.is_gone;
}

static bool run(const void *bytes, uint64_t length, void (*work)(void *), void *argument)
{
	(void)bytes;
	the_bed.guarded += length;
	if (!the_bed.is_gone)
		work(argument);
	return !the_bed.is_gone;
}

static const struct mem_guard guard = { .copy = copy, .run = run };

/* Made once: beds are opened by the thousand. */
static void bed_fill(struct iwarp_bed *b)
{
	static uint8_t bytes[MEMORY_BYTES];
	static bool is_made;

	for (size_t i = 0; i < MEMORY_BYTES && !is_made; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	is_made = true;
	memcpy(b->memory, bytes, MEMORY_BYTES);
}

static struct iwarp_bed *bed_open(const struct setup *setup, size_t way)
{
	struct iwarp_bed *b = &the_bed;
	struct adapter_config config = {
		.options = { .tags_max = 32, .translations_max = 64, .qps_max = 8 },
		.secret = { 3, 4 },
		.is_there = is_there,
		.guard = &guard,
	};

	*b = (struct iwarp_bed){ .setup = *setup, .way = way, .out_credit = SIZE_MAX };
	b->in_max = ways[way].in_max;
	b->out_max = ways[way].out_max;
	b->terms = setup->terms;
	b->terms.sends_markers |= ways[way].has_markers;
	b->terms.takes_markers |= ways[way].has_markers;
	config.options.policy = setup->policy;
	list_init(&b->attention);
	b->memory = aligned_alloc(4096, MEMORY_BYTES);
	b->shadow = malloc(MEMORY_BYTES);
	REQUIRE(b->memory && b->shadow);
	bed_fill(b);
	bed_note(b);
	MUST(adapter_init(&b->adapter, &config));
	MUST(pd_create(&b->adapter, &(struct weft_pd_options){ 0 }, &b->pd));
	MUST(pd_create(&b->adapter, &(struct weft_pd_options){ 0 }, &b->other_pd));
	MUST(cq_create(&b->adapter, &(struct weft_cq_options){ .entries_max = CQ_MAX }, &b->cq));
	open_qp(b);
	return b;
}

struct iwarp_buffers *bed_lend(struct iwarp_bed *b)
{
	struct iwarp_buffers *buffers = iwarp_buffers_create();

	REQUIRE(buffers);
	iwarp_lend(b->stream, buffers);
	return buffers;
}

struct iwarp_bed *bed_first(const struct setup *setup)
{
	static const struct setup defaults = {
		.terms = { .is_initiator = true, .has_crc = true, .ird = 2, .ord = 2 },
	};

	return bed_open(setup ? setup : &defaults, 0);
}

static void forget_memory(struct iwarp_bed *b)
{
	struct mem_table *mem = &b->adapter.mem;

	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < mem->tags_max; i++) {
			uint32_t tag = mem_tag(i, mem->entries[i].instance);
			uint32_t pd = mem->entries[i].pd;

			(void)mem_window_unbind(mem, pd, tag);
			(void)mem_window_free(mem, pd, tag);
			(void)mem_tag_release(mem, pd, tag);
			(void)mem_region_deregister(mem, pd, tag);
		}
	}
}

static void bed_close(struct iwarp_bed *b)
{
	struct weft_completion c;

	if (b->qp)
		qp_destroy(b->qp);
	if (b->stream)
		iwarp_destroy(b->stream);
	REQUIRE(list_is_empty(&b->attention));
	while (bed_poll(b, &c))
		continue;
	REQUIRE(b->completed == b->posted);
	if (b->srq)
		MUST(srq_destroy(b->srq));
	MUST(cq_destroy(b->cq));
	forget_memory(b);
	MUST(pd_destroy(b->pd));
	MUST(pd_destroy(b->other_pd));
	MUST(adapter_fini(&b->adapter));
	free(b->memory);
	free(b->shadow);
	free(b->in.bytes);
	free(b->out.bytes);
}

struct iwarp_bed *bed_next(struct iwarp_bed *b)
{
	struct setup setup = b->setup;
	size_t way = b->way + 1;

	bed_close(b);
	if (setup.is_whole && way == 1)
		way = WAYS_PLAIN;
	if (way >= WAYS || (setup.is_plain && way >= WAYS_PLAIN) ||
	    (setup.is_whole && way > WAYS_PLAIN))
		return NULL;
	return bed_open(&setup, way);
}

/* ---- Moving --------------------------------------------------------------------------------- */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

void pipe_put(struct pipe *p, const void *bytes, size_t length)
{
	if (p->length + length > p->size) {
		p->size = 2 * (p->length + length);
		p->bytes = realloc(p->bytes, p->size);
		REQUIRE(p->bytes);
	}
	if (length > 0)
		memcpy(p->bytes + p->length, bytes, length);
	p->length += length;
}

bool bed_move_in(struct iwarp_bed *b, size_t most)
{
	struct span_list l;
	size_t n, done = 0;

	iwarp_want(b->stream, b->now_ns, &l);
	REQUIRE(iwarp_wants(b->stream) || l.count == 0);
	n = least(least(l.length, most), b->in.length - b->in.at);
	if (n == 0)
		return false;
	for (uint32_t i = 0; done < n; i++) {
		size_t k = least(l.spans[i].length, n - done);

		memcpy(l.spans[i].bytes, b->in.bytes + b->in.at + done, k);
		done += k;
	}
	b->in.at += n;
	iwarp_got(b->stream, b->now_ns, &l, n);
	return true;
}

static bool move_out(struct iwarp_bed *b)
{
	struct span_list l;
	size_t n, done = 0;

	iwarp_have(b->stream, b->now_ns, &l);
	n = least(least(l.length, b->out_max), b->out_credit);
	if (n == 0)
		return false;
	REQUIRE(!b->is_shut);
	for (uint32_t i = 0; done < n; i++) {
		size_t k = least(l.spans[i].length, n - done);

		pipe_put(&b->out, l.spans[i].bytes, k);
		done += k;
	}
	b->out_credit -= b->out_credit == SIZE_MAX ? 0 : n;
	iwarp_sent(b->stream, b->now_ns, n);
	return true;
}

static bool act(struct iwarp_bed *b)
{
	switch (iwarp_action(b->stream)) {
	case IWARP_NOTHING:
		return false;
	case IWARP_SHUT:
		REQUIRE(!b->is_shut);
		b->is_shut = true;
		return true;
	case IWARP_CLOSE:
		b->is_closed = true;
		break;
	case IWARP_ABORT:
		b->is_aborted = true;
		break;
	}
	iwarp_destroy(b->stream);
	b->stream = NULL;
	return false;
}

void bed_move(struct iwarp_bed *b)
{
	bool has_moved = true;

	while (has_moved) {
		while (adapter_progress(&b->adapter, b->now_ns))
			continue;
		if (!b->stream)
			return;
		while (iwarp_attend(&b->attention))
			continue;
		has_moved = iwarp_due(b->stream) <= b->now_ns;
		if (has_moved)
			iwarp_expire(b->stream, b->now_ns);
		has_moved |= bed_move_in(b, b->in_max);
		has_moved |= move_out(b);
		has_moved |= act(b);
		/* Whatever is new was put on the list, or the owner would not look. */
		has_moved |= !list_is_empty(&b->attention) || !list_is_empty(&b->adapter.ready);
	}
}

void bed_wait(struct iwarp_bed *b, uint64_t ns)
{
	b->now_ns += ns;
	bed_move(b);
}

void bed_eof(struct iwarp_bed *b)
{
	bed_move(b);
	if (b->stream)
		iwarp_eof(b->stream, b->now_ns);
	b->is_eof = true;
	bed_move(b);
}

void bed_lost(struct iwarp_bed *b)
{
	iwarp_lost(b->stream);
	bed_move(b);
}

/* ---- The consumer --------------------------------------------------------------------------- */

uint32_t bed_region(struct iwarp_bed *b, size_t offset, size_t length, uint32_t rights)
{
	const struct mem_owner owner = pd_owner(b->pd);
	const struct weft_region_options options = {
		.addr = addr_of(b, offset),
		.length = length,
		.rights = rights,
	};
	uint32_t tag;

	MUST(mem_region_register(&b->adapter.mem, &owner, &options, &tag));
	return tag;
}

uint32_t bed_region_on_demand(struct iwarp_bed *b, size_t offset, size_t length)
{
	const struct mem_owner owner = pd_owner(b->pd);
	const struct weft_region_options options = {
		.addr = addr_of(b, offset),
		.length = length,
		.rights = ALL_RIGHTS,
		.is_on_demand = true,
	};
	uint32_t tag;

	MUST(mem_region_register(&b->adapter.mem, &owner, &options, &tag));
	return tag;
}

uint32_t bed_window(struct iwarp_bed *b, const struct weft_bind *bind)
{
	struct weft_bind v = *bind;
	uint32_t tag;

	MUST(mem_window_alloc(&b->adapter.mem, b->pd->number, &tag));
	v.window_tag = tag;
	if (v.region_tag == 0)
		v.region_tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
	MUST(mem_window_promise(&b->adapter.mem, b->pd->number, &v));
	MUST(mem_window_bind(&b->adapter.mem, b->pd->number, 0, &v));
	return v.tag;
}

void bed_deregister(struct iwarp_bed *b, uint32_t tag)
{
	MUST(mem_region_deregister(&b->adapter.mem, b->pd->number, tag));
}

enum weft_reason bed_post(struct iwarp_bed *b, struct weft_send_wr *wr)
{
	uint32_t posted;
	enum weft_reason r;

	wr->id = b->posted + 1;
	wr->flags |= WEFT_SIGNALLED;
	r = qp_post_send(b->qp, wr, 1, &posted);
	b->posted += posted;
	bed_move(b);
	return r;
}

void bed_receive(struct iwarp_bed *b, uint32_t tag, size_t offset, uint32_t length)
{
	const struct weft_sge segment = { addr_of(b, offset), length, tag };
	const struct weft_recv_wr wr = {
		.id = b->posted + 1,
		.sges = &segment,
		.sge_count = length > 0,
	};
	uint32_t posted;

	if (b->srq)
		MUST(srq_post(b->srq, &wr, 1, &posted));
	else
		MUST(qp_post_recv(b->qp, &wr, 1, &posted));
	b->posted++;
	bed_move(b);
}

bool bed_poll(struct iwarp_bed *b, struct weft_completion *c)
{
	uint32_t count;

	MUST(cq_poll(b->cq, c, 1, &count));
	b->completed += count;
	return count == 1;
}

void expect_completion(struct iwarp_bed *b, uint64_t id, enum weft_status status,
		       enum weft_reason reason)
{
	struct weft_completion c;

	EXPECT(bed_poll(b, &c));
	EXPECT_EQ(c.id, id);
	EXPECT_STR(weft_reason_name(c.reason), weft_reason_name(reason));
	EXPECT_EQ(c.status, status);
}

void expect_no_completion(struct iwarp_bed *b)
{
	struct weft_completion c;

	EXPECT(!bed_poll(b, &c));
}

bool is_unchanged(const struct iwarp_bed *b)
{
	return memcmp(b->memory, b->shadow, MEMORY_BYTES) == 0;
}

void bed_note(struct iwarp_bed *b)
{
	memcpy(b->shadow, b->memory, MEMORY_BYTES);
}

enum weft_reason bed_event(struct iwarp_bed *b, enum weft_event_kind kind)
{
	struct weft_event e;

	while (event_pop(&b->adapter.events, &e)) {
		if (e.kind == kind)
			return e.reason;
	}
	return WEFT_REASON_COUNT;
}

void bed_modify(struct iwarp_bed *b, enum weft_qp_state state)
{
	MUST(qp_modify(b->qp, &(struct weft_qp_attr){ .state = state }, WEFT_QP_STATE));
	bed_move(b);
}

/* ---- Ends ----------------------------------------------------------------------------------- */

static void expect_failed(struct iwarp_bed *b, enum weft_reason reason)
{
	struct weft_qp_attr attr;

	qp_query(b->qp, &attr);
	EXPECT_STR(weft_reason_name(attr.reason), weft_reason_name(reason));
	EXPECT_EQ(attr.state, WEFT_QPS_ERROR);
	EXPECT_EQ(attr.send_queued, 0);
	EXPECT_EQ(attr.recv_queued, 0);
}

static void expect_headers(struct iwarp_bed *b, const struct rdmap_terminate *t,
			   enum headers headers)
{
	EXPECT_EQ(t->has_length, headers != HEADERS_NONE);
	EXPECT_EQ(t->has_ddp, headers != HEADERS_NONE);
	EXPECT_EQ(t->has_rdma, headers == HEADERS_READ);
	EXPECT_EQ(t->reserved, 0);
	if (headers == HEADERS_NONE)
		return;
	EXPECT_EQ(t->segment_bytes, b->ulpdu_bytes);
	EXPECT_EQ(t->ddp_bytes, b->header_bytes);
	EXPECT_MEM(t->ddp, b->header, t->ddp_bytes);
	if (headers == HEADERS_DDP)
		return;
	EXPECT_EQ(t->read.sink_stag, b->read.sink_stag);
	EXPECT_EQ(t->read.sink_to, b->read.sink_to);
	EXPECT_EQ(t->read.size, b->read.size);
	EXPECT_EQ(t->read.source_stag, b->read.source_stag);
	EXPECT_EQ(t->read.source_to, b->read.source_to);
}

void expect_shut(struct iwarp_bed *b)
{
	size_t length;

	bed_move(b);
	EXPECT_EQ(peer_left(b), 0);
	EXPECT(b->is_shut);
	EXPECT(!b->is_aborted);
	/* Nothing that comes now matters, and nothing more is sent. */
	length = b->out.length;
	if (!b->is_eof) {
		peer_send(b, RDMAP_SEND, 0, "late", 4);
		bed_move(b);
		EXPECT(!b->is_closed);
		bed_eof(b);
	}
	EXPECT(b->is_closed);
	EXPECT_EQ(b->out.length, length);
}

static void expect_end(struct iwarp_bed *b, const struct stream_end *end)
{
	struct rdmap_terminate t;
	const struct frame *f;
	struct rd r;

	bed_move(b);
	expect_failed(b, end->reason);
	EXPECT(is_unchanged(b));
	f = peer_next(b);
	EXPECT(f);
	EXPECT_EQ(f->opcode, RDMAP_TERMINATE);
	EXPECT_EQ(f->u.msn, 1);
	EXPECT_EQ(f->u.mo, 0);
	EXPECT_EQ(f->u.ulp32, 0);
	EXPECT(f->u.is_last);
	r = rd_of(f->payload, f->bytes);
	EXPECT_EQ(rdmap_terminate_decode(&t, &r), RDMAP_OK);
	EXPECT(r.at == r.end);
	EXPECT_EQ(t.layer, end->cause[0]);
	EXPECT_EQ(t.type, end->cause[1]);
	EXPECT_EQ(t.code, end->cause[2]);
	expect_headers(b, &t, end->headers);
	expect_shut(b);
	EXPECT(is_unchanged(b));
}

void expect_refused(struct iwarp_bed *b, const struct stream_end *end)
{
	expect_end(b, end);
	EXPECT_EQ(bed_event(b, WEFT_EVENT_QP_ERROR), end->reason);
}

void expect_terminated(struct iwarp_bed *b, enum weft_reason reason)
{
	expect_end(b, &(struct stream_end){ .reason = reason });
}
