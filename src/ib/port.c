/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib/port.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/least.h"
#include "ib/conn.h"
#include "ib/datagram.h"
#include "ib/ee.h"
#include "ib/group.h"
#include "ib/gsi.h"
#include "ib/migrate.h"
#include "ib/pace.h"
#include "ib/rc.h"
#include "ib/rc_holes.h"
#include "ib/rc_retry.h"
#include "ib/requester.h"
#include "ib/responder.h"
#include "ib/route.h"
#include "wire/iba_icrc.h"

enum {
	BURST = 16,	   /* packets of a connection before the next one's turn */
	ACKS_LOOKED_AT = 4 /* of connections; where there are more, they do not wait */
};

/* ---- Life ----------------------------------------------------------------------------------- */

struct ib_port *ib_port_create(const struct ib_port_config *config)
{
	struct ib_port *port = calloc(1, sizeof(*port));
	uint32_t max = config->adapter->qps.slots_max;

	if (!port)
		return NULL;
	port->adapter = config->adapter;
	port->cut_after = UINT64_MAX;
	if (port->adapter->faults && port->adapter->faults->disconnect_after > 0)
		port->cut_after = port->adapter->faults->disconnect_after;
	port->conns_max = max;
	list_init(&port->ready);
	list_init(&port->near_held);
	list_init(&port->ended);
	list_init(&port->members);
	list_init(&port->ees_ended);
	list_init(&port->raws);
	ib_port_set_p_keys(port, config->p_keys);
	if (port->p_keys[0] == 0)
		port->p_keys[0] = IBA_PKEY_DEFAULT;
	port->conns = calloc(max, sizeof(struct ib_conn *));
	port->hole_lists = calloc(IB_HOLE_LISTS, sizeof(*port->hole_lists));
	if (!early_pool_init(&port->early, config->is_dropping_early ? 0 : IB_EARLY_PACKETS) ||
	    !port->conns || !port->hole_lists ||
	    timer_queue_init(&port->timers, max + EES_MAX) < 0 ||
	    timer_queue_init(&port->wakes, max) < 0) {
		timer_queue_fini(&port->timers);
		early_pool_fini(&port->early);
		free(port->hole_lists);
		free(port->conns);
		free(port);
		return NULL;
	}
	return port;
}

void ib_port_set_striping(struct ib_port *port, bool is_striping)
{
	port->is_striping = is_striping;
}

void ib_port_destroy(struct ib_port *port)
{
	CHECK(port->conns_used == 0);
	timer_queue_fini(&port->timers);
	timer_queue_fini(&port->wakes);
	early_pool_fini(&port->early);
	free(port->hole_lists);
	free(port->conns);
	free(port);
}

const struct ib_counts *ib_port_counts(const struct ib_port *port)
{
	return &port->counts;
}

uint64_t ib_port_dropped(const struct ib_port *port, enum weft_reason reason)
{
	return port->drops[reason];
}

void ib_port_set_lid(struct ib_port *port, uint16_t lid, uint8_t lmc)
{
	port->path_bits = (uint16_t)((1U << lmc) - 1);
	port->lid = lid & (uint16_t)~port->path_bits;
}

void ib_port_set_p_keys(struct ib_port *port, const uint16_t *p_keys)
{
	memcpy(port->p_keys, p_keys, sizeof(port->p_keys));
}

/* ---- Memory that is sent from --------------------------------------------------------------- */

bool port_hold(struct ib_port *port, const struct mem_span *span)
{
	if (port->held_count == IB_HELD_MAX ||
	    !mem_pin(span->paging, span->real, span->length, port->now_ns))
		return false;
	port->held[port->held_count++] = (struct held){ span->paging, span->real, span->length };
	return true;
}

void port_release(struct ib_port *port, uint32_t from)
{
	while (port->held_count > from) {
		const struct held *h = &port->held[--port->held_count];

		mem_unpin(h->paging, h->real, h->length, port->now_ns);
	}
}

bool ib_port_has_pins(const struct ib_port *port)
{
	return port->held_count > 0;
}

