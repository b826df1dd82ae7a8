/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two agents of InfiniBand's CM and their owners on a network that loses, doubles and delays, in
 * virtual time and from a seed. Owners connect, accept, reject, part and forget as they like.
 *
 * Then all is left alone until nothing moves: whoever takes itself for connected must be so at both
 * ends. Then all part, and again: every cm_id ended once, and nothing is left anywhere.
 *
 *	WEFT_SEEDS=FIRST:COUNT build/tests/ib_cm_swarm
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/prng.h"
#include "cm/ib_cm.h"
#include "ib_seeds.h"

enum {
	SIDES = 2,
	LEGS_MAX = 512,
	FLIGHTS_MAX = 512,
	SERVICE_PORT = 7471,
	REQUESTS_MAX = 24,
	MS = 1000000,
	ROUNDS_MAX = 200000
};

static const uint64_t S = 1000 * (uint64_t)MS;

/* One end of a cm_id, as its owner knows it. */
struct leg {
	uint32_t id, qpn, peer_qpn;
	bool is_active, is_sidr;
	bool is_established, is_ended, is_released;
	bool is_left;	    /* by reject(), answer() or forget() */
	uint64_t decide_ns; /* when the owner does its next; UINT64_MAX: never */
};

struct flight {
	uint64_t at_ns;
	uint8_t to; /* side */
	uint8_t from;
	uint8_t bytes[MAD_BYTES];
	bool is_used;
};

struct side {
	struct ib_cm *cm;
	struct leg legs[LEGS_MAX];
	uint32_t leg_count;
	uint32_t generation;
};

struct world {
	struct prng prng;
	uint64_t now_ns;
	struct side sides[SIDES];
	struct flight flights[FLIGHTS_MAX];
	uint32_t loss, doubling, slow; /* chances in a million */
	uint32_t requests, qpn_next;
	bool is_calm; /* owners begin nothing new */
	bool had_crash;
};

static struct world *w;

static uint32_t below(uint32_t n)
{
	return prng_below(&w->prng, n);
}

static struct ibcm_ip ip_between(int from, int to)
{
	struct ibcm_ip ip = { .is_ipv6 = false };

	memcpy(ip.from.address, (uint8_t[]){ 10, 0, 0, (uint8_t)(1 + from) }, 4);
	memcpy(ip.to.address, (uint8_t[]){ 10, 0, 0, (uint8_t)(1 + to) }, 4);
	return ip;
}

static struct ib_cm *agent_new(int side)
{
	const struct ib_cm_config config = {
		.adapter_slot = (uint8_t)(1 + below(254)),
		.key = { prng_next(&w->prng), prng_next(&w->prng) },
		.ca_guid = 0x100 + (uint64_t)side,
		.cm_ids_max = LEGS_MAX,
		.response_code = (uint8_t)(14 + below(8)),
		.first_retry_ns = (1 + below(200)) * (uint64_t)MS,
		.mra_code = (uint8_t)(20 + below(5)),
	};
	struct ib_cm *cm = ib_cm_create(&config);

	REQUIRE(cm);
	return cm;
}

static struct leg *leg_of(struct side *s, uint32_t id)
{
	for (uint32_t i = s->leg_count; i-- > 0;) {
		if (s->legs[i].id == id)
			return &s->legs[i];
	}
	return NULL;
}

static struct leg *leg_new(struct side *s, uint32_t id)
{
	struct leg *l = &s->legs[s->leg_count++];

	REQUIRE(s->leg_count <= LEGS_MAX);
	*l = (struct leg){ .id = id, .decide_ns = UINT64_MAX };
	return l;
}

static uint64_t later(void)
{
	switch (below(4)) {
	case 0:
		return w->now_ns;
	case 1:
		return w->now_ns + below(500) * (uint64_t)MS;
	case 2:
		return w->now_ns + below(10000) * (uint64_t)MS;
	default:
		return w->now_ns + below(300) * S;
	}
}

/* ---- The network ---------------------------------------------------------------------------- */

