/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/fabric/fabric_hub_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "driver/near/ring.h"
#include "driver/sys/calls.h"
#include "driver/sys/spare.h"
#include "driver/sys/system_reason.h"
#include "driver/sys/unix_sockets.h"

enum {
	EVENTS_MAX = 64,
	MESSAGES_MAX = 16, /* of an adapter at a time */
	SLOT_MAX = 254,
	PORT_MAX = 254,
	CLAIMS_MAX = 4096, /* of an adapter */
};

/* ---- Life ----------------------------------------------------------------------------------- */

static enum weft_reason listen_at(struct fabric_hub *h, const char *fabric)
{
	struct unix_names names = attach_names_of(fabric);
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = NULL };
	bool are_all_foreign;

	h->epoll = epoll_create1(EPOLL_CLOEXEC);
	h->spare = spare_open();
	h->listener = unix_names_take(&names, true, &are_all_foreign);
	if (h->listener == -EADDRINUSE)
		return WEFT_R_ADDRESS_IN_USE;
	if (h->listener < 0)
		return system_reason(-h->listener);
	if (h->epoll < 0 || epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->listener, &e) < 0)
		return system_reason(errno);
	return WEFT_OK;
}

enum weft_reason fabric_hub_open(const struct fabric_hub_config *config, const char *fabric,
				 struct fabric_hub **hub)
{
	struct fabric_hub *h = calloc(1, sizeof(*h));
	enum weft_reason r;

	if (!h)
		return WEFT_R_NO_MEMORY;
	h->config = *config;
	h->epoll = h->listener = h->spare = -1;
	list_init(&h->guests);
	list_init(&h->leaving);
	list_init(&h->active);
	list_init(&h->touched);
	list_init(&h->ready);
	list_init(&h->full);
	h->nodes = calloc(config->nodes, sizeof(*h->nodes));
	for (uint32_t i = 0; h->nodes && i < config->nodes; i++)
		list_init(&h->nodes[i]);
	r = h->nodes ? listen_at(h, fabric) : WEFT_R_NO_MEMORY;
	if (r != WEFT_OK) {
		fabric_hub_close(h);
		return r;
	}
	*hub = h;
	return WEFT_OK;
}

static void claims_free(struct list *claims)
{
	while (!list_is_empty(claims))
		free(CONTAINER_OF(list_pop(claims), struct claim, link));
}

/* Frames that came at ports of a node may have room now. */
static void refused_retry(struct fabric_hub *h, uint32_t node)
{
	for (struct list *l = h->nodes[node].next; l != &h->nodes[node]; l = l->next) {
		struct hub_port *p = CONTAINER_OF(l, struct hub_port, link);

		if (p->is_refused && !list_is_linked(&p->ready))
			list_add_tail(&h->ready, &p->ready);
	}
}

/*
 * Its end of the bell goes on to be the adapter's, so epoll does not forget it by itself. Which one
 * has rung is told by an odd address.
 */
static void *bell_mark(struct hub_adapter *a)
{
	return (char *)a + 1;
}

static struct hub_adapter *bell_adapter(void *mark)
{
	return (uintptr_t)mark % 2 == 1 ? (void *)((char *)mark - 1) : NULL;
}

/* Each ring is told, as it is not read. False: descriptors, or memory, are short. */
static bool bell_make(struct fabric_hub *h, struct hub_adapter *a)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLET, .data.ptr = bell_mark(a) };

	a->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return a->bell >= 0 && epoll_ctl(h->epoll, EPOLL_CTL_ADD, a->bell, &e) == 0;
}

static void bell_close(struct fabric_hub *h, struct hub_adapter *a)
{
	if (a->bell < 0)
		return;
	(void)epoll_ctl(h->epoll, EPOLL_CTL_DEL, a->bell, NULL);
	call_close(a->bell);
	a->bell = -1;
}

