/* SPDX-License-Identifier: BSD-2-Clause */
/* Our own requests on the wire: what goes out, what comes back, in which order; RFC 5040. */
#include "iwarp_peer.h"

#include <string.h>

enum { LARGE = 5000 };

static uint8_t payload[MEMORY_BYTES];

static void fill(uint8_t with)
{
	memset(payload, with, sizeof(payload));
}

/* Posts a request over part of the memory. */
static enum weft_reason post(struct iwarp_bed *b, struct weft_send_wr *wr, uint32_t tag,
			     size_t offset, uint32_t length)
{
	const struct weft_sge segment = { addr_of(b, offset), length, tag };

	wr->sges = &segment;
	wr->sge_count = length > 0;
	return bed_post(b, wr);
}

/* ---- What goes out -------------------------------------------------------------------------- */

TEST(test_rfc5040_5_1_sends)
{
	static const struct {
		enum weft_opcode opcode;
		uint32_t flags;
		enum rdmap_opcode message;
		uint32_t ulp32;
	} kinds[] = {
		{ WEFT_OP_SEND, 0, RDMAP_SEND, 0 },
		{ WEFT_OP_SEND, WEFT_SOLICITED, RDMAP_SEND_SE, 0 },
		{ WEFT_OP_SEND_INVALIDATE, 0, RDMAP_SEND_INVALIDATE, 0xabcdef01 },
		{ WEFT_OP_SEND_INVALIDATE, WEFT_SOLICITED, RDMAP_SEND_SE_INVALIDATE, 0xabcdef01 },
	};

	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_LOCAL_READ);

		for (uint32_t i = 0; i < 4; i++) {
			struct weft_send_wr wr = {
				.opcode = kinds[i].opcode,
				.flags = kinds[i].flags,
				.invalidate_tag = 0xabcdef01,
			};
			const struct frame *f;

			MUST(post(b, &wr, tag, 10 * i, 7 * i));
			f = expect_frame(b, kinds[i].message);
			EXPECT_EQ(f->u.msn, i + 1);
			EXPECT_EQ(f->u.mo, 0);
			EXPECT_EQ(f->u.ulp32, kinds[i].ulp32);
			EXPECT(f->u.is_last);
			EXPECT_EQ(f->bytes, 7 * i);
			EXPECT_MEM(f->payload, b->memory + 10 * i, 7 * i);
			expect_completion(b, i + 1, WEFT_SUCCESS, WEFT_OK);
		}
		EXPECT_EQ(iwarp_counts(b->stream)->messages_out, 4);
		EXPECT_EQ(iwarp_counts(b->stream)->payload_out, 42);
		EXPECT_EQ(iwarp_counts(b->stream)->bytes_out, b->out.length);
	}
}

/*
 * SEND-14, AMB-42: a request ends with its last byte that TCP takes, not before; its memory may
 * then be used for something else, as what was taken does not change.
 */
TEST(test_send_14_rfc5040_5_5_a_request_ends_when_tcp_has_taken_it)
{
	static const uint32_t sizes[] = { 60, 700 };

	for (int i = 0; i < 4; i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS),
				 bytes = sizes[i / 2];
			struct weft_send_wr wr = { .opcode = i % 2 ? WEFT_OP_WRITE : WEFT_OP_SEND };
			struct weft_completion c;
			const struct frame *f;
			size_t taken = 0;

			memcpy(payload, b->memory, bytes);
			b->out_credit = 0;
			MUST(post(b, &wr, tag, 0, bytes));
			while (!bed_poll(b, &c)) {
				REQUIRE(taken++ < bytes + 100);
				b->out_credit = 1;
				bed_move(b);
			}
			EXPECT_EQ(c.status, WEFT_SUCCESS);
			EXPECT_EQ(b->out.length, taken);
			memset(b->memory, 0x77, bytes);
			b->out_credit = SIZE_MAX;
			bed_move(b);
			EXPECT_EQ(b->out.length, taken); /* nothing of it was left */
			f = expect_frame(b, i % 2 ? RDMAP_WRITE : RDMAP_SEND);
			EXPECT_EQ(f->bytes, bytes);
			EXPECT_MEM(f->payload, payload, bytes);
		}
	}
}

