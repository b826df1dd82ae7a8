/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cells on arbitrary bytes, each preceded by its length in two bytes; the fuzzer makes their CRC
 * right, which no input would guess. What is accepted encodes to the same bytes. Those of an input
 * are put together: what is whole has come in order.
 */
#include <string.h>

#include "base/check.h"
#include "base/crc.h"
#include "push/cells.h"

static void try_cell(struct push_join *j, uint32_t *filled, uint8_t *bytes, size_t length)
{
	uint8_t again[PUSH_CELL_BYTES_MAX];
	struct wr w = wr_of(again, sizeof(again)), crc;
	struct push_place place;
	struct push_cell c;

	if (length >= 4) {
		crc = wr_of(bytes + length - 4, 4);
		wr_u32(&crc, crc32c_end(crc32c_add(CRC32C_BEGIN, bytes, length - 4)));
	}
	if (push_cell_decode(&c, bytes, length) != WEFT_OK)
		return;
	push_cell_encode(&c, &w);
	CHECK(!w.is_short && (size_t)(w.at - again) == length);
	CHECK(memcmp(again, bytes, length) == 0);
	if (push_join_take(j, &c, &place) != WEFT_OK)
		return;
	*filled = place.offset == 0 ? 0 : *filled;
	CHECK(place.offset == *filled && place.offset + place.length <= c.packet_bytes);
	*filled += place.length;
	CHECK(place.is_whole == (*filled == c.packet_bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t bytes[PUSH_CELL_BYTES_MAX + 1];
	struct push_join j = { 0 };
	struct rd r = rd_of(data, size);
	uint32_t filled = 0;

	while (r.at < r.end) {
		size_t length = rd_u16(&r) % sizeof(bytes);

		if (length > (size_t)(r.end - r.at))
			length = (size_t)(r.end - r.at);
		rd_bytes(&r, bytes, length);
		try_cell(&j, &filled, bytes, length);
		if (r.is_short)
			break;
	}
	return 0;
}
