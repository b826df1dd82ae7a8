/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "store/store.h"
#include "test.h"
#include "unit/store/mirror_look.h"
#include "unit/store/probe.h"

enum { MEMBERS = PROBES };

static uint8_t bytes[512];
static const struct span span = { bytes, sizeof(bytes) };

static void mirror_init(struct probed *mirror)
{
	const struct joint_config c = probed_init(mirror, MEMBERS, 8192, 6);

	mirror->probes[1].store.shape.size_bytes = 4096;
	REQUIRE(mirror_store_create(&c, &mirror->store) == WEFT_OK);
}

static struct store_request request(enum store_op op)
{
	return (struct store_request){ .op = op, .length = 512, .spans = &span, .span_count = 1 };
}

/* How many were asked, as decimal digits. */
static int asked(const struct probed *mirror)
{
	return (int)(mirror->probes[0].asked_count * 100 + mirror->probes[1].asked_count * 10 +
		     mirror->probes[2].asked_count);
}

TEST(test_mirror_writes_to_all_and_is_done_when_all_are)
{
	struct store_request w = request(STORE_WRITE), f = { .op = STORE_FLUSH };
	struct probed mirror;

	mirror_init(&mirror);
	EXPECT_EQ(mirror.store->shape.size_bytes, 4096);
	w.flags = STORE_FUA;
	EXPECT_EQ(store_submit(mirror.store, &w, 0), WEFT_OK);
	EXPECT_EQ(store_submit(mirror.store, &f, 0), WEFT_OK);
	EXPECT_EQ(asked(&mirror), 222);
	EXPECT_EQ(mirror.probes[2].asked[0]->flags, STORE_FUA);
	for (int m = 0; m < MEMBERS; m++) {
		EXPECT(!store_next_done(mirror.store, 0));
		probe_end(&mirror.probes[m], 0, WEFT_OK);
	}
	EXPECT(store_next_done(mirror.store, 0) == &w);
	for (int m = 0; m < MEMBERS; m++)
		probe_end(&mirror.probes[m], 1, WEFT_OK);
	EXPECT(store_next_done(mirror.store, 0) == &f);
	EXPECT_EQ(w.reason, WEFT_OK);
	store_destroy(mirror.store);
}

TEST(test_mirror_reads_from_one_in_turn)
{
	struct store_request r[6];
	struct probed mirror;

	mirror_init(&mirror);
	for (int i = 0; i < 6; i++) {
		r[i] = request(STORE_READ);
		EXPECT_EQ(store_submit(mirror.store, &r[i], 0), WEFT_OK);
	}
	EXPECT_EQ(asked(&mirror), 222);
	for (uint32_t i = 0; i < 6; i++)
		probe_end(&mirror.probes[i % 3], i / 3, WEFT_OK);
	for (int i = 0; i < 6; i++)
		EXPECT(store_next_done(mirror.store, 0) != NULL);
	EXPECT_EQ(mirror.store->under_way, 0);
	store_destroy(mirror.store);
}

TEST(test_mirror_member_that_fails_a_write_is_left_out_and_reported)
{
	struct store_request w = request(STORE_WRITE);
	struct store_event event;
	struct probed mirror;

	mirror_init(&mirror);
	EXPECT_EQ(store_submit(mirror.store, &w, 0), WEFT_OK);
	probe_end(&mirror.probes[1], 0, WEFT_R_STORE_FULL);
	probe_end(&mirror.probes[0], 0, WEFT_OK);
	probe_end(&mirror.probes[2], 0, WEFT_OK);
	EXPECT(store_next_done(mirror.store, 0) == &w);
	EXPECT_EQ(w.reason, WEFT_OK);
	EXPECT_EQ(mirror_out(mirror.store), 2);
	EXPECT(store_event(mirror.store, &event));
	EXPECT_EQ(event.member, 1);
	EXPECT_EQ(event.reason, WEFT_R_STORE_FULL);
	EXPECT_EQ(event.error, 5);
	EXPECT(!store_event(mirror.store, &event));
	/* It is asked nothing any more. */
	EXPECT_EQ(store_submit(mirror.store, &w, 0), WEFT_OK);
	EXPECT_EQ(asked(&mirror), 212);
	probe_end(&mirror.probes[0], 1, WEFT_OK);
	probe_end(&mirror.probes[2], 1, WEFT_OK);
	EXPECT(store_next_done(mirror.store, 0) == &w);
	for (int i = 0; i < 4; i++) {
		struct store_request r = request(STORE_READ);
		uint32_t m;

		EXPECT_EQ(store_submit(mirror.store, &r, 0), WEFT_OK);
		EXPECT_EQ(mirror.probes[1].asked_count, 1);
		m = mirror.probes[0].store.under_way > 0 ? 0 : 2;
		probe_end(&mirror.probes[m], mirror.probes[m].asked_count - 1, WEFT_OK);
		EXPECT(store_next_done(mirror.store, 0) == &r);
	}
	store_destroy(mirror.store);
}

