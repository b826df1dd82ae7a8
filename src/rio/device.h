/* SPDX-License-Identifier: BSD-2-Clause */
/* Turns a transaction into a store request, and checks it against what the device supports. */
#pragma once

#include "store/store.h"
#include "wire/rio_msg.h"
#include "wire/sgl.h"

/* bytes: the data buffer of a read or write; borrowed. */
struct store_request rio_store_request(const struct sgl_transaction *t, const struct span *bytes);

/* WEFT_OK if the device accepts the transaction, else the reason why not. */
enum weft_reason rio_device_check(const struct rio_device *d, const struct sgl_transaction *t);
