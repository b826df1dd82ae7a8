/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/vhost_user.h"

#include <stddef.h>

enum { U32 = 4, U64 = 8, ADDRESS_BYTES = 40, STATE_BYTES = 8 };

static uint32_t get32(const uint8_t *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
	       (uint32_t)at[3] << 24;
}

static uint64_t get64(const uint8_t *at)
{
	return get32(at) | (uint64_t)get32(at + U32) << 32;
}

static void put32(uint8_t *at, uint32_t value)
{
	for (int i = 0; i < U32; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

void vhost_header_decode(struct vhost_header *h, const uint8_t bytes[VHOST_HEADER_BYTES])
{
	h->request = get32(bytes);
	h->flags = get32(bytes + U32);
	h->size = get32(bytes + U64);
}

bool vhost_u64_decode(uint64_t *value, const uint8_t *body, uint32_t size)
{
	if (size != U64)
		return false;
	*value = get64(body);
	return true;
}

bool vhost_state_decode(struct vhost_state *s, const uint8_t *body, uint32_t size)
{
	if (size != STATE_BYTES)
		return false;
	s->index = get32(body);
	s->number = get32(body + U32);
	return true;
}

bool vhost_address_decode(struct vhost_address *a, const uint8_t *body, uint32_t size)
{
	if (size != ADDRESS_BYTES)
		return false;
	a->index = get32(body);
	a->flags = get32(body + U32);
	a->descriptors = get64(body + 8);
	a->used = get64(body + 16);
	a->available = get64(body + 24);
	return true;
}

bool vhost_regions_decode(struct vhost_region *regions, uint32_t *region_count, const uint8_t *body,
			  uint32_t size)
{
	uint32_t count = size >= U64 ? get32(body) : 0;

	if (count == 0 || count > VHOST_REGIONS_MAX || size != U64 + count * VHOST_REGION_BYTES)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *at = body + U64 + (size_t)i * VHOST_REGION_BYTES;

		regions[i].guest = get64(at);
		regions[i].length = get64(at + 8);
		regions[i].user = get64(at + 16);
		regions[i].offset = get64(at + 24);
	}
	*region_count = count;
	return true;
}

static uint32_t reply(uint8_t *to, uint32_t request, uint32_t low, uint32_t high)
{
	put32(to, request);
	put32(to + U32, VHOST_VERSION | VHOST_REPLY);
	put32(to + U64, U64);
	put32(to + VHOST_HEADER_BYTES, low);
	put32(to + VHOST_HEADER_BYTES + U32, high);
	return VHOST_HEADER_BYTES + U64;
}

uint32_t vhost_u64_reply(uint8_t *to, uint32_t request, uint64_t value)
{
	return reply(to, request, (uint32_t)value, (uint32_t)(value >> 32));
}

uint32_t vhost_state_reply(uint8_t *to, uint32_t request, const struct vhost_state *s)
{
	return reply(to, request, s->index, s->number);
}
