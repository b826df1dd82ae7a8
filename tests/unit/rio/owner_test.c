/* SPDX-License-Identifier: BSD-2-Clause */
/* Announcements of peers to each other, what is allowed, what is handed on. */
#include <string.h>

#include "test.h"
#include "unit/rio/owner_fixture.h"

enum { A = 0, B = 1, C = 2, U = BED_UNIT, V = BED_UNIT + 1, READ = 1 << SGL_READ };

static struct owner_bed b;
static struct paper p;

static void open_quiet(void)
{
	bed_open(&b);
	bed_start(&b);
}

/* ---- Who is told of whom -------------------------------------------------------------------- */

TEST(test_rio_03_requester_and_unit_are_announced_to_each_other_with_one_token)
{
	const struct heard *announce, *grant;
	struct rio_device d;
	struct rd at;

	open_quiet();
	bed_allow(&b, (struct rio_rule){ .requester = { 7, 1 },
					 .iounit = { 2, 1 },
					 .name = "archive",
					 .name_bytes = 7,
					 .operations = READ });
	bed_come(&b, A);
	bed_come(&b, B);
	bed_come(&b, U);
	bed_run(&b);
	EXPECT_EQ(b.ends[A].heard_count + b.ends[U].heard_count, 0U);
	bed_tell_devices(&b, U);
	bed_run(&b);
	announce = bed_heard(&b, A, RIO_ANNOUNCE);
	grant = bed_heard(&b, U, RIO_GRANT);
	EXPECT(announce && grant);
	EXPECT(grant->order < announce->order);
	EXPECT(platform_is_same(announce->m.announce.iounit, b.ends[U].platform));
	EXPECT(platform_is_same(grant->m.grant.requester, b.ends[A].platform));
	EXPECT_MEM(announce->m.announce.token, grant->m.grant.token, RIO_TOKEN_BYTES);
	EXPECT_EQ(grant->m.grant.address.port, 7000);
	EXPECT_MEM(grant->m.grant.address.ip, b.ends[A].address.ip, RIO_IP_BYTES);
	/* Only what it may touch, by the owner's number. */
	EXPECT_EQ(announce->m.announce.devices.count, 1U);
	at = rd_of(announce->m.announce.devices.entries.bytes,
		   announce->m.announce.devices.entries.length);
	EXPECT_EQ(rio_device_next(&d, &at), RIO_MSG_OK);
	EXPECT_EQ(d.number, BED_DEVICE(0, 2));
	EXPECT_EQ(d.block_bytes, 4096U);
	EXPECT_EQ(d.name.length, 7U);
	EXPECT_MEM(d.name.bytes, "archive", 7);
	/* A requester that no rule names gets no message. */
	EXPECT_EQ(b.ends[B].heard_count, 0U);
	EXPECT_EQ(b.ends[U].heard_count, 1U);
	bed_close(&b);
}

TEST(test_rio_03_a_requester_that_comes_later_gets_the_announcement_too)
{
	open_quiet();
	bed_allow_all(&b);
	bed_come(&b, V);
	bed_tell_devices(&b, V);
	bed_run(&b);
	bed_come(&b, C);
	bed_run(&b);
	EXPECT_EQ(bed_heard(&b, C, RIO_ANNOUNCE)->m.announce.devices.count, 2U);
	EXPECT(bed_heard(&b, V, RIO_GRANT));
	bed_close(&b);
}

TEST(test_rio_03_a_requester_without_data_connections_gets_no_announcement)
{
	open_quiet();
	bed_allow_all(&b);
	b.ends[A].address = (struct rio_address){ 0 };
	bed_all_come(&b);
	bed_leave(&b, A);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_REVOKE), 0U);
	bed_come(&b, A);
	bed_run(&b);
	EXPECT_EQ(b.ends[A].heard_count + b.ends[U].heard_count, 0U);
	/* It can have things done that need none, and nothing else. */
	paper_start(&p);
	paper_transaction(
		&p, (struct sgl_transaction){ .operation = SGL_FLUSH, .device = BED_DEVICE(0, 1) });
	paper_last(&p);
	bed_ask(&b, A, 1, &p);
	bed_ask_read(&b, A, 2, BED_DEVICE(0, 1));
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, U, RIO_COMMAND), 1U);
	EXPECT_EQ(bed_heard(&b, A, RIO_STATUS)->m.status.reason, (uint32_t)WEFT_R_RIO_PLATFORM);
	bed_close(&b);
}

