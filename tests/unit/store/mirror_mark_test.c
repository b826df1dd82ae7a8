/* SPDX-License-Identifier: BSD-2-Clause */
/* Marks of mirrors: their bytes, when they are written, and what waits for them. */
#include <string.h>

#include "store/mirror_area.h"
#include "store/store.h"
#include "test.h"
#include "unit/store/mirror_look.h"
#include "unit/store/probe.h"

enum { DATA = 64 * 1024, SIZE = DATA + MARK_AREA_BYTES };

static uint8_t bytes[512], area[MARK_AREA_BYTES];
static const struct span span = { bytes, sizeof(bytes) };

/* ---- Bytes ---------------------------------------------------------------------------------- */

static struct mirror_mark sample(uint64_t serial)
{
	struct mirror_mark m = { .identity = { 1, 2, 3 },
				 .generation = 5,
				 .serial = serial,
				 .size_bytes = DATA,
				 .region_bytes = 4096,
				 .members = 3,
				 .number = 1,
				 .current_at = { 5, 5, 2 } };

	m.dirty[0] = 0x8001;
	return m;
}

TEST(test_mirror_mark_reads_as_it_was_written)
{
	struct mirror_mark m = sample(8), back;

	m.dirty[MARK_WORDS - 1] = UINT64_C(1) << 63;
	mark_encode(&m, area);
	EXPECT(memcmp(area, "weftmirr", 8) == 0);
	EXPECT(mark_decode(&back, area));
	EXPECT(memcmp(&m, &back, sizeof(m)) == 0);
}

TEST(test_mirror_mark_with_any_changed_byte_is_refused)
{
	struct mirror_mark m = sample(8), back;

	mark_encode(&m, area);
	for (int i = 0; i < MARK_BYTES; i++) {
		area[i] ^= 0x10;
		EXPECT(!mark_decode(&back, area));
		area[i] ^= 0x10;
	}
	EXPECT(mark_decode(&back, area));
}

TEST(test_mirror_mark_of_two_copies_the_later_whole_one_counts)
{
	struct mirror_mark m = sample(8), n = sample(9), back;
	uint32_t copy;

	memset(area, 0, sizeof(area));
	EXPECT_EQ(mark_area_read(&back, area, &copy), MARK_AREA_BLANK);
	area[700] = 1;
	EXPECT_EQ(mark_area_read(&back, area, &copy), MARK_AREA_OTHER);
	mark_encode(&m, area);
	EXPECT_EQ(mark_area_read(&back, area, &copy), MARK_AREA_MARK);
	EXPECT_EQ(back.serial, 8);
	mark_encode(&n, area + MARK_BYTES);
	EXPECT_EQ(mark_area_read(&back, area, &copy), MARK_AREA_MARK);
	EXPECT_EQ(back.serial, 9);
	/* The later one was cut short. */
	memset(area + MARK_BYTES + 512, 0, 512);
	EXPECT_EQ(mark_area_read(&back, area, &copy), MARK_AREA_MARK);
	EXPECT_EQ(back.serial, 8);
}

TEST(test_mirror_mark_regions_are_at_most_4096)
{
	EXPECT_EQ(mark_region_bytes(512), 4096);
	EXPECT_EQ(mark_region_bytes(UINT64_C(16) << 20), 4096);
	EXPECT_EQ(mark_region_bytes((UINT64_C(16) << 20) + 1), 8192);
	EXPECT_EQ(mark_region_bytes(UINT64_C(1) << 40), 256 << 20);
}

/* ---- When they are written ------------------------------------------------------------------ */

static struct store_request *asked(struct probe *p, uint32_t n)
{
	REQUIRE(n < p->asked_count && p->asked[n]);
	return p->asked[n];
}

TEST(test_mirror_members_are_longer_than_their_marks)
{
	struct probed mirror;
	const struct mirror_store_config c = { .joint = probed_init(&mirror, 2, MARK_AREA_BYTES,
								    6) };
	const struct mirror_store_config less = { .joint = probed_init(&mirror, 2,
								       MARK_AREA_BYTES - 4096, 6) };

	EXPECT_EQ(mirror_store_open(&c, &mirror.store), WEFT_R_STORE_SIZE);
	EXPECT_EQ(mirror_store_open(&less, &mirror.store), WEFT_R_STORE_SIZE);
}

