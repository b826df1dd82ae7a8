/* SPDX-License-Identifier: BSD-2-Clause */
#include "scsi/ask.h"

#include <string.h>

#include "base/cursor.h"

enum {
	OP_TEST_UNIT_READY = 0x00,
	OP_INQUIRY = 0x12,
	OP_MODE_SENSE_6 = 0x1a,
	OP_READ_CAPACITY_10 = 0x25,
	OP_READ_10 = 0x28,
	OP_WRITE_10 = 0x2a,
	OP_SYNCHRONIZE_CACHE_10 = 0x35,
	OP_UNMAP = 0x42,
	OP_READ_16 = 0x88,
	OP_WRITE_16 = 0x8a,
	OP_SYNCHRONIZE_CACHE_16 = 0x91,
	OP_WRITE_SAME_16 = 0x93,
	OP_SERVICE_ACTION_IN_16 = 0x9e,
	OP_MAINTENANCE_IN = 0xa3,
	READ_CAPACITY_16 = 0x10,
	REPORT_OPCODES = 0x0c,
	REPORT_OPCODE = 0x01,
	EVPD = 0x01,
	DBD = 0x08, /* no block descriptors */
	CACHING_PAGE = 0x08,
	FUA = 0x08,
	FLAT_SPACE = 0x4000, /* SAM-5 section 4.7.7.4 */
	FLAT_LUN_MIN = 256
};

/* ---- CDBs ----------------------------------------------------------------------------------- */

static struct wr begin(uint8_t cdb[SCSI_ASK_CDB_BYTES], uint8_t opcode, uint8_t second)
{
	struct wr w = wr_of(cdb, SCSI_ASK_CDB_BYTES);

	memset(cdb, 0, SCSI_ASK_CDB_BYTES);
	wr_u8(&w, opcode);
	wr_u8(&w, second);
	return w;
}

void scsi_ask_ready(uint8_t cdb[SCSI_ASK_CDB_BYTES])
{
	(void)begin(cdb, OP_TEST_UNIT_READY, 0);
}

void scsi_ask_inquiry(uint8_t cdb[SCSI_ASK_CDB_BYTES])
{
	struct wr w = begin(cdb, OP_INQUIRY, 0);

	wr_u8(&w, 0);
	/* Old units look at the second byte of the length alone. */
	wr_u16(&w, 255);
}

void scsi_ask_page(uint8_t cdb[SCSI_ASK_CDB_BYTES], uint8_t page)
{
	struct wr w = begin(cdb, OP_INQUIRY, EVPD);

	wr_u8(&w, page);
	wr_u16(&w, 255);
}

void scsi_ask_capacity_10(uint8_t cdb[SCSI_ASK_CDB_BYTES])
{
	(void)begin(cdb, OP_READ_CAPACITY_10, 0);
}

void scsi_ask_capacity_16(uint8_t cdb[SCSI_ASK_CDB_BYTES])
{
	struct wr w = begin(cdb, OP_SERVICE_ACTION_IN_16, READ_CAPACITY_16);

	wr_u64(&w, 0);
	wr_u32(&w, SCSI_ASK_ANSWER_BYTES);
}

void scsi_ask_caching(uint8_t cdb[SCSI_ASK_CDB_BYTES])
{
	struct wr w = begin(cdb, OP_MODE_SENSE_6, DBD);

	wr_u8(&w, CACHING_PAGE);
	wr_u8(&w, 0);
	wr_u8(&w, 255);
}

void scsi_ask_opcode(uint8_t cdb[SCSI_ASK_CDB_BYTES], uint8_t opcode)
{
	struct wr w = begin(cdb, OP_MAINTENANCE_IN, REPORT_OPCODES);

	wr_u8(&w, REPORT_OPCODE);
	wr_u8(&w, opcode);
	wr_u16(&w, 0);
	wr_u32(&w, SCSI_ASK_ANSWER_BYTES);
}

static bool is_short(const struct scsi_extent *e)
{
	return e->lba <= UINT32_MAX && e->blocks <= UINT16_MAX;
}

static void ask_blocks(uint8_t cdb[SCSI_ASK_CDB_BYTES], const struct scsi_extent *e, uint16_t ops,
		       bool is_fua)
{
	bool is_ten = is_short(e);
	struct wr w = begin(cdb, (uint8_t)(is_ten ? ops >> 8 : ops), is_fua ? FUA : 0);

	if (is_ten) {
		wr_u32(&w, (uint32_t)e->lba);
		wr_u8(&w, 0);
		wr_u16(&w, (uint16_t)e->blocks);
	} else {
		wr_u64(&w, e->lba);
		wr_u32(&w, e->blocks);
	}
}