TEST(test_rio_03_tokens_are_never_used_twice)
{
	uint8_t first[RIO_TOKEN_BYTES], other[RIO_TOKEN_BYTES];

	open_quiet();
	bed_allow_all(&b);
	bed_come(&b, U);
	bed_tell_devices(&b, U);
	bed_come(&b, A);
	bed_come(&b, B);
	bed_run(&b);
	memcpy(first, bed_heard(&b, A, RIO_ANNOUNCE)->m.announce.token, sizeof(first));
	memcpy(other, bed_heard(&b, B, RIO_ANNOUNCE)->m.announce.token, sizeof(other));
	EXPECT(memcmp(first, other, sizeof(first)) != 0);
	bed_leave(&b, A);
	bed_run(&b);
	bed_come(&b, A);
	bed_run(&b);
	memcpy(other, bed_heard(&b, A, RIO_ANNOUNCE)->m.announce.token, sizeof(other));
	EXPECT(memcmp(first, other, sizeof(first)) != 0);
	bed_close(&b);

	/* And they are made of the secret. */
	bed_open(&b);
	b.config.secret[31] ^= 1;
	bed_start(&b);
	bed_allow_all(&b);
	bed_come(&b, U);
	bed_tell_devices(&b, U);
	bed_come(&b, A);
	bed_run(&b);
	memcpy(other, bed_heard(&b, A, RIO_ANNOUNCE)->m.announce.token, sizeof(other));
	EXPECT(memcmp(first, other, sizeof(first)) != 0);
	bed_close(&b);
}

TEST(test_rio_03_who_leaves_is_revoked_with_the_other)
{
	const struct heard *revoke, *grant;

	bed_open_all(&b);
	bed_leave(&b, A);
	bed_run(&b);
	EXPECT(platform_is_same(bed_heard(&b, U, RIO_REVOKE)->m.revoked, b.ends[A].platform));
	EXPECT(platform_is_same(bed_heard(&b, V, RIO_REVOKE)->m.revoked, b.ends[A].platform));
	EXPECT_EQ(b.ends[B].heard_count, 0U);
	bed_leave(&b, V);
	bed_run(&b);
	EXPECT(platform_is_same(bed_heard(&b, B, RIO_REVOKE)->m.revoked, b.ends[V].platform));
	EXPECT_EQ(b.ends[B].heard_count, 1U);
	/* It comes back in another's place: first the revoke, then the grant. */
	bed_come(&b, A);
	bed_run(&b);
	bed_forget(&b);
	bed_leave(&b, C);
	bed_leave(&b, A);
	while (b.note_count < 2) /* so that their places are free */
		REQUIRE(bed_step(&b));
	EXPECT_EQ(b.ends[U].heard_count, 0U);
	bed_come(&b, C);
	bed_come(&b, A);
	bed_run(&b);
	EXPECT(bed_heard(&b, U, RIO_REVOKE));
	revoke = bed_heard(&b, U, RIO_REVOKE);
	grant = bed_heard(&b, U, RIO_GRANT);
	EXPECT(revoke && grant && revoke->order < grant->order);
	EXPECT(bed_heard(&b, U, RIO_GRANT));
	bed_close(&b);
}

/* They go before anything was said: there is nothing to take back. */
TEST(test_rio_03_a_peer_that_was_not_announced_is_not_revoked)
{
	open_quiet();
	bed_allow_all(&b);
	bed_come(&b, U);
	bed_tell_devices(&b, U);
	bed_run(&b);
	bed_come(&b, A);
	bed_leave(&b, A);
	bed_run(&b);
	EXPECT_EQ(b.ends[U].heard_count, 0U);
	/* One of the two was told. */
	bed_come(&b, A);
	while (b.ends[U].heard_count == 0)
		REQUIRE(bed_step(&b));
	EXPECT_EQ(b.ends[A].heard_count, 0U);
	bed_leave(&b, U);
	bed_run(&b);
	EXPECT_EQ(b.ends[A].heard_count, 0U);
	bed_close(&b);
}

/* MEM-13: shared memory must be reachable for all requesters that may name it. */
TEST(test_mem_13_whose_memory_is_shared_meets_the_unit_and_sees_no_device)
{
	const struct heard *h;

	open_quiet();
	bed_allow(&b, (struct rio_rule){ .requester = { 7, 1 }, .operations = READ });
	REQUIRE(rio_policy_add_share(&b.policy, &(struct rio_share){ { 7, 1 }, { 8, 1 } }) ==
		WEFT_OK);
	for (int i = 0; i < BED_ENDS; i++)
		bed_come(&b, i);
	bed_tell_devices(&b, U);
	bed_run(&b);
	h = bed_heard(&b, B, RIO_ANNOUNCE);
	EXPECT(h && h->m.announce.devices.count == 0);
	EXPECT_EQ(bed_count(&b, U, RIO_GRANT), 2U);
	EXPECT_EQ(b.ends[C].heard_count, 0U);
	bed_close(&b);
}