/* Both members have marks and are current: the mirror is open, with one mark written. */
static void mirror_init(struct probed *mirror)
{
	struct mirror_store_config c = { .joint = probed_init(mirror, 2, SIZE, 6) };
	struct mirror_mark m = sample(8);
	uint32_t member;

	m.dirty[0] = 0;
	REQUIRE(mirror_store_open(&c, &mirror->store) == WEFT_OK);
	EXPECT_EQ(mirror->store->shape.size_bytes, DATA);
	EXPECT(!store_next_done(mirror->store, 0));
	EXPECT_EQ(mirror_store_opened(mirror->store, &member), WEFT_R_BUSY);
	for (uint32_t i = 0; i < 2; i++) {
		struct store_request *r = asked(&mirror->probes[i], 0);

		EXPECT_EQ(r->op, STORE_READ);
		EXPECT_EQ(r->offset, DATA);
		EXPECT_EQ(r->length, MARK_AREA_BYTES);
		m.number = i;
		memset(r->spans[0].bytes, 0, MARK_AREA_BYTES);
		mark_encode(&m, r->spans[0].bytes);
		probe_end(&mirror->probes[i], 0, WEFT_OK);
	}
	EXPECT(!store_next_done(mirror->store, 0));
	for (uint32_t i = 0; i < 2; i++) {
		struct store_request *r = asked(&mirror->probes[i], 1);

		EXPECT_EQ(r->op, STORE_WRITE);
		EXPECT_EQ(r->flags, STORE_FUA);
		/* The copy that is not the latest is overwritten. */
		EXPECT_EQ(r->offset, DATA + MARK_BYTES);
		EXPECT_EQ(mirror_store_opened(mirror->store, &member), WEFT_R_BUSY);
		probe_end(&mirror->probes[i], 1, WEFT_OK);
	}
	EXPECT(!store_next_done(mirror->store, 0));
	EXPECT_EQ(mirror_store_opened(mirror->store, &member), WEFT_OK);
	EXPECT_EQ(mirror_out(mirror->store), 0);
}

static void mirror_fini(struct probed *mirror)
{
	for (uint32_t i = 0; i < 2; i++) {
		for (uint32_t n = 0; n < mirror->probes[i].asked_count; n++) {
			if (mirror->probes[i].asked[n])
				probe_end(&mirror->probes[i], n, WEFT_OK);
		}
	}
	for (int i = 0; i < 8 && !store_settle(mirror->store, 0); i++) {
		for (uint32_t m = 0; m < 2; m++) {
			for (uint32_t n = 0; n < mirror->probes[m].asked_count; n++) {
				if (mirror->probes[m].asked[n])
					probe_end(&mirror->probes[m], n, WEFT_OK);
			}
		}
	}
	store_destroy(mirror->store);
}

static struct store_request write_of(uint64_t offset)
{
	return (struct store_request){
		.op = STORE_WRITE, .offset = offset, .length = 512, .spans = &span, .span_count = 1
	};
}

static void both(struct probed *mirror, uint32_t n)
{
	probe_end(&mirror->probes[0], n, WEFT_OK);
	probe_end(&mirror->probes[1], n, WEFT_OK);
}

TEST(test_mirror_region_is_dirty_in_all_marks_before_the_write_goes_out)
{
	struct store_request w = write_of(4096), again = write_of(4608);
	struct mirror_mark m;
	struct probed mirror;

	mirror_init(&mirror);
	EXPECT_EQ(store_submit(mirror.store, &w, 0), WEFT_OK);
	for (uint32_t i = 0; i < 2; i++) {
		struct store_request *r = asked(&mirror.probes[i], 2);

		EXPECT_EQ(r->offset, DATA);
		EXPECT_EQ(r->flags, STORE_FUA);
		EXPECT(mark_decode(&m, r->spans[0].bytes));
		EXPECT(m.dirty[0] == 2 && m.generation == 5 && m.serial == 10 && m.number == i);
	}
	probe_end(&mirror.probes[0], 2, WEFT_OK);
	EXPECT(!store_next_done(mirror.store, 0));
	EXPECT_EQ(mirror.probes[0].asked_count, 3);
	probe_end(&mirror.probes[1], 2, WEFT_OK);
	EXPECT(!store_next_done(mirror.store, 0));
	EXPECT_EQ(asked(&mirror.probes[0], 3)->offset, 4096);
	EXPECT_EQ(asked(&mirror.probes[1], 3)->offset, 4096);
	both(&mirror, 3);
	EXPECT(store_next_done(mirror.store, 0) == &w);
	/* Later writes to the region cost no mark. */
	for (uint32_t i = 4; i < 20; i++) {
		EXPECT_EQ(store_submit(mirror.store, &again, i), WEFT_OK);
		EXPECT_EQ(asked(&mirror.probes[0], i)->offset, 4608);
		both(&mirror, i);
		EXPECT(store_next_done(mirror.store, i) == &again);
		EXPECT_EQ(mirror.probes[0].asked_count, i + 1);
	}
	mirror_fini(&mirror);
}

