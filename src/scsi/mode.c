/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MODE SENSE and MODE SELECT: SPC-4 sections 6.11 to 6.14 and 7.5, SBC-3 section 6.5. Three bits
 * can be changed: D_SENSE, SWP and, if the device has a cache, WCE. They are the same for all
 * nexuses.
 */
#include "scsi/unit.h"

enum {
	OPCODE_SELECT_6 = 0x15,
	OPCODE_SENSE_6 = 0x1a,
	DBD = 0x08,
	LLBAA = 0x10,
	PF = 0x10,
	SP = 0x01,
	CONTROL_CURRENT = 0,
	CONTROL_CHANGEABLE = 1,
	CONTROL_DEFAULT = 2,
	CONTROL_SAVED = 3,
	PAGE_MASK = 0x3f,
	PAGE_ALL = 0x3f,
	SUBPAGE_ALL = 0xff,
	SPF = 0x40,
	LONGLBA = 0x01,
	WRITE_PROTECTED = 0x80,
	DPOFUA = 0x10,
	SHORT_DESCRIPTOR = 8,
	LONG_DESCRIPTOR = 16,
	PAGE_BYTES_MAX = 20,
	WCE_AT = 2,
	WCE = 0x04,
	D_SENSE_AT = 2,
	D_SENSE = 0x04,
	QUEUE_AT = 3,
	UNRESTRICTED = 0x10,
	SWP_AT = 4,
	SWP = 0x08,
};

struct mode_page {
	uint8_t code, bytes; /* with its header of two bytes */
	/* The page as these parameters make it; NULL: all zeroes. */
	void (*fill)(const struct mode_parameters *m, uint8_t *page);
	void (*take)(struct mode_parameters *m, const uint8_t *page);
};

static void caching_fill(const struct mode_parameters *m, uint8_t *page)
{
	page[WCE_AT] = m->has_write_cache ? WCE : 0;
}

static void caching_take(struct mode_parameters *m, const uint8_t *page)
{
	m->has_write_cache = page[WCE_AT] & WCE;
}

static void control_fill(const struct mode_parameters *m, uint8_t *page)
{
	page[D_SENSE_AT] = m->has_descriptor_sense ? D_SENSE : 0;
	page[SWP_AT] = m->is_write_protected ? SWP : 0;
}

static void control_take(struct mode_parameters *m, const uint8_t *page)
{
	m->has_descriptor_sense = page[D_SENSE_AT] & D_SENSE;
	m->is_write_protected = page[SWP_AT] & SWP;
}

/* Read-write error recovery, caching, control, informational exceptions. */
static const struct mode_page pages[] = {
	{ .code = 0x01, .bytes = 12 },
	{ .code = 0x08, .bytes = 20, .fill = caching_fill, .take = caching_take },
	{ .code = 0x0a, .bytes = 12, .fill = control_fill, .take = control_take },
	{ .code = 0x1c, .bytes = 12 },
};

enum { PAGE_COUNT = sizeof(pages) / sizeof(pages[0]) };

static struct mode_parameters defaults(const struct scsi_unit *u)
{
	return (struct mode_parameters){ .has_write_cache = u->store->shape.can & STORE_CAN_FLUSH };
}

void mode_reset(struct scsi_unit *u)
{
	u->mode = defaults(u);
}

static void page_build(const struct scsi_unit *u, const struct mode_page *p, uint8_t control,
		       uint8_t *page)
{
	struct mode_parameters m = control == CONTROL_DEFAULT ? defaults(u) : u->mode;

	/* Changeable: ones where a bit can be. */
	if (control == CONTROL_CHANGEABLE) {
		m = (struct mode_parameters){ true, true, true };
		m.has_write_cache = defaults(u).has_write_cache;
	}
	memset(page, 0, PAGE_BYTES_MAX);
	page[0] = p->code;
	page[1] = p->bytes - 2;
	if (p->fill)
		p->fill(&m, page);
	if (p->fill == control_fill && control != CONTROL_CHANGEABLE)
		page[QUEUE_AT] = UNRESTRICTED;
}

