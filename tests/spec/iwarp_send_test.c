/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends and immediates of the peer: IWARP-11, SQR-09, SQR-10; RFC 5040, RFC 5041 section 5. */
#include "iwarp_peer.h"

#include <string.h>

#include "loopback/loopback.h"

enum { ROOM = 8192, LARGE = 5000 };

static uint8_t payload[MEMORY_BYTES];

static void fill(uint8_t with)
{
	memset(payload, with, sizeof(payload));
}

TEST(test_iwarp_11_send_is_delivered)
{
	static const uint32_t sizes[] = { 0, 1, 1002, 1003, LARGE };
	struct weft_completion c;

	fill(0x21);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, ROOM, WEFT_LOCAL_WRITE);

			bed_receive(b, tag, 16, LARGE);
			bed_receive(b, tag, 0, 4);
			peer_send(b, RDMAP_SEND, 0, payload, sizes[i]);
			peer_send(b, RDMAP_SEND_SE, 0, payload, 4);
			bed_move(b);
			EXPECT(bed_poll(b, &c));
			EXPECT_EQ(c.id, 1);
			EXPECT_EQ(c.status, WEFT_SUCCESS);
			EXPECT_EQ(c.opcode, WEFT_OP_RECV);
			EXPECT_EQ(c.byte_count, sizes[i]);
			EXPECT(!c.has_imm && !c.has_invalidated);
			EXPECT(bed_poll(b, &c));
			EXPECT_EQ(c.id, 2);
			EXPECT_EQ(c.byte_count, 4);
			memset(b->shadow + 16, 0x21, sizes[i]);
			memset(b->shadow, 0x21, 4);
			EXPECT(is_unchanged(b));
			EXPECT_EQ(peer_left(b), 0);
		}
	}
}

/* In segments, into a scatter list that cuts them elsewhere. */
TEST(test_iwarp_03_iwarp_11_send_in_segments)
{
	static const uint32_t pieces[] = { 100, 3000, 1, 2000 };

	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 13);
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, ROOM, WEFT_LOCAL_WRITE), offset = 0;
		const struct weft_sge list[] = {
			{ addr_of(b, 0), 50, tag },
			{ addr_of(b, 100), 0, tag },
			{ addr_of(b, 200), 2000, tag },
			{ addr_of(b, 3000), 4000, tag },
		};
		const struct weft_recv_wr wr = { .sges = list, .sge_count = 4 };
		struct ddp_untagged h = untagged(RDMAP_SEND, RDMAP_QN_SEND, 1);
		struct weft_completion c;
		uint32_t posted;

		MUST(qp_post_recv(b->qp, &wr, 1, &posted));
		b->posted++;
		for (size_t i = 0; i < 4; i++) {
			h.mo = offset;
			h.is_last = i == 3;
			peer_untagged(b, &h, payload + offset, pieces[i]);
			offset += pieces[i];
		}
		bed_move(b);
		EXPECT(bed_poll(b, &c));
		EXPECT_EQ(c.status, WEFT_SUCCESS);
		EXPECT_EQ(c.byte_count, 5101);
		memcpy(b->shadow, payload, 50);
		memcpy(b->shadow + 200, payload + 50, 2000);
		memcpy(b->shadow + 3000, payload + 2050, 5101 - 2050);
		EXPECT(is_unchanged(b));
	}
}

TEST(test_qp_10_solicited_send_raises_the_armed_event)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, ROOM, WEFT_LOCAL_WRITE);

		bed_receive(b, tag, 0, 64);
		bed_receive(b, tag, 64, 64);
		MUST(cq_arm(b->cq, WEFT_ARM_SOLICITED));
		peer_send(b, RDMAP_SEND, 0, payload, 8);
		bed_move(b);
		EXPECT_EQ(bed_event(b, WEFT_EVENT_COMPLETION), WEFT_REASON_COUNT);
		peer_send(b, RDMAP_SEND_SE, 0, payload, 8);
		bed_move(b);
		EXPECT_EQ(bed_event(b, WEFT_EVENT_COMPLETION), WEFT_OK);
	}
}

/* ---- Order ---------------------------------------------------------------------------------- */

