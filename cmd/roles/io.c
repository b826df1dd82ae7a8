/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/quantity.h"
#include "cmd/roles/cluster_view.h"
#include "cmd/roles/io_lend.h"
#include "cmd/roles/io_run.h"
#include "cmd/roles/rio_role.h"

enum { NS_PER_S = 1000000000, BLOCK = 1 << 20, DEPTH = 16, SMALL_BLOCK = 4096, BENCH_DEPTH = 32 };

static const char help[] =
	"usage: weft io FILE list\n"
	"       weft io FILE read DEVICE [OPTIONS]          to standard output, or --file\n"
	"       weft io FILE write DEVICE [OPTIONS]         from standard input, or --file\n"
	"       weft io FILE copy DEVICE DEVICE [OPTIONS]   from the first to the second\n"
	"       weft io FILE flush|zero|discard DEVICE [OPTIONS]\n"
	"       weft io FILE bench DEVICE [OPTIONS]\n"
	"       weft io FILE source --file NAME             lends memory with what NAME has\n"
	"       weft io FILE sink --file NAME --length N    lends memory, which NAME gets in the end\n"
	"\n"
	"Reads and writes devices that an owner lets this requester use. The data goes straight\n"
	"between the I/O unit that has the device and the memory of this process. FILE is the\n"
	"requester's configuration (docs/config.md).\n"
	"\n"
	"  --at N         first byte, with k, M, G, T; default 0\n"
	"  --length N     bytes; default: to the end of the device, or of the input\n"
	"  --to N         copy: first byte in the second device; default as --at\n"
	"  --inside N     copy: through the I/O unit's own memory, from its byte N on\n"
	"  --file NAME    instead of standard input or output\n"
	"  --memory M     read, write: to or from memory that another requester lends; M as it said\n"
	"  --block N      bytes of a request; default 1M, of bench and --immediate 4k\n"
	"  --depth N      requests under way; default 16, of bench 32\n"
	"  --wait TIME    how long to wait for the owner and the device; default 10s\n"
	"  --immediate    what is written travels in the requests: for little data; the owner sees it\n"
	"  --write        bench: write, which destroys what is there; default: read\n"
	"  --random       bench: blocks in no order\n"
	"  --seconds S    bench: for so long; default 2\n"
	"  --spin TIME    look for answers so long before sleeping; default: as FILE says, or 0\n"
	"  --json         list and bench: for programs\n"
	"  --quiet        no progress line\n";

struct options {
	const char *file, *verb, *devices[2], *path;
	struct io_memory memory;
	uint64_t at, length, to, inside, block, depth, wait_ns, duration_ns, spin_ns;
	bool has_spin, has_length, has_to, has_inside, has_memory, is_immediate, is_write,
		is_random, is_json, is_quiet;
};

/* ---- Options -------------------------------------------------------------------------------- */

enum {
	OPT_AT = 1,
	OPT_LENGTH,
	OPT_TO,
	OPT_INSIDE,
	OPT_FILE,
	OPT_MEMORY,
	OPT_BLOCK,
	OPT_DEPTH,
	OPT_WAIT,
	OPT_IMMEDIATE,
	OPT_WRITE,
	OPT_RANDOM,
	OPT_SECONDS,
	OPT_SPIN,
	OPT_JSON,
	OPT_QUIET,
	OPT_HELP
};

static const struct option names[] = {
	{ "at", required_argument, NULL, OPT_AT },
	{ "length", required_argument, NULL, OPT_LENGTH },
	{ "to", required_argument, NULL, OPT_TO },
	{ "inside", required_argument, NULL, OPT_INSIDE },
	{ "file", required_argument, NULL, OPT_FILE },
	{ "memory", required_argument, NULL, OPT_MEMORY },
	{ "block", required_argument, NULL, OPT_BLOCK },
	{ "depth", required_argument, NULL, OPT_DEPTH },
	{ "wait", required_argument, NULL, OPT_WAIT },
	{ "immediate", no_argument, NULL, OPT_IMMEDIATE },
	{ "write", no_argument, NULL, OPT_WRITE },
	{ "random", no_argument, NULL, OPT_RANDOM },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "spin", required_argument, NULL, OPT_SPIN },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, OPT_QUIET },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static struct word word_of(const char *text)
{
	return (struct word){ text, (uint32_t)strlen(text) };
}

