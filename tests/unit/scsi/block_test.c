/* SPDX-License-Identifier: BSD-2-Clause */
/* READ, WRITE, VERIFY, COMPARE AND WRITE, ORWRITE and the cache: SBC-3 section 5. */
#include <string.h>

#include "unit/scsi/scsi_fixture.h"

/* Four blocks at block 16, in every form of CDB. */
static const struct {
	const char *write, *read;
} forms[] = {
	{ "0a 00 00 10 04 00", "08 00 00 10 04 00" },
	{ "2a 00 00 00 00 10 00 00 04 00", "28 00 00 00 00 10 00 00 04 00" },
	{ "aa 00 00 00 00 10 00 00 00 04 00 00", "a8 00 00 00 00 10 00 00 00 04 00 00" },
	{ "8a 00 00 00 00 00 00 00 00 10 00 00 00 04 00 00",
	  "88 00 00 00 00 00 00 00 00 10 00 00 00 04 00 00" },
	/* With DPO, FUA, and the obsolete FUA_NV. */
	{ "2a 1a 00 00 00 10 00 00 04 00", "28 1a 00 00 00 10 00 00 04 00" },
};

TEST(test_sbc_read_and_write_in_every_form_and_block_size)
{
	for (uint32_t block = 512; block <= 4096; block *= 8)
		for (uint32_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
			struct bed *b = bed_create(&(struct bed_config){ .block_bytes = block });
			uint64_t length = 4 * block;

			EXPECT_SENSE(bed_out(b, 0, forms[i].write, length), S_GOOD);
			EXPECT_EQ(b->task.residual, 0);
			EXPECT_MEM(b->medium + 16 * block, b->sent, length);
			EXPECT_EQ(b->medium[16 * block - 1] | b->medium[20 * block], 0);
			EXPECT_SENSE(bed_in(b, 1, forms[i].read, length), S_GOOD);
			EXPECT_EQ(b->task.in_length, length);
			EXPECT_EQ(b->task.residual, 0);
			EXPECT_MEM(b->data, b->sent, length);
			EXPECT_EQ(b->data[length], 0xee);
			bed_destroy(b);
		}
}

TEST(test_sbc_read_6_of_zero_blocks_is_256)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	EXPECT_SENSE(bed_in(b, 0, "08 00 00 00 00 00", 256 * 512), S_GOOD);
	EXPECT_EQ(b->task.in_length, 256 * 512);
	EXPECT_SENSE(bed_in(b, 0, "08 00 03 01 00 00", 256 * 512), S_LBA);
	bed_destroy(b);
}

TEST(test_sbc_blocks_beyond_the_end_are_refused)
{
	/* The last block is 0x3ff. */
	static const char *const beyond[] = {
		"08 00 03 ff 02 00",
		"0a 1f ff ff 01 00",
		"28 00 00 00 04 00 00 00 01 00",
		"2a 00 ff ff ff ff 00 00 01 00",
		"a8 00 00 00 03 ff 00 00 00 02 00 00",
		"aa 00 80 00 00 00 00 00 00 01 00 00",
		"88 00 ff ff ff ff ff ff ff ff 00 00 00 02 00 00",
		"8a 00 00 00 00 01 00 00 00 00 00 00 00 01 00 00",
		"2f 00 00 00 03 ff 00 00 02 00",
		"2e 00 00 00 03 ff 00 00 02 00",
		"af 02 ff ff ff ff 00 00 00 01 00 00",
		"8f 00 80 00 00 00 00 00 00 00 00 00 00 01 00 00",
		"89 00 00 00 00 00 00 00 03 ff 00 00 00 02 00 00",
		"8b 00 00 00 00 00 00 00 03 ff 00 00 00 02 00 00",
		"34 00 00 00 03 ff 00 00 02 00",
		"90 00 ff ff ff ff ff ff ff ff 00 00 00 01 00 00",
		"35 00 00 00 03 ff 00 00 02 00",
		"91 00 00 00 00 00 00 00 04 01 00 00 00 00 00 00",
		"41 00 00 00 03 ff 00 00 02 00",
		"93 00 80 00 00 00 00 00 00 00 00 00 00 01 00 00",
		"9e 12 00 00 00 00 00 00 04 00 00 00 00 20 00 00",
		/* No blocks at an address that is not there. */
		"28 00 00 00 04 01 00 00 00 00",
		"2a 00 ff ff ff ff 00 00 00 00",
		"41 00 00 00 04 01 00 00 00 00",
	};
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	for (uint32_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
		harness_note("%s", beyond[i]);
		EXPECT_SENSE(bed_out(b, 0, beyond[i], 2048), S_LBA);
	}
	for (uint64_t i = 0; i < b->size_bytes; i++)
		EXPECT_EQ(b->medium[i], 0);
	/* The last block itself, and none behind it. */
	EXPECT_SENSE(bed_in(b, 0, "28 00 00 00 03 ff 00 00 01 00", 512), S_GOOD);
	EXPECT_SENSE(bed_in(b, 0, "28 00 00 00 04 00 00 00 00 00", 0), S_GOOD);
	bed_destroy(b);
}

