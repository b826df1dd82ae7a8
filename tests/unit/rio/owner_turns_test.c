/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists that are fetched and chained, and whose turn it is. */
#include <string.h>

#include "test.h"
#include "unit/rio/owner_fixture.h"

enum { A = 0, B = 1, C = 2, U = BED_UNIT, V = BED_UNIT + 1, MS = 1000 * 1000 };

static struct owner_bed b;
static struct paper p, rest;

/* ---- Fetched lists: RIO-13b, RIO-16 --------------------------------------------------------- */

TEST(test_rio_13b_a_chained_list_is_fetched_and_handed_on_in_one_piece)
{
	const struct heard *command;
	struct rio_list *l;
	size_t length;

	bed_open_all(&b);
	b.is_holding = true;
	length = bed_ask_chained(&b, A, 1, 32);
	bed_run(&b);
	EXPECT_EQ(b.fetch_count, 1U);
	EXPECT_EQ(b.fetches[0].end, A);
	EXPECT(b.fetches[0].act.handle == 0x77 && b.fetches[0].act.remote == 64);
	EXPECT_EQ(b.fetches[0].act.length, length);
	EXPECT_EQ(b.ends[U].heard_count + b.note_count, 0U);
	bed_fetched(&b, 0, WEFT_OK);
	/* What happens to his memory now is of no concern. */
	memset(b.ends[A].memory, 0xff, BED_MEMORY);
	bed_run(&b);
	command = bed_heard(&b, U, RIO_COMMAND);
	EXPECT(command && command->m.request.list.length == length);
	l = bed_list_of(&b, command);
	EXPECT_EQ(rio_list_data_bytes(l), 512U);
	rio_list_destroy(l);
	bed_close(&b);
}

TEST(test_rio_13b_parts_are_fetched_one_after_the_other)
{
	static const uint64_t at[] = { 4096, 8192, 12288 };
	struct rio_list *l;

	bed_open_all(&b);
	b.is_holding = true;
	/* The first chains the second and the third; each has one transaction. */
	for (int i = 2; i >= 0; i--) {
		paper_start(&rest);
		if (i == 0) {
			paper_chain(&rest, b.ends[A].platform, at[1], 52);
			paper_chain(&rest, b.ends[A].platform, at[2], 52);
			paper_platform(&rest, b.ends[A].platform);
		}
		paper_read(&rest, BED_DEVICE(0, 1), 512 * (uint64_t)i, 512);
		if (i == 2)
			paper_last(&rest);
		memcpy(b.ends[A].memory + at[i], rest.bytes, paper_bytes(&rest));
	}
	paper_start(&p);
	paper_chain(&p, b.ends[A].platform, at[0], 56 + 12 + 52);
	bed_ask(&b, A, 1, &p);
	for (int i = 0; i < 3; i++) {
		bed_run(&b);
		EXPECT_EQ(b.fetch_count, 1U);
		EXPECT_EQ(b.fetches[0].act.remote, at[i]);
		bed_fetched(&b, 0, WEFT_OK);
	}
	bed_run(&b);
	l = bed_list_of(&b, bed_heard(&b, U, RIO_COMMAND));
	EXPECT_EQ(rio_list_transactions(l), 3U);
	rio_list_destroy(l);
	EXPECT(bed_note_of(&b, RIO_NOTE_ALLOWED, 1, 2));
	bed_close(&b);
}

