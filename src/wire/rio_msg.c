/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/rio_msg.h"

#include <string.h>

#include "base/check.h"
#include "wire/rio_parts.h"
#include "wire/rio_text.h"

enum {
	LENGTH_AT = 4,
	DATA_MAGIC = 0x5244 /* "RD" */
};

static const char *const type_names[RIO_MSG_TYPE_COUNT] = {
	[RIO_HELLO] = "hello",	     [RIO_WELCOME] = "welcome", [RIO_PROVE] = "prove",
	[RIO_REQUEST] = "request",   [RIO_COMMAND] = "command", [RIO_STATUS] = "status",
	[RIO_ANNOUNCE] = "announce", [RIO_GRANT] = "grant",	[RIO_DEVICES] = "devices",
	[RIO_REVOKE] = "revoke",     [RIO_CANCEL] = "cancel",	[RIO_PING] = "ping",
	[RIO_PONG] = "pong",	     [RIO_BYE] = "bye",		[RIO_NOTIFIED] = "notified",
	[RIO_INQUIRE] = "inquire",   [RIO_REPORT] = "report",
};

static bool is_type(unsigned int type)
{
	return type - 1 < RIO_MSG_TYPE_COUNT - 1;
}

const char *rio_msg_type_name(enum rio_msg_type type)
{
	return is_type(type) ? type_names[type] : "unknown message";
}

bool rio_msg_is_sealed(enum rio_msg_type type)
{
	return type > RIO_PROVE;
}

size_t rio_msg_sealed_bytes(enum rio_msg_type type, size_t length)
{
	return rio_msg_is_sealed(type) && length >= RIO_MSG_HEADER_BYTES + RIO_SEAL_BYTES
		       ? length - RIO_SEAL_BYTES
		       : 0;
}

/* ---- decoding: each takes a body; what is left over of it, rio_msg_decode refuses ------------ */

static enum rio_msg_err hello_decode(struct rio_hello *h, struct rd *r)
{
	uint8_t role;
	bool is_zero;

	h->platform = platform_decode(r);
	role = rd_u8(r);
	is_zero = rio_take_zeros(r, 3);
	rd_bytes(r, h->ephemeral, sizeof(h->ephemeral));
	rd_bytes(r, h->key, sizeof(h->key));
	h->term.number = rd_u64(r);
	h->term.incarnation = rd_u64(r);
	h->role = (enum rio_role)role;
	if (r->is_short)
		return RIO_MSG_ERR_SHORT;
	if (platform_is_none(h->platform))
		return RIO_MSG_ERR_UNIT;
	if (role < RIO_REQUESTER || role > RIO_FABRIC_PART)
		return RIO_MSG_ERR_ROLE;
	return is_zero ? RIO_MSG_OK : RIO_MSG_ERR_RESERVED;
}

static enum rio_msg_err welcome_decode(struct rio_welcome *v, struct rd *r)
{
	enum rio_msg_err err = hello_decode(&v->hello, r);

	v->requests_max = rd_u32(r);
	v->list_max = rd_u32(r);
	rd_bytes(r, v->signature, sizeof(v->signature));
	return r->is_short ? RIO_MSG_ERR_SHORT : err;
}

static enum rio_msg_err address_check(const struct rio_address *a)
{
	struct rd rest;

	if ((a->family != 4 && a->family != 6) || a->port == 0)
		return RIO_MSG_ERR_ADDRESS;
	rest = rd_of(a->ip + 4, a->family == 4 ? RIO_IP_BYTES - 4 : 0);
	return rio_take_zeros(&rest, rio_left(&rest)) ? RIO_MSG_OK : RIO_MSG_ERR_RESERVED;
}

static enum rio_msg_err prove_decode(struct rio_prove *p, struct rd *r)
{
	static const uint8_t nowhere[RIO_IP_BYTES];
	bool is_zero;

	rd_bytes(r, p->signature, sizeof(p->signature));
	p->address.port = rd_u16(r);
	is_zero = rio_take_zeros(r, 2);
	p->address.family = rd_u8(r);
	is_zero = rio_take_zeros(r, 3) && is_zero;
	rd_bytes(r, p->address.ip, sizeof(p->address.ip));
	if (r->is_short)
		return RIO_MSG_ERR_SHORT;
	if (!is_zero)
		return RIO_MSG_ERR_RESERVED;
	if (p->address.family == 0 && p->address.port == 0 &&
	    memcmp(p->address.ip, nowhere, sizeof(nowhere)) == 0)
		return RIO_MSG_OK;
	return address_check(&p->address);
}

