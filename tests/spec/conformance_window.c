/* SPDX-License-Identifier: BSD-2-Clause */
/* Remote keys (RKEY): windows as the owner makes them and as peers use them. */
#include <string.h>

#include "conformance.h"

enum {
	WRITE_ID = 21,
	SEGMENT_MIN = 1024, /* what is no longer than this is checked at once by every transport */
	ALL_REMOTE = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC
};

/* A Write, or Read, of a's bytes at SRC towards the peer's memory at offset by this tag. */
static struct weft_send_wr access_wr(struct pair_end *a, enum weft_opcode opcode,
				     struct weft_sge *s, uint32_t tag, uint64_t remote_offset)
{
	struct weft_send_wr wr = end_wr(a, opcode, WRITE_ID, s, remote_offset);

	wr.remote_tag = tag;
	return wr;
}

static void write_good(struct pair_end *a, uint32_t tag, uint64_t offset, uint32_t length)
{
	struct weft_sge s = end_seg(a, SRC, length);
	struct weft_send_wr wr = access_wr(a, WEFT_OP_WRITE, &s, tag, offset);

	end_fill(a, SRC, length, length);
	end_succeeds(a, &wr);
	end_holds(a->peer, offset, length, length);
}

/* Refused, the peer's memory as it was but for `granted` bytes, and the pair connected again. */
static void refused_but(struct pair_end *a, struct weft_send_wr *wr, uint64_t offset,
			uint32_t granted, enum weft_reason reason)
{
	static uint8_t was[END_BYTES];

	memcpy(was, a->peer->memory, END_BYTES);
	end_refused(a, wr, reason);
	memcpy(was + offset, a->peer->memory + offset, granted);
	REQUIRE(memcmp(was, a->peer->memory, END_BYTES) == 0);
	pair_revive(a->pair);
}

static void write_refused(struct pair_end *a, uint32_t tag, uint64_t offset, uint32_t length,
			  enum weft_reason reason)
{
	struct weft_sge s = end_seg(a, SRC, length);
	struct weft_send_wr wr = access_wr(a, WEFT_OP_WRITE, &s, tag, offset);

	refused_but(a, &wr, offset, 0, reason);
}

/* Only the last byte is out of bounds: of a long message what comes before may be in place. */
static void write_exceeds(struct pair_end *a, uint32_t tag, uint64_t offset, uint32_t length)
{
	struct weft_sge s = end_seg(a, SRC, length);
	struct weft_send_wr wr = access_wr(a, WEFT_OP_WRITE, &s, tag, offset);
	bool is_whole = pair_can(PAIR_CHECKS_WHOLE) || length <= SEGMENT_MIN;

	refused_but(a, &wr, offset, is_whole ? 0 : length - 1, WEFT_R_RANGE_BOUNDS);
}

static void read_refused(struct pair_end *a, uint32_t tag, uint64_t offset, uint32_t length,
			 enum weft_reason reason)
{
	struct weft_sge s = end_seg(a, DST, length);
	struct weft_send_wr wr = access_wr(a, WEFT_OP_READ, &s, tag, offset);

	pair_blank(a->pair);
	end_refused(a, &wr, reason);
	end_is_blank(a, DST, length);
	pair_revive(a->pair);
}

TEST(test_rkey_01_rkey_s2_any_size_and_alignment_to_the_byte)
{
	static const uint32_t sizes[] = { 1, 2, 7, 8, 63, 4095, 4097 };
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	pair_open(&p, NULL);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint32_t n = sizes[i];
		uint64_t at = DST + 1 + 2 * i;
		uint32_t tag = end_bind(b, at, n, ALL_REMOTE);

		pair_blank(&p);
		write_good(a, tag, at, n);
		end_is_blank(b, at - 1, 1);
		end_is_blank(b, at + n, 1);
		write_good(a, tag, at + n - 1, 1);
		write_refused(a, tag, at - 1, 1, WEFT_R_RANGE_BOUNDS);
		write_refused(a, tag, at + n, 1, WEFT_R_RANGE_BOUNDS);
		write_refused(a, tag, at - 1, n + 1, WEFT_R_RANGE_BOUNDS);
		write_exceeds(a, tag, at, n + 1);
		read_refused(a, tag, at - 1, 1, WEFT_R_RANGE_BOUNDS);
		read_refused(a, tag, at, n + 1, WEFT_R_RANGE_BOUNDS);
		end_unbind(b, tag);
	}
	pair_close(&p);
}

/* ---- MEM-04: both kinds of entry hold the same fields ---------------------------------------- */

