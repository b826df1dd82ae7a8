/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains: owner, address space and privilege of memory. */
#pragma once

#include "verbs/adapter.h"

struct weft_pd {
	struct adapter *adapter;
	struct weft_space *space;
	uint32_t number;
	uint32_t users; /* queue pairs, shared receive queues, address handles */
	bool is_privileged;
};

enum weft_reason pd_create(struct adapter *a, const struct weft_pd_options *options,
			   struct weft_pd **pd);
enum weft_reason pd_destroy(struct weft_pd *pd);

static inline struct mem_owner pd_owner(const struct weft_pd *pd)
{
	return (struct mem_owner){
		.pd = pd->number,
		.space = pd->space,
		.is_privileged = pd->is_privileged,
	};
}
