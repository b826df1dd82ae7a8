/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a session, and the calls that ask for no work. */
#include <errno.h>
#include <sodium/core.h>
#include <sodium/randombytes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/deadline.h"
#include "base/reserved.h"
#include "driver/sys/clock.h"
#include "driver/sys/system_reason.h"
#include "iscsi/initiator/initiator_iser.h"
#include "roles/iscsi_session_inside.h"
#include "roles/rio_loop.h"

enum {
	REQUESTS = 128,
	REQUESTS_MOST = 4096,
	CQ_EXTRA = 1024,
	TAGS = 8192,	  /* for memory that is added */
	RETRIES_MAX = 16, /* of a command, by connections that were lost */
	RECV_BYTES = 256 * 1024,
	BURST_BYTES = 1 << 20,
	R2TS = 8 /* that wait at the same time: the next burst is asked for while one is sent */
};

#define NS_PER_S UINT64_C(1000000000)

static const uint64_t open_ns = 15 * NS_PER_S;
static const uint64_t timeout_ns = 60 * NS_PER_S;
static const uint64_t retry_ns = 30 * NS_PER_S;
static const uint64_t alive_ns = 5 * NS_PER_S;
static const uint64_t reconnect_ns = NS_PER_S / 5;
static const uint64_t logout_ns = NS_PER_S;

void session_why(struct weft_iscsi_session *s, const char *format, ...)
{
	va_list args;

	if (s->why[0] != '\0')
		return;
	va_start(args, format);
	vsnprintf(s->why, sizeof(s->why), format, args);
	va_end(args);
}

