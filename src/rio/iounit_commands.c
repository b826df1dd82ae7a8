/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/deadline.h"
#include "rio/iounit_parts.h"

void unit_command_ready(struct rio_iounit *u, struct unit_command *c)
{
	if (!list_is_linked(&c->waiter.link))
		list_add_tail(&u->ready, &c->waiter.link);
}

struct unit_command *unit_command_find(struct rio_iounit *u, uint64_t id)
{
	uint32_t left = u->commands_now;

	/* Free slots are reused last in, first out: those in use are among the first. */
	for (struct unit_command *c = u->commands; left > 0; c++) {
		if (c->state == COMMAND_FREE)
			continue;
		if (!c->is_dropped && c->id == id)
			return c;
		left--;
	}
	return NULL;
}

void unit_command_free(struct rio_iounit *u, struct unit_command *c)
{
	timer_queue_cancel(&u->timers, &c->timer);
	rio_list_clear(c->list);
	if (c->is_dropped)
		u->dropped--;
	c->state = COMMAND_FREE;
	u->commands_now--;
	list_remove(&c->tell_link);
	list_remove(&c->waiter.link);
	list_push(&u->free_commands, &c->waiter.link);
	if (list_is_empty(&u->notified))
		u->notified_count = 0;
}

/*
 * The requester has been told, so no process waits for the owner's status. The notice to the owner
 * is batched to spare it wake-ups, unless the owner or this unit runs short of command slots.
 */
void unit_command_notified(struct rio_iounit *u, struct unit_command *c)
{
	uint32_t max = u->config.commands_max;

	list_remove(&c->waiter.link);
	list_add_tail(&u->notified, &c->waiter.link);
	u->notified_count++;
	if (u->notified_count == 1)
		u->notify_ns = u->now_ns + RIO_NOTIFY_WAIT_NS;
	if (u->notified_count >= RIO_NOTIFY_BATCH || c->is_urgent || u->is_hurried ||
	    rio_is_short_of(max - u->commands_now, max))
		u->notify_ns = u->now_ns;
}

/* All work of the command has ended. */
static void say(struct rio_iounit *u, struct unit_command *c)
{
	if (c->is_dropped) {
		unit_command_free(u, c);
		return;
	}
	c->state = COMMAND_SAYING;
	list_remove(&c->tell_link); /* this is the regular end: no early notice */
	c->is_notified = c->is_notified && c->reason == WEFT_OK;
	c->is_notify_due = c->reason == WEFT_OK && !c->is_notified_behind;
	if (c->is_notified && c->is_notified_behind) {
		unit_command_notified(u, c);
		return;
	}
	list_remove(&c->waiter.link);
	list_add_tail(&u->saying, &c->waiter.link);
}

void unit_command_fail(struct rio_iounit *u, struct unit_command *c, enum weft_reason reason)
{
	if (c->state == COMMAND_SAYING)
		return;
	if (c->reason == WEFT_OK) {
		c->reason = reason;
		list_remove(&c->tell_link);
		list_remove(&c->waiter.link); /* leave any wait queue */
		unit_piece_abort_waiting(u, c);
		unit_platforms_nudge(u);
	}
	unit_command_ready(u, c);
}

/*
 * Pieces at the device become stale; moves end by themselves, or when their connection is closed.
 */
void unit_command_give_up(struct rio_iounit *u, struct unit_command *c, enum weft_reason reason)
{
	if (c->state == COMMAND_SAYING)
		return;
	unit_command_fail(u, c, reason);
	unit_pieces_give_up(u, c);
}

/* ---- Before anything moves: RIO-16 ---------------------------------------------------------- */

static struct unit_device *device_find(struct rio_iounit *u, uint32_t number)
{
	for (uint32_t i = 0; i < u->device_count; i++) {
		if (u->devices[i].number == number)
			return &u->devices[i];
	}
	return NULL;
}

/* Records that the command will write to the platform. False: too many platforms. */
static bool command_touches(struct unit_command *c, struct unit_platform *p)
{
	for (uint32_t i = 0; i < c->touched_count; i++) {
		if (c->touched[i].platform == p)
			return true;
	}
	if (c->touched_count == COMMAND_PLATFORMS_MAX)
		return false;
	c->touched[c->touched_count++].platform = p;
	return true;
}

/* RIO-14: handle 0, and the address counts from the beginning of the memory. */
static bool is_in_own(const struct rio_iounit *u, const struct rio_segment *s)
{
	return s->handle == 0 && s->address <= u->config.own_bytes &&
	       s->length <= u->config.own_bytes - s->address;
}

static enum weft_reason segments_check(struct rio_iounit *u, struct unit_command *c,
				       struct rio_walk *walk, bool is_written)
{
	struct rio_segment s;

	while (rio_walk_segment(walk, &s)) {
		struct unit_platform *p;

		if (s.where == RIO_IMMEDIATE)
			continue;
		p = unit_platform_of(u, &s);
		if (!p || (p == u->platforms && !is_in_own(u, &s)))
			return WEFT_R_RIO_PLATFORM;
		if (is_written && !command_touches(c, p))
			return WEFT_R_RIO_PLATFORMS;
	}
	return WEFT_OK;
}

