/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host of storage_test.py: writes what its standard input has to a disk, from one buffer in one
 * command, then looks through all memory of its process for further copies of it.
 *
 *	storage_sample URL OFFSET BYTES
 *
 * Says "begin" and waits for a line before it asks; then REASON COPIES, and waits for another line
 * before it leaves.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weft/iscsi.h>

#include "copies.h"

/* Rings of frames to the fabric and from it are files in memory of this name. */
#define WIRE "/memfd:weft.near"

static _Noreturn void fail(const char *why)
{
	fprintf(stderr, "storage_sample: %s\n", why);
	exit(1);
}

static void must(enum weft_reason r)
{
	if (r != WEFT_OK)
		fail(weft_reason_name(r));
}

static void fill(uint8_t *buffer, size_t length)
{
	size_t done = 0;

	while (done < length) {
		ssize_t n = read(STDIN_FILENO, buffer + done, length - done);

		if (n <= 0)
			fail("the input is too short");
		done += (size_t)n;
	}
}

static void await_line(void)
{
	char go;

	fflush(stdout);
	if (read(STDIN_FILENO, &go, 1) != 1)
		fail("no word to go on");
}

int main(int argc, char **argv)
{
	char why[WEFT_ISCSI_WHY_MAX] = "";
	/* Nothing else is on the wire meanwhile: no question whether the target is alive. */
	const struct weft_iscsi_options options = { .why = why,
						    .alive_ns = UINT64_C(600) * 1000000000 };
	struct weft_iscsi_request request = { .operation = WEFT_ISCSI_WRITE, .sge_count = 1 };
	struct weft_sge sge = { 0 };
	struct weft_iscsi_session *s;
	uint8_t *buffer;
	enum weft_reason r;

	if (argc != 4)
		return 2;
	request.offset = strtoull(argv[2], NULL, 10);
	request.length = (uint32_t)strtoul(argv[3], NULL, 10);
	buffer = mmap(NULL, request.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (buffer == MAP_FAILED)
		fail("memory");
	if (weft_iscsi_session_open(argv[1], &options, &s) != WEFT_OK)
		fail(why);
	sge = (struct weft_sge){ .addr = (uintptr_t)buffer, .length = request.length };
	must(weft_iscsi_memory_add(s, buffer, request.length, &sge.tag));
	request.sges = &sge;
	fill(buffer, request.length);
	if (!copies_are_seen(buffer, request.length))
		fail("a copy is not seen");
	puts("begin");
	await_line();
	r = weft_iscsi_request_do(s, &request, NULL);
	printf("%s %" PRIu32 "\n", weft_reason_name(r), copies(buffer, request.length, WIRE));
	await_line();
	weft_iscsi_session_close(s);
	return 0;
}
