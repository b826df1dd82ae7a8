/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/kind.h"

#include "sim/card/card_world.h"
#include "sim/cells/cells_world.h"
#include "sim/fabric/fabric_world.h"
#include "sim/iscsi/iscsi_world.h"
#include "sim/iwarp/iwarp_world.h"
#include "sim/loopback/verbs_world.h"
#include "sim/rio/rio_world.h"
#include "sim/roce/roce_world.h"

static int loopback_open(void *world, uint64_t seed)
{
	return verbs_world_open(world, seed);
}

static bool loopback_step(void *world)
{
	return verbs_world_step(world);
}

static const char *loopback_failure(const void *world)
{
	return verbs_world_failure(world);
}

static void loopback_close(void *world)
{
	verbs_world_close(world);
}

static struct world *loopback_clock(void *world)
{
	return &((struct verbs_world *)world)->world;
}

static int iwarp_open(void *world, uint64_t seed)
{
	return iwarp_world_open(world, seed);
}

static bool iwarp_step(void *world)
{
	return iwarp_world_step(world);
}

static const char *iwarp_failure(const void *world)
{
	return iwarp_world_failure(world);
}

static void iwarp_close(void *world)
{
	iwarp_world_close(world);
}

static struct world *iwarp_clock(void *world)
{
	return &((struct iwarp_world *)world)->world;
}

static int roce_open(void *world, uint64_t seed)
{
	return roce_world_open(world, seed, ROCE_ANY);
}

static int roce_rc_open(void *world, uint64_t seed)
{
	return roce_world_open(world, seed, ROCE_RC);
}

static int roce_uc_open(void *world, uint64_t seed)
{
	return roce_world_open(world, seed, ROCE_UC);
}

static int roce_rd_open(void *world, uint64_t seed)
{
	return roce_world_open(world, seed, ROCE_RD);
}

static int roce_cm_open(void *world, uint64_t seed)
{
	return roce_world_open(world, seed, ROCE_CM);
}

static int roce_ud_open(void *world, uint64_t seed)
{
	return roce_world_open(world, seed, ROCE_UD);
}

static int roce_near_open(void *world, uint64_t seed)
{
	return roce_world_open(world, seed, ROCE_NEAR);
}

static int roce_near_uc_open(void *world, uint64_t seed)
{
	return roce_world_open(world, seed, ROCE_NEAR_UC);
}

static int roce_near_ud_open(void *world, uint64_t seed)
{
	return roce_world_open(world, seed, ROCE_NEAR_UD);
}

static int roce_near_xrc_open(void *world, uint64_t seed)
{
	return roce_world_open(world, seed, ROCE_NEAR_XRC);
}

static int roce_near_rd_open(void *world, uint64_t seed)
{
	return roce_world_open(world, seed, ROCE_NEAR_RD);
}

static int roce_runs_open(void *world, uint64_t seed)
{
	return roce_world_open(world, seed, ROCE_RUNS);
}

static int roce_xrc_open(void *world, uint64_t seed)
{
	return roce_world_open(world, seed, ROCE_XRC);
}

static bool roce_step(void *world)
{
	return roce_world_step(world);
}

static const char *roce_failure(const void *world)
{
	return roce_world_failure(world);
}

static void roce_close(void *world)
{
	roce_world_close(world);
}

static struct world *roce_clock(void *world)
{
	return roce_world_clock(world);
}

/* Those of which each world draws some (enum rw_hazard). */
static const uint32_t rio_hazards = RW_HAZARDS_ALL;

static int rio_open(void *world, uint64_t seed)
{
	return rio_world_open(world, seed, rio_hazards);
}

static bool rio_step(void *world)
{
	return rio_world_step(world);
}

static const char *rio_failure(const void *world)
{
	return rio_world_failure(world);
}

static void rio_close(void *world)
{
	rio_world_close(world);
}

static struct world *rio_clock(void *world)
{
	return &((struct rio_world *)world)->world;
}

