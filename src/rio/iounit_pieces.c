/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "rio/iounit_parts.h"

/* Advances by at most `most` bytes, or to the end of the segment; returns by how many. */
static uint32_t unit_cursor_step(struct unit_cursor *cursor, uint64_t most)
{
	uint32_t left;

	if (cursor->used == cursor->segment.length) {
		CHECK(rio_walk_segment(&cursor->walk,
				       &cursor->segment)); /* the list check compared the sum */
		cursor->used = 0;
	}
	left = cursor->segment.length - cursor->used;
	if (left > most)
		left = (uint32_t)most;
	cursor->used += left;
	return left;
}

/* ---- Moves ---------------------------------------------------------------------------------- */

uint32_t unit_move_begin(struct rio_iounit *u, struct unit_platform *platform,
			 struct unit_command *c, struct unit_piece *piece)
{
	struct unit_move *m = CONTAINER_OF(list_pop(&u->free_moves), struct unit_move, link);

	m->platform = platform;
	m->command = c;
	m->piece = piece;
	if (platform)
		platform->moves++;
	if (piece)
		piece->moves++;
	u->moves_under_way++;
	return (uint32_t)(m - u->moves);
}

void rio_iounit_ended(struct rio_iounit *u, uint32_t id, enum weft_reason reason)
{
	struct unit_move *m;
	struct unit_platform *platform;

	CHECK(id < u->move_count);
	m = &u->moves[id];
	platform = m->platform;
	u->moves_under_way--;
	if (m->piece)
		unit_piece_moved(u, m->piece, reason);
	else
		unit_command_settled(u, m->command, reason);
	m->command = NULL; /* a late command searches the moves for its own */
	list_push(&u->free_moves, &m->link);
	if (platform)
		unit_platform_move_done(u, platform);
	unit_run(u);
}

/* ---- The life of a piece -------------------------------------------------------------------- */

/*
 * A stuck device keeps its buffers, even when their commands are abandoned. So that other devices
 * get some, a device never holds more buffers than it leaves free: of two stuck devices the second
 * gets half of the rest.
 */
bool unit_piece_is_free(const struct rio_iounit *u, const struct unit_device *d)
{
	uint32_t left = u->config.pieces_max - u->pieces_now;

	return d && u->device_count > 1 ? d->pieces < left : left > 0;
}

static struct unit_piece *piece_take(struct rio_iounit *u, struct unit_command *c,
				     struct unit_device *d)
{
	struct unit_piece *p;

	if (!unit_piece_is_free(u, d))
		return NULL;
	p = CONTAINER_OF(list_pop(&u->free_pieces), struct unit_piece, waiter.link);
	p->command = c;
	p->device = d;
	p->is_stale = false;
	p->issued = 0;
	p->moves = 0;
	p->reason = WEFT_OK;
	p->is_fetch = false;
	p->is_direct = false;
	c->pieces++;
	if (d)
		d->pieces++;
	u->pieces_now++;
	return p;
}

/* A stale piece has ended: commands that it held back check again. */
static void fence_open(struct rio_iounit *u, struct unit_piece *p)
{
	if (!p->is_stale)
		return;
	p->is_stale = false;
	u->stale--;
	while (!list_is_empty(&u->fenced))
		list_add_tail(&u->ready, list_pop(&u->fenced));
}

static void piece_give_back(struct rio_iounit *u, struct unit_piece *p)
{
	p->state = PIECE_FREE;
	if (p->command)
		p->command->pieces--;
	if (p->device)
		p->device->pieces--;
	u->pieces_now--;
	fence_open(u, p);
	list_remove(&p->waiter.link);
	list_push(&u->free_pieces, &p->waiter.link);
}

static bool is_of_data(const struct unit_command *c)
{
	return c->now.operation == SGL_READ || c->now.operation == SGL_WRITE;
}

static void piece_end(struct rio_iounit *u, struct unit_piece *p)
{
	struct unit_command *c = p->command;

	if (is_of_data(c))
		c->moving -= p->bytes.length;
	if (p->reason == WEFT_OK && is_of_data(c))
		c->done_bytes += p->bytes.length;
	piece_give_back(u, p);
	if (p->reason != WEFT_OK)
		unit_command_fail(u, c, p->reason);
	else
		unit_command_ready(u, c);
}

static void piece_submit(struct rio_iounit *u, struct unit_piece *p)
{
	enum weft_reason r = store_submit(p->device->store, &p->request, u->now_ns);

	p->state = PIECE_DEVICE;
	u->has_submitted = true;
	if (r != WEFT_OK) {
		p->reason = r;
		piece_end(u, p);
	}
}

static void piece_move(struct rio_iounit *u, struct unit_piece *p)
{
	p->state = PIECE_MOVING;
	if (p->is_fetch || p->number == p->command->turn)
		list_add_tail(&u->movers, &p->waiter.link);
}

