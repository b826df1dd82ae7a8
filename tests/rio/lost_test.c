/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * docs/rio.md, "What a write promises", rules 4 to 6: an I/O unit that comes back without what it
 * had acknowledged, and one that has it still.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rio/cluster.h"

enum { LENGTH = 4096, MIB = 1 << 20 };

static struct cluster c;

/* The next flush of a file fails; the kernel says that once. */
static atomic_bool is_disk_failing;

/* Instead of libc's, for the whole program. */
int fdatasync(int fd)
{
	if (atomic_exchange(&is_disk_failing, false)) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

struct user {
	struct weft_rio_requester *q;
	uint32_t tag;
	uint8_t bytes[LENGTH];
};

static void user_open(struct user *u, int nth)
{
	u->q = cluster_requester(&c, nth);
	u->tag = cluster_memory(u->q, u->bytes, LENGTH);
	cluster_fill(u->bytes, LENGTH, (uint8_t)nth);
}

/* The number is looked up each time: after a loss it is another one. */
static enum weft_reason write_block(struct user *u, bool is_fua)
{
	const struct weft_rio_sge s = { .memory = u->bytes, .length = LENGTH, .tag = u->tag };

	return cluster_io(
		u->q, &(struct weft_rio_transaction){ .operation = WEFT_RIO_WRITE,
						      .is_fua = is_fua,
						      .device = cluster_device(u->q, "disk").number,
						      .length = LENGTH,
						      .sges = &s,
						      .sge_count = 1 });
}

static enum weft_reason flush(struct user *u)
{
	return cluster_io(u->q, &(struct weft_rio_transaction){
					.operation = WEFT_RIO_FLUSH,
					.device = cluster_device(u->q, "disk").number });
}

/* The requester has heard that the device is not there. */
static void await_gone(struct user *u)
{
	struct weft_rio_device d;
	struct weft_rio_result e;
	uint32_t count;

	while (weft_rio_device_find(u->q, "disk", 0, &d) == WEFT_OK)
		REQUIRE(weft_rio_request_wait(u->q, SECONDS / 100, &e, 1, &count) == WEFT_OK);
}

/* Nothing is under way meanwhile. */
static void unit_comes_back(struct user *users, int count)
{
	cluster_stop_iounit(&c, 0);
	for (int i = 0; i < count; i++)
		await_gone(&users[i]);
	cluster_start_iounit(&c, 0);
}

TEST(test_rio_05_the_first_flush_after_a_loss_fails_once_for_each_requester)
{
	static struct user users[3];

	cluster_open(&c, "mem:1M");
	for (int i = 0; i < 3; i++)
		user_open(&users[i], i);
	EXPECT_EQ(write_block(&users[0], false), WEFT_OK);
	EXPECT_EQ(write_block(&users[1], false), WEFT_OK);
	EXPECT_EQ(write_block(&users[2], false), WEFT_OK);
	EXPECT_EQ(flush(&users[2]), WEFT_OK); /* and its own is covered */
	unit_comes_back(users, 3);
	EXPECT_EQ(write_block(&users[0], true), WEFT_OK); /* by itself, as it says */
	EXPECT_EQ(flush(&users[0]), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(&users[0]), WEFT_OK);
	EXPECT_EQ(write_block(&users[1], false), WEFT_OK);
	EXPECT_EQ(flush(&users[1]), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(&users[1]), WEFT_OK);
	EXPECT_EQ(flush(&users[2]), WEFT_OK);
	/* With nothing written since, nothing can be lost. */
	unit_comes_back(users, 3);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(flush(&users[i]), WEFT_OK);
	cluster_close(&c);
}

/* What is in the page cache outlives the process. */
TEST(test_rio_05_a_file_that_is_opened_again_has_lost_nothing)
{
	static struct user user;
	char text[CLUSTER_TEXT];

	cluster_file(text, MIB);
	cluster_open(&c, text);
	user_open(&user, 0);
	EXPECT_EQ(write_block(&user, false), WEFT_OK);
	unit_comes_back(&user, 1);
	EXPECT_EQ(flush(&user), WEFT_OK);
	cluster_close(&c);
	cluster_file_remove(text);
}

/* The kernel takes what it could not write for written: only the I/O unit knew. */
TEST(test_rio_05_a_failed_flush_is_a_loss_also_when_the_unit_comes_back)
{
	static struct user users[2];
	char text[CLUSTER_TEXT];

	cluster_file(text, MIB);
	cluster_open(&c, text);
	for (int i = 0; i < 2; i++) {
		user_open(&users[i], i);
		EXPECT_EQ(write_block(&users[i], false), WEFT_OK);
	}
	atomic_store(&is_disk_failing, true);
	EXPECT_EQ(flush(&users[0]), WEFT_R_STORE_LOST);
	EXPECT_EQ(flush(&users[0]), WEFT_R_STORE_LOST);
	unit_comes_back(users, 2);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(flush(&users[i]), WEFT_R_RIO_WRITES_LOST);
		EXPECT_EQ(write_block(&users[i], false), WEFT_OK);
	}
	/* It has come back as a device that is well. */
	unit_comes_back(users, 2);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(flush(&users[i]), WEFT_OK);
	cluster_close(&c);
	cluster_file_remove(text);
}

