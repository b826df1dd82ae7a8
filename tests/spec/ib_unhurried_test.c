/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes of RC whose success may be told later: when they ask for an acknowledgement. */
#include "ib_bed.h"

enum { MTU = 256, CREDITS_OFF = IBA_CREDITS_UNUSED, HURRY_NS = 150 * 1000 };

static const uint64_t begin_ns = 10 * HURRY_NS;

static uint32_t psn(uint32_t n)
{
	return (PSN_OURS + n) & IBA_PSN_MASK;
}

static enum weft_reason ack(struct ib_bed *b, uint32_t n)
{
	return bed_put(b, peer_ack(CREDITS_OFF, psn(n), 0), NULL, 0);
}

static struct ib_bed *unhurried_open(const struct ib_config *config)
{
	struct ib_bed *b = bed_open(config, WEFT_RC);

	b->now_ns = begin_ns;
	return b;
}

/* Of a Write of so many packets: whether the last one asks, as no other may. */
static bool asks(struct ib_bed *b, uint32_t flags, uint32_t packets)
{
	const struct weft_send_wr wr = { .id = 1,
					 .opcode = WEFT_OP_WRITE,
					 .flags = flags,
					 .remote_addr = 0x1000,
					 .remote_tag = 0x77 };

	bed_post(b, wr, 0, packets * MTU);
	while (packets-- > 1)
		REQUIRE(!bed_next(b)->p.is_ack_requested);
	return bed_next(b)->p.is_ack_requested;
}

TEST(test_rc_02_unhurried_writes_that_follow_each_other_soon_ask_now_and_then)
{
	struct ib_bed *b = unhurried_open(NULL);

	EXPECT(asks(b, WEFT_UNHURRIED, 1)); /* nothing was asked lately */
	EXPECT(!asks(b, WEFT_UNHURRIED, 1));
	b->now_ns += HURRY_NS - 1;
	EXPECT(!asks(b, WEFT_UNHURRIED, 1));
	b->now_ns += 1;
	EXPECT(asks(b, WEFT_UNHURRIED, 1));
	EXPECT(!asks(b, WEFT_UNHURRIED, 1));
	EXPECT(asks(b, 0, 1)); /* which asks for all before it */
	EXPECT_EQ(ack(b, 5), WEFT_OK);
	for (uint32_t i = 0; i < 6; i++)
		bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

/* One that comes late enough is asked for even if all before it were answered. */
TEST(test_rc_02_an_unhurried_write_alone_is_asked_for_at_once)
{
	struct ib_bed *b = unhurried_open(NULL);

	for (uint32_t i = 0; i < 4; i++) {
		EXPECT(asks(b, WEFT_UNHURRIED, 1));
		EXPECT_EQ(ack(b, i), WEFT_OK);
		bed_completed(b, 1, WEFT_SUCCESS);
		b->now_ns += HURRY_NS;
	}
	bed_close(b);
}

TEST(test_rc_02_not_more_than_a_few_packets_are_unasked)
{
	struct ib_bed *b = unhurried_open(NULL);

	EXPECT(asks(b, WEFT_UNHURRIED, 1));
	EXPECT(!asks(b, WEFT_UNHURRIED, 3));
	EXPECT(!asks(b, WEFT_UNHURRIED, 4));
	EXPECT(asks(b, WEFT_UNHURRIED, 1));
	EXPECT_EQ(ack(b, 8), WEFT_OK);
	bed_close(b);
}

/* The last of them is asked for by a probe: it is told, later. */
TEST(test_rc_02_the_last_unhurried_write_is_asked_for_by_a_probe)
{
	struct ib_bed *b = unhurried_open(NULL);
	struct bed_packet *p;

	EXPECT(asks(b, WEFT_UNHURRIED, 1));
	EXPECT_EQ(ack(b, 0), WEFT_OK);
	bed_completed(b, 1, WEFT_SUCCESS);
	EXPECT(!asks(b, WEFT_UNHURRIED, 1));
	bed_silent(b);
	REQUIRE(ib_port_due(b->port) < UINT64_MAX);
	bed_wait(b, ib_port_due(b->port) - b->now_ns);
	p = bed_expect(b, IBA_WRITE_ONLY, psn(1));
	EXPECT(p->p.is_ack_requested);
	EXPECT_EQ(ack(b, 1), WEFT_OK);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

/* Else nothing would ask; or what comes until then would have no room. */
TEST(test_rc_02_without_a_timeout_window_or_credits_unhurried_writes_ask_at_once)
{
	enum { TIMEOUT, WINDOW, CREDITS, CASES };

	for (int i = 0; i < CASES; i++) {
		struct ib_config config = bed_config();
		struct ib_bed *b;

		if (i == TIMEOUT)
			config.timeout_code = 0;
		if (i == WINDOW)
			config.window_packets = 8;
		b = unhurried_open(&config);
		EXPECT(asks(b, WEFT_UNHURRIED, 1));
		MUST(bed_put(b,
			     peer_ack(i == CREDITS ? iba_syndrome_ack(4) : CREDITS_OFF, psn(0), 1),
			     NULL, 0));
		EXPECT(asks(b, WEFT_UNHURRIED, 1));
		EXPECT_EQ(ack(b, 1), WEFT_OK);
		bed_close(b);
	}
}

/* ---- Deadlines that have moved away --------------------------------------------------------- */

TEST(test_rc_02_a_port_that_has_settled_has_no_deadline_of_what_was_answered)
{
	struct ib_bed *b = unhurried_open(NULL);
	uint64_t first_ns;

	EXPECT(asks(b, 0, 1));
	b->now_ns += 1000;
	EXPECT_EQ(ack(b, 0), WEFT_OK);
	ib_port_settle(b->port);
	EXPECT_EQ(ib_port_wait_due(b->port), UINT64_MAX);
	EXPECT(asks(b, 0, 1));
	first_ns = ib_port_wait_due(b->port);
	REQUIRE(first_ns < UINT64_MAX);
	ib_port_settle(b->port); /* it is awaited */
	EXPECT_EQ(ib_port_wait_due(b->port), first_ns);
	EXPECT(asks(b, 0, 1));
	b->now_ns += 1000;
	EXPECT_EQ(ack(b, 1), WEFT_OK);
	ib_port_settle(b->port); /* the second is */
	EXPECT(ib_port_wait_due(b->port) > first_ns);
	REQUIRE(ib_port_wait_due(b->port) < UINT64_MAX);
	bed_silent(b);
	bed_wait(b, ib_port_wait_due(b->port) - b->now_ns);
	(void)bed_expect(b, IBA_WRITE_ONLY, psn(2)); /* again */
	EXPECT_EQ(ack(b, 2), WEFT_OK);
	bed_close(b);
}
