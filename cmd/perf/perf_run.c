/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/perf/perf_end.h"

#include <stdlib.h>
#include <string.h>

#include <weft/roce.h>

#include "cmd/clock.h"

enum {
	POLL_MAX = 64,
	RECVS = 256,	   /* receives that are posted at all times */
	SAMPLES = 1 << 20, /* latencies that are kept */
	ORDER_BYTES = 32,  /* of the message that begins a test */
	ALIGN = 4096,
	TELL_EVERY = 1 << 12 /* rounds between two looks at the clock for the progress line */
};

/* What a request was for, in its id: how many it ends. */
enum { ID_FLOW = 0, ID_WORD = 1 };

/* ---- Opening -------------------------------------------------------------------------------- */

static enum weft_reason open_queues(struct perf_end *e)
{
	const struct weft_cq_options cq = { .entries_max = 2 * PERF_DEPTH_MAX + 2 * RECVS };
	struct weft_qp_options qp = {
		.send_max = PERF_DEPTH_MAX + 16,
		.recv_max = 2 * RECVS,
		.sges_max = 1,
		.inline_max_bytes = PERF_INLINE_MAX,
	};
	enum weft_reason r = weft_cq_create(e->adapter, &cq, &e->cq);

	qp.send_cq = e->cq;
	qp.recv_cq = e->cq;
	return r == WEFT_OK ? weft_qp_create(e->pd, &qp, &e->qp) : r;
}

enum weft_reason perf_open(uint32_t size_max, bool is_roce, struct perf_end **end)
{
	struct perf_end *e = calloc(1, sizeof(*e));
	struct weft_region_options region = {
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ | WEFT_REMOTE_WRITE,
	};
	enum weft_reason r;

	if (!e)
		return WEFT_R_NO_MEMORY;
	e->is_roce = is_roce;
	e->test.batch = PERF_BATCH_MAX;
	e->size_max = (size_max + ALIGN - 1) / ALIGN * ALIGN;
	e->memory = aligned_alloc(ALIGN, 2 * (size_t)e->size_max);
	e->samples = malloc(SAMPLES * sizeof(*e->samples));
	r = e->memory && e->samples ? weft_adapter_open(NULL, &e->adapter) : WEFT_R_NO_MEMORY;
	if (r == WEFT_OK) {
		memset(e->memory, 0, 2 * (size_t)e->size_max);
		region.addr = (uintptr_t)e->memory;
		region.length = 2 * (uint64_t)e->size_max;
		r = weft_pd_create(e->adapter, NULL, &e->pd);
	}
	if (r == WEFT_OK && is_roce) /* queue pairs have the numbers of its place */
		r = weft_roce_open(e->adapter);
	if (r == WEFT_OK)
		r = weft_region_register(e->pd, &region, &e->tag);
	if (r == WEFT_OK)
		r = open_queues(e);
	if (r != WEFT_OK) {
		perf_close(e);
		return r;
	}
	*end = e;
	return WEFT_OK;
}

static void end_cm_id(struct perf_end *e)
{
	if (e->cm_id)
		(void)weft_cm_id_close(e->cm_id);
	e->cm_id = NULL;
}

void perf_close(struct perf_end *e)
{
	end_cm_id(e);
	if (e->qp)
		(void)weft_qp_destroy(e->qp);
	if (e->cq)
		(void)weft_cq_destroy(e->cq);
	if (e->tag)
		(void)weft_region_deregister(e->pd, e->tag);
	if (e->pd)
		(void)weft_pd_destroy(e->pd);
	if (e->adapter)
		(void)weft_adapter_close(e->adapter);
	free(e->memory);
	free(e->samples);
	free(e);
}

enum weft_reason perf_renew(struct perf_end *e)
{
	end_cm_id(e);
	(void)weft_qp_destroy(e->qp);
	(void)weft_cq_destroy(e->cq);
	e->qp = NULL;
	e->cq = NULL;
	e->failure = WEFT_OK;
	e->recvs_spare = 0;
	e->has_order = false;
	return open_queues(e);
}