/* ---- Who may come --------------------------------------------------------------------------- */

TEST(test_rio_09_a_platform_comes_once_and_not_too_many_come)
{
	struct bed_end *c = &b.ends[C];
	struct rio_handshake owner = { .greet.peer = { .platform = { 50, 1 }, .role = RIO_OWNER } };
	uint32_t number;

	bed_open(&b);
	b.config.requesters_max = 2;
	bed_start(&b);
	bed_come(&b, A);
	EXPECT_EQ(bed_try_come(&b, A), WEFT_R_RIO_TWICE);
	bed_come(&b, U);
	EXPECT_EQ(bed_try_come(&b, U), WEFT_R_RIO_TWICE);
	b.ends[U].platform.process = 2; /* another, in the same place */
	EXPECT_EQ(bed_try_come(&b, U), WEFT_R_RIO_TWICE);
	c->platform = (struct platform){ 2, 1 };
	EXPECT_EQ(bed_try_come(&b, C), WEFT_R_RIO_TWICE);
	c->platform = b.config.self;
	EXPECT_EQ(bed_try_come(&b, C), WEFT_R_RIO_TWICE);
	c->platform = (struct platform){ 9, 1 };
	bed_come(&b, C);
	EXPECT_EQ(bed_try_come(&b, B), WEFT_R_LIMIT);
	bed_leave(&b, C);
	EXPECT_EQ(bed_try_come(&b, B), WEFT_R_LIMIT); /* its leaving is not written down */
	bed_leave(&b, U);
	EXPECT_EQ(bed_try_come(&b, U), WEFT_R_LIMIT);
	bed_run(&b);
	bed_come(&b, B);
	bed_come(&b, U);
	EXPECT_EQ(rio_owner_came(b.owner, &owner, 0, &number), WEFT_R_RIO_UNKNOWN_PEER);
	owner.greet.peer.role = RIO_IOUNIT;
	EXPECT_EQ(rio_owner_came(b.owner, &owner, 0, &number), WEFT_R_RIO_UNKNOWN_PEER);
	EXPECT_EQ(rio_owner_came(b.owner, &owner, 3, &number), WEFT_R_BAD_ARGUMENT);
	owner.greet.peer.role = RIO_REQUESTER;
	EXPECT_EQ(rio_owner_came(b.owner, &owner, 1, &number), WEFT_R_RIO_UNKNOWN_PEER);
	b.ends[V].requests_max = 0;
	EXPECT_EQ(bed_try_come(&b, V), WEFT_R_RIO_UNEXPECTED);
	b.ends[V].requests_max = 1;
	b.ends[V].list_max = 35;
	EXPECT_EQ(bed_try_come(&b, V), WEFT_R_RIO_UNEXPECTED);
	b.ends[V].list_max = 36;
	EXPECT_EQ(bed_try_come(&b, V), WEFT_OK);
	bed_close(&b);
}

TEST(test_rio_03_an_owner_without_limits_is_not_created)
{
	struct rio_owner *o;
	struct rio_owner_config good, c;

	bed_open(&b);
	good = b.config;
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		c = good;                                                                          \
		change;                                                                            \
		EXPECT_EQ(rio_owner_create(&c, &b.policy, &o), WEFT_R_BAD_ARGUMENT);               \
	} while (0)
	REFUSED(c.self.unit = 0);
	REFUSED(c.requesters_max = 0);
	REFUSED(c.iounits_max = 0);
	REFUSED(c.iounits_max = 0xffff);
	REFUSED(c.requests_max = 0);
	REFUSED(c.requests_max = UINT32_MAX);
	REFUSED(c.lists_max = 0);
	REFUSED(c.lists = NULL);
	REFUSED(c.timeout_ns = 0);
#undef REFUSED
}

static enum weft_reason tell(uint32_t first, uint32_t second, uint32_t count, size_t name_bytes)
{
	static const uint8_t name[RIO_DEVICE_NAME_MAX + 1] =
		"a name that is as long as the name of a device may be, no longer";
	struct rio_device d = { .block_bytes = 512, .size_bytes = 512 };
	uint8_t entries[RIO_MSG_BYTES_MAX];
	struct wr w = wr_of(entries, sizeof(entries));

