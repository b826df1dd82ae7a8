/* SPDX-License-Identifier: BSD-2-Clause */
/* The initiator's end of a login. */
#include <string.h>

#include "base/deadline.h"
#include "iscsi/login/login_inside.h"

/* ---- Beginning ------------------------------------------------------------------------------ */

static bool names_are_sound(const struct iscsi_login_request *r)
{
	struct iscsi_name name;

	return iscsi_name_normalise(r->initiator_name, &name) == WEFT_OK &&
	       (r->keys.is_discovery || iscsi_name_normalise(r->target_name, &name) == WEFT_OK);
}

/* What every first request has (RFC 7143 section 6.3). */
static void say_first(struct iscsi_login *l, struct wr *w)
{
	const struct iscsi_login_request *r = &l->request;

	iscsi_text_put(w, "InitiatorName", r->initiator_name);
	if (r->initiator_alias.length > 0)
		iscsi_text_put(w, "InitiatorAlias", r->initiator_alias);
	if (!r->keys.is_discovery)
		iscsi_text_put(w, "TargetName", r->target_name);
	iscsi_text_put(w, "SessionType", iscsi_word(r->keys.is_discovery ? "Discovery" : "Normal"));
}

enum weft_reason iscsi_login_init_initiator(struct iscsi_login *l,
					    const struct iscsi_login_limits *limits,
					    const struct iscsi_login_request *request,
					    uint64_t now_ns)
{
	enum weft_reason reason = WEFT_OK;
	struct wr w;

	*l = (struct iscsi_login){
		.limits = *limits,
		.request = *request,
		.state = ISCSI_LOGIN_STATE_SENDING,
		.deadline_ns = deadline_after(now_ns, limits->timeout_ns),
		.in = { .room = limits->in },
		.stage = request->chap ? ISCSI_STAGE_SECURITY : ISCSI_STAGE_OPERATIONAL,
		.next_stage = request->chap ? ISCSI_STAGE_OPERATIONAL : ISCSI_STAGE_FULL_FEATURE,
		.itt = request->itt,
		.cmd_sn = request->cmd_sn,
		.tsih = request->tsih,
		.chap = { .state = CHAP_STATE_FAILED },
	};
	l->request.keys.is_target = false;
	l->request.keys.is_leading = request->tsih == 0;
	if (!names_are_sound(request))
		return WEFT_R_ISCSI_NAME;
	if (request->chap)
		reason = chap_init(&l->chap, request->chap, limits->random);
	if (reason != WEFT_OK)
		return reason;
	iscsi_negotiation_init(&l->keys, &l->request.keys);
	iscsi_negotiation_begin(&l->keys, (enum iscsi_stage)l->stage);
	w = login_text_begin(l);
	say_first(l, &w);
	if (request->chap)
		iscsi_text_put(&w, "AuthMethod",
			       iscsi_word(request->allows_none ? "CHAP,None" : "CHAP"));
	iscsi_negotiation_offer(&l->keys, &w);
	login_text_end(l, &w, !request->chap);
	return l->reason;
}

/* ---- Fields --------------------------------------------------------------------------------- */

/* RFC 7143 section 11.13.5: the target ends the login, or redirects it. */
static void take_status(struct iscsi_login *l, const struct iscsi_login_pdu *pdu)
{
	struct word address;

	l->status = pdu->status;
	if (pdu->status >> 8 == 1 &&
	    iscsi_text_find(pdu->text, pdu->length, "TargetAddress", &address) &&
	    address.length > 0 && address.length <= ISCSI_ADDRESS_MAX) {
		memcpy(l->address, address.at, address.length);
		l->address_bytes = (uint8_t)address.length;
		l->reason = WEFT_R_ISCSI_MOVED;
		login_move(l, ISCSI_LOGIN_STATE_MOVED);
		return;
	}
	login_fail(l, WEFT_R_ISCSI_REFUSED);
}

enum weft_reason login_initiator_check(struct iscsi_login *l, const struct iscsi_login_pdu *pdu)
{
	bool is_end = pdu->is_transit && pdu->next_stage == ISCSI_STAGE_FULL_FEATURE;

