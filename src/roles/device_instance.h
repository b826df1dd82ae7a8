/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include "roles/device.h"

/*
 * The instance of a device that has just been opened: docs/rio.md, "What a write promises", rule 4.
 * Never 0. The same as before if all of the device lies in the same files, in the same boot of this
 * host, whose page cache outlives a process, and no flush of them has failed; else random.
 */
uint64_t device_instance(const struct device *d);
