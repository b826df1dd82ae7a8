/* SPDX-License-Identifier: BSD-2-Clause */
/* Layouts of RFC 7143: golden bytes of every PDU, written by hand, there and back. */
#include "wire/iscsi.h"

#include <string.h>

#include "base/crc.h"
#include "iscsi_fixture.h"
#include "test.h"
#include "wire/iscsi_sn.h"

/* The words of a BHS, in its order: 0, 4, 8 and 12, 16, 20, then those from 24 on. */
static const struct {
	const char *bytes;
	struct iscsi_pdu pdu;
} golden[] = {
	/* 11.18: a ping; 11.18: an answer to one */
	{ "40800000 00000004 0102030405060708 00000021 ffffffff"
	  "00000031 00000041 00000000 00000000 00000000 00000000",
	  { .opcode = ISCSI_NOP_OUT,
	    .is_immediate = true,
	    .is_final = true,
	    .data_bytes = 4,
	    .lun = 0x0102030405060708,
	    .itt = 0x21,
	    .ttt = UINT32_MAX,
	    .cmd_sn = 0x31,
	    .exp_stat_sn = 0x41 } },
	{ "40800000 00000000 0001000000000000 ffffffff 0000aa01"
	  "00000032 00000042 00000000 00000000 00000000 00000000",
	  { .opcode = ISCSI_NOP_OUT,
	    .is_immediate = true,
	    .is_final = true,
	    .lun = 0x0001000000000000,
	    .itt = UINT32_MAX,
	    .ttt = 0xaa01,
	    .cmd_sn = 0x32,
	    .exp_stat_sn = 0x42 } },
	/* 11.3: READ(10), simple; WRITE(10), ordered, with immediate data and more to follow */
	{ "01c10000 00000000 0001000000000000 00000011 00001000"
	  "00000005 00000009 28000000 00080000 08000000 00000000",
	  { .opcode = ISCSI_SCSI_COMMAND,
	    .is_final = true,
	    .is_read = true,
	    .attr = ISCSI_ATTR_SIMPLE,
	    .lun = 0x0001000000000000,
	    .itt = 0x11,
	    .ttt = UINT32_MAX,
	    .expected_bytes = 0x1000,
	    .cmd_sn = 5,
	    .exp_stat_sn = 9,
	    .cdb = { 0x28, 0, 0, 0, 0, 8, 0, 0, 8 } } },
	{ "41220000 00010000 0000000000000000 80000012 00020000"
	  "00000006 0000000a 2a000000 00080000 80000000 000000ff",
	  { .opcode = ISCSI_SCSI_COMMAND,
	    .is_immediate = true,
	    .is_write = true,
	    .attr = ISCSI_ATTR_ORDERED,
	    .data_bytes = 0x10000,
	    .itt = 0x80000012,
	    .ttt = UINT32_MAX,
	    .expected_bytes = 0x20000,
	    .cmd_sn = 6,
	    .exp_stat_sn = 10,
	    .cdb = { 0x2a, 0, 0, 0, 0, 8, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0xff } } },
	/* 11.5 */
	{ "42810000 00000000 0002000000000000 00000013 00000011"
	  "00000007 0000000b 00000005 00000003 00000000 00000000",
	  { .opcode = ISCSI_TASK_REQUEST,
	    .is_immediate = true,
	    .is_final = true,
	    .code = ISCSI_ABORT_TASK,
	    .lun = 0x0002000000000000,
	    .itt = 0x13,
	    .ref_itt = 0x11,
	    .ttt = UINT32_MAX,
	    .cmd_sn = 7,
	    .exp_stat_sn = 11,
	    .ref_cmd_sn = 5,
	    .data_sn = 3 } },
	{ "02850000 00000000 0002000000000000 00000014 ffffffff"
	  "00000008 0000000b 00000000 00000000 00000000 00000000",
	  { .opcode = ISCSI_TASK_REQUEST,
	    .is_final = true,
	    .code = ISCSI_LU_RESET,
	    .lun = 0x0002000000000000,
	    .itt = 0x14,
	    .ref_itt = UINT32_MAX,
	    .ttt = UINT32_MAX,
	    .cmd_sn = 8,
	    .exp_stat_sn = 11 } },
	/* 11.12: from operational negotiation to full feature phase */
	{ "43870100 00000021 800001020304 0005 00000015 00070000"
	  "00000009 0000000c 00000000 00000000 00000000 00000000",
	  { .opcode = ISCSI_LOGIN_REQUEST,
	    .is_immediate = true,
	    .is_final = true,
	    .csg = ISCSI_STAGE_OPERATIONAL,
	    .nsg = ISCSI_STAGE_FULL_FEATURE,
	    .version_max = 1,
	    .data_bytes = 0x21,
	    .isid = 0x800001020304,
	    .tsih = 5,
	    .itt = 0x15,
	    .ttt = UINT32_MAX,
	    .cid = 7,
	    .cmd_sn = 9,
	    .exp_stat_sn = 12 } },
	/* 11.10 */
	{ "04400000 00000100 0000000000000000 00000016 0000bb02"
	  "0000000a 0000000d 00000000 00000000 00000000 00000000",
	  { .opcode = ISCSI_TEXT_REQUEST,
	    .is_continued = true,
	    .data_bytes = 0x100,
	    .itt = 0x16,
	    .ttt = 0xbb02,
	    .cmd_sn = 10,
	    .exp_stat_sn = 13 } },
	/* 11.7: the last of a burst */
	{ "05800000 00002000 0001000000000000 00000012 0000cc03"
	  "00000000 0000000e 00000000 00000002 00012000 00000000",
	  { .opcode = ISCSI_DATA_OUT,
	    .is_final = true,
	    .data_bytes = 0x2000,
	    .lun = 0x0001000000000000,
	    .itt = 0x12,
	    .ttt = 0xcc03,
	    .exp_stat_sn = 14,
	    .data_sn = 2,
	    .offset = 0x12000 } },
	/* 11.14 */
	{ "46810000 00000000 0000000000000000 00000017 00030000"
	  "0000000b 0000000f 00000000 00000000 00000000 00000000",
	  { .opcode = ISCSI_LOGOUT_REQUEST,
	    .is_immediate = true,
	    .is_final = true,
	    .code = ISCSI_LOGOUT_CONNECTION,
	    .itt = 0x17,
	    .ttt = UINT32_MAX,
	    .cid = 3,
	    .cmd_sn = 11,
	    .exp_stat_sn = 15 } },
	/* 11.16: status; R-Data */
	{ "10810000 00000000 0000000000000000 ffffffff ffffffff"
	  "00000000 00000010 00000000 00000000 00000020 00000002",
	  { .opcode = ISCSI_SNACK,
	    .is_final = true,
	    .code = ISCSI_SNACK_STATUS,
	    .itt = UINT32_MAX,
	    .ttt = UINT32_MAX,
	    .exp_stat_sn = 16,
	    .beg_run = 32,
	    .run_length = 2 } },
	{ "10830000 00000000 0004000000000000 00000018 00000001"
	  "00000000 00000010 00000000 00000000 00000021 00000000",
	  { .opcode = ISCSI_SNACK,
	    .is_final = true,
	    .code = ISCSI_SNACK_R_DATA,
	    .lun = 0x0004000000000000,
	    .itt = 0x18,
	    .ttt = 1,
	    .exp_stat_sn = 16,
	    .beg_run = 33 } },
	/* 11.19: a ping of the target */
	{ "20800000 00000000 0001000000000000 ffffffff 0000aa01"
	  "00000042 00000033 00000073 00000000 00000000 00000000",
	  { .opcode = ISCSI_NOP_IN,
	    .is_final = true,
	    .lun = 0x0001000000000000,
	    .itt = UINT32_MAX,
	    .ttt = 0xaa01,
	    .stat_sn = 0x42,
	    .exp_cmd_sn = 0x33,
	    .max_cmd_sn = 0x73 } },
	/* 11.4: CHECK CONDITION with sense data and less than expected */
	{ "21820002 00000014 0000000000000000 00000011 00000000"
	  "0000000a 00000006 00000046 00000001 00000000 00000200",
	  { .opcode = ISCSI_SCSI_RESPONSE,
	    .is_final = true,
	    .is_underflow = true,
	    .status = 2,
	    .data_bytes = 20,
	    .itt = 0x11,
	    .stat_sn = 10,
	    .exp_cmd_sn = 6,
	    .max_cmd_sn = 0x46,
	    .data_sn = 1,
	    .residual = 0x200 } },
	/* 11.4: both residuals; and a target failure */
	{ "218c0000 00000000 0000000000000000 00000011 00000009"
	  "0000000a 00000006 00000046 00000001 00000300 00000200",
	  { .opcode = ISCSI_SCSI_RESPONSE,
	    .is_final = true,
	    .is_overflow = true,
	    .is_read_underflow = true,
	    .itt = 0x11,
	    .ttt = 9,
	    .stat_sn = 10,
	    .exp_cmd_sn = 6,
	    .max_cmd_sn = 0x46,
	    .data_sn = 1,
	    .residual = 0x200,
	    .read_residual = 0x300 } },
	{ "21800100 00000000 0000000000000000 00000011 00000000"
	  "0000000a 00000006 00000046 00000000 00000000 00000000",
	  { .opcode = ISCSI_SCSI_RESPONSE,
	    .is_final = true,
	    .code = ISCSI_TARGET_FAILURE,
	    .itt = 0x11,
	    .stat_sn = 10,
	    .exp_cmd_sn = 6,
	    .max_cmd_sn = 0x46 } },
	/* 11.6 */
	{ "2280ff00 00000000 0000000000000000 00000013 00000000"
	  "0000000b 00000007 00000047 00000000 00000000 00000000",
	  { .opcode = ISCSI_TASK_RESPONSE,
	    .is_final = true,
	    .code = ISCSI_TASK_REJECTED,
	    .itt = 0x13,
	    .ttt = UINT32_MAX,
	    .stat_sn = 11,
	    .exp_cmd_sn = 7,
	    .max_cmd_sn = 0x47 } },
	/* 11.13: the login is done; and a refused one */
	{ "23830000 00000000 800001020304 0009 00000015 00000000"
	  "0000000c 00000009 00000049 00000000 00000000 00000000",
	  { .opcode = ISCSI_LOGIN_RESPONSE,
	    .is_final = true,
	    .nsg = ISCSI_STAGE_FULL_FEATURE,
	    .isid = 0x800001020304,
	    .tsih = 9,
	    .itt = 0x15,
	    .ttt = UINT32_MAX,
	    .stat_sn = 12,
	    .exp_cmd_sn = 9,
	    .max_cmd_sn = 0x49 } },
	{ "23000000 00000000 800001020304 0000 00000015 00000000"
	  "00000000 00000000 00000000 02030000 00000000 00000000",
	  { .opcode = ISCSI_LOGIN_RESPONSE,
	    .isid = 0x800001020304,
	    .itt = 0x15,
	    .ttt = UINT32_MAX,
	    .status_class = 2,
	    .status_detail = 3 } },
	/* 11.11 */
	{ "24000000 00001fff 0001000000000000 00000016 0000bb02"
	  "0000000d 0000000a 0000004a 00000000 00000000 00000000",
	  { .opcode = ISCSI_TEXT_RESPONSE,
	    .data_bytes = 0x1fff,
	    .lun = 0x0001000000000000,
	    .itt = 0x16,
	    .ttt = 0xbb02,
	    .stat_sn = 13,
	    .exp_cmd_sn = 10,
	    .max_cmd_sn = 0x4a } },
	/* 11.7: one of many, to be acknowledged; and the last, with status */
	{ "25400000 00fffffc 0001000000000000 00000011 0000dd04"
	  "00000000 00000006 00000046 00000007 00010000 00000000",
	  { .opcode = ISCSI_DATA_IN,
	    .wants_ack = true,
	    .data_bytes = 0xfffffc,
	    .lun = 0x0001000000000000,
	    .itt = 0x11,
	    .ttt = 0xdd04,
	    .exp_cmd_sn = 6,
	    .max_cmd_sn = 0x46,
	    .data_sn = 7,
	    .offset = 0x10000 } },
	{ "25830008 00000200 0000000000000000 00000011 ffffffff"
	  "0000000a 00000006 00000046 00000008 00020000 00000e00",
	  { .opcode = ISCSI_DATA_IN,
	    .is_final = true,
	    .has_status = true,
	    .is_underflow = true,
	    .status = 8,
	    .data_bytes = 0x200,
	    .itt = 0x11,
	    .ttt = UINT32_MAX,
	    .stat_sn = 10,
	    .exp_cmd_sn = 6,
	    .max_cmd_sn = 0x46,
	    .data_sn = 8,
	    .offset = 0x20000,
	    .residual = 0xe00 } },
	/* 11.15 */
	{ "26800200 00000000 0000000000000000 00000017 00000000"
	  "0000000f 0000000c 0000004c 00000000 00020014 00000000",
	  { .opcode = ISCSI_LOGOUT_RESPONSE,
	    .is_final = true,
	    .code = ISCSI_LOGOUT_NO_RECOVERY,
	    .itt = 0x17,
	    .ttt = UINT32_MAX,
	    .stat_sn = 15,
	    .exp_cmd_sn = 12,
	    .max_cmd_sn = 0x4c,
	    .time2wait = 2,
	    .time2retain = 20 } },
	/* 11.8 */
	{ "31800000 00000000 0001000000000000 00000012 0000cc03"
	  "0000000a 00000007 00000047 00000001 00010000 00010000",
	  { .opcode = ISCSI_R2T,
	    .is_final = true,
	    .lun = 0x0001000000000000,
	    .itt = 0x12,
	    .ttt = 0xcc03,
	    .stat_sn = 10,
	    .exp_cmd_sn = 7,
	    .max_cmd_sn = 0x47,
	    .data_sn = 1,
	    .offset = 0x10000,
	    .desired_bytes = 0x10000 } },
	/* 11.9: the connection 5 will be dropped */
	{ "32800000 00000000 0000000000000000 ffffffff 00000000"
	  "00000010 0000000c 0000004c 02aa0005 00020014 00000000",
	  { .opcode = ISCSI_ASYNC,
	    .is_final = true,
	    .code = ISCSI_ASYNC_DROP_CONNECTION,
	    .itt = UINT32_MAX,
	    .ttt = UINT32_MAX,
	    .stat_sn = 16,
	    .exp_cmd_sn = 12,
	    .max_cmd_sn = 0x4c,
	    .vendor_code = 0xaa,
	    .parameters = { 5, 2, 20 } } },
	/* 11.17 */
	{ "3f800900 00000030 0000000000000000 ffffffff 00000000"
	  "00000011 0000000c 0000004c 00000004 00000000 00000000",
	  { .opcode = ISCSI_REJECT,
	    .is_final = true,
	    .code = ISCSI_REJECT_FIELD,
	    .data_bytes = 48,
	    .itt = UINT32_MAX,
	    .ttt = UINT32_MAX,
	    .stat_sn = 17,
	    .exp_cmd_sn = 12,
	    .max_cmd_sn = 0x4c,
	    .data_sn = 4 } },
};

