/* SPDX-License-Identifier: BSD-2-Clause */
/* What RFC 7143 says of the fields of a decoded PDU, opcode by opcode: part of iscsi_decode(). */
#pragma once

#include <stdbool.h>

#include "wire/iscsi.h"

/* Section 11.1.1: codes that the RFC defines or leaves to vendors; all others are reserved. */
bool iscsi_code_is_defined(const struct iscsi_pdu *p);

/* What fields of this opcode may be together. */
enum weft_reason iscsi_rules_check(const struct iscsi_pdu *p);
