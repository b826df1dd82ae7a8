/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem/pin.h"

#include "base/check.h"

/* The time since the last change counts for what is pinned. */
static void pins_count(struct mem_paging *p, uint64_t now_ns)
{
	p->counts.byte_ns += p->counts.bytes * (now_ns - p->counted_ns);
	p->counted_ns = now_ns;
}

bool mem_pin(struct mem_paging *p, uint64_t real, uint64_t length, uint64_t now_ns)
{
	struct weft_pins *n = &p->counts;

	if (p->is_handing || n->count == MEM_PINS_MAX)
		return false;
	pins_count(p, now_ns);
	p->pins[n->count++] = (struct mem_pin){ .real = real, .length = length };
	n->bytes += length;
	n->pinned++;
	if (n->count > n->count_max)
		n->count_max = n->count;
	if (n->bytes > n->bytes_max)
		n->bytes_max = n->bytes;
	return true;
}

void mem_unpin(struct mem_paging *p, uint64_t real, uint64_t length, uint64_t now_ns)
{
	struct weft_pins *n = &p->counts;
	uint32_t i = 0;

	while (i < n->count && (p->pins[i].real != real || p->pins[i].length != length))
		i++;
	CHECK(i < n->count);
	pins_count(p, now_ns);
	p->pins[i] = p->pins[--n->count];
	n->bytes -= length;
}

bool mem_is_pinned(const struct mem_paging *p, uint64_t real, uint64_t length)
{
	for (uint32_t i = 0; i < p->counts.count; i++) {
		const struct mem_pin *pin = &p->pins[i];

		if (pin->real < real + length && real < pin->real + pin->length)
			return true;
	}
	return false;
}

void mem_pins_query(const struct mem_paging *p, uint64_t now_ns, struct weft_pins *pins)
{
	*pins = p->counts;
	pins->byte_ns += pins->bytes * (now_ns - p->counted_ns);
}
