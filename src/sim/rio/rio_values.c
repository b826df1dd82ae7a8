/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The model of device content: the set of values that each block may have. It sees what requesters
 * ask for and are told, when owners learn of an end, and when I/O units stop. It looks into no core
 * and into no device.
 *
 * A value is a write: every word names the write it belongs to. Zeroes are the initial content of a
 * device, or come from a write of zeroes or a discard. These are the invariants:
 *
 * V1  A write takes effect between the moment it was asked for and the moment it is closed, or
 *     never. An acknowledged write is closed by the acknowledgement, and has taken effect. A failed
 *     write is closed for its requester when the requester is told; for other requesters when the
 *     owner knows of the end too: it has ended the request, has lost the requester, or has stopped.
 *     A write whose requester has stopped is closed when the owner knows of that.
 * V2  So once a request made after a write was closed has succeeded, it is settled for good whether
 *     the blocks hold that write. A value that was acknowledged, or was read by a read that began
 *     when the write was closed, was there from that moment until the last read of it began. No two
 *     values of a block were there at the same time.
 * V3  While a write is in progress, reads may see it or the value it replaces, in any order.
 * V4  A value is durable if it was acknowledged with FUA; if it was there when a flush was asked
 *     for that the same incarnation of the I/O unit acknowledged; or if it is read after that
 *     incarnation and was there before its end: a device does not forget what it remembers. Values
 *     that precede a durable one never come back.
 * V5  When an I/O unit stops, a block of a disk has one of the values since its durable one; reads
 *     show which. Memory becomes zeroes.
 * V6  Suppose one incarnation of an I/O unit acknowledges a write without a flush, and another one
 *     acknowledges a later flush of the same requester. That flush vouches for data that may be
 *     lost: a flush in between must have failed for that reason. No flush fails for that reason
 *     without such a write.
 *
 * Transactions of a request run one after the other. Where zeroes may come from several writes, it
 * is unknown which of them a read has seen, and V2 and V4 conclude nothing from it; nor from reads
 * of memory, whose blocks may be half of one write and half of another.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/rio/rio_world.h"

#define SEQ_NEVER UINT64_MAX

/* ---- What comes before what ----------------------------------------------------------------- */

static const struct rw_ask *ask_of(const struct rio_world *w, uint32_t transaction)
{
	return &w->asks[w->transactions[transaction].ask];
}

/* When the transaction began: those of a request begin one after the other. */
static uint64_t start_of(const struct rio_world *w, uint32_t transaction)
{
	const struct rw_ask *a = ask_of(w, transaction);

	return a->asked_seq + (transaction - a->first);
}

static bool is_acknowledged(const struct rio_world *w, uint32_t transaction)
{
	return w->transactions[transaction].fate == RW_DONE;
}

/* Does a failure close a write of this device? */
static bool does_failure_close(const struct rio_world *w, uint32_t device)
{
	if (!(w->hazards & RW_HAZARD_LATE))
		return false;
	return w->devices[device].kind != RW_MIRROR || w->hazards & RW_HAZARD_MIRROR;
}

/* V1: when the value's write was closed, as seen by transaction `by`. */
static uint64_t closed_for(const struct rio_world *w, const struct rw_value *v, uint32_t by)
{
	const struct rw_ask *a, *other = ask_of(w, by);

	if (v->writer == RW_NONE)
		return v->zero_seq;
	a = ask_of(w, v->writer);
	if (a == other)
		return v->writer < by ? start_of(w, v->writer) : SEQ_NEVER;
	if (a->reported_seq == 0)
		return SEQ_NEVER;
	if (is_acknowledged(w, v->writer))
		return a->reported_seq;
	if (!does_failure_close(w, w->transactions[v->writer].device))
		return SEQ_NEVER;
	if (a->node == other->node)
		return a->reported_seq;
	if (a->over_seq == 0)
		return SEQ_NEVER;
	return a->over_seq > a->reported_seq ? a->over_seq : a->reported_seq;
}

