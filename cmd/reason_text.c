/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/reason_text.h"

#include <stdio.h>
#include <string.h>

const char *reason_text(enum weft_reason reason, char text[REASON_TEXT])
{
	int error = reason == WEFT_R_SYSTEM ? weft_system_errno() : 0;

	if (error != 0)
		snprintf(text, REASON_TEXT, "%s %s. (%s)", weft_reason_text(reason),
			 strerror(error), weft_reason_name(reason));
	else
		snprintf(text, REASON_TEXT, "%s (%s)", weft_reason_text(reason),
			 weft_reason_name(reason));
	return text;
}
