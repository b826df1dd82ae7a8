/* SPDX-License-Identifier: BSD-2-Clause */
/* Files as devices where the system sets limits, and when the program is killed. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/loop.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/prng.h"
#include "driver/file/file_store.h"
#include "test.h"
#include "unit/driver/store_run.h"

enum { CHILD_WELL = 0, CHILD_SKIP = 77 };

static char folder[64], path[96];

static void bed_init(void)
{
	store_folder_make_on_disk(folder);
	snprintf(path, sizeof(path), "%s/disk", folder);
}

/* Runs it in a process of its own; the line where it failed, CHILD_WELL or CHILD_SKIP. */
static int in_child(int (*run)(void))
{
	pid_t pid = fork();
	int status;

	REQUIRE(pid >= 0);
	if (pid == 0)
		_exit(run());
	REQUIRE(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* In a child, where a test cannot fail: leaves with a number for each place. */
#define OR_LEAVE(number, condition)                                                                \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return number;                                                             \
	} while (0)

static enum weft_reason open_file(const struct file_store_config *c, struct store_run *run,
				  int *error)
{
	enum weft_reason reason = file_store_open(c, &run->store, error);

	if (reason == WEFT_OK) {
		run->fd = file_store_descriptor(run->store);
		run->now_ns = 0;
	}
	return reason;
}

/* ---- A full file system --------------------------------------------------------------------- */

static int full_child(void)
{
	static uint8_t bytes[64 * 1024], back[64 * 1024];
	struct file_store_config c = { .path = path, .size_bytes = 64 << 20 };
	struct store_request r;
	struct span span = { bytes, sizeof(bytes) };
	struct store_run run;
	uint64_t at = 0;
	int error;

	if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return CHILD_SKIP;
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("weft", folder, "tmpfs", 0, "size=1m") < 0)
		return CHILD_SKIP;
	for (int engine = STORE_ENGINE_AUTO; engine <= STORE_ENGINE_THREADS; engine += 2) {
		c.engine = (enum store_engine)engine;
		OR_LEAVE(1, open_file(&c, &run, &error) == WEFT_OK);
		for (at = 0; at < 32; at++) {
			memset(bytes, (int)at + 1, sizeof(bytes));
			r = (struct store_request){ .op = STORE_WRITE,
						    .offset = at * sizeof(bytes),
						    .length = sizeof(bytes),
						    .spans = &span,
						    .span_count = 1 };
			if (store_run_one(&run, &r) != WEFT_OK)
				break;
		}
		/* Some of it, not all; and what was written is there. */
		OR_LEAVE(2, at > 8 && at <= 16);
		OR_LEAVE(3, r.reason == WEFT_R_STORE_FULL && r.error == ENOSPC);
		OR_LEAVE(4, store_run_op(&run, STORE_FLUSH, 0, NULL, 0) == WEFT_OK);
		for (uint64_t n = 0; n < at; n++) {
			memset(bytes, (int)n + 1, sizeof(bytes));
			OR_LEAVE(5, store_run_op(&run, STORE_READ, n * sizeof(back), back,
						 sizeof(back)) == WEFT_OK);
			OR_LEAVE(6, memcmp(bytes, back, sizeof(back)) == 0);
		}
		/* Discarding makes room. */
		OR_LEAVE(7, store_run_op(&run, STORE_DISCARD, 0, NULL, 64 << 20) == WEFT_OK);
		OR_LEAVE(8, store_run_one(&run, &r) == WEFT_OK);
		OR_LEAVE(9, store_run_op(&run, STORE_DISCARD, 0, NULL, 64 << 20) == WEFT_OK);
		store_destroy(run.store);
	}
	return CHILD_WELL;
}

TEST(test_file_store_full_file_system_is_a_reason)
{
	int status;

	bed_init();
	status = in_child(full_child);
	store_folder_remove(folder);
	if (status == CHILD_SKIP)
		SKIP("a file system of its own cannot be mounted here");
	EXPECT_EQ(status, CHILD_WELL);
}

static int limit_child(void)
{
	struct file_store_config c = { .path = path, .size_bytes = 2 << 20 };
	struct rlimit limit = { 1 << 20, 1 << 20 };
	struct store_run run;
	struct stat st;
	int error;

	OR_LEAVE(1, open_file(&c, &run, &error) == WEFT_OK);
	store_destroy(run.store);
	OR_LEAVE(2, setrlimit(RLIMIT_FSIZE, &limit) == 0);
	/* What is there cannot be written to its end; a signal would end us here. */
	OR_LEAVE(3, open_file(&c, &run, &error) == WEFT_R_STORE_FULL && error == EFBIG);
	c.is_readonly = true;
	OR_LEAVE(4, open_file(&c, &run, &error) == WEFT_OK);
	store_destroy(run.store);
	OR_LEAVE(5, unlink(path) == 0);
	c.is_readonly = false;
	OR_LEAVE(6, open_file(&c, &run, &error) == WEFT_R_STORE_FULL && error == EFBIG);
	OR_LEAVE(7, stat(path, &st) < 0 && errno == ENOENT);
	return CHILD_WELL;
}

