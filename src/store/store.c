/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/store.h"

#include "base/check.h"

struct op_rule {
	uint32_t ability; /* enum store_abilities; 0: every device has it */
	bool has_range, has_spans, is_change, takes_fua;
};

static const struct op_rule op_rules[STORE_OP_COUNT] = {
	[STORE_READ] = { .has_range = true, .has_spans = true },
	[STORE_WRITE] = { .has_range = true,
			  .has_spans = true,
			  .is_change = true,
			  .takes_fua = true },
	[STORE_FLUSH] = { .ability = STORE_CAN_FLUSH },
	[STORE_WRITE_ZEROES] = { .ability = STORE_CAN_WRITE_ZEROES,
				 .has_range = true,
				 .is_change = true,
				 .takes_fua = true },
	[STORE_DISCARD] = { .ability = STORE_CAN_DISCARD, .has_range = true, .is_change = true },
};

enum weft_reason store_shape_check(const struct store_shape *shape)
{
	if (shape->block_bytes != 512 && shape->block_bytes != 4096)
		return WEFT_R_STORE_BLOCK;
	if (shape->size_bytes == 0 || shape->size_bytes > INT64_MAX ||
	    shape->size_bytes % shape->block_bytes != 0)
		return WEFT_R_STORE_SIZE;
	return WEFT_OK;
}

static enum weft_reason range_check(const struct store_shape *shape, const struct store_request *r)
{
	if (r->length == 0)
		return WEFT_R_STORE_LENGTH;
	if (r->offset % shape->block_bytes != 0 || r->length % shape->block_bytes != 0)
		return WEFT_R_STORE_ALIGN;
	if (r->offset > shape->size_bytes || r->length > shape->size_bytes - r->offset)
		return WEFT_R_STORE_RANGE;
	return WEFT_OK;
}

static enum weft_reason spans_check(const struct store_request *r)
{
	uint64_t sum = 0;

	if (r->span_count > STORE_SPANS_MAX || (r->span_count > 0 && !r->spans))
		return WEFT_R_STORE_SPANS;
	for (uint32_t i = 0; i < r->span_count; i++) {
		if (r->spans[i].length > r->length - sum)
			return WEFT_R_STORE_SPANS;
		sum += r->spans[i].length;
	}
	return sum == r->length ? WEFT_OK : WEFT_R_STORE_SPANS;
}

enum weft_reason store_request_check(const struct store_shape *shape, const struct store_request *r)
{
	enum weft_reason reason = WEFT_OK;
	const struct op_rule *rule;

	if ((unsigned int)r->op >= STORE_OP_COUNT)
		return WEFT_R_STORE_UNSUPPORTED;
	rule = &op_rules[r->op];
	if ((r->flags & ~(uint32_t)STORE_FUA) != 0)
		return WEFT_R_STORE_UNSUPPORTED;
	if ((r->flags & STORE_FUA) && !(rule->takes_fua && (shape->can & STORE_CAN_FUA)))
		return WEFT_R_STORE_UNSUPPORTED;
	if ((shape->can & rule->ability) != rule->ability)
		return WEFT_R_STORE_UNSUPPORTED;
	if (rule->is_change && shape->is_readonly)
		return WEFT_R_STORE_READONLY;
	if (rule->has_range)
		reason = range_check(shape, r);
	else if (r->offset != 0 || r->length != 0)
		reason = WEFT_R_STORE_LENGTH;
	if (reason != WEFT_OK)
		return reason;
	if (rule->has_spans)
		return spans_check(r);
	return r->span_count == 0 ? WEFT_OK : WEFT_R_STORE_SPANS;
}

enum weft_reason store_submit(struct store *s, struct store_request *r, uint64_t now_ns)
{
	enum weft_reason reason = store_request_check(&s->shape, r);

	if (reason != WEFT_OK)
		return reason;
	store_request_end(r, WEFT_OK, 0);
	list_init(&r->link);
	s->under_way++;
	s->calls->submit(s, r, now_ns);
	return WEFT_OK;
}

struct store_request *store_next_done(struct store *s, uint64_t now_ns)
{
	struct store_request *r = s->calls->next_done(s, now_ns);

	if (!r)
		return NULL;
	CHECK(s->under_way > 0);
	s->under_way--;
	return r;
}

uint64_t store_due(const struct store *s)
{
	return s->calls->due(s);
}

void store_expire(struct store *s, uint64_t now_ns)
{
	s->calls->expire(s, now_ns);
}

struct span store_memory(struct store *s, uint64_t offset, uint64_t length)
{
	if (offset >= s->shape.size_bytes)
		return (struct span){ 0 };
	if (length > s->shape.size_bytes - offset)
		length = s->shape.size_bytes - offset;
	return s->calls->memory(s, offset, length);
}

bool store_lend(struct store *s, struct store_loan *loan)
{
	if (!s->calls->lend)
		return false;
	CHECK(loan->offset <= s->shape.size_bytes &&
	      loan->length <= s->shape.size_bytes - loan->offset);
	s->calls->lend(s, loan);
	return true;
}

void store_loan_end(struct store_loan *loan)
{
	if (loan->bytes)
		list_remove(&loan->link);
	loan->bytes = NULL;
}

bool store_event(struct store *s, struct store_event *event)
{
	return s->calls->event(s, event);
}

bool store_settle(struct store *s, uint64_t now_ns)
{
	CHECK(s->under_way == 0);
	return !s->calls->settle || s->calls->settle(s, now_ns);
}

void store_destroy(struct store *s)
{
	CHECK(s->under_way == 0);
	s->calls->destroy(s);
}

/* ---- For devices ---------------------------------------------------------------------------- */

uint64_t store_never_due(const struct store *s)
{
	(void)s;
	return STORE_NEVER;
}

void store_nothing_expires(struct store *s, uint64_t now_ns)
{
	(void)s;
	(void)now_ns;
}

struct span store_no_memory(struct store *s, uint64_t offset, uint64_t length)
{
	(void)s;
	(void)offset;
	(void)length;
	return (struct span){ 0 };
}

bool store_no_event(struct store *s, struct store_event *event)
{
	(void)s;
	(void)event;
	return false;
}

uint64_t store_span_cut(struct span_list *l, const struct store_request *r, uint64_t skip,
			uint64_t length)
{
	uint64_t added = 0;

	for (uint32_t i = 0; i < r->span_count && added < length; i++) {
		const struct span *from = &r->spans[i];
		size_t piece;

		if (skip >= from->length) {
			skip -= from->length;
			continue;
		}
		piece = from->length - (size_t)skip;
		piece = piece < length - added ? piece : (size_t)(length - added);
		if (!span_list_add(l, from->bytes + skip, piece))
			break;
		added += piece;
		skip = 0;
	}
	return added;
}