	d.name = (struct rio_bytes){ name, name_bytes };
	for (uint32_t i = 0; i < count; i++) {
		d.number = i == 0 ? first : second + i - 1;
		rio_device_put(&d, &w);
	}
	return bed_try_say(
		&b, U,
		&(struct rio_msg){
			.type = RIO_DEVICES,
			.devices = { .count = count,
				     .entries = { entries, (size_t)(w.at - entries) } } });
}

static enum weft_reason tell_anew(uint32_t first, uint32_t second, uint32_t count,
				  size_t name_bytes)
{
	struct rio_device device;
	enum weft_reason r;

	open_quiet();
	bed_allow_all(&b);
	bed_come(&b, A);
	bed_come(&b, U);
	bed_run(&b);
	r = tell(first, second, count, name_bytes);
	bed_run(&b);
	REQUIRE((r == WEFT_OK) == (bed_count(&b, A, RIO_ANNOUNCE) == 1));
	REQUIRE((r == WEFT_OK && count > 0) ==
		rio_owner_device(b.owner, BED_DEVICE(0, first), &device));
	if (r == WEFT_OK) /* once is enough */
		REQUIRE(tell(first, second, count, name_bytes) == WEFT_R_RIO_UNEXPECTED);
	bed_close(&b);
	return r;
}

