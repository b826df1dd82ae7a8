/* SPDX-License-Identifier: BSD-2-Clause */
/* How far a connection has come. */
#pragma once

#include <stdint.h>

enum link_phase {
	LINK_CONNECTING = 0, /* TCP's handshake */
	LINK_REFUSED,	     /* nobody listened: no socket, until it is tried again */
	LINK_SETUP,	     /* MPA's start frames, and what the program decides on them */
	LINK_AWAITING_RTR,   /* the stream runs; a responder's peer has yet to speak first */
	LINK_STREAM,	     /* the stream runs, to its very end */
	LINK_ENDED,	     /* no socket: kept for its queue pair's or request's questions */
	LINK_PHASES
};

/* Of any number, as TRACE_LINK_PHASE has it. Never NULL. */
const char *link_phase_name(uint64_t phase);
