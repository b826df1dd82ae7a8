/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulated disk: blocks that outlive whoever uses them, with a volatile cache before them. Its
 * requests take their time and end in any order, and now and then it is stuck. What was written
 * without FUA and not flushed is lost in part when the machine stops: each block by itself, as
 * chance has it.
 */
#pragma once

#include "base/prng.h"
#include "store/store.h"

enum { SIM_DISK_FLUSHES_MAX = 64 };

struct sim_disk_config {
	struct prng *prng; /* borrowed */
	uint64_t size_bytes;
	uint32_t block_bytes;
	uint64_t latency_max_ns; /* of a request; not 0 */
	uint64_t stuck_max_ns;	 /* of one that hangs while others are done */
	uint32_t stuck_ppm;	 /* how often one does */
};

struct sim_disk_flush {
	const struct store_request *request;
	uint64_t version; /* the latest that it makes durable */
};

struct sim_disk {
	struct store store;
	struct sim_disk_config config;
	uint8_t *durable, *current; /* size_bytes each */
	uint64_t *versions;	    /* of each block in the cache; 0: it is durable */
	uint64_t version;	    /* the latest */
	uint64_t stuck_until_ns;    /* no request ends before that */
	uint64_t sick_until_ns;	    /* what comes before that fails */
	struct list waiting, dead;  /* requests; dead: of a machine that has stopped */
	struct sim_disk_flush flushes[SIM_DISK_FLUSHES_MAX];
	uint32_t flush_count;
	bool is_off;
};

/* 0, or -1 when memory is short. All blocks are zeroes. */
int sim_disk_open(struct sim_disk *d, const struct sim_disk_config *config);
void sim_disk_close(struct sim_disk *d);

/* Nothing that it has, or gets by then, ends before that time. */
void sim_disk_stick(struct sim_disk *d, uint64_t until_ns);

/* What it gets by then fails, with nothing done. */
void sim_disk_sicken(struct sim_disk *d, uint64_t until_ns);

/*
 * The machine stops: what becomes of each block is decided, and every request, also one that comes
 * now, is given back as failed. Until it starts again, with nothing under way.
 */
void sim_disk_stop(struct sim_disk *d);
void sim_disk_start(struct sim_disk *d);
