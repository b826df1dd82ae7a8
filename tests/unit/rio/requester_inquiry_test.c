/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "rio/requester.h"

#include "test.h"
#include "unit/rio/asker_fixture.h"

enum { LIST_MAX = RIO_REQUEST_LIST_MAX };

static struct rio_msg report(uint64_t id)
{
	static uint8_t bytes[128];
	struct wr w = wr_of(bytes, sizeof(bytes));

	rio_seen_put(&(struct rio_seen){ .kind = RIO_SEEN_OWNER, .platform = { 1, 1 } }, &w);
	return (struct rio_msg){ .type = RIO_REPORT,
				 .id = id,
				 .report = { 9, 1, { bytes, (size_t)(w.at - bytes) } } };
}

TEST(test_rio_03_an_inquiry_is_said_and_its_report_taken)
{
	struct asker_world w;
	struct rio_reported got;
	struct rio_seen s = { 0 };
	struct rio_msg m;
	struct rd at;
	uint64_t id;

	asker_open(&w, 4, LIST_MAX);
	EXPECT_EQ(rio_requester_inquire(w.q, 6), WEFT_OK);
	EXPECT_EQ(rio_requester_inquire(w.q, 6), WEFT_R_BUSY);
	asker_run(&w);
	EXPECT_EQ(asker_heard(&w, RIO_INQUIRE), 1U);
	id = asker_latest(&w, RIO_INQUIRE)->id;
	EXPECT(!rio_requester_reported(w.q, &got));
	EXPECT_EQ(rio_requester_inquire(w.q, 6), WEFT_R_BUSY);
	m = report(id);
	EXPECT_EQ(asker_hears(&w, &m), WEFT_OK);
	memset(w.said, 0xff, sizeof(w.said)); /* the message is gone */
	EXPECT_EQ(rio_requester_inquire(w.q, 6), WEFT_R_BUSY);
	REQUIRE(rio_requester_reported(w.q, &got));
	EXPECT(got.reason == 0 && got.report.total == 9 && got.report.count == 1);
	at = rd_of(got.report.entries.bytes, got.report.entries.length);
	EXPECT_EQ(rio_seen_next(&s, &at), RIO_MSG_OK);
	EXPECT_EQ(s.kind, RIO_SEEN_OWNER);
	EXPECT(!rio_requester_reported(w.q, &got));
	/* Once. */
	EXPECT_EQ(asker_hears(&w, &m), WEFT_R_RIO_UNEXPECTED);
	asker_close(&w);
}

TEST(test_rio_03_a_refused_inquiry_ends_with_the_reason)
{
	struct asker_world w;
	struct rio_reported got;
	uint64_t id, read;

	asker_open(&w, 4, LIST_MAX);
	read = asker_read(&w, 1);
	EXPECT_EQ(rio_requester_inquire(w.q, 0), WEFT_OK);
	asker_run(&w);
	id = asker_latest(&w, RIO_INQUIRE)->id;
	EXPECT(id != read);
	EXPECT_EQ(asker_status(&w, id, WEFT_R_RIO_DENIED), WEFT_OK);
	REQUIRE(rio_requester_reported(w.q, &got));
	EXPECT_EQ(got.reason, WEFT_R_RIO_DENIED);
	EXPECT(got.report.count == 0 && got.report.total == 0);
	/* Requests go on. */
	EXPECT_EQ(asker_status(&w, read, WEFT_OK), WEFT_OK);
	asker_run(&w);
	asker_expect_ended(&w, read, 0);
	asker_close(&w);
}

TEST(test_rio_03_unexpected_reports_are_refused)
{
	struct asker_world w;
	struct rio_msg m = report(1);

	asker_open(&w, 4, LIST_MAX);
	EXPECT_EQ(asker_hears(&w, &m), WEFT_R_RIO_UNEXPECTED);
	asker_close(&w);

	asker_open(&w, 4, LIST_MAX);
	EXPECT_EQ(rio_requester_inquire(w.q, 0), WEFT_OK);
	m = report(1); /* its id will be 1, but it has not been said */
	EXPECT_EQ(asker_hears(&w, &m), WEFT_R_RIO_UNEXPECTED);
	asker_close(&w);

	asker_open(&w, 4, LIST_MAX);
	EXPECT_EQ(rio_requester_inquire(w.q, 0), WEFT_OK);
	asker_run(&w);
	m = report(asker_latest(&w, RIO_INQUIRE)->id + 1);
	EXPECT_EQ(asker_hears(&w, &m), WEFT_R_RIO_UNEXPECTED);
	asker_close(&w);

	/* That it went well is no answer. */
	asker_open(&w, 4, LIST_MAX);
	EXPECT_EQ(rio_requester_inquire(w.q, 0), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(asker_status(&w, asker_latest(&w, RIO_INQUIRE)->id, WEFT_OK),
		  WEFT_R_RIO_UNEXPECTED);
	asker_close(&w);
}

TEST(test_rio_03_an_inquiry_ends_with_its_owner)
{
	struct asker_world w;
	struct rio_reported got;

	asker_open(&w, 4, LIST_MAX);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(rio_requester_inquire(w.q, 0), WEFT_OK);
		if (i == 0)
			asker_run(&w);
		rio_requester_owner_left(w.q);
		asker_run(&w);
		REQUIRE(rio_requester_reported(w.q, &got));
		EXPECT_EQ(got.reason, WEFT_R_RIO_OWNER_LEFT);
		EXPECT_EQ(rio_requester_inquire(w.q, 0), WEFT_R_RIO_OWNER_LEFT);
		EXPECT(!rio_requester_reported(w.q, &got));
		asker_owner_comes(&w, 4, LIST_MAX);
	}
	EXPECT_EQ(asker_heard(&w, RIO_INQUIRE), 1U);
	asker_close(&w);
}

TEST(test_rio_03_no_inquiry_has_the_id_of_a_request)
{
	struct asker_world w;
	uint64_t requests[20], inquiries[20];

	asker_open(&w, 4, LIST_MAX);
	for (int i = 0; i < 20; i++) {
		struct rio_reported got;
		struct rio_msg m;

		REQUIRE(rio_requester_inquire(w.q, 0) == WEFT_OK);
		asker_run(&w);
		inquiries[i] = asker_latest(&w, RIO_INQUIRE)->id;
		m = report(inquiries[i]);
		REQUIRE(asker_hears(&w, &m) == WEFT_OK && rio_requester_reported(w.q, &got));
		requests[i] = asker_read(&w, 1);
		asker_run(&w);
		REQUIRE(asker_status(&w, requests[i], WEFT_OK) == WEFT_OK);
		asker_run(&w);
		asker_expect_ended(&w, requests[i], 0);
	}
	for (int i = 0; i < 20; i++) {
		for (int k = 0; k < 20; k++) {
			EXPECT(inquiries[i] != requests[k]);
			EXPECT(i == k || inquiries[i] != inquiries[k]);
		}
	}
	asker_close(&w);
}
