/* SPDX-License-Identifier: BSD-2-Clause */
/* The wires: adapters with ports of RoCE and pipes between them, or links of iWARP. */
#include "base/check.h"
#include "base/draw.h"
#include "loopback/loopback.h"
#include "sim/card/card_world.h"
#include "sim/roce/roce_node.h"

enum {
	TAGS_MAX = 1024,
	CQ_ENTRIES = 2048,
	IN_PIPE = 512, /* packets */
	ROUNDS_MAX = 100000,
	NOTICE_PPM = 750000,
	RNR_TIMER_CODE = 4
};

static const uint64_t setup_ns = UINT64_C(2) * 1000 * 1000 * 1000;
static const uint64_t patience_ns = UINT64_C(60) * 1000 * 1000 * 1000;
static const uint32_t notice_max_ns = 5 * 1000 * 1000;

static bool is_roce(const struct card_world *w)
{
	return w->limits.wire == CDW_ROCE;
}

static struct tcp_end *tcp_of(struct cdw_end *e)
{
	return &e->world->links[e->index / 2].ends[e->index % 2];
}

/* ---- Packets of RoCE ------------------------------------------------------------------------ */

static struct cdw_node *node_of(struct ib_node *n)
{
	return CONTAINER_OF(n, struct cdw_node, ib);
}

/* The way from one node to another: its ends have one connection, and one pipe each. */
static uint32_t way(uint32_t from, uint32_t to)
{
	return from == 0 ? 2 * (to - 1) + 1 : 2 * (from - 1);
}

static void carry(struct ib_node *n, const struct ib_out *out)
{
	struct cdw_node *node = node_of(n);

	ib_node_put(&node->world->pipes[way(node->index, (uint32_t)ib_node_index(out->path))], out);
}

/* Connections whose queue pairs have left go at once. */
static bool hear_ends(struct cdw_node *n)
{
	struct ib_conn *c;
	bool has_moved = false;

	while ((c = ib_port_event(n->ib.port)) != NULL) {
		uint32_t i = 0;

		while (n->conns[i] != c)
			i++;
		n->conns[i] = n->conns[--n->conn_count];
		ib_destroy(c);
		has_moved = true;
	}
	return has_moved;
}

static bool output(struct ib_node *n)
{
	bool has_moved = ib_node_send(n, carry);

	return hear_ends(node_of(n)) || has_moved;
}

static bool poll(struct ib_node *ib)
{
	struct cdw_node *n = node_of(ib);
	struct card_world *w = n->world;
	bool has_moved = false;

	for (uint32_t i = 0; i < CDW_NODES; i++) {
		if ((i == 0) != (n->index == 0))
			has_moved |= ib_node_recv(ib, &w->pipes[way(i, n->index)], &w->nodes[i].ib);
	}
	has_moved |= ib_node_expire(ib);
	return output(ib) || has_moved;
}

/* What comes to a node that is not there is lost. */
static void drain(struct cdw_node *n)
{
	struct card_world *w = n->world;
	uint8_t bytes[IB_NODE_BYTES_MAX];
	size_t length;

	for (uint32_t i = 0; i < CDW_NODES && is_roce(w); i++) {
		while ((i == 0) != (n->index == 0) &&
		       sim_datagram_recv(&w->pipes[way(i, n->index)], bytes, sizeof(bytes),
					 &length))
			continue;
	}
}

/* ---- Adapters ------------------------------------------------------------------------------- */

static uint32_t end_count(const struct cdw_node *n)
{
	return n->index == 0 ? CDW_HOSTS : 1;
}

/*
 * A queue pair does not get the number of one of a former life: packets for that may be on the way
 * still, and UC takes the first of a message whatever its PSN.
 */
enum { LIVES = 64, NUMBERS = 4 * CDW_QPS * CDW_HOSTS };

