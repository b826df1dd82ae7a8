/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TOUCH-S3: a model of a TCP receiver hands the segments of a stream to a one-touch window in the
 * order in which a bad network delivers them. The sender's stream is
 *
 *	other traffic, message 1, more traffic, [message 2]
 *
 * and a run is one seed. Any segment near the in-order point may arrive at any time, any number of
 * times: that is loss, duplication and reordering in one.
 */
#include "mem_fixture.h"

#include <inttypes.h>
#include <stdio.h>

enum { SEGMENTS_MAX = 64, MESSAGE_BYTES = 1024 };
enum { HONEST_SEEDS = HISTORIES(15000), CHEATING_SEEDS = HISTORIES(15000) };

struct segment {
	uint32_t end_sn;
	uint32_t bytes; /* of the whole frame: header, payload, pad, CRC */
	int message;	/* 0: no business of the window */
	bool is_last;
	uint32_t offset, length; /* of the payload */
};

struct stream {
	struct gate g;
	struct prng prng;
	struct segment segments[SEGMENTS_MAX];
	uint32_t count;
	uint32_t start_sn, window;
	uint32_t tag;
	bool is_m2_late; /* message 2 is sent when all before it was acknowledged */
	/* The receiver. */
	bool received[SEGMENTS_MAX];
	uint32_t next; /* the first segment that is missing */
	/* What the test knows: which segments landed, and where the touch stands. */
	bool landed[SEGMENTS_MAX];
	uint32_t stored; /* index of the first last segment that landed; SEGMENTS_MAX: none */
	bool is_over;	 /* the stream has covered it */
	enum weft_reason refusal;
	const char *failure;
};

static struct stream stream;

/* How often the runs met what they are about: a run that meets nothing proves nothing. */
static struct {
	uint32_t early, out_of_window, duplicates, gaps_filled;
	uint32_t refused[WEFT_REASON_COUNT];
} met;

static uint8_t byte_of(int message, uint32_t offset)
{
	return (uint8_t)(message * 64 + 1 + offset % 61);
}

static void stream_add(struct stream *s, struct segment segment)
{
	uint32_t before = s->count ? s->segments[s->count - 1].end_sn : s->start_sn - 1;

	REQUIRE(s->count < SEGMENTS_MAX);
	segment.bytes = 20 + (segment.length + 3) / 4 * 4 + 4;
	segment.end_sn = before + segment.bytes;
	s->segments[s->count++] = segment;
}

static void stream_add_others(struct stream *s, uint32_t most)
{
	for (uint32_t i = prng_below(&s->prng, most + 1); i > 0; i--)
		stream_add(s, (struct segment){ .length = prng_below(&s->prng, 200) });
}

static void stream_add_message(struct stream *s, int message)
{
	uint32_t count = 1 + prng_below(&s->prng, 8), offset = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t length = 1 + prng_below(&s->prng, MESSAGE_BYTES / 8);

		stream_add(s, (struct segment){ .message = message,
						.is_last = i == count - 1,
						.offset = offset,
						.length = length });
		offset += length;
	}
}

/* The index of a message's last segment. */
static uint32_t last_of(const struct stream *s, int message)
{
	uint32_t i = 0;

	while (s->segments[i].message != message || !s->segments[i].is_last)
		i++;
	return i;
}

static void stream_init(struct stream *s, uint64_t seed, bool has_second)
{
	*s = (struct stream){ .prng = { .state = seed }, .stored = SEGMENTS_MAX };
	s->start_sn = (uint32_t)prng_next(&s->prng);
	if (prng_below(&s->prng, 2))
		s->start_sn = 0 - prng_below(&s->prng, 1500); /* the numbers wrap on the way */
	s->window = 300 + prng_below(&s->prng, 1500);
	s->is_m2_late = prng_below(&s->prng, 2);
	stream_add_others(s, 4);
	stream_add_message(s, 1);
	stream_add_others(s, 6);
	if (has_second)
		stream_add_message(s, 2);
	gate_init(&s->g, WEFT_POLICY_STRICT);
	s->tag = gate_one_touch(&s->g, MESSAGE_BYTES);
}

static uint32_t next_sn(const struct stream *s)
{
	return s->next ? s->segments[s->next - 1].end_sn + 1 : s->start_sn;
}

static void fail(struct stream *s, const char *why)
{
	if (!s->failure)
		s->failure = why;
}

/* The bytes of a segment that the gate let through. */
static void land(struct stream *s, uint32_t i, const struct mem_grant *grant)
{
	const struct segment *seg = &s->segments[i];
	struct mem_grant g = *grant;
	struct mem_span span;

	if (s->is_over || (s->stored != SEGMENTS_MAX && i > s->stored))
		fail(s, "a segment landed beyond the end of the message");
	while (mem_grant_spans(&g, &span, 1)) {
		uint32_t at = (uint32_t)(span.bytes - s->g.memory);

		for (uint64_t n = 0; n < span.length; n++)
			span.bytes[n] = byte_of(seg->message, at + (uint32_t)n);
	}
	s->landed[i] = true;
}

