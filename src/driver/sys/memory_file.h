/* SPDX-License-Identifier: BSD-2-Clause */
/* Files in memory, which processes share. */
#pragma once

#include <stddef.h>

/*
 * A file of so many bytes that can be sealed, with its pages: without memory a fault in it would
 * end a process. A descriptor, or a negative errno.
 */
int memory_file_make(size_t bytes);
