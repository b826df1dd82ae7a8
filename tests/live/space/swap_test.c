/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VMM-09: memory that is registered, not pinned, and swapped out when an access comes. The access
 * waits for the page and completes with the right bytes; its peer sees no error.
 */
#include <stdio.h>
#include <string.h>

#include "live/space/live_space.h"
#include "own_network.h"

enum { BYTES = 1 << 20, AT = 4096 - 100 };

static const struct access_kind {
	const char *name;
	enum weft_opcode opcode;
	bool is_far; /* the far side's pages are out; else those of the request itself */
} kinds[] = {
	{ "Write to them", WEFT_OP_WRITE, true },
	{ "Read of them", WEFT_OP_READ, true },
	{ "Send into them", WEFT_OP_SEND, true },
	{ "atomic on them", WEFT_OP_FETCH_ADD, true },
	{ "Write from them", WEFT_OP_WRITE, false },
	{ "Send from them", WEFT_OP_SEND, false },
	{ "Read into them", WEFT_OP_READ, false },
	{ "result of an atomic into them", WEFT_OP_FETCH_ADD, false },
};

static void fill(struct side *s, uint8_t seed)
{
	for (uint32_t i = 0; i < BYTES; i++)
		s->end.node.memory[i] = (uint8_t)(i * 7 + i / 251 + seed);
}

static void expect_filled(const uint8_t *bytes, uint32_t from, uint32_t length, uint8_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		REQUIRE(bytes[i] == (uint8_t)((from + i) * 7 + (from + i) / 251 + seed));
}

/* From near to far, or back: both lie at the same offset. */
static void expect_moved(struct live_pair *p, const struct access_kind *k, uint32_t at,
			 uint32_t length)
{
	const uint8_t *near = p->near.end.node.memory, *far = p->far.end.node.memory;
	uint64_t before, after;

	switch (k->opcode) {
	case WEFT_OP_READ:
		expect_filled(near + at, at, length, 2);
		break;
	case WEFT_OP_FETCH_ADD:
		memcpy(&before, near + at, sizeof(before));
		memcpy(&after, far + at, sizeof(after));
		expect_filled(near + at, at, length, 2);
		MUST_EQ(after, before + 5);
		break;
	default:
		expect_filled(far + at, at, length, 1);
	}
	/* What lies around it has come back as it was. */
	expect_filled(near, 0, at, 1);
	expect_filled(far + at + length, at + length, BYTES - at - length, 2);
}

/* Sets *has_waited if it was weft that waited. False: the kernel swaps nothing out. */
static bool try_case(struct live_pair *p, const struct access_kind *k, uint32_t at, uint32_t length,
		     bool *has_waited)
{
	struct node *near = &p->near.end.node, *far = &p->far.end.node;
	struct side *out = k->is_far ? &p->far : &p->near;
	struct weft_sge from = node_seg(near, at, length), into = node_seg(far, at, length);
	struct weft_send_wr wr = node_wr(k->opcode, 7, &from, far);
	uint64_t faults = side_faults(out);
	struct weft_completion c;

	printf("# %s: %u bytes at %u\n", k->name, length, at);
	swap_enter();
	fill(&p->near, 1);
	fill(&p->far, 2);
	swap_leave();
	wr.remote_addr = into.addr;
	wr.compare_add = 5;
	if (k->opcode == WEFT_OP_SEND)
		MUST(weft_qp_post_recv(
			far->qp, &(struct weft_recv_wr){ .id = 8, .sges = &into, .sge_count = 1 },
			1, NULL));
	if (!swap_out(out->end.node.memory, BYTES))
		return false;
	MUST_EQ(pages_in_memory(out->end.node.memory, BYTES), 0);
	REQUIRE(node_post(near, &wr));
	REQUIRE(node_take(near->cq, &c) && c.id == 7);
	if (k->opcode == WEFT_OP_SEND)
		REQUIRE(node_take(far->cq, &c) && c.id == 8 && c.byte_count == length);
	if (k->opcode == WEFT_OP_WRITE)
		live_pair_expect_placed(p);
	*has_waited = side_faults(out) > faults;
	expect_moved(p, k, at, length);
	return true;
}

/* The kernel may bring a page back by itself, beside another one: it is tried again then. */
static bool run_case(struct live_pair *p, const struct access_kind *k, uint32_t at, uint32_t length)
{
	enum { TRIES = 5 };
	bool is_swapped = true, has_waited = false;

	for (int i = 0; i < TRIES && is_swapped && !has_waited; i++)
		is_swapped = try_case(p, k, at, length, &has_waited);
	REQUIRE(has_waited || !is_swapped);
	return is_swapped;
}

static void run_all(enum way way)
{
	static struct live_pair p;
	const char *why_not = swap_open();
	bool is_swapped = true;

	if (why_not)
		SKIP(why_not);
	live_pair_open(&p, way, BYTES);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]) && is_swapped; k++) {
		is_swapped = run_case(&p, &kinds[k], 4096, 8);
		if (kinds[k].opcode != WEFT_OP_FETCH_ADD)
			is_swapped = is_swapped && run_case(&p, &kinds[k], AT, 5000) &&
				     run_case(&p, &kinds[k], AT, 300000);
	}
	live_pair_close(&p);
	swap_close();
	if (!is_swapped)
		SKIP("the kernel swaps nothing out");
}

TEST(test_vmm_09_vmm_s2_swapped_out_pages_over_tcp)
{
	run_all(OVER_TCP);
}

TEST(test_vmm_09_vmm_s2_swapped_out_pages_over_udp)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	run_all(OVER_UDP);
}
