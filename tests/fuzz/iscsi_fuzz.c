/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The decoders of iSCSI and iSER on arbitrary bytes: each refuses with a reason and changes
 * nothing, or takes a header that means the same after encoding and decoding again.
 */
#include <string.h>

#include "base/check.h"
#include "wire/iscsi.h"
#include "wire/iser.h"

enum { MARK = 0x5a };

static void try_pdu(const uint8_t *data, size_t size, enum iscsi_side sender)
{
	uint8_t bytes[ISCSI_HEADER_MAX], again[ISCSI_HEADER_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes)), w2 = wr_of(again, sizeof(again));
	struct iscsi_pdu a, b;

	memset(&a, MARK, sizeof(a));
	b = a;
	if (iscsi_decode(&a, sender, rd_of(data, size), ISCSI_DATA_MAX) != WEFT_OK) {
		CHECK(a.opcode == b.opcode && a.itt == b.itt && a.vendor_code == b.vendor_code);
		return;
	}
	CHECK(size >= ISCSI_BHS_BYTES && iscsi_header_bytes(data) <= size);
	CHECK(a.data_bytes == iscsi_data_bytes(data));
	CHECK(a.cdb_more_bytes == 0 ||
	      (a.cdb_more >= data + ISCSI_BHS_BYTES &&
	       a.cdb_more + a.cdb_more_bytes <= data + iscsi_header_bytes(data)));
	iscsi_encode(&a, &w);
	CHECK(!w.is_short && iscsi_header_bytes(bytes) == (size_t)(w.at - bytes));
	CHECK(iscsi_decode(&b, sender, rd_of(bytes, (size_t)(w.at - bytes)), a.data_bytes) ==
	      WEFT_OK);
	iscsi_encode(&b, &w2);
	CHECK(w.at - bytes == w2.at - again);
	CHECK(memcmp(bytes, again, (size_t)(w.at - bytes)) == 0);
}

static void try_lengths(const uint8_t *data, size_t size)
{
	struct iscsi_sense s;
	uint8_t digest[ISCSI_DIGEST_BYTES];

	if (iscsi_sense_decode(&s, data, size) == WEFT_OK)
		CHECK(s.sense_bytes + s.more_bytes + (size > 0 ? ISCSI_SENSE_HEADER_BYTES : 0) ==
		      size);
	if (size < ISCSI_BHS_BYTES)
		return;
	CHECK(iscsi_pdu_bytes(data, true, true) <=
	      ISCSI_HEADER_MAX + ISCSI_DATA_MAX + 1 + 2 * ISCSI_DIGEST_BYTES);
	CHECK(iscsi_pdu_bytes(data, false, false) % 4 == 0);
	iscsi_digest_encode(iscsi_header_digest(data, size), digest);
	CHECK(iscsi_header_check(data, size, digest) == WEFT_OK);
}

static void try_iser(const uint8_t *data, size_t size, enum iser_form form)
{
	struct rd r = rd_of(data, size), again;
	uint8_t bytes[ISER_HEADER_BYTES];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct iser_header a, b;

	if (iser_decode(&a, form, &r) != WEFT_OK) {
		CHECK(r.at == data);
		return;
	}
	CHECK((size_t)(r.at - data) == iser_header_bytes(form));
	iser_encode(&a, form, &w);
	CHECK((size_t)(w.at - bytes) == iser_header_bytes(form));
	again = rd_of(bytes, (size_t)(w.at - bytes));
	CHECK(iser_decode(&b, form, &again) == WEFT_OK);
	CHECK(a.kind == b.kind && a.write_stag == b.write_stag && a.read_to == b.read_to &&
	      a.depth == b.depth && a.version == b.version && a.is_rejected == b.is_rejected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct iser_private p;

	try_pdu(data, size, ISCSI_INITIATOR);
	try_pdu(data, size, ISCSI_TARGET);
	try_lengths(data, size);
	try_iser(data, size, ISER_RFC7145);
	try_iser(data, size, ISER_RFC5046);
	(void)iser_private_decode(&p, data, size);
	return 0;
}
