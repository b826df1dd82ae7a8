/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of the InfiniBand transport: IBA chapter 9. */
#include "wire/iba.h"

#include <string.h>

#include "test.h"

enum { ROOM = IBA_PACKET_MAX + 64 };

/* A packet of this opcode with no flags, so much behind its headers, and room for the ICRC. */
static size_t packet(uint8_t *bytes, uint8_t opcode, uint32_t pad, uint32_t rest)
{
	memset(bytes, 0, ROOM);
	bytes[0] = opcode;
	bytes[1] = (uint8_t)(pad << 4);
	return iba_form(opcode)->header_bytes + (size_t)rest + IBA_ICRC_BYTES;
}

static enum weft_reason decode(const uint8_t *bytes, size_t length)
{
	struct iba_packet p = { .opcode = 0xee, .psn = 77, .payload_bytes = 99 };
	enum weft_reason reason = iba_decode(&p, bytes, length);

	/* All of it, or nothing has changed. */
	REQUIRE((reason == WEFT_OK) == (p.psn != 77));
	REQUIRE((reason == WEFT_OK) == (p.opcode != 0xee) && (reason == WEFT_OK) == !!p.payload);
	return reason;
}

/* Judges a packet of this opcode with so much payload and padding. */
static enum weft_reason judge(uint8_t opcode, uint32_t pad, uint32_t rest)
{
	uint8_t bytes[ROOM];

	return decode(bytes, packet(bytes, opcode, pad, rest));
}

static uint32_t size_of(uint32_t headers)
{
	static const struct {
		uint32_t header, bytes;
	} sizes[] = {
		{ IBA_HAS_XRCETH, 4 }, { IBA_HAS_RDETH, 4 },	  { IBA_HAS_DETH, 8 },
		{ IBA_HAS_FETH, 4 },   { IBA_HAS_RETH, 16 },	  { IBA_HAS_ATOMIC, 28 },
		{ IBA_HAS_AETH, 4 },   { IBA_HAS_ATOMIC_ACK, 8 }, { IBA_HAS_IMM, 4 },
		{ IBA_HAS_IETH, 4 },   { IBA_HAS_CNP, 16 },
	};
	uint32_t sum = IBA_BTH_BYTES;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		sum += headers & sizes[i].header ? sizes[i].bytes : 0;
	return sum;
}

/* The table, from the other end: what each service has, and what follows from the service. */
TEST(test_iba_9_2_1_opcodes)
{
	static const uint32_t ops_of[8] = { 0x30dfffff, 0xfff,	0x101fffff + 0x200000,
					    0x30,	1 << 1, 0xdfffff };
	uint32_t longest = 0;

	for (uint32_t i = 0; i < 256; i++) {
		const struct iba_form *f = iba_form((uint8_t)i);
		const struct iba_form *rc = iba_form(i & 0x1f);
		uint32_t own = 0;

		EXPECT_EQ(f->kind != IBA_KIND_NONE, ops_of[i >> 5] >> (i & 0x1f) & 1);
		if (f->kind == IBA_KIND_NONE) {
			EXPECT_STR(iba_opcode_name((uint8_t)i), "unknown opcode");
			continue;
		}
		EXPECT_EQ(f->header_bytes, size_of(f->headers));
		longest = f->header_bytes > longest ? f->header_bytes : longest;
		if (i == IBA_CNP || i == iba_opcode(IBA_RD, IBA_RESYNC))
			continue;
		EXPECT(f->kind == rc->kind && f->traits == rc->traits);
		if (iba_service((uint8_t)i) == IBA_RD)
			own = IBA_HAS_RDETH | (f->traits & IBA_REQUEST ? IBA_HAS_DETH : 0);
		else if (iba_service((uint8_t)i) == IBA_UD)
			own = IBA_HAS_DETH;
		else if (iba_service((uint8_t)i) == IBA_XRC)
			own = f->traits & IBA_REQUEST ? IBA_HAS_XRCETH : 0;
		EXPECT_EQ(f->headers, rc->headers | own);
	}
	EXPECT_EQ(longest, IBA_HEADERS_MAX);
}