/* No frame finds it any more. */
static void adapter_close(struct fabric_hub *h, struct hub_adapter *a)
{
	if (hub_is_gone(a))
		return;
	if (a->port) {
		h->counts.adapters--;
		refused_retry(h, a->port->node);
	}
	list_remove(&a->link);
	list_remove(&a->touched);
	list_remove(&a->full);
	claims_free(&a->services);
	claims_free(&a->groups);
	bell_close(h, a);
	call_close(a->fd);
	a->fd = -1;
}

void hub_adapter_end(struct fabric_hub *h, struct hub_adapter *a)
{
	if (hub_is_gone(a))
		a->port->leaving--;
	adapter_close(h, a);
	list_remove(&a->link);
	list_remove(&a->active);
	ring_unmap(&a->in);
	ring_unmap(&a->out);
	free(a);
}

/*
 * A program ends when it has what it wanted, and its last frames are in its ring: the peer may wait
 * for nothing but the acknowledgement there. Its slot is free meanwhile, so that slots do not bound
 * the memory of those that leave.
 */
void hub_adapter_leave(struct fabric_hub *h, struct hub_adapter *a)
{
	a->left = a->port ? ring_left(&a->in) : 0;
	if (a->left == 0 || a->port->leaving == SLOT_MAX) {
		hub_adapter_end(h, a);
		return;
	}
	adapter_close(h, a);
	ring_unmap(&a->out);
	a->port->leaving++;
	list_add_tail(&h->leaving, &a->link);
	if (!a->is_blocked)
		hub_activate(h, a);
}

void fabric_hub_close(struct fabric_hub *h)
{
	while (!list_is_empty(&h->leaving))
		hub_adapter_end(h, hub_adapter_at(h->leaving.next));
	for (uint32_t i = 0; h->nodes && i < h->config.nodes; i++) {
		while (!list_is_empty(&h->nodes[i])) {
			struct hub_port *p = CONTAINER_OF(list_pop(&h->nodes[i]), struct hub_port,
							  link);

			while (!list_is_empty(&p->adapters))
				hub_adapter_end(h, hub_adapter_at(p->adapters.next));
			list_remove(&p->ready);
			free(p);
		}
	}
	while (!list_is_empty(&h->guests))
		hub_adapter_end(h, hub_adapter_at(h->guests.next));
	if (h->listener >= 0)
		call_close(h->listener);
	if (h->epoll >= 0)
		call_close(h->epoll);
	spare_close(&h->spare);
	free(h->nodes);
	free(h);
}

void fabric_hub_stay_awake(struct fabric_hub *h, bool is_awake)
{
	h->is_awake = is_awake;
}

int fabric_hub_fd(const struct fabric_hub *h)
{
	return h->epoll;
}

const struct fabric_hub_counts *fabric_hub_counts(const struct fabric_hub *h)
{
	return &h->counts;
}

/* ---- Ports ---------------------------------------------------------------------------------- */

struct hub_port *hub_port_find(struct fabric_hub *h, uint32_t node, uint32_t port)
{
	struct list *ports = node < h->config.nodes ? &h->nodes[node] : NULL;

	for (struct list *at = ports ? ports->next : NULL; at && at != ports; at = at->next) {
		struct hub_port *p = CONTAINER_OF(at, struct hub_port, link);

		if (p->port == port)
			return p;
	}
	return NULL;
}

/* NULL: memory is short. */
static struct hub_port *port_get(struct fabric_hub *h, uint32_t node, uint32_t port)
{
	struct hub_port *p = hub_port_find(h, node, port);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->node = node;
	p->port = port;
	list_init(&p->adapters);
	list_init(&p->ready);
	list_add_tail(&h->nodes[node], &p->link);
	return p;
}

struct hub_adapter *hub_slot_find(struct hub_port *p, uint32_t slot)
{
	for (struct list *at = p->adapters.next; at != &p->adapters; at = at->next) {
		if (hub_adapter_at(at)->slot == slot)
			return hub_adapter_at(at);
	}
	return NULL;
}

/* Slots are of a node: frames of an adapter come by any of its ports (FAB-21). */
struct hub_adapter *hub_slot_of_node(struct fabric_hub *h, uint32_t node, uint32_t slot)
{
	struct hub_adapter *a = NULL;

