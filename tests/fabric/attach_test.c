/* SPDX-License-Identifier: BSD-2-Clause */
/* Adapters at ports of a fabric: who gets which frames, and what a hostile or dead one can do. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "driver/fabric/fabric_attach.h"
#include "driver/near/ring.h"
#include "driver/sys/unix_sockets.h"
#include "fabric/fabric_bed.h"
#include "test.h"

enum { PATIENCE_MS = 20000 };

struct end {
	struct fabric_attach *attach;
	struct watch *watch;
	uint32_t news;
	bool has_gone;
};

static void end_watch(void *owner, struct watch *w, uint32_t events)
{
	struct end *e = owner;

	w->interest = events;
	e->watch = events ? w : NULL;
}

static void end_changed(void *owner, uint32_t news)
{
	struct end *e = owner;

	e->news |= news;
	e->has_gone |= news == 0;
}

static enum weft_reason end_try(struct end *e, const char *node, uint32_t port)
{
	const struct fabric_attach_config config = {
		.watch = end_watch,
		.changed = end_changed,
		.owner = e,
		.fabric = fabric_bed_name(),
		.node = node,
		.port = port,
	};

	*e = (struct end){ .news = 0 };
	return fabric_attach_open(&config, &e->attach);
}

static void end_open(struct end *e, int node)
{
	fabric_bed_open();
	MUST(end_try(e, node ? "right" : "left", 0));
}

/* Until its socket is readable. */
static void end_look(struct end *e)
{
	struct pollfd p = { .events = POLLIN };

	REQUIRE(e->watch);
	p.fd = e->watch->fd;
	REQUIRE(poll(&p, 1, PATIENCE_MS) == 1);
	e->watch->ready(e->watch, EPOLLIN);
}

/* A frame of UD to a queue pair. */
static uint32_t frame_to(uint8_t *bytes, uint16_t from, uint16_t to, uint32_t qp,
			 const uint8_t *gid)
{
	static const uint8_t payload[8] = "payload";
	struct iba_frame f = {
		.lrh = { .from = from, .to = to },
		.has_grh = gid != NULL,
		.grh = { .next_header = IBA_GRH_NEXT_BTH },
		.packet = { .opcode = IBA_UD_SEND,
			    .p_key = IBA_PKEY_DEFAULT,
			    .dest_qp = qp,
			    .payload = payload,
			    .payload_bytes = sizeof(payload) },
	};

	if (gid)
		memcpy(f.grh.to, gid, 16);
	return iba_frame_encode(&f, bytes);
}

/* Posts it as a packet that was built in the ring. False: there is no room. */
static bool end_post(struct end *e, const uint8_t *frame, uint32_t length, bool has_grh)
{
	struct ib_out out = { .route_bytes = has_grh ? IB_ROUTE_BYTES_MAX : IBA_LRH_BYTES };

	if (fabric_attach_begin(e->attach, &out, 1, IBA_PACKET_MAX) == 0)
		return false;
	memcpy(out.room - out.route_bytes, frame, length);
	out.spans = (struct span_list){ .count = 1, .length = length - IBA_VCRC_BYTES };
	fabric_attach_end(e->attach, &out, 1);
	fabric_attach_flush(e->attach);
	return true;
}

static const struct ib_in *end_next(struct end *e)
{
	const struct ib_in *in = fabric_attach_next(e->attach);

	while (!in) {
		if (fabric_attach_rest(e->attach))
			end_look(e);
		in = fabric_attach_next(e->attach);
	}
	return in;
}

static uint16_t lid_of(const struct end *e)
{
	return fabric_attach_state(e->attach)->info.lid;
}

static uint32_t qp_of(const struct end *e)
{
	return (uint32_t)fabric_attach_slot(e->attach) << 16 | 5;
}

static void end_send(struct end *from, const struct end *to)
{
	uint8_t frame[IBA_FRAME_MAX];

	REQUIRE(end_post(from, frame, frame_to(frame, lid_of(from), lid_of(to), qp_of(to), NULL),
			 false));
}

