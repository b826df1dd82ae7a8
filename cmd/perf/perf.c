/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/cmd.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/perf/perf_run.h"
#include "cmd/reason_text.h"

enum { SIZES_MAX = 32, NS_PER_S = 1000000000 };

struct options {
	struct perf_test test;
	struct perf_how how;
	struct weft_address address;
	uint32_t sizes[SIZES_MAX], size_count;
	bool is_server, is_once, is_json, is_quiet;
};

static const char help[] =
	"usage: weft perf --listen [ADDRESS]:PORT [--once]\n"
	"       weft perf [OPTIONS] ADDRESS:PORT\n"
	"\n"
	"Measures a connection to another weft perf: bandwidth, latency and message rate.\n"
	"\n"
	"  --listen          serve those who ask, one after the other; --once: one only\n"
	"  --op OP           write (default), read or send\n"
	"  --latency         one message at a time, there and back; half of that is shown\n"
	"                    (of a read: all of it)\n"
	"  --size N[,N...]   bytes of a message, with k and m; default 64k, or 8 for latency\n"
	"  --depth N         messages under way; default 64\n"
	"  --batch N         requests in one call, 64 at most (default); 1: as most programs do\n"
	"  --inline N        messages of up to N bytes are sent inline, 64 at most (default)\n"
	"  --both            both ends send at the same time\n"
	"  --seconds S       of each size; default 1\n"
	"  --roce            over RoCE (UDP), not iWARP (TCP); both ends must say so\n"
	"  --mtu N           RoCE: payload of a packet, 256 to 4096; default 1024, or 4096 to\n"
	"                    an address of the loopback interface\n"
	"  --no-crc          iWARP: agree to no CRC; both ends must say so\n"
	"  --markers         iWARP: ask the other end for markers\n"
	"  --json            one line of JSON for each size\n"
	"  --quiet           no progress line\n";

static int fail(const char *what, enum weft_reason r)
{
	char text[REASON_TEXT];

	fprintf(stderr, "weft perf: %s: %s\n", what, reason_text(r, text));
	return 1;
}

/* ---- Options -------------------------------------------------------------------------------- */

static bool parse_sizes(const char *text, struct options *o)
{
	char *end;

	o->size_count = 0;
	do {
		unsigned long n = strtoul(text, &end, 10);

		if (end == text || o->size_count == SIZES_MAX)
			return false;
		if (*end == 'k' || *end == 'm')
			n <<= *end++ == 'k' ? 10 : 20;
		if (n == 0 || n > PERF_SIZE_MAX)
			return false;
		o->sizes[o->size_count++] = (uint32_t)n;
		text = end + 1;
	} while (*end == ',');
	return *end == '\0';
}

static const char *const op_names[PERF_OPS] = { "write", "read", "send" };

static bool parse_op(const char *text, struct options *o)
{
	for (int i = 0; i < PERF_OPS; i++) {
		if (strcmp(text, op_names[i]) == 0) {
			o->test.op = (enum perf_op)i;
			return true;
		}
	}
	return false;
}

static bool parse_seconds(const char *text, uint64_t *ns)
{
	char *end;
	double s = strtod(text, &end);

	if (end == text || *end || !(s > 0) || s > 1e6)
		return false;
	*ns = (uint64_t)(s * NS_PER_S);
	return true;
}

static bool parse_count(const char *text, uint32_t least, uint32_t most, uint32_t *count)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	*count = (uint32_t)n;
	return end != text && !*end && n >= least && n <= most;
}

enum {
	OPT_LISTEN = 1,
	OPT_ONCE,
	OPT_OP,
	OPT_LATENCY,
	OPT_SIZE,
	OPT_DEPTH,
	OPT_BATCH,
	OPT_INLINE,
	OPT_BOTH,
	OPT_SECONDS,
	OPT_ROCE,
	OPT_MTU,
	OPT_NO_CRC,
	OPT_MARKERS,
	OPT_JSON,
	OPT_QUIET,
	OPT_HELP
};

static const struct option names[] = {
	{ "listen", no_argument, NULL, OPT_LISTEN },
	{ "once", no_argument, NULL, OPT_ONCE },
	{ "op", required_argument, NULL, OPT_OP },
	{ "latency", no_argument, NULL, OPT_LATENCY },
	{ "size", required_argument, NULL, OPT_SIZE },
	{ "depth", required_argument, NULL, OPT_DEPTH },
	{ "batch", required_argument, NULL, OPT_BATCH },
	{ "inline", required_argument, NULL, OPT_INLINE },
	{ "both", no_argument, NULL, OPT_BOTH },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "roce", no_argument, NULL, OPT_ROCE },
	{ "mtu", required_argument, NULL, OPT_MTU },
	{ "no-crc", no_argument, NULL, OPT_NO_CRC },
	{ "markers", no_argument, NULL, OPT_MARKERS },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, OPT_QUIET },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

