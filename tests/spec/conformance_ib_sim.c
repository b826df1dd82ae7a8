/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The conformance suite over the InfiniBand transport in virtual time: RC and RD on a network that
 * loses, doubles, reorders and corrupts packets as a seed has it, UC on a perfect one.
 *
 * Every case is run once for each seed: 0 is a perfect network, and all others draw what happens
 * and what the two ends agree on, anew for each connection. None of it may ever end a connection.
 *
 *	WEFT_SEEDS=FIRST:COUNT build/tests/conformance_ib_sim [part of a name...]
 *
 * WEFT_ROUTE=lid: the same packets as frames of a fabric, by LIDs and half of them by GIDs too.
 */
#include <stdlib.h>

#include "base/draw.h"
#include "conformance_ib_rd.h"
#include "conformance_sim.h"
#include "ib_host.h"

/* ---- What a network and a connection are like ----------------------------------------------- */

static void draw_faults(struct prng *r, struct sim_faults *f)
{
	const uint64_t us = 1000;

	f->delay_max_ns = ANY_OF(r, 0, 1, 5 * us, 10 * us, 200 * us);
	f->delay_min_ns = prng_below(r, (uint32_t)f->delay_max_ns + 1);
	f->rate_bytes_per_s = ANY_OF(r, 0, 0, 100 * 1000 * 1000, 1250 * 1000 * 1000);
	f->loss_ppm = (uint32_t)ANY_OF(r, 0, 1000, 10000, 50000);
	f->duplicate_ppm = (uint32_t)ANY_OF(r, 0, 1000, 50000);
	f->corrupt_ppm = (uint32_t)ANY_OF(r, 0, 1000, 20000);
	f->reorder_ppm = (uint32_t)ANY_OF(r, 0, 1000, 50000);
	f->reorder_max_ns = ANY_OF(r, 10 * us, 500 * us);
	f->clog_ppm = (uint32_t)ANY_OF(r, 0, 0, 300);
	f->clog_max_ns = ANY_OF(r, 10 * us, 2000 * us);
}

static struct ib_wire_options wire_of(struct prng *r)
{
	struct ib_wire_options o = {
		.is_local = getenv("WEFT_ROUTE") != NULL,
		.mtu_bytes = 1024,
		.psn = { 1000, 0xfffff0 },
		.reads = { 16, 16 },
		.timeout_code = 16,
		.retries = 7,
		.rnr_retries = IB_RNR_RETRY_FOREVER,
		.rnr_timer_code = 6,
	};

	if (sim_seed() == SEED_PERFECT)
		return o;
	o.is_ipv6 = prng_below(r, 2);
	o.mtu_bytes = iba_mtu_bytes((uint8_t)(1 + prng_below(r, 5)));
	o.rnr_timer_code = (uint8_t)(1 + prng_below(r, 10));
	for (int i = 0; i < 2; i++) {
		o.psn[i] = (uint32_t)ANY_OF(r, 0, 0xffffff, 0xffff00, 0x7fffff,
					    prng_below(r, 1 << 24));
		o.reads[i] = (uint8_t)ANY_OF(r, 1, 2, 3, 16, 128);
		o.window[i] = (uint32_t)ANY_OF(r, 0, 1, 2, 16, 1000);
		o.ack_every[i] = (uint32_t)ANY_OF(r, 0, 1, 7, 1000000);
	}
	return o;
}

/* ---- Pairs ---------------------------------------------------------------------------------- */

static struct ib_net *net_of(const struct pair *p)
{
	return ib_net_of(ib_host_node(p->ends[0].adapter));
}

/* Many share the ways of RD. */
static bool is_rd(const struct pair *p)
{
	return p->options.service == WEFT_RD;
}

static void rd_open(struct pair *p, struct prng *r)
{
	const struct ib_wire_options o = wire_of(r);
	struct rd_pair_options k = { .is_ipv6 = o.is_ipv6, .mtu_bytes = o.mtu_bytes };

	for (int i = 0; i < 2; i++)
		sim_adapter_open(p, &p->ends[i].adapter, r);
	if (sim_seed() != SEED_PERFECT)
		draw_faults(r, &k.faults);
	k.seed = prng_next(r);
	rd_pair_open(p, &k);
}

static void sim_open(struct pair *p)
{
	struct prng r = sim_pair_prng();
	struct ib_net_options o = { 0 };
	struct weft_adapter *adapters[2];

	if (is_rd(p)) {
		rd_open(p, &r);
		return;
	}
	for (int i = 0; i < 2; i++) {
		sim_adapter_open(p, &adapters[i], &r);
		p->ends[i].adapter = adapters[i];
		/* What an unreliable service loses is lost: no case waits for it. */
		if (sim_seed() != SEED_PERFECT && p->options.service == WEFT_RC)
			draw_faults(&r, &o.faults[i]);
	}
	o.seed = prng_next(&r);
	REQUIRE(ib_host_net(&o, adapters));
}

static void sim_close(struct pair *p)
{
	if (is_rd(p))
		rd_pair_close(p);
	else
		ib_net_close(net_of(p));
	for (int i = 0; i < 2; i++)
		MUST(weft_adapter_close(p->ends[i].adapter));
}

static void sim_progress(struct pair *p)
{
	if (is_rd(p))
		rd_pair_progress(p);
	else
		sim_move(p, ib_net_step(net_of(p)));
}

static uint64_t sim_now_ns(const struct pair *p)
{
	return is_rd(p) ? rd_pair_now_ns(p) : ib_net_world(net_of(p))->now_ns;
}

/*
 * Queue pairs keep their numbers: what was said on an old connection must not be heard on a new
 * one. That is what connection management waits for (IBA 12.9.8.3.1, TimeWait).
 */
static void sim_connect(struct pair *p)
{
	struct weft_qp *const qps[2] = { p->ends[0].qp, p->ends[1].qp };
	struct ib_wire_options o;
	uint64_t since = sim_now_ns(p);

	if (is_rd(p)) {
		rd_pair_connect(p);
		return;
	}
	o = wire_of(&ib_net_world(net_of(p))->prng);
	while (!sim_datagram_is_empty(ib_net_pipe(net_of(p), 0)) ||
	       !sim_datagram_is_empty(ib_net_pipe(net_of(p), 1)))
		REQUIRE(pair_wait(p, since));
	MUST(ib_net_connect(net_of(p), qps, &o));
}

static void sim_settle(struct pair *p)
{
	if (is_rd(p))
		rd_pair_settle(p);
	else
		sim_settle_by(p, ib_net_is_flowing);
}

static void sim_aim(const struct pair_end *e, struct weft_send_wr *wr, const struct pair_end *at)
{
	if (is_rd(e->pair))
		rd_pair_aim(e, wr, at);
}

const struct pair_maker pair_maker = {
	.name = "ib_sim",
	.abilities = PAIR_REFUSAL_COMPLETES | PAIR_READ_SCATTERS | PAIR_ATOMICS |
		     PAIR_KNOWS_SENDER | PAIR_ACKNOWLEDGES | PAIR_SEND_IMM | PAIR_CHECKS_WHOLE |
		     PAIR_PIPELINES,
	.services = 1U << WEFT_RC | 1U << WEFT_UC | 1U << WEFT_RD,
	.open = sim_open,
	.close = sim_close,
	.connect = sim_connect,
	.progress = sim_progress,
	.settle = sim_settle,
	.now_ns = sim_now_ns,
	.aim = sim_aim,
};

static uint64_t hash_of(const struct pair *p)
{
	return ib_net_world(net_of(p))->trace.hash;
}

const struct sim_kind sim_kind = { .request_bytes = 30000, .hash = hash_of };
