/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/fabric_server_inside.h"

#include <errno.h>

#include "driver/sys/clock.h"

/* One that does not read loses frames, and hears how many. */
static void tell(struct server_client *c, const struct fabric_seen *frame)
{
	struct fabric_msg m = { .kind = FABRIC_MSG_ANSWER, .value = c->tap_lost };

	if (c->tap_lost > 0 && fabric_msg_send(c->fd, &m) == 0)
		c->tap_lost = 0;
	m = (struct fabric_msg){ .kind = FABRIC_MSG_FRAME, .value = time_of_day_ns() };
	if (c->tap_lost > 0 || fabric_frame_send(c->fd, &m, frame->bytes, frame->length) < 0)
		c->tap_lost++;
}

static void seen(void *server, const struct fabric_seen *frame)
{
	struct fabric_server *s = server;

	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
		struct server_client *c = s->clients[i];

		if (c && c->is_tap && !c->is_ended && c->tap_node == frame->node &&
		    (c->tap_port == 0 || c->tap_port == frame->port))
			tell(c, frame);
	}
}

/* Whether any client looks at frames. */
static void watch(struct fabric_server *s)
{
	bool is_wanted = false;

	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++)
		is_wanted |= s->clients[i] && s->clients[i]->is_tap;
	fabric_watch(s->fabric, is_wanted ? seen : NULL, s);
}

enum weft_reason server_tap_open(struct fabric_server *s, struct server_client *c,
				 const struct fabric_msg_where *where)
{
	uint32_t node, port;

	if (c->is_tap)
		return WEFT_R_FABRIC_ASK;
	if (!server_find(s, where->node, &node, &port))
		return WEFT_R_FABRIC_NODE;
	if (!fabric_is_here(s->fabric, node))
		return WEFT_R_FABRIC_PART;
	if (where->port != 0)
		port = where->port;
	if (port > fabric_node_look(s->fabric, node)->cfg.ports)
		return WEFT_R_FABRIC_NODE;
	if (port > 0 && fabric_cable_at(s->fabric, node, port) == FABRIC_NO_CABLE)
		return WEFT_R_FABRIC_CABLE;
	c->tap_node = node;
	c->tap_port = port;
	c->is_tap = true;
	watch(s);
	return WEFT_OK;
}

void server_tap_close(struct fabric_server *s, struct server_client *c)
{
	if (!c->is_tap)
		return;
	c->is_tap = false;
	watch(s);
}
