/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults on purpose: how a plan is read, and that the dice fall the same each time. */
#include <string.h>

#include "base/fault_plan.h"
#include "test.h"

static struct fault_plan plan_of(const char *text)
{
	struct fault_complaint complaint;
	struct fault_plan plan;

	REQUIRE(fault_plan_read(&plan, text, &complaint));
	return plan;
}

TEST(test_faults_a_plan_is_read)
{
	struct fault_plan p = plan_of("seed=7,qp_error=0.001,wc_delay=0.01:5ms,"
				      "disconnect_after=100MB,rnr=0.02");

	EXPECT_EQ(p.seed, 7);
	EXPECT_EQ(p.chances[FAULT_QP_ERROR], 1000000);
	EXPECT_EQ(p.chances[FAULT_WC_DELAY], 10000000);
	EXPECT_EQ(p.chances[FAULT_WC_DELAY_RECV], 10000000);
	EXPECT_EQ(p.wc_delay_ns, 5000000);
	EXPECT_EQ(p.disconnect_after, 100000000);
	EXPECT_EQ(p.chances[FAULT_RNR], 20000000);
	EXPECT_EQ(p.rnr_ns, 1000000); /* unless it is said */
	EXPECT_EQ(p.chances[FAULT_NO_MEMORY], 0);
	EXPECT_EQ(p.chances[FAULT_DISCONNECT_AFTER], 0);
}

TEST(test_faults_numbers_and_units_of_a_plan)
{
	EXPECT_EQ(plan_of("seed=18446744073709551615").seed, UINT64_MAX);
	EXPECT_EQ(plan_of("qp_error=1").chances[FAULT_QP_ERROR], 1000000000);
	EXPECT_EQ(plan_of("qp_error=1.0").chances[FAULT_QP_ERROR], 1000000000);
	EXPECT_EQ(plan_of("qp_error=0").chances[FAULT_QP_ERROR], 0);
	EXPECT_EQ(plan_of("post_full=0.000000001").chances[FAULT_POST_FULL], 1);
	EXPECT_EQ(plan_of("no_memory=0.5,").chances[FAULT_NO_MEMORY], 500000000);
	EXPECT_EQ(plan_of("connect_refused=0.25").chances[FAULT_CONNECT_REFUSED], 250000000);
	EXPECT_EQ(plan_of("rnr=0.1:1s").rnr_ns, 1000000000);
	EXPECT_EQ(plan_of("rnr=0.1:20us").rnr_ns, 20000);
	EXPECT_EQ(plan_of("rnr=0.1:3ns").rnr_ns, 3);
	EXPECT_EQ(plan_of("disconnect_after=12").disconnect_after, 12);
	EXPECT_EQ(plan_of("disconnect_after=12B").disconnect_after, 12);
	EXPECT_EQ(plan_of("disconnect_after=3KiB").disconnect_after, 3 * 1024);
	EXPECT_EQ(plan_of("disconnect_after=2GB").disconnect_after, UINT64_C(2000000000));
}

TEST(test_faults_of_packets_are_read)
{
	struct fault_plan p = plan_of("loss=0.1,duplicate=0.2,corrupt=0.3,reorder=0.4,"
				      "delay=0.5:7us");

	EXPECT_EQ(p.chances[FAULT_LOSS], 100000000);
	EXPECT_EQ(p.chances[FAULT_DUPLICATE], 200000000);
	EXPECT_EQ(p.chances[FAULT_CORRUPT], 300000000);
	EXPECT_EQ(p.chances[FAULT_REORDER], 400000000);
	EXPECT_EQ(p.chances[FAULT_DELAY], 500000000);
	EXPECT_EQ(p.delay_ns, 7000);
	EXPECT_EQ(plan_of("delay=0.5").delay_ns, 1000000);
	EXPECT(fault_plan_has_packets(&p));
	p = plan_of("seed=3,qp_error=1,disconnect_after=1,wc_delay=1");
	EXPECT(!fault_plan_has_packets(&p));
	p = plan_of("delay=0.000000001");
	EXPECT(fault_plan_has_packets(&p));
	p = plan_of("loss=0");
	EXPECT(!fault_plan_has_packets(&p));
}