/* In segments: offsets go up without a gap and the last one says so. */
TEST(test_rfc5041_5_3_large_messages_in_segments)
{
	static const uint32_t sizes[] = { 1984, 1985, 65504, 65505, 200001 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_LOCAL_READ), done = 0;
			struct weft_send_wr write = {
				.opcode = WEFT_OP_WRITE,
				.remote_tag = 0x4455,
				.remote_addr = 0x100000000,
			};
			struct weft_send_wr send = { .opcode = WEFT_OP_SEND };
			const struct frame *f;

			MUST(post(b, &write, tag, 3, sizes[i]));
			MUST(post(b, &send, tag, 3, sizes[i]));
			do {
				f = expect_frame(b, RDMAP_WRITE);
				EXPECT_EQ(f->t.stag, 0x4455);
				EXPECT_EQ(f->t.to, 0x100000000 + done);
				EXPECT_MEM(f->payload, b->memory + 3 + done, f->bytes);
				done += f->bytes;
			} while (!f->t.is_last);
			EXPECT_EQ(done, sizes[i]);
			done = 0;
			do {
				f = expect_frame(b, RDMAP_SEND);
				EXPECT_EQ(f->u.msn, 1);
				EXPECT_EQ(f->u.mo, done);
				EXPECT_MEM(f->payload, b->memory + 3 + done, f->bytes);
				done += f->bytes;
			} while (!f->u.is_last);
			EXPECT_EQ(done, sizes[i]);
			EXPECT_EQ(peer_left(b), 0);
			expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
			expect_completion(b, 2, WEFT_SUCCESS, WEFT_OK);
		}
	}
}

TEST(test_rfc7306_6_write_with_immediate)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_LOCAL_READ);
		struct weft_send_wr wr = { .opcode = WEFT_OP_WRITE_IMM, .imm = 0xcafe1234 };
		static const uint8_t body[8] = { 0xca, 0xfe, 0x12, 0x34 };
		const struct frame *f;

		MUST(post(b, &wr, tag, 0, 70000));
		do {
			f = expect_frame(b, RDMAP_WRITE);
		} while (!f->t.is_last);
		f = expect_frame(b, RDMAP_IMMEDIATE);
		EXPECT_EQ(f->u.msn, 1);
		EXPECT_EQ(f->bytes, 8);
		EXPECT_MEM(f->payload, body, 8);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
		wr.flags |= WEFT_SOLICITED;
		MUST(post(b, &wr, tag, 0, 0));
		(void)expect_frame(b, RDMAP_WRITE);
		f = expect_frame(b, RDMAP_IMMEDIATE_SE);
		EXPECT_EQ(f->u.msn, 2);
		expect_completion(b, 2, WEFT_SUCCESS, WEFT_OK);
	}
}

TEST(test_amb_04_what_the_wire_does_not_have)
{
	static const struct setup setup = { .terms = { .is_initiator = true, .ird = 1 } };

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		struct weft_sge segments[2] = { { 0 } };
		struct weft_send_wr wr = { .opcode = WEFT_OP_SEND_IMM };

		EXPECT_EQ(bed_post(b, &wr), WEFT_R_WR_WIRE);
		wr.opcode = WEFT_OP_READ;
		EXPECT_EQ(bed_post(b, &wr), WEFT_R_READS_NONE);
		wr.sges = segments;
		wr.sge_count = 2;
		EXPECT_EQ(bed_post(b, &wr), WEFT_R_WR_WIRE);
	}
}

/* ---- Answers -------------------------------------------------------------------------------- */

