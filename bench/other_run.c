/* SPDX-License-Identifier: BSD-2-Clause */
#include "other_run.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "child.h"

enum { OUTPUT_BYTES = 8192, LISTEN_STEP_NS = 1000000 };

static const uint64_t run_ns_max = UINT64_C(5000000000);
static const uint64_t alone_ns_max = UINT64_C(30000000000); /* it starts others */

/* ---- Ports ----------------------------------------------------------------------------------- */

uint16_t other_free_port(void)
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

void other_build_folder(char *path, uint32_t path_bytes)
{
	ssize_t length = readlink("/proc/self/exe", path, path_bytes - 1);

	path[length > 0 ? length : 0] = '\0';
	for (int up = 0; up < 2; up++) {
		char *end = strrchr(path, '/');

		if (end)
			*end = '\0';
	}
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

static bool refuse_start(struct net_figure *f, const struct other_command *c, int error)
{
	if (error == -ENOENT)
		return refuse(f, "not installed", c->package);
	return refuse(f, c->client[0], strerror(-error));
}

/* The client's part, while the server runs. */
static bool run_client(struct net_figure *f, const struct other_command *c, struct other_result *r,
		       uint64_t deadline_ns)
{
	char output[OUTPUT_BYTES], line[NET_TEXT_BYTES];
	struct child client;
	int status;

	if (c->server[0] && !wait_for_listener(c->port, deadline_ns))
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

bool other_run(struct net_figure *f, const struct other_command *c, struct other_result *r)
{
	uint64_t deadline_ns = child_clock_ns() + run_ns_max;
	char output[OUTPUT_BYTES];
	struct child server;
	int status;

	f->how[0] = '\0';
	join(f->how, sizeof(f->how), c->settings);
	join(f->how, sizeof(f->how), c->client);
	if (!c->server[0])
		return run_client(f, c, r, child_clock_ns() + alone_ns_max);
	status = child_exec(&server, c->server, c->settings);
	if (status < 0)
		return refuse_start(f, c, status);
	if (!run_client(f, c, r, deadline_ns)) {
		child_kill(&server);
		return false;
	}
	(void)child_finish(&server, deadline_ns, output, sizeof(output));
	return true;
}

void other_words_init(struct other_words *w, const struct net_ask *ask, uint16_t port)
{
	snprintf(w->size, OTHER_NUMBER_BYTES, "%u", ask->size_bytes);
	snprintf(w->depth, OTHER_NUMBER_BYTES, "%u", ask->depth);
	snprintf(w->count, OTHER_NUMBER_BYTES, "%u", ask->count);
	snprintf(w->warm, OTHER_NUMBER_BYTES, "%u", ask->warm_count);
	snprintf(w->port, OTHER_NUMBER_BYTES, "%u", port);
}
