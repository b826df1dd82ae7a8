/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/perf/perf_end.h"

static enum weft_reason await_connected(struct perf_end *e)
{
	struct weft_peer peer;
	enum weft_reason r = WEFT_OK;

	for (bool is_connected = false; r == WEFT_OK && !is_connected;) {
		struct weft_event event;
		bool has_event;

		r = weft_event_next(e->adapter, UINT64_MAX, &event, &has_event);
		if (r == WEFT_OK && has_event && event.kind == WEFT_EVENT_CONNECT_FAILED)
			r = event.reason;
		is_connected = has_event && event.kind == WEFT_EVENT_CONNECTED;
	}
	if (r == WEFT_OK)
		r = weft_qp_peer(e->qp, &peer);
	if (r != WEFT_OK)
		return r;
	e->remote = peer.remote;
	e->has_crc = peer.has_crc;
	return perf_end_take_advert(e, peer.private_data, peer.private_bytes);
}

static struct weft_connect_options options_of(const struct perf_end *e, const struct perf_how *how,
					      uint8_t bytes[WEFT_ADVERT_BYTES])
{
	struct weft_connect_options o = how->iwarp;

	perf_end_advert(e, bytes);
	o.private_data = bytes;
	o.private_bytes = WEFT_ADVERT_BYTES;
	o.ird = o.ord = PERF_READS_MAX;
	return o;
}

enum weft_reason perf_iwarp_dial(struct perf_end *e, const struct weft_address *to,
				 const struct perf_how *how)
{
	uint8_t bytes[WEFT_ADVERT_BYTES];
	struct weft_connect_options o = options_of(e, how, bytes);
	enum weft_reason r = perf_end_ready(e);

	if (r == WEFT_OK)
		r = weft_qp_dial(e->qp, to, &o);
	return r == WEFT_OK ? await_connected(e) : r;
}

enum weft_reason perf_iwarp_take(struct perf_end *e, const struct perf_door *door)
{
	uint8_t bytes[WEFT_ADVERT_BYTES];
	struct weft_connect_options o = options_of(e, &door->how, bytes);
	struct weft_request *request = NULL;
	struct weft_event event;
	bool has_event;
	enum weft_reason r = perf_end_ready(e);

	while (r == WEFT_OK && !request) {
		r = weft_listener_next(door->listener, &request);
		if (r == WEFT_OK && !request)
			r = weft_event_next(e->adapter, UINT64_MAX, &event, &has_event);
	}
	if (r == WEFT_OK)
		r = weft_request_accept(request, e->qp, &o);
	return r == WEFT_OK ? await_connected(e) : r;
}
