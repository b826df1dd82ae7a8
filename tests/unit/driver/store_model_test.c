/* SPDX-License-Identifier: BSD-2-Clause */
/* Trees of devices against a plain array, by random requests from seeds, many under way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "test.h"
#include "unit/driver/store_run.h"

enum {
	DEPTH = 64,
	BLOCKS_MAX = 2048,
	LENGTH_MAX = 24, /* blocks */
	SPANS = 6,
	STEPS = 1500,
	STEPS_ON_DISK = 400, /* a mirror syncs its marks for most writes */
	SEEDS = 3,
};

/* What a block may hold. */
enum block_state {
	BLOCK_KNOWN,
	BLOCK_DISCARDED, /* this or zeroes */
	BLOCK_ANY,	 /* a write to it failed */
};

struct slot {
	struct store_request request;
	struct span spans[SPANS];
	uint8_t *bytes; /* room for LENGTH_MAX blocks and some to be odd */
	bool is_used;
};

struct model {
	struct store_run run;
	struct prng prng;
	uint32_t block, blocks;
	uint8_t *bytes;
	enum block_state state[BLOCKS_MAX];
	uint32_t readers[BLOCKS_MAX];
	bool is_written[BLOCKS_MAX]; /* by a request that is under way */
	bool may_fail;
	bool is_on_disk; /* a sync may take as long as a thousand other requests: draw few */
	uint32_t failures;
	struct slot slots[DEPTH];
};

static void model_init(struct model *m, const struct device *d, uint64_t seed)
{
	const struct store_shape *shape = &device_store(d)->shape;

	*m = (struct model){ .run = { device_store(d), device_descriptor(d), 0 },
			     .prng = { seed },
			     .block = shape->block_bytes,
			     .blocks = (uint32_t)(shape->size_bytes / shape->block_bytes) };
	REQUIRE(m->blocks <= BLOCKS_MAX);
	m->bytes = calloc(1, (size_t)shape->size_bytes);
	for (int i = 0; i < DEPTH; i++)
		m->slots[i].bytes = malloc((LENGTH_MAX + 1) * (size_t)m->block);
}

static void model_fini(struct model *m)
{
	free(m->bytes);
	for (int i = 0; i < DEPTH; i++)
		free(m->slots[i].bytes);
}

/* Among requests under way only reads may share blocks. */
static bool is_free(const struct model *m, uint32_t first, uint32_t count, bool is_change)
{
	for (uint32_t b = first; b < first + count; b++) {
		if (m->is_written[b] || (is_change && m->readers[b] > 0))
			return false;
	}
	return true;
}

static void mark(struct model *m, const struct store_request *r, int by)
{
	for (uint64_t b = r->offset / m->block; b < (r->offset + r->length) / m->block; b++) {
		if (r->op == STORE_READ)
			m->readers[b] += (uint32_t)by;
		else
			m->is_written[b] = by > 0;
	}
}

/* Pieces of all lengths, at addresses that fit nothing, or just one piece. */
static void cut(struct model *m, struct slot *s)
{
	uint32_t count = 1 + prng_below(&m->prng, SPANS);
	uint8_t *at = s->bytes + (prng_below(&m->prng, 2) ? 0 : prng_below(&m->prng, m->block));
	size_t rest = (size_t)s->request.length;

	for (uint32_t i = 0; i < count; i++) {
		size_t piece = i + 1 == count ? rest : prng_below(&m->prng, (uint32_t)rest + 1);

		s->spans[i] = (struct span){ at, piece };
		at += piece;
		rest -= piece;
	}
	s->request.spans = s->spans;
	s->request.span_count = count;
}

static void fill(struct model *m, struct slot *s)
{
	for (uint32_t i = 0; i < s->request.span_count; i++) {
		const struct span *span = &s->spans[i];
		uint64_t word;

		for (size_t n = 0; n < span->length; n += sizeof(word)) {
			size_t rest = span->length - n;

			word = prng_next(&m->prng);
			memcpy(span->bytes + n, &word, rest < sizeof(word) ? rest : sizeof(word));
		}
	}
}

static bool may_sync(struct model *m)
{
	return !m->is_on_disk || prng_below(&m->prng, 16) == 0;
}