static int iscsi_open(void *world, uint64_t seed)
{
	return iscsi_world_open(world, seed, false);
}

static int iscsi_iser_open(void *world, uint64_t seed)
{
	return iscsi_world_open(world, seed, true);
}

static bool iscsi_step(void *world)
{
	return iscsi_world_step(world);
}

static const char *iscsi_failure(const void *world)
{
	return iscsi_world_failure(world);
}

static void iscsi_close(void *world)
{
	iscsi_world_close(world);
}

static struct world *iscsi_clock(void *world)
{
	return &((struct iscsi_world *)world)->world;
}

static int card_open(void *world, uint64_t seed)
{
	return card_world_open(world, seed, NULL);
}

static bool card_step(void *world)
{
	return card_world_step(world);
}

static const char *card_failure(const void *world)
{
	return card_world_failure(world);
}

static void card_close(void *world)
{
	card_world_close(world);
}

static struct world *card_clock(void *world)
{
	return &((struct card_world *)world)->world;
}

static int fabric_open(void *world, uint64_t seed)
{
	return fabric_world_open(world, seed);
}

static bool fabric_step(void *world)
{
	return fabric_world_step(world);
}

static const char *fabric_failure(const void *world)
{
	return fabric_world_failure(world);
}

static void fabric_close(void *world)
{
	fabric_world_close(world);
}

static struct world *fabric_clock(void *world)
{
	return &((struct fabric_world *)world)->net.world;
}

static int cells_open(void *world, uint64_t seed)
{
	return cells_world_open(world, seed, false);
}

static bool cells_step(void *world)
{
	return cells_world_step(world);
}

static const char *cells_failure(const void *world)
{
	return cells_world_failure(world);
}

static void cells_close(void *world)
{
	cells_world_close(world);
}

static struct world *cells_clock(void *world)
{
	return &((struct cells_world *)world)->net.world;
}

