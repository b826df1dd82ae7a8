/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/list.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "rio/refusal.h"

enum {
	ELEMENTS_MAX = 4096,
	CHAINED_MAX = 16,
	ATTRIBUTES_BYTES = 8,
	KEPT_MAX = 16 /* most lists have three or four elements */
};

enum state {
	EMPTY,	/* no sequence taken yet */
	WANTS,	/* good so far, a chained sequence is missing */
	WHOLE,	/* complete and checked */
	REFUSED /* refused; see reason */
};

/* The transaction whose segments are being checked. */
struct open_transaction {
	enum sgl_operation operation; /* 0: no transaction is open */
	uint64_t length, sum;
	bool is_buffer_open; /* the last segment did not end its buffer */
};

/* An element of the flat body, as its check has decoded it. */
struct kept_element {
	struct sgl_element element;
	uint32_t end; /* in the body */
};

struct rio_list {
	struct rio_list_limits limits;
	enum state state;
	enum weft_reason reason;
	struct sgl_attributes attributes;
	bool has_attributes;

	/*
	 * The sequences without attributes and chain pointers, in list order: the flat body of the
	 * list.
	 */
	uint8_t *bytes;
	size_t used;
	/* Its first elements: walks need not decode them again. */
	struct kept_element *kept;
	uint32_t kept_count;

	/* Counted against the limits; total_bytes includes sequences still to be fetched. */
	uint32_t elements, transactions, total_bytes;
	uint64_t data_bytes;
	struct open_transaction open;

	/* Every chain pointer so far, and a stack of those still to be fetched. */
	struct sgl_chain *seen;
	uint32_t *pending;
	uint32_t seen_count, pending_count;
};

struct rio_list_limits rio_list_limits_default(void)
{
	return (struct rio_list_limits){
		.elements = ELEMENTS_MAX,
		.transactions = RIO_LIST_TRANSACTIONS_MAX,
		.chained = CHAINED_MAX,
		.bytes = RIO_LIST_BYTES_MAX,
	};
}

struct rio_list *rio_list_create(const struct rio_list_limits *limits)
{
	struct rio_list *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->limits = *limits;
	/* Never allocate 0 bytes: NULL must mean out of memory. */
	l->bytes = malloc((size_t)limits->bytes + 1);
	l->seen = calloc((size_t)limits->chained + 1, sizeof(*l->seen));
	l->pending = calloc((size_t)limits->chained + 1, sizeof(*l->pending));
	l->kept = calloc(KEPT_MAX, sizeof(*l->kept));
	if (!l->bytes || !l->seen || !l->pending || !l->kept) {
		rio_list_destroy(l);
		return NULL;
	}
	rio_list_clear(l);
	return l;
}

void rio_list_destroy(struct rio_list *list)
{
	if (!list)
		return;
	free(list->bytes);
	free(list->seen);
	free(list->pending);
	free(list->kept);
	free(list);
}

void rio_list_clear(struct rio_list *list)
{
	*list = (struct rio_list){
		.limits = list->limits,
		.attributes = sgl_attributes_default(),
		.bytes = list->bytes,
		.seen = list->seen,
		.pending = list->pending,
		.kept = list->kept,
	};
}

/* ---- transactions: RIO-15 ------------------------------------------------------------------- */

static bool has_buffer(enum sgl_operation operation)
{
	return operation == SGL_READ || operation == SGL_WRITE;
}

/* The segments of the open transaction are complete. */
static enum weft_reason transaction_end(struct rio_list *l)
{
	const struct open_transaction *o = &l->open;

	if (!has_buffer(o->operation))
		return WEFT_OK;
	if (o->sum != o->length)
		return WEFT_R_SGL_SUM;
	return o->is_buffer_open ? WEFT_R_SGL_BUFFERS : WEFT_OK;
}

static enum weft_reason transaction_begin(struct rio_list *l, const struct sgl_transaction *t)
{
	enum weft_reason reason = transaction_end(l);

	if (reason)
		return reason;
	if (l->transactions == l->limits.transactions)
		return WEFT_R_SGL_TRANSACTIONS;
	if (t->length > UINT64_MAX - l->data_bytes)
		return WEFT_R_SGL_WRAP;
	l->transactions++;
	l->data_bytes += t->length;
	l->open = (struct open_transaction){ .operation = t->operation, .length = t->length };
	return WEFT_OK;
}

