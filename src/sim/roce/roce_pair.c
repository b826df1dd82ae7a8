/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/roce/roce_pair.h"

#include "base/draw.h"
#include "base/prng.h"

int roce_pair_open(struct roce_pair *pair, const struct roce_world *w,
		   const struct sim_faults faults[2])
{
	struct adapter *const adapters[2] = { &pair->nodes[0].adapter, &pair->nodes[1].adapter };
	const struct ib_net_options o = { .seed = w->seed,
					  .faults = { faults[0], faults[1] },
					  .trace_max = ROCE_TRACE_EVENTS,
					  .is_dropping_early = prng_mix(w->seed) % 4 == 0 };

	for (uint32_t n = 0; n < 2; n++) {
		if (roce_node_init(&pair->nodes[n], w, n) < 0)
			return -1;
	}
	pair->net = ib_net_open(&o, adapters);
	return pair->net ? 0 : -1;
}

void roce_pair_close(struct roce_pair *pair, const struct roce_world *w)
{
	if (roce_has_failed(w))
		world_fini(ib_net_world(pair->net));
	else
		ib_net_close(pair->net);
	for (int n = 0; n < 2; n++)
		roce_node_fini(&pair->nodes[n], w);
}

void roce_draw_wire(struct prng *p, struct ib_wire_options *o)
{
	*o = (struct ib_wire_options){ .timeout_code = 16, .retries = 7 };
	o->is_ipv6 = prng_below(p, 2);
	o->mtu_bytes = iba_mtu_bytes((uint8_t)(1 + prng_below(p, 5)));
	o->rnr_retries = (uint8_t)ANY_OF(p, 0, IB_RNR_RETRY_FOREVER, IB_RNR_RETRY_FOREVER);
	o->rnr_timer_code = (uint8_t)(1 + prng_below(p, 12));
	for (int i = 0; i < 2; i++) {
		o->psn[i] = roce_draw_psn(p);
		o->reads[i] = (uint8_t)ANY_OF(p, 1, 2, 5, 16);
		o->window[i] = (uint32_t)ANY_OF(p, 0, 1, 3, 32);
		o->ack_every[i] = (uint32_t)ANY_OF(p, 0, 1, 5, 1000);
	}
}
