/* SPDX-License-Identifier: BSD-2-Clause */
/* docs/rio.md, "What a write promises", rules 4 to 6, at the requester. */
#include <string.h>

#include "test.h"
#include "unit/rio/asker_fixture.h"

static struct asker_world w;

static enum weft_reason announce(uint32_t unit, uint32_t number, uint64_t instance)
{
	uint8_t entries[256];
	struct wr at = wr_of(entries, sizeof(entries));
	struct rio_msg m = { .type = RIO_ANNOUNCE, .announce = { .iounit = { unit, 1 } } };

	rio_device_put(&(struct rio_device){ .number = number,
					     .block_bytes = 512,
					     .size_bytes = 1 << 20,
					     .instance = instance,
					     .flags = RIO_DEVICE_FLUSH | RIO_DEVICE_FUA,
					     .name = { (const uint8_t *)"disk", 4 } },
		       &at);
	m.announce.devices = (struct rio_devices){ 1, { entries, (size_t)(at.at - entries) } };
	return asker_hears(&w, &m);
}

static void begin(void)
{
	asker_open(&w, ASKER_REQUESTS, RIO_REQUEST_LIST_MAX);
	REQUIRE(announce(20, ASKER_DEVICE, 1) == WEFT_OK);
}

static struct rio_wanted wanted(enum sgl_operation operation, bool is_fua)
{
	static const uint8_t block[512];
	struct rio_wanted v = { .is = asker_transaction(operation,
							operation == SGL_FLUSH ? 0 : 512) };

	v.is.is_fua = is_fua;
	if (operation == SGL_FLUSH)
		v.is.offset = 0;
	if (operation == SGL_WRITE)
		v.immediate = block;
	return v;
}

static uint64_t ask(enum sgl_operation operation)
{
	const struct rio_wanted v = wanted(operation, false);
	uint64_t id;

	REQUIRE(asker_ask(&w, &v, 1, &id) == WEFT_OK);
	asker_run(&w);
	return id;
}

static void done(uint64_t id, enum weft_reason reason, uint32_t ends_with)
{
	REQUIRE(asker_status(&w, id, reason) == WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, id, ends_with);
}

/* WEFT_OK: it went to the owner, who said so. */
static enum weft_reason flush(void)
{
	const struct rio_wanted v = wanted(SGL_FLUSH, false);
	enum weft_reason r;
	uint64_t id;

	r = asker_ask(&w, &v, 1, &id);
	if (r != WEFT_OK)
		return r;
	asker_run(&w);
	done(id, WEFT_OK, WEFT_OK);
	return WEFT_OK;
}

static void write_well(void)
{
	done(ask(SGL_WRITE), WEFT_OK, WEFT_OK);
}

TEST(test_rio_05_a_flush_after_a_loss_fails_once_and_is_not_sent)
{
	static const enum sgl_operation operations[] = { SGL_WRITE, SGL_WRITE_ZEROES, SGL_DISCARD };

	for (int i = 0; i < 3; i++) {
		uint32_t said;

		begin();
		done(ask(operations[i]), WEFT_OK, WEFT_OK);
		EXPECT_EQ(announce(20, ASKER_DEVICE, 2), WEFT_OK);
		said = asker_heard(&w, RIO_REQUEST);
		EXPECT_EQ(flush(), WEFT_R_RIO_WRITES_LOST);
		EXPECT_EQ(asker_heard(&w, RIO_REQUEST), said);
		EXPECT_EQ(flush(), WEFT_OK);
		asker_close(&w);
	}
}

TEST(test_rio_05_what_was_flushed_or_failed_or_only_read_is_not_lost)
{
	begin();
	write_well();
	EXPECT_EQ(flush(), WEFT_OK);
	done(ask(SGL_WRITE), WEFT_R_STORE_IO, WEFT_R_STORE_IO);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 2), WEFT_OK);
	EXPECT_EQ(flush(), WEFT_OK);
	asker_close(&w);
}

