/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two senders share a link of 10 Gb/s behind a switch that marks packets when its queue grows, and
 * drops them when it is full:
 *
 *	sender 0 --\
 *	            switch == 10 Gb/s ==> receiver
 *	sender 1 --/
 *
 * Each end is a port of its own; time goes on by microseconds. What comes back is not congested.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "ib/ib.h"
#include "loopback/loopback.h"
#include "test.h"
#include "wire/iba_icrc.h"

enum {
	MTU = 1024,
	PACKET_BYTES = MTU + 128,
	HEADERS = 42,
	LINK_BYTES_PER_US = 1250,
	DELAY_US = 5,
	QUEUE_BYTES = 200 * 1000,
	MARK_BYTES = 50 * 1000,
	RING = 8192,
	MESSAGE = 64 * MTU,
	DEPTH = 16,
	SENDERS = 2,
	RECEIVER = SENDERS,
	US = 1000
};

struct flight {
	uint64_t at_us;
	int to;
	struct inet_end from, dest;
	uint8_t ecn;
	uint32_t length;
	uint8_t bytes[PACKET_BYTES];
};

struct ring {
	struct flight *flights;
	uint32_t first, count, bytes;
};

struct net_host {
	struct adapter adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct ib_port *port;
	uint8_t *memory;
	uint32_t tag;
	struct weft_qp *qps[SENDERS];
	struct ib_conn *conns[SENDERS];
	uint64_t done; /* bytes that were acknowledged */
};

static struct net {
	struct net_host ends[SENDERS + 1];
	struct ring queue, forth, back;
	uint64_t now_us, budget, dropped, carried;
	uint32_t mark_bytes;
	bool is_sending[SENDERS];
} net;

/* ---- Packets -------------------------------------------------------------------------------- */

static struct flight *ring_add(struct ring *r)
{
	CHECK(r->count < RING);
	return &r->flights[(r->first + r->count++) % RING];
}

static struct flight *ring_first(struct ring *r)
{
	return r->count > 0 ? &r->flights[r->first] : NULL;
}

static void ring_pop(struct ring *r)
{
	r->first = (r->first + 1) % RING;
	r->count--;
}

static int end_of(const struct inet_end *at)
{
	return at->address[3] - 1;
}

static void put(struct flight *f, const struct ib_out *out)
{
	f->to = end_of(&out->path->to);
	f->from = out->path->from;
	f->dest = out->path->to;
	f->ecn = out->ecn;
	f->length = 0;
	for (uint32_t i = 0; i < out->spans.count; i++) {
		memcpy(f->bytes + f->length, out->spans.spans[i].bytes, out->spans.spans[i].length);
		f->length += (uint32_t)out->spans.spans[i].length;
	}
}

/* The switch: marks, drops, or queues. */
static void switch_take(const struct ib_out *out)
{
	uint32_t bytes = (uint32_t)out->spans.length + HEADERS;
	struct flight *f;

	net.carried++;
	if (net.queue.bytes + bytes > QUEUE_BYTES) {
		net.dropped++;
		return;
	}
	f = ring_add(&net.queue);
	put(f, out);
	if (net.queue.bytes > net.mark_bytes && f->ecn != IB_ECN_NOT)
		f->ecn = IB_ECN_CE;
	net.queue.bytes += bytes;
}

static void switch_run(void)
{
	struct flight *f;

	net.budget += LINK_BYTES_PER_US;
	while ((f = ring_first(&net.queue)) && net.budget >= f->length + HEADERS) {
		struct flight *to = ring_add(&net.forth);

		net.budget -= f->length + HEADERS;
		net.queue.bytes -= f->length + HEADERS;
		*to = *f;
		to->at_us = net.now_us + DELAY_US;
		ring_pop(&net.queue);
	}
	if (!f)
		net.budget = 0;
}

static void deliver(struct ring *r)
{
	struct flight *f;

	while ((f = ring_first(r)) && f->at_us <= net.now_us) {
		const struct ib_in in = { .bytes = f->bytes,
					  .length = f->length,
					  .from = f->from,
					  .to = f->dest,
					  .is_ipv4_word_known = true,
					  .ipv4_fragment = IBA_IPV4_DF,
					  .traffic_class = f->ecn };

		(void)ib_port_recv(net.ends[f->to].port, net.now_us * US, &in);
		ring_pop(r);
	}
}

