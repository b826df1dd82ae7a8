/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/iwarp/iwarp_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "sim/world/swarm.h"

enum iw_event {
	DO_ACT,	   /* node: process */
	DO_ANSWER, /* node: end */
	DO_ADAPTER,
	DO_TCP
};

enum {
	EVENTS_MAX = 4096,
	TRACE_EVENTS = 1 << 16,
	STEPS_MAX = 4000000,
	ROUNDS_MAX = 100000,
	CQ_ENTRIES = 1024,
	TAGS_MAX = 512,
	PPM = 1000000
};

/* Time from the last fault to rest; an end waits 2 s for a peer that does not close. */
static const uint64_t quiet_max_ns = UINT64_C(1) * 1000 * 1000 * 1000;
static const uint64_t quiet_deaf_max_ns = UINT64_C(5) * 1000 * 1000 * 1000;

static const struct {
	iw_action *act;
	uint32_t weight;
} actions[] = {
	{ iw_act_send, 12 },  { iw_act_write, 12 }, { iw_act_read, 10 },
	{ iw_act_atomic, 8 }, { iw_act_bind, 12 },  { iw_act_wrong, 6 },
	{ iw_act_pull, 2 },   { iw_act_state, 2 },  { iw_act_delay, 2 },
};

enum { ACTIONS = sizeof(actions) / sizeof(actions[0]) };

void iw_fail(struct iwarp_world *w, const char *format, ...)
{
	va_list args;

	if (w->failure[0])
		return;
	va_start(args, format);
	vsnprintf(w->failure, sizeof(w->failure), format, args);
	va_end(args);
}

/* ---- Processes ------------------------------------------------------------------------------ */

static int process_start(struct iwarp_world *w, uint32_t p)
{
	struct iw_process *proc = &w->processes[p];
	struct adapter_config config = {
		.options = { .tags_max = TAGS_MAX,
			     .translations_max = ATT_BLOCK_ENTRIES,
			     .qps_max = 2 * IW_LINKS,
			     .cqs_max = 1,
			     .srqs_max = 1,
			     .pds_max = 1,
			     .policy = w->limits.policy },
		.trace = &w->world.trace,
	};
	struct weft_pd_options pd = { 0 };
	const struct weft_cq_options cq = { .entries_max = CQ_ENTRIES };
	const struct weft_srq_options srq = { .recv_max = IW_RECVS, .sges_max = IW_PARTS };

	config.secret[0] = prng_next(&w->world.prng);
	config.secret[1] = prng_next(&w->world.prng);
	list_init(&proc->attention);
	proc->births++;
	proc->is_armed = false;
	if (adapter_init(&proc->adapter, &config) != WEFT_OK || iw_memory_open(w, p) < 0)
		return -1;
	pd.space = proc->space;
	if (pd_create(&proc->adapter, &pd, &proc->pd) != WEFT_OK ||
	    cq_create(&proc->adapter, &cq, &proc->cq) != WEFT_OK ||
	    srq_create(proc->pd, &srq, &proc->srq) != WEFT_OK)
		return -1;
	for (uint32_t i = 0; i < proc->slot_count; i++)
		iw_slot_open(w, p, &proc->slots[i]);
	for (uint32_t end = iw_end_next(w, p, IW_NONE); end != IW_NONE;
	     end = iw_end_next(w, p, end)) {
		if (iw_end_open(w, end) < 0)
			return -1;
	}
	return 0;
}