/* All receives share one buffer: of what comes there, only orders are read. */
static enum weft_reason post_recvs(struct perf_end *e, uint32_t count)
{
	struct weft_recv_wr wrs[PERF_BATCH_MAX];
	enum weft_reason r = WEFT_OK;
	const struct weft_sge into = {
		.addr = (uintptr_t)e->memory + e->size_max,
		.length = e->size_max,
		.tag = e->tag,
	};

	for (uint32_t i = 0; i < e->test.batch; i++)
		wrs[i] = (struct weft_recv_wr){ .sges = &into, .sge_count = 1 };
	while (count > 0 && r == WEFT_OK) {
		uint32_t some = count < e->test.batch ? count : e->test.batch;

		r = weft_qp_post_recv(e->qp, wrs, some, NULL);
		count -= some;
	}
	return r;
}

enum weft_reason perf_end_ready(struct perf_end *e)
{
	const struct weft_qp_attr init = { .state = WEFT_QPS_INIT };
	enum weft_reason r = weft_qp_modify(e->qp, &init, WEFT_QP_STATE);

	return r == WEFT_OK ? post_recvs(e, RECVS) : r;
}

void perf_end_advert(const struct perf_end *e, uint8_t bytes[WEFT_ADVERT_BYTES])
{
	const struct weft_advert mine = {
		.addr = (uintptr_t)e->memory + e->size_max,
		.length = e->size_max,
		.tag = e->tag,
		.rights = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE,
	};

	weft_advert_encode(&mine, bytes);
}

enum weft_reason perf_end_take_advert(struct perf_end *e, const void *bytes, uint32_t length)
{
	return weft_advert_decode(bytes, length, &e->peer) ? WEFT_OK : WEFT_R_BAD_ARGUMENT;
}

enum weft_reason perf_dial(struct perf_end *e, const struct weft_address *to,
			   const struct perf_how *how)
{
	return e->is_roce ? perf_roce_dial(e, to, how) : perf_iwarp_dial(e, to, how);
}

enum weft_reason perf_listen(struct perf_end *e, const struct weft_address *at,
			     const struct perf_how *how, struct perf_door **door)
{
	struct perf_door *d = calloc(1, sizeof(*d));
	enum weft_reason r;

	if (!d)
		return WEFT_R_NO_MEMORY;
	d->end = e;
	d->how = *how;
	r = e->is_roce ? perf_roce_listen(e, at, &d->service)
		       : weft_listener_open(e->adapter, at, NULL, &d->listener);
	if (r != WEFT_OK) {
		free(d);
		return r;
	}
	*door = d;
	return WEFT_OK;
}

enum weft_reason perf_door_address(const struct perf_door *door, struct weft_address *at)
{
	return door->service ? weft_cm_service_address(door->service, at)
			     : weft_listener_address(door->listener, at);
}

void perf_door_close(struct perf_door *door)
{
	if (door->service)
		(void)weft_cm_service_close(door->service);
	else
		(void)weft_listener_close(door->listener);
	free(door);
}

enum weft_reason perf_take(struct perf_door *door)
{
	return door->service ? perf_roce_take(door->end, door) : perf_iwarp_take(door->end, door);
}

/* ---- Moving --------------------------------------------------------------------------------- */

static void take(struct perf_end *e, const struct weft_completion *c)
{
	if (c->status != WEFT_SUCCESS) {
		if (e->failure == WEFT_OK || e->failure == WEFT_R_FLUSHED)
			e->failure = c->reason;
	} else if (c->opcode == WEFT_OP_RECV) {
		e->recvs_spare++;
		if (c->byte_count == 0)
			e->words_received++;
		else if (e->start_ns == 0 || e->words_received == 2)
			e->has_order = true; /* the next test: perhaps before we saw this one end */
		else
			e->received++;
	} else if (c->id != ID_WORD) {
		e->ended += c->id >> 1;
	}
}

