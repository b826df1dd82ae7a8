/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "rio/requester.h"
#include "test.h"
#include "unit/rio/asker_fixture.h"

static const struct platform self = { ASKER, 1 };

static struct platform unit_name(uint32_t nth)
{
	return (struct platform){ 20 + nth, 1 };
}

/* The owner announces an I/O unit with so many devices, numbered from `first`. */
static enum weft_reason announce(struct asker_world *w, uint32_t nth, int token, uint32_t first,
				 uint32_t devices)
{
	uint8_t entries[RIO_MSG_BYTES_MAX];
	struct wr at = wr_of(entries, sizeof(entries));
	struct rio_msg m = { .type = RIO_ANNOUNCE, .announce = { .iounit = unit_name(nth) } };

	memset(m.announce.token, token, RIO_TOKEN_BYTES);
	for (uint32_t i = 0; i < devices; i++) {
		char name[5] = { 'd', (char)('a' + i / 100), (char)('0' + i / 10 % 10),
				 (char)('0' + i % 10) };

		rio_device_put(&(struct rio_device){ .number = first + i,
						     .block_bytes = 512,
						     .size_bytes = 512 * (uint64_t)(i + 1),
						     .flags = RIO_DEVICE_FLUSH,
						     .name = { (const uint8_t *)name, 4 } },
			       &at);
	}
	REQUIRE(!at.is_short);
	m.announce.devices = (struct rio_devices){ devices,
						   { entries, (size_t)(at.at - entries) } };
	return asker_hears(w, &m);
}

static enum weft_reason revoke(struct asker_world *w, uint32_t nth)
{
	return asker_hears(w, &(struct rio_msg){ .type = RIO_REVOKE, .revoked = unit_name(nth) });
}

static void open_one(struct asker_world *w)
{
	asker_open(w, 4, 8144);
}

/* ---- Memory of the I/O unit (RIO-14) --------------------------------------------------------- */

/* The kinds of the elements of the latest request, in order. */
static void list_kinds(const struct asker_world *w, char kinds[16])
{
	const struct sgl_attributes in = sgl_attributes_default();
	const struct heard *h = asker_latest(w, RIO_REQUEST);
	struct rd r = rd_of(h->list, h->length);
	struct sgl_element e;
	int n = 0;

	while (r.at != r.end) {
		REQUIRE(n < 15 && sgl_next(&e, &r, &in) == SGL_OK);
		kinds[n++] = "?acptdi"[e.kind];
	}
	kinds[n] = 0;
}

TEST(test_rio_14_a_list_names_no_platform_for_the_units_own_memory)
{
	const struct rio_fragment at_unit = { .platform = unit_name(0), .length = 512 };
	const struct rio_fragment mixed[] = { at_unit, asker_own(0x1000, 512), at_unit };
	struct rio_wanted own = asker_wanted(SGL_READ, &at_unit, 1);
	struct rio_wanted both = asker_wanted(SGL_READ, mixed, 3);
	struct asker_world w;
	char kinds[16];
	uint64_t id;

	own.is.device = both.is.device = 0x10000;
	open_one(&w);
	EXPECT_EQ(announce(&w, 0, 1, 0x10000, 1), WEFT_OK);
	EXPECT_EQ(asker_ask(&w, &own, 1, &id), WEFT_OK);
	asker_run(&w);
	list_kinds(&w, kinds);
	EXPECT_STR(kinds, "atd"); /* attributes, transaction, detail */
	EXPECT_EQ(w.opened, 0U);
	/* Behind another platform the unit is named. */
	EXPECT_EQ(asker_ask(&w, &both, 1, &id), WEFT_OK);
	asker_run(&w);
	list_kinds(&w, kinds);
	EXPECT_STR(kinds, "atdpdpd");
	EXPECT_EQ(w.opened, 1U);
	asker_close(&w);
}

/* ---- Whose windows are ---------------------------------------------------------------------- */

/* Of the last window that was opened. */
static struct platform opened_for(struct asker_world *w, uint32_t device)
{
	const struct rio_fragment f = asker_own(0x1000, 4096);
	struct rio_wanted wanted = asker_wanted(SGL_READ, &f, 1);
	struct platform iounit = { 0 };
	uint64_t id;

	wanted.is.device = device;
	REQUIRE(asker_ask(w, &wanted, 1, &id) == WEFT_OK);
	asker_run(w);
	for (uint32_t i = 0; i < ASKER_WINDOWS; i++) {
		if (w->panes[i].state == PANE_OPEN)
			iounit = w->panes[i].iounit;
	}
	REQUIRE(w->open_now == 1 && asker_status(w, id, WEFT_OK) == WEFT_OK);
	asker_run(w);
	REQUIRE(w->open_now == 0);
	return iounit;
}

