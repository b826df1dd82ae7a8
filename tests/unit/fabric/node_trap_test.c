/* SPDX-License-Identifier: BSD-2-Clause */
/* What nodes tell their subnet manager on their own, and for how long. */
#include "unit/fabric/node_bed.h"

#include <string.h>

#include "test.h"

static const uint8_t by_1[] = { 1 }, to_far[] = { 1, 2 };

enum { SECOND = 1000000000, MS = 1000000 };

static struct sm_notice notice_of(const struct smp *s)
{
	union sm_value v;

	REQUIRE(s->mad.method == MAD_TRAP && s->mad.attribute == SM_NOTICE);
	REQUIRE(mad_layout_decode(sm_layout(SM_NOTICE), &v, s->data) == WEFT_OK);
	return v.notice;
}

/* The traps that come to the subnet manager now. */
static uint32_t come(struct node_bed *b, uint16_t trap, struct sm_notice *last)
{
	uint32_t count = 0;

	b->came_count = 0;
	node_bed_settle(b);
	for (uint32_t i = 0; i < b->came_count; i++) {
		struct smp s = node_bed_smp_of(b->came[i].bytes, b->came[i].length);
		struct sm_notice notice = notice_of(&s);

		REQUIRE(b->came[i].node == 0 && b->came[i].port == 1);
		if (notice.trap != trap)
			continue;
		count++;
		*last = notice;
	}
	return count;
}

static void repress(struct node_bed *b, uint16_t lid, uint64_t tid)
{
	struct smp s = node_bed_smp(MAD_TRAP_REPRESS, SM_NOTICE, 0);
	uint8_t bytes[IBA_FRAME_MAX];

	s.mad.tid = tid;
	node_bed_post(b, 0, 1, bytes, node_bed_frame(bytes, &s, 1, lid));
}

