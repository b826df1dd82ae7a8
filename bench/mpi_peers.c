/* SPDX-License-Identifier: BSD-2-Clause */
#include "mpi_peers.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "child.h"
#include "other_run.h"

enum { OUTPUT_BYTES = 4096 };

static const uint64_t compile_ns_max = UINT64_C(60000000000);

/* Where the ranks' program is; "" before it is compiled, or if it cannot be. */
static char program[PATH_MAX + 32];

static bool compile(struct net_figure *f)
{
	static const char *const settings[] = { NULL };
	char folder[PATH_MAX], made[PATH_MAX + 32], output[OUTPUT_BYTES];
	const char *const command[] = { "mpicc", "-O2", "-o", made, MPI_PAIR_SOURCE, NULL };
	struct child c;
	int status;

	other_build_folder(folder, sizeof(folder));
	snprintf(made, sizeof(made), "%s/bench/mpi_pair", folder);
	status = child_exec(&c, command, settings);
	if (status == 0)
		status = child_finish(&c, child_clock_ns() + compile_ns_max, output,
				      sizeof(output));
	if (status == 0)
		memcpy(program, made, sizeof(program));
	else
		snprintf(f->why, sizeof(f->why), "mpicc (libopenmpi-dev) does not compile %s",
			 MPI_PAIR_SOURCE);
	return status == 0;
}

/*
 * Open MPI 4 takes UCX for hosts with adapters that it knows, unless it is told to take it for any.
 * The words of tcp are those behind `weft run`.
 */
static bool run(struct net_figure *f, const struct net_ask *ask, bool is_near,
		struct other_result *r)
{
	const char *const near_settings[] = { "WEFT_DEVICES=roce_lo", "WEFT_NEAR=on",
					      "UCX_TLS=rc_v,self",    "UCX_NET_DEVICES=roce_lo:1",
					      "OMPI_MCA_btl=self",    NULL },
			  *const tcp_settings[] = {
				  "UCX_TLS=tcp,self",	      "UCX_NET_DEVICES=lo",
				  "OMPI_MCA_pml_ucx_tls=any", "OMPI_MCA_pml_ucx_devices=any",
				  "OMPI_MCA_btl=self",	      NULL
			  };
	struct other_words w;
	char folder[PATH_MAX], weft[PATH_MAX + 8];
	struct other_command c = {
		.package = "openmpi-bin",
		.settings = is_near ? near_settings : tcp_settings,
		.parse = other_output_mpi,
	};
	const char *const words[] = { weft,
				      "run",
				      "mpirun",
				      "-n",
				      "2",
				      "--allow-run-as-root",
				      "--oversubscribe",
				      "--mca",
				      "pml",
				      "ucx",
				      "--mca",
				      "osc",
				      "ucx",
				      program,
				      w.size,
				      w.depth,
				      w.count,
				      w.warm };
	const size_t first = is_near ? 0 : 2, count = sizeof(words) / sizeof(words[0]);

	if (program[0] == '\0' && !compile(f))
		return false;
	other_build_folder(folder, sizeof(folder));
	snprintf(weft, sizeof(weft), "%s/weft", folder);
	other_words_init(&w, ask, 0);
	for (size_t i = first; i < count; i++)
		c.client[i - first] = words[i];
	return other_run(f, &c, r);
}

static bool bandwidth(struct net_figure *f, const struct net_ask *ask, bool is_near)
{
	struct other_result r;

	if (!run(f, ask, is_near, &r))
		return false;
	f->value = r.messages_per_s * ask->size_bytes;
	return true;
}

static bool latency(struct net_figure *f, const struct net_ask *ask, bool is_near)
{
	struct other_result r;

	if (!run(f, ask, is_near, &r))
		return false;
	f->value = r.latency_ns;
	return true;
}

static bool near_bandwidth(struct net_figure *f, const struct net_ask *ask)
{
	return bandwidth(f, ask, true);
}

static bool near_latency(struct net_figure *f, const struct net_ask *ask)
{
	return latency(f, ask, true);
}

static bool tcp_bandwidth(struct net_figure *f, const struct net_ask *ask)
{
	return bandwidth(f, ask, false);
}

static bool tcp_latency(struct net_figure *f, const struct net_ask *ask)
{
	return latency(f, ask, false);
}

const struct net_peer mpi_near_peer = {
	.name = "mpi_near",
	.title = "Open MPI by verbs, near",
	.bandwidth = near_bandwidth,
	.latency = near_latency,
};

const struct net_peer mpi_tcp_peer = {
	.name = "mpi_tcp",
	.title = "Open MPI by UCX tcp",
	.bandwidth = tcp_bandwidth,
	.latency = tcp_latency,
};
