/* SPDX-License-Identifier: BSD-2-Clause */
/* A service that is not there yet is asked for again, of both kinds, until the time is over. */
#include <sched.h>
#include <string.h>

#include "driver/roce/cm_id.h"
#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"

static const uint8_t question[] = "which one?";
static struct weft_adapter *client, *server;
static struct weft_cm_service_options at;
static struct weft_cm_id *cm_id;

/* Both adapters, and a port without a service. */
static void open_both(bool is_datagram)
{
	struct weft_cm_service *service;

	at = (struct weft_cm_service_options){
		.at = roce_loopback,
		.is_datagram = is_datagram,
		.port_space = is_datagram ? WEFT_PORT_SPACE_UDP : WEFT_PORT_SPACE_TCP,
	};
	client = roce_adapter_open();
	server = roce_adapter_open();
	MUST(weft_cm_service_open(server, &at, &service));
	MUST(weft_cm_service_address(service, &at.at));
	MUST(weft_cm_service_close(service));
}

static void close_both(void)
{
	MUST(weft_cm_id_close(cm_id));
	MUST(weft_adapter_close(client));
	MUST(weft_adapter_close(server));
}

static void ask(uint64_t refused_wait_ns)
{
	const struct weft_cm_id_options how = {
		.path = { .from = roce_loopback, .to = at.at, .mtu_bytes = 1024 },
		.is_datagram = at.is_datagram,
		.port_space = at.port_space,
		.refused_wait_ns = refused_wait_ns,
	};
	uint8_t words[sizeof(question)];
	const struct weft_cm_id_offer offer = {
		.qp_number = 0x10001,
		.timeout_code = 14,
		.private_data = words,
		.private_bytes = sizeof(words),
	};

	memcpy(words, question, sizeof(words));
	MUST(weft_cm_id_open(client, &how, &offer, &cm_id));
	memset(words, 0, sizeof(words)); /* they were kept */
}

static struct weft_cm_id_news await_news(struct weft_cm_id *c)
{
	uint64_t since = thread_now_ns();
	struct weft_cm_id_news news;

	for (;;) {
		MUST(weft_cm_id_next(c, &news));
		if (news.kind != WEFT_CM_NONE)
			return news;
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		sched_yield();
	}
}

/* The client was told no, and waits to ask once more. */
static void await_refusal(void)
{
	uint64_t since = thread_now_ns();
	bool is_refused = false;

	while (!is_refused) {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		adapter_enter(client);
		is_refused = !list_is_empty(&roce_of(client->net)->again);
		adapter_leave(client);
		sched_yield();
	}
}

static struct weft_cm_id *await_request(struct weft_cm_service *service)
{
	uint64_t since = thread_now_ns();
	struct weft_cm_id *c = NULL;

	while (!c) {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		MUST(weft_cm_service_next(service, NULL, &c));
		sched_yield();
	}
	return c;
}

static void serve_late(bool is_datagram)
{
	const struct weft_cm_id_offer offer = {
		.qp_number = 0x20002, .psn = 0x123456, .q_key = 0x77, .timeout_code = 14
	};
	struct weft_cm_service *service;
	struct weft_cm_id_news asked, answer;
	struct weft_cm_id *c;

	open_both(is_datagram);
	ask(PATIENCE_NS);
	await_refusal();
	MUST(weft_cm_id_next(cm_id, &answer));
	REQUIRE(answer.kind == WEFT_CM_NONE); /* not reported yet */
	MUST(weft_cm_service_open(server, &at, &service));
	c = await_request(service);
	asked = await_news(c);
	MUST(weft_cm_id_accept(c, &offer));
	answer = await_news(cm_id);
	MUST(weft_cm_service_close(service));
	MUST(weft_cm_id_close(c));
	close_both();
	EXPECT_EQ(asked.kind, WEFT_CM_REQUEST);
	EXPECT_MEM(asked.private_data, question, sizeof(question));
	EXPECT_EQ(answer.kind, WEFT_CM_REPLY);
	EXPECT_EQ(answer.qp_number, offer.qp_number);
	EXPECT_EQ(is_datagram ? answer.q_key : answer.psn, is_datagram ? offer.q_key : offer.psn);
}

TEST(test_iba_12_11_a_service_of_datagrams_that_comes_late_is_found)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	serve_late(true);
}

TEST(test_iba_12_9_a_service_of_connections_that_comes_late_is_found)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	serve_late(false);
}

/* No time, and one that is over when the first answer comes: that answer is answer. */
TEST(test_iba_12_11_a_service_that_does_not_come_is_refused_in_the_end)
{
	static const uint64_t waits_ns[] = { 0, 1 };
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	for (int i = 0; i < 4; i++) {
		bool is_datagram = i % 2;
		struct weft_cm_id_news news;

		open_both(is_datagram);
		ask(waits_ns[i / 2]);
		news = await_news(cm_id);
		close_both();
		EXPECT_EQ(news.kind, WEFT_CM_REJECTED);
		EXPECT_EQ(news.code,
			  is_datagram ? (int)IBCM_SIDR_UNSUPPORTED : (int)IBCM_REJECT_SERVICE_ID);
	}
}

/* A cm_id that is closed while it waits does not ask again. */
TEST(test_iba_12_11_who_is_closed_does_not_ask_again)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	for (int i = 0; i < 2; i++) {
		bool is_none;

		open_both(i == 0);
		ask(PATIENCE_NS);
		await_refusal();
		MUST(weft_cm_id_close(cm_id));
		adapter_enter(client);
		is_none = list_is_empty(&roce_of(client->net)->again);
		adapter_leave(client);
		MUST(weft_adapter_close(client));
		MUST(weft_adapter_close(server));
		EXPECT(is_none);
	}
}