/* The piece has issued its last move: the next one of the transaction may begin. */
static void turn_pass(struct rio_iounit *u, struct unit_command *c)
{
	c->turn++;
	if (c->pieces < 2)
		return; /* this one is the command's only piece */
	for (uint32_t i = 0; i < u->config.pieces_max; i++) {
		struct unit_piece *p = &u->pieces[i];

		if (p->command == c && p->state == PIECE_MOVING && p->number == c->turn)
			list_add_tail(&u->movers, &p->waiter.link);
	}
}

/* ---- The fence ------------------------------------------------------------------------------ */

static bool is_changing(const struct store_request *r)
{
	return r->op != STORE_READ && r->op != STORE_FLUSH;
}

/* A piece whose data has not reached its buffer will never be submitted. */
static bool is_at_device(const struct unit_piece *p)
{
	return p->state == PIECE_DEVICE ||
	       (p->state == PIECE_MOVING && p->is_direct && p->moves > 0);
}

void unit_pieces_give_up(struct rio_iounit *u, struct unit_command *c)
{
	for (uint32_t i = 0; i < u->config.pieces_max; i++) {
		struct unit_piece *p = &u->pieces[i];

		if (p->command != c || !is_at_device(p))
			continue;
		if (is_changing(&p->request) && !p->is_stale) {
			p->is_stale = true;
			u->stale++;
		}
		if (p->state == PIECE_DEVICE) {
			p->command = NULL;
			c->pieces--;
		}
	}
}

static bool is_overlapping(const struct store_request *r, uint64_t offset, uint64_t length)
{
	return r->offset < offset + length && offset < r->offset + r->length;
}

bool unit_piece_is_fenced(const struct rio_iounit *u, const struct unit_command *c)
{
	uint64_t offset = c->now.offset + c->cut, length = c->now.length - c->cut;

	if (is_of_data(c) && length > u->config.piece_bytes)
		length = u->config.piece_bytes;
	for (uint32_t i = 0; u->stale > 0 && i < u->config.pieces_max; i++) {
		const struct unit_piece *p = &u->pieces[i];

		if (p->is_stale && p->device == c->device &&
		    is_overlapping(&p->request, offset, length))
			return true;
	}
	return false;
}

/* ---- Its beginning -------------------------------------------------------------------------- */

/*
 * Takes as much of the transaction as fits into a buffer, or is contiguous in the device's memory.
 */
static bool place(struct rio_iounit *u, struct unit_piece *p, const struct sgl_transaction *t)
{
	uint64_t most = t->length < u->config.piece_bytes ? t->length : u->config.piece_bytes;
	struct span at = store_memory(p->device->store, t->offset, most);
	/* RDMA directly into device memory cannot honour FUA. */
	bool is_direct = at.length == most && !t->is_fua;

	p->bytes = is_direct ? at : (struct span){ p->buffer, most };
	return is_direct;
}

bool unit_piece_begin(struct rio_iounit *u, struct unit_command *c)
{
	struct unit_piece *p = piece_take(u, c, c->device);
	struct sgl_transaction part = c->now;
	bool is_direct;

	if (!p)
		return false;
	if (!is_of_data(c)) {
		c->is_cut = true;
		p->request = rio_store_request(&part, NULL);
		piece_submit(u, p);
		return true;
	}
	part.offset += c->cut;
	part.length -= c->cut;
	is_direct = place(u, p, &part);
	part.length = p->bytes.length;
	p->request = rio_store_request(&part, &p->bytes);
	p->is_direct = is_direct;
	p->number = c->begun++;
	p->cursor = c->cursor;
	c->cut += part.length;
	c->moving += part.length;
	c->unissued += c->now.operation == SGL_READ;
	c->is_cut = c->cut == c->now.length;
	for (uint64_t left = part.length; left > 0;)
		left -= unit_cursor_step(&c->cursor, left);
	if (c->now.operation == SGL_READ && !is_direct)
		piece_submit(u, p);
	else
		piece_move(u, p);
	return true;
}

/* The device has completed its part. */
void unit_piece_stored(struct rio_iounit *u, struct unit_piece *p)
{
	bool is_read = p->request.op == STORE_READ;

	if (!p->command) {
		piece_give_back(u, p);
		return;
	}
	p->reason = p->request.reason;
	if (p->reason == WEFT_OK && is_read)
		p->reason = p->command->reason; /* the command has failed: do not move the data */
	if (p->reason == WEFT_OK && is_read)
		piece_move(u, p);
	else
		piece_end(u, p);
}

/* A part of the list has arrived; rio_list_take() copies it. */
static void fetch_end(struct rio_iounit *u, struct unit_piece *p)
{
	struct unit_command *c = p->command;

	if (p->reason == WEFT_OK && c->reason == WEFT_OK)
		p->reason = rio_list_take(c->list, p->bytes.bytes, p->bytes.length);
	piece_give_back(u, p);
	if (p->reason != WEFT_OK)
		unit_command_fail(u, c, p->reason);
	else
		unit_command_ready(u, c);
}

