/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The model of data and memory accesses. Every word that is written names its transaction and
 * place, so a word that is read tells where it came from.
 *
 *	word   "PY", or "IM" if it lay in the list | transaction u24 | place u24
 *
 * The model checks that devices get only requests that a requester may have asked for, that memory
 * is accessed only for requests in progress, and that no payload passes through the owner.
 * rio_values.c checks the values that are read.
 */
#include <string.h>

#include "base/check.h"
#include "sim/rio/rio_world.h"

enum { MS = 1000000 };

static const uint64_t slack_ns = UINT64_C(1000) * MS;

/* ---- Policy --------------------------------------------------------------------------------- */

static bool rule_covers(const struct rw_rule *r, const struct sgl_transaction *is)
{
	if (!(r->operations >> is->operation & 1))
		return false;
	if (is->operation == SGL_FLUSH)
		return true;
	return is->offset >= r->first &&
	       (r->length == 0 ||
		(is->length <= r->length && is->offset - r->first <= r->length - is->length));
}

bool rw_is_allowed(const struct rio_world *w, uint32_t node, uint32_t device,
		   const struct sgl_transaction *is)
{
	for (uint32_t i = 0; i < w->rule_count; i++) {
		const struct rw_rule *r = &w->rules[i];

		if ((r->requester == RW_NONE || r->requester == node) &&
		    (r->device == RW_NONE || r->device == device) && rule_covers(r, is))
			return true;
	}
	return false;
}

static void rule_add(struct rio_world *w, const struct rw_rule *r)
{
	struct rio_rule rule = { .operations = r->operations,
				 .first = r->first,
				 .length = r->length };

	if (r->requester != RW_NONE)
		rule.requester = w->known[r->requester].platform;
	if (r->device != RW_NONE) {
		const struct rw_device *d = &w->devices[r->device];

		rule.iounit = w->known[d->node].platform;
		rule.name_bytes = rw_device_name(d, rule.name);
	}
	CHECK(rio_policy_add(w->policy, &rule) == WEFT_OK);
	w->rules[w->rule_count++] = *r;
}

/* The first requester may do everything, because it reads all devices in the end. */
void rw_policy_draw(struct rio_world *w)
{
	uint32_t all = ((1U << SGL_OPERATION_COUNT) - 1) & ~1U, more = rw_draw(w, RW_RULES_MAX);

	rule_add(w, &(struct rw_rule){ 1, RW_NONE, all, 0, 0 });
	for (uint32_t i = 0; i < more; i++) {
		struct rw_rule r = { .requester = RW_NONE, .device = RW_NONE, .operations = all };

		if (rw_draw(w, 5) != 0)
			r.requester = 1 + rw_draw(w, w->limits.requesters);
		if (rw_draw(w, 5) != 0)
			r.device = rw_draw(w, w->device_count);
		if (rw_draw(w, 2) == 0)
			r.operations = 2 * (1 + rw_draw(w, all / 2));
		if (rw_draw(w, 3) == 0) {
			r.first = 512 * (uint64_t)rw_draw(w, 64);
			r.length = 512 * (uint64_t)rw_draw(w, 64);
		}
		if (w->rule_count < RW_RULES_MAX)
			rule_add(w, &r);
	}
	for (uint32_t who = 1; who <= w->limits.requesters; who++) {
		for (uint32_t whose = 1; whose <= w->limits.requesters; whose++) {
			w->shares[who][whose] = who == whose || rw_draw(w, 2) == 0;
			if (who == whose || !w->shares[who][whose])
				continue;
			CHECK(rio_policy_add_share(
				      w->policy, &(struct rio_share){ w->known[who].platform,
								      w->known[whose].platform }) ==
			      WEFT_OK);
		}
	}
}

/* ---- Words ---------------------------------------------------------------------------------- */

static void put_u24(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 16);
	at[1] = (uint8_t)(value >> 8);
	at[2] = (uint8_t)value;
}

static uint32_t get_u24(const uint8_t *at)
{
	return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
}

void rw_word_put(uint8_t *at, const struct rio_world *w, uint32_t transaction, uint64_t offset)
{
	memcpy(at, w->transactions[transaction].is_immediate ? "IM" : "PY", 2);
	put_u24(at + 2, transaction);
	put_u24(at + 5, (uint32_t)(offset / RW_WORD));
}

static bool is_zero(const uint8_t *word)
{
	static const uint8_t zeroes[RW_WORD];

	return memcmp(word, zeroes, RW_WORD) == 0;
}

static bool covers(const struct rw_transaction *t, uint32_t device, uint64_t offset)
{
	return t->device == device && offset >= t->is.offset &&
	       offset - t->is.offset < t->is.length;
}

