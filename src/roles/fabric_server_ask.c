/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/fabric_server_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Names ---------------------------------------------------------------------------------- */

static bool number_read(const char *text, int base, uint64_t *number)
{
	char *end;

	*number = strtoull(text, &end, base);
	return *text != '\0' && *end == '\0';
}

static bool guid_find(const struct fabric_server *s, uint64_t guid, uint32_t *node, uint32_t *port)
{
	for (uint32_t i = 0; i < fabric_node_count(s->fabric); i++) {
		const struct fabric_node *n = fabric_node_look(s->fabric, i);

		for (uint32_t k = 0; k <= n->cfg.ports; k++) {
			if (n->ports[k].guids[0] != guid)
				continue;
			*node = i;
			*port = k;
			return true;
		}
		if (n->cfg.guid == guid) {
			*node = i;
			*port = 0;
			return true;
		}
	}
	return false;
}

/* Two nodes of one name are none. */
static bool name_find(const struct fabric_server *s, char (*names)[TOPOLOGY_NAME_BYTES],
		      const char *name, uint32_t *node)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < fabric_node_count(s->fabric); i++) {
		if (strcmp(names[i], name) != 0)
			continue;
		*node = i;
		found++;
	}
	return found == 1;
}

bool server_find(const struct fabric_server *s, const char *name, uint32_t *node, uint32_t *port)
{
	uint64_t number;

	*port = 0;
	if (*name == '\0')
		return false;
	if (name_find(s, s->names, name, node) || name_find(s, s->ids, name, node))
		return true;
	if (name[0] == '#' && number_read(name + 1, 10, &number)) {
		*node = (uint32_t)number;
		return number < fabric_node_count(s->fabric);
	}
	return strncmp(name, "0x", 2) == 0 && number_read(name, 16, &number) && number != 0 &&
	       guid_find(s, number, node, port);
}

/* The first one that has a cable; 0: none has. */
static uint32_t port_first(const struct fabric_server *s, uint32_t node)
{
	const struct fabric_node *n = fabric_node_look(s->fabric, node);

	for (uint32_t port = 1; port <= n->cfg.ports; port++) {
		if (fabric_cable_at(s->fabric, node, port) != FABRIC_NO_CABLE)
			return port;
	}
	return 0;
}

static bool is_switch(const struct fabric_server *s, uint32_t node)
{
	return fabric_node_look(s->fabric, node)->cfg.type == SM_NODE_SWITCH;
}

enum weft_reason server_owner_find(const struct fabric_server *s,
				   const struct fabric_msg_where *where, uint32_t *node,
				   uint32_t *port)
{
	if (!server_find(s, where->node, node, port))
		return WEFT_R_FABRIC_NODE;
	if (!fabric_is_here(s->fabric, *node))
		return WEFT_R_FABRIC_PART;
	if (is_switch(s, *node)) { /* its owner is at port 0 */
		*port = 0;
		return where->port == 0 ? WEFT_OK : WEFT_R_FABRIC_NODE;
	}
	if (where->port != 0)
		*port = where->port;
	if (*port == 0)
		*port = port_first(s, *node);
	if (*port == 0)
		*port = 1;
	return *port <= fabric_node_look(s->fabric, *node)->cfg.ports ? WEFT_OK
								      : WEFT_R_FABRIC_NODE;
}

/* ---- Ports ---------------------------------------------------------------------------------- */

bool server_port_state(struct fabric_server *s, uint32_t node, uint32_t port,
		       struct attach_state *state)
{
	const struct fabric_node *n = fabric_node_look(s->fabric, node);
	const struct fabric_node_port *p = &n->ports[port <= n->cfg.ports ? port : 0];

	if (port == 0 || port > n->cfg.ports || is_switch(s, node))
		return false;
	*state = (struct attach_state){
		.info = p->info,
		.node_guid = n->cfg.guid,
		.port_guid = p->guids[0],
	};
	state->info.m_key = 0;
	memcpy(state->guids, p->guids, sizeof(state->guids));
	memcpy(state->p_keys, p->pkeys, sizeof(state->p_keys));
	memcpy(state->node, s->names[node], sizeof(state->node));
	return true;
}

/* As subnet management would tell, but for the M_Key, which is a secret of its manager. */
static void port_tell(struct fabric_server *s, uint32_t node, uint32_t port,
		      struct fabric_msg_port *to)
{
	const struct fabric_node *n = fabric_node_look(s->fabric, node);
	const struct fabric_node_port *p = &n->ports[port];
	const struct fabric_node_port *end = is_switch(s, node) ? &n->ports[0] : p;

	*to = (struct fabric_msg_port){
		.node = node,
		.port = port,
		.node_info = fabric_node_info(n, port),
		.port_info = p->info,
		.is_manager = p->is_sm,
	};
	to->port_info.m_key = 0;
	memcpy(to->description.text, n->description, sizeof(to->description.text));
	memcpy(to->guids.guids, end->guids, sizeof(to->guids.guids));
	memcpy(to->pkeys.pkeys, p->pkeys, sizeof(to->pkeys.pkeys));
}

