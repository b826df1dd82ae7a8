/* SPDX-License-Identifier: BSD-2-Clause */
/* M_Keys guard what is managed, P_Keys part what may talk. */
#include "unit/fabric/node_bed.h"

#include <string.h>

#include "test.h"

static const uint8_t by_1[] = { 1 }, to_far[] = { 1, 2 };

#define SECOND UINT64_C(1000000000)
#define M_KEY UINT64_C(0x1234567812345678)

static struct smp far_port(uint64_t m_key)
{
	struct smp s = node_bed_route(node_bed_smp(MAD_GET, SM_PORT_INFO, 1), 2, to_far);

	s.m_key = m_key;
	return s;
}

static void protect(struct node_bed *b, uint8_t level, uint16_t lease)
{
	union sm_value v;

	REQUIRE(node_bed_get(b, far_port(0), &v) == 0);
	v.port_info.m_key = M_KEY;
	v.port_info.m_key_protection = level;
	v.port_info.m_key_lease = lease;
	v.port_info.state = v.port_info.phys_state = 0;
	REQUIRE(node_bed_set(b, far_port(0), &v) == 0);
}

/* Whether a request is answered at all. */
static bool is_answered(struct node_bed *b, struct smp s)
{
	uint8_t bytes[IBA_FRAME_MAX];

	b->came_count = 0;
	node_bed_post(b, 0, 1, bytes,
		      node_bed_frame(bytes, &s, IBA_LID_PERMISSIVE, IBA_LID_PERMISSIVE));
	return b->came_count == 1;
}

static struct smp as_set(struct smp s)
{
	s.mad.method = MAD_SET;
	s.mad.attribute = SM_GUID_INFO;
	s.mad.modifier = 0;
	return s;
}

TEST(test_iba_14_2_4_who_has_not_the_m_key_sets_nothing_and_gets_what_protection_leaves)
{
	static const struct {
		bool gets, sees;
	} levels[] = { { true, true }, { true, false }, { false, false }, { false, false } };

	for (uint8_t level = 0; level < 4; level++) {
		struct node_bed *b = node_bed_star();
		struct fabric_node *n = &b->nodes[2];
		union sm_value v;

		protect(b, level, 0);
		EXPECT(!is_answered(b, as_set(far_port(0))));
		EXPECT(!is_answered(b, as_set(far_port(M_KEY + 1))));
		EXPECT(n->refusal == WEFT_R_NODE_M_KEY && n->ports[1].info.m_key_violations == 2);
		EXPECT_EQ(is_answered(b, far_port(0)), levels[level].gets);
		b->came_count = 0;
		if (levels[level].gets) {
			EXPECT_EQ(node_bed_get(b, far_port(0), &v), 0);
			EXPECT_EQ(v.port_info.m_key == M_KEY, levels[level].sees);
		}
		EXPECT_EQ(node_bed_get(b, far_port(M_KEY), &v), 0);
		EXPECT_EQ(v.port_info.m_key, (int64_t)M_KEY);
		EXPECT(is_answered(b, as_set(far_port(M_KEY))));
		n->ports[1].info.m_key_violations = UINT16_MAX;
		EXPECT(!is_answered(b, as_set(far_port(0))));
		EXPECT_EQ(n->ports[1].info.m_key_violations, UINT16_MAX);
		node_bed_close(b);
	}
}

/* IBA 14.2.4.2: a subnet manager that has died lets go of its nodes after the lease. */
TEST(test_iba_14_2_4_2_protection_ends_with_the_lease_unless_the_key_is_seen)
{
	struct node_bed *b = node_bed_star();
	struct sm_port_info *info = &b->nodes[2].ports[1].info;
	union sm_value v;

	protect(b, 2, 30);
	b->now_ns = 100 * SECOND;
	EXPECT(!is_answered(b, far_port(0)) && info->m_key_protection == 2);
	b->now_ns += 20 * SECOND;
	EXPECT(is_answered(b, far_port(M_KEY))); /* the manager lives: it begins anew */
	b->now_ns += 20 * SECOND;
	EXPECT(!is_answered(b, far_port(0)));
	b->now_ns += 30 * SECOND - 1;
	EXPECT(!is_answered(b, far_port(0)));
	b->now_ns += 1;
	b->came_count = 0;
	EXPECT_EQ(node_bed_get(b, far_port(0), &v), 0);
	EXPECT(v.port_info.m_key == M_KEY && v.port_info.m_key_protection == 0);
	node_bed_close(b);
}

