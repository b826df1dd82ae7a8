/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parses the text form of a device, such as "stripe:64k(mem:1G,file:/var/disk,size=1G,direct)"
 * (docs/store.md), into a tree. roles/device.h opens the devices.
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
	STORE_KIND_ISCSI,
	STORE_KIND_ISER,
	STORE_KIND_COUNT
};

enum {
	STORE_NODES_MAX = 64,
	STORE_NEST_MAX = 8,
};

#define STORE_NO_NODE UINT32_MAX

/* How files are accessed. */
enum store_engine { STORE_ENGINE_AUTO, STORE_ENGINE_URING, STORE_ENGINE_THREADS };

struct store_node {
	enum store_kind kind;
	uint32_t at;	 /* position in the text, from 0 */
	uint32_t parent; /* STORE_NO_NODE: none */
	uint32_t member_count;

	uint64_t size_bytes;  /* mem, file; 0: the file's size */
	uint32_t block_bytes; /* mem, file; 0: not given */
	bool is_readonly;     /* mem, file, iscsi, iser */
	bool is_direct;	      /* file */
	enum store_engine engine;
	/* file: for its lock; mirror: for members, at open and close; iscsi: for a connection */
	uint64_t wait_ns;
	/* file, rio: in the text, not NUL-terminated; iscsi, iser: the URL without its scheme */
	const char *path;
	uint32_t path_length;
	const char *device; /* rio: the same */
	uint32_t device_length;
	uint64_t unit_bytes;		  /* stripe */
	uint64_t delay_ns;		  /* delay */
	bool is_degraded_ok, is_adopting; /* mirror */
	struct fault_store_config fault;
	struct volatile_store_config cache;
};

/* The first node is the device; members follow their parent, in order. */
struct store_plan {
	struct store_node nodes[STORE_NODES_MAX];
	uint32_t count;
};

/* The first error in a text. */
struct store_complaint {
	uint32_t at; /* position, from 0 */
	const char *why;
};

/* The plan points into the text. False: *complaint says why. */
bool store_plan_read(struct store_plan *plan, const char *text, struct store_complaint *complaint);

const char *store_kind_name(enum store_kind kind);
