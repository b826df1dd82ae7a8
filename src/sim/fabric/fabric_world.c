/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/fabric/fabric_world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cursor.h"
#include "base/draw.h"

enum {
	SWITCHES_MAX = 4,
	PORTS = FABRIC_WORLD_ENDS + SWITCHES_MAX,
	HEAD_BYTES = 8, /* of a payload: number, sender, level */
	STEPS_MAX = 4000000,
	US = 1000
};

__attribute__((format(printf, 2, 3))) static void fail(struct fabric_world *w, const char *format,
						       ...)
{
	va_list args;

	if (w->failure[0])
		return;
	va_start(args, format);
	vsnprintf(w->failure, sizeof(w->failure), format, args);
	va_end(args);
}

/* The LID of an endnode; endnodes are the first nodes. */
static uint16_t lid_of(uint32_t end)
{
	return (uint16_t)(end + 1);
}

/* ---- What the seed draws -------------------------------------------------------------------- */

/* One after the other: in an initialiser compilers have an order of their own. */
static void faults_draw(struct fabric_world *w)
{
	struct sim_faults *f = &w->faults;
	struct prng *p = &w->prng;

	f->delay_min_ns = ANY_OF(p, 0, 50, 1 * US);
	f->delay_max_ns = f->delay_min_ns + ANY_OF(p, 0, 100, 2 * US);
	f->rate_bytes_per_s = ANY_OF(p, 250, 1000, 12500) * UINT64_C(1000000);
	f->corrupt_ppm = (uint32_t)ANY_OF(p, 0, 0, 100, 20000);
	f->loss_ppm = (uint32_t)ANY_OF(p, 0, 0, 100, 20000);
	f->cut_ppm = (uint32_t)ANY_OF(p, 0, 0, 0, 500);
	f->cut_max_ns = 200 * US;
	f->clog_ppm = (uint32_t)ANY_OF(p, 0, 0, 0, 500);
	f->clog_max_ns = 100 * US;
}

static struct fabric_link_cfg link_draw(struct fabric_world *w)
{
	struct prng *p = &w->prng;
	struct fabric_link_cfg cfg;

	cfg.lanes = (uint32_t)ANY_OF(p, 1, 2, 3);
	cfg.lane_blocks = (uint32_t)ANY_OF(p, FABRIC_FRAME_FLITS, 64, 200);
	cfg.run_flits = (uint32_t)ANY_OF(p, 1, 1, 8, 0);
	cfg.ack_delay_ns = ANY_OF(p, 0, 500, 5 * US);
	cfg.resend_ns = ANY_OF(p, 20 * US, 100 * US);
	return cfg;
}

