/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/run/elf_file.h"

enum {
	VERSION_INDEX = 0x7fff, /* the other bit of a symbol's version says it is not the default */
	VERSIONS_MAX = 4096,	/* chains longer than this are rings */
};

/* What a symbol's version number stands for. */
struct version {
	const char *library; /* NULL: the file's own node */
	const char *node;
};

struct elf_inside {
	int fd;
	Elf *elf;
	struct version *versions; /* by number */
	size_t version_count;
	bool is_out_of_memory;
};

/* ---- Lists ---------------------------------------------------------------------------------- */

/* Room for one more at the end of a list that doubles at powers of two; NULL: no memory. */
static void *grow(struct elf_inside *in, void *list, size_t count, size_t size)
{
	void *longer = list;

	if ((count & (count - 1)) == 0)
		longer = realloc(list, (count ? count * 2 : 1) * size);
	if (!longer)
		in->is_out_of_memory = true;
	return longer;
}

static void need_add(struct elf_file *f, struct elf_need need)
{
	struct elf_need *longer;

	if (!need.node) /* the symbol has no version */
		return;
	longer = grow(f->inside, f->needs, f->need_count, sizeof(need));
	if (!longer)
		return;
	f->needs = longer;
	f->needs[f->need_count++] = need;
}

static void offer_add(struct elf_file *f, struct elf_offer offer)
{
	struct elf_offer *longer;

	if (!offer.node) /* the symbol has no version */
		return;
	longer = grow(f->inside, f->offers, f->offer_count, sizeof(offer));
	if (!longer)
		return;
	f->offers = longer;
	f->offers[f->offer_count++] = offer;
}

static void version_set(struct elf_inside *in, size_t number, struct version version)
{
	if (number >= in->version_count) {
		struct version *longer = realloc(in->versions, (number + 1) * sizeof(*longer));

		if (!longer) {
			in->is_out_of_memory = true;
			return;
		}
		memset(longer + in->version_count, 0,
		       (number + 1 - in->version_count) * sizeof(*longer));
		in->versions = longer;
		in->version_count = number + 1;
	}
	in->versions[number] = version;
}

/* ---- Sections ------------------------------------------------------------------------------- */

/* The first section of a type, and its bytes. */
static Elf_Data *section(const struct elf_file *f, GElf_Word type, GElf_Shdr *header)
{
	Elf_Scn *at = NULL;

	while ((at = elf_nextscn(f->inside->elf, at))) {
		if (gelf_getshdr(at, header) && header->sh_type == type)
			return elf_getdata(at, NULL);
	}
	return NULL;
}

static const char *text(const struct elf_file *f, const GElf_Shdr *of, size_t offset)
{
	return elf_strptr(f->inside->elf, of->sh_link, offset);
}

static void read_needed_versions(struct elf_file *f)
{
	GElf_Shdr header;
	Elf_Data *data = section(f, SHT_GNU_verneed, &header);
	GElf_Verneed need;
	int at = 0;

	for (int i = 0; data && i < VERSIONS_MAX && gelf_getverneed(data, at, &need); i++) {
		const char *library = text(f, &header, need.vn_file);
		int aux_at = at + (int)need.vn_aux;
		GElf_Vernaux aux;

		for (int j = 0; j < need.vn_cnt && gelf_getvernaux(data, aux_at, &aux); j++) {
			const char *node = text(f, &header, aux.vna_name);

			version_set(f->inside, aux.vna_other & VERSION_INDEX,
				    (struct version){ library, node });
			need_add(f, (struct elf_need){ .library = library,
						       .node = node,
						       .is_weak = aux.vna_flags & VER_FLG_WEAK });
			if (aux.vna_next == 0)
				break;
			aux_at += (int)aux.vna_next;
		}
		if (need.vn_next == 0)
			break;
		at += (int)need.vn_next;
	}
}

static void read_own_versions(struct elf_file *f)
{
	GElf_Shdr header;
	Elf_Data *data = section(f, SHT_GNU_verdef, &header);
	GElf_Verdef own;
	int at = 0;

	for (int i = 0; data && i < VERSIONS_MAX && gelf_getverdef(data, at, &own); i++) {
		GElf_Verdaux aux;

		if (gelf_getverdaux(data, at + (int)own.vd_aux, &aux)) {
			const char *node = text(f, &header, aux.vda_name);

			version_set(f->inside, own.vd_ndx & VERSION_INDEX,
				    (struct version){ NULL, node });
			offer_add(f, (struct elf_offer){ .node = node });
		}
		if (own.vd_next == 0)
			break;
		at += (int)own.vd_next;
	}
}

static void read_symbol(struct elf_file *f, const GElf_Shdr *symbols, const GElf_Sym *symbol,
			size_t number)
{
	const char *name = text(f, symbols, symbol->st_name);
	struct version version;

	if (number >= f->inside->version_count || !name)
		return;
	version = f->inside->versions[number];
	if (symbol->st_shndx == SHN_UNDEF && version.library)
		need_add(f,
			 (struct elf_need){ .library = version.library,
					    .node = version.node,
					    .symbol = name,
					    .is_weak = GELF_ST_BIND(symbol->st_info) == STB_WEAK });
	else if (symbol->st_shndx != SHN_UNDEF && !version.library)
		offer_add(f, (struct elf_offer){ .node = version.node, .symbol = name });
}

