/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of several datagrams (IBA 13.6). */
#include "test.h"

#include <string.h>

#include "unit/mad/mad_bed.h"
#include "wire/rmpp.h"

enum { GET_TABLE = 0x12, DATA_AT = 56, ROOM = MAD_BYTES - DATA_AT };

static const struct mad ask = { .mgmt_class = MAD_SUBNET_ADMIN,
				.class_version = 2,
				.method = GET_TABLE,
				.tid = 77,
				.attribute = 0x11 };

/* One side asks for a table, the other has got the question. Returns the agent that asked. */
static uint32_t ask_for_table(struct mad_bed *b, struct mad *table)
{
	uint32_t agent = bed_agent(b, 0, 0), lost = b->lost_of_100;
	struct mad_message *m;

	(void)bed_agent(b, 1, GET_TABLE);
	b->lost_of_100 = 0;
	MUST(bed_send(b, 0, agent, &ask, MAD_BYTES));
	bed_move(b);
	b->lost_of_100 = lost;
	m = bed_take(b, 1);
	MUST(mad_decode(table, m->bytes, MAD_BYTES));
	table->method |= MAD_RESPONSE;
	mad_message_free(m);
	return agent;
}

/* Lengths that fill segments, and others; one that is a single segment. */
TEST(test_sys_01_a_table_comes_whole_whatever_its_length)
{
	static const uint32_t lengths[] = { MAD_BYTES + 1,
					    DATA_AT + 2 * ROOM,
					    DATA_AT + 2 * ROOM + 1,
					    DATA_AT + 3 * ROOM - 1,
					    70000,
					    1 << 20 };

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct mad_bed b;
		struct mad table;
		struct mad_message *m;

		harness_note("%u bytes", lengths[i]);
		bed_open(&b, i);
		(void)ask_for_table(&b, &table);
		MUST(bed_send(&b, 1, 0, &table, lengths[i]));
		bed_move(&b);
		m = bed_take(&b, 0);
		EXPECT(bed_is_pattern(m, lengths[i]));
		EXPECT(!m->is_timed_out);
		mad_message_free(m);
		EXPECT_EQ(mad_send_count(b.port[0]) + mad_send_count(b.port[1]), 0);
		EXPECT(!mad_take(b.port[0]));
		bed_close(&b);
	}
}

/* 13.6.2: segments and acknowledgements that are lost are sent again; the table comes once. */
TEST(test_sys_01_a_table_comes_once_and_whole_over_a_lossy_path)
{
	for (uint32_t seed = 0; seed < HISTORIES(200); seed++) {
		struct mad_bed b;
		struct mad table;
		struct mad_message *m;
		uint32_t length = 300 + seed * 137;

		harness_note("seed %u", seed);
		bed_open(&b, seed);
		b.lost_of_100 = 10;
		(void)ask_for_table(&b, &table);
		MUST(bed_send(&b, 1, 0, &table, length));
		bed_run(&b, 5000);
		m = bed_take(&b, 0);
		EXPECT(bed_is_pattern(m, length));
		mad_message_free(m);
		EXPECT(!mad_take(b.port[0]));
		bed_close(&b);
	}
}

/* A request of several segments, as GetMulti of multipath records: its answer ends it. */
TEST(test_sys_01_a_long_request_waits_for_its_answer)
{
	struct mad_bed b;
	uint32_t agent;
	struct mad_message *m;
	struct mad answer;

	bed_open(&b, 9);
	agent = bed_agent(&b, 0, 0);
	(void)bed_agent(&b, 1, GET_TABLE);
	MUST(bed_send(&b, 0, agent, &ask, 1000));
	bed_move(&b);
	m = bed_take(&b, 1);
	EXPECT(bed_is_pattern(m, 1000));
	MUST(mad_decode(&answer, m->bytes, MAD_BYTES));
	mad_message_free(m);
	EXPECT_EQ(mad_send_count(b.port[0]), 1);
	answer.method |= MAD_RESPONSE;
	MUST(bed_send(&b, 1, 0, &answer, MAD_BYTES));
	bed_move(&b);
	m = bed_take(&b, 0);
	EXPECT(!m->is_timed_out);
	mad_message_free(m);
	EXPECT_EQ(mad_send_count(b.port[0]), 0);
	bed_close(&b);
}

