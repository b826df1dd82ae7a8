/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of a node share (fabric/node.h). */
#pragma once

#include "fabric/node.h"
#include "wire/pm_attr.h"
#include "wire/smp.h"

/* A frame at a node, while the node looks at it. */
struct node_visit {
	struct fabric_node *n;
	uint64_t now_ns;
	uint32_t port;	    /* by which it came, or of its owner */
	bool is_own;	    /* its owner posted it */
	bool has_m_key;	    /* or none is needed: it may see the M_Key */
	uint64_t m_key;	    /* of the request */
	uint8_t *bytes;	    /* with room for IBA_FRAME_MAX */
	struct iba_frame f; /* decoded */
};

/* ---- node.c --------------------------------------------------------------------------------- */

static inline bool node_is_switch(const struct fabric_node *n)
{
	return n->cfg.type == SM_NODE_SWITCH;
}

/* The port that has the addresses by which a frame at `port` is the node's: port 0 of a switch. */
static inline uint32_t node_endport(const struct fabric_node *n, uint32_t port)
{
	return node_is_switch(n) ? 0 : port;
}

static inline bool node_has_port(const struct fabric_node *n, uint32_t port)
{
	return port <= n->cfg.ports && (port > 0 || node_is_switch(n));
}

/* An endport has the LID: its base LID, or one of those that its LMC adds (AMB-24). */
static inline bool node_has_lid(const struct fabric_node_port *p, uint16_t lid)
{
	return p->info.lid != 0 && lid >> p->info.lmc == p->info.lid >> p->info.lmc;
}

/* Whether it is of subnet management: then both are so. */
static inline bool node_is_management(const struct iba_glance *g)
{
	return g->lrh.lane == IBA_LANE_MANAGEMENT || (g->has_bth && g->dest_qp == 0);
}

/* Of widths or speeds, a bit for each. */
static inline uint8_t node_highest(uint8_t bits)
{
	return (uint8_t)(bits ? 1u << (31 - __builtin_clz(bits)) : 0);
}

/* The entry of a table that a P_Key matches; 0: none (IBA 10.9.3). */
uint16_t node_pkey_find(const struct fabric_node_port *p, uint16_t p_key);

void node_change(struct fabric_node *n, uint32_t port, uint32_t changes);
/* Always nowhere. */
struct fabric_way node_refuse(struct fabric_node *n, enum weft_reason reason);

/* What a frame of data must pass at an endnode's port. */
bool node_data_in(struct fabric_node *n, uint32_t port, const struct iba_glance *g);
bool node_data_out(struct fabric_node *n, uint32_t port, const struct iba_glance *g);

/* ---- node_smi.c: SMPs on their way ---------------------------------------------------------- */

struct fabric_way node_smp_recv(struct node_visit *v);

/* ---- node_sma.c: attributes ----------------------------------------------------------------- */

/* Whether a request has the M_Key (IBA 14.2.4); counts. */
bool node_m_key_is_good(struct node_visit *v, const struct smp *s);

/* Does what a request asks for: afterwards its method, status and data are those of the answer. */
void node_sma_serve(struct node_visit *v, struct smp *s);

/* ---- node_port.c: PortInfo ------------------------------------------------------------------ */

enum { NODE_CAN_SM = 1 << 1 }; /* of its capabilities */

void node_port_init(struct fabric_node *n, uint32_t port);

/* Sets what may be set. False: a value is none that it may have, and nothing has changed. */
bool node_port_set(struct fabric_node *n, uint32_t port, const struct sm_port_info *to);

/* ---- node_pma.c: performance ---------------------------------------------------------------- */

/* The same as node_sma_serve(); `data` is that of the attribute. */
void node_pma_serve(struct node_visit *v, struct mad *m, uint8_t *data);

/* ---- node_trap.c: notices ------------------------------------------------------------------- */

enum node_trap {
	NODE_TRAP_LINK = 128,
	NODE_TRAP_INTEGRITY = 129,
	NODE_TRAP_OVERRUN = 130,
	NODE_TRAP_WATCHDOG = 131,
	NODE_TRAP_CAPABILITY = 144,
	NODE_TRAP_M_KEY = 256,
	NODE_TRAP_P_KEY = 257,
	NODE_TRAP_Q_KEY = 258,
	NODE_TRAP_SWITCH_P_KEY = 259
};

int node_traps_init(struct fabric_node *n);

/* Says anew when the next one is due: a link is up or down. */
void node_traps_look(struct fabric_node *n);

/* The subnet manager has it. */
void node_trap_repress(struct fabric_node *n, uint32_t port, uint64_t tid);

/* A port of a switch is up or down. */
void node_trap_link(struct fabric_node *n);
void node_trap_error(struct fabric_node *n, uint32_t port, enum node_trap trap);
/* What an endport can, or its node's description, is another. */
void node_trap_capability(struct fabric_node *n, uint32_t port, bool is_description);
void node_trap_m_key(const struct node_visit *v, const struct smp *s);
/* At an endnode, which has decoded the packet; at a port of a switch. */
void node_trap_key(struct fabric_node *n, uint32_t port, enum fabric_bad_key what,
		   const struct iba_frame *f);
void node_trap_switch_key(struct fabric_node *n, uint32_t port, const uint8_t *bytes,
			  uint32_t length);