static uint64_t wanted;

static bool has_refused(const struct fabric_hub_counts *n)
{
	return n->refused >= wanted;
}

static bool has_lost(const struct fabric_hub_counts *n)
{
	return n->lost >= wanted;
}

static bool has_adapters(const struct fabric_hub_counts *n)
{
	return n->adapters == wanted;
}

static bool has_held(const struct fabric_hub_counts *n)
{
	return n->held >= wanted;
}

static bool has_broken(const struct fabric_hub_counts *n)
{
	return n->broken >= wanted;
}

static bool await(bool (*is_so)(const struct fabric_hub_counts *n), uint64_t count)
{
	wanted = count;
	return fabric_bed_await(is_so);
}

/* SYS-01: several adapters of one node, each with its queue pairs. */
TEST(test_sys_01_a_frame_goes_to_the_adapter_of_its_queue_pair)
{
	struct end ends[3];

	end_open(&ends[0], 0);
	end_open(&ends[1], 1);
	end_open(&ends[2], 1);
	EXPECT(fabric_attach_slot(ends[1].attach) != fabric_attach_slot(ends[2].attach));
	EXPECT_EQ(fabric_attach_state(ends[1].attach)->port_guid, 0x201);
	for (int i = 1; i < 3; i++) {
		end_send(&ends[0], &ends[i]);
		EXPECT_EQ(iba_dest_qp(end_next(&ends[i])->bytes, 64), qp_of(&ends[i]));
	}
	/* To itself, and to another adapter of its own port: without a link. */
	end_send(&ends[1], &ends[1]);
	EXPECT_EQ(end_next(&ends[1])->local.from, lid_of(&ends[1]));
	end_send(&ends[1], &ends[2]);
	EXPECT_EQ(end_next(&ends[2])->local.to, lid_of(&ends[2]));
	for (int i = 0; i < 3; i++)
		fabric_attach_close(ends[i].attach);
	EXPECT(await(has_adapters, 0));
	fabric_bed_close();
}

/* FAB-22f: which of its LIDs it came to; FAB-23. */
TEST(test_fab_22f_path_bits_of_several_lids)
{
	struct end a, b;
	uint8_t frame[IBA_FRAME_MAX];

	end_open(&a, 0);
	end_open(&b, 1);
	for (uint16_t bits = 0; bits < 2; bits++) {
		uint16_t from = (uint16_t)(lid_of(&a) + bits), to = (uint16_t)(lid_of(&b) + bits);

		REQUIRE(end_post(&a, frame, frame_to(frame, from, to, qp_of(&b), NULL), false));
		EXPECT_EQ(end_next(&b)->path_bits, bits);
	}
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_bed_close();
}

static void go_init(struct attach_state *s)
{
	s->info.state = SM_PORT_INIT;
}

static void go_active(struct attach_state *s)
{
	s->info.state = SM_PORT_ACTIVE;
}

/* What an adapter may not send: in the name of others, to management, or while it is not Active. */
TEST(test_fab_22c_adapter_sends_only_as_itself)
{
	struct end a, b;
	uint8_t frame[IBA_FRAME_MAX];
	uint16_t from, to;

	end_open(&a, 0);
	end_open(&b, 1);
	from = lid_of(&a);
	to = lid_of(&b);
	REQUIRE(end_post(&a, frame, frame_to(frame, (uint16_t)(from + 2), to, qp_of(&b), NULL),
			 false));
	REQUIRE(end_post(&a, frame, frame_to(frame, from, to, 0, NULL), false));
	REQUIRE(end_post(&a, frame, frame_to(frame, from, 0, qp_of(&b), NULL), false));
	REQUIRE(end_post(&a, frame, frame_to(frame, from, 0xffff, qp_of(&b), NULL), false));
	REQUIRE(end_post(&a, frame, 20, false)); /* not as long as it says */
	EXPECT(await(has_refused, 5));
	fabric_bed_change(0, go_init, ATTACH_NEWS_STATE);
	end_look(&a);
	EXPECT_EQ(a.news, ATTACH_NEWS_STATE);
	EXPECT_EQ(fabric_attach_state(a.attach)->info.state, SM_PORT_INIT);
	end_send(&a, &b);
	EXPECT(await(has_refused, 6));
	EXPECT_EQ(fabric_bed_frames(), 0);
	fabric_bed_change(0, go_active, ATTACH_NEWS_STATE);
	end_send(&a, &b);
	(void)end_next(&b);
	/* A queue pair that no adapter has. */
	REQUIRE(end_post(&a, frame, frame_to(frame, from, to, 0xfe0001, NULL), false));
	EXPECT(await(has_lost, 1));
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_bed_close();
}