enum { GOLDEN = sizeof(golden) / sizeof(golden[0]) };

/* The fields that a PDU lacks: there is no reference but to a task. */
static struct iscsi_pdu expected_of(struct iscsi_pdu p)
{
	if (p.opcode != ISCSI_TASK_REQUEST)
		p.ref_itt = ISCSI_TAG_NONE;
	return p;
}

TEST(test_rfc7143_11_golden_bytes_of_every_pdu)
{
	uint64_t seen = 0;

	for (size_t i = 0; i < GOLDEN; i++) {
		struct iscsi_pdu wanted = expected_of(golden[i].pdu), got;
		uint8_t bytes[ISCSI_HEADER_MAX], again[ISCSI_HEADER_MAX];
		struct wr w = wr_of(again, sizeof(again));
		size_t length = iscsi_hex(bytes, sizeof(bytes), golden[i].bytes);
		enum iscsi_side sender = iscsi_sender(wanted.opcode);

		harness_note("golden PDU %zu, %s", i, iscsi_opcode_name(wanted.opcode));
		EXPECT_EQ(length, ISCSI_BHS_BYTES);
		EXPECT_EQ(iscsi_decode(&got, sender, rd_of(bytes, length), ISCSI_ANY_DATA),
			  WEFT_OK);
		EXPECT(iscsi_same(&got, &wanted));
		iscsi_encode(&wanted, &w);
		EXPECT(!w.is_short);
		EXPECT_EQ(w.at - again, length);
		EXPECT_MEM(again, bytes, length);
		seen |= UINT64_C(1) << wanted.opcode;
	}
	EXPECT_EQ(__builtin_popcountll(seen), ISCSI_KINDS);
}

