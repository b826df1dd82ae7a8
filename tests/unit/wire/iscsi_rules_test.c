/* SPDX-License-Identifier: BSD-2-Clause */
/* PDUs that RFC 7143 forbids, clause by clause: each is a legal one with one change. */
#include <string.h>

#include "iscsi_fixture.h"
#include "test.h"

/* Legal PDUs to begin with. */
static const struct iscsi_pdu read_command = { .opcode = ISCSI_SCSI_COMMAND,
					       .is_final = true,
					       .is_read = true,
					       .attr = ISCSI_ATTR_SIMPLE,
					       .itt = 1,
					       .expected_bytes = 512 };
static const struct iscsi_pdu write_command = { .opcode = ISCSI_SCSI_COMMAND,
						.is_final = true,
						.is_write = true,
						.itt = 1,
						.data_bytes = 512,
						.expected_bytes = 1024 };
static const struct iscsi_pdu response = { .opcode = ISCSI_SCSI_RESPONSE, .itt = 1 };
static const struct iscsi_pdu data_in = {
	.opcode = ISCSI_DATA_IN, .is_final = true, .has_status = true, .itt = 1, .data_bytes = 512
};
static const struct iscsi_pdu data_out = {
	.opcode = ISCSI_DATA_OUT, .itt = 1, .ttt = 2, .data_bytes = 512
};
static const struct iscsi_pdu r2t = {
	.opcode = ISCSI_R2T, .itt = 1, .ttt = 2, .desired_bytes = 512
};
static const struct iscsi_pdu login = {
	.opcode = ISCSI_LOGIN_REQUEST, .is_final = true, .nsg = ISCSI_STAGE_OPERATIONAL, .itt = 1
};
static const struct iscsi_pdu login_answer = { .opcode = ISCSI_LOGIN_RESPONSE,
					       .is_final = true,
					       .csg = ISCSI_STAGE_OPERATIONAL,
					       .nsg = ISCSI_STAGE_FULL_FEATURE,
					       .tsih = 1,
					       .itt = 1 };
static const struct iscsi_pdu lu_reset = {
	.opcode = ISCSI_TASK_REQUEST, .code = ISCSI_LU_RESET, .itt = 1, .ref_itt = UINT32_MAX
};
static const struct iscsi_pdu reject = { .opcode = ISCSI_REJECT,
					 .code = ISCSI_REJECT_PROTOCOL,
					 .data_bytes = 48 };

/* What decoding says to the bytes, and that it leaves its result alone if it refuses. */
static enum weft_reason decode(const uint8_t *bytes, size_t length, uint32_t data_limit)
{
	struct iscsi_pdu p = { .status_detail = 77 };
	enum weft_reason reason = iscsi_decode(&p, iscsi_sender(bytes[0] & 0x3f),
					       rd_of(bytes, length), data_limit);

	REQUIRE((reason == WEFT_OK) == (p.status_detail != 77));
	return reason;
}

/* The PDU as it would be sent; encoding fixes only what cannot differ. */
static enum weft_reason send(const struct iscsi_pdu *p)
{
	uint8_t bytes[ISCSI_HEADER_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));

	iscsi_encode(p, &w);
	REQUIRE(!w.is_short);
	return decode(bytes, (size_t)(w.at - bytes), ISCSI_ANY_DATA);
}

/* The same with a bit of its bytes turned. */
static enum weft_reason send_turned(const struct iscsi_pdu *p, uint32_t byte, uint8_t bits)
{
	uint8_t bytes[ISCSI_HEADER_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));

	iscsi_encode(p, &w);
	bytes[byte] ^= bits;
	return decode(bytes, (size_t)(w.at - bytes), ISCSI_ANY_DATA);
}

/* Only this code or range of codes is defined: for codes of 0 to max. */
static void codes_are(struct iscsi_pdu p, uint32_t max, bool (*is_defined)(uint32_t code))
{
	for (uint32_t code = 0; code <= max; code++) {
		p.code = (uint8_t)code;
		harness_note("code %u", code);
		EXPECT_EQ(send(&p), is_defined(code) ? WEFT_OK : WEFT_R_ISCSI_CODE);
	}
}

