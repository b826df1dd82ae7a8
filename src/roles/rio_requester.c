/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs the requester's core (rio/requester.h) for any number of threads: one waiting thread polls
 * the adapter and wakes the others.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/reserved.h"
#include "driver/sys/clock.h"
#include "driver/sys/system_reason.h"
#include "roles/rio_requester_inside.h"

enum {
	REQUESTS = 64,
	REQUESTS_MOST = 4096,
	SEGMENTS = 4096,
	SEGMENTS_MOST = 65536,
	IOUNITS = 32, /* limits of an owner; DEVICES is per I/O unit */
	DEVICES = 64,
	LISTS = 4,
	MESSAGES_EXTRA = 64,
	NS_PER_MS = 1000000
};

static const uint64_t timeout_ns = UINT64_C(30) * 1000 * NS_PER_MS;
static const uint64_t keep_ns = UINT64_C(200) * NS_PER_MS;
static const uint64_t settle_ns = UINT64_C(100) * NS_PER_MS;
static const uint64_t grace_ns = UINT64_C(2) * 1000 * NS_PER_MS;

static struct weft_rio_requester *requester_of(struct rio_loop *loop)
{
	return CONTAINER_OF(loop, struct weft_rio_requester, loop);
}

/* ---- Those who wait ------------------------------------------------------------------------- */

static struct follower *follower_of(struct list *l)
{
	return CONTAINER_OF(l, struct follower, link);
}

/* Wakes the thread, which checks for itself. The polling thread is awake. */
static void follower_tell(struct weft_rio_requester *q, struct follower *f)
{
	if (f != q->poller)
		pthread_cond_signal(&f->wake);
	else if (q->loop.asleep_until_ns > 0)
		rio_loop_wake(&q->loop);
}

void requester_tell(struct weft_rio_requester *q, enum follower_wants what)
{
	for (struct list *l = q->followers.next; l != &q->followers; l = l->next) {
		if (follower_of(l)->wants == what)
			follower_tell(q, follower_of(l));
	}
	if (q->poller && q->poller->wants == what)
		follower_tell(q, q->poller);
}

void requester_tell_room(struct weft_rio_requester *q)
{
	for (struct list *l = q->followers.next; l != &q->followers; l = l->next) {
		if (follower_of(l)->wants == WANTS_ROOM) {
			follower_tell(q, follower_of(l));
			return;
		}
	}
	if (q->poller && q->poller->wants == WANTS_ROOM)
		follower_tell(q, q->poller);
}

void requester_hand_on(struct weft_rio_requester *q)
{
	if (q->poller || q->next_poller || list_is_empty(&q->followers))
		return;
	q->next_poller = follower_of(q->followers.next);
	pthread_cond_signal(&q->next_poller->wake);
}

/* ---- Windows -------------------------------------------------------------------------------- */

/*
 * Windows for an I/O unit that is not connected are bound to an unconnected queue pair: the request
 * is on its way to the unit, which connects once it has it. The windows keep their tags, which the
 * request names.
 */
static struct weft_qp *qp_of(struct weft_rio_requester *q, struct platform iounit)
{
	const struct rio_end *end = rio_end_find(&q->loop, RIO_END_DATA, iounit);

	return end ? end->qp : q->unconnected_qp;
}

static void panes_give(struct weft_rio_requester *q, struct platform iounit)
{
	struct weft_qp *qp = qp_of(q, iounit);

	for (uint32_t i = 0; i < q->sges_max; i++) {
		const struct pane *p = &q->panes[i];
		enum weft_reason r;

		if (!p->is_open || !platform_is_same(p->iounit, iounit))
			continue;
		r = weft_window_give(qp, p->tag);
		CHECK(r == WEFT_OK || r == WEFT_R_WINDOW_UNBOUND); /* see act() */
	}
}

/*
 * The owner, the only peer in this domain, reads lists through this window. It is bound anew for
 * each owner: the former one may have invalidated it by Send with Invalidate.
 */
