/* SPDX-License-Identifier: BSD-2-Clause */
/* A device that is found once more by its name: whether it is the one that it was. */
#pragma once

#include <weft/rio.h>

/* All but its number: that is its owner's, and another owner may have another one for it. */
static inline bool rio_device_is_same(const struct weft_rio_device *a,
				      const struct weft_rio_device *b)
{
	return a->size_bytes == b->size_bytes && a->block_bytes == b->block_bytes &&
	       a->is_readonly == b->is_readonly && a->can_flush == b->can_flush &&
	       a->can_fua == b->can_fua && a->can_discard == b->can_discard &&
	       a->can_write_zeroes == b->can_write_zeroes && a->iounit.unit == b->iounit.unit &&
	       a->iounit.process == b->iounit.process;
}

/* After a request has ended so, what was acknowledged before may be lost. That is told once. */
static inline bool rio_device_is_lost(enum weft_reason reason)
{
	return reason == WEFT_R_RIO_WRITES_LOST;
}