/* A page that the kernel zeroes in the child of a fork: to ask for the pid is a system call. */
static const volatile bool *mark_make(void)
{
	bool *mark = mmap(NULL, sizeof(*mark), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	if (mark == MAP_FAILED)
		return NULL;
	*mark = true;
	if (madvise(mark, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) == 0)
		return mark;
	munmap(mark, sizeof(*mark));
	return NULL;
}

static bool is_own(const struct weft_iscsi_session *s)
{
	return s->mark ? *s->mark : s->process == getpid();
}

enum weft_reason session_enter(struct weft_iscsi_session *s)
{
	if (!is_own(s))
		return WEFT_R_ISCSI_ENDED;
	pthread_mutex_lock(&s->lock);
	return WEFT_OK;
}

void session_leave(struct weft_iscsi_session *s)
{
	session_arm(s);
	pthread_mutex_unlock(&s->lock);
}

/* ---- What it is opened with ----------------------------------------------------------------- */

static enum weft_reason take_url(struct weft_iscsi_session *s, const char *url)
{
	struct iscsi_url_complaint complaint;

	if (!iscsi_url_parse(url, &s->url, &complaint)) {
		session_why(s, "%s (at character %u of the URL)", complaint.why, complaint.at + 1);
		return WEFT_R_ISCSI_URL;
	}
	if (s->url.target.length == 0 && !s->is_discovery) {
		session_why(s, "the URL names no target and LUN: iscsi://HOST[:PORT]/TARGET/LUN");
		return WEFT_R_ISCSI_URL;
	}
	return WEFT_OK;
}

static uint32_t digest_of(enum iscsi_url_digest said)
{
	switch (said) {
	case ISCSI_URL_CRC32C:
		return iscsi_list_of(ISCSI_DIGEST_CRC32C, 0);
	case ISCSI_URL_NO_DIGEST:
		return iscsi_list_of(ISCSI_DIGEST_NONE, 0);
	default: /* the target decides */
		return iscsi_list_of(ISCSI_DIGEST_NONE, ISCSI_DIGEST_CRC32C);
	}
}

static void set_wishes(struct weft_iscsi_session *s)
{
	struct iscsi_params *w = &s->config.wish;

	iscsi_params_init(w);
	w->connection.header_digest = digest_of(s->url.header_digest);
	w->connection.data_digest = digest_of(s->url.data_digest);
	w->session.time2wait_s = 0;
	w->session.time2retain_s = 0;
	w->session.burst_bytes_max = BURST_BYTES;
	if (!s->is_discovery)
		w->connection.recv_bytes_max = RECV_BYTES;
	w->session.needs_r2t = false;
	w->session.first_burst_bytes_max = RECV_BYTES;
	if (s->url.is_iser)
		iser_port_wish(w);
	else
		w->session.r2t_max = R2TS;
}

static void set_config(struct weft_iscsi_session *s, const struct weft_iscsi_options *o)
{
	struct iscsi_initiator_config *c = &s->config;
	struct iscsi_initiator_limits *l = &c->limits;

	iscsi_initiator_limits_init(l);
	l->depth = s->part_count;
	l->requests_max = s->part_count;
	l->login_ns = o->open_ns ? o->open_ns : open_ns;
	l->command_ns = s->timeout_ns;
	l->logout_ns = logout_ns;
	l->ping_after_ns = s->alive_ns;
	l->ping_ns = s->alive_ns;
	l->reconnect_ns = reconnect_ns;
	c->initiator_name = (struct word){ s->initiator.text, s->initiator.length };
	c->target_name = (struct word){ s->url.target.text, s->url.target.length };
	c->is_discovery = s->is_discovery;
	c->needs_rdma = s->url.is_iser;
	c->portal_group_tag = -1;
	/* Section 11.12.5: a random ISID, so that two sessions of one name never meet. */
	randombytes_buf(c->isid, sizeof(c->isid));
	c->isid[0] = 0x80;
	if (o->retry_ns != WEFT_ISCSI_NO_RETRY) {
		c->recovery.reconnects_max = UINT32_MAX; /* the time is the limit */
		c->recovery.retries_max = RETRIES_MAX;
	}
	set_wishes(s);
}

static enum weft_reason take_options(struct weft_iscsi_session *s,
				     const struct weft_iscsi_options *o)
{
	enum weft_reason r = session_account_open(s, o);

	s->timeout_ns = o->timeout_ns ? o->timeout_ns : timeout_ns;
	s->retry_ns = o->retry_ns ? o->retry_ns : retry_ns;
	s->alive_ns = o->alive_ns ? o->alive_ns : alive_ns;
	if (r == WEFT_OK)
		r = session_jobs_open(s, o->requests_max ? o->requests_max : REQUESTS);
	if (r == WEFT_OK)
		set_config(s, o);
	return r;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static enum weft_reason adapter_open(struct weft_iscsi_session *s)
{
	const struct weft_adapter_options options = {
		/* Each command takes an entry: the table should fit in the processor's cache. */
		.tags_max = TAGS + 2 * s->part_count,
		.policy = s->port->is_strict ? WEFT_POLICY_STRICT : WEFT_POLICY_OPEN,
	};
	const struct weft_cq_options cq = { .entries_max = 4 * s->part_count + CQ_EXTRA };
	/* With rights for peers it is only to make windows from, see session_port. */
	const struct weft_region_options all = {
		.addr = PROCESS_FIRST,
		.length = PROCESS_BYTES,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | s->port->region_rights,
	};
	enum weft_reason r = weft_adapter_open(&options, &s->adapter);

	if (r == WEFT_OK)
		r = weft_pd_create(s->adapter, NULL, &s->pd);
	if (r == WEFT_OK)
		r = weft_region_register(s->pd, &all, &s->process_tag);
	if (r == WEFT_OK)
		r = weft_cq_create(s->adapter, &cq, &s->cq);
	return r;
}

/* Also of one that was opened in part. */
static void session_free(struct weft_iscsi_session *s)
{
	if (s->core)
		iscsi_initiator_destroy(s->core);
	if (s->port)
		s->port->close(s);
	if (s->cq)
		CHECK(weft_cq_destroy(s->cq) == WEFT_OK);
	while (s->added_count > 0)
		(void)weft_region_deregister(s->pd, s->added[--s->added_count]);
	if (s->process_tag != 0)
		(void)weft_region_deregister(s->pd, s->process_tag);
	if (s->pd)
		CHECK(weft_pd_destroy(s->pd) == WEFT_OK);
	if (s->adapter)
		CHECK(weft_adapter_close(s->adapter) == WEFT_OK);
	if (s->poll_fd >= 0)
		close(s->poll_fd);
	if (s->timer_fd >= 0)
		close(s->timer_fd);
	if (s->ready_fd >= 0)
		close(s->ready_fd);
	if (s->wake >= 0)
		close(s->wake);
	session_jobs_close(s);
	session_account_wipe(s);
	pthread_cond_destroy(&s->news);
	pthread_mutex_destroy(&s->lock);
	free(s->added);
	if (s->mark)
		munmap((void *)(uintptr_t)s->mark, sizeof(*s->mark));
	free(s);
}

static enum weft_reason session_make(struct weft_iscsi_session *s, const char *url,
				     const struct weft_iscsi_options *o)
{
	enum weft_reason r = take_url(s, url);

	if (r == WEFT_OK)
		r = take_options(s, o);
	if (r != WEFT_OK)
		return r;
	s->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (s->wake < 0)
		return WEFT_R_DESCRIPTORS;
	s->port = s->url.is_iser ? &session_port_iser : &session_port_qp;
	r = adapter_open(s);
	if (r == WEFT_OK)
		r = s->port->open(s);
	return r == WEFT_OK ? iscsi_initiator_create(&s->config, &s->core) : r;
}

/* Ends the session, in good order if it can be done in time. */
static void session_end(struct weft_iscsi_session *s)
{
	uint64_t end_ns;

	s->now_ns = clock_ns();
	end_ns = deadline_after(s->now_ns, logout_ns);
	if (s->link != LINK_DIALLING)
		iscsi_initiator_logout(s->core, s->now_ns);
	while (iscsi_initiator_state(s->core) != ISCSI_SESSION_ENDED) {
		session_turn(s);
		if (iscsi_initiator_state(s->core) == ISCSI_SESSION_ENDED)
			break;
		if (s->now_ns >= end_ns || s->link == LINK_DIALLING) {
			iscsi_initiator_end(s->core, WEFT_R_ISCSI_ENDED, s->now_ns);
			session_link_end(s, WEFT_R_ISCSI_ENDED);
			session_settle(s);
			break;
		}
		session_sleep(s, end_ns);
	}
	session_settle(s);
}

void session_discard(struct weft_iscsi_session *s)
{
	if (s->core) {
		pthread_mutex_lock(&s->lock);
		session_end(s);
		pthread_mutex_unlock(&s->lock);
	}
	session_free(s);
}

/*
 * In the child of a fork the connection is its parent's, and no thread of the parent's is there to
 * give the lock back.
 */
static void session_abandon(struct weft_iscsi_session *s)
{
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->news, NULL);
	s->has_sleeper = false;
	s->waiters = 0;
	iscsi_initiator_end(s->core, WEFT_R_ISCSI_ENDED, s->now_ns);
	session_link_end(s, WEFT_R_ISCSI_ENDED);
	session_settle(s);
	session_free(s);
}

/* RFC 7143 section 11.13.5, in words for the person who asked. */
static const char *status_text(uint16_t status)
{
	switch (status) {
	case ISCSI_STATUS_MOVED_TEMPORARILY:
	case ISCSI_STATUS_MOVED_PERMANENTLY:
		return "the target is elsewhere, and does not say where";
	case ISCSI_STATUS_AUTHENTICATION:
		return "the target does not take this user and password, or wants some";
	case ISCSI_STATUS_AUTHORIZATION:
		return "the target lets this initiator not in: its name or address is not in the "
		       "target's list";
	case ISCSI_STATUS_NOT_FOUND:
		return "there is no target of this name at the portal";
	case ISCSI_STATUS_REMOVED:
		return "the target was removed";
	case ISCSI_STATUS_VERSION:
		return "the target does not speak this version of iSCSI";
	case ISCSI_STATUS_TOO_MANY_CONNECTIONS:
		return "the target takes no more connections";
	case ISCSI_STATUS_SESSION_TYPE:
		return "the target does not take a session of this type";
	case ISCSI_STATUS_UNAVAILABLE:
		return "the target is not available now";
	case ISCSI_STATUS_OUT_OF_RESOURCES:
		return "the target has no resources for another session";
	default:
		return status >> 8 == 3 ? "the target failed" : "the target refused the login";
	}
}

/* In a sentence, what the reason alone does not say. */
static void tell_why(struct weft_iscsi_session *s, enum weft_reason r)
{
	char at[WEFT_ADDRESS_TEXT];

	if (r == WEFT_R_ISCSI_REFUSED) {
		session_why(s, "%s: %s (login status %04x)", s->url.host,
			    status_text(s->login_status), s->login_status);
	} else if (s->portal.port != 0) {
		weft_address_text(&s->portal, at);
		if (r == WEFT_R_CONNECT_TIMEOUT && s->was_up)
			session_why(s,
				    "%s (%s) takes connections and does not answer the login in "
				    "time: is it an iSCSI portal?",
				    s->url.host, at);
		session_why(s, "%s (%s): %s", s->url.host, at, weft_reason_text(r));
	}
}

static enum weft_reason log_in(struct weft_iscsi_session *s)
{
	uint64_t end_ns;

	s->now_ns = clock_ns();
	end_ns = deadline_after(s->now_ns, s->config.limits.login_ns);
	session_settle(s); /* it asks for a connection */
	while (iscsi_initiator_counts(s->core)->logins == 0 && !s->has_ended) {
		session_turn(s);
		if (iscsi_initiator_counts(s->core)->logins > 0 || s->has_ended)
			break;
		if (s->now_ns >= end_ns)
			return WEFT_R_CONNECT_TIMEOUT;
		session_sleep(s, end_ns);
	}
	if (!s->has_ended)
		return WEFT_OK;
	return s->reason != WEFT_OK ? s->reason : WEFT_R_ISCSI_ENDED;
}

enum weft_reason session_open(const char *url, const struct weft_iscsi_options *options,
			      bool is_discovery, struct weft_iscsi_session **out)
{
	static const struct weft_iscsi_options none;
	const struct weft_iscsi_options *o = options ? options : &none;
	struct weft_iscsi_session *s;
	enum weft_reason r;

	if (o->why)
		o->why[0] = '\0';
	if (!RESERVED_IS_ZERO(o))
		return WEFT_R_RESERVED;
	if (o->requests_max > REQUESTS_MOST)
		return WEFT_R_LIMIT;
	if (sodium_init() < 0)
		return system_reason(errno);
	s = calloc(1, sizeof(*s));
	if (!s)
		return WEFT_R_NO_MEMORY;
	s->process = getpid();
	s->mark = mark_make();
	s->is_discovery = is_discovery;
	s->wake = s->poll_fd = s->timer_fd = s->ready_fd = -1;
	s->timer_ns = s->give_up_ns = s->later_ns = UINT64_MAX;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->news, NULL);
	r = session_make(s, url, o);
	pthread_mutex_lock(&s->lock);
	if (r == WEFT_OK)
		r = log_in(s);
	if (r == WEFT_OK && !is_discovery)
		r = session_unit_open(s, o->skips_unit);
	pthread_mutex_unlock(&s->lock);
	if (r == WEFT_OK) {
		*out = s;
		return WEFT_OK;
	}
	tell_why(s, r);
	if (o->why)
		memcpy(o->why, s->why, sizeof(s->why));
	session_discard(s);
	return r;
}

