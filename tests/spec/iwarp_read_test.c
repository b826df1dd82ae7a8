/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads and atomics of the peer: IWARP-05 to 08, TOUCH-10; RFC 5040 section 5.4, RFC 7306. */
#include "iwarp_peer.h"

#include <string.h>

enum { REGION_AT = 4096, REGION_BYTES = 65536 };

/* A request that is to be refused, made out of a good one. */
struct ask {
	uint32_t tag;
	uint64_t from;
	uint32_t length;
};

struct refusal {
	void (*spoil)(struct iwarp_bed *b, struct ask *ask);
	struct stream_end end;
	enum weft_policy policy;
};

static void refuse_read(const struct refusal *refusal)
{
	const struct setup setup = {
		.terms = { .is_initiator = true, .has_crc = true, .ird = 1 },
		.policy = refusal->policy,
	};

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		struct ask ask = {
			.tag = bed_region(b, REGION_AT, REGION_BYTES, ALL_RIGHTS),
			.from = addr_of(b, REGION_AT),
			.length = 4096,
		};

		refusal->spoil(b, &ask);
		peer_read(b, ask.tag, ask.from, ask.length);
		expect_refused(b, &refusal->end);
	}
}

static void spoil_index(struct iwarp_bed *b, struct ask *ask)
{
	(void)b;
	ask->tag |= 0xffff0000;
}

TEST(test_iwarp_06a_read_of_no_entry)
{
	refuse_read(&(struct refusal){
		.spoil = spoil_index,
		.end = { WEFT_R_TAG_INDEX, { 0, 1, 0 }, HEADERS_READ },
	});
}

static void spoil_valid(struct iwarp_bed *b, struct ask *ask)
{
	bed_deregister(b, ask->tag);
}

TEST(test_iwarp_06a_iwarp_s1_read_of_deregistered)
{
	refuse_read(&(struct refusal){
		.spoil = spoil_valid,
		.end = { WEFT_R_TAG_INVALID, { 0, 1, 0 }, HEADERS_READ },
	});
}

static void spoil_nothing(struct iwarp_bed *b, struct ask *ask)
{
	(void)b;
	(void)ask;
}

TEST(test_iwarp_06b_read_of_region_under_strict_policy)
{
	refuse_read(&(struct refusal){
		.spoil = spoil_nothing,
		.end = { WEFT_R_TAG_REGION_REMOTE, { 0, 1, 0 }, HEADERS_READ },
		.policy = WEFT_POLICY_STRICT,
	});
}

static void spoil_pd(struct iwarp_bed *b, struct ask *ask)
{
	struct weft_pd *pd = b->pd;

	b->pd = b->other_pd;
	ask->tag = bed_region(b, REGION_AT, REGION_BYTES, ALL_RIGHTS);
	b->pd = pd;
}

TEST(test_iwarp_06c_read_of_another_domain)
{
	refuse_read(&(struct refusal){
		.spoil = spoil_pd,
		.end = { WEFT_R_TAG_PD, { 0, 1, 3 }, HEADERS_READ },
	});
}

static void spoil_instance(struct iwarp_bed *b, struct ask *ask)
{
	(void)b;
	ask->tag ^= 1;
}

TEST(test_iwarp_06d_read_of_another_instance)
{
	refuse_read(&(struct refusal){
		.spoil = spoil_instance,
		.end = { WEFT_R_TAG_INSTANCE, { 0, 1, 0 }, HEADERS_READ },
	});
}

static void spoil_before(struct iwarp_bed *b, struct ask *ask)
{
	(void)b;
	ask->from--;
}

static void spoil_after(struct iwarp_bed *b, struct ask *ask)
{
	(void)b;
	ask->length = REGION_BYTES + 1;
}

TEST(test_iwarp_06e_read_out_of_bounds)
{
	refuse_read(&(struct refusal){
		.spoil = spoil_before,
		.end = { WEFT_R_RANGE_BOUNDS, { 0, 1, 1 }, HEADERS_READ },
	});
	refuse_read(&(struct refusal){
		.spoil = spoil_after,
		.end = { WEFT_R_RANGE_BOUNDS, { 0, 1, 1 }, HEADERS_READ },
	});
}

static void spoil_wrap(struct iwarp_bed *b, struct ask *ask)
{
	(void)b;
	ask->from = UINT64_MAX - 100;
}

