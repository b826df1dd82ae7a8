/* SPDX-License-Identifier: BSD-2-Clause */
#include "iscsi/login/login.h"

#include <string.h>

#include "base/check.h"
#include "iscsi/login/login_inside.h"

enum {
	TO_SENDING = 1 << ISCSI_LOGIN_STATE_SENDING,
	TO_WAITING = 1 << ISCSI_LOGIN_STATE_WAITING,
	TO_DECIDING = 1 << ISCSI_LOGIN_STATE_DECIDING,
	TO_REFUSING = 1 << ISCSI_LOGIN_STATE_REFUSING,
	TO_ESTABLISHED = 1 << ISCSI_LOGIN_STATE_ESTABLISHED,
	TO_MOVED = 1 << ISCSI_LOGIN_STATE_MOVED,
	TO_FAILED = 1 << ISCSI_LOGIN_STATE_FAILED,
};

/* event: reported to the owner when the state is entered. */
static const struct {
	uint32_t moves; /* none: the login is over */
	enum iscsi_login_event event;
} states[ISCSI_LOGIN_STATE_COUNT] = {
	[ISCSI_LOGIN_STATE_SENDING] = { TO_WAITING | TO_REFUSING | TO_ESTABLISHED | TO_FAILED,
					ISCSI_LOGIN_NONE },
	[ISCSI_LOGIN_STATE_WAITING] = { TO_SENDING | TO_DECIDING | TO_REFUSING | TO_ESTABLISHED |
						TO_MOVED | TO_FAILED,
					ISCSI_LOGIN_NONE },
	[ISCSI_LOGIN_STATE_DECIDING] = { TO_SENDING | TO_REFUSING | TO_FAILED, ISCSI_LOGIN_DECIDE },
	[ISCSI_LOGIN_STATE_REFUSING] = { TO_MOVED | TO_FAILED, ISCSI_LOGIN_NONE },
	[ISCSI_LOGIN_STATE_ESTABLISHED] = { 0, ISCSI_LOGIN_ESTABLISHED },
	[ISCSI_LOGIN_STATE_MOVED] = { 0, ISCSI_LOGIN_MOVED },
	[ISCSI_LOGIN_STATE_FAILED] = { 0, ISCSI_LOGIN_FAILED },
};

void login_move(struct iscsi_login *l, enum iscsi_login_state to)
{
	CHECK(states[l->state].moves & 1U << to);
	l->state = to;
	l->event = states[to].event;
}

static bool is_over(const struct iscsi_login *l)
{
	return states[l->state].moves == 0;
}

void login_fail_status(struct iscsi_login *l, enum weft_reason reason, uint16_t status)
{
	l->reason = reason;
	l->status = status;
	login_move(l, l->is_target ? ISCSI_LOGIN_STATE_REFUSING : ISCSI_LOGIN_STATE_FAILED);
}

/* The status for a reason. What is not listed is an error of the initiator. */
static uint16_t status_of(enum weft_reason reason)
{
	switch (reason) {
	case WEFT_R_ISCSI_LOGIN_VERSION:
		return ISCSI_STATUS_VERSION;
	case WEFT_R_ISCSI_LOGIN_MISSING:
		return ISCSI_STATUS_MISSING_PARAMETER;
	case WEFT_R_ISCSI_AUTH_METHOD:
	case WEFT_R_ISCSI_CHAP_ORDER:
	case WEFT_R_ISCSI_CHAP_ALGORITHM:
	case WEFT_R_ISCSI_CHAP_REFLECTED:
	case WEFT_R_ISCSI_CHAP_FAILED:
		return ISCSI_STATUS_AUTHENTICATION;
	case WEFT_R_ISCSI_CHAP_SECRET:
	case WEFT_R_ISCSI_CHAP_SAME_SECRET:
		return ISCSI_STATUS_TARGET_ERROR;
	case WEFT_R_ISCSI_TEXT_LONG:
		return ISCSI_STATUS_OUT_OF_RESOURCES;
	default:
		return ISCSI_STATUS_INITIATOR_ERROR;
	}
}

void login_fail(struct iscsi_login *l, enum weft_reason reason)
{
	login_fail_status(l, reason, l->is_target ? status_of(reason) : l->status);
}

/* ---- Text out ------------------------------------------------------------------------------- */

struct wr login_text_begin(struct iscsi_login *l)
{
	l->out_bytes = l->out_sent = 0;
	return wr_of(l->limits.out.bytes, l->limits.out.length);
}

