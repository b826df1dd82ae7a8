/* SPDX-License-Identifier: BSD-2-Clause */
/* Adapters at ports of a fabric: what a hostile one can do, and one that finds no room. */
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "driver/near/ring.h"
#include "driver/sys/unix_sockets.h"
#include "fabric/along.h"
#include "fabric/attach_end.h"
#include "test.h"

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
		EXPECT(hub_await(hub_has_broken, i + 1));
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
	length = end_frame(frame, end_lid(&a), end_lid(&b), end_qp(&b), NULL);
	sent = end_fill(&a, &b);
	fd = hostile_attach(&r, &m);
	for (int i = 0; i < BEFORE; i++)
		REQUIRE(hostile_put(&r, frame, length));
	close(fd);
	EXPECT(hub_await(hub_has_adapters, 2));
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
			REQUIRE(hub_await(hub_has_adapters, 2));
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
	length = end_frame(frame, end_lid(&b), m.state.info.lid, (uint32_t)m.slot << 16 | 5, NULL);
	for (uint32_t i = 0; i < ATTACH_RING_BYTES / ATTACH_HEAD_BYTES; i++) { /* it is soon full */
		while (!end_post(&b, frame, length, false)) {
			if (fabric_attach_rest(b.attach))
				end_look(&b);
		}
		if (fabric_bed_counts().broken > 0)
			break;
	}
	EXPECT(hub_await(hub_has_broken, 1));
	EXPECT(hub_await(hub_has_adapters, 1));
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
		EXPECT(hub_await(hub_has_broken, (uint64_t)i + 1));
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

/* Each ends its connection; of what it has brought nothing stays open. */
TEST(test_fab_07_descriptors_of_hostile_messages_are_closed)
{
	const struct attach_message wake = attach_message_of(ATTACH_WAKE);
	struct unix_names names;

	fabric_bed_open();
	names = attach_names_of(fabric_bed_name());
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t before = along_descriptors();
		struct pollfd p = { .fd = unix_names_connect(&names), .events = POLLIN };
		struct attach_message m;

		REQUIRE(p.fd >= 0);
		/* Before it is attached, and no kind that has a descriptor. */
		along_send(p.fd, &wake, i / 2 * offsetof(struct attach_message, reason), 1 + i % 2);
		REQUIRE(poll(&p, 1, PATIENCE_MS) == 1);
		attach_message_take(p.fd, &m);
		EXPECT_EQ(m.kind, ATTACH_CLOSED);
		close(p.fd);
		EXPECT_EQ(along_descriptors(), before);
	}
	fabric_bed_close();
}

/* It does not look at the listener again and again, and has its descriptor back. */
TEST(test_sys_01_a_hub_without_descriptors_ends_what_connects)
{
	struct pollfd ps[3];
	struct unix_names names;
	struct rlimit was;
	struct end a;

	fabric_bed_open();
	names = attach_names_of(fabric_bed_name());
	for (int i = 0; i < 3; i++)
		ps[i] = (struct pollfd){ .fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0),
					 .events = POLLIN };
	was = along_limit();
	for (int i = 0; i < 3; i++) {
		struct attach_message m;

		along_connect(ps[i].fd, &names);
		REQUIRE(poll(&ps[i], 1, PATIENCE_MS) == 1);
		attach_message_take(ps[i].fd, &m);
		EXPECT_EQ(m.kind, ATTACH_CLOSED);
	}
	REQUIRE(setrlimit(RLIMIT_NOFILE, &was) == 0);
	for (int i = 0; i < 3; i++)
		close(ps[i].fd);
	end_open(&a, 0);
	fabric_attach_close(a.attach);
	fabric_bed_close();
}

/* ---- A fabric that makes no sense ------------------------------------------------------------ */

/* It answers one adapter, and has the end of the ring by which that gets frames. */
struct fake {
	int listener, fd;
	struct ring ring;
};

static bool fake_hears(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, PATIENCE_MS) == 1;
}

static void *fake_run(void *of)
{
	struct attach_message m = attach_message_of(ATTACH_ATTACHED), q;
	struct fake *f = of;

	f->fd = fake_hears(f->listener) ? accept(f->listener, NULL, NULL) : -1;
	if (f->fd < 0 || !fake_hears(f->fd))
		return NULL;
	attach_message_take(f->fd, &q);
	close(q.descriptor);
	m.slot = 1;
	m.port = 1;
	m.descriptor = ring_make(&f->ring, ATTACH_RING_BYTES);
	m.bell = eventfd(0, EFD_CLOEXEC);
	(void)attach_message_send(f->fd, &m);
	close(m.descriptor);
	close(m.bell);
	return NULL;
}

static void fake_attach(struct fake *f, struct end *e)
{
	struct unix_names names;
	bool are_all_foreign;
	pthread_t thread;
	char name[32];
	struct fabric_attach_config config;

	(void)snprintf(name, sizeof(name), "fake-%ld", (long)getpid());
	names = attach_names_of(name);
	*f = (struct fake){ .listener = unix_names_take(&names, true, &are_all_foreign) };
	REQUIRE(f->listener >= 0);
	REQUIRE(pthread_create(&thread, NULL, fake_run, f) == 0);
	config = end_config(e, "left", 0);
	config.fabric = name;
	*e = (struct end){ .news = 0 };
	MUST(fabric_attach_open(&config, &e->attach));
	REQUIRE(pthread_join(thread, NULL) == 0);
}

/* An adapter reads no byte that is not of its ring, whatever its fabric says of records. */
TEST(test_fab_07_a_record_of_the_fabric_that_does_not_fit_ends_the_adapter)
{
	static const struct attach_head heads[] = {
		{ 0, 100 },
		{ ATTACH_HEAD_BYTES - 1, 100 },
		{ ATTACH_RECORD_MAX + 1, 100 },
		{ UINT32_MAX, 1 },
		{ ATTACH_HEAD_BYTES, IBA_FRAME_MAX + 1 },
		{ ATTACH_HEAD_BYTES, UINT32_MAX },
		{ ATTACH_HEAD_BYTES, 200 }, /* longer than what was put */
	};

	for (uint32_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		struct fake f;
		struct end e;

		fake_attach(&f, &e);
		EXPECT(fabric_attach_next(e.attach) == NULL && !e.has_gone);
		memcpy(f.ring.data, &heads[i], sizeof(heads[i]));
		ring_put(&f.ring, 64);
		EXPECT(fabric_attach_next(e.attach) == NULL);
		EXPECT(e.has_gone);
		fabric_attach_close(e.attach);
		ring_unmap(&f.ring);
		close(f.fd);
		close(f.listener);
	}
}
