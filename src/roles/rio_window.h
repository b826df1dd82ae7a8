/* SPDX-License-Identifier: BSD-2-Clause */
/* Windows of directed I/O: each is for one connection where it is known which. */
#pragma once

#include <weft/weft.h>

/* As weft_window_bind(), for this queue pair only; NULL: for all of the domain. */
enum weft_reason rio_window_bind(struct weft_pd *pd, const struct weft_qp *qp,
				 struct weft_bind *bind);

/* A bound window is this queue pair's from now on, and the other's no more; its tag stays. */
enum weft_reason rio_window_give(struct weft_pd *pd, const struct weft_qp *qp, uint32_t tag);
