/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/iscsi/iscsi_move.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "cmd/clock.h"
#include "cmd/roles/io_run.h"

enum { PAGE = 4096, NS_PER_MS = 1000000, WAIT_MS_MAX = 1000 };

enum slot_state {
	SLOT_DONE,	/* or never used */
	SLOT_READING,	/* from the source */
	SLOT_FULL,	/* has the data */
	SLOT_WRITING,	/* to the device */
	SLOT_READ_BACK, /* from there */
};

/* A buffer on its way. */
struct slot {
	struct store_request request;
	struct span span;
	enum slot_state state;
	uint64_t at; /* of the range that is moved */
	uint32_t length;
	bool is_zero;
	uint8_t *bytes, *again; /* again: what was read back */
};

/* Slots are used in turn: those from first on, before next, are on their way. */
struct pass {
	const struct move *m;
	struct move_outcome *o;
	struct slot *slots;
	uint8_t *memory;
	uint64_t first, next; /* blocks */
	uint64_t taken;	      /* bytes */
	bool is_all;	      /* the source has no more */
	bool has_holes;	      /* the destination is a regular file */
};

static struct slot *slot_of(const struct pass *p, uint64_t block)
{
	return &p->slots[block % p->m->depth];
}

static void fail(struct pass *p, const struct move_end *end, const char *what,
		 const struct move_outcome *why)
{
	if (p->o->reason != WEFT_OK)
		return;
	p->o->reason = why->reason;
	p->o->error = why->error;
	p->o->at = why->at;
	p->o->end = end;
	p->o->what = what;
}

static void fail_file(struct pass *p, const struct move_end *end, const char *what, uint64_t at)
{
	fail(p, end, what,
	     &(struct move_outcome){ .reason = WEFT_R_SYSTEM, .error = errno, .at = at });
}

/* ---- Requests ------------------------------------------------------------------------------- */

static void submit(struct pass *p, struct slot *s, enum store_op op, enum slot_state state)
{
	const struct move_end *end = state == SLOT_READING ? &p->m->from : &p->m->to;
	enum weft_reason r;

	s->span = (struct span){ state == SLOT_READ_BACK ? s->again : s->bytes, s->length };
	s->request = (struct store_request){ .op = op,
					     .offset = end->at + s->at,
					     .length = s->length,
					     .spans = &s->span,
					     .span_count = 1 };
	if (op == STORE_WRITE_ZEROES)
		s->request.span_count = 0;
	if (state == SLOT_WRITING && p->m->is_fua)
		s->request.flags = STORE_FUA;
	r = store_submit(end->store, &s->request, clock_ns());
	s->state = r == WEFT_OK ? state : SLOT_DONE;
	if (r != WEFT_OK)
		fail(p, end, state == SLOT_WRITING ? "write" : "read",
		     &(struct move_outcome){ .reason = r, .at = s->request.offset });
}

static bool is_zero(const uint8_t *bytes, size_t length)
{
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0;
}

static void slot_done(struct pass *p, struct slot *s)
{
	s->state = SLOT_DONE;
	p->o->done_bytes += s->length;
	if (s->is_zero)
		p->o->zero_bytes += s->length;
}

/* Files get their blocks in order: only the first one is written. */
static void put(struct pass *p, struct slot *s)
{
	bool is_put;

	s->is_zero = p->has_holes && is_zero(s->bytes, s->length);
	is_put = s->is_zero ? lseek(p->m->to.fd, (off_t)s->length, SEEK_CUR) >= 0
			    : io_file_put(p->m->to.fd, s->bytes, s->length);
	if (!is_put)
		fail_file(p, &p->m->to, "write", s->at);
	slot_done(p, s);
}

static void write_out(struct pass *p, struct slot *s)
{
	s->is_zero = (p->m->to.store->shape.can & STORE_CAN_WRITE_ZEROES) &&
		     is_zero(s->bytes, s->length);
	submit(p, s, s->is_zero ? STORE_WRITE_ZEROES : STORE_WRITE, SLOT_WRITING);
}

