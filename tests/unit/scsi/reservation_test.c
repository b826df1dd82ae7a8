/* SPDX-License-Identifier: BSD-2-Clause */
/* Persistent reservations: SPC-4 sections 5.12, 6.15 and 6.16. */
#include <stdio.h>
#include <string.h>

#include "unit/scsi/scsi_fixture.h"

enum {
	REGISTER = 0,
	RESERVE = 1,
	RELEASE = 2,
	CLEAR = 3,
	PREEMPT = 4,
	PREEMPT_AND_ABORT = 5,
	REGISTER_AND_IGNORE = 6,
	KEY_A = 0xa1,
	KEY_B = 0xb2,
};

static const char *const ready = "00 00 00 00 00 00";

/* The type of a reservation, besides the service action. */
static uint32_t of(uint32_t type)
{
	return type << 8;
}

static uint32_t reserve(struct bed *b, uint32_t nexus, uint32_t what, uint64_t key,
			uint64_t service_key)
{
	struct wr w = wr_of(b->sent, 24);
	char cdb[64];

	wr_u64(&w, key);
	wr_u64(&w, service_key);
	wr_u64(&w, 0);
	snprintf(cdb, sizeof(cdb), "5f %02x %02x 00 00 00 00 00 18 00", what & 0xff, what >> 8);
	return bed_sense(bed_out(b, nexus, cdb, 24));
}

/* Three nexuses; the first two registered. */
static struct bed *registered(const struct bed_config *c)
{
	struct bed *b = bed_create(c);
	uint8_t id[24] = { 0x45, 0, 0, 20, 'z' };
	struct scsi_nexus_config third = { id, sizeof(id) };

	MUST(scsi_nexus_add(b->target, &third, &b->nexus[2]));
	MUST_EQ(bed_sense(bed_in(b, 2, ready, 0)), S_UA_POWER_ON);
	MUST_EQ(reserve(b, 0, REGISTER, 0, KEY_A), S_GOOD);
	MUST_EQ(reserve(b, 1, REGISTER, 0, KEY_B), S_GOOD);
	return b;
}

TEST(test_spc_register)
{
	struct bed *b = bed_create(&(struct bed_config){ 0 });

	/* Not registered: only key 0 is right. */
	EXPECT_EQ(reserve(b, 0, REGISTER, 5, KEY_A), S_CONFLICT);
	EXPECT_EQ(reserve(b, 0, REGISTER, 0, 0), S_GOOD);
	EXPECT_EQ(reserve(b, 0, REGISTER, 0, KEY_A), S_GOOD);
	EXPECT_EQ(reserve(b, 0, REGISTER, 0, KEY_B), S_CONFLICT);
	EXPECT_EQ(reserve(b, 0, REGISTER, KEY_A, KEY_B), S_GOOD);
	EXPECT_SENSE(bed_in(b, 1, "5e 00 00 00 00 00 00 01 00 00", 256), S_GOOD);
	EXPECT_EQ(bed_number(b->data, 8), 0x300000008);
	EXPECT_EQ(bed_number(b->data + 8, 8), KEY_B);
	EXPECT_EQ(b->task.in_length, 16);
	/* Truncated: the length is still that of all. */
	EXPECT_SENSE(bed_in(b, 1, "5e 00 00 00 00 00 00 00 08 00", 256), S_GOOD);
	EXPECT_EQ(b->task.in_length, 8);
	EXPECT_EQ(bed_number(b->data + 4, 4), 8);
	EXPECT_EQ(reserve(b, 0, REGISTER_AND_IGNORE, 99, KEY_A), S_GOOD);
	EXPECT_EQ(reserve(b, 0, REGISTER, KEY_A, 0), S_GOOD);
	EXPECT_SENSE(bed_in(b, 1, "5e 00 00 00 00 00 00 01 00 00", 256), S_GOOD);
	EXPECT_EQ(bed_number(b->data, 8), 0x500000000);
	EXPECT_EQ(reserve(b, 0, REGISTER_AND_IGNORE, 99, 0), S_GOOD);
	bed_destroy(b);
}