TEST(test_fab_22a_nodes_and_slots_that_are_not_there)
{
	struct end e, all[254];

	fabric_bed_open();
	EXPECT_EQ(end_try(&e, "middle", 0), WEFT_R_FABRIC_NODE);
	EXPECT_EQ(end_try(&e, "left", 2), WEFT_R_FABRIC_NODE);
	EXPECT_EQ(end_try(&e, "elsewhere", 0), WEFT_R_FABRIC_PART);
	for (int i = 0; i < 254; i++)
		MUST(end_try(&all[i], "left", 1));
	EXPECT_EQ(end_try(&e, "left", 1), WEFT_R_FABRIC_SLOTS);
	fabric_attach_close(all[7].attach);
	EXPECT(await(has_adapters, 253));
	MUST(end_try(&all[7], "left", 1));
	for (int i = 0; i < 254; i++)
		fabric_attach_close(all[i].attach);
	fabric_bed_close();
	EXPECT_EQ(end_try(&e, "left", 0), WEFT_R_FABRIC_ABSENT);
}

/* A service is one adapter's at a port, until it releases it, or ends. */
TEST(test_fab_20_services_of_a_port)
{
	struct end a, b, c;

	end_open(&a, 0);
	end_open(&b, 0);
	end_open(&c, 1);
	MUST(fabric_attach_claim(a.attach, 7));
	MUST(fabric_attach_claim(a.attach, 7));
	EXPECT_EQ(fabric_attach_claim(b.attach, 7), WEFT_R_ADDRESS_IN_USE);
	MUST(fabric_attach_claim(c.attach, 7));
	fabric_attach_release(a.attach, 7);
	EXPECT_EQ(fabric_attach_claim(b.attach, 7), WEFT_R_ADDRESS_IN_USE);
	fabric_attach_release(a.attach, 7);
	MUST(fabric_attach_claim(a.attach, 8)); /* so the release was heard */
	MUST(fabric_attach_claim(b.attach, 7));
	fabric_attach_close(b.attach);
	EXPECT(await(has_adapters, 2));
	MUST(fabric_attach_claim(a.attach, 7));
	fabric_attach_close(a.attach);
	fabric_attach_close(c.attach);
	fabric_bed_close();
}

TEST(test_fab_20_an_adapter_has_so_many_services_at_most)
{
	enum { SERVICES = 4096 };
	struct end a;

	end_open(&a, 0);
	for (uint64_t i = 1; i <= SERVICES; i++)
		MUST(fabric_attach_claim(a.attach, i));
	EXPECT_EQ(fabric_attach_claim(a.attach, SERVICES + 1), WEFT_R_LIMIT);
	MUST(fabric_attach_claim(a.attach, 1)); /* it has that one */
	fabric_attach_close(a.attach);
	fabric_bed_close();
}

