/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests and responses on their way out, and the wait for answers. */
#include <stdlib.h>
#include <string.h>

#include "mad/mad_inside.h"

static bool is_answer(const struct mad_send *s, const struct mad *m, uint16_t lid)
{
	if (s->mad.tid != m->tid || s->mad.mgmt_class != m->mgmt_class)
		return false;
	/* Along a directed route the LIDs of both ends say nothing. */
	return m->mgmt_class == MAD_SUBNET_DIRECTED || s->address.lid == lid || s->address.has_grh;
}

static struct mad_send *find(const struct list *head, uint32_t agent, const struct mad *m,
			     uint16_t lid)
{
	for (struct list *l = head->next; l != head; l = l->next) {
		struct mad_send *s = CONTAINER_OF(l, struct mad_send, link);

		if (s->agent == agent && !mad_is_response(&s->mad) && is_answer(s, m, lid))
			return s;
	}
	return NULL;
}

struct mad_send *mad_send_of(struct mad_port *p, uint32_t agent, const struct mad *m, uint16_t lid)
{
	struct mad_send *s = find(&p->waiting, agent, m, lid);

	return s ? s : find(&p->ready, agent, m, lid);
}

void mad_send_end(struct mad_port *p, struct mad_send *s)
{
	list_remove(&s->link);
	p->send_count--;
	free(s->bytes);
	free(s);
}

void mad_send_fail(struct mad_port *p, struct mad_send *s)
{
	struct mad header = s->mad;
	uint8_t bytes[MAD_HEADER_BYTES];

	header.tid = s->own_tid;
	mad_encode(&header, bytes);
	mad_deliver_copy(p,
			 (struct mad_message){ .agent = s->agent,
					       .is_timed_out = true,
					       .address = s->address,
					       .length = MAD_HEADER_BYTES },
			 bytes);
	mad_send_end(p, s);
}

void mad_send_wait(struct mad_port *p, struct mad_send *s, uint64_t due_ns)
{
	list_remove(&s->link);
	s->state = MAD_SEND_WAITING;
	s->due_ns = due_ns;
	list_add_tail(&p->waiting, &s->link);
}

void mad_send_make_ready(struct mad_port *p, struct mad_send *s)
{
	list_remove(&s->link);
	s->state = MAD_SEND_READY;
	list_add_tail(&p->ready, &s->link);
}

/* ---- A new one ------------------------------------------------------------------------------ */

static enum weft_reason check(struct mad_port *p, const struct mad_request *r,
			      const struct mad_send *s)
{
	if (s->segments == 0 ? r->length > MAD_BYTES : r->length > MAD_MESSAGE_MAX)
		return WEFT_R_MAD_LENGTH;
	if (p->send_count == MAD_SENDS_MAX)
		return WEFT_R_MAD_BUSY;
	if (!mad_is_response(&s->mad) && mad_send_of(p, r->agent, &s->mad, r->address.lid))
		return WEFT_R_MAD_TID;
	return WEFT_OK;
}

/* Whether segments are to be made of it, and how many. */
static uint32_t segments_of(const struct mad_agent *a, const struct mad *m,
			    const struct mad_request *r, const uint8_t first[MAD_BYTES])
{
	uint32_t data_at = rmpp_data_at(m->mgmt_class);
	struct rmpp h;

	if (a->attr.rmpp_version == 0 || data_at == 0 || r->length < data_at)
		return 0;
	rmpp_decode(&h, first);
	return h.flags & RMPP_ACTIVE ? mad_segments_of(m->mgmt_class, r->length) : 0;
}

enum weft_reason mad_send(struct mad_port *p, const struct mad_request *r)
{
	const struct mad_agent *a = mad_agent_at(p, r->agent);
	struct mad_send v = { .agent = r->agent,
			      .address = r->address,
			      .timeout_ns = r->timeout_ns,
			      .retries = r->retries,
			      .next = 1,
			      .window = 1 };
	uint8_t first[MAD_BYTES] = { 0 };
	struct mad_send *s;
	enum weft_reason reason;

	if (!a)
		return WEFT_R_MAD_AGENT;
	if (r->length < MAD_MESSAGE_MIN)
		return WEFT_R_MAD_LENGTH;
	memcpy(first, r->bytes, r->length < MAD_BYTES ? r->length : MAD_BYTES);
	reason = mad_decode(&v.mad, first, MAD_BYTES);
	if (reason != WEFT_OK)
		return reason;
	v.own_tid = v.mad.tid;
	if (!mad_is_response(&v.mad))
		v.mad.tid = (uint64_t)a->tid_high << 32 | (uint32_t)v.mad.tid;
	v.segments = segments_of(a, &v.mad, r, first);
	if (v.segments > 0 && v.retries < MAD_RMPP_RETRIES_MIN)
		v.retries = MAD_RMPP_RETRIES_MIN;
	v.retries_left = v.retries;
	reason = check(p, r, &v);
	if (reason != WEFT_OK)
		return reason;
	v.length = r->length < MAD_BYTES ? MAD_BYTES : r->length;
	s = malloc(sizeof(*s));
	v.bytes = calloc(1, v.length);
	if (!s || !v.bytes) {
		free(s);
		free(v.bytes);
		return WEFT_R_NO_MEMORY;
	}
	memcpy(v.bytes, r->bytes, r->length);
	mad_encode(&v.mad, v.bytes);
	v.length = v.segments > 0 ? r->length : MAD_BYTES;
	*s = v;
	list_init(&s->link);
	list_add_tail(&p->ready, &s->link);
	p->send_count++;
	return WEFT_OK;
}

uint32_t mad_send_count(const struct mad_port *p)
{
	return p->send_count;
}

/* ---- What goes out -------------------------------------------------------------------------- */

bool mad_next(struct mad_port *p, uint64_t now_ns, struct mad_datagram *d)
{
	struct mad_send *s;

	if (p->control_count > 0) {
		*d = p->controls[p->control_first];
		p->control_first = (p->control_first + 1) % MAD_CONTROLS_MAX;
		p->control_count--;
		return true;
	}
	if (list_is_empty(&p->ready))
		return false;
	s = CONTAINER_OF(p->ready.next, struct mad_send, link);
	d->address = s->address;
	if (s->segments > 0) {
		mad_segment_next(p, s, now_ns, d->bytes);
		return true;
	}
	memcpy(d->bytes, s->bytes, MAD_BYTES);
	if (s->timeout_ns > 0 && !mad_is_response(&s->mad))
		mad_send_wait(p, s, now_ns + s->timeout_ns);
	else
		mad_send_end(p, s);
	return true;
}