/* The transaction that wrote the word there; RW_NONE: none. */
static uint32_t word_writer(const struct rio_world *w, const uint8_t *word, uint32_t device,
			    uint64_t offset)
{
	uint32_t transaction = get_u24(word + 2);
	uint8_t expected[RW_WORD];

	if (transaction >= w->transaction_count)
		return RW_NONE;
	rw_word_put(expected, w, transaction, offset);
	if (memcmp(word, expected, RW_WORD) != 0 ||
	    w->transactions[transaction].is.operation != SGL_WRITE ||
	    !covers(&w->transactions[transaction], device, offset))
		return RW_NONE;
	return transaction;
}

void rw_model_message(struct rio_world *w, const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i + 2 * RW_WORD <= length; i++) {
		const uint8_t *next = bytes + i + RW_WORD;

		if (bytes[i] == 'P' && memcmp(bytes + i, next, 5) == 0 && bytes[i + 1] == 'Y' &&
		    get_u24(next + 5) == get_u24(bytes + i + 5) + 1) {
			rw_fail(w, "a message to or from the owner has payload in it");
			return;
		}
	}
}

/* ---- What is read --------------------------------------------------------------------------- */

static void judge_word(struct rio_world *w, uint32_t read, uint64_t offset, const uint8_t *word)
{
	const struct rw_transaction *t = &w->transactions[read];
	uint32_t writer = RW_NONE;
	bool is_good = is_zero(word);

	if (!is_good) {
		writer = word_writer(w, word, t->device, offset);
		is_good = writer != RW_NONE && w->transactions[writer].fate != RW_NEVER;
	}
	if (is_good && rw_values_read(w, read, offset, writer))
		return;
	rw_fail(w,
		"transaction %u reads %02x%02x %02x%02x%02x %02x%02x%02x at %u of device %u "
		"(kind %u), which no read may see",
		read, word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7],
		(uint32_t)offset, t->device, w->devices[t->device].kind);
}

/* Each block has a single writer, except on devices that data is written to directly. */
static void judge_read(struct rio_world *w, uint32_t transaction)
{
	const struct rw_transaction *t = &w->transactions[transaction];
	const struct rw_device *d = &w->devices[t->device];
	uint64_t offset = t->is.offset;
	const uint8_t *before = NULL;

	for (uint32_t i = 0; i < t->sge_count; i++) {
		const struct rw_segment *s = &t->sges[i];

		if (!w->nodes[s->node].is_up || w->nodes[s->node].incarnation != s->incarnation)
			return; /* that memory no longer exists */
		for (uint32_t at = 0; at < s->length; at += RW_WORD, offset += RW_WORD) {
			const uint8_t *word = s->bytes + at;
			bool is_first = offset % d->block_bytes == 0 || !before;
			bool is_same = !is_first && memcmp(before, word, 5) == 0;

			if (!is_same)
				judge_word(w, transaction, offset, word);
			if (!is_same && !is_first && d->kind != RW_MEMORY)
				rw_fail(w, "transaction %u reads a torn block at %u of device %u",
					transaction, (uint32_t)offset, t->device);
			if (is_same && !is_zero(word) &&
			    word_writer(w, word, t->device, offset) == RW_NONE)
				judge_word(w, transaction, offset, word);
			before = word;
		}
	}
}

/* ---- Asking and ending ---------------------------------------------------------------------- */

void rw_model_asked(struct rio_world *w, uint32_t ask)
{
	struct rw_ask *a = &w->asks[ask];

	/* Its transactions begin one after the other. */
	a->asked_seq = w->seq + 1;
	w->seq += a->count;
	a->asked_ns = w->world.now_ns;
	for (uint32_t i = a->first; i < a->first + a->count; i++) {
		w->transactions[i].fate = a->is_wrong ? RW_NEVER : RW_OPEN;
		rw_values_asked(w, i);
	}
}

static void record_outcome(struct rio_world *w, struct rw_ask *a)
{
	a->reported_seq = ++w->seq;
	a->is_over = true;
	for (uint32_t i = a->first; i < a->first + a->count; i++) {
		struct rw_transaction *t = &w->transactions[i];

		if (a->reason == WEFT_OK) {
			t->fate = RW_DONE;
			t->is_durable = t->is.is_fua;
		} else if (t->fate == RW_OPEN) {
			t->fate = RW_MAYBE;
			if (t->is.operation == SGL_WRITE)
				w->troubled[w->troubled_count++ % RW_TROUBLED] = i;
		}
	}
}

void rw_model_ended(struct rio_world *w, uint32_t ask)
{
	struct rw_ask *a = &w->asks[ask];
	uint32_t end = a->first + a->count;

	record_outcome(w, a);
	if (a->reason == WEFT_R_RIO_WRITES_LOST)
		rw_values_loss_reported(w, a);
	if (a->reason != WEFT_OK || a->is_wrong)
		return;
	for (uint32_t i = a->first; i < end; i++)
		rw_values_done(w, i);
	for (uint32_t i = a->first; i < end; i++) {
		if (w->transactions[i].is.operation == SGL_READ)
			judge_read(w, i);
	}
}