/* UD: all that have joined get a copy, its sender too. */
TEST(test_ud_01_group_of_several_adapters)
{
	static const uint8_t gid[16] = { 0xff, 0x12, [15] = 9 };
	struct end a, b, c;
	uint8_t frame[IBA_FRAME_MAX];
	uint32_t length;

	end_open(&a, 0);
	end_open(&b, 1);
	end_open(&c, 1);
	MUST(fabric_attach_join(a.attach, gid));
	MUST(fabric_attach_join(b.attach, gid));
	length = frame_to(frame, lid_of(&a), 0xc001, IBA_QPN_MULTICAST, gid);
	REQUIRE(end_post(&a, frame, length, true));
	EXPECT_EQ(end_next(&a)->local.to, 0xc001);
	EXPECT_EQ(end_next(&b)->local.to, 0xc001);
	fabric_attach_leave(b.attach, gid);
	MUST(fabric_attach_join(c.attach, gid));
	REQUIRE(end_post(&a, frame, length, true));
	EXPECT_EQ(end_next(&c)->local.to, 0xc001);
	end_send(&a, &b);
	EXPECT_EQ(end_next(&b)->local.to, lid_of(&b)); /* and not the group's before it */
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_attach_close(c.attach);
	fabric_bed_close();
}

/* Sends until one that does not read holds frames back, and all that is behind it is full. */
static uint32_t end_fill(struct end *from, const struct end *to)
{
	uint8_t frame[IBA_FRAME_MAX];
	uint32_t length = frame_to(frame, lid_of(from), lid_of(to), qp_of(to), NULL), sent = 0;
	const uint64_t held = fabric_bed_counts().held;
	bool is_held = false;

	for (;;) {
		if (end_post(from, frame, length, false)) {
			sent++;
			continue;
		}
		if (fabric_attach_rest(from->attach) && is_held)
			return sent;
		is_held = fabric_bed_counts().held > held;
	}
}

/* FAB-13: one that does not read holds its port's frames back, and loses none; FAB-10. */
TEST(test_fab_13_adapter_that_does_not_read_loses_nothing)
{
	struct end a, b;
	uint32_t sent;

	end_open(&a, 0);
	end_open(&b, 1);
	sent = end_fill(&a, &b);
	for (uint32_t come = 0; come < sent; come++)
		(void)end_next(&b);
	EXPECT(fabric_attach_next(b.attach) == NULL);
	EXPECT(fabric_attach_has_room(a.attach));
	end_send(&a, &b);
	(void)end_next(&b);
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_bed_close();
}

/* A process that dies with its ring full lets the frames of others pass at once. */
TEST(test_sys_01_dead_adapter_holds_back_no_frames)
{
	struct end a, b, c;

	end_open(&a, 0);
	end_open(&b, 1);
	end_open(&c, 1);
	(void)end_fill(&a, &b);
	fabric_attach_close(b.attach);
	while (!fabric_attach_has_room(a.attach))
		end_look(&a);
	end_send(&a, &c);
	EXPECT_EQ(iba_dest_qp(end_next(&c)->bytes, 64), qp_of(&c));
	fabric_attach_close(a.attach);
	fabric_attach_close(c.attach);
	fabric_bed_close();
}

/* What a program sent before it ended arrives: its peer may wait for it. */
TEST(test_sys_01_frames_of_an_adapter_that_has_closed_arrive)
{
	enum { FRAMES = 200 }; /* more than the hub takes before it hears of the end */
	struct end a, b;

	end_open(&a, 0);
	end_open(&b, 1);
	fabric_bed_hold();
	for (int i = 0; i < FRAMES; i++)
		end_send(&a, &b);
	fabric_attach_close(a.attach);
	fabric_bed_release();
	for (int i = 0; i < FRAMES; i++)
		EXPECT_EQ(iba_dest_qp(end_next(&b)->bytes, 64), qp_of(&b));
	EXPECT(await(has_adapters, 1));
	fabric_attach_close(b.attach);
	fabric_bed_close();
}

/* Also if they have to wait for one that does not read. */
TEST(test_fab_13_frames_of_an_adapter_that_has_closed_are_held_back)
{
	struct end a, b, c;
	uint32_t sent, come = 0;
	uint64_t held;

	end_open(&a, 0);
	end_open(&b, 1);
	end_open(&c, 0);
	sent = end_fill(&a, &b);
	fabric_attach_close(a.attach);
	EXPECT(await(has_adapters, 2));
	held = fabric_bed_counts().held;
	fabric_bed_hold();
	for (; come < sent / 3; come++) /* half of its ring, and less than waits */
		(void)end_next(&b);
	fabric_bed_release();
	EXPECT(await(has_held, held + 1));
	for (; come < sent; come++)
		EXPECT_EQ(iba_dest_qp(end_next(&b)->bytes, 64), qp_of(&b));
	end_send(&c, &b);
	(void)end_next(&b);
	EXPECT(fabric_attach_next(b.attach) == NULL);
	fabric_attach_close(b.attach);
	fabric_attach_close(c.attach);
	fabric_bed_close();
}

