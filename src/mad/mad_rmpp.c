/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of several datagrams (IBA 13.6). A sender sends up to the window that the receiver tells
 * with each acknowledgement, at first one segment. Segments come in order on a path: a receiver
 * takes the next one only, and acknowledges at once when another comes; the sender then goes back.
 */
#include <stdlib.h>
#include <string.h>

#include "mad/mad_inside.h"

enum { SEGMENT_BYTES = MAD_BYTES - RMPP_DATA_AT }; /* as lengths count, with the class's header */

/* ---- Sender --------------------------------------------------------------------------------- */

uint32_t mad_segments_of(uint8_t mgmt_class, uint32_t length)
{
	uint32_t data_at = rmpp_data_at(mgmt_class), room = MAD_BYTES - data_at;
	uint32_t segments = (length - data_at + room - 1) / room;

	return segments > 0 ? segments : 1;
}

/* The bytes of data in a segment. */
static uint32_t segment_data(const struct mad_send *s, uint32_t segment)
{
	uint32_t data_at = rmpp_data_at(s->mad.mgmt_class), room = MAD_BYTES - data_at;
	uint32_t rest = s->length - data_at - (segment - 1) * room;

	return rest < room ? rest : room;
}

void mad_segment_next(struct mad_port *p, struct mad_send *s, uint64_t now_ns,
		      uint8_t bytes[MAD_BYTES])
{
	uint32_t data_at = rmpp_data_at(s->mad.mgmt_class), room = MAD_BYTES - data_at;
	uint32_t data = segment_data(s, s->next), pad = room - segment_data(s, s->segments);
	struct rmpp h;

	rmpp_decode(&h, s->bytes);
	h = (struct rmpp){ .version = RMPP_VERSION,
			   .type = RMPP_DATA,
			   .response_time = h.response_time,
			   .flags = RMPP_ACTIVE,
			   .segment = s->next };
	if (s->next == 1) {
		h.flags |= RMPP_FIRST;
		h.length = s->segments * SEGMENT_BYTES - pad;
	}
	if (s->next == s->segments) {
		h.flags |= RMPP_LAST;
		h.length = s->segments == 1 ? h.length : SEGMENT_BYTES - pad;
	}
	memset(bytes, 0, MAD_BYTES);
	memcpy(bytes, s->bytes, data_at);
	memcpy(bytes + data_at, s->bytes + data_at + (s->next - 1) * room, data);
	rmpp_encode(&h, bytes);
	if (s->next == s->segments || s->next == s->window)
		mad_send_wait(p, s, now_ns + mad_ack_ns);
	else
		mad_send_make_ready(p, s); /* behind the others, which have their turns */
	s->next++;
}

/* Whose segments the peer answers. */
static struct mad_send *find_in(const struct list *head, const struct mad *m, uint16_t lid)
{
	for (struct list *l = head->next; l != head; l = l->next) {
		struct mad_send *s = CONTAINER_OF(l, struct mad_send, link);

		if (s->segments > 0 && s->mad.tid == m->tid && s->mad.mgmt_class == m->mgmt_class &&
		    s->address.lid == lid)
			return s;
	}
	return NULL;
}

/* True: it has come as a whole. */
static bool is_acknowledged(struct mad_send *s, const struct rmpp *h)
{
	if (h->segment > s->acked) {
		s->acked = h->segment;
		s->retries_left = s->retries;
	}
	if (h->length > s->window)
		s->window = h->length;
	return s->acked >= s->segments;
}

static void acknowledge(struct mad_port *p, struct mad_send *s, const struct rmpp *h,
			uint64_t now_ns)
{
	if (h->segment >= s->next && s->next <= s->segments)
		return; /* of a segment that was never sent */
	if (is_acknowledged(s, h)) {
		if (s->timeout_ns > 0 && !mad_is_response(&s->mad)) {
			s->acked = 0; /* no answer: all of it again */
			mad_send_wait(p, s, now_ns + s->timeout_ns);
		} else {
			mad_send_end(p, s);
		}
		return;
	}
	if (h->segment < s->acked)
		return; /* an old one */
	s->next = s->acked + 1;
	if (s->next <= s->window)
		mad_send_make_ready(p, s);
}

