/* SPDX-License-Identifier: BSD-2-Clause */
/* MODE SENSE, MODE SELECT, and what their bits do: SPC-4 sections 6.11 to 6.14 and 7.5. */
#include <string.h>

#include "unit/scsi/scsi_fixture.h"

TEST(test_spc_mode_sense_all_pages)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	EXPECT_SENSE(bed_in(b, 0, "1a 00 3f 00 ff 00", 255), S_GOOD);
	EXPECT_EQ(b->task.in_length, 4 + 8 + 12 + 20 + 12 + 12);
	EXPECT_EQ(b->data[0], b->task.in_length - 1);
	EXPECT_EQ(b->data[2], 0x10);
	EXPECT_EQ(b->data[3], 8);
	EXPECT_EQ(bed_number(b->data + 4, 8), 0x0000040000000200);
	EXPECT_EQ(bed_number(b->data + 12, 2), 0x010a);
	EXPECT_EQ(bed_number(b->data + 24, 3), 0x081204); /* WCE */
	EXPECT_EQ(bed_number(b->data + 44, 4), 0x0a0a0010);
	EXPECT_EQ(bed_number(b->data + 56, 2), 0x1c0a);
	/* The long form: with a long descriptor, and with none. */
	EXPECT_SENSE(bed_in(b, 0, "5a 10 08 ff 00 00 00 01 00 00", 256), S_GOOD);
	EXPECT_EQ(b->task.in_length, 8 + 16 + 20);
	EXPECT_EQ(bed_number(b->data, 8), 0x002a001001000010);
	EXPECT_EQ(bed_number(b->data + 8, 8), 1024);
	EXPECT_EQ(bed_number(b->data + 20, 4), 512);
	EXPECT_SENSE(bed_in(b, 0, "5a 08 0a 00 00 00 00 01 00 00", 256), S_GOOD);
	EXPECT_EQ(b->task.in_length, 8 + 12);
	/* Changeable, and the defaults. */
	EXPECT_SENSE(bed_in(b, 0, "1a 08 4a 00 ff 00", 255), S_GOOD);
	EXPECT_EQ(bed_number(b->data + 4, 6), 0x0a0a04000800);
	EXPECT_SENSE(bed_in(b, 0, "1a 08 48 00 ff 00", 255), S_GOOD);
	EXPECT_EQ(b->data[6], 0x04);
	EXPECT_SENSE(bed_in(b, 0, "1a 08 88 00 ff 00", 255), S_GOOD);
	EXPECT_EQ(b->data[6], 0x04);
	/* What is not there. */
	EXPECT_SENSE(bed_in(b, 0, "1a 08 ca 00 ff 00", 255), S_SAVING);
	EXPECT_SENSE(bed_in(b, 0, "1a 08 02 00 ff 00", 255), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 2);
	EXPECT_SENSE(bed_in(b, 0, "1a 08 0a 01 ff 00", 255), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 3);
	bed_destroy(b);
}

/* A parameter list of MODE SELECT (6) without a descriptor: the page as it is, one byte changed. */
static struct scsi_task *select_6(struct bed *b, const char *page, uint32_t bytes, uint32_t at,
				  uint8_t value)
{
	char sense[32] = "1a 08 00 00 ff 00", cdb[32] = "15 10 00 00 00 00";
	static const char digits[] = "0123456789abcdef";

	memcpy(sense + 6, page, 2);
	REQUIRE(bed_sense(bed_in(b, 0, sense, 255)) == S_GOOD);
	memset(b->sent, 0, 4);
	memcpy(b->sent + 4, b->data + 4, bytes);
	b->sent[4 + at] = value;
	cdb[12] = digits[(bytes + 4) >> 4];
	cdb[13] = digits[(bytes + 4) & 15];
	return bed_out(b, 0, cdb, bytes + 4);
}

