/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/iscsi_server.h"

#include <errno.h>
#include <sched.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/least.h"
#include "driver/sys/clock.h"
#include "driver/sys/socket.h"
#include "roles/iscsi_server_inside.h"

enum {
	EVENTS = 64,
	NS_PER_MS = 1000000,
	NS_PER_S = 1000000000,
	HALF_OPEN = 256, /* connections that log in, beside those of sessions */
	LINE = 2048,
	REGISTRATIONS = 64, /* persistent reservations, per unit */
};

static const uint64_t longest_sleep_ns = UINT64_C(10) * NS_PER_S;

void iscsi_server_tell(struct iscsi_server *s, const char *form, ...)
{
	char line[LINE];
	va_list args;

	if (!s->options.tell)
		return;
	va_start(args, form);
	vsnprintf(line, sizeof(line), form, args);
	va_end(args);
	s->options.tell(s->options.context, line);
}

bool iscsi_server_watch(struct iscsi_server *s, int fd, void *source)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				 .data.ptr = source };

	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e) == 0;
}

/* A device is readable as long as it has something: level-triggered. */
static bool watch_device(struct iscsi_server *s, const struct device *d)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = &s->device_source };

	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, device_descriptor(d), &e) == 0;
}

/* ---- Opening -------------------------------------------------------------------------------- */

/* A name for the unit that it keeps as long as the target's name and the LUN are the same. */
static uint64_t unit_id(const struct iscsi_config_target *t, uint16_t lun)
{
	uint8_t digest[DIGEST_BYTES_MAX], number[2] = { (uint8_t)(lun >> 8), (uint8_t)lun };
	const struct span parts[] = { { (uint8_t *)(uintptr_t)t->name.text, t->name.length },
				      { number, sizeof(number) } };
	uint64_t id = 0;

	digest_of(DIGEST_SHA256, parts, 2, digest);
	for (uint32_t i = 0; i < sizeof(id); i++)
		id = id << 8 | digest[i];
	return id >> 4; /* 60 bits */
}

static bool unit_open(struct iscsi_server *s, uint32_t i, char why[CONFIG_FILE_WHY])
{
	const struct iscsi_config_lun *lun = &s->host->config->luns[i];
	uint64_t id = unit_id(&s->host->config->targets[lun->target], lun->lun);
	char serial[SCSI_SERIAL_MAX];
	struct device_refusal refusal;
	struct scsi_unit_config c = { .lun = lun->lun,
				      .is_readonly = lun->is_readonly,
				      .transfer_bytes_max = ISCSI_TRANSFER_MAX,
				      .id = id,
				      .serial = serial };
	enum weft_reason r;

	if (device_open(lun->text, &s->devices[i], &refusal) != WEFT_OK)
		return config_refuse(why, "%s:%u:%u: %s", s->host->path, lun->line,
				     lun->column + (refusal.at ? refusal.at - 1 : 0), refusal.text);
	c.store = device_store(s->devices[i]);
	/* A file system that cannot punch holes leaves what was discarded as it was. */
	c.has_zeroing_discard = device_plan(s->devices[i])->nodes[0].kind == STORE_KIND_MEM;
	snprintf(serial, sizeof(serial), "%015llx", (unsigned long long)id);
	r = scsi_unit_add(s->scsi[lun->target], &c);
	if (r == WEFT_OK && !watch_device(s, s->devices[i]))
		r = WEFT_R_DESCRIPTORS;
	return r == WEFT_OK ||
	       config_refuse(why, "%s:%u: %s", s->host->path, lun->line, weft_reason_text(r));
}

static struct chap_config chap_of(const struct iscsi_secrets *s)
{
	if (!s)
		return (struct chap_config){ 0 };
	return (struct chap_config){ .is_target = true,
				     .peers = s->initiators,
				     .peer_count = s->initiator_count,
				     .self = s->self };
}

static bool target_open(struct iscsi_server *s, uint32_t i, char why[CONFIG_FILE_WHY])
{
	const struct iscsi_config_target *t = &s->host->config->targets[i];
	const struct scsi_target_config scsi = { .name = t->name.text,
						 .port = 1,
						 .units_max = SCSI_UNITS_MAX,
						 .nexuses_max = s->host->config->sessions_max,
						 .registrations_max = REGISTRATIONS };
	struct iscsi_target_config c = { .name = { t->name.text, t->name.length },
					 .alias = iscsi_word(t->alias),
					 .portal_group_tag = ISCSI_SERVER_PORTAL_GROUP };
	uint16_t number;
	enum weft_reason r = scsi_target_create(&scsi, &s->scsi[i]);

	s->chap[i] = chap_of(s->host->secrets[i]);
	if (r == WEFT_OK) {
		c.scsi = s->scsi[i];
		iscsi_target_wish_init(&c.wish);
		r = iscsi_target_add(s->node, &c, &number);
	}
	return r == WEFT_OK ||
	       config_refuse(why, "%s:%u: %s", s->host->path, t->line, weft_reason_text(r));
}

