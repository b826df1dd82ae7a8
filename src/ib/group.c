/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams to many (IBA 10.5): every queue pair of the port that has joined the group gets a copy,
 * the one that sent it too, if it has.
 */
#include "ib/group.h"

#include <stdlib.h>
#include <string.h>

#include "ib/conn.h"
#include "ib/datagram.h"
#include "ib/port.h"

enum { MEMBERS_MAX = 4096 };

/* A membership of a queue pair in a group. */
struct member {
	struct list link;
	struct ib_conn *conn;
	struct ib_group group;
};

static bool is_group(const struct ib_group *g, bool is_ipv6, const uint8_t *address)
{
	return g->is_ipv6 == is_ipv6 && inet_is_same_address(is_ipv6, g->address, address);
}

static struct member *member_at(const struct list *at)
{
	return CONTAINER_OF(at, struct member, link);
}

static struct member *find(const struct ib_conn *c, const struct ib_group *group)
{
	const struct list *members = &c->port->members;

	for (const struct list *at = members->next; at != members; at = at->next) {
		struct member *m = member_at(at);

		if (m->conn == c && is_group(&m->group, group->is_ipv6, group->address))
			return m;
	}
	return NULL;
}

static bool is_multicast(const struct ib_group *group)
{
	return group->is_ipv6 ? group->address[0] == 0xff : group->address[0] >> 4 == 0xe;
}

enum weft_reason ib_join(struct ib_conn *c, const struct ib_group *group)
{
	struct ib_port *port = c->port;
	struct member *m;

	if (!is_multicast(group))
		return WEFT_R_BAD_ARGUMENT;
	if (c->service != WEFT_UD)
		return WEFT_R_WR_SERVICE;
	if (!c->qp)
		return WEFT_R_QP_STATE;
	if (find(c, group))
		return WEFT_OK;
	if (port->member_count == MEMBERS_MAX)
		return WEFT_R_LIMIT;
	m = calloc(1, sizeof(*m));
	if (!m)
		return WEFT_R_NO_MEMORY;
	m->conn = c;
	m->group = *group;
	list_add_tail(&port->members, &m->link);
	port->member_count++;
	return WEFT_OK;
}

static void member_free(struct member *m)
{
	m->conn->port->member_count--;
	list_remove(&m->link);
	free(m);
}

void ib_leave(struct ib_conn *c, const struct ib_group *group)
{
	struct member *m = find(c, group);

	if (m)
		member_free(m);
}

void group_leave_all(struct ib_conn *c)
{
	struct list *members = &c->port->members, *at = members->next;

	while (c->service == WEFT_UD && at != members) {
		struct member *m = member_at(at);

		at = at->next;
		if (m->conn == c)
			member_free(m);
	}
}

/* The next from there on that is in the group which the packet is for; NULL: none. */
static struct member *next_of(const struct ib_port *port, const struct list *at,
			      const struct ib_in *in)
{
	for (; at != &port->members; at = at->next) {
		struct member *m = member_at(at);

		if (is_group(&m->group, in->is_ipv6, in->to.address))
			return m;
	}
	return NULL;
}

/*
 * Bound: the members of all groups. A queue pair may leave all of its groups by what it gets, but
 * is in this one once: so the next is not the same.
 */
static enum weft_reason give_all(struct ib_port *port, const struct iba_packet *p,
				 const struct ib_in *in)
{
	enum weft_reason why = WEFT_R_PEER_UNKNOWN, r;
	struct member *next = next_of(port, port->members.next, in);
	bool is_taken = false;

	while (next) {
		struct member *m = next;

		next = next_of(port, m->link.next, in);
		tally_of(port, m->conn->qp)->packets_in++;
		tally_of(port, m->conn->qp)->bytes_in += in->length;
		r = iba_pkey_match(p->p_key, m->conn->p_key) ? ud_recv(m->conn, p, in)
							     : WEFT_R_IB_PKEY;
		is_taken |= r == WEFT_OK;
		why = r;
	}
	return is_taken ? WEFT_OK : why;
}

enum weft_reason group_recv(struct ib_port *port, const struct iba_packet *p,
			    const struct ib_in *in)
{
	enum weft_reason r;

	if (iba_service(p->opcode) != IBA_UD)
		return WEFT_R_IB_SERVICE;
	if (list_is_empty(&port->members))
		return WEFT_R_PEER_UNKNOWN;
	r = port_check_icrc(port, in);
	return r == WEFT_OK ? give_all(port, p, in) : r;
}
