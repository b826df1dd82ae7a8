/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "loopback/loopback.h"
#include "sim/iscsi/iscsi_iser.h"
#include "wire/iscsi_sn.h"

/* Identifiers of work requests: a kind, and an index. */
enum wr_kind { WR_RECEIVE = 1, WR_CONTROL, WR_COMMAND };

enum {
	CONTROLS_AT = ISW_RECEIVES * ISW_RECEIVE_BYTES,
	ASKS_AT = CONTROLS_AT + ISW_CONTROLS * ISW_TEXT_BYTES,
	ARENA_BYTES = ASKS_AT + ISW_ASKS * ISW_ASK_BYTES,
	PAGE_BYTES = 4096,
	CQ_ENTRIES = 1024,
	DIAL_NS = 200000,
	CMD_SN_AT = 24 /* in a BHS */
};

static uint64_t wr_id(enum wr_kind kind, uint32_t index)
{
	return (uint64_t)kind << 32 | index;
}

static uint64_t now(const struct isw_host *h)
{
	return h->world->world.now_ns;
}

/* ---- The port ------------------------------------------------------------------------------- */

static void receive_post(struct isw_host *h, uint32_t index)
{
	const struct weft_sge sge = { (uint64_t)index * ISW_RECEIVE_BYTES, ISW_RECEIVE_BYTES,
				      h->region };
	const struct weft_recv_wr wr = { .id = wr_id(WR_RECEIVE, index),
					 .sges = &sge,
					 .sge_count = 1 };
	uint32_t posted;

	(void)qp_post_recv(h->qp, &wr, 1, &posted);
}

static bool control_post(struct isw_host *h, uint32_t index)
{
	const struct isw_control *c = &h->controls[index];
	const struct weft_sge sge = { CONTROLS_AT + (uint64_t)index * ISW_TEXT_BYTES, c->bytes,
				      h->region };
	struct weft_iscsi_pdu pdu = { 0 };
	struct weft_send_wr wr = { .id = wr_id(WR_CONTROL, index),
				   .opcode = WEFT_OP_ISCSI_CONTROL,
				   .flags = WEFT_SIGNALLED,
				   .iscsi = &pdu,
				   .sges = &sge,
				   .sge_count = c->bytes > 0 };
	uint32_t posted;

	memcpy(pdu.bhs, c->bhs, sizeof(pdu.bhs));
	return qp_post_send(h->qp, &wr, 1, &posted) == WEFT_OK;
}

static bool send_control(void *port, const uint8_t bhs[ISCSI_BHS_BYTES], const uint8_t *data,
			 uint32_t data_bytes)
{
	struct isw_host *h = port;
	uint32_t i = 0;

	while (i < ISW_CONTROLS && h->controls[i].is_used)
		i++;
	if (i == ISW_CONTROLS || !h->qp)
		return false;
	CHECK(data_bytes <= ISW_TEXT_BYTES);
	memcpy(h->controls[i].bhs, bhs, ISCSI_BHS_BYTES);
	if (data_bytes > 0)
		memcpy(h->arena + CONTROLS_AT + (size_t)i * ISW_TEXT_BYTES, data, data_bytes);
	h->controls[i].bytes = data_bytes;
	h->controls[i].is_used = control_post(h, i);
	return h->controls[i].is_used;
}

static bool send_command(void *port, const struct iscsi_port_command *c)
{
	struct isw_host *h = port;
	struct isw_ask *a = CONTAINER_OF(c->request, struct isw_ask, request);
	struct rd sn = rd_of(c->bhs + CMD_SN_AT, sizeof(uint32_t));
	struct weft_iscsi_pdu pdu = { 0 };
	struct weft_send_wr wr = { .id = wr_id(WR_COMMAND, c->slot),
				   .opcode = WEFT_OP_ISCSI_COMMAND,
				   .flags = WEFT_SIGNALLED,
				   .iscsi = &pdu,
				   .sges = a->sges,
				   .sge_count = a->sge_count };
	uint32_t posted;

	memcpy(pdu.bhs, c->bhs, sizeof(pdu.bhs));
	for (uint32_t i = 0; i < a->sge_count; i++)
		a->sges[i].tag = h->region;
	if (!h->qp || qp_post_send(h->qp, &wr, 1, &posted) != WEFT_OK)
		return false;
	a->command_id = pdu.command_id;
	a->cmd_sn = rd_u32(&sn);
	a->sent++;
	h->by_slot[c->slot] = a;
	return true;
}