static bool node_open(struct iscsi_server *s, char why[CONFIG_FILE_WHY])
{
	const struct iscsi_config *from = s->host->config;
	struct iscsi_node_config c;
	enum weft_reason r;

	iscsi_node_config_init(&c, from->sessions_max);
	c.targets_max = from->target_count;
	c.connections_max = s->ends_max - ISCSI_ACCEPTS_MAX;
	c.window_max = from->commands_max;
	c.tasks_max = from->sessions_max * (from->commands_max + ISCSI_EXTRAS_MAX);
	c.memory_bytes = from->memory_bytes;
	c.login_wait_ns = from->login_ns;
	c.ping_after_ns = from->alive_ns / 3;
	c.ping_wait_ns = from->alive_ns - c.ping_after_ns;
	c.calls = &iscsi_access_calls;
	c.owner = s;
	r = iscsi_node_create(&c, &s->node);
	return r == WEFT_OK || config_refuse(why, "%s: %s", s->host->path, weft_reason_text(r));
}

static enum weft_reason tcp_listen(struct iscsi_server *s, struct iscsi_server_portal *p)
{
	struct weft_address none;
	enum weft_reason r = socket_listen(&p->at, &p->fd);

	if (r == WEFT_OK)
		socket_addresses(p->fd, &p->at, &none);
	else
		p->fd = -1;
	if (r == WEFT_OK && !iscsi_server_watch(s, p->fd, p))
		r = WEFT_R_DESCRIPTORS;
	p->has_more = r == WEFT_OK;
	return r;
}

static enum weft_reason iser_listen(struct iscsi_server *s, struct iscsi_server_portal *p,
				    enum iscsi_config_wire wire)
{
	enum rdma_wire by = wire == ISCSI_CONFIG_ROCE ? RDMA_ROCE : RDMA_IWARP;
	enum weft_reason r = s->iser ? WEFT_OK : iser_portals_open(s, &s->iser);

	return r == WEFT_OK ? iser_portals_listen(s->iser, by, &p->at) : r;
}

static bool portal_open(struct iscsi_server *s, uint32_t i, char why[CONFIG_FILE_WHY])
{
	struct iscsi_server_portal *p = &s->portals[i];
	enum iscsi_config_wire wire = s->host->config->wires[i];
	enum weft_reason r;

	p->source = ISCSI_SOURCE_PORTAL;
	p->at = s->host->portals[i];
	r = wire == ISCSI_CONFIG_TCP ? tcp_listen(s, p) : iser_listen(s, p, wire);
	return r == WEFT_OK || config_refuse(why, "%s:%u: cannot listen at %s: %s", s->host->path,
					     s->host->config->portals[i].line,
					     s->host->config->portals[i].is, weft_reason_text(r));
}

static bool ends_open(struct iscsi_server *s, char why[CONFIG_FILE_WHY])
{
	s->ends_max = s->host->config->sessions_max + HALF_OPEN + ISCSI_ACCEPTS_MAX;
	s->ends = calloc(s->ends_max, sizeof(*s->ends));
	if (!s->ends)
		return config_refuse(why, "%s: there is no memory for its sessions", s->host->path);
	for (uint32_t i = 0; i < s->ends_max; i++) {
		s->ends[i].source = ISCSI_SOURCE_END;
		s->ends[i].fd = -1;
		s->ends[i].server = s;
		list_init(&s->ends[i].link);
		list_add_tail(&s->free, &s->ends[i].link);
	}
	return true;
}

static bool descriptors_open(struct iscsi_server *s, char why[CONFIG_FILE_WHY])
{
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return (s->epoll >= 0 && s->wake >= 0 && iscsi_server_watch(s, s->wake, &s->wake_source)) ||
	       config_refuse(why, "%s: %s", s->host->path, strerror(errno));
}

static bool open_all(struct iscsi_server *s, char why[CONFIG_FILE_WHY])
{
	const struct iscsi_config *c = s->host->config;

	if (!descriptors_open(s, why) || !ends_open(s, why) || !node_open(s, why))
		return false;
	for (uint32_t i = 0; i < c->target_count; i++) {
		if (!target_open(s, i, why))
			return false;
	}
	for (uint32_t i = 0; i < c->lun_count; i++) {
		if (!unit_open(s, i, why))
			return false;
	}
	s->discovery_chap = chap_of(s->host->discovery);
	for (uint32_t i = 0; i < c->portal_count; i++) {
		if (!portal_open(s, i, why))
			return false;
	}
	s->reporter = reporter_open("iscsi", iscsi_report, s);
	if (s->reporter)
		(void)iscsi_server_watch(s, reporter_descriptor(s->reporter), &s->reporter_source);
	return true;
}

