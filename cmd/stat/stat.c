/* SPDX-License-Identifier: BSD-2-Clause */
/* weft stat: the counters of programs that are running. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/stat/stat_card.h"
#include "cmd/stat/stat_client.h"
#include "cmd/stat/stat_show.h"

static const char usage[] =
	"usage: weft stat [--json] [--watch SECONDS] [PID]\n"
	"\n"
	"Lists the processes that use weft's network, or shows the counters of one: its adapters and\n"
	"queue pairs, what they carried, what a message cost, and what is pinned of address spaces.\n"
	"Of an end of a split network card also what weft card status shows.\n"
	"\n"
	"  --json           for programs to read\n"
	"  --watch SECONDS  again and again\n"
	"\n"
	"Processes of other users show nothing, nor do those that run with WEFT_STAT=off.\n";

/* ---- Tables --------------------------------------------------------------------------------- */

static uint64_t both(const struct stat_line *l, const char *in, const char *out)
{
	return stat_number(l, in) + stat_number(l, out);
}

/* How much of it came with a message, either way. */
static double per_message(const struct stat_line *l, uint64_t count)
{
	uint64_t messages = both(l, "messages_in", "messages_out");

	return messages ? (double)count / (double)messages : 0;
}

static uint64_t calls_useful(const struct stat_line *l)
{
	return both(l, "calls_in", "calls_out") - stat_number(l, "calls_empty");
}

static void print_adapter(const struct stat_line *l)
{
	printf("\nadapter %s: %s QPs, %s CQs, %s SRQs, %s PDs, %s regions, %s windows, %s connections, "
	       "%s listeners\n",
	       stat_text(l, "number"), stat_text(l, "qps"), stat_text(l, "cqs"),
	       stat_text(l, "srqs"), stat_text(l, "pds"), stat_text(l, "regions"),
	       stat_text(l, "windows"), stat_text(l, "links"), stat_text(l, "listeners"));
	printf("  carried       %s messages in, %s out; %s bytes in, %s out\n",
	       stat_text(l, "messages_in"), stat_text(l, "messages_out"), stat_text(l, "bytes_in"),
	       stat_text(l, "bytes_out"));
	printf("  payload       %s bytes in, %s out; %s of them copied by weft\n",
	       stat_text(l, "payload_in"), stat_text(l, "payload_out"),
	       stat_text(l, "payload_copied"));
	printf("  system calls  %" PRIu64 " that moved bytes, %s that found none, %s others\n",
	       calls_useful(l), stat_text(l, "calls_empty"), stat_text(l, "calls_other"));
	printf("  per message   %.2f system calls that moved bytes, %.1f bytes copied\n",
	       per_message(l, calls_useful(l)), per_message(l, stat_number(l, "payload_copied")));
	printf("  refused       %s accesses\n", stat_text(l, "accesses_refused"));
	if (stat_number(l, "iscsi_regions") > 0)
		printf("  iSCSI         %s table entries of commands in progress\n",
		       stat_text(l, "iscsi_regions"));
}

static double byte_seconds(const struct stat_line *l, const char *key)
{
	return (double)stat_number(l, key) / 1e9;
}

static void print_space(const struct stat_line *l)
{
	printf("  space         %s mappings; pinned %s bytes in %s pieces, at most %s in %s; %s pieces so far, "
	       "%.6f byte-seconds\n",
	       stat_text(l, "mappings"), stat_text(l, "pinned_bytes"), stat_text(l, "pins"),
	       stat_text(l, "pinned_bytes_max"), stat_text(l, "pins_max"), stat_text(l, "pinned"),
	       byte_seconds(l, "pinned_byte_ns"));
	printf("                copied out %s bytes; %s faults, %s pages brought back%s; "
	       "%s waits for pages of the process\n",
	       stat_text(l, "bytes_handed"), stat_text(l, "faults"), stat_text(l, "brought"),
	       stat_number(l, "has_pager") ? "" : "; there is no pager",
	       stat_text(l, "page_waits"));
}

