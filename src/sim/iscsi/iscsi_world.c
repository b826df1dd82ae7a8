/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/iscsi/iscsi_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "sim/iscsi/iscsi_iser.h"
#include "sim/world/swarm.h"

enum {
	US = 1000,
	MS = 1000 * US,
	EVENTS_MAX = 4096,
	TRACE_EVENTS = 1 << 15,
	STEPS_MAX = 3000000,
	TURNS_MAX = 100000,
	TICK_MS = 20,
	CORRUPT_PPM = 20000,
	FULL_TAGS = 4 /* one is the arena's; the first is never used */
};

#define SECOND UINT64_C(1000000000)

static const uint64_t rest_ns = 200 * SECOND;

void isw_fail(struct iscsi_world *w, const char *format, ...)
{
	va_list args;

	if (w->failure[0])
		return;
	va_start(args, format);
	vsnprintf(w->failure, sizeof(w->failure), format, args);
	va_end(args);
}

void isw_trace(struct iscsi_world *w, enum isw_trace kind, uint32_t who, uint64_t a, uint64_t b)
{
	trace_add(&w->world.trace,
		  (struct trace_event){ .kind = (uint16_t)kind, .who = who, .a = a, .b = b });
}

/* ---- What the seed draws -------------------------------------------------------------------- */

/* Each kind of fault is on or off, so that strong faults do not mask what weak ones find. */
static uint32_t draw_weight(struct iscsi_world *w)
{
	return isw_draw(w, 2) == 0 ? 0 : 1 + isw_draw(w, 8);
}

static uint32_t draw_bytes(struct iscsi_world *w, uint32_t powers)
{
	return (uint32_t)512 << isw_draw(w, powers);
}

static void digests_draw(struct iscsi_world *w, struct iscsi_params *p)
{
	uint32_t with = iscsi_list_of(ISCSI_DIGEST_CRC32C, ISCSI_DIGEST_NONE);
	uint32_t lot = isw_draw(w, 4);

	p->connection.header_digest = lot & 1 ? with : ISCSI_DIGEST_NONE;
	p->connection.data_digest = lot & 2 ? with : ISCSI_DIGEST_NONE;
	if (isw_draw(w, 2) == 0) /* both, so that bits may be flipped */
		p->connection.header_digest = p->connection.data_digest = with;
}

static void wish_draw(struct iscsi_world *w, struct iscsi_params *p)
{
	digests_draw(w, p);
	p->connection.recv_bytes_max = draw_bytes(w, 5);
	p->session.burst_bytes_max = draw_bytes(w, 6);
	p->session.first_burst_bytes_max = draw_bytes(w, 6);
	if (p->session.first_burst_bytes_max > p->session.burst_bytes_max)
		p->session.first_burst_bytes_max = p->session.burst_bytes_max;
	p->session.needs_r2t = isw_draw(w, 2);
	p->session.has_immediate_data = isw_draw(w, 2);
	p->session.r2t_max = 1 + isw_draw(w, 4);
	p->session.time2wait_s = 0;
}

static void wishes_draw(struct iscsi_world *w)
{
	struct isw_limits *l = &w->limits;

	for (uint32_t i = 0; i < ISW_HOSTS; i++) {
		iscsi_params_init(&l->wishes[i]);
		wish_draw(w, &l->wishes[i]);
		l->wishes[i].session.has_pdus_in_order = isw_draw(w, 2);
		l->wishes[i].session.has_sequences_in_order = isw_draw(w, 2);
		if (w->is_iser)
			isw_iser_wish(&l->wishes[i]);
	}
	iscsi_target_wish_init(&l->target_wish);
	wish_draw(w, &l->target_wish);
	l->target_wish.connection.header_digest = iscsi_list_of(ISCSI_DIGEST_NONE,
								ISCSI_DIGEST_CRC32C);
	l->target_wish.connection.data_digest = l->target_wish.connection.header_digest;
	l->target_wish.session.burst_bytes_max = draw_bytes(w, 6);
	if (isw_draw(w, 2) == 0)
		l->target_wish.session.r2t_max = 4;
}

