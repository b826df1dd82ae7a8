/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SMPs on their way (IBA 14.2.2): by LIDs, or along a directed route, of which each node does one
 * hop. The pointer counts hops: 0 where the route begins, one behind the last where it has ended.
 */
#include "fabric/node_inside.h"

#include <string.h>

/* What becomes of an SMP at this node. */
enum next { NEXT_DROP, NEXT_HERE, NEXT_LINK, NEXT_LID };

struct step {
	enum next next;
	uint32_t port; /* of NEXT_LINK */
	uint16_t lid;  /* of NEXT_LID */
};

static struct step drop(void)
{
	return (struct step){ .next = NEXT_DROP };
}

/* An endnode sends only by the port itself. */
static struct step by_link(const struct node_visit *v, uint8_t port)
{
	if (port == 0 || port > v->n->cfg.ports || (!node_is_switch(v->n) && port != v->port))
		return drop();
	return (struct step){ .next = NEXT_LINK, .port = port };
}

static const struct fabric_node_port *endport(const struct node_visit *v)
{
	return &v->n->ports[node_endport(v->n, v->port)];
}

/* Where the directed part ends: here, unless a part by LIDs follows. */
static struct step behind(const struct node_visit *v, uint16_t lid)
{
	if (lid == IBA_LID_PERMISSIVE || node_has_lid(endport(v), lid))
		return (struct step){ .next = NEXT_HERE };
	if (!node_is_switch(v->n) && !v->is_own)
		return drop();
	return (struct step){ .next = NEXT_LID, .lid = lid };
}

/* IBA C14-9. */
static struct step step_there(const struct node_visit *v, struct smp *s)
{
	bool is_between = node_is_switch(v->n) && !v->is_own;

	if (s->hop_pointer == 0 && s->hop_count > 0) {
		if (!is_between && !v->is_own)
			return drop();
		s->hop_pointer = 1;
		return by_link(v, s->there[1]);
	}
	if (s->hop_pointer < s->hop_count) {
		if (!is_between)
			return drop();
		s->back[s->hop_pointer++] = (uint8_t)v->port;
		return by_link(v, s->there[s->hop_pointer]);
	}
	if (s->hop_pointer > s->hop_count)
		return (struct step){ .next = NEXT_HERE };
	if (s->hop_count > 0 && v->is_own)
		return drop();
	if (s->hop_count > 0)
		s->back[s->hop_pointer] = (uint8_t)v->port;
	s->hop_pointer++;
	return behind(v, s->to);
}

/* IBA C14-13. `is_answer`: it was made here. */
static struct step step_back(const struct node_visit *v, struct smp *s, bool is_answer)
{
	if (s->hop_count > 0 && s->hop_pointer == s->hop_count + 1) {
		s->hop_pointer--;
		return by_link(v, s->back[s->hop_pointer]);
	}
	if (s->hop_pointer > 1) {
		if (!node_is_switch(v->n) || is_answer || v->is_own)
			return drop();
		s->hop_pointer--;
		return by_link(v, s->back[s->hop_pointer]);
	}
	if (s->hop_pointer == 0)
		return (struct step){ .next = NEXT_HERE };
	s->hop_pointer = 0;
	if (is_answer && s->from != IBA_LID_PERMISSIVE)
		return (struct step){ .next = NEXT_LID, .lid = s->from };
	return behind(v, s->from);
}

/* ---- Leaving -------------------------------------------------------------------------------- */

static void encode(struct node_visit *v, const struct smp *s)
{
	uint8_t bytes[MAD_BYTES];

	smp_encode(s, bytes);
	v->f.packet.payload = bytes;
	v->f.packet.payload_bytes = MAD_BYTES;
	(void)iba_frame_encode(&v->f, v->bytes);
	v->f.packet.payload = NULL;
}

static struct fabric_way leave(struct node_visit *v, const struct smp *s, enum fabric_to to,
			       uint32_t port)
{
	encode(v, s);
	return (struct fabric_way){ .to = to,
				    .port = port,
				    .length = v->f.lrh.bytes + IBA_VCRC_BYTES };
}

static struct fabric_way to_lid(struct node_visit *v, const struct smp *s, uint16_t lid)
{
	uint32_t port = node_endport(v->n, v->port);
	const struct fabric_node_port *p = &v->n->ports[port];

	v->f.lrh.to = lid;
	v->f.lrh.from = p->info.lid;
	if (node_has_lid(p, lid))
		return leave(v, s, FABRIC_TO_OWNER, port);
	return leave(v, s, FABRIC_TO_SUBNET, port);
}

/* ---- Coming to its end ---------------------------------------------------------------------- */

static struct fabric_way to_owner(struct node_visit *v, const struct smp *s)
{
	return leave(v, s, FABRIC_TO_OWNER, node_endport(v->n, v->port));
}

