/* SPDX-License-Identifier: BSD-2-Clause */
/* DDP and RDMAP headers and message bodies: RFC 5040, RFC 5041 and RFC 7306. */
#include "wire/rdmap.h"

#include <string.h>

#include "test.h"
#include "wire/ddp.h"

/* A Send of 24 bytes, the first message: what RFC 5044's example of an FPDU carries. */
static const uint8_t send_header[] = { 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0 };

TEST(test_rfc5041_4_3_untagged_header)
{
	struct ddp_untagged h = { .qn = 9 };
	struct rd r = rd_of(send_header, sizeof(send_header));
	uint8_t bytes[DDP_UNTAGGED_BYTES];
	struct wr w = wr_of(bytes, sizeof(bytes));

	EXPECT(!ddp_is_tagged(send_header[0]));
	EXPECT_EQ(ddp_untagged_decode(&h, &r), DDP_OK);
	EXPECT(h.is_last && r.at == r.end);
	EXPECT_EQ(h.ulp, 0x43);
	EXPECT_EQ(h.qn, 0);
	EXPECT_EQ(h.msn, 1);
	EXPECT_EQ(h.mo, 0);
	ddp_untagged_encode(&h, &w);
	EXPECT(!w.is_short);
	EXPECT_MEM(bytes, send_header, sizeof(bytes));
}

