/* SPDX-License-Identifier: BSD-2-Clause */
/* Mirrors of files: processes that are killed, members that were left out, are missing or new. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/mirror_area.h"
#include "test.h"
#include "unit/driver/store_run.h"
#include "unit/store/mirror_look.h"

enum { BLOCK = 512, SIZE = 64 * 1024 };

static char folder[64];

/* The text may have @ for the folder of the files. */
static void expand(char text[400], const char *format)
{
	char *at = text;

	for (; *format; format++) {
		if (*format == '@')
			at += snprintf(at, 64, "%s", folder);
		else
			*at++ = *format;
	}
	*at = '\0';
}

static struct device *opened(const char *format, struct store_run *run)
{
	struct device_refusal why;
	struct device *d;
	char text[400];

	expand(text, format);
	if (device_open(text, &d, &why) != WEFT_OK)
		fprintf(stderr, "%s\n", why.text);
	REQUIRE(why.reason == WEFT_OK);
	*run = (struct store_run){ device_store(d), device_descriptor(d), 0 };
	return d;
}

static enum weft_reason refusal(const char *format, struct device_refusal *why)
{
	struct device *d;
	char text[400];

	expand(text, format);
	if (device_open(text, &d, why) == WEFT_OK)
		device_close(d);
	return why->reason;
}

static enum weft_reason put(struct store_run *run, uint64_t block, int value)
{
	uint8_t bytes[BLOCK];

	memset(bytes, value, sizeof(bytes));
	return store_run_op(run, STORE_WRITE, block * BLOCK, bytes, BLOCK);
}

static int get(struct store_run *run, uint64_t block)
{
	uint8_t bytes[BLOCK] = { 0 };

	/* What the mirror does by itself begins when it is due. */
	if (store_due(run->store) <= run->now_ns)
		store_expire(run->store, run->now_ns);
	REQUIRE(store_run_op(run, STORE_READ, block * BLOCK, bytes, BLOCK) == WEFT_OK);
	return bytes[0];
}

/* The same value from whichever member is asked: as often as each has several turns. */
static int get_one_value(struct store_run *run, uint64_t block)
{
	int value = get(run, block);

	for (int i = 0; i < 5; i++)
		REQUIRE(get(run, block) == value);
	return value;
}

/* Until no member is behind. */
static void copied(struct store_run *run)
{
	uint64_t begin_ms = store_run_clock();

	while (mirror_out(run->store) != 0) {
		REQUIRE(store_run_may_wait(begin_ms));
		(void)get(run, 0);
		store_run_pass_time(run);
	}
}

/* What a member itself has. */
static int member_byte(const char *name, uint64_t offset)
{
	char path[120];
	uint8_t byte = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	REQUIRE(fd >= 0 && pread(fd, &byte, 1, (off_t)offset) == 1);
	close(fd);
	return byte;
}

/* ---- Killed --------------------------------------------------------------------------------- */

/* The second member does not have the write when the process dies. */
static void write_one_side(const char *format, int fd)
{
	uint8_t bytes[BLOCK];
	struct span span = { bytes, BLOCK };
	struct store_request w = {
		.op = STORE_WRITE, .length = BLOCK, .spans = &span, .span_count = 1
	};
	struct store_run run;

	(void)opened(format, &run);
	/* The region is dirty from now on, and no mark is between the members' writes. */
	REQUIRE(put(&run, 0, 1) == WEFT_OK);
	memset(bytes, 2, sizeof(bytes));
	REQUIRE(store_submit(run.store, &w, run.now_ns) == WEFT_OK);
	for (;;) {
		/* The time does not come when the delay of the second member ends. */
		REQUIRE(!store_next_done(run.store, run.now_ns));
		if (member_byte("a", 0) == 2) {
			REQUIRE(write(fd, "x", 1) == 1);
			(void)pause();
		}
	}
}

