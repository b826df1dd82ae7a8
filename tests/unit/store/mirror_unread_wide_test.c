/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * docs/store.md, "Mirrors": places that cannot be read, several of them in one region. The mirror
 * is so large that a region is copied in more than one chunk. Its members keep only their marks.
 */
#include <errno.h>
#include <string.h>

#include "store/mirror_inside.h"
#include "store/store.h"
#include "test.h"
#include "unit/store/mirror_look.h"

enum {
	CHUNK = SYNC_CHUNK_BYTES,
	REGION = 2 * CHUNK,
	DATA = MARK_REGIONS_MAX * CHUNK + CHUNK,
	REGION_AT = 7 * REGION, /* of the bad chunks: all of that region */
	STEPS = 100000
};

/* Zeroes, some of which cannot be read, and marks. */
struct wide {
	struct store store;
	struct list done;
	bool is_bad[2]; /* the chunks of the region */
	uint8_t marks[MARK_AREA_BYTES];
};

static struct wide wides[2];
static struct store *mirror;
static uint64_t now_ns;

static struct wide *wide_of(struct store *s)
{
	return CONTAINER_OF(s, struct wide, store);
}

/* Of one span: the mirror's own requests and those of the tests. */
static void wide_submit(struct store *s, struct store_request *r, uint64_t at_ns)
{
	struct wide *w = wide_of(s);

	(void)at_ns;
	if (r->op == STORE_READ && r->offset < DATA)
		memset(r->spans[0].bytes, 0, r->spans[0].length);
	else if (r->op == STORE_READ)
		memcpy(r->spans[0].bytes, w->marks + (r->offset - DATA), r->spans[0].length);
	else if (r->op == STORE_WRITE && r->offset >= DATA)
		memcpy(w->marks + (r->offset - DATA), r->spans[0].bytes, r->spans[0].length);
	for (uint64_t i = 0; i < 2; i++) {
		uint64_t at = REGION_AT + i * CHUNK;

		if (w->is_bad[i] && r->op == STORE_READ && r->offset < at + CHUNK &&
		    at < r->offset + r->length)
			store_request_end(r, WEFT_R_STORE_IO, EIO);
	}
	list_add_tail(&w->done, &r->link);
}

static struct store_request *wide_next_done(struct store *s, uint64_t at_ns)
{
	struct wide *w = wide_of(s);

	(void)at_ns;
	if (list_is_empty(&w->done))
		return NULL;
	return CONTAINER_OF(list_pop(&w->done), struct store_request, link);
}

static void wide_destroy(struct store *s)
{
	(void)s;
}

static const struct store_calls wide_calls = {
	.submit = wide_submit,
	.next_done = wide_next_done,
	.due = store_never_due,
	.expire = store_nothing_expires,
	.memory = store_no_memory,
	.event = store_no_event,
	.destroy = wide_destroy,
};

static void begin(void)
{
	struct store *members[2] = { &wides[0].store, &wides[1].store };
	struct mirror_store_config c = { .joint = { members, 2, 4 } };
	uint32_t member;

	memset(wides, 0, sizeof(wides));
	for (int i = 0; i < 2; i++) {
		wides[i].store = (struct store){ .calls = &wide_calls,
						 .shape = { .size_bytes = DATA + MARK_AREA_BYTES,
							    .block_bytes = 512,
							    .can = STORE_CAN_ALL } };
		list_init(&wides[i].done);
	}
	now_ns = 0;
	REQUIRE(mark_region_bytes(DATA) == REGION);
	REQUIRE(mirror_store_open(&c, &mirror) == WEFT_OK);
	for (int i = 0; mirror_store_opened(mirror, &member) == WEFT_R_BUSY; i++) {
		REQUIRE(i < STEPS);
		(void)store_next_done(mirror, now_ns);
	}
}

static void end(void)
{
	for (int i = 0; !store_settle(mirror, now_ns); i++) {
		REQUIRE(i < STEPS);
		(void)store_next_done(mirror, now_ns);
	}
	store_destroy(mirror);
}

/* What the mirror does by itself, for so many seconds. */
static void run_for(uint64_t seconds)
{
	uint64_t end_ns = now_ns + seconds * UINT64_C(1000000000);

	for (int i = 0; store_due(mirror) <= end_ns; i++) {
		REQUIRE(i < STEPS);
		now_ns = store_due(mirror) > now_ns ? store_due(mirror) : now_ns;
		store_expire(mirror, now_ns);
		EXPECT(!store_next_done(mirror, now_ns));
	}
	now_ns = end_ns;
}

static void expect_event(uint64_t offset)
{
	struct store_event e = { .member = 9 };

	EXPECT(store_event(mirror, &e));
	EXPECT_EQ(e.member, 0);
	EXPECT_EQ(e.reason, WEFT_R_STORE_IO);
	EXPECT_EQ(e.error, EIO);
	EXPECT_EQ(e.offset, offset);
	EXPECT_EQ(e.length, CHUNK);
	EXPECT(!store_event(mirror, &e));
}

/* Else an administrator who has mended the first waits for ever, and knows not what for. */
TEST(test_mirror_names_the_next_place_of_a_region_when_the_first_is_mended)
{
	struct store_event e;

	begin();
	wides[0].is_bad[0] = wides[0].is_bad[1] = true;
	run_for(30);
	expect_event(REGION_AT);
	run_for(300);
	EXPECT(!store_event(mirror, &e));
	wides[0].is_bad[0] = false;
	run_for(120);
	expect_event(REGION_AT + CHUNK);
	/* It is tried again, and not told again. */
	run_for(300);
	EXPECT(!store_event(mirror, &e));
	EXPECT_EQ(mirror_out(mirror), 2);
	wides[0].is_bad[1] = false;
	run_for(120);
	EXPECT_EQ(mirror_out(mirror), 0);
	end();
}

/* A place that breaks before the one that was told, and one that breaks once more. */
TEST(test_mirror_names_a_place_of_a_region_that_breaks_later)
{
	begin();
	wides[0].is_bad[1] = true;
	run_for(30);
	expect_event(REGION_AT + CHUNK);
	wides[0].is_bad[0] = true;
	run_for(120);
	expect_event(REGION_AT);
	wides[0].is_bad[0] = false;
	run_for(120);
	expect_event(REGION_AT + CHUNK);
	end();
}
