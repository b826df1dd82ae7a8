/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/requester.h"

#include <string.h>

#include "rio/notify.h"
#include "test.h"
#include "unit/rio/asker_fixture.h"

enum { LIST_MAX = RIO_REQUEST_LIST_MAX };

static const struct platform self = { ASKER, 1 };

/* ---- Asking --------------------------------------------------------------------------------- */

TEST(test_rio_02c_no_more_is_asked_at_a_time_than_the_owner_allows)
{
	struct asker_world w;
	uint64_t ids[4];

	asker_open(&w, 2, LIST_MAX);
	for (int i = 0; i < 4; i++)
		ids[i] = asker_read(&w, 2);
	asker_run(&w);
	EXPECT_EQ(w.opened, 8U);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 2U);
	EXPECT(w.heard[0].id == ids[0] && w.heard[1].id == ids[1]);
	EXPECT_EQ(asker_status(&w, ids[1], WEFT_OK), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 3U);
	EXPECT_EQ(w.heard[2].id, ids[2]);
	EXPECT_EQ(asker_status(&w, ids[0], WEFT_OK), WEFT_OK);
	EXPECT_EQ(asker_status(&w, ids[2], WEFT_OK), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(w.heard[3].id, ids[3]);
	asker_close(&w);
}

TEST(test_rio_02i_windows_are_closed_before_the_request_has_ended)
{
	struct asker_world w;
	struct rio_requester_act act;
	uint64_t id;

	asker_open(&w, 4, LIST_MAX);
	id = asker_read(&w, 2);
	asker_run(&w);
	EXPECT_EQ(w.open_now, 2U);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_OK);
	EXPECT(!asker_has_ended(&w));
	EXPECT(asker_step(&w) && w.closed == 1 && !asker_has_ended(&w));
	EXPECT(asker_step(&w) && w.closed == 2 && w.open_now == 0);
	EXPECT(!asker_has_ended(&w)); /* until the next act is asked for */
	EXPECT(!rio_requester_act(w.q, &act));
	asker_expect_ended(&w, id, 0);
	EXPECT(rio_requester_is_idle(w.q));
	EXPECT_EQ(rio_requester_due(w.q), UINT64_MAX);
	asker_close(&w);
}

TEST(test_rio_02i_what_the_owner_says_of_it_is_handed_on)
{
	static const char text[] = "not yours";
	struct rio_msg m = { .type = RIO_STATUS,
			     .status = { .reason = 4000000000,
					 .transaction = 3,
					 .done_bytes = 8192,
					 .text = { (const uint8_t *)text, strlen(text) } } };
	struct asker_world w;
	struct rio_ended e;

	asker_open(&w, 4, LIST_MAX);
	m.id = asker_read(&w, 2);
	asker_run(&w);
	EXPECT_EQ(asker_hears(&w, &m), WEFT_OK);
	asker_run(&w);
	EXPECT(rio_requester_ended(w.q, &e));
	EXPECT(e.id == m.id && e.reason == 4000000000 && e.transaction == 3);
	EXPECT(e.done_bytes == 8192 && e.context == &w);
	EXPECT_STR(e.text, text);
	/* The longest one; and none, in the same slot. */
	for (int i = 0; i < 2 * ASKER_REQUESTS; i++) {
		uint8_t words[RIO_TEXT_MAX];

		memset(words, 'a', sizeof(words));
		m.id = asker_read(&w, 1);
		m.status.text = (struct rio_bytes){ words, i < 4 ? sizeof(words) : 0 };
		asker_run(&w);
		EXPECT_EQ(asker_hears(&w, &m), WEFT_OK);
		asker_run(&w);
		EXPECT(rio_requester_ended(w.q, &e));
		EXPECT_EQ(strlen(e.text), i < 4 ? sizeof(words) : 0U);
	}
	asker_close(&w);
}

