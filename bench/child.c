/* SPDX-License-Identifier: BSD-2-Clause */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_STEP_NS = 500000 };

uint64_t child_clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* In the child. */
static void end_with_parent(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1); /* it ended before we asked */
}

/* In the child: becomes the program, or tells the parent why not. */
static void become(const char *const *argv, const char *const *settings, int output, int failure)
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC), reason;

	dup2(nothing, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	for (; *settings != NULL; settings++)
		putenv((char *)(uintptr_t)*settings);
	execvp(argv[0], (char *const *)(uintptr_t)argv);
	reason = errno;
	while (write(failure, &reason, sizeof(reason)) < 0 && errno == EINTR)
		;
	_exit(127);
}

int child_exec(struct child *c, const char *const *argv, const char *const *settings)
{
	int output[2], failure[2], reason = 0;
	pid_t parent = getpid();

	if (pipe2(output, O_CLOEXEC) != 0)
		return -errno;
	if (pipe2(failure, O_CLOEXEC) != 0) {
		reason = errno;
		close(output[0]);
		close(output[1]);
		return -reason;
	}
	c->pid = fork();
	if (c->pid == 0) {
		end_with_parent(parent);
		become(argv, settings, output[1], failure[1]);
	}
	if (c->pid < 0)
		reason = errno;
	close(output[1]);
	close(failure[1]);
	c->output = output[0];
	/* Nothing comes when the program runs: that end is closed by then. */
	if (c->pid > 0 && read(failure[0], &reason, sizeof(reason)) > 0)
		waitpid(c->pid, NULL, 0);
	close(failure[0]);
	if (reason != 0)
		close(c->output);
	return -reason;
}

int child_fork(struct child *c, int (*run)(void *context), void *context)
{
	pid_t parent = getpid();

	c->output = -1;
	c->pid = fork();
	if (c->pid < 0)
		return -errno;
	if (c->pid == 0) {
		end_with_parent(parent);
		_exit(run(context));
	}
	return 0;
}

static int left_ms(uint64_t deadline_ns)
{
	uint64_t now = child_clock_ns();

	return now < deadline_ns ? (int)((deadline_ns - now) / 1000000) + 1 : 0;
}

/* Until the child closes its output, which it does at its end, or until the deadline. */
static void collect(struct child *c, uint64_t deadline_ns, char *text, size_t text_bytes)
{
	struct pollfd output = { .fd = c->output, .events = POLLIN };
	size_t length = 0;
	ssize_t n = 1;

	while (n > 0 && poll(&output, 1, left_ms(deadline_ns)) > 0) {
		char more[512];

		n = read(c->output, more, sizeof(more));
		for (ssize_t i = 0; i < n && length + 1 < text_bytes; i++)
			text[length++] = more[i];
	}
	text[length] = '\0';
}

/* As waitpid(), but to the deadline; 0: it still runs. */
static pid_t wait_until(pid_t pid, int *status, uint64_t deadline_ns)
{
	const struct timespec step = { .tv_nsec = WAIT_STEP_NS };

	for (;;) {
		pid_t ended = waitpid(pid, status, WNOHANG);

		if (ended != 0 || child_clock_ns() >= deadline_ns)
			return ended;
		nanosleep(&step, NULL);
	}
}

int child_finish(struct child *c, uint64_t deadline_ns, char *text, size_t text_bytes)
{
	int status = 0;

	if (c->output >= 0)
		collect(c, deadline_ns, text, text_bytes);
	if (wait_until(c->pid, &status, deadline_ns) != c->pid) {
		child_kill(c);
		return -ETIMEDOUT;
	}
	if (c->output >= 0)
		close(c->output);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}

void child_kill(struct child *c)
{
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	if (c->output >= 0)
		close(c->output);
}
