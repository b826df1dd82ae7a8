/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A TAP interface: the host's own card, whose cable this port is. What the host sends is received
 * here. The host decides whether the interface is up, and what it wants to receive; the port says
 * whether there is a carrier. The kernel tells of joined groups only if it is asked: that is done a
 * moment after frames were sent, as a host that joins sends one.
 *
 * Of several queues all are received from in turn. A frame is sent to the queue of its flow, so
 * that a flow stays in order; the kernel answers it by the same queue.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include "driver/lan/lan_link.h"
#include "driver/sys/calls.h"

enum {
	/* Segmentation of UDP came with Linux 6.2, younger than the headers. */
	FEATURE_USO = 0x20 | 0x40,
	FEATURES = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN,
};

static const uint64_t groups_after_ns = UINT64_C(200) * 1000 * 1000;

struct lan_tap {
	struct lan_port port;
	struct lan_watch queues[LAN_QUEUES_MAX], timer;
	uint32_t queue_count;
	uint32_t next; /* the queue whose turn it is to be received from */
	struct lan_link link;
	bool is_timer_set;
};

static struct lan_tap *tap_of(struct lan_port *port)
{
	return CONTAINER_OF(port, struct lan_tap, port);
}

static void on_tap(struct lan_port *port, uint32_t events)
{
	struct lan_tap *t = tap_of(port);

	if (events & EPOLLOUT) {
		for (uint32_t i = 0; i < t->queue_count; i++)
			lan_watch(port, &t->queues[i], t->queues[i].interest & EPOLLIN);
		port->news |= LAN_NEWS_ROOM;
	}
	port->has_input |= (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
}

static void on_link(struct lan_port *port, uint32_t events)
{
	(void)events;
	lan_link_read(port, &tap_of(port)->link);
}

static void on_timer(struct lan_port *port, uint32_t events)
{
	struct lan_tap *t = tap_of(port);
	uint64_t times;

	(void)events;
	(void)call_read(t->timer.fd, &times, sizeof(times));
	t->is_timer_set = false;
	lan_link_groups(port, &t->link);
}

static bool take_features(struct lan_tap *t)
{
	t->port.is.takes = LAN_CSUM | LAN_TSO4 | LAN_TSO6 | LAN_TSO_ECN;
	if (ioctl(t->queues[0].fd, TUNSETOFFLOAD, FEATURES | FEATURE_USO) == 0) {
		t->port.is.takes |= LAN_USO;
		return true;
	}
	return ioctl(t->queues[0].fd, TUNSETOFFLOAD, FEATURES) == 0;
}

/* 0 or a negative errno. The name may have a number in it that the kernel chooses (tap%d). */
static int queue_make(struct lan_watch *q, struct ifreq *r)
{
	q->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (q->fd < 0)
		return -errno;
	if (ioctl(q->fd, TUNSETIFF, r) < 0)
		return errno == EINVAL ? -EBUSY : -errno;
	return 0;
}

static int tap_make(struct lan_tap *t, const struct lan_plan *plan, struct ifreq *r)
{
	const int header_bytes = VIRTIO_NET_BYTES, yes = 1;

	r->ifr_flags = (short)(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR |
			       (t->queue_count > 1 ? IFF_MULTI_QUEUE : 0));
	memcpy(r->ifr_name, plan->name, sizeof(r->ifr_name));
	for (uint32_t i = 0; i < t->queue_count; i++) {
		int error = queue_make(&t->queues[i], r);

		if (error < 0)
			return error;
	}
	/* These are of all queues. */
	if (ioctl(t->queues[0].fd, TUNSETVNETHDRSZ, &header_bytes) < 0 ||
	    ioctl(t->queues[0].fd, TUNSETVNETLE, &yes) < 0 || !take_features(t))
		return -errno;
	return 0;
}

static enum weft_reason failed(char *why, const char *name, int error)
{
	enum weft_reason r = lan_failed(why, name, error);

	if (error == EBUSY)
		snprintf(why, LAN_WHY,
			 "%.*s: another process has it, it is no TAP, or it was made for one queue "
			 "and not several, or the reverse",
			 LAN_INTERFACE_MAX, name);
	return r;
}

static void tap_close(struct lan_port *port)
{
	struct lan_tap *t = tap_of(port);

	lan_link_close(port, &t->link);
	lan_watch_close(port, &t->timer);
	for (uint32_t i = 0; i < t->queue_count; i++)
		lan_watch_close(port, &t->queues[i]);
}

static enum weft_reason tap_open(struct lan_port *port, const struct lan_plan *plan, char *why)
{
	struct lan_tap *t = tap_of(port);
	struct ifreq r = { 0 };
	int error;

	t->queue_count = plan->queues > 0 ? plan->queues : 1;
	for (uint32_t i = 0; i < t->queue_count; i++)
		t->queues[i] = (struct lan_watch){ .fd = -1, .ready = on_tap };
	t->timer = (struct lan_watch){ .fd = -1, .ready = on_timer };
	t->link = (struct lan_link){ .watch = { .fd = -1, .ready = on_link }, .has_filters = true };
	error = tap_make(t, plan, &r);
	if (error == 0)
		error = lan_link_open(port, &t->link, r.ifr_name);
	if (error == 0 && !lan_timer_open(port, &t->timer))
		error = -errno;
	if (error < 0) {
		tap_close(port);
		return failed(why, plan->name, -error);
	}
	for (uint32_t i = 0; i < t->queue_count; i++)
		lan_watch(port, &t->queues[i], EPOLLIN);
	lan_link_groups(port, &t->link);
	port->news = 0;
	return WEFT_OK;
}

/* A longer frame than there is room for is cut short by the kernel: one byte more shows that. */
static ssize_t read_frame(const struct lan_watch *q, struct lan_frame *f)
{
	uint8_t head[VIRTIO_NET_BYTES], excess;
	struct iovec parts[] = { { head, sizeof(head) },
				 { f->bytes, f->room },
				 { &excess, sizeof(excess) } };
	ssize_t n = readv(q->fd, parts, 3);

	if (n < (ssize_t)sizeof(head))
		return n < 0 ? n : 0;
	f->length = (uint32_t)((size_t)n - sizeof(head));
	f->net = (struct virtio_net){ 0 };
	virtio_net_decode(&f->net, head, sizeof(head));
	return n;
}

/* Deleted: the interface is down for good, and epoll would not rest. */
static void lose(struct lan_tap *t)
{
	for (uint32_t i = 0; i < t->queue_count; i++)
		lan_watch(&t->port, &t->queues[i], 0);
	lan_link_is(&t->port, false, WEFT_R_LAN_NONE);
}

/* How many frames. Fewer than count: the queue has no more. */
static uint32_t queue_receive(struct lan_tap *t, const struct lan_watch *q,
			      struct lan_frame *frames, uint32_t count)
{
	uint32_t done = 0;

	while (done < count) {
		ssize_t n = read_frame(q, &frames[done]);

		if (n < 0 && errno != EAGAIN && errno != EINTR)
			lose(t);
		if (n <= 0)
			break;
		if (frames[done].length > frames[done].room)
			lan_drop(&t->port.counts.in, WEFT_R_LAN_LONG);
		else
			done++;
	}
	return done;
}

static uint32_t tap_receive(struct lan_port *port, struct lan_frame *frames, uint32_t count)
{
	struct lan_tap *t = tap_of(port);
	uint32_t done = 0;

	/* A queue that fills all of it is followed by the next one the next time. */
	for (uint32_t i = 0; i < t->queue_count && done < count; i++) {
		done += queue_receive(t, &t->queues[t->next], frames + done, count - done);
		t->next = (t->next + 1) % t->queue_count;
	}
	port->has_input = done == count;
	if (done > 0 && !t->is_timer_set) {
		t->is_timer_set = true;
		lan_timer_set(&t->timer, groups_after_ns);
	}
	return done;
}

static enum weft_reason lost_reason(int error)
{
	switch (error) {
	case EIO:
	case ENETDOWN:
	case EBADFD:
		return WEFT_R_LAN_DOWN;
	case EINVAL:
		return WEFT_R_LAN_OFFLOAD;
	default:
		return WEFT_R_LAN_FULL;
	}
}

static struct lan_watch *queue_of(struct lan_tap *t, const struct lan_frame *f)
{
	return &t->queues[t->queue_count > 1 ? lan_flow(f) % t->queue_count : 0];
}

static uint32_t tap_send(struct lan_port *port, const struct lan_frame *frames, uint32_t count)
{
	struct lan_tap *t = tap_of(port);

	for (uint32_t i = 0; i < count; i++) {
		uint8_t head[VIRTIO_NET_BUFFERS_BYTES];
		struct iovec parts[LAN_PARTS];
		uint32_t pieces = lan_parts(&frames[i], head, parts);

		struct lan_watch *q = queue_of(t, &frames[i]);

		if (writev(q->fd, parts, (int)pieces) >= 0) {
			lan_sent(port, &frames[i]);
		} else if (errno == EAGAIN) {
			lan_watch(port, q, EPOLLIN | EPOLLOUT);
			return i;
		} else {
			lan_drop(&port->counts.out, lost_reason(errno));
		}
	}
	return count;
}

/* The change comes back as a notice, which the caller is not to wait for. */
static enum weft_reason tap_set_mac(struct lan_port *port, const uint8_t mac[LAN_MAC_BYTES])
{
	struct lan_tap *t = tap_of(port);
	enum weft_reason r = lan_link_set_mac(&t->link, mac);

	lan_link_read(port, &t->link);
	return r;
}

static enum weft_reason tap_set_mtu(struct lan_port *port, uint32_t mtu)
{
	struct lan_tap *t = tap_of(port);
	enum weft_reason r = lan_link_set_mtu(&t->link, mtu);

	lan_link_read(port, &t->link);
	return r;
}

static enum weft_reason tap_set_link(struct lan_port *port, bool is_up)
{
	int carrier = is_up;

	return ioctl(tap_of(port)->queues[0].fd, TUNSETCARRIER, &carrier) == 0
		       ? WEFT_OK
		       : lan_reason_of(errno);
}

const struct lan_calls lan_tap_calls = {
	.bytes = sizeof(struct lan_tap),
	.takes_rest = true,
	.is_level = true,
	.open = tap_open,
	.close = tap_close,
	.receive = tap_receive,
	.send = tap_send,
	.set_mac = tap_set_mac,
	.set_mtu = tap_set_mtu,
	.set_link = tap_set_link,
};