TEST(test_rio_02a_a_window_that_does_not_open_ends_the_request)
{
	struct asker_world w;
	uint64_t id;

	/* The other ones: open, being opened, or not begun. */
	asker_open(&w, 4, LIST_MAX);
	w.is_slow = true;
	id = asker_read(&w, 4);
	EXPECT(asker_step(&w) && asker_step(&w) && asker_step(&w));
	asker_expose(&w, 0, WEFT_OK);
	asker_expose(&w, 1, WEFT_R_TAG_INVALID);
	EXPECT(!asker_has_ended(&w));
	asker_run(&w);
	EXPECT_EQ(w.opened, 3U);
	EXPECT_EQ(w.closed, 1U);
	EXPECT(!asker_has_ended(&w)); /* one is under way still */
	asker_expose(&w, 2, WEFT_OK);
	EXPECT(!asker_has_ended(&w));
	asker_run(&w);
	EXPECT_EQ(w.closed, 2U);
	asker_expect_ended(&w, id, WEFT_R_TAG_INVALID);
	EXPECT(w.open_now == 0 && w.heard_count == 0 && rio_requester_is_idle(w.q));

	/* The first reason is the one. */
	id = asker_read(&w, 2);
	asker_run(&w);
	asker_expose(&w, asker_pane(&w), WEFT_R_TAG_INVALID);
	asker_expose(&w, asker_pane(&w), WEFT_R_LIMIT);
	asker_expect_ended(&w, id, WEFT_R_TAG_INVALID);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

TEST(test_rio_03_an_unexpected_status_is_refused)
{
	struct asker_world w;
	uint64_t id, waits;

	asker_open(&w, 1, LIST_MAX);
	id = asker_read(&w, 1);
	waits = asker_read(&w, 1);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_R_RIO_UNEXPECTED); /* not asked yet */
	asker_run(&w);
	EXPECT_EQ(asker_status(&w, waits, WEFT_OK), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(asker_status(&w, id + ASKER_REQUESTS, WEFT_OK), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(asker_status(&w, 0, WEFT_OK), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(asker_status(&w, UINT64_MAX, WEFT_OK), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_OK);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_R_RIO_UNEXPECTED); /* twice */
	asker_run(&w);
	asker_expect_ended(&w, id, 0);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_R_RIO_UNEXPECTED);
	asker_close(&w);
}

/* ---- Cancelling ----------------------------------------------------------------------------- */

TEST(test_rio_02i_a_request_that_was_not_asked_yet_is_cancelled_at_once)
{
	struct asker_world w;
	uint64_t asked, waits, exposes;

	asker_open(&w, 1, LIST_MAX);
	asked = asker_read(&w, 1);
	waits = asker_read(&w, 1);
	asker_run(&w);
	w.is_slow = true;
	exposes = asker_read(&w, 2);
	asker_step(&w);
	rio_requester_cancel(w.q, waits);
	asker_run(&w);
	asker_expect_ended(&w, waits, WEFT_R_RIO_CANCELLED);
	rio_requester_cancel(w.q, exposes);
	asker_run(&w);
	EXPECT(!asker_has_ended(&w));
	asker_expose(&w, asker_pane(&w), WEFT_OK);
	asker_expose(&w, asker_pane(&w), WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, exposes, WEFT_R_RIO_CANCELLED);
	EXPECT_EQ(asker_heard(&w, RIO_CANCEL), 0U);
	EXPECT_EQ(w.open_now, 1U);
	rio_requester_cancel(w.q, waits); /* long gone */
	rio_requester_cancel(w.q, 0);
	EXPECT_EQ(asker_status(&w, asked, WEFT_OK), WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, asked, 0);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 1U);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

TEST(test_rio_02i_a_request_that_was_asked_ends_by_its_status_when_cancelled)
{
	struct asker_world w;
	uint64_t id;

	asker_open(&w, 4, LIST_MAX);
	id = asker_read(&w, 1);
	asker_run(&w);
	rio_requester_cancel(w.q, id);
	rio_requester_cancel(w.q, id);
	asker_run(&w);
	rio_requester_cancel(w.q, id);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_CANCEL), 1U);
	EXPECT_EQ(asker_latest(&w, RIO_CANCEL)->id, id);
	EXPECT(!asker_has_ended(&w) && w.open_now == 1);
	EXPECT_EQ(asker_status(&w, id, WEFT_R_RIO_CANCELLED), WEFT_OK);
	rio_requester_cancel(w.q, id); /* while its window closes */
	asker_run(&w);
	asker_expect_ended(&w, id, WEFT_R_RIO_CANCELLED);

	/* A status that comes first makes it needless. */
	id = asker_read(&w, 1);
	asker_run(&w);
	rio_requester_cancel(w.q, id);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_CANCEL), 1U);
	asker_expect_ended(&w, id, 0);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

