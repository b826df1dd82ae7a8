/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/near/near.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "base/check.h"
#include "driver/near/near_host.h"
#include "driver/sys/calls.h"
#include "driver/sys/system_reason.h"
#include "driver/sys/unix_sockets.h"

enum { ACCEPTS_MAX = 16 }; /* at a time */

static struct near_host *host_of(const struct near *n)
{
	return near_owner(n);
}

/* ---- The listener --------------------------------------------------------------------------- */

static void spare_open(struct near_host *h)
{
	h->spare_fd = fcntl(h->listener.fd, F_DUPFD_CLOEXEC, 0);
}

static void spare_close(struct near_host *h)
{
	if (h->spare_fd >= 0)
		call_close(h->spare_fd);
	h->spare_fd = -1;
}

/* An adapter of another user is told to send by UDP, as one for which descriptors lack. */
static void accepted(struct near_host *h, int fd, bool is_refused)
{
	bool is_foreign = !is_refused && !unix_is_trusted(fd);
	struct near_link *link = near_link_open(h, fd);

	if (link && (is_refused || is_foreign))
		near_refuse(h->near, link, is_foreign);
	else if (link)
		near_accept(h->near, link);
}

/*
 * Tells an adapter that connects to send by UDP, as we lack descriptors for its ring. An errno if
 * that fails.
 */
static int refuse_next(struct near_host *h)
{
	int fd, error;

	spare_close(h);
	fd = call_accept(h->listener.fd);
	error = fd < 0 ? errno : 0;
	if (fd >= 0)
		accepted(h, fd, true);
	spare_open(h);
	return error;
}

/* Without descriptors epoll would report the listener again and again, and the thread spin. */
static void pause_listener(struct near_host *h)
{
	h->is_paused = true;
	h->config.watch(h->config.owner, &h->listener, 0);
}

static void listener_ready(struct watch *w, uint32_t events)
{
	struct near_host *h = CONTAINER_OF(w, struct near_host, listener);

	(void)events;
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		int fd = call_accept(w->fd), error = fd < 0 ? errno : 0;

		if (fd >= 0)
			accepted(h, fd, false);
		else if (error == EMFILE || error == ENFILE)
			error = refuse_next(h);
		if (error == EAGAIN || error == EINTR || error == ECONNABORTED)
			return;
		if (error != 0) {
			pause_listener(h);
			return;
		}
	}
}

bool near_is_paused(const struct near *n)
{
	return host_of(n)->is_paused;
}

void near_resume(struct near *n)
{
	struct near_host *h = host_of(n);

	h->is_paused = false;
	if (h->spare_fd < 0)
		spare_open(h);
	h->config.watch(h->config.owner, &h->listener, EPOLLIN);
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

static struct near *create(struct near_host *h, uint64_t adapter_id)
{
	const struct near_options options = {
		.system = &near_linux,
		.owner = h,
		.adapter_id = adapter_id,
		.adapter_slot = h->config.adapter_slot,
		.mem = h->config.mem,
		.takes_runs = h->config.takes_runs,
	};

	return near_create(&options);
}

enum weft_reason near_open(const struct near_config *config, struct near **near)
{
	struct unix_names names = near_names_of(config->adapter_slot);
	struct near_host *h = calloc(1, sizeof(*h));
	uint64_t id = id_by_chance();
	bool are_all_foreign;
	int fd;

	if (!h)
		return WEFT_R_NO_MEMORY;
	h->config = *config;
	fd = id != 0 ? unix_names_take(&names, true, &are_all_foreign) : -errno;
	h->near = fd >= 0 ? create(h, id) : NULL;
	if (!h->near) {
		if (fd >= 0)
			call_close(fd);
		free(h);
		return fd < 0 ? system_reason(-fd) : WEFT_R_NO_MEMORY;
	}
	h->listener = (struct watch){ .ready = listener_ready, .fd = fd };
	spare_open(h);
	h->config.watch(h->config.owner, &h->listener, EPOLLIN);
	*near = h->near;
	return WEFT_OK;
}

void near_close(struct near *n)
{
	struct near_host *h = host_of(n);

	near_destroy(n);
	if (h->listener.fd >= 0) {
		h->config.watch(h->config.owner, &h->listener, 0);
		call_close(h->listener.fd);
	}
	spare_close(h);
	free(h);
}

void near_abandon(struct near *n)
{
	struct near_host *h = host_of(n);

	h->is_abandoned = true;
	watch_abandon(&h->listener);
	near_forsake(n);
	spare_close(h);
}
