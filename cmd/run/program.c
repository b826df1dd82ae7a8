/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cmd/run/program.h"

enum { SCRIPTS_MAX = 4 }; /* a script may be the interpreter of another; the kernel's own limit */

/* ---- Where it is ---------------------------------------------------------------------------- */

static bool is_file(const char *path)
{
	struct stat s;

	return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

/* A name with a slash is a path; others are looked for in PATH. */
static enum program_fault locate(char *path, const char *name)
{
	const char *at = getenv("PATH");
	enum program_fault fault = PROGRAM_NOT_FOUND;

	snprintf(path, PATH_MAX, "%s", name);
	if (strchr(name, '/')) {
		if (access(name, F_OK) < 0)
			return PROGRAM_NOT_FOUND;
		return is_file(name) && access(name, X_OK) == 0 ? PROGRAM_OK
								: PROGRAM_NOT_EXECUTABLE;
	}
	if (*name == '\0')
		return PROGRAM_NOT_FOUND;
	for (at = at ? at : "/usr/bin:/bin"; at;
	     at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
		int length = (int)strcspn(at, ":");
		char here[PATH_MAX];
		int n = snprintf(here, sizeof(here), "%.*s/%s", length ? length : 1,
				 length ? at : ".", name);

		if (n < 0 || (size_t)n >= sizeof(here) || !is_file(here))
			continue;
		snprintf(path, PATH_MAX, "%s", here);
		if (access(here, X_OK) == 0)
			return PROGRAM_OK;
		fault = PROGRAM_NOT_EXECUTABLE;
	}
	return fault;
}

/* The interpreter that a script names in its first line; false: it is no script. */
static bool script_interpreter(const char *path, char *interpreter)
{
	char line[PATH_MAX] = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
	char *at = line + 2;

	if (fd >= 0)
		close(fd);
	if (n < 2 || line[0] != '#' || line[1] != '!')
		return false;
	at += strspn(at, " \t");
	at[strcspn(at, " \t\n")] = '\0';
	snprintf(interpreter, PATH_MAX, "%s", at);
	return true;
}

/* ---- What it is ----------------------------------------------------------------------------- */

/* What this very program was made for is what the libraries were made for. */
static bool is_our_machine(const struct elf_file *f)
{
	struct elf_file own;
	bool is_ours = true;

	if (elf_file_open(&own, "/proc/self/exe") < 0)
		return true;
	is_ours = own.machine == f->machine && own.bits == f->bits &&
		  own.is_big_endian == f->is_big_endian;
	elf_file_close(&own);
	return is_ours;
}

static bool is_musl(const struct elf_file *f)
{
	return strstr(f->interpreter, "/ld-musl-") != NULL;
}

/*
 * Whether the kernel will tell the loader not to trust the environment (AT_SECURE): when the file
 * changes the user or group that it runs as. It does not if the caller is that user already, and
 * not at all where rights cannot be gained.
 */
static bool is_privileged(struct program *p)
{
	bool has_capabilities = getxattr(p->binary, "security.capability", NULL, 0) > 0;
	bool is_set_user, is_set_group;
	struct stat s;

	if (stat(p->binary, &s) < 0)
		return false;
	is_set_user = s.st_mode & S_ISUID;
	is_set_group = (s.st_mode & S_ISGID) && (s.st_mode & S_IXGRP);
	p->is_set_id = is_set_user || is_set_group || has_capabilities;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return false;
	return (is_set_user && s.st_uid != getuid()) || (is_set_group && s.st_gid != getgid()) ||
	       (has_capabilities && getuid() != 0);
}

static enum program_fault inspect(struct program *p)
{
	int result = -ENOEXEC;

	memcpy(p->binary, p->path, sizeof(p->binary));
	for (int i = 0; i <= SCRIPTS_MAX && !p->is_open; i++) {
		char next[PATH_MAX];

		result = elf_file_open(&p->elf, p->binary);
		p->is_open = result == 0;
		if (result != -ENOEXEC || !script_interpreter(p->binary, next))
			break;
		memcpy(p->binary, next, sizeof(next));
	}
	if (result == -EACCES)
		return PROGRAM_NOT_READABLE;
	if (result == -ENOENT)
		return PROGRAM_NOT_FOUND; /* a script's interpreter */
	if (!p->is_open)
		return PROGRAM_NOT_A_PROGRAM;
	if (!is_our_machine(&p->elf))
		return PROGRAM_MACHINE;
	if (p->elf.is_library)
		return PROGRAM_LIBRARY;
	if (!p->elf.interpreter)
		return PROGRAM_STATIC;
	if (is_musl(&p->elf))
		return PROGRAM_MUSL;
	return is_privileged(p) ? PROGRAM_PRIVILEGED : PROGRAM_OK;
}

enum program_fault program_open(struct program *p, const char *name)
{
	enum program_fault fault;

	*p = (struct program){ 0 };
	fault = locate(p->path, name);
	if (fault == PROGRAM_OK)
		return inspect(p);
	/* Libraries need no leave to be executed. */
	if (fault == PROGRAM_NOT_EXECUTABLE && inspect(p) == PROGRAM_LIBRARY)
		return PROGRAM_LIBRARY;
	program_close(p);
	return fault;
}

void program_close(struct program *p)
{
	if (p->is_open)
		elf_file_close(&p->elf);
	p->is_open = false;
}

/* ---- In words ------------------------------------------------------------------------------- */

const char *program_fault_text(const struct program *p, enum program_fault fault, char *text,
			       size_t size)
{
	static const char *const words[] = {
		[PROGRAM_OK] = "can be run",
		[PROGRAM_NOT_FOUND] = "is not found; give its path, or look at PATH",
		[PROGRAM_NOT_EXECUTABLE] = "cannot be executed; is it a program, and may you run "
					   "it (chmod +x)?",
		[PROGRAM_NOT_READABLE] = "cannot be read, so nothing is known about it; run a copy "
					 "that you may read",
		[PROGRAM_NOT_A_PROGRAM] = "is neither an ELF program nor a script that begins with "
					  "#!",
		[PROGRAM_LIBRARY] = "is a library; name the program that uses it",
		[PROGRAM_STATIC] = "is statically linked: its RDMA library is inside it and cannot "
				   "be replaced; link it dynamically",
		[PROGRAM_MUSL] = "uses musl, and weft's libraries were built for glibc; run a "
				 "program that was built for this distribution",
		[PROGRAM_PRIVILEGED] = "runs with rights that you do not have (set-user-ID, "
				       "set-group-ID or capabilities), so the loader ignores "
				       "LD_LIBRARY_PATH; run a copy of it (cp), which has none, or "
				       "run it as the user that it runs as",
	};
	char machine[64];

	if (fault == PROGRAM_NOT_FOUND && p->binary[0])
		snprintf(text, size, "is a script whose interpreter %s is not found", p->binary);
	else if (fault == PROGRAM_MACHINE)
		snprintf(
			text, size,
			"is made for another architecture (%s), and these libraries are not; build "
			"weft for that architecture",
			elf_machine_text(&p->elf, machine, sizeof(machine)));
	else
		snprintf(text, size, "%s", words[fault]);
	return text;
}
