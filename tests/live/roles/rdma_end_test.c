/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections of roles: the same on both wires. */
#include "roles/rdma_end.h"

#include <string.h>

#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"

enum { CLIENT, SERVER, SIDES, MESSAGE = 100 };

static const char question[] = "question", answer[] = "and an answer";

struct side {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	struct rdma_end end;
	uint8_t memory[MESSAGE];
	uint32_t tag;
};

static struct side sides[SIDES];
static struct rdma_listener listener;
static struct rdma_object *requested; /* by the latest event */

static void side_open(struct side *s, enum rdma_wire wire)
{
	const struct weft_cq_options cq = { .entries_max = 16 };
	const struct weft_region_options region = { .addr = (uintptr_t)s->memory,
						    .length = MESSAGE,
						    .rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE };
	struct weft_qp_options qp = { .context = &s->end.object };

	memset(s, 0, sizeof(*s));
	MUST(weft_adapter_open(&node_tables, &s->adapter));
	if (wire == RDMA_ROCE)
		MUST(weft_roce_open(s->adapter));
	MUST(weft_pd_create(s->adapter, NULL, &s->pd));
	MUST(weft_cq_create(s->adapter, &cq, &s->cq));
	MUST(weft_region_register(s->pd, &region, &s->tag));
	rdma_end_init(&s->end, wire);
	qp.send_cq = qp.recv_cq = s->cq;
	MUST(weft_qp_create(s->pd, &qp, &s->qp));
}

static void side_close(struct side *s)
{
	rdma_end_close(&s->end);
	MUST(weft_qp_destroy(s->qp));
	MUST(weft_region_deregister(s->pd, s->tag));
	MUST(weft_cq_destroy(s->cq));
	MUST(weft_pd_destroy(s->pd));
	MUST(weft_adapter_close(s->adapter));
}

static void both_open(enum rdma_wire wire)
{
	struct weft_address at = roce_loopback;

	at.port = 0;
	for (int i = 0; i < SIDES; i++)
		side_open(&sides[i], wire);
	MUST(rdma_listener_open(&listener, sides[SERVER].adapter, wire, &at));
	requested = NULL;
}

static void both_close(void)
{
	rdma_listener_close(&listener);
	for (int i = 0; i < SIDES; i++)
		side_close(&sides[i]);
}

/* Hands on the events of both adapters. */
static void pass_events(void)
{
	struct weft_event event;
	bool has_event;

	for (int i = 0; i < SIDES; i++) {
		struct rdma_object *object;

		MUST(weft_event_next(sides[i].adapter, 0, &event, &has_event));
		object = has_event ? event.context : NULL;
		if (object && object->kind == RDMA_END)
			(void)rdma_end_event(&sides[i].end, &event);
		else if (object)
			requested = object;
	}
}

static void await(struct side *s, enum rdma_state state)
{
	uint64_t since = thread_now_ns();

	while (s->end.state != state) {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		pass_events();
	}
}

static void dial(const struct weft_address *to)
{
	const struct rdma_terms terms = { .private_data = question,
					  .private_bytes = sizeof(question),
					  .reads_in = 4,
					  .reads_out = 3 };

	MUST(rdma_end_dial(&sides[CLIENT].end, sides[CLIENT].adapter, sides[CLIENT].qp, to,
			   &terms));
}

static void await_request(struct rdma_request *request)
{
	uint64_t since = thread_now_ns();
	struct weft_address at;

	MUST(rdma_listener_address(&listener, &at));
	dial(&at);
	while (!requested) {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		pass_events();
	}
	EXPECT(requested == &listener.object);
	REQUIRE(rdma_listener_next(&listener, request));
	EXPECT(request->peer.private_bytes >= sizeof(question));
	EXPECT(memcmp(request->peer.private_data, question, sizeof(question)) == 0);
}

static void connect_both(void)
{
	const struct rdma_terms terms = { .private_data = answer,
					  .private_bytes = sizeof(answer),
					  .reads_in = 2,
					  .reads_out = 8 };
	struct rdma_request request;

	await_request(&request);
	MUST(rdma_request_accept(&request, &sides[SERVER].end, sides[SERVER].qp, &terms));
	await(&sides[CLIENT], RDMA_UP);
}

