/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem_fixture.h"

#include <stdlib.h>
#include <sys/mman.h>

/* The real address of page number i. */
static uint64_t att_page(const struct att *a, uint64_t i)
{
	return att_leaf(a, i)[i % ATT_BLOCK_ENTRIES];
}

static struct gate g;

/* ---- MEM-S1: byte-exact for every page size and order ---------------------------------------- */

enum { SIZES = 6, SAMPLES = 80, EDGE = 23 };

#define ARENA_BYTES (UINT64_C(5) << 28) /* five of the largest pages; only edges are touched */

static const uint64_t sizes[SIZES] = {
	UINT64_C(1) << 12, UINT64_C(1) << 13, UINT64_C(1) << 16,
	UINT64_C(1) << 20, UINT64_C(1) << 24, UINT64_C(1) << 28,
};

/* Enough pages for more than one block on each level, where the arena has as many. */
static const uint32_t wanted[] = {
	[WEFT_ORDER_DIRECT] = ATT_BLOCK_ENTRIES,
	[WEFT_ORDER_FIRST] = 2 * ATT_BLOCK_ENTRIES + 44,
	[WEFT_ORDER_SECOND] = (ATT_BLOCK_ENTRIES + 1) * ATT_BLOCK_ENTRIES + 2,
};

/* A region of shuffled pages and what the test knows about it. */
struct layout {
	struct weft_page_list list;
	uint64_t *pages;
	uint64_t va, length;
	uint32_t tag;
	struct weft_space space;
	uint8_t *arena;
	struct prng prng;
};

/* Where byte i of the region lies, worked out the plain way. */
static uint64_t real_of(const struct layout *l, uint64_t i)
{
	uint64_t at = l->list.first_offset + i, size = l->list.page_size_bytes;

	return l->pages[at / size] + at % size;
}

/* Well shuffled, or with runs of neighbours left over. */
static void shuffle(struct layout *l)
{
	uint32_t keep_ppm = prng_below(&l->prng, 2) ? 0 : 900000;

	for (uint32_t i = 0; i < l->list.count; i++)
		l->pages[i] = i * l->list.page_size_bytes;
	for (uint32_t i = l->list.count - 1; i > 0; i--) {
		uint32_t other = prng_chance(&l->prng, keep_ppm) ? i : prng_below(&l->prng, i + 1);
		uint64_t page = l->pages[i];

		l->pages[i] = l->pages[other];
		l->pages[other] = page;
	}
}

static void layout_register(struct layout *l, uint64_t size, enum weft_order order)
{
	uint64_t most = ARENA_BYTES / size;
	struct weft_region_options o = { .rights = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE,
					 .pages = &l->list,
					 .space = &l->space };

	l->list = (struct weft_page_list){
		.pages = l->pages,
		.count = most < wanted[order] ? (uint32_t)most : wanted[order],
		.page_size_bytes = size,
		.first_offset = size - 4093 + 1024,
		.order = order,
	};
	shuffle(l);
	l->va = UINT64_C(0x7654321000000) + prng_below(&l->prng, 5000);
	/* A byte offset in the first page, an early end in the last. */
	l->length = l->list.count * size - l->list.first_offset - (size - 3001);
	o.va = l->va;
	o.length = l->length;
	g.owner.space = &l->space;
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &l->tag) == WEFT_OK);
	REQUIRE(gate_entry(&g, l->tag)->att->order == order);
}

static enum weft_reason layout_access(const struct layout *l, uint64_t at, uint64_t length,
				      struct mem_grant *grant)
{
	const struct mem_access a = {
		.addr = l->va + at,
		.length = length,
		.tag = l->tag,
		.pd = PD_OWN,
		.kind = MEM_REMOTE_WRITE,
	};

	return mem_access_check(&g.table, &a, grant);
}

