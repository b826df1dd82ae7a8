/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/fabric/fabric_load.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cursor.h"
#include "base/prng.h"
#include "fabric/node.h"
#include "fabric/wheel.h"

enum {
	FRAME_PAYLOAD = 4096,
	MESSAGE_MAX = 1 << 20,
	HEADERS = IBA_LRH_BYTES + 20, /* BTH and DETH */
	TAIL = IBA_ICRC_BYTES + IBA_VCRC_BYTES,
	UNIT_EVERY = 8,
	QUEUES = 2, /* of data; of probes */
	X16 = 16,
	SUB_BITS = 3,	      /* slots in a power of 2 */
	STILL_NS = 1000000,   /* without a message until a deadlock is looked for */
	TOP_OF_HEAD_LIFE = 31 /* without end */
};

/* What a frame is part of. */
enum kind {
	KIND_DATA, /* ends with its receiver */
	KIND_PROBE,
	KIND_READ,
	KIND_WRITE,
	KIND_FETCH,
	KIND_BLOCK, /* of a write */
	KIND_DONE
};

struct item {
	uint64_t begin_ns; /* of the message, or of what asked for it */
	uint32_t to, left;
	enum kind kind;
};

/* Messages that wait at their sender. */
struct queue {
	struct item *items; /* a ring */
	uint32_t first, count, room;
};

struct end {
	uint32_t node, port;
	uint16_t lid;
	uint32_t to; /* permutation */
	struct queue queues[QUEUES];
	struct wheel_timer timers[QUEUES];
	uint32_t made[QUEUES];
};

struct fabric_load {
	struct fabric_load_cfg cfg;
	struct fabric *f;
	struct wheel *wheel;
	uint64_t now_ns, last_ns, start_ns;
	uint64_t gap_x16[QUEUES];
	struct end *ends;
	uint32_t *end_of; /* of a node; UINT32_MAX: none */
	uint32_t count, units;
	uint64_t flit_x16;  /* on a cable of full rate */
	uint32_t *divisors; /* of cables */
	bool is_out_of_memory, has_looked;
	struct fabric_load_report report;
	uint8_t frame[IBA_FRAME_MAX];
};

/* ---- Times ---------------------------------------------------------------------------------- */

static uint32_t slot_of(uint64_t ns)
{
	uint32_t log;

	if (ns < 1 << SUB_BITS)
		return (uint32_t)ns;
	log = 63 - (uint32_t)__builtin_clzll(ns);
	return (log - SUB_BITS + 1) << SUB_BITS | (uint32_t)(ns >> (log - SUB_BITS) & 7);
}

uint64_t fabric_load_slot_ns(uint32_t slot)
{
	uint32_t power = slot >> SUB_BITS;

	return power == 0 ? slot : (uint64_t)(8 | (slot & 7)) << (power - 1);
}

static void time_add(struct fabric_load_times *t, uint64_t ns)
{
	t->least_ns = t->count == 0 || ns < t->least_ns ? ns : t->least_ns;
	t->most_ns = ns > t->most_ns ? ns : t->most_ns;
	t->count++;
	t->sum_ns += ns;
	t->slots[slot_of(ns)]++;
}

uint64_t fabric_load_quantile(const struct fabric_load_times *t, uint32_t per_thousand)
{
	uint64_t seen = 0;

	for (uint32_t slot = 0; slot < FABRIC_LOAD_SLOTS - 1; slot++) {
		seen += t->slots[slot];
		if (seen > 0 && seen * 1000 >= t->count * per_thousand) {
			uint64_t end_ns = fabric_load_slot_ns(slot + 1) - 1;

			return end_ns < t->most_ns ? end_ns : t->most_ns;
		}
	}
	return t->most_ns;
}

/* ---- Frames --------------------------------------------------------------------------------- */

static void queue_put(struct fabric_load *l, struct queue *q, const struct item *item)
{
	if (q->count == q->room) {
		uint32_t room = q->room > 0 ? 2 * q->room : 16;
		struct item *items = malloc(room * sizeof(*items));

		if (!items) {
			l->is_out_of_memory = true;
			return;
		}
		for (uint32_t i = 0; i < q->count; i++)
			items[i] = q->items[(q->first + i) % q->room];
		free(q->items);
		*q = (struct queue){ .items = items, .count = q->count, .room = room };
	}
	q->items[(q->first + q->count++) % q->room] = *item;
}

