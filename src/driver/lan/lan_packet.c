/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An interface that there is, by a packet socket. Frames are received straight into the caller's
 * buffers, a batch by one call. A ring in shared memory (TPACKET) would be a copy more, as the
 * buffers are the caller's; its blocks (version 3) are handed out after a millisecond at the
 * earliest, and its slots (version 2) take 64 KiB for each frame of any length.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

/* After <sys/socket.h>. */
#include <linux/if_ether.h>
#include <linux/if_packet.h>

#include "driver/lan/lan_link.h"
#include "driver/sys/calls.h"

enum {
	BUFFER_BYTES = 8 << 20,
	ADDRESSES_BYTES = 2 * LAN_MAC_BYTES, /* of a frame: a VLAN tag stands behind them */
	TAG_TYPE = 0x8100,
};

struct lan_packet {
	struct lan_port port;
	struct lan_watch socket;
	struct lan_link link;
	struct lan_filters set; /* by lan_set_filters() */
};

static struct lan_packet *packet_of(struct lan_port *port)
{
	return CONTAINER_OF(port, struct lan_packet, port);
}

static void on_socket(struct lan_port *port, uint32_t events)
{
	struct lan_packet *p = packet_of(port);

	if (events & EPOLLOUT) {
		lan_watch(port, &p->socket, EPOLLIN);
		port->news |= LAN_NEWS_ROOM;
	}
	port->has_input |= (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
}

static void on_link(struct lan_port *port, uint32_t events)
{
	(void)events;
	lan_link_read(port, &packet_of(port)->link);
}

static void packet_close(struct lan_port *port)
{
	struct lan_packet *p = packet_of(port);

	lan_link_close(port, &p->link);
	lan_watch_close(port, &p->socket);
}

static bool option(int fd, int name, int value)
{
	return setsockopt(fd, SOL_PACKET, name, &value, sizeof(value)) == 0;
}

/* Bound last: until then the socket has no protocol, and receives nothing. */
static int socket_make(struct lan_packet *p, uint32_t fanout)
{
	const struct sockaddr_ll at = { .sll_family = AF_PACKET,
					.sll_protocol = htons(ETH_P_ALL),
					.sll_ifindex = p->link.index };
	const int bytes = BUFFER_BYTES;
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	p->socket.fd = fd;
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (!option(fd, PACKET_VNET_HDR, 1) || !option(fd, PACKET_AUXDATA, 1) ||
	    !option(fd, PACKET_IGNORE_OUTGOING, 1) || bind(fd, (const void *)&at, sizeof(at)) < 0)
		return -errno;
	/* Frames of a flow stay with one port of the group. */
	if (fanout &&
	    !option(fd, PACKET_FANOUT,
		    (int)((fanout & UINT16_MAX) |
			  (uint32_t)(PACKET_FANOUT_HASH | PACKET_FANOUT_FLAG_DEFRAG) << 16)))
		return -errno;
	return 0;
}

static enum weft_reason packet_open(struct lan_port *port, const struct lan_plan *plan, char *why)
{
	struct lan_packet *p = packet_of(port);
	int error;

	p->socket = (struct lan_watch){ .fd = -1, .ready = on_socket };
	p->link = (struct lan_link){ .watch = { .fd = -1, .ready = on_link },
				     .is_carrier_counted = true };
	error = lan_link_open(port, &p->link, plan->name);
	if (error == 0 && !p->link.is_ethernet) {
		packet_close(port);
		snprintf(why, LAN_WHY, "%s: its frames are not those of Ethernet", plan->name);
		return WEFT_R_LAN_NONE;
	}
	if (error == 0)
		error = socket_make(p, plan->fanout);
	if (error < 0) {
		packet_close(port);
		return lan_failed(why, plan->name, -error);
	}
	port->is.takes = LAN_CSUM | LAN_TSO4 | LAN_TSO6 | LAN_TSO_ECN;
	port->news = 0;
	lan_watch(port, &p->socket, EPOLLIN);
	return WEFT_OK;
}

/* What the kernel had no room for. */
static void packet_count(struct lan_port *port)
{
	struct lan_packet *p = packet_of(port);
	struct tpacket_stats s = { 0 };
	socklen_t length = sizeof(s);

	if (getsockopt(p->socket.fd, SOL_PACKET, PACKET_STATISTICS, &s, &length) == 0)
		port->counts.in.drops[WEFT_R_LAN_FULL] += s.tp_drops;
}

/* The kernel has taken the tag of a VLAN out of the frame: it goes back where it was. */
static enum weft_reason put_tag(struct lan_frame *f, const struct tpacket_auxdata *aux)
{
	uint16_t type = aux->tp_status & TP_STATUS_VLAN_TPID_VALID ? aux->tp_vlan_tpid : TAG_TYPE;
	const uint8_t tag[LAN_VLAN_BYTES] = { (uint8_t)(type >> 8), (uint8_t)type,
					      (uint8_t)(aux->tp_vlan_tci >> 8),
					      (uint8_t)aux->tp_vlan_tci };

	if (f->length < ADDRESSES_BYTES || f->length + LAN_VLAN_BYTES > f->room)
		return WEFT_R_LAN_LONG;
	memmove(f->bytes + ADDRESSES_BYTES + LAN_VLAN_BYTES, f->bytes + ADDRESSES_BYTES,
		f->length - ADDRESSES_BYTES);
	memcpy(f->bytes + ADDRESSES_BYTES, tag, sizeof(tag));
	f->length += LAN_VLAN_BYTES;
	if (f->net.flags & VIRTIO_NET_NEEDS_CSUM)
		f->net.csum_start += LAN_VLAN_BYTES;
	if (f->net.hdr_len > 0)
		f->net.hdr_len += LAN_VLAN_BYTES;
	return WEFT_OK;
}

union control {
	struct cmsghdr header;
	uint8_t bytes[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
};

static enum weft_reason finish(struct lan_frame *f, struct mmsghdr *m, const uint8_t *head)
{
	f->net = (struct virtio_net){ 0 };
	virtio_net_decode(&f->net, head, VIRTIO_NET_BYTES);
	f->length = m->msg_len - VIRTIO_NET_BYTES;
	if (m->msg_hdr.msg_flags & MSG_TRUNC)
		return WEFT_R_LAN_LONG;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m->msg_hdr); c; c = CMSG_NXTHDR(&m->msg_hdr, c)) {
		struct tpacket_auxdata aux;

		if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA)
			continue;
		memcpy(&aux, CMSG_DATA(c), sizeof(aux));
		if (aux.tp_status & TP_STATUS_VLAN_VALID)
			return put_tag(f, &aux);
	}
	return WEFT_OK;
}

