/* SPDX-License-Identifier: BSD-2-Clause */
/* weft trace: the events of a program that ran with WEFT_TRACE, in words. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include <weft/weft.h>

#include "cmd/cmd.h"
#include "cmd/trace/trace_words.h"
#include "driver/tcp/link_phase.h"
#include "wire/trace_file.h"

enum { WORDS_BYTES = 256, NS_PER_S = 1000000000, LOOK_EVERY_NS = 50 * 1000 * 1000 };

static const char usage[] =
	"usage: weft trace [-f] [--qp N] [--kind KIND] FILE\n"
	"\n"
	"Prints what a program did that ran with WEFT_TRACE=FILE, a line for each event.\n"
	"\n"
	"  -f, --follow  go on as the file grows, until the program ends\n"
	"  --qp N        only events of this queue pair, as the lines number it\n"
	"  --kind KIND   only events of this kind: connect, link, state, stream, terminate,\n"
	"                refused, send, recv, dropped, nak, timeout, fault, cm, tag, or immediate\n"
	"                (what split network cards push)\n";

struct trace_args {
	const char *path;
	const char *kind;
	uint32_t qp;
	bool has_qp, is_following;
};

struct shown {
	struct trace_file_record record;
	struct trace_event address; /* that came before it */
	size_t place;		    /* in the file */
};

static const char *const kinds[TRACE_KINDS] = {
	[TRACE_QP_STATE] = "state",
	[TRACE_SEND_RETIRED] = "send",
	[TRACE_RECV_RETIRED] = "recv",
	[TRACE_REFUSED] = "refused",
	[TRACE_DROPPED] = "dropped",
	[TRACE_STREAM_STATE] = "stream",
	[TRACE_TAG_MADE] = "tag",
	[TRACE_TAG_GONE] = "tag",
	[TRACE_TERMINATE_SENT] = "terminate",
	[TRACE_TERMINATE_TAKEN] = "terminate",
	[TRACE_LISTENING] = "connect",
	[TRACE_DIALLED] = "connect",
	[TRACE_ARRIVED] = "connect",
	[TRACE_ACCEPTED] = "connect",
	[TRACE_REJECTED] = "connect",
	[TRACE_AGREED] = "connect",
	[TRACE_CONNECTED] = "connect",
	[TRACE_CONNECT_FAILED] = "connect",
	[TRACE_ENDED] = "connect",
	[TRACE_RESET] = "connect",
	[TRACE_LINK_PHASE] = "link",
	[TRACE_FAULT] = "fault",
	[TRACE_CM_STATE] = "cm",
	[TRACE_PEER] = "connect",
	[TRACE_PACKET_DROPPED] = "dropped",
	[TRACE_NAK_SENT] = "nak",
	[TRACE_NAK_TAKEN] = "nak",
	[TRACE_TIMEOUT] = "timeout",
	[TRACE_ISCSI_STATE] = "stream",
	[TRACE_RESPONSE_DROPPED] = "dropped",
	[TRACE_IMMEDIATE_OUT] = "immediate",
	[TRACE_IMMEDIATE_IN] = "immediate",
	[TRACE_PATH_STATE] = "path",
};

static bool is_kind(const char *name)
{
	for (int i = 0; i < TRACE_KINDS; i++) {
		if (kinds[i] && strcmp(kinds[i], name) == 0)
			return true;
	}
	return false;
}

/* ---- Words ---------------------------------------------------------------------------------- */

/* The address that the event before this one brought, with this one's port. */
static void address_words(const struct trace_event *address, uint16_t port, char *text)
{
	struct weft_address at = { .family = 6, .port = port };
	bool is_v4 = address->a == 0 && address->b >> 32 == 0xffff;

	for (int i = 0; i < 8; i++) {
		at.ip[i] = (uint8_t)(address->a >> (56 - 8 * i));
		at.ip[8 + i] = (uint8_t)(address->b >> (56 - 8 * i));
	}
	if (is_v4) {
		at.family = 4;
		memmove(at.ip, at.ip + 12, 4);
		memset(at.ip + 4, 0, 12);
	}
	weft_address_text(&at, text);
}

static void terms_words(const struct trace_event *e, char *text, size_t size)
{
	static const char *const rtr[] = { "nothing", "a Send", "a Write", "a Read" };
	bool sends = e->b & TRACE_SENDS_MARKERS, takes = e->b & TRACE_TAKES_MARKERS;
	const char *markers = "no markers";

	if (sends || takes)
		markers = sends && takes ? "markers both ways"
					 : (sends ? "markers outwards" : "markers inwards");
	snprintf(text, size, ": MPA revision %u, %s, %s, %u Reads in and %u out, %s comes first",
		 (unsigned int)(e->b >> TRACE_REVISION_SHIFT & 0xff),
		 e->b & TRACE_HAS_CRC ? "CRC" : "no CRC", markers,
		 (unsigned int)(e->a >> 16 & 0xffff), (unsigned int)(e->a >> 32 & 0xffff),
		 rtr[e->b >> TRACE_RTR_SHIFT & 3]);
}

