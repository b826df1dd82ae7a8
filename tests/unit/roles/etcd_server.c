/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/roles/etcd_server.h"

#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "roles/etcd.h"
#include "test.h"

enum { PATIENCE_MS = 30000, TRIES = 5, ARGS = 20 };

bool etcd_is_built(void)
{
	struct etcd_config c = { .url = "http://127.0.0.1:1", .prefix = "/" };
	struct etcd *e = NULL;
	char why[ETCD_WHY];

	if (!etcd_open(&c, &e, why))
		return false;
	etcd_close(e);
	return true;
}

const char *etcd_server_lack(void)
{
	if (!etcd_is_built())
		return "built without libcurl and jansson";
	return access("/usr/bin/etcd", X_OK) == 0 ? NULL : "there is no etcd";
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool wait_until(bool (*is_so)(void *context), void *context)
{
	int64_t end = now_ms() + PATIENCE_MS;

	while (!is_so(context)) {
		if (now_ms() > end)
			return false;
		/* Not to ask thousands of times a second. */
		poll(NULL, 0, 10);
	}
	return true;
}

int loopback_listen(unsigned int *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	REQUIRE(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
	REQUIRE(listen(fd, 8) == 0 && getsockname(fd, (struct sockaddr *)&at, &length) == 0);
	*port = ntohs(at.sin_port);
	return fd;
}

static _Noreturn void become_etcd(const struct etcd_server *s, int output)
{
	char cluster[96];
	char *args[ARGS] = { (char *)"etcd", (char *)"--name", (char *)"test", (char *)"--data-dir",
			     (char *)s->folder, (char *)"--listen-client-urls", (char *)s->url,
			     (char *)"--advertise-client-urls", (char *)s->url,
			     (char *)"--listen-peer-urls", (char *)s->peer_url,
			     (char *)"--initial-advertise-peer-urls", (char *)s->peer_url,
			     (char *)"--initial-cluster", cluster,
			     /* Leases can be as short as an election is. */
			     (char *)"--heartbeat-interval=20", (char *)"--election-timeout=200",
			     strncmp(s->url, "https", 5) == 0 ? (char *)"--auto-tls" : NULL };

	snprintf(cluster, sizeof(cluster), "test=%s", s->peer_url);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(output, STDERR_FILENO);
	dup2(output, STDOUT_FILENO);
	/* It runs on arm64, but wants to be told so. */
	setenv("ETCD_UNSUPPORTED_ARCH", "arm64", 1);
	execv("/usr/bin/etcd", args);
	_exit(127);
}

/* Waits until the server is ready. False: it has ended, maybe because a port is taken. */
static bool await_ready(struct etcd_server *s)
{
	static char said[64 << 10];
	struct pollfd poll_fd = { .fd = s->output, .events = POLLIN };
	int64_t end = now_ms() + PATIENCE_MS;
	size_t have = 0;

	while (now_ms() < end && have < sizeof(said) - 1) {
		ssize_t n;

		if (poll(&poll_fd, 1, 1000) <= 0)
			continue;
		n = read(s->output, said + have, sizeof(said) - 1 - have);
		if (n <= 0)
			break;
		have += (size_t)n;
		said[have] = '\0';
		if (strstr(said, "ready to serve client requests"))
			return true;
	}
	printf("%s\n", said);
	return false;
}

static bool run(struct etcd_server *s)
{
	int ends[2];

	REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
	/* The pipe is not read any more, and the server must not block on it. */
	(void)fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
	s->pid = fork();
	REQUIRE(s->pid >= 0);
	if (s->pid == 0)
		become_etcd(s, ends[1]);
	close(ends[1]);
	s->output = ends[0];
	if (await_ready(s))
		return true;
	etcd_server_kill(s);
	return false;
}

void etcd_server_start(struct etcd_server *s, bool is_tls)
{
	for (int i = 0; i < TRIES; i++) {
		unsigned int port, peer_port;
		int fd = loopback_listen(&port), peer_fd = loopback_listen(&peer_port);

		snprintf(s->folder, sizeof(s->folder), "%.40s/weft-etcd-XXXXXX", harness_folder());
		REQUIRE(mkdtemp(s->folder));
		snprintf(s->url, sizeof(s->url), "http%s://127.0.0.1:%u", is_tls ? "s" : "", port);
		snprintf(s->peer_url, sizeof(s->peer_url), "http://127.0.0.1:%u", peer_port);
		close(fd);
		close(peer_fd);
		if (run(s))
			return;
		etcd_server_stop(s);
	}
	REQUIRE(false);
}

void etcd_server_kill(struct etcd_server *s)
{
	if (s->pid == 0)
		return;
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	close(s->output);
	s->pid = 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static void forget(struct etcd_server *s)
{
	REQUIRE(nftw(s->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

void etcd_server_restart(struct etcd_server *s, bool is_forgetful)
{
	etcd_server_kill(s);
	if (is_forgetful)
		forget(s);
	REQUIRE(run(s));
}

void etcd_server_stop(struct etcd_server *s)
{
	etcd_server_kill(s);
	forget(s);
}