void scsi_ask_read(uint8_t cdb[SCSI_ASK_CDB_BYTES], const struct scsi_extent *e, bool is_fua)
{
	ask_blocks(cdb, e, OP_READ_10 << 8 | OP_READ_16, is_fua);
}

void scsi_ask_write(uint8_t cdb[SCSI_ASK_CDB_BYTES], const struct scsi_extent *e, bool is_fua)
{
	ask_blocks(cdb, e, OP_WRITE_10 << 8 | OP_WRITE_16, is_fua);
}

void scsi_ask_flush(uint8_t cdb[SCSI_ASK_CDB_BYTES], const struct scsi_extent *e)
{
	ask_blocks(cdb, e, OP_SYNCHRONIZE_CACHE_10 << 8 | OP_SYNCHRONIZE_CACHE_16, false);
}

void scsi_ask_write_same(uint8_t cdb[SCSI_ASK_CDB_BYTES], const struct scsi_extent *e)
{
	struct wr w = begin(cdb, OP_WRITE_SAME_16, 0);

	wr_u64(&w, e->lba);
	wr_u32(&w, e->blocks);
}

void scsi_ask_unmap(uint8_t cdb[SCSI_ASK_CDB_BYTES], const struct scsi_extent *e,
		    uint8_t parameters[SCSI_UNMAP_BYTES])
{
	struct wr w = begin(cdb, OP_UNMAP, 0);

	wr_u32(&w, 0);
	wr_u8(&w, 0);
	wr_u16(&w, SCSI_UNMAP_BYTES);
	w = wr_of(parameters, SCSI_UNMAP_BYTES);
	wr_u16(&w, SCSI_UNMAP_BYTES - 2);
	wr_u16(&w, 16);
	wr_u32(&w, 0);
	wr_u64(&w, e->lba);
	wr_u32(&w, e->blocks);
	wr_u32(&w, 0);
}

/* ---- Answers -------------------------------------------------------------------------------- */

/* A byte of an answer; behind its end: 0. */
static uint8_t byte_at(const uint8_t *bytes, size_t length, size_t at)
{
	return at < length ? bytes[at] : 0;
}

static struct rd rest_at(const uint8_t *bytes, size_t length, size_t at)
{
	return at < length ? rd_of(bytes + at, length - at) : rd_of(NULL, 0);
}

/* Printable ASCII without the blanks around it; text has room for max bytes and a zero. */
static void take_text(char *text, size_t max, const uint8_t *bytes, size_t length)
{
	size_t n = 0, begin_at = 0;

	while (begin_at < length && bytes[begin_at] == ' ')
		begin_at++;
	while (length > begin_at && (bytes[length - 1] == ' ' || bytes[length - 1] == 0))
		length--;
	for (size_t i = begin_at; i < length && n < max; i++)
		text[n++] = bytes[i] >= 0x20 && bytes[i] < 0x7f ? (char)bytes[i] : '?';
	text[n] = '\0';
}

enum scsi_presence scsi_answer_inquiry(struct scsi_identity *i, const uint8_t *bytes, size_t length)
{
	enum { QUALIFIER_SHIFT = 5, TYPE_MASK = 0x1f, TYPE_NONE = 0x1f, STANDARD_BYTES = 36 };

	if (length < STANDARD_BYTES)
		return SCSI_NO_ANSWER;
	*i = (struct scsi_identity){ .device_type = bytes[0] & TYPE_MASK };
	take_text(i->vendor, sizeof(i->vendor) - 1, bytes + 8, 8);
	take_text(i->product, sizeof(i->product) - 1, bytes + 16, 16);
	take_text(i->revision, sizeof(i->revision) - 1, bytes + 32, 4);
	return bytes[0] >> QUALIFIER_SHIFT != 0 || i->device_type == TYPE_NONE ? SCSI_NOT_THERE
									       : SCSI_THERE;
}

/* The bytes of a page of vital product data; an empty one if it is another. */
static struct rd page_of(const uint8_t *bytes, size_t length, uint8_t page)
{
	struct rd r = rd_of(bytes, length);
	uint8_t got;
	uint16_t left;

	(void)rd_u8(&r);
	got = rd_u8(&r);
	left = rd_u16(&r);
	if (r.is_short || got != page)
		return rd_of(NULL, 0);
	if ((size_t)(r.end - r.at) > left)
		r.end = r.at + left;
	return r;
}

bool scsi_answer_has_page(const uint8_t *bytes, size_t length, uint8_t page)
{
	struct rd r = page_of(bytes, length, 0);

	return r.at != r.end && memchr(r.at, page, (size_t)(r.end - r.at));
}

void scsi_answer_serial(char serial[65], const uint8_t *bytes, size_t length)
{
	struct rd r = page_of(bytes, length, 0x80);

	take_text(serial, 64, r.at, (size_t)(r.end - r.at));
}

