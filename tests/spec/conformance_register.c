/* SPDX-License-Identifier: BSD-2-Clause */
/* Registration through the send queue (SQR): page lists, tags at once, deregistration by Send. */
#include <string.h>

#include "conformance.h"

enum {
	PAGE = 4096,
	PAGES = 3,
	FIRST_OFFSET = 100,
	LENGTH = 2 * PAGE + 1000,
	RIGHTS = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ | WEFT_REMOTE_WRITE,
};

static const uint64_t va = UINT64_C(0x5500000000) + FIRST_OFFSET;
static const struct pair_options privileged = { .is_privileged = true };

/* Three pages of an end's memory, not in their order: where byte i of the region lies. */
static uint64_t byte_offset(uint64_t i)
{
	static const uint64_t order[PAGES] = { DST + 5 * PAGE, DST + PAGE, DST + 3 * PAGE };

	return order[(FIRST_OFFSET + i) / PAGE] + (FIRST_OFFSET + i) % PAGE;
}

struct paged {
	uint64_t pages[PAGES];
	struct weft_page_list list;
};

static void paged_init(struct paged *g, const struct pair_end *e)
{
	uint64_t real = e->space ? 0 : e->addr;

	for (uint64_t i = 0; i < PAGES; i++)
		g->pages[i] = real + byte_offset(i * PAGE) - FIRST_OFFSET;
	g->list = (struct weft_page_list){
		.pages = g->pages,
		.count = PAGES,
		.page_size_bytes = PAGE,
		.first_offset = FIRST_OFFSET,
	};
}

static struct weft_send_wr register_wr(const struct paged *g, enum weft_opcode opcode, uint64_t id)
{
	struct weft_send_wr wr = wr_make(opcode, id, NULL, 0);

	wr.reg.region = (struct weft_region_options){
		.length = LENGTH,
		.va = va,
		.rights = RIGHTS,
		.pages = &g->list,
	};
	return wr;
}

static void region_fill(struct pair_end *e, uint32_t seed)
{
	for (uint64_t i = 0; i < LENGTH; i++)
		e->memory[byte_offset(i)] = pattern(seed, i);
}

static void region_holds(const struct pair_end *e, uint32_t seed)
{
	for (uint64_t i = 0; i < LENGTH; i++)
		byte_holds(e, byte_offset(i), pattern(seed, i));
	pair_settle(e->pair);
	end_is_blank(e, DST + 5 * PAGE, FIRST_OFFSET);	  /* before it */
	end_is_blank(e, byte_offset(LENGTH - 1) + 1, 16); /* and after */
}

static struct weft_usage usage_of(const struct pair_end *e)
{
	struct weft_usage usage;

	MUST(weft_adapter_query(e->adapter, &usage));
	return usage;
}

/* A's Write of LENGTH bytes from SRC to the peer's region. */
static struct weft_send_wr write_wr(struct pair_end *a, uint64_t id, struct weft_sge *s,
				    uint32_t tag)
{
	struct weft_send_wr wr;

	*s = end_seg(a, SRC, LENGTH);
	wr = end_wr(a, WEFT_OP_WRITE, id, s, 0);
	wr.remote_tag = tag;
	wr.remote_addr = va;
	return wr;
}

/* The tag serves the very next requests of the queue, as a source and as a sink. */
TEST(test_sqr_03_sqr_05_sqr_s1_qp_07g_use_the_tag_in_the_next_request)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct paged g;
	struct weft_sge s;
	struct weft_send_wr wr;
	uint32_t tag;

	pair_open(&p, &privileged);
	paged_init(&g, a);
	region_fill(a, 1);
	wr = register_wr(&g, WEFT_OP_REGISTER, 1);
	end_post(a, &wr);
	tag = wr.reg.tag;
	EXPECT(tag != 0);
	s = (struct weft_sge){ .addr = va, .length = LENGTH, .tag = tag };
	wr = end_wr(a, WEFT_OP_WRITE, 2, &s, SRC);
	end_post(a, &wr);
	EXPECT_EQ(end_sent(a, 1).opcode, WEFT_OP_REGISTER);
	end_sent(a, 2);
	end_holds(b, SRC, LENGTH, 1);
	end_fill(b, SRC, LENGTH, 2);
	wr = end_wr(a, WEFT_OP_READ, 3, &s, SRC);
	end_succeeds(a, &wr);
	region_holds(a, 2);
	MUST(weft_tag_release(a->pd, tag));
	EXPECT(weft_tag_release(a->pd, tag) != WEFT_OK);
	pair_close(&p);
}