static void flight_add(int from, int to, const uint8_t *bytes)
{
	uint64_t delay = below(20 * MS);

	if (prng_chance(&w->prng, w->loss))
		return;
	if (prng_chance(&w->prng, w->slow))
		delay = below(20000) * (uint64_t)MS;
	for (int i = 0; i < FLIGHTS_MAX; i++) {
		struct flight *f = &w->flights[i];

		if (f->is_used)
			continue;
		*f = (struct flight){ w->now_ns + delay, (uint8_t)to, (uint8_t)from, { 0 }, true };
		memcpy(f->bytes, bytes, MAD_BYTES);
		return;
	}
	REQUIRE(false);
}

static void side_send(int from)
{
	struct ib_cm_out out;

	while (ib_cm_send(w->sides[from].cm, w->now_ns, &out)) {
		int to = out.ip.to.address[3] - 1;

		REQUIRE(to >= 0 && to < SIDES && out.ip.from.address[3] == from + 1);
		flight_add(from, to, out.bytes);
		if (prng_chance(&w->prng, w->doubling))
			flight_add(from, to, out.bytes);
	}
}

static void flight_land(struct flight *f)
{
	struct ibcm_ip ip = ip_between(f->from, f->to);

	f->is_used = false;
	(void)ib_cm_recv(w->sides[f->to].cm, w->now_ns, &ip, f->bytes, MAD_BYTES);
}

/* ---- Owners --------------------------------------------------------------------------------- */

static struct ibcm_bytes words(uint32_t *number)
{
	return (struct ibcm_bytes){ (const uint8_t *)number, sizeof(*number) };
}

static uint32_t number_in(const struct ib_cm_event *e)
{
	uint32_t number = 0;

	REQUIRE(e->private_bytes >= sizeof(number));
	memcpy(&number, e->private_data, sizeof(number));
	return number;
}

static void owner_connect(int from, int to)
{
	struct side *s = &w->sides[from];
	uint32_t qpn = w->qpn_next++, id;
	struct ib_cm_connect c = {
		.ip = ip_between(from, to),
		.service_id = ibcm_service_id(IBCM_PS_TCP, SERVICE_PORT),
		.end = { .qpn = qpn, .psn = below(1 << 24), .reads_in = 1, .reads_out = 1 },
		.mtu_bytes = 1024,
		.ack_code = (uint8_t)(14 + below(8)),
		.timeout_ns = below(3) ? 0 : below(60) * S + 1,
		.private_data = words(&qpn),
		.owner = s,
	};
	struct leg *l;

	REQUIRE(ib_cm_connect(s->cm, w->now_ns, &c, &id) == WEFT_OK);
	REQUIRE(leg_of(s, id) == NULL || leg_of(s, id)->is_released || leg_of(s, id)->is_left);
	l = leg_new(s, id);
	l->is_active = true;
	l->qpn = qpn;
	/* It may lose patience. */
	if (below(8) == 0)
		l->decide_ns = later();
}

static void owner_resolve(int from, int to)
{
	struct side *s = &w->sides[from];
	uint32_t number = w->qpn_next++, id;
	struct ib_cm_resolve r = {
		.ip = ip_between(from, to),
		.service_id = ibcm_service_id(IBCM_PS_UDP, SERVICE_PORT),
		.private_data = words(&number),
		.owner = s,
	};
	struct leg *l;

	REQUIRE(ib_cm_resolve(s->cm, w->now_ns, &r, &id) == WEFT_OK);
	l = leg_new(s, id);
	l->is_active = true;
	l->is_sidr = true;
	l->qpn = number;
	if (below(8) == 0)
		l->decide_ns = later();
}

static void leg_forget(struct side *s, struct leg *l)
{
	ib_cm_forget(s->cm, w->now_ns, l->id);
	l->is_left = true;
}