static bool tag(void *port, uint32_t slot, uint32_t *itt)
{
	struct isw_host *h = port;

	return h->qp && h->by_slot[slot] &&
	       iscsi_offload_tag(h->qp, h->by_slot[slot]->command_id, itt) == WEFT_OK;
}

static bool forget(void *port, uint32_t slot)
{
	struct isw_host *h = port;
	struct isw_ask *a = h->by_slot[slot];
	enum weft_reason r = iscsi_offload_end(h->qp, a->command_id);

	/* It was over already: its response is on the way to the session. */
	if (r != WEFT_OK && r != WEFT_R_ISCSI_COMMAND)
		return false;
	h->by_slot[slot] = NULL;
	return true;
}

static void agreed(void *port, const struct iscsi_params *p)
{
	struct isw_host *h = port;
	const struct weft_iscsi_terms terms = {
		.has_header_digest = p->connection.header_digest == ISCSI_DIGEST_CRC32C,
		.has_data_digest = p->connection.data_digest == ISCSI_DIGEST_CRC32C,
		.is_unsolicited_on = !p->session.needs_r2t,
		.is_immediate_off = !p->session.has_immediate_data,
		.recv_bytes_max = p->connection.recv_bytes_max,
		.send_bytes_max = p->connection.send_bytes_max,
		.first_burst_bytes = p->session.first_burst_bytes_max,
		.burst_bytes_max = p->session.burst_bytes_max,
	};

	if (h->qp && iscsi_offload_set(h->qp, &terms) != WEFT_OK)
		isw_fail(h->world, "host %u: its queue pair refuses the terms", h->index);
}

static void close_port(void *port)
{
	struct isw_host *h = port;

	h->is_closing = true;
}

static const struct iscsi_port_calls port_calls = {
	.tag_count = WEFT_ISCSI_TAGS_MAX,
	.shows_data = true,
	.send_control = send_control,
	.send_command = send_command,
	.tag = tag,
	.forget = forget,
	.agreed = agreed,
	.close = close_port,
};

/* ---- Completions ---------------------------------------------------------------------------- */

/* The command that a completion is of, if it goes on: else slot of the session is ISW_NONE. */
static uint32_t slot_of(const struct isw_host *h, uint32_t command_id)
{
	for (uint32_t i = 0; i < h->world->limits.depth; i++)
		if (command_id != 0 && h->by_slot[i] && h->by_slot[i]->command_id == command_id)
			return i;
	return ISW_NONE;
}

static void received(struct isw_host *h, uint32_t index, const struct weft_completion *c)
{
	const uint8_t *bytes = h->arena + (size_t)index * ISW_RECEIVE_BYTES;
	uint32_t header = iscsi_header_bytes(bytes), slot = slot_of(h, c->command_id);
	struct iscsi_received in = {
		.header = bytes,
		.header_bytes = header,
		.data_bytes = c->byte_count - header,
		.has_slot = slot != ISW_NONE,
		.slot = slot,
		.reason = c->reason,
	};

	in.data = in.data_bytes > 0 ? bytes + header : NULL;
	/* What task management has ended gets no PDU any more. */
	if (c->command_id != 0 && slot == ISW_NONE &&
	    (c->opcode == WEFT_OP_RECV_ISCSI_RESPONSE || c->opcode == WEFT_OP_RECV_ISCSI_DATA ||
	     c->opcode == WEFT_OP_RECV_ISCSI_R2T))
		isw_fail(h->world, "host %u is told of a command that is over", h->index);
	if (c->has_invalidated && slot != ISW_NONE) {
		uint32_t itt;

		if (iscsi_offload_tag(h->qp, c->command_id, &itt) == WEFT_OK)
			isw_fail(h->world, "host %u: a command that is over has its entry",
				 h->index);
	}
	/* The session may use the slot again at once. */
	if (c->has_invalidated && slot != ISW_NONE)
		h->by_slot[slot] = NULL;
	iscsi_initiator_take(h->session, &in, now(h));
}

