/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hostile peers of a listener, over real sockets: whatever one does ends in bounded time, for a
 * reason that is reported, and disturbs no other peer. RFC 5042 section 6.
 */
#include "hostile_raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/prng.h"
#include "descriptors.h"

static const struct weft_listener_options soon = {
	.timeout_ns = (uint64_t)SOON_MS * 1000000,
};

/* ---- Set-up --------------------------------------------------------------------------------- */

/* RFC 5044 section 7.1: closed at once, and no request. */
static void refuse_start(const struct start *s)
{
	struct rig r;
	int fd;

	rig_open(&r, NULL);
	fd = raw_dial(&r);
	raw_start(fd, s);
	EXPECT(raw_ends(fd));
	EXPECT(!rig_request(&r, 1));
	close(fd);
	rig_close(&r);
}

TEST(test_rfc5044_7_1_listener_meets_wrong_key)
{
	refuse_start(&(struct start){ "Bad", 0x40, 1, 0, { 0 } });
	refuse_start(&(struct start){ "Rep", 0x40, 1, 0, { 0 } });
}

TEST(test_rfc5044_7_1_listener_meets_wrong_revision)
{
	refuse_start(&(struct start){ "Req", 0x40, 0, 0, { 0 } });
	refuse_start(&(struct start){ "Req", 0x40, 3, 0, { 0 } });
	refuse_start(&(struct start){ "Req", 0x40, 255, 0, { 0 } });
}

TEST(test_rfc5044_7_1_listener_meets_oversized_private_data)
{
	refuse_start(&(struct start){ "Req", 0x40, 1, 513, { 0 } });
	refuse_start(&(struct start){ "Req", 0x40, 2, 0xffff, { 0 } });
	refuse_start(&(struct start){ "Req", 0x50, 2, 3, { 0 } });
}

/* As much as there may be, and all the flags that mean nothing. */
TEST(test_rfc5044_7_1_listener_takes_the_longest_request)
{
	struct weft_request *request;
	uint8_t private_data[512];
	struct weft_peer peer;
	struct rig r;
	int fd;

	rig_open(&r, NULL);
	memset(private_data, 0x5c, sizeof(private_data));
	fd = raw_dial(&r);
	raw_start(fd, &(struct start){ "Req", 0x6f, 1, 512, { 0 } });
	raw_send(fd, private_data, sizeof(private_data));
	request = rig_request(&r, RAW_MS);
	REQUIRE(request);
	MUST(weft_request_query(request, &peer));
	EXPECT_EQ(peer.private_bytes, 512);
	EXPECT_MEM(peer.private_data, private_data, 512);
	MUST(weft_request_reject(request, NULL));
	EXPECT(raw_ends(fd));
	close(fd);
	rig_close(&r);
}

/* Peers that connect meanwhile wait, and are not lost. */
TEST(test_rfc5042_6_4_listener_without_descriptors_goes_on_later)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	struct weft_request *request;
	struct rlimit limit;
	struct rig r;
	int fd;

	rig_open(&r, NULL);
	at.sin_port = htons(r.at.port);
	memcpy(&at.sin_addr, r.at.ip, sizeof(at.sin_addr));
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	REQUIRE(fd >= 0);
	limit = descriptors_end();
	/* The kernel takes the connection, and keeps it. */
	REQUIRE(connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0);
	raw_request(fd);
	request = rig_request(&r, SOON_MS);
	expect_undisturbed(&r);
	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	EXPECT(!request);
	request = rig_request(&r, RAW_MS);
	REQUIRE(request);
	MUST(weft_request_reject(request, NULL));
	EXPECT(raw_ends(fd));
	close(fd);
	rig_close(&r);
}