static struct store_request draw(struct model *m)
{
	static const enum store_op ops[] = { STORE_READ,  STORE_READ,	      STORE_WRITE,
					     STORE_WRITE, STORE_WRITE_ZEROES, STORE_DISCARD,
					     STORE_FLUSH };
	struct store_request r = { .op = ops[prng_below(&m->prng, 7)] };
	uint32_t count = 1 + prng_below(&m->prng, LENGTH_MAX);
	uint32_t first = prng_below(&m->prng, m->blocks - count + 1);

	if (r.op == STORE_FLUSH) {
		if (!may_sync(m))
			r.op = STORE_OP_COUNT;
		return r;
	}
	r.offset = (uint64_t)first * m->block;
	r.length = (uint64_t)count * m->block;
	if (r.op == STORE_WRITE || r.op == STORE_WRITE_ZEROES)
		r.flags = prng_below(&m->prng, 4) == 0 && may_sync(m) ? STORE_FUA : 0;
	if (!is_free(m, first, count, r.op != STORE_READ))
		r.op = STORE_OP_COUNT;
	return r;
}

static void begin(struct model *m)
{
	struct slot *s = m->slots;

	while (s->is_used)
		s++;
	s->request = draw(m);
	if (s->request.op == STORE_OP_COUNT)
		return;
	if (s->request.op == STORE_READ || s->request.op == STORE_WRITE)
		cut(m, s);
	if (s->request.op == STORE_WRITE)
		fill(m, s);
	s->is_used = true;
	mark(m, &s->request, 1);
	REQUIRE(store_submit(m->run.store, &s->request, m->run.now_ns) == WEFT_OK);
}

/* Of one block. */
static void check_piece(const struct model *m, uint64_t at, const uint8_t *got, size_t length)
{
	enum block_state state = m->state[at / m->block];

	if (state == BLOCK_ANY || memcmp(got, m->bytes + at, length) == 0)
		return;
	for (size_t i = 0; i < length; i++)
		REQUIRE(got[i] == m->bytes[at + i] || (state == BLOCK_DISCARDED && got[i] == 0));
}

static void check(const struct model *m, uint64_t at, const uint8_t *got, size_t length)
{
	while (length > 0) {
		size_t piece = m->block - (size_t)(at % m->block);

		if (piece > length)
			piece = length;
		check_piece(m, at, got, piece);
		at += piece;
		got += piece;
		length -= piece;
	}
}

static void moved(struct model *m, const struct store_request *r)
{
	uint64_t at = r->offset;

	for (uint32_t i = 0; i < r->span_count; i++) {
		const struct span *span = &r->spans[i];

		if (r->op == STORE_READ)
			check(m, at, span->bytes, span->length);
		else if (span->length > 0)
			memcpy(m->bytes + at, span->bytes, span->length);
		at += span->length;
	}
}

static void end(struct model *m)
{
	struct store_request *r = store_run_wait(&m->run);
	struct slot *s = CONTAINER_OF(r, struct slot, request);
	enum block_state state = BLOCK_KNOWN;

	REQUIRE(s->is_used);
	s->is_used = false;
	mark(m, r, -1);
	REQUIRE(r->reason == WEFT_OK || m->may_fail);
	m->failures += r->reason != WEFT_OK;
	if (r->reason == WEFT_OK)
		moved(m, r);
	else
		state = BLOCK_ANY;
	if (r->op == STORE_READ || r->op == STORE_FLUSH)
		return;
	if (r->op == STORE_WRITE_ZEROES)
		memset(m->bytes + r->offset, 0, (size_t)r->length);
	else if (r->op == STORE_DISCARD && state == BLOCK_KNOWN)
		state = BLOCK_DISCARDED;
	for (uint64_t b = r->offset / m->block; b < (r->offset + r->length) / m->block; b++) {
		if (!(state == BLOCK_DISCARDED && m->state[b] == BLOCK_ANY))
			m->state[b] = state;
	}
}

static void play(struct model *m, uint32_t depth)
{
	int steps = m->is_on_disk ? STEPS_ON_DISK : STEPS;

	for (int step = 0; step < steps; step++) {
		if (m->run.store->under_way < depth && prng_below(&m->prng, 8) > 0)
			begin(m);
		else if (m->run.store->under_way > 0)
			end(m);
	}
	while (m->run.store->under_way > 0)
		end(m);
}

