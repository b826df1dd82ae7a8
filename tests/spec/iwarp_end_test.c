/* SPDX-License-Identifier: BSD-2-Clause */
/* How streams end: Terminates of the peer, its end, ours, deadlines. IWARP-12, IWARP-13. */
#include "iwarp_peer.h"

#include <string.h>

/* ---- The peer's Terminate ------------------------------------------------------------------- */

/* The stream ends in order, without a Terminate of our own. */
static void expect_quiet_end(struct iwarp_bed *b, enum weft_reason reason)
{
	struct weft_qp_attr attr;

	bed_move(b);
	qp_query(b->qp, &attr);
	EXPECT_STR(weft_reason_name(attr.reason), weft_reason_name(reason));
	EXPECT_EQ(attr.state, WEFT_QPS_ERROR);
	expect_shut(b);
}

TEST(test_iwarp_13_terminate_received)
{
	static const struct {
		uint8_t cause[3];
		enum weft_reason reason;
	} known[] = {
		{ { 0, 0, 0x00 }, WEFT_R_PEER_TERMINATED },
		{ { 0, 1, 0x00 }, WEFT_R_TAG_INVALID },
		{ { 0, 1, 0x01 }, WEFT_R_RANGE_BOUNDS },
		{ { 0, 1, 0x02 }, WEFT_R_PEER_RIGHTS },
		{ { 0, 1, 0x03 }, WEFT_R_TAG_PD },
		{ { 0, 1, 0x04 }, WEFT_R_RANGE_WRAP },
		{ { 0, 1, 0x09 }, WEFT_R_PEER_INVALIDATE },
		{ { 0, 2, 0x05 }, WEFT_R_RDMAP_VERSION },
		{ { 0, 2, 0x06 }, WEFT_R_RDMAP_OPCODE },
		{ { 0, 2, 0x07 }, WEFT_R_PEER_RECEIVE },
		{ { 0, 2, 0x09 }, WEFT_R_PEER_INVALIDATE },
		{ { 0, 2, 0xff }, WEFT_R_RDMAP_BODY },
		{ { 1, 1, 0x00 }, WEFT_R_TAG_INVALID },
		{ { 1, 1, 0x01 }, WEFT_R_RANGE_BOUNDS },
		{ { 1, 1, 0x02 }, WEFT_R_TAG_PD },
		{ { 1, 1, 0x03 }, WEFT_R_RANGE_WRAP },
		{ { 1, 1, 0x04 }, WEFT_R_DDP_VERSION },
		{ { 1, 2, 0x01 }, WEFT_R_DDP_QUEUE },
		{ { 1, 2, 0x02 }, WEFT_R_RECEIVER_NOT_READY },
		{ { 1, 2, 0x03 }, WEFT_R_DDP_MSN },
		{ { 1, 2, 0x04 }, WEFT_R_DDP_OFFSET },
		{ { 1, 2, 0x05 }, WEFT_R_RECEIVE_TOO_SHORT },
		{ { 1, 2, 0x06 }, WEFT_R_DDP_VERSION },
		{ { 2, 0, 0x02 }, WEFT_R_MPA_CRC },
		{ { 2, 0, 0x03 }, WEFT_R_MPA_MARKER },
		{ { 2, 0, 0x06 }, WEFT_R_MPA_DEPTH },
		{ { 2, 0, 0x07 }, WEFT_R_MPA_RTR },
		{ { 15, 15, 0xee }, WEFT_R_PEER_TERMINATED },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			const struct rdmap_terminate t = {
				.layer = known[i].cause[0],
				.type = known[i].cause[1],
				.code = known[i].cause[2],
			};

			bed_receive(b, 0, 0, 0);
			peer_terminate(b, &t);
			peer_send(b, RDMAP_SEND, 0, NULL, 0);
			bed_move(b);
			EXPECT_STR(iwarp_peer_words(b->stream),
				   rdmap_terminate_text(t.layer, t.type, t.code));
			expect_quiet_end(b, known[i].reason);
			expect_completion(b, 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
			EXPECT_EQ(b->out.length, 0);
		}
	}
}

/* A Terminate as a responder makes it: with the headers of our n-th request. */
static struct rdmap_terminate refusal_of(uint32_t msn)
{
	struct rdmap_terminate t = {
		.type = 1,
		.code = 2,
		.has_length = true,
		.has_ddp = true,
		.has_rdma = true,
		.segment_bytes = DDP_UNTAGGED_BYTES + RDMAP_READ_REQUEST_BYTES,
		.ddp_bytes = DDP_UNTAGGED_BYTES,
	};
	const struct ddp_untagged h = untagged(RDMAP_READ_REQUEST, RDMAP_QN_REQUEST, msn);
	struct wr w = wr_of(t.ddp, sizeof(t.ddp));