TEST(test_sbc_lba_out_of_range_says_which)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	EXPECT_SENSE(bed_in(b, 0, "28 00 00 00 03 ff 00 00 02 00", 1024), S_LBA);
	EXPECT_EQ(b->task.sense[0], 0xf0);
	EXPECT_EQ(bed_number(b->task.sense + 3, 4), 0x400);
	bed_destroy(b);
}

TEST(test_sbc_protection_information_is_refused)
{
	static const char *const with[] = {
		"28 20 00 00 00 00 00 00 01 00",
		"2a e0 00 00 00 00 00 00 01 00",
		"a8 80 00 00 00 00 00 00 00 01 00 00",
		"8a 40 00 00 00 00 00 00 00 00 00 00 00 01 00 00",
		"2f 20 00 00 00 00 00 00 01 00",
		"2e 20 00 00 00 00 00 00 01 00",
		"8b 20 00 00 00 00 00 00 00 00 00 00 00 01 00 00",
		"89 20 00 00 00 00 00 00 00 00 00 00 00 01 00 00",
		"41 20 00 00 00 00 00 00 01 00",
		"93 20 00 00 00 00 00 00 00 00 00 00 00 01 00 00",
	};
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	for (uint32_t i = 0; i < sizeof(with) / sizeof(with[0]); i++) {
		harness_note("%s", with[i]);
		EXPECT_SENSE(bed_out(b, 0, with[i], 512), S_CDB);
		EXPECT_EQ(bed_field(&b->task), 1);
		EXPECT_EQ(b->task.sense[15], 0xcf);
	}
	bed_destroy(b);
}

TEST(test_sbc_more_than_the_maximum_transfer_length_is_refused)
{
	struct bed *b = bed_create(&(struct bed_config){ .transfer_bytes_max = 8192 });

	EXPECT_SENSE(bed_in(b, 0, "28 00 00 00 00 00 00 00 10 00", 8192), S_GOOD);
	EXPECT_SENSE(bed_in(b, 0, "28 00 00 00 00 00 00 00 11 00", 8704), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 7);
	EXPECT_SENSE(bed_out(b, 0, "8a 00 00 00 00 00 00 00 00 00 00 00 00 11 00 00", 8704), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 10);
	EXPECT_SENSE(bed_out(b, 0, "aa 00 00 00 00 00 00 00 00 11 00 00", 8704), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 6);
	EXPECT_SENSE(bed_out(b, 0, "0a 00 00 00 11 00", 8704), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 4);
	EXPECT_SENSE(bed_out(b, 0, "8b 00 00 00 00 00 00 00 00 00 00 00 00 11 00 00", 8704), S_CDB);
	EXPECT_SENSE(bed_out(b, 0, "2e 00 00 00 00 00 00 00 11 00", 8704), S_CDB);
	EXPECT_SENSE(bed_out(b, 0, "2f 02 00 00 00 00 00 00 11 00", 8704), S_CDB);
	EXPECT_SENSE(bed_out(b, 0, "2f 00 00 00 00 00 00 00 11 00", 0), S_GOOD);
	bed_destroy(b);
}

/* ---- Residuals ------------------------------------------------------------------------------ */

