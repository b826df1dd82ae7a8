/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/check.h"
#include "sim/loopback/verbs_world.h"

enum { PAGE = 4096, DRAWS = 8, REMOTE = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC };

struct model_tag *draw_tag(struct verbs_world *w, uint32_t p, enum model_tag_kind kind)
{
	struct model_tag *tags = w->model.tags;
	uint32_t first = draw(w, MODEL_TAGS);

	for (uint32_t i = 0; i < MODEL_TAGS; i++) {
		struct model_tag *t = &tags[(first + i) % MODEL_TAGS];

		if (t->kind == kind && t->process == p)
			return t;
	}
	return NULL;
}

/* Mostly a multiple of eight, so that atomics are aligned. */
static uint64_t mostly_aligned(struct verbs_world *w, uint64_t value)
{
	return draw(w, 4) == 0 ? value : value & ~(uint64_t)7;
}

/*
 * Makes the range slightly wrong: a neighbouring tag, an old tag, a byte too far, another process's
 * tag, or anything.
 */
static void spoil_range(struct verbs_world *w, struct weft_sge *range)
{
	switch (draw(w, 7)) {
	case 0:
		range->tag += 1;
		break;
	case 1:
		range->tag ^= 1U << draw(w, 32);
		break;
	case 2:
		range->addr -= 1;
		break;
	case 3:
		range->length += 1 + draw(w, 64);
		break;
	case 4:
		range->tag = w->model.tags[draw(w, MODEL_TAGS)].tag;
		break;
	case 5:
		range->addr = UINT64_MAX - draw(w, 64);
		break;
	default:
		range->tag = (uint32_t)prng_next(&w->world.prng);
		break;
	}
}

/* Would a correct process use the region for this? */
static bool is_usable(struct verbs_world *w, const struct model_tag *t, uint32_t rights)
{
	const struct model_qp anyone = { .process = t->process };
	const struct weft_sge all = { .addr = t->start,
				      .length = (uint32_t)t->length,
				      .tag = t->tag };

	return t->is_valid && (t->rights & rights) == rights &&
	       (!(t->rights & WEFT_LOCAL_READ) ||
		model_may(&w->model, &anyone, &all, MODEL_LOCAL_READ));
}

void draw_range(struct verbs_world *w, uint32_t p, struct weft_sge *range, uint32_t rights)
{
	const struct model_tag *t = NULL;
	uint64_t offset;

	*range = (struct weft_sge){ 0 };
	for (uint32_t i = 0; i < DRAWS && !(t && is_usable(w, t, rights)); i++)
		t = draw_tag(w, p, MODEL_TAG_REGION);
	if (t && (is_usable(w, t, rights) || is_mischief(w))) {
		offset = mostly_aligned(w, prng_next(&w->world.prng) % t->length);
		range->tag = t->tag;
		range->addr = t->start + offset;
		range->length = (uint32_t)(t->length - offset);
	}
	if (is_mischief(w))
		spoil_range(w, range);
}

/* A range of own addresses: mostly inside one mapping, or across two. */
static void draw_addresses(struct verbs_world *w, uint32_t p, uint64_t *addr, uint64_t *length)
{
	const struct model_process *mp = &w->model.processes[p];
	const struct model_mapping *map;
	uint64_t offset;

	*addr = prng_next(&w->world.prng);
	*length = 1 + draw(w, 1024);
	if (mp->mapping_count == 0)
		return;
	map = &mp->mappings[draw(w, mp->mapping_count)];
	offset = mostly_aligned(w, prng_next(&w->world.prng) % map->length);
	*addr = map->addr + offset;
	if (!is_mischief(w) && *length > map->length - offset)
		*length = map->length - offset;
}

void draw_region(struct verbs_world *w, uint32_t p, struct weft_region_options *o,
		 struct model_send *pages)
{
	uint32_t page_count = (uint32_t)(w->processes[p].size / PAGE);

