/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arbitrary bytes as the text of a Login or Text PDU: it is read pair by pair, negotiated at either
 * end in any stage, and what comes out is a text again, with an outcome in the range of each key.
 */
#include <string.h>

#include "base/check.h"
#include "base/prng.h"
#include "iscsi/login/negotiate.h"

enum { ROOM = 8192 };

static void check_values(struct word value)
{
	uint8_t bytes[ISCSI_BINARY_MAX];
	struct word list = value, item;
	struct iscsi_name name, again;
	uint64_t number;
	uint32_t items = 0;

	CHECK(iscsi_binary(value, bytes, sizeof(bytes)) <= sizeof(bytes));
	if (iscsi_number(value, &number))
		CHECK(value.length > 0 && !iscsi_boolean(value, &(bool){ false }));
	if (iscsi_name_normalise(value, &name) == WEFT_OK) {
		CHECK(name.length > 4 && name.length == strlen(name.text));
		CHECK(iscsi_is_local_name(value));
		CHECK(iscsi_name_normalise(iscsi_word(name.text), &again) == WEFT_OK);
		CHECK(strcmp(name.text, again.text) == 0);
	}
	while (iscsi_list_next(&list, &item))
		CHECK(++items <= value.length && item.length <= value.length);
}

/* Reads all of a text. False: it is none. */
static bool is_text(const uint8_t *bytes, size_t length)
{
	struct rd r = rd_of(bytes, length);
	struct iscsi_pair pair;

	while (r.at < r.end) {
		const uint8_t *before = r.at;

		if (iscsi_text_next(&r, &pair) != WEFT_OK)
			return false;
		CHECK(r.at > before && r.at <= r.end);
		CHECK(pair.key.length > 0 && pair.key.length <= ISCSI_KEY_MAX);
		check_values(pair.value);
	}
	return true;
}

static void check_outcome(const struct iscsi_params *p)
{
	for (int key = 0; key < ISCSI_KEY_COUNT; key++) {
		const struct iscsi_key_row *row = iscsi_key_row((enum iscsi_key)key);
		uint32_t value;

		if (!iscsi_key_has_value(row))
			continue;
		value = iscsi_params_get(p, row, row->theirs);
		if (row->kind == ISCSI_KIND_LIST)
			CHECK(value >= 1 && value <= 3);
		else
			CHECK((value >= row->low && value <= row->high) ||
			      (value == 0 && row->rules & ISCSI_OR_ZERO));
	}
}

static void negotiate(uint8_t bits, uint8_t seed, const uint8_t *text, size_t length)
{
	static const enum iscsi_stage stages[] = { ISCSI_STAGE_SECURITY, ISCSI_STAGE_OPERATIONAL,
						   ISCSI_STAGE_OPERATIONAL,
						   ISCSI_STAGE_FULL_FEATURE };
	struct iscsi_negotiation_config c = { .is_target = bits & 1, .is_leading = bits & 2 };
	struct prng prng = { seed };
	struct iscsi_negotiation n;
	uint8_t out[ROOM];
	struct wr w = wr_of(out, sizeof(out));
	enum weft_reason reason;

	iscsi_params_init(&c.wish);
	c.session = c.wish.session;
	c.wish.session.has_rdma = bits & 4;
	c.wish.session.burst_bytes_max = 512 + prng_below(&prng, 100000);
	c.wish.session.r2t_max = 1 + prng_below(&prng, 10);
	c.wish.session.needs_r2t = bits & 8;
	c.wish.connection.header_digest = iscsi_list_of(2, 1);
	iscsi_negotiation_init(&n, &c);
	iscsi_negotiation_begin(&n, stages[bits >> 6]);
	if (bits & 16)
		iscsi_negotiation_offer(&n, &w);
	w = wr_of(out, sizeof(out));
	reason = iscsi_negotiation_take(&n, text, length, &w);
	CHECK(reason != WEFT_OK || !w.is_short);
	iscsi_negotiation_offer(&n, &w);
	CHECK(is_text(out, (size_t)(w.at - out)));
	(void)iscsi_negotiation_finish(&n);
	check_outcome(&n.params);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	(void)is_text(data + 2, size - 2);
	negotiate(data[0], data[1], data + 2, size - 2);
	return 0;
}
