/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Management datagrams of Debian's opensm, infiniband-diags and ibsim (golden/opensm/mads.txt):
 * each decodes, and encodes to the same bytes.
 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/pm_attr.h"
#include "wire/sm_attr.h"
#include "wire/smp.h"

enum { LINE_BYTES = 640, NAME_BYTES = 64 };

struct golden {
	char name[NAME_BYTES];
	uint8_t bytes[MAD_BYTES];
};

static FILE *golden_open(void)
{
	FILE *file = fopen(GOLDEN_DIR "/opensm/mads.txt", "r");

	REQUIRE(file);
	return file;
}

/* False: there are no more. */
static bool golden_next(struct golden *g, FILE *file)
{
	char line[LINE_BYTES], *at;

	do {
		if (!fgets(line, sizeof(line), file))
			return false;
	} while (line[0] == '#');
	memset(g, 0, sizeof(*g));
	at = strchr(line, ' ');
	REQUIRE(at && at - line < NAME_BYTES);
	memcpy(g->name, line, (size_t)(at - line));
	at++;
	for (size_t i = 0; at[0] >= '0' && at[1] >= '0'; i++, at += 2) {
		char digits[3] = { at[0], at[1], '\0' };

		REQUIRE(i < MAD_BYTES);
		g->bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return true;
}

static void golden_find(struct golden *g, const char *name)
{
	FILE *file = golden_open();
	bool is_there;

	do {
		is_there = golden_next(g, file);
	} while (is_there && strcmp(g->name, name) != 0);
	(void)fclose(file);
	REQUIRE(is_there);
}

static void smp_find(struct smp *s, union sm_value *value, const char *name)
{
	struct golden g;

	golden_find(&g, name);
	REQUIRE(smp_decode(s, g.bytes, MAD_BYTES) == WEFT_OK);
	REQUIRE(mad_layout_decode(sm_layout(s->mad.attribute), value, s->data) == WEFT_OK);
}

static void pm_find(union pm_value *value, const char *name)
{
	struct golden g;
	struct mad m;

	golden_find(&g, name);
	REQUIRE(mad_decode(&m, g.bytes, MAD_BYTES) == WEFT_OK);
	REQUIRE(mad_layout_decode(pm_layout(m.attribute), value, g.bytes + PM_DATA_AT) == WEFT_OK);
}

static void subnet_round(const struct golden *g)
{
	const struct mad_layout *layout;
	uint8_t again[MAD_BYTES];
	union sm_value value;
	struct smp s;

	EXPECT_EQ(smp_decode(&s, g->bytes, MAD_BYTES), WEFT_OK);
	layout = sm_layout(s.mad.attribute);
	EXPECT(layout);
	EXPECT_EQ(mad_layout_decode(layout, &value, s.data), WEFT_OK);
	mad_layout_encode(layout, &value, s.data);
	smp_encode(&s, again);
	EXPECT_MEM(again, g->bytes, MAD_BYTES);
}

static void performance_round(const struct golden *g)
{
	const struct mad_layout *layout;
	uint8_t again[MAD_BYTES];
	union pm_value value;
	struct mad m;

	EXPECT_EQ(mad_decode(&m, g->bytes, MAD_BYTES), WEFT_OK);
	EXPECT_EQ(m.mgmt_class, MAD_PERFORMANCE);
	layout = pm_layout(m.attribute);
	EXPECT(layout);
	memset(again, 0, sizeof(again));
	mad_encode(&m, again);
	EXPECT_EQ(mad_layout_decode(layout, &value, g->bytes + PM_DATA_AT), WEFT_OK);
	mad_layout_encode(layout, &value, again + PM_DATA_AT);
	EXPECT_MEM(again, g->bytes, MAD_BYTES);
}

TEST(test_iba_14_2_and_16_1_datagrams_of_opensm_and_ibsim_encode_to_the_same_bytes)
{
	FILE *file = golden_open();
	struct golden g;
	int count = 0;

	for (; golden_next(&g, file); count++) {
		harness_note("%s", g.name);
		if (g.bytes[1] == MAD_PERFORMANCE)
			performance_round(&g);
		else
			subnet_round(&g);
	}
	(void)fclose(file);
	EXPECT_EQ(count, 22);
}

TEST(test_iba_14_2_5_what_opensm_sets)
{
	union sm_value v;
	struct smp s;

	smp_find(&s, &v, "opensm_set_port_info");
	EXPECT(s.is_directed && !s.is_returning && s.hop_count == 3 && s.mad.method == MAD_SET);
	EXPECT_EQ(v.port_info.subnet_prefix, (int64_t)0xfe80000000000000);
	EXPECT(v.port_info.sm_lid == 1 && v.port_info.lid > 1);
	smp_find(&s, &v, "opensm_set_switch_info");
	EXPECT(v.switch_info.linear_top == 6 && v.switch_info.life_time == 18);
	smp_find(&s, &v, "opensm_set_sl_to_vl");
	for (int i = 0; i < SM_LEVELS; i++)
		EXPECT_EQ(v.sl_to_vl.lanes[i], i % 8);
	smp_find(&s, &v, "opensm_set_vl_arbitration");
	for (int i = 0; i < 8; i++)
		EXPECT(v.vl_arbitration.lanes[i] == i &&
		       v.vl_arbitration.weights[i] == (i == 0 ? 0 : 4));
	smp_find(&s, &v, "opensm_set_linear_table");
	EXPECT(v.linear_table.ports[0] == 0xff && v.linear_table.ports[7] == 0xff);
	for (int i = 1; i <= 6; i++)
		EXPECT(v.linear_table.ports[i] <= 8);
}

TEST(test_iba_14_2_5_what_nodes_answer)
{
	union sm_value v;
	struct smp s;

	smp_find(&s, &v, "ibsim_node_info_ca");
	EXPECT(s.is_returning && s.mad.status == 0);
	EXPECT(v.node_info.node_type == SM_NODE_CA && v.node_info.ports == 2);
	EXPECT_EQ(v.node_info.port_guid, v.node_info.node_guid + v.node_info.local_port);
	smp_find(&s, &v, "ibsim_node_info_switch");
	EXPECT(v.node_info.node_type == SM_NODE_SWITCH && v.node_info.ports == 8);
	smp_find(&s, &v, "ibsim_node_description");
	EXPECT(v.node_description.text[0] == 'H' && v.node_description.text[2] == '\0');
	smp_find(&s, &v, "ibsim_port_info");
	EXPECT(v.port_info.phys_state == SM_PHYS_LINK_UP && v.port_info.mtu_cap == 4);
	EXPECT(v.port_info.width_active == 2 && v.port_info.speed_active == 1);
	smp_find(&s, &v, "ibsim_pkey_table");
	EXPECT(v.pkey_table.pkeys[0] == 0xffff && v.pkey_table.pkeys[1] == 0);
	smp_find(&s, &v, "ibsim_trap_144");
	EXPECT(v.notice.is_generic && v.notice.trap == 144 && v.notice.issuer == 1);
}

TEST(test_iba_16_1_3_counters_of_a_port)
{
	union pm_value v;

	pm_find(&v, "ibsim_counters");
	EXPECT(v.port_counters.port == 1);
	EXPECT(v.port_counters.transmit_packets > 0 && v.port_counters.receive_packets > 0);
	EXPECT_EQ(v.port_counters.transmit_data, v.port_counters.transmit_packets * 72);
	pm_find(&v, "ibsim_extended");
	EXPECT(v.port_counters_extended.port == 1);
	EXPECT_EQ(v.port_counters_extended.transmit_data,
		  v.port_counters_extended.transmit_packets * 72);
	pm_find(&v, "ibsim_class_port_info");
	EXPECT(v.class_port_info.base_version == 1 && v.class_port_info.response_time == 0x12);
}
