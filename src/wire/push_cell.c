/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/push_cell.h"

#include "base/check.h"
#include "base/crc.h"

enum {
	CELL_FIRST = 1,
	CELL_LAST = 2,
	CELL_WRITE = 4,
	CELL_IMMEDIATE = 8,
	CELL_FLAGS = 15,
	CRC_BYTES = 4
};

uint32_t push_cells_of(uint32_t packet_bytes)
{
	return packet_bytes == 0 ? 1 : (packet_bytes - 1) / PUSH_CELL_DATA + 1;
}

uint32_t push_cell_data_bytes(uint32_t packet_bytes, uint32_t cell)
{
	uint32_t rest = packet_bytes - cell * PUSH_CELL_DATA;

	CHECK(cell < push_cells_of(packet_bytes));
	return rest < PUSH_CELL_DATA ? rest : PUSH_CELL_DATA;
}

static struct push_cell_end end_decode(struct rd *r)
{
	struct push_cell_end e;

	rd_bytes(r, e.mac, sizeof(e.mac));
	e.qpn = rd_u32(r);
	return e;
}

static void end_encode(const struct push_cell_end *e, struct wr *w)
{
	wr_bytes(w, e->mac, sizeof(e->mac));
	wr_u32(w, e->qpn);
}

/* The flags say nothing that the place in the packet does not, except for idata. */
static uint8_t flags_of(const struct push_cell *c)
{
	bool is_last = c->cell == push_cells_of(c->packet_bytes) - 1;

	return (uint8_t)((c->cell == 0 ? CELL_FIRST : 0) | (is_last ? CELL_LAST : 0) |
			 (c->is_write ? CELL_WRITE : 0) |
			 (is_last && c->has_immediate ? CELL_IMMEDIATE : 0));
}

/* The MAC header. False: the fields do not fit each other. */
static bool header_decode(struct push_cell *c, struct rd *r)
{
	uint8_t flags = rd_u8(r), zero = rd_u8(r);

	c->data_bytes = rd_u16(r);
	c->to = end_decode(r);
	c->from = end_decode(r);
	c->packet = rd_u32(r);
	c->cell = rd_u32(r);
	c->packet_bytes = rd_u32(r);
	c->is_last = flags & CELL_LAST;
	c->is_write = flags & CELL_WRITE;
	c->has_immediate = flags & CELL_IMMEDIATE;
	return zero == 0 && !(flags & ~CELL_FLAGS) && c->to.qpn <= PUSH_QPN_MAX &&
	       c->from.qpn <= PUSH_QPN_MAX && c->cell < push_cells_of(c->packet_bytes) &&
	       flags == flags_of(c) &&
	       c->data_bytes == push_cell_data_bytes(c->packet_bytes, c->cell);
}

enum weft_reason push_cell_decode(struct push_cell *c, const uint8_t *bytes, size_t length)
{
	struct rd r = rd_of(bytes, length);
	struct push_cell v = { 0 };
	struct rd crc;

	if (length < PUSH_CELL_HEADER_BYTES + CRC_BYTES || length > PUSH_CELL_BYTES_MAX)
		return WEFT_R_PUSH_CELL;
	crc = rd_of(bytes + length - CRC_BYTES, CRC_BYTES);
	if (rd_u32(&crc) != crc32c_end(crc32c_add(CRC32C_BEGIN, bytes, length - CRC_BYTES)))
		return WEFT_R_PUSH_CELL_CRC;
	if (!header_decode(&v, &r))
		return WEFT_R_PUSH_CELL;
	if (v.cell == 0 && v.is_write) {
		v.address = rd_u64(&r);
		v.handle = rd_u32(&r);
	}
	if (v.has_immediate)
		v.immediate = rd_u32(&r);
	if ((size_t)(r.end - r.at) != v.data_bytes + (v.is_last ? CRC_BYTES : 0) + CRC_BYTES)
		return WEFT_R_PUSH_CELL;
	v.data = r.at;
	r.at += v.data_bytes;
	if (v.is_last)
		v.packet_crc = rd_u32(&r);
	*c = v;
	return WEFT_OK;
}

void push_cell_encode(const struct push_cell *c, struct wr *w)
{
	const uint8_t *begin = w->at;
	uint8_t flags = flags_of(c);
	uint32_t data_bytes = push_cell_data_bytes(c->packet_bytes, c->cell);

	wr_u8(w, flags);
	wr_u8(w, 0);
	wr_u16(w, (uint16_t)data_bytes);
	end_encode(&c->to, w);
	end_encode(&c->from, w);
	wr_u32(w, c->packet);
	wr_u32(w, c->cell);
	wr_u32(w, c->packet_bytes);
	if (c->cell == 0 && c->is_write) {
		wr_u64(w, c->address);
		wr_u32(w, c->handle);
	}
	if (flags & CELL_IMMEDIATE)
		wr_u32(w, c->immediate);
	if (data_bytes > 0)
		wr_bytes(w, c->data, data_bytes);
	if (flags & CELL_LAST)
		wr_u32(w, c->packet_crc);
	wr_u32(w, crc32c_end(crc32c_add(CRC32C_BEGIN, begin, (size_t)(w->at - begin))));
}