static enum weft_reason lists_expose(struct weft_rio_requester *q)
{
	struct weft_bind bind = { .window_tag = q->lists_window,
				  .region_tag = q->lists_tag,
				  .addr = (uintptr_t)q->lists,
				  .length = (uint64_t)LISTS * RIO_LIST_BYTES_MAX,
				  .rights = WEFT_REMOTE_READ };
	enum weft_reason r = weft_window_bind(q->loop.control_pd, &bind);

	if (r == WEFT_OK)
		q->lists_window = bind.tag;
	return r;
}

/* ---- What has happened ---------------------------------------------------------------------- */

static enum weft_reason came(struct rio_loop *loop, struct rio_end *end)
{
	struct weft_rio_requester *q = requester_of(loop);
	enum weft_reason r = lists_expose(q);

	if (r != WEFT_OK)
		return r;
	loop->self.term = end->handshake.seen;
	q->owner = end;
	rio_requester_owner_came(q->core, &end->handshake);
	rio_requester_lists(q->core, q->lists_window);
	return WEFT_OK;
}

static enum weft_reason message(struct rio_loop *loop, struct rio_end *end, const uint8_t *bytes,
				size_t length)
{
	if (end->kind == RIO_END_DATA)
		return rio_requester_unit_take(requester_of(loop)->core, end->peer, bytes, length);
	return rio_requester_take(requester_of(loop)->core, bytes, length, loop->now_ns);
}

static void gone(struct rio_loop *loop, struct rio_end *end)
{
	struct weft_rio_requester *q = requester_of(loop);

	if (end->kind == RIO_END_DATA) {
		panes_give(q, end->peer); /* before its queue pair is destroyed */
		if (!rio_end_find(loop, RIO_END_DATA, end->peer))
			rio_requester_lost(q->core, end->peer);
	} else if (end == q->owner) {
		q->owner = NULL;
		rio_requester_owner_left(q->core);
	}
}

/* Moves the windows that wait for this I/O unit to its queue pair. */
static void made(struct rio_loop *loop, struct rio_end *end)
{
	panes_give(requester_of(loop), end->peer);
}

static void connected(struct rio_loop *loop, struct rio_end *end)
{
	(void)loop;
	(void)end;
}

static void moved(struct rio_loop *loop, struct rio_end *end, uint32_t id, enum weft_reason reason)
{
	(void)loop;
	(void)end;
	(void)id;
	(void)reason;
}

/* AMB-26: accepts only an I/O unit that the owner has announced, once per connection. */
static void asked(struct rio_loop *loop, struct weft_request *request)
{
	struct weft_rio_requester *q = requester_of(loop);
	uint8_t answer[RIO_DATA_BYTES];
	const struct rio_bytes said = { answer, sizeof(answer) };
	const struct weft_connect_options with = { .private_data = answer,
						   .private_bytes = sizeof(answer) };
	struct weft_peer peer = { 0 };
	struct platform iounit;
	struct rio_end *old;

	(void)weft_request_query(request, &peer);
	if (rio_requester_asked(q->core,
				&(struct rio_bytes){ peer.private_data, peer.private_bytes },
				&iounit, answer) != WEFT_OK) {
		weft_request_reject(request, &with);
		return;
	}
	/* The unit's new request means that its former connection is dead. */
	old = rio_end_find(loop, RIO_END_DATA, iounit);
	if (old)
		rio_end_hang_up(old, WEFT_R_PEER_GONE);
	if (rio_end_accept_data(loop, iounit, request, &said) != WEFT_OK)
		rio_requester_lost(q->core, iounit);
}

/* ---- What is to be done --------------------------------------------------------------------- */

static void expose(struct weft_rio_requester *q, const struct rio_requester_act *act)
{
	struct pane *p = &q->panes[act->id];
	struct weft_bind bind = { .region_tag = act->tag,
				  .addr = act->address,
				  .length = act->window_length,
				  .rights = act->is_written ? WEFT_REMOTE_WRITE
							    : WEFT_REMOTE_READ };
	enum weft_reason r = WEFT_OK;

	if (p->tag == 0)
		r = weft_window_alloc(q->loop.data_pd, &p->tag);
	bind.window_tag = p->tag;
	p->iounit = act->iounit;
	if (r == WEFT_OK)
		r = platform_is_none(p->iounit) ? weft_window_bind(q->loop.data_pd, &bind)
						: weft_window_bind_to(qp_of(q, p->iounit), &bind);
	p->is_open = r == WEFT_OK;
	if (r == WEFT_OK)
		p->tag = bind.tag;
	rio_requester_exposed(q->core, act->id, r, bind.tag);
}

