/* SPDX-License-Identifier: BSD-2-Clause */
/* docs/rio.md, "What a write promises", rule 8: two owners with one identity. */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "rio/cluster.h"
#include "rio/raw.h"

static struct cluster c;

/* ---- Another owner with the identity of the cluster's --------------------------------------- */

struct owner {
	struct weft_rio_owner *role;
	pthread_t thread;
	struct weft_address at;
	enum weft_reason reason; /* that it ended with */
};

static void *run(void *context)
{
	struct owner *o = context;

	o->reason = weft_rio_owner_run(o->role);
	return NULL;
}

/* has_units: it dials the cluster's I/O unit. */
static void owner_start(struct owner *o, uint64_t term, bool has_units)
{
	static const struct weft_rio_rule everything = { .operations = 0x3e };
	const struct weft_rio_peer peers[] = {
		cluster_peer(FIRST_REQUESTER, WEFT_RIO_REQUESTER, NULL),
		cluster_peer(FIRST_IOUNIT, WEFT_RIO_IOUNIT, &c.iounit_at[0]),
	};
	const struct weft_rio_self self = cluster_self(OWNER_UNIT, peers, has_units ? 2 : 1);
	const struct weft_rio_owner_options options = { .rules = &everything,
							.rule_count = 1,
							.term = term };

	REQUIRE(weft_rio_owner_open(&self, &options, &o->role) == WEFT_OK);
	weft_rio_owner_address(o->role, &o->at);
	REQUIRE(pthread_create(&o->thread, NULL, run, o) == 0);
}

static void owner_end(struct owner *o, bool is_notified)
{
	if (is_notified)
		weft_rio_owner_stop(o->role);
	pthread_join(o->thread, NULL);
}

/* ---- What the I/O unit says ----------------------------------------------------------------- */

static atomic_uint owners; /* that it had */

static void tell(void *context, const char *line)
{
	(void)context;
	if (strstr(line, "is the owner now"))
		atomic_fetch_add(&owners, 1);
}

static void unit_start(void)
{
	static const struct weft_rio_store disk = { .number = 5, .name = "disk", .text = "mem:1M" };

	atomic_store(&owners, 0);
	cluster_begin(&c);
	c.iounit_options[0].tell = tell;
	cluster_add_iounit(&c, &disk, 1);
}

static void await_owners(uint32_t count)
{
	for (int i = 0; i < 20000 && atomic_load(&owners) < count; i++)
		usleep(1000);
	REQUIRE(atomic_load(&owners) == count);
}

/* ---- The requester, which is led to one of them or the other -------------------------------- */

static _Atomic(const struct weft_address *) way;

static bool find(void *context, uint32_t peer, struct weft_address *address)
{
	(void)context;
	(void)peer;
	*address = *atomic_load(&way);
	return true;
}

static struct weft_rio_requester *requester_start(const struct owner *to)
{
	const struct weft_rio_peer owner = cluster_peer(OWNER_UNIT, WEFT_RIO_OWNER, &to->at);
	struct weft_rio_self self = cluster_self(FIRST_REQUESTER, &owner, 1);
	struct weft_rio_requester *q;

	self.find = find;
	atomic_store(&way, &to->at);
	REQUIRE(weft_rio_requester_open(&self, NULL, &q) == WEFT_OK);
	return q;
}

static enum weft_reason found(struct weft_rio_requester *q, uint64_t wait_ns)
{
	struct weft_rio_device d;

	return weft_rio_device_find(q, "disk", wait_ns, &d);
}