static void row(enum iba_op op, enum iba_kind kind, uint32_t traits, uint32_t headers)
{
	const struct iba_form *f = iba_form(iba_opcode(IBA_RC, op));

	REQUIRE(f->kind == kind && f->traits == traits && f->headers == headers);
}

TEST(test_iba_9_2_1_opcodes_of_rc)
{
	const uint32_t all = IBA_FIRST | IBA_LAST, q = IBA_REQUEST | IBA_PAYLOAD;
	const uint32_t a = IBA_RESPONSE | IBA_PAYLOAD;

	row(IBA_SEND_FIRST, IBA_KIND_SEND, q | IBA_FIRST, 0);
	row(IBA_SEND_MIDDLE, IBA_KIND_SEND, q, 0);
	row(IBA_SEND_LAST, IBA_KIND_SEND, q | IBA_LAST, 0);
	row(IBA_SEND_LAST_IMM, IBA_KIND_SEND, q | IBA_LAST, IBA_HAS_IMM);
	row(IBA_SEND_ONLY, IBA_KIND_SEND, q | all, 0);
	row(IBA_SEND_ONLY_IMM, IBA_KIND_SEND, q | all, IBA_HAS_IMM);
	row(IBA_SEND_LAST_INV, IBA_KIND_SEND, q | IBA_LAST, IBA_HAS_IETH);
	row(IBA_SEND_ONLY_INV, IBA_KIND_SEND, q | all, IBA_HAS_IETH);
	row(IBA_WRITE_FIRST, IBA_KIND_WRITE, q | IBA_FIRST, IBA_HAS_RETH);
	row(IBA_WRITE_MIDDLE, IBA_KIND_WRITE, q, 0);
	row(IBA_WRITE_LAST, IBA_KIND_WRITE, q | IBA_LAST, 0);
	row(IBA_WRITE_LAST_IMM, IBA_KIND_WRITE, q | IBA_LAST, IBA_HAS_IMM);
	row(IBA_WRITE_ONLY, IBA_KIND_WRITE, q | all, IBA_HAS_RETH);
	row(IBA_WRITE_ONLY_IMM, IBA_KIND_WRITE, q | all, IBA_HAS_RETH | IBA_HAS_IMM);
	row(IBA_READ_REQUEST, IBA_KIND_READ, IBA_REQUEST | all, IBA_HAS_RETH);
	row(IBA_READ_RESPONSE_FIRST, IBA_KIND_READ_RESPONSE, a | IBA_FIRST, IBA_HAS_AETH);
	row(IBA_READ_RESPONSE_MIDDLE, IBA_KIND_READ_RESPONSE, a, 0);
	row(IBA_READ_RESPONSE_LAST, IBA_KIND_READ_RESPONSE, a | IBA_LAST, IBA_HAS_AETH);
	row(IBA_READ_RESPONSE_ONLY, IBA_KIND_READ_RESPONSE, a | all, IBA_HAS_AETH);
	row(IBA_ACKNOWLEDGE, IBA_KIND_ACK, IBA_RESPONSE | all, IBA_HAS_AETH);
	row(IBA_ATOMIC_ACKNOWLEDGE, IBA_KIND_ATOMIC_ACK, IBA_RESPONSE | all,
	    IBA_HAS_AETH | IBA_HAS_ATOMIC_ACK);
	row(IBA_COMPARE_SWAP, IBA_KIND_ATOMIC, IBA_REQUEST | all, IBA_HAS_ATOMIC);
	row(IBA_FETCH_ADD, IBA_KIND_ATOMIC, IBA_REQUEST | all, IBA_HAS_ATOMIC);
	row(IBA_FLUSH, IBA_KIND_FLUSH, IBA_REQUEST | all, IBA_HAS_FETH | IBA_HAS_RETH);
	row(IBA_ATOMIC_WRITE, IBA_KIND_ATOMIC_WRITE, q | all, IBA_HAS_RETH);
	EXPECT_STR(iba_opcode_name(0x26), "UC WRITE First");
	EXPECT_STR(iba_opcode_name(IBA_CNP), "CNP");
}