/* One bad segment, with a receive for it. */
static void refuse_segment(const struct ddp_untagged *h, uint32_t length,
			   const struct stream_end *end)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, ROOM, WEFT_LOCAL_WRITE);

		bed_receive(b, tag, 0, ROOM);
		peer_untagged(b, h, payload, length);
		expect_refused(b, end);
		expect_completion(b, 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
	}
}

TEST(test_iwarp_03_rfc5041_5_1_message_number)
{
	static const uint32_t numbers[] = { 0, 2, 3, UINT32_MAX };
	const struct stream_end end = { WEFT_R_DDP_MSN, { 1, 2, 3 }, HEADERS_DDP };

	for (size_t i = 0; i < 4; i++) {
		struct ddp_untagged h = untagged(RDMAP_SEND, RDMAP_QN_SEND, numbers[i]);

		refuse_segment(&h, 8, &end);
		refuse_segment(&h, LARGE, &end);
	}
}

TEST(test_rfc5041_5_1_message_number_again)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, ROOM, WEFT_LOCAL_WRITE);
		struct ddp_untagged h = untagged(RDMAP_SEND, RDMAP_QN_SEND, 1);

		bed_receive(b, tag, 0, 64);
		bed_receive(b, tag, 64, 64);
		peer_untagged(b, &h, b->memory, 8);
		peer_untagged(b, &h, payload, 8);
		expect_refused(b, &(struct stream_end){ WEFT_R_DDP_MSN, { 1, 2, 3 }, HEADERS_DDP });
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
		expect_completion(b, 2, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
	}
}

TEST(test_rfc5041_5_1_message_offset)
{
	struct ddp_untagged h = untagged(RDMAP_SEND, RDMAP_QN_SEND, 1);
	const struct stream_end end = { WEFT_R_DDP_OFFSET, { 1, 2, 4 }, HEADERS_DDP };

	h.mo = 8;
	refuse_segment(&h, 8, &end);
	h.mo = UINT32_MAX;
	refuse_segment(&h, LARGE, &end);
}

/* A gap, an overlap: what came before stays where it is, and nothing else. */
TEST(test_rfc5041_5_1_second_offset)
{
	static const uint32_t offsets[] = { 0, 99, 101 };

	for (size_t i = 0; i < 3; i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, ROOM, WEFT_LOCAL_WRITE);
			struct ddp_untagged h = untagged(RDMAP_SEND, RDMAP_QN_SEND, 1);

			bed_receive(b, tag, 0, ROOM);
			h.is_last = false;
			peer_untagged(b, &h, b->memory, 100);
			h.mo = offsets[i];
			peer_untagged(b, &h, payload, 100);
			expect_refused(b, &(struct stream_end){
						  WEFT_R_DDP_OFFSET, { 1, 2, 4 }, HEADERS_DDP });
			expect_completion(b, 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
		}
	}
}

TEST(test_rfc5041_5_1_queue_number)
{
	struct ddp_untagged h = untagged(RDMAP_SEND, 4, 1);
	const struct stream_end queue = { WEFT_R_DDP_QUEUE, { 1, 2, 1 }, HEADERS_DDP };
	const struct stream_end opcode = { WEFT_R_RDMAP_OPCODE, { 0, 2, 6 }, HEADERS_DDP };

	refuse_segment(&h, 8, &queue);
	h.qn = UINT32_MAX;
	refuse_segment(&h, LARGE, &queue);
	h.qn = RDMAP_QN_REQUEST;
	refuse_segment(&h, 8, &opcode);
	h = untagged(RDMAP_READ_REQUEST, RDMAP_QN_SEND, 1);
	refuse_segment(&h, 28, &opcode);
	h = untagged(RDMAP_WRITE, RDMAP_QN_SEND, 1);
	refuse_segment(&h, 8, &opcode);
}

/* ---- Too long, and receives that are no good ------------------------------------------------ */

