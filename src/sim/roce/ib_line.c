/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/roce/ib_line.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "loopback/loopback.h"
#include "wire/iba_icrc.h"

enum {
	PACKETS_MAX = 8192,
	/* On Ethernet: preamble, header, FCS and gap; IPv4 and UDP. */
	FRAME_BYTES = 38 + 28,
	TRACE_EVENTS = 16, /* they are not read */
	RIGHTS = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ | WEFT_REMOTE_WRITE
};

enum { EVENT_ALARM, EVENT_ARRIVED };

/* ---- Life ----------------------------------------------------------------------------------- */

static bool end_map(struct ib_line_end *e, const struct ib_line_options *o)
{
	const struct weft_space_options so = {
		.memory = e->memory,
		.size_bytes = (uint64_t)o->frames * o->page_bytes,
		.mappings_max = o->pages,
		.has_pager = o->has_pager,
		.is_handing = o->is_handing,
	};

	if (space_create(&e->core, &so, &e->space) != WEFT_OK)
		return false;
	for (uint32_t i = 0; i < o->pages; i++) {
		uint64_t at = (uint64_t)i * o->page_bytes;

		CHECK(mem_space_map(e->space, IB_LINE_ADDR + at, o->page_bytes,
				    i < o->frames ? at : WEFT_REAL_NONE) == WEFT_OK);
	}
	return true;
}

static void end_register(struct ib_line_end *e, const struct ib_line_options *o)
{
	const struct mem_owner owner = pd_owner(e->pd);
	const struct weft_region_options ro = {
		.addr = IB_LINE_ADDR,
		.length = (uint64_t)o->pages * o->page_bytes,
		.rights = RIGHTS,
	};

	CHECK(mem_region_register(&e->core.mem, &owner, &ro, &e->tag) == WEFT_OK);
}

static bool end_open(struct ib_line *line, uint32_t i)
{
	const struct ib_line_options *o = &line->options;
	struct ib_line_end *e = &line->ends[i];
	const struct adapter_config ac = {
		.options = { .tags_max = 16, .translations_max = 64, .qps_max = 16 },
		.secret = { 1, 2 + i },
	};
	const struct weft_cq_options co = { .entries_max = 4 * o->send_max };
	const struct sim_datagram_options pipe = {
		.id = i,
		.arrived = { .node = !i, .kind = EVENT_ARRIVED },
		.faults = { .delay_min_ns = o->delay_ns,
			    .delay_max_ns = o->delay_ns,
			    .loss_ppm = o->loss_ppm },
		.datagrams_max = PACKETS_MAX,
		.bytes_max = IBA_PACKET_MAX,
	};
	struct weft_qp_options qo = {
		.send_max = o->send_max,
		.recv_max = 2 * o->send_max,
		.sges_max = 4,
		.is_every_send_signalled = true,
	};

	e->alarm.event = (struct world_event){ .node = i, .kind = EVENT_ALARM };
	e->memory = aligned_alloc(4096, (size_t)o->frames * o->page_bytes);
	if (!e->memory || adapter_init(&e->core, &ac) != WEFT_OK || !end_map(e, o) ||
	    pd_create(&e->core, &(struct weft_pd_options){ .space = e->space }, &e->pd) !=
		    WEFT_OK ||
	    cq_create(&e->core, &co, &e->cq) != WEFT_OK)
		return false;
	qo.send_cq = qo.recv_cq = e->cq;
	e->port = ib_port_create(&(struct ib_port_config){
		.adapter = &e->core,
		.is_dropping_early = o->is_dropping_early,
	});
	if (!e->port || qp_create(e->pd, &qo, &loopback_transport, &e->qp) != WEFT_OK ||
	    sim_datagram_init(&e->out, &line->world, &pipe) < 0)
		return false;
	end_register(e, o);
	return true;
}

static void end_connect(struct ib_line *line, uint32_t i)
{
	const struct ib_line_options *o = &line->options;
	struct ib_line_end *e = &line->ends[i];
	struct ib_config k = {
		.path = { .mtu_bytes = o->mtu_bytes, .hop_limit = 64 },
		.peer_qp = line->ends[!i].qp->number,
		.psn_send = i ? 0x1000 : 0xffff00, /* wraps soon */
		.psn_recv = i ? 0xffff00 : 0x1000,
		.reads_out = o->reads ? (uint8_t)o->reads : 1,
		.reads_in = o->reads ? (uint8_t)o->reads : 1,
		.timeout_code = o->timeout_code,
		.retries = o->retries,
		.rnr_retries = IB_RNR_RETRY_FOREVER,
		.rnr_timer_code = 1,
		.window_packets = o->window_packets,
		.ack_every = o->ack_every,
	};

	memcpy(k.path.from.address, (uint8_t[]){ 192, 0, 2, (uint8_t)(1 + i) }, 4);
	memcpy(k.path.to.address, (uint8_t[]){ 192, 0, 2, (uint8_t)(2 - i) }, 4);
	k.path.from.port = 0xc000;
	k.path.to.port = IBA_UDP_PORT;
	CHECK(ib_create(e->port, e->qp, &k, &e->conn) == WEFT_OK);
	CHECK(ib_start(e->conn, &k) == WEFT_OK);
}

