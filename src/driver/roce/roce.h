/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCE for one adapter: the port's core and the sockets, as a carrier of the adapter's network.
 *
 *	roce.c          the carrier's calls: opening and closing, deadlines, counters
 *	roce_packets.h  moves packets between the sockets and the core
 *	roce_line.h     what carries the packets: the sockets, or a port of a fabric
 *	roce_near.h     which packets go by shared memory
 *	roce_faults.h   injects faults into packets on that way
 *	roce_calls.c    the public calls on queue pairs
 *	ee_calls.c      the public calls on end-to-end contexts
 *	tun.h           raw datagrams by a TUN interface
 *	cm_id.h         the connection manager
 *	udp.h           the sockets
 *	fabric_attach.h a port of a fabric
 *	near.h          shared memory to adapters of the same host
 *
 * The adapter's lock guards all of it.
 */
#pragma once

#include <weft/roce.h>

#include "cm/ib_cm.h"
#include "driver/fabric/fabric_attach.h"
#include "driver/loop/net.h"
#include "driver/near/near.h"
#include "driver/udp/udp.h"
#include "ib/ib.h"

/* Packets for which the sockets had no room. Copies, as their source memory may be freed. */
struct roce_rest;

enum { ROCE_ADDRESSES = 16, ROCE_ROUTES = 256 };

/* In a fabric: the local route to a GID. */
struct roce_route {
	uint8_t gid[16];
	struct ib_local local;
};

/* Of a bridge: the LID of a GID's port, as the fabric told it. 0: no other port has it. */
struct roce_bridge_route {
	uint8_t gid[16];
	uint16_t lid;
	uint64_t asked_ns;
};

/* An address that was looked up lately: whether it is this host's, as to look takes long. */
struct roce_address {
	bool is_known, is_ipv6, is_local;
	uint8_t ip[16];
};

struct roce {
	struct carrier carrier;
	struct net *net;
	struct udp *udp;	      /* NULL: in a fabric */
	struct fabric_attach *fabric; /* NULL: by the sockets */
	bool is_active, is_watched;   /* in a fabric: its port */
	bool is_raw;		      /* in a fabric: raw packets of the port come */
	struct event_source events;   /* of the port */
	struct roce_route routes[ROCE_ROUTES];
	struct roce_bridge_route bridge_routes[ROCE_ROUTES];
	uint64_t bridge_asked_ns; /* when the latest of them was */
	struct near *near;	  /* NULL: all packets go by UDP */
	struct ib_direct direct;
	uint8_t near_tries; /* to open it, that are left */
	bool is_near_full;  /* it has no room for the next packet of the rest */
	/* Adapters that refused shared memory: datagrams to them go by UDP, until near_again_ns. */
	bool is_near_refused[IB_ADAPTER_SLOTS];
	uint64_t near_again_ns;
	bool has_near_untaken; /* a datagram went by UDP because a ring was not taken yet */
	struct roce_address addresses[ROCE_ADDRESSES];
	struct ib_port *port;
	struct ib_out *outs; /* UDP_BATCH_MAX */
	uint8_t *room;	     /* the memory of these packets */
	struct roce_rest *rest;
	struct tun *tun;		 /* NULL: there are no raw datagrams */
	struct roce_faults *faults;	 /* NULL: no faults are injected */
	bool has_waited;		 /* output has waited once for the program's next call */
	uint64_t slots_retry_at_ns;	 /* the next udp_retry_slots() */
	uint64_t listeners_resume_at_ns; /* for paused listeners; 0: not set yet */
	uint64_t refused;		 /* packets that the host refused to send */
	enum weft_reason refused_for;
	/* cm_id.h */
	struct ib_cm *cm;
	struct list cm_ids, services;
	struct list leaving; /* cm_ids whose peer has left, and whose connection ends soon */
	struct list again;   /* requests that found no listener, to be repeated */
	struct list neighbours;
	uint64_t look_ns;    /* when to check whether one of them has ended */
	uint32_t cm_id_next; /* the next number */
};

/* A queue pair's membership of a multicast group. */
struct roce_member {
	struct list link;
	struct weft_address group, at;
};

/* The driver's part of a queue pair's connection: ib_owner(). It ends with the core's. */
struct roce_conn {
	struct roce *roce;
	uint32_t mtu_bytes;
	struct ib_conn *conn;
	struct udp_flow_ref flow_ref;
	struct list members;
	struct weft_cm_id *cm_id; /* that ends with it, or NULL */
};

/* The driver's part of an end-to-end context: ib_ee_owner(). */
struct roce_ee {
	struct ib_path path;
	struct weft_address to; /* as the program named it */
	uint32_t rdd, peer_number;
	struct udp_flow_ref flow_ref;
	struct event_source events;
};

/* Converts a program's path to the core's form, with source port 0. */
enum weft_reason roce_path_of(const struct weft_path *from, struct ib_path *to);

/* Whether every packet must be seen: to be captured, or to inject faults. */
bool roce_is_observed(const struct roce *roce);

/* The adapter's RoCE carrier, made at first use; that of a network, or NULL. */
enum weft_reason roce_get(struct weft_adapter *a, struct roce **roce);
struct roce *roce_of(const struct net *net);

/*
 * Takes the core's events: destroys connections whose queue pairs have left, after their last
 * packets were sent, and tells of end-to-end contexts that have failed.
 */
void roce_take_events(struct roce *roce);

void roce_tell(const struct roce *roce, struct weft_roce_counts *counts);

/* The counters of a queue pair. */
void roce_traffic(const struct weft_qp *qp, struct weft_traffic *t);

/* When the next rate-limited queue pair may send again. */
uint64_t roce_pace_due(const struct roce *roce);
