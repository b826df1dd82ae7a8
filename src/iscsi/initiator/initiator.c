/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections of a session: login, loss and recovery, logout. */
#include <stdlib.h>
#include <string.h>

#include "base/deadline.h"
#include "iscsi/initiator/initiator_inside.h"

#define SECOND_NS 1000000000ULL

enum {
	TO_WANTING = 1 << ISCSI_SESSION_WANTING,
	TO_CONNECTING = 1 << ISCSI_SESSION_CONNECTING,
	TO_LOGIN = 1 << ISCSI_SESSION_LOGIN,
	TO_FULL = 1 << ISCSI_SESSION_FULL,
	TO_DRAINING = 1 << ISCSI_SESSION_DRAINING,
	TO_LOGOUT = 1 << ISCSI_SESSION_LOGOUT,
	TO_CLOSING = 1 << ISCSI_SESSION_CLOSING,
	TO_PAUSING = 1 << ISCSI_SESSION_PAUSING,
	TO_ENDED = 1 << ISCSI_SESSION_ENDED,
	/* A connection may be lost in any state that has one. */
	TO_LOST = TO_WANTING | TO_PAUSING | TO_ENDED
};

static const uint32_t moves[ISCSI_SESSION_STATES] = {
	[ISCSI_SESSION_WANTING] = TO_CONNECTING | TO_ENDED,
	[ISCSI_SESSION_CONNECTING] = TO_LOGIN | TO_CLOSING | TO_LOST,
	[ISCSI_SESSION_LOGIN] = TO_FULL | TO_CLOSING | TO_LOST,
	[ISCSI_SESSION_FULL] = TO_DRAINING | TO_CLOSING | TO_LOST,
	[ISCSI_SESSION_DRAINING] = TO_LOGOUT | TO_CLOSING | TO_LOST,
	[ISCSI_SESSION_LOGOUT] = TO_CLOSING | TO_LOST,
	[ISCSI_SESSION_CLOSING] = TO_LOST,
	[ISCSI_SESSION_PAUSING] = TO_WANTING | TO_ENDED,
	[ISCSI_SESSION_ENDED] = 0,
};

void session_move(struct iscsi_initiator *i, enum iscsi_initiator_state to)
{
	CHECK(moves[i->state] & 1U << to);
	i->state = to;
	timer_queue_cancel(&i->timers, &i->timer);
}

bool session_is_full(const struct iscsi_initiator *i)
{
	return i->state == ISCSI_SESSION_FULL || i->state == ISCSI_SESSION_DRAINING ||
	       i->state == ISCSI_SESSION_LOGOUT;
}

void session_event(struct iscsi_initiator *i, enum iscsi_event_kind kind)
{
	i->events |= 1U << kind;
}

/* ---- Creation ------------------------------------------------------------------------------- */

void iscsi_initiator_limits_init(struct iscsi_initiator_limits *l)
{
	*l = (struct iscsi_initiator_limits){
		.depth = 32,
		.requests_max = 128,
		.login_ns = 15 * SECOND_NS,
		.command_ns = 60 * SECOND_NS,
		.task_ns = 15 * SECOND_NS,
		.logout_ns = 15 * SECOND_NS,
		.ping_after_ns = 5 * SECOND_NS,
		.ping_ns = 5 * SECOND_NS,
		.reconnect_ns = SECOND_NS,
	};
}

/* Times of 0 have their usual values. */
static void fill_limits(struct iscsi_initiator_limits *l)
{
	struct iscsi_initiator_limits usual;

	iscsi_initiator_limits_init(&usual);
	l->login_ns = l->login_ns ? l->login_ns : usual.login_ns;
	l->command_ns = l->command_ns ? l->command_ns : usual.command_ns;
	l->task_ns = l->task_ns ? l->task_ns : usual.task_ns;
	l->logout_ns = l->logout_ns ? l->logout_ns : usual.logout_ns;
	l->ping_after_ns = l->ping_after_ns ? l->ping_after_ns : usual.ping_after_ns;
	l->ping_ns = l->ping_ns ? l->ping_ns : usual.ping_ns;
	l->reconnect_ns = l->reconnect_ns ? l->reconnect_ns : usual.reconnect_ns;
}

