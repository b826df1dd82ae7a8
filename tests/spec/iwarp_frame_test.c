/* SPDX-License-Identifier: BSD-2-Clause */
/* FPDUs, versions, and who speaks first: RFC 5044, RFC 5041 section 4, RFC 6581. */
#include "iwarp_peer.h"

#include <string.h>

enum { LARGEST = 65504 }; /* payload of an FPDU, in words */

static uint8_t payload[LARGEST];

/* ---- Headers that are wrong ----------------------------------------------------------------- */

static void refuse_ulpdu(const uint8_t *ulpdu, uint32_t length, const struct stream_end *end)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, 8192, ALL_RIGHTS);

		bed_receive(b, tag, 0, 8192);
		peer_ulpdu(b, ulpdu, length);
		expect_refused(b, end);
		expect_completion(b, 1, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
	}
}

/* RFC 5041 section 4.1: DV is 1. */
TEST(test_rfc5041_4_1_ddp_version)
{
	uint8_t ulpdu[4000] = { 0x42, 0x43 };

	refuse_ulpdu(ulpdu, 18,
		     &(struct stream_end){ WEFT_R_DDP_VERSION, { 1, 2, 6 }, HEADERS_DDP });
	ulpdu[0] = 0x40;
	refuse_ulpdu(ulpdu, 4000,
		     &(struct stream_end){ WEFT_R_DDP_VERSION, { 1, 2, 6 }, HEADERS_DDP });
	ulpdu[0] = 0xc3;
	ulpdu[1] = 0x40;
	refuse_ulpdu(ulpdu, 14,
		     &(struct stream_end){ WEFT_R_DDP_VERSION, { 1, 1, 4 }, HEADERS_DDP });
	refuse_ulpdu(ulpdu, 4000,
		     &(struct stream_end){ WEFT_R_DDP_VERSION, { 1, 1, 4 }, HEADERS_DDP });
}

/* RFC 5040 section 4.1: RV is 1, or 0 of those who came before. */
TEST(test_rfc5040_4_1_rdmap_version)
{
	uint8_t ulpdu[18] = { 0x41, 0x83, [13] = 1 };

	refuse_ulpdu(ulpdu, 18,
		     &(struct stream_end){ WEFT_R_RDMAP_VERSION, { 0, 2, 5 }, HEADERS_DDP });
	ulpdu[1] = 0xc3;
	refuse_ulpdu(ulpdu, 18,
		     &(struct stream_end){ WEFT_R_RDMAP_VERSION, { 0, 2, 5 }, HEADERS_DDP });
	/* The messages of RFC 7306 are not older than it. */
	ulpdu[1] = 0x08;
	refuse_ulpdu(ulpdu, 18,
		     &(struct stream_end){ WEFT_R_RDMAP_OPCODE, { 0, 2, 6 }, HEADERS_DDP });
}

TEST(test_rfc5040_4_1_old_version_is_taken)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct ddp_untagged h = untagged(RDMAP_SEND, RDMAP_QN_SEND, 1);

		bed_receive(b, 0, 0, 0);
		h.ulp = RDMAP_SEND;
		peer_untagged(b, &h, NULL, 0);
		bed_move(b);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
	}
}

TEST(test_iwarp_01d_rfc5040_4_1_unexpected_opcode)
{
	const struct stream_end end = { WEFT_R_RDMAP_OPCODE, { 0, 2, 6 }, HEADERS_DDP };

	for (uint8_t opcode = 12; opcode < 16; opcode++) {
		uint8_t ulpdu[2000] = { 0x41, (uint8_t)(0x40 | opcode), [13] = 1 };

		refuse_ulpdu(ulpdu, 18, &end);
		ulpdu[0] = 0xc1;
		refuse_ulpdu(ulpdu, 2000, &end);
	}
	/* Untagged messages in tagged segments. */
	for (uint8_t opcode = 0; opcode < 12; opcode++) {
		const uint8_t ulpdu[14] = { 0xc1, (uint8_t)(0x40 | opcode) };

		if (opcode != RDMAP_WRITE && opcode != RDMAP_READ_RESPONSE)
			refuse_ulpdu(ulpdu, 14, &end);
	}
}