/* The same for a transaction of any other ask. */
static bool is_closed(const struct rio_world *w, const struct rw_value *v)
{
	const struct rw_ask *a;

	if (v->writer == RW_NONE)
		return true;
	a = ask_of(w, v->writer);
	if (a->reported_seq == 0)
		return false;
	return is_acknowledged(w, v->writer) ||
	       (does_failure_close(w, w->transactions[v->writer].device) && a->over_seq != 0);
}

/* Was the value's write closed before transaction `by` began? */
static bool is_before(const struct rio_world *w, const struct rw_value *v, uint32_t by)
{
	return closed_for(w, v, by) < start_of(w, by);
}

/* V2: was another value there between this one and that read? */
static bool is_replaced(const struct rio_world *w, const struct rw_block *b,
			const struct rw_value *v, uint32_t read)
{
	for (uint32_t i = 0; i < b->count; i++) {
		const struct rw_value *other = &b->values[i];

		/* Initial zeroes that were never read have no last transaction. */
		if (other == v || other->sure_seq == 0 || other->last == RW_NONE ||
		    !is_before(w, other, read) || start_of(w, read) < other->cut_seq)
			continue;
		if (is_before(w, v, other->last) && v->cut_seq < start_of(w, other->last))
			return true;
	}
	return false;
}

/* ---- Sets ----------------------------------------------------------------------------------- */

static struct rw_block *block_of(const struct rio_world *w, uint32_t device, uint64_t offset)
{
	const struct rw_device *d = &w->devices[device];

	CHECK(offset / d->block_bytes < d->block_count);
	return &d->blocks[offset / d->block_bytes];
}

/* The start of the oldest open request, whose reads may see old values. */
static uint64_t oldest_open(const struct rio_world *w)
{
	uint64_t oldest = w->seq;

	for (uint32_t i = 0; i < w->ask_count; i++) {
		if (w->asks[i].reported_seq == 0 && w->asks[i].asked_seq < oldest)
			oldest = w->asks[i].asked_seq;
	}
	return oldest;
}

static void block_tidy(const struct rio_world *w, struct rw_block *b)
{
	uint64_t oldest = oldest_open(w);
	uint32_t kept = 0;

	for (uint32_t i = 0; i < b->count; i++) {
		if (b->values[i].gone_seq == 0 || b->values[i].gone_seq > oldest)
			b->values[kept++] = b->values[i];
	}
	b->count = kept;
}

static void value_add(struct rio_world *w, struct rw_block *b, const struct rw_value *v)
{
	if (b->count == b->room)
		block_tidy(w, b);
	if (2 * b->count >= b->room) {
		b->room = b->room ? 2 * b->room : 4;
		b->values = realloc(b->values, b->room * sizeof(*b->values));
		CHECK(b->values);
	}
	b->values[b->count++] = *v;
}

static struct rw_value *value_find(struct rw_block *b, uint32_t writer)
{
	for (uint32_t i = 0; i < b->count; i++) {
		if (b->values[i].writer == writer)
			return &b->values[i];
	}
	return NULL;
}

/* V4: values that preceded the durable one when transaction `by` began never come back. */
static void value_harden(struct rio_world *w, struct rw_block *b, uint32_t writer, uint32_t by)
{
	for (uint32_t i = 0; i < b->count; i++) {
		struct rw_value *v = &b->values[i];

		if (v->writer != writer && v->gone_seq == 0 && is_before(w, v, by))
			v->gone_seq = w->seq;
	}
}

static uint32_t life_of_unit(const struct rio_world *w, uint32_t device)
{
	return w->nodes[w->devices[device].node].incarnation;
}

static bool does_change(enum sgl_operation operation)
{
	return operation == SGL_WRITE || operation == SGL_WRITE_ZEROES || operation == SGL_DISCARD;
}

