/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/smp.h"

#include "base/cursor.h"

enum { RETURNING = 0x8000, RESERVED_BYTES = 28 };

/* The pointer is one behind the path when the packet has come to its end. */
static bool is_route_good(const struct smp *s)
{
	return s->hop_count <= SMP_HOPS_MAX && s->hop_pointer <= s->hop_count + 1;
}

static void route_decode(struct smp *s, struct rd *r)
{
	s->is_returning = s->mad.status & RETURNING;
	s->mad.status &= (uint16_t)~RETURNING;
	s->hop_pointer = (uint8_t)(s->mad.class_specific >> 8);
	s->hop_count = (uint8_t)s->mad.class_specific;
	s->mad.class_specific = 0;
	rd_bytes(r, s->there, sizeof(s->there));
	rd_bytes(r, s->back, sizeof(s->back));
}

enum weft_reason smp_decode(struct smp *s, const uint8_t *bytes, size_t length)
{
	uint8_t reserved[RESERVED_BYTES];
	struct smp v = { .m_key = 0 };
	enum weft_reason reason = mad_decode(&v.mad, bytes, length);
	struct rd r;

	if (reason != WEFT_OK)
		return reason;
	v.is_directed = v.mad.mgmt_class == MAD_SUBNET_DIRECTED;
	if (!v.is_directed && v.mad.mgmt_class != MAD_SUBNET_LID)
		return WEFT_R_SMP_CLASS;
	r = rd_of(bytes + MAD_HEADER_BYTES, MAD_DATA_BYTES);
	v.m_key = rd_u64(&r);
	v.from = rd_u16(&r);
	v.to = rd_u16(&r);
	rd_bytes(&r, reserved, sizeof(reserved));
	rd_bytes(&r, v.data, sizeof(v.data));
	if (v.is_directed)
		route_decode(&v, &r);
	else
		v.from = v.to = 0; /* reserved */
	if (!is_route_good(&v))
		return WEFT_R_SMP_ROUTE;
	*s = v;
	return WEFT_OK;
}

void smp_encode(const struct smp *s, uint8_t bytes[MAD_BYTES])
{
	static const uint8_t reserved[RESERVED_BYTES], no_route[2 * SMP_PATH];
	struct wr w = wr_of(bytes + MAD_HEADER_BYTES, MAD_DATA_BYTES);
	struct mad mad = s->mad;

	if (s->is_directed) {
		mad.status |= s->is_returning ? RETURNING : 0;
		mad.class_specific = (uint16_t)(s->hop_pointer << 8 | s->hop_count);
	}
	mad_encode(&mad, bytes);
	wr_u64(&w, s->m_key);
	wr_u16(&w, s->from);
	wr_u16(&w, s->to);
	wr_bytes(&w, reserved, sizeof(reserved));
	wr_bytes(&w, s->data, sizeof(s->data));
	if (!s->is_directed) {
		wr_bytes(&w, no_route, sizeof(no_route));
		return;
	}
	wr_bytes(&w, s->there, sizeof(s->there));
	wr_bytes(&w, s->back, sizeof(s->back));
}
