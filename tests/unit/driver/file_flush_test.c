/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flushes of a file at the same time, when the disk fails (docs/store.md, "A flush that failed is
 * never forgotten"). The test plays the kernel: it reports an error once for each descriptor, and
 * can hold a call that has been told of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "driver/file/file_inside.h"
#include "test.h"
#include "unit/driver/kernel_call.h"
#include "unit/driver/store_run.h"

enum { BLOCK = 512, MIB = 1 << 20, DESCRIPTORS = 1024 };

/* ---- The kernel ----------------------------------------------------------------------------- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_ours;	 /* else calls go to the real one */
	bool is_failing; /* pages were not written; told once for each */
	bool has_reported[DESCRIPTORS];
	bool is_held;		 /* calls do not return, but for those that came before */
	uint32_t inside, synced; /* calls that are held; calls of fdatasync() so far */
} kernel = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* What a call that brings data to the disk comes to: 0 or an errno. Only the first is held. */
static int kernel_sync(int fd)
{
	int err = 0;

	if (kernel.is_failing && !kernel.has_reported[fd]) {
		kernel.has_reported[fd] = true;
		err = EIO;
	}
	if (!kernel.is_held || kernel.inside > 0)
		return err;
	kernel.inside++;
	pthread_cond_broadcast(&kernel.changed);
	while (kernel.is_held)
		pthread_cond_wait(&kernel.changed, &kernel.lock);
	kernel.inside--;
	return err;
}

void (*_Atomic kernel_call)(int fd);

static void run_hook(int fd)
{
	void (*call)(int fd) = kernel_call;

	if (call)
		call(fd);
}

/* Instead of libc's, for the whole program. */
int fdatasync(int fd)
{
	int err = -1;

	run_hook(fd);
	pthread_mutex_lock(&kernel.lock);
	if (kernel.is_ours) {
		kernel.synced++;
		err = kernel_sync(fd);
	}
	pthread_mutex_unlock(&kernel.lock);
	if (err < 0)
		return (int)syscall(SYS_fdatasync, fd);
	errno = err;
	return err == 0 ? 0 : -1;
}

ssize_t pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	int err = 0;

	run_hook(fd);
	pthread_mutex_lock(&kernel.lock);
	if (kernel.is_ours && (flags & RWF_DSYNC))
		err = kernel_sync(fd);
	pthread_mutex_unlock(&kernel.lock);
	if (err == 0)
		return syscall(SYS_pwritev2, fd, iov, count, offset, 0, flags);
	errno = err;
	return -1;
}

ssize_t preadv2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	run_hook(fd);
	return syscall(SYS_preadv2, fd, iov, count, offset, 0, flags);
}

/* Once, when a file has been opened by its name and claimed. */
static void (*at_flock)(void);

int flock(int fd, int operation)
{
	void (*call)(void) = at_flock;
	int result = (int)syscall(SYS_flock, fd, operation);

	at_flock = NULL;
	if (call)
		call();
	return result;
}

static void kernel_set(bool is_ours, bool is_failing, bool is_held)
{
	pthread_mutex_lock(&kernel.lock);
	kernel.is_ours = is_ours;
	kernel.is_failing = is_failing;
	for (int i = 0; i < DESCRIPTORS; i++)
		kernel.has_reported[i] = false;
	kernel.is_held = is_held;
	kernel.synced = 0;
	pthread_mutex_unlock(&kernel.lock);
}

static void kernel_await_inside(void)
{
	pthread_mutex_lock(&kernel.lock);
	while (kernel.inside == 0)
		pthread_cond_wait(&kernel.changed, &kernel.lock);
	pthread_mutex_unlock(&kernel.lock);
}

static void kernel_release(void)
{
	pthread_mutex_lock(&kernel.lock);
	kernel.is_held = false;
	pthread_cond_broadcast(&kernel.changed);
	pthread_mutex_unlock(&kernel.lock);
}

/* ---- The device ----------------------------------------------------------------------------- */

static char folder[64], path[96];
static struct file_store *file;
static struct store_run run;

static void reopen(void)
{
	const struct file_store_config c = { .path = path,
					     .size_bytes = MIB,
					     .engine = STORE_ENGINE_THREADS };
	struct store *s = NULL;
	int error;

	REQUIRE(file_store_open(&c, &s, &error) == WEFT_OK);
	file = CONTAINER_OF(s, struct file_store, store);
	run = (struct store_run){ s, file_store_descriptor(s), 0 };
}