/* The list is all that is left. */
static enum rio_msg_err request_decode(struct rio_request *q, uint32_t flags_known, struct rd *r)
{
	uint32_t flags;

	q->timeout_ms = rd_u32(r);
	flags = rd_u32(r);
	q->is_urgent = flags & RIO_COMMAND_URGENT;
	q->list = rio_take(r, rio_left(r));
	if (r->is_short)
		return RIO_MSG_ERR_SHORT;
	if (flags & ~flags_known)
		return RIO_MSG_ERR_RESERVED;
	return q->list.length == 0 || q->list.length % RIO_WORD_BYTES != 0 ? RIO_MSG_ERR_LIST
									   : RIO_MSG_OK;
}

static enum rio_msg_err command_decode(struct rio_request *q, struct rd *r)
{
	enum rio_msg_err err;

	q->requester = platform_decode(r);
	q->asked = rd_u64(r);
	err = request_decode(q, RIO_COMMAND_URGENT, r);
	if (err)
		return err;
	return platform_is_none(q->requester) ? RIO_MSG_ERR_UNIT : RIO_MSG_OK;
}

static enum rio_msg_err status_decode(struct rio_status *s, struct rd *r)
{
	size_t length;
	bool is_zero;

	s->reason = rd_u32(r);
	s->transaction = rd_u32(r);
	s->done_bytes = rd_u64(r);
	length = rd_u16(r);
	is_zero = rio_take_zeros(r, 2);
	if (length > RIO_TEXT_MAX)
		return RIO_MSG_ERR_TEXT;
	s->text = rio_take(r, length);
	is_zero = rio_take_padding(r, length) && is_zero;
	if (r->is_short)
		return RIO_MSG_ERR_SHORT;
	if (!rio_text_is_good(s->text.bytes, length))
		return RIO_MSG_ERR_TEXT;
	return is_zero ? RIO_MSG_OK : RIO_MSG_ERR_RESERVED;
}

struct rio_notified_entry rio_notified_next(struct rd *r)
{
	struct rio_notified_entry e;

	e.id = rd_u64(r);
	e.done_bytes = rd_u64(r);
	return e;
}

static enum rio_msg_err notified_decode(struct rio_notified *t, struct rd *r)
{
	bool is_zero;

	t->count = rd_u32(r);
	is_zero = rio_take_zeros(r, RIO_WORD_BYTES);
	t->entries = rio_take(r, rio_left(r));
	if (r->is_short)
		return RIO_MSG_ERR_SHORT;
	if (!is_zero)
		return RIO_MSG_ERR_RESERVED;
	return t->count > 0 && t->entries.length == (size_t)t->count * RIO_NOTIFIED_ENTRY_BYTES
		       ? RIO_MSG_OK
		       : RIO_MSG_ERR_LENGTH;
}

static bool is_block_size(uint32_t bytes)
{
	return bytes >= RIO_BLOCK_BYTES_MIN && bytes <= RIO_BLOCK_BYTES_MAX &&
	       (bytes & (bytes - 1)) == 0;
}

enum rio_msg_err rio_device_next(struct rio_device *d, struct rd *r)
{
	struct rd at = *r;
	struct rio_device v;
	size_t length;
	bool is_zero;

	v.number = rd_u32(&at);
	v.block_bytes = rd_u32(&at);
	v.size_bytes = rd_u64(&at);
	v.instance = rd_u64(&at);
	v.flags = rd_u32(&at);
	length = rd_u16(&at);
	is_zero = rio_take_zeros(&at, 2);
	v.name = rio_take(&at, length);
	is_zero = rio_take_padding(&at, length) && is_zero;
	if (at.is_short)
		return RIO_MSG_ERR_SHORT;
	if (!is_zero)
		return RIO_MSG_ERR_RESERVED;
	if (!is_block_size(v.block_bytes) || v.size_bytes % v.block_bytes != 0 ||
	    (v.flags & ~(uint32_t)RIO_DEVICE_FLAGS))
		return RIO_MSG_ERR_DEVICE;
	if (length == 0 || length > RIO_DEVICE_NAME_MAX || !rio_text_is_good(v.name.bytes, length))
		return RIO_MSG_ERR_TEXT;
	*d = v;
	*r = at;
	return RIO_MSG_OK;
}

/* A count that is too high ends at the end of the message. */
static enum rio_msg_err devices_decode(struct rio_devices *d, struct rd *r)
{
	struct rio_device each;
	enum rio_msg_err err = RIO_MSG_OK;
	bool is_zero;