/* Levels share the lanes that there are, each switch in its own way. */
static void lanes_draw(struct fabric_world *w, uint8_t *lane_of, uint32_t lanes)
{
	for (uint32_t level = 0; level < FLIT_LANES; level++)
		lane_of[level] = (uint8_t)prng_below(&w->prng, lanes);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static int nodes_open(struct fabric_world *w)
{
	const struct fabric_switch_cfg cfg = { .ports = PORTS,
					       .linear_max = PORTS + 1,
					       .link = link_draw(w) };

	for (uint32_t i = 0; i < w->ends; i++) {
		(void)fabric_net_add_end(&w->net, &cfg.link);
		lanes_draw(w, w->net.nodes[i].end.lane_of, cfg.link.lanes);
	}
	for (uint32_t i = w->ends; i < w->ends + w->switches; i++) {
		if (fabric_net_add_switch(&w->net, &cfg) < 0)
			return -1;
		for (uint32_t port = 1; port <= PORTS; port++)
			lanes_draw(w, w->net.nodes[i].sw.ports[port].lane_of, cfg.link.lanes);
	}
	return 0;
}

/* A tree: each switch but the first hangs on one before it, each endnode on any. */
static int cables_open(struct fabric_world *w)
{
	uint32_t ports[SWITCHES_MAX] = { 0 };

	for (uint32_t i = 0; i < w->ends + w->switches; i++) {
		bool is_switch = i >= w->ends;
		uint32_t own = i - w->ends, up;
		struct fabric_net_port a = { i, 1 }, b;

		if (is_switch && own == 0)
			continue;
		up = prng_below(&w->prng, is_switch ? own : w->switches);
		if (is_switch)
			a.port = ++ports[own];
		b = (struct fabric_net_port){ w->ends + up, ++ports[up] };
		if (fabric_net_join(&w->net, a, b, &w->faults) < 0)
			return -1;
	}
	for (uint32_t i = 0; i < w->ends; i++)
		fabric_net_route(&w->net, i, lid_of(i));
	return 0;
}

int fabric_world_open(struct fabric_world *w, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->seed = seed;
	w->prng.state = prng_mix(seed);
	w->ends = 2 + prng_below(&w->prng, FABRIC_WORLD_ENDS - 1);
	w->switches = 1 + prng_below(&w->prng, SWITCHES_MAX);
	w->frames_max = 20 + prng_below(&w->prng, 150);
	w->net.pulls_left = (uint32_t)ANY_OF(&w->prng, 0, 0, 1, 3);
	faults_draw(w);
	if (fabric_net_init(&w->net, seed) < 0)
		return -1;
	if (nodes_open(w) == 0 && cables_open(w) == 0)
		return 0;
	fabric_net_fini(&w->net);
	return -1;
}

void fabric_world_close(struct fabric_world *w)
{
	fabric_net_fini(&w->net);
}

const char *fabric_world_failure(const struct fabric_world *w)
{
	return w->failure;
}

/* ---- Traffic -------------------------------------------------------------------------------- */

static uint8_t byte_of(const struct fabric_world *w, uint32_t number, uint32_t at)
{
	return (uint8_t)(prng_mix(w->seed + number) >> at % 8 * 8 ^ at);
}

static uint32_t payload_make(const struct fabric_world *w, uint8_t payload[IBA_PAYLOAD_MAX],
			     uint32_t bytes, uint32_t number)
{
	for (uint32_t i = 0; i < bytes; i++)
		payload[i] = byte_of(w, number, i);
	return bytes;
}

static void post(struct fabric_world *w)
{
	uint32_t from = prng_below(&w->prng, w->ends), to = prng_below(&w->prng, w->ends - 1);
	uint8_t level = (uint8_t)prng_below(&w->prng, FABRIC_WORLD_LEVELS);
	uint8_t payload[IBA_PAYLOAD_MAX], bytes[IBA_FRAME_MAX];
	uint32_t size = (uint32_t)ANY_OF(&w->prng, HEAD_BYTES, 60, 256, 1024, IBA_PAYLOAD_MAX);
	struct wr head = wr_of(payload, HEAD_BYTES);
	struct iba_frame f = { .has_grh = false };
	struct fabric_flow *flow;

	to += to >= from;
	flow = &w->flows[from][to][level];
	f.lrh = (struct iba_lrh){ .level = level, .from = lid_of(from), .to = lid_of(to) };
	f.packet = (struct iba_packet){ .opcode = IBA_UD_SEND, .p_key = IBA_PKEY_DEFAULT };
	f.packet.payload = payload;
	f.packet.payload_bytes = payload_make(w, payload, size, flow->posted);
	wr_u32(&head, flow->posted);
	wr_u16(&head, (uint16_t)from);
	wr_u16(&head, level);
	if (!fabric_net_post(&w->net, from, bytes, iba_frame_encode(&f, bytes)))
		return;
	flow->posted++;
	w->posted++;
}

static void judge(struct fabric_world *w, uint32_t to, const struct iba_frame *f)
{
	struct rd r = rd_of(f->packet.payload, f->packet.payload_bytes);
	uint32_t number = rd_u32(&r), from = rd_u16(&r), level = rd_u16(&r);
	struct fabric_flow *flow;

	if (r.is_short || from >= w->ends || level >= FABRIC_WORLD_LEVELS ||
	    f->lrh.to != lid_of(to) || f->lrh.from != lid_of(from) || f->lrh.level != level) {
		fail(w, "endnode %" PRIu32 " got a frame of another", to);
		return;
	}
	flow = &w->flows[from][to][level];
	if (number < flow->next || number >= flow->posted)
		fail(w, "endnode %" PRIu32 " got frame %" PRIu32 ", due is %" PRIu32, to, number,
		     flow->next);
	if (number > flow->next && w->net.pulls == 0)
		fail(w, "frame %" PRIu32 " to endnode %" PRIu32 " is lost", flow->next, to);
	for (uint32_t i = HEAD_BYTES; i < f->packet.payload_bytes; i++)
		if (f->packet.payload[i] != byte_of(w, number, i))
			fail(w, "frame %" PRIu32 " to endnode %" PRIu32 " is not the same", number,
			     to);
	flow->next = number + 1;
}

/* False: there is none. */
static bool take(struct fabric_world *w, uint32_t end)
{
	uint8_t bytes[IBA_FRAME_MAX];
	uint32_t length = fabric_net_take(&w->net, end, bytes);
	struct iba_frame f;

	if (length == 0)
		return false;
	if (iba_frame_decode(&f, bytes, length) == WEFT_OK)
		judge(w, end, &f);
	else
		fail(w, "endnode %" PRIu32 " got a broken frame", end);
	w->delivered++;
	w->bytes += length;
	return true;
}

/* ---- The end -------------------------------------------------------------------------------- */

static void link_finish(struct fabric_world *w, const struct fabric_link *l, uint64_t *lost)
{
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++)
		if (l->in[lane].blocks_used > 0)
			fail(w, "a buffer of lane %" PRIu32 " holds flits at the end", lane);
	*lost += l->counts.frames_lost;
	w->flits += l->counts.flits_sent;
	w->resent += l->counts.flits_resent;
	w->waits += l->counts.waits;
	if (l->counts.overruns + l->counts.malformed + l->counts.broken > 0)
		fail(w, "a link got flits that its sender may not send");
}