TEST(test_spc_parameters_of_reserve_out)
{
	struct bed *b = registered(&(struct bed_config){ 0 });
	static const uint8_t flags[] = { 0x08, 0x04, 0x01 };
	static const uint8_t bits[] = { 3, 2, 0 };

	memset(b->sent, 0, 64);
	EXPECT_SENSE(bed_out(b, 0, "5f 00 00 00 00 00 00 00 17 00", 24), S_PARAMETER_LENGTH);
	EXPECT_SENSE(bed_out(b, 0, "5f 00 00 00 00 00 00 00 19 00", 25), S_PARAMETER_LENGTH);
	EXPECT_SENSE(bed_out(b, 0, "5f 00 00 00 00 00 00 00 18 00", 23), S_PARAMETER_LENGTH);
	for (uint32_t i = 0; i < 3; i++) {
		b->sent[20] = flags[i];
		EXPECT_SENSE(bed_out(b, 0, "5f 00 00 00 00 00 00 00 18 00", 24), S_PARAMETER);
		EXPECT_EQ(bed_field(&b->task), 20);
		EXPECT_EQ(b->task.sense[15], 0x88 | bits[i]);
	}
	/* What is about registrations alone is ignored by the others. */
	b->sent[7] = KEY_A;
	b->sent[20] = 0x05;
	EXPECT_SENSE(bed_out(b, 0, "5f 01 05 00 00 00 00 00 18 00", 24), S_GOOD);
	EXPECT_SENSE(bed_out(b, 0, "5f 02 05 00 00 00 00 00 18 00", 24), S_GOOD);
	while (bed_sense(bed_in(b, 1, ready, 0)) != S_GOOD)
		;
	/* Types and scopes that there are not. */
	for (uint8_t type = 0; type < 16; type++) {
		bool is_there = type == 1 || type == 3 || (type >= 5 && type <= 8);

		EXPECT_EQ(reserve(b, 0, RESERVE | of(type), KEY_A, 0), is_there ? S_GOOD : S_CDB);
		EXPECT_EQ(reserve(b, 0, RELEASE | of(type), KEY_A, 0), is_there ? S_GOOD : S_CDB);
		while (bed_sense(bed_in(b, 1, ready, 0)) != S_GOOD)
			;
	}
	EXPECT_EQ(reserve(b, 0, RESERVE | of(0x11), KEY_A, 0), S_CDB);
	EXPECT_EQ(bed_field(&b->task), 2);
	bed_destroy(b);
}

TEST(test_spc_no_room_for_more_registrations)
{
	struct bed *b = registered(&(struct bed_config){ 0 });
	uint8_t id[24] = { 0x45, 0, 0, 20, 'y' };
	struct scsi_nexus_config fourth = { id, sizeof(id) };

	EXPECT_EQ(reserve(b, 2, REGISTER, 0, 3), S_GOOD);
	EXPECT_EQ(scsi_nexus_add(b->target, &fourth, &b->nexus[3]), WEFT_OK);
	EXPECT_SENSE(bed_in(b, 3, ready, 0), S_UA_POWER_ON);
	EXPECT_EQ(reserve(b, 3, REGISTER, 0, 4), S_FULL);
	EXPECT_EQ(reserve(b, 2, REGISTER, 3, 0), S_GOOD);
	EXPECT_EQ(reserve(b, 3, REGISTER, 0, 4), S_GOOD);
	bed_destroy(b);
}

/* Commands of each class, to a unit that nexus 0 has reserved. */
static const struct {
	const char *cdb;
	bool reads, writes;
} commands[] = {
	{ "00 00 00 00 00 00", false, false },
	{ "12 00 00 00 60 00", false, false },
	{ "a0 00 00 00 00 00 00 00 10 00 00 00", false, false },
	{ "25 00 00 00 00 00 00 00 00 00", false, false },
	{ "5e 00 00 00 00 00 00 01 00 00", false, false },
	{ "1b 00 00 00 01 00", false, false },
	{ "08 00 00 00 01 00", true, false },
	{ "28 00 00 00 00 00 00 00 01 00", true, false },
	{ "2f 00 00 00 00 00 00 00 01 00", true, false },
	{ "34 00 00 00 00 00 00 00 01 00", true, false },
	{ "9e 12 00 00 00 00 00 00 00 00 00 00 00 18 00 00", true, false },
	{ "a3 0c 00 00 00 00 00 00 10 00 00 00", true, false },
	{ "0a 00 00 00 01 00", true, true },
	{ "2a 00 00 00 00 00 00 00 01 00", true, true },
	{ "2e 00 00 00 00 00 00 00 01 00", true, true },
	{ "35 00 00 00 00 00 00 00 00 00", true, true },
	{ "41 00 00 00 00 00 00 00 01 00", true, true },
	{ "42 00 00 00 00 00 00 00 00 00", true, true },
	{ "89 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00", true, true },
	{ "8b 00 00 00 00 00 00 00 00 00 00 00 00 01 00 00", true, true },
	{ "1a 00 3f 00 ff 00", true, true },
	{ "15 10 00 00 00 00", true, true },
	{ "1b 00 00 00 02 00", true, true },
};

