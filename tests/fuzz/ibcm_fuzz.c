/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arbitrary bytes as MADs and as messages of connection management: what is refused changes
 * nothing, what is accepted is the same after encoding and decoding again.
 */
#include <string.h>

#include "base/check.h"
#include "wire/ibcm.h"

static void try_mad(const uint8_t *data, size_t size)
{
	uint8_t bytes[MAD_HEADER_BYTES];
	struct mad m;

	if (mad_decode(&m, data, size) != WEFT_OK)
		return;
	CHECK(size == MAD_BYTES);
	mad_encode(&m, bytes);
	/* All but the two reserved bytes. */
	CHECK(memcmp(bytes, data, 18) == 0 && memcmp(bytes + 20, data + 20, 4) == 0);
}

static void try_addresses(struct ibcm_bytes from, uint64_t service_id)
{
	uint8_t bytes[IBCM_IP_BYTES];
	const struct ibcm_bytes again = { bytes, sizeof(bytes) };
	struct ibcm_ip a = { .from.port = 77 }, b;

	if (ibcm_ip_decode(&a, service_id, from) != WEFT_OK) {
		CHECK(a.from.port == 77);
		return;
	}
	ibcm_ip_encode(&a, bytes);
	CHECK(ibcm_ip_decode(&b, service_id, again) == WEFT_OK && a.is_ipv6 == b.is_ipv6);
	CHECK(memcmp(a.from.address, b.from.address, sizeof(a.from.address)) == 0);
	CHECK(memcmp(a.to.address, b.to.address, sizeof(a.to.address)) == 0);
}

static void try_message(const uint8_t *data, size_t size)
{
	uint8_t bytes[MAD_BYTES], again[MAD_BYTES];
	struct ibcm_msg a = { .tid = 77, .kind = IBCM_APR }, b;
	const uint8_t *end = data + size;

	if (ibcm_decode(&a, data, size) != WEFT_OK) {
		CHECK(a.tid == 77 && a.kind == IBCM_APR && !a.private_data.bytes);
		return;
	}
	CHECK(a.private_data.bytes > data && a.private_data.bytes + a.private_data.length == end);
	CHECK(a.info.length <= IBCM_INFO_MAX);
	CHECK(ibcm_kind_name(a.kind) && a.private_data.length == ibcm_private_max(a.kind));
	ibcm_encode(&a, bytes);
	CHECK(ibcm_decode(&b, bytes, sizeof(bytes)) == WEFT_OK && a.kind == b.kind);
	CHECK(a.tid == b.tid && a.local_id == b.local_id && a.remote_id == b.remote_id);
	ibcm_encode(&b, again);
	CHECK(memcmp(bytes, again, sizeof(bytes)) == 0);
	CHECK(memcmp(a.private_data.bytes, b.private_data.bytes, b.private_data.length) == 0);
	if (a.kind == IBCM_REJ)
		CHECK(ibcm_reject_name(a.rej.reason));
	try_addresses(a.private_data, a.tid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_mad(data, size);
	try_message(data, size);
	try_addresses((struct ibcm_bytes){ data, (uint32_t)size }, 7174);
	return 0;
}
