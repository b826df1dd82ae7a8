/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "driver/sys/calls.h"
#include "driver/udp/udp_inside.h"
#include "wire/iba_icrc.h"

enum { OPTION_UDP_GRO = 104 };

/* ---- Reading -------------------------------------------------------------------------------- */

/* Whether all messages come from the flow's peer: not those from before it was connected. */
static bool is_connected(const struct udp_socket *s)
{
	return s->kind == UDP_FLOW &&
	       !CONTAINER_OF(s, const struct udp_flow, socket)->has_other_peers;
}

static void prepare(struct udp *u, const struct udp_socket *s, uint32_t count)
{
	bool has_control = s->kind != UDP_CLIENT;
	bool has_name = has_control && !is_connected(s);

	for (uint32_t i = 0; i < count; i++) {
		struct msghdr *m = &u->heads[i].msg_hdr;

		u->pieces_in[i] = (struct iovec){
			.iov_base = u->buffers + (size_t)i * UDP_BUFFER_BYTES,
			.iov_len = UDP_BUFFER_BYTES,
		};
		*m = (struct msghdr){
			.msg_name = has_name ? &u->names[i] : NULL,
			.msg_namelen = has_name ? sizeof(u->names[i]) : 0,
			.msg_iov = &u->pieces_in[i],
			.msg_iovlen = 1,
			.msg_control = has_control ? u->controls[i] : NULL,
			.msg_controllen = has_control ? UDP_CONTROL_BYTES : 0,
		};
	}
}

/* As many messages as came last; twice as many if the read was full; few if they are large. */
static uint32_t ask_for_next(const struct udp *u, uint32_t asked, uint32_t count)
{
	uint32_t max = u->heads[count - 1].msg_len > UDP_LARGE_BYTES ? UDP_BUFFERS_LARGE
								     : UDP_BUFFERS;

	if (count == asked)
		count = 2 * asked;
	return count < max ? count : max;
}

static void found_empty(struct udp_socket *s)
{
	udp_socket_await(s, false);
	s->ask_for = 1;
	/* The socket is empty: packets from before connect() have been read. */
	if (s->kind == UDP_FLOW)
		CONTAINER_OF(s, struct udp_flow, socket)->has_other_peers = false;
}

static void note_source(struct udp *u, const struct udp_socket *s)
{
	u->source.kind = s->kind;
	u->source.is_ipv6 = s->is_ipv6;
	u->source.is_connected = is_connected(s);
	u->source.at = s->at;
	u->source.peer = s->peer;
}

bool udp_read(struct udp_socket *s)
{
	struct udp *u = s->udp;
	uint32_t asked = s->ask_for;
	int count;

	prepare(u, s, asked);
	note_source(u, s);
	u->fetched = u->fetched_next = 0;
	u->has_client_left = false;
	u->counts.calls_in++;
	count = call_recvmmsg(s->watch.fd, u->heads, asked);
	if (count <= 0) {
		u->counts.calls_empty++;
		/* The call returned a pending error, for example of a flow whose peer is gone. */
		if (count < 0 && errno != EAGAIN)
			return errno != EBADF;
		found_empty(s);
		return false;
	}
	/* The end of a unix connection reads as empty messages. */
	u->has_client_left = s->kind == UDP_CLIENT && u->heads[count - 1].msg_len == 0;
	u->fetched = (uint32_t)count;
	udp_hot_add(u, s);
	if (u->fetched < asked)
		found_empty(s);
	s->ask_for = ask_for_next(u, asked, u->fetched);
	return u->fetched == asked;
}

/* ---- Taking apart --------------------------------------------------------------------------- */

static int number_of(const struct cmsghdr *c)
{
	int value = 0;

	/* IP_RECVTOS gives a byte, the others an int. */
	if (c->cmsg_len == CMSG_LEN(1))
		return CMSG_DATA(c)[0];
	memcpy(&value, CMSG_DATA(c), sizeof(value));
	return value;
}