static void compare(struct pass *p, struct slot *s)
{
	uint32_t i = 0;

	slot_done(p, s);
	if (memcmp(s->bytes, s->again, s->length) == 0)
		return;
	while (s->bytes[i] == s->again[i])
		i++;
	fail(p, &p->m->to, "verify",
	     &(struct move_outcome){ .reason = WEFT_R_STORE_IO, .at = p->m->to.at + s->at + i });
}

/* ---- Blocks --------------------------------------------------------------------------------- */

/* A device has whole blocks: the last of a file is filled up with zeroes. */
static void fill_up(struct pass *p, struct slot *s, uint32_t length)
{
	uint32_t block = p->m->to.store ? p->m->to.store->shape.block_bytes : 1;

	s->length = (length + block - 1) / block * block;
	memset(s->bytes + length, 0, s->length - length);
}

static void begin(struct pass *p)
{
	struct slot *s = slot_of(p, p->next);
	uint64_t left = p->m->length - p->taken;
	uint32_t length = left < p->m->block ? (uint32_t)left : p->m->block;
	ssize_t n;

	s->at = p->taken;
	s->length = length;
	if (p->m->from.store) {
		submit(p, s, STORE_READ, SLOT_READING);
	} else {
		n = io_file_get(p->m->from.fd, s->bytes, length);
		if (n < 0)
			fail_file(p, &p->m->from, "read", s->at);
		p->is_all = n < (ssize_t)length;
		if (n <= 0)
			return;
		fill_up(p, s, (uint32_t)n);
		length = (uint32_t)n;
		s->state = SLOT_FULL;
	}
	p->next++;
	p->taken += length;
	p->is_all |= p->taken == p->m->length;
}

/* A request of a device has ended. */
static void step(struct pass *p, struct slot *s, const struct move_end *end)
{
	enum slot_state was = s->state;

	if (s->request.reason != WEFT_OK) {
		s->state = SLOT_DONE;
		fail(p, end, was == SLOT_WRITING ? "write" : "read",
		     &(struct move_outcome){ .reason = s->request.reason,
					     .error = s->request.error,
					     .at = s->request.offset });
	} else if (was == SLOT_READING) {
		s->state = SLOT_FULL;
	} else if (was == SLOT_READ_BACK) {
		compare(p, s);
	} else if (p->m->is_verified && p->o->reason == WEFT_OK) {
		submit(p, s, STORE_READ, SLOT_READ_BACK);
	} else {
		slot_done(p, s);
	}
}

/* False: nothing has ended. */
static bool gather(struct pass *p, const struct move_end *end)
{
	struct store_request *r;
	bool has_any = false;

	if (!end->store)
		return false;
	if (store_due(end->store) <= clock_ns())
		store_expire(end->store, clock_ns());
	while ((r = store_next_done(end->store, clock_ns())) != NULL) {
		step(p, CONTAINER_OF(r, struct slot, request), end);
		has_any = true;
	}
	return has_any;
}

/* Those that have data go on. False: none could. */
static bool go_on(struct pass *p)
{
	bool has_any = false;

	for (uint64_t i = p->first; i < p->next && p->o->reason == WEFT_OK; i++) {
		struct slot *s = slot_of(p, i);

		if (s->state != SLOT_FULL || (!p->m->to.store && i != p->first))
			continue;
		if (p->m->to.store)
			write_out(p, s);
		else
			put(p, s);
		has_any = true;
		if (i == p->first && s->state == SLOT_DONE)
			p->first++;
	}
	while (p->first < p->next && slot_of(p, p->first)->state == SLOT_DONE)
		p->first++;
	return has_any;
}

/* ---- Waiting -------------------------------------------------------------------------------- */

static void wait_for(const struct move *m)
{
	const struct move_end *ends[2] = { &m->from, &m->to };
	struct pollfd fds[2];
	uint64_t now_ns = clock_ns(), due_ns = STORE_NEVER;
	int wait_ms = WAIT_MS_MAX;
	nfds_t count = 0;

	for (int i = 0; i < 2; i++) {
		if (!ends[i]->store)
			continue;
		fds[count++] = (struct pollfd){ .fd = ends[i]->fd, .events = POLLIN };
		if (store_due(ends[i]->store) < due_ns)
			due_ns = store_due(ends[i]->store);
	}
	if (due_ns <= now_ns)
		wait_ms = 0;
	else if ((due_ns - now_ns) / NS_PER_MS < WAIT_MS_MAX)
		wait_ms = (int)((due_ns - now_ns) / NS_PER_MS) + 1;
	(void)poll(fds, count, wait_ms);
}

