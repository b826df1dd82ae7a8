/* SPDX-License-Identifier: BSD-2-Clause */
/* weft dump: the RDMA traffic of a capture in words. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/dump/conversation.h"
#include "cmd/dump/dump_words.h"
#include "cmd/dump/frame_words.h"
#include "cmd/dump/push_words.h"
#include "cmd/dump/recording.h"
#include "cmd/dump/roce_words.h"

struct dump_args {
	const char *path;
	uint16_t iscsi_port;
	bool is_quiet;
};

struct dump {
	bool is_quiet;
	uint64_t begin_ns, now_ns; /* of the first packet, of this one */
	uint64_t packets, cut, kinds[PACKET_MALFORMED + 1];
	uint64_t problems;
	uint32_t introduced; /* the connections whose names were said */
	/* RoCE: the middle of a message, which may go on. */
	struct roce_item run; /* count 0: none */
	uint64_t run_ns;
	struct push_ends cards;
};

static const char usage[] =
	"usage: weft dump [--quiet] [--iscsi PORT] FILE\n"
	"\n"
	"Prints the RDMA traffic of a capture (pcap or pcapng; - is the standard input), a line for\n"
	"each message: seconds since the first packet, connection, direction, message. Understands\n"
	"iWARP (MPA, DDP, RDMAP on TCP), RoCE v2 (InfiniBand on UDP; a line for each packet), what\n"
	"split network cards push by either, iSCSI (a line for each PDU) and frames of an\n"
	"InfiniBand fabric, with what a subnet manager and its agents say. TCP is put in order,\n"
	"CRCs, markers and digests are checked.\n"
	"\n"
	"  --quiet       print problems and the summary only\n"
	"  --iscsi PORT  connections to this port are iSCSI (default 3260; 0: none)\n"
	"\n"
	"Exit status 0: all RDMA and iSCSI traffic was decoded. 1: not all, or the file cannot be read.\n";

/* False: it is no port. */
static bool port_read(const char *word, uint16_t *port)
{
	char *end = NULL;
	unsigned long number = strtoul(word, &end, 10);

	*port = (uint16_t)number;
	return *word >= '0' && *word <= '9' && *end == '\0' && number <= UINT16_MAX;
}

/* 0, or the exit status. */
static int args_read(int argc, char **argv, struct dump_args *args)
{
	*args = (struct dump_args){ .iscsi_port = ISCSI_TCP_PORT };
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--quiet") == 0) {
			args->is_quiet = true;
		} else if (strcmp(argv[i], "--iscsi") == 0 && i + 1 < argc &&
			   port_read(argv[i + 1], &args->iscsi_port)) {
			i++;
		} else if ((argv[i][0] == '-' && argv[i][1] != 0) || args->path) {
			fprintf(stderr, "weft dump: what is \"%s\"?\n\n%s", argv[i], usage);
			return 2;
		} else {
			args->path = argv[i];
		}
	}
	if (args->path)
		return 0;
	fprintf(stderr, "weft dump: which file?\n\n%s", usage);
	return 2;
}

/* Numbers are given in the order in which connections have something to tell. */
static void introduce(struct dump *d, const struct conversation *c)
{
	char a[DUMP_END_BYTES], b[DUMP_END_BYTES];

	if (c->number <= d->introduced)
		return;
	d->introduced = c->number;
	dump_end_words(&c->ends[c->initiator], a);
	dump_end_words(&c->ends[!c->initiator], b);
	printf("connection %" PRIu32 ": A is %s, B is %s\n", c->number, a, b);
}

static void tell(void *context, const struct conversation *c, const struct mpa_item *item)
{
	struct dump *d = context;
	uint64_t us = (d->now_ns - d->begin_ns) / 1000;
	bool is_good = item->fault == MPA_FAULT_NONE;
	char text[DUMP_LINE_BYTES], card[DUMP_LINE_BYTES];

	d->problems += !is_good;
	if (d->is_quiet && is_good)
		return;
	introduce(d, c);
	dump_item_words(c->mpa, item, text, sizeof(text));
	push_stream_words(&d->cards, c, item, card, sizeof(card));
	printf("%5" PRIu64 ".%06" PRIu64 "  %" PRIu32 " %s  %s", us / 1000000, us % 1000000,
	       c->number, item->from == c->initiator ? "A>B" : "B>A", text);
	if (*card)
		printf("; %s", card);
	if (!is_good)
		printf("%s** %s", *text ? "  " : "", item->text);
	putchar('\n');
}

