/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/fabric_server_inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/least.h"
#include "driver/sys/clock.h"
#include "driver/sys/spare.h"
#include "driver/sys/system_reason.h"
#include "driver/sys/turns.h"

enum { EVENTS_MAX = 64, NS_PER_MS = 1000000, TURNS_AT_ONCE = 64, TURNS_A_WAKE = 4 };

/* ---- What the hub asks ---------------------------------------------------------------------- */

static bool hub_post(void *owner, uint32_t node, uint32_t port, const uint8_t *bytes,
		     uint32_t length)
{
	struct fabric_server *s = owner;

	return fabric_post(s->fabric, node, port, bytes, length);
}

/* As IBA counts what a port drops that was to leave by it (16.1.3.5). */
static void hub_refused(void *owner, uint32_t node, uint32_t port)
{
	struct fabric_server *s = owner;

	fabric_node_at(s->fabric, node)->ports[port].counts.transmit_discards++;
}

/* 16.1.3.5: packets for which there is no buffer are errors of what came in. */
static void hub_untaken(void *owner, uint32_t node, uint32_t port)
{
	struct fabric_server *s = owner;

	fabric_node_at(s->fabric, node)->ports[port].counts.receive_errors++;
}

/* Its P_Key is looked at as that of each frame which comes out (fabric_server_port.c). */
static bool hub_cross(void *owner, const uint8_t *headers, uint32_t length,
		      struct fabric_hub_way *way)
{
	struct fabric_server *s = owner;
	struct fabric_crossing *c = &s->crossing;
	struct iba_glance g;

	c->node = way->node;
	c->port = way->port;
	if (!fabric_crossing_find(s->fabric, headers, length, c) ||
	    iba_frame_glance(&g, headers, length) != WEFT_OK ||
	    !fabric_node_has_pkey(fabric_node_look(s->fabric, c->node), c->port, g.p_key))
		return false;
	*way = (struct fabric_hub_way){
		.node = c->node,
		.port = c->port,
		.bytes_max = c->bytes_max,
		.lane = c->lane,
	};
	return true;
}

static void hub_crossed(void *owner, uint64_t frames, uint64_t words, uint64_t flits)
{
	struct fabric_server *s = owner;

	fabric_crossing_count(s->fabric, &s->crossing, frames, words, flits);
}

static uint8_t *hub_room(void *owner)
{
	struct fabric_server *s = owner;

	return fabric_room(s->fabric);
}

static bool hub_tell(void *owner, uint32_t node, uint32_t port, struct attach_state *state)
{
	return server_port_state(owner, node, port, state);
}

static enum weft_reason hub_find(void *owner, const char *name, uint32_t *node, uint32_t *port)
{
	struct fabric_msg_where where = { .port = 0 };

	(void)snprintf(where.node, sizeof(where.node), "%s", name);
	return server_owner_find(owner, &where, node, port);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static bool names_copy(struct fabric_server *s, const struct topology *t)
{
	uint32_t ports = 0;

	s->names = calloc(t->node_count + 1U, sizeof(*s->names));
	s->ids = calloc(t->node_count + 1U, sizeof(*s->ids));
	s->first_port = calloc(t->node_count + 1U, sizeof(*s->first_port));
	if (!s->names || !s->ids || !s->first_port)
		return false;
	for (uint32_t node = 0; node < t->node_count; node++) {
		memcpy(s->names[node], t->nodes[node].name, sizeof(s->names[node]));
		memcpy(s->ids[node], t->nodes[node].id, sizeof(s->ids[node]));
		s->first_port[node] = ports;
		ports += t->nodes[node].ports + 1;
	}
	s->port_at = calloc(ports + 1U, sizeof(*s->port_at));
	return s->port_at;
}

static enum weft_reason watch(const struct fabric_server *s, int fd, void *what)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = what };

	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e) == 0 ? WEFT_OK : system_reason(errno);
}

static enum weft_reason listen_at(struct fabric_server *s)
{
	struct unix_names names = fabric_socket_names(s->name);
	bool are_all_foreign;

	s->listener = unix_names_take(&names, true, &are_all_foreign);
	if (s->listener == -EADDRINUSE)
		return WEFT_R_FABRIC_TAKEN;
	if (s->listener < 0)
		return system_reason(-s->listener);
	return watch(s, s->listener, &s->listener);
}

static enum weft_reason hub_open(struct fabric_server *s)
{
	const struct fabric_hub_config config = {
		.nodes = fabric_node_count(s->fabric),
		.cross = hub_cross,
		.crossed = hub_crossed,
		.room = hub_room,
		.post = hub_post,
		.refused = hub_refused,
		.untaken = hub_untaken,
		.tell = hub_tell,
		.find = hub_find,
		.owner = s,
	};
	enum weft_reason r = fabric_hub_open(&config, s->name, &s->hub);