static bool is_under_way(const struct move *m)
{
	return (m->from.store && m->from.store->under_way > 0) ||
	       (m->to.store && m->to.store->under_way > 0);
}

static bool gather_all(struct pass *p)
{
	bool has_from = gather(p, &p->m->from);

	return gather(p, &p->m->to) || has_from;
}

/* Bound: each turn begins or ends a block, or waits for one that is under way. */
static void run(struct pass *p)
{
	while (p->o->reason == WEFT_OK && (!p->is_all || p->first < p->next)) {
		bool has_any = false;

		while (!p->is_all && p->next - p->first < p->m->depth && p->o->reason == WEFT_OK) {
			begin(p);
			has_any = true;
			/* The next bytes of a pipe may take a while. */
			if (!p->m->from.store)
				(void)go_on(p);
		}
		has_any |= go_on(p);
		has_any |= gather_all(p);
		if (!has_any && is_under_way(p->m))
			wait_for(p->m);
		if (p->m->tell)
			p->m->tell(p->o->done_bytes, p->m->from.store ? p->m->length : 0);
	}
	/* What is under way ends, whatever has happened: it uses the buffers. */
	while (is_under_way(p->m)) {
		if (!gather_all(p))
			wait_for(p->m);
	}
}

/* ---- Begin and end -------------------------------------------------------------------------- */

static void flush(struct pass *p)
{
	struct store_request r = { .op = STORE_FLUSH };
	struct store *to = p->m->to.store;
	enum weft_reason reason = store_submit(to, &r, clock_ns());

	while (reason == WEFT_OK && !store_next_done(to, clock_ns())) {
		wait_for(&(struct move){ .to = p->m->to });
		if (store_due(to) <= clock_ns())
			store_expire(to, clock_ns());
	}
	if (reason == WEFT_OK)
		reason = r.reason;
	if (reason != WEFT_OK)
		fail(p, &p->m->to, "flush",
		     &(struct move_outcome){ .reason = reason, .error = r.error });
}

/* The hole at the end of a file. */
static void cut(struct pass *p)
{
	off_t end = lseek(p->m->to.fd, 0, SEEK_CUR);

	if (end < 0 || ftruncate(p->m->to.fd, end) < 0)
		fail_file(p, &p->m->to, "write", p->o->done_bytes);
}

static bool memory_take(struct pass *p)
{
	const struct move *m = p->m;
	size_t each = (size_t)m->block * (m->is_verified ? 2 : 1), all = each * m->depth;

	p->slots = calloc(m->depth, sizeof(*p->slots));
	p->memory = aligned_alloc(PAGE, (all + PAGE - 1) / PAGE * PAGE);
	if (!p->slots || !p->memory)
		return false;
	for (uint32_t i = 0; i < m->depth; i++) {
		p->slots[i].bytes = p->memory + i * each;
		p->slots[i].again = p->slots[i].bytes + (m->is_verified ? m->block : 0);
	}
	return true;
}

void iscsi_move(const struct move *m, struct move_outcome *o)
{
	struct pass p = { .m = m, .o = o, .is_all = m->length == 0 };
	struct stat at;

	*o = (struct move_outcome){ .end = &m->from, .what = "read" };
	if (!m->to.store && fstat(m->to.fd, &at) == 0)
		p.has_holes = S_ISREG(at.st_mode) && lseek(m->to.fd, 0, SEEK_CUR) == at.st_size;
	if (!memory_take(&p))
		o->reason = WEFT_R_NO_MEMORY;
	else
		run(&p);
	if (o->reason == WEFT_OK && m->to.store && (m->to.store->shape.can & STORE_CAN_FLUSH))
		flush(&p);
	if (o->reason == WEFT_OK && p.has_holes)
		cut(&p);
	free(p.slots);
	free(p.memory);
}
