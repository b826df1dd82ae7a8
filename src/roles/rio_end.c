/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/rio_end.h"
#include "driver/sys/system_reason.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"

enum {
	NS_PER_MS = 1000000,
	SENDS = 64,
	SHORT_MAX = WEFT_INLINE_MAX,
	WORD_BYTES = 320, /* fits a status with the longest text */
	FEW = 4,	  /* receive buffers until the peer is authenticated */
	DEPTH = 32
};

static const uint64_t greeting_ns = UINT64_C(5000) * NS_PER_MS;
static const uint64_t redial_ns = 20 * NS_PER_MS, redial_most_ns = UINT64_C(1000) * NS_PER_MS;

/* ---- Addresses ------------------------------------------------------------------------------ */

static struct rio_address rio_address_of(const struct weft_address *a)
{
	struct rio_address r = { .family = a->family, .port = a->port };

	memcpy(r.ip, a->ip, sizeof(r.ip));
	return r;
}

struct weft_address rio_address_public(const struct rio_address *a)
{
	struct weft_address r = { .family = a->family, .port = a->port };

	memcpy(r.ip, a->ip, sizeof(r.ip));
	return r;
}

static bool is_anywhere(const struct weft_address *a)
{
	static const uint8_t zeroes[16];

	return a->family == 0 || memcmp(a->ip, zeroes, sizeof(zeroes)) == 0;
}

/*
 * The address for data connections; if this role listens on all addresses, the one that the peer
 * uses.
 */
static struct rio_address advertised_address(const struct rio_loop *loop, const struct rio_end *end)
{
	struct weft_address at = loop->listen;
	struct weft_peer peer;

	if (loop->config.takes_control)
		return (struct rio_address){ 0 };
	if (is_anywhere(&at) && weft_qp_peer(end->qp, &peer) == WEFT_OK) {
		at = peer.local;
		at.port = loop->listen.port;
	}
	return rio_address_of(&at);
}

/* ---- Slots ---------------------------------------------------------------------------------- */

struct rio_end *rio_end_next(struct rio_loop *loop, struct rio_end *end)
{
	for (end = end ? end + 1 : loop->ends; end < loop->ends + loop->ends_used; end++) {
		if (end->state != RIO_END_FREE)
			return end;
	}
	return NULL;
}

struct rio_end *rio_end_find(struct rio_loop *loop, enum rio_end_kind kind, struct platform peer)
{
	struct rio_end *end = NULL;

	while ((end = rio_end_next(loop, end)) != NULL) {
		if (end->kind == kind && end->state != RIO_END_DYING &&
		    platform_is_same(end->peer, peer))
			return end;
	}
	return NULL;
}

static struct rio_end *free_slot(struct rio_loop *loop)
{
	for (uint32_t i = 0; i < loop->config.ends_max; i++) {
		if (loop->ends[i].state == RIO_END_FREE)
			return &loop->ends[i];
	}
	return NULL;
}

/* ---- Queue pairs ---------------------------------------------------------------------------- */

static struct weft_pd *domain(const struct rio_end *end)
{
	struct rio_loop *loop = end->loop;

	bool is_owners = end->dial && loop->config.takes_control;

	if (end->at)
		return end->at->pd;
	/*
	 * I/O units, to which an owner connects, may read lists; requesters, which it accepts, may
	 * not.
	 */
	return end->kind == RIO_END_DATA || is_owners ? loop->data_pd : loop->control_pd;
}

static uint32_t local_tag(const struct rio_end *end)
{
	if (end->at)
		return end->at->tag;
	return domain(end) == end->loop->data_pd ? end->loop->data_tag : end->loop->control_tag;
}

/* Data connections carry only short messages of an I/O unit. */
static uint32_t recv_bytes(const struct rio_end *end)
{
	return end->kind == RIO_END_CONTROL ? RIO_MSG_BYTES_MAX : WORD_BYTES;
}

/* The number of receive buffers. */
static uint32_t recv_count(const struct rio_end *end)
{
	const struct rio_loop_config *c = &end->loop->config;

	return end->kind == RIO_END_CONTROL ? c->messages_max : c->words_max;
}