/* ---- Ends ----------------------------------------------------------------------------------- */

static void end_open(struct net_host *e)
{
	const struct adapter_config ac = {
		.options = { .tags_max = 32, .translations_max = 256, .qps_max = 8 },
	};
	const struct weft_cq_options co = { .entries_max = 256 };

	e->memory = aligned_alloc(4096, MESSAGE);
	REQUIRE(e->memory);
	memset(e->memory, 7, MESSAGE);
	MUST(adapter_init(&e->adapter, &ac));
	MUST(pd_create(&e->adapter, &(struct weft_pd_options){ .is_privileged = true }, &e->pd));
	MUST(cq_create(&e->adapter, &co, &e->cq));
	const struct mem_owner owner = pd_owner(e->pd);
	const struct weft_region_options ro = { .addr = (uintptr_t)e->memory,
						.length = MESSAGE,
						.rights = 0x1f };
	MUST(mem_region_register(&e->adapter.mem, &owner, &ro, &e->tag));
	e->port = ib_port_create(&(struct ib_port_config){ .adapter = &e->adapter });
	REQUIRE(e->port);
}

static struct ib_config config_of(int from, int to, uint32_t peer_qp)
{
	struct ib_config k = {
		.path = { .mtu_bytes = MTU,
			  .from = { { 10, 0, 0, (uint8_t)(1 + from) }, (uint16_t)(0xc000 + from) },
			  .to = { { 10, 0, 0, (uint8_t)(1 + to) }, IBA_UDP_PORT } },
		.peer_qp = peer_qp,
		.timeout_code = 14,
		.retries = 7,
		.rnr_retries = 7,
	};

	return k;
}

static void connect(int sender)
{
	struct net_host *a = &net.ends[sender], *b = &net.ends[RECEIVER];
	const struct weft_qp_options ao = { .send_cq = a->cq, .recv_cq = a->cq };
	const struct weft_qp_options bo = { .send_cq = b->cq, .recv_cq = b->cq };

	MUST(qp_create(a->pd, &ao, &loopback_transport, &a->qps[0]));
	MUST(qp_create(b->pd, &bo, &loopback_transport, &b->qps[sender]));
	const struct ib_config ka = config_of(sender, RECEIVER, b->qps[sender]->number);
	const struct ib_config kb = config_of(RECEIVER, sender, a->qps[0]->number);
	MUST(ib_create(a->port, a->qps[0], &ka, &a->conns[0]));
	MUST(ib_create(b->port, b->qps[sender], &kb, &b->conns[sender]));
	MUST(ib_start(a->conns[0], &ka));
	MUST(ib_start(b->conns[sender], &kb));
}

static void net_open(uint32_t mark_bytes)
{
	struct ring *rings[] = { &net.queue, &net.forth, &net.back };

	net = (struct net){ .mark_bytes = mark_bytes };
	for (int i = 0; i < 3; i++) {
		rings[i]->flights = malloc(RING * sizeof(struct flight));
		REQUIRE(rings[i]->flights);
	}
	for (int i = 0; i <= SENDERS; i++)
		end_open(&net.ends[i]);
	for (int i = 0; i < SENDERS; i++)
		connect(i);
}

static void net_close(void)
{
	for (int i = 0; i <= SENDERS; i++) {
		struct net_host *e = &net.ends[i];

		for (int n = 0; n < SENDERS; n++) {
			if (!e->qps[n])
				continue;
			qp_destroy(e->qps[n]);
			ib_destroy(e->conns[n]);
		}
		ib_port_destroy(e->port);
		MUST(mem_region_deregister(&e->adapter.mem, e->pd->number, e->tag));
		MUST(cq_destroy(e->cq));
		MUST(pd_destroy(e->pd));
		MUST(adapter_fini(&e->adapter));
		free(e->memory);
	}
	free(net.queue.flights);
	free(net.forth.flights);
	free(net.back.flights);
}

/* Keeps so many Writes in the queue. */
static void work(struct net_host *e)
{
	const struct weft_sge s = { (uintptr_t)e->memory, MESSAGE, e->tag };
	struct net_host *r = &net.ends[RECEIVER];
	struct weft_completion c[DEPTH];
	uint32_t count, posted;

	MUST(cq_poll(e->cq, c, DEPTH, &count));
	for (uint32_t i = 0; i < count; i++)
		REQUIRE(c[i].status == WEFT_SUCCESS);
	e->done += (uint64_t)count * MESSAGE;
	while (e->qps[0]->sq.count < DEPTH) {
		struct weft_send_wr wr = { .opcode = WEFT_OP_WRITE,
					   .flags = WEFT_SIGNALLED,
					   .sges = &s,
					   .sge_count = 1,
					   .remote_addr = (uintptr_t)r->memory,
					   .remote_tag = r->tag };

		MUST(qp_post_send(e->qps[0], &wr, 1, &posted));
	}
}