/* The later one has the I/O unit and keeps it; the former hears so, and ends. */
TEST(test_rio_09_of_two_owners_the_one_with_the_higher_term_stays)
{
	static struct owner former, later, late;
	struct weft_rio_requester *q;

	unit_start();
	owner_start(&former, 10, true);
	await_owners(1);
	owner_start(&later, 20, true);
	owner_end(&former, false);
	EXPECT_EQ(former.reason, WEFT_R_RIO_SUPERSEDED);
	EXPECT_EQ(weft_rio_owner_term(former.role), 20U);
	q = requester_start(&later);
	EXPECT_EQ(found(q, PATIENCE), WEFT_OK);
	/* An owner that comes with a lower term changes nothing. */
	owner_start(&late, 15, true);
	owner_end(&late, false);
	EXPECT_EQ(late.reason, WEFT_R_RIO_SUPERSEDED);
	EXPECT_EQ(found(q, 0), WEFT_OK);
	EXPECT_EQ(atomic_load(&owners), 2U);
	weft_rio_requester_close(q);
	owner_end(&later, true);
	EXPECT_EQ(later.reason, WEFT_OK);
	weft_rio_owner_close(former.role);
	weft_rio_owner_close(later.role);
	weft_rio_owner_close(late.role);
	cluster_stop_iounit(&c, 0);
}

/* The same term, of two: one of them stays, and they do not take turns. */
TEST(test_rio_09_two_owners_of_the_same_term_do_not_take_turns)
{
	static struct owner two[2];
	uint32_t superseded = 0;

	unit_start();
	for (int i = 0; i < 2; i++)
		owner_start(&two[i], 10, true);
	for (int i = 0; i < 20000 && superseded == 0; i++) {
		usleep(1000);
		for (int k = 0; k < 2; k++)
			superseded += pthread_tryjoin_np(two[k].thread, NULL) == 0 ? 1 + k : 0;
	}
	REQUIRE(superseded == 1 || superseded == 2);
	EXPECT_EQ(two[superseded - 1].reason, WEFT_R_RIO_SUPERSEDED);
	EXPECT(atomic_load(&owners) <= 2);
	owner_end(&two[2 - superseded], true);
	EXPECT_EQ(two[2 - superseded].reason, WEFT_OK);
	for (int i = 0; i < 2; i++)
		weft_rio_owner_close(two[i].role);
	cluster_stop_iounit(&c, 0);
}

/* An owner that has not heard of the other one, as it has no I/O units: the requester knows. */
TEST(test_rio_09_a_requester_does_not_go_back_to_a_superseded_owner)
{
	static struct owner former, later;
	struct weft_rio_requester *q;
	enum weft_reason r = WEFT_R_RIO_DEVICE;

	unit_start();
	owner_start(&former, 10, false);
	owner_start(&later, 20, true);
	q = requester_start(&later);
	EXPECT_EQ(found(q, PATIENCE), WEFT_OK);
	atomic_store(&way, &former.at);
	owner_end(&later, true);
	weft_rio_owner_close(later.role);
	for (int i = 0; i < 2000 && r != WEFT_R_RIO_SUPERSEDED; i++) {
		struct weft_rio_result e;
		uint32_t count;

		REQUIRE(weft_rio_request_wait(q, SECONDS / 100, &e, 1, &count) == WEFT_OK);
		r = found(q, SECONDS / 100);
	}
	EXPECT_EQ(r, WEFT_R_RIO_SUPERSEDED);
	weft_rio_requester_close(q);
	owner_end(&former, true);
	EXPECT_EQ(former.reason, WEFT_OK);
	weft_rio_owner_close(former.role);
	cluster_stop_iounit(&c, 0);
}

static bool find_nowhere(void *context, uint32_t peer, struct weft_address *address)
{
	(void)context;
	(void)peer;
	(void)address;
	return false;
}

TEST(test_rio_02i_an_owner_that_is_nowhere_is_unreachable)
{
	const struct weft_rio_peer owner = cluster_peer(OWNER_UNIT, WEFT_RIO_OWNER, NULL);
	struct weft_rio_self self = cluster_self(FIRST_REQUESTER, &owner, 1);
	struct weft_rio_requester *q;

	self.find = find_nowhere;
	REQUIRE(weft_rio_requester_open(&self, NULL, &q) == WEFT_OK);
	EXPECT_EQ(found(q, SECONDS / 5), WEFT_R_CONNECT_UNREACHABLE);
	weft_rio_requester_close(q);
}