static bool take_seconds(const char *text, uint64_t *ns)
{
	char *end;
	double s = strtod(text, &end);

	if (end == text || *end || !(s >= 0.001 && s <= 86400))
		return false;
	*ns = (uint64_t)(s * NS_PER_S);
	return true;
}

/* False: it is no such number. */
static bool take_value(int option, const char *text, struct options *o)
{
	switch (option) {
	case OPT_AT:
		return quantity_size(word_of(text), &o->at);
	case OPT_LENGTH:
		o->has_length = true;
		return quantity_size(word_of(text), &o->length) && o->length > 0;
	case OPT_TO:
		o->has_to = true;
		return quantity_size(word_of(text), &o->to);
	case OPT_INSIDE:
		o->has_inside = true;
		return quantity_size(word_of(text), &o->inside);
	case OPT_FILE:
		o->path = text;
		return true;
	case OPT_MEMORY:
		o->has_memory = true;
		return io_lend_parse(text, &o->memory);
	case OPT_BLOCK:
		return quantity_size(word_of(text), &o->block) && o->block > 0 &&
		       o->block <= IO_BLOCK_MAX;
	case OPT_DEPTH:
		return quantity_number(word_of(text), &o->depth) && o->depth > 0 &&
		       o->depth <= IO_DEPTH_MAX;
	case OPT_WAIT:
		return quantity_time(word_of(text), &o->wait_ns);
	case OPT_SECONDS:
		return take_seconds(text, &o->duration_ns);
	case OPT_SPIN:
		o->has_spin = true;
		return quantity_time(word_of(text), &o->spin_ns);
	default:
		return false;
	}
}

/* 0: go on; 1: help was asked for; 2: it is wrong, and said. */
static int take_options(int argc, char **argv, struct options *o)
{
	int option;

	while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1) {
		if (option == OPT_HELP || option == 'h')
			return 1;
		if (option == OPT_IMMEDIATE)
			o->is_immediate = true;
		else if (option == OPT_WRITE)
			o->is_write = true;
		else if (option == OPT_RANDOM)
			o->is_random = true;
		else if (option == OPT_JSON)
			o->is_json = true;
		else if (option == OPT_QUIET)
			o->is_quiet = true;
		else if (option == '?')
			return 2;
		else if (!take_value(option, optarg, o)) {
			fprintf(stderr, "weft io: --%s %s: no such value\n", names[option - 1].name,
				optarg);
			return 2;
		}
	}
	return 0;
}

/* ---- What is shown -------------------------------------------------------------------------- */

static void progress(void *context, uint64_t done, uint64_t all)
{
	static uint64_t shown; /* per cent */
	uint64_t now = all > 0 ? done / (all / 100 + 1) : 0;

	(void)context;
	if (now == shown)
		return;
	shown = now;
	fprintf(stderr, "\r%3" PRIu64 " %%", now);
	if (done >= all)
		fprintf(stderr, "\r     \r");
}

static int say_outcome(const struct options *o, const struct io_outcome *out)
{
	if (out->reason == WEFT_OK)
		return 0;
	if (out->error != 0)
		fprintf(stderr, "weft io: %s: %s\n", o->path ? o->path : o->verb,
			strerror(out->error));
	else
		fprintf(stderr, "weft io: %s of %s at %" PRIu64 ": %s (%s)\n", o->verb,
			o->devices[0], out->at,
			out->text[0] ? out->text : weft_reason_text(out->reason),
			weft_reason_name(out->reason));
	return 1;
}