/* One option. False: its argument is no good. */
static bool set_option(struct options *o, int what, const char *arg)
{
	switch (what) {
	case OPT_LISTEN:
		o->is_server = true;
		return true;
	case OPT_ONCE:
		o->is_once = true;
		return true;
	case OPT_OP:
		return parse_op(arg, o);
	case OPT_LATENCY:
		o->test.is_latency = true;
		return true;
	case OPT_SIZE:
		return parse_sizes(arg, o);
	case OPT_DEPTH:
		return parse_count(arg, 1, PERF_DEPTH_MAX, &o->test.depth);
	case OPT_BATCH:
		return parse_count(arg, 1, PERF_BATCH_MAX, &o->test.batch);
	case OPT_INLINE:
		return parse_count(arg, 0, PERF_INLINE_MAX, &o->test.inline_max);
	case OPT_BOTH:
		o->test.is_both = true;
		return true;
	case OPT_SECONDS:
		return parse_seconds(arg, &o->test.duration_ns);
	case OPT_ROCE:
		o->how.is_roce = true;
		return true;
	case OPT_MTU:
		return parse_count(arg, 256, 4096, &o->how.mtu_bytes) &&
		       (o->how.mtu_bytes & (o->how.mtu_bytes - 1)) == 0;
	case OPT_NO_CRC:
		o->how.iwarp.is_crc_off = true;
		return true;
	case OPT_MARKERS:
		o->how.iwarp.wants_markers = true;
		return true;
	case OPT_JSON:
		o->is_json = true;
		return true;
	case OPT_QUIET:
		o->is_quiet = true;
		return true;
	default:
		return false;
	}
}

static bool is_loopback(const struct weft_address *a)
{
	static const uint8_t v6[16] = { [15] = 1 };

	return a->family == 4 ? a->ip[0] == 127 : memcmp(a->ip, v6, sizeof(v6)) == 0;
}

/* 0: go on; else the exit status plus one. */
static int parse(int argc, char **argv, struct options *o)
{
	int what, index = 0;

	optind = 1;
	opterr = 0;
	while ((what = getopt_long(argc, argv, "h", names, &index)) != -1) {
		if (what == OPT_HELP || what == 'h') {
			fputs(help, stdout);
			return 1;
		}
		if (what == '?') {
			fprintf(stderr, "weft perf: what is \"%s\"? see weft perf --help\n",
				argv[optind - 1]);
			return 3;
		}
		if (!set_option(o, what, optarg)) {
			fprintf(stderr, "weft perf: --%s cannot be \"%s\"; see weft perf --help\n",
				names[index].name, optarg);
			return 3;
		}
	}
	if (optind + 1 != argc || weft_address_parse(argv[optind], &o->address) != WEFT_OK) {
		fprintf(stderr, "weft perf: one ADDRESS:PORT is needed, such as 127.0.0.1:7471\n");
		return 3;
	}
	if (o->size_count == 0)
		o->sizes[o->size_count++] = o->test.is_latency ? 8 : 65536;
	if (o->test.is_latency)
		o->test.is_both = false;
	if (o->how.mtu_bytes == 0)
		o->how.mtu_bytes = is_loopback(&o->address) ? 4096 : 1024;
	return 0;
}

/* ---- What is shown -------------------------------------------------------------------------- */

static void tell(void *context, uint64_t elapsed_ns, uint64_t messages)
{
	const struct options *o = context;

	fprintf(stderr, "\r%3.0f %% of %g s, %llu messages of %u bytes ",
		100.0 * (double)elapsed_ns / (double)o->test.duration_ns,
		(double)o->test.duration_ns / NS_PER_S, (unsigned long long)messages, o->test.size);
}

static double per(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : 0;
}

static void show_json(const struct options *o, const struct perf_result *r)
{
	const struct weft_traffic *t = &r->traffic;

	printf("{\"op\":\"%s\",\"kind\":\"%s\",\"both\":%s,\"size\":%u,\"depth\":%u,"
	       "\"messages\":%llu,\"elapsed_ns\":%llu,\"bytes_per_s\":%.0f,"
	       "\"messages_per_s\":%.0f,\"median_ns\":%u,\"least_ns\":%u,\"p99_ns\":%u,"
	       "\"most_ns\":%u,\"calls_in\":%llu,\"calls_out\":%llu,\"copied_bytes\":%llu}\n",
	       op_names[o->test.op], o->test.is_latency ? "latency" : "bandwidth",
	       o->test.is_both ? "true" : "false", o->test.size, o->test.depth,
	       (unsigned long long)r->messages, (unsigned long long)r->elapsed_ns,
	       per(r->bytes, r->elapsed_ns) * 1e9, per(r->messages, r->elapsed_ns) * 1e9,
	       r->median_ns, r->least_ns, r->p99_ns, r->most_ns, (unsigned long long)t->calls_in,
	       (unsigned long long)t->calls_out, (unsigned long long)t->payload_copied);
}