TEST(test_mirror_write_that_a_member_failed_is_done_when_the_marks_of_the_others_say_so)
{
	struct store_request w = write_of(0), next = write_of(512);
	struct mirror_mark m;
	struct probed mirror;

	mirror_init(&mirror);
	EXPECT_EQ(store_submit(mirror.store, &w, 0), WEFT_OK);
	both(&mirror, 2);
	EXPECT(!store_next_done(mirror.store, 0));
	probe_end(&mirror.probes[0], 3, WEFT_R_STORE_IO);
	probe_end(&mirror.probes[1], 3, WEFT_OK);
	EXPECT(!store_next_done(mirror.store, 0));
	EXPECT_EQ(mirror_out(mirror.store), 1);
	EXPECT_EQ(mirror.probes[0].asked_count, 4);
	EXPECT(mark_decode(&m, asked(&mirror.probes[1], 4)->spans[0].bytes));
	EXPECT(m.generation == 6 && m.members == 2);
	/* Nor is one that was never sent to the member. */
	EXPECT_EQ(store_submit(mirror.store, &next, 0), WEFT_OK);
	EXPECT_EQ(asked(&mirror.probes[1], 5)->offset, 512);
	probe_end(&mirror.probes[1], 5, WEFT_OK);
	EXPECT(!store_next_done(mirror.store, 0));
	probe_end(&mirror.probes[1], 4, WEFT_OK);
	EXPECT(store_next_done(mirror.store, 0) == &w);
	EXPECT(store_next_done(mirror.store, 0) == &next);
	EXPECT(w.reason == WEFT_OK && next.reason == WEFT_OK);
	mirror_fini(&mirror);
}

TEST(test_mirror_write_fails_when_the_marks_cannot_be_written)
{
	struct store_request w = write_of(0);
	struct probed mirror;

	mirror_init(&mirror);
	EXPECT_EQ(store_submit(mirror.store, &w, 0), WEFT_OK);
	both(&mirror, 2);
	EXPECT(!store_next_done(mirror.store, 0));
	probe_end(&mirror.probes[0], 3, WEFT_R_STORE_IO);
	probe_end(&mirror.probes[1], 3, WEFT_OK);
	EXPECT(!store_next_done(mirror.store, 0));
	probe_end(&mirror.probes[1], 4, WEFT_R_STORE_FULL);
	EXPECT(store_next_done(mirror.store, 0) == &w);
	EXPECT_EQ(w.reason, WEFT_R_STORE_FULL);
	/* The next one tries again. */
	EXPECT_EQ(store_submit(mirror.store, &w, 0), WEFT_OK);
	EXPECT_EQ(asked(&mirror.probes[1], 5)->offset, 0);
	probe_end(&mirror.probes[1], 5, WEFT_OK);
	EXPECT(!store_next_done(mirror.store, 0));
	EXPECT(asked(&mirror.probes[1], 6)->offset >= DATA);
	probe_end(&mirror.probes[1], 6, WEFT_OK);
	EXPECT(store_next_done(mirror.store, 0) == &w);
	EXPECT_EQ(w.reason, WEFT_OK);
	mirror_fini(&mirror);
}

