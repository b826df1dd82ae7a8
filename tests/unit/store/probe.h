/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device for tests: keeps what it is asked, in the order it came, and ends it as the test says.
 * It has a shape and no bytes.
 */
#pragma once

#include "store/store.h"

enum { PROBE_ASKED_MAX = 64, PROBES = 3 };

struct probe {
	struct store store;
	struct store_request *asked[PROBE_ASKED_MAX]; /* NULL: ended */
	uint32_t asked_count;
	struct list done;
};

/* Can all, has blocks of 512 bytes. */
void probe_init(struct probe *p, uint64_t size_bytes);

/* Ends the request that came as the n-th, counted from 0. */
void probe_end(struct probe *p, uint32_t n, enum weft_reason reason);

/* A store of several devices, which are all of that kind. */
struct probed {
	struct probe probes[PROBES];
	struct store *members[PROBES];
	struct store *store;
};

/* The first `count` of its devices, for the store that the caller creates of them. */
struct joint_config probed_init(struct probed *s, uint32_t count, uint64_t size_bytes,
				uint32_t requests_max);
