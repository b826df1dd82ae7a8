/* SPDX-License-Identifier: BSD-2-Clause */
#include <sodium/utils.h>
#include <stdlib.h>
#include <string.h>

#include "rio/iounit_parts.h"

enum { BLOCK = 4096, NOTIFIED_MAX = 64 };

/* ---- Life ----------------------------------------------------------------------------------- */

static bool config_is_good(const struct rio_iounit_config *c)
{
	return c->devices_max > 0 && c->devices_max <= UNIT_DEVICES_MAX && c->commands_max > 0 &&
	       c->platforms_max > 0 && c->moves_max > 0 && c->pieces_max > 0 && c->buffers &&
	       c->piece_bytes > 0 && c->piece_bytes % BLOCK == 0 && !platform_is_none(c->self);
}

static void lists_init(struct rio_iounit *u)
{
	struct list *const heads[] = { &u->free_commands, &u->free_pieces,  &u->free_moves,
				       &u->ready,	  &u->hungry,	    &u->fenced,
				       &u->movers,	  &u->saying,	    &u->telling,
				       &u->notified,	  &u->platforms_due };

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		list_init(heads[i]);
	for (uint32_t i = 0; i < u->config.commands_max; i++)
		list_add_tail(&u->free_commands, &u->commands[i].waiter.link);
	for (uint32_t i = 0; i < u->move_count; i++)
		list_add_tail(&u->free_moves, &u->moves[i].link);
	for (uint32_t i = 0; i < u->platform_count; i++) {
		list_init(&u->platforms[i].waiting);
		list_init(&u->platforms[i].link);
	}
	/* The unit's own memory is always reachable. */
	u->platforms[0].name = u->config.self;
	u->platforms[0].state = PLATFORM_UP;
	u->platforms[0].connections = 1;
	for (uint32_t i = 0; i < u->config.pieces_max; i++) {
		u->pieces[i].waiter.is_piece = true;
		u->pieces[i].buffer = u->config.buffers + (size_t)i * u->config.piece_bytes;
		list_add_tail(&u->free_pieces, &u->pieces[i].waiter.link);
	}
}

static bool slots_create(struct rio_iounit *u)
{
	const struct rio_list_limits limits = rio_list_limits_default();
	const struct rio_iounit_config *c = &u->config;

	u->platform_count = c->platforms_max + 1; /* one more: the unit itself */
	/* moves_max for each platform; one list fetch from the owner for each command. */
	u->move_count = u->platform_count * c->moves_max + c->commands_max;
	u->commands = calloc(c->commands_max, sizeof(*u->commands));
	u->pieces = calloc(c->pieces_max, sizeof(*u->pieces));
	u->platforms = calloc(u->platform_count, sizeof(*u->platforms));
	u->moves = calloc(u->move_count, sizeof(*u->moves));
	if (!u->commands || !u->pieces || !u->platforms || !u->moves ||
	    timer_queue_init(&u->timers, c->commands_max) < 0)
		return false;
	for (uint32_t i = 0; i < c->commands_max; i++) {
		u->commands[i].list = rio_list_create(&limits);
		if (!u->commands[i].list)
			return false;
	}
	return true;
}

enum weft_reason rio_iounit_create(const struct rio_iounit_config *config,
				   struct rio_iounit **iounit)
{
	struct rio_iounit *u;

	if (!config_is_good(config))
		return WEFT_R_BAD_ARGUMENT;
	u = calloc(1, sizeof(*u));
	if (!u)
		return WEFT_R_NO_MEMORY;
	u->config = *config;
	if (!slots_create(u)) {
		rio_iounit_destroy(u);
		return WEFT_R_NO_MEMORY;
	}
	lists_init(u);
	*iounit = u;
	return WEFT_OK;
}

void rio_iounit_destroy(struct rio_iounit *u)
{
	for (uint32_t i = 0; u->commands && i < u->config.commands_max; i++)
		rio_list_destroy(u->commands[i].list);
	timer_queue_fini(&u->timers);
	/* Wipe tokens and keys before the memory is freed. */
	if (u->platforms)
		sodium_memzero(u->platforms, u->platform_count * sizeof(*u->platforms));
	free(u->commands);
	free(u->pieces);
	free(u->platforms);
	free(u->moves);
	sodium_memzero(u, sizeof(*u));
	free(u);
}

bool rio_iounit_is_idle(const struct rio_iounit *u)
{
	return u->commands_now == 0 && u->pieces_now == 0 && u->moves_under_way == 0;
}