TEST(test_spc_mode_select_of_d_sense_changes_the_format)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	EXPECT_SENSE(select_6(b, "0a", 12, 2, 0x04), S_GOOD);
	/* The other nexus is told, and this one is not. */
	EXPECT_SENSE(bed_in(b, 1, "00 00 00 00 00 00", 0), S_UA_MODE);
	EXPECT_EQ(b->task.sense[0], 0x72);
	EXPECT_SENSE(bed_in(b, 1, "00 00 00 00 00 00", 0), S_GOOD);
	EXPECT_SENSE(bed_in(b, 0, "88 00 00 00 00 01 00 00 00 00 00 00 00 01 00 00", 512), S_LBA);
	EXPECT_EQ(b->task.sense[0], 0x72);
	EXPECT_EQ(b->task.sense_length, 20);
	EXPECT_EQ(b->task.sense[7], 12);
	EXPECT_EQ(bed_number(b->task.sense + 8, 4), 0x000a8000);
	EXPECT_EQ(bed_number(b->task.sense + 12, 8), 0x100000000);
	EXPECT_SENSE(bed_in(b, 0, "12 00 01 00 ff 00", 255), S_CDB);
	EXPECT_EQ(b->task.sense_length, 16);
	EXPECT_EQ(bed_number(b->task.sense + 8, 8), 0x02060000c0000200);
	/* The same again is no change. */
	EXPECT_SENSE(select_6(b, "0a", 12, 2, 0x04), S_GOOD);
	EXPECT_SENSE(bed_in(b, 1, "00 00 00 00 00 00", 0), S_GOOD);
	/* A reset takes it back; fixed data has no room for an address of more than 32 bits. */
	EXPECT(scsi_unit_reset(b->target, 0));
	EXPECT_SENSE(bed_in(b, 0, "00 00 00 00 00 00", 0), S_UA_RESET);
	EXPECT_EQ(b->task.sense[0], 0x70);
	EXPECT_EQ(b->task.sense_length, 18);
	EXPECT_SENSE(bed_in(b, 0, "88 00 00 00 00 01 00 00 00 00 00 00 00 01 00 00", 512), S_LBA);
	EXPECT_EQ(b->task.sense[0], 0x70);
	bed_destroy(b);
}

TEST(test_spc_mode_select_of_swp_protects)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	EXPECT_SENSE(select_6(b, "0a", 12, 4, 0x08), S_GOOD);
	EXPECT_SENSE(bed_in(b, 0, "1a 08 0a 00 ff 00", 255), S_GOOD);
	EXPECT_EQ(b->data[2], 0x90);
	EXPECT_EQ(b->data[8], 0x08);
	EXPECT_SENSE(bed_in(b, 0, "28 00 00 00 00 00 00 00 01 00", 512), S_GOOD);
	EXPECT_SENSE(bed_out(b, 0, "2a 00 00 00 00 00 00 00 01 00", 512), S_SOFTWARE_PROTECTED);
	EXPECT_SENSE(select_6(b, "0a", 12, 4, 0x00), S_GOOD);
	EXPECT_SENSE(bed_out(b, 0, "2a 00 00 00 00 00 00 00 01 00", 512), S_GOOD);
	bed_destroy(b);
}

TEST(test_spc_mode_select_refuses_what_cannot_change)
{
	struct bed *b = bed_create(&(struct bed_config){ .can_not = STORE_CAN_FLUSH });

	EXPECT_SENSE(select_6(b, "0a", 12, 3, 0x00), S_PARAMETER);
	EXPECT_EQ(bed_field(&b->task), 4 + 3);
	EXPECT_EQ(b->task.sense[15], 0x80);
	EXPECT_SENSE(select_6(b, "01", 12, 2, 0x80), S_PARAMETER);
	EXPECT_SENSE(select_6(b, "1c", 12, 2, 0x08), S_PARAMETER);
	/* There is no cache to turn on. */
	EXPECT_SENSE(select_6(b, "08", 20, 2, 0x04), S_PARAMETER);
	EXPECT_SENSE(select_6(b, "08", 20, 2, 0x00), S_GOOD);
	EXPECT_SENSE(select_6(b, "0a", 12, 0, 0x02), S_PARAMETER);
	EXPECT_SENSE(select_6(b, "0a", 12, 0, 0x4a), S_PARAMETER);
	EXPECT_EQ(bed_field(&b->task), 4);
	EXPECT_SENSE(select_6(b, "0a", 12, 1, 9), S_PARAMETER);
	EXPECT_EQ(bed_field(&b->task), 5);
	EXPECT_SENSE(bed_in(b, 1, "00 00 00 00 00 00", 0), S_GOOD);
	bed_destroy(b);
}