static void show_head(const struct options *o)
{
	if (o->is_json)
		return;
	if (o->test.is_latency)
		printf("%10s %10s %10s %10s %10s %10s\n", "bytes", "median us", "least", "99 %",
		       "most", "messages");
	else
		printf("%10s %12s %14s %14s %14s %14s\n", "bytes", "GB/s", "messages/s",
		       "calls out/msg", "calls in/msg", "copied B/msg");
}

static void show(const struct options *o, const struct perf_result *r)
{
	const struct weft_traffic *t = &r->traffic;

	if (!o->is_quiet)
		fprintf(stderr, "\r%60s\r", "");
	if (o->is_json)
		show_json(o, r);
	else if (o->test.is_latency)
		printf("%10u %10.2f %10.2f %10.2f %10.2f %10llu\n", o->test.size,
		       r->median_ns / 1e3, r->least_ns / 1e3, r->p99_ns / 1e3, r->most_ns / 1e3,
		       (unsigned long long)r->messages);
	else
		printf("%10u %12.3f %14.0f %14.3f %14.3f %14.1f\n", o->test.size,
		       per(r->bytes, r->elapsed_ns), per(r->messages, r->elapsed_ns) * 1e9,
		       per(t->calls_out, r->messages), per(t->calls_in, r->messages),
		       per(t->payload_copied, r->messages));
	fflush(stdout);
}

/* ---- Running -------------------------------------------------------------------------------- */

static int run_client(struct options *o)
{
	uint32_t size_max = 4096;
	struct perf_end *e;
	enum weft_reason r;

	for (uint32_t i = 0; i < o->size_count; i++)
		size_max = o->sizes[i] > size_max ? o->sizes[i] : size_max;
	r = perf_open(size_max, o->how.is_roce, &e);
	if (r != WEFT_OK)
		return fail("cannot begin", r);
	r = perf_dial(e, &o->address, &o->how);
	if (r != WEFT_OK) {
		perf_close(e);
		return fail("cannot connect", r);
	}
	if (!o->is_quiet)
		perf_on_progress(e, tell, o);
	show_head(o);
	for (uint32_t i = 0; i < o->size_count && r == WEFT_OK; i++) {
		struct perf_result result;

		o->test.size = o->sizes[i];
		r = perf_run(e, &o->test, &result);
		if (r == WEFT_OK)
			show(o, &result);
	}
	perf_close(e);
	return r == WEFT_OK ? 0 : fail("the test broke off", r);
}

/* Serves one client. */
static enum weft_reason serve_one(const struct options *o, struct perf_end *e,
				  struct perf_door *door)
{
	char text[WEFT_ADDRESS_TEXT];
	bool has_crc;
	enum weft_reason r = perf_take(door);

	if (r != WEFT_OK)
		return r;
	weft_address_text(perf_remote(e, &has_crc), text);
	if (!o->is_quiet)
		fprintf(stderr, "serving %s, CRC %s\n", text, has_crc ? "on" : "off");
	return perf_serve(e);
}

static int run_server(const struct options *o)
{
	char text[WEFT_ADDRESS_TEXT];
	struct perf_door *door;
	struct weft_address at;
	struct perf_end *e;
	enum weft_reason r = perf_open(PERF_SIZE_MAX, o->how.is_roce, &e), served = WEFT_OK;

	if (r != WEFT_OK)
		return fail("cannot begin", r);
	r = perf_listen(e, &o->address, &o->how, &door);
	if (r != WEFT_OK) {
		perf_close(e);
		return fail("cannot listen", r);
	}
	(void)perf_door_address(door, &at);
	weft_address_text(&at, text);
	printf("listening at %s\n", text);
	fflush(stdout);
	do {
		served = serve_one(o, e, door);
		if (served != WEFT_OK)
			(void)fail("a test broke off", served);
		r = perf_renew(e);
	} while (r == WEFT_OK && !o->is_once);
	perf_door_close(door);
	perf_close(e);
	return r == WEFT_OK && served == WEFT_OK ? 0 : 1;
}

static int cmd_perf(int argc, char **argv)
{
	struct options o = {
		.test = { .depth = 64,
			  .batch = PERF_BATCH_MAX,
			  .inline_max = PERF_INLINE_MAX,
			  .duration_ns = NS_PER_S },
		.is_quiet = !isatty(STDERR_FILENO),
	};
	int status = parse(argc, argv, &o);

	if (status != 0)
		return status - 1;
	return o.is_server ? run_server(&o) : run_client(&o);
}

const struct command command_perf = {
	.name = "perf",
	.args = "ADDRESS:PORT",
	.what = "measure a connection to another weft perf",
	.help = help,
	.run = cmd_perf,
};
