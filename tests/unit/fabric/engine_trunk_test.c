/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabrics that are cut: two engines, each of which is some nodes of one topology. */
#include <stdlib.h>
#include <string.h>

#include "unit/fabric/engine_bed.h"
#include "wire/trunk.h"

/* Two ways between the switches. H1 and H3 are on different sides. */
static const char text[] =
	"Switch 8 \"S1\"\n[1] \"H1\"[1]\n[2] \"H2\"[1]\n[3] \"S2\"[3]\n[4] \"S2\"[4]\n\n"
	"Switch 8 \"S2\"\n[1] \"H3\"[1]\n\n"
	"Hca 1 \"H1\"\n\nHca 1 \"H2\"\n\nHca 1 \"H3\"\n";
enum { NODES = 5, CABLES = 5, QUEUE = 4096, S1 = 0, S2, H1, H2, H3 };

/* Messages on their way, in order. */
struct wire {
	uint8_t *bytes[QUEUE];
	size_t length[QUEUE];
	uint32_t head, tail;
};

struct halves {
	struct fabric *f[2];
	struct wire to[2];
	bool are_here[2][NODES];
	uint64_t now_ns, carried;
};

static void send_all(struct halves *h, uint32_t from)
{
	struct wire *w = &h->to[from ^ 1];
	struct trunk_message m;

	for (uint32_t cable = 0; cable < fabric_cable_count(h->f[from]); cable++) {
		if (!fabric_is_trunk(h->f[from], cable))
			continue;
		while (w->tail - w->head < QUEUE && fabric_trunk_next(h->f[from], cable, &m)) {
			uint8_t *bytes = malloc(TRUNK_MESSAGE_MAX);

			REQUIRE(bytes);
			w->length[w->tail % QUEUE] = trunk_encode(&m, bytes, TRUNK_MESSAGE_MAX);
			REQUIRE(w->length[w->tail % QUEUE] > 0);
			w->bytes[w->tail++ % QUEUE] = bytes;
		}
	}
}

/* The oldest message arrives. False: there is none. */
static bool arrive(struct halves *h, uint32_t at)
{
	struct wire *w = &h->to[at];
	struct trunk_message m;
	size_t used;

	if (w->head == w->tail)
		return false;
	REQUIRE(trunk_decode(&m, w->bytes[w->head % QUEUE], w->length[w->head % QUEUE], &used) ==
		WEFT_OK);
	fabric_trunk_take(h->f[at], &m);
	fabric_run(h->f[at], h->now_ns);
	free(w->bytes[w->head++ % QUEUE]);
	h->carried++;
	return true;
}

static void run_both(struct halves *h)
{
	for (uint32_t i = 0; i < 2; i++)
		fabric_run(h->f[i], h->now_ns);
}

/* Until nothing moves, and for so many ms. */
static void pass(struct halves *h, uint32_t ms)
{
	enum { STEP_NS = 1000000 };

	for (uint32_t round = 0; round < ms; round++) {
		bool has_moved = true;

		h->now_ns += STEP_NS;
		for (uint32_t turn = 0; has_moved && turn < 100000; turn++) {
			has_moved = false;
			run_both(h);
			for (uint32_t i = 0; i < 2; i++) {
				send_all(h, i);
				while (arrive(h, i ^ 1))
					has_moved = true;
			}
		}
		REQUIRE(!has_moved);
	}
}

static void rest(struct halves *h)
{
	pass(h, 200);
}

static void join(struct halves *h, bool is_joined)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct wire *w = &h->to[i];

		for (; w->head != w->tail; w->head++)
			free(w->bytes[w->head % QUEUE]);
		for (uint32_t cable = 0; cable < CABLES; cable++)
			if (fabric_is_trunk(h->f[i], cable))
				fabric_trunk_join(h->f[i], cable, is_joined);
	}
	run_both(h);
}

/* As if all were one: what is elsewhere is joined there. */
static void set_up(struct fabric *f)
{
	for (uint32_t cable = 0; cable < CABLES; cable++) {
		uint32_t node[2], port[2];

		fabric_cable_ends(f, cable, node, port);
		if (!fabric_is_here(f, node[0]) && !fabric_is_here(f, node[1]))
			REQUIRE(fabric_node_join(fabric_node_at(f, node[0]), port[0],
						 fabric_node_at(f, node[1]), port[1], 0));
	}
	REQUIRE(fabric_setup(f, FABRIC_MIN_HOP) == 0);
}

