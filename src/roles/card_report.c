/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an end of a card shows at the abstract unix socket "weft/card/PID", for `weft card status`:
 * lines as in driver/stat/stat_report.h.
 *
 *	weft 1 version=... pid=... uptime_ms=... role=... program=weft
 *	port up=... why=... mac=... mtu=... frames_in=... said=TEXT
 *	drop way=in|out reason=... count=...
 *	link name=... state=... mac=... packets_in=... theirs=... waiting=...
 *	end
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <weft/version.h>

#include "rio/names.h"
#include "roles/card_inside.h"

enum { NS_PER_MS = 1000000 };

static void put(FILE *to, const char *key, uint64_t number)
{
	fprintf(to, " %s=%" PRIu64, key, number);
}

static void put_mac(FILE *to, const uint8_t *mac)
{
	fprintf(to, " mac=%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
		mac[5]);
}

static void put_end(FILE *to, const struct card *c)
{
	struct weft_address at;
	char text[WEFT_ADDRESS_TEXT];

	card_address(c, &at);
	weft_address_text(&at, text);
	fprintf(to, "weft 1 version=%s pid=%ld", weft_version(), (long)getpid());
	put(to, "uptime_ms", (c->now_ns - c->begin_ns) / NS_PER_MS);
	put(to, "refused", c->counts.refused);
	put(to, "refused_requests", c->counts.refused_requests);
	put(to, "untold", c->counts.untold);
	put(to, "busy", c->counts.dropped_busy);
	put(to, "foreign", c->counts.dropped_foreign);
	put(to, "absent", c->counts.dropped_absent);
	put(to, "buffers_free", c->free_frame_count);
	fprintf(to, " role=%s address=%s program=weft\n", rio_role_name(c->file->config->role),
		text);
}

static void put_drops(FILE *to, const char *way, const struct lan_way *w)
{
	for (uint32_t i = 0; i < WEFT_REASON_COUNT; i++) {
		if (w->drops[i] > 0)
			fprintf(to, "drop way=%s reason=%s count=%" PRIu64 "\n", way,
				weft_reason_name((enum weft_reason)i), w->drops[i]);
	}
}

static void put_port(FILE *to, const struct card *c)
{
	const struct lan_properties *is = lan_properties(c->port);
	const struct lan_counts *n = lan_counts(c->port);

	fputs("port", to);
	put(to, "up", is->is_up);
	if (!is->is_up)
		fprintf(to, " why=%s", weft_reason_name(is->why));
	if (is->has_mac)
		put_mac(to, is->mac);
	put(to, "mtu", is->mtu);
	put(to, "frames_in", n->in.frames);
	put(to, "bytes_in", n->in.bytes);
	put(to, "frames_out", n->out.frames);
	put(to, "bytes_out", n->out.bytes);
	put(to, "held", c->held_count);
	fprintf(to, " said=%s\n", c->file->config->port.is);
	put_drops(to, "in", &n->in);
	put_drops(to, "out", &n->out);
}

static void put_counts(FILE *to, const struct card_end *e)
{
	uint64_t since_ns = push_waits_since(e->link), now_ns = e->card->now_ns;
	struct push_statistics s;
	struct push_view v;

	push_statistics(e->link, &s);
	push_view(e->link, &v);
	put(to, "packets_in", s.packets_in);
	put(to, "bytes_in", s.bytes_in);
	put(to, "packets_out", s.packets_out);
	put(to, "bytes_out", s.bytes_out);
	put(to, "messages_in", s.messages_in);
	put(to, "messages_out", s.messages_out);
	put(to, "writes", s.writes);
	put(to, "refused", s.refused);
	put(to, "dropped", s.dropped + e->dropped_greedy);
	put(to, "too_long", e->dropped_long);
	put(to, "lost", s.lost);
	put(to, "waits", s.waits);
	put(to, "own_pools", v.own_pools);
	put(to, "peer_pools", v.peer_pools);
	put(to, "theirs", v.theirs);
	put(to, "full", v.full);
	put(to, "ready", v.ready);
	put(to, "free", v.free);
	put(to, "writing", v.writing);
	put(to, "used", v.used);
	put(to, "waiting", v.waiting);
	put(to, "waits_ms", since_ns < now_ns ? (now_ns - since_ns) / NS_PER_MS : 0);
	if (v.refused_for != WEFT_OK)
		fprintf(to, " refused_for=%s", weft_reason_name(v.refused_for));
}

/* What the other end has counted, as it told when it was last asked. */
static void put_counted(FILE *to, const struct card_end *e)
{
	const struct push_statistics *s = &e->counted;

	if (e->counted_ns == 0)
		return;
	put(to, "peer_age_ms", (e->card->now_ns - e->counted_ns) / NS_PER_MS);
	put(to, "peer_packets_in", s->packets_in);
	put(to, "peer_packets_out", s->packets_out);
	put(to, "peer_refused", s->refused);
	put(to, "peer_dropped", s->dropped);
	put(to, "peer_lost", s->lost);
	put(to, "peer_waits", s->waits);
}

static void put_link(FILE *to, const struct card *c, const struct card_end *e)
{
	char text[WEFT_ADDRESS_TEXT];
	const struct push_agreed *a;

	fprintf(to, "link wire=%s", e->rdma.wire == RDMA_ROCE ? "roce" : "iwarp");
	if (!e->link) {
		fprintf(to, " state=%s name=%s\n", e->state == CARD_DYING ? "ending" : "connecting",
			card_end_name(e, text));
		return;
	}
	a = push_agreed(e->link);
	fprintf(to, " state=%s mode=%s", push_state_name(push_link_state(e->link)),
		card_is_send_mode(c) ? "send" : "rdma");
	put_mac(to, a->mac);
	put(to, "mtu", a->mtu);
	put(to, "offload", (a->features & PUSH_FEATURE_NET_HEADER) != 0);
	put(to, "lan_up", a->is_link_up);
	put(to, "age_ms", (c->now_ns - e->since_ns) / NS_PER_MS);
	put_counts(to, e);
	put_counted(to, e);
	put(to, "for_port", e->waiting_count);
	fprintf(to, " name=%s\n", card_end_name(e, text));
}

char *card_report(void *card, size_t *length)
{
	struct card *c = card;
	struct card_end *e = NULL;
	char *text = NULL;
	FILE *to = open_memstream(&text, length);

	if (!to)
		return NULL;
	put_end(to, c);
	put_port(to, c);
	while ((e = card_end_next(c, e)) != NULL) {
		put_link(to, c, e);
		if (e->link)
			e->to_say |= CARD_SAY_STATISTICS; /* for the next report */
	}
	fputs("end\n", to);
	if (fclose(to) == 0)
		return text;
	free(text);
	return NULL;
}
