/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames that come to a node, and those that its owners post. */
#include "fabric/node_inside.h"

#include <string.h>

static struct fabric_way nowhere(void)
{
	return (struct fabric_way){ .to = FABRIC_TO_NOWHERE };
}

static uint32_t endport(const struct node_visit *v)
{
	return node_endport(v->n, v->port);
}

static struct fabric_way to_owner(const struct node_visit *v, uint32_t length)
{
	return (struct fabric_way){ .to = FABRIC_TO_OWNER, .port = endport(v), .length = length };
}

/* ---- Management ----------------------------------------------------------------------------- */

static bool is_smp(const struct iba_frame *f)
{
	return f->lrh.lane == IBA_LANE_MANAGEMENT && !f->has_grh && f->has_packet &&
	       f->packet.opcode == IBA_UD_SEND && f->packet.dest_qp == 0 &&
	       f->packet.payload_bytes == MAD_BYTES;
}

static struct fabric_way subnet_recv(struct node_visit *v, uint32_t length)
{
	struct fabric_port_counts *counts = &v->n->ports[v->port].counts;
	enum weft_reason reason = iba_frame_decode_inner(&v->f, v->bytes, length);

	if (reason == WEFT_OK && !is_smp(&v->f))
		reason = WEFT_R_NODE_MANAGEMENT;
	if (reason == WEFT_OK)
		return node_smp_recv(v);
	counts->receive_errors++;
	return node_refuse(v->n, reason);
}

/* ---- Services: QP 1 ------------------------------------------------------------------------- */

/* A request of performance management, which the node keeps. */
static bool is_performance(const struct iba_frame *f, struct mad *m)
{
	const struct iba_packet *p = &f->packet;

	return p->opcode == IBA_UD_SEND && mad_decode(m, p->payload, p->payload_bytes) == WEFT_OK &&
	       m->mgmt_class == MAD_PERFORMANCE && !mad_is_response(m);
}

/* IBA 10.9.2, 10.2.4: QP 1 takes any P_Key of the port, and one Q_Key. */
static bool has_keys(struct node_visit *v, uint16_t *p_key)
{
	struct fabric_node_port *p = &v->n->ports[endport(v)];
	bool is_pkey_bad;

	*p_key = node_pkey_find(p, v->f.packet.p_key);
	is_pkey_bad = *p_key == 0;
	if (!is_pkey_bad && v->f.packet.q_key == IBA_QKEY_GSI)
		return true;
	fabric_node_refused(v->n, v->now_ns, endport(v),
			    is_pkey_bad ? FABRIC_BAD_PKEY : FABRIC_BAD_QKEY, &v->f);
	p->counts.qp1_dropped++;
	(void)node_refuse(v->n, is_pkey_bad ? WEFT_R_NODE_P_KEY : WEFT_R_NODE_Q_KEY);
	return false;
}

/* With the port's own P_Key: a limited member's would not match another limited one. */
static void turn_round(struct node_visit *v)
{
	struct iba_frame *f = &v->f;
	uint16_t to = f->lrh.to;
	uint8_t gid[IBA_GID_BYTES];

	f->lrh.to = f->lrh.from;
	f->lrh.from = to;
	f->packet.dest_qp = f->packet.src_qp;
	f->packet.src_qp = IBA_QPN_GSI;
	if (!f->has_grh)
		return;
	memcpy(gid, f->grh.to, sizeof(gid));
	memcpy(f->grh.to, f->grh.from, sizeof(gid));
	memcpy(f->grh.from, gid, sizeof(gid));
	f->grh.hop_limit = UINT8_MAX;
}

static struct fabric_way service_recv(struct node_visit *v, uint32_t length)
{
	enum weft_reason reason = iba_frame_decode_inner(&v->f, v->bytes, length);
	uint8_t bytes[MAD_BYTES];
	uint16_t p_key;
	struct mad m;

	if (reason != WEFT_OK) {
		v->n->ports[v->port].counts.receive_errors++;
		return node_refuse(v->n, reason);
	}
	if (!has_keys(v, &p_key))
		return nowhere();
	if (!is_performance(&v->f, &m))
		return to_owner(v, length);
	memcpy(bytes, v->f.packet.payload, MAD_BYTES);
	node_pma_serve(v, &m, bytes + PM_DATA_AT);
	mad_encode(&m, bytes);
	turn_round(v);
	v->f.packet.p_key = p_key;
	v->f.packet.payload = bytes;
	length = iba_frame_encode(&v->f, v->bytes);
	v->f.packet.payload = NULL;
	if (node_has_lid(&v->n->ports[endport(v)], v->f.lrh.to))
		return to_owner(v, length);
	return (struct fabric_way){ .to = FABRIC_TO_SUBNET, .port = endport(v), .length = length };
}

/* ---- All ------------------------------------------------------------------------------------ */

static bool is_mine(const struct node_visit *v, uint16_t to)
{
	return (to >= IBA_LID_MULTICAST_MIN && to != IBA_LID_PERMISSIVE) ||
	       node_has_lid(&v->n->ports[endport(v)], to);
}

/* What becomes of data; it may be for the agents of services, too. */
static struct fabric_way data_recv(const struct node_visit *v, const struct iba_glance *g,
				   uint32_t length)
{
	struct fabric_node *n = v->n;

	if (!node_is_switch(n) && !node_data_in(n, v->port, g))
		return nowhere();
	if (is_mine(v, g->lrh.to))
		return to_owner(v, length);
	n->ports[v->port].counts.misrouted++;
	return node_refuse(n, WEFT_R_NODE_LID);
}

