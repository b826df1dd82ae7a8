/* SPDX-License-Identifier: BSD-2-Clause */
/* Formats the trace of the world of iSCSI. */
#include <inttypes.h>
#include <stdio.h>

#include "sim/iscsi/iscsi_world.h"

static const char *const kinds[ISW_KINDS] = {
	[ISW_READ] = "a read",
	[ISW_WRITE] = "a write",
	[ISW_FLUSH] = "a flush",
	[ISW_COMPARE] = "COMPARE AND WRITE",
	[ISW_REGISTER] = "a registration",
	[ISW_KEYS] = "the registrations",
	[ISW_READY] = "whether the unit is ready",
	[ISW_INQUIRY] = "INQUIRY",
	[ISW_ABORT] = "the abort of a task",
	[ISW_RESET] = "a reset of the unit",
	[ISW_PING] = "an answer to a ping",
};

static const char *const phases[] = {
	[ISW_RUN] = "faults begin",
	[ISW_REST] = "no more faults: all must come to rest",
	[ISW_AUDIT] = "all units are read",
	[ISW_POWER] = "the target's power fails, and all is read once more",
	[ISW_LEAVE] = "all log out",
	[ISW_OVER] = "the end",
};

static void target_words(const struct trace_event *e, char *text, size_t size)
{
	if (e->kind == ISW_TRACE_TARGET_STARTED)
		snprintf(text, size, "the target starts into life %" PRIu64, e->a);
	else if (e->kind == ISW_TRACE_TARGET_STOPPED)
		snprintf(text, size, "the target %s",
			 e->a ? "stops: its power fails" : "has ended in order");
	else if (e->kind == ISW_TRACE_PASSED)
		snprintf(text, size, "link %-2u %s passes, tag 0x%08" PRIx64, e->who,
			 iscsi_opcode_name((uint8_t)e->a), e->b);
	else if (e->kind == ISW_TRACE_OVERTAKEN)
		snprintf(text, size, "link %-2u %s is overtaken, tag 0x%08" PRIx64, e->who,
			 iscsi_opcode_name((uint8_t)e->a), e->b);
	else
		snprintf(text, size, "%s", phases[e->a]);
}

static void host_words(const struct trace_event *e, char *text, size_t size)
{
	switch (e->kind) {
	case ISW_TRACE_STARTED:
		snprintf(text, size, "starts into life %" PRIu64, e->a);
		break;
	case ISW_TRACE_STOPPED:
		snprintf(text, size, "stops: the end of life %" PRIu64, e->a);
		break;
	case ISW_TRACE_CONNECTED:
		snprintf(text, size, "is connected by link %" PRIu64 " to portal %" PRIu64, e->a,
			 e->b);
		break;
	case ISW_TRACE_LOGIN:
		snprintf(text, size, "has logged in");
		break;
	case ISW_TRACE_LOST:
		snprintf(text, size, "has lost its connection");
		break;
	case ISW_TRACE_OVER:
		snprintf(text, size, "has no session any more");
		break;
	case ISW_TRACE_ASKED:
		snprintf(text, size, "asks for %s, %" PRIu64, kinds[e->a], e->b);
		break;
	default:
		snprintf(text, size, "has an end of %" PRIu64 ", status 0x%02" PRIx64, e->b, e->a);
		break;
	}
}

bool iscsi_world_words(const struct trace_event *e, char *text, size_t size)
{
	int n;

	if (e->kind < ISW_TRACE_STARTED || e->kind >= ISW_TRACE_END)
		return false;
	if (e->kind == ISW_TRACE_TARGET_STARTED || e->kind == ISW_TRACE_TARGET_STOPPED ||
	    e->kind == ISW_TRACE_PASSED || e->kind == ISW_TRACE_OVERTAKEN ||
	    e->kind == ISW_TRACE_PHASE) {
		target_words(e, text, size);
		return true;
	}
	n = snprintf(text, size, "host %u  ", e->who);
	if (n >= 0 && (size_t)n < size)
		host_words(e, text + n, size - (size_t)n);
	return true;
}
