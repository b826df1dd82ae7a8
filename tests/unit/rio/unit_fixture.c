/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/rio/unit_fixture.h"

#include <string.h>

#include "base/check.h"
#include "test.h"

enum { ASKED = 1000 }; /* added to ids of commands: those of their requests */

static const struct platform unit = { UNIT, 1 }, owner = { OWNER, 1 };

static void fail(struct unit_world *w, const char *why)
{
	if (!w->failure)
		w->failure = why;
}

/* ---- A device that can be stuck ------------------------------------------------------------- */

static struct stuck_store *stuck_of(const struct store *s)
{
	return CONTAINER_OF(s, struct stuck_store, store);
}

static void stuck_submit(struct store *s, struct store_request *r, uint64_t now_ns)
{
	struct stuck_store *t = stuck_of(s);

	if (t->is_stuck) {
		list_add_tail(&t->held, &r->link);
		t->held_count++;
	} else {
		REQUIRE(store_submit(t->below, r, now_ns) == WEFT_OK);
	}
}

static struct store_request *stuck_next_done(struct store *s, uint64_t now_ns)
{
	return store_next_done(stuck_of(s)->below, now_ns);
}

static const struct store_calls stuck_calls = {
	.submit = stuck_submit,
	.next_done = stuck_next_done,
	.due = store_never_due,
	.expire = store_nothing_expires,
	.memory = store_no_memory,
	.event = store_no_event,
};

void world_unstick(struct unit_world *w)
{
	struct stuck_store *t = &w->stuck;

	t->is_stuck = false;
	for (; t->held_count > 0; t->held_count--)
		REQUIRE(store_submit(t->below,
				     CONTAINER_OF(list_pop(&t->held), struct store_request, link),
				     w->now_ns) == WEFT_OK);
}

static struct store *stuck_open(struct unit_world *w)
{
	w->stuck = (struct stuck_store){
		.store = { .calls = &stuck_calls, .shape = w->disk->shape }, .below = w->disk
	};
	list_init(&w->stuck.held);
	return &w->stuck.store;
}

/* ---- Life ----------------------------------------------------------------------------------- */

enum disk_kind { DISK_MEMORY, DISK_SLOW, DISK_STUCK };

/* Made once: a thousand worlds are opened. */
static void fill(struct unit_world *w)
{
	static uint8_t disk[DISK], memories[REQUESTERS][MEMORY];
	static bool is_made;

	for (size_t i = 0; i < DISK && !is_made; i++)
		disk[i] = (uint8_t)(i * 7 + i / 512);
	for (size_t r = 0; r < REQUESTERS; r++) {
		for (size_t i = 0; i < MEMORY && !is_made; i++)
			memories[r][i] = (uint8_t)(i * 3 + i / 256 + r * 50);
		memcpy(w->requesters[r].memory, memories[r], MEMORY);
		memset(w->requesters[r].token, 40 + (int)r, RIO_TOKEN_BYTES);
	}
	memcpy(w->disk_bytes, disk, DISK);
	is_made = true;
}

static void open_with(struct unit_world *w, uint64_t seed, enum disk_kind kind, uint32_t commands)
{
	struct store *disk;

	struct rio_session session;

	memset(w, 0, sizeof(*w));
	w->prng.state = seed;
	memset(session.send_key, 1, sizeof(session.send_key));
	memset(session.receive_key, 2, sizeof(session.receive_key));
	session.sent = session.received = 1;
	w->owner = session;
	memcpy(w->owner.send_key, session.receive_key, RIO_KEY_BYTES);
	memcpy(w->owner.receive_key, session.send_key, RIO_KEY_BYTES);
	fill(w);
	REQUIRE(mem_store_create(&(struct mem_store_config){ .bytes = w->disk_bytes,
							     .size_bytes = DISK,
							     .block_bytes = 512 },
				 &w->disk) == WEFT_OK);
	if (kind == DISK_SLOW)
		REQUIRE(delay_store_create(w->disk, 1000, &w->slow) == WEFT_OK);
	disk = kind == DISK_SLOW ? w->slow : kind == DISK_STUCK ? stuck_open(w) : w->disk;
	REQUIRE(rio_iounit_create(&(struct rio_iounit_config){ .self = unit,
							       .devices_max = 2,
							       .commands_max = commands,
							       .platforms_max = REQUESTERS,
							       .moves_max = MOVES,
							       .pieces_max = PIECES,
							       .piece_bytes = PIECE,
							       .buffers = w->buffers,
							       .timeout_ns = 1000 * 1000,
							       .own_bytes = DISK },
				  &w->unit) == WEFT_OK);
	REQUIRE(rio_iounit_add_device(w->unit, DEVICE, "disk", disk, 1) == WEFT_OK);
	rio_iounit_owner_came(w->unit, owner, &session);
}

