/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The conformance suite over RoCE on real sockets of the loopback interface: RC, UC and RD.
 * WEFT_ROUTE=lid: between two nodes of a fabric, back to back; WEFT_ENDS="H2 5 0x2 H3 7 0x3": between
 * these of the fabric that WEFT_FABRIC names, with their LIDs and GUIDs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <weft/roce.h>

#include "conformance.h"
#include "driver/roce/roce.h"
#include "fabric/fabric_bed.h"
#include "own_network.h"

static const struct weft_address loopback = { .family = 4, .ip = { 127, 0, 0, 1 } };

static bool is_in_fabric(void)
{
	return getenv("WEFT_ROUTE") != NULL;
}

/* Nodes of a fabric that runs. */
struct live_end {
	char node[32];
	uint32_t lid;
	uint64_t guid;
};

/* False: there is none. */
static bool ends_read(struct live_end e[2])
{
	const char *ends = getenv("WEFT_ENDS");

	if (!ends)
		return false;
	REQUIRE(sscanf(ends, "%31s %" SCNu32 " %" SCNx64 " %31s %" SCNu32 " %" SCNx64, e[0].node,
		       &e[0].lid, &e[0].guid, e[1].node, &e[1].lid, &e[1].guid) == 6);
	return true;
}

static struct weft_address gid_of(const struct live_end *e)
{
	struct weft_address gid = { .family = 6, .ip = { 0xfe, 0x80 } };

	for (int i = 0; i < 8; i++)
		gid.ip[8 + i] = (uint8_t)(e->guid >> (56 - 8 * i));
	return gid;
}

static struct weft_path path_of(int from, int to)
{
	struct live_end e[2];

	if (ends_read(e))
		return (struct weft_path){
			.from = gid_of(&e[from]),
			.to = gid_of(&e[to]),
			.from_lid = e[from].lid,
			.to_lid = e[to].lid,
			.mtu_bytes = 1024,
		};
	if (is_in_fabric())
		return fabric_bed_path(from, to, true);
	return (struct weft_path){ .from = loopback, .to = loopback, .mtu_bytes = 1024 };
}

/* ---- End-to-end contexts -------------------------------------------------------------------- */

enum { RD_KEY = 0x1234, RD_DOMAIN = 7, RD_PAIRS_MAX = 8, RD_PSN = 0xfffff0 };

/* Of two adapters: each has one for the other and one for itself. */
static struct rd_ways {
	struct weft_adapter *adapters[2]; /* NULL: not in use */
	struct weft_ee *ees[2][2];
} ways[RD_PAIRS_MAX];

static struct rd_ways *ways_of(const struct weft_adapter *a)
{
	for (int i = 0; i < RD_PAIRS_MAX; i++) {
		if (ways[i].adapters[0] == a || (a && ways[i].adapters[1] == a))
			return &ways[i];
	}
	return NULL;
}

/* Where cables are pulled meanwhile a manager needs its time to find another way. */
static bool is_cut(void)
{
	return getenv("WEFT_ENDS_CUT") != NULL;
}

static uint8_t timeout_code(void)
{
	return is_cut() ? 18 : 14;
}

/* What has not arrived while nothing else did for so long was lost. */
static uint64_t lost_ns(void)
{
	return (is_cut() ? 100 : 20) * UINT64_C(1000000);
}

/* Where packets are lost, requests that wait for a receive must be still for longer than that. */
static uint8_t rnr_timer_code(uint8_t usual)
{
	return is_cut() ? 28 : usual; /* 164 ms */
}

static void ways_open(const struct pair *p)
{
	struct weft_ee_options options = {
		.rdd = RD_DOMAIN,
		.psn_send = RD_PSN,
		.timeout_code = timeout_code(),
		.retries = 7,
		.rnr_retries = WEFT_RNR_RETRY_FOREVER,
	};
	struct rd_ways *w = ways_of(NULL);

	REQUIRE(w);
	for (int i = 0; i < 2; i++) {
		w->adapters[i] = p->ends[i].adapter;
		for (int k = 0; k < 2; k++) {
			options.path = path_of(i, k);
			MUST(weft_ee_create(w->adapters[i], &options, &w->ees[i][k]));
		}
	}
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < 2; k++)
			MUST(weft_ee_connect(w->ees[i][k], weft_ee_number(w->ees[k][i]), RD_PSN));
	}
}

static void ways_close(const struct pair *p)
{
	struct rd_ways *w = ways_of(p->ends[0].adapter);

	for (int i = 0; w && i < 4; i++)
		MUST(weft_ee_destroy(w->ees[i / 2][i % 2]));
	if (w)
		*w = (struct rd_ways){ .adapters = { NULL } };
}

static void rd_connect(struct pair *p)
{
	const struct weft_roce_attr how = {
		.rnr_timer_code = rnr_timer_code(
			18), /* 5 ms: between two tries nothing is under way */
		.reads_out = 16,
		.q_key = RD_KEY,
		.rdd = RD_DOMAIN,
	};

	for (int i = 0; i < 2; i++) {
		MUST(weft_qp_to_rtr(p->ends[i].qp, &how));
		MUST(weft_qp_to_rts(p->ends[i].qp, &how));
	}
}

