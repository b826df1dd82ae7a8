/* SPDX-License-Identifier: BSD-2-Clause */
/* Hostile listeners, absent ones, and queue pairs that go while they connect. */
#include "hostile_raw.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct weft_connect_options soon = {
	.timeout_ns = (uint64_t)SOON_MS * 1000000,
};

enum { REQUEST_BYTES = START_BYTES + 4 };

/* A queue pair dials a raw listener, which has taken the request. */
struct dialled {
	struct rig rig;
	struct weft_qp *qp;
	int listener, fd;
};

static void dialled_open(struct dialled *d, const struct weft_connect_options *options)
{
	uint8_t request[REQUEST_BYTES];
	struct weft_address at;

	rig_open(&d->rig, NULL);
	d->listener = raw_listen(4, &at);
	d->qp = rig_qp(&d->rig);
	MUST(weft_qp_dial(d->qp, &at, options));
	d->fd = raw_accept(d->listener);
	raw_recv(d->fd, request, sizeof(request));
	REQUIRE(memcmp(request, "MPA ID Req Frame", 16) == 0);
}

static void dialled_close(struct dialled *d)
{
	struct weft_qp_attr attr;

	/* It is as before, and may dial again. */
	MUST(weft_qp_query(d->qp, &attr));
	EXPECT_EQ(attr.state, WEFT_QPS_RESET);
	MUST(weft_qp_destroy(d->qp));
	close(d->listener);
	rig_close(&d->rig);
}

static void refuse_reply(const struct start *s, enum weft_reason reason)
{
	struct dialled d;

	dialled_open(&d, NULL);
	raw_start(d.fd, s);
	expect_event(&d.rig, d.qp, WEFT_EVENT_CONNECT_FAILED, reason);
	EXPECT(raw_ends(d.fd));
	close(d.fd);
	dialled_close(&d);
}

TEST(test_rfc5044_7_1_reply_is_no_reply)
{
	refuse_reply(&(struct start){ "Bad", 0x50, 2, 4, { 8, 8 } }, WEFT_R_MPA_KEY);
	refuse_reply(&(struct start){ "Req", 0x50, 2, 4, { 8, 8 } }, WEFT_R_MPA_KEY);
	refuse_reply(&(struct start){ "Rep", 0x40, 7, 0, { 0 } }, WEFT_R_MPA_REVISION);
	refuse_reply(&(struct start){ "Rep", 0x40, 2, 513, { 0 } }, WEFT_R_MPA_LENGTH);
	refuse_reply(&(struct start){ "Rep", 0x40, 2, 0xffff, { 0 } }, WEFT_R_MPA_LENGTH);
}

TEST(test_rfc5044_7_1_rejected)
{
	struct weft_peer peer;
	struct dialled d;

	dialled_open(&d, NULL);
	raw_start(d.fd, &(struct start){ "Rep", 0x70, 2, 7, { 8, 8 } });
	raw_send(d.fd, "no!", 3);
	expect_event(&d.rig, d.qp, WEFT_EVENT_CONNECT_FAILED, WEFT_R_CONNECT_REJECTED);
	MUST(weft_qp_peer(d.qp, &peer));
	EXPECT_EQ(peer.private_bytes, 3);
	EXPECT_MEM(peer.private_data, "no!", 3);
	EXPECT(raw_ends(d.fd));
	close(d.fd);
	dialled_close(&d);
}

TEST(test_rfc5042_6_4_3_listener_that_never_answers)
{
	uint64_t begin = now_ms();
	struct dialled d;

	dialled_open(&d, &soon);
	expect_event(&d.rig, d.qp, WEFT_EVENT_CONNECT_FAILED, WEFT_R_CONNECT_TIMEOUT);
	EXPECT(now_ms() - begin >= SOON_MS - 1);
	EXPECT(raw_ends(d.fd));
	close(d.fd);
	dialled_close(&d);
}