/* ---- MODE SENSE ----------------------------------------------------------------------------- */

static void descriptor_encode(const struct scsi_unit *u, struct wr *w, uint32_t bytes)
{
	if (bytes == LONG_DESCRIPTOR) {
		wr_u64(w, u->block_count);
		wr_u32(w, 0);
		wr_u32(w, u->block_bytes);
	} else if (bytes == SHORT_DESCRIPTOR) {
		wr_u32(w, u->block_count < UINT32_MAX ? (uint32_t)u->block_count : UINT32_MAX);
		wr_u32(w, u->block_bytes);
	}
}

static void header_encode(const struct scsi_unit *u, struct wr *w, bool is_short, uint32_t bytes)
{
	bool is_protected = u->is_readonly || u->mode.is_write_protected;
	uint8_t specific = DPOFUA | (is_protected ? WRITE_PROTECTED : 0);

	if (is_short) {
		wr_u8(w, 0); /* the length, later */
		wr_u8(w, 0);
		wr_u8(w, specific);
		wr_u8(w, (uint8_t)bytes);
	} else {
		wr_u16(w, 0);
		wr_u8(w, 0);
		wr_u8(w, specific);
		wr_u8(w, bytes == LONG_DESCRIPTOR ? LONGLBA : 0);
		wr_u8(w, 0);
		wr_u16(w, (uint16_t)bytes);
	}
	descriptor_encode(u, w, bytes);
}

enum scsi_reason run_mode_sense(struct scsi_unit *u, struct scsi_task *t)
{
	struct wr w = reply_begin(u->target), length = w;
	struct rd r = rd_of(t->cdb, 4);
	bool is_short = rd_u8(&r) == OPCODE_SENSE_6, is_any = false;
	uint8_t flags = rd_u8(&r), code = rd_u8(&r), subpage = rd_u8(&r);
	uint8_t control = code >> 6, page[PAGE_BYTES_MAX];
	uint32_t descriptor = !is_short && flags & LLBAA ? LONG_DESCRIPTOR : SHORT_DESCRIPTOR;

	code &= PAGE_MASK;
	if (control == CONTROL_SAVED)
		return SCSI_R_SAVING;
	if (subpage != 0 && subpage != SUBPAGE_ALL)
		return cdb_refuse(t, 3, SCSI_NO_BIT);
	header_encode(u, &w, is_short, flags & DBD ? 0 : descriptor);
	for (uint32_t i = 0; i < PAGE_COUNT; i++) {
		if (code != PAGE_ALL && code != pages[i].code)
			continue;
		page_build(u, &pages[i], control, page);
		wr_bytes(&w, page, pages[i].bytes);
		is_any = true;
	}
	if (!is_any)
		return cdb_refuse(t, 2, 5);
	/* The length does not count itself. */
	if (is_short)
		wr_u8(&length, (uint8_t)(w.at - u->target->reply - 1));
	else
		wr_u16(&length, (uint16_t)(w.at - u->target->reply - 2));
	return reply_end(u->target, t, &w);
}

/* ---- MODE SELECT ---------------------------------------------------------------------------- */

/* The capacity and the block size stay as they are. */
static enum scsi_reason descriptor_check(const struct scsi_unit *u, struct scsi_task *t,
					 struct rd *r, uint32_t bytes)
{
	uint16_t at = (uint16_t)(r->at - u->target->reply);
	bool is_long = bytes == LONG_DESCRIPTOR;
	uint64_t unlimited = is_long ? UINT64_MAX : UINT32_MAX;
	uint64_t count, block;

	if (bytes == 0)
		return SCSI_OK;
	count = is_long ? rd_u64(r) : rd_u32(r);
	if (is_long)
		(void)rd_u32(r);
	block = is_long ? rd_u32(r) : rd_u32(r) & 0xffffff;
	if (r->is_short)
		return SCSI_R_PARAMETER_LENGTH;
	if (count != 0 && count != unlimited && count != u->block_count)
		return parameter_refuse(t, at, SCSI_NO_BIT);
	if (block != u->block_bytes)
		return parameter_refuse(t, at + bytes - 4, SCSI_NO_BIT);
	return SCSI_OK;
}