static void end_run(int i)
{
	struct net_host *e = &net.ends[i];
	uint64_t now_ns = net.now_us * US;
	struct ib_out out = { .ipv4_id = 0 };

	if (ib_port_due(e->port) <= now_ns)
		ib_port_expire(e->port, now_ns);
	while (adapter_progress(&e->adapter, now_ns))
		;
	while (ib_port_send(e->port, now_ns, &out)) {
		if (i != RECEIVER) {
			switch_take(&out);
		} else {
			struct flight *f = ring_add(&net.back);

			put(f, &out);
			f->at_us = net.now_us + DELAY_US;
		}
	}
}

static void net_run(uint64_t us)
{
	for (uint64_t end = net.now_us + us; net.now_us < end; net.now_us++) {
		deliver(&net.forth);
		deliver(&net.back);
		for (int i = 0; i < SENDERS; i++) {
			if (net.is_sending[i])
				work(&net.ends[i]);
		}
		for (int i = 0; i <= SENDERS; i++)
			end_run(i);
		switch_run();
	}
}

/* How much each sent in a time. */
static void measure(uint64_t us, uint64_t bytes[SENDERS])
{
	for (int i = 0; i < SENDERS; i++)
		bytes[i] = net.ends[i].done;
	net.dropped = net.carried = 0;
	net_run(us);
	for (int i = 0; i < SENDERS; i++)
		bytes[i] = net.ends[i].done - bytes[i];
}

static bool are_alike(const uint64_t bytes[SENDERS])
{
	return bytes[0] * 2 < bytes[1] * 3 && bytes[1] * 2 < bytes[0] * 3;
}

static uint64_t percent(const uint64_t bytes[SENDERS], uint64_t us)
{
	return (bytes[0] + bytes[1]) * 100 / (us * LINK_BYTES_PER_US);
}

/* RC-04: both have their share, the link is busy, and little is lost. */
TEST(test_rc_04_two_senders_share_a_link_that_marks)
{
	uint64_t bytes[SENDERS];

	net_open(MARK_BYTES);
	net.is_sending[0] = net.is_sending[1] = true;
	net_run(10 * 1000);
	measure(40 * 1000, bytes);
	EXPECT(are_alike(bytes));
	EXPECT(percent(bytes, 40 * 1000) >= 80);
	EXPECT(net.dropped * 1000 < net.carried);
	EXPECT(ib_port_counts(net.ends[0].port)->notices_in > 0);
	EXPECT(ib_port_counts(net.ends[1].port)->notices_in > 0);
	net_close();
}

/* One that comes later gets its share too, and gives it back when it stops. */
TEST(test_rc_04_a_sender_that_comes_later)
{
	uint64_t bytes[SENDERS];

	net_open(MARK_BYTES);
	net.is_sending[0] = true;
	net_run(10 * 1000);
	measure(10 * 1000, bytes);
	EXPECT(percent(bytes, 10 * 1000) >= 85);
	net.is_sending[1] = true;
	net_run(30 * 1000);
	measure(40 * 1000, bytes);
	EXPECT(are_alike(bytes));
	EXPECT(net.dropped * 1000 < net.carried);
	net.is_sending[1] = false;
	net_run(30 * 1000);
	measure(10 * 1000, bytes);
	EXPECT_EQ(bytes[1], 0);
	EXPECT(percent(bytes, 10 * 1000) >= 85);
	net_close();
}

/* What it would be like without marks: so the switch above is a narrow one. */
TEST(test_rc_04_without_marks_much_is_lost)
{
	uint64_t bytes[SENDERS];

	net_open(QUEUE_BYTES);
	net.is_sending[0] = net.is_sending[1] = true;
	net_run(10 * 1000);
	measure(20 * 1000, bytes);
	EXPECT(net.dropped * 100 > net.carried);
	EXPECT_EQ(ib_port_counts(net.ends[0].port)->notices_in, 0);
	net_close();
}
