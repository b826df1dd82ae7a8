/* SPDX-License-Identifier: BSD-2-Clause */
/* Directed I/O end to end over TCP: RIO-S1 to RIO-S4, and what goes with them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rio/cluster.h"

enum { MIB = 1 << 20, KIB = 1 << 10 };

static struct cluster c;
static uint8_t a[MIB], b[MIB], big[4 * MIB];

static struct weft_rio_sge part(void *bytes, uint32_t length, uint32_t tag)
{
	return (struct weft_rio_sge){ .memory = bytes, .length = length, .tag = tag };
}

/* ---- Fragments A and B ---------------------------------------------------------------------- */

/* Written from A and B, read back into B and A: the right bytes, and none of them at the owner. */
static void go_there_and_back(struct weft_rio_requester *q)
{
	const struct weft_rio_device d = cluster_device(q, "disk");
	struct weft_rio_transaction t = { .operation = WEFT_RIO_WRITE,
					  .is_fua = true,
					  .device = d.number,
					  .offset = 3 * MIB,
					  .length = MIB };
	struct weft_rio_sge segments[2] = {
		part(a + 100, 600 * KIB, cluster_memory(q, a, sizeof(a))),
		part(b, 424 * KIB, cluster_memory(q, b, sizeof(b))),
	};

	t.sges = segments;
	t.sge_count = 2;
	EXPECT_EQ(d.size_bytes, 16 * MIB);
	cluster_fill(a, sizeof(a), 1);
	cluster_fill(b, sizeof(b), 2);
	EXPECT_EQ(cluster_io(q, &t), WEFT_OK);
	segments[0] = part(big, 1, cluster_memory(q, big, sizeof(big)));
	segments[1] = part(big + 2 * MIB + 3, MIB - 1, segments[0].tag);
	t.operation = WEFT_RIO_READ;
	t.is_fua = false;
	EXPECT_EQ(cluster_io(q, &t), WEFT_OK);
	EXPECT_EQ(big[0], a[100]);
	EXPECT_MEM(big + 2 * MIB + 3, a + 101, 600 * KIB - 1);
	EXPECT_MEM(big + 2 * MIB + 2 + 600 * KIB, b, 424 * KIB);
}

static void expect_nothing_at_the_owner(struct weft_rio_requester *q)
{
	struct weft_rio_traffic at_owner, at_requester, at_iounit;

	weft_rio_requester_traffic(q, &at_requester);
	weft_rio_owner_traffic(c.owner, &at_owner);
	weft_rio_iounit_traffic(c.iounits[0], &at_iounit);
	EXPECT_EQ(at_owner.payload_in + at_owner.payload_out, 0);
	EXPECT(at_owner.control_in + at_owner.control_out < 16 * KIB);
	EXPECT(at_requester.payload_in >= MIB && at_requester.payload_out >= MIB);
	EXPECT_EQ(at_iounit.payload_out, at_requester.payload_in);
	EXPECT_EQ(at_iounit.payload_in, at_requester.payload_out);
	EXPECT_EQ(at_requester.connections, 1);
}

TEST(test_rio_01_rio_s1_rio_s2_fragments_go_to_the_device_and_back_past_the_owner)
{
	struct weft_rio_requester *q;

	cluster_open(&c, "mem:16M");
	q = cluster_requester(&c, 0);
	go_there_and_back(q);
	expect_nothing_at_the_owner(q);
	cluster_close(&c);
}

TEST(test_rio_01_rio_s1_rio_s2_the_same_with_a_file)
{
	char text[CLUSTER_TEXT];
	struct weft_rio_requester *q;

	cluster_file(text, 16 * MIB);
	cluster_open(&c, text);
	q = cluster_requester(&c, 0);
	go_there_and_back(q);
	expect_nothing_at_the_owner(q);
	cluster_file_read(text, 3 * MIB, big, MIB);
	EXPECT_MEM(big, a + 100, 600 * KIB);
	EXPECT_MEM(big + 600 * KIB, b, 424 * KIB);
	cluster_close(&c);
	cluster_file_remove(text);
}

