/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The common header of management datagrams (IBA 13.4.2). A MAD is 256 bytes: this header and the
 * data of its class.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

enum {
	MAD_BYTES = 256,
	MAD_HEADER_BYTES = 24,
	MAD_DATA_BYTES = MAD_BYTES - MAD_HEADER_BYTES,
	MAD_BASE_VERSION = 1
};

enum mad_class {
	MAD_SUBNET_LID = 0x01,
	MAD_SUBNET_DIRECTED = 0x81,
	MAD_SUBNET_ADMIN = 0x03,
	MAD_PERFORMANCE = 0x04,
	MAD_BOARD = 0x05,
	MAD_DEVICE = 0x06,
	MAD_CM = 0x07,
	MAD_DEVICE_ADMIN = 0x10,
	MAD_BIS = 0x12,
	MAD_VENDOR_FIRST = 0x30, /* up to MAD_VENDOR_LAST: told apart by the OUI of a vendor */
	MAD_VENDOR_LAST = 0x4f
};

static inline bool mad_has_oui(uint8_t mgmt_class)
{
	return mgmt_class >= MAD_VENDOR_FIRST && mgmt_class <= MAD_VENDOR_LAST;
}

enum mad_method {
	MAD_GET = 0x01,
	MAD_SET = 0x02,
	MAD_SEND = 0x03,
	MAD_TRAP = 0x05,
	MAD_REPORT = 0x06,
	MAD_TRAP_REPRESS = 0x07,
	MAD_GET_RESPONSE = 0x81,
	MAD_REPORT_RESPONSE = 0x86,
	MAD_RESPONSE = 0x80 /* the bit of responses */
};

struct mad {
	uint8_t mgmt_class; /* enum mad_class, or another */
	uint8_t class_version;
	uint8_t method; /* enum mad_method, or another */
	uint16_t status;
	uint16_t class_specific;
	uint64_t tid;
	uint16_t attribute;
	uint32_t modifier;
};

/* IBA 13.4.5: whether it answers a request. A board's methods say so in the modifier. */
static inline bool mad_is_response(const struct mad *m)
{
	return (m->method & MAD_RESPONSE) || m->method == MAD_TRAP_REPRESS ||
	       (m->mgmt_class == MAD_BOARD && (m->modifier & 1));
}

/* Decodes the header of a complete MAD. On error *m has not changed. */
enum weft_reason mad_decode(struct mad *m, const uint8_t *bytes, size_t length);

/* Encodes only the header. */
void mad_encode(const struct mad *m, uint8_t bytes[MAD_HEADER_BYTES]);
