/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/near/near.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "driver/near/near_parts.h"
#include "driver/sys/calls.h"
#include "driver/sys/system_reason.h"
#include "driver/sys/unix_sockets.h"

enum { ACCEPTS_MAX = 16 }; /* at a time */

struct unix_names near_names_of(uint8_t adapter_slot)
{
	struct unix_names names = { .type = SOCK_SEQPACKET };

	(void)snprintf(names.usual, sizeof(names.usual), "weft.roce.near.%u", adapter_slot);
	return names;
}

void near_say(struct near *n, const struct watch *w, enum near_kind kind)
{
	const struct near_message m = { .kind = kind,
					.adapter_slot = n->config.adapter_slot,
					.adapter_id = n->adapter_id,
					.descriptors = { -1, -1 } };

	n->counts.wakes += kind == NEAR_WAKE;
	(void)near_message_send(w->fd, &m);
}

void near_watch_close(struct near *n, struct watch *w)
{
	if (w->fd < 0)
		return;
	if (!n->is_abandoned) {
		n->config.watch(n->config.owner, w, 0);
		call_close(w->fd);
	}
	w->fd = -1;
}

/* ---- The listener --------------------------------------------------------------------------- */

static void spare_open(struct near *n)
{
	n->spare_fd = fcntl(n->listener.fd, F_DUPFD_CLOEXEC, 0);
}

static void spare_close(struct near *n)
{
	if (n->spare_fd >= 0)
		call_close(n->spare_fd);
	n->spare_fd = -1;
}

/*
 * Tells an adapter that connects to send by UDP, as we lack descriptors for its ring. An errno if
 * that fails.
 */
static int refuse_next(struct near *n)
{
	struct watch w;
	int error;

	spare_close(n);
	w.fd = call_accept(n->listener.fd);
	error = w.fd < 0 ? errno : 0;
	if (w.fd >= 0) {
		n->counts.refused++;
		near_say(n, &w, NEAR_REFUSED);
		call_close(w.fd);
	}
	spare_open(n);
	return error;
}

/* Without descriptors epoll would report the listener again and again, and the thread spin. */
static void pause_listener(struct near *n)
{
	n->is_paused = true;
	n->config.watch(n->config.owner, &n->listener, 0);
}

static void listener_ready(struct watch *w, uint32_t events)
{
	struct near *n = CONTAINER_OF(w, struct near, listener);

	(void)events;
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		int fd = call_accept(w->fd), error = fd < 0 ? errno : 0;

		if (fd >= 0)
			near_in_open(n, fd);
		else if (error == EMFILE || error == ENFILE)
			error = refuse_next(n);
		if (error == EAGAIN || error == EINTR || error == ECONNABORTED)
			return;
		if (error != 0) {
			pause_listener(n);
			return;
		}
	}
}

bool near_is_paused(const struct near *n)
{
	return n->is_paused;
}

void near_resume(struct near *n)
{
	n->is_paused = false;
	if (n->spare_fd < 0)
		spare_open(n);
	n->config.watch(n->config.owner, &n->listener, EPOLLIN);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static uint64_t id_by_chance(void)
{
	uint64_t id;

	/* Bound: 0 is rare. */
	do {
		if (getrandom(&id, sizeof(id), 0) != sizeof(id))
			return 0;
	} while (id == 0);
	return id;
}

enum weft_reason near_open(const struct near_config *config, struct near **near)
{
	struct unix_names names = near_names_of(config->adapter_slot);
	struct near *n = calloc(1, sizeof(*n));
	bool are_all_foreign;
	int fd;

	if (!n)
		return WEFT_R_NO_MEMORY;
	n->adapter_id = id_by_chance();
	fd = n->adapter_id != 0 ? unix_names_take(&names, true, &are_all_foreign) : -errno;
	if (fd < 0) {
		free(n);
		return system_reason(-fd);
	}
	n->config = *config;
	n->listener = (struct watch){ .ready = listener_ready, .fd = fd };
	spare_open(n);
	list_init(&n->ins);
	list_init(&n->touched);
	list_init(&n->blocked);
	near_direct_open(n);
	n->config.watch(n->config.owner, &n->listener, EPOLLIN);
	*near = n;
	return WEFT_OK;
}

void near_close(struct near *n)
{
	while (!list_is_empty(&n->ins)) {
		struct near_in *i = CONTAINER_OF(n->ins.next, struct near_in, link);

		if (!n->is_abandoned && i->watch.fd >= 0)
			near_say(n, &i->watch, NEAR_LEFT);
		near_in_close(i);
	}
	for (uint32_t i = 1; i <= NEAR_SLOTS_MAX; i++) {
		if (n->outs[i])
			near_out_close(n->outs[i], NEAR_LEFT);
	}
	near_watch_close(n, &n->listener);
	near_direct_close(n);
	spare_close(n);
	free(n);
}

/* The rings are not mapped in a child: MADV_DONTFORK. */
void near_abandon(struct near *n)
{
	n->is_abandoned = true;
	watch_abandon(&n->listener);
	near_direct_abandon(n);
	spare_close(n);
	for (struct list *at = n->ins.next; at != &n->ins; at = at->next) {
		struct near_in *i = CONTAINER_OF(at, struct near_in, link);

		watch_abandon(&i->watch);
		i->ring.head = NULL;
	}
	for (uint32_t i = 1; i <= NEAR_SLOTS_MAX; i++) {
		if (n->outs[i]) {
			watch_abandon(&n->outs[i]->watch);
			n->outs[i]->ring.head = NULL;
			n->outs[i]->seen = (struct near_seen){ 0 };
		}
	}
}

const struct near_counts *near_counts(const struct near *n)
{
	return &n->counts;
}