	d->count = rd_u32(r);
	is_zero = rio_take_zeros(r, 4);
	d->entries.bytes = r->at;
	for (uint32_t i = 0; i < d->count && !err; i++)
		err = rio_device_next(&each, r);
	d->entries.length = (size_t)(r->at - d->entries.bytes);
	if (r->is_short || err)
		return r->is_short ? RIO_MSG_ERR_SHORT : err;
	return is_zero ? RIO_MSG_OK : RIO_MSG_ERR_RESERVED;
}

static enum rio_msg_err announce_decode(struct rio_announce *a, struct rd *r)
{
	enum rio_msg_err err;

	a->iounit = platform_decode(r);
	rd_bytes(r, a->token, sizeof(a->token));
	err = devices_decode(&a->devices, r);
	if (err)
		return err;
	return platform_is_none(a->iounit) ? RIO_MSG_ERR_UNIT : RIO_MSG_OK;
}

static enum rio_msg_err grant_decode(struct rio_grant *g, struct rd *r)
{
	bool is_zero;

	g->requester = platform_decode(r);
	rd_bytes(r, g->token, sizeof(g->token));
	g->address.family = rd_u8(r);
	is_zero = rio_take_zeros(r, 1);
	g->address.port = rd_u16(r);
	rd_bytes(r, g->address.ip, sizeof(g->address.ip));
	if (r->is_short)
		return RIO_MSG_ERR_SHORT;
	if (!is_zero)
		return RIO_MSG_ERR_RESERVED;
	if (platform_is_none(g->requester))
		return RIO_MSG_ERR_UNIT;
	return address_check(&g->address);
}

static enum rio_msg_err revoke_decode(struct platform *p, struct rd *r)
{
	*p = platform_decode(r);
	if (r->is_short)
		return RIO_MSG_ERR_SHORT;
	return platform_is_none(*p) ? RIO_MSG_ERR_UNIT : RIO_MSG_OK;
}

static enum rio_msg_err bye_decode(uint32_t *reason, struct rd *r)
{
	bool is_zero;

	*reason = rd_u32(r);
	is_zero = rio_take_zeros(r, 4);
	if (r->is_short)
		return RIO_MSG_ERR_SHORT;
	return is_zero ? RIO_MSG_OK : RIO_MSG_ERR_RESERVED;
}

static enum rio_msg_err body_decode(struct rio_msg *m, struct rd *r)
{
	switch (m->type) {
	case RIO_HELLO:
		return hello_decode(&m->hello, r);
	case RIO_WELCOME:
		return welcome_decode(&m->welcome, r);
	case RIO_PROVE:
		return prove_decode(&m->prove, r);
	case RIO_REQUEST:
		return request_decode(&m->request, 0, r);
	case RIO_COMMAND:
		return command_decode(&m->request, r);
	case RIO_STATUS:
		return status_decode(&m->status, r);
	case RIO_NOTIFIED:
		return notified_decode(&m->notified, r);
	case RIO_INQUIRE:
		return rio_inquire_decode(&m->inquire_first, r);
	case RIO_REPORT:
		return rio_report_decode(&m->report, r);
	case RIO_ANNOUNCE:
		return announce_decode(&m->announce, r);
	case RIO_GRANT:
		return grant_decode(&m->grant, r);
	case RIO_DEVICES:
		return devices_decode(&m->devices, r);
	case RIO_REVOKE:
		return revoke_decode(&m->revoked, r);
	case RIO_CANCEL:
	case RIO_PING:
	case RIO_PONG:
		return RIO_MSG_OK;
	case RIO_BYE:
		return bye_decode(&m->bye_reason, r);
	case RIO_MSG_TYPE_COUNT:
		break;
	}
	return RIO_MSG_ERR_TYPE;
}

static enum rio_msg_err header_decode(struct rio_msg *m, struct rd *r, size_t length)
{
	uint16_t magic = rd_u16(r);
	uint8_t version = rd_u8(r), type = rd_u8(r);
	uint32_t said = rd_u32(r);

	m->type = (enum rio_msg_type)type;
	m->sequence = rd_u64(r);
	m->id = rd_u64(r);
	if (r->is_short)
		return RIO_MSG_ERR_SHORT;
	if (magic != RIO_MSG_MAGIC)
		return RIO_MSG_ERR_MAGIC;
	if (version != RIO_MSG_VERSION)
		return RIO_MSG_ERR_VERSION;
	if (!is_type(type))
		return RIO_MSG_ERR_TYPE;
	if (said != length || length > RIO_MSG_BYTES_MAX)
		return RIO_MSG_ERR_LENGTH;
	return m->sequence == 0 ? RIO_MSG_ERR_SEQUENCE : RIO_MSG_OK;
}

