/* SPDX-License-Identifier: BSD-2-Clause */
/* Whole fabrics in one process: frames between owners of ports, SMPs to agents, cables. */
#include <string.h>

#include "unit/fabric/engine_bed.h"
#include "wire/smp.h"

enum { LARGE = 4096, SMALL = 8 };

static const struct topology_plan star = { TOPOLOGY_FAT_TREE, { 4, 4 } };
static const struct topology_plan tree = { TOPOLOGY_FAT_TREE, { 16, 4 } };

static void expect_idle(struct engine_bed *b)
{
	for (uint32_t node = 0; node < b->nodes; node++)
		for (uint32_t port = 1; port <= fabric_node_at(b->f, node)->cfg.ports; port++) {
			const struct fabric_link *l = fabric_link_at(b->f, node, port);

			if (!l)
				continue;
			EXPECT(l->acked == l->end);
			EXPECT_EQ(l->sending_lanes, 0);
			for (uint32_t lane = 0; lane < FLIT_LANES; lane++)
				EXPECT_EQ(l->in[lane].blocks_used, 0);
		}
}

static void any_to_any(const struct fabric_cfg *cfg)
{
	struct engine_bed b = engine_bed_make(tree, cfg);
	uint8_t sent[IBA_FRAME_MAX], came[IBA_FRAME_MAX];

	for (uint32_t from = 0; from < b.end_count; from++)
		for (uint32_t to = 0; to < b.end_count; to++) {
			uint32_t bytes = (from * 1000 + to * 7) % LARGE, length;

			if (from == to)
				continue;
			harness_note("from %u to %u", from, to);
			length = bed_frame(sent, engine_bed_lid(&b, from), engine_bed_lid(&b, to),
					   0, bytes);
			EXPECT(fabric_post(b.f, b.ends[from], 1, sent, length));
			engine_bed_rest(&b);
			EXPECT_EQ(fabric_take(b.f, b.ends[to], 1, came), length);
			EXPECT_MEM(came, sent, length - IBA_VCRC_BYTES);
			EXPECT_EQ(fabric_take(b.f, b.ends[to], 1, came), 0);
		}
	engine_bed_rest(&b);
	expect_idle(&b);
	engine_bed_close(&b);
}

TEST(test_fab_15_frames_that_are_posted_in_place_are_not_copied)
{
	static const uint32_t bytes[] = { LARGE, SMALL, LARGE };
	struct engine_bed b = engine_bed_make(star, NULL);

	for (uint32_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		uint8_t sent[IBA_FRAME_MAX], *room = fabric_room(b.f);
		uint32_t length = bed_frame(sent, engine_bed_lid(&b, 0), engine_bed_lid(&b, 1), 0,
					    bytes[i]);
		const uint8_t *came;

		REQUIRE(room);
		memcpy(room, sent, length);
		EXPECT(fabric_post(b.f, b.ends[0], 1, room, length));
		EXPECT((fabric_room(b.f) == room) ==
		       (bytes[i] == SMALL)); /* a small one is copied */
		memset(fabric_room(b.f), UINT8_MAX, IBA_FRAME_MAX);
		engine_bed_rest(&b);
		EXPECT_EQ(fabric_peek(b.f, b.ends[1], 1, &came), length);
		EXPECT((came == room) == (bytes[i] != SMALL));
		EXPECT_MEM(came, sent, length - IBA_VCRC_BYTES);
		fabric_pass(b.f, b.ends[1], 1);
	}
	engine_bed_rest(&b);
	expect_idle(&b);
	engine_bed_close(&b);
}

