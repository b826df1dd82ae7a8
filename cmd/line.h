/* SPDX-License-Identifier: BSD-2-Clause */
/* A line of text that grows; what does not fit is left out. */
#pragma once

#include <stddef.h>

struct line {
	char *at;
	size_t room;
};

__attribute__((format(printf, 2, 3))) void line_say(struct line *l, const char *format, ...);