static void refuse_too_long(uint32_t first, uint32_t second, uint32_t room)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, ROOM, WEFT_LOCAL_WRITE);
		struct ddp_untagged h = untagged(RDMAP_SEND, RDMAP_QN_SEND, 1);

		bed_receive(b, tag, 0, room);
		bed_receive(b, tag, 0, room);
		h.is_last = second == 0;
		peer_untagged(b, &h, b->memory, first);
		h.mo = first;
		h.is_last = true;
		if (second > 0)
			peer_untagged(b, &h, payload, second);
		expect_refused(b, &(struct stream_end){
					  WEFT_R_RECEIVE_TOO_SHORT, { 1, 2, 5 }, HEADERS_DDP });
		expect_completion(b, 1, WEFT_ERR_LOCAL_LENGTH, WEFT_R_RECEIVE_TOO_SHORT);
		expect_completion(b, 2, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
	}
}

TEST(test_rfc5041_5_1_message_too_long)
{
	fill(0xff);
	refuse_too_long(65, 0, 64);
	refuse_too_long(LARGE, 0, LARGE - 1);
	refuse_too_long(1, 0, 0);
	refuse_too_long(64, 1, 64);
	refuse_too_long(64, LARGE, 64);
}

/* LOC-02: the receive's own list does not pass. That is this side's fault. */
TEST(test_loc_02_receive_list_is_bad)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, ROOM, WEFT_LOCAL_READ);

		bed_receive(b, tag, 0, 64);
		peer_send(b, RDMAP_SEND, 0, payload, 8);
		expect_refused(b, &(struct stream_end){
					  WEFT_R_RIGHT_LOCAL_WRITE, { 0, 2, 7 }, HEADERS_DDP });
		expect_completion(b, 1, WEFT_ERR_LOCAL_ACCESS, WEFT_R_RIGHT_LOCAL_WRITE);
	}
}

/* The region goes in the middle of a large message. */
TEST(test_rfc5042_6_2_3_deregistered_in_the_middle_of_a_send)
{
	static const struct setup setup = {
		.terms = { .is_initiator = true, .has_crc = true },
		.is_plain = true,
	};

	fill(0x55);
	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, ROOM, WEFT_LOCAL_WRITE);
		size_t all;

		bed_receive(b, tag, 0, ROOM);
		peer_send(b, RDMAP_SEND, 0, payload, LARGE);
		all = b->in.length;
		b->in.length = 3000;
		bed_move(b);
		EXPECT_EQ(b->memory[0], 0x55);
		bed_deregister(b, tag);
		bed_note(b);
		b->in.length = all;
		expect_terminated(b, WEFT_R_SINK_GONE);
		expect_completion(b, 1, WEFT_ERR_LOCAL_ACCESS, WEFT_R_SINK_GONE);
	}
}

/* The kind of a message does not change on its way. */
TEST(test_iwarp_01d_rfc5040_4_3_opcode_changes_in_a_message)
{
	static const uint32_t sizes[] = { 0, 100, LARGE };

	for (size_t i = 0; i < 3; i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, ROOM, WEFT_LOCAL_WRITE);
			struct ddp_untagged h = untagged(RDMAP_SEND, RDMAP_QN_SEND, 1);

			bed_receive(b, tag, 0, ROOM);
			h.is_last = false;
			peer_untagged(b, &h, b->memory, sizes[i]);
			h = untagged(RDMAP_SEND_SE, RDMAP_QN_SEND, 1);
			h.mo = sizes[i];
			peer_untagged(b, &h, payload, 8);
			expect_refused(b, &(struct stream_end){
						  WEFT_R_RDMAP_OPCODE, { 0, 2, 6 }, HEADERS_DDP });
		}
	}
}

/* ---- No receive ----------------------------------------------------------------------------- */

