/* SPDX-License-Identifier: BSD-2-Clause */
/* Interfaces of VLANs come, change and go; the list of their ids is one that a filter may have. */
#include "test.h"

#include <stdlib.h>

#include "lan/vlans.h"

static struct lan_vlans *vlans_make(void)
{
	struct lan_vlans *v = calloc(1, sizeof(*v));

	REQUIRE(v != NULL);
	return v;
}

/* The other end of a card refuses another order, and an id that is there twice. */
TEST(test_push_09_lan_vlans_are_listed_in_rising_order_and_once)
{
	struct lan_vlans *v = vlans_make();
	uint16_t ids[LAN_VLANS_MAX] = { 0 };

	EXPECT_EQ(lan_vlans_list(v, ids), 0);
	lan_vlans_put(v, 3, 9);
	lan_vlans_put(v, 4, 5);
	lan_vlans_put(v, 7, 4094);
	lan_vlans_put(v, 8, 5);
	EXPECT_EQ(lan_vlans_list(v, ids), 3);
	EXPECT_EQ(ids[0], 5);
	EXPECT_EQ(ids[1], 9);
	EXPECT_EQ(ids[2], 4094);
	/* One of the two has gone; then the other has another id. */
	lan_vlans_put(v, 4, 0);
	EXPECT_EQ(lan_vlans_list(v, ids), 3);
	EXPECT_EQ(ids[0], 5);
	lan_vlans_put(v, 8, 6);
	EXPECT_EQ(lan_vlans_list(v, ids), 3);
	EXPECT_EQ(ids[0], 6);
	/* One that was none. */
	lan_vlans_put(v, 99, 0);
	EXPECT_EQ(lan_vlans_list(v, ids), 3);
	free(v);
}

/* No id: that is how a filter says all. */
TEST(test_push_09_lan_vlans_beyond_a_filter_count_as_all)
{
	struct lan_vlans *v = vlans_make();
	uint16_t ids[LAN_VLANS_MAX] = { 0 };

	for (int i = 1; i <= LAN_VLANS_MAX + 1; i++)
		lan_vlans_put(v, i, (uint16_t)(4000 - i));
	EXPECT_EQ(lan_vlans_list(v, ids), 0);
	lan_vlans_put(v, 1, 0);
	EXPECT_EQ(lan_vlans_list(v, ids), LAN_VLANS_MAX);
	EXPECT_EQ(ids[0], 4000 - LAN_VLANS_MAX - 1);
	EXPECT_EQ(ids[LAN_VLANS_MAX - 1], 3998);
	free(v);
}

TEST(test_push_09_lan_vlans_of_too_many_interfaces_count_as_all)
{
	struct lan_vlans *v = vlans_make();
	uint16_t ids[LAN_VLANS_MAX] = { 0 };

	for (int i = 1; i <= LAN_VLAN_INTERFACES_MAX; i++)
		lan_vlans_put(v, i, 7);
	EXPECT_EQ(lan_vlans_list(v, ids), 1);
	lan_vlans_put(v, LAN_VLAN_INTERFACES_MAX + 1, 8);
	EXPECT_EQ(lan_vlans_list(v, ids), 0);
	free(v);
}
