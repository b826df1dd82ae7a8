/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A guest's network card: QEMU connects to a unix socket, shows the guest's memory and the rings of
 * its card (vhost-user), and frames are copied from and to the guest's buffers. One guest at a
 * time; one that lies loses its connection, with the reason, and may come again.
 */
#include "driver/lan/lan_vhost.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>

#include "driver/sys/calls.h"
#include "driver/sys/guard.h"

enum { MTU = 1500 };

static struct lan_vhost *vhost_of(struct lan_port *port)
{
	return CONTAINER_OF(port, struct lan_vhost, port);
}

static void lose(struct lan_vhost *v, enum weft_reason why)
{
	lan_watch_close(&v->port, &v->peer);
	vhost_forget(v);
	v->port.has_input = false;
	lan_link_is(&v->port, false, why);
}

static void on_peer(struct lan_port *port, uint32_t events)
{
	struct lan_vhost *v = vhost_of(port);
	enum weft_reason r = vhost_messages(v);

	(void)events;
	if (r != WEFT_OK) {
		lose(v, r);
		return;
	}
	lan_link_is(port, vhost_is_ready(v), WEFT_R_LAN_DOWN);
	/* What the guest had sent before it was looked at. */
	port->has_input |= port->is.is_up;
}

static void on_listener(struct lan_port *port, uint32_t events)
{
	struct lan_vhost *v = vhost_of(port);
	int fd = lan_accept(port, &v->from, v->peer.fd >= 0);

	(void)events;
	if (fd < 0)
		return;
	v->peer.fd = fd;
	lan_watch(port, &v->peer, EPOLLIN);
}

static void on_again(struct lan_port *port, uint32_t events)
{
	(void)events;
	lan_accept_again(port, &vhost_of(port)->from);
}

static void on_kick(struct lan_port *port, uint32_t events)
{
	struct lan_vhost *v = vhost_of(port);

	/* The other end of a pipe that was given instead of an eventfd has gone. */
	if (events & (EPOLLHUP | EPOLLERR)) {
		lose(v, WEFT_R_VHOST_MESSAGE);
		return;
	}
	port->has_input = true;
}

/* The guest has made room. */
static void on_room(struct lan_port *port, uint32_t events)
{
	struct lan_vhost *v = vhost_of(port);

	port->news |= LAN_NEWS_ROOM;
	if (events & (EPOLLHUP | EPOLLERR))
		lose(v, WEFT_R_VHOST_MESSAGE);
}

static void vhost_close(struct lan_port *port)
{
	struct lan_vhost *v = vhost_of(port);

	(void)unlink(v->path);
	lan_accept_close(port, &v->from);
	lan_watch_close(port, &v->peer);
	vhost_forget(v);
	guard_close();
}

static enum weft_reason vhost_open(struct lan_port *port, const struct lan_plan *plan, char *why)
{
	struct lan_vhost *v = vhost_of(port);
	enum weft_reason r;

	v->peer = (struct lan_watch){ .fd = -1, .ready = on_peer };
	v->rings[VHOST_RX].kick = (struct lan_watch){ .fd = -1, .ready = on_room };
	v->rings[VHOST_TX].kick = (struct lan_watch){ .fd = -1, .ready = on_kick };
	v->rings[VHOST_RX].call = v->rings[VHOST_TX].call = -1;
	vhost_forget(v);
	port->is.mtu = MTU;
	memcpy(v->path, plan->name, sizeof(v->path));
	v->from.timer = (struct lan_watch){ .fd = -1, .ready = on_again };
	v->from.listener = (struct lan_watch){ .fd = lan_path_listen(v->path),
					       .ready = on_listener };
	if (v->from.listener.fd < 0)
		return lan_failed(why, v->path, -v->from.listener.fd);
	guard_open();
	if (lan_accept_open(port, &v->from))
		return WEFT_OK;
	r = lan_failed(why, "a timer", errno);
	vhost_close(port);
	return r;
}

