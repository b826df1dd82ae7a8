/* SPDX-License-Identifier: BSD-2-Clause */
/* Public calls for programs with an event loop of their own. */
#include <sys/eventfd.h>

#include "base/deadline.h"
#include "driver/loop/net.h"

/* The network's thread makes what progress is due while the program sleeps. */
enum weft_reason weft_adapter_fd(struct weft_adapter *adapter, int *fd)
{
	enum weft_reason r = WEFT_OK;
	struct net *net;

	if (!adapter || !fd)
		return WEFT_R_NULL_ARGUMENT;
	adapter_enter(adapter);
	if (adapter->on_event)
		r = WEFT_R_BUSY;
	else
		r = net_get(adapter, &net);
	if (r == WEFT_OK && adapter->event_fd < 0) {
		adapter->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		r = adapter->event_fd < 0 ? WEFT_R_DESCRIPTORS : WEFT_OK;
		adapter_show_events(adapter);
	}
	if (r == WEFT_OK)
		*fd = adapter->event_fd;
	adapter_leave(adapter);
	return r;
}

/*
 * Whether there is nothing for the program. Then what was deferred goes: its completion by sending
 * would make no descriptor ready.
 */
static bool is_to_sleep(const struct weft_cq *cq, struct net *net)
{
	struct weft_adapter *a = net->adapter;

	if (cq->count == 0 && net->is_waiting)
		adapter_work(a);
	return cq->count == 0 && list_is_empty(&a->core.events);
}

enum weft_reason weft_cq_wait(struct weft_cq *cq, int fd, uint64_t timeout_ns, bool *is_fd_ready)
{
	bool is_ready = false;
	struct weft_adapter *a;
	struct net *net;
	uint64_t now_ns, end_ns;
	enum weft_reason r;

	if (!cq)
		return WEFT_R_NULL_ARGUMENT;
	a = adapter_of(cq->adapter);
	adapter_enter(a);
	r = adapter_is_served(a) ? WEFT_R_BUSY : net_get(a, &net);
	now_ns = adapter_now_ns(a);
	end_ns = deadline_after(now_ns, timeout_ns);
	/* Bound: the time. */
	while (r == WEFT_OK && !is_ready && is_to_sleep(cq, net) && now_ns < end_ns) {
		is_ready = progress_sleep(net, fd, end_ns);
		now_ns = adapter_now_ns(a);
	}
	adapter_leave(a);
	if (is_fd_ready)
		*is_fd_ready = is_ready;
	return r;
}

enum weft_reason weft_adapter_drive(struct weft_adapter *adapter, bool is_driven)
{
	enum weft_reason r;
	struct net *net;

	if (!adapter)
		return WEFT_R_NULL_ARGUMENT;
	adapter_enter(adapter);
	r = adapter_is_served(adapter) ? WEFT_R_BUSY : net_get(adapter, &net);
	if (r == WEFT_OK)
		progress_lead(net, is_driven);
	adapter_leave(adapter);
	return r;
}

enum weft_reason weft_adapter_serve(struct weft_adapter *adapter, bool is_served)
{
	enum weft_reason r;
	struct net *net;

	if (!adapter)
		return WEFT_R_NULL_ARGUMENT;
	adapter_enter(adapter);
	r = net_get(adapter, &net);
	if (r == WEFT_OK)
		r = progress_serve(net, is_served);
	adapter_leave(adapter);
	return r;
}
