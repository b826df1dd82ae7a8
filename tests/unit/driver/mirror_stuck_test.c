/* SPDX-License-Identifier: BSD-2-Clause */
/* docs/store.md, "Mirrors": a member whose disk does not answer, when the mirror opens or closes. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "roles/device.h"
#include "test.h"
#include "unit/driver/kernel_call.h"
#include "unit/driver/store_run.h"
#include "unit/store/mirror_look.h"

enum { BLOCK = 512 };

static char folder[64], text[400];

/* ---- A disk that does not answer ------------------------------------------------------------ */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t answers;
	ino_t inode; /* of the file on it; 0: it answers */
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .answers = PTHREAD_COND_INITIALIZER };

static void disk_call(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return;
	pthread_mutex_lock(&disk.lock);
	while (disk.inode == st.st_ino)
		pthread_cond_wait(&disk.answers, &disk.lock);
	pthread_mutex_unlock(&disk.lock);
}

static void disk_stick(const char *name)
{
	char path[96];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	REQUIRE(stat(path, &st) == 0);
	pthread_mutex_lock(&disk.lock);
	disk.inode = st.st_ino;
	pthread_mutex_unlock(&disk.lock);
}

static void disk_answer(void)
{
	pthread_mutex_lock(&disk.lock);
	disk.inode = 0;
	pthread_cond_broadcast(&disk.answers);
	pthread_mutex_unlock(&disk.lock);
}

/* ---- The mirror ----------------------------------------------------------------------------- */

static void begin(void)
{
	store_folder_make(folder);
	kernel_call = disk_call;
	snprintf(text, sizeof(text),
		 "mirror:wait=3s(file:%s/a,size=1M,threads,wait=60s,file:%s/b,size=1M,threads,"
		 "wait=60s)",
		 folder, folder);
}

static struct device *opened(void)
{
	struct device_refusal why;
	struct device *d = NULL;

	REQUIRE(device_open(text, &d, &why) == WEFT_OK);
	return d;
}

/* The files are free again when the disk has answered: opening them waits for that. */
static void end(void)
{
	disk_answer();
	device_close(opened());
	kernel_call = NULL;
	store_folder_remove(folder);
}

/* The last member is new, and copied to meanwhile. */
static void write_until_complete(struct store_run *run, uint8_t block[BLOCK])
{
	uint64_t begin_ms = store_run_clock();

	while (mirror_out(run->store) != 0) {
		REQUIRE(store_run_may_wait(begin_ms));
		REQUIRE(store_run_op(run, STORE_WRITE, 0, block, BLOCK) == WEFT_OK);
		store_run_pass_time(run);
	}
}

TEST(test_store_mirror_with_a_stuck_member_is_refused_and_names_it)
{
	struct device_refusal why;
	struct device *d;

	begin();
	device_close(opened());
	disk_stick("b");
	EXPECT_EQ(device_open(text, &d, &why), WEFT_R_STORE_MIRROR_STUCK);
	EXPECT(strstr(why.text, "member 2 of the mirror") != NULL);
	end();
}

TEST(test_store_mirror_whose_member_is_stuck_closes_later_and_names_it)
{
	uint8_t block[BLOCK] = { 7 };
	struct device_refusal why;
	struct store_run run;
	struct device *d;

	begin();
	d = opened();
	run = (struct store_run){ device_store(d), device_descriptor(d), 0 };
	write_until_complete(&run, block);
	disk_stick("a");
	EXPECT(!device_close_report(d, &why));
	EXPECT_EQ(why.reason, WEFT_R_STORE_MIRROR_STUCK);
	EXPECT(strstr(why.text, "member 1 of the mirror") != NULL);
	disk_answer();
	/* It has been closed in order: nothing is lost, nor is a member left out. */
	d = opened();
	run = (struct store_run){ device_store(d), device_descriptor(d), 0 };
	memset(block, 0, sizeof(block));
	EXPECT_EQ(store_run_op(&run, STORE_READ, 0, block, sizeof(block)), WEFT_OK);
	EXPECT_EQ(block[0], 7);
	EXPECT_EQ(mirror_out(device_store(d)), 0);
	EXPECT(device_close_report(d, &why));
	end();
}

/* Nothing of the outer one is left to be done, and the inner one would wait for longer. */
TEST(test_store_mirror_closes_within_the_wait_of_the_outermost)
{
	uint8_t block[BLOCK] = { 0 };
	struct device_refusal why;
	struct store_run run;
	uint64_t begin_ms;
	struct device *d;

	begin();
	snprintf(text, sizeof(text),
		 "mirror:wait=3s(mirror:wait=40s(file:%s/a,size=1M,threads,wait=60s,"
		 "file:%s/b,size=1M,threads,wait=60s),file:%s/c,size=1M,threads,wait=60s)",
		 folder, folder, folder);
	d = opened();
	run = (struct store_run){ device_store(d), device_descriptor(d), 0 };
	write_until_complete(&run, block);
	device_close(d);
	d = opened();
	disk_stick("a");
	begin_ms = store_run_clock();
	EXPECT(!device_close_report(d, &why));
	EXPECT(store_run_clock() - begin_ms < 30000);
	EXPECT(strstr(why.text, "member 1 of the mirror") != NULL);
	end();
}
