/* SPDX-License-Identifier: BSD-2-Clause */
#include "other_peers.h"

#include <stddef.h>

#include "child.h"
#include "other_run.h"

enum { UCX_DEPTH_MAX = 16, UCX_LARGE = 65536, UCX_HELP_BYTES = 32768 };

/* ---- UCX ------------------------------------------------------------------------------------- */

static const uint64_t ucx_help_ns_max = UINT64_C(5000000000);

/* The option -P of one that was built with MPI, as Debian 13's is, else NULL. Asked once. */
static const char *ucx_mpi_option(void)
{
	static const char *const ask[] = { "ucx_perftest", "-h", NULL };
	static const char *const settings[] = { NULL };
	static bool is_asked, has_mpi;
	static char help[UCX_HELP_BYTES];
	struct child c;

	if (!is_asked && child_exec(&c, ask, settings) == 0) {
		(void)child_finish(&c, child_clock_ns() + ucx_help_ns_max, help, sizeof(help));
		has_mpi = other_output_ucx_has_mpi(help);
	}
	is_asked = true;
	return has_mpi ? "-P" : NULL;
}

/*
 * Two-sided tests: put over tcp takes twice the time at 8 bytes, and has a third of the bandwidth
 * at 64 KiB. Processors are left to the system; naming them (-c) changed nothing.
 *
 * ucx_perftest never writes the memory that it sends. The system then has it read one page of zeros
 * over and over, which stays in the nearest cache; large messages of the others do not. So for
 * large ones its memory comes from the heap, and the heap fills what it hands out.
 */
static bool ucx_run_by(struct net_figure *f, const struct net_ask *ask, const char *transport,
		       const char *test, struct other_result *r)
{
	const char *const settings[] = { transport, "UCX_NET_DEVICES=lo",
					 ask->size_bytes < UCX_LARGE ? NULL : "UCX_ALLOC_PRIO=heap",
					 "MALLOC_PERTURB_=85", NULL };
	const char *mpi = ucx_mpi_option(); /* NULL ends a list of words */
	struct other_words w;
	uint16_t port = other_free_port();

	other_words_init(&w, ask, port);
	return other_run(f,
			 &(struct other_command){
				 .package = "ucx-utils",
				 .settings = settings,
				 .server = { "ucx_perftest", "-p", w.port, mpi, "0" },
				 .client = { "ucx_perftest", "127.0.0.1", "-p", w.port, "-t", test,
					     "-s", w.size, "-O", w.depth, "-n", w.count, "-w",
					     w.warm, "-f", "-v", mpi, "0" },
				 .port = port,
				 .parse = other_output_ucx,
			 },
			 r);
}

static bool ucx_run(struct net_figure *f, const struct net_ask *ask, const char *test,
		    struct other_result *r)
{
	return ucx_run_by(f, ask, "UCX_TLS=tcp", test, r);
}

static bool ucx_rate(struct net_figure *f, const struct net_ask *ask)
{
	struct other_result r;

	if (!ucx_run(f, ask, "tag_bw", &r))
		return false;
	f->value = r.messages_per_s;
	return true;
}

/*
 * The better of two ways: which one that is depends on the size. With more than 16 messages under
 * way it loses a little at large sizes and gains nothing at small ones.
 */
static bool ucx_bandwidth(struct net_figure *f, const struct net_ask *ask)
{
	struct net_figure stream = { 0 };
	struct other_result tag_result, stream_result;
	struct net_ask best = *ask;

	best.depth = ask->depth < UCX_DEPTH_MAX ? ask->depth : UCX_DEPTH_MAX;
	if (!ucx_run(f, &best, "tag_bw", &tag_result))
		return false;
	if (!ucx_run(&stream, &best, "stream_bw", &stream_result)) {
		*f = stream;
		return false;
	}
	if (stream_result.messages_per_s > tag_result.messages_per_s) {
		*f = stream;
		tag_result = stream_result;
	}
	f->value = tag_result.messages_per_s * ask->size_bytes;
	return true;
}