TEST(test_mirror_of_files_killed_between_its_writes_reads_one_value)
{
	static const char plain[] = "mirror(file:@/a,size=64k,file:@/b,size=64k)";
	struct store_run run;
	struct device *d;
	int ends[2], status, value;
	uint64_t begin_ms;
	char byte;
	pid_t pid;

	store_folder_make(folder);
	d = opened(plain, &run);
	copied(&run);
	EXPECT_EQ(put(&run, 0, 1), WEFT_OK);
	EXPECT_EQ(store_run_op(&run, STORE_FLUSH, 0, NULL, 0), WEFT_OK);
	REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
	device_close(d);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		write_one_side("mirror(file:@/a,delay:10ms(file:@/b))", ends[1]);
		_exit(1);
	}
	close(ends[1]);
	REQUIRE(read(ends[0], &byte, 1) == 1);
	close(ends[0]);
	REQUIRE(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
	EXPECT_EQ(member_byte("a", 0), 2);
	EXPECT_EQ(member_byte("b", 0), 1);
	d = opened(plain, &run);
	value = get_one_value(&run, 0);
	begin_ms = store_run_clock();
	while (!mirror_is_equal(run.store)) {
		REQUIRE(store_run_may_wait(begin_ms));
		EXPECT_EQ(get(&run, 0), value);
		store_run_pass_time(&run);
	}
	device_close(d);
	EXPECT_EQ(member_byte("a", 0), value);
	EXPECT_EQ(member_byte("b", 0), value);
	store_folder_remove(folder);
}

/* ---- Left out ------------------------------------------------------------------------------- */

TEST(test_mirror_of_files_left_out_member_is_not_read_until_it_was_copied)
{
	static const char plain[] = "mirror(file:@/a,size=64k,file:@/b,size=64k)";
	struct store_event event;
	struct store_run run;
	struct device *d;

	store_folder_make(folder);
	d = opened(plain, &run);
	copied(&run);
	EXPECT(store_event(run.store, &event));
	EXPECT(event.member == 1 && event.reason == WEFT_OK);
	EXPECT_EQ(run.store->shape.size_bytes, SIZE - MARK_AREA_BYTES);
	for (uint64_t b = 0; b < 100; b++)
		EXPECT_EQ(put(&run, b, 1), WEFT_OK);
	device_close(d);
	d = opened("mirror(fault:at=1k+1(file:@/a),file:@/b)", &run);
	EXPECT_EQ(put(&run, 2, 2), WEFT_OK);
	EXPECT_EQ(put(&run, 3, 2), WEFT_OK);
	EXPECT_EQ(mirror_out(run.store), 1);
	device_close(d);
	EXPECT_EQ(member_byte("a", 3 * BLOCK), 1);
	d = opened(plain, &run);
	EXPECT_EQ(get_one_value(&run, 2), 2);
	EXPECT_EQ(get_one_value(&run, 3), 2);
	EXPECT_EQ(get_one_value(&run, 4), 1);
	copied(&run);
	EXPECT_EQ(get_one_value(&run, 3), 2);
	device_close(d);
	EXPECT_EQ(member_byte("a", 3 * BLOCK), 2);
	store_folder_remove(folder);
}

TEST(test_mirror_of_files_refuses_a_stale_member_without_the_current_one)
{
	struct device_refusal why;
	struct store_run run;
	struct device *d;
	char path[120];

	store_folder_make(folder);
	snprintf(path, sizeof(path), "%s/b", folder);
	d = opened("mirror(file:@/a,size=64k,file:@/b,size=64k)", &run);
	copied(&run);
	device_close(d);
	d = opened("mirror(fault:at=0+1(file:@/a),file:@/b)", &run);
	EXPECT_EQ(put(&run, 0, 2), WEFT_OK);
	device_close(d);
	REQUIRE(unlink(path) == 0);
	/* The one that has the data is gone, or an empty one stands in its place. */
	EXPECT_EQ(refusal("mirror(file:@/a,file:@/b)", &why), WEFT_R_STORE_OPEN);
	EXPECT_EQ(refusal("mirror(file:@/a)", &why), WEFT_R_STORE_MIRROR_MISSING);
	EXPECT_EQ(refusal("mirror(file:@/a,file:@/b,size=64k)", &why), WEFT_R_STORE_MIRROR_MISSING);
	EXPECT(strstr(why.text, "member 2 of the mirror: ") != NULL);
	REQUIRE(unlink(path) == 0);
	d = opened("mirror:degraded(file:@/a,file:@/b)", &run);
	EXPECT_EQ(get(&run, 0), 0);
	EXPECT_EQ(put(&run, 0, 3), WEFT_OK);
	device_close(d);
	/* From now on it is the current one, and a new one is copied to. */
	d = opened("mirror(file:@/a,file:@/b,size=64k)", &run);
	copied(&run);
	EXPECT_EQ(get_one_value(&run, 0), 3);
	device_close(d);
	EXPECT_EQ(member_byte("b", 0), 3);
	store_folder_remove(folder);
}

