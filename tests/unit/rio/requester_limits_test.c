/* SPDX-License-Identifier: BSD-2-Clause */
/* RIO-02b: a request whose list would be beyond a limit is refused before any of it is written. */
#include <stdlib.h>

#include "test.h"
#include "unit/rio/asker_fixture.h"

enum { ELEMENTS_MAX = 4096, TRANSACTIONS_MAX = RIO_LIST_TRANSACTIONS_MAX, DATA = 64 << 10 };

static struct asker_world w;

/* Lists with addresses of 4 bytes, and the lists themselves at that address. */
static void open_narrow(uint64_t lists_address)
{
	struct rio_requester_config config;

	asker_open(&w, 4, RIO_REQUEST_LIST_MAX);
	rio_requester_destroy(w.q);
	config = asker_config(w.lists);
	config.attributes = sgl_attributes_default();
	config.attributes.address_bytes = 4;
	config.lists_address = lists_address;
	REQUIRE(rio_requester_create(&config, &w.q) == WEFT_OK);
	asker_owner_comes(&w, 4, RIO_REQUEST_LIST_MAX);
}

static enum weft_reason asked(const struct rio_wanted *what, uint32_t count)
{
	uint64_t id;

	return asker_ask(&w, what, count, &id);
}

TEST(test_rio_02b_too_many_transactions_are_refused)
{
	static struct rio_wanted flushes[TRANSACTIONS_MAX + 1];

	for (int i = 0; i <= TRANSACTIONS_MAX; i++)
		flushes[i].is = (struct sgl_transaction){ .operation = SGL_FLUSH,
							  .device = ASKER_DEVICE };
	asker_open(&w, 4, RIO_REQUEST_LIST_MAX);
	EXPECT_EQ(asked(flushes, TRANSACTIONS_MAX + 1), WEFT_R_SGL_TRANSACTIONS);
	EXPECT_EQ(asked(flushes, TRANSACTIONS_MAX), WEFT_OK);
	/* They are too many whether or not there is room for another request. */
	for (int i = 1; i < ASKER_REQUESTS; i++)
		EXPECT_EQ(asked(flushes, 1), WEFT_OK);
	EXPECT_EQ(asked(flushes, 1), WEFT_R_BUSY);
	EXPECT_EQ(asked(flushes, TRANSACTIONS_MAX + 1), WEFT_R_SGL_TRANSACTIONS);
	asker_close(&w);
}

/* In one transaction, and in all of them. */
TEST(test_rio_02b_too_many_elements_are_refused)
{
	static struct rio_fragment fragments[ELEMENTS_MAX + 1];
	struct rio_wanted what[2];

	for (int i = 0; i <= ELEMENTS_MAX; i++)
		fragments[i] = asker_own(0x10000, 1);
	asker_open(&w, 4, RIO_REQUEST_LIST_MAX);
	what[0] = asker_wanted(SGL_READ, fragments, ELEMENTS_MAX + 1);
	EXPECT_EQ(asked(what, 1), WEFT_R_SGL_ELEMENTS);
	what[0] = asker_wanted(SGL_READ, fragments, 1);
	what[0].fragment_count = UINT32_MAX; /* not even looked at */
	EXPECT_EQ(asked(what, 1), WEFT_R_SGL_ELEMENTS);
	what[0] = what[1] = asker_wanted(SGL_READ, fragments, ELEMENTS_MAX / 2);
	EXPECT_EQ(asked(what, 2), WEFT_R_SGL_ELEMENTS);
	asker_close(&w);
}

TEST(test_rio_02b_too_many_bytes_are_refused)
{
	static uint8_t data[DATA];
	struct rio_wanted what[8];

	for (int i = 0; i < 8; i++) {
		what[i] = (struct rio_wanted){ .is = asker_transaction(SGL_WRITE, DATA),
					       .immediate = data };
	}
	asker_open(&w, 4, RIO_REQUEST_LIST_MAX);
	EXPECT_EQ(asked(what, 8), WEFT_R_SGL_BYTES);
	EXPECT_EQ(asked(what, 2), WEFT_OK);
	asker_close(&w);
}

TEST(test_rio_13a_an_address_that_a_narrow_list_cannot_hold_is_refused)
{
	const uint64_t end = UINT64_C(1) << 32;
	struct rio_fragment f = asker_own(end - 8, 8);
	struct rio_wanted what = asker_wanted(SGL_READ, &f, 1);

	open_narrow(0x10000);
	EXPECT_EQ(asked(&what, 1), WEFT_OK);
	f = asker_own(end - 8, 9);
	what = asker_wanted(SGL_READ, &f, 1);
	EXPECT_EQ(asked(&what, 1), WEFT_R_SGL_WRAP);
	f = asker_own(end, 8);
	what = asker_wanted(SGL_READ, &f, 1);
	EXPECT_EQ(asked(&what, 1), WEFT_R_SGL_WRAP);
	asker_close(&w);
}

/* Its chain pointer has the width of the list. */
TEST(test_rio_13a_a_long_list_beyond_narrow_addresses_is_refused)
{
	uint64_t id;

	open_narrow(ASKER_LISTS_ADDRESS);
	EXPECT_EQ(asker_ask_long(&w, RIO_REQUEST_LIST_MAX, &id), WEFT_R_RIO_CHAIN);
	EXPECT_EQ(asker_ask_long(&w, 64, &id), WEFT_OK);
	asker_close(&w);
}
