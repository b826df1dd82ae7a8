/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * READ, WRITE, PRE-FETCH and SYNCHRONIZE CACHE: SBC-3 section 5. Blocks move between the device and
 * the caller's memory, as many at a time as one request of the device can have spans. The device
 * refuses the empty request that comes of a block in more pieces than that.
 */
#include "scsi/unit.h"

enum { FUA = 0x08 };

static uint64_t offset_of(const struct scsi_unit *u, const struct scsi_task *t)
{
	return t->lba * u->block_bytes + t->at;
}

/* ---- READ ----------------------------------------------------------------------------------- */

/* The beginning of a block, for an initiator that has no room for all of it. */
static enum scsi_reason tail_copy(struct scsi_unit *u, struct scsi_task *t)
{
	struct store_request whole = { .spans = t->in.spans, .span_count = t->in.span_count };
	const uint8_t *from = u->scratch;

	t->spans.count = 0;
	t->spans.length = 0;
	/* A block in more pieces than a list can have is cut in several steps. */
	while (t->at < t->end) {
		t->at += store_span_cut(&t->spans, &whole, t->at, t->end - t->at);
		for (uint32_t i = 0; i < t->spans.count; i++) {
			memcpy(t->spans.spans[i].bytes, from, t->spans.spans[i].length);
			from += t->spans.spans[i].length;
		}
		t->spans.count = 0;
	}
	t->in_length = t->end;
	return SCSI_OK;
}

/* All of the data at once, where it is. False: it is to be copied. */
static bool read_lent(struct scsi_unit *u, struct scsi_task *t)
{
	struct store_loan *loan = t->loan;

	if (!loan || t->at > 0 || t->end == 0 || t->end % u->block_bytes != 0)
		return false;
	loan->offset = offset_of(u, t);
	loan->length = t->end;
	loan->spans = t->in.spans;
	return store_lend(u->store, loan);
}

static enum scsi_reason read_next(struct scsi_unit *u, struct scsi_task *t)
{
	uint64_t offset, piece, whole = t->end - t->end % u->block_bytes;

	t->at += t->request.length;
	offset = offset_of(u, t);
	if (t->at == t->end || read_lent(u, t)) {
		t->in_length = t->end;
		return SCSI_OK;
	}
	if (t->at == whole) {
		t->next = tail_copy;
		return scratch_request(u, t, STORE_READ, offset, u->block_bytes);
	}
	piece = data_cut(u, t, &t->in, t->at, whole - t->at);
	return device_request(u, t, STORE_READ, offset, piece);
}

enum scsi_reason run_read(struct scsi_unit *u, struct scsi_task *t)
{
	enum scsi_reason reason = blocks_check(u, t, u->transfer_blocks_max);

	if (reason != SCSI_OK)
		return reason;
	t->end = t->want < t->in.length ? t->want : t->in.length;
	t->next = read_next;
	t->request.length = 0;
	/* SBC-3 section 5.11: what is newer in the cache goes to the medium first. */
	if (t->command->flags & HAS_FUA && t->cdb[1] & FUA && !u->is_readonly)
		return device_flush(u, t);
	return read_next(u, t);
}

/* ---- WRITE ---------------------------------------------------------------------------------- */

static enum scsi_reason write_next(struct scsi_unit *u, struct scsi_task *t)
{
	uint64_t piece;

	t->at += t->request.length;
	if (t->at == t->end)
		return finish_stable(u, t);
	piece = data_cut(u, t, &t->out, t->at, t->end - t->at);
	return device_request(u, t, STORE_WRITE, offset_of(u, t), piece);
}

/* As many whole blocks as the initiator has sent of them. */
static enum scsi_reason write_begin(struct scsi_unit *u, struct scsi_task *t)
{
	enum scsi_reason reason = blocks_check(u, t, u->transfer_blocks_max);

	if (reason != SCSI_OK)
		return reason;
	t->end = t->want < t->out.length ? t->want : t->out.length;
	t->end -= t->end % u->block_bytes;
	t->request.length = 0;
	return SCSI_OK;
}

enum scsi_reason run_write(struct scsi_unit *u, struct scsi_task *t)
{
	enum scsi_reason reason = write_begin(u, t);

	t->next = write_next;
	return reason != SCSI_OK || t->end == 0 ? reason : write_next(u, t);
}

static enum scsi_reason write_verify_next(struct scsi_unit *u, struct scsi_task *t)
{
	uint64_t piece;

	t->at += t->request.length;
	if (t->at == t->end) {
		/* SBC-3 section 5.38: verified is what is on the medium. */
		t->next = verify_begin;
		return device_flush(u, t);
	}
	piece = data_cut(u, t, &t->out, t->at, t->end - t->at);
	return device_request(u, t, STORE_WRITE, offset_of(u, t), piece);
}

enum scsi_reason run_write_verify(struct scsi_unit *u, struct scsi_task *t)
{
	enum scsi_reason reason = bytchk_check(t);

	if (reason == SCSI_OK)
		reason = write_begin(u, t);
	t->next = write_verify_next;
	return reason != SCSI_OK || t->end == 0 ? reason : write_verify_next(u, t);
}

/* ---- PRE-FETCH, SYNCHRONIZE CACHE ----------------------------------------------------------- */

/* Nothing is read ahead: the device has a cache of its own. */
enum scsi_reason run_prefetch(struct scsi_unit *u, struct scsi_task *t)
{
	return blocks_check(u, t, UINT64_MAX);
}

/* All of the cache, whatever the blocks; with IMMED too the status comes after it. */
enum scsi_reason run_synchronize(struct scsi_unit *u, struct scsi_task *t)
{
	enum scsi_reason reason = blocks_check(u, t, UINT64_MAX);

	if (reason != SCSI_OK)
		return reason;
	t->next = finish_good;
	return device_flush(u, t);
}
