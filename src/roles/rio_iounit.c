/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs the I/O unit's core (rio/iounit.h) as a process: adapter, connections, devices. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/reserved.h"
#include "rio/iounit.h"
#include "rio/list.h"
#include "roles/device.h"
#include "roles/device_instance.h"
#include "roles/rio_end.h"
#include "wire/rio_text.h"

enum {
	COMMANDS = 256,
	PIECES = 64,
	PIECE_BYTES = 256 << 10,
	PLATFORMS = 32,
	MOVES = 32,
	DEVICES = 64,
	MESSAGES_EXTRA = 64,
	ENDS_EXTRA = 10, /* to itself, the owner's, and ends being replaced */
	LINE = 256
};

static const uint64_t timeout_ns = UINT64_C(60) * 1000 * 1000 * 1000;

struct weft_rio_iounit {
	struct rio_loop loop; /* first member: casts lead from loop to role */
	pthread_mutex_t lock; /* guards everything here while the loop runs */
	struct weft_rio_iounit_options options;
	struct rio_iounit *core;
	struct rio_end *owner; /* NULL: no owner is connected */
	struct device *devices[DEVICES];
	char names[DEVICES][WEFT_RIO_NAME_MAX + 1];
	uint32_t device_count;
	uint8_t *buffers;
	size_t buffers_bytes;
	uint8_t *memory; /* RIO-14: its own, which lists may name; options.memory_bytes */
	uint32_t memory_tag;
};

static struct weft_rio_iounit *unit_of(struct rio_loop *loop)
{
	return CONTAINER_OF(loop, struct weft_rio_iounit, loop);
}

static void tell(struct weft_rio_iounit *u, const char *what, struct platform who,
		 enum weft_reason reason)
{
	char line[LINE];

	if (!u->options.tell)
		return;
	snprintf(line, sizeof(line), "%u.%u %s%s%s", who.unit, who.process, what,
		 reason == WEFT_OK ? "" : ": ", reason == WEFT_OK ? "" : weft_reason_text(reason));
	u->options.tell(u->options.context, line);
}

/* An orderly end is not worth a log entry. */
static enum weft_reason unusual(enum weft_reason reason)
{
	return reason == WEFT_R_PEER_GONE || reason == WEFT_R_PEER_TERMINATED ? WEFT_OK : reason;
}

/* ---- What has happened ---------------------------------------------------------------------- */

/*
 * A new owner with a higher term, or the present owner reconnecting: in both cases the former
 * connection is closed.
 */
static enum weft_reason came(struct rio_loop *loop, struct rio_end *end)
{
	struct weft_rio_iounit *u = unit_of(loop);
	bool is_higher = rio_term_compare(&end->handshake.seen, &loop->self.term) > 0;

	if (rio_handshake_peer(&end->handshake).role != RIO_OWNER)
		return WEFT_R_RIO_UNKNOWN_PEER;
	if (!loop->listener)
		return WEFT_R_RIO_IOUNIT_LEFT; /* this unit is shutting down */
	if (u->owner)
		rio_end_hang_up(u->owner, is_higher ? WEFT_R_RIO_SUPERSEDED : WEFT_R_RIO_TWICE);
	loop->self.term = end->handshake.seen;
	if (is_higher && u->options.keep)
		u->options.keep(u->options.context,
				&(struct weft_rio_term){ loop->self.term.number,
							 loop->self.term.incarnation });
	u->owner = end;
	rio_iounit_owner_came(u->core, end->peer, &end->handshake.greet.session);
	tell(u, "is the owner now", end->peer, WEFT_OK);
	return WEFT_OK;
}

static enum weft_reason message(struct rio_loop *loop, struct rio_end *end, const uint8_t *bytes,
				size_t length)
{
	struct weft_rio_iounit *u = unit_of(loop);

	if (end != u->owner)
		return WEFT_R_RIO_UNEXPECTED;
	return rio_iounit_take(u->core, bytes, length, loop->now_ns);
}

static void connected(struct rio_loop *loop, struct rio_end *end)
{
	struct weft_peer peer = { 0 };
	enum weft_reason r = weft_qp_peer(end->qp, &peer);

	rio_iounit_dialled(unit_of(loop)->core, end->peer, r,
			   &(struct rio_bytes){ peer.private_data, peer.private_bytes });
}

/*
 * The data end failed: a command named invalid memory, or the peer is gone. The next move gets a
 * new connection at once.
 */
