/* SPDX-License-Identifier: BSD-2-Clause */
/* The connections of a capture: found, put in order, read, and ended. */
#include "cmd/dump/conversation.h"

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "speak.h"
#include "test.h"

enum { ITEMS_MAX = 256, SEGMENTS_MAX = 512, MESSAGES = 12, PORT = 4711 };

struct heard {
	struct conversations all;
	struct mpa_item items[ITEMS_MAX];
	uint32_t numbers[ITEMS_MAX];
	int count;
};

static void hear(void *context, const struct conversation *c, const struct mpa_item *item)
{
	struct heard *h = context;

	REQUIRE(h->count < ITEMS_MAX);
	h->numbers[h->count] = c->number;
	h->items[h->count++] = *item;
}

static struct heard *heard_open(void)
{
	struct heard *h = calloc(1, sizeof(*h));

	REQUIRE(h);
	h->all.tell = hear;
	h->all.context = h;
	return h;
}

static void heard_close(struct heard *own_h)
{
	conversations_fini(&own_h->all);
	free(own_h);
}

/* Two sides that speak; client is the number of its port. */
struct talk {
	struct speak sides[2];
	uint16_t client;
	uint32_t seq[2]; /* of the SYN */
};

static void talk_init(struct talk *t, uint16_t client)
{
	const struct mpa_enhanced e = { .ird = 1, .ord = 1 };

	memset(t, 0, sizeof(*t));
	t->client = client;
	t->seq[0] = UINT32_MAX - 100; /* the numbers wrap early */
	t->seq[1] = 777;
	for (int side = 0; side < 2; side++) {
		struct speak *s = &t->sides[side];

		speak_start(s,
			    &(struct mpa_start){ .is_reply = side == 1,
						 .wants_crc = true,
						 .is_enhanced = true,
						 .revision = 2,
						 .private_bytes = 8 },
			    &e);
		s->has_crc = true;
		for (uint32_t i = 1; i <= MESSAGES; i++)
			speak_untagged(s, (struct speak_segment){ .opcode = RDMAP_SEND,
								  .msn = i,
								  .bytes = 40 * i });
	}
}

/* A packet of the talk; ack covers so many bytes of the other side. */
static struct packet packet_of(const struct talk *t, int from, uint8_t flags, uint32_t at,
			       uint32_t length)
{
	struct packet p = { .flags = flags, .seq = t->seq[from] + 1 + at };
	struct packet_end client = { .version = 4, .addr = { 10, 0, 0, 1 }, .port = t->client };
	struct packet_end server = { .version = 4, .addr = { 10, 0, 0, 2 }, .port = PORT };

	p.from = from ? server : client;
	p.to = from ? client : server;
	p.data = rd_of(t->sides[from].bytes + at, length);
	p.ack = t->seq[!from] + 1;
	if (flags & PACKET_SYN)
		p.seq--;
	return p;
}

static void push(struct heard *h, const struct packet *p)
{
	conversations_take(&h->all, p);
}

static void syns(struct heard *h, const struct talk *t)
{
	struct packet p = packet_of(t, 0, PACKET_SYN, 0, 0);

	push(h, &p);
	p = packet_of(t, 1, PACKET_SYN | PACKET_ACK, 0, 0);
	push(h, &p);
}

static void data(struct heard *h, const struct talk *t, int from, uint32_t at, uint32_t length)
{
	struct packet p = packet_of(t, from, PACKET_ACK, at, length);

	push(h, &p);
}

static void fin(struct heard *h, const struct talk *t, int from)
{
	struct packet p = packet_of(t, from, PACKET_ACK | PACKET_FIN, t->sides[from].length, 0);

	push(h, &p);
}

/* All messages of both sides are there, in order, and nothing else. */
static void expect_all(const struct heard *h, uint32_t number)
{
	uint32_t next[2] = { 0, 0 };

	for (int i = 0; i < h->count; i++) {
		const struct mpa_item *item = &h->items[i];

		if (h->numbers[i] != number)
			continue;
		REQUIRE(item->fault == MPA_FAULT_NONE);
		if (next[item->from]++ == 0)
			REQUIRE(item->kind == MPA_ITEM_START);
		else
			REQUIRE(item->bytes == 40 * (next[item->from] - 1));
	}
	REQUIRE(next[0] == 1 + MESSAGES && next[1] == 1 + MESSAGES);
}

