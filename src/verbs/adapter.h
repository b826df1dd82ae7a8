/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adapter's core: the memory table, the objects by number, and the list of queue pairs that may
 * move. It has no clock and no lock: whoever runs it calls adapter_progress() with the time after
 * every call that may have given work, and at the deadline adapter_due().
 */
#pragma once

#include "base/fault_plan.h"
#include "base/id_table.h"
#include "base/list.h"
#include "base/timer_queue.h"
#include "mem/mem.h"
#include "verbs/event.h"

struct adapter {
	struct mem_table mem;
	struct weft_space process;
	struct id_table pds, cqs, srqs, qps, ahs, ees;
	uint32_t space_count;
	struct timer_queue timers; /* one for each queue pair */
	struct list ready;	   /* queue pairs whose send queue may move */
	struct list absent;	   /* queue pairs that wait for a page to come back */
	struct list events;	   /* struct event_source */
	uint32_t cqs_armed;
	struct trace *trace; /* may be NULL */
	/* Faults on purpose; NULL: none. */
	struct fault_plan *faults;
	struct fault_dice dice; /* of what belongs to no queue pair */
	uint64_t qps_made;
	struct list held; /* completion queues that show nothing new for a while */
	uint64_t bytes_moved, messages_dropped;
};

struct adapter_config {
	struct weft_adapter_options options;
	uint64_t secret[2];	   /* random, from outside */
	struct trace *trace;	   /* may be NULL */
	struct fault_plan *faults; /* NULL: none */
	mem_probe *is_there;	   /* NULL: there are no on-demand regions */
	mem_mover *move;	   /* for them, see struct mem_limits */
};

enum weft_reason adapter_init(struct adapter *a, const struct adapter_config *config);

/*
 * Where it stands among those of its host, 1 to 254: the highest 8 bits of the number of every
 * queue pair that is made from now on. The lower ones begin anywhere, as chance has it: who had the
 * place before may be gone without a word, and its peers think that its queue pairs are there.
 */
void adapter_set_slot(struct adapter *a, uint8_t adapter_slot, uint32_t chance);

/* Whether objects remain; then it is not released (WEFT_R_BUSY). */
bool adapter_is_used(const struct adapter *a);
enum weft_reason adapter_fini(struct adapter *a);
void adapter_usage(const struct adapter *a, struct weft_usage *usage);

/*
 * Lets the next queue pair move as far as it goes at this time. True: there is more to do, at once;
 * what was done may have taken a while, so look at the clock again.
 */
bool adapter_progress(struct adapter *a, uint64_t now_ns);

/* When adapter_progress() should be called at the latest; UINT64_MAX: not before the next call. */
uint64_t adapter_due(const struct adapter *a);

/* A fault on purpose happens, to this queue pair or, with 0, to none: counts it, and traces. */
__attribute__((cold)) void adapter_fault_made(struct adapter *a, enum fault fault,
					      uint32_t qp_number);

/* Whether it falls; and then it happens. */
__attribute__((cold)) bool adapter_fault_falls(struct adapter *a, struct fault_dice *dice,
					       enum fault fault, uint32_t qp_number);

enum weft_reason space_create(struct adapter *a, const struct weft_space_options *options,
			      struct weft_space **space);
enum weft_reason space_destroy(struct weft_space *space);

/* Memory has come or gone: whoever waits for a page looks again. */
void adapter_memory_changed(struct adapter *a);