/* All in one list, under a tag reserved before; the last request takes the region away again. */
TEST(test_sqr_03_a_reserved_tag_in_one_list)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct paged g;
	struct weft_sge s;
	struct weft_send_wr wrs[4];
	uint32_t tag;

	pair_open(&p, &(struct pair_options){ .is_privileged = true, .has_spaces = true });
	paged_init(&g, a);
	region_fill(a, 3);
	MUST(weft_tag_reserve(a->pd, &tag));
	wrs[0] = register_wr(&g, WEFT_OP_REGISTER, 1);
	wrs[0].reg.tag = tag;
	s = (struct weft_sge){ .addr = va, .length = LENGTH, .tag = tag };
	wrs[1] = end_wr(a, WEFT_OP_WRITE, 2, &s, SRC);
	wrs[2] = wr_make(WEFT_OP_INVALIDATE, 3, NULL, 0);
	wrs[2].invalidate_tag = tag;
	wrs[3] = end_wr(a, WEFT_OP_WRITE, 4, &s, SRC);
	MUST(weft_qp_post_send(a->qp, wrs, 4, NULL));
	EXPECT_EQ(wrs[0].reg.tag, tag);
	end_sent(a, 1);
	end_sent(a, 2);
	end_sent(a, 3);
	end_send_failed(a, 4, WEFT_ERR_LOCAL_ACCESS, WEFT_R_TAG_INVALID);
	end_holds(b, SRC, LENGTH, 3);
	pair_close(&p);
}

/* The tag is there when posting returns, the entry only when its turn has come. */
TEST(test_sqr_02_the_tag_comes_before_the_entry)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct paged g;
	struct weft_send_wr wr;
	struct weft_usage before;

	pair_open(&p, &privileged);
	paged_init(&g, a);
	wr = wr_make(WEFT_OP_DELAY, 1, NULL, 0);
	wr.delay_ns = UINT64_MAX; /* its turn will not come */
	end_post(a, &wr);
	before = usage_of(a);
	wr = register_wr(&g, WEFT_OP_REGISTER, 2);
	end_post(a, &wr);
	EXPECT(wr.reg.tag != 0);
	EXPECT_EQ(usage_of(a).tags_reserved, before.tags_reserved + 1);
	EXPECT_EQ(usage_of(a).regions, before.regions);
	EXPECT_EQ(usage_of(a).translations, before.translations);
	end_modify(a, WEFT_QPS_ERROR);
	end_sends_flushed(a, 1, 2);
	EXPECT_EQ(usage_of(a).tags_reserved, before.tags_reserved + 1); /* for another try */
	MUST(weft_tag_release(a->pd, wr.reg.tag));
	pair_close(&p);
}

TEST(test_sqr_01_sqr_07_off_until_privileged_code_enables_it)
{
	const struct weft_qp_attr on = { .is_register_enabled = true }, off = { 0 };
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct weft_pd *pd;
	struct paged g;
	struct weft_send_wr wr;

	pair_open(&p, NULL); /* a user's domain */
	EXPECT_EQ(weft_qp_modify(a->qp, &on, WEFT_QP_REGISTER), WEFT_R_SQR_PRIVILEGE);
	EXPECT(!end_query(a).is_register_enabled);
	MUST(weft_qp_modify(a->qp, &off, WEFT_QP_REGISTER));
	EXPECT_EQ(
		weft_pd_create(a->adapter, &(struct weft_pd_options){ .is_privileged = true }, &pd),
		WEFT_R_NOT_OWNER);
	pair_close(&p);

	pair_open(&p,
		  &(struct pair_options){ .is_privileged = true, .on_failure = WEFT_FAIL_DRAIN });
	paged_init(&g, a);
	MUST(weft_qp_modify(a->qp, &off, WEFT_QP_REGISTER));
	wr = register_wr(&g, WEFT_OP_REGISTER, 1);
	end_post(a, &wr);
	end_send_failed(a, 1, WEFT_ERR_REGISTER, WEFT_R_SQR_DISABLED);
	end_await(a, WEFT_QPS_SQE);
	MUST(weft_qp_modify(a->qp, &on, WEFT_QP_REGISTER));
	end_modify(a, WEFT_QPS_RTS);
	end_succeeds(a, &wr); /* under the tag that it got at first */
	MUST(weft_tag_release(a->pd, wr.reg.tag));
	pair_close(&p);
}

