/* SPDX-License-Identifier: BSD-2-Clause */
/* What a cm_id of RoCE brings, in the thread of the program that takes events. */
#include <errno.h>

#include "compat/rdmacm/rdmacm.h"

/* An id that has failed, was rejected or is not answered yet ignores that the peer gave up. */
static bool is_of_interest(const struct id *id, const struct weft_event *event)
{
	return event->reason == WEFT_OK ||
	       (id->state != ID_FAILED && id->state != ID_REJECTED && id->state != ID_REQUESTED);
}

/* The engine is locked, so weft must not be called: a note makes the program's thread look. */
void roce_news_sink(struct weftv_sink *sink, const struct weft_event *event)
{
	struct id *id = CONTAINER_OF(sink, struct id, talk.sink);

	cm_lock();
	if (event->kind == WEFT_EVENT_CM && is_of_interest(id, event)) {
		id->looks++;
		note_post(id, NOTE_NEWS, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	}
	cm_unlock();
}

/* ---- Kinds ---------------------------------------------------------------------------------- */

static void fail(struct id *id, enum rdma_cm_event_type event, int status)
{
	cm_lock();
	id_failed(id, event, status);
	cm_unlock();
}

static void connected(struct id *id, enum id_state state, enum rdma_cm_event_type event)
{
	cm_lock();
	id_connected(id, state, event);
	cm_unlock();
}

/* The other end has accepted: this one gets ready, and says so. */
static int get_ready(struct id *id)
{
	struct depths depths = roce_depths(id);
	struct ibv_qp *qp = id_qp(id);
	int r = qp ? roce_qp_connect(id, &depths) : -EINVAL;

	if (r != 0)
		return r;
	(void)weft_cm_id_bind(id->talk.cm_id, weftv_qp(qp));
	return cm_error(weft_cm_id_ready(id->talk.cm_id));
}

static void reply(struct id *id, const struct weft_cm_id_news *news)
{
	int r;

	if (id_state(id) != ID_CONNECTING) {
		(void)weft_cm_id_reject(id->talk.cm_id, 0, NULL, 0);
		return;
	}
	id->talk.heard = *news;
	if (id_is_datagram(id)) {
		connected(id, ID_ESTABLISHED, RDMA_CM_EVENT_ESTABLISHED);
		return;
	}
	if (id->wire && id->wire->is_external) {
		connected(id, ID_RESPONDED, RDMA_CM_EVENT_CONNECT_RESPONSE);
		return;
	}
	r = get_ready(id);
	if (r == 0) {
		connected(id, ID_ESTABLISHED, RDMA_CM_EVENT_ESTABLISHED);
		return;
	}
	(void)weft_cm_id_reject(id->talk.cm_id, 0, NULL, 0);
	fail(id, RDMA_CM_EVENT_CONNECT_ERROR, r);
}

/* As in Linux, the status of a rejection is the code that came with it. */
static void end(struct id *id, const struct weft_cm_id_news *news)
{
	if (id_state(id) == ID_REQUESTED)
		return; /* rdma_accept() will fail */
	if (news->kind == WEFT_CM_REJECTED) {
		id->talk.heard = *news;
		fail(id, id_is_datagram(id) ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_REJECTED,
		     news->code);
		return;
	}
	fail(id,
	     news->reason == WEFT_R_CONNECT_TIMEOUT ? RDMA_CM_EVENT_UNREACHABLE
						    : RDMA_CM_EVENT_CONNECT_ERROR,
	     cm_error(news->reason));
}

static void released(struct id *id)
{
	cm_lock();
	if (id->state == ID_DISCONNECTED)
		note_post(id, NOTE_TIMEWAIT, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	cm_unlock();
}

static void take(struct id *id, const struct weft_cm_id_news *news)
{
	switch (news->kind) {
	case WEFT_CM_REPLY:
		reply(id, news);
		break;
	case WEFT_CM_ESTABLISHED:
		connected(id, ID_ESTABLISHED, RDMA_CM_EVENT_ESTABLISHED);
		break;
	case WEFT_CM_REJECTED:
	case WEFT_CM_FAILED:
		end(id, news);
		break;
	case WEFT_CM_DISCONNECTED:
		id_end(id);
		break;
	case WEFT_CM_RELEASED:
		released(id);
		break;
	default:
		break;
	}
}

/* ---- All of it ------------------------------------------------------------------------------ */

static bool next(struct id *id, struct weft_cm_id_news *news)
{
	return id->talk.cm_id && weft_cm_id_next(id->talk.cm_id, news) == WEFT_OK &&
	       news->kind != WEFT_CM_NONE;
}

/* As of requests: a note to look that is of news just taken is withdrawn. */
void roce_news_take(struct id *id)
{
	struct weft_cm_id_news news;
	bool is_done = false;

	id_lock(id);
	while (!is_done) {
		uint32_t looks;
		bool is_heard;

		cm_lock();
		looks = id->looks;
		is_heard = id->talk.is_heard;
		id->talk.is_heard = false;
		cm_unlock();
		if (is_heard && id->talk.cm_id)
			(void)weft_cm_id_established(id->talk.cm_id);
		while (next(id, &news))
			take(id, &news);
		cm_lock();
		if (id->talk.qp_error != WEFT_OK)
			id_failed(id, RDMA_CM_EVENT_CONNECT_ERROR, cm_error(id->talk.qp_error));
		is_done = looks == id->looks;
		if (is_done)
			note_withdraw(&id->notes[NOTE_NEWS]);
		cm_unlock();
	}
	id_unlock(id);
}