static enum weft_reason segment_add(struct rio_list *l, enum sgl_role role, uint32_t length,
				    bool ends_buffer)
{
	struct open_transaction *o = &l->open;

	if (o->operation == 0)
		return WEFT_R_SGL_OUTSIDE;
	if (!has_buffer(o->operation) || (o->operation == SGL_READ) != (role == SGL_RESULT))
		return WEFT_R_SGL_SEGMENT;
	/* Compare with what is missing, so that the sum cannot overflow. */
	if (length > o->length - o->sum)
		return WEFT_R_SGL_SUM;
	o->sum += length;
	o->is_buffer_open = !ends_buffer;
	return WEFT_OK;
}

/* ---- the beginning of a sequence: RIO-13a, RIO-13b ------------------------------------------ */

/* The position of an element in its sequence. */
enum place {
	START,	/* start of the first sequence: attributes may come */
	CHAINS, /* after attributes, or start of a chained sequence: chain pointers may come */
	REST	/* after the first element of another kind */
};

static enum weft_reason attributes_set(struct rio_list *l, enum place place,
				       const struct sgl_attributes *a)
{
	if (l->has_attributes)
		return WEFT_R_SGL_ATTRIBUTES_TWICE;
	if (place != START)
		return WEFT_R_SGL_ATTRIBUTES_PLACE;
	l->has_attributes = true;
	l->attributes = *a;
	return WEFT_OK;
}

/* Do they share a byte? Neither is empty, neither wraps. */
static bool chains_overlap(const struct sgl_chain *a, const struct sgl_chain *b)
{
	return platform_is_same(a->platform, b->platform) && a->handle == b->handle &&
	       a->address <= b->address + (b->length - 1) &&
	       b->address <= a->address + (a->length - 1);
}

/*
 * AMB-27: sequences chained to this one follow the rest of it, before those chained to earlier
 * ones. nth: how many of this sequence's pointers were added before.
 */
static enum weft_reason chain_add(struct rio_list *l, const struct sgl_chain *chain, uint32_t nth)
{
	if (l->seen_count == l->limits.chained)
		return WEFT_R_SGL_CHAINED;
	for (uint32_t i = 0; i < l->seen_count; i++) {
		if (chains_overlap(chain, &l->seen[i]))
			return WEFT_R_SGL_CHAIN_LOOP;
	}
	if (chain->length > l->limits.bytes - l->total_bytes)
		return WEFT_R_SGL_BYTES;
	l->total_bytes += chain->length;
	memmove(&l->pending[nth + 1], &l->pending[nth],
		(l->pending_count - nth) * sizeof(l->pending[0]));
	l->pending[nth] = l->seen_count;
	l->pending_count++;
	l->seen[l->seen_count++] = *chain;
	return WEFT_OK;
}

/* ---- sequences ------------------------------------------------------------------------------ */

/* A sequence during its check. */
struct sequence {
	struct rd at;
	enum place place;
	uint32_t chains;     /* chain pointers so far */
	const uint8_t *rest; /* where the other elements begin; NULL: not reached */
};

static enum weft_reason element_take(struct rio_list *l, struct sequence *s,
				     const struct sgl_element *e)
{
	switch (e->kind) {
	case SGL_ATTRIBUTES:
		return attributes_set(l, s->place, &e->attributes);
	case SGL_CHAIN:
		if (s->place == REST)
			return WEFT_R_SGL_CHAIN_PLACE;
		return chain_add(l, &e->chain, s->chains++);
	case SGL_TRANSACTION:
		return transaction_begin(l, &e->transaction);
	case SGL_DETAIL:
		return segment_add(l, e->detail.role, e->detail.length, e->detail.ends_buffer);
	case SGL_IMMEDIATE:
		return segment_add(l, SGL_SOURCE, e->immediate.length, e->immediate.ends_buffer);
	case SGL_PLATFORM:
	case SGL_KIND_COUNT:
		break;
	}
	return WEFT_OK;
}

static enum place place_after(const struct sgl_element *e)
{
	return e->kind == SGL_ATTRIBUTES || e->kind == SGL_CHAIN ? CHAINS : REST;
}

/* An element of the body was taken. The rest of its sequence will be moved to `copy`. */
static void keep(struct rio_list *l, const struct sequence *s, const struct sgl_element *e)
{
	const uint8_t *copy = l->bytes + l->used;
	struct kept_element *k = &l->kept[l->kept_count];

	if (l->kept_count == KEPT_MAX)
		return;
	k->element = *e;
	k->end = (uint32_t)(l->used + (size_t)(s->at.at - s->rest));
	if (e->kind == SGL_IMMEDIATE)
		k->element.immediate.data -= s->rest - copy;
	l->kept_count++;
}

