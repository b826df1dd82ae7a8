/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCE for one adapter: the port's core and the sockets, as a part of the adapter's network.
 *
 *	roce.c        packets between the sockets and the core; life and death
 *	roce_faults.c what befalls them there on purpose
 *	roce_calls.c  the public calls on queue pairs
 *	ee_calls.c    the public calls on end-to-end contexts
 *	tun.h         the carrier of raw datagrams
 *	cm_id.h     the connection manager
 *	udp.h         the sockets
 *
 * The adapter's lock guards all of it.
 */
#pragma once

#include <weft/roce.h>

#include "cm/ib_cm.h"
#include "driver/loop/net.h"
#include "driver/udp/udp.h"
#include "ib/ib.h"

/* Packets that the sockets had no room for: copies, for what they were made of may be gone. */
struct roce_rest;

struct roce {
	struct carrier carrier;
	struct net *net;
	struct udp *udp;
	struct ib_port *port;
	struct ib_out *outs; /* UDP_BATCH_MAX */
	uint8_t *room;	     /* that they lie in */
	struct roce_rest *rest;
	struct tun *tun;		 /* NULL: there are no raw datagrams */
	struct roce_faults *faults;	 /* NULL: packets are left in peace */
	bool has_waited;		 /* what is to be sent, for the program's next call */
	uint64_t slots_retry_at_ns;	 /* when slots that nobody had are tried again */
	uint64_t listeners_resume_at_ns; /* of those that were paused; 0: not known yet */
	uint64_t refused;		 /* packets that the host did not take */
	enum weft_reason refused_for;
	/* cm_id.h */
	struct ib_cm *cm;
	struct list cm_ids, services;
	struct list leaving; /* cm_ids whose other end has left, and whose connection ends soon */
	struct list again;   /* that found nobody, and ask once more */
	struct list neighbours;
	uint64_t look_ns;    /* when to see whether one of them is gone */
	uint32_t cm_id_next; /* number */
};

/* A group that a queue pair is a member of. */
struct roce_member {
	struct list link;
	struct weft_address group, at;
};

/* A queue pair's connection as the driver sees it: ib_owner(). It ends with the core's. */
struct roce_conn {
	struct roce *roce;
	struct ib_conn *conn;
	struct udp_flow_ref flow_ref;
	struct list members;
	struct weft_cm_id *cm_id; /* that ends with it, or NULL */
};

/* An end-to-end context, likewise: ib_ee_owner(). */
struct roce_ee {
	struct ib_path path;
	uint32_t rdd, peer_number;
	struct udp_flow_ref flow_ref;
	struct event_source events;
};

/* The way that a program describes, as the core has it, from no port yet. */
enum weft_reason roce_path_of(const struct weft_path *from, struct ib_path *to);

/* The adapter's RoCE, made at first use; the network's, or NULL. */
enum weft_reason roce_get(struct weft_adapter *a, struct roce **roce);
struct roce *roce_of(const struct net *net);

/* Reads the sockets that epoll reported, with is_hot also the hot ones. True: something came. */
bool roce_input(struct roce *roce, bool is_hot);

/* Receives all that has come. True: something was there. */
bool roce_input_all(struct roce *roce);

/* Receives what lies in the shared sockets, so that what is others' goes on to them. */
bool roce_input_shared(struct roce *roce);

/* A packet has come. False: it was no good. */
bool roce_take(struct roce *roce, const struct ib_in *in);

/* True: all are done, one way or the other; false: the socket is full. */
bool roce_send(struct roce *roce, struct udp_batch *batch);

/* ---- roce_faults.c: with faults alone ---- */

/* What WEFT_FAULTS wants of packets, if anything. */
enum weft_reason roce_faults_open(struct roce *roce);

/* In the slot of roce_take() and roce_send(). */
void roce_faults_take(struct roce *roce, const struct ib_in *in);
bool roce_faults_send(struct roce *roce, struct udp_batch *batch);

/* Packets that are held back. */
uint64_t roce_faults_due(const struct roce *roce);
void roce_faults_expire(struct roce *roce, uint64_t now_ns);

void roce_tell(const struct roce *roce, struct weft_roce_counts *counts);

/* What a queue pair has carried. */
void roce_traffic(const struct qp_tally *of, struct weft_traffic *t);
/* When a queue pair that keeps to a rate may send on. */
uint64_t roce_pace_due(const struct roce *roce);
