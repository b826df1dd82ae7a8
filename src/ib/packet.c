/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib/packet.h"

#include <string.h>

#include "base/check.h"
#include "ib/conn.h"
#include "ib/ee.h"
#include "ib/port.h"
#include "ib/route.h"
#include "wire/iba_icrc.h"

static uint8_t *own_bytes(struct ib_out *out)
{
	return out->room ? out->room : out->bytes + IB_ROUTE_BYTES_MAX;
}

/* ---- Payload -------------------------------------------------------------------------------- */

void load_init(struct load *load, uint8_t *room, bool is_snapshot)
{
	load->count = 0;
	load->bytes = 0;
	load->room = room;
	load->is_snapshot = is_snapshot;
	load->is_copied = load->is_bounced = false;
}

void load_init_in(struct load *load, struct ib_out *out, uint8_t opcode)
{
	load_init(load, own_bytes(out) + iba_form(opcode)->header_bytes, out->room);
}

static void load_begin(struct load *load, uint64_t bytes)
{
	bool is_copied = load->is_snapshot || bytes <= IB_COPY_MAX;

	load->bytes = (uint32_t)bytes;
	load->copy = is_copied ? load->room : NULL;
	load->copied = 0;
}

/* Copies the spans behind what was copied before. False: one of them is missing. */
static bool copy_out(struct load *load, bool is_pinned)
{
	for (uint32_t i = load->is_copied; i < load->count; i++) {
		const struct mem_span *span = &load->spans[i];

		if (!mem_span_read(span, load->copy + load->copied))
			return false;
		load->copied += span->length;
		if (mem_span_has_pins(span) && !is_pinned) /* SEND-04 */
			span->paging->counts.bytes_handed += span->length;
	}
	load->spans[0] = (struct mem_span){ .bytes = load->copy, .length = load->copied };
	load->count = 1;
	load->is_copied = true;
	return true;
}

/* The same, if need be to a buffer of the port: they are too many, or may go. */
static bool bounce(struct ib_conn *c, struct load *load)
{
	if (!load->copy) {
		load->copy = c->port->bounce[c->port->bounced % IB_BOUNCES];
		load->is_bounced = true;
		c->port->counts.bounced++;
		count_copied(c->port, c->req.qp, load->bytes);
	}
	return copy_out(load, false);
}

/* SEND-05: until the packet has left. False: they must not be pinned, or cannot. */
static bool pin_all(struct ib_conn *c, const struct load *load)
{
	uint32_t held = c->port->held_count;

	if (load->is_copied || load->bytes <= IB_COPY_MAX)
		return false;
	for (uint32_t i = 0; i < load->count; i++) {
		const struct mem_span *span = &load->spans[i];

		if ((!load->copy && mem_span_may_go(span)) ||
		    (mem_span_has_pins(span) && !port_hold(c->port, span))) {
			port_release(c->port, held);
			return false;
		}
	}
	return true;
}

/* All spans are there: pins or copies them. False: one of them is missing by now. */
static bool hold(struct ib_conn *c, struct load *load)
{
	if (!pin_all(c, load))
		return bounce(c, load);
	return !load->copy || copy_out(load, true);
}

bool load_copy(struct load *load, const struct mem_span *span)
{
	load_begin(load, span->length);
	if (!load->copy || !mem_span_read(span, load->copy))
		return false;
	load->spans[0] = (struct mem_span){ .bytes = load->copy, .length = span->length };
	load->count = 1;
	load->is_copied = true;
	return true;
}

static uint64_t span_bytes(const struct mem_span *spans, uint32_t count)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		bytes += spans[i].length;
	return bytes;
}

static enum weft_reason gather(struct ib_conn *c, const struct stretch *part, struct load *load)
{
	struct stretch rest = *part;

