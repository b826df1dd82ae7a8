/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets between the adapters of one host (network namespace) by shared memory, instead of UDP
 * over loopback. It has no thread and no lock: the adapter's lock guards all of it.
 *
 * An adapter that sends to another makes a ring (ring.h), connects to the other's slot, and offers
 * the ring, which the other takes or refuses (message.h). Each direction has a ring and a
 * connection of its own. The connection then wakes an end that sleeps. An adapter that closes says
 * so; a connection that ends without that reports that the process died.
 *
 * No packet is lost on the way, and none overtakes another: packets to an adapter whose ring is
 * full, or not taken yet, wait; those to others do not. Packets that may be lost do not wait for an
 * adapter that is stopped.
 *
 * Connections, memory of other processes and waiting are the system's (system.h): the driver's, or
 * the simulator's.
 */
#pragma once

#include "ib/ib.h"
#include "near/system.h"

struct near;

struct near_options {
	const struct near_system *system;
	void *owner;	       /* of the system */
	uint64_t adapter_id;   /* by chance, not 0: see struct near_message */
	uint8_t adapter_slot;  /* our own */
	struct mem_table *mem; /* its regions; NULL: they are not shown to other processes */
	bool takes_runs;       /* else every packet comes alone: see struct ib_in */
};

/* NULL: out of memory. */
struct near *near_create(const struct near_options *options);
void near_destroy(struct near *near);

/* The owner of the options. */
void *near_owner(const struct near *near);

/* An adapter has connected, by this link. */
void near_accept(struct near *near, struct near_link *link);

/*
 * The same, and it is told to send by UDP: we lack descriptors for its ring, or it belongs to
 * another user.
 */
void near_refuse(struct near *near, struct near_link *link, bool is_foreign);

/*
 * Before the last packets: they go into rings that are not taken yet as well, where their receivers
 * may find them later, and do not wait for room (near_is_stalled()).
 */
void near_leave(struct near *near);

/*
 * In a child of fork(), where links and memory of the parent are gone. Only near_destroy() may
 * follow.
 */
void near_forsake(struct near *near);

/*
 * The number of the way to the adapter of that slot, for paths (near_number); connects at first. 0:
 * packets to it cannot go by shared memory. Packets wait until the adapter has taken the ring.
 */
uint32_t near_reach(struct near *near, uint8_t adapter_slot);

/* Whether the adapter has taken the ring. */
bool near_is_taken(const struct near *near, uint32_t number);

/*
 * A way that has ended. is_refused: it never began, as the adapter did not take the ring, and
 * packets to it go by UDP. Else the adapter's process died, and all its packets were taken. An
 * adapter that closes is not reported: as over UDP, packets to it are lost.
 */
struct near_ended {
	uint32_t number;
	uint8_t adapter_slot;
	bool is_refused;
};

/* Whether near_ended() or near_has_room() may have something. */
bool near_has_news(const struct near *near);

/* Pulls the next; each is reported once. False: none. */
bool near_ended(struct near *near, struct near_ended *ended);

/* ---- Out ------------------------------------------------------------------------------------ */

enum near_sent {
	NEAR_SENT = 0,
	NEAR_FULL, /* not now: until near_has_room() */
	NEAR_LOST  /* that way has ended */
};

/* Copies a packet to the adapter of its path (near_number). */
enum near_sent near_send(struct near *near, uint64_t now_ns, const struct ib_out *out);

/*
 * The same without a copy: the packet to out->near_number is built in the room that near_begin()
 * gives it, and near_end() sends it. False: not now, as for NEAR_FULL. Between the two no other
 * call.
 */
bool near_begin(struct near *near, uint64_t now_ns, struct ib_out *out);
enum near_sent near_end(struct near *near, const struct ib_out *out);

/*
 * Instead of near_begin(), for a packet that may be lost, to a stopped receiver: it goes into the
 * ring if there is room, even if the ring is not taken yet. Else near_end() loses it.
 */
void near_begin_lossy(struct near *near, struct ib_out *out);

/* After the last of several packets: wakes the receivers that sleep. */
void near_flush(struct near *near);

/* Whether packets that had no room should be tried again, until near_room_used(). */
bool near_has_room(struct near *near);
void near_room_used(struct near *near);

/* Whether no room is to be waited for: its process is stopped, for 10 ms by now, or we leave. */
bool near_is_stalled(const struct near *near, uint32_t number);

/* Whether packets of ours wait for room. */
bool near_has_blocked(const struct near *near);

/* Whether it has been stopped for so long, 100 ms, that packets which may be lost are. */
bool near_is_stopped(const struct near *near, uint32_t number);

/* A packet for which there was no room (NEAR_FULL) is not sent: counts it. */
void near_lose(struct near *near);

/* When the next receiver counts as stalled, or stopped; UINT64_MAX: none. */
uint64_t near_due(const struct near *near);
void near_expire(struct near *near, uint64_t now_ns);

/* ---- In ------------------------------------------------------------------------------------- */

/* Whether other adapters send to us: near_next() may have something without a wake-up. */
bool near_is_sent_to(const struct near *near);

/* The next packet, in shared memory; valid until the next call. NULL: none left. */
const struct ib_in *near_next(struct near *near);

/* Whether near_next() has something. */
bool near_has_input(const struct near *near);

/*
 * is_polled: near_next() and near_has_room() are called all the time, so that others need not wake
 * us. Else they do, from the next near_rest() on, which returns false if a packet, or the room that
 * packets wait for, is there already.
 */
void near_stand_by(struct near *near, bool is_polled);
bool near_rest(struct near *near);

/* ---- Memory --------------------------------------------------------------------------------- */

/*
 * The functions of struct ib_direct: one end reads or writes memory of the other's process by
 * system calls, where the kernel lets it (as for ptrace()), after the access check of the table
 * that the other shows. Deregistration waits for accesses that are under way.
 */
bool near_can_access(const struct near *near, uint32_t near_number);
bool near_access(struct near *near, struct ib_direct_access *access);
bool near_grant(struct near *near, const struct ib_direct_grant *grant);
void near_revoke(struct near *near, uint32_t number);
void near_collect(struct near *near, uint32_t number, struct ib_direct_tally *tally);

/* Whether other adapters must send packets, for a capture to see them. */
void near_set_packets_only(struct near *near, bool is_packets_only);

/* ---- Counters ------------------------------------------------------------------------------- */

struct near_counts {
	uint64_t packets_in, packets_out, bytes_in, bytes_out;
	uint64_t runs_out;  /* records of several packets */
	uint64_t lost;	    /* packets to adapters that have gone */
	uint64_t wakes;	    /* of other adapters, by a system call */
	uint64_t sent_away; /* connections of other users */
	/* Connections without a ring that could be mapped, or with a broken one. */
	uint64_t refused;
	uint32_t ins, outs; /* adapters that send to us, and that we send to, now */
};

const struct near_counts *near_counts(const struct near *near);
