/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/rio_loop.h"
#include "base/reserved.h"
#include "driver/sys/clock.h"
#include "driver/sys/system_reason.h"

#include <errno.h>
#include <sched.h>
#include <sodium/core.h>
#include <sodium/utils.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "roles/rio_end.h"

enum { NS_PER_S = 1000000000, COMPLETIONS = 64 };

static const uint64_t longest_sleep_ns = UINT64_C(10) * NS_PER_S;
static const uint64_t alive_ns = UINT64_C(10) * NS_PER_S;
/*
 * A connecting peer sends its request at once; a listener drops silent connections after this time,
 * or earlier if it needs room.
 */
static const uint64_t silent_ns = UINT64_C(2) * NS_PER_S;

void weft_rio_public_key(const uint8_t seed[WEFT_RIO_KEY_BYTES], uint8_t key[WEFT_RIO_KEY_BYTES])
{
	struct rio_identity id;

	rio_identity_make(&id, seed);
	memcpy(key, id.key, sizeof(id.key));
	sodium_memzero(&id, sizeof(id));
}

/* ---- Life ----------------------------------------------------------------------------------- */

/* Looks up the peer's present address. */
static enum weft_reason find(struct rio_loop *loop, const struct rio_dial *d)
{
	uint32_t nth = (uint32_t)(d->peer - loop->peers);

	if (loop->find && !loop->find(loop->find_context, nth, &loop->peers[nth].address))
		return WEFT_R_CONNECT_UNREACHABLE;
	return WEFT_OK;
}

static enum weft_reason copy_peers(struct rio_loop *loop, const struct weft_rio_self *self)
{
	const struct rio_loop_config *c = &loop->config;

	loop->peers = calloc((size_t)self->peer_count + 1, sizeof(*loop->peers));
	loop->known = calloc((size_t)self->peer_count + 1, sizeof(*loop->known));
	loop->dials = calloc((size_t)self->peer_count + 1, sizeof(*loop->dials));
	if (!loop->peers || !loop->known || !loop->dials)
		return WEFT_R_NO_MEMORY;
	loop->peer_count = self->peer_count;
	for (uint32_t i = 0; i < self->peer_count; i++) {
		const struct weft_rio_peer *p = &self->peers[i];

		if (!RESERVED_IS_ZERO(p))
			return WEFT_R_RESERVED;

		loop->peers[i] = *p;
		loop->known[i].platform = (struct platform){ p->platform.unit,
							     p->platform.process };
		loop->known[i].role = (enum rio_role)p->role;
		memcpy(loop->known[i].key, p->key, sizeof(p->key));
		if (c->dials && p->role == c->dials && (p->address.family != 0 || self->find))
			loop->dials[loop->dial_count++].peer = &loop->peers[i];
	}
	return WEFT_OK;
}

/* One tag for all memory of this process, for local access only. */
static enum weft_reason domain_open(struct weft_adapter *adapter, struct weft_pd **pd,
				    uint32_t *tag)
{
	const struct weft_region_options all = { .addr = PROCESS_FIRST,
						 .length = PROCESS_BYTES,
						 .rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE };
	enum weft_reason r = weft_pd_create(adapter, NULL, pd);

	return r != WEFT_OK ? r : weft_region_register(*pd, &all, tag);
}

/* weft's own threads serve them while the loop sleeps; their descriptors wake it. */
static enum weft_reason adapter_open(struct rio_loop *loop, struct rio_adapter *a,
				     const struct weft_cq_options *cq)
{
	enum weft_reason r = weft_adapter_open(
		&(struct weft_adapter_options){ .policy = loop->config.policy }, &a->adapter);
	int fd;

	if (r == WEFT_OK)
		r = domain_open(a->adapter, &a->pd, &a->tag);
	if (r == WEFT_OK)
		r = weft_cq_create(a->adapter, cq, &a->cq);
	if (r == WEFT_OK)
		r = weft_adapter_fd(a->adapter, &fd);
	return r == WEFT_OK ? rio_loop_also(loop, fd) : r;
}

static void adapter_close(struct rio_adapter *a)
{
	if (a->cq)
		weft_cq_destroy(a->cq);
	if (a->tag)
		weft_region_deregister(a->pd, a->tag);
	if (a->pd)
		weft_pd_destroy(a->pd);
	if (a->adapter)
		weft_adapter_close(a->adapter);
}

