/* SPDX-License-Identifier: BSD-2-Clause */
/* weft itself, over iWARP and RoCE: what `weft perf` does, with a child at the other end. */
#include "weft_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "cmd/perf/perf_run.h"

enum { SIZE_MIN = 4096 };

static const uint64_t run_ns_max = UINT64_C(20000000000);
static const uint64_t sample_ns = 80 * 1000 * 1000, warm_ns = 10 * 1000 * 1000;

struct session {
	struct perf_how how;
	struct perf_test test;
	int address[2]; /* a pipe: where the child listens */
};

/* The other end: serves one connection until that is over. */
static int serve(void *context)
{
	const struct session *s = context;
	struct weft_address at = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct perf_door *door;
	struct perf_end *e;

	if (perf_open(s->test.size > SIZE_MIN ? s->test.size : SIZE_MIN, s->how.is_roce, &e) !=
	    WEFT_OK)
		return 1;
	if (perf_listen(e, &at, &s->how, &door) != WEFT_OK ||
	    perf_door_address(door, &at) != WEFT_OK ||
	    write(s->address[1], &at, sizeof(at)) != sizeof(at) || perf_take(door) != WEFT_OK)
		return 1;
	(void)perf_serve(e);
	perf_door_close(door);
	perf_close(e);
	return 0;
}

static enum weft_reason ask(struct session *s, struct perf_result *result)
{
	struct weft_address at;
	struct perf_end *e;
	enum weft_reason r;

	if (read(s->address[0], &at, sizeof(at)) != sizeof(at))
		return WEFT_R_PEER_GONE;
	r = perf_open(s->test.size > SIZE_MIN ? s->test.size : SIZE_MIN, s->how.is_roce, &e);
	if (r != WEFT_OK)
		return r;
	r = perf_dial(e, &at, &s->how);
	s->test.duration_ns = warm_ns;
	if (r == WEFT_OK)
		r = perf_run(e, &s->test, result);
	s->test.duration_ns = sample_ns;
	if (r == WEFT_OK)
		r = perf_run(e, &s->test, result);
	perf_close(e);
	return r;
}

static bool measure(struct session *s, struct net_figure *f, struct perf_result *result)
{
	static const char *const ops[PERF_OPS] = { "write", "read", "send" };
	enum weft_reason r = WEFT_R_SYSTEM;
	struct child child;

	if (pipe(s->address) == 0) {
		if (child_fork(&child, serve, s) == 0) {
			close(s->address[1]);
			s->address[1] = -1;
			r = ask(s, result);
			if (child_finish(&child, child_clock_ns() + run_ns_max, NULL, 0) != 0 &&
			    r == WEFT_OK)
				r = WEFT_R_PEER_GONE;
		}
		close(s->address[0]);
		if (s->address[1] >= 0)
			close(s->address[1]);
	}
	if (r != WEFT_OK) {
		snprintf(f->why, sizeof(f->why), "%s", weft_reason_text(r));
		return false;
	}
	snprintf(
		f->how, sizeof(f->how),
		"weft perf --op %s%s --size %u --depth %u --batch %u --inline %u%s: per message %.3f calls that send, "
		"%.3f that received, %.1f bytes copied by weft",
		ops[s->test.op], s->test.is_latency ? " --latency" : "", s->test.size,
		s->test.depth, s->test.batch, s->test.inline_max,
		s->how.is_roce		  ? " --roce"
		: s->how.iwarp.is_crc_off ? " --no-crc"
					  : "",
		(double)result->traffic.calls_out / (double)result->messages,
		(double)(result->traffic.calls_in - result->traffic.calls_empty) /
			(double)result->messages,
		(double)result->traffic.payload_copied / (double)result->messages);
	return true;
}

static struct session session_of(const struct net_ask *n, enum perf_op op, bool is_crc_off)
{
	return (struct session){
		.how = { .iwarp.is_crc_off = is_crc_off, .mtu_bytes = 4096 },
		.test = { .op = op,
			  .size = n->size_bytes,
			  .depth = n->depth,
			  .batch = PERF_BATCH_MAX,
			  .inline_max = PERF_INLINE_MAX },
	};
}

static bool bandwidth(struct net_figure *f, struct session s)
{
	struct perf_result result;

	if (!measure(&s, f, &result))
		return false;
	f->value = (double)result.bytes * 1e9 / (double)result.elapsed_ns;
	return true;
}

static bool latency(struct net_figure *f, struct session s)
{
	struct perf_result result;

	s.test.is_latency = true;
	if (!measure(&s, f, &result))
		return false;
	f->value = (double)sample_ns / (double)result.messages / 2;
	return true;
}

static bool rate(struct net_figure *f, struct session s)
{
	struct perf_result result;

	if (!measure(&s, f, &result))
		return false;
	f->value = (double)result.messages * 1e9 / (double)result.elapsed_ns;
	return true;
}

