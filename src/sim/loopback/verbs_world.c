/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/loopback/verbs_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/world/sim_trace.h"
#include "sim/world/swarm.h"

enum world_kind { DO_ACT, DO_GOSSIP, DO_LINK_READ, DO_LINK_WRITE, DO_ADAPTER };

enum { ARENA_ALIGN = 4096, EVENTS_MAX = 256, TRACE_EVENTS = 8192, ACTION_GAP_NS = 200000 };

static const struct {
	verbs_action *act;
	uint32_t weight; /* upper bound; each run draws a part of it */
} actions[] = {
	{ act_register, 10 }, { act_share, 3 },	   { act_deregister, 4 }, { act_window, 10 },
	{ act_bind, 14 },     { act_map, 3 },	   { act_scribble, 3 },	  { act_advertise, 40 },
	{ act_ask, 6 },	      { act_reserve, 2 },  { act_post_send, 40 }, { act_post_recv, 24 },
	{ act_poll, 16 },     { act_connect, 16 }, { act_modify, 8 },
};

enum { ACTION_COUNT = sizeof(actions) / sizeof(actions[0]) };

/* ---- Processes ------------------------------------------------------------------------------- */

/* The first actions of a process, to have memory and queues to work on. */
static void process_prepare(struct verbs_world *w, uint32_t p)
{
	static verbs_action *const first[] = { act_map,	     act_map,	   act_register,
					       act_register, act_register, act_window,
					       act_window,   act_bind,	   act_bind };

	for (uint32_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		first[i](w, p);
	for (uint32_t i = 0; i < 2 * PROCESS_QPS; i++) {
		act_connect(w, p);
		act_post_recv(w, p);
	}
}

/* Starts a process with fresh memory; ends it at once, like a killed one. */
static int process_start(struct verbs_world *w, uint32_t p)
{
	struct process *proc = &w->processes[p];
	struct model_process *mp = &w->model.processes[p];
	struct weft_space_options space = { .mappings_max = MODEL_MAPPINGS };
	struct weft_pd_options pd = { .is_privileged = draw(w, 3) != 0 };

	space.memory = proc->arena;
	space.size_bytes = proc->size;
	proc->known_count = 0;
	for (uint64_t i = 0; i < proc->size; i++)
		proc->arena[i] = (uint8_t)prng_next(&w->world.prng);
	memcpy(mp->shadow, proc->arena, proc->size);
	mp->is_privileged = pd.is_privileged;
	mp->mapping_count = 0;
	if (space_create(&w->adapter, &space, &proc->space) != WEFT_OK)
		return -1;
	pd.space = proc->space;
	if (pd_create(&w->adapter, &pd, &proc->pd) != WEFT_OK || queues_open(w, p) < 0)
		return -1;
	process_prepare(w, p);
	return 0;
}

static void kill_tags(struct verbs_world *w, uint32_t p, enum model_tag_kind kind)
{
	struct mem_table *mem = &w->adapter.mem;
	uint32_t pd = w->processes[p].pd->number;

	for (uint32_t i = 0; i < MODEL_TAGS; i++) {
		struct model_tag *t = &w->model.tags[i];
		enum weft_reason r;

		if (t->kind != kind || t->process != p)
			continue;
		if (kind == MODEL_TAG_WINDOW && t->is_valid)
			CHECK(mem_window_unbind(mem, pd, t->tag) == WEFT_OK);
		if (kind == MODEL_TAG_WINDOW)
			r = mem_window_free(mem, pd, t->tag);
		else if (t->is_by_queue)
			r = mem_tag_release(mem, pd, t->tag);
		else
			r = mem_region_deregister(mem, pd, t->tag);
		if (r != WEFT_OK)
			model_fail(&w->model, "tag 0x%08x of process %u cannot be ended: %s",
				   t->tag, p, weft_reason_name(r));
		t->kind = MODEL_TAG_FREE;
		t->is_valid = false;
	}
}

static void process_kill(struct verbs_world *w, uint32_t p)
{
	struct process *proc = &w->processes[p];

	queues_close(w, p);
	kill_tags(w, p, MODEL_TAG_WINDOW);
	kill_tags(w, p, MODEL_TAG_REGION);
	kill_tags(w, p, MODEL_TAG_RESERVED);
	if (pd_destroy(proc->pd) != WEFT_OK || space_destroy(proc->space) != WEFT_OK)
		model_fail(&w->model, "process %u left something behind", p);
}

/*
 * ---- Links ------------------------------------------------------------------------------------
 */

static int link_open(struct verbs_world *w, uint32_t i)
{
	uint32_t n = w->limits.process_count, low = i / 2, high = (i / 2 + 1) % n;
	struct link *link = &w->links[i];
	struct sim_stream_options o = {
		.id = i,
		.readable = { .node = i, .kind = DO_LINK_READ },
		.writable = { .node = i, .kind = DO_LINK_WRITE },
		.bytes_max = 64 + draw(w, 512),
	};

	sim_faults_draw(&w->world.prng, &o.faults);
	link->from = i % 2 ? high : low;
	link->to = i % 2 ? low : high;
	link->out_count = 0;
	link->in_count = 0;
	return sim_stream_init(&link->stream, &w->world, &o);
}

/* Resets both directions when one was reset; then both restart. */
static void link_reopen(struct verbs_world *w, uint32_t i)
{
	for (uint32_t k = i & ~1U; k <= (i | 1U); k++) {
		sim_stream_fini(&w->links[k].stream);
		CHECK(link_open(w, k) == 0);
	}
}

static void link_flush(struct verbs_world *w, uint32_t i)
{
	struct link *link = &w->links[i];
	size_t taken = 0;
	enum sim_stream_status status;

	if (link->out_count == 0)
		return;
	status = sim_stream_send(&link->stream, link->out, link->out_count, &taken);
	if (status == SIM_STREAM_RESET) {
		link_reopen(w, i);
		return;
	}
	link->out_count -= (uint32_t)taken;
	memmove(link->out, link->out + taken, link->out_count);
}

void link_send(struct verbs_world *w, struct link *link, const struct weft_advert *advert)
{
	if (link->out_count + WEFT_ADVERT_BYTES > LINK_BYTES)
		return;
	weft_advert_encode(advert, link->out + link->out_count);
	link->out_count += WEFT_ADVERT_BYTES;
	link_flush(w, (uint32_t)(link - w->links));
}

static void link_message(struct verbs_world *w, uint32_t i)
{
	struct link *link = &w->links[i];
	struct weft_advert advert;

	/* A stream never changes bytes in transit. */
	if (!weft_advert_decode(link->in, WEFT_ADVERT_BYTES, &advert))
		model_fail(&w->model, "a stream delivered bytes that were never sent");
	else if (advert.tag != 0)
		process_heard(w, link->to, &advert);
	else if (process_asked(w, link->to, &advert))
		link_send(w, &w->links[i ^ 1], &advert);
}

static void link_read(struct verbs_world *w, uint32_t i)
{
	struct link *link = &w->links[i];
	size_t n = 0;
	enum sim_stream_status status;

	status = sim_stream_recv(&link->stream, link->in + link->in_count,
				 WEFT_ADVERT_BYTES - link->in_count, &n);
	if (status == SIM_STREAM_RESET) {
		link_reopen(w, i);
		return;
	}
	link->in_count += (uint32_t)n;
	if (link->in_count == WEFT_ADVERT_BYTES) {
		link->in_count = 0;
		link_message(w, i);
	}
}

static void gossip_read(struct verbs_world *w, uint32_t p)
{
	uint8_t bytes[WEFT_ADVERT_BYTES];
	struct weft_advert advert;
	size_t n;

	/* A damaged datagram often does not decode; sometimes it is a false advertisement. */
	if (sim_datagram_recv(&w->processes[p].gossip, bytes, sizeof(bytes), &n) &&
	    weft_advert_decode(bytes, n, &advert))
		process_heard(w, p, &advert);
}

/*
 * ---- The world --------------------------------------------------------------------------------
 */

static void limits_draw(struct verbs_world *w)
{
	static const uint32_t mischief[] = { 0, 2000, 10000, 50000, 200000 };
	struct verbs_limits *l = &w->limits;

	l->process_count = 2 + draw(w, MODEL_PROCESSES - 1);
	l->actions = 50 + draw(w, 200);
	l->mischief_ppm = mischief[draw(w, 5)];
	l->send_max = 1 + draw(w, MODEL_QUEUE);
	l->recv_max = 1 + draw(w, MODEL_QUEUE);
	l->cq_max = draw(w, 4) == 0 ? 1 + draw(w, MODEL_CQ) : MODEL_CQ;
	l->tags_max = draw(w, 4) == 0 ? 1 + draw(w, 40) : MODEL_TAGS - 1;
	l->is_tight = draw(w, 4) == 0;
	for (uint32_t i = 0; i < ACTION_COUNT; i++) {
		l->weights[i] = draw(w, 6) == 0 ? 0 : 1 + draw(w, actions[i].weight);
		l->weight_sum += l->weights[i];
	}
}

static int adapter_open(struct verbs_world *w)
{
	struct adapter_config config = {
		.options = {
			.tags_max = w->limits.tags_max,
			.translations_max = w->limits.is_tight ? ATT_BLOCK_ENTRIES * 6 :
								 ATT_BLOCK_ENTRIES * 1024,
			.qps_max = MODEL_QPS,
			.cqs_max = MODEL_PROCESSES,
			.srqs_max = MODEL_PROCESSES,
			.pds_max = MODEL_PROCESSES,
			.policy = (enum weft_policy)draw(w, 2),
		},
		.trace = &w->world.trace,
	};

	config.secret[0] = prng_next(&w->world.prng);
	config.secret[1] = prng_next(&w->world.prng);
	w->model.policy = config.options.policy;
	w->model.is_tight = w->limits.is_tight;
	return adapter_init(&w->adapter, &config) == WEFT_OK ? 0 : -1;
}

static int process_open(struct verbs_world *w, uint32_t p)
{
	struct process *proc = &w->processes[p];
	struct sim_datagram_options gossip = {
		.id = 1000 + p,
		.arrived = { .node = p, .kind = DO_GOSSIP },
		.datagrams_max = 16,
		.bytes_max = WEFT_ADVERT_BYTES,
	};

	sim_faults_draw(&w->world.prng, &gossip.faults);
	proc->size = (uint64_t)ARENA_ALIGN * (2 + draw(w, 4));
	proc->arena = aligned_alloc(ARENA_ALIGN, proc->size);
	w->model.processes[p].shadow = aligned_alloc(ARENA_ALIGN, proc->size);
	w->model.processes[p].size = proc->size;
	proc->actions_left = w->limits.actions;
	if (!proc->arena || !w->model.processes[p].shadow ||
	    sim_datagram_init(&proc->gossip, &w->world, &gossip) < 0)
		return -1;
	world_schedule(&w->world, draw(w, ACTION_GAP_NS),
		       (struct world_event){ .node = p, .kind = DO_ACT });
	return process_start(w, p);
}

int verbs_world_open(struct verbs_world *w, uint64_t seed)
{
	const struct world_options o = {
		.seed = seed,
		.events_max = EVENTS_MAX,
		.trace_max = TRACE_EVENTS,
	};

	memset(w, 0, sizeof(*w));
	if (world_init(&w->world, &o) < 0)
		return -1;
	w->adapter_due.event.kind = DO_ADAPTER;
	limits_draw(w);
	if (adapter_open(w) < 0)
		return -1;
	for (uint32_t p = 0; p < w->limits.process_count; p++) {
		if (process_open(w, p) < 0)
			return -1;
	}
	for (uint32_t i = 0; i < 2 * w->limits.process_count; i++) {
		if (link_open(w, i) < 0)
			return -1;
	}
	return 0;
}

/*
 * ---- The loop and the checks ------------------------------------------------------------------
 */

void verbs_observe(struct verbs_world *w)
{
	const struct trace_event *e;

	while ((e = trace_at(&w->world.trace, w->observed)) != NULL) {
		w->observed++;
		model_observe(&w->model, e);
	}
	CHECK(w->observed == w->world.trace.count); /* the ring holds more than any step traces */
}

static void process_act(struct verbs_world *w, uint32_t p)
{
	struct process *proc = &w->processes[p];
	uint32_t pick, i = 0;

	if (proc->actions_left == 0)
		return;
	proc->actions_left--;
	if (draw(w, 400) == 0) {
		process_kill(w, p);
		CHECK(process_start(w, p) == 0);
	} else if (w->limits.weight_sum > 0) {
		pick = draw(w, w->limits.weight_sum);
		while (pick >= w->limits.weights[i])
			pick -= w->limits.weights[i++];
		actions[i].act(w, p);
	}
	world_schedule(&w->world, draw(w, ACTION_GAP_NS),
		       (struct world_event){ .node = p, .kind = DO_ACT });
}

/* Compares everything visible from outside, after every step. */
static void compare_all(struct verbs_world *w)
{
	uint32_t regions = 0, windows = 0, reserved = 0;
	struct weft_usage usage;

	if (w->model.pending.is_set)
		model_fail(&w->model, "a receive ended without a message");
	for (uint32_t p = 0; p < w->limits.process_count; p++) {
		struct process *proc = &w->processes[p];
		const uint8_t *shadow = w->model.processes[p].shadow;

		if (memcmp(proc->arena, shadow, proc->size) != 0) {
			uint64_t at = 0;

			while (proc->arena[at] == shadow[at])
				at++;
			model_fail(&w->model, "process %u: byte 0x%lx is %02x, should be %02x", p,
				   (unsigned long)at, proc->arena[at], shadow[at]);
		}
	}
	for (uint32_t i = 0; i < MODEL_TAGS; i++) {
		const struct model_tag *t = &w->model.tags[i];

		windows += t->kind == MODEL_TAG_WINDOW;
		regions += t->kind == MODEL_TAG_REGION && t->is_valid;
		reserved += t->kind == MODEL_TAG_RESERVED ||
			    (t->kind == MODEL_TAG_REGION && !t->is_valid);
	}
	adapter_usage(&w->adapter, &usage);
	if (usage.regions != regions || usage.windows != windows || usage.tags_reserved != reserved)
		model_fail(&w->model,
			   "the table holds %u regions, %u windows, %u reserved; due %u, %u, %u",
			   usage.regions, usage.windows, usage.tags_reserved, regions, windows,
			   reserved);
}

static void settle(struct verbs_world *w)
{
	while (adapter_progress(&w->adapter, w->world.now_ns))
		continue;
	verbs_observe(w);
	compare_all(w);
	world_alarm_set(&w->world, &w->adapter_due, adapter_due(&w->adapter));
}

/* All processes end; no object may be left. */
static void finish(struct verbs_world *w)
{
	struct weft_usage usage;

	w->is_over = true;
	for (uint32_t p = 0; p < w->limits.process_count && !w->model.failure[0]; p++) {
		process_kill(w, p);
		settle(w);
	}
	adapter_usage(&w->adapter, &usage);
	if (!w->model.failure[0] &&
	    (usage.tags_free != w->limits.tags_max || usage.translations || usage.spaces ||
	     usage.pds || usage.cqs || usage.srqs || usage.qps))
		model_fail(&w->model, "left at the end: %u tags, %u translations, %u queue pairs",
			   w->limits.tags_max - usage.tags_free, usage.translations, usage.qps);
}

bool verbs_world_step(struct verbs_world *w)
{
	struct world_event e;

	if (w->is_over || w->model.failure[0])
		return false;
	if (!world_next(&w->world, &e)) {
		finish(w);
		return false;
	}
	switch ((enum world_kind)e.kind) {
	case DO_ACT:
		process_act(w, e.node);
		break;
	case DO_GOSSIP:
		gossip_read(w, e.node);
		break;
	case DO_LINK_READ:
		link_read(w, e.node);
		break;
	case DO_LINK_WRITE:
		link_flush(w, e.node);
		break;
	case DO_ADAPTER:
		break;
	}
	settle(w);
	return !w->model.failure[0];
}

const char *verbs_world_failure(const struct verbs_world *w)
{
	return w->model.failure;
}

/* After a failed check the system is inconsistent: its objects are not destroyed. */
void verbs_world_close(struct verbs_world *w)
{
	for (uint32_t i = 0; i < 2 * w->limits.process_count; i++)
		sim_stream_fini(&w->links[i].stream);
	for (uint32_t p = 0; p < w->limits.process_count; p++) {
		sim_datagram_fini(&w->processes[p].gossip);
		free(w->processes[p].arena);
		free(w->model.processes[p].shadow);
	}
	(void)adapter_fini(&w->adapter);
	world_fini(&w->world);
}