TEST(test_mirror_failed_read_is_read_from_another)
{
	struct store_request r = request(STORE_READ);
	struct probed mirror;

	mirror_init(&mirror);
	EXPECT_EQ(store_submit(mirror.store, &r, 0), WEFT_OK);
	EXPECT_EQ(asked(&mirror), 100);
	probe_end(&mirror.probes[0], 0, WEFT_R_STORE_IO);
	EXPECT(!store_next_done(mirror.store, 0));
	EXPECT_EQ(asked(&mirror), 110);
	probe_end(&mirror.probes[1], 0, WEFT_OK);
	EXPECT(store_next_done(mirror.store, 0) == &r);
	EXPECT_EQ(r.reason, WEFT_OK);
	EXPECT_EQ(mirror_out(mirror.store), 1);
	store_destroy(mirror.store);
}

TEST(test_mirror_what_all_fail_fails_and_leaves_none_out)
{
	struct store_request r = request(STORE_READ), w = request(STORE_WRITE);
	struct store_event event;
	struct probed mirror;

	mirror_init(&mirror);
	EXPECT_EQ(store_submit(mirror.store, &r, 0), WEFT_OK);
	for (int m = 0; m < MEMBERS; m++) {
		EXPECT(!store_next_done(mirror.store, 0));
		probe_end(&mirror.probes[m], 0, m == 0 ? WEFT_R_STORE_CUT : WEFT_R_STORE_IO);
	}
	EXPECT(store_next_done(mirror.store, 0) == &r);
	EXPECT_EQ(r.reason, WEFT_R_STORE_CUT);
	EXPECT_EQ(store_submit(mirror.store, &w, 0), WEFT_OK);
	for (int m = 0; m < MEMBERS; m++)
		probe_end(&mirror.probes[m], 1, WEFT_R_STORE_FULL);
	EXPECT(store_next_done(mirror.store, 0) == &w);
	EXPECT_EQ(w.reason, WEFT_R_STORE_FULL);
	EXPECT_EQ(mirror_out(mirror.store), 0);
	EXPECT(!store_event(mirror.store, &event));
	/* It is forgotten when its job, of 6, comes round again: then one that fails leaves. */
	for (uint32_t i = 2; i < 7; i++) {
		EXPECT_EQ(store_submit(mirror.store, &w, 0), WEFT_OK);
		for (int m = 0; m < MEMBERS; m++)
			probe_end(&mirror.probes[m], i,
				  i == 6 && m == 2 ? WEFT_R_STORE_IO : WEFT_OK);
		EXPECT(store_next_done(mirror.store, 0) == &w);
		EXPECT_EQ(w.reason, WEFT_OK);
	}
	EXPECT_EQ(mirror_out(mirror.store), 4);
	store_destroy(mirror.store);
}