TEST(test_rfc7143_11_2_2_3_extended_cdb)
{
	/* 32 bytes of CDB, and one of 18: AHSLength is the CDB's length less 15. */
	static const char *const texts[] = {
		"01e00000 05000000 0000000000000000 00000011 00000200 00000005 00000009"
		"7f000000 00000018 00090000 00000000"
		"0011 01 00 00000001 00000002 00000003 00000004",
		"01800000 02000000 0000000000000000 00000011 00000000 00000005 00000009"
		"7f000000 00000002 00090000 00000000"
		"0003 01 00 abcd 0000",
	};
	static const uint8_t more[] = { 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4 };
	uint8_t bytes[80], again[80];
	struct wr w = wr_of(again, sizeof(again));
	struct iscsi_pdu p;
	size_t length;

	length = iscsi_hex(bytes, sizeof(bytes), texts[0]);
	bytes[1] = 0xc0; /* a read */
	EXPECT_EQ(iscsi_header_bytes(bytes), length);
	EXPECT_EQ(iscsi_decode(&p, ISCSI_INITIATOR, rd_of(bytes, length), 0), WEFT_OK);
	EXPECT_EQ(p.cdb_more_bytes, 16);
	EXPECT_MEM(p.cdb_more, more, sizeof(more));
	EXPECT(!p.has_read_expected);
	iscsi_encode(&p, &w);
	EXPECT_EQ(w.at - again, length);
	EXPECT_MEM(again, bytes, length);

	length = iscsi_hex(bytes, sizeof(bytes), texts[1]);
	EXPECT_EQ(iscsi_decode(&p, ISCSI_INITIATOR, rd_of(bytes, length), 0), WEFT_OK);
	EXPECT_EQ(p.cdb_more_bytes, 2);
	EXPECT(p.cdb_more[0] == 0xab && p.cdb_more[1] == 0xcd);
	w = wr_of(again, sizeof(again));
	iscsi_encode(&p, &w);
	EXPECT_EQ(w.at - again, length);
	EXPECT_MEM(again, bytes, length);
}

