/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/fabric_trunks.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/cursor.h"
#include "base/least.h"
#include "driver/sys/socket.h"
#include "driver/sys/spare.h"
#include "driver/sys/system_reason.h"
#include "roles/fabric_trunks_inside.h"

enum { EVENTS_MAX = 64, ACCEPTS_AT_ONCE = 16, LINE_BYTES = 512 };

static const uint64_t greeting_ns = UINT64_C(5000000000), redial_min_ns = UINT64_C(100000000),
		      redial_max_ns = UINT64_C(2000000000);

/* ---- Words ---------------------------------------------------------------------------------- */

static void tell(struct fabric_trunks *t, const char *line)
{
	if (t->config.tell)
		t->config.tell(t->config.context, line);
}

void trunk_say(struct fabric_trunks *t, enum trunk_word word, const char *form, ...)
{
	char line[LINE_BYTES];
	va_list args;

	if (!line_limit_may(&t->limits[word], t->now_ns))
		return;
	va_start(args, form);
	(void)vsnprintf(line, sizeof(line), form, args);
	va_end(args);
	tell(t, line);
}

static uint64_t words_expire(struct fabric_trunks *t)
{
	uint64_t due_ns = UINT64_MAX;

	for (int i = 0; i < TRUNK_WORDS; i++) {
		uint32_t untold = line_limit_expire(&t->limits[i], t->now_ns);
		char line[LINE_BYTES];

		(void)snprintf(line, sizeof(line), "and %u lines more", untold);
		if (untold > 0)
			tell(t, line);
		due_ns = least(due_ns, line_limit_due(&t->limits[i]));
	}
	return due_ns;
}

/* ---- Lines ---------------------------------------------------------------------------------- */

static struct trunk_line *line_make(struct fabric_trunks *t, int fd, uint32_t part)
{
	struct trunk_line *l = calloc(1, sizeof(*l));
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = l };

	if (part != FABRIC_PART_NONE)
		e.events |= EPOLLOUT; /* it is connected */
	if (!l || epoll_ctl(t->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
		free(l);
		return NULL;
	}
	l->fd = fd;
	l->part = part;
	l->state = TRUNK_CONNECTING;
	l->awaits_room = part != FABRIC_PART_NONE;
	l->since_ns = t->now_ns;
	l->deadline_ns = t->now_ns + greeting_ns;
	l->next = t->lines;
	t->lines = l;
	socket_watch_peer(fd, t->config.cut->parts->alive_ns);
	return l;
}

static void peer_lost(struct fabric_trunks *t, struct trunk_line *l, enum weft_reason reason)
{
	struct trunk_peer *p = &t->peers[l->part];
	const char *name = t->config.cut->parts->parts[l->part].name;
	bool was_up = l->state == TRUNK_UP;

	if (p->line != l)
		return;
	p->line = NULL;
	if (was_up)
		trunk_say(t, TRUNK_SAY_PART, "part %s is gone: %s", name, weft_reason_text(reason));
	else if (reason != p->told)
		trunk_say(t, TRUNK_SAY_PART, "part %s cannot be joined: %s", name,
			  weft_reason_text(reason));
	p->told = was_up ? WEFT_OK : reason;
	p->redial_ns = was_up ? redial_min_ns : least(2 * p->redial_ns, redial_max_ns);
	p->dial_ns = t->now_ns + p->redial_ns;
	for (uint32_t i = 0; was_up && i < p->cable_count; i++)
		fabric_trunk_join(t->config.fabric, p->cables[i], false);
}

void trunk_line_end(struct fabric_trunks *t, struct trunk_line *l, enum weft_reason reason)
{
	char address[WEFT_ADDRESS_TEXT];

	if (l->is_over)
		return;
	l->is_over = true;
	if (l->part != FABRIC_PART_NONE) {
		peer_lost(t, l, reason);
		return;
	}
	weft_address_text(&l->address, address);
	trunk_say(t, TRUNK_SAY_REFUSED, "refused a connection from %s: %s", address,
		  weft_reason_text(reason));
}

static void line_free(struct trunk_line *l)
{
	socket_close(l->fd, false);
	rio_handshake_fini(&l->handshake);
	free(l);
}

static void lines_reap(struct fabric_trunks *t)
{
	for (struct trunk_line **at = &t->lines; *at;) {
		struct trunk_line *l = *at;

		if (!l->is_over) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		line_free(l);
	}
}