	/* Bound: every round takes a span at least. */
	while (rest.length > 0) {
		struct mem_span *to = &load->spans[load->count];
		uint32_t count;
		uint64_t bytes;
		enum weft_reason r = qp_segments_spans(c->req.qp, &rest, to,
						       IB_OUT_SPANS_MAX - load->count, &count);

		if (r != WEFT_OK)
			return r;
		bytes = span_bytes(to, count);
		load->count += count;
		rest.offset += bytes;
		rest.length -= bytes;
		if (rest.length > 0 && !bounce(c, load))
			return WEFT_R_MEMORY_GONE;
	}
	return hold(c, load) ? WEFT_OK : WEFT_R_MEMORY_GONE;
}

enum weft_reason packet_gather_grant(struct ib_conn *c, struct mem_grant *grant, struct load *load)
{
	load_begin(load, grant->length);
	while (grant->length > 0) {
		load->count += mem_grant_spans(grant, &load->spans[load->count],
					       IB_OUT_SPANS_MAX - load->count);
		if (grant->length > 0 && !bounce(c, load))
			return WEFT_R_MEMORY_GONE;
	}
	return hold(c, load) ? WEFT_OK : WEFT_R_MEMORY_GONE;
}

/* ---- Requests ------------------------------------------------------------------------------- */

enum { FIRST, MIDDLE, LAST, ONLY };

static enum iba_op send_op(const struct send_wqe *wqe, int place)
{
	static const uint8_t plain[] = { IBA_SEND_FIRST, IBA_SEND_MIDDLE, IBA_SEND_LAST,
					 IBA_SEND_ONLY };

	if (wqe->opcode == WEFT_OP_SEND_IMM && place >= LAST)
		return place == LAST ? IBA_SEND_LAST_IMM : IBA_SEND_ONLY_IMM;
	if (wqe->opcode == WEFT_OP_SEND_INVALIDATE && place >= LAST)
		return place == LAST ? IBA_SEND_LAST_INV : IBA_SEND_ONLY_INV;
	return (enum iba_op)plain[place];
}

static enum iba_op write_op(const struct send_wqe *wqe, int place)
{
	static const uint8_t plain[] = { IBA_WRITE_FIRST, IBA_WRITE_MIDDLE, IBA_WRITE_LAST,
					 IBA_WRITE_ONLY };

	if (wqe->opcode == WEFT_OP_WRITE_IMM && place >= LAST)
		return place == LAST ? IBA_WRITE_LAST_IMM : IBA_WRITE_ONLY_IMM;
	return (enum iba_op)plain[place];
}

static int place_of(const struct send_wqe *wqe, uint32_t i, uint32_t mtu)
{
	bool is_last = (uint64_t)(i + 1) * mtu >= wqe->length;

	if (i == 0)
		return is_last ? ONLY : FIRST;
	return is_last ? LAST : MIDDLE;
}

void request_packet(struct ib_conn *c, const struct send_wqe *wqe, uint32_t i, struct iba_packet *p)
{
	static const uint8_t services[WEFT_SERVICE_COUNT] = {
		[WEFT_RC] = IBA_RC,
		[WEFT_UC] = IBA_UC,
		[WEFT_RD] = IBA_RD,
		[WEFT_UD] = IBA_UD,
	};
	bool is_write = wqe->opcode == WEFT_OP_WRITE || wqe->opcode == WEFT_OP_WRITE_IMM;
	int place = i == 0 && p->run > 0 ? ONLY : place_of(wqe, i, c->path.mtu_bytes);
	enum iba_op op = is_write ? write_op(wqe, place) : send_op(wqe, place);

	p->opcode = iba_opcode(c->is_xrc ? IBA_XRC : (enum iba_service)services[c->service], op);
	p->xrc_srq = wqe->dest_qp_number;
	p->is_solicited = (wqe->flags & WEFT_SOLICITED) && place >= LAST;
	p->va = wqe->remote_addr;
	p->r_key = wqe->remote_tag;
	p->dma_bytes = wqe->length;
	p->imm = wqe->imm;
	p->inv_r_key = wqe->invalidate_tag;
}

