/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/nbdkit/directed.h"

#include <stdlib.h>

#include "driver/sys/clock.h"
#include "roles/rio_device.h"
#include "roles/rio_loop.h"

struct directed {
	struct directed_config config;
	struct weft_rio_requester *requester;
};

/* ---- Life ----------------------------------------------------------------------------------- */

static enum weft_reason find(struct directed *d, uint64_t wait_ns, struct weft_rio_device *device)
{
	return weft_rio_device_find(d->requester, d->config.name, wait_ns, device);
}

enum weft_reason directed_open(const struct directed_config *config, struct directed **directed)
{
	const struct weft_rio_requester_options options = { .requests_max = config->requests_max,
							    .timeout_ns = config->timeout_ns };
	struct directed *d = calloc(1, sizeof(*d));
	struct weft_rio_device device;
	enum weft_reason r;

	if (!d)
		return WEFT_R_NO_MEMORY;
	d->config = *config;
	r = weft_rio_requester_open(config->self, &options, &d->requester);
	if (r == WEFT_OK)
		r = find(d, config->wait_ns, &device);
	if (r == WEFT_OK)
		*directed = d;
	else
		directed_close(d);
	return r;
}

void directed_close(struct directed *d)
{
	if (d->requester)
		weft_rio_requester_close(d->requester);
	free(d);
}

enum weft_reason directed_user_init(struct directed *d, struct directed_user *user)
{
	enum weft_reason r = find(d, d->config.wait_ns, &user->device);

	atomic_init(&user->loss, r == WEFT_OK ? user->device.loss : 0);
	return r;
}

/* ---- Requests ------------------------------------------------------------------------------- */

/*
 * Once. A discard is not made durable by itself, nor is anything on a device without FUA: a flush
 * follows. The user has not asked for that flush: see is_harmless().
 */
static enum weft_reason ask(struct directed *d, const struct directed_request *q, uint32_t tag,
			    const struct weft_rio_device *device, struct weft_rio_result *ended)
{
	const struct weft_rio_sge segment = { .memory = q->memory,
					      .length = (uint32_t)q->length,
					      .tag = tag };
	const bool can_fua = device->can_fua && q->operation != WEFT_RIO_DISCARD;
	const struct weft_rio_transaction transactions[2] = {
		{ .operation = q->operation,
		  .is_fua = q->is_fua && can_fua,
		  .device = device->number,
		  .offset = q->offset,
		  .length = q->length,
		  .sges = q->memory ? &segment : NULL,
		  .sge_count = q->memory ? 1 : 0 },
		{ .operation = WEFT_RIO_FLUSH, .device = device->number },
	};
	const struct weft_rio_request request = { .transactions = transactions,
						  .transaction_count = q->is_fua && !can_fua ? 2
											     : 1 };

	ended->text[0] = '\0';
	return weft_rio_request_do(d->requester, &request, ended);
}

/*
 * May it be asked once more? See directed.h. Of a loss only the flush behind FUA tells, if the user
 * asked for no flush. FUA says nothing of other writes (docs/rio.md, rule 6), the requester tells
 * of a loss once, and the user's own flush still hears of it by its number.
 */
static bool is_harmless(const struct directed_request *q, enum weft_reason reason)
{
	switch (reason) {
	case WEFT_R_RIO_IOUNIT_LEFT:
		return q->operation == WEFT_RIO_READ;
	case WEFT_R_RIO_WRITES_LOST:
		return q->operation != WEFT_RIO_FLUSH;
	case WEFT_R_RIO_OWNER_LEFT:
	case WEFT_R_PEER_GONE:
	case WEFT_R_RIO_DEVICE: /* nothing was begun */
		return true;
	default:
		return false;
	}
}

/*
 * The owner's number of the device is looked up each time: another owner may have others. That
 * takes a lock and a look at a short table.
 */
static enum weft_reason ask_until(struct directed *d, const struct weft_rio_device *was,
				  const struct directed_request *q, uint32_t tag,
				  struct weft_rio_result *ended)
{
	uint64_t end_ns = 0, left_ns = d->config.wait_ns;
	struct weft_rio_device now;
	enum weft_reason r;

	for (;;) {
		r = find(d, left_ns, &now);
		if (r != WEFT_OK || !rio_device_is_same(&now, was))
			return r != WEFT_OK ? r : WEFT_R_RIO_DEVICE;
		r = ask(d, q, tag, &now, ended);
		if (r == WEFT_OK || !is_harmless(q, r))
			return r;
		if (r == WEFT_R_RIO_WRITES_LOST)
			continue; /* At once. Bound: losses, each of which is told once. */
		if (end_ns == 0)
			end_ns = clock_ns() + d->config.wait_ns;
		if (clock_ns() >= end_ns)
			return r;
		left_ns = end_ns - clock_ns();
	}
}

/*
 * nbdkit's own memory, so that nothing is copied. To register it takes a microsecond; copying to
 * memory that stays registered was 10 to 20 % slower with requests of 1 MiB, and not faster with
 * small ones.
 */
static enum weft_reason with_memory(struct directed *d, const struct weft_rio_device *was,
				    const struct directed_request *q, struct weft_rio_result *ended)
{
	uint32_t tag;
	enum weft_reason r = weft_rio_memory_add(d->requester, q->memory, q->length, &tag);

	if (r != WEFT_OK)
		return r;
	r = ask_until(d, was, q, tag, ended);
	(void)weft_rio_memory_remove(d->requester, tag);
	return r;
}

/* Numbers of losses only grow; another flush may have heard of a later one. */
static void hear(struct directed_user *user, uint64_t loss)
{
	uint64_t heard = atomic_load(&user->loss);

	while (heard < loss && !atomic_compare_exchange_weak(&user->loss, &heard, loss))
		;
}

/*
 * The number of the last loss comes with the outcome of the flush, so it does not matter when
 * another user was told of it. What this user had heard of counts as it was before the flush: of
 * two flushes that it has under way both fail. A flush that fails otherwise has told nothing.
 */
static enum weft_reason flush(struct directed *d, struct directed_user *user,
			      const struct directed_request *q, struct weft_rio_result *ended)
{
	uint64_t heard = atomic_load(&user->loss);
	enum weft_reason r = ask_until(d, &user->device, q, 0, ended);

	if (r == WEFT_OK && ended->loss > heard)
		r = ended->reason = WEFT_R_RIO_WRITES_LOST;
	if (r == WEFT_R_RIO_WRITES_LOST)
		hear(user, ended->loss);
	return r;
}

enum weft_reason directed_do(struct directed *d, struct directed_user *user,
			     const struct directed_request *request, struct weft_rio_result *ended)
{
	if (request->operation == WEFT_RIO_FLUSH)
		return flush(d, user, request, ended);
	return request->memory ? with_memory(d, &user->device, request, ended)
			       : ask_until(d, &user->device, request, 0, ended);
}