/* Its peer's end of the ring, as a hostile program would have it. */
static int hostile_attach(struct ring *r, struct attach_message *m)
{
	struct unix_names names = attach_names_of(fabric_bed_name());
	struct attach_message q = attach_message_of(ATTACH_ATTACH);
	int fd = unix_names_connect(&names);
	struct pollfd p = { .fd = fd, .events = POLLIN };

	REQUIRE(fd >= 0);
	q.descriptor = ring_make(r, ATTACH_RING_BYTES);
	REQUIRE(q.descriptor >= 0);
	memcpy(q.node, "left", 5);
	REQUIRE(attach_message_send(fd, &q));
	close(q.descriptor);
	REQUIRE(poll(&p, 1, PATIENCE_MS) == 1);
	attach_message_take(fd, m);
	REQUIRE(m->kind == ATTACH_ATTACHED);
	return fd;
}

static void hostile_wake(int fd)
{
	const struct attach_message m = attach_message_of(ATTACH_WAKE);

	REQUIRE(attach_message_send(fd, &m));
}

/* Records that do not fit, and counters out of range, end the connection of their writer alone. */
TEST(test_fab_07_hostile_rings_end_their_own_connection)
{
	static const struct attach_head heads[] = {
		{ 0, 100 },
		{ ATTACH_HEAD_BYTES - 1, 100 },
		{ ATTACH_RECORD_MAX + 1, 100 },
		{ UINT32_MAX, 1 },
		{ ATTACH_HEAD_BYTES, 0 },
		{ ATTACH_HEAD_BYTES, IBA_FRAME_MAX + 1 },
		{ ATTACH_HEAD_BYTES, UINT32_MAX },
		{ ATTACH_HEAD_BYTES, 200 }, /* longer than what was put */
	};
	struct end a, b;

	end_open(&a, 0);
	end_open(&b, 1);
	for (uint32_t i = 0; i <= sizeof(heads) / sizeof(heads[0]); i++) {
		struct attach_message m;
		struct ring r;
		int fd = hostile_attach(&r, &m);

		if (i < sizeof(heads) / sizeof(heads[0])) {
			memcpy(r.data, &heads[i], sizeof(heads[i]));
			ring_put(&r, 64);
		} else {
			atomic_store(&r.head->put, UINT64_C(1) << 40);
		}
		hostile_wake(fd);
		EXPECT(await(has_broken, i + 1));
		close(m.descriptor);
		close(fd);
		ring_unmap(&r);
	}
	end_send(&a, &b);
	(void)end_next(&b);
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_bed_close();
}

/* Puts a frame. False: its ring is full. */
static bool hostile_put(struct ring *r, const uint8_t *frame, uint32_t length)
{
	const struct attach_head head = { .at = ATTACH_HEAD_BYTES, .length = length };
	uint8_t *room = ring_room(r, ATTACH_HEAD_BYTES + length);

	if (!room)
		return false;
	memcpy(room, &head, sizeof(head));
	memcpy(room + ATTACH_HEAD_BYTES, frame, length);
	ring_put(r, ATTACH_HEAD_BYTES + length);
	return true;
}

