/* SPDX-License-Identifier: BSD-2-Clause */
/* How far a connection has come. */
#pragma once

#include <stdint.h>

enum link_phase {
	LINK_CONNECTING = 0, /* TCP's handshake */
	LINK_REFUSED,	     /* no listener answered: no socket until the next try */
	LINK_SETUP,	     /* MPA start frames, and the program's answer to a request */
	LINK_AWAITING_RTR,   /* responder: the stream runs; the initiator must send first */
	LINK_STREAM,	     /* the stream runs, until it is closed */
	LINK_ENDED,	     /* no socket: kept while a queue pair or request refers to it */
	LINK_PHASES
};

/* The name of any number, as in TRACE_LINK_PHASE. Never NULL. */
const char *link_phase_name(uint64_t phase);
