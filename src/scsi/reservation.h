/* SPDX-License-Identifier: BSD-2-Clause */
/* Persistent reservations inside: what both commands use. */
#pragma once

#include "scsi/unit.h"

/* The registration of the nexus, or NO_HOLDER. */
uint32_t registration_of(const struct scsi_unit *u, uint32_t nexus);

static inline bool reservation_is_for_all(enum reservation_type type)
{
	return type == WRITE_EXCLUSIVE_ALL || type == EXCLUSIVE_ACCESS_ALL;
}

/* Types that let every registered nexus in. */
static inline bool reservation_has_registrants(enum reservation_type type)
{
	return type >= WRITE_EXCLUSIVE_REGISTRANTS;
}

static inline bool reservation_is_holder(const struct reservations *r, uint32_t row)
{
	if (r->type == RESERVATION_NONE || row == NO_HOLDER)
		return false;
	return reservation_is_for_all(r->type) || r->holder == row;
}