/* By LIDs back to the sender; from the port's own LID if it came to any. */
static struct fabric_way answer_by_lid(struct node_visit *v, const struct smp *s)
{
	uint32_t port = node_endport(v->n, v->port);
	uint16_t from = v->f.lrh.from, to = v->f.lrh.to;

	v->f.lrh.to = from;
	v->f.lrh.from = to == IBA_LID_PERMISSIVE ? v->n->ports[port].info.lid : to;
	if (v->is_own)
		return leave(v, s, FABRIC_TO_OWNER, port);
	if (from == IBA_LID_PERMISSIVE)
		return leave(v, s, FABRIC_TO_LINK, v->port);
	if (node_is_switch(v->n))
		return leave(v, s, FABRIC_TO_SUBNET, port);
	return leave(v, s, FABRIC_TO_LINK, port);
}

static struct fabric_way answer(struct node_visit *v, struct smp *s)
{
	struct step step;

	v->f.packet.dest_qp = v->f.packet.src_qp;
	v->f.packet.src_qp = 0;
	s->is_returning = s->is_directed;
	/* A part by LIDs came last: it is the first one back. */
	if (!s->is_directed || (s->to != IBA_LID_PERMISSIVE && v->f.lrh.to != IBA_LID_PERMISSIVE))
		return answer_by_lid(v, s);
	step = step_back(v, s, true);
	if (step.next == NEXT_LINK)
		return leave(v, s, FABRIC_TO_LINK, step.port);
	if (step.next == NEXT_LID)
		return to_lid(v, s, step.lid);
	if (step.next == NEXT_HERE)
		return to_owner(v, s);
	return node_refuse(v->n, WEFT_R_NODE_ROUTE);
}

static bool is_for_sm(const struct smp *s)
{
	return s->mad.attribute == SM_SM_INFO || s->mad.method == MAD_TRAP;
}

static struct fabric_way arrived(struct node_visit *v, struct smp *s)
{
	bool is_response = s->mad.method & MAD_RESPONSE;

	if (s->is_directed && s->is_returning != is_response)
		return node_refuse(v->n, WEFT_R_NODE_ROUTE);
	if (is_response)
		return to_owner(v, s);
	if (is_for_sm(s) && endport(v)->is_sm)
		return to_owner(v, s);
	if (s->mad.method == MAD_TRAP)
		return node_refuse(v->n, WEFT_R_NODE_SM);
	if (!node_m_key_is_good(v, s))
		return node_refuse(v->n, WEFT_R_NODE_M_KEY);
	node_sma_serve(v, s);
	if (s->mad.method == MAD_TRAP_REPRESS)
		return (struct fabric_way){ .to = FABRIC_TO_NOWHERE };
	return answer(v, s);
}

/* By LIDs it comes to the port that has the LID, and is posted to any. */
static struct fabric_way lid_routed(struct node_visit *v, struct smp *s)
{
	uint32_t port = node_endport(v->n, v->port);
	bool is_here = node_has_lid(endport(v), v->f.lrh.to);

	if (is_here || (!v->is_own && v->f.lrh.to == IBA_LID_PERMISSIVE))
		return arrived(v, s);
	if (!v->is_own)
		return node_refuse(v->n, WEFT_R_NODE_ROUTE);
	if (v->f.lrh.to == IBA_LID_PERMISSIVE && port == 0)
		return node_refuse(v->n, WEFT_R_NODE_ROUTE);
	if (port > 0)
		return leave(v, s, FABRIC_TO_LINK, port);
	return leave(v, s, FABRIC_TO_SUBNET, port);
}

/* A part by LIDs precedes the directed one, or follows: it passes nodes as any frame does. */
static bool is_on_lid_part(const struct node_visit *v)
{
	uint16_t to = v->f.lrh.to;

	return v->is_own && to != IBA_LID_PERMISSIVE && !node_has_lid(endport(v), to);
}

static struct fabric_way directed(struct node_visit *v, struct smp *s)
{
	struct step step;

	if (is_on_lid_part(v))
		return lid_routed(v, s);
	step = s->is_returning ? step_back(v, s, false) : step_there(v, s);
	switch (step.next) {
	case NEXT_HERE:
		return arrived(v, s);
	case NEXT_LINK:
		v->f.lrh.to = v->f.lrh.from = IBA_LID_PERMISSIVE;
		return leave(v, s, FABRIC_TO_LINK, step.port);
	case NEXT_LID:
		return to_lid(v, s, step.lid);
	default:
		return node_refuse(v->n, WEFT_R_NODE_ROUTE);
	}
}

struct fabric_way node_smp_recv(struct node_visit *v)
{
	struct smp s;
	enum weft_reason reason = smp_decode(&s, v->f.packet.payload, v->f.packet.payload_bytes);

	if (reason != WEFT_OK)
		return node_refuse(v->n, reason);
	return s.is_directed ? directed(v, &s) : lid_routed(v, &s);
}
