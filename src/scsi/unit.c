/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A unit runs its tasks: at once, or, where the order matters, when the earlier ones they must not
 * meet have ended. A task takes a step, waits for the device, and takes the next.
 */
#include "scsi/unit.h"

enum { BYTE_BYTCHK = 0x02, BYTE_FUA = 0x08, BYTE_NDOB = 0x01, BYTE_PROTECT = 0xe0, NACA = 0x04 };

/* ---- The extent of a command ---------------------------------------------------------------- */

struct cdb_extent cdb_decode(enum cdb_shape shape, const uint8_t *cdb)
{
	struct rd r = rd_of(cdb, SCSI_CDB_BYTES);
	struct cdb_extent e = { 0 };
	uint8_t skipped[10];

	static const uint8_t length_at[] = {
		[CDB_ALLOCATE_6] = 4, [CDB_ALLOCATE_3] = 3,  [CDB_ALLOCATE_7] = 7,
		[CDB_ALLOCATE_5] = 5, [CDB_ALLOCATE_6L] = 6, [CDB_COMPARE] = 13
	};
	switch (shape) {
	case CDB_6:
		e.lba = rd_u32(&r) & 0x1fffff;
		e.length = rd_u8(&r);
		e.length = e.length > 0 ? e.length : 256;
		break;
	case CDB_10:
	case CDB_12:
	case CDB_LBA_EIGHT:
		rd_bytes(&r, skipped, 2);
		e.lba = rd_u32(&r);
		if (shape == CDB_10)
			rd_bytes(&r, skipped, 1);
		e.length = shape == CDB_12 ? rd_u32(&r) : shape == CDB_10 ? rd_u16(&r) : 8;
		break;
	case CDB_16:
	case CDB_LBA_16:
		rd_bytes(&r, skipped, 2);
		e.lba = rd_u64(&r);
		e.length = rd_u32(&r);
		break;
	case CDB_COMPARE:
		rd_bytes(&r, skipped, 2);
		e.lba = rd_u64(&r);
		rd_bytes(&r, skipped, 3);
		e.length = rd_u8(&r);
		break;
	case CDB_ALLOCATE_6:
	case CDB_ALLOCATE_3:
	case CDB_ALLOCATE_7:
	case CDB_ALLOCATE_5:
	case CDB_ALLOCATE_6L:
		rd_bytes(&r, skipped, length_at[shape]);
		e.length = shape == CDB_ALLOCATE_6 ? rd_u8(&r) : rd_u16(&r);
		if (shape == CDB_ALLOCATE_5 || shape == CDB_ALLOCATE_6L)
			e.length = e.length << 16 | rd_u16(&r);
		break;
	case CDB_NEITHER:
		break;
	}
	return e;
}

uint64_t cdb_want(const struct scsi_unit *u, const struct scsi_command *c, const uint8_t *cdb)
{
	uint64_t length = cdb_decode(c->shape, cdb).length;

	switch (c->data) {
	case DATA_NONE:
		return 0;
	case DATA_REPLY:
	case DATA_PARAMETERS:
		return length;
	case DATA_BLOCKS_IN:
	case DATA_BLOCKS_OUT:
		return length * u->block_bytes;
	case DATA_BLOCKS_TWICE:
		return 2 * length * u->block_bytes;
	case DATA_BLOCKS_CHECK:
		return cdb[1] & BYTE_BYTCHK ? length * u->block_bytes : 0;
	case DATA_BLOCK_OUT:
		return c->usage[1] & cdb[1] & BYTE_NDOB ? 0 : u->block_bytes;
	}
	return 0;
}

/* ---- Order ---------------------------------------------------------------------------------- */

static bool is_barrier(const struct scsi_task *t)
{
	return t->is_exclusive || t->is_ordered || t->is_scratch;
}

static bool do_overlap(const struct scsi_task *a, const struct scsi_task *b)
{
	return a->lba < b->lba ? b->lba - a->lba < a->blocks : a->lba - b->lba < b->blocks;
}

/* Must the later one wait for the earlier? */
static bool must_wait(const struct scsi_task *early, const struct scsi_task *late)
{
	if (early->is_ordered || late->is_ordered)
		return true;
	if (early->is_scratch && late->is_scratch)
		return true;
	return (early->is_exclusive || late->is_exclusive) && do_overlap(early, late);
}

static bool can_start(const struct scsi_unit *u, const struct scsi_task *t)
{
	if (u->barrier_count == 0)
		return true;
	for (const struct list *l = u->tasks.next; l != &t->link; l = l->next)
		if (must_wait(CONTAINER_OF(l, struct scsi_task, link), t))
			return false;
	return true;
}