TEST(test_iwarp_06e_read_wraps)
{
	refuse_read(&(struct refusal){
		.spoil = spoil_wrap,
		.end = { WEFT_R_RANGE_WRAP, { 0, 1, 4 }, HEADERS_READ },
	});
}

static void spoil_right(struct iwarp_bed *b, struct ask *ask)
{
	ask->tag = bed_region(b, REGION_AT, REGION_BYTES, ALL_RIGHTS & ~WEFT_REMOTE_READ);
}

TEST(test_iwarp_06f_read_without_right)
{
	refuse_read(&(struct refusal){
		.spoil = spoil_right,
		.end = { WEFT_R_RIGHT_REMOTE_READ, { 0, 1, 2 }, HEADERS_READ },
	});
}

static void spoil_qp_right(struct iwarp_bed *b, struct ask *ask)
{
	const struct weft_qp_attr attr = { .remote_rights = WEFT_REMOTE_WRITE };

	(void)ask;
	MUST(qp_modify(b->qp, &attr, WEFT_QP_REMOTE_RIGHTS));
}

TEST(test_iwarp_06f_read_that_the_queue_pair_does_not_let_in)
{
	refuse_read(&(struct refusal){
		.spoil = spoil_qp_right,
		.end = { WEFT_R_QP_REMOTE_RIGHTS, { 0, 1, 2 }, HEADERS_READ },
	});
}

/* ---- Requests that are no requests ---------------------------------------------------------- */

TEST(test_iwarp_05_rfc5041_5_1_request_number_out_of_range)
{
	static const uint32_t numbers[] = { 0, 3, UINT32_MAX };

	for (size_t i = 0; i < 3; i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, 4096, ALL_RIGHTS);

			b->msn[RDMAP_QN_REQUEST] = numbers[i] - 1;
			peer_read(b, tag, addr_of(b, 0), 8);
			expect_refused(b, &(struct stream_end){
						  WEFT_R_DDP_MSN, { 1, 2, 3 }, HEADERS_DDP });
		}
	}
}

/* The body must be there and nothing more, in one segment from offset 0. */
static void refuse_body(uint32_t length, uint32_t mo, bool is_last, const struct stream_end *end)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct ddp_untagged h = untagged(RDMAP_READ_REQUEST, RDMAP_QN_REQUEST, 1);
		uint8_t body[4096] = { 0 };

		h.mo = mo;
		h.is_last = is_last;
		peer_untagged(b, &h, body, length);
		expect_refused(b, end);
	}
}

TEST(test_rfc5040_4_4_read_request_body)
{
	const struct stream_end body = { WEFT_R_RDMAP_BODY, { 0, 2, 0xff }, HEADERS_DDP };

	refuse_body(0, 0, true, &body);
	refuse_body(27, 0, true, &body);
	refuse_body(29, 0, true, &body);
	refuse_body(4000, 0, true, &body);
	refuse_body(28, 0, false, &body);
	refuse_body(28, 4, true,
		    &(struct stream_end){ WEFT_R_DDP_OFFSET, { 1, 2, 4 }, HEADERS_DDP });
}

/* IWARP-08: as many as were agreed, and one more. The connection takes nothing meanwhile. */
TEST(test_iwarp_08_iwarp_s2_reads_beyond_the_depth)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_REMOTE_READ);

		b->out_credit = 0;
		peer_read(b, tag, addr_of(b, 0), 4096);
		peer_read(b, tag, addr_of(b, 0), 4096);
		bed_move(b);
		EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
		peer_read(b, tag, addr_of(b, 0), 8);
		bed_move(b);
		b->out_credit = SIZE_MAX;
		expect_refused(
			b, &(struct stream_end){ WEFT_R_READS_BEYOND, { 1, 2, 2 }, HEADERS_DDP });
	}
}

TEST(test_iwarp_08_no_depth_no_reads)
{
	static const struct setup setup = { .terms = { .is_initiator = true, .has_crc = true } };

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		peer_read(b, 0, 0, 0);
		expect_refused(
			b, &(struct stream_end){ WEFT_R_READS_BEYOND, { 1, 2, 2 }, HEADERS_DDP });
	}
}

/* ---- Answers -------------------------------------------------------------------------------- */

