/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/iwarp/iwarp_world.h"

enum { GAP_MIN = 24, GAP_MAX = 80, SRQ_SLOTS = 5 };

/* Slots of each kind per end. */
static const uint8_t counts[IW_KINDS] = {
	[IW_SENDBUF] = 4, [IW_RECVBUF] = 4, [IW_TARGET] = 2,
	[IW_SOURCE] = 2,  [IW_SINK] = 3,    [IW_WORD] = 1,
};

static const uint32_t rights[IW_KINDS] = {
	[IW_SENDBUF] = WEFT_LOCAL_READ,
	[IW_RECVBUF] = WEFT_LOCAL_WRITE,
	[IW_TARGET] = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE,
	[IW_SOURCE] = WEFT_LOCAL_READ | WEFT_REMOTE_READ,
	[IW_SINK] = WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE,
	[IW_WORD] = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_ATOMIC,
};

static const char *const names[IW_KINDS] = {
	[IW_SENDBUF] = "source of Sends", [IW_RECVBUF] = "receive",	 [IW_TARGET] = "target",
	[IW_SOURCE] = "source of Reads",  [IW_SINK] = "sink of answers", [IW_WORD] = "word",
};

static uint64_t address_of(uint32_t p)
{
	return (uint64_t)(p + 1) << 40;
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

static uint64_t pattern_word(uint64_t key, uint32_t at)
{
	return prng_mix(key + at / 8 * UINT64_C(0x9e3779b97f4a7c15));
}

uint8_t iw_pattern(uint64_t key, uint32_t at)
{
	return (uint8_t)(pattern_word(key, at) >> 8 * (at % 8));
}

static uint8_t *byte_at(const struct iw_process *proc, uint32_t offset)
{
	return &proc->arena[(uint64_t)proc->chunks[offset / IW_CHUNK] * IW_CHUNK +
			    offset % IW_CHUNK];
}

void iw_fill(struct iwarp_world *w, uint32_t p, const struct iw_part *part, uint64_t key,
	     uint32_t at)
{
	struct iw_process *proc = &w->processes[p];
	uint64_t word = pattern_word(key, at);

	for (uint32_t i = 0; i < part->length; i++) {
		if ((at + i) % 8 == 0)
			word = pattern_word(key, at + i);
		proc->shadow[part->offset + i] = (uint8_t)(word >> 8 * ((at + i) % 8));
		*byte_at(proc, part->offset + i) = proc->shadow[part->offset + i];
	}
}

bool iw_equals(const struct iw_process *proc, const struct iw_part *part, uint64_t key, uint32_t at)
{
	uint64_t word = pattern_word(key, at);

	for (uint32_t i = 0; i < part->length; i++) {
		if ((at + i) % 8 == 0)
			word = pattern_word(key, at + i);
		if (*byte_at(proc, part->offset + i) != (uint8_t)(word >> 8 * ((at + i) % 8)))
			return false;
	}
	return true;
}

uint64_t iw_word_read(const struct iw_process *proc, uint32_t offset)
{
	uint64_t word;

	memcpy(&word, byte_at(proc, offset), sizeof(word));
	return word;
}

void iw_shadow_sync(struct iw_process *proc, uint32_t offset, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		proc->shadow[offset + i] = *byte_at(proc, offset + i);
}

/* ---- Arenas --------------------------------------------------------------------------------- */

static void slot_add(struct iwarp_world *w, uint32_t p, enum iw_kind kind, uint32_t end)
{
	struct iw_process *proc = &w->processes[p];
	struct iw_slot *s = &proc->slots[proc->slot_count];

	CHECK(proc->slot_count++ < IW_SLOTS);
	*s = (struct iw_slot){ .kind = kind, .end = end, .size = w->limits.slot_bytes };
	if (kind == IW_WORD)
		s->size = end == IW_NONE ? IW_WORDS * 8 : 8;
	proc->size += GAP_MIN + iw_draw(w, GAP_MAX - GAP_MIN);
	if (kind == IW_WORD)
		proc->size = (proc->size + 7) / 8 * 8;
	s->offset = proc->size;
	proc->size += s->size;
}

static void slots_lay_out(struct iwarp_world *w, uint32_t p)
{
	struct iw_process *proc = &w->processes[p];

	proc->slot_count = 0;
	proc->size = 0;
	for (uint32_t end = iw_end_next(w, p, IW_NONE); end != IW_NONE;
	     end = iw_end_next(w, p, end)) {
		for (uint32_t kind = 0; kind < IW_KINDS; kind++) {
			bool is_shared = kind == IW_RECVBUF && w->ends[end].has_srq;

			for (uint32_t i = 0; i < counts[kind] && !is_shared; i++)
				slot_add(w, p, (enum iw_kind)kind, end);
		}
	}
	for (uint32_t i = 0; i < SRQ_SLOTS && w->limits.has_srq; i++)
		slot_add(w, p, IW_RECVBUF, IW_NONE);
	slot_add(w, p, IW_WORD, IW_NONE);
	proc->size += GAP_MAX;
}

/*
 * Chunks lie in the arena in random order, so that contiguous addresses are not contiguous memory.
 */
static enum weft_reason chunks_map(struct iwarp_world *w, uint32_t p, uint32_t count)
{
	struct iw_process *proc = &w->processes[p];
	bool is_mixed = iw_draw(w, 2) == 0;
	enum weft_reason r = WEFT_OK;

	for (uint32_t i = 0; i < count; i++)
		proc->chunks[i] = i;
	for (uint32_t i = count; is_mixed && i > 1; i--) {
		uint32_t k = iw_draw(w, i), chunk = proc->chunks[i - 1];

		proc->chunks[i - 1] = proc->chunks[k];
		proc->chunks[k] = chunk;
	}
	if (!is_mixed)
		return mem_space_map(proc->space, address_of(p), (uint64_t)count * IW_CHUNK, 0);
	for (uint32_t i = 0; i < count && r == WEFT_OK; i++)
		r = mem_space_map(proc->space, address_of(p) + (uint64_t)i * IW_CHUNK, IW_CHUNK,
				  (uint64_t)proc->chunks[i] * IW_CHUNK);
	return r;
}

int iw_memory_open(struct iwarp_world *w, uint32_t p)
{
	struct iw_process *proc = &w->processes[p];
	struct weft_space_options o = { 0 };
	uint32_t count;
	uint64_t key = prng_next(&w->world.prng);

	slots_lay_out(w, p);
	count = (proc->size + IW_CHUNK - 1) / IW_CHUNK;
	proc->size = count * IW_CHUNK;
	proc->arena = aligned_alloc(IW_CHUNK, proc->size);
	proc->shadow = malloc(proc->size);
	proc->chunks = calloc(count, sizeof(*proc->chunks));
	if (!proc->arena || !proc->shadow || !proc->chunks)
		return -1;
	o.memory = proc->arena;
	o.size_bytes = proc->size;
	o.mappings_max = count;
	if (space_create(&proc->adapter, &o, &proc->space) != WEFT_OK ||
	    chunks_map(w, p, count) != WEFT_OK)
		return -1;
	iw_fill(w, p, &(struct iw_part){ 0, proc->size }, key, 0);
	memset(proc->words, 0, sizeof(proc->words));
	for (uint32_t i = 0; i < IW_WORDS; i++)
		proc->words[i].first = iw_word_read(proc, proc->slots[proc->slot_count - 1].offset +
								  8 * i);
	return 0;
}

void iw_memory_close(struct iw_process *proc)
{
	free(proc->arena);
	free(proc->shadow);
	free(proc->chunks);
	proc->arena = NULL;
	proc->shadow = NULL;
	proc->chunks = NULL;
	proc->slot_count = 0;
}

/* ---- Slots ---------------------------------------------------------------------------------- */

static bool is_remote(const struct iwarp_world *w, const struct iw_slot *s)
{
	return s->kind == IW_TARGET || s->kind == IW_SOURCE || s->kind == IW_WORD ||
	       (s->kind == IW_SINK && w->limits.policy == WEFT_POLICY_STRICT);
}

/*
 * Only targets and sources: one-touch words and shared sinks would too often leave no slot to test.
 */
static bool draw_one_touch(struct iwarp_world *w, const struct iw_slot *s)
{
	return (s->kind == IW_TARGET || s->kind == IW_SOURCE) && iw_draw(w, 3) == 0;
}

static void slot_register(struct iwarp_world *w, uint32_t p, struct iw_slot *s)
{
	struct iw_process *proc = &w->processes[p];
	const struct mem_owner owner = pd_owner(proc->pd);
	struct weft_region_options o = {
		.addr = address_of(p) + s->offset,
		.length = s->size,
		.rights = rights[s->kind],
		.is_zero_based = s->kind != IW_WORD && iw_draw(w, 4) == 0,
	};
	bool has_window = is_remote(w, s) && (s->window || w->limits.policy == WEFT_POLICY_STRICT ||
					      iw_draw(w, 2) == 0);

	if (has_window)
		o.rights |= WEFT_BIND;
	else
		o.is_one_touch = draw_one_touch(w, s);
	CHECK(mem_region_register(&proc->adapter.mem, &owner, &o, &s->region) == WEFT_OK);
	s->base = o.is_zero_based ? 0 : o.addr;
	if (has_window && s->window == 0)
		CHECK(mem_window_alloc(&proc->adapter.mem, proc->pd->number, &s->window) ==
		      WEFT_OK);
	if (has_window || !is_remote(w, s))
		return;
	s->tag = s->region;
	s->start = s->base;
	s->is_one_touch = o.is_one_touch;
}

static void slot_bind(struct iwarp_world *w, uint32_t p, struct iw_slot *s)
{
	struct iw_process *proc = &w->processes[p];
	struct weft_bind bind = {
		.window_tag = s->window,
		.region_tag = s->region,
		.addr = s->base,
		.length = s->size,
		.rights = rights[s->kind] & MEM_REMOTE_RIGHTS,
		.is_zero_based = s->kind != IW_WORD && iw_draw(w, 4) == 0,
		.is_one_touch = draw_one_touch(w, s),
	};

	CHECK(mem_window_promise(&proc->adapter.mem, proc->pd->number, &bind) == WEFT_OK);
	CHECK(mem_window_bind(&proc->adapter.mem, proc->pd->number, 0, &bind) == WEFT_OK);
	s->tag = bind.tag;
	s->window = bind.tag;
	s->start = bind.is_zero_based ? 0 : s->base;
	s->is_one_touch = bind.is_one_touch;
}

void iw_slot_open(struct iwarp_world *w, uint32_t p, struct iw_slot *s)
{
	struct mem_table *mem = &w->processes[p].adapter.mem;

	if (s->users > 0 || s->is_moving || (s->region && (s->tag || !is_remote(w, s))))
		return;
	if (s->region && !s->window) { /* replace a spent region */
		CHECK(mem_region_deregister(mem, w->processes[p].pd->number, s->region) == WEFT_OK);
		s->region = 0;
	}
	s->is_spent = false;
	s->is_qp_bound = false;
	s->is_tainted = false;
	s->is_one_touch = false;
	if (s->kind == IW_SOURCE) {
		s->key = prng_next(&w->world.prng);
		iw_fill(w, p, &(struct iw_part){ s->offset, s->size }, s->key, 0);
	}
	if (!s->region)
		slot_register(w, p, s);
	if (s->tag == 0 && s->window && s->region)
		slot_bind(w, p, s);
}

/* Had the whole Write arrived, except bytes that a later Write has changed? */
static bool is_write_whole(struct iwarp_world *w, const struct iw_end *from, uint32_t n)
{
	const struct iw_wr *wr = &from->log[n];
	const struct iw_process *to = &w->processes[w->ends[(from - w->ends) ^ 1].process];
	const struct iw_slot *s = &to->slots[wr->remote];

	for (uint32_t i = 0; i < wr->length; i++) {
		uint8_t byte = *byte_at(to, s->offset + wr->at + i);
		bool is_good = byte == iw_pattern(wr->key, i);

		for (uint32_t k = n + 1; k < from->posted && !is_good; k++) {
			const struct iw_wr *later = &from->log[k];

			is_good = later->remote == wr->remote && later->at <= wr->at + i &&
				  wr->at + i - later->at < later->length &&
				  byte == iw_pattern(later->key, wr->at + i - later->at);
		}
		if (!is_good)
			return false;
	}
	return true;
}

/* A Write whose bytes may still arrive. */
static bool is_writing(const struct iw_wr *wr, uint32_t slot)
{
	return (wr->opcode == WEFT_OP_WRITE || wr->opcode == WEFT_OP_WRITE_IMM) &&
	       wr->remote == slot && (!wr->is_forbidden || wr->is_partial) && !wr->is_dead;
}

void iw_slot_closed(struct iwarp_world *w, uint32_t p, struct iw_slot *s)
{
	struct iw_process *proc = &w->processes[p];
	uint32_t index = (uint32_t)(s - proc->slots);

	if (s->end != IW_NONE && s->kind == IW_TARGET) {
		struct iw_end *from = &w->ends[s->end ^ 1];

		iw_memory_judge(w, p);
		for (uint32_t n = from->settled; n < from->posted; n++) {
			struct iw_wr *wr = &from->log[n];

			if (!is_writing(wr, index))
				continue;
			wr->was_whole = s->is_tainted || wr->is_partial ||
					is_write_whole(w, from, n);
			wr->is_dead = true;
		}
		iw_shadow_sync(proc, s->offset, s->size);
	}
	if (s->tag)
		s->old_tag = s->tag;
	s->tag = 0;
	s->is_qp_bound = false;
}

void iw_allow_pulled(struct iwarp_world *w, uint32_t end)
{
	iw_allow_end(w, end);
	for (uint32_t r = WEFT_R_TAG_INDEX; r <= WEFT_R_TAG_INSTANCE; r++)
		iw_allow(w, end, (enum weft_reason)r);
	iw_allow(w, end, WEFT_R_SOURCE_GONE);
	iw_allow(w, end, WEFT_R_SINK_GONE);
	iw_allow(w, end, WEFT_R_READ_SINK);
	iw_allow(w, end, WEFT_R_PEER_RECEIVE);
	iw_allow(w, end ^ 1, WEFT_R_PEER_TERMINATED);
	iw_allow(w, end ^ 1, WEFT_R_PEER_RECEIVE);
	iw_allow(w, end ^ 1, WEFT_R_TAG_INVALID);
	iw_allow(w, end ^ 1, WEFT_R_TAG_PD);
}

/* Marks the owner's requests that use the slot being taken back. */
static void pull_users(struct iwarp_world *w, uint32_t p, const struct iw_slot *s)
{
	struct iw_process *proc = &w->processes[p];
	uint32_t index = (uint32_t)(s - proc->slots);

	for (uint32_t end = iw_end_next(w, p, IW_NONE); end != IW_NONE;
	     end = iw_end_next(w, p, end)) {
		struct iw_end *e = &w->ends[end];
		struct iw_recv_queue *q = e->has_srq ? &proc->srq_recvs : &e->recvs;
		bool is_used = false;

		for (uint32_t n = e->ended; n < e->posted; n++) {
			if (e->log[n].slot != index)
				continue;
			is_used = true;
			e->log[n].is_local_bad = true;
			e->log[n].is_dead = e->log[n].is_dead || s->kind == IW_SINK;
		}
		for (uint32_t i = 0; i < q->count; i++) {
			struct iw_recv *recv = &q->recvs[(q->first + i) % IW_RECVS];

			if (recv->slot != index)
				continue;
			is_used = true;
			recv->is_local_bad = true;
			recv->is_dead = true;
		}
		if (!is_used)
			continue;
		iw_allow_pulled(w, end);
	}
}

/* Marks the peers' requests that use it: they find it closed. */
static void pull_peers(struct iwarp_world *w, uint32_t p, const struct iw_slot *s)
{
	const struct iw_slot *slots = w->processes[p].slots;

	for (uint32_t end = iw_end_next(w, p, IW_NONE); end != IW_NONE;
	     end = iw_end_next(w, p, end)) {
		if (s->end != end && s->end != IW_NONE)
			continue;
		iw_allow_end(w, end);
		for (uint32_t r = WEFT_R_TAG_INDEX; r <= WEFT_R_TAG_INSTANCE; r++)
			iw_allow(w, end, (enum weft_reason)r);
		iw_allow(w, end, WEFT_R_SOURCE_GONE);
		iw_allow(w, end ^ 1, WEFT_R_TAG_INVALID);
		iw_allow(w, end ^ 1, WEFT_R_TAG_PD);
		iw_allow(w, end ^ 1, WEFT_R_PEER_TERMINATED);
		for (uint32_t n = w->ends[end ^ 1].ended; n < w->ends[end ^ 1].posted; n++) {
			struct iw_wr *wr = &w->ends[end ^ 1].log[n];

			wr->is_pulled = wr->is_pulled || wr->remote == (uint32_t)(s - slots);
		}
	}
}

bool iw_slot_is_reached(struct iwarp_world *w, uint32_t p, const struct iw_slot *s)
{
	static const enum mem_kind kinds[IW_KINDS] = {
		[IW_TARGET] = MEM_REMOTE_WRITE,
		[IW_SOURCE] = MEM_REMOTE_READ,
		[IW_SINK] = MEM_READ_SINK,
		[IW_WORD] = MEM_REMOTE_ATOMIC,
	};
	struct iw_process *proc = &w->processes[p];
	const struct mem_access access = {
		.addr = s->start,
		.length = 8,
		.tag = s->tag,
		.pd = proc->pd->number,
		.qp = s->end == IW_NONE ? 0 : w->ends[s->end].qp_number,
		.kind = kinds[s->kind],
	};
	struct mem_grant grant;

	return s->tag != 0 && mem_access_check(&proc->adapter.mem, &access, &grant) == WEFT_OK;
}

void iw_slot_pull(struct iwarp_world *w, uint32_t p, struct iw_slot *s)
{
	struct iw_process *proc = &w->processes[p];
	struct mem_table *mem = &proc->adapter.mem;
	uint32_t pd = proc->pd->number;

	if (!s->region || s->is_moving)
		return;
	iw_memory_judge(w, p);
	iw_shadow_sync(proc, s->offset, s->size);
	if (is_remote(w, s))
		pull_peers(w, p, s);
	pull_users(w, p, s);
	/* A one-touch tag may be spent and closed already. */
	if (s->window && s->tag)
		(void)mem_window_unbind(mem, pd, s->tag);
	if (!s->window || s->kind == IW_SINK || iw_draw(w, 2) == 0) {
		CHECK(mem_region_deregister(mem, pd, s->region) == WEFT_OK);
		s->region = 0;
	}
	iw_slot_closed(w, p, s);
	/* New content exposes a transfer that still reads the slot. */
	s->key = prng_next(&w->world.prng);
	if (s->kind == IW_SENDBUF || s->kind == IW_SOURCE)
		iw_fill(w, p, &(struct iw_part){ s->offset, s->size }, s->key, 0);
}

struct iw_slot *iw_slot_draw(struct iwarp_world *w, uint32_t end, enum iw_kind kind)
{
	struct iw_process *proc = iw_owner(w, end);
	uint32_t first = iw_draw(w, proc->slot_count);
	uint32_t owner = end;

	if (kind == IW_RECVBUF && w->ends[end].has_srq)
		owner = IW_NONE;
	for (uint32_t i = 0; i < proc->slot_count; i++) {
		struct iw_slot *s = &proc->slots[(first + i) % proc->slot_count];

		if (s->kind != kind || s->end != owner || s->users > 0 || !s->region)
			continue;
		if (kind == IW_SINK && is_remote(w, s) && (!s->tag || s->is_moving))
			continue;
		return s;
	}
	return NULL;
}

/* ---- The judge of bytes --------------------------------------------------------------------- */

/* May a corrupted frame be in progress? Frames are placed before their CRC is known. */
static bool is_corruption_live(const struct iwarp_world *w, uint32_t p)
{
	for (uint32_t end = 0; end < 2 * w->limits.link_count; end++) {
		if (w->ends[end].process == p && !w->ends[end].is_frozen &&
		    w->links[end / 2].ends[end % 2].is_corrupted)
			return true;
	}
	return false;
}

static bool is_in(const struct iw_part *parts, uint32_t count, uint32_t offset, uint32_t *at)
{
	*at = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (offset >= parts[i].offset && offset - parts[i].offset < parts[i].length) {
			*at += offset - parts[i].offset;
			return true;
		}
		*at += parts[i].length;
	}
	return false;
}