TEST(test_rfc5040_5_4_read_is_answered)
{
	static const uint32_t sizes[] = { 1, 900, LARGE };

	fill(0x44);
	for (size_t i = 0; i < 3; i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_LOCAL_WRITE);
			struct weft_send_wr read = {
				.opcode = WEFT_OP_READ,
				.remote_tag = 0x7788,
				.remote_addr = 0x1000,
			};
			struct ddp_tagged h = tagged(RDMAP_READ_RESPONSE, tag, addr_of(b, 64));
			struct rdmap_read_request q;
			struct weft_completion c;
			const struct frame *f;
			struct rd r;

			MUST(post(b, &read, tag, 64, 3 * sizes[i]));
			f = expect_frame(b, RDMAP_READ_REQUEST);
			EXPECT_EQ(f->u.msn, 1);
			r = rd_of(f->payload, f->bytes);
			EXPECT_EQ(rdmap_read_request_decode(&q, &r), RDMAP_OK);
			EXPECT_EQ(q.sink_stag, tag);
			EXPECT_EQ(q.sink_to, addr_of(b, 64));
			EXPECT_EQ(q.size, 3 * sizes[i]);
			EXPECT_EQ(q.source_stag, 0x7788);
			EXPECT_EQ(q.source_to, 0x1000);
			h.is_last = false;
			peer_tagged(b, &h, payload, sizes[i]);
			h.to += sizes[i];
			peer_tagged(b, &h, payload, sizes[i]);
			bed_move(b);
			expect_no_completion(b);
			h.to += sizes[i];
			h.is_last = true;
			peer_tagged(b, &h, payload, sizes[i]);
			bed_move(b);
			EXPECT(bed_poll(b, &c));
			EXPECT_EQ(c.status, WEFT_SUCCESS);
			EXPECT_EQ(c.opcode, WEFT_OP_READ);
			EXPECT_EQ(c.byte_count, 3 * sizes[i]);
			memset(b->shadow + 64, 0x44, 3 * (size_t)sizes[i]);
			EXPECT(is_unchanged(b));
		}
	}
}

/* What is wrong with an answer to a Read of LARGE bytes at 0. */
struct bad_answer {
	uint32_t tag_by, length;
	uint64_t to_by;
	bool is_open; /* not the last one */
};

static void refuse_answer(const struct bad_answer *bad)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
		struct weft_send_wr read = { .opcode = WEFT_OP_READ };
		struct ddp_tagged h = tagged(RDMAP_READ_RESPONSE, tag + bad->tag_by,
					     addr_of(b, 0) + bad->to_by);

		MUST(post(b, &read, tag, 0, LARGE));
		(void)expect_frame(b, RDMAP_READ_REQUEST);
		h.is_last = !bad->is_open;
		peer_tagged(b, &h, payload, bad->length);
		expect_refused(
			b, &(struct stream_end){ WEFT_R_RDMAP_RESPONSE, { 0, 2, 6 }, HEADERS_DDP });
		expect_completion(b, 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
	}
}

TEST(test_rfc5040_5_4_answer_does_not_fit)
{
	refuse_answer(&(struct bad_answer){ .length = LARGE + 1 });
	refuse_answer(&(struct bad_answer){ .length = LARGE + 1, .is_open = true });
	refuse_answer(&(struct bad_answer){ .length = LARGE - 1 });
	refuse_answer(&(struct bad_answer){ .length = 0 });
	refuse_answer(&(struct bad_answer){ .length = LARGE, .is_open = true });
	refuse_answer(&(struct bad_answer){ .length = LARGE, .tag_by = 1 });
	refuse_answer(&(struct bad_answer){ .length = LARGE, .to_by = 1 });
	refuse_answer(&(struct bad_answer){ .length = 8, .is_open = true, .to_by = 8 });
}

