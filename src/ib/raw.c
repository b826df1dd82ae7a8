/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw datagrams (RAW-01): whole IPv6 frames, which software makes and reads. A frame's header is a
 * global route header as it stands (RAW-02), so nothing is converted on the way; in a fabric a
 * local route header is put ahead of it.
 */
#include <string.h>

#include "ib/conn.h"
#include "ib/datagram.h"
#include "ib/message.h"
#include "ib/packet.h"
#include "ib/port.h"
#include "ib/requester.h"
#include "ib/route.h"
#include "wire/iba_grh.h"

static struct ib_conn *conn_of(struct list *link)
{
	return CONTAINER_OF(link, struct ib_conn, raw_link);
}

static bool is_same(const struct ib_raw *a, const struct ib_raw *b)
{
	return a->next_header == b->next_header && a->is_any == b->is_any &&
	       (a->is_any || memcmp(a->to, b->to, sizeof(a->to)) == 0);
}

enum weft_reason ib_raw_bind(struct ib_conn *c, const struct ib_raw *raw)
{
	struct list *raws = &c->port->raws;

	if (c->service != WEFT_UD || list_is_linked(&c->raw_link))
		return WEFT_R_BAD_ARGUMENT;
	if (!c->qp)
		return WEFT_R_QP_STATE;
	for (struct list *l = raws->next; l != raws; l = l->next) {
		if (is_same(&conn_of(l)->raw, raw))
			return WEFT_R_ADDRESS_IN_USE;
	}
	c->raw = *raw;
	list_add_tail(raws, &c->raw_link);
	return WEFT_OK;
}

/* RAW-03: by upper protocol and destination; a queue pair bound to this address comes first. */
static struct ib_conn *find(struct ib_port *port, const struct iba_grh *g)
{
	struct ib_conn *any = NULL;

	for (struct list *l = port->raws.next; l != &port->raws; l = l->next) {
		struct ib_conn *c = conn_of(l);

		if (c->raw.next_header != g->next_header)
			continue;
		if (c->raw.is_any)
			any = c;
		else if (memcmp(c->raw.to, g->to, sizeof(g->to)) == 0)
			return c;
	}
	return any;
}

/* WEFT_OK, or why it is no packet. */
static enum weft_reason header_of(struct iba_grh *g, const uint8_t *frame, size_t length)
{
	enum weft_reason r = length < IBA_GRH_BYTES ? WEFT_R_IB_SHORT : iba_grh_decode(g, frame);

	return r == WEFT_OK && g->payload_bytes != length - IBA_GRH_BYTES ? WEFT_R_IB_LENGTH : r;
}

bool ib_port_wants_raw(struct ib_port *port, const uint8_t *frame, size_t length)
{
	struct iba_grh g;

	return header_of(&g, frame, length) == WEFT_OK && find(port, &g);
}

static enum weft_reason place(struct weft_qp *qp, const uint8_t *frame, size_t length)
{
	struct stretch part = qp_recv_stretch(qp);
	enum weft_reason r = receive_check(qp);

	part.length = length;
	return r == WEFT_OK ? place_list(qp, &part, frame) : r;
}

enum weft_reason ib_port_recv_raw(struct ib_port *port, const uint8_t *frame, size_t length)
{
	struct weft_completion completion = {
		.opcode = WEFT_OP_RECV,
		.byte_count = (uint32_t)length,
		.has_route = true,
	};
	struct iba_grh g;
	struct ib_conn *c = NULL;
	enum weft_reason r = header_of(&g, frame, length);

	port->counts.packets_in++;
	if (r == WEFT_OK) {
		c = find(port, &g);
		r = c ? datagram_check(c, length) : WEFT_R_PEER_UNKNOWN;
	}
	if (r != WEFT_OK) {
		port_dropped(port, c ? c->number : 0, r);
		return r;
	}
	port->counts.payload_in += length;
	r = place(c->qp, frame, length);
	if (r == WEFT_OK)
		count_message_in(port, c->qp, length);
	return datagram_end(c, &completion, r, false);
}

/* The frame of the oldest Send; it has ended. False: its source was gone, and so is it; or away. */
static bool take_frame(struct ib_conn *c, uint8_t frame[IB_RAW_MAX], size_t *length)
{
	struct send_wqe *wqe = rc_req_wqe(c, rc_req_at(&c->req, 0));
	uint32_t held = c->port->held_count;
	struct load load;
	enum weft_reason r;

	load_init(&load, frame, true);
	r = request_payload(c, wqe, 0, &load);
	if (r != WEFT_OK) {
		if (!request_waits(c, wqe, r))
			uc_gone(c, mem_gone_reason(r, WEFT_R_SOURCE_GONE));
		return false;
	}
	*length = load.bytes;
	port_release(c->port, held); /* it is copied, and there may be no batch that ends */
	uc_sent(c);
	return true;
}

static void sent(struct ib_port *port, struct ib_conn *c, size_t length)
{
	list_remove(&c->raw_link);
	list_add_tail(&port->raws, &c->raw_link);
	port->counts.packets_out++;
	port->counts.payload_out += length;
}

bool ib_port_send_raw(struct ib_port *port, uint8_t frame[IB_RAW_MAX], size_t *length)
{
	struct list *next;

	/* They take turns. Bound: each is looked at once, or gives a frame; some leave. */
	for (struct list *l = port->raws.next; l != &port->raws; l = next) {
		struct ib_conn *c = conn_of(l);

		next = l->next;
		if (c->req.count == 0 || c->req.is_absent || !take_frame(c, frame, length))
			continue;
		sent(port, c, *length);
		return true;
	}
	return false;
}

/* RAW-02: a local header, then the IPv6 packet as it stands, in whole words. */
void ib_raw_frame(struct ib_port *port, const struct ib_path *path, size_t length,
		  struct ib_out *out)
{
	uint32_t all = route_pad((uint32_t)length);

	memset(out->room + length, 0, all - length);
	out->route_bytes = IBA_LRH_BYTES;
	route_encode_raw(port, path, all, out->room - IBA_LRH_BYTES);
	out->spans.count = 1;
	out->spans.length = IBA_LRH_BYTES + all;
	out->spans.spans[0] = (struct span){ out->room - IBA_LRH_BYTES, out->spans.length };
}

/* Bound: its requests. One that has no way here is taken all the same, and lost. */
static bool send_frame(struct ib_port *port, struct ib_conn *c, struct ib_out *out)
{
	size_t length;

	while (c->req.count > 0 && !c->req.is_absent) {
		const struct ib_path *path = ud_path(c, rc_req_wqe(c, rc_req_at(&c->req, 0)), out);

		if (!take_frame(c, out->room, &length))
			return false;
		if (path && ib_path_is_local(path)) {
			ib_raw_frame(port, path, length, out);
			sent(port, c, length);
			return true;
		}
	}
	return false;
}

bool ib_port_send_raw_frame(struct ib_port *port, struct ib_out *out)
{
	struct list *next;

	for (struct list *l = port->raws.next; l != &port->raws; l = next) {
		next = l->next;
		if (send_frame(port, conn_of(l), out))
			return true;
	}
	return false;
}

void ib_port_keep_raw(struct ib_port *port)
{
	for (struct list *l = port->raws.next; l != &port->raws; l = l->next) {
		if (conn_of(l)->req.count > 0 && !conn_of(l)->req.is_absent)
			conn_ready(conn_of(l));
	}
}
