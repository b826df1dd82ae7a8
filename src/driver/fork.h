/* SPDX-License-Identifier: BSD-2-Clause */
/* What becomes of an adapter when its process forks. */
#pragma once

struct weft_adapter;

/* It has been opened; it is about to be closed. */
void fork_enlist(struct weft_adapter *a);
void fork_delist(struct weft_adapter *a);

/* For pthread_atfork(). */
void fork_prepare(void);
void fork_parent(void);
void fork_child(void);