/* The longest message that is sent inline. */
static size_t short_bytes(const struct rio_end *end)
{
	return end->kind == RIO_END_CONTROL ? SHORT_MAX : WORD_BYTES;
}

/* The number of receive buffers until the handshake is done. */
static uint32_t few_count(const struct rio_end *end)
{
	uint32_t count = recv_count(end);

	return end->kind == RIO_END_DATA || count < FEW ? count : FEW;
}

static uint8_t *receive_buffer(const struct rio_end *end, uint32_t nth)
{
	uint32_t few = few_count(end);

	return nth < few ? end->recv_bufs + (size_t)nth * recv_bytes(end)
			 : end->more_recv_bufs + (size_t)(nth - few) * recv_bytes(end);
}

static uint8_t *send_buffer(const struct rio_end *end, uint32_t nth)
{
	return end->recv_bufs + (size_t)(few_count(end) + nth) * recv_bytes(end);
}

static enum weft_reason post_receive(struct rio_end *end, uint32_t nth)
{
	const struct weft_sge segment = { .addr = (uintptr_t)receive_buffer(end, nth),
					  .length = recv_bytes(end),
					  .tag = local_tag(end) };

	return weft_qp_post_recv(
		end->qp,
		&(struct weft_recv_wr){ .id = (uint64_t)nth << RIO_WORK_BITS | RIO_WORK_RECEIVE,
					.sges = &segment,
					.sge_count = 1 },
		1, NULL);
}

static enum weft_reason receives_post(struct rio_end *end, uint32_t from, uint32_t to)
{
	enum weft_reason r = WEFT_OK;

	for (uint32_t i = from; i < to && r == WEFT_OK; i++)
		r = post_receive(end, i);
	return r;
}

static enum weft_reason recv_bufs_open(struct rio_end *end)
{
	uint32_t few = few_count(end), sends = end->kind == RIO_END_CONTROL ? SENDS : 0;

	_Static_assert(sizeof(end->free_sends) / sizeof(end->free_sends[0]) == SENDS, "");
	end->recv_bufs = malloc((size_t)(few + sends) * recv_bytes(end));
	if (!end->recv_bufs)
		return WEFT_R_NO_MEMORY;
	for (end->free_send_count = 0; end->free_send_count < sends; end->free_send_count++)
		end->free_sends[end->free_send_count] = end->free_send_count;
	return receives_post(end, 0, few);
}

/* Adds the remaining receive buffers after the handshake, so that half-open ends cost little. */
static enum weft_reason recv_bufs_open_all(struct rio_end *end)
{
	uint32_t few = few_count(end), count = recv_count(end);

	if (count == few)
		return WEFT_OK;
	end->more_recv_bufs = malloc((size_t)(count - few) * recv_bytes(end));
	return end->more_recv_bufs ? receives_post(end, few, count) : WEFT_R_NO_MEMORY;
}

static struct weft_cq *queue(const struct rio_end *end)
{
	return end->at ? end->at->cq : end->loop->cq;
}

static void take_down(struct rio_end *end)
{
	if (end->qp) {
		uint32_t number = weft_qp_number(end->qp);

		weft_qp_destroy(end->qp);
		weft_cq_forget(queue(end), number);
	}
	if (end->own_peer)
		weft_qp_destroy(end->own_peer);
	rio_handshake_fini(&end->handshake);
	free(end->recv_bufs);
	free(end->more_recv_bufs);
	free(end->inline_bufs);
	*end = (struct rio_end){ .state = RIO_END_FREE };
}

/* Creates the end's queue pair, ready to be connected. */
static enum weft_reason set_up(struct rio_end *end)
{
	struct rio_loop *loop = end->loop;
	uint32_t messages = recv_count(end);
	bool is_control = end->kind == RIO_END_CONTROL;
	const struct weft_qp_options options = {
		.send_cq = queue(end),
		.recv_cq = queue(end),
		.send_max = is_control ? messages + SENDS : 2 * DEPTH + loop->config.tells_max,
		.recv_max = messages > 0 ? messages : 1,
		.sges_max = 1,
		.inline_max_bytes = (uint32_t)short_bytes(end),
		.context = end,
	};
	const struct weft_qp_attr attr = {
		.state = WEFT_QPS_INIT,
		.remote_rights = is_control ? WEFT_REMOTE_READ
					    : WEFT_REMOTE_READ | WEFT_REMOTE_WRITE,
	};
	enum weft_reason r = weft_qp_create(domain(end), &options, &end->qp);