/* A Write in flight from the peer puts this byte here. */
static bool is_written(const struct iwarp_world *w, const struct iw_process *proc,
		       const struct iw_slot *s, uint32_t offset)
{
	const struct iw_end *from = &w->ends[s->end ^ 1];
	uint32_t index = (uint32_t)(s - proc->slots), at = offset - s->offset;

	for (uint32_t n = from->settled; n < from->posted; n++) {
		const struct iw_wr *wr = &from->log[n];

		if (is_writing(wr, index) && at >= wr->at && at - wr->at < wr->length &&
		    *byte_at(proc, offset) == iw_pattern(wr->key, at - wr->at))
			return true;
	}
	return false;
}

/* The answer to a Read or atomic of the slot's own end is arriving. */
static bool is_answered(const struct iwarp_world *w, const struct iw_process *proc,
			const struct iw_slot *s, uint32_t offset)
{
	const struct iw_end *e = &w->ends[s->end];
	bool is_wild = is_corruption_live(w, e->process);
	uint32_t at;

	for (uint32_t n = e->ended; n < e->posted; n++) {
		const struct iw_wr *wr = &e->log[n];

		if (wr->slot != (uint32_t)(s - proc->slots) || wr->is_dead ||
		    !is_in(wr->parts, wr->part_count, offset, &at))
			continue;
		if (wr->opcode != WEFT_OP_READ || is_wild ||
		    *byte_at(proc, offset) == iw_pattern(wr->key, wr->at + at))
			return true;
	}
	return false;
}