static void lose(struct rio_loop *loop, struct rio_end *end, enum weft_reason reason)
{
	struct weft_rio_iounit *u = unit_of(loop);

	if (end->was_lost)
		return;
	end->was_lost = true;
	rio_end_hang_up(end, reason);
	if (end->own_peer) {
		(void)rio_end_own(loop);
		return;
	}
	tell(u, "is no longer connected", end->peer, unusual(end->reason));
	if (end->is_known_to_role)
		rio_iounit_lost(u->core, end->peer);
	else
		rio_iounit_dialled(u->core, end->peer, end->reason, NULL);
}

static void gone(struct rio_loop *loop, struct rio_end *end)
{
	struct weft_rio_iounit *u = unit_of(loop);

	if (end->kind == RIO_END_DATA) {
		lose(loop, end, end->reason);
	} else if (end == u->owner) {
		u->owner = NULL;
		tell(u, "has left, the owner", end->peer, unusual(end->reason));
		rio_iounit_owner_left(u->core);
	}
}

static void refused(struct rio_loop *loop, struct rio_end *end)
{
	struct weft_rio_iounit *u = unit_of(loop);
	char line[LINE];

	if (!u->options.tell)
		return;
	rio_end_refusal_text(end, line, sizeof(line));
	u->options.tell(u->options.context, line);
}

static void moved(struct rio_loop *loop, struct rio_end *end, uint32_t id, enum weft_reason reason)
{
	if (reason != WEFT_OK && end->kind == RIO_END_DATA)
		lose(loop, end, reason);
	rio_iounit_ended(unit_of(loop)->core, id, reason);
}

/* ---- What is to be done --------------------------------------------------------------------- */

static void dial(struct weft_rio_iounit *u, const struct rio_act *act)
{
	const struct weft_address to = rio_address_public(&act->address);
	const struct rio_bytes question = { act->bytes, act->length };
	enum weft_reason r = rio_end_dial_data(&u->loop, act->platform, &to, &question);

	if (r != WEFT_OK)
		rio_iounit_dialled(u->core, act->platform, r, NULL);
}

static struct rio_end *end_for(struct weft_rio_iounit *u, const struct rio_act *act)
{
	if (act->kind == RIO_ACT_FETCH)
		return u->owner;
	return rio_end_find(&u->loop, RIO_END_DATA, act->platform);
}

static void move(struct weft_rio_iounit *u, const struct rio_act *act)
{
	struct rio_move m = { .is_read = act->kind != RIO_ACT_WRITE,
			      .id = act->id,
			      .bytes = act->bytes,
			      .length = (uint32_t)act->length,
			      .handle = act->handle,
			      .remote = act->remote };
	struct rio_end *end = end_for(u, act);
	enum weft_reason r = WEFT_R_PEER_GONE;

	if (end && end->own_peer) {
		m.handle = u->memory_tag;
		m.remote += (uintptr_t)u->memory;
	}
	if (end)
		r = rio_end_move(end, &m);
	if (r != WEFT_OK)
		rio_iounit_ended(u->core, act->id, r);
}

static void act_do(struct weft_rio_iounit *u, const struct rio_act *act)
{
	struct rio_end *end;

	switch (act->kind) {
	case RIO_ACT_SAY:
		if (u->owner)
			rio_end_say(u->owner, act->bytes, act->length);
		break;
	case RIO_ACT_DIAL:
		dial(u, act);
		break;
	case RIO_ACT_TELL:
		end = rio_end_find(&u->loop, RIO_END_DATA, act->platform);
		if (end)
			rio_end_say(end, act->bytes, act->length);
		break;
	case RIO_ACT_HANG_UP:
		end = rio_end_find(&u->loop, RIO_END_DATA, act->platform);
		if (end)
			rio_end_hang_up(end, WEFT_R_PEER_GONE);
		break;
	default:
		move(u, act);
	}
}

static void event_tell(struct weft_rio_iounit *u, const char *name, const struct store_event *e)
{
	char line[DEVICE_EVENT_TEXT];

	if (!u->options.tell)
		return;
	device_event_text(name, e, line);
	u->options.tell(u->options.context, line);
}

/* Reports mirror members that failed or were resynchronized. */
static void devices_tell(struct weft_rio_iounit *u)
{
	struct store_event e;

	for (uint32_t i = 0; i < u->device_count; i++) {
		while (store_event(device_store(u->devices[i]), &e))
			event_tell(u, u->names[i], &e);
	}
}

static void work(struct rio_loop *loop)
{
	struct weft_rio_iounit *u = unit_of(loop);
	struct rio_act act;
	bool has_act;

	/* Acts may submit device requests, which start when completions are next polled. */
	do {
		rio_iounit_progress(u->core, loop->now_ns);
		has_act = false;
		while (rio_iounit_act(u->core, &act)) {
			act_do(u, &act);
			has_act = true;
		}
	} while (has_act);
	devices_tell(u);
}

