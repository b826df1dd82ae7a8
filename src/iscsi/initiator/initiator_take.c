/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a target sends to a session. Each function refuses what RFC 7143 does not allow now: the
 * connection is then closed for the reason (error recovery level 0).
 */
#include <string.h>

#include "base/deadline.h"
#include "iscsi/initiator/initiator_inside.h"

/* ---- SCSI ----------------------------------------------------------------------------------- */

/* SPC-4 section 4.5: 29h says that the unit or the nexus began anew. */
static bool is_attention(const struct iscsi_request *r)
{
	bool is_fixed = r->sense_bytes > 12 && (r->sense[0] & 0x7e) == 0x70;
	bool is_descriptor = r->sense_bytes > 3 && (r->sense[0] & 0x7e) == 0x72;

	if (r->status != 0x02)
		return false;
	return (is_fixed && (r->sense[2] & 0xf) == 6 && r->sense[12] == 0x29) ||
	       (is_descriptor && (r->sense[1] & 0xf) == 6 && r->sense[2] == 0x29);
}

/*
 * Status GOOD says that all data came, but for the residual. A target that sent less would leave
 * the caller with whatever was in its memory before.
 */
static bool is_data_missing(const struct iscsi_initiator *i, const struct iscsi_request *r)
{
	uint64_t residual = r->is_underflow ? r->residual : 0;

	return i->calls->shows_data && r->direction == ISCSI_READ && r->status == 0 &&
	       r->response == ISCSI_COMPLETED && r->moved_bytes + residual < r->expected_bytes;
}

/* The command is sent again: its owner learns of the reset by an event. */
static void note_attention(struct iscsi_initiator *i, const struct iscsi_request *r)
{
	i->event_lun = r->lun;
	i->event_sense_bytes = r->sense_bytes;
	memcpy(i->event_sense, r->sense, r->sense_bytes);
	session_event(i, ISCSI_EVENT_SCSI);
}

static void end_command(struct iscsi_initiator *i, struct iscsi_request *r)
{
	if (r->response != ISCSI_COMPLETED)
		session_end_request(i, r, WEFT_R_ISCSI_TARGET_FAILURE);
	else if (is_data_missing(i, r))
		session_end_request(i, r, WEFT_R_ISCSI_DATA_MISSING);
	else if (is_attention(r) && session_is_repeatable(r) && !r->is_overdue &&
		 r->retries < i->config.recovery.retries_max) {
		note_attention(i, r);
		session_repeat(i, r, WEFT_OK);
	} else {
		session_end_request(i, r, WEFT_OK);
	}
}

static void take_status(struct iscsi_request *r, const struct iscsi_pdu *p)
{
	r->response = p->opcode == ISCSI_DATA_IN ? ISCSI_COMPLETED : p->code;
	r->status = p->status;
	r->is_overflow = p->is_overflow;
	r->is_underflow = p->is_underflow;
	r->residual = p->residual;
	r->sense_bytes = 0;
}

/* The command that the port says a PDU belongs to; NULL: there is none. */
static struct iscsi_request *command_of(const struct iscsi_initiator *i,
					const struct iscsi_received *in)
{
	struct iscsi_request *r;

	if (!in->has_slot || in->slot >= i->config.limits.depth)
		return NULL;
	r = i->slots[in->slot];
	return r && r->state == REQUEST_SENT ? r : NULL;
}

static enum weft_reason take_response(struct iscsi_initiator *i, const struct iscsi_pdu *p,
				      const struct iscsi_received *in)
{
	struct iscsi_request *r = command_of(i, in);
	struct iscsi_sense sense = { 0 };
	enum weft_reason reason;

	if (!r)
		return WEFT_R_ISCSI_NO_TASK;
	take_status(r, p);
	reason = iscsi_sense_decode(&sense, in->data, in->data_bytes);
	if (reason != WEFT_OK)
		return reason;
	r->sense_bytes = sense.sense_bytes < ISCSI_SENSE_MAX ? (uint8_t)sense.sense_bytes
							     : ISCSI_SENSE_MAX;
	if (r->sense_bytes > 0)
		memcpy(r->sense, sense.sense, r->sense_bytes);
	end_command(i, r);
	return WEFT_OK;
}

