/* SPDX-License-Identifier: BSD-2-Clause */
/* The packets of a capture. That Wireshark reads them is in spec/capture_tshark_test.py. */
#include "driver/observe/capture.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/prng.h"
#include "capture_fixture.h"
#include "test.h"
#include "wire/mpa.h"

enum { SYN = 2, SYN_ACK = 0x12, ACK = 0x10, DATA = 0x18, FIN = 0x11, RST = 0x14, IS_OUT = 1 };

/* What the packets must be, in order: direction and flags. */
static void check_flags(const struct reading *r, const uint8_t (*wanted)[2], size_t count)
{
	EXPECT_EQ(r->count, count);
	for (size_t i = 0; i < count; i++) {
		EXPECT_EQ(r->packets[i].is_outgoing, wanted[i][0] == IS_OUT);
		EXPECT_EQ(r->packets[i].flags, wanted[i][1]);
	}
}

/* Every packet continues its direction, and acknowledges all of the other. */
static void check_numbers(const struct reading *r)
{
	uint32_t due[2] = { r->packets[0].seq, r->packets[1].seq };

	REQUIRE(r->count > 2 && r->packets[0].flags == SYN && r->packets[1].flags == SYN_ACK);
	for (size_t i = 0; i < r->count; i++) {
		const struct packet *p = &r->packets[i];
		int other = p->is_outgoing == r->packets[0].is_outgoing;

		REQUIRE(p->seq == due[!other]);
		REQUIRE(p->ack == (p->flags == SYN ? 0 : due[other]));
		due[!other] += p->payload_bytes + (p->flags & (1 | SYN) ? 1 : 0);
	}
}

TEST(test_capture_connection_from_syn_to_fins)
{
	static const uint8_t us[] = { 10, 0, 0, 1 }, them[] = { 10, 0, 0, 2 };
	static const uint8_t wanted[][2] = { { 1, SYN },  { 0, SYN_ACK }, { 1, ACK }, { 1, DATA },
					     { 0, DATA }, { 1, FIN },	  { 0, ACK }, { 0, DATA },
					     { 0, FIN },  { 1, ACK } };
	static const char hello[] = "hello, this is not MPA";
	struct capture_stream s;
	struct capture *c = capture_begin(&s);
	struct reading r;

	capture_give(&s, true, hello, 20);
	capture_give(&s, false, hello, 21);
	capture_stream_close(&s, true, false, 3);
	capture_give(&s, true, hello, 20); /* after the end: not captured */
	capture_stream_close(&s, true, false, 3);
	capture_give(&s, false, hello, 22);
	capture_stream_close(&s, false, false, 4);
	capture_stream_close(&s, false, false, 4);
	capture_stream_close(&s, false, true, 4);
	EXPECT_EQ(capture_error(c), 0);
	capture_close(c);

	reading_open(&r, capture_path());
	check_flags(&r, wanted, sizeof(wanted) / sizeof(wanted[0]));
	check_numbers(&r);
	EXPECT_MEM(r.packets[0].source, us, 4);
	EXPECT_MEM(r.packets[0].target, them, 4);
	EXPECT_EQ(r.packets[0].source_port, 1000);
	EXPECT_EQ(r.packets[0].target_port, 2000);
	EXPECT_MEM(r.packets[4].source, them, 4);
	EXPECT_MEM(r.packets[4].target, us, 4);
	EXPECT_EQ(r.packets[4].source_port, 2000);
	EXPECT_EQ(r.packets[4].target_port, 1000);
	EXPECT_EQ(r.packets[4].payload_bytes, 21);
	EXPECT_MEM(r.packets[4].payload, hello, 21);
	reading_close(&r);
	unlink(capture_path());
}