static uint64_t due(struct rio_loop *loop)
{
	return rio_iounit_due(unit_of(loop)->core);
}

static const struct rio_role_calls calls = {
	.came = came,
	.message = message,
	.connected = connected,
	.gone = gone,
	.refused = refused,
	.moved = moved,
	.work = work,
	.due = due,
};

/* ---- Life ----------------------------------------------------------------------------------- */

static enum weft_reason device_add(struct weft_rio_iounit *u, const struct weft_rio_store *s,
				   char why[WEFT_RIO_WHY_MAX])
{
	struct device_refusal refusal = { 0 };
	struct device *d;
	enum weft_reason r;

	if (!RESERVED_IS_ZERO(s))
		return WEFT_R_RESERVED;
	if (s->number == 0 || s->number > UINT16_MAX || !s->name || !s->text ||
	    !rio_text_is_good((const uint8_t *)s->name, strlen(s->name)))
		return WEFT_R_BAD_ARGUMENT;
	r = device_open(s->text, &d, &refusal);
	if (r != WEFT_OK) {
		snprintf(why, sizeof(refusal.text), "%s", refusal.text);
		return r;
	}
	snprintf(u->names[u->device_count], sizeof(u->names[0]), "%s", s->name);
	u->devices[u->device_count++] = d;
	r = rio_iounit_add_device(u->core, s->number, s->name, device_store(d), device_instance(d));
	return r == WEFT_OK ? rio_loop_also(&u->loop, device_descriptor(d)) : r;
}

static enum weft_reason core_open(struct weft_rio_iounit *u)
{
	const struct weft_rio_iounit_options *o = &u->options;
	const struct rio_iounit_config config = {
		.self = u->loop.self.platform,
		.devices_max = DEVICES,
		.commands_max = o->commands_max,
		.platforms_max = PLATFORMS,
		.moves_max = MOVES,
		.pieces_max = o->pieces_max,
		.piece_bytes = o->piece_bytes,
		.buffers = u->buffers,
		.timeout_ns = o->timeout_ns,
		.own_bytes = o->memory_bytes,
	};

	return rio_iounit_create(&config, &u->core);
}

static void defaults(struct weft_rio_iounit_options *o)
{
	o->commands_max = o->commands_max ? o->commands_max : COMMANDS;
	o->pieces_max = o->pieces_max ? o->pieces_max : PIECES;
	o->piece_bytes = o->piece_bytes ? o->piece_bytes : PIECE_BYTES;
	o->timeout_ns = o->timeout_ns ? o->timeout_ns : timeout_ns;
}

static uint8_t *pages_map(size_t length)
{
	void *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0);

	return pages == MAP_FAILED ? NULL : pages;
}

/* Own memory is accessed like a peer's, by a connection to itself. */
static enum weft_reason own_open(struct weft_rio_iounit *u)
{
	struct weft_region_options own = { .length = u->options.memory_bytes,
					   .rights = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE };
	enum weft_reason r = rio_end_own(&u->loop);

	if (r != WEFT_OK || own.length == 0)
		return r;
	u->memory = pages_map(own.length);
	own.addr = (uintptr_t)u->memory;
	return u->memory ? weft_region_register(u->loop.own_pd, &own, &u->memory_tag)
			 : WEFT_R_NO_MEMORY;
}

static enum weft_reason open_all(struct weft_rio_iounit *u, const struct weft_rio_self *self,
				 char why[WEFT_RIO_WHY_MAX])
{
	const struct weft_rio_iounit_options *o = &u->options;
	const struct rio_loop_config config = {
		.calls = &calls,
		.role = WEFT_RIO_IOUNIT,
		.ends_max = PLATFORMS + RIO_HALF_OPEN_MAX + ENDS_EXTRA,
		.messages_max = 2 * o->commands_max + MESSAGES_EXTRA,
		.tells_max = o->commands_max,
		.limits = { o->commands_max, RIO_COMMAND_LIST_MAX },
		.takes_control = true,
		.adapters = (uint32_t)o->adapters,
	};
	enum weft_reason r;

	u->buffers_bytes = (size_t)o->pieces_max * o->piece_bytes;
	u->buffers = pages_map(u->buffers_bytes);
	if (!u->buffers)
		return WEFT_R_NO_MEMORY;
	r = rio_loop_open(&u->loop, self, &config);
	u->loop.self.term = (struct rio_term){ o->term.number, o->term.incarnation };
	if (r == WEFT_OK)
		r = core_open(u);
	if (r == WEFT_OK)
		r = own_open(u);
	for (uint32_t i = 0; i < o->store_count && r == WEFT_OK; i++)
		r = i < DEVICES ? device_add(u, &o->stores[i], why) : WEFT_R_LIMIT;
	return r;
}