/* Destroys all objects of the process; none may be left. */
static void process_stop(struct iwarp_world *w, uint32_t p)
{
	struct iw_process *proc = &w->processes[p];
	struct mem_table *mem = &proc->adapter.mem;
	uint32_t pd = proc->pd->number;
	struct weft_usage usage;

	CHECK(srq_destroy(proc->srq) == WEFT_OK && cq_destroy(proc->cq) == WEFT_OK);
	for (uint32_t i = 0; i < proc->slot_count; i++) {
		const struct iw_slot *s = &proc->slots[i];

		/* It is unknown whether a bind in flight was done: try both tags. */
		(void)mem_window_unbind(mem, pd, s->window);
		(void)mem_window_unbind(mem, pd, s->window_next);
		if (s->window && mem_window_free(mem, pd, s->window) != WEFT_OK &&
		    mem_window_free(mem, pd, s->window_next) != WEFT_OK)
			iw_fail(w, "process %u: window 0x%08x cannot be freed", p, s->window);
		if (s->region && mem_region_deregister(mem, pd, s->region) != WEFT_OK)
			iw_fail(w, "process %u: region 0x%08x cannot go", p, s->region);
	}
	if (pd_destroy(proc->pd) != WEFT_OK || space_destroy(proc->space) != WEFT_OK)
		iw_fail(w, "process %u: its domain or space is still in use", p);
	adapter_usage(&proc->adapter, &usage);
	if (usage.tags_free != TAGS_MAX || usage.translations || usage.spaces || usage.pds ||
	    usage.cqs || usage.srqs || usage.qps)
		iw_fail(w, "process %u: %u tags and %u queue pairs are left", p,
			TAGS_MAX - usage.tags_free, usage.qps);
	iw_memory_close(proc);
	world_alarm_cancel(&w->world, &proc->due);
	if (adapter_fini(&proc->adapter) != WEFT_OK)
		iw_fail(w, "process %u: its adapter is still in use", p);
}

/* The process crashes: completions that its queue pairs owed are no longer checked. */
static void end_crash(struct iwarp_world *w, uint32_t end, bool is_reset)
{
	struct tcp_end *t = iw_tcp(w, end);
	struct iw_end *e = &w->ends[end];
	bool is_stream_first = iw_draw(w, 2) == 0;

	iw_allow_end(w, end);
	iw_allow(w, end ^ 1, WEFT_R_STREAM_CUT);
	if (is_stream_first)
		tcp_end_kill(t, is_reset);
	if (t->qp)
		qp_destroy(t->qp);
	t->qp = NULL;
	if (!is_stream_first)
		tcp_end_kill(t, is_reset);
	e->ended = e->posted;
	e->recvs.count = 0;
	e->is_live = false;
	e->is_frozen = true;
	e->is_left = true;
	w->ends[end ^ 1].settled = w->ends[end ^ 1].posted;
}

static void process_crash(struct iwarp_world *w, uint32_t p)
{
	bool is_reset = iw_draw(w, 2) == 0;

	iw_poll(w, p);
	iw_memory_judge(w, p);
	if (w->failure[0])
		return;
	for (uint32_t end = iw_end_next(w, p, IW_NONE); end != IW_NONE;
	     end = iw_end_next(w, p, end))
		end_crash(w, end, is_reset);
	w->processes[p].srq_recvs.count = 0;
	process_stop(w, p);
	CHECK(process_start(w, p) == 0);
	for (uint32_t end = iw_end_next(w, p, IW_NONE); end != IW_NONE;
	     end = iw_end_next(w, p, end)) {
		const struct iw_process *proc = &w->processes[p];

		for (uint32_t i = 0; i < proc->slot_count; i++) {
			if (proc->slots[i].kind == IW_WORD && proc->slots[i].end == end)
				w->ends[end ^ 1].word_now = iw_word_read(proc,
									 proc->slots[i].offset);
		}
		w->ends[end ^ 1].word_next = w->ends[end ^ 1].word_now;
	}
}

/* ---- What the seed draws -------------------------------------------------------------------- */

static void faults_draw(struct iwarp_world *w)
{
	static const uint32_t pipes[] = { 8, 64, 1024, 16384, 65536, 262144 };
	static const uint32_t lengths[] = { 60, 300, 1500, 4000, 12000, 40000, 150000 };
	struct iw_limits *l = &w->limits;
	uint32_t step, k = iw_draw(w, 7);

	sim_faults_draw(&w->world.prng, &l->faults);
	if (!l->has_resets)
		l->faults.reset_ppm = 0;
	/* Slow enough for actions to take effect. */
	l->gap_ns += (uint32_t)(l->faults.delay_max_ns >> iw_draw(w, 6));
	l->pipe_bytes = 1 + iw_draw(w, pipes[iw_draw(w, 6)]);
	step = l->pipe_bytes;
	if (l->faults.chunk_max_bytes > 0 && l->faults.chunk_max_bytes < step)
		step = l->faults.chunk_max_bytes;
	/* With small pieces every byte costs an event: keep messages small too. */
	while (k > 0 && lengths[k] / 128 > step)
		k--;
	if (k == 6 && iw_draw(w, 2) == 0)
		k = 5;
	l->length_max = 8 + iw_draw(w, lengths[k]);
	l->slot_bytes = l->length_max + 64;
	if (k >= 5) {
		l->link_count = 1;
		l->process_count = 2;
		l->actions = l->actions / 2 + 1;
	}
}

