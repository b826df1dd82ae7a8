/* SPDX-License-Identifier: BSD-2-Clause */
/* How the cluster stands: the messages inquire and report. Their face is wire/rio_msg.h. */
#include "wire/rio_parts.h"
#include "wire/rio_text.h"

/* Five numbers: what they are depends on whose they are. */
static void counters_decode(struct rio_seen *s, struct rd *r)
{
	uint64_t *const done[] = { &s->done.requests, &s->done.refused, &s->done.failed,
				   &s->done.read_bytes, &s->done.written_bytes };
	uint64_t *const moved[] = { &s->moved.payload_in, &s->moved.payload_out,
				    &s->moved.control_in, &s->moved.control_out,
				    &s->moved.connections };

	for (size_t i = 0; i < sizeof(done) / sizeof(done[0]); i++)
		*(s->kind == RIO_SEEN_OWNER ? moved[i] : done[i]) = rd_u64(r);
}

static enum rio_msg_err peer_decode(struct rio_seen *s, struct rd *r)
{
	size_t length;
	bool is_zero;

	s->now = rd_u32(r);
	counters_decode(s, r);
	length = rd_u16(r);
	is_zero = rio_take_zeros(r, 2);
	s->name = rio_take(r, length);
	is_zero = rio_take_padding(r, length) && is_zero;
	if (r->is_short)
		return RIO_MSG_ERR_SHORT;
	if (!is_zero)
		return RIO_MSG_ERR_RESERVED;
	return length > RIO_DEVICE_NAME_MAX || !rio_text_is_good(s->name.bytes, length)
		       ? RIO_MSG_ERR_TEXT
		       : RIO_MSG_OK;
}

enum rio_msg_err rio_seen_next(struct rio_seen *s, struct rd *r)
{
	struct rd at = *r;
	uint8_t kind = rd_u8(&at), here = rd_u8(&at);
	bool is_zero = rio_take_zeros(&at, 2);
	struct rio_seen v = { .kind = (enum rio_seen_kind)kind, .is_here = here == 1 };
	enum rio_msg_err err;

	v.platform = platform_decode(&at);
	if (at.is_short)
		return RIO_MSG_ERR_SHORT;
	if (kind < RIO_SEEN_REQUESTER || kind > RIO_SEEN_DEVICE || here > 1)
		return RIO_MSG_ERR_SEEN;
	if (!is_zero)
		return RIO_MSG_ERR_RESERVED;
	if (platform_is_none(v.platform))
		return RIO_MSG_ERR_UNIT;
	err = v.kind == RIO_SEEN_DEVICE ? rio_device_next(&v.device, &at) : peer_decode(&v, &at);
	if (err)
		return err;
	*s = v;
	*r = at;
	return RIO_MSG_OK;
}

enum rio_msg_err rio_inquire_decode(uint32_t *first, struct rd *r)
{
	bool is_zero;

	*first = rd_u32(r);
	is_zero = rio_take_zeros(r, RIO_WORD_BYTES);
	if (r->is_short)
		return RIO_MSG_ERR_SHORT;
	return is_zero ? RIO_MSG_OK : RIO_MSG_ERR_RESERVED;
}

/* As with devices: a count that is too high ends at the end of the message. */
enum rio_msg_err rio_report_decode(struct rio_report *v, struct rd *r)
{
	enum rio_msg_err err = RIO_MSG_OK;
	struct rio_seen each;

	v->total = rd_u32(r);
	v->count = rd_u32(r);
	if (r->is_short)
		return RIO_MSG_ERR_SHORT;
	v->entries.bytes = r->at;
	for (uint32_t i = 0; i < v->count && !err; i++)
		err = rio_seen_next(&each, r);
	v->entries.length = (size_t)(r->at - v->entries.bytes);
	if (err)
		return err;
	return v->count > v->total ? RIO_MSG_ERR_LENGTH : RIO_MSG_OK;
}

static void peer_encode(const struct rio_seen *s, struct wr *w)
{
	const uint64_t done[] = { s->done.requests, s->done.refused, s->done.failed,
				  s->done.read_bytes, s->done.written_bytes };
	const uint64_t moved[] = { s->moved.payload_in, s->moved.payload_out, s->moved.control_in,
				   s->moved.control_out, s->moved.connections };

	wr_u32(w, s->now);
	for (size_t i = 0; i < sizeof(done) / sizeof(done[0]); i++)
		wr_u64(w, s->kind == RIO_SEEN_OWNER ? moved[i] : done[i]);
	rio_put_text(w, s->name);
}

void rio_seen_put(const struct rio_seen *s, struct wr *w)
{
	struct wr at = *w;

	wr_u8(&at, (uint8_t)s->kind);
	wr_u8(&at, s->is_here);
	wr_u16(&at, 0);
	platform_encode(s->platform, &at);
	if (s->kind == RIO_SEEN_DEVICE)
		rio_device_put(&s->device, &at);
	else
		peer_encode(s, &at);
	if (at.is_short)
		w->is_short = true;
	else
		*w = at;
}

void rio_report_encode(const struct rio_report *v, struct wr *w)
{
	wr_u32(w, v->total);
	wr_u32(w, v->count);
	rio_put_bytes(w, v->entries);
}
