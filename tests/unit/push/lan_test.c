/* SPDX-License-Identifier: BSD-2-Clause */
/* Which host of a unit gets which frame of the LAN. */
#include "test.h"

#include <string.h>

#include "push/lan.h"

enum { HOSTS = 3 };

static const uint8_t macs[HOSTS][PUSH_MAC_BYTES] = { { 2, 0, 0, 0, 0, 0 },
						     { 2, 0, 0, 0, 0, 1 },
						     { 2, 0, 0, 0, 0, 2 } };
static const uint8_t all[PUSH_MAC_BYTES] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
static const uint8_t group[PUSH_MAC_BYTES] = { 1, 0, 0x5e, 0, 0, 1 };
static const uint8_t outside[PUSH_MAC_BYTES] = { 2, 9, 9, 9, 9, 9 };

static struct push_lan *lan_of_three(void)
{
	struct push_lan *n;

	MUST(push_lan_create(HOSTS, &n));
	for (uint32_t i = 0; i < HOSTS; i++)
		MUST(push_lan_host(n, i, macs[i]));
	return n;
}

enum { TAGS_MAX = 4, SENDER_MAY_NOT = 0x200, NO_FRAME = 0x400, Q = 0x8100, AD = 0x88a8 };

struct tags {
	uint32_t count;
	uint16_t is[TAGS_MAX][2]; /* type, id */
};

/* The hosts that get it, a bit each; 0x100: the LAN. */
static uint32_t to_tagged(struct push_lan *n, uint32_t from, const uint8_t *dst, const uint8_t *src,
			  const struct tags *tags)
{
	uint8_t bytes[14 + 4 * TAGS_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));
	const struct push_data frame = { bytes, 14 + 4 * tags->count };
	struct push_lan_route route;
	enum weft_reason r;
	uint32_t result, host;

	wr_bytes(&w, dst, PUSH_MAC_BYTES);
	wr_bytes(&w, src, PUSH_MAC_BYTES);
	for (uint32_t i = 0; i < tags->count; i++) {
		wr_u16(&w, tags->is[i][0]);
		wr_u16(&w, tags->is[i][1] | 0xe000);
	}
	wr_u16(&w, 0x0800);
	r = push_lan_route(n, from, &frame, &route);
	if (r != WEFT_OK)
		return r == WEFT_R_PUSH_FOREIGN ? SENDER_MAY_NOT : NO_FRAME;
	result = route.is_to_wire ? 0x100 : 0;
	while (push_lan_next(n, &route, &host))
		result |= 1U << host;
	return result;
}

static uint32_t to(struct push_lan *n, uint32_t from, const uint8_t *dst, const uint8_t *src,
		   uint16_t vlan)
{
	return to_tagged(n, from, dst, src, &(struct tags){ vlan != 0, { { Q, vlan } } });
}

TEST(test_push_05_a_frame_goes_to_the_host_whose_address_it_has)
{
	struct push_lan *n = lan_of_three();

	for (uint32_t i = 0; i < HOSTS; i++)
		EXPECT_EQ(to(n, PUSH_LAN_WIRE, macs[i], outside, 0), 1U << i);
	EXPECT_EQ(to(n, PUSH_LAN_WIRE, outside, outside, 0), 0);
	EXPECT_EQ(to(n, 0, macs[1], macs[0], 0), 2); /* and not to the LAN */
	EXPECT_EQ(to(n, 0, outside, macs[0], 0), 0x100);
	push_lan_leave(n, 1);
	EXPECT_EQ(to(n, PUSH_LAN_WIRE, macs[1], outside, 0), 0);
	push_lan_destroy(n);
}

TEST(test_push_05_a_host_sends_from_its_own_address_only)
{
	struct push_lan *n = lan_of_three();

	EXPECT_EQ(to(n, 0, outside, macs[1], 0), 0x200);
	EXPECT_EQ(to(n, 0, outside, outside, 0), 0x200);
	EXPECT_EQ(to(n, 0, outside, group, 0), 0x200);
	push_lan_leave(n, 0);
	EXPECT_EQ(to(n, 0, outside, macs[0], 0), 0x200);
	push_lan_destroy(n);
}

TEST(test_push_05_no_two_hosts_have_one_address)
{
	struct push_lan *n = lan_of_three();

	EXPECT_EQ(push_lan_host(n, 0, macs[1]), WEFT_R_PUSH_OFFER);
	EXPECT_EQ(push_lan_host(n, 0, group), WEFT_R_PUSH_OFFER);
	EXPECT_EQ(push_lan_host(n, 0, macs[0]), WEFT_OK);
	EXPECT_EQ(push_lan_host(n, 0, outside), WEFT_OK);
	EXPECT_EQ(to(n, PUSH_LAN_WIRE, outside, group, 0), 1);
	push_lan_destroy(n);
}

