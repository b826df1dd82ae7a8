/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/demo/demo_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmd/clock.h"

enum { LINE_WAIT_MS = 15000, STEP_MS = 20 };

static void pause_step(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = STEP_MS * 1000000L }, NULL);
}

/* ---- The folder ----------------------------------------------------------------------------- */

bool demo_folder_make(struct demo_folder *f)
{
	const char *base = getenv("TMPDIR");
	int length = snprintf(f->path, sizeof(f->path), "%s/weft-demo-XXXXXX",
			      base && base[0] == '/' ? base : "/tmp");

	f->count = 0;
	if (length < 0 || (size_t)length >= sizeof(f->path) - DEMO_NAME) {
		f->path[0] = '\0';
		errno = ENAMETOOLONG;
		return false;
	}
	if (mkdtemp(f->path))
		return true;
	f->path[0] = '\0';
	return false;
}

void demo_folder_note(struct demo_folder *f, const char *name)
{
	for (int i = 0; i < f->count; i++) {
		if (strcmp(f->names[i], name) == 0)
			return;
	}
	if (f->count < DEMO_FILES)
		snprintf(f->names[f->count++], DEMO_NAME, "%s", name);
}

void demo_folder_path(struct demo_folder *f, const char *name, char path[DEMO_PATH])
{
	snprintf(path, DEMO_PATH, "%.*s/%s", DEMO_PATH - DEMO_NAME - 1, f->path, name);
	demo_folder_note(f, name);
}

void demo_folder_remove(struct demo_folder *f)
{
	char path[DEMO_PATH];

	if (f->path[0] == '\0')
		return;
	for (int i = 0; i < f->count; i++) {
		demo_folder_path(f, f->names[i], path);
		unlink(path);
	}
	rmdir(f->path);
	f->path[0] = '\0';
}

bool demo_folder_write(struct demo_folder *f, const char *name, const char *text)
{
	size_t length = strlen(text);
	char path[DEMO_PATH];
	int file;
	bool is_good;

	demo_folder_path(f, name, path);
	file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0)
		return false;
	is_good = write(file, text, length) == (ssize_t)length;
	return close(file) == 0 && is_good;
}

/* ---- Signals -------------------------------------------------------------------------------- */

static volatile sig_atomic_t was_interrupted;

static void on_signal(int signal)
{
	(void)signal;
	was_interrupted = 1;
}

void demo_signals_take(void)
{
	const struct sigaction action = { .sa_handler = on_signal };
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
}

bool demo_is_interrupted(void)
{
	return was_interrupted;
}

/* ---- Processes ------------------------------------------------------------------------------ */

void demo_close(int *end)
{
	if (*end >= 0)
		close(*end);
	*end = -1;
}

/* Only what may be called between fork and exec: this process has threads. */
static void become(const int ends[3], pid_t parent, char *const args[])
{
	static const int usual[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };

	/* A process group of its own: Ctrl-C is for its parent, which ends it in order. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		signal(usual[i], SIG_DFL);
	for (int i = 0; i < 3; i++)
		dup2(ends[i], i);
	if (getppid() == parent)
		execv("/proc/self/exe", args);
	_exit(127);
}

pid_t demo_fork(void)
{
	pid_t parent = getpid(), child = fork();

	if (child == 0) {
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(127);
	}
	return child;
}

void demo_kill(pid_t child)
{
	kill(child, SIGKILL);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}

int demo_run_other(char *const words[])
{
	pid_t child = demo_fork();
	int status = 0;

	if (child == 0) {
		execvp(words[0], words);
		fprintf(stderr, "weft demo: %s: %s\n", words[0], strerror(errno));
		_exit(127);
	}
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}

bool demo_start(struct demo_child *c, const char *const args[DEMO_ARGS])
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, err[2] = { -1, -1 };
	char *words[DEMO_ARGS + 1] = { (char *)"weft" };
	pid_t parent = getpid();
	bool is_good;

	*c = (struct demo_child){ .in = -1, .out = -1, .err = -1 };
	for (int i = 0; i < DEMO_ARGS - 1 && args[i]; i++)
		words[i + 1] = (char *)args[i]; /* exec does not change them */
	is_good = pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 &&
		  pipe2(err, O_CLOEXEC) == 0;
	if (is_good) {
		c->pid = fork();
		if (c->pid == 0)
			become((const int[]){ in[0], out[1], err[1] }, parent, words);
		is_good = c->pid > 0;
	}
	demo_close(&in[0]);
	demo_close(&out[1]);
	demo_close(&err[1]);
	c->in = in[1];
	c->out = out[0];
	c->err = err[0];
	if (!is_good) {
		c->pid = 0;
		demo_close(&c->in);
		demo_close(&c->out);
		demo_close(&c->err);
	}
	return is_good;
}

