/* SPDX-License-Identifier: BSD-2-Clause */
/* One side writes into the memory of the other, which has let it. docs/api.md explains it. */
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

static void must(enum weft_reason r, const char *what)
{
	if (r == WEFT_OK)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, weft_reason_text(r), weft_reason_name(r));
	exit(1);
}

int main(void)
{
	static char theirs[32];
	const char text[] = "written by RDMA";
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *near, *far;
	struct weft_completion done;
	uint32_t tag, count = 0;

	must(weft_adapter_open(NULL, &adapter), "open an adapter");
	must(weft_pd_create(adapter, NULL, &pd), "create a protection domain");
	must(weft_cq_create(adapter, NULL, &cq), "create a completion queue");

	const struct weft_qp_options options = { .send_cq = cq, .recv_cq = cq, .service = WEFT_RC };
	must(weft_qp_create(pd, &options, &near), "create a queue pair");
	must(weft_qp_create(pd, &options, &far), "create its peer");
	must(weft_qp_connect(near, far), "connect them");

	const struct weft_region_options region = { .addr = (uintptr_t)theirs,
						    .length = sizeof(theirs),
						    .rights = WEFT_REMOTE_WRITE };
	must(weft_region_register(pd, &region, &tag), "register memory");

	const struct weft_sge from = { .addr = (uintptr_t)text, .length = sizeof(text) };
	struct weft_send_wr write = { .id = 1,
				      .opcode = WEFT_OP_WRITE,
				      .flags = WEFT_SIGNALLED | WEFT_INLINE,
				      .sges = &from,
				      .sge_count = 1,
				      .remote_tag = tag,
				      .remote_addr = (uintptr_t)theirs };
	must(weft_qp_post_send(near, &write, 1, NULL), "post a Write");
	while (count == 0)
		must(weft_cq_poll(cq, &done, 1, &count), "poll");
	must(done.reason, weft_status_name(done.status));
	printf("weft %s: %s\n", weft_version(), theirs);

	must(weft_qp_destroy(near), "destroy a queue pair");
	must(weft_qp_destroy(far), "destroy its peer");
	must(weft_region_deregister(pd, tag), "deregister memory");
	must(weft_cq_destroy(cq), "destroy the completion queue");
	must(weft_pd_destroy(pd), "destroy the protection domain");
	must(weft_adapter_close(adapter), "close the adapter");
	return 0;
}
