/* SPDX-License-Identifier: BSD-2-Clause */
/* weft_qp_dial() of a queue pair in iSCSI mode: TCP alone, and how it fails. */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "live/iscsi/live_iscsi.h"

static void close_all(struct consumer *c, struct script *s)
{
	consumer_close(c);
	MUST(weft_adapter_close(c->adapter));
	script_close(s);
}

/* The first byte on the wire is the consumer's. */
TEST(test_iscsi_01a_live_dialling_sends_nothing)
{
	struct iscsi_pdu nop = {
		.opcode = ISCSI_NOP_OUT, .is_immediate = true, .itt = 5, .ttt = ISCSI_TAG_NONE
	};
	struct weft_connect_options options = { 0 };
	struct weft_address from = { .family = 4, .ip = { 127, 0, 0, 9 } };
	const struct said *said;
	struct weft_peer peer;
	struct consumer c;
	struct script s;

	script_open(&s);
	consumer_open(&c, NULL);
	options.from = &from;
	MUST(weft_qp_dial(c.qp, &s.at, &options));
	REQUIRE(consumer_await(&c, WEFT_EVENT_CONNECTED) == WEFT_OK);
	script_accept(&s);
	MUST(weft_qp_peer(c.qp, &peer));
	EXPECT(peer.local.ip[3] == 9 && peer.remote.port == s.at.port);
	EXPECT(peer.mpa_revision == 0 && !peer.has_crc && peer.private_bytes == 0);
	MUST(consumer_control(&c, &nop, NULL));
	said = script_take(&s, ISCSI_NOP_OUT);
	EXPECT_EQ(said->pdu.itt, 5);
	EXPECT_EQ(weft_qp_dial(c.qp, &s.at, NULL), WEFT_R_QP_STATE);
	close_all(&c, &s);
}

TEST(test_iscsi_01a_live_dialling_at_a_port_without_listener)
{
	struct weft_address nowhere = { .family = 9 };
	struct iscsi_pdu read;
	struct consumer c;
	struct script s;
	uint32_t id;

	script_bind(&s);
	consumer_open(&c, NULL);
	EXPECT_EQ(weft_qp_dial(c.qp, &nowhere, NULL), WEFT_R_ADDRESS);
	read = read_pdu(&c, 0, 1);
	EXPECT_EQ(consumer_try(&c, &read, 0, &id), WEFT_R_WR_STATE);
	if (weft_qp_dial(c.qp, &s.at, NULL) == WEFT_OK)
		EXPECT_EQ(consumer_await(&c, WEFT_EVENT_CONNECT_FAILED), WEFT_R_CONNECT_REFUSED);
	/* The same queue pair may try again. */
	REQUIRE(listen(s.listener, 8) == 0);
	script_connect(&s, &c);
	close_all(&c, &s);
}

/* refused_wait_ns: a target that begins later. */
TEST(test_iscsi_01a_live_dialling_a_target_that_comes_later)
{
	const struct weft_connect_options patient = { .refused_wait_ns = PATIENCE_NS };
	struct weft_event event;
	bool has_event;
	struct consumer c;
	struct script s;

	script_bind(&s);
	consumer_open(&c, NULL);
	MUST(weft_qp_dial(c.qp, &s.at, &patient));
	MUST(weft_event_next(c.adapter, 20 * 1000 * 1000, &event, &has_event));
	EXPECT(!has_event);
	REQUIRE(listen(s.listener, 8) == 0);
	REQUIRE(consumer_await(&c, WEFT_EVENT_CONNECTED) == WEFT_OK);
	close_all(&c, &s);
}

/* timeout_ns: a host that answers no SYN, as the backlog of its listener is full. */
TEST(test_iscsi_01a_live_dialling_a_target_that_does_not_answer)
{
	const struct weft_connect_options hasty = { .timeout_ns = 50 * 1000 * 1000 };
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fds[8];
	struct consumer c;
	struct script s;

	script_open(&s);
	REQUIRE(listen(s.listener, 0) == 0);
	at.sin_port = htons(s.at.port);
	for (int i = 0; i < 8; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)connect(fds[i], (struct sockaddr *)&at, sizeof(at));
	}
	consumer_open(&c, NULL);
	MUST(weft_qp_dial(c.qp, &s.at, &hasty));
	EXPECT_EQ(consumer_await(&c, WEFT_EVENT_CONNECT_FAILED), WEFT_R_CONNECT_TIMEOUT);
	for (int i = 0; i < 8; i++)
		close(fds[i]);
	close_all(&c, &s);
}

/* Its queue pair goes before the connection is there: nothing is left of it. */
TEST(test_iscsi_01a_live_queue_pair_that_goes_while_it_dials)
{
	const struct weft_connect_options patient = { .refused_wait_ns = PATIENCE_NS };
	struct consumer_options none = { 0 };
	struct weft_qp_attr reset = { .state = WEFT_QPS_RESET };
	struct weft_qp *other;
	struct consumer c;
	struct script s;

	script_bind(&s);
	consumer_open(&c, NULL);
	other = consumer_qp(&c, &none);
	MUST(weft_qp_dial(other, &s.at, &patient));
	EXPECT_EQ(weft_qp_dial(other, &s.at, &patient), WEFT_R_QP_CONNECTED);
	MUST(weft_qp_modify(other, &reset, WEFT_QP_STATE));
	MUST(weft_qp_dial(other, &s.at, &patient));
	MUST(weft_qp_destroy(other));
	REQUIRE(listen(s.listener, 8) == 0);
	consumer_connect(&c, &s.at);
	script_accept(&s);
	close_all(&c, &s);
}