static void faults_draw(struct iscsi_world *w)
{
	struct isw_limits *l = &w->limits;

	l->is_calm = isw_draw(w, 8) == 0;
	sim_faults_draw(&w->world.prng, &l->faults);
	if (l->is_calm) {
		l->faults.cut_ppm = l->faults.reset_ppm = 0;
		return;
	}
	l->fault_gap_ns = (uint64_t)MS << isw_draw(w, 9);
	l->weight_reset = draw_weight(w);
	l->weight_close = draw_weight(w);
	l->weight_cut = draw_weight(w);
	l->weight_kill = draw_weight(w);
	l->weight_power = draw_weight(w);
	l->weight_leave = draw_weight(w);
	l->weight_stick = draw_weight(w);
	l->weight_sick = draw_weight(w);
	l->corrupt_ppm = isw_draw(w, 3) == 0 ? isw_draw(w, CORRUPT_PPM) : 0;
	l->redirect_ppm = isw_draw(w, 3) == 0 ? isw_draw(w, 800000) : 0;
	l->device_ppm = isw_draw(w, 3) == 0 ? isw_draw(w, 50000) : 0;
}

static void patience_draw(struct iscsi_world *w)
{
	struct isw_limits *l = &w->limits;

	l->command_ns = 5 * SECOND;
	l->task_ns = 2 * SECOND;
	l->ping_after_ns = SECOND;
	l->ping_ns = SECOND;
	l->reconnect_ns = (uint64_t)MS << isw_draw(w, 9);
	l->target_ping_ns = SECOND;
	if (l->is_calm)
		l->command_ns = l->ping_ns = l->target_ping_ns = 100 * SECOND;
	if (l->is_calm || isw_draw(w, 2) == 0)
		return;
	l->command_ns = (uint64_t)(2 * MS) << isw_draw(w, 11);
	l->task_ns = (uint64_t)(2 * MS) << isw_draw(w, 9);
	l->ping_after_ns = (uint64_t)(10 * MS) << isw_draw(w, 7);
	l->ping_ns = (uint64_t)(50 * MS) << isw_draw(w, 5);
	l->target_ping_ns = (uint64_t)(50 * MS) << isw_draw(w, 5);
}

static void limits_draw(struct iscsi_world *w)
{
	struct isw_limits *l = &w->limits;

	faults_draw(w);
	patience_draw(w);
	wishes_draw(w);
	l->hosts = 1 + isw_draw(w, ISW_HOSTS);
	l->units = 1 + isw_draw(w, ISW_UNITS);
	l->asks = 20 + isw_draw(w, 60);
	l->is_private = isw_draw(w, 2);
	l->blocks_max = 1 + isw_draw(w, ISW_BLOCKS);
	l->hot_blocks = isw_draw(w, 2) == 0 ? 1 + isw_draw(w, 4) : 0;
	l->gap_ns = (uint64_t)(20 * US) << isw_draw(w, 10);
	l->away_ns = (uint64_t)MS << isw_draw(w, 10);
	l->overtake_ppm = isw_draw(w, 2) == 0 ? 0 : isw_draw(w, 900000);
	l->pipe_bytes = 1024U << isw_draw(w, 7);
	l->depth = 1 + isw_draw(w, ISW_ASKS);
	l->sges = 1 + isw_draw(w, 3);
	l->tags_max = isw_draw(w, 4) == 0 ? FULL_TAGS + isw_draw(w, 4) : 64;
	if (l->is_calm || w->is_iser)
		l->tags_max = 64;
	/* A command names one piece of memory. */
	if (w->is_iser)
		l->sges = 1;
	l->on_failure = isw_draw(w, 2) ? WEFT_FAIL_DRAIN : WEFT_FAIL_TERMINATE;
	l->recovery.reconnects_max = isw_draw(w, 4) == 0 ? isw_draw(w, 3) : 1000;
	l->recovery.retries_max = l->is_private ? 1 + isw_draw(w, 8) : 0;
	l->window = 1 + isw_draw(w, 10);
	l->sessions = ISW_HOSTS + isw_draw(w, 3);
	l->device_ns = (uint64_t)US << isw_draw(w, 13);
	l->delay_ns = isw_draw(w, 3) == 0 ? isw_draw(w, MS) : 0;
}

/* ---- Begin ---------------------------------------------------------------------------------- */

static void schedule_fault(struct iscsi_world *w)
{
	if (!w->limits.is_calm)
		world_schedule(&w->world, 1 + isw_draw_ns(w, 2 * w->limits.fault_gap_ns),
			       (struct world_event){ .kind = ISW_EV_FAULT });
}