static void command_failed(struct isw_host *h, uint32_t slot, const struct weft_completion *c)
{
	bool is_first = c->status != WEFT_ERR_FLUSHED;

	if (!h->is_refused || iscsi_sn_is_before(h->by_slot[slot]->cmd_sn, h->refused_sn))
		h->refused_sn = h->by_slot[slot]->cmd_sn;
	h->is_refused = true;
	h->is_resuming = true;
	h->world->refusals += is_first;
	h->by_slot[slot]->sent--; /* it never left */
	h->by_slot[slot] = NULL;
	iscsi_initiator_refused(h->session, slot, is_first ? c->reason : WEFT_OK, now(h));
}

static void take_completion(struct isw_host *h, const struct weft_completion *c)
{
	uint32_t index = (uint32_t)c->id;
	bool is_good = c->status == WEFT_SUCCESS;
	bool is_live = h->qp && h->qp->state == WEFT_QPS_SQE;

	if (h->iser) {
		isw_iser_host_completed(h, c);
		return;
	}
	switch ((enum wr_kind)(c->id >> 32)) {
	case WR_RECEIVE:
		if (is_good && h->is_begun)
			received(h, index, c);
		if (is_good && h->qp)
			receive_post(h, index);
		break;
	case WR_CONTROL:
		/* One behind a command that failed is sent again. */
		if (!is_good && is_live && c->status == WEFT_ERR_FLUSHED)
			h->is_resuming = true;
		else
			h->controls[index].is_used = false;
		if (!is_good && is_live && c->status == WEFT_ERR_FLUSHED)
			h->controls[index].is_flushed = true;
		break;
	case WR_COMMAND:
		if (!is_good && is_live && h->is_begun)
			command_failed(h, index, c);
		break;
	}
}

static bool poll(struct isw_host *h)
{
	struct weft_completion c;
	bool has_polled = false;
	uint32_t count = 1;

	while (count > 0) {
		CHECK(cq_poll(h->cq, &c, 1, &count) == WEFT_OK);
		if (count > 0)
			take_completion(h, &c);
		has_polled |= count > 0;
	}
	return has_polled;
}

/* ISCSI-01e: the queue pair goes on; what was flushed is sent again. */
static void resume(struct isw_host *h)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_RTS };
	struct wr sn;

	h->is_resuming = false;
	if (!h->qp || h->qp->state != WEFT_QPS_SQE)
		return;
	if (qp_modify(h->qp, &attr, WEFT_QP_STATE) != WEFT_OK)
		isw_fail(h->world, "host %u: its queue pair does not go on", h->index);
	for (uint32_t i = 0; i < ISW_CONTROLS; i++) {
		if (!h->controls[i].is_flushed)
			continue;
		h->controls[i].is_flushed = false;
		/* Commands before it have not gone: the next one takes their number. */
		sn = wr_of(h->controls[i].bhs + CMD_SN_AT, sizeof(uint32_t));
		if (h->is_refused)
			wr_u32(&sn, h->refused_sn);
		h->controls[i].is_used = control_post(h, i);
	}
	h->is_refused = false;
	iscsi_initiator_ready(h->session, now(h));
}

/* ---- Connections ---------------------------------------------------------------------------- */

static void qp_gone(struct isw_host *h)
{
	struct weft_usage usage;

	if (h->qp)
		qp_destroy(h->qp);
	h->qp = NULL;
	(void)poll(h);
	memset(h->controls, 0, sizeof(h->controls));
	memset(h->by_slot, 0, sizeof(h->by_slot));
	h->is_resuming = h->is_refused = false;
	adapter_usage(&h->adapter, &usage);
	if (usage.iscsi_regions != 0)
		isw_fail(h->world, "host %u: %u entries of commands are left in the table",
			 h->index, (uint32_t)usage.iscsi_regions);
}