	end->inline_bufs = malloc(RIO_BATCH * short_bytes(end));
	if (r == WEFT_OK && !end->inline_bufs)
		r = WEFT_R_NO_MEMORY;
	if (r == WEFT_OK)
		r = weft_qp_modify(end->qp, &attr, WEFT_QP_STATE | WEFT_QP_REMOTE_RIGHTS);
	if (r == WEFT_OK && messages > 0)
		r = recv_bufs_open(end);
	return r;
}

static enum weft_reason make_at(struct rio_loop *loop, struct rio_adapter *at,
				enum rio_end_kind kind, struct rio_dial *dial,
				struct rio_end **made)
{
	struct rio_end *end = free_slot(loop);
	enum weft_reason r;

	if (!end)
		return WEFT_R_LIMIT;
	if (end >= loop->ends + loop->ends_used)
		loop->ends_used = (uint32_t)(end - loop->ends) + 1;
	*end = (struct rio_end){ .kind = kind,
				 .state = RIO_END_CONNECTING,
				 .loop = loop,
				 .at = at,
				 .dial = dial,
				 .deadline_ns = loop->now_ns + greeting_ns };
	r = set_up(end);
	if (r != WEFT_OK) {
		take_down(end);
		return r;
	}
	*made = end;
	return WEFT_OK;
}

static enum weft_reason make(struct rio_loop *loop, enum rio_end_kind kind, struct rio_dial *dial,
			     struct rio_end **made)
{
	return make_at(loop, NULL, kind, dial, made);
}

static struct weft_connect_options with(const struct rio_loop *loop,
					const struct rio_bytes *private_data)
{
	return (struct weft_connect_options){
		.private_data = private_data ? private_data->bytes : NULL,
		.private_bytes = private_data ? (uint32_t)private_data->length : 0,
		.ird = DEPTH,
		.ord = DEPTH,
		.timeout_ns = greeting_ns,
		.alive_ns = loop->alive_ns,
		.near = 1,
	};
}

enum weft_reason rio_end_dial(struct rio_loop *loop, struct rio_dial *dial)
{
	const struct weft_connect_options options = with(loop, NULL);
	struct rio_end *end;
	enum weft_reason r = make(loop, RIO_END_CONTROL, dial, &end);

	if (r != WEFT_OK)
		return r;
	if (dial->wait_ns == 0)
		dial->wait_ns = redial_ns;
	r = weft_qp_dial(end->qp, &dial->peer->address, &options);
	if (r != WEFT_OK)
		take_down(end);
	else
		dial->end = end;
	return r;
}

/* Closes the oldest incoming end without a handshake if there are too many. */
static void make_room(struct rio_loop *loop)
{
	struct rio_end *end = NULL, *oldest = NULL;
	uint32_t half_open = 0;

	while ((end = rio_end_next(loop, end)) != NULL) {
		if (end->kind != RIO_END_CONTROL || end->dial || end->state == RIO_END_UP ||
		    end->state == RIO_END_DYING)
			continue;
		half_open++;
		if (!oldest || end->deadline_ns < oldest->deadline_ns)
			oldest = end;
	}
	if (oldest && half_open >= RIO_HALF_OPEN_MAX) {
		rio_end_hang_up(oldest, WEFT_R_LIMIT);
		(void)rio_end_reap(oldest);
	}
}

void rio_end_accept(struct rio_loop *loop, struct weft_request *request)
{
	const struct weft_connect_options options = with(loop, NULL);
	struct rio_end *end;

	make_room(loop);
	if (make(loop, RIO_END_CONTROL, NULL, &end) != WEFT_OK)
		weft_request_reject(request, NULL);
	else if (weft_request_accept(request, end->qp, &options) != WEFT_OK)
		take_down(end);
}

