/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulated disk: blocks that outlive the process that uses them, behind a volatile cache.
 * Requests take time and complete in any order; now and then the disk is stuck. When the machine
 * stops, each block written without FUA and not flushed is lost or kept at random.
 */
#pragma once

#include "base/prng.h"
#include "store/store.h"

enum { SIM_DISK_FLUSHES_MAX = 64 };

struct sim_disk_config {
	struct prng *prng; /* borrowed */
	uint64_t size_bytes;
	uint32_t block_bytes;
	uint64_t latency_max_ns; /* per request; not 0 */
	uint64_t stuck_max_ns;	 /* of a request that hangs while others complete */
	uint32_t stuck_ppm;	 /* how often a request hangs */
};

struct sim_disk_flush {
	const struct store_request *request;
	uint64_t version; /* the latest version that it makes durable */
};

struct sim_disk {
	struct store store;
	struct sim_disk_config config;
	uint8_t *durable, *current; /* size_bytes each */
	uint64_t *versions;	    /* per block; 0: durable, not in the cache */
	uint64_t version;	    /* the latest */
	uint64_t stuck_until_ns;    /* no request completes before this */
	uint64_t sick_until_ns;	    /* requests submitted before this fail */
	struct list waiting, dead;  /* requests; dead: from before the machine stopped */
	struct sim_disk_flush flushes[SIM_DISK_FLUSHES_MAX];
	uint32_t flush_count;
	bool is_off;
};

/* 0, or -1: out of memory. All blocks are zeroes. */
int sim_disk_open(struct sim_disk *d, const struct sim_disk_config *config);
void sim_disk_close(struct sim_disk *d);

/* No present request, nor any submitted by then, completes before until_ns. */
void sim_disk_stick(struct sim_disk *d, uint64_t until_ns);

/* Requests submitted before until_ns fail without effect. */
void sim_disk_sicken(struct sim_disk *d, uint64_t until_ns);

/*
 * The machine stops: the fate of each cached block is drawn, and every request, also a later one,
 * is returned as failed. sim_disk_start() requires that no request is in progress.
 */
void sim_disk_stop(struct sim_disk *d);
void sim_disk_start(struct sim_disk *d);
