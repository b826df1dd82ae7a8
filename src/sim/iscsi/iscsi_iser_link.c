/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>

#include "base/check.h"
#include "sim/iscsi/iscsi_iser.h"

static const uint64_t setup_ns = UINT64_C(2) * 1000 * 1000 * 1000;

static struct mpa_config config_draw(struct iscsi_world *w)
{
	return (struct mpa_config){
		.wants_crc = w->limits.corrupt_ppm > 0 || isw_draw(w, 2),
		.wants_markers = isw_draw(w, 4) == 0,
		.revision = 2,
		.is_peer_to_peer = true,
		.ird = (uint16_t)(1 + isw_draw(w, ISW_ISER_READS)),
		.ord = (uint16_t)(1 + isw_draw(w, ISW_ISER_READS)),
		.timeout_ns = setup_ns,
	};
}

struct isw_link *isw_iser_link_dial(struct isw_link *l)
{
	struct iscsi_world *w = l->world;
	struct isw_host *h = &w->hosts[l->host];
	struct tcp_dial d = { .initiator = ISCSI_INITIATOR };

	w->corruptions += l->tcp.corruptions; /* of the former connection */
	l->tcp.corruptions = 0;
	for (uint32_t side = 0; side < 2; side++) {
		d.configs[side] = config_draw(w);
		d.bytes_max[side] = w->limits.pipe_bytes;
		if (w->phase == ISW_RUN)
			d.faults[side] = w->limits.faults;
	}
	if (w->phase == ISW_RUN)
		d.corrupt_ppm = w->limits.corrupt_ppm;
	l->tcp.ends[ISCSI_INITIATOR].qp = h->qp;
	l->tcp.ends[ISCSI_INITIATOR].attention = &h->attention;
	l->tcp.ends[ISCSI_TARGET].qp = NULL;
	l->tcp.ends[ISCSI_TARGET].attention = &w->iser_target->attention;
	CHECK(tcp_link_dial(&l->tcp, &d) == 0);
	isw_trace(w, ISW_TRACE_CONNECTED, l->host, l->id, l->portal);
	return l;
}

void isw_iser_link_cut(struct isw_link *l)
{
	if (!l->tcp.has_pipes)
		return;
	sim_stream_cut(&l->tcp.ends[0].out);
	sim_stream_cut(&l->tcp.ends[1].out);
}

/* The process at one end is gone: what comes for it is answered by a reset, at last. */
void isw_iser_link_calm(struct isw_link *l)
{
	if (l->is_silent)
		tcp_link_reset(&l->tcp);
	tcp_link_calm(&l->tcp);
}

void isw_iser_link_leave(struct isw_link *l, enum iscsi_side side, uint32_t as)
{
	struct tcp_end *e = &l->tcp.ends[side];

	e->qp = side == ISCSI_INITIATOR ? NULL : e->qp;
	if (side == ISCSI_TARGET && l->far)
		isw_iser_end_stop(l);
	if (e->phase == TCP_IDLE || e->phase == TCP_ENDED)
		return;
	if (as == 2) {
		l->is_silent = true;
		isw_iser_link_cut(l);
	}
	tcp_end_kill(e, as == 1);
}
