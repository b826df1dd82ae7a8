/* SPDX-License-Identifier: BSD-2-Clause */
/* INQUIRY: SPC-4 sections 6.6 and 7.8, SBC-3 section 6.6. */
#include "scsi/unit.h"

enum {
	EVPD = 0x01,
	NO_UNIT_TYPE = 0x7f, /* not capable of supporting a unit here */
	VERSION_SPC_4 = 0x06,
	HISUP_FORMAT_2 = 0x12,
	MULTIP = 0x10,
	CMDQUE = 0x02,
	STANDARD_BYTES = 96,
	VERSIONS_AT = 58,
	SAM_5 = 0x00a0,
	SPC_4 = 0x0460,
	SBC_3 = 0x04c0,
	ISCSI = 0x0960,
	LONG_PAGE_BYTES = 0x3c,
	WSNZ = 0x01,
	NON_ROTATING = 0x0001,
	LBPU = 0x80,
	LBPWS = 0x40,
	LBPWS10 = 0x20,
	LBPRZ = 0x04,
	THIN = 0x02,
	NAA_LOCAL = 3,
	CODE_BINARY = 0x01,
	CODE_ASCII = 0x02,
	CODE_UTF8 = 0x03,
	PROTOCOL_ISCSI = 0x50,
	PIV = 0x80,
	OF_UNIT = 0x00,
	OF_PORT = 0x10,
	OF_TARGET = 0x20,
	DESIGNATOR_T10 = 0x01,
	DESIGNATOR_NAA = 0x03,
	DESIGNATOR_PORT = 0x04,
	DESIGNATOR_NAME = 0x08,
};

static const char vendor[8] = { 'w', 'e', 'f', 't', ' ', ' ', ' ', ' ' };
static const char product[16] = { 'v', 'i', 'r', 't', 'u', 'a', 'l', ' ',
				  'd', 'i', 's', 'k', ' ', ' ', ' ', ' ' };
static const char revision[4] = { '0', '0', '0', '1' };

static void zeroes_encode(struct wr *w, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		wr_u8(w, 0);
}

static void standard_encode(const struct scsi_unit *u, struct wr *w)
{
	static const uint16_t versions[] = { SAM_5, ISCSI, SPC_4, SBC_3 };
	const uint8_t *first = w->at;

	wr_u8(w, u->store ? 0 : NO_UNIT_TYPE);
	wr_u8(w, 0);
	wr_u8(w, VERSION_SPC_4);
	wr_u8(w, HISUP_FORMAT_2);
	wr_u8(w, STANDARD_BYTES - 5);
	wr_u8(w, 0);
	wr_u8(w, MULTIP);
	wr_u8(w, CMDQUE);
	wr_bytes(w, vendor, sizeof(vendor));
	wr_bytes(w, product, sizeof(product));
	wr_bytes(w, revision, sizeof(revision));
	zeroes_encode(w, VERSIONS_AT - (uint32_t)(w->at - first));
	for (uint32_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		wr_u16(w, versions[i]);
	zeroes_encode(w, STANDARD_BYTES - (uint32_t)(w->at - first));
}

/* ---- Vital product data --------------------------------------------------------------------- */

static void serial_encode(const struct scsi_unit *u, struct wr *w)
{
	wr_bytes(w, u->serial, strlen(u->serial));
}

static void name_encode(struct wr *w, uint8_t association, const char *name, const uint8_t *suffix)
{
	size_t length = strlen(name), extra = suffix ? 9 : 0, pad;

	/* SPC-4 section 7.8.6.11: ends with a zero, in a multiple of four bytes. */
	pad = 4 - (length + extra) % 4;
	wr_u8(w, (association == OF_UNIT ? 0 : PROTOCOL_ISCSI) | CODE_UTF8);
	wr_u8(w, (association == OF_UNIT ? 0 : PIV) | association | DESIGNATOR_NAME);
	wr_u8(w, 0);
	wr_u8(w, (uint8_t)(length + extra + pad));
	wr_bytes(w, name, length);
	if (suffix)
		wr_bytes(w, suffix, extra);
	zeroes_encode(w, (uint32_t)pad);
}

/* RFC 7143 section 4.4.1: the name of the port is that of the target, ",t,0x" and four digits. */
static void port_encode(const struct scsi_target *target, struct wr *w)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t suffix[9] = { ',', 't', ',', '0', 'x' };

	for (uint32_t i = 0; i < 4; i++)
		suffix[5 + i] = (uint8_t)digits[target->port >> (12 - 4 * i) & 0xf];
	name_encode(w, OF_PORT, target->name, suffix);
	wr_u8(w, PROTOCOL_ISCSI | CODE_BINARY);
	wr_u8(w, PIV | OF_PORT | DESIGNATOR_PORT);
	wr_u16(w, 4);
	wr_u16(w, 0);
	wr_u16(w, target->port);
}