/* What an owner can do in the state that the agent is in; what it cannot is refused. */
static void decide_request(struct side *s, struct leg *l)
{
	static const struct ib_cm_reject no = { .code = IBCM_REJECT_CONSUMER };
	struct ib_cm_accept a = { .end = { .qpn = w->qpn_next++, .psn = 5 }, .owner = s };

	if (below(5) == 0) {
		REQUIRE(ib_cm_reject(s->cm, w->now_ns, l->id, &no) == WEFT_OK);
		l->is_left = true;
		return;
	}
	l->qpn = a.end.qpn;
	a.private_data = words(&l->qpn);
	REQUIRE(ib_cm_accept(s->cm, w->now_ns, l->id, &a) == WEFT_OK);
	if (below(3) == 0)
		l->decide_ns = later();
}

static void decide_reply(struct side *s, struct leg *l)
{
	static const struct ib_cm_reject no = { .code = IBCM_REJECT_CONSUMER };

	if (below(6) == 0) {
		REQUIRE(ib_cm_reject(s->cm, w->now_ns, l->id, &no) == WEFT_OK);
		l->is_left = true;
		return;
	}
	REQUIRE(ib_cm_ready(s->cm, w->now_ns, l->id, words(&l->qpn)) == WEFT_OK);
	l->is_established = true;
	if (below(2) == 0)
		l->decide_ns = later();
}

static void decide_sidr(struct side *s, struct leg *l)
{
	const struct ib_cm_answer a = { .qpn = l->peer_qpn, .q_key = IBCM_QKEY_UDP };

	REQUIRE(ib_cm_answer(s->cm, w->now_ns, l->id, &a) == WEFT_OK);
	l->is_left = true;
}

static void decide_end(struct side *s, struct leg *l)
{
	/* Calm is for who is connected, not for who waits. */
	if (below(3) == 0) {
		leg_forget(s, l);
		return;
	}
	(void)ib_cm_disconnect(s->cm, w->now_ns, l->id, words(&l->qpn));
}

static void leg_decide(struct side *s, struct leg *l)
{
	l->decide_ns = UINT64_MAX;
	if (l->is_left || l->is_released)
		return;
	if (below(10) == 0) {
		leg_forget(s, l);
		return;
	}
	switch (ib_cm_state(s->cm, l->id)) {
	case IB_CM_REQ_RCVD:
	case IB_CM_MRA_REQ_SENT:
		decide_request(s, l);
		break;
	case IB_CM_REP_RCVD:
	case IB_CM_MRA_REP_SENT:
		decide_reply(s, l);
		break;
	case IB_CM_SIDR_RCVD:
		decide_sidr(s, l);
		break;
	case IB_CM_REP_SENT:
	case IB_CM_MRA_REP_RCVD:
	case IB_CM_CONNECTED:
		decide_end(s, l);
		break;
	default:
		break;
	}
}

static void leg_end(struct leg *l, const struct ib_cm_event *e)
{
	REQUIRE(!l->is_ended);
	l->is_ended = true;
	REQUIRE((e->kind == IB_CM_RESOLVED) <= l->is_sidr);
	REQUIRE(e->kind != IB_CM_FAILED || !l->is_established);
	/* A passive end may have parted before it was established. */
	REQUIRE(e->kind != IB_CM_DISCONNECTED || l->is_established || !l->is_active);
	if (e->kind == IB_CM_RESOLVED && e->status == IBCM_SIDR_OK)
		REQUIRE(e->peer.qpn == l->qpn && e->peer.q_key == IBCM_QKEY_UDP);
	if (e->kind == IB_CM_RESOLVED || l->is_sidr)
		l->is_released = true;
}

static void event_begin(struct side *s, const struct ib_cm_event *e)
{
	struct leg *l = leg_new(s, e->id);

	l->is_sidr = e->kind == IB_CM_SIDR_REQUESTED;
	l->peer_qpn = number_in(e);
	REQUIRE(l->is_sidr || l->peer_qpn == e->peer.qpn);
	REQUIRE(e->ip.from.port == SERVICE_PORT && e->has_ip_header);
	l->decide_ns = l->is_sidr ? w->now_ns + below(3000) * (uint64_t)MS : later();
	if (!l->is_sidr && below(6) == 0)
		REQUIRE(ib_cm_delay(s->cm, w->now_ns, e->id) == WEFT_OK);
}

