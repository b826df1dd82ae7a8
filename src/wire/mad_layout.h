/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attributes of management as tables: where each field is among the bits of the attribute, and in
 * which member of a struct. From one table come decoding, encoding and the words of a dump.
 *
 * The tables are sm_attr.h (subnet management) and pm_attr.h (performance management).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

/*
 * A field, or `count` fields of the same form every `stride` bits. Bits count from the start of the
 * attribute, the most significant of a byte first, as IBA draws them.
 */
struct mad_field {
	const char *name;
	uint16_t bit, bits; /* of the first one; at most 64 */
	uint16_t count, stride;
	uint16_t at;   /* in the struct */
	uint16_t size; /* of an unsigned member: 1, 2, 4 or 8 */
	uint16_t max;  /* greater values are refused; 0: none is */
};

struct mad_layout {
	const char *name;
	uint16_t attribute;
	uint16_t bytes; /* of the attribute */
	uint16_t field_count;
	const struct mad_field *fields;
};

/* A value that no sender writes: WEFT_R_MAD_VALUE, and *into has not changed. */
enum weft_reason mad_layout_decode(const struct mad_layout *l, void *into, const uint8_t *bytes);

/* All bytes of the attribute; what is reserved is zero. */
void mad_layout_encode(const struct mad_layout *l, const void *from, uint8_t *bytes);

/* The value of the index-th of a field in a struct. */
uint64_t mad_field_value(const struct mad_field *f, const void *from, uint32_t index);

/* One member; an array of them, one after the other on the wire; one with a greatest value. */
#define MAD_FIELD(type, member, bit_, bits_)                                                       \
	{                                                                                          \
		.name = #member, .bit = bit_, .bits = bits_, .count = 1,                           \
		.at = offsetof(struct type, member), .size = sizeof(((struct type *)0)->member)    \
	}
#define MAD_FIELD_MAX(type, member, bit_, bits_, max_)                                             \
	{                                                                                          \
		.name = #member, .bit = bit_, .bits = bits_, .count = 1,                           \
		.at = offsetof(struct type, member), .size = sizeof(((struct type *)0)->member),   \
		.max = max_                                                                        \
	}
#define MAD_ARRAY(type, member, bit_, bits_, stride_)                                              \
	{                                                                                          \
		.name = #member, .bit = bit_, .bits = bits_,                                       \
		.count = sizeof(((struct type *)0)->member) /                                      \
			 sizeof(((struct type *)0)->member[0]),                                    \
		.stride = stride_, .at = offsetof(struct type, member),                            \
		.size = sizeof(((struct type *)0)->member[0])                                      \
	}
#define MAD_LAYOUT(name_, id_, bytes_, fields_)                                                    \
	{                                                                                          \
		.name = name_, .attribute = id_, .bytes = bytes_,                                  \
		.field_count = sizeof(fields_) / sizeof((fields_)[0]), .fields = fields_           \
	}