static struct talk talk, other;

TEST(test_conversation_in_order)
{
	struct heard *h = heard_open();

	talk_init(&talk, 1000);
	syns(h, &talk);
	for (int from = 0; from < 2; from++) {
		for (uint32_t at = 0; at < talk.sides[from].length; at += 100) {
			uint32_t left = talk.sides[from].length - at;

			data(h, &talk, from, at, left < 100 ? left : 100);
		}
	}
	expect_all(h, 1);
	fin(h, &talk, 0);
	fin(h, &talk, 1);
	conversations_end(&h->all);
	expect_all(h, 1);
	EXPECT(h->all.mpa_count == 1 && h->all.other_count == 0);
	heard_close(h);
}

/* Segments of several connections in any order, cut anyhow, many of them twice. */
TEST(test_conversation_in_any_order)
{
	struct segment {
		struct talk *t;
		int from;
		uint32_t at, length;
	} *list = calloc(SEGMENTS_MAX, sizeof(*list));
	struct prng prng = { .state = 7 };

	REQUIRE(list);
	for (int round = 0; round < 200; round++) {
		struct heard *h = heard_open();
		uint32_t count = 0;

		talk_init(&talk, 1000);
		talk_init(&other, 1001);
		syns(h, &talk);
		syns(h, &other);
		for (int i = 0; i < 4; i++) {
			struct talk *t = i & 1 ? &other : &talk;
			int from = i / 2;
			uint32_t length;

			for (uint32_t at = 0; at < t->sides[from].length; at += length) {
				uint32_t left = t->sides[from].length - at;

				length = 1 + prng_below(&prng, 300);
				length = length < left ? length : left;
				list[count++] = (struct segment){ t, from, at, length };
				if (prng_below(&prng, 3) == 0)
					list[count++] = (struct segment){ t, from, at, left };
			}
		}
		for (uint32_t i = count; i > 1; i--) {
			uint32_t k = prng_below(&prng, i);
			struct segment swapped = list[k];

			list[k] = list[i - 1];
			list[i - 1] = swapped;
		}
		for (uint32_t i = 0; i < count; i++)
			data(h, list[i].t, list[i].from, list[i].at, list[i].length);
		for (int from = 0; from < 2; from++) {
			fin(h, &talk, from);
			fin(h, &other, from);
		}
		conversations_end(&h->all);
		expect_all(h, 1);
		expect_all(h, 2);
		heard_close(h);
	}
	free(list);
}

/* A capture that began later: the start frame's segment is where it begins. */
TEST(test_conversation_without_syn)
{
	struct heard *h = heard_open();

	talk_init(&talk, 1000);
	data(h, &talk, 0, 0, talk.sides[0].length);
	data(h, &talk, 1, 0, 10); /* the other side's start is known by what was acknowledged */
	data(h, &talk, 1, 10, talk.sides[1].length - 10);
	conversations_end(&h->all);
	expect_all(h, 1);
	heard_close(h);
}

/* Another protocol first, then MPA on the same connection. */
TEST(test_conversation_that_turns_to_mpa)
{
	static const uint8_t plain[] = "login: me";
	struct heard *h = heard_open();

	talk_init(&talk, 1000);
	syns(h, &talk);
	for (int from = 0; from < 2; from++) {
		struct packet p = packet_of(&talk, from, PACKET_ACK, 0, 0);

		p.data = rd_of(plain, sizeof(plain));
		push(h, &p);
	}
	talk.seq[0] += sizeof(plain);
	talk.seq[1] += sizeof(plain);
	EXPECT(h->all.mpa_count == 0 && h->all.other_count == 1);
	data(h, &talk, 0, 0, talk.sides[0].length);
	data(h, &talk, 1, 0, talk.sides[1].length);
	conversations_end(&h->all);
	expect_all(h, 1);
	EXPECT(h->all.mpa_count == 1 && h->all.other_count == 0);
	heard_close(h);
}