static void act_do(struct weft_rio_requester *q, const struct rio_requester_act *act)
{
	struct rio_end *end;
	enum weft_reason r;

	switch (act->kind) {
	case RIO_REQUESTER_SAY:
		if (q->owner)
			rio_end_say(q->owner, act->bytes, act->length);
		break;
	case RIO_REQUESTER_EXPOSE:
		expose(q, act);
		break;
	case RIO_REQUESTER_CLOSE:
		r = weft_window_unbind(q->loop.data_pd, q->panes[act->id].tag);
		/* The I/O unit may have invalidated it by Send with Invalidate. */
		CHECK(r == WEFT_OK || r == WEFT_R_WINDOW_UNBOUND);
		q->panes[act->id].is_open = false;
		break;
	case RIO_REQUESTER_HANG_UP:
		end = rio_end_find(&q->loop, RIO_END_DATA, act->iounit);
		if (end)
			rio_end_hang_up(end, WEFT_R_PEER_GONE);
		break;
	}
}

static void ended_take(struct weft_rio_requester *q, const struct rio_ended *e)
{
	struct ticket *t = e->context;
	struct weft_rio_result *to = t->waiter ? &t->waiter->ended : &t->ended;

	to->context = t->ended.context;
	to->reason = (enum weft_reason)e->reason;
	to->transaction = e->transaction;
	to->done_bytes = e->done_bytes;
	to->loss = e->loss;
	memcpy(to->text, e->text, sizeof(to->text));
	if (t->waiter) {
		t->waiter->has_ended = true;
		follower_tell(q, &t->waiter->thread);
		list_push(&q->free_tickets, &t->link);
	} else {
		list_add_tail(&q->ended, &t->link);
		requester_tell(q, WANTS_ALL);
	}
	requester_tell_room(q);
}

static void work(struct rio_loop *loop)
{
	struct weft_rio_requester *q = requester_of(loop);
	struct rio_requester_act act;
	struct rio_ended ended;

	rio_requester_expire(q->core, loop->now_ns);
	while (rio_requester_act(q->core, &act))
		act_do(q, &act);
	while (rio_requester_ended(q->core, &ended))
		ended_take(q, &ended);
}

void requester_work(struct weft_rio_requester *q)
{
	q->loop.now_ns = clock_ns();
	work(&q->loop);
	rio_loop_flush(&q->loop);
}

static uint64_t due(struct rio_loop *loop)
{
	return rio_requester_due(requester_of(loop)->core);
}

static const struct rio_role_calls calls = {
	.came = came,
	.message = message,
	.made = made,
	.connected = connected,
	.gone = gone,
	.moved = moved,
	.asked = asked,
	.work = work,
	.due = due,
};

/* ---- Waiting -------------------------------------------------------------------------------- */

/* Polls the adapter until something has happened, at most until until_ns. */
static void look(struct weft_rio_requester *q, uint64_t until_ns)
{
	uint64_t start_ns = clock_ns();

	while (!rio_loop_turn(&q->loop)) {
		if (!rio_spin_may(&q->loop.spin, start_ns, q->loop.now_ns) ||
		    q->loop.now_ns >= until_ns) {
			rio_loop_sleep(&q->loop, until_ns);
			rio_loop_turn(&q->loop);
			break;
		}
		pthread_mutex_unlock(&q->lock); /* let other threads take the lock */
		rio_loop_yield(&q->loop);
		pthread_mutex_lock(&q->lock);
	}
}

void requester_wait(struct weft_rio_requester *q, struct follower *f, uint64_t until_ns)
{
	if (q->poller || q->next_poller) {
		struct timespec until = to_timespec(until_ns);

		list_add_tail(&q->followers, &f->link);
		pthread_cond_clockwait(&f->wake, &q->lock, CLOCK_MONOTONIC, &until);
		list_remove(&f->link);
		if (q->next_poller == f)
			q->next_poller = NULL;
		return;
	}
	q->poller = f;
	look(q, until_ns);
	q->poller = NULL;
	requester_tell(q, WANTS_ALL);
}