/* ---- Public calls --------------------------------------------------------------------------- */

enum weft_reason weft_iscsi_session_open(const char *url, const struct weft_iscsi_options *options,
					 struct weft_iscsi_session **session)
{
	if (!url || !session)
		return WEFT_R_NULL_ARGUMENT;
	return session_open(url, options, false, session);
}

void weft_iscsi_session_close(struct weft_iscsi_session *s)
{
	if (!s)
		return;
	if (is_own(s)) {
		session_discard(s);
		return;
	}
	session_abandon(s);
}

enum weft_reason weft_iscsi_memory_add(struct weft_iscsi_session *s, void *memory, uint64_t length,
				       uint32_t *tag)
{
	const struct weft_region_options o = {
		.addr = (uintptr_t)memory,
		.length = length,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | (s ? s->port->region_rights : 0),
	};
	enum weft_reason r;
	uint32_t *added;

	if (!s || !memory || !tag)
		return WEFT_R_NULL_ARGUMENT;
	r = session_enter(s);
	if (r != WEFT_OK)
		return r;
	added = realloc(s->added, (s->added_count + 1) * sizeof(*added));
	if (added) {
		s->added = added;
		r = weft_region_register(s->pd, &o, tag);
	} else {
		r = WEFT_R_NO_MEMORY;
	}
	if (r == WEFT_OK)
		s->added[s->added_count++] = *tag;
	session_leave(s);
	return r;
}

