/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/loopback/model.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"

enum {
	REMOTE = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC,
	ALL = REMOTE | WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_BIND
};

void model_fail(struct model *m, const char *format, ...)
{
	va_list args;

	if (m->failure[0])
		return;
	va_start(args, format);
	vsnprintf(m->failure, sizeof(m->failure), format, args);
	va_end(args);
}

struct model_tag *model_tag_find(struct model *m, uint32_t tag)
{
	for (uint32_t i = 0; i < MODEL_TAGS; i++) {
		if (m->tags[i].kind != MODEL_TAG_FREE && m->tags[i].tag == tag)
			return &m->tags[i];
	}
	return NULL;
}

struct model_tag *model_tag_new(struct model *m, uint32_t process, uint32_t tag,
				enum model_tag_kind kind)
{
	for (uint32_t i = 0; i < MODEL_TAGS; i++) {
		struct model_tag *t = &m->tags[i];

		if (t->kind != MODEL_TAG_FREE && weft_tag_index(t->tag) == weft_tag_index(tag))
			model_fail(m, "tag 0x%08x has the index of a live entry", tag);
	}
	for (uint32_t i = 0; i < MODEL_TAGS; i++) {
		struct model_tag *t = &m->tags[i];

		if (t->kind == MODEL_TAG_FREE) {
			*t = (struct model_tag){ .kind = kind, .tag = tag, .process = process };
			return t;
		}
	}
	CHECK(false);
	return NULL;
}

uint32_t model_tags_used(const struct model *m)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < MODEL_TAGS; i++)
		n += m->tags[i].kind != MODEL_TAG_FREE;
	return n;
}

bool model_region_has_windows(const struct model *m, const struct model_tag *region)
{
	for (uint32_t i = 0; i < MODEL_TAGS; i++) {
		const struct model_tag *t = &m->tags[i];

		if (t->kind == MODEL_TAG_WINDOW && t->is_valid && &m->tags[t->region] == region)
			return true;
	}
	return false;
}

/* The mapping that holds this address, or NULL. */
static const struct model_mapping *mapping_at(const struct model_process *p, uint64_t addr)
{
	for (uint32_t i = 0; i < p->mapping_count; i++) {
		const struct model_mapping *map = &p->mappings[i];

		if (addr >= map->addr && addr - map->addr < map->length)
			return map;
	}
	return NULL;
}

/* Byte by byte: the model is simple on purpose. */
static bool is_mapped(const struct model_process *p, uint64_t addr, uint64_t length,
		      bool is_present)
{
	for (uint64_t i = 0; i < length; i++) {
		const struct model_mapping *map = mapping_at(p, addr + i);

		if (!map || (is_present && map->real == WEFT_REAL_NONE))
			return false;
	}
	return true;
}

/* The address that names the first byte of a region. */
static uint64_t region_start(const struct weft_region_options *o)
{
	if (o->is_zero_based)
		return 0;
	return o->va || o->pages ? o->va : o->addr;
}

bool model_can_register(const struct model *m, uint32_t process,
			const struct weft_region_options *o)
{
	const struct model_process *p = &m->processes[process];
	const struct weft_page_list *list = o->pages;

	if (o->length == 0 || (o->rights & ~(uint32_t)ALL))
		return false;
	if (o->length - 1 > UINT64_MAX - region_start(o))
		return false;
	if (o->is_one_touch && (o->rights & WEFT_BIND))
		return false;
	if (!list)
		return is_mapped(p, o->addr, o->length, false);
	if (!p->is_privileged)
		return false;
	if (list->first_offset >= list->page_size_bytes ||
	    list->count != (list->first_offset + o->length + list->page_size_bytes - 1) /
				   list->page_size_bytes)
		return false;
	for (uint32_t i = 0; i < list->count; i++) {
		if (list->pages[i] % list->page_size_bytes ||
		    list->pages[i] + list->page_size_bytes > p->size)
			return false;
	}
	return true;
}