TEST(test_sam_residual_of_reads)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	memcpy(b->medium, b->sent, 4096);
	EXPECT_SENSE(bed_in(b, 0, "28 00 00 00 00 00 00 00 01 00", 10000), S_GOOD);
	EXPECT(!b->task.is_overflow);
	EXPECT_EQ(b->task.residual, 10000 - 512);
	EXPECT_EQ(b->task.in_length, 512);
	EXPECT_EQ(b->data[512], 0xee);
	/* Room for a part of a block: that part comes. */
	EXPECT_SENSE(bed_in(b, 0, "28 00 00 00 00 00 00 00 01 00", 200), S_GOOD);
	EXPECT(b->task.is_overflow);
	EXPECT_EQ(b->task.residual, 312);
	EXPECT_EQ(b->task.in_length, 200);
	EXPECT_MEM(b->data, b->sent, 200);
	EXPECT_EQ(b->data[200], 0xee);
	EXPECT_SENSE(bed_in(b, 0, "28 00 00 00 00 00 00 00 03 00", 1100), S_GOOD);
	EXPECT(b->task.is_overflow);
	EXPECT_EQ(b->task.residual, 1536 - 1100);
	EXPECT_MEM(b->data, b->sent, 1100);
	EXPECT_EQ(b->data[1100], 0xee);
	EXPECT_SENSE(bed_in(b, 0, "28 00 00 00 00 00 00 00 01 00", 0), S_GOOD);
	EXPECT(b->task.is_overflow);
	EXPECT_EQ(b->task.residual, 512);
	/* A read that was announced as a write. */
	EXPECT_SENSE(bed_out(b, 0, "28 00 00 00 00 00 00 00 01 00", 512), S_GOOD);
	EXPECT_EQ(b->task.in_length, 0);
	/* A refused command used nothing. */
	EXPECT_SENSE(bed_in(b, 0, "28 00 00 00 04 00 00 00 01 00", 512), S_LBA);
	EXPECT(!b->task.is_overflow);
	EXPECT_EQ(b->task.residual, 512);
	EXPECT_EQ(b->task.in_length, 0);
	bed_destroy(b);
}

TEST(test_sam_residual_of_writes)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	EXPECT_SENSE(bed_out(b, 0, "2a 00 00 00 00 00 00 00 01 00", 10000), S_GOOD);
	EXPECT(!b->task.is_overflow);
	EXPECT_EQ(b->task.residual, 10000 - 512);
	EXPECT_MEM(b->medium, b->sent, 512);
	EXPECT_EQ(b->medium[512] | b->medium[513], 0);
	/* Whole blocks that came are written. */
	EXPECT_SENSE(bed_out(b, 0, "2a 00 00 00 00 08 00 00 02 00", 512), S_GOOD);
	EXPECT(b->task.is_overflow);
	EXPECT_EQ(b->task.residual, 512);
	EXPECT_MEM(b->medium + 8 * 512, b->sent, 512);
	EXPECT_EQ(b->medium[9 * 512] | b->medium[9 * 512 + 1], 0);
	EXPECT_SENSE(bed_out(b, 0, "2a 00 00 00 00 10 00 00 01 00", 200), S_GOOD);
	EXPECT(b->task.is_overflow);
	EXPECT_EQ(b->task.residual, 312);
	EXPECT_EQ(b->medium[16 * 512], 0);
	EXPECT_SENSE(bed_out(b, 0, "2a 00 00 00 00 10 00 00 01 00", 0), S_GOOD);
	EXPECT_EQ(b->task.residual, 512);
	EXPECT_SENSE(bed_out(b, 0, "2a 00 00 00 00 10 00 00 00 00", 0), S_GOOD);
	EXPECT_EQ(b->task.residual, 0);
	bed_destroy(b);
}

/* ---- Spans ---------------------------------------------------------------------------------- */