TEST(test_rio_16_lists_are_fetched_from_the_requester_only)
{
	bed_open_all(&b);
	paper_start(&p);
	paper_chain(&p, b.ends[B].platform, 0, 64);
	bed_ask(&b, A, 1, &p);
	bed_run(&b);
	EXPECT_EQ(bed_ended_with(&b, A), WEFT_R_RIO_CHAIN);
	/* Nor does a part lead elsewhere. */
	paper_start(&rest);
	paper_chain(&rest, b.ends[B].platform, 0, 64);
	memcpy(b.ends[A].memory, rest.bytes, paper_bytes(&rest));
	paper_start(&p);
	paper_chain(&p, b.ends[A].platform, 0, paper_bytes(&rest));
	bed_ask(&b, A, 2, &p);
	bed_run(&b);
	EXPECT_EQ(bed_ended_with(&b, A), WEFT_R_RIO_CHAIN);
	/* In a circle. */
	paper_start(&p);
	paper_chain(&p, b.ends[A].platform, 0, 28);
	memcpy(b.ends[A].memory, p.bytes, paper_bytes(&p));
	bed_ask(&b, A, 3, &p);
	bed_run(&b);
	EXPECT_EQ(bed_ended_with(&b, A), WEFT_R_SGL_CHAIN_LOOP);
	/* What is malformed. */
	memset(b.ends[A].memory, 0, 64);
	bed_ask(&b, A, 4, &p);
	bed_run(&b);
	EXPECT_EQ(bed_ended_with(&b, A), WEFT_R_SGL_KIND);
	/* What is not allowed. */
	b.policy.count = 0;
	(void)bed_ask_chained(&b, A, 5, 32);
	bed_run(&b);
	EXPECT_EQ(bed_ended_with(&b, A), WEFT_R_RIO_DEVICE);
	EXPECT_EQ(b.ends[U].heard_count, 0U);
	EXPECT_EQ(b.fetch_count + bed_under_way(&b, A), 0U);
	for (uint64_t id = 1; id <= 5; id++)
		EXPECT(bed_note_of(&b, RIO_NOTE_REFUSED, id, 0));
	bed_close(&b);
}

TEST(test_rio_16_a_fetch_that_fails_refuses_the_request)
{
	bed_open_all(&b);
	b.is_holding = true;
	for (uint64_t id = 1; id <= 2 * BED_LISTS; id++) { /* and keeps no slot */
		(void)bed_ask_chained(&b, A, id, 32);
		bed_run(&b);
		EXPECT_EQ(b.fetch_count, 1U);
		bed_fetched(&b, 0, WEFT_R_PEER_RIGHTS);
		bed_run(&b);
		EXPECT_EQ(bed_ended_with(&b, A), WEFT_R_PEER_RIGHTS);
	}
	bed_close(&b);
}

/* A requester that does not answer delays only itself. */
TEST(test_rio_04_each_requester_fetches_one_list_at_a_time)
{
	bed_open_all(&b);
	b.is_holding = true;
	for (uint64_t id = 1; id <= 3; id++)
		(void)bed_ask_chained(&b, A, id, 32);
	(void)bed_ask_chained(&b, B, 1, 32);
	(void)bed_ask_chained(&b, C, 1, 32);
	bed_run(&b);
	EXPECT_EQ(b.fetch_count, 3U);
	EXPECT(b.fetches[0].end == A && b.fetches[1].end == B && b.fetches[2].end == C);
	bed_fetched(&b, 1, WEFT_OK);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 1U);
	EXPECT_EQ(b.fetch_count, 2U); /* although there is a slot */
	for (int i = 0; i < 3; i++) {
		bed_fetched(&b, b.fetches[0].end == A ? 0 : 1, WEFT_OK);
		bed_run(&b);
	}
	EXPECT_EQ(b.fetch_count, 1U);
	EXPECT_EQ(b.fetches[0].end, C);
	bed_close(&b);
}

TEST(test_rio_04_lists_wait_for_slots_in_turn)
{
	bed_open(&b);
	b.config.lists_max = 1;
	bed_start(&b);
	bed_allow_all(&b);
	bed_all_come(&b);
	b.is_holding = true;
	(void)bed_ask_chained(&b, A, 1, 32);
	(void)bed_ask_chained(&b, A, 2, 32);
	(void)bed_ask_chained(&b, B, 3, 32);
	for (uint64_t id = 1; id <= 3; id++) {
		bed_run(&b);
		EXPECT_EQ(b.fetch_count, 1U);
		EXPECT_EQ(b.fetches[0].end, id == 2 ? B : A);
		bed_fetched(&b, 0, WEFT_OK);
	}
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 3U);
	bed_close(&b);
}