static bool qp_open(struct isw_host *h)
{
	const struct isw_limits *l = &h->world->limits;
	const struct weft_qp_options options = {
		.send_cq = h->cq,
		.recv_cq = h->cq,
		.service = WEFT_ISCSI,
		.send_max = l->depth + ISW_CONTROLS,
		.recv_max = ISW_RECEIVES,
		.outstanding_max = l->depth,
	};
	const struct weft_qp_attr attr = { .receiver_wait_ns = UINT64_C(1000000000),
					   .on_failure = l->on_failure };

	return qp_create(h->pd, &options, &loopback_transport, &h->qp) == WEFT_OK &&
	       qp_modify(h->qp, &attr, WEFT_QP_RECEIVER_WAIT | WEFT_QP_ON_FAILURE) == WEFT_OK;
}

static void dial(struct isw_host *h, struct word address)
{
	struct iscsi_world *w = h->world;
	struct iscsi_address a = { .portal_group_tag = -1 };
	uint32_t portal = 0;
	char text[32] = "";

	if (address.length > 0 && iscsi_address_parse(address, &a) == WEFT_OK &&
	    a.host.length < sizeof(text)) {
		memcpy(text, a.host.at, a.host.length);
		portal = isw_portal_of(text);
	}
	h->is_dialling = true;
	h->dial++;
	world_schedule(&w->world, 1 + isw_draw_ns(w, DIAL_NS),
		       (struct world_event){ .node = h->index,
					     .kind = ISW_EV_DIAL,
					     .arg = (uint64_t)portal << 32 | h->dial });
}

void isw_host_dialled(struct isw_host *h, uint64_t which)
{
	uint8_t random[CHAP_RANDOM_BYTES];

	if (!h->is_up || !h->is_dialling || (uint32_t)which != h->dial)
		return;
	h->is_dialling = false;
	if (h->iser) {
		isw_iser_host_dialled(h, (uint32_t)(which >> 32));
		return;
	}
	CHECK(!h->qp && qp_open(h));
	h->link = isw_link_dial(h->world, h->index, (uint32_t)(which >> 32));
	if (!h->link) {
		qp_gone(h);
		iscsi_initiator_lost(h->session, WEFT_R_CONNECT_REFUSED, now(h));
		return;
	}
	for (uint32_t i = 0; i < ISW_RECEIVES; i++)
		receive_post(h, i);
	for (uint32_t i = 0; i < sizeof(random); i++)
		random[i] = (uint8_t)isw_draw(h->world, 256);
	h->is_begun = true;
	h->is_closing = false;
	iscsi_initiator_begin(h->session, &port_calls, h, random, now(h));
}

void isw_host_hung_up(struct isw_host *h)
{
	enum weft_reason reason = WEFT_R_CONNECT_CLOSED;
	struct weft_qp_attr attr = { 0 };

	if (!h->is_up || !h->link)
		return;
	if (h->qp) {
		(void)poll(h); /* what had come before */
		if (h->qp)
			qp_query(h->qp, &attr);
	}
	if (attr.reason != WEFT_OK)
		reason = attr.reason;
	h->link = NULL;
	qp_gone(h);
	isw_asks_judge_memory(h);
	if (h->is_begun) {
		h->is_begun = false;
		h->is_closing = false;
		iscsi_initiator_lost(h->session, reason, now(h));
	}
}

/* ---- The session ---------------------------------------------------------------------------- */

static void take_event(struct isw_host *h, const struct iscsi_event *e)
{
	struct iscsi_world *w = h->world;

	switch (e->kind) {
	case ISCSI_EVENT_CONNECT:
		dial(h, e->address);
		break;
	case ISCSI_EVENT_LOGIN:
		w->logins++;
		isw_judge_login(w, h);
		isw_trace(w, ISW_TRACE_LOGIN, h->index, 0, 0);
		break;
	case ISCSI_EVENT_LOST:
		w->losses++;
		trace_add(&w->world.trace, (struct trace_event){ .kind = ISW_TRACE_LOST,
								 .who = h->index,
								 .reason = (uint16_t)e->reason });
		break;
	case ISCSI_EVENT_ENDED:
		trace_add(&w->world.trace, (struct trace_event){ .kind = ISW_TRACE_OVER,
								 .who = h->index,
								 .reason = (uint16_t)e->reason });
		h->is_ended = true;
		break;
	default:
		break;
	}
}