TEST(test_mirror_region_is_clean_again_after_a_flush_and_only_then)
{
	const uint64_t later_ns = UINT64_C(10000000000);
	struct store_request w = write_of(4096);
	struct mirror_mark m;
	struct probed mirror;

	mirror_init(&mirror);
	EXPECT_EQ(store_submit(mirror.store, &w, 0), WEFT_OK);
	both(&mirror, 2);
	EXPECT(!store_next_done(mirror.store, 0));
	both(&mirror, 3);
	EXPECT(store_next_done(mirror.store, 0) == &w);
	/* It was written since the last look. */
	store_expire(mirror.store, store_due(mirror.store));
	EXPECT_EQ(mirror.probes[0].asked_count, 4);
	EXPECT(store_due(mirror.store) < later_ns);
	store_expire(mirror.store, later_ns);
	EXPECT_EQ(asked(&mirror.probes[0], 4)->op, STORE_FLUSH);
	probe_end(&mirror.probes[0], 4, WEFT_OK);
	EXPECT(!store_next_done(mirror.store, later_ns));
	EXPECT_EQ(mirror.probes[0].asked_count, 5);
	probe_end(&mirror.probes[1], 4, WEFT_OK);
	EXPECT(!store_next_done(mirror.store, later_ns));
	EXPECT(mark_decode(&m, asked(&mirror.probes[0], 5)->spans[0].bytes));
	EXPECT_EQ(m.dirty[0], 0);
	/* A write that comes meanwhile waits for a mark in which it is dirty once more. */
	EXPECT_EQ(store_submit(mirror.store, &w, later_ns), WEFT_OK);
	EXPECT_EQ(mirror.probes[0].asked_count, 6);
	both(&mirror, 5);
	EXPECT(!store_next_done(mirror.store, later_ns));
	EXPECT(mark_decode(&m, asked(&mirror.probes[0], 6)->spans[0].bytes));
	EXPECT_EQ(m.dirty[0], 2);
	both(&mirror, 6);
	EXPECT(!store_next_done(mirror.store, later_ns));
	both(&mirror, 7);
	EXPECT(store_next_done(mirror.store, later_ns) == &w);
	EXPECT_EQ(store_due(mirror.store) > later_ns, true);
	mirror_fini(&mirror);
}

TEST(test_mirror_read_beside_a_write_is_read_from_one_member)
{
	struct store_request w = write_of(0), r[4];
	struct probed mirror;

	mirror_init(&mirror);
	EXPECT_EQ(store_submit(mirror.store, &w, 0), WEFT_OK);
	both(&mirror, 2);
	EXPECT(!store_next_done(mirror.store, 0));
	for (int i = 0; i < 4; i++) {
		r[i] = write_of(0);
		r[i].op = STORE_READ;
		EXPECT_EQ(store_submit(mirror.store, &r[i], 0), WEFT_OK);
	}
	EXPECT_EQ(mirror.probes[0].asked_count, 8);
	EXPECT_EQ(mirror.probes[1].asked_count, 4);
	for (uint32_t i = 3; i < 8; i++)
		probe_end(&mirror.probes[0], i, WEFT_OK);
	probe_end(&mirror.probes[1], 3, WEFT_OK);
	for (int i = 0; i < 5; i++)
		EXPECT(store_next_done(mirror.store, 0) != NULL);
	mirror_fini(&mirror);
}

/* ---- Members that come back ----------------------------------------------------------------- */

static void both_all(struct probed *mirror)
{
	for (uint32_t i = 0; i < 2; i++) {
		for (uint32_t n = 0; n < mirror->probes[i].asked_count; n++) {
			struct store_request *r = mirror->probes[i].asked[n];

			if (!r)
				continue;
			if (r->op == STORE_READ)
				memset(r->spans[0].bytes, 0, (size_t)r->length);
			probe_end(&mirror->probes[i], n, WEFT_OK);
		}
	}
}

static bool is_flushing(struct probed *mirror)
{
	struct probe *p = &mirror->probes[1];

	return p->asked[p->asked_count - 1] && p->asked[p->asked_count - 1]->op == STORE_FLUSH;
}

