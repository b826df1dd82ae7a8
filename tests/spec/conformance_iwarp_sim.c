/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The conformance suite over iWARP in virtual time, on streams that deliver as a seed has it.
 *
 * Every case is run once for each seed: 0 is a perfect stream, 1 cuts the stream after every byte,
 * and all others draw what happens and what the two ends agree on, anew for each connection. None
 * of it may ever end a connection.
 *
 *	WEFT_SEEDS=FIRST:COUNT build/tests/conformance_iwarp_sim [part of a name...]
 */
#include "base/draw.h"
#include "conformance_sim.h"
#include "sim_net.h"

enum {
	SEED_BYTES = SEED_PERFECT + 1,
	ROOMY = 64 * 1024, /* bytes in a pipe that is not meant to be in the way */
	NARROW = 256	   /* with fewer, every byte waits for a round trip or so */
};

/* With what they found. */
static const uint64_t failed_once[] = {
	8,  /* an FPDU with markers was not found again when its receive came */
	20, /* a ready-to-receive Read was not counted as one in flight */
};

static const struct sim_wire_options *forced; /* or NULL: as the seed has it */

/* ---- What a connection is like -------------------------------------------------------------- */

static const struct sim_wire_options perfect = {
	.revision = 2,
	.is_peer_to_peer = true,
	.rtr = IWARP_RTR_WRITE,
	.ird = { 16, 16 },
	.ord = { 16, 16 },
	.bytes_max = { ROOMY, ROOMY },
};

static void draw_faults(struct prng *r, struct sim_wire_options *o, int i)
{
	struct sim_faults *f = &o->faults[i];
	const uint64_t us = 1000;

	o->bytes_max[i] = (uint32_t)ANY_OF(r, 1, 2, 3, 17, 100, 511, 512, 1500, 9000, ROOMY, ROOMY);
	f->delay_max_ns = ANY_OF(r, 0, 0, 1, 5 * us, 10 * us, 500 * us);
	if (o->bytes_max[i] < NARROW && f->delay_max_ns > 10 * us)
		f->delay_max_ns = 10 * us;
	f->delay_min_ns = prng_below(r, (uint32_t)f->delay_max_ns + 1);
	f->rate_bytes_per_s = ANY_OF(r, 0, 0, 1000 * 1000, 100 * 1000 * 1000);
	f->chunk_max_bytes = (uint32_t)ANY_OF(r, 0, 0, 1, 2, 5, 64, 1460, 9000);
	f->chunk_pause_max_ns = ANY_OF(r, 0, 1, us, 5 * us);
	f->clog_ppm = (uint32_t)ANY_OF(r, 0, 0, 300, 5000);
	f->clog_max_ns = ANY_OF(r, 10 * us, 2000 * us);
	f->cut_ppm = (uint32_t)ANY_OF(r, 0, 0, 300, 3000);
	f->cut_max_ns = ANY_OF(r, 10 * us, 2000 * us);
}

/* What the ends wish, and how the bytes travel. */
static void draw(struct prng *r, struct sim_wire_options *o)
{
	o->initiator = (int)prng_below(r, 2);
	o->revision = (uint8_t)ANY_OF(r, 1, 2, 2, 2);
	o->is_peer_to_peer = o->revision == 2 && prng_below(r, 4) > 0;
	o->rtr = (enum iwarp_rtr)ANY_OF(r, IWARP_RTR_SEND, IWARP_RTR_WRITE, IWARP_RTR_READ);
	o->is_crc_off = prng_below(r, 3) == 0;
	for (int i = 0; i < 2; i++) {
		o->wants_markers[i] = prng_below(r, 3) == 0;
		o->ird[i] = (uint16_t)ANY_OF(r, 1, 2, 16, 128);
		o->ord[i] = (uint16_t)ANY_OF(r, 1, 2, 16, 128);
		draw_faults(r, o, i);
	}
	/* Revision 1 does not speak of depths: then they must be known to fit. */
	for (int i = 0; i < 2 && o->revision == 1; i++)
		o->ord[i] = o->ord[i] < o->ird[!i] ? o->ord[i] : o->ird[!i];
}

static struct sim_wire_options wire_of(struct world *w)
{
	struct sim_wire_options o = perfect;

