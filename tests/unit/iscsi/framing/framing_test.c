/* SPDX-License-Identifier: BSD-2-Clause */
/* PDUs as bytes of a TCP connection: an initiator's framing and a target's, and bytes by hand. */
#include <string.h>

#include "base/prng.h"
#include "iscsi/framing/framing.h"
#include "test.h"

enum { MEMORY = 1 << 18, LOG_MAX = 256, WIRE_MAX = 1 << 20 };

/* One end, and what it was told. */
struct end {
	struct iscsi_framing *f;
	enum iscsi_place place; /* what it answers */
	enum iscsi_take take;
	int places, takes, takens;
	uint64_t cookie; /* of the last that was taken */
	struct iscsi_arrival last;
	uint8_t data[MEMORY]; /* where data segments go, and come from */
	uint32_t piece;	      /* length of the spans that it hands out */
	struct mem_paging *paging;
	enum weft_reason sink_reason, source_reason;
	uint32_t log[LOG_MAX]; /* a number for each PDU that came */
	int logged;
};

static enum iscsi_place end_place(void *owner, const struct iscsi_arrival *a, uint64_t now_ns)
{
	struct end *e = owner;

	(void)now_ns;
	e->places++;
	e->last = *a;
	return e->place;
}

static void spans_of(struct end *e, uint64_t at, struct mem_span *spans, uint32_t *count)
{
	uint32_t n = 0;

	for (; n < *count && at < MEMORY; n++, at += e->piece)
		spans[n] = (struct mem_span){ .bytes = e->data + at,
					      .length = e->piece,
					      .paging = e->paging };
	*count = n;
}

static enum weft_reason end_sink(void *owner, uint32_t offset, struct mem_span *spans,
				 uint32_t *count)
{
	struct end *e = owner;

	spans_of(e, offset, spans, count);
	return e->sink_reason;
}

static enum iscsi_take end_take(void *owner, const struct iscsi_arrival *a, uint64_t now_ns)
{
	struct end *e = owner;
	uint32_t sum = a->pdu.itt * 31 + a->pdu.data_bytes + a->reason * 1000;

	(void)now_ns;
	e->takes++;
	e->last = *a;
	if (e->take != ISCSI_TAKE_NEXT)
		return e->take;
	for (uint32_t i = 0; i < a->pdu.data_bytes && e->place != ISCSI_PLACE_SKIP; i++)
		sum = sum * 33 + (a->data ? a->data[i] : e->data[i]);
	for (uint32_t i = 0; i < a->pdu.cdb_more_bytes; i++)
		sum = sum * 33 + a->pdu.cdb_more[i];
	e->log[e->logged++ % LOG_MAX] = sum;
	return ISCSI_TAKE_NEXT;
}

static enum weft_reason end_source(void *owner, uint64_t cookie, uint64_t data_at,
				   struct mem_span *spans, uint32_t *count)
{
	struct end *e = owner;

	(void)cookie;
	spans_of(e, data_at, spans, count);
	return e->source_reason;
}

static void end_taken(void *owner, uint64_t cookie)
{
	struct end *e = owner;

	e->takens++;
	e->cookie = cookie;
}

static const struct iscsi_framing_calls calls = { end_place, end_sink, end_take, end_source,
						  end_taken };

static struct end ends[2];

static struct end *end_make(enum iscsi_side side, uint32_t rx_bytes)
{
	struct end *e = &ends[side];
	struct iscsi_framing_config c = {
		.side = side, .rx_bytes = rx_bytes, .calls = &calls, .owner = e
	};

	memset(e, 0, sizeof(*e));
	e->piece = MEMORY;
	for (uint32_t i = 0; side == ISCSI_INITIATOR && i < MEMORY; i++)
		e->data[i] = (uint8_t)(i * 7 + i / 251);
	REQUIRE(iscsi_framing_create(&c, &e->f) == WEFT_OK);
	return e;
}

static void both_set(bool has_header_digest, bool has_data_digest)
{
	struct iscsi_framing_terms t = { has_header_digest, has_data_digest, 65536 };

	iscsi_framing_set(ends[0].f, &t);
	iscsi_framing_set(ends[1].f, &t);
}

