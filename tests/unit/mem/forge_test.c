/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ten million accesses with random and almost right tags and ranges, at a table whose windows are
 * bound and unbound meanwhile. An oracle of the test's own says what may pass; nothing else does.
 */
#include "mem_fixture.h"

#include <stdio.h>

enum {
	TAGS = 512,
	REGIONS = 40,
	ACCESSES = HISTORIES(5000000),
	CHURN = 64,  /* accesses between two changes of the table */
	STALE = 256, /* dead tags that are tried again */
	PD_COUNT = 3,
	QP_COUNT = 4
};

/* What the test knows of the entry at an index. */
struct known {
	bool is_alive, is_window;
	uint32_t tag, pd, qp, rights;
	uint64_t start, length;
};

struct forge {
	struct gate g;
	struct prng prng;
	struct known known[TAGS + 2]; /* by index */
	uint32_t stale[STALE], stale_count;
	uint32_t regions[REGIONS]; /* their indices */
	uint64_t granted, refused;
};

static struct forge forge;

static uint32_t below(struct forge *f, uint32_t bound)
{
	return prng_below(&f->prng, bound);
}

/* ---- The oracle -------------------------------------------------------------------------- */

static bool is_in_range(const struct known *k, const struct mem_access *a)
{
	if (a->length > k->length)
		return false;
	return a->addr >= k->start && a->addr - k->start <= k->length - a->length;
}

static bool has_right(const struct forge *f, const struct known *k, enum mem_kind kind)
{
	bool is_open = f->g.table.policy == WEFT_POLICY_OPEN;

	if (kind_is_remote(kind) ? !k->is_window && !is_open : k->is_window)
		return false;
	if (kind == MEM_READ_SINK && is_open && !k->is_window && (k->rights & WEFT_LOCAL_WRITE))
		return true;
	return k->rights & kind_right(kind);
}

static bool may_pass(const struct forge *f, const struct mem_access *a)
{
	const struct known *k = &f->known[0];

	if (weft_tag_index(a->tag) <= TAGS)
		k = &f->known[weft_tag_index(a->tag)];
	if (!k->is_alive || k->tag != a->tag || k->pd != a->pd || (k->qp && k->qp != a->qp))
		return false;
	if (a->kind == MEM_REMOTE_ATOMIC && (a->length != 8 || a->addr % 8))
		return false;
	return is_in_range(k, a) && has_right(f, k, a->kind);
}

/* ---- The table changes ------------------------------------------------------------------- */

static void remember_stale(struct forge *f, uint32_t tag)
{
	f->stale[f->stale_count++ % STALE] = tag;
}

static void make_region(struct forge *f, uint32_t n)
{
	const struct mem_owner owner = { .pd = 1 + below(f, PD_COUNT), .space = &f->g.process };
	const struct weft_region_options o = {
		.addr = UINT64_C(0x100000) + (uint64_t)below(f, 1 << 20) * (1 + below(f, 1 << 16)),
		.length = 16 + below(f, 5000),
		.rights = (below(f, RIGHTS_ALL + 1)) | WEFT_BIND | WEFT_REMOTE_WRITE,
	};
	uint32_t tag;

	REQUIRE(mem_region_register(&f->g.table, &owner, &o, &tag) == WEFT_OK);
	f->regions[n] = weft_tag_index(tag);
	f->known[weft_tag_index(tag)] = (struct known){
		.is_alive = true,
		.tag = tag,
		.pd = owner.pd,
		.start = o.addr,
		.length = o.length,
		.rights = o.rights,
	};
}

/* Binds the window at an index, or a new one, to part of a random region of its domain. */
static void make_window(struct forge *f, uint32_t index)
{
	const struct known *region = &f->known[f->regions[below(f, REGIONS)]];
	uint64_t at = below(f, (uint32_t)region->length);
	struct weft_bind bind = {
		.region_tag = region->tag,
		.addr = region->start + at,
		.length = 1 + below(f, (uint32_t)(region->length - at)),
		.rights = region->rights & MEM_REMOTE_RIGHTS,
	};
	uint32_t qp = below(f, 2) ? 1 + below(f, QP_COUNT) : 0;
	struct known *k;

	if (index)
		bind.window_tag = f->known[index].tag;
	else
		REQUIRE(mem_window_alloc(&f->g.table, region->pd, &bind.window_tag) == WEFT_OK);
	if (index && f->known[index].pd != region->pd)
		return;
	REQUIRE(mem_window_promise(&f->g.table, region->pd, &bind) == WEFT_OK);
	REQUIRE(mem_window_bind(&f->g.table, region->pd, qp, &bind) == WEFT_OK);
	k = &f->known[weft_tag_index(bind.tag)];
	if (k->tag)
		remember_stale(f, k->tag);
	*k = (struct known){
		.is_alive = true,
		.is_window = true,
		.tag = bind.tag,
		.pd = region->pd,
		.qp = qp,
		.start = bind.addr,
		.length = bind.length,
		.rights = bind.rights,
	};
}