/* A segment of a message, as the adapter does it: check, decide, place. */
static void to_window(struct stream *s, uint32_t i, uint32_t expected_sn)
{
	const struct segment *seg = &s->segments[i];
	const struct touch_stream tcp = {
		.end_sn = seg->end_sn,
		.expected_sn = expected_sn,
		.next_sn = next_sn(s),
		.window = s->window,
		.qp = QP_OWN,
	};
	const struct mem_access a = gate_ask(&s->g, MEM_REMOTE_WRITE, s->tag, seg->offset,
					     seg->length);
	struct mem_grant grant;
	bool is_placed = false;

	s->refusal = mem_access_check(&s->g.table, &a, &grant);
	if (s->refusal == WEFT_OK)
		s->refusal = mem_touch_segment(&s->g.table, s->tag, seg->is_last, &tcp, &is_placed);
	if (s->refusal != WEFT_OK)
		return;
	met.early += is_placed && seg->is_last && tcp.end_sn - tcp.next_sn < s->window;
	met.gaps_filled += is_placed && seg->is_last && tcp.next_sn - tcp.end_sn > 1;
	met.out_of_window += !is_placed && !s->received[i];
	met.duplicates += !is_placed && s->received[i];
	if (is_placed && !s->received[i])
		fail(s, "a segment landed that TCP did not take");
	if (is_placed)
		land(s, i, &grant);
	if (is_placed && seg->is_last && s->stored == SEGMENTS_MAX)
		s->stored = i;
	if (!is_placed && s->received[i] && !s->landed[i])
		fail(s, "TCP took a segment that never lands");
}

/* TCP: old bytes and bytes beyond the window are not taken. */
static void arrive(struct stream *s, uint32_t i)
{
	const struct segment *seg = &s->segments[i];
	uint32_t expected_sn = next_sn(s);

	if (i < s->next)
		return;
	if (seg->end_sn - expected_sn >= s->window) {
		if (seg->message && seg->is_last)
			to_window(s, i, expected_sn); /* 05f */
		return;
	}
	if (s->received[i] && prng_below(&s->prng, 2))
		return; /* a TCP that looks before it hands on; the others rely on TOUCH-08 */
	s->received[i] = true;
	while (s->next < s->count && s->received[s->next])
		s->next++;
	if (seg->message)
		to_window(s, i, expected_sn);
	mem_touch_advance(&s->g.table, s->tag, next_sn(s));
	s->is_over = s->stored != SEGMENTS_MAX && s->next > s->stored;
}

/* The next segment to arrive. */
static uint32_t draw(struct stream *s)
{
	uint32_t from = s->next > 3 ? s->next - 3 : 0, to = s->next + 12;

	if (s->is_m2_late && s->next <= last_of(s, 1) && to > last_of(s, 1) + 1)
		to = last_of(s, 1) + 1;
	return from + prng_below(&s->prng, (to < s->count ? to : s->count) - from);
}

static void expect_memory(struct stream *s, int message)
{
	uint32_t end = s->segments[last_of(s, message)].offset +
		       s->segments[last_of(s, message)].length;

	for (uint32_t i = 0; i < MESSAGE_BYTES; i++) {
		if (s->g.memory[i] != (i < end ? byte_of(message, i) : 0))
			fail(s, "the bytes in memory are not the message");
	}
}

static void run_honest(struct stream *s)
{
	for (uint32_t steps = 0; s->next < s->count && !s->failure; steps++) {
		arrive(s, draw(s));
		if (s->refusal != WEFT_OK)
			fail(s, weft_reason_name(s->refusal));
		if (gate_is_open(&s->g, s->tag, 0, MESSAGE_BYTES) != (s->next <= last_of(s, 1)))
			fail(s, "the window is not open just until the stream covers the message");
		if (steps > 20000)
			fail(s, "no progress");
	}
	if (!s->failure)
		expect_memory(s, 1);
}

/* How many messages landed whole. */
static uint32_t whole_messages(const struct stream *s)
{
	bool is_whole[3] = { false, true, true };

	for (uint32_t i = 0; i < s->count; i++) {
		if (s->segments[i].message && !s->landed[i])
			is_whole[s->segments[i].message] = false;
	}
	return (uint32_t)is_whole[1] + is_whole[2];
}

static void run_cheating(struct stream *s)
{
	for (uint32_t steps = 0; s->refusal == WEFT_OK && !s->failure; steps++) {
		if (s->next == s->count || steps > 20000)
			fail(s, "the second message was never refused");
		else
			arrive(s, draw(s));
	}
	if (whole_messages(s) > 1)
		fail(s, "both messages landed");
	if (gate_is_open(&s->g, s->tag, 0, 1) && s->refusal != WEFT_R_TOUCH_BEYOND)
		fail(s, "the window is open after a refusal");
	for (uint32_t i = 0; s->is_m2_late && i < s->count; i++) {
		if (s->segments[i].message == 2 && s->landed[i])
			fail(s, "some of a later message landed");
	}
	if (s->is_m2_late)
		expect_memory(s, 1);
}

static void expect_good(const struct stream *s, uint64_t seed)
{
	if (s->failure)
		printf("seed %" PRIu64 ": %s\n", seed, s->failure);
	REQUIRE(!s->failure);
}

TEST(test_touch_s3_honest_peer_is_never_refused_and_the_window_closes_on_time)
{
	for (uint64_t seed = 1; seed <= HONEST_SEEDS; seed++) {
		stream_init(&stream, seed, false);
		stream.is_m2_late = false;
		run_honest(&stream);
		gate_fini(&stream.g);
		expect_good(&stream, seed);
	}
	EXPECT(met.early > 1000 && met.out_of_window > 1000);
	EXPECT(met.duplicates > 1000 && met.gaps_filled > 1000);
}

TEST(test_touch_s3_touch_07_second_message_never_lands)
{
	for (uint64_t seed = 1; seed <= CHEATING_SEEDS; seed++) {
		stream_init(&stream, seed, true);
		run_cheating(&stream);
		gate_fini(&stream.g);
		expect_good(&stream, seed);
		met.refused[stream.refusal]++;
	}
	EXPECT(met.refused[WEFT_R_TOUCH_SECOND] > 100);
	EXPECT(met.refused[WEFT_R_TOUCH_BEYOND] > 100);
	EXPECT(met.refused[WEFT_R_TAG_SPENT] > 100);
}
