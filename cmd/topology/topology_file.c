/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/topology/topology_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 64 << 20 };

/* The whole file; NULL: it was said why not. */
static char *read_all(const char *command, const char *path, size_t *length)
{
	FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
	char *text = file ? malloc(TEXT_MAX + 1) : NULL;

	if (!text) {
		fprintf(stderr, "%s: %s: %s\n", command, path, strerror(errno));
		if (file && file != stdin)
			(void)fclose(file);
		return NULL;
	}
	*length = fread(text, 1, TEXT_MAX + 1, file);
	if (ferror(file) || *length > TEXT_MAX) {
		fprintf(stderr, "%s: %s: %s\n", command, path,
			ferror(file) ? strerror(errno) : "longer than 64 MiB");
		free(text);
		text = NULL;
	}
	if (file != stdin)
		(void)fclose(file);
	return text;
}

bool topology_file_read(struct topology *t, const char *command, const char *path)
{
	enum weft_reason reason;
	size_t length;
	uint32_t line;
	char *text = read_all(command, path, &length);

	if (!text)
		return false;
	reason = topology_parse(t, text, length, &line);
	free(text);
	if (reason == WEFT_OK)
		return true;
	fprintf(stderr, "%s: %s:%" PRIu32 ": %s (%s)\n", command, path, line,
		weft_reason_text(reason), weft_reason_name(reason));
	return false;
}