/* IBA 14.2.5.6: a Set of 0 clears a count, and one of anything else leaves it. */
TEST(test_iba_14_2_5_6_counts_of_violations_are_cleared_by_0_alone)
{
	struct node_bed *b = node_bed_star();
	struct sm_port_info *info = &b->nodes[2].ports[1].info;
	union sm_value v;

	info->m_key_violations = info->p_key_violations = info->q_key_violations = 9;
	EXPECT_EQ(node_bed_get(b, far_port(0), &v), 0);
	v.port_info.state = v.port_info.phys_state = 0;
	v.port_info.m_key_violations = v.port_info.p_key_violations = 5;
	v.port_info.q_key_violations = 0;
	EXPECT_EQ(node_bed_set(b, far_port(0), &v), 0);
	EXPECT(info->m_key_violations == 9 && info->p_key_violations == 9);
	EXPECT_EQ(info->q_key_violations, 0);
	v.port_info.state = v.port_info.phys_state = 0;
	v.port_info.m_key_violations = v.port_info.p_key_violations = 0;
	EXPECT_EQ(node_bed_set(b, far_port(0), &v), 0);
	EXPECT(info->m_key_violations == 0 && info->p_key_violations == 0);
	node_bed_close(b);
}

TEST(test_iba_14_2_5_1_trap_256_tells_of_a_wrong_m_key)
{
	struct node_bed *b = node_bed_star();
	union sm_value v;
	struct smp s;

	node_bed_manage(b);
	protect(b, 1, 0);
	s = as_set(far_port(0x99));
	EXPECT(!is_answered(b, s));
	node_bed_settle(b);
	EXPECT_EQ(b->came_count, 1);
	s = node_bed_last(b);
	EXPECT_EQ(mad_layout_decode(sm_layout(SM_NOTICE), &v, s.data), WEFT_OK);
	EXPECT(v.notice.trap == 256 && v.notice.type == 2 && v.notice.issuer == 3);
	EXPECT(v.notice.details[6] == MAD_SET && v.notice.details[9] == SM_GUID_INFO);
	EXPECT_EQ(v.notice.details[21], 0x99);
	EXPECT(v.notice.details[23] == (0x80 | 2) && v.notice.details[24] == 1);
	node_bed_close(b);
}

/* Node 0 is at its first port, and another subnet, whose manager has set a key, at its second. */
TEST(test_iba_14_2_4_each_port_of_an_endnode_or_router_has_its_own_m_key)
{
	static const uint32_t modifiers[][2] = {
		{ SM_PORT_INFO, 2 },
		{ SM_PKEY_TABLE, 2 << 16 },
		{ SM_SL_TO_VL, 2 },
		{ SM_VL_ARBITRATION, 1 << 16 | 2 },
	};

	for (uint32_t i = 0; i < sizeof(modifiers) / sizeof(modifiers[0]); i++) {
		struct node_bed *b = node_bed_open();
		uint32_t manager = node_bed_add(b, SM_NODE_CA, 1);
		uint32_t node = node_bed_add(b, i % 2 ? SM_NODE_CA : SM_NODE_ROUTER, 2);
		struct fabric_node_port *p = &b->nodes[node].ports[2];
		struct smp s = node_bed_smp(MAD_GET, (uint16_t)modifiers[i][0], modifiers[i][1]);
		union sm_value v;

		node_bed_cable(b, manager, 1, node, 1);
		s = node_bed_route(s, 1, by_1);
		EXPECT_EQ(node_bed_get(b, s, &v), 0);
		p->info.m_key = M_KEY;
		EXPECT_EQ(node_bed_ask(b, manager, 1, s).mad.status, SMP_STATUS_INVALID_VALUE);
		s.mad.method = MAD_SET;
		s.m_key = M_KEY + 1;
		EXPECT_EQ(node_bed_ask(b, manager, 1, s).mad.status, SMP_STATUS_INVALID_VALUE);
		EXPECT_EQ(p->info.m_key_violations, 2);
		s.mad.method = MAD_GET;
		s.m_key = M_KEY;
		EXPECT_EQ(node_bed_get(b, s, &v), 0);
		EXPECT(i > 0 || v.port_info.m_key == M_KEY);
		EXPECT(p->info.m_key == M_KEY && p->info.m_key_violations == 2);
		node_bed_close(b);
	}
}