TEST(test_rfc7143_11_2_1_2_opcodes_unknown_and_of_vendors)
{
	uint64_t known = 0;
	uint8_t bytes[ISCSI_BHS_BYTES] = { 0 };
	struct iscsi_pdu p;

	for (int i = 0; i < ISCSI_KINDS; i++)
		known |= UINT64_C(1) << iscsi_kinds[i];
	for (uint32_t i = 0; i < 256; i++) {
		enum weft_reason reasons[2];

		bytes[0] = (uint8_t)i;
		for (int side = 0; side < 2; side++)
			reasons[side] = iscsi_decode(&p, (enum iscsi_side)side,
						     rd_of(bytes, sizeof(bytes)), 0);
		EXPECT_EQ(reasons[0] == WEFT_R_ISCSI_OPCODE, !(known >> (i & 0x3f) & 1));
		EXPECT_EQ(reasons[1] == WEFT_R_ISCSI_OPCODE, !(known >> (i & 0x3f) & 1));
	}
}

TEST(test_rfc7143_11_2_1_2_opcodes_of_the_other_side)
{
	static uint8_t cdb[ISCSI_CDB_MORE_MAX];
	struct prng random = { 3 };

	for (int i = 0; i < ISCSI_KINDS; i++) {
		uint8_t bytes[ISCSI_HEADER_MAX];
		struct wr w = wr_of(bytes, sizeof(bytes));
		enum iscsi_side other = iscsi_sender(iscsi_kinds[i]) == ISCSI_TARGET
						? ISCSI_INITIATOR
						: ISCSI_TARGET;
		struct iscsi_pdu p;

		iscsi_random(&p, iscsi_kinds[i], cdb, &random);
		iscsi_encode(&p, &w);
		EXPECT_EQ(iscsi_decode(&p, other, rd_of(bytes, sizeof(bytes)), ISCSI_ANY_DATA),
			  WEFT_R_ISCSI_DIRECTION);
	}
}

TEST(test_rfc7143_11_2_1_3_f_is_1_in_pdus_that_are_alone)
{
	static uint8_t cdb[ISCSI_CDB_MORE_MAX];
	static const uint8_t may_lack[] = { ISCSI_SCSI_COMMAND,	  ISCSI_LOGIN_REQUEST,
					    ISCSI_LOGIN_RESPONSE, ISCSI_TEXT_REQUEST,
					    ISCSI_TEXT_RESPONSE,  ISCSI_DATA_OUT,
					    ISCSI_DATA_IN };
	struct prng random = { 4 };

	for (int i = 0; i < ISCSI_KINDS; i++) {
		struct iscsi_pdu p;

		if (memchr(may_lack, iscsi_kinds[i], sizeof(may_lack)))
			continue;
		iscsi_random(&p, iscsi_kinds[i], cdb, &random);
		EXPECT_EQ(send(&p), WEFT_OK);
		EXPECT_EQ(send_turned(&p, 1, 0x80), WEFT_R_ISCSI_FLAGS);
	}
}

TEST(test_rfc7143_11_2_1_4_only_commands_have_additional_headers)
{
	static uint8_t cdb[ISCSI_CDB_MORE_MAX];
	struct prng random = { 5 };

	for (int i = 0; i < ISCSI_KINDS; i++) {
		uint8_t bytes[ISCSI_HEADER_MAX] = { 0 };
		struct wr w = wr_of(bytes, sizeof(bytes));
		struct iscsi_pdu p;

		if (iscsi_kinds[i] == ISCSI_SCSI_COMMAND)
			continue;
		iscsi_random(&p, iscsi_kinds[i], cdb, &random);
		iscsi_encode(&p, &w);
		(void)iscsi_hex(w.at, 8, "0005 01 00 00000000"); /* a good one */
		bytes[4] = 2;
		EXPECT_EQ(decode(bytes, sizeof(bytes), ISCSI_ANY_DATA), WEFT_R_ISCSI_AHS);
	}
}

