/* SPDX-License-Identifier: BSD-2-Clause */
#include "perftest_peers.h"

#include <limits.h>
#include <stdio.h>

#include "other_run.h"

enum { LIST = 64, LONGER = 15 };

enum wire { WIRE_IWARP, WIRE_NEAR, WIRE_UDP }; /* the last two: RoCE */

struct perftest {
	const char *program;
	enum wire wire;
	const char *more[2];
};

static void libraries_setting(char *text, size_t text_bytes)
{
	char path[PATH_MAX];

	other_build_folder(path, sizeof(path));
	snprintf(text, text_bytes, "LD_LIBRARY_PATH=%s", path);
}

/*
 * -F: its opinion of the processor's clock is not asked for. -N: it does not look at the clock for
 * every message, which took a third of its time. That, and what follows it, is for bandwidth and
 * rate: the words of a latency test end there, at a NULL.
 */
static bool run(struct net_figure *f, const struct net_ask *ask, const struct perftest *t,
		struct other_result *r)
{
	char libraries[PATH_MAX + 32];
	bool is_roce = t->wire != WIRE_IWARP;
	const char *const settings[] = { libraries,
					 is_roce ? "WEFT_DEVICES=roce_lo" : "WEFT_DEVICES=iw_lo",
					 t->wire == WIRE_NEAR ? "WEFT_NEAR=on" : "WEFT_NEAR=off",
					 NULL };
	struct other_words w;
	struct net_ask longer = *ask;
	uint16_t port = other_free_port();
	bool is_latency = ask->depth == 1;
	/* A server of RoCE's manager has no TCP port by which one could tell that it listens. */
	const char *by = is_roce ? "-F" : "-R";

	libraries_setting(libraries, sizeof(libraries));
	/* A whole number of lists; the first ones, while it warms up, are to count for little. */
	longer.count = (ask->count * (is_latency ? 1 : LONGER) + LIST - 1) / LIST * LIST;
	other_words_init(&w, &longer, port);
	return other_run(f,
			 &(struct other_command){
				 .package = "perftest",
				 .settings = settings,
				 .server = { t->program, by, "-F", "-p", w.port, "-s", w.size, "-n",
					     w.count, is_latency ? NULL : "-N", "-t", w.depth,
					     t->more[0], t->more[1] },
				 .client = { t->program, by, "-F", "-p", w.port, "-s", w.size, "-n",
					     w.count, "127.0.0.1", is_latency ? NULL : "-N", "-t",
					     w.depth, t->more[0], t->more[1] },
				 .port = port,
				 .parse = other_output_perftest,
			 },
			 r);
}

static bool bandwidth(struct net_figure *f, const struct net_ask *ask, const struct perftest *t)
{
	struct other_result r;

	if (!run(f, ask, t, &r))
		return false;
	f->value = r.messages_per_s * ask->size_bytes;
	return true;
}

static bool latency(struct net_figure *f, const struct net_ask *ask, const struct perftest *t)
{
	struct other_result r;

	if (!run(f, ask, t, &r))
		return false;
	f->value = r.latency_ns;
	return true;
}

static bool rate(struct net_figure *f, const struct net_ask *ask, const struct perftest *t)
{
	struct other_result r;

	if (!run(f, ask, t, &r))
		return false;
	f->value = r.messages_per_s;
	return true;
}

static bool write_bandwidth(struct net_figure *f, const struct net_ask *ask)
{
	return bandwidth(f, ask, &(struct perftest){ .program = "ib_write_bw" });
}

static bool write_latency(struct net_figure *f, const struct net_ask *ask)
{
	return latency(f, ask, &(struct perftest){ .program = "ib_write_lat" });
}

static bool read_bandwidth(struct net_figure *f, const struct net_ask *ask)
{
	return bandwidth(f, ask, &(struct perftest){ .program = "ib_read_bw" });
}

static bool send_latency(struct net_figure *f, const struct net_ask *ask)
{
	return latency(f, ask, &(struct perftest){ .program = "ib_send_lat" });
}

static bool send_rate(struct net_figure *f, const struct net_ask *ask)
{
	return rate(f, ask, &(struct perftest){ .program = "ib_send_bw" });
}

static bool send_lists(struct net_figure *f, const struct net_ask *ask, enum wire wire)
{
	const struct perftest lists = { "ib_send_bw",
					wire,
					{ "--post_list=64", "--recv_post_list=64" } };

	return rate(f, ask, &lists);
}

static bool list_rate(struct net_figure *f, const struct net_ask *ask)
{
	return send_lists(f, ask, WIRE_IWARP);
}

/* ---- Between programs of one host ----------------------------------------------------------- */

