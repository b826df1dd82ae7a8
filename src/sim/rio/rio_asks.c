/* SPDX-License-Identifier: BSD-2-Clause */
/* What requesters ask for, and how it must end. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/rio/rio_world.h"

enum {
	MS = 1000000,
	BYTES_MAX = 16384,
	CANARY = 0xee,
	IMMEDIATE_MAX = 4096,
	LIST_SURE = 3000,
	NO_DEVICE = 1 << 15
};

static const uint64_t arena_at = UINT64_C(0x100000000);

/* An ask under construction. */
struct making {
	uint32_t ask, node, device;
	struct rio_wanted wanted[RW_ASK_TRANSACTIONS];
	struct rio_fragment *fragments[RW_ASK_TRANSACTIONS];
	uint8_t *immediates[RW_ASK_TRANSACTIONS];
	uint32_t list_bytes;
	bool is_doubtful; /* it may fail for a reason that the model does not track */
};

/* ---- Memory --------------------------------------------------------------------------------- */

/* Takes `count` consecutive cells; RW_NONE: there are not enough. */
static uint32_t cells_take(struct rw_node *n, uint32_t count, uint32_t from)
{
	uint32_t run = 0;

	for (uint32_t i = 0; i < RW_CELLS; i++) {
		uint32_t at = (from + i) % RW_CELLS;

		run = n->cells[at] ? 0 : at == 0 ? 1 : run + 1;
		if (run == count) {
			memset(n->cells + at + 1 - count, 1, count);
			return at + 1 - count;
		}
	}
	return RW_NONE;
}

static void cells_give(struct rw_node *n, const struct rw_transaction *t)
{
	if (t->cells > 0)
		memset(n->cells + t->cell, 0, t->cells);
}

static void fill(struct rio_world *w, uint32_t transaction)
{
	const struct rw_transaction *t = &w->transactions[transaction];
	uint64_t offset = t->is.offset;

	for (uint32_t i = 0; i < t->sge_count; i++) {
		const struct rw_segment *s = &t->sges[i];

		if (t->is.operation == SGL_READ)
			memset(s->bytes, CANARY, s->length);
		for (uint32_t at = 0; t->is.operation == SGL_WRITE && at < s->length;
		     at += RW_WORD, offset += RW_WORD)
			rw_word_put(s->bytes + at, w, transaction, offset);
	}
}

/* Cuts the length into at most so many pieces. */
static uint32_t cut(struct rio_world *w, uint32_t length, uint32_t pieces, uint32_t *lengths)
{
	uint32_t count = 0;

	while (length > 0) {
		uint32_t most = length / (pieces - count) * 2, piece = length;

		if (count + 1 < pieces && most >= 2 * RW_WORD)
			piece = RW_WORD * (1 + rw_draw(w, most / RW_WORD));
		piece = piece < length ? piece : length;
		lengths[count++] = piece;
		length -= piece;
	}
	return count;
}

static uint32_t draw_pieces(struct rio_world *w, uint32_t length)
{
	uint32_t words = length / RW_WORD, pieces;

	switch (rw_draw(w, 8)) {
	case 0:
		pieces = RW_FRAGMENTS / 2;
		break;
	case 1:
	case 2:
	case 3:
		pieces = 2 + rw_draw(w, 6);
		break;
	default:
		pieces = 1;
	}
	return pieces < words ? pieces : words;
}

static void segment_add(struct rio_world *w, const struct making *m, struct rw_transaction *t,
			struct rio_fragment f)
{
	struct rw_node *n = &w->nodes[m->node];

	m->fragments[t - &w->transactions[w->asks[m->ask].first]][t->sge_count] = f;
	t->sges[t->sge_count++] = (struct rw_segment){ m->node, n->incarnation,
						       n->arena + (f.address - arena_at),
						       f.length };
}

