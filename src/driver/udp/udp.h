/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sockets of RoCE for one adapter. All adapters of a host share UDP port 4791; this module
 * brings each packet to the adapter that owns it. It reads a packet only as far as needed to find
 * the owner. It has no thread and no lock: the adapter's lock guards all of it.
 *
 * Slots. An adapter has a slot on its host (network namespace), 1 to 254: the highest 8 bits of
 * the numbers of its queue pairs and end-to-end contexts, and of its communication ids. A slot is
 * claimed by binding the name of a unix socket, so it is freed when the process ends.
 *
 * Delivery. The kernel gives a packet to any one of the sockets bound to the port, by a hash of the
 * addresses and the source port. An adapter that receives a packet of another adapter hands it on
 * to the owner's unix socket, once: a packet is never handed on twice. A *flow* is a socket
 * connected to one source port of one peer. The kernel prefers it, so nearly all packets of
 * connected queue pairs and contexts come straight to their process.
 *
 * Requests of connection management (REQ, SIDR_REQ) go to the adapter that claims their service,
 * other management datagrams to the slot in the receiver's communication id. A datagram without an
 * owner stays with the adapter that received it, which answers it.
 *
 * Failures on the host. An adapter that closes hands on the packets in its shared sockets; so does
 * an adapter after it sends the last message of a cm_id. A process that dies loses the other unread
 * packets in its sockets, as on a lossy network; peers of its cm_ids on the host notice
 * (neighbour.c). A stopped process keeps the packets that the kernel gives its shared sockets:
 * those without a flow, from source ports whose hash selects it. Sending again from another source
 * port helps. All processes that share the port belong to one user and trust each other. Processes
 * of other users cannot bind it (WEFT_R_ROCE_PORT), and packets are neither accepted from nor
 * handed on to them.
 *
 * Order. Packets of one source port come in the order in which the kernel received them, except
 * around the moment when an adapter of the host opens or closes RoCE, or a flow for them is opened:
 * packets that lie in another process's socket then arrive after those that already have a flow. A
 * flow opened before the peer sends its first packet, as for a connection, causes no reordering.
 */
#pragma once

#include <weft/weft.h>

#include "driver/loop/watch.h"
#include "ib/ib.h"

struct udp;

struct udp_config {
	/* Watches a descriptor for these events, 0: no longer; calls its ready(). */
	void (*watch)(void *owner, struct watch *w, uint32_t events);
	void *owner;
};

/* WEFT_OK, or why the host refuses: WEFT_R_ROCE_PORT, WEFT_R_ROCE_SLOTS, ... */
enum weft_reason udp_open(const struct udp_config *config, struct udp **udp);
void udp_close(struct udp *udp);

/*
 * Stops receiving. Packets of other adapters that lie in our shared sockets are handed on; our own
 * are dropped.
 */
void udp_hand_on_rest(struct udp *udp);

/* In a child of fork(): closes its copies of the descriptors. Only udp_close() may follow. */
void udp_abandon(struct udp *udp);

uint8_t udp_adapter_slot(const struct udp *udp);

/* A descriptor connected to the unix socket of a slot, until its owner closes it; or negative. */
int udp_slot_connect(uint8_t adapter_slot);

/*
 * The source port of packets from one queue pair to another. For packets to the GSI (receiver 1)
 * the sender's low four bits choose one of 16.
 */
uint16_t udp_source_port(uint32_t sender_qp, uint32_t receiver_qp);

/* Whether the address is one of this host's. */
bool udp_is_local(bool is_ipv6, const uint8_t *address);

/* ---- Packets in ----------------------------------------------------------------------------- */

/*
 * Reads sockets that epoll reported (ready() was called) and, with is_hot, one of the hot sockets,
 * which had input lately, without asking epoll. Bounded: a few hundred KiB at most. True:
 * udp_next() has a packet, or more can be fetched; the caller may call both until this is false.
 */
bool udp_fetch(struct udp *udp, bool is_hot);

/*
 * The next of the fetched packets, valid until the next call; NULL: none left. Packets of other
 * adapters have been handed on.
 */
const struct ib_in *udp_next(struct udp *udp);

/*
 * Looking up the owner of a slot is rate-limited: after a slot was found free, packets to it are
 * dropped without another lookup, and only a few lookups are made for management datagrams, until
 * this is called; so is udp_next_returned(). Call it periodically.
 */
void udp_retry_slots(struct udp *udp);

/*
 * Whether listeners of this adapter's unix names paused, because descriptors were short for
 * adapters that connect to hand packets on. These wait until the listeners resume. Call it
 * periodically.
 */
bool udp_has_paused_listeners(const struct udp *udp);
void udp_listeners_resume(struct udp *udp);

/* Whether there is a hot socket, to be read without asking epoll. */
bool udp_is_hot(const struct udp *udp);

/* Marks the hot sockets that epoll does not watch as ready: udp_fetch() reads them in turn. */
void udp_ask_all(struct udp *udp);

