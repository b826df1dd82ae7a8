/* SPDX-License-Identifier: BSD-2-Clause */
/* iWARP taken apart: what is right is read, and each thing that is wrong is said. */
#include "cmd/dump/mpa_dissect.h"

#include <stdlib.h>
#include <string.h>

#include "speak.h"
#include "test.h"
#include "wire/ddp.h"

enum { ITEMS_MAX = 64 };

/* A connection: side 0 asks, side 1 answers. */
struct pair {
	struct speak a, b;
	struct mpa_dissect d;
	struct mpa_item items[ITEMS_MAX];
	int count;
};

static struct pair *pair_open(struct mpa_start request, struct mpa_start reply,
			      struct mpa_enhanced both)
{
	struct pair *p = calloc(1, sizeof(*p));

	REQUIRE(p);
	request.revision = reply.revision = 2;
	reply.is_reply = true;
	request.is_enhanced = reply.is_enhanced = true;
	request.private_bytes = reply.private_bytes = MPA_ENHANCED_BYTES + 3;
	speak_start(&p->a, &request, &both);
	speak_start(&p->b, &reply, &both);
	p->a.has_markers = reply.wants_markers;
	p->b.has_markers = request.wants_markers;
	p->a.has_crc = p->b.has_crc = request.wants_crc || reply.wants_crc;
	mpa_dissect_init(&p->d);
	return p;
}

static struct pair *plain(void)
{
	return pair_open((struct mpa_start){ 0 }, (struct mpa_start){ 0 },
			 (struct mpa_enhanced){ 0 });
}

static struct pair *with_crc(void)
{
	return pair_open((struct mpa_start){ .wants_crc = true }, (struct mpa_start){ 0 },
			 (struct mpa_enhanced){ 0 });
}

/* Gives a side's bytes up to end; what is not taken stays. Returns where it is. */
static uint32_t give(struct pair *p, int from, uint32_t at, uint32_t end)
{
	const struct speak *s = from ? &p->b : &p->a;
	struct rd r = rd_of(s->bytes + at, end - at);

	while (mpa_dissect_next(&p->d, from, &r, &p->items[p->count])) {
		REQUIRE(p->items[p->count].from == from);
		REQUIRE(++p->count < ITEMS_MAX);
	}
	return (uint32_t)(r.at - s->bytes);
}

/* Both sides whole, then their ends. */
static void run(struct pair *p)
{
	uint32_t at[2];

	at[0] = give(p, 0, 0, p->a.length);
	at[1] = give(p, 1, 0, p->b.length);
	at[0] = give(p, 0, at[0], p->a.length);
	for (int from = 0; from < 2; from++) {
		const struct speak *s = from ? &p->b : &p->a;
		struct rd r = rd_of(s->bytes + at[from], s->length - at[from]);

		while (mpa_dissect_end(&p->d, from, &r, &p->items[p->count]))
			REQUIRE(++p->count < ITEMS_MAX);
		REQUIRE(r.at == r.end);
	}
}

/* Two start frames and then just this. */
static const struct mpa_item *only(struct pair *p)
{
	run(p);
	REQUIRE(p->count == 3);
	REQUIRE(p->items[0].kind == MPA_ITEM_START && p->items[1].kind == MPA_ITEM_START);
	return &p->items[2];
}

static void expect_fault(struct pair *p, enum mpa_fault fault)
{
	const struct mpa_item *item = only(p);

	REQUIRE(item->fault == fault && item->text[0]);
	free(p);
}

static void no_fault(const struct pair *p)
{
	for (int i = 0; i < p->count; i++)
		REQUIRE(p->items[i].fault == MPA_FAULT_NONE);
}

static void write_to(struct speak *s, uint64_t to, uint32_t bytes, bool is_more)
{
	speak_tagged(s, (struct speak_segment){ .opcode = RDMAP_WRITE,
						.is_more = is_more,
						.stag = 7,
						.offset = to,
						.bytes = bytes });
}

static void send_of(struct speak *s, uint32_t msn, uint32_t mo, uint32_t bytes, bool is_more)
{
	speak_untagged(s, (struct speak_segment){ .opcode = RDMAP_SEND,
						  .is_more = is_more,
						  .msn = msn,
						  .offset = mo,
						  .bytes = bytes });
}

