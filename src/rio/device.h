/* SPDX-License-Identifier: BSD-2-Clause */
/* A transaction as a device is asked for it, and whether it is one that a device would take. */
#pragma once

#include "store/store.h"
#include "wire/rio_msg.h"
#include "wire/sgl.h"

/* bytes: where its data lies, of a read or write; borrowed. */
struct store_request rio_store_request(const struct sgl_transaction *t, const struct span *bytes);

/* Would the device that is described so take the transaction, and if not, why? */
enum weft_reason rio_device_check(const struct rio_device *d, const struct sgl_transaction *t);