static uint16_t u16_at(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

TEST(test_iba_14_2_5_1_trap_128_tells_that_a_link_of_a_switch_changed)
{
	struct node_bed *b = node_bed_star();
	struct sm_notice notice;
	union sm_value v;

	node_bed_manage(b);
	EXPECT_EQ(come(b, 128, &notice), 0);
	fabric_node_part(&b->nodes[1], 2, b->now_ns);
	fabric_node_part(&b->nodes[2], 1, b->now_ns);
	EXPECT_EQ(come(b, 128, &notice), 1);
	EXPECT(notice.is_generic && notice.type == 1 && notice.producer == SM_NODE_SWITCH);
	EXPECT(notice.issuer == 2 && u16_at(notice.details) == 2);
	EXPECT_EQ(b->nodes[1].ports[2].counts.link_downed, 1);
	EXPECT_EQ(b->nodes[1].ports[2].info.state, SM_PORT_DOWN);
	EXPECT_EQ(node_bed_get(b, node_bed_route(node_bed_smp(MAD_GET, SM_SWITCH_INFO, 0), 1, by_1),
			       &v),
		  0);
	EXPECT_EQ(v.switch_info.port_state_change, 1);
	EXPECT_EQ(node_bed_set(b, node_bed_route(node_bed_smp(MAD_SET, SM_SWITCH_INFO, 0), 1, by_1),
			       &v),
		  0);
	EXPECT_EQ(v.switch_info.port_state_change, 0);
	node_bed_close(b);
}

/* IBA 13.4.9: again and again until it is repressed, not more often than every SubnetTimeOut. */
TEST(test_iba_13_4_9_a_trap_is_repeated_until_it_is_repressed)
{
	struct node_bed *b = node_bed_star();
	struct sm_notice notice;
	uint64_t due, tid;

	node_bed_manage(b);
	fabric_node_part(&b->nodes[1], 2, b->now_ns);
	EXPECT_EQ(fabric_node_due(&b->nodes[1]), 0);
	EXPECT_EQ(come(b, 128, &notice), 1);
	tid = node_bed_last(b).mad.tid;
	EXPECT_EQ(come(b, 128, &notice), 0);
	due = fabric_node_due(&b->nodes[1]);
	EXPECT(due >= 1 * (uint64_t)SECOND && due < 2 * (uint64_t)SECOND);
	b->now_ns = due - 1;
	EXPECT_EQ(come(b, 128, &notice), 0);
	b->now_ns = due;
	EXPECT_EQ(come(b, 128, &notice), 1);
	EXPECT_EQ(node_bed_last(b).mad.tid, tid);
	repress(b, 2, tid + 1); /* of another */
	EXPECT(fabric_node_due(&b->nodes[1]) < UINT64_MAX);
	repress(b, 2, tid);
	EXPECT(fabric_node_due(&b->nodes[1]) == UINT64_MAX);
	node_bed_close(b);
}

/* The repetition has an end, and news comes soon, but not at once. */
TEST(test_iba_13_4_9_traps_are_no_flood)
{
	struct node_bed *b = node_bed_star();
	struct fabric_node *n = &b->nodes[1];
	struct sm_notice notice;
	uint32_t count = 0;

	node_bed_manage(b);
	b->now_ns = SECOND;
	fabric_node_part(n, 2, b->now_ns);
	EXPECT_EQ(come(b, 128, &notice), 1);
	for (int i = 0; i < 50; i++) {
		(void)fabric_node_join(n, 2, &b->nodes[2], 1, b->now_ns);
		fabric_node_part(n, 2, b->now_ns);
		fabric_node_part(&b->nodes[2], 1, b->now_ns);
		b->now_ns += 10 * MS;
		count += come(b, 128, &notice);
	}
	EXPECT_EQ(count, 5); /* one each 100 ms */
	for (count = 0; fabric_node_due(n) < UINT64_MAX; count++) {
		b->now_ns = fabric_node_due(n);
		(void)come(b, 128, &notice);
	}
	EXPECT(count >= 3 && count <= 10);
	node_bed_close(b);
}

/* No subnet manager has found it. */
TEST(test_iba_13_4_9_a_node_without_a_subnet_manager_tells_nothing)
{
	struct node_bed *b = node_bed_star();
	struct sm_notice notice;

	fabric_node_part(&b->nodes[1], 2, b->now_ns);
	EXPECT_EQ(come(b, 128, &notice), 0);
	EXPECT(fabric_node_due(&b->nodes[1]) == UINT64_MAX);
	node_bed_close(b);
}

TEST(test_iba_14_2_5_1_trap_144_tells_of_another_subnet_manager)
{
	struct node_bed *b = node_bed_star();
	struct sm_notice notice;
	union sm_value v;

	node_bed_manage(b);
	b->came_count = 0;
	fabric_node_set_sm(&b->nodes[2], 1, true, b->now_ns);
	EXPECT_EQ(come(b, 144, &notice), 1);
	EXPECT(notice.type == 4 && notice.producer == SM_NODE_CA && notice.issuer == 3);
	EXPECT_EQ(u16_at(notice.details + 2), 3);
	EXPECT(notice.details[5] == 0 && notice.details[9] & 2); /* it is one now */
	EXPECT_EQ(node_bed_get(b, node_bed_route(node_bed_smp(MAD_GET, SM_PORT_INFO, 1), 2, to_far),
			       &v),
		  0);
	EXPECT(v.port_info.capabilities & 2);
	node_bed_close(b);
}

TEST(test_iba_14_2_5_1_trap_144_tells_of_another_description)
{
	struct node_bed *b = node_bed_star();
	union sm_value v = { .node_description = { .text = "mine" } };
	struct sm_notice notice;

	node_bed_manage(b);
	EXPECT_EQ(node_bed_set(
			  b,
			  node_bed_route(node_bed_smp(MAD_SET, SM_NODE_DESCRIPTION, 0), 2, to_far),
			  &v),
		  0);
	EXPECT_STR((const char *)v.node_description.text, "mine");
	EXPECT_EQ(come(b, 144, &notice), 1);
	EXPECT(notice.details[5] == 1 && notice.details[11] == 1);
	node_bed_close(b);
}

TEST(test_iba_14_2_5_1_traps_129_to_131_tell_of_a_bad_link)
{
	static const uint16_t traps[] = { 129, 130, 131 };
	struct node_bed *b = node_bed_star();
	struct sm_notice notice;

	node_bed_manage(b);
	for (enum fabric_error e = FABRIC_ERROR_INTEGRITY; e <= FABRIC_ERROR_WATCHDOG; e++) {
		fabric_node_error(&b->nodes[1], 2, e);
		EXPECT_EQ(come(b, traps[e], &notice), 1);
		EXPECT(u16_at(notice.details + 2) == 2 && notice.details[4] == 2);
	}
	EXPECT_EQ(b->nodes[1].ports[2].counts.integrity_errors, 1);
	EXPECT_EQ(b->nodes[1].ports[2].counts.overrun_errors, 1);
	node_bed_close(b);
}

TEST(test_iba_14_2_5_1_traps_257_and_258_tell_of_a_refused_packet)
{
	struct node_bed *b = node_bed_star();
	struct iba_frame f = {
		.lrh = { .from = 1, .to = 3, .level = 2 },
		.packet = { .p_key = 0x8123, .q_key = 0x11223344, .src_qp = 5, .dest_qp = 6 }
	};
	struct sm_notice notice;

	node_bed_manage(b);
	fabric_node_refused(&b->nodes[2], b->now_ns, 1, FABRIC_BAD_PKEY, &f);
	EXPECT_EQ(come(b, 257, &notice), 1);
	EXPECT(notice.type == 2 && u16_at(notice.details + 2) == 1 &&
	       u16_at(notice.details + 4) == 3);
	EXPECT(u16_at(notice.details + 8) == 0x8123 && notice.details[10] == 0x20);
	EXPECT(notice.details[13] == 5 && notice.details[17] == 6);
	fabric_node_refused(&b->nodes[2], b->now_ns, 1, FABRIC_BAD_QKEY, &f);
	EXPECT_EQ(come(b, 258, &notice), 1);
	EXPECT(u16_at(notice.details + 6) == 0x1122 && u16_at(notice.details + 8) == 0x3344);
	EXPECT_EQ(b->nodes[2].ports[1].info.p_key_violations, 1);
	EXPECT_EQ(b->nodes[2].ports[1].info.q_key_violations, 1);
	node_bed_close(b);
}

TEST(test_iba_13_4_9_a_trap_waits_while_its_port_has_no_link)
{
	struct node_bed *b = node_bed_star();
	struct fabric_node *n = &b->nodes[2];
	struct sm_notice notice;

	node_bed_manage(b);
	fabric_node_part(n, 1, b->now_ns);
	fabric_node_set_sm(n, 1, true, b->now_ns);
	EXPECT_EQ(come(b, 144, &notice), 0);
	EXPECT(fabric_node_due(n) == UINT64_MAX);
	EXPECT(fabric_node_join(n, 1, &b->nodes[1], 2, b->now_ns));
	EXPECT_EQ(come(b, 144, &notice), 1);
	node_bed_close(b);
}
