/* SPDX-License-Identifier: BSD-2-Clause */
/* UNMAP and WRITE SAME: SBC-3 sections 5.26, 5.42 and 5.43. */
#include "scsi/unit.h"

enum {
	ANCHOR_UNMAP = 0x01,
	UNMAP_HEADER = 8,
	UNMAP_DESCRIPTOR = 16,
	ANCHOR = 0x10,
	UNMAP = 0x08,
	NDOB = 0x01,
	OBSOLETE = 0x06, /* PBDATA, LBDATA */
};

/* ---- UNMAP ---------------------------------------------------------------------------------- */

static struct cdb_extent descriptor_read(const struct scsi_task *t, uint32_t index)
{
	uint8_t bytes[UNMAP_DESCRIPTOR];
	struct rd r = rd_of(bytes, sizeof(bytes));
	struct cdb_extent e;

	CHECK(out_read(t, UNMAP_HEADER + (uint64_t)index * sizeof(bytes), bytes, sizeof(bytes)));
	e.lba = rd_u64(&r);
	e.length = rd_u32(&r);
	return e;
}

static enum scsi_reason unmap_next(struct scsi_unit *u, struct scsi_task *t)
{
	while (t->index < t->end) {
		struct cdb_extent e = descriptor_read(t, t->index++);

		if (e.length > 0)
			return device_request(u, t, u->unmap_op, e.lba * u->block_bytes,
					      e.length * u->block_bytes);
	}
	return finish_stable(u, t);
}

/* All of them are good before the first is unmapped. */
static enum scsi_reason descriptors_check(const struct scsi_unit *u, struct scsi_task *t)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < t->end; i++) {
		uint16_t at = (uint16_t)(UNMAP_HEADER + i * UNMAP_DESCRIPTOR);
		struct cdb_extent e = descriptor_read(t, i);

		if (e.lba > u->block_count || e.length > u->block_count - e.lba) {
			t->has_info = true;
			t->info = e.lba > u->block_count ? e.lba : u->block_count;
			return SCSI_R_LBA;
		}
		sum += e.length;
		if (sum > UNMAP_BLOCKS_MAX)
			return parameter_refuse(t, at + 8, SCSI_NO_BIT);
	}
	return SCSI_OK;
}

enum scsi_reason run_unmap(struct scsi_unit *u, struct scsi_task *t)
{
	uint8_t header[UNMAP_HEADER];
	struct rd r = rd_of(header, sizeof(header));
	enum scsi_reason reason;
	uint16_t bytes;

	if (t->cdb[1] & ANCHOR_UNMAP)
		return cdb_refuse(t, 1, 0);
	if (t->want == 0)
		return SCSI_OK;
	if (t->want < UNMAP_HEADER || t->out.length < t->want)
		return SCSI_R_PARAMETER_LENGTH;
	CHECK(out_read(t, 0, header, sizeof(header)));
	(void)rd_u16(&r);
	bytes = rd_u16(&r);
	if (bytes > t->want - UNMAP_HEADER)
		return SCSI_R_PARAMETER_LENGTH;
	/* A last descriptor that is not whole is ignored. */
	t->end = bytes / UNMAP_DESCRIPTOR;
	if (t->end > UNMAP_DESCRIPTORS_MAX)
		return parameter_refuse(t, 2, SCSI_NO_BIT);
	reason = descriptors_check(u, t);
	if (reason != SCSI_OK)
		return reason;
	t->request.op = u->unmap_op;
	t->next = unmap_next;
	return unmap_next(u, t);
}

/* ---- WRITE SAME ----------------------------------------------------------------------------- */

static bool is_zero(const struct span *s, size_t length)
{
	/* A zero at the front, and each byte as the one before it. */
	return length == 0 || (s->bytes[0] == 0 && memcmp(s->bytes, s->bytes + 1, length - 1) == 0);
}

static bool is_block_zero(const struct scsi_task *t)
{
	for (uint32_t i = 0; i < t->out.span_count; i++)
		if (!is_zero(&t->out.spans[i], t->out.spans[i].length))
			return false;
	return true;
}

/* The one block as often as a request can have it: spans may name the same memory. */
static enum scsi_reason same_next(struct scsi_unit *u, struct scsi_task *t)
{
	uint64_t offset, left;
	uint32_t pieces;

	t->at += t->request.length;
	left = t->end - t->at;
	offset = t->lba * u->block_bytes + t->at;
	if (left == 0)
		return finish_stable(u, t);
	if (data_cut(u, t, &t->out, 0, u->block_bytes) == 0)
		return SCSI_R_INTERNAL;
	pieces = t->spans.count;
	left -= u->block_bytes;
	while (left > 0 && t->spans.count + pieces <= SPANS_MAX) {
		memcpy(&t->spans.spans[t->spans.count], t->spans.spans,
		       pieces * sizeof(t->spans.spans[0]));
		t->spans.count += pieces;
		t->spans.length += u->block_bytes;
		left -= u->block_bytes;
	}
	return device_request(u, t, STORE_WRITE, offset, t->spans.length);
}

static bool can_zero(const struct scsi_unit *u)
{
	return u->store->shape.can & STORE_CAN_WRITE_ZEROES;
}

static enum scsi_reason flags_check(const struct scsi_unit *u, struct scsi_task *t)
{
	if (t->cdb[1] & OBSOLETE)
		return cdb_refuse(t, 1, 2);
	if (t->cdb[1] & ANCHOR)
		return cdb_refuse(t, 1, 4);
	if (t->cdb[1] & UNMAP && !u->is_thin)
		return cdb_refuse(t, 1, 3);
	/* There is no NDOB bit in the short form, and the zeroes must come from the device. */
	if (t->cdb[1] & NDOB && !(t->command->usage[1] & NDOB && can_zero(u)))
		return cdb_refuse(t, 1, 0);
	return SCSI_OK;
}

enum scsi_reason run_write_same(struct scsi_unit *u, struct scsi_task *t)
{
	enum scsi_reason reason = flags_check(u, t);
	uint64_t offset = t->lba * u->block_bytes, length = t->blocks * u->block_bytes;
	bool is_zeroes;

	if (reason == SCSI_OK)
		reason = blocks_check(u, t, WRITE_SAME_BLOCKS_MAX);
	if (reason != SCSI_OK)
		return reason;
	if (t->blocks == 0)
		return cdb_refuse(t, t->command->bytes == 10 ? 7 : 10, SCSI_NO_BIT); /* WSNZ */
	if (t->out.length != t->want)
		return SCSI_R_DATA_LENGTH;
	is_zeroes = t->want == 0 || is_block_zero(t);
	t->next = finish_stable;
	/* SBC-3 section 5.42: unmapped only if the blocks read as what was to be written. */
	if (t->cdb[1] & UNMAP && is_zeroes && u->is_zeroing)
		return device_request(u, t, u->unmap_op, offset, length);
	if (is_zeroes && can_zero(u))
		return device_request(u, t, STORE_WRITE_ZEROES, offset, length);
	t->end = length;
	t->request.length = 0;
	t->next = same_next;
	return same_next(u, t);
}
