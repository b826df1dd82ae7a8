/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The header of the reliable multi-packet protocol (IBA 13.6), behind that of each MAD:
 * by it a message of management is longer than a datagram, in segments that are acknowledged.
 *
 * Not here: what its ends do (mad/).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/reason.h>

#include "wire/mad.h"

enum {
	RMPP_VERSION = 1,
	RMPP_HEADER_BYTES = 12,
	RMPP_DATA_AT = MAD_HEADER_BYTES + RMPP_HEADER_BYTES
};

enum rmpp_type { RMPP_DATA = 1, RMPP_ACK = 2, RMPP_STOP = 3, RMPP_ABORT = 4 };

enum rmpp_flag { RMPP_ACTIVE = 1, RMPP_FIRST = 2, RMPP_LAST = 4 };

/* IBA 13.6.2.1.3: why a transfer ends early. STOP has the first two, ABORT the others. */
enum rmpp_status {
	RMPP_NORMAL = 0,
	RMPP_EXHAUSTED = 1,
	RMPP_BAD_LENGTH = 119,
	RMPP_BAD_SEGMENT = 120,
	RMPP_BAD_TYPE = 121,
	RMPP_WINDOW_SMALL = 122,
	RMPP_SEGMENT_LARGE = 123,
	RMPP_BAD_VERSION = 125,
	RMPP_RETRIES = 126
};

struct rmpp {
	uint8_t version;
	uint8_t type;	       /* enum rmpp_type, or another */
	uint8_t response_time; /* 5 bits */
	uint8_t flags;	       /* enum rmpp_flag */
	uint8_t status;	       /* enum rmpp_status, or another */
	uint32_t segment;      /* DATA: its number, from 1; ACK: the last that came in order */
	/* DATA: of the first the bytes of all, of the last its own, or 0; ACK: the window. */
	uint32_t length;
};

/* Of a complete MAD, whose class has this header: see rmpp_data_at(). */
void rmpp_decode(struct rmpp *h, const uint8_t mad[MAD_BYTES]);
void rmpp_encode(const struct rmpp *h, uint8_t mad[MAD_BYTES]);

/*
 * Where the data of a segment begin in a MAD of that class, behind the headers that each segment
 * repeats; 0: datagrams of that class have no such header.
 */
uint32_t rmpp_data_at(uint8_t mgmt_class);