/* ---- start frames --------------------------------------------------------------------------- */

TEST(test_rfc5044_7_1_dissect_start_frames)
{
	struct pair *p = pair_open((struct mpa_start){ .wants_crc = true, .reserved = 8 },
				   (struct mpa_start){ .wants_markers = true },
				   (struct mpa_enhanced){ .ird = 3, .ord = 4 });
	static const uint8_t data[] = { 0, 1, 2 };

	run(p);
	EXPECT_EQ(p->count, 2);
	no_fault(p);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(p->items[i].start.is_reply, i);
		EXPECT_EQ(p->items[i].data_bytes, sizeof(data));
		EXPECT_MEM(p->items[i].data, data, sizeof(data));
		EXPECT(p->items[i].enhanced.ird == 3 && p->items[i].enhanced.ord == 4);
	}
	EXPECT(p->items[0].start.wants_crc && p->items[0].start.reserved == 8);
	EXPECT(p->items[1].start.wants_markers);
	free(p);
}

TEST(test_rfc5044_7_1_dissect_recognises_start_frames)
{
	static const uint8_t key[] = "MPA ID Req Frame", other[] = "MPA ID Rex Frame";
	struct rd r = rd_of(key, 0);

	EXPECT(!mpa_dissect_is_start(r));
	for (size_t n = 1; n <= 16; n++) {
		EXPECT(mpa_dissect_is_start(rd_of(key, n)));
		EXPECT_EQ(mpa_dissect_is_start(rd_of(other, n)), n < 10);
	}
}

TEST(test_rfc5044_7_1_dissect_wrong_start_frames)
{
	struct pair *p = plain();

	p->a.bytes[0] = 'm';
	run(p);
	EXPECT_EQ(p->count, 1);
	EXPECT_EQ(p->items[0].fault, MPA_FAULT_START);
	free(p);
	p = plain();
	p->b.bytes[17] = 3; /* the revision */
	run(p);
	EXPECT_EQ(p->count, 2);
	EXPECT_EQ(p->items[1].fault, MPA_FAULT_START);
	free(p);
	p = plain();
	memcpy(p->b.bytes, "MPA ID Req", 10);
	run(p);
	EXPECT_EQ(p->count, 2);
	EXPECT_EQ(p->items[1].fault, MPA_FAULT_START);
	EXPECT(strstr(p->items[1].text, "both"));
	free(p);
}

/* Without the Reply nothing after the Request can be read; a Request alone is no fault. */
TEST(test_rfc5044_7_1_dissect_request_without_reply)
{
	struct pair *p = plain();

	p->b.length = 0;
	run(p);
	EXPECT_EQ(p->count, 1);
	no_fault(p);
	free(p);
	p = plain();
	p->b.length = 0;
	send_of(&p->a, 1, 0, 5, false);
	run(p);
	EXPECT_EQ(p->count, 2);
	EXPECT_EQ(p->items[1].fault, MPA_FAULT_START);
	EXPECT_EQ(p->d.sides[0].skipped_bytes, p->a.length - p->a.begin);
	free(p);
	p = plain();
	p->b.length -= 1;
	run(p);
	EXPECT_EQ(p->count, 2);
	EXPECT_EQ(p->items[1].fault, MPA_FAULT_START);
	free(p);
}

/* A rejected connection is not MPA any more. */
TEST(test_rfc5044_7_1_dissect_rejected)
{
	struct pair *p = pair_open((struct mpa_start){ 0 },
				   (struct mpa_start){ .is_rejected = true },
				   (struct mpa_enhanced){ 0 });

	memcpy(p->a.bytes + p->a.length, "hello", 5);
	p->a.length += 5;
	run(p);
	EXPECT_EQ(p->count, 2);
	no_fault(p);
	EXPECT_EQ(p->d.sides[0].skipped_bytes, 0);
	free(p);
}

/* ---- FPDUs, markers, CRC -------------------------------------------------------------------- */

