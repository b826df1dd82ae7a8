/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/platform.h"

/* A decimal number of 32 bits at the start; 0 characters: there is none, or it is written wrong. */
static size_t number_parse(const char *text, uint32_t *number)
{
	uint64_t value = 0;
	size_t length = 0;

	while (text[length] >= '0' && text[length] <= '9') {
		value = value * 10 + (uint64_t)(text[length++] - '0');
		if (value > UINT32_MAX)
			return 0;
	}
	/* Each number is written in one way. */
	if (length > 1 && text[0] == '0')
		return 0;
	*number = (uint32_t)value;
	return length;
}

bool platform_parse(const char *text, struct platform *platform)
{
	struct platform p;
	size_t unit = number_parse(text, &p.unit);
	size_t process;

	if (unit == 0 || text[unit] != '.')
		return false;
	process = number_parse(text + unit + 1, &p.process);
	if (process == 0 || text[unit + 1 + process] != '\0' || platform_is_none(p))
		return false;
	*platform = p;
	return true;
}
