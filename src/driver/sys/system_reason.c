/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/sys/system_reason.h"

static _Thread_local int last_error;

enum weft_reason system_reason(int error)
{
	last_error = error;
	return WEFT_R_SYSTEM;
}

int weft_system_errno(void)
{
	return last_error;
}
