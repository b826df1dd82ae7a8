/* SPDX-License-Identifier: BSD-2-Clause */
/* Many cm_ids at a time: no datagram is lost on this host, whichever process gets it. */
#include <string.h>

#include "driver/roce/cm_id.h"
#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"

enum { CONTACTS = 200, ADAPTERS = 4, ACTIVE = 0, PASSIVE = 1 };

static struct weft_adapter *adapters[ADAPTERS]; /* those besides the two only hand on */
static struct weft_cm_service *service;
static struct weft_cm_id *active[CONTACTS], *passive[CONTACTS];
static uint32_t accepted, established;

/* No queue pair is needed, only numbers that differ. */
static struct weft_cm_id_offer offer_of(uint32_t i)
{
	return (struct weft_cm_id_offer){
		.qp_number = 0x10000 + i,
		.timeout_code = 14,
		.retries = 7,
		.rnr_retries = 7,
	};
}

static void open_all(void)
{
	const struct weft_cm_service_options at = {
		.at = roce_loopback,
		.port_space = WEFT_PORT_SPACE_TCP,
		.requests_max = CONTACTS,
	};

	for (int i = 0; i < ADAPTERS; i++)
		adapters[i] = roce_adapter_open();
	MUST(weft_cm_service_open(adapters[PASSIVE], &at, &service));
	accepted = established = 0;
}

static void close_all(void)
{
	MUST(weft_cm_service_close(service));
	for (uint32_t i = 0; i < CONTACTS; i++) {
		MUST(weft_cm_id_close(active[i]));
		MUST(weft_cm_id_close(passive[i]));
	}
	for (int i = 0; i < ADAPTERS; i++)
		MUST(weft_adapter_close(adapters[i]));
}

static void ask_all(void)
{
	struct weft_cm_id_options how = {
		.path = { .from = roce_loopback, .mtu_bytes = 1024 },
		.port_space = WEFT_PORT_SPACE_TCP,
	};

	MUST(weft_cm_service_address(service, &how.path.to));
	for (uint32_t i = 0; i < CONTACTS; i++) {
		const struct weft_cm_id_offer offer = offer_of(i);

		MUST(weft_cm_id_open(adapters[ACTIVE], &how, &offer, &active[i]));
	}
}

static void accept_next(void)
{
	const struct weft_cm_id_offer offer = offer_of(CONTACTS + accepted);
	struct weft_cm_id *c;

	MUST(weft_cm_service_next(service, NULL, &c));
	if (!c)
		return;
	REQUIRE(accepted < CONTACTS);
	passive[accepted++] = c;
	MUST(weft_cm_id_accept(c, &offer));
}

/* The oldest news of a cm_id, if it is this; no other may come. */
static bool has_news(struct weft_cm_id *c, enum weft_cm_id_kind kind)
{
	struct weft_cm_id_news news;

	MUST(weft_cm_id_next(c, &news));
	if (news.kind == WEFT_CM_REQUEST)
		MUST(weft_cm_id_next(c, &news));
	REQUIRE(news.kind == kind || news.kind == WEFT_CM_NONE);
	return news.kind == kind;
}

static void connect_all(void)
{
	bool is_ready[CONTACTS] = { false }, is_known[CONTACTS] = { false };
	uint64_t since = thread_now_ns();

	while (established < CONTACTS) {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		accept_next();
		for (uint32_t i = 0; i < CONTACTS; i++) {
			if (!is_ready[i] && has_news(active[i], WEFT_CM_REPLY)) {
				MUST(weft_cm_id_ready(active[i]));
				is_ready[i] = true;
			}
			if (i < accepted && !is_known[i] &&
			    has_news(passive[i], WEFT_CM_ESTABLISHED)) {
				is_known[i] = true;
				established++;
			}
		}
	}
}

static void part_all(void)
{
	uint64_t since = thread_now_ns();

	for (uint32_t i = 0; i < CONTACTS; i++)
		MUST(weft_cm_id_disconnect(active[i]));
	for (uint32_t i = 0; i < CONTACTS; i++) {
		while (!has_news(active[i], WEFT_CM_DISCONNECTED) ||
		       !has_news(passive[i], WEFT_CM_DISCONNECTED))
			REQUIRE(thread_now_ns() - since < PATIENCE_NS);
	}
}

