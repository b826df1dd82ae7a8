/* SPDX-License-Identifier: BSD-2-Clause */
/* What an I/O unit says over its data connection, behind the data (docs/wire/rio.md). */
#include <string.h>

#include "rio/notify.h"
#include "rio/requester.h"
#include "test.h"
#include "unit/rio/asker_fixture.h"

enum { NOTIFIED_MAX = 32 };

static const struct platform self = { ASKER, 1 }, unit = { 20, 1 }, other = { 21, 1 };

static struct asker_world w;
static struct rio_session words; /* the unit's */

static void announce(struct platform iounit, uint32_t device)
{
	uint8_t entries[64];
	struct wr at = wr_of(entries, sizeof(entries));
	struct rio_msg m = { .type = RIO_ANNOUNCE, .announce = { .iounit = iounit } };

	memset(m.announce.token, (int)iounit.unit, RIO_TOKEN_BYTES);
	rio_device_put(&(struct rio_device){ .number = device,
					     .block_bytes = 512,
					     .size_bytes = 1 << 30,
					     .name = { (const uint8_t *)"disk", 4 } },
		       &at);
	m.announce.devices = (struct rio_devices){ 1, { entries, (size_t)(at.at - entries) } };
	REQUIRE(asker_hears(&w, &m) == WEFT_OK);
}

/* A data connection of that unit, and its session. */
static void connect(struct platform iounit, uint64_t counter, struct rio_session *session)
{
	struct rio_data d = { .from = iounit, .to = self, .counter = counter };
	uint8_t token[RIO_TOKEN_BYTES], bytes[RIO_DATA_BYTES], answer[RIO_DATA_BYTES];
	struct platform who;

	memset(token, (int)iounit.unit, sizeof(token));
	memset(d.nonce, (int)counter, sizeof(d.nonce));
	rio_data_encode(&d, bytes);
	rio_seal(token, bytes, RIO_DATA_SEALED_BYTES, bytes + RIO_DATA_SEALED_BYTES);
	REQUIRE(rio_requester_asked(w.q, &(struct rio_bytes){ bytes, sizeof(bytes) }, &who,
				    answer) == WEFT_OK);
	rio_session_of_data(session, token, d.nonce);
}

static enum weft_reason say(struct platform iounit, struct rio_session *session,
			    const struct rio_msg *m)
{
	uint8_t bytes[RIO_MSG_BYTES_MAX];
	size_t length = rio_session_close(session, m, bytes, sizeof(bytes));

	return rio_requester_unit_take(w.q, iounit, bytes, length);
}

static enum weft_reason tell(uint64_t id)
{
	return say(unit, &words,
		   &(struct rio_msg){
			   .type = RIO_STATUS, .id = id, .status = { .done_bytes = 4096 } });
}

static enum weft_reason notified_statuses(const uint64_t *ids, uint32_t count)
{
	uint8_t entries[NOTIFIED_MAX * RIO_NOTIFIED_ENTRY_BYTES];
	struct wr at = wr_of(entries, sizeof(entries));

	for (uint32_t i = 0; i < count; i++)
		rio_notified_put(&(struct rio_notified_entry){ ids[i], 4096 }, &at);
	REQUIRE(!at.is_short);
	return asker_hears(
		&w,
		&(struct rio_msg){ .type = RIO_NOTIFIED,
				   .notified = { count, { entries, (size_t)(at.at - entries) } } });
}

static enum weft_reason notified_status(uint64_t id)
{
	return notified_statuses(&id, 1);
}

/* A request of one fragment that the owner has been asked for. */
static uint64_t ask(void)
{
	uint64_t id = asker_read(&w, 1);

	asker_run(&w);
	return id;
}

static void open_all(void)
{
	asker_open(&w, 4, 8144);
	announce(unit, ASKER_DEVICE);
	connect(unit, 1, &words);
}

