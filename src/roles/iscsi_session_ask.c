/* SPDX-License-Identifier: BSD-2-Clause */
/* Public calls for requests. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/deadline.h"
#include "base/reserved.h"
#include "driver/sys/clock.h"
#include "roles/iscsi_session_inside.h"

/* ---- What can be asked ---------------------------------------------------------------------- */

static bool has_memory(const struct weft_iscsi_request *r)
{
	return r->operation == WEFT_ISCSI_READ || r->operation == WEFT_ISCSI_WRITE ||
	       r->operation == WEFT_ISCSI_COMMAND;
}

static enum weft_reason check_memory(const struct weft_iscsi_request *r)
{
	uint32_t most = r->operation == WEFT_ISCSI_COMMAND ? SESSION_PART_SGES : SESSION_SGES_MAX;
	uint64_t length = 0;

	if (r->sge_count > most)
		return WEFT_R_LIMIT;
	if (r->sge_count > 0 && !r->sges)
		return WEFT_R_NULL_ARGUMENT;
	for (uint32_t i = 0; i < r->sge_count; i++)
		length += r->sges[i].length;
	return length == (has_memory(r) ? r->length : 0) ? WEFT_OK : WEFT_R_BAD_ARGUMENT;
}

/* Elements with a tag lie in the memory that was added with it. */
static enum weft_reason check_tags(const struct weft_iscsi_session *s,
				   const struct weft_iscsi_request *r)
{
	enum weft_reason reason = WEFT_OK;

	for (uint32_t i = 0; i < r->sge_count && reason == WEFT_OK; i++) {
		if (r->sges[i].tag != 0)
			reason = weft_region_prefetch(s->pd, &r->sges[i], 0);
	}
	return reason;
}

static enum weft_reason check_blocks(const struct weft_iscsi_session *s,
				     const struct weft_iscsi_request *r)
{
	const struct weft_iscsi_info *u = &s->unit;

	if (u->block_bytes == 0)
		return WEFT_R_ISCSI_UNSUPPORTED; /* a unit without blocks takes commands alone */
	if (r->operation == WEFT_ISCSI_UNMAP && !u->can_unmap)
		return WEFT_R_ISCSI_UNSUPPORTED;
	if (r->length == 0 || r->offset % u->block_bytes || r->length % u->block_bytes ||
	    r->offset > u->size_bytes || r->length > u->size_bytes - r->offset)
		return WEFT_R_ISCSI_BLOCKS;
	return WEFT_OK;
}

static enum weft_reason check(const struct weft_iscsi_session *s,
			      const struct weft_iscsi_request *r)
{
	enum weft_reason reason;

	if (!RESERVED_IS_ZERO(r))
		return WEFT_R_RESERVED;
	if (s->has_ended)
		return WEFT_R_ISCSI_ENDED;
	switch (r->operation) {
	case WEFT_ISCSI_READ:
	case WEFT_ISCSI_WRITE:
	case WEFT_ISCSI_WRITE_ZEROES:
	case WEFT_ISCSI_UNMAP:
		reason = check_blocks(s, r);
		break;
	case WEFT_ISCSI_FLUSH:
		reason = r->offset == 0 && r->length == 0 ? WEFT_OK : WEFT_R_BAD_ARGUMENT;
		break;
	case WEFT_ISCSI_COMMAND:
		reason = r->length > s->port->bytes_max		    ? WEFT_R_LIMIT
			 : r->has_lun && r->lun > ISCSI_URL_LUN_MAX ? WEFT_R_BAD_ARGUMENT
								    : WEFT_OK;
		break;
	default:
		return WEFT_R_BAD_ARGUMENT;
	}
	if (reason == WEFT_OK)
		reason = check_memory(r);
	return reason == WEFT_OK ? check_tags(s, r) : reason;
}

/* ---- Asking --------------------------------------------------------------------------------- */

static void begin(struct weft_iscsi_session *s, const struct weft_iscsi_request *r,
		  struct session_waiter *waiter)
{
	struct session_job *j = CONTAINER_OF(list_pop(&s->free_jobs), struct session_job, link);

	s->jobs_out++;
	j->ask = *r;
	j->ask.sges = j->sges;
	if (r->sge_count > 0)
		memcpy(j->sges, r->sges, r->sge_count * sizeof(j->sges[0]));
	j->sge_at = j->sge_offset = 0;
	j->at = 0;
	j->out = 0;
	j->has_begun = j->is_syncing = j->has_synced = false;
	j->waiter = waiter;
	j->ended = (struct weft_iscsi_result){ 0 };
	j->deadline_ns = deadline_after(s->now_ns, r->timeout_ns ? r->timeout_ns : s->timeout_ns);
	session_job_begin(s, j);
	/* No turn: a poll would send this command alone (progress_may_wait()), and find nothing. */
	if (s->link == LINK_UP)
		(void)s->port->work(s);
	/* A thread that sleeps may have to wake earlier now. */
	if (s->has_sleeper && iscsi_initiator_due(s->core) < s->asleep_until_ns)
		session_tell(s);
}