void login_text_end(struct iscsi_login *l, const struct wr *w, bool is_transit)
{
	if (w->is_short) {
		login_fail(l, WEFT_R_ISCSI_TEXT_LONG);
		return;
	}
	l->out_bytes = (size_t)(w->at - l->limits.out.bytes);
	l->is_transit = is_transit;
	if (!l->is_target)
		l->asks_transit = is_transit;
	if (l->state != ISCSI_LOGIN_STATE_SENDING)
		login_move(l, ISCSI_LOGIN_STATE_SENDING);
}

/* Answers a piece of a text that continues: nothing to say, and no word on the stage. */
static void text_none(struct iscsi_login *l)
{
	l->out_bytes = l->out_sent = 0;
	l->is_transit = false;
	login_move(l, ISCSI_LOGIN_STATE_SENDING);
}

static void fill(const struct iscsi_login *l, struct iscsi_login_pdu *pdu)
{
	*pdu = (struct iscsi_login_pdu){
		.stage = l->stage,
		.itt = l->itt,
		.tsih = l->tsih,
		.status = l->status,
		.cmd_sn = l->cmd_sn,
		.exp_stat_sn = l->stat_sn,
		.stat_sn = l->stat_sn,
		.exp_cmd_sn = l->exp_cmd_sn,
		.max_cmd_sn = l->max_cmd_sn,
		.cid = l->is_target ? 0 : l->request.cid,
		.text = l->limits.out.bytes,
	};
	memcpy(pdu->isid, l->is_target ? l->peer.isid : l->request.isid, ISCSI_ISID_BYTES);
}

static void say_refusal(struct iscsi_login *l, struct iscsi_login_pdu *pdu)
{
	bool is_moved = l->status >> 8 == 1;
	struct wr w = login_text_begin(l);

	fill(l, pdu);
	if (is_moved)
		iscsi_text_put(&w, "TargetAddress", iscsi_login_address(l));
	pdu->length = (uint32_t)(w.at - l->limits.out.bytes);
	login_move(l, is_moved ? ISCSI_LOGIN_STATE_MOVED : ISCSI_LOGIN_STATE_FAILED);
}

/* The text is on its way. At a target this is the move to the next stage. */
static void text_done(struct iscsi_login *l)
{
	bool is_leaving = l->is_target && l->is_transit;

	if (is_leaving)
		l->stage = l->next_stage;
	if (is_leaving && l->stage == ISCSI_STAGE_FULL_FEATURE)
		login_move(l, ISCSI_LOGIN_STATE_ESTABLISHED);
	else
		login_move(l, ISCSI_LOGIN_STATE_WAITING);
	if (is_leaving)
		iscsi_negotiation_begin(&l->keys, (enum iscsi_stage)l->stage);
}

bool iscsi_login_say(struct iscsi_login *l, struct iscsi_login_pdu *pdu)
{
	size_t rest = l->out_bytes - l->out_sent;
	bool is_last = rest <= l->limits.piece_bytes_max;

	if (l->state == ISCSI_LOGIN_STATE_REFUSING) {
		say_refusal(l, pdu);
		return true;
	}
	if (l->state != ISCSI_LOGIN_STATE_SENDING)
		return false;
	fill(l, pdu);
	pdu->text += l->out_sent;
	pdu->length = is_last ? (uint32_t)rest : l->limits.piece_bytes_max;
	pdu->is_continued = !is_last;
	pdu->is_transit = is_last && l->is_transit;
	pdu->next_stage = pdu->is_transit ? l->next_stage : 0;
	/* RFC 7143 section 11.13.3: only the last response names a new session. */
	if (l->is_target && !(pdu->is_transit && l->next_stage == ISCSI_STAGE_FULL_FEATURE))
		pdu->tsih = l->peer.tsih;
	l->out_sent += pdu->length;
	if (l->is_target)
		l->stat_sn++;
	if (is_last)
		text_done(l);
	else
		login_move(l, ISCSI_LOGIN_STATE_WAITING);
	return true;
}

/* ---- Beginning and end ---------------------------------------------------------------------- */

void iscsi_login_fini(struct iscsi_login *l)
{
	chap_fini(&l->chap);
}