/* A ULPDU too short for its header has none that could be shown. */
TEST(test_rfc5041_4_short_segment)
{
	static const uint8_t ulpdu[17] = { 0x41, 0x43 }, tagged_one[13] = { 0xc1, 0x40 };
	const struct stream_end end = { WEFT_R_RDMAP_BODY, { 0, 2, 0xff }, HEADERS_NONE };

	refuse_ulpdu(ulpdu, 0, &end);
	refuse_ulpdu(ulpdu, 1, &end);
	refuse_ulpdu(ulpdu, 17, &end);
	refuse_ulpdu(tagged_one, 1, &end);
	refuse_ulpdu(tagged_one, 13, &end);
}

/* ---- CRC and markers ------------------------------------------------------------------------ */

/* RFC 5044 section 4.4: when neither end wants a CRC the field may hold anything. */
TEST(test_rfc5044_4_4_crc_off)
{
	static const struct setup setup = { .terms = { .is_initiator = true } };

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, 8192, ALL_RIGHTS);

		bed_receive(b, tag, 0, 8192);
		peer_send(b, RDMAP_SEND, 0, payload, 100);
		b->in.bytes[b->in.length - 1] = 0x5a;
		peer_write(b, tag, addr_of(b, 0), payload, 5000);
		b->in.bytes[b->in.length - 2] = 0xa5;
		bed_move(b);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
		EXPECT_EQ(iwarp_counts(b->stream)->messages_in, 2);
		EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
	}
}

/* Every bit of an FPDU is covered; one that is flipped in the header may show as something else. */
TEST(test_iwarp_01e_rfc5044_4_4_every_byte_is_covered)
{
	for (size_t at = 2; at < 52; at++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, 8192, ALL_RIGHTS);

			bed_receive(b, tag, 0, 8192);
			peer_send(b, RDMAP_SEND, 0, payload, 27);
			if (b->in.length == 52)
				b->in.bytes[at] ^= 0x10;
			else
				b->in.bytes[at + 4] ^= 0x10; /* behind the marker */
			expect_refused(b, &(struct stream_end){
						  WEFT_R_MPA_CRC, { 2, 0, 2 }, HEADERS_NONE });
		}
	}
}

/* RFC 5044 section 4.3: the marker and the length disagree about where the FPDU begins. */
TEST(test_rfc5044_4_3_bad_marker)
{
	static const struct setup setup = {
		.terms = { .is_initiator = true, .has_crc = true, .takes_markers = true },
	};

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, 8192, ALL_RIGHTS);

		peer_write(b, tag, addr_of(b, 0), b->memory, 300);
		b->is_marker_bad = true;
		peer_write(b, tag, addr_of(b, 0), payload, 300);
		expect_refused(
			b, &(struct stream_end){ WEFT_R_MPA_MARKER, { 2, 0, 3 }, HEADERS_NONE });
	}
}

/* FPDUs of all lengths, so that a marker falls at every place in one. */
TEST(test_iwarp_02_rfc5044_4_3_markers_everywhere)
{
	static const struct setup setup = {
		.terms = { .is_initiator = true,
			   .has_crc = true,
			   .sends_markers = true,
			   .takes_markers = true,
			   .ird = 1 },
	};

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, 8192, ALL_RIGHTS);

		bed_lend(b);
		for (uint32_t n = 0; n < 700; n += 1 + n % 3) {
			const struct frame *f;

			peer_write(b, tag, addr_of(b, 1), payload, n);
			peer_read(b, tag, addr_of(b, 4000), n);
			bed_move(b);
			f = expect_frame(b, RDMAP_READ_RESPONSE);
			EXPECT_EQ(f->bytes, n);
			EXPECT_MEM(f->payload, b->memory + 4000, n);
		}
		EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
		memset(b->shadow + 1, 0, 699);
		EXPECT(is_unchanged(b));
	}
}

/* A whole FPDU with markers is larger than the receive part of lent buffers. */
TEST(test_iwarp_02_rfc5044_4_3_largest_fpdu_with_markers_into_lent_buffers)
{
	static const struct setup setup = {
		.terms = { .is_initiator = true, .has_crc = true, .takes_markers = true },
	};

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);

		bed_lend(b);
		peer_write(b, tag, addr_of(b, 1), payload, LARGEST);
		bed_move(b);
		EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
		EXPECT_EQ(iwarp_counts(b->stream)->payload_in, LARGEST);
		memset(b->shadow + 1, 0, LARGEST);
		EXPECT(is_unchanged(b));
	}
}

