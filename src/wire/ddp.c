/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/ddp.h"

/* The control byte: T, L, four reserved bits that are sent as 0 and not checked, DV. */
enum { DDP_T = 0x80, DDP_L = 0x40, DDP_DV_MASK = 0x03, DDP_DV = 1 };

enum ddp_err ddp_tagged_decode(struct ddp_tagged *h, struct rd *r)
{
	struct rd at = *r;
	uint8_t ctl = rd_u8(&at);
	struct ddp_tagged v = { .is_last = ctl & DDP_L };

	v.ulp = rd_u8(&at);
	v.stag = rd_u32(&at);
	v.to = rd_u64(&at);
	if (at.is_short)
		return DDP_ERR_SHORT;
	if ((ctl & DDP_DV_MASK) != DDP_DV)
		return DDP_ERR_VERSION;
	*h = v;
	*r = at;
	return DDP_OK;
}

enum ddp_err ddp_untagged_decode(struct ddp_untagged *h, struct rd *r)
{
	struct rd at = *r;
	uint8_t ctl = rd_u8(&at);
	struct ddp_untagged v = { .is_last = ctl & DDP_L };

	v.ulp = rd_u8(&at);
	v.ulp32 = rd_u32(&at);
	v.qn = rd_u32(&at);
	v.msn = rd_u32(&at);
	v.mo = rd_u32(&at);
	if (at.is_short)
		return DDP_ERR_SHORT;
	if ((ctl & DDP_DV_MASK) != DDP_DV)
		return DDP_ERR_VERSION;
	*h = v;
	*r = at;
	return DDP_OK;
}

void ddp_tagged_encode(const struct ddp_tagged *h, struct wr *w)
{
	struct wr at = *w; /* a copy, which what is written cannot change */

	wr_u8(&at, (uint8_t)(DDP_T | (h->is_last ? DDP_L : 0) | DDP_DV));
	wr_u8(&at, h->ulp);
	wr_u32(&at, h->stag);
	wr_u64(&at, h->to);
	*w = at;
}

void ddp_untagged_encode(const struct ddp_untagged *h, struct wr *w)
{
	struct wr at = *w;

	wr_u8(&at, (uint8_t)((h->is_last ? DDP_L : 0) | DDP_DV));
	wr_u8(&at, h->ulp);
	wr_u32(&at, h->ulp32);
	wr_u32(&at, h->qn);
	wr_u32(&at, h->msn);
	wr_u32(&at, h->mo);
	*w = at;
}
