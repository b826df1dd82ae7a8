/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreliable datagrams (IBA 9.8.3): one packet is one message (UD-03). What is not for this queue
 * pair, or finds no room, is dropped without a word. A receive begins with 40 bytes that stand for
 * the route header (annex A17).
 */
#include "ib/datagram.h"

#include <string.h>

#include "ib/conn.h"
#include "ib/message.h"
#include "ib/packet.h"
#include "ib/port.h"
#include "ib/requester.h"
#include "wire/iba_grh.h"

/* ---- Out ------------------------------------------------------------------------------------ */

static struct inet_end end_of(const struct weft_address *a)
{
	struct inet_end end = { .port = a->port };

	memcpy(end.address, a->ip, a->family == 6 ? 16 : 4);
	return end;
}

static void path_of(const struct weft_path *w, uint32_t number, struct ib_path *path)
{
	uint32_t label = w->flow_label ? w->flow_label : iba_flow_label(number, number);

	*path = (struct ib_path){
		.is_ipv6 = w->from.family == 6,
		.local = ib_local_of(w),
		.from = end_of(&w->from),
		.to = end_of(&w->to),
		.mtu_bytes = w->mtu_bytes,
		.traffic_class = w->traffic_class,
		.hop_limit = w->hop_limit,
		.flow_label = w->flow_label,
	};
	path->to.port = IBA_UDP_PORT;
	if (path->from.port == 0)
		path->from.port = iba_udp_port(label);
}

bool ud_has_path(const struct ib_conn *c, const struct send_wqe *wqe)
{
	return wqe->ah == 0 || ah_find(c->port->adapter, wqe->ah);
}

/* ---- Adapters of the same host -------------------------------------------------------------- */

/* NULL: there is none. */
static const struct send_wqe *next_of(const struct ib_conn *c)
{
	return c->qp && c->req.count > 0 ? rc_req_wqe(c, rc_req_at(&c->req, 0)) : NULL;
}

/* Datagrams to a group go to adapters of all hosts. */
static uint32_t near_of(const struct ib_conn *c, const struct weft_ah *ah, uint32_t dest_qp)
{
	if (!ah->is_on_host || dest_qp == IBA_QPN_MULTICAST)
		return 0;
	return c->port->near_numbers[adapter_slot_of(dest_qp)];
}

uint32_t ud_near(const struct ib_conn *c)
{
	const struct send_wqe *wqe = next_of(c);
	const struct weft_ah *ah = wqe ? ah_find(c->port->adapter, wqe->ah) : NULL;

	return ah ? near_of(c, ah, wqe->dest_qp_number) : c->path.near_number;
}

uint8_t ud_near_slot(const struct ib_conn *c)
{
	const struct send_wqe *wqe = next_of(c);

	return wqe ? adapter_slot_of(wqe->dest_qp_number) : 0;
}

/* ---- Packets -------------------------------------------------------------------------------- */

const struct ib_path *ud_path(struct ib_conn *c, const struct send_wqe *wqe, struct ib_out *out)
{
	const struct weft_ah *ah;

	if (wqe->ah == 0)
		return &c->path;
	ah = ah_find(c->port->adapter, wqe->ah);
	if (!ah)
		return NULL;
	path_of(&ah->path, c->number, &out->own_path);
	c->path.near_number = near_of(c, ah, wqe->dest_qp_number);
	c->is_near_latest = c->path.near_number != 0;
	out->own_path.near_number = c->path.near_number;
	return &out->own_path;
}

/* IBA 10.2.5: a request with the top bit set asks for the key of its own queue pair. */
static uint32_t q_key_of(const struct ib_conn *c, const struct send_wqe *wqe)
{
	bool is_own = wqe->ah == 0 || wqe->remote_q_key & UINT32_C(1) << 31;

	return is_own ? c->q_key : wqe->remote_q_key;
}

bool ud_next(struct ib_conn *c, struct ib_out *out)
{
	struct requester *q = &c->req;
	struct iba_packet p = {
		.psn = q->psn_send, .p_key = c->p_key, .src_qp = c->number, .is_migrated = true
	};
	const struct ib_path *path;
	struct send_wqe *wqe;
	struct load load;
	enum weft_reason r;

	if (!c->qp || q->count == 0 || q->is_absent)
		return false;
	wqe = rc_req_wqe(c, rc_req_at(q, 0));
	path = ud_path(c, wqe, out);
	if (!path) {
		uc_gone(c, WEFT_R_PEER_UNKNOWN);
		return false;
	}
	request_packet(c, wqe, 0, &p);
	load_init_in(&load, out, p.opcode);
	r = request_payload(c, wqe, 0, &load);
	if (r != WEFT_OK) {
		if (!request_waits(c, wqe, r))
			uc_gone(c, mem_gone_reason(r, WEFT_R_SOURCE_GONE));
		return false;
	}
	p.dest_qp = wqe->dest_qp_number;
	p.q_key = q_key_of(c, wqe);
	packet_write(c->port, path, &p, &load, out);
	uc_sent(c);
	return true;
}

