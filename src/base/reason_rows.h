/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of reasons, each for a range of numbers: reason.c has the first, reason_iscsi.c those
 * from REASON_ISCSI_FIRST on, reason_push.c, reason_lan.c and reason_fabric.c
 * those behind.
 */
#pragma once

#include <weft/reason.h>

struct reason_row {
	const char *name;
	const char *requirement;
	int error;
	const char *text;
};

enum {
	REASON_ISCSI_FIRST = WEFT_R_ISCSI_SHORT,
	REASON_PUSH_FIRST = WEFT_R_PUSH_SHORT,
	REASON_LAN_FIRST = WEFT_R_LAN_TEXT,
	REASON_FABRIC_FIRST = WEFT_R_FRAME_SHORT
};

extern const struct reason_row reason_iscsi_rows[REASON_PUSH_FIRST - REASON_ISCSI_FIRST];
extern const struct reason_row reason_push_rows[REASON_LAN_FIRST - REASON_PUSH_FIRST];
extern const struct reason_row reason_lan_rows[REASON_FABRIC_FIRST - REASON_LAN_FIRST];
extern const struct reason_row reason_fabric_rows[WEFT_REASON_COUNT - REASON_FABRIC_FIRST];
