/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/push_msg.h"

#include "base/check.h"
#include "wire/push_parts.h"

static const char *const function_names[PUSH_FUNCTION_COUNT] = {
	[PUSH_RECV_POOL] = "BufferRecvPool",
	[PUSH_RECV_POOL_GET] = "BufferRecvPoolGet",
	[PUSH_RECV_POOL_UPDATE] = "BufferRecvPoolUpdate",
	[PUSH_FLUSH_REQUEST] = "BufferPoolFlushRequest",
	[PUSH_FLUSH_REPLY] = "BufferPoolFlushReply",
	[PUSH_SEND_DATA] = "SendData",
	[PUSH_RDMA_INDICATE] = "BufferRDMAIndicate",
	[PUSH_CFG_REQUEST] = "CfgUtilRequest",
	[PUSH_CFG_REPLY] = "CfgUtilReply",
	[PUSH_RELEASE_REQUEST] = "BufferPoolFlushRequest of the initiator",
	[PUSH_PULL] = "BufferPull",
};

const char *push_function_name(enum push_function function)
{
	return (unsigned int)function - 1 < PUSH_FUNCTION_COUNT - 1 ? function_names[function]
								    : "unknown function";
}

/* ---- Entries -------------------------------------------------------------------------------- */

struct push_pool push_pool_next(struct rd *r)
{
	struct push_pool p;

	p.index = rd_u32(r);
	p.handle = rd_u32(r);
	p.elements = rd_u32(r);
	p.element_bytes = rd_u32(r);
	p.address = rd_u64(r);
	p.context = rd_u64(r);
	return p;
}

void push_pool_put(const struct push_pool *p, struct wr *w)
{
	wr_u32(w, p->index);
	wr_u32(w, p->handle);
	wr_u32(w, p->elements);
	wr_u32(w, p->element_bytes);
	wr_u64(w, p->address);
	wr_u64(w, p->context);
}

struct push_run push_run_next(struct rd *r)
{
	struct push_run v;

	v.pool = rd_u32(r);
	v.first = rd_u32(r);
	v.count = rd_u32(r);
	return v;
}

void push_run_put(const struct push_run *v, struct wr *w)
{
	wr_u32(w, v->pool);
	wr_u32(w, v->first);
	wr_u32(w, v->count);
}

struct push_used push_used_next(struct rd *r)
{
	struct push_used u;

	u.pool = rd_u32(r);
	u.element = rd_u32(r);
	u.element_bytes = rd_u32(r);
	u.bytes = rd_u32(r);
	return u;
}

void push_used_put(const struct push_used *u, struct wr *w)
{
	wr_u32(w, u->pool);
	wr_u32(w, u->element);
	wr_u32(w, u->element_bytes);
	wr_u32(w, u->bytes);
}

uint32_t push_reference_next(struct rd *r)
{
	return rd_u32(r);
}

void push_reference_put(uint32_t pool, struct wr *w)
{
	wr_u32(w, pool);
}

/* The last byte of the pool is at an address, and the array is no longer than 4 GiB. */
static bool pool_is_good(const struct push_pool *p)
{
	uint64_t bytes = (uint64_t)p->elements * p->element_bytes;

	return bytes > 0 && bytes <= UINT32_MAX && p->address <= UINT64_MAX - bytes;
}

static bool run_is_good(const struct push_run *v)
{
	return v->count > 0 && v->first <= UINT32_MAX - v->count;
}

/* One entry of a message with this function. */
static bool entry_is_good(enum push_function function, struct rd *r)
{
	struct push_pool pool;
	struct push_used used;
	struct push_run run;

	switch (function) {
	case PUSH_RECV_POOL:
		pool = push_pool_next(r);
		return pool_is_good(&pool);
	case PUSH_RECV_POOL_UPDATE:
		run = push_run_next(r);
		return run_is_good(&run);
	case PUSH_RDMA_INDICATE:
		used = push_used_next(r);
		return used.element_bytes > 0 && used.bytes > 0;
	default:
		(void)push_reference_next(r);
		return true;
	}
}

static enum weft_reason entries_check(enum push_function function, const struct push_entries *e,
				      size_t length)
{
	struct rd r = rd_of(e->bytes, length);
	bool is_good = true;

	for (uint32_t i = 0; i < e->count; i++)
		is_good = entry_is_good(function, &r) && is_good;
	return is_good ? WEFT_OK : WEFT_R_PUSH_FORM;
}

static uint32_t entry_bytes(enum push_function function)
{
	switch (function) {
	case PUSH_RECV_POOL:
		return PUSH_POOL_BYTES;
	case PUSH_RECV_POOL_UPDATE:
		return PUSH_RUN_BYTES;
	case PUSH_RDMA_INDICATE:
		return PUSH_USED_BYTES;
	default:
		return PUSH_REFERENCE_BYTES;
	}
}

/* The references of a flush have no count: D2 draws it so. */
static bool has_count(enum push_function function)
{
	return function != PUSH_FLUSH_REQUEST && function != PUSH_RELEASE_REQUEST;
}

/* ---- Decoding ------------------------------------------------------------------------------- */

static enum weft_reason entries_decode(enum push_function function, struct push_entries *e,
				       struct rd *r)
{
	uint32_t each = entry_bytes(function), count = has_count(function) ? rd_u32(r) : 0;
	size_t length = (size_t)(r->end - r->at);

	if (r->is_short)
		return WEFT_R_PUSH_SHORT;
	if (!has_count(function))
		count = (uint32_t)(length / each);
	if (count == 0 || length != (uint64_t)count * each)
		return WEFT_R_PUSH_LENGTH;
	*e = (struct push_entries){ .count = count, .bytes = r->at };
	r->at = r->end;
	return entries_check(function, e, length);
}

