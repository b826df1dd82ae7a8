/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/fabric_server_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* ---- Life ----------------------------------------------------------------------------------- */

static struct server_port **place(const struct fabric_server *s, uint32_t node, uint32_t port)
{
	return &s->port_at[s->first_port[node] + port];
}

struct server_port *server_port_get(struct fabric_server *s, uint32_t node, uint32_t port)
{
	struct server_port *p = *place(s, node, port);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->node = node;
	p->port = port;
	list_add_tail(&s->ports, &p->link);
	*place(s, node, port) = p;
	return p;
}

void server_ports_close(struct fabric_server *s)
{
	while (!list_is_empty(&s->ports)) {
		struct server_port *p = CONTAINER_OF(list_pop(&s->ports), struct server_port, link);

		if (p->mads)
			mad_port_destroy(p->mads);
		free(p);
	}
}

/* ---- Frames that have come ------------------------------------------------------------------ */

/*
 * IBA 10.9.2: no queue pair of a port takes a P_Key that the port has not. QP 1 has another rule,
 * which the node looks after.
 */
static bool has_key(struct fabric_server *s, uint32_t node, uint32_t port, const uint8_t *bytes,
		    uint32_t length)
{
	struct fabric_node *n;
	struct iba_frame f;
	struct iba_glance g;

	if (iba_frame_glance(&g, bytes, length) != WEFT_OK || !g.has_bth ||
	    g.dest_qp <= IBA_QPN_GSI)
		return true;
	if (fabric_node_has_pkey(fabric_node_look(s->fabric, node), port, g.p_key))
		return true;
	n = fabric_node_at(s->fabric, node);
	s->counts.wrong_key++;
	if (iba_frame_decode_inner(&f, bytes, length) == WEFT_OK) {
		fabric_node_refused(n, s->now_ns, port, FABRIC_BAD_PKEY, &f);
		fabric_touch(s->fabric, node);
	}
	return false;
}

static void datagram_take(struct fabric_server *s, struct server_port *p, const uint8_t *bytes,
			  uint32_t length)
{
	struct mad_datagram d;

	if (!p || !p->mads || !server_datagram_read(s, p, bytes, length, &d) ||
	    !mad_recv(p->mads, s->now_ns, &d))
		s->counts.unwanted++;
}

/* False: an adapter has no room for it. */
static bool frame_take(struct fabric_server *s, uint32_t node, uint32_t port, const uint8_t *bytes,
		       uint32_t length)
{
	switch (fabric_hub_deliver(s->hub, node, port, bytes, length)) {
	case FABRIC_HUB_NO_ROOM:
		return false;
	case FABRIC_HUB_OTHER:
		datagram_take(s, *place(s, node, port), bytes, length);
		return true;
	case FABRIC_HUB_TAKEN:
	default:
		return true;
	}
}

void server_port_take(struct fabric_server *s, uint32_t node, uint32_t port)
{
	struct server_port *p = *place(s, node, port);
	const uint8_t *bytes;
	uint32_t length;

	if (p && p->blocked_bytes > 0 &&
	    fabric_post(s->fabric, node, port, p->blocked, p->blocked_bytes))
		p->blocked_bytes = 0;
	/* What an adapter has no room for stays where it is, until the hub says that there is. */
	while ((length = fabric_peek(s->fabric, node, port, &bytes)) > 0) {
		if (has_key(s, node, port, bytes, length) &&
		    !frame_take(s, node, port, bytes, length))
			return;
		fabric_pass(s->fabric, node, port);
	}
}

/* ---- Datagrams that leave ------------------------------------------------------------------- */

bool server_port_send(struct fabric_server *s, struct server_port *p)
{
	bool has_moved = false;
	struct mad_datagram d;

	while (p->blocked_bytes == 0 && mad_next(p->mads, s->now_ns, &d)) {
		uint32_t length = server_datagram_write(s, p, &d, s->frame);

		has_moved = true;
		if (length == 0 || fabric_post(s->fabric, p->node, p->port, s->frame, length))
			continue;
		CHECK(length <= sizeof(p->blocked));
		memcpy(p->blocked, s->frame, length);
		p->blocked_bytes = length;
	}
	return has_moved;
}