struct ib_line *ib_line_open(const struct ib_line_options *options)
{
	const struct world_options wo = {
		.seed = options->seed,
		.events_max = 64,
		.trace_max = TRACE_EVENTS,
	};
	struct ib_line *line = calloc(1, sizeof(*line));

	if (!line)
		return NULL;
	line->options = *options;
	if (options->frames == 0)
		line->options.frames = options->pages;
	CHECK(world_init(&line->world, &wo) == 0);
	CHECK(end_open(line, 0) && end_open(line, 1));
	end_connect(line, 0);
	end_connect(line, 1);
	return line;
}

static void end_close(struct ib_line_end *e)
{
	qp_destroy(e->qp);
	ib_destroy(e->conn);
	ib_port_destroy(e->port);
	CHECK(mem_region_deregister(&e->core.mem, e->pd->number, e->tag) == WEFT_OK);
	CHECK(cq_destroy(e->cq) == WEFT_OK && pd_destroy(e->pd) == WEFT_OK);
	CHECK(space_destroy(e->space) == WEFT_OK && adapter_fini(&e->core) == WEFT_OK);
	sim_datagram_fini(&e->out);
	free(e->memory);
}

void ib_line_close(struct ib_line *line)
{
	for (int i = 0; i < 2; i++) {
		ib_port_sent(line->ends[i].port, line->world.now_ns);
		end_close(&line->ends[i]);
	}
	world_fini(&line->world);
	free(line);
}

/* ---- Packets -------------------------------------------------------------------------------- */

static void end_put(struct ib_line *line, struct ib_line_end *e, const struct ib_out *out)
{
	uint8_t bytes[IBA_PACKET_MAX];
	size_t at = 0;

	for (uint32_t i = 0; i < out->spans.count; i++) {
		memcpy(bytes + at, out->spans.spans[i].bytes, out->spans.spans[i].length);
		at += out->spans.spans[i].length;
	}
	e->idle_ns = line->world.now_ns +
		     (at + FRAME_BYTES) * 8 * 1000000000 / line->options.rate_bps;
	sim_datagram_send(&e->out, bytes, at);
}

static void end_take(struct ib_line *line, uint32_t i)
{
	struct ib_line_end *e = &line->ends[i];
	uint8_t bytes[IBA_PACKET_MAX];
	struct ib_in in = {
		.bytes = bytes,
		.is_ipv4_word_known = true,
		.ipv4_fragment = IBA_IPV4_DF,
		.hop_limit = 64,
	};

	memcpy(in.from.address, (uint8_t[]){ 192, 0, 2, (uint8_t)(2 - i) }, 4);
	memcpy(in.to.address, (uint8_t[]){ 192, 0, 2, (uint8_t)(1 + i) }, 4);
	in.from.port = 0xc000;
	in.to.port = IBA_UDP_PORT;
	while (sim_datagram_recv(&line->ends[!i].out, bytes, sizeof(bytes), &in.length))
		(void)ib_port_recv(e->port, line->world.now_ns, &in);
}

void ib_line_work(struct ib_line *line, int end)
{
	struct ib_line_end *e = &line->ends[end];
	uint64_t now_ns = line->world.now_ns, due_ns;
	struct ib_out out;

	while (adapter_progress(&e->core, now_ns))
		;
	if (e->idle_ns <= now_ns) {
		ib_port_sent(e->port, now_ns);
		out.room = line->room; /* as sockets have it */
		out.run_bytes = 0;
		out.ipv4_id = 0;
		out.near_number = 0;
		if (ib_port_send(e->port, now_ns, &out))
			end_put(line, e, &out);
	}
	due_ns = ib_port_due(e->port);
	if (adapter_due(&e->core) < due_ns)
		due_ns = adapter_due(&e->core);
	if (e->idle_ns > now_ns && e->idle_ns < due_ns)
		due_ns = e->idle_ns;
	if (due_ns < now_ns)
		due_ns = now_ns;
	if (due_ns == UINT64_MAX)
		world_alarm_cancel(&line->world, &e->alarm);
	else
		world_alarm_set(&line->world, &e->alarm, due_ns);
}

bool ib_line_step(struct ib_line *line)
{
	struct world_event event;
	struct ib_line_end *e;

	if (!world_next(&line->world, &event))
		return false;
	e = &line->ends[event.node];
	if (event.kind == EVENT_ARRIVED)
		end_take(line, event.node);
	if (ib_port_due(e->port) <= line->world.now_ns)
		ib_port_expire(e->port, line->world.now_ns);
	ib_line_work(line, (int)event.node);
	return true;
}

/* ---- Work ----------------------------------------------------------------------------------- */

enum weft_reason ib_line_post(struct ib_line *line, enum weft_opcode opcode, uint64_t offset,
			      uint32_t bytes)
{
	const struct weft_sge segment = {
		.addr = IB_LINE_ADDR + offset,
		.length = bytes,
		.tag = line->ends[0].tag,
	};
	struct weft_send_wr wr = {
		.opcode = opcode,
		.sges = &segment,
		.sge_count = 1,
		.remote_addr = IB_LINE_ADDR + offset,
		.remote_tag = line->ends[1].tag,
	};
	uint32_t posted;
	enum weft_reason r = qp_post_send(line->ends[0].qp, &wr, 1, &posted);

	if (r == WEFT_OK)
		ib_line_work(line, 0);
	return r;
}

