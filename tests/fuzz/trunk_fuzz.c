/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between parts of a fabric on arbitrary bytes: what is accepted encodes to the same
 * bytes, but for reserved bits of ports. A fabric that is cut takes all that are about its trunk,
 * and says what it has to say.
 */
#include <string.h>

#include "base/check.h"
#include "fabric/fabric.h"
#include "fabric/node.h"

static const char text[] = "Switch 4 \"S1\"\n[1] \"H1\"[1]\n[2] \"S2\"[2]\n\n"
			   "Switch 4 \"S2\"\n[1] \"H2\"[1]\n\nHca 1 \"H1\"\n\nHca 1 \"H2\"\n";

static struct fabric *fabric_make(uint32_t *trunk)
{
	static const bool are_here[] = { true, false, true, false };
	struct fabric_cfg cfg = fabric_cfg_live();
	struct topology t;
	struct fabric *f;
	uint32_t line;

	cfg.linear_max = 64;
	cfg.multicast_max = 4;
	cfg.are_here = are_here;
	CHECK(topology_parse(&t, text, sizeof(text) - 1, &line) == WEFT_OK);
	CHECK(fabric_open(&t, &cfg, &f) == WEFT_OK);
	topology_fini(&t);
	for (*trunk = 0; !fabric_is_trunk(f, *trunk); ++*trunk)
		;
	fabric_trunk_join(f, *trunk, true);
	return f;
}

static void say_all(struct fabric *f, uint32_t trunk)
{
	uint8_t bytes[TRUNK_MESSAGE_MAX];
	struct trunk_message m, again;
	size_t used;

	/* Bound: its window. */
	while (fabric_trunk_next(f, trunk, &m)) {
		size_t length = trunk_encode(&m, bytes, sizeof(bytes));

		CHECK(trunk_decode(&again, bytes, length, &used) == WEFT_OK && used == length);
	}
}

static void take(struct fabric *f, uint32_t trunk, const struct trunk_message *m)
{
	switch (m->kind) {
	case TRUNK_LINK:
	case TRUNK_RUN:
	case TRUNK_ACK:
		if (m->cable == trunk)
			fabric_trunk_take(f, m);
		break;
	case TRUNK_PORT:
		if (m->cable < fabric_node_count(f) && !fabric_is_here(f, m->cable) &&
		    m->port.port <= fabric_node_look(f, m->cable)->cfg.ports)
			fabric_port_hear(f, m->cable, &m->port);
		break;
	case TRUNK_HELLO:
	case TRUNK_ALIVE:
	default:
		break;
	}
}

/* Reserved bits of attributes are ignored, and zero when they are written. */
static void judge_port(const uint8_t *bytes, size_t length)
{
	uint8_t again[TRUNK_MESSAGE_MAX];
	struct trunk_message m;
	size_t used;

	CHECK(trunk_decode(&m, bytes, length, &used) == WEFT_OK && used == length);
	CHECK(trunk_encode(&m, again, sizeof(again)) == length);
	CHECK(memcmp(again, bytes, length) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t again[TRUNK_MESSAGE_MAX];
	struct trunk_message m;
	uint64_t now_ns = 0;
	uint32_t trunk;
	struct fabric *f = fabric_make(&trunk);
	size_t used;

	while (size > 0 && trunk_decode(&m, data, size, &used) == WEFT_OK) {
		CHECK(trunk_encode(&m, again, sizeof(again)) == used);
		if (m.kind == TRUNK_PORT)
			judge_port(again, used);
		else
			CHECK(memcmp(again, data, used) == 0);
		take(f, trunk, &m);
		fabric_run(f, now_ns += 1000000);
		say_all(f, trunk);
		data += used;
		size -= used;
	}
	fabric_close(f);
	return 0;
}
