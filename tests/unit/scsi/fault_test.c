/* SPDX-License-Identifier: BSD-2-Clause */
/* A device that fails, and when data is on stable storage. */
#include <string.h>

#include "unit/scsi/scsi_fixture.h"
#include "unit/store/probe.h"

static const struct fault_store_config bad_range = {
	.ranges = { { .offset = 40 * 512, .length = 512 } }, .range_count = 1
};

TEST(test_sbc_device_that_fails_is_a_medium_error)
{
	static const struct {
		const char *cdb;
		uint64_t length;
		uint32_t sense;
	} failing[] = {
		{ "28 00 00 00 00 20 00 00 10 00", 8192, S_READ },
		{ "2f 00 00 00 00 20 00 00 10 00", 0, S_READ },
		{ "2f 02 00 00 00 20 00 00 10 00", 8192, S_READ },
		{ "89 00 00 00 00 00 00 00 00 20 00 00 00 10 00 00", 16384, S_READ },
		{ "8b 00 00 00 00 00 00 00 00 20 00 00 00 10 00 00", 8192, S_READ },
		{ "2a 00 00 00 00 20 00 00 10 00", 8192, S_WRITE },
		{ "2e 00 00 00 00 20 00 00 10 00", 8192, S_WRITE },
		{ "41 00 00 00 00 20 00 00 10 00", 512, S_WRITE },
		{ "93 01 00 00 00 00 00 00 00 20 00 00 00 10 00 00", 0, S_WRITE },
	};
	struct bed *b = bed_create(&(struct bed_config){ .fault = &bad_range });

	for (uint32_t i = 0; i < sizeof(failing) / sizeof(failing[0]); i++) {
		harness_note("%s", failing[i].cdb);
		b->out = (struct span){ b->sent, (size_t)failing[i].length };
		b->task.out = (struct scsi_data){ &b->out, 1, failing[i].length };
		b->task.in = b->task.out;
		b->task.nexus = b->nexus[0];
		bed_cdb(&b->task, failing[i].cdb);
		scsi_submit(b->target, &b->task, 0);
		bed_finish(b, &b->task);
		EXPECT_SENSE(&b->task, failing[i].sense);
		EXPECT_EQ(b->task.sense[0], 0xf0);
		EXPECT_EQ(bed_number(b->task.sense + 3, 4), 0x20);
		EXPECT_EQ(b->task.in_length, 0);
	}
	EXPECT_SENSE(bed_in(b, 0, "28 00 00 00 00 00 00 00 10 00", 8192), S_GOOD);
	bed_destroy(b);
}

/* A unit on a device that the test plays. */
struct played {
	struct probe probe;
	struct scsi_target *target;
	uint32_t nexus;
	struct scsi_task task;
	struct span span;
	uint8_t bytes[4096];
};

static void play(struct played *p, uint32_t can)
{
	struct scsi_target_config target = {
		.name = "iqn.x", .port = 1, .units_max = 1, .nexuses_max = 1, .registrations_max = 1
	};
	struct scsi_unit_config unit = { .store = &p->probe.store,
					 .transfer_bytes_max = 4096,
					 .serial = "s" };
	uint8_t id[4] = { 0x45 };
	struct scsi_nexus_config nexus = { id, sizeof(id) };

	memset(p, 0, sizeof(*p));
	probe_init(&p->probe, 1 << 20);
	p->probe.store.shape.can = can;
	MUST(scsi_target_create(&target, &p->target));
	MUST(scsi_unit_add(p->target, &unit));
	MUST(scsi_nexus_add(p->target, &nexus, &p->nexus));
	scsi_submit(p->target, &p->task, 0);
	REQUIRE(scsi_next_done(p->target, 0) == &p->task);
	p->span = (struct span){ p->bytes, 512 };
	p->task.in = p->task.out = (struct scsi_data){ &p->span, 1, 512 };
}

static void played_start(struct played *p, const char *cdb)
{
	p->probe.asked_count = 0;
	bed_cdb(&p->task, cdb);
	scsi_submit(p->target, &p->task, 0);
}

/* Ends the request that came last; what comes then? */
static bool played_end(struct played *p, enum weft_reason reason)
{
	probe_end(&p->probe, p->probe.asked_count - 1, reason);
	return scsi_next_done(p->target, 0) == &p->task;
}

static enum store_op played_op(const struct played *p)
{
	return p->probe.asked[p->probe.asked_count - 1]->op;
}

