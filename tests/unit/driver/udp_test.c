/* SPDX-License-Identifier: BSD-2-Clause */
/* RoCE's sockets: slots, packets between adapters of one host, batches. */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "udp_fixture.h"
#include "udp_look.h"

enum { BATCH = 15 };

static struct udp_side a, b, c;
static struct udp_side *all[] = { &a, &b, &c };
static struct ib_out outs[MADE_MAX];

static void open_all(void)
{
	for (int i = 0; i < 3; i++)
		side_open(all[i]);
}

static void close_all(void)
{
	for (int i = 0; i < 3; i++)
		side_close(all[i]);
}

static uint32_t qp_of(const struct udp_side *s, uint32_t slot)
{
	return s->adapter_slot << 16 | slot;
}

static bool are_in_order(const struct udp_side *s, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!s->seen[i].is_good || s->seen[i].psn != i)
			return false;
	}
	return s->count == count;
}

TEST(test_udp_places_are_the_first_that_are_free)
{
	WORLD_OR_SKIP();
	open_all();
	EXPECT_EQ(a.adapter_slot, 1);
	EXPECT_EQ(b.adapter_slot, 2);
	EXPECT_EQ(c.adapter_slot, 3);
	side_close(&b);
	side_open(&b);
	EXPECT_EQ(b.adapter_slot, 2);
	close_all();
}

TEST(test_udp_port_that_is_not_shared_is_named)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(4791) };
	struct udp_config config = { 0 };
	struct udp *udp;
	int fd;

	WORLD_OR_SKIP();
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	EXPECT(fd >= 0 && bind(fd, (void *)&at, sizeof(at)) == 0);
	EXPECT_EQ(udp_open(&config, &udp), WEFT_R_ROCE_PORT);
	EXPECT(strstr(weft_reason_text(WEFT_R_ROCE_PORT), "rxe") != NULL);
	close(fd);
	side_open(&a);
	EXPECT_EQ(a.adapter_slot, 1); /* what was taken in vain was given back */
	side_close(&a);
}

/* From a to b and c by every port that there is a lane for: some of it comes to the wrong one. */
static void exchange(const char *address)
{
	struct ib_path paths[32];
	uint64_t handed;

	open_all();
	for (uint32_t i = 0; i < 32; i++) {
		const struct udp_side *to = i % 2 ? &b : &c;
		struct making m = { .path = &paths[i], .dest_qp = qp_of(to, 7), .psn = i };

		paths[i] = path_of(address, address, (uint16_t)(0xc000 + i * 77));
		paths[i].traffic_class = 0x20;
		m.payload_bytes = 100 + i;
		m.ecn = i % 4;
		make(&outs[i], &m);
	}
	side_send(&a, outs, 32);
	sides_pump(all, 3);
	EXPECT_EQ(a.count, 0);
	EXPECT_EQ(b.count, 16);
	EXPECT_EQ(c.count, 16);
	for (uint32_t i = 0; i < 16; i++) {
		const struct seen *s = &b.seen[i];
		uint32_t n = s->psn;

		EXPECT(s->is_good && s->dest_qp == qp_of(&b, 7) && n % 2 == 1 && n < 32);
		EXPECT_EQ(s->in.from.port, 0xc000 + n * 77);
		EXPECT_MEM(s->in.from.address, paths[0].from.address, 16);
		EXPECT_MEM(s->in.to.address, paths[0].to.address, 16);
		EXPECT_EQ(s->in.to.port, 4791);
		EXPECT_EQ(s->in.traffic_class, 0x20 | n % 4);
		EXPECT_EQ(s->in.hop_limit, 64);
		EXPECT(!s->in.is_ipv4_word_known);
	}
	handed = udp_counts(a.udp)->handed_on + udp_counts(b.udp)->handed_on +
		 udp_counts(c.udp)->handed_on;
	EXPECT(handed > 0 && handed < 32);
	EXPECT_EQ(udp_counts(b.udp)->handed_to_us + udp_counts(c.udp)->handed_to_us, handed);
	close_all();
}

TEST(test_udp_the_socket_that_gets_a_packet_hands_it_over)
{
	WORLD_OR_SKIP();
	exchange("127.0.0.1");
}

TEST(test_udp_the_socket_that_gets_a_packet_hands_it_over_ipv6)
{
	WORLD_OR_SKIP();
	side_open(&a);
	if (!udp_has_ipv6(a.udp)) {
		side_close(&a);
		SKIP("this host has no IPv6");
	}
	side_close(&a);
	exchange("::1");
}

/* A lookup for each packet of a flood would take all processor time. */
TEST(test_udp_unused_slot_is_not_tried_for_each_packet)
{
	struct ib_path path = path_of("127.0.0.1", "127.0.0.1", 0xc000);
	struct making m = { .path = &path, .dest_qp = 2u << 16 | 7, .payload_bytes = 8 };
	struct udp_side *alone[] = { &a };
	uint64_t calls;

	WORLD_OR_SKIP();
	side_open(&a);
	calls = udp_counts(a.udp)->calls_out;
	for (m.psn = 0; m.psn < 40; m.psn++) {
		make(&outs[0], &m);
		side_send(&a, outs, 1);
		sides_pump(alone, 1);
	}
	EXPECT_EQ(udp_counts(a.udp)->lost_on, 40);
	EXPECT_EQ(udp_counts(a.udp)->calls_out - calls, 40 + 1);
	/* An adapter takes the slot, and the next lookup finds it. */
	side_open(&b);
	EXPECT_EQ(b.adapter_slot, 2);
	udp_retry_slots(a.udp);
	udp_retry_slots(b.udp);
	make(&outs[0], &m);
	side_send(&a, outs, 1);
	sides_pump(all, 2);
	EXPECT_EQ(b.count, 1);
	side_close(&a);
	side_close(&b);
}

