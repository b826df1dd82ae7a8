/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Users of one requester, and writes that were lost (docs/rio.md, "What a write promises", rules 4
 * to 6): whatever the order of their flushes, each hears of the loss before a flush of it goes
 * well. The test plays the requester, so every order is one of nested calls.
 */
#include <string.h>

#include "compat/nbdkit/directed.h"
#include "roles/rio_loop.h"
#include "test.h"

/* What the requester knows: include/weft/rio.h, struct weft_rio_result. */
static uint64_t loss, reported;
static bool can_fua = true;
static uint64_t size_bytes;
/* Happens in the next request, in its middle: when it was asked, and has not ended. */
static void (*meanwhile)(void);
/* The reason of the next request. */
static enum weft_reason outcome;
static struct weft_rio_transaction asked[2];
static uint32_t asked_count;

static struct directed *d;
static struct directed_user a, b;

/* ---- The requester -------------------------------------------------------------------------- */

enum weft_reason weft_rio_requester_open(const struct weft_rio_self *self,
					 const struct weft_rio_requester_options *options,
					 struct weft_rio_requester **requester)
{
	static int one;

	(void)self;
	(void)options;
	*requester = (struct weft_rio_requester *)&one;
	return WEFT_OK;
}

void weft_rio_requester_close(struct weft_rio_requester *requester)
{
	(void)requester;
}

enum weft_reason weft_rio_device_find(struct weft_rio_requester *requester, const char *name,
				      uint64_t timeout_ns, struct weft_rio_device *device)
{
	(void)requester;
	(void)name;
	(void)timeout_ns;
	*device = (struct weft_rio_device){ .number = 1,
					    .block_bytes = 512,
					    .size_bytes = size_bytes,
					    .can_flush = true,
					    .can_fua = can_fua,
					    .loss = loss };
	return WEFT_OK;
}

enum weft_reason weft_rio_memory_add(struct weft_rio_requester *requester, void *memory,
				     uint64_t length, uint32_t *tag)
{
	(void)requester;
	(void)memory;
	(void)length;
	*tag = 1;
	return WEFT_OK;
}

enum weft_reason weft_rio_memory_remove(struct weft_rio_requester *requester, uint32_t tag)
{
	(void)requester;
	(void)tag;
	return WEFT_OK;
}

static bool is_flushing(const struct weft_rio_request *q)
{
	return q->transactions[q->transaction_count - 1].operation == WEFT_RIO_FLUSH;
}

enum weft_reason weft_rio_request_do(struct weft_rio_requester *requester,
				     const struct weft_rio_request *request,
				     struct weft_rio_result *ended)
{
	void (*now)(void) = meanwhile;
	uint64_t reported_before = reported;

	(void)requester;
	asked_count = request->transaction_count;
	memcpy(asked, request->transactions, asked_count * sizeof(asked[0]));
	*ended = (struct weft_rio_result){ .reason = outcome };
	outcome = WEFT_OK;
	if (is_flushing(request) && loss > reported) {
		ended->reason = WEFT_R_RIO_WRITES_LOST; /* it is not asked for */
	} else {
		meanwhile = NULL;
		if (now)
			now();
		if (is_flushing(request) && ended->reason == WEFT_OK && loss > reported_before)
			ended->reason = WEFT_R_RIO_WRITES_LOST;
	}
	if (is_flushing(request))
		ended->loss = loss;
	if (ended->reason == WEFT_R_RIO_WRITES_LOST)
		reported = loss;
	return ended->reason;
}

/* ---- Users ---------------------------------------------------------------------------------- */

static void begin(void)
{
	static const struct directed_config config = { .name = "disk" };

	loss = reported = 0;
	can_fua = true;
	size_bytes = 1 << 20;
	meanwhile = NULL;
	outcome = WEFT_OK;
	REQUIRE(directed_open(&config, &d) == WEFT_OK);
	REQUIRE(directed_user_init(d, &a) == WEFT_OK);
	REQUIRE(directed_user_init(d, &b) == WEFT_OK);
}

static void begin_without_fua(void)
{
	begin();
	can_fua = false;
	REQUIRE(directed_user_init(d, &a) == WEFT_OK);
	REQUIRE(directed_user_init(d, &b) == WEFT_OK);
}

static enum weft_reason act(struct directed_user *user, enum weft_rio_operation operation)
{
	static uint8_t block[512];
	const struct directed_request q = { .operation = operation,
					    .is_fua = operation != WEFT_RIO_FLUSH,
					    .memory = operation == WEFT_RIO_WRITE ? block : NULL,
					    .length = operation == WEFT_RIO_FLUSH ? 0 : 512 };
	struct weft_rio_result ended;

	return directed_do(d, user, &q, &ended);
}

static enum weft_reason flush(struct directed_user *user)
{
	return act(user, WEFT_RIO_FLUSH);
}

