/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host and a unit under random histories, at every moment of which anything may happen: acts,
 * arrivals and completions one by one, consumers that keep elements, pools that are opened, closed
 * and released, an end in order or a loss. Judged outside of the core (push_bed.c): a Write goes
 * into memory that is registered, to an element whose last packet was returned; each packet comes
 * once, in order, as it was sent.
 */
#include "test.h"

#include <string.h>

#include "base/prng.h"
#include "unit/push/push_bed.h"

enum { SEEDS = 2000, STEPS = 600, KEPT = 64 };

struct swarm {
	struct bed *b;
	struct prng random;
	uint64_t sent[2];		 /* packets of each end */
	uint64_t came[2];		 /* to each end */
	uint32_t seen[2];		 /* events that were looked at */
	struct push_event kept[2][KEPT]; /* elements that a consumer has */
	uint32_t kept_count[2];
	bool is_open[2][BED_POOLS];
	bool is_lost;
};

static uint32_t draw(struct swarm *s, uint32_t below)
{
	return prng_below(&s->random, below);
}

/* Of elements that a closed pool had nothing is returned any more. */
static void forget_pool(struct swarm *s, int end, uint32_t pool)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < s->kept_count[end]; i++) {
		if (s->kept[end][i].pool != pool)
			s->kept[end][left++] = s->kept[end][i];
	}
	s->kept_count[end] = left;
	s->is_open[end][pool] = false;
}

static void look(struct swarm *s, int end)
{
	struct bed_end *e = &s->b->ends[end];

	for (; s->seen[end] < e->event_count; s->seen[end]++) {
		const struct push_event *event = &e->events[s->seen[end]];

		if (event->kind == PUSH_EVENT_POOL_CLOSED)
			forget_pool(s, end, event->pool);
		if (event->kind != PUSH_EVENT_PACKET)
			continue;
		MUST_EQ(event->bytes[0], s->came[end] % 256);
		s->came[end]++;
		if (!event->is_returned)
			continue;
		REQUIRE(s->kept_count[end] < KEPT);
		s->kept[end][s->kept_count[end]++] = *event;
	}
}

static void give_back(struct swarm *s, int end)
{
	uint32_t which;

	if (s->kept_count[end] == 0)
		return;
	which = draw(s, s->kept_count[end]);
	bed_return(s->b, end, s->kept[end][which].pool, s->kept[end][which].element);
	s->kept[end][which] = s->kept[end][--s->kept_count[end]];
}

static void open_pool(struct swarm *s, int end)
{
	struct bed_end *e = &s->b->ends[end];
	uint32_t bytes = BED_GRAIN << draw(s, 6), elements = 1 + draw(s, 8);
	struct push_pool_config c = { e->memory + e->memory_used, elements, bytes, 0 };
	uint32_t index;

	if ((size_t)bytes * elements > BED_MEMORY - e->memory_used ||
	    push_pool_open(e->link, &c, &index) != WEFT_OK)
		return;
	e->memory_used += (size_t)bytes * elements;
	e->pools[index] = c;
	s->is_open[end][index] = true;
}

static void send_packet(struct swarm *s, int end)
{
	if (s->sent[end] - s->came[1 - end] < 40 &&
	    bed_packet(s->b, end, 14 + draw(s, 1500), s->sent[end]) == WEFT_OK)
		s->sent[end]++;
}

static void step(struct swarm *s)
{
	int end = (int)draw(s, 2);
	struct push_link *l = s->b->ends[end].link;

	switch (draw(s, 24)) {
	case 0:
		open_pool(s, end);
		break;
	case 1:
		if (draw(s, 4) == 0)
			(void)push_pool_close(l, draw(s, 4));
		break;
	case 2:
		if (draw(s, 4) == 0)
			(void)push_pool_release(l, draw(s, 4));
		break;
	case 3:
		s->b->now_ns += draw(s, 100) * BED_MS / 10;
		push_expire(l, s->b->now_ns);
		break;
	case 4:
	case 5:
	case 6:
		send_packet(s, end);
		break;
	case 7:
	case 8:
	case 9:
		give_back(s, end);
		break;
	case 10:
	case 11:
		bed_done(s->b, end);
		break;
	case 12:
	case 13:
	case 14:
	case 15:
	case 16:
	case 17:
		(void)bed_act(s->b, end);
		break;
	default:
		(void)bed_deliver(s->b, end);
		break;
	}
	look(s, end);
}

