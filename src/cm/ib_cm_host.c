/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers by their address: which of them have shown that they receive what is sent there, how many
 * of their requests are half open, and what may be said to one that has shown nothing yet.
 *
 * A REQ proves nothing: its source address is whatever its sender wrote there. A message with our
 * communication id does, as 24 bits of it are random and were sent only to that address. The CA
 * GUID of such a peer is kept: a later REQ from the address with that GUID is the peer's own, since
 * others off the path know only the address. Every other REQ is an unproven peer's.
 */
#include <string.h>

#include "base/check.h"
#include "base/least.h"
#include "cm/ib_cm_inside.h"

/* If room is short, an unproven peer is displaced once it has not answered for this time. */
static const uint64_t unproven_ns = 250 * 1000 * 1000;

/* Messages to unproven peers beyond one for each message of theirs; refilled by one each second. */
enum { RESEND_BUDGET_MAX = 8 };
static const uint64_t resend_each_ns = 1000 * 1000 * 1000;

/* The number of unanswered messages for which an unproven peer gets credit. */
enum { CREDIT_MAX = 16 };

static bool is_host(const struct host *h, bool is_ipv6, const uint8_t *address)
{
	return h->is_ipv6 == is_ipv6 && memcmp(h->address, address, is_ipv6 ? 16 : 4) == 0;
}

static uint32_t *host_link(struct ib_cm *cm, bool is_ipv6, const struct inet_end *peer)
{
	uint32_t *link = &cm->host_heads[hash_peer(cm, is_ipv6, peer, 0) & cm->mask];

	while (*link && !is_host(&cm->hosts[*link - 1], is_ipv6, peer->address))
		link = &cm->hosts[*link - 1].next;
	return link;
}

struct host *host_find(struct ib_cm *cm, bool is_ipv6, const struct inet_end *peer)
{
	uint32_t slot = *host_link(cm, is_ipv6, peer);

	return slot ? &cm->hosts[slot - 1] : NULL;
}

/* There are as many as cm_ids, so one is free. */
uint32_t host_get(struct ib_cm *cm, bool is_ipv6, const struct inet_end *peer)
{
	uint32_t *link = host_link(cm, is_ipv6, peer), slot = *link;
	struct host *h;

	if (slot == 0) {
		slot = cm->host_free ? cm->host_free : ++cm->hosts_used;
		CHECK(slot <= cm->config.cm_ids_max);
		h = &cm->hosts[slot - 1];
		if (cm->host_free)
			cm->host_free = h->next;
		*h = (struct host){ .is_ipv6 = is_ipv6 };
		memcpy(h->address, peer->address, is_ipv6 ? 16 : 4);
		*link = slot;
	}
	cm->hosts[slot - 1].uses++;
	return slot;
}

void host_put(struct ib_cm *cm, const struct cm_id *c)
{
	uint32_t *link = host_link(cm, c->ip.is_ipv6, &c->ip.to);
	struct host *h = &cm->hosts[c->host - 1];

	CHECK(*link == c->host);
	if (--h->uses > 0)
		return;
	*link = h->next;
	h->next = cm->host_free;
	cm->host_free = c->host;
}

static struct host *host_of(const struct ib_cm *cm, const struct cm_id *c)
{
	return &cm->hosts[c->host - 1];
}

/* ---- Proof ---------------------------------------------------------------------------------- */

bool host_is_proved(const struct host *h, uint64_t guid)
{
	for (uint32_t i = 0; h && i < HOST_GUIDS; i++) {
		if (h->is_proved[i] && h->guids[i] == guid)
			return true;
	}
	return false;
}

void cm_id_prove(struct ib_cm *cm, struct cm_id *c)
{
	struct host *h = host_of(cm, c);

	if (!host_is_proved(h, c->peer_guid)) {
		h->is_proved[h->guid_next] = true;
		h->guids[h->guid_next] = c->peer_guid;
		h->guid_next = (h->guid_next + 1) % HOST_GUIDS;
	}
	if (!c->is_unproven)
		return;
	cm_id_count_half_open(cm, c, -1);
	c->is_unproven = false;
	cm_id_count_half_open(cm, c, 1);
}

/* ---- Half open ------------------------------------------------------------------------------ */