/* Every byte of a span is where it should be: checked at the span's ends and at each page edge. */
static void expect_span(const struct layout *l, uint64_t at, const struct mem_span *s)
{
	uint64_t size = l->list.page_size_bytes;

	REQUIRE(s->length > 0 && at + s->length <= l->length);
	REQUIRE(s->bytes == l->arena + s->real);
	for (uint64_t done = 0; done < s->length;) {
		uint64_t in_page = (l->list.first_offset + at + done) % size;
		uint64_t piece = size - in_page < s->length - done ? size - in_page
								   : s->length - done;

		REQUIRE(real_of(l, at + done) == s->real + done);
		REQUIRE(real_of(l, at + done + piece - 1) == s->real + done + piece - 1);
		done += piece;
	}
}

static void expect_range(struct layout *l, uint64_t at, uint64_t length)
{
	struct mem_grant grant;
	struct mem_span spans[5];
	uint64_t end = at + length;
	uint32_t count;

	REQUIRE(layout_access(l, at, length, &grant) == WEFT_OK);
	while ((count = mem_grant_spans(&grant, spans, 1 + prng_below(&l->prng, 4))) > 0) {
		REQUIRE(count <= 4 && grant.length <= end - at);
		for (uint32_t i = 0; i < count; i++) {
			expect_span(l, at, &spans[i]);
			at += spans[i].length;
		}
	}
	REQUIRE(at == end);
}

