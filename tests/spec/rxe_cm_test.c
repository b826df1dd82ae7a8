/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every cm_id of connection management that Linux rxe was recorded in, once more with the
 * agent in the place of either end: what rxe said is understood, and what the agent says in its
 * turn is byte for byte what rxe said, but for the ids that each chooses itself.
 */
#include <string.h>

#include "cm/ib_cm.h"
#include "rxe_golden.h"
#include "test.h"
#include "wire/iba.h"

static const char *const names[] = {
	"cm",	"cm_many", "cm_refused", "cm_ud", "atomic", "badread", "imm",
	"ipv6", "iser",	   "loss",	 "nvme",  "rc",	    "srq",     "uc",
};

struct replay {
	struct ib_cm *cm;
	bool is_active;
	bool is_sidr;
	bool is_ended;
	uint32_t id;	     /* ours, of the agent */
	uint32_t begun_by;   /* id in the REQ */
	struct ibcm_ip ip;   /* from us */
	struct ibcm_msg req; /* recorded */
	uint32_t said;	     /* 1 << kind, less IBCM_REQ: of ours */
	uint32_t heard;
	uint64_t now_ns;
};

static bool message_at(const struct rxe_packet *p, struct ibcm_msg *m)
{
	struct iba_packet packet;

	REQUIRE(iba_decode(&packet, p->bytes, p->length) == WEFT_OK);
	return packet.dest_qp == IBA_QPN_GSI &&
	       ibcm_decode(m, packet.payload, packet.payload_bytes) == WEFT_OK;
}

/* What the consumer gave, without zeros that may or may not be its own. */
static struct ibcm_bytes consumer(struct ibcm_bytes all, bool has_header)
{
	uint32_t header = has_header ? IBCM_IP_BYTES : 0;

	return (struct ibcm_bytes){ all.bytes + header, all.length - header };
}

static void say_req(struct replay *r, const struct ibcm_msg *m)
{
	const struct ibcm_req *q = &m->req;
	struct ib_cm_connect c = {
		.ip = r->ip,
		.service_id = q->service_id,
		.transport = q->transport,
		.end = { .qpn = q->qpn,
			 .psn = q->psn,
			 .q_key = q->q_key,
			 .reads_in = q->responder_resources,
			 .reads_out = q->initiator_depth,
			 .retries = q->retry_count,
			 .rnr_retries = q->rnr_retry,
			 .has_srq = q->has_srq,
			 .has_flow_control = q->has_flow_control },
		.mtu_bytes = iba_mtu_bytes(q->path_mtu),
		.traffic_class = q->primary.traffic_class,
		.flow_label = q->primary.flow_label,
		.ack_code = q->primary.ack_timeout,
		.hop_limit = q->primary.hop_limit,
		.private_data = consumer(m->private_data, true),
	};
	struct ibcm_ip said;

	REQUIRE(ibcm_ip_decode(&said, q->service_id, m->private_data) == WEFT_OK);
	c.ip.from.port = said.from.port;
	REQUIRE(ib_cm_connect(r->cm, r->now_ns, &c, &r->id) == WEFT_OK);
}

static void say_sidr_req(struct replay *r, const struct ibcm_msg *m)
{
	struct ib_cm_resolve q = { .ip = r->ip,
				   .service_id = m->sidr_req.service_id,
				   .p_key = m->sidr_req.p_key,
				   .private_data = consumer(m->private_data, true) };
	struct ibcm_ip said;

	REQUIRE(ibcm_ip_decode(&said, q.service_id, m->private_data) == WEFT_OK);
	q.ip.from.port = said.from.port;
	REQUIRE(ib_cm_resolve(r->cm, r->now_ns, &q, &r->id) == WEFT_OK);
}

static void say_rep(struct replay *r, const struct ibcm_msg *m)
{
	const struct ibcm_rep *p = &m->rep;
	const struct ib_cm_accept a = {
		.end = { .qpn = p->qpn,
			 .psn = p->psn,
			 .q_key = p->q_key,
			 .reads_in = p->responder_resources,
			 .reads_out = p->initiator_depth,
			 .rnr_retries = p->rnr_retry,
			 .ack_delay = p->ack_delay,
			 .has_srq = p->has_srq,
			 .has_flow_control = p->has_flow_control },
		.private_data = m->private_data,
	};

	REQUIRE(ib_cm_accept(r->cm, r->now_ns, r->id, &a) == WEFT_OK);
}