/* The second segment goes on where the first one ended. */
TEST(test_rfc5040_5_4_answer_with_a_gap)
{
	for (int by = -1; by <= 1; by += 2) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
			struct weft_send_wr read = { .opcode = WEFT_OP_READ };
			struct ddp_tagged h = tagged(RDMAP_READ_RESPONSE, tag, addr_of(b, 0));

			MUST(post(b, &read, tag, 0, LARGE));
			(void)expect_frame(b, RDMAP_READ_REQUEST);
			h.is_last = false;
			peer_tagged(b, &h, b->memory, 1000);
			h.to += (uint64_t)(1000 + by);
			peer_tagged(b, &h, payload, 100);
			expect_refused(b, &(struct stream_end){ WEFT_R_RDMAP_RESPONSE,
								{ 0, 2, 6 },
								HEADERS_DDP });
		}
	}
}

TEST(test_rfc5040_5_4_unexpected_answer)
{
	static const uint32_t sizes[] = { 0, 8, LARGE };

	for (size_t i = 0; i < 3; i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);

			peer_response(b, tag, addr_of(b, 0), payload, sizes[i]);
			expect_refused(b, &(struct stream_end){ WEFT_R_RDMAP_RESPONSE,
								{ 0, 2, 6 },
								HEADERS_DDP });
		}
	}
}

/* IWARP-09 for answers: the sink is checked when they come. */
TEST(test_iwarp_09a_sink_is_gone)
{
	static const uint32_t sizes[] = { 8, LARGE };

	for (size_t i = 0; i < 2; i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
			struct weft_send_wr read = { .opcode = WEFT_OP_READ };

			MUST(post(b, &read, tag, 0, sizes[i]));
			(void)expect_frame(b, RDMAP_READ_REQUEST);
			bed_deregister(b, tag);
			peer_response(b, tag, addr_of(b, 0), payload, sizes[i]);
			expect_refused(b, &(struct stream_end){
						  WEFT_R_TAG_INVALID, { 1, 1, 0 }, HEADERS_DDP });
			expect_completion(b, 1, WEFT_ERR_LOCAL_ACCESS, WEFT_R_SINK_GONE);
		}
	}
}

TEST(test_rfc5042_6_2_3_sink_is_gone_in_the_middle)
{
	static const struct setup setup = {
		.terms = { .is_initiator = true, .has_crc = true, .ord = 1 },
		.is_plain = true,
	};

	fill(0x11);
	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
		struct weft_send_wr read = { .opcode = WEFT_OP_READ };
		size_t all;

		MUST(post(b, &read, tag, 0, LARGE));
		(void)expect_frame(b, RDMAP_READ_REQUEST);
		peer_response(b, tag, addr_of(b, 0), payload, LARGE);
		all = b->in.length;
		b->in.length = 2500;
		bed_move(b);
		bed_deregister(b, tag);
		bed_note(b);
		b->in.length = all;
		expect_terminated(b, WEFT_R_SINK_GONE);
	}
}

/* ---- Atomics -------------------------------------------------------------------------------- */

TEST(test_rfc7306_5_atomics)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_LOCAL_WRITE);
		struct weft_send_wr wr = {
			.opcode = WEFT_OP_FETCH_ADD,
			.remote_tag = 0x99,
			.remote_addr = 0x88,
			.compare_add = 5,
			.swap = 6,
		};
		const uint64_t original = 0x1122334455667788;
		struct rdmap_atomic_request q;
		struct weft_completion c;
		const struct frame *f;
		struct rd r;

		MUST(post(b, &wr, tag, 16, 8));
		wr.opcode = WEFT_OP_COMPARE_SWAP;
		MUST(post(b, &wr, tag, 32, 8));
		for (uint32_t i = 0; i < 2; i++) {
			f = expect_frame(b, RDMAP_ATOMIC_REQUEST);
			EXPECT_EQ(f->u.msn, i + 1);
			r = rd_of(f->payload, f->bytes);
			EXPECT_EQ(rdmap_atomic_request_decode(&q, &r), RDMAP_OK);
			EXPECT_EQ(q.opcode, i ? RDMAP_COMPARE_SWAP : RDMAP_FETCH_ADD);
			EXPECT_EQ(q.stag, 0x99);
			EXPECT_EQ(q.to, 0x88);
			EXPECT_EQ(q.add_swap, i ? 6 : 5);
			EXPECT_EQ(q.compare, i ? 5 : 0);
			EXPECT(q.compare_mask == UINT64_MAX);
			EXPECT(q.add_swap_mask == (i ? UINT64_MAX : 0));
			peer_atomic_response(b, q.id, original + i);
		}
		bed_move(b);
		for (uint64_t i = 0; i < 2; i++) {
			uint64_t got;

			EXPECT(bed_poll(b, &c));
			EXPECT_EQ(c.id, i + 1);
			EXPECT_EQ(c.status, WEFT_SUCCESS);
			EXPECT_EQ(c.byte_count, 8);
			memcpy(&got, b->memory + 16 + 16 * i, 8);
			EXPECT(got == original + i);
			memcpy(b->shadow + 16 + 16 * i, &got, 8);
		}
		EXPECT(is_unchanged(b));
	}
}