/* RFC 5042 section 6.4.3: one that says nothing is not waited for. */
TEST(test_rfc5042_6_4_3_silent_peer)
{
	static const size_t said[] = { 0, 1, 19, 22 };
	struct rig r;

	rig_open(&r, &soon);
	for (size_t i = 0; i < 4; i++) {
		uint64_t begin = now_ms();
		int fd = raw_dial(&r);

		raw_send(fd, "MPA ID Req Frame\x50\x02\x00\x04\x00\x00\x00", said[i]);
		EXPECT(raw_ends(fd));
		EXPECT(now_ms() - begin >= SOON_MS - 1);
		close(fd);
	}
	EXPECT(!rig_request(&r, 1));
	rig_close(&r);
}

/* A byte now and then does not prolong it. */
TEST(test_rfc5042_6_4_3_slow_peer)
{
	enum { FRAME = START_BYTES + 512 }; /* so long that it would take seconds */
	static const uint8_t frame[FRAME] = "MPA ID Req Frame\x40\x01\x02\x00";
	struct timeval pause = { .tv_usec = 10000 };
	struct rig r;
	int fd, i;

	rig_open(&r, &soon);
	fd = raw_dial(&r);
	REQUIRE(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &pause, sizeof(pause)) == 0);
	for (i = 0; i < FRAME; i++) {
		uint8_t byte;
		ssize_t n;

		raw_send(fd, frame + i, 1);
		n = recv(fd, &byte, 1, 0); /* that is the pause */
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			break;
	}
	EXPECT(i < FRAME);
	EXPECT(!rig_request(&r, 1));
	close(fd);
	rig_close(&r);
}

/* No more requests are held than the listener was asked to; the others wait their turn. */
TEST(test_rfc5042_6_4_3_flood_of_requests)
{
	enum { FLOOD = 40, HELD = 4 };
	const struct weft_listener_options few = { .requests_max = HELD };
	struct weft_request *held[HELD];
	uint8_t reply[START_BYTES];
	struct rig r;
	int fds[FLOOD];

	rig_open(&r, &few);
	for (int i = 0; i < FLOOD; i++) {
		fds[i] = raw_dial(&r);
		raw_request(fds[i]);
	}
	for (int i = 0; i < HELD; i++) {
		held[i] = rig_request(&r, RAW_MS);
		REQUIRE(held[i]);
	}
	EXPECT(!rig_request(&r, 20));
	expect_undisturbed(&r);
	for (int i = 0; i < FLOOD; i++) {
		MUST(weft_request_reject(held[i % HELD], NULL));
		held[i % HELD] = i + HELD < FLOOD ? rig_request(&r, RAW_MS) : NULL;
		EXPECT(held[i % HELD] || i + HELD >= FLOOD);
	}
	for (int i = 0; i < FLOOD; i++) {
		raw_recv(fds[i], reply, sizeof(reply));
		EXPECT(reply[16] & 0x20);
		EXPECT(raw_ends(fds[i]));
		close(fds[i]);
	}
	rig_close(&r);
}

/* What a process may have open can change: a listener leaves half of what it is now. */
TEST(test_rfc5042_6_4_3_flood_of_requests_when_the_limit_of_descriptors_falls)
{
	enum { FLOOD = 60, LIMIT = 64, HIGH = 200 };
	struct weft_request *held[FLOOD], *request;
	struct rlimit before, now;
	struct rig r;
	int fds[FLOOD], count = 0;

	rig_open(&r, NULL);
	REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
	/* These ends are above the limit, and take no room below it. */
	for (int i = 0; i < FLOOD; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		fds[i] = fcntl(fd, F_DUPFD_CLOEXEC, HIGH);
		REQUIRE(fds[i] >= HIGH);
		close(fd);
	}
	now = before;
	now.rlim_cur = LIMIT;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &now) == 0);
	for (int i = 0; i < FLOOD; i++) {
		struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(r.at.port) };

		memcpy(&at.sin_addr, r.at.ip, sizeof(at.sin_addr));
		REQUIRE(connect(fds[i], (const struct sockaddr *)&at, sizeof(at)) == 0);
		raw_request(fds[i]);
	}
	while (count < FLOOD && (request = rig_request(&r, count < LIMIT / 2 + 1 ? RAW_MS : 20)))
		held[count++] = request;
	EXPECT_EQ(count, LIMIT / 2 + 1);
	expect_undisturbed(&r);
	REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
	for (int i = 0; i < count; i++)
		MUST(weft_request_reject(held[i], NULL));
	for (int i = 0; i < FLOOD; i++)
		close(fds[i]);
	rig_close(&r);
}