TEST(test_iba_9_2_bth_bits)
{
	uint8_t bytes[ROOM], again[IBA_HEADERS_MAX];
	size_t length = packet(bytes, iba_opcode(IBA_UC, IBA_SEND_ONLY), 0, 0);
	struct iba_packet p;

	memcpy(bytes + 1, "\xc0\x7f\xfe\xff\x12\x34\x56\xff\xab\xcd\xef", 11);
	EXPECT_EQ(iba_decode(&p, bytes, length), WEFT_OK);
	EXPECT(p.is_solicited && p.is_migrated && p.has_fecn && p.has_becn && p.is_ack_requested);
	EXPECT(p.p_key == 0x7ffe && p.dest_qp == 0x123456 && p.psn == 0xabcdef);
	EXPECT_EQ(iba_encode(&p, again), IBA_BTH_BYTES);
	/* Reserved bits go out as 0. */
	EXPECT_MEM(again, "\x24\xc0\x7f\xfe\xc0\x12\x34\x56\x80\xab\xcd\xef", 12);
	for (int bit = 0; bit < 5; bit++) {
		static const uint8_t at[5] = { 1, 1, 4, 4, 8 };
		static const uint8_t mask[5] = { 0x80, 0x40, 0x80, 0x40, 0x80 };
		bool found[5];

		memset(bytes + 1, 0, 11);
		bytes[at[bit]] = mask[bit];
		EXPECT_EQ(iba_decode(&p, bytes, length), WEFT_OK);
		found[0] = p.is_solicited;
		found[1] = p.is_migrated;
		found[2] = p.has_fecn;
		found[3] = p.has_becn;
		found[4] = p.is_ack_requested;
		for (int i = 0; i < 5; i++)
			EXPECT_EQ(found[i], i == bit);
		(void)iba_encode(&p, again);
		EXPECT_MEM(again, bytes, 12);
	}
}

/*
 * A sender that shares the memory may change it meanwhile. What decides where the headers end is
 * read once: here the packet is changed by what is decoded, which takes its place.
 */
TEST(test_iba_9_2_opcode_and_pad_are_read_once)
{
	union {
		struct iba_packet p;
		uint8_t bytes[ROOM];
	} u;
	size_t length = packet(u.bytes, IBA_WRITE_ONLY, 3, 8);

	REQUIRE(iba_decode(&u.p, u.bytes, length) == WEFT_OK);
	EXPECT_EQ(u.p.opcode, IBA_WRITE_ONLY);
	EXPECT_EQ(u.p.pad, 3);
	EXPECT_EQ(u.p.payload_bytes, 5);
}

TEST(test_iba_9_2_destination_at_a_glance)
{
	const struct iba_packet p = { .opcode = 0x64, .dest_qp = 0xa1b2c3, .psn = 5 };
	uint8_t bytes[IBA_HEADERS_MAX];
	uint32_t length = iba_encode(&p, bytes);

	EXPECT_EQ(iba_dest_qp(bytes, length), 0xa1b2c3);
	EXPECT_EQ(iba_dest_qp(bytes, IBA_BTH_BYTES), 0xa1b2c3);
	EXPECT_EQ(iba_dest_qp(bytes, IBA_BTH_BYTES - 1), 0);
	EXPECT_EQ(iba_dest_number(bytes, length), 0xa1b2c3);
}

TEST(test_iba_9_2_end_at_a_glance)
{
	static const struct {
		enum iba_op op;
		bool is_end;
	} ops[] = {
		{ IBA_WRITE_FIRST, false },	  { IBA_WRITE_MIDDLE, false },
		{ IBA_WRITE_LAST, true },	  { IBA_WRITE_ONLY, false },
		{ IBA_SEND_LAST_IMM, true },	  { IBA_SEND_ONLY_INV, false },
		{ IBA_READ_RESPONSE_LAST, true }, { IBA_ACKNOWLEDGE, false },
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		const struct iba_packet p = { .opcode = iba_opcode(IBA_RC, ops[i].op) };
		uint8_t bytes[IBA_HEADERS_MAX];
		uint32_t length = iba_encode(&p, bytes);

		EXPECT_EQ(iba_is_end(bytes, length), ops[i].is_end);
		EXPECT(!iba_is_end(bytes, IBA_BTH_BYTES - 1));
	}
}