/* Where a frame is made: what is more than a beginning is not copied from there. */
static uint8_t *room_of(struct fabric_load *l, uint32_t bytes)
{
	uint8_t *room = bytes > FABRIC_LOAD_PROBE_BYTES ? fabric_room(l->f) : NULL;

	if (!room)
		return l->frame;
	memcpy(room, l->frame, HEADERS + FABRIC_LOAD_PROBE_BYTES);
	return room;
}

/* Its payload is as long as it says; only its beginning means something. */
static bool frame_post(struct fabric_load *l, const struct end *from, const struct item *item,
		       bool is_probe)
{
	uint32_t bytes = item->left < FRAME_PAYLOAD ? item->left : FRAME_PAYLOAD;
	const struct iba_lrh h = {
		.level = is_probe ? FABRIC_LOAD_PRIORITY : 0,
		.next = IBA_NEXT_BTH,
		.to = l->ends[item->to].lid,
		.from = from->lid,
		.bytes = HEADERS + bytes + IBA_ICRC_BYTES,
	};
	uint8_t *frame = room_of(l, bytes);
	struct wr w = wr_of(frame + HEADERS, FABRIC_LOAD_PROBE_BYTES);

	iba_lrh_encode(&h, frame);
	wr_u64(&w, item->begin_ns);
	wr_u32(&w, (uint32_t)(from - l->ends));
	wr_u8(&w, (uint8_t)item->kind);
	wr_u8(&w, item->left == bytes);
	return fabric_post(l->f, from->node, from->port, frame, HEADERS + bytes + TAIL);
}

/* As much as there is room for. */
static void push(struct fabric_load *l, struct end *e)
{
	for (uint32_t i = QUEUES; i > 0; i--) {
		struct queue *q = &e->queues[i - 1];

		while (q->count > 0 && frame_post(l, e, &q->items[q->first], i - 1 > 0)) {
			struct item *item = &q->items[q->first];

			item->left -= item->left < FRAME_PAYLOAD ? item->left : FRAME_PAYLOAD;
			if (item->left > 0)
				continue;
			q->first = (q->first + 1) % q->room;
			q->count--;
		}
	}
}

static void ended(struct fabric_load *l, struct fabric_load_times *t, uint64_t begin_ns)
{
	l->report.came++;
	l->last_ns = l->now_ns;
	l->report.ns = l->now_ns - l->start_ns;
	time_add(t, l->now_ns - begin_ns);
}

static void answer(struct fabric_load *l, struct end *e, struct item item, enum kind kind,
		   uint32_t bytes)
{
	item.kind = kind;
	item.left = bytes;
	queue_put(l, &e->queues[0], &item);
}

/* The last frame of a message has come. */
static void message_act(struct fabric_load *l, struct end *e, const struct item *from)
{
	switch (from->kind) {
	case KIND_DATA:
	case KIND_DONE:
		ended(l, &l->report.times, from->begin_ns);
		break;
	case KIND_PROBE:
		ended(l, &l->report.probes, from->begin_ns);
		break;
	case KIND_READ:
		answer(l, e, *from, KIND_DATA, l->cfg.bytes);
		break;
	case KIND_WRITE:
		answer(l, e, *from, KIND_FETCH, FABRIC_LOAD_PROBE_BYTES);
		break;
	case KIND_FETCH:
		answer(l, e, *from, KIND_BLOCK, l->cfg.bytes);
		break;
	case KIND_BLOCK:
		answer(l, e, *from, KIND_DONE, FABRIC_LOAD_PROBE_BYTES);
		break;
	}
}

static void frame_take(struct fabric_load *l, struct end *e, const uint8_t *bytes, uint32_t length)
{
	struct rd r = rd_of(bytes + HEADERS, length - HEADERS);
	struct item item = { .begin_ns = rd_u64(&r), .left = 0 };
	uint8_t kind;

	l->report.bytes += length - HEADERS - TAIL;
	item.to = rd_u32(&r);
	kind = rd_u8(&r);
	if (rd_u8(&r) == 0 || r.is_short || item.to >= l->count || kind > KIND_DONE)
		return; /* more of it follows, or it is none of ours */
	item.kind = (enum kind)kind;
	message_act(l, e, &item);
}