static void roce_aim(const struct pair_end *e, struct weft_send_wr *wr, const struct pair_end *at)
{
	const struct rd_ways *w = ways_of(e->adapter);

	if (!w)
		return;
	wr->ee = w->ees[w->adapters[1] == e->adapter][w->adapters[1] == at->adapter];
	wr->remote_q_key = RD_KEY;
}

static bool ways_are_busy(const struct pair_end *e)
{
	const struct rd_ways *w = ways_of(e->adapter);
	int self = w && w->adapters[1] == e->adapter;

	return w && (ib_ee_is_busy(ib_ee_of(w->ees[self][0])) ||
		     ib_ee_is_busy(ib_ee_of(w->ees[self][1])));
}

/* ---- Adapters ------------------------------------------------------------------------------- */

static void sockets_open(struct pair *p)
{
	const struct weft_adapter_options options = {
		.tags_max = p->options.tags_max ? p->options.tags_max : PAIR_TAGS_MAX,
		.translations_max = p->options.translations_max ? p->options.translations_max
								: PAIR_TRANSLATIONS_MAX,
		.policy = p->options.policy,
	};
	struct live_end ends[2];
	bool is_live = ends_read(ends);

	/* If it can be had: else others of the host have packets of ours to hand on. */
	if (!is_live)
		(void)own_network_enter();
	if (is_in_fabric())
		fabric_bed_open();
	for (int i = 0; i < 2; i++) {
		if (is_live)
			REQUIRE(setenv("WEFT_NODE", ends[i].node, 1) == 0);
		else if (is_in_fabric())
			fabric_bed_enter(i);
		MUST(weft_adapter_open(&options, &p->ends[i].adapter));
		MUST(weft_roce_open(p->ends[i].adapter));
	}
	if (p->options.service == WEFT_RD)
		ways_open(p);
}

static void forget_cm_ids(const struct pair *p, bool is_all);

static void sockets_close(struct pair *p)
{
	forget_cm_ids(p, true);
	ways_close(p);
	for (int i = 0; i < 2; i++)
		MUST(weft_adapter_close(p->ends[i].adapter));
}

static void roce_progress(struct pair *p)
{
	uint32_t count;

	for (int i = 0; i < 2; i++)
		MUST(weft_cq_poll(p->ends[i].send_cq, NULL, 0, &count));
}

static uint64_t roce_now_ns(const struct pair *p)
{
	struct timespec ts;

	(void)p;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* Whether an end has something to say, or waits for an answer that comes by itself. */
static bool is_busy(const struct pair_end *e)
{
	const struct roce *r = roce_of(e->adapter->net);
	const struct ib_conn *c = e->qp ? ib_conn_of(e->qp) : NULL;

	return ib_port_has_output(r->port) || ib_cm_has_output(r->cm) ||
	       !list_is_empty(&r->leaving) || (c && ib_is_busy(c)) || ways_are_busy(e);
}

/* Looks everywhere, as the thread behind an adapter does. True: it has nothing to do. */
static bool looks_idle(struct pair_end *e, struct weft_roce_counts *counts)
{
	bool is_idle;

	adapter_enter(e->adapter);
	adapter_watch(e->adapter);
	roce_tell(roce_of(e->adapter->net), counts);
	is_idle = !is_busy(e);
	adapter_leave(e->adapter);
	return is_idle;
}

/*
 * Packets are on their way that were sent and have not arrived: the host has them. Those that it
 * lost are given up after a while in which nothing happens.
 */
static void roce_settle(struct pair *p)
{
	uint64_t begin = roce_now_ns(p), since = begin, was = 0;

	for (;;) {
		struct weft_roce_counts n[2];
		bool is_idle = looks_idle(&p->ends[0], &n[0]);
		uint64_t in, out;

		is_idle = looks_idle(&p->ends[1], &n[1]) && is_idle;
		in = n[0].packets_in + n[1].packets_in;
		out = n[0].packets_out + n[1].packets_out;
		if (in + out != was)
			since = roce_now_ns(p);
		/* What the first has been sent since it looked counts for the second. */
		if (is_idle && (in == out || roce_now_ns(p) - since > lost_ns()))
			return;
		was = in + out;
		REQUIRE(pair_wait(p, begin));
	}
}

/* What a cm_id has to tell next, and that it is this. */
static struct weft_cm_id_news news_of(struct pair_end *e, struct weft_cm_id *c,
				      enum weft_cm_id_kind kind)
{
	struct weft_cm_id_news news = { .kind = WEFT_CM_NONE };
	uint64_t since = roce_now_ns(e->pair);

	for (;;) {
		MUST(weft_cm_id_next(c, &news));
		if (news.kind != WEFT_CM_NONE)
			break;
		REQUIRE(pair_wait(e->pair, since));
	}
	REQUIRE(news.kind == kind);
	return news;
}

static struct weft_cm_id_offer offer_of(struct pair_end *e, uint32_t psn)
{
	return (struct weft_cm_id_offer){
		.qp_number = weft_qp_number(e->qp),
		.psn = psn,
		.reads_in = 16,
		.reads_out = 16,
		.retries = 7,
		.rnr_retries = WEFT_RNR_RETRY_FOREVER,
		.timeout_code = timeout_code(),
		.is_uc = e->pair->options.service == WEFT_UC,
	};
}

/* The queue pair as the other end's news says it. */
static struct weft_roce_attr agreed_attr(const struct weft_cm_id_news *news, uint32_t psn)
{
	struct weft_path path = news->path;

	path.mtu_bytes = 1024;
	return (struct weft_roce_attr){
		.path = path,
		.peer_number = news->qp_number,
		.psn_recv = psn,
		.psn_send = news->psn,
		.reads_in = 16,
		.reads_out = 16,
		.timeout_code = timeout_code(),
		.retries = 7,
		.rnr_retries = WEFT_RNR_RETRY_FOREVER,
		.rnr_timer_code = rnr_timer_code(16), /* 2.56 ms */
	};
}

enum { CONTACTS_MAX = 4096 };

/* They stay until their queue pair connects anew, or the adapter closes. */
static struct {
	const struct weft_adapter *adapter;
	const struct weft_qp *qp;
	struct weft_cm_id *cm_id;
} cm_ids[CONTACTS_MAX];
static uint32_t cm_id_count;

static void forget_cm_ids(const struct pair *p, bool is_all)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < cm_id_count; i++) {
		bool is_gone = false;

		for (int k = 0; k < 2; k++)
			is_gone |= cm_ids[i].adapter == p->ends[k].adapter &&
				   (is_all || cm_ids[i].qp == p->ends[k].qp);
		if (is_gone)
			MUST(weft_cm_id_close(cm_ids[i].cm_id));
		else
			cm_ids[kept++] = cm_ids[i];
	}
	cm_id_count = kept;
}