uint32_t request_bytes(const struct ib_conn *c, const struct send_wqe *wqe, uint32_t i)
{
	uint32_t mtu = c->path.mtu_bytes, left = wqe->length - i * mtu;

	return left < mtu ? left : mtu;
}

bool request_block(const struct ib_conn *c, struct send_wqe *wqe, uint32_t i,
		   struct ib_block *block)
{
	const struct stretch all = request_stretch(wqe);
	uint64_t skip = (uint64_t)i * c->path.mtu_bytes;

	for (uint32_t k = 0; k < all.count; k++) {
		const struct weft_sge *at = &all.sges[k];

		if (skip < at->length) {
			*block = (struct ib_block){
				.addr = at->addr + skip,
				.length = at->length - (uint32_t)skip,
				.tag = at->tag,
				.at = at,
				.left = all.count - k,
			};
			return true;
		}
		skip -= at->length;
	}
	return false;
}

enum weft_reason request_gather(struct ib_conn *c, const struct ib_block *block, uint32_t bytes,
				struct load *load)
{
	const struct stretch part = {
		.sges = block->at,
		.count = block->left,
		.kind = MEM_LOCAL_READ,
		.offset = block->addr - block->at->addr,
		.length = bytes,
		.is_again = block->is_again,
		.can_wait = !c->is_ee,
	};

	load_begin(load, bytes);
	return gather(c, &part, load);
}

enum weft_reason request_payload(struct ib_conn *c, struct send_wqe *wqe, uint32_t i,
				 struct load *load)
{
	uint32_t bytes = request_bytes(c, wqe, i);
	struct ib_block block;

	load_begin(load, bytes);
	if (bytes == 0)
		return WEFT_OK;
	if (request_is_inline(wqe)) {
		/* The slot is ours, and only read from. */
		uint8_t *slot = (uint8_t *)(uintptr_t)wqe_inline(wqe) + i * c->path.mtu_bytes;

		count_copied(c->port, c->req.qp, bytes); /* to there */
		load->count = 1;
		if (!load->copy) {
			load->spans[0] = (struct mem_span){ .bytes = slot, .length = bytes };
			return hold(c, load) ? WEFT_OK : WEFT_R_MEMORY_GONE;
		}
		memcpy(load->copy, slot, bytes);
		load->spans[0] = (struct mem_span){ .bytes = load->copy, .length = bytes };
		load->is_copied = true;
		return WEFT_OK;
	}
	CHECK(request_block(c, wqe, i, &block));
	return request_gather(c, &block, bytes, load);
}

/* ---- The packet ----------------------------------------------------------------------------- */

/* Payload that lies elsewhere than behind the headers; then the trailer. */
static void add_pieces(struct ib_port *port, const struct load *load, uint8_t pad, uint32_t crc,
		       struct ib_out *out)
{
	uint8_t *end = out->spans.spans[0].bytes + out->spans.length;

	for (uint32_t i = 0; i < load->count; i++) {
		uint8_t *bytes = load->spans[i].bytes;
		size_t length = (size_t)load->spans[i].length;

		if (out->has_icrc)
			crc = crc32_add(crc, bytes, length);
		CHECK(span_list_add(&out->spans, bytes, length));
	}
	port->bounced += load->is_bounced;
	out->is_last = load->is_bounced && port->bounced % IB_BOUNCES == 0;
	CHECK(span_list_add(&out->spans, end, iba_trailer_encode(crc, pad, end)));
}

/* The CRC register ahead of the packet, whose headers of a route have been written. */
static uint32_t icrc_begin(const struct ib_path *path, const struct ib_out *out,
			   uint32_t packet_bytes)
{
	const struct iba_icrc_ip ip = {
		.is_ipv6 = path->is_ipv6,
		.from = &path->from,
		.to = &path->to,
		.ipv4_id = out->ipv4_id,
		.ipv4_fragment = IBA_IPV4_DF,
	};

	if (out->route_bytes > 0)
		return iba_frame_icrc_begin(out->spans.spans[0].bytes, path->local.has_grh);
	return iba_icrc_begin(&ip, packet_bytes);
}

