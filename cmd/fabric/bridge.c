/* SPDX-License-Identifier: BSD-2-Clause */
/* weft fabric bridge: a node between the fabric and the host's own IPv6 (RAW-02). */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <weft/roce.h>

#include "cmd/fabric/fabric.h"
#include "cmd/roles/rio_role.h"
#include "driver/sys/fabric_client.h"
#include "driver/sys/system_reason.h"

struct bridge {
	struct weft_adapter *adapter;
	struct weft_cq *cq;
	int wake;
	atomic_bool is_stopping;
};

static void stop(void *of)
{
	struct bridge *b = of;
	const uint64_t one = 1;

	atomic_store(&b->is_stopping, true);
	if (write(b->wake, &one, sizeof(one)) < 0)
		return; /* it is awake */
}

static enum weft_reason bridge_open(struct bridge *b, const char *interface)
{
	enum weft_reason r;

	if (!fabric_client_node())
		return WEFT_R_FABRIC_NODE;
	b->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->wake < 0)
		return system_reason(errno);
	r = weft_adapter_open(NULL, &b->adapter);
	if (r == WEFT_OK)
		r = weft_cq_create(b->adapter, NULL, &b->cq);
	if (r == WEFT_OK)
		r = weft_raw_open(b->adapter, interface);
	if (r == WEFT_OK)
		r = weft_port_watch(b->adapter, NULL);
	if (r == WEFT_OK)
		r = weft_adapter_drive(b->adapter, true);
	return r;
}

static void bridge_close(struct bridge *b)
{
	if (b->cq)
		(void)weft_cq_destroy(b->cq);
	if (b->adapter)
		(void)weft_adapter_close(b->adapter);
	if (b->wake >= 0)
		close(b->wake);
}

/* Events would keep it awake; one of them may be the last word of a fabric that has gone. */
static enum weft_reason events_drain(struct bridge *b)
{
	enum weft_reason r = WEFT_OK;
	struct fabric_msg_port port;
	struct weft_event event;
	bool has_event = true;

	while (r == WEFT_OK && has_event) {
		r = weft_event_next(b->adapter, 0, &event, &has_event);
		if (r == WEFT_OK && has_event && event.kind == WEFT_EVENT_PORT &&
		    event.state & WEFT_PORT_INACTIVE &&
		    fabric_client_port(0, &port) == WEFT_R_FABRIC_ABSENT)
			r = WEFT_R_FABRIC_ABSENT;
	}
	return r;
}

int fabric_bridge(int argc, char **argv)
{
	struct bridge b = { .wake = -1 };
	enum weft_reason r;

	if (argc != 2)
		return fabric_misused("bridge takes the name of an interface");
	r = bridge_open(&b, argv[1]);
	if (r == WEFT_OK) {
		rio_role_until_signal(stop, &b);
		printf("%s is a bridge to %s\n", fabric_client_node(), argv[1]);
		(void)fflush(stdout);
	}
	while (r == WEFT_OK && !atomic_load(&b.is_stopping)) {
		r = weft_cq_wait(b.cq, b.wake, UINT64_MAX, NULL);
		if (r == WEFT_OK)
			r = events_drain(&b);
	}
	bridge_close(&b);
	return r == WEFT_OK ? 0 : fabric_failed("bridge", fabric_client_node(), r);
}
