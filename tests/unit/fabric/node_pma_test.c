/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of performance management (IBA 16.1.3): their greatest values, sums and resets. */
#include "unit/fabric/node_bed.h"

#include <string.h>

#include "test.h"

enum { ALL_PORTS = 255, SWITCH_LID = 2 };

#define HUGE_COUNT (UINT64_C(1) << 40)

/* Asks the switch; the answer's status. */
static uint16_t ask(struct node_bed *b, uint8_t method, uint16_t attribute, union pm_value *v)
{
	struct mad m = { .mgmt_class = MAD_PERFORMANCE,
			 .class_version = PM_CLASS_VERSION,
			 .method = method,
			 .tid = 5,
			 .attribute = attribute };
	uint8_t mad[MAD_BYTES] = { 0 }, bytes[IBA_FRAME_MAX];
	struct iba_frame f = {
		.lrh = { .from = 1, .to = SWITCH_LID },
		.packet = { .opcode = IBA_UD_SEND,
			    .p_key = IBA_PKEY_DEFAULT,
			    .dest_qp = 1,
			    .src_qp = 1,
			    .q_key = IBA_QKEY_GSI,
			    .payload = mad,
			    .payload_bytes = MAD_BYTES },
	};

	mad_encode(&m, mad);
	mad_layout_encode(pm_layout(attribute), v, mad + PM_DATA_AT);
	b->came_count = 0;
	node_bed_post(b, 0, 1, bytes, iba_frame_encode(&f, bytes));
	REQUIRE(b->came_count == 1);
	REQUIRE(iba_frame_decode(&f, b->came[0].bytes, b->came[0].length) == WEFT_OK);
	REQUIRE(mad_decode(&m, f.packet.payload, f.packet.payload_bytes) == WEFT_OK);
	REQUIRE(mad_layout_decode(pm_layout(attribute), v, f.packet.payload + PM_DATA_AT) ==
		WEFT_OK);
	return m.status;
}

static struct pm_port_counters plain(struct node_bed *b, uint8_t port)
{
	union pm_value v = { .port_counters = { .port = port } };

	REQUIRE(ask(b, MAD_GET, PM_PORT_COUNTERS, &v) == 0);
	return v.port_counters;
}

static struct pm_port_counters_extended extended(struct node_bed *b, uint8_t port)
{
	union pm_value v = { .port_counters_extended = { .port = port } };

	REQUIRE(ask(b, MAD_GET, PM_PORT_COUNTERS_EXTENDED, &v) == 0);
	return v.port_counters_extended;
}

static struct node_bed *managed(void)
{
	struct node_bed *b = node_bed_star();

	node_bed_manage(b);
	for (uint32_t port = 0; port <= b->nodes[1].cfg.ports; port++)
		b->nodes[1].ports[port].counts = (struct fabric_port_counts){ .symbol_errors = 0 };
	return b;
}

TEST(test_iba_16_1_3_counters_stay_at_their_greatest_value)
{
	struct node_bed *b = managed();
	struct pm_port_counters p;
	struct pm_port_counters_extended x;

	b->nodes[1].ports[2].counts = (struct fabric_port_counts){
		.integrity_errors = HUGE_COUNT,
		.link_downed = HUGE_COUNT,
		.relay_errors = HUGE_COUNT,
		.transmit_data = HUGE_COUNT,
		.transmit_wait = HUGE_COUNT,
		.qp1_dropped = HUGE_COUNT,
	};
	p = plain(b, 2);
	EXPECT_EQ(p.integrity_errors, 15);
	EXPECT_EQ(p.link_downed, UINT8_MAX);
	EXPECT(p.relay_errors == UINT16_MAX && p.qp1_dropped == UINT16_MAX);
	EXPECT(p.transmit_data == UINT32_MAX && p.transmit_wait == UINT32_MAX);
	EXPECT(p.symbol_errors == 0 && p.receive_data == 0);
	x = extended(b, 2);
	EXPECT(x.transmit_data == HUGE_COUNT && x.integrity_errors == HUGE_COUNT);
	EXPECT(x.transmit_wait == HUGE_COUNT && x.symbol_errors == 0);
	node_bed_close(b);
}

TEST(test_iba_16_1_3_those_of_all_ports_are_their_sum_and_no_more_than_one_has)
{
	struct node_bed *b = managed();
	struct pm_port_counters p;

	for (uint32_t port = 1; port <= 3; port++) {
		struct fabric_port_counts *c = &b->nodes[1].ports[port].counts;

		c->link_downed = 100;
		c->symbol_errors = port;
	}
	p = plain(b, ALL_PORTS);
	EXPECT(p.port == ALL_PORTS && p.symbol_errors == 1 + 2 + 3);
	EXPECT_EQ(p.link_downed, UINT8_MAX);
	EXPECT_EQ(plain(b, 3).link_downed, 100);
	EXPECT_EQ(extended(b, ALL_PORTS).link_downed, 300);
	node_bed_close(b);
}