static uint32_t packet_receive(struct lan_port *port, struct lan_frame *frames, uint32_t count)
{
	struct lan_packet *p = packet_of(port);
	struct mmsghdr messages[LAN_BATCH_MAX] = { 0 };
	struct iovec parts[LAN_BATCH_MAX][2];
	uint8_t heads[LAN_BATCH_MAX][VIRTIO_NET_BYTES];
	union control controls[LAN_BATCH_MAX];
	uint32_t good = 0;
	int n;

	for (uint32_t i = 0; i < count; i++) {
		parts[i][0] = (struct iovec){ heads[i], sizeof(heads[i]) };
		parts[i][1] = (struct iovec){ frames[i].bytes, frames[i].room };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = parts[i],
						       .msg_iovlen = 2,
						       .msg_control = &controls[i],
						       .msg_controllen = sizeof(controls[i]) };
	}
	n = call_recvmmsg(p->socket.fd, messages, count);
	if (n <= 0) {
		/* ENETDOWN is told once: then the interface may come up again. */
		port->has_input = n < 0 && errno != EAGAIN && errno != EINTR;
		return 0;
	}
	port->has_input = (uint32_t)n == count; /* epoll tells of what comes from now on */
	for (int i = 0; i < n; i++) {
		struct lan_frame f = frames[i];
		enum weft_reason r = finish(&f, &messages[i], heads[i]);

		/* What is no good leaves its buffer behind the good ones. */
		frames[i] = frames[good];
		frames[good] = f;
		if (r == WEFT_OK)
			good++;
		else
			lan_drop(&port->counts.in, r);
	}
	return good;
}

/* ENOBUFS: the interface's queue is full, which no descriptor tells of: the frame is lost. */
static enum weft_reason lost_reason(int error)
{
	switch (error) {
	case ENETDOWN:
	case ENXIO:
	case ENODEV:
		return WEFT_R_LAN_DOWN;
	case EMSGSIZE:
		return WEFT_R_LAN_LONG;
	case EINVAL:
		return WEFT_R_LAN_OFFLOAD;
	default:
		return WEFT_R_LAN_FULL;
	}
}