/* RIO-02a: of the I/O unit that has the device; it need not be connected, nor known long before. */
TEST(test_rio_02a_a_window_is_for_the_unit_that_has_the_device)
{
	struct asker_world w;
	struct rio_ended ended;

	open_one(&w);
	EXPECT_EQ(announce(&w, 0, 1, 0x10000, 2), WEFT_OK);
	EXPECT_EQ(announce(&w, 1, 2, 0x20000, 1), WEFT_OK);
	EXPECT(platform_is_same(opened_for(&w, 0x10001), unit_name(0)));
	EXPECT(platform_is_same(opened_for(&w, 0x20000), unit_name(1)));
	/* The owner may know better whose that is. */
	EXPECT(platform_is_none(opened_for(&w, 0x30000)));
	EXPECT_EQ(revoke(&w, 0), WEFT_OK);
	EXPECT(platform_is_none(opened_for(&w, 0x10001)));
	while (rio_requester_ended(w.q, &ended))
		EXPECT_EQ(ended.reason, WEFT_OK);
	asker_close(&w);
}

/* ---- What is offered ------------------------------------------------------------------------ */

static bool has_offer(const struct asker_world *w, uint32_t nth_unit, uint32_t number)
{
	for (uint32_t i = 0; i < rio_requester_offers(w->q); i++) {
		struct rio_offer o = rio_requester_offer(w->q, i);

		if (platform_is_same(o.iounit, unit_name(nth_unit)) && o.device.number == number)
			return true;
	}
	return false;
}

TEST(test_rio_04_devices_of_announced_units_are_offered)
{
	struct asker_world w;
	struct rio_offer o;

	open_one(&w);
	EXPECT_EQ(rio_requester_offers(w.q), 0U);
	EXPECT_EQ(announce(&w, 0, 1, 0x10000, 2), WEFT_OK);
	EXPECT_EQ(announce(&w, 1, 2, 0x20000, 1), WEFT_OK);
	EXPECT_EQ(rio_requester_offers(w.q), 3U);
	o = rio_requester_offer(w.q, 1);
	EXPECT(platform_is_same(o.iounit, unit_name(0)) && o.device.number == 0x10001);
	EXPECT(o.device.block_bytes == 512 && o.device.size_bytes == 1024);
	EXPECT(o.device.flags == RIO_DEVICE_FLUSH && o.device.name.length == 4);
	EXPECT_MEM(o.device.name.bytes, "da01", 4);
	EXPECT(has_offer(&w, 1, 0x20000));

	/* Again: what it has now instead of what it had. */
	EXPECT_EQ(announce(&w, 0, 1, 0x10005, 1), WEFT_OK);
	EXPECT_EQ(rio_requester_offers(w.q), 2U);
	EXPECT(has_offer(&w, 0, 0x10005) && has_offer(&w, 1, 0x20000));
	EXPECT_MEM(rio_requester_offer(w.q, 0).device.name.bytes, "da00", 4);
	EXPECT_EQ(announce(&w, 0, 1, 0, 0), WEFT_OK);
	EXPECT_EQ(rio_requester_offers(w.q), 1U);
	EXPECT_EQ(revoke(&w, 1), WEFT_OK);
	EXPECT_EQ(rio_requester_offers(w.q), 0U);
	asker_close(&w);
}