	ddp_untagged_encode(&h, &w);
	return t;
}

/* IWARP-13: the Read that was refused says why, the others were only flushed. */
TEST(test_iwarp_13_terminate_names_the_read)
{
	static const struct setup setup = {
		.terms = { .is_initiator = true, .has_crc = true, .ord = 3 },
	};

	for (uint32_t refused = 1; refused <= 3; refused++) {
		for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
			struct weft_send_wr read = { .opcode = WEFT_OP_READ };
			const struct rdmap_terminate t = refusal_of(refused);

			for (int i = 0; i < 3; i++)
				MUST(bed_post(b, &read));
			for (int i = 0; i < 3; i++)
				(void)expect_frame(b, RDMAP_READ_REQUEST);
			peer_terminate(b, &t);
			expect_quiet_end(b, WEFT_R_PEER_RIGHTS);
			for (uint32_t id = 1; id <= 3; id++) {
				if (id == refused)
					expect_completion(b, id, WEFT_ERR_REMOTE_ACCESS,
							  WEFT_R_PEER_RIGHTS);
				else
					expect_completion(b, id, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
			}
		}
	}
}

/* One that we never sent, or that has been answered: it must be the oldest. */
TEST(test_iwarp_13_terminate_names_no_read)
{
	static const uint32_t numbers[] = { 0, 1, 3, UINT32_MAX };

	for (size_t i = 0; i < 4; i++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			struct weft_send_wr read = { .opcode = WEFT_OP_READ };
			const struct rdmap_terminate t = refusal_of(numbers[i]);

			MUST(bed_post(b, &read));
			MUST(bed_post(b, &read));
			(void)expect_frame(b, RDMAP_READ_REQUEST);
			(void)expect_frame(b, RDMAP_READ_REQUEST);
			peer_response(b, 0, 0, NULL, 0);
			peer_terminate(b, &t);
			expect_quiet_end(b, WEFT_R_PEER_RIGHTS);
			expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
			expect_completion(b, 2, WEFT_ERR_REMOTE_ACCESS, WEFT_R_PEER_RIGHTS);
		}
	}
}

/* RFC 5040 section 4.8: too short for its control word; headers that are missing are forgiven. */
TEST(test_rfc5040_4_8_bad_terminate)
{
	static const uint8_t word[4] = { 0x11, 0, 0xc0, 0 };

	for (uint32_t length = 0; length < 4; length++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			const struct ddp_untagged h = untagged(RDMAP_TERMINATE, RDMAP_QN_TERMINATE,
							       1);

			peer_untagged(b, &h, word, length);
			expect_refused(b, &(struct stream_end){
						  WEFT_R_RDMAP_BODY, { 0, 2, 0xff }, HEADERS_DDP });
		}
	}
}

/* A request of ours is on its way when it comes: it ends there, in the middle of a frame too. */
TEST(test_iwarp_13_terminate_while_sending)
{
	for (size_t gone = 0; gone <= 100; gone += 100) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
			const struct weft_sge segment = { addr_of(b, 0), 100000, tag };
			struct weft_send_wr send = { .sges = &segment, .sge_count = 1 };

			b->out_credit = gone;
			MUST(bed_post(b, &send));
			peer_terminate(b, &(struct rdmap_terminate){ 0 });
			bed_move(b);
			b->out_credit = SIZE_MAX;
			bed_move(b);
			expect_completion(b, 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
			EXPECT_EQ(b->out.length, gone);
			EXPECT(!b->is_aborted); /* cut, if it was half out */
			EXPECT(b->is_shut);
		}
	}
}

/* The same behind as much as buffers holds: the buffers is empty then, and can be taken back. */
TEST(test_iwarp_13_terminate_while_sending_from_a_desk)
{
	enum { BEFORE = 60, BYTES = 100, GONE = 50 };
	static const struct setup setup = {
		.terms = { .is_initiator = true, .has_crc = true, .ord = 2 },
		.is_plain = true,
		.send_max = BEFORE + 1,
	};

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
		struct weft_sge segment = { addr_of(b, 0), BYTES, tag };
		struct weft_send_wr send = { .sges = &segment, .sge_count = 1 };
		struct iwarp_buffers *buffers = bed_lend(b);

		b->out_credit = 0;
		for (uint32_t i = 0; i < BEFORE; i++)
			MUST(bed_post(b, &send));
		segment.length = 100000;
		MUST(bed_post(b, &send));
		b->out_credit = (size_t)BEFORE * mpa_fpdu_bytes(DDP_UNTAGGED_BYTES + BYTES) + GONE;
		bed_move(b);
		for (uint32_t i = 0; i < BEFORE; i++) {
			(void)expect_frame(b, RDMAP_SEND);
			expect_completion(b, i + 1, WEFT_SUCCESS, WEFT_OK);
		}
		peer_terminate(b, &(struct rdmap_terminate){ 0 });
		bed_move(b);
		EXPECT(iwarp_take_back(b->stream) == buffers);
		iwarp_buffers_destroy(buffers);
		expect_completion(b, BEFORE + 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
		EXPECT_EQ(peer_left(b), GONE);
		EXPECT(b->is_shut);
	}
}