static struct fabric_way data_post(const struct node_visit *v, const struct iba_glance *g,
				   uint32_t length)
{
	struct fabric_node *n = v->n;

	if (!node_data_out(n, v->port, g))
		return nowhere();
	if (node_has_lid(&n->ports[v->port], g->lrh.to))
		return to_owner(v, length);
	return (struct fabric_way){ .to = FABRIC_TO_SUBNET, .port = v->port, .length = length };
}

static struct fabric_way no_frame(struct fabric_node *n, uint64_t *count, enum weft_reason reason)
{
	++*count;
	return node_refuse(n, reason);
}

struct fabric_way fabric_node_recv(struct fabric_node *n, uint64_t now_ns, uint32_t port,
				   uint8_t *bytes, uint32_t length)
{
	struct node_visit v = { .n = n, .now_ns = now_ns, .port = port, .bytes = bytes };
	struct fabric_way way;
	struct iba_glance g;
	enum weft_reason reason = iba_frame_glance(&g, bytes, length);

	if (reason != WEFT_OK)
		return no_frame(n, &n->ports[port].counts.receive_errors, reason);
	if (node_is_management(&g))
		return subnet_recv(&v, length);
	way = data_recv(&v, &g, length);
	if (way.to == FABRIC_TO_OWNER && g.has_bth && g.dest_qp == IBA_QPN_GSI)
		return service_recv(&v, length);
	return way;
}

struct fabric_way fabric_node_recv_data(struct fabric_node *n, uint32_t port, const uint8_t *bytes,
					uint32_t length)
{
	const struct node_visit v = { .n = n, .port = port };
	struct iba_glance g;
	enum weft_reason reason = iba_frame_glance(&g, bytes, length);

	if (reason != WEFT_OK)
		return no_frame(n, &n->ports[port].counts.receive_errors, reason);
	return data_recv(&v, &g, length);
}

bool fabric_node_is_owners(const struct fabric_node *n, uint32_t port, const struct iba_lrh *h,
			   uint32_t length)
{
	return !node_is_switch(n) && n->ports[port].info.state == SM_PORT_ACTIVE &&
	       length <= fabric_node_bytes_max(n, port) && h->lane < fabric_node_lanes(n, port) &&
	       node_has_lid(&n->ports[port], h->to);
}

struct fabric_way fabric_node_post(struct fabric_node *n, uint64_t now_ns, uint32_t port,
				   uint8_t *bytes, uint32_t length)
{
	struct node_visit v = {
		.n = n, .now_ns = now_ns, .port = port, .is_own = true, .bytes = bytes
	};
	struct fabric_way way;
	struct iba_glance g;
	enum weft_reason reason = iba_frame_glance(&g, bytes, length);

	if (reason != WEFT_OK)
		return no_frame(n, &n->ports[port].counts.transmit_discards, reason);
	if (node_is_management(&g))
		return subnet_recv(&v, length);
	way = data_post(&v, &g, length);
	if (way.to == FABRIC_TO_OWNER && g.has_bth && g.dest_qp == IBA_QPN_GSI)
		return service_recv(&v, length);
	return way;
}

struct fabric_way fabric_node_post_data(struct fabric_node *n, uint32_t port, const uint8_t *bytes,
					uint32_t length)
{
	const struct node_visit v = { .n = n, .port = port, .is_own = true };
	struct iba_glance g;
	enum weft_reason reason = iba_frame_glance(&g, bytes, length);

	if (reason != WEFT_OK)
		return no_frame(n, &n->ports[port].counts.transmit_discards, reason);
	return data_post(&v, &g, length);
}

/* ---- What the caller tells ------------------------------------------------------------------ */

void fabric_node_set_sm(struct fabric_node *n, uint32_t port, bool is_sm, uint64_t now_ns)
{
	struct fabric_node_port *p = &n->ports[port];

	(void)now_ns;
	if (p->is_sm == is_sm)
		return;
	p->is_sm = is_sm;
	p->info.capabilities ^= NODE_CAN_SM;
	node_trap_capability(n, port, false);
}

bool fabric_node_has_pkey(const struct fabric_node *n, uint32_t port, uint16_t p_key)
{
	return node_pkey_find(&n->ports[port], p_key) != 0;
}

void fabric_node_refused(struct fabric_node *n, uint64_t now_ns, uint32_t port,
			 enum fabric_bad_key what, const struct iba_frame *f)
{
	struct sm_port_info *info = &n->ports[port].info;
	uint16_t *count = what == FABRIC_BAD_PKEY ? &info->p_key_violations
						  : &info->q_key_violations;

	(void)now_ns;
	*count += *count < UINT16_MAX;
	node_trap_key(n, port, what, f);
}

void fabric_node_error(struct fabric_node *n, uint32_t port, enum fabric_error what)
{
	static const enum node_trap traps[] = {
		[FABRIC_ERROR_INTEGRITY] = NODE_TRAP_INTEGRITY,
		[FABRIC_ERROR_OVERRUN] = NODE_TRAP_OVERRUN,
		[FABRIC_ERROR_WATCHDOG] = NODE_TRAP_WATCHDOG,
	};

	n->ports[port].counts.integrity_errors += what == FABRIC_ERROR_INTEGRITY;
	n->ports[port].counts.overrun_errors += what == FABRIC_ERROR_OVERRUN;
	node_trap_error(n, port, traps[what]);
}