/* The first has the data, the second was copied to: the flush before it is current is under way. */
static void mirror_init_copied(struct probed *mirror)
{
	struct mirror_store_config c = { .joint = probed_init(mirror, 2, SIZE, 6) };
	struct mirror_mark m = sample(8);

	m.dirty[0] = 0;
	m.members = 1;
	REQUIRE(mirror_store_open(&c, &mirror->store) == WEFT_OK);
	EXPECT(!store_next_done(mirror->store, 0));
	for (uint32_t i = 0; i < 2; i++) {
		m.number = i;
		memset(asked(&mirror->probes[i], 0)->spans[0].bytes, 0, MARK_AREA_BYTES);
		mark_encode(&m, asked(&mirror->probes[i], 0)->spans[0].bytes);
		probe_end(&mirror->probes[i], 0, WEFT_OK);
	}
	for (int i = 0; i < 40 && !is_flushing(mirror); i++) {
		EXPECT(!store_next_done(mirror->store, 0));
		if (is_flushing(mirror))
			break;
		both_all(mirror);
		if (store_due(mirror->store) == 0)
			store_expire(mirror->store, 0);
	}
	REQUIRE(is_flushing(mirror));
	EXPECT_EQ(mirror_out(mirror->store), 2);
}

static struct store_request *last(struct probe *p)
{
	return asked(p, p->asked_count - 1);
}

static void last_end(struct probe *p, enum weft_reason reason)
{
	probe_end(p, p->asked_count - 1, reason);
}

/* Else the first would open by itself later, without what only the second has. */
TEST(test_mirror_member_is_current_when_all_marks_say_so)
{
	struct store_event event;
	struct mirror_mark m;
	struct probed mirror;

	mirror_init_copied(&mirror);
	both_all(&mirror);
	EXPECT(!store_next_done(mirror.store, 0));
	/* First the one that has the data says that the other has, too. */
	EXPECT_EQ(last(&mirror.probes[0])->op, STORE_WRITE);
	EXPECT(mark_decode(&m, last(&mirror.probes[0])->spans[0].bytes));
	EXPECT(m.members == 3 && m.generation == 6);
	EXPECT_EQ(mirror.probes[1].store.under_way, 0);
	EXPECT_EQ(mirror_out(mirror.store), 2);
	last_end(&mirror.probes[0], WEFT_OK);
	EXPECT(!store_next_done(mirror.store, 0));
	EXPECT(mark_decode(&m, last(&mirror.probes[1])->spans[0].bytes));
	EXPECT(m.members == 3 && m.generation == 6);
	EXPECT_EQ(mirror_out(mirror.store), 2);
	EXPECT(!store_event(mirror.store, &event));
	both_all(&mirror);
	EXPECT(!store_next_done(mirror.store, 0));
	EXPECT_EQ(mirror_out(mirror.store), 0);
	EXPECT(store_event(mirror.store, &event));
	EXPECT(event.member == 1 && event.reason == WEFT_OK);
	mirror_fini(&mirror);
}

TEST(test_mirror_write_that_only_a_joining_member_did_fails)
{
	struct store_request w = write_of(0);
	struct probed mirror;

	mirror_init_copied(&mirror);
	EXPECT_EQ(store_submit(mirror.store, &w, 0), WEFT_OK);
	EXPECT_EQ(last(&mirror.probes[0])->op, STORE_WRITE); /* the mark in which it is dirty */
	last_end(&mirror.probes[0], WEFT_OK);
	EXPECT(!store_next_done(mirror.store, 0));
	EXPECT_EQ(last(&mirror.probes[0])->offset, 0);
	probe_end(&mirror.probes[0], mirror.probes[0].asked_count - 3, WEFT_OK);
	probe_end(&mirror.probes[1], mirror.probes[1].asked_count - 2, WEFT_OK);
	EXPECT(!store_next_done(mirror.store, 0));
	/* Both are flushed, and the mark that names the second is under way. */
	probe_end(&mirror.probes[0], mirror.probes[0].asked_count - 2, WEFT_R_STORE_IO);
	probe_end(&mirror.probes[1], mirror.probes[1].asked_count - 1, WEFT_OK);
	EXPECT(store_next_done(mirror.store, 0) == &w);
	EXPECT_EQ(w.reason, WEFT_R_STORE_IO);
	EXPECT_EQ(mirror_out(mirror.store), 2);
	mirror_fini(&mirror);
}

