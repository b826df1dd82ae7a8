/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Notices that a node sends to its subnet manager as traps (IBA 13.4.9, 14.2.5.1). A trap is sent
 * anew until it is repressed, TRAP_SENDS times at most: a subnet manager that is gone is not
 * written to forever. There is one of a kind at a time; news of the same kind takes its place.
 */
#include "fabric/node_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cursor.h"

enum {
	KINDS = 9,
	TRAP_SENDS = 10,
	TIMEOUT_NS = 4096, /* times 2 to the power of SubnetTimeOut */
	LEVEL_SHIFT = 28,
	ROUTE_IS_THERE = 0x80, /* of a notice about an M_Key */
	ROUTE_IS_CUT = 0x40,
	ROUTE_BYTES = 30,
	WITHOUT_GIDS = 0x3f, /* LIDs, key, level and QPs of a notice 259 are valid */
	WITH_GIDS = 0xff
};

struct fabric_trap {
	uint32_t left;	  /* how often it is still sent */
	uint64_t next_ns; /* not before that; */
	uint64_t news_ns; /* nor before that if it has news */
	uint64_t tid;
	uint8_t details[SM_NOTICE_DETAILS];
};

static const struct {
	enum node_trap trap;
	uint8_t type; /* 1 urgent, 2 security, 4 informational */
} kinds[KINDS] = {
	{ NODE_TRAP_LINK, 1 },	   { NODE_TRAP_INTEGRITY, 1 },	{ NODE_TRAP_OVERRUN, 1 },
	{ NODE_TRAP_WATCHDOG, 1 }, { NODE_TRAP_CAPABILITY, 4 }, { NODE_TRAP_M_KEY, 2 },
	{ NODE_TRAP_P_KEY, 2 },	   { NODE_TRAP_Q_KEY, 2 },	{ NODE_TRAP_SWITCH_P_KEY, 2 },
};

/* ---- The traps of a node -------------------------------------------------------------------- */

/* Of each port that has addresses, one of a kind: a switch has one such port, number 0. */
int node_traps_init(struct fabric_node *n)
{
	size_t endports = node_is_switch(n) ? 1 : n->cfg.ports + 1;

	n->traps = calloc(endports * KINDS, sizeof(*n->traps));
	n->trap_due_ns = UINT64_MAX;
	return n->traps ? 0 : -1;
}

static uint32_t traps_count(const struct fabric_node *n)
{
	return (node_is_switch(n) ? 1 : n->cfg.ports + 1) * KINDS;
}

static bool can_leave(const struct fabric_node *n, uint32_t endport)
{
	return endport == 0 || n->ports[endport].is_joined;
}

void node_traps_look(struct fabric_node *n)
{
	n->trap_due_ns = UINT64_MAX;
	for (uint32_t i = 0; i < traps_count(n); i++)
		if (n->traps[i].left > 0 && can_leave(n, i / KINDS) &&
		    n->traps[i].next_ns < n->trap_due_ns)
			n->trap_due_ns = n->traps[i].next_ns;
}

/* Without addresses there is no subnet manager that could be told. */
static void raise_trap(struct fabric_node *n, uint32_t port, enum node_trap trap,
		       const uint8_t *details)
{
	const struct sm_port_info *info = &n->ports[port].info;
	struct fabric_trap *t = &n->traps[port * KINDS];

	if (info->lid == IBA_LID_NONE || info->sm_lid == IBA_LID_NONE)
		return;
	for (uint32_t i = 0; kinds[i].trap != trap; i++)
		t++;
	memcpy(t->details, details, SM_NOTICE_DETAILS);
	t->left = TRAP_SENDS;
	t->next_ns = t->news_ns;
	t->tid = n->tid++;
	node_change(n, port, FABRIC_CHANGE_TRAP);
	node_traps_look(n);
}

void node_trap_repress(struct fabric_node *n, uint32_t port, uint64_t tid)
{
	for (uint32_t i = 0; i < KINDS; i++)
		if (n->traps[port * KINDS + i].tid == tid)
			n->traps[port * KINDS + i].left = 0;
	node_traps_look(n);
}

