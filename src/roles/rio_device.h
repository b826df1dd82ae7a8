/* SPDX-License-Identifier: BSD-2-Clause */
/* Compares a device that was looked up again by name with the former one. */
#pragma once

#include <weft/rio.h>

/* Ignores the number: it is the owner's, and another owner may number the device differently. */
static inline bool rio_device_is_same(const struct weft_rio_device *a,
				      const struct weft_rio_device *b)
{
	return a->size_bytes == b->size_bytes && a->block_bytes == b->block_bytes &&
	       a->is_readonly == b->is_readonly && a->can_flush == b->can_flush &&
	       a->can_fua == b->can_fua && a->can_discard == b->can_discard &&
	       a->can_write_zeroes == b->can_write_zeroes && a->iounit.unit == b->iounit.unit &&
	       a->iounit.process == b->iounit.process;
}

/* True if this reason means that acknowledged writes may be lost. A loss is reported once. */
static inline bool rio_device_is_lost(enum weft_reason reason)
{
	return reason == WEFT_R_RIO_WRITES_LOST;
}
