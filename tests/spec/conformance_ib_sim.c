/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The conformance suite over the InfiniBand transport in virtual time: RC and RD on a network that
 * loses, doubles, reorders and corrupts packets as a seed has it, UC on a perfect one.
 *
 * Every case is run once for each seed: 0 is a perfect network, and all others draw what happens
 * and what the two ends agree on, anew for each connection. None of it may ever end a connection.
 *
 *	WEFT_SEEDS=FIRST:COUNT build/tests/conformance_ib_sim [part of a name...]
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conformance_ib_rd.h"
#include "ib_net.h"

enum { SEED_PERFECT = 0, SEEDS_DEFAULT = 12 };

/* Seeds that failed once, with what they found. They are run too whenever seed 0 is. */
static const uint64_t failed_once[] = {
	0,
};

/* The run that is going on. */
static uint64_t seed, pairs_opened;
static char how_to_repeat[128];

/* ---- Seeds ---------------------------------------------------------------------------------- */

static void seeds_asked(uint64_t *first, uint64_t *count)
{
	const char *text = getenv("WEFT_SEEDS");

	*first = 0;
	*count = SEEDS_DEFAULT;
	if (text && sscanf(text, "%" SCNu64 ":%" SCNu64, first, count) == 1)
		*count = 1;
}

/* A run that dies says which it was. */
static void died(int signal_number)
{
	(void)!write(STDERR_FILENO, how_to_repeat, strlen(how_to_repeat));
	(void)!write(STDERR_FILENO, "\n", 1);
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

const char *harness_round(uint64_t round)
{
	enum { FAILED_ONCE = sizeof(failed_once) / sizeof(*failed_once) };
	uint64_t first, count;

	seeds_asked(&first, &count);
	if (round == 0) {
		signal(SIGABRT, died);
		signal(SIGTERM, died);
	}
	if (round < count)
		seed = first + round;
	else if (first == 0 && round - count < FAILED_ONCE)
		seed = failed_once[round - count];
	else
		return NULL;
	pairs_opened = 0;
	snprintf(how_to_repeat, sizeof(how_to_repeat), "repeat with WEFT_SEEDS=%" PRIu64 ":1",
		 seed);
	return how_to_repeat;
}

/* ---- What a network and a connection are like ----------------------------------------------- */

#define ANY_OF(prng, ...)                                                                          \
	(((const uint64_t[]){ __VA_ARGS__ })[prng_below(                                           \
		prng, sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))])

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
		.mtu_bytes = 1024,
		.psn = { 1000, 0xfffff0 },
		.reads = { 16, 16 },
		.timeout_code = 16,
		.retries = 7,
		.rnr_retries = IB_RNR_RETRY_FOREVER,
		.rnr_timer_code = 6,
	};

	if (seed == SEED_PERFECT)
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
	return ib_net_of(p->ends[0].adapter);
}

/* The tags too are those of the seed. */
static void adapter_open(struct pair *p, struct weft_adapter **adapter, struct prng *r)
{
	const struct adapter_config config = {
		/* Thousands are opened: tables of a size that can be cleared in no time. */
		.options = { .tags_max = p->options.tags_max ? p->options.tags_max : 4096,
			     .translations_max = p->options.translations_max
							 ? p->options.translations_max
							 : 1 << 16,
			     .srqs_max = 64,
			     .pds_max = 64,
			     .policy = p->options.policy },
		.secret = { prng_next(r), prng_next(r) },
	};

	MUST(weft_adapter_open(&config.options, adapter));
	MUST(adapter_fini(&(*adapter)->core));
	MUST(adapter_init(&(*adapter)->core, &config));
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
		adapter_open(p, &p->ends[i].adapter, r);
	if (seed != SEED_PERFECT)
		draw_faults(r, &k.faults);
	k.seed = prng_next(r);
	rd_pair_open(p, &k);
}

static void sim_open(struct pair *p)
{
	struct prng r = { .state = seed + (++pairs_opened << 48) };
	struct ib_net_options o = { 0 };
	struct weft_adapter *adapters[2];

	if (is_rd(p)) {
		rd_open(p, &r);
		return;
	}
	for (int i = 0; i < 2; i++) {
		adapter_open(p, &adapters[i], &r);
		p->ends[i].adapter = adapters[i];
		/* What an unreliable service loses is lost: no case waits for it. */
		if (seed != SEED_PERFECT && p->options.service == WEFT_RC)
			draw_faults(&r, &o.faults[i]);
	}
	o.seed = prng_next(&r);
	REQUIRE(ib_net_open(&o, adapters));
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
	uint32_t count;
	int who;

	if (is_rd(p)) {
		rd_pair_progress(p);
		return;
	}
	who = ib_net_step(net_of(p));
	for (int i = 0; i < 2; i++) {
		if (who < 0 || who == i)
			MUST(weft_cq_poll(p->ends[i].send_cq, NULL, 0, &count));
	}
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

static bool is_flowing(const struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		if (p->ends[i].qp && ib_net_is_flowing(p->ends[i].qp))
			return true;
	}
	return false;
}

static void sim_settle(struct pair *p)
{
	uint64_t since = sim_now_ns(p);

	if (is_rd(p)) {
		rd_pair_settle(p);
		return;
	}
	while (is_flowing(p))
		REQUIRE(pair_wait(p, since));
}

static void sim_aim(const struct end *e, struct weft_send_wr *wr, const struct end *at)
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

/* ---- The simulation itself ------------------------------------------------------------------ */

/* Some traffic both ways; gives what the world did. */
static uint64_t run_once(uint64_t with)
{
	struct pair p;
	struct weft_segment s;
	struct weft_send_wr wr;
	uint64_t hash;

	seed = with;
	pairs_opened = 0;
	pair_open(&p, NULL);
	for (int i = 0; i < 4; i++) {
		struct end *e = &p.ends[i % 2];

		s = end_seg(e, SRC, 30000);
		wr = end_wr(e, i < 2 ? WEFT_OP_WRITE : WEFT_OP_READ, 1, &s, DST);
		end_succeeds(e, &wr);
	}
	hash = ib_net_world(net_of(&p))->trace.hash;
	pair_close(&p);
	return hash;
}

TEST(test_sim_the_same_seed_is_the_same_run)
{
	uint64_t was = seed, hash = run_once(was);

	EXPECT_EQ(run_once(was), hash);
	EXPECT(run_once(was + 1) != hash);
}
