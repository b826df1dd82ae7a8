/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adapter's core: the memory table, the objects by number, and the list of queue pairs that may
 * make progress. It has no clock and no lock: the driver or simulator calls adapter_progress() with
 * the time after every call that may have created work, and at the deadline adapter_due().
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
	struct list spaces;	   /* struct weft_space, the oldest first */
	struct timer_queue timers; /* one for each queue pair */
	struct list ready;	   /* queue pairs whose send queue may make progress */
	struct list absent;	   /* queue pairs that wait for a missing page */
	struct list events;	   /* struct event_source */
	uint32_t cqs_armed;
	struct trace *trace; /* may be NULL */
	/* Injected faults; NULL: none. */
	struct fault_plan *faults;
	struct fault_dice dice; /* for operations that belong to no queue pair */
	uint64_t qps_made;
	struct list held; /* completion queues that hide new completions: cq_hold() */
	uint64_t bytes_moved, messages_dropped;
	const struct mem_pager *pager; /* of spaces over the process; NULL: none */
	uint64_t authority;	       /* of its owner; 0: it is not claimed */
	uint32_t inbound_rights;       /* what peers may do at most (SYS-04) */
	uint32_t ports_max;	       /* of its node, in a fabric */
};

struct adapter_config {
	struct weft_adapter_options options;
	uint64_t secret[2];	       /* random, from outside */
	struct trace *trace;	       /* may be NULL */
	struct fault_plan *faults;     /* NULL: none */
	mem_probe *is_there;	       /* NULL: there are no on-demand regions */
	const struct mem_guard *guard; /* see struct mem_limits */
	struct mem_watch *watch;       /* the same */
	const struct mem_pager *pager; /* NULL: pages of the process are waited for in the kernel */
};

enum weft_reason adapter_init(struct adapter *a, const struct adapter_config *config);

/*
 * Sets the adapter's slot on its host, 1 to 254: the highest 8 bits of the number of every queue
 * pair created from now on. The lower bits start at random (chance): the previous owner of the slot
 * may have died silently, and its peers may still send to its queue pairs.
 */
void adapter_set_slot(struct adapter *a, uint8_t adapter_slot, uint32_t chance);

/* Gives the adapter an owner, by a number that is hard to guess and not 0. */
enum weft_reason adapter_claim(struct adapter *a, uint64_t authority);

/* Whether objects remain; then adapter_fini() fails (WEFT_R_BUSY). */
bool adapter_is_used(const struct adapter *a);
enum weft_reason adapter_fini(struct adapter *a);
void adapter_usage(const struct adapter *a, struct weft_usage *usage);

/*
 * Lets the next ready queue pair make all the progress it can at this time. True: more is to be
 * done at once; the caller reads the clock again, as the work may have taken a while.
 */
bool adapter_progress(struct adapter *a, uint64_t now_ns);

/* When adapter_progress() is due at the latest; UINT64_MAX: only after another call. */
uint64_t adapter_due(const struct adapter *a);

/* Counts and traces an injected fault, of this queue pair or (0) of none. */
__attribute__((cold)) void adapter_fault_made(struct adapter *a, enum fault fault,
					      uint32_t qp_number);

/* Draws the fault; if it falls, counts and traces it. */
__attribute__((cold)) bool adapter_fault_falls(struct adapter *a, struct fault_dice *dice,
					       enum fault fault, uint32_t qp_number);

enum weft_reason space_create(struct adapter *a, const struct weft_space_options *options,
			      struct weft_space **space);
enum weft_reason space_destroy(struct weft_space *space);

/* Pages have come or gone: queue pairs that wait for a page check again. */
void adapter_memory_changed(struct adapter *a);