enum weft_reason rio_iounit_add_device(struct rio_iounit *u, uint32_t number, const char *name,
				       struct store *store, uint64_t instance)
{
	struct unit_device *d = &u->devices[u->device_count];
	size_t length = strlen(name);

	if (length == 0 || length > sizeof(d->name))
		return WEFT_R_BAD_ARGUMENT;
	if (u->device_count == u->config.devices_max)
		return WEFT_R_LIMIT;
	for (uint32_t i = 0; i < u->device_count; i++) {
		if (u->devices[i].number == number)
			return WEFT_R_BUSY;
	}
	d->store = store;
	d->instance = instance;
	d->number = number;
	memcpy(d->name, name, length);
	d->name_bytes = (uint32_t)length;
	d->pieces = 0;
	list_init(&d->hungry);
	u->device_count++;
	return WEFT_OK;
}

/* ---- What has come -------------------------------------------------------------------------- */

/*
 * The next command that can continue. Devices take turns, so that no command starves for a buffer.
 */
static struct list *next_ready(struct rio_iounit *u)
{
	if (!list_is_empty(&u->ready))
		return list_pop(&u->ready);
	if (!list_is_empty(&u->hungry) && unit_piece_is_free(u, NULL))
		return list_pop(&u->hungry);
	for (uint32_t i = 0; i < u->device_count; i++) {
		struct unit_device *d = &u->devices[++u->turn % u->device_count];

		if (!list_is_empty(&d->hungry) && unit_piece_is_free(u, d))
			return list_pop(&d->hungry);
	}
	return NULL;
}

/* Bound: each iteration starts a piece, ends a command, or leaves one waiting. */
void unit_run(struct rio_iounit *u)
{
	struct list *l;

	while ((l = next_ready(u)) != NULL)
		unit_command_go_on(u, CONTAINER_OF(l, struct unit_command, waiter.link));
}

void rio_iounit_owner_came(struct rio_iounit *u, struct platform owner,
			   const struct rio_session *session)
{
	rio_iounit_owner_left(u);
	u->has_owner = true;
	u->is_devices_due = true;
	u->owner = owner;
	u->session = *session;
}

void rio_iounit_owner_left(struct rio_iounit *u)
{
	u->has_owner = false;
	u->is_pong_due = false;
	for (uint32_t i = 0; i < u->config.commands_max; i++) {
		struct unit_command *c = &u->commands[i];

		if (c->state == COMMAND_FREE)
			continue;
		if (!c->is_dropped)
			u->dropped++;
		c->is_dropped = true;
		if (c->state == COMMAND_SAYING)
			unit_command_free(u, c);
		else
			unit_command_give_up(u, c, WEFT_R_RIO_OWNER_LEFT);
	}
	/* The former owner's grants end with it. */
	for (uint32_t i = 0; i < u->platform_count; i++)
		unit_platform_revoke(u, u->platforms[i].name);
	unit_run(u);
}

void rio_iounit_hurry(struct rio_iounit *u)
{
	u->is_hurried = true;
	u->notify_ns = u->now_ns;
}

/* Ids usually grow, so that no search is needed. */
static bool is_outstanding(struct rio_iounit *u, uint64_t id)
{
	bool is_new = u->commands_now == 0 || id > u->newest_id;

	if (is_new)
		u->newest_id = id;
	return !is_new && unit_command_find(u, id);
}

static enum weft_reason take_command(struct rio_iounit *u, const struct rio_msg *m)
{
	/*
	 * An owner must keep to the announced limit, and must not reuse the id of an outstanding
	 * command.
	 */
	if (list_is_empty(&u->free_commands) || is_outstanding(u, m->id))
		return WEFT_R_RIO_UNEXPECTED;
	unit_command_begin(u, m->id, &m->request);
	return WEFT_OK;
}

static enum weft_reason take(struct rio_iounit *u, const struct rio_msg *m)
{
	struct unit_command *c;
	enum weft_reason r;

	switch (m->type) {
	case RIO_COMMAND:
		return take_command(u, m);
	case RIO_GRANT:
		r = unit_platform_grant(u, &m->grant);
		/*
		 * Do not drop the owner for one grant too many: commands that need it are refused.
		 */
		return r == WEFT_R_LIMIT ? WEFT_OK : r;
	case RIO_REVOKE:
		unit_platform_revoke(u, m->revoked);
		return WEFT_OK;
	case RIO_CANCEL:
		c = unit_command_find(u, m->id);
		if (c) /* NULL: it has ended */
			unit_command_give_up(u, c, WEFT_R_RIO_CANCELLED);
		return WEFT_OK;
	case RIO_PING:
		u->is_pong_due = true; /* one PONG answers all PINGs */
		u->pong_id = m->id;
		return WEFT_OK;
	case RIO_PONG:
		return WEFT_OK;
	default:
		return WEFT_R_RIO_UNEXPECTED;
	}
}

