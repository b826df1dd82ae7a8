/* SPDX-License-Identifier: BSD-2-Clause */
/* Dispatch, and REPORT SUPPORTED OPERATION CODES: SPC-4 section 6.34. */
#include <stdio.h>
#include <string.h>

#include "unit/scsi/scsi_fixture.h"

TEST(test_spc_unknown_opcodes_and_service_actions)
{
	/* RESERVE, EXTENDED COPY and its results, READ DEFECT DATA, WRITE ATOMIC, SANITIZE. */
	static const char *const unknown[] = { "16 00", "83 00", "84 00", "84 03", "37 00", "b7 00",
					       "9c 00", "48 01", "7f 00", "ff 00", "a4 00" };
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	for (uint32_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		harness_note("%s", unknown[i]);
		EXPECT_SENSE(bed_in(b, 0, unknown[i], 512), S_OPCODE);
		EXPECT_EQ(scsi_data_need(b->target, 0, b->task.cdb), 0);
	}
	EXPECT_SENSE(bed_in(b, 0, "a3 00", 512), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 1);
	EXPECT_EQ(b->task.sense[15], 0xcc); /* bit 4 of the CDB */
	EXPECT_SENSE(bed_in(b, 0, "5e 04 00 00 00 00 00 00 10 00", 512), S_CDB);
	EXPECT_SENSE(bed_in(b, 0, "5f 07 00 00 00 00 00 00 18 00", 512), S_CDB);
	/* NACA: SAM-5 section 5.2. */
	EXPECT_SENSE(bed_in(b, 0, "00 00 00 00 00 04", 0), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 5);
	EXPECT_SENSE(bed_in(b, 0, "88 00 00 00 00 00 00 00 00 00 00 00 00 01 00 04", 512), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 15);
	bed_destroy(b);
}

TEST(test_spc_unmap_is_no_command_of_a_unit_that_cannot)
{
	struct bed *b = bed_create(
		&(struct bed_config){ .can_not = STORE_CAN_DISCARD | STORE_CAN_WRITE_ZEROES });

	EXPECT_SENSE(bed_out(b, 0, "42 00 00 00 00 00 00 00 00 00", 0), S_OPCODE);
	EXPECT_SENSE(bed_in(b, 0, "a3 0c 01 42 00 00 00 00 10 00 00 00", 4096), S_GOOD);
	EXPECT_EQ(b->data[1], 1);
	bed_destroy(b);
}

/* Each command of the list, one by one: the same length, and usage data that begins with it. */
TEST(test_spc_report_all_and_one_agree)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });
	static uint8_t all[4096];
	uint32_t length;
	char cdb[64];

	EXPECT_SENSE(bed_in(b, 0, "a3 0c 00 00 00 00 00 00 10 00 00 00", 4096), S_GOOD);
	length = (uint32_t)bed_number(b->data, 4);
	EXPECT_EQ(b->task.in_length, length + 4);
	EXPECT(length % 8 == 0 && length / 8 >= 45);
	memcpy(all, b->data, sizeof(all));
	for (uint32_t at = 4; at < length + 4; at += 8) {
		bool has_action = all[at + 5] & 1;
		uint32_t bytes = all[at + 7];

		harness_note("opcode %02x action %02x", all[at], all[at + 3]);
		EXPECT(has_action || all[at + 3] == 0);
		EXPECT_EQ(all[at + 5] & 2, 0);
		for (uint32_t option = 1; option <= 3; option++) {
			bool is_refused = option == (has_action ? 1 : 2);

			snprintf(cdb, sizeof(cdb), "a3 0c %02x %02x 00 %02x 00 00 10 00 00 00",
				 option, all[at], all[at + 3]);
			EXPECT_SENSE(bed_in(b, 0, cdb, 4096), is_refused ? S_CDB : S_GOOD);
			if (is_refused) {
				EXPECT_EQ(bed_field(&b->task), 2);
				continue;
			}
			EXPECT_EQ(bed_number(b->data, 4), 0x30000 | bytes);
			EXPECT_EQ(b->task.in_length, bytes + 4);
			EXPECT_EQ(b->data[4], all[at]);
			EXPECT(!has_action || (b->data[5] & 0x1f) == all[at + 3]);
			EXPECT_EQ(b->data[3 + bytes], 0x04);
		}
	}
	bed_destroy(b);
}

