/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * docs/store.md, "Mirrors": the only member that has all the data cannot be read at one place. The
 * rest is copied all the same, and the place when it can be read again.
 */
#include <errno.h>
#include <string.h>

#include "store/mirror_inside.h"
#include "store/store.h"
#include "test.h"
#include "unit/store/mirror_look.h"

enum { SIZE = 1 << 20, DATA = SIZE - MARK_AREA_BYTES, BAD = 333 * 1024, STEPS = 1000 };

/* Memory, of which one block cannot be read. */
struct patchy {
	struct store store;
	struct store *mem;
	bool is_bad;
};

static uint8_t bytes[2][SIZE];
static struct patchy source;
static struct store *target, *mirror;
static uint64_t now_ns;

static struct patchy *patchy_of(struct store *s)
{
	return CONTAINER_OF(s, struct patchy, store);
}

static void patchy_submit(struct store *s, struct store_request *r, uint64_t at_ns)
{
	CHECK(store_submit(patchy_of(s)->mem, r, at_ns) == WEFT_OK);
}

static struct store_request *patchy_next_done(struct store *s, uint64_t at_ns)
{
	struct store_request *r = store_next_done(patchy_of(s)->mem, at_ns);

	if (r && r->op == STORE_READ && patchy_of(s)->is_bad && r->offset <= BAD &&
	    BAD < r->offset + r->length)
		store_request_end(r, WEFT_R_STORE_IO, EIO);
	return r;
}

static void patchy_destroy(struct store *s)
{
	store_destroy(patchy_of(s)->mem);
}

static const struct store_calls patchy_calls = {
	.submit = patchy_submit,
	.next_done = patchy_next_done,
	.due = store_never_due,
	.expire = store_nothing_expires,
	.memory = store_no_memory,
	.event = store_no_event,
	.destroy = patchy_destroy,
};

static struct store *mem(uint8_t *at)
{
	struct store *s;

	REQUIRE(mem_store_create(&(struct mem_store_config){ at, SIZE, 512, false }, &s) ==
		WEFT_OK);
	return s;
}

static void begin(void)
{
	struct store *members[2];
	struct mirror_store_config c = { .joint = { members, 2, 4 } };
	uint32_t member;

	memset(bytes, 0, sizeof(bytes));
	for (uint32_t i = 0; i < DATA; i++)
		bytes[0][i] = (uint8_t)(i / 512 + 1);
	source.mem = mem(bytes[0]);
	source.store = (struct store){ .calls = &patchy_calls, .shape = source.mem->shape };
	source.is_bad = true;
	target = mem(bytes[1]);
	members[0] = &source.store;
	members[1] = target;
	now_ns = 0;
	REQUIRE(mirror_store_open(&c, &mirror) == WEFT_OK);
	while (mirror_store_opened(mirror, &member) == WEFT_R_BUSY)
		(void)store_next_done(mirror, now_ns);
}

static void end(void)
{
	while (!store_settle(mirror, now_ns))
		(void)store_next_done(mirror, now_ns);
	store_destroy(mirror);
	store_destroy(target);
	store_destroy(&source.store);
}

/* What the mirror does by itself, for so long. It must not be busy when there is nothing to do. */
static void run_for(uint64_t ns)
{
	uint64_t end_ns = now_ns + ns;

	for (int i = 0; store_due(mirror) <= end_ns; i++) {
		REQUIRE(i < STEPS);
		now_ns = store_due(mirror) > now_ns ? store_due(mirror) : now_ns;
		store_expire(mirror, now_ns);
		EXPECT(!store_next_done(mirror, now_ns));
	}
	now_ns = end_ns;
}

static bool is_copied(uint64_t offset, uint64_t length)
{
	return memcmp(bytes[0] + offset, bytes[1] + offset, (size_t)length) == 0;
}

static const uint64_t seconds = UINT64_C(1000000000);
/* What is copied at a time, in so small a mirror: a region. */
enum { CHUNK = 4096, CHUNK_AT = BAD - BAD % CHUNK };

TEST(test_mirror_copies_all_but_what_cannot_be_read_and_names_it)
{
	struct store_event e;

	begin();
	run_for(30 * seconds);
	EXPECT_EQ(mark_region_bytes(DATA), CHUNK);
	EXPECT(is_copied(0, CHUNK_AT));
	EXPECT(is_copied(CHUNK_AT + CHUNK, DATA - CHUNK_AT - CHUNK));
	EXPECT(!is_copied(CHUNK_AT, CHUNK));
	/* It does not have all the data, so it is neither read nor current. */
	EXPECT_EQ(mirror_out(mirror), 2);
	EXPECT(store_event(mirror, &e));
	EXPECT_EQ(e.member, 0);
	EXPECT_EQ(e.reason, WEFT_R_STORE_IO);
	EXPECT_EQ(e.error, EIO);
	EXPECT_EQ(e.offset, CHUNK_AT);
	EXPECT_EQ(e.length, CHUNK);
	EXPECT(!store_event(mirror, &e));
	/* It is tried again, and not told again. */
	run_for(300 * seconds);
	EXPECT(!store_event(mirror, &e));
	EXPECT_EQ(mirror_out(mirror), 2);
	end();
}

TEST(test_mirror_copies_what_can_be_read_again_and_is_complete)
{
	uint8_t block[512];
	struct span span = { block, sizeof(block) };
	struct store_request r = { .op = STORE_WRITE,
				   .offset = BAD,
				   .length = sizeof(block),
				   .spans = &span,
				   .span_count = 1 };
	struct store_event e;

	begin();
	run_for(30 * seconds);
	/* Meanwhile it gets all writes. */
	memset(block, 0xee, sizeof(block));
	EXPECT_EQ(store_submit(mirror, &r, now_ns), WEFT_OK);
	for (int i = 0; i < STEPS && !store_next_done(mirror, now_ns); i++)
		;
	EXPECT_EQ(r.reason, WEFT_OK);
	EXPECT(is_copied(BAD, sizeof(block)));
	/* A disk that was written where it could not be read has put other blocks there. */
	source.is_bad = false;
	EXPECT(store_event(mirror, &e));
	run_for(120 * seconds);
	EXPECT(is_copied(0, DATA));
	EXPECT_EQ(mirror_out(mirror), 0);
	EXPECT(store_event(mirror, &e));
	EXPECT_EQ(e.member, 1);
	EXPECT_EQ(e.reason, WEFT_OK);
	end();
}