static void begin(void)
{
	store_folder_make(folder);
	snprintf(path, sizeof(path), "%s/disk", folder);
	reopen();
}

static void end(void)
{
	kernel_set(false, false, false);
	store_destroy(run.store);
	store_folder_remove(folder);
}

static void submit(struct store_request *r)
{
	REQUIRE(store_submit(run.store, r, 0) == WEFT_OK);
}

/* Flushes that wait for one that is under way. */
static uint32_t waiting_now(void)
{
	uint32_t waiting;

	pthread_mutex_lock(&file->sync.lock);
	waiting = file->sync.waiting;
	pthread_mutex_unlock(&file->sync.lock);
	return waiting;
}

/* So many flushes wait for one that is under way, or one more has ended instead: NULL, or that. */
static struct store_request *await_waiting(uint32_t count)
{
	struct store_request *done = NULL;
	uint64_t begin_ms = store_run_clock();

	while (!done && waiting_now() < count) {
		REQUIRE(store_run_may_wait(begin_ms));
		sched_yield();
		done = store_next_done(run.store, 0);
	}
	return done;
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static enum weft_reason flush_now(int *error)
{
	struct store_request r = { .op = STORE_FLUSH };

	(void)store_run_one(&run, &r);
	*error = r.error;
	return r.reason;
}

TEST(test_file_store_failed_flush_is_never_forgotten)
{
	int error;

	begin();
	kernel_set(true, false, false);
	EXPECT_EQ(flush_now(&error), WEFT_OK);
	kernel_set(true, true, false);
	EXPECT_EQ(flush_now(&error), WEFT_R_STORE_LOST);
	EXPECT_EQ(error, EIO);
	kernel_set(true, false, false);
	EXPECT_EQ(flush_now(&error), WEFT_R_STORE_LOST);
	EXPECT_EQ(error, EIO);
	end();
}

TEST(test_file_store_fua_that_did_not_reach_the_disk_is_a_failed_flush)
{
	struct store_request w = { .op = STORE_WRITE };
	int error;

	begin();
	file_write_failed(file, &w, EIO);
	w.flags = STORE_FUA;
	file_write_failed(file, &w, 0);
	file_write_failed(file, &w, ENOSPC);
	EXPECT_EQ(flush_now(&error), WEFT_OK);
	file_write_failed(file, &w, EIO);
	EXPECT_EQ(flush_now(&error), WEFT_R_STORE_LOST);
	end();
}

/* The next process must not take it for the file that kept its writes. */
TEST(test_rio_05_a_file_that_was_not_flushed_is_another_from_then_on)
{
	struct store_request w = { .op = STORE_WRITE, .flags = STORE_FUA };
	struct file_identity id[4];
	int error;

	begin();
	REQUIRE(file_store_identity(run.store, &id[0]));
	EXPECT_EQ(flush_now(&error), WEFT_OK);
	REQUIRE(file_store_identity(run.store, &id[1]));
	EXPECT(memcmp(&id[0], &id[1], sizeof(id[0])) == 0);
	kernel_set(true, true, false);
	EXPECT_EQ(flush_now(&error), WEFT_R_STORE_LOST);
	kernel_set(false, false, false);
	store_destroy(run.store);
	reopen();
	REQUIRE(file_store_identity(run.store, &id[2]));
	EXPECT(id[1].mark != id[2].mark);
	file_write_failed(file, &w, EIO);
	store_destroy(run.store);
	reopen();
	REQUIRE(file_store_identity(run.store, &id[3]));
	EXPECT(id[2].mark != id[3].mark);
	end();
}

/* The one that the kernel does not tell must not say yes, before the other has said no or after. */
TEST(test_store_of_two_flushes_at_once_none_hides_a_failure)
{
	struct store_request first = { .op = STORE_FLUSH }, second = { .op = STORE_FLUSH };

	begin();
	kernel_set(true, true, true);
	submit(&first);
	kernel_await_inside();
	submit(&second);
	EXPECT(await_waiting(1) == NULL);
	kernel_release();
	(void)store_run_wait(&run);
	(void)store_run_wait(&run);
	EXPECT_EQ(first.reason, WEFT_R_STORE_LOST);
	EXPECT_EQ(second.reason, WEFT_R_STORE_LOST);
	EXPECT_EQ(store_run_op(&run, STORE_FLUSH, 0, NULL, 0), WEFT_R_STORE_LOST);
	end();
}

/* It is told of what others had written, and a flush asks while it has not come back. */
TEST(test_store_a_failed_fua_write_takes_no_report_from_a_flush)
{
	uint8_t block[BLOCK] = { 1 };
	struct span span = { block, sizeof(block) };
	struct store_request write = { .op = STORE_WRITE,
				       .flags = STORE_FUA,
				       .length = BLOCK,
				       .spans = &span,
				       .span_count = 1 };
	struct store_request flush = { .op = STORE_FLUSH };

	begin();
	kernel_set(true, true, true);
	submit(&write);
	kernel_await_inside();
	submit(&flush);
	EXPECT(store_run_wait(&run) == &flush);
	EXPECT_EQ(flush.reason, WEFT_R_STORE_LOST);
	kernel_release();
	EXPECT(store_run_wait(&run) == &write);
	EXPECT_EQ(write.reason, WEFT_R_STORE_IO);
	end();
}

/* What came while one was under way is not covered by it, and shares the next. */
TEST(test_store_flushes_that_wait_share_one_sync)
{
	struct store_request flushes[5];

	begin();
	kernel_set(true, false, true);
	for (int i = 0; i < 5; i++) {
		flushes[i] = (struct store_request){ .op = STORE_FLUSH };
		submit(&flushes[i]);
		if (i == 0)
			kernel_await_inside();
		else
			EXPECT(await_waiting((uint32_t)i) == NULL);
	}
	EXPECT_EQ(kernel.synced, 1);
	kernel_release();
	for (int i = 0; i < 5; i++)
		EXPECT_EQ(store_run_wait(&run)->reason, WEFT_OK);
	EXPECT_EQ(kernel.synced, 2);
	end();
}

/* ---- Which file ----------------------------------------------------------------------------- */

static _Atomic ino_t synced_inode;

static void inode_see(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0)
		synced_inode = st.st_ino;
}

