/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs commands in the guest for this machine; one static program, both ends.
 *
 *	agent serve PORT               in the guest, as PID 1: accept, run, reap
 *	agent exec HOST PORT SECS CMD  here: run CMD in the guest, pass stdin in, stdout and stderr
 *	                               out, and exit with its status (124 after SECS, if not 0;
 *	                               125 when the agent could not be reached)
 *
 * Frames, both ways: one type byte, a big-endian length of four, the payload.
 *
 *	to the guest    'c' command   'i' stdin; length 0: it has ended
 *	from the guest  'o' stdout    'e' stderr    'x' one byte of exit status
 *
 * The guest kills the command's process group when this machine hangs up first.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 16384, HEAD = 5, COMMAND_MAX = 1 << 20, POLL_MS = 10 };

static bool put(int fd, const void *bytes, size_t length)
{
	const char *at = bytes;

	while (length > 0) {
		ssize_t n = write(fd, at, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		length -= (size_t)n;
	}
	return true;
}

static bool get(int fd, void *bytes, size_t length)
{
	char *at = bytes;

	while (length > 0) {
		ssize_t n = read(fd, at, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		length -= (size_t)n;
	}
	return true;
}

static bool frame_put(int fd, char type, const void *bytes, size_t length)
{
	char head[HEAD] = { type };
	uint32_t be = htonl((uint32_t)length);

	memcpy(head + 1, &be, sizeof(be));
	return put(fd, head, sizeof(head)) && put(fd, bytes, length);
}

static bool frame_head(int fd, char *type, uint32_t *length)
{
	char head[HEAD];

	if (!get(fd, head, sizeof(head)))
		return false;
	*type = head[0];
	memcpy(length, head + 1, sizeof(*length));
	*length = ntohl(*length);
	return true;
}

/* ---- In the guest --------------------------------------------------------------------------- */

struct command {
	int socket;
	int in, out, err; /* of the child; -1: has ended */
	pid_t child;
};

static char *command_text(int socket)
{
	char type, *text;
	uint32_t length;

	if (!frame_head(socket, &type, &length) || type != 'c' || length > COMMAND_MAX)
		return NULL;
	text = calloc(1, length + 1);
	return text && get(socket, text, length) ? text : NULL;
}

static bool command_start(struct command *c, const char *text)
{
	int in[2], out[2], err[2];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		return false;
	c->child = fork();
	if (c->child == 0) {
		setsid();
		signal(SIGPIPE, SIG_DFL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		dup2(err[1], 2);
		execl("/bin/sh", "sh", "-c", text, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	close(err[1]);
	c->in = in[1];
	c->out = out[0];
	c->err = err[0];
	return c->child > 0;
}

/* Passes on what a pipe holds. False: the other end is gone. */
static bool command_output(const struct command *c, int *from, char type, bool *has_moved)
{
	char bytes[CHUNK];
	ssize_t n = read(*from, bytes, sizeof(bytes));

	if (n <= 0) {
		close(*from);
		*from = -1;
		return true;
	}
	*has_moved = true;
	return frame_put(c->socket, type, bytes, (size_t)n);
}

static bool command_input(struct command *c)
{
	char type, bytes[CHUNK];
	uint32_t length;

	if (!frame_head(c->socket, &type, &length) || length > sizeof(bytes) ||
	    !get(c->socket, bytes, length))
		return false;
	if (type == 'i' && c->in >= 0 && (length == 0 || !put(c->in, bytes, length))) {
		close(c->in);
		c->in = -1;
	}
	return true;
}

/* Moves bytes until the command has ended and said all. False: the other end is gone. */
static bool command_run(struct command *c, int *status)
{
	bool has_ended = false;

	for (;;) {
		struct pollfd p[3] = { { has_ended ? -1 : c->socket, POLLIN, 0 },
				       { c->out, POLLIN, 0 },
				       { c->err, POLLIN, 0 } };
		bool has_moved = false;

		poll(p, 3, has_ended ? 0 : POLL_MS);
		if (p[1].revents && !command_output(c, &c->out, 'o', &has_moved))
			return false;
		if (p[2].revents && !command_output(c, &c->err, 'e', &has_moved))
			return false;
		if (has_ended && !has_moved)
			return true;
		if (p[0].revents && !command_input(c))
			return false;
		if (!has_ended && waitpid(c->child, status, WNOHANG) == c->child)
			has_ended = true;
	}
}

static void command_serve(int socket)
{
	struct command c = { .socket = socket };
	unsigned char code;
	int status = 0;
	char *text;

	signal(SIGCHLD, SIG_DFL);
	text = command_text(socket);
	if (!text || !command_start(&c, text))
		return;
	if (command_run(&c, &status)) {
		code = (unsigned char)(WIFEXITED(status) ? WEXITSTATUS(status)
							 : 128 + WTERMSIG(status));
		frame_put(socket, 'x', &code, 1);
		return;
	}
	kill(-c.child, SIGTERM);
	usleep(200000);
	kill(-c.child, SIGKILL);
}

static void reap(int signal_number)
{
	int kept = errno;

	(void)signal_number;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		continue;
	errno = kept;
}

static int serve(int port)
{
	struct sigaction on_child = { .sa_handler = reap, .sa_flags = SA_RESTART };
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	sigaction(SIGCHLD, &on_child, NULL);
	signal(SIGPIPE, SIG_IGN);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (const struct sockaddr *)&at, sizeof(at)) || listen(listener, 32)) {
		perror("agent: listen");
		return 1;
	}
	for (;;) {
		int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (s < 0)
			continue;
		setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (fork() == 0) {
			close(listener);
			command_serve(s);
			shutdown(s, SHUT_WR);
			_exit(0);
		}
		close(s);
	}
}

/* ---- On this machine ------------------------------------------------------------------------ */

static bool input_pass(int socket)
{
	char bytes[CHUNK];
	ssize_t n = read(0, bytes, sizeof(bytes));

	if (n < 0)
		n = 0;
	frame_put(socket, 'i', bytes, (size_t)n);
	return n > 0;
}

/* The exit status; -1: the command goes on. */
static int output_pass(int socket)
{
	char type, bytes[CHUNK];
	uint32_t length;

	if (!frame_head(socket, &type, &length) || length > sizeof(bytes) ||
	    !get(socket, bytes, length)) {
		fprintf(stderr, "agent: the guest hung up\n");
		return 125;
	}
	if (type == 'x')
		return (unsigned char)bytes[0];
	put(type == 'e' ? 2 : 1, bytes, length);
	return -1;
}

static int client(const char *host, int port, long seconds, const char *text)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int s = socket(AF_INET, SOCK_STREAM, 0), one = 1, status = -1;
	time_t end = time(NULL) + seconds;
	bool has_input = true;

	signal(SIGPIPE, SIG_IGN);
	inet_pton(AF_INET, host, &to.sin_addr);
	if (connect(s, (const struct sockaddr *)&to, sizeof(to))) {
		perror("agent: connect");
		return 125;
	}
	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (!frame_put(s, 'c', text, strlen(text)))
		return 125;
	while (status < 0) {
		struct pollfd p[2] = { { s, POLLIN, 0 }, { has_input ? 0 : -1, POLLIN, 0 } };
		long left = seconds ? (long)(end - time(NULL)) * 1000 : -1;

		if (seconds && left <= 0) {
			fprintf(stderr, "agent: no end after %ld s\n", seconds);
			return 124;
		}
		if (poll(p, 2, (int)left) < 0 && errno != EINTR)
			return 125;
		if (p[1].revents)
			has_input = input_pass(s);
		if (p[0].revents)
			status = output_pass(s);
	}
	return status;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		return serve(atoi(argv[2]));
	if (argc == 6 && strcmp(argv[1], "exec") == 0)
		return client(argv[2], atoi(argv[3]), atol(argv[4]), argv[5]);
	fprintf(stderr, "usage: agent serve PORT | agent exec HOST PORT SECS CMD\n");
	return 2;
}