/* One failing registration under option 1; the queue pair is made operational again. */
static void register_fails(struct pair_end *a, struct weft_send_wr *wr, enum weft_reason reason)
{
	struct weft_usage before = usage_of(a), after;

	end_post(a, wr);
	end_send_failed(a, wr->id, WEFT_ERR_REGISTER, reason);
	end_await(a, WEFT_QPS_SQE);
	MUST_EQ(end_query(a).reason, reason);
	after = usage_of(a);
	MUST_EQ(after.regions, before.regions);
	MUST_EQ(after.translations, before.translations);
	end_modify(a, WEFT_QPS_RTS);
	MUST_EQ(end_query(a).reason, WEFT_OK);
}

static const struct pair_options draining = { .is_privileged = true,
					      .on_failure = WEFT_FAIL_DRAIN };

TEST(test_sqr_04a_not_enabled)
{
	const struct weft_qp_attr off = { 0 };
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct paged g;
	struct weft_send_wr wr;

	pair_open(&p, &draining);
	paged_init(&g, a);
	MUST(weft_qp_modify(a->qp, &off, WEFT_QP_REGISTER));
	MUST(weft_tag_reserve(a->pd, &wr.reg.tag));
	uint32_t tag = wr.reg.tag;

	wr = register_wr(&g, WEFT_OP_REGISTER, 1);
	wr.reg.tag = tag;
	register_fails(a, &wr, WEFT_R_SQR_DISABLED);
	MUST(weft_tag_release(a->pd, tag));
	pair_close(&p);
}

TEST(test_sqr_04b_the_tag_points_at_no_entry_of_ours)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct paged g;
	struct weft_send_wr wr;
	struct weft_pd *other;
	uint32_t window, foreign, gone;

	pair_open(&p, &draining);
	paged_init(&g, a);
	wr = register_wr(&g, WEFT_OP_REGISTER, 1);
	wr.reg.tag = 0xffffff01;
	register_fails(a, &wr, WEFT_R_SQR_ENTRY);
	MUST(weft_window_alloc(a->pd, &window));
	wr.reg.tag = window;
	register_fails(a, &wr, WEFT_R_SQR_ENTRY);
	MUST(weft_window_free(a->pd, window));
	MUST(weft_pd_create(a->adapter, NULL, &other));
	MUST(weft_tag_reserve(other, &foreign));
	wr.reg.tag = foreign;
	register_fails(a, &wr, WEFT_R_SQR_ENTRY);
	MUST(weft_tag_release(other, foreign));
	MUST(weft_pd_destroy(other));
	wr.reg.tag = a->tag; /* a region that is in use */
	register_fails(a, &wr, WEFT_R_SQR_ENTRY);
	MUST(weft_tag_reserve(a->pd, &gone));
	MUST(weft_tag_release(a->pd, gone));
	wr.reg.tag = gone;
	register_fails(a, &wr, WEFT_R_SQR_ENTRY);
	wr.reg.tag = 0;
	end_succeeds(a, &wr);
	register_fails(a, &wr, WEFT_R_SQR_ENTRY); /* registered already */
	MUST(weft_tag_release(a->pd, wr.reg.tag));
	pair_close(&p);
}

TEST(test_sqr_04c_another_instance)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct paged g;
	struct weft_send_wr wr;
	uint32_t tag;

	pair_open(&p, &draining);
	paged_init(&g, a);
	MUST(weft_tag_reserve(a->pd, &tag));
	wr = register_wr(&g, WEFT_OP_REGISTER, 1);
	wr.reg.tag = tag ^ 1;
	register_fails(a, &wr, WEFT_R_SQR_INSTANCE);
	MUST(weft_tag_release(a->pd, tag));
	pair_close(&p);
}

/* Table occupancy as a Send finds and leaves it: nothing without translations, all with them. */
TEST(test_sqr_04d_no_room_for_the_translations)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct paged g;
	struct weft_send_wr wr;
	struct weft_region_options o;
	uint32_t tags[64], count = 0;
	enum weft_reason r = WEFT_OK;

	pair_open(&p, &(struct pair_options){ .is_privileged = true,
					      .on_failure = WEFT_FAIL_DRAIN,
					      .translations_max = 256 });
	paged_init(&g, a);
	wr = register_wr(&g, WEFT_OP_REGISTER, 1);
	o = wr.reg.region;
	while (r == WEFT_OK && count < 64) {
		r = weft_region_register(a->pd, &o, &tags[count]);
		count += r == WEFT_OK;
	}
	EXPECT_EQ(r, WEFT_R_TRANSLATIONS_FULL);
	register_fails(a, &wr, WEFT_R_SQR_SPACE);
	MUST(weft_region_deregister(a->pd, tags[--count]));
	end_succeeds(a, &wr);
	MUST(weft_tag_release(a->pd, wr.reg.tag));
	while (count > 0)
		MUST(weft_region_deregister(a->pd, tags[--count]));
	pair_close(&p);
}