static void *keep(void *requester)
{
	struct weft_rio_requester *q = requester;

	pthread_mutex_lock(&q->lock);
	while (!q->is_closing) {
		struct timespec until = to_timespec(clock_ns() + keep_ns);

		pthread_cond_clockwait(&q->keeper_wake, &q->lock, CLOCK_MONOTONIC, &until);
		if (q->poller || q->next_poller || q->is_closing)
			continue;
		rio_loop_turn(&q->loop);
		requester_tell(q, WANTS_ALL);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

static void keeper_end(struct weft_rio_requester *q)
{
	if (!q->has_keeper)
		return;
	pthread_mutex_lock(&q->lock);
	q->is_closing = true;
	pthread_cond_signal(&q->keeper_wake);
	pthread_mutex_unlock(&q->lock);
	pthread_join(q->keeper, NULL);
}

/*
 * The owner hears of completed requests later than the requester. If the requester disconnected
 * before, the owner would log them as failed.
 */
static void settle(struct weft_rio_requester *q)
{
	uint64_t end_ns = clock_ns() + settle_ns;

	pthread_mutex_lock(&q->lock);
	while (rio_requester_is_owed(q->core) && clock_ns() < end_ns) {
		if (!rio_loop_turn(&q->loop))
			rio_loop_sleep(&q->loop, end_ns);
	}
	pthread_mutex_unlock(&q->lock);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static enum weft_reason memory_open(struct weft_rio_requester *q)
{
	q->lists = malloc((size_t)LISTS * RIO_LIST_BYTES_MAX);
	q->panes = calloc(q->sges_max, sizeof(*q->panes));
	q->tickets = calloc(q->requests_max, sizeof(*q->tickets));
	q->fragments = calloc(q->sges_max, sizeof(*q->fragments));
	list_init(&q->free_tickets);
	list_init(&q->ended);
	if (!q->lists || !q->panes || !q->tickets || !q->fragments)
		return WEFT_R_NO_MEMORY;
	for (uint32_t i = 0; i < q->requests_max; i++)
		list_add_tail(&q->free_tickets, &q->tickets[i].link);
	return WEFT_OK;
}

static enum weft_reason lists_open(struct weft_rio_requester *q)
{
	const struct weft_region_options lists = { .addr = (uintptr_t)q->lists,
						   .length = (uint64_t)LISTS * RIO_LIST_BYTES_MAX,
						   .rights = WEFT_REMOTE_READ | WEFT_BIND };
	enum weft_reason r = weft_region_register(q->loop.control_pd, &lists, &q->lists_tag);

	return r == WEFT_OK ? weft_window_alloc(q->loop.control_pd, &q->lists_window) : r;
}

/* RIO-13a. What is none of these sizes is refused when the core is made. */
static struct sgl_attributes attributes_of(const struct weft_rio_requester_options *o)
{
	struct sgl_attributes a = sgl_attributes_default();

	if (o->address_bytes)
		a.address_bytes = o->address_bytes <= UINT8_MAX ? (uint8_t)o->address_bytes
								: UINT8_MAX;
	while (o->page_bytes && UINT64_C(1) << a.page_shift < o->page_bytes)
		a.page_shift++;
	if (o->page_bytes && UINT64_C(1) << a.page_shift != o->page_bytes)
		a.page_shift = UINT8_MAX;
	return a;
}

static enum weft_reason core_open(struct weft_rio_requester *q,
				  const struct weft_rio_requester_options *o)
{
	const struct rio_requester_config config = {
		.self = q->loop.self.platform,
		.requests_max = q->requests_max,
		.sges_max = q->sges_max,
		.iounits_max = IOUNITS,
		.devices_max = IOUNITS * DEVICES,
		.lists_max = LISTS,
		.lists = q->lists,
		.lists_address = (uintptr_t)q->lists,
		.timeout_ns = o->timeout_ns ? o->timeout_ns : timeout_ns,
		.grace_ns = grace_ns,
		.attributes = attributes_of(o),
	};
	enum weft_reason r = lists_open(q);

	return r == WEFT_OK ? rio_requester_create(&config, &q->core) : r;
}

static enum weft_reason open_all(struct weft_rio_requester *q, const struct weft_rio_self *self,
				 const struct weft_rio_requester_options *o)
{
	const struct rio_loop_config config = {
		.calls = &calls,
		.role = WEFT_RIO_REQUESTER,
		.ends_max = 2 * IOUNITS + 2,
		.messages_max = 2 * q->requests_max + MESSAGES_EXTRA,
		.words_max = q->requests_max,
		.dials = WEFT_RIO_OWNER,
		.policy = WEFT_POLICY_STRICT, /* peers reach memory only through windows */
	};
	enum weft_reason r = memory_open(q);

	if (r == WEFT_OK)
		r = rio_loop_open(&q->loop, self, &config);
	q->loop.lock = &q->lock;
	if (r == WEFT_OK && q->loop.dial_count != 1)
		r = WEFT_R_BAD_ARGUMENT; /* exactly one owner, with an address */
	if (r == WEFT_OK)
		r = weft_qp_create(
			q->loop.data_pd,
			&(struct weft_qp_options){ .send_cq = q->loop.cq, .recv_cq = q->loop.cq },
			&q->unconnected_qp);
	if (r == WEFT_OK)
		r = core_open(q, o);
	return r;
}

enum weft_reason weft_rio_requester_open(const struct weft_rio_self *self,
					 const struct weft_rio_requester_options *options,
					 struct weft_rio_requester **requester)
{
	static const struct weft_rio_requester_options none;
	const struct weft_rio_requester_options *o = options ? options : &none;
	struct weft_rio_requester *q;
	enum weft_reason r;
	int error;

	if (!self || !requester)
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(o))
		return WEFT_R_RESERVED;
	if (o->requests_max > REQUESTS_MOST || o->sges_max > SEGMENTS_MOST)
		return WEFT_R_LIMIT;
	q = calloc(1, sizeof(*q));
	if (!q)
		return WEFT_R_NO_MEMORY;
	q->requests_max = o->requests_max ? o->requests_max : REQUESTS;
	q->sges_max = o->sges_max ? o->sges_max : SEGMENTS;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->keeper_wake, NULL);
	list_init(&q->followers);
	r = open_all(q, self, o);
	if (r == WEFT_OK) {
		error = pthread_create(&q->keeper, NULL, keep, q);
		q->has_keeper = error == 0;
		r = q->has_keeper ? WEFT_OK : system_reason(error);
	}
	if (r != WEFT_OK) {
		weft_rio_requester_close(q);
		return r;
	}
	*requester = q;
	return WEFT_OK;
}

void weft_rio_requester_close(struct weft_rio_requester *q)
{
	if (!q)
		return;
	keeper_end(q);
	if (q->core) {
		settle(q);
		rio_requester_owner_left(q->core);
		work(&q->loop); /* closes windows */
		rio_requester_destroy(q->core);
	}
	for (uint32_t i = 0; q->core && i < q->sges_max; i++) {
		if (q->panes[i].tag)
			weft_window_discard(q->loop.data_pd, q->panes[i].tag);
	}
	if (q->unconnected_qp)
		weft_qp_destroy(q->unconnected_qp);
	requester_memory_forget(q);
	if (q->lists_window)
		weft_window_discard(q->loop.control_pd, q->lists_window);
	if (q->lists_tag)
		weft_region_deregister(q->loop.control_pd, q->lists_tag);
	rio_loop_close(&q->loop);
	free(q->lists);
	free(q->panes);
	free(q->tickets);
	free(q->fragments);
	pthread_cond_destroy(&q->keeper_wake);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

void weft_rio_requester_address(struct weft_rio_requester *q, struct weft_address *address)
{
	if (q && address)
		*address = q->loop.listen;
}

void weft_rio_requester_traffic(struct weft_rio_requester *q, struct weft_rio_traffic *m)
{
	if (!q || !m)
		return;
	pthread_mutex_lock(&q->lock);
	rio_loop_moved(&q->loop, m);
	pthread_mutex_unlock(&q->lock);
}