/* Fragments of own memory, with gaps between them. False: no room. */
static bool own_memory(struct rio_world *w, struct making *m, struct rw_transaction *t)
{
	uint32_t lengths[RW_FRAGMENTS], length = (uint32_t)t->is.length;
	uint32_t count = cut(w, length, draw_pieces(w, length), lengths);
	struct rw_node *n = &w->nodes[m->node];
	uint64_t at;

	t->cells = (length + 2 * RW_WORD * count + RW_CELL - 1) / RW_CELL;
	t->cell = cells_take(n, t->cells, rw_draw(w, RW_CELLS));
	if (t->cell == RW_NONE) {
		t->cells = 0;
		return false;
	}
	at = (uint64_t)t->cell * RW_CELL;
	memset(n->arena + at, CANARY, (size_t)t->cells * RW_CELL);
	for (uint32_t i = 0; i < count; i++) {
		at += RW_WORD * (uint64_t)rw_draw(w, 3);
		segment_add(w, m, t,
			    (struct rio_fragment){ .tag = m->ask,
						   .length = lengths[i],
						   .address = arena_at + at });
		at += lengths[i];
	}
	m->list_bytes += 24 * count;
	return true;
}

/* An unused piece of another requester's memory. False: it has none. */
static bool foreign_memory(struct rio_world *w, struct making *m, struct rw_transaction *t)
{
	uint32_t node = 1 + rw_draw(w, w->limits.requesters);
	struct rw_node *n = &w->nodes[node];
	const struct rw_window *v;
	uint32_t nth = (uint32_t)(t - &w->transactions[w->asks[m->ask].first]);

	if (node == m->node || !n->is_up || n->shared_used == RW_SHARED ||
	    t->is.length > RW_SHARED_BYTES)
		return false;
	v = &n->windows[1 + n->shared_used++];
	m->fragments[nth][0] = (struct rio_fragment){ .platform = n->self.platform,
						      .tag = v->handle,
						      .length = (uint32_t)t->is.length,
						      .address = v->address };
	t->sges[t->sge_count++] = (struct rw_segment){ node, n->incarnation, v->bytes,
						       (uint32_t)t->is.length };
	m->is_doubtful = true;
	if (!w->shares[m->node][node])
		w->asks[m->ask].is_wrong = true;
	return true;
}

static bool immediate_data(struct rio_world *w, struct making *m, struct rw_transaction *t)
{
	uint32_t nth = (uint32_t)(t - &w->transactions[w->asks[m->ask].first]);
	uint8_t *bytes = malloc((size_t)t->is.length);

	CHECK(bytes);
	t->is_immediate = true;
	for (uint64_t at = 0; at < t->is.length; at += RW_WORD)
		rw_word_put(bytes + at, w, (uint32_t)(t - w->transactions), t->is.offset + at);
	m->immediates[nth] = bytes;
	m->wanted[nth].immediate = bytes;
	m->list_bytes += (uint32_t)t->is.length;
	return true;
}

static bool memory(struct rio_world *w, struct making *m, struct rw_transaction *t)
{
	uint32_t nth = (uint32_t)(t - &w->transactions[w->asks[m->ask].first]);
	bool is_good;

	if (t->is.operation == SGL_WRITE && t->is.length <= IMMEDIATE_MAX && rw_draw(w, 6) == 0)
		return immediate_data(w, m, t);
	t->sges = calloc(RW_FRAGMENTS, sizeof(*t->sges));
	m->fragments[nth] = calloc(RW_FRAGMENTS, sizeof(*m->fragments[nth]));
	CHECK(t->sges && m->fragments[nth]);
	is_good = rw_draw(w, 8) == 0 && !w->asks[m->ask].is_audit && foreign_memory(w, m, t);
	is_good = is_good || own_memory(w, m, t);
	m->wanted[nth].fragments = m->fragments[nth];
	m->wanted[nth].fragment_count = t->sge_count;
	if (!is_good)
		return false;
	fill(w, (uint32_t)(t - w->transactions));
	t->sges = realloc(t->sges, t->sge_count * sizeof(*t->sges));
	CHECK(t->sges);
	return true;
}

