/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A whole subnet, or several with routers between them, in one process: the nodes of a topology
 * with their agents (fabric/node.h), and the cables between their ports. Frames move from port to
 * port whole, as runs of flits: with credits, lanes, arbitration and counters of fabric/link.h, but
 * without an encoding and CRCs, except where a cable damages them.
 *
 * No I/O and no clock: the caller posts and takes frames of the owners of ports, hands time in, and
 * asks for the next deadline. Nodes and ports have the numbers of the topology. Time of cables is
 * real or virtual, as cfg says: without rates all that can move does so at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "fabric/link.h"
#include "fabric/topology.h"
#include "wire/iba_frame.h"
#include "wire/trunk.h"

struct fabric;
struct fabric_node;

struct fabric_cfg {
	struct fabric_link_cfg link;
	uint32_t linear_max;	/* LIDs of a switch's table */
	uint32_t multicast_max; /* multicast LIDs of it */
	uint64_t flit_ns_x16;	/* a flit on a link of full rate, in 1/16 ns; 0: no time */
	uint64_t slow_ns_x16;	/* the same of what a degraded cable has a part of, if 0 above */
	uint64_t cable_ns;	/* delay of a cable */
	uint64_t switch_ns;	/* from a port of a switch or router to another */
	bool is_cut_through;	/* a frame goes on when its head has come (FAB-18) */
	bool has_vcrc;		/* frames that are taken have theirs; else it is 0 */
	uint64_t seed;		/* of what cables damage */
	uint8_t mtu;		/* code of the greatest of all ports; 0: of 4096 bytes */
	const bool *are_here;	/* nodes, the others are elsewhere; NULL: all; only for the open */
	/* Memory comes in chunks of 2 MiB, and is told of before it is used. NULL: it does not. */
	void (*memory_told)(void *at, size_t bytes);
};

/* What a live fabric has: no delays, four lanes. */
struct fabric_cfg fabric_cfg_live(void);

/* The topology is not needed afterwards. On error *f is NULL. */
enum weft_reason fabric_open(const struct topology *t, const struct fabric_cfg *cfg,
			     struct fabric **f);
void fabric_close(struct fabric *own_f);

/* ---- Owners of ports ------------------------------------------------------------------------ */

/*
 * A frame of the owner of an endnode's or router's port, or of port 0 of a switch: it begins with
 * its LRH and ends with room for a VCRC, which is not looked at. Lane 15 is of management; the lane
 * of another is set here. False: there is no room now; fabric_ready() tells when there is.
 * What is no frame is dropped.
 */
bool fabric_post(struct fabric *f, uint32_t node, uint32_t port, const uint8_t *bytes,
		 uint32_t length);

/*
 * Room for IBA_FRAME_MAX bytes: a frame that is posted from there need not be copied. The next one
 * needs a new room. NULL: memory is short.
 */
uint8_t *fabric_room(struct fabric *f);

/*
 * The next frame for the owner, lane 15 first; returns its length; 0: there is none. Its bytes stay
 * where they are until the next call but fabric_pass(), which takes it away.
 */
uint32_t fabric_peek(struct fabric *f, uint32_t node, uint32_t port, const uint8_t **bytes);
void fabric_pass(struct fabric *f, uint32_t node, uint32_t port);

/*
 * The next port whose owner has frames to take, or has room again after a refused post. Each is
 * told once, and again when more has come after that.
 */
bool fabric_ready(struct fabric *f, uint32_t *node, uint32_t *port);

/*
 * What a post to a port needs is fetched from memory in time: call it twice, when
 * a post is some other posts away, and again when it is nearer.
 */
void fabric_fetch(const struct fabric *f, uint32_t node, uint32_t port, bool is_near);

/* ---- The quick way -------------------------------------------------------------------------- */

enum { FABRIC_CROSSING_LINKS = 16 };

struct fabric_crossing {
	uint32_t node, port; /* in: where frames enter; out: where they come out */
	uint32_t bytes_max;  /* of a frame */
	uint8_t lane;	     /* on which they come */
	uint32_t count, ends[FABRIC_CROSSING_LINKS];
};

/*
 * A frame of data of the owner of an endnode's port, of which the headers are enough, might cross
 * at once: nothing waits on its way, no cable there damages or delays, and no capture runs. Then
 * the caller may hand it to the owner of the port where it comes out, and need not post it. True
 * for all frames with the same P_Key and local route header, but for its length, until another
 * function of the fabric was called. False: it has to be posted, whatever becomes of it.
 */
bool fabric_crossing_find(const struct fabric *f, const uint8_t *bytes, uint32_t length,
			  struct fabric_crossing *c);

/* So many frames have crossed. Their words are those of counters (4 bytes). */
void fabric_crossing_count(struct fabric *f, const struct fabric_crossing *c, uint64_t frames,
			   uint64_t words, uint64_t flits);