/* Memory in pieces that are no blocks, more of them than one request of the device has. */
TEST(test_spans_of_any_length_and_number_are_cut_at_blocks)
{
	static const uint32_t pieces[] = { 512, 100, 33, 4096 };
	struct bed *b = bed_create(&(struct bed_config){ 0 });
	static struct span spans[4096];

	for (uint32_t p = 0; p < 4; p++) {
		uint64_t length = 128 * 512;
		uint32_t count = 0;

		for (uint64_t at = 0; at < length; at += pieces[p]) {
			uint64_t left = length - at;

			spans[count++] = (struct span){
				b->sent + at, (size_t)(left < pieces[p] ? left : pieces[p])
			};
		}
		b->task.out = (struct scsi_data){ spans, count, length };
		b->task.in = (struct scsi_data){ 0 };
		bed_cdb(&b->task, "2a 00 00 00 00 20 00 00 80 00");
		b->task.nexus = b->nexus[0];
		memset(b->medium, 0, b->size_bytes);
		scsi_submit(b->target, &b->task, 0);
		bed_finish(b, &b->task);
		EXPECT_SENSE(&b->task, S_GOOD);
		EXPECT_MEM(b->medium + 32 * 512, b->sent, length);
		for (uint32_t i = 0; i < count; i++)
			spans[i].bytes = b->data + (spans[i].bytes - b->sent);
		memset(b->data, 0, length);
		b->task.in = (struct scsi_data){ spans, count, length };
		b->task.out = (struct scsi_data){ 0 };
		bed_cdb(&b->task, "28 00 00 00 00 20 00 00 80 00");
		scsi_submit(b->target, &b->task, 0);
		bed_finish(b, &b->task);
		EXPECT_SENSE(&b->task, S_GOOD);
		EXPECT_MEM(b->data, b->sent, length);
	}
	bed_destroy(b);
}

/* A block of 512 bytes in 128 pieces has no place in a request. */
static void split_run(struct bed *b, const char *cdb, uint64_t length)
{
	static struct span spans[1024];

	for (uint32_t i = 0; i < length / 4; i++)
		/* Not one behind the other: such are merged. */
		spans[i] = (struct span){ b->sent + 8 * i, 4 };
	b->task.out = (struct scsi_data){ spans, (uint32_t)length / 4, length };
	b->task.in = b->task.out;
	bed_cdb(&b->task, cdb);
	b->task.nexus = b->nexus[0];
	scsi_submit(b->target, &b->task, 0);
	bed_finish(b, &b->task);
}

TEST(test_spans_that_split_a_block_too_often_are_an_internal_failure)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	split_run(b, "2a 00 00 00 00 00 00 00 01 00", 512);
	EXPECT_SENSE(&b->task, S_INTERNAL);
	split_run(b, "28 00 00 00 00 00 00 00 01 00", 512);
	EXPECT_SENSE(&b->task, S_INTERNAL);
	split_run(b, "2e 00 00 00 00 00 00 00 01 00", 512);
	EXPECT_SENSE(&b->task, S_INTERNAL);
	split_run(b, "41 00 00 00 00 00 00 00 01 00", 512);
	EXPECT_SENSE(&b->task, S_INTERNAL);
	EXPECT_EQ(b->medium[0], 0);
	for (uint32_t i = 0; i < 128; i++)
		memcpy(b->medium + 4 * i, b->sent + 8 * i, 4);
	split_run(b, "89 00 00 00 00 00 00 00 00 00 00 00 00 01 00 00", 1024);
	EXPECT_SENSE(&b->task, S_INTERNAL);
	/* Comparing and reading aside need no request with these spans. */
	split_run(b, "2f 02 00 00 00 00 00 00 01 00", 512);
	EXPECT_SENSE(&b->task, S_GOOD);
	split_run(b, "28 00 00 00 00 00 00 00 01 00", 500);
	EXPECT_SENSE(&b->task, S_GOOD);
	bed_destroy(b);
}

/* ---- VERIFY --------------------------------------------------------------------------------- */

