/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A requester under everything that can happen to it, in an order that a seed says. What must hold
 * is judged from outside: by what it asked the world to do, not by what it believes.
 */
#include <stdlib.h>
#include <string.h>

#include "rio/requester.h"
#include "test.h"
#include "unit/rio/asker_fixture.h"

enum {
	SEEDS = HISTORIES(400),
	STEPS = 600,
	TRACKED = 512, /* requests in all */
	FRAGMENTS_MAX = 5,
	TAG_SHIFT = 8 /* a window's tag says whose it is */
};

enum with_owner { NEVER_SAID, WITH_OWNER, ANSWERED };

/* A request, as the judge knows it. */
struct tracked {
	uint64_t id;
	bool has_ended;
	enum with_owner where;
	uint32_t owner;	 /* which one it was said to */
	uint32_t status; /* that he gave */
	bool is_cancelled;
	struct sgl_chain
		chain; /* where the owner finds its list; length 0: it was in the message */
	uint64_t sum;  /* of the list there */
};

struct judge {
	struct asker_world w;
	struct prng prng;
	struct tracked requests[TRACKED];
	uint32_t count, ended;
	uint32_t allowed, list_max; /* by the owner */
	uint32_t with_owner;
	bool has_owner;
	uint32_t well, timeouts, cancels, leavings, refused, longs, lates; /* how they ended */
};

static uint32_t below(struct judge *j, uint32_t bound)
{
	return prng_below(&j->prng, bound);
}

static struct tracked *find(struct judge *j, uint64_t id)
{
	for (uint32_t i = 0; i < j->count; i++) {
		if (j->requests[i].id == id)
			return &j->requests[i];
	}
	asker_fail(&j->w, "an act for an unknown request");
	return NULL;
}

/* ---- What happens to it --------------------------------------------------------------------- */

static void owner_comes(struct judge *j)
{
	j->allowed = below(j, 6);
	j->list_max = below(j, 2) ? 8144 : 36 + below(j, 200);
	j->has_owner = true;
	j->with_owner = 0;
	asker_owner_comes(&j->w, j->allowed, j->list_max);
}

static void owner_leaves(struct judge *j)
{
	j->has_owner = false;
	j->with_owner = 0;
	rio_requester_owner_left(j->w.q);
}

static void asks(struct judge *j)
{
	struct rio_fragment f[FRAGMENTS_MAX];
	uint32_t count = below(j, FRAGMENTS_MAX + 1);
	struct rio_wanted what[2] = { { .is = { .operation = below(j, 2) ? SGL_READ : SGL_WRITE,
						.device = 1 },
					.fragments = f,
					.fragment_count = count },
				      { .is = { .operation = SGL_FLUSH, .device = 1 } } };
	struct rio_ask a = { .wanted = count > 0 ? what : &what[1],
			     .count = count > 0 ? 1 + below(j, 2) : 1,
			     .timeout_ns = below(j, 2) ? 0 : 1 + below(j, 800) * 1000000ULL };
	enum weft_reason r;
	uint64_t id;

	if (j->count == TRACKED)
		return;
	for (uint32_t i = 0; i < count; i++) {
		f[i] = (struct rio_fragment){ .tag = j->count << TAG_SHIFT | i,
					      .length = 1 + below(j, 9000),
					      .address = prng_next(&j->prng) >> 8 };
		what[0].is.length += f[i].length;
	}
	a.context = &j->requests[j->count];
	r = rio_requester_ask(j->w.q, &a, j->w.now_ns, &id);
	if (r == WEFT_OK)
		j->requests[j->count++].id = id;
	else if (r != (j->has_owner ? WEFT_R_BUSY : WEFT_R_RIO_OWNER_LEFT))
		asker_fail(&j->w, "a good request is refused");
}

static void cancels(struct judge *j)
{
	if (j->count > 0)
		rio_requester_cancel(j->w.q, j->requests[below(j, j->count)].id);
}

/* Of what the owner would read there now. */
static uint64_t list_sum(const struct judge *j, const struct sgl_chain *chain)
{
	uint64_t sum = chain->length;

	for (uint32_t i = 0; i < chain->length; i++)
		sum = prng_mix(sum ^ j->w.lists[chain->address - ASKER_LISTS_ADDRESS + i]);
	return sum;
}

