/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/roles/io_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/clock.h"

enum { BATCH = 64, PAGE = 4096, SAMPLES_MAX = 1 << 20 };

static const uint64_t forever_ns = UINT64_MAX / 2;

enum weft_reason io_run_open(struct io_run *r, struct weft_rio_requester *q, uint32_t block,
			     uint32_t depth)
{
	size_t bytes = (size_t)block * depth;

	*r = (struct io_run){ .requester = q, .block = block, .depth = depth };
	r->memory = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
	if (!r->memory)
		return WEFT_R_NO_MEMORY;
	memset(r->memory, 0, bytes); /* pages that are there from the start */
	return weft_rio_memory_add(q, r->memory, bytes, &r->tag);
}

void io_run_close(struct io_run *r)
{
	if (r->tag)
		weft_rio_memory_remove(r->requester, r->tag);
	free(r->memory);
}

/* ---- Blocks --------------------------------------------------------------------------------- */

/* A buffer on its way. */
struct slot {
	uint64_t at; /* in the device, of the range that counts */
	uint32_t length;
	uint64_t start_ns;
	bool is_second; /* of a copy: it is being written */
	bool is_done;
};

struct pass {
	struct io_run *run;
	struct io_outcome *o;
	struct slot slots[IO_DEPTH_MAX];
	uint32_t under_way;
};

static uint8_t *buffer(const struct pass *p, const struct slot *s)
{
	return p->run->memory + (size_t)(s - p->slots) * p->run->block;
}

static void fail(struct pass *p, enum weft_reason reason, uint64_t at, const char *text)
{
	if (p->o->reason != WEFT_OK)
		return;
	p->o->reason = reason;
	p->o->at = at;
	strncpy(p->o->text, text, sizeof(p->o->text) - 1);
}

static void submit_request(struct pass *p, struct slot *s, const struct weft_rio_transaction *t,
			   uint32_t count)
{
	enum weft_reason r = weft_rio_request_submit(
		p->run->requester, &(struct weft_rio_request){ .transactions = t,
							       .transaction_count = count,
							       .context = s });

	s->is_done = false;
	if (r == WEFT_OK)
		p->under_way++;
	else
		fail(p, r, t->offset, "");
}

static void submit(struct pass *p, struct slot *s, enum weft_rio_operation operation,
		   const struct weft_rio_device *device, uint64_t at)
{
	const struct weft_rio_sge segment = { .memory = buffer(p, s),
					      .length = s->length,
					      .tag = p->run->tag };
	struct weft_rio_transaction t = {
		.operation = operation, .device = device->number, .offset = at, .length = s->length
	};

	if (p->run->is_immediate && operation == WEFT_RIO_WRITE) {
		t.data = segment.memory;
	} else {
		t.sges = &segment;
		t.sge_count = 1;
	}
	submit_request(p, s, &t, 1);
}

/* Waits for some; for each that has ended well calls next. */
static void gather(struct pass *p, void (*next)(struct pass *p, struct slot *s, void *context),
		   void *context)
{
	struct weft_rio_result ended[BATCH];
	uint32_t count = 0;
	enum weft_reason r = weft_rio_request_wait(p->run->requester, forever_ns, ended, BATCH,
						   &count);

	if (r != WEFT_OK)
		fail(p, r, 0, "");
	for (uint32_t i = 0; i < count; i++) {
		struct slot *s = ended[i].context;

		p->under_way--;
		s->is_done = true;
		if (ended[i].reason == WEFT_OK)
			next(p, s, context);
		else
			fail(p, ended[i].reason, s->at, ended[i].text);
	}
}

static void nothing(struct pass *p, struct slot *s, void *context)
{
	(void)p;
	(void)s;
	(void)context;
}

/* What is under way ends, whatever has happened. */
static void drain(struct pass *p)
{
	while (p->under_way > 0)
		gather(p, nothing, NULL);
}

static uint32_t length_at(const struct io_run *r, const struct io_range *range, uint64_t done)
{
	uint64_t left = range->length - done;

	return left < r->block ? (uint32_t)left : r->block;
}