/* Writes across a page edge through the table, and looks at the arena itself. */
static void expect_edge_bytes(const struct layout *l, uint64_t edge)
{
	uint8_t text[2 * EDGE] = { 0 }, guard = 0xa5;
	struct mem_grant grant, own = mem_grant_of(text, sizeof(text));
	struct mem_vec to, from;
	uint64_t at = edge - EDGE;

	l->arena[real_of(l, at - 1)] = guard;
	l->arena[real_of(l, at + sizeof(text))] = guard;
	for (uint32_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(edge * 7 + i + 1);
	REQUIRE(layout_access(l, at, sizeof(text), &grant) == WEFT_OK);
	mem_vec_init(&to);
	mem_vec_init(&from);
	mem_vec_add(&to, &grant);
	mem_vec_add(&from, &own);
	mem_vec_copy(&to, &from, sizeof(text));
	for (uint32_t i = 0; i < sizeof(text); i++)
		REQUIRE(l->arena[real_of(l, at + i)] == text[i]);
	REQUIRE(l->arena[real_of(l, at - 1)] == guard);
	REQUIRE(l->arena[real_of(l, at + sizeof(text))] == guard);
}

static void expect_exact(struct layout *l)
{
	uint64_t size = l->list.page_size_bytes, first = size - l->list.first_offset;
	struct mem_grant grant;

	expect_range(l, 0, l->length);
	expect_range(l, 0, 1);
	expect_range(l, l->length - 1, 1);
	expect_range(l, 1, l->length - 2);
	REQUIRE(layout_access(l, UINT64_MAX, 1, &grant) == WEFT_R_RANGE_BOUNDS);
	REQUIRE(layout_access(l, l->length, 1, &grant) == WEFT_R_RANGE_BOUNDS);
	REQUIRE(layout_access(l, 0, l->length + 1, &grant) == WEFT_R_RANGE_BOUNDS);
	for (uint32_t i = 0; i < SAMPLES; i++) {
		uint32_t page = i < 3 ? i : prng_below(&l->prng, l->list.count - 1);

		if (i >= 3 && i < 6)
			page = l->list.count + 1 - i;
		if (i >= 6 && i < 9 && ATT_BLOCK_ENTRIES + i < l->list.count)
			page = ATT_BLOCK_ENTRIES + i - 8;
		if (i >= 9 && i < 12 && ATT_BLOCK_ENTRIES * ATT_BLOCK_ENTRIES + i < l->list.count)
			page = ATT_BLOCK_ENTRIES * ATT_BLOCK_ENTRIES + i - 11;
		expect_range(l, first + page * size - EDGE, 2 * EDGE);
		expect_edge_bytes(l, first + page * size);
	}
}

static void layout_init(struct layout *l, uint64_t seed)
{
	const struct mem_limits limits = {
		.tags_max = 8, .translations_max = 1 << 16, .pds_max = PDS_MAX, .qps_max = QPS_MAX
	};
	struct weft_space_options options = { .size_bytes = ARENA_BYTES, .mappings_max = 1 };

	gate_init_limits(&g, &limits);
	l->arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	REQUIRE(l->arena != MAP_FAILED);
	l->pages = malloc(wanted[WEFT_ORDER_SECOND] * sizeof(*l->pages));
	REQUIRE(l->pages);
	options.memory = l->arena;
	options.is_virtual = true;
	g.owner.is_privileged = true;
	REQUIRE(mem_space_init(&l->space, &options) == WEFT_OK);
	l->prng.state = seed;
}

static void layout_fini(struct layout *l)
{
	mem_space_fini(&l->space);
	free(l->pages);
	munmap(l->arena, ARENA_BYTES);
	gate_fini(&g);
}

static void s1_run(enum weft_order order)
{
	struct layout l;

	layout_init(&l, order);
	for (uint32_t i = 0; i < 4 * SIZES; i++) {
		layout_register(&l, sizes[i % SIZES], order);
		expect_exact(&l);
		REQUIRE(mem_region_deregister(&g.table, PD_OWN, l.tag) == WEFT_OK);
		EXPECT_EQ(g.table.atts.used, 0);
	}
	layout_fini(&l);
}

TEST(test_mem_s1_mem_04l_mem_05_mem_06_mem_07_direct_is_byte_exact_for_every_page_size)
{
	s1_run(WEFT_ORDER_DIRECT);
}

TEST(test_mem_s1_mem_04l_mem_05_mem_06_mem_07_first_order_is_byte_exact_for_every_page_size)
{
	s1_run(WEFT_ORDER_FIRST);
}

TEST(test_mem_s1_mem_04l_mem_05_mem_06_mem_07_second_order_is_byte_exact_for_every_page_size)
{
	s1_run(WEFT_ORDER_SECOND);
}

/* Every byte of a small region, in and out, and not a byte of the arena around it. */
TEST(test_mem_s1_mem_07_every_byte_of_a_small_region)
{
	enum { PAGES = 7, OFFSET = 1001, LENGTH = PAGES * GATE_PAGE - OFFSET - 77 };
	static const uint32_t frames[PAGES] = { 9, 3, 4, 14, 0, 15, 7 };
	static uint8_t text[LENGTH], back[LENGTH], expected[GATE_BYTES];
	uint64_t pages[PAGES];
	struct weft_page_list list = {
		.pages = pages, .count = PAGES, .page_size_bytes = GATE_PAGE, .first_offset = OFFSET
	};
	const struct weft_region_options o = {
		.va = 0x123457, .length = LENGTH, .rights = RIGHTS_ALL, .pages = &list
	};
	struct mem_access a = { .addr = 0x123457, .length = LENGTH, .pd = PD_OWN };

	for (uint32_t i = 0; i < PAGES; i++)
		pages[i] = gate_addr(&g, frames[i] * GATE_PAGE);
	for (list.order = WEFT_ORDER_FIT; list.order <= WEFT_ORDER_SECOND; list.order++) {
		struct mem_grant in, out, from = mem_grant_of(text, LENGTH);
		struct mem_grant to = mem_grant_of(back, LENGTH);
		struct mem_vec vecs[4];

		gate_init(&g, WEFT_POLICY_OPEN);
		memset(expected, 0, sizeof(expected));
		for (uint32_t i = 0; i < LENGTH; i++) {
			text[i] = (uint8_t)(1 + (i * 31 + list.order) % 255);
			expected[frames[(OFFSET + i) / GATE_PAGE] * GATE_PAGE +
				 (OFFSET + i) % GATE_PAGE] = text[i];
		}
		REQUIRE(mem_region_register(&g.table, &g.owner, &o, &a.tag) == WEFT_OK);
		a.kind = MEM_LOCAL_WRITE;
		REQUIRE(mem_access_check(&g.table, &a, &in) == WEFT_OK);
		a.kind = MEM_LOCAL_READ;
		REQUIRE(mem_access_check(&g.table, &a, &out) == WEFT_OK);
		for (int i = 0; i < 4; i++)
			mem_vec_init(&vecs[i]);
		mem_vec_add(&vecs[0], &in);
		mem_vec_add(&vecs[1], &from);
		mem_vec_copy(&vecs[0], &vecs[1], LENGTH);
		EXPECT_MEM(g.memory, expected, GATE_BYTES);
		mem_vec_add(&vecs[2], &to);
		mem_vec_add(&vecs[3], &out);
		mem_vec_copy(&vecs[2], &vecs[3], LENGTH);
		EXPECT_MEM(back, text, LENGTH);
		gate_fini(&g);
	}
}

/* A list is as good as its parts: bytes flow from any cut into any other. */
TEST(test_vec_copies_between_different_cuts)
{
	enum { TOTAL = 240 };
	static const uint32_t to_cuts[] = { 1, 99, 0, 140 }, from_cuts[] = { 60, 60, 119, 1 };
	uint8_t source[TOTAL], target[TOTAL + 1] = { 0 };
	struct mem_vec to, from;
	uint32_t at_to = 0, at_from = 0;

	mem_vec_init(&to);
	mem_vec_init(&from);
	for (uint32_t i = 0; i < TOTAL; i++)
		source[i] = (uint8_t)(i + 1);
	for (int i = 0; i < 4; i++) {
		struct mem_grant t = mem_grant_of(target + at_to, to_cuts[i]);
		struct mem_grant f = mem_grant_of(source + at_from, from_cuts[i]);

		mem_vec_add(&to, &t);
		mem_vec_add(&from, &f);
		at_to += to_cuts[i];
		at_from += from_cuts[i];
	}
	EXPECT_EQ(to.length, TOTAL);
	EXPECT_EQ(from.length, TOTAL);
	mem_vec_copy(&to, &from, TOTAL);
	EXPECT_MEM(target, source, TOTAL);
	EXPECT_EQ(target[TOTAL], 0);
}

/* ---- Orders, 64-bit addresses ------------------------------------------------------------ */

static uint64_t many[(1 << 21) + 1];

static enum weft_reason create(struct att_pool *p, uint32_t count, enum weft_order order,
			       struct att **att)
{
	const struct weft_page_list list = {
		.pages = many, .count = count, .page_size_bytes = GATE_PAGE, .order = order
	};

	return att_create(p, &list, UINT64_MAX, att);
}

TEST(test_mem_04k_order_fits_the_list_or_is_refused)
{
	static const struct {
		uint32_t count;
		enum weft_order lowest;
		uint32_t blocks[3]; /* direct, first, second; 0: refused */
	} cases[] = {
		{ 1, WEFT_ORDER_DIRECT, { 1, 2, 3 } },
		{ 128, WEFT_ORDER_DIRECT, { 1, 2, 3 } },
		{ 129, WEFT_ORDER_FIRST, { 0, 3, 4 } },
		{ 1 << 14, WEFT_ORDER_FIRST, { 0, 129, 130 } },
		{ (1 << 14) + 1, WEFT_ORDER_SECOND, { 0, 0, 132 } },
		{ 1 << 21, WEFT_ORDER_SECOND, { 0, 0, 1 + 128 + 16384 } },
	};
	struct att_pool pool;
	struct att *att;

	REQUIRE(att_pool_init(&pool, 17000 * ATT_BLOCK_ENTRIES) == 0);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		EXPECT_EQ(create(&pool, cases[i].count, WEFT_ORDER_FIT, &att), WEFT_OK);
		EXPECT_EQ(att->order, cases[i].lowest);
		att_put(&pool, att);
		for (uint32_t n = 0; n < 3; n++) {
			enum weft_reason r = create(&pool, cases[i].count, n + 1, &att);

			EXPECT_EQ(r, cases[i].blocks[n] ? WEFT_OK : WEFT_R_REG_ORDER);
			EXPECT_EQ(pool.used, cases[i].blocks[n]);
			if (r == WEFT_OK)
				att_put(&pool, att);
			EXPECT_EQ(pool.used, 0);
		}
	}
	EXPECT_EQ(create(&pool, (1 << 21) + 1, WEFT_ORDER_FIT, &att), WEFT_R_REG_ORDER);
	EXPECT_EQ(create(&pool, 1, WEFT_ORDER_SECOND + 1, &att), WEFT_R_REG_ORDER);
	att_pool_fini(&pool);
}