TEST(test_rfc7143_11_2_2_4_bidirectional_read_length)
{
	static const char text[] =
		"01e00000 04000000 0000000000000000 00000011 00000200 00000005 00000009"
		"7f000000 00000018 00090000 00000000"
		"0003 01 00 abcd 0000  0005 02 00 12345678";
	uint8_t bytes[80], again[80];
	struct wr w = wr_of(again, sizeof(again));
	size_t length = iscsi_hex(bytes, sizeof(bytes), text);
	struct iscsi_pdu p;

	EXPECT_EQ(iscsi_decode(&p, ISCSI_INITIATOR, rd_of(bytes, length), 0), WEFT_OK);
	EXPECT(p.is_read && p.is_write && p.has_read_expected);
	EXPECT_EQ(p.read_expected_bytes, 0x12345678);
	EXPECT_EQ(p.cdb_more_bytes, 2);
	iscsi_encode(&p, &w);
	EXPECT_EQ(w.at - again, length);
	EXPECT_MEM(again, bytes, length);
}

TEST(test_rfc7143_11_random_pdus_there_and_back)
{
	static uint8_t cdb[ISCSI_CDB_MORE_MAX];
	struct prng random = { 7143 };

	for (uint32_t i = 0; i < 20000; i++) {
		uint8_t bytes[ISCSI_HEADER_MAX], opcode = iscsi_kinds[i % ISCSI_KINDS];
		struct wr w = wr_of(bytes, sizeof(bytes));
		struct iscsi_pdu p, got;
		size_t length;

		iscsi_random(&p, opcode, cdb, &random);
		iscsi_encode(&p, &w);
		EXPECT(!w.is_short);
		length = (size_t)(w.at - bytes);
		EXPECT_EQ(iscsi_header_bytes(bytes), length);
		EXPECT_EQ(iscsi_data_bytes(bytes), p.data_bytes);
		harness_note("PDU %u, %s", i, iscsi_opcode_name(opcode));
		EXPECT_EQ(iscsi_decode(&got, iscsi_sender(opcode), rd_of(bytes, length),
				       p.data_bytes),
			  WEFT_OK);
		EXPECT(iscsi_same(&got, &p));
	}
}