TEST(test_rfc7143_11_2_1_5_pdus_without_a_data_segment)
{
	static uint8_t cdb[ISCSI_CDB_MORE_MAX];
	static const uint8_t empty[] = {
		ISCSI_TASK_REQUEST,    ISCSI_TASK_RESPONSE, ISCSI_LOGOUT_REQUEST,
		ISCSI_LOGOUT_RESPONSE, ISCSI_R2T,	    ISCSI_SNACK
	};
	struct prng random = { 6 };

	for (size_t i = 0; i < sizeof(empty); i++) {
		struct iscsi_pdu p;

		iscsi_random(&p, empty[i], cdb, &random);
		EXPECT_EQ(send(&p), WEFT_OK);
		EXPECT_EQ(send_turned(&p, 7, 1), WEFT_R_ISCSI_DATA_LENGTH);
		EXPECT_EQ(send_turned(&p, 5, 0x80), WEFT_R_ISCSI_DATA_LENGTH);
	}
}

TEST(test_rfc7143_13_12_data_over_the_receivers_limit)
{
	uint8_t bytes[ISCSI_BHS_BYTES];
	struct wr w = wr_of(bytes, sizeof(bytes));

	iscsi_encode(&data_out, &w);
	EXPECT_EQ(decode(bytes, 48, 512), WEFT_OK);
	EXPECT_EQ(decode(bytes, 48, 511), WEFT_R_ISCSI_DATA_LIMIT);
	EXPECT_EQ(decode(bytes, 48, 0), WEFT_R_ISCSI_DATA_LIMIT);
}

/* A command with these additional segments, and so many words of them. */
static enum weft_reason send_ahs(uint8_t flags, uint8_t words, const char *ahs)
{
	uint8_t bytes[ISCSI_HEADER_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));
	size_t length;

	iscsi_encode(&read_command, &w);
	bytes[1] = flags;
	bytes[4] = words;
	length = 48 + iscsi_hex(w.at, 200, ahs);
	return decode(bytes, length, ISCSI_ANY_DATA);
}

TEST(test_rfc7143_11_2_2_additional_headers_that_are_malformed)
{
	EXPECT_EQ(send_ahs(0xc0, 2, "0005 01 00 00000000"), WEFT_OK);
	EXPECT_EQ(send_ahs(0xc0, 2, "0005 02 00 00000000"), WEFT_OK);
	EXPECT_EQ(send_ahs(0xc0, 2, "0005 c1 00 00000000"), WEFT_OK); /* reserved bits */
	/* Types that there are not. */
	EXPECT_EQ(send_ahs(0xc0, 2, "0005 00 00 00000000"), WEFT_R_ISCSI_AHS);
	EXPECT_EQ(send_ahs(0xc0, 2, "0005 03 00 00000000"), WEFT_R_ISCSI_AHS);
	EXPECT_EQ(send_ahs(0xc0, 2, "0005 3f 00 00000000"), WEFT_R_ISCSI_AHS);
	/* Longer than what there is, by the least and by the most. */
	EXPECT_EQ(send_ahs(0xc0, 2, "0006 01 00 00000000"), WEFT_R_ISCSI_AHS);
	EXPECT_EQ(send_ahs(0xc0, 2, "ffff 01 00 00000000"), WEFT_R_ISCSI_AHS);
	/* The last word belongs to none. */
	EXPECT_EQ(send_ahs(0xc0, 3, "0005 01 00 00000000 00000000"), WEFT_R_ISCSI_AHS);
	EXPECT_EQ(send_ahs(0xc0, 2, "0001 01 00 00000000"), WEFT_R_ISCSI_AHS);
}

TEST(test_rfc7143_11_2_2_3_an_extended_cdb_of_less_than_17_bytes)
{
	EXPECT_EQ(send_ahs(0xc0, 1, "0000 01 00"), WEFT_R_ISCSI_AHS);
	EXPECT_EQ(send_ahs(0xc0, 1, "0001 01 00"), WEFT_R_ISCSI_AHS);
	EXPECT_EQ(send_ahs(0xc0, 2, "0002 01 00 aa000000"), WEFT_OK);
}

