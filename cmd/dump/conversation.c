/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/dump/conversation.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/*
 * What the receiver acknowledged, but the capture lacks, will not come any more. It may still come
 * late, as a capture of several queues is not quite in order; so some segments are let pass.
 */
enum { GAP_PATIENCE = 16, HELD_COUNT_MAX = 4096, HELD_BYTES_MAX = 1 << 24 };

/* ---- the table ------------------------------------------------------------------------------ */

static bool end_equal(const struct packet_end *a, const struct packet_end *b)
{
	return a->version == b->version && a->port == b->port &&
	       memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}

static uint32_t end_hash(const struct packet_end *e)
{
	uint32_t hash = 2166136261U; /* FNV-1a */

	for (size_t i = 0; i < sizeof(e->addr); i++)
		hash = (hash ^ e->addr[i]) * 16777619U;
	return (hash ^ e->port) * 16777619U;
}

/* The same for both directions. */
static struct conversation **bucket(struct conversations *all, const struct packet *p)
{
	uint32_t hash = end_hash(&p->from) + end_hash(&p->to);

	return &all->buckets[(hash ^ hash >> 16) % CONVERSATION_BUCKETS];
}

static struct conversation *find(struct conversations *all, const struct packet *p, int *from)
{
	struct conversation *c = *bucket(all, p);

	for (; c; c = c->chained) {
		for (*from = 0; *from < 2; ++*from) {
			if (end_equal(&c->ends[*from], &p->from) &&
			    end_equal(&c->ends[!*from], &p->to))
				return c;
		}
	}
	return NULL;
}

static struct conversation *create(struct conversations *all, const struct packet *p)
{
	struct conversation **at = bucket(all, p), *c = calloc(1, sizeof(*c));

	CHECK(c);
	c->ends[0] = p->from;
	c->ends[1] = p->to;
	c->chained = *at;
	*at = c;
	if (all->last)
		all->last->later = c;
	else
		all->first = c;
	all->last = c;
	all->other_count++;
	return c;
}

/* ---- one connection ------------------------------------------------------------------------- */

static void tell(struct conversations *all, struct conversation *c, const struct mpa_item *item)
{
	if (c->number == 0)
		c->number = ++all->numbered;
	all->tell(all->context, c, item);
}

static void tell_iscsi(struct conversations *all, struct conversation *c,
		       const struct iscsi_item *item)
{
	if (c->number == 0)
		c->number = ++all->numbered;
	all->tell_iscsi(all->context, c, item);
}

static bool is_known(const struct conversation *c)
{
	return c->mpa || c->iscsi;
}

static void pump_iscsi(struct conversations *all, struct conversation *c, int from)
{
	struct tcp_stream *s = &c->streams[from];
	struct rd ready = tcp_stream_ready(s);
	const uint8_t *begin = ready.at;
	struct iscsi_item item;

	while (iscsi_dissect_next(c->iscsi, from, &ready, &item))
		tell_iscsi(all, c, &item);
	tcp_stream_take(s, (size_t)(ready.at - begin));
}

/* Takes all items that the bytes of a side hold. */
static void pump(struct conversations *all, struct conversation *c, int from)
{
	struct tcp_stream *s = &c->streams[from];
	struct rd ready = tcp_stream_ready(s);
	const uint8_t *begin = ready.at;
	struct mpa_item item;

	if (c->iscsi) {
		pump_iscsi(all, c, from);
		return;
	}
	while (mpa_dissect_next(c->mpa, from, &ready, &item)) {
		if (item.kind == MPA_ITEM_START)
			c->initiator = item.start.is_reply ? !from : from;
		tell(all, c, &item);
	}
	tcp_stream_take(s, (size_t)(ready.at - begin));
}

/* What one side says may be what the bytes of the other have waited for. */
static void pump_both(struct conversations *all, struct conversation *c, int from)
{
	pump(all, c, from);
	pump(all, c, !from);
}

static void end_side(struct conversations *all, struct conversation *c, int from)
{
	struct rd ready = tcp_stream_ready(&c->streams[from]);
	struct iscsi_item iscsi_item;
	struct mpa_item item;

	if (c->is_ended[from])
		return;
	c->is_ended[from] = true;
	while (c->mpa && mpa_dissect_end(c->mpa, from, &ready, &item))
		tell(all, c, &item);
	if (c->iscsi && iscsi_dissect_end(c->iscsi, from, &ready, &iscsi_item))
		tell_iscsi(all, c, &iscsi_item);
	tcp_stream_take(&c->streams[from],
			(size_t)(ready.at - tcp_stream_ready(&c->streams[from]).at));
}