static void put(uint8_t *bytes, uint32_t at, const char *hex)
{
	for (size_t i = 0; hex[2 * i] != '\0'; i++) {
		const char *digits = "0123456789abcdef";
		size_t high = (size_t)(strchr(digits, hex[2 * i]) - digits);
		size_t low = (size_t)(strchr(digits, hex[2 * i + 1]) - digits);

		bytes[at + i] = (uint8_t)(high << 4 | low);
	}
}

/* RFC 5044 appendix: two Sends of 24 zero bytes, the second one with a marker inside. */
TEST(test_iwarp_01_iwarp_01c_rfc5044_b_vectors)
{
	static const struct setup setup = {
		.terms = { .is_initiator = true,
			   .has_crc = true,
			   .sends_markers = true,
			   .takes_markers = true },
	};
	enum { FIRST = 52, SECOND_AT = 0x1ec, SECOND = 52 };
	uint8_t first[FIRST] = { 0 }, second[SECOND] = { 0 };

	put(first, 0, "00000000002a4143000000000000000000000001");
	put(first, 48, "52239983");
	put(second, 0, "002a414300000000000000000000000200000000000000140000");
	memset(second + 24, 0, 24);
	put(second, 0, "002a41430000000000000000000000020000000000000014");
	put(second, 48, "84925898");
	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, 8192, ALL_RIGHTS);
		struct weft_sge segment = { addr_of(b, 0), 24, tag };
		struct weft_send_wr send = { .sges = &segment, .sge_count = 1 };

		memset(b->memory, 0, 24);
		bed_note(b);
		MUST(bed_post(b, &send));
		EXPECT_EQ(b->out.length, FIRST);
		EXPECT_MEM(b->out.bytes, first, FIRST);
		send.opcode = WEFT_OP_WRITE;
		segment.length = 420; /* up to where the second vector begins */
		MUST(bed_post(b, &send));
		EXPECT_EQ(b->out.length, SECOND_AT);
		send.opcode = WEFT_OP_SEND;
		segment.length = 24;
		MUST(bed_post(b, &send));
		EXPECT_EQ(b->out.length, SECOND_AT + SECOND);
		EXPECT_MEM(b->out.bytes + SECOND_AT, second, SECOND);
		/* And back again. */
		bed_receive(b, tag, 0, 24);
		bed_receive(b, tag, 0, 24);
		peer_bytes(b, first, FIRST);
		peer_write(b, tag, addr_of(b, 1000), b->memory + 1000, 420);
		EXPECT_EQ(b->in_position, SECOND_AT);
		peer_bytes(b, second, SECOND);
		bed_move(b);
		for (uint64_t id = 1; id <= 5; id++)
			expect_completion(b, id, WEFT_SUCCESS, WEFT_OK);
		EXPECT(is_unchanged(b));
	}
}

/* ---- Who speaks first ----------------------------------------------------------------------- */

static const struct setup responder = { .terms = { .has_crc = true, .ird = 2, .ord = 2 } };

/* RFC 5044 section 7.1.2: a responder sends nothing before a good FPDU has come. */
TEST(test_rfc5044_7_1_2_responder_waits_for_an_fpdu)
{
	for (struct iwarp_bed *b = bed_first(&responder); b; b = bed_next(b)) {
		struct weft_send_wr send = { .opcode = WEFT_OP_SEND };
		size_t length;

		MUST(bed_post(b, &send));
		EXPECT_EQ(b->out.length, 0);
		EXPECT(!iwarp_is_ready(b->stream));
		peer_write(b, 0, 0, NULL, 0);
		length = b->in.length--;
		bed_move(b);
		EXPECT_EQ(b->out.length, 0);
		expect_no_completion(b);
		b->in.length = length;
		bed_move(b);
		EXPECT(iwarp_is_ready(b->stream));
		(void)expect_frame(b, RDMAP_SEND);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
	}
}