static void print_roce(const struct stat_line *l)
{
	printf("  RoCE          %s packets in, %s out; %s sent again, %s duplicates in, %s timeouts\n",
	       stat_text(l, "packets_in"), stat_text(l, "packets_out"), stat_text(l, "resent"),
	       stat_text(l, "duplicates"), stat_text(l, "timeouts"));
	printf("                NAKs %s in, %s out; RNR %s in, %s out; ECN marks %s in; CNPs %s in, "
	       "%s out\n",
	       stat_text(l, "naks_in"), stat_text(l, "naks_out"), stat_text(l, "rnrs_in"),
	       stat_text(l, "rnrs_out"), stat_text(l, "marks_in"), stat_text(l, "notices_in"),
	       stat_text(l, "notices_out"));
	printf("                from other adapters of this host %s, handed to them %s; sent away as "
	       "another user's %s\n",
	       stat_text(l, "handed_in"), stat_text(l, "handed_out"), stat_text(l, "sent_away"));
	if (*stat_text(l, "near_in")) /* a process of an earlier version does not tell */
		printf("                near: by shared memory %s in, %s out; %s lost\n",
		       stat_text(l, "near_in"), stat_text(l, "near_out"),
		       stat_text(l, "near_lost"));
	if (*stat_text(l, "direct"))
		printf("                without packets: %s Writes and Reads of both ends\n",
		       stat_text(l, "direct"));
	printf("                lost by the host %s on their way in, %s on their way out",
	       stat_text(l, "overruns"), stat_text(l, "refused"));
	if (stat_number(l, "refused") > 0)
		printf(", at last for %s", stat_text(l, "refused_for"));
	if (*stat_text(l, "kept_bytes")) /* a process of an earlier version does not tell */
		printf("\n                not acknowledged %s bytes, at most %s; %.6f byte-seconds",
		       stat_text(l, "kept_bytes"), stat_text(l, "kept_bytes_max"),
		       byte_seconds(l, "kept_byte_ns"));
	printf("\n  dropped       %s packets", stat_text(l, "dropped"));
	putchar(stat_number(l, "dropped") > 0 ? ':' : '\n');
}

/* A line of those behind an adapter's; is_last: of its kind. */
static void print_drop(const struct stat_line *l, bool is_last)
{
	printf(" %s for %s%c", stat_text(l, "packets"), stat_text(l, "reason"),
	       is_last ? '\n' : ',');
}

/* Queue pairs by what their lines have: each kind has a table of its own. */
enum qp_kind { QP_PLAIN, QP_ROCE, QP_ISCSI, QP_KINDS };

/* Queue pairs of RoCE have no calls of their own, but packets. */
static enum qp_kind kind_of(const struct stat_line *l)
{
	if (*stat_text(l, "resent"))
		return QP_ROCE;
	return strcmp(stat_text(l, "service"), "ISCSI") == 0 ? QP_ISCSI : QP_PLAIN;
}

static void print_qp_head(enum qp_kind kind)
{
	if (kind == QP_ISCSI)
		printf("\n  %-6s %-5s %-22s %8s %9s %9s %9s %14s %14s %8s %8s %11s %9s  %s\n", "QP",
		       "state", "target", "open", "commands", "R2Ts", "Data-Ins", "bytes placed",
		       "bytes sent", "refused", "dropped", "copied", "calls", "reason");
	else if (kind == QP_ROCE)
		printf("\n  %-6s %-5s %-4s %-4s %-22s %9s %9s %12s %12s %11s %11s %8s %8s %5s %5s  %s\n",
		       "QP", "state", "kind", "path", "peer", "msgs in", "msgs out", "bytes in",
		       "bytes out", "packets in", "packets out", "resent", "timeouts", "NAKs",
		       "RNRs", "reason");
	else
		printf("\n  %-6s %-5s %-4s %-22s %9s %9s %12s %12s %11s %9s %9s %10s  %s\n", "QP",
		       "state", "path", "peer", "msgs in", "msgs out", "bytes in", "bytes out",
		       "copied", "calls", "calls/msg", "copied/msg", "reason");
}

/* Of its packets or its stream: by shared memory within the host, or by UDP or TCP. */
static const char *path_of(const struct stat_line *l)
{
	const char *link = stat_text(l, "link");

	if (strcmp(link, "near") == 0)
		return "near";
	if (strcmp(link, "stream") == 0)
		return "TCP";
	return strcmp(link, "roce") == 0 ? "UDP" : "-";
}

static void print_roce_qp(const struct stat_line *l)
{
	const char *peer = stat_text(l, "peer");

	printf("  %-6s %-5s %-4s %-4s %-22s %9s %9s %12s %12s %11s %11s %8s %8s %5" PRIu64
	       " %5" PRIu64 "  %s\n",
	       stat_text(l, "number"), stat_text(l, "state"), stat_text(l, "service"), path_of(l),
	       *peer ? peer : "-", stat_text(l, "messages_in"), stat_text(l, "messages_out"),
	       stat_text(l, "bytes_in"), stat_text(l, "bytes_out"), stat_text(l, "frames_in"),
	       stat_text(l, "frames_out"), stat_text(l, "resent"), stat_text(l, "timeouts"),
	       both(l, "naks_in", "naks_out"), both(l, "rnrs_in", "rnrs_out"),
	       stat_text(l, "reason"));
}