/* One that has closed its connection and still puts frames has no more than it had put before. */
TEST(test_fab_07_hostile_ring_sends_nothing_after_its_end)
{
	enum { BEFORE = 100, AFTER = 7 };
	struct attach_message m;
	struct ring r;
	struct end a, b;
	uint8_t frame[IBA_FRAME_MAX];
	uint32_t length, sent;
	int fd;

	end_open(&a, 0);
	end_open(&b, 1);
	length = frame_to(frame, lid_of(&a), lid_of(&b), qp_of(&b), NULL);
	sent = end_fill(&a, &b);
	fd = hostile_attach(&r, &m);
	for (int i = 0; i < BEFORE; i++)
		REQUIRE(hostile_put(&r, frame, length));
	close(fd);
	EXPECT(await(has_adapters, 2));
	for (int i = 0; i < AFTER; i++)
		REQUIRE(hostile_put(&r, frame, length));
	for (uint32_t come = 0; come < sent + BEFORE; come++)
		(void)end_next(&b);
	end_send(&a, &a); /* takes its turn behind the hostile one */
	(void)end_next(&a);
	EXPECT(fabric_attach_next(b.attach) == NULL);
	close(m.descriptor);
	ring_unmap(&r);
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_bed_close();
}

/* Mappings of memory that this process shares with others. */
static uint32_t mappings(void)
{
	FILE *from = fopen("/proc/self/maps", "r");
	uint32_t count = 0;
	char line[512];

	REQUIRE(from);
	while (fgets(line, sizeof(line), from))
		count += strstr(line, "memfd:") != NULL;
	fclose(from);
	return count;
}

/* The hub is in this process. */
TEST(test_fab_07_a_program_that_is_refused_again_and_again_costs_no_memory)
{
	struct attach_message q = attach_message_of(ATTACH_ATTACH), m;
	struct unix_names names;
	struct pollfd p = { .events = POLLIN };
	uint32_t before = 0;
	struct ring r;

	fabric_bed_open();
	names = attach_names_of(fabric_bed_name());
	p.fd = unix_names_connect(&names);
	q.descriptor = ring_make(&r, ATTACH_RING_BYTES);
	REQUIRE(p.fd >= 0 && q.descriptor >= 0);
	memcpy(q.node, "middle", 7);
	for (int i = 0; i < 20; i++) {
		REQUIRE(attach_message_send(p.fd, &q));
		REQUIRE(poll(&p, 1, PATIENCE_MS) == 1);
		attach_message_take(p.fd, &m);
		EXPECT_EQ(m.reason, WEFT_R_FABRIC_NODE);
		if (i == 10)
			before = mappings(); /* of the one before this, at least, it has let go */
	}
	EXPECT(mappings() <= before + 3);
	close(q.descriptor);
	close(p.fd);
	ring_unmap(&r);
	fabric_bed_close();
}

/*
 * One that ends while its frame waits keeps the ring that it is in, and of a port's only so many
 * do: one more loses its frames.
 */
TEST(test_fab_07_programs_that_end_with_frames_that_wait_cost_so_much_memory_at_most)
{
	enum { LEAVERS_MAX = 254, ROUNDS = 2 };
	struct end a, b, c;
	uint32_t ring, sent, before = mappings();

	end_open(&a, 0);
	ring = (mappings() - before) / 4; /* two, each of them mapped by both sides */
	end_open(&b, 1);
	for (int round = 0; round < ROUNDS; round++) {
		sent = end_fill(&a, &b);
		before = mappings();
		for (uint32_t i = 1; i <= LEAVERS_MAX + 1; i++) {
			end_open(&c, 0);
			end_send(&c, &b);
			fabric_attach_close(c.attach);
			REQUIRE(await(has_adapters, 2));
			REQUIRE(mappings() == before + ring * (i < LEAVERS_MAX ? i : LEAVERS_MAX));
		}
		for (uint32_t come = 0; come < sent + LEAVERS_MAX; come++)
			(void)end_next(&b);
		(void)fabric_bed_counts(); /* the hub's turn with the last one is over */
		EXPECT_EQ(mappings(), before);
		EXPECT(fabric_attach_next(b.attach) == NULL);
		EXPECT(fabric_attach_has_room(a.attach));
	}
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_bed_close();
}

