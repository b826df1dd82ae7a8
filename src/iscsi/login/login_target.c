/* SPDX-License-Identifier: BSD-2-Clause */
/* The target's end of a login. */
#include <string.h>

#include "base/check.h"
#include "base/deadline.h"
#include "iscsi/login/login_inside.h"

void iscsi_login_init_target(struct iscsi_login *l, const struct iscsi_login_limits *limits,
			     uint64_t now_ns)
{
	*l = (struct iscsi_login){
		.limits = *limits,
		.is_target = true,
		.state = ISCSI_LOGIN_STATE_WAITING,
		.deadline_ns = deadline_after(now_ns, limits->timeout_ns),
		.in = { .room = limits->in },
		.chap = { .state = CHAP_STATE_FAILED },
	};
}

/* ---- Fields --------------------------------------------------------------------------------- */

/* RFC 7143 section 11.12.3: from security to either other stage, and from there only on. */
static bool can_transit(uint8_t stage, uint8_t next)
{
	return (stage == ISCSI_STAGE_SECURITY && next == ISCSI_STAGE_OPERATIONAL) ||
	       (stage != ISCSI_STAGE_FULL_FEATURE && next == ISCSI_STAGE_FULL_FEATURE);
}

static enum weft_reason check_first(struct iscsi_login *l, const struct iscsi_login_pdu *pdu)
{
	/* Even a refusal has the initiator's ids and stage in it. */
	l->stage = pdu->stage;
	l->cmd_sn = pdu->cmd_sn;
	l->exp_cmd_sn = l->max_cmd_sn = pdu->cmd_sn;
	l->stat_sn = pdu->exp_stat_sn;
	l->peer.tsih = l->tsih = pdu->tsih;
	l->peer.cid = pdu->cid;
	memcpy(l->peer.isid, pdu->isid, ISCSI_ISID_BYTES);
	if (pdu->version > 0)
		return WEFT_R_ISCSI_LOGIN_VERSION;
	if (pdu->stage != ISCSI_STAGE_SECURITY && pdu->stage != ISCSI_STAGE_OPERATIONAL)
		return WEFT_R_ISCSI_LOGIN_STAGE;
	return WEFT_OK;
}

enum weft_reason login_target_check(struct iscsi_login *l, const struct iscsi_login_pdu *pdu)
{
	enum weft_reason reason = WEFT_OK;

	l->itt = pdu->itt;
	if (l->exchanges == 1)
		reason = check_first(l, pdu);
	else if (pdu->tsih != l->peer.tsih || pdu->cid != l->peer.cid || pdu->version > 0 ||
		 memcmp(pdu->isid, l->peer.isid, ISCSI_ISID_BYTES) != 0)
		return WEFT_R_ISCSI_LOGIN_FIELD;
	if (reason != WEFT_OK)
		return reason;
	if (pdu->stage != l->stage || (pdu->is_transit && !can_transit(l->stage, pdu->next_stage)))
		return WEFT_R_ISCSI_LOGIN_STAGE;
	return WEFT_OK;
}

/* ---- Authentication ------------------------------------------------------------------------- */

/* The first method of the list that is allowed. */
static enum weft_reason choose_method(struct iscsi_login *l, struct word list, struct wr *w)
{
	const struct iscsi_login_decision *d = &l->decision;
	struct word item;

	while (iscsi_list_next(&list, &item)) {
		if (word_is(item, "CHAP") && d->chap) {
			l->auth = ISCSI_AUTH_CHAP;
			iscsi_text_put(w, "AuthMethod", item);
			return WEFT_OK;
		}
		if (word_is(item, "None") && (!d->chap || d->allows_none)) {
			l->auth = ISCSI_AUTH_DONE;
			iscsi_text_put(w, "AuthMethod", item);
			return WEFT_OK;
		}
	}
	return WEFT_R_ISCSI_AUTH_METHOD;
}

static enum weft_reason authenticate(struct iscsi_login *l, struct wr *w)
{
	bool is_needed = l->decision.chap && !l->decision.allows_none;
	enum weft_reason reason = WEFT_OK;
	struct word list, any;

