/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/fabric/fabric_attach.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "driver/near/ring.h"
#include "driver/sys/calls.h"
#include "driver/sys/clock.h"
#include "driver/sys/system_reason.h"
#include "driver/sys/unix_sockets.h"

enum { BATCH_MAX = 64, MESSAGES_MAX = 64 };

/* So long an answer of the fabric may take, when its machine is busy. */
static const uint64_t answer_ns = UINT64_C(20) * 1000 * 1000 * 1000;

struct fabric_attach {
	struct fabric_attach_config config;
	struct watch watch;
	int bell;
	uint8_t slot;
	uint32_t port;
	struct attach_state state;
	struct ring out, in;
	size_t last;	   /* bytes of the record that the caller has */
	uint32_t each_max; /* bytes of a record of what was begun */
	bool is_blocked, is_resting, is_touched, has_ended, is_abandoned;
	bool was_woken; /* by a message that ask() has read */
	struct ib_in next;
	struct fabric_attach_counts counts;
};

bool fabric_is_ours(const char **fabric, const char **node)
{
	*fabric = secure_getenv("WEFT_FABRIC");
	*node = secure_getenv("WEFT_NODE");
	return *fabric && **fabric && *node && **node;
}

/* ---- Messages ------------------------------------------------------------------------------- */

static void end(struct fabric_attach *a)
{
	if (a->has_ended)
		return;
	a->has_ended = true;
	a->state.info.state = SM_PORT_DOWN;
	a->state.info.phys_state = SM_PHYS_POLLING;
	if (a->watch.interest)
		a->config.watch(a->config.owner, &a->watch, 0);
	if (a->config.changed)
		a->config.changed(a->config.owner, 0);
}

/* Of what the fabric says by itself. */
static void take(struct fabric_attach *a, const struct attach_message *m)
{
	if (m->kind == ATTACH_CLOSED || m->kind == ATTACH_UNKNOWN)
		end(a);
	if (m->kind != ATTACH_NEWS)
		return;
	a->state = m->state;
	if (a->config.changed)
		a->config.changed(a->config.owner, m->news);
}

static void ready(struct watch *w, uint32_t events)
{
	struct fabric_attach *a = CONTAINER_OF(w, struct fabric_attach, watch);
	struct attach_message m;

	(void)events;
	for (int i = 0; i < MESSAGES_MAX && !a->has_ended; i++) {
		a->counts.calls_in++;
		attach_message_take(w->fd, &m);
		if (m.kind == ATTACH_NONE)
			return;
		take(a, &m);
		if (m.kind == ATTACH_WAKE) /* mostly the last one: it is not asked for a next */
			return;
	}
}

/* The next message, which must come soon. */
static void await(int fd, struct attach_message *m)
{
	uint64_t until_ns = clock_ns() + answer_ns, now_ns = clock_ns();

	*m = attach_message_of(ATTACH_CLOSED);
	while (now_ns < until_ns) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		attach_message_take(fd, m);
		if (m->kind != ATTACH_NONE)
			return;
		(void)poll(&p, 1, (int)((until_ns - now_ns) / 1000000) + 1);
		now_ns = clock_ns();
	}
	m->kind = ATTACH_CLOSED;
}

/* The answer to a question; what comes before it is taken, if there is an adapter. */
static enum weft_reason ask(int fd, struct fabric_attach *a, const struct attach_message *q,
			    enum attach_kind expected, struct attach_message *m)
{
	if (!attach_message_send(fd, q))
		return WEFT_R_FABRIC_ABSENT;
	do {
		await(fd, m);
		if (a) {
			a->was_woken |= m->kind == ATTACH_WAKE;
			take(a, m);
		}
	} while (m->kind == ATTACH_WAKE || m->kind == ATTACH_NEWS);
	if (m->kind == expected)
		return WEFT_OK;
	if (m->descriptor >= 0)
		call_close(m->descriptor);
	if (m->bell >= 0)
		call_close(m->bell);
	if (m->kind == ATTACH_REFUSED && m->reason > WEFT_OK && m->reason < WEFT_REASON_COUNT)
		return (enum weft_reason)m->reason;
	return WEFT_R_FABRIC_ABSENT;
}

static int dial(const char *fabric)
{
	struct unix_names names = attach_names_of(fabric);

	return unix_names_connect(&names);
}