static bool has_no_segments_after_the_third(struct mad_bed *b, uint32_t from,
					    struct mad_datagram *d)
{
	struct rmpp h;

	(void)b;
	rmpp_decode(&h, d->bytes);
	return from == 0 || !(h.flags & RMPP_ACTIVE) || h.segment <= 3;
}

/* Who sends learns that it failed, who asked that there is no answer; neither keeps anything. */
TEST(test_sys_01_a_transfer_that_stands_still_ends_at_both_sides)
{
	struct mad_bed b;
	struct mad table;
	struct mad_message *m;
	bool is_told;

	bed_open(&b, 10);
	(void)ask_for_table(&b, &table);
	b.wire = has_no_segments_after_the_third;
	MUST(bed_send(&b, 1, 0, &table, 5000));
	bed_run(&b, 100);
	/* The question was asked again meanwhile. */
	do {
		struct mad_message *last = bed_take(&b, 1);

		is_told = last->is_timed_out;
		mad_message_free(last);
	} while (!is_told);
	m = bed_take(&b, 0);
	EXPECT(m->is_timed_out);
	mad_message_free(m);
	EXPECT_EQ(mad_due(b.port[0]), UINT64_MAX);
	EXPECT_EQ(mad_due(b.port[1]), UINT64_MAX);
	bed_close(&b);
}

/* The status by which the receiver ended the transfer; 0: it did not. */
static uint8_t seen_status, seen_type;
static struct rmpp forged;

static bool is_forged(struct mad_bed *b, uint32_t from, struct mad_datagram *d)
{
	struct rmpp h;

	(void)b;
	rmpp_decode(&h, d->bytes);
	if (!(h.flags & RMPP_ACTIVE))
		return true;
	if (from == 1)
		rmpp_encode(&forged, d->bytes);
	else if (h.type != RMPP_ACK) {
		seen_status = h.status;
		seen_type = h.type;
	}
	return true;
}

/* 13.6.2.3: what is no segment ends the transfer, with the reason; the sender's program is told. */
TEST(test_sys_01_segments_against_the_rules_end_the_transfer_with_a_reason)
{
	static const struct {
		struct rmpp h;
		enum rmpp_status status;
	} cases[] = {
		{ { .version = 2, .type = RMPP_DATA, .flags = 3, .segment = 1 }, RMPP_BAD_VERSION },
		{ { .version = 1, .type = 9, .flags = 3, .segment = 1 }, RMPP_BAD_TYPE },
		{ { .version = 1, .type = RMPP_DATA, .flags = 1, .segment = 1 }, RMPP_BAD_SEGMENT },
		{ { .version = 1, .type = RMPP_DATA, .flags = 3, .segment = 2 }, RMPP_BAD_SEGMENT },
		{ { .version = 1, .type = RMPP_DATA, .flags = 3, .segment = 0 }, RMPP_BAD_SEGMENT },
		{ { .version = 1, .type = RMPP_DATA, .flags = 5, .segment = 2, .length = 221 },
		  RMPP_BAD_LENGTH },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mad_bed b;
		struct mad table;
		struct mad_message *m;

		harness_note("case %zu", i);
		bed_open(&b, i);
		(void)ask_for_table(&b, &table);
		b.wire = is_forged;
		forged = cases[i].h;
		seen_status = seen_type = 0;
		MUST(bed_send(&b, 1, 0, &table, 5000));
		bed_move(&b);
		EXPECT_EQ(seen_type, RMPP_ABORT);
		EXPECT_EQ(seen_status, cases[i].status);
		m = bed_take(&b, 1);
		EXPECT(m->is_timed_out);
		mad_message_free(m);
		bed_close(&b);
	}
}