static void event_take(struct side *s, const struct ib_cm_event *e)
{
	struct leg *l = leg_of(s, e->id);

	if (e->kind == IB_CM_REQUESTED || e->kind == IB_CM_SIDR_REQUESTED) {
		event_begin(s, e);
		return;
	}
	REQUIRE(l && !l->is_left && !l->is_released && e->owner == (l->is_active ? s : e->owner));
	switch (e->kind) {
	case IB_CM_REPLIED:
		REQUIRE(l->is_active && !l->is_ended && number_in(e) == e->peer.qpn);
		l->peer_qpn = e->peer.qpn;
		l->decide_ns = later();
		break;
	case IB_CM_ESTABLISHED:
		REQUIRE(!l->is_active && !l->is_established && !l->is_ended);
		l->is_established = true;
		if (below(2) == 0)
			l->decide_ns = later();
		break;
	case IB_CM_DISCONNECTED:
		if (e->is_by_peer && below(2))
			(void)ib_cm_disconnect(s->cm, w->now_ns, l->id, words(&l->qpn));
		leg_end(l, e);
		break;
	case IB_CM_RELEASED:
		REQUIRE(l->is_ended);
		l->is_released = true;
		break;
	default:
		leg_end(l, e);
		break;
	}
}

static void side_events(struct side *s)
{
	struct ib_cm_event e;

	while (ib_cm_event(s->cm, &e))
		event_take(s, &e);
}

/* ---- Time ----------------------------------------------------------------------------------- */

static uint64_t next_time(void)
{
	uint64_t at = UINT64_MAX;

	for (int i = 0; i < FLIGHTS_MAX; i++) {
		if (w->flights[i].is_used && w->flights[i].at_ns < at)
			at = w->flights[i].at_ns;
	}
	for (int k = 0; k < SIDES; k++) {
		struct side *s = &w->sides[k];
		uint64_t due = ib_cm_due(s->cm);

		at = due < at ? due : at;
		for (uint32_t i = 0; i < s->leg_count; i++)
			at = s->legs[i].decide_ns < at ? s->legs[i].decide_ns : at;
	}
	return at;
}

static void side_turn(int k)
{
	struct side *s = &w->sides[k];

	ib_cm_expire(s->cm, w->now_ns);
	side_events(s);
	for (uint32_t i = 0; i < s->leg_count; i++) {
		if (s->legs[i].decide_ns <= w->now_ns)
			leg_decide(s, &s->legs[i]);
	}
	side_events(s);
	side_send(k);
	REQUIRE(!ib_cm_has_output(s->cm));
	REQUIRE(ib_cm_due(s->cm) > w->now_ns);
}

static void turn(void)
{
	for (int i = 0; i < FLIGHTS_MAX; i++) {
		struct flight *f = &w->flights[i];

		if (f->is_used && f->at_ns <= w->now_ns) {
			flight_land(f);
			if (below(2))
				side_events(&w->sides[f->to]);
		}
	}
	for (int k = 0; k < SIDES; k++)
		side_turn(k);
}

/* False: nothing moves any more. */
static bool step(uint64_t until_ns)
{
	uint64_t at = next_time();

	if (at > until_ns || at == UINT64_MAX)
		return false;
	w->now_ns = at > w->now_ns ? at : w->now_ns;
	turn();
	return true;
}

static void run_until(uint64_t until_ns)
{
	for (uint32_t n = 0; step(until_ns); n++)
		REQUIRE(n < ROUNDS_MAX);
	if (until_ns != UINT64_MAX)
		w->now_ns = until_ns;
}

/* ---- The judge ------------------------------------------------------------------------------ */

static bool is_connected(struct side *s, const struct leg *l)
{
	return ib_cm_state(s->cm, l->id) == IB_CM_CONNECTED && !l->is_released;
}