/* An entry of either kind, and the region that it is, or that it is bound to. */
struct entry {
	struct weft_pd *pd;
	uint32_t tag, region;
	bool is_window;
};

static void entry_open(struct entry *e, struct weft_pd *pd, const struct weft_region_options *o)
{
	struct weft_region_options base = *o;
	struct weft_bind bind = {
		.addr = o->va ? o->va : o->addr,
		.length = o->length,
		.rights = o->rights,
		.is_one_touch = o->is_one_touch,
	};

	e->pd = pd;
	if (e->is_window) {
		base.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | ALL_REMOTE | WEFT_BIND;
		base.is_one_touch = false;
	}
	MUST(weft_region_register(pd, &base, &e->region));
	e->tag = e->region;
	if (!e->is_window)
		return;
	bind.region_tag = e->region;
	MUST(weft_window_alloc(pd, &bind.window_tag));
	MUST(weft_window_bind(pd, &bind));
	e->tag = bind.tag;
}

static void entry_close(struct entry *e)
{
	if (e->is_window)
		MUST(weft_window_discard(e->pd, e->tag));
	MUST(weft_region_deregister(e->pd, e->region));
}

/* Bounds, instance, rights, the valid bit: MEM-04a, c, e, f. */
static void fields_are_held(struct pair_end *a, struct entry *e)
{
	struct pair_end *b = a->peer;
	const struct weft_region_options o = {
		.addr = b->addr + DST,
		.length = 64,
		.rights = WEFT_REMOTE_WRITE,
	};

	entry_open(e, b->pd, &o);
	write_good(a, e->tag, DST, 64);
	write_refused(a, e->tag, DST - 1, 64, WEFT_R_RANGE_BOUNDS);
	write_refused(a, e->tag, DST + 1, 64, WEFT_R_RANGE_BOUNDS);
	write_refused(a, e->tag ^ 1, DST, 64, WEFT_R_TAG_INSTANCE);
	read_refused(a, e->tag, DST, 64, WEFT_R_RIGHT_REMOTE_READ);
	entry_close(e);
	write_refused(a, e->tag, DST, 64, WEFT_R_TAG_INVALID);
}

/* The domain and the one touch: MEM-04b, h. */
static void domain_and_touch_are_held(struct pair_end *a, struct entry *e)
{
	struct pair_end *b = a->peer;
	struct weft_region_options o = {
		.addr = b->addr + DST,
		.length = 64,
		.rights = WEFT_REMOTE_WRITE,
	};
	struct weft_pd *other;

	MUST(weft_pd_create(b->adapter, NULL, &other));
	entry_open(e, other, &o);
	write_refused(a, e->tag, DST, 64, WEFT_R_TAG_PD);
	entry_close(e);
	MUST(weft_pd_destroy(other));
	o.is_one_touch = true;
	entry_open(e, b->pd, &o);
	write_good(a, e->tag, DST, 64);
	write_refused(a, e->tag, DST, 64, WEFT_R_TAG_SPENT);
	entry_close(e);
}

/* The translation: MEM-04k, l, m. */
static void translation_is_held(struct pair_end *a, struct entry *e)
{
	enum { PAGE = 4096, LAST = DST, FIRST = DST + 4 * PAGE };
	struct pair_end *b = a->peer;
	const uint64_t pages[] = { b->addr + FIRST, b->addr + LAST };
	const struct weft_page_list list = {
		.pages = pages,
		.count = 2,
		.page_size_bytes = PAGE,
		.first_offset = PAGE - 32,
	};
	const struct weft_region_options o = {
		.va = 0x123456,
		.length = 64,
		.rights = WEFT_REMOTE_WRITE,
		.pages = &list,
	};
	struct weft_sge s = end_seg(a, SRC, 64);
	struct weft_send_wr wr = wr_make(WEFT_OP_WRITE, WRITE_ID, &s, 1);

	pair_blank(a->pair);
	end_fill(a, SRC, 64, 8);
	entry_open(e, b->pd, &o);
	wr.remote_tag = e->tag;
	wr.remote_addr = o.va;
	end_succeeds(a, &wr);
	end_holds(b, FIRST + PAGE - 32, 32, 8);
	for (uint64_t i = 0; i < 32; i++)
		byte_holds(b, LAST + i, pattern(8, 32 + i));
	end_is_blank(b, LAST + 32, 32);
	entry_close(e);
}

TEST(test_mem_04_regions_and_windows_are_held_to_the_same_fields)
{
	for (int is_window = 0; is_window < 2; is_window++) {
		struct entry e = { .is_window = is_window };
		struct pair p;

		pair_open(&p, NULL);
		fields_are_held(&p.ends[0], &e);
		domain_and_touch_are_held(&p.ends[0], &e);
		translation_is_held(&p.ends[0], &e);
		pair_close(&p);
	}
}

