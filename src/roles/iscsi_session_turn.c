/* SPDX-License-Identifier: BSD-2-Clause */
/* What happens to a session: its connections, what comes by them, time; and sleeping. */
#include <errno.h>
#include <netdb.h>
#include <sodium/randombytes.h>
#include <sodium/utils.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/deadline.h"
#include "base/least.h"
#include "driver/sys/clock.h"
#include "driver/sys/fabric_address.h"
#include "roles/iscsi_session_inside.h"

enum {
	BATCH = 16, /* of a request there are two: it was sent, and is answered */
	NS_PER_S = 1000000000
};

static const uint64_t longest_sleep_ns = UINT64_C(10) * NS_PER_S;

/* ---- Ways to the portal --------------------------------------------------------------------- */

static void way_add(struct weft_iscsi_session *s, enum rdma_wire wire,
		    const struct weft_address *to)
{
	if (s->way_count < SESSION_WAYS_MAX)
		s->ways[s->way_count++] = (struct session_way){ wire, *to };
}

static void ways_add(struct weft_iscsi_session *s, const struct addrinfo *found, uint16_t port,
		     enum rdma_wire wire)
{
	for (const struct addrinfo *f = found; f; f = f->ai_next) {
		struct weft_address to = { .port = port };

		if (f->ai_family == AF_INET) {
			const struct sockaddr_in *in = (const void *)f->ai_addr;

			to.family = 4;
			memcpy(to.ip, &in->sin_addr, 4);
		} else if (f->ai_family == AF_INET6) {
			const struct sockaddr_in6 *in6 = (const void *)f->ai_addr;

			to.family = 6;
			memcpy(to.ip, &in6->sin6_addr, 16);
			to.scope = in6->sin6_scope_id;
		} else {
			continue;
		}
		way_add(s, wire, &to);
	}
}

/* A node of the fabric that this program is in. False: none of this name. */
static bool way_to_node(struct weft_iscsi_session *s, const char *host, uint16_t port)
{
	struct fabric_msg_port p;
	struct weft_address to;

	if (!s->url.is_iser || s->url.wire == ISCSI_URL_IWARP || !fabric_client_node() ||
	    fabric_client_look(host, 0, &p) != WEFT_OK)
		return false;
	to = fabric_address_gid(&p, port);
	way_add(s, RDMA_ROCE, &to);
	return true;
}

static enum weft_reason ways_find(struct weft_iscsi_session *s, const char *host, uint16_t port)
{
	const struct addrinfo wanted = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	int error;

	s->way_count = s->way_at = 0;
	if (way_to_node(s, host, port))
		return WEFT_OK;
	error = getaddrinfo(host, NULL, &wanted, &found);
	if (error != 0) {
		session_why(s, "%s: %s", host, gai_strerror(error));
		return WEFT_R_ISCSI_HOST;
	}
	if (s->url.wire != ISCSI_URL_IWARP)
		ways_add(s, found, port, RDMA_ROCE);
	if (s->url.is_iser && s->url.wire != ISCSI_URL_ROCE)
		ways_add(s, found, port, RDMA_IWARP);
	freeaddrinfo(found);
	return s->way_count > 0 ? WEFT_OK : WEFT_R_ISCSI_HOST;
}

/* A redirection leads elsewhere than the URL. */
static enum weft_reason ways_open(struct weft_iscsi_session *s, struct word address)
{
	struct iscsi_address a;
	char host[ISCSI_URL_HOST_MAX + 1];

	if (address.length == 0)
		return ways_find(s, s->url.host, s->url.port);
	if (iscsi_address_parse(address, &a) != WEFT_OK || a.host.length > ISCSI_URL_HOST_MAX)
		return WEFT_R_ISCSI_VALUE;
	memcpy(host, a.host.at, a.host.length);
	host[a.host.length] = '\0';
	return ways_find(s, host, a.port);
}

/* ---- Connections ---------------------------------------------------------------------------- */

static void link_drop(struct weft_iscsi_session *s)
{
	uint32_t number;

	s->link = LINK_NONE;
	s->port->end(s);
	if (!s->qp)
		return;
	number = weft_qp_number(s->qp);
	CHECK(weft_qp_destroy(s->qp) == WEFT_OK);
	(void)weft_cq_forget(s->cq, number);
	s->qp = NULL;
}

/* The next of the ways that are left. False: none. */
static bool dial(struct weft_iscsi_session *s)
{
	while (s->way_at < s->way_count) {
		const struct session_way *way = &s->ways[s->way_at++];

		s->portal = way->to;
		s->link_reason = s->port->dial(s, way);
		s->link = LINK_DIALLING;
		if (s->link_reason == WEFT_OK)
			return true;
		link_drop(s);
	}
	return false;
}

static void connect_lost(struct weft_iscsi_session *s, enum weft_reason reason)
{
	if (s->link_reason == WEFT_OK)
		s->link_reason = reason;
	iscsi_initiator_lost(s->core, s->link_reason, s->now_ns);
}