/* Legs whose QPs name each other; who forgot is no longer asked. */
static const struct leg *partner(const struct leg *l)
{
	for (int k = 0; k < SIDES; k++) {
		for (uint32_t i = 0; i < w->sides[k].leg_count; i++) {
			const struct leg *other = &w->sides[k].legs[i];

			if (other->qpn == l->peer_qpn && other->peer_qpn == l->qpn &&
			    is_connected(&w->sides[k], other))
				return other;
		}
	}
	return NULL;
}

static void judge_agreement(void)
{
	for (int k = 0; k < SIDES; k++) {
		struct side *s = &w->sides[k];

		for (uint32_t i = 0; i < s->leg_count; i++) {
			const struct leg *l = &s->legs[i];

			if (is_connected(s, l)) {
				REQUIRE(l->is_established && !l->is_ended);
				REQUIRE(w->had_crash || partner(l));
			} else {
				REQUIRE(l->is_left || l->is_ended);
				REQUIRE(l->is_left || l->is_released);
			}
		}
	}
}

static void judge_end(void)
{
	for (int k = 0; k < SIDES; k++) {
		const struct ib_cm_counts *c = ib_cm_counts(w->sides[k].cm);

		REQUIRE(c->conversations == 0 && c->half_open == 0 && c->timewait == 0);
		REQUIRE(ib_cm_due(w->sides[k].cm) == UINT64_MAX);
		REQUIRE(c->full == 0);
	}
	judge_agreement();
}

/* ---- A world -------------------------------------------------------------------------------- */

static void crash(int k)
{
	struct side *s = &w->sides[k];

	ib_cm_destroy(s->cm);
	s->cm = agent_new(k);
	s->leg_count = 0;
	w->had_crash = true;
}

static void world_open(void)
{
	w = calloc(1, sizeof(*w));
	REQUIRE(w);
	w->prng.state = seed;
	w->now_ns = 5;
	w->qpn_next = 100;
	w->loss = below(2) ? below(200000) : 0;
	w->doubling = below(2) ? below(300000) : 0;
	w->slow = below(3) == 0 ? below(200000) : 0;
	for (int k = 0; k < SIDES; k++)
		w->sides[k].cm = agent_new(k);
}

static void world_close(void)
{
	for (int k = 0; k < SIDES; k++)
		ib_cm_destroy(w->sides[k].cm);
	free(w);
	w = NULL;
}

static void world_run(void)
{
	uint32_t requests, crash_at;

	world_open();
	requests = 1 + below(REQUESTS_MAX);
	crash_at = below(8) == 0 ? below(requests) : UINT32_MAX;
	for (uint32_t i = 0; i < requests; i++) {
		int from = (int)below(SIDES), to = (int)below(SIDES);

		if (below(5) == 0)
			owner_resolve(from, to);
		else
			owner_connect(from, to);
		side_send(from);
		if (i == crash_at)
			crash((int)below(SIDES));
		run_until(w->now_ns + below(20000) * (uint64_t)MS);
	}
	run_until(UINT64_MAX);
	judge_agreement();
	for (int k = 0; k < SIDES; k++) {
		for (uint32_t i = 0; i < w->sides[k].leg_count; i++) {
			struct leg *l = &w->sides[k].legs[i];

			if (is_connected(&w->sides[k], l) && (below(2) || k == 0))
				l->decide_ns = w->now_ns + below(100) * (uint64_t)MS;
		}
	}
	run_until(UINT64_MAX);
	/* Those whose other end crashed have nobody who would part. */
	for (int k = 0; k < SIDES; k++) {
		for (uint32_t i = 0; i < w->sides[k].leg_count; i++) {
			struct leg *l = &w->sides[k].legs[i];

			if (is_connected(&w->sides[k], l))
				leg_forget(&w->sides[k], l);
		}
		side_send(k);
	}
	run_until(UINT64_MAX);
	judge_end();
	world_close();
}

const uint64_t failed_once[] = { 0 };
const uint64_t failed_once_count = sizeof(failed_once) / sizeof(*failed_once);
const uint64_t seeds_count = IB_SEEDS;

TEST(test_iba_12_9_both_ends_agree)
{
	world_run();
}