static void exchange(enum rdma_wire wire)
{
	const struct rdma_peer *peer = &sides[CLIENT].end.peer;
	struct weft_completion c;

	both_open(wire);
	connect_both();
	EXPECT(peer->private_bytes >= sizeof(answer));
	EXPECT(memcmp(peer->private_data, answer, sizeof(answer)) == 0);
	EXPECT_EQ(peer->reads_out, 2);
	for (int i = 0; i < SIDES; i++) {
		struct weft_sge sge = { .addr = (uintptr_t)sides[!i].memory,
					.length = MESSAGE,
					.tag = sides[!i].tag };
		struct weft_recv_wr recv = { .sges = &sge, .sge_count = 1 };
		struct weft_send_wr send = { .opcode = WEFT_OP_SEND, .flags = WEFT_SIGNALLED };
		struct weft_sge from = { .addr = (uintptr_t)sides[i].memory,
					 .length = MESSAGE,
					 .tag = sides[i].tag };

		memset(sides[i].memory, 'a' + i, MESSAGE);
		MUST(weft_qp_post_recv(sides[!i].qp, &recv, 1, NULL));
		send.sges = &from;
		send.sge_count = 1;
		MUST(weft_qp_post_send(sides[i].qp, &send, 1, NULL));
		REQUIRE(node_take(sides[!i].cq, &c));
		EXPECT_EQ(sides[!i].memory[MESSAGE - 1], 'a' + i);
		REQUIRE(node_take(sides[i].cq, &c));
	}
	await(&sides[SERVER], RDMA_UP);
	EXPECT_EQ(sides[SERVER].end.peer.reads_out, 4);
	rdma_end_close(&sides[CLIENT].end);
	await(&sides[SERVER], RDMA_DOWN);
	EXPECT_EQ(sides[SERVER].end.reason, WEFT_R_PEER_GONE);
	both_close();
}

static void hear_of_a_rejection(enum rdma_wire wire)
{
	struct rdma_request request;

	both_open(wire);
	await_request(&request);
	rdma_request_reject(&request);
	await(&sides[CLIENT], RDMA_DOWN);
	EXPECT_EQ(sides[CLIENT].end.reason, WEFT_R_CONNECT_REJECTED);
	both_close();
}

static void hear_that_nobody_listens(enum rdma_wire wire)
{
	struct weft_address at;

	both_open(wire);
	MUST(rdma_listener_address(&listener, &at));
	rdma_listener_close(&listener);
	dial(&at);
	await(&sides[CLIENT], RDMA_DOWN);
	EXPECT(sides[CLIENT].end.reason != WEFT_OK);
	both_close();
}

/* By RoCE no socket has the address: it could wait for ever for what never comes. */
static void refuse_the_address_of_another_host(enum rdma_wire wire)
{
	const struct weft_address at = { .family = 4, .ip = { 192, 0, 2, 99 }, .port = 7480 };
	struct rdma_listener other;

	both_open(wire);
	EXPECT_EQ(rdma_listener_open(&other, sides[SERVER].adapter, wire, &at), WEFT_R_ADDRESS);
	rdma_listener_close(&other);
	both_close();
}

static void on(enum rdma_wire wire, void (*check)(enum rdma_wire wire))
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	check(wire);
}

TEST(test_rdma_ends_of_iwarp_bring_what_they_say)
{
	on(RDMA_IWARP, exchange);
}

TEST(test_rdma_ends_of_roce_bring_what_they_say)
{
	on(RDMA_ROCE, exchange);
}

TEST(test_rdma_ends_of_iwarp_hear_of_a_rejection)
{
	on(RDMA_IWARP, hear_of_a_rejection);
}

TEST(test_rdma_ends_of_roce_hear_of_a_rejection)
{
	on(RDMA_ROCE, hear_of_a_rejection);
}

TEST(test_rdma_ends_of_iwarp_hear_that_nobody_listens)
{
	on(RDMA_IWARP, hear_that_nobody_listens);
}

TEST(test_rdma_ends_of_roce_hear_that_nobody_listens)
{
	on(RDMA_ROCE, hear_that_nobody_listens);
}

TEST(test_rdma_listeners_of_iwarp_refuse_the_address_of_another_host)
{
	on(RDMA_IWARP, refuse_the_address_of_another_host);
}

TEST(test_rdma_listeners_of_roce_refuse_the_address_of_another_host)
{
	on(RDMA_ROCE, refuse_the_address_of_another_host);
}
