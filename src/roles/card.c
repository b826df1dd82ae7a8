/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/card.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/least.h"
#include "driver/sys/clock.h"
#include "driver/sys/fabric_client.h"
#include "driver/sys/system_reason.h"
#include "driver/sys/turns.h"
#include "roles/card_inside.h"

enum {
	LINE = 512,
	COMPLETIONS = 64,
	CQ_ENTRIES = 1 << 16,
	LOOK_EVERY =
		16, /* turns in which there was something, for one look at descriptors and time */
};

static const uint64_t longest_sleep_ns = UINT64_C(60000000000);
static const uint64_t redial_ns = 50 * 1000000, redial_most_ns = UINT64_C(2000000000);
static const uint64_t end_ns = UINT64_C(1000000000);

/* Of a card whose file says nothing: an answer of a peer on the same network takes less. */
static const uint64_t spin_ns = 50 * 1000;

void card_tell(struct card *c, enum card_line kind, const char *form, ...)
{
	char line[LINE];
	va_list args;

	if (!c->options.tell)
		return;
	if (!line_limit_may(&c->lines[kind], c->now_ns)) {
		c->counts.untold++;
		return;
	}
	va_start(args, form);
	vsnprintf(line, sizeof(line), form, args);
	va_end(args);
	c->options.tell(c->options.context, line);
}

uint64_t card_lines_expire(struct card *c)
{
	static const char *const kinds[CARD_LINES] = { [CARD_LINE_REFUSED] = "refused connections",
						       [CARD_LINE_LINK] = "connections",
						       [CARD_LINE_REQUEST] = "requests",
						       [CARD_LINE_PORT] = "the port" };
	uint64_t due_ns = UINT64_MAX;

	for (uint32_t i = 0; i < CARD_LINES; i++) {
		uint32_t untold = line_limit_expire(&c->lines[i], c->now_ns);

		if (untold > 0)
			card_tell(c, (enum card_line)i, "%u more lines about %s in that second",
				  untold, kinds[i]);
		due_ns = least(due_ns, line_limit_due(&c->lines[i]));
	}
	return due_ns;
}

struct card_end *card_end_next(struct card *c, struct card_end *end)
{
	for (end = end ? end + 1 : c->ends; end < c->ends + c->ends_used; end++) {
		if (end->state != CARD_FREE)
			return end;
	}
	return NULL;
}

/* ---- Life ----------------------------------------------------------------------------------- */

/*
 * Without a buffer for them, frames that wait keep the port readable. What else comes there, as
 * room for frames to it, is seen nevertheless: each time anew.
 */
void card_port_watch(struct card *c, bool is_watched)
{
	struct epoll_event e = { .events = is_watched ? EPOLLIN : EPOLLIN | EPOLLET,
				 .data.fd = lan_descriptor(c->port) };

	CHECK(epoll_ctl(c->epoll, EPOLL_CTL_MOD, e.data.fd, &e) == 0);
}

void card_port_expect(struct card *c)
{
	if (c->is_starved)
		return;
	lan_expect(c->port);
	c->is_port_ready = true;
}

static enum weft_reason watch(const struct card *c, int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &e) == 0 ? WEFT_OK : system_reason(errno);
}

static enum weft_reason descriptors_open(struct card *c)
{
	enum weft_reason r;

	c->epoll = epoll_create1(EPOLL_CLOEXEC);
	c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->epoll < 0 || c->wake < 0)
		return system_reason(errno);
	r = watch(c, c->wake);
	if (r == WEFT_OK)
		r = watch(c, lan_descriptor(c->port));
	c->reporter = reporter_open("card", card_report, c);
	if (r == WEFT_OK && c->reporter)
		r = watch(c, reporter_descriptor(c->reporter));
	return r;
}

static enum weft_reason adapter_open(struct card *c)
{
	const struct weft_cq_options cq = { .entries_max = CQ_ENTRIES };
	enum weft_reason r = weft_adapter_open(NULL, &c->adapter);

	if (r == WEFT_OK && c->file->config->wire == RDMA_ROCE)
		r = weft_roce_open(c->adapter);
	if (r == WEFT_OK)
		r = weft_cq_create(c->adapter, &cq, &c->cq);
	if (r == WEFT_OK)
		r = weft_adapter_drive(c->adapter, true);
	return r;
}