static enum weft_reason take_data(struct iscsi_initiator *i, const struct iscsi_pdu *p,
				  const struct iscsi_received *in)
{
	struct iscsi_request *r = command_of(i, in);

	if (!r)
		return WEFT_R_ISCSI_NO_TASK;
	/*
	 * Sections 13.18 and 13.19: both are Yes here, so each byte comes once and in its
	 * order. The sum of what came says then that all of it did.
	 */
	if (i->calls->shows_data && p->offset != r->moved_bytes)
		return WEFT_R_ISCSI_DATA_ORDER;
	r->moved_bytes += p->data_bytes;
	if (p->has_status) {
		take_status(r, p);
		end_command(i, r);
	}
	return WEFT_OK;
}

/* ---- Control -------------------------------------------------------------------------------- */

/* The request that an answer belongs to; NULL: there is none of this kind. */
static struct iscsi_request *control_of(const struct iscsi_initiator *i, uint32_t itt)
{
	const struct list *head = &i->controls_sent;

	for (struct list *l = head->next; l != head; l = l->next) {
		struct iscsi_request *r = CONTAINER_OF(l, struct iscsi_request, link);

		if (r->itt == itt)
			return r;
	}
	return NULL;
}

static struct iscsi_request *answered(const struct iscsi_initiator *i, const struct iscsi_pdu *p,
				      enum iscsi_request_kind kind)
{
	struct iscsi_request *r = control_of(i, p->itt);

	return r && r->kind == kind ? r : NULL;
}

static enum weft_reason take_nop(struct iscsi_initiator *i, const struct iscsi_pdu *p,
				 uint64_t now_ns)
{
	struct iscsi_request *r;

	if (p->itt != ISCSI_TAG_NONE) {
		r = answered(i, p, ISCSI_REQUEST_PING);
		if (!r)
			return WEFT_R_ISCSI_NO_TASK;
		if (r == &i->own_ping)
			timer_queue_set(&i->timers, &i->ping,
					deadline_after(now_ns, i->config.limits.ping_after_ns));
		session_end_request(i, r, WEFT_OK);
		return WEFT_OK;
	}
	if (p->ttt == ISCSI_TAG_NONE)
		return WEFT_OK; /* it carries the window */
	if (i->answer_count == SESSION_ANSWERS_MAX)
		return WEFT_R_ISCSI_FLOOD;
	i->answers[i->answer_count++] = (struct session_answer){ p->lun, p->ttt };
	return WEFT_OK;
}

static enum weft_reason take_task(struct iscsi_initiator *i, const struct iscsi_pdu *p,
				  uint64_t now_ns)
{
	struct iscsi_request *r = answered(i, p, ISCSI_REQUEST_TASK);

	if (r) {
		session_take_task(i, r, p->code, now_ns);
		return WEFT_OK;
	}
	if (!i->has_abandoned || p->itt != i->abandoned_itt)
		return WEFT_R_ISCSI_NO_TASK;
	i->has_abandoned = false;
	return WEFT_OK;
}

/* ---- Text ----------------------------------------------------------------------------------- */

static enum weft_reason gather(struct iscsi_request *r, const struct iscsi_pdu *p,
			       const struct iscsi_received *in)
{
	struct iscsi_text_in text = { .room = r->text, .length = r->text_bytes };
	enum weft_reason reason;

	/* A piece that brings nothing and is not the last could follow itself for ever. */
	if (!p->is_final && in->data_bytes == 0)
		return WEFT_R_ISCSI_ENDLESS;
	reason = iscsi_text_gather(&text, in->data, in->data_bytes);
	r->text_bytes = (uint32_t)text.length;
	return reason;
}

/* Section 11.9.1, event 4: the target negotiates. Whatever it says is answered. */
static enum weft_reason take_own_text(struct iscsi_initiator *i, bool is_final)
{
	struct iscsi_request *r = &i->own_text;
	struct iscsi_negotiation *keys = iscsi_login_keys(&i->login);
	struct wr w = wr_of(i->text_out.bytes, i->text_out.length);
	enum weft_reason reason = iscsi_negotiation_take(keys, r->text.bytes, r->text_bytes, &w);