/* Many silent connections block other peers no longer than the time-out. */
TEST(test_rfc5042_6_4_3_flood_of_silence)
{
	enum { FLOOD = 12 };
	const struct weft_listener_options few = { .requests_max = 2, .timeout_ns = 20000000 };
	struct weft_request *request = NULL;
	uint64_t end = now_ms() + RAW_MS;
	struct rig r;
	int fds[FLOOD], fd = -1;

	rig_open(&r, &few);
	for (int i = 0; i < FLOOD; i++)
		fds[i] = raw_dial(&r);
	/* A busy machine may make an honest peer silent for that long too: it tries again. */
	while (!request && now_ms() < end) {
		if (fd >= 0)
			close(fd);
		fd = raw_dial(&r);
		raw_request(fd);
		request = rig_request(&r, 1000);
	}
	REQUIRE(request);
	MUST(weft_request_reject(request, NULL));
	for (int i = 0; i < FLOOD; i++)
		close(fds[i]);
	close(fd);
	rig_close(&r);
}

/* However long they may take: those that began and do not go on make room, the oldest first. */
TEST(test_rfc5042_6_4_3_silent_connections_make_room)
{
	enum { FLOOD = 12, HELD = 4 };
	const struct weft_listener_options few = { .requests_max = HELD,
						   .timeout_ns = UINT64_C(600000000000) };
	struct weft_request *request;
	struct rig r;
	int fds[FLOOD], fd;

	rig_open(&r, &few);
	for (int i = 0; i < FLOOD; i++) {
		fds[i] = raw_dial(&r);
		raw_send(fds[i], "MPA ID", 6);
	}
	for (int i = 0; i < FLOOD - HELD; i++)
		EXPECT(raw_ends(fds[i]));
	fd = raw_dial(&r);
	raw_request(fd);
	request = rig_request(&r, RAW_MS);
	REQUIRE(request);
	EXPECT(raw_ends(fds[FLOOD - HELD]));
	expect_undisturbed(&r);
	MUST(weft_request_reject(request, NULL));
	for (int i = 0; i < FLOOD; i++)
		close(fds[i]);
	close(fd);
	rig_close(&r);
}

/* ---- Requests whose peer has left, listeners that close ------------------------------------- */

TEST(test_iwarp_13_accept_after_the_peer_left)
{
	for (int is_reset = 0; is_reset < 2; is_reset++) {
		struct weft_request *request;
		enum weft_reason reason;
		struct weft_qp *qp;
		struct rig r;
		int fd;

		rig_open(&r, NULL);
		qp = rig_qp(&r);
		fd = raw_dial(&r);
		raw_request(fd);
		request = rig_request(&r, RAW_MS);
		REQUIRE(request);
		if (is_reset)
			raw_reset(fd);
		else
			close(fd);
		expect_undisturbed(&r);
		reason = weft_request_accept(request, qp, NULL);
		/* It may not have been seen yet; then the queue pair hears of it. */
		if (reason == WEFT_OK)
			EXPECT(rig_event(&r, qp, WEFT_EVENT_CONNECT_FAILED, &reason) ||
			       error_of(qp) != WEFT_OK);
		else
			EXPECT_EQ(reason, WEFT_R_CONNECT_CLOSED);
		MUST(weft_qp_destroy(qp));
		rig_close(&r);
	}
}

