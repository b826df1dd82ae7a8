/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port: its table of connections, the lists and deadlines that they wait in, and its counters.
 * What each file of this room does:
 *
 *	port.c      packets in and out, the table of connections, deadlines, events
 *	conn.c      creation and end of a connection, the transport's table for the verbs
 *	packet.c    builds outgoing packets: headers, payload, ICRC
 *	migrate.c   alternate paths
 *	pace.c      output rate: limits and congestion control
 *	message.c   an incoming Send or Write: every check, placement, delivery
 *	rc_req.c    RC requester: requests -> packets                           (requester.h)
 *	rc_comp.c   RC completer: responses and acknowledgements of the peer    (requester.h)
 *	rc_early.c  requests of the peer that came before a lost one
 *	rc_holes.c  missing Read responses
 *	rc_genuine.c  which PSNs a genuine peer can be at
 *	direct.c    Writes and Reads in the memory of a peer on this host
 *	rc_retry.c  timeouts and retries
 *	rc_resp.c   RC responder: requests of the peer                          (responder.h, rc.h)
 *	rc_reply.c  RC responder: responses and acknowledgements                (responder.h, rc.h)
 *	uc.c, ud.c  the unacknowledged services                                 (datagram.h)
 *	gsi.c       management datagrams, to and from queue pair 1
 *	group.c     multicast
 *	ee.c        end-to-end contexts: creation and end, turns of the queue pairs
 *	rd.c        reliable datagrams: where they differ from RC               (ee.h)
 *	raw.c       raw datagrams                                               (ib.h)
 *	route.c     local and global routes, in a fabric
 *
 * A file's header has its name, unless another one is given. ib.h is the room's face to others.
 */
#pragma once

#include "ib/gsi.h"
#include "ib/rc_early.h"

struct hole_list;
struct requester;

enum {
	IB_HELD_MAX = 64, /* pins of one batch of packets */
	IB_BOUNCES = 16,  /* copies of a batch, if its owner supplies no room */
	IB_FACTORS = IBA_PACKET_MAX / 4 + 1
};

struct ib_port {
	struct adapter *adapter;
	uint16_t p_keys[IB_PKEYS_MAX];
	struct ib_conn **conns; /* by the slot of the queue pair's number */
	uint32_t conns_max, conns_used;
	struct timer_queue timers; /* one for each connection: when an answer is due */
	struct timer_queue wakes;  /* one for each connection: when pacing lets it send */
	struct list ready;	   /* connections that have something to send */
	struct list near_held;	   /* the same, but shared memory has no room for it */
	struct list ended;	   /* ended connections, to report to the owner */
	struct list members;	   /* of all groups, see group.c */
	struct mad_ring mads_in, mads_out;
	uint32_t mad_psn;
	uint32_t member_count;
	struct hole_list *hole_lists; /* IB_HOLE_LISTS */
	struct hole_list *hole_lists_free;
	uint32_t hole_lists_fresh; /* index of the first that was never used */
	struct early_pool early;
	struct list raws;      /* connections of raw datagrams */
	struct list ees_ended; /* failed end-to-end contexts, to report to the owner */
	uint32_t near_numbers[IB_ADAPTER_SLOTS]; /* of datagrams, by the receiver's slot */
	struct ib_counts counts;
	uint64_t drops[WEFT_REASON_COUNT]; /* of counts.dropped */
	uint64_t cut_after;		   /* injected fault: bytes one way; UINT64_MAX: never */
	struct qp_tally unowned; /* counts without a queue pair: it has left, or of a context */
	const struct ib_direct *direct; /* NULL: none */
	uint32_t epochs;		/* of connections so far */
	bool is_striping;
	bool has_near_icrc;	      /* packets by shared memory have one, too */
	uint16_t lid, path_bits;      /* in a fabric: of the port; a mask */
	uint32_t burst;		      /* packets that the first of ready has sent in its turn */
	uint32_t factors[IB_FACTORS]; /* of iba_icrc_factor(), by words; 0: not computed yet */
	uint8_t bounce[IB_BOUNCES][IBA_PAYLOAD_MAX];
	uint32_t bounced; /* packets of this batch with payload in bounce */
	uint64_t now_ns;  /* of the latest call that had the time */
	/* SEND-05: memory that packets are being sent from. */
	struct held {
		struct mem_paging *paging;
		uint64_t real, length;
	} held[IB_HELD_MAX];
	uint32_t held_count;
	uint64_t kept_ns; /* the time up to which counts.kept_byte_ns is summed */
};

/* The counters for a queue pair, which may have left. */
static inline struct qp_tally *tally_of(struct ib_port *port, struct weft_qp *qp)
{
	return qp ? &qp->tally : &port->unowned;
}

/* A message was received completely; the last packet of a message was sent for the first time. */
static inline void count_message_in(struct ib_port *port, struct weft_qp *qp, uint64_t payload)
{
	struct qp_tally *t = tally_of(port, qp);

	port->counts.messages_in++;
	t->messages_in++;
	t->payload_in += payload;
}

static inline void count_message_out(struct ib_port *port, struct weft_qp *qp, uint64_t payload)
{
	struct qp_tally *t = tally_of(port, qp);

	port->counts.messages_out++;
	t->messages_out++;
	t->payload_out += payload;
}

static inline void count_copied(struct ib_port *port, struct weft_qp *qp, uint64_t bytes)
{
	port->counts.copied += bytes;
	tally_of(port, qp)->copied += bytes;
}

void port_dropped(struct ib_port *port, uint32_t who, enum weft_reason reason);
enum weft_reason port_check_icrc(struct ib_port *port, const struct ib_in *in);

/* Pins the memory of a packet. False: copy it instead. port_release: unpins those from an index. */
bool port_hold(struct ib_port *port, const struct mem_span *span);
void port_release(struct ib_port *port, uint32_t from);

/* Adjusts the bytes that would be pinned if all data were pinned until it is acknowledged. */
void port_kept(struct ib_port *port, struct requester *q, int64_t bytes);
