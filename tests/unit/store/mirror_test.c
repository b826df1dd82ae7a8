/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "store/store.h"
#include "test.h"
#include "unit/store/mirror_look.h"
#include "unit/store/probe.h"

enum { MEMBERS = 3 };

struct bed {
	struct probe probes[MEMBERS];
	struct store *members[MEMBERS];
	struct store *mirror;
};

static uint8_t bytes[512];
static const struct span span = { bytes, sizeof(bytes) };

static void bed_init(struct bed *b)
{
	struct joint_config c = { b->members, MEMBERS, 6 };

	for (int i = 0; i < MEMBERS; i++) {
		probe_init(&b->probes[i], 8192);
		b->members[i] = &b->probes[i].store;
	}
	b->probes[1].store.shape.size_bytes = 4096;
	REQUIRE(mirror_store_create(&c, &b->mirror) == WEFT_OK);
}

static struct store_request request(enum store_op op)
{
	return (struct store_request){ .op = op, .length = 512, .spans = &span, .span_count = 1 };
}

/* How many were asked, as decimal digits. */
static int asked(const struct bed *b)
{
	return (int)(b->probes[0].asked_count * 100 + b->probes[1].asked_count * 10 +
		     b->probes[2].asked_count);
}

TEST(test_mirror_writes_to_all_and_is_done_when_all_are)
{
	struct store_request w = request(STORE_WRITE), f = { .op = STORE_FLUSH };
	struct bed b;

	bed_init(&b);
	EXPECT_EQ(b.mirror->shape.size_bytes, 4096);
	w.flags = STORE_FUA;
	EXPECT_EQ(store_submit(b.mirror, &w, 0), WEFT_OK);
	EXPECT_EQ(store_submit(b.mirror, &f, 0), WEFT_OK);
	EXPECT_EQ(asked(&b), 222);
	EXPECT_EQ(b.probes[2].asked[0]->flags, STORE_FUA);
	for (int m = 0; m < MEMBERS; m++) {
		EXPECT(!store_next_done(b.mirror, 0));
		probe_end(&b.probes[m], 0, WEFT_OK);
	}
	EXPECT(store_next_done(b.mirror, 0) == &w);
	for (int m = 0; m < MEMBERS; m++)
		probe_end(&b.probes[m], 1, WEFT_OK);
	EXPECT(store_next_done(b.mirror, 0) == &f);
	EXPECT_EQ(w.reason, WEFT_OK);
	store_destroy(b.mirror);
}

TEST(test_mirror_reads_from_one_in_turn)
{
	struct store_request r[6];
	struct bed b;

	bed_init(&b);
	for (int i = 0; i < 6; i++) {
		r[i] = request(STORE_READ);
		EXPECT_EQ(store_submit(b.mirror, &r[i], 0), WEFT_OK);
	}
	EXPECT_EQ(asked(&b), 222);
	for (uint32_t i = 0; i < 6; i++)
		probe_end(&b.probes[i % 3], i / 3, WEFT_OK);
	for (int i = 0; i < 6; i++)
		EXPECT(store_next_done(b.mirror, 0) != NULL);
	EXPECT_EQ(b.mirror->under_way, 0);
	store_destroy(b.mirror);
}

TEST(test_mirror_member_that_fails_a_write_is_left_out_and_reported)
{
	struct store_request w = request(STORE_WRITE);
	struct store_event event;
	struct bed b;

	bed_init(&b);
	EXPECT_EQ(store_submit(b.mirror, &w, 0), WEFT_OK);
	probe_end(&b.probes[1], 0, WEFT_R_STORE_FULL);
	probe_end(&b.probes[0], 0, WEFT_OK);
	probe_end(&b.probes[2], 0, WEFT_OK);
	EXPECT(store_next_done(b.mirror, 0) == &w);
	EXPECT_EQ(w.reason, WEFT_OK);
	EXPECT_EQ(mirror_store_out(b.mirror), 2);
	EXPECT(store_event(b.mirror, &event));
	EXPECT_EQ(event.member, 1);
	EXPECT_EQ(event.reason, WEFT_R_STORE_FULL);
	EXPECT_EQ(event.error, 5);
	EXPECT(!store_event(b.mirror, &event));
	/* It is asked nothing any more. */
	EXPECT_EQ(store_submit(b.mirror, &w, 0), WEFT_OK);
	EXPECT_EQ(asked(&b), 212);
	probe_end(&b.probes[0], 1, WEFT_OK);
	probe_end(&b.probes[2], 1, WEFT_OK);
	EXPECT(store_next_done(b.mirror, 0) == &w);
	for (int i = 0; i < 4; i++) {
		struct store_request r = request(STORE_READ);
		uint32_t m;

		EXPECT_EQ(store_submit(b.mirror, &r, 0), WEFT_OK);
		EXPECT_EQ(b.probes[1].asked_count, 1);
		m = b.probes[0].store.under_way > 0 ? 0 : 2;
		probe_end(&b.probes[m], b.probes[m].asked_count - 1, WEFT_OK);
		EXPECT(store_next_done(b.mirror, 0) == &r);
	}
	store_destroy(b.mirror);
}