static enum weft_reason listen_at(struct card *c)
{
	enum weft_reason r;

	if (!c->is_unit)
		return WEFT_OK;
	r = push_lan_create(CARD_PEERS_MAX, &c->lan);
	if (r != WEFT_OK)
		return r;
	r = rdma_listener_open(&c->listener, c->adapter, c->file->config->wire, &c->file->address);
	c->listener.takes_uc = true; /* those of the other mode are refused with a reason */
	c->is_listening = r == WEFT_OK;
	return r;
}

static bool open_all(struct card *c, char why[CONFIG_FILE_WHY])
{
	static const struct lan_filters all = { .is_promiscuous = true };
	const struct card_config *k = c->file->config;
	char lan_why[LAN_WHY] = "";
	enum weft_reason r;

	if (k->wire == RDMA_IWARP && fabric_client_node())
		return config_refuse(why,
				     "wire iwarp goes by TCP, which a node of a fabric has not: "
				     "wire roce");
	if (!card_frames_open(c))
		return config_refuse(why, "there is no memory for it");
	if (lan_open(k->port.is, &c->port, lan_why) != WEFT_OK)
		return config_refuse(why, "line %u: %s", k->port.line, lan_why);
	/* The interface of a host is up while the unit's LAN is, and the unit is there. */
	if (c->is_unit)
		(void)lan_set_filters(c->port, &all);
	else
		(void)lan_set_link(c->port, false);
	r = adapter_open(c);
	if (r == WEFT_OK)
		r = descriptors_open(c);
	if (r != WEFT_OK)
		return config_refuse(why, "cannot begin: %s", weft_reason_text(r));
	r = listen_at(c);
	return r == WEFT_OK || config_refuse(why, "line %u: cannot listen at %s: %s",
					     k->listen.line, k->listen.is, weft_reason_text(r));
}

/* As long as its file says; else as long as it pays, where others have a processor besides. */
static struct rio_spin spin_of(const struct card_config *k)
{
	cpu_set_t cpus;

	if (k->has_spin)
		return (struct rio_spin){ .spin_ns = k->spin_ns };
	if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0 || CPU_COUNT(&cpus) < 2)
		return (struct rio_spin){ 0 };
	return (struct rio_spin){ .spin_ns = spin_ns, .is_learning = true };
}

bool card_open(const struct card_file *file, const struct card_options *options, struct card **out,
	       char why[CONFIG_FILE_WHY])
{
	struct card *c = calloc(1, sizeof(*c));

	if (!c)
		return config_refuse(why, "there is no memory for it");
	c->file = file;
	c->options = *options;
	c->is_unit = file->config->role == RIO_CARD_UNIT;
	c->epoll = c->wake = -1;
	c->spin = spin_of(file->config);
	c->redial_ns = redial_ns;
	c->cut_off_ns = UINT64_MAX;
	c->is_port_ready = true;
	c->now_ns = c->begin_ns = clock_ns();
	c->ends = calloc(CARD_ENDS_MAX, sizeof(c->ends[0]));
	if (c->ends && open_all(c, why)) {
		*out = c;
		return true;
	}
	card_close(c);
	return false;
}

void card_close(struct card *c)
{
	if (c->is_listening)
		rdma_listener_close(&c->listener);
	reporter_close(c->reporter);
	if (c->port)
		lan_close(c->port);
	if (c->cq)
		CHECK(weft_cq_destroy(c->cq) == WEFT_OK);
	if (c->adapter)
		CHECK(weft_adapter_close(c->adapter) == WEFT_OK);
	if (c->lan)
		push_lan_destroy(c->lan);
	if (c->wake >= 0)
		close(c->wake);
	if (c->epoll >= 0)
		close(c->epoll);
	card_frames_close(c);
	free(c->ends);
	free(c);
}

void card_address(const struct card *c, struct weft_address *at)
{
	*at = c->file->address;
	if (c->is_listening)
		(void)rdma_listener_address((struct rdma_listener *)(uintptr_t)&c->listener, at);
}

void card_stop(struct card *c)
{
	const uint64_t one = 1;

	atomic_store(&c->is_stopping, true);
	(void)!write(c->wake, &one, sizeof(one));
}

