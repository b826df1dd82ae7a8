/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "driver/sys/clock.h"
#include "roles/rio_requester_inside.h"

/* ---- Devices and memory --------------------------------------------------------------------- */

void requester_device_copy(const struct rio_device *from, struct platform iounit,
			   struct weft_rio_device *d)
{
	*d = (struct weft_rio_device){
		.number = from->number,
		.block_bytes = from->block_bytes,
		.size_bytes = from->size_bytes,
		.is_readonly = from->flags & RIO_DEVICE_READ_ONLY,
		.can_flush = from->flags & RIO_DEVICE_FLUSH,
		.can_fua = from->flags & RIO_DEVICE_FUA,
		.can_discard = from->flags & RIO_DEVICE_DISCARD,
		.can_write_zeroes = from->flags & RIO_DEVICE_ZEROES,
		.iounit = { iounit.unit, iounit.process },
		.instance = from->instance,
	};
	memcpy(d->name, from->name.bytes, from->name.length);
}

static void offer_copy(struct weft_rio_requester *q, uint32_t nth, struct weft_rio_device *device)
{
	struct rio_offer offer = rio_requester_offer(q->core, nth);

	requester_device_copy(&offer.device, offer.iounit, device);
	device->loss = rio_requester_loss(q->core, device->number);
}

enum weft_reason weft_rio_device_get(struct weft_rio_requester *q, uint32_t nth,
				     struct weft_rio_device *device)
{
	enum weft_reason r = WEFT_R_RIO_DEVICE;

	if (!q || !device)
		return WEFT_R_NULL_ARGUMENT;
	pthread_mutex_lock(&q->lock);
	if (nth < rio_requester_offers(q->core)) {
		offer_copy(q, nth, device);
		r = WEFT_OK;
	}
	pthread_mutex_unlock(&q->lock);
	return r;
}

static bool find(struct weft_rio_requester *q, const char *name, struct weft_rio_device *device)
{
	for (uint32_t i = 0; i < rio_requester_offers(q->core); i++) {
		struct rio_offer offer = rio_requester_offer(q->core, i);

		if (name[0] && (offer.device.name.length != strlen(name) ||
				memcmp(offer.device.name.bytes, name, strlen(name)) != 0))
			continue;
		offer_copy(q, i, device);
		return true;
	}
	return false;
}

enum weft_reason weft_rio_device_find(struct weft_rio_requester *q, const char *name,
				      uint64_t timeout, struct weft_rio_device *device)
{
	struct follower self = { .wake = PTHREAD_COND_INITIALIZER, .wants = WANTS_ALL };
	enum weft_reason r = WEFT_OK;
	uint64_t end_ns;

	if (!q || !name || !device)
		return WEFT_R_NULL_ARGUMENT;
	pthread_mutex_lock(&q->lock);
	end_ns = deadline_after(clock_ns(), timeout);
	while (!find(q, name, device)) {
		if (clock_ns() >= end_ns) {
			r = rio_requester_has_owner(q->core) ? WEFT_R_RIO_DEVICE
							     : q->loop.dials[0].reason;
			r = r == WEFT_OK ? WEFT_R_RIO_OWNER_LEFT : r;
			break;
		}
		requester_wait(q, &self, end_ns);
	}
	requester_hand_on(q);
	pthread_mutex_unlock(&q->lock);
	return r;
}

/* Makes room for one more entry. Called with the lock held. */
static bool held_grow(struct weft_rio_requester *q)
{
	uint32_t room = 2 * q->held_room + 8;
	struct held *more;

	if (q->held_count < q->held_room)
		return true;
	more = realloc(q->held, room * sizeof(*more));
	if (!more)
		return false;
	q->held = more;
	q->held_room = room;
	return true;
}

/* Removes an entry. Windows of requests are not in the table: the program cannot remove them. */
static enum weft_reason held_end(struct weft_rio_requester *q, struct held which)
{
	enum weft_reason r = WEFT_R_BAD_ARGUMENT;
	uint32_t i = 0;

	pthread_mutex_lock(&q->lock);
	while (i < q->held_count &&
	       (q->held[i].tag != which.tag || q->held[i].is_window != which.is_window))
		i++;
	if (i < q->held_count)
		r = which.is_window ? weft_window_discard(q->loop.data_pd, which.tag)
				    : weft_region_deregister(q->loop.data_pd, which.tag);
	if (r == WEFT_OK)
		q->held[i] = q->held[--q->held_count];
	pthread_mutex_unlock(&q->lock);
	return r;
}

enum weft_reason weft_rio_memory_add(struct weft_rio_requester *q, void *memory, uint64_t length,
				     uint32_t *tag)
{
	const struct weft_region_options options = {
		.addr = (uintptr_t)memory,
		.length = length,
		.rights = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_BIND,
	};
	enum weft_reason r = WEFT_R_NO_MEMORY;

	if (!q || !tag)
		return WEFT_R_NULL_ARGUMENT;
	pthread_mutex_lock(&q->lock);
	if (held_grow(q))
		r = weft_region_register(q->loop.data_pd, &options, tag);
	if (r == WEFT_OK)
		q->held[q->held_count++] = (struct held){ *tag, false };
	pthread_mutex_unlock(&q->lock);
	return r;
}

enum weft_reason weft_rio_memory_remove(struct weft_rio_requester *q, uint32_t tag)
{
	return q ? held_end(q, (struct held){ tag, false }) : WEFT_R_NULL_ARGUMENT;
}

static enum weft_reason bind_new(struct weft_rio_requester *q, struct weft_bind *bind)
{
	enum weft_reason r = weft_window_alloc(q->loop.data_pd, &bind->window_tag);

	if (r != WEFT_OK)
		return r;
	r = weft_window_bind(q->loop.data_pd, bind);
	if (r != WEFT_OK)
		weft_window_discard(q->loop.data_pd, bind->window_tag);
	return r;
}

enum weft_reason weft_rio_memory_expose(struct weft_rio_requester *q,
					const struct weft_rio_sge *part, bool is_written,
					uint32_t *handle)
{
	struct weft_bind bind = { .rights = is_written ? WEFT_REMOTE_WRITE : WEFT_REMOTE_READ };
	enum weft_reason r = WEFT_R_NO_MEMORY;

	if (!q || !part || !handle)
		return WEFT_R_NULL_ARGUMENT;
	if (part->length == 0 || part->platform.unit != 0)
		return WEFT_R_BAD_ARGUMENT;
	bind.region_tag = part->tag;
	bind.addr = (uintptr_t)part->memory;
	bind.length = part->length;
	pthread_mutex_lock(&q->lock);
	if (held_grow(q))
		r = bind_new(q, &bind);
	if (r == WEFT_OK) {
		*handle = bind.tag;
		q->held[q->held_count++] = (struct held){ bind.tag, true };
	}
	pthread_mutex_unlock(&q->lock);
	return r;
}

enum weft_reason weft_rio_memory_conceal(struct weft_rio_requester *q, uint32_t handle)
{
	return q ? held_end(q, (struct held){ handle, true }) : WEFT_R_NULL_ARGUMENT;
}

/* Windows first: a region with a bound window cannot be deregistered. */
void requester_memory_forget(struct weft_rio_requester *q)
{
	for (uint32_t i = 0; i < q->held_count; i++) {
		if (q->held[i].is_window)
			weft_window_discard(q->loop.data_pd, q->held[i].tag);
	}
	for (uint32_t i = 0; i < q->held_count; i++) {
		if (!q->held[i].is_window)
			weft_region_deregister(q->loop.data_pd, q->held[i].tag);
	}
	free(q->held);
}
