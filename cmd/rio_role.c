/* SPDX-License-Identifier: BSD-2-Clause */
#include <signal.h>
#include <sodium/utils.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "rio_role.h"

static struct weft_platform platform_of(struct platform p)
{
	return (struct weft_platform){ p.unit, p.process };
}

static void self_make(struct rio_role_file *f)
{
	const struct rio_host *h = f->host;

	f->self = (struct weft_rio_self){ .platform = platform_of(h->self.platform),
					  .listen = h->listen,
					  .peers = f->peers,
					  .peer_count = h->config->peer_count };
	/* Libsodium's secret begins with the seed. */
	memcpy(f->self.seed, h->self.secret, sizeof(f->self.seed));
	for (uint32_t i = 0; i < h->config->peer_count; i++) {
		const struct rio_known *k = &h->config->known[i];

		f->peers[i] = (struct weft_rio_peer){ .platform = platform_of(k->platform),
						      .role = (enum weft_rio_role)k->role,
						      .address = h->addresses[i] };
		memcpy(f->peers[i].key, k->key, sizeof(k->key));
		/* Names of a file are no longer. */
		strcpy(f->peers[i].name, h->config->peers[i].name);
	}
}

bool rio_role_open(struct rio_role_file *f, const char *command, enum rio_role role,
		   const char *path)
{
	char why[RIO_HOST_WHY] = "";

	if (!rio_host_open(path, role, &f->host, why)) {
		fprintf(stderr, "weft %s: %s\n", command, why);
		return false;
	}
	self_make(f);
	return true;
}

void rio_role_close(struct rio_role_file *f)
{
	sodium_memzero(&f->self, sizeof(f->self));
	rio_host_close(f->host);
}

int rio_role_fail(const char *command, const char *what, enum weft_reason reason)
{
	fprintf(stderr, "weft %s: %s: %s (%s)\n", command, what, weft_reason_text(reason),
		weft_reason_name(reason));
	return 1;
}

/* ---- Signals -------------------------------------------------------------------------------- */

static void (*stop_call)(void *of);
static void *stop_of;

static void on_signal(int signal)
{
	(void)signal;
	stop_call(stop_of);
}

void rio_role_until_signal(void (*stop)(void *of), void *of)
{
	const struct sigaction action = { .sa_handler = on_signal };

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