	if (forced)
		return *forced;
	if (sim_seed() == SEED_BYTES) {
		for (int i = 0; i < 2; i++)
			o.faults[i].chunk_max_bytes = 1;
	} else if (sim_seed() != SEED_PERFECT) {
		draw(&w->prng, &o);
	}
	return o;
}

/* ---- Pairs ---------------------------------------------------------------------------------- */

static struct sim_net *net_of(const struct pair *p)
{
	return sim_net_of(p->ends[0].adapter);
}

static void sim_open(struct pair *p)
{
	struct prng r = sim_pair_prng();
	struct weft_adapter *adapters[2];

	for (int i = 0; i < 2; i++) {
		sim_adapter_open(p, &adapters[i], &r);
		p->ends[i].adapter = adapters[i];
	}
	REQUIRE(sim_net_open(prng_next(&r), adapters));
}

static void sim_close(struct pair *p)
{
	sim_net_close(net_of(p));
	for (int i = 0; i < 2; i++)
		MUST(weft_adapter_close(p->ends[i].adapter));
}

static void sim_progress(struct pair *p)
{
	sim_move(p, sim_net_step(net_of(p)));
}

static uint64_t sim_now_ns(const struct pair *p)
{
	return sim_net_world(net_of(p))->now_ns;
}

static void sim_connect(struct pair *p)
{
	struct weft_qp *const qps[2] = { p->ends[0].qp, p->ends[1].qp };
	struct sim_wire_options o = wire_of(sim_net_world(net_of(p)));
	struct pair_end *first = &p->ends[o.initiator], *second = first->peer;
	uint64_t since = sim_now_ns(p);
	struct weft_send_wr wr;

	for (int i = 0; i < 2; i++) {
		if (o.ord[i] > qps[i]->outstanding_max)
			o.ord[i] = (uint16_t)qps[i]->outstanding_max;
	}
	MUST(sim_net_connect(net_of(p), qps, &o));
	while (!sim_net_is_connected(first->qp))
		REQUIRE(pair_wait(p, since));
	if (!o.is_peer_to_peer) { /* the program's own word to open the other direction */
		wr = end_wr(first, WEFT_OP_WRITE, 1, NULL, 0);
		end_post(first, &wr);
		end_sent(first, 1);
	}
	while (!sim_net_is_connected(second->qp))
		REQUIRE(pair_wait(p, since));
}

static void sim_settle(struct pair *p)
{
	sim_settle_by(p, sim_net_is_flowing);
}

const struct pair_maker pair_maker = {
	.name = "iwarp_sim",
	.abilities = PAIR_ATOMICS | PAIR_NAMES_REASON,
	.services = 1U << WEFT_RC,
	.open = sim_open,
	.close = sim_close,
	.connect = sim_connect,
	.progress = sim_progress,
	.settle = sim_settle,
	.now_ns = sim_now_ns,
};

static uint64_t hash_of(const struct pair *p)
{
	return sim_net_world(net_of(p))->trace.hash;
}

static void run_begin(void)
{
	forced = NULL;
}

const struct sim_kind sim_kind = {
	.failed_once = failed_once,
	.failed_once_count = sizeof(failed_once) / sizeof(*failed_once),
	.request_bytes = 3000,
	.hash = hash_of,
	.begin = run_begin,
};

/* RFC 6581: it is among the Reads that the other end serves at a time; its answer goes slowly. */
TEST(test_rfc6581_a_ready_to_receive_read_counts)
{
	static const enum iwarp_rtr rtrs[] = { IWARP_RTR_SEND, IWARP_RTR_WRITE, IWARP_RTR_READ };
	struct sim_wire_options o = perfect;
	struct pair p;
	struct pair_end *a = &p.ends[0];

	forced = &o;
	o.bytes_max[1] = 1;
	o.faults[1].delay_max_ns = o.faults[1].delay_min_ns = 100 * 1000;
	for (uint16_t i = 0; i < 9; i++) {
		const uint16_t depth = 1 + i / 3;

		o.rtr = rtrs[i % 3];
		o.ird[1] = o.ord[0] = depth;
		pair_open(&p, NULL);
		for (uint64_t id = 0; id < 5; id++) {
			const struct weft_sge s = end_seg(a, DST, 8);
			struct weft_send_wr wr = end_wr(a, WEFT_OP_READ, id, &s, SRC);

			end_post(a, &wr);
		}
		end_all_sent(a, 0, 4);
		pair_close(&p);
	}
	forced = NULL;
}