/* SPC-4 table 531, in the order of what names a unit best. */
static int rank_of(uint8_t type)
{
	switch (type) {
	case 3: /* NAA */
		return 4;
	case 2: /* EUI-64 */
		return 3;
	case 8: /* SCSI name */
		return 2;
	case 1: /* T10 vendor */
		return 1;
	default:
		return 0;
	}
}

static void put_hex(char identity[65], const char *prefix, struct rd r)
{
	static const char digits[] = "0123456789abcdef";
	size_t n = strlen(prefix);

	memcpy(identity, prefix, n);
	for (; r.at != r.end && n + 2 <= 64; r.at++) {
		identity[n++] = digits[*r.at >> 4];
		identity[n++] = digits[*r.at & 0xf];
	}
	identity[n] = '\0';
}

static void put_designator(char identity[65], uint8_t type, struct rd r)
{
	const char *prefix = type == 1 ? "t10." : "";
	size_t n = strlen(prefix);

	if (type == 3 || type == 2) {
		put_hex(identity, type == 3 ? "naa." : "eui.", r);
		return;
	}
	memcpy(identity, prefix, n);
	take_text(identity + n, 64 - n, r.at, (size_t)(r.end - r.at));
}

void scsi_answer_identity(char identity[65], const uint8_t *bytes, size_t length)
{
	enum { TYPE_MASK = 0xf, ASSOCIATION_MASK = 0x30 };
	struct rd r = page_of(bytes, length, 0x83);
	int best = 0;

	identity[0] = '\0';
	while (r.at != r.end) {
		uint8_t second, designator_bytes;
		struct rd part;

		(void)rd_u8(&r);
		second = rd_u8(&r);
		(void)rd_u8(&r);
		designator_bytes = rd_u8(&r);
		if (r.is_short || (size_t)(r.end - r.at) < designator_bytes)
			return;
		part = rd_of(r.at, designator_bytes);
		r.at += designator_bytes;
		if ((second & ASSOCIATION_MASK) != 0 || rank_of(second & TYPE_MASK) <= best)
			continue;
		best = rank_of(second & TYPE_MASK);
		put_designator(identity, second & TYPE_MASK, part);
	}
}

void scsi_answer_block_limits(struct scsi_block_limits *l, const uint8_t *bytes, size_t length)
{
	struct rd r = page_of(bytes, length, 0xb0);

	*l = (struct scsi_block_limits){ 0 };
	(void)rd_u32(&r); /* COMPARE AND WRITE, granularity */
	l->transfer_max = rd_u32(&r);
	l->transfer_preferred = rd_u32(&r);
	(void)rd_u32(&r);
	l->unmap_max = rd_u32(&r);
	(void)rd_u64(&r);
	(void)rd_u32(&r);
	l->write_same_max = rd_u64(&r);
}

bool scsi_answer_can_unmap(const uint8_t *bytes, size_t length)
{
	enum { LBPU = 0x80 };
	struct rd r = page_of(bytes, length, 0xb2);

	(void)rd_u8(&r);
	return rd_u8(&r) & LBPU;
}

/* Sizes that can be: a power of two from 512 bytes to 64 KiB, and a unit below 2^63 bytes. */
static bool is_sound(const struct scsi_capacity *c)
{
	uint32_t b = c->block_bytes;

	return b >= 512 && b <= 65536 && (b & (b - 1)) == 0 && c->blocks > 0 &&
	       c->blocks <= INT64_MAX / b;
}

bool scsi_answer_capacity_10(struct scsi_capacity *c, const uint8_t *bytes, size_t length)
{
	struct rd r = rd_of(bytes, length);
	uint32_t last = rd_u32(&r);

	/* SBC-3 section 5.15.2: all ones say that only the long form can tell. */
	*c = (struct scsi_capacity){ .blocks = last == UINT32_MAX ? 0 : (uint64_t)last + 1 };
	c->block_bytes = c->physical_block_bytes = rd_u32(&r);
	return !r.is_short && is_sound(c);
}

bool scsi_answer_capacity_16(struct scsi_capacity *c, const uint8_t *bytes, size_t length)
{
	enum { EXPONENT_MASK = 0xf, EXPONENT_MAX = 7, LBPME = 0x80 };
	struct rd r = rd_of(bytes, length);
	uint64_t last = rd_u64(&r);
	unsigned int exponent;

	*c = (struct scsi_capacity){ .blocks = last == UINT64_MAX ? 0 : last + 1 };
	c->block_bytes = rd_u32(&r);
	(void)rd_u8(&r);
	exponent = rd_u8(&r) & EXPONENT_MASK;
	c->physical_block_bytes = c->block_bytes << (exponent <= EXPONENT_MAX ? exponent : 0);
	c->is_thin = rd_u8(&r) & LBPME;
	return !r.is_short && is_sound(c);
}

