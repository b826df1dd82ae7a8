/* SPDX-License-Identifier: BSD-2-Clause */
/* Notices (IBA 14.2.5.1). */
#include "fabric/node_inside.h"

#include <stdlib.h>

struct fabric_trap {
	uint64_t due_ns;
};

int node_traps_init(struct fabric_node *n)
{
	n->traps = calloc(1, sizeof(*n->traps));
	return n->traps ? 0 : -1;
}

void node_trap_link(struct fabric_node *n)
{
	n->switch_info.port_state_change = 1;
}

struct fabric_way fabric_node_next(struct fabric_node *n, uint64_t now_ns, uint8_t *bytes)
{
	(void)n;
	(void)now_ns;
	(void)bytes;
	return (struct fabric_way){ .to = FABRIC_TO_NOWHERE };
}

uint64_t fabric_node_due(const struct fabric_node *n)
{
	(void)n;
	return UINT64_MAX;
}

void fabric_node_refused(struct fabric_node *n, uint64_t now_ns, uint32_t port,
			 enum fabric_bad_key what, const struct iba_frame *f)
{
	(void)now_ns;
	(void)f;
	if (what == FABRIC_BAD_PKEY)
		n->ports[port].info.p_key_violations++;
	else
		n->ports[port].info.q_key_violations++;
}
