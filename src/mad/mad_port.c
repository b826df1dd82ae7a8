/* SPDX-License-Identifier: BSD-2-Clause */
#include "mad/mad_port.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "mad/mad_inside.h"

enum { VERSIONS_MAX = 8, METHOD_BITS = 32, OUI_AT = 37 };

/* ---- Life ----------------------------------------------------------------------------------- */

struct mad_port *mad_port_create(void)
{
	struct mad_port *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	list_init(&p->ready);
	list_init(&p->waiting);
	list_init(&p->receives);
	list_init(&p->messages);
	return p;
}

void mad_port_destroy(struct mad_port *p)
{
	for (uint32_t i = 0; i < MAD_AGENTS_MAX; i++)
		mad_agent_remove(p, i);
	CHECK(p->send_count == 0 && p->receive_count == 0);
	free(p);
}

/* ---- Agents --------------------------------------------------------------------------------- */

struct mad_agent *mad_agent_at(struct mad_port *p, uint32_t agent)
{
	return agent < MAD_AGENTS_MAX && p->agents[agent].is_used ? &p->agents[agent] : NULL;
}

static bool is_same_oui(const struct mad_agent_attr *a, const uint8_t oui[MAD_OUI_BYTES])
{
	return !mad_has_oui(a->mgmt_class) || memcmp(a->oui, oui, MAD_OUI_BYTES) == 0;
}

static bool is_overlapping(const struct mad_agent_attr *a, const struct mad_agent_attr *b)
{
	if (a->mgmt_class != b->mgmt_class || a->class_version != b->class_version ||
	    !is_same_oui(a, b->oui))
		return false;
	for (int i = 0; i < MAD_METHOD_WORDS; i++) {
		if (a->methods[i] & b->methods[i])
			return true;
	}
	return false;
}

static bool is_served(const struct mad_agent_attr *a)
{
	return a->class_version < VERSIONS_MAX &&
	       (a->rmpp_version == 0 || a->rmpp_version == RMPP_VERSION) &&
	       (a->mgmt_class == 0 || a->class_version > 0);
}

enum weft_reason mad_agent_add(struct mad_port *p, const struct mad_agent_attr *a, uint32_t *agent)
{
	uint32_t free_one = MAD_AGENTS_MAX;

	if (!is_served(a))
		return WEFT_R_MAD_AGENT;
	for (uint32_t i = 0; i < MAD_AGENTS_MAX; i++) {
		const struct mad_agent *other = &p->agents[i];

		if (!other->is_used)
			free_one = free_one < i ? free_one : i;
		else if (is_overlapping(&other->attr, a))
			return WEFT_R_MAD_METHOD_TAKEN;
	}
	if (free_one == MAD_AGENTS_MAX)
		return WEFT_R_MAD_AGENT;
	p->tid_high += p->tid_high == UINT32_MAX ? 2 : 1;
	p->agents[free_one] = (struct mad_agent){ .is_used = true,
						  .tid_high = p->tid_high,
						  .attr = *a };
	*agent = free_one;
	return WEFT_OK;
}

/* Bound: what is on the list. */
static void sends_end(struct mad_port *p, struct list *head, uint32_t agent)
{
	for (struct list *l = head->next, *next; l != head; l = next) {
		struct mad_send *s = CONTAINER_OF(l, struct mad_send, link);

		next = l->next;
		if (s->agent == agent)
			mad_send_end(p, s);
	}
}

void mad_agent_remove(struct mad_port *p, uint32_t agent)
{
	if (!mad_agent_at(p, agent))
		return;
	sends_end(p, &p->ready, agent);
	sends_end(p, &p->waiting, agent);
	for (struct list *l = p->receives.next, *next; l != &p->receives; l = next) {
		struct mad_receive *v = CONTAINER_OF(l, struct mad_receive, link);

		next = l->next;
		if (v->agent == agent)
			mad_receive_end(p, v);
	}
	for (struct list *l = p->messages.next, *next; l != &p->messages; l = next) {
		struct mad_message *m = CONTAINER_OF(l, struct mad_message, link);

		next = l->next;
		if (m->agent != agent)
			continue;
		list_remove(&m->link);
		mad_message_free(m);
	}
	p->agents[agent].is_used = false;
}

void mad_owner_remove(struct mad_port *p, uint32_t owner)
{
	for (uint32_t i = 0; i < MAD_AGENTS_MAX; i++) {
		if (p->agents[i].is_used && p->agents[i].attr.owner == owner)
			mad_agent_remove(p, i);
	}
}

/* ---- Messages ------------------------------------------------------------------------------- */

void mad_deliver(struct mad_port *p, const struct mad_message *m)
{
	struct mad_message *own = m->bytes ? malloc(sizeof(*own)) : NULL;

	if (!own) {
		free(m->bytes);
		return;
	}
	*own = *m;
	own->owner = p->agents[m->agent].attr.owner;
	list_init(&own->link);
	list_add_tail(&p->messages, &own->link);
}

