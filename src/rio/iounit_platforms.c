/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "rio/iounit_parts.h"

static bool is_used(const struct unit_platform *p)
{
	return p->state != PLATFORM_FREE;
}

struct unit_platform *unit_platform_find(struct rio_iounit *u, struct platform name)
{
	for (uint32_t i = 0; i < u->platform_count; i++) {
		struct unit_platform *p = &u->platforms[i];

		if (is_used(p) && !p->is_revoked && platform_is_same(p->name, name))
			return p;
	}
	return NULL;
}

/* RIO-14: without a platform the memory is this unit's own. */
struct unit_platform *unit_platform_of(struct rio_iounit *u, const struct rio_segment *s)
{
	return unit_platform_find(u, s->where == RIO_OWN ? u->config.self : s->platform);
}

struct unit_platform *unit_platform_for(struct rio_iounit *u, const struct unit_command *c,
					const struct rio_segment *s)
{
	struct unit_platform *p = unit_platform_of(u, s);

	return p && p->grant <= c->grants ? p : NULL;
}

static void wants_act(struct rio_iounit *u, struct unit_platform *p)
{
	if (!list_is_linked(&p->link))
		list_add_tail(&u->platforms_due, &p->link);
}

/* Wakes all waiters of the platform. */
static void wake(struct rio_iounit *u, struct unit_platform *p)
{
	while (!list_is_empty(&p->waiting))
		list_add_tail(&u->movers, list_pop(&p->waiting));
}

/* Frees the slot of a revoked platform once no connection and no move uses it. */
static void tidy(struct unit_platform *p)
{
	if (p->is_revoked && p->moves == 0 && p->state == PLATFORM_GRANTED)
		p->state = PLATFORM_FREE;
}

enum weft_reason unit_platform_grant(struct rio_iounit *u, const struct rio_grant *grant)
{
	struct unit_platform *p = NULL;

	if (platform_is_same(grant->requester, u->config.self))
		return WEFT_R_RIO_UNEXPECTED;
	/* A platform that was just revoked may still have its slot. */
	for (uint32_t i = 0; i < u->platform_count; i++) {
		struct unit_platform *slot = &u->platforms[i];

		if (is_used(slot) && platform_is_same(slot->name, grant->requester))
			p = slot;
		else if (!is_used(slot) && !p)
			p = slot;
	}
	if (!p)
		return WEFT_R_LIMIT;
	if (!is_used(p)) {
		p->name = grant->requester;
		p->state = PLATFORM_GRANTED;
	}
	p->is_revoked = false;
	p->is_anew = p->state == PLATFORM_LEAVING;
	p->grant = ++u->grants;
	memcpy(p->token, grant->token, sizeof(p->token));
	p->counter = 0;
	p->address = grant->address;
	return WEFT_OK;
}

void unit_platform_revoke(struct rio_iounit *u, struct platform name)
{
	struct unit_platform *p = unit_platform_find(u, name);

	if (!p || platform_is_same(name, u->config.self))
		return;
	p->is_revoked = true;
	unit_platform_hang_up(u, p);
	wake(u, p); /* waiters find the platform revoked */
	tidy(p);
}

void unit_platform_hang_up(struct rio_iounit *u, struct unit_platform *p)
{
	if (p->state == PLATFORM_UP || p->state == PLATFORM_DIALLING) {
		p->state = PLATFORM_LEAVING;
		wants_act(u, p);
	} else if (p->state == PLATFORM_WANTED) {
		p->state = PLATFORM_GRANTED;
	}
}

bool unit_platform_is_ready(struct rio_iounit *u, struct unit_platform *p, struct unit_waiter *w)
{
	if (p->state == PLATFORM_UP && p->moves < u->config.moves_max)
		return true;
	if (p->state == PLATFORM_GRANTED) {
		p->state = PLATFORM_WANTED;
		wants_act(u, p);
	}
	list_add_tail(&p->waiting, &w->link);
	return false;
}

void unit_platforms_nudge(struct rio_iounit *u)
{
	for (uint32_t i = 0; i < u->platform_count; i++) {
		struct unit_platform *p = &u->platforms[i];

		if (p->state == PLATFORM_UP && p->moves < u->config.moves_max)
			wake(u, p);
	}
}

void unit_platform_move_done(struct rio_iounit *u, struct unit_platform *p)
{
	p->moves--;
	if (!list_is_empty(&p->waiting) && p->state == PLATFORM_UP)
		list_add_tail(&u->movers, list_pop(&p->waiting));
	tidy(p);
}

/* ---- What has come -------------------------------------------------------------------------- */

/* Fails all waiters of the platform. */
static void fail_waiting(struct rio_iounit *u, struct unit_platform *p, enum weft_reason reason)
{
	while (!list_is_empty(&p->waiting)) {
		struct unit_waiter *w = CONTAINER_OF(list_pop(&p->waiting), struct unit_waiter,
						     link);

		if (w->is_piece)
			unit_piece_refused(u, CONTAINER_OF(w, struct unit_piece, waiter), reason);
		else
			unit_command_fail(u, CONTAINER_OF(w, struct unit_command, waiter), reason);
	}
}