enum weft_reason rio_end_dial_data(struct rio_loop *loop, struct platform peer,
				   const struct weft_address *to, const struct rio_bytes *question)
{
	const struct weft_connect_options options = with(loop, question);
	uint32_t turn = loop->more_turn++ % (loop->more_count + 1);
	struct rio_adapter *at = turn > 0 ? &loop->more[turn - 1] : NULL;
	struct rio_end *end;
	enum weft_reason r = make_at(loop, at, RIO_END_DATA, NULL, &end);

	if (r != WEFT_OK)
		return r;
	end->peer = peer;
	r = weft_qp_dial(end->qp, to, &options);
	if (r != WEFT_OK)
		take_down(end);
	return r;
}

enum weft_reason rio_end_accept_data(struct rio_loop *loop, struct platform peer,
				     struct weft_request *request, const struct rio_bytes *answer)
{
	const struct weft_connect_options options = with(loop, answer);
	struct rio_end *end;
	enum weft_reason r = make(loop, RIO_END_DATA, NULL, &end);

	if (r != WEFT_OK) {
		weft_request_reject(request, NULL);
		return r;
	}
	end->peer = peer;
	if (loop->config.calls->made)
		loop->config.calls->made(loop, end);
	r = weft_request_accept(request, end->qp, &options);
	if (r != WEFT_OK)
		rio_end_hang_up(end, r); /* the role knows the end and must be told */
	return r;
}

enum weft_reason rio_end_own(struct rio_loop *loop)
{
	struct weft_qp_options options = { .send_cq = loop->cq, .recv_cq = loop->cq };
	struct rio_end *end;
	enum weft_reason r = make(loop, RIO_END_DATA, NULL, &end);

	if (r != WEFT_OK)
		return r;
	end->peer = loop->self.platform;
	options.context = end;
	/* No connection to another process can name what is registered here. */
	if (!loop->own_pd)
		r = weft_pd_create(loop->adapter, NULL, &loop->own_pd);
	if (r == WEFT_OK)
		r = weft_qp_create(loop->own_pd, &options, &end->own_peer);
	if (r == WEFT_OK)
		r = weft_qp_connect(end->qp, end->own_peer);
	if (r != WEFT_OK)
		take_down(end);
	else
		end->state = RIO_END_UP;
	return r;
}

static void give_back(struct rio_end *end, uint32_t from, enum weft_reason reason);

/* ---- What happens to it --------------------------------------------------------------------- */

static void greet(struct rio_end *end)
{
	uint8_t bytes[RIO_GREETING_MAX];
	enum weft_reason r;
	size_t length;

	while ((length = rio_handshake_say(&end->handshake, bytes)) > 0)
		rio_end_say(end, bytes, length);
	if (end->state != RIO_END_GREETING || !rio_handshake_is_done(&end->handshake))
		return;
	end->peer = rio_handshake_peer(&end->handshake).platform;
	end->state = RIO_END_UP;
	if (end->dial)
		end->dial->wait_ns = redial_ns;
	r = recv_bufs_open_all(end);
	if (r == WEFT_OK)
		r = end->loop->config.calls->came(end->loop, end);
	if (r == WEFT_OK)
		end->is_known_to_role = true;
	else
		rio_end_hang_up(end, r);
}

static void greet_begin(struct rio_end *end)
{
	struct rio_loop *loop = end->loop;
	const struct rio_book book = { loop->known, loop->peer_count };
	uint8_t random[RIO_SEED_BYTES];

	if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
		rio_end_hang_up(end, system_reason(errno));
		return;
	}
	end->state = RIO_END_GREETING;
	end->deadline_ns = loop->now_ns + greeting_ns;
	if (end->dial) {
		const struct rio_address address = advertised_address(loop, end);

		rio_handshake_dial(&end->handshake, &loop->self,
				   &loop->known[end->dial->peer - loop->peers], &address, random);
	} else {
		rio_handshake_await(&end->handshake, &loop->self, &book, &loop->config.limits,
				    random);
	}
	greet(end);
}

void rio_end_connected(struct rio_end *end)
{
	if (end->state != RIO_END_CONNECTING)
		return;
	if (end->kind == RIO_END_CONTROL) {
		greet_begin(end);
	} else {
		end->state = RIO_END_UP;
		end->is_known_to_role = true;
		end->loop->moved.connections++;
		end->loop->config.calls->connected(end->loop, end);
	}
}

