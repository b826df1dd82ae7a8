/* SPDX-License-Identifier: BSD-2-Clause */
/* RDMA Writes of the peer: every check of IWARP-09, placement, one touch; RFC 5040, RFC 5041. */
#include "iwarp_peer.h"

#include <string.h>

enum { REGION_AT = 4096, REGION_BYTES = 16384, LARGE = 5000 };

static uint8_t payload[MEMORY_BYTES];

static void fill(uint8_t with)
{
	memset(payload, with, sizeof(payload));
}

/* Makes a Write that is to be refused, out of one that is good. */
struct refusal {
	void (*spoil)(struct iwarp_bed *b, struct ddp_tagged *h);
	struct stream_end end;
	enum weft_policy policy;
};

/* Small ones are checked whole, large ones by their header: both, in every way. */
static void refuse_write(const struct refusal *refusal)
{
	static const uint32_t sizes[] = { 8, LARGE };
	const struct setup setup = {
		.terms = { .is_initiator = true, .has_crc = true },
		.policy = refusal->policy,
	};

	fill(0xee);
	for (size_t i = 0; i < 2; i++) {
		for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, REGION_AT, REGION_BYTES, ALL_RIGHTS);
			struct ddp_tagged h = tagged(RDMAP_WRITE, tag, addr_of(b, REGION_AT));

			refusal->spoil(b, &h);
			bed_receive(b, tag, REGION_AT, 64);
			peer_tagged(b, &h, payload, sizes[i]);
			/* What follows a bad message is not looked at. */
			peer_write(b, tag, addr_of(b, REGION_AT), payload, 8);
			b->ulpdu_bytes = DDP_TAGGED_BYTES + sizes[i];
			{
				struct wr w = wr_of(b->header, sizeof(b->header));

				ddp_tagged_encode(&h, &w);
			}
			expect_refused(b, &refusal->end);
			expect_completion(b, 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
		}
	}
}

static void spoil_index(struct iwarp_bed *b, struct ddp_tagged *h)
{
	(void)b;
	h->stag = 0xffffff00 | (h->stag & 0xff);
}

TEST(test_iwarp_09a_write_to_no_entry)
{
	refuse_write(&(struct refusal){
		.spoil = spoil_index,
		.end = { WEFT_R_TAG_INDEX, { 1, 1, 0 }, HEADERS_DDP },
	});
}

/* Its payload may take long, or never come: the tag is looked at when the header is there. */
TEST(test_iwarp_09a_large_write_to_no_entry_is_refused_by_its_header)
{
	enum { SEEN = MPA_HEADER_BYTES + DDP_TAGGED_BYTES };
	static const struct stream_end end = { WEFT_R_TAG_INDEX, { 1, 1, 0 }, HEADERS_DDP };
	const struct setup setup = { .terms = { .is_initiator = true, .has_crc = true },
				     .is_plain = true };

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, REGION_AT, REGION_BYTES, ALL_RIGHTS);
		struct ddp_tagged h = tagged(RDMAP_WRITE, tag, addr_of(b, REGION_AT));

		spoil_index(b, &h);
		peer_tagged(b, &h, payload, LARGE);
		b->in.length = b->in.at + SEEN;
		expect_refused(b, &end);
	}
}

static void spoil_valid(struct iwarp_bed *b, struct ddp_tagged *h)
{
	uint32_t tag = bed_region(b, 0, 4096, ALL_RIGHTS);

	bed_deregister(b, tag);
	h->stag = tag;
	h->to = addr_of(b, 0);
}

TEST(test_iwarp_09a_iwarp_s1_write_to_deregistered)
{
	refuse_write(&(struct refusal){
		.spoil = spoil_valid,
		.end = { WEFT_R_TAG_INVALID, { 1, 1, 0 }, HEADERS_DDP },
	});
}

static void spoil_nothing(struct iwarp_bed *b, struct ddp_tagged *h)
{
	(void)b;
	(void)h;
}

TEST(test_iwarp_09b_write_to_region_under_strict_policy)
{
	refuse_write(&(struct refusal){
		.spoil = spoil_nothing,
		.end = { WEFT_R_TAG_REGION_REMOTE, { 1, 1, 0 }, HEADERS_DDP },
		.policy = WEFT_POLICY_STRICT,
	});
}

static void spoil_pd(struct iwarp_bed *b, struct ddp_tagged *h)
{
	struct weft_pd *pd = b->pd;

	b->pd = b->other_pd;
	h->stag = bed_region(b, REGION_AT, REGION_BYTES, ALL_RIGHTS);
	b->pd = pd;
}