/* Frames that go from or to the guest in one access to its memory. */
struct turn {
	struct lan_vhost *v;
	struct lan_frame *in;
	const struct lan_frame *out;
	uint32_t count, done;
	enum weft_reason why; /* the guest is lost */
	bool is_call_wanted;
};

static void receive_work(void *argument)
{
	struct turn *t = argument;
	struct lan_port *port = &t->v->port;
	struct lan_vring *ring = &t->v->rings[VHOST_TX].ring;

	/* Bound: frames that are no good count, too. */
	for (uint32_t looked = 0; t->done < t->count && looked < LAN_BATCH_MAX; looked++) {
		bool got;
		enum weft_reason r = lan_vring_receive(ring, &t->v->guest, t->v->form.header_bytes,
						       &t->in[t->done], &got);

		if (r == WEFT_R_LAN_LONG) {
			lan_drop(&port->counts.in, r);
		} else if (r != WEFT_OK) {
			t->why = r;
			return;
		} else if (got) {
			t->done++;
		} else if (!lan_vring_ask_kick(ring)) {
			port->has_input = false;
			break;
		}
	}
	t->is_call_wanted = lan_vring_wants_call(ring);
}

static void send_work(void *argument)
{
	struct turn *t = argument;
	struct lan_port *port = &t->v->port;
	struct lan_vring *ring = &t->v->rings[VHOST_RX].ring;

	while (t->done < t->count) {
		struct lan_frame f = t->out[t->done];
		enum weft_reason r;
		bool done;

		/* A guest that does not look at checksums gets no word about them. */
		if (!(port->is.takes & LAN_CSUM))
			f.net.flags = 0;
		r = lan_vring_send(ring, &t->v->guest, &t->v->form, &f, &done);
		if (r == WEFT_R_LAN_LONG) {
			lan_drop(&port->counts.out, r);
		} else if (r != WEFT_OK) {
			t->why = r;
			return;
		} else if (done) {
			lan_sent(port, &f);
		} else if (!lan_vring_ask_kick(ring)) {
			break;
		} else {
			continue;
		}
		t->done++;
	}
	t->is_call_wanted = lan_vring_wants_call(ring);
}

/* How many frames went; the guest is told, or lost. */
static uint32_t take_turn(struct turn *t, void (*work)(void *), const struct vhost_ring *ring)
{
	const uint64_t once = 1;

	if (!vhost_memory_touch(&t->v->memory, work, t))
		t->why = WEFT_R_VHOST_MEMORY;
	if (t->why != WEFT_OK)
		lose(t->v, t->why);
	else if (t->is_call_wanted && ring->call >= 0)
		(void)call_write(ring->call, &once, sizeof(once));
	return t->done;
}

static uint32_t vhost_receive(struct lan_port *port, struct lan_frame *frames, uint32_t count)
{
	struct lan_vhost *v = vhost_of(port);
	struct turn t = { .v = v, .in = frames, .count = count };

	if (port->is.is_up)
		return take_turn(&t, receive_work, &v->rings[VHOST_TX]);
	/* A guest that kicks before its rings are ready, or after they stopped, is seen later. */
	port->has_input = false;
	return 0;
}

static uint32_t vhost_send(struct lan_port *port, const struct lan_frame *frames, uint32_t count)
{
	struct lan_vhost *v = vhost_of(port);
	struct turn t = { .v = v, .out = frames, .count = count };

	return take_turn(&t, send_work, &v->rings[VHOST_RX]);
}

static enum weft_reason vhost_set_mtu(struct lan_port *port, uint32_t mtu)
{
	lan_mtu_is(port, mtu);
	return WEFT_OK;
}

const struct lan_calls lan_vhost_calls = {
	.bytes = sizeof(struct lan_vhost),
	.open = vhost_open,
	.close = vhost_close,
	.receive = vhost_receive,
	.send = vhost_send,
	.set_mtu = vhost_set_mtu,
};