/* Takes what has completed, and sees to it that receives are posted. */
static void poll_once(struct perf_end *e)
{
	struct weft_completion c[POLL_MAX];
	uint32_t count;
	enum weft_reason r = weft_cq_poll(e->cq, c, POLL_MAX, &count);

	if (r != WEFT_OK)
		e->failure = r;
	for (uint32_t i = 0; i < count; i++)
		take(e, &c[i]);
	if (e->recvs_spare >= RECVS / 4 && e->failure == WEFT_OK) {
		r = post_recvs(e, e->recvs_spare);
		e->recvs_spare = 0;
		if (r != WEFT_OK)
			e->failure = r;
	}
	if (e->tell && ++e->rounds % TELL_EVERY == 0 && e->start_ns != 0)
		e->tell(e->tell_context, clock_ns() - e->start_ns, e->ended);
}

/* A message beside the flow: of no bytes, or an order. */
static void send_word(struct perf_end *e, uint32_t bytes)
{
	const struct weft_sge s = {
		.addr = (uintptr_t)e->memory,
		.length = bytes,
		.tag = e->tag,
	};
	struct weft_send_wr wr = {
		.id = ID_WORD,
		.opcode = WEFT_OP_SEND,
		.flags = WEFT_INLINE,
		.sges = &s,
		.sge_count = bytes > 0,
	};
	enum weft_reason r = weft_qp_post_send(e->qp, &wr, 1, NULL);

	if (r != WEFT_OK && e->failure == WEFT_OK)
		e->failure = r;
}

static struct weft_send_wr flow_wr(struct perf_end *e, const struct weft_sge *s)
{
	static const enum weft_opcode opcodes[PERF_OPS] = { WEFT_OP_WRITE, WEFT_OP_READ,
							    WEFT_OP_SEND };

	bool is_inline = s->length <= e->test.inline_max && e->test.op != PERF_READ;

	return (struct weft_send_wr){
		.opcode = opcodes[e->test.op],
		.flags = is_inline ? WEFT_INLINE : 0,
		.sges = s,
		.sge_count = 1,
		.remote_addr = e->peer.addr,
		.remote_tag = e->peer.tag,
	};
}

/* Posts so many; the last one's completion ends them all. */
static void post_flow(struct perf_end *e, uint32_t count)
{
	struct weft_send_wr wrs[PERF_BATCH_MAX];
	const struct weft_sge s = {
		.addr = (uintptr_t)e->memory,
		.length = e->test.size,
		.tag = e->tag,
	};

	for (uint32_t i = 0; i < count; i++)
		wrs[i] = flow_wr(e, &s);
	wrs[count - 1].flags |= WEFT_SIGNALLED;
	wrs[count - 1].id = (uint64_t)count << 1 | ID_FLOW;
	for (uint32_t done = 0; done < count && e->failure == WEFT_OK;) {
		uint32_t left = count - done, some = left < e->test.batch ? left : e->test.batch;

		e->failure = weft_qp_post_send(e->qp, &wrs[done], some, NULL);
		done += some;
	}
	e->posted += count;
}

/* Keeps depth messages under way; a completion for each half of them. */
static void feed_flow(struct perf_end *e)
{
	uint32_t half = (e->test.depth + 1) / 2, room;

	half = half < PERF_BATCH_MAX ? half : PERF_BATCH_MAX;
	room = e->test.depth - (uint32_t)(e->posted - e->ended);
	while (room >= half && e->failure == WEFT_OK) {
		post_flow(e, half);
		room -= half;
	}
}

static bool is_sender(const struct perf_end *e, bool is_client)
{
	return !e->test.is_latency && (is_client || e->test.is_both);
}

/* END is sent when this end's own flow is over, and answered when the peer's has come. */
static bool exchange_words(struct perf_end *e, bool is_flow_over)
{
	if (is_flow_over && e->words_sent == 0) {
		send_word(e, 0);
		e->words_sent = 1;
	}
	if (e->words_received > 0 && e->words_sent == 1) {
		send_word(e, 0);
		e->words_sent = 2;
	}
	return e->words_sent == 2 && e->words_received == 2;
}