/* ---- Peers that an I/O unit does not want --------------------------------------------------- */

static void *iounit_run(void *unit)
{
	weft_rio_iounit_run(unit);
	return NULL;
}

/* One that it knows by its key. */
TEST(test_rio_03_a_requester_that_comes_to_an_iounit_is_sent_away)
{
	const struct weft_rio_peer peers[] = {
		cluster_peer(OWNER_UNIT, WEFT_RIO_OWNER, NULL),
		cluster_peer(FIRST_REQUESTER, WEFT_RIO_REQUESTER, NULL),
	};
	const struct weft_rio_self self = cluster_self(FIRST_IOUNIT, peers, 2);
	const struct weft_rio_iounit_options options = { .tell = tell };
	struct weft_rio_iounit *unit;
	static struct raw requester;
	struct weft_address at;
	pthread_t thread;

	atomic_store(&owners, 0);
	REQUIRE(weft_rio_iounit_open(&self, &options, &unit, NULL) == WEFT_OK);
	weft_rio_iounit_address(unit, &at);
	REQUIRE(pthread_create(&thread, NULL, iounit_run, unit) == 0);
	raw_open(&requester, FIRST_REQUESTER, RIO_REQUESTER);
	raw_dial(&requester, &at, FIRST_IOUNIT, RIO_IOUNIT);
	raw_expect_end(&requester);
	EXPECT_EQ(atomic_load(&owners), 0U);
	raw_close(&requester);
	weft_rio_iounit_stop(unit);
	pthread_join(thread, NULL);
	weft_rio_iounit_close(unit);
}

static void *stop_iounit(void *context)
{
	(void)context;
	cluster_stop_iounit(&c, 0);
	return NULL;
}

/* It connects before the unit stops, and greets while the unit waits for its device. */
TEST(test_rio_02i_an_owner_that_greets_a_unit_that_stops_is_sent_away)
{
	static const struct weft_rio_store slow = { .number = 5,
						    .name = "disk",
						    .text = "delay:2s(mem:1M)" };
	static uint8_t memory[512];
	struct weft_rio_sge s = { .memory = memory, .length = sizeof(memory) };
	struct weft_rio_transaction t = {
		.operation = WEFT_RIO_WRITE, .length = sizeof(memory), .sges = &s, .sge_count = 1
	};
	struct weft_rio_traffic moved = { 0 };
	struct weft_rio_requester *q;
	struct weft_rio_result e;
	static struct owner first;
	static struct raw next;
	uint32_t count = 0;
	pthread_t thread;

	atomic_store(&owners, 0);
	cluster_begin(&c);
	c.iounit_options[0].tell = tell;
	cluster_add_iounit(&c, &slow, 1);
	owner_start(&first, 10, true);
	await_owners(1);
	q = requester_start(&first);
	t.device = cluster_device(q, "disk").number;
	s.tag = cluster_memory(q, memory, sizeof(memory));
	REQUIRE(weft_rio_request_submit(q, &(struct weft_rio_request){ .transactions = &t,
								       .transaction_count = 1 }) ==
		WEFT_OK);
	while (moved.payload_out < sizeof(memory)) { /* then the device has it */
		REQUIRE(weft_rio_request_wait(q, SECONDS / 100, &e, 1, &count) == WEFT_OK);
		REQUIRE(count == 0);
		weft_rio_requester_traffic(q, &moved);
	}
	raw_open(&next, OWNER_UNIT, RIO_OWNER);
	next.self.term.number = 20;
	REQUIRE(raw_connect(&next, &c.iounit_at[0], NULL));
	REQUIRE(pthread_create(&thread, NULL, stop_iounit, NULL) == 0);
	while (count == 0)
		REQUIRE(weft_rio_request_wait(q, PATIENCE, &e, 1, &count) == WEFT_OK);
	EXPECT_EQ(e.reason, WEFT_R_RIO_IOUNIT_LEFT);
	raw_greet(&next, FIRST_IOUNIT, RIO_IOUNIT);
	raw_expect_end(&next);
	EXPECT_EQ(atomic_load(&owners), 1U);
	raw_close(&next);
	pthread_join(thread, NULL);
	weft_rio_requester_close(q);
	owner_end(&first, true);
	weft_rio_owner_close(first.role);
}