static enum weft_reason list_check(struct rio_iounit *u, struct unit_command *c)
{
	struct sgl_transaction t;
	struct rio_walk walk;
	enum weft_reason r = WEFT_OK;

	rio_walk_start(&walk, c->list);
	for (c->number = 0; r == WEFT_OK && rio_walk_transaction(&walk, &t); c->number++) {
		struct unit_device *d = device_find(u, t.device);
		struct span bytes = { u->config.buffers, t.length };
		struct store_request request = rio_store_request(&t, &bytes);

		if (!d)
			return WEFT_R_RIO_DEVICE;
		r = store_request_check(&d->store->shape, &request);
		if (r == WEFT_OK)
			r = segments_check(u, c, &walk, t.operation == SGL_READ);
		if (r != WEFT_OK)
			return r; /* `number` is the failed transaction's */
	}
	return WEFT_OK;
}

bool unit_command_writes(struct unit_command *c, struct unit_platform *p)
{
	uint32_t i = 0;

	while (c->touched[i].platform != p) {
		i++;
		CHECK(i < c->touched_count); /* segments_check() has entered it */
	}
	if (c->touched[i].connection == 0)
		c->touched[i].connection = p->connections;
	return c->touched[i].connection == p->connections;
}

/* ---- From the list to the status ------------------------------------------------------------ */

/* The next transaction; false: there is none. */
static bool next_transaction(struct rio_iounit *u, struct unit_command *c)
{
	struct sgl_transaction next;
	struct rio_walk after;

	if (!rio_walk_transaction(&c->cursor.walk, &c->now))
		return false;
	after = c->cursor.walk;
	c->cursor.segment.length = 0;
	c->cursor.used = 0;
	c->device = device_find(u, c->now.device);
	c->cut = 0;
	c->is_cut = false;
	c->begun = 0;
	c->turn = 0;
	c->unissued = 0;
	c->is_last = !rio_walk_transaction(&after, &next);
	return true;
}

static void begin(struct rio_iounit *u, struct unit_command *c)
{
	enum weft_reason r = list_check(u, c);

	c->state = COMMAND_RUNNING;
	c->grants = u->grants;
	if (r != WEFT_OK) {
		unit_command_fail(u, c, r);
		return;
	}
	rio_walk_start(&c->cursor.walk, c->list);
	c->number = 0;
	CHECK(next_transaction(u, c)); /* a complete list has at least one */
	unit_command_ready(u, c);
}

/* Fetches the next part of the list, or starts the command once the list is complete. */
static void fetch_or_begin(struct rio_iounit *u, struct unit_command *c)
{
	struct sgl_chain chain;

	if (c->pieces > 0)
		return;
	if (c->reason != WEFT_OK) {
		say(u, c);
	} else if (!rio_list_wants(c->list, &chain)) {
		begin(u, c);
	} else if (!platform_is_same(chain.platform, u->owner) ||
		   chain.length > u->config.piece_bytes) {
		/*
		 * A chain must point to the owner's memory: the owner passes on what it has read
		 * and judged.
		 */
		unit_command_fail(u, c, WEFT_R_RIO_CHAIN);
	} else if (!unit_piece_fetch(u, c)) {
		list_add_tail(&u->hungry, &c->waiter.link);
	}
}

static void run_pieces(struct rio_iounit *u, struct unit_command *c)
{
	while (c->reason == WEFT_OK && !c->is_cut && c->pieces < COMMAND_PIECES_MAX) {
		if (unit_piece_is_fenced(u, c)) {
			list_add_tail(&u->fenced, &c->waiter.link);
			return;
		}
		if (!unit_piece_begin(u, c)) {
			list_add_tail(&c->device->hungry, &c->waiter.link);
			return;
		}
	}
	if (c->pieces > 0)
		return;
	if (c->reason == WEFT_OK && next_transaction(u, c))
		c->number++;
	else
		c->state = COMMAND_SETTLING;
	unit_command_ready(u, c);
}

/*
 * A requester notified over the connection that carried its data needs no SETTLE: the notice
 * arrives behind the data.
 */
static bool needs_no_settling(const struct unit_command *c)
{
	return c->settled_count < c->touched_count &&
	       platform_is_same(c->touched[c->settled_count].platform->name, c->requester);
}

/* Nothing was written there, or the connection is gone and it is unknown what arrived. */
static bool is_past(const struct unit_touch *t)
{
	return t->connection == 0 || t->platform->state != PLATFORM_UP ||
	       t->connection != t->platform->connections;
}

/*
 * Settles each platform that was written to, one after the other, then ends the command; also a
 * failed one: data still in flight must not meet a closed window, which would end the connection
 * and all other transfers on it. A command that is late or dropped does not wait for this.
 */