/* ---- What they say -------------------------------------------------------------------------- */

static struct wr details_begin(uint8_t details[SM_NOTICE_DETAILS])
{
	memset(details, 0, SM_NOTICE_DETAILS);
	return wr_of(details, SM_NOTICE_DETAILS);
}

void node_trap_link(struct fabric_node *n)
{
	uint8_t details[SM_NOTICE_DETAILS];
	struct wr w = details_begin(details);

	if (!node_is_switch(n))
		return;
	n->switch_info.port_state_change = 1;
	wr_u16(&w, n->ports[0].info.lid);
	raise_trap(n, 0, NODE_TRAP_LINK, details);
}

void node_trap_error(struct fabric_node *n, uint32_t port, enum node_trap trap)
{
	uint32_t endport = node_endport(n, port);
	uint8_t details[SM_NOTICE_DETAILS];
	struct wr w = details_begin(details);

	wr_u16(&w, 0);
	wr_u16(&w, n->ports[endport].info.lid);
	wr_u8(&w, (uint8_t)port);
	raise_trap(n, endport, trap, details);
}

void node_trap_capability(struct fabric_node *n, uint32_t port, bool is_description)
{
	uint8_t details[SM_NOTICE_DETAILS];
	struct wr w = details_begin(details);

	wr_u16(&w, 0);
	wr_u16(&w, n->ports[port].info.lid);
	wr_u8(&w, 0);
	wr_u8(&w, is_description);
	wr_u32(&w, n->ports[port].info.capabilities);
	wr_u16(&w, is_description);
	wr_u16(&w, n->ports[port].info.capabilities_2);
	raise_trap(n, port, NODE_TRAP_CAPABILITY, details);
}

void node_trap_m_key(const struct node_visit *v, const struct smp *s)
{
	uint8_t hops = s->hop_count < ROUTE_BYTES ? s->hop_count : ROUTE_BYTES;
	uint8_t route = (uint8_t)(ROUTE_IS_THERE | (hops < s->hop_count ? ROUTE_IS_CUT : 0) | hops);
	uint8_t details[SM_NOTICE_DETAILS];
	struct wr w = details_begin(details);

	wr_u16(&w, 0);
	wr_u16(&w, v->f.lrh.from);
	wr_u16(&w, s->is_directed ? s->from : 0);
	wr_u8(&w, s->mad.method);
	wr_u8(&w, 0);
	wr_u16(&w, s->mad.attribute);
	wr_u32(&w, s->mad.modifier);
	wr_u64(&w, s->m_key);
	wr_u8(&w, 0);
	wr_u8(&w, s->is_directed ? route : 0);
	wr_bytes(&w, s->back + 1, hops);
	raise_trap(v->n, node_endport(v->n, v->port), NODE_TRAP_M_KEY, details);
}

/* From where to where a packet went: levels, QPs and GIDs. */
static void write_ends(struct wr *w, const struct iba_frame *f)
{
	wr_u32(w, (uint32_t)f->lrh.level << LEVEL_SHIFT | f->packet.src_qp);
	wr_u32(w, f->packet.dest_qp);
	wr_bytes(w, f->grh.from, IBA_GID_BYTES);
	wr_bytes(w, f->grh.to, IBA_GID_BYTES);
}

void node_trap_key(struct fabric_node *n, uint32_t port, enum fabric_bad_key what,
		   const struct iba_frame *f)
{
	uint8_t details[SM_NOTICE_DETAILS];
	struct wr w = details_begin(details);

	wr_u16(&w, 0);
	wr_u16(&w, f->lrh.from);
	wr_u16(&w, f->lrh.to);
	wr_u32(&w, what == FABRIC_BAD_PKEY ? f->packet.p_key : f->packet.q_key);
	write_ends(&w, f);
	raise_trap(n, port, what == FABRIC_BAD_PKEY ? NODE_TRAP_P_KEY : NODE_TRAP_Q_KEY, details);
}