void ib_port_sent(struct ib_port *port, uint64_t now_ns)
{
	port->now_ns = now_ns;
	port->bounced = 0;
	port_release(port, 0);
}

void port_kept(struct ib_port *port, struct requester *q, int64_t bytes)
{
	struct ib_counts *n = &port->counts;

	n->kept_byte_ns += n->kept_bytes * (port->now_ns - port->kept_ns);
	port->kept_ns = port->now_ns;
	n->kept_bytes += (uint64_t)bytes;
	q->kept_bytes += (uint64_t)bytes;
	if (n->kept_bytes > n->kept_bytes_max)
		n->kept_bytes_max = n->kept_bytes;
}

/* ---- Packets in ----------------------------------------------------------------------------- */

void port_dropped(struct ib_port *port, uint32_t who, enum weft_reason reason)
{
	port->counts.dropped++;
	port->counts.dropped_for = reason;
	port->drops[reason]++;
	trace_add(port->adapter->trace, (struct trace_event){
						.kind = TRACE_PACKET_DROPPED,
						.who = who,
						.reason = (uint16_t)reason,
					});
}

void ib_port_drop(struct ib_port *port, enum weft_reason reason)
{
	port->counts.packets_in++;
	port_dropped(port, 0, reason);
}

/* Dear to compute, so kept. Every length that passed the decoder is of whole words. */
static uint32_t factor_of(struct ib_port *port, size_t length)
{
	uint32_t *factor;

	CHECK(length <= IBA_PACKET_MAX); /* runs come with the word known */
	factor = &port->factors[length / 4];
	if (*factor == 0)
		*factor = iba_icrc_factor((uint32_t)length);
	return *factor;
}

void ib_port_set_near_icrc(struct ib_port *port, bool has_icrc)
{
	port->has_near_icrc = has_icrc;
}

/* IBA 7.8.1, annex A17. */
enum weft_reason port_check_icrc(struct ib_port *port, const struct ib_in *in)
{
	const struct iba_icrc_ip ip = {
		.is_ipv6 = in->is_ipv6,
		.from = &in->from,
		.to = &in->to,
		.ipv4_id = in->ipv4_id,
		.ipv4_fragment = in->ipv4_fragment,
	};
	uint32_t begin, difference, word;

	if (in->has_no_icrc)
		return WEFT_OK;
	if (in->route_bytes > 0)
		begin = iba_frame_icrc_begin(in->bytes - in->route_bytes, in->local.has_grh);
	else
		begin = iba_icrc_begin(&ip, (uint32_t)in->length);
	difference = iba_icrc_differs(begin, in->bytes, in->length);
	if (difference == 0)
		return WEFT_OK;
	if (in->route_bytes > 0 || in->is_ipv6 || in->is_ipv4_word_known)
		return WEFT_R_IB_ICRC;
	word = iba_icrc_ipv4_word(difference, factor_of(port, in->length)) & 0xffff;
	word ^= in->ipv4_fragment;
	return word == 0 || word == IBA_IPV4_DF ? WEFT_OK : WEFT_R_IB_ICRC;
}

struct ib_conn *ib_port_find(const struct ib_port *port, uint32_t number)
{
	uint32_t slot = id_slot(number);
	struct ib_conn *c = slot < port->conns_max ? port->conns[slot] : NULL;

	return c && c->number == number ? c : NULL;
}

/* RD and UD have no one path that could be slowed down. */
static bool is_paced(const struct ib_conn *c)
{
	return c->service == WEFT_RC || c->service == WEFT_UC;
}

/* A fault on purpose: what has carried so many bytes one way is lost, without a word. */
static bool is_cut_off(struct ib_conn *c, uint64_t bytes)
{
	if (bytes < c->port->cut_after || !c->qp || !is_paced(c))
		return false;
	qp_fault_made(c->qp, FAULT_DISCONNECT_AFTER);
	conn_fail(c, WEFT_R_FAULT_INJECTED);
	return true;
}

/* IBA 9.6.1.2: the end-to-end context; the queue pair is its business. */
static struct ib_conn *find_ee(const struct ib_port *port, uint32_t number)
{
	struct ib_ee *ee = ib_port_find_ee(port, number);

