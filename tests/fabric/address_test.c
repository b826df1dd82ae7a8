/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses of nodes, and the paths between them. */
#include <stdlib.h>
#include <string.h>

#include "driver/sys/fabric_address.h"
#include "fabric/fabric_bed.h"
#include "test.h"

static struct weft_address at(const char *text)
{
	struct weft_address a;

	MUST(weft_address_parse(text, &a));
	return a;
}

static void begin(void)
{
	fabric_bed_open();
	fabric_bed_enter(0);
}

static void down(struct attach_state *state)
{
	state->info.state = SM_PORT_INIT;
}

static void expect_node(const char *text, uint32_t node)
{
	const struct weft_address a = at(text);
	struct fabric_msg_port p;

	MUST(fabric_address_look(&a, &p));
	EXPECT_EQ(p.node, node);
}

static void expect_none(const char *text, enum weft_reason reason)
{
	const struct weft_address a = at(text);
	struct fabric_msg_port p;

	EXPECT_EQ(fabric_address_look(&a, &p), reason);
}

TEST(test_sys_s1_nodes_have_addresses)
{
	begin();
	expect_node("127.1.0.1:1", 1);
	expect_node("127.1.0.0:1", 0);
	expect_node("[fe80::201]:1", 1);
	/* This node. */
	expect_node("127.0.0.1:1", 0);
	expect_node("0.0.0.0:1", 0);
	expect_node("[::1]:1", 0);
	expect_node("[::]:1", 0);
	/* No node, or another network. */
	expect_none("127.1.0.2:1", WEFT_R_FABRIC_NODE);
	expect_none("127.9.0.1:1", WEFT_R_FABRIC_NODE);
	expect_none("192.0.2.1:1", WEFT_R_FABRIC_NODE);
	expect_none("[fe80::209]:1", WEFT_R_FABRIC_NODE);
	expect_none("[fe81::201]:1", WEFT_R_FABRIC_NODE);
	fabric_bed_close();
}

TEST(test_sys_s1_addresses_where_to_listen)
{
	const struct weft_address any = at("0.0.0.0:7"), named = at("127.1.0.0:7"),
				  none = at("127.1.0.9:7");
	struct weft_address gid;

	begin();
	MUST(fabric_address_own(&any, &gid));
	EXPECT(gid.family == 0 && gid.port == 7);
	MUST(fabric_address_own(&named, &gid));
	EXPECT(gid.family == 6 && gid.port == 7 && gid.ip[0] == 0xfe && gid.ip[14] == 2);
	EXPECT_EQ(fabric_address_own(&none, &gid), WEFT_R_FABRIC_NODE);
	fabric_bed_close();
}

TEST(test_sys_s1_paths_between_active_ports_only)
{
	const struct weft_address from = at("127.1.0.0:1"), to = at("127.1.0.1:2");
	const struct weft_path wanted = fabric_bed_path(0, 1, true);
	struct weft_path path;

	begin();
	MUST(fabric_address_path(&from, &to, &path));
	EXPECT_EQ(path.to_lid, wanted.to_lid - 1); /* by its first LID */
	EXPECT_EQ(path.mtu_bytes, BED_MTU);
	EXPECT(path.from.port == 1 && path.to.port == 2);
	EXPECT_MEM(path.from.ip, wanted.from.ip, 16);
	EXPECT_MEM(path.to.ip, wanted.to.ip, 16);
	fabric_bed_change(1, down, ATTACH_NEWS_STATE);
	EXPECT_EQ(fabric_address_path(&from, &to, &path), WEFT_R_NODE_STATE);
	EXPECT_EQ(fabric_address_path(&to, &from, &path), WEFT_R_NODE_STATE);
	fabric_bed_close();
}

TEST(test_sys_09_a_node_is_addressed_by_its_name)
{
	struct weft_address a;
	char text[WEFT_ADDRESS_TEXT];

	begin();
	MUST(fabric_address_parse("right:7480", &a));
	weft_address_text(&a, text);
	EXPECT_STR(text, "127.1.0.1:7480");
	MUST(fabric_address_parse("192.0.2.1:7480", &a));
	EXPECT_EQ(a.ip[0], 192);
	EXPECT_EQ(fabric_address_parse("none:7480", &a), WEFT_R_ADDRESS);
	EXPECT_EQ(fabric_address_parse("right", &a), WEFT_R_ADDRESS);
	EXPECT_EQ(fabric_address_parse("right:", &a), WEFT_R_ADDRESS);
	EXPECT_EQ(fabric_address_parse("right:70000", &a), WEFT_R_ADDRESS);
	/* A program that is at no node. */
	REQUIRE(unsetenv("WEFT_NODE") == 0);
	EXPECT_EQ(fabric_address_parse("right:7480", &a), WEFT_R_ADDRESS);
	fabric_bed_close();
}
