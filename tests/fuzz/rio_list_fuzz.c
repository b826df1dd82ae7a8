/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scatter-gather lists of arbitrary bytes. Each element by itself: what is accepted encodes to the
 * same bytes. Whole lists: the first byte says how many words the first sequence has; what is
 * chained is fetched out of the input, its address being an offset into it. Assembly ends, and what
 * is whole keeps the promises of rio/list.h.
 */
#include <string.h>

#include "base/check.h"
#include "rio/list.h"

static void try_elements(const uint8_t *data, size_t size)
{
	struct sgl_attributes in = sgl_attributes_default();
	struct rd r = rd_of(data, size);
	struct sgl_element e;

	for (;;) {
		const uint8_t *start = r.at;
		uint8_t bytes[4096];
		struct wr w = wr_of(bytes, sizeof(bytes));

		memset(&e, 0, sizeof(e));
		if (sgl_next(&e, &r, &in) != SGL_OK) {
			CHECK(r.at == start);
			return;
		}
		CHECK((uint64_t)(r.at - start) == sgl_bytes(&e, &in));
		sgl_put(&e, &in, &w);
		CHECK(w.is_short == (sgl_bytes(&e, &in) > sizeof(bytes)));
		CHECK(w.is_short || memcmp(bytes, start, (size_t)(w.at - bytes)) == 0);
		if (e.kind == SGL_ATTRIBUTES)
			in = e.attributes;
	}
}

/* One transaction's segments; adds the lengths up. */
static uint64_t walk_segments(struct rio_walk *walk, const struct sgl_transaction *t)
{
	struct rio_segment s;
	uint64_t sum = 0;

	while (rio_walk_segment(walk, &s)) {
		CHECK(s.length > 0);
		CHECK(s.where != RIO_IMMEDIATE || t->operation == SGL_WRITE);
		CHECK(s.where != RIO_REMOTE || !platform_is_none(s.platform));
		if (s.where == RIO_IMMEDIATE) { /* every byte is there */
			volatile uint8_t last = s.data[s.length - 1];

			(void)last;
		}
		sum += s.length;
	}
	return sum;
}

static void walk_list(const struct rio_list *l)
{
	struct sgl_transaction t;
	struct rio_walk walk;
	uint32_t count = 0;
	uint64_t bytes = 0;

	rio_walk_start(&walk, l);
	while (rio_walk_transaction(&walk, &t)) {
		uint64_t sum = walk_segments(&walk, &t);

		CHECK(t.operation == SGL_READ || t.operation == SGL_WRITE ? sum == t.length
									  : sum == 0);
		CHECK(t.length <= UINT64_MAX - t.offset);
		bytes += t.length;
		count++;
	}
	CHECK(count > 0 && count == rio_list_transactions(l) && bytes == rio_list_data_bytes(l));
}

/* In one sequence it is a list again, and the same. */
static void try_flat(const struct rio_list *l)
{
	const struct rio_list_limits limits = rio_list_limits_default();
	static uint8_t flat[256 << 10], again[256 << 10];
	struct wr w = wr_of(flat, sizeof(flat)), v = wr_of(again, sizeof(again));
	struct rio_list *copy = rio_list_create(&limits);

	CHECK(copy);
	rio_list_flat(l, &w);
	CHECK(!w.is_short && (size_t)(w.at - flat) == rio_list_flat_bytes(l));
	CHECK(rio_list_take(copy, flat, (size_t)(w.at - flat)) == WEFT_OK);
	CHECK(rio_list_is_whole(copy));
	rio_list_flat(copy, &v);
	CHECK(v.at - again == w.at - flat && memcmp(flat, again, (size_t)(w.at - flat)) == 0);
	rio_list_destroy(copy);
}

static void try_list(struct rio_list *l, const uint8_t *data, size_t size)
{
	size_t first = size > 0 ? (size_t)data[0] * SGL_WORD_BYTES : 0, rounds = 0;
	enum weft_reason reason;
	struct sgl_chain chain;

	if (size == 0 || first > size - 1)
		first = size > 0 ? size - 1 : 0;
	reason = rio_list_take(l, data + (size > 0), first);
	while (!reason && rio_list_wants(l, &chain)) {
		CHECK(++rounds <= rio_list_limits_default().chained);
		if (chain.address > size || chain.length > size - chain.address)
			return; /* there is nothing to fetch there */
		reason = rio_list_take(l, data + chain.address, chain.length);
	}
	CHECK(rio_list_is_whole(l) == (reason == WEFT_OK));
	if (reason)
		return;
	walk_list(l);
	try_flat(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct rio_list_limits limits = rio_list_limits_default();
	struct rio_list *l = rio_list_create(&limits);

	CHECK(l);
	try_elements(data, size);
	try_list(l, data, size);
	rio_list_destroy(l);
	return 0;
}
