/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/stat/stat_card.h"

#include <stdio.h>
#include <string.h>

#include "cmd/stat/stat_show.h"

/* ---- Tables --------------------------------------------------------------------------------- */

static void print_end(const struct stat_line *l)
{
	bool is_unit = strcmp(stat_text(l, "role"), "card-unit") == 0;

	printf("%s, process %s, weft %s, for %.0f s, %s %s\n", stat_text(l, "role"),
	       stat_text(l, "pid"), stat_text(l, "version"),
	       (double)stat_number(l, "uptime_ms") / 1000, is_unit ? "at" : "its unit at",
	       stat_text(l, "address"));
	printf("  frames        %s dropped for want of a buffer, %s that a host may not send, "
	       "%s while no unit was there; %s buffers free\n",
	       stat_text(l, "busy"), stat_text(l, "foreign"), stat_text(l, "absent"),
	       stat_text(l, "buffers_free"));
	printf("  refused       %s connections, %s requests; %s lines were too many to be told\n",
	       stat_text(l, "refused"), stat_text(l, "refused_requests"), stat_text(l, "untold"));
}

static void print_port(const struct stat_line *l)
{
	printf("  port          %s: %s, MTU %s, %s%s\n", stat_text(l, "said"),
	       *stat_text(l, "mac") ? stat_text(l, "mac") : "no MAC address", stat_text(l, "mtu"),
	       stat_number(l, "up") ? "up" : "down: ", stat_text(l, "why"));
	printf("                in %s frames, %s bytes; out %s frames, %s bytes; %s wait for room\n",
	       stat_text(l, "frames_in"), stat_text(l, "bytes_in"), stat_text(l, "frames_out"),
	       stat_text(l, "bytes_out"), stat_text(l, "held"));
}

static void print_link(const struct stat_line *l)
{
	printf("\n  %s by %s: %s\n", stat_text(l, "name"), stat_text(l, "wire"),
	       stat_text(l, "state"));
	if (!*stat_text(l, "mac"))
		return;
	printf("    card        %s, MTU %s, offload %s, LAN %s, for %.0f s\n", stat_text(l, "mac"),
	       stat_text(l, "mtu"), stat_number(l, "offload") ? "on" : "off",
	       stat_number(l, "lan_up") ? "up" : "down", (double)stat_number(l, "age_ms") / 1000);
	printf("    in          %s packets, %s bytes; %s wait for the port\n",
	       stat_text(l, "packets_in"), stat_text(l, "bytes_in"), stat_text(l, "for_port"));
	printf("    out         %s packets, %s bytes; %s found no room, %s were too long, %s had to "
	       "wait for an element, %s wait now",
	       stat_text(l, "packets_out"), stat_text(l, "bytes_out"), stat_text(l, "dropped"),
	       stat_text(l, "too_long"), stat_text(l, "waits"), stat_text(l, "waiting"));
	if (stat_number(l, "waits_ms") > 0)
		printf(": no element came back for %.1f s",
		       (double)stat_number(l, "waits_ms") / 1000);
	putchar('\n');
	printf("    messages    %s in, %s out, %s Writes, %s refused", stat_text(l, "messages_in"),
	       stat_text(l, "messages_out"), stat_text(l, "writes"), stat_text(l, "refused"));
	if (*stat_text(l, "refused_for"))
		printf(", the last one for %s", stat_text(l, "refused_for"));
	putchar('\n');
	if (*stat_text(l, "peer_age_ms"))
		printf("    it counts   %s packets in, %s out; %s found no room, %s had to wait for an "
		       "element, %s refused, %s lost: told %.1f s ago\n",
		       stat_text(l, "peer_packets_in"), stat_text(l, "peer_packets_out"),
		       stat_text(l, "peer_dropped"), stat_text(l, "peer_waits"),
		       stat_text(l, "peer_refused"), stat_text(l, "peer_lost"),
		       (double)stat_number(l, "peer_age_ms") / 1000);
	printf("    own pools   %s: elements %s for the other end, %s full, %s to be returned\n",
	       stat_text(l, "own_pools"), stat_text(l, "theirs"), stat_text(l, "full"),
	       stat_text(l, "ready"));
	printf("    its pools   %s: elements %s free, %s being written, %s in use\n",
	       stat_text(l, "peer_pools"), stat_text(l, "free"), stat_text(l, "writing"),
	       stat_text(l, "used"));
}

void stat_card_print(const struct stat_report *r)
{
	for (size_t i = 0; i < r->count; i++) {
		const struct stat_line *l = &r->lines[i];

		if (strcmp(l->what, "weft") == 0)
			print_end(l);
		else if (strcmp(l->what, "port") == 0)
			print_port(l);
		else if (strcmp(l->what, "drop") == 0)
			printf("                dropped %s, %s: %s\n", stat_text(l, "way"),
			       stat_text(l, "reason"), stat_text(l, "count"));
		else if (strcmp(l->what, "link") == 0)
			print_link(l);
	}
}

void stat_card_json(const struct stat_report *r)
{
	printf("{");
	stat_json_fields(&r->lines[0]);
	stat_json_lines(r, "port", "ports");
	stat_json_lines(r, "drop", "drops");
	stat_json_lines(r, "link", "links");
	printf("}");
}