static enum weft_reason data_decode(struct push_data *d, struct rd *r)
{
	d->length = rd_u32(r);
	if (r->is_short || (size_t)(r->end - r->at) < d->length)
		return WEFT_R_PUSH_SHORT;
	d->bytes = r->at;
	r->at += d->length;
	return d->length > 0 ? WEFT_OK : WEFT_R_PUSH_LENGTH;
}

static enum weft_reason get_decode(struct push_get *g, struct rd *r)
{
	g->packet_bytes = rd_u32(r);
	g->packets = rd_u32(r);
	if (r->is_short)
		return WEFT_R_PUSH_SHORT;
	return g->packet_bytes > 0 && g->packets > 0 ? WEFT_OK : WEFT_R_PUSH_FORM;
}

static enum weft_reason pull_decode(struct push_run *v, struct rd *r)
{
	*v = push_run_next(r);
	if (r->is_short)
		return WEFT_R_PUSH_SHORT;
	return run_is_good(v) ? WEFT_OK : WEFT_R_PUSH_FORM;
}

static enum weft_reason body_decode(struct push_msg *m, struct rd *r)
{
	switch (m->function) {
	case PUSH_RECV_POOL:
	case PUSH_RECV_POOL_UPDATE:
	case PUSH_RDMA_INDICATE:
	case PUSH_FLUSH_REQUEST:
	case PUSH_RELEASE_REQUEST:
		return entries_decode(m->function, &m->pools, r);
	case PUSH_RECV_POOL_GET:
		return get_decode(&m->get, r);
	case PUSH_SEND_DATA:
		return data_decode(&m->data, r);
	case PUSH_CFG_REQUEST:
	case PUSH_CFG_REPLY:
		return push_cfg_decode(&m->cfg, m->function == PUSH_CFG_REPLY, r);
	case PUSH_PULL:
		return pull_decode(&m->pull, r);
	case PUSH_FLUSH_REPLY:
	case PUSH_FUNCTION_COUNT:
		break;
	}
	return WEFT_OK;
}

enum weft_reason push_msg_decode(struct push_msg *m, const uint8_t *bytes, size_t length)
{
	struct rd r = rd_of(bytes, length);
	uint16_t function = rd_u16(&r), version = rd_u16(&r);
	struct push_msg v = { .function = (enum push_function)function };
	enum weft_reason reason;

	v.context = rd_u64(&r);
	if (r.is_short)
		return WEFT_R_PUSH_SHORT;
	m->function = v.function;
	m->context = v.context;
	if (version != PUSH_VERSION)
		return WEFT_R_PUSH_VERSION;
	if (function == 0 || function >= PUSH_FUNCTION_COUNT)
		return WEFT_R_PUSH_FUNCTION;
	if (length > PUSH_MSG_BYTES_MAX)
		return WEFT_R_PUSH_LENGTH;
	reason = body_decode(&v, &r);
	if (reason != WEFT_OK)
		return reason;
	if (r.at != r.end)
		return WEFT_R_PUSH_LENGTH;
	*m = v;
	return WEFT_OK;
}

/* ---- Encoding ------------------------------------------------------------------------------- */

static void body_encode(const struct push_msg *m, struct wr *w)
{
	switch (m->function) {
	case PUSH_RECV_POOL:
	case PUSH_RECV_POOL_UPDATE:
	case PUSH_RDMA_INDICATE:
	case PUSH_FLUSH_REQUEST:
	case PUSH_RELEASE_REQUEST:
		if (has_count(m->function))
			wr_u32(w, m->pools.count);
		wr_bytes(w, m->pools.bytes, (size_t)m->pools.count * entry_bytes(m->function));
		break;
	case PUSH_RECV_POOL_GET:
		wr_u32(w, m->get.packet_bytes);
		wr_u32(w, m->get.packets);
		break;
	case PUSH_SEND_DATA:
		wr_u32(w, m->data.length);
		wr_bytes(w, m->data.bytes, m->data.length);
		break;
	case PUSH_CFG_REQUEST:
	case PUSH_CFG_REPLY:
		push_cfg_encode(&m->cfg, m->function == PUSH_CFG_REPLY, w);
		break;
	case PUSH_PULL:
		push_run_put(&m->pull, w);
		break;
	case PUSH_FLUSH_REPLY:
	case PUSH_FUNCTION_COUNT:
		break;
	}
}

void push_msg_encode(const struct push_msg *m, struct wr *w)
{
	size_t room = (size_t)(w->end - w->at);
	struct wr at = wr_of(w->at, room < PUSH_MSG_BYTES_MAX ? room : PUSH_MSG_BYTES_MAX);

	wr_u16(&at, (uint16_t)m->function);
	wr_u16(&at, PUSH_VERSION);
	wr_u64(&at, m->context);
	body_encode(m, &at);
	if (at.is_short)
		w->is_short = true;
	else
		w->at = at.at;
}

/* ---- Immediate data ------------------------------------------------------------------------- */

uint32_t push_immediate_encode(const struct push_immediate *i)
{
	CHECK(i->pool < PUSH_IMMEDIATE_POOLS && i->element < PUSH_IMMEDIATE_ELEMENTS);
	CHECK(i->element_bytes > 0 && i->element_bytes <= PUSH_IMMEDIATE_BYTES);
	return i->pool << 24 | i->element << 16 | (i->element_bytes & 0xffff);
}

struct push_immediate push_immediate_decode(uint32_t word)
{
	uint32_t bytes = word & 0xffff;

	return (struct push_immediate){ .pool = word >> 24,
					.element = word >> 16 & 0xff,
					.element_bytes = bytes ? bytes : PUSH_IMMEDIATE_BYTES };
}
