/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/roles/cluster_view.h"
#include "cmd/roles/own_term.h"
#include "cmd/roles/rio_role.h"
#include "roles/etcd.h"

static const char help[] =
	"usage: weft own FILE\n"
	"\n"
	"Owns the devices of I/O units: decides who may do what with them, directs the I/O units, and\n"
	"carries no data. FILE is its configuration with the rules (docs/config.md); what no rule\n"
	"allows is denied. Every decision is a line of the log. Runs until it is told to end by\n"
	"SIGINT or SIGTERM, or until an owner with the same identity has begun later: then it says\n"
	"so and ends with status 3, and should not be started again by a program.\n";

enum { SUPERSEDED = 3 };

static void stop(void *owner)
{
	weft_rio_owner_stop(owner);
}

/* Where decisions are written down. */
struct log {
	FILE *file;
	const char *path;
	bool has_failed;    /* which was said */
	const char *beside; /* a file, beside which the term is kept; or NULL */
};

static void log_flush(struct log *log)
{
	if (fflush(log->file) == 0 || log->has_failed)
		return;
	log->has_failed = true;
	fprintf(stderr, "weft own: cannot write the log %s: %s\n", log->path, strerror(errno));
}

static void note(void *log, const char *line)
{
	rio_role_say(((struct log *)log)->file, line);
}

static void noted(void *log)
{
	log_flush(log);
}

static struct weft_rio_platform platform_of(const struct rio_config *c, uint32_t peer)
{
	if (peer == RIO_CONFIG_ANY)
		return (struct weft_rio_platform){ 0 };
	return (struct weft_rio_platform){ c->known[peer].platform.unit,
					   c->known[peer].platform.process };
}

static void rules_make(const struct rio_config *c, struct weft_rio_rule *rules,
		       struct weft_rio_share *shares)
{
	for (uint32_t i = 0; i < c->rule_count; i++) {
		const struct rio_config_rule *from = &c->rules[i];

		rules[i] = (struct weft_rio_rule){ .requester = platform_of(c, from->requester),
						   .device = from->device,
						   .iounit = platform_of(c, from->iounit),
						   .operations = from->operations,
						   .first = from->first,
						   .length = from->length };
	}
	for (uint32_t i = 0; i < c->share_count; i++)
		shares[i] = (struct weft_rio_share){ platform_of(c, c->shares[i].requester),
						     platform_of(c, c->shares[i].memory) };
}

/* To standard output and the log. */
static void say(struct log *log, const char *line)
{
	rio_role_say(stdout, line);
	fflush(stdout);
	if (log->file != stdout)
		rio_role_say(log->file, line);
	log_flush(log);
}

static void say_where(const struct rio_config *c, struct weft_rio_owner *owner, struct log *log)
{
	char address[WEFT_ADDRESS_TEXT], line[WEFT_ADDRESS_TEXT + 64];
	struct weft_address at;

	weft_rio_owner_address(owner, &at);
	weft_address_text(&at, address);
	snprintf(line, sizeof(line), "owner %u.%u takes requests at %s", c->self.unit,
		 c->self.process, address);
	say(log, line);
}

static void say_moved(struct weft_rio_owner *owner, struct log *log)
{
	char line[CLUSTER_MOVED_TEXT];
	struct weft_rio_traffic moved;

	weft_rio_owner_traffic(owner, &moved);
	cluster_view_moved(&moved, line);
	say(log, line);
}

static int serve(const struct rio_role_file *f, struct weft_rio_owner *owner, struct log *log)
{
	enum weft_reason r;

	rio_role_until_signal(stop, owner);
	say_where(f->host->config, owner, log);
	r = weft_rio_owner_run(owner);
	say_moved(owner, log);
	if (r == WEFT_OK)
		return 0;
	own_term_keep(log->beside, weft_rio_owner_term(owner));
	(void)rio_role_fail("own", "ends", r);
	return r == WEFT_R_RIO_SUPERSEDED ? SUPERSEDED : 1;
}

/* An etcd that does not answer is no reason not to begin. */
static uint64_t term_begin(const struct rio_host *host, const char *beside)
{
	const struct rio_config *c = host->config;
	const struct etcd_config config = { .url = c->etcd.is,
					    .prefix = c->etcd_prefix,
					    .ca_path = host->ca_path };
	uint64_t term = own_term_begin(beside), higher;
	char why[ETCD_WHY] = "";
	struct etcd *e;

	if (!c->etcd.is)
		return term;
	if (!etcd_open(&config, &e, why)) {
		fprintf(stderr, "weft own: %s\n", why);
		return term;
	}
	if (etcd_term(e, c->self, term, &higher, why))
		term = higher;
	else
		fprintf(stderr, "weft own: %s\n", why);
	etcd_close(e);
	own_term_keep(beside, term);
	return term;
}

static int own(const struct rio_role_file *f, struct log *log)
{
	const struct rio_config *c = f->host->config;
	struct weft_rio_rule *rules = calloc((size_t)c->rule_count + 1, sizeof(*rules));
	struct weft_rio_share *shares = calloc((size_t)c->share_count + 1, sizeof(*shares));
	struct weft_rio_platform watchers[RIO_CONFIG_WATCHERS_MAX];
	struct weft_rio_owner_options options = { .rules = rules,
						  .rule_count = c->rule_count,
						  .shares = shares,
						  .share_count = c->share_count,
						  .watchers = watchers,
						  .watcher_count = c->watcher_count,
						  .requests_max = c->requests_max,
						  .timeout_ns = c->timeout_ns,
						  .note = note,
						  .noted = noted,
						  .context = log };
	struct weft_rio_owner *owner = NULL;
	enum weft_reason r = WEFT_R_NO_MEMORY;
	int status = 1;

	if (rules && shares) {
		options.term = term_begin(f->host, log->beside);
		rules_make(c, rules, shares);
		for (uint32_t i = 0; i < c->watcher_count; i++)
			watchers[i] = platform_of(c, c->watchers[i].requester);
		r = weft_rio_owner_open(&f->self, &options, &owner);
	}
	if (r == WEFT_OK) {
		status = serve(f, owner, log);
		weft_rio_owner_close(owner);
	} else {
		(void)rio_role_fail("own", "cannot begin", r);
	}
	free(rules);
	free(shares);
	return status;
}

static int own_logging(const struct rio_role_file *f)
{
	const char *path = f->host->log_path;
	struct log log = { .file = path ? fopen(path, "ae") : stdout,
			   .path = path ? path : "to standard output" };
	struct stat st;
	int status;

	if (!log.file) {
		fprintf(stderr, "weft own: cannot write the log %s: %s\n", path, strerror(errno));
		return 1;
	}
	if (path && fstat(fileno(log.file), &st) == 0 && S_ISREG(st.st_mode))
		log.beside = path;
	status = own(f, &log);
	log_flush(&log);
	if (log.file != stdout)
		fclose(log.file);
	return log.has_failed ? 1 : status;
}

static int cmd_own(int argc, char **argv)
{
	return rio_role_main(argc, argv,
			     &(struct rio_role_command){ RIO_OWNER, help, own_logging });
}

const struct command command_own = {
	.name = "own",
	.args = "FILE",
	.what = "own the devices of I/O units, and say who may use them",
	.help = help,
	.run = cmd_own,
};
