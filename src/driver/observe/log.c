/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines on stderr, enabled by WEFT_LOG. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "driver/observe/observe.h"
#include "driver/sys/output.h"

enum { LINE_BYTES = 1024 };

struct line {
	char text[LINE_BYTES];
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *l, const char *format, ...)
{
	size_t room = sizeof(l->text) - l->used;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(l->text + l->used, room, format, args);
	va_end(args);
	if (n > 0)
		l->used += (size_t)n < room ? (size_t)n : room - 1;
}

static void add_ends(struct line *l, const struct qp_ends *ends)
{
	char text[WEFT_ADDRESS_TEXT];

	if (!ends || ends->peer.family == 0)
		return;
	if (ends->local.family != 0) {
		weft_address_text(&ends->local, text);
		add(l, ", %s", text);
	}
	weft_address_text(&ends->peer, text);
	add(l, " to %s", text);
	if (ends->peer_number != 0)
		add(l, ", QP %06x", ends->peer_number);
}

/* In one piece, so that lines of several threads do not mix. */
static void say(struct line *l)
{
	l->text[l->used++] = '\n';
	(void)output_write(STDERR_FILENO, (const uint8_t *)l->text, l->used);
}

static void say_failure(const struct trace_event *e, const struct qp_ends *ends, const char *what)
{
	struct line l = { .used = 0 };

	add(&l, "weft[%ld]: QP %06x", (long)getpid(), e->who);
	add_ends(&l, ends);
	if (e->reason == WEFT_R_FLUSHED)
		add(&l, ": %s by this program.", what);
	else
		add(&l, ": %s: %s: %s", what, weft_reason_name((enum weft_reason)e->reason),
		    weft_reason_text((enum weft_reason)e->reason));
	if (ends && ends->peer_words)
		add(&l, " The peer said: %s.", ends->peer_words);
	say(&l);
}

static void say_agreed(const struct trace_event *e, const struct qp_ends *ends)
{
	struct line l = { .used = 0 };

	add(&l, "weft[%ld]: QP %06x", (long)getpid(), e->who);
	add_ends(&l, ends);
	add(&l, ": agreed: %s, %s, %u Reads in, %u out", e->b & TRACE_HAS_CRC ? "CRC" : "no CRC",
	    e->b & (TRACE_SENDS_MARKERS | TRACE_TAKES_MARKERS) ? "markers" : "no markers",
	    (unsigned int)(e->a >> 16 & 0xffff), (unsigned int)(e->a >> 32 & 0xffff));
	say(&l);
}

static void say_fault(const struct trace_event *e, const struct qp_ends *ends)
{
	struct line l = { .used = 0 };

	add(&l, "weft[%ld]: ", (long)getpid());
	if (e->who)
		add(&l, "QP %06x", e->who);
	add_ends(&l, ends);
	add(&l, "%sWEFT_FAULTS: %s", e->who ? ": " : "", fault_name((enum fault)e->a));
	say(&l);
}

/* An end that the program or its peer intended is not an error. */
static enum log_level level_of(enum weft_reason reason)
{
	return reason == WEFT_R_FLUSHED || reason == WEFT_R_PEER_GONE ? LOG_INFO : LOG_ERROR;
}

void log_event(struct observed *o, enum log_level level, const struct trace_event *e)
{
	const struct weft_qp *qp = e->who ? id_table_find(&o->core->qps, e->who) : NULL;
	const struct qp_ends *ends = qp ? &qp->ends : NULL;
	enum weft_reason reason = (enum weft_reason)e->reason;

	if (e->kind == TRACE_QP_STATE && (e->b == WEFT_QPS_ERROR || e->b == WEFT_QPS_SQE)) {
		/* The move from SQE to ERROR follows one that was logged. */
		if (reason != WEFT_OK && e->a != WEFT_QPS_SQE && level >= level_of(reason))
			say_failure(e, ends, level_of(reason) == LOG_INFO ? "ended" : "failed");
	} else if (e->kind == TRACE_CONNECT_FAILED && e->who != 0) {
		if (level >= level_of(reason))
			say_failure(e, ends, "not connected");
	} else if (e->kind == TRACE_AGREED && level >= LOG_INFO) {
		say_agreed(e, ends);
	} else if (e->kind == TRACE_FAULT && level >= LOG_INFO) {
		say_fault(e, ends);
	}
}
