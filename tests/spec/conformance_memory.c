/* SPDX-License-Identifier: BSD-2-Clause */
/* What the memory table says of a region holds for peers: pages, sharers, rights of a request. */
#include <string.h>
#include <sys/mman.h>

#include "conformance.h"

enum {
	SEND_ID = 31,
	ALL_LOCAL = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE,
	ALL_REMOTE = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC,
	RIGHTS_ALL = ALL_LOCAL | ALL_REMOTE | WEFT_BIND
};

static const uint64_t region_va = UINT64_C(0x7700000000);

/* ---- Page lists ----------------------------------------------------------------------------- */

enum {
	PAGES_MAX = 128 * 128 + 3, /* more than the second order's first block lists */
	FRAMES_MAX = 5,
	HEAD_BYTES = 701, /* of the first page */
	TAIL_BYTES = 903  /* of the last */
};

/* Frames of memory that nothing backs until it is used, and a region of pages in them. */
struct paged {
	struct weft_page_list list;
	uint64_t pages[PAGES_MAX];
	uint8_t *memory; /* the first frame, aligned to the page size */
	void *mapped;
	uint64_t mapped_bytes, length;
	uint32_t tag;
};

/* Which frame holds page i: neither in order nor with a period that a table's block has. */
static uint64_t frame_of(const struct paged *g, uint64_t i)
{
	uint64_t frames = g->list.count < FRAMES_MAX ? g->list.count : FRAMES_MAX;

	return (2 * frames - 1 - i % frames + i / 128 + i / (128 * 128) * 3) % frames;
}

static uint8_t *byte_of(const struct paged *g, uint64_t i)
{
	uint64_t size = g->list.page_size_bytes, at = g->list.first_offset + i;

	return g->memory + frame_of(g, at / size) * size + at % size;
}