/* ---- The loop ------------------------------------------------------------------------------- */

static bool has_qp(const struct card_end *e, uint32_t qp_number)
{
	return e->state != CARD_FREE && ((e->qp && weft_qp_number(e->qp) == qp_number) ||
					 (e->data.qp && weft_qp_number(e->data.qp) == qp_number));
}

static struct card_end *end_of(struct card *c, uint32_t qp_number)
{
	struct card_end *e = NULL;

	while ((e = card_end_next(c, e)) != NULL) {
		if (has_qp(e, qp_number))
			return e;
	}
	return NULL;
}

static bool completions_take(struct card *c)
{
	struct weft_completion done[COMPLETIONS];
	struct card_end *e = NULL;
	uint32_t count = 0;

	(void)weft_cq_poll(c->cq, done, COMPLETIONS, &count);
	for (uint32_t i = 0; i < count; i++) {
		if (!e || !has_qp(e, done[i].qp_number))
			e = end_of(c, done[i].qp_number);
		if (e)
			card_end_completed(e, &done[i]);
	}
	return count > 0;
}

static void requests_take(struct card *c)
{
	struct rdma_request request;

	/* Bound: the listener's backlog. */
	while (c->is_listening && rdma_listener_next(&c->listener, &request))
		card_end_accept(c, &request);
}

static bool events_take(struct card *c)
{
	struct weft_event event;
	bool has_event = false, has_any = false;

	/* Bound: each object has a few kinds of events. */
	while (weft_event_take(c->adapter, &event, &has_event) == WEFT_OK && has_event) {
		const struct rdma_object *o = event.context;

		has_any = true;
		if (o && o->kind == RDMA_LISTENER)
			requests_take(c);
		else if (o && o->kind == RDMA_END)
			card_end_event(CONTAINER_OF(o, struct card_end, rdma.object), &event);
		else if (o && o->kind == RDMA_OTHER)
			card_data_event(CONTAINER_OF(o, struct card_end, data.rdma.object), &event);
	}
	return has_any;
}

/* A host dials its unit again and again. */
static uint64_t dial_again(struct card *c)
{
	if (c->is_unit || atomic_load(&c->is_stopping) || card_end_next(c, NULL))
		return UINT64_MAX;
	if (c->now_ns >= c->dial_ns) {
		c->dial_ns = c->now_ns + c->redial_ns;
		c->redial_ns = 2 * c->redial_ns < redial_most_ns ? 2 * c->redial_ns
								 : redial_most_ns;
		card_end_dial(c);
	}
	return c->dial_ns;
}

static bool ends_work(struct card *c)
{
	struct card_end *e = NULL;
	bool has_any = false;

	while ((e = card_end_next(c, e)) != NULL) {
		if (e->state == CARD_DYING) {
			has_any |= card_end_reap(e);
			continue;
		}
		has_any |= card_packets_give(e);
		has_any |= card_end_work(e);
		/* Up, and at once replaced by another host with this key, is no success. */
		if (e->state == CARD_UP && c->now_ns - e->since_ns >= redial_most_ns)
			c->redial_ns = redial_ns;
	}
	return has_any;
}

static bool is_spinning(const struct card *c)
{
	return rio_spin_may(&c->spin, c->busy_ns, c->now_ns);
}

/*
 * Looks at everything once. True: there was something. The port first: what it has to say to a
 * peer, often in answer to what the port was just given, takes along what is to be acknowledged.
 */
static bool turn(struct card *c)
{
	bool has_any = false;

	c->now_ns = clock_ns();
	if (c->is_port_ready && card_port_take(c)) {
		c->is_ready = false; /* what else there is, is told at the next sleep */
		has_any = ends_work(c);
	}
	/* Where the card sleeps next, what has come by then is seen there. */
	if (!has_any || c->is_port_ready || is_spinning(c))
		has_any |= completions_take(c);
	has_any |= events_take(c);
	/* Ends leave work to each other. Bound: nothing more comes meanwhile. */
	while (ends_work(c))
		has_any = true;
	return has_any;
}