/* A Set writes those counters that it selects; the extended ones are apart. */
TEST(test_iba_16_1_3_counters_that_are_selected_are_set)
{
	enum { SYMBOL_ERRORS = 1 << 0, RELAY_ERRORS = 1 << 5 };
	struct node_bed *b = managed();
	struct fabric_port_counts *c = &b->nodes[1].ports[2].counts;
	union pm_value v = { .port_counters = { .port = 2,
						.select = SYMBOL_ERRORS | RELAY_ERRORS,
						.relay_errors = 40 } };

	c->symbol_errors = c->receive_errors = c->relay_errors = HUGE_COUNT;
	b->nodes[1].ports[1].counts.symbol_errors = 9;
	EXPECT_EQ(ask(b, MAD_SET, PM_PORT_COUNTERS, &v), 0);
	EXPECT(v.port_counters.symbol_errors == 0 && v.port_counters.relay_errors == 40);
	c->symbol_errors += 3;
	c->relay_errors += 3;
	EXPECT(plain(b, 2).symbol_errors == 3 && plain(b, 2).relay_errors == 43);
	EXPECT_EQ(plain(b, 2).receive_errors, UINT16_MAX);
	EXPECT_EQ(plain(b, 1).symbol_errors, 9);
	EXPECT_EQ(extended(b, 2).symbol_errors, HUGE_COUNT + 3);
	v = (union pm_value){ .port_counters_extended = { .port = ALL_PORTS,
							  .select_2 = SYMBOL_ERRORS } };
	EXPECT_EQ(ask(b, MAD_SET, PM_PORT_COUNTERS_EXTENDED, &v), 0);
	EXPECT(extended(b, 2).symbol_errors == 0 && extended(b, 1).symbol_errors == 0);
	EXPECT_EQ(extended(b, 2).relay_errors, HUGE_COUNT + 3);
	EXPECT(plain(b, 2).symbol_errors == 3 && plain(b, 1).symbol_errors == 9);
	node_bed_close(b);
}

TEST(test_iba_16_1_3_a_port_that_is_not_there_has_no_counters)
{
	struct node_bed *b = managed();
	union pm_value v = { .port_counters = { .port = 5 } };

	EXPECT_EQ(ask(b, MAD_GET, PM_PORT_COUNTERS, &v), SMP_STATUS_INVALID_VALUE);
	v.port_counters.port = 5;
	EXPECT_EQ(ask(b, MAD_SET, PM_PORT_COUNTERS, &v), SMP_STATUS_INVALID_VALUE);
	node_bed_close(b);
}

/* IBA 13.5.4: the answer goes where the request came from, with a P_Key that its sender takes. */
TEST(test_iba_13_5_4_an_answer_has_the_p_key_of_the_port_and_the_gids_turned_round)
{
	struct node_bed *b = managed();
	struct mad m = { .mgmt_class = MAD_PERFORMANCE,
			 .class_version = PM_CLASS_VERSION,
			 .method = MAD_GET,
			 .attribute = PM_CLASS_PORT_INFO };
	uint8_t mad[MAD_BYTES] = { 0 }, bytes[IBA_FRAME_MAX];
	struct iba_frame f = {
		.lrh = { .from = 1, .to = SWITCH_LID },
		.has_grh = true,
		.grh = { .from = { 1 },
			 .to = { 2 },
			 .next_header = IBA_GRH_NEXT_BTH,
			 .hop_limit = 1 },
		.packet = { .opcode = IBA_UD_SEND,
			    .p_key = IBA_PKEY_DEFAULT & 0x7fff, /* a limited member's */
			    .dest_qp = 1,
			    .src_qp = 1,
			    .q_key = IBA_QKEY_GSI,
			    .payload = mad,
			    .payload_bytes = MAD_BYTES },
	};

	mad_encode(&m, mad);
	node_bed_post(b, 0, 1, bytes, iba_frame_encode(&f, bytes));
	EXPECT_EQ(b->came_count, 1);
	MUST(iba_frame_decode(&f, b->came[0].bytes, b->came[0].length));
	EXPECT(f.lrh.from == SWITCH_LID && f.lrh.to == 1);
	EXPECT_EQ(f.packet.p_key, IBA_PKEY_DEFAULT);
	EXPECT(f.grh.from[0] == 2 && f.grh.to[0] == 1 && f.grh.hop_limit == UINT8_MAX);
	node_bed_close(b);
}
