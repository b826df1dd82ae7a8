/* SPDX-License-Identifier: BSD-2-Clause */
/* The frames of a stream lie in what has arrived, in order, whatever the pieces. */
#include <string.h>

#include "base/check.h"
#include "lan/framing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bytes[LAN_FRAMING_ROOM];
	struct lan_framing f = { .bytes = bytes };
	size_t piece = size > 0 ? 1 + data[0] : 1, at = 0, seen = 0;
	uint64_t empty = 0;

	while (at < size) {
		struct span want = lan_framing_want(&f), frame;
		size_t n = size - at < piece ? size - at : piece;

		CHECK(want.length > 0 && want.bytes + want.length == bytes + LAN_FRAMING_ROOM);
		n = n < want.length ? n : want.length;
		memcpy(want.bytes, data + at, n);
		lan_framing_got(&f, n);
		at += n;
		do {
			if (lan_framing_next(&f, &frame, &empty) != WEFT_OK)
				return 0;
			seen += frame.length > 0 ? LAN_FRAMING_BYTES + frame.length : 0;
			CHECK(frame.length <= LAN_FRAMING_MAX);
			CHECK(seen + LAN_FRAMING_BYTES * empty <= at);
			CHECK(frame.length == 0 ||
			      memcmp(frame.bytes,
				     data + seen + LAN_FRAMING_BYTES * empty - frame.length,
				     frame.length) == 0);
		} while (frame.length > 0);
	}
	return 0;
}