void world_open_wide(struct unit_world *w, uint64_t seed, bool is_slow, uint32_t commands)
{
	open_with(w, seed, is_slow ? DISK_SLOW : DISK_MEMORY, commands);
}

void world_open_stuck(struct unit_world *w, uint64_t seed)
{
	open_with(w, seed, DISK_STUCK, COMMANDS);
}

void world_open_pair(struct unit_world *w, uint64_t seed)
{
	open_with(w, seed, DISK_STUCK, COMMANDS);
	REQUIRE(mem_store_create(&(struct mem_store_config){ .bytes = w->other_bytes,
							     .size_bytes = DISK,
							     .block_bytes = 512 },
				 &w->other) == WEFT_OK);
	REQUIRE(rio_iounit_add_device(w->unit, OTHER_DEVICE, "other", w->other, 1) == WEFT_OK);
}

void world_open(struct unit_world *w, uint64_t seed, bool is_slow)
{
	world_open_wide(w, seed, is_slow, COMMANDS);
}

void world_close(struct unit_world *w)
{
	EXPECT(rio_iounit_is_idle(w->unit));
	EXPECT_EQ(w->under_way_count, 0U);
	EXPECT(!w->failure);
	rio_iounit_destroy(w->unit);
	if (w->slow)
		store_destroy(w->slow);
	if (w->other)
		store_destroy(w->other);
	store_destroy(w->disk);
}

enum weft_reason world_try_say(struct unit_world *w, const struct rio_msg *m)
{
	uint8_t bytes[RIO_MSG_BYTES_MAX];
	size_t length = rio_session_close(&w->owner, m, bytes, sizeof(bytes));

	REQUIRE(length > 0);
	return rio_iounit_take(w->unit, bytes, length, w->now_ns);
}

void world_say(struct unit_world *w, const struct rio_msg *m)
{
	REQUIRE(world_try_say(w, m) == WEFT_OK);
}

static struct platform name_of(int requester)
{
	return (struct platform){ FIRST + (uint32_t)requester, 1 };
}

static struct requester *requester_of(struct unit_world *w, struct platform name)
{
	uint32_t i = name.unit - FIRST;

	return name.unit >= FIRST && i < REQUESTERS ? &w->requesters[i] : NULL;
}

void world_grant(struct unit_world *w, int requester)
{
	struct rio_msg m = {
		.type = RIO_GRANT,
		.grant = { .requester = name_of(requester),
			   .address = { .family = 4, .port = 7480, .ip = { 127, 0, 0, 1 } } },
	};

	w->requesters[requester].is_granted = true;
	memcpy(m.grant.token, w->requesters[requester].token, RIO_TOKEN_BYTES);
	world_say(w, &m);
}

void world_owner_again(struct unit_world *w)
{
	struct rio_session session = w->owner;

	memcpy(session.send_key, w->owner.receive_key, RIO_KEY_BYTES);
	memcpy(session.receive_key, w->owner.send_key, RIO_KEY_BYTES);
	session.sent = w->owner.received;
	session.received = w->owner.sent;
	rio_iounit_owner_came(w->unit, owner, &session);
}

/* ---- Lists ---------------------------------------------------------------------------------- */

static void put(struct unit_list *l, const struct sgl_element *e)
{
	const struct sgl_attributes attributes = sgl_attributes_default();

	l->latest = l->w.at;
	sgl_put(e, &attributes, &l->w);
}

static void put_segment(struct unit_list *l, bool ends_buffer)
{
	if (!l->has_segment)
		return;
	if (l->segment.kind == SGL_DETAIL)
		l->segment.detail.ends_buffer = ends_buffer;
	else
		l->segment.immediate.ends_buffer = ends_buffer;
	put(l, &l->segment);
	l->has_segment = false;
}

static void add_segment(struct unit_list *l, struct sgl_element e)
{
	put_segment(l, false);
	l->segment = e;
	l->has_segment = true;
}