static void paged_open(struct paged *g, struct pair_end *e, const struct weft_page_list *list)
{
	const struct weft_region_options o = {
		.va = region_va,
		.length = HEAD_BYTES + (list->count - 2) * list->page_size_bytes + TAIL_BYTES,
		.rights = RIGHTS_ALL,
		.pages = &g->list,
	};
	uint64_t size = list->page_size_bytes;

	g->list = *list;
	g->list.pages = g->pages;
	g->list.first_offset = size - HEAD_BYTES;
	g->length = o.length;
	g->mapped_bytes = (FRAMES_MAX + 1) * size;
	g->mapped = mmap(NULL, g->mapped_bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	REQUIRE(g->mapped != MAP_FAILED);
	g->memory = (uint8_t *)g->mapped + (size - (uintptr_t)g->mapped % size) % size;
	for (uint64_t i = 0; i < list->count; i++)
		g->pages[i] = (uintptr_t)g->memory + frame_of(g, i) * size;
	MUST(weft_region_register(e->pd, &o, &g->tag));
}

static void paged_close(struct paged *g, struct pair_end *e)
{
	MUST(weft_region_deregister(e->pd, g->tag));
	munmap(g->mapped, g->mapped_bytes);
}

/* A peer may be writing the byte just now: to look is a race, and meant to be. */
__attribute__((no_sanitize("thread"))) static uint8_t byte_now(const uint8_t *byte)
{
	return *(const volatile uint8_t *)byte;
}

static void paged_holds(const struct paged *g, struct pair *p, uint64_t at, uint64_t length)
{
	uint64_t since = pair_maker.now_ns(p);

	for (uint64_t i = 0; i < length; i++) {
		uint8_t want = pattern((uint32_t)at, i);

		while (byte_now(byte_of(g, at + i)) != want && pair_wait(p, since))
			;
		MUST_EQ(byte_now(byte_of(g, at + i)), want);
	}
	pair_settle(p);
}

/* A Write, or Read, by a tag of the peer's. */
static struct weft_send_wr tag_wr(enum weft_opcode opcode, const struct weft_sge *s, uint32_t tag,
				  uint64_t addr)
{
	struct weft_send_wr wr = wr_make(opcode, SEND_ID, s, 1);

	wr.remote_tag = tag;
	wr.remote_addr = addr;
	return wr;
}

/* A range goes into the pages by a Write, and comes back by a Read and from the owner itself. */
static void range_is_exact(struct paged *g, struct pair_end *a, uint64_t at, uint32_t length)
{
	struct pair_end *b = a->peer;
	struct weft_sge s = end_seg(a, SRC, length);
	struct weft_send_wr wr = tag_wr(WEFT_OP_WRITE, &s, g->tag, region_va + at);

	end_fill(a, SRC, length, (uint32_t)at);
	end_succeeds(a, &wr);
	paged_holds(g, a->pair, at, length);
	s = end_seg(a, DST, length);
	memset(a->memory + DST, BLANK, length);
	wr = tag_wr(WEFT_OP_READ, &s, g->tag, region_va + at);
	end_succeeds(a, &wr);
	end_holds(a, DST, length, (uint32_t)at);
	s = (struct weft_sge){ .addr = region_va + at, .length = length, .tag = g->tag };
	memset(a->memory + DST, BLANK, length);
	wr = end_wr(b, WEFT_OP_WRITE, SEND_ID, &s, DST);
	end_succeeds(b, &wr);
	end_holds(a, DST, length, (uint32_t)at);
}

/* The byte before the first one, and the one behind the last, are not of the region. */
static void edges_are_refused(struct paged *g, struct pair_end *a)
{
	const uint64_t at[2] = { UINT64_MAX, g->length };
	uint8_t *beside[2] = { byte_of(g, 0) - 1, byte_of(g, g->length - 1) + 1 };

	for (int i = 0; i < 2; i++) {
		struct weft_sge s = end_seg(a, SRC, 1);
		struct weft_send_wr wr = tag_wr(WEFT_OP_WRITE, &s, g->tag, region_va + at[i]);

		a->memory[SRC] = 1;
		end_refused(a, &wr, WEFT_R_RANGE_BOUNDS);
		EXPECT_EQ(*beside[i], 0);
		pair_revive(a->pair);
	}
}

static const uint64_t page_sizes[] = { 1 << 12, 1 << 13, 1 << 16, 1 << 20, 1 << 24, 1 << 28 };
enum { PAGE_SIZES = sizeof(page_sizes) / sizeof(*page_sizes), WHOLE_PAGE_MAX = 1 << 13 };

static void order_is_exact(enum weft_order order)
{
	static struct paged g;
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	pair_open(&p, NULL);
	for (uint32_t i = 0; i < PAGE_SIZES; i++) {
		/* Between the offset and the short end a whole page, if that is short too. */
		const struct weft_page_list list = {
			.count = page_sizes[i] <= WHOLE_PAGE_MAX ? 3 : 2,
			.page_size_bytes = page_sizes[i],
			.order = order,
		};

		paged_open(&g, b, &list);
		range_is_exact(&g, a, 0, (uint32_t)g.length);
		range_is_exact(&g, a, HEAD_BYTES - 1, 2);
		range_is_exact(&g, a, g.length - 1, 1);
		edges_are_refused(&g, a);
		paged_close(&g, b);
	}
	pair_close(&p);
}

TEST(test_mem_s1_mem_04k_mem_04l_mem_05_direct_pages_of_every_size_for_a_peer)
{
	order_is_exact(WEFT_ORDER_DIRECT);
}

TEST(test_mem_s1_mem_04k_mem_04l_mem_05_first_order_pages_of_every_size_for_a_peer)
{
	order_is_exact(WEFT_ORDER_FIRST);
}

TEST(test_mem_s1_mem_04k_mem_04l_mem_05_second_order_pages_of_every_size_for_a_peer)
{
	order_is_exact(WEFT_ORDER_SECOND);
}

/* Long tables: across the borders of the blocks that the entries point at. */
static void borders_are_exact(uint32_t count, enum weft_order order)
{
	static const uint64_t borders[] = { 1, 127, 128, 129, 256, 16383, 16384, 16385 };
	static struct paged g;
	const struct weft_page_list list = {
		.count = count,
		.page_size_bytes = page_sizes[0],
		.order = order,
	};
	struct pair p;

	pair_open(&p, NULL);
	paged_open(&g, &p.ends[1], &list);
	for (uint32_t i = 0; i < sizeof(borders) / sizeof(*borders); i++) {
		/* Where the border's page begins, in bytes of the region. */
		uint64_t at = HEAD_BYTES + (borders[i] - 1) * page_sizes[0];

		if (borders[i] < count)
			range_is_exact(&g, &p.ends[0], at - 3, 5);
	}
	range_is_exact(&g, &p.ends[0], g.length - TAIL_BYTES - 3, TAIL_BYTES + 3);
	paged_close(&g, &p.ends[1]);
	pair_close(&p);
}

TEST(test_mem_s1_mem_05_long_tables_of_each_order_for_a_peer)
{
	borders_are_exact(128, WEFT_ORDER_DIRECT);
	borders_are_exact(128 + 2, WEFT_ORDER_FIRST);
	borders_are_exact(128 * 128, WEFT_ORDER_FIRST);
	borders_are_exact(128 + 2, WEFT_ORDER_SECOND);
	borders_are_exact(PAGES_MAX, WEFT_ORDER_SECOND);
}

/* ---- Sharers -------------------------------------------------------------------------------- */

static struct weft_usage usage_of(const struct pair_end *e)
{
	struct weft_usage usage;

	MUST(weft_adapter_query(e->adapter, &usage));
	return usage;
}

/* A region of an end's memory by a page list, from its second page on. */
static uint32_t register_pages(struct pair_end *e)
{
	enum { PAGE = 4096, PAGES = 3 };
	uint64_t pages[PAGES];
	const struct weft_page_list list = {
		.pages = pages,
		.count = PAGES,
		.page_size_bytes = PAGE,
	};
	const struct weft_region_options o = {
		.va = region_va,
		.length = PAGES * PAGE,
		.rights = RIGHTS_ALL,
		.pages = &list,
	};
	uint32_t tag;

	for (uint32_t i = 0; i < PAGES; i++)
		pages[i] = e->addr + DST + (PAGES - i) * PAGE;
	MUST(weft_region_register(e->pd, &o, &tag));
	return tag;
}

static void by_tag(struct pair_end *a, enum weft_opcode opcode, uint32_t tag, uint64_t addr)
{
	const struct weft_sge s = end_seg(a, opcode == WEFT_OP_READ ? DST : SRC, 64);
	struct weft_send_wr wr = tag_wr(opcode, &s, tag, addr);

	end_succeeds(a, &wr);
}

static void by_tag_refused(struct pair_end *a, uint32_t tag, uint64_t addr, enum weft_reason reason)
{
	const struct weft_sge s = end_seg(a, SRC, 64);
	struct weft_send_wr wr = tag_wr(WEFT_OP_WRITE, &s, tag, addr);

	end_refused(a, &wr, reason);
	pair_revive(a->pair);
}

/*
 * Two domains of one adapter share a region, each has a peer: what one peer writes the other reads,
 * at an address and with rights of its own, also when the first has gone.
 */
TEST(test_mem_09_mem_10_mem_s4_two_sharers_and_their_peers)
{
	static struct pair p, q, other;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1], *c = &q.ends[0];
	const struct weft_region_options shared = {
		.va = UINT64_C(0x8800000000),
		.rights = WEFT_REMOTE_READ,
	};
	struct weft_usage before, one;
	uint32_t first, second, apart;

	pair_open(&p, NULL);
	other = p;
	MUST(weft_pd_create(b->adapter, NULL, &other.ends[1].pd));
	pair_open(&q, &(struct pair_options){ .beside = &other });
	before = usage_of(b);
	first = register_pages(b);
	one = usage_of(b);
	EXPECT(one.translations > before.translations);
	MUST(weft_region_share(other.ends[1].pd, first, &shared, &second));
	/* 1412: an entry of the table more, and no translation. */
	EXPECT_EQ(usage_of(b).regions, one.regions + 1);
	EXPECT_EQ(usage_of(b).translations, one.translations);
	EXPECT_EQ(usage_of(b).tags_free, one.tags_free - 1);

	end_fill(a, SRC, 64, 1);
	by_tag(a, WEFT_OP_WRITE, first, region_va + 4090); /* across two pages */
	by_tag(a, WEFT_OP_READ, first, region_va + 4090);
	by_tag(c, WEFT_OP_READ, second, shared.va + 4090);
	end_holds(c, DST, 64, 1);
	by_tag_refused(a, second, shared.va, WEFT_R_TAG_PD);
	by_tag_refused(c, first, region_va, WEFT_R_TAG_PD);
	by_tag_refused(c, second, shared.va, WEFT_R_RIGHT_REMOTE_WRITE);

	MUST(weft_region_deregister(b->pd, first));
	EXPECT_EQ(usage_of(b).regions, one.regions);
	EXPECT_EQ(usage_of(b).translations, one.translations);
	by_tag_refused(a, first, region_va, WEFT_R_TAG_INVALID);
	/* Its translations are not given to the next registration meanwhile. */
	apart = register_pages(b);
	EXPECT_EQ(usage_of(b).translations, 2 * one.translations - before.translations);
	memset(c->memory + DST, BLANK, 64);
	by_tag(c, WEFT_OP_READ, second, shared.va + 4090);
	end_holds(c, DST, 64, 1);
	MUST(weft_region_deregister(b->pd, apart));
	MUST(weft_region_deregister(other.ends[1].pd, second));
	EXPECT_EQ(usage_of(b).translations, before.translations);
	by_tag_refused(c, second, shared.va, WEFT_R_TAG_INVALID);
	pair_close(&q);
	MUST(weft_pd_destroy(other.ends[1].pd));
	pair_close(&p);
}