static enum weft_reason descriptors_open(struct rio_loop *loop)
{
	loop->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	loop->also = epoll_create1(EPOLL_CLOEXEC);
	if (loop->wake < 0 || loop->also < 0)
		return WEFT_R_DESCRIPTORS;
	return rio_loop_also(loop, loop->wake);
}

static enum weft_reason open_all(struct rio_loop *loop, const struct weft_rio_self *self)
{
	const struct rio_loop_config *c = &loop->config;
	const struct weft_cq_options cq = { .entries_max = c->ends_max *
							   (2 * c->messages_max + 256) };
	enum weft_reason r = copy_peers(loop, self);

	loop->ends = calloc(c->ends_max, sizeof(*loop->ends));
	if (r == WEFT_OK && !loop->ends)
		r = WEFT_R_NO_MEMORY;
	if (r == WEFT_OK)
		r = descriptors_open(loop);
	if (r == WEFT_OK)
		r = weft_adapter_open(&(struct weft_adapter_options){ .policy = c->policy },
				      &loop->adapter);
	if (r == WEFT_OK)
		r = domain_open(loop->adapter, &loop->control_pd, &loop->control_tag);
	if (r == WEFT_OK)
		r = domain_open(loop->adapter, &loop->data_pd, &loop->data_tag);
	if (r == WEFT_OK)
		r = weft_cq_create(loop->adapter, &cq, &loop->cq);
	while (r == WEFT_OK && loop->more_count + 1 < c->adapters)
		r = adapter_open(loop, &loop->more[loop->more_count++], &cq);
	if (r == WEFT_OK)
		r = weft_listener_open(loop->adapter, &self->listen,
				       &(struct weft_listener_options){ .timeout_ns = silent_ns },
				       &loop->listener);
	if (r == WEFT_OK)
		r = weft_listener_address(loop->listener, &loop->listen);
	return r;
}

enum weft_reason rio_loop_open(struct rio_loop *loop, const struct weft_rio_self *self,
			       const struct rio_loop_config *config)
{
	*loop = (struct rio_loop){ .config = *config,
				   .is_open = true,
				   .wake = -1,
				   .also = -1,
				   .spin.spin_ns = self->spin_ns,
				   .alive_ns = self->alive_ns ? self->alive_ns : alive_ns,
				   .find = self->find,
				   .find_context = self->context,
				   .now_ns = clock_ns() };
	if (sodium_init() < 0)
		return system_reason(errno);
	if (self->platform.unit == 0 || (self->peer_count > 0 && !self->peers))
		return WEFT_R_BAD_ARGUMENT;
	if (!RESERVED_IS_ZERO(self))
		return WEFT_R_RESERVED;
	loop->self.platform = (struct platform){ self->platform.unit, self->platform.process };
	loop->self.role = (enum rio_role)config->role;
	rio_identity_make(&loop->self, self->seed);
	return open_all(loop, self);
}

static void ends_close(struct rio_loop *loop)
{
	struct rio_end *end = NULL;

	while ((end = rio_end_next(loop, end)) != NULL)
		rio_end_hang_up(end, WEFT_R_PEER_GONE);
	/* Bound: posted requests are flushed once their queue pair is in Error. */
	while (loop->dying > 0)
		rio_loop_turn(loop);
}

void rio_loop_stop_listening(struct rio_loop *loop)
{
	if (loop->listener)
		weft_listener_close(loop->listener);
	loop->listener = NULL;
}

void rio_loop_close(struct rio_loop *loop)
{
	if (!loop->is_open)
		return;
	loop->is_closing = true;
	rio_loop_stop_listening(loop);
	if (loop->cq)
		ends_close(loop);
	for (uint32_t i = 0; i < loop->more_count; i++)
		adapter_close(&loop->more[i]);
	if (loop->cq)
		weft_cq_destroy(loop->cq);
	if (loop->data_tag)
		weft_region_deregister(loop->data_pd, loop->data_tag);
	if (loop->control_tag)
		weft_region_deregister(loop->control_pd, loop->control_tag);
	if (loop->own_pd)
		weft_pd_destroy(loop->own_pd);
	if (loop->data_pd)
		weft_pd_destroy(loop->data_pd);
	if (loop->control_pd)
		weft_pd_destroy(loop->control_pd);
	if (loop->adapter)
		weft_adapter_close(loop->adapter);
	if (loop->also >= 0)
		close(loop->also);
	if (loop->wake >= 0)
		close(loop->wake);
	free(loop->ends);
	free(loop->dials);
	free(loop->known);
	free(loop->peers);
	sodium_memzero(loop, sizeof(*loop));
}

