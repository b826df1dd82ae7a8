/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DDP segment headers (RFC 5041 section 4): tagged, 14 bytes, and untagged, 18 bytes. The second
 * byte belongs to the upper protocol (rdmap.h), and so do the next 32 bits of an untagged header.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"

enum { DDP_TAGGED_BYTES = 14, DDP_UNTAGGED_BYTES = 18, DDP_HEADER_MAX = 18 };

enum ddp_err {
	DDP_OK = 0,
	DDP_ERR_SHORT,	/* the segment ends inside its header */
	DDP_ERR_VERSION /* DV is not 1 */
};

struct ddp_tagged {
	bool is_last;
	uint8_t ulp;
	uint32_t stag;
	uint64_t to;
};

struct ddp_untagged {
	bool is_last;
	uint8_t ulp;
	uint32_t ulp32;
	uint32_t qn, msn, mo;
};

/* Whether the first byte announces a tagged segment. */
static inline bool ddp_is_tagged(uint8_t first)
{
	return first & 0x80;
}

/* On error neither *h nor *r has changed. The caller has checked ddp_is_tagged(). */
enum ddp_err ddp_tagged_decode(struct ddp_tagged *h, struct rd *r);
enum ddp_err ddp_untagged_decode(struct ddp_untagged *h, struct rd *r);

void ddp_tagged_encode(const struct ddp_tagged *h, struct wr *w);
void ddp_untagged_encode(const struct ddp_untagged *h, struct wr *w);
