/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/adapter.h"

#include <stdlib.h>

#include "verbs/ee.h"
#include "verbs/qp.h"

enum {
	TAGS_DEFAULT = 65536,
	TRANSLATIONS_DEFAULT = 1 << 20,
	OBJECTS_DEFAULT = 4096,
	AHS_MAX = 16384,
	PORTS_MAX = 254, /* IBA 14.2.5.3: of a node */
};

/* SYS-04. */
static const struct profile {
	uint32_t ports, qps; /* unless options say something else */
	uint32_t ports_max;
	uint32_t inbound_rights;
} profiles[] = {
	[WEFT_PROFILE_NONE] = { PORTS_MAX, OBJECTS_DEFAULT, PORTS_MAX, MEM_REMOTE_RIGHTS },
	[WEFT_PROFILE_HOST] = { WEFT_HOST_PORTS, WEFT_HOST_QPS, PORTS_MAX, MEM_REMOTE_RIGHTS },
	[WEFT_PROFILE_IO] = { WEFT_IO_PORTS, WEFT_IO_QPS, WEFT_IO_PORTS, 0 },
};

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
	return value ? value : fallback;
}

static bool options_are_good(const struct weft_adapter_options *o)
{
	return o->tags_max < MEM_TAGS_MAX && o->translations_max <= 1U << 30 &&
	       o->qps_max <= ID_SLOTS_MAX && o->cqs_max <= ID_SLOTS_MAX &&
	       o->srqs_max <= ID_SLOTS_MAX && o->pds_max <= ID_SLOTS_MAX &&
	       (unsigned int)o->policy <= WEFT_POLICY_STRICT &&
	       (unsigned int)o->profile <= WEFT_PROFILE_IO &&
	       o->ports_max <= profiles[o->profile].ports_max;
}

static void adapter_release(struct adapter *a)
{
	mem_table_fini(&a->mem);
	id_table_fini(&a->pds);
	id_table_fini(&a->cqs);
	id_table_fini(&a->srqs);
	id_table_fini(&a->qps);
	id_table_fini(&a->ahs);
	id_table_fini(&a->ees);
	timer_queue_fini(&a->timers);
}

enum weft_reason adapter_init(struct adapter *a, const struct adapter_config *config)
{
	const struct weft_adapter_options *o = &config->options;
	struct mem_limits limits = {
		.tags_max = or_default(o->tags_max, TAGS_DEFAULT),
		.translations_max = or_default(o->translations_max, TRANSLATIONS_DEFAULT),
		.pds_max = or_default(o->pds_max, OBJECTS_DEFAULT),
		.policy = o->policy,
		.secret = { config->secret[0], config->secret[1] },
		.is_there = config->is_there,
		.guard = config->guard,
		.watch = config->watch,
	};

	if (!options_are_good(o))
		return WEFT_R_BAD_ARGUMENT;
	limits.qps_max = or_default(o->qps_max, profiles[o->profile].qps);
	*a = (struct adapter){
		.inbound_rights = profiles[o->profile].inbound_rights,
		.ports_max = or_default(o->ports_max, profiles[o->profile].ports),
		.trace = config->trace,
		.faults = config->faults,
		.pager = config->pager,
	};
	if (a->faults)
		fault_dice_init(&a->dice, a->faults, 0);
	list_init(&a->held);
	list_init(&a->spaces);
	list_init(&a->ready);
	list_init(&a->absent);
	list_init(&a->events);
	mem_space_init_process(&a->process);
	a->process.owner = a;
	if (mem_table_init(&a->mem, &limits) < 0 || id_table_init(&a->pds, limits.pds_max) < 0 ||
	    id_table_init(&a->cqs, or_default(o->cqs_max, OBJECTS_DEFAULT)) < 0 ||
	    id_table_init(&a->srqs, or_default(o->srqs_max, OBJECTS_DEFAULT)) < 0 ||
	    id_table_init(&a->qps, limits.qps_max) < 0 || id_table_init(&a->ahs, AHS_MAX) < 0 ||
	    id_table_init(&a->ees, EES_MAX) < 0 ||
	    timer_queue_init(&a->timers, limits.qps_max) < 0) {
		adapter_release(a);
		return WEFT_R_NO_MEMORY;
	}
	a->process.paging = &a->mem.process;
	a->mem.trace = config->trace;
	return WEFT_OK;
}