	return ee ? &ee->conn : NULL;
}

static bool is_of_service(const struct ib_conn *c, uint8_t opcode)
{
	static const uint8_t services[WEFT_SERVICE_COUNT] = {
		[WEFT_RC] = IBA_RC,
		[WEFT_UC] = IBA_UC,
		[WEFT_RD] = IBA_RD,
		[WEFT_UD] = IBA_UD,
	};

	if (opcode == IBA_CNP)
		return is_paced(c);
	return iba_service(opcode) == (c->is_xrc ? IBA_XRC : services[c->service]);
}

/* By its IP addresses, or its GIDs. */
static bool is_between(const struct ib_path *path, const struct ib_in *in)
{
	return in->is_ipv6 == path->is_ipv6 &&
	       inet_is_same_address(in->is_ipv6, in->from.address, path->to.address) &&
	       inet_is_same_address(in->is_ipv6, in->to.address, path->from.address);
}

/* By the alternate path, and in its partition. */
static bool is_by_other(const struct ib_conn *c, const struct iba_packet *p, const struct ib_in *in)
{
	return in->route_bytes > 0 && iba_pkey_match(p->p_key, c->other->p_key) &&
	       route_is_back(c->port, &c->other->path, in);
}

/* IBA 9.6.1.1 to 9.6.1.5: whom it is for, from whom, and in which partition. */
static enum weft_reason check_address(const struct ib_conn *c, const struct iba_packet *p,
				      const struct ib_in *in)
{
	if (!is_of_service(c, p->opcode))
		return WEFT_R_IB_SERVICE;
	if (c->other && is_by_other(c, p, in))
		return WEFT_OK;
	if (!iba_pkey_match(p->p_key, c->p_key))
		return WEFT_R_IB_PKEY;
	if (c->service == WEFT_UD)
		return WEFT_OK;
	if (in->route_bytes > 0 || ib_path_is_local(&c->path))
		return route_is_back(c->port, &c->path, in) ? WEFT_OK : WEFT_R_IB_SOURCE;
	return is_between(&c->path, in) ? WEFT_OK : WEFT_R_IB_SOURCE;
}

/* Annex A17.9: it met congestion on its way, which its sender is told. */
static void take_mark(struct ib_conn *c, uint64_t now_ns)
{
	c->port->counts.marked++;
	if (c->qp && is_paced(c) && pace_marked(&c->pace, now_ns))
		conn_ready(c);
}

static enum weft_reason take_notice(struct ib_conn *c, uint64_t now_ns)
{
	c->port->counts.notices_in++;
	if (!c->qp)
		return WEFT_R_PEER_GONE;
	pace_notified(&c->pace, now_ns);
	return WEFT_OK;
}

static enum weft_reason dispatch(struct ib_conn *c, uint64_t now_ns, const struct iba_packet *p,
				 const struct ib_in *in)
{
	if (in->route_bytes == 0 ? (in->traffic_class & IB_ECN_MASK) == IB_ECN_CE : p->has_fecn)
		take_mark(c, now_ns);
	if (p->opcode == IBA_CNP)
		return take_notice(c, now_ns);
	switch (c->service) {
	case WEFT_RC:
		rc_retry_heard(c);
		return rc_recv(c, now_ns, p);
	case WEFT_UC:
		return uc_recv(c, p);
	case WEFT_RD:
		return rd_recv(c, now_ns, p);
	case WEFT_UD:
		return ud_recv(c, p, in);
	default:
		return WEFT_R_IB_SERVICE;
	}
}

/* IBA 11.6.3.2: a packet of the peer replaces the RTU that the consumer may still wait for. */
static void note_established(struct ib_conn *c)
{
	struct weft_qp *qp = c->qp;

	if (!qp || qp->state != WEFT_QPS_RTR || c->is_established || !qp_is_connected_service(qp))
		return;
	if (c->resp.early && c->resp.psn == c->resp.psn_first) /* nothing was taken yet */
		return;
	c->is_established = true;
	event_raise(&qp->adapter->events, &qp->events, WEFT_EVENT_ESTABLISHED, WEFT_OK);
}