/* Each went well on one member that the other request put out: only one of them can be kept. */
TEST(test_mirror_write_that_only_a_left_member_has_fails)
{
	struct store_request a = request(STORE_WRITE), c = request(STORE_WRITE);
	struct probed mirror;

	mirror_init(&mirror);
	c.offset = 512;
	EXPECT_EQ(store_submit(mirror.store, &a, 0), WEFT_OK);
	EXPECT_EQ(store_submit(mirror.store, &c, 0), WEFT_OK);
	probe_end(&mirror.probes[0], 0, WEFT_OK);
	probe_end(&mirror.probes[1], 0, WEFT_R_STORE_IO);
	probe_end(&mirror.probes[2], 0, WEFT_R_STORE_IO);
	EXPECT(store_next_done(mirror.store, 0) == &a);
	EXPECT_EQ(a.reason, WEFT_OK);
	EXPECT_EQ(mirror_out(mirror.store), 6);
	probe_end(&mirror.probes[0], 1, WEFT_R_STORE_FULL);
	probe_end(&mirror.probes[1], 1, WEFT_OK);
	probe_end(&mirror.probes[2], 1, WEFT_OK);
	EXPECT(store_next_done(mirror.store, 0) == &c);
	EXPECT_EQ(c.reason, WEFT_R_STORE_FULL);
	EXPECT_EQ(mirror_out(mirror.store), 6);
	store_destroy(mirror.store);
}

/* One that is late at a slow member must not land there after a newer one. */
TEST(test_mirror_overlapping_writes_are_done_one_after_the_other)
{
	struct store_request a = request(STORE_WRITE), c = request(STORE_WRITE), e, d;
	struct probed mirror;

	mirror_init(&mirror);
	d = c;
	d.offset = 512;
	e = c;
	EXPECT_EQ(store_submit(mirror.store, &a, 0), WEFT_OK);
	EXPECT_EQ(store_submit(mirror.store, &c, 0), WEFT_OK);
	EXPECT_EQ(store_submit(mirror.store, &e, 0), WEFT_OK);
	EXPECT_EQ(store_submit(mirror.store, &d, 0), WEFT_OK);
	/* The last touches none of the others. */
	EXPECT_EQ(asked(&mirror), 222);
	EXPECT_EQ(mirror.probes[0].asked[1]->offset, 512);
	probe_end(&mirror.probes[0], 0, WEFT_OK);
	probe_end(&mirror.probes[1], 0, WEFT_OK);
	EXPECT(!store_next_done(mirror.store, 0));
	EXPECT_EQ(asked(&mirror), 222);
	probe_end(&mirror.probes[2], 0, WEFT_OK);
	EXPECT(store_next_done(mirror.store, 0) == &a);
	EXPECT_EQ(asked(&mirror), 333);
	for (int m = 0; m < MEMBERS; m++)
		probe_end(&mirror.probes[m], 2, WEFT_OK);
	EXPECT(store_next_done(mirror.store, 0) == &c);
	EXPECT_EQ(asked(&mirror), 444);
	for (uint32_t m = 0; m < MEMBERS; m++) {
		probe_end(&mirror.probes[m], 1, WEFT_OK);
		probe_end(&mirror.probes[m], 3, WEFT_OK);
	}
	EXPECT(store_next_done(mirror.store, 0) != NULL);
	EXPECT(store_next_done(mirror.store, 0) != NULL);
	store_destroy(mirror.store);
}

static void all_end(struct probed *mirror, uint8_t second)
{
	for (int m = 0; m < MEMBERS; m++) {
		struct probe *p = &mirror->probes[m];
		struct store_request *r = p->asked[p->asked_count - 1];

		memset(r->spans[0].bytes, m == 1 ? second : 0, (size_t)r->length);
		probe_end(p, p->asked_count - 1, WEFT_OK);
	}
}

/* A write that all failed: some members may have done it. */
static void mirror_init_unequal(struct probed *mirror)
{
	struct store_request w = request(STORE_WRITE);

	mirror_init(mirror);
	EXPECT_EQ(store_submit(mirror->store, &w, 0), WEFT_OK);
	for (int m = 0; m < MEMBERS; m++)
		probe_end(&mirror->probes[m], 0, WEFT_R_STORE_FULL);
	EXPECT(store_next_done(mirror->store, 0) == &w);
	EXPECT(!mirror_is_equal(mirror->store));
}

