/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IBA 9.7.4.1.1 lets a responder drop what comes behind a lost packet. A requester that resends the
 * lost packet alone then has to resend the rest as well; so the rest is kept:
 *
 *	   psn                       high
 *	    |                         |
 *	    [lost]=====kept=====[lost]=]
 *
 * A forger who knows the queue pair but not the PSN must not get a packet in. So one is kept only
 * if it is at most IB_EARLY_GAP behind the highest kept one, as the true peer's are: to guess such
 * a PSN is about as hard as to guess the expected one.
 */
#include "ib/rc_early.h"

#include <stdlib.h>
#include <string.h>

#include "ib/conn.h"
#include "ib/port.h"
#include "wire/iba_psn.h"

/* ---- Memory --------------------------------------------------------------------------------- */

bool early_pool_init(struct early_pool *pool, uint32_t packets_max)
{
	*pool = (struct early_pool){ .packets_max = packets_max };
	if (packets_max == 0)
		return true;
	pool->packets = calloc(packets_max, sizeof(*pool->packets));
	pool->lists = calloc(IB_EARLY_LISTS, sizeof(*pool->lists));
	return pool->packets && pool->lists;
}

void early_pool_fini(struct early_pool *pool)
{
	free(pool->packets);
	free(pool->lists);
}

static struct early_packet *packet_borrow(struct early_pool *pool)
{
	struct early_packet *e = pool->packets_free;

	if (e)
		pool->packets_free = e->next;
	else if (pool->packets_fresh < pool->packets_max)
		e = &pool->packets[pool->packets_fresh++];
	return e;
}

void rc_early_free(struct ib_port *port, struct early_packet *e)
{
	e->next = port->early.packets_free;
	port->early.packets_free = e;
}

static struct early_list *list_borrow(struct early_pool *pool)
{
	struct early_list *l = pool->lists_free;

	if (l)
		pool->lists_free = l->next;
	else if (pool->packets_max > 0 && pool->lists_fresh < IB_EARLY_LISTS)
		l = &pool->lists[pool->lists_fresh++];
	return l;
}

static void list_return(struct ib_conn *c)
{
	struct early_list *l = c->resp.early;

	l->next = c->port->early.lists_free;
	c->port->early.lists_free = l;
	c->resp.early = NULL;
}

/* ---- Packets -------------------------------------------------------------------------------- */

static struct early_packet **place_of(struct early_list *l, uint32_t psn)
{
	return &l->packets[psn % IB_EARLY_MAX];
}

/* A Read's answer would go out again when the peer goes back and asks for it again: not kept. */
static bool is_kind_kept(const struct ib_conn *c, const struct iba_packet *p)
{
	uint8_t kind = iba_form(p->opcode)->kind;

	return conn_can_wait(c) && p->run == 0 && p->payload_bytes <= c->path.mtu_bytes &&
	       (kind == IBA_KIND_SEND || kind == IBA_KIND_WRITE);
}

/* Whether the peer will send again all that comes now: it waits for a receive, or has failed. */
static bool is_all_repeated(const struct responder *r)
{
	return r->refusal != WEFT_OK ||
	       (r->is_deaf && r->nak != iba_syndrome_nak(IBA_NAK_SEQUENCE));
}

bool rc_early_keep(struct ib_conn *c, const struct iba_packet *p)
{
	struct responder *r = &c->resp;
	uint32_t high = r->early ? r->early->high : r->psn;
	struct early_packet *e;

	if (!is_kind_kept(c, p) || is_all_repeated(r) ||
	    iba_psn_distance(r->psn, p->psn) >= IB_EARLY_MAX ||
	    iba_psn_diff(p->psn, high) > IB_EARLY_GAP || (r->early && *place_of(r->early, p->psn)))
		return false;
	if (!r->early) {
		r->early = list_borrow(&c->port->early);
		if (!r->early)
			return false;
		r->early->base = r->early->high = r->psn;
	}
	e = packet_borrow(&c->port->early);
	if (!e) {
		if (r->early->count == 0)
			list_return(c);
		return false;
	}
	e->p = *p;
	e->p.payload = e->payload;
	memcpy(e->payload, p->payload, p->payload_bytes);
	count_copied(c->port, r->qp, p->payload_bytes);
	*place_of(r->early, p->psn) = e;
	r->early->count++;
	if (iba_psn_is_before(r->early->high, p->psn))
		r->early->high = p->psn;
	c->port->counts.early++;
	return true;
}

/* Out of its place. NULL: it is empty. */
static struct early_packet *remove_at(struct early_list *l, uint32_t psn)
{
	struct early_packet **place = place_of(l, psn), *e = *place;

	if (e)
		l->count--;
	*place = NULL;
	return e;
}

struct early_packet *rc_early_take(struct ib_conn *c)
{
	struct early_list *l = c->resp.early;
	struct early_packet *e;

	if (!l)
		return NULL;
	/* Bound: those that are kept. A Read, or a forged packet, may have taken their PSNs. */
	while (l->count > 0 && l->base != c->resp.psn) {
		e = remove_at(l, l->base);
		if (e)
			rc_early_free(c->port, e);
		l->base = iba_psn_add(l->base, 1);
	}
	e = remove_at(l, c->resp.psn);
	if (l->count == 0)
		list_return(c);
	return e;
}

void rc_early_drop(struct ib_conn *c)
{
	struct early_list *l = c->resp.early;

	if (!l)
		return;
	for (uint32_t i = 0; i < IB_EARLY_MAX; i++) {
		struct early_packet *e = remove_at(l, i);

		if (e)
			rc_early_free(c->port, e);
	}
	list_return(c);
}