static void print_qp(const struct stat_line *l)
{
	const char *peer = stat_text(l, "peer"), *said = stat_text(l, "said");

	printf("  %-6s %-5s %-4s %-22s %9s %9s %12s %12s %11s %9" PRIu64 " %9.2f %10.1f  %s",
	       stat_text(l, "number"), stat_text(l, "state"), path_of(l), *peer ? peer : "-",
	       stat_text(l, "messages_in"), stat_text(l, "messages_out"), stat_text(l, "bytes_in"),
	       stat_text(l, "bytes_out"), stat_text(l, "payload_copied"), calls_useful(l),
	       per_message(l, calls_useful(l)), per_message(l, stat_number(l, "payload_copied")),
	       stat_text(l, "reason"));
	if (*said)
		printf(" (the peer said: %s)", said);
	putchar('\n');
}

/* A figure that only a connection has. */
static const char *figure(const struct stat_line *l, const char *key)
{
	const char *text = stat_text(l, key);

	return *text ? text : "-";
}

static void print_iscsi_qp(const struct stat_line *l)
{
	printf("  %-6s %-5s %-22s %8s %9s %9s %9s %14s %14s %8s %8s %11s %9" PRIu64 "  %s\n",
	       stat_text(l, "number"), stat_text(l, "state"), figure(l, "peer"),
	       figure(l, "commands_open"), figure(l, "commands"), figure(l, "r2ts"),
	       figure(l, "data_ins"), figure(l, "bytes_placed"), figure(l, "bytes_sent"),
	       figure(l, "refused"), figure(l, "dropped"), stat_text(l, "payload_copied"),
	       calls_useful(l), stat_text(l, "reason"));
}

/* The queue pairs from there on that are of one adapter, and of this kind. */
static void print_qps(const struct stat_report *r, size_t from, enum qp_kind kind)
{
	static void (*const print[QP_KINDS])(const struct stat_line *) = {
		[QP_PLAIN] = print_qp, [QP_ROCE] = print_roce_qp, [QP_ISCSI] = print_iscsi_qp
	};
	bool has_head = false;

	for (size_t i = from; i < r->count && strcmp(r->lines[i].what, "qp") == 0; i++) {
		if (kind_of(&r->lines[i]) != kind)
			continue;
		if (!has_head)
			print_qp_head(kind);
		has_head = true;
		print[kind](&r->lines[i]);
	}
}

static void print_process(const struct stat_line *l)
{
	printf("process %s (%s), weft %s\n", stat_text(l, "pid"), stat_text(l, "program"),
	       stat_text(l, "version"));
	printf("  memory        %s accesses met missing pages, %s ranges unmapped while registered\n",
	       stat_text(l, "memory_faults"), stat_text(l, "memory_unmapped"));
	printf("                notices of the kernel %s, %s regions without\n",
	       stat_text(l, "memory_notices"), stat_text(l, "memory_unwatched"));
}

static void print_report(const struct stat_report *r)
{
	const char *before = "";

	for (size_t i = 0; i < r->count; i++) {
		const struct stat_line *l = &r->lines[i];

		if (strcmp(l->what, "weft") == 0)
			print_process(l);
		else if (strcmp(l->what, "adapter") == 0)
			print_adapter(l);
		else if (strcmp(l->what, "roce") == 0)
			print_roce(l);
		else if (strcmp(l->what, "drop") == 0)
			print_drop(l, i + 1 == r->count || strcmp(l[1].what, "drop") != 0);
		else if (strcmp(l->what, "space") == 0)
			print_space(l);
		if (strcmp(l->what, "qp") == 0 && strcmp(before, "qp") != 0) {
			for (enum qp_kind kind = QP_PLAIN; kind < QP_KINDS; kind++)
				print_qps(r, i, kind);
		}
		before = l->what;
	}
}

/* A process that is an end of a split network card shows that elsewhere. */
static bool has_card(const struct stat_report *r, struct stat_report *card)
{
	return r->count > 0 &&
	       stat_ask(STAT_CARD, (long)stat_number(&r->lines[0], "pid"), card) == STAT_HERE;
}

static void print_all(const struct stat_report *r)
{
	struct stat_report card;

	print_report(r);
	if (!has_card(r, &card))
		return;
	putchar('\n');
	stat_card_print(&card);
	stat_free(&card);
}

