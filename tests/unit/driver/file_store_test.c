/* SPDX-License-Identifier: BSD-2-Clause */
/* Files as devices: what opens and what does not, what they do, and their failures. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/file/file_inside.h"
#include "test.h"
#include "unit/driver/store_run.h"

#define TIB (UINT64_C(1) << 40)

static char folder[64], path[96];

static struct file_store_config config(uint64_t size_bytes)
{
	return (struct file_store_config){ .path = path, .size_bytes = size_bytes };
}

static void bed_init(void)
{
	store_folder_make_on_disk(folder);
	snprintf(path, sizeof(path), "%s/disk", folder);
}

static struct store *opened(const struct file_store_config *c)
{
	struct store *s = NULL;
	int error;

	REQUIRE(file_store_open(c, &s, &error) == WEFT_OK);
	return s;
}

static enum weft_reason refusal(const struct file_store_config *c, int *error)
{
	struct store *s = NULL;
	enum weft_reason reason = file_store_open(c, &s, error);

	if (reason == WEFT_OK)
		store_destroy(s);
	return reason;
}

static struct store_run run_of(struct store *s)
{
	return (struct store_run){ s, file_store_descriptor(s), 0 };
}

static enum store_engine engines[2];

/* Those to be had here, threads first. */
static int engines_find(void)
{
	engines[0] = STORE_ENGINE_THREADS;
	engines[1] = STORE_ENGINE_URING;
	return store_has_uring() ? 2 : 1;
}

TEST(test_file_store_is_made_with_its_size_and_found_again)
{
	struct file_store_config c;
	uint8_t out[4096], in[4096];
	struct store_run run;
	struct stat st;
	int error;

	bed_init();
	c = config(1 << 20);
	memset(out, 0x5a, sizeof(out));
	run = run_of(opened(&c));
	EXPECT_EQ(run.store->shape.size_bytes, 1 << 20);
	EXPECT_EQ(run.store->shape.block_bytes, 512);
	EXPECT_EQ(run.store->shape.can, STORE_CAN_ALL);
	EXPECT(!file_store_facts(run.store).is_block_device);
	EXPECT_EQ(store_run_op(&run, STORE_WRITE, 8192, out, 4096), WEFT_OK);
	EXPECT_EQ(store_run_op(&run, STORE_FLUSH, 0, NULL, 0), WEFT_OK);
	store_destroy(run.store);
	EXPECT(stat(path, &st) == 0 && st.st_size == 1 << 20 && (st.st_mode & 0777) == 0600);
	c.size_bytes = 0;
	c.block_bytes = 4096;
	c.is_readonly = true;
	run = run_of(opened(&c));
	EXPECT_EQ(run.store->shape.size_bytes, 1 << 20);
	EXPECT_EQ(run.store->shape.block_bytes, 4096);
	EXPECT_EQ(store_run_op(&run, STORE_READ, 8192, in, 4096), WEFT_OK);
	EXPECT_MEM(in, out, sizeof(in));
	EXPECT_EQ(store_run_op(&run, STORE_WRITE, 8192, in, 4096), WEFT_R_STORE_READONLY);
	store_destroy(run.store);
	c = config(1 << 21);
	EXPECT_EQ(refusal(&c, &error), WEFT_R_STORE_SIZE);
	c = config(1 << 20);
	EXPECT_EQ(refusal(&c, &error), WEFT_OK);
	store_folder_remove(folder);
}

TEST(test_file_store_refuses_what_is_no_device)
{
	struct file_store_config c;
	struct stat st;
	int error, fd;

	bed_init();
	c = config(0);
	EXPECT_EQ(refusal(&c, &error), WEFT_R_STORE_OPEN);
	EXPECT_EQ(error, ENOENT);
	c = config(4096);
	c.is_readonly = true;
	EXPECT_EQ(refusal(&c, &error), WEFT_R_STORE_OPEN);
	c = config(1000);
	EXPECT_EQ(refusal(&c, &error), WEFT_R_STORE_SIZE);
	REQUIRE(unlink(path) == 0);
	c.path = folder;
	EXPECT_EQ(refusal(&c, &error), WEFT_R_STORE_OPEN);
	c.path = "/dev/null";
	EXPECT_EQ(refusal(&c, &error), WEFT_R_STORE_OPEN);
	EXPECT_EQ(error, ENOTBLK);
	/* A pipe would wait for its other end. */
	REQUIRE(mkfifo(path, 0600) == 0);
	c.path = path;
	EXPECT_EQ(refusal(&c, &error), WEFT_R_STORE_OPEN);
	REQUIRE(unlink(path) == 0);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	REQUIRE(fd >= 0);
	c = config(0);
	EXPECT_EQ(refusal(&c, &error), WEFT_R_STORE_SIZE);
	REQUIRE(ftruncate(fd, 1024) == 0);
	c.block_bytes = 4096;
	EXPECT_EQ(refusal(&c, &error), WEFT_R_STORE_SIZE);
	c.block_bytes = 1024;
	EXPECT_EQ(refusal(&c, &error), WEFT_R_STORE_BLOCK);
	c.block_bytes = 512;
	EXPECT_EQ(refusal(&c, &error), WEFT_OK);
	EXPECT(fstat(fd, &st) == 0 && st.st_size == 1024);
	close(fd);
	store_folder_remove(folder);
}