static void schedule_ask(struct isw_host *h)
{
	world_schedule(&h->world->world, 1 + isw_draw_ns(h->world, 2 * h->world->limits.gap_ns),
		       (struct world_event){ .node = h->index, .kind = ISW_EV_ASK });
}

static void settle(struct iscsi_world *w);

int iscsi_world_open(struct iscsi_world *w, uint64_t seed, bool is_iser)
{
	const struct world_options o = { .seed = seed,
					 .events_max = EVENTS_MAX,
					 .trace_max = TRACE_EVENTS };

	memset(w, 0, sizeof(*w));
	if (world_init(&w->world, &o) < 0)
		return -1;
	w->is_iser = is_iser;
	limits_draw(w);
	w->target_due.event = (struct world_event){ .kind = ISW_EV_TARGET_DUE };
	for (uint32_t i = 0; i < ISW_LINKS; i++) {
		w->links[i].world = w;
		w->links[i].id = i;
		if (is_iser)
			tcp_link_init(&w->links[i].tcp, &w->world, i, ISW_EV_TCP);
	}
	isw_blocks_open(w);
	if (isw_units_open(w) < 0 || isw_target_start(w) < 0)
		return -1;
	for (uint32_t i = 0; i < w->limits.hosts; i++) {
		if (isw_host_start(w, i) < 0)
			return -1;
		w->hosts[i].asks_left = w->limits.asks;
		schedule_ask(&w->hosts[i]);
	}
	schedule_fault(w);
	world_schedule(&w->world, TICK_MS * (uint64_t)MS,
		       (struct world_event){ .kind = ISW_EV_PHASE });
	settle(w);
	return 0;
}

void iscsi_world_close(struct iscsi_world *w)
{
	for (uint32_t i = 0; i < w->limits.hosts; i++)
		if (w->hosts[i].is_up)
			isw_host_stop(&w->hosts[i]);
	isw_target_stop(w, true);
	for (uint32_t i = 0; i < ISW_LINKS; i++)
		isw_link_fini(&w->links[i]);
	isw_units_close(w);
	world_fini(&w->world);
}

const char *iscsi_world_failure(const struct iscsi_world *w)
{
	return w->failure;
}

/* ---- Faults --------------------------------------------------------------------------------- */

static void host_kill(struct iscsi_world *w, uint32_t host)
{
	if (!w->hosts[host].is_up)
		return;
	w->stops++;
	isw_host_stop(&w->hosts[host]);
	world_schedule(&w->world, 1 + isw_draw_ns(w, w->limits.away_ns),
		       (struct world_event){ .node = host, .kind = ISW_EV_START });
}

static void power_fail(struct iscsi_world *w)
{
	if (!w->node)
		return;
	isw_target_stop(w, true);
	world_schedule(&w->world, 1 + isw_draw_ns(w, w->limits.away_ns),
		       (struct world_event){ .kind = ISW_EV_TARGET_START });
}

static void fault_of(struct iscsi_world *w, uint32_t which)
{
	struct isw_link *l = &w->links[isw_draw(w, ISW_LINKS)];
	struct sim_disk *d = &w->units[isw_draw(w, w->limits.units)].disk;
	uint64_t until_ns = w->world.now_ns + isw_draw_ns(w, 4 * w->limits.away_ns);

	switch (which) {
	case 0:
		isw_link_reset(l);
		break;
	case 1: /* the end of one direction */
		isw_link_close(l, isw_draw(w, 2));
		break;
	case 2:
		isw_link_cut(l);
		break;
	case 3:
		host_kill(w, isw_draw(w, w->limits.hosts));
		break;
	case 4:
		power_fail(w);
		break;
	case 5:
		isw_target_stop(w, false);
		break;
	case 6:
		sim_disk_stick(d, until_ns);
		break;
	default:
		sim_disk_sicken(d, until_ns);
		break;
	}
}

static void fault(struct iscsi_world *w)
{
	const struct isw_limits *l = &w->limits;
	const uint32_t weights[] = { l->weight_reset, l->weight_close, l->weight_cut,
				     l->weight_kill,  l->weight_power, l->weight_leave,
				     l->weight_stick, l->weight_sick };
	uint32_t sum = 0, lot, which = 0;

	for (uint32_t i = 0; i < sizeof(weights) / sizeof(weights[0]); i++)
		sum += weights[i];
	if (sum == 0 || w->phase != ISW_RUN)
		return;
	lot = isw_draw(w, sum);
	while (lot >= weights[which])
		lot -= weights[which++];
	fault_of(w, which);
	schedule_fault(w);
}