/* The Last flag stands on the last element of the list, and nowhere else (RIO-12). */
static enum weft_reason last_take(struct rio_list *l, const struct sequence *s)
{
	enum weft_reason reason;

	if (s->at.at != s->at.end || l->pending_count > 0)
		return WEFT_R_SGL_LAST_EARLY;
	reason = transaction_end(l);
	if (reason)
		return reason;
	return l->transactions == 0 ? WEFT_R_SGL_NO_TRANSACTION : WEFT_OK;
}

/* Checks every element of a sequence; at most limits.elements. */
static enum weft_reason sequence_check(struct rio_list *l, struct sequence *s)
{
	bool is_last = false;

	while (s->at.at != s->at.end) {
		const uint8_t *start = s->at.at;
		struct sgl_element e;
		enum weft_reason reason;

		if (l->elements == l->limits.elements)
			return WEFT_R_SGL_ELEMENTS;
		l->elements++;
		reason = refusal_of_sgl(sgl_next(&e, &s->at, &l->attributes));
		if (!reason)
			reason = element_take(l, s, &e);
		if (reason)
			return reason;
		s->place = place_after(&e);
		if (s->place == REST && !s->rest)
			s->rest = start;
		if (s->place == REST)
			keep(l, s, &e);
		is_last = e.is_last;
		if (is_last)
			reason = last_take(l, s);
		if (reason)
			return reason;
	}
	return is_last || l->pending_count > 0 ? WEFT_OK : WEFT_R_SGL_LAST_MISSING;
}

static enum weft_reason sequence_take(struct rio_list *l, const uint8_t *bytes, size_t length)
{
	uint8_t *copy = l->bytes + l->used;
	struct sequence s = { .place = l->state == EMPTY ? START : CHAINS };
	enum weft_reason reason;
	size_t rest_bytes;

	if (length > 0)
		memcpy(copy, bytes, length);
	s.at = rd_of(copy, length);
	reason = sequence_check(l, &s);
	if (reason || !s.rest)
		return reason;
	rest_bytes = (size_t)(s.at.end - s.rest);
	memmove(copy, s.rest, rest_bytes);
	l->used += rest_bytes;
	return WEFT_OK;
}

/* A chained sequence was counted when its pointer was taken. */
static enum weft_reason first_admit(struct rio_list *l, size_t length)
{
	if (length > l->limits.bytes)
		return WEFT_R_SGL_BYTES;
	l->total_bytes = (uint32_t)length;
	return WEFT_OK;
}

static void wanted_pop(struct rio_list *l, size_t length)
{
	CHECK(length == l->seen[l->pending[0]].length);
	l->pending_count--;
	memmove(&l->pending[0], &l->pending[1], l->pending_count * sizeof(l->pending[0]));
}

enum weft_reason rio_list_take(struct rio_list *list, const uint8_t *bytes, size_t length)
{
	if (list->state == REFUSED)
		return list->reason;
	CHECK(list->state != WHOLE);
	if (list->state == EMPTY)
		list->reason = first_admit(list, length);
	else
		wanted_pop(list, length);
	if (!list->reason)
		list->reason = sequence_take(list, bytes, length);
	if (list->reason)
		list->state = REFUSED;
	else
		list->state = list->pending_count > 0 ? WANTS : WHOLE;
	return list->reason;
}

bool rio_list_wants(const struct rio_list *list, struct sgl_chain *chain)
{
	if (list->state != WANTS)
		return false;
	*chain = list->seen[list->pending[0]];
	return true;
}

bool rio_list_is_whole(const struct rio_list *list)
{
	return list->state == WHOLE;
}

uint32_t rio_list_transactions(const struct rio_list *list)
{
	CHECK(list->state == WHOLE);
	return list->transactions;
}

uint64_t rio_list_data_bytes(const struct rio_list *list)
{
	CHECK(list->state == WHOLE);
	return list->data_bytes;
}

size_t rio_list_flat_bytes(const struct rio_list *list)
{
	CHECK(list->state == WHOLE);
	return list->used + (list->has_attributes ? ATTRIBUTES_BYTES : 0);
}