static void keep_cm_id(const struct pair_end *e, struct weft_cm_id *c)
{
	REQUIRE(cm_id_count < CONTACTS_MAX);
	cm_ids[cm_id_count].adapter = e->adapter;
	cm_ids[cm_id_count].qp = e->qp;
	cm_ids[cm_id_count++].cm_id = c;
	/* What is not acknowledged is not missed either. */
	if (e->pair->options.service == WEFT_RC)
		MUST(weft_cm_id_bind(c, e->qp));
}

static void roce_connect(struct pair *p)
{
	struct pair_end *a = &p->ends[0], *b = &p->ends[1];
	struct weft_cm_id_options how = {
		.path = path_of(0, 1),
		.port_space = WEFT_PORT_SPACE_TCP,
	};
	const struct weft_cm_service_options at = { .at = how.path.to,
						    .port_space = WEFT_PORT_SPACE_TCP };
	struct weft_cm_id_offer offers[2] = { offer_of(a, 0xfffff0), offer_of(b, 1000) };
	struct weft_cm_service *service;
	struct weft_cm_id *active, *passive = NULL;
	uint64_t begin = roce_now_ns(p);
	struct weft_cm_id_news news;
	struct weft_roce_attr r;

	forget_cm_ids(p, false);
	roce_settle(p);
	if (p->options.service == WEFT_RD) {
		rd_connect(p);
		return;
	}
	MUST(weft_cm_service_open(b->adapter, &at, &service));
	MUST(weft_cm_service_address(service, &how.path.to));
	MUST(weft_cm_id_open(a->adapter, &how, &offers[0], &active));
	do
		MUST(weft_cm_service_next(service, NULL, &passive));
	while (!passive && pair_wait(p, begin));
	REQUIRE(passive);
	news = news_of(b, passive, WEFT_CM_REQUEST);
	r = agreed_attr(&news, offers[1].psn);
	MUST(weft_qp_to_rtr(b->qp, &r));
	keep_cm_id(b, passive);
	MUST(weft_cm_id_accept(passive, &offers[1]));
	news = news_of(a, active, WEFT_CM_REPLY);
	r = agreed_attr(&news, offers[0].psn);
	MUST(weft_qp_to_rtr(a->qp, &r));
	keep_cm_id(a, active);
	MUST(weft_qp_to_rts(a->qp, &r));
	MUST(weft_cm_id_ready(active));
	news = news_of(b, passive, WEFT_CM_ESTABLISHED);
	r.psn_send = offers[0].psn;
	MUST(weft_qp_to_rts(b->qp, &r));
	MUST(weft_cm_service_close(service));
}

const struct pair_maker pair_maker = {
	.name = "roce",
	.abilities = PAIR_REFUSAL_COMPLETES | PAIR_READ_SCATTERS | PAIR_ATOMICS |
		     PAIR_KNOWS_SENDER | PAIR_ACKNOWLEDGES | PAIR_SEND_IMM | PAIR_CHECKS_WHOLE |
		     PAIR_PIPELINES,
	.services = 1U << WEFT_RC | 1U << WEFT_UC | 1U << WEFT_RD,
	.open = sockets_open,
	.close = sockets_close,
	.connect = roce_connect,
	.progress = roce_progress,
	.settle = roce_settle,
	.now_ns = roce_now_ns,
	.aim = roce_aim,
};