static void end_take(struct fabric_load *l, struct end *e)
{
	const uint8_t *bytes;
	uint32_t length;

	while ((length = fabric_peek(l->f, e->node, e->port, &bytes)) > 0) {
		frame_take(l, e, bytes, length);
		fabric_pass(l->f, e->node, e->port);
	}
}

/* ---- What is sent --------------------------------------------------------------------------- */

static bool is_unit(const struct fabric_load *l, uint32_t end)
{
	return l->cfg.kind == FABRIC_LOAD_STORAGE && end % UNIT_EVERY == 0;
}

static bool is_sender(const struct fabric_load *l, uint32_t end)
{
	return !is_unit(l, end) && (l->cfg.kind != FABRIC_LOAD_INCAST || end > 0);
}

/* A number that depends on what it is for only. */
static uint64_t draw(const struct fabric_load *l, uint32_t end, uint32_t queue, uint32_t number)
{
	return prng_mix(prng_mix(l->cfg.seed + ((uint64_t)end << 33 | (uint64_t)queue << 32)) +
			number);
}

static uint32_t receiver_of(const struct fabric_load *l, uint32_t end, uint32_t number)
{
	switch (l->cfg.kind) {
	case FABRIC_LOAD_INCAST:
		return 0;
	case FABRIC_LOAD_PERMUTATION:
		return l->ends[end].to;
	case FABRIC_LOAD_STORAGE:
		return (uint32_t)(draw(l, end, 3, number) % l->units) * UNIT_EVERY;
	case FABRIC_LOAD_ALL_TO_ALL:
	default:
		return (end + 1 + number % (l->count - 1)) % l->count;
	}
}

static void item_make(struct fabric_load *l, uint32_t end, uint32_t queue)
{
	struct end *e = &l->ends[end];
	uint32_t number = e->made[queue]++;
	struct item item = { .begin_ns = l->now_ns, .to = receiver_of(l, end, number) };

	if (queue > 0) {
		item.kind = KIND_PROBE;
		item.left = FABRIC_LOAD_PROBE_BYTES;
	} else if (l->cfg.kind == FABRIC_LOAD_STORAGE) {
		item.kind = draw(l, end, 2, number) & 1 ? KIND_READ : KIND_WRITE;
		item.left = FABRIC_LOAD_PROBE_BYTES;
	} else {
		item.left = l->cfg.bytes;
	}
	queue_put(l, &e->queues[queue], &item);
}

/* Its slot begins number gaps after the start; where in it, is drawn. */
static void timer_set(struct fabric_load *l, uint32_t end, uint32_t queue)
{
	struct end *e = &l->ends[end];
	uint64_t gap = l->gap_x16[queue], number = e->made[queue];

	if (number < (queue > 0 ? l->cfg.probes : l->cfg.messages))
		wheel_set(l->wheel, &e->timers[queue],
			  l->start_ns +
				  (number * gap + draw(l, end, queue, (uint32_t)number) % gap) /
					  X16);
}

static void timer_work(struct fabric_load *l, const struct wheel_timer *t)
{
	uint32_t queue = t->kind, end = t->of;

	item_make(l, end, queue);
	timer_set(l, end, queue);
	push(l, &l->ends[end]);
}

/* What the next senders need is fetched from memory before it is their turn. */
static void look_ahead(const struct fabric_load *l)
{
	enum { NEAR = 2, FAR = 4 };
	const struct wheel_timer *t = wheel_next(l->wheel, true);

	for (uint32_t i = 1; t && i <= FAR; i++) {
		const struct end *e = &l->ends[t->of];

		if (i == NEAR || i == FAR)
			fabric_fetch(l->f, e->node, e->port, i == NEAR);
		t = wheel_after(l->wheel, t);
		if (i == FAR && t)
			__builtin_prefetch(t);
	}
}

/* ---- Life ----------------------------------------------------------------------------------- */

static uint32_t rate_max(const struct topology *t)
{
	uint32_t most = 0;

	for (uint32_t node = 0; node < t->node_count; node++)
		for (uint32_t port = 1; port <= t->nodes[node].ports; port++) {
			uint32_t mbps = topology_rate_mbps(t->nodes[node].port[port].rate);

			most = mbps > most ? mbps : most;
		}
	return most;
}