TEST(test_conversation_of_others_is_only_counted)
{
	static const uint8_t http[] = "MPA IDLE is no key, GET / HTTP/1.1";
	struct heard *h = heard_open();

	talk_init(&talk, 1000);
	for (uint16_t i = 0; i < 300; i++) {
		struct packet p;

		talk.client = (uint16_t)(1000 + i);
		syns(h, &talk);
		p = packet_of(&talk, 0, PACKET_ACK, 0, 0);
		p.data = rd_of(http, i % sizeof(http));
		push(h, &p);
	}
	conversations_end(&h->all);
	EXPECT(h->count == 0 && h->all.other_count == 300 && h->all.mpa_count == 0);
	heard_close(h);
}

/* The same ports again: another connection. The same SYN again: not. */
TEST(test_conversation_of_the_same_ports)
{
	struct heard *h = heard_open();

	talk_init(&talk, 1000);
	for (int i = 0; i < 2; i++) {
		syns(h, &talk);
		data(h, &talk, 0, 0, talk.sides[0].length);
		syns(h, &talk);
		data(h, &talk, 1, 0, talk.sides[1].length);
		fin(h, &talk, 0);
		fin(h, &talk, 1);
		talk.seq[0] += 5000000;
		talk.seq[1] += 7000000;
	}
	conversations_end(&h->all);
	EXPECT_EQ(h->all.mpa_count, 2);
	expect_all(h, 1);
	expect_all(h, 2);
	heard_close(h);
}

/* Acknowledged at once, but the capture may have it a little later. */
TEST(test_conversation_whose_segment_was_captured_late)
{
	struct heard *h = heard_open();
	struct packet p;

	talk_init(&talk, 1000);
	syns(h, &talk);
	data(h, &talk, 1, 0, talk.sides[1].length);
	data(h, &talk, 0, 0, 100);
	for (uint32_t at = 150; at < 150 + 15 * 10; at += 10)
		data(h, &talk, 0, at, 10);
	p = packet_of(&talk, 1, PACKET_ACK, talk.sides[1].length, 0);
	p.ack = talk.seq[0] + 1 + 300;
	push(h, &p);
	data(h, &talk, 0, 100, 50);
	data(h, &talk, 0, 300, talk.sides[0].length - 300);
	conversations_end(&h->all);
	expect_all(h, 1);
	heard_close(h);
}

/* A connection that was there before the capture, and then its ports again. */
TEST(test_conversation_of_the_same_ports_without_syn)
{
	struct heard *h = heard_open();

	talk_init(&talk, 1000);
	for (int i = 0; i < 2; i++) {
		if (i == 1)
			syns(h, &talk);
		data(h, &talk, 0, 0, talk.sides[0].length);
		data(h, &talk, 1, 0, talk.sides[1].length);
		talk.seq[0] += 5000000;
		talk.seq[1] += 7000000;
	}
	conversations_end(&h->all);
	expect_all(h, 1);
	expect_all(h, 2);
	heard_close(h);
}

/* The last item is this fault, of this side, and the only one. */
static void expect_fault(const struct heard *h, enum mpa_fault fault, int from)
{
	int faults = 0;

	for (int i = 0; i < h->count; i++)
		faults += h->items[i].fault != MPA_FAULT_NONE;
	REQUIRE(faults == 1);
	REQUIRE(h->items[h->count - 1].fault == fault && h->items[h->count - 1].from == from);
}

/* FIN and RST inside an FPDU: told at once. */
TEST(test_conversation_ends_inside_an_fpdu)
{
	for (int is_reset = 0; is_reset < 2; is_reset++) {
		struct heard *h = heard_open();
		struct packet p;

		talk_init(&talk, 1000);
		talk.sides[0].length -= 10;
		syns(h, &talk);
		data(h, &talk, 1, 0, talk.sides[1].length);
		data(h, &talk, 0, 0, talk.sides[0].length);
		p = packet_of(&talk, is_reset, is_reset ? PACKET_RST : PACKET_FIN,
			      talk.sides[is_reset].length, 0);
		push(h, &p);
		expect_fault(h, MPA_FAULT_HALF, 0);
		conversations_end(&h->all);
		expect_fault(h, MPA_FAULT_HALF, 0);
		heard_close(h);
	}
}

