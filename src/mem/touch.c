/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem/table.h"

/* Sequence numbers are compared modulo 2^32 (TOUCH-09). */
static bool sn_is_after(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

enum touch_action touch_decide(const struct touch_input *in)
{
	const struct touch_stream *s = &in->stream;

	if (!in->is_one_touch)
		return TOUCH_PLACE;
	if (!in->is_last) {
		/* TOUCH-07: once the end of the message is known, nothing lies beyond it. */
		if (in->is_touched && sn_is_after(s->end_sn, in->stored_sn))
			return TOUCH_REFUSE;
		return TOUCH_PLACE;
	}
	if (in->is_touched)
		return s->end_sn == in->stored_sn ? TOUCH_DROP : TOUCH_CLOSE_AND_REFUSE;
	/*
	 * In order: with it, TCP has everything up to its end, which is next_sn - 1 unless bytes
	 * beyond it were waiting for the gap that it filled.
	 */
	if (s->end_sn - s->expected_sn < s->next_sn - s->expected_sn)
		return TOUCH_PLACE_AND_CLOSE;
	if (s->end_sn - s->next_sn < s->window)
		return TOUCH_PLACE_AND_STORE;
	return TOUCH_DROP;
}

void touch_close(struct mem_table *t, struct mem_entry *e)
{
	table_close(t, e);
	e->touch = MEM_ONE_TOUCH | MEM_SPENT;
	if (e->is_by_queue)
		table_give(t, (uint32_t)(e - t->entries));
}

/* The valid one-touch entry that the tag names now, or NULL. */
static struct mem_entry *touch_entry(const struct mem_table *t, uint32_t tag)
{
	struct mem_entry *e = table_find(t, tag);

	if (!e || e->state != MEM_VALID || e->instance != weft_tag_instance(tag))
		return NULL;
	return e->touch & MEM_ONE_TOUCH ? e : NULL;
}

enum weft_reason mem_touch_segment(struct mem_table *t, uint32_t tag, bool is_last,
				   const struct touch_stream *stream, bool *is_placed)
{
	struct mem_entry *e = touch_entry(t, tag);
	struct touch_input in = { .is_last = is_last, .stream = *stream };

	if (e) {
		in.is_one_touch = true;
		in.is_touched = e->touch & MEM_TOUCHED;
		in.stored_sn = e->stored_sn;
	}
	*is_placed = true;
	switch (touch_decide(&in)) {
	case TOUCH_PLACE:
		break;
	case TOUCH_PLACE_AND_CLOSE:
		touch_close(t, e);
		break;
	case TOUCH_PLACE_AND_STORE:
		e->touch |= MEM_TOUCHED;
		e->stored_sn = stream->end_sn;
		/* Sequence numbers of other streams mean something else. */
		if (e->qp == 0)
			table_set_qp(t, e, stream->qp);
		break;
	case TOUCH_DROP:
		*is_placed = false;
		break;
	case TOUCH_CLOSE_AND_REFUSE:
		touch_close(t, e);
		*is_placed = false;
		return WEFT_R_TOUCH_SECOND;
	case TOUCH_REFUSE:
		*is_placed = false;
		return WEFT_R_TOUCH_BEYOND;
	}
	return WEFT_OK;
}

void mem_touch_advance(struct mem_table *t, uint32_t tag, uint32_t next_sn)
{
	struct mem_entry *e = touch_entry(t, tag);

	if (e && (e->touch & MEM_TOUCHED) && sn_is_after(next_sn, e->stored_sn))
		touch_close(t, e);
}

bool mem_touch_is_once(const struct mem_table *t, uint32_t tag)
{
	return touch_entry(t, tag) != NULL;
}

void mem_touch_message(struct mem_table *t, uint32_t tag)
{
	struct mem_entry *e = touch_entry(t, tag);

	if (e)
		touch_close(t, e);
}
