/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compat/ibverbs/object.h"

void say(const char *format, ...)
{
	/* Not for programs that run with more rights than their user. */
	const char *level = secure_getenv("WEFT_LOG");
	char line[512];
	va_list args;
	int n;

	if (!level || (strcmp(level, "error") != 0 && strcmp(level, "info") != 0))
		return;
	n = snprintf(line, sizeof(line), "weft[%ld]: ", (long)getpid());
	va_start(args, format);
	(void)vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, args);
	va_end(args);
	n = (int)strlen(line);
	line[n++] = '\n';
	/* In one piece, so that lines of several threads do not mix. */
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}
