/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cmd/roles/rio_role.h"

#include "cmd/reason_text.h"

/* How long addresses are waited for that only etcd knows. */
static const uint64_t wait_ns = UINT64_C(10) * 1000 * 1000 * 1000;

bool rio_role_open(struct rio_role_file *f, const char *command, enum rio_role role,
		   const char *path)
{
	char why[RIO_HOST_WHY] = "";

	signal(SIGXFSZ, SIG_IGN); /* a file at its limit is an error to tell, not an end */
	if (rio_role_file_open(f, role, path, wait_ns, why))
		return true;
	fprintf(stderr, "weft %s: %s\n", command, why);
	return false;
}

void rio_role_close(struct rio_role_file *f)
{
	rio_role_file_close(f);
}

int rio_role_fail(const char *command, const char *what, enum weft_reason reason)
{
	char text[REASON_TEXT];

	fprintf(stderr, "weft %s: %s: %s\n", command, what, reason_text(reason, text));
	return 1;
}

/* ---- Signals -------------------------------------------------------------------------------- */

static void (*stop_call)(void *of);
static void *stop_of;
static atomic_bool is_stopping;

/* The second one, of either kind, may come when there is nothing left to be stopped. */
static void on_signal(int signal)
{
	int error = errno;

	(void)signal;
	if (!atomic_exchange(&is_stopping, true))
		stop_call(stop_of);
	errno = error;
}

void rio_role_until_signal(void (*stop)(void *of), void *of)
{
	/* The second signal ends the process at once. */
	const struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND };

	stop_call = stop;
	stop_of = of;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

/* ---- Lines ---------------------------------------------------------------------------------- */

void rio_role_say(FILE *to, const char *line)
{
	static time_t second = -1; /* of the text */
	static char text[32];
	struct timespec now;
	long ms;

	clock_gettime(CLOCK_REALTIME, &now);
	if (now.tv_sec != second) {
		struct tm tm;

		gmtime_r(&now.tv_sec, &tm);
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S.000Z ", &tm);
		second = now.tv_sec;
	}
	ms = now.tv_nsec / 1000000;
	text[20] = (char)('0' + ms / 100);
	text[21] = (char)('0' + ms / 10 % 10);
	text[22] = (char)('0' + ms % 10);
	fputs_unlocked(text, to);
	fputs_unlocked(line, to);
	fputc_unlocked('\n', to);
}

int rio_role_main(int argc, char **argv, const struct rio_role_command *c)
{
	struct rio_role_file f;
	int status;

	if (argc != 2 || argv[1][0] == '-') {
		fputs(c->help, stderr);
		return 2;
	}
	if (!rio_role_open(&f, argv[0], c->role, argv[1]))
		return 1;
	status = c->run(&f);
	rio_role_close(&f);
	return status;
}