	if (r == WEFT_R_ADDRESS_IN_USE)
		return WEFT_R_FABRIC_TAKEN;
	return r == WEFT_OK ? fabric_hub_watch(s->hub, s->epoll) : r;
}

static enum weft_reason trunks_open(struct fabric_server *s, const struct fabric_server_part *part)
{
	const struct fabric_trunks_config config = {
		.cut = part->cut,
		.fabric = s->fabric,
		.tell = part->tell,
		.context = part->context,
	};
	enum weft_reason r = fabric_trunks_open(&config, &s->trunks);

	return r == WEFT_OK ? watch(s, fabric_trunks_fd(s->trunks), &s->trunks) : r;
}

static enum weft_reason open_all(struct fabric_server *s, const struct topology *t,
				 const struct fabric_server_options *options)
{
	const struct fabric_server_part *part = options->part;
	struct fabric_cfg cfg = fabric_cfg_live();
	enum weft_reason r;

	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->spare = spare_open();
	if (s->epoll < 0 || s->wake < 0)
		return system_reason(errno);
	if (!names_copy(s, t))
		return WEFT_R_NO_MEMORY;
	if (part)
		cfg.are_here = part->cut->are_here;
	cfg.mtu = options->mtu;
	r = listen_at(s);
	if (r == WEFT_OK)
		r = fabric_open(t, &cfg, &s->fabric);
	if (r == WEFT_OK && part)
		r = trunks_open(s, part);
	if (r == WEFT_OK)
		r = hub_open(s);
	s->reporter = reporter_open("fabric-run", server_report, s);
	if (r == WEFT_OK && s->reporter)
		r = watch(s, reporter_descriptor(s->reporter), &s->reporter);
	return r == WEFT_OK ? watch(s, s->wake, &s->wake) : r;
}

enum weft_reason fabric_server_open(const struct topology *t,
				    const struct fabric_server_options *options,
				    struct fabric_server **out)
{
	struct fabric_server *s = calloc(1, sizeof(*s));
	const char *name = options->name;
	enum weft_reason r;

	if (!s)
		return WEFT_R_NO_MEMORY;
	if (!name)
		name = getenv("WEFT_FABRIC");
	(void)snprintf(s->name, sizeof(s->name), "%s", name && *name ? name : "fabric");
	s->epoll = s->listener = s->wake = s->spare = -1;
	s->begin_ns = clock_ns();
	s->spin_ns = options->spin_ns;
	list_init(&s->ports);
	r = open_all(s, t, options);
	if (r == WEFT_OK)
		*out = s;
	else
		fabric_server_close(s);
	return r;
}

void fabric_server_close(struct fabric_server *own_s)
{
	reporter_close(own_s->reporter);
	server_clients_close(own_s);
	server_ports_close(own_s);
	if (own_s->hub)
		fabric_hub_close(own_s->hub);
	fabric_trunks_close(own_s->trunks);
	fabric_close(own_s->fabric);
	if (own_s->listener >= 0)
		close(own_s->listener);
	if (own_s->wake >= 0)
		close(own_s->wake);
	if (own_s->epoll >= 0)
		close(own_s->epoll);
	spare_close(&own_s->spare);
	free(own_s->names);
	free(own_s->ids);
	free(own_s->first_port);
	free((void *)own_s->port_at);
	free(own_s);
}

const char *fabric_server_name(const struct fabric_server *s)
{
	return s->name;
}

void fabric_server_stop(struct fabric_server *s)
{
	const uint64_t one = 1;

	atomic_store(&s->is_stopping, true);
	(void)!write(s->wake, &one, sizeof(one));
}

/* ---- The loop ------------------------------------------------------------------------------- */

static void serve(struct fabric_server *s, const struct epoll_event *e)
{
	if (e->data.ptr == &s->listener)
		server_clients_accept(s);
	else if (e->data.ptr == &s->reporter)
		reporter_serve(s->reporter, s->now_ns);
	else if (e->data.ptr != &s->wake && e->data.ptr != &s->trunks)
		server_client_serve(s, e->data.ptr, e->events);
}

static void changes_tell(struct fabric_server *s)
{
	static const struct {
		uint32_t change, news;
	} table[] = {
		{ FABRIC_CHANGE_LINK | FABRIC_CHANGE_STATE, ATTACH_NEWS_STATE },
		{ FABRIC_CHANGE_ADDRESS, ATTACH_NEWS_LID | ATTACH_NEWS_SM | ATTACH_NEWS_GIDS },
		{ FABRIC_CHANGE_PKEYS, ATTACH_NEWS_PKEYS },
		{ FABRIC_CHANGE_REREGISTER, ATTACH_NEWS_REREGISTER },
	};
	uint32_t node, port, changes;

	while (fabric_changed(s->fabric, &node, &port, &changes)) {
		uint32_t news = 0;

		for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
			news |= changes & table[i].change ? table[i].news : 0;
		if (news)
			fabric_hub_changed(s->hub, node, port, news);
		if (s->trunks)
			fabric_trunks_changed(s->trunks, node, port);
	}
}