/* ---- An I/O unit that begins again ---------------------------------------------------------- */

static struct weft_rio_term kept;
static uint32_t kept_count;

static void keep(void *context, const struct weft_rio_term *term)
{
	(void)context;
	kept = *term;
	kept_count++;
}

/* What it was told to keep, and is given when it begins, is as if it had never been away. */
TEST(test_rio_09_a_unit_that_begins_again_refuses_a_lower_term)
{
	static const struct weft_rio_store disk = { .number = 5, .name = "disk", .text = "mem:1M" };
	static struct owner later, former, next;

	atomic_store(&owners, 0);
	kept_count = 0;
	cluster_begin(&c);
	c.iounit_options[0].tell = tell;
	c.iounit_options[0].keep = keep;
	cluster_add_iounit(&c, &disk, 1);
	owner_start(&later, 20, true);
	await_owners(1);
	owner_end(&later, true);
	cluster_stop_iounit(&c, 0);
	EXPECT_EQ(kept_count, 1U);
	EXPECT_EQ(kept.number, 20U);
	EXPECT(kept.incarnation != 0);
	c.iounit_options[0].term = kept;
	cluster_start_iounit(&c, 0);
	owner_start(&former, 15, true);
	owner_end(&former, false);
	EXPECT_EQ(former.reason, WEFT_R_RIO_SUPERSEDED);
	EXPECT_EQ(weft_rio_owner_term(former.role), 20U);
	owner_start(&next, 21, true);
	await_owners(2);
	owner_end(&next, true);
	weft_rio_owner_close(later.role);
	weft_rio_owner_close(former.role);
	weft_rio_owner_close(next.role);
	cluster_stop_iounit(&c, 0);
	EXPECT_EQ(kept.number, 21U);
}

static atomic_uint refusals; /* that the owner noted */

static void note(void *context, const char *line)
{
	(void)context;
	if (strstr(line, "rio_superseded"))
		atomic_fetch_add(&refusals, 1);
}

/* It is the other one that is superseded, also where this one knows it by its key. */
TEST(test_rio_09_an_owner_that_refuses_a_lower_term_goes_on)
{
	enum { OTHER_OWNER = 90 };
	const struct weft_rio_peer other = cluster_peer(OTHER_OWNER, WEFT_RIO_OWNER, NULL);
	const struct weft_rio_self self = cluster_self(OWNER_UNIT, &other, 1);
	const struct weft_rio_owner_options options = { .term = 20, .note = note };
	static struct owner o;
	static struct raw r;

	REQUIRE(weft_rio_owner_open(&self, &options, &o.role) == WEFT_OK);
	weft_rio_owner_address(o.role, &o.at);
	REQUIRE(pthread_create(&o.thread, NULL, run, &o) == 0);
	raw_open(&r, OTHER_OWNER, RIO_OWNER);
	r.self.term.number = 5;
	atomic_store(&refusals, 0);
	raw_dial(&r, &o.at, OWNER_UNIT, RIO_OWNER);
	raw_expect_end(&r);
	while (atomic_load(&refusals) == 0)
		usleep(1000);
	EXPECT_EQ(weft_rio_owner_term(o.role), 20U);
	owner_end(&o, true);
	EXPECT_EQ(o.reason, WEFT_OK);
	weft_rio_owner_close(o.role);
	raw_close(&r);
}