static bool is_parting(const struct replay *r)
{
	return r->said & 1U << (IBCM_DREQ - IBCM_REQ);
}

/* Does what makes the agent say it. */
static void act(struct replay *r, const struct ibcm_msg *m)
{
	const struct ib_cm_reject no = { m->rej.reason, m->info, m->private_data };
	const struct ib_cm_answer answer = { m->sidr_rep.status, m->sidr_rep.qpn, m->sidr_rep.q_key,
					     m->info, m->private_data };

	switch (m->kind) {
	case IBCM_REQ:
		say_req(r, m);
		break;
	case IBCM_SIDR_REQ:
		say_sidr_req(r, m);
		break;
	case IBCM_REP:
		say_rep(r, m);
		break;
	case IBCM_RTU:
		REQUIRE(ib_cm_ready(r->cm, r->now_ns, r->id, m->private_data) == WEFT_OK);
		break;
	case IBCM_REJ:
		REQUIRE(ib_cm_reject(r->cm, r->now_ns, r->id, &no) == WEFT_OK);
		break;
	case IBCM_MRA:
		/* rxe says it at once, weft when its owner has taken long. */
		r->now_ns = ib_cm_due(r->cm);
		ib_cm_expire(r->cm, r->now_ns);
		break;
	case IBCM_DREP:
	case IBCM_DREQ:
		/* A DREP when both parted at once: it says it by itself. */
		if (m->kind != IBCM_DREP || !is_parting(r))
			REQUIRE(ib_cm_disconnect(r->cm, r->now_ns, r->id, m->private_data) ==
				WEFT_OK);
		break;
	case IBCM_SIDR_REP:
		REQUIRE(ib_cm_answer(r->cm, r->now_ns, r->id, &answer) == WEFT_OK);
		break;
	default:
		REQUIRE(false);
	}
}

/* Ours and the recorded one, with the ids and the transaction that rxe chose. */
static void compare(struct replay *r, const struct ibcm_msg *m)
{
	uint8_t theirs[MAD_BYTES], ours[MAD_BYTES];
	struct ib_cm_out out;
	struct ibcm_msg mine;

	REQUIRE(ib_cm_send(r->cm, r->now_ns, &out) && !ib_cm_has_output(r->cm));
	REQUIRE(ibcm_decode(&mine, out.bytes, MAD_BYTES) == WEFT_OK && mine.kind == m->kind);
	REQUIRE(memcmp(out.ip.to.address, r->ip.to.address, 16) == 0);
	if (!r->is_sidr)
		REQUIRE(mine.local_id == r->id);
	if (m->kind == IBCM_REQ || m->kind == IBCM_SIDR_REQ || m->kind == IBCM_DREQ ||
	    (r->is_active && m->kind == IBCM_RTU))
		mine.tid = m->tid;
	mine.local_id = m->local_id;
	if (m->kind == IBCM_SIDR_REQ)
		mine.sidr_req.request_id = m->sidr_req.request_id;
	ibcm_encode(&mine, ours);
	ibcm_encode(m, theirs);
	REQUIRE(memcmp(ours, theirs, MAD_BYTES) == 0);
}

static void expect_event(struct replay *r, enum ib_cm_event_kind kind, const struct ibcm_msg *m)
{
	bool has_header = m->kind == IBCM_REQ || m->kind == IBCM_SIDR_REQ;
	struct ibcm_bytes data = consumer(m->private_data, has_header);
	struct ib_cm_event e;

	REQUIRE(ib_cm_event(r->cm, &e) && e.kind == kind);
	REQUIRE(e.private_bytes == data.length &&
		memcmp(e.private_data, data.bytes, data.length) == 0);
	if (has_header)
		r->id = e.id;
	REQUIRE(e.id == r->id);
	if (kind == IB_CM_REQUESTED)
		REQUIRE(e.peer.qpn == m->req.qpn && e.peer.psn == m->req.psn);
	if (kind == IB_CM_REPLIED)
		REQUIRE(e.peer.qpn == m->rep.qpn && e.peer.psn == m->rep.psn);
	if (kind == IB_CM_RESOLVED)
		REQUIRE(e.peer.qpn == m->sidr_rep.qpn && e.peer.q_key == m->sidr_rep.q_key);
	if (kind == IB_CM_FAILED)
		REQUIRE(e.reject == m->rej.reason);
}