TEST(test_capture_reset_ends_both_directions)
{
	static const uint8_t wanted[][2] = { { 0, SYN },  { 1, SYN_ACK }, { 0, ACK },
					     { 1, DATA }, { 0, DATA },	  { 0, RST } };
	struct capture_ends ends = ends_ipv4(false);
	struct capture_stream s;
	struct capture *c;
	struct reading r;

	EXPECT_EQ(capture_open(capture_path(), &c), 0);
	capture_stream_open(c, &s, &ends, 1);
	/* Bytes that waited for more are still shown. */
	capture_give(&s, false, "their", 5);
	capture_give(&s, true, "our own", 7);
	capture_stream_close(&s, false, true, 2);
	capture_give(&s, true, "thousands more of bytes", 23);
	capture_give(&s, false, "thousands more of bytes", 23);
	capture_stream_close(&s, true, false, 2);
	capture_close(c);
	reading_open(&r, capture_path());
	check_flags(&r, wanted, sizeof(wanted) / sizeof(wanted[0]));
	check_numbers(&r);
	EXPECT_MEM(r.packets[3].payload, "our own", 7);
	EXPECT_MEM(r.packets[4].payload, "their", 5);
	reading_close(&r);
	unlink(capture_path());
}

/* Bytes that waited are shown once, though the stream ends twice. */
TEST(test_capture_reset_after_fin)
{
	static const uint8_t wanted[][2] = { { 1, SYN }, { 0, SYN_ACK }, { 1, ACK }, { 1, DATA },
					     { 1, FIN }, { 0, ACK },	 { 0, RST } };
	struct capture_stream s;
	struct capture *c = capture_begin(&s);
	struct reading r;

	capture_give(&s, true, "our own", 7);
	capture_stream_close(&s, true, false, 2);
	capture_stream_close(&s, false, true, 2);
	capture_close(c);
	reading_open(&r, capture_path());
	check_flags(&r, wanted, sizeof(wanted) / sizeof(wanted[0]));
	check_numbers(&r);
	reading_close(&r);
	unlink(capture_path());
}

/* IPv6, and IPv4 as it looks through an IPv6 socket. */
TEST(test_capture_ipv6_addresses)
{
	static const uint8_t mapped[] = { 192, 0, 2, 7 };
	struct sockaddr_in6 us = { .sin6_family = AF_INET6, .sin6_port = htons(1) };
	struct sockaddr_in6 them = { .sin6_family = AF_INET6, .sin6_port = htons(2) };
	struct capture_ends ends = { (struct sockaddr *)&us, (struct sockaddr *)&them, true };
	struct capture_stream s;
	struct capture *c;
	struct reading r;

	EXPECT_EQ(capture_open(capture_path(), &c), 0);
	inet_pton(AF_INET6, "2001:db8::1", &us.sin6_addr);
	inet_pton(AF_INET6, "2001:db8::2", &them.sin6_addr);
	capture_stream_open(c, &s, &ends, 1);
	capture_give(&s, false, "some text, an odd number", 23);
	inet_pton(AF_INET6, "::ffff:192.0.2.7", &us.sin6_addr);
	inet_pton(AF_INET6, "::ffff:192.0.2.8", &them.sin6_addr);
	capture_stream_open(c, &s, &ends, 1);
	capture_close(c);
	reading_open(&r, capture_path());
	EXPECT_EQ(r.count, 7);
	EXPECT(r.packets[3].is_ipv6 && !r.packets[4].is_ipv6);
	EXPECT_EQ(r.packets[3].source[15], 2);
	EXPECT_EQ(r.packets[3].target[15], 1);
	EXPECT_EQ(r.packets[3].source_port, 2);
	EXPECT_MEM(r.packets[4].source, mapped, 4);
	EXPECT_EQ(r.packets[4].target[3], 8);
	/* A reader tells connections of the same ports apart by their first numbers. */
	EXPECT(r.packets[0].seq != r.packets[4].seq && r.packets[1].seq != r.packets[5].seq);
	reading_close(&r);
	unlink(capture_path());
}