TEST(test_iwarp_09c_write_to_another_domain)
{
	refuse_write(&(struct refusal){
		.spoil = spoil_pd,
		.end = { WEFT_R_TAG_PD, { 1, 1, 2 }, HEADERS_DDP },
	});
}

static void spoil_qp(struct iwarp_bed *b, struct ddp_tagged *h)
{
	const struct weft_bind bind = {
		.addr = addr_of(b, REGION_AT),
		.length = REGION_BYTES,
		.rights = WEFT_REMOTE_WRITE,
	};

	h->stag = bed_window(b, &bind);
	b->adapter.mem.entries[weft_tag_index(h->stag)].qp = b->qp->number + 1;
	b->adapter.mem.by_qp[0]++; /* as a bind by another queue pair would have left it */
}

TEST(test_iwarp_09c_write_to_another_queue_pairs_window)
{
	refuse_write(&(struct refusal){
		.spoil = spoil_qp,
		.end = { WEFT_R_TAG_QP, { 1, 1, 2 }, HEADERS_DDP },
	});
}

static void spoil_instance(struct iwarp_bed *b, struct ddp_tagged *h)
{
	(void)b;
	h->stag ^= 0x80;
}

TEST(test_iwarp_09d_write_to_another_instance)
{
	refuse_write(&(struct refusal){
		.spoil = spoil_instance,
		.end = { WEFT_R_TAG_INSTANCE, { 1, 1, 0 }, HEADERS_DDP },
	});
}

static void spoil_before(struct iwarp_bed *b, struct ddp_tagged *h)
{
	(void)b;
	h->to--;
}

static void spoil_after(struct iwarp_bed *b, struct ddp_tagged *h)
{
	(void)b;
	h->to += REGION_BYTES - 7;
}

TEST(test_iwarp_09e_write_out_of_bounds)
{
	refuse_write(&(struct refusal){
		.spoil = spoil_before,
		.end = { WEFT_R_RANGE_BOUNDS, { 1, 1, 1 }, HEADERS_DDP },
	});
	refuse_write(&(struct refusal){
		.spoil = spoil_after,
		.end = { WEFT_R_RANGE_BOUNDS, { 1, 1, 1 }, HEADERS_DDP },
	});
}

static void spoil_wrap(struct iwarp_bed *b, struct ddp_tagged *h)
{
	(void)b;
	h->to = UINT64_MAX - 6;
}

TEST(test_iwarp_09e_rfc5041_5_2_write_wraps)
{
	refuse_write(&(struct refusal){
		.spoil = spoil_wrap,
		.end = { WEFT_R_RANGE_WRAP, { 1, 1, 3 }, HEADERS_DDP },
	});
}

static void spoil_right(struct iwarp_bed *b, struct ddp_tagged *h)
{
	h->stag = bed_region(b, REGION_AT, REGION_BYTES, ALL_RIGHTS & ~WEFT_REMOTE_WRITE);
}

TEST(test_iwarp_09f_write_without_right)
{
	refuse_write(&(struct refusal){
		.spoil = spoil_right,
		.end = { WEFT_R_RIGHT_REMOTE_WRITE, { 0, 1, 2 }, HEADERS_DDP },
	});
}

static void spoil_qp_right(struct iwarp_bed *b, struct ddp_tagged *h)
{
	const struct weft_qp_attr attr = { .remote_rights = WEFT_REMOTE_READ };

	(void)h;
	MUST(qp_modify(b->qp, &attr, WEFT_QP_REMOTE_RIGHTS));
}

TEST(test_iwarp_09f_write_that_the_queue_pair_does_not_let_in)
{
	refuse_write(&(struct refusal){
		.spoil = spoil_qp_right,
		.end = { WEFT_R_QP_REMOTE_RIGHTS, { 0, 1, 2 }, HEADERS_DDP },
	});
}

TEST(test_rkey_09_refused_write_raises_an_event)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		peer_write(b, 0x12345678, 0, payload, 8);
		bed_move(b);
		EXPECT_EQ(bed_event(b, WEFT_EVENT_QP_REFUSED), WEFT_R_TAG_INDEX);
	}
}

/* ---- Placement ------------------------------------------------------------------------------ */