/* ---- The verbs of keys ----------------------------------------------------------------------- */

TEST(test_rkey_02a_allocate_until_the_table_is_full)
{
	enum { TAGS = 20 };
	struct pair p;
	struct pair_end *b = &p.ends[1];
	uint32_t tags[TAGS], count = 0, spare = 7;
	enum weft_reason r = WEFT_OK;

	pair_open(&p, &(struct pair_options){ .tags_max = TAGS });
	while (count < TAGS && r == WEFT_OK) {
		r = weft_window_alloc(b->pd, &tags[count]);
		count += r == WEFT_OK;
	}
	EXPECT_EQ(r, WEFT_R_TABLE_FULL);
	EXPECT_EQ(count, pair_can(PAIR_ONE_ADAPTER) ? TAGS - 2 : TAGS - 1);
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t k = 0; k < i; k++)
			EXPECT(weft_tag_index(tags[i]) != weft_tag_index(tags[k]));
	}
	EXPECT_EQ(weft_window_alloc(b->pd, &spare), WEFT_R_TABLE_FULL);
	EXPECT_EQ(spare, 7);
	MUST(weft_window_free(b->pd, tags[3]));
	MUST(weft_window_alloc(b->pd, &tags[3]));
	for (uint32_t i = 0; i < count; i++)
		MUST(weft_window_free(b->pd, tags[i]));
	pair_close(&p);
}

TEST(test_rkey_02b_bind_needs_authority_over_the_whole_range)
{
	struct pair p;
	struct pair_end *b = &p.ends[1];
	struct weft_bind bind, good;
	struct weft_pd *other;

	pair_open(&p, NULL);
	good = (struct weft_bind){
		.region_tag = b->tag,
		.addr = b->addr + DST,
		.length = 100,
		.rights = WEFT_REMOTE_READ,
	};
	MUST(weft_window_alloc(b->pd, &good.window_tag));
	bind = good;
	bind.addr = b->addr + END_BYTES - 99;
	EXPECT_EQ(weft_window_bind(b->pd, &bind), WEFT_R_RANGE_BOUNDS);
	bind.addr = b->addr - 1;
	EXPECT_EQ(weft_window_bind(b->pd, &bind), WEFT_R_RANGE_BOUNDS);
	bind.addr = UINT64_MAX;
	EXPECT_EQ(weft_window_bind(b->pd, &bind), WEFT_R_RANGE_WRAP);
	bind = good;
	bind.length = UINT64_MAX;
	EXPECT_EQ(weft_window_bind(b->pd, &bind), WEFT_R_RANGE_WRAP);
	bind = good;
	bind.region_tag ^= 1;
	EXPECT_EQ(weft_window_bind(b->pd, &bind), WEFT_R_TAG_INSTANCE);
	bind = good;
	bind.region_tag = good.window_tag;
	EXPECT(weft_window_bind(b->pd, &bind) != WEFT_OK);
	bind = good;
	bind.rights = WEFT_LOCAL_READ;
	EXPECT_EQ(weft_window_bind(b->pd, &bind), WEFT_R_REG_RIGHTS);
	bind = good;
	bind.is_qp_bound = true; /* needs a queue pair */
	EXPECT_EQ(weft_window_bind(b->pd, &bind), WEFT_R_BAD_ARGUMENT);
	MUST(weft_pd_create(b->adapter, &(struct weft_pd_options){ .space = b->space }, &other));
	bind = good;
	EXPECT_EQ(weft_window_bind(other, &bind), WEFT_R_TAG_PD);
	EXPECT_EQ(bind.tag, 0);
	MUST(weft_pd_destroy(other));
	MUST(weft_window_free(b->pd, good.window_tag)); /* none of these has bound it */
	pair_close(&p);
}