TEST(test_capture_other_addresses_are_left_out)
{
	struct sockaddr_un local = { .sun_family = AF_UNIX };
	struct sockaddr_in6 ipv6 = { .sin6_family = AF_INET6 };
	struct capture_ends ends = ends_ipv4(true);
	struct capture_stream s, none = { 0 };
	struct capture *c;
	struct reading r;

	EXPECT_EQ(capture_open(capture_path(), &c), 0);
	ends.local = (struct sockaddr *)&local;
	capture_stream_open(c, &s, &ends, 1);
	capture_give(&s, true, "some text that is long", 22);
	capture_stream_close(&s, true, false, 1);
	ends = ends_ipv4(true);
	ends.remote = (struct sockaddr *)&local;
	capture_stream_open(c, &s, &ends, 1);
	capture_give(&s, true, "some text that is long", 22);
	ends.remote = (struct sockaddr *)&ipv6;
	capture_stream_open(c, &s, &ends, 1);
	capture_give(&s, true, "some text that is long", 22);
	capture_give(&none, true, "some text that is long", 22);
	capture_stream_close(&none, true, true, 1);
	capture_close(c);
	reading_open(&r, capture_path());
	EXPECT_EQ(r.count, 0);
	reading_close(&r);
	unlink(capture_path());
}

/* ---- how bytes are cut ---------------------------------------------------------------------- */

enum { STREAM_BYTES = 300000, FRAMES_MAX = 2000 };

struct stream {
	uint8_t *bytes;
	size_t length;
	size_t frame[FRAMES_MAX]; /* where they begin, and the end */
	size_t count;
};

/* A start frame with private data and FPDUs, a few of them long, without CRC. */
static void stream_make(struct stream *t, struct prng *p, size_t most)
{
	const struct mpa_start start = { .revision = 1, .private_bytes = 33 };
	struct wr w;

	t->bytes = malloc(STREAM_BYTES);
	REQUIRE(t->bytes);
	for (size_t i = 0; i < STREAM_BYTES; i++)
		t->bytes[i] = (uint8_t)prng_next(p);
	w = wr_of(t->bytes, STREAM_BYTES);
	mpa_start_encode(&start, &w);
	t->length = MPA_START_BYTES + start.private_bytes;
	t->frame[0] = 0;
	t->count = 1;
	while (t->count < FRAMES_MAX - 1) {
		uint32_t bound = prng_below(p, 10) ? 200 : 65536;
		uint32_t ulpdu = prng_below(p, bound);

		if (t->length + mpa_fpdu_bytes(ulpdu) > most)
			break;
		t->frame[t->count++] = t->length;
		w = wr_of(t->bytes + t->length, 2);
		wr_u16(&w, (uint16_t)ulpdu);
		t->length += mpa_fpdu_bytes(ulpdu);
	}
	t->frame[t->count] = t->length;
}

/* Each packet lies in one frame, and has enough of it if it is the first there. */
static void check_cuts(const struct reading *r, const struct stream *t)
{
	size_t at = 0, frame = 0;

	for (size_t i = 0; i < r->count; i++) {
		const struct packet *p = &r->packets[i];
		size_t head = frame == 0 ? MPA_START_BYTES : 8;

		if (p->payload_bytes == 0)
			continue;
		REQUIRE(p->payload_bytes <= INET_TCP_PAYLOAD_MAX);
		REQUIRE(memcmp(p->payload, t->bytes + at, p->payload_bytes) == 0);
		REQUIRE(at != t->frame[frame] || p->payload_bytes >= head);
		at += p->payload_bytes;
		REQUIRE(at <= t->frame[frame + 1]);
		frame += at == t->frame[frame + 1];
	}
	REQUIRE(at == t->length && frame == t->count);
}