static ino_t inode_of(const char *name)
{
	struct stat st;

	REQUIRE(stat(name, &st) == 0);
	return st.st_ino;
}

/* The file gets another name, and another file of the same size its own. */
static void names_change(void)
{
	char other[112];
	int fd;

	snprintf(other, sizeof(other), "%s.old", path);
	REQUIRE(rename(path, other) == 0);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	REQUIRE(fd >= 0);
	REQUIRE(ftruncate(fd, MIB) == 0);
	close(fd);
}

static void expect_flush_of(ino_t inode)
{
	synced_inode = 0;
	kernel_call = inode_see;
	EXPECT_EQ(store_run_op(&run, STORE_FLUSH, 0, NULL, 0), WEFT_OK);
	kernel_call = NULL;
	EXPECT_EQ(synced_inode, inode);
	EXPECT(inode_of(path) != inode);
}

/* A sync is of the file that is open, also when another one has its name. */
TEST(test_store_a_file_that_is_renamed_is_still_flushed)
{
	ino_t inode;

	begin();
	inode = inode_of(path);
	names_change();
	expect_flush_of(inode);
	end();
}

TEST(test_store_a_file_that_is_renamed_while_it_is_opened_is_still_flushed)
{
	ino_t inode;

	begin();
	inode = inode_of(path);
	store_destroy(run.store);
	at_flock = names_change;
	reopen();
	EXPECT(!at_flock);
	expect_flush_of(inode);
	end();
}

/* Where there is no /proc: the name, if it is still that of the file. */
TEST(test_store_a_sync_by_name_is_of_the_same_file_or_refused)
{
	struct file_store_config c = { .path = path };
	int fd;

	begin();
	fd = file_sync_by_name(file->fd, &c);
	EXPECT(fd >= 0 && fd != file->fd);
	inode_see(fd);
	close(fd);
	EXPECT_EQ(synced_inode, inode_of(path));
	names_change();
	EXPECT_EQ(file_sync_by_name(file->fd, &c), -ESTALE);
	/* Opening a pipe to read it would wait for a process that writes. */
	REQUIRE(unlink(path) == 0);
	EXPECT_EQ(file_sync_by_name(file->fd, &c), -ENOENT);
	REQUIRE(mkfifo(path, 0600) == 0);
	c.is_readonly = true;
	EXPECT_EQ(file_sync_by_name(file->fd, &c), -ESTALE);
	end();
}