/* ---- Phases --------------------------------------------------------------------------------- */

static void phase_move(struct iscsi_world *w, enum isw_phase to)
{
	w->phase = to;
	w->phase_ns = w->world.now_ns;
	w->audited = 0;
	isw_trace(w, ISW_TRACE_PHASE, 0, to, 0);
}

static bool has_asks(const struct iscsi_world *w)
{
	for (uint32_t i = 0; i < w->limits.hosts; i++)
		if (isw_asks_open(&w->hosts[i]) > 0)
			return true;
	return false;
}

static bool has_asks_left(const struct iscsi_world *w)
{
	for (uint32_t i = 0; i < w->limits.hosts; i++)
		if (w->hosts[i].asks_left > 0)
			return true;
	return false;
}

static bool is_all_in(const struct iscsi_world *w)
{
	for (uint32_t i = 0; i < w->limits.hosts; i++)
		if (!w->hosts[i].is_up ||
		    iscsi_initiator_state(w->hosts[i].session) != ISCSI_SESSION_FULL)
			return false;
	return w->node && !w->is_leaving;
}

static bool is_all_out(const struct iscsi_world *w)
{
	for (uint32_t i = 0; i < w->limits.hosts; i++)
		if (iscsi_initiator_state(w->hosts[i].session) != ISCSI_SESSION_ENDED)
			return false;
	return iscsi_node_is_idle(w->node);
}

static void calm(struct iscsi_world *w)
{
	for (uint32_t i = 0; i < ISW_LINKS; i++)
		isw_link_calm(&w->links[i]);
	for (uint32_t i = 0; i < w->limits.units; i++) {
		sim_disk_sicken(&w->units[i].disk, 0);
		w->units[i].disk.config.stuck_ppm = 0;
	}
	phase_move(w, ISW_REST);
}

/* No session is left at the target of a host that has another one, or has gone; and no task. */
static bool is_target_at_rest(const struct iscsi_world *w)
{
	struct iscsi_node_counts counts;

	iscsi_node_counts(w->node, &counts);
	return counts.sessions == w->limits.hosts && counts.connections == w->limits.hosts &&
	       counts.tasks == 0 && counts.memory_used == 0;
}

static void power_once_more(struct iscsi_world *w)
{
	isw_target_stop(w, true);
	for (uint32_t i = 0; i < ISW_LINKS; i++)
		isw_link_calm(&w->links[i]);
	world_schedule(&w->world, MS, (struct world_event){ .kind = ISW_EV_TARGET_START });
}

static void audit(struct iscsi_world *w, enum isw_phase next)
{
	if (!is_all_in(w) || has_asks(w))
		return;
	if (w->audited < w->limits.units) {
		isw_ask_audit(&w->hosts[0], w->audited);
		return;
	}
	if (!is_target_at_rest(w))
		return;
	phase_move(w, next);
	if (next == ISW_POWER) {
		power_once_more(w);
		return;
	}
	for (uint32_t i = 0; i < w->limits.hosts; i++)
		iscsi_initiator_logout(w->hosts[i].session, w->world.now_ns);
}

/* Why it does not come to rest. */
static void fail_to_rest(struct iscsi_world *w)
{
	struct iscsi_node_counts c = { 0 };

	if (w->node)
		iscsi_node_counts(w->node, &c);
	isw_fail(w,
		 "no rest in phase %u: %s; the target has %u sessions, %u connections of %u hosts, "
		 "%u tasks, %u bytes",
		 w->phase, has_asks(w) ? "requests do not end" : "no requests are open", c.sessions,
		 c.connections, w->limits.hosts, c.tasks, (uint32_t)c.memory_used);
}

static void phase_look(struct iscsi_world *w)
{
	switch (w->phase) {
	case ISW_RUN:
		if (!has_asks_left(w))
			calm(w);
		break;
	case ISW_REST:
		if (is_all_in(w) && !has_asks(w))
			phase_move(w, ISW_AUDIT);
		break;
	case ISW_AUDIT:
		audit(w, ISW_POWER);
		break;
	case ISW_POWER:
		audit(w, ISW_LEAVE);
		break;
	case ISW_LEAVE:
		if (is_all_out(w))
			phase_move(w, ISW_OVER);
		break;
	case ISW_OVER:
		break;
	}
	if (w->phase != ISW_RUN && w->world.now_ns - w->phase_ns > rest_ns)
		fail_to_rest(w);
	for (uint32_t i = 0; i < w->limits.hosts; i++)
		if (w->hosts[i].is_up)
			isw_asks_judge_memory(&w->hosts[i]);
	world_schedule(&w->world, TICK_MS * (uint64_t)MS,
		       (struct world_event){ .kind = ISW_EV_PHASE });
}