TEST(test_sbc_fua_is_the_devices_or_a_flush)
{
	static struct played p;
	const char *fua = "2a 08 00 00 00 00 00 00 01 00";

	play(&p, STORE_CAN_ALL);
	played_start(&p, fua);
	EXPECT_EQ(p.probe.asked[0]->flags, STORE_FUA);
	EXPECT(played_end(&p, WEFT_OK));
	played_start(&p, "2a 10 00 00 00 00 00 00 01 00");
	EXPECT_EQ(p.probe.asked[0]->flags, 0);
	EXPECT(played_end(&p, WEFT_OK));
	/* UNMAP stands where FUA does elsewhere. */
	p.bytes[0] = 1;
	played_start(&p, "41 08 00 00 00 00 00 00 01 00");
	EXPECT_EQ(p.probe.asked[0]->flags, 0);
	EXPECT(played_end(&p, WEFT_OK));
	scsi_target_destroy(p.target);
	play(&p, STORE_CAN_FLUSH);
	played_start(&p, fua);
	EXPECT_EQ(p.probe.asked[0]->flags, 0);
	EXPECT(!played_end(&p, WEFT_OK));
	EXPECT_EQ(played_op(&p), STORE_FLUSH);
	EXPECT(played_end(&p, WEFT_OK));
	EXPECT_SENSE(&p.task, S_GOOD);
	/* A read with FUA comes after a flush. */
	played_start(&p, "28 08 00 00 00 00 00 00 01 00");
	EXPECT_EQ(played_op(&p), STORE_FLUSH);
	EXPECT(!played_end(&p, WEFT_OK));
	EXPECT_EQ(played_op(&p), STORE_READ);
	EXPECT(played_end(&p, WEFT_OK));
	scsi_target_destroy(p.target);
	play(&p, 0);
	played_start(&p, fua);
	EXPECT(played_end(&p, WEFT_OK));
	played_start(&p, "35 00 00 00 00 00 00 00 00 00");
	EXPECT_EQ(p.probe.asked_count, 0);
	EXPECT(scsi_next_done(p.target, 0) == &p.task);
	EXPECT_SENSE(&p.task, S_GOOD);
	scsi_target_destroy(p.target);
}

TEST(test_sbc_without_write_cache_every_write_is_stable)
{
	static struct played p;
	static const uint8_t page[24] = { 0, 0, 0, 0, 0x08, 0x12 };

	play(&p, STORE_CAN_FLUSH | STORE_CAN_DISCARD | STORE_CAN_FUA);
	memcpy(p.bytes, page, sizeof(page));
	played_start(&p, "15 10 00 00 18 00");
	EXPECT(scsi_next_done(p.target, 0) == &p.task);
	EXPECT_SENSE(&p.task, S_GOOD);
	played_start(&p, "0a 00 00 00 01 00");
	EXPECT_EQ(p.probe.asked[0]->flags, STORE_FUA);
	EXPECT(played_end(&p, WEFT_OK));
	/* A discard has no such flag: a flush follows. */
	memcpy(p.bytes, "\0\x16\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0", 24);
	played_start(&p, "42 00 00 00 00 00 00 00 18 00");
	EXPECT_EQ(played_op(&p), STORE_DISCARD);
	EXPECT(!played_end(&p, WEFT_OK));
	EXPECT_EQ(played_op(&p), STORE_FLUSH);
	EXPECT(played_end(&p, WEFT_OK));
	EXPECT_SENSE(&p.task, S_GOOD);
	scsi_target_destroy(p.target);
}

TEST(test_sbc_failures_of_the_device_by_kind)
{
	static struct played p;
	const char *write = "2a 00 00 00 00 00 00 00 01 00";

	play(&p, STORE_CAN_ALL);
	played_start(&p, write);
	EXPECT(played_end(&p, WEFT_R_STORE_FULL));
	EXPECT_SENSE(&p.task, S_SPACE);
	played_start(&p, write);
	EXPECT(played_end(&p, WEFT_R_STORE_READONLY));
	EXPECT_SENSE(&p.task, S_PROTECTED);
	played_start(&p, "35 00 00 00 00 00 00 00 00 00");
	EXPECT_EQ(played_op(&p), STORE_FLUSH);
	EXPECT(played_end(&p, WEFT_R_STORE_IO));
	EXPECT_SENSE(&p.task, S_WRITE);
	EXPECT_EQ(p.task.sense[0], 0x70);
	/* The unit stops, and what is in the cache goes to the medium first. */
	played_start(&p, "1b 00 00 00 00 00");
	EXPECT_EQ(played_op(&p), STORE_FLUSH);
	EXPECT(played_end(&p, WEFT_OK));
	EXPECT_SENSE(&p.task, S_GOOD);
	played_start(&p, "1b 00 00 00 01 00");
	EXPECT(scsi_next_done(p.target, 0) == &p.task);
	/* A failure of an aborted task is none of the initiator's. */
	played_start(&p, write);
	scsi_task_abort(p.target, &p.task);
	EXPECT(played_end(&p, WEFT_R_STORE_IO));
	EXPECT_SENSE(&p.task, S_ABORTED);
	EXPECT_EQ(p.task.sense_length, 0);
	/* A device that takes back what its shape says. */
	p.probe.store.shape.size_bytes = 512;
	played_start(&p, "2a 00 00 00 00 08 00 00 01 00");
	EXPECT(scsi_next_done(p.target, 0) == &p.task);
	EXPECT_SENSE(&p.task, S_INTERNAL);
	scsi_target_destroy(p.target);
}