enum rio_msg_err rio_msg_decode(struct rio_msg *m, const uint8_t *bytes, size_t length)
{
	struct rio_msg v = { 0 };
	struct rd r = rd_of(bytes, length);
	enum rio_msg_err err = header_decode(&v, &r, length);
	struct rd seal;

	if (err)
		return err;
	if (rio_msg_is_sealed(v.type)) {
		if (rio_left(&r) < RIO_SEAL_BYTES)
			return RIO_MSG_ERR_SHORT;
		r.end -= RIO_SEAL_BYTES;
		seal = rd_of(r.end, RIO_SEAL_BYTES);
		rd_bytes(&seal, v.seal, sizeof(v.seal));
	}
	err = body_decode(&v, &r);
	if (err)
		return err;
	if (rio_left(&r) != 0)
		return RIO_MSG_ERR_LENGTH;
	*m = v;
	return RIO_MSG_OK;
}

/* ---- encoding ------------------------------------------------------------------------------- */

static void hello_encode(const struct rio_hello *h, struct wr *w)
{
	platform_encode(h->platform, w);
	wr_u8(w, (uint8_t)h->role);
	rio_put_zeros(w, 3);
	wr_bytes(w, h->ephemeral, sizeof(h->ephemeral));
	wr_bytes(w, h->key, sizeof(h->key));
	wr_u64(w, h->term.number);
	wr_u64(w, h->term.incarnation);
}

static void welcome_encode(const struct rio_welcome *v, struct wr *w)
{
	hello_encode(&v->hello, w);
	wr_u32(w, v->requests_max);
	wr_u32(w, v->list_max);
	wr_bytes(w, v->signature, sizeof(v->signature));
}

static void prove_encode(const struct rio_prove *p, struct wr *w)
{
	wr_bytes(w, p->signature, sizeof(p->signature));
	wr_u16(w, p->address.port);
	wr_u16(w, 0);
	wr_u8(w, p->address.family);
	rio_put_zeros(w, 3);
	wr_bytes(w, p->address.ip, sizeof(p->address.ip));
}

static void request_encode(const struct rio_request *q, struct wr *w)
{
	wr_u32(w, q->timeout_ms);
	wr_u32(w, q->is_urgent ? RIO_COMMAND_URGENT : 0);
	rio_put_bytes(w, q->list);
}

static void status_encode(const struct rio_status *s, struct wr *w)
{
	wr_u32(w, s->reason);
	wr_u32(w, s->transaction);
	wr_u64(w, s->done_bytes);
	rio_put_text(w, s->text);
}

void rio_notified_put(const struct rio_notified_entry *e, struct wr *w)
{
	wr_u64(w, e->id);
	wr_u64(w, e->done_bytes);
}

void rio_device_put(const struct rio_device *d, struct wr *w)
{
	struct wr at = *w;

	wr_u32(&at, d->number);
	wr_u32(&at, d->block_bytes);
	wr_u64(&at, d->size_bytes);
	wr_u64(&at, d->instance);
	wr_u32(&at, d->flags);
	rio_put_text(&at, d->name);
	if (at.is_short)
		w->is_short = true;
	else
		*w = at;
}

static void devices_encode(const struct rio_devices *d, struct wr *w)
{
	wr_u32(w, d->count);
	wr_u32(w, 0);
	rio_put_bytes(w, d->entries);
}

static void announce_encode(const struct rio_announce *a, struct wr *w)
{
	platform_encode(a->iounit, w);
	wr_bytes(w, a->token, sizeof(a->token));
	devices_encode(&a->devices, w);
}

static void grant_encode(const struct rio_grant *g, struct wr *w)
{
	platform_encode(g->requester, w);
	wr_bytes(w, g->token, sizeof(g->token));
	wr_u8(w, g->address.family);
	wr_u8(w, 0);
	wr_u16(w, g->address.port);
	wr_bytes(w, g->address.ip, sizeof(g->address.ip));
}