TEST(test_file_store_is_locked_against_a_second_user)
{
	struct file_store_config c, ro;
	struct store *s, *second;
	int error;

	bed_init();
	c = config(4096);
	ro = config(0);
	ro.is_readonly = true;
	s = opened(&c);
	EXPECT_EQ(refusal(&c, &error), WEFT_R_STORE_IN_USE);
	EXPECT_EQ(refusal(&ro, &error), WEFT_R_STORE_IN_USE);
	store_destroy(s);
	s = opened(&ro);
	second = opened(&ro);
	EXPECT_EQ(refusal(&c, &error), WEFT_R_STORE_IN_USE);
	store_destroy(second);
	store_destroy(s);
	EXPECT_EQ(refusal(&c, &error), WEFT_OK);
	store_folder_remove(folder);
}

TEST(test_file_store_beyond_2_tib_both_block_sizes)
{
	static const uint32_t blocks[] = { 512, 4096 };
	static const uint64_t sizes[] = { 3 * TIB + 4096, 5 * TIB };
	int engine_count = engines_find();

	for (int i = 0; i < 2 * engine_count; i++) {
		struct file_store_config c;
		uint64_t block = blocks[i % 2], at[3];
		uint8_t out[4096], in[4096];
		struct store_run run;

		bed_init();
		c = config(sizes[i % 2]);
		c.block_bytes = (uint32_t)block;
		c.engine = engines[i / 2];
		run = run_of(opened(&c));
		at[0] = 0;
		at[1] = 2 * TIB;
		at[2] = sizes[i % 2] - block;
		for (int n = 0; n < 3; n++) {
			memset(out, 'a' + n, sizeof(out));
			EXPECT_EQ(store_run_op(&run, STORE_WRITE, at[n], out, block), WEFT_OK);
		}
		for (int n = 0; n < 3; n++) {
			memset(out, 'a' + n, sizeof(out));
			EXPECT_EQ(store_run_op(&run, STORE_READ, at[n], in, block), WEFT_OK);
			EXPECT_MEM(in, out, block);
		}
		EXPECT_EQ(store_run_op(&run, STORE_READ, at[2] + block, in, block),
			  WEFT_R_STORE_RANGE);
		EXPECT_EQ(store_run_op(&run, STORE_WRITE_ZEROES, 2 * TIB, NULL, block), WEFT_OK);
		EXPECT_EQ(store_run_op(&run, STORE_READ, 2 * TIB, in, block), WEFT_OK);
		memset(out, 0, sizeof(out));
		EXPECT_MEM(in, out, block);
		EXPECT_EQ(store_run_op(&run, STORE_DISCARD, 0, NULL, sizes[i % 2]), WEFT_OK);
		store_destroy(run.store);
		store_folder_remove(folder);
	}
}

/* More than threads, and more than the ring has entries. */
TEST(test_file_store_many_under_way)
{
	enum { COUNT = 300 };
	static struct store_request r[COUNT];
	static struct span spans[COUNT];
	static uint8_t bytes[COUNT][4096];
	int engine_count = engines_find();

	for (int i = 0; i < 2 * engine_count; i++) {
		struct file_store_config c;
		struct store_run run;

		bed_init();
		c = config(COUNT * 4096);
		c.engine = engines[i / 2];
		c.is_direct = i % 2;
		run = run_of(opened(&c));
		for (int round = 0; round < 2; round++) {
			for (uint64_t n = 0; n < COUNT; n++) {
				if (round == 0)
					memset(bytes[n], (int)n, 4096);
				else
					memset(bytes[n], 0xff, 4096);
				spans[n] = (struct span){ bytes[n], 4096 };
				r[n] = (struct store_request){ .op = round ? STORE_READ
									   : STORE_WRITE,
							       .offset = n * 4096,
							       .length = 4096,
							       .spans = &spans[n],
							       .span_count = 1 };
				EXPECT_EQ(store_submit(run.store, &r[n], 0), WEFT_OK);
			}
			for (int n = 0; n < COUNT; n++)
				EXPECT_EQ(store_run_wait(&run)->reason, WEFT_OK);
		}
		for (int n = 0; n < COUNT; n++)
			EXPECT(bytes[n][0] == (uint8_t)n && bytes[n][4095] == (uint8_t)n);
		EXPECT_EQ(run.store->under_way, 0);
		store_destroy(run.store);
		store_folder_remove(folder);
	}
}

