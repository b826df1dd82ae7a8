/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An end-to-end context as requests name it: by a number, which finds nothing when it is gone. What
 * it is, its transport knows (RD-02).
 */
#pragma once

#include "verbs/adapter.h"

enum { EES_MAX = 1024 }; /* of an adapter: other nodes that it talks to */

struct weft_ee {
	struct adapter *adapter;
	uint32_t number;
};

static inline struct weft_ee *ee_find(const struct adapter *a, uint32_t number)
{
	return id_table_find(&a->ees, number);
}