/* A message of rxe to the end that the agent stands for. */
static void hear(struct replay *r, const struct ibcm_msg *m)
{
	static const enum ib_cm_event_kind events[] = {
		[IBCM_REQ - IBCM_REQ] = IB_CM_REQUESTED,
		[IBCM_REJ - IBCM_REQ] = IB_CM_FAILED,
		[IBCM_REP - IBCM_REQ] = IB_CM_REPLIED,
		[IBCM_RTU - IBCM_REQ] = IB_CM_ESTABLISHED,
		[IBCM_DREQ - IBCM_REQ] = IB_CM_DISCONNECTED,
		[IBCM_DREP - IBCM_REQ] = IB_CM_DISCONNECTED,
		[IBCM_SIDR_REQ - IBCM_REQ] = IB_CM_SIDR_REQUESTED,
		[IBCM_SIDR_REP - IBCM_REQ] = IB_CM_RESOLVED,
	};
	struct ibcm_ip ip = { .is_ipv6 = r->ip.is_ipv6, .from = r->ip.to, .to = r->ip.from };
	struct ibcm_msg mine = *m;
	uint8_t bytes[MAD_BYTES];

	if (m->kind != IBCM_REQ)
		mine.remote_id = r->id;
	if (m->kind == IBCM_SIDR_REP)
		mine.sidr_rep.request_id = r->id;
	ibcm_encode(&mine, bytes);
	REQUIRE(ib_cm_recv(r->cm, r->now_ns, &ip, bytes, MAD_BYTES) == WEFT_OK);
	if (events[m->kind - IBCM_REQ] && !r->is_ended)
		expect_event(r, events[m->kind - IBCM_REQ], m);
	r->is_ended |= events[m->kind - IBCM_REQ] == IB_CM_DISCONNECTED;
}

static bool belongs(const struct replay *r, const struct ibcm_msg *m)
{
	if (r->is_sidr)
		return (m->kind == IBCM_SIDR_REQ && m->sidr_req.request_id == r->begun_by) ||
		       (m->kind == IBCM_SIDR_REP && m->sidr_rep.request_id == r->begun_by);
	return m->kind != IBCM_SIDR_REQ && m->kind != IBCM_SIDR_REP &&
	       (m->local_id == r->begun_by || m->remote_id == r->begun_by);
}

/* The GUID that the end which the agent stands for has shown. */
static uint64_t guid_of(const struct rxe *x, const struct replay *r)
{
	struct ibcm_msg m;

	for (uint32_t i = 0; i < x->count; i++) {
		if (!message_at(&x->packets[i], &m) || !belongs(r, &m))
			continue;
		if (r->is_active && m.kind == IBCM_REQ)
			return m.req.ca_guid;
		if (!r->is_active && m.kind == IBCM_REP)
			return m.rep.ca_guid;
	}
	return 0;
}

static void replay_run(const struct rxe *x, uint32_t first, struct replay *r)
{
	struct ib_cm_event e;
	struct ibcm_msg m;

	for (uint32_t i = first; i < x->count; i++) {
		const struct rxe_packet *p = &x->packets[i];
		uint32_t bit;
		bool is_ours;

		if (!message_at(p, &m) || !belongs(r, &m))
			continue;
		r->now_ns += 1000;
		is_ours = memcmp(p->from.address, r->ip.from.address, 16) == 0;
		bit = 1U << (m.kind - IBCM_REQ);
		/* Again, by rxe's clock; or parting, from whom the peer had just parted. */
		if (is_ours && (r->said & bit || (m.kind == IBCM_DREQ && r->heard & bit)))
			continue;
		if (is_ours) {
			act(r, &m);
			/* A stateless REJ of rxe has no id of its own, that of an agent has. */
			compare(r, &m);
			r->said |= bit;
		} else if (!(r->heard & bit) && !(m.kind == IBCM_DREP && !is_parting(r))) {
			hear(r, &m);
			r->heard |= bit;
		}
	}
	REQUIRE(!ib_cm_event(r->cm, &e));
	REQUIRE(!ib_cm_has_output(r->cm));
}

