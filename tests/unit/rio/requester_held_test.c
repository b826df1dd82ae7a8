/* SPDX-License-Identifier: BSD-2-Clause */
/* Large requests wait for each other while enough is under way, and for nothing else. */
#include "rio/requester.h"

#include "test.h"
#include "unit/rio/asker_fixture.h"

enum {
	REQUESTS = 8,
	ENOUGH = 8 << 20, /* bytes under way */
	LARGE = 256 << 10,
	TOGETHER = 4,
	WAIT_MS = 4
};

static uint64_t ask(struct asker_world *w, uint32_t bytes)
{
	const struct rio_fragment f = asker_own(0x100000, bytes);
	const struct rio_wanted what = asker_wanted(SGL_READ, &f, 1);
	uint64_t id;

	REQUIRE(asker_ask(w, &what, 1, &id) == WEFT_OK);
	asker_run(w);
	return id;
}

/* With so much under way; the request's id. */
static uint64_t open_with(struct asker_world *w, uint32_t bytes)
{
	uint64_t id;

	asker_open_with(w, REQUESTS, 64, RIO_REQUEST_LIST_MAX);
	id = ask(w, bytes);
	REQUIRE(asker_heard(w, RIO_REQUEST) == 1);
	return id;
}

TEST(test_rio_02c_large_requests_wait_until_there_are_some)
{
	struct asker_world w;

	open_with(&w, ENOUGH);
	for (int i = 1; i < TOGETHER; i++) {
		ask(&w, LARGE);
		EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 1U);
	}
	ask(&w, LARGE);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 1U + TOGETHER);
	/* The next ones anew. */
	ask(&w, LARGE);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 1U + TOGETHER);
	asker_close(&w);
}

TEST(test_rio_02c_large_requests_wait_for_no_more_than_some_milliseconds)
{
	struct asker_world w;

	open_with(&w, ENOUGH);
	ask(&w, LARGE);
	asker_wait(&w, 1000);
	ask(&w, LARGE);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 1U);
	EXPECT_EQ(rio_requester_due(w.q), (uint64_t)WAIT_MS * NS_PER_MS);
	asker_wait(&w, (uint64_t)WAIT_MS * NS_PER_MS - 1001);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 1U);
	asker_wait(&w, 1);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 3U);
	EXPECT(rio_requester_due(w.q) > (uint64_t)WAIT_MS * NS_PER_MS);
	asker_close(&w);
}

TEST(test_rio_02c_small_requests_never_wait_nor_do_large_ones_before_them)
{
	struct asker_world w;

	open_with(&w, ENOUGH);
	ask(&w, LARGE - 512);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 2U);
	ask(&w, LARGE);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 2U);
	ask(&w, 512);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 4U);
	asker_close(&w);
}

TEST(test_rio_02c_large_requests_do_not_wait_while_little_is_under_way)
{
	struct asker_world w;
	uint64_t first;

	first = open_with(&w, ENOUGH - 512);
	ask(&w, LARGE);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 2U);
	ask(&w, LARGE); /* now it is enough */
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 2U);
	EXPECT_EQ(asker_status(&w, first, WEFT_OK), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 3U);
	asker_expect_ended(&w, first, WEFT_OK);
	asker_close(&w);
}

TEST(test_rio_02i_what_is_held_back_ends_with_its_time_or_its_owner)
{
	struct asker_world w;
	uint64_t held;

	open_with(&w, ENOUGH);
	held = ask(&w, LARGE);
	rio_requester_cancel(w.q, held);
	asker_run(&w);
	asker_expect_ended(&w, held, WEFT_R_RIO_CANCELLED);
	ask(&w, LARGE);
	rio_requester_owner_left(w.q);
	asker_run(&w);
	for (int i = 0; i < 2; i++)
		EXPECT(asker_has_ended(&w));
	asker_owner_comes(&w, 64, RIO_REQUEST_LIST_MAX);
	w.heard_count = 0;
	ask(&w, LARGE); /* nothing is under way with this one */
	EXPECT_EQ(asker_heard(&w, RIO_REQUEST), 1U);
	asker_close(&w);
}