bool trunk_line_put(struct trunk_line *l, const uint8_t *bytes, size_t length)
{
	struct wr w = wr_of(l->out + l->out_end, sizeof(l->out) - l->out_end);

	wr_u32(&w, (uint32_t)length);
	wr_bytes(&w, bytes, length);
	if (w.is_short)
		return false;
	l->out_end = (size_t)(w.at - l->out);
	return true;
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

static void room_watch(struct fabric_trunks *t, struct trunk_line *l, bool is_awaited)
{
	struct epoll_event e = { .events = is_awaited ? EPOLLIN | EPOLLOUT : EPOLLIN,
				 .data.ptr = l };

	if (l->awaits_room == is_awaited)
		return;
	l->awaits_room = is_awaited;
	(void)epoll_ctl(t->epoll, EPOLL_CTL_MOD, l->fd, &e);
}

/* What is in the buffer leaves. True: it is empty. */
static bool line_write(struct fabric_trunks *t, struct trunk_line *l)
{
	while (l->out_at < l->out_end) {
		struct span_list list = { .count = 0 };
		size_t moved = 0;
		enum socket_result r;

		(void)span_list_add(&list, l->out + l->out_at, l->out_end - l->out_at);
		r = socket_send(l->fd, &list, &moved);
		if (r == SOCKET_WAIT) {
			room_watch(t, l, true);
			return false;
		}
		if (r != SOCKET_MOVED) {
			trunk_line_end(t, l, WEFT_R_PEER_GONE);
			return false;
		}
		l->out_at += moved;
	}
	l->out_at = l->out_end = 0;
	room_watch(t, l, false);
	return true;
}

/* The whole records that have come. */
static void records_take(struct fabric_trunks *t, struct trunk_line *l)
{
	size_t at = 0;

	while (!l->is_over && l->in_bytes - at >= TRUNK_LENGTH_BYTES) {
		struct rd r = rd_of(l->in + at, TRUNK_LENGTH_BYTES);
		size_t length = rd_u32(&r);
		enum weft_reason reason = WEFT_R_TRUNK_FORM;

		if (length > 0 && length <= trunk_talk_max(l)) {
			if (l->in_bytes - at < TRUNK_LENGTH_BYTES + length)
				break;
			reason = trunk_talk_take(t, l, l->in + at + TRUNK_LENGTH_BYTES, length);
		}
		if (reason != WEFT_OK)
			trunk_line_end(t, l, reason);
		at += TRUNK_LENGTH_BYTES + length;
	}
	if (l->is_over)
		return;
	l->in_bytes -= at;
	memmove(l->in, l->in + at, l->in_bytes);
}

/* Once: others have their turn. */
static void line_read(struct fabric_trunks *t, struct trunk_line *l)
{
	struct span_list list = { .count = 0 };
	size_t moved = 0;
	enum socket_result r;

	(void)span_list_add(&list, l->in + l->in_bytes, sizeof(l->in) - l->in_bytes);
	r = socket_recv(l->fd, &list, &moved);
	if (r == SOCKET_WAIT)
		return;
	if (r != SOCKET_MOVED) {
		trunk_line_end(t, l, WEFT_R_PEER_GONE);
		return;
	}
	l->in_bytes += moved;
	l->heard_ns = t->now_ns;
	records_take(t, l);
	if (!l->is_over)
		(void)line_write(t, l); /* of the greeting */
}

static void line_connected(struct fabric_trunks *t, struct trunk_line *l)
{
	enum weft_reason r = socket_connected(l->fd);

	if (r != WEFT_OK) {
		trunk_line_end(t, l, r);
		return;
	}
	trunk_talk_begin(t, l);
	if (!l->is_over)
		(void)line_write(t, l);
}

static void line_serve(struct fabric_trunks *t, struct trunk_line *l, uint32_t events)
{
	if (l->is_over)
		return;
	if (l->state == TRUNK_CONNECTING) {
		line_connected(t, l);
		return;
	}
	if (events & EPOLLOUT)
		(void)line_write(t, l);
	if (!l->is_over && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		line_read(t, l);
}

/* ---- Coming --------------------------------------------------------------------------------- */

static void dial(struct fabric_trunks *t, uint32_t part)
{
	const struct weft_address *to = &t->config.cut->parts->parts[part].address;
	struct trunk_peer *p = &t->peers[part];
	enum weft_reason r;
	int fd;

	p->dial_ns = t->now_ns + redial_max_ns;
	r = socket_connect(to, NULL, &fd);
	if (r == WEFT_OK) {
		p->line = line_make(t, fd, part);
		if (p->line)
			p->line->address = *to;
		else
			socket_close(fd, false);
	} else if (r != p->told) {
		p->told = r;
		trunk_say(t, TRUNK_SAY_PART, "part %s cannot be dialled: %s",
			  t->config.cut->parts->parts[part].name, weft_reason_text(r));
	}
}

/* The oldest connection whose other end is not known makes room. */
static void room_make(struct fabric_trunks *t)
{
	struct trunk_line *oldest = NULL;
	uint32_t guests = 0;

	for (struct trunk_line *l = t->lines; l; l = l->next) {
		if (l->part != FABRIC_PART_NONE || l->is_over)
			continue;
		guests++;
		if (!oldest || l->since_ns <= oldest->since_ns)
			oldest = l;
	}
	if (guests >= TRUNK_GUESTS_MAX)
		trunk_line_end(t, oldest, WEFT_R_LIMIT);
}

static void guests_take(struct fabric_trunks *t)
{
	for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
		struct weft_address here;
		struct trunk_line *l;
		int fd = -1;
		enum weft_reason r = socket_accept(t->listener, &fd);

		if (r == WEFT_R_DESCRIPTORS && spare_refuse(&t->spare, t->listener, EMFILE))
			continue;
		if (r != WEFT_OK || fd < 0)
			return;
		room_make(t);
		l = line_make(t, fd, FABRIC_PART_NONE);
		if (!l) {
			socket_close(fd, false);
			continue;
		}
		socket_addresses(fd, &here, &l->address);
		trunk_talk_begin(t, l);
	}
}

/* ---- Work ----------------------------------------------------------------------------------- */

bool fabric_trunks_take(struct fabric_trunks *t, uint64_t now_ns)
{
	struct epoll_event events[EVENTS_MAX];
	int count = epoll_wait(t->epoll, events, EVENTS_MAX, 0);

	t->now_ns = t->taken_ns = now_ns;
	for (int i = 0; i < count; i++) {
		if (events[i].data.ptr)
			line_serve(t, events[i].data.ptr, events[i].events);
		else
			guests_take(t);
	}
	lines_reap(t);
	return count > 0;
}

bool fabric_trunks_send(struct fabric_trunks *t)
{
	bool has_sent = false;

	for (struct trunk_line *l = t->lines; l; l = l->next) {
		while (!l->is_over && l->state == TRUNK_UP && l->out_end == 0 &&
		       trunk_talk_fill(t, l)) {
			has_sent = true;
			l->said_ns = t->now_ns;
			(void)line_write(t, l);
		}
	}
	lines_reap(t);
	return has_sent;
}

/*
 * A part that runs is heard of four times in the time of silence. Whether one is silent was seen at
 * the last look: if this process itself was stopped since, what others said meanwhile is unread.
 */
static uint64_t line_watch(struct fabric_trunks *t, struct trunk_line *l)
{
	enum { SAID_TIMES = 4 };
	uint64_t alive_ns = t->config.cut->parts->alive_ns;

	if (l->heard_ns + alive_ns <= t->taken_ns) {
		trunk_line_end(t, l, WEFT_R_TRUNK_SILENT);
		return UINT64_MAX;
	}
	if (l->out_end == 0 && l->said_ns + alive_ns / SAID_TIMES <= t->now_ns) {
		l->said_ns = t->now_ns;
		trunk_talk_alive(l);
		(void)line_write(t, l);
	}
	return least(l->heard_ns + alive_ns,
		     l->out_end == 0 ? l->said_ns + alive_ns / SAID_TIMES : UINT64_MAX);
}

static uint64_t lines_expire(struct fabric_trunks *t)
{
	uint64_t due_ns = UINT64_MAX;

	for (struct trunk_line *l = t->lines; l; l = l->next) {
		if (l->is_over)
			continue;
		if (l->state == TRUNK_UP)
			due_ns = least(due_ns, line_watch(t, l));
		else if (l->deadline_ns <= t->now_ns)
			trunk_line_end(t, l, WEFT_R_CONNECT_TIMEOUT);
		else
			due_ns = least(due_ns, l->deadline_ns);
	}
	lines_reap(t);
	return due_ns;
}

uint64_t fabric_trunks_expire(struct fabric_trunks *t, uint64_t now_ns)
{
	uint64_t due_ns;

	t->now_ns = now_ns;
	due_ns = words_expire(t);
	due_ns = least(due_ns, lines_expire(t));
	for (uint32_t i = 0; i < t->config.cut->parts->part_count; i++) {
		struct trunk_peer *p = &t->peers[i];

		if (!p->is_dialled || p->line)
			continue;
		if (p->dial_ns <= now_ns)
			dial(t, i);
		due_ns = least(due_ns, p->line ? p->line->deadline_ns : p->dial_ns);
	}
	return due_ns;
}

void fabric_trunks_where(const struct fabric_trunks *t, uint32_t node,
			 struct fabric_trunk_where *where)
{
	const struct fabric_cut *c = t->config.cut;
	uint32_t part = c->part_of[node];
	const struct trunk_line *l = t->peers[part].line;

	*where = (struct fabric_trunk_where){
		.self = c->parts->parts[c->self].name,
		.name = c->parts->parts[part].name,
		.address = l ? l->address : c->parts->parts[part].address,
		.is_joined = l && l->state == TRUNK_UP,
	};
}

/* ---- Life ----------------------------------------------------------------------------------- */

static enum weft_reason listen_at(struct fabric_trunks *t)
{
	const struct fabric_cut *c = t->config.cut;
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = NULL };
	enum weft_reason r;

	r = socket_listen(&c->parts->parts[c->self].address, &t->listener);
	if (r == WEFT_OK && epoll_ctl(t->epoll, EPOLL_CTL_ADD, t->listener, &e) < 0)
		r = system_reason(errno);
	return r;
}

