/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the first bytes of a disk of an iSCSI target, with several requests under way. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/iscsi.h>

enum { REQUESTS = 8, BYTES = 64 * 1024 };

static void must(enum weft_reason r, const char *what, const char *why)
{
	if (r == WEFT_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, why && why[0] ? why : weft_reason_text(r));
	exit(1);
}

int main(int argc, char **argv)
{
	static unsigned char memory[REQUESTS][BYTES];
	char why[WEFT_ISCSI_WHY_MAX] = "", text[WEFT_ISCSI_TEXT_MAX];
	const struct weft_iscsi_options options = { .why = why };
	struct weft_iscsi_session *session;
	struct weft_iscsi_result ended[REQUESTS];
	struct weft_iscsi_info info;
	struct pollfd p = { .events = POLLIN };
	unsigned int sum = 0, left = 0, count;

	if (argc != 2) {
		fprintf(stderr, "usage: iscsi_disk iscsi://HOST[:PORT]/TARGET/LUN\n");
		return 2;
	}
	must(weft_iscsi_session_open(argv[1], &options, &session), argv[1], why);
	must(weft_iscsi_session_query(session, &info), "query", NULL);
	printf("%s %s, %llu bytes in blocks of %u\n", info.vendor, info.product,
	       (unsigned long long)info.size_bytes, info.block_bytes);
	must(weft_iscsi_session_fd(session, &p.fd), "descriptor", NULL);

	for (unsigned int i = 0; i < REQUESTS && (i + 1) * BYTES <= info.size_bytes; i++) {
		const struct weft_sge sge = { .addr = (uintptr_t)memory[i], .length = BYTES };
		const struct weft_iscsi_request read = { .operation = WEFT_ISCSI_READ,
							 .offset = i * BYTES,
							 .length = BYTES,
							 .sges = &sge,
							 .sge_count = 1,
							 .context = memory[i] };

		must(weft_iscsi_request_submit(session, &read), "ask", NULL);
		left++;
	}
	while (left > 0) {
		poll(&p, 1, -1);
		must(weft_iscsi_request_wait(session, 0, ended, REQUESTS, &count), "wait", NULL);
		for (unsigned int i = 0; i < count; i++) {
			const unsigned char *bytes = ended[i].context;

			weft_iscsi_result_text(&ended[i], text);
			must(ended[i].reason, "read", text);
			for (unsigned int k = 0; k < BYTES; k++)
				sum += bytes[k];
		}
		left -= count;
	}
	printf("sum of the bytes: %u\n", sum);
	weft_iscsi_session_close(session);
	return 0;
}