TEST(test_mem_04m_page_addresses_are_64_bits)
{
	uint64_t pages[2] = { UINT64_C(0xfedcba9876543000), UINT64_C(0x0123456789abc000) };
	const struct weft_page_list list = {
		.pages = pages, .count = 2, .page_size_bytes = GATE_PAGE, .first_offset = 100
	};
	const struct weft_region_options o = {
		.length = 2 * GATE_PAGE - 100, .va = 0x1000, .rights = RIGHTS_ALL, .pages = &list
	};
	struct mem_access a = { .addr = 0x1000, .length = o.length, .pd = PD_OWN };
	struct mem_grant grant;
	struct mem_span spans[3];

	gate_init(&g, WEFT_POLICY_OPEN);
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &a.tag) == WEFT_OK);
	REQUIRE(mem_access_check(&g.table, &a, &grant) == WEFT_OK);
	EXPECT_EQ(mem_grant_spans(&grant, spans, 3), 2);
	EXPECT(spans[0].real == pages[0] + 100 && spans[0].length == GATE_PAGE - 100);
	EXPECT(spans[1].real == pages[1] && spans[1].length == GATE_PAGE);
	gate_fini(&g);
}

/* Pages that follow each other come out as one span, so that a whole region can be one copy. */
TEST(test_mem_07_neighbouring_pages_make_one_span)
{
	uint64_t pages[5] = { 0x5000, 0x6000, 0x7000, 0x1000, 0x2000 };
	const struct weft_page_list list = {
		.pages = pages, .count = 5, .page_size_bytes = GATE_PAGE, .first_offset = 16
	};
	const struct weft_region_options o = {
		.length = 5 * GATE_PAGE - 32, .va = 0x100, .rights = RIGHTS_ALL, .pages = &list
	};
	struct mem_access a = { .addr = 0x100, .length = o.length, .pd = PD_OWN };
	struct mem_grant grant;
	struct mem_span spans[4];

	gate_init(&g, WEFT_POLICY_OPEN);
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &a.tag) == WEFT_OK);
	REQUIRE(mem_access_check(&g.table, &a, &grant) == WEFT_OK);
	EXPECT_EQ(mem_grant_spans(&grant, spans, 4), 2);
	EXPECT(spans[0].real == 0x5010 && spans[0].length == 3 * GATE_PAGE - 16);
	EXPECT(spans[1].real == 0x1000 && spans[1].length == 2 * GATE_PAGE - 16);
	EXPECT_EQ(mem_grant_spans(&grant, spans, 4), 0);
	gate_fini(&g);
}

