/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/rio_window.h"

#include "driver/loop/adapter_lock.h"

enum weft_reason rio_window_bind(struct weft_pd *pd, const struct weft_qp *qp,
				 struct weft_bind *bind)
{
	struct weft_adapter *a = adapter_of(pd->adapter);
	struct mem_table *mem = &adapter_enter(a)->mem;
	struct weft_bind wanted = *bind;
	enum weft_reason r;

	wanted.tag = 0;
	r = mem_window_promise(mem, pd->number, &wanted);
	if (r == WEFT_OK)
		r = mem_window_bind(mem, pd->number, qp ? qp->number : 0, &wanted);
	adapter_leave(a);
	if (r == WEFT_OK)
		bind->tag = wanted.tag;
	return r;
}

enum weft_reason rio_window_give(struct weft_pd *pd, const struct weft_qp *qp, uint32_t tag)
{
	struct weft_adapter *a = adapter_of(pd->adapter);
	enum weft_reason r = mem_window_give(&adapter_enter(a)->mem, pd->number, tag, qp->number);

	adapter_leave(a);
	return r;
}