/*
 * What is copied leaves as it was copied: its ICRC is that of the copy, as the memory may change
 * meanwhile, by right where a peer reads what its owner writes.
 */
void packet_write(struct ib_port *port, const struct ib_path *path, struct iba_packet *p,
		  const struct load *load, struct ib_out *out)
{
	uint32_t bytes = load ? load->bytes : 0, packet_bytes, at, crc = 0;
	uint8_t *own = own_bytes(out);

	p->pad = iba_pad(bytes);
	out->run = p->run;
	out->path = path;
	out->ecn = IB_ECN_NOT;
	out->has_icrc = path->near_number == 0 || port->has_near_icrc;
	out->is_last = false;
	at = iba_encode(p, own);
	packet_bytes = iba_packet_bytes(p->opcode, bytes);
	out->route_bytes = ib_path_route_bytes(path);
	if (out->route_bytes > 0)
		route_encode(port, path, packet_bytes, own - out->route_bytes);
	out->spans.count = 1;
	out->spans.spans[0].bytes = own - out->route_bytes;
	if (out->has_icrc)
		crc = icrc_begin(path, out, packet_bytes);
	port->counts.payload_out += bytes;
	if (bytes > 0 && (!load->is_copied || load->is_bounced)) {
		out->spans.spans[0].length = out->spans.length = out->route_bytes + at;
		if (out->has_icrc)
			crc = iba_icrc_add_packet(crc, own, at);
		add_pieces(port, load, p->pad, crc, out);
		return;
	}
	at += bytes;
	if (out->has_icrc)
		crc = iba_icrc_add_whole(crc, own, at);
	at += iba_trailer_encode(crc, p->pad, own + at);
	out->spans.spans[0].length = out->spans.length = out->route_bytes + at;
}

void packet_make(struct ib_conn *c, struct iba_packet *p, const struct load *load,
		 struct ib_out *out)
{
	packet_make_by(c, &c->path, p, load, out);
}

void packet_make_by(struct ib_conn *c, const struct ib_path *path, struct iba_packet *p,
		    const struct load *load, struct ib_out *out)
{
	p->p_key = path == &c->path ? c->p_key : c->other->p_key;
	p->dest_qp = c->peer_qp;
	p->is_migrated = c->migration == IB_MIGRATED;
	if (c->is_ee)
		rd_address(c, p);
	packet_write(c->port, path, p, load, out);
	if (!c->is_ee && iba_form(p->opcode)->kind != IBA_KIND_ACK && p->opcode != IBA_CNP)
		out->ecn = IB_ECN_ECT0;
}

void packet_make_row(struct ib_conn *c, struct iba_packet *p, struct ib_out *outs, uint32_t count)
{
	const struct ib_out *first = &outs[0];
	const uint8_t *bytes;
	uint32_t crc;

	packet_make(c, p, NULL, &outs[0]);
	bytes = first->spans.spans[0].bytes;
	crc = iba_frame_icrc_begin(bytes, c->path.local.has_grh);
	for (uint32_t i = 1; i < count; i++) {
		struct ib_out *out = &outs[i];
		size_t own;

		out->run = 0;
		out->path = first->path;
		out->ecn = first->ecn;
		out->has_icrc = true;
		out->is_last = false;
		out->route_bytes = first->route_bytes;
		own = first->spans.length - out->route_bytes - IBA_ICRC_BYTES;
		out->spans.count = 1;
		out->spans.length = first->spans.length;
		out->spans.spans[0] = (struct span){ out->room - out->route_bytes,
						     first->spans.length };
		memcpy(out->spans.spans[0].bytes, bytes, out->route_bytes + own);
		iba_psn_put(out->room, iba_psn_add(p->psn, i));
		(void)iba_trailer_encode(iba_icrc_add_whole(crc, out->room, own), 0,
					 out->room + own);
	}
}