static void show_device(const struct weft_rio_device *d, bool is_json)
{
	if (is_json) {
		printf("{\"name\":");
		cluster_view_json_text(d->name);
		printf(",\"number\":%" PRIu32 ",\"size\":%" PRIu64 ",\"block\":%" PRIu32
		       ",\"iounit\":\"%" PRIu32 ".%" PRIu32 "\",\"readonly\":%s}\n",
		       d->number, d->size_bytes, d->block_bytes, d->iounit.unit, d->iounit.process,
		       d->is_readonly ? "true" : "false");
	} else {
		printf("%-24s %15" PRIu64 " bytes in blocks of %-5" PRIu32 " at %" PRIu32
		       ".%" PRIu32 "%s\n",
		       d->name, d->size_bytes, d->block_bytes, d->iounit.unit, d->iounit.process,
		       d->is_readonly ? ", read only" : "");
	}
}

static void show_figures(const struct options *o, const struct io_figures *f)
{
	double seconds = (double)f->elapsed_ns / NS_PER_S;

	if (o->is_json)
		printf("{\"op\":\"%s\",\"random\":%s,\"block\":%" PRIu64 ",\"depth\":%" PRIu64
		       ",\"seconds\":%.3f,\"requests\":%" PRIu64
		       ",\"iops\":%.0f,\"mb_per_s\":%.1f,\"mean_us\":%.1f,\"median_us\":%.1f"
		       ",\"p99_us\":%.1f}\n",
		       o->is_write ? "write" : "read", o->is_random ? "true" : "false", o->block,
		       o->depth, seconds, f->count, (double)f->count / seconds,
		       (double)f->bytes / seconds / 1e6, (double)f->mean_ns / 1e3,
		       (double)f->median_ns / 1e3, (double)f->p99_ns / 1e3);
	else
		printf("%s %s, %" PRIu64 " bytes, depth %" PRIu64
		       ": %.0f requests/s, %.1f MB/s, latency %.1f us (median %.1f, 99%% %.1f)\n",
		       o->is_random ? "random" : "sequential", o->is_write ? "write" : "read",
		       o->block, o->depth, (double)f->count / seconds,
		       (double)f->bytes / seconds / 1e6, (double)f->mean_ns / 1e3,
		       (double)f->median_ns / 1e3, (double)f->p99_ns / 1e3);
}

/* ---- Verbs ---------------------------------------------------------------------------------- */

static int io_list(struct weft_rio_requester *q, const struct options *o)
{
	struct weft_rio_device d;
	uint32_t n;

	for (n = 0; weft_rio_device_get(q, n, &d) == WEFT_OK; n++)
		show_device(&d, o->is_json);
	if (n == 0)
		fprintf(stderr, "weft io: the owner lets this requester use no device now\n");
	return n == 0;
}

/* The part of the device that is asked for. */
static bool range_of(const struct options *o, const struct weft_rio_device *d, uint64_t at,
		     struct io_range *range)
{
	*range = (struct io_range){ d, at, o->length };
	if (at > d->size_bytes || (o->has_length && o->length > d->size_bytes - at)) {
		fprintf(stderr, "weft io: %s has only %" PRIu64 " bytes\n", d->name, d->size_bytes);
		return false;
	}
	if (!o->has_length)
		range->length = d->size_bytes - at;
	if (o->block % d->block_bytes != 0) {
		fprintf(stderr,
			"weft io: --block must be a multiple of the %" PRIu32
			" bytes of a block of %s\n",
			d->block_bytes, d->name);
		return false;
	}
	return true;
}

/* Without a length, input that does not fit is an error. */
static bool is_all_written(const struct options *o, const struct io_range *range, int file)
{
	char more;

	if (o->has_length || read(file, &more, 1) != 1)
		return true;
	fprintf(stderr,
		"weft io: the input has more than the %" PRIu64 " bytes that %s has there\n",
		range->length, range->device->name);
	return false;
}

static int with_file(struct io_run *run, const struct options *o, const struct io_range *range,
		     struct io_outcome *out)
{
	bool is_read = strcmp(o->verb, "read") == 0, is_all = true;
	int file = is_read ? STDOUT_FILENO : STDIN_FILENO;