enum weft_reason rio_iounit_take(struct rio_iounit *u, const uint8_t *bytes, size_t length,
				 uint64_t now_ns)
{
	struct rio_msg m;
	enum weft_reason r;

	u->now_ns = now_ns;
	if (!u->has_owner)
		return WEFT_R_RIO_UNEXPECTED;
	r = rio_session_open(&u->session, bytes, length, &m);
	if (r == WEFT_OK)
		r = take(u, &m);
	unit_run(u);
	return r;
}

/* Abandons a command that timed out, and closes connections on which its moves are stuck. */
static void command_late(struct rio_iounit *u, struct unit_command *c)
{
	for (uint32_t i = 0; i < u->platform_count; i++) {
		struct unit_platform *p = &u->platforms[i];

		for (uint32_t k = 0; k < u->move_count && p->moves > 0; k++) {
			if (u->moves[k].command == c && u->moves[k].platform == p)
				unit_platform_hang_up(u, p);
		}
	}
	c->is_late = true;
	if (c->state == COMMAND_SETTLING)
		list_remove(&c->waiter.link);
	unit_command_give_up(u, c, WEFT_R_RIO_TIMEOUT);
}

/* False: no device had a completion. */
static bool take_done(struct rio_iounit *u)
{
	bool has_done = false;

	u->has_submitted = false;
	for (uint32_t i = 0; i < u->device_count; i++) {
		struct store *store = u->devices[i].store;
		struct store_request *r;

		if (store_due(store) <= u->now_ns)
			store_expire(store, u->now_ns);
		while ((r = store_next_done(store, u->now_ns)) != NULL) {
			unit_piece_stored(u, CONTAINER_OF(r, struct unit_piece, request));
			has_done = true;
		}
	}
	unit_run(u);
	return has_done;
}

void rio_iounit_progress(struct rio_iounit *u, uint64_t now_ns)
{
	struct timer *t;

	u->now_ns = now_ns;
	/* Bound: completions let commands continue, and every command ends. */
	while (take_done(u))
		;
	while ((t = timer_queue_expire(&u->timers, now_ns)) != NULL)
		command_late(u, CONTAINER_OF(t, struct unit_command, timer));
	unit_run(u);
}

uint64_t rio_iounit_due(const struct rio_iounit *u)
{
	uint64_t due = timer_queue_due(&u->timers);

	if (!list_is_empty(&u->notified) && u->notify_ns < due)
		due = u->notify_ns;
	for (uint32_t i = 0; i < u->device_count; i++) {
		uint64_t of = store_due(u->devices[i].store);

		due = of < due ? of : due;
	}
	return due;
}

/* ---- What is to be done --------------------------------------------------------------------- */

static uint32_t flags_of(const struct store_shape *shape)
{
	return (shape->is_readonly ? RIO_DEVICE_READ_ONLY : 0U) |
	       (shape->can & STORE_CAN_FLUSH ? RIO_DEVICE_FLUSH : 0U) |
	       (shape->can & STORE_CAN_FUA ? RIO_DEVICE_FUA : 0U) |
	       (shape->can & STORE_CAN_DISCARD ? RIO_DEVICE_DISCARD : 0U) |
	       (shape->can & STORE_CAN_WRITE_ZEROES ? RIO_DEVICE_ZEROES : 0U);
}

static void say(struct rio_iounit *u, const struct rio_msg *m, struct rio_act *act)
{
	*act = (struct rio_act){
		.kind = RIO_ACT_SAY,
		.platform = u->owner,
		.bytes = u->message,
		.length = rio_session_close(&u->session, m, u->message, sizeof(u->message)),
	};
	CHECK(act->length > 0);
}

static void say_devices(struct rio_iounit *u, struct rio_act *act)
{
	uint8_t entries[RIO_MSG_BYTES_MAX];
	struct wr w = wr_of(entries, sizeof(entries));

	for (uint32_t i = 0; i < u->device_count; i++) {
		const struct unit_device *d = &u->devices[i];

		rio_device_put(
			&(struct rio_device){ .number = d->number,
					      .block_bytes = d->store->shape.block_bytes,
					      .flags = flags_of(&d->store->shape),
					      .size_bytes = d->store->shape.size_bytes,
					      .instance = d->instance,
					      .name = { (const uint8_t *)d->name, d->name_bytes } },
			&w);
	}
	u->is_devices_due = false;
	say(u,
	    &(struct rio_msg){ .type = RIO_DEVICES,
			       .devices = { .count = u->device_count,
					    .entries = { entries, (size_t)(w.at - entries) } } },
	    act);
}

