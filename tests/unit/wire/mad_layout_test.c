/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <string.h>

#include "wire/pm_attr.h"
#include "wire/sm_attr.h"

/* Every attribute that there is, of either class. */
static const struct mad_layout *layout_at(uint32_t i)
{
	return i <= UINT16_MAX ? sm_layout((uint16_t)i) : pm_layout((uint16_t)(i - UINT16_MAX - 1));
}

enum { EVERY = 2 * (UINT16_MAX + 1) };

/* Ones where the table has a field, each once. */
static void mask_of(const struct mad_layout *l, uint8_t mask[256])
{
	memset(mask, 0, 256);
	for (const struct mad_field *f = l->fields; f < l->fields + l->field_count; f++)
		for (uint32_t i = 0; i < f->count * (uint32_t)f->bits; i++) {
			uint32_t at = f->bit + i / f->bits * f->stride + i % f->bits;

			harness_note("%s %s", l->name, f->name);
			REQUIRE(at < l->bytes * 8U && !(mask[at / 8] & 0x80 >> at % 8));
			mask[at / 8] |= (uint8_t)(0x80 >> at % 8);
		}
}

TEST(test_iba_14_2_5_fields_of_an_attribute_lie_inside_and_apart)
{
	uint8_t mask[256];
	int count = 0;

	for (uint32_t i = 0; i < EVERY; i++) {
		if (!layout_at(i))
			continue;
		mask_of(layout_at(i), mask);
		count++;
	}
	EXPECT_EQ(count, 15);
}

/* No bit of a field is lost, nor is one of another changed. */
TEST(test_iba_14_2_5_every_bit_of_a_field_comes_back_and_reserved_ones_do_not)
{
	uint8_t mask[256], bytes[256], again[256];
	uint64_t value[40];

	for (uint32_t i = 0; i < EVERY; i++) {
		const struct mad_layout *l = layout_at(i);

		for (uint32_t bit = 0; l && bit < l->bytes * 8U; bit++) {
			mask_of(l, mask);
			memset(bytes, 0, sizeof(bytes));
			bytes[bit / 8] = (uint8_t)(0x80 >> bit % 8);
			if (mad_layout_decode(l, value, bytes) != WEFT_OK)
				continue;
			mad_layout_encode(l, value, again);
			bytes[bit / 8] &= mask[bit / 8];
			harness_note("%s bit %u", l->name, bit);
			EXPECT_MEM(again, bytes, l->bytes);
		}
	}
}

TEST(test_iba_14_2_5_reserved_values_are_refused)
{
	static const struct {
		uint16_t attribute, byte;
		uint8_t greatest, first_bad;
	} cases[] = {
		{ SM_NODE_INFO, 2, 3, 4 },	  /* node type */
		{ SM_PORT_INFO, 32, 4, 5 },	  /* port state */
		{ SM_PORT_INFO, 33, 0x70, 0x80 }, /* physical state */
		{ SM_PORT_INFO, 36, 0x50, 0x60 }, /* MTU */
		{ SM_PORT_INFO, 37, 0x50, 0x60 }, /* lanes that it has */
		{ SM_PORT_INFO, 41, 5, 6 },	  /* greatest MTU */
		{ SM_PORT_INFO, 43, 0x50, 0x60 }, /* lanes in use */
		{ SM_SM_INFO, 20, 3, 4 },	  /* state */
	};
	union sm_value v;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct mad_layout *l = sm_layout(cases[i].attribute);
		uint8_t bytes[64] = { 0 };

		harness_note("%s byte %u", l->name, cases[i].byte);
		bytes[cases[i].byte] = cases[i].greatest;
		EXPECT_EQ(mad_layout_decode(l, &v, bytes), WEFT_OK);
		bytes[cases[i].byte] = cases[i].first_bad;
		memset(&v, 0x5a, sizeof(v));
		EXPECT_EQ(mad_layout_decode(l, &v, bytes), WEFT_R_MAD_VALUE);
		for (size_t n = 0; n < sizeof(v); n++)
			EXPECT_EQ(((uint8_t *)&v)[n], 0x5a);
	}
}

TEST(test_iba_14_2_5_a_value_is_that_of_the_wire)
{
	static const uint8_t bytes[40] = { 1,	 1,    2,    36,   1,	 2,    3, 4, 5, 6,
					   7,	 8,    0,    0,	   0,	 0,    0, 0, 0, 0,
					   0,	 0,    0,    0,	   0,	 0,    0, 0, 0, 0x40,
					   0xab, 0xcd, 0x12, 0x34, 0x56, 0x78, 9, 1, 2, 3 };
	struct sm_node_info v;

	EXPECT_EQ(mad_layout_decode(sm_layout(SM_NODE_INFO), &v, bytes), WEFT_OK);
	EXPECT(v.node_type == SM_NODE_SWITCH && v.ports == 36);
	EXPECT(v.system_guid == 0x0102030405060708 && v.pkeys == 0x40 && v.device == 0xabcd);
	EXPECT(v.revision == 0x12345678 && v.local_port == 9 && v.vendor == 0x010203);
}
