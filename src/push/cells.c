/* SPDX-License-Identifier: BSD-2-Clause */
#include "push/cells.h"

#include <string.h>

#include "base/crc.h"

enum weft_reason push_cut_begin(struct push_cut *c, const struct push_cell *of, const uint8_t *data,
				bool is_connected)
{
	if (!is_connected && of->packet_bytes > PUSH_CELL_DATA)
		return WEFT_R_PUSH_SINGLE_CELL;
	*c = (struct push_cut){ .next = *of, .data = data, .crc = CRC32C_BEGIN };
	c->next.cell = 0;
	return WEFT_OK;
}

bool push_cut_next(struct push_cut *c, struct wr *w)
{
	struct push_cell *v = &c->next;

	if (v->cell >= push_cells_of(v->packet_bytes))
		return false;
	v->data_bytes = push_cell_data_bytes(v->packet_bytes, v->cell);
	v->data = v->data_bytes > 0 ? c->data + (size_t)v->cell * PUSH_CELL_DATA : NULL;
	if (v->data_bytes > 0)
		c->crc = crc32c_add(c->crc, v->data, v->data_bytes);
	v->packet_crc = crc32c_end(c->crc);
	push_cell_encode(v, w);
	v->cell++;
	return true;
}

/* Another packet begins, or this one cannot be had any more. */
static enum weft_reason lose(struct push_join *j, enum weft_reason reason)
{
	j->lost += j->is_amid;
	j->is_amid = false;
	return reason;
}

static bool is_same_end(const struct push_cell_end *a, const struct push_cell_end *b)
{
	return a->qpn == b->qpn && memcmp(a->mac, b->mac, PUSH_MAC_BYTES) == 0;
}

/* All cells of a packet say the same of it. */
static bool is_of(const struct push_cell *first, const struct push_cell *c)
{
	return first->packet_bytes == c->packet_bytes && first->is_write == c->is_write &&
	       is_same_end(&first->to, &c->to) && is_same_end(&first->from, &c->from);
}

enum weft_reason push_join_take(struct push_join *j, const struct push_cell *c,
				struct push_place *place)
{
	if (c->cell == 0) {
		(void)lose(j, WEFT_OK);
		*j = (struct push_join){
			.is_amid = true, .packet = c->packet, .of = *c, .lost = j->lost
		};
		j->crc = CRC32C_BEGIN;
	}
	if (!j->is_amid || c->packet != j->packet || c->cell != j->cell)
		return lose(j, WEFT_R_PUSH_CELL_LOST);
	if (!is_of(&j->of, c))
		return lose(j, WEFT_R_PUSH_CELL);
	if (c->data_bytes > 0)
		j->crc = crc32c_add(j->crc, c->data, c->data_bytes);
	if (c->is_last && crc32c_end(j->crc) != c->packet_crc)
		return lose(j, WEFT_R_PUSH_PACKET_CRC);
	*place = (struct push_place){ .first = &j->of,
				      .offset = c->cell * PUSH_CELL_DATA,
				      .length = c->data_bytes,
				      .is_whole = c->is_last,
				      .has_immediate = c->is_last && c->has_immediate,
				      .immediate = c->immediate };
	j->cell++;
	j->is_amid = !c->is_last;
	return WEFT_OK;
}