enum bad_atomic {
	BAD_ID,
	BAD_MSN,
	BAD_SHORT,
	BAD_EMPTY,
	BAD_LONG,
	BAD_OPEN,
	BAD_NONE,
	BAD_KIND,
	BAD_COUNT
};

static struct stream_end atomic_end(enum bad_atomic bad)
{
	if (bad == BAD_MSN)
		return (struct stream_end){ WEFT_R_DDP_MSN, { 1, 2, 3 }, HEADERS_DDP };
	if (bad == BAD_SHORT || bad == BAD_EMPTY || bad == BAD_LONG || bad == BAD_OPEN)
		return (struct stream_end){ WEFT_R_RDMAP_BODY, { 0, 2, 0xff }, HEADERS_DDP };
	return (struct stream_end){ WEFT_R_RDMAP_RESPONSE, { 0, 2, 6 }, HEADERS_DDP };
}

TEST(test_rfc7306_5_atomic_answer_is_wrong)
{
	for (enum bad_atomic bad = 0; bad < BAD_COUNT; bad++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
			struct weft_send_wr wr = { .opcode = WEFT_OP_FETCH_ADD };
			struct ddp_untagged h = untagged(RDMAP_ATOMIC_RESPONSE,
							 RDMAP_QN_ATOMIC_RESPONSE, 1);
			uint8_t body[16] = { 0 };
			const struct stream_end end = atomic_end(bad);

			if (bad == BAD_KIND) /* a Read in flight, answered as an atomic */
				wr.opcode = WEFT_OP_READ;
			if (bad != BAD_NONE) {
				MUST(post(b, &wr, tag, 0, 8));
				(void)expect_frame(b, bad == BAD_KIND ? RDMAP_READ_REQUEST
								      : RDMAP_ATOMIC_REQUEST);
			}
			body[3] = bad == BAD_ID;
			h.msn += bad == BAD_MSN;
			h.is_last = bad != BAD_OPEN;
			peer_untagged(b, &h, body,
				      bad == BAD_EMPTY ? 0
						       : (uint32_t)(12 + (bad == BAD_LONG) -
								    (bad == BAD_SHORT)));
			expect_refused(b, &end);
		}
	}
}

/* An atomic in flight, answered as a Read. */
TEST(test_rfc7306_5_atomic_answered_as_a_read)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
		struct weft_send_wr wr = { .opcode = WEFT_OP_FETCH_ADD };

		MUST(post(b, &wr, tag, 0, 8));
		(void)expect_frame(b, RDMAP_ATOMIC_REQUEST);
		peer_response(b, tag, addr_of(b, 0), payload, 8);
		expect_refused(
			b, &(struct stream_end){ WEFT_R_RDMAP_RESPONSE, { 0, 2, 6 }, HEADERS_DDP });
	}
}

TEST(test_rfc5042_6_2_3_atomic_sink_is_gone)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
		struct weft_send_wr wr = { .opcode = WEFT_OP_FETCH_ADD };

		MUST(post(b, &wr, tag, 0, 8));
		(void)expect_frame(b, RDMAP_ATOMIC_REQUEST);
		bed_deregister(b, tag);
		peer_atomic_response(b, 0, 1);
		expect_terminated(b, WEFT_R_SINK_GONE);
	}
}