TEST(test_rkey_02c_unbind)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_bind bind;
	struct weft_pd *other;

	pair_open(&p, NULL);
	bind = (struct weft_bind){
		.region_tag = b->tag,
		.addr = b->addr + DST,
		.length = 64,
		.rights = ALL_REMOTE,
	};
	MUST(weft_window_alloc(b->pd, &bind.window_tag));
	EXPECT_EQ(weft_window_unbind(b->pd, bind.window_tag), WEFT_R_WINDOW_UNBOUND);
	MUST(weft_window_bind(b->pd, &bind));
	MUST(weft_pd_create(b->adapter, &(struct weft_pd_options){ .space = b->space }, &other));
	EXPECT_EQ(weft_window_unbind(other, bind.tag), WEFT_R_TAG_PD);
	EXPECT_EQ(weft_window_unbind(b->pd, bind.tag ^ 1), WEFT_R_TAG_INSTANCE);
	EXPECT_EQ(weft_window_unbind(b->pd, b->tag), WEFT_R_TAG_TYPE);
	MUST(weft_pd_destroy(other));
	write_good(a, bind.tag, DST, 64);
	MUST(weft_window_unbind(b->pd, bind.tag));
	write_refused(a, bind.tag, DST, 64, WEFT_R_TAG_INVALID);
	EXPECT_EQ(weft_window_unbind(b->pd, bind.tag), WEFT_R_WINDOW_UNBOUND);
	MUST(weft_window_free(b->pd, bind.tag));
	write_refused(a, bind.tag, DST, 64, WEFT_R_TAG_INVALID);
	pair_close(&p);
}

/* The optional realisation: Bind of no bytes. Its tag is the window's from then on, as ever. */
TEST(test_rkey_02c_unbind_as_a_bind_of_nothing)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_bind bind;
	struct weft_send_wr wr;
	uint32_t tag;

	pair_open(&p, NULL);
	tag = end_bind(b, DST, 64, ALL_REMOTE);
	bind = (struct weft_bind){ .window_tag = tag };
	MUST(weft_window_bind(b->pd, &bind));
	write_refused(a, tag, DST, 8, WEFT_R_TAG_INVALID);
	write_refused(a, bind.tag, DST, 8, WEFT_R_TAG_INVALID);
	MUST(weft_window_free(b->pd, bind.tag));

	tag = end_bind(b, DST, 64, ALL_REMOTE);
	wr = wr_make(WEFT_OP_BIND, 1, NULL, 0);
	wr.bind.window_tag = tag;
	end_succeeds(b, &wr);
	write_refused(a, tag, DST, 8, WEFT_R_TAG_INVALID);
	MUST(weft_window_free(b->pd, wr.bind.tag));
	pair_close(&p);
}

TEST(test_rkey_02d_deallocate)
{
	struct pair p;
	struct pair_end *b = &p.ends[1];
	uint32_t tag;

	pair_open(&p, NULL);
	tag = end_bind(b, DST, 64, ALL_REMOTE);
	EXPECT_EQ(weft_window_free(b->pd, tag), WEFT_R_WINDOW_BOUND);
	EXPECT_EQ(weft_region_deregister(b->pd, b->tag), WEFT_R_REGION_HAS_WINDOWS);
	EXPECT_EQ(weft_region_deregister(b->pd, tag), WEFT_R_TAG_TYPE);
	EXPECT_EQ(weft_window_free(b->pd, b->tag), WEFT_R_TAG_TYPE);
	EXPECT_EQ(weft_window_free(b->pd, 0xffffff00), WEFT_R_TAG_INDEX);
	EXPECT(weft_window_free(b->pd, 0) != WEFT_OK);
	end_unbind(b, tag);
	EXPECT_EQ(weft_window_free(b->pd, tag), WEFT_R_TAG_INVALID);
	pair_close(&p);
}

/* Bind and invalidate take their turn in the send queue. */
TEST(test_rkey_04_qp_07e_bind_in_the_order_of_the_queue)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wr;
	uint8_t advert[WEFT_ADVERT_BYTES];
	struct weft_advert offer;
	uint32_t window;

	pair_open(&p, NULL);
	MUST(weft_window_alloc(b->pd, &window));
	wr = wr_make(WEFT_OP_BIND, 1, NULL, 0);
	wr.bind = (struct weft_bind){
		.window_tag = window,
		.region_tag = b->tag,
		.addr = b->addr + DST,
		.length = 64,
		.rights = WEFT_REMOTE_WRITE,
	};
	end_post(b, &wr);
	EXPECT_EQ(weft_tag_index(wr.bind.tag), weft_tag_index(window)); /* known at once */
	EXPECT(wr.bind.tag != window);
	offer = (struct weft_advert){ b->addr + DST, 64, wr.bind.tag, WEFT_REMOTE_WRITE };
	weft_advert_encode(&offer, advert);
	s = (struct weft_sge){ .addr = (uintptr_t)advert, .length = sizeof(advert) };
	end_post_recv(a, 9, DST, sizeof(advert));
	wr = wr_make(WEFT_OP_SEND, 2, &s, 1);
	wr.flags |= WEFT_INLINE;
	end_post(b, &wr);
	EXPECT_EQ(end_received(a, 9).byte_count, WEFT_ADVERT_BYTES);
	write_good(a, offer.tag, DST, 64);
	EXPECT_EQ(end_sent(b, 1).opcode, WEFT_OP_BIND);
	end_sent(b, 2);
	wr = wr_make(WEFT_OP_INVALIDATE, 3, NULL, 0);
	wr.invalidate_tag = offer.tag;
	end_succeeds(b, &wr);
	write_refused(a, offer.tag, DST, 8, WEFT_R_TAG_INVALID);
	MUST(weft_window_free(b->pd, offer.tag));
	pair_close(&p);
}

