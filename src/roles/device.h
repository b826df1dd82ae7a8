/* SPDX-License-Identifier: BSD-2-Clause */
/* Block devices as people write them: makes the whole tree of store/plan.h and takes it down. */
#pragma once

#include <weft/rio.h>

#include "store/plan.h"
#include "store/store.h"

struct device;

/* Why a device could not be opened. */
struct device_refusal {
	enum weft_reason reason;
	int error;   /* what the system said (errno), 0 if it was not asked */
	uint32_t at; /* which character of the text it is about, counted from 1 */
	char text[WEFT_RIO_WHY_MAX];
};

enum weft_reason device_open(const char *text, struct device **out, struct device_refusal *why);

/*
 * Nothing is under way. False: a member of a mirror has not ended what the mirror itself had asked
 * for, in the time that the mirror waits; why says which. Then a thread waits for it and closes the
 * rest; files stay locked as long.
 */
bool device_close_report(struct device *d, struct device_refusal *why);
void device_close(struct device *d);

struct store *device_store(const struct device *d);

/* What it consists of: the plan, and the device of a node of it; NULL: it is missing. */
const struct store_plan *device_plan(const struct device *d);
const struct store *device_node(const struct device *d, uint32_t i);

/*
 * Readable (poll, epoll) when a request may be done. Who waits on it has got NULL from
 * store_next_done before, and looks at store_due too.
 */
int device_descriptor(const struct device *d);