const struct sim_kind sim_kinds[SIM_KINDS] = {
	[SIM_LOOPBACK] = {
		.name = "loopback",
		.world_bytes = sizeof(struct verbs_world),
		.open = loopback_open,
		.step = loopback_step,
		.failure = loopback_failure,
		.close = loopback_close,
		.clock = loopback_clock,
	},
	[SIM_IWARP] = {
		.name = "iwarp",
		.world_bytes = sizeof(struct iwarp_world),
		.open = iwarp_open,
		.step = iwarp_step,
		.failure = iwarp_failure,
		.close = iwarp_close,
		.clock = iwarp_clock,
	},
	[SIM_ROCE] = {
		.name = "roce",
		.world_bytes = sizeof(struct roce_world),
		.open = roce_open,
		.step = roce_step,
		.failure = roce_failure,
		.close = roce_close,
		.clock = roce_clock,
	},
	[SIM_ROCE_RC] = {
		.name = "roce-rc",
		.world_bytes = sizeof(struct roce_world),
		.open = roce_rc_open,
		.step = roce_step,
		.failure = roce_failure,
		.close = roce_close,
		.clock = roce_clock,
	},
	[SIM_ROCE_UC] = {
		.name = "roce-uc",
		.world_bytes = sizeof(struct roce_world),
		.open = roce_uc_open,
		.step = roce_step,
		.failure = roce_failure,
		.close = roce_close,
		.clock = roce_clock,
	},
	[SIM_ROCE_RD] = {
		.name = "roce-rd",
		.world_bytes = sizeof(struct roce_world),
		.open = roce_rd_open,
		.step = roce_step,
		.failure = roce_failure,
		.close = roce_close,
		.clock = roce_clock,
	},
	[SIM_ROCE_CM] = {
		.name = "roce-cm",
		.world_bytes = sizeof(struct roce_world),
		.open = roce_cm_open,
		.step = roce_step,
		.failure = roce_failure,
		.close = roce_close,
		.clock = roce_clock,
	},
	[SIM_ROCE_UD] = {
		.name = "roce-ud",
		.world_bytes = sizeof(struct roce_world),
		.open = roce_ud_open,
		.step = roce_step,
		.failure = roce_failure,
		.close = roce_close,
		.clock = roce_clock,
	},
	[SIM_ROCE_NEAR] = {
		.name = "roce-near",
		.world_bytes = sizeof(struct roce_world),
		.open = roce_near_open,
		.step = roce_step,
		.failure = roce_failure,
		.close = roce_close,
		.clock = roce_clock,
	},
	[SIM_ROCE_NEAR_UC] = {
		.name = "roce-near-uc",
		.world_bytes = sizeof(struct roce_world),
		.open = roce_near_uc_open,
		.step = roce_step,
		.failure = roce_failure,
		.close = roce_close,
		.clock = roce_clock,
	},
	[SIM_ROCE_NEAR_UD] = {
		.name = "roce-near-ud",
		.world_bytes = sizeof(struct roce_world),
		.open = roce_near_ud_open,
		.step = roce_step,
		.failure = roce_failure,
		.close = roce_close,
		.clock = roce_clock,
	},
	[SIM_ROCE_NEAR_XRC] = {
		.name = "roce-near-xrc",
		.world_bytes = sizeof(struct roce_world),
		.open = roce_near_xrc_open,
		.step = roce_step,
		.failure = roce_failure,
		.close = roce_close,
		.clock = roce_clock,
	},
	[SIM_ROCE_NEAR_RD] = {
		.name = "roce-near-rd",
		.world_bytes = sizeof(struct roce_world),
		.open = roce_near_rd_open,
		.step = roce_step,
		.failure = roce_failure,
		.close = roce_close,
		.clock = roce_clock,
	},
	[SIM_ROCE_RUNS] = {
		.name = "roce-runs",
		.world_bytes = sizeof(struct roce_world),
		.open = roce_runs_open,
		.step = roce_step,
		.failure = roce_failure,
		.close = roce_close,
		.clock = roce_clock,
	},
	[SIM_ROCE_XRC] = {
		.name = "roce-xrc",
		.world_bytes = sizeof(struct roce_world),
		.open = roce_xrc_open,
		.step = roce_step,
		.failure = roce_failure,
		.close = roce_close,
		.clock = roce_clock,
	},
	[SIM_RIO] = {
		.name = "rio",
		.world_bytes = sizeof(struct rio_world),
		.open = rio_open,
		.step = rio_step,
		.failure = rio_failure,
		.close = rio_close,
		.clock = rio_clock,
	},
	[SIM_ISCSI] = {
		.name = "iscsi",
		.world_bytes = sizeof(struct iscsi_world),
		.open = iscsi_open,
		.step = iscsi_step,
		.failure = iscsi_failure,
		.close = iscsi_close,
		.clock = iscsi_clock,
	},
	[SIM_CARD] = {
		.name = "card",
		.world_bytes = sizeof(struct card_world),
		.open = card_open,
		.step = card_step,
		.failure = card_failure,
		.close = card_close,
		.clock = card_clock,
	},
	[SIM_ISCSI_ISER] = {
		.name = "iscsi-iser",
		.world_bytes = sizeof(struct iscsi_world),
		.open = iscsi_iser_open,
		.step = iscsi_step,
		.failure = iscsi_failure,
		.close = iscsi_close,
		.clock = iscsi_clock,
	},
	[SIM_FABRIC] = {
		.name = "fabric",
		.world_bytes = sizeof(struct fabric_world),
		.open = fabric_open,
		.step = fabric_step,
		.failure = fabric_failure,
		.close = fabric_close,
		.clock = fabric_clock,
	},
	[SIM_CELLS] = {
		.name = "cells",
		.world_bytes = sizeof(struct cells_world),
		.open = cells_open,
		.step = cells_step,
		.failure = cells_failure,
		.close = cells_close,
		.clock = cells_clock,
	},
};