static void limits_draw(struct iwarp_world *w)
{
	static const uint32_t mischief[] = { 0, 0, 50000, 200000, PPM };
	struct iw_limits *l = &w->limits;
	uint32_t on_ppm = iw_draw(w, PPM);

	l->process_count = 2 + iw_draw(w, IW_PROCESSES - 1);
	l->link_count = 1 + iw_draw(w, IW_LINKS);
	l->actions = 20 + iw_draw(w, 150);
	l->gap_ns = 1U << (8 + iw_draw(w, 14));
	l->burst = 1 + iw_draw(w, 4);
	l->policy = (enum weft_policy)iw_draw(w, 2);
	l->has_srq = iw_draw(w, 2) == 0;
	l->is_honest = iw_draw(w, 3) == 0;
	if (!l->is_honest) {
		l->has_resets = prng_chance(&w->world.prng, on_ppm);
		l->has_corruption = prng_chance(&w->world.prng, on_ppm);
		l->has_crashes = prng_chance(&w->world.prng, on_ppm);
		l->has_leaving = prng_chance(&w->world.prng, on_ppm);
		l->has_pulling = prng_chance(&w->world.prng, on_ppm);
		l->is_lazy = prng_chance(&w->world.prng, on_ppm);
		l->mischief_ppm = mischief[iw_draw(w, 5)];
	}
	for (uint32_t i = 0; i < ACTIONS; i++) {
		l->weights[i] = iw_draw(w, 6) == 0 ? 0 : 1 + iw_draw(w, actions[i].weight);
		l->weight_sum += l->weights[i];
	}
	faults_draw(w);
}

static void links_draw(struct iwarp_world *w)
{
	for (uint32_t i = 0; i < w->limits.link_count; i++) {
		uint32_t p = iw_draw(w, w->limits.process_count);
		uint32_t q = (p + 1 + iw_draw(w, w->limits.process_count - 1)) %
			     w->limits.process_count;

		tcp_link_init(&w->links[i], &w->world, i, DO_TCP);
		w->ends[2 * i].process = p;
		w->ends[2 * i + 1].process = q;
		for (uint32_t side = 0; side < 2; side++)
			w->ends[2 * i + side].has_srq = w->limits.has_srq && iw_draw(w, 2) == 0;
	}
}

int iwarp_world_open(struct iwarp_world *w, uint64_t seed)
{
	const struct world_options o = {
		.seed = seed,
		.events_max = EVENTS_MAX,
		.trace_max = TRACE_EVENTS,
	};

	memset(w, 0, sizeof(*w));
	if (world_init(&w->world, &o) < 0)
		return -1;
	w->id_next = 1;
	limits_draw(w);
	links_draw(w);
	for (uint32_t p = 0; p < w->limits.process_count; p++) {
		struct iw_process *proc = &w->processes[p];

		proc->due.event = (struct world_event){ .node = p, .kind = DO_ADAPTER };
		proc->actions_left = w->limits.actions;
		if (process_start(w, p) < 0)
			return -1;
		world_schedule(&w->world, iw_draw(w, w->limits.gap_ns),
			       (struct world_event){ .node = p, .kind = DO_ACT });
	}
	for (uint32_t i = 0; i < w->limits.link_count; i++)
		iw_dial(w, i);
	return 0;
}

/* ---- The loop ------------------------------------------------------------------------------- */

void iw_settle(struct iwarp_world *w, uint32_t p)
{
	struct iw_process *proc = &w->processes[p];
	struct iwarp_stream *s;
	uint32_t rounds = 0;

	do {
		while (adapter_progress(&proc->adapter, w->world.now_ns) && rounds < ROUNDS_MAX)
			rounds++;
		s = iwarp_attend(&proc->attention);
		if (s)
			tcp_end_service(iwarp_owner(s));
		if (rounds++ > ROUNDS_MAX) {
			iw_fail(w, "process %u does not come to rest", p);
			return;
		}
	} while (s || !list_is_empty(&proc->adapter.ready));
	world_alarm_set(&w->world, &proc->due, adapter_due(&proc->adapter));
	iw_judge_ends(w, p);
}

