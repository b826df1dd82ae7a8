/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem/table.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/free_list.h"
#include "base/id_table.h"

int mem_table_init(struct mem_table *t, const struct mem_limits *limits)
{
	static const atomic_uint none;
	const size_t line = sizeof(struct mem_entry);
	uintptr_t start;

	CHECK(limits->tags_max > 0 && limits->tags_max <= MEM_TAGS_MAX - 1);
	CHECK(limits->pds_max > 0 && limits->qps_max > 0);
	*t = (struct mem_table){
		.tags_max = limits->tags_max + 1,
		.free_count = limits->tags_max,
		.policy = limits->policy,
		.secret = { .key = { limits->secret[0], limits->secret[1] } },
		.watch = limits->watch,
		.unmapped = limits->watch ? limits->watch->unmapped : &none,
	};
	t->memory = calloc((size_t)t->tags_max + 1, line);
	t->free = calloc(t->tags_max, sizeof(*t->free));
	t->by_pd = calloc(limits->pds_max, sizeof(*t->by_pd));
	t->by_qp = calloc(limits->qps_max, sizeof(*t->by_qp));
	t->null_memory = calloc(2, MEM_NULL_BYTES);
	t->begun = calloc(t->tags_max, sizeof(*t->begun));
	if (!t->memory || !t->free || !t->by_pd || !t->by_qp || !t->null_memory || !t->begun ||
	    att_pool_init(&t->atts, limits->translations_max) < 0) {
		mem_table_fini(t);
		return -1;
	}
	start = ((uintptr_t)t->memory + line - 1) & ~(uintptr_t)(line - 1);
	t->entries = (struct mem_entry *)start;
	mem_space_init_endless(&t->zeroes, t->null_memory, MEM_NULL_BYTES);
	mem_space_init_endless(&t->discard, (uint8_t *)t->null_memory + MEM_NULL_BYTES,
			       MEM_NULL_BYTES);
	t->demand = (struct mem_paging){ .is_handing = true, .guard = limits->guard };
	t->process = (struct mem_paging){ .is_flat = true,
					  .guard = limits->guard,
					  .watch = limits->watch };
	mem_space_init_on_demand(&t->on_demand, limits->is_there, &t->demand);
	return 0;
}

void mem_table_fini(struct mem_table *t)
{
	att_pool_fini(&t->atts);
	free(t->memory);
	free(t->free);
	free(t->by_pd);
	free(t->by_qp);
	free(t->null_memory);
	free(t->begun);
	*t = (struct mem_table){ 0 };
}

uint32_t mem_table_pd_tags(const struct mem_table *t, uint32_t pd)
{
	return t->by_pd[id_slot(pd)];
}

enum weft_reason table_take(struct mem_table *t, enum mem_type type, uint32_t pd, uint32_t *index)
{
	uint64_t draw = secret_next(&t->secret);
	uint32_t position;
	struct mem_entry *e;

	if (t->free_count == 0)
		return WEFT_R_TABLE_FULL;
	/* Positions count from 1: position 0 stands for index 0. */
	position = 1 + (uint32_t)(((draw >> 32) * t->free_count) >> 32);
	*index = free_list_get(t->free, position);
	free_list_set(t->free, position, free_list_get(t->free, t->free_count));
	t->free_count--;
	e = &t->entries[*index];
	CHECK(e->state == MEM_FREE);
	if (e->instance == 0 && e->instance_given == 0)
		e->instance = (uint8_t)draw; /* first use of this index */
	*e = (struct mem_entry){
		.pd = pd,
		.instance = e->instance,
		.instance_given = e->instance,
		.type = (uint8_t)type,
		.state = MEM_RESERVED,
	};
	t->by_type[0][type]++;
	t->by_pd[id_slot(pd)]++;
	return WEFT_OK;
}

void table_give(struct mem_table *t, uint32_t index)
{
	struct mem_entry *e = &t->entries[index];

	CHECK(e->state == MEM_RESERVED);
	t->by_type[0][e->type]--;
	t->by_pd[id_slot(e->pd)]--;
	/*
	 * Past every instance that was promised for it, so none of those tags comes alive again;
	 * nor the one it has now, if a consumer asked for the instance just before that.
	 */
	if (++e->instance_given == e->instance)
		e->instance_given++;
	e->instance = e->instance_given;
	e->instance_given = UINT8_MAX;
	e->state = MEM_FREE;
	t->free_count++;
	free_list_set(t->free, t->free_count, index);
}

void table_set_valid(struct mem_table *t, struct mem_entry *e, bool is_valid)
{
	t->by_type[e->state == MEM_VALID][e->type]--;
	e->state = is_valid ? MEM_VALID : MEM_RESERVED;
	t->by_type[is_valid][e->type]++;
	if (t->trace)
		trace_add(t->trace, (struct trace_event){
					    .kind = is_valid ? TRACE_TAG_MADE : TRACE_TAG_GONE,
					    .who = e->pd,
					    .a = table_tag(t, e),
					    .b = e->length,
				    });
	if (is_valid)
		table_publish(t, e);
}

void table_close(struct mem_table *t, struct mem_entry *e)
{
	CHECK(e->state == MEM_VALID);
	table_withdraw(t, e);
	if (e->type == MEM_WINDOW) {
		t->entries[e->region].windows--;
		e->region = 0;
	} else if (e->type == MEM_ISCSI_REGION) {
		e->command_id = 0;
		if (e->att) {
			e->space->users--;
			att_put(&t->atts, e->att);
		}
	} else {
		CHECK(e->windows == 0);
		if (t->begun[e - t->entries]) {
			t->begun[e - t->entries] = 0;
			t->watch->end(e->origin, e->length);
		}
		e->space->users--;
		if (e->att)
			att_put(&t->atts, e->att);
	}
	e->space = NULL;
	e->att = NULL;
	table_set_qp(t, e, 0);
	table_set_valid(t, e, false);
}

void table_set_pd(struct mem_table *t, struct mem_entry *e, uint32_t pd)
{
	t->by_pd[id_slot(e->pd)]--;
	t->by_pd[id_slot(pd)]++;
	e->pd = pd;
}

void table_set_qp(struct mem_table *t, struct mem_entry *e, uint32_t qp)
{
	if (e->qp != 0)
		t->by_qp[id_slot(e->qp)]--;
	e->qp = qp;
	if (qp != 0)
		t->by_qp[id_slot(qp)]++;
}

struct mem_entry *table_find(const struct mem_table *t, uint32_t tag)
{
	uint32_t index = weft_tag_index(tag);

	if (index >= t->tags_max || t->entries[index].state == MEM_FREE)
		return NULL;
	return &t->entries[index];
}

enum weft_reason table_own(const struct mem_table *t, uint32_t pd, uint32_t tag, enum mem_type type,
			   struct mem_entry **entry)
{
	struct mem_entry *e = table_find(t, tag);

	if (weft_tag_index(tag) >= t->tags_max)
		return WEFT_R_TAG_INDEX;
	if (!e)
		return WEFT_R_TAG_INVALID;
	if (e->type != type)
		return WEFT_R_TAG_TYPE;
	if (e->pd != pd)
		return WEFT_R_TAG_PD;
	if (e->instance != weft_tag_instance(tag))
		return WEFT_R_TAG_INSTANCE;
	*entry = e;
	return WEFT_OK;
}
