/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabrics of the engine (fabric/fabric.h) as topologies are made, brought up by fabric/setup.h. */
#pragma once

#include "fabric/fabric.h"
#include "fabric/node.h"
#include "fabric/setup.h"
#include "fabric/topology_make.h"
#include "test.h"
#include "unit/fabric/fabric_bed.h"
#include "unit/fabric/fabric_take.h"

struct engine_bed {
	struct fabric *f;
	struct fabric_cfg cfg;
	uint64_t now_ns;
	uint32_t nodes, cables;
	uint32_t ends[256]; /* endnodes, by their order */
	uint32_t end_count;
	uint32_t switches[256];
	uint32_t switch_count;
};

/* Of a plan, and of a text. All is at rest. */
struct engine_bed engine_bed_make(struct topology_plan plan, const struct fabric_cfg *cfg);
struct engine_bed engine_bed_read(const char *text, const struct fabric_cfg *cfg);
void engine_bed_close(struct engine_bed *b);

/* A link of 4 x 2.5 Gbit/s: 1 GB/s; cables of 10 m. */
struct fabric_cfg engine_bed_timed(void);

/* Until nothing is due, or so many ns have passed. */
void engine_bed_rest(struct engine_bed *b);
void engine_bed_pass(struct engine_bed *b, uint64_t ns);

uint16_t engine_bed_lid(const struct engine_bed *b, uint32_t end);

/* A datagram of so many bytes from one endnode to another, by a level. */
bool engine_bed_post(struct engine_bed *b, uint32_t from, uint32_t to, uint8_t level,
		     uint32_t bytes);
uint32_t engine_bed_take_all(struct engine_bed *b, uint32_t end);