TEST(test_mirror_region_of_a_write_that_all_failed_is_made_equal)
{
	struct store_request w = request(STORE_WRITE);
	struct probed mirror;

	mirror_init_unequal(&mirror);
	EXPECT_EQ(store_due(mirror.store), 0);
	store_expire(mirror.store, 0);
	EXPECT_EQ(asked(&mirror), 222);
	EXPECT_EQ(mirror.probes[0].asked[1]->length, 4096);
	/* The second differs. */
	all_end(&mirror, 1);
	EXPECT(!store_next_done(mirror.store, 0));
	EXPECT_EQ(asked(&mirror), 232);
	EXPECT_EQ(mirror.probes[1].asked[2]->op, STORE_WRITE);
	EXPECT_EQ(mirror.probes[1].asked[2]->flags, STORE_FUA);
	EXPECT_EQ(mirror.probes[1].asked[2]->spans[0].bytes[0], 0);
	/* A write to it waits meanwhile. */
	EXPECT_EQ(store_submit(mirror.store, &w, 0), WEFT_OK);
	EXPECT_EQ(asked(&mirror), 232);
	probe_end(&mirror.probes[1], 2, WEFT_OK);
	EXPECT(!store_next_done(mirror.store, 0));
	EXPECT(mirror_is_equal(mirror.store));
	EXPECT_EQ(asked(&mirror), 343);
	for (int m = 0; m < MEMBERS; m++)
		probe_end(&mirror.probes[m], mirror.probes[m].asked_count - 1, WEFT_OK);
	EXPECT(store_next_done(mirror.store, 0) == &w);
	store_destroy(mirror.store);
}

/* Else the member that was read could fail next, and another value be seen. */
TEST(test_mirror_read_of_what_may_differ_makes_it_equal_first)
{
	struct store_request r = request(STORE_READ), w = request(STORE_WRITE);
	struct probed mirror;

	mirror_init_unequal(&mirror);
	EXPECT_EQ(store_submit(mirror.store, &r, 0), WEFT_OK);
	EXPECT_EQ(asked(&mirror), 222);
	EXPECT_EQ(mirror.probes[0].asked[1]->length, 512);
	all_end(&mirror, 1);
	EXPECT(!store_next_done(mirror.store, 0));
	EXPECT_EQ(asked(&mirror), 232);
	EXPECT_EQ(mirror.probes[1].asked[2]->op, STORE_WRITE);
	/* A write to it waits, and the read is not asked for before the members are equal. */
	EXPECT_EQ(store_submit(mirror.store, &w, 0), WEFT_OK);
	EXPECT_EQ(asked(&mirror), 232);
	probe_end(&mirror.probes[1], 2, WEFT_OK);
	EXPECT(!store_next_done(mirror.store, 0));
	for (uint32_t m = 0; m < MEMBERS; m++) {
		for (uint32_t n = 0; n < mirror.probes[m].asked_count; n++) {
			if (mirror.probes[m].asked[n])
				probe_end(&mirror.probes[m], n, WEFT_OK);
		}
	}
	EXPECT(store_next_done(mirror.store, 0) == &r);
	EXPECT_EQ(r.reason, WEFT_OK);
	for (int i = 0; i < 4 && mirror.store->under_way > 0; i++) {
		for (uint32_t m = 0; m < MEMBERS; m++) {
			for (uint32_t n = 0; n < mirror.probes[m].asked_count; n++) {
				if (mirror.probes[m].asked[n])
					probe_end(&mirror.probes[m], n, WEFT_OK);
			}
		}
		(void)store_next_done(mirror.store, 0);
	}
	EXPECT_EQ(mirror.store->under_way, 0);
	store_destroy(mirror.store);
}

TEST(test_mirror_read_of_what_may_differ_fails_if_all_fail_it)
{
	struct store_request r = request(STORE_READ);
	struct probed mirror;

	mirror_init_unequal(&mirror);
	EXPECT_EQ(store_submit(mirror.store, &r, 0), WEFT_OK);
	for (int m = 0; m < MEMBERS; m++)
		probe_end(&mirror.probes[m], 1, WEFT_R_STORE_IO);
	EXPECT(store_next_done(mirror.store, 0) == &r);
	EXPECT_EQ(r.reason, WEFT_R_STORE_IO);
	EXPECT_EQ(mirror_out(mirror.store), 0);
	EXPECT(!mirror_is_equal(mirror.store));
	for (int m = 0; m < MEMBERS; m++) {
		if (mirror.probes[m].asked[mirror.probes[m].asked_count - 1])
			probe_end(&mirror.probes[m], mirror.probes[m].asked_count - 1,
				  WEFT_R_STORE_IO);
	}
	EXPECT(!store_next_done(mirror.store, 0));
	store_destroy(mirror.store);
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