/* Of a port in another part it is known what that has told. */
static bool is_known(const struct fabric_server *s, uint32_t node, uint32_t port)
{
	return fabric_is_here(s->fabric, node) ||
	       (s->trunks && fabric_trunks_knows(s->trunks, node, port));
}

/* A program at the node itself must be where that is. */
static enum weft_reason port_ask(struct fabric_server *s, const struct fabric_msg *ask,
				 struct fabric_msg *out)
{
	const struct fabric_msg_where *where = &ask->where;
	uint32_t node, port;

	if (!server_find(s, where->node, &node, &port))
		return WEFT_R_FABRIC_NODE;
	if (where->port != 0)
		port = where->port;
	else if (port == 0 && !is_switch(s, node))
		port = port_first(s, node) ? port_first(s, node) : 1;
	if (port > fabric_node_look(s->fabric, node)->cfg.ports)
		return WEFT_R_FABRIC_NODE;
	if (!is_known(s, node, port) || (ask->value && !fabric_is_here(s->fabric, node)))
		return WEFT_R_FABRIC_PART;
	out->kind = FABRIC_MSG_IS_PORT;
	port_tell(s, node, port, &out->port);
	return WEFT_OK;
}

/* Without the port, which is of a connection, or of the part itself. */
static void host_put(const struct weft_address *a, char text[FABRIC_MSG_ADDRESS])
{
	if (a->family == 0)
		return;
	weft_address_text(a, text);
	*strrchr(text, ':') = '\0';
}

/* For programs that were told WEFT_R_FABRIC_PART. */
static enum weft_reason part_ask(struct fabric_server *s, const struct fabric_msg *ask,
				 struct fabric_msg *out)
{
	struct fabric_trunk_where where;
	uint32_t node, port;

	if (!server_find(s, ask->where.node, &node, &port))
		return WEFT_R_FABRIC_NODE;
	if (!s->trunks)
		return WEFT_R_FABRIC_ASK; /* it is not cut */
	fabric_trunks_where(s->trunks, node, &where);
	out->kind = FABRIC_MSG_IS_PART;
	out->part.is_joined = where.is_joined;
	host_put(&where.address, out->part.address);
	(void)snprintf(out->part.self, sizeof(out->part.self), "%s", where.self);
	(void)snprintf(out->part.name, sizeof(out->part.name), "%s", where.name);
	return WEFT_OK;
}

/* ---- Cables --------------------------------------------------------------------------------- */

static void cable_set(struct fabric *f, uint32_t cable, const struct fabric_msg *ask)
{
	switch (ask->kind) {
	case FABRIC_MSG_CUT:
		fabric_cut(f, cable);
		break;
	case FABRIC_MSG_MEND:
		fabric_mend(f, cable);
		break;
	case FABRIC_MSG_ERRORS:
		fabric_errors(f, cable, ask->value);
		break;
	default:
		fabric_degrade(f, cable, (uint32_t)ask->value);
	}
}

/* That of the port, or all of the node; the answer's value is how many. */
static enum weft_reason cables_ask(struct fabric_server *s, const struct fabric_msg *ask,
				   uint64_t *count)
{
	uint32_t node, port, last;

	if (!server_find(s, ask->where.node, &node, &port))
		return WEFT_R_FABRIC_NODE;
	if (!fabric_is_here(s->fabric, node))
		return WEFT_R_FABRIC_PART;
	if (ask->kind == FABRIC_MSG_DEGRADE && (ask->value == 0 || ask->value > UINT16_MAX))
		return WEFT_R_FABRIC_ASK;
	if (ask->where.port != 0)
		port = ask->where.port;
	last = fabric_node_look(s->fabric, node)->cfg.ports;
	if (port > last)
		return WEFT_R_FABRIC_NODE;
	for (uint32_t i = port ? port : 1; i <= (port ? port : last); i++) {
		uint32_t cable = fabric_cable_at(s->fabric, node, i);

		if (cable == FABRIC_NO_CABLE)
			continue;
		cable_set(s->fabric, cable, ask);
		++*count;
	}
	return *count > 0 ? WEFT_OK : WEFT_R_FABRIC_CABLE;
}

struct fabric_msg server_answer(struct fabric_server *s, const struct fabric_msg *ask)
{
	struct fabric_msg out = { .kind = FABRIC_MSG_ANSWER };
	enum weft_reason r = WEFT_R_FABRIC_ASK;

	switch (ask->kind) {
	case FABRIC_MSG_PORT:
		r = port_ask(s, ask, &out);
		break;
	case FABRIC_MSG_PART:
		r = part_ask(s, ask, &out);
		break;
	case FABRIC_MSG_CUT:
	case FABRIC_MSG_MEND:
	case FABRIC_MSG_ERRORS:
	case FABRIC_MSG_DEGRADE:
		r = cables_ask(s, ask, &out.value);
		break;
	default:
		break;
	}
	out.reason = (uint32_t)r;
	return out;
}