TEST(test_rio_13b_a_fetch_of_an_ended_request_keeps_its_slot)
{
	bed_open(&b);
	b.config.lists_max = 1;
	bed_start(&b);
	bed_allow_all(&b);
	bed_all_come(&b);
	b.is_holding = true;
	/* Before it has begun. */
	(void)bed_ask_chained(&b, A, 1, 32);
	bed_cancel(&b, A, 1);
	bed_run(&b);
	EXPECT_EQ(bed_ended_with(&b, A), WEFT_R_RIO_CANCELLED);
	EXPECT_EQ(b.fetch_count, 0U);
	/* Later. */
	(void)bed_ask_chained(&b, A, 2, 32);
	bed_run(&b);
	bed_cancel(&b, A, 2);
	(void)bed_ask_chained(&b, B, 3, 32);
	bed_run(&b);
	EXPECT_EQ(bed_ended_with(&b, A), WEFT_R_RIO_CANCELLED);
	EXPECT_EQ(b.fetch_count, 1U);
	EXPECT_EQ(b.fetches[0].end, A);
	/* The one whose memory it is leaves. */
	bed_leave(&b, A);
	bed_run(&b);
	EXPECT_EQ(b.fetch_count, 1U);
	bed_come(&b, A);
	bed_run(&b);
	bed_fetched(&b, 0, WEFT_R_PEER_GONE);
	bed_run(&b);
	EXPECT_EQ(b.fetch_count, 1U);
	EXPECT_EQ(b.fetches[0].end, B);
	bed_leave(&b, B);
	bed_run(&b);
	(void)bed_ask_chained(&b, A, 4, 32);
	bed_fetched(&b, 0, WEFT_R_PEER_GONE);
	bed_run(&b);
	EXPECT_EQ(b.fetches[0].end, A);
	EXPECT_EQ(bed_note_of(&b, RIO_NOTE_REFUSED, 3, 0)->note.reason, WEFT_R_PEER_GONE);
	bed_close(&b);
}

TEST(test_rio_04_who_lets_a_fetch_wait_is_sent_away)
{
	bed_open_all(&b);
	b.is_holding = true;
	(void)bed_write_chained(&b, A, &p, 32);
	REQUIRE(bed_try_ask(&b, A, 1, &p, 1) == WEFT_OK);
	bed_run(&b);
	EXPECT_EQ(rio_owner_due(b.owner), (uint64_t)MS);
	rio_owner_expire(b.owner, MS);
	bed_run(&b);
	EXPECT_EQ(bed_ended_with(&b, A), WEFT_R_RIO_TIMEOUT);
	EXPECT(!b.ends[A].is_sent_away);
	EXPECT_EQ(rio_owner_due(b.owner), BED_TIMEOUT_NS);
	rio_owner_expire(b.owner, BED_TIMEOUT_NS);
	bed_run(&b);
	EXPECT(b.ends[A].is_sent_away);
	EXPECT_EQ(bed_try_say(&b, A, &(struct rio_msg){ .type = RIO_PING }), WEFT_R_RIO_UNEXPECTED);
	bed_leave(&b, A);
	bed_fetched(&b, 0, WEFT_R_PEER_GONE);
	bed_run(&b);
	EXPECT_EQ(rio_owner_due(b.owner), UINT64_MAX);
	bed_close(&b);
}

/* ---- Lists that are chained for the unit ---------------------------------------------------- */

TEST(test_rio_02e_a_long_list_is_handed_on_in_the_owners_memory)
{
	const struct heard *command;
	struct rio_list *l;

	bed_open_all(&b);
	for (int i = 0; i < 2; i++) {
		bed_forget(&b);
		paper_start(&rest);
		paper_platform(&rest, b.ends[A].platform);
		paper_read_pieces(&rest, BED_DEVICE(0, 1), MANY);
		paper_last(&rest);
		memcpy(b.ends[A].memory, rest.bytes, paper_bytes(&rest));
		paper_start(&p);
		if (i == 1)
			paper_attributes(&p, 8);
		paper_chain(&p, b.ends[A].platform, 0, paper_bytes(&rest));
		bed_ask(&b, A, 1, &p);
		bed_run(&b);
		command = bed_heard(&b, U, RIO_COMMAND);
		EXPECT(command);
		EXPECT_EQ(command->m.request.list.length, i == 0 ? 28U : 36U);
		l = bed_list_of(&b, command);
		EXPECT_EQ(rio_list_data_bytes(l), 16U * MANY);
		EXPECT_EQ(rio_list_body_bytes(l), paper_bytes(&rest));
		rio_list_destroy(l);
		EXPECT_EQ(bed_note_of(&b, RIO_NOTE_ALLOWED, 1, 0)->note.is.device,
			  BED_DEVICE(0, 1));
		bed_status(&b, U, command->m.id, WEFT_OK, 16 * MANY);
		bed_run(&b);
		EXPECT_EQ(bed_ended_with(&b, A), WEFT_OK);
	}
	bed_close(&b);
}

