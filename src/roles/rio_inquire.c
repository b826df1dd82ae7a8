/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/check.h"
#include "driver/sys/clock.h"
#include "roles/rio_requester_inside.h"

/* ---- How the cluster stands ----------------------------------------------------------------- */

static void seen_copy(const struct rio_seen *from, struct weft_rio_member *to)
{
	*to = (struct weft_rio_member){
		.kind = (enum weft_rio_kind)from->kind,
		.is_here = from->is_here,
		.platform = { from->platform.unit, from->platform.process },
		.now = from->now,
		.requests = from->done.requests,
		.refused = from->done.refused,
		.failed = from->done.failed,
		.read_bytes = from->done.read_bytes,
		.written_bytes = from->done.written_bytes,
		.moved = { .payload_in = from->moved.payload_in,
			   .payload_out = from->moved.payload_out,
			   .control_in = from->moved.control_in,
			   .control_out = from->moved.control_out,
			   .connections = from->moved.connections },
	};
	if (from->kind == RIO_SEEN_DEVICE) {
		requester_device_copy(&from->device, from->platform, &to->device);
		memcpy(to->name, to->device.name, sizeof(to->name));
	} else if (from->name.length > 0) {
		memcpy(to->name, from->name.bytes, from->name.length);
	}
}

/* Gets one report. Called with the lock held, which is released meanwhile. */
static enum weft_reason inquire_part(struct weft_rio_requester *q, struct follower *self,
				     uint32_t first, uint64_t end_ns, struct rio_reported *reported)
{
	enum weft_reason r;

	while ((r = rio_requester_inquire(q->core, first)) != WEFT_OK) {
		if (clock_ns() >= end_ns)
			return rio_requester_has_owner(q->core) ? WEFT_R_RIO_TIMEOUT
			       : q->loop.dials[0].reason	? q->loop.dials[0].reason
								: WEFT_R_RIO_OWNER_LEFT;
		/* Discard an answer whose thread stopped waiting. */
		if (r != WEFT_R_BUSY || !rio_requester_reported(q->core, reported))
			requester_wait(q, self, end_ns);
	}
	requester_work(q);
	while (!rio_requester_reported(q->core, reported)) {
		if (clock_ns() >= end_ns)
			return WEFT_R_RIO_TIMEOUT;
		requester_wait(q, self, end_ns);
	}
	return (enum weft_reason)reported->reason;
}

/* The destination and its size. */
struct seen_room {
	struct weft_rio_member *seen;
	uint32_t max;
};

static enum weft_reason inquire(struct weft_rio_requester *q, struct follower *self,
				uint64_t end_ns, const struct seen_room *room, uint32_t *count)
{
	uint32_t taken = 0;

	do {
		struct rio_reported part;
		enum weft_reason r = inquire_part(q, self, taken, end_ns, &part);
		struct rd at;

		if (r != WEFT_OK)
			return r;
		*count = part.report.total;
		at = rd_of(part.report.entries.bytes, part.report.entries.length);
		for (uint32_t i = 0; i < part.report.count && taken < room->max; i++) {
			struct rio_seen each;

			CHECK(rio_seen_next(&each, &at) == RIO_MSG_OK); /* decoded before */
			seen_copy(&each, &room->seen[taken++]);
		}
		if (part.report.count == 0)
			break;
	} while (taken < *count && taken < room->max);
	*count = taken < room->max ? taken : *count; /* the first report may have announced more */
	return WEFT_OK;
}

enum weft_reason weft_rio_requester_inquire(struct weft_rio_requester *q, uint64_t timeout,
					    struct weft_rio_member *seen, uint32_t max,
					    uint32_t *count)
{
	struct follower self = { .wake = PTHREAD_COND_INITIALIZER, .wants = WANTS_ALL };
	enum weft_reason r = WEFT_OK;
	uint64_t end_ns;

	if (!q || !count || (max > 0 && !seen))
		return WEFT_R_NULL_ARGUMENT;
	*count = 0;
	pthread_mutex_lock(&q->lock);
	end_ns = deadline_after(clock_ns(), timeout);
	while (q->is_inquiring && clock_ns() < end_ns)
		requester_wait(q, &self, end_ns);
	if (q->is_inquiring) {
		r = WEFT_R_RIO_TIMEOUT;
	} else {
		q->is_inquiring = true;
		r = inquire(q, &self, end_ns, &(struct seen_room){ seen, max }, count);
		q->is_inquiring = false;
		requester_tell(q, WANTS_ALL);
	}
	if (r != WEFT_OK)
		*count = 0; /* discard a partial report */
	requester_hand_on(q);
	pthread_mutex_unlock(&q->lock);
	return r;
}