/* ---- Protection in the work request --------------------------------------------------------- */

enum { PART = DST + 4096, PART_BYTES = 64 };

/* What an end does with the region at PART of the registrar's memory. */
struct use {
	enum weft_opcode opcode;
	uint32_t enough;	 /* rights of which one is enough */
	enum weft_reason reason; /* of the refusal without them */
	bool is_local;		 /* by the registrar itself, towards the peer */
};

static const struct use uses[] = {
	{ WEFT_OP_WRITE, WEFT_REMOTE_WRITE, WEFT_R_RIGHT_REMOTE_WRITE, false },
	{ WEFT_OP_READ, WEFT_REMOTE_READ, WEFT_R_RIGHT_REMOTE_READ, false },
	{ WEFT_OP_FETCH_ADD, WEFT_REMOTE_ATOMIC, WEFT_R_RIGHT_REMOTE_ATOMIC, false },
	{ WEFT_OP_WRITE, WEFT_LOCAL_READ, WEFT_R_RIGHT_LOCAL_READ, true },
	{ WEFT_OP_FETCH_ADD, WEFT_LOCAL_WRITE, WEFT_R_RIGHT_LOCAL_WRITE, true },
	/* AMB-04: the sink is a target of the peer's, or memory that is written here. */
	{ WEFT_OP_READ, WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE, WEFT_R_READ_SINK, true },
};
enum { USES = sizeof(uses) / sizeof(*uses) };