bool mad_rmpp_answer(struct mad_port *p, uint64_t now_ns, const struct mad_datagram *d)
{
	struct mad_send *s;
	struct rmpp h;
	struct mad m;

	if (mad_decode(&m, d->bytes, MAD_BYTES) != WEFT_OK)
		return false;
	s = find_in(&p->waiting, &m, d->address.lid);
	if (!s)
		s = find_in(&p->ready, &m, d->address.lid);
	if (!s)
		return false;
	rmpp_decode(&h, d->bytes);
	if (h.type == RMPP_ACK)
		acknowledge(p, s, &h, now_ns);
	else
		mad_send_fail(p, s);
	return true;
}

/* ---- Receiver ------------------------------------------------------------------------------- */

/* An acknowledgement, or the end of the transfer, to where the segment came from. */
static void answer(struct mad_port *p, const struct mad_datagram *d, const struct rmpp *h)
{
	struct mad_datagram *c;
	struct mad m;

	if (p->control_count == MAD_CONTROLS_MAX || mad_decode(&m, d->bytes, MAD_BYTES) != WEFT_OK)
		return;
	c = &p->controls[(p->control_first + p->control_count++) % MAD_CONTROLS_MAX];
	*c = (struct mad_datagram){ .address = d->address };
	memcpy(c->bytes, d->bytes, rmpp_data_at(m.mgmt_class));
	m.method ^= MAD_RESPONSE;
	mad_encode(&m, c->bytes);
	rmpp_encode(h, c->bytes);
}

static void give_up(struct mad_port *p, const struct mad_datagram *d, enum rmpp_status status)
{
	answer(p, d,
	       &(struct rmpp){ .version = RMPP_VERSION,
			       .type = status == RMPP_EXHAUSTED ? RMPP_STOP : RMPP_ABORT,
			       .flags = RMPP_ACTIVE,
			       .status = (uint8_t)status });
}

static void acknowledge_to(struct mad_port *p, struct mad_receive *v, const struct mad_datagram *d)
{
	v->window = v->expected - 1 + MAD_WINDOW;
	answer(p, d,
	       &(struct rmpp){ .version = RMPP_VERSION,
			       .type = RMPP_ACK,
			       .flags = RMPP_ACTIVE,
			       .segment = v->expected - 1,
			       .length = v->window });
}

void mad_receive_end(struct mad_port *p, struct mad_receive *v)
{
	list_remove(&v->link);
	p->receive_count--;
	p->receive_bytes -= v->room;
	free(v->bytes);
	free(v);
}

static struct mad_receive *receive_of(struct mad_port *p, uint32_t agent, const struct mad *m,
				      const struct mad_address *from)
{
	for (struct list *l = p->receives.next; l != &p->receives; l = l->next) {
		struct mad_receive *v = CONTAINER_OF(l, struct mad_receive, link);

		if (v->agent == agent && v->mad.tid == m->tid &&
		    v->mad.mgmt_class == m->mgmt_class && v->mad.method == m->method &&
		    v->address.lid == from->lid && v->address.qpn == from->qpn)
			return v;
	}
	return NULL;
}

/* Room for a new one: of those that are complete the oldest goes. */
static bool has_room(struct mad_port *p)
{
	for (struct list *l = p->receives.next;
	     p->receive_count == MAD_RECEIVES_MAX && l != &p->receives; l = l->next) {
		struct mad_receive *v = CONTAINER_OF(l, struct mad_receive, link);

		if (v->is_complete) {
			mad_receive_end(p, v);
			break;
		}
	}
	return p->receive_count < MAD_RECEIVES_MAX;
}

static struct mad_receive *receive_begin(struct mad_port *p, uint32_t agent, const struct mad *m,
					 const struct mad_datagram *d)
{
	struct mad_receive *v = has_room(p) ? calloc(1, sizeof(*v)) : NULL;

	if (!v)
		return NULL;
	v->agent = agent;
	v->mad = *m;
	v->address = d->address;
	v->expected = 1;
	v->window = 1;
	list_init(&v->link);
	list_add_tail(&p->receives, &v->link);
	p->receive_count++;
	return v;
}

/* Room for so many bytes. False: that is too much, for it or for the port. */
static bool grow(struct mad_port *p, struct mad_receive *v, uint32_t room)
{
	uint64_t all = p->receive_bytes - v->room + room;
	bool has_room = room <= MAD_MESSAGE_MAX && all <= MAD_RECEIVE_BYTES_MAX;
	uint8_t *larger = has_room ? malloc(room) : NULL;

	if (!larger)
		return false;
	if (v->length > 0)
		memcpy(larger, v->bytes, v->length);
	free(v->bytes);
	v->bytes = larger;
	v->room = room;
	p->receive_bytes = all;
	return true;
}