void rio_end_hang_up(struct rio_end *end, enum weft_reason reason)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_ERROR };

	if (end->state == RIO_END_DYING)
		return;
	end->reason = reason;
	if (end->state != RIO_END_CONNECTING)
		weft_qp_modify(end->qp, &attr, WEFT_QP_STATE);
	end->state = RIO_END_DYING;
	end->loop->dying++;
	give_back(end, 0, reason);
}

static void count_moved(const struct rio_end *end, struct weft_rio_traffic *m)
{
	struct weft_traffic t;

	if (weft_qp_traffic(end->qp, &t) != WEFT_OK)
		return;
	if (end->kind == RIO_END_DATA) {
		m->payload_in += t.payload_in;
		m->payload_out += t.payload_out;
	} else {
		m->control_in += t.payload_in;
		m->control_out += t.payload_out;
	}
}

void rio_loop_moved(struct rio_loop *loop, struct weft_rio_traffic *moved)
{
	struct rio_end *end = NULL;

	*moved = loop->moved;
	while ((end = rio_end_next(loop, end)) != NULL)
		count_moved(end, moved);
}

void rio_end_refusal_text(struct rio_end *end, char *line, size_t room)
{
	char at[WEFT_ADDRESS_TEXT] = "unknown";
	struct weft_peer peer;

	if (end->dial)
		weft_address_text(&end->dial->peer->address, at);
	else if (weft_qp_peer(end->qp, &peer) == WEFT_OK)
		weft_address_text(&peer.remote, at);
	snprintf(line, room, "no connection %s %s: %s: %s", end->dial ? "to" : "from", at,
		 weft_reason_name(end->reason), weft_reason_text(end->reason));
}

bool rio_end_reap(struct rio_end *end)
{
	struct rio_loop *loop = end->loop;
	struct rio_dial *dial = end->dial;

	if (end->state != RIO_END_DYING || end->posted > 0)
		return false;
	loop->dying--;
	if (dial) {
		dial->end = NULL;
		dial->reason = end->reason;
		dial->next_ns = loop->now_ns + dial->wait_ns;
		dial->wait_ns = dial->wait_ns < redial_most_ns ? 2 * dial->wait_ns : redial_most_ns;
	}
	if (!loop->is_closing && (end->is_known_to_role || end->kind == RIO_END_DATA))
		loop->config.calls->gone(loop, end);
	else if (!loop->is_closing && loop->config.calls->refused)
		loop->config.calls->refused(loop, end);
	count_moved(end, &loop->moved);
	take_down(end);
	return true;
}

/* ---- What it carries ------------------------------------------------------------------------ */

static void queue_added(struct rio_end *end)
{
	end->queued++;
	end->loop->queued++;
}

/* Fails queued requests from index `from` on: they were not posted. */
static void give_back(struct rio_end *end, uint32_t from, enum weft_reason reason)
{
	struct rio_loop *loop = end->loop;
	uint32_t count = end->queued;

	end->queued = 0;
	loop->queued -= count;
	for (uint32_t i = from; i < count; i++) {
		uint64_t id = end->queue[i].id;

		if (!(end->queue[i].flags & WEFT_SIGNALLED))
			continue;
		end->posted--;
		if ((id & ((1U << RIO_WORK_BITS) - 1)) == RIO_WORK_MOVE && !loop->is_closing)
			loop->config.calls->moved(loop, end, (uint32_t)(id >> RIO_WORK_BITS),
						  reason);
	}
}

/* Posts all queued messages and moves in one batch; to be called after the last one for now. */
static void end_flush(struct rio_end *end)
{
	uint32_t posted = 0;
	enum weft_reason r;

	if (end->queued == 0)
		return;
	r = weft_qp_post_send(end->qp, end->queue, end->queued, &posted);
	give_back(end, r == WEFT_OK ? end->queued : posted, r);
	if (r != WEFT_OK)
		rio_end_hang_up(end, r);
}

/* Makes room for one entry. Posting the full queue may end the connection. */
static void queue_room(struct rio_end *end)
{
	if (end->queued == RIO_BATCH)
		end_flush(end);
}

/* The next queue entry, with its segment. */
static struct weft_send_wr *queue_add(struct rio_end *end)
{
	struct weft_send_wr *wr = &end->queue[end->queued];