/* Everything that can still happen does. */
static void settle(struct swarm *s)
{
	for (int i = 0; i < 400; i++) {
		int end = i % 2;

		while (bed_act(s->b, end) || bed_deliver(s->b, end))
			continue;
		bed_done(s->b, end);
		look(s, end);
		while (s->kept_count[end] > 0)
			give_back(s, end);
	}
	bed_run(s->b);
	look(s, 0);
	look(s, 1);
}

static void swarm_begin(struct swarm *s, uint64_t seed)
{
	memset(s, 0, sizeof(*s));
	s->random = (struct prng){ .state = seed };
	s->b = bed_create(PUSH_MODE_RDMA);
	s->b->is_eager = false;
	for (int i = 0; i < 2; i++) {
		s->b->ends[i].config.has_immediate = draw(s, 4) > 0;
		s->b->ends[i].config.inline_bytes = draw(s, 3) == 0 ? 64 : 0;
		s->b->ends[i].config.own_elements_max = 40;
		s->b->ends[i].config.ping_after_ns = UINT64_MAX;
	}
	bed_make(s->b);
	for (int i = 0; i < 2; i++)
		open_pool(s, i);
	bed_up(s->b);
	s->b->is_held = true;
}

/* In order: both ends, all pools. Or the connection is lost, at both. */
static void swarm_end(struct swarm *s, bool is_lost)
{
	struct bed *b = s->b;

	for (int i = 0; i < 2; i++) {
		if (is_lost)
			push_lost(b->ends[i].link, WEFT_R_PEER_GONE);
		else
			push_end(b->ends[i].link, b->now_ns);
	}
	b->is_silent = is_lost;
	if (is_lost)
		b->ends[0].item_count = b->ends[1].item_count = 0;
	settle(s);
	/* The end that is done first closes the connection. */
	for (int i = 0; i < 2; i++) {
		if (push_link_state(b->ends[1 - i].link) == PUSH_ENDED)
			push_lost(b->ends[i].link, WEFT_R_PUSH_ENDED);
	}
	settle(s);
	for (int i = 0; i < 2; i++) {
		MUST_EQ(push_link_state(b->ends[i].link), PUSH_ENDED);
		MUST_EQ(b->ends[i].refused, WEFT_OK);
		MUST_EQ(bed_count(b, i, PUSH_EVENT_SENT), s->sent[i]);
		MUST_EQ(bed_view(b, i).own_pools, 0);
		for (uint32_t pool = 0; pool < BED_POOLS; pool++)
			REQUIRE(!b->ends[i].is_registered[pool] && !s->is_open[i][pool]);
		MUST_EQ(bed_count(b, i, PUSH_EVENT_ENDED), 1);
	}
	bed_destroy(b);
}

TEST(test_push_24_push_17_no_element_is_written_that_is_not_the_initiators)
{
	for (uint64_t seed = 1; seed <= HISTORIES(SEEDS); seed++) {
		struct swarm s;

		harness_note("seed %llu", (unsigned long long)seed);
		harness_perturb(seed);
		swarm_begin(&s, seed);
		for (uint32_t i = draw(&s, STEPS); i > 0; i--)
			step(&s);
		swarm_end(&s, seed % 3 == 0);
	}
}

/* With a pool at each end that lasts, every packet arrives. */
TEST(test_push_03_every_packet_comes_once_and_in_order)
{
	for (uint64_t seed = 1; seed <= HISTORIES(SEEDS); seed++) {
		struct swarm s;

		harness_note("seed %llu", (unsigned long long)seed);
		harness_perturb(seed);
		swarm_begin(&s, seed);
		for (uint32_t i = draw(&s, STEPS); i > 0; i--)
			step(&s);
		for (int end = 0; end < 2; end++) {
			for (uint32_t pool = 0; pool < 16; pool++)
				(void)push_pool_close(s.b->ends[end].link, pool);
		}
		settle(&s);
		bed_pool(s.b, 0, 8, 2048);
		bed_pool(s.b, 1, 8, 2048);
		settle(&s);
		for (int end = 0; end < 2; end++)
			MUST_EQ(s.came[1 - end], s.sent[end]);
		swarm_end(&s, false);
	}
}
