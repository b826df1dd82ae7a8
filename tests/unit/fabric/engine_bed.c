/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/fabric/engine_bed.h"

#include <string.h>

struct fabric_cfg engine_bed_timed(void)
{
	struct fabric_cfg cfg = fabric_cfg_live();

	cfg.link.ack_delay_ns = 2000;
	cfg.link.resend_ns = 50000;
	cfg.flit_ns_x16 = 100 * 16;
	cfg.cable_ns = 50;
	cfg.switch_ns = 100;
	return cfg;
}

static struct engine_bed open_of(struct topology *own_t, const struct fabric_cfg *cfg)
{
	struct engine_bed b = { .cfg = cfg ? *cfg : fabric_cfg_live() };

	b.cfg.linear_max = 1024;
	b.cfg.multicast_max = 64;
	REQUIRE(fabric_open(own_t, &b.cfg, &b.f) == WEFT_OK);
	b.nodes = fabric_node_count(b.f);
	b.cables = fabric_cable_count(b.f);
	for (uint32_t i = 0; i < b.nodes; i++) {
		if (own_t->nodes[i].type == SM_NODE_SWITCH)
			b.switches[b.switch_count++] = i;
		else
			b.ends[b.end_count++] = i;
		REQUIRE(b.switch_count < 256 && b.end_count < 256);
	}
	topology_fini(own_t);
	engine_bed_rest(&b);
	REQUIRE(fabric_setup(b.f, FABRIC_MIN_HOP) == 0);
	engine_bed_rest(&b);
	return b;
}

struct engine_bed engine_bed_make(struct topology_plan plan, const struct fabric_cfg *cfg)
{
	struct topology t;

	REQUIRE(topology_make(&t, &plan) == WEFT_OK);
	return open_of(&t, cfg);
}

struct engine_bed engine_bed_read(const char *text, const struct fabric_cfg *cfg)
{
	struct topology t;
	uint32_t line;

	REQUIRE(topology_parse(&t, text, strlen(text), &line) == WEFT_OK);
	return open_of(&t, cfg);
}

void engine_bed_close(struct engine_bed *b)
{
	fabric_close(b->f);
	b->f = NULL;
}

void engine_bed_pass(struct engine_bed *b, uint64_t ns)
{
	uint64_t until_ns = b->now_ns + ns, due_ns;
	uint32_t steps = 0;

	fabric_run(b->f, b->now_ns);
	while ((due_ns = fabric_due(b->f)) <= until_ns) {
		b->now_ns = due_ns > b->now_ns ? due_ns : b->now_ns;
		fabric_run(b->f, b->now_ns);
		REQUIRE(++steps < 10000000);
	}
	b->now_ns = until_ns;
	fabric_run(b->f, b->now_ns);
}

void engine_bed_rest(struct engine_bed *b)
{
	enum { LONG_NS = 1000000000 };

	engine_bed_pass(b, LONG_NS);
}

uint16_t engine_bed_lid(const struct engine_bed *b, uint32_t end)
{
	return fabric_node_at(b->f, b->ends[end])->ports[1].info.lid;
}

bool engine_bed_post(struct engine_bed *b, uint32_t from, uint32_t to, uint8_t level,
		     uint32_t bytes)
{
	uint8_t frame[IBA_FRAME_MAX];
	uint32_t length = bed_frame(frame, engine_bed_lid(b, from), engine_bed_lid(b, to), level,
				    bytes);

	return fabric_post(b->f, b->ends[from], 1, frame, length);
}

uint32_t engine_bed_take_all(struct engine_bed *b, uint32_t end)
{
	uint8_t frame[IBA_FRAME_MAX];
	uint32_t taken = 0;

	while (fabric_take(b->f, b->ends[end], 1, frame) > 0)
		taken++;
	return taken;
}