/* The two examples of FPDUs with markers: the first of a stream, and one with a marker in it. */
TEST(test_rfc5044_4_3_dissect_fpdus_with_markers)
{
	static const uint8_t first[] = { 0, 0, 0, 0, 0, 0x2a, 0x41, 0x43, [19] = 1 };
	static const uint8_t crc_1[] = { 0x52, 0x23, 0x99, 0x83 };
	static const uint8_t second[] = { 0, 0x2a, 0x41, 0x43, [15] = 2, [23] = 0x14 };
	static const uint8_t crc_2[] = { 0x84, 0x92, 0x58, 0x98 };
	struct pair *p = pair_open((struct mpa_start){ .wants_crc = true },
				   (struct mpa_start){ .wants_markers = true },
				   (struct mpa_enhanced){ 0 });
	const uint8_t *at = p->a.bytes + p->a.begin;

	send_of(&p->a, 1, 0, 24, false);
	EXPECT_MEM(at, first, sizeof(first));
	EXPECT_MEM(p->a.bytes + p->a.length - 4, crc_1, 4);
	write_to(&p->a, 0, 420, false);
	EXPECT_EQ(p->a.length - p->a.begin, 0x1ec);
	send_of(&p->a, 2, 0, 24, false);
	EXPECT_MEM(at + 0x1ec, second, sizeof(second));
	EXPECT_MEM(p->a.bytes + p->a.length - 4, crc_2, 4);
	run(p);
	EXPECT_EQ(p->count, 5);
	no_fault(p);
	EXPECT(p->items[2].bytes == 24 && p->items[3].bytes == 420 && p->items[4].bytes == 24);
	free(p);
}

/* Messages of every length up to some markers, so that each part of an FPDU meets one. */
TEST(test_rfc5044_4_3_dissect_markers_everywhere)
{
	for (uint32_t bytes = 0; bytes < 1600; bytes++) {
		struct pair *p = pair_open((struct mpa_start){ .wants_markers = true },
					   (struct mpa_start){ .wants_crc = true },
					   (struct mpa_enhanced){ 0 });

		write_to(&p->b, 0x100, bytes, true);
		write_to(&p->b, 0x100 + bytes, 3, false);
		send_of(&p->b, 1, 0, bytes / 3, false);
		run(p);
		EXPECT_EQ(p->count, 4);
		no_fault(p);
		EXPECT_EQ(p->items[2].bytes, bytes + 3);
		EXPECT_EQ(p->items[2].fpdus, 2);
		EXPECT_EQ(p->items[3].bytes, bytes / 3);
		free(p);
	}
}

/* The longest FPDU there is, 130 markers in it. */
TEST(test_rfc5044_4_2_dissect_the_longest_fpdu)
{
	for (int has_markers = 0; has_markers < 2; has_markers++) {
		struct pair *p = pair_open((struct mpa_start){ .wants_crc = true },
					   (struct mpa_start){ .wants_markers = has_markers },
					   (struct mpa_enhanced){ 0 });
		const struct mpa_item *item;

		write_to(&p->a, 0, 65535 - DDP_TAGGED_BYTES, false);
		item = only(p);
		EXPECT_EQ(item->bytes, 65535 - DDP_TAGGED_BYTES);
		no_fault(p);
		free(p);
	}
}

TEST(test_rfc5044_8_dissect_a_marker_that_points_elsewhere)
{
	struct pair *p;

	for (uint32_t place = 0; place <= 512; place += 512) {
		p = pair_open((struct mpa_start){ 0 }, (struct mpa_start){ .wants_markers = true },
			      (struct mpa_enhanced){ 0 });
		write_to(&p->a, 0, 700, false);
		p->a.bytes[p->a.begin + place + 3] ^= 4;
		expect_fault(p, MPA_FAULT_MARKER);
	}
}