	if (reason != WEFT_OK)
		return reason;
	i->params = keys->params;
	i->calls->agreed(i->port, &i->params);
	r->expected_bytes = (uint32_t)(w.at - i->text_out.bytes);
	r->text_bytes = 0;
	if (is_final && r->expected_bytes == 0) {
		session_end_request(i, r, WEFT_OK);
		return WEFT_OK;
	}
	if (++r->retries > ISCSI_EXCHANGES_MAX)
		return WEFT_R_ISCSI_ENDLESS;
	session_wait_again(i, r);
	return WEFT_OK;
}

static enum weft_reason take_text(struct iscsi_initiator *i, const struct iscsi_pdu *p,
				  const struct iscsi_received *in)
{
	struct iscsi_request *r = answered(i, p, ISCSI_REQUEST_TEXT);
	enum weft_reason reason;

	if (!r)
		return WEFT_R_ISCSI_NO_TASK;
	reason = gather(r, p, in);
	if (reason != WEFT_OK) {
		/* It does not fit into the caller's memory, nor will it the next time. */
		session_end_request(i, r, reason);
		return reason;
	}
	r->ttt = p->is_final ? ISCSI_TAG_NONE : p->ttt;
	if (r == &i->own_text && !p->is_continued)
		return take_own_text(i, p->is_final);
	r->expected_bytes = 0;
	if (p->is_final)
		session_end_request(i, r, WEFT_OK);
	else
		session_wait_again(i, r);
	return WEFT_OK;
}

/* ---- The target's own wishes ---------------------------------------------------------------- */

static enum weft_reason take_logout(struct iscsi_initiator *i, const struct iscsi_pdu *p)
{
	if (i->state != ISCSI_SESSION_LOGOUT || p->itt != i->logout_itt)
		return WEFT_R_ISCSI_NO_TASK;
	i->pause_ns = p->time2wait * 1000000000ULL;
	if (i->is_last && p->code != ISCSI_LOGOUT_OK)
		i->last = WEFT_R_ISCSI_REJECTED;
	return WEFT_R_ISCSI_LOGGED_OUT;
}

static void scsi_event(struct iscsi_initiator *i, const struct iscsi_pdu *p,
		       const struct iscsi_received *in)
{
	struct iscsi_sense sense = { 0 };

	if (iscsi_sense_decode(&sense, in->data, in->data_bytes) != WEFT_OK)
		return;
	i->event_lun = p->lun;
	i->event_sense_bytes = sense.sense_bytes < ISCSI_SENSE_MAX ? (uint8_t)sense.sense_bytes
								   : ISCSI_SENSE_MAX;
	if (i->event_sense_bytes > 0)
		memcpy(i->event_sense, sense.sense, i->event_sense_bytes);
	session_event(i, ISCSI_EVENT_SCSI);
}

static void negotiate(struct iscsi_initiator *i)
{
	if (i->own_text.state != REQUEST_NONE)
		return;
	i->own_text = (struct iscsi_request){ .text = i->text_in };
	iscsi_negotiation_begin(iscsi_login_keys(&i->login), ISCSI_STAGE_FULL_FEATURE);
	session_ask(i, &i->own_text, ISCSI_REQUEST_TEXT);
}

/* Section 11.9. */
static enum weft_reason take_async(struct iscsi_initiator *i, const struct iscsi_pdu *p,
				   const struct iscsi_received *in, uint64_t now_ns)
{
	i->counts.asyncs++;
	switch (p->code) {
	case ISCSI_ASYNC_SCSI:
		scsi_event(i, p, in);
		return WEFT_OK;
	case ISCSI_ASYNC_LOGOUT:
		/* Parameter3: seconds until the logout; half of them for commands under way. */
		session_drain(i, p->parameters[2] * 500000000ULL, now_ns);
		return WEFT_OK;
	case ISCSI_ASYNC_DROP_CONNECTION:
	case ISCSI_ASYNC_DROP_SESSION:
		/* Parameter2: Time2Wait. */
		i->pause_ns = p->parameters[1] * 1000000000ULL;
		return WEFT_R_ISCSI_DROPPED;
	case ISCSI_ASYNC_NEGOTIATE:
		negotiate(i);
		return WEFT_OK;
	default:
		return WEFT_OK;
	}
}

/* The command of a tag, if the port says so. */
static struct iscsi_request *command_with_tag(const struct iscsi_initiator *i, uint32_t itt)
{
	for (struct list *l = i->sent.next; l != &i->sent; l = l->next) {
		struct iscsi_request *r = CONTAINER_OF(l, struct iscsi_request, link);
		uint32_t tag;

		if (r->state == REQUEST_SENT && i->calls->tag(i->port, r->slot, &tag) && tag == itt)
			return r;
	}
	return NULL;
}

