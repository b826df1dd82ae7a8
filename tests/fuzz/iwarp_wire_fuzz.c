/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The decoders of mpa, ddp and rdmap on arbitrary bytes: each takes what it needs or nothing, and
 * what it accepted is the same after encoding and decoding again.
 */
#include <string.h>

#include "base/check.h"
#include "wire/ddp.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

enum { BYTES_MAX = 64 };

static void try_start(const uint8_t *data, size_t size)
{
	struct rd r = rd_of(data, size);
	struct mpa_start a, b;
	uint8_t bytes[BYTES_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));

	if (mpa_start_decode(&a, &r) != MPA_OK) {
		CHECK(r.at == data);
		return;
	}
	mpa_start_encode(&a, &w);
	r = rd_of(bytes, (size_t)(w.at - bytes));
	CHECK(mpa_start_decode(&b, &r) == MPA_OK && b.private_bytes == a.private_bytes &&
	      b.revision == a.revision && b.is_rejected == a.is_rejected);
}

static void try_terminate(struct rd *r)
{
	struct rdmap_terminate a, b;
	uint8_t bytes[BYTES_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct rd again;

	if (rdmap_terminate_decode(&a, r) != RDMAP_OK)
		return;
	rdmap_terminate_encode(&a, &w);
	CHECK(!w.is_short);
	again = rd_of(bytes, (size_t)(w.at - bytes));
	CHECK(rdmap_terminate_decode(&b, &again) == RDMAP_OK);
	CHECK(a.code == b.code && memcmp(a.ddp, b.ddp, sizeof(a.ddp)) == 0);
	CHECK(rdmap_terminate_text(a.layer, a.type, a.code));
}

/* Whatever can be read by the RFC alone can be read in either order. */
static void try_terminate_any(struct rd r)
{
	struct rd at = r, by_rfc = r;
	struct rdmap_terminate a, b;
	bool is_good = rdmap_terminate_decode_any(&a, &at) == RDMAP_OK;

	CHECK(is_good || at.at == r.at);
	CHECK(is_good || rdmap_terminate_decode(&b, &by_rfc) != RDMAP_OK);
	CHECK(!is_good || (!(a.is_siw_order && a.is_ambiguous) && a.ddp_bytes <= sizeof(a.ddp)));
}

static void try_segment(const uint8_t *data, size_t size)
{
	struct rd r = rd_of(data, size);
	struct ddp_tagged t;
	struct ddp_untagged u;
	struct rdmap_read_request read;
	struct rdmap_atomic_request atomic;
	enum rdmap_opcode opcode;

	if (size == 0)
		return;
	if (ddp_is_tagged(data[0])) {
		if (ddp_tagged_decode(&t, &r) == DDP_OK)
			(void)rdmap_control_decode(t.ulp, true, 0, &opcode);
		return;
	}
	if (ddp_untagged_decode(&u, &r) != DDP_OK ||
	    rdmap_control_decode(u.ulp, false, u.qn, &opcode) != RDMAP_OK)
		return;
	CHECK(rdmap_opcode_name(opcode));
	if (opcode == RDMAP_READ_REQUEST)
		(void)rdmap_read_request_decode(&read, &r);
	else if (opcode == RDMAP_ATOMIC_REQUEST)
		(void)rdmap_atomic_request_decode(&atomic, &r);
	else if (opcode == RDMAP_TERMINATE)
		try_terminate(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rd r = rd_of(data, size);

	try_start(data, size);
	try_segment(data, size);
	try_terminate_any(r);
	try_terminate(&r);
	return 0;
}
