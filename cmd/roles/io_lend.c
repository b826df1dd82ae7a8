/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/roles/io_lend.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/roles/rio_role.h"

static const uint64_t turn_ns = 100 * 1000 * 1000;

bool io_lend_parse(const char *text, struct io_memory *memory)
{
	struct io_memory m;
	int end = 0;

	if (sscanf(text, "%" SCNu32 ".%" SCNu32 ":%" SCNx32 ":%" SCNx64 "%n", &m.platform.unit,
		   &m.platform.process, &m.handle, &m.address, &end) != 4 ||
	    text[end] != '\0' || m.platform.unit == 0)
		return false;
	*memory = m;
	return true;
}

static int fail(const struct io_loan *loan)
{
	fprintf(stderr, "weft io: %s: %s\n", loan->path, strerror(errno));
	return 1;
}

static void stop(void *flag)
{
	atomic_store((atomic_bool *)flag, true);
}

/* I/O units connect, and reach the memory, while this waits. */
static enum weft_reason lend_until_signal(struct weft_rio_requester *q, const struct io_loan *loan,
					  const struct weft_rio_sge *part)
{
	static atomic_bool is_over;
	uint32_t handle, count;
	enum weft_reason r = weft_rio_memory_expose(q, part, loan->is_sink, &handle);

	if (r != WEFT_OK)
		return r;
	rio_role_until_signal(stop, &is_over);
	printf("%" PRIu32 ".%" PRIu32 ":%" PRIx32 ":%" PRIxPTR "\n", loan->self.unit,
	       loan->self.process, handle, (uintptr_t)part->memory);
	fflush(stdout);
	while (r == WEFT_OK && !atomic_load(&is_over))
		r = weft_rio_request_wait(q, turn_ns, NULL, 0, &count);
	return r == WEFT_OK ? weft_rio_memory_conceal(q, handle) : r;
}

static int lend(struct weft_rio_requester *q, const struct io_loan *loan, int file, uint8_t *memory)
{
	struct weft_rio_sge part = { .memory = memory, .length = (uint32_t)loan->length };
	enum weft_reason r;

	if (!loan->is_sink && io_file_get(file, memory, loan->length) != (ssize_t)loan->length)
		return fail(loan);
	r = weft_rio_memory_add(q, memory, loan->length, &part.tag);
	if (r == WEFT_OK)
		r = lend_until_signal(q, loan, &part);
	if (r != WEFT_OK)
		return rio_role_fail("io", "memory", r);
	return loan->is_sink && !io_file_put(file, memory, loan->length) ? fail(loan) : 0;
}

/* Of the file, if nothing else was said. */
static bool length_find(struct io_loan *loan, int file)
{
	struct stat is;

	if (loan->length == 0 && fstat(file, &is) == 0)
		loan->length = (uint64_t)is.st_size;
	return loan->length > 0 && loan->length <= UINT32_MAX;
}

int io_lend(struct weft_rio_requester *q, const struct io_loan *loan)
{
	struct io_loan l = *loan;
	int file = l.is_sink ? open(l.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)
			     : open(l.path, O_RDONLY | O_CLOEXEC);
	uint8_t *memory;
	int status;

	if (file < 0)
		return fail(&l);
	if (!length_find(&l, file)) {
		fprintf(stderr, "weft io: --length: 1 to 4294967295 bytes can be lent\n");
		close(file);
		return 2;
	}
	memory = mmap(NULL, l.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	status = memory == MAP_FAILED ? fail(&l) : lend(q, &l, file, memory);
	return close(file) < 0 && status == 0 ? fail(&l) : status;
}