/* All data has moved, or a move failed and none is in progress. */
static void piece_all_moved(struct rio_iounit *u, struct unit_piece *p)
{
	list_remove(&p->waiter.link);
	if (p->is_fetch) {
		fetch_end(u, p);
	} else if (p->command->now.operation == SGL_WRITE && !p->is_direct) {
		if (p->reason == WEFT_OK)
			p->reason = p->command->reason;
		if (p->reason == WEFT_OK)
			piece_submit(u, p);
		else
			piece_end(u, p);
	} else {
		piece_end(u, p);
	}
}

/* Issues no more moves of the piece; those in progress end by themselves. */
static void piece_stop(struct unit_piece *p, enum weft_reason reason)
{
	list_remove(&p->waiter.link);
	if (p->reason == WEFT_OK)
		p->reason = reason;
	p->issued = p->bytes.length;
}

void unit_piece_moved(struct rio_iounit *u, struct unit_piece *p, enum weft_reason reason)
{
	p->moves--;
	if (reason != WEFT_OK)
		piece_stop(p, reason);
	if (p->moves == 0 && p->issued == p->bytes.length)
		piece_all_moved(u, p);
}

void unit_piece_refused(struct rio_iounit *u, struct unit_piece *p, enum weft_reason reason)
{
	p->moves++;
	unit_piece_moved(u, p, reason);
}

void unit_piece_abort_waiting(struct rio_iounit *u, const struct unit_command *c)
{
	for (uint32_t i = 0; i < u->config.pieces_max; i++) {
		struct unit_piece *p = &u->pieces[i];

		if (p->command != c || p->state != PIECE_MOVING)
			continue;
		if (p->issued < p->bytes.length)
			piece_stop(p, c->reason);
		if (p->moves == 0)
			piece_end(u, p);
	}
}

/* ---- Acts ----------------------------------------------------------------------------------- */

bool unit_piece_fetch(struct rio_iounit *u, struct unit_command *c)
{
	struct unit_piece *p = piece_take(u, c, NULL);
	struct sgl_chain chain;

	if (!p)
		return false;
	CHECK(rio_list_wants(c->list, &chain));
	p->bytes = (struct span){ p->buffer, chain.length };
	p->is_fetch = true;
	piece_move(u, p);
	return true;
}

static void fetch_act(struct rio_iounit *u, struct unit_piece *p, struct rio_act *act)
{
	struct sgl_chain chain;

	CHECK(rio_list_wants(p->command->list, &chain));
	p->issued = p->bytes.length;
	*act = (struct rio_act){
		.kind = RIO_ACT_FETCH,
		.id = unit_move_begin(u, NULL, p->command, p),
		.platform = chain.platform,
		.bytes = p->bytes.bytes,
		.length = p->bytes.length,
		.handle = chain.handle,
		.remote = chain.address,
	};
}

/* Immediate segments lie in the list itself and need no RDMA. */
static void copy_immediates(struct unit_piece *p)
{
	while (p->issued < p->bytes.length) {
		struct unit_cursor next = p->cursor;
		uint32_t length = unit_cursor_step(&next, p->bytes.length - p->issued);

		if (next.segment.where != RIO_IMMEDIATE)
			return;
		memcpy(p->bytes.bytes + p->issued, next.segment.data + next.used - length, length);
		p->issued += length;
		p->cursor = next;
	}
}

/* Issues the next move of a piece from the list of movers. False: the piece waits, or has ended. */
bool unit_piece_act(struct rio_iounit *u, struct unit_piece *p, struct rio_act *act)
{
	struct unit_cursor next;
	struct unit_platform *platform;
	uint32_t length;

	if (p->is_fetch) {
		fetch_act(u, p, act);
		return true;
	}
	copy_immediates(p);
	if (p->issued == p->bytes.length) {
		turn_pass(u, p->command);
		if (p->moves == 0)
			piece_all_moved(u, p);
		return false;
	}
	next = p->cursor;
	length = unit_cursor_step(&next, p->bytes.length - p->issued);
	platform = unit_platform_for(u, p->command, &next.segment);
	if (!platform) {
		unit_piece_refused(u, p, WEFT_R_RIO_PLATFORM); /* revoked in the meantime */
		return false;
	}
	if (!unit_platform_is_ready(u, platform, &p->waiter))
		return false;
	if (p->command->now.operation == SGL_READ && !unit_command_writes(p->command, platform)) {
		unit_piece_refused(u, p, WEFT_R_PEER_GONE);
		return false;
	}
	*act = (struct rio_act){
		.kind = p->command->now.operation == SGL_READ ? RIO_ACT_WRITE : RIO_ACT_READ,
		.id = unit_move_begin(u, platform, p->command, p),
		.platform = platform->name,
		.bytes = p->bytes.bytes + p->issued,
		.length = length,
		.handle = next.segment.handle,
		.remote = next.segment.address + next.used - length,
	};
	p->cursor = next;
	p->issued += length;
	if (p->issued < p->bytes.length) {
		list_add_tail(&u->movers, &p->waiter.link);
		return true;
	}
	turn_pass(u, p->command);
	if (p->command->now.operation == SGL_READ)
		unit_command_issued(u, p->command);
	return true;
}