/* The unit takes less in a message than a requester may say. */
TEST(test_rio_02e_a_list_is_chained_if_the_unit_takes_no_such_message)
{
	for (uint8_t attributes = 0; attributes < 2; attributes++) {
		const struct heard *command;
		struct rio_list *l;

		bed_open(&b);
		b.ends[U].list_max = 36;
		bed_start(&b);
		bed_allow_all(&b);
		bed_all_come(&b);
		paper_start(&p);
		if (attributes)
			paper_attributes(&p, 8);
		paper_platform(&p, b.ends[A].platform);
		paper_read(&p, BED_DEVICE(0, 1), 512, 512);
		paper_last(&p);
		bed_ask(&b, A, 1, &p);
		bed_run(&b);
		command = bed_heard(&b, U, RIO_COMMAND);
		EXPECT_EQ(command->m.request.list.length, attributes ? 36U : 28U);
		l = bed_list_of(&b, command);
		EXPECT_EQ(rio_list_flat_bytes(l), paper_bytes(&p));
		rio_list_destroy(l);
		/* A flush is short enough; just. */
		paper_start(&p);
		if (attributes)
			paper_attributes(&p, 8);
		paper_transaction(&p, (struct sgl_transaction){ .operation = SGL_FLUSH,
								.device = BED_DEVICE(0, 1) });
		paper_last(&p);
		bed_ask(&b, A, 2, &p);
		bed_run(&b);
		command = bed_heard(&b, U, RIO_COMMAND);
		EXPECT_EQ(command->m.request.list.bytes[attributes ? 8 : 0] & 0x7f,
			  SGL_TRANSACTION);
		bed_close(&b);
	}
}

/* MEM-13: the list of a command is for its unit only, and only as long as the command. */
TEST(test_mem_13_a_chained_list_is_exposed_to_its_unit_for_the_time_of_its_command)
{
	struct heard *command;

	bed_open_all(&b);
	/* One that fits into a message is not exposed. */
	(void)bed_ask_chained(&b, B, 1, 32);
	bed_run(&b);
	EXPECT_EQ(b.exposed, 0U);
	(void)bed_ask_chained(&b, A, 2, MANY);
	bed_run(&b);
	EXPECT_EQ(b.exposed, 1U);
	EXPECT(b.closed == 0 && bed_count(&b, U, RIO_COMMAND) == 2);
	(void)bed_heard(&b, U, RIO_COMMAND);
	command = bed_heard(&b, U, RIO_COMMAND);
	rio_list_destroy(bed_list_of(&b, command)); /* by the handle of its own */
	/* Its request may end before. */
	bed_cancel(&b, A, 2);
	bed_run(&b);
	EXPECT_EQ(b.closed, 0U);
	bed_status(&b, U, command->m.id, WEFT_R_RIO_CANCELLED, 0);
	EXPECT_EQ(b.closed, 0U); /* an act does that, before anything else is done with it */
	REQUIRE(bed_step(&b));
	EXPECT_EQ(b.closed, 1U);
	bed_run(&b);
	EXPECT_EQ(b.exposed, 1U);
	bed_close(&b);
}

