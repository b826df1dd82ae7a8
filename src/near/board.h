/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an adapter shows the adapters that send to it, so that these can access registered memory
 * of its process by themselves: the board, which they can only read, has its published regions
 * (mem/published.h) and the queue pairs by whose rights they access. In the other memory, the
 * marks, they write that they access memory now, and count what they did.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mem/published.h"
#include "mem/watch.h"

enum { NEAR_GRANTS_MAX = 1024 };

/* A queue pair, by the slot of its number. It stands still as published entries do. */
struct near_grant {
	_Atomic uint32_t number;			     /* 0: none */
	uint32_t peer_qp, pd, rights, psn, mtu_bytes, epoch; /* see struct ib_direct_grant */
};

struct near_board {
	uint64_t magic;
	uint64_t token, token_addr; /* a number in the process, and where: to try to read it */
	uint32_t policy;	    /* enum weft_policy */
	int32_t thread_number;	    /* of the process, by which it is accessed */
	_Atomic uint32_t is_shut;   /* all goes by packets: for a capture, or injected faults */
	atomic_uint unmapped;	    /* see struct mem_peers */
	struct near_grant grants[NEAR_GRANTS_MAX];
	struct mem_published regions[MEM_PUBLISHED_MAX];
};

/* What the peer of a granted queue pair has done, see struct ib_direct_tally. */
struct near_tally {
	_Atomic uint64_t writes, written_bytes, reads, read_bytes;
};

struct near_marks {
	struct mem_peer peers[MEM_PEERS_MAX];	    /* by the slots of their adapters */
	struct near_tally tallies[NEAR_GRANTS_MAX]; /* as the grants */
};

/* The board and the marks of our own adapter. */
struct near_shown {
	struct near_board *board; /* NULL: there is none */
	struct near_marks *marks;
	int board_fd, marks_fd; /* for a TAKEN; -1: none */
	uint64_t token;
};

/* Those of another adapter. */
struct near_seen {
	const struct near_board *board; /* NULL: not seen */
	struct near_marks *marks;
	int number;  /* of its process, or of a thread of it: the system's */
	void *owner; /* the system's */
};
