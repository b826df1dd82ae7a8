/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/line.h"

#include <stdarg.h>
#include <stdio.h>

void line_say(struct line *l, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(l->at, l->room, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= l->room) {
		l->room = 0;
		return;
	}
	l->at += n;
	l->room -= (size_t)n;
}