static void name_put(struct attach_message *m, const char *node)
{
	(void)snprintf(m->node, sizeof(m->node), "%s", node);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static enum weft_reason attach(struct fabric_attach *a)
{
	struct attach_message q = attach_message_of(ATTACH_ATTACH), m;
	enum weft_reason r;
	int error;

	q.descriptor = ring_make(&a->out, ATTACH_RING_BYTES);
	if (q.descriptor < 0)
		return system_reason(-q.descriptor);
	q.port = a->config.port;
	name_put(&q, a->config.node);
	r = ask(a->watch.fd, NULL, &q, ATTACH_ATTACHED, &m);
	call_close(q.descriptor);
	if (r != WEFT_OK)
		return r;
	a->bell = m.bell;
	if (m.descriptor < 0 || m.bell < 0)
		return WEFT_R_FABRIC_ABSENT;
	error = m.slot > 0 ? ring_map(&a->in, m.descriptor) : -EPROTO;
	call_close(m.descriptor);
	if (error < 0)
		return system_reason(-error);
	a->slot = m.slot;
	a->port = m.port;
	a->state = m.state;
	return WEFT_OK;
}

enum weft_reason fabric_attach_open(const struct fabric_attach_config *config,
				    struct fabric_attach **attached)
{
	struct fabric_attach *a = calloc(1, sizeof(*a));
	enum weft_reason r;

	if (!a)
		return WEFT_R_NO_MEMORY;
	a->config = *config;
	a->bell = -1;
	a->watch = (struct watch){ .ready = ready, .fd = dial(config->fabric) };
	r = a->watch.fd < 0 ? WEFT_R_FABRIC_ABSENT : attach(a);
	if (r != WEFT_OK) {
		fabric_attach_close(a);
		return r;
	}
	a->config.watch(a->config.owner, &a->watch, EPOLLIN);
	*attached = a;
	return WEFT_OK;
}

void fabric_attach_close(struct fabric_attach *a)
{
	if (a->watch.interest && !a->is_abandoned)
		a->config.watch(a->config.owner, &a->watch, 0);
	if (a->watch.fd >= 0 && !a->is_abandoned)
		call_close(a->watch.fd);
	if (a->bell >= 0)
		call_close(a->bell);
	ring_unmap(&a->out);
	ring_unmap(&a->in);
	free(a);
}

/* The rings are not mapped in a child. */
void fabric_attach_abandon(struct fabric_attach *a)
{
	a->is_abandoned = a->has_ended = true;
	watch_abandon(&a->watch);
	if (a->bell >= 0)
		call_close(a->bell);
	a->bell = -1;
	a->out.head = a->in.head = NULL;
}

uint8_t fabric_attach_slot(const struct fabric_attach *a)
{
	return a->slot;
}

uint32_t fabric_attach_port(const struct fabric_attach *a)
{
	return a->port;
}

const struct attach_state *fabric_attach_state(const struct fabric_attach *a)
{
	return &a->state;
}

const struct fabric_attach_counts *fabric_attach_counts(const struct fabric_attach *a)
{
	return &a->counts;
}

static void wake(struct fabric_attach *a)
{
	const uint64_t once = 1;

	a->counts.calls_out++;
	(void)call_write(a->bell, &once, sizeof(once));
}

/* ---- Frames in ------------------------------------------------------------------------------ */

bool fabric_attach_has_input(const struct fabric_attach *a)
{
	return !a->is_abandoned && !a->in.is_broken && !ring_is_empty(&a->in);
}

static void take_last(struct fabric_attach *a)
{
	if (a->last == 0)
		return;
	ring_take(&a->in, a->last);
	a->last = 0;
	if (ring_wakes_sender(&a->in))
		wake(a);
}

/* What is in shared memory may change: what was checked is what is used. */
static bool head_read(struct fabric_attach *a, const uint8_t *bytes, size_t length,
		      struct attach_head *h)
{
	if (length < sizeof(*h))
		return false;
	memcpy(h, bytes, sizeof(*h));
	a->in.is_broken |= h->at < ATTACH_HEAD_BYTES || h->at > ATTACH_RECORD_MAX ||
			   h->length > IBA_FRAME_MAX || (size_t)h->at + h->length > length;
	return !a->in.is_broken;
}

const struct ib_in *fabric_attach_next(struct fabric_attach *a)
{
	const uint8_t *bytes;
	struct attach_head h;

	if (a->is_abandoned)
		return NULL;
	take_last(a);
	/* Bound: each round takes a record. */
	for (uint32_t i = 0; i < ATTACH_RING_BYTES / RING_ALIGN; i++) {
		size_t length = ring_peek(&a->in, &bytes);

		if (!head_read(a, bytes, length, &h)) {
			if (a->in.is_broken)
				end(a);
			return NULL;
		}
		a->last = h.at + h.length;
		a->counts.frames_in++;
		a->counts.bytes_in += h.length;
		if (ib_in_of_frame(&a->next, bytes + h.at, h.length) == WEFT_OK) {
			if (a->next.local.to < IBA_LID_MULTICAST_MIN)
				a->next.path_bits = (uint8_t)(a->next.local.to &
							      ((1U << a->state.info.lmc) - 1));
			return &a->next;
		}
		a->counts.malformed++;
		take_last(a);
	}
	return NULL;
}

void fabric_attach_stand_by(struct fabric_attach *a, bool is_polled)
{
	if (!is_polled || !a->is_resting || a->is_abandoned)
		return;
	a->is_resting = false;
	ring_rest_end(&a->in);
}

bool fabric_attach_rest(struct fabric_attach *a)
{
	if (a->is_abandoned)
		return true;
	if (fabric_attach_has_input(a))
		return false;
	a->is_resting = true;
	if (!ring_rest(&a->in) && !a->in.is_broken)
		return false;
	return !a->is_blocked || ring_await_room(&a->out, ATTACH_RECORD_MAX);
}

/* ---- Frames out ----------------------------------------------------------------------------- */

/* What is put from now on is lost, as at a port that is down: nothing reads it any more. */
static void out_empty(struct fabric_attach *a)
{
	a->out.other = a->out.own;
	a->out.is_broken = false;
}

/* So that the packet itself is aligned as its memory is. */
static size_t record_bytes(size_t each)
{
	return ring_round(ATTACH_HEAD_BYTES + IB_ROUTE_BYTES_MAX + each + IBA_VCRC_BYTES);
}

uint32_t fabric_attach_begin(struct fabric_attach *a, struct ib_out *outs, uint32_t count,
			     size_t each)
{
	size_t record = record_bytes(each);
	uint8_t *room = NULL;

	if (a->is_abandoned)
		return 0;
	if (a->has_ended)
		out_empty(a);
	if (count > ring_record_max(&a->out) / record)
		count = (uint32_t)(ring_record_max(&a->out) / record);
	/* Fewer, where not all have room. */
	for (; count > 0 && !room; count = room ? count : count / 2)
		room = ring_room(&a->out, count * record);
	for (uint32_t i = 0; i < count; i++)
		outs[i].room = room + i * record + ATTACH_HEAD_BYTES + IB_ROUTE_BYTES_MAX;
	a->is_blocked = count == 0;
	return count;
}

uint32_t fabric_attach_window(size_t each)
{
	return (uint32_t)(ATTACH_RING_BYTES / 4 * 3 / record_bytes(each));
}

void fabric_attach_end(struct fabric_attach *a, const struct ib_out *outs, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct ib_out *out = &outs[i];
		const struct attach_head h = {
			.at = ATTACH_HEAD_BYTES + IB_ROUTE_BYTES_MAX - out->route_bytes,
			.length = (uint32_t)out->spans.length + IBA_VCRC_BYTES,
		};

		memcpy(out->room - ATTACH_HEAD_BYTES - IB_ROUTE_BYTES_MAX, &h, sizeof(h));
		a->counts.frames_out++;
		a->counts.bytes_out += h.length;
		ring_add(&a->out, h.at + h.length);
	}
	if (count == 0)
		return;
	ring_show(&a->out);
	a->is_touched = true;
}

