/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An end-to-end context as requests name it: by number, which finds nothing once it is destroyed.
 * Its content belongs to the transport (RD-02).
 */
#pragma once

#include "verbs/adapter.h"

enum { EES_MAX = 1024 }; /* per adapter: one for each remote node */

struct weft_ee {
	struct adapter *adapter;
	uint32_t number;
};

static inline struct weft_ee *ee_find(const struct adapter *a, uint32_t number)
{
	return id_table_find(&a->ees, number);
}