TEST(test_rfc5044_8_dissect_a_wrong_crc)
{
	struct pair *p = with_crc();
	const struct mpa_item *item;

	/* In the payload: the message is told, and what follows is read. */
	send_of(&p->a, 1, 0, 40, false);
	p->a.bytes[p->a.length - 8] ^= 1;
	item = only(p);
	EXPECT_EQ(item->fault, MPA_FAULT_CRC);
	EXPECT(item->kind == MPA_ITEM_MESSAGE && item->bytes == 40);
	EXPECT_EQ(p->d.sides[0].state, MPA_SIDE_FPDUS);
	free(p);
	/* In the header: nothing can be trusted. */
	p = with_crc();
	send_of(&p->a, 1, 0, 40, false);
	p->a.bytes[p->a.begin + 2] ^= 3; /* DDP's version */
	send_of(&p->a, 2, 0, 40, false);
	item = only(p);
	EXPECT_EQ(item->fault, MPA_FAULT_CRC);
	EXPECT_EQ(item->kind, MPA_ITEM_FAULT);
	EXPECT_EQ(p->d.sides[0].state, MPA_SIDE_LOST);
	EXPECT_EQ(p->d.sides[0].skipped_bytes, 64);
	free(p);
	/* In any one byte of a message's first FPDU but its length, the CRC is what is wrong. */
	for (uint32_t i = 2; i < 64; i++) {
		p = with_crc();
		send_of(&p->a, 1, 0, 40, false);
		p->a.bytes[p->a.begin + i] ^= 0x10;
		expect_fault(p, MPA_FAULT_CRC);
	}
}

/* A message number that the CRC does not vouch for is not counted on from. */
TEST(test_rfc5044_8_dissect_a_wrong_crc_over_the_message_number)
{
	struct pair *p = with_crc();

	send_of(&p->a, 1, 0, 40, false);
	p->a.bytes[p->a.begin + 15] = 9;
	send_of(&p->a, 2, 0, 40, false);
	run(p);
	EXPECT_EQ(p->count, 4);
	EXPECT(p->items[2].fault == MPA_FAULT_CRC && p->items[3].fault == MPA_FAULT_NONE);
	free(p);
}

/* Without CRC its field may hold anything. */
TEST(test_rfc5044_7_1_dissect_without_crc)
{
	struct pair *p = plain();

	send_of(&p->a, 1, 0, 40, false);
	memset(p->a.bytes + p->a.length - 4, 0x5a, 4);
	(void)only(p);
	no_fault(p);
	free(p);
}

/* The same items, however the bytes come: one by one, and the sides in turn. */
TEST(test_rfc5044_dissect_bytes_one_by_one)
{
	struct pair *p = pair_open((struct mpa_start){ .wants_crc = true, .wants_markers = true },
				   (struct mpa_start){ .wants_markers = true },
				   (struct mpa_enhanced){ 0 });
	uint32_t at[2] = { 0 };

	write_to(&p->a, 0, 600, true);
	write_to(&p->a, 600, 500, false);
	speak_read(&p->a, 1, 9);
	send_of(&p->b, 1, 0, 1000, true);
	send_of(&p->b, 1, 1000, 1, false);
	for (uint32_t n = 1; n <= p->a.length || n <= p->b.length; n++) {
		if (n <= p->a.length)
			at[0] = give(p, 0, at[0], n);
		if (n <= p->b.length)
			at[1] = give(p, 1, at[1], n);
	}
	EXPECT(at[0] == p->a.length && at[1] == p->b.length);
	EXPECT_EQ(p->count, 5);
	no_fault(p);
	free(p);
}

/* ---- headers -------------------------------------------------------------------------------- */

/* With a good CRC an FPDU of unknown content is passed over, without one it is the end. */
TEST(test_rfc5040_4_3_dissect_headers_that_make_no_sense)
{
	static const struct {
		uint32_t byte;
		uint8_t value;
	} wrong[] = {
		{ 2, 0x42 }, /* DDP version 2 */
		{ 3, 0x83 }, /* RDMAP version 2 */
		{ 3, 0x4c }, /* opcode 12 */
		{ 11, 4 },   /* queue 4 */
		{ 11, 1 },   /* a Send on queue 1 */
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct pair *p = with_crc(), *q = plain();
		struct speak again = p->a;

		send_of(&p->a, 1, 0, 4, false);
		p->a.bytes[p->a.begin + wrong[i].byte] = wrong[i].value;
		/* The same again, so that its CRC is right. */
		speak_fpdu(&again, p->a.bytes + p->a.begin + 2, DDP_UNTAGGED_BYTES + 4);
		p->a = again;
		write_to(&p->a, 0, 4, false);
		run(p);
		EXPECT_EQ(p->count, 4);
		EXPECT_EQ(p->items[2].fault, MPA_FAULT_HEADER);
		EXPECT(p->items[3].fault == MPA_FAULT_NONE && p->items[3].bytes == 4);
		free(p);
		send_of(&q->a, 1, 0, 4, false);
		q->a.bytes[q->a.begin + wrong[i].byte] = wrong[i].value;
		write_to(&q->a, 0, 4, false);
		expect_fault(q, MPA_FAULT_HEADER);
	}
}

