/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/check.h"
#include "rio/requester_parts.h"

enum weft_reason rio_requester_inquire(struct rio_requester *q, uint32_t first)
{
	struct inquiry *i = &q->inquiry;

	if (!q->has_owner)
		return WEFT_R_RIO_OWNER_LEFT;
	if (i->state != INQUIRY_NONE)
		return WEFT_R_BUSY;
	i->state = INQUIRY_DUE;
	/* Numbered like requests, so ids are unique across both. */
	i->id = ++q->serial * q->config.requests_max;
	i->first = first;
	return WEFT_OK;
}

bool rio_requester_reported(struct rio_requester *q, struct rio_reported *reported)
{
	if (q->inquiry.state != INQUIRY_ENDED)
		return false;
	*reported = q->inquiry.answer;
	q->inquiry.state = INQUIRY_NONE;
	return true;
}

static void end(struct inquiry *i, uint32_t reason)
{
	i->answer = (struct rio_reported){ .reason = reason };
	i->state = INQUIRY_ENDED;
}

/* A success status is not a valid answer: an inquiry is answered by a report. */
bool inquiry_take_status(struct rio_requester *q, const struct rio_msg *m)
{
	struct inquiry *i = &q->inquiry;

	if (i->state != INQUIRY_ASKED || i->id != m->id || m->status.reason == WEFT_OK)
		return false;
	end(i, m->status.reason);
	return true;
}

enum weft_reason inquiry_take_report(struct rio_requester *q, const struct rio_msg *m)
{
	struct inquiry *i = &q->inquiry;
	const struct rio_bytes *from = &m->report.entries;

	if (i->state != INQUIRY_ASKED || i->id != m->id)
		return WEFT_R_RIO_UNEXPECTED;
	CHECK(from->length <= sizeof(i->entries));
	end(i, WEFT_OK);
	i->answer.report = m->report;
	memcpy(i->entries, from->bytes, from->length);
	i->answer.report.entries.bytes = i->entries;
	return WEFT_OK;
}

void inquiry_forget(struct rio_requester *q)
{
	if (q->inquiry.state == INQUIRY_DUE || q->inquiry.state == INQUIRY_ASKED)
		end(&q->inquiry, WEFT_R_RIO_OWNER_LEFT);
}

bool inquiry_act(struct rio_requester *q, struct rio_requester_act *act)
{
	struct inquiry *i = &q->inquiry;

	if (i->state != INQUIRY_DUE)
		return false;
	i->state = INQUIRY_ASKED;
	requester_say(
		q, &(struct rio_msg){ .type = RIO_INQUIRE, .id = i->id, .inquire_first = i->first },
		act);
	return true;
}