/* ---- Memory taken back ---------------------------------------------------------------------- */

/* All of the message is made ready, and nothing of it has gone: the peer is told. */
TEST(test_rfc5042_6_2_3_source_is_gone_before_a_send)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_LOCAL_READ);
		struct weft_send_wr send = { .opcode = WEFT_OP_SEND };

		b->out_credit = 0;
		MUST(post(b, &send, tag, 0, LARGE));
		bed_deregister(b, tag);
		b->out_credit = SIZE_MAX;
		expect_terminated(b, WEFT_R_SOURCE_GONE);
		expect_completion(b, 1, WEFT_ERR_LOCAL_ACCESS, WEFT_R_SOURCE_GONE);
	}
}

/* A page is missing while the CRC is computed, and back before the bytes go. */
TEST(test_vmm_04_iwarp_request_whose_crc_could_not_be_computed_fails)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_LOCAL_READ);
		struct weft_send_wr send = { .opcode = WEFT_OP_SEND };

		if (!b->terms.has_crc)
			continue;
		b->out_credit = 0;
		b->is_gone = true;
		MUST(post(b, &send, tag, 0, LARGE));
		b->is_gone = false;
		b->out_credit = SIZE_MAX;
		expect_terminated(b, WEFT_R_MEMORY_GONE);
		expect_completion(b, 1, WEFT_ERR_LOCAL_ACCESS, WEFT_R_MEMORY_GONE);
	}
}

TEST(test_rfc5042_6_2_3_source_is_gone_in_the_middle_of_a_send)
{
	static const size_t cuts[] = { 1, 20, 600, 1900 };

	for (size_t i = 0; i < 4; i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_LOCAL_READ);
			struct weft_send_wr send = { .opcode = WEFT_OP_SEND };

			b->out_credit = cuts[i];
			MUST(post(b, &send, tag, 0, 200000));
			bed_deregister(b, tag);
			b->out_credit = SIZE_MAX;
			bed_move(b);
			EXPECT(b->is_aborted);
			EXPECT_EQ(b->out.length, cuts[i]);
			EXPECT_EQ(b->qp->reason, WEFT_R_SOURCE_GONE);
			expect_completion(b, 1, WEFT_ERR_LOCAL_ACCESS, WEFT_R_SOURCE_GONE);
		}
	}
}

/* What went before it is not harmed. */
TEST(test_rfc5042_6_2_3_source_of_a_later_send_is_gone)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t good = bed_region(b, 0, MEMORY_BYTES, WEFT_LOCAL_READ);
		uint32_t bad = bed_region(b, 0, MEMORY_BYTES, WEFT_LOCAL_READ);
		struct weft_send_wr send = { .opcode = WEFT_OP_SEND };

		b->out_credit = 0;
		MUST(post(b, &send, good, 0, 1500));
		MUST(post(b, &send, bad, 0, 1500));
		bed_deregister(b, bad);
		b->out_credit = SIZE_MAX;
		bed_move(b);
		EXPECT_EQ(expect_frame(b, RDMAP_SEND)->bytes, 1500);
		expect_terminated(b, WEFT_R_SOURCE_GONE);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
		expect_completion(b, 2, WEFT_ERR_LOCAL_ACCESS, WEFT_R_SOURCE_GONE);
	}
}

/* Inline data is ours from the post on. */
TEST(test_qp_07_inline_data_is_a_copy)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct weft_send_wr send = { .opcode = WEFT_OP_SEND, .flags = WEFT_INLINE };
		const struct frame *f;

		b->out_credit = 25;
		MUST(post(b, &send, 0, 0, 60));
		memset(b->memory, 0, 60);
		b->out_credit = SIZE_MAX;
		bed_move(b);
		f = expect_frame(b, RDMAP_SEND);
		EXPECT_EQ(f->bytes, 60);
		EXPECT_MEM(f->payload, b->shadow, 60);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
	}
}

