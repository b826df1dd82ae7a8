/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <string.h>

#include "lan/plan.h"

static bool is_plan(const char *text, struct lan_plan *p)
{
	const char *why = NULL;
	bool is_good = lan_plan_parse(text, p, &why);

	harness_note("%s: %s", text, is_good ? "good" : why);
	return is_good && (why != NULL);
}

TEST(test_lan_plan_every_kind)
{
	static const uint8_t mac[LAN_MAC_BYTES] = { 2, 0, 0xab, 0xCD, 0, 1 };
	struct lan_plan p;

	EXPECT(is_plan("packet:eth0,fanout=7", &p));
	EXPECT_EQ(p.kind, LAN_KIND_PACKET);
	EXPECT_STR(p.name, "eth0");
	EXPECT_EQ(p.fanout, 7);
	EXPECT(!p.is_path && p.mtu == 0 && !p.has_mac);
	EXPECT(is_plan("tap:card0,mtu=9000,mac=02:00:ab:CD:00:01,queues=16", &p));
	EXPECT_EQ(p.kind, LAN_KIND_TAP);
	EXPECT_EQ(p.mtu, 9000);
	EXPECT(p.has_mac && p.queues == 16);
	EXPECT_MEM(p.mac, mac, sizeof(mac));
	EXPECT(is_plan("socket:/run/net", &p));
	EXPECT_EQ(p.kind, LAN_KIND_SOCKET);
	EXPECT(p.is_path && !p.is_listening);
	EXPECT(is_plan("socket:[::1]:55,listen", &p));
	EXPECT_STR(p.name, "[::1]:55");
	EXPECT(!p.is_path && p.is_listening);
	EXPECT(is_plan("vhost-user:card", &p));
	EXPECT(p.is_path);
}

TEST(test_lan_plan_refuses_what_is_none)
{
	static const char *const bad[] = {
		"",
		"tap",
		"tap:",
		"tun:x",
		"tap:x,",
		"tap:x,,queues=2",
		"tap:abcdefghijklmnop",
		"tap:x,fanout=1",
		"tap:x,queues",
		"tap:x,queues=0",
		"tap:x,queues=17",
		"packet:x,queues=2",
		"tap:x,mtu=67",
		"tap:x,mtu=65522",
		"tap:x,mtu",
		"tap:x,mtu=1k",
		"tap:x,mac=03:00:00:00:00:01",
		"tap:x,mac=00:00:00:00:00:00",
		"tap:x,mac=02:00:00:00:00",
		"tap:x,mac=02:00:00:00:00:0g",
		"tap:x,mac=02-00-00-00-00-01",
		"packet:x,fanout=0",
		"packet:x,fanout=65536",
		"packet:x,listen",
		"socket:/x,list",
		"vhost-user:x,mtu=1500",
		"vhost-user:x,mac=02:00:00:00:00:01",
	};
	struct lan_plan p = { .mtu = 5 };
	char path[LAN_NAME_MAX + 16] = "socket:/";

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *why = NULL;

		harness_note("%s", bad[i]);
		EXPECT(!lan_plan_parse(bad[i], &p, &why));
		EXPECT(p.mtu == 5);
	}
	memset(path + strlen(path), 'x', LAN_NAME_MAX - 2);
	EXPECT_EQ(strlen(path), strlen("socket:") + LAN_NAME_MAX - 1);
	EXPECT(is_plan(path, &p));
	path[strlen(path)] = 'x';
	EXPECT(!is_plan(path, &p));
}

/* The kernel would say no more than that it does not take them. */
TEST(test_lan_names_that_no_interface_has_are_refused_with_a_reason)
{
	static const char *const bad[] = { "tap:.",   "tap:..",	 "packet:a/b", "tap:../x",
					   "tap:a b", "tap:a:b", "tap:" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct lan_plan p;
		const char *why = "";

		harness_note("%s", bad[i]);
		EXPECT(!lan_plan_parse(bad[i], &p, &why));
		EXPECT(strstr(why, "name of an interface") != NULL);
	}
	EXPECT(is_plan("tap:...", &(struct lan_plan){ 0 }));
	EXPECT(is_plan("packet:eth0.7", &(struct lan_plan){ 0 }));
}