/* The ICRC, which costs most, is checked last: only for packets that would be accepted. */
static enum weft_reason take(struct ib_port *port, uint64_t now_ns, const struct iba_packet *p,
			     const struct ib_in *in)
{
	bool is_rd = iba_service(p->opcode) == IBA_RD;
	struct ib_conn *c = is_rd ? find_ee(port, p->eec) : ib_port_find(port, p->dest_qp);
	enum weft_reason r = c ? check_address(c, p, in) : WEFT_R_PEER_UNKNOWN;

	if (r == WEFT_OK)
		r = port_check_icrc(port, in);
	else if (r == WEFT_R_IB_SOURCE && c->other && port_check_icrc(port, in) == WEFT_OK)
		migrate_strayed(c, p);
	if (r == WEFT_OK && c->other)
		migrate_heard(c, p, in);
	if (r == WEFT_OK && is_cut_off(c, tally_of(port, c->qp)->bytes_in))
		r = WEFT_R_FAULT_INJECTED;
	if (r == WEFT_OK) {
		struct qp_tally *tally = tally_of(port, c->qp);

		tally->packets_in += 1 + in->run;
		tally->bytes_in += iba_run_bytes(p->opcode, in->length, in->run) + in->route_bytes;
		r = dispatch(c, now_ns, p, in);
	}
	if (r == WEFT_OK)
		note_established(c);
	return r;
}

static bool is_peer_at(const struct ib_conn *c, const struct ib_returned *packet)
{
	return c->service == WEFT_RC && c->path.is_ipv6 == packet->is_ipv6 &&
	       inet_is_same_address(packet->is_ipv6, c->path.to.address, packet->to.address);
}

/* RFC 5927 section 4.1: an attacker off the path does not know the PSNs that are out. */
static bool is_awaiting(const struct ib_conn *c, const struct ib_returned *packet)
{
	uint32_t psn = iba_psn(packet->bytes);

	return c->peer_qp == iba_dest_qp(packet->bytes, IBA_BTH_BYTES) &&
	       inet_is_same_address(packet->is_ipv6, c->path.from.address, packet->from.address) &&
	       iba_is_request(packet->bytes, IBA_BTH_BYTES) &&
	       !iba_psn_is_before(psn, c->req.psn_una) && iba_psn_is_before(psn, c->req.psn_sent);
}

void ib_port_returned(struct ib_port *port, uint64_t now_ns, const struct ib_returned *packet)
{
	bool is_ours = false;

	ib_port_sent(port, now_ns);
	for (uint32_t i = 0; i < port->conns_max && !is_ours; i++)
		is_ours = port->conns[i] && is_peer_at(port->conns[i], packet) &&
			  is_awaiting(port->conns[i], packet);
	for (uint32_t i = 0; i < port->conns_max && is_ours; i++) {
		if (port->conns[i] && is_peer_at(port->conns[i], packet))
			rc_retry_doubt(port->conns[i], now_ns);
	}
}

/* Whether packets like this one may come as a run. */
static bool can_run(const struct iba_packet *p)
{
	const struct iba_form *f = iba_form(p->opcode);
	enum iba_service service = iba_service(p->opcode);

	return (service == IBA_RC || service == IBA_XRC) &&
	       !(f->traits & IBA_FIRST) == !(f->traits & IBA_LAST) &&
	       (f->kind == IBA_KIND_SEND || f->kind == IBA_KIND_WRITE);
}

enum weft_reason ib_in_decode(struct iba_packet *p, const struct ib_in *in)
{
	size_t own = IBA_ICRC_BYTES, rest;
	bool is_whole = false;
	enum weft_reason r;

