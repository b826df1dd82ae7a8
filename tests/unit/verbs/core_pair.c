/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/verbs/core_pair.h"

#include "loopback/loopback.h"
#include "test.h"

void core_pair_open(struct core_pair *p, const struct core_pair_options *o)
{
	const struct adapter_config config = {
		.options = { .tags_max = 16, .translations_max = 128, .qps_max = 4 },
		.secret = { 1, 2 },
		.trace = o->trace,
		.faults = o->faults,
	};
	const struct weft_cq_options cq = { .entries_max = 1024, .context = &p->cq_context };

	MUST(adapter_init(&p->adapter, &config));
	MUST(pd_create(&p->adapter, &(struct weft_pd_options){ 0 }, &p->pd));
	for (int i = 0; i < 2; i++) {
		struct weft_qp_options qp = { .send_max = 256, .recv_max = 256 };

		if (i == 1 && o->has_one_cq)
			p->cqs[1] = p->cqs[0];
		else
			MUST(cq_create(&p->adapter, &cq, &p->cqs[i]));
		qp.send_cq = qp.recv_cq = p->cqs[i];
		qp.context = &p->contexts[i];
		MUST(qp_create(p->pd, &qp, &loopback_transport, &p->qps[i]));
	}
	MUST(qp_connect(p->qps[0], p->qps[1]));
}

void core_pair_close(struct core_pair *p)
{
	for (int i = 0; i < 2; i++)
		qp_destroy(p->qps[i]);
	if (p->cqs[1] != p->cqs[0])
		MUST(cq_destroy(p->cqs[1]));
	MUST(cq_destroy(p->cqs[0]));
	MUST(pd_destroy(p->pd));
	EXPECT_EQ(adapter_due(&p->adapter), UINT64_MAX);
	MUST(adapter_fini(&p->adapter));
}

void core_pair_run(struct core_pair *p, uint64_t now_ns)
{
	while (adapter_progress(&p->adapter, now_ns))
		continue;
}