/* What was open for one unit is not seen by it when it holds what is for another. */
TEST(test_mem_13_a_slot_is_closed_before_it_is_used_again)
{
	uint32_t handle;

	bed_open(&b);
	b.config.lists_max = 1;
	bed_start(&b);
	bed_allow_all(&b);
	bed_all_come(&b);
	(void)bed_ask_chained(&b, A, 1, MANY);
	bed_run(&b);
	(void)bed_ask_chained(&b, B, 2, MANY);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 1U);
	handle = b.windows[0].handle;
	bed_status_next(&b, U);
	bed_run(&b);
	EXPECT(b.closed == 1 && b.exposed == 2 && b.windows[0].handle != handle);
	rio_list_destroy(bed_list_of(&b, bed_heard(&b, U, RIO_COMMAND)));
	/* A requester that leaves has no lists any more; a command that was sent keeps its list. */
	bed_leave(&b, B);
	bed_run(&b);
	EXPECT_EQ(b.closed, 1U);
	bed_leave(&b, U);
	bed_run(&b);
	EXPECT_EQ(b.closed, 2U);
	bed_come(&b, U);
	bed_tell_devices(&b, U);
	(void)bed_ask_chained(&b, A, 3, MANY);
	bed_run(&b);
	EXPECT_EQ(b.exposed, 3U);
	bed_close(&b);
}

TEST(test_mem_13_a_list_that_cannot_be_exposed_is_not_commanded)
{
	bed_open_all(&b);
	b.expose_reason = WEFT_R_LIMIT;
	(void)bed_ask_chained(&b, A, 1, MANY);
	(void)bed_ask_chained(&b, A, 2, MANY);
	bed_run(&b);
	EXPECT(bed_ended_with(&b, A) == WEFT_R_LIMIT && bed_ended_with(&b, A) == WEFT_R_LIMIT);
	EXPECT(b.exposed + b.closed + bed_count(&b, U, RIO_COMMAND) == 0);
	EXPECT_EQ(bed_note_of(&b, RIO_NOTE_ENDED, 1, 0)->note.reason, WEFT_R_LIMIT);
	b.expose_reason = WEFT_OK;
	(void)bed_ask_chained(&b, A, 3, MANY);
	bed_run(&b);
	EXPECT_EQ(b.exposed, 1U);
	/* It leaves between the two. */
	(void)bed_ask_chained(&b, B, 4, MANY);
	while (b.exposed < 2)
		REQUIRE(bed_step(&b));
	bed_leave(&b, B);
	bed_run(&b);
	EXPECT(b.closed == 1 && bed_count(&b, U, RIO_COMMAND) == 1);
	bed_close(&b);
}

TEST(test_rio_02e_narrow_addresses_do_not_reach_the_owners_memory)
{
	for (int is_low = 0; is_low < 2; is_low++) {
		bed_open(&b);
		b.ends[U].list_max = 36;
		if (is_low)
			b.config.lists_address = UINT32_MAX - sizeof(b.lists);
		bed_start(&b);
		bed_allow_all(&b);
		bed_all_come(&b);
		paper_start(&p);
		paper_attributes(&p, 4);
		paper_platform(&p, b.ends[A].platform);
		paper_read(&p, BED_DEVICE(0, 1), 512, 512);
		paper_last(&p);
		bed_ask(&b, A, 1, &p);
		bed_run(&b);
		if (is_low)
			rio_list_destroy(bed_list_of(&b, bed_heard(&b, U, RIO_COMMAND)));
		else
			EXPECT_EQ(bed_ended_with(&b, A), WEFT_R_RIO_CHAIN);
		bed_close(&b);
	}
}

/* A slot is in use until the command has ended; one requester does not have all of them. */
TEST(test_rio_04_slots_are_shared)
{
	const struct heard *first;

	bed_open_all(&b); /* 3 slots, of which one requester has 2 */
	for (uint64_t id = 1; id <= 3; id++)
		(void)bed_ask_chained(&b, A, id, MANY);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 2U);
	first = bed_heard(&b, U, RIO_COMMAND);
	(void)bed_ask_chained(&b, B, 4, MANY);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 3U);
	(void)bed_ask_chained(&b, C, 5, MANY);
	bed_run(&b);
	bed_status(&b, U, first->m.id, WEFT_OK, 0);
	bed_run(&b);
	/* C has waited, and so has A. */
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 4U);
	for (int i = 0; i < 4; i++) {
		bed_status_next(&b, U);
		bed_run(&b);
	}
	EXPECT_EQ(bed_count(&b, A, RIO_STATUS), 3U);
	EXPECT_EQ(bed_count(&b, B, RIO_STATUS) + bed_count(&b, C, RIO_STATUS), 2U);
	bed_close(&b);
}