	for (struct list *l = h->nodes[node].next; !a && l != &h->nodes[node]; l = l->next)
		a = hub_slot_find(CONTAINER_OF(l, struct hub_port, link), slot);
	return a;
}

/* One that was not used lately, so that late packets find no adapter. 0: there is none. */
static uint8_t slot_free(struct fabric_hub *h, struct hub_port *p)
{
	for (int i = 0; i < SLOT_MAX; i++) {
		p->slot_last = p->slot_last < SLOT_MAX ? p->slot_last + 1 : 1;
		if (!hub_slot_of_node(h, p->node, p->slot_last))
			return p->slot_last;
	}
	return 0;
}

/* The first port with a cable, if none is asked for. */
static enum weft_reason where(struct fabric_hub *h, const struct attach_message *m, uint32_t *node,
			      uint32_t *port, struct attach_state *state)
{
	enum weft_reason r = h->config.find(h->config.owner, m->node, node, port);

	if (r != WEFT_OK)
		return r;
	if (m->port != 0)
		*port = m->port;
	return h->config.tell(h->config.owner, *node, *port, state) ? WEFT_OK : WEFT_R_FABRIC_NODE;
}

/* The other ports of a node, by which its adapters send and receive as well. False: no memory. */
static bool others_get(struct fabric_hub *h, const struct hub_port *first)
{
	struct attach_state state;

	for (uint32_t port = 1;
	     port <= PORT_MAX && h->config.tell(h->config.owner, first->node, port, &state);
	     port++) {
		struct hub_port *p = port_get(h, first->node, port);

		if (!p)
			return false;
		p->state = state;
	}
	return true;
}

/* ---- Claims --------------------------------------------------------------------------------- */

static struct claim *claim_find(struct list *claims, uint64_t service, const uint8_t *gid)
{
	for (struct list *at = claims->next; at != claims; at = at->next) {
		struct claim *c = CONTAINER_OF(at, struct claim, link);

		if (gid ? memcmp(c->gid, gid, sizeof(c->gid)) == 0 : c->service == service)
			return c;
	}
	return NULL;
}

struct hub_adapter *hub_service_find(struct hub_port *p, uint64_t service)
{
	for (struct list *at = p->adapters.next; at != &p->adapters; at = at->next) {
		if (claim_find(&hub_adapter_at(at)->services, service, NULL))
			return hub_adapter_at(at);
	}
	return NULL;
}

bool hub_is_member(struct hub_adapter *a, const uint8_t gid[16])
{
	return claim_find(&a->groups, 0, gid) != NULL;
}

static enum weft_reason claim(struct hub_adapter *a, struct list *claims,
			      const struct attach_message *m, const uint8_t *gid)
{
	struct claim *c = claim_find(claims, m->service, gid);
	struct hub_adapter *other = gid ? NULL : hub_service_find(a->port, m->service);

	if (other && other != a)
		return WEFT_R_ADDRESS_IN_USE;
	if (!c && a->claim_count == CLAIMS_MAX)
		return WEFT_R_LIMIT;
	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return WEFT_R_NO_MEMORY;
		c->service = m->service;
		memcpy(c->gid, m->gid, sizeof(c->gid));
		list_add_tail(claims, &c->link);
		a->claim_count++;
	}
	c->count++;
	return WEFT_OK;
}

static void release(struct hub_adapter *a, struct list *claims, const struct attach_message *m,
		    const uint8_t *gid)
{
	struct claim *c = claim_find(claims, m->service, gid);

	if (!c || --c->count > 0)
		return;
	list_remove(&c->link);
	a->claim_count--;
	free(c);
}

/* ---- Messages ------------------------------------------------------------------------------- */

void hub_say(struct hub_adapter *a, const struct attach_message *m)
{
	if (!hub_is_gone(a))
		(void)attach_message_send(a->fd, m);
}