/* ---- The peers ------------------------------------------------------------------------------- */

static bool crc_bandwidth(struct net_figure *f, const struct net_ask *n)
{
	return bandwidth(f, session_of(n, PERF_WRITE, false));
}

static bool crc_latency(struct net_figure *f, const struct net_ask *n)
{
	return latency(f, session_of(n, PERF_WRITE, false));
}

static bool crc_rate(struct net_figure *f, const struct net_ask *n)
{
	return rate(f, session_of(n, PERF_SEND, false));
}

static bool plain_bandwidth(struct net_figure *f, const struct net_ask *n)
{
	return bandwidth(f, session_of(n, PERF_WRITE, true));
}

static bool plain_latency(struct net_figure *f, const struct net_ask *n)
{
	return latency(f, session_of(n, PERF_WRITE, true));
}

static bool plain_rate(struct net_figure *f, const struct net_ask *n)
{
	return rate(f, session_of(n, PERF_SEND, true));
}

static bool send_latency(struct net_figure *f, const struct net_ask *n)
{
	return latency(f, session_of(n, PERF_SEND, false));
}

/* As perftest does: a call for each request or a list of 64, and inline only if it is asked to. */
static bool as_perftest_rate(struct net_figure *f, const struct net_ask *n, uint32_t batch)
{
	struct session s = session_of(n, PERF_SEND, false);

	s.test.batch = batch;
	s.test.inline_max = 0;
	return rate(f, s);
}

static bool single_rate(struct net_figure *f, const struct net_ask *n)
{
	return as_perftest_rate(f, n, 1);
}

static bool list_rate(struct net_figure *f, const struct net_ask *n)
{
	return as_perftest_rate(f, n, PERF_BATCH_MAX);
}

/* ---- RoCE ------------------------------------------------------------------------------------ */

/* Both ends are of this process's environment. */
static struct session roce_session_of(const struct net_ask *n, enum perf_op op)
{
	struct session s = session_of(n, op, false);

	(void)setenv("WEFT_NEAR", "off", 1);
	s.how.is_roce = true;
	return s;
}

static struct session near_session_of(const struct net_ask *n, enum perf_op op)
{
	struct session s = roce_session_of(n, op);

	(void)setenv("WEFT_NEAR", "on", 1);
	return s;
}

static bool near_bandwidth(struct net_figure *f, const struct net_ask *n)
{
	return bandwidth(f, near_session_of(n, PERF_WRITE));
}

static bool near_latency(struct net_figure *f, const struct net_ask *n)
{
	return latency(f, near_session_of(n, PERF_WRITE));
}

static bool roce_bandwidth(struct net_figure *f, const struct net_ask *n)
{
	return bandwidth(f, roce_session_of(n, PERF_WRITE));
}

static bool roce_latency(struct net_figure *f, const struct net_ask *n)
{
	return latency(f, roce_session_of(n, PERF_WRITE));
}

static bool roce_rate(struct net_figure *f, const struct net_ask *n)
{
	return rate(f, roce_session_of(n, PERF_SEND));
}

static bool read_bandwidth(struct net_figure *f, const struct net_ask *n)
{
	return bandwidth(f, session_of(n, PERF_READ, false));
}

const struct net_peer weft_peer = {
	.name = "weft",
	.title = "weft",
	.color = "#0969da",
	.note = "iWARP with CRC: bandwidth and latency of Writes, rate of Sends",
	.bandwidth = crc_bandwidth,
	.latency = crc_latency,
	.rate = crc_rate,
};

const struct net_peer weft_plain_peer = {
	.name = "weft_no_crc",
	.title = "weft, no CRC",
	.color = "#54aeff",
	.bandwidth = plain_bandwidth,
	.latency = plain_latency,
	.rate = plain_rate,
};

const struct net_peer weft_near_peer = {
	.name = "weft_near",
	.title = "weft, RoCE by shared memory",
	.bandwidth = near_bandwidth,
	.latency = near_latency,
};

const struct net_peer weft_roce_peer = {
	.name = "weft_roce",
	.title = "weft, RoCE",
	.color = "#1a7f37",
	.note = "RoCE over UDP: bandwidth and latency of Writes, rate of Sends",
	.bandwidth = roce_bandwidth,
	.latency = roce_latency,
	.rate = roce_rate,
};

const struct net_peer weft_read_peer = {
	.name = "weft_read",
	.title = "weft Read",
	.color = "#8250df",
	.bandwidth = read_bandwidth,
};

const struct net_peer weft_send_peer = {
	.name = "weft_send",
	.title = "weft Send",
	.latency = send_latency,
	.rate = crc_rate,
};

const struct net_peer weft_single_peer = {
	.name = "weft_single",
	.title = "weft Send, one by one",
	.rate = single_rate,
};

const struct net_peer weft_list_peer = {
	.name = "weft_list",
	.title = "weft Send, lists",
	.rate = list_rate,
};