/* If the first one is bad there is nothing to say: the connection is ended without a word. */
TEST(test_rfc5044_7_1_2_responder_is_silent_after_a_bad_fpdu)
{
	for (struct iwarp_bed *b = bed_first(&responder); b; b = bed_next(b)) {
		b->is_crc_bad = true;
		peer_write(b, 0, 0, NULL, 0);
		bed_move(b);
		EXPECT_EQ(b->qp->reason, WEFT_R_MPA_CRC);
		EXPECT_EQ(b->out.length, 0);
		expect_shut(b);
	}
}

/* One that is framed well opens the direction for the Terminate that answers it. */
TEST(test_rfc5044_7_1_2_first_fpdu_is_refused)
{
	for (struct iwarp_bed *b = bed_first(&responder); b; b = bed_next(b)) {
		peer_write(b, 0x100, 0, payload, 8);
		expect_refused(
			b, &(struct stream_end){ WEFT_R_TAG_INVALID, { 1, 1, 0 }, HEADERS_DDP });
	}
}

static struct setup with_rtr(enum iwarp_rtr rtr, bool is_initiator, uint16_t depth)
{
	return (struct setup){
		.terms = { .is_initiator = is_initiator,
			   .has_crc = true,
			   .ird = depth,
			   .ord = depth,
			   .rtr = rtr },
	};
}

/* RFC 6581 section 9: the first FPDU, before any of the consumer's; no completion of it. */
TEST(test_rfc6581_9_initiator_opens_with_rtr)
{
	static const enum rdmap_opcode opcodes[] = {
		[IWARP_RTR_SEND] = RDMAP_SEND,
		[IWARP_RTR_WRITE] = RDMAP_WRITE,
		[IWARP_RTR_READ] = RDMAP_READ_REQUEST,
	};

	for (enum iwarp_rtr rtr = IWARP_RTR_SEND; rtr <= IWARP_RTR_READ; rtr++) {
		const struct setup setup = with_rtr(rtr, true, 2);

		for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
			struct weft_send_wr send = { .opcode = WEFT_OP_SEND };
			const struct frame *f;

			MUST(bed_post(b, &send));
			f = expect_frame(b, opcodes[rtr]);
			EXPECT_EQ(f->bytes, rtr == IWARP_RTR_READ ? RDMAP_READ_REQUEST_BYTES : 0);
			f = expect_frame(b, RDMAP_SEND);
			EXPECT_EQ(f->u.msn, rtr == IWARP_RTR_SEND ? 2 : 1);
			EXPECT_EQ(peer_left(b), 0);
			expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
			if (rtr == IWARP_RTR_READ)
				peer_response(b, 0, 0, NULL, 0);
			else
				peer_write(b, 0, 0, NULL, 0);
			bed_move(b);
			EXPECT(iwarp_is_ready(b->stream));
			expect_no_completion(b);
			EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
		}
	}
}

enum { SILENCE_NS = 100, AGAIN_TIMES = 6 };

/* The peer may have missed it, and with it all that came behind (siw does). */
TEST(test_rfc6581_9_initiator_opens_again_while_nothing_comes)
{
	struct setup setup = with_rtr(IWARP_RTR_WRITE, true, 2);

	setup.again_wait_ns = SILENCE_NS;
	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		struct weft_send_wr send = { .opcode = WEFT_OP_SEND };
		uint64_t wait_ns = SILENCE_NS;

		MUST(bed_post(b, &send));
		(void)expect_frame(b, RDMAP_WRITE);
		(void)expect_frame(b, RDMAP_SEND);
		for (int i = 0; i < AGAIN_TIMES; i++, wait_ns *= 2) {
			EXPECT_EQ(iwarp_due(b->stream), b->now_ns + wait_ns);
			bed_wait(b, wait_ns - 1);
			EXPECT_EQ(peer_left(b), 0);
			bed_wait(b, 1);
			EXPECT_EQ(expect_frame(b, RDMAP_WRITE)->bytes, 0);
			EXPECT_EQ(peer_left(b), 0);
		}
		EXPECT_EQ(iwarp_due(b->stream), UINT64_MAX);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
		expect_no_completion(b);
		MUST(bed_post(b, &send));
		EXPECT_EQ(expect_frame(b, RDMAP_SEND)->u.msn, 2);
		expect_completion(b, 2, WEFT_SUCCESS, WEFT_OK);
	}
}