TEST(test_iba_9_6_1_2_context_at_a_glance)
{
	const struct iba_packet p = {
		.opcode = iba_opcode(IBA_RD, IBA_SEND_ONLY),
		.dest_qp = 0xa1b2c3,
		.eec = 0x445566,
	};
	uint8_t bytes[IBA_HEADERS_MAX];
	uint32_t length = iba_encode(&p, bytes);

	EXPECT_EQ(iba_dest_number(bytes, length), 0x445566);
	EXPECT_EQ(iba_dest_qp(bytes, length), 0xa1b2c3);
	EXPECT_EQ(iba_dest_number(bytes, IBA_BTH_BYTES), 0xa1b2c3);
	EXPECT_EQ(iba_dest_number(bytes, 0), 0);
}

/* Each opcode with bytes that are all different: every header is where it should be. */
TEST(test_iba_9_3_headers_there_and_back)
{
	for (uint32_t opcode = 0; opcode < 256; opcode++) {
		const struct iba_form *f = iba_form((uint8_t)opcode);
		uint32_t rest = f->traits & IBA_LAST ? f->traits & IBA_PAYLOAD ? 8 : 0 : 256;
		uint8_t bytes[ROOM], again[IBA_HEADERS_MAX];
		struct iba_packet p;
		size_t length;

		if (f->kind == IBA_KIND_NONE || f->kind == IBA_KIND_CNP)
			continue;
		length = packet(bytes, (uint8_t)opcode, 0, rest);
		for (uint32_t i = 2; i < f->header_bytes; i++)
			bytes[i] = (uint8_t)(0x80 + i);
		bytes[4] &= 0xc0;
		bytes[8] &= 0x80;
		/* What is reserved in the headers in front. */
		if (f->headers & (IBA_HAS_XRCETH | IBA_HAS_RDETH))
			bytes[12] = 0;
		if (f->headers & IBA_HAS_DETH)
			bytes[f->headers & IBA_HAS_RDETH ? 20 : 16] = 0;
		if (f->headers & IBA_HAS_FETH)
			memcpy(bytes + f->header_bytes - 20, "\0\0\0\x12", 4);
		EXPECT_EQ(iba_decode(&p, bytes, length), WEFT_OK);
		EXPECT(p.payload == bytes + f->header_bytes && p.payload_bytes == rest);
		EXPECT_EQ(iba_encode(&p, again), f->header_bytes);
		EXPECT_MEM(again, bytes, f->header_bytes);
	}
}