struct sums {
	uint64_t out, in, lost, again, refused;
};

static struct sums sums_now(void)
{
	struct sums s = { 0 };

	for (int i = 0; i < ADAPTERS; i++) {
		const struct roce *r;

		adapter_enter(adapters[i]);
		adapter_watch(adapters[i]);
		r = roce_of(adapters[i]->net);
		s.out += ib_cm_counts(r->cm)->mads_out;
		s.in += ib_cm_counts(r->cm)->mads_in;
		s.lost += ib_port_counts(r->port)->dropped + udp_counts(r->udp)->lost_on +
			  r->refused;
		s.again += ib_cm_counts(r->cm)->again;
		s.refused += ib_cm_counts(r->cm)->dropped;
		adapter_leave(adapters[i]);
	}
	return s;
}

/*
 * What was sent has come, once the last of it is through. On a busy machine a message is sent again
 * whose answer comes late, and is refused then; no other is.
 */
static void nothing_is_lost(void)
{
	uint64_t since = thread_now_ns();
	struct sums s;

	do {
		s = sums_now();
	} while (s.out != s.in && thread_now_ns() - since < PATIENCE_NS / 10);
	EXPECT_EQ(s.lost, 0);
	EXPECT(s.refused <= s.again);
	EXPECT_EQ(s.in, s.out);
}

TEST(test_roce_many_cm_ids_lose_no_datagram)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	open_all();
	/* All requests lie there when the other end comes to look. */
	adapter_enter(adapters[PASSIVE]);
	ask_all();
	adapter_leave(adapters[PASSIVE]);
	connect_all();
	part_all();
	nothing_is_lost();
	close_all();
}

/* As after a machine that stood still: each of many messages is due again. */
TEST(test_roce_what_is_sent_again_is_sent_whole)
{
	const uint64_t later_ns = 1000000000;
	const char *why_not = own_network_enter();
	const struct ib_cm_counts *n;
	struct weft_adapter *a;

	if (why_not)
		SKIP(why_not);
	open_all();
	adapter_enter(adapters[PASSIVE]);
	ask_all();
	a = adapters[ACTIVE];
	adapter_enter(a);
	cm_ids_expire(roce_of(a->net), net_look_at_clock(a->net) + later_ns);
	n = ib_cm_counts(roce_of(a->net)->cm);
	EXPECT_EQ(n->mads_out - n->again, CONTACTS);
	adapter_leave_working(a);
	adapter_leave(adapters[PASSIVE]);
	connect_all();
	part_all();
	nothing_is_lost();
	close_all();
}

/* ---- A full service -------------------------------------------------------------------------- */

static struct weft_cm_id *ask_as(struct weft_adapter *a, uint32_t qp_number)
{
	struct weft_cm_id_options how = {
		.path = { .from = roce_loopback, .mtu_bytes = 1024 },
		.port_space = WEFT_PORT_SPACE_TCP,
	};
	struct weft_cm_id_offer offer = offer_of(0);
	struct weft_cm_id *c;

	offer.qp_number = qp_number;
	MUST(weft_cm_service_address(service, &how.path.to));
	MUST(weft_cm_id_open(a, &how, &offer, &c));
	return c;
}

static void await_news(struct weft_cm_id *c, enum weft_cm_id_kind kind)
{
	uint64_t since = thread_now_ns();

	while (!has_news(c, kind))
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
}

/* The next request of the service is for this queue pair of the peer. */
static void next_is(uint32_t qp_number)
{
	struct weft_cm_id_news news;
	struct weft_cm_id *c;

	MUST(weft_cm_service_next(service, NULL, &c));
	REQUIRE(c);
	MUST(weft_cm_id_next(c, &news));
	EXPECT(news.kind == WEFT_CM_REQUEST && news.qp_number == qp_number);
	MUST(weft_cm_id_close(c));
}