enum weft_reason weft_iscsi_request_submit(struct weft_iscsi_session *s,
					   const struct weft_iscsi_request *request)
{
	enum weft_reason r;

	if (!s || !request)
		return WEFT_R_NULL_ARGUMENT;
	r = session_enter(s);
	if (r != WEFT_OK)
		return r;
	s->now_ns = clock_ns();
	r = check(s, request);
	if (r == WEFT_OK && list_is_empty(&s->free_jobs))
		r = WEFT_R_BUSY;
	if (r == WEFT_OK)
		begin(s, request, NULL);
	session_leave(s);
	return r;
}

static uint32_t take(struct weft_iscsi_session *s, struct weft_iscsi_result *ended, uint32_t max)
{
	uint32_t count = 0;

	while (count < max && !list_is_empty(&s->ended_jobs)) {
		struct session_job *j = CONTAINER_OF(list_pop(&s->ended_jobs), struct session_job,
						     link);

		ended[count++] = j->ended;
		list_push(&s->free_jobs, &j->link);
		s->jobs_out--;
	}
	/* Threads may wait for room. */
	if (count > 0 && s->waiters > 0)
		pthread_cond_broadcast(&s->news);
	return count;
}

enum weft_reason weft_iscsi_request_wait(struct weft_iscsi_session *s, uint64_t timeout_ns,
					 struct weft_iscsi_result *ended, uint32_t max,
					 uint32_t *count)
{
	enum weft_reason r;
	uint64_t end_ns;

	if (!s || !count || (!ended && max > 0))
		return WEFT_R_NULL_ARGUMENT;
	r = session_enter(s);
	if (r != WEFT_OK)
		return r;
	end_ns = deadline_after(clock_ns(), timeout_ns);
	session_turn(s);
	*count = take(s, ended, max);
	while (*count == 0 && max > 0 && !s->has_ended && clock_ns() < end_ns) {
		session_sleep(s, end_ns);
		session_turn(s);
		*count = take(s, ended, max);
	}
	if (*count == 0 && s->has_ended && s->jobs_out == 0)
		r = WEFT_R_ISCSI_ENDED;
	session_leave(s);
	return r;
}

enum weft_reason session_do(struct weft_iscsi_session *s, const struct weft_iscsi_request *ask,
			    struct weft_iscsi_result *ended)
{
	struct session_waiter waiter = { .has_ended = false };
	enum weft_reason r = check(s, ask);

	/* Room comes when others end, and the results that the program has asked for are taken. */
	while (r == WEFT_OK && list_is_empty(&s->free_jobs)) {
		session_sleep(s, UINT64_MAX);
		session_turn(s);
		r = check(s, ask);
	}
	if (r != WEFT_OK)
		return r;
	begin(s, ask, &waiter);
	while (!waiter.has_ended) {
		session_sleep(s, UINT64_MAX);
		session_turn(s);
	}
	if (ended)
		*ended = waiter.ended;
	return waiter.ended.reason;
}

enum weft_reason weft_iscsi_request_do(struct weft_iscsi_session *s,
				       const struct weft_iscsi_request *request,
				       struct weft_iscsi_result *ended)
{
	enum weft_reason r;

	if (!s || !request)
		return WEFT_R_NULL_ARGUMENT;
	r = session_enter(s);
	if (r != WEFT_OK)
		return r;
	s->now_ns = clock_ns();
	r = session_do(s, request, ended);
	session_leave(s);
	return r;
}

/* ---- Results in words ----------------------------------------------------------------------- */

static void sense_text(const struct weft_iscsi_result *e, char text[WEFT_ISCSI_TEXT_MAX])
{
	const char *key = scsi_sense_key_text(e->sense_key);
	const char *what = scsi_sense_text(e->additional_code, e->additional_qualifier);

	snprintf(text, WEFT_ISCSI_TEXT_MAX,
		 "the unit refused it: CHECK CONDITION, %s, %02xh/%02xh%s%s",
		 key ? key : "reserved sense key", e->additional_code, e->additional_qualifier,
		 what ? ": " : "", what ? what : "");
}

void weft_iscsi_result_text(const struct weft_iscsi_result *e, char text[WEFT_ISCSI_TEXT_MAX])
{
	const char *status;

	if (!e || !text)
		return;
	if (e->reason != WEFT_R_ISCSI_STATUS) {
		snprintf(text, WEFT_ISCSI_TEXT_MAX, "%s", weft_reason_text(e->reason));
		return;
	}
	if (e->status == 0x02 && e->sense_bytes > 0) {
		sense_text(e, text);
		return;
	}
	status = scsi_status_text(e->status);
	snprintf(text, WEFT_ISCSI_TEXT_MAX, "the unit refused it with status %02xh%s%s", e->status,
		 status ? ", " : "", status ? status : "");
}
