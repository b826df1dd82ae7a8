/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "driver/udp/udp_inside.h"

/* ---- Services ------------------------------------------------------------------------------- */

static struct udp_service *service_find(const struct udp *u, uint64_t id)
{
	for (struct list *at = u->services.next; at != &u->services; at = at->next) {
		struct udp_service *s = CONTAINER_OF(at, struct udp_service, link);

		if (s->id == id)
			return s;
	}
	return NULL;
}

bool udp_has_service(const struct udp *u, uint64_t service_id)
{
	return service_find(u, service_id) != NULL;
}

/* A name that only one process can have, to which others hand on requests. */
enum weft_reason udp_claim_service(struct udp *u, uint64_t service_id)
{
	struct udp_service *s = service_find(u, service_id);
	int err;

	if (s) {
		s->claims++;
		return WEFT_OK;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return WEFT_R_NO_MEMORY;
	err = udp_listener_open(
		u, &s->socket,
		&(struct udp_owner_key){ .kind = UDP_SERVICES, .service_id = service_id }, true);
	if (err < 0) {
		free(s);
		return socket_reason_of(-err);
	}
	s->id = service_id;
	s->claims = 1;
	list_add_tail(&u->services, &s->link);
	udp_socket_start(&s->socket);
	return WEFT_OK;
}

static void service_free(struct udp_service *s)
{
	list_remove(&s->link);
	udp_listener_close(&s->socket);
	free(s);
}

void udp_release_service(struct udp *u, uint64_t service_id)
{
	struct udp_service *s = service_find(u, service_id);

	if (s && --s->claims == 0)
		service_free(s);
}

/* ---- Groups --------------------------------------------------------------------------------- */

static bool is_same_address(const struct weft_address *a, const struct weft_address *b)
{
	return a->family == b->family && memcmp(a->ip, b->ip, a->family == 6 ? 16 : 4) == 0;
}

static struct udp_group *group_find(const struct udp *u, const struct weft_address *group,
				    const struct weft_address *at)
{
	for (struct list *i = u->groups.next; i != &u->groups; i = i->next) {
		struct udp_group *g = CONTAINER_OF(i, struct udp_group, link);

		if (is_same_address(&g->group, group) && is_same_address(&g->at, at))
			return g;
	}
	return NULL;
}

static int membership4(int fd, const struct udp_group *g, bool is_joined)
{
	struct ip_mreqn m = { 0 };

	memcpy(&m.imr_multiaddr, g->group.ip, sizeof(m.imr_multiaddr));
	memcpy(&m.imr_address, g->at.ip, sizeof(m.imr_address));
	return setsockopt(fd, IPPROTO_IP, is_joined ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &m,
			  sizeof(m));
}

static int membership6(int fd, const struct udp_group *g, bool is_joined)
{
	struct ipv6_mreq m = { .ipv6mr_interface = udp_interface_of(true, g->at.ip) };

	if (m.ipv6mr_interface == 0) {
		errno = ENODEV;
		return -1;
	}
	memcpy(&m.ipv6mr_multiaddr, g->group.ip, sizeof(m.ipv6mr_multiaddr));
	return setsockopt(fd, IPPROTO_IPV6, is_joined ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &m,
			  sizeof(m));
}

static enum weft_reason membership(struct udp *u, const struct udp_group *g, bool is_joined)
{
	bool is_ipv6 = g->group.family == 6;
	int fd = u->shared[is_ipv6].watch.fd;
	int err = is_ipv6 ? membership6(fd, g, is_joined) : membership4(fd, g, is_joined);

	if (err == 0)
		return WEFT_OK;
	return errno == ENOBUFS ? WEFT_R_LIMIT : socket_reason_of(errno);
}

enum weft_reason udp_join(struct udp *u, const struct weft_address *group,
			  const struct weft_address *at)
{
	struct udp_group *g = group_find(u, group, at);
	enum weft_reason r;

	if (g) {
		g->refs++;
		return WEFT_OK;
	}
	if (group->family != at->family)
		return WEFT_R_ADDRESS;
	g = calloc(1, sizeof(*g));
	if (!g)
		return WEFT_R_NO_MEMORY;
	*g = (struct udp_group){ .group = *group, .at = *at, .refs = 1 };
	r = membership(u, g, true);
	if (r != WEFT_OK) {
		free(g);
		return r;
	}
	list_add_tail(&u->groups, &g->link);
	return WEFT_OK;
}

void udp_leave(struct udp *u, const struct weft_address *group, const struct weft_address *at)
{
	struct udp_group *g = group_find(u, group, at);

	if (!g || --g->refs > 0)
		return;
	(void)membership(u, g, false); /* if the interface is gone, so is the membership */
	list_remove(&g->link);
	free(g);
}

/* The kernel leaves groups when the socket is closed. */
void udp_groups_close(struct udp *u)
{
	while (!list_is_empty(&u->services))
		service_free(CONTAINER_OF(u->services.next, struct udp_service, link));
	while (!list_is_empty(&u->groups))
		free(CONTAINER_OF(list_pop(&u->groups), struct udp_group, link));
}