/* ---- Order ---------------------------------------------------------------------------------- */

/* RFC 5040 section 5.5: a Send does not wait for the Read before it; completions are in order. */
TEST(test_rfc5040_5_5_send_passes_a_read)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
		struct weft_send_wr read = { .opcode = WEFT_OP_READ }, send = { 0 };

		MUST(post(b, &read, tag, 0, 8));
		MUST(post(b, &send, tag, 0, 8));
		(void)expect_frame(b, RDMAP_READ_REQUEST);
		(void)expect_frame(b, RDMAP_SEND);
		expect_no_completion(b);
		peer_response(b, tag, addr_of(b, 0), b->memory, 8);
		bed_move(b);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
		expect_completion(b, 2, WEFT_SUCCESS, WEFT_OK);
	}
}

TEST(test_qp_07_fence_waits_for_reads)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
		struct weft_send_wr read = { .opcode = WEFT_OP_READ };
		struct weft_send_wr fenced = { .flags = WEFT_FENCE }, send = { 0 };

		MUST(post(b, &read, tag, 0, LARGE));
		MUST(post(b, &read, tag, 0, 8));
		MUST(post(b, &fenced, tag, 0, 8));
		MUST(post(b, &send, tag, 0, 8));
		(void)expect_frame(b, RDMAP_READ_REQUEST);
		(void)expect_frame(b, RDMAP_READ_REQUEST);
		peer_response(b, tag, addr_of(b, 0), payload, LARGE);
		bed_move(b);
		EXPECT_EQ(peer_left(b), 0);
		peer_response(b, tag, addr_of(b, 0), payload, 8);
		bed_move(b);
		(void)expect_frame(b, RDMAP_SEND);
		(void)expect_frame(b, RDMAP_SEND);
		for (uint64_t id = 1; id <= 4; id++)
			expect_completion(b, id, WEFT_SUCCESS, WEFT_OK);
	}
}

/* QP-02: no more Reads and atomics in flight than were agreed; others go past. */
TEST(test_qp_02_no_more_reads_than_agreed)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
		struct weft_send_wr read = { .opcode = WEFT_OP_READ };
		struct weft_send_wr atomic = { .opcode = WEFT_OP_FETCH_ADD }, send = { 0 };

		MUST(post(b, &read, tag, 0, 8));
		MUST(post(b, &atomic, tag, 0, 8));
		MUST(post(b, &read, tag, 0, 8));
		MUST(post(b, &send, tag, 0, 8));
		(void)expect_frame(b, RDMAP_READ_REQUEST);
		(void)expect_frame(b, RDMAP_ATOMIC_REQUEST);
		EXPECT_EQ(peer_left(b), 0);
		peer_response(b, tag, addr_of(b, 0), payload, 8);
		bed_move(b);
		(void)expect_frame(b, RDMAP_READ_REQUEST);
		(void)expect_frame(b, RDMAP_SEND);
		EXPECT_EQ(peer_left(b), 0);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
	}
}

/* QP-14: what had begun is finished, and then the event comes; later requests wait. */
TEST(test_qp_14_drain_with_reads_in_flight)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
		struct weft_send_wr read = { .opcode = WEFT_OP_READ }, send = { 0 };

		MUST(post(b, &read, tag, 0, 8));
		(void)expect_frame(b, RDMAP_READ_REQUEST);
		bed_modify(b, WEFT_QPS_SQD);
		MUST(post(b, &send, tag, 0, 8));
		EXPECT_EQ(bed_event(b, WEFT_EVENT_QP_DRAINED), WEFT_REASON_COUNT);
		EXPECT_EQ(peer_left(b), 0);
		peer_response(b, tag, addr_of(b, 0), payload, 8);
		bed_move(b);
		EXPECT_EQ(bed_event(b, WEFT_EVENT_QP_DRAINED), WEFT_OK);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
		expect_no_completion(b);
		EXPECT_EQ(peer_left(b), 0);
		bed_modify(b, WEFT_QPS_RTS);
		(void)expect_frame(b, RDMAP_SEND);
		expect_completion(b, 2, WEFT_SUCCESS, WEFT_OK);
	}
}