/* Cables that are slower than the fastest. */
static void rates_set(struct fabric_load *l, const struct topology *t)
{
	for (uint32_t cable = 0; cable < fabric_cable_count(l->f); cable++) {
		uint32_t node[2], port[2], mbps;

		fabric_cable_ends(l->f, cable, node, port);
		mbps = topology_rate_mbps(t->nodes[node[0]].port[port[0]].rate);
		l->divisors[cable] = 1;
		if (mbps == 0 || mbps >= l->report.mbps)
			continue;
		l->divisors[cable] = (l->report.mbps + mbps / 2) / mbps;
		fabric_degrade(l->f, cable, l->divisors[cable]);
	}
}

static bool ends_find(struct fabric_load *l, const struct topology *t)
{
	l->ends = calloc(t->node_count + 1U, sizeof(*l->ends));
	l->end_of = malloc((t->node_count + 1U) * sizeof(*l->end_of));
	l->divisors = calloc(t->cable_count + 1U, sizeof(*l->divisors));
	l->report.lines = calloc(2 * (size_t)t->cable_count + 1, sizeof(*l->report.lines));
	if (!l->ends || !l->end_of || !l->divisors || !l->report.lines)
		return false;
	for (uint32_t node = 0; node < t->node_count; node++) {
		const struct topology_node *n = &t->nodes[node];
		uint32_t port = 1;

		l->end_of[node] = UINT32_MAX;
		while (port <= n->ports && n->port[port].node == TOPOLOGY_NONE)
			port++;
		if (n->type != SM_NODE_CA || port > n->ports)
			continue;
		l->end_of[node] = l->count;
		l->ends[l->count].node = node;
		l->ends[l->count].port = port;
		l->ends[l->count].timers[0].of = l->ends[l->count].timers[1].of = l->count;
		l->ends[l->count].timers[1].kind = 1;
		l->count++;
	}
	return true;
}

static enum weft_reason engine_open(struct fabric_load *l, const struct topology *t)
{
	struct fabric_cfg cfg = {
		.link = { .lanes = l->cfg.lanes,
			  .lane_blocks = 256,
			  .run_flits = l->cfg.run_flits,
			  .ack_delay_ns = 500,
			  .resend_ns = 50000 },
		.linear_max = 2 * t->node_count + 64,
		.multicast_max = 1,
		.cable_ns = 25,
		.switch_ns = 100,
		.is_cut_through = l->cfg.is_cut_through,
		.seed = l->cfg.seed,
		.memory_told = l->cfg.memory_told,
	};
	enum { FLIT_MBPS_X16 = FLIT_BYTES_MAX * 8 * 1000 * X16 };

	l->report.mbps = rate_max(t);
	if (l->report.mbps == 0)
		l->report.mbps = l->cfg.mbps;
	l->flit_x16 = FLIT_MBPS_X16 / l->report.mbps;
	cfg.flit_ns_x16 = l->flit_x16;
	if (cfg.linear_max > IBA_LID_MULTICAST_MIN)
		cfg.linear_max = IBA_LID_MULTICAST_MIN;
	return fabric_open(t, &cfg, &l->f);
}

static void run_until(struct fabric_load *l, uint64_t until_ns)
{
	uint64_t due_ns;

	while ((due_ns = fabric_due(l->f)) <= until_ns) {
		l->now_ns = due_ns > l->now_ns ? due_ns : l->now_ns;
		fabric_run(l->f, l->now_ns);
	}
}

/* Of each link: the lane of probes before all others; and no frame is too old. */
static void ports_set(struct fabric_load *l)
{
	for (uint32_t node = 0; node < fabric_node_count(l->f); node++) {
		struct fabric_node *n = fabric_node_at(l->f, node);

		n->switch_info.life_time = TOP_OF_HEAD_LIFE;
		for (uint32_t port = 1; port <= n->cfg.ports; port++) {
			struct fabric_arbiter *a = &n->ports[port].arbiter;

			n->ports[port].info.head_of_queue_life = TOP_OF_HEAD_LIFE;
			if (l->cfg.lanes <= FABRIC_LOAD_PRIORITY || l->cfg.probes == 0)
				continue;
			a->high_limit = FABRIC_LIMIT_NONE;
			a->high.lanes[0] = FABRIC_LOAD_PRIORITY;
			a->high.weights[0] = UINT8_MAX;
			a->low.weights[0] = UINT8_MAX;
		}
		fabric_touch(l->f, node);
	}
}