/* Reads the answer to a Read of this length from this offset; msn is the request's. */
static void expect_answer(struct iwarp_bed *b, uint32_t msn, size_t offset, uint32_t length)
{
	uint32_t done = 0;
	bool is_last = false;

	while (!is_last) {
		const struct frame *f = expect_frame(b, RDMAP_READ_RESPONSE);

		EXPECT_EQ(f->t.stag, 0x51000000 + msn);
		EXPECT_EQ(f->t.to, 0x1111111100000000 + msn + done);
		EXPECT(done + f->bytes <= length);
		EXPECT_MEM(f->payload, b->shadow + offset + done, f->bytes);
		done += f->bytes;
		is_last = f->t.is_last;
	}
	EXPECT_EQ(done, length);
}

TEST(test_iwarp_07_read_is_answered)
{
	static const uint32_t sizes[] = { 1, 127, 128, 129, 5000, 65536 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_REMOTE_READ);

			peer_read(b, tag, addr_of(b, 300), sizes[i]);
			peer_read(b, tag, addr_of(b, 7), 1);
			bed_move(b);
			expect_answer(b, 1, 300, sizes[i]);
			expect_answer(b, 2, 7, 1);
			EXPECT_EQ(peer_left(b), 0);
			/* Both slots are free again. */
			peer_read(b, tag, addr_of(b, 9), 3);
			peer_read(b, tag, addr_of(b, 8), 2);
			bed_move(b);
			expect_answer(b, 3, 9, 3);
			expect_answer(b, 4, 8, 2);
			EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
			EXPECT(is_unchanged(b));
		}
	}
}

TEST(test_rfc5040_5_4_empty_read_is_not_checked)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		MUST(qp_modify(b->qp, &(struct weft_qp_attr){ .remote_rights = 0 },
			       WEFT_QP_REMOTE_RIGHTS));
		peer_read(b, 0xffffffff, UINT64_MAX, 0);
		bed_move(b);
		expect_answer(b, 1, 0, 0);
		EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
	}
}

/* RFC 5040 section 5.5: a Read sees what an earlier Write of the same stream brought. */
TEST(test_rfc5040_5_5_read_after_write)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);

		peer_write(b, tag, addr_of(b, 64), "new words", 9);
		peer_read(b, tag, addr_of(b, 64), 9);
		bed_move(b);
		memcpy(b->shadow + 64, "new words", 9);
		expect_answer(b, 1, 64, 9);
	}
}

/* The first Read was served when the second was refused: what went before a Terminate is whole. */
TEST(test_rfc5040_7_good_read_then_bad_one)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_REMOTE_READ);

		peer_read(b, tag, addr_of(b, 0), 3000);
		bed_move(b);
		expect_answer(b, 1, 0, 3000);
		peer_read(b, tag, addr_of(b, MEMORY_BYTES), 1);
		expect_refused(
			b, &(struct stream_end){ WEFT_R_RANGE_BOUNDS, { 0, 1, 1 }, HEADERS_READ });
	}
}

/*
 * The answer waits for its turn, and what it was granted is taken back: refused as at first, by
 * its own header, though other messages came meanwhile.
 */
TEST(test_iwarp_06a_deregistered_before_the_answer)
{
	static const struct setup setup = {
		.terms = { .is_initiator = true, .has_crc = true, .ird = 4 },
	};

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t all = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_REMOTE_READ);
		uint8_t header[DDP_HEADER_MAX];
		uint32_t ulpdu_bytes;

		b->out_credit = 0;
		peer_read(b, all, addr_of(b, 0), MEMORY_BYTES);
		peer_read(b, tag, addr_of(b, 0), 512);
		memcpy(header, b->header, sizeof(header));
		ulpdu_bytes = b->ulpdu_bytes;
		peer_write(b, all, addr_of(b, 0), b->memory, 64);
		bed_move(b);
		bed_deregister(b, tag);
		b->out_credit = SIZE_MAX;
		bed_move(b);
		expect_answer(b, 1, 0, MEMORY_BYTES);
		memcpy(b->header, header, sizeof(header));
		b->header_bytes = DDP_UNTAGGED_BYTES;
		b->ulpdu_bytes = ulpdu_bytes;
		expect_refused(
			b, &(struct stream_end){ WEFT_R_TAG_INVALID, { 0, 1, 0 }, HEADERS_READ });
	}
}

/* ---- Memory taken back while it is read ----------------------------------------------------- */

/* Without a CRC an answer is sent from the memory itself. */
static const struct setup without_crc = { .terms = { .is_initiator = true, .ird = 2 } };

