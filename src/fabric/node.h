/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agents of a node (IBA 14, 16.1): subnet management and performance management of a CA, of a
 * switch with its port 0, or of a router. It answers what a subnet manager gets and sets, hands
 * directed routes on, counts, and sends traps. What is set is in struct fabric_node, and takes
 * effect there: what moves frames looks ports, tables, states and keys up in it.
 *
 * Bytes in, bytes out, time handed in: the caller moves frames, and knows which links are up. It
 * asks fabric_node_lets_in() and fabric_node_lets_out() about each frame that passes a port,
 * fabric_node_recv() about each that has come for the node, fabric_node_post() about each of an
 * owner: a program at an endnode's port, or at port 0 of a switch.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/reason.h>

#include "fabric/arbiter.h"
#include "fabric/switch.h"
#include "wire/iba_frame.h"
#include "wire/sm_attr.h"

enum {
	FABRIC_PKEYS = SM_PKEYS, /* of a port: one block */
	FABRIC_GUIDS = SM_GUIDS,
	FABRIC_HEADERS_MAX = 124 /* and ICRC, of a frame whose payload is as long as the MTU */
};

struct fabric_node_cfg {
	enum sm_node_type type;
	uint32_t ports;		 /* without port 0; at most FABRIC_PORTS_MAX */
	uint64_t guid;		 /* of the node; of a port of an endnode: that and its number */
	const char *description; /* needed in init only */
	uint32_t lanes;		 /* of each link, without lane 15: 1, 2, 4, 8 or 15 */
	uint8_t mtu;		 /* code of the greatest; 0: of 4096 bytes */
	uint8_t widths, speeds;	 /* bits as in PortInfo; 0: 1x and 4x, 2.5 Gbit/s a lane */
	uint32_t linear_max, multicast_max; /* of a switch: as in struct fabric_switch_cfg */
	uint64_t trap_ns;		    /* between traps of one kind, at least; 0: 100 ms */
	struct fabric_store *store;	    /* that has the memory; NULL: none */
};

/*
 * What a port has counted since it was made. The caller, which moves frames, adds to it; data is in
 * words of 4 bytes.
 */
struct fabric_port_counts {
	uint64_t transmit_data, receive_data, transmit_packets, receive_packets;
	uint64_t unicast_transmit, unicast_receive, multicast_transmit, multicast_receive;
	uint64_t symbol_errors;	    /* flits damaged */
	uint64_t link_recoveries;   /* flits asked for anew, or sent anew after silence */
	uint64_t link_downed;	    /* counted by the node */
	uint64_t receive_errors;    /* malformed, CRC, longer than the MTU allows */
	uint64_t remote_errors;	    /* packets that the sender marked as bad */
	uint64_t relay_errors;	    /* came in, and no port has the destination */
	uint64_t transmit_discards; /* were to leave here: port not active, no such lane, too old */
	uint64_t transmit_constraint_errors, receive_constraint_errors; /* by the node: P_Keys */
	uint64_t integrity_errors; /* damaged more often in a row than PortInfo allows */
	uint64_t overrun_errors;   /* came without credit */
	uint64_t qp1_dropped, vl15_dropped;
	uint64_t transmit_wait; /* flits that could not leave for want of credit */
	/* What IBA has no counter for. */
	uint64_t inactive;  /* data that came in while the port was not active */
	uint64_t misrouted; /* came to an endnode that has not the LID */
};

/* What has changed at a port, for the caller to act upon. */
enum fabric_change {
	FABRIC_CHANGE_LINK = 1,	    /* take its link down; up again if both its ports want_link */
	FABRIC_CHANGE_STATE = 2,    /* Down, Init, Armed, Active */
	FABRIC_CHANGE_LANES = 4,    /* lanes in use, arbitration, lanes of levels */
	FABRIC_CHANGE_TABLES = 8,   /* of forwarding; told of port 0 */
	FABRIC_CHANGE_ADDRESS = 16, /* LID, LMC, prefix, GUIDs, the subnet manager's LID */
	FABRIC_CHANGE_PKEYS = 32,
	FABRIC_CHANGE_REREGISTER = 64, /* a new subnet manager wants its clients to come anew */
	FABRIC_CHANGE_TRAP = 128       /* fabric_node_next() may have one earlier than was due */
};

struct fabric_trap;

