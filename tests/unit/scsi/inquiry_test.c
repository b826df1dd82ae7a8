/* SPDX-License-Identifier: BSD-2-Clause */
/* INQUIRY, READ CAPACITY, REPORT LUNS, GET LBA STATUS: what an initiator asks first. */
#include <stdio.h>
#include <string.h>

#include "unit/scsi/scsi_fixture.h"

TEST(test_spc_inquiry_standard_data)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	EXPECT_SENSE(bed_in(b, 0, "12 00 00 01 00 00", 256), S_GOOD);
	EXPECT_EQ(b->task.in_length, 96);
	EXPECT_EQ(b->task.residual, 160);
	EXPECT_EQ(b->data[0], 0);
	EXPECT_EQ(b->data[2], 6);
	EXPECT_EQ(b->data[3] & 0x0f, 2);
	EXPECT_EQ(b->data[4], 91);
	EXPECT_EQ(b->data[7], 2);
	EXPECT_MEM(b->data + 8, "weft    virtual disk    0001", 28);
	EXPECT_EQ(bed_number(b->data + 58, 8), 0x00a00960046004c0);
	/* SPC-4 section 6.6.1: a page code needs EVPD. */
	EXPECT_SENSE(bed_in(b, 0, "12 00 01 01 00 00", 256), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 2);
	bed_destroy(b);
}

TEST(test_spc_inquiry_allocation_length_cuts_the_answer)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });
	char cdb[32];

	for (uint32_t i = 0; i < 256; i++) {
		uint32_t length = i < 96 ? i : 96;

		snprintf(cdb, sizeof(cdb), "12 00 00 00 %02x 00", i);
		EXPECT_SENSE(bed_in(b, 0, cdb, 255), S_GOOD);
		EXPECT_EQ(b->task.in_length, length);
		EXPECT_EQ(b->task.residual, 255 - length);
		EXPECT(!b->task.is_overflow);
		EXPECT_EQ(b->data[length], 0xee);
	}
	/* The initiator asks for more than it has room for. */
	EXPECT_SENSE(bed_in(b, 0, "12 00 00 00 ff 00", 36), S_GOOD);
	EXPECT_EQ(b->task.in_length, 36);
	EXPECT(b->task.is_overflow);
	EXPECT_EQ(b->task.residual, 60);
	EXPECT_EQ(b->data[36], 0xee);
	bed_destroy(b);
}

static void page(struct bed *b, const char *cdb, uint8_t code, uint32_t length)
{
	EXPECT_SENSE(bed_in(b, 0, cdb, 512), S_GOOD);
	EXPECT_EQ(b->data[0], 0);
	EXPECT_EQ(b->data[1], code);
	EXPECT_EQ(bed_number(b->data + 2, 2), length);
	EXPECT_EQ(b->task.in_length, length + 4);
}

TEST(test_spc_inquiry_vital_product_data)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	page(b, "12 01 00 02 00 00", 0x00, 6);
	EXPECT_MEM(b->data + 4, "\x00\x80\x83\xb0\xb1\xb2", 6);
	page(b, "12 01 80 02 00 00", 0x80, 6);
	EXPECT_MEM(b->data + 4, "disk-1", 6);
	/* NAA, T10 vendor, port name and number, name of the target. */
	page(b, "12 01 83 02 00 00", 0x83, 12 + 18 + (4 + 32) + 8 + (4 + 20));
	EXPECT_EQ(bed_number(b->data + 4, 4), 0x01030008);
	EXPECT_EQ(bed_number(b->data + 8, 8), 0x3123456789abcdef);
	EXPECT_EQ(bed_number(b->data + 16, 4), 0x0201000e);
	EXPECT_MEM(b->data + 20, "weft    disk-1", 14);
	EXPECT_EQ(bed_number(b->data + 34, 4), 0x53980020);
	EXPECT_MEM(b->data + 38, "iqn.2026-11.x:disks,t,0x0001\0\0\0", 32);
	EXPECT_EQ(bed_number(b->data + 70, 8), 0x5194000400000001);
	EXPECT_EQ(bed_number(b->data + 78, 4), 0x53a80014);
	EXPECT_STR((char *)b->data + 82, "iqn.2026-11.x:disks");
	page(b, "12 01 b1 02 00 00", 0xb1, 0x3c);
	EXPECT_EQ(bed_number(b->data + 4, 2), 1);
	EXPECT_SENSE(bed_in(b, 0, "12 01 84 02 00 00", 512), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 2);
	bed_destroy(b);
}

