/* SPDX-License-Identifier: BSD-2-Clause */
/* Discovery: SendTargets (RFC 7143 section 4.3, appendix C) to a portal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/sys/clock.h"
#include "roles/iscsi_session_inside.h"

enum { TEXT_BYTES = 1 << 20 };

/* What the discovery session was told, or where it is connected to. */
static enum weft_reason take_portal(const struct weft_iscsi_session *s,
				    const struct iscsi_portal *p, struct weft_iscsi_target *t)
{
	char at[WEFT_ADDRESS_TEXT];
	struct iscsi_address a;
	bool is_ipv6;

	*t = (struct weft_iscsi_target){ 0 };
	if (p->target.length > WEFT_ISCSI_NAME_MAX)
		return WEFT_R_ISCSI_NAME;
	memcpy(t->name, p->target.at, p->target.length);
	if (p->address.length == 0) {
		weft_address_text(&s->portal, at);
		snprintf(t->portal, sizeof(t->portal), "%s", at);
		return WEFT_OK;
	}
	if (iscsi_address_parse(p->address, &a) != WEFT_OK)
		return WEFT_R_ISCSI_VALUE;
	is_ipv6 = memchr(a.host.at, ':', a.host.length) != NULL;
	snprintf(t->portal, sizeof(t->portal), "%s%.*s%s:%u", is_ipv6 ? "[" : "",
		 (int)a.host.length, a.host.at, is_ipv6 ? "]" : "", a.port);
	t->portal_group = a.portal_group_tag > 0 ? (uint32_t)a.portal_group_tag : 0;
	return WEFT_OK;
}

static enum weft_reason take_portals(const struct weft_iscsi_session *s,
				     const struct iscsi_request *text,
				     struct weft_iscsi_target *targets, uint32_t max,
				     uint32_t *count)
{
	struct weft_iscsi_target target;
	struct iscsi_portals portals;
	struct iscsi_portal portal;

	*count = 0;
	iscsi_portals_init(&portals, text);
	while (iscsi_portals_next(&portals, &portal)) {
		enum weft_reason r = take_portal(s, &portal, &target);

		if (r != WEFT_OK)
			return r;
		if (*count < max)
			targets[*count] = target;
		++*count;
	}
	return portals.reason;
}

/* The discovery session has no other request than this. */
static enum weft_reason ask(struct weft_iscsi_session *s, struct iscsi_request *text)
{
	enum weft_reason r;

	s->found = NULL;
	s->now_ns = clock_ns();
	r = iscsi_initiator_submit(s->core, text, s->now_ns);
	while (r == WEFT_OK && !s->found) {
		session_turn(s);
		if (!s->found)
			session_sleep(s, UINT64_MAX);
	}
	return r == WEFT_OK ? text->reason : r;
}

enum weft_reason weft_iscsi_target_find(const char *url, const struct weft_iscsi_options *options,
					struct weft_iscsi_target *targets, uint32_t max,
					uint32_t *count)
{
	struct weft_iscsi_options once = options ? *options : (struct weft_iscsi_options){ 0 };
	struct iscsi_request text = { .kind = ISCSI_REQUEST_TEXT,
				      .send_targets = iscsi_word("All") };
	struct weft_iscsi_session *s;
	enum weft_reason r;

	if (!url || !count || (!targets && max > 0))
		return WEFT_R_NULL_ARGUMENT;
	once.retry_ns = WEFT_ISCSI_NO_RETRY;
	text.text = (struct span){ malloc(TEXT_BYTES), TEXT_BYTES };
	if (!text.text.bytes)
		return WEFT_R_NO_MEMORY;
	r = session_open(url, &once, true, &s);
	if (r == WEFT_OK) {
		pthread_mutex_lock(&s->lock);
		text.timeout_ns = s->config.limits.login_ns;
		r = ask(s, &text);
		if (r == WEFT_OK)
			r = take_portals(s, &text, targets, max, count);
		pthread_mutex_unlock(&s->lock);
		session_discard(s);
	}
	free(text.text.bytes);
	return r;
}
