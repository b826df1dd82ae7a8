/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes sequences of list elements, good and bad ones, and has them judged. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rio/list.h"

enum { TEXT_BYTES_MAX = 4096 };

/* A sequence as it is being written. */
struct text {
	uint8_t bytes[TEXT_BYTES_MAX];
	struct wr w;
	uint8_t *latest; /* the element that was put last */
	struct sgl_attributes attributes;
};

void text_start(struct text *t);
size_t text_bytes(const struct text *t);

void put_attributes(struct text *t, uint8_t address_bytes);
/* At 7.1, handle 0x55. */
void put_chain(struct text *t, uint64_t address, size_t length);
/* The process is 1. */
void put_platform(struct text *t, uint32_t unit);
void put_transaction(struct text *t, enum sgl_operation operation, uint64_t length);
/* Handle 0xa1, at 0x1000. */
void put_detail(struct text *t, enum sgl_role role, uint32_t length, bool ends_buffer);
void put_immediate(struct text *t, const char *data, bool ends_buffer);
/* One good transaction of one segment. */
void put_read(struct text *t, uint32_t length);
/* Sets the flag of the latest element. */
void put_last(struct text *t);

struct rio_list *list_of(struct rio_list_limits limits);

/* Takes it from memory that is just as long, and then changes that: the list has its own copy. */
enum weft_reason take_bytes(struct rio_list *l, const uint8_t *bytes, size_t length);
enum weft_reason take(struct rio_list *l, const struct text *t);

/* What a list that begins with this sequence is refused for. */
enum weft_reason judge_within(const struct text *t, struct rio_list_limits limits);
enum weft_reason judge(const struct text *t);