TEST(test_rfc7143_11_2_2_two_additional_headers_of_a_kind)
{
	EXPECT_EQ(send_ahs(0xc0, 4, "0002 01 00 aa000000 0002 01 00 bb000000"), WEFT_R_ISCSI_AHS);
	EXPECT_EQ(send_ahs(0xc0, 4, "0005 02 00 aa000000 0005 02 00 bb000000"), WEFT_R_ISCSI_AHS);
}

TEST(test_rfc7143_11_2_2_4_a_bidirectional_length_of_another_size)
{
	EXPECT_EQ(send_ahs(0xc0, 1, "0001 02 00"), WEFT_R_ISCSI_AHS);
	EXPECT_EQ(send_ahs(0xc0, 2, "0004 02 00 00000000"), WEFT_R_ISCSI_AHS);
	EXPECT_EQ(send_ahs(0xc0, 3, "0006 02 00 00000000 00000000"), WEFT_R_ISCSI_AHS);
}

TEST(test_rfc7143_11_3_1_more_data_follows_only_writes)
{
	struct iscsi_pdu p = read_command;

	EXPECT_EQ(send(&p), WEFT_OK);
	p.is_final = false;
	EXPECT_EQ(send(&p), WEFT_R_ISCSI_FLAGS);
	p = write_command;
	p.is_final = false;
	EXPECT_EQ(send(&p), WEFT_OK);
}

TEST(test_rfc7143_11_3_1_data_without_a_direction)
{
	struct iscsi_pdu p = read_command;

	p.is_read = false;
	EXPECT_EQ(send(&p), WEFT_R_ISCSI_FLAGS);
	p.expected_bytes = 0;
	EXPECT_EQ(send(&p), WEFT_OK);
	p.has_read_expected = true;
	EXPECT_EQ(send(&p), WEFT_OK);
	p.read_expected_bytes = 1;
	EXPECT_EQ(send(&p), WEFT_R_ISCSI_FLAGS);
	/* A direction without data is legal. */
	p = read_command;
	p.expected_bytes = 0;
	EXPECT_EQ(send(&p), WEFT_OK);
}

TEST(test_rfc7143_11_3_1_attributes)
{
	struct iscsi_pdu p = read_command;

	for (uint8_t attr = 0; attr < 8; attr++) {
		p.attr = attr;
		EXPECT_EQ(send(&p), attr <= 4 ? WEFT_OK : WEFT_R_ISCSI_CODE);
	}
}

TEST(test_rfc7143_11_3_4_all_data_is_immediate_and_f_is_0)
{
	struct iscsi_pdu p = write_command;

	p.data_bytes = p.expected_bytes;
	EXPECT_EQ(send(&p), WEFT_OK);
	p.is_final = false;
	EXPECT_EQ(send(&p), WEFT_R_ISCSI_FLAGS);
}

TEST(test_rfc7143_11_3_4_a_bidirectional_command_without_its_read_length)
{
	struct iscsi_pdu p = write_command;

	p.is_read = true;
	EXPECT_EQ(send(&p), WEFT_R_ISCSI_AHS);
	p.has_read_expected = true;
	EXPECT_EQ(send(&p), WEFT_OK);
}

TEST(test_rfc7143_11_4_1_residuals_that_exclude_each_other)
{
	struct iscsi_pdu p = response;

	p.is_overflow = p.is_read_underflow = true;
	EXPECT_EQ(send(&p), WEFT_OK);
	p.is_underflow = true;
	EXPECT_EQ(send(&p), WEFT_R_ISCSI_FLAGS);
	p.is_underflow = false;
	p.is_read_overflow = true;
	EXPECT_EQ(send(&p), WEFT_R_ISCSI_FLAGS);
}