/* Rule 4 is about acknowledged writes: a request that failed was not, wherever it failed. */
TEST(test_rio_05_a_request_that_fails_behind_its_first_write_is_not_lost)
{
	const struct rio_wanted two[] = { wanted(SGL_WRITE, false), wanted(SGL_WRITE, false) };
	uint64_t id;

	begin();
	REQUIRE(asker_ask(&w, two, 2, &id) == WEFT_OK);
	asker_run(&w);
	REQUIRE(asker_hears(&w, &(struct rio_msg){ .type = RIO_STATUS,
						   .id = id,
						   .status = { .reason = WEFT_R_RIO_DENIED,
							       .transaction = 1 } }) == WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, id, WEFT_R_RIO_DENIED);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 2), WEFT_OK);
	EXPECT_EQ(flush(), WEFT_OK);
	asker_close(&w);
}

TEST(test_rio_05_a_flush_covers_what_was_acknowledged_before_it_was_asked_for)
{
	uint64_t id;

	begin();
	write_well();
	id = ask(SGL_FLUSH);
	write_well();
	done(id, WEFT_OK, WEFT_OK);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 2), WEFT_OK);
	EXPECT_EQ(flush(), WEFT_R_RIO_WRITES_LOST);
	/* A flush that failed covers nothing. */
	write_well();
	done(ask(SGL_FLUSH), WEFT_R_STORE_IO, WEFT_R_STORE_IO);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 3), WEFT_OK);
	EXPECT_EQ(flush(), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(), WEFT_OK);
	asker_close(&w);
}

TEST(test_rio_05_a_write_with_fua_is_not_lost_and_does_not_fail)
{
	const struct rio_wanted fua = wanted(SGL_WRITE, true);
	uint64_t id;

	begin();
	write_well();
	EXPECT_EQ(announce(20, ASKER_DEVICE, 2), WEFT_OK);
	REQUIRE(asker_ask(&w, &fua, 1, &id) == WEFT_OK);
	asker_run(&w);
	done(id, WEFT_OK, WEFT_OK);
	EXPECT_EQ(flush(), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 3), WEFT_OK);
	EXPECT_EQ(flush(), WEFT_OK);
	asker_close(&w);
}

/* In one request: what it writes before its flush is covered, what it writes behind is not. */
TEST(test_rio_05_a_request_that_writes_and_flushes_counts_in_its_order)
{
	const struct rio_wanted before[] = { wanted(SGL_WRITE, false), wanted(SGL_FLUSH, false) };
	const struct rio_wanted behind[] = { wanted(SGL_FLUSH, false), wanted(SGL_WRITE, false) };
	uint64_t id;

	begin();
	REQUIRE(asker_ask(&w, before, 2, &id) == WEFT_OK);
	asker_run(&w);
	done(id, WEFT_OK, WEFT_OK);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 2), WEFT_OK);
	REQUIRE(asker_ask(&w, behind, 2, &id) == WEFT_OK);
	asker_run(&w);
	done(id, WEFT_OK, WEFT_OK);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 3), WEFT_OK);
	/* As a whole it fails, before anything of it is done. */
	EXPECT_EQ(asker_ask(&w, before, 2, &id), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(), WEFT_OK);
	asker_close(&w);
}

/* The news come while they are under way: neither is taken for durable. */
TEST(test_rio_05_what_the_former_instance_acknowledges_late_is_lost)
{
	uint64_t write, flushed;

	begin();
	write = ask(SGL_WRITE);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 2), WEFT_OK);
	done(write, WEFT_OK, WEFT_OK);
	EXPECT_EQ(flush(), WEFT_R_RIO_WRITES_LOST);
	write_well();
	flushed = ask(SGL_FLUSH);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 3), WEFT_OK);
	done(flushed, WEFT_OK, WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(), WEFT_OK);
	asker_close(&w);
}

TEST(test_rio_05_a_loss_outlives_its_unit_and_its_owner)
{
	begin();
	write_well();
	EXPECT_EQ(asker_hears(&w, &(struct rio_msg){ .type = RIO_REVOKE, .revoked = { 20, 1 } }),
		  WEFT_OK);
	asker_run(&w);
	asker_owner_comes(&w, ASKER_REQUESTS, RIO_REQUEST_LIST_MAX);
	asker_run(&w);
	/* A device of the same name elsewhere is another one. */
	EXPECT_EQ(announce(21, ASKER_DEVICE, 7), WEFT_OK);
	EXPECT_EQ(flush(), WEFT_OK);
	EXPECT_EQ(asker_hears(&w, &(struct rio_msg){ .type = RIO_REVOKE, .revoked = { 21, 1 } }),
		  WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 2), WEFT_OK);
	EXPECT_EQ(flush(), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(), WEFT_OK);
	asker_close(&w);
}