static void tell_iscsi(void *context, const struct conversation *c, const struct iscsi_item *item)
{
	struct dump *d = context;
	uint64_t us = (d->now_ns - d->begin_ns) / 1000;
	bool is_good = !*item->fault;
	char text[DUMP_LINE_BYTES];

	d->problems += !is_good;
	if (d->is_quiet && is_good)
		return;
	introduce(d, c);
	iscsi_item_words(item, text, sizeof(text));
	printf("%5" PRIu64 ".%06" PRIu64 "  %" PRIu32 " %s  %s", us / 1000000, us % 1000000,
	       c->number, item->from == c->initiator ? "A>B" : "B>A", text);
	if (!is_good)
		printf("%s** %s", *text ? "  " : "", item->fault);
	putchar('\n');
}

static void tell_run(struct dump *d)
{
	uint64_t us = (d->run_ns - d->begin_ns) / 1000;
	bool is_good = !*d->run.fault;
	char text[DUMP_LINE_BYTES], card[DUMP_LINE_BYTES];

	if (d->run.count == 0)
		return;
	d->problems += !is_good;
	if (!d->is_quiet || !is_good) {
		roce_item_words(&d->run, text, sizeof(text));
		push_item_words(&d->cards, &d->run, card, sizeof(card));
		printf("%5" PRIu64 ".%06" PRIu64 "  %s", us / 1000000, us % 1000000, text);
		if (*card)
			printf("; %s", card);
		if (!is_good)
			printf("  ** %s", d->run.fault);
		putchar('\n');
	}
	d->run.count = 0;
}

static void take_roce(struct dump *d, const struct packet *p)
{
	struct roce_item item;

	roce_item_of(p, &item);
	if (d->run.count > 0 && roce_item_join(&d->run, &item))
		return;
	tell_run(d);
	d->run = item;
	d->run_ns = d->now_ns;
	if (!roce_item_is_middle(&item))
		tell_run(d);
}

static void take_frame(struct dump *d, const struct packet *p)
{
	uint64_t us = (d->now_ns - d->begin_ns) / 1000;
	struct frame_item item;
	bool is_good;

	frame_item_of(p, &item);
	is_good = !*item.fault;
	d->problems += !is_good;
	if (d->is_quiet && is_good)
		return;
	printf("%5" PRIu64 ".%06" PRIu64 "  %s", us / 1000000, us % 1000000, item.text);
	if (!is_good)
		printf("%s** %s", *item.text ? "  " : "", item.fault);
	putchar('\n');
}