TEST(test_capture_any_pieces_are_cut_at_frames)
{
	static const uint32_t most[] = { 1, 8, 30, 1000, 100000, STREAM_BYTES };
	struct prng p = { 11 };

	for (size_t round = 0; round < 2 * sizeof(most) / sizeof(most[0]); round++) {
		struct capture_stream s;
		struct capture *c = capture_begin(&s);
		struct stream t;
		struct reading r;

		/* A packet for each byte must not be too many. */
		stream_make(&t, &p, most[round / 2] < 30 ? PACKETS_MAX / 2 : STREAM_BYTES);
		for (size_t done = 0; done < t.length;) {
			size_t n = 1 + prng_below(&p, most[round / 2]);
			size_t first = prng_below(&p, (uint32_t)n), left = t.length - done;
			struct iovec v[] = { { NULL, 0 },
					     { t.bytes + done, n < left ? first : left },
					     { t.bytes + done + first, n } };
			struct capture_bytes b = { v, n < left ? n : left, round % 2 };

			capture_stream_bytes(&s, &b, 1);
			done += b.length;
		}
		capture_stream_close(&s, round % 2, false, 1);
		capture_close(c);
		reading_open(&r, capture_path());
		check_numbers(&r);
		check_cuts(&r, &t);
		reading_close(&r);
		free(t.bytes);
	}
	unlink(capture_path());
}

/* Only the direction whose receiver asked has markers. */
TEST(test_rfc5044_4_3_capture_cuts_with_markers)
{
	const struct mpa_start asks = { .wants_markers = true, .revision = 1 };
	const struct mpa_start reply = { .is_reply = true, .revision = 1 };
	/* marker, length 500: 506 bytes, of which 4 come after the second marker; then 8 bytes */
	uint8_t ours[20 + 516] = { 0 }, theirs[20 + 508 + 8] = { 0 };
	struct wr w = wr_of(theirs, 20);
	struct capture_stream s;
	struct capture *c = capture_begin(&s);
	struct reading r;

	mpa_start_encode(&reply, &w);
	theirs[20 + 4] = 500 >> 8;
	theirs[20 + 5] = 500 & 0xff;
	w = wr_of(ours, 20);
	mpa_start_encode(&asks, &w);
	ours[20] = 500 >> 8;
	ours[21] = 500 & 0xff;
	capture_give(&s, true, ours, 20);
	capture_give(&s, false, theirs, 20 + 4 + 508 + 4);
	capture_give(&s, true, ours + 20, 516);
	capture_close(c);
	reading_open(&r, capture_path());
	EXPECT_EQ(r.count, 8);
	EXPECT_EQ(r.packets[4].payload_bytes, 20);
	EXPECT_EQ(r.packets[5].payload_bytes, 4 + 508);
	EXPECT_EQ(r.packets[6].payload_bytes, 508);
	EXPECT_EQ(r.packets[7].payload_bytes, 8);
	reading_close(&r);
	unlink(capture_path());
}

/* What is not MPA goes in as it comes, a whole span in one packet if it fits. */
TEST(test_capture_long_bytes_fill_packets)
{
	enum { LENGTH = 3 * INET_TCP_PAYLOAD_MAX + 5 };
	uint8_t *bytes = calloc(1, LENGTH);
	struct capture_stream s;
	struct capture *c = capture_begin(&s);
	struct reading r;

	REQUIRE(bytes);
	capture_give(&s, true, bytes, LENGTH);
	capture_give(&s, true, bytes, 1);
	capture_close(c);
	reading_open(&r, capture_path());
	EXPECT_EQ(r.count, 8);
	EXPECT_EQ(r.packets[3].length, 65535);
	EXPECT_EQ(r.packets[6].payload_bytes, 5);
	EXPECT_EQ(r.packets[7].payload_bytes, 1);
	check_numbers(&r);
	reading_close(&r);
	free(bytes);
	unlink(capture_path());
}