static void check_all(struct model *m)
{
	uint8_t *all = malloc((size_t)m->blocks * m->block);

	REQUIRE(store_run_op(&m->run, STORE_READ, 0, all, (uint64_t)m->blocks * m->block) ==
		WEFT_OK);
	check(m, 0, all, (size_t)m->blocks * m->block);
	free(all);
}

/* Each @ of the text stands for a folder. Files in it are kept from seed to seed. */
static void play_tree(const char *format, bool may_fail, bool is_kept)
{
	static const uint32_t depths[SEEDS] = { 1, 8, DEPTH };
	static struct model m;
	char folder[64], text[600], *at = text;
	struct device_refusal why;
	struct device *d;

	if (strstr(format, "direct"))
		store_folder_make_on_disk(folder);
	else
		store_folder_make(folder);
	for (; *format; format++) {
		if (*format == '@')
			at += snprintf(at, 64, "%s", folder);
		else
			*at++ = *format;
	}
	*at = '\0';
	for (int i = 0; i < SEEDS; i++) {
		if (device_open(text, &d, &why) != WEFT_OK)
			fprintf(stderr, "%s\n", why.text);
		REQUIRE(why.reason == WEFT_OK);
		if (i == 0 || !is_kept)
			model_init(&m, d, (uint64_t)i + 1);
		m.run = (struct store_run){ device_store(d), device_descriptor(d), m.run.now_ns };
		m.may_fail = may_fail;
		m.is_on_disk = is_kept;
		play(&m, depths[i]);
		REQUIRE((m.failures > 0) == may_fail);
		if (!may_fail)
			check_all(&m);
		device_close(d);
		if (!is_kept || i + 1 == SEEDS)
			model_fini(&m);
	}
	store_folder_remove(folder);
}

TEST(test_store_model_memory)
{
	play_tree("mem:128k", false, false);
	play_tree("mem:1M,block=4096", false, false);
}

TEST(test_store_model_stripe)
{
	play_tree("stripe:512(mem:32k,mem:32k,mem:32k)", false, false);
	play_tree("stripe:12k(mem:300k,block=4096,mem:256k)", false, false);
}

TEST(test_store_model_delay)
{
	play_tree("delay:1ms(stripe:1k(mem:64k,delay:2ms(mem:64k)))", false, false);
}

TEST(test_store_model_mirror_hides_a_failing_member)
{
	play_tree("mirror(fault:seed=3,error=0.01,torn=0.01(mem:128k),mem:128k)", false, false);
	play_tree("mirror(mem:128k,delay:3us(fault:seed=4,crash=100(mem:128k)))", false, false);
}

TEST(test_store_model_volatile_cache)
{
	play_tree("volatile(mem:128k)", false, false);
	play_tree("volatile:seed=3,keep=0.4,room=20k(delay:2us(mem:128k))", false, false);
	play_tree("volatile:seed=4,keep=0.1(fault:seed=4,error=0.01(mem:1M,block=4096))", true,
		  false);
	play_tree("volatile:seed=5,keep=0.3,room=64k(file:@/a,size=256k,threads)", false, true);
}

TEST(test_store_model_faults)
{
	play_tree("fault:seed=7,error=0.03,torn=0.05(stripe:4k(mem:64k,mem:64k))", true, false);
	play_tree("stripe:1k(mem:64k,fault:at=9k+1(mem:64k))", true, false);
}

TEST(test_store_model_file_by_threads)
{
	play_tree("file:@/a,size=256k,threads", false, true);
	play_tree("file:@/b,size=2M,block=4096,threads,direct", false, true);
}

TEST(test_store_model_file_by_uring)
{
	if (!store_has_uring())
		SKIP("io_uring is not to be had here");
	play_tree("file:@/a,size=256k,uring", false, true);
	play_tree("file:@/b,size=2M,block=4096,uring,direct", false, true);
	play_tree("file:@/c,size=256k,block=512,uring,direct", false, true);
}

TEST(test_store_model_trees_of_files)
{
	play_tree("mirror(file:@/a,size=256k,threads,file:@/b,size=256k)", false, true);
	play_tree("stripe:8k(file:@/c,size=128k,block=4096,threads,file:@/d,size=128k,direct)",
		  false, true);
	play_tree("delay:1us(mirror(stripe:4k(file:@/e,size=64k,file:@/f,size=64k)))", false, true);
}
