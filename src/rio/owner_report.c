/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "rio/owner_parts.h"

enum { REPORT_BYTES_MAX = RIO_MSG_BYTES_MAX - RIO_MSG_HEADER_BYTES - 8 - RIO_SEAL_BYTES };

/* Watchers ask repeatedly: permission is logged once, every denial is logged. */
void owner_inquire_take(struct rio_owner *o, struct owner_requester *q, const struct rio_msg *m)
{
	bool may = rio_policy_may_watch(o->policy, q->peer.is.platform);

	q->inquiry_id = m->id;
	q->inquiry_first = m->inquire_first;
	q->inquiry_reason = may ? WEFT_OK : WEFT_R_RIO_DENIED;
	if (!may || !q->is_watching) {
		q->peer.is_watch_due = true;
		owner_note(o, &q->peer.notable);
	}
	q->is_watching = may;
	if (!list_is_linked(&q->inquiry_link))
		list_add_tail(&o->inquiries, &q->inquiry_link);
}

bool rio_owner_is_inquired(const struct rio_owner *o)
{
	return !list_is_empty(&o->inquiries);
}

void rio_owner_moved(struct rio_owner *o, const struct rio_moved *moved)
{
	o->moved = *moved;
}

/* ---- All entries, of which those are written that were asked for ---------------------------- */

struct page {
	uint32_t first, total, count;
	bool is_full;
	struct wr w;
};

static void add(struct page *p, const struct rio_seen *s)
{
	if (p->total++ < p->first || p->is_full)
		return;
	rio_seen_put(s, &p->w);
	p->is_full = p->w.is_short;
	p->count += !p->is_full;
}

static struct rio_bytes name_of(const struct rio_owner *o, struct platform platform)
{
	for (uint32_t i = 0; i < o->config.known_count; i++) {
		if (platform_is_same(o->config.known[i].platform, platform))
			return o->config.known[i].name;
	}
	return (struct rio_bytes){ 0 };
}

static void add_devices(struct page *p, const struct owner_unit *u)
{
	for (uint32_t i = 0; i < u->device_count; i++) {
		struct rio_seen s = { .kind = RIO_SEEN_DEVICE,
				      .is_here = true,
				      .platform = u->peer.is.platform,
				      .device = u->devices[i].is };

		s.device.number = owner_target(u, &u->devices[i].is).number;
		add(p, &s);
	}
}

static void add_peer(const struct rio_owner *o, struct page *p, const struct rio_owner_peer *is)
{
	add(p, &(struct rio_seen){ .kind = (enum rio_seen_kind)is->role,
				   .is_here = true,
				   .platform = is->platform,
				   .now = is->now,
				   .done = { is->requests, is->refused, is->failed, is->read_bytes,
					     is->written_bytes },
				   .name = name_of(o, is->platform) });
	if (is->role == RIO_IOUNIT)
		add_devices(p, &o->units[is->place - 1]);
}

static bool is_here(const struct rio_owner *o, const struct rio_owner_known *k)
{
	for (uint32_t n = rio_owner_next(o, 0); n != UINT32_MAX; n = rio_owner_next(o, n + 1)) {
		struct rio_owner_peer is;

		rio_owner_query(o, n, &is);
		if (is.role == k->role && platform_is_same(is.platform, k->platform))
			return true;
	}
	return false;
}

static void add_all(const struct rio_owner *o, struct page *p)
{
	struct rio_seen self = { .kind = RIO_SEEN_OWNER,
				 .is_here = true,
				 .platform = o->config.self,
				 .moved = o->moved };
	struct rio_owner_peer is;
	uint32_t n;

	for (n = rio_owner_next(o, 0); n != UINT32_MAX; n = rio_owner_next(o, n + 1)) {
		rio_owner_query(o, n, &is);
		if (is.role == RIO_REQUESTER)
			self.now += is.now;
	}
	add(p, &self);
	for (n = rio_owner_next(o, 0); n != UINT32_MAX; n = rio_owner_next(o, n + 1)) {
		rio_owner_query(o, n, &is);
		add_peer(o, p, &is);
	}
	for (uint32_t i = 0; i < o->config.known_count; i++) {
		const struct rio_owner_known *k = &o->config.known[i];

		if (!is_here(o, k))
			add(p, &(struct rio_seen){ .kind = (enum rio_seen_kind)k->role,
						   .platform = k->platform,
						   .name = k->name });
	}
}

void owner_inquire_act(struct rio_owner *o, struct rio_owner_act *act)
{
	struct owner_requester *q = CONTAINER_OF(list_pop(&o->inquiries), struct owner_requester,
						 inquiry_link);
	struct page p = { .first = q->inquiry_first, .w = wr_of(o->entries, REPORT_BYTES_MAX) };
	struct rio_msg m = { .type = RIO_STATUS,
			     .id = q->inquiry_id,
			     .status = { .reason = q->inquiry_reason } };

	if (q->inquiry_reason == WEFT_OK) {
		add_all(o, &p);
		m.type = RIO_REPORT;
		m.report = (struct rio_report){ p.total,
						p.count,
						{ o->entries, (size_t)(p.w.at - o->entries) } };
	}
	owner_say(o, &q->peer, &m, act);
}