enum weft_reason weft_rio_iounit_open(const struct weft_rio_self *self,
				      const struct weft_rio_iounit_options *options,
				      struct weft_rio_iounit **iounit, char why[WEFT_RIO_WHY_MAX])
{
	struct weft_rio_iounit *u;
	char unheard[WEFT_RIO_WHY_MAX] = "";
	enum weft_reason r;

	if (!self || !options || !iounit)
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(options))
		return WEFT_R_RESERVED;
	if (options->adapters > RIO_ADAPTERS_MAX)
		return WEFT_R_LIMIT;
	/* A long list is fetched into one buffer. */
	if (options->piece_bytes > 0 && options->piece_bytes < RIO_LIST_BYTES_MAX)
		return WEFT_R_BAD_ARGUMENT;
	u = calloc(1, sizeof(*u));
	if (!u)
		return WEFT_R_NO_MEMORY;
	pthread_mutex_init(&u->lock, NULL);
	u->options = *options;
	defaults(&u->options);
	r = open_all(u, self, why ? why : unheard);
	if (r != WEFT_OK) {
		weft_rio_iounit_close(u);
		return r;
	}
	*iounit = u;
	return WEFT_OK;
}

enum weft_reason weft_rio_iounit_run(struct weft_rio_iounit *iounit)
{
	if (!iounit)
		return WEFT_R_NULL_ARGUMENT;
	rio_loop_run(&iounit->loop, &iounit->lock);
	return WEFT_OK;
}

void weft_rio_iounit_stop(struct weft_rio_iounit *iounit)
{
	if (iounit)
		rio_loop_stop(&iounit->loop);
}

/* Ends all commands, then waits for the devices. */
static void core_close(struct weft_rio_iounit *u)
{
	/* An owner that loses its connection must not be able to reconnect. */
	rio_loop_stop_listening(&u->loop);
	/*
	 * The owner must hear of completed commands before the connection closes: requesters
	 * already know.
	 */
	rio_iounit_hurry(u->core);
	for (uint32_t i = 0; i < u->options.commands_max && rio_loop_turn(&u->loop); i++)
		;
	rio_iounit_owner_left(u->core);
	/* The owner is told at once; devices may take longer. */
	if (u->owner)
		rio_end_hang_up(u->owner, WEFT_R_RIO_IOUNIT_LEFT);
	u->owner = NULL;
	while (!rio_iounit_is_idle(u->core)) {
		if (!rio_loop_turn(&u->loop) && !rio_iounit_is_idle(u->core))
			rio_loop_sleep(&u->loop, UINT64_MAX);
	}
	rio_iounit_destroy(u->core);
	u->core = NULL;
}

static void device_end(struct weft_rio_iounit *u, uint32_t i)
{
	struct device_refusal why;
	char line[2 * LINE];

	if (device_close_report(u->devices[i], &why) || !u->options.tell)
		return;
	snprintf(line, sizeof(line), "device %s is not closed yet: %s", u->names[i], why.text);
	u->options.tell(u->options.context, line);
}

void weft_rio_iounit_close(struct weft_rio_iounit *iounit)
{
	if (!iounit)
		return;
	if (iounit->core)
		core_close(iounit);
	if (iounit->memory_tag)
		weft_region_deregister(iounit->loop.own_pd, iounit->memory_tag);
	rio_loop_close(&iounit->loop);
	for (uint32_t i = 0; i < iounit->device_count; i++)
		device_end(iounit, i);
	if (iounit->buffers)
		munmap(iounit->buffers, iounit->buffers_bytes);
	if (iounit->memory)
		munmap(iounit->memory, iounit->options.memory_bytes);
	pthread_mutex_destroy(&iounit->lock);
	free(iounit);
}

void weft_rio_iounit_address(struct weft_rio_iounit *iounit, struct weft_address *address)
{
	if (iounit && address)
		*address = iounit->loop.listen;
}

void weft_rio_iounit_traffic(struct weft_rio_iounit *iounit, struct weft_rio_traffic *m)
{
	if (!iounit || !m)
		return;
	pthread_mutex_lock(&iounit->lock);
	rio_loop_moved(&iounit->loop, m);
	pthread_mutex_unlock(&iounit->lock);
}