int cdw_adapter_open(struct cdw_node *n)
{
	struct card_world *w = n->world;
	uint32_t size = end_count(n) * CDW_END_BYTES;
	const struct adapter_config config = {
		.options = { .tags_max = TAGS_MAX,
			     .translations_max = 64,
			     .qps_max = LIVES * NUMBERS },
		.secret = { prng_next(&w->world.prng), prng_next(&w->world.prng) },
		.trace = &w->world.trace,
	};
	const struct weft_space_options so = { .size_bytes = size,
					       .memory = n->memory,
					       .mappings_max = 1 };
	const struct weft_cq_options co = { .entries_max = CQ_ENTRIES };
	struct weft_pd_options po = { 0 };

	if (adapter_init(&n->adapter, &config) != WEFT_OK)
		return -1;
	adapter_set_slot(&n->adapter, (uint8_t)(n->index + 1),
			 n->incarnation * NUMBERS + cdw_draw(w, 1 << 20) % NUMBERS);
	list_init(&n->attention);
	if (space_create(&n->adapter, &so, &n->space) != WEFT_OK ||
	    mem_space_map(n->space, (uint64_t)(n->index + 1) << 40, size, 0) != WEFT_OK ||
	    cq_create(&n->adapter, &co, &n->cq) != WEFT_OK)
		return -1;
	po.space = n->space;
	for (uint32_t i = 0; i < end_count(n); i++) {
		if (pd_create(&n->adapter, &po, &n->pds[i]) != WEFT_OK)
			return -1;
	}
	if (!is_roce(w))
		return 0;
	n->ib.world = &w->world;
	n->ib.output = output;
	n->ib.poll = poll;
	ib_node_open(&n->ib, (int)n->index, &n->adapter);
	return 0;
}

void cdw_adapter_close(struct cdw_node *n)
{
	struct weft_usage usage;

	if (is_roce(n->world)) {
		while (n->conn_count > 0)
			ib_destroy(n->conns[--n->conn_count]);
		ib_port_destroy(n->ib.port);
	}
	for (uint32_t i = 0; i < end_count(n); i++)
		CHECK(pd_destroy(n->pds[i]) == WEFT_OK);
	CHECK(cq_destroy(n->cq) == WEFT_OK && space_destroy(n->space) == WEFT_OK);
	adapter_usage(&n->adapter, &usage);
	if (usage.tags_free != TAGS_MAX || usage.qps > 0)
		cdw_fail(n->world, "node %u: %u tags and %u queue pairs are left", n->index,
			 TAGS_MAX - usage.tags_free, usage.qps);
	CHECK(adapter_fini(&n->adapter) == WEFT_OK);
}

/* ---- Connections ---------------------------------------------------------------------------- */

static uint32_t qp_count(const struct card_world *w)
{
	return w->limits.mode == PUSH_MODE_SEND ? 2 : 1;
}

static void qps_make(struct cdw_end *e)
{
	struct cdw_node *n = cdw_node_of(e);
	const struct weft_qp_options o = {
		.send_cq = n->cq,
		.recv_cq = n->cq,
		.service = e->world->limits.mode == PUSH_MODE_SEND ? WEFT_UC : WEFT_RC,
		.send_max = CDW_SENDS + CDW_PACKETS,
		.recv_max = CDW_RECEIVES,
		.sges_max = 1,
	};
	const struct weft_qp_attr attr = { .state = WEFT_QPS_INIT,
					   .receiver_wait_ns = patience_ns,
					   .remote_rights = WEFT_REMOTE_WRITE };
	const uint32_t fields = WEFT_QP_STATE | WEFT_QP_RECEIVER_WAIT | WEFT_QP_REMOTE_RIGHTS;

	for (uint32_t i = 0; i < qp_count(e->world); i++) {
		CHECK(qp_create(n->pds[cdw_is_unit(e) ? e->index / 2 : 0], &o, &loopback_transport,
				&e->qps[i]) == WEFT_OK);
		CHECK(qp_modify(e->qps[i], &attr, fields) == WEFT_OK);
	}
}

static void ib_join_one(struct cdw_end *e, uint32_t which, const uint32_t psn[2])
{
	struct card_world *w = e->world;
	struct cdw_node *n = cdw_node_of(e), *peer = cdw_node_of(cdw_peer(e));
	uint32_t side = e->index % 2, other = cdw_peer(e)->qps[which]->number;
	struct ib_config k = {
		.path = { .mtu_bytes = w->limits.mtu_bytes, .hop_limit = 64 },
		.peer_qp = other,
		.psn_send = psn[side],
		.psn_recv = psn[!side],
		.reads_out = 1,
		.reads_in = 1,
		.timeout_code = w->limits.timeout_code,
		.retries = 7,
		.rnr_retries = IB_RNR_RETRY_FOREVER,
		.rnr_timer_code = RNR_TIMER_CODE,
	};

	k.path.from = n->ib.at[0];
	k.path.to = peer->ib.at[0];
	k.path.flow_label = iba_flow_label(e->qps[which]->number, other);
	k.path.from.port = iba_udp_port(k.path.flow_label);
	CHECK(n->conn_count < CDW_CONNS);
	CHECK(ib_create(n->ib.port, e->qps[which], &k, &n->conns[n->conn_count]) == WEFT_OK);
	CHECK(ib_start(n->conns[n->conn_count++], &k) == WEFT_OK);
}