TEST(test_spc_mode_select_lengths_and_descriptors)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	EXPECT_SENSE(bed_out(b, 0, "15 00 00 00 00 00", 0), S_CDB); /* PF */
	EXPECT_SENSE(bed_out(b, 0, "15 11 00 00 00 00", 0), S_CDB); /* SP */
	EXPECT_EQ(b->task.sense[15], 0xc8);
	EXPECT_SENSE(bed_out(b, 0, "15 10 00 00 00 00", 0), S_GOOD);
	EXPECT_SENSE(select_6(b, "0a", 11, 4, 0), S_PARAMETER_LENGTH);
	EXPECT_SENSE(select_6(b, "0a", 1, 0, 0x0a), S_PARAMETER_LENGTH);
	EXPECT_SENSE(bed_out(b, 0, "15 10 00 00 10 00", 8), S_PARAMETER_LENGTH);
	EXPECT_SENSE(bed_out(b, 0, "15 10 00 00 03 00", 3), S_PARAMETER_LENGTH);
	EXPECT_SENSE(bed_out(b, 0, "55 10 00 00 00 00 00 ff ff 00", 65535), S_PARAMETER_LENGTH);
	/* What an earlier list had there is no part of this one. */
	memset(b->sent, 0xff, 64);
	EXPECT_SENSE(bed_out(b, 0, "15 10 00 00 40 00", 64), S_PARAMETER);
	memset(b->sent, 0, 64);
	memcpy(b->sent + 4, "\x0a\x0a\x00\x10", 4);
	EXPECT_SENSE(bed_out(b, 0, "15 10 00 00 0f 00", 15), S_PARAMETER_LENGTH);
	/* A descriptor says the size as it is, or not at all. */
	memset(b->sent, 0, 64);
	b->sent[3] = 8;
	b->sent[10] = 2;
	EXPECT_SENSE(bed_out(b, 0, "15 10 00 00 0c 00", 12), S_GOOD);
	EXPECT_SENSE(bed_out(b, 0, "15 10 00 00 0b 00", 11), S_PARAMETER_LENGTH);
	b->sent[6] = 4;
	EXPECT_SENSE(bed_out(b, 0, "15 10 00 00 0c 00", 12), S_GOOD);
	b->sent[7] = 1;
	EXPECT_SENSE(bed_out(b, 0, "15 10 00 00 0c 00", 12), S_PARAMETER);
	EXPECT_EQ(bed_field(&b->task), 4);
	b->sent[7] = 0;
	b->sent[10] = 16;
	EXPECT_SENSE(bed_out(b, 0, "15 10 00 00 0c 00", 12), S_PARAMETER);
	EXPECT_EQ(bed_field(&b->task), 8);
	b->sent[3] = 7;
	EXPECT_SENSE(bed_out(b, 0, "15 10 00 00 0c 00", 12), S_PARAMETER);
	EXPECT_EQ(bed_field(&b->task), 3);
	/* The long form. */
	memset(b->sent, 0, 64);
	b->sent[4] = 1;
	b->sent[7] = 16;
	b->sent[22] = 2;
	EXPECT_SENSE(bed_out(b, 0, "55 10 00 00 00 00 00 00 18 00", 24), S_GOOD);
	b->sent[15] = 9;
	EXPECT_SENSE(bed_out(b, 0, "55 10 00 00 00 00 00 00 18 00", 24), S_PARAMETER);
	EXPECT_EQ(bed_field(&b->task), 8);
	bed_destroy(b);
}
