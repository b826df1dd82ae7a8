/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets in cells (FAB-08, D2 fig 8): cut at one end of a channel, put together at the other. A
 * cell that is lost or damaged loses its packet, and nothing else. Not here: the bytes of a cell
 * (wire/push_cell.h), the channel, and the check whether a Write may go where it says.
 *
 * The world of cells calls this (sim/cells/). On a fabric that runs, packets of the InfiniBand
 * transport are the cells (docs/wire/push.md).
 */
#pragma once

#include "wire/push_cell.h"

/* A packet that is being cut. */
struct push_cut {
	struct push_cell next; /* its fields are those of all cells */
	const uint8_t *data;
	uint32_t crc; /* of the data so far */
};

/*
 * `of` has the ends, the packet's number and length and, of a Write, address, handle and idata; the
 * data stays as it is until the last cell. WEFT_R_PUSH_SINGLE_CELL: a packet on a connectionless
 * channel is longer than one cell (UD-03).
 */
enum weft_reason push_cut_begin(struct push_cut *c, const struct push_cell *of, const uint8_t *data,
				bool is_connected);

/* Writes the next cell; false: there is none. */
bool push_cut_next(struct push_cut *c, struct wr *w);

/* One direction of a connected channel, at its receiver. Begins with zeroes. */
struct push_join {
	bool is_amid;	     /* the first cell came, the last has not */
	uint32_t packet;     /* amid: its number */
	uint32_t cell;	     /* the next one */
	struct push_cell of; /* the first cell's fields */
	uint32_t crc;
	uint64_t lost; /* packets of which a cell came, but not all */
};

/* Where the data of a cell belongs. */
struct push_place {
	const struct push_cell *first; /* of the packet: ends, address, handle, packet_bytes */
	uint32_t offset, length;       /* in the packet */
	bool is_whole;		       /* the packet is: with has_immediate tell of it (PUSH-23) */
	bool has_immediate;
	uint32_t immediate;
};

/*
 * A cell came whose CRC is good; its data may be stored. WEFT_R_PUSH_CELL_LOST: cells before it are
 * missing; WEFT_R_PUSH_CELL: it does not fit the cells before it; WEFT_R_PUSH_PACKET_CRC: it is the
 * last, and not all data is as it was sent. All lose the packet.
 */
enum weft_reason push_join_take(struct push_join *j, const struct push_cell *c,
				struct push_place *place);