static void answer(struct hub_adapter *a, enum weft_reason r, enum attach_kind kind)
{
	struct attach_message m = attach_message_of(r == WEFT_OK ? kind : ATTACH_REFUSED);

	m.reason = (uint32_t)r;
	hub_say(a, &m);
}

static enum weft_reason attach(struct fabric_hub *h, struct hub_adapter *a,
			       const struct attach_message *q, struct attach_message *m)
{
	struct attach_state state;
	enum weft_reason r;
	struct hub_port *p;
	uint32_t node;

	if (a->port || q->descriptor < 0 || ring_map(&a->in, q->descriptor) < 0)
		return WEFT_R_BAD_ARGUMENT;
	r = where(h, q, &node, &m->port, &state);
	if (r != WEFT_OK)
		return r;
	p = port_get(h, node, m->port);
	if (!p)
		return WEFT_R_NO_MEMORY;
	if (!others_get(h, p))
		return WEFT_R_NO_MEMORY;
	m->slot = slot_free(h, p);
	if (m->slot == 0)
		return WEFT_R_FABRIC_SLOTS;
	m->descriptor = ring_make(&a->out, ATTACH_RING_BYTES);
	if (m->descriptor < 0 || !bell_make(h, a))
		return WEFT_R_NO_MEMORY;
	m->bell = a->bell;
	p->state = m->state = state;
	a->port = p;
	a->slot = m->slot;
	list_remove(&a->link);
	list_add_tail(&p->adapters, &a->link);
	list_add_tail(&h->active, &a->active);
	h->counts.adapters++;
	return WEFT_OK;
}

static void attach_answer(struct fabric_hub *h, struct hub_adapter *a,
			  const struct attach_message *q)
{
	struct attach_message m = attach_message_of(ATTACH_ATTACHED);
	enum weft_reason r = attach(h, a, q, &m);

	if (r == WEFT_OK)
		hub_say(a, &m);
	else
		answer(a, r, ATTACH_REFUSED);
	if (m.descriptor >= 0)
		call_close(m.descriptor);
	if (!a->port) { /* it may ask again */
		bell_close(h, a);
		ring_unmap(&a->in);
		ring_unmap(&a->out);
	}
}

void hub_activate(struct fabric_hub *h, struct hub_adapter *a)
{
	if (!list_is_linked(&a->active))
		list_add_tail(&h->active, &a->active);
}

/* Frames are there, or it has taken some. */
static void woken(struct fabric_hub *h, struct hub_adapter *a)
{
	if (!a->port)
		return;
	hub_activate(h, a);
	refused_retry(h, a->port->node);
}

/* False: the connection makes no sense. */
static bool attached_take(struct fabric_hub *h, struct hub_adapter *a,
			  const struct attach_message *m)
{
	switch (m->kind) {
	case ATTACH_WAKE:
		woken(h, a);
		return true;
	case ATTACH_CLAIM:
		answer(a, claim(a, &a->services, m, NULL), ATTACH_CLAIMED);
		return true;
	case ATTACH_JOIN:
		answer(a, claim(a, &a->groups, m, m->gid), ATTACH_CLAIMED);
		return true;
	case ATTACH_RELEASE:
		release(a, &a->services, m, NULL);
		return true;
	case ATTACH_LEAVE:
		release(a, &a->groups, m, m->gid);
		return true;
	default:
		return false;
	}
}

static bool message_take(struct fabric_hub *h, struct hub_adapter *a,
			 const struct attach_message *m)
{
	if (m->kind == ATTACH_ATTACH)
		attach_answer(h, a, m);
	else
		return a->port && attached_take(h, a, m);
	return true;
}

/* False: it has ended. */
static bool message_taken(struct fabric_hub *h, struct hub_adapter *a,
			  const struct attach_message *m)
{
	bool is_good = message_take(h, a, m);

	if (m->descriptor >= 0)
		call_close(m->descriptor);
	if (is_good)
		return true;
	if (m->kind == ATTACH_CLOSED) {
		hub_adapter_leave(h, a);
		return false;
	}
	h->counts.broken++;
	hub_adapter_end(h, a);
	return false;
}

