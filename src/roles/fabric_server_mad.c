/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/fabric_server_inside.h"

#include <string.h>

#include "base/cursor.h"

static const struct fabric_node_port *port_of(const struct fabric_server *s,
					      const struct server_port *p)
{
	return &fabric_node_look(s->fabric, p->node)->ports[p->port];
}

/* ---- Frames to datagrams -------------------------------------------------------------------- */

static uint16_t pkey_index(const struct fabric_node_port *p, uint16_t p_key)
{
	for (uint32_t i = 0; i < FABRIC_PKEYS; i++) {
		if (iba_pkey_match(p->pkeys[i], p_key))
			return (uint16_t)i;
	}
	return 0;
}

static uint8_t gid_index(const struct fabric_node_port *p, const uint8_t gid[IBA_GID_BYTES])
{
	struct rd r = rd_of(gid, IBA_GID_BYTES);
	uint64_t guid;

	(void)rd_u64(&r); /* the prefix */
	guid = rd_u64(&r);
	for (uint32_t i = 0; i < FABRIC_GUIDS; i++) {
		if (p->guids[i] == guid)
			return (uint8_t)i;
	}
	return 0;
}

bool server_datagram_read(struct fabric_server *s, const struct server_port *p,
			  const uint8_t *bytes, uint32_t length, struct mad_datagram *d)
{
	const struct fabric_node_port *port = port_of(s, p);
	struct iba_frame f;

	if (iba_frame_decode_inner(&f, bytes, length) != WEFT_OK || !f.has_packet ||
	    f.packet.opcode != IBA_UD_SEND || f.packet.dest_qp > IBA_QPN_GSI ||
	    f.packet.payload_bytes != MAD_BYTES)
		return false;
	d->address = (struct mad_address){
		.lid = f.lrh.from,
		.pkey_index = pkey_index(port, f.packet.p_key),
		.qpn = f.packet.src_qp,
		.q_key = f.packet.q_key,
		.level = f.lrh.level,
		.path_bits = (uint8_t)(f.lrh.to & ((1U << port->info.lmc) - 1)),
		.has_grh = f.has_grh,
	};
	memcpy(d->bytes, f.packet.payload, MAD_BYTES);
	if (!f.has_grh)
		return true;
	d->address.gid_index = gid_index(port, f.grh.to);
	d->address.hop_limit = f.grh.hop_limit;
	d->address.traffic_class = f.grh.traffic_class;
	d->address.flow_label = f.grh.flow_label;
	memcpy(d->address.gid, f.grh.from, IBA_GID_BYTES);
	return true;
}

/* ---- Datagrams to frames -------------------------------------------------------------------- */

/* False: the port has no such GID. */
static bool grh_set(const struct fabric_node_port *p, const struct mad_address *a,
		    struct iba_frame *f)
{
	struct wr w = wr_of(f->grh.from, IBA_GID_BYTES);

	if (a->gid_index >= FABRIC_GUIDS)
		return false;
	f->has_grh = true;
	f->lrh.next = IBA_NEXT_GRH;
	f->grh = (struct iba_grh){
		.traffic_class = a->traffic_class,
		.flow_label = a->flow_label,
		.next_header = IBA_GRH_NEXT_BTH,
		.hop_limit = a->hop_limit,
	};
	wr_u64(&w, p->info.subnet_prefix);
	wr_u64(&w, p->guids[a->gid_index]);
	memcpy(f->grh.to, a->gid, IBA_GID_BYTES);
	return true;
}

static uint16_t own_lid(const struct fabric_node_port *p, const struct mad_address *a)
{
	uint8_t mask = (uint8_t)((1U << p->info.lmc) - 1);

	if (a->lid == IBA_LID_PERMISSIVE)
		return IBA_LID_PERMISSIVE;
	return (uint16_t)(p->info.lid | (a->path_bits & mask));
}

uint32_t server_datagram_write(struct fabric_server *s, struct server_port *p,
			       const struct mad_datagram *d, uint8_t bytes[IBA_FRAME_MAX])
{
	const struct fabric_node_port *port = port_of(s, p);
	const struct mad_address *a = &d->address;
	bool is_subnet = a->qpn == 0;
	struct iba_frame f = {
		.lrh = {
			.lane = is_subnet ? IBA_LANE_MANAGEMENT : 0,
			.level = is_subnet ? 0 : a->level,
			.next = IBA_NEXT_BTH,
			.to = a->lid,
			.from = own_lid(port, a),
		},
		.has_packet = true,
		.packet = {
			.opcode = IBA_UD_SEND,
			.p_key = IBA_PKEY_DEFAULT,
			.dest_qp = a->qpn,
			.psn = p->psn,
			.q_key = is_subnet ? 0 : a->q_key,
			.src_qp = is_subnet ? 0 : IBA_QPN_GSI,
			.payload = d->bytes,
			.payload_bytes = MAD_BYTES,
		},
	};

	if (!is_subnet && a->pkey_index >= FABRIC_PKEYS)
		return 0;
	if (!is_subnet)
		f.packet.p_key = port->pkeys[a->pkey_index];
	if (a->has_grh && !is_subnet && !grh_set(port, a, &f))
		return 0;
	p->psn = (p->psn + 1) & IBA_NUMBER_MAX;
	return iba_frame_encode(&f, bytes);
}