/* ---- The pool of blocks ------------------------------------------------------------------ */

TEST(test_mem_04m_full_pool_refuses_and_keeps_count)
{
	struct att_pool pool;
	struct att *att, *other;

	REQUIRE(att_pool_init(&pool, 10 * ATT_BLOCK_ENTRIES) == 0);
	EXPECT_EQ(create(&pool, 10 * ATT_BLOCK_ENTRIES, WEFT_ORDER_FIT, &att),
		  WEFT_R_TRANSLATIONS_FULL);
	EXPECT_EQ(pool.used, 0);
	EXPECT_EQ(create(&pool, 9 * ATT_BLOCK_ENTRIES, WEFT_ORDER_FIT, &att), WEFT_OK);
	EXPECT_EQ(pool.used, 10);
	EXPECT_EQ(create(&pool, 1, WEFT_ORDER_FIT, &other), WEFT_R_TRANSLATIONS_FULL);
	EXPECT_EQ(pool.used, 10);
	att_put(&pool, att);
	EXPECT_EQ(create(&pool, 9 * ATT_BLOCK_ENTRIES, WEFT_ORDER_FIT, &att), WEFT_OK);
	att_put(&pool, att);
	att_pool_fini(&pool);
}

static uint32_t blocks_of(uint32_t count, uint32_t order)
{
	uint32_t leaves = (count + 127) / 128;

	return order == WEFT_ORDER_DIRECT ? 1 : order == WEFT_ORDER_FIRST ? 1 + leaves : 2 + leaves;
}