TEST(test_sbc_verify_compares_if_asked)
{
	static const char *const with[] = { "2f 02 00 00 00 04 00 01 90 00",
					    "af 02 00 00 00 04 00 00 01 90 00 00",
					    "8f 02 00 00 00 00 00 00 00 04 00 00 01 90 00 00" };
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	memcpy(b->medium + 4 * 512, b->sent, 400 * 512);
	for (uint32_t i = 0; i < 3; i++) {
		EXPECT_SENSE(bed_out(b, 0, with[i], 400 * 512), S_GOOD);
		/* In a block behind the first filling of the scratch buffer. */
		b->sent[300 * 512 + 77] ^= 1;
		EXPECT_SENSE(bed_out(b, 0, with[i], 400 * 512), S_MISCOMPARE);
		EXPECT_EQ(b->task.sense[0], 0xf0);
		EXPECT_EQ(bed_number(b->task.sense + 3, 4), 300 * 512 + 77);
		b->sent[300 * 512 + 77] ^= 1;
	}
	/* Without BYTCHK what was sent does not matter. */
	b->sent[0] ^= 1;
	EXPECT_SENSE(bed_out(b, 0, "2f 10 00 00 00 04 00 01 90 00", 400 * 512), S_GOOD);
	EXPECT_SENSE(bed_out(b, 0, "2f 02 00 00 00 04 00 00 00 00", 0), S_GOOD);
	for (uint32_t check = 4; check <= 6; check += 2) {
		char cdb[64] = "2f 04 00 00 00 04 00 00 01 00";

		cdb[4] = (char)('0' + check);
		EXPECT_SENSE(bed_out(b, 0, cdb, 512), S_CDB);
		EXPECT_EQ(bed_field(&b->task), 1);
		memcpy(cdb, "2e", 2);
		EXPECT_SENSE(bed_out(b, 0, cdb, 512), S_CDB);
	}
	bed_destroy(b);
}

/* A command for all blocks of a device that completes at once takes turns with others. */
TEST(test_scsi_a_verify_of_all_blocks_leaves_turns_to_others)
{
	struct bed *b = bed_create(&(struct bed_config){ .block_bytes = 4096 });
	static struct scsi_task read;
	struct scsi_task *done = NULL;
	int turns = 0;

	bed_cdb(&b->task, "8f 00 00 00 00 00 00 00 00 00 00 00 04 00 00 00");
	b->task.in = b->task.out = (struct scsi_data){ 0 };
	b->task.nexus = b->nexus[0];
	scsi_submit(b->target, &b->task, b->now_ns);
	EXPECT(scsi_next_done(b->target, b->now_ns) == NULL);
	EXPECT_EQ(scsi_due(b->target), b->now_ns);
	bed_cdb(&read, "28 00 00 00 00 04 00 00 01 00");
	b->in = (struct span){ b->data, 4096 };
	read.in = (struct scsi_data){ &b->in, 1, 4096 };
	read.nexus = b->nexus[1];
	scsi_submit(b->target, &read, b->now_ns);
	while (!done && turns++ < 10)
		done = scsi_next_done(b->target, b->now_ns);
	EXPECT(done == &read);
	EXPECT_SENSE(&read, S_GOOD);
	bed_finish(b, &b->task);
	EXPECT_SENSE(&b->task, S_GOOD);
	EXPECT_EQ(scsi_due(b->target), STORE_NEVER);
	bed_destroy(b);
}

TEST(test_sbc_write_and_verify_in_every_form)
{
	static const char *const with[] = { "2e 02 00 00 00 04 00 01 90 00",
					    "ae 00 00 00 00 04 00 00 01 90 00 00",
					    "8e 02 00 00 00 00 00 00 00 04 00 00 01 90 00 00" };
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	for (uint32_t i = 0; i < 3; i++) {
		memset(b->medium, 0, b->size_bytes);
		EXPECT_SENSE(bed_out(b, 0, with[i], 400 * 512), S_GOOD);
		EXPECT_MEM(b->medium + 4 * 512, b->sent, 400 * 512);
		EXPECT_EQ(b->task.residual, 0);
	}
	EXPECT_SENSE(bed_out(b, 0, "2e 00 00 00 00 04 00 00 00 00", 0), S_GOOD);
	bed_destroy(b);
}

/* ---- COMPARE AND WRITE, ORWRITE ------------------------------------------------------------- */