	if (o->path)
		file = is_read ? open(o->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)
			       : open(o->path, O_RDONLY | O_CLOEXEC);
	if (file < 0) {
		fprintf(stderr, "weft io: %s: %s\n", o->path, strerror(errno));
		return 1;
	}
	if (is_read)
		io_run_read(run, range, file, out);
	else
		io_run_write(run, range, file, out);
	if (!is_read && out->reason == WEFT_OK)
		is_all = is_all_written(o, range, file);
	if (o->path && close(file) < 0 && out->reason == WEFT_OK) {
		out->reason = WEFT_R_SYSTEM;
		out->error = errno;
	}
	return say_outcome(o, out) != 0 || !is_all;
}

static bool is_move(const char *verb)
{
	return strcmp(verb, "read") == 0 || strcmp(verb, "write") == 0;
}

static int with_lent(struct io_run *run, const struct options *o, const struct io_range *range,
		     struct io_outcome *out)
{
	io_run_lent(run, range, &o->memory, strcmp(o->verb, "write") == 0, out);
	return say_outcome(o, out);
}

static int copy(struct io_run *run, const struct options *o, const struct io_range *from,
		struct io_outcome *out)
{
	struct weft_rio_device d;
	struct io_range to;
	enum weft_reason r = weft_rio_device_find(run->requester, o->devices[1], o->wait_ns, &d);

	if (r != WEFT_OK)
		return rio_role_fail("io", o->devices[1], r);
	to = (struct io_range){ &d, o->has_to ? o->to : from->at, from->length };
	if (to.at > d.size_bytes || to.length > d.size_bytes - to.at) {
		fprintf(stderr, "weft io: %s has no room for %" PRIu64 " bytes there\n", d.name,
			to.length);
		return 1;
	}
	io_run_copy(run, from, &to, out);
	return say_outcome(o, out);
}

static int order(struct io_run *run, const struct options *o, struct io_range *range,
		 struct io_outcome *out)
{
	enum weft_rio_operation operation = WEFT_RIO_FLUSH;

	if (strcmp(o->verb, "zero") == 0)
		operation = WEFT_RIO_WRITE_ZEROES;
	else if (strcmp(o->verb, "discard") == 0)
		operation = WEFT_RIO_DISCARD;
	else
		range->at = range->length = 0;
	io_run_order(run, operation, range, out);
	return say_outcome(o, out);
}

static int bench(struct io_run *run, const struct options *o, const struct io_range *range,
		 struct io_outcome *out)
{
	const struct io_bench b = { o->is_write, o->is_random, o->duration_ns };
	struct io_figures f = { 0 };
	int status;

	if (range->length < run->block) {
		fprintf(stderr, "weft io: %s is smaller than a block\n", range->device->name);
		return 1;
	}
	io_run_bench(run, range, &b, &f, out);
	status = say_outcome(o, out);
	if (status == 0)
		show_figures(o, &f);
	return status;
}

static int io_device(struct weft_rio_requester *q, const struct options *o)
{
	struct weft_rio_device d;
	struct io_outcome out = { 0 };
	struct io_range range;
	struct io_run run;
	enum weft_reason r = weft_rio_device_find(q, o->devices[0], o->wait_ns, &d);
	int status = 1;

	if (r != WEFT_OK)
		return rio_role_fail("io", o->devices[0], r);
	if (!range_of(o, &d, o->at, &range))
		return 1;
	r = io_run_open(&run, q, (uint32_t)o->block, (uint32_t)o->depth);
	if (r != WEFT_OK)
		return rio_role_fail("io", "memory", r);
	run.is_immediate = o->is_immediate;
	run.is_inside = o->has_inside;
	run.inside = o->inside;
	if (!o->is_quiet && isatty(STDERR_FILENO))
		run.tell = progress;
	if (o->has_memory && is_move(o->verb))
		status = with_lent(&run, o, &range, &out);
	else if (is_move(o->verb))
		status = with_file(&run, o, &range, &out);
	else if (strcmp(o->verb, "copy") == 0)
		status = copy(&run, o, &range, &out);
	else if (strcmp(o->verb, "bench") == 0)
		status = bench(&run, o, &range, &out);
	else
		status = order(&run, o, &range, &out);
	io_run_close(&run);
	return status;
}