TEST(test_fab_13_a_frame_that_is_looked_at_stays_until_it_is_passed)
{
	struct engine_bed b = engine_bed_make(star, NULL);
	const uint8_t *came;
	uint32_t length;

	EXPECT(engine_bed_post(&b, 0, 1, 0, LARGE));
	EXPECT(engine_bed_post(&b, 0, 1, 0, SMALL));
	engine_bed_rest(&b);
	length = fabric_peek(b.f, b.ends[1], 1, &came);
	EXPECT(length > LARGE);
	EXPECT_EQ(fabric_peek(b.f, b.ends[1], 1, &came), length);
	fabric_pass(b.f, b.ends[1], 1);
	EXPECT(fabric_peek(b.f, b.ends[1], 1, &came) < LARGE);
	fabric_pass(b.f, b.ends[1], 1);
	EXPECT_EQ(fabric_peek(b.f, b.ends[1], 1, &came), 0);
	engine_bed_rest(&b);
	expect_idle(&b);
	engine_bed_close(&b);
}

TEST(test_fab_15_frames_go_from_any_endnode_to_any_by_lid_and_are_not_modified)
{
	struct fabric_cfg cfg = engine_bed_timed();

	any_to_any(NULL);
	any_to_any(&cfg);
	cfg.is_cut_through = true;
	any_to_any(&cfg);
}

TEST(test_fab_07_a_frame_that_is_taken_has_its_vcrc_if_that_is_asked_for)
{
	struct fabric_cfg cfg = fabric_cfg_live();
	struct engine_bed b;
	uint8_t came[IBA_FRAME_MAX];
	struct iba_frame f;
	uint32_t length;

	cfg.has_vcrc = true;
	b = engine_bed_make(star, &cfg);
	EXPECT(engine_bed_post(&b, 0, 1, 3, LARGE));
	engine_bed_rest(&b);
	length = fabric_take(b.f, b.ends[1], 1, came);
	EXPECT_EQ(iba_frame_decode(&f, came, length), WEFT_OK);
	EXPECT(f.lrh.level == 3 && f.lrh.lane == 3);
	engine_bed_close(&b);
}

/* ---- Management ------------------------------------------------------------------------------ */

/* A directed route from a port: an SMP that gets an attribute. */
static uint32_t directed_get(uint8_t bytes[IBA_FRAME_MAX], uint16_t attribute, const uint8_t *hops,
			     uint8_t count)
{
	struct smp s = {
		.mad = { .mgmt_class = MAD_SUBNET_DIRECTED,
			 .class_version = SMP_CLASS_VERSION,
			 .method = MAD_GET,
			 .attribute = attribute,
			 .tid = 77 },
		.is_directed = true,
		.hop_count = count,
		.from = IBA_LID_PERMISSIVE,
		.to = IBA_LID_PERMISSIVE,
	};
	uint8_t mad[MAD_BYTES];
	const struct iba_frame f = {
		.lrh = { .lane = IBA_LANE_MANAGEMENT,
			 .to = IBA_LID_PERMISSIVE,
			 .from = IBA_LID_PERMISSIVE },
		.packet = { .opcode = IBA_UD_SEND,
			    .p_key = IBA_PKEY_DEFAULT,
			    .payload = mad,
			    .payload_bytes = MAD_BYTES },
	};

	memcpy(s.there + 1, hops, count);
	smp_encode(&s, mad);
	return iba_frame_encode(&f, bytes);
}

/* The node type that an answer tells; 0: none has come, or a bad one. */
static uint8_t node_type(struct engine_bed *b, uint32_t end)
{
	uint8_t came[IBA_FRAME_MAX];
	uint32_t length = fabric_take(b->f, b->ends[end], 1, came);
	union sm_value value;
	struct iba_frame f;
	struct smp s;

	if (length == 0 || iba_frame_decode_inner(&f, came, length) != WEFT_OK ||
	    smp_decode(&s, f.packet.payload, f.packet.payload_bytes) != WEFT_OK)
		return 0;
	REQUIRE(s.mad.tid == 77 && s.mad.method == MAD_GET_RESPONSE && s.mad.status == 0);
	REQUIRE(mad_layout_decode(sm_layout(SM_NODE_INFO), &value, s.data) == WEFT_OK);
	return value.node_info.node_type;
}