static bool session_run(struct isw_host *h)
{
	struct iscsi_request *r;
	struct iscsi_event e;
	bool has_run = false;

	if (h->iser)
		isw_iser_host_settle(h);
	while (h->is_up && iscsi_initiator_event(h->session, &e)) {
		take_event(h, &e);
		has_run = true;
	}
	while (h->is_up && (r = iscsi_initiator_next_done(h->session)) != NULL) {
		isw_ask_ended(h, CONTAINER_OF(r, struct isw_ask, request));
		has_run = true;
	}
	return has_run;
}

/* The session closes the connection: the queue pair fails, and the stream ends. */
static bool close_now(struct isw_host *h)
{
	if (!h->is_closing || !h->link)
		return false;
	h->is_closing = false;
	if (h->qp) {
		qp_destroy(h->qp);
		h->qp = NULL;
	}
	if (h->link->stream)
		isw_link_serve(h->link, ISCSI_INITIATOR);
	return true;
}

/* Streams that have something new. */
static bool attend(struct isw_host *h)
{
	struct iscsi_offload *s;
	struct iwarp_stream *t;
	bool has_any = false;

	while (h->iser && (t = iwarp_attend(&h->attention)) != NULL) {
		tcp_end_service(iwarp_owner(t));
		has_any = true;
	}
	while (!h->iser && (s = iscsi_offload_attend(&h->attention)) != NULL) {
		isw_link_serve(iscsi_offload_owner(s), ISCSI_INITIATOR);
		has_any = true;
	}
	return has_any;
}

