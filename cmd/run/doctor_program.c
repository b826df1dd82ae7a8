/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/run/doctor.h"
#include "cmd/run/loader.h"

/* A program being looked at, and the drop-in libraries that it is to get. */
struct patient {
	struct program program;
	struct loader_list list;
	struct elf_file ours[DROPIN_LIBRARIES];
	size_t checked; /* needs that are met */
	int unmet;
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Which of the drop-in libraries it is the name of; -1: none. */
static int dropin_number(const char *name)
{
	for (int i = 0; i < DROPIN_LIBRARIES; i++) {
		if (strcmp(name, dropin_names[i]) == 0)
			return i;
	}
	return -1;
}

/* ---- Versions ------------------------------------------------------------------------------- */

/* "IBVERBS_PRIVATE_34, ": what there is in place of a node that is missing, if it is private. */
static const char *private_node(const struct elf_file *f)
{
	for (size_t i = 0; i < f->offer_count; i++) {
		if (strstr(f->offers[i].node, "_PRIVATE_"))
			return f->offers[i].node;
	}
	return "none";
}

static void say_missing(struct doctor *d, const struct elf_file *ours, const char *who,
			const struct elf_need *need)
{
	if (need->symbol)
		doctor_say(d, DOCTOR_STOP, "versions",
			   "%s needs %s@%s, which weft's %s does not have; rebuild it against this "
			   "machine's rdma-core, or weft against the program's",
			   who, need->symbol, need->node, need->library);
	else if (strstr(need->node, "_PRIVATE_"))
		doctor_say(d, DOCTOR_STOP, "versions",
			   "%s needs %s of %s, and weft was built for %s: another release of "
			   "rdma-core; rebuild weft on this machine, with its libibverbs-dev",
			   who, need->node, need->library, private_node(ours));
	else
		doctor_say(d, DOCTOR_STOP, "versions",
			   "%s needs %s of %s, which weft does not have: it was built for another "
			   "release of rdma-core; rebuild it against this machine's",
			   who, need->node, need->library);
}

/* Every node and symbol that a file needs of the drop-in libraries. */
static void check_needs(struct doctor *d, struct patient *p, const struct elf_file *f,
			const char *who)
{
	for (size_t i = 0; i < f->need_count; i++) {
		const struct elf_need *need = &f->needs[i];
		int number = need->library ? dropin_number(need->library) : -1;

		if (number < 0 || need->is_weak)
			continue;
		if (elf_file_has(&p->ours[number], need->node, need->symbol)) {
			p->checked += need->symbol != NULL;
			continue;
		}
		p->unmet++;
		/* A node that is missing is said once, not for each of its symbols. */
		if (!need->symbol || elf_file_has(&p->ours[number], need->node, NULL))
			say_missing(d, &p->ours[number], who, need);
	}
}

/* Calls that exist so that programs load, and then refuse. */
static void check_calls(struct doctor *d, const struct elf_file *f, const char *who)
{
	for (size_t i = 0; i < f->need_count; i++) {
		const char *symbol = f->needs[i].symbol;

		if (symbol && strcmp(symbol, "rsocket") == 0)
			doctor_say(d, DOCTOR_WARN, "calls",
				   "%s uses rsockets, which weft does not have: rsocket() fails "
				   "with ENOSYS",
				   who);
	}
}

static void check_versions(struct doctor *d, struct patient *p)
{
	check_needs(d, p, &p->program.elf, base_name(p->program.binary));
	check_calls(d, &p->program.elf, base_name(p->program.binary));
	for (size_t i = 0; i < p->list.count; i++) {
		const struct loader_row *row = &p->list.rows[i];
		struct elf_file f;

		if (elf_file_open(&f, row->path) < 0)
			continue;
		check_needs(d, p, &f, row->name);
		check_calls(d, &f, row->name);
		elf_file_close(&f);
	}
	if (p->unmet == 0 && p->checked > 0)
		doctor_say(d, DOCTOR_OK, "versions",
			   "weft has all %zu symbols that it and its libraries need", p->checked);
}

/* ---- Who gets loaded ------------------------------------------------------------------------ */

/* The file whose RPATH brought a library from that folder; NULL: none did. */
static const char *rpath_owner(const struct patient *p, const char *path, char *owner)
{
	if (p->program.elf.rpath)
		return p->program.binary;
	for (size_t i = 0; i < p->list.count; i++) {
		struct elf_file f;
		bool has_rpath;

		if (strcmp(p->list.rows[i].path, path) == 0 ||
		    elf_file_open(&f, p->list.rows[i].path) < 0)
			continue;
		has_rpath = f.rpath != NULL;
		elf_file_close(&f);
		if (has_rpath)
			return strcpy(owner, p->list.rows[i].path);
	}
	return NULL;
}

static void say_foreign(struct doctor *d, const struct patient *p, const struct loader_row *row)
{
	char owner[PATH_MAX];
	const char *who = rpath_owner(p, row->path, owner);
	const char *preload = getenv("LD_PRELOAD");

	if (preload && strstr(preload, row->name))
		doctor_say(d, DOCTOR_STOP, "loader", "%s comes from %s, by LD_PRELOAD; unset that",
			   row->name, row->path);
	else
		doctor_say(d, DOCTOR_STOP, "loader",
			   "%s comes from %s: %s%s; name weft's to the loader by "
			   "LD_PRELOAD=%s/libibverbs.so.1:%s/librdmacm.so.1",
			   row->name, row->path,
			   who ? "an RPATH goes before LD_LIBRARY_PATH, that of "
			       : "its place is fixed in the program",
			   who ? who : "", d->libraries.directory, d->libraries.directory);
}

static bool is_ours(const struct doctor *d, const char *path)
{
	char real[PATH_MAX];
	size_t length = strlen(d->libraries.directory);

	return realpath(path, real) && strncmp(real, d->libraries.directory, length) == 0 &&
	       real[length] == '/';
}

static void check_loader(struct doctor *d, const struct patient *p)
{
	int given = 0, foreign = 0;

	for (size_t i = 0; i < p->list.count; i++) {
		const struct loader_row *row = &p->list.rows[i];

		if (!row->path[0]) {
			doctor_say(d, DOCTOR_STOP, "loader",
				   "%s is not found; install the package that has it", row->name);
		} else if (dropin_number(row->name) >= 0) {
			bool is_right = is_ours(d, row->path);

			given += is_right;
			foreign += !is_right;
			if (!is_right)
				say_foreign(d, p, row);
		}
	}
	if (foreign == 0 && given > 0)
		doctor_say(d, DOCTOR_OK, "loader", "it gets weft's libraries");
	if (foreign == 0 && given == 0)
		doctor_say(d, DOCTOR_WARN, "loader",
			   "it loads no RDMA library when it starts; if it does so later (dlopen) "
			   "it gets weft's");
}

/* ---- All of it ------------------------------------------------------------------------------ */

static void say_program(struct doctor *d, const struct program *p)
{
	char machine[64];

	if (strcmp(p->path, p->binary) != 0)
		doctor_say(d, DOCTOR_OK, "program",
			   "%s is a script; what follows is about %s, not what that loads later",
			   p->path, p->binary);
	else
		doctor_say(d, DOCTOR_OK, "program", "%s, %s, %s", p->path,
			   elf_machine_text(&p->elf, machine, sizeof(machine)),
			   p->elf.is_library ? "a library" : "dynamically linked");
	if (p->is_set_id)
		doctor_say(d, DOCTOR_WARN, "program",
			   "it is set-user-ID, set-group-ID or has capabilities: nothing to you, "
			   "but for other users the loader ignores LD_LIBRARY_PATH");
}

static int open_ours(const struct doctor *d, struct patient *p)
{
	int result = 0;

	for (int i = 0; i < DROPIN_LIBRARIES && result == 0; i++) {
		char path[PATH_MAX + 32];

		snprintf(path, sizeof(path), "%s/%s", d->libraries.directory, dropin_names[i]);
		result = elf_file_open(&p->ours[i], path);
	}
	return result;
}

static void look_inside(struct doctor *d, struct patient *p)
{
	char *library_path = dropin_library_path(&d->libraries);
	int result = library_path ? 0 : -ENOMEM;

	if (result == 0)
		result = open_ours(d, p);
	if (result == 0)
		result = loader_list_read(&p->list, p->program.binary, library_path);
	free(library_path);
	if (result < 0) {
		doctor_say(d, DOCTOR_STOP, "loader", "it cannot be asked: %s", strerror(-result));
		return;
	}
	check_loader(d, p);
	check_versions(d, p);
}

void doctor_program(struct doctor *d, const char *name)
{
	struct patient p = { 0 };
	enum program_fault fault = program_open(&p.program, name);
	char text[PATH_MAX + 256];

	if (fault == PROGRAM_OK || fault == PROGRAM_LIBRARY) {
		say_program(d, &p.program);
		look_inside(d, &p);
	} else {
		doctor_say(d, DOCTOR_STOP, "program", "%s %s", p.program.path,
			   program_fault_text(&p.program, fault, text, sizeof(text)));
	}
	loader_list_free(&p.list);
	for (int i = 0; i < DROPIN_LIBRARIES; i++)
		elf_file_close(&p.ours[i]);
	program_close(&p.program);
}
