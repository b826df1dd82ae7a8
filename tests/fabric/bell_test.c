/* SPDX-License-Identifier: BSD-2-Clause */
/* The bells by which adapters wake the process of a fabric. */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "driver/fabric/fabric_attach.h"
#include "driver/near/ring.h"
#include "driver/sys/unix_sockets.h"
#include "fabric/fabric_bed.h"
#include "test.h"

enum { PATIENCE_MS = 20000, RINGS = 100 };

/* An adapter's end of the connection, as a hostile program would have it. */
static int hostile_attach(struct ring *r, struct attach_message *m)
{
	struct unix_names names = attach_names_of(fabric_bed_name());
	struct attach_message q = attach_message_of(ATTACH_ATTACH);
	struct pollfd p = { .fd = unix_names_connect(&names), .events = POLLIN };

	q.descriptor = ring_make(r, ATTACH_RING_BYTES);
	REQUIRE(p.fd >= 0 && q.descriptor >= 0);
	memcpy(q.node, "left", 5);
	REQUIRE(attach_message_send(p.fd, &q));
	close(q.descriptor);
	REQUIRE(poll(&p, 1, PATIENCE_MS) == 1);
	attach_message_take(p.fd, m);
	REQUIRE(m->kind == ATTACH_ATTACHED && m->descriptor >= 0 && m->bell >= 0);
	return p.fd;
}

static void ring_it(int bell, uint64_t times)
{
	REQUIRE(write(bell, &times, sizeof(times)) == sizeof(times));
}

static bool is_alone(const struct fabric_hub_counts *n)
{
	return n->adapters == 0;
}

static bool has_broken(const struct fabric_hub_counts *n)
{
	return n->broken > 0;
}

/* Its ring breaks rules: the hub hears of that by the bell. */
TEST(test_fab_07_bell_of_a_hostile_adapter_ends_its_own_connection)
{
	struct attach_message m;
	struct ring r;
	int fd;

	fabric_bed_open();
	fd = hostile_attach(&r, &m);
	(void)fabric_bed_counts(); /* the hub's turn is over: from now on it has to be woken */
	atomic_store(&r.head->put, UINT64_C(1) << 40);
	ring_it(m.bell, UINT64_MAX - 1); /* as high as it goes */
	EXPECT(fabric_bed_await(has_broken));
	EXPECT(fabric_bed_await(is_alone));
	close(m.descriptor);
	close(m.bell);
	close(fd);
	ring_unmap(&r);
	fabric_bed_close();
}

/* The program still has the bell, and the hub no adapter for it. */
TEST(test_fab_07_bell_of_an_adapter_that_has_closed_rings_in_vain)
{
	struct attach_message m, other;
	struct ring r, of_other;
	int fd;

	fabric_bed_open();
	close(hostile_attach(&r, &m));
	EXPECT(fabric_bed_await(is_alone));
	for (int i = 0; i < RINGS; i++)
		ring_it(m.bell, 1);
	fd = hostile_attach(&of_other, &other); /* the hub still answers */
	EXPECT_EQ(fabric_bed_counts().adapters, 1);
	EXPECT_EQ(fabric_bed_counts().broken, 0);
	close(m.descriptor);
	close(m.bell);
	close(other.descriptor);
	close(other.bell);
	close(fd);
	ring_unmap(&r);
	ring_unmap(&of_other);
	fabric_bed_close();
}