static void print_summary(const struct stat_report *r)
{
	uint64_t adapters = 0, qps = 0, messages = 0, bytes = 0, refused = 0;

	for (size_t i = 0; i < r->count; i++) {
		const struct stat_line *l = &r->lines[i];

		if (strcmp(l->what, "adapter") != 0)
			continue;
		adapters++;
		qps += stat_number(l, "qps");
		messages += both(l, "messages_in", "messages_out");
		bytes += both(l, "bytes_in", "bytes_out");
		refused += stat_number(l, "accesses_refused");
	}
	printf("%8s  %-20s %8" PRIu64 " %6" PRIu64 " %12" PRIu64 " %16" PRIu64 " %8" PRIu64 "\n",
	       stat_text(&r->lines[0], "pid"), stat_text(&r->lines[0], "program"), adapters, qps,
	       messages, bytes, refused);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* What stands behind an adapter's own fields: of RoCE, and why packets were dropped. */
static void json_roce(const struct stat_report *r, size_t at)
{
	if (at == r->count || strcmp(r->lines[at].what, "roce") != 0)
		return;
	printf(", \"roce\": {");
	stat_json_fields(&r->lines[at]);
	printf(", \"drops\": {");
	for (size_t i = at + 1; i < r->count && strcmp(r->lines[i].what, "drop") == 0; i++) {
		if (i > at + 1)
			printf(", ");
		stat_json_string(stat_text(&r->lines[i], "reason"));
		printf(": %s", stat_text(&r->lines[i], "packets"));
	}
	printf("}}");
}

/* The address spaces of the adapter whose lines begin there. */
static void json_spaces(const struct stat_report *r, size_t at)
{
	bool is_any = false;

	printf(", \"spaces\": [");
	for (size_t i = at; i < r->count && strcmp(r->lines[i].what, "adapter") != 0; i++) {
		if (strcmp(r->lines[i].what, "space") != 0)
			continue;
		printf("%s{", is_any ? ", " : "");
		stat_json_fields(&r->lines[i]);
		printf("}");
		is_any = true;
	}
	printf("]");
}

static void json_card(const struct stat_report *r)
{
	struct stat_report card;

	if (!has_card(r, &card))
		return;
	printf(",\n \"card\": ");
	stat_card_json(&card);
	stat_free(&card);
}

static void json_report(const struct stat_report *r)
{
	bool has_adapter = false, has_qp = false;

	printf("{");
	for (size_t i = 0; i < r->count; i++) {
		const struct stat_line *l = &r->lines[i];

		if (strcmp(l->what, "weft") == 0) {
			stat_json_fields(l);
			printf(", \"adapters\": [");
		} else if (strcmp(l->what, "adapter") == 0) {
			printf("%s\n  {", has_adapter ? "]}," : "");
			stat_json_fields(l);
			json_roce(r, i + 1);
			json_spaces(r, i + 1);
			printf(", \"queue_pairs\": [");
			has_adapter = true;
			has_qp = false;
		} else if (strcmp(l->what, "qp") == 0 && has_adapter) {
			printf("%s\n    {", has_qp ? "," : "");
			stat_json_fields(l);
			printf("}");
			has_qp = true;
		}
	}
	printf("%s]", has_adapter ? "]}" : "");
	json_card(r);
	printf("}");
}

/* ---- The command ---------------------------------------------------------------------------- */

static int show_all(const struct stat_args *args)
{
	static long pids[STAT_PROCESSES_MAX];
	size_t count = stat_processes(STAT_COUNTERS, pids, STAT_PROCESSES_MAX), shown = 0;

	if (args->is_json)
		printf("[");
	for (size_t i = 0; i < count; i++) {
		struct stat_report r;
		enum stat_answer answer = stat_ask(STAT_COUNTERS, pids[i], &r);

		if (answer == STAT_HERE && args->is_json) {
			printf("%s\n", shown ? "," : "");
			json_report(&r);
		} else if (!args->is_json && answer != STAT_NOBODY) {
			if (shown == 0)
				printf("%8s  %-20s %8s %6s %12s %16s %8s\n", "PID", "program",
				       "adapters", "QPs", "messages", "bytes", "refused");
			if (answer == STAT_HERE)
				print_summary(&r);
			else
				printf("%8ld  (%s)\n", pids[i],
				       answer == STAT_FOREIGN ? "another user's"
							      : "does not answer");
		}
		shown += answer == STAT_HERE || (!args->is_json && answer != STAT_NOBODY);
		stat_free(&r);
	}
	if (args->is_json)
		printf("]\n");
	else if (shown == 0)
		printf("no process uses weft's network now\n");
	return 0;
}

static int cmd_stat(int argc, char **argv)
{
	static const struct stat_command command = {
		.name = "stat",
		.help = usage,
		.service = STAT_COUNTERS,
		.absent = "shows no counters: it is not there, does not use weft's network now, or "
			  "runs with WEFT_STAT=off",
		.print = print_all,
		.json = json_report,
		.show_all = show_all,
	};

	return stat_show(argc, argv, &command);
}

const struct command command_stat = {
	.name = "stat",
	.args = "[PID]",
	.what = "counters of programs that are running",
	.help = usage,
	.run = cmd_stat,
};