void mad_deliver_copy(struct mad_port *p, struct mad_message m, const uint8_t *bytes)
{
	m.bytes = malloc(m.length);
	if (m.bytes)
		memcpy(m.bytes, bytes, m.length);
	mad_deliver(p, &m);
}

struct mad_message *mad_take(struct mad_port *p)
{
	if (list_is_empty(&p->messages))
		return NULL;
	return CONTAINER_OF(list_pop(&p->messages), struct mad_message, link);
}

void mad_message_free(struct mad_message *m)
{
	free(m->bytes);
	free(m);
}

/* ---- What comes in -------------------------------------------------------------------------- */

/* IBA 13.4.6.3, the high half of the transaction id says which agent asked. */
static uint32_t agent_of_response(const struct mad_port *p, const struct mad *m)
{
	uint32_t high = (uint32_t)(m->tid >> 32);

	for (uint32_t i = 0; i < MAD_AGENTS_MAX; i++) {
		if (p->agents[i].is_used && p->agents[i].tid_high == high)
			return i;
	}
	return MAD_AGENTS_MAX;
}

static uint32_t agent_of_request(const struct mad_port *p, const struct mad *m,
				 const uint8_t *bytes)
{
	uint32_t bit = UINT32_C(1) << m->method % METHOD_BITS, word = m->method / METHOD_BITS;

	for (uint32_t i = 0; i < MAD_AGENTS_MAX; i++) {
		const struct mad_agent *a = &p->agents[i];

		if (a->is_used && a->attr.mgmt_class == m->mgmt_class &&
		    a->attr.class_version == m->class_version && a->attr.methods[word] & bit &&
		    is_same_oui(&a->attr, bytes + OUI_AT))
			return i;
	}
	return MAD_AGENTS_MAX;
}

static bool recv_whole(struct mad_port *p, uint32_t agent, const struct mad *m,
		       const struct mad_datagram *d)
{
	if (mad_is_response(m)) {
		struct mad_send *s = mad_send_of(p, agent, m, d->address.lid);

		if (!s)
			return false; /* too late, or a second one */
		mad_send_end(p, s);
	}
	mad_deliver_copy(
		p,
		(struct mad_message){ .agent = agent, .address = d->address, .length = MAD_BYTES },
		d->bytes);
	return true;
}

bool mad_recv(struct mad_port *p, uint64_t now_ns, const struct mad_datagram *d)
{
	struct rmpp h = { 0 };
	uint32_t agent;
	struct mad m;

	if (mad_decode(&m, d->bytes, MAD_BYTES) != WEFT_OK)
		return false;
	if (rmpp_data_at(m.mgmt_class) > 0)
		rmpp_decode(&h, d->bytes);
	if ((h.flags & RMPP_ACTIVE) && h.type != RMPP_DATA && mad_rmpp_answer(p, now_ns, d))
		return true;
	agent = mad_is_response(&m) ? agent_of_response(p, &m) : agent_of_request(p, &m, d->bytes);
	if (agent == MAD_AGENTS_MAX)
		return false;
	if ((h.flags & RMPP_ACTIVE) && p->agents[agent].attr.rmpp_version > 0)
		return mad_rmpp_recv(p, now_ns, agent, d);
	return recv_whole(p, agent, &m, d);
}

/* ---- Time ----------------------------------------------------------------------------------- */

uint64_t mad_due(const struct mad_port *p)
{
	uint64_t due_ns = UINT64_MAX;

	for (const struct list *l = p->waiting.next; l != &p->waiting; l = l->next) {
		const struct mad_send *s = CONTAINER_OF(l, struct mad_send, link);

		due_ns = due_ns < s->due_ns ? due_ns : s->due_ns;
	}
	for (const struct list *l = p->receives.next; l != &p->receives; l = l->next) {
		const struct mad_receive *v = CONTAINER_OF(l, struct mad_receive, link);

		due_ns = due_ns < v->due_ns ? due_ns : v->due_ns;
	}
	return due_ns;
}

void mad_expire(struct mad_port *p, uint64_t now_ns)
{
	for (struct list *l = p->waiting.next, *next; l != &p->waiting; l = next) {
		struct mad_send *s = CONTAINER_OF(l, struct mad_send, link);

		next = l->next;
		if (s->due_ns > now_ns)
			continue;
		if (s->retries_left == 0) {
			mad_send_fail(p, s);
			continue;
		}
		s->retries_left--;
		s->next = s->acked + 1;
		mad_send_make_ready(p, s);
	}
	for (struct list *l = p->receives.next, *next; l != &p->receives; l = next) {
		struct mad_receive *v = CONTAINER_OF(l, struct mad_receive, link);

		next = l->next;
		if (v->due_ns <= now_ns)
			mad_receive_end(p, v);
	}
}