static void connect_begin(struct weft_iscsi_session *s, struct word address)
{
	CHECK(s->link == LINK_NONE);
	s->link_reason = ways_open(s, address);
	if (s->link_reason != WEFT_OK || !dial(s))
		connect_lost(s, WEFT_R_CONNECT_UNREACHABLE);
}

static void connected(struct weft_iscsi_session *s)
{
	uint8_t random[CHAP_RANDOM_BYTES];
	enum weft_reason r = s->port->up(s);

	if (r != WEFT_OK) {
		link_drop(s);
		connect_lost(s, r);
		return;
	}
	s->link = LINK_UP;
	s->was_up = true;
	randombytes_buf(random, sizeof(random));
	iscsi_initiator_begin(s->core, s->port->calls(), s->port->core_port(s), random, s->now_ns);
	sodium_memzero(random, sizeof(random));
}

void session_link_end(struct weft_iscsi_session *s, enum weft_reason reason)
{
	if (s->link == LINK_NONE)
		return;
	link_drop(s);
	iscsi_initiator_lost(s->core, reason, s->now_ns);
	session_settle(s);
}

static void link_event(struct weft_iscsi_session *s)
{
	enum weft_reason reason = s->link_reason;

	if (s->link == LINK_DIALLING && reason == WEFT_OK) {
		connected(s);
	} else if (s->link == LINK_DIALLING) {
		link_drop(s);
		if (!dial(s))
			connect_lost(s, reason);
	} else if (s->link == LINK_UP && reason != WEFT_OK) {
		session_link_end(s, reason);
	}
	session_settle(s);
}

/* ---- What the core says --------------------------------------------------------------------- */

static bool is_reset(const struct iscsi_event *e, uint64_t lun)
{
	struct scsi_sense sense;

	return e->lun == lun && scsi_answer_sense(&sense, e->sense, e->sense_bytes) &&
	       sense.key == 6 && sense.code == 0x29 && sense.qualifier != 7;
}

static void take_event(struct weft_iscsi_session *s, const struct iscsi_event *e)
{
	switch (e->kind) {
	case ISCSI_EVENT_CONNECT:
		connect_begin(s, e->address);
		break;
	case ISCSI_EVENT_LOGIN:
		s->give_up_ns = UINT64_MAX;
		s->reconnects += iscsi_initiator_counts(s->core)->logins > 1;
		session_tell(s);
		break;
	case ISCSI_EVENT_LOST:
		s->reason = e->reason;
		s->login_status = e->login_status;
		if (s->give_up_ns == UINT64_MAX)
			s->give_up_ns = deadline_after(s->now_ns, s->retry_ns);
		break;
	case ISCSI_EVENT_SCSI:
		if (is_reset(e, scsi_lun_bytes(s->url.lun)))
			session_unit_reset(s);
		break;
	case ISCSI_EVENT_ENDED:
		s->has_ended = true;
		s->login_status = e->login_status;
		if (e->reason != WEFT_R_ISCSI_GONE || s->reason == WEFT_OK)
			s->reason = e->reason;
		session_tell(s);
		break;
	default:
		break;
	}
}

static void request_done(struct weft_iscsi_session *s, struct iscsi_request *r)
{
	if (r->kind == ISCSI_REQUEST_COMMAND)
		session_part_done(s, r);
	else
		s->found = r;
}

void session_settle(struct weft_iscsi_session *s)
{
	struct iscsi_request *r;
	struct iscsi_event e;

	if (s->port->settle)
		s->port->settle(s);
	while ((r = iscsi_initiator_next_done(s->core)) != NULL)
		request_done(s, r);
	while (iscsi_initiator_event(s->core, &e))
		take_event(s, &e);
	while ((r = iscsi_initiator_next_done(s->core)) != NULL)
		request_done(s, r);
}

void session_take(struct weft_iscsi_session *s, const struct iscsi_received *r)
{
	iscsi_initiator_take(s->core, r, s->now_ns);
	session_settle(s);
}

/* ---- Turns ---------------------------------------------------------------------------------- */

/*
 * Not to the last answer: the program may ask for more meanwhile, and the target go on. With a loop
 * of its own, only new ones would tell it of those that are left; and no other thread must sleep
 * meanwhile, as one of them may be its.
 */
static bool is_enough(const struct weft_iscsi_session *s)
{
	return !list_is_empty(&s->ended_jobs) && s->poll_fd < 0 && !s->has_sleeper &&
	       s->waiters == 0 && s->link_reason == WEFT_OK;
}

static bool completions_take(struct weft_iscsi_session *s)
{
	struct weft_completion done[BATCH];
	uint32_t count = 0, number = s->qp ? weft_qp_number(s->qp) : 0;
	bool has_any = false;

	do {
		(void)weft_cq_poll(s->cq, done, BATCH, &count);
		for (uint32_t i = 0; i < count; i++) {
			/* The connection may have ended with one before. */
			if (s->qp && done[i].qp_number == number)
				s->port->completed(s, &done[i]);
		}
		has_any |= count > 0;
	} while (count == BATCH && !is_enough(s));
	return has_any;
}