int rw_values_open(struct rio_world *w)
{
	for (uint32_t i = 0; i < w->device_count; i++) {
		struct rw_device *d = &w->devices[i];

		/* Covers the whole device, also of a stripe. */
		d->block_count = (uint32_t)(RW_DEVICE_DISKS * d->size_bytes / d->block_bytes);
		d->blocks = calloc(d->block_count, sizeof(*d->blocks));
		if (!d->blocks)
			return -1;
		for (uint32_t k = 0; k < d->block_count; k++)
			value_add(w, &d->blocks[k],
				  &(struct rw_value){
					  .writer = RW_NONE, .sure_seq = 1, .last = RW_NONE });
	}
	return 0;
}

void rw_values_close(struct rio_world *w)
{
	for (uint32_t i = 0; i < w->device_count; i++) {
		for (uint32_t k = 0; w->devices[i].blocks && k < w->devices[i].block_count; k++)
			free(w->devices[i].blocks[k].values);
		free(w->devices[i].blocks);
	}
}

void rw_values_asked(struct rio_world *w, uint32_t transaction)
{
	const struct rw_transaction *t = &w->transactions[transaction];
	uint32_t block_bytes;

	if (t->fate == RW_NEVER || !does_change(t->is.operation))
		return;
	block_bytes = w->devices[t->device].block_bytes;
	for (uint64_t at = 0; at < t->is.length; at += block_bytes)
		value_add(w, block_of(w, t->device, t->is.offset + at),
			  &(struct rw_value){ .writer = transaction, .last = transaction });
}

/* ---- Power ---------------------------------------------------------------------------------- */

/* V5 */
static void block_cut(struct rio_world *w, struct rw_block *b, bool is_memory)
{
	for (uint32_t i = 0; i < b->count; i++) {
		struct rw_value *v = &b->values[i];

		if (is_memory && v->gone_seq == 0 && is_closed(w, v))
			v->gone_seq = w->seq;
		v->cut_seq = w->seq;
		v->sure_seq = 0;
		v->last = v->writer;
	}
	if (is_memory)
		value_add(w, b,
			  &(struct rw_value){ .writer = RW_NONE,
					      .zero_seq = w->seq,
					      .sure_seq = w->seq,
					      .last = RW_NONE });
}

void rw_values_cut(struct rio_world *w, uint32_t device)
{
	struct rw_device *d = &w->devices[device];

	for (uint32_t i = 0; i < d->block_count; i++)
		block_cut(w, &d->blocks[i], d->kind == RW_MEMORY);
}

/* ---- Acknowledged --------------------------------------------------------------------------- */

static void write_done(struct rio_world *w, uint32_t transaction)
{
	const struct rw_transaction *t = &w->transactions[transaction];
	const struct rw_device *d = &w->devices[t->device];
	bool is_of_now = ask_of(w, transaction)->unit_life == life_of_unit(w, t->device);

	for (uint64_t at = 0; at < t->is.length; at += d->block_bytes) {
		struct rw_block *b = block_of(w, t->device, t->is.offset + at);
		struct rw_value *v = value_find(b, transaction);

		if (!v)
			continue; /* a later value is durable */
		if (d->kind == RW_MEMORY && !is_of_now)
			v->gone_seq = w->seq;
		else if (t->is.operation == SGL_DISCARD)
			continue; /* a discarded block may keep its value */
		else if (is_of_now || t->is_durable)
			v->sure_seq = w->seq;
		if (t->is_durable)
			value_harden(w, b, transaction, transaction);
	}
}

/* V4: an acknowledged flush makes values durable. */
static void block_flush(struct rio_world *w, struct rw_block *b, uint32_t flush)
{
	const struct rw_ask *f = ask_of(w, flush);
	bool is_of_now = f->unit_life == life_of_unit(w, w->transactions[flush].device);

	for (uint32_t i = 0; i < b->count; i++) {
		const struct rw_value *v = &b->values[i];
		bool is_of_life = v->writer != RW_NONE && is_acknowledged(w, v->writer) &&
				  ask_of(w, v->writer)->unit_life == f->unit_life &&
				  w->transactions[v->writer].is.operation != SGL_DISCARD;

		if (is_of_life && is_before(w, v, flush))
			value_harden(w, b, v->writer, v->writer);
		if (is_of_now && v->last != RW_NONE && v->sure_seq != 0 &&
		    v->sure_seq < start_of(w, flush))
			value_harden(w, b, v->writer, v->last);
	}
}