static void answers_plan(struct iwarp_world *w)
{
	for (uint32_t end = 0; end < 2 * w->limits.link_count; end++) {
		if (!iw_tcp(w, end)->has_request || w->ends[end].is_deciding)
			continue;
		w->ends[end].is_deciding = true;
		world_schedule(&w->world, iw_draw(w, w->limits.gap_ns),
			       (struct world_event){ .node = end, .kind = DO_ANSWER });
	}
}

/* Reopens closed slots now and then. */
static void slots_open(struct iwarp_world *w, uint32_t p)
{
	struct iw_process *proc = &w->processes[p];

	for (uint32_t i = 0; i < proc->slot_count; i++) {
		struct iw_slot *s = &proc->slots[i];

		if (!s->region || iw_draw(w, s->window ? 24 : 4) == 0)
			iw_slot_open(w, p, s);
	}
}

/* An end stops or resumes reading. */
static void stop_delivery(struct iwarp_world *w, uint32_t end)
{
	struct tcp_end *t = iw_tcp(w, end);

	t->is_deaf = t->phase == TCP_STREAM && !t->is_deaf;
	tcp_end_service(t);
	iw_settle(w, w->ends[end].process);
}

/* Faults of whole processes and connections. */
static bool disaster(struct iwarp_world *w, uint32_t p)
{
	uint32_t link = iw_draw(w, w->limits.link_count), end = 2 * link + iw_draw(w, 2);

	if (w->limits.has_crashes && iw_draw(w, 60) == 0) {
		process_crash(w, p);
		return true;
	}
	if (w->limits.has_resets && iw_draw(w, 20) == 0) {
		if (iw_draw(w, 2) == 0)
			tcp_link_reset(&w->links[link]);
		else
			stop_delivery(w, end);
		return true;
	}
	/* Leave while the pipe is full, so that not even the close can be sent. */
	if (iw_tcp(w, end ^ 1)->is_deaf && iw_tcp(w, end)->is_blocked &&
	    w->ends[end].process == p && iw_draw(w, 2) == 0) {
		iw_leave(w, end);
		return true;
	}
	if (w->limits.has_leaving && iw_draw(w, 30) == 0 && w->ends[end].process == p) {
		iw_leave(w, end);
		return true;
	}
	if (tcp_link_is_over(&w->links[link]) && iw_draw(w, 4) == 0) {
		iw_dial(w, link);
		return true;
	}
	return false;
}

static void receive_lazily(struct iwarp_world *w, uint32_t p)
{
	uint32_t end = iw_draw(w, 2 * w->limits.link_count);

	if (w->ends[end].process == p)
		iw_receive_one(w, end);
}

static void act_once(struct iwarp_world *w, uint32_t p)
{
	uint32_t pick, i = 0;

	if (w->limits.weight_sum == 0)
		return;
	pick = iw_draw(w, w->limits.weight_sum);
	while (pick >= w->limits.weights[i])
		pick -= w->limits.weights[i++];
	actions[i].act(w, p);
}

static void process_act(struct iwarp_world *w, uint32_t p)
{
	struct iw_process *proc = &w->processes[p];

	if (proc->actions_left == 0 || w->is_quiet)
		return;
	proc->actions_left--;
	slots_open(w, p);
	if (!w->limits.is_lazy)
		iw_receive_all(w, p);
	else if (iw_draw(w, 3) == 0)
		receive_lazily(w, p);
	if (!disaster(w, p)) {
		for (uint32_t n = 1 + iw_draw(w, w->limits.burst); n > 0 && !w->failure[0]; n--)
			act_once(w, p);
	}
	if (iw_draw(w, 2) == 0)
		iw_poll(w, p);
	if (iw_draw(w, 3) == 0)
		iw_memory_judge(w, p);
	world_schedule(&w->world, iw_draw(w, w->limits.gap_ns),
		       (struct world_event){ .node = p, .kind = DO_ACT });
}

static void wake(struct iwarp_world *w, uint32_t end)
{
	const struct tcp_end *t = iw_tcp(w, end);
	struct iw_end *e = &w->ends[end];

	iw_resume(w, end);
	if (e->is_live && !e->is_awake && t->terms.is_initiator && t->qp &&
	    t->qp->state == WEFT_QPS_RTS && e->posted < IW_LOG)
		e->is_awake = iw_wake(w, end);
}