TEST(test_file_store_beyond_the_limit_of_files_is_refused_before)
{
	int status;

	bed_init();
	status = in_child(limit_child);
	store_folder_remove(folder);
	EXPECT_EQ(status, CHILD_WELL);
}

/* ---- No io_uring ---------------------------------------------------------------------------- */

/* As container engines do it. */
static bool forbid_uring(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 4, .filter = code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int forbidden_child(void)
{
	struct file_store_config c = { .path = path, .size_bytes = 1 << 20 };
	uint8_t bytes[512] = { 1 };
	struct store_run run;
	int error;

	if (!forbid_uring())
		return CHILD_SKIP;
	c.engine = STORE_ENGINE_URING;
	OR_LEAVE(1, open_file(&c, &run, &error) == WEFT_R_STORE_UNSUPPORTED);
	OR_LEAVE(2, error == EPERM || error == ENOSYS);
	c.engine = STORE_ENGINE_AUTO;
	OR_LEAVE(3, open_file(&c, &run, &error) == WEFT_OK);
	OR_LEAVE(4, !file_store_facts(run.store).is_uring);
	OR_LEAVE(5, store_run_op(&run, STORE_WRITE, 0, bytes, 512) == WEFT_OK);
	store_destroy(run.store);
	return CHILD_WELL;
}

TEST(test_file_store_does_without_io_uring_where_it_is_forbidden)
{
	int status;

	bed_init();
	status = in_child(forbidden_child);
	store_folder_remove(folder);
	if (status == CHILD_SKIP)
		SKIP("system calls cannot be forbidden here");
	EXPECT_EQ(status, CHILD_WELL);
}

/* ---- Killed --------------------------------------------------------------------------------- */

enum { KILL_BLOCKS = 64, KILL_ROUNDS = 12, PATTERN_WORDS = 512 / 8 };

struct ack {
	uint64_t block, value;
};

static void pattern(uint64_t *words, uint64_t block, uint64_t value)
{
	for (int i = 0; i < PATTERN_WORDS; i++)
		words[i] = prng_mix(block * 1000003 + value) + (uint64_t)i;
}

/* Writes for ever, by FUA or with a flush, and says what it knows to be safe. */
static void write_until_killed(const struct file_store_config *c, uint64_t value, int fd)
{
	struct prng prng = { value };
	uint64_t words[PATTERN_WORDS];
	struct span span = { (uint8_t *)words, sizeof(words) };
	struct store_run run;
	int error;

	if (open_file(c, &run, &error) != WEFT_OK)
		_exit(1);
	for (;; value++) {
		struct ack ack = { prng_below(&prng, KILL_BLOCKS), value };
		bool is_fua = prng_below(&prng, 2);
		struct store_request w = { .op = STORE_WRITE,
					   .flags = is_fua ? STORE_FUA : 0,
					   .offset = ack.block * sizeof(words),
					   .length = sizeof(words),
					   .spans = &span,
					   .span_count = 1 };

		pattern(words, ack.block, value);
		if (store_run_one(&run, &w) != WEFT_OK)
			_exit(2);
		if (!is_fua && store_run_op(&run, STORE_FLUSH, 0, NULL, 0) != WEFT_OK)
			_exit(3);
		if (write(fd, &ack, sizeof(ack)) != sizeof(ack))
			_exit(4);
	}
}

/* A block holds what was acknowledged last, or what came after that, up to a last value. */
static void check_blocks(const struct file_store_config *c, const uint64_t *acked, uint64_t last)
{
	uint64_t words[PATTERN_WORDS], expected[PATTERN_WORDS];
	struct store_run run;
	int error;

	REQUIRE(open_file(c, &run, &error) == WEFT_OK);
	for (uint64_t b = 0; b < KILL_BLOCKS; b++) {
		bool is_found = false;

		if (acked[b] == 0)
			continue;
		REQUIRE(store_run_op(&run, STORE_READ, b * sizeof(words), words, sizeof(words)) ==
			WEFT_OK);
		for (uint64_t value = acked[b]; value <= last && !is_found; value++) {
			pattern(expected, b, value);
			is_found = memcmp(words, expected, sizeof(words)) == 0;
		}
		REQUIRE(is_found);
	}
	store_destroy(run.store);
}

TEST(test_file_store_acknowledged_writes_survive_a_kill)
{
	uint64_t acked[KILL_BLOCKS] = { 0 }, next = 1;
	struct prng prng = { 42 };

	bed_init();
	for (uint64_t round = 1; round <= KILL_ROUNDS; round++) {
		struct file_store_config c = { .path = path,
					       .size_bytes = KILL_BLOCKS * 512,
					       .wait_ns = 20 * UINT64_C(1000000000) };
		uint32_t acks = 1 + prng_below(&prng, 40);
		int ends[2], status;
		struct ack ack;
		pid_t pid;

		c.engine = round % 2 ? STORE_ENGINE_THREADS : STORE_ENGINE_AUTO;
		REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
		pid = fork();
		REQUIRE(pid >= 0);
		if (pid == 0)
			write_until_killed(&c, next, ends[1]);
		close(ends[1]);
		for (uint32_t i = 0; i < acks; i++) {
			REQUIRE(read(ends[0], &ack, sizeof(ack)) == sizeof(ack));
			acked[ack.block] = ack.value;
		}
		REQUIRE(kill(pid, SIGKILL) == 0);
		REQUIRE(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
		/* What it said before it died counts too. */
		while (read(ends[0], &ack, sizeof(ack)) == sizeof(ack))
			acked[ack.block] = ack.value;
		close(ends[0]);
		/* One more may have been written. */
		check_blocks(&c, acked, ack.value + 1);
		next = ack.value + 2;
	}
	store_folder_remove(folder);
}

/* ---- Block devices -------------------------------------------------------------------------- */

/* A loop device on a file of 8 MiB: a descriptor that keeps it, or -1. */
static int loop_make(uint32_t block, char name[32])
{
	struct loop_config c = { .block_size = block, .info.lo_flags = LO_FLAGS_AUTOCLEAR };
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), number, fd, err;

	if (control < 0)
		return -1;
	number = ioctl(control, LOOP_CTL_GET_FREE);
	close(control);
	snprintf(name, 32, "/dev/loop%d", number);
	fd = number < 0 ? -1 : open(name, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	c.fd = (uint32_t)open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	err = ftruncate((int)c.fd, 8 << 20) < 0 || ioctl(fd, LOOP_CONFIGURE, &c) < 0;
	close((int)c.fd);
	if (!err)
		return fd;
	close(fd);
	return -1;
}

static void check_block_device(struct store_run *run, uint32_t block)
{
	static uint8_t out[65536 + 8], in[65536];
	struct span span = { out + 8, 65536 };
	struct store_request w = { STORE_WRITE, STORE_FUA, 65536, 65536, &span, 1, 0, 0, { 0 }, 0 };

	EXPECT_EQ(run->store->shape.size_bytes, 8 << 20);
	EXPECT_EQ(run->store->shape.block_bytes, block);
	EXPECT(file_store_facts(run->store).is_block_device);
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (uint8_t)(i * 13 + 1);
	EXPECT_EQ(store_run_one(run, &w), WEFT_OK);
	EXPECT_EQ(store_run_op(run, STORE_READ, 65536, in, 65536), WEFT_OK);
	EXPECT_MEM(in, out + 8, 65536);
	EXPECT_EQ(store_run_op(run, STORE_WRITE_ZEROES, 65536 + block, NULL, block), WEFT_OK);
	EXPECT_EQ(store_run_op(run, STORE_READ, 65536, in, 65536), WEFT_OK);
	memset(out + 8 + block, 0, block);
	EXPECT_MEM(in, out + 8, 65536);
	EXPECT_EQ(store_run_op(run, STORE_DISCARD, 0, NULL, 8 << 20), WEFT_OK);
	EXPECT_EQ(store_run_op(run, STORE_FLUSH, 0, NULL, 0), WEFT_OK);
	EXPECT_EQ(store_run_op(run, STORE_READ, (8 << 20) - block, in, 2 * block),
		  WEFT_R_STORE_RANGE);
}

TEST(test_file_store_block_devices)
{
	static const uint32_t blocks[] = { 512, 4096 };

	for (int i = 0; i < 8; i++) {
		struct file_store_config c = { 0 };
		struct store_run run, second;
		char name[32];
		int fd, error;

		bed_init();
		fd = loop_make(blocks[i % 2], name);
		if (fd < 0) {
			(void)unlink(path);
			store_folder_remove(folder);
			SKIP("there are no loop devices to be had here");
		}
		c.path = name;
		c.is_direct = i / 2 % 2;
		c.engine = i / 4 ? STORE_ENGINE_THREADS : STORE_ENGINE_AUTO;
		EXPECT_EQ(open_file(&c, &run, &error), WEFT_OK);
		EXPECT_EQ(file_store_facts(run.store).is_direct, c.is_direct);
		EXPECT_EQ(open_file(&c, &second, &error), WEFT_R_STORE_IN_USE);
		check_block_device(&run, blocks[i % 2]);
		store_destroy(run.store);
		c.block_bytes = 512;
		EXPECT_EQ(open_file(&c, &run, &error),
			  blocks[i % 2] == 512 ? WEFT_OK : WEFT_R_STORE_BLOCK);
		if (blocks[i % 2] == 512)
			store_destroy(run.store);
		close(fd);
		store_folder_remove(folder);
	}
}