/* Between two FPDUs of an answer: the peer is told. */
TEST(test_rfc5042_6_2_3_deregistered_between_two_fpdus_of_an_answer)
{
	for (struct iwarp_bed *b = bed_first(&without_crc); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_REMOTE_READ);
		const struct frame *f;

		b->out_credit = 10;
		peer_read(b, tag, addr_of(b, 0), MEMORY_BYTES);
		bed_move(b);
		/* The rest of the first FPDU, and no more. */
		b->out_credit = (size_t)(b->out.bytes[b->terms.sends_markers ? 4 : 0] << 8);
		b->out_credit += b->out.bytes[b->terms.sends_markers ? 5 : 1];
		b->out_credit = mpa_fpdu_bytes((uint32_t)b->out_credit) - 10;
		if (b->terms.sends_markers) /* at most one more of its own for each 508 bytes */
			b->out_credit += MPA_MARKER_BYTES * (1 + (b->out_credit + 9) / 508);
		bed_move(b);
		f = expect_frame(b, RDMAP_READ_RESPONSE);
		EXPECT(!f->t.is_last);
		EXPECT_EQ(peer_left(b), 0);
		bed_deregister(b, tag);
		b->out_credit = SIZE_MAX;
		expect_terminated(b, WEFT_R_SOURCE_GONE);
	}
}

/* With half an FPDU out it cannot be ended well: not one byte more, and a reset. */
TEST(test_rfc5042_6_2_3_deregistered_with_half_an_fpdu_out)
{
	for (struct iwarp_bed *b = bed_first(&without_crc); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_REMOTE_READ);

		b->out_credit = 900;
		peer_read(b, tag, addr_of(b, 0), MEMORY_BYTES);
		bed_move(b);
		EXPECT_EQ(b->out.length, 900);
		bed_deregister(b, tag);
		b->out_credit = SIZE_MAX;
		bed_move(b);
		EXPECT(b->is_aborted && !b->is_shut && !b->is_closed);
		EXPECT_EQ(b->out.length, 900);
		EXPECT_EQ(b->qp->state, WEFT_QPS_ERROR);
		EXPECT_EQ(b->qp->reason, WEFT_R_SOURCE_GONE);
	}
}

/* A small answer was copied: it goes out as it was. */
TEST(test_rfc5042_6_2_3_small_answer_is_a_copy)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_REMOTE_READ);

		b->out_credit = 20;
		peer_read(b, tag, addr_of(b, 0), 100);
		bed_move(b);
		bed_deregister(b, tag);
		memset(b->memory, 0, 100);
		b->out_credit = SIZE_MAX;
		bed_move(b);
		expect_answer(b, 1, 0, 100);
		EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
	}
}

/*
 * An answer with a CRC was copied, however large: neither a change of the memory nor the end of its
 * registration makes the peer find a wrong CRC.
 */
TEST(test_iwarp_07_answer_with_crc_is_a_copy)
{
	static const uint32_t sizes[] = { 129, 5000, 65536, 200000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_REMOTE_READ);

			if (b->terms.sends_markers && sizes[i] > 65536)
				continue; /* more FPDUs than are cut at once */
			bed_lend(b);
			b->out_credit = 100;
			peer_read(b, tag, addr_of(b, 0), sizes[i]);
			bed_move(b);
			EXPECT_EQ(b->out.length, 100);
			bed_deregister(b, tag);
			memset(b->memory, 0, sizes[i]);
			b->out_credit = SIZE_MAX;
			bed_move(b);
			expect_answer(b, 1, 0, sizes[i]);
			EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
		}
	}
}

/* What the copy does not hold yet is looked up again: refused between two FPDUs. */
TEST(test_iwarp_06a_deregistered_while_the_answer_is_copied)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_REMOTE_READ);
		uint64_t copied;

		b->out_credit = 10;
		peer_read(b, tag, addr_of(b, 0), MEMORY_BYTES);
		bed_move(b);
		copied = iwarp_counts(b->stream)->fpdus_out;
		EXPECT(copied > 0);
		bed_deregister(b, tag);
		memset(b->memory, 0, MEMORY_BYTES);
		b->out_credit = SIZE_MAX;
		bed_move(b);
		for (uint64_t n = 0, at = 0; n < copied; n++) {
			const struct frame *f = expect_frame(b, RDMAP_READ_RESPONSE);

			EXPECT_MEM(f->payload, b->shadow + at, f->bytes);
			at += f->bytes;
		}
		memcpy(b->shadow, b->memory, MEMORY_BYTES);
		expect_refused(
			b, &(struct stream_end){ WEFT_R_TAG_INVALID, { 0, 1, 0 }, HEADERS_READ });
	}
}