bool scsi_answer_caching(struct scsi_caching *c, const uint8_t *bytes, size_t length)
{
	enum { WP = 0x80, DPOFUA = 0x10, PAGE_MASK = 0x3f, WCE = 0x04 };
	struct rd r = rd_of(bytes, length);
	uint8_t device, descriptors;
	struct rd page;

	(void)rd_u16(&r);
	device = rd_u8(&r);
	descriptors = rd_u8(&r);
	if (r.is_short)
		return false;
	*c = (struct scsi_caching){ .is_readonly = device & WP, .can_fua = device & DPOFUA };
	page = rest_at(bytes, length, 4U + descriptors);
	c->has_page = (rd_u8(&page) & PAGE_MASK) == CACHING_PAGE;
	(void)rd_u8(&page);
	c->has_write_cache = c->has_page && (rd_u8(&page) & WCE);
	c->has_page = c->has_page && !page.is_short;
	return true;
}

bool scsi_answer_has_opcode(const uint8_t *bytes, size_t length)
{
	enum { SUPPORT_MASK = 7, STANDARD = 3 };

	return (byte_at(bytes, length, 1) & SUPPORT_MASK) == STANDARD;
}

bool scsi_answer_sense(struct scsi_sense *s, const uint8_t *bytes, size_t length)
{
	uint8_t format = byte_at(bytes, length, 0) & 0x7f;

	if (format == 0x70 || format == 0x71) {
		*s = (struct scsi_sense){ .key = byte_at(bytes, length, 2) & 0xf,
					  .code = byte_at(bytes, length, 12),
					  .qualifier = byte_at(bytes, length, 13) };
		return true;
	}
	if (format == 0x72 || format == 0x73) {
		*s = (struct scsi_sense){ .key = byte_at(bytes, length, 1) & 0xf,
					  .code = byte_at(bytes, length, 2),
					  .qualifier = byte_at(bytes, length, 3) };
		return true;
	}
	return false;
}

uint64_t scsi_lun_bytes(uint16_t lun)
{
	return (uint64_t)(lun < FLAT_LUN_MIN ? lun : FLAT_SPACE | lun) << 48;
}

/* ---- For people ----------------------------------------------------------------------------- */

const char *scsi_status_text(uint8_t status)
{
	switch (status) {
	case 0x00:
		return "GOOD";
	case 0x02:
		return "CHECK CONDITION";
	case 0x04:
		return "CONDITION MET";
	case 0x08:
		return "BUSY";
	case 0x18:
		return "RESERVATION CONFLICT";
	case 0x28:
		return "TASK SET FULL";
	case 0x30:
		return "ACA ACTIVE";
	case 0x40:
		return "TASK ABORTED";
	default:
		return NULL;
	}
}

const char *scsi_sense_key_text(uint8_t key)
{
	static const char *const texts[] = {
		"NO SENSE",
		"RECOVERED ERROR",
		"NOT READY",
		"MEDIUM ERROR",
		"HARDWARE ERROR",
		"ILLEGAL REQUEST",
		"UNIT ATTENTION",
		"DATA PROTECT",
		"BLANK CHECK",
		"VENDOR SPECIFIC",
		"COPY ABORTED",
		"ABORTED COMMAND",
		NULL,
		"VOLUME OVERFLOW",
		"MISCOMPARE",
		"COMPLETED",
	};

	return key < sizeof(texts) / sizeof(texts[0]) ? texts[key] : NULL;
}

const char *scsi_sense_text(uint8_t code, uint8_t qualifier)
{
	static const struct {
		uint16_t code;
		const char *text;
	} rows[] = {
		{ 0x0401, "the unit is becoming ready" },
		{ 0x0402, "the unit was stopped: it has to be started" },
		{ 0x0403, "the unit needs manual intervention" },
		{ 0x0c00, "write error" },
		{ 0x1100, "unrecovered read error" },
		{ 0x1d00, "the data differs from what the command expected" },
		{ 0x1a00, "wrong length of the parameter list" },
		{ 0x2000, "the unit does not know the command" },
		{ 0x2100, "the blocks are beyond the end of the unit" },
		{ 0x2400, "a field of the command is wrong" },
		{ 0x2500, "there is no such logical unit" },
		{ 0x2600, "a field of the parameter list is wrong" },
		{ 0x2700, "write-protected" },
		{ 0x2900, "power on or reset" },
		{ 0x2907, "the session was lost" },
		{ 0x2a09, "the capacity has changed" },
		{ 0x3a00, "no medium" },
		{ 0x3f0e, "the logical units of the target have changed" },
		{ 0x4400, "internal failure of the target" },
		{ 0x2707, "no space is left for thin provisioning" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].code == (code << 8 | qualifier))
			return rows[i].text;
	}
	return NULL;
}