static void identification_encode(const struct scsi_unit *u, struct wr *w)
{
	wr_u8(w, CODE_BINARY);
	wr_u8(w, OF_UNIT | DESIGNATOR_NAA);
	wr_u16(w, 8);
	wr_u64(w, (uint64_t)NAA_LOCAL << 60 | u->id);
	wr_u8(w, CODE_ASCII);
	wr_u8(w, OF_UNIT | DESIGNATOR_T10);
	wr_u16(w, (uint16_t)(sizeof(vendor) + strlen(u->serial)));
	wr_bytes(w, vendor, sizeof(vendor));
	wr_bytes(w, u->serial, strlen(u->serial));
	port_encode(u->target, w);
	name_encode(w, OF_TARGET, u->target->name, NULL);
}

static void limits_encode(const struct scsi_unit *u, struct wr *w)
{
	const uint8_t *first = w->at;

	wr_u8(w, WSNZ);
	wr_u8(w, (uint8_t)u->compare_blocks_max);
	wr_u16(w, 1); /* optimal transfer length granularity */
	wr_u32(w, u->transfer_blocks_max);
	wr_u32(w, 0); /* optimal transfer length */
	wr_u32(w, 0); /* maximum prefetch length */
	wr_u32(w, u->is_thin ? UNMAP_BLOCKS_MAX : 0);
	wr_u32(w, u->is_thin ? UNMAP_DESCRIPTORS_MAX : 0);
	wr_u32(w, u->is_thin ? 1 : 0);
	wr_u32(w, 0);
	wr_u64(w, WRITE_SAME_BLOCKS_MAX);
	zeroes_encode(w, LONG_PAGE_BYTES - (uint32_t)(w->at - first));
}

static void characteristics_encode(const struct scsi_unit *u, struct wr *w)
{
	(void)u;
	wr_u16(w, NON_ROTATING);
	zeroes_encode(w, LONG_PAGE_BYTES - 2);
}

static void provisioning_encode(const struct scsi_unit *u, struct wr *w)
{
	uint8_t flags = u->is_thin ? LBPU | LBPWS | LBPWS10 : 0;

	wr_u8(w, 0);
	wr_u8(w, flags | (u->is_thin && u->is_zeroing ? LBPRZ : 0));
	wr_u8(w, u->is_thin ? THIN : 0);
	wr_u8(w, 0);
}

static void supported_encode(const struct scsi_unit *u, struct wr *w);

static const struct vital_page {
	uint8_t code;
	void (*encode)(const struct scsi_unit *u, struct wr *w);
} pages[] = {
	{ 0x00, supported_encode },	  { 0x80, serial_encode },
	{ 0x83, identification_encode },  { 0xb0, limits_encode },
	{ 0xb1, characteristics_encode }, { 0xb2, provisioning_encode },
};

enum { PAGE_COUNT = sizeof(pages) / sizeof(pages[0]) };

static void supported_encode(const struct scsi_unit *u, struct wr *w)
{
	(void)u;
	for (uint32_t i = 0; i < PAGE_COUNT; i++)
		wr_u8(w, pages[i].code);
}

static enum scsi_reason page_reply(struct scsi_unit *u, struct scsi_task *t, uint8_t code)
{
	struct wr w = reply_begin(u->target);

	for (uint32_t i = 0; i < PAGE_COUNT; i++) {
		struct wr length;
		const uint8_t *first;

		if (pages[i].code != code)
			continue;
		wr_u8(&w, 0);
		wr_u8(&w, code);
		length = w;
		wr_u16(&w, 0);
		first = w.at;
		pages[i].encode(u, &w);
		wr_u16(&length, (uint16_t)(w.at - first));
		return reply_end(u->target, t, &w);
	}
	return cdb_refuse(t, 2, SCSI_NO_BIT);
}

enum scsi_reason run_inquiry(struct scsi_unit *u, struct scsi_task *t)
{
	struct rd r = rd_of(t->cdb + 1, 2);
	bool is_vital = rd_u8(&r) & EVPD;
	uint8_t code = rd_u8(&r);
	struct wr w = reply_begin(u->target);

	if (is_vital && u->store)
		return page_reply(u, t, code);
	if (is_vital)
		return cdb_refuse(t, 1, 0);
	if (code != 0)
		return cdb_refuse(t, 2, SCSI_NO_BIT);
	standard_encode(u, &w);
	return reply_end(u->target, t, &w);
}