static void access_try(struct bed *b, uint32_t nexus, bool is_in, bool is_exclusive)
{
	for (uint32_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		bool is_refused = !is_in && (is_exclusive ? commands[i].reads : commands[i].writes);

		harness_note("nexus %u, %s", nexus, commands[i].cdb);
		b->out = (struct span){ b->data, 512 };
		b->task.out = b->task.in = (struct scsi_data){ &b->out, 1, 512 };
		bed_cdb(&b->task, commands[i].cdb);
		if (b->task.cdb[0] == 0x89)
			b->task.out.length = b->task.in.length = 0;
		b->task.nexus = b->nexus[nexus];
		scsi_submit(b->target, &b->task, 0);
		bed_finish(b, &b->task);
		EXPECT_EQ(b->task.status == SCSI_RESERVATION_CONFLICT, is_refused);
		EXPECT(is_refused || b->task.status == SCSI_GOOD || b->task.cdb[0] == 0x1b);
	}
}

TEST(test_spc_access_matrix_of_all_types)
{
	static const uint8_t types[] = { 1, 3, 5, 6, 7, 8 };

	for (uint32_t i = 0; i < 6; i++) {
		struct bed *b = registered(&(struct bed_config){ 0 });
		bool is_exclusive = types[i] == 3 || types[i] == 6 || types[i] == 8;

		EXPECT_EQ(reserve(b, 2, RESERVE | of(types[i]), 0, 0), S_CONFLICT);
		EXPECT_EQ(reserve(b, 0, RESERVE | of(types[i]), KEY_B, 0), S_CONFLICT);
		EXPECT_EQ(reserve(b, 0, RESERVE | of(types[i]), KEY_A, 0), S_GOOD);
		EXPECT_EQ(reserve(b, 0, RESERVE | of(types[i]), KEY_A, 0), S_GOOD);
		EXPECT_EQ(reserve(b, 0, RESERVE | of(types[i] == 1 ? 3 : 1), KEY_A, 0), S_CONFLICT);
		/* The holder, a registered one, and one that is not. */
		access_try(b, 0, true, is_exclusive);
		access_try(b, 1, types[i] >= 5, is_exclusive);
		access_try(b, 2, false, is_exclusive);
		/* Of the types for all, every registered one holds it. */
		EXPECT_EQ(reserve(b, 1, RESERVE | of(types[i]), KEY_B, 0),
			  types[i] >= 7 ? S_GOOD : S_CONFLICT);
		bed_destroy(b);
	}
}