/* ---- Partitions ----------------------------------------------------------------------------- */

static void pkeys_set(struct node_bed *b, uint32_t port, uint16_t p_key, bool is_in)
{
	struct smp s = node_bed_route(node_bed_smp(MAD_SET, SM_PKEY_TABLE, port << 16), 1, by_1);
	union sm_value v = { .pkey_table = { .pkeys = { p_key } } };

	REQUIRE(node_bed_set(b, s, &v) == 0);
	REQUIRE(v.pkey_table.pkeys[0] == p_key);
	s = node_bed_route(node_bed_smp(MAD_GET, SM_PORT_INFO, port), 1, by_1);
	REQUIRE(node_bed_get(b, s, &v) == 0);
	v.port_info.enforces_in = is_in;
	v.port_info.enforces_out = !is_in;
	v.port_info.filters_raw_in = is_in;
	v.port_info.filters_raw_out = !is_in;
	v.port_info.state = v.port_info.phys_state = 0;
	REQUIRE(node_bed_set(b, s, &v) == 0);
}

static bool passes(struct node_bed *b, uint16_t p_key)
{
	struct iba_frame f = { .lrh = { .from = 1, .to = 3 },
			       .packet = { .opcode = IBA_UD_SEND, .p_key = p_key, .dest_qp = 9 } };
	uint8_t bytes[IBA_FRAME_MAX];

	b->came_count = 0;
	node_bed_post(b, 0, 1, bytes, iba_frame_encode(&f, bytes));
	return b->came_count == 1;
}

/* IBA 10.9.6: at the port where a packet comes in, or at that where it would leave. */
TEST(test_fab_22f_a_switch_lets_no_packet_pass_from_another_partition)
{
	for (int is_in = 0; is_in < 2; is_in++) {
		struct node_bed *b = node_bed_star();
		uint32_t port = is_in ? 1 : 2;
		struct fabric_port_counts *counts = &b->nodes[1].ports[port].counts;
		union sm_value v;
		struct smp s;

		node_bed_manage(b);
		pkeys_set(b, port, 0x0123, is_in);
		EXPECT(!fabric_node_is_open(&b->nodes[1], port));
		EXPECT(passes(b, 0x8123));
		/* A limited member sends by the one, and receives from such by the other. */
		EXPECT_EQ(passes(b, 0x0123), is_in != 0);
		EXPECT(!passes(b, IBA_PKEY_DEFAULT));
		EXPECT_EQ(is_in ? counts->receive_constraint_errors
				: counts->transmit_constraint_errors,
			  is_in ? 1 : 2);
		EXPECT_EQ(b->nodes[1].refusal, WEFT_R_NODE_P_KEY);
		EXPECT_EQ(b->nodes[1].ports[port].info.p_key_violations, is_in ? 1 : 2);
		node_bed_settle(b);
		EXPECT_EQ(b->came_count, 1);
		s = node_bed_last(b);
		EXPECT_EQ(mad_layout_decode(sm_layout(SM_NOTICE), &v, s.data), WEFT_OK);
		EXPECT(v.notice.trap == 259 && v.notice.issuer == 2);
		EXPECT(v.notice.details[6] == 0xff && v.notice.details[7] == 0xff);
		EXPECT(v.notice.details[49] == 2 && v.notice.details[50] == port);
		node_bed_close(b);
	}
}

