/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intrusive doubly linked list. The head is a link of its own; an unlinked link points at itself,
 * so removing twice is harmless and "is it on a list" needs no flag.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/check.h"

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
	l->next = l;
	l->prev = l;
}

static inline bool list_is_empty(const struct list *head)
{
	return head->next == head;
}

static inline bool list_is_linked(const struct list *l)
{
	return l->next != l;
}

static inline void list_add_tail(struct list *head, struct list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

/* Adds at the front, as for free slots that are reused last in, first out. */
static inline void list_push(struct list *head, struct list *l)
{
	list_add_tail(head->next, l);
}

static inline void list_remove(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

/* Takes the first link off a list that is not empty. */
static inline struct list *list_pop(struct list *head)
{
	struct list *l = head->next;

	list_remove(l);
	return l;
}
