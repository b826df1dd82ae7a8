/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/cells/cells_world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/draw.h"
#include "sim/cells/cells_inside.h"

enum {
	SWITCHES_MAX = 3,
	PORTS = CELLS_ENDS_MAX + SWITCHES_MAX,
	STEPS_MAX = 4000000,
	US = 1000,
	TAGS_MAX = 16
};

static const uint8_t untouched = 0x5a;

void cells_fail(struct cells_world *w, const char *format, ...)
{
	va_list args;

	if (w->failure[0])
		return;
	va_start(args, format);
	vsnprintf(w->failure, sizeof(w->failure), format, args);
	va_end(args);
}

/* ---- The fabric ----------------------------------------------------------------------------- */

/* One after the other: in an initialiser compilers have an order of their own. */
static struct sim_faults faults_draw(struct cells_world *w)
{
	struct sim_faults f = { .delay_max_ns = 50, .rate_bytes_per_s = UINT64_C(1000000000) };
	struct prng *p = &w->prng;

	if (w->is_scripted)
		return f;
	f.delay_min_ns = ANY_OF(p, 0, 50, 1 * US);
	f.delay_max_ns = f.delay_min_ns + ANY_OF(p, 0, 100, 2 * US);
	f.rate_bytes_per_s = ANY_OF(p, 250, 1000, 12500) * UINT64_C(1000000);
	f.corrupt_ppm = (uint32_t)ANY_OF(p, 0, 0, 100, 20000);
	f.loss_ppm = (uint32_t)ANY_OF(p, 0, 0, 100, 20000);
	return f;
}

static int nodes_open(struct cells_world *w)
{
	const struct fabric_link_cfg link = {
		.lanes = 1, .lane_blocks = 64, .ack_delay_ns = 500, .resend_ns = 100 * US
	};
	const struct fabric_switch_cfg cfg = { .ports = PORTS,
					       .linear_max = PORTS + 1,
					       .link = link };

	for (uint32_t i = 0; i < w->ends; i++)
		(void)fabric_net_add_end(&w->net, &link);
	for (uint32_t i = 0; i < w->switches; i++) {
		if (fabric_net_add_switch(&w->net, &cfg) < 0)
			return -1;
	}
	return 0;
}