enum weft_reason ib_line_receive(struct ib_line *line, uint64_t offset, uint32_t bytes)
{
	const struct weft_sge segment = {
		.addr = IB_LINE_ADDR + offset,
		.length = bytes,
		.tag = line->ends[1].tag,
	};
	const struct weft_recv_wr wr = { .sges = &segment, .sge_count = 1 };
	uint32_t posted;
	enum weft_reason r = qp_post_recv(line->ends[1].qp, &wr, 1, &posted);

	if (r == WEFT_OK)
		ib_line_work(line, 1);
	return r;
}

uint32_t ib_line_poll(struct ib_line *line, int end, struct weft_completion *c, uint32_t max)
{
	uint32_t count;

	return cq_poll(line->ends[end].cq, c, max, &count) == WEFT_OK ? count : 0;
}

/* ---- A stream of messages ------------------------------------------------------------------- */

struct mover {
	struct ib_line *line;
	const struct ib_flow_plan *plan;
	uint32_t received, begun, done; /* receives posted, messages posted, messages completed */
};

static bool flow_is_whole(const struct ib_line *line)
{
	size_t bytes = (size_t)line->options.frames * line->options.page_bytes;

	return memcmp(line->ends[0].memory, line->ends[1].memory, bytes) == 0;
}

/* Each message has a place of its own, as long as there are places. */
static uint64_t offset_of(const struct mover *m, uint32_t message)
{
	uint64_t all = (uint64_t)m->line->options.pages * m->line->options.page_bytes;

	return message % (all / m->plan->message_bytes) * m->plan->message_bytes;
}

/* Completions of one end. A failed one ends the flow. */
static enum weft_reason take_completions(struct ib_line *line, int end, uint32_t *count)
{
	struct weft_completion c[16];

	*count = ib_line_poll(line, end, c, 16);
	for (uint32_t i = 0; i < *count; i++) {
		if (c[i].status != WEFT_SUCCESS)
			return c[i].reason;
	}
	return WEFT_OK;
}

/* Of Sends: there is always a receive for each message that may be on its way. */
static enum weft_reason post_receives(struct mover *m)
{
	uint32_t bytes = m->plan->message_bytes, count;
	enum weft_reason r = take_completions(m->line, 1, &count);

	if (m->plan->opcode != WEFT_OP_SEND)
		return r;
	while (r == WEFT_OK && m->received < m->plan->messages &&
	       m->received - m->done < 2 * m->line->options.send_max)
		r = ib_line_receive(m->line, offset_of(m, m->received++), bytes);
	return r;
}

static enum weft_reason post_messages(struct mover *m)
{
	enum weft_reason r = WEFT_OK;

	while (r == WEFT_OK && m->begun < m->plan->messages &&
	       m->begun - m->done < m->line->options.send_max) {
		r = ib_line_post(m->line, m->plan->opcode, offset_of(m, m->begun),
				 m->plan->message_bytes);
		m->begun++;
	}
	return r;
}

static enum weft_reason flow_move(struct ib_line *line, const struct ib_flow_plan *plan)
{
	struct mover m = { .line = line, .plan = plan };

	while (m.done < plan->messages) {
		uint32_t count;
		enum weft_reason r = take_completions(line, 0, &count);

		m.done += count;
		if (r == WEFT_OK)
			r = post_receives(&m);
		if (r == WEFT_OK)
			r = post_messages(&m);
		if (r != WEFT_OK)
			return r;
		if (count == 0 && !ib_line_step(line))
			return WEFT_R_PEER_GONE;
	}
	return WEFT_OK;
}

enum weft_reason ib_flow_run(const struct ib_line_options *options, const struct ib_flow_plan *plan,
			     struct ib_flow *flow)
{
	struct ib_line *line = ib_line_open(options);
	struct ib_line_end *from, *to;
	size_t bytes;
	enum weft_reason r;

	if (!line)
		return WEFT_R_NO_MEMORY;
	from = &line->ends[plan->opcode == WEFT_OP_READ];
	to = &line->ends[plan->opcode != WEFT_OP_READ];
	bytes = (size_t)line->options.frames * options->page_bytes;
	for (size_t i = 0; i < bytes; i++)
		from->memory[i] = (uint8_t)prng_next(&line->world.prng);
	memset(to->memory, 0, bytes);
	r = flow_move(line, plan);
	*flow = (struct ib_flow){
		.bytes = (uint64_t)plan->message_bytes * plan->messages,
		.ns = line->world.now_ns,
		.sender = *ib_port_counts(line->ends[0].port),
		.peer = *ib_port_counts(line->ends[1].port),
		.is_whole = flow_is_whole(line),
	};
	mem_pins_query(from->space->paging, line->world.now_ns, &flow->pins);
	ib_line_close(line);
	return r;
}
