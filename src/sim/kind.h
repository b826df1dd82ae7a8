/* SPDX-License-Identifier: BSD-2-Clause */
/* The kinds of worlds that can be run from a seed, behind one interface. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/world/world.h"

enum sim_kind_id {
	SIM_LOOPBACK, /* sim/loopback/verbs_world.h */
	SIM_IWARP,    /* sim/iwarp/iwarp_world.h */
	SIM_ROCE,     /* sim/roce/roce_world.h: a scenario that the seed draws; or just one: */
	SIM_ROCE_RC,
	SIM_ROCE_UC,
	SIM_ROCE_RD,
	SIM_ROCE_CM,
	SIM_ROCE_UD, /* from here on only by name */
	SIM_ROCE_XRC,
	SIM_ROCE_RUNS,
	SIM_ROCE_NEAR,
	SIM_ROCE_NEAR_UC,
	SIM_ROCE_NEAR_UD,
	SIM_ROCE_NEAR_XRC,
	SIM_ROCE_NEAR_RD,
	SIM_RIO,   /* sim/rio/rio_world.h */
	SIM_ISCSI, /* sim/iscsi/iscsi_world.h */
	SIM_ISCSI_ISER,
	SIM_CARD,   /* sim/card/card_world.h */
	SIM_FABRIC, /* sim/fabric/fabric_world.h */
	SIM_CELLS,  /* sim/cells/cells_world.h */
	SIM_KINDS
};

/* The functions take the world itself, which is the caller's memory of world_bytes. */
struct sim_kind {
	const char *name;
	size_t world_bytes;
	int (*open)(void *world, uint64_t seed); /* 0, or -1 when memory is short */
	bool (*step)(void *world);		 /* false: it is over */
	const char *(*failure)(const void *world);
	void (*close)(void *world);
	struct world *(*clock)(void *world);
};

extern const struct sim_kind sim_kinds[SIM_KINDS];