/* ---- Connections ---------------------------------------------------------------------------- */

/* What an owner or I/O unit that was restarted leads to is tried again, and nothing else. */
static void read_soon(struct weft_rio_requester *q, struct cluster_move *m)
{
	enum weft_reason r = WEFT_R_RIO_DEVICE;
	struct weft_rio_device d;

	for (int i = 0; i < 2000 && r != WEFT_OK; i++) {
		if (weft_rio_device_find(q, "disk", SECONDS / 100, &d) != WEFT_OK)
			continue;
		m->device = d.number;
		r = cluster_read(q, *m);
		REQUIRE(r == WEFT_OK || r == WEFT_R_RIO_OWNER_LEFT || r == WEFT_R_RIO_DEVICE ||
			r == WEFT_R_RIO_IOUNIT_LEFT || r == WEFT_R_RIO_PLATFORM);
	}
	REQUIRE(r == WEFT_OK);
}

static uint64_t connections(struct weft_rio_requester *q)
{
	struct weft_rio_traffic m;

	weft_rio_requester_traffic(q, &m);
	return m.connections;
}

TEST(test_rio_s3_rio_08_a_connection_is_made_on_demand_kept_and_made_again)
{
	static const struct weft_rio_store stores[] = {
		{ .number = 5, .name = "disk", .text = "mem:1M" },
		{ .number = 6, .name = "other", .text = "mem:1M" }
	};
	struct cluster_move m = { .bytes = a, .length = 4096 };
	struct weft_rio_requester *q;
	struct weft_rio_traffic moved;

	cluster_begin(&c);
	cluster_add_iounit(&c, stores, 2);
	cluster_start_owner(&c);
	q = cluster_requester(&c, 0);
	m.tag = cluster_memory(q, a, sizeof(a));
	m.device = cluster_device(q, "disk").number;
	EXPECT_EQ(connections(q), 0);
	EXPECT_EQ(cluster_read(q, m), WEFT_OK);
	EXPECT_EQ(connections(q), 1);
	for (int i = 0; i < 10; i++)
		EXPECT_EQ(cluster_read(q, m), WEFT_OK);
	/* RIO-09: one for all devices of the unit. */
	m.device = cluster_device(q, "other").number;
	EXPECT_EQ(cluster_read(q, m), WEFT_OK);
	EXPECT_EQ(connections(q), 1);
	weft_rio_iounit_traffic(c.iounits[0], &moved);
	EXPECT_EQ(moved.connections, 1);
	/*
	 * The unit stops and starts again; then the owner, which had announced the two to each
	 * other.
	 */
	cluster_stop_iounit(&c, 0);
	cluster_start_iounit(&c, 0);
	read_soon(q, &m);
	EXPECT_EQ(connections(q), 2);
	cluster_stop_owner(&c);
	cluster_start_owner(&c);
	read_soon(q, &m);
	EXPECT_EQ(connections(q), 3);
	EXPECT_EQ(cluster_read(q, m), WEFT_OK);
	EXPECT_EQ(connections(q), 3);
	cluster_close(&c);
}

/* ---- Several platforms ---------------------------------------------------------------------- */

/* What an adapter's thread has put into memory is seen by who has had its lock since. */
static void look_at_memory_of(struct weft_rio_requester *q)
{
	struct weft_rio_traffic m;

	weft_rio_requester_traffic(q, &m);
}

/* 7.1 may name memory of 8.1; 9.1 may not. */
static void open_shared(void)
{
	static const struct weft_rio_share share = { { FIRST_REQUESTER, 1 },
						     { FIRST_REQUESTER + 1, 1 } };

	cluster_begin(&c);
	c.owner_options.shares = &share;
	c.owner_options.share_count = 1;
	c.store = (struct weft_rio_store){ .number = 5, .name = "disk", .text = "mem:1M" };
	cluster_add_iounit(&c, &c.store, 1);
	cluster_start_owner(&c);
}