TEST(test_sbc_block_limits_and_provisioning)
{
	struct bed *b = bed_create(&(struct bed_config){ .transfer_bytes_max = 65536 });

	page(b, "12 01 b0 02 00 00", 0xb0, 0x3c);
	EXPECT_EQ(b->data[4], 1);   /* WSNZ */
	EXPECT_EQ(b->data[5], 255); /* COMPARE AND WRITE */
	EXPECT_EQ(bed_number(b->data + 8, 4), 128);
	EXPECT_EQ(bed_number(b->data + 20, 4), 1 << 20);
	EXPECT_EQ(bed_number(b->data + 24, 4), 256);
	EXPECT_EQ(bed_number(b->data + 36, 8), 1 << 15);
	page(b, "12 01 b2 02 00 00", 0xb2, 4);
	EXPECT_EQ(bed_number(b->data + 4, 4), 0x00e40200);
	bed_destroy(b);
	b = bed_create(
		&(struct bed_config){ .block_bytes = 4096, .can_not = STORE_CAN_WRITE_ZEROES });
	page(b, "12 01 b0 02 00 00", 0xb0, 0x3c);
	EXPECT_EQ(b->data[5], 32);
	page(b, "12 01 b2 02 00 00", 0xb2, 4);
	EXPECT_EQ(bed_number(b->data + 4, 4), 0x00e00200); /* no LBPRZ */
	EXPECT_SENSE(bed_in(b, 0, "9e 10 00 00 00 00 00 00 00 00 00 00 00 20 00 00", 32), S_GOOD);
	EXPECT_EQ(bed_number(b->data + 12, 4), 0x00008000);
	bed_destroy(b);
	b = bed_create(
		&(struct bed_config){ .can_not = STORE_CAN_DISCARD | STORE_CAN_WRITE_ZEROES });
	page(b, "12 01 b0 02 00 00", 0xb0, 0x3c);
	EXPECT_EQ(bed_number(b->data + 20, 8), 0);
	page(b, "12 01 b2 02 00 00", 0xb2, 4);
	EXPECT_EQ(bed_number(b->data + 4, 4), 0);
	bed_destroy(b);
}

TEST(test_sbc_read_capacity)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	EXPECT_SENSE(bed_in(b, 0, "25 00 00 00 00 00 00 00 00 00", 8), S_GOOD);
	EXPECT_EQ(bed_number(b->data, 8), 0x000003ff00000200);
	EXPECT_EQ(b->task.residual, 0);
	EXPECT_SENSE(bed_in(b, 0, "25 00 00 00 00 01 00 00 00 00", 8), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 2);
	EXPECT_SENSE(bed_in(b, 0, "9e 10 00 00 00 00 00 00 00 00 00 00 00 20 00 00", 32), S_GOOD);
	EXPECT_EQ(b->task.in_length, 32);
	EXPECT_EQ(bed_number(b->data, 8), 0x3ff);
	EXPECT_EQ(bed_number(b->data + 8, 8), 0x000002000000c000);
	EXPECT_SENSE(bed_in(b, 0, "9e 10 00 00 00 00 00 00 00 00 00 00 00 0c 00 00", 32), S_GOOD);
	EXPECT_EQ(b->task.in_length, 12);
	EXPECT_SENSE(bed_in(b, 0, "9e 10 00 00 00 00 00 00 00 01 00 00 00 20 00 00", 32), S_CDB);
	EXPECT_SENSE(bed_in(b, 0, "9e 11 00 00 00 00 00 00 00 00 00 00 00 20 00 00", 32), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 1);
	bed_destroy(b);
}