/* Links that have not ended in order by then are cut off. */
static uint64_t cut_off(struct card *c)
{
	struct card_end *e = NULL;

	if (c->now_ns < c->cut_off_ns)
		return c->cut_off_ns;
	while ((e = card_end_next(c, e)) != NULL)
		card_end_hang_up(e, WEFT_R_PUSH_ENDED);
	c->cut_off_ns = UINT64_MAX;
	return c->now_ns;
}

/* Deadlines that have passed; the next one. */
static uint64_t expire(struct card *c)
{
	uint64_t due_ns = least(least(dial_again(c), card_lines_expire(c)), cut_off(c));
	struct card_end *e = NULL;

	while ((e = card_end_next(c, e)) != NULL) {
		uint64_t end_due_ns = card_end_expire(e);

		if (end_due_ns < due_ns)
			due_ns = end_due_ns;
	}
	return due_ns;
}

/* Looks which descriptors are readable. */
static void descriptors_look(struct card *c)
{
	struct epoll_event ready[4];
	int count = epoll_wait(c->epoll, ready, 4, 0);
	uint64_t wakes;

	c->is_ready = false;
	for (int i = 0; i < count; i++) {
		if (ready[i].data.fd == lan_descriptor(c->port)) {
			c->is_port_ready = true;
		} else if (ready[i].data.fd == c->wake) {
			(void)!read(c->wake, &wakes, sizeof(wakes));
		} else {
			reporter_serve(c->reporter, c->now_ns);
		}
	}
}

/* Sleeps until there is something to do; a deadline comes at the latest. */
static void sleep_until(struct card *c, uint64_t due_ns)
{
	uint64_t most_ns = c->now_ns + longest_sleep_ns, now_ns = clock_ns(), reporter_ns;

	reporter_ns = c->reporter ? reporter_expire(c->reporter, c->now_ns) : UINT64_MAX;
	due_ns = least(due_ns, least(reporter_ns, most_ns));
	(void)weft_cq_wait(c->cq, c->epoll, due_ns > now_ns ? due_ns - now_ns : 0, &c->is_ready);
	/* Mostly it is a frame of the port: only if there is none the descriptors are asked. */
	if (c->is_ready)
		card_port_expect(c);
}

/* The turn had something to do. */
static void was_busy(struct card *c)
{
	if (c->is_idle)
		rio_spin_came(&c->spin, c->now_ns - c->busy_ns);
	c->is_idle = false;
	c->busy_ns = c->now_ns;
}

/*
 * Between two looks other programs have the processor. They may have taken it since the look began,
 * too: this thread has short turns.
 */
static void spin(struct card *c, uint64_t began_ns)
{
	sched_yield();
	rio_spin_yielded(&c->spin, began_ns, clock_ns());
	card_port_expect(c);
}

/*
 * While there is traffic, more may have come during a turn: that is looked for. Else the card
 * sleeps after the turn, as what has come by then wakes it at once.
 */
static void run_until(struct card *c, bool (*is_over)(struct card *c))
{
	uint32_t turns = 0;

	while (!is_over(c)) {
		bool has_any, is_look_due = ++turns % LOOK_EVERY == 0;
		uint64_t due_ns;

		has_any = turn(c);
		if (has_any)
			was_busy(c);
		if (has_any && !is_look_due && (c->is_port_ready || is_spinning(c)))
			continue;
		due_ns = expire(c);
		if (is_look_due || (c->is_ready && !has_any))
			descriptors_look(c);
		if (c->is_port_ready || is_over(c))
			continue;
		c->is_idle = true;
		if (is_spinning(c))
			spin(c, has_any ? clock_ns() : c->now_ns);
		else
			sleep_until(c, due_ns);
	}
}

static bool is_told_to_stop(struct card *c)
{
	return atomic_load(&c->is_stopping);
}

static bool is_ended(struct card *c)
{
	return !card_end_next(c, NULL);
}

void card_run(struct card *c)
{
	struct card_end *e = NULL;

	turns_ask_short();
	run_until(c, is_told_to_stop);
	if (c->is_listening)
		rdma_listener_close(&c->listener);
	c->is_listening = false;
	c->cut_off_ns = c->now_ns + end_ns;
	while ((e = card_end_next(c, e)) != NULL) {
		if (e->state == CARD_UP)
			push_end(e->link, c->now_ns);
		else
			card_end_hang_up(e, WEFT_R_PUSH_ENDED);
	}
	run_until(c, is_ended);
}