TEST(test_sbc_compare_and_write)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });
	const char *cdb = "89 18 00 00 00 00 00 00 00 08 00 00 00 ff 00 00";
	uint64_t half = 255 * 512;

	memcpy(b->medium + 8 * 512, b->sent, half);
	EXPECT_SENSE(bed_out(b, 0, cdb, 2 * half), S_GOOD);
	EXPECT_MEM(b->medium + 8 * 512, b->sent + half, half);
	EXPECT_EQ(b->task.residual, 0);
	/* Now it differs, and at which byte is said. */
	memcpy(b->medium + 8 * 512, b->sent, half);
	b->medium[8 * 512 + half - 27] ^= 0xff;
	EXPECT_SENSE(bed_out(b, 0, cdb, 2 * half), S_MISCOMPARE);
	EXPECT_EQ(bed_number(b->task.sense + 3, 4), half - 27);
	EXPECT_MEM(b->medium + 8 * 512, b->sent, half - 27);
	/* Data for more or fewer blocks. */
	EXPECT_SENSE(bed_out(b, 0, cdb, 2 * half - 512), S_DATA_LENGTH);
	EXPECT_SENSE(bed_out(b, 0, cdb, 2 * half + 512), S_DATA_LENGTH);
	EXPECT_SENSE(bed_out(b, 0, "89 00 00 00 00 00 00 00 00 08 00 00 00 00 00 00", 0), S_GOOD);
	/* 256 blocks do not fit the field: data for no blocks is no success. */
	EXPECT_SENSE(bed_out(b, 0, "89 18 00 00 00 00 00 00 00 08 00 00 00 00 00 00", 512), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 13);
	bed_destroy(b);
	b = bed_create(&(struct bed_config){ .block_bytes = 4096 });
	EXPECT_SENSE(bed_out(b, 0, "89 00 00 00 00 00 00 00 00 08 00 00 00 21 00 00", 66 * 4096),
		     S_CDB);
	EXPECT_EQ(bed_field(&b->task), 13);
	bed_destroy(b);
}

TEST(test_sbc_orwrite)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });
	uint64_t length = 400 * 512;

	memset(b->medium, 0x11, b->size_bytes);
	EXPECT_SENSE(bed_out(b, 0, "8b 08 00 00 00 00 00 00 00 08 00 00 01 90 00 00", length),
		     S_GOOD);
	for (uint64_t i = 0; i < length; i++)
		EXPECT_EQ(b->medium[8 * 512 + i], b->sent[i] | 0x11);
	EXPECT_EQ(b->medium[408 * 512], 0x11);
	EXPECT_SENSE(bed_out(b, 0, "8b 00 00 00 00 00 00 00 00 08 00 00 00 00 00 00", 0), S_GOOD);
	EXPECT_SENSE(bed_out(b, 0, "8b 00 00 00 00 00 00 00 00 08 00 00 00 02 00 00", 512),
		     S_DATA_LENGTH);
	bed_destroy(b);
}

/* ---- Order ---------------------------------------------------------------------------------- */

/* Commands that are in progress together, on a device that takes its time. */
struct racer {
	struct scsi_task task;
	struct span span;
	uint8_t bytes[1024];
	bool is_done;
};

static void racer_start(struct bed *b, struct racer *r, const char *cdb, uint8_t fill)
{
	memset(r->bytes, fill, sizeof(r->bytes));
	r->span = (struct span){ r->bytes, sizeof(r->bytes) };
	r->task.nexus = b->nexus[0];
	r->task.in = (struct scsi_data){ &r->span, 1, sizeof(r->bytes) };
	r->task.out = r->task.in;
	bed_cdb(&r->task, cdb);
	scsi_submit(b->target, &r->task, b->now_ns);
}

/* Lets the device work for one delay, and notes what has ended. */
static uint32_t race(struct bed *b)
{
	uint32_t count = 0;
	struct scsi_task *t;

	while ((t = scsi_next_done(b->target, b->now_ns))) {
		CONTAINER_OF(t, struct racer, task)->is_done = true;
		count++;
	}
	if (scsi_due(b->target) == STORE_NEVER)
		return count;
	b->now_ns = scsi_due(b->target);
	scsi_expire(b->target, b->now_ns);
	while ((t = scsi_next_done(b->target, b->now_ns))) {
		CONTAINER_OF(t, struct racer, task)->is_done = true;
		count++;
	}
	return count;
}

static const char *const caw = "89 00 00 00 00 00 00 00 00 08 00 00 00 01 00 00";