/* RFC 6581: the peer leaves before its request was taken: the request is never delivered. */
TEST(test_rfc5044_7_1_request_that_was_withdrawn)
{
	struct weft_request *request;
	struct rig r;
	int fd;

	rig_open(&r, NULL);
	fd = raw_dial(&r);
	raw_request(fd);
	request = rig_request(&r, RAW_MS);
	REQUIRE(request);
	raw_reset(fd);
	expect_undisturbed(&r);
	MUST(weft_request_reject(request, NULL));
	rig_close(&r);
}

TEST(test_iwarp_12_listener_closes_with_requests_pending)
{
	struct weft_request *taken;
	uint8_t reply[START_BYTES + 4];
	struct weft_qp *qp;
	struct rig r;
	int first, second, begun, silent;

	rig_open(&r, NULL);
	qp = rig_qp(&r);
	first = raw_dial(&r);
	raw_request(first);
	taken = rig_request(&r, RAW_MS);
	REQUIRE(taken);
	second = raw_dial(&r);
	raw_request(second);
	begun = raw_dial(&r);
	raw_send(begun, "M", 1);
	silent = raw_dial(&r);
	expect_undisturbed(&r);
	MUST(weft_listener_close(r.listener));
	r.listener = NULL;
	/* These were not taken: rejected, or closed if they were not seen at all. */
	EXPECT(raw_ends(second));
	EXPECT(raw_ends(begun));
	/* One that said nothing is still with the kernel, and hears of it when it speaks. */
	raw_send(silent, "M", 1);
	EXPECT(raw_ends(silent));
	/* The one that was taken can still be answered. */
	MUST(weft_request_accept(taken, qp, NULL));
	raw_recv(first, reply, sizeof(reply));
	EXPECT(!(reply[16] & 0x20));
	expect_event(&r, qp, WEFT_EVENT_CONNECTED, WEFT_OK);
	MUST(weft_qp_destroy(qp));
	EXPECT(raw_ends(first));
	close(first);
	close(second);
	close(begun);
	close(silent);
	rig_close(&r);
}

/* ---- After set-up --------------------------------------------------------------------------- */

/* Any bytes at all: the queue pair fails, the connection ends, and memory is as it was. */
TEST(test_iwarp_s1_random_bytes_after_set_up)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct prng rng = { seed };
		uint8_t bytes[3000];
		struct weft_qp *qp;
		struct rig r;
		int fd;

		rig_open(&r, NULL);
		qp = rig_qp(&r);
		memset(r.memory, 0x33, MEMORY_BYTES);
		fd = raw_connect(&r, qp);
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)prng_next(&rng);
		raw_send(fd, bytes, sizeof(bytes));
		shutdown(fd, SHUT_WR);
		EXPECT(raw_ends(fd));
		EXPECT(rig_event(&r, qp, WEFT_EVENT_QP_ERROR, &(enum weft_reason){ WEFT_OK }));
		EXPECT(error_of(qp) != WEFT_OK);
		for (size_t i = 0; i < MEMORY_BYTES; i++)
			EXPECT_EQ(r.memory[i], 0x33);
		MUST(weft_qp_destroy(qp));
		close(fd);
		rig_close(&r);
	}
}

/* The header of a Write of 4000 bytes to the rig's memory. */
static void write_header(const struct rig *r, uint8_t ulpdu[14])
{
	uint64_t to = (uintptr_t)r->memory + 65536;

	ulpdu[0] = 0xc1;
	ulpdu[1] = 0x40;
	for (int i = 0; i < 4; i++)
		ulpdu[2 + i] = (uint8_t)(r->tag >> (24 - 8 * i));
	for (int i = 0; i < 8; i++)
		ulpdu[6 + i] = (uint8_t)(to >> (56 - 8 * i));
}