TEST(test_rfc5041_4_dissect_an_fpdu_too_short_for_a_header)
{
	for (uint32_t n = 0; n < DDP_UNTAGGED_BYTES; n++) {
		static const uint8_t untagged[DDP_UNTAGGED_BYTES] = { 0x41, 0x43, [13] = 1 };
		static const uint8_t tagged[DDP_TAGGED_BYTES] = { 0xc1, 0x40 };
		struct pair *p = plain();

		speak_fpdu(&p->a, untagged, n);
		expect_fault(p, MPA_FAULT_HEADER);
		if (n < DDP_TAGGED_BYTES) {
			p = plain();
			speak_fpdu(&p->a, tagged, n);
			expect_fault(p, MPA_FAULT_HEADER);
		}
	}
}

TEST(test_rfc5041_5_1_dissect_message_numbers)
{
	struct pair *p = plain();

	send_of(&p->a, 1, 0, 1, false);
	speak_read(&p->a, 1, 5);
	send_of(&p->a, 2, 0, 1, false);
	speak_read(&p->a, 2, 5);
	run(p);
	no_fault(p);
	EXPECT_EQ(p->count, 6);
	free(p);
	p = plain();
	send_of(&p->a, 0, 0, 1, false);
	expect_fault(p, MPA_FAULT_MSN);
	/* After a wrong one counting goes on from there. */
	p = plain();
	send_of(&p->a, 3, 0, 1, false);
	send_of(&p->a, 4, 0, 1, false);
	run(p);
	EXPECT(p->items[2].fault == MPA_FAULT_MSN && p->items[3].fault == MPA_FAULT_NONE);
	free(p);
}

/* ---- messages ------------------------------------------------------------------------------- */

TEST(test_rfc5041_5_3_dissect_messages_of_several_segments)
{
	struct pair *p = plain();

	write_to(&p->a, UINT64_C(0xfffffffffffffff0), 16, true); /* the offset wraps, and that is */
	write_to(&p->a, 0, 16, true);				 /* not for this to judge */
	write_to(&p->a, 16, 0, false);
	send_of(&p->a, 1, 0, 100, true);
	send_of(&p->a, 1, 100, 28, false);
	run(p);
	no_fault(p);
	EXPECT_EQ(p->count, 4);
	EXPECT(p->items[2].bytes == 32 && p->items[2].fpdus == 3 && p->items[2].stag == 7);
	EXPECT_EQ(p->items[2].to, UINT64_C(0xfffffffffffffff0));
	EXPECT(p->items[3].bytes == 128 && p->items[3].fpdus == 2 && p->items[3].is_whole);
	EXPECT(p->d.sides[0].fpdus == 5 && p->d.sides[0].messages == 2);
	EXPECT_EQ(p->items[2].data_bytes, 0);
	EXPECT_EQ(p->items[3].data_bytes, 128);
	free(p);
}

/* Of what a Send carries the beginning is kept, over all its segments. */
TEST(test_rfc5040_5_3_dissect_keeps_the_beginning_of_sends)
{
	struct pair *p = plain();

	send_of(&p->a, 1, 0, 1400, true);
	send_of(&p->a, 1, 1400, 1400, true);
	send_of(&p->a, 1, 2800, 10, false);
	run(p);
	no_fault(p);
	EXPECT_EQ(p->items[2].bytes, 2810);
	EXPECT_EQ(p->items[2].data_bytes, MPA_DATA_MAX);
	free(p);
}

