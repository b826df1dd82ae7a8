/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * docs/rio.md, "What a write promises", rule 2, with a disk that is stuck: OLD fails while it is at
 * the disk, NEW is acknowledged and flushed; from then on the block is NEW.
 */
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rio/cluster.h"

enum { LENGTH = 4096, MIB = 1 << 20 };

static struct cluster c;

/* ---- The disk: its next write can be made to wait ------------------------------------------- */

static pthread_mutex_t disk_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t disk_changed = PTHREAD_COND_INITIALIZER;
static enum { DISK_WELL, DISK_ARMED, DISK_STUCK, DISK_RELEASED } disk;

static void disk_set(int to)
{
	pthread_mutex_lock(&disk_lock);
	disk = to;
	pthread_cond_broadcast(&disk_changed);
	pthread_mutex_unlock(&disk_lock);
}

static bool disk_is(int state)
{
	bool is;

	pthread_mutex_lock(&disk_lock);
	is = (int)disk == state;
	pthread_mutex_unlock(&disk_lock);
	return is;
}

static void disk_await(int state)
{
	pthread_mutex_lock(&disk_lock);
	while ((int)disk != state)
		pthread_cond_wait(&disk_changed, &disk_lock);
	pthread_mutex_unlock(&disk_lock);
}

/* Instead of libc's, for the whole program: a file device with `threads` writes by it. */
ssize_t pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	bool is_caught = false;
	ssize_t n;

	pthread_mutex_lock(&disk_lock);
	if (disk == DISK_ARMED) {
		is_caught = true;
		disk = DISK_STUCK;
		pthread_cond_broadcast(&disk_changed);
		while (disk == DISK_STUCK)
			pthread_cond_wait(&disk_changed, &disk_lock);
	}
	pthread_mutex_unlock(&disk_lock);
	n = syscall(SYS_pwritev2, fd, iov, count, offset, 0L, flags);
	if (is_caught)
		disk_set(DISK_WELL);
	return n;
}

/* ---- Requests ------------------------------------------------------------------------------- */

struct user {
	struct weft_rio_requester *q;
	uint32_t device, tag;
	uint8_t bytes[LENGTH];
};

static void user_open(struct user *u, int nth, uint8_t byte)
{
	u->q = cluster_requester(&c, nth);
	u->device = cluster_device(u->q, "disk").number;
	u->tag = cluster_memory(u->q, u->bytes, LENGTH);
	memset(u->bytes, byte, LENGTH);
}

static void submit(struct user *u, uint64_t timeout_ns)
{
	const struct weft_rio_sge s = { .memory = u->bytes, .length = LENGTH, .tag = u->tag };
	const struct weft_rio_transaction t = { .operation = WEFT_RIO_WRITE,
						.device = u->device,
						.length = LENGTH,
						.sges = &s,
						.sge_count = 1 };

	REQUIRE(weft_rio_request_submit(
			u->q, &(struct weft_rio_request){ .transactions = &t,
							  .transaction_count = 1,
							  .timeout_ns = timeout_ns }) == WEFT_OK);
}

/* How it ended; WEFT_REASON_COUNT: it has not. */
static uint32_t ended(struct user *u, uint64_t wait_ns)
{
	struct weft_rio_result e;
	uint32_t count;

	REQUIRE(weft_rio_request_wait(u->q, wait_ns, &e, 1, &count) == WEFT_OK);
	return count ? e.reason : (uint32_t)WEFT_REASON_COUNT;
}

/* How it ended; WEFT_REASON_COUNT: it has not. */
static uint32_t old_is_at_the_disk(struct user *u, uint64_t timeout_ns)
{
	uint32_t reason = WEFT_REASON_COUNT;
	char text[CLUSTER_TEXT];

	cluster_file(text, MIB);
	strcat(text, ",threads");
	cluster_open(&c, text);
	user_open(u, 0, 0xaa);
	disk_set(DISK_ARMED);
	submit(u, timeout_ns);
	/*
	 * The requester must look at its adapter for the data to be fetched. Where the time is over
	 * before the data is at the disk, the machine was slow: it gets more of it.
	 */
	while (!disk_is(DISK_STUCK)) {
		reason = ended(u, SECONDS / 100);
		if (reason == WEFT_REASON_COUNT || disk_is(DISK_STUCK))
			continue;
		REQUIRE(reason == WEFT_R_RIO_TIMEOUT && timeout_ns < PATIENCE);
		timeout_ns *= 2;
		submit(u, timeout_ns);
	}
	return reason;
}

/* NEW is asked for while the disk is stuck, and acknowledged before that or after. */
static void new_stays(struct user *u)
{
	uint8_t now[LENGTH];
	uint32_t reason;

	submit(u, PATIENCE);
	reason = ended(u, SECONDS / 4);
	disk_set(DISK_RELEASED);
	if (reason == WEFT_REASON_COUNT)
		reason = ended(u, PATIENCE);
	EXPECT_EQ(reason, WEFT_OK);
	EXPECT_EQ(cluster_io(u->q, &(struct weft_rio_transaction){ .operation = WEFT_RIO_FLUSH,
								   .device = u->device }),
		  WEFT_OK);
	disk_await(DISK_WELL);
	cluster_file_read(c.store_text, 0, now, LENGTH);
	EXPECT(memcmp(now, u->bytes, LENGTH) == 0);
	memset(u->bytes, 0, LENGTH);
	EXPECT_EQ(cluster_read(u->q, (struct cluster_move){ .device = u->device,
							    .bytes = u->bytes,
							    .length = LENGTH,
							    .tag = u->tag }),
		  WEFT_OK);
	EXPECT(memcmp(now, u->bytes, LENGTH) == 0);
	cluster_close(&c);
	cluster_file_remove(c.store_text);
}

TEST(test_rio_02_a_write_that_timed_out_never_replaces_a_later_one)
{
	struct user u;
	uint32_t reason = old_is_at_the_disk(&u, SECONDS);

	if (reason == WEFT_REASON_COUNT)
		reason = ended(&u, PATIENCE);
	EXPECT_EQ(reason, WEFT_R_RIO_TIMEOUT);
	memset(u.bytes, 0xbb, LENGTH);
	new_stays(&u);
}

TEST(test_rio_03_a_write_of_a_requester_that_died_never_replaces_its_successors)
{
	struct user former, next;

	REQUIRE(old_is_at_the_disk(&former, PATIENCE) == WEFT_REASON_COUNT);
	cluster_close_requester(&c, 0);
	cluster_wait_note(&c, "left requester 7.1");
	user_open(&next, 1, 0xbb);
	new_stays(&next);
}

TEST(test_rio_03_a_write_of_a_former_owner_never_replaces_the_next_ones)
{
	struct user u;

	REQUIRE(old_is_at_the_disk(&u, PATIENCE) == WEFT_REASON_COUNT);
	cluster_stop_owner(&c);
	EXPECT_EQ(ended(&u, PATIENCE), WEFT_R_RIO_OWNER_LEFT);
	cluster_start_owner(&c);
	/* The I/O unit offers the device at once: only the block waits for the disk. */
	u.device = cluster_device(u.q, "disk").number;
	memset(u.bytes, 0xbb, LENGTH);
	new_stays(&u);
}