static enum weft_reason check_config(const struct iscsi_initiator_config *c)
{
	struct iscsi_name name;

	if (c->limits.depth == 0 || c->limits.depth > ISCSI_DEPTH_MAX ||
	    c->limits.requests_max < c->limits.depth)
		return WEFT_R_BAD_ARGUMENT;
	if (iscsi_name_normalise(c->initiator_name, &name) != WEFT_OK)
		return WEFT_R_ISCSI_NAME;
	if (!c->is_discovery && iscsi_name_normalise(c->target_name, &name) != WEFT_OK)
		return WEFT_R_ISCSI_NAME;
	return WEFT_OK;
}

static bool has_memory(struct iscsi_initiator *i)
{
	uint32_t depth = i->config.limits.depth;

	i->slots = calloc(depth, sizeof(*i->slots));
	i->free_slots = calloc(depth, sizeof(*i->free_slots));
	i->text_in = (struct span){ malloc(ISCSI_TEXT_MIN), ISCSI_TEXT_MIN };
	i->text_out = (struct span){ malloc(ISCSI_TEXT_MIN), ISCSI_TEXT_MIN };
	return timer_queue_init(&i->timers, i->config.limits.requests_max + SESSION_TIMERS) == 0 &&
	       i->slots && i->free_slots && i->text_in.bytes && i->text_out.bytes;
}

enum weft_reason iscsi_initiator_create(const struct iscsi_initiator_config *c,
					struct iscsi_initiator **out)
{
	enum weft_reason reason = check_config(c);
	struct iscsi_initiator *i;

	if (reason != WEFT_OK)
		return reason;
	i = calloc(1, sizeof(*i));
	if (!i)
		return WEFT_R_NO_MEMORY;
	i->config = *c;
	fill_limits(&i->config.limits);
	if (i->config.recovery.redirects_max == 0)
		i->config.recovery.redirects_max = ISCSI_REDIRECTS_MAX;
	list_init(&i->waiting);
	list_init(&i->sent);
	list_init(&i->controls);
	list_init(&i->controls_sent);
	list_init(&i->done);
	iscsi_params_init(&i->params);
	if (!has_memory(i)) {
		iscsi_initiator_destroy(i);
		return WEFT_R_NO_MEMORY;
	}
	while (i->free_count < c->limits.depth) {
		i->free_slots[i->free_count] = c->limits.depth - 1 - i->free_count;
		i->free_count++;
	}
	*out = i;
	return WEFT_OK;
}

void iscsi_initiator_destroy(struct iscsi_initiator *i)
{
	CHECK(!i->has_port);
	timer_queue_fini(&i->timers);
	free(i->slots);
	free(i->free_slots);
	free(i->text_in.bytes);
	free(i->text_out.bytes);
	free(i);
}

/* ---- Login ---------------------------------------------------------------------------------- */

static void login_end(struct iscsi_initiator *i)
{
	if (i->has_login)
		iscsi_login_fini(&i->login);
	i->has_login = false;
}

void session_close(struct iscsi_initiator *i, enum weft_reason reason)
{
	if (!i->has_port || i->state == ISCSI_SESSION_CLOSING)
		return;
	i->why = reason;
	login_end(i);
	timer_queue_cancel(&i->timers, &i->ping);
	session_move(i, ISCSI_SESSION_CLOSING);
	i->calls->close(i->port);
}

static bool send_login(struct iscsi_initiator *i, const struct iscsi_login_pdu *l)
{
	struct iscsi_pdu pdu = {
		.opcode = ISCSI_LOGIN_REQUEST,
		.is_immediate = true,
		.is_final = l->is_transit,
		.is_continued = l->is_continued,
		.csg = l->stage,
		.nsg = l->next_stage,
		.version_max = l->version_max,
		.version = l->version,
		.tsih = l->tsih,
		.cid = l->cid,
		.itt = l->itt,
	};

	for (uint32_t k = 0; k < ISCSI_ISID_BYTES; k++)
		pdu.isid = pdu.isid << 8 | l->isid[k];
	return session_send_control(i, &pdu, l->text, l->length);
}

