/* SPDX-License-Identifier: BSD-2-Clause */
/* UNMAP and WRITE SAME: SBC-3 sections 5.26, 5.42 and 5.43. */
#include <stdio.h>
#include <string.h>

#include "unit/scsi/scsi_fixture.h"
#include "unit/store/probe.h"

static void list_begin(struct bed *b, uint32_t count)
{
	struct wr w = wr_of(b->sent, 8);

	wr_u16(&w, (uint16_t)(count * 16 + 6));
	wr_u16(&w, (uint16_t)(count * 16));
	wr_u32(&w, 0);
}

static void list_set(struct bed *b, uint32_t i, uint64_t lba, uint32_t blocks)
{
	struct wr w = wr_of(b->sent + 8 + i * 16, 16);

	wr_u64(&w, lba);
	wr_u32(&w, blocks);
	wr_u32(&w, 0);
}

static struct scsi_task *unmap(struct bed *b, uint32_t count)
{
	char cdb[64];

	snprintf(cdb, sizeof(cdb), "42 00 00 00 00 00 00 %02x %02x 00", (count * 16 + 8) >> 8,
		 (count * 16 + 8) & 0xff);
	return bed_out(b, 0, cdb, count * 16 + 8);
}

static bool is_filled(const struct bed *b, uint64_t lba, uint64_t blocks, uint8_t with)
{
	for (uint64_t i = lba * 512; i < (lba + blocks) * 512; i++)
		if (b->medium[i] != with)
			return false;
	return true;
}

TEST(test_sbc_unmap_zeroes_each_range)
{
	static const struct bed_config ways[] = { { 0 },
						  { .has_zeroing_discard = true },
						  { .can_not = STORE_CAN_DISCARD },
						  { .can_not = STORE_CAN_WRITE_ZEROES } };

	for (uint32_t way = 0; way < 4; way++) {
		struct bed *b = bed_create(&ways[way]);

		memset(b->medium, 7, b->size_bytes);
		list_begin(b, 4);
		list_set(b, 0, 10, 5);
		list_set(b, 1, 12, 20); /* overlaps */
		list_set(b, 2, 100, 0); /* nothing */
		list_set(b, 3, 1023, 1);
		EXPECT_SENSE(unmap(b, 4), S_GOOD);
		EXPECT_EQ(b->task.residual, 0);
		EXPECT(is_filled(b, 0, 10, 7) && is_filled(b, 10, 22, 0));
		EXPECT(is_filled(b, 32, 991, 7) && is_filled(b, 1023, 1, 0));
		EXPECT_SENSE(bed_out(b, 0, "42 00 00 00 00 00 00 00 00 00", 0), S_GOOD);
		bed_destroy(b);
	}
}

TEST(test_sbc_unmap_checks_all_before_the_first)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	memset(b->medium, 7, b->size_bytes);
	list_begin(b, 2);
	list_set(b, 0, 0, 8);
	list_set(b, 1, 1023, 2);
	EXPECT_SENSE(unmap(b, 2), S_LBA);
	list_set(b, 1, UINT64_MAX, 2);
	EXPECT_SENSE(unmap(b, 2), S_LBA);
	EXPECT(is_filled(b, 0, 1024, 7));
	/* A list that is shorter than it says, or than its header. */
	EXPECT_SENSE(bed_out(b, 0, "42 00 00 00 00 00 00 00 27 00", 0x27), S_PARAMETER_LENGTH);
	EXPECT_SENSE(bed_out(b, 0, "42 00 00 00 00 00 00 00 28 00", 0x20), S_PARAMETER_LENGTH);
	EXPECT_SENSE(bed_out(b, 0, "42 00 00 00 00 00 00 00 07 00", 7), S_PARAMETER_LENGTH);
	EXPECT_SENSE(bed_out(b, 0, "42 01 00 00 00 00 00 00 08 00", 8), S_CDB); /* ANCHOR */
	EXPECT_EQ(bed_field(&b->task), 1);
	EXPECT(is_filled(b, 0, 1024, 7));
	/* A descriptor that is not whole is ignored. */
	list_begin(b, 2);
	b->sent[3] = 31;
	EXPECT_SENSE(unmap(b, 2), S_GOOD);
	EXPECT(is_filled(b, 0, 8, 0) && is_filled(b, 8, 1016, 7));
	bed_destroy(b);
}

TEST(test_sbc_unmap_of_as_many_as_it_may)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	memset(b->medium, 7, b->size_bytes);
	list_begin(b, 257);
	for (uint32_t i = 0; i < 257; i++)
		list_set(b, i, i * 2, 1);
	EXPECT_SENSE(unmap(b, 257), S_PARAMETER);
	EXPECT_EQ(bed_field(&b->task), 2);
	EXPECT(is_filled(b, 0, 1024, 7));
	list_begin(b, 256);
	EXPECT_SENSE(unmap(b, 256), S_GOOD);
	for (uint32_t i = 0; i < 512; i++)
		EXPECT(is_filled(b, i, 1, i % 2 ? 7 : 0));
	bed_destroy(b);
}