/* What agents wait for, and have to send. True: something has left. */
static bool agents_work(struct fabric_server *s)
{
	bool has_moved = false;

	for (struct list *at = s->ports.next; at != &s->ports; at = at->next) {
		struct server_port *p = CONTAINER_OF(at, struct server_port, link);

		if (!p->mads)
			continue;
		if (mad_due(p->mads) <= s->now_ns)
			mad_expire(p->mads, s->now_ns);
		has_moved |= server_port_send(s, p);
		server_messages_tell(s, p);
	}
	return has_moved;
}

/* Moves what can move. True: there may be more. */
static bool turn(struct fabric_server *s)
{
	bool has_moved = fabric_hub_run(s->hub);
	uint32_t node, port;

	s->now_ns = clock_ns() - s->begin_ns;
	fabric_hub_expire(s->hub, s->now_ns + s->begin_ns);
	if (s->trunks)
		has_moved |= fabric_trunks_take(s->trunks, s->now_ns);
	has_moved |= agents_work(s);
	fabric_run(s->fabric, s->now_ns);
	changes_tell(s);
	while (fabric_ready(s->fabric, &node, &port)) {
		fabric_hub_room(s->hub, node, port);
		server_port_take(s, node, port);
		has_moved = true;
	}
	while (fabric_hub_ready(s->hub, &node, &port)) {
		server_port_take(s, node, port);
		has_moved = true;
	}
	if (s->trunks)
		has_moved |= fabric_trunks_send(s->trunks);
	return has_moved;
}

/*
 * As long as something moves, for some turns. A program that sleeps is woken for what several of
 * them brought: to wake it is dear, and it may take this processor. True: there may be more.
 */
static bool turns(struct fabric_server *s, bool *has_moved)
{
	bool has_more = true;

	*has_moved = false;
	for (int i = 1; i <= TURNS_AT_ONCE && has_more; i++) {
		has_more = turn(s);
		*has_moved |= has_more;
		if (!has_more || i % TURNS_A_WAKE == 0)
			fabric_hub_flush(s->hub);
	}
	return has_more;
}

static uint64_t due(const struct fabric_server *s)
{
	uint64_t due_ns = fabric_due(s->fabric), hub_ns = fabric_hub_due(s->hub);

	if (hub_ns != UINT64_MAX)
		due_ns = least(due_ns, hub_ns - s->begin_ns);
	for (const struct list *at = s->ports.next; at != &s->ports; at = at->next) {
		const struct server_port *p = CONTAINER_OF(at, struct server_port, link);

		if (p->mads)
			due_ns = least(due_ns, mad_due(p->mads));
	}
	return due_ns;
}

/* Rounded up, so that what is due then is due; what is due soon is not slept over. -1: endless. */
static int wait_ms(const struct fabric_server *s, uint64_t other_ns)
{
	const uint64_t longest_ms = 60000;
	uint64_t due_ns = least(due(s), other_ns), now_ns = clock_ns() - s->begin_ns, ms;

	if (due_ns == UINT64_MAX)
		return -1;
	if (due_ns <= now_ns + NS_PER_MS)
		return 0;
	ms = (due_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
	return (int)least(ms, longest_ms);
}

/*
 * True: it does not sleep yet. When it is to, there is another turn, in which adapters are told
 * that they have to wake it.
 */
static bool stays_awake(struct fabric_server *s, bool has_moved)
{
	bool was_awake = s->is_awake;

	if (has_moved)
		s->moved_ns = s->now_ns;
	s->is_awake = s->now_ns - s->moved_ns < s->spin_ns;
	fabric_hub_stay_awake(s->hub, s->is_awake);
	return s->is_awake || was_awake;
}

void fabric_server_run(struct fabric_server *s)
{
	struct epoll_event events[EVENTS_MAX];
	uint64_t report_ns = UINT64_MAX, trunks_ns = UINT64_MAX;

	turns_ask_short();
	while (!atomic_load(&s->is_stopping)) {
		bool has_moved, has_more = turns(s, &has_moved);
		int count;

		has_more |= stays_awake(s, has_moved);
		if (s->trunks)
			trunks_ns = fabric_trunks_expire(s->trunks, clock_ns() - s->begin_ns);
		count = epoll_wait(fabric_hub_fd(s->hub), events, EVENTS_MAX,
				   has_more ? 0 : wait_ms(s, least(report_ns, trunks_ns)));
		if (fabric_hub_hear(s->hub, events, count))
			count = epoll_wait(s->epoll, events, EVENTS_MAX, 0);
		else
			count = 0;
		s->now_ns = clock_ns() - s->begin_ns;
		for (int i = 0; i < count; i++)
			serve(s, &events[i]);
		if (s->reporter)
			report_ns = reporter_expire(s->reporter, s->now_ns);
		server_clients_reap(s);
	}
}
