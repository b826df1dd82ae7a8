/* SPDX-License-Identifier: BSD-2-Clause */
/* Segments and acknowledgements that a peer sends late, again, or against the rules (IBA 13.6). */
#include "test.h"

#include <string.h>

#include "unit/mad/mad_bed.h"
#include "wire/rmpp.h"

enum { GET_TABLE = 0x12, TID = 77, SECOND = 1000000000, DATA_AT = 56, ROOM = MAD_BYTES - DATA_AT };

/* The first agent of a port has the first number: the high half of its transaction ids. */
#define OWN_TID (UINT64_C(1) << 32 | TID)

static struct mad_datagram made(uint64_t tid, uint8_t method, const struct rmpp *h)
{
	const struct mad m = { .mgmt_class = MAD_SUBNET_ADMIN,
			       .class_version = 2,
			       .method = method,
			       .tid = tid,
			       .attribute = 0x11 };
	struct mad_datagram d = { .address = { .lid = BED_LID + 1, .qpn = 1 } };

	mad_encode(&m, d.bytes);
	rmpp_encode(h, d.bytes);
	return d;
}

static bool segment_comes(struct mad_bed *b, uint64_t tid, uint8_t method, struct rmpp h)
{
	struct mad_datagram d;

	h.version = RMPP_VERSION;
	h.type = RMPP_DATA;
	h.flags |= RMPP_ACTIVE;
	d = made(tid, method, &h);
	return mad_recv(b->port[0], b->now_ns, &d);
}

static void ack_comes(struct mad_bed *b, uint32_t segment, uint32_t window)
{
	const struct mad_datagram d = made(OWN_TID, GET_TABLE | MAD_RESPONSE,
					   &(struct rmpp){ .version = RMPP_VERSION,
							   .type = RMPP_ACK,
							   .flags = RMPP_ACTIVE,
							   .segment = segment,
							   .length = window });

	EXPECT(mad_recv(b->port[0], b->now_ns, &d));
}

/* How many datagrams leave now; *last: the last one's header. */
static uint32_t leave(struct mad_bed *b, struct rmpp *last)
{
	struct mad_datagram d;
	uint32_t count = 0;

	for (; mad_next(b->port[0], b->now_ns, &d); count++)
		rmpp_decode(last, d.bytes);
	return count;
}

/* A request of so many segments. */
static void begin(struct mad_bed *b, uint32_t segments)
{
	const struct mad m = { .mgmt_class = MAD_SUBNET_ADMIN,
			       .class_version = 2,
			       .method = GET_TABLE,
			       .tid = TID,
			       .attribute = 0x11 };
	struct rmpp h;

	bed_open(b, 1);
	MUST(bed_send(b, 0, bed_agent(b, 0, 0), &m, DATA_AT + segments * ROOM));
	EXPECT_EQ(leave(b, &h), 1);
	EXPECT_EQ(h.segment, 1);
}

TEST(test_iba_13_6_an_acknowledgement_of_what_was_not_sent_is_ignored)
{
	struct mad_bed b;
	struct rmpp h;

	begin(&b, 8);
	ack_comes(&b, 50, 60);
	EXPECT(leave(&b, &h) == 0 && mad_send_count(b.port[0]) == 1);
	ack_comes(&b, 1, 3);
	EXPECT(leave(&b, &h) == 2 && h.segment == 3);
	bed_close(&b);
}

TEST(test_iba_13_6_an_acknowledgement_that_comes_late_sends_nothing_again)
{
	struct mad_bed b;
	struct rmpp h;

	begin(&b, 8);
	ack_comes(&b, 1, 4);
	EXPECT_EQ(leave(&b, &h), 3);
	ack_comes(&b, 4, 6);
	EXPECT(leave(&b, &h) == 2 && h.segment == 6);
	ack_comes(&b, 1, 4);
	EXPECT_EQ(leave(&b, &h), 0);
	bed_close(&b);
}

/* ---- A receiver ------------------------------------------------------------------------------ */

static void listen_open(struct mad_bed *b)
{
	bed_open(b, 1);
	(void)bed_agent(b, 0, GET_TABLE);
}

TEST(test_iba_13_6_a_table_that_was_not_asked_for_takes_no_memory)
{
	struct mad_bed b;

	listen_open(&b);
	EXPECT(!segment_comes(&b, OWN_TID, GET_TABLE | MAD_RESPONSE,
			      (struct rmpp){ .flags = RMPP_FIRST, .segment = 1 }));
	EXPECT_EQ(mad_due(b.port[0]), UINT64_MAX);
	bed_close(&b);
}

