/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <stdint.h>

/*
 * The instance of a device that is opened now: docs/rio.md, "What a write promises", rule 4. Never
 * 0. The same as before if all of the device lies in the same files or block devices, in the same
 * boot of this host, whose page cache outlives a process; else random.
 */
uint64_t device_instance(const char *text);