/* It may be in use as another member of the same mirror. */
TEST(test_mirror_of_files_cannot_do_without_a_member_in_use)
{
	struct device_refusal why;
	struct store_run run;
	struct device *d;

	store_folder_make(folder);
	EXPECT_EQ(refusal("mirror:degraded(file:@/a,size=64k,file:@/a,size=64k)", &why),
		  WEFT_R_STORE_IN_USE);
	d = opened("file:@/b,size=64k", &run);
	EXPECT_EQ(refusal("mirror:degraded(file:@/a,file:@/b)", &why), WEFT_R_STORE_IN_USE);
	device_close(d);
	EXPECT_EQ(refusal("mirror:degraded(file:@/a,file:@/b)", &why), WEFT_OK);
	store_folder_remove(folder);
}

/* ---- New, old and foreign ------------------------------------------------------------------- */

static void fill(const char *name, int value)
{
	static uint8_t bytes[SIZE];
	char path[120];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	memset(bytes, value, sizeof(bytes));
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	REQUIRE(fd >= 0 && write(fd, bytes, SIZE) == SIZE);
	close(fd);
}

TEST(test_mirror_of_files_that_differ_is_adopted_only_when_asked_and_becomes_the_first)
{
	struct device_refusal why;
	struct store_run run;
	struct device *d;

	store_folder_make(folder);
	fill("a", 1);
	fill("b", 2);
	EXPECT_EQ(refusal("mirror(file:@/a,file:@/b)", &why), WEFT_R_STORE_MIRROR_UNMARKED);
	EXPECT_EQ(member_byte("a", SIZE - 1), 1);
	d = opened("mirror:adopt(file:@/a,file:@/b)", &run);
	EXPECT_EQ(get_one_value(&run, 9), 1);
	copied(&run);
	EXPECT_EQ(get_one_value(&run, 9), 1);
	device_close(d);
	EXPECT_EQ(member_byte("b", 9 * BLOCK), 1);
	EXPECT_EQ(refusal("mirror(file:@/a,file:@/b)", &why), WEFT_OK);
	store_folder_remove(folder);
}

TEST(test_mirror_of_files_refuses_members_of_another_mirror_or_place)
{
	struct device_refusal why;
	struct store_run run;
	struct device *d;

	store_folder_make(folder);
	d = opened("mirror(file:@/a,size=64k,file:@/b,size=64k)", &run);
	copied(&run);
	device_close(d);
	d = opened("mirror(file:@/c,size=64k,file:@/d,size=64k)", &run);
	copied(&run);
	device_close(d);
	EXPECT_EQ(refusal("mirror(file:@/b,file:@/a)", &why), WEFT_R_STORE_MIRROR_FOREIGN);
	EXPECT_EQ(refusal("mirror(file:@/a,file:@/d)", &why), WEFT_R_STORE_MIRROR_FOREIGN);
	EXPECT(strstr(why.text, "member 2 of the mirror: ") != NULL);
	EXPECT_EQ(refusal("mirror:degraded,adopt(file:@/a,file:@/d)", &why),
		  WEFT_R_STORE_MIRROR_FOREIGN);
	EXPECT_EQ(refusal("mirror(file:@/a,ro,file:@/b,ro)", &why), WEFT_OK);
	EXPECT_EQ(refusal("mirror(file:@/a,file:@/b,file:@/e,size=64k)", &why), WEFT_OK);
	EXPECT_EQ(refusal("mirror(file:@/a,file:@/b,file:@/f,size=32k)", &why),
		  WEFT_R_STORE_MIRROR_FOREIGN);
	store_folder_remove(folder);
}

/* Its size is no multiple of the new member's blocks, so the end of it cannot be copied there. */
TEST(test_mirror_of_files_refuses_a_member_whose_blocks_do_not_divide_its_size)
{
	struct device_refusal why;
	struct store_run run;
	struct device *d;

	store_folder_make(folder);
	d = opened("mirror(file:@/a,size=66048,file:@/b,size=128k)", &run);
	copied(&run);
	device_close(d);
	EXPECT_EQ(refusal("mirror(file:@/a,file:@/b,file:@/c,size=128k,block=4096)", &why),
		  WEFT_R_STORE_SIZE);
	EXPECT(strstr(why.text, "member 3 of the mirror: ") != NULL);
	EXPECT_EQ(refusal("mirror(file:@/a,file:@/b,file:@/d,size=128k)", &why), WEFT_OK);
	store_folder_remove(folder);
}

TEST(test_mirror_of_memory_needs_no_marks)
{
	struct store_run run;
	struct device *d;

	store_folder_make(folder);
	d = opened("mirror(mem:64k,delay:1us(mem:64k))", &run);
	EXPECT_EQ(run.store->shape.size_bytes, SIZE);
	EXPECT_EQ(mirror_out(run.store), 0);
	device_close(d);
	store_folder_remove(folder);
}