TEST(test_file_store_descriptor_is_quiet_when_nothing_is_done)
{
	int engine_count = engines_find();

	for (int i = 0; i < engine_count; i++) {
		struct file_store_config c;
		uint8_t bytes[512] = { 0 };
		struct store_run run;

		bed_init();
		c = config(4096);
		c.engine = engines[i];
		run = run_of(opened(&c));
		/* By way of the ring, and by way of threads. */
		EXPECT_EQ(store_run_op(&run, STORE_WRITE, 0, bytes, 512), WEFT_OK);
		EXPECT_EQ(store_run_op(&run, STORE_DISCARD, 0, NULL, 512), WEFT_OK);
		EXPECT(!store_next_done(run.store, 0));
		EXPECT_EQ(store_run_is_readable(&run), false);
		store_destroy(run.store);
		store_folder_remove(folder);
	}
}

TEST(test_file_store_truncated_by_another_process_is_noticed)
{
	int engine_count = engines_find();

	for (int i = 0; i < engine_count; i++) {
		struct file_store_config c;
		uint8_t bytes[4096];
		struct store_run run;

		bed_init();
		c = config(65536);
		c.engine = engines[i];
		run = run_of(opened(&c));
		REQUIRE(truncate(path, 10000) == 0);
		EXPECT_EQ(store_run_op(&run, STORE_READ, 4096, bytes, 4096), WEFT_OK);
		EXPECT_EQ(store_run_op(&run, STORE_READ, 8192, bytes, 4096), WEFT_R_STORE_CUT);
		EXPECT_EQ(store_run_op(&run, STORE_READ, 32768, bytes, 4096), WEFT_R_STORE_CUT);
		store_destroy(run.store);
		store_folder_remove(folder);
	}
}

TEST(test_file_store_zeroes_and_holes)
{
	enum { SIZE = 1 << 20 };
	static uint8_t bytes[SIZE];
	struct file_store_config c;
	struct store_request z = { .op = STORE_WRITE_ZEROES, .offset = 512, .length = SIZE - 1024 };
	struct store_run run;
	struct stat before, after;

	bed_init();
	c = config(SIZE);
	run = run_of(opened(&c));
	memset(bytes, 0x77, SIZE);
	EXPECT_EQ(store_run_op(&run, STORE_WRITE, 0, bytes, SIZE), WEFT_OK);
	z.flags = STORE_FUA;
	EXPECT_EQ(store_run_one(&run, &z), WEFT_OK);
	EXPECT_EQ(store_run_op(&run, STORE_READ, 0, bytes, SIZE), WEFT_OK);
	for (int i = 0; i < SIZE; i++)
		EXPECT_EQ(bytes[i], i < 512 || i >= SIZE - 512 ? 0x77 : 0);
	REQUIRE(stat(path, &before) == 0);
	EXPECT_EQ(store_run_op(&run, STORE_DISCARD, 0, NULL, SIZE), WEFT_OK);
	REQUIRE(stat(path, &after) == 0);
	EXPECT_EQ(after.st_size, SIZE);
	EXPECT(after.st_blocks <= before.st_blocks);
	store_destroy(run.store);
	store_folder_remove(folder);
}

TEST(test_file_store_errors_have_reasons)
{
	static const struct {
		int error;
		enum weft_reason reason;
	} rows[] = { { ENOSPC, WEFT_R_STORE_FULL }, { EDQUOT, WEFT_R_STORE_FULL },
		     { EFBIG, WEFT_R_STORE_FULL },  { ENOMEM, WEFT_R_NO_MEMORY },
		     { EIO, WEFT_R_STORE_IO },	    { ENODEV, WEFT_R_STORE_IO } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct store_request r = { .op = STORE_READ };

		file_fail(&r, rows[i].error);
		EXPECT_EQ(r.reason, rows[i].reason);
		EXPECT_EQ(r.error, rows[i].error);
	}
}

TEST(test_device_refusals_say_where_and_why)
{
	struct device_refusal why;
	struct device *d;
	char text[300];

	bed_init();
	EXPECT_EQ(device_open("mem:1G,block=7", &d, &why), WEFT_R_STORE_TEXT);
	EXPECT_EQ(why.at, 8);
	EXPECT_STR(why.text, "at character 8: a block has 512 or 4096 bytes");
	snprintf(text, sizeof(text), "mirror(mem:1M,file:%s)", path);
	EXPECT_EQ(device_open(text, &d, &why), WEFT_R_STORE_OPEN);
	EXPECT_EQ(why.at, 15);
	EXPECT_EQ(why.error, ENOENT);
	EXPECT(strstr(why.text, "at character 15, file: ") != NULL);
	EXPECT(strstr(why.text, "(No such file or directory)") != NULL);
	EXPECT_EQ(device_open("stripe:100(mem:1M)", &d, &why), WEFT_R_STORE_UNIT);
	EXPECT_EQ(device_open("mem:0", &d, &why), WEFT_R_STORE_SIZE);
	EXPECT_EQ(device_open("mem:1000", &d, &why), WEFT_R_STORE_SIZE);
	EXPECT_EQ(device_open("mem:8000P", &d, &why), WEFT_R_NO_MEMORY);
	/* The same file twice would be a mirror in one place. */
	snprintf(text, sizeof(text), "mirror(file:%s,size=1M,file:%s)", path, path);
	EXPECT(device_open(text, &d, &why) != WEFT_OK);
	store_folder_remove(folder);
}