TEST(test_rfc5041_5_3_dissect_segments_that_do_not_follow)
{
	struct pair *p = plain();

	write_to(&p->a, 0, 16, true);
	write_to(&p->a, 17, 16, false);
	expect_fault(p, MPA_FAULT_OFFSET);
	p = plain();
	send_of(&p->a, 1, 4, 16, false);
	expect_fault(p, MPA_FAULT_OFFSET);
	p = plain();
	send_of(&p->a, 1, 0, 16, true);
	send_of(&p->a, 1, 15, 16, false);
	expect_fault(p, MPA_FAULT_OFFSET);
}

/* A message that another one ends is told, and the other one too. */
TEST(test_rfc5041_5_3_dissect_a_message_cut_by_another)
{
	struct pair *q = plain();

	send_of(&q->a, 1, 0, 5, true);
	send_of(&q->a, 2, 0, 5, false);
	run(q);
	EXPECT_EQ(q->count, 4);
	EXPECT(q->items[2].fault == MPA_FAULT_CUT && q->items[3].fault == MPA_FAULT_NONE);
	free(q);
	for (int how = 0; how < 3; how++) {
		struct pair *p = plain();

		write_to(&p->a, 0, 16, true);
		if (how == 0)
			send_of(&p->a, 1, 0, 5, false);
		else if (how == 1)
			speak_tagged(&p->a,
				     (struct speak_segment){ .opcode = RDMAP_WRITE, .stag = 8 });
		else
			speak_tagged(&p->a, (struct speak_segment){ .opcode = RDMAP_READ_RESPONSE,
								    .stag = 7,
								    .offset = 16 });
		run(p);
		EXPECT_EQ(p->count, 4);
		EXPECT_EQ(p->items[2].fault, MPA_FAULT_CUT);
		EXPECT(p->items[2].bytes == 16 && !p->items[2].is_whole);
		EXPECT(p->items[3].fault == MPA_FAULT_NONE && p->items[3].is_whole);
		EXPECT_EQ(p->d.sides[0].messages, 1);
		free(p);
	}
}

TEST(test_rfc5040_dissect_streams_that_end_half)
{
	struct pair *p = plain();

	send_of(&p->a, 1, 0, 5, true);
	expect_fault(p, MPA_FAULT_HALF);
	p = plain();
	send_of(&p->a, 1, 0, 5, false);
	for (uint32_t n = 1; n < 32; n++) {
		p->a.length--;
		p->count = 0;
		mpa_dissect_init(&p->d);
		run(p);
		EXPECT_EQ(p->count, n < 32 ? 3 : 2);
		EXPECT_EQ(p->items[2].fault, MPA_FAULT_HALF);
	}
	free(p);
	/* Both at once: an FPDU and the message it is of. */
	p = plain();
	send_of(&p->a, 1, 0, 5, true);
	send_of(&p->a, 1, 5, 5, false);
	p->a.length -= 4;
	run(p);
	EXPECT_EQ(p->count, 4);
	EXPECT(p->items[2].fault == MPA_FAULT_HALF && p->items[3].fault == MPA_FAULT_HALF);
	EXPECT(p->items[2].kind == MPA_ITEM_FAULT && p->items[3].kind == MPA_ITEM_MESSAGE);
	free(p);
}