static void note_list(struct judge *j, struct tracked *t, const struct heard *h)
{
	const struct sgl_attributes in = sgl_attributes_default();
	struct rd r = rd_of(h->list, h->length);
	struct sgl_element e;

	while (r.at != r.end && sgl_next(&e, &r, &in) == SGL_OK) {
		if (e.kind == SGL_CHAIN)
			t->chain = e.chain;
	}
	t->sum = list_sum(j, &t->chain);
	j->longs += t->chain.length > 0;
}

/* Of any that he has, in any order; those that timed out here are among them. */
static void owner_answers(struct judge *j)
{
	static const enum weft_reason reasons[] = { WEFT_OK, WEFT_OK, WEFT_R_RIO_DENIED,
						    WEFT_R_RIO_CANCELLED };
	uint32_t nth = j->with_owner > 0 ? below(j, j->with_owner) : 0;

	for (uint32_t i = 0; j->has_owner && i < j->count; i++) {
		struct tracked *t = &j->requests[i];

		if (t->where != WITH_OWNER || t->owner != j->w.owners || nth-- > 0)
			continue;
		t->where = ANSWERED;
		t->status = (uint32_t)reasons[below(j, 4)];
		j->with_owner--;
		j->lates += t->has_ended;
		if (list_sum(j, &t->chain) != t->sum)
			asker_fail(&j->w, "a list was changed that the owner may read");
		if (asker_status(&j->w, t->id, (enum weft_reason)t->status) != WEFT_OK)
			asker_fail(&j->w, "a status is refused that was owed");
		return;
	}
}

/* A status that is not owed: he is sent away for it. */
static void owner_errs(struct judge *j)
{
	uint64_t id = j->count > 0 ? j->requests[below(j, j->count)].id : 1;
	struct tracked *t = j->count > 0 ? find(j, id) : NULL;

	if (!j->has_owner || (t && t->where == WITH_OWNER && t->owner == j->w.owners))
		return;
	if (asker_status(&j->w, id, WEFT_OK) != WEFT_R_RIO_UNEXPECTED)
		asker_fail(&j->w, "a status is taken that was not owed");
	owner_leaves(j);
}

static void window_answers(struct judge *j)
{
	uint32_t from = below(j, ASKER_WINDOWS);

	for (uint32_t i = 0; i < ASKER_WINDOWS; i++) {
		uint32_t at = (from + i) % ASKER_WINDOWS;

		if (j->w.panes[at].state == PANE_ASKED) {
			asker_expose(&j->w, at, below(j, 20) ? WEFT_OK : WEFT_R_NO_MEMORY);
			return;
		}
	}
}

/* ---- What it does --------------------------------------------------------------------------- */

static void judge_said(struct judge *j, const struct heard *h)
{
	struct tracked *t = find(j, h->id);

	if (!t)
		return;
	if (h->type == RIO_CANCEL) {
		if (t->where != WITH_OWNER || t->owner != j->w.owners || t->is_cancelled)
			asker_fail(&j->w, "a request is cancelled that the owner has not");
		t->is_cancelled = true;
		return;
	}
	if (h->type != RIO_REQUEST || t->where != NEVER_SAID || t->has_ended)
		asker_fail(&j->w, "it is said twice, or too late");
	if (!asker_list_is_open(&j->w, h))
		asker_fail(&j->w, "a request names a window that is not open");
	if (h->length > j->list_max || h->timeout_ms == 0)
		asker_fail(&j->w, "a request is not as the owner has it");
	note_list(j, t, h);
	t->where = WITH_OWNER;
	t->owner = j->w.owners;
	if (++j->with_owner > j->allowed)
		asker_fail(&j->w, "more is asked than the owner allows");
}

static bool acts(struct judge *j)
{
	uint32_t heard = j->w.heard_count;

	if (!asker_step(&j->w))
		return false;
	if (j->w.heard_count > heard)
		judge_said(j, &j->w.heard[heard % ASKER_HEARD_MAX]);
	return true;
}