/* Requests that the program has not taken: a connected peer takes an unproven peer's place. */
TEST(test_roce_a_connected_peer_finds_room_in_a_full_service)
{
	enum { UNPROVEN = 2, HELD = 2 };
	const struct weft_cm_service_options at = { .at = roce_loopback,
						    .port_space = WEFT_PORT_SPACE_TCP,
						    .requests_max = HELD };
	const char *why_not = own_network_enter();
	struct weft_cm_id *known[2], *unproven[HELD + 1], *first;
	uint64_t since = thread_now_ns();

	if (why_not)
		SKIP(why_not);
	for (int i = 0; i < 3; i++)
		adapters[i] = roce_adapter_open();
	MUST(weft_cm_service_open(adapters[PASSIVE], &at, &service));
	known[0] = ask_as(adapters[ACTIVE], 0x10001);
	do {
		MUST(weft_cm_service_next(service, NULL, &first));
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
	} while (!first);
	const struct weft_cm_id_offer offer = offer_of(7);

	MUST(weft_cm_id_accept(first, &offer));
	await_news(known[0], WEFT_CM_REPLY);
	MUST(weft_cm_id_ready(known[0]));
	await_news(first, WEFT_CM_ESTABLISHED);
	for (uint32_t i = 0; i <= HELD; i++)
		unproven[i] = ask_as(adapters[UNPROVEN], 0x20001 + i);
	await_news(unproven[HELD], WEFT_CM_REJECTED);
	known[1] = ask_as(adapters[ACTIVE], 0x10002);
	await_news(unproven[0], WEFT_CM_REJECTED);
	next_is(0x20002);
	next_is(0x10002);
	MUST(weft_cm_service_close(service));
	MUST(weft_cm_id_close(first));
	for (uint32_t i = 0; i <= HELD; i++)
		MUST(weft_cm_id_close(unproven[i]));
	for (int i = 0; i < 2; i++)
		MUST(weft_cm_id_close(known[i]));
	for (int i = 0; i < 3; i++)
		MUST(weft_adapter_close(adapters[i]));
}

/* What a program left behind the four bytes of an IPv4 address is not looked at. */
TEST(test_cm_services_at_every_address_leave_none_to_others)
{
	struct weft_cm_service_options at = {
		.at = { .family = 4, .ip = { [4] = 0x5a, [15] = 0xa5 } },
		.port_space = WEFT_PORT_SPACE_TCP,
	};
	struct weft_cm_service *first, *second = NULL;
	const char *why_not = own_network_enter();
	struct weft_adapter *a;

	if (why_not)
		SKIP(why_not);
	MUST(weft_adapter_open(NULL, &a));
	MUST(weft_roce_open(a));
	MUST(weft_cm_service_open(a, &at, &first));
	MUST(weft_cm_service_address(first, &at.at));
	memcpy(at.at.ip, roce_loopback.ip, sizeof(at.at.ip));
	EXPECT_EQ(weft_cm_service_open(a, &at, &second), WEFT_R_ADDRESS_IN_USE);
	if (second)
		MUST(weft_cm_service_close(second));
	MUST(weft_cm_service_close(first));
	MUST(weft_adapter_close(a));
}

/* A conversation lasts as long as its connection does. */
TEST(test_roce_a_cm_id_for_every_queue_pair)
{
	enum { QPS = 6000 };
	static struct weft_cm_id *cm_ids[QPS];
	const char *why_not = own_network_enter();
	/* To an unroutable address, so no answer comes. */
	const struct weft_cm_id_options how = {
		.path = { .from = roce_loopback,
			  .to = { .family = 4, .ip = { 192, 0, 2, 1 }, .port = 1 },
			  .mtu_bytes = 1024 },
		.port_space = WEFT_PORT_SPACE_TCP,
	};
	struct weft_adapter *a;
	uint32_t count = 0;

	if (why_not)
		SKIP(why_not);
	MUST(weft_adapter_open(&(struct weft_adapter_options){ .qps_max = QPS }, &a));
	for (; count < QPS; count++) {
		const struct weft_cm_id_offer offer = offer_of(count);

		if (weft_cm_id_open(a, &how, &offer, &cm_ids[count]) != WEFT_OK)
			break;
	}
	EXPECT_EQ(count, QPS);
	while (count > 0)
		MUST(weft_cm_id_close(cm_ids[--count]));
	MUST(weft_adapter_close(a));
}