void iscsi_login_eof(struct iscsi_login *l)
{
	if (is_over(l))
		return;
	if (l->state != ISCSI_LOGIN_STATE_REFUSING)
		l->reason = WEFT_R_CONNECT_CLOSED;
	login_move(l, ISCSI_LOGIN_STATE_FAILED);
}

uint64_t iscsi_login_due(const struct iscsi_login *l)
{
	return is_over(l) ? UINT64_MAX : l->deadline_ns;
}

void iscsi_login_expire(struct iscsi_login *l, uint64_t now_ns)
{
	if (is_over(l) || now_ns < l->deadline_ns)
		return;
	l->reason = WEFT_R_CONNECT_TIMEOUT;
	login_move(l, ISCSI_LOGIN_STATE_FAILED);
}

enum iscsi_login_event iscsi_login_event(struct iscsi_login *l)
{
	enum iscsi_login_event event = l->event;

	l->event = ISCSI_LOGIN_NONE;
	return event;
}

/* ---- Text in -------------------------------------------------------------------------------- */

bool login_text_has(const struct iscsi_login *l, const char *key, struct word *value)
{
	return iscsi_text_find(l->in.room.bytes, l->in.length, key, value);
}

/* What holds for one direction, and for both. The login may be over then: the status said so. */
static enum weft_reason check(struct iscsi_login *l, const struct iscsi_login_pdu *pdu)
{
	uint32_t max = l->limits.exchanges_max ? l->limits.exchanges_max : ISCSI_EXCHANGES_MAX;
	bool is_asked = l->out_sent < l->out_bytes;
	enum weft_reason reason;

	if (l->state != ISCSI_LOGIN_STATE_WAITING)
		return WEFT_R_ISCSI_LOGIN_FIELD;
	if (++l->exchanges > max)
		return WEFT_R_ISCSI_ENDLESS;
	reason = l->is_target ? login_target_check(l, pdu) : login_initiator_check(l, pdu);
	if (reason != WEFT_OK)
		return reason;
	/* RFC 7143 section 6.2: an unfinished text is no end of a stage. */
	if (pdu->is_continued && pdu->is_transit)
		return WEFT_R_ISCSI_LOGIN_FIELD;
	/* While this end's text continues, the peer only asks for more. */
	if (is_asked && (pdu->is_continued || pdu->length > 0))
		return WEFT_R_ISCSI_LOGIN_FIELD;
	return WEFT_OK;
}

void iscsi_login_take(struct iscsi_login *l, const struct iscsi_login_pdu *pdu)
{
	enum weft_reason reason;

	if (is_over(l) || l->state == ISCSI_LOGIN_STATE_REFUSING)
		return;
	reason = check(l, pdu);
	if (is_over(l))
		return;
	if (reason == WEFT_OK)
		reason = iscsi_text_gather(&l->in, pdu->text, pdu->length);
	if (reason != WEFT_OK) {
		login_fail(l, reason);
		return;
	}
	if (l->out_sent < l->out_bytes) {
		login_move(l, ISCSI_LOGIN_STATE_SENDING);
	} else if (pdu->is_continued) {
		text_none(l);
	} else if (l->is_target) {
		l->asks_transit = pdu->is_transit;
		l->next_stage = pdu->next_stage;
		login_target_read(l);
	} else {
		login_initiator_read(l, pdu);
	}
	if (l->state != ISCSI_LOGIN_STATE_DECIDING && !pdu->is_continued)
		l->in.length = 0;
}

void iscsi_login_take_other(struct iscsi_login *l)
{
	if (!is_over(l) && l->state != ISCSI_LOGIN_STATE_REFUSING)
		login_fail_status(l, WEFT_R_ISCSI_LOGIN_FIELD, ISCSI_STATUS_INVALID_DURING_LOGIN);
}

/* ---- Queries -------------------------------------------------------------------------------- */

enum weft_reason iscsi_login_reason(const struct iscsi_login *l)
{
	return l->reason;
}

uint16_t iscsi_login_status(const struct iscsi_login *l)
{
	return l->status;
}

struct word iscsi_login_address(const struct iscsi_login *l)
{
	return (struct word){ l->address, l->address_bytes };
}

const struct iscsi_params *iscsi_login_params(const struct iscsi_login *l)
{
	return &l->keys.params;
}

uint16_t iscsi_login_tsih(const struct iscsi_login *l)
{
	return l->tsih;
}

struct iscsi_negotiation *iscsi_login_keys(struct iscsi_login *l)
{
	return &l->keys;
}
