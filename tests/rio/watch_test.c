/* SPDX-License-Identifier: BSD-2-Clause */
/* weft_rio_requester_inquire() in a cluster over loopback TCP. */
#include <string.h>

#include "rio/cluster.h"

enum { SEEN_MAX = 64, PIECE = 64 << 10 };

static struct cluster c;
static struct weft_rio_member seen[SEEN_MAX];

static const struct weft_rio_member *find(uint32_t count, enum weft_rio_kind kind, uint32_t unit)
{
	for (uint32_t i = 0; i < count && i < SEEN_MAX; i++) {
		if (seen[i].kind == kind && seen[i].platform.unit == unit)
			return &seen[i];
	}
	REQUIRE(!"it is not there");
	return NULL;
}

static void move(struct weft_rio_requester *q, enum weft_rio_operation operation)
{
	static uint8_t memory[PIECE];
	struct weft_rio_device d = cluster_device(q, "disk");
	struct weft_rio_sge s = { .memory = memory, .length = PIECE };
	const struct weft_rio_transaction t = { .operation = operation,
						.device = d.number,
						.length = PIECE,
						.sges = &s,
						.sge_count = 1 };

	REQUIRE(weft_rio_memory_add(q, memory, PIECE, &s.tag) == WEFT_OK);
	REQUIRE(cluster_io(q, &t) == WEFT_OK);
	REQUIRE(weft_rio_memory_remove(q, s.tag) == WEFT_OK);
}

/* The I/O unit tells the requester itself, so the owner may know a little later. */
static uint32_t inquire_until(struct weft_rio_requester *q, uint64_t requests)
{
	uint32_t count = 0;

	for (int i = 0; i < 10000; i++) {
		const struct weft_rio_member *s;

		REQUIRE(weft_rio_requester_inquire(q, 10 * SECONDS, seen, SEEN_MAX, &count) ==
			WEFT_OK);
		s = find(count, WEFT_RIO_IS_REQUESTER, FIRST_REQUESTER);
		if (s->requests == requests && s->now == 0)
			return count;
	}
	REQUIRE(!"the owner never knew");
	return 0;
}

TEST(test_rio_01_who_watches_sees_that_the_owner_carried_no_payload)
{
	static const struct weft_rio_platform watcher = { FIRST_REQUESTER + 1, 1 };
	const struct weft_rio_store store = { .number = 5, .name = "disk", .text = "mem:1M" };
	struct weft_rio_requester *q, *w;
	const struct weft_rio_member *s;
	uint32_t count;

	cluster_begin(&c);
	c.owner_options.watchers = &watcher;
	c.owner_options.watcher_count = 1;
	cluster_add_iounit(&c, &store, 1);
	cluster_start_owner(&c);
	q = cluster_requester(&c, 0);
	w = cluster_requester(&c, 1);
	move(q, WEFT_RIO_WRITE);
	move(q, WEFT_RIO_READ);
	move(q, WEFT_RIO_READ);
	count = inquire_until(w, 3);
	EXPECT_EQ(count, 6U); /* the owner, three requesters, a unit with a device */
	s = find(count, WEFT_RIO_IS_OWNER, OWNER_UNIT);
	EXPECT(s->is_here && s->moved.payload_in == 0 && s->moved.payload_out == 0);
	EXPECT(s->moved.control_in > 0 && s->moved.control_out > 0 && s->moved.connections == 0);
	s = find(count, WEFT_RIO_IS_REQUESTER, FIRST_REQUESTER);
	EXPECT(s->is_here && s->read_bytes == 2 * PIECE && s->written_bytes == PIECE);
	EXPECT(s->refused == 0 && s->failed == 0);
	EXPECT(find(count, WEFT_RIO_IS_REQUESTER, FIRST_REQUESTER + 1)->is_here);
	EXPECT(!find(count, WEFT_RIO_IS_REQUESTER, FIRST_REQUESTER + 2)->is_here);
	s = find(count, WEFT_RIO_IS_IOUNIT, FIRST_IOUNIT);
	EXPECT(s->is_here && s->read_bytes == 2 * PIECE && s->written_bytes == PIECE);
	EXPECT_STR(s->name, "unit 2");
	s = find(count, WEFT_RIO_IS_DEVICE, FIRST_IOUNIT);
	EXPECT_STR(s->name, "disk");
	EXPECT(s->device.size_bytes == 1 << 20 && s->device.iounit.unit == FIRST_IOUNIT);
	EXPECT(cluster_noted(&c, "allowed 8.1 watch"));
	/* Less room than there is to show. */
	memset(&seen[2], 0xee, sizeof(seen[2]));
	EXPECT_EQ(weft_rio_requester_inquire(w, 10 * SECONDS, seen, 2, &count), WEFT_OK);
	EXPECT_EQ(count, 6U);
	EXPECT_EQ(seen[2].now, 0xeeeeeeeeU);
	EXPECT_EQ(weft_rio_requester_inquire(w, 10 * SECONDS, NULL, 0, &count), WEFT_OK);
	EXPECT_EQ(count, 6U);
	/* A requester that is not named may not. */
	EXPECT_EQ(weft_rio_requester_inquire(q, 10 * SECONDS, seen, SEEN_MAX, &count),
		  WEFT_R_RIO_DENIED);
	EXPECT_EQ(count, 0U);
	EXPECT(cluster_noted(&c, "refused 7.1 watch: rio_denied"));
	cluster_close(&c);
}