	if (l->auth == ISCSI_AUTH_OPEN && login_text_has(l, "AuthMethod", &list)) {
		reason = choose_method(l, list, w);
		/* Most initiators go on with CHAP in their next request. */
		if (reason != WEFT_OK || !login_text_has(l, "CHAP_A", &any))
			return reason;
	} else if (l->auth == ISCSI_AUTH_OPEN && l->asks_transit) {
		l->auth = ISCSI_AUTH_DONE;
		return is_needed ? WEFT_R_ISCSI_AUTH_METHOD : WEFT_OK;
	}
	if (l->auth != ISCSI_AUTH_CHAP)
		return WEFT_OK;
	reason = chap_take(&l->chap, l->in.room.bytes, l->in.length);
	if (reason == WEFT_OK && chap_has_words(&l->chap))
		chap_say(&l->chap, w);
	if (reason == WEFT_OK && chap_is_done(&l->chap))
		l->auth = ISCSI_AUTH_DONE;
	return reason;
}

/* ---- Text ----------------------------------------------------------------------------------- */

static void say_first(struct iscsi_login *l, struct wr *w)
{
	/* RFC 7143 section 13.9: in the first response of a normal session. */
	if (!l->peer.is_discovery)
		iscsi_text_put_number(w, "TargetPortalGroupTag", l->decision.portal_group_tag);
	if (l->decision.target_alias.length > 0)
		iscsi_text_put(w, "TargetAlias", l->decision.target_alias);
}

/* Answers the text, and consents to leave the stage if nothing is left to do in it. */
static void answer(struct iscsi_login *l)
{
	struct wr w = login_text_begin(l);
	bool is_first = !l->has_begun, is_ready;
	enum weft_reason reason;

	l->has_begun = true;
	if (is_first)
		say_first(l, &w);
	reason = iscsi_negotiation_take(&l->keys, l->in.room.bytes, l->in.length, &w);
	/* An offer of an earlier response is answered now, or never. */
	if (reason == WEFT_OK && l->asks_transit && !iscsi_negotiation_is_settled(&l->keys))
		reason = WEFT_R_ISCSI_NO_ANSWER;
	if (reason == WEFT_OK && l->stage == ISCSI_STAGE_SECURITY)
		reason = authenticate(l, &w);
	if (reason != WEFT_OK) {
		login_fail(l, reason);
		return;
	}
	iscsi_negotiation_offer(&l->keys, &w);
	is_ready = l->stage == ISCSI_STAGE_SECURITY ? l->auth == ISCSI_AUTH_DONE
						    : iscsi_negotiation_is_settled(&l->keys);
	if (l->asks_transit && is_ready && l->next_stage == ISCSI_STAGE_FULL_FEATURE) {
		reason = iscsi_negotiation_finish(&l->keys);
		l->tsih = l->decision.tsih;
	}
	if (reason != WEFT_OK)
		login_fail(l, reason);
	else
		login_text_end(l, &w, l->asks_transit && is_ready);
}

/* The names of the first request. */
static enum weft_reason read_names(struct iscsi_login *l)
{
	struct word initiator, target, type = iscsi_word("Normal");
	enum weft_reason reason;

	if (!login_text_has(l, "InitiatorName", &initiator))
		return WEFT_R_ISCSI_LOGIN_MISSING;
	reason = iscsi_name_normalise(initiator, &l->peer.initiator_name);
	if (reason != WEFT_OK)
		return reason;
	(void)login_text_has(l, "SessionType", &type);
	l->peer.is_discovery = word_is(type, "Discovery");
	if (!l->peer.is_discovery && !word_is(type, "Normal"))
		return WEFT_R_ISCSI_VALUE;
	if (l->peer.is_discovery)
		return WEFT_OK;
	if (!login_text_has(l, "TargetName", &target))
		return WEFT_R_ISCSI_LOGIN_MISSING;
	return iscsi_name_normalise(target, &l->peer.target_name);
}