static bool is_in_use(const struct weft_iscsi_session *s, uint32_t tag)
{
	for (uint32_t i = 0; i < s->job_count; i++) {
		const struct session_job *j = &s->jobs[i];

		for (uint32_t k = 0; j->is_out && k < j->ask.sge_count; k++) {
			if (j->sges[k].tag == tag)
				return true;
		}
	}
	return false;
}

enum weft_reason weft_iscsi_memory_remove(struct weft_iscsi_session *s, uint32_t tag)
{
	enum weft_reason r;
	uint32_t i = 0;

	if (!s)
		return WEFT_R_NULL_ARGUMENT;
	r = session_enter(s);
	if (r != WEFT_OK)
		return r;
	while (i < s->added_count && s->added[i] != tag)
		i++;
	if (i == s->added_count)
		r = WEFT_R_BAD_ARGUMENT;
	else if (is_in_use(s, tag))
		r = WEFT_R_BUSY;
	else
		r = weft_region_deregister(s->pd, tag);
	if (r == WEFT_OK)
		s->added[i] = s->added[--s->added_count];
	session_leave(s);
	return r;
}

static bool watch(int epoll, int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) == 0;
}

/* Of the adapter, of time, and of results that wait. */
static enum weft_reason descriptor_open(struct weft_iscsi_session *s)
{
	int adapter_fd;
	enum weft_reason r = weft_adapter_fd(s->adapter, &adapter_fd);