/* ---- The end of a task ---------------------------------------------------------------------- */

static bool moves_in(const struct scsi_task *t)
{
	return t->command->data == DATA_REPLY || t->command->data == DATA_BLOCKS_IN;
}

static void residual_set(struct scsi_task *t, bool is_good)
{
	uint64_t expected = t->in.length > t->out.length ? t->in.length : t->out.length;
	uint64_t moved = is_good ? t->want : 0;

	if (t->command && moved > 0)
		expected = moves_in(t) ? t->in.length : t->out.length;
	t->is_overflow = moved > expected;
	t->residual = moved > expected ? moved - expected : expected - moved;
}

static void task_end(struct scsi_unit *u, struct scsi_task *t, enum scsi_reason reason)
{
	if (t->is_aborted)
		reason = SCSI_R_ABORTED;
	list_remove(&t->link);
	u->barrier_count -= is_barrier(t);
	u->waiting_count -= !t->is_running;
	t->unit = NULL;
	t->reason = reason;
	t->status = reason_status(reason);
	if (reason != SCSI_OK)
		t->in_length = 0;
	if (t->status == SCSI_CHECK_CONDITION)
		t->sense_length = sense_encode(t->sense, reason, u->mode.has_descriptor_sense, t);
	residual_set(t, reason == SCSI_OK);
	list_add_tail(&u->target->done, &t->link);
}

/* ---- The beginning -------------------------------------------------------------------------- */

/* SPC-4: first what concerns the nexus, then the reservation, then the state of the unit. */
static enum scsi_reason task_run(struct scsi_unit *u, struct scsi_task *t)
{
	const struct scsi_command *c = t->command;
	enum scsi_reason reason;

	if (!u->store && !(c && c->flags & NO_UNIT))
		return SCSI_R_LUN;
	if (!(c && c->flags & KEEPS_ATTENTION)) {
		reason = attention_take(u, t->nexus);
		if (reason != SCSI_OK)
			return reason;
	}
	if (!c)
		return t->reason == SCSI_R_CDB_FIELD ? cdb_refuse(t, 1, 4) : t->reason;
	reason = reservation_check(u, t);
	if (reason != SCSI_OK)
		return reason;
	if (t->cdb[c->bytes - 1] & NACA)
		return cdb_refuse(t, c->bytes - 1, 2);
	if (c->flags & NEEDS_MEDIUM && u->is_stopped)
		return SCSI_R_STOPPED;
	/* SBC-3 section 4.21: there is no protection information. */
	if (c->flags & HAS_PROTECT && t->cdb[1] & BYTE_PROTECT)
		return cdb_refuse(t, 1, 7);
	if (c->flags & CHANGES_MEDIUM && u->is_readonly)
		return SCSI_R_WRITE_PROTECTED;
	if (c->flags & CHANGES_MEDIUM && u->mode.is_write_protected)
		return SCSI_R_SOFTWARE_WRITE_PROTECTED;
	return c->run(u, t);
}

static void task_start(struct scsi_unit *u, struct scsi_task *t)
{
	enum scsi_reason reason;

	t->is_running = true;
	reason = task_run(u, t);
	if (reason != SCSI_PENDING)
		task_end(u, t, reason);
}

/* Starts what waited for tasks that have ended. */
static bool unit_wake(struct scsi_unit *u)
{
	struct list *l = u->tasks.next;
	bool is_any = false;

	while (u->waiting_count > 0 && l != &u->tasks) {
		struct scsi_task *t = CONTAINER_OF(l, struct scsi_task, link);

		l = l->next;
		if (t->is_running || !can_start(u, t))
			continue;
		u->waiting_count--;
		task_start(u, t);
		is_any = true;
		l = u->tasks.next; /* it may have ended, and others by it */
	}
	return is_any;
}

static void extent_set(struct scsi_unit *u, struct scsi_task *t)
{
	const struct scsi_command *c = t->command;
	struct cdb_extent e = cdb_decode(c->shape, t->cdb);

	t->lba = e.lba;
	t->blocks = e.length;
	t->want = cdb_want(u, c, t->cdb);
	t->is_exclusive = c->flags & IS_EXCLUSIVE;
	t->is_scratch = c->flags & USES_SCRATCH;
	/* The end of a block that the initiator has no room for is read aside. */
	if (c->data == DATA_BLOCKS_IN && t->in.length < t->want &&
	    t->in.length % u->block_bytes != 0)
		t->is_scratch = true;
	/* Their addresses are in the parameters, or are none. */
	if (c->data == DATA_PARAMETERS || c->data == DATA_REPLY)
		t->blocks = c->flags & CHANGES_MEDIUM ? u->block_count : 0;
}