static void body_encode(const struct rio_msg *m, struct wr *w)
{
	switch (m->type) {
	case RIO_HELLO:
		hello_encode(&m->hello, w);
		break;
	case RIO_WELCOME:
		welcome_encode(&m->welcome, w);
		break;
	case RIO_PROVE:
		prove_encode(&m->prove, w);
		break;
	case RIO_COMMAND:
		platform_encode(m->request.requester, w);
		wr_u64(w, m->request.asked);
		request_encode(&m->request, w);
		break;
	case RIO_REQUEST:
		request_encode(&m->request, w);
		break;
	case RIO_STATUS:
		status_encode(&m->status, w);
		break;
	case RIO_NOTIFIED:
		wr_u32(w, m->notified.count);
		wr_u32(w, 0);
		rio_put_bytes(w, m->notified.entries);
		break;
	case RIO_INQUIRE:
		wr_u32(w, m->inquire_first);
		wr_u32(w, 0);
		break;
	case RIO_REPORT:
		rio_report_encode(&m->report, w);
		break;
	case RIO_ANNOUNCE:
		announce_encode(&m->announce, w);
		break;
	case RIO_GRANT:
		grant_encode(&m->grant, w);
		break;
	case RIO_DEVICES:
		devices_encode(&m->devices, w);
		break;
	case RIO_REVOKE:
		platform_encode(m->revoked, w);
		break;
	case RIO_BYE:
		wr_u32(w, m->bye_reason);
		wr_u32(w, 0);
		break;
	case RIO_CANCEL:
	case RIO_PING:
	case RIO_PONG:
	case RIO_MSG_TYPE_COUNT:
		break;
	}
}

void rio_msg_encode(const struct rio_msg *m, struct wr *w)
{
	struct wr at = *w, length;
	uint8_t *start = w->at;

	if ((size_t)(at.end - at.at) > RIO_MSG_BYTES_MAX)
		at.end = at.at + RIO_MSG_BYTES_MAX;
	wr_u16(&at, RIO_MSG_MAGIC);
	wr_u8(&at, RIO_MSG_VERSION);
	wr_u8(&at, (uint8_t)m->type);
	wr_u32(&at, 0); /* the length, below */
	wr_u64(&at, m->sequence);
	wr_u64(&at, m->id);
	body_encode(m, &at);
	if (rio_msg_is_sealed(m->type))
		wr_bytes(&at, m->seal, sizeof(m->seal));
	if (at.is_short) {
		w->is_short = true;
		return;
	}
	length = wr_of(start + LENGTH_AT, sizeof(uint32_t));
	wr_u32(&length, (uint32_t)(at.at - start));
	w->at = at.at;
}

/* ---- data connections ----------------------------------------------------------------------- */

enum rio_msg_err rio_data_decode(struct rio_data *d, const uint8_t *bytes, size_t length)
{
	struct rd r = rd_of(bytes, length);
	uint16_t magic = rd_u16(&r);
	uint8_t version = rd_u8(&r), kind = rd_u8(&r);
	struct rio_data v = { .is_answer = kind == 1 };

	v.reason = rd_u32(&r);
	v.from = platform_decode(&r);
	v.to = platform_decode(&r);
	v.counter = rd_u64(&r);
	rd_bytes(&r, v.nonce, sizeof(v.nonce));
	rd_bytes(&r, v.seal, sizeof(v.seal));
	if (r.is_short)
		return RIO_MSG_ERR_SHORT;
	if (magic != DATA_MAGIC)
		return RIO_MSG_ERR_MAGIC;
	if (version != RIO_DATA_VERSION)
		return RIO_MSG_ERR_VERSION;
	if (kind > 1)
		return RIO_MSG_ERR_TYPE;
	if (rio_left(&r) != 0)
		return RIO_MSG_ERR_LENGTH;
	if (!v.is_answer && v.reason != 0)
		return RIO_MSG_ERR_ASK;
	if (platform_is_none(v.from) || platform_is_none(v.to))
		return RIO_MSG_ERR_UNIT;
	if (v.counter == 0)
		return RIO_MSG_ERR_SEQUENCE;
	*d = v;
	return RIO_MSG_OK;
}

void rio_data_encode(const struct rio_data *d, uint8_t bytes[RIO_DATA_BYTES])
{
	struct wr w = wr_of(bytes, RIO_DATA_BYTES);

	wr_u16(&w, DATA_MAGIC);
	wr_u8(&w, RIO_DATA_VERSION);
	wr_u8(&w, d->is_answer ? 1 : 0);
	wr_u32(&w, d->reason);
	platform_encode(d->from, &w);
	platform_encode(d->to, &w);
	wr_u64(&w, d->counter);
	wr_bytes(&w, d->nonce, sizeof(d->nonce));
	wr_bytes(&w, d->seal, sizeof(d->seal));
	CHECK(!w.is_short && w.at == w.end);
}