static enum scsi_reason header_check(const struct scsi_unit *u, struct scsi_task *t, struct rd *r)
{
	uint32_t bytes, at = t->cdb[0] == OPCODE_SELECT_6 ? 3 : 6;
	bool is_long = false;

	if (at == 3) {
		(void)rd_u16(r);
		(void)rd_u8(r);
		bytes = rd_u8(r);
	} else {
		(void)rd_u32(r);
		is_long = rd_u8(r) & LONGLBA;
		(void)rd_u8(r);
		bytes = rd_u16(r);
	}
	if (r->is_short)
		return SCSI_R_PARAMETER_LENGTH;
	if (bytes != 0 && bytes != (is_long ? LONG_DESCRIPTOR : SHORT_DESCRIPTOR))
		return parameter_refuse(t, (uint16_t)at, SCSI_NO_BIT);
	return descriptor_check(u, t, r, bytes);
}

/* SPC-4 section 6.11: what cannot change must be as it is. */
static enum scsi_reason bits_check(const struct scsi_unit *u, struct scsi_task *t,
				   const struct mode_page *p, const struct rd *page)
{
	uint16_t first = (uint16_t)(page->at - u->target->reply);
	uint8_t current[PAGE_BYTES_MAX], changeable[PAGE_BYTES_MAX];

	page_build(u, p, CONTROL_CURRENT, current);
	page_build(u, p, CONTROL_CHANGEABLE, changeable);
	for (uint16_t i = 2; i < p->bytes; i++)
		if ((page->at[i] ^ current[i]) & ~changeable[i])
			return parameter_refuse(t, first + i, SCSI_NO_BIT);
	return SCSI_OK;
}

static enum scsi_reason page_take(const struct scsi_unit *u, struct scsi_task *t,
				  struct mode_parameters *m, struct rd *r)
{
	uint16_t at = (uint16_t)(r->at - u->target->reply);
	struct rd page = *r;
	uint8_t skipped[PAGE_BYTES_MAX], code = rd_u8(r), length = rd_u8(r);
	const struct mode_page *p = NULL;
	enum scsi_reason reason;

	if (r->is_short)
		return SCSI_R_PARAMETER_LENGTH;
	for (uint32_t i = 0; i < PAGE_COUNT; i++)
		if ((code & (SPF | PAGE_MASK)) == pages[i].code)
			p = &pages[i];
	if (!p)
		return parameter_refuse(t, at, 5);
	if (length != p->bytes - 2)
		return parameter_refuse(t, at + 1, SCSI_NO_BIT);
	if (r->end - r->at < length)
		return SCSI_R_PARAMETER_LENGTH;
	rd_bytes(r, skipped, length);
	reason = bits_check(u, t, p, &page);
	if (reason == SCSI_OK && p->take)
		p->take(m, page.at);
	return reason;
}

enum scsi_reason run_mode_select(struct scsi_unit *u, struct scsi_task *t)
{
	struct mode_parameters m = u->mode;
	enum scsi_reason reason;
	struct rd r;

	if (!(t->cdb[1] & PF))
		return cdb_refuse(t, 1, 4);
	if (t->cdb[1] & SP)
		return cdb_refuse(t, 1, 0);
	if (t->want == 0)
		return SCSI_OK;
	if (t->want > u->target->reply_bytes || !out_read(t, 0, u->target->reply, (size_t)t->want))
		return SCSI_R_PARAMETER_LENGTH;
	r = rd_of(u->target->reply, (size_t)t->want);
	reason = header_check(u, t, &r);
	while (reason == SCSI_OK && r.at < r.end)
		reason = page_take(u, t, &m, &r);
	if (reason != SCSI_OK)
		return reason;
	if (memcmp(&m, &u->mode, sizeof(m)) != 0)
		attention_set_others(u, SCSI_R_UA_MODE_CHANGED, t->nexus);
	u->mode = m;
	return SCSI_OK;
}