/* Switches in a row, endnodes at any of them. */
static int cables_open(struct cells_world *w)
{
	const struct sim_faults faults = faults_draw(w);
	uint32_t ports[SWITCHES_MAX] = { 0 };

	for (uint32_t i = 1; i < w->switches; i++) {
		const struct fabric_net_port a = { w->ends + i - 1, ++ports[i - 1] };
		const struct fabric_net_port b = { w->ends + i, ++ports[i] };

		if (fabric_net_join(&w->net, a, b, &faults) < 0)
			return -1;
	}
	for (uint32_t i = 0; i < w->ends; i++) {
		uint32_t at = prng_below(&w->prng, w->switches);
		const struct fabric_net_port a = { i, 1 }, b = { w->ends + at, ++ports[at] };

		if (fabric_net_join(&w->net, a, b, &faults) < 0)
			return -1;
	}
	for (uint32_t i = 0; i < w->ends; i++)
		fabric_net_route(&w->net, i, cells_lid(i));
	return 0;
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* Where the pool for a sender is. */
static uint32_t pool_at(uint32_t from)
{
	return CELLS_GAP_BYTES + from * (CELLS_POOL_BYTES + CELLS_GAP_BYTES);
}

uint64_t cells_pool_address(const struct cells_channel *c)
{
	return ((uint64_t)(c->to + 1) << 40) + pool_at(c->from);
}

static int pool_open(struct cells_world *w, uint32_t from, uint32_t to)
{
	struct cells_node *n = &w->nodes[to];
	struct cells_channel *c = cells_channel_of(w, from, to, CELLS_CONNECTED);
	const struct mem_owner owner = pd_owner(n->pd);
	const struct weft_region_options options = { .addr = cells_pool_address(c),
						     .length = CELLS_POOL_BYTES,
						     .rights = WEFT_LOCAL_WRITE |
							       WEFT_REMOTE_WRITE };

	c->pool = n->memory + pool_at(from);
	return mem_region_register(&n->adapter.mem, &owner, &options, &c->handle) == WEFT_OK ? 0
											     : -1;
}

static int memory_open(struct cells_world *w, uint32_t end)
{
	struct cells_node *n = &w->nodes[end];
	const struct adapter_config config = { .options = { .tags_max = TAGS_MAX },
					       .secret = { prng_next(&w->prng),
							   prng_next(&w->prng) } };
	struct weft_space_options so = { .size_bytes = CELLS_END_BYTES, .mappings_max = 1 };
	struct weft_pd_options po = { 0 };

	n->memory = malloc(CELLS_END_BYTES);
	if (!n->memory)
		return -1;
	memset(n->memory, untouched, CELLS_END_BYTES);
	so.memory = n->memory;
	if (adapter_init(&n->adapter, &config) != WEFT_OK ||
	    space_create(&n->adapter, &so, &n->space) != WEFT_OK ||
	    mem_space_map(n->space, (uint64_t)(end + 1) << 40, CELLS_END_BYTES, 0) != WEFT_OK)
		return -1;
	po.space = n->space;
	if (pd_create(&n->adapter, &po, &n->pd) != WEFT_OK)
		return -1;
	for (uint32_t from = 0; from < w->ends; from++) {
		if (pool_open(w, from, end) < 0)
			return -1;
	}
	return 0;
}

static void memory_close(struct cells_world *w, uint32_t end)
{
	struct cells_node *n = &w->nodes[end];

	for (uint32_t from = 0; from < w->ends; from++)
		CHECK(mem_region_deregister(
			      &n->adapter.mem, n->pd->number,
			      cells_channel_of(w, from, end, CELLS_CONNECTED)->handle) == WEFT_OK);
	CHECK(pd_destroy(n->pd) == WEFT_OK && space_destroy(n->space) == WEFT_OK);
	CHECK(adapter_fini(&n->adapter) == WEFT_OK);
	free(n->memory);
}

/* ---- Life ----------------------------------------------------------------------------------- */

struct cells_channel *cells_channel_of(struct cells_world *w, uint32_t from, uint32_t to,
				       enum cells_kind kind)
{
	return &w->channels[(from * CELLS_ENDS_MAX + to) * CELLS_KINDS + kind];
}

static int open_all(struct cells_world *w)
{
	for (uint32_t i = 0; i < CELLS_CHANNELS; i++) {
		w->channels[i].kind = (enum cells_kind)(i % CELLS_KINDS);
		w->channels[i].to = i / CELLS_KINDS % CELLS_ENDS_MAX;
		w->channels[i].from = i / CELLS_KINDS / CELLS_ENDS_MAX;
	}
	if (fabric_net_init(&w->net, w->seed) < 0)
		return -1;
	if (nodes_open(w) < 0 || cables_open(w) < 0) {
		fabric_net_fini(&w->net);
		return -1;
	}
	/* What memory there is for these is not given back: the program ends without it. */
	for (uint32_t i = 0; i < w->ends; i++) {
		if (memory_open(w, i) < 0)
			return -1;
	}
	return 0;
}

static void plan_draw(struct cells_world *w)
{
	w->ends = 2 + prng_below(&w->prng, CELLS_ENDS_MAX - 1);
	w->switches = 1 + prng_below(&w->prng, SWITCHES_MAX);
	w->packets_max = 20 + prng_below(&w->prng, 60);
	w->lost_ppm = (uint32_t)ANY_OF(&w->prng, 0, 0, 1000, 50000);
	w->damaged_ppm = (uint32_t)ANY_OF(&w->prng, 0, 0, 1000, 50000);
	w->forbidden_ppm = (uint32_t)ANY_OF(&w->prng, 0, 20000, 200000);
	w->net.pulls_left = (uint32_t)ANY_OF(&w->prng, 0, 0, 0, 2);
}

int cells_world_open(struct cells_world *w, uint64_t seed, bool is_scripted)
{
	memset(w, 0, sizeof(*w));
	w->seed = seed;
	w->prng.state = prng_mix(seed);
	w->is_scripted = is_scripted;
	w->ends = 2;
	w->switches = 1;
	if (!is_scripted)
		plan_draw(w);
	return open_all(w);
}

void cells_world_close(struct cells_world *w)
{
	for (uint32_t i = 0; i < w->ends; i++)
		memory_close(w, i);
	fabric_net_fini(&w->net);
}

const char *cells_world_failure(const struct cells_world *w)
{
	return w->failure;
}

/* ---- The end -------------------------------------------------------------------------------- */

static void memory_judge(struct cells_world *w, uint32_t end)
{
	const uint8_t *memory = w->nodes[end].memory;

	for (uint32_t at = 0; at < CELLS_END_BYTES; at++) {
		uint32_t in_slot = at % (CELLS_POOL_BYTES + CELLS_GAP_BYTES);

		if (in_slot < CELLS_GAP_BYTES && memory[at] != untouched)
			cells_fail(w, "endnode %" PRIu32 ": byte %" PRIu32 " beside a pool changed",
				   end, at);
	}
}

static void link_finish(struct cells_world *w, const struct fabric_link *l, uint64_t *lost)
{
	*lost += l->counts.frames_lost;
	w->flits += l->counts.flits_sent;
	w->resent += l->counts.flits_resent;
}

/* Frames that went with cables: each of these cells loses one packet at most. */
static uint64_t lost_with_cables(struct cells_world *w)
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
	return lost;
}