/* No byte of a header that is cut is looked at, and what was there before stays. */
TEST(test_rfc7143_11_2_cut_headers)
{
	static uint8_t cdb[ISCSI_CDB_MORE_MAX];
	struct prng random = { 48 };

	for (uint32_t i = 0; i < ISCSI_KINDS * 20; i++) {
		uint8_t bytes[ISCSI_HEADER_MAX], opcode = iscsi_kinds[i % ISCSI_KINDS];
		struct wr w = wr_of(bytes, sizeof(bytes));
		struct iscsi_pdu p, got = { .itt = 77 };
		size_t length;

		iscsi_random(&p, opcode, cdb, &random);
		iscsi_encode(&p, &w);
		length = (size_t)(w.at - bytes);
		for (size_t cut = 0; cut < length; cut++)
			EXPECT_EQ(iscsi_decode(&got, iscsi_sender(opcode), rd_of(bytes, cut),
					       ISCSI_ANY_DATA),
				  WEFT_R_ISCSI_SHORT);
		EXPECT_EQ(got.itt, 77);
	}
	EXPECT_EQ(iscsi_decode(&(struct iscsi_pdu){ 0 }, ISCSI_TARGET, rd_of(NULL, 0), 0),
		  WEFT_R_ISCSI_SHORT);
}