TEST(test_spc_report_timeouts_and_what_is_not_there)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	EXPECT_SENSE(bed_in(b, 0, "a3 0c 80 00 00 00 00 00 10 00 00 00", 4096), S_GOOD);
	EXPECT_EQ(bed_number(b->data, 4) % 20, 0);
	EXPECT_EQ(b->data[4 + 5], 2);
	EXPECT_EQ(bed_number(b->data + 4 + 8, 2), 10);
	EXPECT(bed_number(b->data + 4 + 16, 4) > 0);
	EXPECT_SENSE(bed_in(b, 0, "a3 0c 81 28 00 00 00 00 10 00 00 00", 4096), S_GOOD);
	EXPECT_EQ(b->data[1], 0x83);
	EXPECT_EQ(b->data[5] & 0x18, 0x18); /* DPO, FUA */
	EXPECT_EQ(b->task.in_length, 4 + 10 + 12);
	EXPECT_EQ(bed_number(b->data + 14, 2), 10);
	EXPECT_SENSE(bed_in(b, 0, "a3 0c 01 84 00 00 00 00 10 00 00 00", 4096), S_GOOD);
	EXPECT_EQ(bed_number(b->data, 4), 0x10000);
	EXPECT_EQ(b->task.in_length, 4);
	EXPECT_SENSE(bed_in(b, 0, "a3 0c 02 9e 00 13 00 00 10 00 00 00", 4096), S_GOOD);
	EXPECT_EQ(b->data[1], 1);
	EXPECT_SENSE(bed_in(b, 0, "a3 0c 03 9e 01 10 00 00 10 00 00 00", 4096), S_GOOD);
	EXPECT_EQ(b->data[1], 1);
	EXPECT_SENSE(bed_in(b, 0, "a3 0c 03 28 00 01 00 00 10 00 00 00", 4096), S_GOOD);
	EXPECT_EQ(b->data[1], 1);
	EXPECT_SENSE(bed_in(b, 0, "a3 0c 04 28 00 00 00 00 10 00 00 00", 4096), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 2);
	bed_destroy(b);
}

TEST(test_data_need_is_what_the_command_can_move)
{
	static const struct {
		const char *cdb;
		uint64_t bytes;
	} needs[] = {
		{ "00 00", 0 },
		{ "12 00 00 01 02 00", 0x102 },
		{ "1a 00 00 00 fe 00", 0xfe },
		{ "08 00 00 00 00 00", 256 * 512 },
		{ "28 00 00 00 00 00 00 01 02 00", 0x102 * 512 },
		{ "aa 00 00 00 00 00 00 00 01 02 00 00", 0x102 * 512 },
		{ "8a 00 00 00 00 00 00 00 00 00 00 01 00 02 00 00", 0x10002ull * 512 },
		{ "89 00 00 00 00 00 00 00 00 00 00 00 00 03 00 00",
		  6 * 512 + 1 }, /* refuses more */
		{ "2f 00 00 00 00 00 00 00 05 00", 0 },
		{ "2f 02 00 00 00 00 00 00 05 00", 5 * 512 },
		{ "41 00 00 00 00 00 00 00 05 00", 512 },
		{ "93 00 00 00 00 00 00 00 00 00 00 00 00 05 00 00", 512 },
		{ "93 01 00 00 00 00 00 00 00 00 00 00 00 05 00 00", 0 },
		{ "5f 00 00 00 00 00 01 00 18 00", 0x10018 },
		{ "5e 00 00 00 00 00 00 01 18 00", 0x118 },
		{ "25 00 00 00 00 00 00 ff ff 00", 8 },
		{ "9e 10 00 00 00 00 00 00 00 00 00 01 00 20 00 00", 0x10020 },
		{ "a0 00 00 00 00 00 00 01 00 20 00 00", 0x10020 },
	};
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	for (uint32_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
		harness_note("%s", needs[i].cdb);
		bed_cdb(&b->task, needs[i].cdb);
		EXPECT_EQ(scsi_data_need(b->target, 0, b->task.cdb), needs[i].bytes);
	}
	bed_destroy(b);
}
