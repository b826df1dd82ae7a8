/* SPDX-License-Identifier: BSD-2-Clause */
/* Formats the trace of directed I/O. */
#include <inttypes.h>
#include <stdio.h>

#include "sim/rio/rio_world.h"

static const char *const notes[] = {
	[RIO_NOTE_CAME] = "a peer came:",
	[RIO_NOTE_LEFT] = "a peer left:",
	[RIO_NOTE_ALLOWED] = "the owner allows what is asked in",
	[RIO_NOTE_REFUSED] = "the owner refuses what is asked in",
	[RIO_NOTE_ENDED] = "this has ended:",
};

static const char *const operations[STORE_OP_COUNT] = {
	[STORE_READ] = "read",	     [STORE_WRITE] = "write",
	[STORE_FLUSH] = "flush",     [STORE_WRITE_ZEROES] = "write zeroes",
	[STORE_DISCARD] = "discard",
};

static const char *const phases[] = {
	[RW_RUN] = "faults begin",
	[RW_REST] = "no more faults: all must come to rest",
	[RW_CUT] = "all I/O units stop at once",
	[RW_AUDIT] = "all devices are read",
	[RW_FILL] = "all devices are written",
	[RW_CUT_AGAIN] = "all I/O units stop once more",
	[RW_AUDIT_AGAIN] = "all devices are read once more",
	[RW_OVER] = "the end",
};

/* For most kinds: words, a; then optional words and b. */
static const struct {
	const char *of_a, *of_b;
} plain[RW_TRACE_END - RW_TRACE_STOPPED] = {
	[RW_TRACE_STOPPED - RW_TRACE_STOPPED] = { "stops: the end of life", NULL },
	[RW_TRACE_STARTED - RW_TRACE_STOPPED] = { "starts into life", NULL },
	[RW_TRACE_HUNG - RW_TRACE_STOPPED] = { "hangs until", NULL },
	[RW_TRACE_BROKEN - RW_TRACE_STOPPED] = { "loses its connection with node", NULL },
	[RW_TRACE_CLOGGED - RW_TRACE_STOPPED] = { "gets nothing through any more to node", NULL },
	[RW_TRACE_APART -
		RW_TRACE_STOPPED] = { "and the node of this number are apart:", "= until" },
	[RW_TRACE_STUCK - RW_TRACE_STOPPED] = { "has a disk stuck, of device", "= until" },
	[RW_TRACE_SICK - RW_TRACE_STOPPED] = { "has a member that fails, of device", "= until" },
	[RW_TRACE_MET - RW_TRACE_STOPPED] = { "has greeted node", NULL },
	[RW_TRACE_PARTED - RW_TRACE_STOPPED] = { "is no longer connected with node", NULL },
	[RW_TRACE_WROTE - RW_TRACE_STOPPED] = { "writes to memory of node", "bytes" },
	[RW_TRACE_READ - RW_TRACE_STOPPED] = { "reads from memory of node", "bytes" },
	[RW_TRACE_BARRED - RW_TRACE_STOPPED] = { "is refused memory of node", "bytes" },
	[RW_TRACE_ASKED - RW_TRACE_STOPPED] = { "asks for", "transactions" },
	[RW_TRACE_ENDED - RW_TRACE_STOPPED] = { "has an end of", "bytes" },
	[RW_TRACE_DECIDED - RW_TRACE_STOPPED] = { NULL, NULL },
};

static void plain_words(const struct trace_event *e, char *text, size_t size)
{
	const char *of_a = plain[e->kind - RW_TRACE_STOPPED].of_a;
	const char *of_b = plain[e->kind - RW_TRACE_STOPPED].of_b;

	if (of_b)
		snprintf(text, size, "%s %" PRIu64 ", %" PRIu64 " %s", of_a, e->a, e->b, of_b);
	else
		snprintf(text, size, "%s %" PRIu64, of_a, e->a);
}

static void event_words(const struct trace_event *e, char *text, size_t size)
{
	uint32_t type = (uint32_t)(e->b >> 32);

	switch (e->kind) {
	case RW_TRACE_MESSAGE:
		snprintf(text, size, "says %s to node %" PRIu64 ", %u bytes",
			 type > 0 ? rio_msg_type_name((enum rio_msg_type)type) : "nothing", e->a,
			 (uint32_t)e->b);
		break;
	case RW_TRACE_DECIDED:
		snprintf(text, size, "notes that %s %" PRIu64, notes[e->a], e->b);
		break;
	case RW_TRACE_STORED:
		snprintf(text, size, "has device %" PRIu64 " %s at %" PRIu64, e->a >> 8,
			 operations[e->a & 0xff], e->b);
		break;
	case RW_TRACE_PHASE:
		snprintf(text, size, "sees that %s", phases[e->a]);
		break;
	default:
		plain_words(e, text, size);
	}
}

bool rio_world_words(const struct trace_event *e, char *text, size_t size)
{
	int n;

	if (e->kind < RW_TRACE_STOPPED || e->kind >= RW_TRACE_END)
		return false;
	n = snprintf(text, size, "node %u  ", e->who);
	if (n >= 0 && (size_t)n < size)
		event_words(e, text + n, size - (size_t)n);
	return true;
}
