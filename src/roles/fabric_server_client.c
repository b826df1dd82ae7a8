/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/fabric_server_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/sys/spare.h"
#include "driver/sys/unix_sockets.h"

enum {
	MESSAGES_AT_ONCE = 64, /* of a client */
	WAITING_MAX = 16384,   /* messages that a client has not read */
	NS_PER_MS = 1000000
};

/* ---- Coming and going ----------------------------------------------------------------------- */

static void manager_end(struct fabric_server *s, struct server_port *p)
{
	if (!p || --p->managers > 0)
		return;
	fabric_node_set_sm(fabric_node_at(s->fabric, p->node), p->port, false, s->now_ns);
	fabric_touch(s->fabric, p->node);
}

/* What it has is free at once; itself it goes at the end of the turn. */
static void client_end(struct fabric_server *s, struct server_client *c)
{
	if (c->is_ended)
		return;
	c->is_ended = true;
	s->ended_count++;
	server_tap_close(s, c);
	manager_end(s, c->managed);
	if (c->port && c->port->mads)
		mad_owner_remove(c->port->mads, c->number);
}

static bool client_add(struct fabric_server *s, int fd)
{
	struct server_client *c = NULL;
	struct epoll_event e = { .events = EPOLLIN };
	uint32_t number = 0;

	while (number < SERVER_CLIENTS_MAX && s->clients[number])
		number++;
	if (number < SERVER_CLIENTS_MAX && unix_is_trusted(fd))
		c = calloc(1, sizeof(*c));
	e.data.ptr = c;
	if (!c || epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
		free(c);
		return false;
	}
	c->fd = fd;
	c->number = number;
	list_init(&c->waiting);
	s->clients[number] = c;
	s->client_count++;
	return true;
}

void server_clients_accept(struct fabric_server *s)
{
	for (int i = 0; i < MESSAGES_AT_ONCE; i++) {
		int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && !spare_refuse(&s->spare, s->listener, errno))
			return;
		if (fd >= 0 && !client_add(s, fd))
			close(fd);
	}
}

static void client_free(struct fabric_server *s, struct server_client *c)
{
	client_end(s, c);
	s->ended_count--;
	while (!list_is_empty(&c->waiting))
		mad_message_free(CONTAINER_OF(list_pop(&c->waiting), struct mad_message, link));
	s->clients[c->number] = NULL;
	s->client_count--;
	close(c->fd);
	free(c);
}

void server_clients_reap(struct fabric_server *s)
{
	for (uint32_t i = 0; s->ended_count > 0 && i < SERVER_CLIENTS_MAX; i++) {
		if (!s->clients[i] || !s->clients[i]->is_ended)
			continue;
		client_free(s, s->clients[i]);
	}
}

void server_clients_close(struct fabric_server *s)
{
	for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
		if (s->clients[i])
			client_free(s, s->clients[i]);
	}
}

/* ---- To programs ---------------------------------------------------------------------------- */

static int message_send(const struct server_client *c, const struct mad_message *from)
{
	const struct mad_address *a = &from->address;
	struct fabric_msg m = {
		.kind = FABRIC_MSG_RECEIVED,
		.mad = {
			.agent = from->agent,
			.error = from->is_timed_out ? ETIMEDOUT : 0,
			.length = from->length,
			.lid = a->lid,
			.pkey_index = a->pkey_index,
			.qpn = a->qpn,
			.q_key = a->q_key,
			.level = a->level,
			.path_bits = a->path_bits,
			.has_grh = a->has_grh,
			.gid_index = a->gid_index,
			.hop_limit = a->hop_limit,
			.traffic_class = a->traffic_class,
			.flow_label = a->flow_label,
		},
	};

	memcpy(m.mad.gid, a->gid, sizeof(m.mad.gid));
	return fabric_mad_send(c->fd, &m, from->bytes);
}

static void room_watch(const struct fabric_server *s, struct server_client *c, bool is_watched)
{
	struct epoll_event e = { .events = is_watched ? EPOLLIN | EPOLLOUT : EPOLLIN,
				 .data.ptr = c };

	(void)epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &e);
}