/* Marks the shared sockets as ready; and whether one has not been read empty since. */
void udp_ask_shared(struct udp *udp);
bool udp_is_shared_asked(const struct udp *udp);

/*
 * is_polled: the program polls, and the thread stands by. epoll then need not watch sockets that
 * are read at every poll, which saves the kernel work with every packet. False: epoll watches all.
 */
void udp_stand_by(struct udp *udp, bool is_polled);

/*
 * ---- Flows ----------------------------------------------------------------------------------
 *
 * For connected queue pairs and end-to-end contexts. A source whose packets were often handed on to
 * us gets a flow automatically; there are only a few of these.
 */

/* The flow of a queue pair or context; all zero: it has none, which is allowed. */
struct udp_flow_ref {
	struct udp_flow *flow;
	uint16_t other_port; /* source port from which its packets come instead */
	uint16_t other_count;
};

/*
 * Opens the flow for the packets that the peer is expected to send, unless it exists. path: from
 * our end to the peer. It is not an error if no flow can be opened.
 */
void udp_flow_open(struct udp *udp, const struct ib_path *path, uint32_t our_qp, uint32_t peer_qp,
		   struct udp_flow_ref *flow_ref);

/* A valid packet of the peer came: learns its source port, from which more will come. */
void udp_flow_learn(struct udp *udp, struct udp_flow_ref *flow_ref, const struct ib_in *in);
void udp_flow_close(struct udp *udp, struct udp_flow_ref *flow_ref);

/* ---- Packets out ---------------------------------------------------------------------------- */

/*
 * How many packets, and bytes, it pays to gather into a batch: two packets of a Write, whose first
 * is longer than the others, and as many more as one GSO message holds, which the kernel splits
 * again. A batch may exceed this, a message (UDP_RUN_BYTES_MAX) may not.
 */
enum { UDP_BATCH_MAX = 64, UDP_BATCH_BYTES_MAX = 17 * (28 + 4096 + 4), UDP_RUN_BYTES_MAX = 65000 };

/*
 * Packets to send, in this order. Consecutive packets with the same path, ECN and length leave as
 * one GSO message; the last may be shorter. The kernel then numbers them from 0 (IPv4
 * identification). The ICRC of a packet was computed for its ipv4_id, and is adjusted if the kernel
 * uses another one: it must be the last four bytes of the last span. Packets that are contiguous in
 * memory are sent from there, others are copied first.
 */
struct udp_batch {
	struct ib_out *outs;
	uint32_t count;
	uint32_t done;	  /* in and out: packets sent or refused */
	uint32_t refused; /* out: so many of the last ones done, for the reason returned */
};

/*
 * WEFT_OK: all are done, or the socket is full (done < count), and udp_is_blocked() until ready()
 * is called. Another reason: some packets were refused, as if lost; call again for the rest.
 */
enum weft_reason udp_send(struct udp *udp, struct udp_batch *batch);
bool udp_is_blocked(const struct udp *udp);

/*
 * Takes a packet of ours that came back as its receiver's host has no socket for it. False: there
 * is none. Known as soon as another packet goes by the same source port; a few at a time, however
 * many come.
 */
bool udp_next_returned(struct udp *udp, struct ib_returned *packet);

/*
 * Makes sure that packets can be sent from the path's source port, else chooses another port. A
 * call before udp_send() is optional; but udp_send() refuses where this would choose.
 */
enum weft_reason udp_source(struct udp *udp, struct ib_path *path);

/* ---- Services and groups -------------------------------------------------------------------- */

/*
 * Requests for this service come to this adapter, until it was released as often as claimed.
 * WEFT_R_ADDRESS_IN_USE: another adapter of the host has claimed it.
 */
enum weft_reason udp_claim_service(struct udp *udp, uint64_t service_id);
void udp_release_service(struct udp *udp, uint64_t service_id);

/*
 * Joins the group at the interface that has the address `at`; must be left as often as joined.
 */
enum weft_reason udp_join(struct udp *udp, const struct weft_address *group,
			  const struct weft_address *at);
void udp_leave(struct udp *udp, const struct weft_address *group, const struct weft_address *at);

/* ---- Counters ------------------------------------------------------------------------------- */

struct udp_counts {
	uint64_t calls_in, calls_out, calls_empty;
	uint64_t packets_in;		  /* returned by udp_next() */
	uint64_t packets_out;		  /* that the kernel took */
	uint64_t bytes_in, bytes_out;	  /* UDP payload of these */
	uint64_t handed_on, handed_to_us; /* packets */
	uint64_t lost_on;		  /* not handed on: no owner, or its socket is full */
	uint64_t sent_away;		  /* connections of other users to our unix names */
	uint64_t malformed;	/* truncated by the kernel, or handed on in an unknown format */
	uint64_t renumbered;	/* packets whose ICRC was adjusted */
	uint64_t flows_refused; /* flows that could not be opened */
};

const struct udp_counts *udp_counts(const struct udp *udp);

/* Packets that the kernel dropped because our sockets were full. Asks the kernel. */
uint64_t udp_overruns(const struct udp *udp);
