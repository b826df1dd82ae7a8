/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A block device of another I/O unit, used as a requester of directed I/O (RIO-05). So I/O units
 * can stripe over, mirror to and re-export devices of others without a host (SYS-09). The data
 * passes through the memory of the process that uses the store.
 */
#pragma once

#include <weft/rio.h>

#include "store/store.h"

enum { RIO_STORE_WHY = WEFT_RIO_WHY_MAX };

struct rio_store_config {
	const char *path;   /* requester's configuration file, with the owner's address */
	const char *device; /* the device's name */
};

/*
 * Waits up to 10 s for the owner and the device. On failure `why` is set only if a sentence says
 * more than the reason.
 */
enum weft_reason rio_store_open(const struct rio_store_config *c, struct store **out,
				char why[RIO_STORE_WHY]);

/* Readable when a request may have completed. */
int rio_store_descriptor(const struct store *s);
