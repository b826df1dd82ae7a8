/* SPDX-License-Identifier: BSD-2-Clause */
/* What came from the other end: messages, indications, packets. */
#include "push/link_inside.h"

/* PUSH-16f: a packet in a message. */
static enum weft_reason take_data(struct push_link *l, const struct push_data *d)
{
	if (!link_length_is_good(l, d->length, false))
		return WEFT_R_PUSH_FRAME;
	l->inlined = *d;
	l->counts.packets_in++;
	l->counts.bytes_in += d->length;
	return WEFT_OK;
}

/* PUSH-16b: the owner may open a pool; elements that are ready go at once. */
static enum weft_reason take_get(struct push_link *l, const struct push_get *g)
{
	l->asked_pools = *g;
	l->is_asked_pools = true;
	l->is_update_due = true;
	return WEFT_OK;
}

/* One context is a flush request of this end as target, or as initiator; both count the same. */
static enum weft_reason take_flush_reply(struct push_link *l, uint64_t context)
{
	enum weft_reason reason = own_take_reply(l, context);

	return reason == WEFT_OK ? WEFT_OK : peer_take_reply(l, context);
}

/* Everything about pools is of RDMA mode; only configuration goes before the greeting is over. */
static enum weft_reason msg_check(const struct push_link *l, enum push_function function)
{
	if (function == PUSH_CFG_REQUEST || function == PUSH_CFG_REPLY)
		return WEFT_OK;
	if (!link_is_live(l))
		return WEFT_R_PUSH_UNEXPECTED;
	if (!link_is_rdma(l))
		return WEFT_R_PUSH_MODE;
	if ((function == PUSH_PULL && !l->config.hello.is_pull) ||
	    (function == PUSH_RECV_POOL_UPDATE && l->config.hello.is_pull))
		return WEFT_R_PUSH_UNEXPECTED;
	return WEFT_OK;
}

static enum weft_reason msg_take(struct push_link *l, const struct push_msg *m)
{
	switch (m->function) {
	case PUSH_RECV_POOL:
		return peer_take_pools(l, &m->pools);
	case PUSH_RECV_POOL_GET:
		return take_get(l, &m->get);
	case PUSH_RECV_POOL_UPDATE:
		return peer_take_runs(l, &m->runs);
	case PUSH_FLUSH_REQUEST:
		return peer_take_flush(l, m);
	case PUSH_RELEASE_REQUEST:
		return own_take_release(l, m);
	case PUSH_FLUSH_REPLY:
		return take_flush_reply(l, m->context);
	case PUSH_SEND_DATA:
		return take_data(l, &m->data);
	case PUSH_RDMA_INDICATE:
		return own_take_indicate(l, &m->used);
	case PUSH_CFG_REQUEST:
		return cfg_take_request(l, m);
	case PUSH_CFG_REPLY:
		return cfg_take_reply(l, m);
	case PUSH_PULL:
		return peer_take_pull(l, &m->pull);
	case PUSH_FUNCTION_COUNT:
		break;
	}
	return WEFT_R_PUSH_FUNCTION;
}

enum weft_reason push_take(struct push_link *l, const uint8_t *bytes, size_t length,
			   uint64_t now_ns)
{
	struct push_msg m = { 0 };
	enum weft_reason reason;

	l->inlined.length = 0;
	if (l->state == PUSH_DOWN || l->state == PUSH_ENDED || l->is_lost)
		return WEFT_R_PUSH_STATE;
	l->heard_ns = now_ns;
	l->counts.messages_in++;
	reason = push_msg_decode(&m, bytes, length);
	if (reason != WEFT_OK && m.function == PUSH_CFG_REQUEST && reason != WEFT_R_PUSH_VERSION)
		cfg_refuse(l, m.context, reason);
	if (reason == WEFT_OK)
		reason = msg_check(l, m.function);
	if (reason == WEFT_OK)
		reason = msg_take(l, &m);
	return reason == WEFT_OK ? WEFT_OK : link_refuse(l, reason);
}

enum weft_reason push_written(struct push_link *l, uint32_t immediate, uint32_t bytes,
			      uint64_t now_ns)
{
	const struct push_immediate i = push_immediate_decode(immediate);
	const struct push_used used = { i.pool, i.element, i.element_bytes, bytes };
	enum weft_reason reason;

	if (!link_is_live(l))
		return link_refuse(l, WEFT_R_PUSH_STATE);
	l->heard_ns = now_ns;
	reason = link_is_rdma(l) ? own_written(l, &used, true) : WEFT_R_PUSH_MODE;
	return reason == WEFT_OK ? WEFT_OK : link_refuse(l, reason);
}

enum weft_reason push_take_packet(struct push_link *l, const uint8_t *bytes, size_t length,
				  uint64_t now_ns)
{
	l->inlined.length = 0;
	if (!link_is_live(l) && (link_is_rdma(l) || l->state != PUSH_GREETING))
		return link_refuse(l, WEFT_R_PUSH_STATE);
	if (link_is_rdma(l))
		return link_refuse(l, WEFT_R_PUSH_MODE);
	/*
	 * Packets overtake what is said on channel 0 of the greeting and the MTU, so they are no
	 * breach of the rules.
	 */
	if (!link_is_live(l) || !link_length_is_good(l, length, false)) {
		l->counts.refused++;
		l->refused_for = link_is_live(l) ? WEFT_R_PUSH_FRAME : WEFT_R_PUSH_STATE;
		return l->refused_for;
	}
	l->heard_ns = now_ns;
	l->inlined = (struct push_data){ .bytes = bytes, .length = (uint32_t)length };
	l->counts.packets_in++;
	l->counts.bytes_in += length;
	return WEFT_OK;
}
