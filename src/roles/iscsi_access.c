/* SPDX-License-Identifier: BSD-2-Clause */
/* Who may log in to the iSCSI target, and what people are told of it. */
#include <stdio.h>
#include <string.h>

#include "driver/sys/address.h"
#include "roles/iscsi_server_inside.h"

/* The core has copied addresses that were written by weft_address_text(). */
static struct weft_address address_of(const char *text)
{
	struct weft_address a = { 0 };

	(void)weft_address_parse(text, &a);
	return a;
}

static void admit(void *owner, const struct iscsi_peer *peer, uint16_t target,
		  struct iscsi_admission *answer)
{
	struct iscsi_server *s = owner;
	const struct weft_address from = address_of(peer->peer);
	const struct chap_config *chap = target == ISCSI_TARGET_NONE ? &s->discovery_chap
								     : &s->chap[target];
	bool is_allowed = target == ISCSI_TARGET_NONE
				  ? iscsi_host_allows_discovery(s->host, peer->initiator, &from)
				  : iscsi_host_allows(s->host, target, peer->initiator, &from);

	*answer = (struct iscsi_admission){ .status = is_allowed ? ISCSI_STATUS_SUCCESS
								 : ISCSI_STATUS_AUTHORIZATION };
	if (is_allowed && chap->is_target)
		answer->chap = chap;
}

static void put_address(struct wr *w, const struct weft_address *at)
{
	char text[WEFT_ADDRESS_TEXT + 8], address[WEFT_ADDRESS_TEXT];

	weft_address_text(at, address);
	snprintf(text, sizeof(text), "%s,%u", address, (unsigned int)ISCSI_SERVER_PORTAL_GROUP);
	iscsi_text_put(w, "TargetAddress", iscsi_word(text));
}

static bool is_any_address(const struct weft_address *a)
{
	static const uint8_t none[16];

	return memcmp(a->ip, none, sizeof(none)) == 0;
}

/* The address that the initiator asked, and others that it may be able to reach. */
static bool tell(void *owner, const struct iscsi_peer *peer, uint16_t target, struct wr *w)
{
	struct iscsi_server *s = owner;
	const struct weft_address from = address_of(peer->peer), local = address_of(peer->local);

	if (!iscsi_host_allows(s->host, target, peer->initiator, &from))
		return false;
	put_address(w, &local);
	for (uint32_t i = 0; i < s->host->config->portal_count && !peer->is_rdma; i++) {
		const struct weft_address *at = &s->portals[i].at;

		if (s->host->config->wires[i] != ISCSI_CONFIG_TCP || is_any_address(at) ||
		    address_is_same_end(at, &local) ||
		    iscsi_address_is_loopback(at) != iscsi_address_is_loopback(&local))
			continue;
		put_address(w, at);
	}
	return true;
}

static void tell_refusal(struct iscsi_server *s, const struct iscsi_note *n, const char *to)
{
	if (!line_limit_may(&s->refusals, s->now_ns))
		return;
	iscsi_server_tell(s, "refused %.*s at %s, which asked for %s: %s (login status %04x)",
			  n->peer.initiator.length ? (int)n->peer.initiator.length : 12,
			  n->peer.initiator.length ? n->peer.initiator.at : "an initiator",
			  n->peer.peer, to, weft_reason_text(n->reason), n->status);
}

/* What the initiator asked for, as far as it came to that. */
static const char *name_of(const struct iscsi_server *s, const struct iscsi_note *n)
{
	if (n->target != ISCSI_TARGET_NONE)
		return s->host->config->targets[n->target].name.text;
	if (n->is_discovery)
		return "discovery";
	return n->peer.initiator.length > 0 ? "a target that is not here" : "nothing yet";
}

static void note(void *owner, const struct iscsi_note *n)
{
	struct iscsi_server *s = owner;
	const char *to = name_of(s, n);
	int length = (int)n->peer.initiator.length;

	switch (n->kind) {
	case ISCSI_NOTE_LOGIN:
		iscsi_server_tell(s, "session of %.*s at %s with %s%s%.*s", length,
				  n->peer.initiator.at, n->peer.peer, to,
				  n->peer.account.length > 0 ? ", authenticated as " : "",
				  (int)n->peer.account.length, n->peer.account.at);
		break;
	case ISCSI_NOTE_END:
		iscsi_server_tell(s, "end of the session of %.*s at %s with %s: %s", length,
				  n->peer.initiator.at, n->peer.peer, to,
				  n->reason == WEFT_OK ? "logged out"
						       : weft_reason_text(n->reason));
		break;
	default:
		tell_refusal(s, n, to);
	}
}

void iscsi_access_expire(struct iscsi_server *s)
{
	uint32_t untold = line_limit_expire(&s->refusals, s->now_ns);

	if (untold > 0)
		iscsi_server_tell(s, "refused %u more in that second", untold);
}

const struct iscsi_node_calls iscsi_access_calls = { .admit = admit, .tell = tell, .note = note };