/* Doubles the room when it is full. */
static bool append(struct mad_port *p, struct mad_receive *v, const uint8_t *bytes, uint32_t length)
{
	if (v->length + length > v->room && !grow(p, v, v->room ? 2 * v->room : 4 * MAD_BYTES))
		return false;
	memcpy(v->bytes + v->length, bytes, length);
	v->length += length;
	return true;
}

/* IBA 13.6.2.3; RMPP_NORMAL: it is one. */
static enum rmpp_status check(const struct rmpp *h)
{
	if (h->version != RMPP_VERSION)
		return RMPP_BAD_VERSION;
	if (h->type != RMPP_DATA)
		return RMPP_BAD_TYPE;
	if (h->segment == 0 || (h->segment == 1) != !!(h->flags & RMPP_FIRST))
		return RMPP_BAD_SEGMENT;
	if ((h->flags & RMPP_LAST) && h->segment > 1 && h->length > SEGMENT_BYTES)
		return RMPP_BAD_LENGTH;
	return RMPP_NORMAL;
}

static void complete(struct mad_port *p, struct mad_receive *v, struct mad_send *request)
{
	struct mad_message m = {
		.agent = v->agent, .address = v->address, .length = v->length, .bytes = v->bytes
	};

	v->bytes = NULL;
	p->receive_bytes -= v->room;
	v->room = 0;
	v->is_complete = true;
	mad_deliver(p, &m);
	if (request)
		mad_send_end(p, request);
}

/* The data of the last segment: a length of 0, or one that cannot be, leaves it whole. */
static uint32_t data_bytes(const struct rmpp *h, uint32_t data_at)
{
	uint32_t room = MAD_BYTES - data_at, header = data_at - RMPP_DATA_AT;

	if (!(h->flags & RMPP_LAST) || h->length < header || h->length - header > room)
		return room;
	return h->length - header;
}

static bool take_segment(struct mad_port *p, struct mad_receive *v, const struct mad_datagram *d,
			 struct mad_send *request)
{
	uint32_t data_at = rmpp_data_at(v->mad.mgmt_class);
	struct rmpp h;

	rmpp_decode(&h, d->bytes);
	if (v->is_complete || h.segment != v->expected) {
		/* Once for all behind one that is missing; each time for what was there. */
		if (h.segment < v->expected || !v->has_asked)
			acknowledge_to(p, v, d);
		v->has_asked |= h.segment > v->expected;
		return true;
	}
	if ((h.segment == 1 && !append(p, v, d->bytes, data_at)) ||
	    !append(p, v, d->bytes + data_at, data_bytes(&h, data_at))) {
		give_up(p, d, RMPP_EXHAUSTED);
		mad_receive_end(p, v);
		return true;
	}
	v->expected++;
	v->has_asked = false;
	if ((h.flags & RMPP_LAST) || h.segment == v->window)
		acknowledge_to(p, v, d);
	if (h.flags & RMPP_LAST)
		complete(p, v, request);
	return true;
}

bool mad_rmpp_recv(struct mad_port *p, uint64_t now_ns, uint32_t agent,
		   const struct mad_datagram *d)
{
	struct mad_send *request = NULL;
	struct mad_receive *v;
	enum rmpp_status status;
	struct rmpp h;
	struct mad m;

	if (mad_decode(&m, d->bytes, MAD_BYTES) != WEFT_OK)
		return false;
	rmpp_decode(&h, d->bytes);
	if (h.type == RMPP_ACK || h.type == RMPP_STOP || h.type == RMPP_ABORT)
		return false; /* of a transfer that has ended */
	v = receive_of(p, agent, &m, &d->address);
	if (mad_is_response(&m) && !(v && v->is_complete)) {
		request = mad_send_of(p, agent, &m, d->address.lid);
		if (!request)
			return false; /* nothing asked for it any more */
		/* Its time begins anew with each segment. */
		if (request->state == MAD_SEND_WAITING)
			request->due_ns = now_ns + request->timeout_ns;
	}
	status = check(&h);
	if (status != RMPP_NORMAL) {
		give_up(p, d, status);
		if (v)
			mad_receive_end(p, v);
		return true;
	}
	if (!v && h.segment > 1)
		return false;
	if (!v)
		v = receive_begin(p, agent, &m, d);
	if (!v) {
		give_up(p, d, RMPP_EXHAUSTED);
		return true;
	}
	v->due_ns = now_ns + mad_silence_ns;
	return take_segment(p, v, d, request);
}