TEST(test_fabric_agents_answer_along_directed_routes)
{
	const uint8_t hops[] = { 1, 2 };
	struct engine_bed b = engine_bed_make(star, NULL);
	uint8_t bytes[IBA_FRAME_MAX];
	uint32_t node = b.ends[0];

	/* The port's own agent, that of the switch, and that of another endnode behind it. */
	EXPECT(fabric_post(b.f, node, 1, bytes, directed_get(bytes, SM_NODE_INFO, hops, 0)));
	engine_bed_rest(&b);
	EXPECT_EQ(node_type(&b, 0), SM_NODE_CA);
	EXPECT(fabric_post(b.f, node, 1, bytes, directed_get(bytes, SM_NODE_INFO, hops, 1)));
	engine_bed_rest(&b);
	EXPECT_EQ(node_type(&b, 0), SM_NODE_SWITCH);
	EXPECT(fabric_post(b.f, node, 1, bytes, directed_get(bytes, SM_NODE_INFO, hops, 2)));
	engine_bed_rest(&b);
	EXPECT_EQ(node_type(&b, 0), SM_NODE_CA);
	EXPECT_EQ(node_type(&b, 0), 0);
	expect_idle(&b);
	engine_bed_close(&b);
}

/* IBA 14.2.2.2: what has come to the end of its route says so, and so an answer finds back. */
TEST(test_fabric_a_manager_gets_directed_datagrams_that_have_arrived)
{
	const uint8_t hops[] = { 1, 2 };
	struct engine_bed b = engine_bed_make(star, NULL);
	uint8_t bytes[IBA_FRAME_MAX];
	struct iba_frame f;
	uint32_t length;
	struct smp s;

	fabric_node_set_sm(fabric_node_at(b.f, b.ends[1]), 1, true, b.now_ns);
	fabric_touch(b.f, b.ends[1]);
	engine_bed_rest(&b);
	EXPECT(fabric_post(b.f, b.ends[0], 1, bytes, directed_get(bytes, SM_SM_INFO, hops, 2)));
	engine_bed_rest(&b);
	length = fabric_take(b.f, b.ends[1], 1, bytes);
	MUST(iba_frame_decode_inner(&f, bytes, length));
	MUST(smp_decode(&s, f.packet.payload, f.packet.payload_bytes));
	EXPECT_EQ(s.hop_pointer, 3);
	EXPECT_EQ(s.back[2], 1);
	EXPECT_EQ(fabric_take(b.f, b.ends[1], 1, bytes), 0);
	engine_bed_close(&b);
}

/* ---- Owners ---------------------------------------------------------------------------------- */

TEST(test_fabric_owners_are_told_once_of_frames_and_of_room)
{
	struct engine_bed b = engine_bed_make(star, NULL);
	uint32_t node, port, posted = 0, taken = 0;

	while (fabric_ready(b.f, &node, &port))
		continue;
	while (engine_bed_post(&b, 0, 1, 0, LARGE)) {
		fabric_run(b.f, b.now_ns);
		REQUIRE(++posted < 1000);
	}
	EXPECT(fabric_ready(b.f, &node, &port));
	EXPECT(node == b.ends[1] && port == 1);
	EXPECT(!fabric_ready(b.f, &node, &port));
	taken = engine_bed_take_all(&b, 1);
	fabric_run(b.f, b.now_ns);
	EXPECT(fabric_ready(b.f, &node, &port)); /* either is first */
	EXPECT(fabric_ready(b.f, &node, &port));
	EXPECT(!fabric_ready(b.f, &node, &port));
	EXPECT(engine_bed_post(&b, 0, 1, 0, LARGE));
	for (uint32_t i = 0; i < 100; i++) {
		fabric_run(b.f, b.now_ns);
		taken += engine_bed_take_all(&b, 1);
	}
	EXPECT_EQ(taken, posted + 1);
	engine_bed_rest(&b);
	expect_idle(&b);
	engine_bed_close(&b);
}