TEST(test_iwarp_03_iwarp_04e_iwarp_10_write_is_placed)
{
	static const uint32_t sizes[] = { 1, 8, 1005, 1006, 1007, 2047, 64700 };

	fill(0xab);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_REMOTE_WRITE);

			peer_write(b, tag, addr_of(b, 100), payload, sizes[i]);
			peer_write(b, tag, addr_of(b, 70000), payload, 3);
			bed_move(b);
			memset(b->shadow + 100, 0xab, sizes[i]);
			memset(b->shadow + 70000, 0xab, 3);
			EXPECT(is_unchanged(b));
			EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
			EXPECT_EQ(iwarp_counts(b->stream)->messages_in, 2);
			EXPECT_EQ(iwarp_counts(b->stream)->payload_in, sizes[i] + 3);
			EXPECT_EQ(peer_left(b), 0);
			expect_no_completion(b);
		}
	}
}

/*
 * A program may change memory as soon as it sees what came: the CRC is of the bytes that came, not
 * of those that are there when the FPDU is whole.
 */
TEST(test_iwarp_15_rfc5044_4_4_memory_changes_before_its_crc_comes)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_REMOTE_WRITE);
		size_t before;

		peer_write(b, tag, addr_of(b, 0), payload, LARGE);
		before = b->in.length - MPA_CRC_BYTES;
		while (b->in.at < before)
			REQUIRE(bed_move_in(b, before - b->in.at));
		memset(b->memory, 0, LARGE);
		bed_move(b);
		EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
		EXPECT_EQ(iwarp_counts(b->stream)->messages_in, 1);
		memcpy(b->shadow, b->memory, LARGE);
	}
}

/*
 * Large ones in a row without a CRC are received where they belong; only the first one's beginning
 * is not.
 */
TEST(test_iwarp_10_large_writes_are_not_copied)
{
	static const struct setup setup = {
		.terms = { .is_initiator = true },
		.is_plain = true,
	};

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_REMOTE_WRITE);

		for (uint32_t i = 0; i < 10; i++)
			peer_write(b, tag, addr_of(b, 0), payload, LARGE);
		bed_move(b);
		EXPECT_EQ(iwarp_counts(b->stream)->payload_in, 10 * LARGE);
		EXPECT(iwarp_counts(b->stream)->payload_copied < 2048);
	}
}

/* RFC 5041 section 5.2: the STag and TO of a message of no bytes are not checked. */
TEST(test_rfc5041_5_2_empty_write_is_not_checked)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		const struct weft_qp_attr attr = { .remote_rights = 0 };

		MUST(qp_modify(b->qp, &attr, WEFT_QP_REMOTE_RIGHTS));
		peer_write(b, 0xffffffff, UINT64_MAX, NULL, 0);
		bed_move(b);
		EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
		EXPECT_EQ(iwarp_counts(b->stream)->messages_in, 1);
		EXPECT(iwarp_is_ready(b->stream));
	}
}

/* Each segment is checked by itself; what was placed before a bad one stays. */
TEST(test_iwarp_09e_second_segment_out_of_bounds)
{
	fill(0xcd);
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, 8192, WEFT_REMOTE_WRITE);
		struct ddp_tagged h = tagged(RDMAP_WRITE, tag, addr_of(b, 4096));

		h.is_last = false;
		peer_tagged(b, &h, payload, 4096);
		bed_move(b);
		memset(b->shadow + 4096, 0xcd, 4096);
		EXPECT(is_unchanged(b));
		EXPECT_EQ(iwarp_counts(b->stream)->messages_in, 0);
		peer_write(b, tag, addr_of(b, 8192), payload, 1);
		expect_refused(
			b, &(struct stream_end){ WEFT_R_RANGE_BOUNDS, { 1, 1, 1 }, HEADERS_DDP });
	}
}

/* RFC 5042 section 6.2.3: memory that was taken back is not written any more. */
TEST(test_rfc5042_6_2_3_deregistered_in_the_middle_of_a_write)
{
	static const struct setup setup = {
		.terms = { .is_initiator = true, .has_crc = true },
		.is_plain = true,
	};
	static const uint32_t cuts[] = { 20, 1500, 4000 };

	fill(0x77);
	for (size_t i = 0; i < 3; i++) {
		for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_REMOTE_WRITE);
			size_t all;

			peer_write(b, tag, addr_of(b, 0), payload, LARGE);
			all = b->in.length;
			b->in.length = cuts[i];
			bed_move(b);
			EXPECT_EQ(b->memory[0], 0x77);
			bed_deregister(b, tag);
			bed_note(b);
			b->in.length = all;
			expect_refused(b, &(struct stream_end){
						  WEFT_R_TAG_INVALID, { 1, 1, 0 }, HEADERS_DDP });
		}
	}
}