TEST(test_rfc6581_9_initiator_does_not_open_again_once_something_came)
{
	struct setup setup = with_rtr(IWARP_RTR_WRITE, true, 2);

	setup.again_wait_ns = SILENCE_NS;
	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		bed_move(b);
		(void)expect_frame(b, RDMAP_WRITE);
		bed_wait(b, SILENCE_NS - 1);
		peer_write(b, 0, 0, NULL, 0);
		bed_move(b);
		EXPECT_EQ(iwarp_due(b->stream), UINT64_MAX);
		bed_wait(b, SILENCE_NS);
		EXPECT_EQ(peer_left(b), 0);
	}
}

/* Where the connection takes nothing it is not added to: what waits will do as well. */
TEST(test_rfc6581_9_initiator_does_not_open_again_behind_a_full_ring)
{
	enum { SENDS = 12 };
	struct setup setup = with_rtr(IWARP_RTR_WRITE, true, 2);

	setup.again_wait_ns = SILENCE_NS;
	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		struct weft_send_wr send = { .opcode = WEFT_OP_SEND };

		b->out_credit = 0;
		for (int i = 0; i < SENDS; i++)
			MUST(bed_post(b, &send));
		bed_wait(b, SILENCE_NS);
		EXPECT_EQ(iwarp_due(b->stream), b->now_ns + 2 * SILENCE_NS);
		b->out_credit = SIZE_MAX;
		bed_move(b);
		(void)expect_frame(b, RDMAP_WRITE);
		for (uint64_t i = 1; i <= SENDS; i++) {
			(void)expect_frame(b, RDMAP_SEND);
			expect_completion(b, i, WEFT_SUCCESS, WEFT_OK);
		}
		EXPECT_EQ(peer_left(b), 0);
	}
}

TEST(test_rfc6581_9_initiator_does_not_open_again_at_the_end)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_ERROR };
	struct setup setup = with_rtr(IWARP_RTR_WRITE, true, 2);

	setup.again_wait_ns = SILENCE_NS;
	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		size_t length;

		bed_move(b);
		MUST(qp_modify(b->qp, &attr, WEFT_QP_STATE));
		bed_move(b);
		length = b->out.length;
		bed_wait(b, SILENCE_NS);
		EXPECT_EQ(b->out.length, length);
	}
}

/* Other ways to open are not harmless if they come twice. */
TEST(test_rfc6581_9_only_a_write_opens_again)
{
	static const enum iwarp_rtr rtrs[] = { IWARP_RTR_NONE, IWARP_RTR_SEND, IWARP_RTR_READ };

	for (size_t i = 0; i < sizeof(rtrs) / sizeof(*rtrs); i++) {
		struct setup setup = with_rtr(rtrs[i], true, 2);

		setup.again_wait_ns = SILENCE_NS;
		setup.first_wait_ns = SILENCE_NS;
		for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b))
			EXPECT_EQ(iwarp_due(b->stream), UINT64_MAX);
	}
}

/* Programs have servers that send first, whether the other end asked to be ready or not. */
TEST(test_rfc5044_7_1_2_responder_sends_after_a_silence_if_configured)
{
	struct setup setup = responder;

	setup.again_wait_ns = SILENCE_NS;
	setup.first_wait_ns = 2 * SILENCE_NS;
	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		struct weft_send_wr send = { .opcode = WEFT_OP_SEND };

		MUST(bed_post(b, &send));
		bed_wait(b, 2 * SILENCE_NS - 1);
		EXPECT_EQ(b->out.length, 0);
		bed_wait(b, 1);
		EXPECT_EQ(iwarp_due(b->stream), UINT64_MAX);
		(void)expect_frame(b, RDMAP_SEND);
		EXPECT_EQ(peer_left(b), 0);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
		EXPECT(!iwarp_is_ready(b->stream));
	}
}

/* One that announced a message to open with has to send it. */
TEST(test_rfc6581_9_responder_waits_for_the_rtr_however_configured)
{
	struct setup setup = with_rtr(IWARP_RTR_WRITE, false, 2);

	setup.again_wait_ns = SILENCE_NS;
	setup.first_wait_ns = SILENCE_NS;
	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b))
		EXPECT_EQ(iwarp_due(b->stream), UINT64_MAX);
}