/*
 * A receive is being filled: of an end's own queue only the oldest, once its owner has polled all
 * completions.
 */
static bool is_received(const struct iwarp_world *w, const struct iw_process *proc,
			const struct iw_slot *s, uint32_t offset)
{
	const struct iw_recv_queue *q = s->end == IW_NONE ? &proc->srq_recvs
							  : &w->ends[s->end].recvs;
	bool is_any = s->end == IW_NONE || proc->cq->count > 0;
	uint32_t at;

	for (uint32_t i = 0; i < q->count && (i == 0 || is_any); i++) {
		const struct iw_recv *recv = &q->recvs[(q->first + i) % IW_RECVS];

		if (recv->slot == (uint32_t)(s - proc->slots) && !recv->is_dead &&
		    is_in(recv->parts, recv->part_count, offset, &at))
			return true;
	}
	return false;
}

/* May the byte differ from its former value? */
static bool is_explained(struct iwarp_world *w, uint32_t p, struct iw_slot *s, uint32_t offset)
{
	struct iw_process *proc = &w->processes[p];

	switch (s->kind) {
	case IW_TARGET:
		if (!s->is_tainted && is_written(w, proc, s, offset))
			return true;
		break;
	case IW_SINK:
		if (is_answered(w, proc, s, offset))
			return true;
		break;
	case IW_RECVBUF:
		return is_received(w, proc, s, offset);
	case IW_WORD:
		return true; /* checked as words */
	default:
		return false;
	}
	if (!s->is_tainted && !is_corruption_live(w, p))
		return false;
	/* A corrupted frame may change any byte that the peer may write to. */
	s->is_tainted = true;
	proc->shadow[offset] = *byte_at(proc, offset);
	return true;
}