TEST(test_rio_02i_who_watches_without_an_owner_learns_why)
{
	struct weft_rio_requester *q;
	uint32_t count = 7;

	cluster_open(&c, "mem:1M");
	cluster_stop_owner(&c);
	q = cluster_requester(&c, 0);
	EXPECT_EQ(weft_rio_requester_inquire(q, SECONDS / 5, seen, SEEN_MAX, &count),
		  WEFT_R_CONNECT_REFUSED);
	EXPECT_EQ(count, 0U);
	cluster_close(&c);
}

TEST(test_rio_03_no_requester_watches_unless_allowed)
{
	struct weft_rio_requester *q;
	uint32_t count = 7;

	cluster_open(&c, "mem:1M");
	q = cluster_requester(&c, 0);
	EXPECT_EQ(weft_rio_requester_inquire(q, 10 * SECONDS, seen, SEEN_MAX, &count),
		  WEFT_R_RIO_DENIED);
	EXPECT_EQ(weft_rio_requester_inquire(NULL, 0, seen, SEEN_MAX, &count),
		  WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_rio_requester_inquire(q, 0, NULL, 1, &count), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_rio_requester_inquire(q, 0, seen, 1, NULL), WEFT_R_NULL_ARGUMENT);
	cluster_close(&c);
}

TEST(test_rio_03_an_inquiry_without_an_owner_says_why)
{
	struct weft_rio_requester *q;
	uint32_t count;

	cluster_open(&c, "mem:1M");
	q = cluster_requester(&c, 0);
	(void)cluster_device(q, "disk");
	cluster_stop_owner(&c);
	EXPECT(weft_rio_requester_inquire(q, SECONDS / 5, seen, SEEN_MAX, &count) != WEFT_OK);
	EXPECT_EQ(count, 0U);
	/* And it goes on with the next one. */
	cluster_start_owner(&c);
	EXPECT_EQ(weft_rio_requester_inquire(q, 30 * SECONDS, seen, SEEN_MAX, &count),
		  WEFT_R_RIO_DENIED);
	cluster_close(&c);
}

enum { CROWD = 250, WATCHERS = 4, INQUIRIES = 20 };

static struct weft_rio_member crowd_seen[WATCHERS][CROWD + 8];

/* A report lists every peer once, whatever other threads ask meanwhile. */
static void *inquire_often(void *room)
{
	struct weft_rio_member *s = room;

	for (int i = 0; i < INQUIRIES; i++) {
		bool has[CROWD] = { false };
		uint32_t count = 0;

		if (weft_rio_requester_inquire(c.requesters[0], 30 * SECONDS, s, CROWD + 8,
					       &count) != WEFT_OK ||
		    count != CROWD + 4)
			return NULL;
		for (uint32_t k = 0; k < count; k++) {
			if (s[k].platform.unit >= 1000)
				has[s[k].platform.unit - 1000] = true;
		}
		for (int k = 0; k < CROWD; k++) {
			if (!has[k])
				return NULL;
		}
	}
	return room;
}

/* The owner of a crowd of which one is here: it takes more than one message to tell of them. */
static void open_crowd(void)
{
	static struct weft_rio_peer peers[CROWD + 2];
	static const struct weft_rio_platform watcher = { FIRST_REQUESTER, 1 };
	const struct weft_rio_store store = { .number = 5, .name = "disk", .text = "mem:1M" };
	struct weft_rio_self self = cluster_self(OWNER_UNIT, peers, CROWD + 2);

	cluster_begin(&c);
	cluster_add_iounit(&c, &store, 1);
	c.owner_options.watchers = &watcher;
	c.owner_options.watcher_count = 1;
	peers[0] = cluster_peer(FIRST_IOUNIT, WEFT_RIO_IOUNIT, &c.iounit_at[0]);
	peers[1] = cluster_peer(FIRST_REQUESTER, WEFT_RIO_REQUESTER, NULL);
	for (uint32_t i = 0; i < CROWD; i++)
		peers[2 + i] = cluster_peer(1000 + i, WEFT_RIO_REQUESTER, NULL);
	cluster_own(&c, &self);
}

TEST(test_rio_03_a_crowd_is_reported_in_parts_to_several_threads)
{
	pthread_t threads[WATCHERS];
	void *room;

	open_crowd();
	(void)cluster_device(cluster_requester(&c, 0), "disk");
	for (int i = 0; i < WATCHERS; i++)
		REQUIRE(pthread_create(&threads[i], NULL, inquire_often, crowd_seen[i]) == 0);
	for (int i = 0; i < WATCHERS; i++) {
		pthread_join(threads[i], &room);
		EXPECT(room == crowd_seen[i]);
	}
	cluster_close(&c);
}

TEST(test_rio_03_names_that_are_no_text_are_refused)
{
	struct weft_rio_peer peer = cluster_peer(FIRST_REQUESTER, WEFT_RIO_REQUESTER, NULL);
	const struct weft_rio_self self = cluster_self(OWNER_UNIT, &peer, 1);
	const struct weft_rio_owner_options options = { 0 };
	struct weft_rio_owner *owner;

	strcpy(peer.name, "a\nb");
	EXPECT_EQ(weft_rio_owner_open(&self, &options, &owner), WEFT_R_BAD_ARGUMENT);
	memset(peer.name, 'x', sizeof(peer.name)); /* without an end */
	REQUIRE(weft_rio_owner_open(&self, &options, &owner) == WEFT_OK);
	weft_rio_owner_close(owner);
}