/* ---- One touch ------------------------------------------------------------------------------ */

static uint32_t touch_window(struct iwarp_bed *b)
{
	const struct weft_bind bind = {
		.addr = addr_of(b, REGION_AT),
		.length = REGION_BYTES,
		.rights = WEFT_REMOTE_WRITE | WEFT_REMOTE_READ | WEFT_REMOTE_ATOMIC,
		.is_one_touch = true,
	};

	return bed_window(b, &bind);
}

TEST(test_touch_10_read_once)
{
	static const uint32_t sizes[] = { 100, 5000, REGION_BYTES };

	for (size_t i = 0; i < 3; i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = touch_window(b);

			b->out_credit = 60;
			peer_read(b, tag, addr_of(b, REGION_AT), sizes[i]);
			bed_move(b);
			EXPECT_EQ(b->adapter.mem.entries[weft_tag_index(tag)].state, MEM_VALID);
			b->out_credit = SIZE_MAX;
			bed_move(b);
			expect_answer(b, 1, REGION_AT, sizes[i]);
			EXPECT_EQ(b->adapter.mem.entries[weft_tag_index(tag)].state, MEM_RESERVED);
			peer_read(b, tag, addr_of(b, REGION_AT), 8);
			expect_refused(b, &(struct stream_end){
						  WEFT_R_TAG_SPENT, { 0, 1, 0 }, HEADERS_READ });
		}
	}
}

/* Two at once: the second must not be served because the first is still on its way. */
static void read_twice(bool has_crc, uint32_t first, uint32_t second)
{
	const struct setup setup = {
		.terms = { .is_initiator = true, .has_crc = has_crc, .ird = 2 },
	};

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = touch_window(b);

		b->out_credit = 0;
		peer_read(b, tag, addr_of(b, REGION_AT), first);
		peer_read(b, tag, addr_of(b, REGION_AT), second);
		bed_move(b);
		b->out_credit = SIZE_MAX;
		bed_move(b);
		expect_answer(b, 1, REGION_AT, first);
		expect_refused(b,
			       &(struct stream_end){ WEFT_R_TAG_SPENT, { 0, 1, 0 }, HEADERS_READ });
	}
}

TEST(test_touch_10_two_reads_at_once)
{
	read_twice(true, 16, 16);
	read_twice(false, 16, 16);
	read_twice(true, 5000, 16);
	read_twice(true, 16, 5000);
	read_twice(false, 5000, 5000);
}

/* ---- Atomics -------------------------------------------------------------------------------- */

static struct rdmap_atomic_request add(uint32_t tag, uint64_t to, uint64_t value)
{
	return (struct rdmap_atomic_request){
		.opcode = RDMAP_FETCH_ADD,
		.id = 0xabcd,
		.stag = tag,
		.to = to,
		.add_swap = value,
		.compare_mask = UINT64_MAX,
	};
}

static void refuse_atomic(uint32_t rights, uint64_t offset, const struct stream_end *end)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, 4096, rights);
		struct rdmap_atomic_request a = add(tag, addr_of(b, offset), 1);

		peer_atomic(b, &a);
		expect_refused(b, end);
	}
}

TEST(test_rfc7306_5_atomic_refused)
{
	refuse_atomic(ALL_RIGHTS, 4,
		      &(struct stream_end){ WEFT_R_ATOMIC_ALIGN, { 0, 2, 7 }, HEADERS_DDP });
	refuse_atomic(ALL_RIGHTS, 4096,
		      &(struct stream_end){ WEFT_R_RANGE_BOUNDS, { 0, 1, 1 }, HEADERS_DDP });
	refuse_atomic(ALL_RIGHTS & ~WEFT_REMOTE_ATOMIC, 8,
		      &(struct stream_end){ WEFT_R_RIGHT_REMOTE_ATOMIC, { 0, 1, 2 }, HEADERS_DDP });
}