/* ---- Transactions --------------------------------------------------------------------------- */

/* The device as offered to the requester; false: it is not offered. */
static bool offer_find(const struct rio_world *w, uint32_t node, uint32_t device,
		       struct rio_offer *offer)
{
	const struct rio_requester *q = w->nodes[node].requester;
	const struct rw_device *d = &w->devices[device];
	uint8_t name[RIO_DEVICE_NAME_MAX];
	uint32_t name_bytes = rw_device_name(d, name);

	for (uint32_t i = 0; i < rio_requester_offers(q); i++) {
		*offer = rio_requester_offer(q, i);
		if (platform_is_same(offer->iounit, w->nodes[d->node].self.platform) &&
		    offer->device.name.length == name_bytes &&
		    memcmp(offer->device.name.bytes, name, name_bytes) == 0)
			return true;
	}
	return false;
}

bool rw_has_offer(const struct rio_world *w, uint32_t node, uint32_t device)
{
	struct rio_offer offer;

	return offer_find(w, node, device, &offer);
}

uint32_t rw_offered_life(const struct rio_world *w, uint32_t node, uint32_t device)
{
	struct rio_offer offer;

	return offer_find(w, node, device, &offer) ? (uint32_t)offer.device.instance : 0;
}

/* The number offered now; a requester that was not offered the device tries its first number. */
static uint32_t device_number(const struct rio_world *w, uint32_t node, uint32_t device)
{
	struct rio_offer offer;

	if (offer_find(w, node, device, &offer))
		return offer.device.number;
	return w->devices[device].owner_number;
}

static enum sgl_operation draw_operation(struct rio_world *w)
{
	static const enum sgl_operation of[] = {
		SGL_READ,  SGL_READ,  SGL_READ,		SGL_READ,  SGL_WRITE, SGL_WRITE,
		SGL_WRITE, SGL_WRITE, SGL_WRITE_ZEROES, SGL_FLUSH, SGL_FLUSH, SGL_DISCARD
	};

	return of[rw_draw(w, sizeof(of) / sizeof(of[0]))];
}

static struct sgl_transaction draw_transaction(struct rio_world *w, uint32_t node, uint32_t device)
{
	const struct rw_device *d = &w->devices[device];
	uint32_t blocks = (uint32_t)(d->size_bytes / d->block_bytes);
	uint32_t most = BYTES_MAX / d->block_bytes, first = rw_draw(w, blocks);
	struct sgl_transaction is = { .operation = draw_operation(w),
				      .device = device_number(w, node, device) };
	uint32_t count;

	if (w->limits.hot_blocks > 0)
		first %= w->limits.hot_blocks;
	most = rw_draw(w, 2) == 0 ? 2 : most;
	most = blocks - first < most ? blocks - first : most;
	count = 1 + rw_draw(w, most);
	if (is.operation != SGL_READ && is.operation != SGL_FLUSH)
		is.is_fua = rw_draw(w, 3) == 0;
	if (is.operation == SGL_DISCARD)
		is.is_fua = rw_chance(w, w->limits.mischief_ppm);
	if (is.operation == SGL_FLUSH)
		return is;
	is.offset = (uint64_t)first * d->block_bytes;
	is.length = (uint64_t)count * d->block_bytes;
	if (rw_chance(w, w->limits.mischief_ppm))
		is.offset += RW_WORD;
	if (rw_chance(w, w->limits.mischief_ppm))
		is.offset += d->size_bytes;
	return is;
}

/* Must the transaction be refused? */
static bool is_wrong(const struct rio_world *w, const struct making *m,
		     const struct rw_transaction *t)
{
	const struct rw_device *d;

	if (t->device == RW_NONE || !rw_is_allowed(w, m->node, t->device, &t->is))
		return true;
	d = &w->devices[t->device];
	if (d->node != w->devices[m->device].node)
		return true;
	if (t->is.operation == SGL_FLUSH)
		return false;
	return t->is.offset % d->block_bytes != 0 || t->is.length % d->block_bytes != 0 ||
	       t->is.offset > d->size_bytes || t->is.length > d->size_bytes - t->is.offset ||
	       (t->is.operation == SGL_DISCARD && t->is.is_fua);
}