/* Random tables come, are shared, and go; their pages stay their own and the count stays exact. */
TEST(test_mem_10_random_tables_leak_no_block_and_mix_no_pages)
{
	enum { LIVE = 24, BLOCKS = 60, ROUNDS = 30000 };
	struct live {
		struct att *att;
		uint32_t count, base;
	} live[LIVE] = { 0 };
	struct prng p = { .state = 33 };
	struct att_pool pool;
	uint32_t used = 0, refused = 0;

	REQUIRE(att_pool_init(&pool, BLOCKS * ATT_BLOCK_ENTRIES) == 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct live *l = &live[prng_below(&p, LIVE)];
		uint32_t count = 1 + prng_below(&p, prng_below(&p, 2) ? 130 : 1500);
		uint32_t order = (count > 128 ? WEFT_ORDER_FIRST : WEFT_ORDER_DIRECT);

		order += prng_below(&p, WEFT_ORDER_SECOND - order + 1);
		if (!l->att) {
			enum weft_reason r;

			for (uint32_t n = 0; n < count; n++)
				many[n] = (uint64_t)(i + n) * GATE_PAGE;
			r = create(&pool, count, order, &l->att);
			EXPECT_EQ(r, blocks_of(count, order) <= BLOCKS - used
					     ? WEFT_OK
					     : WEFT_R_TRANSLATIONS_FULL);
			refused += r != WEFT_OK;
			used += r == WEFT_OK ? blocks_of(count, order) : 0;
			l->count = count;
			l->base = i;
		} else if (l->att->users < 4 && prng_below(&p, 3) == 0) {
			att_get(l->att);
		} else {
			uint32_t at = prng_below(&p, l->count);

			EXPECT_EQ(att_page(l->att, at), (uint64_t)(l->base + at) * GATE_PAGE);
			if (l->att->users == 1)
				used -= blocks_of(l->count, l->att->order);
			att_put(&pool, l->att);
			if (l->att->users == 0)
				l->att = NULL;
		}
		EXPECT_EQ(pool.used, used);
	}
	EXPECT(refused > 100);
	for (uint32_t i = 0; i < LIVE; i++) {
		while (live[i].att && live[i].att->users > 1)
			att_put(&pool, live[i].att);
		if (live[i].att)
			att_put(&pool, live[i].att);
	}
	EXPECT_EQ(pool.used, 0);
	EXPECT_EQ(create(&pool, (BLOCKS - 1) * ATT_BLOCK_ENTRIES, WEFT_ORDER_FIRST, &live[0].att),
		  WEFT_OK);
	att_pool_fini(&pool);
}