/* A mark is under way on the first only, the second is flushed, and the first fails a write. */
TEST(test_mirror_mark_that_ends_after_a_member_was_flushed_wakes_what_waits)
{
	struct store_request w = write_of(0), next = write_of(4096);
	struct probed mirror;
	uint32_t mark;

	mirror_init_copied(&mirror);
	EXPECT_EQ(store_submit(mirror.store, &w, 0), WEFT_OK);
	last_end(&mirror.probes[0], WEFT_OK);
	EXPECT(!store_next_done(mirror.store, 0));
	EXPECT_EQ(store_submit(mirror.store, &next, 0), WEFT_OK);
	mark = mirror.probes[0].asked_count - 1;
	EXPECT(asked(&mirror.probes[0], mark)->offset >= DATA);
	probe_end(&mirror.probes[0], mark - 3, WEFT_OK);
	probe_end(&mirror.probes[1], mirror.probes[1].asked_count - 2, WEFT_OK);
	EXPECT(!store_next_done(mirror.store, 0));
	probe_end(&mirror.probes[0], mark - 1, WEFT_R_STORE_IO);
	probe_end(&mirror.probes[1], mirror.probes[1].asked_count - 1, WEFT_OK);
	(void)store_next_done(mirror.store, 0);
	probe_end(&mirror.probes[0], mark, WEFT_OK);
	for (int i = 0; i < 8 && mirror.store->under_way > 0; i++) {
		while (store_next_done(mirror.store, 0))
			continue;
		both_all(&mirror);
	}
	EXPECT_EQ(mirror.store->under_way, 0);
	EXPECT(w.reason != WEFT_R_BUSY && next.reason == WEFT_OK);
	mirror_fini(&mirror);
}

/* ---- Members that were used apart ----------------------------------------------------------- */

enum { APART = 3 };

static uint8_t apart[APART][SIZE];

/* Uses the members of the set, and gives up the others; what came of it, and the refused member. */
static enum weft_reason use(uint32_t set, uint32_t *member)
{
	struct store *all[APART] = { NULL }, *members[APART] = { NULL }, *mirror;
	struct mirror_store_config c = { .joint = { members, APART, 6 },
					 .identity = { 9 },
					 .is_degraded_ok = true };
	enum weft_reason reason;

	for (uint32_t i = 0; i < APART; i++) {
		struct mem_store_config mem = { .bytes = apart[i],
						.size_bytes = SIZE,
						.block_bytes = 512 };

		REQUIRE(mem_store_create(&mem, &all[i]) == WEFT_OK);
		members[i] = set >> i & 1 ? all[i] : NULL;
	}
	REQUIRE(mirror_store_open(&c, &mirror) == WEFT_OK);
	for (int i = 0; i < 200; i++) {
		REQUIRE(!store_next_done(mirror, 0));
		if (store_due(mirror) == 0)
			store_expire(mirror, 0);
	}
	reason = mirror_store_opened(mirror, member);
	REQUIRE(reason != WEFT_OK || mirror_out(mirror) == (7 & ~set));
	while (!store_settle(mirror, 0))
		continue;
	store_destroy(mirror);
	for (uint32_t i = 0; i < APART; i++)
		store_destroy(all[i]);
	return reason;
}

/* The others may have gone on to a higher generation: it has data that they lack all the same. */
TEST(test_mirror_member_that_was_used_apart_is_refused_at_any_generation)
{
	uint32_t member = 9;

	memset(apart, 0, sizeof(apart));
	EXPECT_EQ(use(7, &member), WEFT_OK);
	EXPECT_EQ(use(1, &member), WEFT_OK);
	EXPECT_EQ(use(6, &member), WEFT_OK);
	EXPECT_EQ(use(2, &member), WEFT_OK);
	EXPECT_EQ(use(7, &member), WEFT_R_STORE_MIRROR_STALE);
	EXPECT_EQ(member, 0);
	/* One that was left out, and not used since, is copied to. */
	EXPECT_EQ(use(6, &member), WEFT_OK);
	EXPECT_EQ(use(2, &member), WEFT_OK);
	EXPECT_EQ(use(6, &member), WEFT_OK);
	/* So is one that was made new. */
	memset(apart[0] + DATA, 0, MARK_AREA_BYTES);
	EXPECT_EQ(use(7, &member), WEFT_OK);
}