static void take(struct dump *d, struct conversations *all, const struct recorded_packet *p)
{
	if (d->packets++ == 0)
		d->begin_ns = p->time_ns;
	/* A capture of several queues may go back a little. */
	d->now_ns = p->time_ns > d->begin_ns ? p->time_ns : d->begin_ns;
	d->cut += p->is_cut;
	d->kinds[p->kind]++;
	if (p->kind == PACKET_TCP) {
		tell_run(d);
		conversations_take(all, &p->packet);
	} else if (p->kind == PACKET_ROCE) {
		take_roce(d, &p->packet);
	} else if (p->kind == PACKET_FRAME) {
		take_frame(d, &p->packet);
	}
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void print_count(uint64_t n, const char *what, const char *rest)
{
	if (n > 0)
		printf("%" PRIu64 " %s%s%s\n", n, what, plural(n), rest);
}

static void print_mpa_sums(const struct conversations *all)
{
	uint64_t messages = 0, fpdus = 0, skipped = 0, unanswered = 0;

	for (const struct conversation *c = all->first; c; c = c->later) {
		for (int i = 0; c->mpa && i < 2; i++) {
			messages += c->mpa->sides[i].messages;
			fpdus += c->mpa->sides[i].fpdus;
			skipped += c->mpa->sides[i].skipped_bytes;
			unanswered += c->mpa->sides[i].state == MPA_SIDE_START;
		}
	}
	printf("%" PRIu32 " iWARP connection%s, %" PRIu64 " message%s in %" PRIu64 " FPDU%s\n",
	       all->mpa_count, plural(all->mpa_count), messages, plural(messages), fpdus,
	       plural(fpdus));
	print_count(unanswered, "MPA Request", " without an answer");
	print_count(skipped, "byte", " could not be decoded");
}

static void print_iscsi_sums(const struct conversations *all)
{
	uint64_t pdus = 0, skipped = 0;

	for (const struct conversation *c = all->first; c; c = c->later) {
		for (int i = 0; c->iscsi && i < 2; i++) {
			pdus += c->iscsi->sides[i].pdus;
			skipped += c->iscsi->sides[i].skipped_bytes;
		}
	}
	printf("%" PRIu32 " iSCSI connection%s, %" PRIu64 " PDU%s\n", all->iscsi_count,
	       plural(all->iscsi_count), pdus, plural(pdus));
	print_count(skipped, "byte", " of iSCSI could not be decoded");
}

/* True if all RDMA and iSCSI traffic was decoded. */
static bool print_sums(const struct dump *d, const struct conversations *all)
{
	bool is_good = d->problems == 0;

	if (all->mpa_count > 0)
		print_mpa_sums(all);
	else if (d->kinds[PACKET_ROCE] == 0 && d->kinds[PACKET_FRAME] == 0 && all->iscsi_count == 0)
		printf("no iWARP connection\n");
	if (all->iscsi_count > 0)
		print_iscsi_sums(all);
	print_count(all->other_count, "other TCP connection", "");
	print_count(d->kinds[PACKET_ROCE], "RoCEv2 packet", "");
	print_count(d->kinds[PACKET_FRAME], "frame", " of a fabric");
	print_count(d->kinds[PACKET_OTHER], "packet", " of other protocols");
	print_count(d->kinds[PACKET_FRAGMENT], "IP fragment", " not looked into");
	print_count(d->kinds[PACKET_MALFORMED], "packet", " with broken headers");
	print_count(d->cut, "packet", " cut short when captured");
	print_count(d->problems, "problem", "");
	if (is_good &&
	    (all->mpa_count > 0 || d->kinds[PACKET_ROCE] > 0 || d->kinds[PACKET_FRAME] > 0))
		printf("all RDMA traffic decoded\n");
	else if (is_good && all->iscsi_count > 0)
		printf("all iSCSI traffic decoded\n");
	return is_good;
}

static int cmd_dump(int argc, char **argv)
{
	char error[RECORDING_ERROR_BYTES];
	struct dump d = { 0 };
	struct conversations all = { .tell = tell, .tell_iscsi = tell_iscsi, .context = &d };
	struct recording *capture;
	struct recorded_packet p;
	struct dump_args args;
	int status, got;

	status = args_read(argc, argv, &args);
	if (status != 0)
		return status;
	capture = recording_open(args.path, error);
	if (!capture) {
		fprintf(stderr, "weft dump: %s %s\n", args.path, error);
		return 1;
	}
	d.is_quiet = args.is_quiet;
	all.iscsi_port = args.iscsi_port;
	while ((got = recording_next(capture, &p, error)) == 1)
		take(&d, &all, &p);
	conversations_end(&all);
	tell_run(&d);
	if (got < 0) {
		printf("** the file is broken after packet %" PRIu64 ": %s\n", d.packets, error);
		d.problems++;
	}
	status = print_sums(&d, &all) ? 0 : 1;
	conversations_fini(&all);
	recording_close(capture);
	return status;
}

const struct command command_dump = {
	.name = "dump",
	.args = "FILE",
	.what = "what a capture of RDMA traffic says, in words",
	.help = usage,
	.run = cmd_dump,
};