static void read_symbols(struct elf_file *f)
{
	GElf_Shdr symbols_header, numbers_header;
	Elf_Data *symbols = section(f, SHT_DYNSYM, &symbols_header);
	Elf_Data *numbers = section(f, SHT_GNU_versym, &numbers_header);
	GElf_Versym number;
	GElf_Sym symbol;

	if (!symbols || !numbers)
		return;
	for (int i = 1; gelf_getsym(symbols, i, &symbol) && gelf_getversym(numbers, i, &number);
	     i++)
		read_symbol(f, &symbols_header, &symbol, number & VERSION_INDEX);
}

static void read_dynamic(struct elf_file *f)
{
	GElf_Shdr header;
	Elf_Data *data = section(f, SHT_DYNAMIC, &header);
	bool is_program = !data || f->interpreter;
	GElf_Dyn dyn;

	for (int i = 0; data && gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++) {
		if (dyn.d_tag == DT_RPATH)
			f->rpath = text(f, &header, dyn.d_un.d_val);
		is_program |= dyn.d_tag == DT_FLAGS_1 && (dyn.d_un.d_val & DF_1_PIE);
	}
	/* A static program may be position independent, as a library is, but says so. */
	f->is_library = !is_program;
}

/* ---- The file ------------------------------------------------------------------------------- */

static const char *interpreter(Elf *elf)
{
	size_t count, size;
	GElf_Phdr header;
	const char *raw = elf_rawfile(elf, &size);

	if (elf_getphdrnum(elf, &count) < 0 || !raw)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_INTERP)
			continue;
		if (header.p_offset < size && header.p_filesz <= size - header.p_offset &&
		    memchr(raw + header.p_offset, '\0', header.p_filesz))
			return raw + header.p_offset;
	}
	return NULL;
}

static int read_all(struct elf_file *f)
{
	GElf_Ehdr header;

	if (elf_kind(f->inside->elf) != ELF_K_ELF || !gelf_getehdr(f->inside->elf, &header))
		return -ENOEXEC;
	if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
		return -ENOEXEC;
	f->machine = header.e_machine;
	f->bits = header.e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
	f->is_big_endian = header.e_ident[EI_DATA] == ELFDATA2MSB;
	f->interpreter = interpreter(f->inside->elf);
	read_dynamic(f);
	read_needed_versions(f);
	read_own_versions(f);
	read_symbols(f);
	return f->inside->is_out_of_memory ? -ENOMEM : 0;
}

int elf_file_open(struct elf_file *f, const char *path)
{
	int result;

	*f = (struct elf_file){ .inside = calloc(1, sizeof(*f->inside)) };
	if (!f->inside)
		return -ENOMEM;
	f->inside->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (f->inside->fd < 0) {
		result = -errno;
	} else {
		(void)elf_version(EV_CURRENT);
		f->inside->elf = elf_begin(f->inside->fd, ELF_C_READ_MMAP, NULL);
		result = f->inside->elf ? read_all(f) : -ENOEXEC;
	}
	if (result < 0)
		elf_file_close(f);
	return result;
}

void elf_file_close(struct elf_file *f)
{
	if (!f->inside)
		return;
	free(f->needs);
	free(f->offers);
	free(f->inside->versions);
	elf_end(f->inside->elf);
	if (f->inside->fd >= 0)
		close(f->inside->fd);
	free(f->inside);
	*f = (struct elf_file){ 0 };
}

bool elf_file_has(const struct elf_file *f, const char *node, const char *symbol)
{
	for (size_t i = 0; i < f->offer_count; i++) {
		const struct elf_offer *o = &f->offers[i];

		if (strcmp(o->node, node) == 0 &&
		    (!symbol || (o->symbol && strcmp(o->symbol, symbol) == 0)))
			return true;
	}
	return false;
}

const char *elf_machine_text(const struct elf_file *f, char *to, size_t size)
{
	static const struct {
		int machine;
		const char *name;
	} names[] = {
		{ EM_AARCH64, "arm64" }, { EM_X86_64, "x86-64" }, { EM_386, "i386" },
		{ EM_ARM, "arm" },	 { EM_PPC64, "ppc64" },	  { EM_S390, "s390" },
		{ EM_RISCV, "riscv" },
	};
	const char *name = NULL;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (names[i].machine == f->machine)
			name = names[i].name;
	}
	if (name)
		snprintf(to, size, "%s, %d bits, %s endian", name, f->bits,
			 f->is_big_endian ? "big" : "little");
	else
		snprintf(to, size, "machine %d, %d bits, %s endian", f->machine, f->bits,
			 f->is_big_endian ? "big" : "little");
	return to;
}
