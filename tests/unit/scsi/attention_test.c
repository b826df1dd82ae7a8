/* SPDX-License-Identifier: BSD-2-Clause */
/* Unit attentions, REQUEST SENSE, START STOP UNIT and nexuses: SAM-5 section 5.14. */
#include <string.h>

#include "unit/scsi/scsi_fixture.h"

static const char *const ready = "00 00 00 00 00 00";

static uint32_t join(struct bed *b, uint8_t number)
{
	uint8_t id[24] = { 0x45, 0, 0, 20, number };
	struct scsi_nexus_config c = { id, sizeof(id) };

	MUST(scsi_nexus_add(b->target, &c, &b->nexus[2]));
	return b->nexus[2];
}

TEST(test_sam_new_nexus_has_a_unit_attention_of_its_own)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	(void)join(b, 9);
	/* INQUIRY and REPORT LUNS do not report it, and leave it. */
	EXPECT_SENSE(bed_in(b, 2, "12 00 00 00 60 00", 96), S_GOOD);
	EXPECT_SENSE(bed_in(b, 2, "a0 00 00 00 00 00 00 00 10 00 00 00", 4096), S_GOOD);
	EXPECT_SENSE(bed_in(b, 0, ready, 0), S_GOOD);
	/* Nor is a command that is refused anyway first. */
	EXPECT_SENSE(bed_in(b, 2, "ff 00", 0), S_UA_POWER_ON);
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_GOOD);
	bed_destroy(b);
}

TEST(test_spc_request_sense_takes_the_unit_attention)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	(void)join(b, 9);
	EXPECT_SENSE(bed_in(b, 2, "03 00 00 00 ff 00", 255), S_GOOD);
	EXPECT_EQ(b->task.in_length, 18);
	EXPECT_EQ(b->data[0], 0x70);
	EXPECT_EQ(b->data[2], 6);
	EXPECT_EQ(b->data[12], 0x29);
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_GOOD);
	EXPECT_SENSE(bed_in(b, 2, "03 01 00 00 ff 00", 255), S_GOOD);
	EXPECT_EQ(b->task.in_length, 8);
	EXPECT_EQ(bed_number(b->data, 8), 0x7200000000000000);
	bed_destroy(b);
}

TEST(test_sam_attentions_come_one_by_one_in_order)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	EXPECT(scsi_unit_reset(b->target, 0));
	(void)join(b, 9);
	EXPECT(scsi_unit_reset(b->target, 0));
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_UA_POWER_ON);
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_UA_RESET);
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_GOOD);
	EXPECT_SENSE(bed_in(b, 0, ready, 0), S_UA_RESET);
	EXPECT_SENSE(bed_in(b, 0, ready, 0), S_GOOD);
	bed_destroy(b);
}

TEST(test_sbc_stopped_unit_is_not_ready)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	EXPECT_SENSE(bed_in(b, 0, "1b 00 00 00 02 00", 0), S_CDB); /* LOEJ */
	EXPECT_EQ(bed_field(&b->task), 4);
	EXPECT_SENSE(bed_in(b, 0, "1b 00 00 00 20 00", 0), S_CDB); /* a power condition */
	EXPECT_SENSE(bed_in(b, 0, ready, 0), S_GOOD);
	EXPECT_SENSE(bed_in(b, 0, "1b 00 00 00 00 00", 0), S_GOOD);
	EXPECT_SENSE(bed_in(b, 1, ready, 0), S_STOPPED);
	EXPECT_SENSE(bed_in(b, 1, "28 00 00 00 00 00 00 00 01 00", 512), S_STOPPED);
	EXPECT_SENSE(bed_in(b, 1, "25 00 00 00 00 00 00 00 00 00", 8), S_STOPPED);
	EXPECT_SENSE(bed_in(b, 1, "03 00 00 00 ff 00", 255), S_GOOD);
	EXPECT_EQ(b->data[2], 2);
	EXPECT_SENSE(bed_in(b, 1, "12 00 00 00 60 00", 96), S_GOOD);
	EXPECT_SENSE(bed_in(b, 1, "1b 00 00 00 01 00", 0), S_GOOD);
	EXPECT_SENSE(bed_in(b, 0, ready, 0), S_GOOD);
	bed_destroy(b);
}

/* The nexus goes while the device has its read. */
static void leave_with_a_task(struct bed *b, uint32_t nexus)
{
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_UA_POWER_ON);
	b->in = (struct span){ b->data, 512 };
	b->task.in = (struct scsi_data){ &b->in, 1, 512 };
	b->task.nexus = nexus;
	bed_cdb(&b->task, "28 00 00 00 00 00 00 00 01 00");
	scsi_submit(b->target, &b->task, 0);
	scsi_nexus_remove(b->target, nexus);
}

TEST(test_nexus_that_goes_takes_its_tasks_with_it)
{
	struct bed *b = bed_create(&(struct bed_config){ .delay_ns = 1000 });
	uint8_t id[24] = { 0x45, 0, 0, 20, 7 };
	const struct scsi_nexus_config last = { id, sizeof(id) };
	uint32_t gone = join(b, 9), other;

	leave_with_a_task(b, gone);
	/* Its number is not given away while the device has its task. */
	EXPECT(join(b, 8) != gone);
	EXPECT_EQ(scsi_nexus_add(b->target, &last, &other), WEFT_R_LIMIT);
	bed_finish(b, &b->task);
	EXPECT(b->task.is_aborted);
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_UA_POWER_ON);
	EXPECT_EQ(join(b, 9), gone);
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_UA_NEXUS_LOST);
	bed_destroy(b);
}

/* It has another number then. */
TEST(test_sam_nexus_that_comes_back_before_its_tasks_is_told_of_its_loss)
{
	struct bed *b = bed_create(&(struct bed_config){ .delay_ns = 1000 });
	uint32_t gone = join(b, 9);

	leave_with_a_task(b, gone);
	EXPECT(join(b, 9) != gone);
	bed_finish(b, &b->task);
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_UA_NEXUS_LOST);
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_GOOD);
	bed_destroy(b);
}

TEST(test_sam_nexus_that_comes_back_is_told_what_happened_meanwhile)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	(void)join(b, 9);
	scsi_nexus_remove(b->target, b->nexus[2]);
	/* It was not told of power on. */
	(void)join(b, 9);
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_UA_POWER_ON);
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_GOOD);
	scsi_nexus_remove(b->target, b->nexus[2]);
	EXPECT(scsi_unit_reset(b->target, 0));
	(void)join(b, 9);
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_UA_RESET);
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_UA_NEXUS_LOST);
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_GOOD);
	bed_destroy(b);
}

/* One that was forgotten may have missed anything. */
TEST(test_sam_nexus_that_went_first_is_forgotten_first)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	for (uint8_t id = 1; id <= 3; id++) {
		(void)join(b, id);
		EXPECT_SENSE(bed_in(b, 2, ready, 0), S_UA_POWER_ON);
		scsi_nexus_remove(b->target, b->nexus[2]);
	}
	(void)join(b, 2);
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_UA_NEXUS_LOST);
	scsi_nexus_remove(b->target, b->nexus[2]);
	(void)join(b, 1);
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_UA_POWER_ON);
	bed_destroy(b);
}

TEST(test_reasons_have_words)
{
	for (int i = 0; i < SCSI_REASON_COUNT; i++)
		EXPECT(strlen(scsi_reason_text(i)) > 5);
	EXPECT_STR(scsi_reason_text(SCSI_REASON_COUNT), "unknown reason");
}
