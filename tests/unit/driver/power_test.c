/* SPDX-License-Identifier: BSD-2-Clause */
/* The death of a process whose device has a volatile cache is a loss of power. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/prng.h"
#include "test.h"
#include "unit/driver/store_run.h"

enum { BLOCKS = 64, ROUNDS = 8, BLOCK = 512 };

/* What the child says: this write was done, or this flush. */
struct said {
	uint32_t block, value;
	bool is_flush;
};

static char folder[64], text[200];

static enum weft_reason write_one(struct store_run *run, uint32_t block, uint32_t value)
{
	uint8_t bytes[BLOCK];

	memset(bytes, (int)value, sizeof(bytes));
	return store_run_op(run, STORE_WRITE, (uint64_t)block * BLOCK, bytes, BLOCK);
}

static void child(uint64_t seed, uint32_t value, int fd)
{
	struct prng prng = { seed };
	struct device_refusal why;
	struct store_run run;
	struct device *d;

	if (device_open(text, &d, &why) != WEFT_OK)
		_exit(1);
	run = (struct store_run){ device_store(d), device_descriptor(d), 0 };
	for (;;) {
		struct said said = { prng_below(&prng, BLOCKS), value, prng_below(&prng, 16) == 0 };

		if (said.is_flush ? store_run_op(&run, STORE_FLUSH, 0, NULL, 0) != WEFT_OK
				  : write_one(&run, said.block, value) != WEFT_OK)
			_exit(2);
		if (write(fd, &said, sizeof(said)) != sizeof(said))
			_exit(3);
		value = value % 255 + 1;
	}
}

/* For each block: which values it may hold. */
struct model {
	bool may[BLOCKS][256];
	uint8_t latest[BLOCKS];
};

static void model_take(struct model *m, const struct said *said)
{
	if (!said->is_flush) {
		m->may[said->block][said->value] = true;
		m->latest[said->block] = (uint8_t)said->value;
		return;
	}
	for (int b = 0; b < BLOCKS; b++) {
		memset(m->may[b], 0, sizeof(m->may[b]));
		m->may[b][m->latest[b]] = true;
	}
}

/* Reads all of it anew, and says how many blocks do not hold the latest. */
static int model_check(struct model *m, uint32_t next)
{
	static uint8_t bytes[BLOCKS * BLOCK];
	struct device_refusal why;
	struct store_run run;
	struct device *d;
	int lost = 0;

	REQUIRE(device_open(text, &d, &why) == WEFT_OK);
	run = (struct store_run){ device_store(d), device_descriptor(d), 0 };
	REQUIRE(store_run_op(&run, STORE_READ, 0, bytes, sizeof(bytes)) == WEFT_OK);
	for (int b = 0; b < BLOCKS; b++) {
		uint8_t is = bytes[b * BLOCK];

		/* One write may have been done and not been told. */
		REQUIRE(m->may[b][is] || is == next);
		lost += is != m->latest[b];
		m->latest[b] = is;
		memset(m->may[b], 0, sizeof(m->may[b]));
		m->may[b][is] = true;
	}
	device_close(d);
	return lost;
}

static uint32_t round_play(struct model *m, uint64_t seed, uint32_t value)
{
	uint32_t count = 20 + (uint32_t)(prng_mix(seed) % 60);
	int ends[2], status;
	struct said said = { 0 };
	pid_t pid;

	REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0)
		child(seed, value, ends[1]);
	close(ends[1]);
	for (uint32_t i = 0; i < count; i++) {
		REQUIRE(read(ends[0], &said, sizeof(said)) == sizeof(said));
		model_take(m, &said);
	}
	REQUIRE(kill(pid, SIGKILL) == 0);
	REQUIRE(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	while (read(ends[0], &said, sizeof(said)) == sizeof(said))
		model_take(m, &said);
	close(ends[0]);
	return said.value % 255 + 1;
}

static int play(const char *options)
{
	static struct model m;
	uint32_t value = 1;
	int lost = 0;

	m = (struct model){ 0 };
	for (int b = 0; b < BLOCKS; b++)
		m.may[b][0] = true;
	store_folder_make(folder);
	snprintf(text, sizeof(text), "volatile%s(file:%s/disk,size=32k)", options, folder);
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		value = round_play(&m, round, value);
		lost += model_check(&m, value);
	}
	store_folder_remove(folder);
	return lost;
}

TEST(test_volatile_kill_loses_what_was_not_flushed_and_nothing_else)
{
	EXPECT(play("") > 0);
	EXPECT(play(":seed=5,keep=0.5") > 0);
	/* Without room all of it goes through. */
	EXPECT(play(":room=512") < ROUNDS * 2);
}

TEST(test_volatile_closed_in_order_loses_nothing)
{
	struct device_refusal why;
	struct store_run run;
	struct device *d;
	uint8_t bytes[BLOCK];

	store_folder_make(folder);
	snprintf(text, sizeof(text), "volatile(delay:1ms(file:%s/disk,size=32k))", folder);
	REQUIRE(device_open(text, &d, &why) == WEFT_OK);
	EXPECT(!device_store(d)->shape.outlives_process);
	run = (struct store_run){ device_store(d), device_descriptor(d), 0 };
	EXPECT_EQ(write_one(&run, 3, 7), WEFT_OK);
	device_close(d);
	snprintf(text, sizeof(text), "file:%s/disk", folder);
	REQUIRE(device_open(text, &d, &why) == WEFT_OK);
	EXPECT(device_store(d)->shape.outlives_process);
	run = (struct store_run){ device_store(d), device_descriptor(d), 0 };
	EXPECT_EQ(store_run_op(&run, STORE_READ, 3 * BLOCK, bytes, BLOCK), WEFT_OK);
	EXPECT_EQ(bytes[0], 7);
	device_close(d);
	store_folder_remove(folder);
}