	*o = (struct weft_region_options){ .rights = draw(w, 64) };
	o->rights |= draw(w, 64); /* each right more likely than not */
	o->is_zero_based = draw(w, 4) == 0;
	o->is_one_touch = draw(w, 8) == 0;
	if (o->is_one_touch && !is_mischief(w))
		o->rights &= ~(uint32_t)WEFT_BIND;
	if (draw(w, 4) == 0)
		o->va = mostly_aligned(w, prng_next(&w->world.prng) >> draw(w, 40));
	if (!pages || draw(w, 2) == 0) {
		draw_addresses(w, p, &o->addr, &o->length);
		return;
	}
	pages->list = (struct weft_page_list){
		.pages = pages->pages,
		.page_size_bytes = PAGE << draw(w, 2),
		.count = 1 + draw(w, MODEL_PAGES),
		.order = (enum weft_order)draw(w, 4),
	};
	pages->list.first_offset = mostly_aligned(w,
						  draw(w, (uint32_t)pages->list.page_size_bytes));
	for (uint32_t i = 0; i < pages->list.count; i++) {
		uint64_t page = (uint64_t)draw(w, page_count) * PAGE;

		pages->pages[i] = page - page % pages->list.page_size_bytes;
	}
	o->length = pages->list.count * pages->list.page_size_bytes - pages->list.first_offset;
	o->length -= draw(w, (uint32_t)(o->length < PAGE ? o->length : PAGE));
	if (is_mischief(w))
		pages->pages[0] += 1 + draw(w, PAGE);
	o->pages = &pages->list;
}

/* A refusal that the model does not predict must be for lack of room. */
static void compare(struct verbs_world *w, enum weft_reason r, bool is_allowed, const char *what)
{
	bool is_full = r == WEFT_R_TABLE_FULL && model_tags_used(&w->model) == w->limits.tags_max;

	if (r == WEFT_R_TRANSLATIONS_FULL && w->limits.is_tight)
		return;
	if (is_full || (r == WEFT_OK) == is_allowed)
		return;
	model_fail(&w->model, "%s: got %s, but it is %s", what, weft_reason_name(r),
		   is_allowed ? "allowed" : "forbidden");
}

void act_register(struct verbs_world *w, uint32_t p)
{
	const struct mem_owner owner = pd_owner(w->processes[p].pd);
	struct weft_region_options o;
	struct model_send pages = { 0 };
	uint32_t tag;
	enum weft_reason r;
	bool is_allowed;

	draw_region(w, p, &o, &pages);
	is_allowed = model_can_register(&w->model, p, &o);
	r = mem_region_register(&w->adapter.mem, &owner, &o, &tag);
	compare(w, r, is_allowed, "register");
	if (r == WEFT_OK)
		model_register(model_tag_new(&w->model, p, tag, MODEL_TAG_REGION), &o);
}

void act_share(struct verbs_world *w, uint32_t p)
{
	const struct mem_owner owner = pd_owner(w->processes[p].pd);
	const struct model_tag *old = draw_tag(w, p, MODEL_TAG_REGION);
	struct weft_region_options o = { .rights = draw(w, 64), .is_zero_based = draw(w, 2) };
	uint32_t tag;
	enum weft_reason r;

	if (!old)
		return;
	r = mem_region_share(&w->adapter.mem, &owner, old->tag, &o, &tag);
	compare(w, r, old->is_valid, "share");
	if (r == WEFT_OK) {
		struct model_tag *t = model_tag_new(&w->model, p, tag, MODEL_TAG_REGION);
		uint64_t start = o.is_zero_based ? 0 : old->start;

		*t = *old;
		t->tag = tag;
		t->rights = o.rights;
		t->start = start;
		t->is_one_touch = false;
		t->is_by_queue = false;
	}
}

void act_deregister(struct verbs_world *w, uint32_t p)
{
	struct model_tag *t = draw_tag(w, p, MODEL_TAG_REGION);
	uint32_t pd = w->processes[p].pd->number;
	enum weft_reason r;

	if (!t)
		return;
	if (t->is_by_queue)
		r = mem_tag_release(&w->adapter.mem, pd, t->tag);
	else
		r = mem_region_deregister(&w->adapter.mem, pd, t->tag);
	compare(w, r, !model_region_has_windows(&w->model, t), "deregister");
	if (r == WEFT_OK)
		t->kind = MODEL_TAG_FREE;
}