static void halves_open(struct halves *h, const bool here[NODES])
{
	struct topology t;
	uint32_t line;

	memset(h, 0, sizeof(*h));
	REQUIRE(topology_parse(&t, text, sizeof(text) - 1, &line) == WEFT_OK);
	for (uint32_t i = 0; i < 2; i++) {
		struct fabric_cfg cfg = fabric_cfg_live();

		for (uint32_t node = 0; node < NODES; node++)
			h->are_here[i][node] = here[node] == (i == 0);
		cfg.linear_max = 64;
		cfg.multicast_max = 4;
		cfg.are_here = h->are_here[i];
		REQUIRE(fabric_open(&t, &cfg, &h->f[i]) == WEFT_OK);
	}
	topology_fini(&t);
	run_both(h);
}

static void halves_close(struct halves *h)
{
	join(h, false);
	fabric_close(h->f[0]);
	fabric_close(h->f[1]);
}

static const bool in_two[NODES] = { [S1] = true, [H1] = true, [H2] = true };

static void halves_up(struct halves *h, const bool here[NODES])
{
	halves_open(h, here);
	join(h, true);
	rest(h);
	set_up(h->f[0]);
	set_up(h->f[1]);
	rest(h);
}

static uint32_t half_of(const struct halves *h, uint32_t node)
{
	return !h->are_here[0][node];
}

static enum sm_port_state state_of(struct halves *h, uint32_t node, uint32_t port)
{
	return fabric_node_at(h->f[half_of(h, node)], node)->ports[port].info.state;
}

static uint16_t lid_of(struct halves *h, uint32_t node)
{
	return fabric_node_at(h->f[half_of(h, node)], node)->ports[1].info.lid;
}

static bool post(struct halves *h, uint32_t from, uint32_t to, uint32_t bytes)
{
	uint8_t frame[IBA_FRAME_MAX];
	uint32_t length = bed_frame(frame, lid_of(h, from), lid_of(h, to), 0, bytes);

	return fabric_post(h->f[half_of(h, from)], from, 1, frame, length);
}

/* How many have come, each whole and in the order of their lengths. */
static uint32_t take(struct halves *h, uint32_t at, uint32_t first)
{
	uint8_t came[IBA_FRAME_MAX];
	uint32_t taken = first, length;

	while ((length = fabric_take(h->f[half_of(h, at)], at, 1, came)) > 0) {
		struct iba_frame f;

		REQUIRE(length == 8 + 12 * taken + 34);
		REQUIRE(iba_frame_decode_inner(&f, came, length) == WEFT_OK);
		taken++;
	}
	return taken;
}

static void stream(struct halves *h, uint32_t from, uint32_t to, uint32_t frames)
{
	uint32_t posted = 0, taken = 0;

	for (uint32_t round = 0; round < 1000 && taken < frames; round++) {
		while (posted < frames && post(h, from, to, 8 + 12 * posted))
			posted++;
		rest(h);
		taken = take(h, to, taken);
	}
	EXPECT_EQ(taken, frames);
}

TEST(test_fab_09_fab_13_frames_cross_from_process_to_process_whole_and_in_order)
{
	struct halves h;

	halves_up(&h, in_two);
	EXPECT(state_of(&h, S1, 3) == SM_PORT_ACTIVE && state_of(&h, S2, 3) == SM_PORT_ACTIVE);
	stream(&h, H1, H3, 300);
	stream(&h, H3, H2, 300);
	stream(&h, H1, H2, 30);
	halves_close(&h);
}

/* The shape of an adapter on another host: one endnode is elsewhere. */
TEST(test_fab_09_an_endnode_may_be_alone_in_its_process)
{
	static const bool all_but_one[NODES] = { true, true, true, true, false };
	struct halves h;

	halves_up(&h, all_but_one);
	stream(&h, H1, H3, 100);
	stream(&h, H3, H1, 100);
	halves_close(&h);
}

TEST(test_fab_10_an_owner_elsewhere_that_takes_nothing_holds_frames_back_and_none_is_lost)
{
	struct halves h;
	uint32_t posted = 0, before, taken = 0;

	halves_up(&h, in_two);
	do {
		before = posted;
		while (posted < 300 && post(&h, H1, H3, 8 + 12 * posted))
			posted++;
		pass(&h, 1);
	} while (posted > before);
	EXPECT(posted < 300); /* no process takes in more than its lanes have room for */
	for (uint32_t turn = 0; turn < 50; turn++) {
		taken = take(&h, H3, taken);
		pass(&h, 1);
	}
	EXPECT_EQ(taken, posted);
	halves_close(&h);
}