void model_register(struct model_tag *t, const struct weft_region_options *o)
{
	t->kind = MODEL_TAG_REGION;
	t->is_valid = true;
	t->rights = o->rights;
	t->length = o->length;
	t->start = region_start(o);
	t->is_one_touch = o->is_one_touch;
	t->qp = 0;
	t->addr = o->addr;
	t->has_pages = o->pages != NULL;
	if (!o->pages)
		return;
	t->page_size = o->pages->page_size_bytes;
	t->first_offset = o->pages->first_offset;
	for (uint32_t i = 0; i < o->pages->count; i++)
		t->pages[i] = o->pages->pages[i];
}

static struct model_tag *window_by_index(struct model *m, uint32_t process, uint32_t tag)
{
	for (uint32_t i = 0; i < MODEL_TAGS; i++) {
		struct model_tag *t = &m->tags[i];

		if (t->kind == MODEL_TAG_WINDOW && t->process == process &&
		    weft_tag_index(t->tag) == weft_tag_index(tag))
			return t;
	}
	return NULL;
}

bool model_can_bind(struct model *m, uint32_t process, const struct weft_bind *bind)
{
	const struct model_tag *window = window_by_index(m, process, bind->window_tag);
	const struct model_tag *region = model_tag_find(m, bind->region_tag);
	uint32_t ceiling;

	if (!window || (window->is_valid && window->qp != 0))
		return false;
	if (bind->length == 0)
		return window->is_valid;
	if (!region || region->kind != MODEL_TAG_REGION || !region->is_valid ||
	    region->process != process || !(region->rights & WEFT_BIND))
		return false;
	if (bind->addr < region->start || bind->length > region->length ||
	    bind->addr - region->start > region->length - bind->length)
		return false;
	if (!region->has_pages &&
	    !is_mapped(&m->processes[process], region->addr + (bind->addr - region->start),
		       bind->length, false))
		return false;
	ceiling = region->rights & REMOTE;
	if (m->policy == WEFT_POLICY_OPEN) {
		ceiling |= region->rights & WEFT_LOCAL_READ ? WEFT_REMOTE_READ : 0;
		ceiling |= region->rights & WEFT_LOCAL_WRITE
				   ? WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC
				   : 0;
	}
	return (bind->rights & ~ceiling) == 0;
}

void model_bind(struct model *m, const struct weft_bind *bind, uint32_t qp)
{
	struct model_tag *region = model_tag_find(m, bind->region_tag);
	struct model_tag *window = NULL;

	for (uint32_t i = 0; i < MODEL_TAGS; i++) {
		struct model_tag *t = &m->tags[i];

		if (t->kind == MODEL_TAG_WINDOW &&
		    weft_tag_index(t->tag) == weft_tag_index(bind->window_tag))
			window = t;
	}
	window->tag = bind->tag;
	if (bind->length == 0) {
		window->is_valid = false;
		return;
	}
	window->is_valid = true;
	window->qp = qp;
	window->rights = bind->rights;
	window->start = bind->is_zero_based ? 0 : bind->addr;
	window->length = bind->length;
	window->is_one_touch = bind->is_one_touch;
	window->region = (uint32_t)(region - m->tags);
	window->offset = bind->addr - region->start;
}

bool model_can_invalidate(struct model *m, uint32_t process, uint32_t qp, uint32_t tag)
{
	const struct model_tag *t = model_tag_find(m, tag);

	if (!t || !t->is_valid || t->process != process || (t->qp != 0 && t->qp != qp))
		return false;
	if (t->kind == MODEL_TAG_REGION)
		return t->is_by_queue && !model_region_has_windows(m, t);
	return t->kind == MODEL_TAG_WINDOW;
}

void model_invalidate(struct model *m, uint32_t tag)
{
	struct model_tag *t = model_tag_find(m, tag);

	t->is_valid = false;
	if (t->kind == MODEL_TAG_REGION)
		t->kind = MODEL_TAG_FREE;
}

