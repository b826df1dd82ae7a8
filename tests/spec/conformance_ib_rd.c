/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pairs of RD for conformance_ib_sim.c: two nodes with end-to-end contexts for each other and for
 * themselves, which all queue pairs share.
 */
#include "conformance_ib_rd.h"

#include "ib_host.h"

enum { RD_Q_KEY = 0x1234, RD_DOMAIN = 7 };

static struct ib_mesh *mesh_of(const struct pair *p)
{
	return ib_mesh_of(ib_host_node(p->ends[0].adapter));
}

void rd_pair_open(struct pair *p, const struct rd_pair_options *options)
{
	struct weft_adapter *const adapters[2] = { p->ends[0].adapter, p->ends[1].adapter };
	struct ib_mesh_options o = { .seed = options->seed, .nodes = 2, .faults = options->faults };
	struct ib_mesh *mesh = ib_host_mesh(&o, adapters);
	const struct ib_ee_config k = {
		.path = { .is_ipv6 = options->is_ipv6, .mtu_bytes = options->mtu_bytes },
		.rdd = RD_DOMAIN,
		.psn_send = 0xfffff0,
		.timeout_code = 16,
		.retries = 7,
		.rnr_retries = IB_RNR_RETRY_FOREVER,
	};

	REQUIRE(mesh);
	MUST(ib_mesh_join(mesh, 0, 1, &k));
	MUST(ib_mesh_join(mesh, 0, 0, &k));
	MUST(ib_mesh_join(mesh, 1, 1, &k));
}

void rd_pair_close(struct pair *p)
{
	ib_mesh_close(mesh_of(p));
}

void rd_pair_connect(struct pair *p)
{
	const struct ib_config k = {
		.rnr_timer_code = 18, /* 5 ms: between two tries nothing is under way */
		.reads_out = 16,
		.q_key = RD_Q_KEY,
		.rdd = RD_DOMAIN,
	};

	for (int i = 0; i < 2; i++)
		MUST(ib_mesh_attach(mesh_of(p), p->ends[i].qp, &k));
}

void rd_pair_progress(struct pair *p)
{
	int who = ib_mesh_step(mesh_of(p));
	uint32_t count;

	for (int i = 0; i < 2; i++) {
		if (who < 0 || who == i)
			MUST(weft_cq_poll(p->ends[i].send_cq, NULL, 0, &count));
	}
}

void rd_pair_settle(struct pair *p)
{
	uint64_t since = rd_pair_now_ns(p);

	while (ib_mesh_is_flowing(mesh_of(p)))
		REQUIRE(pair_wait(p, since));
}

uint64_t rd_pair_now_ns(const struct pair *p)
{
	return ib_mesh_world(mesh_of(p))->now_ns;
}

void rd_pair_aim(const struct pair_end *e, struct weft_send_wr *wr, const struct pair_end *at)
{
	struct ib_mesh *mesh = ib_mesh_of(ib_host_node(e->adapter));

	wr->ee = ib_ee_handle(ib_mesh_ee(mesh, ib_host_node(e->adapter)->index,
					 ib_host_node(at->adapter)->index));
	wr->remote_q_key = RD_Q_KEY;
}