TEST(test_fab_09_a_trunk_is_down_at_both_ends_when_it_is_cut_or_its_carrier_is_gone)
{
	struct halves h;
	uint32_t cable;

	halves_open(&h, in_two);
	EXPECT(state_of(&h, S1, 3) == SM_PORT_DOWN);
	join(&h, true);
	rest(&h);
	EXPECT(state_of(&h, S1, 3) == SM_PORT_INIT && state_of(&h, S2, 3) == SM_PORT_INIT);
	cable = fabric_cable_at(h.f[1], S2, 3);
	fabric_cut(h.f[1], cable);
	rest(&h);
	EXPECT(state_of(&h, S1, 3) == SM_PORT_DOWN && state_of(&h, S2, 3) == SM_PORT_DOWN);
	EXPECT(state_of(&h, S1, 4) == SM_PORT_INIT && state_of(&h, S2, 4) == SM_PORT_INIT);
	fabric_mend(h.f[1], cable);
	rest(&h);
	EXPECT(state_of(&h, S1, 3) == SM_PORT_INIT && state_of(&h, S2, 3) == SM_PORT_INIT);
	join(&h, false);
	EXPECT(state_of(&h, S1, 3) == SM_PORT_DOWN && state_of(&h, S2, 4) == SM_PORT_DOWN);
	join(&h, true);
	rest(&h);
	EXPECT(state_of(&h, S1, 3) == SM_PORT_INIT && state_of(&h, S2, 4) == SM_PORT_INIT);
	halves_close(&h);
}

static void drain(struct halves *h, uint32_t at)
{
	uint8_t came[IBA_FRAME_MAX];

	while (fabric_take(h->f[half_of(h, at)], at, 1, came) > 0)
		;
}

/* As a subnet manager would that hears of it at once. */
static void ports_activate(struct halves *h)
{
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t node = i < 2 ? S1 : S2;
		struct fabric_node *n = fabric_node_at(h->f[half_of(h, node)], node);
		struct sm_port_info *info = &n->ports[3 + i % 2].info;

		info->state = info->state == SM_PORT_INIT ? SM_PORT_ACTIVE : info->state;
	}
}

/* A cable is cut, mended or both; frames are posted and taken; messages leave and arrive. */
static void day_pass(struct halves *h, struct prng *prng)
{
	uint32_t side = prng_next(prng) % 2, what = prng_next(prng) % 16;
	uint32_t cable = fabric_cable_at(h->f[0], S1, 3 + prng_next(prng) % 2);
	uint32_t at = side ? H1 : H3;

	h->now_ns += prng_next(prng) % 100000;
	if (what == 0 || what == 1)
		fabric_cut(h->f[side], cable);
	if (what == 1 || what == 2)
		fabric_mend(h->f[side], cable);
	if (what > 2 && what < 7)
		(void)post(h, at, side ? H3 : H1, 1 + prng_next(prng) % 1000);
	if (what > 4 && what < 10)
		send_all(h, side);
	if (what > 8)
		(void)arrive(h, side);
	run_both(h);
	ports_activate(h);
	drain(h, at);
}

/* Nothing of an earlier life was taken: what crosses loses and damages nothing. */
static void expect_clean(struct halves *h, uint32_t node, uint32_t port)
{
	const struct fabric_link_counts *c =
		&fabric_link_at(h->f[half_of(h, node)], node, port)->counts;

	EXPECT(state_of(h, node, port) != SM_PORT_DOWN);
	EXPECT_EQ(c->malformed, 0);
	EXPECT_EQ(c->recovers, 0);
	EXPECT_EQ(c->overruns, 0);
}

/* Both ends begin anew, again and again, while messages of earlier lives are on their way. */
TEST(test_fab_09_ends_that_begin_anew_at_any_time_come_up_with_each_other)
{
	for (uint64_t seed = 1; seed <= HISTORIES(200); seed++) {
		struct prng prng = { .state = seed };
		struct halves h;

		harness_note("seed %u", (unsigned int)seed);
		halves_up(&h, in_two);
		for (uint32_t step = 0; step < 1000; step++)
			day_pass(&h, &prng);
		for (uint32_t cable = 0; cable < CABLES; cable++) {
			fabric_mend(h.f[0], cable);
			fabric_mend(h.f[1], cable);
		}
		rest(&h);
		for (uint32_t port = 3; port <= 4; port++) {
			expect_clean(&h, S1, port);
			expect_clean(&h, S2, port);
		}
		drain(&h, H1);
		drain(&h, H3);
		ports_activate(&h);
		stream(&h, H1, H3, 40);
		stream(&h, H3, H1, 40);
		halves_close(&h);
	}
}