struct fabric_node_port {
	struct sm_port_info info; /* state, LID, ...: as they are now */
	bool is_joined;		  /* its link is up */
	bool wants_link;	  /* not asleep, not disabled */
	bool is_sm;		  /* its owner is a subnet manager */
	struct fabric_port_counts counts;
	struct fabric_port_counts cleared, cleared_extended; /* when they were reset */
	uint16_t pkeys[FABRIC_PKEYS];
	uint64_t guids[FABRIC_GUIDS];  /* the first one is fixed */
	struct fabric_arbiter arbiter; /* its tables, as they were set */
	uint64_t lease_ns; /* the M_Key's protection ends then; UINT64_MAX: it does not */
	uint32_t changes;  /* enum fabric_change, not taken yet */
};

struct fabric_node {
	struct fabric_node_cfg cfg;
	struct fabric_node_port *ports; /* ports[0] only of a switch: its management port */
	uint8_t *lane_of;		/* by output, input, level: fabric_node_lane() */
	/* Of a switch. */
	struct sm_switch_info switch_info;
	uint8_t *linear;     /* port by LID; FABRIC_NO_PORT: none */
	uint64_t *multicast; /* a bit for each port, by LID from 0xc000 on */
	uint8_t description[SM_DESCRIPTION_BYTES];
	struct fabric_trap *traps;
	uint64_t changed; /* a bit for each port that has changes */
	uint64_t stale;	  /* a bit for each port whose info may be another; the caller clears it */
	uint64_t tid;	  /* of the next trap */
	uint64_t trap_due_ns;
	/* Frames that the node dropped, for people; why it did so last. */
	uint64_t refusals;
	enum weft_reason refusal;
};

/* 0, or -1 when memory is short. All ports are down, no tables are set. */
int fabric_node_init(struct fabric_node *n, const struct fabric_node_cfg *cfg);
void fabric_node_fini(struct fabric_node *n);

/* ---- Links ---------------------------------------------------------------------------------- */

/*
 * The link between two ports, both of which want one, is up: both are in Init. False: they have no
 * width or no speed in common, and it stays down.
 */
bool fabric_node_join(struct fabric_node *a, uint32_t port_a, struct fabric_node *b,
		      uint32_t port_b, uint64_t now_ns);

/* The link of a port is down; to be told of each end. */
void fabric_node_part(struct fabric_node *n, uint32_t port, uint64_t now_ns);

/* What has changed at which port, since it was asked last; 0: nothing at any. */
uint32_t fabric_node_changes(struct fabric_node *n, uint32_t *port);

/* ---- Frames that pass a port of a switch ---------------------------------------------------- */

/*
 * Whether a frame that came by the link of a port may go on, and whether one may leave by it:
 * lane and length, state of the port, P_Keys. False: it is dropped, and counted. A frame of data
 * makes an Armed port Active. Endnodes' ports are looked after by fabric_node_recv() and
 * fabric_node_post().
 */
bool fabric_node_lets_in(struct fabric_node *n, uint64_t now_ns, uint32_t port,
			 const uint8_t *bytes, uint32_t length);
bool fabric_node_lets_out(struct fabric_node *n, uint64_t now_ns, uint32_t port,
			  const uint8_t *bytes, uint32_t length);

/* Whether a frame of data, if it is not too long, would pass, and change nothing but counters. */
bool fabric_node_would_pass(const struct fabric_node *n, uint32_t port, bool is_out,
			    const struct iba_glance *g);

/*
 * That both let pass any frame of data, which is none of management (lane 15, QP 0), of a length
 * that fits the MTU of the port: then neither must be asked.
 */
static inline bool fabric_node_is_open(const struct fabric_node *n, uint32_t port)
{
	const struct sm_port_info *info = &n->ports[port].info;

	return info->state == SM_PORT_ACTIVE && !info->enforces_in && !info->enforces_out &&
	       !info->filters_raw_in && !info->filters_raw_out;
}

/* The longest frame of data that a port lets pass, with its VCRC (IBA 7.8). */
static inline uint32_t fabric_node_bytes_max(const struct fabric_node *n, uint32_t port)
{
	return iba_mtu_bytes(n->ports[port].info.mtu) + FABRIC_HEADERS_MAX + IBA_VCRC_BYTES;
}

/*
 * The ports of a switch by which a frame leaves, a bit for each; bit 0: it is for the switch
 * itself. 0: no table has the LID. `port` is where it came in, by which it does not leave; 0: it is
 * the switch's own.
 */
uint64_t fabric_node_outputs(const struct fabric_node *n, uint32_t port, const struct iba_lrh *h);

/* Lanes of data that are in use at a port: 0 to this - 1. */
static inline uint32_t fabric_node_lanes(const struct fabric_node *n, uint32_t port)
{
	uint8_t code = n->ports[port].info.lanes;

	return code >= 5 ? 15 : (1U << code) / 2;
}