TEST(test_rfc7143_11_4_1_residuals_of_what_was_not_completed)
{
	for (int i = 0; i < 4; i++) {
		struct iscsi_pdu p = response;

		p.code = ISCSI_TARGET_FAILURE;
		EXPECT_EQ(send(&p), WEFT_OK);
		p.is_overflow = i == 0;
		p.is_underflow = i == 1;
		p.is_read_overflow = i == 2;
		p.is_read_underflow = i == 3;
		EXPECT_EQ(send(&p), WEFT_R_ISCSI_FLAGS);
	}
}

static bool is_response(uint32_t code)
{
	return code < 2 || code >= 0x80;
}

TEST(test_rfc7143_11_4_3_response_codes)
{
	codes_are(response, 255, is_response);
}

static bool is_function(uint32_t code)
{
	return code > 0 && code <= 12;
}

TEST(test_rfc7143_11_5_1_task_functions)
{
	codes_are(lu_reset, 127, is_function);
}

TEST(test_rfc7143_11_5_5_a_task_is_named_only_for_functions_of_a_task)
{
	for (uint8_t code = 1; code <= 12; code++) {
		struct iscsi_pdu p = lu_reset;
		bool is_of_task = code == 1 || code == 8 || code == 9;

		p.code = code;
		EXPECT_EQ(send(&p), WEFT_OK);
		p.ref_itt = 3;
		EXPECT_EQ(send(&p), is_of_task ? WEFT_OK : WEFT_R_ISCSI_TAG);
	}
}

static bool is_task_result(uint32_t code)
{
	return code <= 7 || code == 255;
}

TEST(test_rfc7143_11_6_1_task_results)
{
	struct iscsi_pdu p = { .opcode = ISCSI_TASK_RESPONSE, .itt = 1 };

	codes_are(p, 255, is_task_result);
}

TEST(test_rfc7143_11_7_1_data_in_with_status_is_final)
{
	struct iscsi_pdu p = data_in;

	EXPECT_EQ(send(&p), WEFT_OK);
	p.is_final = false;
	EXPECT_EQ(send(&p), WEFT_R_ISCSI_FLAGS);
	p.has_status = false;
	EXPECT_EQ(send(&p), WEFT_OK);
}

TEST(test_rfc7143_11_7_1_data_in_with_both_residuals)
{
	struct iscsi_pdu p = data_in;

	p.is_overflow = true;
	EXPECT_EQ(send(&p), WEFT_OK);
	p.is_underflow = true;
	EXPECT_EQ(send(&p), WEFT_R_ISCSI_FLAGS);
}

TEST(test_rfc7143_11_7_4_an_acknowledgement_needs_a_tag)
{
	struct iscsi_pdu p = data_in;

	p.wants_ack = true;
	EXPECT_EQ(send(&p), WEFT_OK);
	p.ttt = ISCSI_TAG_NONE;
	EXPECT_EQ(send(&p), WEFT_R_ISCSI_TAG);
}

TEST(test_rfc7143_11_7_6_data_beyond_what_a_command_can_have)
{
	const struct iscsi_pdu *both[] = { &data_in, &data_out };

	for (int i = 0; i < 2; i++) {
		struct iscsi_pdu p = *both[i];

		p.offset = UINT32_MAX - 512;
		EXPECT_EQ(send(&p), WEFT_OK);
		p.offset++;
		EXPECT_EQ(send(&p), WEFT_R_ISCSI_RANGE);
		p.offset = UINT32_MAX;
		EXPECT_EQ(send(&p), WEFT_R_ISCSI_RANGE);
		p.data_bytes = 0;
		EXPECT_EQ(send(&p), WEFT_OK);
	}
}

TEST(test_rfc7143_11_8_4_an_r2t_for_nothing_or_too_much)
{
	struct iscsi_pdu p = r2t;

	EXPECT_EQ(send(&p), WEFT_OK);
	p.offset = UINT32_MAX - 512;
	EXPECT_EQ(send(&p), WEFT_OK);
	p.offset++;
	EXPECT_EQ(send(&p), WEFT_R_ISCSI_RANGE);
	p.offset = 0;
	p.desired_bytes = 0;
	EXPECT_EQ(send(&p), WEFT_R_ISCSI_RANGE);
}