static struct weft_rio_sge foreign(void *bytes, uint32_t length, uint32_t handle)
{
	return (struct weft_rio_sge){ .memory = bytes,
				      .length = length,
				      .tag = handle,
				      .platform = { FIRST_REQUESTER + 1, 1 } };
}

static uint32_t exposed(struct weft_rio_requester *q, struct weft_rio_sge s, bool is_written)
{
	uint32_t handle = 0;

	REQUIRE(weft_rio_memory_expose(q, &s, is_written, &handle) == WEFT_OK);
	return handle;
}

/*
 * RIO-06, RIO-15: one request of two transactions. The first gathers from fragments of two
 * platforms in turn, the second scatters to both.
 */
TEST(test_rio_s4_rio_06_rio_15_one_command_over_details_of_two_platforms)
{
	struct weft_rio_requester *q, *p;
	struct weft_rio_sge from[5], to[4];
	struct weft_rio_transaction t[2] = {
		{ .operation = WEFT_RIO_WRITE, .offset = 8192, .length = 16384 },
		{ .operation = WEFT_RIO_READ, .offset = 8192, .length = 16384 },
	};
	struct weft_rio_result ended;
	uint32_t own, read, written;

	open_shared();
	q = cluster_requester(&c, 0);
	p = cluster_requester(&c, 1);
	t[0].device = t[1].device = cluster_device(q, "disk").number;
	(void)cluster_device(p, "disk");
	cluster_requester_waits(&c, 1);
	cluster_fill(a, sizeof(a), 1);
	cluster_fill(b, sizeof(b), 2);
	own = cluster_memory(q, a, sizeof(a));
	read = cluster_memory(p, b, sizeof(b)); /* the region; then two parts of it */
	written = exposed(p, part(b + 40000, 20000, read), true);
	read = exposed(p, part(b, 20000, read), false);
	from[0] = part(a, 1000, own);
	from[1] = part(a + 5000, 24, own);
	from[2] = foreign(b + 100, 6000, read);
	from[3] = foreign(b + 10000, 1, read);
	from[4] = part(a + 9000, 9359, own);
	to[0] = foreign(b + 40000, 5000, written);
	to[1] = foreign(b + 50001, 3000, written);
	to[2] = part(a + 100000, 8000, own);
	to[3] = part(a + 200000, 384, own);
	t[0].sges = from;
	t[0].sge_count = 5;
	t[1].sges = to;
	t[1].sge_count = 4;
	EXPECT_EQ(weft_rio_request_do(
			  q,
			  &(struct weft_rio_request){ .transactions = t, .transaction_count = 2 },
			  &ended),
		  WEFT_OK);
	EXPECT_EQ(ended.done_bytes, 32768);
	memcpy(big, a, 1000);
	memcpy(big + 1000, a + 5000, 24);
	memcpy(big + 1024, b + 100, 6000);
	memcpy(big + 7024, b + 10000, 1);
	memcpy(big + 7025, a + 9000, 9359);
	look_at_memory_of(p);
	EXPECT_MEM(b + 40000, big, 5000);
	EXPECT_MEM(b + 50001, big + 5000, 3000);
	EXPECT_MEM(a + 100000, big + 8000, 8000);
	EXPECT_MEM(a + 200000, big + 16000, 384);
	EXPECT_EQ(connections(q), 1);
	EXPECT_EQ(connections(p), 1);
	EXPECT(cluster_noted(&c, "(2 of 2)"));
	cluster_close(&c);
}