/* The last byte of payload is in place: what is left of the FPDU is ours. */
TEST(test_rfc5042_6_2_3_deregistered_before_the_trailer)
{
	static const struct setup setup = {
		.terms = { .is_initiator = true, .has_crc = true },
		.is_plain = true,
	};

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, WEFT_REMOTE_WRITE);

		peer_write(b, tag, addr_of(b, 0), payload, LARGE);
		b->in.length -= MPA_CRC_BYTES;
		bed_move(b);
		bed_deregister(b, tag);
		bed_note(b);
		b->in.length += MPA_CRC_BYTES;
		bed_move(b);
		EXPECT(is_unchanged(b));
		EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
		EXPECT_EQ(iwarp_counts(b->stream)->messages_in, 1);
	}
}

/* ---- Frames that are not whole -------------------------------------------------------------- */

/* RFC 5044 section 4.4, small: checked before it is placed. */
TEST(test_rfc5044_4_4_bad_crc_small)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, 4096, ALL_RIGHTS);

		bed_receive(b, tag, 0, 64);
		b->is_crc_bad = true;
		peer_write(b, tag, addr_of(b, 0), payload, 100);
		peer_send(b, RDMAP_SEND, 0, payload, 8);
		expect_refused(b,
			       &(struct stream_end){ WEFT_R_MPA_CRC, { 2, 0, 2 }, HEADERS_NONE });
		expect_completion(b, 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
	}
}

/*
 * In the middle of a large message, which is received in place: what comes after is not looked at,
 * and nothing completes. Without markers its bytes are in the granted memory by then, and nowhere
 * else; with markers none of them is in memory (AMB-41).
 */
TEST(test_iwarp_15_rfc5044_4_4_bad_crc_in_a_large_write)
{
	fill(0x99);
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 4096, 16384, ALL_RIGHTS);
		struct ddp_tagged h = tagged(RDMAP_WRITE, tag, addr_of(b, 4096));

		bed_receive(b, tag, 4096, 64);
		h.is_last = false;
		peer_tagged(b, &h, payload, LARGE);
		b->is_crc_bad = true;
		h.to += LARGE;
		peer_tagged(b, &h, payload, LARGE);
		h.to += LARGE;
		h.is_last = true;
		peer_tagged(b, &h, payload, LARGE);
		peer_send(b, RDMAP_SEND, 0, payload, 8);
		bed_move(b);
		memset(b->shadow + 4096, 0x99, b->terms.takes_markers ? LARGE : 2 * LARGE);
		EXPECT(is_unchanged(b));
		expect_refused(b,
			       &(struct stream_end){ WEFT_R_MPA_CRC, { 2, 0, 2 }, HEADERS_NONE });
		expect_completion(b, 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
	}
}

/* ---- One touch ------------------------------------------------------------------------------ */

static uint32_t touch_window(struct iwarp_bed *b, bool is_one_touch)
{
	const struct weft_bind bind = {
		.addr = addr_of(b, REGION_AT),
		.length = REGION_BYTES,
		.rights = WEFT_REMOTE_WRITE | WEFT_REMOTE_READ,
		.is_one_touch = is_one_touch,
	};

	return bed_window(b, &bind);
}

/* A message of three segments: the first two are row a, the last one is row d. */
TEST(test_touch_05a_touch_05d_touch_s1_one_message_then_refused)
{
	static const uint32_t sizes[] = { 64, LARGE };

	fill(0x31);
	for (size_t i = 0; i < 2; i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = touch_window(b, true);
			struct ddp_tagged h = tagged(RDMAP_WRITE, tag, addr_of(b, REGION_AT));

			h.is_last = false;
			peer_tagged(b, &h, payload, sizes[i]);
			h.to += sizes[i];
			peer_tagged(b, &h, payload, sizes[i]);
			bed_move(b);
			EXPECT_EQ(b->adapter.mem.entries[weft_tag_index(tag)].state, MEM_VALID);
			h.to += sizes[i];
			h.is_last = true;
			peer_tagged(b, &h, payload, sizes[i]);
			bed_move(b);
			memset(b->shadow + REGION_AT, 0x31, 3 * sizes[i]);
			EXPECT(is_unchanged(b));
			EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
			EXPECT_EQ(b->adapter.mem.entries[weft_tag_index(tag)].state, MEM_RESERVED);
			h.to = addr_of(b, REGION_AT);
			h.is_last = sizes[i] == 64;
			peer_tagged(b, &h, payload, sizes[i]);
			expect_refused(b, &(struct stream_end){
						  WEFT_R_TAG_SPENT, { 1, 1, 0 }, HEADERS_DDP });
		}
	}
}