TEST(test_rkey_05_one_range_at_a_time_and_reusable)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_bind bind;
	uint32_t first, old;

	pair_open(&p, NULL);
	bind = (struct weft_bind){ .region_tag = b->tag, .length = 32, .rights = ALL_REMOTE };
	MUST(weft_window_alloc(b->pd, &bind.window_tag));
	bind.addr = b->addr + DST;
	MUST(weft_window_bind(b->pd, &bind));
	first = bind.tag;
	write_good(a, first, DST, 32);
	for (uint32_t i = 1; i < 300; i++) { /* more often than there are instances */
		old = bind.tag;
		bind.addr = b->addr + DST + i * 32;
		MUST(weft_window_bind(b->pd, &bind)); /* without unbinding first */
		EXPECT(bind.tag != old);
		EXPECT_EQ(weft_tag_index(bind.tag), weft_tag_index(first));
	}
	write_good(a, bind.tag, DST + 299 * 32, 32);
	write_refused(a, old, DST + 298 * 32, 32, WEFT_R_TAG_INSTANCE);
	write_refused(a, bind.tag, DST + 298 * 32, 32, WEFT_R_RANGE_BOUNDS);
	write_refused(a, old, DST + 299 * 32, 32, WEFT_R_TAG_INSTANCE);
	end_unbind(b, bind.tag);
	pair_close(&p);
}

TEST(test_rkey_06_rkey_07_one_key_for_ten_queue_pairs)
{
	enum { PAIRS = 10 };
	static struct pair p[PAIRS];
	uint32_t tag;

	pair_open(&p[0], NULL);
	for (int i = 1; i < PAIRS; i++)
		pair_open(&p[i], &(struct pair_options){ .beside = &p[0] });
	tag = end_bind(&p[0].ends[1], DST, PAIRS * 16, WEFT_REMOTE_WRITE);
	for (int i = 0; i < PAIRS; i++)
		write_good(&p[i].ends[0], tag, DST + 16 * (uint64_t)i, 16);
	MUST(weft_window_unbind(p[0].ends[1].pd, tag));
	for (int i = 0; i < PAIRS; i++)
		write_refused(&p[i].ends[0], tag, DST, 16, WEFT_R_TAG_INVALID);
	MUST(weft_window_free(p[0].ends[1].pd, tag));
	for (int i = PAIRS - 1; i >= 0; i--)
		pair_close(&p[i]);
}

/* A window may also be bound for the one queue pair that carries the Bind. */
TEST(test_rkey_06_a_window_of_one_queue_pair)
{
	static struct pair p, q;
	struct pair_end *b = &p.ends[1];
	struct weft_send_wr wr;

	pair_open(&p, NULL);
	pair_open(&q, &(struct pair_options){ .beside = &p });
	wr = wr_make(WEFT_OP_BIND, 1, NULL, 0);
	wr.bind = (struct weft_bind){
		.region_tag = b->tag,
		.addr = b->addr + DST,
		.length = 64,
		.rights = WEFT_REMOTE_WRITE,
		.is_qp_bound = true,
	};
	MUST(weft_window_alloc(b->pd, &wr.bind.window_tag));
	end_succeeds(b, &wr);
	write_good(&p.ends[0], wr.bind.tag, DST, 64);
	write_refused(&q.ends[0], wr.bind.tag, DST, 64, WEFT_R_TAG_QP);
	write_good(&p.ends[0], wr.bind.tag, DST, 64);
	wr = (struct weft_send_wr){
		.opcode = WEFT_OP_INVALIDATE,
		.id = 2,
		.flags = WEFT_SIGNALLED,
		.invalidate_tag = wr.bind.tag,
	};
	end_post(&q.ends[1], &wr); /* not its own */
	end_send_failed(&q.ends[1], 2, WEFT_ERR_BIND, WEFT_R_TAG_QP);
	write_good(&p.ends[0], wr.invalidate_tag, DST, 64);
	end_succeeds(b, &wr);
	MUST(weft_window_free(b->pd, wr.invalidate_tag));
	pair_close(&q);
	pair_close(&p);
}
