/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A block device that another I/O unit has, used by directed I/O as a requester (RIO-05): so I/O
 * units stripe over, mirror to and hand on what others have, without a host (SYS-09). Its data
 * passes through the memory of whoever uses the store.
 */
#pragma once

#include <weft/rio.h>

#include "store/store.h"

enum { RIO_STORE_WHY = WEFT_RIO_WHY_MAX };

struct rio_store_config {
	const char *path;   /* of a requester's configuration file, with the owner's address */
	const char *device; /* its name */
};

/* Waits up to 10 s for the owner and the device. why: a sentence, if there is more to say. */
enum weft_reason rio_store_open(const struct rio_store_config *c, struct store **out,
				char why[RIO_STORE_WHY]);

/* Readable when a request may be done. */
int rio_store_descriptor(const struct store *s);