/* The cables that join this part with others. False: memory is short. */
static bool cables_find(struct fabric_trunks *t)
{
	const struct fabric *f = t->config.fabric;

	for (uint32_t cable = 0; cable < fabric_cable_count(f); cable++) {
		uint32_t node[2], port[2], *more;
		struct trunk_peer *p;

		if (!fabric_is_trunk(f, cable))
			continue;
		fabric_cable_ends(f, cable, node, port);
		p = &t->peers[t->config.cut->part_of[node[fabric_is_here(f, node[0])]]];
		more = realloc(p->cables, (p->cable_count + 1) * sizeof(*more));
		if (!more)
			return false;
		p->cables = more;
		p->cables[p->cable_count++] = cable;
	}
	return true;
}

static enum weft_reason open_all(struct fabric_trunks *t)
{
	bool is_dialled_by_one = false;

	t->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll < 0)
		return system_reason(errno);
	if (!cables_find(t) || !trunk_ports_open(t))
		return WEFT_R_NO_MEMORY;
	for (uint32_t i = 0; i < t->config.cut->parts->part_count; i++) {
		struct trunk_peer *p = &t->peers[i];

		p->redial_ns = redial_min_ns;
		p->is_dialled = p->cable_count > 0 && fabric_cut_dials(t->config.cut, i);
		is_dialled_by_one |= p->cable_count > 0 && !p->is_dialled;
	}
	return is_dialled_by_one ? listen_at(t) : WEFT_OK;
}

enum weft_reason fabric_trunks_open(const struct fabric_trunks_config *config,
				    struct fabric_trunks **trunks)
{
	struct fabric_trunks *t = calloc(1, sizeof(*t));
	enum weft_reason r;

	if (!t)
		return WEFT_R_NO_MEMORY;
	t->config = *config;
	t->epoll = t->listener = -1;
	t->spare = spare_open();
	r = open_all(t);
	if (r == WEFT_OK)
		*trunks = t;
	else
		fabric_trunks_close(t);
	return r;
}

void fabric_trunks_close(struct fabric_trunks *own_t)
{
	if (!own_t)
		return;
	while (own_t->lines) {
		struct trunk_line *l = own_t->lines;

		own_t->lines = l->next;
		line_free(l);
	}
	for (uint32_t i = 0; i < FABRIC_PARTS_MAX; i++)
		free(own_t->peers[i].cables);
	free(own_t->first_port);
	free(own_t->known);
	if (own_t->listener >= 0)
		close(own_t->listener);
	if (own_t->epoll >= 0)
		close(own_t->epoll);
	spare_close(&own_t->spare);
	free(own_t);
}

int fabric_trunks_fd(const struct fabric_trunks *t)
{
	return t->epoll;
}