static void run_flow(struct perf_end *e, bool is_client)
{
	bool is_sending = is_sender(e, is_client), is_over = false;

	while (!is_over && e->failure == WEFT_OK) {
		bool is_due = clock_ns() - e->start_ns >= e->test.duration_ns;

		if (is_sending && !is_due)
			feed_flow(e);
		poll_once(e);
		is_over = exchange_words(
			e, (!is_sending || is_due) && e->posted == e->ended &&
				   (is_client || e->test.is_both || e->words_received > 0));
	}
}

/* ---- Latency -------------------------------------------------------------------------------- */

static void sample(struct perf_end *e, uint64_t ns)
{
	if (e->sample_count < SAMPLES)
		e->samples[e->sample_count++] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

/* The last byte of what the peer writes; it may change at any moment. */
static uint8_t mailbox(const struct perf_end *e)
{
	const volatile uint8_t *last = e->memory + e->size_max + e->test.size - 1;

	return *last;
}

/* Waits for the peer's message number n; false when the peer is through, or something failed. */
static bool await_message(struct perf_end *e, uint64_t n)
{
	for (;;) {
		if (e->test.op == PERF_WRITE ? mailbox(e) == (uint8_t)(n + 1) : e->received > n)
			return true;
		if (e->failure != WEFT_OK || e->words_received > 0)
			return false;
		poll_once(e);
	}
}

static void send_one(struct perf_end *e, uint64_t n)
{
	e->memory[e->test.size - 1] = (uint8_t)(n + 1);
	post_flow(e, 1);
}

static void ping(struct perf_end *e)
{
	uint64_t before = clock_ns(), after;

	for (uint64_t n = 0; before - e->start_ns < e->test.duration_ns; n++) {
		send_one(e, n);
		if (e->test.op == PERF_READ) {
			while (e->ended <= n && e->failure == WEFT_OK)
				poll_once(e);
		} else if (!await_message(e, n)) {
			break;
		}
		if (e->failure != WEFT_OK)
			break;
		after = clock_ns();
		sample(e, e->test.op == PERF_READ ? after - before : (after - before) / 2);
		before = after;
	}
}

static void pong(struct perf_end *e)
{
	if (e->test.op == PERF_READ) /* one-sided: only the end is awaited */
		return;
	for (uint64_t n = 0; await_message(e, n); n++)
		send_one(e, n);
}

static int compare_samples(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void sum_samples(struct perf_end *e, struct perf_result *result)
{
	uint32_t n = e->sample_count;

	if (n == 0)
		return;
	qsort(e->samples, n, sizeof(*e->samples), compare_samples);
	result->least_ns = e->samples[0];
	result->median_ns = e->samples[n / 2];
	result->p99_ns = e->samples[(uint64_t)n * 99 / 100];
	result->most_ns = e->samples[n - 1];
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static void order_encode(const struct perf_test *t, uint8_t *to)
{
	const uint64_t words[ORDER_BYTES / 8] = {
		(uint64_t)t->inline_max << 32 | (uint64_t)t->batch << 16 | (uint64_t)t->op << 8 |
			(uint64_t)t->is_latency << 1 | t->is_both,
		t->size,
		t->depth,
		t->duration_ns,
	};

	for (int i = 0; i < ORDER_BYTES; i++)
		to[i] = (uint8_t)(words[i / 8] >> 8 * (7 - i % 8));
}

static bool order_decode(struct perf_test *t, const uint8_t *from)
{
	uint64_t words[ORDER_BYTES / 8] = { 0 };

	for (int i = 0; i < ORDER_BYTES; i++)
		words[i / 8] = words[i / 8] << 8 | from[i];
	*t = (struct perf_test){
		.op = (enum perf_op)(words[0] >> 8 & 0xff),
		.is_latency = words[0] >> 1 & 1,
		.is_both = words[0] & 1,
		.size = (uint32_t)words[1],
		.depth = (uint32_t)words[2],
		.batch = (uint32_t)(words[0] >> 16 & 0xffff),
		.inline_max = (uint32_t)(words[0] >> 32),
		.duration_ns = words[3],
	};
	return t->op < PERF_OPS && t->size > 0 && t->depth > 0 && t->depth <= PERF_DEPTH_MAX &&
	       t->batch > 0 && t->batch <= PERF_BATCH_MAX && t->inline_max <= PERF_INLINE_MAX;
}

static void begin_test(struct perf_end *e, const struct perf_test *test)
{
	e->test = *test;
	e->posted = e->ended = e->received = 0;
	e->words_sent = e->words_received = 0;
	e->sample_count = 0;
	e->has_order = false;
	memset(e->memory, 0, e->size_max);
	e->memory[e->size_max + test->size - 1] = 0;
}

/* What was carried so far. A port of RoCE counts for all its queue pairs: here there is one. */
static struct weft_traffic traffic_of(struct perf_end *e)
{
	struct weft_traffic t = { 0 };
	struct weft_roce_counts c = { 0 };

	if (!e->is_roce) {
		(void)weft_qp_traffic(e->qp, &t);
		return t;
	}
	(void)weft_roce_query(e->adapter, &c);
	t.frames_in = c.packets_in;
	t.frames_out = c.packets_out;
	t.payload_in = c.payload_in;
	t.payload_out = c.payload_out;
	t.payload_copied = c.payload_in + c.payload_out; /* from packets, and to them */
	t.calls_in = c.calls_in;
	t.calls_out = c.calls_out;
	t.calls_empty = c.calls_empty;
	return t;
}

/* The traffic between two moments. */
static struct weft_traffic traffic_since(const struct weft_traffic *was, struct weft_traffic now)
{
	now.messages_in -= was->messages_in;
	now.messages_out -= was->messages_out;
	now.frames_in -= was->frames_in;
	now.frames_out -= was->frames_out;
	now.bytes_in -= was->bytes_in;
	now.bytes_out -= was->bytes_out;
	now.payload_in -= was->payload_in;
	now.payload_out -= was->payload_out;
	now.payload_copied -= was->payload_copied;
	now.calls_in -= was->calls_in;
	now.calls_out -= was->calls_out;
	now.calls_empty -= was->calls_empty;
	return now;
}

enum weft_reason perf_run(struct perf_end *e, const struct perf_test *test,
			  struct perf_result *result)
{
	struct weft_traffic was;

	begin_test(e, test);
	order_encode(test, e->memory);
	send_word(e, ORDER_BYTES);
	while (!e->has_order && e->failure == WEFT_OK)
		poll_once(e); /* the peer is ready when it says the same */
	was = traffic_of(e);
	e->start_ns = clock_ns();
	if (test->is_latency)
		ping(e);
	run_flow(e, true);
	*result = (struct perf_result){
		.messages = test->is_latency ? e->sample_count : e->ended,
		.elapsed_ns = clock_ns() - e->start_ns,
	};
	e->start_ns = 0;
	result->bytes = result->messages * test->size;
	sum_samples(e, result);
	result->traffic = traffic_since(&was, traffic_of(e));
	return e->failure;
}

enum weft_reason perf_serve(struct perf_end *e)
{
	struct perf_test test;

	while (e->failure == WEFT_OK) {
		while (!e->has_order && e->failure == WEFT_OK)
			poll_once(e);
		if (e->failure != WEFT_OK)
			break;
		if (!order_decode(&test, e->memory + e->size_max) || test.size > e->size_max)
			return WEFT_R_BAD_ARGUMENT;
		begin_test(e, &test);
		order_encode(&test, e->memory);
		e->start_ns = clock_ns();
		send_word(e, ORDER_BYTES);
		if (test.is_latency)
			pong(e);
		run_flow(e, false);
		e->start_ns = 0;
	}
	/* The client has disconnected: that is how a run ends. */
	return e->failure == WEFT_R_FLUSHED ? WEFT_OK : e->failure;
}

void perf_on_progress(struct perf_end *e, perf_tell *tell, void *context)
{
	e->tell = tell;
	e->tell_context = context;
}

const struct weft_address *perf_remote(const struct perf_end *e, bool *has_crc)
{
	*has_crc = e->has_crc;
	return &e->remote;
}
