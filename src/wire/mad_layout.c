/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/mad_layout.h"

#include <string.h>

/* ---- Bits ----------------------------------------------------------------------------------- */

static uint64_t bits_get(const uint8_t *bytes, uint32_t bit, uint32_t bits)
{
	uint64_t value = 0;

	for (uint32_t i = bit; i < bit + bits; i++)
		value = value << 1 | (bytes[i / 8] >> (7 - i % 8) & 1);
	return value;
}

static void bits_set(uint8_t *bytes, uint32_t bit, uint32_t bits, uint64_t value)
{
	for (uint32_t i = bit + bits; i > bit; i--, value >>= 1)
		bytes[(i - 1) / 8] |= (uint8_t)((value & 1) << (7 - (i - 1) % 8));
}

/* ---- Members -------------------------------------------------------------------------------- */

uint64_t mad_field_value(const struct mad_field *f, const void *from, uint32_t index)
{
	const uint8_t *at = (const uint8_t *)from + f->at + (size_t)index * f->size;
	uint64_t u64;
	uint32_t u32;
	uint16_t u16;

	switch (f->size) {
	case 1:
		return *at;
	case 2:
		memcpy(&u16, at, sizeof(u16));
		return u16;
	case 4:
		memcpy(&u32, at, sizeof(u32));
		return u32;
	default:
		memcpy(&u64, at, sizeof(u64));
		return u64;
	}
}

static void member_set(const struct mad_field *f, void *into, uint32_t index, uint64_t value)
{
	uint8_t *at = (uint8_t *)into + f->at + (size_t)index * f->size;
	uint32_t u32 = (uint32_t)value;
	uint16_t u16 = (uint16_t)value;

	switch (f->size) {
	case 1:
		*at = (uint8_t)value;
		break;
	case 2:
		memcpy(at, &u16, sizeof(u16));
		break;
	case 4:
		memcpy(at, &u32, sizeof(u32));
		break;
	default:
		memcpy(at, &value, sizeof(value));
		break;
	}
}

/* ---- Attributes ----------------------------------------------------------------------------- */

enum weft_reason mad_layout_decode(const struct mad_layout *l, void *into, const uint8_t *bytes)
{
	for (const struct mad_field *f = l->fields; f < l->fields + l->field_count; f++)
		if (f->max != 0 && bits_get(bytes, f->bit, f->bits) > f->max)
			return WEFT_R_MAD_VALUE;
	for (const struct mad_field *f = l->fields; f < l->fields + l->field_count; f++)
		for (uint32_t i = 0; i < f->count; i++)
			member_set(f, into, i, bits_get(bytes, f->bit + i * f->stride, f->bits));
	return WEFT_OK;
}

void mad_layout_encode(const struct mad_layout *l, const void *from, uint8_t *bytes)
{
	memset(bytes, 0, l->bytes);
	for (const struct mad_field *f = l->fields; f < l->fields + l->field_count; f++)
		for (uint32_t i = 0; i < f->count; i++)
			bits_set(bytes, f->bit + i * f->stride, f->bits,
				 mad_field_value(f, from, i));
}