	*wr = (struct weft_send_wr){ .sges = &end->sges[end->queued], .sge_count = 1 };
	return wr;
}

void rio_loop_flush(struct rio_loop *loop)
{
	struct rio_end *end = NULL;

	while (loop->queued > 0 && (end = rio_end_next(loop, end)) != NULL)
		end_flush(end);
}

static bool can_say(const struct rio_end *end)
{
	return end->state == RIO_END_UP || end->state == RIO_END_GREETING;
}

void rio_end_say(struct rio_end *end, const uint8_t *bytes, size_t length)
{
	struct weft_send_wr *wr;
	uint8_t *copy;

	queue_room(end);
	if (!can_say(end))
		return;
	wr = queue_add(end);
	wr->opcode = WEFT_OP_SEND;
	if (length <= short_bytes(end)) {
		copy = end->inline_bufs + (size_t)end->queued * short_bytes(end);
		wr->id = RIO_WORK_SHORT;
		wr->flags = WEFT_INLINE;
	} else if (end->free_send_count > 0) {
		uint32_t nth = end->free_sends[--end->free_send_count];

		copy = send_buffer(end, nth);
		wr->id = (uint64_t)nth << RIO_WORK_BITS | RIO_WORK_SEND;
		wr->flags = WEFT_SIGNALLED;
		end->posted++;
	} else {
		rio_end_hang_up(end, WEFT_R_QUEUE_FULL);
		return;
	}
	memcpy(copy, bytes, length);
	end->sges[end->queued] = (struct weft_sge){ .addr = (uintptr_t)copy,
						    .length = (uint32_t)length,
						    .tag = local_tag(end) };
	queue_added(end);
}

enum weft_reason rio_end_move(struct rio_end *end, const struct rio_move *move)
{
	struct weft_send_wr *wr;

	queue_room(end);
	if (end->state != RIO_END_UP)
		return WEFT_R_PEER_GONE;
	wr = queue_add(end);
	wr->id = (uint64_t)move->id << RIO_WORK_BITS | RIO_WORK_MOVE;
	wr->opcode = move->is_read ? WEFT_OP_READ : WEFT_OP_WRITE;
	wr->flags = WEFT_SIGNALLED;
	wr->remote_tag = move->handle;
	wr->remote_addr = move->remote;
	wr->sge_count = move->length > 0 ? 1 : 0;
	end->sges[end->queued] = (struct weft_sge){ .addr = (uintptr_t)move->bytes,
						    .length = move->length,
						    .tag = local_tag(end) };
	end->posted++;
	queue_added(end);
	return WEFT_OK;
}

static void received(struct rio_end *end, uint32_t nth, uint32_t length)
{
	const uint8_t *bytes = receive_buffer(end, nth);
	enum weft_reason r;

	rio_end_connected(end); /* the connection event may not have been polled yet */
	if (end->state == RIO_END_GREETING) {
		r = rio_handshake_take(&end->handshake, bytes, length);
		if (r == WEFT_OK)
			greet(end);
	} else if (end->state == RIO_END_UP && !end->loop->is_closing) {
		r = end->loop->config.calls->message(end->loop, end, bytes, length);
	} else {
		return;
	}
	if (r == WEFT_OK)
		r = post_receive(end, nth);
	if (r != WEFT_OK)
		rio_end_hang_up(end, r);
}

void rio_end_completed(struct rio_end *end, const struct weft_completion *c)
{
	enum rio_work work = c->id & ((1U << RIO_WORK_BITS) - 1);
	uint32_t id = (uint32_t)(c->id >> RIO_WORK_BITS);

	if (work == RIO_WORK_RECEIVE) {
		if (c->status == WEFT_SUCCESS)
			received(end, id, c->byte_count);
		return;
	}
	if (work == RIO_WORK_SHORT)
		return; /* completes only in error, which an event reports too */
	CHECK(end->posted > 0);
	end->posted--;
	if (work == RIO_WORK_SEND)
		end->free_sends[end->free_send_count++] = id;
	else if (!end->loop->is_closing)
		end->loop->config.calls->moved(end->loop, end, id, c->reason);
}
