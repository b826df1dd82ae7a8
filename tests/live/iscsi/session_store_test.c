/* SPDX-License-Identifier: BSD-2-Clause */
/* Disks of iSCSI targets as devices: more requests than the session takes at a time. */
#include <poll.h>

#include "live/iscsi/session_fixture.h"
#include "roles/iscsi_store.h"

enum { BLOCK = 512, ALL = 40, ROOM = 4 };

static uint8_t blocks[ALL][BLOCK];
static struct span spans[ALL];
static struct store_request requests[ALL];

static struct store *open_store(struct unit *u, uint64_t retry_ns)
{
	const struct iscsi_store_config c = {
		.url = unit_url(u, WAY_TCP, NULL),
		.options = { .requests_max = ROOM, .retry_ns = retry_ns },
	};
	char why[WEFT_ISCSI_WHY_MAX];
	struct store *store;

	REQUIRE(iscsi_store_open(&c, &store, why) == WEFT_OK);
	return store;
}

static void read_all(struct store *store)
{
	for (uint32_t i = 0; i < ALL; i++) {
		spans[i] = (struct span){ blocks[i], BLOCK };
		requests[i] = (struct store_request){ .op = STORE_READ,
						      .offset = (uint64_t)i * BLOCK,
						      .length = BLOCK,
						      .spans = &spans[i],
						      .span_count = 1 };
		REQUIRE(store_submit(store, &requests[i], 0) == WEFT_OK);
	}
}

/* The next result, waited for. */
static const struct store_request *next(struct store *store)
{
	struct pollfd p = { .fd = iscsi_store_descriptor(store), .events = POLLIN };
	const struct store_request *r;

	while (!(r = store_next_done(store, 0)))
		REQUIRE(poll(&p, 1, -1) == 1);
	return r;
}

TEST(test_iscsi_store_requests_beyond_the_room_of_the_session_follow)
{
	struct unit u = { 0 };
	struct store *store;

	unit_open(&u, NULL);
	store = open_store(&u, 0);
	read_all(store);
	for (uint32_t i = 0; i < ALL; i++)
		EXPECT_EQ(next(store)->reason, WEFT_OK);
	store_destroy(store);
	unit_close(&u);
}

TEST(test_iscsi_store_requests_that_wait_end_with_the_session)
{
	const struct store_request *r;
	struct unit u = { 0 };
	struct store *store;
	uint32_t ended = 1;

	unit_open(&u, "lun 0 delay:100ms(mem:32M)\n");
	store = open_store(&u, WEFT_ISCSI_NO_RETRY);
	read_all(store);
	unit_stop(&u);
	/* Once one ends as the session is over, nothing is left to wait for. */
	while ((r = next(store))->reason != WEFT_R_ISCSI_ENDED)
		ended++;
	while (store_next_done(store, 0))
		ended++;
	EXPECT_EQ(ended, ALL);
	store_destroy(store);
	unit_start(&u);
	unit_close(&u);
}