	if (in->run == 0)
		return iba_decode(p, in->bytes, in->length);
	if (in->length > own) {
		const struct iba_form *f = iba_form(in->bytes[0]);

		own += f->header_bytes;
		is_whole = f->traits & IBA_LAST;
	}
	if (in->length < own)
		return WEFT_R_IB_SHORT;
	/* First as one packet of a legal length. */
	rest = in->length - own;
	if (!is_whole)
		rest /= 1 + (size_t)in->run;
	else if (rest > IBA_PAYLOAD_MAX)
		rest = IBA_PAYLOAD_MAX;
	r = iba_decode(p, in->bytes, own + rest);
	if (r != WEFT_OK)
		return r;
	p->run = in->run;
	/* Computed anew: what is in shared memory may have changed. */
	own = (size_t)(p->payload - in->bytes) + p->pad + IBA_ICRC_BYTES;
	if (in->length < own || iba_pad((uint32_t)(in->length - own)) != p->pad)
		return WEFT_R_IB_LENGTH;
	p->payload_bytes = (uint32_t)(in->length - own);
	return can_run(p) && iba_run_mtu(p) > 0 ? WEFT_OK : WEFT_R_IB_LENGTH;
}

enum weft_reason ib_port_recv(struct ib_port *port, uint64_t now_ns, const struct ib_in *in)
{
	struct iba_packet p;
	enum weft_reason r;

	p.dest_qp = 0; /* unless it can be decoded */
	r = ib_in_decode(&p, in);

	ib_port_sent(port, now_ns);
	port->counts.packets_in += 1 + in->run;
	if (r == WEFT_OK && iba_service(p.opcode) == IBA_RD)
		r = take(port, now_ns, &p, in);
	else if (r == WEFT_OK && p.dest_qp == IBA_QPN_GSI)
		r = gsi_recv(port, &p, in);
	else if (r == WEFT_OK && p.dest_qp == IBA_QPN_MULTICAST)
		r = group_recv(port, &p, in);
	else if (r == WEFT_OK)
		r = take(port, now_ns, &p, in);
	if (r == WEFT_OK)
		port->counts.payload_in += p.payload_bytes;
	else
		port_dropped(port, p.dest_qp, r);
	return r;
}

/* ---- Packets out ---------------------------------------------------------------------------- */

static bool conn_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out)
{
	if (c->pace.is_notice_due) {
		pace_notice(c, out);
		return true;
	}
	switch (c->service) {
	case WEFT_RC:
		return rc_next(c, now_ns, out);
	case WEFT_UD:
		return !list_is_linked(&c->raw_link) && ud_next(c, out);
	case WEFT_RD:
		return c->is_ee && rd_next(c, now_ns, out);
	default:
		return uc_next(c, now_ns, out);
	}
}

/* A context has no queue pair, and ends otherwise. */
static bool conn_is_leaving(const struct ib_conn *c)
{
	return c && !c->qp && !c->is_ee;
}

static void conn_left(struct ib_conn *c)
{
	if (!c->is_reported && !list_is_linked(&c->ended_link))
		list_add_tail(&c->port->ended, &c->ended_link);
}

/* It is silent now, or too fast. If its queue pair has left, that was its last word. */
static void conn_said_all(struct ib_conn *c, uint64_t now_ns)
{
	struct ib_port *port = c->port;

	list_remove(&c->ready_link);
	port->burst = 0;
	if (c->qp && !pace_is_open(&c->pace, now_ns))
		timer_queue_set(&port->wakes, &c->pace.wake, c->pace.next_ns);
	if (conn_is_leaving(c))
		conn_left(c);
}

/* By which its next packet goes. */
static uint32_t near_number_of(const struct ib_conn *c)
{
	return c->service == WEFT_UD ? ud_near(c) : c->path.near_number;
}