TEST(test_sbc_get_lba_status_knows_nothing_of_mapping)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	EXPECT_SENSE(bed_in(b, 0, "9e 12 00 00 00 00 00 00 03 00 00 00 00 18 00 00", 24), S_GOOD);
	EXPECT_EQ(bed_number(b->data, 4), 20);
	EXPECT_EQ(bed_number(b->data + 8, 8), 0x300);
	EXPECT_EQ(bed_number(b->data + 16, 8), 0x10000000000);
	bed_destroy(b);
}

TEST(test_spc_report_luns_and_units_that_are_not_there)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });
	struct scsi_unit_config more = {
		.lun = 300, .store = b->memory, .transfer_bytes_max = 4096, .serial = "disk-2"
	};

	EXPECT_SENSE(bed_in(b, 0, "a0 00 00 00 00 00 00 00 10 00 00 00", 4096), S_GOOD);
	EXPECT_EQ(bed_number(b->data, 4), 8);
	EXPECT_EQ(b->task.in_length, 16);
	EXPECT_SENSE(bed_in(b, 0, "a0 00 03 00 00 00 00 00 10 00 00 00", 4096), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 2);
	EXPECT_SENSE(bed_in(b, 0, "a0 00 00 00 00 00 00 00 00 0f 00 00", 4096), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 6);
	EXPECT_SENSE(bed_in(b, 0, "a0 00 01 00 00 00 00 00 10 00 00 00", 4096), S_GOOD);
	EXPECT_EQ(bed_number(b->data, 4), 0);
	/* A unit more: initiators are told, and the list has it. */
	EXPECT_EQ(scsi_unit_add(b->target, &more), WEFT_OK);
	EXPECT_SENSE(bed_in(b, 1, "00 00 00 00 00 00", 0), S_UA_LUNS);
	EXPECT_SENSE(bed_in(b, 0, "a0 00 02 00 00 00 00 00 10 00 00 00", 4096), S_GOOD);
	EXPECT_EQ(bed_number(b->data, 4), 16);
	EXPECT_EQ(bed_number(b->data + 16, 8), 0x412c000000000000);
	EXPECT_SENSE(bed_in(b, 0, "00 00 00 00 00 00", 0), S_GOOD);
	b->task.lun = 300;
	EXPECT_SENSE(bed_in(b, 0, "00 00 00 00 00 00", 0), S_UA_POWER_ON);
	EXPECT_SENSE(bed_in(b, 0, "00 00 00 00 00 00", 0), S_GOOD);
	b->task.lun = 7;
	EXPECT_SENSE(bed_in(b, 0, "00 00 00 00 00 00", 0), S_LUN);
	EXPECT_SENSE(bed_in(b, 0, "28 00 00 00 00 00 00 00 01 00", 512), S_LUN);
	EXPECT_SENSE(bed_in(b, 0, "ff 00", 512), S_LUN);
	EXPECT_SENSE(bed_in(b, 0, "12 00 00 00 60 00", 96), S_GOOD);
	EXPECT_EQ(b->data[0], 0x7f);
	EXPECT_SENSE(bed_in(b, 0, "12 01 00 00 60 00", 96), S_CDB);
	EXPECT_SENSE(bed_in(b, 0, "a0 00 02 00 00 00 00 00 10 00 00 00", 4096), S_GOOD);
	EXPECT_EQ(bed_number(b->data, 4), 16);
	EXPECT_SENSE(bed_in(b, 0, "03 00 00 00 12 00", 18), S_GOOD);
	EXPECT_EQ(b->data[12], 0x25);
	bed_destroy(b);
}

TEST(test_sam_lun_decode)
{
	static const struct {
		uint8_t bytes[8];
		uint16_t lun;
	} luns[] = {
		{ { 0 }, 0 },
		{ { 0, 255 }, 255 },
		{ { 0x40, 3 }, 3 },
		{ { 0x7f, 0xff }, 16383 },
		{ { 1, 0 }, SCSI_NO_LUN },
		{ { 0x80, 0 }, SCSI_NO_LUN },
		{ { 0xc1, 1 }, SCSI_NO_LUN },
		{ { 0, 1, 0, 1 }, SCSI_NO_LUN },
		{ { 0, 1, 0, 0, 0, 0, 0, 1 }, SCSI_NO_LUN },
	};

	for (uint32_t i = 0; i < sizeof(luns) / sizeof(luns[0]); i++)
		EXPECT_EQ(scsi_lun_decode(luns[i].bytes), luns[i].lun);
}

