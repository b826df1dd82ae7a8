/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two ends of a stream negotiated before the first FPDU (RFC 5044 section 7, RFC 6581). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* RFC 6581 section 4: the message by which the initiator opens the responder's direction. */
enum iwarp_rtr { IWARP_RTR_NONE = 0, IWARP_RTR_SEND, IWARP_RTR_WRITE, IWARP_RTR_READ };

struct iwarp_terms {
	bool is_initiator;  /* it sends first; the responder waits for a valid FPDU */
	bool has_crc;	    /* generated and checked, in both directions */
	bool sends_markers; /* the peer asked for them */
	bool takes_markers; /* this end asked for them */
	uint16_t ird;	    /* Reads and atomics of the peer that this end serves at a time */
	uint16_t ord;	    /* Reads and atomics of this end that may be in flight */
	enum iwarp_rtr rtr; /* the initiator's first message, which the responder awaits */
};
