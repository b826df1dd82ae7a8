/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that talks to etcd. */
#include "roles/etcd_agent.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"
#include "unit/roles/etcd_server.h"

static const struct platform seven = { 7, 1 }, two = { 2, 1 };

static struct etcd_server server;
static char why[ETCD_WHY];

static uint32_t lease_s = 1;

/* As self, at this port, if any; looks for the other one. */
static struct etcd_agent *agent_start(struct platform self, uint16_t port, struct platform other)
{
	struct etcd_agent_config c = {
		.etcd = { .url = server.url, .prefix = "/weft/", .timeout_ms = 10000 },
		.self = self,
		.wanted = &other,
		.wanted_count = 1,
		.lease_s = lease_s
	};
	struct etcd_agent *a = NULL;

	if (port != 0)
		c.address = (struct weft_address){ .family = 4,
						   .ip = { 127, 0, 0, 1 },
						   .port = port };
	if (!etcd_agent_start(&c, &a, why)) {
		printf("%s\n", why);
		REQUIRE(false);
	}
	return a;
}

/* It has something new to say. */
static void await_change(struct etcd_agent *a)
{
	struct pollfd fd = { .fd = etcd_agent_descriptor(a), .events = POLLIN };

	REQUIRE(poll(&fd, 1, 30000) == 1);
	etcd_agent_seen(a);
	REQUIRE(poll(&fd, 1, 0) == 0);
}

static struct weft_address await_address(struct etcd_agent *a)
{
	struct weft_address address;

	while (!etcd_agent_address(a, 0, &address))
		await_change(a);
	return address;
}

struct looking {
	struct etcd *e;
	struct platform who;
	bool is_wanted;
};

static bool is_as_wanted(void *context)
{
	struct looking *l = context;
	struct weft_address a;

	return etcd_find(l->e, &l->who, 1, &a, why) && (a.family != 0) == l->is_wanted;
}

static bool await_in_etcd(struct platform who, bool is_wanted)
{
	struct etcd_config c = { .url = server.url, .prefix = "/weft/" };
	struct looking l = { .who = who, .is_wanted = is_wanted };
	bool is_so;

	REQUIRE(etcd_open(&c, &l.e, why));
	is_so = wait_until(is_as_wanted, &l);
	etcd_close(l.e);
	return is_so;
}

TEST(test_rio_14_agents_find_each_other)
{
	struct etcd_agent *a, *b;

	if (etcd_server_lack())
		SKIP(etcd_server_lack());
	etcd_server_start(&server, false);
	a = agent_start(seven, 7470, two);
	b = agent_start(two, 7471, seven);
	EXPECT_EQ(await_address(a).port, 7471);
	EXPECT_EQ(await_address(b).port, 7470);
	EXPECT(!etcd_agent_trouble(a, why));
	/* An agent keeps the last known address. */
	etcd_agent_stop(b);
	EXPECT(await_in_etcd(two, false));
	EXPECT_EQ(await_address(a).port, 7471);
	/* Elsewhere again. */
	etcd_agent_seen(a);
	b = agent_start(two, 7472, seven);
	while (await_address(a).port != 7472)
		await_change(a);
	etcd_agent_stop(a);
	etcd_agent_stop(b);
	etcd_server_stop(&server);
}

TEST(test_etcd_agent_takes_its_address_away)
{
	struct etcd_agent *a;

	if (etcd_server_lack())
		SKIP(etcd_server_lack());
	etcd_server_start(&server, false);
	lease_s = 1000;
	a = agent_start(two, 7471, seven);
	EXPECT(await_in_etcd(two, true));
	etcd_agent_stop(a);
	lease_s = 1;
	EXPECT(await_in_etcd(two, false));
	etcd_server_stop(&server);
}

/* Takes leases as long as the agents', one after the other, and renews none. */
static void let_leases_expire(int count)
{
	struct etcd_config c = { .url = server.url, .prefix = "/weft/" };
	struct looking l = { .who = { 9, 9 }, .is_wanted = false };
	struct weft_address nine = { .family = 4, .port = 9 };
	int64_t lease;

	REQUIRE(etcd_open(&c, &l.e, why));
	for (int i = 0; i < count; i++) {
		REQUIRE(etcd_grant(l.e, 1, &lease, why));
		REQUIRE(etcd_put(l.e, l.who, &nine, lease, why));
		REQUIRE(wait_until(is_as_wanted, &l));
	}
	etcd_close(l.e);
}

TEST(test_etcd_agent_outlasts_its_lease_and_vanishes_when_killed)
{
	struct etcd_agent *watcher;
	pid_t child;

	if (etcd_server_lack())
		SKIP(etcd_server_lack());
	etcd_server_start(&server, false);
	child = fork();
	REQUIRE(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)agent_start(two, 7471, seven);
		for (;;)
			pause();
	}
	EXPECT(await_in_etcd(two, true));
	watcher = agent_start(seven, 0, two);
	EXPECT_EQ(await_address(watcher).port, 7471);
	etcd_agent_stop(watcher);
	let_leases_expire(3);
	EXPECT(await_in_etcd(two, true));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	EXPECT(await_in_etcd(two, false));
	etcd_server_stop(&server);
}

TEST(test_etcd_agent_outlasts_an_etcd_that_forgets)
{
	struct etcd_agent *a;

	if (etcd_server_lack())
		SKIP(etcd_server_lack());
	etcd_server_start(&server, false);
	a = agent_start(seven, 7470, seven);
	EXPECT_EQ(await_address(a).port, 7470);
	etcd_server_kill(&server);
	while (!etcd_agent_trouble(a, why))
		await_change(a);
	EXPECT(strstr(why, server.url));
	EXPECT_EQ(await_address(a).port, 7470);
	etcd_server_restart(&server, true);
	EXPECT(await_in_etcd(seven, true));
	while (etcd_agent_trouble(a, why))
		await_change(a);
	etcd_agent_stop(a);
	EXPECT(await_in_etcd(seven, false));
	etcd_server_stop(&server);
}

TEST(test_etcd_agent_starts_and_stops_without_an_etcd)
{
	struct weft_address address;
	struct etcd_agent *a;
	unsigned int port;

	if (!etcd_is_built())
		SKIP("built without libcurl and jansson");
	close(loopback_listen(&port));
	snprintf(server.url, sizeof(server.url), "http://127.0.0.1:%u", port);
	a = agent_start(seven, 7470, two);
	while (!etcd_agent_trouble(a, why))
		await_change(a);
	EXPECT(!etcd_agent_address(a, 0, &address));
	etcd_agent_stop(a);
}