TEST(test_rfc5044_8_killed_in_the_middle_of_a_write)
{
	for (int is_reset = 0; is_reset < 2; is_reset++) {
		uint8_t head[16] = { 4014 >> 8, 4014 & 0xff }, some[1000] = { 1 };
		struct weft_qp *qp;
		struct rig r;
		int fd;

		rig_open(&r, NULL);
		qp = rig_qp(&r);
		fd = raw_connect(&r, qp);
		write_header(&r, head + 2);
		raw_send(fd, head, sizeof(head));
		raw_send(fd, some, sizeof(some));
		expect_undisturbed(&r);
		if (is_reset)
			raw_reset(fd);
		else
			close(fd);
		expect_event(&r, qp, WEFT_EVENT_QP_ERROR,
			     is_reset ? WEFT_R_STREAM_LOST : WEFT_R_STREAM_CUT);
		MUST(weft_qp_destroy(qp));
		rig_close(&r);
	}
}

/* RFC 5044 section 8: one direction alone is no connection. */
TEST(test_rfc5044_8_half_closed_peer)
{
	struct weft_qp *qp;
	struct rig r;
	int fd;

	rig_open(&r, NULL);
	qp = rig_qp(&r);
	fd = raw_connect(&r, qp);
	shutdown(fd, SHUT_WR);
	EXPECT(raw_ends(fd));
	expect_event(&r, qp, WEFT_EVENT_QP_ERROR, WEFT_R_PEER_GONE);
	MUST(weft_qp_destroy(qp));
	close(fd);
	rig_close(&r);
}

/* Answers what it is refused with a Terminate, over a real connection. */
TEST(test_iwarp_s1_refused_write_over_tcp)
{
	uint8_t ulpdu[22] = { 0 }, frame[44];
	struct weft_qp *qp;
	struct rig r;
	int fd;

	rig_open(&r, NULL);
	qp = rig_qp(&r);
	fd = raw_connect(&r, qp);
	write_header(&r, ulpdu);
	ulpdu[5] ^= 1; /* another instance */
	raw_fpdu(fd, ulpdu, sizeof(ulpdu));
	raw_recv(fd, frame, sizeof(frame));
	EXPECT_EQ(frame[2], 0x41);
	EXPECT_EQ(frame[3], 0x47);
	EXPECT_EQ(frame[20], 0x11);
	EXPECT_EQ(frame[21], 0x00);
	EXPECT_EQ(frame[22], 0xc0);
	EXPECT_MEM(frame + 26, ulpdu, 14);
	EXPECT(raw_ends(fd));
	expect_event(&r, qp, WEFT_EVENT_QP_ERROR, WEFT_R_TAG_INSTANCE);
	MUST(weft_qp_destroy(qp));
	close(fd);
	rig_close(&r);
}

/* It stops reading while much is sent to it. Others go on, and it can be got rid of. */
TEST(test_rfc5042_6_4_3_peer_that_stops_reading)
{
	static const uint8_t empty_write[14] = { 0xc1, 0x40 };
	struct weft_sge segment = { .length = MEMORY_BYTES };
	struct weft_send_wr send = {
		.opcode = WEFT_OP_SEND,
		.flags = WEFT_SIGNALLED,
		.sges = &segment,
		.sge_count = 1,
	};
	struct weft_completion c[64];
	uint32_t count, done = 0;
	struct weft_qp *qp;
	struct rig r;
	int fd;

	rig_open(&r, NULL);
	segment.addr = (uintptr_t)r.memory;
	segment.tag = r.tag;
	qp = rig_qp(&r);
	fd = raw_connect(&r, qp);
	raw_fpdu(fd, empty_write, sizeof(empty_write));
	for (int i = 0; i < 64; i++)
		MUST(weft_qp_post_send(qp, &send, 1, NULL));
	for (int i = 0; i < 20; i++)
		expect_undisturbed(&r);
	MUST(weft_cq_poll(r.cq, c, 64, &count));
	EXPECT(count < 64);
	done += count;
	MUST(weft_qp_destroy(qp));
	MUST(weft_cq_poll(r.cq, c, 64, &count));
	EXPECT_EQ(done + count, 64);
	expect_undisturbed(&r);
	EXPECT(raw_ends(fd));
	close(fd);
	rig_close(&r);
}