TEST(test_rio_02i_the_units_word_ends_a_request_before_the_owners)
{
	uint64_t id;

	open_all();
	id = ask();
	EXPECT_EQ(tell(id), WEFT_OK);
	EXPECT(!asker_has_ended(&w)); /* its window first */
	asker_run(&w);
	EXPECT_EQ(w.open_now, 0U);
	asker_expect_ended(&w, id, WEFT_OK);
	EXPECT(!rio_requester_is_idle(w.q)); /* the owner counts it still */
	EXPECT(rio_requester_is_owed(w.q));
	EXPECT_EQ(notified_status(id), WEFT_OK);
	EXPECT(!rio_requester_is_owed(w.q));
	EXPECT(rio_requester_is_idle(w.q));
	EXPECT_EQ(notified_status(id), WEFT_R_RIO_UNEXPECTED);
	asker_close(&w);
}

TEST(test_rio_02i_the_owners_word_does_not_end_what_the_unit_tells)
{
	uint64_t id;

	open_all();
	id = ask();
	EXPECT(!rio_requester_is_owed(w.q)); /* it has not ended */
	EXPECT_EQ(notified_status(id), WEFT_OK);
	asker_run(&w);
	EXPECT(!asker_has_ended(&w));
	EXPECT_EQ(w.open_now, 1U);
	EXPECT_EQ(tell(id), WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, id, WEFT_OK);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

/* A requester that knows a device's number may ask for it before its unit is announced. */
TEST(test_rio_02i_a_unit_that_is_announced_after_the_request_tells_of_it)
{
	for (int is_owner_first = 0; is_owner_first < 2; is_owner_first++) {
		uint64_t id;

		asker_open(&w, 4, 8144);
		id = ask();
		announce(unit, ASKER_DEVICE);
		connect(unit, 1, &words);
		if (is_owner_first)
			EXPECT_EQ(notified_status(id), WEFT_OK);
		EXPECT_EQ(w.open_now, 1U);
		EXPECT_EQ(tell(id), WEFT_OK);
		asker_run(&w);
		asker_expect_ended(&w, id, WEFT_OK);
		if (!is_owner_first)
			EXPECT_EQ(notified_status(id), WEFT_OK);
		asker_close(&w);
	}
}

/* It is unknown how much of the data has arrived. */
TEST(test_rio_02i_a_connection_that_ends_before_the_word_fails_its_requests)
{
	uint64_t first, second, third;

	open_all();
	first = ask();
	second = ask();
	EXPECT_EQ(notified_status(first), WEFT_OK);
	rio_requester_lost(w.q, unit);
	asker_run(&w);
	asker_expect_ended(&w, first, WEFT_R_PEER_GONE);
	/* The other one is the owner's still, and its word would come in vain. */
	EXPECT_EQ(notified_status(second), WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, second, WEFT_R_PEER_GONE);
	/* A new connection: what went over the one before will not come. */
	connect(unit, 2, &words);
	third = ask();
	EXPECT_EQ(notified_status(third), WEFT_OK);
	connect(unit, 3, &words);
	asker_run(&w);
	asker_expect_ended(&w, third, WEFT_R_PEER_GONE);
	asker_close(&w);
}

/* Its connection was hung up with it; the one that is announced again has none. */
TEST(test_rio_02i_a_unit_that_was_revoked_and_comes_again_is_not_connected)
{
	uint64_t id;

	open_all();
	EXPECT_EQ(asker_hears(&w, &(struct rio_msg){ .type = RIO_REVOKE, .revoked = unit }),
		  WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(w.hung_up_count, 1U);
	rio_requester_lost(w.q, unit);
	announce(unit, ASKER_DEVICE);
	EXPECT_EQ(tell(1), WEFT_R_RIO_UNEXPECTED);
	id = ask();
	EXPECT_EQ(notified_status(id), WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, id, WEFT_R_PEER_GONE);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

/*
 * A notice may have been lost with a connection before the owner's status came; over the next
 * connection it comes soon or never.
 */
TEST(test_rio_02i_a_word_that_may_be_lost_is_not_waited_for_long)
{
	uint64_t lost, late, next;

	open_all();
	lost = ask();
	late = ask();
	rio_requester_lost(w.q, unit);
	connect(unit, 2, &words);
	next = ask();
	EXPECT_EQ(notified_status(lost), WEFT_OK);
	EXPECT_EQ(notified_status(late), WEFT_OK);
	EXPECT_EQ(notified_status(next), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(tell(late), WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, late, WEFT_OK);
	/* The time that an owner has beyond a timeout, as the world has it. */
	asker_wait(&w, (uint64_t)ASKER_GRACE_MS * 1000 * 1000);
	asker_run(&w);
	asker_expect_ended(&w, lost, WEFT_R_PEER_GONE);
	/* What was asked since then is told over this one. */
	EXPECT_EQ(tell(next), WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, next, WEFT_OK);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

TEST(test_rio_02i_a_word_that_never_comes_is_a_timeout)
{
	uint64_t id;

	open_all();
	id = ask();
	EXPECT_EQ(notified_status(id), WEFT_OK);
	rio_requester_cancel(w.q, id); /* the owner has answered already */
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_CANCEL), 0U);
	asker_wait(&w, UINT64_C(3600) * 1000 * 1000 * 1000);
	asker_run(&w);
	asker_expect_ended(&w, id, WEFT_R_RIO_TIMEOUT);
	EXPECT_EQ(tell(id), WEFT_OK); /* too late */
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

/* ---- The owner hears later, and says so later ----------------------------------------------- */

static void open_narrow(uint32_t own_max, uint32_t requests_max)
{
	asker_open_with(&w, own_max, requests_max, 8144);
	announce(unit, ASKER_DEVICE);
	connect(unit, 1, &words);
}

/* A request from its beginning to its end; what the owner thinks of it is left open. */
static uint64_t ask_and_end(void)
{
	uint64_t id;

	w.heard_count = 0;
	id = ask();
	REQUIRE(asker_heard(&w, RIO_REQUEST) == 1);
	REQUIRE(tell(id) == WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, id, WEFT_OK);
	return id;
}

TEST(test_rio_02c_the_next_request_does_not_wait_for_the_owners_word)
{
	enum { ALLOWED = 1 + 4 * RIO_NOTIFY_BATCH };
	uint64_t ids[ALLOWED], waits;

	open_narrow(1, ALLOWED);
	for (uint32_t i = 0; i < ALLOWED; i++)
		ids[i] = ask_and_end();
	/* It keeps to the welcome. */
	w.heard_count = 0;
	waits = ask();
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 0U);
	EXPECT_EQ(notified_status(ids[0]), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 1U);
	EXPECT_EQ(asker_latest(&w, RIO_REQUEST)->id, waits);
	EXPECT_EQ(tell(waits), WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, waits, WEFT_OK);
	EXPECT_EQ(notified_status(waits), WEFT_OK);
	for (uint32_t i = 1; i < ALLOWED; i++) {
		EXPECT(!rio_requester_is_idle(w.q));
		EXPECT_EQ(notified_status(ids[i]), WEFT_OK);
	}
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

/* As many as the owner allows, even if that is more than one has here oneself. */
TEST(test_rio_02c_an_owner_that_allows_one_is_asked_for_one)
{
	uint64_t first, next;

	open_narrow(4, 1);
	first = ask_and_end();
	w.heard_count = 0;
	next = ask();
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 0U);
	EXPECT_EQ(asker_status(&w, first, WEFT_OK), WEFT_OK); /* by a status, as well */
	asker_run(&w);
	EXPECT_EQ(asker_latest(&w, RIO_REQUEST)->id, next);
	asker_close(&w);
}

TEST(test_rio_02i_the_owner_tells_of_ended_requests_in_any_order)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct prng prng = { seed };
		uint64_t ids[NOTIFIED_MAX], last;
		uint32_t said = 0;

		open_narrow(1 + prng_below(&prng, 2), NOTIFIED_MAX + 1);
		for (uint32_t i = 0; i < NOTIFIED_MAX; i++)
			ids[i] = ask_and_end();
		last = ask(); /* and one that has not ended */
		for (uint32_t i = NOTIFIED_MAX - 1; i > 0; i--) {
			uint32_t k = prng_below(&prng, i + 1);
			uint64_t id = ids[i];

			ids[i] = ids[k];
			ids[k] = id;
		}
		while (said < NOTIFIED_MAX) {
			uint32_t count = 1 + prng_below(&prng, NOTIFIED_MAX - said);

			EXPECT_EQ(notified_statuses(ids + said, count), WEFT_OK);
			said += count;
		}
		EXPECT(!asker_has_ended(&w));
		EXPECT_EQ(notified_status(last), WEFT_OK);
		EXPECT_EQ(tell(last), WEFT_OK);
		asker_run(&w);
		asker_expect_ended(&w, last, WEFT_OK);
		EXPECT(rio_requester_is_idle(w.q));
		asker_close(&w);
	}
}

TEST(test_rio_03_an_owner_that_tells_of_what_it_does_not_owe_is_refused)
{
	uint64_t ids[3];

	for (int wrong = 0; wrong < 4; wrong++) {
		open_narrow(1, 8);
		for (int i = 0; i < 3; i++)
			ids[i] = ask_and_end();
		EXPECT_EQ(notified_status(ids[1]), WEFT_OK);
		if (wrong == 0)
			EXPECT_EQ(notified_status(ids[1]), WEFT_R_RIO_UNEXPECTED); /* again */
		else if (wrong == 1)
			EXPECT_EQ(notified_status(ids[2] + 1),
				  WEFT_R_RIO_UNEXPECTED); /* no id yet */
		else if (wrong == 2)
			EXPECT_EQ(notified_status(0), WEFT_R_RIO_UNEXPECTED);
		else
			EXPECT_EQ(asker_status(&w, ids[1], WEFT_OK), WEFT_R_RIO_UNEXPECTED);
		/* What it owes it owes still. */
		EXPECT_EQ(notified_status(ids[2]), WEFT_OK);
		EXPECT_EQ(asker_status(&w, ids[0], WEFT_OK), WEFT_OK);
		EXPECT(rio_requester_is_idle(w.q));
		asker_close(&w);
	}
}

/* Nothing is left to cancel, so no CANCEL is sent. */
TEST(test_rio_02i_a_request_that_the_unit_ended_is_not_cancelled)
{
	uint64_t id;

	open_all();
	id = ask();
	EXPECT_EQ(tell(id), WEFT_OK);
	rio_requester_cancel(w.q, id); /* while its window closes */
	asker_run(&w);
	asker_expect_ended(&w, id, WEFT_OK);
	rio_requester_cancel(w.q, id);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_CANCEL), 0U);
	EXPECT(!asker_has_ended(&w));
	EXPECT_EQ(notified_status(id), WEFT_OK);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

