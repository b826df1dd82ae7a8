/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/iba_grh.h"

#include <string.h>

#include "base/cursor.h"
#include "wire/inet.h"

enum { IP_VERSION_6 = 6, GID_IPV4_AT = 12, FLOW_LABEL_MASK = 0xfffff };

static const uint8_t mapped[GID_IPV4_AT] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

void iba_gid_of_ipv4(const uint8_t address[4], uint8_t gid[IBA_GID_BYTES])
{
	memcpy(gid, mapped, sizeof(mapped));
	memcpy(gid + GID_IPV4_AT, address, 4);
}

bool iba_gid_is_ipv4(const uint8_t gid[IBA_GID_BYTES])
{
	return memcmp(gid, mapped, sizeof(mapped)) == 0;
}

enum weft_reason iba_grh_decode(struct iba_grh *g, const uint8_t bytes[IBA_GRH_BYTES])
{
	struct rd r = rd_of(bytes, IBA_GRH_BYTES);
	uint32_t word = rd_u32(&r);

	if (word >> 28 != IP_VERSION_6)
		return WEFT_R_IB_VERSION;
	g->traffic_class = (uint8_t)(word >> 20);
	g->flow_label = word & FLOW_LABEL_MASK;
	g->payload_bytes = rd_u16(&r);
	g->next_header = rd_u8(&r);
	g->hop_limit = rd_u8(&r);
	rd_bytes(&r, g->from, sizeof(g->from));
	rd_bytes(&r, g->to, sizeof(g->to));
	return WEFT_OK;
}

/* Identification and flags of what arrived are not known; both as they are when it is not cut. */
static void ipv4_encode(const struct iba_grh *g, struct wr *w)
{
	enum { VERSION_IHL = 0x45, DONT_FRAGMENT = 0x4000 };
	static const uint8_t nothing[IBA_GRH_BYTES - INET_IPV4_BYTES];
	struct inet_sum sum = { 0 };
	uint8_t *begin;

	wr_bytes(w, nothing, sizeof(nothing));
	begin = w->at;
	wr_u8(w, VERSION_IHL);
	wr_u8(w, g->traffic_class);
	wr_u16(w, (uint16_t)(INET_IPV4_BYTES + g->payload_bytes));
	wr_u16(w, 0);
	wr_u16(w, DONT_FRAGMENT);
	wr_u8(w, g->hop_limit);
	wr_u8(w, g->next_header);
	wr_u16(w, 0);
	wr_bytes(w, g->from + GID_IPV4_AT, 4);
	wr_bytes(w, g->to + GID_IPV4_AT, 4);
	inet_sum_add(&sum, begin, INET_IPV4_BYTES);
	*w = wr_of(begin + 10, 2);
	wr_u16(w, (uint16_t)~sum.sum);
}

void iba_grh_encode(const struct iba_grh *g, uint8_t bytes[IBA_GRH_BYTES])
{
	struct wr w = wr_of(bytes, IBA_GRH_BYTES);

	if (iba_gid_is_ipv4(g->from) && iba_gid_is_ipv4(g->to)) {
		ipv4_encode(g, &w);
		return;
	}
	wr_u32(&w, (uint32_t)IP_VERSION_6 << 28 | (uint32_t)g->traffic_class << 20 |
			   (g->flow_label & FLOW_LABEL_MASK));
	wr_u16(&w, g->payload_bytes);
	wr_u8(&w, g->next_header);
	wr_u8(&w, g->hop_limit);
	wr_bytes(&w, g->from, sizeof(g->from));
	wr_bytes(&w, g->to, sizeof(g->to));
}
