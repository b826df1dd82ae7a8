/* SPDX-License-Identifier: BSD-2-Clause */
/* What decodes as an advertisement encodes to the same bytes; what does not changes nothing. */
#include <string.h>

#include "base/check.h"
#include "wire/advert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct weft_advert before = {
		.addr = 1, .length = 2, .tag = 3, .rights = UINT32_MAX
	};
	struct weft_advert a = before;
	uint8_t bytes[WEFT_ADVERT_BYTES];

	if (!weft_advert_decode(data, size, &a)) {
		CHECK(a.addr == before.addr && a.length == before.length && a.tag == before.tag &&
		      a.rights == before.rights);
		return 0;
	}
	CHECK(size == WEFT_ADVERT_BYTES);
	CHECK((a.rights & ~(uint32_t)ADVERT_RIGHTS) == 0);
	CHECK(a.length == 0 || a.length - 1 <= UINT64_MAX - a.addr);
	weft_advert_encode(&a, bytes);
	CHECK(memcmp(bytes, data, sizeof(bytes)) == 0);
	return 0;
}
