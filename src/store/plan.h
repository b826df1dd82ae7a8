/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How people write a device: "stripe:64k(mem:1G,file:/var/disk,size=1G,direct)", see docs/store.md.
 * Read into a tree; who can open files makes the devices (roles/device.h).
 */
#pragma once

#include "store/store.h"

enum store_kind {
	STORE_KIND_MEM,
	STORE_KIND_FILE,
	STORE_KIND_STRIPE,
	STORE_KIND_MIRROR,
	STORE_KIND_DELAY,
	STORE_KIND_FAULT,
	STORE_KIND_RIO,
	STORE_KIND_VOLATILE,
	STORE_KIND_COUNT
};

enum {
	STORE_NODES_MAX = 64,
	STORE_NEST_MAX = 8,
};

#define STORE_NO_NODE UINT32_MAX

/* Which way a file is read and written. */
enum store_engine { STORE_ENGINE_AUTO, STORE_ENGINE_URING, STORE_ENGINE_THREADS };

struct store_node {
	enum store_kind kind;
	uint32_t at;	 /* where in the text it begins, counted from 0 */
	uint32_t parent; /* STORE_NO_NODE: none */
	uint32_t member_count;

	uint64_t size_bytes;  /* mem, file; 0: as large as the file is */
	uint32_t block_bytes; /* mem, file; 0: not said */
	bool is_readonly;     /* mem, file */
	bool is_direct;	      /* file */
	enum store_engine engine;
	uint64_t wait_ns; /* file: for another user; mirror: for a member, opening and closing */
	const char *path; /* file, rio: within the text, not ended by a 0 */
	uint32_t path_length;
	const char *device; /* rio: the same */
	uint32_t device_length;
	uint64_t unit_bytes;		  /* stripe */
	uint64_t delay_ns;		  /* delay */
	bool is_degraded_ok, is_adopting; /* mirror */
	struct fault_store_config fault;
	struct volatile_store_config cache;
};

/* The first node is the device; members stand after their parent, in their order. */
struct store_plan {
	struct store_node nodes[STORE_NODES_MAX];
	uint32_t count;
};

/* What is wrong with a text, and where. */
struct store_complaint {
	uint32_t at; /* counted from 0 */
	const char *why;
};

/* The plan points into the text. False: *complaint says why. */
bool store_plan_read(struct store_plan *plan, const char *text, struct store_complaint *complaint);

const char *store_kind_name(enum store_kind kind);