TEST(test_rio_02i_a_word_that_crosses_a_cancel_ends_the_request_well)
{
	for (int is_said = 0; is_said < 2; is_said++) {
		uint64_t id;

		open_all();
		id = ask();
		rio_requester_cancel(w.q, id);
		if (is_said)
			asker_run(&w);
		EXPECT_EQ(tell(id), WEFT_OK);
		if (!is_said) /* the owner's comes before the cancel is said: it is needless */
			EXPECT_EQ(notified_status(id), WEFT_OK);
		asker_run(&w);
		asker_expect_ended(&w, id, WEFT_OK);
		EXPECT_EQ(asker_heard(&w, RIO_CANCEL), (uint32_t)is_said);
		if (is_said)
			EXPECT_EQ(notified_status(id), WEFT_OK);
		EXPECT(rio_requester_is_idle(w.q));
		asker_close(&w);
	}
}

/* He may read its list until he has answered. */
TEST(test_rio_02i_the_list_of_an_ended_request_is_kept_for_the_owner)
{
	uint64_t ids[ASKER_LISTS], id;

	open_all();
	for (int i = 0; i < ASKER_LISTS; i++) {
		REQUIRE(asker_ask_long(&w, 16384, &ids[i]) == WEFT_OK);
		asker_run(&w);
		EXPECT_EQ(tell(ids[i]), WEFT_OK);
		asker_run(&w);
		asker_expect_ended(&w, ids[i], WEFT_OK);
	}
	EXPECT_EQ(asker_ask_long(&w, 16384, &id), WEFT_R_BUSY);
	EXPECT_EQ(notified_status(ids[1]), WEFT_OK);
	EXPECT_EQ(asker_ask_long(&w, 16384, &id), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, id, WEFT_OK);
	EXPECT_EQ(notified_status(ids[0]), WEFT_OK);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

TEST(test_rio_03_an_owner_that_leaves_owes_nothing_any_more)
{
	enum { ALLOWED = 1 + 4 * RIO_NOTIFY_BATCH };
	uint64_t id = 0;

	open_narrow(1, ALLOWED);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < ALLOWED; i++)
			id = ask_and_end();
		rio_requester_owner_left(w.q);
		EXPECT(rio_requester_is_idle(w.q));
		asker_run(&w); /* the I/O unit is hung up */
		asker_owner_comes(&w, ALLOWED, 8144);
		EXPECT_EQ(notified_status(id), WEFT_R_RIO_UNEXPECTED);
		asker_owner_comes(&w, ALLOWED, 8144);
		announce(unit, ASKER_DEVICE);
		connect(unit, 2 + (uint64_t)round, &words);
	}
	id = ask_and_end();
	EXPECT_EQ(notified_status(id), WEFT_OK);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