/* A segment of a request that comes from a LID. Returns what is answered, 0: nothing is. */
static uint8_t segment_come(struct mad_port *p, uint16_t lid, uint32_t segment)
{
	const struct rmpp h = { .version = RMPP_VERSION,
				.type = RMPP_DATA,
				.flags = RMPP_ACTIVE | (segment == 1 ? RMPP_FIRST : 0),
				.segment = segment };
	struct mad_datagram d = { .address = { .lid = lid, .qpn = 1 } }, out;
	struct rmpp answer = { 0 };

	mad_encode(&ask, d.bytes);
	rmpp_encode(&h, d.bytes);
	REQUIRE(mad_recv(p, 0, &d));
	while (mad_next(p, 0, &out))
		rmpp_decode(&answer, out.bytes);
	return answer.type;
}

/* Messages that never end take so much memory at most, by any sender; it is free again. */
TEST(test_sys_01_messages_that_are_coming_in_have_a_bound)
{
	enum { LARGE = MAD_MESSAGE_MAX / 2 / ROOM + 1, A = 5, B, C };
	const uint64_t late_ns = UINT64_C(60000000000);
	struct mad_bed b;

	bed_open(&b, 13);
	(void)bed_agent(&b, 0, GET_TABLE);
	for (int round = 0; round < 2; round++) {
		for (uint32_t segment = 1; segment <= LARGE; segment++) {
			REQUIRE(segment_come(b.port[0], A, segment) != RMPP_STOP);
			REQUIRE(segment_come(b.port[0], B, segment) != RMPP_STOP);
		}
		EXPECT_EQ(segment_come(b.port[0], C, 1), RMPP_STOP);
		mad_expire(b.port[0], late_ns);
		EXPECT(segment_come(b.port[0], C, 1) != RMPP_STOP);
		mad_expire(b.port[0], late_ns);
	}
	bed_close(&b);
}

static uint32_t most_ahead, acked_to;

static bool is_watched(struct mad_bed *b, uint32_t from, struct mad_datagram *d)
{
	struct rmpp h;

	(void)b;
	rmpp_decode(&h, d->bytes);
	if (!(h.flags & RMPP_ACTIVE))
		return true;
	if (from == 0)
		acked_to = h.segment;
	else if (h.segment - acked_to > most_ahead)
		most_ahead = h.segment - acked_to;
	return true;
}

/* 13.6.2.2: the window is one segment until the receiver has told another. */
TEST(test_sys_01_a_sender_keeps_to_the_window)
{
	struct mad_bed b;
	struct mad table;

	bed_open(&b, 11);
	(void)ask_for_table(&b, &table);
	b.wire = is_watched;
	most_ahead = acked_to = 0;
	MUST(bed_send(&b, 1, 0, &table, 100000));
	bed_move(&b);
	EXPECT_EQ(most_ahead, 64);
	mad_message_free(bed_take(&b, 0));
	bed_close(&b);
}

/* An agent without RMPP gets segments as they are: it makes the message itself. */
TEST(test_sys_01_segments_go_raw_to_an_agent_that_asked_for_no_rmpp)
{
	struct mad_bed b;
	struct mad_agent_attr a = { .mgmt_class = MAD_SUBNET_ADMIN,
				    .class_version = 2,
				    .methods = { 1 << GET_TABLE } };
	uint32_t agent, sender;
	struct mad_message *m;

	bed_open(&b, 12);
	MUST(mad_agent_add(b.port[1], &a, &agent));
	sender = bed_agent(&b, 0, 0);
	MUST(bed_send(&b, 0, sender, &ask, 1000));
	bed_move(&b);
	m = bed_take(&b, 1);
	EXPECT_EQ(m->length, MAD_BYTES);
	EXPECT_EQ(b.sent, 1);
	mad_message_free(m);
	bed_close(&b);
}