/* ---- The peer's end ------------------------------------------------------------------------- */

TEST(test_rfc5044_8_peer_closes_between_fpdus)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		bed_receive(b, 0, 0, 0);
		bed_receive(b, 0, 0, 0);
		peer_send(b, RDMAP_SEND, 0, NULL, 0);
		bed_eof(b);
		EXPECT(b->is_closed && !b->is_shut);
		EXPECT_EQ(b->qp->reason, WEFT_R_PEER_GONE);
		EXPECT_EQ(b->out.length, 0);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
		expect_completion(b, 2, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
	}
}

TEST(test_rfc5044_8_peer_closes_inside_an_fpdu)
{
	static const uint32_t sizes[] = { 30, 3000 };

	for (size_t i = 0; i < 2; i++) {
		for (size_t cut = 1; cut < sizes[i]; cut += 1 + cut / 3) {
			for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
				uint32_t tag = bed_region(b, 0, 4096, ALL_RIGHTS);

				bed_receive(b, tag, 0, 4096);
				peer_send(b, RDMAP_SEND, 0, b->memory, sizes[i]);
				b->in.length = cut;
				bed_eof(b);
				EXPECT(b->is_closed);
				EXPECT_EQ(b->qp->reason, WEFT_R_STREAM_CUT);
				expect_completion(b, 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
			}
		}
	}
}

TEST(test_rfc5044_8_connection_is_lost)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct weft_send_wr read = { .opcode = WEFT_OP_READ };

		MUST(bed_post(b, &read));
		bed_lost(b);
		EXPECT(b->is_aborted);
		EXPECT_EQ(b->qp->reason, WEFT_R_STREAM_LOST);
		expect_completion(b, 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
	}
}

/* The owner of the connection gives it up. */
TEST(test_rfc5044_8_stream_is_destroyed)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		bed_receive(b, 0, 0, 0);
		iwarp_destroy(b->stream);
		b->stream = NULL;
		EXPECT_EQ(b->qp->state, WEFT_QPS_ERROR);
		EXPECT_EQ(b->qp->reason, WEFT_R_STREAM_LOST);
		expect_completion(b, 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
	}
}

/* ---- Ours ----------------------------------------------------------------------------------- */

TEST(test_iwarp_12_error_by_the_consumer)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		bed_receive(b, 0, 0, 0);
		bed_modify(b, WEFT_QPS_ERROR);
		expect_terminated(b, WEFT_R_FLUSHED);
		expect_completion(b, 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
	}
}

/* SQR-06b: a request fails here. The peer is told that something went wrong, not what. */
TEST(test_sqr_06b_request_fails_here)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		const struct weft_sge segment = { addr_of(b, 0), 8, 0x12345678 };
		struct weft_send_wr send = { .sges = &segment, .sge_count = 1 };

		MUST(bed_post(b, &send));
		expect_terminated(b, WEFT_R_TAG_INDEX);
		expect_completion(b, 1, WEFT_ERR_LOCAL_ACCESS, WEFT_R_TAG_INDEX);
	}
}

/* RFC 6581 section 8: what set-up found out too late. */
TEST(test_rfc6581_8_refused_after_set_up)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		bool is_depth = b->way % 2;

		iwarp_refuse(b->stream, is_depth ? WEFT_R_MPA_DEPTH : WEFT_R_MPA_RTR);
		expect_refused(b,
			       &(struct stream_end){ is_depth ? WEFT_R_MPA_DEPTH : WEFT_R_MPA_RTR,
						     { 2, 0, is_depth ? 6 : 7 },
						     HEADERS_NONE });
	}
}

TEST(test_iwarp_12_disconnect_in_order)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct weft_send_wr send = { .opcode = WEFT_OP_SEND };

		bed_receive(b, 0, 0, 0);
		MUST(bed_post(b, &send));
		MUST(qp_disconnect(b->qp));
		bed_move(b);
		(void)expect_frame(b, RDMAP_SEND);
		expect_shut(b);
		EXPECT_EQ(qp_disconnect(b->qp), WEFT_R_QP_UNCONNECTED);
		expect_completion(b, 2, WEFT_SUCCESS, WEFT_OK);
		expect_completion(b, 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
	}
}