static void both_destroy(void)
{
	iscsi_framing_destroy(ends[0].f);
	iscsi_framing_destroy(ends[1].f);
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

/* All that e has to send, as bytes. */
static size_t wire_of(struct end *e, uint8_t *wire, size_t room)
{
	size_t all = 0;
	struct span_list l;

	for (;;) {
		iscsi_framing_have(e->f, 0, &l);
		if (l.length == 0)
			return all;
		REQUIRE(l.length <= room - all);
		for (uint32_t i = 0; i < l.count; i++) {
			memcpy(wire + all, l.spans[i].bytes, l.spans[i].length);
			all += l.spans[i].length;
		}
		iscsi_framing_sent(e->f, 0, l.length);
	}
}

/* Gives e bytes, at most `cut` at a time; how many it took. */
static size_t feed(struct end *e, const uint8_t *wire, size_t length, size_t cut)
{
	size_t done = 0;
	struct span_list l;

	while (done < length && iscsi_framing_wants(e->f)) {
		size_t n = length - done < cut ? length - done : cut, left;
		size_t at = done;

		iscsi_framing_want(e->f, 0, &l);
		n = n < l.length ? n : l.length;
		if (n == 0)
			break;
		left = n;
		for (uint32_t i = 0; i < l.count && left > 0; i++) {
			size_t piece = l.spans[i].length < left ? l.spans[i].length : left;

			memcpy(l.spans[i].bytes, wire + at, piece);
			at += piece;
			left -= piece;
		}
		iscsi_framing_got(e->f, 0, &l, n);
		done += n;
	}
	return done;
}

static struct iscsi_pdu command_of(uint32_t itt, uint32_t data_bytes)
{
	return (struct iscsi_pdu){ .opcode = ISCSI_SCSI_COMMAND,
				   .is_final = true,
				   .is_write = true,
				   .itt = itt,
				   .expected_bytes = MEMORY,
				   .data_bytes = data_bytes };
}

static enum weft_reason end_send(struct end *e, const struct iscsi_pdu *p, const uint8_t *copy)
{
	return iscsi_framing_send(
		e->f, &(struct iscsi_framing_pdu){ .pdu = p, .copy = copy, .cookie = p->itt });
}

static uint8_t wire[WIRE_MAX];

/* PDUs of all kinds: without data, with AHS, of every padding, small and large, copied or not. */
static size_t make_stream(struct end *i)
{
	static const uint32_t lengths[] = {
		0, 1, 2, 3, 4, 48, 511, 512, 1000, 4096, 8191, 65536, 5
	};
	static uint8_t more[ISCSI_CDB_MORE_MAX];
	size_t all = 0;

	for (uint32_t n = 0; n < 3 * sizeof(lengths) / sizeof(lengths[0]); n++) {
		uint32_t length = lengths[n * 5 % (sizeof(lengths) / sizeof(lengths[0]))];
		struct iscsi_pdu p = command_of(n + 1, length);

		if (n % 5 == 2) {
			p.cdb_more = more;
			p.cdb_more_bytes = (uint16_t)(n == 2 ? ISCSI_CDB_MORE_MAX : 16 + n);
			memset(more, (int)n, sizeof(more));
		}
		REQUIRE(end_send(i, &p, length <= 48 && n % 2 ? i->data : NULL) == WEFT_OK);
		all += wire_of(i, wire + all, WIRE_MAX - all);
	}
	return all;
}

TEST(test_rfc7143_11_2_every_cut_of_the_bytes_gives_the_same_pdus)
{
	static const size_t cuts[] = { WIRE_MAX, 1, 3, 47, 48, 49, 1000, 4097 };
	uint32_t first[LOG_MAX];

	for (int digests = 0; digests < 4; digests++)
		for (size_t c = 0; c < sizeof(cuts) / sizeof(cuts[0]); c++) {
			struct end *i = end_make(ISCSI_INITIATOR, 0);
			struct end *t = end_make(ISCSI_TARGET, c % 2 ? ISCSI_FRAMING_RX_MIN : 0);
			size_t length;

			t->piece = c % 3 ? 100 : MEMORY;
			i->piece = c % 3 ? 777 : MEMORY;
			both_set(digests & 1, digests & 2);
			length = make_stream(i);
			EXPECT_EQ(feed(t, wire, length, cuts[c]), length);
			EXPECT_EQ(t->logged, 39);
			EXPECT_EQ(iscsi_framing_is_amid(t->f), false);
			EXPECT_EQ(i->takens, 39);
			if (digests == 0 && c == 0)
				memcpy(first, t->log, sizeof(first));
			EXPECT(memcmp(first, t->log, sizeof(first)) == 0);
			both_destroy();
		}
}

TEST(test_rfc7143_11_2_random_cuts_and_random_waits)
{
	struct prng r = { 5 };
	uint32_t first[LOG_MAX];

	for (int round = 0; round < 60; round++) {
		struct end *i = end_make(ISCSI_INITIATOR, 0), *t = end_make(ISCSI_TARGET, 0);
		size_t length, done = 0;

		t->piece = 1 + prng_below(&r, 9000);
		both_set(true, true);
		length = make_stream(i);
		while (done < length) {
			t->place = prng_below(&r, 4) ? ISCSI_PLACE_MEMORY : ISCSI_PLACE_WAIT;
			t->take = prng_below(&r, 4) ? ISCSI_TAKE_NEXT : ISCSI_TAKE_WAIT;
			t->sink_reason = prng_below(&r, 4) ? WEFT_OK : WEFT_R_SPACE_UNMAPPED;
			iscsi_framing_resume(t->f, 0);
			done += feed(t, wire + done, length - done, 1 + prng_below(&r, 3000));
		}
		t->place = ISCSI_PLACE_MEMORY;
		t->take = ISCSI_TAKE_NEXT;
		t->sink_reason = WEFT_OK;
		iscsi_framing_resume(t->f, 0);
		EXPECT_EQ(t->logged, 39);
		if (round == 0)
			memcpy(first, t->log, sizeof(first));
		EXPECT(memcmp(first, t->log, sizeof(first)) == 0);
		both_destroy();
	}
}

/* ---- Where data goes ------------------------------------------------------------------------ */

TEST(test_large_data_segments_are_received_in_place_and_sent_from_it)
{
	struct end *i = end_make(ISCSI_INITIATOR, 0), *t = end_make(ISCSI_TARGET, 0);
	uint64_t copied;

	both_set(false, false);
	for (uint32_t n = 1; n <= 10; n++) {
		struct iscsi_pdu p = command_of(n, 65536);
		struct span_list l;
		size_t length;

		EXPECT_EQ(end_send(i, &p, NULL), WEFT_OK);
		iscsi_framing_have(i->f, 0, &l);
		EXPECT_EQ(l.count, 2);
		EXPECT_EQ(l.spans[1].bytes == i->data, true);
		length = wire_of(i, wire, WIRE_MAX);
		EXPECT_EQ(feed(t, wire, length, WIRE_MAX), length);
		copied = iscsi_framing_counts(t->f)->data_copied;
		/* What came with the first header was copied; later headers are read alone. */
		EXPECT_EQ(copied, ISCSI_FRAMING_RX_BYTES - ISCSI_BHS_BYTES);
	}
	EXPECT_EQ(iscsi_framing_counts(i->f)->data_copied, 0);
	EXPECT_EQ(iscsi_framing_counts(t->f)->data_in, 10 * 65536);
	EXPECT_EQ(memcmp(i->data, t->data, 65536), 0);
	both_destroy();
}

TEST(test_small_data_segments_stay_in_the_buffer)
{
	struct end *i = end_make(ISCSI_INITIATOR, 0), *t = end_make(ISCSI_TARGET, 0);
	struct iscsi_pdu p = command_of(1, iscsi_framing_buffer_bytes(t->f));

	both_set(false, true);
	t->place = ISCSI_PLACE_BUFFER;
	EXPECT_EQ(end_send(i, &p, NULL), WEFT_OK);
	EXPECT_EQ(end_send(i, &p, NULL), WEFT_OK);
	(void)feed(t, wire, wire_of(i, wire, WIRE_MAX), 100);
	EXPECT_EQ(t->takes, 2);
	EXPECT_EQ(t->last.reason, WEFT_OK);
	EXPECT_EQ(t->log[0], t->log[1]);
	EXPECT(t->last.data != NULL);
	both_destroy();
}

TEST(test_a_skipped_data_segment_goes_nowhere_and_its_digest_counts)
{
	struct end *i = end_make(ISCSI_INITIATOR, 0), *t = end_make(ISCSI_TARGET, 0);
	struct iscsi_pdu p = command_of(1, 5001);
	size_t length;

	both_set(false, true);
	t->place = ISCSI_PLACE_SKIP;
	EXPECT_EQ(end_send(i, &p, NULL), WEFT_OK);
	EXPECT_EQ(end_send(i, &p, NULL), WEFT_OK);
	length = wire_of(i, wire, WIRE_MAX);
	wire[length - 100] ^= 1;
	EXPECT_EQ(feed(t, wire, length, 700), length);
	EXPECT_EQ(t->takes, 2);
	EXPECT_EQ(t->last.reason, WEFT_R_ISCSI_DATA_DIGEST);
	EXPECT_EQ(t->data[0] + t->data[1] + t->data[2], 0);
	both_destroy();
}

/* ---- What is wrong -------------------------------------------------------------------------- */

TEST(test_rfc7143_7_7_wrong_header_digest_ends_the_connection)
{
	for (size_t at = 0; at < ISCSI_BHS_BYTES + ISCSI_DIGEST_BYTES; at += 7) {
		struct end *i = end_make(ISCSI_INITIATOR, 0), *t = end_make(ISCSI_TARGET, 0);
		struct iscsi_pdu p = command_of(1, 0);
		size_t length;

		/* Its length would change with a damaged TotalAHSLength: bytes may be missing. */
		if (at == 4)
			at++;
		both_set(true, true);
		EXPECT_EQ(end_send(i, &p, NULL), WEFT_OK);
		length = wire_of(i, wire, WIRE_MAX);
		wire[at] ^= 0x10;
		(void)feed(t, wire, length, WIRE_MAX);
		EXPECT_EQ(t->takes, 0);
		EXPECT_EQ(iscsi_framing_reason(t->f), WEFT_R_ISCSI_HEADER_DIGEST);
		EXPECT_EQ(iscsi_framing_wants(t->f), false);
		both_destroy();
	}
}

TEST(test_rfc7143_7_7_wrong_data_digest_is_told_and_the_next_pdu_is_read)
{
	/* In data, padding and digest. */
	static const uint32_t back[] = { 4000, 8, 5, 1 };

	for (int n = 0; n < 4; n++) {
		struct end *i = end_make(ISCSI_INITIATOR, 0), *t = end_make(ISCSI_TARGET, 0);
		struct iscsi_pdu p = command_of(1, 5001), q = command_of(2, 0);
		size_t length;

		both_set(true, true);
		EXPECT_EQ(end_send(i, &p, NULL), WEFT_OK);
		length = wire_of(i, wire, WIRE_MAX);
		wire[length - back[n]] ^= 0x80;
		EXPECT_EQ(feed(t, wire, length, WIRE_MAX), length);
		EXPECT_EQ(t->last.reason, WEFT_R_ISCSI_DATA_DIGEST);
		EXPECT_EQ(t->last.pdu.itt, 1);
		EXPECT_EQ(end_send(i, &q, NULL), WEFT_OK);
		(void)feed(t, wire, wire_of(i, wire, WIRE_MAX), WIRE_MAX);
		EXPECT_EQ(t->last.reason, WEFT_OK);
		EXPECT_EQ(t->last.pdu.itt, 2);
		both_destroy();
	}
}

TEST(test_rfc7143_13_12_data_segment_over_the_limit_is_refused_before_it_comes)
{
	struct end *i = end_make(ISCSI_INITIATOR, 0), *t = end_make(ISCSI_TARGET, 0);
	struct iscsi_pdu p = command_of(7, 65537), q = command_of(8, 65536);
	size_t length;

	both_set(false, false);
	EXPECT_EQ(end_send(i, &p, NULL), WEFT_OK);
	length = wire_of(i, wire, WIRE_MAX);
	(void)feed(t, wire, ISCSI_BHS_BYTES, WIRE_MAX);
	EXPECT_EQ(t->places, 1);
	EXPECT_EQ(t->last.reason, WEFT_R_ISCSI_DATA_LIMIT);
	EXPECT_EQ(t->last.pdu.data_bytes, 65537);
	EXPECT_EQ(t->last.header_bytes, ISCSI_BHS_BYTES);
	/* An owner that goes on has it skipped. */
	EXPECT_EQ(feed(t, wire + ISCSI_BHS_BYTES, length - ISCSI_BHS_BYTES, 999),
		  length - ISCSI_BHS_BYTES);
	EXPECT_EQ(t->takes, 1);
	EXPECT_EQ(t->data[5], 0);
	EXPECT_EQ(end_send(i, &q, NULL), WEFT_OK);
	(void)feed(t, wire, wire_of(i, wire, WIRE_MAX), WIRE_MAX);
	EXPECT_EQ(t->last.reason, WEFT_OK);
	EXPECT_EQ(t->last.pdu.itt, 8);
	both_destroy();
}

TEST(test_an_owner_ends_it_at_a_header_or_at_a_pdu)
{
	for (int at_header = 0; at_header < 2; at_header++) {
		struct end *i = end_make(ISCSI_INITIATOR, 0), *t = end_make(ISCSI_TARGET, 0);
		struct iscsi_pdu p = command_of(1, 100);
		struct span_list l;

		t->place = at_header ? ISCSI_PLACE_END : ISCSI_PLACE_MEMORY;
		t->take = ISCSI_TAKE_END;
		EXPECT_EQ(end_send(i, &p, NULL), WEFT_OK);
		EXPECT_EQ(end_send(i, &p, NULL), WEFT_OK);
		(void)feed(t, wire, wire_of(i, wire, WIRE_MAX), WIRE_MAX);
		EXPECT_EQ(t->takes, !at_header);
		EXPECT_EQ(iscsi_framing_wants(t->f), false);
		iscsi_framing_want(t->f, 0, &l);
		EXPECT_EQ(l.length, 0);
		EXPECT_EQ(iscsi_framing_reason(t->f), WEFT_OK);
		both_destroy();
	}
}

TEST(test_memory_that_is_gone_ends_it_and_memory_that_is_away_waits)
{
	struct end *i = end_make(ISCSI_INITIATOR, 0), *t = end_make(ISCSI_TARGET, 0);
	struct iscsi_pdu p = command_of(1, 8000);
	struct span_list l;
	size_t length, done;

	EXPECT_EQ(end_send(i, &p, NULL), WEFT_OK);
	i->source_reason = WEFT_R_SPACE_UNMAPPED;
	iscsi_framing_have(i->f, 0, &l);
	EXPECT_EQ(l.length, ISCSI_BHS_BYTES);
	i->source_reason = WEFT_OK;
	length = wire_of(i, wire, WIRE_MAX);
	t->sink_reason = WEFT_R_SPACE_UNMAPPED;
	done = feed(t, wire, length, 1000);
	EXPECT_EQ(iscsi_framing_wants(t->f), false);
	t->sink_reason = WEFT_R_SOURCE_GONE;
	iscsi_framing_resume(t->f, 0);
	(void)feed(t, wire + done, length - done, 1000);
	EXPECT_EQ(iscsi_framing_reason(t->f), WEFT_R_SOURCE_GONE);
	EXPECT_EQ(t->takes, 0);
	EXPECT_EQ(end_send(i, &p, NULL), WEFT_OK);
	i->source_reason = WEFT_R_SOURCE_GONE;
	iscsi_framing_have(i->f, 0, &l);
	iscsi_framing_sent(i->f, 0, l.length);
	iscsi_framing_have(i->f, 0, &l);
	EXPECT_EQ(l.length, 0);
	EXPECT_EQ(iscsi_framing_reason(i->f), WEFT_R_SOURCE_GONE);
	both_destroy();
}

static bool copy_nothing(void *to, const void *from, uint64_t length)
{
	(void)to;
	(void)from;
	(void)length;
	return false;
}

static bool run_nothing(const void *bytes, uint64_t length, void (*work)(void *), void *argument)
{
	(void)bytes;
	(void)length;
	(void)work;
	(void)argument;
	return false;
}

/* Memory of a program, which unmapped it. */
static struct mem_guard gone_guard = { copy_nothing, run_nothing };
static struct mem_paging gone = { .guard = &gone_guard };

TEST(test_memory_that_was_unmapped_ends_it_wherever_it_is_used)
{
	struct iscsi_pdu p = command_of(1, 8000);

	/* Copied from the buffer; received in place, and read for the digest; or not read. */
	for (int at = 0; at < 3; at++) {
		struct end *i = end_make(ISCSI_INITIATOR, 0), *t = end_make(ISCSI_TARGET, 0);
		size_t first = at == 0 ? 100 : ISCSI_BHS_BYTES;
		struct span_list l;

		both_set(false, at == 1);
		EXPECT_EQ(end_send(i, &p, NULL), WEFT_OK);
		t->paging = &gone;
		(void)wire_of(i, wire, WIRE_MAX);
		EXPECT_EQ(feed(t, wire, first, WIRE_MAX), first);
		if (at == 2) {
			iscsi_framing_want(t->f, 0, &l);
			EXPECT_EQ(l.may_go, true);
			iscsi_framing_sink_gone(t->f);
		} else if (at == 1) {
			(void)feed(t, wire + first, 1000, 1000);
		}
		EXPECT_EQ(iscsi_framing_reason(t->f), WEFT_R_MEMORY_GONE);
		EXPECT_EQ(iscsi_framing_wants(t->f), false);
		both_destroy();
	}
}

TEST(test_memory_that_was_unmapped_is_not_sent)
{
	struct end *i = end_make(ISCSI_INITIATOR, 0);
	struct iscsi_pdu p = command_of(1, 8000), q = command_of(2, 0);
	struct span_list l;

	(void)end_make(ISCSI_TARGET, 0);
	i->paging = &gone;
	both_set(false, true);
	EXPECT_EQ(end_send(i, &p, NULL), WEFT_R_MEMORY_GONE);
	EXPECT_EQ(iscsi_framing_is_sent(i->f), true);
	/* Without a digest the kernel finds out. What is before it goes first. */
	both_set(false, false);
	EXPECT_EQ(end_send(i, &q, NULL), WEFT_OK);
	EXPECT_EQ(end_send(i, &p, NULL), WEFT_OK);
	iscsi_framing_have(i->f, 0, &l);
	EXPECT_EQ(l.may_go, true);
	iscsi_framing_source_gone(i->f);
	iscsi_framing_have(i->f, 0, &l);
	EXPECT_EQ(l.length, (size_t)2 * ISCSI_BHS_BYTES);
	EXPECT_EQ(iscsi_framing_reason(i->f), WEFT_OK);
	iscsi_framing_sent(i->f, 0, l.length);
	iscsi_framing_have(i->f, 0, &l);
	iscsi_framing_source_gone(i->f);
	iscsi_framing_have(i->f, 0, &l);
	EXPECT_EQ(l.length, 0);
	EXPECT_EQ(iscsi_framing_reason(i->f), WEFT_R_MEMORY_GONE);
	both_destroy();
}

/* ---- The ring ------------------------------------------------------------------------------- */

TEST(test_the_ring_goes_round_and_says_when_it_is_full)
{
	struct end *i = end_make(ISCSI_INITIATOR, 0), *t = end_make(ISCSI_TARGET, 0);
	struct prng r = { 9 };
	uint32_t itt = 0, sent = 0;

	t->place = ISCSI_PLACE_BUFFER;
	both_set(true, true);
	while (itt < 3000) {
		uint32_t length = prng_below(&r, 700), n;
		struct iscsi_pdu p = command_of(itt + 1, length);
		struct span_list l;

		if (iscsi_framing_has_room(i->f, length)) {
			EXPECT_EQ(end_send(i, &p, i->data), WEFT_OK);
			itt++;
			continue;
		}
		iscsi_framing_have(i->f, 0, &l);
		EXPECT(l.length > 0);
		n = l.spans[0].length > 1 ? prng_below(&r, (uint32_t)l.spans[0].length) + 1 : 1;
		EXPECT_EQ(feed(t, l.spans[0].bytes, n, WIRE_MAX), n);
		iscsi_framing_sent(i->f, 0, n);
		EXPECT(i->cookie >= sent);
		sent = (uint32_t)i->cookie;
	}
	(void)feed(t, wire, wire_of(i, wire, WIRE_MAX), WIRE_MAX);
	EXPECT_EQ(t->takes, 3000);
	EXPECT_EQ(t->last.pdu.itt, 3000);
	EXPECT_EQ(t->last.reason, WEFT_OK);
	EXPECT_EQ(iscsi_framing_is_sent(i->f), true);
	both_destroy();
}

TEST(test_a_framing_with_too_little_memory_is_refused)
{
	struct iscsi_framing_config c = { .rx_bytes = ISCSI_FRAMING_RX_MIN - 1, .calls = &calls };
	struct iscsi_framing *f;

	EXPECT_EQ(iscsi_framing_create(&c, &f), WEFT_R_BAD_ARGUMENT);
	c = (struct iscsi_framing_config){ .tx_bytes = ISCSI_FRAMING_TX_MIN - 1, .calls = &calls };
	EXPECT_EQ(iscsi_framing_create(&c, &f), WEFT_R_BAD_ARGUMENT);
}
