/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sockets of RoCE for one adapter: UDP port 4791, which all adapters of a host share, and what
 * else it takes that each gets its packets. No packet is looked into further than to see for whom
 * it is; no thread, no lock: the adapter's lock guards all of it.
 *
 * Slots. An adapter has a slot on its host (network namespace), 1 to 254: the highest 8 bits of
 * the numbers of its queue pairs and end-to-end contexts, and of its communication ids. A slot is
 * the name of a unix socket, and vanishes with the process.
 *
 * Who gets what. The kernel gives a packet to any one of those that have bound the port, by a hash
 * of the addresses and the source port. Whoever gets what is another's hands it on to that one's
 * unix socket, once: what was handed on is never handed on again. A *flow* is a socket that is
 * connected to one source port of one peer; the kernel prefers it, and so nearly all packets of
 * connected queue pairs, and of contexts, come straight to their process.
 *
 * Requests of connection management (REQ, SIDR_REQ) go to whoever claims their service, all other
 * management datagrams by the slot in the receiver's communication id. Those that nobody is there
 * for are given to who got them, to be answered.
 *
 * What others on the host can do. One that closes hands on what lies in its shared sockets, and one
 * that speaks to a contact what it said there. A process that dies takes with it what else lay
 * unread in its sockets, as a lost packet; its contacts learn of it (neighbour.c). One that is
 * stopped keeps what the kernel gives its shared sockets: packets that no flow is for, of those
 * peers' source ports whose hash is its. To send again by another source port helps. All processes
 * that share the port are of one user, and trust each other; those of other users cannot bind it
 * (WEFT_R_ROCE_PORT), nor hand on, nor are they handed to.
 *
 * Order. Packets of one source port come in the order in which the kernel had them, except around
 * the moment at which an adapter of the host opens or closes RoCE, or a flow for them is opened:
 * what then lies in another process's socket comes later than what has a flow already. Flows that
 * are opened before the peer sends its first packet, as those of connections are, do no harm.
 */
#pragma once

#include <weft/weft.h>

#include "driver/loop/watch.h"
#include "ib/ib.h"

struct udp;

struct udp_config {
	/* Watches a descriptor for these events, 0: no longer; its ready() is called then. */
	void (*watch)(void *owner, struct watch *w, uint32_t events);
	void *owner;
};

/* WEFT_OK, or why the host does not let us: WEFT_R_ROCE_PORT, WEFT_R_ROCE_SLOTS, ... */
enum weft_reason udp_open(const struct udp_config *config, struct udp **udp);
void udp_close(struct udp *udp);

/*
 * Nothing comes any more. What the kernel gave us and is others' they get yet; of what is ours
 * nobody wants to know.
 */
void udp_hand_on_rest(struct udp *udp);

/* In a child of fork(): gives its copies of the descriptors back. Only udp_close() may follow. */
void udp_abandon(struct udp *udp);

uint8_t udp_adapter_slot(const struct udp *udp);

/* A descriptor that is connected to a slot's name, as long as that is there; or negative. */
int udp_slot_connect(uint8_t adapter_slot);

/*
 * The source port of what one queue pair sends to another. For what goes to the GSI (receiver 1)
 * the sender's low four bits choose one of 16.
 */
uint16_t udp_source_port(uint32_t sender_qp, uint32_t receiver_qp);

/* ---- Packets in ----------------------------------------------------------------------------- */

/*
 * Reads from sockets that are known to have something (ready() was called) and, with is_hot, from
 * one of those that had something lately, without being told. Bounded: a few hundred KiB at most.
 * True: udp_next() has something, or more can be fetched: call both until this is false, or not.
 */
bool udp_fetch(struct udp *udp, bool is_hot);

/*
 * The next packet of those that were fetched, good until the next call; NULL: none left. What is
 * others' has been handed on.
 */
const struct ib_in *udp_next(struct udp *udp);

/*
 * Slots that nobody had are not tried again for each packet that names them, nor for more than a
 * few management datagrams, until this is called: so once in a while.
 */
void udp_retry_slots(struct udp *udp);

/*
 * Whether descriptors were short for adapters that came to hand on. They wait, and nobody is told
 * of them, until these listeners are opened: so once in a while.
 */
bool udp_has_paused_listeners(const struct udp *udp);
void udp_listeners_resume(struct udp *udp);

/* Whether there is a socket to ask without being told. */
bool udp_is_hot(const struct udp *udp);

/* As if told of all those of which nobody would tell: udp_fetch() reads them in turn. */
void udp_ask_all(struct udp *udp);