TEST(test_mirror_failed_read_is_read_from_another)
{
	struct store_request r = request(STORE_READ);
	struct bed b;

	bed_init(&b);
	EXPECT_EQ(store_submit(b.mirror, &r, 0), WEFT_OK);
	EXPECT_EQ(asked(&b), 100);
	probe_end(&b.probes[0], 0, WEFT_R_STORE_IO);
	EXPECT(!store_next_done(b.mirror, 0));
	EXPECT_EQ(asked(&b), 110);
	probe_end(&b.probes[1], 0, WEFT_OK);
	EXPECT(store_next_done(b.mirror, 0) == &r);
	EXPECT_EQ(r.reason, WEFT_OK);
	EXPECT_EQ(mirror_store_out(b.mirror), 1);
	store_destroy(b.mirror);
}

TEST(test_mirror_what_all_fail_fails_and_leaves_none_out)
{
	struct store_request r = request(STORE_READ), w = request(STORE_WRITE);
	struct store_event event;
	struct bed b;

	bed_init(&b);
	EXPECT_EQ(store_submit(b.mirror, &r, 0), WEFT_OK);
	for (int m = 0; m < MEMBERS; m++) {
		EXPECT(!store_next_done(b.mirror, 0));
		probe_end(&b.probes[m], 0, m == 0 ? WEFT_R_STORE_CUT : WEFT_R_STORE_IO);
	}
	EXPECT(store_next_done(b.mirror, 0) == &r);
	EXPECT_EQ(r.reason, WEFT_R_STORE_CUT);
	EXPECT_EQ(store_submit(b.mirror, &w, 0), WEFT_OK);
	for (int m = 0; m < MEMBERS; m++)
		probe_end(&b.probes[m], 1, WEFT_R_STORE_FULL);
	EXPECT(store_next_done(b.mirror, 0) == &w);
	EXPECT_EQ(w.reason, WEFT_R_STORE_FULL);
	EXPECT_EQ(mirror_store_out(b.mirror), 0);
	EXPECT(!store_event(b.mirror, &event));
	/* It is forgotten when its job, of 6, comes round again: then one that fails leaves. */
	for (uint32_t i = 2; i < 7; i++) {
		EXPECT_EQ(store_submit(b.mirror, &w, 0), WEFT_OK);
		for (int m = 0; m < MEMBERS; m++)
			probe_end(&b.probes[m], i, i == 6 && m == 2 ? WEFT_R_STORE_IO : WEFT_OK);
		EXPECT(store_next_done(b.mirror, 0) == &w);
		EXPECT_EQ(w.reason, WEFT_OK);
	}
	EXPECT_EQ(mirror_store_out(b.mirror), 4);
	store_destroy(b.mirror);
}

/* Each went well on one member that the other request put out: only one of them can be kept. */
TEST(test_mirror_write_that_only_a_left_member_has_fails)
{
	struct store_request a = request(STORE_WRITE), c = request(STORE_WRITE);
	struct bed b;

	bed_init(&b);
	c.offset = 512;
	EXPECT_EQ(store_submit(b.mirror, &a, 0), WEFT_OK);
	EXPECT_EQ(store_submit(b.mirror, &c, 0), WEFT_OK);
	probe_end(&b.probes[0], 0, WEFT_OK);
	probe_end(&b.probes[1], 0, WEFT_R_STORE_IO);
	probe_end(&b.probes[2], 0, WEFT_R_STORE_IO);
	EXPECT(store_next_done(b.mirror, 0) == &a);
	EXPECT_EQ(a.reason, WEFT_OK);
	EXPECT_EQ(mirror_store_out(b.mirror), 6);
	probe_end(&b.probes[0], 1, WEFT_R_STORE_FULL);
	probe_end(&b.probes[1], 1, WEFT_OK);
	probe_end(&b.probes[2], 1, WEFT_OK);
	EXPECT(store_next_done(b.mirror, 0) == &c);
	EXPECT_EQ(c.reason, WEFT_R_STORE_FULL);
	EXPECT_EQ(mirror_store_out(b.mirror), 6);
	store_destroy(b.mirror);
}