void act_reserve(struct verbs_world *w, uint32_t p)
{
	struct model_tag *t = draw_tag(w, p, MODEL_TAG_RESERVED);
	uint32_t pd = w->processes[p].pd->number, tag;
	enum weft_reason r;

	if (t && draw(w, 2) == 0) {
		r = mem_tag_release(&w->adapter.mem, pd, t->tag);
		compare(w, r, true, "release");
		t->kind = MODEL_TAG_FREE;
		return;
	}
	r = mem_tag_reserve(&w->adapter.mem, pd, &tag);
	compare(w, r, true, "reserve");
	if (r == WEFT_OK)
		model_tag_new(&w->model, p, tag, MODEL_TAG_RESERVED)->is_by_queue = true;
}

void act_window(struct verbs_world *w, uint32_t p)
{
	struct model_tag *t = draw_tag(w, p, MODEL_TAG_WINDOW);
	uint32_t pd = w->processes[p].pd->number, tag;
	enum weft_reason r;

	if (t && draw(w, 3) == 0) {
		r = mem_window_free(&w->adapter.mem, pd, t->tag);
		compare(w, r, !t->is_valid && !model_is_bind_queued(&w->model, t->tag),
			"free window");
		if (r == WEFT_OK)
			t->kind = MODEL_TAG_FREE;
		return;
	}
	r = mem_window_alloc(&w->adapter.mem, pd, &tag);
	compare(w, r, true, "window");
	if (r == WEFT_OK)
		model_tag_new(&w->model, p, tag, MODEL_TAG_WINDOW);
}

void draw_bind(struct verbs_world *w, uint32_t p, struct weft_bind *bind)
{
	const struct model_tag *window = draw_tag(w, p, MODEL_TAG_WINDOW);
	uint32_t rights = WEFT_BIND | REMOTE;
	struct weft_sge range;

	if (w->model.policy == WEFT_POLICY_OPEN)
		rights = WEFT_BIND | WEFT_LOCAL_READ | WEFT_LOCAL_WRITE;
	draw_range(w, p, &range, rights);
	*bind = (struct weft_bind){
		.window_tag = window ? window->tag : 0,
		.region_tag = range.tag,
		.addr = range.addr,
		.length = range.length,
		.rights = (uint32_t)WEFT_REMOTE_READ << draw(w, 3),
		.is_zero_based = draw(w, 4) == 0,
		.is_one_touch = draw(w, 4) == 0,
	};
	bind->rights |= (uint32_t)WEFT_REMOTE_READ << draw(w, 3);
}

/* Binds without a queue. True: it was done, and the model has it. */
static bool bind_now(struct verbs_world *w, uint32_t p, struct weft_bind *bind)
{
	uint32_t pd = w->processes[p].pd->number;
	bool is_allowed = model_can_bind(&w->model, p, bind);
	enum weft_reason r = mem_window_promise(&w->adapter.mem, pd, bind);

	if (r == WEFT_OK)
		r = mem_window_bind(&w->adapter.mem, pd, 0, bind);
	compare(w, r, is_allowed, "bind");
	if (r == WEFT_OK && is_allowed)
		model_bind(&w->model, bind, 0);
	return r == WEFT_OK && is_allowed && bind->length > 0;
}

void act_bind(struct verbs_world *w, uint32_t p)
{
	struct model_tag *window = draw_tag(w, p, MODEL_TAG_WINDOW);
	struct weft_bind bind;
	enum weft_reason r;

	if (window && window->is_valid && draw(w, 3) == 0) {
		r = mem_window_unbind(&w->adapter.mem, w->processes[p].pd->number, window->tag);
		compare(w, r, true, "unbind");
		window->is_valid = false;
		return;
	}
	draw_bind(w, p, &bind);
	bind_now(w, p, &bind);
}