TEST(test_rfc5040_dissect_bodies)
{
	static const uint8_t zeros[256], op_1[RDMAP_ATOMIC_REQUEST_BYTES] = { [3] = 1 };
	static const struct {
		enum rdmap_opcode opcode;
		uint32_t bytes;
	} rows[] = {
		{ RDMAP_READ_REQUEST, RDMAP_READ_REQUEST_BYTES },
		{ RDMAP_TERMINATE, RDMAP_TERMINATE_BYTES },
		{ RDMAP_IMMEDIATE, RDMAP_IMMEDIATE_BYTES },
		{ RDMAP_IMMEDIATE_SE, RDMAP_IMMEDIATE_BYTES },
		{ RDMAP_ATOMIC_REQUEST, RDMAP_ATOMIC_REQUEST_BYTES },
		{ RDMAP_ATOMIC_RESPONSE, RDMAP_ATOMIC_RESPONSE_BYTES },
	};
	struct pair *p;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		p = plain();
		speak_body(&p->a, rows[i].opcode, 1, zeros, rows[i].bytes);
		EXPECT_EQ(only(p)->opcode, rows[i].opcode);
		no_fault(p);
		EXPECT(p->items[2].bytes == 0 && p->items[2].fpdus == 1);
		free(p);
		p = plain();
		speak_body(&p->a, rows[i].opcode, 1, zeros, rows[i].bytes - 1);
		expect_fault(p, MPA_FAULT_BODY);
		p = plain();
		speak_body(&p->a, rows[i].opcode, 1, zeros, rows[i].bytes + 1);
		expect_fault(p, MPA_FAULT_BODY);
		p = plain();
		speak_body(&p->a, rows[i].opcode, 1, zeros, 200);
		expect_fault(p, MPA_FAULT_BODY);
	}
	p = plain();
	speak_body(&p->a, RDMAP_ATOMIC_REQUEST, 1, op_1, sizeof(op_1));
	expect_fault(p, MPA_FAULT_BODY);
	/* Not the last segment, which it must be. */
	p = plain();
	speak_untagged(&p->a, (struct speak_segment){ .opcode = RDMAP_IMMEDIATE,
						      .is_more = true,
						      .msn = 1,
						      .bytes = RDMAP_IMMEDIATE_BYTES });
	expect_fault(p, MPA_FAULT_BODY);
	/* Nor does it begin elsewhere. */
	p = plain();
	speak_untagged(&p->a, (struct speak_segment){ .opcode = RDMAP_IMMEDIATE,
						      .msn = 1,
						      .offset = 4,
						      .bytes = RDMAP_IMMEDIATE_BYTES });
	expect_fault(p, MPA_FAULT_BODY);
}

TEST(test_rfc5040_4_8_dissect_terminate_of_siw)
{
	static const uint8_t crc_error[] = { 0x02, 0x02, 0, 0 };
	struct pair *p = plain();
	const struct mpa_item *item;

	speak_body(&p->b, RDMAP_TERMINATE, 1, crc_error, sizeof(crc_error));
	item = only(p);
	EXPECT_EQ(item->fault, MPA_FAULT_NONE);
	EXPECT(item->body.terminate.is_siw_order && item->body.terminate.layer == 2);
	free(p);
	/* After it nothing may come, from that side. */
	p = plain();
	speak_body(&p->b, RDMAP_TERMINATE, 1, crc_error, sizeof(crc_error));
	send_of(&p->b, 1, 0, 1, false);
	send_of(&p->a, 1, 0, 1, false);
	run(p);
	EXPECT_EQ(p->count, 5);
	EXPECT_EQ(p->items[3].fault, MPA_FAULT_AFTER_END);
	EXPECT(p->items[4].from == 0 && p->items[4].fault == MPA_FAULT_NONE);
	free(p);
}

/* ---- RTR ------------------------------------------------------------------------------------ */

TEST(test_rfc6581_dissect_rtr)
{
	const struct mpa_enhanced all = { true, true, true, true, 1, 1 };
	const struct mpa_enhanced write_only = { .is_peer_to_peer = true, .rtr_by_write = true };

	for (int how = 0; how < 3; how++) {
		for (int is_offered = 0; is_offered < 2; is_offered++) {
			struct pair *p = pair_open((struct mpa_start){ 0 }, (struct mpa_start){ 0 },
						   is_offered ? all : write_only);
			const struct mpa_item *item;
			bool is_good = is_offered || how == 1;

			if (how == 0)
				send_of(&p->a, 1, 0, 0, false);
			else if (how == 1)
				write_to(&p->a, 0, 0, false);
			else
				speak_read(&p->a, 1, 0);
			item = only(p);
			EXPECT_EQ(item->is_rtr, is_good);
			EXPECT_EQ(item->fault, is_good ? MPA_FAULT_NONE : MPA_FAULT_RTR);
			free(p);
		}
	}
}