TEST(test_touch_05b_many_touches)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = touch_window(b, false);

		for (uint32_t i = 0; i < 3; i++)
			peer_write(b, tag, addr_of(b, REGION_AT + 8 * i), payload, 8);
		bed_move(b);
		EXPECT_EQ(iwarp_counts(b->stream)->messages_in, 3);
		EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
	}
}

/* TOUCH-05c: an entry that was touched out of order, by another path, has no second last one. */
TEST(test_touch_05c_second_last_segment)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = touch_window(b, true);
		struct mem_entry *e = &b->adapter.mem.entries[weft_tag_index(tag)];

		e->touch |= MEM_TOUCHED;
		e->stored_sn = 0x40000000;
		peer_write(b, tag, addr_of(b, REGION_AT), payload, 0);
		bed_move(b);
		EXPECT_EQ(b->qp->state, WEFT_QPS_RTS); /* no bytes, no touch */
		peer_write(b, tag, addr_of(b, REGION_AT), b->memory + REGION_AT, 8);
		expect_refused(
			b, &(struct stream_end){ WEFT_R_TOUCH_SECOND, { 1, 1, 0 }, HEADERS_DDP });
		EXPECT_EQ(e->state, MEM_RESERVED);
	}
}

/* ---- On-demand memory ----------------------------------------------------------------------- */

/* A Write of the peer to the region, and one of ours from it. */
static void write_both_ways(struct iwarp_bed *b, uint32_t tag, size_t offset)
{
	const struct weft_sge s = { addr_of(b, offset), LARGE, tag };
	struct weft_send_wr wr = {
		.opcode = WEFT_OP_WRITE,
		.sges = &s,
		.sge_count = 1,
		.remote_tag = 7,
	};
	const struct frame *f;
	struct weft_completion c;

	peer_write(b, tag, addr_of(b, offset), payload, LARGE);
	bed_move(b);
	EXPECT_MEM(b->memory + offset, payload, LARGE);
	MUST(bed_post(b, &wr));
	bed_move(b);
	while (peer_left(b) > 0) {
		f = peer_next(b); /* which looks at the CRC */
		REQUIRE(f);
	}
	EXPECT(bed_poll(b, &c) && c.status == WEFT_SUCCESS);
}

/* The program may unmap any of its memory: every access that is not the kernel's is guarded. */
TEST(test_vmm_04_memory_of_the_program_is_accessed_under_guard)
{
	for (size_t i = 0; i < LARGE; i++)
		payload[i] = (uint8_t)(i * 11);
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t plain = bed_region(b, 0, LARGE, ALL_RIGHTS);
		uint32_t paged = bed_region_on_demand(b, LARGE, LARGE);

		write_both_ways(b, plain, 0);
		/* At least what is placed, or its CRC; and the CRC of what goes out. */
		EXPECT(b->guarded >= 2 * LARGE);
		b->guarded = 0;
		write_both_ways(b, paged, LARGE);
		EXPECT(b->guarded >= 2 * LARGE);
	}
}

/*
 * Missing memory that the peer named is out of its bounds; that of a receive is a local error
 * (RFC 5040 section 4.8). The bytes come all at once: none are placed by the kernel.
 */
TEST(test_vmm_04_the_peer_is_told_of_missing_memory_that_it_named)
{
	enum { SMALL = 100 };

	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, LARGE, ALL_RIGHTS);

		if (b->way != 0)
			continue;
		b->is_gone = true;
		peer_write(b, tag, addr_of(b, 0), payload, SMALL);
		expect_refused(
			b, &(struct stream_end){ WEFT_R_MEMORY_GONE, { 1, 1, 1 }, HEADERS_DDP });
	}
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, LARGE, ALL_RIGHTS);

		if (b->way != 0)
			continue;
		bed_receive(b, tag, 0, SMALL);
		b->is_gone = true;
		peer_send(b, RDMAP_SEND, 0, payload, SMALL);
		expect_terminated(b, WEFT_R_MEMORY_GONE);
		expect_completion(b, 1, WEFT_ERR_LOCAL_ACCESS, WEFT_R_MEMORY_GONE);
	}
}
