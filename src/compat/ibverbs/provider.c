/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What provider libraries (libmlx5, libefa) call when they are loaded. They find no device of
 * theirs here; that they can be loaded is all that programs linked to them need.
 */
#include "compat/ibverbs/provider.h"

bool verbs_allow_disassociate_destroy;

void weftv_register_driver(const void *ops)
{
	(void)ops;
}

void __verbs_log(struct verbs_context *ctx, uint32_t level, const char *format, ...)
{
	(void)ctx, (void)level, (void)format;
}