static struct iw_slot *slot_at(struct iw_process *proc, uint32_t offset)
{
	for (uint32_t i = 0; i < proc->slot_count; i++) {
		struct iw_slot *s = &proc->slots[i];

		if (offset >= s->offset && offset - s->offset < s->size)
			return s;
	}
	return NULL;
}

/*
 * A word of one peer has a value that its requests gave it. A word that all peers increment has
 * counted at least the completed and at most the sent increments.
 */
static void words_judge(struct iwarp_world *w, uint32_t p)
{
	const struct iw_process *proc = &w->processes[p];

	for (uint32_t i = 0; i < proc->slot_count; i++) {
		const struct iw_slot *s = &proc->slots[i];
		uint64_t value = s->kind == IW_WORD ? iw_word_read(proc, s->offset) : 0;
		const struct iw_end *from = &w->ends[(s->end == IW_NONE ? 0 : s->end) ^ 1];
		bool is_good = value == from->word_now;

		if (s->kind != IW_WORD)
			continue;
		for (uint32_t k = 0; s->end == IW_NONE && k < IW_WORDS; k++) {
			const struct iw_word *word = &proc->words[k];
			uint64_t sum = iw_word_read(proc, s->offset + 8 * k) - word->first;

			if (sum < word->done || sum > word->posted - word->unsent)
				iw_fail(w,
					"process %u: word %u was added to %u to %u times, not %u",
					p, k, word->done, word->posted - word->unsent,
					(uint32_t)sum);
		}
		for (uint32_t n = 0; n < from->posted && !is_good; n++) {
			const struct iw_wr *wr = &from->log[n];
			bool is_open = !wr->is_ended || wr->is_dropped;

			is_good = wr->word == IW_NONE && wr->remote == i && is_open &&
				  !wr->is_forbidden && value == wr->after;
		}
		if (s->end != IW_NONE && !is_good)
			iw_fail(w, "process %u: a word has a value that no request gave it", p);
	}
}

void iw_memory_judge(struct iwarp_world *w, uint32_t p)
{
	struct iw_process *proc = &w->processes[p];

	for (uint32_t chunk = 0; chunk < proc->size / IW_CHUNK; chunk++) {
		uint32_t first = chunk * IW_CHUNK;

		if (memcmp(byte_at(proc, first), proc->shadow + first, IW_CHUNK) == 0)
			continue;
		for (uint32_t i = first; i < first + IW_CHUNK; i++) {
			struct iw_slot *s;

			if (*byte_at(proc, i) == proc->shadow[i])
				continue;
			s = slot_at(proc, i);
			if (s && is_explained(w, p, s, i))
				continue;
			iw_fail(w, "process %u: byte 0x%x (%s) is %02x, should be %02x", p, i,
				s ? names[s->kind] : "canary", *byte_at(proc, i), proc->shadow[i]);
			return;
		}
	}
	words_judge(w, p);
}