/* RFC 7143 section 11.13.5: an error of the initiator is one again the next time. */
static bool is_final_refusal(const struct iscsi_initiator *i)
{
	enum weft_reason reason = iscsi_login_reason(&i->login);

	return reason != WEFT_R_CONNECT_CLOSED && reason != WEFT_R_CONNECT_TIMEOUT &&
	       !(reason == WEFT_R_ISCSI_REFUSED && i->login_status >> 8 == 3);
}

static void established(struct iscsi_initiator *i, uint64_t now_ns)
{
	i->params = *iscsi_login_params(&i->login);
	login_end(i);
	i->counts.logins++;
	i->redirects = 0;
	session_move(i, ISCSI_SESSION_FULL);
	session_event(i, ISCSI_EVENT_LOGIN);
	i->calls->agreed(i->port, &i->params);
	i->heard_ns = now_ns;
	timer_queue_set(&i->timers, &i->ping,
			deadline_after(now_ns, i->config.limits.ping_after_ns));
	session_send(i, now_ns);
}

/* RFC 7143 section 6.3: the target is at another address now, or is for good. */
static void moved(struct iscsi_initiator *i)
{
	struct word address = iscsi_login_address(&i->login);

	memcpy(i->address.text, address.at, address.length);
	i->address.length = (uint8_t)address.length;
	if (i->login_status == ISCSI_STATUS_MOVED_PERMANENTLY)
		i->home = i->address;
	i->counts.redirects++;
	if (++i->redirects > i->config.recovery.redirects_max) {
		i->is_last = true;
		i->last = WEFT_R_ISCSI_REDIRECTS;
	}
	i->is_moved = true;
	session_close(i, i->is_last ? i->last : WEFT_R_ISCSI_MOVED);
}

static void login_event(struct iscsi_initiator *i, enum iscsi_login_event event, uint64_t now_ns)
{
	i->login_status = iscsi_login_status(&i->login);
	switch (event) {
	case ISCSI_LOGIN_ESTABLISHED:
		established(i, now_ns);
		break;
	case ISCSI_LOGIN_MOVED:
		moved(i);
		break;
	default:
		if (is_final_refusal(i) && !i->is_last) {
			i->is_last = true;
			i->last = iscsi_login_reason(&i->login);
		}
		session_close(i, iscsi_login_reason(&i->login));
		break;
	}
}

void session_login_step(struct iscsi_initiator *i, uint64_t now_ns)
{
	struct iscsi_login_pdu pdu;
	enum iscsi_login_event event;

	if (iscsi_login_say(&i->login, &pdu) && !send_login(i, &pdu)) {
		session_close(i, WEFT_R_QUEUE_FULL);
		return;
	}
	event = iscsi_login_event(&i->login);
	if (event != ISCSI_LOGIN_NONE)
		login_event(i, event, now_ns);
}

static void connection_init(struct iscsi_initiator *i)
{
	i->why = WEFT_OK;
	i->has_stat_sn = i->is_paused = i->has_abandoned = false;
	i->exp_stat_sn = 0;
	i->answer_count = 0;
	i->login_status = 0;
	i->is_logout_due = false;
	i->pause_ns = 0;
	/* Each login makes the session anew (section 6.3.5): the sequence begins again. */
	i->cmd_sn = 1;
	i->window = (struct iscsi_window){ i->cmd_sn, i->cmd_sn - 1 };
}

void iscsi_initiator_begin(struct iscsi_initiator *i, const struct iscsi_port_calls *calls,
			   void *port, const uint8_t random[CHAP_RANDOM_BYTES], uint64_t now_ns)
{
	const struct iscsi_initiator_config *c = &i->config;
	struct iscsi_login_limits limits = {
		.in = i->text_in,
		.out = i->text_out,
		.piece_bytes_max = ISCSI_TEXT_MIN,
		.timeout_ns = c->limits.login_ns,
	};
	struct iscsi_login_request request = {
		.initiator_name = c->initiator_name,
		.initiator_alias = c->initiator_alias,
		.target_name = c->target_name,
		.itt = calls->tag_first,
		.portal_group_tag = c->portal_group_tag,
		.chap = c->chap,
		.allows_none = c->allows_none,
		.keys = { .is_discovery = c->is_discovery,
			  .needs_rdma = c->needs_rdma,
			  .wish = c->wish },
	};
	enum weft_reason reason;

	CHECK(i->state == ISCSI_SESSION_CONNECTING && calls->tag_count >= ISCSI_PORT_TAGS_MIN);
	connection_init(i);
	i->calls = calls;
	i->port = port;
	i->has_port = true;
	i->tag_next = 1;
	request.cmd_sn = i->cmd_sn;
	memcpy(limits.random, random, CHAP_RANDOM_BYTES);
	memcpy(request.isid, c->isid, ISCSI_ISID_BYTES);
	if (i->is_last) {
		session_close(i, i->last);
		return;
	}
	session_move(i, ISCSI_SESSION_LOGIN);
	reason = iscsi_login_init_initiator(&i->login, &limits, &request, now_ns);
	i->has_login = true;
	if (reason != WEFT_OK) {
		i->is_last = true;
		i->last = reason;
		session_close(i, reason);
		return;
	}
	timer_queue_set(&i->timers, &i->timer, iscsi_login_due(&i->login));
	session_login_step(i, now_ns);
}

