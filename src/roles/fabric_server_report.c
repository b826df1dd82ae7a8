/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a fabric shows at the abstract unix socket "weft/fabric-run/PID", for `weft fabric top`:
 * lines as in driver/stat/stat_report.h.
 *
 *	weft 1 version=... pid=... uptime_ms=... name=... nodes=... cables=... program=weft
 *	cable number=... is_cut=...
 *	port number=... state=... lanes=... queued=... room=... words_out=... ... said=NODE
 *	deadlock said=TEXT       a line of the text each
 *	end
 *
 * A cable's two ends follow it. Queued are flits that have come in at the end, room is how many
 * more the other end may send on the fullest lane.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/version.h>

#include "roles/fabric_server_inside.h"

enum { NS_PER_MS = 1000000, DEADLOCK_TEXT = 8192 };

static void put(FILE *to, const char *key, uint64_t number)
{
	fprintf(to, " %s=%" PRIu64, key, number);
}

/* Requests of programs and their long messages that are not at their end yet. */
static uint32_t unanswered(const struct fabric_server *s)
{
	uint32_t sum = 0;

	for (const struct list *l = s->ports.next; l != &s->ports; l = l->next) {
		const struct server_port *p = CONTAINER_OF(l, const struct server_port, link);

		sum += p->mads ? mad_send_count(p->mads) : 0;
	}
	return sum;
}

static void put_fabric(FILE *to, struct fabric_server *s)
{
	const struct fabric_hub_counts *hub = fabric_hub_counts(s->hub);

	fprintf(to, "weft 1 version=%s pid=%ld name=%s", weft_version(), (long)getpid(), s->name);
	put(to, "uptime_ms", s->now_ns / NS_PER_MS);
	put(to, "nodes", fabric_node_count(s->fabric));
	put(to, "cables", fabric_cable_count(s->fabric));
	put(to, "adapters", hub->adapters);
	put(to, "programs", s->client_count);
	put(to, "frames_in", hub->frames_in);
	put(to, "frames_out", hub->frames_out);
	put(to, "crossed", hub->crossed);
	put(to, "held", hub->held);
	put(to, "refused", hub->refused);
	put(to, "lost", hub->lost);
	put(to, "untaken", hub->untaken);
	put(to, "broken", hub->broken);
	put(to, "wrong_key", s->counts.wrong_key);
	put(to, "datagrams_in", s->counts.datagrams_in);
	put(to, "datagrams_out", s->counts.datagrams_out);
	put(to, "unanswered", unanswered(s));
	put(to, "unwanted", s->counts.unwanted);
	put(to, "unread", s->counts.unread);
	fputs(" program=weft\n", to);
}

/* Of the lanes that are in use: what waits in all, and the least room of one. */
static void put_lanes(FILE *to, const struct fabric_link *l, uint32_t lanes)
{
	uint32_t queued = l->in[IBA_LANE_MANAGEMENT].blocks_used, room = UINT32_MAX;

	for (uint32_t lane = 0; lane < lanes; lane++) {
		const struct fabric_lane *in = &l->in[lane];

		if (in->blocks_max == 0)
			continue;
		queued += in->blocks_used;
		room = fabric_lane_room(in) < room ? fabric_lane_room(in) : room;
	}
	put(to, "lanes", lanes);
	put(to, "queued", queued);
	put(to, "room", room == UINT32_MAX ? 0 : room);
}

static void put_end(FILE *to, struct fabric_server *s, uint32_t node, uint32_t port)
{
	const struct fabric_node *n = fabric_node_at(s->fabric, node);
	const struct fabric_node_port *p = &n->ports[port];
	const struct fabric_link *l = fabric_link_at(s->fabric, node, port);
	const struct fabric_port_counts *c = &p->counts;

	fputs("port", to);
	put(to, "number", port);
	put(to, "state", p->info.state);
	put(to, "lid", n->ports[n->cfg.type == SM_NODE_SWITCH ? 0 : port].info.lid);
	put_lanes(to, l, fabric_node_lanes(n, port));
	put(to, "words_out", c->transmit_data);
	put(to, "frames_out", c->transmit_packets);
	put(to, "waits", c->transmit_wait);
	put(to, "damaged", c->symbol_errors);
	put(to, "recoveries", c->link_recoveries);
	put(to, "downed", c->link_downed);
	put(to, "dropped",
	    c->transmit_discards + c->relay_errors + c->receive_errors +
		    c->transmit_constraint_errors + c->receive_constraint_errors + c->qp1_dropped +
		    c->vl15_dropped + c->inactive + c->misrouted);
	fprintf(to, " said=%s\n", s->names[node]);
}

static void put_cables(FILE *to, struct fabric_server *s)
{
	for (uint32_t i = 0; i < fabric_cable_count(s->fabric); i++) {
		uint32_t node[2], port[2];

		fabric_cable_ends(s->fabric, i, node, port);
		if (!fabric_is_here(s->fabric, node[0]) && !fabric_is_here(s->fabric, node[1]))
			continue; /* of other parts */
		fputs("cable", to);
		put(to, "number", i);
		put(to, "is_cut", fabric_is_cut(s->fabric, i));
		fputs("\n", to);
		for (int end = 0; end < 2; end++)
			put_end(to, s, node[end], port[end]);
	}
}

static void put_deadlock(FILE *to, const struct fabric_server *s)
{
	char text[DEADLOCK_TEXT];

	if (fabric_deadlock_text(s->fabric, text, sizeof(text)) == 0)
		return;
	for (char *line = text, *next; *line; line = next) {
		next = line + strcspn(line, "\n");
		fprintf(to, "deadlock said=%.*s\n", (int)(next - line), line);
		next += *next == '\n';
	}
}

char *server_report(void *server, size_t *length)
{
	struct fabric_server *s = server;
	char *text = NULL;
	FILE *to = open_memstream(&text, length);

	if (!to)
		return NULL;
	put_fabric(to, s);
	put_cables(to, s);
	put_deadlock(to, s);
	fputs("end\n", to);
	if (fclose(to) == 0)
		return text;
	free(text);
	return NULL;
}