TEST(test_spc_release)
{
	static const uint8_t types[] = { 1, 3, 5, 6, 7, 8 };

	for (uint32_t i = 0; i < 6; i++) {
		struct bed *b = registered(&(struct bed_config){ 0 });
		bool is_told = types[i] >= 5;

		EXPECT_EQ(reserve(b, 0, RELEASE | of(types[i]), KEY_A, 0), S_GOOD);
		EXPECT_EQ(reserve(b, 0, RESERVE | of(types[i]), KEY_A, 0), S_GOOD);
		EXPECT_EQ(reserve(b, 0, RELEASE | of(types[i] == 1 ? 3 : 1), KEY_A, 0), S_RELEASE);
		EXPECT_EQ(reserve(b, 2, RELEASE | of(types[i]), 0, 0), S_CONFLICT);
		EXPECT_EQ(reserve(b, 0, RELEASE | of(types[i]), KEY_B, 0), S_CONFLICT);
		if (types[i] < 7) /* not the holder: nothing */
			EXPECT_EQ(reserve(b, 1, RELEASE | of(types[i]), KEY_B, 0), S_GOOD);
		EXPECT_SENSE(bed_in(b, 1, "5e 01 00 00 00 00 00 01 00 00", 256), S_GOOD);
		EXPECT_EQ(bed_number(b->data + 4, 4), 16);
		EXPECT_EQ(bed_number(b->data + 8, 8), types[i] >= 7 ? 0 : KEY_A);
		EXPECT_EQ(b->data[21], types[i]);
		EXPECT_EQ(reserve(b, 0, RELEASE | of(types[i]), KEY_A, 0), S_GOOD);
		EXPECT_SENSE(bed_in(b, 1, ready, 0), is_told ? S_UA_RESERVATIONS_RELEASED : S_GOOD);
		EXPECT_SENSE(bed_in(b, 0, ready, 0), S_GOOD);
		EXPECT_SENSE(bed_in(b, 2, ready, 0), S_GOOD);
		EXPECT_SENSE(bed_in(b, 1, "5e 01 00 00 00 00 00 01 00 00", 256), S_GOOD);
		EXPECT_EQ(bed_number(b->data + 4, 4), 0);
		bed_destroy(b);
	}
}

TEST(test_spc_unregistering_releases)
{
	static const uint8_t types[] = { 1, 3, 5, 6, 7, 8 };

	for (uint32_t i = 0; i < 6; i++) {
		struct bed *b = registered(&(struct bed_config){ 0 });

		EXPECT_EQ(reserve(b, 0, RESERVE | of(types[i]), KEY_A, 0), S_GOOD);
		EXPECT_EQ(reserve(b, 0, REGISTER, KEY_A, 0), S_GOOD);
		/* One for all registrants stays while there is one. */
		EXPECT_SENSE(bed_in(b, 1, ready, 0),
			     types[i] == 5 || types[i] == 6 ? S_UA_RESERVATIONS_RELEASED : S_GOOD);
		EXPECT_SENSE(bed_out(b, 2, "2a 00 00 00 00 00 00 00 01 00", 512),
			     types[i] >= 7 ? S_CONFLICT : S_GOOD);
		EXPECT_EQ(reserve(b, 1, REGISTER, KEY_B, 0), S_GOOD);
		EXPECT_SENSE(bed_out(b, 2, "2a 00 00 00 00 00 00 00 01 00", 512), S_GOOD);
		bed_destroy(b);
	}
}

TEST(test_spc_clear)
{
	struct bed *b = registered(&(struct bed_config){ 0 });

	EXPECT_EQ(reserve(b, 0, RESERVE | of(3), KEY_A, 0), S_GOOD);
	EXPECT_EQ(reserve(b, 2, CLEAR, 0, 0), S_CONFLICT);
	EXPECT_EQ(reserve(b, 1, CLEAR, KEY_B, 0), S_GOOD);
	EXPECT_SENSE(bed_in(b, 0, ready, 0), S_UA_RESERVATIONS_PREEMPTED);
	EXPECT_SENSE(bed_in(b, 1, ready, 0), S_GOOD);
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_GOOD);
	EXPECT_SENSE(bed_in(b, 1, "5e 00 00 00 00 00 00 01 00 00", 256), S_GOOD);
	EXPECT_EQ(bed_number(b->data, 8), 0x300000000);
	EXPECT_SENSE(bed_in(b, 2, "28 00 00 00 00 00 00 00 01 00", 512), S_GOOD);
	bed_destroy(b);
}

