/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cells of the channel network (D2 fig 8, FAB-08): a packet's data is cut into pieces of 256 bytes,
 * and each travels with a MAC header and a CRC. docs/wire/push.md has the layout:
 *
 *	first	MAC header, virtual address and handle (of an RDMA Write), data, CRC
 *	middle	MAC header, data, CRC
 *	last	MAC header, idata (if there is), data, packet CRC, CRC
 *
 * A packet of one cell has all of it. Cutting and putting together is push/cells.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "base/cursor.h"
#include "wire/push_msg.h"

enum {
	PUSH_CELL_DATA = 256, /* of each cell but the last */
	PUSH_CELL_HEADER_BYTES = 36,
	PUSH_CELL_BYTES_MAX = PUSH_CELL_HEADER_BYTES + 12 + 4 + PUSH_CELL_DATA + 4 + 4,
	PUSH_QPN_MAX = 0xffffff
};

/* An end of a channel: the MAC address of its port, and its queue pair. */
struct push_cell_end {
	uint8_t mac[PUSH_MAC_BYTES];
	uint32_t qpn;
};

struct push_cell {
	struct push_cell_end to, from;
	uint32_t packet;       /* sequence number of the packet */
	uint32_t cell;	       /* of the cell in it, from 0 */
	uint32_t packet_bytes; /* data of all cells */
	bool is_last;
	bool is_write;	    /* of an RDMA Write: the first has address and handle */
	bool has_immediate; /* in the last cell */
	uint64_t address;
	uint32_t handle;
	uint32_t immediate;
	uint32_t packet_crc; /* last cell: CRC32C of all data */
	const uint8_t *data;
	uint32_t data_bytes; /* what cell and packet_bytes say */
};

/*
 * One whole cell. On error *c has not changed. WEFT_R_PUSH_CELL_CRC: damaged; WEFT_R_PUSH_CELL: too
 * short or long, or fields that do not fit each other.
 */
enum weft_reason push_cell_decode(struct push_cell *c, const uint8_t *bytes, size_t length);

/* Writes the cell and its CRC; data_bytes and is_last follow from cell and packet_bytes. */
void push_cell_encode(const struct push_cell *c, struct wr *w);

/* The cells of a packet; of one without data: one. The data of one of these. */
uint32_t push_cells_of(uint32_t packet_bytes);
uint32_t push_cell_data_bytes(uint32_t packet_bytes, uint32_t cell);
