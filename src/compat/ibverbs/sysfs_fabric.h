/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program that runs on a node of a fabric finds under /sys/class/infiniband and
 * /sys/class/infiniband_mad: the adapter of that node, with its ports as they are in the fabric's
 * process at this moment.
 */
#pragma once

#include <stddef.h>

/* As weftv_sysfs(). */
int sysfs_fabric(const char *path, char *text, size_t size, unsigned int *mode);