/* ---- Time ----------------------------------------------------------------------------------- */

static uint64_t read_within(struct asker_world *w, uint64_t timeout_ns)
{
	const struct rio_fragment f = asker_own(0x10000, 512);
	const struct rio_wanted what = asker_wanted(SGL_READ, &f, 1);
	const struct rio_ask a = {
		.wanted = &what, .count = 1, .timeout_ns = timeout_ns, .context = w
	};
	uint64_t id;

	REQUIRE(rio_requester_ask(w->q, &a, w->now_ns, &id) == WEFT_OK);
	asker_run(w);
	return id;
}

TEST(test_rio_02c_the_owner_learns_how_long_a_request_may_take)
{
	static const struct {
		uint64_t timeout_ns;
		uint32_t sent_ms;
	} cases[] = { { 0, ASKER_TIMEOUT_MS },
		      { 1, 1 },
		      { NS_PER_MS, 1 },
		      { NS_PER_MS + 1, 2 },
		      { UINT64_C(30000) * NS_PER_MS, 30000 },
		      { UINT64_MAX, UINT32_MAX } };
	struct asker_world w;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		asker_open(&w, 4, LIST_MAX);
		w.now_ns = 12345;
		read_within(&w, cases[i].timeout_ns);
		EXPECT_EQ(asker_latest(&w, RIO_REQUEST)->timeout_ms, cases[i].sent_ms);
		asker_close(&w);
	}
}

/* What it has waited here the owner has not any more. */
TEST(test_rio_02c_the_owner_learns_what_is_left_of_the_time)
{
	struct asker_world w;
	uint64_t first;

	asker_open(&w, 1, LIST_MAX);
	first = read_within(&w, 0);
	read_within(&w, 0);
	w.now_ns += 400 * (uint64_t)NS_PER_MS;
	EXPECT_EQ(asker_status(&w, first, WEFT_OK), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 2U);
	EXPECT_EQ(asker_latest(&w, RIO_REQUEST)->timeout_ms, ASKER_TIMEOUT_MS - 400U);
	asker_close(&w);
}

