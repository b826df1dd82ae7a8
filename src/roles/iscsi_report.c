/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the iSCSI target shows at the abstract unix socket "weft/iscsi/PID", for `weft iscsi status`:
 * lines as in driver/stat/stat_report.h.
 *
 *	weft 1 version=... pid=... uptime_ms=... commands=... program=...
 *	portal address=...
 *	target number=... name=... authenticated=... alias=...
 *	lun target=... lun=... bytes=... block=... readonly=... said=DEVICE
 *	session ...
 *	end
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <weft/version.h>

#include "roles/iscsi_server_inside.h"

enum { NS_PER_MS = 1000000 };

static void put(FILE *to, const char *key, uint64_t number)
{
	fprintf(to, " %s=%" PRIu64, key, number);
}

static void put_node(FILE *to, struct iscsi_server *s)
{
	struct iscsi_node_counts n;

	iscsi_node_counts(s->node, &n);
	fprintf(to, "weft 1 version=%s pid=%ld", weft_version(), (long)getpid());
	put(to, "uptime_ms", (s->now_ns - s->begin_ns) / NS_PER_MS);
	put(to, "sessions", n.sessions);
	put(to, "sessions_max", s->host->config->sessions_max);
	put(to, "connections", n.connections);
	put(to, "accepted", n.accepted);
	put(to, "logins", n.logins);
	put(to, "refused", n.refused);
	put(to, "evicted", n.evicted);
	put(to, "commands", n.commands);
	put(to, "busy", n.busy);
	put(to, "rejects", n.rejects);
	put(to, "tasks", n.tasks);
	put(to, "memory_used", n.memory_used);
	put(to, "memory_bytes", n.memory_bytes);
	fprintf(to, " state=%s program=weft\n", s->is_ending ? "ending" : "serving");
}

static void put_targets(FILE *to, const struct iscsi_server *s)
{
	const struct iscsi_config *c = s->host->config;

	for (uint32_t i = 0; i < c->portal_count; i++) {
		char address[WEFT_ADDRESS_TEXT];

		weft_address_text(&s->portals[i].at, address);
		fprintf(to, "portal address=%s transport=%s\n", address,
			iscsi_config_wire_name(c->wires[i]));
	}
	for (uint32_t i = 0; i < c->target_count; i++) {
		const struct iscsi_secrets *secrets = s->host->secrets[i];
		const char *chap = !secrets		       ? "none"
				   : secrets->self.name.length ? "CHAP,mutual"
							       : "CHAP";

		fprintf(to, "target number=%u name=%s authentication=%s said=%s\n", i,
			c->targets[i].name.text, chap, c->targets[i].alias);
	}
	for (uint32_t i = 0; i < c->lun_count; i++) {
		const struct store_shape *shape = &device_store(s->devices[i])->shape;

		fprintf(to, "lun target=%u lun=%u", c->luns[i].target, c->luns[i].lun);
		put(to, "bytes", shape->size_bytes);
		put(to, "block", shape->block_bytes);
		put(to, "readonly", c->luns[i].is_readonly || shape->is_readonly);
		fprintf(to, " said=%s\n", c->luns[i].text);
	}
}

static const char *digest_name(uint32_t digest)
{
	return digest == ISCSI_DIGEST_CRC32C ? "CRC32C" : "None";
}

static void put_params(FILE *to, const struct iscsi_params *p)
{
	fprintf(to, " header_digest=%s data_digest=%s", digest_name(p->connection.header_digest),
		digest_name(p->connection.data_digest));
	put(to, "recv_segment_bytes", p->connection.recv_bytes_max);
	put(to, "send_segment_bytes", p->connection.send_bytes_max);
	put(to, "burst_bytes", p->session.burst_bytes_max);
	put(to, "first_burst_bytes", p->session.first_burst_bytes_max);
	put(to, "immediate_data", p->session.has_immediate_data);
	put(to, "initial_r2t", p->session.needs_r2t);
	put(to, "outstanding_r2ts", p->session.r2t_max);
}

static void put_session(FILE *to, const struct iscsi_server *s, const struct iscsi_view *v)
{
	const struct iscsi_session_counts *c = &v->counts;

	fputs("session state=", to);
	for (const char *at = v->state; *at; at++)
		fputc(*at == ' ' ? '_' : *at, to);
	fprintf(to, " peer=%s local=%s initiator=%s target=%s", v->peer, v->local,
		v->initiator[0] ? v->initiator : "-",
		v->is_discovery			 ? "discovery"
		: v->target == ISCSI_TARGET_NONE ? "-"
						 : s->host->config->targets[v->target].name.text);
	fprintf(to, " isid=%02x%02x%02x%02x%02x%02x", v->isid[0], v->isid[1], v->isid[2],
		v->isid[3], v->isid[4], v->isid[5]);
	put(to, "tsih", v->tsih);
	put(to, "cid", v->cid);
	put(to, "age_ms", (s->now_ns - v->begin_ns) / NS_PER_MS);
	put(to, "silent_ms", (s->now_ns - v->heard_ns) / NS_PER_MS);
	put(to, "tasks", v->tasks);
	put(to, "window", v->window);
	put(to, "memory", v->memory_bytes);
	put(to, "commands", c->commands);
	put(to, "failed", c->failed);
	put(to, "reads", c->reads);
	put(to, "writes", c->writes);
	put(to, "bytes_read", c->bytes_read);
	put(to, "bytes_written", c->bytes_written);
	put(to, "r2ts", c->r2ts);
	put(to, "task_functions", c->task_functions);
	put(to, "pings", c->pings);
	put(to, "bytes_in", v->bytes_in);
	put(to, "bytes_out", v->bytes_out);
	if (v->params)
		put_params(to, v->params);
	fputc('\n', to);
}

char *iscsi_report(void *server, size_t *length)
{
	struct iscsi_server *s = server;
	char *text = NULL;
	FILE *to = open_memstream(&text, length);
	struct iscsi_view v;
	uint32_t at = 0;

	if (!to)
		return NULL;
	put_node(to, s);
	put_targets(to, s);
	while (iscsi_node_view(s->node, &at, &v))
		put_session(to, s, &v);
	fputs("end\n", to);
	if (fclose(to) == 0)
		return text;
	free(text);
	return NULL;
}
