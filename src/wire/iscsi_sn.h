/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sequence numbers of iSCSI (RFC 7143 section 4.2.2): 32 bits that wrap, compared by the serial
 * number arithmetic of RFC 1982. Order is defined for numbers less than half of the number space
 * apart.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* a - b: negative if a is earlier. Exactly half of the number space counts as earlier. */
static inline int32_t iscsi_sn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b);
}

static inline bool iscsi_sn_is_before(uint32_t a, uint32_t b)
{
	return iscsi_sn_diff(a, b) < 0;
}

/* ExpCmdSN and MaxCmdSN: the commands that a target takes. */
struct iscsi_window {
	uint32_t exp, max;
};

/* How many: none if max is the one before exp, or earlier still. */
static inline uint32_t iscsi_window_size(const struct iscsi_window *w)
{
	return iscsi_sn_is_before(w->max, w->exp) ? 0 : w->max - w->exp + 1;
}

static inline bool iscsi_window_has(const struct iscsi_window *w, uint32_t cmd_sn)
{
	return cmd_sn - w->exp < iscsi_window_size(w);
}

/*
 * What a PDU of the target says about it. Section 4.2.2.1: neither number moves back, as PDUs of
 * several connections overtake each other; and both are ignored if the second is earlier than the
 * one before the first.
 */
static inline void iscsi_window_update(struct iscsi_window *w, uint32_t exp, uint32_t max)
{
	if (iscsi_sn_is_before(max, exp - 1))
		return;
	if (iscsi_sn_is_before(w->exp, exp))
		w->exp = exp;
	if (iscsi_sn_is_before(w->max, max))
		w->max = max;
}