TEST(test_rio_02i_a_request_without_a_status_is_given_up)
{
	const uint64_t long_ns = (ASKER_TIMEOUT_MS + ASKER_GRACE_MS) * (uint64_t)NS_PER_MS;
	struct asker_world w;
	uint64_t id, next;

	asker_open(&w, 1, LIST_MAX);
	id = asker_read(&w, 2);
	asker_run(&w);
	EXPECT_EQ(rio_requester_due(w.q), long_ns);
	asker_wait(&w, long_ns - 1);
	EXPECT(!asker_has_ended(&w) && asker_heard(&w, RIO_CANCEL) == 0);
	asker_wait(&w, 1);
	EXPECT_EQ(asker_heard(&w, RIO_CANCEL), 1U);
	EXPECT_EQ(asker_latest(&w, RIO_CANCEL)->id, id);
	EXPECT(w.open_now == 0 && w.closed == 2);
	asker_expect_ended(&w, id, WEFT_R_RIO_TIMEOUT);
	EXPECT_EQ(rio_requester_due(w.q), UINT64_MAX);

	/* The owner may be busy with it: it counts, until he answers. */
	next = asker_read(&w, 1);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 1U);
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 2U);
	EXPECT(!asker_has_ended(&w)); /* once is enough */
	EXPECT_EQ(asker_status(&w, id, WEFT_OK), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(asker_status(&w, next, WEFT_OK), WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, next, 0);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

TEST(test_rio_02i_a_request_that_was_cancelled_is_given_up_too)
{
	struct asker_world w;
	uint64_t id;

	asker_open(&w, 1, LIST_MAX);
	id = asker_read(&w, 1);
	asker_run(&w);
	rio_requester_cancel(w.q, id);
	asker_run(&w);
	asker_wait(&w, 2 * ASKER_TIMEOUT_MS * (uint64_t)NS_PER_MS);
	asker_expect_ended(&w, id, WEFT_R_RIO_TIMEOUT);
	EXPECT_EQ(asker_heard(&w, RIO_CANCEL), 1U); /* he knows */
	EXPECT_EQ(asker_status(&w, id, WEFT_R_RIO_CANCELLED), WEFT_OK);
	EXPECT(rio_requester_is_idle(w.q));
	asker_close(&w);
}

/* The owner has not heard of it: there is no grace, and no CANCEL. */
TEST(test_rio_02i_a_request_that_waits_too_long_ends)
{
	struct asker_world w;
	uint64_t ids[2];

	asker_open(&w, 0, LIST_MAX); /* an owner that allows none */
	ids[0] = asker_read(&w, 1);
	asker_run(&w);
	w.is_slow = true;
	ids[1] = asker_read(&w, 1);
	asker_run(&w);
	EXPECT_EQ(rio_requester_due(w.q), ASKER_TIMEOUT_MS * (uint64_t)NS_PER_MS);
	asker_wait(&w, ASKER_TIMEOUT_MS * (uint64_t)NS_PER_MS);
	asker_expect_ended(&w, ids[0], WEFT_R_RIO_TIMEOUT);
	asker_expose(&w, asker_pane(&w), WEFT_OK); /* late, and closed again */
	asker_run(&w);
	asker_expect_ended(&w, ids[1], WEFT_R_RIO_TIMEOUT);
	EXPECT(w.open_now == 0 && w.heard_count == 0 && rio_requester_is_idle(w.q));
	asker_close(&w);
}

/* Requests that are never answered do not use up more slots than there are. */
TEST(test_rio_02i_an_owner_that_never_answers_is_asked_for_no_more_than_is_kept_here)
{
	/* Also those that its I/O unit may have told of, and the owner not yet. */
	const uint32_t kept = ASKER_REQUESTS + 4 * RIO_NOTIFY_BATCH;
	struct asker_world w;
	uint64_t id;

	asker_open(&w, 1000, LIST_MAX);
	for (uint32_t i = 0; i < kept; i++) {
		id = asker_read(&w, 1);
		asker_run(&w);
		asker_wait(&w, 2 * ASKER_TIMEOUT_MS * (uint64_t)NS_PER_MS);
		asker_expect_ended(&w, id, WEFT_R_RIO_TIMEOUT);
		EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 1U);
		w.heard_count = 0;
	}
	id = asker_read(&w, 1);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 0U);
	asker_wait(&w, ASKER_TIMEOUT_MS * (uint64_t)NS_PER_MS);
	asker_expect_ended(&w, id, WEFT_R_RIO_TIMEOUT);
	asker_close(&w);
}

/* ---- Owners come and go --------------------------------------------------------------------- */

TEST(test_rio_03_when_the_owner_leaves_every_request_ends)
{
	struct rio_ended e;
	struct asker_world w;
	uint64_t ids[4];
	int count = 0;

	asker_open(&w, 1, LIST_MAX);
	ids[0] = asker_read(&w, 2); /* asked, and to be cancelled */
	ids[1] = asker_read(&w, 1); /* waits */
	asker_run(&w);
	w.is_slow = true;
	ids[2] = asker_read(&w, 2); /* one window is being opened */
	asker_step(&w);
	ids[3] = asker_read(&w, 1); /* not begun */
	rio_requester_cancel(w.q, ids[0]);
	EXPECT_EQ(asker_hears(&w, &(struct rio_msg){ .type = RIO_PING }), WEFT_OK);
	rio_requester_owner_left(w.q);
	EXPECT(!rio_requester_has_owner(w.q));
	asker_run(&w);
	asker_expose(&w, asker_pane(&w), WEFT_OK);
	asker_run(&w);
	while (rio_requester_ended(w.q, &e)) {
		EXPECT_EQ(e.reason, WEFT_R_RIO_OWNER_LEFT);
		count++;
	}
	EXPECT_EQ(count, 4);
	EXPECT(w.open_now == 0 && rio_requester_is_idle(w.q));
	EXPECT_EQ(w.heard_count, 1U); /* just this request */
	EXPECT_EQ(rio_requester_due(w.q), UINT64_MAX);
	EXPECT_EQ(asker_ask_long(&w, 8, &ids[0]), WEFT_R_RIO_OWNER_LEFT);
	asker_close(&w);
}