/* ---- Loss and recovery ---------------------------------------------------------------------- */

static void end_session(struct iscsi_initiator *i)
{
	session_move(i, ISCSI_SESSION_ENDED);
	session_requests_end(i, i->last == WEFT_OK ? WEFT_R_ISCSI_ENDED : i->last);
	session_event(i, ISCSI_EVENT_ENDED);
}

/* No login has succeeded yet, or too many attempts have failed since the target last answered. */
static bool is_given_up(struct iscsi_initiator *i)
{
	if (i->counts.logins == 0 || i->config.recovery.reconnects_max == 0)
		i->last = i->lost_reason;
	else if (i->attempts > i->config.recovery.reconnects_max)
		i->last = WEFT_R_ISCSI_GONE;
	else
		return false;
	return true;
}

/* The first attempt after Time2Wait, later ones at longer and longer intervals. */
static uint64_t pause_of(const struct iscsi_initiator *i)
{
	uint64_t time2wait_ns = i->params.session.time2wait_s * SECOND_NS;
	uint64_t pause_ns = i->pause_ns > time2wait_ns ? i->pause_ns : time2wait_ns;
	uint64_t late_ns = (i->attempts - 1) * i->config.limits.reconnect_ns;

	return pause_ns > late_ns ? pause_ns : late_ns;
}

void iscsi_initiator_lost(struct iscsi_initiator *i, enum weft_reason reason, uint64_t now_ns)
{
	bool had_port = i->has_port, is_moved = i->is_moved;

	CHECK(had_port || i->state == ISCSI_SESSION_CONNECTING);
	i->lost_reason = i->state == ISCSI_SESSION_CLOSING ? i->why : reason;
	i->has_port = i->is_moved = false;
	login_end(i);
	timer_queue_cancel(&i->timers, &i->ping);
	if (i->is_last) {
		/* Requests that were not answered end for the reason of the session's end. */
		session_requests_lost(i, i->last == WEFT_OK ? WEFT_R_ISCSI_ENDED : i->last);
		end_session(i);
		return;
	}
	if (is_moved) {
		session_move(i, ISCSI_SESSION_WANTING);
		return;
	}
	i->counts.losses++;
	i->attempts++;
	i->address = i->home;
	i->is_last = is_given_up(i);
	session_requests_lost(i, i->is_last ? i->last : i->lost_reason);
	if (i->is_last) {
		end_session(i);
		return;
	}
	session_event(i, ISCSI_EVENT_LOST);
	session_move(i, ISCSI_SESSION_PAUSING);
	timer_queue_set(&i->timers, &i->timer, deadline_after(now_ns, pause_of(i)));
}

/* ---- Logout --------------------------------------------------------------------------------- */

void session_drain(struct iscsi_initiator *i, uint64_t limit_ns, uint64_t now_ns)
{
	if (i->state != ISCSI_SESSION_FULL)
		return;
	session_move(i, ISCSI_SESSION_DRAINING);
	timer_queue_set(&i->timers, &i->timer, deadline_after(now_ns, limit_ns));
	session_send(i, now_ns);
}