static void judge_reason(struct judge *j, const struct tracked *t, uint32_t reason)
{
	bool is_answered = t->where == ANSWERED;

	j->well += reason == WEFT_OK;
	j->timeouts += reason == WEFT_R_RIO_TIMEOUT;
	j->cancels += reason == WEFT_R_RIO_CANCELLED;
	j->leavings += reason == WEFT_R_RIO_OWNER_LEFT;
	j->refused += reason == WEFT_R_NO_MEMORY;
	if (reason == WEFT_OK && (!is_answered || t->status != WEFT_OK))
		asker_fail(&j->w, "a request succeeded without a status");
	if (reason == WEFT_R_NO_MEMORY && t->where != NEVER_SAID)
		asker_fail(&j->w, "it was asked without its windows");
	if (reason == WEFT_R_RIO_CANCELLED && t->where == WITH_OWNER)
		asker_fail(&j->w, "it was cancelled while the owner has it");
}

static void takes_ended(struct judge *j)
{
	struct rio_ended e;
	struct tracked *t;

	if (!rio_requester_ended(j->w.q, &e))
		return;
	t = find(j, e.id);
	if (!t)
		return;
	if (t->has_ended || e.context != t)
		asker_fail(&j->w, "it ends twice");
	t->has_ended = true;
	j->ended++;
	judge_reason(j, t, e.reason);
	for (uint32_t i = 0; i < ASKER_WINDOWS; i++) {
		const struct pane_of *p = &j->w.panes[i];

		if (p->state != PANE_SHUT && p->tag >> TAG_SHIFT == (uint32_t)(t - j->requests))
			asker_fail(&j->w, "it has ended, and its window is open");
	}
}

static void happens(struct judge *j)
{
	uint32_t what = below(j, 1000);

	if (what < 150)
		asks(j);
	else if (what < 180)
		cancels(j);
	else if (what < 240)
		owner_answers(j);
	else if (what < 243)
		owner_errs(j);
	else if (what < 250)
		owner_leaves(j);
	else if (what < 290 && !j->has_owner)
		owner_comes(j);
	else if (what < 440)
		window_answers(j);
	else if (what < 480)
		j->w.now_ns += below(j, 400) * 1000000ULL;
	else if (what < 560)
		rio_requester_expire(j->w.q, j->w.now_ns);
	else if (what < 660)
		takes_ended(j);
	else
		acts(j);
}

/* All that is under way ends when there is no owner and windows open or do not. */
static void ends(struct judge *j)
{
	owner_leaves(j);
	for (int i = 0; i < 10 * TRACKED; i++) {
		acts(j);
		window_answers(j);
		takes_ended(j);
	}
	if (acts(j) || j->ended != j->count)
		asker_fail(&j->w, "something does not end");
	if (j->w.open_now != 0 || !rio_requester_is_idle(j->w.q))
		asker_fail(&j->w, "something is left");
	if (rio_requester_due(j->w.q) != UINT64_MAX)
		asker_fail(&j->w, "a timer is left");
}

TEST(test_rio_02i_every_request_ends_once_whatever_happens)
{
	uint32_t well = 0, timeouts = 0, cancelled = 0, leavings = 0, refused = 0, longs = 0,
		 lates = 0;
	struct judge *j = calloc(1, sizeof(*j));

	REQUIRE(j != NULL);
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		memset(j, 0, sizeof(*j));
		j->prng.state = seed;
		asker_open(&j->w, 0, 0);
		j->w.is_slow = true;
		owner_comes(j);
		for (int step = 0; step < STEPS && !j->w.failure; step++)
			happens(j);
		if (!j->w.failure)
			ends(j);
		if (j->w.failure)
			EXPECT_EQ(seed, UINT64_MAX); /* which one it was */
		well += j->well;
		timeouts += j->timeouts;
		cancelled += j->cancels;
		leavings += j->leavings;
		refused += j->refused;
		longs += j->longs;
		lates += j->lates;
		asker_close(&j->w);
	}
	/* The test is of use only if all of it has happened. */
	EXPECT(well > SEEDS && timeouts > SEEDS && cancelled > SEEDS && leavings > SEEDS);
	EXPECT(refused > SEEDS / 2 && longs > SEEDS && lates > SEEDS / 4);
	free(j);
}
