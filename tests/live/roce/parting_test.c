/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer that refuses and leaves: why is known also where the NAK itself was lost. */
#include <poll.h>

#include "driver/roce/cm_id.h"
#include "driver/udp/udp_inside.h"
#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"

enum { PATIENCE_MS = PATIENCE_NS / 1000000 };

static struct weft_adapter *a, *b;
static struct node from, to;
static struct weft_cm_id *active, *passive;

static struct weft_cm_id_offer offer_of(const struct node *n)
{
	return (struct weft_cm_id_offer){
		.qp_number = weft_qp_number(n->qp),
		.retries = 7,
		.rnr_retries = WEFT_RNR_RETRY_FOREVER,
		.timeout_code = 20,
	};
}

static struct weft_roce_attr agreed_attr(const struct weft_cm_id_news *news)
{
	struct weft_roce_attr way = roce_way(news->qp_number);

	way.timeout_code = 20;
	return way;
}

static struct weft_cm_id_news news_of(struct weft_cm_id *c, enum weft_cm_id_kind kind)
{
	uint64_t since = thread_now_ns();
	struct weft_cm_id_news news;

	do {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		MUST(weft_cm_id_next(c, &news));
	} while (news.kind == WEFT_CM_NONE);
	REQUIRE(news.kind == kind);
	return news;
}

static void connect_both(void)
{
	const struct weft_cm_service_options at = { .at = roce_loopback,
						    .port_space = WEFT_PORT_SPACE_TCP };
	struct weft_cm_id_options how = { .path = { .from = roce_loopback, .mtu_bytes = 1024 },
					  .port_space = WEFT_PORT_SPACE_TCP };
	const struct weft_cm_id_offer offers[] = { offer_of(&from), offer_of(&to) };
	struct weft_cm_service *service;
	uint64_t since = thread_now_ns();
	struct weft_cm_id_news news;
	struct weft_roce_attr r;

	MUST(weft_cm_service_open(b, &at, &service));
	MUST(weft_cm_service_address(service, &how.path.to));
	MUST(weft_cm_id_open(a, &how, &offers[0], &active));
	do {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		MUST(weft_cm_service_next(service, NULL, &passive));
	} while (!passive);
	news = news_of(passive, WEFT_CM_REQUEST);
	r = agreed_attr(&news);
	MUST(weft_qp_to_rtr(to.qp, &r));
	MUST(weft_cm_id_bind(passive, to.qp));
	MUST(weft_cm_id_accept(passive, &offers[1]));
	news = news_of(active, WEFT_CM_REPLY);
	r = agreed_attr(&news);
	MUST(weft_qp_to_rtr(from.qp, &r));
	MUST(weft_cm_id_bind(active, from.qp));
	MUST(weft_qp_to_rts(from.qp, &r));
	MUST(weft_cm_id_ready(active));
	(void)news_of(passive, WEFT_CM_ESTABLISHED);
	MUST(weft_cm_service_close(service));
}

/* Its lock is held: what comes for the connection is lost. True: something came. */
static bool lose_packet(struct weft_qp *qp)
{
	const struct roce_conn *rc = ib_owner(ib_conn_of(qp));
	struct pollfd at = { .fd = rc->flow_ref.flow->socket.watch.fd, .events = POLLIN };
	uint8_t packet[IBA_PACKET_MAX];

	return poll(&at, 1, PATIENCE_MS) == 1 && recv(at.fd, packet, sizeof(packet), 0) > 0;
}

/* A Write that b refuses, after which it leaves; the NAK never reaches a. */
static void refuse_and_lose(void)
{
	const struct weft_sge s = node_seg(&from, 0, 8);
	struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, 1, &s, &to);
	bool has_lost;

	wr.remote_tag ^= 1;
	adapter_enter(b);
	REQUIRE(node_post(&from, &wr));
	adapter_enter(a);
	adapter_leave(b);
	has_lost = lose_packet(from.qp);
	adapter_leave(a);
	REQUIRE(has_lost);
}

TEST(test_roce_a_nak_that_was_lost_is_said_by_who_leaves)
{
	const char *why_not = own_network_enter();
	uint64_t since = thread_now_ns();
	struct weft_completion c;
	bool has_one = false;

	if (why_not)
		SKIP(why_not);
	a = roce_adapter_open_udp();
	b = roce_adapter_open_udp();
	node_open(a, &from, NULL);
	node_open(b, &to, NULL);
	connect_both();
	refuse_and_lose();
	while (!has_one) {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		REQUIRE(node_poll(from.cq, &c, &has_one));
	}
	MUST(weft_cm_id_close(active));
	MUST(weft_cm_id_close(passive));
	node_close(&from, NULL);
	node_close(&to, NULL);
	MUST(weft_adapter_close(a));
	MUST(weft_adapter_close(b));
	EXPECT_EQ(c.status, WEFT_ERR_REMOTE_ACCESS);
	EXPECT_EQ(c.reason, WEFT_R_PEER_RIGHTS);
}
