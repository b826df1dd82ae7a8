/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host of reference_test.py: writes what its standard input has to a directed device, from one
 * buffer in one request, then looks through all memory of its process for further copies of it.
 *
 *	rio_host_sample FILE DEVICE OFFSET BYTES
 *
 * Says "begin" and waits for a line before it asks; then REASON COPIES, and what its adapter
 * carried for the request: payload in, payload out, data connections.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weft/rio.h>

#include "roles/rio_role_file.h"

enum { NEEDLE = 32, STEP = 4096 };

static const uint64_t patience_ns = UINT64_C(60) * 1000 * 1000 * 1000;

static _Noreturn void fail(const char *why)
{
	fprintf(stderr, "rio_host_sample: %s\n", why);
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

/* How often these bytes are in the range, apart from where they belong. */
static uint32_t found_in(const uint8_t *at, const uint8_t *end, const uint8_t *needle)
{
	uint32_t count = 0;

	while ((at = memmem(at, (size_t)(end - at), needle, NEEDLE)) != NULL) {
		count += at != needle;
		at++;
	}
	return count;
}

/* In all memory of the process that can be read, but that of the kernel's own pages. */
static uint32_t copies(const uint8_t *buffer, size_t length)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	uint32_t count = 0;
	char line[512];

	if (!maps)
		fail("/proc/self/maps");
	while (fgets(line, sizeof(line), maps)) {
		uintptr_t first, end;
		char rights[5];

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &first, &end, rights) != 3 ||
		    rights[0] != 'r' || strstr(line, "[v"))
			continue;
		for (size_t i = 0; i < length; i += STEP)
			count += found_in((const uint8_t *)first, (const uint8_t *)end, buffer + i);
	}
	fclose(maps);
	return count;
}

/* Copies are seen where there are any. */
static void copies_are_seen(uint8_t *buffer, size_t length)
{
	uint8_t *copy = malloc(length);

	if (!copy)
		fail("memory");
	memcpy(copy, buffer, length);
	if (copies(buffer, length) != (length + STEP - 1) / STEP)
		fail("a copy is not seen");
	explicit_bzero(copy, length);
	free(copy);
}

int main(int argc, char **argv)
{
	struct weft_rio_traffic before, after;
	struct weft_rio_transaction t = { .operation = WEFT_RIO_WRITE, .sge_count = 1 };
	const struct weft_rio_request request = { .transactions = &t, .transaction_count = 1 };
	struct weft_rio_sge sge = { 0 };
	struct weft_rio_requester *q;
	struct weft_rio_device device;
	struct rio_role_file f;
	char why[RIO_HOST_WHY], go;
	enum weft_reason r;

	if (argc != 5)
		return 2;
	if (!rio_role_file_open(&f, RIO_REQUESTER, argv[1], patience_ns, why))
		fail(why);
	t.offset = strtoull(argv[3], NULL, 10);
	t.length = strtoull(argv[4], NULL, 10);
	sge.length = (uint32_t)t.length;
	sge.memory = mmap(NULL, t.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);
	if (sge.memory == MAP_FAILED)
		fail("memory");
	t.sges = &sge;
	must(weft_rio_requester_open(&f.self, NULL, &q));
	must(weft_rio_memory_add(q, sge.memory, t.length, &sge.tag));
	must(weft_rio_device_find(q, argv[2], patience_ns, &device));
	t.device = device.number;
	fill(sge.memory, t.length);
	copies_are_seen(sge.memory, t.length);
	weft_rio_requester_traffic(q, &before);
	puts("begin");
	fflush(stdout);
	if (read(STDIN_FILENO, &go, 1) != 1)
		fail("no word to begin");
	r = weft_rio_request_do(q, &request, NULL);
	weft_rio_requester_traffic(q, &after);
	printf("%s %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", weft_reason_name(r),
	       copies(sge.memory, t.length), after.payload_in - before.payload_in,
	       after.payload_out - before.payload_out, after.connections);
	weft_rio_requester_close(q);
	rio_role_file_close(&f);
	return 0;
}