/* ---- Looking -------------------------------------------------------------------------------- */

static void requests_take(struct rio_loop *loop)
{
	struct weft_request *request;

	while (weft_listener_next(loop->listener, &request) == WEFT_OK && request) {
		if (loop->config.takes_control)
			rio_end_accept(loop, request);
		else
			loop->config.calls->asked(loop, request);
	}
}

static void event_take(struct rio_loop *loop, const struct weft_event *e)
{
	struct rio_end *end = e->context;

	switch (e->kind) {
	case WEFT_EVENT_REQUEST:
		requests_take(loop);
		break;
	case WEFT_EVENT_CONNECTED:
		rio_end_connected(end);
		break;
	case WEFT_EVENT_CONNECT_FAILED:
	case WEFT_EVENT_QP_ERROR:
		rio_end_hang_up(end, e->reason); /* the connection has ended already */
		break;
	default:
		break;
	}
}

static bool events_take(struct rio_loop *loop, struct weft_adapter *adapter)
{
	struct weft_event e;
	bool has_event, has_any = false;

	do {
		(void)weft_event_take(adapter, &e, &has_event);
		if (has_event)
			event_take(loop, &e);
		has_any |= has_event;
	} while (has_event);
	return has_any;
}

static bool all_events_take(struct rio_loop *loop)
{
	bool has_any = events_take(loop, loop->adapter);

	for (uint32_t i = 0; i < loop->more_count; i++)
		has_any |= events_take(loop, loop->more[i].adapter);
	return has_any;
}

/* Each adapter numbers its queue pairs. */
static struct rio_end *end_of(struct rio_loop *loop, const struct rio_adapter *at,
			      uint32_t qp_number)
{
	struct rio_end *end = NULL;

	while ((end = rio_end_next(loop, end)) != NULL) {
		if (end->at == at && weft_qp_number(end->qp) == qp_number)
			return end;
	}
	return NULL;
}

static bool completions_take(struct rio_loop *loop, const struct rio_adapter *at)
{
	struct weft_completion c[COMPLETIONS];
	struct rio_end *end = NULL;
	uint32_t count = 0;

	(void)weft_cq_poll(at ? at->cq : loop->cq, c, COMPLETIONS, &count);
	for (uint32_t i = 0; i < count; i++) {
		if (!end || weft_qp_number(end->qp) != c[i].qp_number)
			end = end_of(loop, at, c[i].qp_number);
		if (end)
			rio_end_completed(end, &c[i]);
	}
	return count > 0;
}

/* Closes ends whose handshake takes too long, and connects to peers when due. */
static void timers_look(struct rio_loop *loop)
{
	struct rio_end *end = NULL;

	while ((end = rio_end_next(loop, end)) != NULL) {
		if ((end->state == RIO_END_GREETING ||
		     (end->state == RIO_END_CONNECTING && end->kind == RIO_END_CONTROL)) &&
		    end->deadline_ns <= loop->now_ns)
			rio_end_hang_up(end, WEFT_R_CONNECT_TIMEOUT);
	}
	for (uint32_t i = 0; i < loop->dial_count && !loop->is_closing; i++) {
		struct rio_dial *d = &loop->dials[i];
		enum weft_reason r;

		if (d->end || d->next_ns > loop->now_ns)
			continue;
		r = find(loop, d);
		if (r == WEFT_OK)
			r = rio_end_dial(loop, d);
		if (r == WEFT_OK)
			continue; /* keep the last failure until this attempt ends */
		d->reason = r;
		d->next_ns = loop->now_ns + NS_PER_S / 5;
	}
	loop->look_ns = loop->now_ns + NS_PER_S / 100;
}

/* Frees ends. False: there was none to free. */
static bool reap(struct rio_loop *loop)
{
	struct rio_end *end = NULL;
	bool has_any = false;

	while (loop->dying > 0 && (end = rio_end_next(loop, end)) != NULL)
		has_any |= rio_end_reap(end);
	return has_any;
}

