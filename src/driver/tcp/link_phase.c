/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/tcp/link_phase.h"

#include "base/check.h"
#include "driver/tcp/link.h"

enum {
	TO_CONNECTING = 1 << LINK_CONNECTING,
	TO_REFUSED = 1 << LINK_REFUSED,
	TO_SETUP = 1 << LINK_SETUP,
	TO_AWAITING_RTR = 1 << LINK_AWAITING_RTR,
	TO_STREAM = 1 << LINK_STREAM,
	TO_ENDED = 1 << LINK_ENDED
};

/*
 * RFC 6581 section 9.2: only a responder waits, and only where the ends agreed on a message. A core
 * without a set-up goes straight to its stream.
 */
static const struct {
	const char *name;
	uint32_t moves;
} phases[LINK_PHASES] = {
	[LINK_CONNECTING] = { "connecting", TO_REFUSED | TO_SETUP | TO_STREAM | TO_ENDED },
	[LINK_REFUSED] = { "refused", TO_CONNECTING | TO_SETUP | TO_ENDED },
	[LINK_SETUP] = { "setup", TO_AWAITING_RTR | TO_STREAM | TO_ENDED },
	[LINK_AWAITING_RTR] = { "awaiting_rtr", TO_STREAM | TO_ENDED },
	[LINK_STREAM] = { "stream", TO_ENDED },
	[LINK_ENDED] = { "ended", 0 },
};

const char *link_phase_name(uint64_t phase)
{
	return phase < LINK_PHASES ? phases[phase].name : "unknown";
}

void link_move(struct link *link, enum link_phase to)
{
	CHECK(phases[link->phase].moves & 1U << to);
	link_trace_move(link, to);
	link->phase = to;
}