int demo_end(struct demo_child *c, int signal, int seconds)
{
	uint64_t end_ns = clock_ns() + (uint64_t)seconds * 1000000000;
	int status = 0;

	if (c->pid == 0)
		return c->status;
	if (signal != 0)
		kill(c->pid, signal);
	while (waitpid(c->pid, &status, WNOHANG) == 0) {
		if (clock_ns() >= end_ns) {
			kill(c->pid, SIGKILL);
			while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
				;
			break;
		}
		pause_step();
	}
	c->pid = 0;
	c->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return c->status;
}

/* ---- What they say -------------------------------------------------------------------------- */

/* One byte at a time: these are few lines, and nothing behind them may be taken. */
static bool next_byte(int file, char *byte, uint64_t end_ns)
{
	while (clock_ns() < end_ns && !demo_is_interrupted()) {
		struct pollfd p = { .fd = file, .events = POLLIN };

		if (poll(&p, 1, STEP_MS) <= 0)
			continue;
		return read(file, byte, 1) == 1;
	}
	return false;
}

bool demo_await_line(const struct demo_child *c, const char *text, char line[DEMO_LINE])
{
	uint64_t end_ns = clock_ns() + LINE_WAIT_MS * UINT64_C(1000000);
	size_t length = 0;
	char byte;

	while (next_byte(c->out, &byte, end_ns)) {
		if (byte != '\n') {
			if (length < DEMO_LINE - 1)
				line[length++] = byte;
			continue;
		}
		line[length] = '\0';
		if (strstr(line, text))
			return true;
		length = 0;
	}
	line[0] = '\0';
	return false;
}

void demo_complaint(const struct demo_child *c, char line[DEMO_LINE])
{
	struct pollfd p = { .fd = c->err, .events = POLLIN };
	ssize_t length = 0;

	if (c->err >= 0 && poll(&p, 1, 0) > 0)
		length = read(c->err, line, DEMO_LINE - 1);
	line[length > 0 ? length : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
}

static bool last_in_file(const char *path, const char *text, char line[DEMO_LINE])
{
	FILE *f = fopen(path, "re");
	char each[DEMO_LINE];
	bool is_there = false;

	while (f && fgets(each, sizeof(each), f)) {
		if (!strstr(each, text) || !strchr(each, '\n'))
			continue;
		each[strcspn(each, "\n")] = '\0';
		memcpy(line, each, sizeof(each));
		is_there = true;
	}
	if (f)
		fclose(f);
	return is_there;
}

bool demo_await_in_file(const char *path, const char *text, char line[DEMO_LINE])
{
	uint64_t end_ns = clock_ns() + LINE_WAIT_MS * UINT64_C(1000000);

	while (!last_in_file(path, text, line)) {
		if (clock_ns() >= end_ns || demo_is_interrupted())
			return false;
		pause_step();
	}
	return true;
}

/* ---- Data ----------------------------------------------------------------------------------- */

/* The finalizer of splitmix64: neighbours have nothing in common. */
static uint64_t word_at(uint64_t index)
{
	uint64_t z = (index + 1) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

void demo_pattern(uint64_t offset, uint8_t *bytes, size_t length)
{
	while (length > 0) {
		uint64_t word = word_at(offset / sizeof(word));
		size_t skip = (size_t)(offset % sizeof(word)), n = sizeof(word) - skip;
		uint8_t all[sizeof(word)];

		memcpy(all, &word, sizeof(word));
		n = n < length ? n : length;
		memcpy(bytes, all + skip, n);
		bytes += n;
		offset += n;
		length -= n;
	}
}