TEST(test_target_and_unit_configurations_are_checked)
{
	struct scsi_target_config good = {
		.name = "iqn.x", .port = 1, .units_max = 1, .nexuses_max = 1, .registrations_max = 1
	};
	struct scsi_target_config c = good;
	static char long_name[SCSI_NAME_MAX + 2];
	uint8_t id[SCSI_TRANSPORT_ID_MAX + 4] = { 0 };
	struct scsi_nexus_config nexus = { id, 24 };
	struct scsi_target *target;
	struct bed *b = bed_create(&(struct bed_config){ 0 });
	struct scsi_unit_config unit = { .store = b->memory,
					 .transfer_bytes_max = 4096,
					 .serial = "s" },
				u = unit;
	uint32_t n, other;

	c.name = NULL;
	EXPECT_EQ(scsi_target_create(&c, &target), WEFT_R_NULL_ARGUMENT);
	memset(long_name, 'x', sizeof(long_name) - 1);
	c.name = long_name;
	EXPECT_EQ(scsi_target_create(&c, &target), WEFT_R_BAD_ARGUMENT);
	c = good;
	c.port = 0;
	EXPECT_EQ(scsi_target_create(&c, &target), WEFT_R_BAD_ARGUMENT);
	c = good;
	c.units_max = SCSI_UNITS_MAX + 1;
	EXPECT_EQ(scsi_target_create(&c, &target), WEFT_R_BAD_ARGUMENT);
	c = good;
	c.nexuses_max = 0;
	EXPECT_EQ(scsi_target_create(&c, &target), WEFT_R_BAD_ARGUMENT);
	c = good;
	c.registrations_max = SCSI_NEXUSES_MAX + 1;
	EXPECT_EQ(scsi_target_create(&c, &target), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(scsi_target_create(&good, &target), WEFT_OK);
	u.store = NULL;
	EXPECT_EQ(scsi_unit_add(target, &u), WEFT_R_NULL_ARGUMENT);
	u = unit;
	u.lun = 16384;
	EXPECT_EQ(scsi_unit_add(target, &u), WEFT_R_BAD_ARGUMENT);
	u = unit;
	u.serial = "";
	EXPECT_EQ(scsi_unit_add(target, &u), WEFT_R_BAD_ARGUMENT);
	u.serial = "a\tb";
	EXPECT_EQ(scsi_unit_add(target, &u), WEFT_R_BAD_ARGUMENT);
	u = unit;
	u.transfer_bytes_max = 100;
	EXPECT_EQ(scsi_unit_add(target, &u), WEFT_R_BAD_ARGUMENT);
	u = unit;
	u.id = UINT64_MAX;
	EXPECT_EQ(scsi_unit_add(target, &u), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(scsi_unit_add(target, &unit), WEFT_OK);
	EXPECT_EQ(scsi_unit_add(target, &unit), WEFT_R_BAD_ARGUMENT);
	u = unit;
	u.lun = 1;
	EXPECT_EQ(scsi_unit_add(target, &u), WEFT_R_LIMIT);
	nexus.transport_id_length = 0;
	EXPECT_EQ(scsi_nexus_add(target, &nexus, &n), WEFT_R_BAD_ARGUMENT);
	nexus.transport_id_length = 22;
	EXPECT_EQ(scsi_nexus_add(target, &nexus, &n), WEFT_R_BAD_ARGUMENT);
	nexus.transport_id_length = sizeof(id);
	EXPECT_EQ(scsi_nexus_add(target, &nexus, &n), WEFT_R_BAD_ARGUMENT);
	nexus.transport_id_length = 24;
	EXPECT_EQ(scsi_nexus_add(target, &nexus, &n), WEFT_OK);
	EXPECT_EQ(scsi_nexus_add(target, &nexus, &other), WEFT_R_LIMIT);
	scsi_nexus_remove(target, n);
	EXPECT_EQ(scsi_nexus_add(target, &nexus, &other), WEFT_OK);
	scsi_target_destroy(target);
	bed_destroy(b);
}