/* What the table has for a level, in use or not. */
static inline uint8_t fabric_node_lane_set(const struct fabric_node *n, uint32_t in, uint32_t out,
					   uint8_t level)
{
	return n->lane_of[(out * (n->cfg.ports + 1) + in) * SM_LEVELS + level];
}

/*
 * The lane on which a frame of data leaves; `in` is 0 if it is the node's own. IBA_LANE_MANAGEMENT:
 * its level has none there, and it is discarded.
 */
static inline uint8_t fabric_node_lane(const struct fabric_node *n, uint32_t in, uint32_t out,
				       uint8_t level)
{
	uint8_t lane = fabric_node_lane_set(n, in, out, level);

	return lane < fabric_node_lanes(n, out) ? lane : IBA_LANE_MANAGEMENT;
}

/* ---- Frames for the node, and of it --------------------------------------------------------- */

enum fabric_to {
	FABRIC_TO_NOWHERE, /* it ended here */
	FABRIC_TO_OWNER,   /* up, to the owner of the port */
	FABRIC_TO_LINK,	   /* out by the port, whatever its LID is */
	FABRIC_TO_SUBNET /* an endnode's: out by the port; of a switch: as fabric_node_outputs() */
};

struct fabric_way {
	enum fabric_to to;
	uint32_t port;
	uint32_t length;
};

/*
 * A frame that came by the link of an endnode's port, or one for a switch itself that came by a
 * port and was let in. The node keeps what is for its agents: then `bytes`, with room for
 * IBA_FRAME_MAX, are their answer, or the datagram on its further way. What it does not keep goes
 * to the owner. No VCRC is looked at; those of answers are right.
 */
struct fabric_way fabric_node_recv(struct fabric_node *n, uint64_t now_ns, uint32_t port,
				   uint8_t *bytes, uint32_t length);

/*
 * The same with a frame of the owner of a port: it may be for the agents of its own node, or for
 * another program there.
 */
struct fabric_way fabric_node_post(struct fabric_node *n, uint64_t now_ns, uint32_t port,
				   uint8_t *bytes, uint32_t length);

/*
 * The same with a frame that is for no agents, neither of lane 15 nor for QP 0 or 1: it stays as it
 * is.
 */
struct fabric_way fabric_node_recv_data(struct fabric_node *n, uint32_t port, const uint8_t *bytes,
					uint32_t length);
struct fabric_way fabric_node_post_data(struct fabric_node *n, uint32_t port, const uint8_t *bytes,
					uint32_t length);

/*
 * Whether fabric_node_recv_data() has nothing to say about a frame but that it is for the owner of
 * an endnode's port. False: ask it.
 */
bool fabric_node_is_owners(const struct fabric_node *n, uint32_t port, const struct iba_lrh *h,
			   uint32_t length);

/* What the node sends on its own, traps: call it until it goes nowhere, after any other call. */
struct fabric_way fabric_node_next(struct fabric_node *n, uint64_t now_ns, uint8_t *bytes);

/* When it will have something to send; UINT64_MAX: never. */
uint64_t fabric_node_due(const struct fabric_node *n);

/* Whether the owner of a port is a subnet manager, and is to get what is for one. */
void fabric_node_set_sm(struct fabric_node *n, uint32_t port, bool is_sm, uint64_t now_ns);

/*
 * Counts: a link damages more than LocalPhyErrors or OverrunErrors of PortInfo allow, or its other
 * end gives no credit for too long.
 */
enum fabric_error { FABRIC_ERROR_INTEGRITY, FABRIC_ERROR_OVERRUN, FABRIC_ERROR_WATCHDOG };
void fabric_node_error(struct fabric_node *n, uint32_t port, enum fabric_error what);

/* NodeInfo (IBA 14.2.5.3), as it is told by a port. */
struct sm_node_info fabric_node_info(const struct fabric_node *n, uint32_t port);

/* Whether a transport at the port may take a packet with this P_Key (IBA 10.9.3). */
bool fabric_node_has_pkey(const struct fabric_node *n, uint32_t port, uint16_t p_key);

/* A transport at the port has refused a packet because of its key (IBA 14.2.5.1). */
enum fabric_bad_key { FABRIC_BAD_PKEY, FABRIC_BAD_QKEY };
void fabric_node_refused(struct fabric_node *n, uint64_t now_ns, uint32_t port,
			 enum fabric_bad_key what, const struct iba_frame *f);
