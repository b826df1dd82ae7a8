/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of the fabric and the management datagrams in them, on arbitrary bytes: as a frame whose
 * VCRC the fuzzer makes right, as a management datagram, and as an attribute of every kind. What is
 * accepted encodes to what decodes to the same again.
 */
#include <string.h>

#include "base/check.h"
#include "base/cursor.h"
#include "wire/iba_frame.h"
#include "wire/pm_attr.h"
#include "wire/sm_attr.h"
#include "wire/smp.h"

static void try_frame(const uint8_t *data, size_t size)
{
	uint8_t bytes[IBA_FRAME_MAX + 1], lrh[IBA_LRH_BYTES];
	struct iba_frame f;
	struct iba_lrh h;
	uint16_t vcrc;

	if (size < IBA_FRAME_MIN || size > sizeof(bytes))
		return;
	memcpy(bytes, data, size);
	vcrc = iba_vcrc(bytes, size - IBA_VCRC_BYTES);
	bytes[size - 2] = (uint8_t)vcrc;
	bytes[size - 1] = (uint8_t)(vcrc >> 8);
	if (iba_lrh_decode(&h, bytes, size) != WEFT_OK)
		return;
	CHECK(h.bytes + IBA_VCRC_BYTES == size);
	iba_lrh_encode(&h, lrh);
	for (size_t i = 0; i < sizeof(lrh); i++)
		CHECK((lrh[i] & bytes[i]) == lrh[i]); /* without the reserved bits */
	if (iba_frame_decode(&f, bytes, size) == WEFT_OK && f.has_packet)
		CHECK(f.packet.payload_bytes < size);
}

static void try_value(const struct mad_layout *l, const uint8_t *bytes)
{
	uint8_t once[256], again[256];
	uint64_t value[40];

	if (!l || mad_layout_decode(l, value, bytes) != WEFT_OK)
		return;
	mad_layout_encode(l, value, once);
	CHECK(mad_layout_decode(l, value, once) == WEFT_OK);
	mad_layout_encode(l, value, again);
	CHECK(memcmp(once, again, l->bytes) == 0);
}

static void try_mad(const uint8_t *data, size_t size)
{
	uint8_t bytes[MAD_BYTES] = { 0 }, once[MAD_BYTES], again[MAD_BYTES];
	struct smp s;

	memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
	try_value(pm_layout((uint16_t)(bytes[16] << 8 | bytes[17])), bytes + PM_DATA_AT);
	if (smp_decode(&s, bytes, sizeof(bytes)) != WEFT_OK)
		return;
	try_value(sm_layout(s.mad.attribute), s.data);
	smp_encode(&s, once);
	CHECK(smp_decode(&s, once, sizeof(once)) == WEFT_OK);
	smp_encode(&s, again);
	CHECK(memcmp(once, again, sizeof(once)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_frame(data, size);
	try_mad(data, size);
	return 0;
}