/* MEM-13: what is exposed is reached by whom the owner lets, there only, and only that way. */
TEST(test_mem_13_a_requester_reaches_only_what_it_was_authorised_to)
{
	struct weft_rio_requester *q, *p, *third;
	struct weft_rio_sge s;
	struct weft_rio_transaction t = {
		.operation = WEFT_RIO_READ, .length = 4096, .sges = &s, .sge_count = 1
	};
	uint32_t region, handle;

	open_shared();
	q = cluster_requester(&c, 0);
	p = cluster_requester(&c, 1);
	third = cluster_requester(&c, 2);
	t.device = cluster_device(q, "disk").number;
	(void)cluster_device(p, "disk");
	(void)cluster_device(third, "disk");
	cluster_requester_waits(&c, 1);
	cluster_fill(b, sizeof(b), 2);
	memcpy(big, b, sizeof(b));
	region = cluster_memory(p, b, sizeof(b));
	handle = exposed(p, part(b + 8192, 8192, region), true);
	s = foreign(b + 8192, 4096, handle);
	EXPECT_EQ(cluster_io(third, &t), WEFT_R_RIO_FOREIGN);
	/* Its region's own tag; outside the exposed range; an unknown tag; a Read. */
	s = foreign(b, 4096, region);
	EXPECT(cluster_io(q, &t) != WEFT_OK);
	s = foreign(b + 8191, 4096, handle);
	EXPECT(cluster_io(q, &t) != WEFT_OK);
	s = foreign(b + 12289, 4096, handle);
	EXPECT(cluster_io(q, &t) != WEFT_OK);
	s = foreign(b + 8192, 4096, handle ^ 0x4000);
	EXPECT(cluster_io(q, &t) != WEFT_OK);
	t.operation = WEFT_RIO_WRITE;
	s = foreign(b + 8192, 4096, handle);
	EXPECT(cluster_io(q, &t) != WEFT_OK);
	t.operation = WEFT_RIO_READ;
	look_at_memory_of(p);
	EXPECT_MEM(b, big, sizeof(b));
	/* The refused requests did not spoil it. */
	EXPECT_EQ(cluster_io(q, &t), WEFT_OK);
	look_at_memory_of(p);
	memset(big + 8192, 0, 4096);
	EXPECT_MEM(b, big, sizeof(b));
	/* Until it is concealed. */
	EXPECT_EQ(weft_rio_memory_conceal(p, handle), WEFT_OK);
	EXPECT(weft_rio_memory_conceal(p, handle) != WEFT_OK);
	EXPECT(cluster_io(q, &t) != WEFT_OK);
	EXPECT_MEM(b, big, sizeof(b));
	cluster_close(&c);
}

/* A refused move ends the connection; the next request gets a new one at once. */
TEST(test_rio_10_a_refused_move_does_no_harm_to_the_next_request)
{
	struct weft_rio_requester *q;
	struct weft_rio_sge s;
	struct weft_rio_transaction t = {
		.operation = WEFT_RIO_READ, .length = 4096, .sges = &s, .sge_count = 1
	};
	uint32_t region, handle;

	open_shared();
	q = cluster_requester(&c, 0);
	t.device = cluster_device(q, "disk").number;
	(void)cluster_device(cluster_requester(&c, 1), "disk");
	cluster_requester_waits(&c, 1);
	region = cluster_memory(c.requesters[1], b, sizeof(b));
	handle = exposed(c.requesters[1], part(b, 4096, region), true);
	for (uint32_t i = 0; i < 100; i++) {
		t.operation = i % 2 ? WEFT_RIO_READ : WEFT_RIO_WRITE;
		s = foreign(b + 4096, 4096, handle);
		EXPECT(cluster_io(q, &t) != WEFT_OK);
		t.operation = WEFT_RIO_READ;
		s = foreign(b, 4096, handle);
		EXPECT_EQ(cluster_io(q, &t), WEFT_OK);
	}
	cluster_close(&c);
}