/* Whether the text is one at all: else a missing key is not missing. */
static enum weft_reason read_pairs(const struct iscsi_login *l)
{
	struct rd r = rd_of(l->in.room.bytes, l->in.length);
	enum weft_reason reason = WEFT_OK;
	struct iscsi_pair pair;

	while (r.at < r.end && reason == WEFT_OK)
		reason = iscsi_text_next(&r, &pair);
	return reason;
}

void login_target_read(struct iscsi_login *l)
{
	enum weft_reason reason;

	if (l->has_begun) {
		answer(l);
		return;
	}
	reason = read_pairs(l);
	if (reason == WEFT_OK)
		reason = read_names(l);
	if (reason == WEFT_R_ISCSI_VALUE)
		login_fail_status(l, reason, ISCSI_STATUS_SESSION_TYPE);
	else if (reason != WEFT_OK)
		login_fail(l, reason);
	else
		login_move(l, ISCSI_LOGIN_STATE_DECIDING);
}

/* ---- Decisions ------------------------------------------------------------------------------ */

const struct iscsi_login_query *iscsi_login_query(const struct iscsi_login *l)
{
	return &l->peer;
}

static void refuse(struct iscsi_login *l, const struct iscsi_login_decision *d)
{
	bool is_moved = d->status >> 8 == 1;

	if (is_moved) {
		CHECK(d->address.length > 0 && d->address.length <= ISCSI_ADDRESS_MAX);
		memcpy(l->address, d->address.at, d->address.length);
		l->address_bytes = (uint8_t)d->address.length;
	}
	login_fail_status(l, is_moved ? WEFT_R_ISCSI_MOVED : WEFT_R_ISCSI_DENIED, d->status);
}

void iscsi_login_decide(struct iscsi_login *l, const struct iscsi_login_decision *decision)
{
	enum weft_reason reason = WEFT_OK;

	/* It may have ended meanwhile. */
	if (l->state != ISCSI_LOGIN_STATE_DECIDING)
		return;
	l->decision = *decision;
	l->decision.keys.is_target = true;
	l->decision.keys.is_leading = l->peer.tsih == 0;
	if (decision->status != ISCSI_STATUS_SUCCESS) {
		refuse(l, decision);
		return;
	}
	CHECK(decision->tsih != 0);
	if (l->peer.tsih != 0) {
		l->exp_cmd_sn = decision->exp_cmd_sn;
		l->max_cmd_sn = decision->max_cmd_sn;
	}
	if (decision->chap)
		reason = chap_init(&l->chap, decision->chap, l->limits.random);
	/* An initiator that passes over the security stage proves nothing. */
	if (reason == WEFT_OK && decision->chap && !decision->allows_none &&
	    l->stage != ISCSI_STAGE_SECURITY)
		reason = WEFT_R_ISCSI_AUTH_METHOD;
	if (reason != WEFT_OK) {
		login_fail(l, reason);
		return;
	}
	iscsi_negotiation_init(&l->keys, &l->decision.keys);
	iscsi_negotiation_begin(&l->keys, (enum iscsi_stage)l->stage);
	answer(l);
	l->in.length = 0;
}

enum iscsi_login_join iscsi_login_join(const struct iscsi_login_query *q,
				       const struct iscsi_login_known *known, uint16_t *status)
{
	if (q->tsih == 0)
		return known->has_session ? ISCSI_JOIN_REINSTATED_SESSION : ISCSI_JOIN_NEW_SESSION;
	/* RFC 7143 section 4.3: a discovery session has one connection. */
	*status = ISCSI_STATUS_CANNOT_INCLUDE;
	if (q->is_discovery)
		return ISCSI_JOIN_REFUSED;
	*status = ISCSI_STATUS_NO_SESSION;
	if (!known->has_session || known->tsih != q->tsih)
		return ISCSI_JOIN_REFUSED;
	if (known->has_cid)
		return ISCSI_JOIN_REINSTATED_CONNECTION;
	*status = ISCSI_STATUS_TOO_MANY_CONNECTIONS;
	return known->connections < known->connections_max ? ISCSI_JOIN_NEW_CONNECTION
							   : ISCSI_JOIN_REFUSED;
}