bool iscsi_server_open(const struct iscsi_host *host, const struct iscsi_server_options *options,
		       struct iscsi_server **out, char why[CONFIG_FILE_WHY])
{
	struct iscsi_server *s = calloc(1, sizeof(*s));

	if (!s || sodium_init() < 0) {
		free(s);
		return config_refuse(why, "%s: there is no memory for it", host->path);
	}
	s->host = host;
	s->options = *options;
	s->device_source = ISCSI_SOURCE_DEVICE;
	s->wake_source = ISCSI_SOURCE_WAKE;
	s->reporter_source = ISCSI_SOURCE_REPORTER;
	s->epoll = -1;
	s->wake = -1;
	s->spin.spin_ns = host->config->spin_ns;
	s->now_ns = clock_ns();
	s->begin_ns = s->now_ns;
	list_init(&s->free);
	list_init(&s->busy);
	list_init(&s->lingering);
	for (uint32_t i = 0; i < ISCSI_CONFIG_PORTALS_MAX; i++)
		s->portals[i].fd = -1;
	if (open_all(s, why)) {
		*out = s;
		return true;
	}
	iscsi_server_close(s);
	return false;
}

/* ---- Closing -------------------------------------------------------------------------------- */

static void listen_end(struct iscsi_server *s)
{
	if (s->iser)
		iser_portals_deafen(s->iser);
	for (uint32_t i = 0; i < ISCSI_CONFIG_PORTALS_MAX; i++) {
		if (s->portals[i].fd >= 0)
			socket_close(s->portals[i].fd, false);
		s->portals[i].fd = -1;
		s->portals[i].has_more = false;
	}
}

static void device_end(struct iscsi_server *s, uint32_t i)
{
	struct device_refusal why;

	if (s->devices[i] && !device_close_report(s->devices[i], &why))
		iscsi_server_tell(s, "the device of LUN %u is not closed yet: %s",
				  s->host->config->luns[i].lun, why.text);
}

void iscsi_server_close(struct iscsi_server *s)
{
	listen_end(s);
	reporter_close(s->reporter);
	if (s->ends)
		iscsi_ends_close(s);
	if (s->iser)
		iser_portals_close(s->iser);
	if (s->node)
		iscsi_node_destroy(s->node);
	for (uint32_t i = 0; i < ISCSI_CONFIG_TARGETS_MAX; i++) {
		if (s->scsi[i])
			scsi_target_destroy(s->scsi[i]);
	}
	for (uint32_t i = 0; i < ISCSI_CONFIG_LUNS_MAX; i++)
		device_end(s, i);
	if (s->epoll >= 0)
		close(s->epoll);
	if (s->wake >= 0)
		close(s->wake);
	free(s->ends);
	sodium_memzero(s, sizeof(*s));
	free(s);
}

void iscsi_server_portal(const struct iscsi_server *s, uint32_t number, struct weft_address *at)
{
	*at = s->portals[number].at;
}

/* ---- Serving -------------------------------------------------------------------------------- */

static void wake_take(struct iscsi_server *s)
{
	uint64_t count;

	(void)!read(s->wake, &count, sizeof(count));
}

static void event_take(struct iscsi_server *s, const struct epoll_event *e)
{
	switch (*(const enum iscsi_source *)e->data.ptr) {
	case ISCSI_SOURCE_WAKE:
		wake_take(s);
		break;
	case ISCSI_SOURCE_PORTAL:
		((struct iscsi_server_portal *)e->data.ptr)->has_more = true;
		break;
	case ISCSI_SOURCE_END:
		iscsi_end_told(e->data.ptr, e->events);
		break;
	case ISCSI_SOURCE_REPORTER:
		reporter_serve(s->reporter, s->now_ns);
		break;
	default: /* a device: the node looks at all of them */
		break;
	}
}

/* Waits for events until then, and takes them. */
static void events_take(struct iscsi_server *s, uint64_t until_ns)
{
	struct epoll_event events[EVENTS];
	uint64_t wait_ns = until_ns > s->now_ns ? until_ns - s->now_ns : 0;
	int count;

	wait_ns = wait_ns < longest_sleep_ns ? wait_ns : longest_sleep_ns;
	if (s->iser && wait_ns > 0) {
		iser_portals_wait(s->iser, s->epoll, wait_ns);
		wait_ns = 0;
	}
	count = epoll_wait(s->epoll, events, EVENTS, (int)((wait_ns + NS_PER_MS - 1) / NS_PER_MS));
	s->now_ns = clock_ns();
	for (int i = 0; i < count; i++)
		event_take(s, &events[i]);
}