TEST(test_mem_13_only_own_memory_is_exposed)
{
	struct weft_rio_requester *q;
	struct weft_rio_sge s = { .memory = a, .length = 512 };
	uint32_t handle = 77;

	cluster_open(&c, "mem:1M");
	q = cluster_requester(&c, 0);
	s.tag = cluster_memory(q, a, 4096);
	s.length = 0;
	EXPECT_EQ(weft_rio_memory_expose(q, &s, true, &handle), WEFT_R_BAD_ARGUMENT);
	s.length = 4097;
	EXPECT(weft_rio_memory_expose(q, &s, true, &handle) != WEFT_OK);
	s.length = 512;
	s.platform.unit = FIRST_REQUESTER + 1;
	EXPECT_EQ(weft_rio_memory_expose(q, &s, true, &handle), WEFT_R_BAD_ARGUMENT);
	s.platform.unit = 0;
	EXPECT_EQ(weft_rio_memory_expose(q, NULL, true, &handle), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(handle, 77);
	EXPECT_EQ(weft_rio_memory_expose(q, &s, true, &handle), WEFT_OK);
	EXPECT(handle != 77);
	/* Neither is the other, and each is taken back once. */
	EXPECT(weft_rio_memory_remove(q, handle) != WEFT_OK);
	EXPECT(weft_rio_memory_conceal(q, s.tag) != WEFT_OK);
	EXPECT(weft_rio_memory_conceal(q, handle + 1) != WEFT_OK);
	EXPECT(weft_rio_memory_remove(q, s.tag) != WEFT_OK); /* a part of it is exposed */
	EXPECT_EQ(weft_rio_memory_conceal(q, handle), WEFT_OK);
	EXPECT(weft_rio_memory_conceal(q, handle) != WEFT_OK);
	EXPECT_EQ(weft_rio_memory_remove(q, s.tag), WEFT_OK);
	EXPECT(weft_rio_memory_remove(q, s.tag) != WEFT_OK);
	cluster_close(&c);
}

/* ---- Several requesters, several devices ---------------------------------------------------- */

struct user {
	pthread_t thread;
	struct weft_rio_requester *q;
	uint32_t devices[3], number;
	const char *failure;
	uint8_t bytes[2][48 * KIB];
};

static struct user users[REQUESTERS_MAX * 2];

/* Writes and reads areas of its own on every device, and finds what it wrote. */
static void *use(void *context)
{
	struct user *u = context;
	uint32_t tag = 0;

	if (weft_rio_memory_add(u->q, u->bytes, sizeof(u->bytes), &tag) != WEFT_OK)
		u->failure = "memory";
	for (uint32_t i = 0; i < 24 && !u->failure; i++) {
		struct cluster_move m = { .device = u->devices[i % 3],
					  .offset = (uint64_t)u->number * 64 * KIB,
					  .bytes = u->bytes[0],
					  .length = 512 * (1 + i * 13 % 96),
					  .tag = tag };

		cluster_fill(u->bytes[0], m.length, (uint8_t)(u->number * 40 + i));
		if (cluster_write(u->q, m) != WEFT_OK)
			u->failure = "write";
		m.bytes = u->bytes[1];
		if (!u->failure && cluster_read(u->q, m) != WEFT_OK)
			u->failure = "read";
		if (!u->failure && memcmp(u->bytes[0], u->bytes[1], m.length) != 0)
			u->failure = "other bytes";
	}
	return NULL;
}

/* RIO-04: three requesters, two threads each, on devices of two I/O units, all at once. */
TEST(test_rio_04_several_requesters_use_several_devices_of_two_units_at_once)
{
	static struct weft_rio_store first[2] = { { .number = 1, .name = "one", .text = "mem:1M" },
						  { .number = 2, .name = "two", .text = NULL } };
	static struct weft_rio_store second[1] = {
		{ .number = 1, .name = "three", .text = "delay:200us(mem:1M)" }
	};
	static const char *const names[] = { "one", "two", "three" };
	char text[CLUSTER_TEXT];

	cluster_file(text, MIB);
	first[1].text = text;
	cluster_begin(&c);
	cluster_add_iounit(&c, first, 2);
	cluster_add_iounit(&c, second, 1);
	cluster_start_owner(&c);
	for (uint32_t i = 0; i < REQUESTERS_MAX * 2; i++) {
		struct user *u = &users[i];

		*u = (struct user){ .q = cluster_requester(&c, (int)i / 2), .number = i };
		for (int k = 0; k < 3; k++)
			u->devices[k] = cluster_device(u->q, names[k]).number;
		REQUIRE(u->devices[0] != u->devices[1] && u->devices[1] != u->devices[2]);
	}
	for (uint32_t i = 0; i < REQUESTERS_MAX * 2; i++)
		REQUIRE(pthread_create(&users[i].thread, NULL, use, &users[i]) == 0);
	for (uint32_t i = 0; i < REQUESTERS_MAX * 2; i++)
		pthread_join(users[i].thread, NULL);
	for (uint32_t i = 0; i < REQUESTERS_MAX * 2; i++) {
		EXPECT_STR(users[i].failure ? users[i].failure : "none", "none");
		EXPECT_EQ(connections(users[i].q), 2);
	}
	cluster_close(&c);
	cluster_file_remove(text);
}

/* ---- The reference storage operation -------------------------------------------------------- */

/*
 * SYS-S1: a disk-write command goes out, the storage node, which has two disks with the same, reads
 * the host's buffer once, and says that it is done. Counted at the host: no byte went twice.
 */
TEST(test_sys_s1_one_command_one_read_of_the_host_buffer_one_completion)
{
	enum { LENGTH = 128 * KIB };
	char one[CLUSTER_TEXT], two[CLUSTER_TEXT], both[2 * CLUSTER_TEXT + 16];
	const struct weft_rio_store store = { .number = 1, .name = "raid", .text = both };
	struct cluster_move m = { .offset = 64 * KIB, .bytes = a, .length = LENGTH };
	struct weft_rio_traffic before, after;
	struct weft_rio_requester *q;
	uint32_t noted;

	cluster_file(one, MIB);
	cluster_file(two, MIB);
	snprintf(both, sizeof(both), "mirror(%s,%s)", one, two);
	cluster_begin(&c);
	cluster_add_iounit(&c, &store, 1);
	cluster_start_owner(&c);
	q = cluster_requester(&c, 0);
	m.device = cluster_device(q, "raid").number;
	m.tag = cluster_memory(q, a, sizeof(a));
	EXPECT_EQ(cluster_read(q, m), WEFT_OK); /* they are connected */
	cluster_fill(a, sizeof(a), 3);
	cluster_wait_note(&c, "ended 7.1");
	noted = cluster_notes(&c);
	weft_rio_requester_traffic(q, &before);
	EXPECT_EQ(cluster_write(q, m), WEFT_OK);
	weft_rio_requester_traffic(q, &after);
	EXPECT_EQ(after.payload_out - before.payload_out, LENGTH);
	EXPECT(after.payload_in - before.payload_in < 320); /* at most a word that it is done */
	EXPECT(after.control_out - before.control_out < 200);
	EXPECT_EQ(after.connections, 1);
	cluster_wait_notes(&c, noted + 2);
	cluster_stop_owner(&c);
	/* Decided once, ended once. */
	EXPECT(strstr(c.notes[noted], "allowed 7.1#") && strstr(c.notes[noted], "write raid"));
	EXPECT(strstr(c.notes[noted + 1], "ended 7.1#") &&
	       strstr(c.notes[noted + 1], " 131072 bytes"));
	cluster_file_read(one, 64 * KIB, big, LENGTH);
	EXPECT_MEM(big, a, LENGTH);
	cluster_file_read(two, 64 * KIB, big, LENGTH);
	EXPECT_MEM(big, a, LENGTH);
	cluster_close(&c);
	cluster_file_remove(one);
	cluster_file_remove(two);
}