void unit_take(struct scsi_unit *u, struct scsi_task *t)
{
	t->unit = u;
	t->command = NULL;
	t->next = NULL;
	t->is_aborted = t->is_running = t->has_info = t->is_overflow = false;
	t->is_exclusive = t->is_scratch = false;
	t->is_ordered = t->attribute == SCSI_ORDERED;
	t->sense_length = 0;
	t->in_length = t->residual = t->lba = t->blocks = t->want = t->at = t->end = 0;
	t->index = 0;
	t->reason = command_find(u, t->cdb, &t->command);
	if (t->command)
		extent_set(u, t);
	list_add_tail(&u->tasks, &t->link);
	u->barrier_count += is_barrier(t);
	if (can_start(u, t))
		task_start(u, t);
	else
		u->waiting_count++;
	(void)unit_wake(u);
}

/* ---- Aborts --------------------------------------------------------------------------------- */

static void abort_one(struct scsi_unit *u, struct scsi_task *t)
{
	t->is_aborted = true;
	if (!t->is_running)
		task_end(u, t, SCSI_R_ABORTED);
}

void unit_abort_task(struct scsi_unit *u, struct scsi_task *t)
{
	abort_one(u, t);
	(void)unit_wake(u);
}

void unit_abort(struct scsi_unit *u, uint32_t nexus, const struct scsi_task *except)
{
	struct list *l = u->tasks.next;

	while (l != &u->tasks) {
		struct scsi_task *t = CONTAINER_OF(l, struct scsi_task, link);

		l = l->next;
		if ((nexus == EVERY_NEXUS || t->nexus == nexus) && t != except)
			abort_one(u, t);
	}
	/* A command that aborts others wakes the rest itself, at its end. */
	if (!except)
		(void)unit_wake(u);
}

/* ---- The device ----------------------------------------------------------------------------- */

static enum scsi_reason device_failure(const struct scsi_unit *u, struct scsi_task *t)
{
	const struct store_request *r = &t->request;

	if (r->reason == WEFT_R_STORE_READONLY)
		return SCSI_R_WRITE_PROTECTED;
	if (r->reason == WEFT_R_STORE_FULL)
		return SCSI_R_SPACE;
	if (r->op == STORE_FLUSH)
		return SCSI_R_WRITE;
	t->has_info = true;
	t->info = r->offset / u->block_bytes;
	return r->op == STORE_READ ? SCSI_R_READ : SCSI_R_WRITE;
}

bool unit_poll(struct scsi_unit *u)
{
	enum { STEPS_MAX = 8 };
	struct store_request *r;
	uint32_t steps = 0;

	/* A device that completes at once would go on until a VERIFY of all blocks has ended. */
	while (steps < STEPS_MAX && (r = store_next_done(u->store, u->target->now_ns))) {
		struct scsi_task *t = CONTAINER_OF(r, struct scsi_task, request);
		enum scsi_reason reason = SCSI_R_ABORTED;

		steps++;
		if (r->reason != WEFT_OK)
			reason = device_failure(u, t);
		else if (!t->is_aborted)
			reason = t->next(u, t);
		if (reason != SCSI_PENDING)
			task_end(u, t, reason);
	}
	return unit_wake(u) || steps > 0;
}

static enum scsi_reason request_submit(struct scsi_unit *u, struct scsi_task *t)
{
	if (store_submit(u->store, &t->request, u->target->now_ns) != WEFT_OK)
		return SCSI_R_INTERNAL;
	return SCSI_PENDING;
}

enum scsi_reason device_request(struct scsi_unit *u, struct scsi_task *t, enum store_op op,
				uint64_t offset, uint64_t length)
{
	bool has_spans = op == STORE_READ || op == STORE_WRITE;

	t->request = (struct store_request){ .op = op, .offset = offset, .length = length };
	if (op == STORE_WRITE || op == STORE_WRITE_ZEROES)
		t->request.flags = write_flags(u, t);
	if (has_spans) {
		t->request.spans = t->spans.spans;
		t->request.span_count = t->spans.count;
	}
	return request_submit(u, t);
}

enum scsi_reason scratch_request(struct scsi_unit *u, struct scsi_task *t, enum store_op op,
				 uint64_t offset, uint64_t length)
{
	CHECK(t->is_scratch && length <= SCRATCH_BYTES);
	t->spans.count = 0;
	t->spans.length = 0;
	(void)span_list_add(&t->spans, u->scratch, (size_t)length);
	return device_request(u, t, op, offset, length);
}