bool ib_port_send(struct ib_port *port, uint64_t now_ns, struct ib_out *out)
{
	size_t bytes;

	port->now_ns = now_ns;
	if (port->mads_out.count > 0 && out->near_number == 0 && gsi_next(port, out)) {
		port->counts.packets_out++;
		return true;
	}
	/* Bound: every round gives a packet, or has one connection less to look at. */
	while (!list_is_empty(&port->ready)) {
		struct ib_conn *c = CONTAINER_OF(port->ready.next, struct ib_conn, ready_link);

		if (near_number_of(c) != out->near_number)
			return false;
		(void)is_cut_off(c, tally_of(port, c->qp)->bytes_out);
		if (!conn_next(c, now_ns, out)) {
			conn_said_all(c, now_ns);
			continue;
		}
		port->counts.packets_out += 1 + out->run;
		tally_of(port, c->qp)->packets_out += 1 + out->run;
		bytes = iba_run_bytes(ib_out_opcode(out), out->spans.length, out->run);
		tally_of(port, c->qp)->bytes_out += bytes;
		if (out->ecn != IB_ECN_NOT)
			pace_sent(&c->pace, now_ns, bytes);
		if (c->service == WEFT_RC && !c->pace.is_notice_due && rc_is_silent(c)) {
			conn_said_all(c, now_ns);
			return true;
		}
		port->burst += 1 + out->run;
		if (port->burst >= BURST) {
			port->burst = 0;
			list_remove(&c->ready_link);
			list_add_tail(&port->ready, &c->ready_link);
		}
		return true;
	}
	return false;
}

uint32_t ib_port_send_more(struct ib_port *port, uint64_t now_ns, const struct ib_more *more)
{
	struct ib_more part = *more;
	struct ib_conn *c = CONTAINER_OF(port->ready.next, struct ib_conn, ready_link);
	bool is_alone = port->ready.next == port->ready.prev;
	struct qp_tally *tally;
	uint32_t n;

	if (port->mads_out.count > 0 || list_is_empty(&port->ready) ||
	    port->cut_after != UINT64_MAX || c->service != WEFT_RC || c->pace.is_notice_due ||
	    c->path.near_number != 0)
		return 0;
	if (!is_alone && part.most > BURST - port->burst)
		part.most = BURST - port->burst;
	n = rc_more(c, now_ns, &part);
	tally = tally_of(port, c->qp);
	for (uint32_t i = 0; i < n; i++) {
		if (more->outs[i].ecn != IB_ECN_NOT)
			pace_sent(&c->pace, now_ns, more->each);
	}
	tally->bytes_out += n * more->each;
	port->counts.packets_out += n;
	tally->packets_out += n;
	port->burst += n;
	if (port->burst >= BURST) {
		port->burst %= BURST;
		list_remove(&c->ready_link);
		list_add_tail(&port->ready, &c->ready_link);
	}
	return n;
}

/* The connection that sends the next packet; NULL: it is of none. */
static const struct ib_conn *next_conn(const struct ib_port *port)
{
	if (port->mads_out.count > 0 || list_is_empty(&port->ready))
		return NULL;
	return CONTAINER_OF(port->ready.next, struct ib_conn, ready_link);
}

uint32_t ib_port_near_next(const struct ib_port *port)
{
	const struct ib_conn *c = next_conn(port);

	return c ? near_number_of(c) : 0;
}

uint8_t ib_port_near_asked(const struct ib_port *port)
{
	const struct ib_conn *c = next_conn(port);

	return c && c->service == WEFT_UD ? ud_near_slot(c) : 0;
}

void ib_port_near_set(struct ib_port *port, uint8_t adapter_slot, uint32_t near_number)
{
	port->near_numbers[adapter_slot] = near_number;
}

void ib_port_near_forget(struct ib_port *port)
{
	for (uint32_t i = 0; i < IB_ADAPTER_SLOTS; i++)
		port->near_numbers[i] = IB_NEAR_UNKNOWN;
}

bool ib_port_near_may_lose(const struct ib_port *port)
{
	const struct ib_conn *c = next_conn(port);

	return c && c->service == WEFT_UD;
}

void ib_port_near_hold(struct ib_port *port, uint64_t now_ns, bool is_stalled)
{
	struct ib_conn *c = CONTAINER_OF(port->ready.next, struct ib_conn, ready_link);

	if ((is_stalled && !c->qp && !c->is_ee) || (c->service == WEFT_UD && c->req.count == 0)) {
		conn_said_all(c, now_ns);
		return;
	}
	port->burst = 0;
	list_remove(&c->ready_link);
	list_add_tail(&port->near_held, &c->ready_link);
}

