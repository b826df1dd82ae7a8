/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an ELF file says of itself, read by libelf: for which machine it is, what loads it, what it
 * needs from libraries and what it offers. Strings live as long as the file is open.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A library's version node that is needed, or a symbol of it. */
struct elf_need {
	const char *library; /* as DT_NEEDED names it */
	const char *node;
	const char *symbol; /* NULL: the node itself */
	bool is_weak;
};

struct elf_offer {
	const char *node;
	const char *symbol; /* NULL: the node itself */
};

struct elf_file {
	int machine; /* EM_ */
	int bits;
	bool is_big_endian;
	bool is_library;	 /* it is not started, but loaded */
	const char *interpreter; /* NULL: no loader loads libraries for it */
	const char *rpath;	 /* NULL: none */

	struct elf_need *needs;
	size_t need_count;
	struct elf_offer *offers;
	size_t offer_count;

	struct elf_inside *inside;
};

/* 0; -ENOEXEC if it is no ELF file, or a broken one; or what open() said. */
int elf_file_open(struct elf_file *f, const char *path);
void elf_file_close(struct elf_file *f);

/* Whether the file has the node, and the symbol in it; a symbol of NULL: only the node. */
bool elf_file_has(const struct elf_file *f, const char *node, const char *symbol);

/* "x86-64, 64 bits, little endian" */
const char *elf_machine_text(const struct elf_file *f, char *text, size_t size);