static void connect_roce(struct card_world *w, uint32_t host)
{
	for (uint32_t i = 0; i < qp_count(w); i++) {
		const uint32_t psn[2] = { roce_draw_psn(&w->world.prng),
					  roce_draw_psn(&w->world.prng) };

		for (uint32_t side = 0; side < 2; side++)
			ib_join_one(&w->ends[2 * host + side], i, psn);
	}
}

static void connect_iwarp(struct card_world *w, uint32_t host)
{
	struct tcp_dial d = { .initiator = 0, .rtr = IWARP_RTR_WRITE };

	for (uint32_t side = 0; side < 2; side++) {
		struct cdw_end *e = &w->ends[2 * host + side];

		d.configs[side] = (struct mpa_config){ .wants_crc = true,
						       .revision = 2,
						       .is_peer_to_peer = true,
						       .ird = 1,
						       .ord = 1,
						       .timeout_ns = setup_ns };
		d.faults[side] = w->limits.faults;
		d.bytes_max[side] = w->limits.pipe_bytes;
		tcp_of(e)->qp = e->qps[0];
		tcp_of(e)->attention = &cdw_node_of(e)->attention;
	}
	d.corrupt_ppm = w->limits.corrupt_ppm;
	CHECK(tcp_link_dial(&w->links[host], &d) == 0);
}

bool cdw_connect(struct card_world *w, uint32_t host)
{
	struct cdw_end *ends = &w->ends[2 * host];

	if (!w->nodes[0].is_up || !w->nodes[1 + host].is_up || ends[0].state != CDW_FREE ||
	    ends[1].state != CDW_FREE || (!is_roce(w) && !tcp_link_is_over(&w->links[host])))
		return false;
	w->serials++;
	for (uint32_t side = 0; side < 2; side++) {
		ends[side].serial = w->serials;
		qps_make(&ends[side]);
	}
	/* Receives are there before the peer can send. */
	for (uint32_t side = 0; side < 2; side++)
		CHECK(cdw_end_begin(&ends[side]) == 0);
	if (is_roce(w))
		connect_roce(w, host);
	else
		connect_iwarp(w, host);
	w->dials++;
	return true;
}

bool cdw_is_connected(const struct cdw_end *e)
{
	return e->qps[0]->state == WEFT_QPS_RTS;
}

/* What connection management says to the peer, if that arrives. */
static void notice(struct cdw_end *e)
{
	struct card_world *w = e->world;

	if (prng_chance(&w->world.prng, w->limits.is_calm ? 1000000 : NOTICE_PPM))
		world_schedule(&w->world, cdw_draw(w, notice_max_ns),
			       (struct world_event){
				       .node = e->index ^ 1, .kind = CDW_LEFT, .arg = e->serial });
}

void cdw_hang_up(struct cdw_end *e)
{
	static const struct weft_qp_attr error = { .state = WEFT_QPS_ERROR };

	if (is_roce(e->world))
		notice(e);
	else if (tcp_of(e)->phase == TCP_SETUP)
		tcp_end_kill(tcp_of(e), true);
	else if (e->is_ended_well)
		(void)qp_disconnect(e->qps[0]);
	for (uint32_t i = 0; i < qp_count(e->world); i++)
		(void)qp_modify(e->qps[i], &error, WEFT_QP_STATE);
}

void cdw_qps_drop(struct cdw_end *e)
{
	for (uint32_t i = 0; i < qp_count(e->world); i++) {
		qp_destroy(e->qps[i]);
		e->qps[i] = NULL;
	}
	if (!is_roce(e->world))
		tcp_end_abandon(tcp_of(e));
}

void cdw_cut_off(struct cdw_end *e, bool is_reset)
{
	if (!is_roce(e->world))
		tcp_end_kill(tcp_of(e), is_reset);
	for (uint32_t i = 0; i < qp_count(e->world); i++) {
		if (e->qps[i])
			qp_destroy(e->qps[i]);
		e->qps[i] = NULL;
	}
	if (!is_roce(e->world))
		tcp_of(e)->qp = NULL;
}

/* ---- Work ----------------------------------------------------------------------------------- */