/* ---- Turns: RIO-04 -------------------------------------------------------------------------- */

TEST(test_rio_04_a_unit_gets_no_more_than_it_takes_and_requesters_take_turns)
{
	static const int order[] = { A, A, B, C, B, A, C, A };
	const struct heard *h;

	bed_open_all(&b); /* 3 commands at a time, of which one requester has 2 */
	for (uint64_t id = 1; id <= 4; id++)
		bed_ask_read(&b, A, id, BED_DEVICE(0, 1));
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 2U);
	for (uint64_t id = 1; id <= 2; id++) {
		bed_ask_read(&b, B, id, BED_DEVICE(0, 1));
		bed_ask_read(&b, C, id, BED_DEVICE(0, 1));
	}
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 3U);
	EXPECT_EQ(bed_under_way(&b, U), 3U);
	EXPECT_EQ(bed_under_way(&b, A), 4U);
	/* Another unit is not held up by that. */
	bed_ask_read(&b, B, 10, BED_DEVICE(1, 1));
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, V, RIO_COMMAND), 1U);
	for (int i = 0; i < 8; i++) {
		h = bed_heard(&b, U, RIO_COMMAND);
		EXPECT(h);
		EXPECT(platform_is_same(h->m.request.requester, b.ends[order[i]].platform));
		bed_status(&b, U, h->m.id, WEFT_OK, 512);
		bed_run(&b);
		EXPECT(bed_under_way(&b, U) <= 3);
	}
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 8U);
	/* Each of them in the order in which it asked. */
	for (uint64_t id = 1; id <= 4; id++)
		EXPECT_EQ(bed_heard(&b, A, RIO_STATUS)->m.id, id);
	bed_close(&b);
}

TEST(test_rio_04_a_requester_that_is_alone_has_all)
{
	bed_open(&b);
	b.config.requesters_max = 1;
	bed_start(&b);
	bed_allow_all(&b);
	bed_come(&b, A);
	bed_come(&b, U);
	bed_tell_devices(&b, U);
	for (uint64_t id = 1; id <= 4; id++)
		bed_ask_read(&b, A, id, BED_DEVICE(0, 1));
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 3U);
	bed_close(&b);
}

TEST(test_rio_03_ids_and_limits_are_kept_or_the_requester_goes)
{
	bed_open_all(&b);
	bed_ask_read(&b, A, 1, BED_DEVICE(0, 1));
	bed_run(&b);
	paper_start(&p);
	paper_platform(&p, b.ends[A].platform);
	paper_read(&p, BED_DEVICE(0, 1), 0, 512);
	paper_last(&p);
	EXPECT_EQ(bed_try_ask(&b, A, 1, &p, 0), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(bed_try_ask(&b, A, 2, &p, 0), WEFT_R_RIO_UNEXPECTED); /* too late */
	/* Another's ids are another's. */
	for (uint64_t id = 1; id <= BED_REQUESTS; id++)
		bed_ask_read(&b, B, id, BED_DEVICE(0, 1));
	EXPECT_EQ(bed_try_ask(&b, B, 9, &p, 0), WEFT_R_RIO_UNEXPECTED);
	bed_run(&b);
	/* An id may be used again when its status was said. */
	bed_ask_read(&b, C, 1, BED_DEVICE(1, 1));
	bed_run(&b);
	bed_status_next(&b, V);
	paper_start(&p);
	paper_platform(&p, b.ends[C].platform);
	paper_read(&p, BED_DEVICE(1, 1), 0, 512);
	paper_last(&p);
	bed_run(&b);
	EXPECT_EQ(bed_ended_with(&b, C), WEFT_OK);
	EXPECT_EQ(bed_try_ask(&b, C, 1, &p, 0), WEFT_OK);
	bed_close(&b);
}