/* The queue pair that it is for may be any one's of the node's, and is not asked for. */
TEST(test_iba_9_6_1_2_reliable_datagrams_go_by_their_context)
{
	struct ib_path paths[32];

	WORLD_OR_SKIP();
	open_all();
	for (uint32_t i = 0; i < 32; i++) {
		paths[i] = path_of("127.0.0.1", "127.0.0.1", (uint16_t)(0xc000 + i * 37));
		make(&outs[i], &(struct making){ .path = &paths[i],
						 .dest_qp = qp_of(&b, i),
						 .eec = qp_of(&c, 9),
						 .psn = i,
						 .payload_bytes = 64 });
	}
	side_send(&a, outs, 32);
	sides_pump(all, 3);
	EXPECT_EQ(c.count, 32);
	close_all();
}

/* A batch leaves as one call, and comes as one; also where it is handed on. */
TEST(test_udp_batches_stay_together)
{
	struct ib_path path;
	uint64_t calls;

	WORLD_OR_SKIP();
	for (uint32_t port = 0xc000; port < 0xc010; port++) {
		open_all();
		path = path_of("127.0.0.1", "127.0.0.1", (uint16_t)port);
		for (uint32_t i = 0; i < BATCH; i++)
			make(&outs[i], &(struct making){ .path = &path,
							 .dest_qp = qp_of(&b, 1),
							 .psn = i,
							 .payload_bytes = i + 1 < BATCH ? 4096 : 40,
							 .ipv4_id = (uint16_t)i });
		side_send(&a, outs, BATCH);
		EXPECT_EQ(udp_counts(a.udp)->calls_out, 1);
		EXPECT_EQ(udp_counts(a.udp)->renumbered, 0);
		sides_pump(all, 3);
		EXPECT(are_in_order(&b, BATCH));
		calls = udp_counts(b.udp)->calls_in - udp_counts(b.udp)->calls_empty;
		EXPECT_EQ(calls, 1);
		close_all();
	}
}

/* What cannot be joined goes in order all the same; each with the ICRC that fits. */
TEST(test_udp_batch_of_odd_sizes)
{
	static const uint32_t sizes[] = { 64, 64, 64, 20, 64, 128, 128, 4096, 1, 0, 0, 300, 7 };
	enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
	struct ib_path path;

	WORLD_OR_SKIP();
	open_all();
	path = path_of("127.0.0.1", "127.0.0.1", 0xc123);
	for (uint32_t i = 0; i < COUNT; i++)
		make(&outs[i], &(struct making){ .path = &path,
						 .dest_qp = qp_of(&b, 1),
						 .psn = i,
						 .payload_bytes = sizes[i],
						 .ipv4_id = (uint16_t)i });
	side_send(&a, outs, COUNT);
	EXPECT_EQ(udp_counts(a.udp)->calls_out, 1);
	EXPECT(udp_counts(a.udp)->renumbered > 0);
	sides_pump(all, 3);
	EXPECT(are_in_order(&b, COUNT));
	close_all();
}

/* Lies behind the one before from now on. */
static uint8_t *put_behind(uint8_t *at, struct ib_out *out)
{
	uint8_t *begin = at;

	for (uint32_t i = 0; i < out->spans.count; i++) {
		memcpy(at, out->spans.spans[i].bytes, out->spans.spans[i].length);
		at += out->spans.spans[i].length;
	}
	out->spans.spans[0] = (struct span){ begin, out->spans.length };
	out->spans.count = 1;
	return at;
}

/* More than one message holds, some of it in one piece: it is one call, and nothing is changed. */
TEST(test_udp_batch_in_one_piece)
{
	static uint8_t memory[MADE_MAX * IBA_PACKET_MAX], before[sizeof(memory)];
	enum { COUNT = 24, IN_PIECES = 18, APART = 21 };
	struct ib_path path;
	uint8_t *at = memory;

	WORLD_OR_SKIP();
	open_all();
	path = path_of("127.0.0.1", "127.0.0.1", 0xc123);
	for (uint32_t i = 0; i < COUNT; i++) {
		/* 0 is the longest, and 1, which is shorter, ends its message; 2 begins another. */
		uint32_t id = i < 2 ? i : i - 2;

		make(&outs[i], &(struct making){ .path = &path,
						 .dest_qp = qp_of(&b, 1),
						 .psn = i,
						 .payload_bytes = i == 0 ? 4096 : 4000,
						 .ipv4_id = (uint16_t)(id % 16) });
		if (i == IN_PIECES)
			continue;
		at = put_behind(at + (i == APART ? 4 : 0), &outs[i]);
	}
	memcpy(before, memory, sizeof(memory));
	side_send(&a, outs, COUNT);
	EXPECT_EQ(udp_counts(a.udp)->calls_out, 1);
	EXPECT_EQ(udp_counts(a.udp)->renumbered, 0);
	EXPECT(memcmp(before, memory, sizeof(memory)) == 0);
	sides_pump(all, 3);
	EXPECT(are_in_order(&b, COUNT));
	close_all();
}