TEST(test_iba_13_6_a_transfer_whose_sender_is_silent_is_forgotten)
{
	enum { SILENCE_S = 10 };
	struct mad_bed b;

	listen_open(&b);
	EXPECT(segment_comes(&b, TID, GET_TABLE,
			     (struct rmpp){ .flags = RMPP_FIRST, .segment = 1 }));
	EXPECT_EQ(mad_due(b.port[0]) - b.now_ns, SILENCE_S * UINT64_C(1000000000));
	mad_expire(b.port[0], mad_due(b.port[0]));
	EXPECT_EQ(mad_due(b.port[0]), UINT64_MAX);
	EXPECT(!segment_comes(&b, TID, GET_TABLE, (struct rmpp){ .segment = 2 }));
	bed_close(&b);
}

/* What is missing is asked for once, not for each segment behind it. */
TEST(test_iba_13_6_segments_behind_one_that_is_missing_are_answered_once)
{
	struct mad_bed b;
	struct rmpp h;

	listen_open(&b);
	EXPECT(segment_comes(&b, TID, GET_TABLE,
			     (struct rmpp){ .flags = RMPP_FIRST, .segment = 1 }));
	EXPECT(leave(&b, &h) == 1 && h.segment == 1);
	for (uint32_t segment = 3; segment < 9; segment++)
		EXPECT(segment_comes(&b, TID, GET_TABLE, (struct rmpp){ .segment = segment }));
	EXPECT(leave(&b, &h) == 1 && h.type == RMPP_ACK && h.segment == 1);
	bed_close(&b);
}

/* Its acknowledgement was lost: it is acknowledged again, and told to the program once. */
TEST(test_iba_13_6_a_last_segment_that_comes_again_is_acknowledged_again)
{
	const struct rmpp whole = { .flags = RMPP_FIRST | RMPP_LAST, .segment = 1 };
	struct mad_bed b;
	struct rmpp h;

	listen_open(&b);
	EXPECT(segment_comes(&b, TID, GET_TABLE, whole));
	mad_message_free(bed_take(&b, 0));
	EXPECT_EQ(leave(&b, &h), 1);
	b.now_ns = SECOND;
	mad_expire(b.port[0], b.now_ns);
	EXPECT(segment_comes(&b, TID, GET_TABLE, whole));
	EXPECT(leave(&b, &h) == 1 && h.type == RMPP_ACK && h.segment == 1);
	EXPECT(!mad_take(b.port[0]));
	bed_close(&b);
}

/* One alone has the length of all: that may be anything. */
TEST(test_iba_13_6_a_length_that_is_longer_than_its_segment_adds_no_bytes)
{
	static const uint32_t lengths[] = { 0, 1, 2000, UINT32_MAX };
	struct mad_bed b;

	listen_open(&b);
	for (uint32_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct mad_message *m;

		EXPECT(segment_comes(&b, TID + i, GET_TABLE,
				     (struct rmpp){ .flags = RMPP_FIRST | RMPP_LAST,
						    .segment = 1,
						    .length = lengths[i] }));
		m = bed_take(&b, 0);
		EXPECT_EQ(m->length, MAD_BYTES);
		mad_message_free(m);
	}
	bed_close(&b);
}

/* Those that have come whole stay for a while; of too many the oldest go. */
TEST(test_iba_13_6_transfers_that_have_ended_keep_none_out)
{
	enum { MORE_THAN_ROOM = 1100 };
	struct mad_bed b;
	struct rmpp h;

	listen_open(&b);
	for (uint64_t tid = 1; tid <= MORE_THAN_ROOM; tid++) {
		EXPECT(segment_comes(
			&b, tid, GET_TABLE,
			(struct rmpp){ .flags = RMPP_FIRST | RMPP_LAST, .segment = 1 }));
		mad_message_free(bed_take(&b, 0));
		EXPECT(leave(&b, &h) == 1 && h.type == RMPP_ACK);
	}
	bed_close(&b);
}

/* ---- An answer ------------------------------------------------------------------------------- */

TEST(test_iba_13_4_6_an_answer_comes_from_where_the_question_went)
{
	const struct mad m = {
		.mgmt_class = MAD_SUBNET_ADMIN, .class_version = 2, .method = MAD_GET, .tid = TID
	};
	struct mad_datagram d = { .address = { .lid = BED_LID + 2, .qpn = 1 } };
	struct mad answer = m;
	struct mad_bed b;
	struct rmpp h;

	bed_open(&b, 1);
	MUST(bed_send(&b, 0, bed_agent(&b, 0, 0), &m, MAD_BYTES));
	EXPECT_EQ(leave(&b, &h), 1);
	answer.method = MAD_GET_RESPONSE;
	answer.tid = OWN_TID;
	mad_encode(&answer, d.bytes);
	EXPECT(!mad_recv(b.port[0], 0, &d));
	d.address.lid = BED_LID + 1;
	EXPECT(mad_recv(b.port[0], 0, &d));
	mad_message_free(bed_take(&b, 0));
	bed_close(&b);
}
