/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/trunk.h"

#include "base/cursor.h"
#include "wire/iba_frame.h"

enum { FRAME_FLITS = (IBA_FRAME_MAX + FLIT_DATA - 1) / FLIT_DATA };

enum { LAST = 1 };			       /* flags of RUN */
enum { WANTS = 1, DAMAGES = 2, LINK_ALL = 3 }; /* of LINK */
enum { MTU_MAX = 5, LANE_CAP_MAX = 5 };	       /* of LINK: as in PortInfo, which tells it on */
enum { RESEND = 1, ANSWER = 2, ACK_ALL = 3 };  /* of ACK */

/* ---- Encoding ------------------------------------------------------------------------------- */

static void link_put(struct wr *w, const struct trunk_link *l)
{
	wr_u32(w, l->life);
	wr_u32(w, l->seen);
	wr_u8(w, (uint8_t)((l->wants ? WANTS : 0) | (l->damages ? DAMAGES : 0)));
	wr_u8(w, l->widths);
	wr_u8(w, l->speeds);
	wr_u8(w, l->mtu);
	wr_u8(w, l->lanes);
}

static void run_put(struct wr *w, const struct trunk_run *r)
{
	wr_u8(w, r->is_last ? LAST : 0);
	wr_u8(w, r->lane);
	wr_u8(w, r->credit_lane);
	wr_u8(w, r->hops);
	wr_u16(w, r->sequence);
	wr_u16(w, r->limits[r->credit_lane]);
	wr_u16(w, r->index);
	wr_u16(w, r->length);
	wr_bytes(w, r->data, r->length);
}

static void ack_put(struct wr *w, const struct trunk_run *r)
{
	wr_u8(w, (uint8_t)((r->wants_resend ? RESEND : 0) | (r->wants_ack ? ANSWER : 0)));
	wr_u16(w, r->sequence);
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++)
		wr_u16(w, r->limits[lane]);
}

static void port_put(struct wr *w, const struct trunk_port *p)
{
	wr_u64(w, p->serial);
	wr_u8(w, p->port);
	sm_attribute_put(w, SM_PORT_INFO, &p->info);
	sm_attribute_put(w, SM_GUID_INFO, &p->guids);
	sm_attribute_put(w, SM_PKEY_TABLE, &p->pkeys);
}

size_t trunk_encode(const struct trunk_message *m, uint8_t *bytes, size_t room)
{
	struct wr w = wr_of(bytes, room);

	wr_u8(&w, (uint8_t)m->kind);
	if (m->kind == TRUNK_HELLO) {
		wr_u8(&w, TRUNK_VERSION);
		wr_bytes(&w, m->digest, sizeof(m->digest));
	} else if (m->kind != TRUNK_ALIVE) {
		wr_u32(&w, m->cable);
	}
	if (m->kind == TRUNK_LINK)
		link_put(&w, &m->link);
	else if (m->kind == TRUNK_RUN)
		run_put(&w, &m->run);
	else if (m->kind == TRUNK_ACK)
		ack_put(&w, &m->run);
	else if (m->kind == TRUNK_PORT)
		port_put(&w, &m->port);
	return w.is_short ? 0 : (size_t)(w.at - bytes);
}

/* ---- Decoding ------------------------------------------------------------------------------- */

static bool link_get(struct rd *r, struct trunk_link *l)
{
	uint8_t flags;

	l->life = rd_u32(r);
	l->seen = rd_u32(r);
	flags = rd_u8(r);
	l->wants = flags & WANTS;
	l->damages = flags & DAMAGES;
	l->widths = rd_u8(r);
	l->speeds = rd_u8(r);
	l->mtu = rd_u8(r);
	l->lanes = rd_u8(r);
	return l->life > 0 && flags <= LINK_ALL && l->mtu > 0 && l->mtu <= MTU_MAX &&
	       l->lanes > 0 && l->lanes <= LANE_CAP_MAX;
}

/* Whole flits, of which only a frame's last may be short, and no more than a frame has. */
static bool is_run_good(const struct trunk_run *r)
{
	uint32_t flits = flits_of(r->length);

	return r->lane < FLIT_LANES && r->credit_lane < FLIT_LANES && r->length > 0 &&
	       (uint32_t)r->index + flits <= FRAME_FLITS &&
	       (uint32_t)r->index * FLIT_DATA + r->length <= IBA_FRAME_MAX &&
	       (r->is_last || r->length % FLIT_DATA == 0);
}

static bool run_get(struct rd *from, struct trunk_run *r)
{
	uint8_t flags = rd_u8(from);
	uint16_t limit;

	r->is_last = flags & LAST;
	r->lane = rd_u8(from);
	r->credit_lane = rd_u8(from);
	r->hops = rd_u8(from);
	r->sequence = rd_u16(from);
	limit = rd_u16(from);
	r->index = rd_u16(from);
	r->length = rd_u16(from);
	r->data = from->at;
	if (flags > LAST || !is_run_good(r) || (size_t)(from->end - from->at) < r->length)
		return false;
	r->limits[r->credit_lane] = limit;
	from->at += r->length;
	return true;
}

static bool ack_get(struct rd *from, struct trunk_run *r)
{
	uint8_t flags = rd_u8(from);

	r->wants_resend = flags & RESEND;
	r->wants_ack = flags & ANSWER;
	r->sequence = rd_u16(from);
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++)
		r->limits[lane] = rd_u16(from);
	return flags <= ACK_ALL;
}

static bool port_get(struct rd *r, struct trunk_port *p)
{
	p->serial = rd_u64(r);
	p->port = rd_u8(r);
	return p->serial > 0 && sm_attribute_get(r, SM_PORT_INFO, &p->info) &&
	       sm_attribute_get(r, SM_GUID_INFO, &p->guids) &&
	       sm_attribute_get(r, SM_PKEY_TABLE, &p->pkeys);
}

static bool message_get(struct rd *r, struct trunk_message *m)
{
	m->kind = rd_u8(r);
	if (m->kind == TRUNK_HELLO) {
		uint8_t version = rd_u8(r);

		rd_bytes(r, m->digest, sizeof(m->digest));
		return version == TRUNK_VERSION;
	}
	if (m->kind == TRUNK_ALIVE)
		return true;
	m->cable = rd_u32(r);
	switch (m->kind) {
	case TRUNK_LINK:
		return link_get(r, &m->link);
	case TRUNK_RUN:
		return run_get(r, &m->run);
	case TRUNK_ACK:
		return ack_get(r, &m->run);
	case TRUNK_PORT:
		return port_get(r, &m->port);
	case TRUNK_HELLO:
	case TRUNK_ALIVE:
	default:
		return false;
	}
}

enum weft_reason trunk_decode(struct trunk_message *m, const uint8_t *bytes, size_t length,
			      size_t *used)
{
	struct trunk_message v = { .cable = 0 };
	struct rd r = rd_of(bytes, length);

	if (!message_get(&r, &v) || r.is_short)
		return WEFT_R_TRUNK_FORM;
	*m = v;
	*used = (size_t)(r.at - bytes);
	return WEFT_OK;
}