TEST(test_rfc5041_5_1_send_waits_for_a_receive)
{
	static const uint32_t sizes[] = { 8, LARGE };

	fill(0x66);
	for (size_t i = 0; i < 2; i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);

			peer_send(b, RDMAP_SEND, 0, payload, sizes[i]);
			peer_write(b, tag, addr_of(b, 100000), payload, 1);
			peer_send(b, RDMAP_SEND, 0, payload, sizes[i]);
			bed_move(b);
			/* Nothing behind it is looked at, nor taken for ever. */
			EXPECT(!iwarp_wants(b->stream));
			EXPECT(is_unchanged(b));
			EXPECT_EQ(iwarp_due(b->stream), b->now_ns + RECEIVER_WAIT_NS);
			bed_wait(b, RECEIVER_WAIT_NS - 1);
			EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
			bed_receive(b, tag, 0, ROOM);
			expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
			memset(b->shadow, 0x66, sizes[i]);
			b->shadow[100000] = 0x66;
			EXPECT(is_unchanged(b));
			/* The next one waits in its own right. */
			EXPECT_EQ(iwarp_due(b->stream), b->now_ns + RECEIVER_WAIT_NS);
			bed_receive(b, tag, 0, ROOM);
			expect_completion(b, 2, WEFT_SUCCESS, WEFT_OK);
			EXPECT_EQ(iwarp_due(b->stream), UINT64_MAX);
		}
	}
}

TEST(test_rfc5041_5_1_no_receive_in_time)
{
	static const uint32_t sizes[] = { 8, LARGE };

	for (size_t i = 0; i < 2; i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			peer_send(b, RDMAP_SEND, 0, payload, sizes[i]);
			bed_move(b);
			bed_wait(b, RECEIVER_WAIT_NS);
			expect_refused(b, &(struct stream_end){ WEFT_R_RECEIVER_NOT_READY,
								{ 1, 2, 2 },
								HEADERS_DDP });
		}
	}
}

TEST(test_rfc5041_5_1_no_receive_and_no_wait)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		MUST(qp_modify(b->qp, &(struct weft_qp_attr){ 0 }, WEFT_QP_RECEIVER_WAIT));
		peer_send(b, RDMAP_SEND, 0, payload, 8);
		while (bed_move_in(b, b->in_max))
			continue;
		EXPECT(iwarp_wants(b->stream)); /* it does not wait, not even for no time */
		expect_refused(b, &(struct stream_end){
					  WEFT_R_RECEIVER_NOT_READY, { 1, 2, 2 }, HEADERS_DDP });
	}
}

/* Another stream on the same shared receives. */
struct other {
	struct weft_qp *qp;
	struct iwarp_stream *stream;
};

static void other_open(struct iwarp_bed *b, struct other *o)
{
	const struct iwarp_config config = { .terms = b->terms, .attention = &b->attention };
	const struct weft_qp_attr attr = { .receiver_wait_ns = RECEIVER_WAIT_NS };

	o->qp = bed_qp(b);
	MUST(qp_modify(o->qp, &attr, WEFT_QP_RECEIVER_WAIT));
	MUST(iwarp_create(o->qp, &config, &o->stream));
}

/* QP-07: a stream is a reliable connection, and a queue pair has one. */
TEST(test_qp_07_a_stream_needs_a_queue_pair_of_its_service_that_has_none)
{
	static const struct setup setup = { .terms = { .is_initiator = true } };

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		const struct iwarp_config config = { .terms = b->terms,
						     .attention = &b->attention };
		const struct weft_qp_options options = { .send_cq = b->cq,
							 .recv_cq = b->cq,
							 .service = WEFT_UD };
		struct iwarp_stream *stream;
		struct weft_qp *ud;

		MUST(qp_create(b->pd, &options, &loopback_transport, &ud));
		EXPECT_EQ(iwarp_create(ud, &config, &stream), WEFT_R_WR_SERVICE);
		EXPECT_EQ(iwarp_create(b->qp, &config, &stream), WEFT_R_QP_STATE);
		qp_destroy(ud);
	}
}

/* Gives it what the first stream's peer has sent up to now. */
static void other_feed(struct iwarp_bed *b, struct other *o)
{
	struct span_list l;
	size_t n = b->in.length;

	iwarp_want(o->stream, 0, &l);
	REQUIRE(l.count == 1 && l.length >= n);
	memcpy(l.spans[0].bytes, b->in.bytes, n);
	iwarp_got(o->stream, 0, &l, n);
}

