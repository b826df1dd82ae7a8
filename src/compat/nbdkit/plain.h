/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device of docs/store.md that the plugin serves by itself, without an owner: a disk of an iSCSI
 * target, a mirror, a file. Used by many threads; independent of nbdkit.
 */
#pragma once

#include "roles/device.h"

struct plain;

/* With a thread of its own. */
enum weft_reason plain_open(const char *text, struct plain **plain, struct device_refusal *why);

/* With no request in progress. */
void plain_close(struct plain *p);

const struct store_shape *plain_shape(const struct plain *p);

/* Callable from any number of threads; waits until the device has done it. */
enum weft_reason plain_do(struct plain *p, const struct store_request *request);