/* Without an index there is no tag to return: the post itself is refused. */
TEST(test_sqr_04d_qp_03_no_index_left)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct paged g;
	struct weft_send_wr wr;
	uint32_t tags[8], count = 0, posted = 9;

	pair_open(&p, &(struct pair_options){ .is_privileged = true, .tags_max = 5 });
	paged_init(&g, a);
	while (count < 8 && weft_tag_reserve(a->pd, &tags[count]) == WEFT_OK)
		count++;
	EXPECT(count > 0 && count < 8);
	wr = register_wr(&g, WEFT_OP_REGISTER, 1);
	EXPECT_EQ(weft_qp_post_send(a->qp, &wr, 1, &posted), WEFT_R_TABLE_FULL);
	EXPECT_EQ(posted, 0);
	EXPECT_EQ(wr.reg.tag, 0);
	EXPECT_EQ(end_query(a).send_queued, 0);
	wr.reg.tag = tags[0];
	end_succeeds(a, &wr);
	while (count > 0)
		MUST(weft_tag_release(a->pd, tags[--count]));
	pair_close(&p);
}

/* Bad page lists are refused where they are looked at, with the reasons of plain registration. */
TEST(test_sqr_04_a_bad_page_list_fails_the_request)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct paged g, bad;
	struct weft_send_wr wr;

	pair_open(&p, &draining);
	paged_init(&g, a);
	wr = register_wr(&bad, WEFT_OP_REGISTER, 1);
	MUST(weft_tag_reserve(a->pd, &wr.reg.tag));
	bad = g;
	bad.list.pages = bad.pages;
	bad.list.page_size_bytes = 12345;
	register_fails(a, &wr, WEFT_R_REG_PAGE_SIZE);
	bad.list.page_size_bytes = PAGE;
	bad.pages[1] += 8;
	register_fails(a, &wr, WEFT_R_REG_PAGE_ADDRESS);
	bad.pages[1] -= 8;
	bad.list.count = 2;
	register_fails(a, &wr, WEFT_R_REG_PAGE_COUNT);
	bad.list.count = PAGES;
	wr.reg.region.length = 0;
	register_fails(a, &wr, WEFT_R_REG_LENGTH);
	wr.reg.region.length = LENGTH;
	wr.reg.region.rights = 1U << 30;
	register_fails(a, &wr, WEFT_R_REG_RIGHTS);
	wr.reg.region.rights = RIGHTS;
	wr.reg.region.va = UINT64_MAX - 5;
	register_fails(a, &wr, WEFT_R_REG_WRAP);
	wr.reg.region.va = va;
	end_succeeds(a, &wr);
	MUST(weft_tag_release(a->pd, wr.reg.tag));
	pair_close(&p);
}

/*
 * SQR-08, then the transaction, then SQR-09: the reply takes the region away. All that the peer
 * knows of the region is what the message said.
 */
TEST(test_sqr_08_sqr_09_sqr_s2_iscsi_10_register_send_use_and_invalidate)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct paged g;
	struct weft_sge s, message;
	struct weft_send_wr wr;
	struct weft_completion c;
	struct weft_usage before;
	uint32_t tag;

	pair_open(&p, &privileged);
	paged_init(&g, b);
	before = usage_of(b);
	end_post_recv(a, 1, DST, 64);
	end_fill(b, SRC, 40, 7);
	message = end_seg(b, SRC, 40);
	wr = register_wr(&g, WEFT_OP_REGISTER_SEND, 2);
	MUST(weft_tag_reserve(b->pd, &wr.reg.tag));
	memcpy(b->memory + SRC, &wr.reg.tag, sizeof(tag));
	wr.sges = &message;
	wr.sge_count = 1;
	end_succeeds(b, &wr);
	EXPECT_EQ(end_received(a, 1).byte_count, 40);
	EXPECT_MEM(a->memory + DST, b->memory + SRC, 40);
	memcpy(&tag, a->memory + DST, sizeof(tag));

	end_fill(a, SRC, LENGTH, 8);
	wr = write_wr(a, 3, &s, tag);
	end_succeeds(a, &wr);
	region_holds(b, 8);
	end_post_recv(b, 4, SRC, 64);
	message = end_seg(a, DST, 40);
	wr = end_wr(a, WEFT_OP_SEND_INVALIDATE, 5, &message, 0);
	wr.invalidate_tag = tag;
	end_post(a, &wr);
	c = end_received(b, 4);
	EXPECT_EQ(c.byte_count, 40);
	EXPECT(c.has_invalidated);
	EXPECT_EQ(c.invalidated_tag, tag);
	EXPECT_EQ(usage_of(b).regions, before.regions); /* gone when the completion is seen */
	EXPECT_EQ(usage_of(b).tags_free, before.tags_free);
	EXPECT_EQ(usage_of(b).translations, before.translations);
	end_sent(a, 5);
	wr = write_wr(a, 6, &s, tag);
	end_refused(a, &wr, WEFT_R_TAG_INVALID);
	pair_close(&p);
}