/* False: no room. */
static bool transaction_add(struct rio_world *w, struct making *m, const struct sgl_transaction *is,
			    uint32_t device)
{
	struct rw_ask *a = &w->asks[m->ask];
	struct rw_transaction *t = &w->transactions[w->transaction_count];
	bool has_memory = is->operation == SGL_READ || is->operation == SGL_WRITE;

	if (w->transaction_count == RW_TRANSACTIONS_MAX)
		return false;
	w->transaction_count++;
	*t = (struct rw_transaction){
		.is = *is, .ask = m->ask, .device = device, .fate = RW_NEVER
	};
	/* All transactions use the first one's I/O unit. */
	if (a->count == 0 && device != RW_NONE)
		m->device = device;
	m->wanted[a->count].is = *is;
	a->count++;
	if (is_wrong(w, m, t))
		a->is_wrong = true;
	return !has_memory || memory(w, m, t);
}

/* ---- Asks ----------------------------------------------------------------------------------- */

static struct making begin(struct rio_world *w, uint32_t node, uint32_t device)
{
	struct making m = { .ask = w->ask_count, .node = node, .device = device };

	w->asks[m.ask] = (struct rw_ask){ .node = node,
					  .incarnation = w->nodes[node].incarnation,
					  .meeting = w->nodes[node].meetings,
					  .first = w->transaction_count,
					  .timeout_ns = w->limits.timeout_ns };
	return m;
}

/* Takes back an ask that the core refused. */
static void undo(struct rio_world *w, const struct making *m)
{
	struct rw_ask *a = &w->asks[m->ask];

	for (uint32_t i = a->first; i < w->transaction_count; i++) {
		cells_give(&w->nodes[m->node], &w->transactions[i]);
		free(w->transactions[i].sges);
	}
	w->transaction_count = a->first;
}

/* The requester's core refuses the ask: its unflushed writes may be lost. */
static void lost(struct rio_world *w, uint32_t ask)
{
	w->asks[ask].asked_seq = w->asks[ask].reported_seq = ++w->seq;
	rw_values_loss_reported(w, &w->asks[ask]);
}

static bool submit(struct rio_world *w, struct making *m, bool has_room)
{
	struct rw_ask *a = &w->asks[m->ask];
	struct rw_node *n = &w->nodes[m->node];
	const struct rio_ask ask = { .wanted = m->wanted,
				     .count = a->count,
				     .timeout_ns = a->timeout_ns,
				     .context = (void *)(uintptr_t)(m->ask + 1) };
	enum weft_reason r = WEFT_R_BUSY;

	if (has_room)
		r = rio_requester_ask(n->requester, &ask, w->world.now_ns, &a->id);
	for (uint32_t i = 0; i < RW_ASK_TRANSACTIONS; i++) {
		free(m->fragments[i]);
		free(m->immediates[i]);
	}
	if (r == WEFT_R_RIO_WRITES_LOST)
		lost(w, m->ask);
	if (r != WEFT_OK) {
		undo(w, m);
		if (r != WEFT_R_RIO_WRITES_LOST && r != WEFT_R_BUSY && r != WEFT_R_LIMIT &&
		    r != WEFT_R_SGL_BYTES &&
		    (r != WEFT_R_RIO_OWNER_LEFT || rio_requester_has_owner(n->requester)))
			rw_fail(w, "requester %u may not ask: %s", m->node, weft_reason_name(r));
		return false;
	}
	/* A list that does not fit into a piece is refused. */
	m->is_doubtful = m->is_doubtful || m->list_bytes > LIST_SURE;
	a->is_right = !a->is_wrong && !m->is_doubtful && rw_has_offer(w, m->node, m->device);
	w->ask_count++;
	rw_trace(w, RW_TRACE_ASKED, m->node, m->ask, a->count);
	rw_model_asked(w, m->ask);
	rw_node_wake(w, m->node);
	/* The core must run now, not at the next event. */
	world_alarm_set(&w->world, &n->turn, w->world.now_ns + 1);
	return true;
}