/* In the quiet phase a process only does what lets others finish. */
static void quiet_act(struct iwarp_world *w, uint32_t p)
{
	do {
		iw_poll(w, p);
		slots_open(w, p);
		iw_receive_all(w, p);
		for (uint32_t end = iw_end_next(w, p, IW_NONE); end != IW_NONE && !w->failure[0];
		     end = iw_end_next(w, p, end))
			wake(w, end);
		iw_settle(w, p);
	} while (w->processes[p].cq->count > 0 && !w->failure[0]);
}

/* Begins the quiet phase: no new work, no faults; everything in progress must end. */
static void quiet_begin(struct iwarp_world *w)
{
	w->is_quiet = true;
	w->quiet_ns = w->world.now_ns;
	for (uint32_t i = 0; i < w->limits.link_count; i++) {
		tcp_link_calm(&w->links[i]);
		/* A corrupted length may keep a stream waiting for ever. */
		if (w->links[i].ends[0].is_corrupted || w->links[i].ends[1].is_corrupted)
			tcp_link_reset(&w->links[i]);
	}
	for (uint32_t end = 0; end < 2 * w->limits.link_count && !w->failure[0]; end++) {
		bool is_ending = iw_tcp(w, end ^ 1)->phase == TCP_STREAM &&
				 !w->ends[end ^ 1].is_live;

		/* If the peer is closing, it must succeed without this end's help. */
		if (iw_tcp(w, end)->is_deaf && !is_ending)
			stop_delivery(w, end);
	}
	for (uint32_t p = 0; p < w->limits.process_count && !w->failure[0]; p++)
		quiet_act(w, p);
}

static void finish(struct iwarp_world *w)
{
	bool is_deaf = w->limits.has_resets || w->limits.has_crashes;

	w->is_over = true;
	iw_judge_quiet(w);
	if (w->world.now_ns - w->quiet_ns > (is_deaf ? quiet_deaf_max_ns : quiet_max_ns))
		iw_fail(w, "it took %u ms to come to rest",
			(uint32_t)((w->world.now_ns - w->quiet_ns) / 1000000));
	for (uint32_t i = 0; i < w->limits.link_count; i++)
		w->corruptions += w->links[i].corruptions;
	if (w->failure[0])
		return;
	for (uint32_t end = 0; end < 2 * w->limits.link_count; end++)
		end_crash(w, end, true);
	for (uint32_t p = 0; p < w->limits.process_count; p++)
		process_stop(w, p);
}

static bool are_all_done(const struct iwarp_world *w)
{
	for (uint32_t p = 0; p < w->limits.process_count; p++) {
		if (w->processes[p].actions_left > 0)
			return false;
	}
	return true;
}

/* Delivers an event. */
static void event_do(struct iwarp_world *w, const struct world_event *e)
{
	uint32_t p = e->node;

	if (e->kind == DO_ACT) {
		process_act(w, p);
	} else if (e->kind == DO_ANSWER) {
		p = w->ends[e->node].process;
		w->ends[e->node].is_deciding = false;
		tcp_end_answer(iw_tcp(w, e->node), w->limits.is_honest || iw_draw(w, 8) > 0);
	} else if (e->kind >= DO_TCP) {
		p = w->ends[e->node].process;
		tcp_end_event(iw_tcp(w, e->node), (enum tcp_event)(e->kind - DO_TCP));
	}
	if (w->failure[0])
		return;
	iw_settle(w, p);
	if (w->is_quiet && !w->failure[0])
		quiet_act(w, p);
	answers_plan(w);
}

bool iwarp_world_step(struct iwarp_world *w)
{
	struct world_event e;

	if (w->is_over || w->failure[0])
		return false;
	if (!w->is_quiet && are_all_done(w))
		quiet_begin(w);
	if (!world_next(&w->world, &e)) {
		finish(w);
		return false;
	}
	event_do(w, &e);
	if (w->steps++ > STEPS_MAX)
		iw_fail(w, "it does not come to an end");
	return !w->failure[0];
}

const char *iwarp_world_failure(const struct iwarp_world *w)
{
	return w->failure;
}

/* After a failed check the system is inconsistent: its objects are not destroyed. */
void iwarp_world_close(struct iwarp_world *w)
{
	if (!w->failure[0]) {
		for (uint32_t i = 0; i < w->limits.link_count; i++)
			tcp_link_fini(&w->links[i]);
	}
	world_fini(&w->world);
}
