/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Automatic path migration. Each packet says by its MigReq whether its sender has migrated, or is
 * ready to:
 *
 *	consumer: REARM		MigReq 0 -->	consumer: REARM
 *			    <-- MigReq 0			both are ARMED
 *	no answer: takes the
 *	alternate path		MigReq 1 -->	takes the alternate path, too
 *
 * The path that was left becomes the alternate one. Packets that were under way on it are still
 * those of the peer, so either path of a connection is heard in every state.
 */
#include "ib/migrate.h"

#include "base/check.h"
#include "ib/port.h"
#include "ib/rc_retry.h"
#include "ib/requester.h"
#include "ib/route.h"

/* Traced by TRACE_PATH_STATE. */
static const uint32_t moves[IB_MIGRATIONS] = {
	[IB_MIGRATED] = 1U << IB_REARM,
	[IB_REARM] = 1U << IB_ARMED | 1U << IB_MIGRATED,
	[IB_ARMED] = 1U << IB_REARM | 1U << IB_MIGRATED,
};

const char *ib_migration_name(uint64_t state)
{
	static const char *const names[IB_MIGRATIONS] = { "MIGRATED", "REARM", "ARMED" };

	return state < IB_MIGRATIONS ? names[state] : "unknown";
}

static void move(struct ib_conn *c, enum ib_migration to)
{
	if (c->migration == to)
		return;
	CHECK(moves[c->migration] & 1U << to);
	note(c, c->qp, TRACE_PATH_STATE, c->migration, to);
	c->migration = to;
	c->is_striping = to == IB_ARMED && c->port->is_striping && c->service == WEFT_RC;
}

static void say(struct ib_conn *c, enum weft_event_kind kind, enum weft_reason reason)
{
	if (c->qp)
		event_raise(&c->qp->adapter->events, &c->qp->events, kind, reason);
}

/* What was timed, and what waits for room, was on the other path. */
static void go_over(struct ib_conn *c)
{
	const struct ib_way now = *c->other;

	*c->other = (struct ib_way){ c->path, c->p_key, c->timeout_ns };
	c->path = now.path;
	c->p_key = now.p_key;
	c->timeout_ns = now.timeout_ns;
	c->migrations++;
	c->req.srtt_ns = 0;
	c->req.is_timed = false;
	conn_note_path(c);
	move(c, IB_MIGRATED);
	conn_ready(c);
	say(c, WEFT_EVENT_PATH_MIGRATED, WEFT_OK);
}

/* ---- The consumer --------------------------------------------------------------------------- */

enum weft_reason migrate_check(const struct ib_conn *c, const struct ib_config *k, uint32_t fields)
{
	bool is_loaded = fields & IB_ALTERNATE;

	if (!(fields & (IB_ALTERNATE | IB_MIGRATION)))
		return WEFT_OK;
	if (c->service != WEFT_RC && c->service != WEFT_UC)
		return WEFT_R_WR_SERVICE;
	if (!ib_path_is_local(&c->path) || (is_loaded && !ib_path_is_local(&k->alternate.path)))
		return WEFT_R_PATH_FABRIC;
	if (!(fields & IB_MIGRATION) || k->migration == c->migration)
		return WEFT_OK;
	if (k->migration == IB_REARM)
		return is_loaded || c->other ? WEFT_OK : WEFT_R_PATH_NONE;
	return k->migration == IB_MIGRATED && c->migration == IB_ARMED ? WEFT_OK
								       : WEFT_R_PATH_STATE;
}

/* A peer that is armed for the alternate path that was need not be for the new one. */
static void load(struct ib_conn *c, const struct ib_alternate *a)
{
	*c->other = (struct ib_way){
		.path = a->path,
		.p_key = a->p_key ? a->p_key : c->port->p_keys[0],
		.timeout_ns = conn_timeout_ns(a->timeout_code),
	};
	c->other->path.mtu_bytes = c->path.mtu_bytes;
	if (c->migration == IB_ARMED)
		move(c, IB_REARM);
}

void migrate_adjust(struct ib_conn *c, const struct ib_config *k, uint32_t fields)
{
	bool is_asked = (fields & IB_MIGRATION) && k->migration != c->migration;

	if (fields & IB_ALTERNATE)
		load(c, &k->alternate);
	if (is_asked && k->migration == IB_REARM)
		move(c, IB_REARM);
	else if (is_asked)
		go_over(c);
}

/* ---- Both paths at once --------------------------------------------------------------------- */

const struct ib_path *migrate_stripe(const struct ib_conn *c, uint32_t psn, bool is_new)
{
	return c->is_striping && is_new && psn % 2 ? &c->other->path : &c->path;
}

void migrate_unstripe(struct ib_conn *c)
{
	c->is_striping = false;
}

bool migrate_is_late(const struct ib_conn *c, uint32_t early, uint32_t expected)
{
	return c->port->is_striping && c->other && (early ^ expected) % 2;
}

/* ---- The network ---------------------------------------------------------------------------- */

bool migrate_away(struct ib_conn *c)
{
	if (c->migration != IB_ARMED)
		return false;
	go_over(c);
	c->req.retries_left = c->retries;
	return true;
}

/*
 * One that is not armed yet may have a peer that is: it has heard us, and its packets until now
 * were lost.
 */
void migrate_heard(struct ib_conn *c, const struct iba_packet *p, const struct ib_in *in)
{
	if (c->migration == IB_MIGRATED)
		return;
	if (!p->is_migrated)
		move(c, IB_ARMED);
	else if (route_is_back(c->port, &c->other->path, in))
		go_over(c);
}

void migrate_strayed(struct ib_conn *c, const struct iba_packet *p)
{
	if (c->migration == IB_ARMED && p->is_migrated)
		say(c, WEFT_EVENT_PATH_REFUSED, WEFT_R_PATH_ALTERNATE);
}
