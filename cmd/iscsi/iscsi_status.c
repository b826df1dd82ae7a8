/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "cmd/iscsi/iscsi.h"
#include "cmd/stat/stat_show.h"

/* ---- Tables --------------------------------------------------------------------------------- */

static void print_node(const struct stat_line *l)
{
	printf("iSCSI target, process %s, weft %s: %s, for %.0f s\n", stat_text(l, "pid"),
	       stat_text(l, "version"), stat_text(l, "state"),
	       (double)stat_number(l, "uptime_ms") / 1000);
	printf("  sessions      %s of at most %s; %s connections; %s logins so far, %s refused, "
	       "%s gave way\n",
	       stat_text(l, "sessions"), stat_text(l, "sessions_max"), stat_text(l, "connections"),
	       stat_text(l, "logins"), stat_text(l, "refused"), stat_text(l, "evicted"));
	printf("  commands      %s so far, %s now; %s answered BUSY, %s PDUs rejected\n",
	       stat_text(l, "commands"), stat_text(l, "tasks"), stat_text(l, "busy"),
	       stat_text(l, "rejects"));
	printf("  memory        %s of %s bytes for data of commands\n", stat_text(l, "memory_used"),
	       stat_text(l, "memory_bytes"));
}

static void print_luns(const struct stat_report *r, const char *target)
{
	for (size_t i = 0; i < r->count; i++) {
		const struct stat_line *l = &r->lines[i];

		if (strcmp(l->what, "lun") == 0 && strcmp(stat_text(l, "target"), target) == 0)
			printf("    LUN %-3s %14s bytes, blocks of %s%s  %s\n", stat_text(l, "lun"),
			       stat_text(l, "bytes"), stat_text(l, "block"),
			       stat_number(l, "readonly") ? ", read-only" : "",
			       stat_text(l, "said"));
	}
}

static void print_target(const struct stat_report *r, const struct stat_line *l)
{
	printf("\n  target %s%s%s, authentication: %s\n", stat_text(l, "name"),
	       *stat_text(l, "said") ? " " : "", stat_text(l, "said"),
	       stat_text(l, "authentication"));
	print_luns(r, stat_text(l, "number"));
}

static void print_session(const struct stat_line *l)
{
	printf("\n  session of %s at %s with %s: %s\n", stat_text(l, "initiator"),
	       stat_text(l, "peer"), stat_text(l, "target"), stat_text(l, "state"));
	printf("    commands    %s (%s reads, %s writes), %s failed, %s now, %s more allowed\n",
	       stat_text(l, "commands"), stat_text(l, "reads"), stat_text(l, "writes"),
	       stat_text(l, "failed"), stat_text(l, "tasks"), stat_text(l, "window"));
	printf("    data        %s bytes read, %s written, %s R2Ts; memory %s bytes\n",
	       stat_text(l, "bytes_read"), stat_text(l, "bytes_written"), stat_text(l, "r2ts"),
	       stat_text(l, "memory"));
	if (*stat_text(l, "header_digest"))
		printf("    negotiated  digests: header %s, data %s; segments %s in, %s out; burst %s, "
		       "first %s; immediate data %s, R2T first %s\n",
		       stat_text(l, "header_digest"), stat_text(l, "data_digest"),
		       stat_text(l, "recv_segment_bytes"), stat_text(l, "send_segment_bytes"),
		       stat_text(l, "burst_bytes"), stat_text(l, "first_burst_bytes"),
		       stat_number(l, "immediate_data") ? "yes" : "no",
		       stat_number(l, "initial_r2t") ? "yes" : "no");
}

static void print_report(const struct stat_report *r)
{
	for (size_t i = 0; i < r->count; i++) {
		const struct stat_line *l = &r->lines[i];

		if (strcmp(l->what, "weft") == 0)
			print_node(l);
		else if (strcmp(l->what, "portal") == 0)
			printf("  portal        %s by %s\n", stat_text(l, "address"),
			       stat_text(l, "transport"));
		else if (strcmp(l->what, "target") == 0)
			print_target(r, l);
		else if (strcmp(l->what, "session") == 0)
			print_session(l);
	}
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void json_report(const struct stat_report *r)
{
	printf("{");
	stat_json_fields(&r->lines[0]);
	stat_json_lines(r, "portal", "portals");
	stat_json_lines(r, "target", "targets");
	stat_json_lines(r, "lun", "luns");
	stat_json_lines(r, "session", "sessions_now");
	printf("}");
}

/* ---- The command ---------------------------------------------------------------------------- */

int iscsi_status(int argc, char **argv)
{
	static const struct stat_command command = {
		.name = "iscsi status",
		.help = iscsi_help,
		.service = STAT_ISCSI,
		.absent = "is no iSCSI target, or is not there",
		.nothing = "no iSCSI target of this user runs now",
		.print = print_report,
		.json = json_report,
	};

	return stat_show(argc, argv, &command);
}