/*
 * Repeats a recently failed write, as the same or another requester: reads its blocks or writes
 * them again.
 */
static void ask_again(struct rio_world *w, uint32_t node)
{
	uint32_t nth = rw_draw(w, w->troubled_count) % RW_TROUBLED;
	const struct rw_transaction failed = w->transactions[w->troubled[nth]];
	struct making m = begin(w, node, failed.device);
	struct sgl_transaction is = failed.is;
	struct sgl_transaction flush = { .operation = SGL_FLUSH };
	bool has_room;

	is.device = flush.device = device_number(w, node, failed.device);
	if (rw_draw(w, 3) == 0)
		is.operation = SGL_READ;
	is.is_fua = is.operation == SGL_WRITE && rw_draw(w, 3) == 0;
	has_room = transaction_add(w, &m, &is, failed.device);
	if (has_room && is.operation == SGL_WRITE && rw_draw(w, 3) == 0)
		has_room = transaction_add(w, &m, &flush, failed.device);
	(void)submit(w, &m, has_room);
}

static void ask_draw(struct rio_world *w, uint32_t node)
{
	uint32_t device = rw_draw(w, w->device_count);
	uint32_t count = rw_draw(w, 2) == 0 ? 1 : 1 + rw_draw(w, RW_ASK_TRANSACTIONS);
	struct making m = begin(w, node, device);
	bool has_room = true;

	if (rw_draw(w, 4) == 0)
		w->asks[m.ask].timeout_ns = 1 + rw_draw_ns(w, w->limits.timeout_ns);
	if (w->limits.is_calm)
		w->asks[m.ask].timeout_ns = w->limits.timeout_ns;
	for (uint32_t i = 0; i < count && has_room; i++) {
		struct sgl_transaction is;
		uint32_t on = device;

		if (rw_chance(w, w->limits.mischief_ppm))
			on = rw_draw(w, w->device_count);
		is = draw_transaction(w, node, on);
		if (rw_chance(w, w->limits.mischief_ppm)) {
			is.device = rw_draw(w, 1 << 20) | NO_DEVICE;
			on = RW_NONE;
		}
		has_room = transaction_add(w, &m, &is, on);
	}
	(void)submit(w, &m, has_room);
}

static void cancel_draw(struct rio_world *w, uint32_t node)
{
	uint32_t first = rw_draw(w, w->ask_count);

	for (uint32_t i = 0; i < w->ask_count; i++) {
		struct rw_ask *a = &w->asks[(first + i) % w->ask_count];

		if (a->node != node || a->is_over)
			continue;
		a->is_cancelled = true;
		rio_requester_cancel(w->nodes[node].requester, a->id);
		world_alarm_set(&w->world, &w->nodes[node].turn, w->world.now_ns + 1);
		return;
	}
}

void rw_ask_act(struct rio_world *w, uint32_t node)
{
	struct rw_node *n = &w->nodes[node];

	if (w->phase != RW_RUN || n->asks_left == 0)
		return;
	if (n->is_up && w->ask_count > 0 && rw_draw(w, 12) == 0)
		cancel_draw(w, node);
	else if (n->is_up && w->ask_count < RW_ASKS_MAX / 2 && w->troubled_count > 0 &&
		 rw_chance(w, w->limits.again_ppm))
		ask_again(w, node);
	else if (n->is_up && w->ask_count < RW_ASKS_MAX / 2)
		ask_draw(w, node);
	n->asks_left -= n->is_up;
	world_schedule(&w->world, rw_draw_ns(w, w->limits.gap_ns),
		       (struct world_event){ .node = node, .kind = RW_EV_ASK });
}

