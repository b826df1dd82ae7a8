/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compat/rdmacm/rdmacm.h"

/* Requests that wait; a program's backlog is of those that it did not take, weft's of all. */
enum { REQUESTS_MIN = 1024, REQUESTS_MAX = 65536 };

/* Engine locked: somebody must look, where weft may be called. */
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

/* A request becomes a note, to be told on its own. */
static void arrive(struct id *id, struct weft_request *request)
{
	struct note *note = calloc(1, sizeof(*note));
	bool is_told = false;

	if (note) {
		*note = (struct note){ .id = id, .kind = NOTE_ARRIVAL, .request = request };
		list_init(&note->link);
		cm_lock();
		is_told = note_add(note);
		cm_unlock();
	}
	if (is_told)
		return;
	free(note);
	(void)weft_request_reject(request, NULL);
}

/*
 * Once no request is left, a note to look that came meanwhile is of a request that was just taken,
 * unless more of them were counted: it is withdrawn, so that nobody waits for what is not there.
 */
void listener_drain(struct id *id)
{
	bool is_done = false;

	pthread_mutex_lock(&id->drain);
	while (!is_done && id->listener) {
		struct weft_request *request;
		uint32_t looks;

		cm_lock();
		looks = id->looks;
		cm_unlock();
		do {
			request = NULL;
			(void)weft_listener_next(id->listener, &request);
			if (request)
				arrive(id, request);
		} while (request);
		cm_lock();
		is_done = looks == id->looks;
		if (is_done)
			note_withdraw(&id->notes[NOTE_LOOK]);
		cm_unlock();
	}
	pthread_mutex_unlock(&id->drain);
}

void listener_close(struct id *id)
{
	pthread_mutex_lock(&id->drain);
	if (id->listener)
		(void)weft_listener_close(id->listener);
	id->listener = NULL;
	pthread_mutex_unlock(&id->drain);
}

/* The adapter comes with the first context. */
static int adapter_get(struct weft_adapter **adapter)
{
	struct ibv_context **contexts = weftv_contexts(NULL);
	int r = contexts && contexts[0] ? 0 : cm_errno();

	free(contexts);
	*adapter = r == 0 ? weftv_adapter() : NULL;
	return r;
}

static int listen_at(struct id *id, int backlog)
{
	struct sockaddr *src = &id->rdma.route.addr.src_addr;
	struct weft_listen_options options = {
		.requests_max = backlog > REQUESTS_MIN ? (uint32_t)backlog : REQUESTS_MIN,
		.context = &id->listener_sink,
	};
	struct weft_adapter *adapter;
	struct weft_address at;
	enum weft_reason reason;
	int r = adapter_get(&adapter);

	if (r != 0)
		return r;
	if (options.requests_max > REQUESTS_MAX)
		options.requests_max = REQUESTS_MAX;
	address_to_weft(src, &at);
	if (at.family == 6 && address_is_any(src) && !id->is_family_only)
		at.family = 0; /* IPv4 as well */
	id->listener_sink.take = listener_take;
	if (!id_try(id, ID_LISTENING))
		return -EINVAL;
	/* Requests may come before the call returns: whoever looks for them waits for it. */
	pthread_mutex_lock(&id->drain);
	reason = weft_listen(adapter, &at, &options, &id->listener);
	pthread_mutex_unlock(&id->drain);
	if (reason != WEFT_OK) {
		(void)id_try(id, ID_BOUND);
		return cm_error(reason);
	}
	port_release(id);
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
