/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include "roles/device.h"

/*
 * The instance of a device that has just been opened: docs/rio.md, "What a write promises", rule 4.
 * Never 0. It equals the former instance if the whole device lies in the same files, the host has
 * not rebooted (its page cache outlives a process), and no flush of the files has failed. Otherwise
 * it is random.
 */
uint64_t device_instance(const struct device *d);
