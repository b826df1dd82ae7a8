/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session_sample URL BLOCKS: writes BLOCKS blocks of 4 KiB, each with bytes of its own, with a
 * flush after every 16, while the target may go and come. Says "flushed N" after each, and at the
 * end, when all blocks were read again, "good, R reconnects, L flushes told of lost writes".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/iscsi.h>

enum { BYTES = 4096, STRIDE = 16 };

static unsigned char memory[STRIDE][BYTES], seen[BYTES];

static void must(enum weft_reason r, const char *what)
{
	if (r == WEFT_OK)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, weft_reason_text(r), weft_reason_name(r));
	exit(1);
}

static void fill(unsigned char *at, unsigned int block)
{
	for (unsigned int i = 0; i < BYTES; i++)
		at[i] = (unsigned char)(block * 31 + i * 7 + i / 256);
}

static void write_stride(struct weft_iscsi_session *s, unsigned int first)
{
	struct weft_iscsi_result ended[STRIDE];
	unsigned int left = STRIDE;

	for (unsigned int i = 0; i < STRIDE; i++) {
		const struct weft_sge sge = { .addr = (uintptr_t)memory[i], .length = BYTES };
		const struct weft_iscsi_request r = { .operation = WEFT_ISCSI_WRITE,
						      .offset = (uint64_t)(first + i) * BYTES,
						      .length = BYTES,
						      .sges = &sge,
						      .sge_count = 1 };

		fill(memory[i], first + i);
		must(weft_iscsi_request_submit(s, &r), "submit");
	}
	while (left > 0) {
		unsigned int count;

		must(weft_iscsi_request_wait(s, UINT64_MAX, ended, STRIDE, &count), "wait");
		for (unsigned int i = 0; i < count; i++)
			must(ended[i].reason, "write");
		left -= count;
	}
}

int main(int argc, char **argv)
{
	const struct weft_iscsi_request flush = { .operation = WEFT_ISCSI_FLUSH };
	unsigned int blocks = argc == 3 ? (unsigned int)strtoul(argv[2], NULL, 10) : 0, losses = 0;
	char why[WEFT_ISCSI_WHY_MAX] = "";
	const struct weft_iscsi_options options = { .why = why };
	struct weft_iscsi_session *s;
	struct weft_iscsi_info info;

	if (blocks % STRIDE != 0 || blocks == 0)
		return 2;
	if (weft_iscsi_session_open(argv[1], &options, &s) != WEFT_OK) {
		fprintf(stderr, "%s\n", why);
		return 1;
	}
	for (unsigned int at = 0; at < blocks; at += STRIDE) {
		enum weft_reason r;

		do {
			write_stride(s, at);
			r = weft_iscsi_request_do(s, &flush, NULL);
			losses += r == WEFT_R_ISCSI_WRITES_LOST;
		} while (r == WEFT_R_ISCSI_WRITES_LOST);
		must(r, "flush");
		printf("flushed %u\n", at + STRIDE);
		fflush(stdout);
	}
	for (unsigned int at = 0; at < blocks; at++) {
		const struct weft_sge sge = { .addr = (uintptr_t)seen, .length = BYTES };
		const struct weft_iscsi_request r = { .operation = WEFT_ISCSI_READ,
						      .offset = (uint64_t)at * BYTES,
						      .length = BYTES,
						      .sges = &sge,
						      .sge_count = 1 };

		must(weft_iscsi_request_do(s, &r, NULL), "read");
		fill(memory[0], at);
		if (memcmp(memory[0], seen, BYTES) != 0) {
			fprintf(stderr, "block %u is another\n", at);
			return 1;
		}
	}
	must(weft_iscsi_session_query(s, &info), "query");
	printf("good, %llu reconnects, %u flushes told of lost writes\n",
	       (unsigned long long)info.reconnects, losses);
	weft_iscsi_session_close(s);
	return 0;
}