static bool events_take(struct weft_iscsi_session *s)
{
	struct weft_event event;
	bool has_event = false, has_any = false;

	while (weft_event_take(s->adapter, &event, &has_event) == WEFT_OK && has_event) {
		has_any = true;
		if (event.kind == WEFT_EVENT_COMPLETION)
			s->is_armed = false;
		if (!s->port->event(s, &event))
			continue;
		/* What came before the end counts. */
		if (s->link == LINK_UP && s->link_reason != WEFT_OK) {
			enum weft_reason reason = s->link_reason;

			(void)completions_take(s);
			s->link_reason = reason;
		}
		link_event(s);
	}
	return has_any;
}

static bool time_take(struct weft_iscsi_session *s)
{
	bool has_any = false;

	if (iscsi_initiator_due(s->core) <= s->now_ns) {
		iscsi_initiator_expire(s->core, s->now_ns);
		session_settle(s);
		has_any = true;
	}
	if (s->later_ns <= s->now_ns) {
		session_jobs_retry(s);
		has_any = true;
	}
	if (s->give_up_ns <= s->now_ns && !s->has_ended) {
		enum weft_reason reason = s->reason;

		s->give_up_ns = UINT64_MAX;
		iscsi_initiator_end(s->core, WEFT_R_ISCSI_GONE, s->now_ns);
		if (s->link == LINK_DIALLING)
			session_link_end(s, WEFT_R_ISCSI_GONE);
		session_settle(s);
		s->reason = reason;
		has_any = true;
	}
	return has_any;
}

static bool closing_take(struct weft_iscsi_session *s)
{
	if (s->link != LINK_UP || !s->port->is_closing(s))
		return false;
	session_link_end(s, WEFT_R_ISCSI_ENDED);
	return true;
}

void session_turn(struct weft_iscsi_session *s)
{
	bool has_any;

	s->now_ns = clock_ns();
	do {
		has_any = completions_take(s);
		has_any |= events_take(s);
		has_any |= time_take(s);
		has_any |= closing_take(s);
		session_jobs_feed(s);
		has_any |= s->link == LINK_UP && s->port->work(s);
	} while (has_any && !is_enough(s));
}

/* ---- Sleeping ------------------------------------------------------------------------------- */

static uint64_t due(const struct weft_iscsi_session *s)
{
	uint64_t at = iscsi_initiator_due(s->core);

	at = at < s->later_ns ? at : s->later_ns;
	return at < s->give_up_ns ? at : s->give_up_ns;
}

void session_tell(struct weft_iscsi_session *s)
{
	const uint64_t one = 1;

	if (s->waiters > 0)
		pthread_cond_broadcast(&s->news);
	if (s->has_sleeper)
		(void)!write(s->wake, &one, sizeof(one));
}

void session_sleep(struct weft_iscsi_session *s, uint64_t until_ns)
{
	uint64_t at = due(s), most = s->now_ns + longest_sleep_ns, now_ns, count;
	bool is_woken = false;

	at = at < until_ns ? at : until_ns;
	at = at < most ? at : most;
	if (s->has_sleeper) {
		struct timespec until = to_timespec(at);

		s->waiters++;
		pthread_cond_clockwait(&s->news, &s->lock, CLOCK_MONOTONIC, &until);
		s->waiters--;
		return;
	}
	s->has_sleeper = true;
	s->asleep_until_ns = at;
	pthread_mutex_unlock(&s->lock);
	now_ns = clock_ns();
	(void)weft_cq_wait(s->cq, s->wake, at > now_ns ? at - now_ns : 0, &is_woken);
	pthread_mutex_lock(&s->lock);
	if (is_woken)
		(void)!read(s->wake, &count, sizeof(count));
	s->has_sleeper = false;
	/* One of the others takes over, should this thread go. */
	if (s->waiters > 0)
		pthread_cond_broadcast(&s->news);
}

/* ---- The program's own loop ----------------------------------------------------------------- */

static void ready_set(struct weft_iscsi_session *s, bool is_ready)
{
	uint64_t count = 1;

	if (s->is_ready == is_ready)
		return;
	s->is_ready = is_ready;
	if (is_ready)
		(void)!write(s->ready_fd, &count, sizeof(count));
	else
		(void)!read(s->ready_fd, &count, sizeof(count));
}

static void timer_set(struct weft_iscsi_session *s, uint64_t at)
{
	struct itimerspec when = { 0 };

	if (at == s->timer_ns)
		return;
	s->timer_ns = at;
	if (at != UINT64_MAX)
		when.it_value = to_timespec(at > 0 ? at : 1);
	(void)timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

void session_arm(struct weft_iscsi_session *s)
{
	if (s->poll_fd < 0)
		return;
	/* A completion that came before the arming is taken by the turn; it may have disarmed. */
	while (!s->is_armed) {
		s->is_armed = true;
		(void)weft_cq_arm(s->cq, WEFT_ARM_NEXT);
		session_turn(s);
	}
	timer_set(s, due(s));
	ready_set(s, !list_is_empty(&s->ended_jobs) || s->has_ended);
}