void ib_port_near_release(struct ib_port *port)
{
	while (!list_is_empty(&port->near_held))
		list_add_tail(&port->ready, list_pop(&port->near_held));
}

bool ib_port_has_output(const struct ib_port *port)
{
	return !list_is_empty(&port->ready) || port->mads_out.count > 0;
}

bool ib_port_has_acks_only(const struct ib_port *port)
{
	int looked = 0;

	if (port->mads_out.count > 0)
		return false;
	for (struct list *at = port->ready.next; at != &port->ready; at = at->next) {
		struct ib_conn *c = CONTAINER_OF(at, struct ib_conn, ready_link);

		if (++looked > ACKS_LOOKED_AT || c->pace.is_notice_due || !c->qp ||
		    c->service != WEFT_RC || !rc_reply_is_ack(c) || rc_req_can_send(c))
			return false;
	}
	return looked > 0;
}

/* ---- Deadlines and events ------------------------------------------------------------------- */

uint64_t ib_port_wait_due(const struct ib_port *port)
{
	return timer_queue_due(&port->timers);
}

uint64_t ib_port_wake_due(const struct ib_port *port)
{
	return timer_queue_due(&port->wakes);
}

uint64_t ib_port_due(const struct ib_port *port)
{
	return least(ib_port_wait_due(port), ib_port_wake_due(port));
}

void ib_port_wake(struct ib_port *port, uint64_t now_ns)
{
	struct timer *t;

	while ((t = timer_queue_expire(&port->wakes, now_ns)) != NULL)
		conn_ready(CONTAINER_OF(t, struct ib_conn, pace.wake));
}

static void conn_expire(struct ib_conn *c, uint64_t now_ns)
{
	if (c->service == WEFT_RD && !c->is_ee)
		rd_expire(c);
	else
		rc_retry_expire(c, now_ns);
}

/* Timers go off early: a deadline that moved away meanwhile is set anew only now. */
void ib_port_expire(struct ib_port *port, uint64_t now_ns)
{
	struct timer *t;

	/* Deadlines may be of before what came since. */
	ib_port_sent(port, now_ns > port->now_ns ? now_ns : port->now_ns);
	ib_port_wake(port, now_ns);
	while ((t = timer_queue_expire(&port->timers, now_ns)) != NULL) {
		struct ib_conn *c = CONTAINER_OF(t, struct ib_conn, timer);

		if (c->req.deadline_ns <= now_ns)
			conn_expire(c, now_ns);
		conn_alarm(c);
	}
}

void ib_port_settle(struct ib_port *port)
{
	struct timer *t;

	/* Bound: each timer is set anew once. */
	while ((t = timer_queue_first(&port->timers)) != NULL) {
		uint64_t deadline_ns = CONTAINER_OF(t, struct ib_conn, timer)->req.deadline_ns;

		if (deadline_ns <= t->deadline_ns)
			return;
		timer_queue_cancel(&port->timers, t);
		if (deadline_ns != UINT64_MAX)
			timer_queue_set(&port->timers, t, deadline_ns);
	}
}

bool ib_port_has_events(const struct ib_port *port)
{
	return !list_is_empty(&port->ended) || !list_is_empty(&port->ees_ended);
}

struct ib_conn *ib_port_event(struct ib_port *port)
{
	struct ib_conn *c;

	if (list_is_empty(&port->ended))
		return NULL;
	c = CONTAINER_OF(list_pop(&port->ended), struct ib_conn, ended_link);
	c->is_reported = true;
	return c;
}

bool ib_port_is_leaving(const struct ib_port *port)
{
	bool is_leaving = false;

	for (uint32_t i = 0; i < port->conns_max && !is_leaving; i++)
		is_leaving = conn_is_leaving(port->conns[i]);
	return is_leaving;
}

void ib_port_leave(struct ib_port *port)
{
	for (uint32_t i = 0; i < port->conns_max; i++) {
		if (conn_is_leaving(port->conns[i]))
			conn_left(port->conns[i]);
	}
}
