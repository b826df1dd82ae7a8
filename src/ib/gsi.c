/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pair 1, the general services interface (IBA 13.5.1.2): passes complete management datagrams
 * to and from the connection manager.
 */
#include "ib/gsi.h"

#include <string.h>

#include "ib/packet.h"
#include "ib/port.h"
#include "ib/route.h"
#include "wire/iba_psn.h"

static struct ib_mad *ring_at(struct mad_ring *ring, uint32_t n)
{
	return &ring->mads[(ring->first + n) % IB_MADS_MAX];
}

static bool ring_pop(struct mad_ring *ring, struct ib_mad *mad)
{
	if (ring->count == 0)
		return false;
	*mad = *ring_at(ring, 0);
	ring->first = (ring->first + 1) % IB_MADS_MAX;
	ring->count--;
	return true;
}

static bool is_of_port(const struct ib_port *port, uint16_t p_key)
{
	for (int i = 0; i < IB_PKEYS_MAX; i++) {
		if (port->p_keys[i] != 0 && iba_pkey_match(p_key, port->p_keys[i]))
			return true;
	}
	return false;
}

/* IBA 13.5.3.3: what a management datagram to here looks like. */
static enum weft_reason check(struct ib_port *port, const struct iba_packet *p,
			      const struct ib_in *in)
{
	if (p->opcode != IBA_UD_SEND)
		return WEFT_R_IB_SERVICE;
	if (!is_of_port(port, p->p_key))
		return WEFT_R_IB_PKEY;
	if (p->q_key != IBA_QKEY_GSI)
		return WEFT_R_IB_QKEY;
	if (p->payload_bytes != MAD_BYTES)
		return WEFT_R_IB_LENGTH;
	if (port->mads_in.count == IB_MADS_MAX)
		return WEFT_R_LIMIT;
	return port_check_icrc(port, in);
}

enum weft_reason gsi_recv(struct ib_port *port, const struct iba_packet *p, const struct ib_in *in)
{
	enum weft_reason r = check(port, p, in);
	struct ib_mad *mad;

	if (r != WEFT_OK)
		return r;
	mad = ring_at(&port->mads_in, port->mads_in.count++);
	*mad = (struct ib_mad){
		.path = {
			.is_ipv6 = in->is_ipv6,
			.local = route_back(&in->local),
			.from = in->to,
			.to = in->from,
			.mtu_bytes = MAD_BYTES,
			.traffic_class = in->traffic_class,
			.hop_limit = in->hop_limit,
		},
		.p_key = p->p_key,
	};
	/* Back the way it came, as far as ports stand for ways. */
	mad->path.from.port = in->from.port;
	mad->path.to.port = IBA_UDP_PORT;
	memcpy(mad->bytes, p->payload, MAD_BYTES);
	return WEFT_OK;
}

bool ib_port_mad(struct ib_port *port, struct ib_mad *mad)
{
	return ring_pop(&port->mads_in, mad);
}

bool ib_port_mad_has_room(const struct ib_port *port)
{
	return port->mads_out.count < IB_MADS_MAX;
}

bool ib_port_mad_send(struct ib_port *port, const struct ib_mad *mad)
{
	if (!ib_port_mad_has_room(port))
		return false;
	*ring_at(&port->mads_out, port->mads_out.count++) = *mad;
	return true;
}

bool gsi_next(struct ib_port *port, struct ib_out *out)
{
	struct iba_packet p = {
		.opcode = IBA_UD_SEND,
		.psn = port->mad_psn,
		.dest_qp = IBA_QPN_GSI,
		.src_qp = IBA_QPN_GSI,
		.q_key = IBA_QKEY_GSI,
		.is_migrated = true,
	};
	struct ib_mad mad;
	struct load load;

	_Static_assert((int)MAD_BYTES <= (int)IB_COPY_MAX, "it goes into the packet's own bytes");
	if (!ring_pop(&port->mads_out, &mad))
		return false;
	port->mad_psn = iba_psn_add(port->mad_psn, 1);
	p.p_key = mad.p_key ? mad.p_key : port->p_keys[0];
	out->own_path = mad.path;
	load_init_in(&load, out, p.opcode);
	memcpy(load.room, mad.bytes, MAD_BYTES);
	load.spans[0] = (struct mem_span){ .bytes = load.room, .length = MAD_BYTES };
	load.count = 1;
	load.bytes = MAD_BYTES;
	load.is_copied = true;
	packet_write(port, &out->own_path, &p, &load, out);
	return true;
}
