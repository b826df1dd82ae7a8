/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue pair in one group by two interfaces: it is a member until it has left by both. */
#include <stdlib.h>

#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"

enum { GRH = 40, BY_GROUP = 100, TO_IT_ALONE = 200, MULTICAST = 0xffffff, GROUPS_MOST = 4096 };

static const struct weft_address group = { .family = 4, .ip = { 239, 7, 7, 7 } };
static const struct weft_address other_at = { .family = 4, .ip = { 10, 77, 0, 1 } };

static bool has_other_interface(void)
{
	return system("ip link add weft8 type veth peer name weft9 && "
		      "ip addr add 10.77.0.1/24 dev weft8 && "
		      "ip link set weft9 up && ip link set weft8 up") == 0;
}

static struct weft_qp *datagrams_open(const struct node *n)
{
	const struct weft_qp_options o = {
		.service = WEFT_UD,
		.send_cq = n->cq,
		.recv_cq = n->cq,
	};
	const struct weft_roce_attr way = roce_way(0);
	struct weft_qp *qp;

	MUST(weft_qp_create(n->pd, &o, &qp));
	roce_start(qp, &way);
	return qp;
}

/* As many bytes as say what it is. */
static void send_to(struct weft_qp *qp, const struct node *n, const struct weft_address *to,
		    uint32_t number)
{
	const struct weft_path path = { .from = roce_loopback, .to = *to };
	const struct weft_sge s = node_seg(n, 0, number == MULTICAST ? BY_GROUP : TO_IT_ALONE);
	struct weft_send_wr wr = {
		.opcode = WEFT_OP_SEND,
		.flags = WEFT_SIGNALLED,
		.sges = &s,
		.sge_count = 1,
		.dest_qp_number = number,
	};
	struct weft_completion c;
	struct weft_ah *ah;

	MUST(weft_ah_create(n->pd, &path, &ah));
	wr.ah = ah;
	MUST(weft_qp_post_send(qp, &wr, 1, NULL));
	REQUIRE(node_take(n->cq, &c));
	MUST(weft_ah_destroy(ah));
}

static void receive(struct weft_qp *qp, const struct node *n, uint32_t count)
{
	const struct weft_sge s = node_seg(n, 0, 1024);
	const struct weft_recv_wr wr = { .sges = &s, .sge_count = 1 };

	while (count-- > 0)
		MUST(weft_qp_post_recv(qp, &wr, 1, NULL));
}

static uint64_t next_bytes(const struct node *n)
{
	struct weft_completion c;

	REQUIRE(node_take(n->cq, &c));
	return c.byte_count - GRH;
}

TEST(test_iba_10_5_group_that_cannot_be_joined_is_refused)
{
	const char *why_not = own_network_enter();
	const struct weft_address group6 = { .family = 6, .ip = { 0xff, 0x15, [15] = 7 } };
	struct weft_address next = group;
	enum weft_reason r = WEFT_OK;
	struct weft_adapter *a;
	struct weft_qp *qp;
	struct node n;

	if (why_not)
		SKIP(why_not);
	a = roce_adapter_open();
	node_open(a, &n, NULL);
	qp = datagrams_open(&n);
	EXPECT_EQ(weft_qp_join(qp, &roce_loopback, &roce_loopback), WEFT_R_ADDRESS);
	EXPECT_EQ(weft_qp_join(qp, &group6, &roce_loopback), WEFT_R_ADDRESS);
	next.family = 0;
	EXPECT_EQ(weft_qp_join(qp, &next, &roce_loopback), WEFT_R_ADDRESS);
	next.family = group.family;
	EXPECT_EQ(weft_qp_leave(qp, &group, &roce_loopback), WEFT_R_BAD_ARGUMENT);
	/* The kernel has a limit for each socket (net.ipv4.igmp_max_memberships). */
	for (uint32_t i = 0; i < GROUPS_MOST && r == WEFT_OK; i++) {
		next.ip[2] = (uint8_t)(i >> 8);
		next.ip[3] = (uint8_t)i;
		r = weft_qp_join(qp, &next, &roce_loopback);
	}
	EXPECT_EQ(r, WEFT_R_LIMIT);
	MUST(weft_qp_destroy(qp));
	node_close(&n, NULL);
	MUST(weft_adapter_close(a));
}

TEST(test_ud_01_a_group_joined_by_two_interfaces_is_left_by_both)
{
	const char *why_not = own_network_enter();
	struct weft_adapter *a, *b;
	struct weft_qp *from, *to;
	struct node near, far;

	if (why_not)
		SKIP(why_not);
	if (!has_other_interface())
		SKIP("ip cannot make a second interface");
	a = roce_adapter_open();
	b = roce_adapter_open();
	node_open(a, &near, NULL);
	node_open(b, &far, NULL);
	from = datagrams_open(&near);
	to = datagrams_open(&far);
	receive(to, &far, 3);
	MUST(weft_qp_join(to, &group, &roce_loopback));
	MUST(weft_qp_join(to, &group, &other_at));
	MUST(weft_qp_leave(to, &group, &other_at));
	EXPECT_EQ(weft_qp_leave(to, &group, &other_at), WEFT_R_BAD_ARGUMENT);
	send_to(from, &near, &group, MULTICAST);
	send_to(from, &near, &roce_loopback, weft_qp_number(to));
	EXPECT_EQ(next_bytes(&far), BY_GROUP);
	EXPECT_EQ(next_bytes(&far), TO_IT_ALONE);
	/* By the last one it has left: only what is for it alone comes. */
	MUST(weft_qp_leave(to, &group, &roce_loopback));
	send_to(from, &near, &group, MULTICAST);
	send_to(from, &near, &roce_loopback, weft_qp_number(to));
	EXPECT_EQ(next_bytes(&far), TO_IT_ALONE);
	MUST(weft_qp_destroy(from));
	MUST(weft_qp_destroy(to));
	node_close(&near, NULL);
	node_close(&far, NULL);
	MUST(weft_adapter_close(a));
	MUST(weft_adapter_close(b));
}
