/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens and closes a block device given as text: the whole tree of stores of store/plan.h. */
#pragma once

#include <weft/rio.h>

#include "store/plan.h"
#include "store/store.h"

struct device;

/* Why a device could not be opened. */
struct device_refusal {
	enum weft_reason reason;
	int error;   /* errno of a failed system call, or 0 */
	uint32_t at; /* position in the text, counted from 1 */
	char text[WEFT_RIO_WHY_MAX];
};

enum weft_reason device_open(const char *text, struct device **out, struct device_refusal *why);

/*
 * Closes the device; no request may be in progress. False: a member of a mirror has not completed
 * the mirror's own requests within the mirror's wait time; `why` names it. Then a thread waits for
 * that member and closes the rest; the files stay locked until it has.
 */
bool device_close_report(struct device *d, struct device_refusal *why);
void device_close(struct device *d);

struct store *device_store(const struct device *d);

/* The plan, and the store of node i of the plan; NULL: that node is missing. */
const struct store_plan *device_plan(const struct device *d);
const struct store *device_node(const struct device *d, uint32_t i);

/*
 * Readable (poll, epoll) when a request may have completed. Wait on it only after store_next_done()
 * returned NULL, and no longer than until store_due().
 */
int device_descriptor(const struct device *d);

/* For people: what has become of a member of a mirror. */
enum { DEVICE_NAME_MAX = 256, DEVICE_EVENT_TEXT = 1024 };
void device_event_text(const char *name, const struct store_event *e, char line[DEVICE_EVENT_TEXT]);