TEST(test_rfc5041_4_2_tagged_header)
{
	static const uint8_t write[] = { 0xc1, 0x40, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
	struct ddp_tagged h;
	struct rd r = rd_of(write, sizeof(write));
	uint8_t bytes[DDP_TAGGED_BYTES];
	struct wr w = wr_of(bytes, sizeof(bytes));

	EXPECT(ddp_is_tagged(write[0]));
	EXPECT_EQ(ddp_tagged_decode(&h, &r), DDP_OK);
	EXPECT(h.is_last);
	EXPECT_EQ(h.stag, 0x01020304);
	EXPECT_EQ(h.to, 0x05060708090a0b0c);
	ddp_tagged_encode(&h, &w);
	EXPECT_MEM(bytes, write, sizeof(bytes));
	h.is_last = false;
	w = wr_of(bytes, sizeof(bytes));
	ddp_tagged_encode(&h, &w);
	EXPECT_EQ(bytes[0], 0x81);
}

/* DV must be 1; the reserved bits beside it are not checked; nothing is taken of a short one. */
TEST(test_rfc5041_4_1_version_and_length)
{
	uint8_t bytes[DDP_UNTAGGED_BYTES];
	struct ddp_untagged u = { .qn = 5 };
	struct ddp_tagged t = { .stag = 5 };

	memcpy(bytes, send_header, sizeof(bytes));
	for (int ctl = 0; ctl < 256; ctl++) {
		enum ddp_err due = (ctl & 3) == 1 ? DDP_OK : DDP_ERR_VERSION;
		struct rd r = rd_of(bytes, sizeof(bytes));

		bytes[0] = (uint8_t)ctl;
		EXPECT_EQ(ddp_untagged_decode(&u, &r), due);
		r = rd_of(bytes, sizeof(bytes));
		EXPECT_EQ(ddp_tagged_decode(&t, &r), due);
	}
	bytes[0] = 0x41;
	for (size_t n = 0; n < DDP_UNTAGGED_BYTES; n++) {
		struct rd r = rd_of(bytes, n);

		EXPECT_EQ(ddp_untagged_decode(&u, &r), DDP_ERR_SHORT);
		EXPECT(r.at == bytes);
		if (n < DDP_TAGGED_BYTES)
			EXPECT_EQ(ddp_tagged_decode(&t, &r), DDP_ERR_SHORT);
	}
}

/* RFC 5040 section 4.3 and RFC 7306 section 4, the other way round: all that is not there. */
TEST(test_rfc5040_4_3_every_control_byte_on_every_queue)
{
	/* opcode -> queue; 9: tagged */
	static const uint8_t place[] = { 9, 1, 9, 0, 0, 0, 0, 2, 0, 0, 1, 3 };

	for (int ulp = 0; ulp < 256; ulp++) {
		uint8_t version = (uint8_t)(ulp >> 6), op = ulp & 15;

		for (uint32_t queue = 0; queue < 6; queue++) {
			bool is_tagged = queue == 5;
			enum rdmap_opcode got = RDMAP_OPCODE_COUNT;
			enum rdmap_err err = rdmap_control_decode((uint8_t)ulp, is_tagged, queue,
								  &got);
			bool is_known = op < sizeof(place) && (version == 1 || op <= 7);

			if (queue == 4)
				EXPECT_EQ(err, RDMAP_ERR_QUEUE);
			else if (version > 1)
				EXPECT_EQ(err, RDMAP_ERR_VERSION);
			else if (is_known && place[op] == (is_tagged ? 9 : queue))
				EXPECT(err == RDMAP_OK && got == op);
			else
				EXPECT_EQ(err, RDMAP_ERR_OPCODE);
		}
	}
	EXPECT_EQ(rdmap_control_encode(RDMAP_SEND), 0x43);
	EXPECT_STR(rdmap_opcode_name(RDMAP_TERMINATE), "Terminate");
	EXPECT_STR(rdmap_opcode_name((enum rdmap_opcode)12), "unknown message");
}

TEST(test_rfc5040_4_4_read_request)
{
	const struct rdmap_read_request sent = { 0x11223344, 0x5566778899aabbcc, 4096, 0xdeadbeef,
						 0x0102030405060708 };
	static const uint8_t wire[] = { 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa,
					0xbb, 0xcc, 0,	  0,	0x10, 0,    0xde, 0xad, 0xbe, 0xef,
					1,    2,    3,	  4,	5,    6,    7,	  8 };
	struct rdmap_read_request got;
	uint8_t bytes[RDMAP_READ_REQUEST_BYTES];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct rd r = rd_of(wire, sizeof(wire));

	rdmap_read_request_encode(&sent, &w);
	EXPECT(!w.is_short && w.at == w.end);
	EXPECT_MEM(bytes, wire, sizeof(wire));
	EXPECT_EQ(rdmap_read_request_decode(&got, &r), RDMAP_OK);
	EXPECT(got.sink_stag == sent.sink_stag && got.sink_to == sent.sink_to &&
	       got.size == sent.size && got.source_stag == sent.source_stag &&
	       got.source_to == sent.source_to);
	r = rd_of(wire, sizeof(wire) - 1);
	EXPECT_EQ(rdmap_read_request_decode(&got, &r), RDMAP_ERR_SHORT);
}

TEST(test_rfc7306_atomic_request_and_response)
{
	const struct rdmap_atomic_request sent = { RDMAP_COMPARE_SWAP, 7, 8, 9, 10, 11, 12, 13 };
	const struct rdmap_atomic_response answer = { 7, 0x1122334455667788 };
	struct rdmap_atomic_request got = { .id = 99 };
	struct rdmap_atomic_response back;
	uint8_t bytes[RDMAP_ATOMIC_REQUEST_BYTES];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct rd r = rd_of(bytes, sizeof(bytes));

	rdmap_atomic_request_encode(&sent, &w);
	EXPECT(!w.is_short && w.at == w.end);
	/* The reserved 28 bits before the operation are not checked; 1 and the rest are none. */
	for (uint32_t op = 0; op < 256; op++) {
		bool is_known = (op & 15) == 0 || (op & 15) == 2;

		bytes[3] = (uint8_t)op;
		r = rd_of(bytes, sizeof(bytes));
		EXPECT_EQ(rdmap_atomic_request_decode(&got, &r),
			  is_known ? RDMAP_OK : RDMAP_ERR_BODY);
	}
	EXPECT(got.id == 7 && got.stag == 8 && got.to == 9 && got.add_swap == 10 &&
	       got.add_swap_mask == 11 && got.compare == 12 && got.compare_mask == 13);
	r = rd_of(bytes, sizeof(bytes) - 1);
	EXPECT_EQ(rdmap_atomic_request_decode(&got, &r), RDMAP_ERR_SHORT);
	w = wr_of(bytes, RDMAP_ATOMIC_RESPONSE_BYTES);
	rdmap_atomic_response_encode(&answer, &w);
	EXPECT(!w.is_short && w.at == w.end);
	r = rd_of(bytes, RDMAP_ATOMIC_RESPONSE_BYTES);
	EXPECT_EQ(rdmap_atomic_response_decode(&back, &r), RDMAP_OK);
	EXPECT(back.id == answer.id && back.original == answer.original);
	r = rd_of(bytes, RDMAP_ATOMIC_RESPONSE_BYTES - 1);
	EXPECT_EQ(rdmap_atomic_response_decode(&back, &r), RDMAP_ERR_SHORT);
}

/* With and without each of the parts that may follow the control word. */
TEST(test_rfc5040_4_8_terminate)
{
	for (uint32_t parts = 0; parts < 8; parts++) {
		struct rdmap_terminate sent = {
			.layer = 1,
			.type = 2,
			.code = 5,
			.reserved = 0x1555,
			.has_length = parts & 1,
			.has_ddp = parts & 2,
			.has_rdma = parts & 4,
		};
		uint8_t bytes[64];
		struct wr w = wr_of(bytes, sizeof(bytes));
		struct rdmap_terminate got = { 0 };
		struct rd r;
		size_t length;

		if (sent.has_ddp) {
			sent.segment_bytes = 42;
			sent.ddp_bytes = DDP_UNTAGGED_BYTES;
			memcpy(sent.ddp, send_header, sizeof(send_header));
		}
		sent.read.size = sent.has_rdma ? 77 : 0;
		rdmap_terminate_encode(&sent, &w);
		length = (size_t)(w.at - bytes);
		EXPECT_EQ(length, 4U + (sent.has_ddp ? 20 : 0) + (sent.has_rdma ? 28 : 0));
		r = rd_of(bytes, length);
		EXPECT_EQ(rdmap_terminate_decode(&got, &r), RDMAP_OK);
		EXPECT(got.layer == 1 && got.type == 2 && got.code == 5 && got.reserved == 0x1555);
		EXPECT(got.has_length == sent.has_length && got.has_ddp == sent.has_ddp &&
		       got.has_rdma == sent.has_rdma);
		EXPECT_EQ(got.segment_bytes, sent.segment_bytes);
		EXPECT_EQ(got.read.size, sent.read.size);
		EXPECT_MEM(got.ddp, sent.ddp, sizeof(got.ddp));
		for (size_t n = 0; n < length; n++) {
			r = rd_of(bytes, n);
			EXPECT_EQ(rdmap_terminate_decode(&got, &r), RDMAP_ERR_SHORT);
		}
	}
}

TEST(test_rfc5040_4_8_terminate_control_word)
{
	static const uint8_t wire[] = { 0x01, 0x02, 0xe0, 0x00 };
	struct rdmap_terminate t = { .type = 1, .code = 2, .has_length = true };
	uint8_t bytes[RDMAP_TERMINATE_BYTES];
	struct wr w = wr_of(bytes, sizeof(bytes));

	rdmap_terminate_encode(&t, &w);
	EXPECT_EQ(bytes[0], wire[0]);
	EXPECT_EQ(bytes[1], wire[1]);
	EXPECT_EQ(bytes[2], 0x80);
	EXPECT_STR(rdmap_terminate_text(0, 1, 2),
		   "RDMAP remote protection: access rights violation");
	EXPECT_STR(rdmap_terminate_text(2, 0, 2), "MPA: CRC error");
	EXPECT_STR(rdmap_terminate_text(9, 9, 9), "unknown cause");
}

/* ---- Terminate of a peer that may be Linux siw ---------------------------------------------- */

static const uint8_t read_body[RDMAP_READ_REQUEST_BYTES] = { 0xcf, 0x72, 0x48, [15] = 0x40 };

/* A Terminate as bytes: the word, then of the headers what it takes. */
static size_t terminate(uint8_t *bytes, uint32_t word, size_t ddp_bytes, bool has_read)
{
	struct wr w = wr_of(bytes, 64);

	wr_u32(&w, word);
	if (ddp_bytes > 0) {
		wr_u16(&w, 64);
		for (size_t i = 0; i < ddp_bytes; i++)
			wr_u8(&w, ddp_bytes == DDP_TAGGED_BYTES && i == 0 ? 0xc1 : send_header[i]);
	}
	for (size_t i = 0; has_read && i < sizeof(read_body); i++)
		wr_u8(&w, read_body[i]);
	REQUIRE(!w.is_short);
	return (size_t)(w.at - bytes);
}

static struct rdmap_terminate any(const uint8_t *bytes, size_t length)
{
	struct rdmap_terminate t;
	struct rd r = rd_of(bytes, length);

	REQUIRE(rdmap_terminate_decode_any(&t, &r) == RDMAP_OK);
	return t;
}

/* Every cause there is, with each set of headers that goes with it, in both orders. */
TEST(test_rfc5040_4_8_headers_tell_in_which_order_a_terminate_is_written)
{
	for (uint32_t cause = 0; cause < 0x300; cause++) {
		uint8_t layer = (uint8_t)(cause >> 8), type = cause >> 4 & 3, code = cause & 15;

		for (uint32_t parts = 1; parts < 4; parts++) {
			bool is_tagged = parts == 2, has_read = parts == 3;
			uint32_t flags = has_read ? 7 : 3, rfc_flags = has_read ? 0xe000 : 0xc000;
			uint32_t rfc_word = (uint32_t)layer << 28 | (uint32_t)type << 24 |
					    (uint32_t)code << 16 | rfc_flags;
			uint32_t siw_word = (uint32_t)type << 28 | (uint32_t)layer << 24 |
					    (uint32_t)code << 16 | flags << 8;
			uint8_t bytes[64];

			for (int is_siw = 0; is_siw < 2; is_siw++) {
				size_t length = terminate(bytes, is_siw ? siw_word : rfc_word,
							  is_tagged ? DDP_TAGGED_BYTES
								    : DDP_UNTAGGED_BYTES,
							  has_read);
				struct rdmap_terminate t = any(bytes, length);

				EXPECT_EQ(t.is_siw_order, is_siw);
				EXPECT_EQ(t.layer, layer);
				EXPECT_EQ(t.type, type);
				EXPECT_EQ(t.code, code);
				EXPECT(t.has_length && t.has_ddp && t.has_rdma == has_read);
				EXPECT(!t.is_ambiguous && t.reserved == 0);
				EXPECT_EQ(t.segment_bytes, 64);
				EXPECT_EQ(t.ddp_bytes,
					  is_tagged ? DDP_TAGGED_BYTES : DDP_UNTAGGED_BYTES);
				EXPECT_EQ(t.read.size, has_read ? 0x40 : 0);
			}
		}
	}
}

/* Without headers only the cause can tell, and where it cannot the RFC's order counts. */
TEST(test_rfc5040_4_8_a_terminate_without_headers_may_be_ambiguous)
{
	static const struct {
		uint8_t first, code, layer, type;
		bool is_siw, is_ambiguous;
	} rows[] = {
		{ 0x00, 0xff, 0, 0, false, false }, /* the same both ways */
		{ 0x11, 0x04, 1, 1, false, false },
		{ 0x21, 0x06, 1, 2, true, false }, /* 2/1 does not exist */
		{ 0x12, 0x06, 1, 2, false, false },
		{ 0x02, 0x02, 2, 0, true, false }, /* a CRC error: 0/2/02 does not exist */
		{ 0x20, 0x02, 2, 0, false, false },
		{ 0x20, 0x08, 0, 2, true, false },
		{ 0x10, 0x03, 0, 1, true, false },
		{ 0x10, 0x00, 1, 0, false, true },
		{ 0x01, 0x00, 0, 1, false, true },
		{ 0x20, 0x05, 2, 0, false, true },
		{ 0x02, 0x06, 0, 2, false, true },
		{ 0x02, 0x07, 0, 2, false, true },
		{ 0x98, 0x00, 9, 8, false, false }, /* neither means anything */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const uint8_t bytes[] = { rows[i].first, rows[i].code, 0, 0 };
		struct rdmap_terminate t = any(bytes, sizeof(bytes));

		EXPECT_EQ(t.layer, rows[i].layer);
		EXPECT_EQ(t.type, rows[i].type);
		EXPECT_EQ(t.code, rows[i].code);
		EXPECT_EQ(t.is_siw_order, rows[i].is_siw);
		EXPECT_EQ(t.is_ambiguous, rows[i].is_ambiguous);
	}
}

/* siw sets R for a Send whose STag cannot be invalidated, and sends no Read Request's header. */
TEST(test_rfc5040_4_8_siw_sets_r_for_a_send)
{
	uint8_t bytes[64];
	size_t length = terminate(bytes, 0x10090700, DDP_UNTAGGED_BYTES, false);
	struct rdmap_terminate t = any(bytes, length);

	EXPECT(t.is_siw_order && t.has_ddp && !t.has_rdma);
	EXPECT_STR(rdmap_terminate_text(t.layer, t.type, t.code),
		   "RDMAP remote protection: STag cannot be invalidated");
	EXPECT_MEM(t.ddp, send_header, sizeof(send_header));
	/* Big-endian machines set it too, in the right place. */
	length = terminate(bytes, 0x0109e000, DDP_UNTAGGED_BYTES, false);
	t = any(bytes, length);
	EXPECT(!t.is_siw_order && t.has_ddp && !t.has_rdma && t.type == 1);
}

TEST(test_rfc5040_4_8_a_terminate_that_fits_neither_order)
{
	struct rdmap_terminate t = { .code = 77 };
	uint8_t bytes[64];
	size_t length = terminate(bytes, 0x1102c000, DDP_TAGGED_BYTES, false);
	struct rd r;

	/* Cut off: nothing is taken. By siw's order it is whole, with bytes too many. */
	for (size_t n = 0; n < 4; n++) {
		r = rd_of(bytes, n);
		EXPECT_EQ(rdmap_terminate_decode_any(&t, &r), RDMAP_ERR_SHORT);
		EXPECT(r.at == bytes && t.code == 77);
	}
	length = terminate(bytes, 0x1102c300, DDP_TAGGED_BYTES, false);
	for (size_t n = 4; n < length; n++) {
		r = rd_of(bytes, n);
		EXPECT_EQ(rdmap_terminate_decode_any(&t, &r), RDMAP_ERR_SHORT);
		EXPECT(r.at == bytes && t.code == 77);
	}
	/* R alone, in both orders, and no header. */
	(void)terminate(bytes, 0x01002400, 0, false);
	r = rd_of(bytes, 4);
	EXPECT_EQ(rdmap_terminate_decode_any(&t, &r), RDMAP_ERR_SHORT);
	/* Too long: what is too much is left. Of two that do not fit the known cause counts. */
	length = terminate(bytes, 0x12020000, DDP_TAGGED_BYTES, false);
	r = rd_of(bytes, length);
	EXPECT_EQ(rdmap_terminate_decode_any(&t, &r), RDMAP_OK);
	EXPECT(!t.is_siw_order && t.layer == 1 && r.at == bytes + 4);
	length = terminate(bytes, 0x21020000, DDP_TAGGED_BYTES, false);
	r = rd_of(bytes, length);
	EXPECT_EQ(rdmap_terminate_decode_any(&t, &r), RDMAP_OK);
	EXPECT(t.is_siw_order && t.layer == 1 && r.at == bytes + 4);
	/* The length counts more than the cause: 2/1 is none, but its headers fit. */
	length = terminate(bytes, 0x2102c000, DDP_TAGGED_BYTES, false);
	r = rd_of(bytes, length);
	EXPECT_EQ(rdmap_terminate_decode_any(&t, &r), RDMAP_OK);
	EXPECT(!t.is_siw_order && t.layer == 2 && r.at == r.end);
}

/* What came in siw's order is sent on in the RFC's; reserved bits are kept in both. */
TEST(test_rfc5040_4_8_a_terminate_is_encoded_by_the_rfc)
{
	uint8_t bytes[64], again[64];
	size_t length = terminate(bytes, 0x2102fb55, DDP_UNTAGGED_BYTES, false);
	struct rdmap_terminate t = any(bytes, length);
	struct wr w = wr_of(again, sizeof(again));

	EXPECT(t.is_siw_order && t.has_length && t.has_ddp && !t.has_rdma);
	EXPECT_EQ(t.reserved, 0x55 << 5 | 0x1f);
	t.reserved = 0;
	rdmap_terminate_encode(&t, &w);
	EXPECT_EQ(w.at - again, length);
	EXPECT(again[0] == 0x12 && again[1] == 0x02 && again[2] == 0xc0 && again[3] == 0);
	EXPECT_MEM(again + 4, bytes + 4, length - 4);
	EXPECT_STR(rdmap_terminate_text(0, 0, 0xff), "RDMAP: local catastrophic error");
}