TEST(test_rio_05_every_user_hears_of_a_loss_once)
{
	begin();
	EXPECT_EQ(flush(&a), WEFT_OK);
	loss = 1;
	EXPECT_EQ(flush(&a), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(&a), WEFT_OK);
	EXPECT_EQ(flush(&b), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(&b), WEFT_OK);
	directed_close(d);
}

/* A device of the same name with another size is another one: its users must open it anew. */
TEST(test_rio_05_a_device_that_is_another_now_is_refused)
{
	begin();
	EXPECT_EQ(act(&a, WEFT_RIO_WRITE), WEFT_OK);
	size_bytes *= 2;
	EXPECT_EQ(act(&a, WEFT_RIO_WRITE), WEFT_R_RIO_DEVICE);
	EXPECT_EQ(flush(&a), WEFT_R_RIO_DEVICE);
	directed_close(d);
}

/* The requester tells A of the loss while it asks for the flush of B. */
static void a_hears_of_the_loss(void)
{
	loss = 1;
	EXPECT_EQ(flush(&a), WEFT_R_RIO_WRITES_LOST);
}

static void a_flushes(void)
{
	EXPECT_EQ(flush(&a), WEFT_R_RIO_WRITES_LOST);
}

TEST(test_rio_05_two_users_that_flush_at_once_both_hear_of_a_loss)
{
	/* Both were asked when the loss became known. */
	begin();
	meanwhile = a_hears_of_the_loss;
	EXPECT_EQ(flush(&b), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(&a), WEFT_OK);
	EXPECT_EQ(flush(&b), WEFT_OK);
	directed_close(d);
	/* The requester has told A, whose thread has not come back, when B asks. */
	begin();
	loss = reported = 1;
	meanwhile = a_flushes;
	EXPECT_EQ(flush(&b), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(&a), WEFT_OK);
	EXPECT_EQ(flush(&b), WEFT_OK);
	directed_close(d);
}

TEST(test_rio_05_two_flushes_of_one_user_at_once_both_fail)
{
	begin();
	loss = reported = 1; /* another user was told */
	meanwhile = a_flushes;
	EXPECT_EQ(flush(&a), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(&a), WEFT_OK);
	directed_close(d);
}

/* Rule 5: a flush that fails may be asked for again, so it must not hide the loss. */
TEST(test_rio_05_a_flush_that_fails_otherwise_tells_of_no_loss)
{
	begin();
	loss = reported = 1;
	outcome = WEFT_R_RIO_TIMEOUT;
	EXPECT_EQ(flush(&b), WEFT_R_RIO_TIMEOUT);
	EXPECT_EQ(flush(&b), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(&b), WEFT_OK);
	directed_close(d);
}

TEST(test_rio_05_a_user_that_comes_after_a_loss_has_lost_nothing)
{
	begin();
	loss = reported = 1;
	REQUIRE(directed_user_init(d, &b) == WEFT_OK);
	EXPECT_EQ(flush(&b), WEFT_OK);
	directed_close(d);
}

/* Rule 6: FUA says nothing of other writes: it does not fail for their loss, nor use it up. */
TEST(test_rio_05_fua_does_not_fail_for_the_loss_of_other_writes)
{
	begin();
	EXPECT_EQ(act(&a, WEFT_RIO_WRITE), WEFT_OK);
	EXPECT(asked_count == 1 && asked[0].is_fua);
	loss = 1;
	EXPECT_EQ(act(&a, WEFT_RIO_DISCARD), WEFT_OK);
	EXPECT(asked_count == 2 && !asked[0].is_fua);
	EXPECT_EQ(flush(&a), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(&a), WEFT_OK);
	EXPECT_EQ(flush(&b), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(&b), WEFT_OK);
	directed_close(d);
}

TEST(test_rio_05_fua_on_a_device_without_it_does_not_fail_for_the_loss_of_other_writes)
{
	begin_without_fua();
	EXPECT_EQ(act(&a, WEFT_RIO_WRITE), WEFT_OK);
	EXPECT(asked_count == 2 && !asked[0].is_fua && asked[1].operation == WEFT_RIO_FLUSH);
	loss = 1;
	EXPECT_EQ(act(&a, WEFT_RIO_WRITE), WEFT_OK);
	EXPECT(asked_count == 2 && !asked[0].is_fua && asked[1].operation == WEFT_RIO_FLUSH);
	EXPECT_EQ(flush(&a), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(&a), WEFT_OK);
	directed_close(d);
	/* It was asked for when the loss became known. */
	begin_without_fua();
	meanwhile = a_hears_of_the_loss;
	EXPECT_EQ(act(&b, WEFT_RIO_WRITE), WEFT_OK);
	EXPECT_EQ(flush(&b), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(&b), WEFT_OK);
	directed_close(d);
}