/* By 1 or -1, if it is half open. */
void cm_id_count_half_open(struct ib_cm *cm, struct cm_id *c, int by)
{
	struct host *h = host_of(cm, c);

	if (!cm_id_is_half_open(c))
		return;
	cm->counts.half_open += (uint32_t)by;
	*(c->is_unproven ? &h->unproven : &h->known) += (uint32_t)by;
	if (!c->is_unproven)
		return;
	if (by > 0)
		list_add_tail(&cm->unproven, &c->aged);
	else
		list_remove(&c->aged);
}

/*
 * Returns the oldest unproven peer of the address that has the most of them. A peer younger than
 * unproven_ns is displaced only for a known peer, which unproven peers must not keep out.
 */
static struct cm_id *unproven_oldest(const struct ib_cm *cm, uint64_t now_ns, bool is_any_age)
{
	struct cm_id *found = NULL;

	/* Bound: half_open_max. They are in the order in which they came. */
	for (const struct list *at = cm->unproven.next; at != &cm->unproven; at = at->next) {
		struct cm_id *c = CONTAINER_OF(at, struct cm_id, aged);

		if (!is_any_age && now_ns - c->began_ns < unproven_ns)
			break;
		if (!found || host_of(cm, c)->unproven > host_of(cm, found)->unproven)
			found = c;
	}
	return found;
}

/*
 * Sends nothing: all messages of the peer were answered. If the peer is genuine and sends its next
 * message, it gets a REJ (timeout).
 */
static void unproven_end(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c)
{
	static const struct ib_cm_reject timeout = { .code = IBCM_REJECT_TIMEOUT };

	cm->counts.displaced++;
	if (c->is_sidr) {
		c->reason = WEFT_R_CM_CROWD;
		cm_id_tell(cm, c, IB_CM_FAILED);
		if (!c->is_known)
			cm_id_forget(cm, c);
		cm_id_release(cm, c);
		return;
	}
	cm_id_keep_reject(cm, c, &timeout);
	cm_id_hush(c);
	cm_id_end(cm, now_ns, c, WEFT_R_CM_CROWD);
}

enum weft_reason half_open_room(struct ib_cm *cm, uint64_t now_ns, const struct ibcm_ip *back,
				bool is_unproven)
{
	const struct host *h = host_find(cm, back->is_ipv6, &back->to);
	uint32_t left = cm->config.half_open_max - cm->counts.half_open;
	uint32_t own = !h ? 0 : is_unproven ? h->unproven : h->known;
	bool is_crowded = own / IB_CM_CROWD >= left;
	struct cm_id *oldest;

	if (left > 0 && !is_crowded)
		return WEFT_OK;
	oldest = unproven_oldest(cm, now_ns, !is_unproven);
	if (!oldest || (is_unproven && host_of(cm, oldest)->unproven < own))
		return left > 0 ? WEFT_R_CM_CROWD : WEFT_R_LIMIT;
	unproven_end(cm, now_ns, oldest);
	return WEFT_OK;
}

/* ---- What may be said ----------------------------------------------------------------------- */

void resend_budget_refill(struct ib_cm *cm, uint64_t now_ns)
{
	uint64_t more = (now_ns - cm->resend_budget_ns) / resend_each_ns;

	if (cm->resend_budget_ns == 0 || more >= RESEND_BUDGET_MAX) {
		cm->resend_budget = RESEND_BUDGET_MAX;
		cm->resend_budget_ns = now_ns;
		return;
	}
	cm->resend_budget = (uint32_t)least(cm->resend_budget + more, RESEND_BUDGET_MAX);
	cm->resend_budget_ns += more * resend_each_ns;
}

void cm_id_credit(struct cm_id *c)
{
	c->credit += c->credit < CREDIT_MAX;
}

/*
 * A forged source address must not attract more messages than were sent in its name.
 * Retransmissions come from the resend budget, which is small.
 */
bool cm_id_may_say(struct ib_cm *cm, struct cm_id *c, uint32_t least_credit)
{
	if (!c->is_unproven)
		return true;
	if (c->credit >= least_credit) {
		c->credit--;
		return true;
	}
	if (cm->resend_budget == 0)
		return false;
	cm->resend_budget--;
	return true;
}