/* ---- The command ---------------------------------------------------------------------------- */

static bool is_lender(const char *verb)
{
	return strcmp(verb, "source") == 0 || strcmp(verb, "sink") == 0;
}

/* How many devices a verb wants; -1: there is no such verb. */
static int wants_devices(const char *verb)
{
	static const char *const one[] = { "read", "write", "flush", "zero", "discard", "bench" };

	if (strcmp(verb, "list") == 0 || is_lender(verb))
		return 0;
	if (strcmp(verb, "copy") == 0)
		return 2;
	for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++) {
		if (strcmp(verb, one[i]) == 0)
			return 1;
	}
	return -1;
}

static bool take_words(int count, char **words, struct options *o)
{
	int wanted;

	if (count < 2)
		return false;
	o->file = words[0];
	o->verb = words[1];
	wanted = wants_devices(o->verb);
	if (wanted < 0 || count != 2 + wanted)
		return false;
	for (int i = 0; i < wanted; i++)
		o->devices[i] = words[2 + i];
	if (o->block == 0)
		o->block = o->is_immediate || strcmp(o->verb, "bench") == 0 ? SMALL_BLOCK : BLOCK;
	if (o->depth == 0)
		o->depth = strcmp(o->verb, "bench") == 0 ? BENCH_DEPTH : DEPTH;
	return true;
}

/* An empty name: to the library it means any device, which a user who types it does not. */
static bool has_nameless(const struct options *o)
{
	return (o->devices[0] && !o->devices[0][0]) || (o->devices[1] && !o->devices[1][0]);
}

/* The first device, whichever it is, tells that the owner has spoken. */
static int io_list_when_there(struct weft_rio_requester *q, const struct options *o)
{
	struct weft_rio_device d;
	enum weft_reason r = weft_rio_device_find(q, "", o->wait_ns, &d);

	if (r != WEFT_OK && r != WEFT_R_RIO_DEVICE)
		return rio_role_fail("io", "the owner", r);
	return io_list(q, o);
}

static int io(const struct options *o)
{
	struct weft_rio_requester_options options = { .requests_max = (uint32_t)o->depth };
	struct weft_rio_requester *q;
	struct rio_role_file f;
	enum weft_reason r;
	int status;

	if (!rio_role_open(&f, "io", RIO_REQUESTER, o->file))
		return 1;
	if (o->has_spin)
		f.self.spin_ns = o->spin_ns;
	options.timeout_ns = f.host->config->timeout_ns;
	r = weft_rio_requester_open(&f.self, &options, &q);
	if (r != WEFT_OK) {
		rio_role_close(&f);
		return rio_role_fail("io", "cannot begin", r);
	}
	if (is_lender(o->verb))
		status = io_lend(q, &(struct io_loan){ f.self.platform, o->path, o->length,
						       strcmp(o->verb, "sink") == 0 });
	else
		status = o->devices[0] ? io_device(q, o) : io_list_when_there(q, o);
	weft_rio_requester_close(q);
	rio_role_close(&f);
	return status;
}

static int cmd_io(int argc, char **argv)
{
	struct options o = { .wait_ns = UINT64_C(10) * NS_PER_S,
			     .duration_ns = UINT64_C(2) * NS_PER_S };
	int wrong = take_options(argc, argv, &o);

	if (wrong == 1) {
		fputs(help, stdout);
		return 0;
	}
	if (wrong == 2)
		return 2;
	if (!take_words(argc - optind, argv + optind, &o)) {
		fputs(help, stderr);
		return 2;
	}
	if (is_lender(o.verb) && !o.path) {
		fprintf(stderr, "weft io: %s needs --file\n", o.verb);
		return 2;
	}
	if (has_nameless(&o)) {
		fputs("weft io: a device has a name, and this one is empty\n", stderr);
		return 2;
	}
	return io(&o);
}

const struct command command_io = {
	.name = "io",
	.args = "FILE VERB",
	.what = "read, write, copy and measure devices you may use",
	.help = help,
	.run = cmd_io,
};