TEST(test_rfc6581_9_responder_takes_rtr)
{
	for (enum iwarp_rtr rtr = IWARP_RTR_SEND; rtr <= IWARP_RTR_READ; rtr++) {
		const struct setup setup = with_rtr(rtr, false, 2);

		for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
			bed_receive(b, 0, 0, 0);
			if (rtr == IWARP_RTR_SEND)
				peer_send(b, RDMAP_SEND, 0, NULL, 0);
			else if (rtr == IWARP_RTR_WRITE)
				peer_write(b, 0, 0, NULL, 0);
			else
				peer_read(b, 0, 0, 0);
			bed_move(b);
			EXPECT(iwarp_is_ready(b->stream));
			expect_no_completion(b); /* it takes no receive */
			if (rtr == IWARP_RTR_READ)
				(void)expect_frame(b, RDMAP_READ_RESPONSE);
			EXPECT_EQ(peer_left(b), 0);
			/* The next one of its kind is the consumer's. */
			peer_send(b, RDMAP_SEND, 0, NULL, 0);
			bed_move(b);
			expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
		}
	}
}

/* A Send that brings something, or only begins, is the consumer's, even as the first. */
TEST(test_rfc6581_9_first_send_is_no_rtr)
{
	const struct setup setup = with_rtr(IWARP_RTR_SEND, false, 2);

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, 8192, ALL_RIGHTS);
		struct ddp_untagged h = untagged(RDMAP_SEND, RDMAP_QN_SEND, 1);

		bed_receive(b, tag, 0, 64);
		if (b->way % 2) {
			h.is_last = false;
			peer_untagged(b, &h, NULL, 0);
			h.is_last = true;
		}
		peer_untagged(b, &h, payload, 8);
		bed_move(b);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
	}
}

/* The answer to it has no bytes. */
TEST(test_rfc6581_9_rtr_read_answered_with_bytes)
{
	const struct setup setup = with_rtr(IWARP_RTR_READ, true, 2);

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, 8192, ALL_RIGHTS);

		bed_move(b);
		(void)expect_frame(b, RDMAP_READ_REQUEST);
		peer_response(b, tag, addr_of(b, 0), payload, 8);
		expect_refused(
			b, &(struct stream_end){ WEFT_R_RDMAP_RESPONSE, { 0, 2, 6 }, HEADERS_DDP });
	}
}

/* Answers come in the order of the requests: nothing before that of the first Read. */
TEST(test_rfc6581_9_atomic_answered_before_the_rtr_read)
{
	const struct setup setup = with_rtr(IWARP_RTR_READ, true, 2);

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, 8192, ALL_RIGHTS);
		const struct weft_sge segment = { addr_of(b, 0), 8, tag };
		struct weft_send_wr atomic = {
			.opcode = WEFT_OP_FETCH_ADD,
			.sges = &segment,
			.sge_count = 1,
		};

		MUST(bed_post(b, &atomic));
		(void)expect_frame(b, RDMAP_READ_REQUEST);
		(void)expect_frame(b, RDMAP_ATOMIC_REQUEST);
		peer_atomic_response(b, 0, 0);
		expect_refused(
			b, &(struct stream_end){ WEFT_R_RDMAP_RESPONSE, { 0, 2, 6 }, HEADERS_DDP });
	}
}

/* QP-02: it takes one of the Reads that the peer serves at a time, until it is answered. */
TEST(test_rfc6581_9_rtr_read_counts)
{
	const struct setup setup = with_rtr(IWARP_RTR_READ, true, 1);

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		struct weft_send_wr read = { .opcode = WEFT_OP_READ };

		MUST(bed_post(b, &read));
		(void)expect_frame(b, RDMAP_READ_REQUEST);
		EXPECT_EQ(peer_left(b), 0);
		peer_response(b, 0, 0, NULL, 0);
		bed_move(b);
		(void)expect_frame(b, RDMAP_READ_REQUEST);
		expect_no_completion(b);
		peer_response(b, 0, 0, NULL, 0);
		bed_move(b);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
	}
}