TEST(test_rio_03_a_unit_that_tells_of_impossible_devices_is_sent_away)
{
	EXPECT_EQ(tell_anew(0, 0xffff, 2, 1), WEFT_OK);
	EXPECT_EQ(tell_anew(0, 0x10000, 2, 1), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(tell_anew(7, 7, 2, 1), WEFT_R_RIO_UNEXPECTED);
	/* As many as can be announced in a message: 40 bytes less than it can tell of. */
	EXPECT_EQ(tell_anew(0, 1, 203, 8), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(tell_anew(0, 1, 202, 8), WEFT_OK);
	EXPECT_EQ(tell_anew(0, 1, 84, 64), WEFT_OK);
	EXPECT_EQ(tell_anew(0, 1, 225, 4), WEFT_OK);
}

/* ---- RIO-02d: refusals reach only the requester --------------------------------------------- */

static void refused_as(enum weft_reason reason, enum weft_reason noted, uint32_t transaction)
{
	const struct bed_note *note;
	const struct heard *h;
	struct rio_owner_peer counts;

	if (paper_bytes(&p) > 0)
		paper_last(&p);
	bed_forget(&b);
	bed_ask(&b, A, 77, &p);
	bed_run(&b);
	h = bed_heard(&b, A, RIO_STATUS);
	REQUIRE(h);
	EXPECT_EQ(h->m.id, 77U);
	EXPECT_EQ(h->m.status.reason, (uint32_t)reason);
	EXPECT_EQ(h->m.status.transaction, transaction);
	EXPECT_EQ(h->m.status.done_bytes, 0U);
	EXPECT(h->m.status.text.length == strlen(weft_reason_text(reason)));
	EXPECT_MEM(h->m.status.text.bytes, weft_reason_text(reason), h->m.status.text.length);
	EXPECT_EQ(b.ends[U].heard_count + b.ends[V].heard_count, 0U);
	EXPECT_EQ(b.note_count, 1U);
	note = bed_note_of(&b, RIO_NOTE_REFUSED, 77, 0);
	EXPECT(note && note->order < h->order);
	EXPECT_EQ(note->note.reason, noted);
	EXPECT_EQ(note->note.transaction, transaction);
	EXPECT(platform_is_same(note->note.who, b.ends[A].platform));
	rio_owner_query(b.owner, b.ends[A].number, &counts);
	EXPECT(counts.refused > 0 && counts.refused == counts.requests && counts.now == 0);
}

static void refused(enum weft_reason reason, uint32_t transaction)
{
	refused_as(reason, reason, transaction);
}

static void good_read_first(void)
{
	paper_start(&p);
	paper_platform(&p, b.ends[A].platform);
	paper_read(&p, BED_DEVICE(0, 1), 0, 512);
}

static void put_operation(enum sgl_operation operation, bool is_fua, uint32_t device)
{
	paper_transaction(&p, (struct sgl_transaction){ operation, is_fua, device, 0,
							operation == SGL_FLUSH ? 0 : 4096 });
}

TEST(test_rio_02d_what_the_device_cannot_do_is_refused)
{
	bed_open_all(&b);
	good_read_first();
	paper_read(&p, BED_DEVICE(0, 1), BED_DISK, 512);
	refused(WEFT_R_STORE_RANGE, 1);
	good_read_first();
	paper_read(&p, BED_DEVICE(0, 1), 100, 512);
	refused(WEFT_R_STORE_ALIGN, 1);
	good_read_first();
	paper_read(&p, BED_DEVICE(0, 2), 0, 512); /* blocks of 4096 */
	refused(WEFT_R_STORE_ALIGN, 1);
	good_read_first();
	put_operation(SGL_DISCARD, false, BED_DEVICE(0, 1));
	refused(WEFT_R_STORE_UNSUPPORTED, 1);
	good_read_first();
	put_operation(SGL_FLUSH, false, BED_DEVICE(0, 2));
	refused(WEFT_R_STORE_UNSUPPORTED, 1);
	good_read_first();
	put_operation(SGL_WRITE_ZEROES, false, BED_DEVICE(0, 2));
	refused(WEFT_R_STORE_UNSUPPORTED, 1);
	bed_close(&b);
}

static void put_write(uint32_t device, bool is_fua)
{
	static uint8_t data[4096];
	struct sgl_element e = { .kind = SGL_IMMEDIATE, .immediate = { true, 4096, data } };

	put_operation(SGL_WRITE, is_fua, device);
	p.latest = p.w.at;
	sgl_put(&e, &p.attributes, &p.w);
}

TEST(test_rio_02d_a_read_only_device_is_not_written)
{
	bed_open_all(&b);
	good_read_first();
	put_write(BED_DEVICE(0, 2), false);
	refused(WEFT_R_STORE_READONLY, 1);
	bed_close(&b);
}

TEST(test_rio_02d_devices_that_are_not_there_are_refused)
{
	static const uint32_t numbers[] = { 0,
					    1,
					    BED_DEVICE(0, 0),
					    BED_DEVICE(0, 3),
					    BED_DEVICE(2, 1),
					    BED_DEVICE(0xfffe, 0xffff),
					    BED_DEVICE(1, 1) };

	open_quiet();
	bed_allow_all(&b);
	bed_come(&b, A);
	bed_come(&b, U);
	bed_tell_devices(&b, U);
	bed_come(&b, V); /* which does not tell */
	bed_run(&b);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		good_read_first();
		paper_read(&p, numbers[i], 0, 512);
		refused(WEFT_R_RIO_DEVICE, 1);
	}
	bed_close(&b);
}

TEST(test_rio_15_transactions_are_all_for_one_unit)
{
	bed_open_all(&b);
	good_read_first();
	paper_read(&p, BED_DEVICE(1, 1), 0, 512);
	refused(WEFT_R_RIO_UNITS, 1);
	bed_close(&b);
}

TEST(test_rio_03_every_transaction_needs_a_rule)
{
	open_quiet();
	bed_allow(&b, (struct rio_rule){ .requester = { 7, 1 },
					 .iounit = { 2, 1 },
					 .name = "disk",
					 .name_bytes = 4,
					 .operations = READ,
					 .length = 1024 });
	bed_all_come(&b);
	good_read_first();
	paper_read(&p, BED_DEVICE(0, 1), 512, 1024);
	refused(WEFT_R_RIO_DENIED, 1);
	good_read_first();
	put_operation(SGL_FLUSH, false, BED_DEVICE(0, 1));
	refused(WEFT_R_RIO_DENIED, 1);
	/* What it may not touch is not there for it, as what is not there at all; the log knows. */
	paper_start(&p);
	paper_platform(&p, b.ends[A].platform);
	paper_read(&p, BED_DEVICE(1, 7), 1 << 30, 512);
	refused(WEFT_R_RIO_DEVICE, 0);
	paper_start(&p);
	paper_platform(&p, b.ends[A].platform);
	paper_read(&p, BED_DEVICE(1, 1), 1 << 30, 512);
	refused_as(WEFT_R_RIO_DEVICE, WEFT_R_RIO_DENIED, 0);
	EXPECT_EQ(b.notes[0].note.is.device, BED_DEVICE(1, 1));
	EXPECT_EQ(b.notes[0].note.is.offset, 1U << 30);
	EXPECT_EQ(b.notes[0].note.transactions, 1U);
	/* The policy that counts is the one that holds now. */
	b.policy.count = 0;
	good_read_first();
	refused_as(WEFT_R_RIO_DEVICE, WEFT_R_RIO_DENIED, 0);
	bed_close(&b);
}

TEST(test_mem_13_memory_of_others_is_refused_without_a_share)
{
	bed_open_all(&b);
	good_read_first();
	paper_platform(&p, b.ends[B].platform);
	paper_read(&p, BED_DEVICE(0, 1), 0, 512);
	refused(WEFT_R_RIO_FOREIGN, 1);
	/* RIO-14: the unit's own, unnamed or named. */
	paper_start(&p);
	paper_read(&p, BED_DEVICE(0, 1), 0, 512);
	refused(WEFT_R_RIO_FOREIGN, 0);
	good_read_first();
	paper_platform(&p, b.ends[U].platform);
	paper_read(&p, BED_DEVICE(0, 1), 0, 512);
	refused(WEFT_R_RIO_FOREIGN, 1);
	/* A share does not make its platform connected. */
	REQUIRE(rio_policy_add_share(&b.policy, &(struct rio_share){ { 7, 1 }, { 20, 0 } }) ==
		WEFT_OK);
	good_read_first();
	paper_platform(&p, (struct platform){ 20, 1 });
	paper_read(&p, BED_DEVICE(0, 1), 0, 512);
	refused(WEFT_R_RIO_PLATFORM, 1);
	/* What is said of the first segment does not hold for the next. */
	paper_start(&p);
	paper_platform(&p, b.ends[A].platform);
	paper_transaction(&p,
			  (struct sgl_transaction){ SGL_READ, false, BED_DEVICE(0, 1), 0, 512 });
	paper_result(&p, 256, false);
	paper_platform(&p, b.ends[B].platform);
	paper_result(&p, 256, true);
	refused(WEFT_R_RIO_FOREIGN, 0);
	bed_close(&b);
}

TEST(test_rio_16_malformed_lists_are_refused)
{
	bed_open_all(&b);
	paper_start(&p);
	paper_platform(&p, b.ends[A].platform);
	refused(WEFT_R_SGL_NO_TRANSACTION, 0);
	EXPECT_EQ(b.notes[0].note.transactions, 0U);
	good_read_first();
	paper_attributes(&p, 8);
	refused(WEFT_R_SGL_ATTRIBUTES_PLACE, 0);
	paper_start(&p);
	paper_transaction(&p,
			  (struct sgl_transaction){ SGL_READ, false, BED_DEVICE(0, 1), 0, 512 });
	refused(WEFT_R_SGL_SUM, 0);
	bed_close(&b);
}

/* ---- What is allowed ------------------------------------------------------------------------ */

TEST(test_rio_01_rio_02e_a_request_is_handed_on_and_its_status_comes_back)
{
	const struct bed_note *allowed, *ended;
	const struct heard *command, *status;
	struct sgl_transaction t;
	struct rio_segment s;
	struct rio_walk walk;
	struct rio_list *l;
	uint32_t noted;

	open_quiet();
	bed_allow(&b, (struct rio_rule){ .name = "none", .name_bytes = 4, .operations = READ });
	bed_allow_all(&b);
	bed_all_come(&b);
	paper_start(&p);
	paper_attributes(&p, 4);
	paper_platform(&p, b.ends[A].platform);
	paper_read(&p, BED_DEVICE(1, 1), 1024, 512);
	paper_read(&p, BED_DEVICE(1, 2), 4096, 4096);
	paper_last(&p);
	b.now_ns = 500;
	REQUIRE(bed_try_ask(&b, A, 42, &p, 30000) == WEFT_OK);
	bed_run(&b);
	EXPECT_EQ(b.ends[U].heard_count, 0U);
	command = bed_heard(&b, V, RIO_COMMAND);
	EXPECT(command);
	EXPECT(platform_is_same(command->m.request.requester, b.ends[A].platform));
	EXPECT_EQ(command->m.request.timeout_ms, 30000U);
	/* The same, but for the devices: their own unit's numbers. */
	EXPECT_EQ(command->m.request.list.length, paper_bytes(&p));
	l = bed_list_of(&b, command);
	rio_walk_start(&walk, l);
	REQUIRE(rio_walk_transaction(&walk, &t));
	EXPECT(t.device == 1 && t.offset == 1024 && t.length == 512 && t.operation == SGL_READ);
	REQUIRE(rio_walk_segment(&walk, &s));
	EXPECT(s.where == RIO_REMOTE && s.handle == 0xa1 && s.address == 0x1000);
	EXPECT(platform_is_same(s.platform, b.ends[A].platform));
	REQUIRE(rio_walk_transaction(&walk, &t));
	EXPECT_EQ(t.device, 2U);
	rio_list_destroy(l);
	/* Every transaction was written down before, with the rule that lets it. */
	for (noted = 0; (allowed = bed_note_of(&b, RIO_NOTE_ALLOWED, 42, noted)) != NULL; noted++) {
		EXPECT(allowed->order < command->order);
		EXPECT_EQ(allowed->note.transaction, noted);
		EXPECT_EQ(allowed->note.transactions, 2U);
		EXPECT_EQ(allowed->note.rule, 1U);
		EXPECT_EQ(allowed->note.is.device, BED_DEVICE(1, 1 + noted));
		EXPECT(platform_is_same(allowed->note.who, b.ends[A].platform));
		EXPECT(platform_is_same(allowed->note.iounit, b.ends[V].platform));
	}
	EXPECT_EQ(noted, 2U);
	EXPECT_EQ(bed_count(&b, A, RIO_STATUS), 0U);

	bed_status(&b, V, command->m.id, WEFT_OK, 4608);
	bed_run(&b);
	status = bed_heard(&b, A, RIO_STATUS);
	EXPECT(status && status->m.id == 42 && status->m.status.reason == 0);
	EXPECT_EQ(status->m.status.done_bytes, 4608U);
	EXPECT_EQ(status->m.status.text.length, 10U);
	EXPECT_MEM(status->m.status.text.bytes, "as it went", 10);
	ended = bed_note_of(&b, RIO_NOTE_ENDED, 42, 0);
	EXPECT(ended && ended->order < status->order && ended->note.bytes == 4608);
	EXPECT_EQ(ended->note.reason, WEFT_OK);
	EXPECT(!bed_note_of(&b, RIO_NOTE_ENDED, 42, 1));
	bed_close(&b);
}

TEST(test_rio_02i_how_it_went_is_handed_back_as_the_unit_says_it)
{
	const struct heard *command, *status;
	const struct bed_note *ended;
	struct rio_owner_peer q, u;

	bed_open_all(&b);
	paper_start(&p);
	paper_platform(&p, b.ends[B].platform);
	paper_read(&p, BED_DEVICE(0, 1), 0, 512);
	put_operation(SGL_WRITE_ZEROES, true, BED_DEVICE(0, 1));
	put_write(BED_DEVICE(0, 1), true);
	paper_last(&p);
	bed_ask(&b, B, 5, &p);
	bed_run(&b);
	command = bed_heard(&b, U, RIO_COMMAND);
	bed_say(&b, U,
		&(struct rio_msg){
			.type = RIO_STATUS,
			.id = command->m.id,
			/* A reason that is not known here yet. */
			.status = { .reason = 60000, .transaction = 2, .done_bytes = 1536 } });
	bed_run(&b);
	status = bed_heard(&b, B, RIO_STATUS);
	EXPECT(status && status->m.id == 5 && status->m.status.text.length == 0);
	EXPECT_EQ(status->m.status.reason, 60000U);
	EXPECT_EQ(status->m.status.transaction, 2U);
	EXPECT_EQ(status->m.status.done_bytes, 1536U);
	ended = bed_note_of(&b, RIO_NOTE_ENDED, 5, 0);
	EXPECT(ended && ended->note.is.operation == SGL_WRITE && ended->note.is.is_fua);
	EXPECT_EQ(ended->note.is.device, BED_DEVICE(0, 1));
	EXPECT_EQ(ended->note.transaction, 2U);
	rio_owner_query(b.owner, b.ends[B].number, &q);
	rio_owner_query(b.owner, b.ends[U].number, &u);
	EXPECT(q.requests == 1 && q.failed == 1 && q.refused == 0 && q.now == 0);
	EXPECT(q.read_bytes == 512 && q.written_bytes == 1024);
	EXPECT(u.requests == 1 && u.failed == 1 && u.now == 0 && u.place == 1);
	EXPECT(u.read_bytes == 512 && u.written_bytes == 1024);

	/* A transaction that there is not. */
	bed_ask_read(&b, B, 6, BED_DEVICE(0, 1));
	bed_run(&b);
	bed_say(&b, U,
		&(struct rio_msg){ .type = RIO_STATUS,
				   .id = bed_heard(&b, U, RIO_COMMAND)->m.id,
				   .status = { .reason = 1,
					       .transaction = UINT32_MAX,
					       .done_bytes = UINT64_MAX } });
	bed_run(&b);
	ended = bed_note_of(&b, RIO_NOTE_ENDED, 6, 0);
	EXPECT(ended && ended->note.is.operation == 0);
	rio_owner_query(b.owner, b.ends[B].number, &q);
	EXPECT_EQ(q.read_bytes, 1024U);
	bed_close(&b);
}

TEST(test_rio_06_mem_13_what_is_shared_may_be_named)
{
	struct rio_list *l;

	open_quiet();
	bed_allow(&b, (struct rio_rule){ .requester = { 7, 1 }, .operations = READ });
	REQUIRE(rio_policy_add_share(&b.policy, &(struct rio_share){ { 7, 1 }, { 8, 1 } }) ==
		WEFT_OK);
	REQUIRE(rio_policy_add_share(&b.policy, &(struct rio_share){ { 7, 1 }, { 2, 1 } }) ==
		WEFT_OK);
	bed_all_come(&b);
	paper_start(&p);
	paper_read(&p, BED_DEVICE(0, 1), 0, 512); /* to the unit itself */
	paper_platform(&p, b.ends[A].platform);
	paper_read(&p, BED_DEVICE(0, 1), 0, 512);
	paper_platform(&p, b.ends[B].platform);
	paper_read(&p, BED_DEVICE(0, 1), 0, 512);
	paper_platform(&p, b.ends[U].platform);
	paper_read(&p, BED_DEVICE(0, 1), 0, 512);
	paper_last(&p);
	bed_ask(&b, A, 1, &p);
	bed_run(&b);
	l = bed_list_of(&b, bed_heard(&b, U, RIO_COMMAND));
	EXPECT_EQ(rio_list_transactions(l), 4U);
	rio_list_destroy(l);
	/* Other requesters may not. */
	paper_start(&p);
	paper_platform(&p, b.ends[A].platform);
	paper_read(&p, BED_DEVICE(0, 1), 0, 512);
	paper_last(&p);
	bed_ask(&b, B, 2, &p);
	bed_run(&b);
	EXPECT_EQ(bed_heard(&b, B, RIO_STATUS)->m.status.reason, (uint32_t)WEFT_R_RIO_DEVICE);
	EXPECT_EQ(bed_note_of(&b, RIO_NOTE_REFUSED, 2, 0)->note.reason, WEFT_R_RIO_DENIED);
	bed_close(&b);
}

/* ---- For people ----------------------------------------------------------------------------- */

TEST(test_rio_03_who_is_here_can_be_asked)
{
	struct rio_device device;
	struct rio_owner_peer q;
	uint32_t number, count = 0;

	bed_open_all(&b);
	bed_leave(&b, B);
	for (number = rio_owner_next(b.owner, 0); number != UINT32_MAX;
	     number = rio_owner_next(b.owner, number + 1)) {
		rio_owner_query(b.owner, number, &q);
		EXPECT(q.role == RIO_IOUNIT ? q.place > 0 : q.place == 0);
		EXPECT(!platform_is_same(q.platform, b.ends[B].platform));
		count++;
	}
	EXPECT_EQ(count, 4U);
	REQUIRE(rio_owner_device(b.owner, BED_DEVICE(1, 2), &device));
	EXPECT_EQ(device.number, BED_DEVICE(1, 2));
	EXPECT_MEM(device.name.bytes, "archive", 7);
	EXPECT(!rio_owner_device(b.owner, BED_DEVICE(1, 3), &device));
	EXPECT(!rio_owner_device(b.owner, 2, &device));
	EXPECT(!rio_owner_device(b.owner, BED_DEVICE(9, 1), &device));
	bed_leave(&b, V);
	EXPECT(!rio_owner_device(b.owner, BED_DEVICE(1, 2), &device));
	bed_close(&b);
}

TEST(test_rio_03_coming_and_leaving_is_written_down)
{
	open_quiet();
	bed_come(&b, A);
	bed_leave(&b, A);
	bed_run(&b);
	bed_come(&b, U);
	bed_run(&b);
	bed_leave(&b, U);
	bed_run(&b);
	EXPECT_EQ(b.note_count, 4U);
	EXPECT(b.notes[0].note.kind == RIO_NOTE_CAME && b.notes[1].note.kind == RIO_NOTE_LEFT);
	EXPECT(b.notes[0].note.role == RIO_REQUESTER && b.notes[2].note.role == RIO_IOUNIT);
	EXPECT(platform_is_same(b.notes[1].note.who, b.ends[A].platform));
	EXPECT(b.notes[2].note.kind == RIO_NOTE_CAME && b.notes[3].note.kind == RIO_NOTE_LEFT);
	EXPECT(platform_is_same(b.notes[3].note.who, b.ends[U].platform));
	EXPECT_EQ(b.notes[0].note.reason, WEFT_OK);
	EXPECT_EQ(b.notes[1].note.reason, WEFT_R_STREAM_LOST);
	EXPECT_EQ(b.notes[3].note.reason, WEFT_R_STREAM_LOST);
	bed_close(&b);
}