/* One circle through all: each sends to the next. */
static void permutation_draw(struct fabric_load *l)
{
	struct prng prng = { .state = l->cfg.seed };
	uint32_t *order = malloc(l->count * sizeof(*order));

	l->is_out_of_memory |= !order;
	for (uint32_t i = 0; order && i < l->count; i++) {
		uint32_t at = prng_below(&prng, i + 1);

		order[i] = order[at];
		order[at] = i;
	}
	for (uint32_t i = 0; order && i < l->count; i++)
		l->ends[order[i]].to = order[(i + 1) % l->count];
	free(order);
}

/* How long an endnode that gets most would take for one message of each of its senders. */
static void gaps_set(struct fabric_load *l)
{
	uint32_t full = l->cfg.bytes / FRAME_PAYLOAD, rest = l->cfg.bytes % FRAME_PAYLOAD;
	uint64_t flits = (uint64_t)full * flits_of(FRAME_PAYLOAD + HEADERS + TAIL) +
			 (rest > 0 ? flits_of(rest + HEADERS + TAIL) : 0);
	uint64_t senders = 1;

	if (l->cfg.kind == FABRIC_LOAD_INCAST)
		senders = l->count - 1;
	if (l->cfg.kind == FABRIC_LOAD_STORAGE)
		senders = (l->count - l->units + l->units - 1) / l->units;
	l->gap_x16[0] = flits * l->flit_x16 * senders * 100 / l->cfg.load_percent + 1;
	l->gap_x16[1] = l->gap_x16[0];
	if (l->cfg.probes > 0 && l->cfg.messages > 0)
		l->gap_x16[1] = l->gap_x16[0] * l->cfg.messages / l->cfg.probes + 1;
}

static void traffic_begin(struct fabric_load *l)
{
	static const uint8_t payload[FRAME_PAYLOAD];
	const struct iba_frame f = { .packet = { .opcode = IBA_UD_SEND,
						 .p_key = IBA_PKEY_DEFAULT,
						 .dest_qp = 7,
						 .payload = payload,
						 .payload_bytes = FRAME_PAYLOAD } };

	(void)iba_frame_encode(&f, l->frame);
	if (l->cfg.kind == FABRIC_LOAD_PERMUTATION)
		permutation_draw(l);
	gaps_set(l);
	for (uint32_t end = 0; end < l->count; end++) {
		struct end *e = &l->ends[end];

		e->lid = fabric_node_at(l->f, e->node)->ports[e->port].info.lid;
		if (!is_sender(l, end))
			continue;
		l->report.senders++;
		l->report.expected += l->cfg.messages + l->cfg.probes;
		timer_set(l, end, 0);
		timer_set(l, end, 1);
	}
}

static enum weft_reason load_begin(struct fabric_load *l, const struct topology *t)
{
	enum { REST_NS = 100000 };
	enum weft_reason reason;

	l->wheel = wheel_open(0);
	if (!l->wheel || !ends_find(l, t))
		return WEFT_R_NO_MEMORY;
	l->report.endnodes = l->count;
	l->units = (l->count + UNIT_EVERY - 1) / UNIT_EVERY;
	if (l->count < 2)
		return WEFT_R_TOPOLOGY_LIMIT;
	reason = engine_open(l, t);
	if (reason != WEFT_OK)
		return reason;
	run_until(l, REST_NS);
	if (fabric_setup(l->f, l->cfg.routing) < 0)
		return WEFT_R_TOPOLOGY_LIMIT;
	rates_set(l, t);
	ports_set(l);
	run_until(l, 2 * REST_NS);
	l->start_ns = l->last_ns = l->now_ns; /* from here on times count */
	traffic_begin(l);
	return l->is_out_of_memory ? WEFT_R_NO_MEMORY : WEFT_OK;
}

enum weft_reason fabric_load_open(struct fabric_load **l, const struct topology *t,
				  const struct fabric_load_cfg *cfg)
{
	struct fabric_load *own = calloc(1, sizeof(*own));
	enum weft_reason reason;

	*l = NULL;
	if (!own)
		return WEFT_R_NO_MEMORY;
	CHECK(cfg->bytes >= FABRIC_LOAD_PROBE_BYTES && cfg->bytes <= MESSAGE_MAX &&
	      cfg->bytes % 4 == 0 && cfg->load_percent > 0 && cfg->mbps > 0);
	own->cfg = *cfg;
	reason = load_begin(own, t);
	if (reason != WEFT_OK) {
		fabric_load_close(own);
		return reason;
	}
	*l = own;
	return WEFT_OK;
}

