/* SPDX-License-Identifier: BSD-2-Clause */
/* FetchOp (QP-07d): atomic towards the owner's own threads too, which may use the same word. */
#include "mem/mem.h"

#include "base/check.h"

/*
 * RFC 7306 section 5.1.2: a set bit of the mask is the highest of its field, out of which nothing
 * is carried; no bits: one field of 64.
 */
static uint64_t add_fields(uint64_t a, uint64_t b, uint64_t tops)
{
	/* Without the top bits nothing is carried out of a field; they are added without carry. */
	return ((a & ~tops) + (b & ~tops)) ^ ((a ^ b) & tops);
}

uint64_t mem_fetch_add(uint64_t *word, uint64_t add, uint64_t mask)
{
	uint64_t old = __atomic_load_n(word, __ATOMIC_SEQ_CST);

	/* Bound: another thread's success is what makes this one try again. */
	while (!__atomic_compare_exchange_n(word, &old, add_fields(old, add, mask), false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	return old;
}

uint64_t mem_compare_swap(uint64_t *word, const struct mem_swap *s)
{
	uint64_t old = __atomic_load_n(word, __ATOMIC_SEQ_CST);

	do {
		if ((old ^ s->compare) & s->compare_mask)
			return old;
	} while (!__atomic_compare_exchange_n(word, &old,
					      (old & ~s->swap_mask) | (s->swap & s->swap_mask),
					      false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	return old;
}

struct run {
	const struct mem_atomic *op;
	uint64_t *word, original;
};

static void run(void *argument)
{
	struct run *r = argument;

	r->original = r->op->is_add ? mem_fetch_add(r->word, r->op->add, r->op->mask)
				    : mem_compare_swap(r->word, &r->op->swap);
}

bool mem_atomic_run(const struct mem_atomic *op, struct mem_grant *grant, uint64_t *original)
{
	struct run r = { .op = op };
	struct mem_span word;

	CHECK(mem_grant_spans(grant, &word, 1) == 1 && word.length == sizeof(*r.word));
	r.word = (uint64_t *)(void *)word.bytes;
	if (!mem_run(word.paging, word.bytes, word.length, run, &r))
		return false;
	*original = r.original;
	return true;
}
