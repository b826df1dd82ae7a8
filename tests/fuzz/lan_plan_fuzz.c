/* SPDX-License-Identifier: BSD-2-Clause */
/* A text is a plan within its limits, or there is a complaint and nothing has changed. */
#include <string.h>

#include "base/check.h"
#include "lan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { TEXT = 256 };
	struct lan_plan p = { .mtu = 1 };
	const char *why = NULL;
	char text[TEXT];

	size = size < TEXT - 1 ? size : TEXT - 1;
	memcpy(text, data, size);
	text[size] = '\0';
	if (!lan_plan_parse(text, &p, &why)) {
		CHECK(why && p.mtu == 1);
		return 0;
	}
	CHECK(p.kind < LAN_KINDS && p.name[0] && memchr(p.name, 0, sizeof(p.name)));
	CHECK(p.mtu == 0 || (p.mtu >= LAN_MTU_MIN && p.mtu <= LAN_MTU_MAX));
	CHECK(!p.has_mac || !(p.mac[0] & 1));
	return 0;
}