static void skip_gap(struct conversations *all, struct conversation *c, int from, uint32_t missing)
{
	struct iscsi_item iscsi_item;
	struct mpa_item item;

	if (c->mpa && mpa_dissect_gap(c->mpa, from, missing, &item))
		tell(all, c, &item);
	if (c->iscsi && iscsi_dissect_gap(c->iscsi, from, missing, &iscsi_item))
		tell_iscsi(all, c, &iscsi_item);
	tcp_stream_skip(&c->streams[from], missing);
	pump_both(all, c, from);
}

static bool is_hopeless(const struct tcp_stream *s)
{
	return s->held_count > HELD_COUNT_MAX || s->held_bytes > HELD_BYTES_MAX;
}

static uint32_t missing(const struct conversation *c, int from)
{
	const struct tcp_stream *s = &c->streams[from];

	return s->is_anchored ? tcp_stream_missing(s, c->has_acked[from] ? c->acked[from] : s->next)
			      : 0;
}

static void end_all(struct conversations *all, struct conversation *c)
{
	if (c->is_over)
		return;
	c->is_over = true;
	for (int from = 0; is_known(c) && from < 2; from++) {
		uint32_t gap;

		/* Each time the held pieces become fewer, or the end is reached. */
		while ((gap = missing(c, from)) > 0)
			skip_gap(all, c, from, gap);
	}
	for (int from = 0; from < 2; from++) {
		if (is_known(c))
			end_side(all, c, from);
		tcp_stream_fini(&c->streams[from]);
	}
}

/* Is the hole one that will not be filled? */
static void check_gap(struct conversations *all, struct conversation *c, int from)
{
	const struct tcp_stream *s = &c->streams[from];
	uint32_t gap = missing(c, from);
	bool is_acked = c->has_acked[from] && (int32_t)(c->acked[from] - (s->next + gap)) >= 0;

	if ((is_acked && s->held_count >= GAP_PATIENCE) || is_hopeless(s))
		skip_gap(all, c, from, gap);
}

/* A side that ended; but not while it waits for the other's start frame or login. */
static void check_end(struct conversations *all, struct conversation *c, int from)
{
	bool is_waiting = c->mpa ? c->mpa->sides[!from].state == MPA_SIDE_START
				 : c->iscsi->sides[from].is_waiting;

	if (c->streams[from].is_anchored && tcp_stream_is_over(&c->streams[from]) && !is_waiting)
		end_side(all, c, from);
}

/* ---- is it iWARP or iSCSI? ------------------------------------------------------------------ */

static void begin(struct conversations *all, struct conversation *c, int from,
		  const struct packet *p)
{
	all->other_count--;
	/* The other side's bytes up to here were something else, or before the capture. */
	if (!c->streams[!from].is_anchored && (p->flags & PACKET_ACK))
		tcp_stream_anchor(&c->streams[!from], p->ack);
}

static void begin_mpa(struct conversations *all, struct conversation *c, int from,
		      const struct packet *p)
{
	c->mpa = malloc(sizeof(*c->mpa));
	CHECK(c->mpa);
	mpa_dissect_init(c->mpa);
	all->mpa_count++;
	begin(all, c, from, p);
}

static void begin_iscsi(struct conversations *all, struct conversation *c, int from,
			const struct packet *p)
{
	c->iscsi = malloc(sizeof(*c->iscsi));
	CHECK(c->iscsi);
	c->initiator = p->to.port == all->iscsi_port ? from : !from;
	iscsi_dissect_init(c->iscsi, c->initiator);
	all->iscsi_count++;
	begin(all, c, from, p);
}

static bool is_iscsi_port(const struct conversations *all, const struct packet *p)
{
	return all->iscsi_port != 0 &&
	       (p->from.port == all->iscsi_port || p->to.port == all->iscsi_port);
}