/* Posts small Sends until one has to wait for room; returns how many. */
static uint32_t post_until_full(struct iwarp_bed *b, uint32_t tag)
{
	uint32_t n = 0;

	b->out_credit = 0;
	while (b->qp->sq.wait != SEND_FULL) {
		struct weft_send_wr send = { .opcode = WEFT_OP_SEND };

		MUST(post(b, &send, tag, 0, 8));
		n++;
	}
	return n;
}

/* While the queue is drained, and one of ours waits for room, the peer's Reads are served. */
TEST(test_qp_14_reads_are_served_while_drained)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
		uint32_t sends = post_until_full(b, tag);

		bed_modify(b, WEFT_QPS_SQD);
		b->out_credit = SIZE_MAX;
		bed_move(b);
		for (uint32_t i = 1; i < sends; i++)
			(void)expect_frame(b, RDMAP_SEND);
		EXPECT_EQ(peer_left(b), 0);
		peer_read(b, tag, addr_of(b, 0), 8);
		peer_read(b, tag, addr_of(b, 0), 8);
		bed_move(b);
		(void)expect_frame(b, RDMAP_READ_RESPONSE);
		(void)expect_frame(b, RDMAP_READ_RESPONSE);
		bed_modify(b, WEFT_QPS_RTS);
		(void)expect_frame(b, RDMAP_SEND);
	}
}

/* SQR-06a: a request fails when its turn comes; the peer's Reads are served all the same. */
TEST(test_sqr_06a_reads_are_served_after_a_failure)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		const struct weft_qp_attr attr = { .on_failure = WEFT_FAIL_DRAIN };
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS), sends;
		uint32_t doomed = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
		struct weft_send_wr send = { .opcode = WEFT_OP_SEND };

		MUST(qp_modify(b->qp, &attr, WEFT_QP_ON_FAILURE));
		sends = post_until_full(b, tag);
		MUST(post(b, &send, doomed, 0, 8));
		bed_deregister(b, doomed);
		peer_read(b, tag, addr_of(b, 0), 8);
		peer_read(b, tag, addr_of(b, 0), 8);
		bed_move(b);
		b->out_credit = SIZE_MAX;
		bed_move(b);
		EXPECT_EQ(b->qp->state, WEFT_QPS_SQE);
		for (uint32_t i = 0; i < sends + 2; i++)
			EXPECT(peer_next(b));
		EXPECT_EQ(peer_left(b), 0);
		for (uint32_t i = 1; i <= sends; i++)
			expect_completion(b, i, WEFT_SUCCESS, WEFT_OK);
		expect_completion(b, sends + 1, WEFT_ERR_LOCAL_ACCESS, WEFT_R_TAG_INVALID);
	}
}

/* Answers and requests take turns when both are many. */
TEST(test_rfc5040_5_5_neither_side_starves)
{
	static const struct setup setup = {
		.terms = { .is_initiator = true, .has_crc = true, .ird = 8 },
	};

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS), answers = 0, sends = 0;

		sends = post_until_full(b, tag);
		for (int i = 0; i < 8; i++) {
			struct weft_send_wr send = { .opcode = WEFT_OP_SEND };

			MUST(post(b, &send, tag, 0, 8));
			peer_read(b, tag, addr_of(b, 0), 8);
		}
		sends += 8;
		bed_move(b);
		b->out_credit = SIZE_MAX;
		bed_move(b);
		for (uint32_t i = 0; i < sends + 8; i++) {
			const struct frame *f = peer_next(b);

			EXPECT(f);
			answers += f->opcode == RDMAP_READ_RESPONSE;
			if (i + 4 >= sends + 8) /* not all of one kind at the end */
				EXPECT(answers >= 4);
		}
		EXPECT_EQ(answers, 8);
		EXPECT_EQ(peer_left(b), 0);
	}
}