void fabric_load_close(struct fabric_load *own_l)
{
	if (!own_l)
		return;
	for (uint32_t i = 0; own_l->ends && i < own_l->count; i++)
		for (uint32_t queue = 0; queue < QUEUES; queue++)
			free(own_l->ends[i].queues[queue].items);
	fabric_close(own_l->f);
	wheel_close(own_l->wheel);
	free(own_l->ends);
	free(own_l->end_of);
	free(own_l->divisors);
	free(own_l->report.lines);
	free(own_l);
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static void owners_serve(struct fabric_load *l)
{
	const uint8_t *bytes;
	uint32_t node, port;

	while (fabric_ready(l->f, &node, &port)) {
		uint32_t end = l->end_of[node];

		if (end == UINT32_MAX || port != l->ends[end].port) {
			while (fabric_peek(l->f, node, port, &bytes) > 0)
				fabric_pass(l->f, node,
					    port); /* of management: there is no manager */
			continue;
		}
		end_take(l, &l->ends[end]);
		push(l, &l->ends[end]);
	}
}

static void deadlock_look(struct fabric_load *l)
{
	if (l->has_looked || l->now_ns - l->last_ns < STILL_NS)
		return;
	l->has_looked = true;
	(void)fabric_deadlock_text(l->f, l->report.deadlock, sizeof(l->report.deadlock));
}

bool fabric_load_step(struct fabric_load *l)
{
	uint64_t due_ns = fabric_due(l->f), timer_ns = wheel_due(l->wheel);
	struct wheel_timer *t;

	due_ns = timer_ns < due_ns ? timer_ns : due_ns;
	if (due_ns == UINT64_MAX || l->is_out_of_memory || l->report.came == l->report.expected) {
		l->last_ns = 0;
		l->now_ns += STILL_NS;
		if (l->report.came < l->report.expected)
			deadlock_look(l);
		return false;
	}
	l->now_ns = due_ns > l->now_ns ? due_ns : l->now_ns;
	fabric_run(l->f, l->now_ns);
	if (timer_ns <= l->now_ns) {
		while ((t = wheel_expire(l->wheel, l->now_ns))) {
			look_ahead(l);
			timer_work(l, t);
		}
		fabric_run(l->f, l->now_ns);
	}
	owners_serve(l);
	deadlock_look(l);
	return true;
}

/* ---- Report --------------------------------------------------------------------------------- */

static void line_fill(struct fabric_load *l, uint32_t cable, uint32_t side)
{
	struct fabric_load_line *line = &l->report.lines[2 * cable + side];
	uint32_t node[2], port[2];
	const struct fabric_link *link;

	fabric_cable_ends(l->f, cable, node, port);
	link = fabric_link_at(l->f, node[side], port[side]);
	*line = (struct fabric_load_line){ .node = node[side],
					   .port = port[side],
					   .to_node = node[side ^ 1],
					   .to_port = port[side ^ 1],
					   .flits = link->counts.flits_sent,
					   .waits = link->counts.waits };
	if (l->report.ns > 0)
		line->share = (double)line->flits * (double)l->flit_x16 *
			      (double)l->divisors[cable] / X16 / (double)l->report.ns;
	l->report.flits += line->flits;
	l->report.waits += line->waits;
	l->report.frames += link->counts.frames_sent;
}

const struct fabric_load_report *fabric_load_report(struct fabric_load *l)
{
	struct fabric_load_report *r = &l->report;

	r->line_count = 2 * fabric_cable_count(l->f);
	r->flits = r->waits = r->frames = r->discards = r->relay_errors = r->others = 0;
	for (uint32_t i = 0; i < r->line_count; i++)
		line_fill(l, i / 2, i % 2);
	for (uint32_t node = 0; node < fabric_node_count(l->f); node++) {
		const struct fabric_node *n = fabric_node_at(l->f, node);

		for (uint32_t port = 1; port <= n->cfg.ports; port++) {
			const struct fabric_port_counts *c = &n->ports[port].counts;

			r->discards += c->transmit_discards;
			r->relay_errors += c->relay_errors;
			r->others += c->receive_errors + c->misrouted + c->inactive +
				     c->overrun_errors + c->vl15_dropped;
		}
	}
	return r;
}
