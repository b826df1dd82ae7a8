/* SPDX-License-Identifier: BSD-2-Clause */
/* What a program's polls cost while nothing comes, and what they do all the same. */
#include "driver/roce/roce.h"
#include "live/near/near_world.h"

enum { POLLS = 2000, POLLS_A_CALL = 100, TIMEOUT_16_MS = 12 };

static void write_once(struct node *from, struct node *to)
{
	const struct weft_sge s = node_seg(from, 0, 8);
	struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, 1, &s, to);
	struct weft_completion c;

	REQUIRE(node_post(from, &wr) && node_take(from->cq, &c));
}

static void connect_both(struct end *a, struct end *b, uint8_t timeout_code)
{
	struct weft_roce_attr way = roce_way(weft_qp_number(b->node.qp));

	way.timeout_code = timeout_code;
	roce_start(a->node.qp, &way);
	way.peer_number = weft_qp_number(a->node.qp);
	roce_start(b->node.qp, &way);
	write_once(&a->node, &b->node);
	write_once(&b->node, &a->node);
}

/* The adapters' threads cannot take part: the locks are held. */
TEST(test_near_polls_in_vain_make_few_system_calls)
{
	struct end a, b;
	uint64_t calls;

	WORLD_OR_SKIP();
	end_open(&a, roce_adapter_open());
	end_open(&b, roce_adapter_open());
	connect_both(&a, &b, 0);
	adapter_enter(b.adapter);
	calls = b.adapter->net->calls_other;
	for (int i = 0; i < POLLS; i++)
		adapter_poll(b.adapter, b.node.cq);
	calls = b.adapter->net->calls_other - calls;
	adapter_leave(b.adapter);
	EXPECT(calls > 0); /* other sockets are looked at now and then */
	EXPECT(calls <= POLLS / POLLS_A_CALL);
	EXPECT_EQ(counts_of(&b).calls_in, 0);
	end_close(&a);
	end_close(&b);
}

/* It would wait at the end of its window until its receiver has all of it, and sleeps. */
TEST(test_near_sender_hears_of_bytes_before_all_are_taken)
{
	enum { WRITES = 4, ALL = WRITES * NODE_BYTES };
	struct end a, b;
	const struct ib_counts *n;
	struct weft_send_wr wr;
	struct weft_sge s;
	struct weft_completion c;
	uint64_t before, once;

	WORLD_OR_SKIP();
	end_open(&a, roce_adapter_open());
	end_open(&b, roce_adapter_open());
	connect_both(&a, &b, 0);
	s = node_seg(&a.node, 0, NODE_BYTES);
	wr = node_wr(WEFT_OP_WRITE, 2, &s, &b.node);
	adapter_enter(b.adapter);
	n = ib_port_counts(roce_of(b.adapter->net)->port);
	before = n->payload_in;
	for (int i = 0; i < WRITES; i++)
		REQUIRE(node_post(&a.node, &wr));
	adapter_enter(a.adapter);
	adapter_work(a.adapter);
	adapter_leave(a.adapter);
	for (once = 0; once == 0; once = n->payload_in - before)
		adapter_poll(b.adapter, b.node.cq);
	EXPECT(once >= ALL / 2 && once < ALL);
	adapter_leave(b.adapter);
	for (int i = 0; i < WRITES; i++)
		REQUIRE(node_take(a.node.cq, &c) && c.id == 2);
	end_close(&a);
	end_close(&b);
}

/* The peer says nothing, and the program polls without a pause: its request is sent again. */
TEST(test_roce_polls_that_read_what_is_hot_keep_deadlines)
{
	struct end a, b;
	const struct ib_counts *n;
	uint64_t since, timeouts, polls = 0;
	struct weft_send_wr wr;
	struct weft_sge s;
	struct weft_completion c;

	WORLD_OR_SKIP();
	end_open(&a, roce_adapter_open_udp());
	end_open(&b, roce_adapter_open_udp());
	connect_both(&a, &b, TIMEOUT_16_MS);
	s = node_seg(&a.node, 0, 8);
	wr = node_wr(WEFT_OP_WRITE, 2, &s, &b.node);
	adapter_enter(b.adapter);
	REQUIRE(node_post(&a.node, &wr));
	adapter_enter(a.adapter);
	n = ib_port_counts(roce_of(a.adapter->net)->port);
	timeouts = n->timeouts;
	for (since = thread_now_ns(); n->timeouts == timeouts; polls++) {
		if (thread_now_ns() - since > PATIENCE_NS)
			break;
		adapter_poll(a.adapter, a.node.cq);
	}
	timeouts = n->timeouts - timeouts;
	adapter_leave(a.adapter);
	adapter_leave(b.adapter);
	EXPECT(timeouts > 0);
	EXPECT(polls > POLLS_A_CALL);
	REQUIRE(node_take(a.node.cq, &c) && c.id == 2);
	end_close(&a);
	end_close(&b);
}