/* A device with more blocks than one command may unmap. */
TEST(test_sbc_unmap_of_too_many_blocks)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });
	struct scsi_unit_config unit = { .lun = 1, .transfer_bytes_max = 4096, .serial = "s" };
	struct probe probe;

	probe_init(&probe, (uint64_t)512 << 21);
	unit.store = &probe.store;
	EXPECT_EQ(scsi_unit_add(b->target, &unit), WEFT_OK);
	b->task.lun = 1;
	EXPECT_SENSE(bed_in(b, 0, "00 00", 0), S_UA_POWER_ON);
	list_begin(b, 2);
	list_set(b, 0, 0, 1 << 20);
	list_set(b, 1, 0, 1);
	EXPECT_SENSE(unmap(b, 2), S_PARAMETER);
	EXPECT_EQ(bed_field(&b->task), 8 + 16 + 8);
	EXPECT_SENSE(bed_out(b, 0, "93 00 00 00 00 00 00 00 00 00 00 01 00 01 00 00", 512), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 10);
	bed_destroy(b);
}

TEST(test_sbc_write_same_repeats_the_block)
{
	static const char *const with[] = { "41 00 00 00 00 0a 00 00 c8 00",
					    "93 00 00 00 00 00 00 00 00 0a 00 00 00 c8 00 00",
					    /* UNMAP, of a block that is not zeroes */
					    "41 08 00 00 00 0a 00 00 c8 00",
					    "93 08 00 00 00 00 00 00 00 0a 00 00 00 c8 00 00" };
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	for (uint32_t i = 0; i < 4; i++) {
		memset(b->medium, 7, b->size_bytes);
		EXPECT_SENSE(bed_out(b, 0, with[i], 512), S_GOOD);
		EXPECT_EQ(b->task.residual, 0);
		for (uint32_t n = 10; n < 210; n++)
			EXPECT_MEM(b->medium + n * 512, b->sent, 512);
		EXPECT(is_filled(b, 0, 10, 7) && is_filled(b, 210, 814, 7));
		EXPECT_SENSE(bed_out(b, 0, with[i], 256), S_DATA_LENGTH);
		EXPECT_SENSE(bed_out(b, 0, with[i], 1024), S_DATA_LENGTH);
	}
	bed_destroy(b);
}

TEST(test_sbc_write_same_of_zeroes)
{
	static const char *const with[] = { "41 00 00 00 00 0a 00 00 c8 00",
					    "41 08 00 00 00 0a 00 00 c8 00",
					    "93 08 00 00 00 00 00 00 00 0a 00 00 00 c8 00 00",
					    "93 01 00 00 00 00 00 00 00 0a 00 00 00 c8 00 00",
					    "93 09 00 00 00 00 00 00 00 0a 00 00 00 c8 00 00" };
	static const struct bed_config ways[] = { { 0 },
						  { .has_zeroing_discard = true },
						  { .can_not = STORE_CAN_WRITE_ZEROES } };

	for (uint32_t way = 0; way < 3; way++) {
		struct bed *b = bed_create(&ways[way]);

		memset(b->sent, 0, 512);
		for (uint32_t i = 0; i < 5; i++) {
			bool is_refused = i > 2 && way == 2;

			memset(b->medium, 7, b->size_bytes);
			EXPECT_SENSE(bed_out(b, 0, with[i], i > 2 ? 0 : 512),
				     is_refused ? S_CDB : S_GOOD);
			EXPECT(is_filled(b, 10, 200, is_refused ? 7 : 0));
			EXPECT(is_filled(b, 0, 10, 7) && is_filled(b, 210, 814, 7));
		}
		bed_destroy(b);
	}
}

TEST(test_sbc_write_same_refusals)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	EXPECT_SENSE(bed_out(b, 0, "41 00 00 00 00 00 00 00 00 00", 512), S_CDB); /* WSNZ */
	EXPECT_EQ(bed_field(&b->task), 7);
	EXPECT_SENSE(bed_out(b, 0, "93 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00", 512), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 10);
	EXPECT_SENSE(bed_out(b, 0, "41 01 00 00 00 00 00 00 01 00", 0), S_CDB);
	EXPECT_EQ(b->task.sense[15], 0xc8);
	EXPECT_SENSE(bed_out(b, 0, "41 18 00 00 00 00 00 00 01 00", 512), S_CDB); /* ANCHOR */
	EXPECT_EQ(b->task.sense[15], 0xcc);
	EXPECT_SENSE(bed_out(b, 0, "41 02 00 00 00 00 00 00 01 00", 512), S_CDB);
	EXPECT_EQ(b->task.sense[15], 0xca);
	EXPECT_SENSE(bed_out(b, 0, "93 01 00 00 00 00 00 00 00 00 00 00 00 01 00 00", 512),
		     S_DATA_LENGTH);
	bed_destroy(b);
	b = bed_create(
		&(struct bed_config){ .can_not = STORE_CAN_DISCARD | STORE_CAN_WRITE_ZEROES });
	EXPECT_SENSE(bed_out(b, 0, "41 08 00 00 00 00 00 00 01 00", 512), S_CDB); /* UNMAP */
	EXPECT_EQ(b->task.sense[15], 0xcb);
	EXPECT_SENSE(bed_out(b, 0, "41 00 00 00 00 00 00 00 01 00", 512), S_GOOD);
	bed_destroy(b);
}