TEST(test_mem_13_a_unit_cannot_report_for_another_units_device)
{
	struct rio_session others;
	uint64_t id;

	open_all();
	announce(other, ASKER_DEVICE + 1);
	connect(other, 1, &others);
	id = ask();
	EXPECT_EQ(say(other, &others, &(struct rio_msg){ .type = RIO_STATUS, .id = id }), WEFT_OK);
	asker_run(&w);
	EXPECT(!asker_has_ended(&w));
	EXPECT_EQ(tell(id), WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, id, WEFT_OK);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_OK);
	asker_close(&w);
}

TEST(test_rio_03_words_that_are_forged_repeated_or_none_are_refused)
{
	const struct rio_msg m = { .type = RIO_STATUS, .id = 5 };
	struct rio_session strange = { .sent = 0 };
	uint8_t bytes[RIO_MSG_BYTES_MAX];
	size_t length;

	open_all();
	EXPECT_EQ(say(unit, &strange, &m), WEFT_R_RIO_FORGED);
	length = rio_session_close(&words, &m, bytes, sizeof(bytes));
	EXPECT_EQ(rio_requester_unit_take(w.q, unit, bytes, length), WEFT_OK);
	EXPECT_EQ(rio_requester_unit_take(w.q, unit, bytes, length), WEFT_R_RIO_SEQUENCE);
	EXPECT_EQ(rio_requester_unit_take(w.q, unit, bytes, 3), WEFT_R_RIO_SHORT);
	EXPECT_EQ(say(unit, &words, &(struct rio_msg){ .type = RIO_PING }), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(say(other, &words, &m), WEFT_R_RIO_UNEXPECTED); /* who is not announced */
	rio_requester_lost(w.q, unit);
	EXPECT_EQ(say(unit, &words, &m), WEFT_R_RIO_UNEXPECTED); /* or not connected */
	asker_close(&w);
}

/* It was hung up with the revocation: nothing of it is there when it is announced once more. */
TEST(test_rio_02i_a_unit_that_comes_again_is_not_connected)
{
	uint64_t id;

	open_all();
	REQUIRE(asker_hears(&w, &(struct rio_msg){ .type = RIO_REVOKE, .revoked = unit }) ==
		WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(w.hung_up_count, 1U);
	rio_requester_lost(w.q, unit);
	announce(unit, ASKER_DEVICE);
	EXPECT_EQ(tell(1), WEFT_R_RIO_UNEXPECTED);
	id = ask();
	EXPECT_EQ(notified_status(id), WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, id, WEFT_R_PEER_GONE);
	asker_close(&w);
}