/* Of a connection whose beginning the capture lacks: does a PDU begin here? */
static bool is_pdu(const struct conversations *all, const struct packet *p)
{
	enum iscsi_side sender = p->to.port == all->iscsi_port ? ISCSI_INITIATOR : ISCSI_TARGET;
	struct iscsi_pdu pdu;

	return iscsi_decode(&pdu, sender, p->data, ISCSI_DATA_MAX) == WEFT_OK;
}

static bool is_key(struct rd bytes)
{
	return bytes.end - bytes.at >= MPA_KEY_BYTES && mpa_dissect_is_start(bytes);
}

/* The connection is not known for either yet. */
static void look(struct conversations *all, struct conversation *c, int from,
		 const struct packet *p)
{
	struct tcp_stream *s = &c->streams[from];
	struct rd ready;

	if (s->is_anchored) {
		tcp_stream_add(s, p->seq, p->data);
		ready = tcp_stream_ready(s);
		if (is_key(ready)) {
			begin_mpa(all, c, from, p);
			return;
		}
		if (ready.at == ready.end && !is_hopeless(s))
			return;
		if (mpa_dissect_is_start(ready))
			return;
		if (is_iscsi_port(all, p) && ready.at < ready.end) {
			begin_iscsi(all, c, from, p);
			return;
		}
		tcp_stream_fini(s); /* it is something else */
	}
	if (is_key(p->data)) {
		tcp_stream_anchor(s, p->seq);
		tcp_stream_add(s, p->seq, p->data);
		begin_mpa(all, c, from, p);
	} else if (is_iscsi_port(all, p) && is_pdu(all, p)) {
		tcp_stream_anchor(s, p->seq);
		tcp_stream_add(s, p->seq, p->data);
		begin_iscsi(all, c, from, p);
	}
}

/* ---- packets -------------------------------------------------------------------------------- */

/* A SYN: the first of a connection, the same again, or a new connection between the same ends. */
static struct conversation *take_syn(struct conversations *all, struct conversation *c, int *from,
				     const struct packet *p)
{
	if (c->has_syn[*from] && c->syn[*from] == p->seq)
		return c;
	if (c->has_syn[*from] || is_known(c) || c->is_over) {
		if (p->flags & PACKET_ACK)
			return c; /* an answer to nothing */
		end_all(all, c);
		c = create(all, p); /* found before the old one from now on */
		*from = 0;
	}
	c->has_syn[*from] = true;
	c->syn[*from] = p->seq;
	tcp_stream_anchor(&c->streams[*from], p->seq + 1);
	return c;
}

static void take_ack(struct conversation *c, int from, const struct packet *p)
{
	int to = !from;

	if (c->has_acked[to] && (int32_t)(p->ack - c->acked[to]) <= 0)
		return;
	c->has_acked[to] = true;
	c->acked[to] = p->ack;
}

void conversations_take(struct conversations *all, const struct packet *p)
{
	uint32_t bytes = (uint32_t)(p->data.end - p->data.at) + p->lacks_bytes;
	int from = 0;
	struct conversation *c = find(all, p, &from);

	if (!c) {
		c = create(all, p);
		from = 0;
	}
	if (p->flags & PACKET_SYN)
		c = take_syn(all, c, &from, p);
	if (c->is_over)
		return;
	if (p->flags & PACKET_RST) {
		end_all(all, c);
		return;
	}
	if (p->flags & PACKET_ACK)
		take_ack(c, from, p);
	if (!is_known(c) && !(p->flags & PACKET_SYN))
		look(all, c, from, p);
	else if (c->streams[from].is_anchored)
		tcp_stream_add(&c->streams[from], p->seq + !!(p->flags & PACKET_SYN), p->data);
	if ((p->flags & PACKET_FIN) && c->streams[from].is_anchored)
		tcp_stream_add_fin(&c->streams[from], p->seq + bytes);
	if (!is_known(c))
		return;
	pump_both(all, c, from);
	for (int i = 0; i < 2; i++) {
		check_gap(all, c, i);
		check_end(all, c, i);
	}
}

void conversations_end(struct conversations *all)
{
	for (struct conversation *c = all->first; c; c = c->later)
		end_all(all, c);
}

void conversations_fini(struct conversations *all)
{
	while (all->first) {
		struct conversation *c = all->first;

		all->first = c->later;
		for (int i = 0; i < 2; i++)
			tcp_stream_fini(&c->streams[i]);
		free(c->mpa);
		free(c->iscsi);
		free(c);
	}
}