static void see_ipv4(const struct cmsghdr *c, struct ib_in *in)
{
	struct in_pktinfo info;

	switch (c->cmsg_type) {
	case IP_PKTINFO:
		memcpy(&info, CMSG_DATA(c), sizeof(info));
		memcpy(in->to.address, &info.ipi_addr, sizeof(info.ipi_addr));
		break;
	case IP_TOS:
		in->traffic_class = (uint8_t)number_of(c);
		break;
	case IP_TTL:
		in->hop_limit = (uint8_t)number_of(c);
		break;
	default:
		break;
	}
}

static void see_ipv6(const struct cmsghdr *c, struct ib_in *in)
{
	struct in6_pktinfo info;

	switch (c->cmsg_type) {
	case IPV6_PKTINFO:
		memcpy(&info, CMSG_DATA(c), sizeof(info));
		memcpy(in->to.address, &info.ipi6_addr, sizeof(info.ipi6_addr));
		break;
	case IPV6_TCLASS:
		in->traffic_class = (uint8_t)number_of(c);
		break;
	case IPV6_HOPLIMIT:
		in->hop_limit = (uint8_t)number_of(c);
		break;
	default:
		break;
	}
}

/* Starts with a message that came by UDP. */
static void begin_packets(struct udp *u, uint32_t i)
{
	struct msghdr *m = &u->heads[i].msg_hdr;
	struct ib_in *in = &u->in;

	*in = (struct ib_in){ .is_ipv6 = u->source.is_ipv6, .to = u->source.at };
	in->to.port = IBA_UDP_PORT;
	if (u->source.is_connected)
		in->from = u->source.peer;
	else
		udp_end_of(&u->names[i], &in->from);
	u->stretch = (struct udp_stretch){ u->pieces_in[i].iov_base, u->heads[i].msg_len,
					   u->heads[i].msg_len, 0 };
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == IPPROTO_IP)
			see_ipv4(c, in);
		else if (c->cmsg_level == IPPROTO_IPV6)
			see_ipv6(c, in);
		else if (c->cmsg_level == SOL_UDP && c->cmsg_type == OPTION_UDP_GRO)
			u->stretch.each = (size_t)number_of(c);
	}
	if (u->stretch.each == 0)
		u->stretch.each = u->stretch.length;
}

/* Starts with the next record or message that has packets; false: there is none. */
static bool begin_next(struct udp *u)
{
	/* Bound: each iteration passes a record or a message. */
	while (u->stretch.length == 0) {
		uint32_t i = u->fetched_next;

		if (udp_record_next(u, &u->in, &u->stretch))
			continue;
		if (i == u->fetched)
			return false;
		u->fetched_next++;
		if (u->heads[i].msg_hdr.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
			u->counts.malformed++;
		else if (u->source.kind == UDP_CLIENT)
			u->records = rd_of(u->pieces_in[i].iov_base, u->heads[i].msg_len);
		else
			begin_packets(u, i);
	}
	return true;
}

static void see_handed(struct udp *u)
{
	u->counts.handed_to_us++;
	if (iba_dest_number(u->in.bytes, u->in.length) >> 16 == u->adapter_slot)
		udp_flow_notice(u, &u->in);
}

const struct ib_in *udp_next(struct udp *u)
{
	bool is_handed = u->source.kind == UDP_CLIENT;

	while (begin_next(u)) {
		struct udp_stretch *s = &u->stretch;
		struct udp_owner_key owner_key = { .kind = UDP_OURS };

		u->in.bytes = s->bytes;
		u->in.length = s->each < s->length ? s->each : s->length;
		u->in.ipv4_id = s->given++; /* as the kernel that cut them apart numbers them */
		u->in.ipv4_fragment = IBA_IPV4_DF;
		s->bytes += u->in.length;
		s->length -= u->in.length;
		if (is_handed)
			see_handed(u);
		else
			owner_key = udp_owner_key(u, &u->in);
		if (owner_key.kind == UDP_OURS || !udp_hand_on(u, &owner_key, &u->in, s->each)) {
			u->counts.packets_in++;
			u->counts.bytes_in += u->in.length;
			return &u->in;
		}
	}
	(void)udp_hand_flush(u);
	return NULL;
}