/* Unbinds a window, sometimes frees its slot for another; or binds it anew. */
static void churn(struct forge *f)
{
	uint32_t index = 1 + below(f, TAGS);
	struct known *k = &f->known[index];

	if (!k->is_window)
		return;
	if (!k->is_alive && below(f, 2)) {
		make_window(f, index);
		return;
	}
	if (k->is_alive) {
		REQUIRE(mem_invalidate(&f->g.table, k->pd, k->qp, k->tag) == WEFT_OK);
		remember_stale(f, k->tag);
		k->is_alive = false;
	}
	if (below(f, 2)) {
		REQUIRE(mem_window_free(&f->g.table, k->pd, k->tag) == WEFT_OK);
		*k = (struct known){ .tag = k->tag };
		make_window(f, 0);
	}
}

/* ---- The accesses ------------------------------------------------------------------------ */

/* The access that the entry at an index allows, as exactly as it allows it. */
static struct mem_access exact(struct forge *f, const struct known *k)
{
	struct mem_access a = {
		.addr = k->start,
		.length = k->length,
		.tag = k->tag,
		.pd = k->pd,
		.qp = k->qp,
		.kind = below(f, MEM_TASK_KINDS),
	};

	if (k->length && below(f, 2)) {
		uint64_t at = below(f, (uint32_t)k->length);

		a.addr += at;
		a.length = 1 + below(f, (uint32_t)(k->length - at));
	}
	if (a.kind == MEM_REMOTE_ATOMIC) {
		a.addr = (a.addr + 7) & ~UINT64_C(7);
		a.length = 8;
	}
	return a;
}

/* One small thing wrong. */
static void spoil(struct forge *f, struct mem_access *a, const struct known *k)
{
	switch (below(f, 12)) {
	case 0:
		a->tag = mem_tag(weft_tag_index(a->tag), (uint8_t)(a->tag + 1));
		break;
	case 1:
		a->tag = mem_tag(weft_tag_index(a->tag), (uint8_t)(a->tag - 1));
		break;
	case 2:
		a->tag += 256;
		break;
	case 3:
		a->tag -= 256;
		break;
	case 4:
		a->tag ^= 1U << below(f, 32);
		break;
	case 5:
		a->addr = k->start - 1;
		break;
	case 6:
		a->length = k->start + k->length - a->addr + 1; /* one past the end */
		break;
	case 7:
		a->addr = k->start + k->length;
		break;
	case 8:
		a->length = 0 - a->addr - below(f, 2);
		break;
	case 9:
		a->pd = 1 + below(f, PD_COUNT);
		break;
	case 10:
		a->qp = below(f, QP_COUNT + 1);
		break;
	default:
		a->kind = below(f, MEM_TASK_KINDS);
	}
}

static struct mem_access draw(struct forge *f)
{
	const struct known *k = &f->known[1 + below(f, TAGS)];
	struct mem_access a = exact(f, k);

	switch (below(f, 4)) {
	case 0:
		a.tag = (uint32_t)prng_next(&f->prng);
		break;
	case 1:
		a.tag = below(f, 2) ? below(f, (TAGS + 2) << 8) : f->stale[below(f, STALE)];
		break;
	default:
		for (uint32_t n = below(f, 3); n > 0; n--)
			spoil(f, &a, k);
	}
	if (a.length == 0)
		a.length = 1; /* no bytes are always granted */
	return a;
}

static void run(struct forge *f, enum weft_policy policy)
{
	const struct mem_limits limits = {
		.tags_max = TAGS,
		.translations_max = 1,
		.pds_max = PDS_MAX,
		.qps_max = QPS_MAX,
		.policy = policy,
		.secret = { 3, policy },
	};
	struct mem_grant grant;

	*f = (struct forge){ .prng = { .state = 1 + policy } };
	gate_init_limits(&f->g, &limits);
	for (uint32_t i = 0; i < REGIONS; i++)
		make_region(f, i);
	for (uint32_t i = REGIONS; i < TAGS * 3 / 4; i++)
		make_window(f, 0);
	for (uint32_t i = 0; i < ACCESSES; i++) {
		struct mem_access a = draw(f);
		bool is_granted = mem_access_check(&f->g.table, &a, &grant) == WEFT_OK;
		bool should = may_pass(f, &a);

		if (is_granted != should)
			printf("access %u, kind %d, tag %x was %s\n", i, a.kind, a.tag,
			       is_granted ? "granted" : "refused");
		REQUIRE(is_granted == should);
		f->granted += is_granted;
		f->refused += !is_granted;
		if (i % CHURN == 0)
			churn(f);
	}
	/* Both happened, often; and the table kept count. */
	EXPECT(f->granted > ACCESSES / 50);
	EXPECT(f->refused > ACCESSES / 2);
	EXPECT_EQ(f->g.table.refused, f->refused);
	gate_fini(&f->g);
}

TEST(test_mem_13_rkey_08a_rkey_08b_five_million_forged_accesses_strict)
{
	run(&forge, WEFT_POLICY_STRICT);
}

TEST(test_mem_13_rkey_08a_rkey_08b_five_million_forged_accesses_open)
{
	run(&forge, WEFT_POLICY_OPEN);
}