void list_start(struct unit_list *l)
{
	l->w = wr_of(l->bytes, sizeof(l->bytes));
	l->has_segment = false;
	l->device = DEVICE;
}

void list_transaction(struct unit_list *l, enum sgl_operation operation, uint64_t offset,
		      uint64_t length)
{
	put_segment(l, true);
	put(l, &(struct sgl_element){ .kind = SGL_TRANSACTION,
				      .transaction = { .operation = operation,
						       .device = l->device,
						       .offset = offset,
						       .length = length } });
}

void list_platform(struct unit_list *l, int requester)
{
	put_segment(l, false);
	put(l, &(struct sgl_element){ .kind = SGL_PLATFORM, .platform = name_of(requester) });
}

static struct sgl_element memory_of(int requester, uint64_t at, uint32_t length)
{
	return (struct sgl_element){ .kind = SGL_DETAIL,
				     .detail = { .role = SGL_SOURCE,
						 .handle = 0x700 + (uint32_t)requester,
						 .length = length,
						 .address = at } };
}

void list_source(struct unit_list *l, int requester, uint64_t at, uint32_t length)
{
	add_segment(l, memory_of(requester, at, length));
}

void list_result(struct unit_list *l, int requester, uint64_t at, uint32_t length)
{
	struct sgl_element e = memory_of(requester, at, length);

	e.detail.role = SGL_RESULT;
	add_segment(l, e);
}

void list_own_result(struct unit_list *l, uint64_t at, uint32_t length)
{
	struct sgl_element e = memory_of(0, at, length);

	e.detail.handle = 0;
	e.detail.role = SGL_RESULT;
	add_segment(l, e);
}

void list_own_source(struct unit_list *l, uint64_t at, uint32_t length)
{
	struct sgl_element e = memory_of(0, at, length);

	e.detail.handle = 0;
	add_segment(l, e);
}

void list_data(struct unit_list *l, const void *data, uint32_t length)
{
	add_segment(l, (struct sgl_element){ .kind = SGL_IMMEDIATE,
					     .immediate = { .length = length, .data = data } });
}

size_t list_end(struct unit_list *l)
{
	put_segment(l, true);
	CHECK(!l->w.is_short);
	sgl_set_last(l->latest);
	return (size_t)(l->w.at - l->bytes);
}

static void command(struct unit_world *w, uint64_t id, struct rio_bytes list)
{
	world_say(w, &(struct rio_msg){ .type = RIO_COMMAND,
					.id = id,
					.request = { .requester = name_of(0),
						     .asked = ASKED + id,
						     .is_urgent = w->is_urgent,
						     .timeout_ms = w->timeout_ms,
						     .list = list } });
}

void world_command(struct unit_world *w, uint64_t id, struct unit_list *l)
{
	command(w, id, (struct rio_bytes){ l->bytes, list_end(l) });
}

/* Without the Last flag, which is in the chained part. */
void world_chained(struct unit_world *w, uint64_t id, struct platform where, uint32_t length)
{
	struct unit_list l;

	list_start(&l);
	put(&l, &(struct sgl_element){ .kind = SGL_CHAIN,
				       .chain = { .platform = where,
						  .handle = 0x100,
						  .length = length,
						  .address = 16 } });
	command(w, id, (struct rio_bytes){ l.bytes, (size_t)(l.w.at - l.bytes) });
}

/* ---- What the unit does --------------------------------------------------------------------- */

static void hear_notified(struct unit_world *w, const struct rio_notified *notified)
{
	struct rd at = rd_of(notified->entries.bytes, notified->entries.length);

	w->notifications++;
	for (uint32_t i = 0; i < notified->count; i++) {
		const struct rio_notified_entry e = rio_notified_next(&at);

		w->statuses[w->status_count++ % 64] = (struct status){ .id = e.id,
								       .done_bytes = e.done_bytes,
								       .is_notified = true };
		if (!w->notified[e.id % 64])
			fail(w, "the requester was not told");
	}
}