/* As if told of the shared sockets; and whether one of them has not been found empty since. */
void udp_ask_shared(struct udp *udp);
bool udp_is_shared_asked(const struct udp *udp);

/*
 * The program polls, and the thread stands by: sockets that are asked at every poll need not be
 * watched, which costs the kernel work with every packet. Or no longer: all are watched again.
 */
void udp_stand_by(struct udp *udp, bool is_polled);

/*
 * ---- Flows ----------------------------------------------------------------------------------
 *
 * For connected queue pairs and end-to-end contexts. Sources of which many packets had to be handed
 * to us get flows by themselves, a few at a time.
 */

/* What one of these has of a flow; all zero: it has none, and does without. */
struct udp_flow_ref {
	struct udp_flow *flow;
	uint16_t other_port; /* from which its packets come instead */
	uint16_t other_count;
};

/*
 * Opens the flow by which the peer's packets are expected, if there is none: path as ours. It is
 * not an error if none can be had.
 */
void udp_flow_open(struct udp *udp, const struct ib_path *path, uint32_t our_qp, uint32_t peer_qp,
		   struct udp_flow_ref *flow_ref);

/* A packet of the queue pair's peer that was found good: where it came from is where more will. */
void udp_flow_learn(struct udp *udp, struct udp_flow_ref *flow_ref, const struct ib_in *in);
void udp_flow_close(struct udp *udp, struct udp_flow_ref *flow_ref);

/* ---- Packets out ---------------------------------------------------------------------------- */

/*
 * Packets that it pays to gather, and bytes: two packets of a Write, of which the first is longer
 * than the others, and as many more as one message to the kernel holds, which cuts it apart again.
 * A batch may have more, a message may not.
 */
enum { UDP_BATCH_MAX = 64, UDP_BATCH_BYTES_MAX = 17 * (28 + 4096 + 4), UDP_RUN_BYTES_MAX = 65000 };

/*
 * Packets to send, in this order. Neighbours of the same path and ECN leave as one message if they
 * are of the same length, of which the last may be shorter; IPv4 numbers them then from 0
 * (identification). The ICRC of a packet was made for its ipv4_id, and is changed if that turns out
 * to be another: it must be the last four bytes of the last span. Those that lie behind each other
 * in memory are sent from there, others are copied first.
 */
struct udp_batch {
	struct ib_out *outs;
	uint32_t count;
	uint32_t done;	  /* in and out: packets with which nothing more is to be done */
	uint32_t refused; /* out: of those the last so many, for the reason that is returned */
};

/*
 * WEFT_OK: all are done, or the socket is full (done < count): udp_is_blocked() until a ready() was
 * called. Otherwise some were refused, as if lost: call again for those that follow.
 */
enum weft_reason udp_send(struct udp *udp, struct udp_batch *batch);
bool udp_is_blocked(const struct udp *udp);

/*
 * Sees that the path's source port can be sent from, else chooses another. Not needed before
 * udp_send(), which however refuses where this would choose.
 */
enum weft_reason udp_source(struct udp *udp, struct ib_path *path);

/* ---- Services and groups -------------------------------------------------------------------- */

/*
 * Requests for this service come here, until it was released as often as it was claimed.
 * WEFT_R_ADDRESS_IN_USE if they go elsewhere already.
 */
enum weft_reason udp_claim_service(struct udp *udp, uint64_t service_id);
void udp_release_service(struct udp *udp, uint64_t service_id);

/* Packets to this group that arrive at the interface which has the address `at`; as often left. */
enum weft_reason udp_join(struct udp *udp, const struct weft_address *group,
			  const struct weft_address *at);
void udp_leave(struct udp *udp, const struct weft_address *group, const struct weft_address *at);

/* ---- Counters ------------------------------------------------------------------------------- */

struct udp_counts {
	uint64_t calls_in, calls_out, calls_empty;
	uint64_t packets_in;		  /* that were given out by udp_next() */
	uint64_t packets_out;		  /* that the kernel took */
	uint64_t bytes_in, bytes_out;	  /* of UDP payload, of the same */
	uint64_t handed_on, handed_to_us; /* packets */
	uint64_t lost_on;		  /* that nobody took, or whose owner has no room */
	uint64_t sent_away;		  /* connections of other users to our unix names */
	uint64_t malformed;	/* cut short by the kernel, or handed on in no known form */
	uint64_t renumbered;	/* packets whose ICRC had to be changed */
	uint64_t flows_refused; /* flows that could not be had */
};

const struct udp_counts *udp_counts(const struct udp *udp);

/* Packets that the kernel had for our sockets, and no room for. Asks the kernel. */
uint64_t udp_overruns(const struct udp *udp);