/* One that is late at a slow member must not land there after a newer one. */
TEST(test_mirror_overlapping_writes_are_done_one_after_the_other)
{
	struct store_request a = request(STORE_WRITE), c = request(STORE_WRITE), e, d;
	struct bed b;

	bed_init(&b);
	d = c;
	d.offset = 512;
	e = c;
	EXPECT_EQ(store_submit(b.mirror, &a, 0), WEFT_OK);
	EXPECT_EQ(store_submit(b.mirror, &c, 0), WEFT_OK);
	EXPECT_EQ(store_submit(b.mirror, &e, 0), WEFT_OK);
	EXPECT_EQ(store_submit(b.mirror, &d, 0), WEFT_OK);
	/* The last touches none of the others. */
	EXPECT_EQ(asked(&b), 222);
	EXPECT_EQ(b.probes[0].asked[1]->offset, 512);
	probe_end(&b.probes[0], 0, WEFT_OK);
	probe_end(&b.probes[1], 0, WEFT_OK);
	EXPECT(!store_next_done(b.mirror, 0));
	EXPECT_EQ(asked(&b), 222);
	probe_end(&b.probes[2], 0, WEFT_OK);
	EXPECT(store_next_done(b.mirror, 0) == &a);
	EXPECT_EQ(asked(&b), 333);
	for (int m = 0; m < MEMBERS; m++)
		probe_end(&b.probes[m], 2, WEFT_OK);
	EXPECT(store_next_done(b.mirror, 0) == &c);
	EXPECT_EQ(asked(&b), 444);
	for (uint32_t m = 0; m < MEMBERS; m++) {
		probe_end(&b.probes[m], 1, WEFT_OK);
		probe_end(&b.probes[m], 3, WEFT_OK);
	}
	EXPECT(store_next_done(b.mirror, 0) != NULL);
	EXPECT(store_next_done(b.mirror, 0) != NULL);
	store_destroy(b.mirror);
}

static void all_end(struct bed *b, uint8_t second)
{
	for (int m = 0; m < MEMBERS; m++) {
		struct probe *p = &b->probes[m];
		struct store_request *r = p->asked[p->asked_count - 1];

		memset(r->spans[0].bytes, m == 1 ? second : 0, (size_t)r->length);
		probe_end(p, p->asked_count - 1, WEFT_OK);
	}
}

/* A write that all failed: some members may have done it. */
static void bed_init_unequal(struct bed *b)
{
	struct store_request w = request(STORE_WRITE);

	bed_init(b);
	EXPECT_EQ(store_submit(b->mirror, &w, 0), WEFT_OK);
	for (int m = 0; m < MEMBERS; m++)
		probe_end(&b->probes[m], 0, WEFT_R_STORE_FULL);
	EXPECT(store_next_done(b->mirror, 0) == &w);
	EXPECT(!mirror_is_equal(b->mirror));
}

TEST(test_mirror_region_of_a_write_that_all_failed_is_made_equal)
{
	struct store_request w = request(STORE_WRITE);
	struct bed b;

	bed_init_unequal(&b);
	EXPECT_EQ(store_due(b.mirror), 0);
	store_expire(b.mirror, 0);
	EXPECT_EQ(asked(&b), 222);
	EXPECT_EQ(b.probes[0].asked[1]->length, 4096);
	/* The second differs. */
	all_end(&b, 1);
	EXPECT(!store_next_done(b.mirror, 0));
	EXPECT_EQ(asked(&b), 232);
	EXPECT_EQ(b.probes[1].asked[2]->op, STORE_WRITE);
	EXPECT_EQ(b.probes[1].asked[2]->flags, STORE_FUA);
	EXPECT_EQ(b.probes[1].asked[2]->spans[0].bytes[0], 0);
	/* A write to it waits meanwhile. */
	EXPECT_EQ(store_submit(b.mirror, &w, 0), WEFT_OK);
	EXPECT_EQ(asked(&b), 232);
	probe_end(&b.probes[1], 2, WEFT_OK);
	EXPECT(!store_next_done(b.mirror, 0));
	EXPECT(mirror_is_equal(b.mirror));
	EXPECT_EQ(asked(&b), 343);
	for (int m = 0; m < MEMBERS; m++)
		probe_end(&b.probes[m], b.probes[m].asked_count - 1, WEFT_OK);
	EXPECT(store_next_done(b.mirror, 0) == &w);
	store_destroy(b.mirror);
}