bool rw_ask_audit(struct rio_world *w, const struct sgl_transaction *is, uint32_t device)
{
	struct making m = begin(w, 1, device);
	struct sgl_transaction named = *is, flush = { .operation = SGL_FLUSH };
	bool has_room;

	CHECK(w->ask_count < RW_ASKS_MAX);
	w->asks[m.ask].is_audit = true;
	w->asks[m.ask].timeout_ns = rw_patient_ns;
	named.device = flush.device = device_number(w, m.node, device);
	has_room = transaction_add(w, &m, &named, device);
	if (has_room && is->operation == SGL_WRITE && !is->is_fua)
		has_room = transaction_add(w, &m, &flush, device);
	w->audit_ask = m.ask;
	return submit(w, &m, has_room);
}

/* ---- The end -------------------------------------------------------------------------------- */

static void judge_end(struct rio_world *w, uint32_t ask, const struct rio_ended *ended)
{
	const struct rw_ask *a = &w->asks[ask];
	bool is_late = w->world.now_ns > a->asked_ns + a->timeout_ns + w->limits.grace_ns + 20 * MS;
	const char *why = weft_reason_name((enum weft_reason)ended->reason);
	uint64_t bytes = 0;

	for (uint32_t i = a->first; i < a->first + a->count; i++) {
		enum sgl_operation operation = w->transactions[i].is.operation;

		if (operation == SGL_READ || operation == SGL_WRITE)
			bytes += w->transactions[i].is.length;
	}
	if (is_late)
		rw_fail(w, "ask %u ends too late: %s", ask, why);
	if (ended->reason == WEFT_OK && a->is_wrong)
		rw_fail(w, "ask %u must not end well", ask);
	if (ended->reason == WEFT_OK && ended->done_bytes != bytes)
		rw_fail(w, "ask %u moved %u bytes instead of %u", ask, (uint32_t)ended->done_bytes,
			(uint32_t)bytes);
	if (ended->reason == WEFT_R_RIO_TIMEOUT && a->timeout_ns == rw_patient_ns)
		rw_fail(w, "ask %u was forgotten", ask);
	if (ended->reason != WEFT_OK && a->is_right && !a->is_cancelled &&
	    (w->limits.is_calm || a->is_audit) && !rw_values_is_loss_due(w, a))
		rw_fail(w, "ask %u fails for no reason: %s", ask, why);
}

void rw_ask_ended(struct rio_world *w, uint32_t node, const struct rio_ended *ended)
{
	uint32_t ask = (uint32_t)(uintptr_t)ended->context - 1;
	struct rw_ask *a = &w->asks[ask];
	struct rw_node *n = &w->nodes[node];

	if (ask >= w->ask_count || a->node != node || a->incarnation != n->incarnation ||
	    a->is_over || a->id != ended->id) {
		rw_fail(w, "requester %u: something ended that was not asked for, or twice", node);
		return;
	}
	for (uint32_t i = 1 + RW_SHARED; i < RW_WINDOWS_ALL; i++) {
		const struct rw_window *v = &n->windows[i];

		if (v->is_open && w->handles[v->handle - 1].ask == ask)
			rw_fail(w, "ask %u has ended, and a window of it is open", ask);
	}
	a->reason = ended->reason;
	rw_trace_reason(
		w,
		(struct trace_event){
			.kind = RW_TRACE_ENDED, .who = node, .a = ask, .b = ended->done_bytes },
		ended->reason);
	w->ended_well += a->reason == WEFT_OK;
	w->ended_badly += a->reason != WEFT_OK;
	w->refused += a->is_wrong;
	judge_end(w, ask, ended);
	rw_model_ended(w, ask);
	for (uint32_t i = a->first; i < a->first + a->count; i++)
		cells_give(n, &w->transactions[i]);
}
