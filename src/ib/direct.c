/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request goes direct if no other of its connection is in flight: then the peer has executed all
 * before it, and order is kept. A request that is refused goes by packets: they find the reason,
 * and report it to both ends.
 */
#include "ib/direct.h"

#include "ib/conn.h"
#include "ib/message.h"
#include "ib/packet.h"
#include "ib/port.h"

void ib_port_set_direct(struct ib_port *port, const struct ib_direct *direct)
{
	port->direct = direct;
}

static bool is_reliable(const struct ib_conn *c)
{
	return c->service == WEFT_RC && !c->is_xrc && !c->is_ee;
}

/* The longest Read: meanwhile this adapter does nothing else. */
enum { READ_MAX = 1024 * 1024, READ_SPANS = 8 };

static bool is_short(const struct ib_conn *c, const struct send_wqe *wqe)
{
	return wqe->length <= c->path.mtu_bytes;
}

/*
 * The first request of a connection goes by packets: they find out whether the two ends agree on
 * addresses and PSNs.
 */
static bool may_go(const struct ib_conn *c, const struct send_wqe *wqe)
{
	return c->path.near_number != 0 && is_reliable(c) && c->req.is_answered &&
	       !c->is_peer_gone && c->pace.limit_bps == 0 && c->port->cut_after == UINT64_MAX &&
	       wqe->length > 0 &&
	       ((wqe->opcode == WEFT_OP_WRITE && is_short(c, wqe)) ||
		(wqe->opcode == WEFT_OP_READ && wqe->length <= READ_MAX)) &&
	       c->port->direct->can_access(c->port->direct->owner, c->path.near_number);
}

/* Counts the requests since the program polled last. */
static void count_ahead(struct ib_conn *c)
{
	uint32_t polls = c->req.qp->send_cq->polls;

	if (c->direct_polls != polls)
		c->direct_ahead = 0;
	c->direct_polls = polls;
	c->direct_ahead++;
}

/*
 * A program that posts request after request before it polls is served faster by packets: many
 * are placed for one wake-up of the peer, and this end does not wait for each. Not so Reads of many
 * packets, whose bytes are copied once instead of twice.
 */
static bool is_streaming(const struct ib_conn *c, const struct send_wqe *wqe)
{
	enum { AHEAD_MAX = 4 };

	return c->direct_ahead > AHEAD_MAX && is_short(c, wqe);
}

/* A peer whose connection is another one by now has to be found out about by packets. */
static bool access_peer(struct ib_conn *c, const struct send_wqe *wqe, const struct stretch *part,
			uint8_t *bytes)
{
	struct ib_direct_access a = {
		.near_number = c->path.near_number,
		.number = c->number,
		.peer_qp = c->peer_qp,
		.psn = c->req.psn_first,
		.epoch = c->direct_epoch,
		.read_tag = c->req.read_tag,
		.is_write = wqe->opcode == WEFT_OP_WRITE,
		.addr = wqe->remote_addr + part->offset,
		.tag = wqe->remote_tag,
		.length = (uint32_t)part->length,
		.bytes = bytes,
		.counted = part->offset + part->length == wqe->length ? wqe->length : 0,
	};
	bool is_done = c->port->direct->access(c->port->direct->owner, &a);

	if (a.epoch == 0)
		c->req.is_answered = false;
	c->direct_epoch = a.epoch;
	return is_done;
}

/* From a copy: memory that is gone by now is found before the peer's changes. */
static bool run_write(struct ib_conn *c, struct send_wqe *wqe)
{
	const uint32_t held = c->port->held_count;
	const struct stretch all = { .length = wqe->length };
	uint8_t bytes[IBA_PAYLOAD_MAX];
	struct load load;
	bool is_gathered;

	load_init(&load, bytes, true);
	is_gathered = request_payload(c, wqe, 0, &load) == WEFT_OK && load.is_copied;
	port_release(c->port, held);
	return is_gathered && access_peer(c, wqe, &all, load.copy);
}

/* As any access to a span: the thread that unmaps the memory waits meanwhile. */
static bool read_span(struct ib_conn *c, const struct send_wqe *wqe, const struct stretch *part,
		      const struct mem_span *span)
{
	struct mem_watch *watch = mem_span_may_go(span) ? span->paging->watch : NULL;
	bool is_done = mem_watch_enter(watch, span->bytes, span->length) &&
		       access_peer(c, wqe, part, span->bytes);

	mem_watch_leave(watch);
	return is_done;
}