/*
 * Section 7.8: a command whose immediate data was damaged has not come, and the target waits for
 * its CmdSN. At error recovery level 0 a new session begins without the gap.
 */
static bool leaves_gap(const struct iscsi_request *r, const struct iscsi_pdu *p)
{
	return r->kind == ISCSI_REQUEST_COMMAND && !r->is_immediate &&
	       !iscsi_sn_is_before(r->cmd_sn, p->exp_cmd_sn);
}

/*
 * Section 11.17: the data segment is the header that the target does not take. A command ends with
 * it; a Data-Out does not end its command, whose response is to follow.
 */
static enum weft_reason take_reject(struct iscsi_initiator *i, const struct iscsi_pdu *p,
				    const struct iscsi_received *in, uint64_t now_ns)
{
	struct iscsi_request *r;
	struct iscsi_pdu bad;

	i->counts.rejects++;
	if (iscsi_decode(&bad, ISCSI_INITIATOR, rd_of(in->data, in->data_bytes), ISCSI_DATA_MAX) !=
	    WEFT_OK)
		return WEFT_R_ISCSI_REJECTED;
	if (bad.opcode == ISCSI_DATA_OUT)
		return WEFT_OK;
	r = bad.opcode == ISCSI_SCSI_COMMAND ? command_with_tag(i, bad.itt)
					     : control_of(i, bad.itt);
	if (!r)
		return WEFT_R_ISCSI_REJECTED;
	if (leaves_gap(r, p))
		return WEFT_R_ISCSI_REJECTED;
	if (r == &i->own_task) {
		session_take_task(i, r, ISCSI_TASK_REJECTED, now_ns);
		return WEFT_OK;
	}
	/* A target that does not take a ping is there all the same. */
	if (r == &i->own_ping)
		timer_queue_set(&i->timers, &i->ping,
				deadline_after(now_ns, i->config.limits.ping_after_ns));
	if (r->kind == ISCSI_REQUEST_COMMAND && !i->calls->forget(i->port, r->slot))
		return WEFT_R_ISCSI_REJECTED;
	r->response = p->code;
	session_end_request(i, r, WEFT_R_ISCSI_REJECTED);
	return WEFT_OK;
}

/* ---- Sequence numbers ----------------------------------------------------------------------- */

/* Section 4.2.2.2: PDUs that take a StatSN. An unsolicited NOP-In and an R2T only show the next. */
static bool has_stat_sn(const struct iscsi_pdu *p)
{
	return !(p->opcode == ISCSI_R2T || (p->opcode == ISCSI_DATA_IN && !p->has_status) ||
		 (p->opcode == ISCSI_NOP_IN && p->itt == ISCSI_TAG_NONE));
}

static enum weft_reason take_numbers(struct iscsi_initiator *i, const struct iscsi_pdu *p)
{
	/* It acknowledges a command that was not sent. */
	if (iscsi_sn_is_before(i->cmd_sn, p->exp_cmd_sn))
		return WEFT_R_ISCSI_EXP_CMD_SN;
	if (has_stat_sn(p)) {
		if (i->has_stat_sn && p->stat_sn != i->exp_stat_sn)
			return WEFT_R_ISCSI_STAT_SN;
		i->has_stat_sn = true;
		i->exp_stat_sn = p->stat_sn + 1;
	}
	iscsi_window_update(&i->window, p->exp_cmd_sn, p->max_cmd_sn);
	return WEFT_OK;
}

/* ---- PDUs ----------------------------------------------------------------------------------- */

/*
 * tgtd by iSER counts the Login Request, which is immediate, as a command; and takes a command with
 * the number of the request all the same.
 */
static bool is_counted_login(const struct iscsi_initiator *i, const struct iscsi_pdu *p)
{
	return p->exp_cmd_sn == i->cmd_sn + 1 && p->max_cmd_sn == i->cmd_sn;
}