/* A one-touch region: registered, used once, and gone without another call. */
TEST(test_sqr_s4_one_transaction_and_the_table_is_as_before)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct paged g;
	struct weft_sge s;
	struct weft_send_wr wr;
	struct weft_usage before, after;
	uint32_t tag;

	pair_open(&p, &privileged);
	paged_init(&g, b);
	before = usage_of(b);
	for (uint32_t round = 0; round < 10; round++) {
		pair_blank(&p);
		wr = register_wr(&g, WEFT_OP_REGISTER, 1);
		wr.reg.region.is_one_touch = true;
		end_succeeds(b, &wr);
		tag = wr.reg.tag;
		EXPECT_EQ(usage_of(b).regions, before.regions + 1);
		end_fill(a, SRC, LENGTH, round);
		wr = write_wr(a, 2, &s, tag);
		end_succeeds(a, &wr);
		region_holds(b, round);
	}
	after = usage_of(b);
	EXPECT_EQ(after.regions, before.regions);
	EXPECT_EQ(after.tags_reserved, before.tags_reserved);
	EXPECT_EQ(after.tags_free, before.tags_free);
	EXPECT_EQ(after.translations, before.translations);
	EXPECT(weft_tag_release(b->pd, tag) != WEFT_OK);
	pair_close(&p);
}

/* The second half fails: the tag is reserved as before, and the same request may be tried again. */
TEST(test_sqr_08_sqr_06a_a_failed_register_and_send_can_be_retried)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct paged g;
	struct weft_sge message;
	struct weft_send_wr wr;
	struct weft_usage before;

	pair_open(&p, &draining);
	paged_init(&g, b);
	before = usage_of(b);
	message = end_seg(b, SRC, 40);
	message.tag ^= 1;
	wr = register_wr(&g, WEFT_OP_REGISTER_SEND, 1);
	wr.sges = &message;
	wr.sge_count = 1;
	end_post(b, &wr);
	end_send_failed(b, 1, WEFT_ERR_LOCAL_ACCESS, WEFT_R_TAG_INSTANCE);
	end_await(b, WEFT_QPS_SQE);
	EXPECT_EQ(usage_of(b).regions, before.regions);
	EXPECT_EQ(usage_of(b).translations, before.translations);
	EXPECT_EQ(usage_of(b).tags_reserved, before.tags_reserved + 1);
	end_modify(b, WEFT_QPS_RTS);
	message.tag = b->tag;
	end_post_recv(a, 2, DST, 64);
	end_succeeds(b, &wr);
	end_received(a, 2);
	MUST(weft_tag_release(b->pd, wr.reg.tag));
	pair_close(&p);
}

/* Flushed before it has begun, if it is held, or after. */
static void register_send_flushed(bool is_held)
{
	struct pair p;
	struct pair_end *b = &p.ends[1];
	struct paged g;
	struct weft_sge message;
	struct weft_send_wr wr;
	struct weft_usage before;

	pair_open(&p, &privileged);
	paged_init(&g, b);
	before = usage_of(b);
	wr = wr_make(WEFT_OP_DELAY, 0, NULL, 0);
	wr.delay_ns = is_held ? UINT64_MAX : 0;
	end_post(b, &wr);
	if (!is_held)
		end_sent(b, 0);
	message = end_seg(b, SRC, 40);
	wr = register_wr(&g, WEFT_OP_REGISTER_SEND, 1);
	wr.sges = &message;
	wr.sge_count = 1;
	end_post(b, &wr); /* waits: the peer has no receive */
	end_modify(b, WEFT_QPS_ERROR);
	end_sends_flushed(b, is_held ? 0 : 1, 1);
	MUST_EQ(usage_of(b).regions, before.regions);
	MUST_EQ(usage_of(b).tags_reserved, before.tags_reserved + 1);
	MUST(weft_tag_release(b->pd, wr.reg.tag));
	pair_close(&p);
}

TEST(test_sqr_08_a_flushed_register_and_send_leaves_the_tag_reserved)
{
	register_send_flushed(true);
	if (pair_can(PAIR_ACKNOWLEDGES)) /* else it has ended as soon as it has begun */
		register_send_flushed(false);
}