TEST(test_fab_07_a_trunk_that_damages_flits_sends_them_again)
{
	struct halves h;

	halves_up(&h, in_two);
	for (uint32_t port = 3; port <= 4; port++)
		fabric_errors(h.f[0], fabric_cable_at(h.f[0], S1, port), 20000);
	stream(&h, H1, H3, 300);
	stream(&h, H3, H1, 300);
	EXPECT(fabric_node_at(h.f[0], S1)->ports[3].counts.symbol_errors +
		       fabric_node_at(h.f[0], S1)->ports[4].counts.symbol_errors >
	       10);
	halves_close(&h);
}

TEST(test_fab_09_a_trunk_that_is_degraded_is_slow)
{
	struct halves h;
	uint32_t taken;

	halves_up(&h, in_two);
	for (uint32_t port = 3; port <= 4; port++)
		fabric_degrade(h.f[0], fabric_cable_at(h.f[0], S1, port), 1000); /* 70 us a flit */
	for (uint32_t i = 0; i < 20; i++)
		EXPECT(post(&h, H1, H3, 8 + 12 * i));
	pass(&h, 1);
	taken = take(&h, H3, 0);
	EXPECT(taken > 0 && taken < 20);
	rest(&h);
	EXPECT_EQ(take(&h, H3, taken), 20);
	halves_close(&h);
}

/* A frame that goes in circles through both processes ends, as one in a single process does. */
TEST(test_fab_15_a_loop_of_tables_through_two_processes_ends)
{
	struct halves h;
	uint16_t lid;
	uint64_t carried;

	halves_up(&h, in_two);
	lid = lid_of(&h, H3);
	fabric_node_at(h.f[1], S2)->linear[lid] = 4; /* back to S1 */
	fabric_node_at(h.f[0], S1)->linear[lid] = 3;
	carried = h.carried;
	EXPECT(post(&h, H1, H3, 100));
	rest(&h);
	EXPECT(h.carried - carried < 1000);
	EXPECT(fabric_node_at(h.f[0], S1)->ports[4].counts.transmit_discards +
		       fabric_node_at(h.f[1], S2)->ports[3].counts.transmit_discards ==
	       1);
	halves_close(&h);
}

/* IBA 14.2.5.6, OverrunErrors: so often that may be. */
TEST(test_fab_05_a_trunk_that_sends_without_credit_is_an_overrun_of_its_port)
{
	static const uint8_t zeros[FLIT_DATA];
	struct halves h;
	struct fabric_node_port *p;
	struct trunk_message m = { .kind = TRUNK_RUN,
				   .run = { .lane = 9, .is_last = true, .length = FLIT_DATA } };

	halves_up(&h, in_two);
	p = &fabric_node_at(h.f[0], S1)->ports[3];
	m.cable = fabric_cable_at(h.f[0], S1, 3);
	m.run.data = zeros;
	m.run.sequence = fabric_link_at(h.f[0], S1, 3)->expected;
	for (uint32_t i = 0; i <= p->info.overrun_errors; i++) {
		(void)fabric_node_at(h.f[0], S1);
		EXPECT_EQ(p->counts.overrun_errors, 0);
		fabric_trunk_take(h.f[0], &m);
	}
	(void)fabric_node_at(h.f[0], S1);
	EXPECT_EQ(p->counts.overrun_errors, 1);
	EXPECT_EQ(fabric_node_at(h.f[0], S1)->ports[4].counts.overrun_errors, 0);
	halves_close(&h);
}

/* Other parts find nodes by what they are told; the M_Key is a secret of the manager. */
TEST(test_fab_22_what_is_told_of_a_port_has_no_m_key)
{
	struct trunk_port told = { .port = 1 };
	struct halves h;
	struct fabric_node_port *p;

	halves_up(&h, in_two);
	p = &fabric_node_at(h.f[0], H1)->ports[1];
	p->info.m_key = 77;
	fabric_port_tell(h.f[0], H1, &told);
	EXPECT(told.info.lid == p->info.lid && told.guids.guids[0] == p->guids[0]);
	EXPECT_EQ(told.info.m_key, 0);
	halves_close(&h);
}