/* IBA 10.9.1: unused entries of a table are no key that a packet could have. */
TEST(test_iba_10_9_1_a_p_key_of_number_0_is_none)
{
	static const uint16_t none[] = { 0, 0x8000 };
	struct node_bed *b = node_bed_star();

	node_bed_manage(b);
	pkeys_set(b, 1, 0x8123, true);
	b->nodes[2].ports[1].pkeys[1] = 0x8000; /* nor is one that has only a bit of members */
	for (uint32_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		EXPECT(!fabric_node_has_pkey(&b->nodes[2], 1, none[i]));
		EXPECT(!passes(b, none[i]));
	}
	EXPECT(fabric_node_has_pkey(&b->nodes[2], 1, 0x7fff));
	EXPECT(passes(b, 0x8123));
	node_bed_close(b);
}

TEST(test_raw_01_a_switch_can_keep_raw_packets_out)
{
	struct iba_lrh h = { .next = IBA_NEXT_RAW, .from = 1, .to = 3, .bytes = 64 };

	for (int is_in = 0; is_in < 2; is_in++) {
		struct node_bed *b = node_bed_star();
		uint8_t bytes[IBA_FRAME_MAX] = { 0 };

		node_bed_manage(b);
		iba_lrh_encode(&h, bytes);
		iba_vcrc_put(bytes, 66);
		node_bed_post(b, 0, 1, bytes, 66);
		EXPECT_EQ(b->came_count, 1);
		pkeys_set(b, is_in ? 1 : 2, 0x8123, is_in);
		node_bed_post(b, 0, 1, bytes, 66);
		EXPECT(b->came_count == 1 && b->nodes[1].refusal == WEFT_R_NODE_RAW);
		node_bed_settle(b);
		EXPECT_EQ(b->came_count, 1); /* no notice */
		node_bed_close(b);
	}
}

/* IBA 10.2.4, 10.9.2. */
TEST(test_iba_10_2_4_qp_1_refuses_other_keys)
{
	struct node_bed *b = node_bed_star();
	struct fabric_node *n = &b->nodes[2];
	uint8_t mad[MAD_BYTES] = { 0 }, bytes[IBA_FRAME_MAX];
	struct iba_frame f = {
		.lrh = { .from = 1, .to = 3 },
		.packet = { .opcode = IBA_UD_SEND,
			    .p_key = 0x8001,
			    .dest_qp = 1,
			    .src_qp = 1,
			    .q_key = IBA_QKEY_GSI,
			    .payload = mad,
			    .payload_bytes = MAD_BYTES },
	};

	node_bed_manage(b);
	node_bed_post(b, 0, 1, bytes, iba_frame_encode(&f, bytes));
	EXPECT(b->came_count == 0 && n->refusal == WEFT_R_NODE_P_KEY);
	f.packet.p_key = 0x7fff;
	f.packet.q_key = 0x80010001;
	node_bed_post(b, 0, 1, bytes, iba_frame_encode(&f, bytes));
	EXPECT(b->came_count == 0 && n->refusal == WEFT_R_NODE_Q_KEY);
	EXPECT(n->ports[1].info.p_key_violations == 1 && n->ports[1].info.q_key_violations == 1);
	EXPECT_EQ(n->ports[1].counts.qp1_dropped, 2);
	f.packet.q_key = IBA_QKEY_GSI;
	node_bed_post(b, 0, 1, bytes, iba_frame_encode(&f, bytes));
	EXPECT(b->came_count == 1 && b->came[0].node == 2);
	node_bed_close(b);
}