TEST(test_rfc7143_11_8_5_an_r2t_has_a_tag)
{
	struct iscsi_pdu p = r2t;

	p.ttt = ISCSI_TAG_NONE;
	EXPECT_EQ(send(&p), WEFT_R_ISCSI_TAG);
}

static bool is_event(uint32_t code)
{
	return code <= 5 || code >= 248;
}

TEST(test_rfc7143_11_9_1_events)
{
	struct iscsi_pdu p = { .opcode = ISCSI_ASYNC };

	codes_are(p, 255, is_event);
}

TEST(test_rfc7143_11_10_2_text_that_continues_is_not_final)
{
	static const uint8_t both[] = { ISCSI_TEXT_REQUEST, ISCSI_TEXT_RESPONSE };

	for (int i = 0; i < 2; i++) {
		struct iscsi_pdu p = { .opcode = both[i], .itt = 1, .ttt = 2 };

		p.is_continued = true;
		EXPECT_EQ(send(&p), WEFT_OK);
		p.is_final = true;
		EXPECT_EQ(send(&p), WEFT_R_ISCSI_FLAGS);
		p.is_continued = false;
		EXPECT_EQ(send(&p), WEFT_OK);
	}
}

TEST(test_rfc7143_11_11_1_text_to_go_on_with_has_a_tag)
{
	struct iscsi_pdu p = { .opcode = ISCSI_TEXT_RESPONSE, .itt = 1, .ttt = ISCSI_TAG_NONE };

	EXPECT_EQ(send(&p), WEFT_R_ISCSI_TAG);
	p.is_final = true;
	EXPECT_EQ(send(&p), WEFT_OK);
	p.opcode = ISCSI_TEXT_REQUEST; /* where it means a new exchange */
	p.is_final = false;
	EXPECT_EQ(send(&p), WEFT_OK);
}

TEST(test_rfc7143_11_12_a_login_is_immediate)
{
	EXPECT_EQ(send(&login), WEFT_OK);
	EXPECT_EQ(send_turned(&login, 0, 0x40), WEFT_R_ISCSI_FLAGS);
}

TEST(test_rfc7143_11_12_2_a_login_that_continues_does_not_move_on)
{
	const struct iscsi_pdu *both[] = { &login, &login_answer };

	for (int i = 0; i < 2; i++) {
		struct iscsi_pdu p = *both[i];

		EXPECT_EQ(send(&p), WEFT_OK);
		p.is_continued = true;
		EXPECT_EQ(send(&p), WEFT_R_ISCSI_FLAGS);
		p.is_final = false;
		EXPECT_EQ(send(&p), WEFT_OK);
	}
}

TEST(test_rfc7143_11_12_3_stages_and_moves_between_them)
{
	const struct iscsi_pdu *both[] = { &login, &login_answer };

	for (uint32_t i = 0; i < 2 * 2 * 16; i++) {
		struct iscsi_pdu p = *both[i % 2];
		bool is_move;

		p.is_final = i / 2 % 2;
		p.csg = i / 4 % 4;
		p.nsg = (uint8_t)(i / 16);
		is_move = (p.csg == 0 && p.nsg == 1) || (p.csg == 0 && p.nsg == 3) ||
			  (p.csg == 1 && p.nsg == 3);
		harness_note("from stage %d to %d", p.csg, p.nsg);
		EXPECT_EQ(send(&p),
			  p.csg < 2 && (is_move || !p.is_final) ? WEFT_OK : WEFT_R_ISCSI_STAGE);
	}
}

TEST(test_rfc7143_11_13_3_the_last_answer_to_a_login_names_the_session)
{
	struct iscsi_pdu p = login_answer;

	p.tsih = 0;
	EXPECT_EQ(send(&p), WEFT_R_ISCSI_TAG);
	p.csg = ISCSI_STAGE_SECURITY;
	p.nsg = ISCSI_STAGE_OPERATIONAL;
	EXPECT_EQ(send(&p), WEFT_OK);
}

