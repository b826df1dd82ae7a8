/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/topology.h"

enum { TEXT_BYTES = 8192 };

static size_t golden_read(const char *name, char text[TEXT_BYTES])
{
	char path[512];
	size_t length;
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/opensm/%s", GOLDEN_DIR, name);
	file = fopen(path, "rb");
	REQUIRE(file);
	length = fread(text, 1, TEXT_BYTES, file);
	(void)fclose(file);
	REQUIRE(length > 0 && length < TEXT_BYTES);
	return length;
}

static const struct topology_node *find(const struct topology *t, const char *name)
{
	for (uint32_t i = 0; i < t->node_count; i++)
		if (strcmp(t->nodes[i].name, name) == 0)
			return &t->nodes[i];
	REQUIRE(false);
	return NULL;
}

/* Whether a cable joins these ports, as both ends see it. */
static bool is_joined(const struct topology *t, const char *a, uint32_t port_a, const char *b,
		      uint32_t port_b)
{
	const struct topology_node *at_a = find(t, a), *at_b = find(t, b);

	return at_a->port[port_a].node == (uint32_t)(at_b - t->nodes) &&
	       at_a->port[port_a].port == port_b &&
	       at_b->port[port_b].node == (uint32_t)(at_a - t->nodes) &&
	       at_b->port[port_b].port == port_a;
}

/* What Debian's ibnetdiscover printed of a subnet of ibsim, and the file that ibsim had read. */
TEST(test_fab_22b_topologies_as_ibnetdiscover_and_ibsim_write_them)
{
	static const char *const names[] = { "ibnetdiscover.txt", "ibsim.net" };

	for (int i = 0; i < 2; i++) {
		char text[TEXT_BYTES];
		size_t length = golden_read(names[i], text);
		struct topology t;
		uint32_t line;

		harness_note("%s", names[i]);
		EXPECT_EQ(topology_parse(&t, text, length, &line), WEFT_OK);
		EXPECT(t.node_count == 6 && t.cable_count == 5);
		EXPECT(is_joined(&t, "S1", 3, "S2", 1) && is_joined(&t, "H1", 1, "S1", 1));
		EXPECT(is_joined(&t, "H2", 1, "S1", 2) && is_joined(&t, "H3", 1, "S2", 2));
		EXPECT(is_joined(&t, "H4", 1, "S2", 3));
		EXPECT(find(&t, "S1")->type == SM_NODE_SWITCH && find(&t, "S1")->ports == 8);
		EXPECT(find(&t, "H4")->type == SM_NODE_CA && find(&t, "H4")->ports == 2);
		EXPECT_EQ(find(&t, "H4")->guid, i == 0 ? 0x100009 : 0);
		EXPECT_EQ(find(&t, "H1")->port[2].node, TOPOLOGY_NONE);
		topology_fini(&t);
	}
}

static enum weft_reason parse(const char *text, uint32_t *line)
{
	struct topology t;
	enum weft_reason reason = topology_parse(&t, text, strlen(text), line);

	if (reason == WEFT_OK)
		topology_fini(&t);
	REQUIRE(t.nodes == NULL && t.ports == NULL);
	return reason;
}

TEST(test_topology_cables_have_the_width_and_speed_of_their_comments)
{
	static const char text[] = "Switch 4 \"a\"\n[1] \"b\"[1] # \"b\" lid 4 12xFDR10 \r\n"
				   "[2] \"b\"[2] # lid 4\n[3] \"b\"[3] # 4xABC\n"
				   "Ca 4 \"b\"\n";
	struct topology t;
	uint32_t line;

	REQUIRE(topology_parse(&t, text, sizeof(text) - 1, &line) == WEFT_OK);
	EXPECT(strcmp(find(&t, "a")->port[1].rate, "12xFDR10") == 0);
	EXPECT(strcmp(find(&t, "b")->port[1].rate, "12xFDR10") == 0);
	EXPECT(find(&t, "a")->port[2].rate[0] == '\0' && find(&t, "a")->port[3].rate[0] == '\0');
	topology_fini(&t);
	EXPECT_EQ(topology_rate_mbps("4xSDR"), 8000);
	EXPECT_EQ(topology_rate_mbps("12xFDR10"), 120000);
	EXPECT_EQ(topology_rate_mbps("4xFDR1"), 0);
	EXPECT_EQ(topology_rate_mbps("16xSDR"), 0);
	EXPECT_EQ(topology_rate_mbps("xSDR"), 0);
	EXPECT_EQ(topology_rate_mbps(""), 0);
}

TEST(test_fab_09_a_cable_may_be_written_at_one_end_or_both)
{
	static const char *const good[] = {
		"",
		"# nothing\n\n   \n",
		"Switch 2 \"a\"\n[1] \"b\"[1]\nCa 1 \"b\"\n[1] \"a\"[1]\n",
		"Switch 2 \"a\"\nCa 1 \"b\"\n[1] \"a\"[1]",
		"Switch 2 \"a\"\r\n[1]\t\"b\"[1] # end\r\nHca 1 \"b\"\r\n",
		"Rt\t3 \"r\"\t# router\n[1](1a) \"r\"[3](0x1c)\n",
		"vendid=0x2c9\ncaguid=0x0123456789abcdef\nCa 1 \"b\" # \"a node\" lid 1\n",
	};
	uint32_t line;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		harness_note("case %zu", i);
		EXPECT_EQ(parse(good[i], &line), WEFT_OK);
	}
}