/* A segment that was not captured: told when the receiver had it, and some more have come. */
TEST(test_conversation_with_a_gap)
{
	struct heard *h = heard_open();
	struct packet p;

	talk_init(&talk, 1000);
	syns(h, &talk);
	data(h, &talk, 1, 0, talk.sides[1].length);
	data(h, &talk, 0, 0, 100);
	for (uint32_t at = 150; at < 150 + 15 * 10; at += 10)
		data(h, &talk, 0, at, 10);
	p = packet_of(&talk, 1, PACKET_ACK, talk.sides[1].length, 0);
	p.ack = talk.seq[0] + 1 + 149;
	push(h, &p);
	data(h, &talk, 0, 300, 10);
	/* Enough of them, but what is missing was not quite acknowledged. */
	EXPECT_EQ(h->items[h->count - 1].fault, MPA_FAULT_NONE);
	p.ack++;
	push(h, &p);
	expect_fault(h, MPA_FAULT_GAP, 0);
	EXPECT(strstr(h->items[h->count - 1].text, "50 bytes"));
	data(h, &talk, 0, 360, talk.sides[0].length - 360); /* after another gap */
	fin(h, &talk, 0);
	conversations_end(&h->all);
	expect_fault(h, MPA_FAULT_GAP, 0);
	EXPECT(h->all.first->mpa->sides[0].skipped_bytes > talk.sides[0].length - 360);
	heard_close(h);
}

/* What is missing at the end is known by the FIN, or by what was acknowledged. */
TEST(test_conversation_with_a_gap_at_the_end)
{
	for (int how = 0; how < 3; how++) {
		struct heard *h = heard_open();
		struct packet p;

		talk_init(&talk, 1000);
		syns(h, &talk);
		data(h, &talk, 1, 0, talk.sides[1].length);
		data(h, &talk, 0, 0, talk.sides[0].begin);
		if (how == 0) {
			fin(h, &talk, 0);
		} else {
			p = packet_of(&talk, 1, PACKET_ACK, talk.sides[1].length, 0);
			p.ack = talk.seq[0] + 1 + talk.sides[0].begin + (how == 1 ? 1 : 50);
			push(h, &p);
			p.ack -= 50; /* an older one, late */
			push(h, &p);
		}
		EXPECT_EQ(h->items[h->count - 1].fault, MPA_FAULT_NONE);
		conversations_end(&h->all);
		if (how == 1)
			EXPECT_EQ(h->items[h->count - 1].fault, MPA_FAULT_NONE);
		else
			expect_fault(h, MPA_FAULT_GAP, 0);
		heard_close(h);
	}
}

/* A frame that was cut when captured leaves a gap, also before a FIN. */
TEST(test_conversation_with_a_frame_cut_short)
{
	struct heard *h = heard_open();
	struct packet p;

	talk_init(&talk, 1000);
	syns(h, &talk);
	data(h, &talk, 1, 0, talk.sides[1].length);
	p = packet_of(&talk, 0, PACKET_ACK | PACKET_FIN, 0, talk.sides[0].begin);
	p.lacks_bytes = talk.sides[0].length - talk.sides[0].begin;
	push(h, &p);
	conversations_end(&h->all);
	expect_fault(h, MPA_FAULT_GAP, 0);
	heard_close(h);
}

/* The FPDUs of a side wait for the other's start frame, also when a FIN comes first. */
TEST(test_conversation_whose_reply_was_captured_late)
{
	struct heard *h = heard_open();

	talk_init(&talk, 1000);
	syns(h, &talk);
	data(h, &talk, 0, 0, talk.sides[0].length);
	fin(h, &talk, 0);
	EXPECT_EQ(h->count, 1);
	data(h, &talk, 1, 0, talk.sides[1].length);
	conversations_end(&h->all);
	expect_all(h, 1);
	heard_close(h);
}