static void tell(const struct pass *p, uint64_t done, uint64_t all)
{
	if (p->run->tell)
		p->run->tell(p->run->context, done, all);
}

static struct pass *pass_begin(struct io_run *r, struct io_outcome *o)
{
	struct pass *p = calloc(1, sizeof(*p));

	*o = (struct io_outcome){ 0 };
	if (!p) {
		o->reason = WEFT_R_NO_MEMORY;
		return NULL;
	}
	p->run = r;
	p->o = o;
	return p;
}

static void pass_end(struct pass *p)
{
	drain(p);
	free(p);
}

/* ---- Files: in order, for they may be pipes -------------------------------------------------- */

bool io_file_put(int file, const uint8_t *bytes, size_t length)
{
	while (length > 0) {
		ssize_t n = write(file, bytes, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		bytes += n;
		length -= (size_t)n;
	}
	return true;
}

ssize_t io_file_get(int file, uint8_t *bytes, size_t length)
{
	size_t done = 0;

	while (done < length) {
		ssize_t n = read(file, bytes + done, length - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static void file_failed(struct pass *p, uint64_t at)
{
	p->o->error = errno;
	fail(p, WEFT_R_SYSTEM, at, "");
}

void io_run_read(struct io_run *r, const struct io_range *from, int file, struct io_outcome *o)
{
	struct pass *p = pass_begin(r, o);
	uint64_t asked = 0, first = 0; /* blocks; the oldest one of those asked for */

	if (!p)
		return;
	while (o->done_bytes < from->length && o->reason == WEFT_OK) {
		struct slot *s;

		while (asked * r->block < from->length && asked - first < r->depth &&
		       o->reason == WEFT_OK) {
			s = &p->slots[asked % r->depth];
			s->at = from->at + asked * r->block;
			s->length = length_at(r, from, asked * r->block);
			submit(p, s, WEFT_RIO_READ, from->device, s->at);
			asked++;
		}
		s = &p->slots[first % r->depth];
		while (!s->is_done && o->reason == WEFT_OK)
			gather(p, nothing, NULL);
		if (o->reason != WEFT_OK)
			break;
		if (!io_file_put(file, buffer(p, s), s->length))
			file_failed(p, s->at);
		o->done_bytes += s->length;
		first++;
		tell(p, o->done_bytes, from->length);
	}
	pass_end(p);
}

static struct slot *free_slot(struct pass *p, struct slot *from)
{
	for (uint32_t i = 0; i < p->run->depth; i++) {
		struct slot *s = &p->slots[((uint32_t)(from - p->slots) + i) % p->run->depth];

		if (s->is_done || s->length == 0)
			return s;
	}
	return NULL;
}

static void count_done(struct pass *p, struct slot *s, void *context)
{
	(void)context;
	p->o->done_bytes += s->length;
}

/* The last block of a file is filled up with zeroes: devices have whole blocks. */
static uint32_t fill_up(const struct io_range *to, uint8_t *bytes, uint32_t length)
{
	uint32_t block = to->device->block_bytes;
	uint32_t whole = (length + block - 1) / block * block;

	memset(bytes + length, 0, whole - length);
	return whole;
}

void io_run_write(struct io_run *r, const struct io_range *to, int file, struct io_outcome *o)
{
	struct pass *p = pass_begin(r, o);
	struct slot *s;
	uint64_t taken = 0;

	if (!p)
		return;
	s = p->slots;
	while (taken < to->length && o->reason == WEFT_OK) {
		ssize_t n;

		while (!(s = free_slot(p, s)) && o->reason == WEFT_OK) {
			s = p->slots;
			gather(p, count_done, NULL);
		}
		if (o->reason != WEFT_OK)
			break;
		n = io_file_get(file, buffer(p, s), length_at(r, to, taken));
		if (n < 0)
			file_failed(p, to->at + taken);
		if (n <= 0)
			break;
		s->at = to->at + taken;
		s->length = fill_up(to, buffer(p, s), (uint32_t)n);
		submit(p, s, WEFT_RIO_WRITE, to->device, s->at);
		taken += (uint64_t)n;
		tell(p, o->done_bytes, to->length);
	}
	while (p->under_way > 0)
		gather(p, count_done, NULL);
	free(p);
}

/* ---- Blocks in no order ---------------------------------------------------------------------- */

struct block_calls {
	void (*begin)(struct pass *p, struct slot *s, void *context);
	void (*next)(struct pass *p, struct slot *s, void *context); /* each time it has ended */
	void *context;
};

static void each_block(struct io_run *r, const struct io_range *range,
		       const struct block_calls *calls, struct io_outcome *o)
{
	struct pass *p = pass_begin(r, o);
	struct slot *s;
	uint64_t asked = 0;

	if (!p)
		return;
	while ((asked < range->length || p->under_way > 0) && o->reason == WEFT_OK) {
		while (asked < range->length && (s = free_slot(p, p->slots)) != NULL &&
		       o->reason == WEFT_OK) {
			s->at = range->at + asked;
			s->length = length_at(r, range, asked);
			calls->begin(p, s, calls->context);
			asked += s->length;
		}
		if (p->under_way > 0)
			gather(p, calls->next, calls->context);
		tell(p, o->done_bytes, range->length);
	}
	pass_end(p);
}

/* ---- Device to device ------------------------------------------------------------------------ */

struct copy {
	const struct io_range *from, *to;
};

/* RIO-14: one request reads into the I/O unit's own memory and writes from there. */
static void submit_inside(struct pass *p, struct slot *s, const struct copy *c)
{
	uint64_t at = p->run->inside + (uint64_t)(s - p->slots) * p->run->block;
	const struct weft_rio_sge there = { .memory = (void *)(uintptr_t)at,
					    .length = s->length,
					    .platform = c->from->device->iounit };
	struct weft_rio_transaction both[2] = {
		{ .operation = WEFT_RIO_READ, .device = c->from->device->number, .offset = s->at },
		{ .operation = WEFT_RIO_WRITE, .device = c->to->device->number },
	};

	both[1].offset = c->to->at + (s->at - c->from->at);
	for (int i = 0; i < 2; i++) {
		both[i].length = s->length;
		both[i].sges = &there;
		both[i].sge_count = 1;
	}
	s->is_second = true;
	submit_request(p, s, both, 2);
}

static void copy_next(struct pass *p, struct slot *s, void *context)
{
	const struct copy *c = context;

	if (s->is_second) {
		p->o->done_bytes += s->length;
		return;
	}
	s->is_second = true;
	submit(p, s, WEFT_RIO_WRITE, c->to->device, c->to->at + (s->at - c->from->at));
}

static void copy_begin(struct pass *p, struct slot *s, void *context)
{
	const struct copy *c = context;

	s->is_second = false;
	if (p->run->is_inside)
		submit_inside(p, s, c);
	else
		submit(p, s, WEFT_RIO_READ, c->from->device, s->at);
}

void io_run_copy(struct io_run *r, const struct io_range *from, const struct io_range *to,
		 struct io_outcome *o)
{
	struct copy c = { from, to };

	each_block(r, from, &(struct block_calls){ copy_begin, copy_next, &c }, o);
}

void io_run_order(struct io_run *r, enum weft_rio_operation operation, const struct io_range *range,
		  struct io_outcome *o)
{
	const struct weft_rio_transaction t = { .operation = operation,
						.device = range->device->number,
						.offset = range->at,
						.length = range->length };
	struct weft_rio_result ended = { 0 };

	*o = (struct io_outcome){ .at = range->at };
	o->reason = weft_rio_request_do(
		r->requester,
		&(struct weft_rio_request){ .transactions = &t, .transaction_count = 1 }, &ended);
	memcpy(o->text, ended.text, sizeof(o->text));
	if (o->reason == WEFT_OK)
		o->done_bytes = range->length;
}

/* ---- Memory of another requester ------------------------------------------------------------ */

struct lent {
	const struct io_range *range;
	const struct io_memory *memory;
	enum weft_rio_operation operation;
};

static void lent_begin(struct pass *p, struct slot *s, void *context)
{
	const struct lent *l = context;
	uint64_t at = l->memory->address + (s->at - l->range->at);
	const struct weft_rio_sge there = { .memory = (void *)(uintptr_t)at,
					    .length = s->length,
					    .tag = l->memory->handle,
					    .platform = l->memory->platform };
	const struct weft_rio_transaction t = { .operation = l->operation,
						.device = l->range->device->number,
						.offset = s->at,
						.length = s->length,
						.sges = &there,
						.sge_count = 1 };

	submit_request(p, s, &t, 1);
}

void io_run_lent(struct io_run *r, const struct io_range *range, const struct io_memory *memory,
		 bool is_write, struct io_outcome *o)
{
	struct lent l = { range, memory, is_write ? WEFT_RIO_WRITE : WEFT_RIO_READ };

	each_block(r, range, &(struct block_calls){ lent_begin, count_done, &l }, o);
}

/* ---- Measuring ------------------------------------------------------------------------------ */

struct measure {
	const struct io_range *range;
	const struct io_bench *bench;
	uint64_t end_ns, next, dice;
	uint64_t sum_ns, count;
	uint32_t *samples; /* of latencies in ns, as many as there is room for */
	uint32_t sample_count;
};

static uint64_t next_offset(const struct io_run *r, struct measure *m)
{
	uint64_t blocks = m->range->length / r->block;
	uint64_t nth = m->next++ % blocks;

	if (m->bench->is_random) {
		/* xorshift: which ones does not matter, only that they are all over the range. */
		m->dice ^= m->dice << 13;
		m->dice ^= m->dice >> 7;
		m->dice ^= m->dice << 17;
		nth = m->dice % blocks;
	}
	return m->range->at + nth * r->block;
}

static void bench_submit(struct pass *p, struct slot *s, struct measure *m)
{
	s->at = next_offset(p->run, m);
	s->length = p->run->block;
	s->start_ns = clock_ns();
	submit(p, s, m->bench->is_write ? WEFT_RIO_WRITE : WEFT_RIO_READ, m->range->device, s->at);
}

static void bench_next(struct pass *p, struct slot *s, void *context)
{
	struct measure *m = context;
	uint64_t now = clock_ns(), took = now - s->start_ns;

	m->sum_ns += took;
	m->count++;
	if (m->sample_count < SAMPLES_MAX)
		m->samples[m->sample_count++] = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
	p->o->done_bytes += s->length;
	if (now < m->end_ns && p->o->reason == WEFT_OK)
		bench_submit(p, s, m);
}

static int compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void figures_make(struct measure *m, uint64_t elapsed_ns, struct io_figures *f)
{
	uint32_t n = m->sample_count;

	qsort(m->samples, n, sizeof(m->samples[0]), compare);
	*f = (struct io_figures){ .count = m->count,
				  .elapsed_ns = elapsed_ns,
				  .mean_ns = m->count ? m->sum_ns / m->count : 0,
				  .median_ns = n ? m->samples[n / 2] : 0,
				  .p99_ns = n ? m->samples[(uint64_t)n * 99 / 100] : 0,
				  .most_ns = n ? m->samples[n - 1] : 0 };
}

void io_run_bench(struct io_run *r, const struct io_range *range, const struct io_bench *bench,
		  struct io_figures *figures, struct io_outcome *o)
{
	struct pass *p = pass_begin(r, o);
	struct measure m = { .range = range, .bench = bench, .dice = 88172645463325252U };
	uint64_t start = clock_ns();

	if (!p)
		return;
	m.samples = malloc(SAMPLES_MAX * sizeof(*m.samples));
	if (!m.samples)
		fail(p, WEFT_R_NO_MEMORY, 0, "");
	m.end_ns = start + bench->duration_ns;
	for (uint32_t i = 0; i < r->depth && o->reason == WEFT_OK; i++)
		bench_submit(p, &p->slots[i], &m);
	while (p->under_way > 0) {
		gather(p, bench_next, &m);
		tell(p, clock_ns() - start, bench->duration_ns);
	}
	if (m.samples) {
		figures_make(&m, clock_ns() - start, figures);
		figures->bytes = o->done_bytes;
	}
	free(m.samples);
	pass_end(p);
}