TEST(test_rfc7143_11_encoding_never_leaves_its_buffer)
{
	const struct iscsi_pdu p = { .opcode = ISCSI_SCSI_COMMAND,
				     .is_final = true,
				     .has_read_expected = true };
	uint8_t bytes[60];

	for (size_t room = 0; room <= 56; room++) {
		struct wr w = wr_of(bytes, room);

		memset(bytes, 0xee, sizeof(bytes));
		iscsi_encode(&p, &w);
		EXPECT_EQ(w.is_short, room < 56);
		EXPECT_EQ(bytes[room], 0xee);
	}
}

/* Section 11.1.1: what is reserved is sent as 0, and ignored. */
TEST(test_rfc7143_11_1_1_reserved_bits_are_ignored)
{
	static uint8_t cdb[ISCSI_CDB_MORE_MAX];
	struct prng random = { 11 };

	for (size_t i = 0; i < GOLDEN; i++) {
		uint8_t clean[ISCSI_HEADER_MAX], dirty[ISCSI_HEADER_MAX];
		struct iscsi_pdu a, b;
		enum iscsi_side sender;

		(void)iscsi_hex(clean, sizeof(clean), golden[i].bytes);
		sender = iscsi_sender(clean[0] & 0x3f);
		memcpy(dirty, clean, ISCSI_BHS_BYTES);
		dirty[0] |= 0x80; /* in all */
		EXPECT_EQ(iscsi_decode(&a, sender, rd_of(clean, 48), ISCSI_ANY_DATA), WEFT_OK);
		EXPECT_EQ(iscsi_decode(&b, sender, rd_of(dirty, 48), ISCSI_ANY_DATA), WEFT_OK);
		EXPECT(iscsi_same(&a, &b));
	}
	/* I of those that have none; bytes of a response to a task management function. */
	for (int i = 0; i < ISCSI_KINDS; i++) {
		uint8_t bytes[ISCSI_HEADER_MAX], opcode = iscsi_kinds[i];
		struct wr w = wr_of(bytes, sizeof(bytes));
		struct iscsi_pdu p, got;

		if (opcode != ISCSI_DATA_OUT && opcode != ISCSI_SNACK && opcode < ISCSI_NOP_IN)
			continue;
		iscsi_random(&p, opcode, cdb, &random);
		iscsi_encode(&p, &w);
		bytes[0] |= 0x40;
		if (opcode == ISCSI_TASK_RESPONSE) {
			memset(bytes + 8, 0xff, 8);
			memset(bytes + 36, 0xff, 12);
			bytes[1] = bytes[3] = 0xff;
		}
		EXPECT_EQ(
			iscsi_decode(&got, iscsi_sender(opcode), rd_of(bytes, 48), ISCSI_ANY_DATA),
			WEFT_OK);
		EXPECT(iscsi_same(&got, &p));
	}
}

