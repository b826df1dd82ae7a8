/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that agree on a ready-to-receive message and then do not send it, or say why they go. */
#include <string.h>
#include <unistd.h>

#include "hostile_raw.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"

enum { REPLY_MAX = 64 };

/* Asks for the peer-to-peer model, and reads the reply: the queue pair waits for the message. */
static int agree(struct rig *r, struct weft_qp *qp, uint64_t timeout_ns)
{
	const struct weft_connect_options options = { .timeout_ns = timeout_ns };
	const struct start s = { "Req", 0x50, 2, 4, { 0x8008, 0xc008 } };
	struct weft_request *request;
	uint8_t reply[REPLY_MAX];
	int fd = raw_dial(r);

	raw_start(fd, &s);
	request = rig_request(r, RAW_MS);
	REQUIRE(request);
	MUST(weft_request_accept(request, qp, &options));
	raw_recv(fd, reply, START_BYTES + 4);
	return fd;
}

TEST(test_rfc6581_9_the_message_never_comes)
{
	struct weft_qp *qp;
	struct rig r;
	int fd;

	rig_open(&r, NULL);
	qp = rig_qp(&r);
	fd = agree(&r, qp, (uint64_t)SOON_MS * 1000000);
	expect_event(&r, qp, WEFT_EVENT_CONNECT_FAILED, WEFT_R_CONNECT_TIMEOUT);
	EXPECT(raw_ends(fd));
	close(fd);
	MUST(weft_qp_destroy(qp));
	rig_close(&r);
}

TEST(test_rfc6581_9_the_peer_leaves_instead)
{
	for (int is_reset = 0; is_reset < 2; is_reset++) {
		struct weft_qp *qp;
		struct rig r;
		int fd;

		rig_open(&r, NULL);
		qp = rig_qp(&r);
		fd = agree(&r, qp, 0);
		if (is_reset)
			raw_reset(fd);
		else
			close(fd);
		expect_event(&r, qp, WEFT_EVENT_CONNECT_FAILED,
			     is_reset ? WEFT_R_STREAM_LOST : WEFT_R_PEER_GONE);
		MUST(weft_qp_destroy(qp));
		rig_close(&r);
	}
}

/* Dials without such a message, and then waits to be spoken to, as siw's programs do. */
TEST(test_rfc5044_7_1_2_listener_sends_first_if_configured)
{
	enum { SEND_BYTES = 24 };
	const struct weft_connect_options options = { .first_wait_ns = 1000 * 1000 };
	struct weft_send_wr send = { .opcode = WEFT_OP_SEND };
	const struct start s = { "Req", 0x50, 2, 4, { 0x0008, 0x0008 } };
	struct weft_request *request;
	uint8_t bytes[REPLY_MAX];
	struct weft_qp *qp;
	struct rig r;
	int fd;

	rig_open(&r, NULL);
	qp = rig_qp(&r);
	fd = raw_dial(&r);
	raw_start(fd, &s);
	request = rig_request(&r, RAW_MS);
	REQUIRE(request);
	MUST(weft_request_accept(request, qp, &options));
	raw_recv(fd, bytes, START_BYTES + 4);
	MUST(weft_qp_post_send(qp, &send, 1, NULL));
	raw_recv(fd, bytes, SEND_BYTES);
	EXPECT_EQ(bytes[3], 0x43);
	raw_reset(fd);
	expect_event(&r, qp, WEFT_EVENT_QP_ERROR, WEFT_R_STREAM_LOST);
	MUST(weft_qp_destroy(qp));
	rig_close(&r);
}

/* A request that was taken must be answered before the adapter goes. */
TEST(test_qp_16_adapter_is_busy_while_a_request_is_unanswered)
{
	struct weft_adapter *adapter;
	struct weft_listener *listener;
	struct weft_request *request;
	struct weft_address at = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct rig r;
	int fd;

	rig_open(&r, NULL);
	MUST(weft_adapter_open(NULL, &adapter));
	MUST(weft_listener_open(adapter, &at, NULL, &listener));
	MUST(weft_listener_address(listener, &r.at));
	fd = raw_dial(&r);
	raw_request(fd);
	do
		MUST(weft_listener_next(listener, &request));
	while (!request);
	EXPECT_EQ(weft_adapter_close(adapter), WEFT_R_BUSY);
	MUST(weft_listener_close(listener));
	EXPECT_EQ(weft_adapter_close(adapter), WEFT_R_BUSY);
	MUST(weft_request_reject(request, NULL));
	MUST(weft_adapter_close(adapter));
	close(fd);
	rig_close(&r);
}

/* What the peer said before its reset is what counts. */
TEST(test_iwarp_13_terminate_and_reset_at_once)
{
	const struct ddp_untagged h = {
		.is_last = true,
		.ulp = rdmap_control_encode(RDMAP_TERMINATE),
		.qn = RDMAP_QN_TERMINATE,
		.msn = 1,
	};
	const struct rdmap_terminate t = { .layer = 1, .type = 1, .code = 1 };
	uint8_t ulpdu[DDP_UNTAGGED_BYTES + RDMAP_TERMINATE_BYTES];
	struct wr w = wr_of(ulpdu, sizeof(ulpdu));
	struct weft_qp *qp;
	struct rig r;
	int fd;

	ddp_untagged_encode(&h, &w);
	rdmap_terminate_encode(&t, &w);
	REQUIRE(!w.is_short);
	rig_open(&r, NULL);
	qp = rig_qp(&r);
	fd = raw_connect(&r, qp);
	raw_fpdu(fd, ulpdu, sizeof(ulpdu));
	raw_reset(fd);
	expect_event(&r, qp, WEFT_EVENT_QP_ERROR, WEFT_R_RANGE_BOUNDS);
	MUST(weft_qp_destroy(qp));
	rig_close(&r);
}