/* QP-08: two wait, and one receive after the other comes. Both are served. */
TEST(test_rfc5041_5_1_two_streams_wait_for_shared_receives)
{
	static const struct setup setup = {
		.terms = { .is_initiator = true, .has_crc = true },
		.has_srq = true,
	};

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, ROOM, WEFT_LOCAL_WRITE);
		struct other o;

		other_open(b, &o);
		peer_send(b, RDMAP_SEND, 0, payload, 8);
		other_feed(b, &o);
		bed_move(b);
		expect_no_completion(b);
		bed_receive(b, tag, 0, 64);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
		expect_no_completion(b);
		bed_receive(b, tag, 0, 64);
		expect_completion(b, 2, WEFT_SUCCESS, WEFT_OK);
		qp_destroy(o.qp);
		iwarp_destroy(o.stream);
	}
}

/* ---- Invalidation --------------------------------------------------------------------------- */

static uint32_t some_window(struct iwarp_bed *b)
{
	return bed_window(b, &(struct weft_bind){ .addr = addr_of(b, 0),
						  .length = 64,
						  .rights = WEFT_REMOTE_WRITE });
}

static enum mem_state state_of(const struct iwarp_bed *b, uint32_t tag)
{
	return (enum mem_state)b->adapter.mem.entries[weft_tag_index(tag)].state;
}

TEST(test_sqr_09_send_with_invalidate)
{
	static const enum rdmap_opcode opcodes[] = { RDMAP_SEND_INVALIDATE,
						     RDMAP_SEND_SE_INVALIDATE };

	for (size_t i = 0; i < 2; i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, ROOM, ALL_RIGHTS);
			uint32_t window = some_window(b);
			struct weft_completion c;

			bed_receive(b, tag, 0, 64);
			peer_send(b, opcodes[i], window, payload, 8);
			bed_move(b);
			EXPECT(bed_poll(b, &c));
			EXPECT_EQ(c.status, WEFT_SUCCESS);
			EXPECT(c.has_invalidated);
			EXPECT_EQ(c.invalidated_tag, window);
			EXPECT_EQ(state_of(b, window), MEM_RESERVED);
			bed_note(b);
			peer_write(b, window, addr_of(b, 0), payload, 8);
			expect_refused(b, &(struct stream_end){
						  WEFT_R_TAG_INVALID, { 1, 1, 0 }, HEADERS_DDP });
		}
	}
}

/* Which tag, made out of a good window's; how it is refused. */
struct bad_tag {
	uint32_t (*spoil)(struct iwarp_bed *b, uint32_t window);
	enum weft_reason reason;
};

static uint32_t spoil_index(struct iwarp_bed *b, uint32_t window)
{
	(void)b;
	return window | 0xffff0000;
}

static uint32_t spoil_valid(struct iwarp_bed *b, uint32_t window)
{
	MUST(mem_window_unbind(&b->adapter.mem, b->pd->number, window));
	return window;
}

static uint32_t spoil_pd(struct iwarp_bed *b, uint32_t window)
{
	struct weft_pd *pd = b->pd;
	uint32_t tag;

	(void)window;
	b->pd = b->other_pd;
	tag = some_window(b);
	b->pd = pd;
	return tag;
}

static uint32_t spoil_instance(struct iwarp_bed *b, uint32_t window)
{
	(void)b;
	return window ^ 1;
}

static uint32_t spoil_region(struct iwarp_bed *b, uint32_t window)
{
	(void)window;
	return bed_region(b, 0, 64, ALL_RIGHTS);
}

TEST(test_sqr_10_invalidate_refused)
{
	static const struct bad_tag bad[] = {
		{ spoil_index, WEFT_R_TAG_INDEX },
		{ spoil_valid, WEFT_R_TAG_INVALID },
		{ spoil_pd, WEFT_R_TAG_PD },
		{ spoil_instance, WEFT_R_TAG_INSTANCE },
		{ spoil_region, WEFT_R_INVALIDATE_REGION },
	};

	for (size_t i = 0; i < 2 * sizeof(bad) / sizeof(*bad); i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, ROOM, WEFT_LOCAL_WRITE);
			uint32_t window = some_window(b), named = bad[i / 2].spoil(b, window);
			enum mem_state was = MEM_FREE;

			if (weft_tag_index(named) < b->adapter.mem.tags_max)
				was = state_of(b, named);
			bed_receive(b, tag, 0, ROOM);
			peer_send(b, RDMAP_SEND_INVALIDATE, named, payload, i % 2 ? LARGE : 8);
			expect_refused(b, &(struct stream_end){
						  bad[i / 2].reason, { 0, 1, 9 }, HEADERS_DDP });
			expect_completion(b, 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
			if (weft_tag_index(named) < b->adapter.mem.tags_max)
				EXPECT_EQ(state_of(b, named), was);
		}
	}
}