/* Of an event with an address; false for others. */
static bool connect_words(const struct trace_event *e, const struct trace_event *address,
			  char *text, size_t size)
{
	static const char *const words[TRACE_KINDS] = {
		[TRACE_LISTENING] = "listens at",
		[TRACE_DIALLED] = "dials",
		[TRACE_ARRIVED] = "a connection has come from",
		[TRACE_ACCEPTED] = "accepts the connection from",
		[TRACE_REJECTED] = "the connection is rejected that came from",
		[TRACE_AGREED] = "agrees with",
		[TRACE_CONNECTED] = "is connected with",
		[TRACE_CONNECT_FAILED] = "is not connected with",
		[TRACE_ENDED] = "closes the connection with",
		[TRACE_RESET] = "resets the connection with",
		[TRACE_LINK_PHASE] = "its link with",
		[TRACE_PEER] = "its peer is at",
	};
	char at[WEFT_ADDRESS_TEXT], who[16] = "-", more[WORDS_BYTES] = "";

	if (e->kind >= TRACE_KINDS || !words[e->kind])
		return false;
	if (e->who)
		snprintf(who, sizeof(who), "QP %06x", e->who);
	if (e->kind == TRACE_AGREED)
		terms_words(e, more, sizeof(more));
	if (e->kind == TRACE_LINK_PHASE)
		snprintf(more, sizeof(more), ": %s -> %s", link_phase_name(e->a >> 16),
			 link_phase_name(e->b));
	if (e->kind == TRACE_PEER)
		snprintf(more, sizeof(more), ", QP %06x", (unsigned int)e->b);
	address_words(address, (uint16_t)e->a, at);
	snprintf(text, size, "%-9s  %s %s%s", who, words[e->kind], at, more);
	return true;
}

static void print_time(uint64_t time_ns)
{
	time_t seconds = (time_t)(time_ns / NS_PER_S);
	struct tm tm = { 0 };

	localtime_r(&seconds, &tm);
	printf("%02d:%02d:%02d.%06u  ", tm.tm_hour, tm.tm_min, tm.tm_sec,
	       (unsigned int)(time_ns % NS_PER_S / 1000));
}

static bool is_wanted(const struct trace_event *e, const struct trace_args *args)
{
	const char *kind = e->kind < TRACE_KINDS ? kinds[e->kind] : NULL;
	bool is_of_pd = e->kind == TRACE_TAG_MADE || e->kind == TRACE_TAG_GONE;

	if (e->kind == TRACE_LOST)
		return true;
	if (args->has_qp && (is_of_pd || e->who != args->qp))
		return false;
	return !args->kind || (kind && strcmp(kind, args->kind) == 0);
}

static void show(const struct shown *s, const struct trace_args *args)
{
	const struct trace_event *e = &s->record.event;
	char text[WORDS_BYTES];

	if (!is_wanted(e, args))
		return;
	if (!connect_words(e, &s->address, text, sizeof(text)))
		trace_words(e, text, sizeof(text));
	print_time(e->time_ns);
	printf("adapter %" PRIu32 "  %s", s->record.adapter, text);
	if (e->reason != WEFT_OK)
		printf(": %s: %s", weft_reason_name((enum weft_reason)e->reason),
		       weft_reason_text((enum weft_reason)e->reason));
	putchar('\n');
}

/* ---- Order ---------------------------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
	const struct shown *a = left, *b = right;

	if (a->record.event.time_ns != b->record.event.time_ns)
		return a->record.event.time_ns < b->record.event.time_ns ? -1 : 1;
	return a->place < b->place ? -1 : 1;
}

/* Adapters write one after the other what they did at the same time. */
static void show_in_order(struct shown *all, size_t count, const struct trace_args *args)
{
	if (count > 0)
		qsort(all, count, sizeof(*all), compare);
	for (size_t i = 0; i < count; i++)
		show(&all[i], args);
}

struct kept {
	struct shown *all;
	size_t count, room;
};

static void keep(struct kept *k, const struct shown *s)
{
	if (k->count == k->room) {
		k->room = k->room ? 2 * k->room : 1024;
		k->all = reallocarray(k->all, k->room, sizeof(*k->all));
		if (!k->all) {
			fprintf(stderr, "weft trace: no memory for so many events\n");
			exit(1);
		}
	}
	k->all[k->count] = *s;
	k->all[k->count].place = k->count;
	k->count++;
}

/* ---- The file ------------------------------------------------------------------------------- */