static bool ucx_latency(struct net_figure *f, const struct net_ask *ask)
{
	struct other_result r;

	if (!ucx_run(f, ask, "tag_lat", &r))
		return false;
	f->value = r.latency_ns;
	return true;
}

const struct net_peer ucx_peer = {
	.name = "ucx",
	.title = "UCX tcp",
	.color = "#d9730d",
	.note = "UCX: two-sided tests; bandwidth by tag_bw or stream_bw, the better, 16 under way; "
		"from 64 KiB on its memory is written before (UCX_ALLOC_PRIO=heap)",
	.bandwidth = ucx_bandwidth,
	.latency = ucx_latency,
	.rate = ucx_rate,
};

/* ---- UCX by shared memory ------------------------------------------------------------------- */

static bool ucx_memory_run(struct net_figure *f, const struct net_ask *ask, const char *test,
			   struct other_result *r)
{
	return ucx_run_by(f, ask, "UCX_TLS=sm,self", test, r);
}

static bool ucx_memory_rate(struct net_figure *f, const struct net_ask *ask)
{
	struct other_result r;

	if (!ucx_memory_run(f, ask, "tag_bw", &r))
		return false;
	f->value = r.messages_per_s;
	return true;
}

static bool ucx_memory_bandwidth(struct net_figure *f, const struct net_ask *ask)
{
	struct net_ask best = *ask;

	best.depth = ask->depth < UCX_DEPTH_MAX ? ask->depth : UCX_DEPTH_MAX;
	if (!ucx_memory_rate(f, &best))
		return false;
	f->value *= ask->size_bytes;
	return true;
}

static bool ucx_memory_latency(struct net_figure *f, const struct net_ask *ask)
{
	struct other_result r;

	if (!ucx_memory_run(f, ask, "tag_lat", &r))
		return false;
	f->value = r.latency_ns;
	return true;
}

const struct net_peer ucx_memory_peer = {
	.name = "ucx_sm",
	.title = "UCX shared memory",
	.bandwidth = ucx_memory_bandwidth,
	.latency = ucx_memory_latency,
	.rate = ucx_memory_rate,
};

/* ---- libfabric ------------------------------------------------------------------------------- */

/* Endpoints of type msg: rdm goes through one layer more and takes longer. */
static bool pingpong_run(struct net_figure *f, const struct net_ask *ask, struct other_result *r)
{
	static const char *const settings[] = { NULL };
	struct other_words w;
	uint16_t port = other_free_port();

	other_words_init(&w, ask, port);
	return other_run(f,
			 &(struct other_command){
				 .package = "libfabric-bin",
				 .settings = settings,
				 .server = { "fi_pingpong", "-B", w.port, "-p", "tcp", "-e", "msg",
					     "-I", w.count, "-S", w.size },
				 .client = { "fi_pingpong", "-P", w.port, "-p", "tcp", "-e", "msg",
					     "-I", w.count, "-S", w.size, "127.0.0.1" },
				 .port = port,
				 .parse = other_output_pingpong,
			 },
			 r);
}

static bool pingpong_bandwidth(struct net_figure *f, const struct net_ask *ask)
{
	struct other_result r;

	if (!pingpong_run(f, ask, &r))
		return false;
	f->value = r.messages_per_s * ask->size_bytes;
	return true;
}

static bool pingpong_latency(struct net_figure *f, const struct net_ask *ask)
{
	struct other_result r;

	if (!pingpong_run(f, ask, &r))
		return false;
	f->value = r.latency_ns;
	return true;
}

const struct net_peer libfabric_peer = {
	.name = "libfabric",
	.title = "libfabric tcp",
	.color = "#bf3989",
	.note = "libfabric: fi_pingpong has but one message under way, for bandwidth too",
	.bandwidth = pingpong_bandwidth,
	.latency = pingpong_latency,
};