TEST(test_sbc_compare_and_write_is_atomic_against_writes_and_reads)
{
	struct bed *b = bed_create(&(struct bed_config){ .delay_ns = 1000 });
	static struct racer first, write, read, other, second;

	racer_start(b, &first, caw, 0); /* zeroes are there; it writes its second half */
	memset(first.bytes + 512, 0xaa, 512);
	racer_start(b, &write, "2a 00 00 00 00 08 00 00 01 00", 0xbb);
	racer_start(b, &read, "28 00 00 00 00 07 00 00 02 00", 0);
	racer_start(b, &other, "2a 00 00 00 00 09 00 00 01 00", 0xcc);
	racer_start(b, &second, caw, 0xbb);
	/* The write of another block does not wait. */
	EXPECT_EQ(race(b), 1);
	EXPECT(other.is_done);
	EXPECT_EQ(race(b), 1);
	EXPECT(first.is_done);
	EXPECT_SENSE(&first.task, S_GOOD);
	EXPECT_EQ(b->medium[8 * 512], 0xaa);
	/* Both have waited for the first; the second waits for both. */
	EXPECT_EQ(race(b), 2);
	EXPECT(write.is_done && read.is_done && !second.is_done);
	EXPECT(race(b) + race(b) == 1);
	EXPECT(second.is_done);
	EXPECT_SENSE(&second.task, S_GOOD);
	bed_destroy(b);
}

TEST(test_sam_ordered_task_waits_for_all_and_all_for_it)
{
	struct bed *b = bed_create(&(struct bed_config){ .delay_ns = 1000 });
	static struct racer first, ordered, inquiry;

	racer_start(b, &first, "2a 00 00 00 00 08 00 00 01 00", 1);
	ordered.task.attribute = SCSI_ORDERED;
	racer_start(b, &ordered, "2a 00 00 00 00 20 00 00 01 00", 2);
	racer_start(b, &inquiry, "12 00 00 00 60 00", 3);
	EXPECT_EQ(race(b), 1);
	EXPECT(first.is_done);
	EXPECT_EQ(race(b), 2);
	EXPECT(ordered.is_done && inquiry.is_done);
	EXPECT_SENSE(&inquiry.task, S_GOOD);
	bed_destroy(b);
}

TEST(test_scratch_is_of_one_command_at_a_time)
{
	struct bed *b = bed_create(&(struct bed_config){ .delay_ns = 1000 });
	static struct racer first, second, aside;

	memset(b->medium, 5, 4096);
	memset(b->medium + 4096, 6, 4096);
	racer_start(b, &first, "2f 02 00 00 00 00 00 00 02 00", 5);
	racer_start(b, &second, "2f 02 00 00 00 08 00 00 02 00", 6);
	racer_start(b, &aside, "28 00 00 00 00 00 00 00 01 00", 0);
	EXPECT_EQ(race(b), 2);
	EXPECT(first.is_done && aside.is_done);
	EXPECT_EQ(race(b), 1);
	EXPECT_SENSE(&first.task, S_GOOD);
	EXPECT_SENSE(&second.task, S_GOOD);
	bed_destroy(b);
}

TEST(test_sam_abort_of_tasks_that_run_and_that_wait)
{
	struct bed *b = bed_create(&(struct bed_config){ .delay_ns = 1000 });
	static struct racer first, waiting, third;

	racer_start(b, &first, caw, 0);
	memset(first.bytes + 512, 0xaa, 512);
	racer_start(b, &waiting, caw, 0);
	racer_start(b, &third, "28 00 00 00 00 08 00 00 01 00", 7);
	/* One that waits ends at once; one at the device when the device returns it. */
	scsi_task_abort(b->target, &waiting.task);
	scsi_task_abort(b->target, &first.task);
	EXPECT(scsi_next_done(b->target, b->now_ns) == &waiting.task);
	EXPECT(waiting.task.is_aborted);
	EXPECT_SENSE(&waiting.task, S_ABORTED);
	EXPECT(scsi_next_done(b->target, b->now_ns) == NULL);
	EXPECT_EQ(race(b), 1);
	EXPECT(first.is_done && first.task.is_aborted);
	EXPECT_EQ(b->medium[8 * 512], 0); /* it did not go on to write */
	EXPECT_EQ(race(b), 1);
	EXPECT(third.is_done && !third.task.is_aborted);
	EXPECT_EQ(third.bytes[0], 0);
	scsi_task_abort(b->target, &third.task); /* too late: nothing */
	EXPECT(scsi_next_done(b->target, b->now_ns) == NULL);
	bed_destroy(b);
}

