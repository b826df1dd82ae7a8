/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands that read into the scratch buffer of the unit: VERIFY, COMPARE AND WRITE, ORWRITE (SBC-3
 * sections 5.2, 5.9 and 5.28 to 5.30).
 */
#include "scsi/unit.h"

enum { BYTCHK = 0x06, BYTCHK_SAME = 0x02, COMPARE_BLOCKS_AT = 13 /* in the CDB */ };

/* What is done to bytes of the scratch buffer and those the initiator sent for them. */
enum piece_act { PIECE_COMPARE, PIECE_OR };

/* How many bytes are the same, from the first on. */
static size_t same_bytes(const uint8_t *a, const uint8_t *b, size_t length)
{
	size_t same = 0;

	if (memcmp(a, b, length) == 0)
		return length;
	while (a[same] == b[same])
		same++;
	return same;
}

/*
 * Goes through `length` bytes of the scratch buffer and as many of `out` from `at` on. Returns how
 * many: all, unless they are compared and one differs.
 */
static uint64_t scratch_act(struct scsi_unit *u, const struct scsi_task *t, uint64_t at,
			    uint64_t length, enum piece_act act)
{
	uint64_t done = 0;

	for (uint32_t i = 0; i < t->out.span_count && done < length; i++) {
		const struct span *s = &t->out.spans[i];
		const uint8_t *from = s->bytes;
		size_t count, same;

		if (at >= s->length) {
			at -= s->length;
			continue;
		}
		from += at;
		count = s->length - (size_t)at;
		count = count < length - done ? count : (size_t)(length - done);
		same = count;
		if (act == PIECE_COMPARE)
			same = same_bytes(from, u->scratch + done, count);
		for (size_t b = 0; act == PIECE_OR && b < count; b++)
			u->scratch[done + b] |= from[b];
		done += same;
		if (same < count)
			break;
		at = 0;
	}
	return done;
}

static enum scsi_reason miscompare(struct scsi_task *t, uint64_t offset)
{
	t->has_info = true;
	t->info = offset;
	return SCSI_R_MISCOMPARE;
}

/* At most so much of what is left fits into the scratch buffer. */
static uint64_t scratch_piece(const struct scsi_task *t)
{
	return t->end - t->at < SCRATCH_BYTES ? t->end - t->at : SCRATCH_BYTES;
}

static uint64_t offset_of(const struct scsi_unit *u, const struct scsi_task *t)
{
	return t->lba * u->block_bytes + t->at;
}

/* ---- VERIFY --------------------------------------------------------------------------------- */

enum scsi_reason bytchk_check(struct scsi_task *t)
{
	uint8_t check = t->cdb[1] & BYTCHK;

	return check == 0 || check == BYTCHK_SAME ? SCSI_OK : cdb_refuse(t, 1, 2);
}

static enum scsi_reason verify_read(struct scsi_unit *u, struct scsi_task *t)
{
	return t->at == t->end
		       ? SCSI_OK
		       : scratch_request(u, t, STORE_READ, offset_of(u, t), scratch_piece(t));
}

static enum scsi_reason verify_next(struct scsi_unit *u, struct scsi_task *t)
{
	uint64_t length = t->request.length;

	if (t->cdb[1] & BYTCHK) {
		uint64_t same = scratch_act(u, t, t->at, length, PIECE_COMPARE);

		if (same < length)
			return miscompare(t, t->at + same);
	}
	t->at += length;
	return verify_read(u, t);
}

enum scsi_reason verify_begin(struct scsi_unit *u, struct scsi_task *t)
{
	t->at = 0;
	t->next = verify_next;
	return verify_read(u, t);
}

enum scsi_reason run_verify(struct scsi_unit *u, struct scsi_task *t)
{
	bool is_compared = t->cdb[1] & BYTCHK;
	enum scsi_reason reason = bytchk_check(t);

	if (reason == SCSI_OK)
		reason = blocks_check(u, t, is_compared ? u->transfer_blocks_max : UINT64_MAX);
	if (reason != SCSI_OK)
		return reason;
	t->end = t->blocks * u->block_bytes;
	/* As much as the initiator has sent can be compared. */
	if (is_compared && t->out.length < t->end)
		t->end = t->out.length - t->out.length % u->block_bytes;
	return verify_begin(u, t);
}

/* ---- COMPARE AND WRITE ---------------------------------------------------------------------- */

static enum scsi_reason compare_written(struct scsi_unit *u, struct scsi_task *t)
{
	t->at += t->request.length;
	if (t->at == t->end)
		return finish_stable(u, t);
	/* The second half of the data is what is written. */
	if (data_cut(u, t, &t->out, t->end + t->at, t->end - t->at) == 0)
		return SCSI_R_INTERNAL;
	return device_request(u, t, STORE_WRITE, offset_of(u, t), t->spans.length);
}

static enum scsi_reason compare_read(struct scsi_unit *u, struct scsi_task *t)
{
	uint64_t same = scratch_act(u, t, 0, t->end, PIECE_COMPARE);

	if (same < t->end)
		return miscompare(t, same);
	t->request.length = 0;
	t->next = compare_written;
	return compare_written(u, t);
}

enum scsi_reason run_compare_and_write(struct scsi_unit *u, struct scsi_task *t)
{
	enum scsi_reason reason = blocks_check(u, t, u->compare_blocks_max);

	if (reason != SCSI_OK)
		return reason;
	t->end = t->blocks * u->block_bytes;
	/* Data for no blocks: more of them than the field can name. Nothing would be compared. */
	if (t->end == 0)
		return t->out.length == 0 ? SCSI_OK : cdb_refuse(t, COMPARE_BLOCKS_AT, SCSI_NO_BIT);
	/* Half of it would be written without a comparison, or compared with nothing. */
	if (t->out.length != t->want)
		return SCSI_R_DATA_LENGTH;
	t->next = compare_read;
	return scratch_request(u, t, STORE_READ, offset_of(u, t), t->end);
}

/* ---- ORWRITE -------------------------------------------------------------------------------- */

static enum scsi_reason or_written(struct scsi_unit *u, struct scsi_task *t);

static enum scsi_reason or_read(struct scsi_unit *u, struct scsi_task *t)
{
	uint64_t length = t->request.length;

	(void)scratch_act(u, t, t->at, length, PIECE_OR);
	t->next = or_written;
	return scratch_request(u, t, STORE_WRITE, offset_of(u, t), length);
}

static enum scsi_reason or_written(struct scsi_unit *u, struct scsi_task *t)
{
	t->at += t->request.length;
	if (t->at == t->end)
		return finish_stable(u, t);
	t->next = or_read;
	return scratch_request(u, t, STORE_READ, offset_of(u, t), scratch_piece(t));
}

enum scsi_reason run_or_write(struct scsi_unit *u, struct scsi_task *t)
{
	enum scsi_reason reason = blocks_check(u, t, u->transfer_blocks_max);

	if (reason != SCSI_OK)
		return reason;
	if (t->out.length < t->want)
		return SCSI_R_DATA_LENGTH;
	t->end = t->want;
	t->request.length = 0;
	return t->end == 0 ? SCSI_OK : or_written(u, t);
}