/* A message that cannot be sent is lost, as one without memory is. */
static void waiting_send(struct fabric_server *s, struct server_client *c)
{
	while (!list_is_empty(&c->waiting)) {
		struct mad_message *m = CONTAINER_OF(c->waiting.next, struct mad_message, link);

		if (message_send(c, m) == -EAGAIN)
			return;
		s->counts.datagrams_in++;
		list_remove(&m->link);
		c->waiting_count--;
		mad_message_free(m);
	}
	room_watch(s, c, false);
}

static void message_tell(struct fabric_server *s, struct mad_message *own_m)
{
	struct server_client *c = own_m->owner < SERVER_CLIENTS_MAX ? s->clients[own_m->owner]
								    : NULL;

	if (!c || c->is_ended || c->waiting_count == WAITING_MAX) {
		s->counts.unread += c != NULL;
		mad_message_free(own_m);
		return;
	}
	list_add_tail(&c->waiting, &own_m->link);
	c->waiting_count++;
	if (c->waiting_count > 1)
		return;
	waiting_send(s, c);
	if (c->waiting_count > 0)
		room_watch(s, c, true);
}

void server_messages_tell(struct fabric_server *s, struct server_port *p)
{
	struct mad_message *m;

	while ((m = mad_take(p->mads)))
		message_tell(s, m);
}

/* ---- From programs -------------------------------------------------------------------------- */

/* Aside if the question came with a descriptor for it. */
static void answer(struct fabric_server *s, struct server_client *c, const struct fabric_msg *m)
{
	int to = s->packet.file >= 0 ? s->packet.file : c->fd;

	if (fabric_msg_send(to, m) < 0 && to == c->fd)
		client_end(s, c);
}

static enum weft_reason attach(struct fabric_server *s, struct server_client *c,
			       const struct fabric_msg *ask)
{
	uint32_t node, port;
	enum weft_reason r = server_owner_find(s, &ask->where, &node, &port);
	struct server_port *p;

	if (r != WEFT_OK)
		return r;
	if (c->port)
		return WEFT_R_FABRIC_ASK;
	p = server_port_get(s, node, port);
	if (p && !p->mads)
		p->mads = mad_port_create();
	if (!p || !p->mads)
		return WEFT_R_NO_MEMORY;
	c->port = p;
	return WEFT_OK;
}

static enum weft_reason manage(struct fabric_server *s, struct server_client *c,
			       const struct fabric_msg *ask)
{
	uint32_t node, port;
	enum weft_reason r = server_owner_find(s, &ask->where, &node, &port);
	struct server_port *p;

	if (r != WEFT_OK)
		return r;
	p = c->managed ? NULL : server_port_get(s, node, port);
	if (!p)
		return c->managed ? WEFT_R_FABRIC_ASK : WEFT_R_NO_MEMORY;
	c->managed = p;
	if (p->managers++ == 0) {
		fabric_node_set_sm(fabric_node_at(s->fabric, node), port, true, s->now_ns);
		fabric_touch(s->fabric, node);
	}
	return WEFT_OK;
}

static enum weft_reason agent_add(struct server_client *c, const struct fabric_msg_agent *a,
				  uint64_t *number)
{
	struct mad_agent_attr attr = {
		.owner = c->number,
		.mgmt_class = a->mgmt_class,
		.class_version = a->class_version,
		.rmpp_version = a->rmpp_version,
	};
	enum weft_reason r;
	uint32_t agent;

	if (!c->port || c->agent_count == SERVER_AGENTS_MAX)
		return WEFT_R_MAD_AGENT;
	memcpy(attr.oui, a->oui, sizeof(attr.oui));
	memcpy(attr.methods, a->methods, sizeof(attr.methods));
	r = mad_agent_add(c->port->mads, &attr, &agent);
	if (r != WEFT_OK)
		return r;
	c->agents[c->agent_count++] = agent;
	*number = agent;
	return WEFT_OK;
}

/* Its place among the client's own; the count of these: it is none. */
static uint32_t agent_find(const struct server_client *c, uint64_t agent)
{
	uint32_t i = 0;

	while (i < c->agent_count && c->agents[i] != agent)
		i++;
	return i;
}

static enum weft_reason agent_remove(struct server_client *c, uint64_t agent)
{
	uint32_t i = agent_find(c, agent);