static uint32_t replay(const struct rxe *x, uint32_t first, bool is_active)
{
	const struct rxe_packet *p = &x->packets[first];
	struct replay r = { .is_active = is_active, .now_ns = 1 };

	REQUIRE(message_at(p, &r.req));
	r.is_sidr = r.req.kind == IBCM_SIDR_REQ;
	r.begun_by = r.is_sidr ? r.req.sidr_req.request_id : r.req.local_id;
	r.ip = (struct ibcm_ip){ .is_ipv6 = p->ip.is_ipv6,
				 .from = is_active ? p->from : p->to,
				 .to = is_active ? p->to : p->from };
	r.cm = ib_cm_create(&(struct ib_cm_config){
		.adapter_slot = 1, .key = { 1, 2 }, .ca_guid = guid_of(x, &r) });
	REQUIRE(r.cm);
	replay_run(x, first, &r);
	ib_cm_destroy(r.cm);
	return r.said | r.heard;
}

TEST(test_iba_12_9_agent_in_the_place_of_rxe)
{
	uint32_t cm_ids = 0, kinds = 0;

	for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
		struct rxe *x = rxe_open(names[n]);
		struct ibcm_msg m;

		for (uint32_t i = 0; i < x->count; i++) {
			if (!message_at(&x->packets[i], &m) ||
			    (m.kind != IBCM_REQ && m.kind != IBCM_SIDR_REQ))
				continue;
			kinds |= replay(x, i, true);
			kinds |= replay(x, i, false);
			cm_ids++;
		}
		rxe_close(x);
	}
	/* REQ, REJ, REP, RTU, DREQ, DREP, SIDR_REQ and SIDR_REP were all there. */
	EXPECT_EQ(kinds & 0x1fd, 0x1fd);
	EXPECT(cm_ids >= 6);
}

static bool is_answer(const struct iba_packet *p)
{
	enum iba_op op = iba_op(p->opcode);

	return op >= IBA_READ_RESPONSE_FIRST && op <= IBA_ATOMIC_ACKNOWLEDGE;
}

/* The first request to this queue pair of who sent packet `said`; false: there was none. */
static bool first_to(const struct rxe *x, uint32_t said, uint32_t qpn, struct iba_packet *first)
{
	const uint8_t *address = x->packets[said].from.address;

	for (uint32_t i = 0; i < x->count; i++) {
		REQUIRE(iba_decode(first, x->packets[i].bytes, x->packets[i].length) == WEFT_OK);
		if (first->dest_qp == qpn && !is_answer(first) &&
		    memcmp(x->packets[i].to.address, address, 16) == 0)
			return true;
	}
	return false;
}

/*
 * IBA 12.7.31, which reads either way: who says a starting PSN is who the first packet of that
 * number is for. The recordings, in which the two ends' numbers differ, settle it.
 */
TEST(test_iba_12_7_31_starting_psn_is_of_what_its_sender_receives)
{
	uint32_t to_active = 0, to_passive = 0;

	for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
		struct rxe *x = rxe_open(names[n]);
		struct iba_packet first;
		struct ibcm_msg m;

		for (uint32_t i = 0; i < x->count; i++) {
			if (!message_at(&x->packets[i], &m))
				continue;
			if (m.kind == IBCM_REQ && first_to(x, i, m.req.qpn, &first)) {
				EXPECT_EQ(first.psn, m.req.psn);
				to_active++;
			}
			if (m.kind == IBCM_REP && first_to(x, i, m.rep.qpn, &first)) {
				EXPECT_EQ(first.psn, m.rep.psn);
				to_passive++;
			}
		}
		rxe_close(x);
	}
	EXPECT(to_active > 1 && to_passive > 1);
}