/* Every packet has come of which all cells have. */
static void finish(struct cells_world *w)
{
	uint64_t lost = lost_with_cables(w), missing = 0;

	for (uint32_t i = 0; i < CELLS_CHANNELS; i++) {
		const struct cells_channel *c = &w->channels[i];

		for (uint32_t n = 0; n < c->sent; n++)
			missing += !c->packets[n].is_hurt && !c->packets[n].is_forbidden &&
				   !c->packets[n].has_come;
	}
	if (missing > lost)
		cells_fail(w,
			   "%" PRIu64 " packets are missing, and %" PRIu64
			   " cells went with cables",
			   missing, lost);
	for (uint32_t i = 0; i < w->ends; i++)
		memory_judge(w, i);
}

/* Cables are in again, and all is at rest: receivers take what is left, senders go on. */
static bool has_ended(struct cells_world *w)
{
	bool has_moved = fabric_net_plug_all(&w->net);

	for (uint32_t end = 0; end < w->ends; end++) {
		while (cells_take(w, end))
			has_moved = true;
	}
	for (uint32_t i = 0; i < CELLS_CHANNELS; i++)
		has_moved |= cells_go_on(w, &w->channels[i]);
	return !has_moved;
}

bool cells_world_step(struct cells_world *w)
{
	bool is_sending = w->packets < w->packets_max;

	if (is_sending && prng_below(&w->prng, 8) == 0)
		cells_begin(w);
	if (prng_below(&w->prng, 4) == 0)
		(void)cells_go_on(w, &w->channels[prng_below(&w->prng, CELLS_CHANNELS)]);
	if (prng_below(&w->prng, 4) == 0)
		(void)cells_take(w, prng_below(&w->prng, w->ends));
	if (is_sending && prng_below(&w->prng, 1000) == 0)
		fabric_net_meddle(&w->net, &w->prng);
	if (++w->steps > STEPS_MAX)
		cells_fail(w, "it does not come to rest");
	if (w->failure[0])
		return false;
	if (fabric_net_step(&w->net) || is_sending || !has_ended(w))
		return true;
	finish(w);
	return false;
}