void act_map(struct verbs_world *w, uint32_t p)
{
	struct model_process *mp = &w->model.processes[p];
	struct process *proc = &w->processes[p];
	struct model_mapping map;
	uint32_t i;

	if (mp->mapping_count == MODEL_MAPPINGS || (mp->mapping_count > 0 && draw(w, 8) == 0)) {
		i = draw(w, mp->mapping_count);
		compare(w, mem_space_unmap(proc->space, mp->mappings[i].addr), true, "unmap");
		mp->mappings[i] = mp->mappings[--mp->mapping_count];
		return;
	}
	map.length = mostly_aligned(w, 64 + draw(w, (uint32_t)(proc->size / 2)));
	map.real = (uint64_t)draw(w, (uint32_t)((proc->size - map.length) / 8 + 1)) * 8;
	if (draw(w, 8) == 0)
		map.real = WEFT_REAL_NONE;
	map.addr = mostly_aligned(w, (UINT64_C(1) << 40) + draw(w, 1 << 20));
	/* Half of the mappings begin where another ends, so that ranges span both. */
	if (mp->mapping_count > 0 && draw(w, 2) == 0) {
		i = draw(w, mp->mapping_count);
		map.addr = mp->mappings[i].addr + mp->mappings[i].length;
	}
	if (mem_space_map(proc->space, map.addr, map.length, map.real) == WEFT_OK)
		mp->mappings[mp->mapping_count++] = map;
}

/* The process itself writes to its memory. */
void act_scribble(struct verbs_world *w, uint32_t p)
{
	struct process *proc = &w->processes[p];
	uint32_t at = draw(w, (uint32_t)proc->size), n = 1 + draw(w, 32);

	for (uint32_t i = at; i < proc->size && i < at + n; i++) {
		proc->arena[i] = (uint8_t)prng_next(&w->world.prng);
		w->model.processes[p].shadow[i] = proc->arena[i];
	}
}

/* ---- Telling each other ---------------------------------------------------------------------- */

static struct weft_advert advert_of(const struct model_tag *t)
{
	return (struct weft_advert){
		.addr = t->start,
		.length = t->length,
		.tag = t->tag,
		.rights = t->rights & REMOTE,
	};
}

void act_advertise(struct verbs_world *w, uint32_t p)
{
	enum model_tag_kind kind = draw(w, 3) == 0 ? MODEL_TAG_REGION : MODEL_TAG_WINDOW;
	const struct model_tag *t = draw_tag(w, p, kind);
	uint32_t to = draw(w, w->limits.process_count);
	uint8_t bytes[WEFT_ADVERT_BYTES];
	struct weft_advert advert;

	if (!t || to == p)
		return;
	advert = advert_of(t);
	weft_advert_encode(&advert, bytes);
	sim_datagram_send(&w->processes[to].gossip, bytes, sizeof(bytes));
}

void process_heard(struct verbs_world *w, uint32_t p, const struct weft_advert *advert)
{
	struct process *proc = &w->processes[p];
	uint32_t slot = proc->known_count;

	if (slot == KNOWN_MAX)
		slot = draw(w, KNOWN_MAX);
	else
		proc->known_count++;
	proc->known[slot] = *advert;
}

/* An ask is an advertisement without a tag: the wanted length and rights. */
void act_ask(struct verbs_world *w, uint32_t p)
{
	const struct weft_advert ask = {
		.length = 1 + draw(w, 2048),
		.rights = WEFT_REMOTE_READ << draw(w, 3),
	};

	link_send(w, &w->links[2 * p], &ask);
}

bool process_asked(struct verbs_world *w, uint32_t p, struct weft_advert *advert)
{
	struct weft_bind bind;

	draw_bind(w, p, &bind);
	bind.rights = advert->rights;
	if (bind.length > advert->length)
		bind.length = advert->length;
	if (!bind_now(w, p, &bind))
		return false;
	*advert = advert_of(model_tag_find(&w->model, bind.tag));
	return true;
}