static void settle(struct rio_iounit *u, struct unit_command *c)
{
	if (c->settles > 0)
		return;
	while (c->reason != WEFT_OK && c->settled_count < c->touched_count &&
	       is_past(&c->touched[c->settled_count]))
		c->settled_count++;
	if (c->reason == WEFT_OK && needs_no_settling(c)) {
		c->is_notified = true;
		c->settled_count++;
	}
	if (c->is_dropped || c->is_late || c->settled_count == c->touched_count)
		say(u, c);
	else
		list_add_tail(&u->movers, &c->waiter.link);
}

void unit_command_go_on(struct rio_iounit *u, struct unit_command *c)
{
	switch (c->state) {
	case COMMAND_FETCHING:
		fetch_or_begin(u, c);
		break;
	case COMMAND_RUNNING:
		run_pieces(u, c);
		break;
	case COMMAND_SETTLING:
		settle(u, c);
		break;
	default:
		break;
	}
}

/* The number of the connection that the platform was written to by; 0: it was not written to. */
static uint32_t connection_of(const struct unit_command *c, const struct unit_platform *p)
{
	for (uint32_t i = 0; i < c->touched_count; i++) {
		if (c->touched[i].platform == p)
			return c->touched[i].connection;
	}
	return 0;
}

/*
 * The notice goes behind the last data as soon as that is posted: if any of the data fails, the
 * connection has failed before the notice is sent.
 */
void unit_command_issued(struct rio_iounit *u, struct unit_command *c)
{
	c->unissued--;
	if (c->unissued > 0 || !c->is_cut || !c->is_last || c->reason != WEFT_OK || c->is_dropped ||
	    c->touched_count != 1 ||
	    !platform_is_same(c->touched[0].platform->name, c->requester) ||
	    c->touched[0].platform == u->platforms)
		return;
	c->is_notified = true;
	list_add_tail(&u->telling, &c->tell_link);
}

bool unit_command_tell_act(struct rio_iounit *u, struct unit_command *c, struct rio_act *act)
{
	struct unit_platform *p = unit_platform_find(u, c->requester);
	const struct rio_msg m = { .type = RIO_STATUS,
				   .id = c->asked,
				   .status = { .done_bytes = c->done_bytes + c->moving } };
	bool is_up = p && p != u->platforms && p->state == PLATFORM_UP;

	c->is_notify_due = false;
	if (c->is_notified && (!is_up || connection_of(c, p) != p->connections)) {
		/* The connection is gone: it is unknown which data arrived. */
		c->is_notified = false;
		if (c->state == COMMAND_SAYING)
			c->reason = WEFT_R_PEER_GONE;
		else
			unit_command_fail(u, c, WEFT_R_PEER_GONE);
	}
	if (!is_up || c->reason != WEFT_OK)
		return false;
	*act = (struct rio_act){
		.kind = RIO_ACT_TELL,
		.platform = p->name,
		.bytes = u->message,
		.length = rio_session_close(&p->session, &m, u->message, sizeof(u->message)),
	};
	return true;
}

bool unit_command_settle_act(struct rio_iounit *u, struct unit_command *c, struct rio_act *act)
{
	const struct unit_touch *t = &c->touched[c->settled_count];
	struct unit_platform *p = t->platform;

	if (is_past(t)) {
		unit_command_fail(u, c, WEFT_R_PEER_GONE);
		return false;
	}
	if (!unit_platform_is_ready(u, p, &c->waiter))
		return false;
	c->settled_count++;
	c->settles++;
	*act = (struct rio_act){
		.kind = RIO_ACT_SETTLE,
		.id = unit_move_begin(u, p, c, NULL),
		.platform = p->name,
	};
	return true;
}

void unit_command_settled(struct rio_iounit *u, struct unit_command *c, enum weft_reason reason)
{
	c->settles--;
	if (reason != WEFT_OK)
		unit_command_fail(u, c, reason);
	else
		unit_command_ready(u, c);
}

void unit_command_begin(struct rio_iounit *u, uint64_t id, const struct rio_request *request)
{
	struct unit_command *c = CONTAINER_OF(list_pop(&u->free_commands), struct unit_command,
					      waiter.link);
	uint64_t timeout_ns = request->timeout_ms > 0 ? (uint64_t)request->timeout_ms * 1000 * 1000
						      : u->config.timeout_ns;
	uint64_t late_ns = deadline_after(u->now_ns, timeout_ns);
	enum weft_reason r;

	*c = (struct unit_command){
		.waiter = c->waiter,
		.list = c->list,
		.state = COMMAND_FETCHING,
		.id = id,
		.requester = request->requester,
		.asked = request->asked,
		.is_urgent = request->is_urgent,
	};
	list_init(&c->tell_link);
	u->commands_now++;
	timer_queue_set(&u->timers, &c->timer, late_ns);
	r = rio_list_take(c->list, request->list.bytes, request->list.length);
	if (r != WEFT_OK)
		unit_command_fail(u, c, r);
	else
		unit_command_ready(u, c);
}