TEST(test_spc_preempt_without_a_reservation_removes_registrations)
{
	struct bed *b = registered(&(struct bed_config){ 0 });

	EXPECT_EQ(reserve(b, 0, PREEMPT | of(1), KEY_A, 77), S_CONFLICT);
	EXPECT_EQ(reserve(b, 0, PREEMPT | of(1), KEY_A, 0), S_PARAMETER);
	EXPECT_EQ(bed_field(&b->task), 8);
	EXPECT_EQ(reserve(b, 2, PREEMPT | of(1), 0, KEY_B), S_CONFLICT);
	EXPECT_EQ(reserve(b, 0, PREEMPT | of(1), KEY_A, KEY_B), S_GOOD);
	EXPECT_SENSE(bed_in(b, 1, ready, 0), S_UA_REGISTRATIONS_PREEMPTED);
	EXPECT_SENSE(bed_in(b, 0, "5e 01 00 00 00 00 00 01 00 00", 256), S_GOOD);
	EXPECT_EQ(bed_number(b->data, 8), 0x300000000);
	EXPECT_EQ(reserve(b, 1, RESERVE | of(1), KEY_B, 0), S_CONFLICT);
	bed_destroy(b);
}

TEST(test_spc_preempt_takes_the_reservation_over)
{
	struct bed *b = registered(&(struct bed_config){ 0 });

	EXPECT_EQ(reserve(b, 2, REGISTER, 0, 3), S_GOOD);
	EXPECT_EQ(reserve(b, 0, RESERVE | of(1), KEY_A, 0), S_GOOD);
	/* Another key than that of the holder: no change of the reservation. */
	EXPECT_EQ(reserve(b, 1, PREEMPT | of(3), KEY_B, 0), S_PARAMETER);
	EXPECT_EQ(reserve(b, 1, PREEMPT | of(3), KEY_B, KEY_A), S_GOOD);
	EXPECT_SENSE(bed_in(b, 0, ready, 0), S_UA_REGISTRATIONS_PREEMPTED);
	/* The type has changed, and the third is told. */
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_UA_RESERVATIONS_RELEASED);
	EXPECT_SENSE(bed_in(b, 1, ready, 0), S_GOOD);
	EXPECT_SENSE(bed_in(b, 1, "5e 01 00 00 00 00 00 01 00 00", 256), S_GOOD);
	EXPECT_EQ(bed_number(b->data + 8, 8), KEY_B);
	EXPECT_EQ(b->data[21], 3);
	EXPECT_SENSE(bed_in(b, 0, "28 00 00 00 00 00 00 00 01 00", 512), S_CONFLICT);
	EXPECT_SENSE(bed_in(b, 1, "28 00 00 00 00 00 00 00 01 00", 512), S_GOOD);
	/* Its own key: it stays registered, and has another type. */
	EXPECT_EQ(reserve(b, 1, PREEMPT | of(1), KEY_B, KEY_B), S_GOOD);
	EXPECT_EQ(reserve(b, 1, RELEASE | of(1), KEY_B, 0), S_GOOD);
	bed_destroy(b);
}

TEST(test_spc_preempt_of_a_reservation_for_all)
{
	struct bed *b = registered(&(struct bed_config){ 0 });

	EXPECT_EQ(reserve(b, 2, REGISTER, 0, 3), S_GOOD);
	EXPECT_EQ(reserve(b, 0, RESERVE | of(8), KEY_A, 0), S_GOOD);
	EXPECT_EQ(reserve(b, 0, PREEMPT | of(1), KEY_A, 3), S_GOOD);
	EXPECT_SENSE(bed_in(b, 2, ready, 0), S_UA_REGISTRATIONS_PREEMPTED);
	EXPECT_SENSE(bed_in(b, 1, "5e 01 00 00 00 00 00 01 00 00", 256), S_GOOD);
	EXPECT_EQ(b->data[21], 8);
	/* Key 0: all others go, and the reservation is its own. */
	EXPECT_EQ(reserve(b, 0, PREEMPT | of(1), KEY_A, 0), S_GOOD);
	EXPECT_SENSE(bed_in(b, 1, ready, 0), S_UA_REGISTRATIONS_PREEMPTED);
	EXPECT_SENSE(bed_in(b, 1, "5e 01 00 00 00 00 00 01 00 00", 256), S_GOOD);
	EXPECT_EQ(bed_number(b->data + 8, 8), KEY_A);
	EXPECT_EQ(b->data[21], 1);
	/* The last one goes by its own key, and the reservation with it. */
	EXPECT_EQ(reserve(b, 0, RELEASE | of(1), KEY_A, 0), S_GOOD);
	EXPECT_EQ(reserve(b, 0, RESERVE | of(7), KEY_A, 0), S_GOOD);
	EXPECT_EQ(reserve(b, 0, PREEMPT | of(1), KEY_A, KEY_A), S_GOOD);
	EXPECT_SENSE(bed_out(b, 1, "2a 00 00 00 00 00 00 00 01 00", 512), S_GOOD);
	bed_destroy(b);
}