static void use_region(struct pair_end *b, const struct use *u, uint32_t rights, uint32_t tag)
{
	struct pair_end *e = u->is_local ? b : b->peer;
	struct weft_sge s = end_seg(e, u->is_local ? PART : SRC, 8);
	struct weft_send_wr wr = end_wr(e, u->opcode, SEND_ID, &s, u->is_local ? SRC : PART);

	if (u->opcode == WEFT_OP_FETCH_ADD && !pair_can(PAIR_ATOMICS))
		return;
	if (u->is_local)
		s.tag = tag;
	else
		wr.remote_tag = tag;
	if (rights & u->enough) {
		end_succeeds(e, &wr);
		return;
	}
	if (u->is_local) {
		end_post(e, &wr);
		end_send_failed(e, SEND_ID, WEFT_ERR_LOCAL_ACCESS, u->reason);
	} else {
		end_refused(e, &wr, u->reason);
	}
	pair_revive(b->pair);
}

static void bind_region(struct pair_end *b, uint32_t rights, uint32_t tag)
{
	const uint32_t remote = rights & ALL_REMOTE;
	struct weft_bind bind = {
		.region_tag = tag,
		.addr = b->addr + PART,
		.length = PART_BYTES,
		.rights = remote,
	};

	MUST(weft_window_alloc(b->pd, &bind.window_tag));
	if (!(rights & WEFT_BIND)) {
		MUST_EQ(weft_window_bind(b->pd, &bind), WEFT_R_BIND_DISABLED);
		MUST(weft_window_free(b->pd, bind.window_tag));
		return;
	}
	MUST(weft_window_bind(b->pd, &bind));
	end_unbind(b, bind.tag);
}

/* Registers by a request with these rights, and sees every use granted or refused by them. */
static void rights_are_enforced(struct pair_end *b, uint32_t rights)
{
	struct weft_send_wr wr = wr_make(WEFT_OP_REGISTER, SEND_ID, NULL, 0);

	wr.reg.region = (struct weft_region_options){
		.addr = b->addr + PART,
		.length = PART_BYTES,
		.rights = rights,
	};
	end_post(b, &wr);
	end_sent(b, SEND_ID);
	for (uint32_t i = 0; i < USES; i++)
		use_region(b, &uses[i], rights, wr.reg.tag);
	bind_region(b, rights, wr.reg.tag);
	if (rights & WEFT_REMOTE_WRITE)
		by_tag_refused(b->peer, wr.reg.tag, b->addr + PART + 1, WEFT_R_RANGE_BOUNDS);
	MUST(weft_tag_release(b->pd, wr.reg.tag));
}

/* No right, each right alone, all but one, and all. */
TEST(test_mem_s3_mem_04f_mem_04g_rights_in_the_work_request_are_enforced)
{
	struct pair p;
	struct pair_end *b = &p.ends[1];

	pair_open(&p, &(struct pair_options){ .is_privileged = true });
	for (uint32_t right = WEFT_LOCAL_READ; right <= RIGHTS_ALL; right <<= 1) {
		rights_are_enforced(b, right);
		rights_are_enforced(b, RIGHTS_ALL & ~right);
	}
	rights_are_enforced(b, 0);
	rights_are_enforced(b, RIGHTS_ALL);
	pair_close(&p);
}
