/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compat/rdmacm/rdmacm.h"
#include "wire/ibcm.h"

/* Requests that wait; a program's backlog is of those that it did not take, weft's of all. */
enum { REQUESTS_MIN = 1024, REQUESTS_MAX = 65536 };

/* The engine is locked, so weft must not be called: a note makes the program's thread look. */
static void listener_take(struct weftv_sink *sink, const struct weft_event *event)
{
	struct id *id = CONTAINER_OF(sink, struct id, listener_sink);

	if (event->kind != WEFT_EVENT_REQUEST)
		return;
	cm_lock();
	id->looks++;
	note_post(id, NOTE_LOOK, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	cm_unlock();
}

void request_refuse(struct request request)
{
	if (request.cm_id) {
		(void)weft_cm_id_reject(request.cm_id, IBCM_REJECT_NO_RESOURCES, NULL, 0);
		(void)weft_cm_id_close(request.cm_id);
		return;
	}
	(void)weft_request_reject(request.stream, NULL);
}

/* Posts the request as a note of its own. */
static void arrive(struct id *id, struct request request)
{
	struct note *note = calloc(1, sizeof(*note));
	bool is_reported = false;

	if (note) {
		*note = (struct note){ .id = id, .kind = NOTE_ARRIVAL, .request = request };
		list_init(&note->link);
		cm_lock();
		is_reported = note_add(note);
		cm_unlock();
	}
	if (is_reported)
		return;
	free(note);
	request_refuse(request);
}

/* The next that waits. False: there is none. */
static bool next_request(struct id *id, struct request *request)
{
	*request = (struct request){ 0 };
	if (id->listener)
		(void)weft_listener_next(id->listener, &request->stream);
	if (!request->stream && id->service)
		(void)weft_cm_service_next(id->service, NULL, &request->cm_id);
	return request->stream || request->cm_id;
}

/*
 * Once no request is left, a NOTE_LOOK posted meanwhile is of a request that was just taken, unless
 * `looks` has grown again. It is withdrawn, so that no thread looks for a request that is gone.
 */
void listener_drain(struct id *id)
{
	bool is_done = false;

	pthread_mutex_lock(&id->drain);
	while (!is_done && (id->listener || id->service)) {
		struct request request;
		uint32_t looks;

		cm_lock();
		looks = id->looks;
		cm_unlock();
		while (next_request(id, &request))
			arrive(id, request);
		cm_lock();
		is_done = looks == id->looks;
		if (is_done)
			note_withdraw(&id->notes[NOTE_LOOK]);
		cm_unlock();
	}
	pthread_mutex_unlock(&id->drain);
}

/* Locked. */
static void close_both(struct id *id)
{
	if (id->listener)
		(void)weft_listener_close(id->listener);
	if (id->service)
		(void)weft_cm_service_close(id->service);
	id->listener = NULL;
	id->service = NULL;
}

void listener_close(struct id *id)
{
	pthread_mutex_lock(&id->drain);
	close_both(id);
	pthread_mutex_unlock(&id->drain);
}

static uint32_t requests_max(int backlog)
{
	if (backlog > REQUESTS_MAX)
		return REQUESTS_MAX;
	return backlog > REQUESTS_MIN ? (uint32_t)backlog : REQUESTS_MIN;
}

/* Locked. Where both kinds are listened on, the peer decides by which it comes. */
static enum weft_reason open_both(struct id *id, int backlog, struct kinds kinds)
{
	const struct sockaddr *src = &id->rdma.route.addr.src_addr;
	struct weft_listener_options options = { .requests_max = requests_max(backlog),
						 .context = &id->listener_sink };
	struct weft_cm_service_options service = {
		.is_datagram = id_is_datagram(id),
		.port_space = (enum weft_port_space)id->rdma.ps,
		.requests_max = requests_max(backlog),
		.context = &id->listener_sink,
	};
	struct weft_address at;
	enum weft_reason reason = WEFT_OK;

	if (!fabric_is_ours())
		address_to_weft(src, &at);
	else if (fabric_address_to(src, &at) != 0)
		return WEFT_R_ADDRESS;
	if (at.family == 6 && address_is_any(src) && !id->is_family_only)
		at.family = 0; /* IPv4 as well */
	service.at = at;
	if (kinds.has_roce)
		reason = weft_cm_service_open(weftv_adapter(), &service, &id->service);
	if (reason == WEFT_OK && kinds.has_iwarp)
		reason = weft_listener_open(weftv_adapter(), &at, &options, &id->listener);
	if (reason != WEFT_OK)
		close_both(id);
	return reason;
}

static int listen_at(struct id *id, int backlog)
{
	const struct sockaddr *src = &id->rdma.route.addr.src_addr;
	struct kinds kinds = device_kinds(id, src);
	enum weft_reason reason;

	if (!kinds.has_roce && !kinds.has_iwarp)
		return cm_errno();
	if (!id->home && !address_is_any(src) && device_bind(id, src) != 0)
		return -ENODEV;
	id->listener_sink.take = listener_take;
	if (!id_try(id, ID_LISTENING))
		return -EINVAL;
	/* Requests may come before the call returns: a thread that drains them waits for it. */
	pthread_mutex_lock(&id->drain);
	reason = open_both(id, backlog, kinds);
	pthread_mutex_unlock(&id->drain);
	if (reason != WEFT_OK) {
		(void)id_try(id, ID_BOUND);
		return cm_error(reason);
	}
	if (kinds.has_iwarp)
		port_release_tcp(id);
	return 0;
}

int rdma_listen(struct rdma_cm_id *rdma, int backlog)
{
	const struct sockaddr_in anywhere = { .sin_family = AF_INET };
	struct id *id = id_of(rdma);
	int r = 0;

	if (!rdma)
		return cm_result(-EINVAL);
	id_forget_event(id);
	id_lock(id);
	if (id_state(id) == ID_IDLE)
		r = id_bind(id, (const struct sockaddr *)(const void *)&anywhere);
	if (r == 0)
		r = listen_at(id, backlog);
	id_unlock(id);
	return cm_result(r);
}