/* At a port of a switch, which has looked no further than at the BTH. */
void node_trap_switch_key(struct fabric_node *n, uint32_t port, const uint8_t *bytes,
			  uint32_t length)
{
	uint8_t details[SM_NOTICE_DETAILS];
	struct wr w = details_begin(details);
	struct iba_frame f;

	if (iba_frame_decode_inner(&f, bytes, length) != WEFT_OK)
		return;
	wr_u16(&w, f.has_grh ? WITH_GIDS : WITHOUT_GIDS);
	wr_u16(&w, f.lrh.from);
	wr_u16(&w, f.lrh.to);
	wr_u16(&w, f.packet.p_key);
	write_ends(&w, &f);
	wr_u16(&w, n->ports[0].info.lid);
	wr_u8(&w, (uint8_t)port);
	raise_trap(n, 0, NODE_TRAP_SWITCH_P_KEY, details);
}

/* ---- Sending -------------------------------------------------------------------------------- */

static uint32_t trap_encode(const struct fabric_node *n, uint32_t at, uint8_t *bytes)
{
	const struct fabric_trap *t = &n->traps[at];
	const struct sm_port_info *info = &n->ports[at / KINDS].info;
	struct sm_notice notice = {
		.is_generic = 1,
		.type = kinds[at % KINDS].type,
		.producer = (uint32_t)n->cfg.type,
		.trap = (uint16_t)kinds[at % KINDS].trap,
		.issuer = info->lid,
	};
	struct smp s = { .mad = { .mgmt_class = MAD_SUBNET_LID,
				  .class_version = SMP_CLASS_VERSION,
				  .method = MAD_TRAP,
				  .tid = t->tid,
				  .attribute = SM_NOTICE } };
	uint8_t mad[MAD_BYTES];
	struct iba_frame f = {
		.lrh = { .lane = IBA_LANE_MANAGEMENT, .to = info->sm_lid, .from = info->lid },
		.packet = { .opcode = IBA_UD_SEND,
			    .p_key = IBA_PKEY_DEFAULT,
			    .payload = mad,
			    .payload_bytes = MAD_BYTES },
	};

	memcpy(notice.details, t->details, SM_NOTICE_DETAILS);
	mad_layout_encode(sm_layout(SM_NOTICE), &notice, s.data);
	smp_encode(&s, mad);
	return iba_frame_encode(&f, bytes);
}

static struct fabric_way trap_send(struct fabric_node *n, uint32_t at, uint64_t now_ns,
				   uint8_t *bytes)
{
	struct fabric_trap *t = &n->traps[at];
	uint32_t port = at / KINDS;
	const struct fabric_node_port *p = &n->ports[port];
	uint64_t again_ns = (uint64_t)TIMEOUT_NS << p->info.subnet_timeout;
	struct fabric_way way = { .to = FABRIC_TO_SUBNET, .port = port };

	t->left--;
	t->news_ns = now_ns + n->cfg.trap_ns;
	t->next_ns = now_ns + (again_ns > n->cfg.trap_ns ? again_ns : n->cfg.trap_ns);
	way.length = trap_encode(n, at, bytes);
	if (node_has_lid(p, p->info.sm_lid))
		way.to = FABRIC_TO_OWNER;
	return way;
}

struct fabric_way fabric_node_next(struct fabric_node *n, uint64_t now_ns, uint8_t *bytes)
{
	struct fabric_way way = { .to = FABRIC_TO_NOWHERE };

	if (now_ns < n->trap_due_ns)
		return way;
	for (uint32_t i = 0; i < traps_count(n); i++)
		if (n->traps[i].left > 0 && n->traps[i].next_ns <= now_ns &&
		    can_leave(n, i / KINDS)) {
			way = trap_send(n, i, now_ns, bytes);
			break;
		}
	node_traps_look(n);
	return way;
}

uint64_t fabric_node_due(const struct fabric_node *n)
{
	return n->trap_due_ns;
}
