/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/event.h"

_Static_assert(WEFT_REASON_COUNT <= UINT16_MAX, "a reason fits its field");

void event_source_init(struct event_source *s, uint32_t number, void *context)
{
	*s = (struct event_source){ .number = number, .context = context };
	list_init(&s->link);
}

void event_raise(struct list *events, struct event_source *s, enum weft_event_kind kind,
		 enum weft_reason reason)
{
	if (s->pending & 1U << kind)
		return;
	s->pending |= 1U << kind;
	s->reasons[kind] = (uint16_t)reason;
	if (!list_is_linked(&s->link))
		list_add_tail(events, &s->link);
}

void event_clear(struct event_source *s)
{
	s->pending = 0;
	list_remove(&s->link);
}

bool event_pop(struct list *events, struct weft_event *event)
{
	struct event_source *s;
	uint32_t kind;

	if (list_is_empty(events))
		return false;
	s = CONTAINER_OF(events->next, struct event_source, link);
	kind = (uint32_t)__builtin_ctz(s->pending);
	*event = (struct weft_event){
		.kind = (enum weft_event_kind)kind,
		.reason = (enum weft_reason)s->reasons[kind],
		.number = s->number,
		.state = kind == WEFT_EVENT_QP_ERROR || kind == WEFT_EVENT_PORT ? s->state : 0,
		.addr = kind == WEFT_EVENT_FAULT ? s->addr : 0,
		.context = s->context,
	};
	if (kind == WEFT_EVENT_PORT)
		s->state = 0;
	s->pending &= ~(1U << kind);
	/* To the end of the list, so that no source keeps the others waiting. */
	list_remove(&s->link);
	if (s->pending)
		list_add_tail(events, &s->link);
	return true;
}