void iscsi_initiator_logout(struct iscsi_initiator *i, uint64_t now_ns)
{
	if (i->is_last)
		return;
	i->is_last = true;
	i->last = WEFT_OK;
	if (i->state == ISCSI_SESSION_WANTING || i->state == ISCSI_SESSION_PAUSING)
		end_session(i);
	else if (i->state == ISCSI_SESSION_FULL)
		session_drain(i, i->config.limits.logout_ns, now_ns);
	else if (i->state == ISCSI_SESSION_LOGIN)
		session_close(i, WEFT_R_ISCSI_ENDED);
}

void iscsi_initiator_end(struct iscsi_initiator *i, enum weft_reason reason, uint64_t now_ns)
{
	(void)now_ns;
	if (i->state == ISCSI_SESSION_ENDED)
		return;
	i->is_last = true;
	i->last = reason;
	if (i->state == ISCSI_SESSION_WANTING || i->state == ISCSI_SESSION_PAUSING)
		end_session(i);
	else
		session_close(i, reason);
}

/* ---- Time ----------------------------------------------------------------------------------- */

uint64_t iscsi_initiator_due(const struct iscsi_initiator *i)
{
	return timer_queue_due(&i->timers);
}

/* The time limit of the state. */
static void state_due(struct iscsi_initiator *i, uint64_t now_ns)
{
	switch (i->state) {
	case ISCSI_SESSION_LOGIN:
		iscsi_login_expire(&i->login, now_ns);
		session_login_step(i, now_ns);
		break;
	case ISCSI_SESSION_DRAINING:
		/* The second time: the port had no room for the Logout Request. */
		if (i->is_logout_due) {
			session_close(i, WEFT_R_ISCSI_SILENT);
			break;
		}
		i->is_logout_due = true;
		timer_queue_set(&i->timers, &i->timer,
				deadline_after(now_ns, i->config.limits.logout_ns));
		session_send(i, now_ns);
		break;
	case ISCSI_SESSION_LOGOUT:
		session_close(i, WEFT_R_ISCSI_SILENT);
		break;
	default:
		session_move(i, ISCSI_SESSION_WANTING);
		break;
	}
}

void iscsi_initiator_expire(struct iscsi_initiator *i, uint64_t now_ns)
{
	struct timer *t;

	/* Each timer that is taken was set before; those set in the loop lie in the future. */
	while ((t = timer_queue_expire(&i->timers, now_ns)) != NULL) {
		if (t == &i->timer)
			state_due(i, now_ns);
		else if (t == &i->ping)
			session_ping_due(i, now_ns);
		else
			session_overdue(i, CONTAINER_OF(t, struct iscsi_request, timer), now_ns);
	}
}

/* ---- Events and queries --------------------------------------------------------------------- */

static bool take_event(struct iscsi_initiator *i, enum iscsi_event_kind kind)
{
	bool is_there = i->events & 1U << kind;

	i->events &= ~(1U << kind);
	return is_there;
}

bool iscsi_initiator_event(struct iscsi_initiator *i, struct iscsi_event *e)
{
	*e = (struct iscsi_event){ .login_status = i->login_status };
	if (take_event(i, ISCSI_EVENT_LOST)) {
		e->kind = ISCSI_EVENT_LOST;
		e->reason = i->lost_reason;
	} else if (take_event(i, ISCSI_EVENT_LOGIN)) {
		e->kind = ISCSI_EVENT_LOGIN;
	} else if (take_event(i, ISCSI_EVENT_SCSI)) {
		e->kind = ISCSI_EVENT_SCSI;
		e->lun = i->event_lun;
		e->sense = i->event_sense;
		e->sense_bytes = i->event_sense_bytes;
	} else if (i->state == ISCSI_SESSION_WANTING) {
		e->kind = ISCSI_EVENT_CONNECT;
		e->address = (struct word){ i->address.text, i->address.length };
		session_move(i, ISCSI_SESSION_CONNECTING);
	} else if (take_event(i, ISCSI_EVENT_ENDED)) {
		e->kind = ISCSI_EVENT_ENDED;
		e->reason = i->last;
	} else {
		return false;
	}
	return true;
}

const struct iscsi_initiator_counts *iscsi_initiator_counts(const struct iscsi_initiator *i)
{
	return &i->counts;
}

enum iscsi_initiator_state iscsi_initiator_state(const struct iscsi_initiator *i)
{
	return i->state;
}

const struct iscsi_params *iscsi_initiator_params(const struct iscsi_initiator *i)
{
	return &i->params;
}