TEST(test_rio_04_no_more_units_than_there_is_room_for)
{
	struct asker_world w;

	open_one(&w);
	EXPECT_EQ(announce(&w, 0, 1, 0, 1), WEFT_OK);
	EXPECT_EQ(announce(&w, 1, 1, 1, 1), WEFT_OK);
	EXPECT_EQ(announce(&w, 2, 1, 2, 1), WEFT_R_LIMIT);
	EXPECT_EQ(rio_requester_offers(w.q), 2U);
	EXPECT_EQ(announce(&w, 1, 3, 1, 1), WEFT_OK); /* one that is there */
	EXPECT_EQ(revoke(&w, 0), WEFT_OK);
	EXPECT_EQ(announce(&w, 2, 1, 2, 1), WEFT_OK); /* though 0 is not hung up yet */
	EXPECT_EQ(revoke(&w, 1), WEFT_OK);
	EXPECT_EQ(revoke(&w, 2), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(w.hung_up_count, 3U);
	for (uint32_t i = 0; i < 20; i++) {
		EXPECT_EQ(announce(&w, i, 1, 2, 1), WEFT_OK);
		EXPECT_EQ(revoke(&w, i), WEFT_OK);
		asker_run(&w);
	}
	asker_close(&w);
}

TEST(test_rio_04_no_more_devices_than_there_is_room_for)
{
	struct asker_world w;

	open_one(&w);
	EXPECT_EQ(announce(&w, 0, 1, 0, 194), WEFT_OK);
	EXPECT_EQ(announce(&w, 1, 1, 1000, 7), WEFT_R_LIMIT);
	EXPECT_EQ(rio_requester_offers(w.q), 194U);
	EXPECT_EQ(announce(&w, 1, 1, 1000, 6), WEFT_OK);
	EXPECT_EQ(rio_requester_offers(w.q), (uint32_t)ASKER_DEVICES);
	EXPECT_EQ(announce(&w, 0, 1, 0, 195), WEFT_R_LIMIT);
	EXPECT_EQ(announce(&w, 0, 1, 0, 194), WEFT_OK); /* its own do not count */
	EXPECT_EQ(rio_requester_offers(w.q), (uint32_t)ASKER_DEVICES);
	asker_close(&w);
}

TEST(test_rio_03_who_is_revoked_is_hung_up)
{
	struct asker_world w;

	open_one(&w);
	EXPECT_EQ(announce(&w, 0, 1, 0, 1), WEFT_OK);
	EXPECT_EQ(announce(&w, 1, 1, 0, 1), WEFT_OK);
	EXPECT_EQ(revoke(&w, 5), WEFT_OK); /* who was never here */
	asker_run(&w);
	EXPECT_EQ(w.hung_up_count, 0U);
	EXPECT_EQ(revoke(&w, 1), WEFT_OK);
	EXPECT_EQ(revoke(&w, 1), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(w.hung_up_count, 1U);
	EXPECT(platform_is_same(w.hung_up[0], unit_name(1)));
	/* Once, if it comes and goes before that is done. */
	EXPECT_EQ(revoke(&w, 0), WEFT_OK);
	EXPECT_EQ(announce(&w, 0, 2, 0, 1), WEFT_OK);
	EXPECT_EQ(announce(&w, 1, 2, 0, 1), WEFT_OK);
	EXPECT_EQ(revoke(&w, 1), WEFT_OK);
	EXPECT_EQ(revoke(&w, 0), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(w.hung_up_count, 3U);
	EXPECT(platform_is_same(w.hung_up[1], unit_name(0)));
	EXPECT(platform_is_same(w.hung_up[2], unit_name(1)));
	/* Those of an owner go with him. */
	EXPECT_EQ(announce(&w, 0, 1, 0, 1), WEFT_OK);
	EXPECT_EQ(announce(&w, 1, 1, 0, 1), WEFT_OK);
	rio_requester_owner_left(w.q);
	EXPECT_EQ(rio_requester_offers(w.q), 0U);
	asker_run(&w);
	EXPECT_EQ(w.hung_up_count, 5U);
	asker_close(&w);
}

/* ---- Data connections (AMB-26) -------------------------------------------------------------- */

struct question {
	struct rio_data data;
	uint8_t bytes[RIO_DATA_BYTES];
	size_t length;
};

static void seal(struct question *q, int token)
{
	uint8_t key[RIO_TOKEN_BYTES];

	memset(key, token, sizeof(key));
	rio_data_encode(&q->data, q->bytes);
	rio_seal(key, q->bytes, RIO_DATA_SEALED_BYTES, q->bytes + RIO_DATA_SEALED_BYTES);
	q->length = RIO_DATA_BYTES;
}

static struct question question_of(uint32_t nth, int token, uint64_t counter)
{
	struct question q = { .data = { .from = unit_name(nth), .to = self, .counter = counter } };

	memset(q.data.nonce, (int)counter + 50, sizeof(q.data.nonce));
	seal(&q, token);
	return q;
}

/* Asks; an answer gives the reason, and is sealed if, and only if, it is yes. */
static enum weft_reason put_question(struct asker_world *w, const struct question *q, int token)
{
	uint8_t answer[RIO_DATA_BYTES], key[RIO_TOKEN_BYTES];
	struct platform iounit;
	struct rio_data d;
	enum weft_reason r = rio_requester_asked(w->q, &(struct rio_bytes){ q->bytes, q->length },
						 &iounit, answer);

	memset(key, token, sizeof(key));
	if (rio_data_decode(&d, answer, sizeof(answer)) != RIO_MSG_OK)
		return platform_is_none(iounit) ? r : WEFT_R_SYSTEM;
	REQUIRE(d.is_answer && d.reason == (uint32_t)r);
	REQUIRE(platform_is_same(d.from, self));
	REQUIRE(rio_seal_is_true(key, answer, RIO_DATA_SEALED_BYTES, d.seal) == (r == WEFT_OK));
	if (r != WEFT_OK)
		return r;
	REQUIRE(platform_is_same(iounit, q->data.from) && platform_is_same(d.to, iounit));
	REQUIRE(d.counter == q->data.counter);
	REQUIRE(memcmp(d.nonce, q->data.nonce, sizeof(d.nonce)) == 0);
	return r;
}

static enum weft_reason connects(struct asker_world *w, uint32_t nth, int token, uint64_t counter)
{
	struct question q = question_of(nth, token, counter);

	return put_question(w, &q, token);
}

TEST(test_rio_11_a_unit_that_was_announced_may_connect)
{
	struct asker_world w;

	open_one(&w);
	EXPECT_EQ(connects(&w, 0, 1, 1), WEFT_R_RIO_UNKNOWN_PEER);
	EXPECT_EQ(announce(&w, 0, 1, 0, 0), WEFT_OK);
	EXPECT_EQ(announce(&w, 1, 2, 0, 0), WEFT_OK);
	EXPECT_EQ(connects(&w, 0, 1, 1), WEFT_OK);
	EXPECT_EQ(connects(&w, 1, 2, 1), WEFT_OK);
	EXPECT_EQ(connects(&w, 0, 1, 2), WEFT_OK);
	EXPECT_EQ(connects(&w, 0, 1, UINT64_MAX), WEFT_OK);
	EXPECT_EQ(connects(&w, 2, 1, 1), WEFT_R_RIO_UNKNOWN_PEER);
	asker_close(&w);
}

TEST(test_rio_11_a_question_that_was_asked_before_is_refused)
{
	struct asker_world w;

	open_one(&w);
	EXPECT_EQ(announce(&w, 0, 1, 0, 0), WEFT_OK);
	EXPECT_EQ(connects(&w, 0, 1, 5), WEFT_OK);
	EXPECT_EQ(connects(&w, 0, 1, 5), WEFT_R_RIO_REPLAYED);
	EXPECT_EQ(connects(&w, 0, 1, 4), WEFT_R_RIO_REPLAYED);
	EXPECT_EQ(connects(&w, 0, 1, 1), WEFT_R_RIO_REPLAYED);
	EXPECT_EQ(connects(&w, 0, 1, 6), WEFT_OK);
	/* Devices may change; the token is the same, and so is what was seen with it. */
	EXPECT_EQ(announce(&w, 0, 1, 0, 3), WEFT_OK);
	EXPECT_EQ(connects(&w, 0, 1, 6), WEFT_R_RIO_REPLAYED);
	/* With another one it begins anew, and the one before is no good. */
	EXPECT_EQ(announce(&w, 0, 2, 0, 3), WEFT_OK);
	EXPECT_EQ(connects(&w, 0, 1, 7), WEFT_R_RIO_FORGED);
	EXPECT_EQ(connects(&w, 0, 2, 1), WEFT_OK);
	asker_close(&w);
}

/* An owner should give a new token; if he does not, what was seen with it still counts. */
TEST(test_rio_11_a_question_of_before_a_revoke_is_refused)
{
	struct asker_world w;

	open_one(&w);
	EXPECT_EQ(announce(&w, 0, 1, 0, 0), WEFT_OK);
	EXPECT_EQ(connects(&w, 0, 1, 4), WEFT_OK);
	EXPECT_EQ(revoke(&w, 0), WEFT_OK);
	asker_run(&w);
	EXPECT_EQ(announce(&w, 1, 9, 0, 0), WEFT_OK); /* a new unit takes an unused slot */
	EXPECT_EQ(announce(&w, 0, 1, 0, 0), WEFT_OK);
	EXPECT_EQ(connects(&w, 0, 1, 4), WEFT_R_RIO_REPLAYED);
	for (int is_run = 0; is_run < 2; is_run++) {
		EXPECT_EQ(announce(&w, 0, 1, 0, 0), WEFT_OK);
		EXPECT_EQ(connects(&w, 0, 1, 5 + (uint64_t)is_run), WEFT_OK);
		EXPECT_EQ(revoke(&w, 0), WEFT_OK);
		if (is_run)
			asker_run(&w);
		EXPECT_EQ(announce(&w, 1, 9, 0, 0), WEFT_OK); /* another unit in between */
		EXPECT_EQ(announce(&w, 0, 1, 0, 0), WEFT_OK);
		asker_run(&w);
		EXPECT_EQ(connects(&w, 0, 1, 5 + (uint64_t)is_run), WEFT_R_RIO_REPLAYED);
	}
	rio_requester_owner_left(w.q);
	asker_run(&w);
	asker_owner_comes(&w, 4, 8144);
	EXPECT_EQ(announce(&w, 0, 1, 0, 0), WEFT_OK);
	EXPECT_EQ(connects(&w, 0, 1, 6), WEFT_R_RIO_REPLAYED);
	EXPECT_EQ(connects(&w, 0, 1, 7), WEFT_OK);
	asker_close(&w);
}

TEST(test_rio_11_who_was_revoked_may_not_connect)
{
	struct asker_world w;

	open_one(&w);
	EXPECT_EQ(announce(&w, 0, 1, 0, 0), WEFT_OK);
	EXPECT_EQ(revoke(&w, 0), WEFT_OK);
	EXPECT_EQ(connects(&w, 0, 1, 1), WEFT_R_RIO_UNKNOWN_PEER);
	asker_run(&w);
	EXPECT_EQ(connects(&w, 0, 1, 1), WEFT_R_RIO_UNKNOWN_PEER);
	/* Announced again: not before its old connection is hung up, else the new one would be. */
	EXPECT_EQ(announce(&w, 0, 2, 0, 0), WEFT_OK);
	EXPECT_EQ(revoke(&w, 0), WEFT_OK);
	EXPECT_EQ(announce(&w, 0, 3, 0, 0), WEFT_OK);
	EXPECT_EQ(connects(&w, 0, 3, 1), WEFT_R_BUSY);
	asker_run(&w);
	EXPECT_EQ(connects(&w, 0, 3, 1), WEFT_OK);
	rio_requester_owner_left(w.q);
	EXPECT_EQ(connects(&w, 0, 3, 2), WEFT_R_RIO_UNKNOWN_PEER);
	asker_close(&w);
}

TEST(test_rio_11_a_forged_question_is_refused)
{
	struct asker_world w;
	struct question q;

	open_one(&w);
	EXPECT_EQ(announce(&w, 0, 1, 0, 0), WEFT_OK);
	EXPECT_EQ(announce(&w, 1, 2, 0, 0), WEFT_OK);
	EXPECT_EQ(connects(&w, 0, 2, 1), WEFT_R_RIO_FORGED); /* with another's token */
	EXPECT_EQ(connects(&w, 0, 3, 9), WEFT_R_RIO_FORGED);
	for (size_t bit = 0; bit < 8 * (size_t)RIO_DATA_BYTES; bit++) {
		q = question_of(0, 1, 1);
		q.bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
		EXPECT(put_question(&w, &q, 1) != WEFT_OK);
	}
	for (size_t cut = 0; cut < RIO_DATA_BYTES; cut++) {
		q = question_of(0, 1, 1);
		q.length = cut;
		EXPECT(put_question(&w, &q, 1) != WEFT_OK);
	}
	/* None of them has used up the counter. */
	EXPECT_EQ(connects(&w, 0, 1, 1), WEFT_OK);
	asker_close(&w);
}

TEST(test_rio_11_a_question_to_another_requester_is_refused)
{
	struct question q = question_of(0, 1, 1);
	struct asker_world w;

	open_one(&w);
	EXPECT_EQ(announce(&w, 0, 1, 0, 0), WEFT_OK);
	q.data.to = (struct platform){ ASKER, 2 };
	seal(&q, 1);
	EXPECT_EQ(put_question(&w, &q, 1), WEFT_R_RIO_UNEXPECTED);
	q = question_of(0, 1, 1);
	q.data.is_answer = true; /* an answer that asks */
	seal(&q, 1);
	EXPECT_EQ(put_question(&w, &q, 1), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(connects(&w, 0, 1, 1), WEFT_OK);
	asker_close(&w);
}

/* RIO-05: a requester may be an I/O unit; to the requester side it makes no difference. */
TEST(test_rio_05_a_unit_may_connect_to_itself_as_to_any_requester)
{
	struct question q = question_of(0, 1, 1);
	struct asker_world w;
	struct rio_msg m = { .type = RIO_ANNOUNCE, .announce = { .iounit = self } };

	open_one(&w);
	memset(m.announce.token, 1, RIO_TOKEN_BYTES);
	EXPECT_EQ(asker_hears(&w, &m), WEFT_OK);
	q.data.from = self;
	seal(&q, 1);
	EXPECT_EQ(put_question(&w, &q, 1), WEFT_OK);
	asker_close(&w);
}