TEST(test_rfc7306_8_2_atomic_body)
{
	for (uint32_t which = 0; which < 3; which++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, 4096, ALL_RIGHTS);
			struct rdmap_atomic_request a = add(tag, addr_of(b, 0), 1);
			struct ddp_untagged h = untagged(RDMAP_ATOMIC_REQUEST, RDMAP_QN_REQUEST, 1);
			uint8_t body[RDMAP_ATOMIC_REQUEST_BYTES + 4] = { 0 };
			struct wr w = wr_of(body, sizeof(body));

			if (which == 0)
				a.opcode = (enum rdmap_atomic)1; /* not assigned */
			rdmap_atomic_request_encode(&a, &w);
			h.is_last = which != 1;
			peer_untagged(b, &h, body,
				      RDMAP_ATOMIC_REQUEST_BYTES + (which == 2 ? 4 : 0));
			expect_refused(b, &(struct stream_end){
						  WEFT_R_RDMAP_BODY, { 0, 2, 0xff }, HEADERS_DDP });
		}
	}
}

static uint64_t expect_atomic_answer(struct iwarp_bed *b, uint32_t msn)
{
	const struct frame *f = expect_frame(b, RDMAP_ATOMIC_RESPONSE);
	struct rd r = rd_of(f->payload, f->bytes);
	struct rdmap_atomic_response answer;

	REQUIRE(f->u.qn == RDMAP_QN_ATOMIC_RESPONSE && f->u.msn == msn && f->u.is_last);
	REQUIRE(rdmap_atomic_response_decode(&answer, &r) == RDMAP_OK && r.at == r.end);
	REQUIRE(answer.id == 0xabcd);
	return answer.original;
}

/* RFC 7306 section 5.4: in order, and a Read that follows sees the result. */
TEST(test_rfc7306_5_4_atomics_and_reads_in_order)
{
	static const struct setup setup = {
		.terms = { .is_initiator = true, .has_crc = true, .ird = 4 },
	};

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, 4096, ALL_RIGHTS);
		struct rdmap_atomic_request a = add(tag, addr_of(b, 8), 5);
		uint64_t value = 1000;

		memcpy(b->memory + 8, &value, 8);
		peer_read(b, tag, addr_of(b, 8), 8);
		peer_atomic(b, &a);
		a.opcode = RDMAP_COMPARE_SWAP;
		a.compare = 1005;
		a.add_swap = 77;
		a.add_swap_mask = UINT64_MAX;
		peer_atomic(b, &a);
		peer_read(b, tag, addr_of(b, 8), 8);
		bed_move(b);
		memcpy(b->shadow + 8, &value, 8);
		expect_answer(b, 1, 8, 8);
		EXPECT_EQ(expect_atomic_answer(b, 1), 1000);
		EXPECT_EQ(expect_atomic_answer(b, 2), 1005);
		value = 77;
		memcpy(b->shadow + 8, &value, 8);
		expect_answer(b, 4, 8, 8);
		EXPECT(is_unchanged(b));
	}
}

/* It was valid when the request came: the atomic is not carried out. */
TEST(test_iwarp_06a_deregistered_before_an_atomic)
{
	static const struct setup setup = {
		.terms = { .is_initiator = true, .has_crc = true, .ird = 4 },
	};

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t all = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
		struct rdmap_atomic_request a = add(tag, addr_of(b, 8), 5);

		b->out_credit = 0;
		peer_read(b, all, addr_of(b, 0), MEMORY_BYTES);
		peer_atomic(b, &a);
		bed_move(b);
		bed_deregister(b, tag);
		b->out_credit = SIZE_MAX;
		bed_move(b);
		expect_answer(b, 1, 0, MEMORY_BYTES);
		expect_refused(
			b, &(struct stream_end){ WEFT_R_TAG_INVALID, { 0, 1, 0 }, HEADERS_DDP });
		EXPECT(is_unchanged(b));
	}
}

/* The last word is the first's as well: what an atomic uses up is gone for the next. */
TEST(test_touch_10_atomic_once)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = touch_window(b);
		struct rdmap_atomic_request a = add(tag, addr_of(b, REGION_AT), 0);

		peer_atomic(b, &a);
		bed_move(b);
		(void)expect_atomic_answer(b, 1);
		peer_atomic(b, &a);
		expect_refused(b,
			       &(struct stream_end){ WEFT_R_TAG_SPENT, { 0, 1, 0 }, HEADERS_DDP });
	}
}
