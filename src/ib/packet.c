/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib/packet.h"

#include <string.h>

#include "base/check.h"
#include "ib/conn.h"
#include "ib/ee.h"
#include "ib/port.h"
#include "wire/iba_icrc.h"

/* ---- Payload -------------------------------------------------------------------------------- */

bool request_is_inline(const struct send_wqe *wqe)
{
	return wqe->flags & WEFT_INLINE;
}

/* SEND-04: it is copied out of its space, now. */
static void hand_over(const struct mem_span *span)
{
	if (span->paging)
		span->paging->counts.bytes_handed += span->length;
}

/* What there is goes to a bounce buffer: it is in too many pieces, or may go. False: it went. */
static bool bounce(struct ib_conn *c, struct load *load)
{
	uint8_t *to = c->port->bounce[c->port->bounced % IB_BOUNCES];
	uint64_t at = load->is_bounced ? load->spans[0].length : 0;
	uint32_t i = load->is_bounced;

	for (; i < load->count; i++) {
		if (!mem_span_read(&load->spans[i], to + at))
			return false;
		at += load->spans[i].length;
		hand_over(&load->spans[i]);
	}
	load->spans[0] = (struct mem_span){ .bytes = to, .length = at, .paging = NULL };
	load->count = 1;
	c->port->counts.bounced += !load->is_bounced;
	load->is_bounced = true;
	return true;
}

/* In packet_make(). */
static bool is_copied_later(const struct load *load, const struct mem_span *span)
{
	return load->bytes <= IB_COPY_MAX && !mem_span_may_go(span);
}

/*
 * All of it is there: it is pinned until it has left, unless it is copied anyway, or may not or
 * cannot be pinned. False: some of it has gone by now.
 */
static bool hold(struct ib_conn *c, struct load *load)
{
	uint32_t held = c->port->held_count;

	if (load->is_bounced)
		return bounce(c, load);
	for (uint32_t i = 0; i < load->count; i++) {
		const struct mem_span *span = &load->spans[i];

		if (!span->paging || is_copied_later(load, span))
			continue;
		if (!port_hold(c->port, span)) {
			port_release(c->port, held);
			return bounce(c, load);
		}
	}
	for (uint32_t i = 0; i < load->count; i++) {
		if (is_copied_later(load, &load->spans[i]))
			hand_over(&load->spans[i]);
	}
	return true;
}

static uint64_t span_bytes(const struct mem_span *spans, uint32_t count)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		bytes += spans[i].length;
	return bytes;
}

enum weft_reason packet_gather(struct ib_conn *c, const struct stretch *part, struct load *load)
{
	struct stretch rest = *part;

	load->count = 0;
	load->bytes = (uint32_t)part->length;
	load->is_bounced = false;
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
			return WEFT_R_SPACE_MAPPING;
	}
	return hold(c, load) ? WEFT_OK : WEFT_R_SPACE_MAPPING;
}

enum weft_reason packet_gather_grant(struct ib_conn *c, struct mem_grant *grant, struct load *load)
{
	load->count = 0;
	load->bytes = (uint32_t)grant->length;
	load->is_bounced = false;
	while (grant->length > 0) {
		load->count += mem_grant_spans(grant, &load->spans[load->count],
					       IB_OUT_SPANS_MAX - load->count);
		if (grant->length > 0 && !bounce(c, load))
			return WEFT_R_SPACE_MAPPING;
	}
	return hold(c, load) ? WEFT_OK : WEFT_R_SPACE_MAPPING;
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
	int place = place_of(wqe, i, c->path.mtu_bytes);
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

enum weft_reason request_payload(struct ib_conn *c, struct send_wqe *wqe, uint32_t i,
				 struct load *load)
{
	uint32_t mtu = c->path.mtu_bytes, offset = i * mtu;
	uint32_t length = wqe->length - offset < mtu ? wqe->length - offset : mtu;
	struct stretch part = request_stretch(wqe);

	load->count = 0;
	load->bytes = length;
	load->is_bounced = false;
	if (length == 0)
		return WEFT_OK;
	if (request_is_inline(wqe)) {
		/* The slot is ours, and only read from. */
		load->spans[0] = (struct mem_span){
			.bytes = (uint8_t *)(uintptr_t)wqe_inline(wqe) + offset,
			.length = length,
		};
		load->count = 1;
		return WEFT_OK;
	}
	part.offset = offset;
	part.length = length;
	return packet_gather(c, &part, load);
}

/* ---- The packet ----------------------------------------------------------------------------- */

static uint8_t *own_bytes(struct ib_out *out)
{
	return out->room ? out->room : out->bytes;
}

/*
 * What is copied leaves as it was copied: its ICRC is that of the copy, as the memory may change
 * meanwhile, by right where a peer reads what its owner writes. Small ones always are.
 */
static uint32_t add_payload(struct ib_out *out, uint32_t at, const struct load *load, uint32_t *crc)
{
	uint8_t *to = own_bytes(out) + at;
	bool is_copied = out->room || load->bytes <= IB_COPY_MAX;

	for (uint32_t i = 0; i < load->count; i++) {
		uint8_t *bytes = load->spans[i].bytes;
		size_t length = (size_t)load->spans[i].length;

		if (is_copied) {
			bytes = memcpy(to, bytes, length);
			to += length;
		}
		*crc = crc32_add(*crc, bytes, length);
		CHECK(span_list_add(&out->spans, bytes, length));
	}
	return (uint32_t)(to - own_bytes(out));
}

void packet_write(struct ib_port *port, const struct ib_path *path, struct iba_packet *p,
		  const struct load *load, struct ib_out *out)
{
	const struct iba_icrc_ip ip = {
		.is_ipv6 = path->is_ipv6,
		.from = &path->from,
		.to = &path->to,
		.ipv4_id = out->ipv4_id,
		.ipv4_fragment = IBA_IPV4_DF,
	};
	uint32_t bytes = load ? load->bytes : 0, at, crc;
	uint8_t *own = own_bytes(out);
	bool is_kept;

	p->is_migrated = true;
	p->pad = iba_pad(bytes);
	out->path = path;
	out->ecn = IB_ECN_NOT;
	out->spans.count = 0;
	out->spans.length = 0;
	at = iba_encode(p, own);
	CHECK(span_list_add(&out->spans, own, at));
	crc = iba_icrc_begin(&ip, iba_packet_bytes(p->opcode, bytes));
	crc = iba_icrc_add_packet(crc, own, at);
	if (bytes > 0)
		at = add_payload(out, at, load, &crc);
	is_kept = bytes > IB_COPY_MAX && load->is_bounced && !out->room;
	port->bounced += is_kept;
	out->is_last = is_kept && port->bounced % IB_BOUNCES == 0;
	CHECK(span_list_add(&out->spans, own + at, iba_trailer_encode(crc, p->pad, own + at)));
	port->counts.payload_out += bytes;
}

void packet_make(struct ib_conn *c, struct iba_packet *p, const struct load *load,
		 struct ib_out *out)
{
	p->p_key = c->p_key;
	p->dest_qp = c->peer_qp;
	if (c->is_ee)
		rd_address(c, p);
	packet_write(c->port, &c->path, p, load, out);
	if (!c->is_ee && iba_form(p->opcode)->kind != IBA_KIND_ACK && p->opcode != IBA_CNP)
		out->ecn = IB_ECN_ECT0;
}