TEST(test_push_05_groups_go_to_hosts_that_want_them)
{
	struct push_lan *n = lan_of_three();
	struct push_filter f = { .group_count = 1 };

	EXPECT_EQ(to(n, PUSH_LAN_WIRE, all, outside, 0), 7);
	EXPECT_EQ(to(n, PUSH_LAN_WIRE, group, outside, 0), 0);
	memcpy(f.groups[0], group, PUSH_MAC_BYTES);
	push_lan_filter(n, 1, &f);
	push_lan_filter(n, 2, &(struct push_filter){ .flags = PUSH_FILTER_ALL_GROUPS });
	EXPECT_EQ(to(n, PUSH_LAN_WIRE, group, outside, 0), 6);
	EXPECT_EQ(to(n, 1, group, macs[1], 0), 0x104); /* not back to the sender */
	push_lan_filter(n, 0, &(struct push_filter){ .flags = PUSH_FILTER_NO_BROADCAST });
	EXPECT_EQ(to(n, PUSH_LAN_WIRE, all, outside, 0), 6);
	push_lan_destroy(n);
}

/* Promiscuous: what has no owner; never what is another host's. */
TEST(test_push_05_a_promiscuous_host_sees_no_other_hosts_frames)
{
	struct push_lan *n = lan_of_three();

	push_lan_filter(n, 2, &(struct push_filter){ .flags = PUSH_FILTER_PROMISCUOUS });
	EXPECT_EQ(to(n, PUSH_LAN_WIRE, outside, outside, 0), 4);
	EXPECT_EQ(to(n, PUSH_LAN_WIRE, group, outside, 0), 4);
	EXPECT_EQ(to(n, PUSH_LAN_WIRE, macs[0], outside, 0), 1);
	EXPECT_EQ(to(n, 1, macs[0], macs[1], 0), 1);
	EXPECT_EQ(to(n, 1, outside, macs[1], 0), 0x104);
	push_lan_destroy(n);
}

TEST(test_push_05_tagged_frames_stay_in_their_vlan)
{
	struct push_lan *n = lan_of_three();

	push_lan_filter(n, 1, &(struct push_filter){ .vlan_count = 2, .vlans = { 7, 9 } });
	push_lan_filter(n, 2, &(struct push_filter){ .flags = PUSH_FILTER_ALL_VLANS });
	EXPECT_EQ(to(n, PUSH_LAN_WIRE, all, outside, 9), 6);
	EXPECT_EQ(to(n, PUSH_LAN_WIRE, all, outside, 8), 4);
	EXPECT_EQ(to(n, PUSH_LAN_WIRE, macs[0], outside, 9), 0);
	EXPECT_EQ(to(n, PUSH_LAN_WIRE, macs[1], outside, 9), 2);
	EXPECT_EQ(to(n, 0, all, macs[0], 9), 0x200);
	EXPECT_EQ(to(n, 1, all, macs[1], 9), 0x104);
	push_lan_destroy(n);
}

/* A provider's tag, and tags of priority alone, do not lead around the filter. */
TEST(test_push_05_the_outermost_tag_with_an_id_decides)
{
	static const struct {
		struct tags tags;
		uint32_t of_lan, of_host; /* to all, from the LAN and from host 1 */
	} cases[] = {
		{ { 1, { { AD, 9 } } }, 6, 0x104 },
		{ { 1, { { AD, 8 } } }, 4, SENDER_MAY_NOT },
		{ { 2, { { AD, 9 }, { Q, 8 } } }, 6, 0x104 },
		{ { 2, { { AD, 8 }, { Q, 9 } } }, 4, SENDER_MAY_NOT },
		{ { 2, { { Q, 0 }, { Q, 8 } } }, 4, SENDER_MAY_NOT },
		{ { 2, { { AD, 0 }, { Q, 9 } } }, 6, 0x104 },
		{ { 3, { { Q, 0 }, { AD, 0 }, { Q, 8 } } }, 4, SENDER_MAY_NOT },
		{ { 2, { { Q, 0 }, { AD, 0 } } }, 7, 0x105 },
		{ { 4, { { Q, 0 }, { Q, 0 }, { Q, 0 }, { Q, 8 } } }, NO_FRAME, NO_FRAME },
	};
	struct push_lan *n = lan_of_three();

	push_lan_filter(n, 1, &(struct push_filter){ .vlan_count = 2, .vlans = { 7, 9 } });
	push_lan_filter(n, 2, &(struct push_filter){ .flags = PUSH_FILTER_ALL_VLANS });
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		harness_note("case %u", i);
		EXPECT_EQ(to_tagged(n, PUSH_LAN_WIRE, all, outside, &cases[i].tags),
			  cases[i].of_lan);
		EXPECT_EQ(to_tagged(n, 1, all, macs[1], &cases[i].tags), cases[i].of_host);
	}
	push_lan_destroy(n);
}

TEST(test_push_05_frames_that_are_none_and_a_limit_of_0_are_refused)
{
	struct push_lan *n = lan_of_three();
	uint8_t bytes[18] = { [12] = 0x81 };
	struct push_lan_route route;
	struct push_lan *none;

	EXPECT_EQ(push_lan_route(n, PUSH_LAN_WIRE, &(struct push_data){ bytes, 13 }, &route),
		  WEFT_R_PUSH_FRAME);
	EXPECT_EQ(push_lan_route(n, PUSH_LAN_WIRE, &(struct push_data){ bytes, 17 }, &route),
		  WEFT_R_PUSH_FRAME);
	EXPECT_EQ(push_lan_create(0, &none), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(push_lan_create(PUSH_LAN_WIRE, &none), WEFT_R_BAD_ARGUMENT);
	push_lan_destroy(n);
}