/* An answer a byte at a time: it gets no more time than a silent one. */
TEST(test_rfc5042_6_4_3_listener_that_answers_slowly)
{
	struct timeval pause = { .tv_usec = 10000 };
	struct dialled d;
	uint8_t byte;
	int i;

	dialled_open(&d, &soon);
	REQUIRE(setsockopt(d.fd, SOL_SOCKET, SO_RCVTIMEO, &pause, sizeof(pause)) == 0);
	for (i = 0; i < 16; i++) {
		raw_send(d.fd, &"MPA ID Rep Frame"[i], 1);
		if (recv(d.fd, &byte, 1, 0) == 0)
			break;
	}
	expect_event(&d.rig, d.qp, WEFT_EVENT_CONNECT_FAILED, WEFT_R_CONNECT_TIMEOUT);
	close(d.fd);
	dialled_close(&d);
}

TEST(test_rfc5044_7_1_listener_closes)
{
	for (int is_reset = 0; is_reset < 2; is_reset++) {
		struct dialled d;

		dialled_open(&d, NULL);
		if (is_reset)
			raw_reset(d.fd);
		else
			close(d.fd);
		expect_event(&d.rig, d.qp, WEFT_EVENT_CONNECT_FAILED, WEFT_R_CONNECT_CLOSED);
		dialled_close(&d);
	}
}

/* TCP itself is not established: a listener with a full backlog. */
TEST(test_rfc5042_6_4_3_connection_is_not_accepted)
{
	enum { CROWD = 4 };
	struct weft_qp *qps[CROWD];
	struct weft_address at;
	struct rig r;
	int listener;

	rig_open(&r, NULL);
	listener = raw_listen(0, &at);
	for (int i = 0; i < CROWD; i++) {
		qps[i] = rig_qp(&r);
		MUST(weft_qp_dial(qps[i], &at, &soon));
	}
	for (int i = 0; i < CROWD; i++) {
		expect_event(&r, qps[i], WEFT_EVENT_CONNECT_FAILED, WEFT_R_CONNECT_TIMEOUT);
		MUST(weft_qp_destroy(qps[i]));
	}
	close(listener);
	rig_close(&r);
}

TEST(test_iwarp_12_dial_to_a_closed_port)
{
	struct weft_address at;
	enum weft_reason reason;
	struct weft_qp *qp;
	struct rig r;

	rig_open(&r, NULL);
	close(raw_listen(1, &at));
	qp = rig_qp(&r);
	reason = weft_qp_dial(qp, &at, NULL);
	if (reason == WEFT_OK)
		expect_event(&r, qp, WEFT_EVENT_CONNECT_FAILED, WEFT_R_CONNECT_REFUSED);
	else
		EXPECT_EQ(reason, WEFT_R_CONNECT_REFUSED);
	MUST(weft_qp_destroy(qp));
	rig_close(&r);
}

/* No packet leaves for these: TCP goes to one host. */
TEST(test_iwarp_12_dial_to_the_unreachable)
{
	const struct weft_address broadcast = { .family = 4,
						.ip = { 255, 255, 255, 255 },
						.port = 7 };
	const struct weft_address nowhere = { .family = 5, .port = 7 };
	struct weft_qp *qp;
	struct rig r;

	rig_open(&r, NULL);
	qp = rig_qp(&r);
	EXPECT_EQ(weft_qp_dial(qp, &broadcast, NULL), WEFT_R_CONNECT_UNREACHABLE);
	EXPECT_EQ(weft_qp_dial(qp, &nowhere, NULL), WEFT_R_ADDRESS);
	/* It can be dialled all the same. */
	MUST(weft_qp_dial(qp, &r.at, NULL));
	MUST(weft_qp_destroy(qp));
	rig_close(&r);
}

/* ---- Queue pairs that go while they connect ------------------------------------------------- */

TEST(test_iwarp_12_destroyed_while_connecting)
{
	struct dialled d;

	dialled_open(&d, NULL);
	MUST(weft_qp_destroy(d.qp));
	EXPECT(raw_ends(d.fd));
	close(d.fd);
	d.qp = rig_qp(&d.rig);
	dialled_close(&d);
}

TEST(test_qp_14_moved_while_connecting)
{
	static const enum weft_qp_state states[] = { WEFT_QPS_ERROR, WEFT_QPS_RESET };

	for (size_t i = 0; i < 2; i++) {
		struct weft_qp_attr attr = { .state = states[i] };
		struct dialled d;

		dialled_open(&d, NULL);
		MUST(weft_qp_modify(d.qp, &attr, WEFT_QP_STATE));
		EXPECT(raw_ends(d.fd));
		close(d.fd);
		attr.state = WEFT_QPS_RESET;
		MUST(weft_qp_modify(d.qp, &attr, WEFT_QP_STATE));
		/* And it may dial again. */
		MUST(weft_qp_dial(d.qp, &d.rig.at, NULL));
		MUST(weft_qp_modify(d.qp, &attr, WEFT_QP_STATE));
		dialled_close(&d);
	}
}