TEST(test_fab_22b_what_is_no_topology_is_refused_with_its_line)
{
	static const struct {
		const char *text;
		uint32_t line;
		enum weft_reason reason;
	} bad[] = {
		{ "\nswitch 2 \"a\"", 2, WEFT_R_TOPOLOGY_LINE },
		{ "Switch \"a\"", 1, WEFT_R_TOPOLOGY_LINE },
		{ "Switch 0 \"a\"", 1, WEFT_R_TOPOLOGY_LINE },
		{ "Switch 2 a", 1, WEFT_R_TOPOLOGY_LINE },
		{ "Switch 2 a\"", 1, WEFT_R_TOPOLOGY_LINE },
		{ "Switch 2 \"a", 1, WEFT_R_TOPOLOGY_LINE },
		{ "Switch 2 \"a\" b", 1, WEFT_R_TOPOLOGY_LINE },
		{ "Switch 2 \"a\" # \"b", 1, WEFT_R_TOPOLOGY_LINE },
		{ "Switch 255 \"a\"", 1, WEFT_R_TOPOLOGY_LIMIT },
		{ "Switch 4294967298 \"a\"", 1, WEFT_R_TOPOLOGY_LINE },
		{ "Ca 1 \"a\"\n[x] \"a\"[1]", 2, WEFT_R_TOPOLOGY_LINE },
		{ "Ca 1 \"a\"\n[1 \"a\"[1]", 2, WEFT_R_TOPOLOGY_LINE },
		{ "Ca 1 \"a\"\n[1](xy) \"a\"[1]", 2, WEFT_R_TOPOLOGY_LINE },
		{ "Ca 1 \"a\"\n[1] \"a\"", 2, WEFT_R_TOPOLOGY_LINE },
		{ "Ca 2 \"a\"\n[1] \"a\"[2] b", 2, WEFT_R_TOPOLOGY_LINE },
		{ "caguid=x\nCa 1 \"a\"", 1, WEFT_R_TOPOLOGY_LINE },
		{ "caguid=0x12345678901234567\n", 1, WEFT_R_TOPOLOGY_LINE },
		{ "what\n", 1, WEFT_R_TOPOLOGY_LINE },
		{ "[1] \"a\"[1]\nCa 1 \"a\"", 1, WEFT_R_TOPOLOGY_LINE },
		{ "Ca 1 \"a\"\nCa 1 \"a\"", 2, WEFT_R_TOPOLOGY_NODE },
		{ "Ca 1 \"a\"\n[1] \"b\"[1]", 2, WEFT_R_TOPOLOGY_NODE },
		{ "Ca 1 \"a\"\nCa 1 \"b\"\n[2] \"a\"[1]", 3, WEFT_R_TOPOLOGY_PORT },
		{ "Ca 1 \"a\"\nCa 1 \"b\"\n[0] \"a\"[1]", 3, WEFT_R_TOPOLOGY_PORT },
		{ "Ca 1 \"a\"\nCa 1 \"b\"\n[1] \"a\"[2]", 3, WEFT_R_TOPOLOGY_PORT },
		{ "Ca 1 \"a\"\nCa 1 \"b\"\n[1] \"a\"[0]", 3, WEFT_R_TOPOLOGY_PORT },
		{ "Ca 1 \"a\"\n[1] \"a\"[1]", 2, WEFT_R_TOPOLOGY_PORT },
		{ "Ca 1 \"a\"\nCa 2 \"b\"\n[1] \"a\"[1]\n[2] \"a\"[1]", 4, WEFT_R_TOPOLOGY_PORT },
		{ "Ca 2 \"a\"\nCa 1 \"b\"\n[1] \"a\"[1]\n[1] \"a\"[2]", 4, WEFT_R_TOPOLOGY_PORT },
	};
	uint32_t line;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		harness_note("case %zu: %s", i, bad[i].text);
		EXPECT_EQ(parse(bad[i].text, &line), bad[i].reason);
		EXPECT_EQ(line, bad[i].line);
	}
}

TEST(test_fab_22d_names_and_subnets_have_limits)
{
	char text[128] = "Ca 1 \"";
	size_t room = (size_t)(TOPOLOGY_NODES_MAX + 2) * 24, at = 0;
	char *many = malloc(room);
	uint32_t line;

	memset(text + 6, 'x', TOPOLOGY_NAME_BYTES - 1);
	strcpy(text + 6 + TOPOLOGY_NAME_BYTES - 1, "\"");
	EXPECT_EQ(parse(text, &line), WEFT_OK);
	strcpy(text + 6 + TOPOLOGY_NAME_BYTES - 1, "x\"");
	EXPECT_EQ(parse(text, &line), WEFT_R_TOPOLOGY_LIMIT);
	REQUIRE(many);
	for (int i = 0; i < TOPOLOGY_NODES_MAX; i++)
		at += (size_t)snprintf(many + at, room - at, "Ca 1 \"%d\"\n", i);
	EXPECT_EQ(parse(many, &line), WEFT_OK);
	(void)snprintf(many + at, room - at, "Ca 1 \"a\"\n");
	EXPECT_EQ(parse(many, &line), WEFT_R_TOPOLOGY_LIMIT);
	EXPECT_EQ(line, TOPOLOGY_NODES_MAX + 1);
	free(many);
}

TEST(test_topology_nodes_that_no_way_leads_to_are_found)
{
	static const char text[] = "Switch 4 \"s\"\n[1] \"a\"[1]\n[2] \"b\"[1]\n"
				   "Ca 2 \"a\"\n[2] \"c\"[1]\nCa 1 \"b\"\nCa 1 \"c\"\nCa 1 \"d\"\n";
	struct topology t;
	uint8_t marks[5];
	uint32_t line;

	EXPECT_EQ(topology_parse(&t, text, sizeof(text) - 1, &line), WEFT_OK);
	EXPECT_EQ(topology_reach(&t, marks), 3); /* no way passes through an endnode */
	EXPECT_MEM(marks, "\1\1\1\0\0", 5);
	topology_fini(&t);
}