TEST(test_faults_a_plan_that_cannot_be_read_says_where_and_why)
{
	static const struct {
		const char *text, *at, *why;
	} bad[] = {
		{ "", "", "NAME=VALUE" },
		{ "seed", "seed", "NAME=VALUE" },
		{ "seed=1,,rnr=1", "", "NAME=VALUE" },
		{ "seed=1,qp_eror=0.1", "qp_eror=0.1", "there are seed, qp_error" },
		{ "seed=x", "seed=x", "whole number" },
		{ "seed=1x", "seed=1x", "whole number" },
		{ "seed=18446744073709551616", "seed=18446744073709551616", "2^64" },
		{ "qp_error=", "qp_error=", "from 0 to 1" },
		{ "qp_error=2", "qp_error=2", "from 0 to 1" },
		{ "qp_error=1.1", "qp_error=1.1", "from 0 to 1" },
		{ "qp_error=-0.1", "qp_error=-0.1", "from 0 to 1" },
		{ "qp_error=.5", "qp_error=.5", "from 0 to 1" },
		{ "qp_error=0.5x", "qp_error=0.5x", "from 0 to 1" },
		{ "qp_error=0.0000000001", "qp_error=0.0000000001", "9 decimals" },
		{ "qp_error=0.1:5ms", "qp_error=0.1:5ms", "takes no time" },
		{ "reorder=0.1:5ms", "reorder=0.1:5ms", "takes no time" },
		{ "wc_delay=0.1:5", "wc_delay=0.1:5", "ns, us, ms or s" },
		{ "wc_delay=0.1:", "wc_delay=0.1:", "ns, us, ms or s" },
		{ "wc_delay=0.1:ms", "wc_delay=0.1:ms", "ns, us, ms or s" },
		{ "rnr=0.1:20000000000000s", "rnr=0.1:20000000000000s", "ns, us, ms or s" },
		{ "disconnect_after=1TB", "disconnect_after=1TB", "KiB" },
		{ "disconnect_after=0.5MB", "disconnect_after=0.5MB", "KiB" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct fault_complaint c;
		struct fault_plan plan;

		REQUIRE(!fault_plan_read(&plan, bad[i].text, &c));
		EXPECT_EQ(c.length, strlen(bad[i].at));
		EXPECT(memcmp(c.at, bad[i].at, c.length) == 0);
		EXPECT(strstr(c.why, bad[i].why));
	}
}

enum { THROWS = 2000 };

/* Which of so many throws fall, of one die of the n-th object. */
static void throw_all(struct fault_plan *plan, uint64_t n, enum fault fault, bool *falls)
{
	struct fault_dice dice;

	fault_dice_init(&dice, plan, n);
	for (int i = 0; i < THROWS; i++) {
		/* What else is asked in between changes nothing. */
		if (i % 3 == 0)
			(void)fault_falls(plan, &dice, FAULT_NO_MEMORY);
		falls[i] = fault_falls(plan, &dice, fault);
	}
}

TEST(test_faults_the_same_seed_gives_the_same_faults)
{
	struct fault_plan a = plan_of("seed=7,qp_error=0.5,rnr=0.5");
	struct fault_plan b = plan_of("rnr=0.5,no_memory=0.5,qp_error=0.5,seed=7");
	struct fault_plan other = plan_of("seed=8,qp_error=0.5");
	bool one[THROWS], two[THROWS];

	throw_all(&a, 3, FAULT_QP_ERROR, one);
	throw_all(&b, 3, FAULT_QP_ERROR, two);
	EXPECT(memcmp(one, two, sizeof(one)) == 0);
	throw_all(&other, 3, FAULT_QP_ERROR, two);
	EXPECT(memcmp(one, two, sizeof(one)) != 0);
	throw_all(&a, 4, FAULT_QP_ERROR, two);
	EXPECT(memcmp(one, two, sizeof(one)) != 0);
	throw_all(&a, 3, FAULT_RNR, two);
	EXPECT(memcmp(one, two, sizeof(one)) != 0);
}

static int throws_that_fall(struct fault_plan *p, enum fault fault)
{
	bool falls[THROWS];
	int n = 0;

	throw_all(p, 1, fault, falls);
	for (int i = 0; i < THROWS; i++)
		n += falls[i];
	return n;
}

TEST(test_faults_fall_as_often_as_the_plan_says)
{
	struct fault_plan p = plan_of("qp_error=0.1,rnr=1,post_full=0");
	int n = throws_that_fall(&p, FAULT_QP_ERROR);

	EXPECT(n > THROWS / 20 && n < THROWS / 5);
	EXPECT_EQ(throws_that_fall(&p, FAULT_RNR), THROWS);
	EXPECT_EQ(throws_that_fall(&p, FAULT_POST_FULL), 0);
}