	if (i == c->agent_count)
		return WEFT_R_MAD_AGENT;
	c->agents[i] = c->agents[--c->agent_count];
	mad_agent_remove(c->port->mads, (uint32_t)agent);
	return WEFT_OK;
}

/* ---- Datagrams of programs ------------------------------------------------------------------ */

static enum weft_reason send_bytes(struct fabric_server *s, const struct server_client *c,
				   const uint8_t *bytes)
{
	const struct fabric_msg_mad *m = &s->packet.m.mad;
	struct mad_request r = {
		.agent = m->agent,
		.address = {
			.lid = m->lid,
			.pkey_index = m->pkey_index,
			.qpn = m->qpn,
			.q_key = m->q_key,
			.level = m->level,
			.path_bits = m->path_bits,
			.has_grh = m->has_grh,
			.gid_index = m->gid_index,
			.hop_limit = m->hop_limit,
			.traffic_class = m->traffic_class,
			.flow_label = m->flow_label,
		},
		.bytes = bytes,
		.length = m->length,
		.timeout_ns = (uint64_t)m->timeout_ms * NS_PER_MS,
		.retries = m->retries,
	};

	memcpy(r.address.gid, m->gid, sizeof(r.address.gid));
	s->counts.datagrams_out++;
	return mad_send(c->port->mads, &r);
}

/* A request that cannot be sent has no answer: its program hears that at once. */
static void refuse(struct fabric_server *s, struct server_client *c, const uint8_t *bytes)
{
	const struct fabric_msg_mad *m = &s->packet.m.mad;
	struct mad_message *own = m->timeout_ms > 0 ? calloc(1, sizeof(*own)) : NULL;

	if (!own)
		return;
	own->owner = c->number;
	own->agent = m->agent;
	own->is_timed_out = true;
	own->length = MAD_HEADER_BYTES;
	own->address.lid = m->lid;
	own->bytes = malloc(MAD_HEADER_BYTES);
	if (!own->bytes) {
		free(own);
		return;
	}
	memcpy(own->bytes, bytes, MAD_HEADER_BYTES);
	message_tell(s, own);
}

static void send_take(struct fabric_server *s, struct server_client *c)
{
	uint32_t length = s->packet.m.mad.length;
	uint8_t *bytes;

	if (!c->port || agent_find(c, s->packet.m.mad.agent) == c->agent_count ||
	    length < MAD_HEADER_BYTES || length > MAD_MESSAGE_MAX)
		return;
	bytes = malloc(length);
	if (bytes && fabric_packet_mad(&s->packet, bytes, length) == 0 &&
	    send_bytes(s, c, bytes) != WEFT_OK)
		refuse(s, c, bytes);
	free(bytes);
}

/* ---- All messages --------------------------------------------------------------------------- */

static void message_take(struct fabric_server *s, struct server_client *c)
{
	const struct fabric_msg *ask = &s->packet.m;
	struct fabric_msg out = { .kind = FABRIC_MSG_ANSWER };

	switch (ask->kind) {
	case FABRIC_MSG_SEND:
		send_take(s, c);
		return;
	case FABRIC_MSG_ATTACH:
		out.reason = (uint32_t)attach(s, c, ask);
		break;
	case FABRIC_MSG_MANAGER:
		out.reason = (uint32_t)manage(s, c, ask);
		break;
	case FABRIC_MSG_AGENT:
		out.reason = (uint32_t)agent_add(c, &ask->agent, &out.value);
		break;
	case FABRIC_MSG_AGENT_REMOVE:
		out.reason = (uint32_t)agent_remove(c, ask->value);
		break;
	case FABRIC_MSG_CAPTURE:
		out.reason = (uint32_t)server_tap_open(s, c, &ask->where);
		break;
	default:
		out = server_answer(s, ask);
	}
	answer(s, c, &out);
}

void server_client_serve(struct fabric_server *s, struct server_client *c, uint32_t events)
{
	if (c->is_ended)
		return;
	if (events & EPOLLOUT)
		waiting_send(s, c);
	for (int i = 0; i < MESSAGES_AT_ONCE && !c->is_ended; i++) {
		int r = fabric_packet_receive(c->fd, &s->packet, false);

		if (r == -EAGAIN)
			return;
		if (r < 0) {
			client_end(s, c);
			return;
		}
		message_take(s, c);
		fabric_packet_done(&s->packet);
	}
}