/* Else the member that was read could fail next, and another value be seen. */
TEST(test_mirror_read_of_what_may_differ_makes_it_equal_first)
{
	struct store_request r = request(STORE_READ), w = request(STORE_WRITE);
	struct bed b;

	bed_init_unequal(&b);
	EXPECT_EQ(store_submit(b.mirror, &r, 0), WEFT_OK);
	EXPECT_EQ(asked(&b), 222);
	EXPECT_EQ(b.probes[0].asked[1]->length, 512);
	all_end(&b, 1);
	EXPECT(!store_next_done(b.mirror, 0));
	EXPECT_EQ(asked(&b), 232);
	EXPECT_EQ(b.probes[1].asked[2]->op, STORE_WRITE);
	/* A write to it waits, and the read is not asked for before the members are equal. */
	EXPECT_EQ(store_submit(b.mirror, &w, 0), WEFT_OK);
	EXPECT_EQ(asked(&b), 232);
	probe_end(&b.probes[1], 2, WEFT_OK);
	EXPECT(!store_next_done(b.mirror, 0));
	for (uint32_t m = 0; m < MEMBERS; m++) {
		for (uint32_t n = 0; n < b.probes[m].asked_count; n++) {
			if (b.probes[m].asked[n])
				probe_end(&b.probes[m], n, WEFT_OK);
		}
	}
	EXPECT(store_next_done(b.mirror, 0) == &r);
	EXPECT_EQ(r.reason, WEFT_OK);
	for (int i = 0; i < 4 && b.mirror->under_way > 0; i++) {
		for (uint32_t m = 0; m < MEMBERS; m++) {
			for (uint32_t n = 0; n < b.probes[m].asked_count; n++) {
				if (b.probes[m].asked[n])
					probe_end(&b.probes[m], n, WEFT_OK);
			}
		}
		(void)store_next_done(b.mirror, 0);
	}
	EXPECT_EQ(b.mirror->under_way, 0);
	store_destroy(b.mirror);
}

TEST(test_mirror_read_of_what_may_differ_fails_if_all_fail_it)
{
	struct store_request r = request(STORE_READ);
	struct bed b;

	bed_init_unequal(&b);
	EXPECT_EQ(store_submit(b.mirror, &r, 0), WEFT_OK);
	for (int m = 0; m < MEMBERS; m++)
		probe_end(&b.probes[m], 1, WEFT_R_STORE_IO);
	EXPECT(store_next_done(b.mirror, 0) == &r);
	EXPECT_EQ(r.reason, WEFT_R_STORE_IO);
	EXPECT_EQ(mirror_store_out(b.mirror), 0);
	EXPECT(!mirror_is_equal(b.mirror));
	for (int m = 0; m < MEMBERS; m++) {
		if (b.probes[m].asked[b.probes[m].asked_count - 1])
			probe_end(&b.probes[m], b.probes[m].asked_count - 1, WEFT_R_STORE_IO);
	}
	EXPECT(!store_next_done(b.mirror, 0));
	store_destroy(b.mirror);
}

TEST(test_mirror_events_of_members_pass_through)
{
	struct store_request w = request(STORE_WRITE);
	struct store *inner, *outer, *delay;
	struct store_event event;
	struct probe p[2];
	struct store *members[] = { &p[0].store, &p[1].store };
	struct joint_config in = { members, 2, 4 }, out = { &inner, 1, 4 };

	probe_init(&p[0], 4096);
	probe_init(&p[1], 4096);
	REQUIRE(mirror_store_create(&in, &inner) == WEFT_OK);
	REQUIRE(stripe_store_create(&out, 512, &outer) == WEFT_OK);
	REQUIRE(delay_store_create(outer, 0, &delay) == WEFT_OK);
	EXPECT_EQ(store_submit(outer, &w, 0), WEFT_OK);
	probe_end(&p[0], 0, WEFT_R_STORE_IO);
	probe_end(&p[1], 0, WEFT_OK);
	EXPECT(store_next_done(outer, 0) == &w);
	EXPECT_EQ(w.reason, WEFT_OK);
	EXPECT(store_event(delay, &event));
	EXPECT_EQ(event.member, 0);
	store_destroy(delay);
	store_destroy(outer);
	store_destroy(inner);
}