static void take_login(struct iscsi_initiator *i, const struct iscsi_pdu *p,
		       const struct iscsi_received *in, uint64_t now_ns)
{
	struct iscsi_login_pdu l = {
		.is_transit = p->is_final,
		.is_continued = p->is_continued,
		.stage = p->csg,
		.next_stage = p->nsg,
		.version_max = p->version_max,
		.version = p->version,
		.tsih = p->tsih,
		.itt = p->itt,
		.stat_sn = p->stat_sn,
		.exp_cmd_sn = p->exp_cmd_sn,
		.max_cmd_sn = p->max_cmd_sn,
		.status = (uint16_t)(p->status_class << 8 | p->status_detail),
		.text = in->data,
		.length = in->data_bytes,
	};
	enum weft_reason reason = WEFT_OK;

	for (uint32_t k = 0; k < ISCSI_ISID_BYTES; k++)
		l.isid[k] = (uint8_t)(p->isid >> 8 * (ISCSI_ISID_BYTES - 1 - k));
	/* Section 11.13.4: of a refusal the numbers do not count. The last has the window. */
	if (l.status == ISCSI_STATUS_SUCCESS) {
		i->has_stat_sn = false;
		if (l.is_transit && l.next_stage == ISCSI_STAGE_FULL_FEATURE) {
			struct iscsi_pdu first = *p;

			if (is_counted_login(i, p))
				first.exp_cmd_sn = i->cmd_sn;
			reason = take_numbers(i, &first);
		}
		i->exp_stat_sn = p->stat_sn + 1;
	}
	if (reason != WEFT_OK) {
		session_close(i, reason);
		return;
	}
	iscsi_login_take(&i->login, &l);
	session_login_step(i, now_ns);
}

static enum weft_reason take_pdu(struct iscsi_initiator *i, const struct iscsi_pdu *p,
				 const struct iscsi_received *in, uint64_t now_ns)
{
	switch (p->opcode) {
	case ISCSI_SCSI_RESPONSE:
		return take_response(i, p, in);
	case ISCSI_DATA_IN:
		return take_data(i, p, in);
	case ISCSI_R2T:
		return command_of(i, in) ? WEFT_OK : WEFT_R_ISCSI_NO_TASK;
	case ISCSI_NOP_IN:
		return take_nop(i, p, now_ns);
	case ISCSI_TASK_RESPONSE:
		return take_task(i, p, now_ns);
	case ISCSI_TEXT_RESPONSE:
		return take_text(i, p, in);
	case ISCSI_LOGOUT_RESPONSE:
		return take_logout(i, p);
	case ISCSI_ASYNC:
		return take_async(i, p, in, now_ns);
	case ISCSI_REJECT:
		return take_reject(i, p, in, now_ns);
	default:
		return WEFT_R_ISCSI_UNEXPECTED;
	}
}

void iscsi_initiator_take(struct iscsi_initiator *i, const struct iscsi_received *in,
			  uint64_t now_ns)
{
	enum weft_reason reason = in->reason;
	struct iscsi_pdu p;

	if (i->state != ISCSI_SESSION_LOGIN && !session_is_full(i))
		return;
	if (reason == WEFT_OK)
		reason = iscsi_decode(&p, ISCSI_TARGET, rd_of(in->header, in->header_bytes),
				      ISCSI_DATA_MAX);
	if (reason == WEFT_OK && p.opcode != ISCSI_DATA_IN && p.data_bytes != in->data_bytes)
		reason = WEFT_R_ISCSI_DATA_LENGTH;
	if (reason != WEFT_OK) {
		session_close(i, reason);
		return;
	}
	i->heard_ns = now_ns;
	if (i->state == ISCSI_SESSION_LOGIN && p.opcode == ISCSI_LOGIN_RESPONSE) {
		take_login(i, &p, in, now_ns);
		return;
	}
	if (i->state == ISCSI_SESSION_LOGIN) {
		iscsi_login_take_other(&i->login);
		session_login_step(i, now_ns);
		return;
	}
	reason = take_numbers(i, &p);
	if (reason == WEFT_OK)
		reason = take_pdu(i, &p, in, now_ns);
	if (reason != WEFT_OK) {
		session_close(i, reason);
		return;
	}
	/* The target does what it is there for: failures before this do not count any more. */
	if (has_stat_sn(&p) && p.opcode != ISCSI_ASYNC && p.opcode != ISCSI_REJECT)
		i->attempts = 0;
	session_send(i, now_ns);
}
