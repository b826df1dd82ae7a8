/* SPDX-License-Identifier: BSD-2-Clause */
/* Flows: packets of connected queue pairs come to their adapter without help. */
#include "udp_fixture.h"

enum { QPS = 32, ROUND = 8 };

static struct udp_side a, b, c;
static struct udp_side *all[] = { &a, &b, &c };
static struct ib_out outs[MADE_MAX];
static struct ib_path paths[QPS];
static struct udp_flow_ref ears[QPS];

static void open_all(void)
{
	for (int i = 0; i < 3; i++)
		side_open(all[i]);
}

static void close_all(void)
{
	for (int i = 0; i < 3; i++)
		side_close(all[i]);
}

static uint32_t our_qp(uint32_t i)
{
	return b.adapter_slot << 16 | i;
}

static uint32_t peer_qp(uint32_t i)
{
	return a.adapter_slot << 16 | i;
}

static void send_of_each(uint32_t psn, uint16_t port_change)
{
	for (uint32_t i = 0; i < QPS; i++) {
		paths[i] = path_of("127.0.0.1", "127.0.0.1",
				   udp_source_port(peer_qp(i), our_qp(i)) ^ port_change);
		make(&outs[i], &(struct making){ .path = &paths[i],
						 .dest_qp = our_qp(i),
						 .psn = psn,
						 .payload_bytes = 64 });
	}
	side_send(&a, outs, QPS);
}

static uint64_t handed(void)
{
	return udp_counts(a.udp)->handed_on + udp_counts(b.udp)->handed_on +
	       udp_counts(c.udp)->handed_on;
}

static bool all_came(uint32_t rounds)
{
	for (uint32_t i = 0; i < b.count; i++) {
		if (!b.seen[i].is_good || b.seen[i].psn != i / QPS)
			return false;
	}
	return b.count == rounds * QPS;
}

TEST(test_udp_flow_is_preferred_by_the_kernel)
{
	WORLD_OR_SKIP();
	open_all();
	for (uint32_t i = 0; i < QPS; i++) {
		const struct ib_path mine = path_of("127.0.0.1", "127.0.0.1", 0);

		udp_flow_open(b.udp, &mine, our_qp(i), peer_qp(i), &ears[i]);
		EXPECT(ears[i].flow != NULL);
	}
	/* Those of one lane share one. */
	EXPECT(ears[1].flow == ears[17].flow && ears[1].flow != ears[2].flow);
	for (uint32_t round = 0; round < ROUND; round++) {
		send_of_each(round, 0);
		sides_pump(all, 3);
	}
	EXPECT(all_came(ROUND));
	EXPECT_EQ(handed(), 0);
	/* One that binds later changes nothing. */
	side_close(&c);
	side_open(&c);
	send_of_each(ROUND, 0);
	sides_pump(all, 3);
	EXPECT(all_came(ROUND + 1));
	EXPECT_EQ(handed(), 0);
	/* A flow goes with the last that has a part in it. */
	for (uint32_t i = 0; i < 16; i++)
		udp_flow_close(b.udp, &ears[i]);
	send_of_each(ROUND + 1, 0);
	sides_pump(all, 3);
	EXPECT_EQ(handed(), 0);
	for (uint32_t i = 16; i < QPS; i++)
		udp_flow_close(b.udp, &ears[i]);
	send_of_each(ROUND + 2, 0);
	sides_pump(all, 3);
	EXPECT(all_came(ROUND + 3));
	EXPECT(handed() > 0);
	close_all();
}

/* What the peer sent before the flow was opened comes first. */
TEST(test_udp_late_flow_keeps_the_order)
{
	const struct ib_path mine = path_of("127.0.0.1", "127.0.0.1", 0);
	struct udp_flow_ref flow_ref;

	WORLD_OR_SKIP();
	side_open(&a);
	a.adapter_slot = 9; /* as if it were elsewhere: b alone has the port */
	side_open(&b);
	for (uint32_t i = 0; i < 40; i++) {
		struct ib_path path = path_of("127.0.0.1", "127.0.0.1",
					      udp_source_port(peer_qp(0), our_qp(0)));

		if (i == 20)
			udp_flow_open(b.udp, &mine, our_qp(0), peer_qp(0), &flow_ref);
		make(&outs[0],
		     &(struct making){
			     .path = &path, .dest_qp = our_qp(0), .psn = i, .payload_bytes = 64 });
		side_send(&a, outs, 1);
		if (i == 19) { /* whatever the kernel gave to a lies with b now */
			struct udp_side *one[] = { &a };

			sides_pump(one, 1);
		}
	}
	EXPECT(side_await(&b, 40));
	for (uint32_t i = 0; i < 40; i++)
		EXPECT_EQ(b.seen[i].psn, i);
	udp_flow_close(b.udp, &flow_ref);
	side_close(&a);
	side_close(&b);
}

/* A peer that chooses its source ports itself. */
TEST(test_udp_flow_is_learned)
{
	uint64_t before;

	WORLD_OR_SKIP();
	open_all();
	for (uint32_t i = 0; i < QPS; i++) {
		const struct ib_path mine = path_of("127.0.0.1", "127.0.0.1", 0);

		udp_flow_open(b.udp, &mine, our_qp(i), peer_qp(i), &ears[i]);
	}
	/* Of one queue pair alone: all that comes is its. */
	b.learning = &ears[0];
	for (uint32_t round = 0; round < ROUND; round++) {
		struct ib_path path = path_of("127.0.0.1", "127.0.0.1", 0xd001);

		before = handed();
		make(&outs[0], &(struct making){ .path = &path,
						 .dest_qp = our_qp(0),
						 .psn = round,
						 .payload_bytes = 64 });
		side_send(&a, outs, 1);
		sides_pump(all, 3);
		EXPECT(b.count == round + 1 && b.seen[round].psn == round);
	}
	EXPECT_EQ(handed(), before);
	EXPECT(ears[0].flow != ears[16].flow);
	b.learning = NULL;
	close_all();
}

/* UD has no flows at first: senders whose packets are often handed on get them. */
TEST(test_udp_handing_on_ends_by_itself)
{
	enum { SOURCES = 8, MANY = 40 };
	uint64_t before = 0;

	WORLD_OR_SKIP();
	open_all();
	for (uint32_t i = 0; i < MANY; i++) {
		for (uint32_t k = 0; k < SOURCES; k++) {
			struct ib_path path = path_of("127.0.0.1", "127.0.0.1",
						      (uint16_t)(0xc100 + k));

			make(&outs[0], &(struct making){ .path = &path,
							 .dest_qp = our_qp(k),
							 .psn = i,
							 .payload_bytes = 64 });
			side_send(&a, outs, 1);
			sides_pump(all, 3);
		}
		if (i == 20)
			before = handed();
	}
	EXPECT_EQ(b.count, MANY * SOURCES);
	EXPECT(before > 0);
	EXPECT_EQ(handed(), before);
	close_all();
}
