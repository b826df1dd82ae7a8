/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kinds of frame ports share: one epoll descriptor with all of a port's own. */
#pragma once

#include <sys/uio.h>

#include "base/check.h"
#include "driver/lan/lan.h"
#include "lan/offload.h"
#include "lan/plan.h"

/* A descriptor of a port's, or -1. */
struct lan_watch {
	int fd;
	uint32_t interest; /* of epoll; 0: none */
	void (*ready)(struct lan_port *port, uint32_t events);
};

/* A kind of port; set_mac, set_link and set_filters are NULL where it has no such thing. */
struct lan_calls {
	size_t bytes; /* of the struct that begins with a lan_port */
	bool takes_rest;
	bool is_level; /* the descriptor is readable for as long as frames wait */
	enum weft_reason (*open)(struct lan_port *port, const struct lan_plan *plan, char *why);
	void (*close)(struct lan_port *port);
	/* Fills frames as lan_receive() does, without checks and counts of frames. */
	uint32_t (*receive)(struct lan_port *port, struct lan_frame *frames, uint32_t count);
	/*
	 * Frames that are good and need no more than the port takes: how many were taken. Each of
	 * those has been counted, by lan_sent() or lan_drop(). They are in one piece unless
	 * takes_rest.
	 */
	uint32_t (*send)(struct lan_port *port, const struct lan_frame *frames, uint32_t count);
	/* Adds to the counts what the kernel has counted. NULL: it counts nothing. */
	void (*count)(struct lan_port *port);
	enum weft_reason (*set_mac)(struct lan_port *port, const uint8_t mac[LAN_MAC_BYTES]);
	enum weft_reason (*set_mtu)(struct lan_port *port, uint32_t mtu);
	enum weft_reason (*set_link)(struct lan_port *port, bool is_up);
	enum weft_reason (*set_filters)(struct lan_port *port, const struct lan_filters *filters);
};

/* A frame on its way as segments; the first ones may have been sent. */
struct lan_cutting {
	bool is_busy;
	struct lan_cut cut;
	uint32_t at, end; /* segments that are cut and not yet sent */
	struct lan_frame segments[LAN_BATCH_MAX];
	uint8_t held[LAN_FRAME_MAX]; /* the frame, when its caller has its own back */
	uint8_t room[2 * (LAN_FRAME_MAX + LAN_HEADERS_MAX)];
};

struct lan_port {
	const struct lan_calls *calls;
	struct lan_cutting *cutting; /* made when the first frame needs it */
	int epoll;
	bool has_input;	   /* frames may wait; the kind clears it when it finds none */
	uint32_t receives; /* with has_input */
	uint32_t news;
	struct lan_properties is;
	struct lan_counts counts;
};

extern const struct lan_calls lan_packet_calls, lan_socket_calls, lan_tap_calls, lan_vhost_calls;

/* Watches fd for events of epoll, others than before, or with 0 no more. */
void lan_watch(struct lan_port *port, struct lan_watch *w, uint32_t interest);

/*
 * Watches a descriptor that a peer gave, in place of none. False: epoll cannot watch it, as a file
 * or a loop of epolls; it is not the watch's then.
 */
bool lan_watch_begin(struct lan_port *port, struct lan_watch *w, int fd, uint32_t interest);

/* Closes its descriptor, if it has one. */
void lan_watch_close(struct lan_port *port, struct lan_watch *w);

/* A timer that was not set: its watch is readable when it ends. False: there is none. */
bool lan_timer_open(struct lan_port *port, struct lan_watch *timer);
void lan_timer_set(struct lan_watch *timer, uint64_t in_ns);

/* What peers connect to, and when it is looked at again, after descriptors were lacking. */
struct lan_listener {
	struct lan_watch listener, timer; /* the descriptor and both calls are set by the kind */
};

/* False: there is no timer, says errno. What is open is to be closed in any case. */
bool lan_accept_open(struct lan_port *port, struct lan_listener *l);
void lan_accept_close(struct lan_port *port, struct lan_listener *l);

/*
 * The listener is readable: the peer's descriptor, or -1. While there is a peer others are sent
 * away.
 */
int lan_accept(struct lan_port *port, struct lan_listener *l, bool has_peer);

/* The timer has ended. */
void lan_accept_again(struct lan_port *port, struct lan_listener *l);

/* Properties as they are now; news if they were others. */
void lan_link_is(struct lan_port *port, bool is_up, enum weft_reason why);
void lan_mac_is(struct lan_port *port, const uint8_t mac[LAN_MAC_BYTES]);
void lan_mtu_is(struct lan_port *port, uint32_t mtu);
void lan_filters_are(struct lan_port *port, const struct lan_filters *filters);

/* Sends what is left of the frame that is being cut. False: the port is full before its end. */
bool lan_send_cut(struct lan_port *port);

enum { LAN_PARTS = 3 /* the header of virtio, and a frame in two pieces */ };

/* What an interface is sent of a frame; head has room for the header. How many parts. */
static inline uint32_t lan_parts(const struct lan_frame *f, uint8_t *head,
				 struct iovec parts[LAN_PARTS])
{
	virtio_net_encode(&f->net, head);
	parts[0] = (struct iovec){ head, VIRTIO_NET_BYTES };
	parts[1] = (struct iovec){ f->bytes, f->length - f->rest_length };
	parts[2] = (struct iovec){ (void *)(uintptr_t)f->rest, f->rest_length };
	return f->rest_length > 0 ? 3 : 2;
}

static inline void lan_sent(struct lan_port *port, const struct lan_frame *f)
{
	port->counts.out.frames++;
	port->counts.out.bytes += f->length;
}

static inline void lan_drop(struct lan_way *way, enum weft_reason reason)
{
	way->drops[reason]++;
}

/* Listens at a path, of which a socket without a process may be left. A descriptor, or -errno. */
int lan_path_listen(const char *path);

/* The reason for an errno of a call on an interface or socket. */
enum weft_reason lan_reason_of(int error);

/* The line for people: what could not be done, and the system's word for it. */
enum weft_reason lan_failed(char *why, const char *what, int error);