bool isw_host_run(struct isw_host *h)
{
	bool has_run;

	if (!h->is_up)
		return false;
	for (uint32_t i = 0; adapter_progress(&h->adapter, now(h)); i++)
		CHECK(i < 1000000);
	has_run = attend(h);
	has_run |= poll(h);
	if (h->iser)
		has_run |= isw_iser_host_run(h);
	if (h->is_resuming) {
		resume(h);
		has_run = true;
	}
	has_run |= session_run(h);
	has_run |= close_now(h);
	if (h->is_up)
		world_alarm_set(&h->world->world, &h->due, iscsi_initiator_due(h->session));
	return has_run || !list_is_empty(&h->attention) || !list_is_empty(&h->adapter.ready);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static enum weft_reason adapter_open(struct isw_host *h)
{
	struct iscsi_world *w = h->world;
	struct adapter_config config = {
		.options = { .tags_max = w->limits.tags_max,
			     .translations_max = 512,
			     .qps_max = 4,
			     .cqs_max = 1,
			     .srqs_max = 1,
			     .pds_max = 1,
			     .policy = w->is_iser ? WEFT_POLICY_STRICT : WEFT_POLICY_OPEN },
		.trace = &w->world.trace,
	};
	/* Rights for peers are only to make windows from. */
	const uint32_t more = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_BIND;
	const struct weft_region_options region = {
		.addr = (uintptr_t)h->arena,
		.length = ARENA_BYTES,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | (w->is_iser ? more : 0),
		.is_zero_based = true,
	};
	struct mem_owner owner;
	enum weft_reason r;

	config.secret[0] = prng_next(&w->world.prng);
	config.secret[1] = prng_next(&w->world.prng);
	r = adapter_init(&h->adapter, &config);
	if (r == WEFT_OK)
		r = pd_create(&h->adapter, &(struct weft_pd_options){ 0 }, &h->pd);
	if (r == WEFT_OK)
		r = cq_create(&h->adapter, &(struct weft_cq_options){ .entries_max = CQ_ENTRIES },
			      &h->cq);
	if (r != WEFT_OK)
		return r;
	owner = pd_owner(h->pd);
	return mem_region_register(&h->adapter.mem, &owner, &region, &h->region);
}

static enum weft_reason session_open(struct isw_host *h)
{
	const struct isw_limits *l = &h->world->limits;
	struct iscsi_initiator_config c = {
		.initiator_name = iscsi_word(h->name),
		.target_name = iscsi_word(ISW_TARGET_NAME),
		.isid = { 0x80, 0, 0, 0, 0, (uint8_t)h->index },
		.portal_group_tag = -1,
		.wish = l->wishes[h->index],
		.recovery = l->recovery,
	};

	iscsi_initiator_limits_init(&c.limits);
	c.limits.depth = l->depth;
	c.limits.requests_max = ISW_ASKS + 2;
	c.limits.login_ns = 2 * UINT64_C(1000000000);
	c.limits.command_ns = l->command_ns;
	c.limits.task_ns = l->task_ns;
	c.limits.ping_after_ns = l->ping_after_ns;
	c.limits.ping_ns = l->ping_ns;
	c.limits.reconnect_ns = l->reconnect_ns;
	return iscsi_initiator_create(&c, &h->session);
}

int isw_host_start(struct iscsi_world *w, uint32_t index)
{
	struct isw_host *h = &w->hosts[index];
	struct isw_host was = *h;
	uint8_t *copies;

	*h = (struct isw_host){ .world = w, .index = index, .life = was.life + 1 };
	h->asks_left = was.asks_left;
	h->open_count = was.open_count; /* what a former life wrote may take effect yet */
	memcpy(h->open_writes, was.open_writes, sizeof(h->open_writes));
	snprintf(h->name, sizeof(h->name), "iqn.2020-01.org.example:host%u", index);
	list_init(&h->attention);
	h->due.event = (struct world_event){ .node = index, .kind = ISW_EV_HOST_DUE };
	h->arena = aligned_alloc(PAGE_BYTES, (ARENA_BYTES + PAGE_BYTES) / PAGE_BYTES * PAGE_BYTES);
	copies = malloc((size_t)ISW_ASKS * ISW_ASK_BYTES);
	if (!h->arena || !copies)
		return -1;
	memset(h->arena, 0, ARENA_BYTES);
	isw_asks_begin(h, h->arena + ASKS_AT, copies);
	if (adapter_open(h) != WEFT_OK || session_open(h) != WEFT_OK ||
	    (w->is_iser && isw_iser_host_open(h) < 0))
		return -1;
	h->is_up = true;
	isw_trace(w, ISW_TRACE_STARTED, index, h->life, 0);
	return 0;
}

/* Its process is gone: whatever is left must let itself be taken down. */
void isw_host_stop(struct isw_host *h)
{
	struct iscsi_world *w = h->world;
	enum iscsi_initiator_state state = iscsi_initiator_state(h->session);

	h->is_up = false;
	world_alarm_cancel(&w->world, &h->due);
	if (h->qp)
		qp_destroy(h->qp);
	h->qp = NULL;
	if (h->link)
		isw_link_leave(h->link, ISCSI_INITIATOR, isw_draw(w, 3));
	h->link = NULL;
	iscsi_initiator_end(h->session, WEFT_R_ISCSI_ENDED, now(h));
	if (h->is_begun || state == ISCSI_SESSION_CONNECTING)
		iscsi_initiator_lost(h->session, WEFT_OK, now(h));
	iscsi_initiator_destroy(h->session);
	isw_asks_judge_memory(h);
	isw_asks_lost(h);
	(void)poll(h);
	if (h->iser)
		isw_iser_host_close(h);
	if (mem_region_deregister(&h->adapter.mem, h->pd->number, h->region) != WEFT_OK ||
	    cq_destroy(h->cq) != WEFT_OK || pd_destroy(h->pd) != WEFT_OK ||
	    adapter_fini(&h->adapter) != WEFT_OK)
		isw_fail(w, "host %u: its adapter is still in use", h->index);
	isw_trace(w, ISW_TRACE_STOPPED, h->index, h->life, 0);
	free(h->arena);
	free(h->asks[0].copy);
	h->arena = NULL;
}
