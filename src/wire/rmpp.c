/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/rmpp.h"

#include "base/cursor.h"

enum { FLAG_BITS = 3, FLAGS = (1 << FLAG_BITS) - 1 };

/* Where class headers end (IBA 15.2.1.1, 16.3.1 and 16.5). */
enum { ADMIN_DATA_AT = 56, DEVICE_DATA_AT = 64, VENDOR_DATA_AT = 40 };

void rmpp_decode(struct rmpp *h, const uint8_t mad[MAD_BYTES])
{
	struct rd r = rd_of(mad + MAD_HEADER_BYTES, RMPP_HEADER_BYTES);
	uint8_t both;

	h->version = rd_u8(&r);
	h->type = rd_u8(&r);
	both = rd_u8(&r);
	h->response_time = (uint8_t)(both >> FLAG_BITS);
	h->flags = both & FLAGS;
	h->status = rd_u8(&r);
	h->segment = rd_u32(&r);
	h->length = rd_u32(&r);
}

void rmpp_encode(const struct rmpp *h, uint8_t mad[MAD_BYTES])
{
	struct wr w = wr_of(mad + MAD_HEADER_BYTES, RMPP_HEADER_BYTES);

	wr_u8(&w, h->version);
	wr_u8(&w, h->type);
	wr_u8(&w, (uint8_t)(h->response_time << FLAG_BITS | (h->flags & FLAGS)));
	wr_u8(&w, h->status);
	wr_u32(&w, h->segment);
	wr_u32(&w, h->length);
}

uint32_t rmpp_data_at(uint8_t mgmt_class)
{
	switch (mgmt_class) {
	case MAD_SUBNET_ADMIN:
		return ADMIN_DATA_AT;
	case MAD_DEVICE:
	case MAD_DEVICE_ADMIN:
	case MAD_BIS:
		return DEVICE_DATA_AT;
	default:
		return mad_has_oui(mgmt_class) ? VENDOR_DATA_AT : 0;
	}
}
