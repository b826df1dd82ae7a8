/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program to be run with the drop-in libraries: where it is, and what about it would keep the
 * dynamic loader from giving them to it.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "cmd/run/elf_file.h"

/* Why not, in the order in which it is found out. */
enum program_fault {
	PROGRAM_OK,
	PROGRAM_NOT_FOUND,
	PROGRAM_NOT_EXECUTABLE, /* a folder, or no leave to run it */
	PROGRAM_NOT_READABLE,	/* nothing can be said about it */
	PROGRAM_NOT_A_PROGRAM,	/* neither ELF nor a script */
	PROGRAM_MACHINE,	/* made for another architecture */
	PROGRAM_LIBRARY,	/* not to be run, but loaded */
	PROGRAM_STATIC,		/* no loader loads libraries for it */
	PROGRAM_MUSL,		/* another C library than the drop-in libraries have */
	PROGRAM_PRIVILEGED,	/* runs with more rights: the loader then ignores LD_LIBRARY_PATH */
};

struct program {
	char path[PATH_MAX];   /* what is to be executed */
	char binary[PATH_MAX]; /* what the kernel loads: that, or the interpreter of a script */
	bool is_set_id;	       /* set-user-ID, set-group-ID or with capabilities, for any user */
	bool is_open;
	struct elf_file elf; /* of the binary, if is_open */
};

/* Finds it as a shell does. A library is open after its fault, too. Close it in any case. */
enum program_fault program_open(struct program *p, const char *name);
void program_close(struct program *p);

/* What is wrong and what to do about it, as a sentence without its subject. */
const char *program_fault_text(const struct program *p, enum program_fault fault, char *text,
			       size_t size);