/* The window is never full: a silent receiver acknowledges now and then. */
TEST(test_capture_silent_receiver_acknowledges)
{
	enum { ONCE = 1 << 20, TIMES = 80 };
	uint8_t *bytes = calloc(1, ONCE);
	struct capture_stream s;
	struct capture *c = capture_begin(&s);
	struct reading r;
	uint32_t sent = 0, acknowledged = 0, most = 0;

	REQUIRE(bytes);
	for (int i = 0; i < TIMES; i++)
		capture_give(&s, true, bytes, ONCE);
	capture_close(c);
	reading_open(&r, capture_path());
	for (size_t i = 3; i < r.count; i++) {
		sent += r.packets[i].payload_bytes;
		if (!r.packets[i].is_outgoing)
			acknowledged = r.packets[i].ack - r.packets[3].seq;
		most = sent - acknowledged > most ? sent - acknowledged : most;
	}
	EXPECT_EQ(sent, TIMES * ONCE);
	EXPECT(most <= 70 * ONCE);
	check_numbers(&r);
	reading_close(&r);
	free(bytes);
	unlink(capture_path());
}

/* Times are given by a clock that begins anywhere, and are shown in that of the wall. */
TEST(test_capture_times_are_of_the_wall_clock)
{
	struct capture_ends ends = ends_ipv4(true);
	struct timespec before, now, after;
	uint64_t now_ns, slack;
	struct capture_stream s;
	struct capture *c;
	struct reading r;

	clock_gettime(CLOCK_REALTIME, &before);
	EXPECT_EQ(capture_open(capture_path(), &c), 0);
	clock_gettime(CLOCK_MONOTONIC, &now);
	now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	capture_stream_open(c, &s, &ends, now_ns);
	capture_stream_close(&s, true, true, now_ns + 5000000007);
	clock_gettime(CLOCK_REALTIME, &after);
	capture_close(c);
	reading_open(&r, capture_path());
	/* The two clocks are read one after the other, so they may seem a little apart. */
	slack = (uint64_t)(after.tv_sec - before.tv_sec + 1) * 1000000000;
	EXPECT(r.packets[0].time_ns + slack >= (uint64_t)before.tv_sec * 1000000000);
	EXPECT(r.packets[0].time_ns <= (uint64_t)after.tv_sec * 1000000000 + slack);
	EXPECT_EQ(r.packets[3].time_ns - r.packets[0].time_ns, 5000000007);
	reading_close(&r);
	unlink(capture_path());
}

/* ---- datagrams ------------------------------------------------------------------------------ */

TEST(test_capture_datagrams_are_as_on_the_wire)
{
	static uint8_t bytes[3000];
	struct capture_datagram d = {
		.from = { { 10, 0, 0, 1 }, 0xc001 },
		.to = { { 10, 0, 0, 2 }, 4791 },
		.traffic_class = 0x6a,
		.hop_limit = 17,
		.ipv4_id = 0x1234,
		.ipv4_fragment = 0x4000,
	};
	struct prng p = { 3 };
	struct capture *c = NULL;
	struct reading r;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)prng_next(&p);
	REQUIRE(capture_open(capture_path(), &c) == 0);
	for (uint32_t i = 0; i < 200; i++) {
		size_t at = i * 7 % 1500;
		struct iovec v[] = { { bytes, at }, { NULL, 0 }, { bytes + at, sizeof(bytes) } };

		d.v = v;
		d.length = i * 13;
		d.is_outgoing = i % 2;
		d.is_ipv6 = i % 4 > 1;
		capture_datagram(c, &d, i);
	}
	capture_close(c);
	reading_open(&r, capture_path());
	EXPECT_EQ(r.count, 200);
	for (uint32_t i = 0; i < r.count; i++) {
		const struct packet *k = &r.packets[i];

		REQUIRE(k->is_udp && k->is_outgoing == i % 2 && k->is_ipv6 == (i % 4 > 1));
		REQUIRE(k->source_port == 0xc001 && k->target_port == 4791);
		REQUIRE(k->traffic_class == 0x6a && k->hop_limit == 17);
		REQUIRE(k->ipv4_word == (k->is_ipv6 ? 0 : 0x12344000));
		REQUIRE(k->payload_bytes == i * 13);
		EXPECT_MEM(k->payload, bytes, k->payload_bytes);
	}
	reading_close(&r);
	unlink(capture_path());
}