static void owner_comes_again(void)
{
	asker_owner_comes(&w, ASKER_REQUESTS, RIO_REQUEST_LIST_MAX);
	asker_run(&w);
}

/* A requester that comes back to its owner asks before it hears of the devices. */
TEST(test_rio_05_a_flush_asked_for_before_its_device_is_offered_covers)
{
	uint64_t id;

	begin();
	write_well();
	owner_comes_again();
	id = ask(SGL_FLUSH);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 1), WEFT_OK);
	done(id, WEFT_OK, WEFT_OK);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 2), WEFT_OK);
	EXPECT_EQ(flush(), WEFT_OK);
	/* What is acknowledged after it was asked for is not covered. */
	owner_comes_again();
	id = ask(SGL_FLUSH);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 2), WEFT_OK);
	write_well();
	done(id, WEFT_OK, WEFT_OK);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 3), WEFT_OK);
	EXPECT_EQ(flush(), WEFT_R_RIO_WRITES_LOST);
	asker_close(&w);
}

TEST(test_rio_05_a_write_asked_for_before_its_device_is_offered_is_of_the_instance_offered_then)
{
	uint64_t id;

	begin();
	owner_comes_again();
	id = ask(SGL_WRITE);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 1), WEFT_OK);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 2), WEFT_OK);
	done(id, WEFT_OK, WEFT_OK);
	EXPECT_EQ(flush(), WEFT_R_RIO_WRITES_LOST);
	asker_close(&w);
}

/* Devices come and go; those with nothing to remember make room. */
TEST(test_rio_05_as_many_devices_are_remembered_as_there_is_room_for)
{
	begin();
	write_well();
	for (uint32_t unit = 21; unit < 21 + 3 * ASKER_DEVICES; unit++) {
		REQUIRE(announce(unit, ASKER_DEVICE + unit, 1) == WEFT_OK);
		REQUIRE(asker_hears(&w, &(struct rio_msg){ .type = RIO_REVOKE,
							   .revoked = { unit, 1 } }) == WEFT_OK);
		asker_run(&w);
		w.hung_up_count = 0;
	}
	EXPECT_EQ(announce(20, ASKER_DEVICE, 2), WEFT_OK);
	EXPECT_EQ(flush(), WEFT_R_RIO_WRITES_LOST);
	asker_close(&w);
}

static void unit_leaves(uint32_t unit)
{
	REQUIRE(asker_hears(&w, &(struct rio_msg){ .type = RIO_REVOKE, .revoked = { unit, 1 } }) ==
		WEFT_OK);
	asker_run(&w);
	w.hung_up_count = 0;
	w.heard_count = 0;
}

/* Devices that leave with writes and never return: a loss is told all the same, if one does. */
TEST(test_rio_05_a_loss_is_reported_although_there_was_no_room_to_remember_it)
{
	const uint32_t count = 2 * ASKER_DEVICES + 2;

	begin();
	write_well();
	unit_leaves(20);
	for (uint32_t unit = 21; unit < 21 + count; unit++) {
		REQUIRE(announce(unit, ASKER_DEVICE, 1) == WEFT_OK);
		/* From the one on that a former one was forgotten for, no one knows. */
		EXPECT_EQ(flush(),
			  unit < 20 + 2 * ASKER_DEVICES ? WEFT_OK : WEFT_R_RIO_WRITES_LOST);
		write_well();
		unit_leaves(unit);
	}
	/* The oldest are forgotten, not the latest. */
	EXPECT_EQ(announce(20 + count, ASKER_DEVICE, 1), WEFT_OK);
	EXPECT_EQ(flush(), WEFT_OK);
	unit_leaves(20 + count);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 2), WEFT_OK);
	EXPECT_EQ(flush(), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(), WEFT_OK);
	asker_close(&w);
}

