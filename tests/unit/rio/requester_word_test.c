/* SPDX-License-Identifier: BSD-2-Clause */
/* What an I/O unit says over its data connection, behind the data (docs/wire/rio.md). */
#include <string.h>

#include "rio/requester.h"
#include "test.h"
#include "unit/rio/asker_fixture.h"

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

	return rio_requester_told(w.q, iounit, bytes, length);
}

static enum weft_reason tell(uint64_t id)
{
	return say(unit, &words,
		   &(struct rio_msg){
			   .type = RIO_STATUS, .id = id, .status = { .done_bytes = 4096 } });
}

static enum weft_reason told_status(uint64_t id)
{
	uint8_t entry[RIO_TOLD_ENTRY_BYTES];
	struct wr at = wr_of(entry, sizeof(entry));

	rio_told_put(&(struct rio_told_entry){ id, 4096 }, &at);
	return asker_hears(
		&w, &(struct rio_msg){ .type = RIO_TOLD, .told = { 1, { entry, sizeof(entry) } } });
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
	EXPECT_EQ(told_status(id), WEFT_OK);
	EXPECT(rio_requester_is_idle(w.q));
	EXPECT_EQ(told_status(id), WEFT_R_RIO_UNEXPECTED);
	asker_close(&w);
}

TEST(test_rio_02i_the_owners_word_does_not_end_what_the_unit_tells)
{
	uint64_t id;

	open_all();
	id = ask();
	EXPECT_EQ(told_status(id), WEFT_OK);
	asker_run(&w);
	EXPECT(!asker_has_ended(&w));
	EXPECT_EQ(w.open_now, 1U);
	EXPECT_EQ(tell(id), WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, id, WEFT_OK);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

/* Who knows a device's number may ask for it before he is told who has it. */
TEST(test_rio_02i_a_unit_that_is_announced_after_the_request_tells_of_it)
{
	for (int is_owner_first = 0; is_owner_first < 2; is_owner_first++) {
		uint64_t id;

		asker_open(&w, 4, 8144);
		id = ask();
		announce(unit, ASKER_DEVICE);
		connect(unit, 1, &words);
		if (is_owner_first)
			EXPECT_EQ(told_status(id), WEFT_OK);
		EXPECT_EQ(w.open_now, 1U);
		EXPECT_EQ(tell(id), WEFT_OK);
		asker_run(&w);
		asker_expect_ended(&w, id, WEFT_OK);
		if (!is_owner_first)
			EXPECT_EQ(told_status(id), WEFT_OK);
		asker_close(&w);
	}
}

/* Nobody knows what of the data has come. */
TEST(test_rio_02i_a_connection_that_ends_before_the_word_fails_its_requests)
{
	uint64_t first, second, third;

	open_all();
	first = ask();
	second = ask();
	EXPECT_EQ(told_status(first), WEFT_OK);
	rio_requester_lost(w.q, unit);
	asker_run(&w);
	asker_expect_ended(&w, first, WEFT_R_PEER_GONE);
	/* The other one is the owner's still, and its word would come in vain. */
	EXPECT_EQ(told_status(second), WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, second, WEFT_R_PEER_GONE);
	/* A new connection: what went over the one before will not come. */
	connect(unit, 2, &words);
	third = ask();
	EXPECT_EQ(told_status(third), WEFT_OK);
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
	EXPECT_EQ(told_status(id), WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, id, WEFT_R_PEER_GONE);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

TEST(test_rio_02i_a_word_that_never_comes_is_a_timeout)
{
	uint64_t id;

	open_all();
	id = ask();
	EXPECT_EQ(told_status(id), WEFT_OK);
	rio_requester_cancel(w.q, id); /* there is nobody left to tell */
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_CANCEL), 0U);
	asker_wait(&w, UINT64_C(3600) * 1000 * 1000 * 1000);
	asker_run(&w);
	asker_expect_ended(&w, id, WEFT_R_RIO_TIMEOUT);
	EXPECT_EQ(tell(id), WEFT_OK); /* too late */
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

TEST(test_mem_13_nobody_speaks_for_another_units_device)
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
	EXPECT_EQ(rio_requester_told(w.q, unit, bytes, length), WEFT_OK);
	EXPECT_EQ(rio_requester_told(w.q, unit, bytes, length), WEFT_R_RIO_SEQUENCE);
	EXPECT_EQ(rio_requester_told(w.q, unit, bytes, 3), WEFT_R_RIO_SHORT);
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
	EXPECT_EQ(told_status(id), WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, id, WEFT_R_PEER_GONE);
	asker_close(&w);
}