/* The platform may be dialled again, but the waiters of the lost connection fail. */
static void end_connection(struct rio_iounit *u, struct unit_platform *p, enum weft_reason reason)
{
	bool is_anew = p->is_anew;

	p->state = PLATFORM_GRANTED;
	p->is_anew = false;
	list_remove(&p->link);
	if (is_anew)
		wake(u, p);
	else
		fail_waiting(u, p, reason);
}

/* The slot of a connection, even if the platform is no longer granted. */
static struct unit_platform *slot_of(struct rio_iounit *u, struct platform name)
{
	for (uint32_t i = 0; i < u->platform_count; i++) {
		struct unit_platform *p = &u->platforms[i];

		if (is_used(p) && p->state != PLATFORM_GRANTED && platform_is_same(p->name, name))
			return p;
	}
	return NULL;
}

/* The answer must come from the platform that was asked, and match this question. */
static enum weft_reason answer_check(const struct rio_iounit *u, const struct unit_platform *p,
				     const struct rio_bytes *answer)
{
	struct rio_data d;
	enum rio_msg_err err = rio_data_decode(&d, answer->bytes, answer->length);

	if (err != RIO_MSG_OK)
		return refusal_of_msg(err);
	if (!rio_seal_is_true(p->token, answer->bytes, RIO_DATA_SEALED_BYTES, d.seal))
		return WEFT_R_RIO_FORGED;
	if (!d.is_answer || d.counter != p->counter || !platform_is_same(d.from, p->name) ||
	    !platform_is_same(d.to, u->config.self) ||
	    memcmp(d.nonce, p->nonce, sizeof(d.nonce)) != 0)
		return WEFT_R_RIO_UNEXPECTED;
	return WEFT_OK;
}

void rio_iounit_dialled(struct rio_iounit *u, struct platform platform, enum weft_reason reason,
			const struct rio_bytes *answer)
{
	struct unit_platform *p = slot_of(u, platform);

	if (!p || (p->state != PLATFORM_DIALLING && p->state != PLATFORM_LEAVING))
		return;
	if (p->state == PLATFORM_LEAVING && reason == WEFT_OK)
		return; /* HANG_UP is due: rio_iounit_lost() follows */
	if (reason != WEFT_OK) {
		end_connection(u, p, reason);
	} else {
		reason = answer_check(u, p, answer);
		p->state = PLATFORM_UP;
		p->connections++;
		rio_session_of_data(&p->session, p->token, p->nonce);
		if (reason == WEFT_OK) {
			wake(u, p);
		} else {
			unit_platform_hang_up(u, p);
			fail_waiting(u, p, reason);
		}
	}
	tidy(p);
	unit_run(u);
}

void rio_iounit_lost(struct rio_iounit *u, struct platform platform)
{
	struct unit_platform *p = slot_of(u, platform);

	if (!p || (p->state != PLATFORM_UP && p->state != PLATFORM_LEAVING))
		return;
	end_connection(u, p, WEFT_R_PEER_GONE);
	tidy(p);
	unit_run(u);
}

/* ---- What is to be done --------------------------------------------------------------------- */

/* The nonce must be unique, not secret: the counter makes it unique. */
static void ask(struct rio_iounit *u, struct unit_platform *p, struct rio_act *act)
{
	struct rio_data d = { .from = u->config.self, .to = p->name, .counter = ++p->counter };

	/* The nonce is the seal of the question without a nonce. */
	rio_data_encode(&d, p->question);
	rio_seal(p->token, p->question, RIO_DATA_SEALED_BYTES, d.nonce);
	memcpy(p->nonce, d.nonce, sizeof(p->nonce));
	rio_data_encode(&d, p->question);
	rio_seal(p->token, p->question, RIO_DATA_SEALED_BYTES, p->question + RIO_DATA_SEALED_BYTES);
	p->state = PLATFORM_DIALLING;
	*act = (struct rio_act){
		.kind = RIO_ACT_DIAL,
		.platform = p->name,
		.address = p->address,
		.bytes = p->question,
		.length = sizeof(p->question),
	};
}

bool unit_platform_act(struct rio_iounit *u, struct rio_act *act)
{
	while (!list_is_empty(&u->platforms_due)) {
		struct unit_platform *p = CONTAINER_OF(list_pop(&u->platforms_due),
						       struct unit_platform, link);

		if (p->state == PLATFORM_WANTED) {
			ask(u, p, act);
			return true;
		}
		if (p->state == PLATFORM_LEAVING) {
			*act = (struct rio_act){ .kind = RIO_ACT_HANG_UP, .platform = p->name };
			return true;
		}
	}
	return false;
}