/* File systems give a new file the inode of one that is gone. */
TEST(test_rio_05_another_file_of_the_same_name_is_another_device)
{
	static struct user user;
	char text[CLUSTER_TEXT];

	cluster_file(text, MIB);
	cluster_open(&c, text);
	user_open(&user, 0);
	EXPECT_EQ(write_block(&user, false), WEFT_OK);
	cluster_stop_iounit(&c, 0);
	await_gone(&user);
	cluster_file_remove(text);
	cluster_start_iounit(&c, 0);
	EXPECT_EQ(flush(&user), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(&user), WEFT_OK);
	cluster_close(&c);
	cluster_file_remove(text);
}

/* A new owner gives the device the number that it had; the requester knows better. */
TEST(test_rio_05_a_loss_is_reported_although_the_owner_is_another)
{
	static struct user user;

	cluster_open(&c, "mem:1M");
	user_open(&user, 0);
	EXPECT_EQ(write_block(&user, false), WEFT_OK);
	cluster_stop_owner(&c);
	await_gone(&user);
	cluster_stop_iounit(&c, 0);
	cluster_start_iounit(&c, 0);
	cluster_start_owner(&c);
	EXPECT_EQ(flush(&user), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(flush(&user), WEFT_OK);
	cluster_close(&c);
}

/* Two users of one requester: the one that is not told sees it by the number of the loss. */
TEST(test_rio_05_a_flush_that_goes_well_says_which_loss_was_the_last)
{
	static struct user user;
	struct weft_rio_transaction t = { .operation = WEFT_RIO_FLUSH };
	const struct weft_rio_request q = { .transactions = &t, .transaction_count = 1 };
	struct weft_rio_result notified, done;

	cluster_open(&c, "mem:1M");
	user_open(&user, 0);
	EXPECT_EQ(cluster_device(user.q, "disk").loss, 0);
	EXPECT_EQ(write_block(&user, false), WEFT_OK);
	unit_comes_back(&user, 1);
	t.device = cluster_device(user.q, "disk").number;
	EXPECT_EQ(cluster_device(user.q, "disk").loss, 1);
	EXPECT_EQ(weft_rio_request_do(user.q, &q, &notified), WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(notified.reason, WEFT_R_RIO_WRITES_LOST);
	EXPECT_EQ(notified.loss, 1);
	EXPECT_EQ(weft_rio_request_do(user.q, &q, &done), WEFT_OK);
	EXPECT_EQ(done.loss, 1);
	cluster_close(&c);
}

/* So is a flush that was submitted: it ends, though it was refused at once. */
TEST(test_rio_05_a_submitted_flush_ends_with_the_number_of_the_loss)
{
	static struct user user;
	struct weft_rio_transaction t = { .operation = WEFT_RIO_FLUSH };
	const struct weft_rio_request q = { .transactions = &t,
					    .transaction_count = 1,
					    .context = &user };
	static const enum weft_reason reasons[] = { WEFT_R_RIO_WRITES_LOST, WEFT_OK };
	struct weft_rio_result ended[2];
	uint32_t count;

	cluster_open(&c, "mem:1M");
	user_open(&user, 0);
	EXPECT_EQ(write_block(&user, false), WEFT_OK);
	unit_comes_back(&user, 1);
	t.device = cluster_device(user.q, "disk").number;
	for (int i = 0; i < 2; i++) {
		REQUIRE(weft_rio_request_submit(user.q, &q) == WEFT_OK);
		REQUIRE(weft_rio_request_wait(user.q, 30 * SECONDS, ended, 2, &count) == WEFT_OK);
		REQUIRE(count == 1);
		EXPECT_EQ(ended[0].reason, reasons[i]);
		EXPECT_EQ(ended[0].loss, 1);
		EXPECT(ended[0].context == &user);
	}
	cluster_close(&c);
}