bool cdw_net_move(struct cdw_node *n)
{
	uint64_t now_ns = n->world->world.now_ns;
	uint32_t rounds = 0;
	struct iwarp_stream *s;

	if (is_roce(n->world)) {
		bool has_moved = poll(&n->ib) || !list_is_empty(&n->adapter.ready);

		ib_node_work(&n->ib);
		return has_moved;
	}
	do {
		while (adapter_progress(&n->adapter, now_ns) && rounds < ROUNDS_MAX)
			rounds++;
		s = iwarp_attend(&n->attention);
		if (s)
			tcp_end_service(iwarp_owner(s));
		if (rounds++ > ROUNDS_MAX) {
			cdw_fail(n->world, "node %u does not come to rest", n->index);
			return false;
		}
	} while (s || !list_is_empty(&n->adapter.ready));
	return rounds > 1;
}

uint64_t cdw_net_due(struct cdw_node *n)
{
	uint64_t due = adapter_due(&n->adapter);
	uint64_t port = is_roce(n->world) ? ib_port_due(n->ib.port) : UINT64_MAX;

	return port < due ? port : due;
}

void cdw_net_event(struct card_world *w, const struct world_event *event)
{
	struct cdw_end *e;

	if (event->kind == CDW_ARRIVED) {
		if (!w->nodes[event->node].is_up)
			drain(&w->nodes[event->node]);
		return;
	}
	e = &w->ends[event->node];
	if (event->kind == CDW_LEFT) {
		if (e->serial == event->arg && (e->state == CDW_CONNECTING || e->state == CDW_UP))
			cdw_end_over(e, WEFT_R_PEER_GONE);
		return;
	}
	tcp_end_event(tcp_of(e), (enum tcp_event)(event->kind - CDW_TCP));
	if (tcp_of(e)->has_request)
		tcp_end_answer(tcp_of(e), true);
	/* A set-up that failed has no completions. */
	if (tcp_of(e)->phase == TCP_ENDED && !tcp_of(e)->was_stream && e->state == CDW_CONNECTING)
		cdw_end_over(e, WEFT_R_CONNECT_TIMEOUT);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static int pipe_open(struct card_world *w, uint32_t end)
{
	const struct sim_datagram_options o = {
		.id = end,
		.arrived = { .node = w->ends[end ^ 1].node, .kind = CDW_ARRIVED },
		.faults = w->limits.faults,
		.datagrams_max = IN_PIPE,
		.bytes_max = IB_NODE_BYTES_MAX,
	};

	return sim_datagram_init(&w->pipes[end], &w->world, &o);
}

int cdw_net_open(struct card_world *w)
{
	for (uint32_t i = 0; i < CDW_ENDS; i++) {
		if (is_roce(w) && pipe_open(w, i) < 0)
			return -1;
		if (!is_roce(w) && i % 2 == 0)
			tcp_link_init(&w->links[i / 2], &w->world, i / 2, CDW_TCP);
	}
	return 0;
}

static void count(struct card_world *w, const struct sim_datagram_counts *c)
{
	w->wire.sent += c->sent;
	w->wire.lost += c->lost + c->dropped_cut + c->dropped_full;
	w->wire.duplicated += c->duplicated;
	w->wire.reordered += c->reordered;
	w->wire.corrupted += c->corrupted;
}

void cdw_net_close(struct card_world *w)
{
	for (uint32_t i = 0; i < CDW_ENDS; i++) {
		if (is_roce(w)) {
			count(w, &w->pipes[i].counts);
			sim_datagram_fini(&w->pipes[i]);
		} else if (i % 2 == 0) {
			w->corruptions += w->links[i / 2].corruptions;
			tcp_link_fini(&w->links[i / 2]);
		}
	}
}

void cdw_net_calm(struct card_world *w)
{
	w->limits.faults = (struct sim_faults){ 0 };
	w->limits.corrupt_ppm = 0;
	for (uint32_t i = 0; i < CDW_ENDS; i++) {
		if (is_roce(w)) {
			w->pipes[i].line.faults = (struct sim_faults){ 0 };
			sim_datagram_heal(&w->pipes[i]);
		} else if (i % 2 == 0) {
			struct tcp_link *l = &w->links[i / 2];

			tcp_link_calm(l);
			/* A corrupted length may keep a stream waiting for ever. */
			if (l->ends[0].is_corrupted || l->ends[1].is_corrupted)
				tcp_link_reset(l);
		}
	}
}