TEST(test_rfc7143_11_13_5_status_classes)
{
	struct iscsi_pdu p = login_answer;

	for (uint32_t class = 0; class < 256; class ++) {
		p.status_class = (uint8_t) class;
		EXPECT_EQ(send(&p), class <= 3 ? WEFT_OK : WEFT_R_ISCSI_CODE);
	}
	/* A refusal says nothing about stages. */
	p.status_class = 2;
	p.csg = 3;
	p.tsih = 0;
	EXPECT_EQ(send(&p), WEFT_OK);
}

static bool is_logout_reason(uint32_t code)
{
	return code <= 2;
}

static bool is_logout_result(uint32_t code)
{
	return code <= 3;
}

TEST(test_rfc7143_11_14_and_15_logout_codes)
{
	struct iscsi_pdu p = { .opcode = ISCSI_LOGOUT_REQUEST, .itt = 1 };

	codes_are(p, 127, is_logout_reason);
	p.opcode = ISCSI_LOGOUT_RESPONSE;
	codes_are(p, 255, is_logout_result);
}

TEST(test_rfc7143_11_16_1_snack_types)
{
	struct iscsi_pdu p = { .opcode = ISCSI_SNACK, .itt = 1, .ttt = ISCSI_TAG_NONE };

	for (uint8_t code = 4; code < 16; code++) {
		p.code = code;
		EXPECT_EQ(send(&p), WEFT_R_ISCSI_CODE);
	}
	p.code = 0x70; /* reserved bits */
	EXPECT_EQ(send(&p), WEFT_OK);
}

TEST(test_rfc7143_11_16_3_and_4_tags_of_a_snack)
{
	static const struct {
		bool has_itt, has_ttt;
	} rows[] = { { true, false }, { false, false }, { false, true }, { true, true } };

	for (uint32_t i = 0; i < 16; i++) {
		struct iscsi_pdu p = { .opcode = ISCSI_SNACK, .code = (uint8_t)(i / 4) };
		bool has_itt = i & 1, has_ttt = i & 2;

		p.itt = has_itt ? 5 : ISCSI_TAG_NONE;
		p.ttt = has_ttt ? 6 : ISCSI_TAG_NONE;
		harness_note("type %d, ITT %d, TTT %d", p.code, has_itt, has_ttt);
		EXPECT_EQ(send(&p),
			  has_itt == rows[p.code].has_itt && has_ttt == rows[p.code].has_ttt
				  ? WEFT_OK
				  : WEFT_R_ISCSI_TAG);
	}
}

TEST(test_rfc7143_11_16_4_the_tag_of_r_data_is_not_0)
{
	struct iscsi_pdu p = { .opcode = ISCSI_SNACK, .code = ISCSI_SNACK_R_DATA, .itt = 1 };

	EXPECT_EQ(send(&p), WEFT_R_ISCSI_TAG);
	p.itt = ISCSI_TAG_NONE;
	p.code = ISCSI_SNACK_DATA_ACK;
	EXPECT_EQ(send(&p), WEFT_OK);
}

TEST(test_rfc7143_11_16_7_runs_of_a_snack)
{
	for (uint8_t code = 0; code < 4; code++) {
		struct iscsi_pdu p = { .opcode = ISCSI_SNACK, .code = code, .run_length = 1 };

		p.itt = code == 0 || code == 3 ? 1 : ISCSI_TAG_NONE;
		p.ttt = code < 2 ? ISCSI_TAG_NONE : 1;
		EXPECT_EQ(send(&p), code < 2 ? WEFT_OK : WEFT_R_ISCSI_RANGE);
	}
}

static bool is_reject_reason(uint32_t code)
{
	return code >= 2 && code <= 12;
}

TEST(test_rfc7143_11_17_1_reject_reasons)
{
	codes_are(reject, 255, is_reject_reason);
}

TEST(test_rfc7143_11_17_3_a_reject_holds_the_header)
{
	struct iscsi_pdu p = reject;

	EXPECT_EQ(send(&p), WEFT_OK);
	p.data_bytes = 47;
	EXPECT_EQ(send(&p), WEFT_R_ISCSI_DATA_LENGTH);
}