TEST(test_qp_15_dial_twice)
{
	struct dialled d;

	dialled_open(&d, NULL);
	EXPECT_EQ(weft_qp_dial(d.qp, &d.rig.at, NULL), WEFT_R_QP_CONNECTED);
	raw_reset(d.fd);
	expect_event(&d.rig, d.qp, WEFT_EVENT_CONNECT_FAILED, WEFT_R_CONNECT_CLOSED);
	dialled_close(&d);
}

/* ---- Agreements that cannot be kept --------------------------------------------------------- */

/* RFC 6581 section 9: peer to peer without a common way to begin: a Terminate says so. */
TEST(test_rfc6581_8_no_common_rtr)
{
	uint8_t frame[28];
	struct dialled d;

	dialled_open(&d, NULL);
	raw_start(d.fd, &(struct start){ "Rep", 0x50, 2, 4, { 0x8008, 0x0008 } });
	expect_event(&d.rig, d.qp, WEFT_EVENT_CONNECT_FAILED, WEFT_R_MPA_RTR);
	raw_recv(d.fd, frame, sizeof(frame));
	EXPECT_EQ(frame[3], 0x47);
	EXPECT_EQ(frame[20], 0x20);
	EXPECT_EQ(frame[21], 7);
	EXPECT(raw_ends(d.fd));
	close(d.fd);
	MUST(weft_qp_modify(d.qp, &(struct weft_qp_attr){ .state = WEFT_QPS_RESET },
			    WEFT_QP_STATE));
	dialled_close(&d);
}

/* One that says nothing at all may have missed the message to open with: it comes again. */
TEST(test_rfc6581_9_listener_is_silent)
{
	enum { WRITE_BYTES = 20 };
	uint8_t first[WRITE_BYTES], again[WRITE_BYTES];
	struct dialled d;

	dialled_open(&d, NULL);
	raw_start(d.fd, &(struct start){ "Rep", 0x50, 2, 4, { 0x8008, 0x8008 } });
	expect_event(&d.rig, d.qp, WEFT_EVENT_CONNECTED, WEFT_OK);
	raw_recv(d.fd, first, sizeof(first));
	EXPECT_EQ(first[3], 0x40);
	for (int i = 0; i < 2; i++) {
		raw_recv(d.fd, again, sizeof(again));
		EXPECT_MEM(again, first, sizeof(first));
	}
	raw_reset(d.fd);
	expect_event(&d.rig, d.qp, WEFT_EVENT_QP_ERROR, WEFT_R_STREAM_LOST);
	MUST(weft_qp_modify(d.qp, &(struct weft_qp_attr){ .state = WEFT_QPS_RESET },
			    WEFT_QP_STATE));
	dialled_close(&d);
}

/* Random bytes instead of a stream, after a good reply. */
TEST(test_iwarp_s1_dialler_meets_garbage)
{
	struct dialled d;
	uint8_t bytes[2000];

	dialled_open(&d, NULL);
	memset(bytes, 0xb7, sizeof(bytes));
	raw_start(d.fd, &(struct start){ "Rep", 0x50, 2, 4, { 0x8008, 0xc008 } });
	expect_event(&d.rig, d.qp, WEFT_EVENT_CONNECTED, WEFT_OK);
	raw_send(d.fd, bytes, sizeof(bytes));
	EXPECT(rig_event(&d.rig, d.qp, WEFT_EVENT_QP_ERROR, &(enum weft_reason){ WEFT_OK }));
	EXPECT(error_of(d.qp) != WEFT_OK);
	shutdown(d.fd, SHUT_WR);
	EXPECT(raw_ends(d.fd));
	close(d.fd);
	MUST(weft_qp_modify(d.qp, &(struct weft_qp_attr){ .state = WEFT_QPS_RESET },
			    WEFT_QP_STATE));
	dialled_close(&d);
}
