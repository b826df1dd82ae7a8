/* SPDX-License-Identifier: BSD-2-Clause */
/* PDUs of iSCSI for tests: as bytes written by hand from the layouts of RFC 7143, and at random. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"
#include "wire/iscsi.h"

enum { ISCSI_ANY_DATA = ISCSI_DATA_MAX, ISCSI_KINDS = 18 };

/* All opcodes there are, those of initiators first. */
extern const uint8_t iscsi_kinds[ISCSI_KINDS];

static inline enum iscsi_side iscsi_sender(uint8_t opcode)
{
	return opcode < 0x20 ? ISCSI_INITIATOR : ISCSI_TARGET;
}

/* Hexadecimal digits, with spaces anywhere. Returns the number of bytes. */
size_t iscsi_hex(uint8_t *bytes, size_t room, const char *text);

/* A legal PDU of this opcode with random fields; cdb holds what its CDB has in an AHS. */
void iscsi_random(struct iscsi_pdu *p, uint8_t opcode, uint8_t cdb[ISCSI_CDB_MORE_MAX],
		  struct prng *random);

/* Field by field. */
bool iscsi_same(const struct iscsi_pdu *a, const struct iscsi_pdu *b);