/* Devices that left while requests were under way: none of them can be forgotten. */
TEST(test_rio_05_no_device_is_offered_that_could_not_be_remembered)
{
	enum { FORMER = 2 * ASKER_DEVICES };
	uint64_t ids[FORMER];

	asker_open_with(&w, FORMER, FORMER, RIO_REQUEST_LIST_MAX);
	for (uint32_t i = 0; i < FORMER; i++) {
		REQUIRE(announce(20 + i, ASKER_DEVICE, 1) == WEFT_OK);
		ids[i] = ask(SGL_WRITE);
		unit_leaves(20 + i);
	}
	EXPECT_EQ(announce(20 + FORMER, ASKER_DEVICE, 1), WEFT_R_LIMIT);
	done(ids[0], WEFT_OK, WEFT_OK);
	asker_close(&w);
}

/* ---- Several flushes, several users --------------------------------------------------------- */

/* Both began before the loss was told: neither says that what was written is durable. */
TEST(test_rio_05_flushes_under_way_when_a_loss_is_reported_fail_too)
{
	uint64_t first, second;

	begin();
	first = ask(SGL_FLUSH);
	second = ask(SGL_FLUSH);
	write_well();
	EXPECT_EQ(announce(20, ASKER_DEVICE, 2), WEFT_OK);
	done(second, WEFT_OK, WEFT_R_RIO_WRITES_LOST);
	done(first, WEFT_OK, WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(), WEFT_OK);
	/* The same if a later one is told, before it is sent. */
	first = ask(SGL_FLUSH);
	write_well();
	EXPECT_EQ(announce(20, ASKER_DEVICE, 3), WEFT_OK);
	EXPECT_EQ(flush(), WEFT_R_RIO_WRITES_LOST);
	done(first, WEFT_OK, WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(), WEFT_OK);
	asker_close(&w);
}

static uint64_t loss_of_flush(void)
{
	uint64_t id = ask(SGL_FLUSH);
	struct rio_ended e;

	REQUIRE(asker_status(&w, id, WEFT_OK) == WEFT_OK);
	asker_run(&w);
	REQUIRE(rio_requester_ended(w.q, &e));
	REQUIRE(e.id == id && e.reason == WEFT_OK);
	return e.loss;
}

/* So that a user whose flush went well sees that another one was told of a loss. */
TEST(test_rio_05_a_flush_that_goes_well_has_the_number_of_the_last_loss)
{
	begin();
	EXPECT_EQ(loss_of_flush(), 0);
	write_well();
	EXPECT_EQ(announce(20, ASKER_DEVICE, 2), WEFT_OK);
	EXPECT_EQ(rio_requester_loss(w.q, ASKER_DEVICE), 1);
	EXPECT_EQ(flush(), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(loss_of_flush(), 1);
	write_well();
	EXPECT_EQ(loss_of_flush(), 1);
	EXPECT_EQ(announce(20, ASKER_DEVICE, 3), WEFT_OK);
	EXPECT_EQ(loss_of_flush(), 1); /* all of it was covered */
	write_well();
	EXPECT_EQ(announce(20, ASKER_DEVICE, 4), WEFT_OK);
	EXPECT_EQ(flush(), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(loss_of_flush(), 2);
	asker_close(&w);
}

/* The requester has been told, so it need not remember the device; its other users do. */
TEST(test_rio_05_the_number_of_a_loss_outlives_what_is_known_of_the_device)
{
	begin();
	write_well();
	EXPECT_EQ(announce(20, ASKER_DEVICE, 2), WEFT_OK);
	EXPECT_EQ(flush(), WEFT_R_RIO_WRITES_LOST);
	unit_leaves(20);
	for (uint32_t unit = 21; unit < 21 + 3 * ASKER_DEVICES; unit++) {
		REQUIRE(announce(unit, ASKER_DEVICE, 1) == WEFT_OK);
		unit_leaves(unit);
	}
	EXPECT_EQ(announce(20, ASKER_DEVICE, 2), WEFT_OK);
	EXPECT_EQ(loss_of_flush(), 1);
	asker_close(&w);
}