/* Of another user: it is sent away. */
static void guest_take(struct fabric_hub *h, int fd)
{
	struct hub_adapter *a = unix_is_trusted(fd) ? calloc(1, sizeof(*a)) : NULL;
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = a };

	if (!a || epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
		free(a);
		call_close(fd);
		return;
	}
	a->fd = fd;
	a->bell = -1;
	list_init(&a->active);
	list_init(&a->touched);
	list_init(&a->full);
	list_init(&a->services);
	list_init(&a->groups);
	list_add_tail(&h->guests, &a->link);
}

static void guests_take(struct fabric_hub *h)
{
	for (int i = 0; i < EVENTS_MAX; i++) {
		int fd = call_accept(h->listener);

		if (fd >= 0)
			guest_take(h, fd);
		else if (!spare_refuse(&h->spare, h->listener, errno))
			return;
	}
}

static void news_tell(struct hub_adapter *a)
{
	struct attach_message m = attach_message_of(ATTACH_NEWS);

	if (a->news == 0)
		return;
	m.news = a->news;
	m.state = a->port->state;
	if (attach_message_send(a->fd, &m))
		a->news = 0;
}

static void adapter_hear(struct fabric_hub *h, struct hub_adapter *a)
{
	struct attach_message m;

	for (int i = 0; i < MESSAGES_MAX; i++) {
		attach_message_take(a->fd, &m);
		if (m.kind == ATTACH_NONE)
			break;
		if (!message_taken(h, a, &m))
			return;
		if (m.kind == ATTACH_WAKE) /* mostly the last one: it is not asked for a next */
			break;
	}
	if (a->port)
		news_tell(a); /* what its socket had no room for before */
}

void fabric_hub_changed(struct fabric_hub *h, uint32_t node, uint32_t port, uint32_t news)
{
	struct hub_port *p = hub_port_find(h, node, port);

	if (!p || !h->config.tell(h->config.owner, node, port, &p->state))
		return;
	for (struct list *at = p->adapters.next; at != &p->adapters; at = at->next) {
		hub_adapter_at(at)->news |= news;
		news_tell(hub_adapter_at(at));
	}
}

bool fabric_hub_hear(struct fabric_hub *h, const struct epoll_event *events, int count)
{
	bool has_other = false;

	/* Bells first: an adapter that ends now may have rung, too. */
	for (int i = 0; i < count; i++) {
		if (bell_adapter(events[i].data.ptr))
			woken(h, bell_adapter(events[i].data.ptr));
	}
	for (int i = 0; i < count; i++) {
		if (events[i].data.ptr == h)
			has_other = true;
		else if (!events[i].data.ptr)
			guests_take(h);
		else if (!bell_adapter(events[i].data.ptr))
			adapter_hear(h, events[i].data.ptr);
	}
	return has_other;
}

enum weft_reason fabric_hub_watch(struct fabric_hub *h, int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = h };

	return epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &e) == 0 ? WEFT_OK : system_reason(errno);
}

/* ---- Adapters that stand still -------------------------------------------------------------- */

/* Less than a switch of opensm's keeps a frame for an endnode (268 ms). */
static const uint64_t still_ns = 200 * 1000 * 1000;

static struct hub_adapter *full_at(struct list *l)
{
	return CONTAINER_OF(l, struct hub_adapter, full);
}

uint64_t fabric_hub_due(const struct fabric_hub *h)
{
	return list_is_empty(&h->full) ? UINT64_MAX : full_at(h->full.next)->full_ns + still_ns;
}

/* One that has taken half of its ring has said so, or should have. */
void fabric_hub_expire(struct fabric_hub *h, uint64_t now_ns)
{
	while (fabric_hub_due(h) <= now_ns) {
		struct hub_adapter *a = full_at(list_pop(&h->full));

		a->is_still = hub_is_half_full(a);
		refused_retry(h, a->port->node);
	}
}

bool fabric_hub_run(struct fabric_hub *h)
{
	return hub_frames_take(h);
}
