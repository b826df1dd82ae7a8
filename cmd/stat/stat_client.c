/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/stat/stat_client.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_S = 5, REPORT_MAX = 256 << 20, CHUNK = 64 << 10 };

/* ---- The socket ----------------------------------------------------------------------------- */

static enum stat_answer answer_of(int error)
{
	return error == EAGAIN || error == ETIMEDOUT || error == EINPROGRESS ? STAT_SILENT
									     : STAT_NOBODY;
}

static enum stat_answer dial(const char *service, long pid, int *fd)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "%s/%ld", service, pid);
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	struct ucred peer;
	socklen_t peer_bytes = sizeof(peer);
	enum stat_answer answer = STAT_HERE;

	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return STAT_NOBODY;
	(void)setsockopt(*fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	(void)setsockopt(*fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(*fd, (const struct sockaddr *)&at, length) < 0)
		answer = answer_of(errno);
	/* Any user may take the name; what another user says is not believed. */
	else if (getsockopt(*fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) < 0 ||
		 peer.uid != geteuid())
		answer = STAT_FOREIGN;
	if (answer != STAT_HERE)
		close(*fd);
	return answer;
}

/* Reads to the end; the text is ended by 0. */
static enum stat_answer read_all(int fd, char **text)
{
	time_t end = time(NULL) + PATIENCE_S;
	size_t used = 0;
	ssize_t n = 1;

	*text = NULL;
	while (n > 0) {
		char *more = realloc(*text, used + CHUNK + 1);

		if (!more || used > REPORT_MAX || time(NULL) > end)
			return STAT_SILENT;
		*text = more;
		n = recv(fd, *text + used, CHUNK, 0);
		if (n < 0)
			return errno == ECONNRESET ? STAT_NOBODY : STAT_SILENT;
		used += (size_t)n;
		(*text)[used] = '\0';
	}
	return STAT_HERE;
}

/* ---- Lines ---------------------------------------------------------------------------------- */

/* Cuts a line at its spaces. */
static void line_read(char *text, struct stat_line *l)
{
	char *at = strchr(text, ' ');

	l->what = text;
	l->count = 0;
	while (at && l->count < STAT_FIELDS_MAX) {
		char *key = at + 1, *value;

		at[0] = '\0';
		at = strchr(key, ' ');
		value = strchr(key, '=');
		if (!value || (at && value > at))
			continue; /* a word without a value */
		*value++ = '\0';
		if (strcmp(key, "said") == 0)
			at = NULL; /* the rest of the line */
		l->fields[l->count++] = (struct stat_field){ key, value };
	}
	if (at)
		*at = '\0';
}

static enum stat_answer report_read(struct stat_report *r)
{
	static const char head[] = "weft 1 ";
	size_t room = 1;
	char *at = r->text, *next;

	for (const char *c = r->text; *c; c++)
		room += *c == '\n';
	if (strncmp(at, head, sizeof(head) - 1) != 0)
		return STAT_UNREADABLE;
	r->lines = calloc(room, sizeof(*r->lines));
	if (!r->lines)
		return STAT_UNREADABLE;
	for (; (next = strchr(at, '\n')) != NULL; at = next + 1) {
		*next = '\0';
		if (strcmp(at, "end") == 0)
			return STAT_HERE;
		line_read(at, &r->lines[r->count++]);
	}
	return STAT_NOBODY; /* it ended while it told */
}

enum stat_answer stat_ask(const char *service, long pid, struct stat_report *r)
{
	enum stat_answer answer;
	int fd;

	*r = (struct stat_report){ 0 };
	answer = dial(service, pid, &fd);
	if (answer != STAT_HERE)
		return answer;
	answer = read_all(fd, &r->text);
	close(fd);
	if (answer == STAT_HERE && !*r->text)
		answer = STAT_NOBODY;
	if (answer == STAT_HERE)
		answer = report_read(r);
	if (answer != STAT_HERE)
		stat_free(r);
	return answer;
}

void stat_free(struct stat_report *r)
{
	free(r->text);
	free(r->lines);
	*r = (struct stat_report){ 0 };
}

const char *stat_text(const struct stat_line *l, const char *key)
{
	for (size_t i = 0; i < l->count; i++) {
		if (strcmp(l->fields[i].key, key) == 0)
			return l->fields[i].value;
	}
	return "";
}

uint64_t stat_number(const struct stat_line *l, const char *key)
{
	return strtoull(stat_text(l, key), NULL, 10);
}

/* ---- Who is there --------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return (x > y) - (x < y);
}

size_t stat_processes(const char *service, long *pids, size_t max)
{
	FILE *f = fopen("/proc/net/unix", "re");
	size_t count = 0, kept = 0;
	char line[512], mark[64];
	int length = snprintf(mark, sizeof(mark), " @%s/", service);

	while (f && count < max && fgets(line, sizeof(line), f)) {
		char *at = strstr(line, mark), *end;
		long pid = at ? strtol(at + length, &end, 10) : 0;

		if (pid > 0 && *end == '\n')
			pids[count++] = pid;
	}
	if (f)
		fclose(f);
	/* A connection that is open has the same name as the socket that it came to. */
	qsort(pids, count, sizeof(*pids), by_number);
	for (size_t i = 0; i < count; i++) {
		if (kept == 0 || pids[kept - 1] != pids[i])
			pids[kept++] = pids[i];
	}
	return kept;
}