static uint32_t send_some(struct lan_packet *p, const struct lan_frame *frames, uint32_t count)
{
	struct mmsghdr messages[LAN_BATCH_MAX] = { 0 };
	struct iovec parts[LAN_BATCH_MAX][LAN_PARTS];
	uint8_t heads[LAN_BATCH_MAX][VIRTIO_NET_BUFFERS_BYTES];
	int n;

	for (uint32_t i = 0; i < count; i++) {
		messages[i].msg_hdr = (struct msghdr){
			.msg_iov = parts[i],
			.msg_iovlen = lan_parts(&frames[i], heads[i], parts[i]),
		};
	}
	n = call_sendmmsg(p->socket.fd, messages, count);
	for (int i = 0; i < n; i++)
		lan_sent(&p->port, &frames[i]);
	return n > 0 ? (uint32_t)n : 0;
}

static uint32_t packet_send(struct lan_port *port, const struct lan_frame *frames, uint32_t count)
{
	struct lan_packet *p = packet_of(port);
	uint32_t done = 0;

	/* Bound: each round takes a frame, or is the last. */
	while (done < count) {
		uint32_t n = send_some(p, frames + done, count - done);

		done += n;
		if (n > 0)
			continue;
		if (errno == EAGAIN) {
			lan_watch(port, &p->socket, EPOLLIN | EPOLLOUT);
			break;
		}
		lan_drop(&port->counts.out, lost_reason(errno));
		done++;
	}
	return done;
}

/* Of the others: what the kernel takes out again when the socket closes. */
static bool member(struct lan_packet *p, int what, int type, const uint8_t *mac)
{
	struct packet_mreq m = { .mr_ifindex = p->link.index, .mr_type = (unsigned short)type };

	if (mac) {
		m.mr_alen = LAN_MAC_BYTES;
		memcpy(m.mr_address, mac, LAN_MAC_BYTES);
	}
	return setsockopt(p->socket.fd, SOL_PACKET, what, &m, sizeof(m)) == 0;
}

static bool has_group(const struct lan_filters *f, const uint8_t *mac)
{
	for (uint32_t i = 0; i < f->multicast_count; i++) {
		if (memcmp(f->multicast[i], mac, LAN_MAC_BYTES) == 0)
			return true;
	}
	return false;
}

/* Adds or drops the groups that only one of the lists has. */
static bool change_groups(struct lan_packet *p, int what, const struct lan_filters *of,
			  const struct lan_filters *others)
{
	bool is_good = true;

	for (uint32_t i = 0; i < of->multicast_count; i++) {
		if (!has_group(others, of->multicast[i]))
			is_good &= member(p, what, PACKET_MR_MULTICAST, of->multicast[i]);
	}
	return is_good;
}

static bool change_flag(struct lan_packet *p, int type, bool is, bool was)
{
	return is == was ||
	       member(p, is ? PACKET_ADD_MEMBERSHIP : PACKET_DROP_MEMBERSHIP, type, NULL);
}

/* VLANs: a packet socket sees the frames of all. */
static enum weft_reason packet_set_filters(struct lan_port *port, const struct lan_filters *f)
{
	struct lan_packet *p = packet_of(port);
	const struct lan_filters *was = &p->set;

	if (f->multicast_count > sizeof(f->multicast) / LAN_MAC_BYTES)
		return WEFT_R_BAD_ARGUMENT;
	if (!change_flag(p, PACKET_MR_PROMISC, f->is_promiscuous, was->is_promiscuous) ||
	    !change_flag(p, PACKET_MR_ALLMULTI, f->is_all_multicast, was->is_all_multicast) ||
	    !change_groups(p, PACKET_DROP_MEMBERSHIP, was, f) ||
	    !change_groups(p, PACKET_ADD_MEMBERSHIP, f, was))
		return lan_reason_of(errno);
	p->set = *f;
	lan_filters_are(port, f);
	return WEFT_OK;
}

static enum weft_reason packet_set_mac(struct lan_port *port, const uint8_t mac[LAN_MAC_BYTES])
{
	struct lan_packet *p = packet_of(port);
	enum weft_reason r = lan_link_set_mac(&p->link, mac);

	lan_link_read(port, &p->link);
	return r;
}

static enum weft_reason packet_set_mtu(struct lan_port *port, uint32_t mtu)
{
	struct lan_packet *p = packet_of(port);
	enum weft_reason r = lan_link_set_mtu(&p->link, mtu);

	lan_link_read(port, &p->link);
	return r;
}

const struct lan_calls lan_packet_calls = {
	.bytes = sizeof(struct lan_packet),
	.takes_rest = true,
	.is_level = true,
	.open = packet_open,
	.close = packet_close,
	.receive = packet_receive,
	.send = packet_send,
	.count = packet_count,
	.set_mac = packet_set_mac,
	.set_mtu = packet_set_mtu,
	.set_filters = packet_set_filters,
};