TEST(test_rfc7143_11_18_1_a_nop_out_without_a_task_is_immediate)
{
	struct iscsi_pdu p = { .opcode = ISCSI_NOP_OUT, .itt = ISCSI_TAG_NONE, .ttt = 1 };

	EXPECT_EQ(send(&p), WEFT_R_ISCSI_FLAGS);
	p.is_immediate = true;
	EXPECT_EQ(send(&p), WEFT_OK);
	p.is_immediate = false;
	p.itt = 1;
	EXPECT_EQ(send(&p), WEFT_OK);
}

TEST(test_rfc7143_11_19_a_nop_in_answers_or_asks)
{
	struct iscsi_pdu p = {
		.opcode = ISCSI_NOP_IN, .itt = 1, .ttt = ISCSI_TAG_NONE, .data_bytes = 4
	};

	EXPECT_EQ(send(&p), WEFT_OK);
	p.ttt = 2;
	EXPECT_EQ(send(&p), WEFT_R_ISCSI_TAG);
	p.itt = ISCSI_TAG_NONE;
	EXPECT_EQ(send(&p), WEFT_R_ISCSI_DATA_LENGTH);
	p.data_bytes = 0;
	EXPECT_EQ(send(&p), WEFT_OK);
}

/* Sections 11.2.1.8, 11.9 and 11.17: who has the reserved tag. */
TEST(test_rfc7143_11_2_1_8_initiator_task_tags)
{
	static uint8_t cdb[ISCSI_CDB_MORE_MAX];
	static const uint8_t free_to[] = { ISCSI_NOP_OUT, ISCSI_NOP_IN, ISCSI_SNACK };
	struct prng random = { 8 };

	for (int i = 0; i < ISCSI_KINDS; i++) {
		uint8_t bytes[ISCSI_HEADER_MAX], opcode = iscsi_kinds[i];
		bool has_none = opcode == ISCSI_ASYNC || opcode == ISCSI_REJECT;
		struct wr w = wr_of(bytes, sizeof(bytes));
		struct iscsi_pdu p;

		if (memchr(free_to, opcode, sizeof(free_to)))
			continue;
		iscsi_random(&p, opcode, cdb, &random);
		iscsi_encode(&p, &w);
		EXPECT_EQ(decode(bytes, sizeof(bytes), ISCSI_ANY_DATA), WEFT_OK);
		memset(bytes + 16, has_none ? 0 : 0xff, 4);
		EXPECT_EQ(decode(bytes, sizeof(bytes), ISCSI_ANY_DATA), WEFT_R_ISCSI_TAG);
	}
}

/* Whatever arrives: a reason or a PDU that means the same when it is sent again. */
TEST(test_rfc7143_11_hostile_bytes)
{
	struct prng random = { 1 };
	uint32_t good = 0;

	for (uint32_t i = 0; i < HISTORIES(200000); i++) {
		uint8_t bytes[80], again[80];
		struct wr w = wr_of(again, sizeof(again));
		struct iscsi_pdu p, q;
		enum iscsi_side side;

		for (size_t n = 0; n < sizeof(bytes); n++)
			bytes[n] = (uint8_t)prng_next(&random);
		bytes[0] = iscsi_kinds[i % ISCSI_KINDS] | (bytes[0] & 0x40);
		bytes[4] = bytes[4] % 8;
		memset(bytes + 5, 0, prng_below(&random, 4));
		side = iscsi_sender(iscsi_kinds[i % ISCSI_KINDS]);
		if (iscsi_decode(&p, side, rd_of(bytes, 48 + prng_below(&random, 33)),
				 ISCSI_ANY_DATA) != WEFT_OK)
			continue;
		good++;
		iscsi_encode(&p, &w);
		EXPECT(!w.is_short);
		EXPECT_EQ(iscsi_decode(&q, side, rd_of(again, sizeof(again)), ISCSI_ANY_DATA),
			  WEFT_OK);
		EXPECT(iscsi_same(&p, &q));
	}
	EXPECT(good > 1000);
}