static void say_status(struct rio_iounit *u, struct unit_command *c, struct rio_act *act)
{
	struct rio_msg m = { .type = RIO_STATUS,
			     .id = c->id,
			     .status = { .reason = (uint32_t)c->reason,
					 .done_bytes = c->done_bytes } };

	if (c->reason != WEFT_OK) {
		m.status.transaction = c->number;
		m.status.text = refusal_text(c->reason);
	}
	say(u, &m, act);
	unit_command_free(u, c);
}

/* Sends a command's status: to its requester first, then to the owner. */
static void saying_act(struct rio_iounit *u, struct rio_act *act)
{
	struct unit_command *c = CONTAINER_OF(u->saying.next, struct unit_command, waiter.link);

	if (c->is_notify_due && unit_command_tell_act(u, c, act))
		unit_command_notified(u, c);
	else
		say_status(u, c, act);
}

/* One message for a batch of notices. */
static void notified_act(struct rio_iounit *u, struct rio_act *act)
{
	uint8_t entries[NOTIFIED_MAX * RIO_NOTIFIED_ENTRY_BYTES];
	struct wr w = wr_of(entries, sizeof(entries));
	struct rio_msg m = { .type = RIO_NOTIFIED };
	struct unit_command *c = CONTAINER_OF(u->notified.next, struct unit_command, waiter.link);

	if (!c->is_notified) {
		say_status(u, c, act);
		return;
	}
	while (!list_is_empty(&u->notified) && m.notified.count < NOTIFIED_MAX) {
		c = CONTAINER_OF(u->notified.next, struct unit_command, waiter.link);
		if (!c->is_notified)
			break;
		rio_notified_put(&(struct rio_notified_entry){ c->id, c->done_bytes }, &w);
		m.notified.count++;
		unit_command_free(u, c);
	}
	m.notified.entries = (struct rio_bytes){ entries, (size_t)(w.at - entries) };
	say(u, &m, act);
}

static bool say_act(struct rio_iounit *u, struct rio_act *act)
{
	if (!u->has_owner)
		return false;
	if (u->is_devices_due && u->dropped == 0) {
		say_devices(u, act);
	} else if (u->is_pong_due) {
		u->is_pong_due = false;
		say(u, &(struct rio_msg){ .type = RIO_PONG, .id = u->pong_id }, act);
	} else if (!list_is_empty(&u->saying)) {
		saying_act(u, act);
	} else if (!list_is_empty(&u->notified) && u->notify_ns <= u->now_ns) {
		notified_act(u, act);
	} else {
		return false;
	}
	return true;
}

/* Bound: a waiter that issues no move leaves the list. */
static bool move_act(struct rio_iounit *u, struct rio_act *act)
{
	while (!list_is_empty(&u->movers)) {
		struct unit_waiter *w = CONTAINER_OF(list_pop(&u->movers), struct unit_waiter,
						     link);
		bool has_act = w->is_piece
				       ? unit_piece_act(
						 u, CONTAINER_OF(w, struct unit_piece, waiter), act)
				       : unit_command_settle_act(
						 u, CONTAINER_OF(w, struct unit_command, waiter),
						 act);

		if (has_act)
			return true;
		unit_run(u);
	}
	return false;
}

/* Bound: each iteration takes a command off the list. */
static bool telling_act(struct rio_iounit *u, struct rio_act *act)
{
	while (!list_is_empty(&u->telling)) {
		struct unit_command *c = CONTAINER_OF(list_pop(&u->telling), struct unit_command,
						      tell_link);

		c->is_notified_behind = unit_command_tell_act(u, c, act);
		if (c->is_notified_behind)
			return true;
		unit_run(u);
	}
	return false;
}

static bool next_act(struct rio_iounit *u, struct rio_act *act)
{
	/* Issuing a move may first need a connection: look at platforms again. */
	return telling_act(u, act) || unit_platform_act(u, act) || move_act(u, act) ||
	       unit_platform_act(u, act) || say_act(u, act);
}

/* Bound: a synchronous completion lets commands continue, and every command ends. */
bool rio_iounit_act(struct rio_iounit *u, struct rio_act *act)
{
	while (!next_act(u, act)) {
		if (!u->has_submitted || !take_done(u))
			return false;
	}
	return true;
}
