/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem/table.h"

#include "base/check.h"

/* ISCSI-02: where the memory lies if it is named by real addresses. */
static enum weft_reason make_translation(struct mem_table *t, const struct mem_owner *owner,
					 const struct mem_command *c, struct att **att)
{
	const struct weft_page_list *list = c->pages;
	uint64_t length;

	if (!owner->is_privileged)
		return WEFT_R_ISCSI_PAGES;
	if (!mem_command_bytes(list, c->end_offset, &length))
		return WEFT_R_ISCSI_PAGES;
	if (length != c->length)
		return WEFT_R_ISCSI_LENGTH;
	return att_create(&t->atts, list, owner->space->size, att);
}

bool mem_command_bytes(const struct weft_page_list *list, uint64_t end_offset, uint64_t *length)
{
	uint64_t size = list->page_size_bytes, end = end_offset ? end_offset : size;
	uint64_t before;

	if (att_page_shift(size) == 0 || list->count == 0 || !list->pages || end > size ||
	    list->first_offset >= size)
		return false;
	before = (uint64_t)(list->count - 1) * size;
	if (before + end <= list->first_offset)
		return false;
	*length = before + end - list->first_offset;
	return true;
}

/* ISCSI-03: the target reads what a write command sends, and writes what a read command fetches. */
static uint8_t rights_of(enum mem_way way)
{
	switch (way) {
	case MEM_WAY_IN:
		return WEFT_REMOTE_WRITE;
	case MEM_WAY_OUT:
		return WEFT_REMOTE_READ;
	case MEM_WAY_NONE:
		break;
	}
	return 0;
}

enum weft_reason mem_command_register(struct mem_table *t, const struct mem_owner *owner,
				      const struct mem_command *c, uint32_t *tag)
{
	struct att *att = NULL;
	struct mem_entry *e;
	uint32_t index;
	enum weft_reason r = WEFT_OK;

	if (c->pages)
		r = make_translation(t, owner, c, &att);
	if (r != WEFT_OK)
		return r;
	r = table_take(t, MEM_ISCSI_REGION, owner->pd, &index);
	if (r != WEFT_OK) {
		if (att)
			att_put(&t->atts, att);
		return r;
	}
	e = &t->entries[index];
	/* RFC 7143 section 11.2.1.8: this value of an Initiator Task Tag is reserved. */
	if (table_tag(t, e) == UINT32_MAX)
		e->instance = ++e->instance_given;
	e->start = c->slot;
	e->length = c->length;
	e->command_id = c->id;
	e->way = (uint8_t)c->way;
	e->rights = rights_of(c->way);
	if (att) {
		e->origin = c->pages->first_offset;
		e->att = att;
		e->space = owner->space;
		e->space->users++;
	}
	table_set_qp(t, e, c->qp);
	table_set_valid(t, e, true);
	*tag = table_tag(t, e);
	return WEFT_OK;
}

uint32_t mem_command_slot(const struct mem_table *t, uint32_t tag)
{
	const struct mem_entry *e = table_find(t, tag);

	CHECK(e && e->type == MEM_ISCSI_REGION && table_tag(t, e) == tag);
	return (uint32_t)e->start;
}

void mem_command_deregister(struct mem_table *t, uint32_t tag)
{
	struct mem_entry *e = table_find(t, tag);

	CHECK(e && e->type == MEM_ISCSI_REGION && table_tag(t, e) == tag);
	table_close(t, e);
	table_give(t, weft_tag_index(tag));
}