	if (r != WEFT_OK)
		return r;
	if (s->timer_fd < 0)
		s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (s->ready_fd < 0)
		s->ready_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	s->poll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->timer_fd >= 0 && s->ready_fd >= 0 && s->poll_fd >= 0 &&
	    watch(s->poll_fd, adapter_fd) && watch(s->poll_fd, s->timer_fd) &&
	    watch(s->poll_fd, s->ready_fd))
		return WEFT_OK;
	if (s->poll_fd >= 0)
		close(s->poll_fd);
	s->poll_fd = -1;
	return WEFT_R_DESCRIPTORS;
}

enum weft_reason weft_iscsi_session_fd(struct weft_iscsi_session *s, int *fd)
{
	enum weft_reason r;

	if (!s || !fd)
		return WEFT_R_NULL_ARGUMENT;
	r = session_enter(s);
	if (r != WEFT_OK)
		return r;
	if (s->poll_fd < 0)
		r = descriptor_open(s);
	if (r == WEFT_OK)
		*fd = s->poll_fd;
	session_leave(s);
	return r;
}

static enum weft_iscsi_state state_of(const struct weft_iscsi_session *s)
{
	enum iscsi_initiator_state state = iscsi_initiator_state(s->core);

	if (s->has_ended)
		return WEFT_ISCSI_CLOSED;
	return state == ISCSI_SESSION_FULL || state == ISCSI_SESSION_DRAINING
		       ? WEFT_ISCSI_CONNECTED
		       : WEFT_ISCSI_CONNECTING;
}

static void fill_info(struct weft_iscsi_session *s, struct weft_iscsi_info *info)
{
	const struct iscsi_params *p = iscsi_initiator_params(s->core);
	const struct iscsi_connection_params *c = &p->connection;
	bool is_rdma = p->session.has_rdma;

	*info = s->unit;
	info->state = state_of(s);
	info->reason = s->reason;
	memcpy(info->initiator_name, s->initiator.text, s->initiator.length);
	memcpy(info->target_name, s->url.target.text, s->url.target.length);
	info->portal = s->portal;
	info->has_header_digest = c->header_digest == ISCSI_DIGEST_CRC32C;
	info->has_data_digest = c->data_digest == ISCSI_DIGEST_CRC32C;
	info->has_initial_r2t = p->session.needs_r2t;
	info->has_immediate_data = p->session.has_immediate_data;
	info->recv_bytes_max = is_rdma ? c->initiator_recv_bytes_max : c->recv_bytes_max;
	info->send_bytes_max = is_rdma ? c->target_recv_bytes_max : c->send_bytes_max;
	info->first_burst_bytes = p->session.first_burst_bytes_max;
	info->burst_bytes_max = p->session.burst_bytes_max;
	info->r2t_max = p->session.r2t_max;
	info->commands = iscsi_initiator_counts(s->core)->commands;
	info->retries = iscsi_initiator_counts(s->core)->retries + s->retries;
	info->reconnects = s->reconnects;
	info->read_bytes = s->read_bytes;
	info->written_bytes = s->written_bytes;
}

enum weft_reason weft_iscsi_session_query(struct weft_iscsi_session *s,
					  struct weft_iscsi_info *info)
{
	enum weft_reason r;

	if (!s || !info)
		return WEFT_R_NULL_ARGUMENT;
	r = session_enter(s);
	if (r != WEFT_OK)
		return r;
	session_turn(s);
	fill_info(s, info);
	session_leave(s);
	return WEFT_OK;
}