TEST(test_rfc7143_11_7_status_fields_without_s_are_ignored)
{
	static const char text[] = "2506ff02 00000200 ffffffffffffffff 00000011 12345678"
				   "00000063 00000006 00000046 00000008 00020000 00000e00";
	uint8_t bytes[48];
	struct iscsi_pdu p;

	(void)iscsi_hex(bytes, sizeof(bytes), text);
	EXPECT_EQ(iscsi_decode(&p, ISCSI_TARGET, rd_of(bytes, 48), 512), WEFT_OK);
	EXPECT(!p.has_status && !p.is_overflow && !p.is_underflow && p.status == 0);
	EXPECT(p.stat_sn == 0 && p.residual == 0 && p.lun == 0 && p.ttt == ISCSI_TAG_NONE);
}

TEST(test_rfc7143_11_2_the_length_of_a_pdu_from_its_first_bytes)
{
	uint8_t bhs[ISCSI_BHS_BYTES] = { 0 };

	EXPECT_EQ(iscsi_pdu_bytes(bhs, false, false), 48);
	EXPECT_EQ(iscsi_pdu_bytes(bhs, true, true), 52); /* no data, no data digest */
	bhs[4] = 255;
	EXPECT_EQ(iscsi_header_bytes(bhs), ISCSI_HEADER_MAX);
	EXPECT_EQ(iscsi_pdu_bytes(bhs, false, false), 48 + 1020);
	bhs[4] = 0;
	bhs[7] = 1;
	EXPECT_EQ(iscsi_pdu_bytes(bhs, false, false), 52);
	EXPECT_EQ(iscsi_pdu_bytes(bhs, false, true), 56);
	EXPECT_EQ(iscsi_pdu_bytes(bhs, true, true), 60);
	bhs[5] = bhs[6] = bhs[7] = 0xff;
	EXPECT_EQ(iscsi_data_bytes(bhs), ISCSI_DATA_MAX);
	EXPECT_EQ(iscsi_pdu_bytes(bhs, true, true), 48 + 4 + (1 << 24) + 4);
	for (uint32_t n = 0; n < 9; n++)
		EXPECT(iscsi_pad(n) < 4 && (n + iscsi_pad(n)) % 4 == 0);
}

/* RFC 7143 appendix A.4: examples, as bytes on the wire. */
TEST(test_rfc7143_13_1_digests_are_crc32c_least_significant_byte_first)
{
	/* The last is of a READ(10). */
	static const char command[] = "01c00000 00000000 0000000000000000 14000000 00000400"
				      "00000014 00000018 28000000 00000000 02000000 00000000";
	static const uint8_t wanted[3][4] = { { 0xaa, 0x36, 0x91, 0x8a },
					      { 0x43, 0xab, 0xa8, 0x62 },
					      { 0x56, 0x3a, 0x96, 0xd9 } };
	uint8_t bytes[48] = { 0 }, digest[4];

	iscsi_digest_encode(iscsi_header_digest(bytes, 32), digest);
	EXPECT_MEM(digest, wanted[0], 4);
	memset(bytes, 0xff, 32);
	iscsi_digest_encode(iscsi_header_digest(bytes, 32), digest);
	EXPECT_MEM(digest, wanted[1], 4);
	(void)iscsi_hex(bytes, sizeof(bytes), command);
	iscsi_digest_encode(iscsi_header_digest(bytes, 48), digest);
	EXPECT_MEM(digest, wanted[2], 4);
	EXPECT_EQ(iscsi_digest_decode(digest), 0xd9963a56);
	EXPECT_EQ(iscsi_header_check(bytes, 48, digest), WEFT_OK);
	bytes[47] ^= 1;
	EXPECT_EQ(iscsi_header_check(bytes, 48, digest), WEFT_R_ISCSI_HEADER_DIGEST);
}