/* While the hub is awake, it sees by itself that it cannot write to an adapter's ring. */
TEST(test_fab_07_hostile_ring_ends_its_connection_while_the_hub_is_awake)
{
	struct attach_message m;
	struct ring r, to;
	struct end b;
	uint8_t frame[IBA_FRAME_MAX];
	uint32_t length;
	int fd;

	end_open(&b, 1);
	fabric_bed_stay_awake();
	fd = hostile_attach(&r, &m);
	REQUIRE(ring_map(&to, m.descriptor) == 0);
	atomic_store(&to.head->taken, UINT64_C(1) << 40);
	length = frame_to(frame, lid_of(&b), m.state.info.lid, (uint32_t)m.slot << 16 | 5, NULL);
	for (uint32_t i = 0; i < ATTACH_RING_BYTES / ATTACH_HEAD_BYTES; i++) { /* it is soon full */
		while (!end_post(&b, frame, length, false)) {
			if (fabric_attach_rest(b.attach))
				end_look(&b);
		}
		if (fabric_bed_counts().broken > 0)
			break;
	}
	EXPECT(await(has_broken, 1));
	EXPECT(await(has_adapters, 1));
	close(m.descriptor);
	close(fd);
	ring_unmap(&r);
	ring_unmap(&to);
	fabric_attach_close(b.attach);
	fabric_bed_close();
}

/* So do messages that make no sense; and a ring that can shrink is none. */
TEST(test_fab_07_hostile_messages_end_their_own_connection)
{
	struct unix_names names;
	struct attach_message q = attach_message_of(ATTACH_CLAIM), m;
	struct end a;
	struct pollfd p = { .events = POLLIN };
	char path[] = "/tmp/weft-ring-XXXXXX";

	end_open(&a, 0);
	names = attach_names_of(fabric_bed_name());
	for (int i = 0; i < 3; i++) {
		p.fd = unix_names_connect(&names);
		REQUIRE(p.fd >= 0);
		if (i == 0)
			REQUIRE(attach_message_send(p.fd, &q)); /* before it is attached */
		else if (i == 1)
			REQUIRE(send(p.fd, "nonsense", 8, 0) == 8);
		else
			REQUIRE(send(p.fd, &q, sizeof(q) - 1, 0) == sizeof(q) - 1);
		REQUIRE(poll(&p, 1, PATIENCE_MS) == 1);
		attach_message_take(p.fd, &m);
		EXPECT_EQ(m.kind, ATTACH_CLOSED);
		close(p.fd);
		EXPECT(await(has_broken, (uint64_t)i + 1));
	}
	q = attach_message_of(ATTACH_ATTACH);
	memcpy(q.node, "left", 5);
	q.descriptor = mkstemp(path);
	REQUIRE(q.descriptor >= 0);
	unlink(path);
	REQUIRE(ftruncate(q.descriptor, 1 << 20) == 0);
	p.fd = unix_names_connect(&names);
	REQUIRE(attach_message_send(p.fd, &q));
	REQUIRE(poll(&p, 1, PATIENCE_MS) == 1);
	attach_message_take(p.fd, &m);
	EXPECT_EQ(m.kind, ATTACH_REFUSED);
	EXPECT_EQ(m.reason, WEFT_R_BAD_ARGUMENT);
	close(q.descriptor);
	close(p.fd);
	fabric_attach_close(a.attach);
	fabric_bed_close();
}

/* The fabric ends: the port is down, and nothing waits for it. */
TEST(test_sys_01_fabric_that_ends_takes_its_ports_along)
{
	const uint8_t gid[16] = { 0xff, 0x12 };
	struct end a;

	end_open(&a, 0);
	fabric_bed_close();
	end_look(&a);
	EXPECT(a.has_gone);
	EXPECT_EQ(fabric_attach_state(a.attach)->info.state, SM_PORT_DOWN);
	EXPECT_EQ(fabric_attach_claim(a.attach, 1), WEFT_R_FABRIC_ABSENT);
	EXPECT_EQ(fabric_attach_join(a.attach, gid), WEFT_R_FABRIC_ABSENT);
	EXPECT(fabric_attach_next(a.attach) == NULL);
	fabric_attach_close(a.attach);
}
