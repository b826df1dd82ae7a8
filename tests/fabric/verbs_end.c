/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/verbs_end.h"

#include "test.h"

struct end ends[2];

void end_open(struct end *e, int node, enum weft_qp_service service)
{
	const struct weft_adapter_options ao = { 0 };
	const struct weft_cq_options co = { .entries_max = 2 * SENDS_MAX };
	struct weft_qp_options qo = { .service = service,
				      .send_max = SENDS_MAX,
				      .is_every_send_signalled = true };
	const struct weft_region_options ro = { .addr = (uintptr_t)e->memory,
						.length = BYTES,
						.rights = WEFT_LOCAL_WRITE | WEFT_LOCAL_READ |
							  WEFT_REMOTE_WRITE | WEFT_REMOTE_READ };

	fabric_bed_open();
	fabric_bed_enter(node);
	MUST(weft_adapter_open(&ao, &e->adapter));
	MUST(weft_roce_open(e->adapter));
	MUST(weft_pd_create(e->adapter, NULL, &e->pd));
	MUST(weft_cq_create(e->adapter, &co, &e->cq));
	qo.send_cq = qo.recv_cq = e->cq;
	MUST(weft_qp_create(e->pd, &qo, &e->qp));
	MUST(weft_region_register(e->pd, &ro, &e->tag));
}

void end_close(struct end *e)
{
	MUST(weft_qp_destroy(e->qp));
	MUST(weft_region_deregister(e->pd, e->tag));
	MUST(weft_cq_destroy(e->cq));
	MUST(weft_pd_destroy(e->pd));
	MUST(weft_adapter_close(e->adapter));
}

struct weft_completion end_await(struct end *e)
{
	struct weft_completion c;
	uint32_t count = 0;

	while (count == 0)
		MUST(weft_cq_poll(e->cq, &c, 1, &count));
	return c;
}

void datagrams_open(void)
{
	const struct weft_roce_attr how = { .path.mtu_bytes = 1024, .q_key = Q_KEY };

	for (int i = 0; i < 2; i++) {
		end_open(&ends[i], i, WEFT_UD);
		MUST(weft_qp_to_rtr(ends[i].qp, &how));
		MUST(weft_qp_to_rts(ends[i].qp, &how));
	}
}

void datagrams_close(void)
{
	for (int i = 0; i < 2; i++)
		end_close(&ends[i]);
	fabric_bed_close();
}

void recv_post(struct end *e)
{
	const struct weft_sge sge = { (uintptr_t)e->memory, BYTES, e->tag };
	const struct weft_recv_wr wr = { .id = 1, .sges = &sge, .sge_count = 1 };
	uint32_t posted;

	MUST(weft_qp_post_recv(e->qp, &wr, 1, &posted));
}