/* What the Request offers and the Reply does not is not agreed on, and A is asked for by both. */
TEST(test_rfc6581_dissect_rtr_that_one_side_offers)
{
	for (int who = 0; who < 2; who++) {
		struct pair *p = plain();
		struct speak *s = who ? &p->b : &p->a, *t = who ? &p->a : &p->b;

		s->bytes[MPA_START_BYTES] = 0xc0;     /* A and B */
		s->bytes[MPA_START_BYTES + 2] = 0xc0; /* C and D */
		write_to(&p->a, 0, 0, false);
		EXPECT(!only(p)->is_rtr);
		no_fault(p);
		t->bytes[MPA_START_BYTES] = 0x80; /* A, and none of the rest */
		p->count = 0;
		mpa_dissect_init(&p->d);
		EXPECT_EQ(only(p)->fault, MPA_FAULT_RTR);
		free(p);
		for (int how = 0; how < 2; how++) {
			p = plain();
			s = who ? &p->b : &p->a;
			t = who ? &p->a : &p->b;
			s->bytes[MPA_START_BYTES] = 0xc0;
			s->bytes[MPA_START_BYTES + 2] = 0xc0;
			t->bytes[MPA_START_BYTES] = 0x80;
			if (how == 0)
				send_of(&p->a, 1, 0, 0, false);
			else
				speak_read(&p->a, 1, 0);
			expect_fault(p, MPA_FAULT_RTR);
		}
	}
}

/* Only the initiator's first, only if it is empty and agreed on; Terminate is always free. */
TEST(test_rfc6581_dissect_what_is_no_rtr)
{
	static const uint8_t no_match[] = { 0x20, 0x07, 0, 0 };
	const struct mpa_enhanced all = { true, true, true, true, 1, 1 };
	struct pair *p = pair_open((struct mpa_start){ 0 }, (struct mpa_start){ 0 }, all);

	write_to(&p->a, 0, 1, false);
	expect_fault(p, MPA_FAULT_RTR);
	p = pair_open((struct mpa_start){ 0 }, (struct mpa_start){ 0 }, all);
	speak_read(&p->a, 1, 1);
	expect_fault(p, MPA_FAULT_RTR);
	p = pair_open((struct mpa_start){ 0 }, (struct mpa_start){ 0 }, all);
	write_to(&p->b, 0, 0, false);
	EXPECT(!only(p)->is_rtr);
	no_fault(p);
	free(p);
	p = pair_open((struct mpa_start){ 0 }, (struct mpa_start){ 0 }, all);
	speak_body(&p->a, RDMAP_TERMINATE, 1, no_match, sizeof(no_match));
	EXPECT(!only(p)->is_rtr);
	no_fault(p);
	free(p);
	p = pair_open((struct mpa_start){ 0 }, (struct mpa_start){ 0 }, all);
	write_to(&p->a, 0, 0, false);
	write_to(&p->a, 0, 0, false);
	run(p);
	no_fault(p);
	EXPECT(p->items[2].is_rtr && !p->items[3].is_rtr);
	free(p);
	p = plain();
	write_to(&p->a, 0, 0, false);
	EXPECT(!only(p)->is_rtr);
	no_fault(p);
	free(p);
}

/* ---- gaps ----------------------------------------------------------------------------------- */

TEST(test_rfc5044_dissect_a_gap)
{
	struct pair *p = plain();
	struct mpa_item item;
	uint32_t at;

	send_of(&p->a, 1, 0, 5, true);
	at = give(p, 0, 0, p->a.length);
	(void)give(p, 1, 0, p->b.length);
	(void)give(p, 0, at, p->a.length);
	EXPECT(mpa_dissect_gap(&p->d, 0, 77, &item));
	EXPECT_EQ(item.fault, MPA_FAULT_GAP);
	EXPECT(strstr(item.text, "77 bytes"));
	EXPECT(!mpa_dissect_gap(&p->d, 0, 5, &item)); /* no news */
	at = give(p, 0, p->a.begin, p->a.length);
	EXPECT_EQ(at, p->a.length);
	EXPECT_EQ(p->d.sides[0].skipped_bytes, p->a.length - p->a.begin);
	EXPECT_EQ(p->count, 2);
	/* The other direction is not concerned. */
	EXPECT_EQ(p->d.sides[1].state, MPA_SIDE_FPDUS);
	free(p);
}
