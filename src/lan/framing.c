/* SPDX-License-Identifier: BSD-2-Clause */
#include "lan/framing.h"

#include <string.h>

#include "base/check.h"
#include "base/cursor.h"

void lan_framing_reset(struct lan_framing *f)
{
	f->begin = f->end = 0;
}

struct span lan_framing_want(struct lan_framing *f)
{
	/* What has begun fits behind itself, so that it is moved once for many frames. */
	if (f->begin == f->end) {
		f->begin = f->end = 0;
	} else if (f->begin > LAN_FRAMING_ROOM / 2) {
		memmove(f->bytes, f->bytes + f->begin, f->end - f->begin);
		f->end -= f->begin;
		f->begin = 0;
	}
	CHECK(f->end < LAN_FRAMING_ROOM);
	return (struct span){ f->bytes + f->end, LAN_FRAMING_ROOM - f->end };
}

void lan_framing_got(struct lan_framing *f, size_t length)
{
	CHECK(length <= LAN_FRAMING_ROOM - f->end);
	f->end += length;
}

enum weft_reason lan_framing_next(struct lan_framing *f, struct span *frame, uint64_t *empty)
{
	/* Bound: each round takes a length away. */
	for (;;) {
		struct rd r = rd_of(f->bytes + f->begin, f->end - f->begin);
		uint32_t length = rd_u32(&r);

		*frame = (struct span){ NULL, 0 };
		if (r.is_short)
			return WEFT_OK;
		if (length > LAN_FRAMING_MAX)
			return WEFT_R_LAN_FRAMING;
		if (length > f->end - f->begin - LAN_FRAMING_BYTES)
			return WEFT_OK;
		*frame = (struct span){ f->bytes + f->begin + LAN_FRAMING_BYTES, length };
		f->begin += LAN_FRAMING_BYTES + length;
		if (length > 0)
			return WEFT_OK;
		(*empty)++;
	}
}

void lan_framing_head(uint8_t head[LAN_FRAMING_BYTES], uint32_t length)
{
	struct wr w = wr_of(head, LAN_FRAMING_BYTES);

	wr_u32(&w, length);
}