TEST(test_iwarp_12_reset_in_order)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		bed_receive(b, 0, 0, 0);
		bed_modify(b, WEFT_QPS_RESET);
		expect_shut(b);
		expect_completion(b, 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
		EXPECT_EQ(b->qp->reason, WEFT_OK);
	}
}

TEST(test_iwarp_12_destroyed_in_order)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);

		/* With an answer of ours half out, which is a copy and goes on. */
		b->out_credit = 20;
		peer_read(b, tag, addr_of(b, 0), 64);
		bed_move(b);
		qp_destroy(b->qp);
		b->qp = NULL;
		b->out_credit = SIZE_MAX;
		bed_move(b);
		(void)expect_frame(b, RDMAP_READ_RESPONSE);
		expect_shut(b);
	}
}

/* The same with a request of no bytes: it was flushed, and its FPDU is ours alone. */
TEST(test_iwarp_12_terminate_follows_an_empty_send)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct weft_send_wr send = { .opcode = WEFT_OP_SEND };

		b->out_credit = 7;
		MUST(bed_post(b, &send));
		MUST(bed_post(b, &send));
		bed_modify(b, WEFT_QPS_ERROR);
		b->out_credit = SIZE_MAX;
		bed_move(b);
		(void)expect_frame(b, RDMAP_SEND);
		expect_terminated(b, WEFT_R_FLUSHED);
		expect_completion(b, 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
		expect_completion(b, 2, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
	}
}

/* What is half out and our own is ended before the Terminate. */
TEST(test_iwarp_12_terminate_follows_a_whole_fpdu)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);

		b->out_credit = 1;
		peer_read(b, tag, addr_of(b, 0), 128);
		peer_read(b, tag, addr_of(b, 0), 128);
		bed_move(b);
		peer_write(b, 0x100, 0, b->memory, 8);
		bed_move(b);
		b->out_credit = SIZE_MAX;
		bed_move(b);
		(void)expect_frame(b, RDMAP_READ_RESPONSE);
		expect_refused(
			b, &(struct stream_end){ WEFT_R_TAG_INVALID, { 1, 1, 0 }, HEADERS_DDP });
	}
}

/* As much before it as there can be. */
TEST(test_iwarp_12_terminate_behind_much)
{
	static const struct setup setup = {
		.terms = { .is_initiator = true, .has_crc = true, .ird = 16 },
	};

	for (uint32_t taken = 0; taken < 16; taken++) {
		for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS), n = 0;

			/* Up to somewhere in the middle of one of these. */
			b->out_credit = 1 + 37 * taken;
			for (uint32_t i = 0; i < 15; i++)
				peer_read(b, tag, addr_of(b, 0), i < taken ? 5 : 128);
			bed_move(b);
			peer_read(b, 0x100, 0, 8);
			bed_move(b);
			b->out_credit = SIZE_MAX;
			bed_move(b);
			while (b->out.at + 48 < b->out.length && n++ < taken)
				(void)expect_frame(b, RDMAP_READ_RESPONSE);
			EXPECT(n <= 16);
		}
	}
}

/* ---- Deadlines ------------------------------------------------------------------------------ */

TEST(test_iwarp_12_peer_never_closes)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		peer_write(b, 0x100, 0, b->memory, 8);
		bed_move(b);
		(void)expect_frame(b, RDMAP_TERMINATE);
		EXPECT(b->is_shut);
		for (int i = 0; i < 10; i++) { /* it talks on and on */
			peer_write(b, 0x100, 0, b->memory, 800);
			bed_move(b);
		}
		bed_wait(b, CLOSE_WAIT_NS - 1);
		EXPECT(!b->is_aborted);
		bed_wait(b, 1);
		EXPECT(b->is_aborted && !b->is_closed);
	}
}

/* The Terminate itself finds no way out. */
TEST(test_iwarp_12_peer_stops_reading)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		b->out_credit = 5;
		bed_modify(b, WEFT_QPS_ERROR);
		EXPECT(!b->is_shut);
		bed_wait(b, CLOSE_WAIT_NS);
		EXPECT(b->is_aborted);
	}
}

/* It closes while our Terminate is still going out. */
TEST(test_iwarp_12_peer_closes_first)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		b->out_credit = 5;
		bed_modify(b, WEFT_QPS_ERROR);
		bed_eof(b);
		EXPECT(!b->is_closed);
		b->out_credit = SIZE_MAX;
		bed_move(b);
		(void)expect_frame(b, RDMAP_TERMINATE);
		EXPECT(b->is_closed && !b->is_aborted);
	}
}