/* The process that writes it holds a lock. */
static bool is_being_written(FILE *f)
{
	if (flock(fileno(f), LOCK_SH | LOCK_NB) < 0)
		return errno == EWOULDBLOCK;
	(void)flock(fileno(f), LOCK_UN);
	return false;
}

/* Fills the rest of a record of this size; false at the end, with what there was kept in *have. */
static bool fill(FILE *f, uint8_t *bytes, size_t size, size_t *have)
{
	*have += fread(bytes + *have, 1, size - *have, f);
	return *have == size;
}

/* Waits for more. False: there will be none. */
static bool await(FILE *f, const struct trace_args *args)
{
	const struct timespec pause = { .tv_nsec = LOOK_EVERY_NS };

	if (!args->is_following || ferror(f) || fflush(stdout) != 0)
		return false;
	clearerr(f);
	if (!is_being_written(f))
		return false;
	nanosleep(&pause, NULL);
	return true;
}

static int print_all(FILE *f, const struct trace_file_head *head, const struct trace_args *args)
{
	struct kept kept = { 0 };
	struct shown s = { 0 };
	uint8_t bytes[TRACE_FILE_RECORD_MAX];
	size_t have = 0;
	bool is_last = false;

	for (;;) {
		struct rd r = rd_of(bytes, sizeof(bytes));

		if (fill(f, bytes, head->record_bytes, &have)) {
			have = 0;
			(void)trace_file_record_decode(&s.record, &r); /* they are all there */
			if (s.record.event.kind == TRACE_ADDRESS)
				s.address = s.record.event; /* of the next */
			else if (args->is_following)
				show(&s, args);
			else
				keep(&kept, &s);
			continue;
		}
		/* What came between the last look and the writer's end is still to be read. */
		if (is_last)
			break;
		is_last = !await(f, args);
		if (is_last && !args->is_following)
			break;
	}
	show_in_order(kept.all, kept.count, args);
	free(kept.all);
	if (ferror(f)) {
		fprintf(stderr, "weft trace: %s: cannot be read\n", args->path);
		return 1;
	}
	if (have > 0)
		fprintf(stderr, "weft trace: %s ends within an event\n", args->path);
	return 0;
}

static int trace_read(FILE *f, const struct trace_args *args)
{
	uint8_t bytes[TRACE_FILE_HEAD_BYTES];
	struct rd r = rd_of(bytes, sizeof(bytes));
	struct trace_file_head head;
	size_t have = 0;

	if (!fill(f, bytes, sizeof(bytes), &have) || !trace_file_head_decode(&head, &r)) {
		fprintf(stderr, "weft trace: %s: %s\n", args->path,
			ferror(f) ? strerror(errno) : "is no trace of weft");
		return 1;
	}
	if (head.version > TRACE_FILE_VERSION) {
		fprintf(stderr, "weft trace: %s: is of version %u, later than this program\n",
			args->path, head.version);
		return 1;
	}
	return print_all(f, &head, args);
}

/* ---- The command ---------------------------------------------------------------------------- */

static int misused(const char *what, const char *word)
{
	fprintf(stderr, "weft trace: %s%s\n\n%s", what, word, usage);
	return 2;
}

static int args_read(int argc, char **argv, struct trace_args *args)
{
	char *end = NULL;

	*args = (struct trace_args){ 0 };
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];

		if (strcmp(word, "-f") == 0 || strcmp(word, "--follow") == 0) {
			args->is_following = true;
		} else if (strcmp(word, "--qp") == 0 && i + 1 < argc) {
			args->has_qp = true;
			args->qp = (uint32_t)strtoul(argv[++i], &end, 16);
			if (*end != '\0' || end == argv[i])
				return misused("no number of a queue pair: ", argv[i]);
		} else if (strcmp(word, "--kind") == 0 && i + 1 < argc) {
			args->kind = argv[++i];
			if (!is_kind(args->kind))
				return misused("no kind of event: ", args->kind);
		} else if (*word == '-' || args->path) {
			return misused("what is ", word);
		} else {
			args->path = word;
		}
	}
	return args->path ? 0 : misused("which file?", "");
}

static int cmd_trace(int argc, char **argv)
{
	struct trace_args args;
	int status;
	FILE *f;

	status = args_read(argc, argv, &args);
	if (status != 0)
		return status;
	f = fopen(args.path, "rb");
	if (!f) {
		fprintf(stderr, "weft trace: %s: %s\n", args.path, strerror(errno));
		return 1;
	}
	status = trace_read(f, &args);
	fclose(f);
	return status;
}

const struct command command_trace = {
	.name = "trace",
	.args = "FILE",
	.what = "what a program did that ran with WEFT_TRACE=FILE",
	.help = usage,
	.run = cmd_trace,
};
