/* SPDX-License-Identifier: BSD-2-Clause */
/* Directed remote I/O on one machine: an owner, an I/O unit and requesters, a process each. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct demo_cluster_options {
	uint64_t size_bytes; /* of the device, which is written and read as a whole */
	bool is_file;	     /* else it is memory */
};

/* 0: all of it was seen to be so. */
int demo_cluster(const struct demo_cluster_options *options);