void adapter_set_slot(struct adapter *a, uint8_t adapter_slot, uint32_t chance)
{
	id_table_fix_generation(&a->qps, adapter_slot);
	id_table_fix_generation(&a->ees, adapter_slot);
	id_table_pass_over(&a->qps, chance);
	id_table_pass_over(&a->ees, chance);
}

bool adapter_is_used(const struct adapter *a)
{
	return a->pds.used || a->cqs.used || a->srqs.used || a->qps.used || a->ahs.used ||
	       a->ees.used || a->space_count;
}

enum weft_reason adapter_fini(struct adapter *a)
{
	if (adapter_is_used(a))
		return WEFT_R_BUSY;
	adapter_release(a);
	return WEFT_OK;
}

void adapter_usage(const struct adapter *a, struct weft_usage *usage)
{
	const struct mem_table *m = &a->mem;

	*usage = (struct weft_usage){
		.regions = m->by_type[1][MEM_REGION],
		.windows = m->by_type[0][MEM_WINDOW] + m->by_type[1][MEM_WINDOW],
		.tags_reserved = m->by_type[0][MEM_REGION],
		.iscsi_regions = m->by_type[1][MEM_ISCSI_REGION],
		.tags_free = m->free_count,
		.translations = m->atts.used << ATT_BLOCK_SHIFT,
		.spaces = a->space_count,
		.pds = a->pds.used,
		.cqs = a->cqs.used,
		.srqs = a->srqs.used,
		.qps = a->qps.used,
		.ees = a->ees.used,
		.accesses_refused = m->refused,
		.bytes_moved = a->bytes_moved,
		.messages_dropped = a->messages_dropped,
	};
}

bool adapter_progress(struct adapter *a, uint64_t now_ns)
{
	struct timer *t;

	while ((t = timer_queue_expire(&a->timers, now_ns)) != NULL)
		qp_timer_expired(CONTAINER_OF(t, struct weft_qp, timer));
	if (!list_is_empty(&a->held))
		cqs_release(a, now_ns);
	if (!list_is_empty(&a->ready))
		qp_advance(CONTAINER_OF(list_pop(&a->ready), struct weft_qp, ready_link), now_ns);
	return !list_is_empty(&a->ready);
}

uint64_t adapter_due(const struct adapter *a)
{
	uint64_t timers = timer_queue_due(&a->timers), held = UINT64_MAX;

	if (!list_is_empty(&a->held))
		held = cqs_due(a);
	return timers < held ? timers : held;
}

void adapter_fault_made(struct adapter *a, enum fault fault, uint32_t qp_number)
{
	a->faults->happened[fault]++;
	trace_add(a->trace,
		  (struct trace_event){ .kind = TRACE_FAULT, .who = qp_number, .a = fault });
}

bool adapter_fault_falls(struct adapter *a, struct fault_dice *dice, enum fault fault,
			 uint32_t qp_number)
{
	if (!fault_falls(a->faults, dice, fault))
		return false;
	adapter_fault_made(a, fault, qp_number);
	return true;
}

enum weft_reason adapter_claim(struct adapter *a, uint64_t authority)
{
	CHECK(authority != 0);
	if (a->authority != 0)
		return WEFT_R_NOT_OWNER;
	a->authority = authority;
	return WEFT_OK;
}

enum weft_reason space_create(struct adapter *a, const struct weft_space_options *options,
			      struct weft_space **space)
{
	struct weft_space *s = calloc(1, sizeof(*s));
	enum weft_reason r;

	if (!s)
		return WEFT_R_NO_MEMORY;
	r = mem_space_init(s, options);
	if (r != WEFT_OK) {
		free(s);
		return r;
	}
	s->owner = a;
	s->paging->guard = a->mem.process.guard;
	if (s->is_process) {
		s->pager = a->pager;
		s->paging->watch = a->mem.watch;
	}
	a->space_count++;
	list_add_tail(&a->spaces, &s->link);
	*space = s;
	return WEFT_OK;
}

enum weft_reason space_destroy(struct weft_space *space)
{
	struct adapter *a = space->owner;

	if (space->users > 0 || space->paging->counts.count > 0)
		return WEFT_R_BUSY;
	a->space_count--;
	list_remove(&space->link);
	mem_space_fini(space);
	free(space);
	return WEFT_OK;
}

void adapter_memory_changed(struct adapter *a)
{
	while (!list_is_empty(&a->absent))
		qp_ready(CONTAINER_OF(list_pop(&a->absent), struct weft_qp, absent_link));
}
