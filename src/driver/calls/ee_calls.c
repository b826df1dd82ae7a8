/* SPDX-License-Identifier: BSD-2-Clause */
/* Public calls on end-to-end contexts. */
#include <stdlib.h>

#include "base/reserved.h"
#include "driver/roce/roce_line.h"
#include "verbs/ee.h"

/* Takes the lock of the context's adapter, and sends deferred requests first. */
static struct weft_adapter *enter(const struct weft_ee *ee)
{
	struct weft_adapter *a = adapter_of(ee->adapter);

	adapter_enter(a);
	(void)adapter_now_ns(a);
	if (a->net->is_waiting)
		adapter_work(a);
	return a;
}

static struct roce_ee *driver_of(struct weft_ee *ee)
{
	return ib_ee_owner(ib_ee_of(ee));
}

static enum weft_reason create(struct weft_adapter *a, const struct weft_ee_options *o,
			       struct weft_ee **ee)
{
	struct ib_ee_config k = {
		.p_key = o->p_key,
		.rdd = o->rdd,
		.psn_send = o->psn_send,
		.timeout_code = o->timeout_code,
		.retries = o->retries,
		.rnr_retries = o->rnr_retries,
	};
	struct roce_ee *re;
	struct roce *roce;
	struct ib_ee *core;
	enum weft_reason r = roce_path_of(&o->path, &k.path);

	if (r == WEFT_OK)
		r = roce_get(a, &roce);
	if (r != WEFT_OK)
		return r;
	re = adapter_is_short(a) ? NULL : calloc(1, sizeof(*re));
	if (!re)
		return WEFT_R_NO_MEMORY;
	k.owner = re;
	r = ib_ee_create(roce->port, &k, &core);
	if (r != WEFT_OK) {
		free(re);
		return r;
	}
	re->path = k.path;
	re->to = o->path.to;
	re->rdd = o->rdd;
	event_source_init(&re->events, ib_ee_number(core), o->context);
	*ee = ib_ee_handle(core);
	return WEFT_OK;
}

enum weft_reason weft_ee_create(struct weft_adapter *adapter, const struct weft_ee_options *options,
				struct weft_ee **ee)
{
	enum weft_reason r;

	if (!adapter || !options || !ee)
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(options) || !RESERVED_IS_ZERO(&options->path))
		return WEFT_R_RESERVED;
	adapter_enter(adapter);
	r = create(adapter, options, ee);
	adapter_leave(adapter);
	return r;
}

uint32_t weft_ee_number(const struct weft_ee *ee)
{
	return ee ? ee->number : 0;
}

/* Now that both numbers are known, so are the source ports of both ends' packets. */
static enum weft_reason ee_connect(struct weft_adapter *a, struct weft_ee *ee, uint32_t peer_number,
				   uint32_t psn_recv)
{
	struct roce_ee *re = driver_of(ee);
	struct ib_path path = re->path;
	struct roce *roce;
	enum weft_reason r = roce_get(a, &roce);

	if (r == WEFT_OK && re->peer_number != 0)
		r = WEFT_R_QP_CONNECTED;
	if (r != WEFT_OK)
		return r;
	r = roce_line_source(roce, &path, ee->number, peer_number);
	if (r != WEFT_OK)
		return r;
	ib_ee_set_source(ib_ee_of(ee), path.from.port, path.near_number);
	r = ib_ee_connect(ib_ee_of(ee), peer_number, psn_recv);
	if (r != WEFT_OK)
		return r;
	re->peer_number = peer_number;
	roce_line_expect(roce, &path, ee->number, peer_number, &re->flow_ref);
	return WEFT_OK;
}

enum weft_reason weft_ee_connect(struct weft_ee *ee, uint32_t peer_number, uint32_t psn_recv)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!ee)
		return WEFT_R_NULL_ARGUMENT;
	a = enter(ee);
	r = ee_connect(a, ee, peer_number, psn_recv);
	adapter_leave_working(a);
	return r;
}

enum weft_reason weft_ee_query(struct weft_ee *ee, struct weft_ee_attr *attr)
{
	struct weft_adapter *a;
	const struct roce_ee *re;

	if (!ee || !attr)
		return WEFT_R_NULL_ARGUMENT;
	a = adapter_of(ee->adapter);
	adapter_enter(a);
	re = driver_of(ee);
	*attr = (struct weft_ee_attr){
		.number = ee->number,
		.peer_number = re->peer_number,
		.rdd = re->rdd,
		.reason = ib_ee_why(ib_ee_of(ee)),
		.to = re->to,
	};
	adapter_leave(a);
	return WEFT_OK;
}

enum weft_reason weft_ee_destroy(struct weft_ee *ee)
{
	struct weft_adapter *a;
	struct roce_ee *re;

	if (!ee)
		return WEFT_R_NULL_ARGUMENT;
	a = enter(ee);
	re = driver_of(ee);
	ib_ee_destroy(ib_ee_of(ee));
	roce_line_forget(roce_of(a->net), &re->flow_ref);
	event_clear(&re->events);
	free(re);
	adapter_leave_working(a);
	return WEFT_OK;
}
