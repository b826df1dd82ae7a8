/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/run/elf_file.h"
#include "cmd/run/loader.h"

/* "\tlibm.so.6 => /lib/libm.so.6 (0x...)", "\tlibx.so.1 => not found", "\t/lib/ld.so (0x...)" */
static bool row_read(struct loader_row *row, char *line)
{
	char *arrow = strstr(line, " => "), *path = arrow ? arrow + 4 : line + 1;
	char *end = strstr(path, " (0x");
	const char *slash;

	if (line[0] != '\t' || (!arrow && line[1] != '/'))
		return false;
	if (arrow)
		*arrow = '\0';
	if (end)
		*end = '\0';
	else
		*path = '\0';
	slash = strrchr(line + 1, '/');
	snprintf(row->name, sizeof(row->name), "%.*s", NAME_MAX, slash ? slash + 1 : line + 1);
	snprintf(row->path, sizeof(row->path), "%.*s", PATH_MAX - 1, path);
	return true;
}

static int rows_read(struct loader_list *list, FILE *from)
{
	char line[2 * PATH_MAX];

	while (fgets(line, sizeof(line), from)) {
		struct loader_row row, *longer;

		if (!row_read(&row, line))
			continue;
		longer = realloc(list->rows, (list->count + 1) * sizeof(*longer));
		if (!longer)
			return -ENOMEM;
		list->rows = longer;
		list->rows[list->count++] = row;
	}
	return 0;
}

/* The loader of this program is of the architecture and the C library of the drop-in libraries. */
static int own_loader(char *path, size_t size)
{
	struct elf_file own;
	int result = elf_file_open(&own, "/proc/self/exe");

	if (result < 0)
		return result;
	if (own.interpreter)
		snprintf(path, size, "%s", own.interpreter);
	else
		result = -ENOEXEC;
	elf_file_close(&own);
	return result;
}

/* As ldd does: the loader then lists what it has found and ends, in place of starting. */
static const char lists_only[] = "LD_TRACE_LOADED_OBJECTS";

static int spawn(pid_t *pid, char *const *words, const int *ends)
{
	posix_spawn_file_actions_t actions;
	int result = posix_spawn_file_actions_init(&actions);

	if (result != 0)
		return -result;
	if (setenv(lists_only, "1", 1) < 0) {
		posix_spawn_file_actions_destroy(&actions);
		return -ENOMEM;
	}
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	result = posix_spawn(pid, words[0], &actions, NULL, words, environ);
	posix_spawn_file_actions_destroy(&actions);
	unsetenv(lists_only);
	return -result;
}

int loader_list_read(struct loader_list *list, const char *program, const char *library_path)
{
	char loader[PATH_MAX], path_option[] = "--library-path";
	char *words[] = { loader, path_option, (char *)library_path, (char *)program, NULL };
	int ends[2], result, status = 0;
	FILE *from;
	pid_t pid;

	*list = (struct loader_list){ 0 };
	result = own_loader(loader, sizeof(loader));
	if (result < 0)
		return result;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	result = spawn(&pid, words, ends);
	close(ends[1]);
	from = fdopen(ends[0], "r");
	if (result == 0) {
		result = from ? rows_read(list, from) : -ENOMEM;
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (result == 0 && list->count == 0 && status != 0)
			result = -ELIBBAD;
	}
	if (from)
		fclose(from);
	else
		close(ends[0]);
	return result;
}

void loader_list_free(struct loader_list *list)
{
	free(list->rows);
	*list = (struct loader_list){ 0 };
}