/*
 * Is the ask excused from failing for the loss of this write? A flush that began before its
 * requester was told of the loss must fail too, whichever of its flushes was told first.
 */
static bool is_excused_for(const struct rw_transaction *t, const struct rw_ask *a)
{
	return t->is_excused && t->excused_seq <= a->asked_seq;
}

static bool is_settled_for(const struct rw_transaction *t, const struct rw_ask *a)
{
	return t->is_settled && is_excused_for(t, a);
}

/* V6 */
static void judge_flush(struct rio_world *w, uint32_t flush)
{
	const struct rw_transaction *f = &w->transactions[flush];
	const struct rw_ask *a = ask_of(w, flush);

	for (uint32_t i = 0; i < w->transaction_count; i++) {
		const struct rw_transaction *t = &w->transactions[i];
		const struct rw_ask *before = ask_of(w, i);

		if (t->device != f->device || !is_acknowledged(w, i) || t->is_durable ||
		    is_excused_for(t, a) ||
		    (t->is.operation != SGL_WRITE && t->is.operation != SGL_WRITE_ZEROES))
			continue;
		if (before->node == a->node && before->incarnation == a->incarnation &&
		    before->reported_seq < a->asked_seq && before->unit_life < a->unit_life)
			rw_fail(w,
				"flush %u of device %u ends well, and write %u was acknowledged by "
				"a life of its I/O unit that is over",
				flush, f->device, i);
	}
}

bool rw_values_is_loss_due(const struct rio_world *w, const struct rw_ask *a)
{
	bool is_due = false;

	for (uint32_t f = a->first; f < a->first + a->count; f++) {
		const struct rw_transaction *flush = &w->transactions[f];

		for (uint32_t i = 0; i < a->first && flush->is.operation == SGL_FLUSH; i++) {
			const struct rw_transaction *t = &w->transactions[i];
			const struct rw_ask *before = ask_of(w, i);

			is_due = is_due || (t->device == flush->device && is_acknowledged(w, i) &&
					    does_change(t->is.operation) && !t->is.is_fua &&
					    !is_settled_for(t, a) && before->node == a->node &&
					    before->unit_life < life_of_unit(w, flush->device));
		}
	}
	return is_due;
}

static void flush_done(struct rio_world *w, uint32_t flush)
{
	const struct rw_transaction *f = &w->transactions[flush];
	const struct rw_device *d = &w->devices[f->device];
	const struct rw_ask *a = ask_of(w, flush);

	if (w->hazards & RW_HAZARD_FLUSH)
		judge_flush(w, flush);
	for (uint32_t i = 0; i < d->block_count; i++)
		block_flush(w, &d->blocks[i], flush);
	for (uint32_t i = 0; i < w->transaction_count; i++) {
		struct rw_transaction *t = &w->transactions[i];
		const struct rw_value v = { .writer = i };

		if (t->device != f->device || !is_before(w, &v, flush))
			continue;
		if (is_acknowledged(w, i) && ask_of(w, i)->unit_life == a->unit_life)
			t->is_durable = true;
		if (t->is_durable && ask_of(w, i)->node == a->node)
			t->is_excused = t->is_settled = true;
	}
}

void rw_values_done(struct rio_world *w, uint32_t transaction)
{
	const struct rw_transaction *t = &w->transactions[transaction];

	if (t->is.operation == SGL_FLUSH)
		flush_done(w, transaction);
	else if (does_change(t->is.operation))
		write_done(w, transaction);
}

/*
 * V6: the requester was told that its unflushed writes may be lost, as far as it knows of the I/O
 * unit's incarnations. For writes accepted in an incarnation that it believes to be alive, it will
 * be told when it learns of its end.
 */