static void hear(struct unit_world *w, const struct rio_act *act)
{
	struct rio_msg m;
	struct status *s = &w->statuses[w->status_count % 64];

	if (rio_session_open(&w->owner, act->bytes, act->length, &m) != WEFT_OK) {
		fail(w, "the owner cannot read what the unit says");
	} else if (m.type == RIO_NOTIFIED) {
		hear_notified(w, &m.notified);
	} else if (m.type == RIO_DEVICES) {
		w->devices_said++;
		w->commands_at_devices = w->unit->commands_now;
	} else if (m.type == RIO_STATUS) {
		*s = (struct status){ m.id, m.status.reason, m.status.transaction,
				      m.status.done_bytes, false };
		w->status_count++;
		for (int r = 0; w->is_alone && m.status.reason == 0 && r < REQUESTERS; r++) {
			if (w->requesters[r].writes > 0)
				fail(w, "it was said to be done before all was there");
		}
	}
}

static void answer(struct unit_world *w, const struct rio_act *act)
{
	struct requester *r = requester_of(w, act->platform);
	uint8_t bytes[RIO_DATA_BYTES];
	struct rio_data d;

	w->dials++;
	if (r && r->is_up)
		fail(w, "a second connection");
	if (!r || rio_data_decode(&d, act->bytes, act->length) != RIO_MSG_OK ||
	    !rio_seal_is_true(r->token, act->bytes, RIO_DATA_SEALED_BYTES, d.seal) ||
	    !platform_is_same(d.from, unit) || !platform_is_same(d.to, act->platform)) {
		fail(w, "a question that is not the unit's to ask");
		return;
	}
	if (r->is_refusing) {
		rio_iounit_dialled(w->unit, act->platform, WEFT_R_CONNECT_CLOSED, NULL);
		return;
	}
	d.is_answer = true;
	d.to = unit;
	d.from = act->platform;
	if (r->alter)
		r->alter(&d);
	rio_data_encode(&d, bytes);
	rio_seal(r->token, bytes, RIO_DATA_SEALED_BYTES, bytes + RIO_DATA_SEALED_BYTES);
	bytes[RIO_DATA_BYTES - 1] ^= r->is_lying;
	r->is_up = !r->is_lying && !r->alter;
	rio_session_of_data(&r->session, r->token, d.nonce);
	rio_iounit_dialled(w->unit, act->platform, WEFT_OK,
			   &(struct rio_bytes){ bytes, sizeof(bytes) });
}

/* Moves begin, and end later. */
static void begin(struct unit_world *w, const struct rio_act *act)
{
	struct requester *r = requester_of(w, act->platform);

	if (act->kind != RIO_ACT_FETCH && !platform_is_same(act->platform, unit) &&
	    (!r || !r->is_up))
		fail(w, "a move without a connection");
	if (w->under_way_count == UNDER_WAY_MAX) {
		fail(w, "more moves than were allowed");
		return;
	}
	w->under_way[w->under_way_count++] = *act;
	if (act->kind == RIO_ACT_WRITE || act->kind == RIO_ACT_READ) {
		if (w->moves < MOVES_KEPT)
			w->moved[w->moves] = *act;
		w->moves++;
	}
	w->settles += act->kind == RIO_ACT_SETTLE;
}

static enum weft_reason own_carry_out(struct unit_world *w, const struct rio_act *act)
{
	if (act->kind == RIO_ACT_SETTLE)
		return WEFT_OK;
	if (act->handle != 0 || act->remote + act->length > DISK)
		return WEFT_R_PEER_RIGHTS;
	if (act->kind == RIO_ACT_WRITE)
		memcpy(w->own_memory + act->remote, act->bytes, act->length);
	else
		memcpy(act->bytes, w->own_memory + act->remote, act->length);
	return WEFT_OK;
}

static enum weft_reason carry_out(struct unit_world *w, const struct rio_act *act)
{
	struct requester *r = requester_of(w, act->platform);

	if (act->kind == RIO_ACT_FETCH) {
		if (act->remote + act->length > sizeof(w->owner_memory))
			return WEFT_R_PEER_RIGHTS;
		memcpy(act->bytes, w->owner_memory + act->remote, act->length);
		return WEFT_OK;
	}
	if (platform_is_same(act->platform, unit))
		return own_carry_out(w, act);
	if (!r->is_up)
		return WEFT_R_PEER_GONE;
	if (act->kind == RIO_ACT_SETTLE) {
		r->writes = 0;
		return WEFT_OK;
	}
	if (act->handle != 0x700 + (uint32_t)(r - w->requesters) ||
	    act->remote + act->length > MEMORY)
		return WEFT_R_PEER_RIGHTS;
	if (act->kind == RIO_ACT_WRITE) {
		memcpy(r->memory + act->remote, act->bytes, act->length);
		r->writes++;
	} else {
		memcpy(act->bytes, r->memory + act->remote, act->length);
	}
	return WEFT_OK;
}