/* ---- In ------------------------------------------------------------------------------------- */

enum { UDP_HEADER_BYTES = 8 };

static void gid_of(uint8_t gid[IBA_GID_BYTES], const struct ib_in *in, const struct inet_end *end)
{
	if (in->is_ipv6)
		memcpy(gid, end->address, IBA_GID_BYTES);
	else
		iba_gid_of_ipv4(end->address, gid);
}

/* Without a global route the bytes have no meaning (IBA 11.4.1.2). */
static void route_of(const struct ib_in *in, uint8_t bytes[IBA_GRH_BYTES])
{
	struct iba_grh g = {
		.traffic_class = in->traffic_class,
		.payload_bytes = (uint16_t)(UDP_HEADER_BYTES + in->length),
		.next_header = IBA_GRH_NEXT_UDP,
		.hop_limit = in->hop_limit,
	};

	if (in->route_bytes > 0) {
		memset(bytes, 0, IBA_GRH_BYTES);
		if (in->local.has_grh)
			memcpy(bytes, in->bytes - IBA_GRH_BYTES, IBA_GRH_BYTES);
		return;
	}
	gid_of(g.from, in, &in->from);
	gid_of(g.to, in, &in->to);
	iba_grh_encode(&g, bytes);
}

enum weft_reason datagram_check(struct ib_conn *c, uint64_t bytes)
{
	struct weft_qp *qp = c->qp;
	uint64_t room = 0;

	if (!qp_has_receive(qp))
		return WEFT_R_RECEIVER_NOT_READY;
	if (!qp->recv)
		qp_recv_claim(qp); /* and kept for the next, if this one is dropped */
	for (uint32_t i = 0; i < qp->recv->sge_count; i++)
		room += qp->recv->sges[i].length;
	return bytes <= room ? WEFT_OK : WEFT_R_RECEIVE_TOO_SHORT;
}

enum weft_reason datagram_end(struct ib_conn *c, struct weft_completion *completion,
			      enum weft_reason r, bool is_solicited)
{
	if (r != WEFT_OK) { /* the receive's own fault (LOC-06) */
		completion->status = WEFT_ERR_LOCAL_ACCESS;
		completion->reason = r;
		completion->byte_count = 0;
		completion->has_route = completion->has_ipv4_route = false;
	}
	qp_recv_retire(c->qp, completion, is_solicited);
	if (r != WEFT_OK)
		conn_fail(c, r);
	return r;
}

static enum weft_reason place(struct ib_conn *c, const struct iba_packet *p, const struct ib_in *in)
{
	struct stretch part = qp_recv_stretch(c->qp);
	uint8_t route[IBA_GRH_BYTES];
	enum weft_reason r = receive_check(c->qp);

	if (r != WEFT_OK)
		return r;
	route_of(in, route);
	part.length = sizeof(route);
	r = place_list(c->qp, &part, route);
	part.length = p->payload_bytes;
	return r == WEFT_OK ? place_list(c->qp, &part, p->payload) : r;
}

enum weft_reason ud_recv(struct ib_conn *c, const struct iba_packet *p, const struct ib_in *in)
{
	struct weft_completion completion = {
		.opcode = WEFT_OP_RECV,
		.src_qp_number = p->src_qp,
		.byte_count = IBA_GRH_BYTES + p->payload_bytes,
		.has_imm = iba_form(p->opcode)->headers & IBA_HAS_IMM,
		.imm = p->imm,
		.has_route = in->route_bytes == 0 || in->local.has_grh,
		.has_ipv4_route = in->route_bytes == 0 && !in->is_ipv6,
		.src_lid = in->local.from,
		.service_level = in->local.level,
		.path_bits = in->path_bits,
	};
	enum weft_reason r;

	if (!c->qp)
		return WEFT_R_QP_STATE;
	if (list_is_linked(&c->raw_link))
		return WEFT_R_IB_SERVICE;
	if (p->q_key != c->q_key)
		return WEFT_R_IB_QKEY;
	r = p->payload_bytes <= c->path.mtu_bytes ? datagram_check(c, completion.byte_count)
						  : WEFT_R_IB_LENGTH;
	if (r != WEFT_OK) {
		c->port->adapter->messages_dropped++;
		return r;
	}
	c->is_near_latest = in->is_near;
	r = place(c, p, in);
	if (r == WEFT_OK)
		count_message_in(c->port, c->qp, p->payload_bytes);
	return datagram_end(c, &completion, r, p->is_solicited);
}