TEST(test_rfc7143_11_2_3_a_data_digest_covers_the_padding)
{
	uint8_t data[8] = { 1, 2, 3, 4, 5 }, digest[4];

	for (uint32_t n = 1; n <= 5; n++) {
		uint32_t crc = crc32c_add(CRC32C_BEGIN, data, n), padded = n + iscsi_pad(n);

		iscsi_digest_encode(iscsi_data_digest(crc, n), digest);
		memset(data + n, 0, sizeof(data) - n);
		crc = crc32c_add(CRC32C_BEGIN, data, padded);
		EXPECT_EQ(iscsi_data_check(crc, digest), WEFT_OK);
		EXPECT_EQ(crc32c_end(crc), iscsi_digest_decode(digest));
		data[padded - 1] ^= 0x80;
		crc = crc32c_add(CRC32C_BEGIN, data, padded);
		EXPECT_EQ(iscsi_data_check(crc, digest), WEFT_R_ISCSI_DATA_DIGEST);
		memcpy(data, (const uint8_t[]){ 1, 2, 3, 4, 5 }, 5);
	}
}

TEST(test_rfc7143_11_4_7_sense_data)
{
	const uint8_t data[] = { 0, 3, 0x70, 0, 5, 0xaa, 0xbb };
	struct iscsi_sense s = { .sense_bytes = 77 };

	for (size_t n = 1; n < 5; n++)
		EXPECT_EQ(iscsi_sense_decode(&s, data, n), WEFT_R_ISCSI_DATA_LENGTH);
	EXPECT_EQ(s.sense_bytes, 77);
	EXPECT_EQ(iscsi_sense_decode(&s, data, sizeof(data)), WEFT_OK);
	EXPECT(s.sense == data + 2 && s.sense_bytes == 3);
	EXPECT(s.more == data + 5 && s.more_bytes == 2);
	EXPECT_EQ(iscsi_sense_decode(&s, data, 5), WEFT_OK);
	EXPECT(s.sense_bytes == 3 && s.more_bytes == 0);
	EXPECT_EQ(iscsi_sense_decode(&s, NULL, 0), WEFT_OK);
	EXPECT(s.sense_bytes == 0 && s.more_bytes == 0);
}

TEST(test_rfc7143_4_2_2_serial_numbers_wrap)
{
	EXPECT_EQ(iscsi_sn_diff(5, 3), 2);
	EXPECT_EQ(iscsi_sn_diff(2, UINT32_MAX), 3);
	EXPECT(iscsi_sn_is_before(UINT32_MAX, 0));
	EXPECT(!iscsi_sn_is_before(0, UINT32_MAX));
	EXPECT(!iscsi_sn_is_before(7, 7));
	EXPECT(iscsi_sn_is_before(0, 0x7fffffff));
	EXPECT(!iscsi_sn_is_before(0, 0x80000001));
}

TEST(test_rfc7143_4_2_2_1_the_window_of_commands)
{
	struct iscsi_window w = { .exp = UINT32_MAX, .max = 1 };

	EXPECT_EQ(iscsi_window_size(&w), 3);
	EXPECT(iscsi_window_has(&w, UINT32_MAX) && iscsi_window_has(&w, 0));
	EXPECT(iscsi_window_has(&w, 1) && !iscsi_window_has(&w, 2));
	EXPECT(!iscsi_window_has(&w, UINT32_MAX - 1));
	w.max = w.exp - 1;
	EXPECT_EQ(iscsi_window_size(&w), 0); /* closed */
	EXPECT(!iscsi_window_has(&w, w.exp));
	w.max = w.exp - 2;
	EXPECT_EQ(iscsi_window_size(&w), 0);

	w = (struct iscsi_window){ .exp = 10, .max = 20 };
	iscsi_window_update(&w, 12, 18); /* one is older */
	EXPECT(w.exp == 12 && w.max == 20);
	iscsi_window_update(&w, 11, 21);
	EXPECT(w.exp == 12 && w.max == 21);
	iscsi_window_update(&w, 30, 28); /* a contradiction */
	EXPECT(w.exp == 12 && w.max == 21);
	iscsi_window_update(&w, 30, 29); /* closed */
	EXPECT(w.exp == 30 && w.max == 29);
	EXPECT_EQ(iscsi_window_size(&w), 0);
}

TEST(test_rfc7143_11_2_1_2_names_of_opcodes)
{
	uint32_t known = 0;

	for (uint32_t i = 0; i < 256; i++) {
		const char *name = iscsi_opcode_name((uint8_t)i);

		EXPECT(name);
		known += strcmp(name, "unknown PDU") != 0;
	}
	EXPECT_EQ(known, ISCSI_KINDS);
	EXPECT_STR(iscsi_opcode_name(0x31), "R2T");
}