static void finish(struct fabric_world *w)
{
	uint64_t lost = 0;

	for (uint32_t i = 0; i < w->net.node_count; i++) {
		const struct fabric_net_node *node = &w->net.nodes[i];

		if (!node->is_switch)
			link_finish(w, &node->end.link, &lost);
		for (uint32_t port = 1; node->is_switch && port <= PORTS; port++) {
			link_finish(w, &node->sw.ports[port].link, &lost);
			lost += node->sw.ports[port].discards;
		}
	}
	if (w->delivered > w->posted || w->delivered + lost < w->posted)
		fail(w, "%" PRIu64 " of %" PRIu64 " frames came, %" PRIu64 " were lost with cables",
		     w->delivered, w->posted, lost);
}

/* Cables are in again, everything is posted and at rest: the receivers take what is left. */
static bool has_ended(struct fabric_world *w)
{
	bool has_taken = fabric_net_plug_all(&w->net);

	for (uint32_t end = 0; end < w->ends; end++)
		while (take(w, end))
			has_taken = true;
	return !has_taken;
}

bool fabric_world_step(struct fabric_world *w)
{
	bool is_posting = w->posted < w->frames_max;

	if (is_posting && prng_below(&w->prng, 4) == 0)
		post(w);
	if (prng_below(&w->prng, 8) == 0)
		(void)take(w, prng_below(&w->prng, w->ends));
	if (is_posting && prng_below(&w->prng, 1000) == 0)
		fabric_net_meddle(&w->net, &w->prng);
	if (++w->steps > STEPS_MAX)
		fail(w, "it does not come to rest");
	if (w->failure[0])
		return false;
	if (fabric_net_step(&w->net) || is_posting || !has_ended(w))
		return true;
	finish(w);
	return false;
}