	if (pdu->status != ISCSI_STATUS_SUCCESS) {
		take_status(l, pdu);
		return WEFT_OK;
	}
	if (pdu->version > 0)
		return WEFT_R_ISCSI_LOGIN_VERSION;
	if (pdu->itt != l->itt || memcmp(pdu->isid, l->request.isid, ISCSI_ISID_BYTES) != 0)
		return WEFT_R_ISCSI_LOGIN_FIELD;
	if (pdu->stage != l->stage ||
	    (pdu->is_transit && (!l->asks_transit || pdu->next_stage != l->next_stage)))
		return WEFT_R_ISCSI_LOGIN_STAGE;
	/* A new session has its number from the last response; another keeps it. */
	if (is_end && (pdu->tsih == 0 || (l->request.tsih != 0 && pdu->tsih != l->request.tsih)))
		return WEFT_R_ISCSI_SESSION;
	if (is_end)
		l->tsih = pdu->tsih;
	l->stat_sn = pdu->stat_sn + 1;
	l->exp_cmd_sn = pdu->exp_cmd_sn;
	l->max_cmd_sn = pdu->max_cmd_sn;
	return WEFT_OK;
}

/* ---- Text ----------------------------------------------------------------------------------- */

static enum weft_reason check_portal_group(const struct iscsi_login *l)
{
	uint64_t tag = UINT64_MAX;
	struct word value;

	if (l->has_begun || l->request.keys.is_discovery || l->request.portal_group_tag < 0)
		return WEFT_OK;
	if (!login_text_has(l, "TargetPortalGroupTag", &value) || !iscsi_number(value, &tag) ||
	    tag != (uint64_t)l->request.portal_group_tag)
		return WEFT_R_ISCSI_PORTAL_GROUP;
	return WEFT_OK;
}

static enum weft_reason authenticate(struct iscsi_login *l, struct wr *w)
{
	struct word method;
	enum weft_reason reason;

	if (l->auth == ISCSI_AUTH_OPEN) {
		if (!login_text_has(l, "AuthMethod", &method))
			return WEFT_R_ISCSI_AUTH_METHOD;
		if (word_is(method, "None") && l->request.allows_none) {
			l->auth = ISCSI_AUTH_DONE;
			return WEFT_OK;
		}
		if (!word_is(method, "CHAP"))
			return WEFT_R_ISCSI_AUTH_METHOD;
		l->auth = ISCSI_AUTH_CHAP;
		chap_say(&l->chap, w);
		return WEFT_OK;
	}
	if (l->auth == ISCSI_AUTH_DONE)
		return WEFT_OK;
	reason = chap_take(&l->chap, l->in.room.bytes, l->in.length);
	if (reason == WEFT_OK && chap_has_words(&l->chap))
		chap_say(&l->chap, w);
	if (reason == WEFT_OK && chap_is_done(&l->chap))
		l->auth = ISCSI_AUTH_DONE;
	return reason;
}

/* Whether this request asks to leave the stage: all that this end needs in it is said. */
static bool wants_transit(const struct iscsi_login *l)
{
	return l->stage == ISCSI_STAGE_OPERATIONAL || l->auth == ISCSI_AUTH_DONE ||
	       l->chap.state == CHAP_STATE_AWAITING_PROOF;
}

/* The target consented to leave the stage. True: the login goes on in the next. */
static bool enter_next(struct iscsi_login *l)
{
	enum weft_reason reason = WEFT_OK;

	if (l->stage == ISCSI_STAGE_SECURITY && l->auth != ISCSI_AUTH_DONE) {
		login_fail(l, WEFT_R_ISCSI_AUTH_METHOD);
		return false;
	}
	l->stage = l->next_stage;
	if (l->stage == ISCSI_STAGE_FULL_FEATURE)
		reason = iscsi_negotiation_finish(&l->keys);
	if (reason != WEFT_OK) {
		login_fail(l, reason);
		return false;
	}
	iscsi_negotiation_begin(&l->keys, (enum iscsi_stage)l->stage);
	if (l->stage == ISCSI_STAGE_FULL_FEATURE) {
		login_move(l, ISCSI_LOGIN_STATE_ESTABLISHED);
		return false;
	}
	l->next_stage = ISCSI_STAGE_FULL_FEATURE;
	return true;
}

void login_initiator_read(struct iscsi_login *l, const struct iscsi_login_pdu *pdu)
{
	struct wr w = login_text_begin(l);
	enum weft_reason reason = iscsi_negotiation_take(&l->keys, l->in.room.bytes, l->in.length,
							 &w);

	if (reason == WEFT_OK)
		reason = check_portal_group(l);
	if (reason == WEFT_OK && l->stage == ISCSI_STAGE_SECURITY)
		reason = authenticate(l, &w);
	l->has_begun = true;
	if (reason != WEFT_OK) {
		login_fail(l, reason);
		return;
	}
	if (pdu->is_transit && !enter_next(l))
		return;
	iscsi_negotiation_offer(&l->keys, &w);
	login_text_end(l, &w, wants_transit(l));
}