void fabric_attach_flush(struct fabric_attach *a)
{
	if (!a->is_touched || a->is_abandoned)
		return;
	a->is_touched = false;
	if (!a->has_ended && ring_wakes_receiver(&a->out))
		wake(a);
}

bool fabric_attach_is_blocked(const struct fabric_attach *a)
{
	return a->is_blocked;
}

bool fabric_attach_has_room(struct fabric_attach *a)
{
	if (a->is_blocked && !a->is_abandoned &&
	    (a->has_ended || ring_room(&a->out, ATTACH_RECORD_MAX)))
		a->is_blocked = false;
	return !a->is_blocked;
}

/* ---- Services and groups -------------------------------------------------------------------- */

enum weft_reason fabric_attach_claim(struct fabric_attach *a, uint64_t service)
{
	struct attach_message q = attach_message_of(ATTACH_CLAIM), m;

	q.service = service;
	return a->has_ended ? WEFT_R_FABRIC_ABSENT : ask(a->watch.fd, a, &q, ATTACH_CLAIMED, &m);
}

static void tell(struct fabric_attach *a, const struct attach_message *m)
{
	if (!a->has_ended)
		(void)attach_message_send(a->watch.fd, m);
}

void fabric_attach_release(struct fabric_attach *a, uint64_t service)
{
	struct attach_message m = attach_message_of(ATTACH_RELEASE);

	m.service = service;
	tell(a, &m);
}

enum weft_reason fabric_attach_join(struct fabric_attach *a, const uint8_t gid[16])
{
	struct attach_message q = attach_message_of(ATTACH_JOIN), m;

	memcpy(q.gid, gid, sizeof(q.gid));
	return a->has_ended ? WEFT_R_FABRIC_ABSENT : ask(a->watch.fd, a, &q, ATTACH_CLAIMED, &m);
}

bool fabric_attach_was_woken(struct fabric_attach *a)
{
	bool was_woken = a->was_woken;

	a->was_woken = false;
	return was_woken;
}

void fabric_attach_leave(struct fabric_attach *a, const uint8_t gid[16])
{
	struct attach_message m = attach_message_of(ATTACH_LEAVE);

	memcpy(m.gid, gid, sizeof(m.gid));
	tell(a, &m);
}