void rw_model_lost(struct rio_world *w, uint32_t node)
{
	for (uint32_t i = 0; i < w->ask_count; i++) {
		struct rw_ask *a = &w->asks[i];

		if (a->node != node || a->is_over)
			continue;
		a->reason = WEFT_R_PEER_GONE;
		record_outcome(w, a);
	}
}

void rw_model_over(struct rio_world *w, struct rw_ask *a)
{
	if (a->over_seq == 0)
		a->over_seq = ++w->seq;
}

void rw_model_cut(struct rio_world *w, uint32_t node)
{
	w->seq++;
	for (uint32_t i = 0; i < w->device_count; i++) {
		if (w->devices[i].node == node)
			rw_values_cut(w, i);
	}
}

/* ---- What reaches devices ------------------------------------------------------------------- */

static enum store_op op_of(enum sgl_operation operation)
{
	static const enum store_op ops[SGL_OPERATION_COUNT] = {
		[SGL_READ] = STORE_READ,       [SGL_WRITE] = STORE_WRITE,
		[SGL_FLUSH] = STORE_FLUSH,     [SGL_WRITE_ZEROES] = STORE_WRITE_ZEROES,
		[SGL_DISCARD] = STORE_DISCARD,
	};

	return ops[operation];
}

/* Can the device request belong to the transaction? */
static bool is_of(const struct rio_world *w, const struct rw_transaction *t, uint32_t device,
		  const struct store_request *r)
{
	const struct rw_ask *a = &w->asks[t->ask];

	if (t->device != device || op_of(t->is.operation) != r->op ||
	    t->is.is_fua != (bool)(r->flags & STORE_FUA))
		return false;
	if (t->fate != RW_OPEN && t->fate != RW_MAYBE)
		return false;
	if (a->unit_life != w->nodes[w->devices[device].node].incarnation)
		return false;
	/* The owner may hang with the request, and then the I/O unit with the command. */
	if (w->world.now_ns > a->asked_ns + a->timeout_ns + 2 * w->longest_hang_ns + slack_ns)
		return false;
	if (r->op == STORE_READ || r->op == STORE_WRITE)
		return r->offset >= t->is.offset && r->length <= t->is.length &&
		       r->offset - t->is.offset <= t->is.length - r->length;
	return r->offset == t->is.offset && r->length == t->is.length;
}

static uint32_t judge_write(struct rio_world *w, uint32_t device, const struct store_request *r)
{
	uint64_t offset = r->offset;
	uint32_t writer = word_writer(w, r->spans[0].bytes, device, offset);

	if (writer == RW_NONE || !is_of(w, &w->transactions[writer], device, r)) {
		rw_fail(w, "device %u is asked for a write at %u that no request wants", device,
			(uint32_t)offset);
		return RW_NONE;
	}
	for (uint32_t i = 0; i < r->span_count; i++) {
		for (size_t at = 0; at < r->spans[i].length; at += RW_WORD, offset += RW_WORD) {
			if (word_writer(w, r->spans[i].bytes + at, device, offset) != writer)
				rw_fail(w, "device %u gets other bytes than it should at %u",
					device, (uint32_t)offset);
		}
	}
	return writer;
}

uint32_t rw_model_stored(struct rio_world *w, uint32_t device, const struct store_request *r)
{
	uint32_t found = RW_NONE, count = 0;

	if (r->op == STORE_WRITE)
		return judge_write(w, device, r);
	for (uint32_t i = w->transaction_count; i-- > 0 && count < 2;) {
		if (!is_of(w, &w->transactions[i], device, r))
			continue;
		found = i;
		count++;
	}
	if (count == 0)
		rw_fail(w, "device %u is asked for operation %u at %u that no request wants",
			device, r->op, (uint32_t)r->offset);
	return count == 1 ? found : RW_NONE;
}

/* ---- What memory is reached for ------------------------------------------------------------- */

void rw_model_barred(struct rio_world *w, uint32_t node, const struct rw_flight *f)
{
	const struct rw_handle *h;
	const char *what = f->kind == RW_WRITE ? "Write" : "Read";

	if (f->handle == 0 || f->handle > w->handle_count) {
		rw_fail(w, "a %s by handle %u, which was never given", what, f->handle);
		return;
	}
	h = &w->handles[f->handle - 1];
	if (h->node != node)
		rw_fail(w, "a %s at node %u by a handle of node %u", what, node, h->node);
	else if (h->incarnation != w->nodes[node].incarnation)
		return; /* of a process that has stopped */
	else if (h->ask == RW_NONE)
		rw_fail(w, "a %s outside the memory that node %u shares", what, node);
	else if (!w->asks[h->ask].is_over)
		rw_fail(w, "a %s of ask %u that is under way was refused", what, h->ask);
	else if (w->asks[h->ask].reason == WEFT_OK)
		rw_fail(w, "a %s came after ask %u had ended well", what, h->ask);
}