void model_touch(struct model *m, uint32_t tag)
{
	struct model_tag *t = model_tag_find(m, tag);

	if (!t || !t->is_valid || !t->is_one_touch)
		return;
	t->is_valid = false;
	if (t->is_by_queue)
		t->kind = MODEL_TAG_FREE;
}

/* The location of a byte of a region: in its process's address space, or by its page list. */
static uint8_t *region_byte(struct model *m, const struct model_tag *region, uint64_t i)
{
	struct model_process *p = &m->processes[region->process];
	const struct model_mapping *map;

	if (region->has_pages) {
		uint64_t at = region->first_offset + i;

		return &p->shadow[region->pages[at / region->page_size] + at % region->page_size];
	}
	map = mapping_at(p, region->addr + i);
	CHECK(map && map->real != WEFT_REAL_NONE);
	return &p->shadow[map->real + (region->addr + i - map->addr)];
}

uint8_t *model_byte(struct model *m, const struct weft_sge *range, uint64_t i)
{
	const struct model_tag *t = model_tag_find(m, range->tag);
	uint64_t offset = range->addr - t->start + i;

	if (t->kind == MODEL_TAG_WINDOW)
		return region_byte(m, &m->tags[t->region], t->offset + offset);
	return region_byte(m, t, offset);
}

/* Does the entry grant the right that this access needs? */
static bool is_granted(const struct model *m, const struct model_tag *t,
		       enum model_access_kind kind)
{
	switch (kind) {
	case MODEL_LOCAL_READ:
		return t->kind == MODEL_TAG_REGION && (t->rights & WEFT_LOCAL_READ);
	case MODEL_LOCAL_WRITE:
		return t->kind == MODEL_TAG_REGION && (t->rights & WEFT_LOCAL_WRITE);
	default:
		break;
	}
	if (m->policy == WEFT_POLICY_STRICT && t->kind != MODEL_TAG_WINDOW)
		return false;
	switch (kind) {
	case MODEL_REMOTE_READ:
		return t->rights & WEFT_REMOTE_READ;
	case MODEL_REMOTE_WRITE:
		return t->rights & WEFT_REMOTE_WRITE;
	case MODEL_REMOTE_ATOMIC:
		return t->rights & WEFT_REMOTE_ATOMIC;
	default:
		return (t->rights & WEFT_REMOTE_WRITE) ||
		       (m->policy == WEFT_POLICY_OPEN && t->kind == MODEL_TAG_REGION &&
			(t->rights & WEFT_LOCAL_WRITE));
	}
}

bool model_may(struct model *m, const struct model_qp *qp, const struct weft_sge *range,
	       enum model_access_kind kind)
{
	const struct model_tag *t = model_tag_find(m, range->tag), *region;
	uint64_t in_region;

	if (range->length == 0)
		return true;
	if (!t || !t->is_valid || t->process != qp->process || (t->qp != 0 && t->qp != qp->number))
		return false;
	if (range->addr < t->start || range->length > t->length ||
	    range->addr - t->start > t->length - range->length)
		return false;
	if (!is_granted(m, t, kind))
		return false;
	region = t->kind == MODEL_TAG_WINDOW ? &m->tags[t->region] : t;
	in_region = range->addr - t->start + (t->kind == MODEL_TAG_WINDOW ? t->offset : 0);
	if (!region->has_pages &&
	    !is_mapped(&m->processes[t->process], region->addr + in_region, range->length, true))
		return false;
	if (kind != MODEL_REMOTE_ATOMIC)
		return true;
	/* Eight aligned bytes, which the machine can treat as one word. */
	uint8_t *word = region_byte(m, region, in_region);

	if (range->addr % 8 || (uint64_t)(word - m->processes[t->process].shadow) % 8)
		return false;
	return region_byte(m, region, in_region + 7) == word + 7;
}