void rio_list_flat(const struct rio_list *list, struct wr *w)
{
	const struct sgl_element attributes = { .kind = SGL_ATTRIBUTES,
						.attributes = list->attributes };

	if (w->is_short || rio_list_flat_bytes(list) > (size_t)(w->end - w->at)) {
		w->is_short = true;
		return;
	}
	if (list->has_attributes)
		sgl_put(&attributes, &list->attributes, w);
	wr_bytes(w, list->bytes, list->used);
}

size_t rio_list_body_bytes(const struct rio_list *list)
{
	CHECK(list->state == WHOLE);
	return list->used;
}

void rio_list_body(const struct rio_list *list, struct wr *w)
{
	if (rio_list_body_bytes(list) > (size_t)(w->end - w->at))
		w->is_short = true;
	if (!w->is_short)
		wr_bytes(w, list->bytes, list->used);
}

bool rio_list_attributes(const struct rio_list *list, struct sgl_attributes *attributes)
{
	*attributes = list->attributes;
	return list->has_attributes;
}

/* All elements were checked before; at most limits.elements. */
void rio_list_mask_devices(struct rio_list *list, uint32_t mask)
{
	struct rd at = rd_of(list->bytes, list->used);

	CHECK(list->state == WHOLE);
	for (uint32_t i = 0; i < list->kept_count; i++) {
		struct kept_element *k = &list->kept[i];

		if (k->element.kind == SGL_TRANSACTION) {
			k->element.transaction.device &= mask;
			sgl_set_device(list->bytes + (at.at - list->bytes),
				       k->element.transaction.device);
		}
		at.at = list->bytes + k->end;
	}
	while (at.at != at.end) {
		uint8_t *start = list->bytes + (at.at - list->bytes);
		struct sgl_element e;

		CHECK(sgl_next(&e, &at, &list->attributes) == SGL_OK);
		if (e.kind == SGL_TRANSACTION)
			sgl_set_device(start, e.transaction.device & mask);
	}
}

/* ---- walking -------------------------------------------------------------------------------- */

void rio_walk_start(struct rio_walk *walk, const struct rio_list *list)
{
	CHECK(list->state == WHOLE);
	*walk = (struct rio_walk){ .list = list, .at = rd_of(list->bytes, list->used) };
}

/* The element at the position; `room` may hold it. All elements were checked before. */
static const struct sgl_element *walk_peek(const struct rio_walk *walk, struct rd *at,
					   struct sgl_element *room)
{
	const struct rio_list *l = walk->list;

	*at = walk->at;
	if (walk->nth < l->kept_count) {
		at->at = l->bytes + l->kept[walk->nth].end;
		return &l->kept[walk->nth].element;
	}
	CHECK(sgl_next(room, at, &l->attributes) == SGL_OK);
	return room;
}

/* Goes behind it. */
static void walk_on(struct rio_walk *walk, const struct rd *at, const struct sgl_element *e)
{
	walk->at = *at;
	walk->nth++;
	if (e->kind != SGL_PLATFORM)
		return;
	walk->has_platform = true;
	walk->platform = e->platform;
}

bool rio_walk_transaction(struct rio_walk *walk, struct sgl_transaction *transaction)
{
	struct sgl_element room;
	struct rd at;

	while (walk->at.at != walk->at.end) {
		const struct sgl_element *e = walk_peek(walk, &at, &room);

		walk_on(walk, &at, e);
		if (e->kind == SGL_TRANSACTION) {
			*transaction = e->transaction;
			return true;
		}
	}
	return false;
}

static void segment_of(const struct rio_walk *walk, const struct sgl_element *e,
		       struct rio_segment *s)
{
	if (e->kind == SGL_IMMEDIATE) {
		*s = (struct rio_segment){
			.where = RIO_IMMEDIATE,
			.length = e->immediate.length,
			.data = e->immediate.data,
		};
		return;
	}
	*s = (struct rio_segment){
		.where = walk->has_platform ? RIO_REMOTE : RIO_OWN,
		.length = e->detail.length,
		.platform = walk->platform,
		.handle = e->detail.handle,
		.address = e->detail.address,
	};
}

bool rio_walk_segment(struct rio_walk *walk, struct rio_segment *segment)
{
	struct sgl_element room;
	struct rd at;

	while (walk->at.at != walk->at.end) {
		const struct sgl_element *e = walk_peek(walk, &at, &room);

		if (e->kind == SGL_TRANSACTION)
			return false;
		walk_on(walk, &at, e);
		if (e->kind != SGL_PLATFORM) {
			segment_of(walk, e, segment);
			return true;
		}
	}
	return false;
}
