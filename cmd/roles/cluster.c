/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/cmd.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cmd/clock.h"
#include "cmd/options.h"
#include "cmd/roles/cluster_view.h"
#include "cmd/roles/rio_role.h"

enum { SEEN_MAX = 4096 };

static const uint64_t ns_per_s = 1000000000;

static const char help[] =
	"usage: weft cluster FILE [--once] [--json] [--wait TIME]\n"
	"\n"
	"Shows how a cluster of directed I/O stands, as its owner sees it: I/O units, devices, who is\n"
	"connected, what was asked, refused and moved, and what went through the owner's own adapter.\n"
	"Shown again each second until it is ended. FILE is the configuration of a requester of its\n"
	"own that the owner's file lets watch: \"watch NAME\" (docs/config.md).\n"
	"\n"
	"  --once         show it once\n"
	"  --json         for programs: an object in a line\n"
	"  --wait TIME    how long to wait for the owner; default 10s\n";

struct options {
	const char *file;
	uint64_t wait_ns;
	bool is_once, is_json;
};

/* Two, of which one is from before. */
struct looks {
	struct weft_rio_member *seen[2];
	struct cluster_look look[2];
	int latest; /* -1: there is none */
};

static enum weft_reason look_again(struct weft_rio_requester *q, const struct options *o,
				   struct looks *l)
{
	int next = l->latest == 0 ? 1 : 0;
	struct cluster_look *to = &l->look[next];
	enum weft_reason r = weft_rio_requester_inquire(q, o->wait_ns, l->seen[next], SEEN_MAX,
							&to->total);

	if (r != WEFT_OK)
		return r;
	to->seen = l->seen[next];
	to->count = to->total < SEEN_MAX ? to->total : SEEN_MAX;
	to->at_ns = clock_ns();
	l->latest = next;
	return WEFT_OK;
}

static void show(const struct options *o, const struct looks *l)
{
	const struct cluster_look *before = &l->look[1 - l->latest];

	if (o->is_json)
		cluster_view_json(&l->look[l->latest]);
	else
		cluster_view_print(&l->look[l->latest], before->seen ? before : NULL);
}

static void clear(const struct options *o)
{
	if (o->is_json)
		return;
	fputs(isatty(STDOUT_FILENO) ? "\033[H\033[J" : "\n", stdout);
}

/* An owner that is gone may come again: after the first look, only --once ends for it. */
static int watch(struct weft_rio_requester *q, const struct options *o, struct looks *l)
{
	for (bool is_first = true;; is_first = false) {
		enum weft_reason r = look_again(q, o, l);

		if (r == WEFT_R_RIO_DENIED || (r != WEFT_OK && (is_first || o->is_once)))
			return rio_role_fail("cluster", "the owner", r);
		if (!o->is_once && (!is_first || isatty(STDOUT_FILENO)))
			clear(o);
		if (r == WEFT_OK)
			show(o, l);
		else
			(void)rio_role_fail("cluster", "the owner", r);
		if (o->is_once || fflush(stdout) != 0)
			return 0;
		nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
	}
}

static int cluster(const struct options *o)
{
	struct looks l = { .latest = -1 };
	struct weft_rio_requester *q;
	struct rio_role_file f;
	enum weft_reason r;
	int status = 1;

	if (!rio_role_open(&f, "cluster", RIO_REQUESTER, o->file))
		return 1;
	r = weft_rio_requester_open(&f.self, NULL, &q);
	if (r != WEFT_OK) {
		rio_role_close(&f);
		return rio_role_fail("cluster", "cannot begin", r);
	}
	for (int i = 0; i < 2; i++) {
		l.seen[i] = calloc(SEEN_MAX, sizeof(*l.seen[i]));
		l.look[i].owner = f.peers[0].name;
	}
	if (l.seen[0] && l.seen[1])
		status = watch(q, o, &l);
	else
		(void)rio_role_fail("cluster", "cannot begin", WEFT_R_NO_MEMORY);
	free(l.seen[0]);
	free(l.seen[1]);
	weft_rio_requester_close(q);
	rio_role_close(&f);
	return status;
}

static int cmd_cluster(int argc, char **argv)
{
	struct options o = { .wait_ns = 10 * ns_per_s };
	const struct cmd_option options[] = { { "once", .is_given = &o.is_once },
					      { "json", .is_given = &o.is_json },
					      { "wait", .read = quantity_time, .to = &o.wait_ns },
					      { 0 } };
	int status;

	if (!cmd_options_take(argc, argv, options, help, &status))
		return status;
	if (argc - optind != 1)
		return cmd_options_wrong(help);
	o.file = argv[optind];
	return cluster(&o);
}

const struct command command_cluster = {
	.name = "cluster",
	.args = "FILE",
	.what = "units, devices, who is connected, bytes moved by path; live",
	.help = help,
	.run = cmd_cluster,
};
