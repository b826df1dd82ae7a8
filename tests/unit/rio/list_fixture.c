/* SPDX-License-Identifier: BSD-2-Clause */
#include "list_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

void text_start(struct text *t)
{
	t->w = wr_of(t->bytes, sizeof(t->bytes));
	t->attributes = sgl_attributes_default();
}

size_t text_bytes(const struct text *t)
{
	return (size_t)(t->w.at - t->bytes);
}

static void put(struct text *t, struct sgl_element e)
{
	t->latest = t->w.at;
	sgl_put(&e, &t->attributes, &t->w);
	REQUIRE(!t->w.is_short);
}

void put_attributes(struct text *t, uint8_t address_bytes)
{
	t->attributes.address_bytes = address_bytes;
	put(t, (struct sgl_element){ .kind = SGL_ATTRIBUTES, .attributes = t->attributes });
}

void put_chain(struct text *t, uint64_t address, size_t length)
{
	put(t, (struct sgl_element){ .kind = SGL_CHAIN,
				     .chain = { { 7, 1 }, 0x55, (uint32_t)length, address } });
}

void put_platform(struct text *t, uint32_t unit)
{
	put(t, (struct sgl_element){ .kind = SGL_PLATFORM, .platform = { unit, 1 } });
}

void put_transaction(struct text *t, enum sgl_operation operation, uint64_t length)
{
	put(t, (struct sgl_element){ .kind = SGL_TRANSACTION,
				     .transaction = { operation, false, 3, 0, length } });
}

void put_detail(struct text *t, enum sgl_role role, uint32_t length, bool ends_buffer)
{
	put(t, (struct sgl_element){ .kind = SGL_DETAIL,
				     .detail = { role, ends_buffer, 0xa1, length, 0x1000 } });
}

void put_immediate(struct text *t, const char *data, bool ends_buffer)
{
	put(t, (struct sgl_element){ .kind = SGL_IMMEDIATE,
				     .immediate = { ends_buffer, (uint32_t)strlen(data),
						    (const uint8_t *)data } });
}

void put_read(struct text *t, uint32_t length)
{
	put_transaction(t, SGL_READ, length);
	put_detail(t, SGL_RESULT, length, true);
}

void put_last(struct text *t)
{
	sgl_set_last(t->latest);
}

struct rio_list *list_of(struct rio_list_limits limits)
{
	struct rio_list *l = rio_list_create(&limits);

	REQUIRE(l);
	return l;
}

enum weft_reason take_bytes(struct rio_list *l, const uint8_t *bytes, size_t length)
{
	uint8_t *copy = malloc(length ? length : 1);
	enum weft_reason reason;

	REQUIRE(copy);
	memcpy(copy, bytes, length);
	reason = rio_list_take(l, copy, length);
	memset(copy, 0xff, length);
	free(copy);
	return reason;
}

enum weft_reason take(struct rio_list *l, const struct text *t)
{
	return take_bytes(l, t->bytes, text_bytes(t));
}

enum weft_reason judge_within(const struct text *t, struct rio_list_limits limits)
{
	struct rio_list *l = list_of(limits);
	enum weft_reason reason = take(l, t);
	struct sgl_chain chain;

	if (reason) {
		REQUIRE(!rio_list_is_whole(l) && !rio_list_wants(l, &chain));
		REQUIRE(rio_list_take(l, t->bytes, text_bytes(t)) == reason);
	}
	rio_list_destroy(l);
	return reason;
}

enum weft_reason judge(const struct text *t)
{
	return judge_within(t, rio_list_limits_default());
}