bool rio_loop_turn(struct rio_loop *loop)
{
	bool has_any;

	loop->now_ns = clock_ns();
	has_any = completions_take(loop, NULL);
	for (uint32_t i = 0; i < loop->more_count; i++)
		has_any |= completions_take(loop, &loop->more[i]);
	/* Events are rare, and a failing queue pair has completions too. */
	if (loop->dying > 0 || !has_any)
		has_any |= all_events_take(loop);
	if (loop->now_ns >= loop->look_ns)
		timers_look(loop);
	if (!loop->is_closing)
		loop->config.calls->work(loop);
	rio_loop_flush(loop);
	/* The role may have work after it was told of a lost end: do not sleep before. */
	return reap(loop) || has_any;
}

/* ---- Sleeping ------------------------------------------------------------------------------- */

enum weft_reason rio_loop_also(struct rio_loop *loop, int descriptor)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = descriptor };

	return epoll_ctl(loop->also, EPOLL_CTL_ADD, descriptor, &e) < 0 ? system_reason(errno)
									: WEFT_OK;
}

void rio_loop_wake(struct rio_loop *loop)
{
	const uint64_t one = 1;

	(void)!write(loop->wake, &one, sizeof(one));
}

/* The next deadline: connection attempts, handshakes, the role's own. */
static uint64_t due(struct rio_loop *loop)
{
	uint64_t at = loop->config.calls->due(loop);
	struct rio_end *end = NULL;

	while ((end = rio_end_next(loop, end)) != NULL) {
		if (end->state == RIO_END_GREETING && end->deadline_ns < at)
			at = end->deadline_ns;
	}
	for (uint32_t i = 0; i < loop->dial_count; i++) {
		if (!loop->dials[i].end && loop->dials[i].next_ns < at)
			at = loop->dials[i].next_ns;
	}
	return at;
}

/* False: there was a completion already, which has been taken. */
static bool more_arm(struct rio_loop *loop)
{
	bool has_any = false;

	for (uint32_t i = 0; i < loop->more_count; i++) {
		(void)weft_cq_arm(loop->more[i].cq, WEFT_ARM_NEXT);
		has_any |= completions_take(loop, &loop->more[i]);
	}
	return !has_any;
}

void rio_loop_sleep(struct rio_loop *loop, uint64_t until_ns)
{
	uint64_t at = due(loop), most = loop->now_ns + longest_sleep_ns, now_ns, count;
	bool is_also = true; /* unless weft_cq_wait() says otherwise */

	if (!more_arm(loop))
		return;
	at = at < until_ns ? at : until_ns;
	at = at < most ? at : most;
	loop->look_ns = 0;
	loop->asleep_until_ns = at;
	if (loop->lock)
		pthread_mutex_unlock(loop->lock);
	now_ns = clock_ns();
	(void)weft_cq_wait(loop->cq, loop->also, at > now_ns ? at - now_ns : 0, &is_also);
	if (is_also)
		(void)!read(loop->wake, &count, sizeof(count));
	if (loop->lock)
		pthread_mutex_lock(loop->lock);
	loop->asleep_until_ns = 0;
}

void rio_loop_yield(struct rio_loop *loop)
{
	uint64_t began_ns = clock_ns();

	sched_yield();
	rio_spin_yielded(&loop->spin, began_ns, clock_ns());
}

void rio_loop_run(struct rio_loop *loop, pthread_mutex_t *lock)
{
	uint64_t busy_ns = 0;

	pthread_mutex_lock(lock);
	loop->lock = lock;
	(void)weft_adapter_drive(loop->adapter, true);
	while (!atomic_load(&loop->is_stopping)) {
		if (rio_loop_turn(loop))
			busy_ns = loop->now_ns;
		else if (rio_spin_may(&loop->spin, busy_ns, loop->now_ns))
			rio_loop_yield(loop); /* the peer may need this processor */
		else
			rio_loop_sleep(loop, UINT64_MAX);
		/* Let other threads take the lock. */
		pthread_mutex_unlock(lock);
		pthread_mutex_lock(lock);
	}
	(void)weft_adapter_drive(loop->adapter, false);
	loop->lock = NULL;
	pthread_mutex_unlock(lock);
}

void rio_loop_stop(struct rio_loop *loop)
{
	atomic_store(&loop->is_stopping, true);
	rio_loop_wake(loop);
}