TEST(test_spc_preempt_and_abort_ends_the_tasks)
{
	for (uint8_t action = PREEMPT; action <= PREEMPT_AND_ABORT; action++) {
		struct bed *b = registered(&(struct bed_config){ .delay_ns = 1000 });
		struct scsi_task theirs = { .nexus = b->nexus[1] }, *done;
		struct span span = { b->data, 512 };

		theirs.in = (struct scsi_data){ &span, 1, 512 };
		bed_cdb(&theirs, "28 00 00 00 00 00 00 00 01 00");
		scsi_submit(b->target, &theirs, b->now_ns);
		EXPECT_EQ(reserve(b, 0, action | of(1), KEY_A, KEY_B), S_GOOD);
		b->now_ns = scsi_due(b->target);
		scsi_expire(b->target, b->now_ns);
		done = scsi_next_done(b->target, b->now_ns);
		EXPECT(done == &theirs);
		EXPECT_EQ(theirs.is_aborted, action == PREEMPT_AND_ABORT);
		bed_destroy(b);
	}
}

TEST(test_spc_registration_outlives_the_nexus)
{
	struct bed *b = registered(&(struct bed_config){ 0 });
	uint8_t id[40] = { 0x45, 0, 0, 36 };
	struct scsi_nexus_config again = { id, sizeof(id) };

	EXPECT_EQ(reserve(b, 0, RESERVE | of(3), KEY_A, 0), S_GOOD);
	scsi_nexus_remove(b->target, b->nexus[0]);
	EXPECT_SENSE(bed_in(b, 1, "28 00 00 00 00 00 00 00 01 00", 512), S_CONFLICT);
	EXPECT(scsi_unit_reset(b->target, 0));
	EXPECT_SENSE(bed_in(b, 1, ready, 0), S_UA_RESET);
	EXPECT_SENSE(bed_in(b, 1, "28 00 00 00 00 00 00 00 01 00", 512), S_CONFLICT);
	snprintf((char *)id + 4, sizeof(id) - 4, "iqn.2026-11.x:%u,i,0x%012u", 0, 0);
	EXPECT_EQ(scsi_nexus_add(b->target, &again, &b->nexus[0]), WEFT_OK);
	EXPECT_SENSE(bed_in(b, 0, ready, 0), S_UA_RESET);
	EXPECT_SENSE(bed_in(b, 0, ready, 0), S_UA_NEXUS_LOST);
	EXPECT_SENSE(bed_in(b, 0, "28 00 00 00 00 00 00 00 01 00", 512), S_GOOD);
	bed_destroy(b);
}

TEST(test_spc_capabilities_and_full_status)
{
	struct bed *b = registered(&(struct bed_config){ 0 });

	EXPECT_SENSE(bed_in(b, 0, "5e 02 00 00 00 00 00 01 00 00", 256), S_GOOD);
	EXPECT_EQ(bed_number(b->data, 8), 0x00080080ea010000);
	EXPECT_EQ(b->task.in_length, 8);
	EXPECT_EQ(reserve(b, 1, RESERVE | of(5), KEY_B, 0), S_GOOD);
	EXPECT_SENSE(bed_in(b, 0, "5e 03 00 00 00 00 00 01 00 00", 256), S_GOOD);
	EXPECT_EQ(bed_number(b->data, 8), (uint64_t)2 << 32 | 2 * 64);
	EXPECT_EQ(bed_number(b->data + 8, 8), KEY_A);
	EXPECT_EQ(bed_number(b->data + 20, 2), 0);
	EXPECT_EQ(bed_number(b->data + 26, 2), 1);
	EXPECT_EQ(bed_number(b->data + 28, 4), 40);
	EXPECT_EQ(bed_number(b->data + 32, 4), 0x45000024);
	EXPECT_EQ(bed_number(b->data + 72, 8), KEY_B);
	EXPECT_EQ(bed_number(b->data + 84, 2), 0x0105);
	bed_destroy(b);
}
