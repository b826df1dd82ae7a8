/* SPDX-License-Identifier: BSD-2-Clause */
#include "other_peers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "other_output.h"

enum {
	ARGS_MAX = 24,
	NUMBER_BYTES = 12,
	OUTPUT_BYTES = 8192,
	LISTEN_STEP_NS = 1000000,
	UCX_DEPTH_MAX = 16,
	UCX_LARGE = 65536
};

static const uint64_t run_ns_max = UINT64_C(5000000000);

/* A program that is server and client, and what is said to each. */
struct command {
	const char *package;
	const char *const *settings; /* of the environment */
	const char *server[ARGS_MAX];
	const char *client[ARGS_MAX];
	uint16_t port;
	bool (*parse)(const char *text, struct other_result *r);
};

/* ---- Ports ----------------------------------------------------------------------------------- */

/* A port that is free now. 0: there is none. */
static uint16_t free_port(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint16_t port = 0;

	if (fd < 0)
		return 0;
	if (bind(fd, (const struct sockaddr *)&address, length) == 0 &&
	    getsockname(fd, (struct sockaddr *)&address, &length) == 0)
		port = ntohs(address.sin_port);
	close(fd);
	return port;
}

static bool is_listed_listening(const char *path, uint16_t port)
{
	char text[512];
	FILE *list = fopen(path, "re");
	bool is_found = false;

	if (list == NULL)
		return false;
	while (!is_found && fgets(text, sizeof(text), list) != NULL)
		is_found = other_output_is_listening(text, port);
	fclose(list);
	return is_found;
}

/* Asks the system, not the port: these servers take the first connection for their client. */
static bool wait_for_listener(uint16_t port, uint64_t deadline_ns)
{
	const struct timespec step = { .tv_nsec = LISTEN_STEP_NS };

	while (child_clock_ns() < deadline_ns) {
		if (is_listed_listening("/proc/net/tcp", port) ||
		    is_listed_listening("/proc/net/tcp6", port))
			return true;
		nanosleep(&step, NULL);
	}
	return false;
}

/* ---- Running --------------------------------------------------------------------------------- */

static void join(char *text, size_t text_bytes, const char *const *words)
{
	size_t at = strlen(text);

	for (; *words != NULL && at < text_bytes; words++)
		at += (size_t)snprintf(text + at, text_bytes - at, "%s%s", at > 0 ? " " : "",
				       *words);
}

static bool refuse(struct net_figure *f, const char *what, const char *detail)
{
	snprintf(f->why, sizeof(f->why), "%s: %.200s", what, detail);
	return false;
}

static bool refuse_start(struct net_figure *f, const struct command *c, int error)
{
	if (error == -ENOENT)
		return refuse(f, "not installed", c->package);
	return refuse(f, c->server[0], strerror(-error));
}

/* The client's part, while the server runs. */
static bool run_client(struct net_figure *f, const struct command *c, struct other_result *r,
		       uint64_t deadline_ns)
{
	char output[OUTPUT_BYTES], line[NET_TEXT_BYTES];
	struct child client;
	int status;

	if (!wait_for_listener(c->port, deadline_ns))
		return refuse(f, c->server[0], "the server does not listen");
	status = child_exec(&client, c->client, c->settings);
	if (status < 0)
		return refuse_start(f, c, status);
	status = child_finish(&client, deadline_ns, output, sizeof(output));
	if (status == -ETIMEDOUT)
		return refuse(f, c->client[0], "took too long");
	if (status == 0 && c->parse(output, r))
		return true;
	other_output_last_line(output, line, sizeof(line));
	return refuse(f, c->client[0], line[0] != '\0' ? line : "said nothing");
}

static bool run(struct net_figure *f, const struct command *c, struct other_result *r)
{
	uint64_t deadline_ns = child_clock_ns() + run_ns_max;
	char output[OUTPUT_BYTES];
	struct child server;
	int status = child_exec(&server, c->server, c->settings);

	if (status < 0)
		return refuse_start(f, c, status);
	f->how[0] = '\0';
	join(f->how, sizeof(f->how), c->settings);
	join(f->how, sizeof(f->how), c->client);
	if (!run_client(f, c, r, deadline_ns)) {
		child_kill(&server);
		return false;
	}
	(void)child_finish(&server, deadline_ns, output, sizeof(output));
	return true;
}

/* The numbers of an ask as words. */
struct words {
	char size[NUMBER_BYTES], depth[NUMBER_BYTES], count[NUMBER_BYTES], warm[NUMBER_BYTES],
		port[NUMBER_BYTES];
};

static void words_init(struct words *w, const struct net_ask *ask, uint16_t port)
{
	snprintf(w->size, NUMBER_BYTES, "%u", ask->size_bytes);
	snprintf(w->depth, NUMBER_BYTES, "%u", ask->depth);
	snprintf(w->count, NUMBER_BYTES, "%u", ask->count);
	snprintf(w->warm, NUMBER_BYTES, "%u", ask->warm_count);
	snprintf(w->port, NUMBER_BYTES, "%u", port);
}

/* ---- UCX ------------------------------------------------------------------------------------- */

/*
 * Two-sided tests: put over tcp takes twice the time at 8 bytes, and has a third of the bandwidth
 * at 64 KiB. Processors are left to the system; naming them (-c) changed nothing.
 *
 * ucx_perftest never writes the memory that it sends. The system then has it read one page of zeros
 * over and over, which stays in the nearest cache; large messages of the others do not. So for
 * large ones its memory comes from the heap, and the heap fills what it hands out.
 */
static bool ucx_run(struct net_figure *f, const struct net_ask *ask, const char *test,
		    struct other_result *r)
{
	static const char *const small[] = { "UCX_TLS=tcp", "UCX_NET_DEVICES=lo", NULL };
	static const char *const large[] = { "UCX_TLS=tcp", "UCX_NET_DEVICES=lo",
					     "UCX_ALLOC_PRIO=heap", "MALLOC_PERTURB_=85", NULL };
	struct words w;
	uint16_t port = free_port();

	words_init(&w, ask, port);
	return run(f,
		   &(struct command){
			   .package = "ucx-utils",
			   .settings = ask->size_bytes < UCX_LARGE ? small : large,
			   .server = { "ucx_perftest", "-p", w.port },
			   .client = { "ucx_perftest", "127.0.0.1", "-p", w.port, "-t", test, "-s",
				       w.size, "-O", w.depth, "-n", w.count, "-w", w.warm, "-f",
				       "-v" },
			   .port = port,
			   .parse = other_output_ucx,
		   },
		   r);
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

/* ---- libfabric ------------------------------------------------------------------------------- */

/* Endpoints of type msg: rdm goes through one layer more and takes longer. */
static bool pingpong_run(struct net_figure *f, const struct net_ask *ask, struct other_result *r)
{
	static const char *const settings[] = { NULL };
	struct words w;
	uint16_t port = free_port();

	words_init(&w, ask, port);
	return run(f,
		   &(struct command){
			   .package = "libfabric-bin",
			   .settings = settings,
			   .server = { "fi_pingpong", "-B", w.port, "-p", "tcp", "-e", "msg", "-I",
				       w.count, "-S", w.size },
			   .client = { "fi_pingpong", "-P", w.port, "-p", "tcp", "-e", "msg", "-I",
				       w.count, "-S", w.size, "127.0.0.1" },
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
	.color = "#8250df",
	.note = "libfabric: fi_pingpong has but one message under way, for bandwidth too",
	.bandwidth = pingpong_bandwidth,
	.latency = pingpong_latency,
};
