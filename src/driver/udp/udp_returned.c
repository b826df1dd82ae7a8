/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that come back. When a process ends, the kernel closes its sockets. If no other process
 * of that host has the port, each packet to it is answered by an ICMP error that quotes its
 * beginning, one a second after the first few. The kernel queues it at the socket that sent the
 * packet, and lets the next call that sends fail. So nothing is watched, and an error costs one
 * call: a requester that has no answer sends again soon.
 *
 * Only what the receiver itself says counts, and only that it has no such port: a router may not
 * know the way for a moment, or take no large packets.
 */
#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <string.h>
#include <time.h>

#include <linux/errqueue.h>

#include "driver/sys/calls.h"
#include "driver/udp/udp_inside.h"

enum {
	READS_MAX = 32,	     /* the queue holds fewer */
	RETURNED_LATELY = 16 /* between two calls of udp_retry_slots() */
};

static bool is_of_port(const struct sock_extended_err *e)
{
	if (e->ee_origin == SO_EE_ORIGIN_ICMP)
		return e->ee_type == ICMP_DEST_UNREACH && e->ee_code == ICMP_PORT_UNREACH;
	return e->ee_origin == SO_EE_ORIGIN_ICMP6 && e->ee_type == ICMP6_DST_UNREACH &&
	       e->ee_code == ICMP6_DST_UNREACH_NOPORT;
}

/* What the ICMP message says, and who sent it. */
struct error {
	struct sock_extended_err said;
	union udp_name offender;
};

static bool has_error(struct msghdr *m, bool is_ipv6, struct error *error)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		bool is_error = is_ipv6 ? c->cmsg_level == IPPROTO_IPV6 &&
						  c->cmsg_type == IPV6_RECVERR
					: c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR;

		if (!is_error || c->cmsg_len < CMSG_LEN(sizeof(error->said)))
			continue;
		*error = (struct error){ 0 };
		memcpy(error, CMSG_DATA(c),
		       c->cmsg_len - CMSG_LEN(0) < sizeof(*error) ? c->cmsg_len - CMSG_LEN(0)
								  : sizeof(*error));
		return true;
	}
	return false;
}

static void take(struct udp_sender *s, struct msghdr *m, size_t length)
{
	struct udp *u = s->udp;
	struct ib_returned *to = &u->returned[u->returned_count];
	struct inet_end offender;
	struct error error;

	if (length < IBA_BTH_BYTES || u->returned_count == UDP_RETURNED_MAX ||
	    u->returned_lately == RETURNED_LATELY || !has_error(m, s->is_ipv6, &error) ||
	    !is_of_port(&error.said) || error.offender.any.sa_family == AF_UNSPEC)
		return;
	to->is_ipv6 = s->is_ipv6;
	to->from = s->from;
	udp_end_of(m->msg_name, &to->to);
	udp_end_of(&error.offender, &offender);
	if (!inet_is_same_address(s->is_ipv6, offender.address, to->to.address))
		return;
	memcpy(to->bytes, m->msg_iov->iov_base, sizeof(to->bytes));
	u->returned_count++;
	u->returned_lately++;
}

bool udp_take_errors(struct udp_sender *s)
{
	union udp_name name = { 0 };
	uint8_t bytes[IBA_BTH_BYTES];
	uint8_t control[UDP_CONTROL_BYTES] __attribute__((aligned(8)));
	struct iovec piece = { bytes, sizeof(bytes) };
	bool has_any = false;

	for (int i = 0; i < READS_MAX; i++) {
		struct msghdr m = {
			.msg_name = &name,
			.msg_namelen = sizeof(name),
			.msg_iov = &piece,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control),
		};
		ssize_t length;

		s->udp->counts.calls_out++;
		length = call_recv_error(s->watch.fd, &m);
		if (length < 0)
			break;
		has_any = true;
		take(s, &m, (size_t)length);
	}
	return has_any;
}

bool udp_next_returned(struct udp *u, struct ib_returned *packet)
{
	if (u->returned_count == 0)
		return false;
	*packet = u->returned[--u->returned_count];
	return true;
}