static bool portals_look(struct iscsi_server *s)
{
	bool has_any = false;

	for (uint32_t i = 0; i < s->host->config->portal_count; i++) {
		if (s->portals[i].has_more && s->portals[i].fd >= 0 && s->now_ns >= s->accept_ns)
			has_any |= iscsi_end_accept(s, &s->portals[i]);
	}
	return has_any;
}

static void devices_tell(struct iscsi_server *s)
{
	struct store_event e;

	for (uint32_t i = 0; i < s->host->config->lun_count; i++) {
		while (store_event(device_store(s->devices[i]), &e)) {
			const struct iscsi_config_lun *lun = &s->host->config->luns[i];
			char line[DEVICE_EVENT_TEXT], name[DEVICE_NAME_MAX];

			snprintf(name, sizeof(name), "%u of %s", lun->lun,
				 s->host->config->targets[lun->target].name.text);
			device_event_text(name, &e, line);
			iscsi_server_tell(s, "%s", line);
		}
	}
}

/* Does what there is to be done. True: something happened. */
static bool turn(struct iscsi_server *s)
{
	bool has_any = portals_look(s);

	has_any |= iscsi_ends_receive(s);
	if (s->iser)
		has_any |= iser_portals_serve(s->iser);
	iscsi_node_run(s->node, s->now_ns);
	if (iscsi_node_due(s->node) <= s->now_ns)
		iscsi_node_expire(s->node, s->now_ns);
	has_any |= iscsi_ends_attend(s);
	devices_tell(s);
	iscsi_access_expire(s);
	return has_any;
}

/* When there is something to do even if nothing comes. */
static uint64_t due(struct iscsi_server *s)
{
	uint64_t at = iscsi_node_due(s->node), next = iscsi_ends_expire(s);

	if (!list_is_empty(&s->busy) || s->has_received)
		return 0;
	at = at < next ? at : next;
	next = s->reporter ? reporter_expire(s->reporter, s->now_ns) : UINT64_MAX;
	at = at < next ? at : next;
	at = least(at, line_limit_due(&s->refusals));
	for (uint32_t i = 0; i < s->host->config->portal_count; i++) {
		if (s->portals[i].has_more && s->accept_ns < at)
			at = s->accept_ns;
	}
	return at;
}

static void yield(struct iscsi_server *s)
{
	uint64_t began_ns = clock_ns();

	sched_yield();
	rio_spin_yielded(&s->spin, began_ns, clock_ns());
}

/* Begins the orderly end. */
static void end_begin(struct iscsi_server *s)
{
	listen_end(s);
	s->is_ending = true;
	iscsi_node_end(s->node, s->now_ns, s->host->config->end_ns);
	iscsi_server_tell(s, "ends: asks initiators to log out");
}

/* ---- The end -------------------------------------------------------------------------------- */

/* Waits for the only request of a device. */
static void device_await(struct iscsi_server *s, const struct device *d)
{
	struct store *store = device_store(d);

	while (!store_next_done(store, s->now_ns)) {
		events_take(s, store_due(store));
		if (store_due(store) <= s->now_ns)
			store_expire(store, s->now_ns);
	}
}

static void devices_flush(struct iscsi_server *s)
{
	for (uint32_t i = 0; i < s->host->config->lun_count; i++) {
		struct store_request r = { .op = STORE_FLUSH };

		if (!(device_store(s->devices[i])->shape.can & STORE_CAN_FLUSH) ||
		    store_submit(device_store(s->devices[i]), &r, s->now_ns) != WEFT_OK)
			continue;
		device_await(s, s->devices[i]);
		if (r.reason != WEFT_OK)
			iscsi_server_tell(
				s, "LUN %u of %s could not be flushed: %s",
				s->host->config->luns[i].lun,
				s->host->config->targets[s->host->config->luns[i].target].name.text,
				weft_reason_text(r.reason));
	}
}

void iscsi_server_run(struct iscsi_server *s)
{
	uint64_t busy_ns = 0, at;

	for (;;) {
		if (turn(s))
			busy_ns = s->now_ns;
		if (atomic_load(&s->is_stopping) && !s->is_ending) {
			end_begin(s);
			continue;
		}
		/* No event tells of it. */
		if (s->is_ending && iscsi_node_is_idle(s->node))
			break;
		at = due(s);
		if (rio_spin_may(&s->spin, busy_ns, s->now_ns)) {
			if (busy_ns != s->now_ns)
				yield(s);
			at = 0;
		}
		events_take(s, at);
	}
	devices_flush(s);
}

void iscsi_server_stop(struct iscsi_server *s)
{
	const uint64_t one = 1;

	atomic_store(&s->is_stopping, true);
	(void)!write(s->wake, &one, sizeof(one));
}