static bool near_bandwidth(struct net_figure *f, const struct net_ask *ask)
{
	return bandwidth(f, ask, &(struct perftest){ .program = "ib_write_bw", .wire = WIRE_NEAR });
}

static bool near_latency(struct net_figure *f, const struct net_ask *ask)
{
	return latency(f, ask, &(struct perftest){ .program = "ib_send_lat", .wire = WIRE_NEAR });
}

static bool near_write_latency(struct net_figure *f, const struct net_ask *ask)
{
	return latency(f, ask, &(struct perftest){ .program = "ib_write_lat", .wire = WIRE_NEAR });
}

static bool near_list_rate(struct net_figure *f, const struct net_ask *ask)
{
	return send_lists(f, ask, WIRE_NEAR);
}

const struct net_peer perftest_near_write_peer = {
	.name = "perftest_near_write",
	.title = "perftest Write, near",
	.bandwidth = near_bandwidth,
	.latency = near_write_latency,
};

const struct net_peer perftest_near_send_peer = {
	.name = "perftest_near_send",
	.title = "perftest Send, near",
	.latency = near_latency,
};

const struct net_peer perftest_near_list_peer = {
	.name = "perftest_near_list",
	.title = "perftest Send, near, lists",
	.rate = near_list_rate,
};

/* ---- RoCE over UDP -------------------------------------------------------------------------- */

static bool udp_latency(struct net_figure *f, const struct net_ask *ask)
{
	return latency(f, ask, &(struct perftest){ .program = "ib_send_lat", .wire = WIRE_UDP });
}

static bool udp_write_latency(struct net_figure *f, const struct net_ask *ask)
{
	return latency(f, ask, &(struct perftest){ .program = "ib_write_lat", .wire = WIRE_UDP });
}

const struct net_peer perftest_udp_write_peer = {
	.name = "perftest_udp_write",
	.title = "perftest Write, RoCE over UDP",
	.latency = udp_write_latency,
};

const struct net_peer perftest_udp_send_peer = {
	.name = "perftest_udp_send",
	.title = "perftest Send, RoCE over UDP",
	.latency = udp_latency,
};

/* ---- RoCE, one Write at a time, with and without loss --------------------------------------- */

static bool lone_bandwidth(struct net_figure *f, const struct net_ask *ask, const char *loss)
{
	enum { COUNT = 2000 };
	const char *program = "ib_write_bw";
	char libraries[PATH_MAX + 32];
	const char *const settings[] = { libraries, "WEFT_DEVICES=roce_lo", loss, NULL };
	struct net_ask lone = { .size_bytes = ask->size_bytes, .depth = 1, .count = COUNT };
	uint16_t port = other_free_port();
	struct other_words w;
	struct other_result r;

	libraries_setting(libraries, sizeof(libraries));
	other_words_init(&w, &lone, port);
	if (!other_run(f,
		       &(struct other_command){
			       .package = "perftest",
			       .settings = settings,
			       .server = { program, "-F", "-p", w.port, "-s", w.size, "-n", w.count,
					   "-t", w.depth },
			       .client = { program, "-F", "-p", w.port, "-s", w.size, "-n", w.count,
					   "-t", w.depth, "127.0.0.1" },
			       .port = port,
			       .parse = other_output_perftest,
		       },
		       &r))
		return false;
	f->value = r.messages_per_s * ask->size_bytes;
	return true;
}

static bool clean_bandwidth(struct net_figure *f, const struct net_ask *ask)
{
	return lone_bandwidth(f, ask, NULL);
}

static bool lossy_bandwidth(struct net_figure *f, const struct net_ask *ask)
{
	return lone_bandwidth(f, ask, "WEFT_FAULTS=seed=7,loss=0.01");
}

const struct net_peer perftest_clean_peer = {
	.name = "perftest_roce",
	.title = "perftest Write, RoCE, one at a time",
	.bandwidth = clean_bandwidth,
};

const struct net_peer perftest_lossy_peer = {
	.name = "perftest_roce_loss",
	.title = "perftest Write, RoCE, one at a time, 1 % loss",
	.bandwidth = lossy_bandwidth,
};

const struct net_peer perftest_write_peer = {
	.name = "perftest_write",
	.title = "perftest Write",
	.bandwidth = write_bandwidth,
	.latency = write_latency,
};

const struct net_peer perftest_read_peer = {
	.name = "perftest_read",
	.title = "perftest Read",
	.bandwidth = read_bandwidth,
};

const struct net_peer perftest_send_peer = {
	.name = "perftest_send",
	.title = "perftest Send",
	.latency = send_latency,
	.rate = send_rate,
};

const struct net_peer perftest_list_peer = {
	.name = "perftest_list",
	.title = "perftest Send, lists",
	.rate = list_rate,
};