/* ---- Time ----------------------------------------------------------------------------------- */

/* Moves all that can move; call it after posts and takes, and when a deadline has passed. */
void fabric_run(struct fabric *f, uint64_t now_ns);
uint64_t fabric_due(const struct fabric *f); /* nothing is due before it; UINT64_MAX: none */

/* ---- Cables --------------------------------------------------------------------------------- */

enum { FABRIC_NO_CABLE = UINT32_MAX };

/* Cables are numbered in the order of their first ends. */
uint32_t fabric_cable_count(const struct fabric *f);
uint32_t fabric_cable_at(const struct fabric *f, uint32_t node, uint32_t port);
void fabric_cable_ends(const struct fabric *f, uint32_t cable, uint32_t node[2], uint32_t port[2]);

/* What is on it is lost, and both ends are down; mended they come up again. */
void fabric_cut(struct fabric *f, uint32_t cable);
void fabric_mend(struct fabric *f, uint32_t cable);
bool fabric_is_cut(const struct fabric *f, uint32_t cable);

/* It damages one bit in so many, in both directions; 0: none. */
void fabric_errors(struct fabric *f, uint32_t cable, uint64_t one_in_bits);

/*
 * It has 1/divisor of the full rate: fewer wires, or slower ones. Without rates that is a part of
 * slow_ns_x16, and 1 makes it as it was.
 */
void fabric_degrade(struct fabric *f, uint32_t cable, uint32_t divisor);

/* ---- Parts ---------------------------------------------------------------------------------- */

/*
 * A fabric may be cut: each process has all of the topology, and is some of its nodes; the others
 * do nothing here. A cable between a node here and one elsewhere is a trunk. It is down until a
 * carrier has joined it with the same cable in the other process, and hands messages over in their
 * order, whole.
 */
bool fabric_is_here(const struct fabric *f, uint32_t node);
bool fabric_is_trunk(const struct fabric *f, uint32_t cable);

/* The carrier is there, or gone. */
void fabric_trunk_join(struct fabric *f, uint32_t cable, bool is_joined);

/*
 * The next message for the other process; what it refers to is valid until the next call of
 * fabric_trunk_take() or fabric_run(). False: there is none now.
 */
bool fabric_trunk_next(struct fabric *f, uint32_t cable, struct trunk_message *m);

/* A message of the other process about this cable. fabric_run() must follow. */
void fabric_trunk_take(struct fabric *f, const struct trunk_message *m);

/*
 * A port of an endnode, or port 0 of a switch, for other processes; and what is known of one
 * elsewhere, which those that look at it here see from then on. Not the serial number.
 */
void fabric_port_tell(const struct fabric *f, uint32_t node, struct trunk_port *p);
void fabric_port_hear(struct fabric *f, uint32_t node, const struct trunk_port *p);

/* ---- Looking -------------------------------------------------------------------------------- */

uint32_t fabric_node_count(const struct fabric *f);
/* The agents of a node. After a change of them call fabric_touch(). */
struct fabric_node *fabric_node_at(struct fabric *f, uint32_t node);
/* The same for one that looks at what is set, not at counters. */
const struct fabric_node *fabric_node_look(const struct fabric *f, uint32_t node);
void fabric_touch(struct fabric *f, uint32_t node);

/*
 * What has changed at a port: enum fabric_change of fabric/node.h, which the fabric has acted upon
 * already. False: nothing has. Ask here, not fabric_node_changes().
 */
bool fabric_changed(struct fabric *f, uint32_t *node, uint32_t *port, uint32_t *changes);

/* A frame that passes one end of a cable: as it leaves, or as it comes. */
struct fabric_seen {
	uint32_t node, port;
	const uint8_t *bytes; /* with its lane and both CRCs, until the call returns */
	uint32_t length;
};

/* Each frame is told at both ends, one that is sent again once more. NULL: no longer. */
void fabric_watch(struct fabric *f, void (*seen)(void *of, const struct fabric_seen *frame),
		  void *of);

/* A port that has a frame for which there is no room at the other end of its cable. */
struct fabric_wait {
	uint32_t node, port, to_node, to_port;
	uint32_t lane;
};

/*
 * Ports of which each waits, on a lane, for room that only frames for the next one take, and the
 * last one for the first (FAB-S2): how many they are; 0: there is no deadlock, or memory is short.
 * Writes at most `max` of them; or says it in words, names and a way out.
 */
uint32_t fabric_deadlock(const struct fabric *f, struct fabric_wait *waits, uint32_t max);
uint32_t fabric_deadlock_text(const struct fabric *f, char *text, size_t length);

/* One end of a link, with its counters; NULL: the port has no cable. */
const struct fabric_link *fabric_link_at(const struct fabric *f, uint32_t node, uint32_t port);
