/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arbitrary UDP payloads as packets of the InfiniBand transport: what is refused changes nothing,
 * what is accepted is the same after encoding and decoding again, and its ICRC, computed in pieces
 * and put behind it, is found good.
 */
#include <string.h>

#include "base/check.h"
#include "wire/iba.h"
#include "wire/iba_aeth.h"
#include "wire/iba_grh.h"
#include "wire/iba_icrc.h"
#include "wire/iba_psn.h"

/* Addresses and the rest from the packet itself: as good as any. */
static void try_icrc(const struct iba_packet *p, uint8_t *bytes, uint32_t length)
{
	struct inet_end from = { .port = (uint16_t)p->psn }, to = { .port = IBA_UDP_PORT };
	struct iba_icrc_ip ip = { .from = &from,
				  .to = &to,
				  .ipv4_id = (uint16_t)p->dest_qp,
				  .ipv4_fragment = IBA_IPV4_DF,
				  .is_ipv6 = p->is_solicited };
	uint32_t head = iba_form(p->opcode)->header_bytes, crc, found;

	crc = iba_icrc_begin(&ip, length);
	CHECK(p->pad <= IBA_PAD_MAX && length >= head + p->payload_bytes + p->pad);
	crc = iba_icrc_add_packet(crc, bytes, head);
	crc = crc32_add(crc, bytes + head, p->payload_bytes);
	(void)iba_trailer_encode(crc, p->pad, bytes + head + p->payload_bytes);
	crc = iba_icrc_begin(&ip, length);
	CHECK(iba_icrc_differs(crc, bytes, length) == 0);
	if (ip.is_ipv6)
		return;
	ip.ipv4_id = ip.ipv4_fragment = 0;
	found = iba_icrc_differs(iba_icrc_begin(&ip, length), bytes, length);
	found = iba_icrc_ipv4_word(found, iba_icrc_factor(length));
	CHECK(found >> 16 == (p->dest_qp & 0xffff) && (found & 0xffff) == IBA_IPV4_DF);
}

static void try_packet(const uint8_t *data, size_t size)
{
	const struct iba_packet untouched = { .opcode = 0xee, .payload_bytes = 77 };
	struct iba_packet a = untouched, b;
	uint8_t bytes[IBA_PACKET_MAX], again[IBA_HEADERS_MAX];
	enum weft_reason reason = iba_decode(&a, data, size);
	uint32_t head;

	if (reason != WEFT_OK) {
		CHECK(reason >= WEFT_R_IB_SHORT && reason <= WEFT_R_IB_LENGTH);
		CHECK(a.opcode == 0xee && a.payload_bytes == 77 && !a.payload);
		return;
	}
	head = iba_form(a.opcode)->header_bytes;
	CHECK(size <= sizeof(bytes) && a.payload == data + head);
	CHECK(head + a.payload_bytes + a.pad + IBA_ICRC_BYTES == size);
	memcpy(bytes, data, size);
	CHECK(iba_encode(&a, bytes) == head);
	CHECK(iba_decode(&b, bytes, size) == WEFT_OK && b.payload_bytes == a.payload_bytes);
	CHECK(iba_encode(&b, again) == head && memcmp(bytes, again, head) == 0);
	CHECK(a.psn == b.psn && a.dest_qp == b.dest_qp && a.va == b.va && a.msn == b.msn);
	CHECK(iba_opcode_name(a.opcode) && iba_syndrome_name(a.syndrome));
	(void)iba_fits_mtu(&a, 1024);
	try_icrc(&a, bytes, (uint32_t)size);
}

static void try_grh(const uint8_t *data, size_t size)
{
	uint8_t bytes[IBA_GRH_BYTES];
	struct iba_grh g;

	if (size < IBA_GRH_BYTES || iba_grh_decode(&g, data) != WEFT_OK)
		return;
	iba_grh_encode(&g, bytes);
	CHECK(iba_gid_is_ipv4(g.from) || memcmp(bytes, data, sizeof(bytes)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_packet(data, size);
	try_grh(data, size);
	return 0;
}
