/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of the split network card on arbitrary bytes: there is one way to write each, so what is
 * accepted encodes to the same bytes, except for a reply with a reason, whose content is not read.
 */
#include <string.h>

#include "base/check.h"
#include "wire/push_msg.h"

static void try_entries(const struct push_msg *m)
{
	struct rd r = rd_of(m->pools.bytes, (size_t)m->pools.count * PUSH_POOL_BYTES);
	uint8_t bytes[PUSH_MSG_BYTES_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));

	for (uint32_t i = 0; i < m->pools.count; i++) {
		const struct push_pool p = push_pool_next(&r);

		CHECK(p.elements > 0 && p.element_bytes > 0);
		push_pool_put(&p, &w);
	}
	CHECK(!r.is_short && !w.is_short &&
	      memcmp(bytes, m->pools.bytes, (size_t)(w.at - bytes)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t bytes[PUSH_MSG_BYTES_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct push_msg m;

	if (push_msg_decode(&m, data, size) != WEFT_OK)
		return 0;
	CHECK(push_function_name(m.function)[0] != 'u' && size <= sizeof(bytes));
	push_msg_encode(&m, &w);
	CHECK(!w.is_short);
	if (m.function == PUSH_CFG_REPLY && m.cfg.reason != 0)
		return 0;
	CHECK((size_t)(w.at - bytes) == size && memcmp(bytes, data, size) == 0);
	if (m.function == PUSH_RECV_POOL)
		try_entries(&m);
	return 0;
}
