/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/mirror_area.h"

enum mark_area mark_area_read(struct mirror_mark *m, const uint8_t bytes[MARK_AREA_BYTES],
			      uint32_t *copy)
{
	struct mirror_mark copies[2];
	bool is_first = mark_decode(&copies[0], bytes);
	bool is_second = mark_decode(&copies[1], bytes + MARK_BYTES);

	if (!is_first && !is_second) {
		for (uint32_t i = 0; i < MARK_AREA_BYTES; i++) {
			if (bytes[i] != 0)
				return MARK_AREA_OTHER;
		}
		return MARK_AREA_BLANK;
	}
	if (is_first && is_second)
		is_first = copies[0].serial > copies[1].serial;
	*copy = is_first ? 0 : 1;
	*m = copies[*copy];
	return MARK_AREA_MARK;
}