enum scsi_reason device_flush(struct scsi_unit *u, struct scsi_task *t)
{
	if (!(u->store->shape.can & STORE_CAN_FLUSH))
		return t->next(u, t);
	t->request = (struct store_request){ .op = STORE_FLUSH };
	return request_submit(u, t);
}

/* ---- What commands share -------------------------------------------------------------------- */

enum scsi_reason finish_good(struct scsi_unit *u, struct scsi_task *t)
{
	(void)u;
	(void)t;
	return SCSI_OK;
}

static bool is_write_stable(const struct scsi_unit *u, const struct scsi_task *t)
{
	return !u->mode.has_write_cache || (t->command->flags & HAS_FUA && t->cdb[1] & BYTE_FUA);
}

uint32_t write_flags(const struct scsi_unit *u, const struct scsi_task *t)
{
	return is_write_stable(u, t) && u->store->shape.can & STORE_CAN_FUA ? STORE_FUA : 0;
}

enum scsi_reason finish_stable(struct scsi_unit *u, struct scsi_task *t)
{
	/* A discard takes no flag. */
	if (!is_write_stable(u, t) ||
	    (u->store->shape.can & STORE_CAN_FUA && t->request.op != STORE_DISCARD))
		return SCSI_OK;
	t->next = finish_good;
	return device_flush(u, t);
}

/* Where the CDB has its length, for the field pointer. */
static uint16_t length_field(const struct scsi_command *c)
{
	switch (c->shape) {
	case CDB_6:
		return 4;
	case CDB_10:
		return 7;
	case CDB_12:
		return 6;
	case CDB_COMPARE:
		return 13;
	default:
		return 10;
	}
}

enum scsi_reason blocks_check(const struct scsi_unit *u, struct scsi_task *t, uint64_t blocks_max)
{
	if (t->lba > u->block_count || t->blocks > u->block_count - t->lba) {
		t->has_info = true;
		t->info = t->lba > u->block_count ? t->lba : u->block_count;
		return SCSI_R_LBA;
	}
	if (t->blocks > blocks_max)
		return cdb_refuse(t, length_field(t->command), SCSI_NO_BIT);
	return SCSI_OK;
}

struct wr reply_begin(struct scsi_target *target)
{
	return wr_of(target->reply, target->reply_bytes);
}

enum scsi_reason reply_end(struct scsi_target *target, struct scsi_task *t, const struct wr *w)
{
	uint64_t length = (uint64_t)(w->at - target->reply), at = 0;

	CHECK(!w->is_short);
	t->want = length < t->want ? length : t->want;
	length = t->want < t->in.length ? t->want : t->in.length;
	for (uint32_t i = 0; i < t->in.span_count && at < length; i++) {
		const struct span *s = &t->in.spans[i];
		size_t piece = s->length < length - at ? s->length : (size_t)(length - at);

		if (piece > 0)
			memcpy(s->bytes, target->reply + at, piece);
		at += piece;
	}
	t->in_length = length;
	return SCSI_OK;
}

bool out_read(const struct scsi_task *t, uint64_t at, void *to, size_t length)
{
	uint8_t *next = to;

	if (at > t->out.length || length > t->out.length - at)
		return false;
	for (uint32_t i = 0; i < t->out.span_count && length > 0; i++) {
		const struct span *s = &t->out.spans[i];
		size_t piece;

		if (at >= s->length) {
			at -= s->length;
			continue;
		}
		piece = s->length - (size_t)at < length ? s->length - (size_t)at : length;
		memcpy(next, s->bytes + at, piece);
		next += piece;
		length -= piece;
		at = 0;
	}
	return length == 0;
}

/* Takes bytes off the end of the list. */
static void spans_trim(struct span_list *l, uint64_t length)
{
	while (length > 0) {
		struct span *last = &l->spans[l->count - 1];
		size_t piece = last->length < length ? last->length : (size_t)length;

		last->length -= piece;
		l->length -= piece;
		length -= piece;
		l->count -= last->length == 0;
	}
}

uint64_t data_cut(const struct scsi_unit *u, struct scsi_task *t, const struct scsi_data *data,
		  uint64_t skip, uint64_t length)
{
	struct store_request whole = { .spans = data->spans, .span_count = data->span_count };

	t->spans.count = 0;
	t->spans.length = 0;
	(void)store_span_cut(&t->spans, &whole, skip, length);
	spans_trim(&t->spans, t->spans.length % u->block_bytes);
	return t->spans.length;
}