TEST(test_sam_abort_task_set_and_lun_reset)
{
	struct bed *b = bed_create(&(struct bed_config){ .delay_ns = 1000 });
	static struct racer mine, waiting;

	racer_start(b, &mine, "28 00 00 00 00 08 00 00 01 00", 0);
	EXPECT(scsi_task_set_abort(b->target, 0, b->nexus[1]));
	EXPECT(!scsi_task_set_abort(b->target, 5, b->nexus[1]));
	EXPECT_EQ(race(b), 1);
	EXPECT(!mine.task.is_aborted);
	racer_start(b, &mine, "28 00 00 00 00 08 00 00 01 00", 0);
	EXPECT(scsi_task_set_abort(b->target, 0, b->nexus[0]));
	EXPECT_EQ(race(b), 1);
	EXPECT(mine.task.is_aborted);
	/* A reset does not start what waited for a task that it aborts. */
	mine.task.attribute = SCSI_ORDERED;
	racer_start(b, &mine, "28 00 00 00 00 08 00 00 01 00", 0);
	racer_start(b, &waiting, "2a 00 00 00 00 08 00 00 01 00", 9);
	EXPECT(scsi_unit_reset(b->target, 0));
	EXPECT(!scsi_unit_reset(b->target, 5));
	EXPECT_EQ(race(b), 2);
	EXPECT(mine.task.is_aborted && waiting.task.is_aborted);
	EXPECT_EQ(b->medium[8 * 512], 0);
	for (uint32_t i = 0; i < 2; i++) {
		EXPECT_SENSE(bed_in(b, i, "00 00 00 00 00 00", 0), S_UA_RESET);
		EXPECT_SENSE(bed_in(b, i, "00 00 00 00 00 00", 0), S_GOOD);
	}
	bed_destroy(b);
}

/* ---- Write protection ----------------------------------------------------------------------- */

TEST(test_sbc_every_command_that_changes_blocks_is_refused_on_a_protected_unit)
{
	static const char *const changing[] = {
		"0a 00 00 00 01 00",
		"2a 00 00 00 00 00 00 00 01 00",
		"2e 00 00 00 00 00 00 00 01 00",
		"41 00 00 00 00 00 00 00 01 00",
		"41 08 00 00 00 00 00 00 01 00",
		"42 00 00 00 00 00 00 00 18 00",
		"89 00 00 00 00 00 00 00 00 00 00 00 00 01 00 00",
		"8a 00 00 00 00 00 00 00 00 00 00 00 00 01 00 00",
		"8b 00 00 00 00 00 00 00 00 00 00 00 00 01 00 00",
		"8e 00 00 00 00 00 00 00 00 00 00 00 00 01 00 00",
		"93 00 00 00 00 00 00 00 00 00 00 00 00 01 00 00",
		"aa 00 00 00 00 00 00 00 00 01 00 00",
		"ae 00 00 00 00 00 00 00 00 01 00 00",
	};
	struct bed *b = bed_create(&(struct bed_config){ .is_readonly = true });

	for (uint32_t i = 0; i < sizeof(changing) / sizeof(changing[0]); i++) {
		harness_note("%s", changing[i]);
		EXPECT_SENSE(bed_out(b, 0, changing[i], 512), S_PROTECTED);
	}
	EXPECT_SENSE(bed_in(b, 0, "28 08 00 00 00 00 00 00 01 00", 512), S_GOOD);
	EXPECT_SENSE(bed_in(b, 0, "35 00 00 00 00 00 00 00 00 00", 0), S_GOOD);
	EXPECT_SENSE(bed_in(b, 0, "1a 00 0a 00 ff 00", 255), S_GOOD);
	EXPECT_EQ(b->data[2], 0x90); /* WP, DPOFUA */
	EXPECT_EQ(b->medium[0], 0);
	bed_destroy(b);
}
