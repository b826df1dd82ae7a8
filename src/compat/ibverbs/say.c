/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/ibverbs/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "driver/observe/observe.h"

/* In one piece, so that lines of several threads do not mix. */
__attribute__((format(printf, 1, 0))) static void put_line(const char *format, va_list args)
{
	char line[512];
	int n = snprintf(line, sizeof(line), "weft[%ld]: ", (long)getpid());

	(void)vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, args);
	n = (int)strlen(line);
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}

void say(const char *format, ...)
{
	va_list args;

	if (log_level_wished() < LOG_ERROR)
		return;
	va_start(args, format);
	put_line(format, args);
	va_end(args);
}

void say_anyway(const char *format, ...)
{
	va_list args;

	if (log_level_wished() == LOG_OFF)
		return;
	va_start(args, format);
	put_line(format, args);
	va_end(args);
}
