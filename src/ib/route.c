/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib/route.h"

#include <string.h>

#include <weft/roce.h>

#include "ib/port.h"

struct ib_local ib_local_of(const struct weft_path *path)
{
	return (struct ib_local){
		.from = (uint16_t)path->from_lid,
		.to = (uint16_t)path->to_lid,
		.level = (uint8_t)path->service_level,
		.has_grh = path->to.family == 6,
	};
}

static uint16_t source_of(const struct ib_port *port, const struct ib_local *l)
{
	return l->from > port->path_bits ? l->from : port->lid | l->from;
}

/* The lane is each link's to choose; the fabric knows it by the service level. */
void route_encode(const struct ib_port *port, const struct ib_path *path, uint32_t packet_bytes,
		  uint8_t *bytes)
{
	const struct iba_lrh lrh = {
		.level = path->local.level,
		.next = path->local.has_grh ? IBA_NEXT_GRH : IBA_NEXT_BTH,
		.to = path->local.to,
		.from = source_of(port, &path->local),
		.bytes = ib_path_route_bytes(path) + packet_bytes,
	};
	struct iba_grh grh = {
		.traffic_class = path->traffic_class,
		.flow_label = path->flow_label,
		.payload_bytes = (uint16_t)packet_bytes,
		.next_header = IBA_GRH_NEXT_BTH,
		.hop_limit = ib_path_hop_limit(path),
	};

	iba_lrh_encode(&lrh, bytes);
	if (!path->local.has_grh)
		return;
	memcpy(grh.from, path->from.address, sizeof(grh.from));
	memcpy(grh.to, path->to.address, sizeof(grh.to));
	iba_grh_encode(&grh, bytes + IBA_LRH_BYTES);
}

void route_encode_raw(const struct ib_port *port, const struct ib_path *path, uint32_t packet_bytes,
		      uint8_t *bytes)
{
	const struct iba_lrh lrh = {
		.level = path->local.level,
		.next = IBA_NEXT_IPV6,
		.to = path->local.to,
		.from = source_of(port, &path->local),
		.bytes = IBA_LRH_BYTES + packet_bytes,
	};

	iba_lrh_encode(&lrh, bytes);
}

bool route_is_back(const struct ib_port *port, const struct ib_path *path, const struct ib_in *in)
{
	if (in->local.from != path->local.to || in->local.to != source_of(port, &path->local) ||
	    in->local.has_grh != path->local.has_grh)
		return false;
	return !in->local.has_grh ||
	       (inet_is_same_address(true, in->from.address, path->to.address) &&
		inet_is_same_address(true, in->to.address, path->from.address));
}

/* IBA 7.7: the link counts words, the IPv6 header bytes; what is between them is padding. */
static enum weft_reason raw_of_frame(struct ib_in *in, const struct iba_lrh *lrh,
				     const uint8_t *frame)
{
	uint32_t room = lrh->bytes - IBA_LRH_BYTES;
	struct iba_grh g;
	enum weft_reason r = room < IBA_GRH_BYTES ? WEFT_R_FRAME_SHORT
						  : iba_grh_decode(&g, frame + IBA_LRH_BYTES);

	if (r != WEFT_OK)
		return r;
	if (route_pad(IBA_GRH_BYTES + g.payload_bytes) != room)
		return WEFT_R_FRAME_LENGTH;
	*in = (struct ib_in){
		.bytes = frame + IBA_LRH_BYTES,
		.length = IBA_GRH_BYTES + (size_t)g.payload_bytes,
		.is_ipv6 = true,
		.is_raw = true,
		.route_bytes = IBA_LRH_BYTES,
		.local = { lrh->from, lrh->to, lrh->level, false },
	};
	return WEFT_OK;
}

enum weft_reason ib_in_of_frame(struct ib_in *in, const uint8_t *frame, size_t length)
{
	struct iba_grh grh = { .hop_limit = 0 };
	struct iba_lrh lrh;
	enum weft_reason r = iba_lrh_decode(&lrh, frame, length);

	if (r != WEFT_OK)
		return r;
	if (lrh.next == IBA_NEXT_IPV6)
		return raw_of_frame(in, &lrh, frame);
	if (lrh.next != IBA_NEXT_BTH && lrh.next != IBA_NEXT_GRH)
		return WEFT_R_IB_SERVICE;
	*in = (struct ib_in){
		.is_ipv6 = lrh.next == IBA_NEXT_GRH,
		.route_bytes = lrh.next == IBA_NEXT_GRH ? IB_ROUTE_BYTES_MAX : IBA_LRH_BYTES,
		.local = { lrh.from, lrh.to, lrh.level, lrh.next == IBA_NEXT_GRH },
	};
	if (lrh.bytes < in->route_bytes)
		return WEFT_R_FRAME_SHORT;
	if (in->local.has_grh)
		r = iba_grh_decode(&grh, frame + IBA_LRH_BYTES);
	if (r != WEFT_OK)
		return r;
	in->bytes = frame + in->route_bytes;
	in->length = lrh.bytes - in->route_bytes;
	in->traffic_class = grh.traffic_class;
	in->hop_limit = grh.hop_limit;
	memcpy(in->from.address, grh.from, sizeof(grh.from));
	memcpy(in->to.address, grh.to, sizeof(grh.to));
	return WEFT_OK;
}