/* ---- The loop ------------------------------------------------------------------------------- */

/* A session that has given up: its process ends, and another one begins. */
static void replace_ended(struct iscsi_world *w)
{
	for (uint32_t i = 0; i < w->limits.hosts; i++) {
		struct isw_host *h = &w->hosts[i];

		if (!h->is_up || !h->is_ended || w->phase == ISW_LEAVE || w->phase == ISW_OVER)
			continue;
		if (w->limits.is_calm && w->phase == ISW_RUN)
			isw_fail(w, "host %u: its session has ended", i);
		isw_host_stop(h);
		world_schedule(&w->world, 1 + isw_draw_ns(w, w->limits.away_ns),
			       (struct world_event){ .node = i, .kind = ISW_EV_START });
	}
}

static void settle(struct iscsi_world *w)
{
	bool has_run = true;

	for (uint32_t turn = 0; has_run && !w->failure[0]; turn++) {
		has_run = false;
		for (uint32_t i = 0; i < w->limits.hosts; i++)
			has_run |= isw_host_run(&w->hosts[i]);
		has_run |= isw_target_run(w);
		if (turn > TURNS_MAX)
			isw_fail(w, "it never settles");
	}
	replace_ended(w);
}

static void ask(struct iscsi_world *w, struct isw_host *h)
{
	if (w->phase != ISW_RUN || h->asks_left == 0)
		return;
	h->asks_left--;
	if (h->is_up)
		isw_ask(h);
	schedule_ask(h);
}

static void link_event(struct iscsi_world *w, const struct world_event *e)
{
	struct isw_link *l = &w->links[e->node / 2];
	enum iscsi_side side = e->node % 2 ? ISCSI_TARGET : ISCSI_INITIATOR;

	if (e->kind == ISW_EV_READABLE)
		l->ends[side].is_readable = true;
	else if (e->kind == ISW_EV_WRITABLE)
		l->ends[side].is_blocked = false;
	else
		l->ends[side].is_held = false;
	isw_link_serve(l, side);
}

static void link_due(struct isw_link *l)
{
	if (!l->stream)
		return;
	iscsi_offload_expire(l->stream, l->world->world.now_ns);
	isw_link_serve(l, ISCSI_INITIATOR);
}

static void handle(struct iscsi_world *w, const struct world_event *e)
{
	switch ((enum isw_event)e->kind) {
	case ISW_EV_ASK:
		ask(w, &w->hosts[e->node]);
		break;
	case ISW_EV_HOST_DUE:
		iscsi_initiator_expire(w->hosts[e->node].session, w->world.now_ns);
		break;
	case ISW_EV_DIAL:
		isw_host_dialled(&w->hosts[e->node], e->arg);
		break;
	case ISW_EV_START:
		if (isw_host_start(w, e->node) < 0)
			isw_fail(w, "no memory for a host");
		break;
	case ISW_EV_TARGET_DUE:
		if (w->node)
			iscsi_node_expire(w->node, w->world.now_ns);
		break;
	case ISW_EV_TARGET_START:
		if (!w->node && isw_target_start(w) < 0)
			isw_fail(w, "no memory for a target");
		break;
	case ISW_EV_FAULT:
		fault(w);
		break;
	case ISW_EV_PHASE:
		phase_look(w);
		break;
	case ISW_EV_LINK_DUE:
		link_due(&w->links[e->node]);
		break;
	case ISW_EV_HOLD:
	case ISW_EV_READABLE:
	case ISW_EV_WRITABLE:
		link_event(w, e);
		break;
	default:
		tcp_end_event(&w->links[e->node / 2].tcp.ends[e->node % 2],
			      (enum tcp_event)(e->kind - ISW_EV_TCP));
		break;
	}
}

bool iscsi_world_step(struct iscsi_world *w)
{
	struct world_event e;

	if (w->failure[0] || w->phase == ISW_OVER || !world_next(&w->world, &e))
		return false;
	handle(w, &e);
	settle(w);
	if (++w->steps > STEPS_MAX)
		isw_fail(w, "too many events");
	return true;
}