/* RD has the most: context, datagram, and what is to be done. */
TEST(test_iba_9_3_headers_of_rd)
{
	uint8_t bytes[ROOM];
	size_t length = packet(bytes, iba_opcode(IBA_RD, IBA_WRITE_ONLY_IMM), 1, 4);
	struct iba_packet p;

	memcpy(bytes + 12,
	       "\xff\x00\x00\x07"
	       "\x11\x22\x33\x44"
	       "\xff\x00\x01\x02",
	       12);
	memcpy(bytes + 24,
	       "\x00\x01\x02\x03\x04\x05\x06\x07"
	       "\x0a\x0b\x0c\x0d",
	       12);
	memcpy(bytes + 36,
	       "\x00\x00\x00\x03"
	       "\xca\xfe\xba\xbe",
	       8);
	EXPECT_EQ(iba_decode(&p, bytes, length), WEFT_OK);
	EXPECT(p.eec == 7 && p.q_key == 0x11223344 && p.src_qp == 0x102);
	EXPECT(p.va == 0x0001020304050607 && p.r_key == 0x0a0b0c0d && p.dma_bytes == 3);
	EXPECT(p.imm == 0xcafebabe && p.payload_bytes == 3 && p.pad == 1);
	EXPECT(p.payload == bytes + 44 && p.inv_r_key == 0 && p.msn == 0);
	length = packet(bytes, iba_opcode(IBA_RD, IBA_COMPARE_SWAP), 0, 0);
	memcpy(bytes + 36,
	       "\0\0\0\0\0\0\0\x05"
	       "\0\0\0\0\0\0\0\x06",
	       16);
	EXPECT_EQ(iba_decode(&p, bytes, length), WEFT_OK);
	EXPECT(p.swap_add == 5 && p.compare == 6);
	length = packet(bytes, iba_opcode(IBA_RC, IBA_FLUSH), 0, 0);
	bytes[15] = 0x1f;
	EXPECT_EQ(iba_decode(&p, bytes, length), WEFT_OK);
	EXPECT(p.flush_level == 1 && p.flush_type == 15);
	bytes[15] = 0xf1;
	EXPECT_EQ(iba_decode(&p, bytes, length), WEFT_OK);
	EXPECT(p.flush_level == 3 && p.flush_type == 1);
	length = packet(bytes, iba_opcode(IBA_XRC, IBA_SEND_ONLY), 0, 0);
	bytes[15] = 9;
	EXPECT_EQ(iba_decode(&p, bytes, length), WEFT_OK);
	EXPECT_EQ(p.xrc_srq, 9);
}

TEST(test_iba_9_6_refused_by_version_opcode_and_end)
{
	uint8_t bytes[ROOM];

	for (uint32_t opcode = 0; opcode < 256; opcode++) {
		const struct iba_form *f = iba_form((uint8_t)opcode);
		size_t length = packet(bytes, (uint8_t)opcode, 0, 0);

		for (size_t i = 0; i < IBA_BTH_BYTES + IBA_ICRC_BYTES; i++)
			EXPECT_EQ(decode(bytes, i), WEFT_R_IB_SHORT);
		if (f->kind == IBA_KIND_NONE) {
			EXPECT_EQ(decode(bytes, 64), WEFT_R_IB_OPCODE);
			continue;
		}
		EXPECT_EQ(decode(bytes, length - 1), WEFT_R_IB_SHORT);
		for (uint8_t version = 1; version < 16; version++) {
			bytes[1] = version;
			EXPECT_EQ(decode(bytes, length), WEFT_R_IB_VERSION);
		}
	}
	EXPECT_EQ(decode(NULL, 0), WEFT_R_IB_SHORT);
}

TEST(test_iba_9_4_refused_by_padding)
{
	EXPECT_EQ(judge(0x04, 1, 4), WEFT_OK);
	EXPECT_EQ(judge(0x04, 3, 4), WEFT_OK);
	EXPECT_EQ(judge(0x04, 1, 0), WEFT_R_IB_PAD);
	EXPECT_EQ(judge(0x04, 3, 2), WEFT_R_IB_PAD);
	EXPECT_EQ(judge(0x02, 3, 4), WEFT_OK);
	/* Full packets need none, and those without payload have none. */
	EXPECT_EQ(judge(0x00, 1, 260), WEFT_R_IB_PAD);
	EXPECT_EQ(judge(0x07, 3, 256), WEFT_R_IB_PAD);
	EXPECT_EQ(judge(0x11, 1, 0), WEFT_R_IB_PAD);
	EXPECT_EQ(judge(0x0c, 2, 4), WEFT_R_IB_LENGTH);
}