/* Straight to its place; the kernel finds memory that is gone by now. */
static bool run_read(struct ib_conn *c, struct send_wqe *wqe)
{
	struct stretch rest = request_stretch(wqe);

	/* Bound: every round reads a byte at least. */
	while (rest.length > 0) {
		struct mem_span spans[READ_SPANS];
		uint32_t count;

		if (qp_segments_spans(c->req.qp, &rest, spans, READ_SPANS, &count) != WEFT_OK)
			return false;
		for (uint32_t i = 0; i < count; i++) {
			struct stretch part = rest;

			part.length = spans[i].length;
			if (!read_span(c, wqe, &part, &spans[i]))
				return false;
			rest.offset += part.length;
			rest.length -= part.length;
		}
	}
	return true;
}

static void end_write(struct ib_conn *c, struct send_wqe *wqe)
{
	static const struct outcome success = { .status = WEFT_SUCCESS };

	c->port->counts.payload_out += wqe->length;
	count_message_out(c->port, c->req.qp, wqe->length);
	send_queue_end(c->req.qp, wqe, &success);
}

static void end_read(struct ib_conn *c, struct send_wqe *wqe)
{
	c->port->counts.payload_in += wqe->length;
	count_message_out(c->port, c->req.qp, 0);
	rc_read_end(c, wqe);
}

bool direct_issue(struct ib_conn *c, struct send_wqe *wqe)
{
	bool is_write = wqe->opcode == WEFT_OP_WRITE;

	if (!c->port->direct || c->req.count > 0 || !may_go(c, wqe))
		return false;
	count_ahead(c);
	if (is_streaming(c, wqe) || !(is_write ? run_write(c, wqe) : run_read(c, wqe)))
		return false;
	c->port->counts.direct++;
	if (is_write)
		end_write(c, wqe);
	else
		end_read(c, wqe);
	return true;
}

/* The peer answers what is in flight as soon as it would answer the Read. */
bool direct_awaits(const struct ib_conn *c, const struct send_wqe *wqe)
{
	return c->port->direct && c->req.count > 0 && !is_short(c, wqe) && may_go(c, wqe);
}

/* As the responder counts packets: a Read is a message in, and its response one out. */
static void collect(struct ib_conn *c)
{
	struct ib_counts *n = &c->port->counts;
	struct qp_tally *t = tally_of(c->port, c->qp);
	struct ib_direct_tally did;

	c->port->direct->collect(c->port->direct->owner, c->number, &did);
	n->direct += did.writes + did.reads;
	n->messages_in += did.writes + did.reads;
	n->messages_out += did.reads;
	n->payload_in += did.written_bytes;
	n->payload_out += did.read_bytes;
	t->messages_in += did.writes + did.reads;
	t->messages_out += did.reads;
	t->payload_in += did.written_bytes;
	t->payload_out += did.read_bytes;
}

void direct_revoke(struct ib_conn *c)
{
	if (!c->has_grant)
		return;
	c->has_grant = false;
	c->port->direct->revoke(c->port->direct->owner, c->number);
	collect(c);
}

/* A peer that may not send Reads must not read so either. */
static uint32_t rights_of(const struct ib_conn *c)
{
	uint32_t rights = c->qp->remote_rights;

	return c->resp.res_max > 0 ? rights : rights & ~(uint32_t)WEFT_REMOTE_READ;
}

void direct_grant(struct ib_conn *c)
{
	const struct ib_direct_grant grant = {
		.number = c->number,
		.peer_qp = c->peer_qp,
		.pd = c->qp->pd->number,
		.rights = rights_of(c),
		.psn = c->resp.psn_first,
		.mtu_bytes = c->path.mtu_bytes,
		.epoch = c->epoch,
	};

	direct_revoke(c);
	c->has_grant = c->port->direct && c->path.near_number != 0 && is_reliable(c) &&
		       c->port->cut_after == UINT64_MAX &&
		       c->port->direct->grant(c->port->direct->owner, &grant);
}

void direct_begin(struct ib_conn *c)
{
	struct ib_port *port = c->port;

	port->epochs += port->epochs == UINT32_MAX ? 2 : 1;
	c->epoch = port->epochs;
	c->direct_epoch = 0;
	c->req.is_answered = false;
	direct_grant(c);
}

void ib_collect_direct(struct weft_qp *qp)
{
	struct ib_conn *c = ib_conn_of(qp);

	if (c && c->has_grant)
		collect(c);
}

void ib_port_collect_direct(struct ib_port *port)
{
	for (uint32_t i = 0; port->direct && i < port->conns_max; i++) {
		if (port->conns[i] && port->conns[i]->has_grant)
			collect(port->conns[i]);
	}
}