TEST(test_fab_02_what_is_no_frame_is_dropped_where_it_is_posted)
{
	struct engine_bed b = engine_bed_make(star, NULL);
	uint8_t bytes[IBA_FRAME_MAX];
	uint32_t length = bed_frame(bytes, 1, 2, 0, SMALL);

	EXPECT(fabric_post(b.f, b.ends[0], 1, bytes, length - 4));
	EXPECT(fabric_post(b.f, b.ends[0], 1, bytes, 10));
	engine_bed_rest(&b);
	for (uint32_t i = 0; i < b.end_count; i++)
		EXPECT_EQ(engine_bed_take_all(&b, i), 0);
	engine_bed_close(&b);
}

/* ---- Cables ---------------------------------------------------------------------------------- */

TEST(test_fab_20_a_cable_is_cut_and_mended_while_frames_move)
{
	struct engine_bed b = engine_bed_make(star, NULL);
	uint32_t cable = fabric_cable_at(b.f, b.ends[1], 1), node[2], port[2];

	fabric_cable_ends(b.f, cable, node, port);
	EXPECT(node[0] == b.ends[1] || node[1] == b.ends[1]);
	EXPECT(engine_bed_post(&b, 0, 1, 0, LARGE));
	fabric_cut(b.f, cable);
	EXPECT(fabric_is_cut(b.f, cable));
	EXPECT(engine_bed_post(&b, 0, 1, 0, LARGE));
	EXPECT(engine_bed_post(&b, 0, 2, 0, LARGE));
	engine_bed_rest(&b);
	EXPECT_EQ(engine_bed_take_all(&b, 1), 0);
	EXPECT_EQ(engine_bed_take_all(&b, 2), 1);
	EXPECT_EQ(fabric_node_at(b.f, b.ends[1])->ports[1].info.state, SM_PORT_DOWN);
	fabric_mend(b.f, cable);
	EXPECT(!fabric_is_cut(b.f, cable));
	EXPECT_EQ(fabric_node_at(b.f, b.ends[1])->ports[1].info.state, SM_PORT_INIT);
	/* Data waits for a subnet manager. */
	EXPECT(engine_bed_post(&b, 0, 1, 0, LARGE));
	engine_bed_rest(&b);
	EXPECT_EQ(engine_bed_take_all(&b, 1), 0);
	EXPECT(fabric_setup(b.f, FABRIC_MIN_HOP) == 0);
	EXPECT(engine_bed_post(&b, 0, 1, 0, LARGE));
	engine_bed_rest(&b);
	EXPECT_EQ(engine_bed_take_all(&b, 1), 1);
	engine_bed_rest(&b);
	expect_idle(&b);
	engine_bed_close(&b);
}

TEST(test_fabric_changes_are_told_to_the_caller_after_the_fabric_acted_upon_them)
{
	struct engine_bed b = engine_bed_make(star, NULL);
	uint32_t node, port, changes, told = 0;

	while (fabric_changed(b.f, &node, &port, &changes))
		continue;
	fabric_cut(b.f, fabric_cable_at(b.f, b.ends[1], 1));
	fabric_run(b.f, b.now_ns);
	while (fabric_changed(b.f, &node, &port, &changes)) {
		told += (changes & FABRIC_CHANGE_STATE) &&
			(node == b.ends[1] || node == b.switches[0]);
	}
	EXPECT_EQ(told, 2);
	engine_bed_close(&b);
}

/* A mask of ports has 64 bits, and port 0. */
TEST(test_fab_15_a_switch_of_too_many_ports_is_refused)
{
	static const char *const switches[] = { "Switch 63 \"S1\"\n", "Switch 64 \"S1\"\n" };
	const struct fabric_cfg cfg = fabric_cfg_live();

	for (int i = 0; i < 2; i++) {
		struct topology t;
		struct fabric *f;
		uint32_t line;

		REQUIRE(topology_parse(&t, switches[i], strlen(switches[i]), &line) == WEFT_OK);
		EXPECT_EQ(fabric_open(&t, &cfg, &f), i == 0 ? WEFT_OK : WEFT_R_TOPOLOGY_LIMIT);
		EXPECT(!f == (i == 1));
		if (f)
			fabric_close(f);
		topology_fini(&t);
	}
}