static void loss_reported(struct rio_world *w, uint32_t flush)
{
	const struct rw_ask *a = ask_of(w, flush);
	uint32_t known = rw_offered_life(w, a->node, w->transactions[flush].device);
	uint32_t life = known ? known : life_of_unit(w, w->transactions[flush].device);

	for (uint32_t i = 0; i < w->transaction_count; i++) {
		struct rw_transaction *t = &w->transactions[i];
		const struct rw_ask *before = ask_of(w, i);

		if (t->device == w->transactions[flush].device && before->node == a->node &&
		    before->reported_seq != 0 && before->reported_seq < a->reported_seq &&
		    before->unit_life < life && !t->is_excused) {
			t->is_excused = true;
			t->is_settled = known != 0;
			t->excused_seq = a->reported_seq;
		}
	}
}

void rw_values_loss_reported(struct rio_world *w, const struct rw_ask *a)
{
	if (!rw_values_is_loss_due(w, a))
		rw_fail(w, "requester %u is refused a flush, and none of its writes can be lost",
			a->node);
	for (uint32_t i = a->first; i < a->first + a->count; i++) {
		/* The ask may name a nonexistent device beside an existing one. */
		if (w->transactions[i].is.operation == SGL_FLUSH &&
		    w->transactions[i].device != RW_NONE)
			loss_reported(w, i);
	}
}

/* ---- Reads ---------------------------------------------------------------------------------- */

static bool is_zeroes(const struct rio_world *w, const struct rw_value *v)
{
	return v->writer == RW_NONE || w->transactions[v->writer].is.operation != SGL_WRITE;
}

static bool may_be_read(const struct rio_world *w, const struct rw_block *b,
			const struct rw_value *v, uint32_t read)
{
	if (v->gone_seq != 0 && v->gone_seq < start_of(w, read))
		return false;
	if (v->writer != RW_NONE && ask_of(w, v->writer) == ask_of(w, read) && v->writer > read)
		return false;
	return !is_replaced(w, b, v, read);
}

/* V2: this is the block's value. V4: if it is from before its I/O unit stopped, it is durable. */
static void value_seen(struct rio_world *w, struct rw_block *b, struct rw_value *v, uint32_t read)
{
	bool is_of_before = v->cut_seq != 0 ||
			    (v->writer != RW_NONE &&
			     ask_of(w, v->writer)->unit_life < ask_of(w, read)->unit_life);

	if (!is_before(w, v, read) || start_of(w, read) < v->cut_seq ||
	    ask_of(w, read)->unit_life != life_of_unit(w, w->transactions[read].device))
		return;
	v->sure_seq = v->sure_seq ? v->sure_seq : w->seq;
	if (v->last == RW_NONE || start_of(w, v->last) < start_of(w, read))
		v->last = read;
	if (is_of_before)
		value_harden(w, b, v->writer, read);
}

/* Does a read prove that the block has no other value? */
static bool does_settle(const struct rio_world *w, uint32_t read)
{
	enum rw_device_kind kind = w->devices[w->transactions[read].device].kind;

	return kind != RW_MEMORY && (kind != RW_MIRROR || w->hazards & RW_HAZARD_MIRROR);
}

bool rw_values_read(struct rio_world *w, uint32_t read, uint64_t offset, uint32_t writer)
{
	const struct rw_transaction *t = &w->transactions[read];
	struct rw_block *b = block_of(w, t->device, offset);
	struct rw_value *found = NULL;
	uint32_t count = 0;

	for (uint32_t i = 0; i < b->count; i++) {
		struct rw_value *v = &b->values[i];
		bool is_it = writer == RW_NONE ? is_zeroes(w, v) : v->writer == writer;

		if (!is_it || !may_be_read(w, b, v, read))
			continue;
		found = v;
		count++;
	}
	if (count == 1 && does_settle(w, read))
		value_seen(w, b, found, read);
	return count > 0;
}