/* RFC 5040 section 4.2: the field means nothing in other Sends. */
TEST(test_rfc5040_4_2_invalidate_stag_is_ignored_otherwise)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, ROOM, WEFT_LOCAL_WRITE), window = some_window(b);

		bed_receive(b, tag, 0, 64);
		peer_send(b, RDMAP_SEND, window, payload, 8);
		bed_move(b);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
		EXPECT_EQ(state_of(b, window), MEM_VALID);
	}
}

/* ---- Immediate ------------------------------------------------------------------------------ */

static const uint8_t immediate[8] = { 0x12, 0x34, 0x56, 0x78 };

TEST(test_rfc7306_6_immediate)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, ROOM, ALL_RIGHTS);
		struct weft_completion c;

		uint64_t requests;

		peer_write(b, tag, addr_of(b, 0), payload, 3000);
		bed_move(b);
		requests = iwarp_counts(b->stream)->requests_in;
		peer_send(b, RDMAP_IMMEDIATE, 0, immediate, 8);
		bed_move(b);
		expect_no_completion(b); /* it waits like a Send */
		EXPECT_EQ(iwarp_counts(b->stream)->requests_in, requests);
		EXPECT_EQ(iwarp_due(b->stream), b->now_ns + RECEIVER_WAIT_NS);
		bed_receive(b, tag, 0, 0);
		EXPECT(bed_poll(b, &c));
		EXPECT_EQ(c.opcode, WEFT_OP_RECV_WRITE_IMM);
		EXPECT_EQ(iwarp_counts(b->stream)->requests_in, requests + 1);
		EXPECT_EQ(c.byte_count, 3000);
		EXPECT(c.has_imm);
		EXPECT_EQ(c.imm, 0x12345678);
		MUST(cq_arm(b->cq, WEFT_ARM_SOLICITED));
		bed_receive(b, tag, 0, 0);
		peer_send(b, RDMAP_IMMEDIATE_SE, 0, immediate, 8);
		bed_move(b);
		EXPECT_EQ(bed_event(b, WEFT_EVENT_COMPLETION), WEFT_OK);
		EXPECT(bed_poll(b, &c));
		EXPECT_EQ(c.byte_count, 0);
	}
}

TEST(test_rfc7306_6_immediate_body)
{
	const struct stream_end end = { WEFT_R_RDMAP_BODY, { 0, 2, 0xff }, HEADERS_DDP };
	struct ddp_untagged h = untagged(RDMAP_IMMEDIATE, RDMAP_QN_SEND, 1);

	refuse_segment(&h, 0, &end);
	refuse_segment(&h, 4, &end);
	refuse_segment(&h, 12, &end);
	refuse_segment(&h, LARGE, &end);
	h.is_last = false;
	refuse_segment(&h, 8, &end);
	h.is_last = true;
	h.mo = 8;
	refuse_segment(&h, 8, &(struct stream_end){ WEFT_R_DDP_OFFSET, { 1, 2, 4 }, HEADERS_DDP });
}

/* Not in the middle of a Send, even of one that has brought nothing yet. */
TEST(test_rfc7306_6_immediate_inside_a_send)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, ROOM, ALL_RIGHTS);
		struct ddp_untagged h = untagged(RDMAP_SEND, RDMAP_QN_SEND, 1);

		bed_receive(b, tag, 0, 64);
		h.is_last = false;
		peer_untagged(b, &h, NULL, 0);
		peer_send(b, RDMAP_IMMEDIATE, 0, immediate, 8);
		expect_refused(
			b, &(struct stream_end){ WEFT_R_RDMAP_OPCODE, { 0, 2, 6 }, HEADERS_DDP });
	}
}