static void end_one(struct unit_world *w, uint32_t i)
{
	struct rio_act act = w->under_way[i];
	enum weft_reason reason = carry_out(w, &act);

	w->under_way[i] = w->under_way[--w->under_way_count];
	rio_iounit_ended(w->unit, act.id, reason);
}

/* Behind the data: all that was written there is there now. */
static void notified(struct unit_world *w, const struct rio_act *act)
{
	struct requester *r = requester_of(w, act->platform);
	struct rio_msg m;

	if (!r || !r->is_up ||
	    rio_session_open(&r->session, act->bytes, act->length, &m) != WEFT_OK ||
	    m.type != RIO_STATUS || m.status.reason != 0 || m.id < ASKED) {
		fail(w, "the requester cannot read what it is told");
		return;
	}
	/* What was sent off before has arrived before. */
	for (uint32_t i = 0; i < w->under_way_count;) {
		if (w->under_way[i].kind == RIO_ACT_WRITE &&
		    platform_is_same(w->under_way[i].platform, act->platform))
			end_one(w, i);
		else
			i++;
	}
	r->writes = 0;
	w->notified[(m.id - ASKED) % 64] = true;
	w->tells++;
}

static void end_all_of(struct unit_world *w, struct platform name)
{
	for (uint32_t i = 0; i < w->under_way_count;) {
		if (platform_is_same(w->under_way[i].platform, name))
			end_one(w, i);
		else
			i++;
	}
}

void world_break(struct unit_world *w, int requester)
{
	w->requesters[requester].is_up = false;
	w->requesters[requester].writes = 0;
	rio_iounit_lost(w->unit, name_of(requester));
	end_all_of(w, name_of(requester));
}

static bool act_one(struct unit_world *w)
{
	struct rio_act act;

	if (!rio_iounit_act(w->unit, &act))
		return false;
	switch (act.kind) {
	case RIO_ACT_SAY:
		hear(w, &act);
		break;
	case RIO_ACT_DIAL:
		answer(w, &act);
		break;
	case RIO_ACT_TELL:
		notified(w, &act);
		break;
	case RIO_ACT_HANG_UP:
		w->hang_ups++;
		world_break(w, (int)(act.platform.unit - FIRST));
		break;
	default:
		begin(w, &act);
		break;
	}
	return true;
}

/* Without time going by. */
static bool step_now(struct unit_world *w)
{
	if (prng_below(&w->prng, 2) == 0 && act_one(w))
		return true;
	if (w->under_way_count > 0 && !w->is_stuck && prng_below(&w->prng, 2) == 0) {
		end_one(w, prng_below(&w->prng, w->under_way_count));
		return true;
	}
	if (act_one(w))
		return true;
	rio_iounit_progress(w->unit, w->now_ns);
	if (act_one(w))
		return true;
	if (w->under_way_count > 0 && !w->is_stuck) {
		end_one(w, prng_below(&w->prng, w->under_way_count));
		return true;
	}
	return false;
}

/* False: nothing is due until then. */
static bool step_in_time(struct unit_world *w, uint64_t until_ns)
{
	uint64_t due;

	if (step_now(w))
		return true;
	due = rio_iounit_due(w->unit);
	if (due == UINT64_MAX || due > until_ns)
		return false;
	w->now_ns = due > w->now_ns ? due : w->now_ns;
	rio_iounit_progress(w->unit, w->now_ns);
	return true;
}

bool world_step(struct unit_world *w)
{
	return step_in_time(w, UINT64_MAX);
}

void world_run_until(struct unit_world *w, uint64_t ns)
{
	int steps = 0;

	while (!w->failure && step_in_time(w, ns))
		REQUIRE(++steps < 100000);
	w->now_ns = ns;
	rio_iounit_progress(w->unit, ns);
	REQUIRE(!act_one(w)); /* it would have been due */
}

void world_run(struct unit_world *w)
{
	int steps = 0;

	while (!w->failure && world_step(w))
		REQUIRE(++steps < 100000);
}

const struct status *world_status(const struct unit_world *w, uint64_t id)
{
	for (uint32_t i = 0; i < w->status_count && i < 64; i++) {
		if (w->statuses[i].id == id)
			return &w->statuses[i];
	}
	return NULL;
}