TEST(test_iba_9_4_refused_by_length)
{
	for (uint32_t rest = 0; rest <= IBA_PAYLOAD_MAX + 8; rest++) {
		bool is_word = rest % 4 == 0 && rest <= IBA_PAYLOAD_MAX;
		bool is_full = rest == 256 || rest == 512 || rest == 1024 || rest == 2048 ||
			       rest == 4096;

		EXPECT_EQ(judge(0x04, 0, rest), is_word ? WEFT_OK : WEFT_R_IB_LENGTH);
		EXPECT_EQ(judge(0x00, 0, rest), is_full ? WEFT_OK : WEFT_R_IB_LENGTH);
		EXPECT_EQ(judge(0x0e, 0, rest), is_full ? WEFT_OK : WEFT_R_IB_LENGTH);
		EXPECT_EQ(judge(0x08, 0, rest), is_word && rest ? WEFT_OK : WEFT_R_IB_LENGTH);
		EXPECT_EQ(judge(0x11, 0, rest), rest == 0 ? WEFT_OK : WEFT_R_IB_LENGTH);
		EXPECT_EQ(judge(0x1d, 0, rest), rest == 8 ? WEFT_OK : WEFT_R_IB_LENGTH);
		EXPECT_EQ(judge(0x55, 0, rest), rest == 0 ? WEFT_OK : WEFT_R_IB_LENGTH);
		EXPECT_EQ(judge(IBA_CNP, 0, rest), rest == 0 ? WEFT_OK : WEFT_R_IB_LENGTH);
	}
	EXPECT_EQ(judge(0x04, 3, IBA_PAYLOAD_MAX), WEFT_OK);
	EXPECT_EQ(judge(0x04, 3, IBA_PAYLOAD_MAX + 4), WEFT_R_IB_LENGTH);
}

/* However long the datagram. */
TEST(test_iba_9_4_refused_when_too_long)
{
	static uint8_t bytes[65536];

	bytes[0] = 0x04;
	for (size_t length = IBA_PACKET_MAX; length < sizeof(bytes); length += 4)
		EXPECT_EQ(decode(bytes, length), WEFT_R_IB_LENGTH);
}

TEST(test_iba_9_7_lengths_on_a_path)
{
	struct iba_packet p = { .opcode = 0x00, .payload_bytes = 1024 };

	EXPECT(iba_fits_mtu(&p, 1024) && !iba_fits_mtu(&p, 2048) && !iba_fits_mtu(&p, 512));
	p.opcode = 0x04;
	EXPECT(iba_fits_mtu(&p, 1024) && iba_fits_mtu(&p, 2048) && !iba_fits_mtu(&p, 512));
	p.opcode = 0x0e;
	EXPECT(!iba_fits_mtu(&p, 2048));
	for (uint8_t code = 1; code <= 5; code++) {
		uint32_t bytes = iba_mtu_bytes(code);

		EXPECT_EQ(bytes, 1u << (7 + code));
		EXPECT_EQ(iba_mtu_code(bytes), code);
		EXPECT_EQ(iba_mtu_code(bytes - 1), code - 1);
	}
	EXPECT(iba_mtu_bytes(0) == 0 && iba_mtu_bytes(6) == 0 && iba_mtu_code(65535) == 5);
	EXPECT(iba_pad(0) == 0 && iba_pad(1) == 3 && iba_pad(6) == 2 && iba_pad(4095) == 1);
	EXPECT_EQ(iba_packet_bytes(0x0a, 5), 12 + 16 + 5 + 3 + 4);
}

TEST(test_iba_10_9_partitions)
{
	EXPECT(iba_pkey_match(0xffff, 0xffff) && iba_pkey_match(0xffff, 0x7fff));
	EXPECT(iba_pkey_match(0x7fff, 0xffff) && !iba_pkey_match(0x7fff, 0x7fff));
	EXPECT(!iba_pkey_match(0xffff, 0xfffe) && !iba_pkey_match(0x8001, 0x8003));
}

TEST(test_iba_a17_flow_labels_and_ports)
{
	EXPECT_EQ(iba_flow_label(0x11, 0x12), 0x132);
	EXPECT_EQ(iba_flow_label(0xffffff, 0xffffff), 0xfff1e);
	EXPECT_EQ(iba_udp_port(0), 0xc000);
	EXPECT_EQ(iba_udp_port(0x3ffa7), 0xffa8);
	EXPECT_EQ(iba_udp_port(0xfffff), 0xc000 | (0x3fff ^ 0x3f));
}
