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

#include "copies.h"
#include "roles/rio_role_file.h"

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
	if (!copies_are_seen(sge.memory, t.length))
		fail("a copy is not seen");
	weft_rio_requester_traffic(q, &before);
	puts("begin");
	fflush(stdout);
	if (read(STDIN_FILENO, &go, 1) != 1)
		fail("no word to begin");
	r = weft_rio_request_do(q, &request, NULL);
	weft_rio_requester_traffic(q, &after);
	printf("%s %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", weft_reason_name(r),
	       copies(sge.memory, t.length, NULL), after.payload_in - before.payload_in,
	       after.payload_out - before.payload_out, after.connections);
	weft_rio_requester_close(q);
	rio_role_file_close(&f);
	return 0;
}