TEST(test_rio_03_a_new_owner_has_nothing_of_the_old_one)
{
	struct asker_world w;
	uint64_t old, id;
	uint8_t bytes[RIO_MSG_BYTES_MAX];
	size_t length;

	asker_open(&w, 1, LIST_MAX);
	old = asker_read(&w, 1);
	asker_run(&w);
	length = rio_session_close(&w.owner, &(struct rio_msg){ .type = RIO_PING }, bytes,
				   sizeof(bytes));
	asker_owner_comes(&w, 2, 36); /* without a word of leaving */
	EXPECT(rio_requester_has_owner(w.q));
	asker_run(&w);
	asker_expect_ended(&w, old, WEFT_R_RIO_OWNER_LEFT);
	id = asker_read(&w, 1);
	asker_read(&w, 1);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 3U); /* by his limits, not the other's */
	EXPECT_EQ(asker_latest(&w, RIO_REQUEST)->length, 36U);
	EXPECT(id != old);
	EXPECT_EQ(asker_status(&w, old, WEFT_OK), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(rio_requester_take(w.q, bytes, length, w.now_ns), WEFT_R_RIO_FORGED);
	asker_close(&w);
}

TEST(test_rio_03_without_an_owner_nothing_is_taken)
{
	struct asker_world w;

	asker_open(&w, 1, LIST_MAX);
	rio_requester_owner_left(w.q);
	EXPECT_EQ(asker_hears(&w, &(struct rio_msg){ .type = RIO_PING }), WEFT_R_RIO_UNEXPECTED);
	asker_run(&w);
	EXPECT_EQ(w.heard_count, 0U);
	asker_close(&w);
}

TEST(test_rio_03_a_ping_is_answered)
{
	struct asker_world w;

	asker_open(&w, 1, LIST_MAX);
	EXPECT_EQ(asker_hears(&w, &(struct rio_msg){ .type = RIO_PING, .id = 3 }), WEFT_OK);
	EXPECT_EQ(asker_hears(&w, &(struct rio_msg){ .type = RIO_PONG, .id = 9 }), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(w.heard_count, 1U);
	EXPECT_EQ(asker_latest(&w, RIO_PONG)->id, 3U);
	asker_close(&w);
}

TEST(test_rio_03_what_is_not_an_owners_to_say_is_refused)
{
	static const uint8_t list[8] = { 1 };
	const struct rio_msg said[] = {
		{ .type = RIO_REQUEST, .request = { .list = { list, 8 } } },
		{ .type = RIO_COMMAND, .request = { .requester = self, .list = { list, 8 } } },
		{ .type = RIO_GRANT,
		  .grant = { .requester = self, .address = { .family = 4, .port = 1 } } },
		{ .type = RIO_DEVICES },
		{ .type = RIO_CANCEL, .id = 1 },
	};
	struct asker_world w;

	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		asker_open(&w, 1, LIST_MAX);
		EXPECT_EQ(asker_hears(&w, &said[i]), WEFT_R_RIO_UNEXPECTED);
		asker_run(&w);
		EXPECT_EQ(w.heard_count, 0U);
		asker_close(&w);
	}
	asker_open(&w, 1, LIST_MAX);
	EXPECT_EQ(asker_hears(&w, &(struct rio_msg){ .type = RIO_BYE }), WEFT_R_RIO_OWNER_LEFT);
	asker_close(&w);
}
