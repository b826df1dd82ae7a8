/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/child.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static const char *const no_settings[] = { NULL };
static const uint64_t second_ns = UINT64_C(1000000000);

/* Runs a line of shell to its end, or for so long. */
static int shell(const char *line, uint64_t limit_ns, char *text, size_t text_bytes)
{
	const char *const argv[] = { "sh", "-c", line, NULL };
	struct child c;

	REQUIRE(child_exec(&c, argv, no_settings) == 0);
	return child_finish(&c, child_clock_ns() + limit_ns, text, text_bytes);
}

TEST(test_child_output_and_status_come_back)
{
	char text[64];

	EXPECT_EQ(shell("echo one; echo two >&2; exit 3", 60 * second_ns, text, sizeof(text)), 3);
	EXPECT_STR(text, "one\ntwo\n");
	EXPECT_EQ(shell("cat", 60 * second_ns, text, sizeof(text)), 0);
	EXPECT_STR(text, "");
}

TEST(test_child_output_is_cut_and_the_rest_thrown_away)
{
	char text[5];

	/* More than a pipe holds: who did not read on would wait for ever. */
	EXPECT_EQ(shell("printf abcdefgh; head -c 300000 /dev/zero", 60 * second_ns, text,
			sizeof(text)),
		  0);
	EXPECT_STR(text, "abcd");
}

TEST(test_child_settings_are_in_its_environment_only)
{
	const char *const argv[] = { "sh", "-c", "echo $WEFT_ONE $WEFT_TWO", NULL };
	const char *const settings[] = { "WEFT_ONE=1", "WEFT_TWO=2", NULL };
	struct child c;
	char text[64];

	EXPECT_EQ(child_exec(&c, argv, settings), 0);
	EXPECT_EQ(child_finish(&c, child_clock_ns() + 60 * second_ns, text, sizeof(text)), 0);
	EXPECT_STR(text, "1 2\n");
	EXPECT_EQ(shell("echo $WEFT_ONE", 60 * second_ns, text, sizeof(text)), 0);
	EXPECT_STR(text, "\n");
}

TEST(test_child_that_does_not_exist_is_told_apart)
{
	const char *const argv[] = { "weft-no-such-program", NULL };
	struct child c;

	EXPECT_EQ(child_exec(&c, argv, no_settings), -ENOENT);
	EXPECT_EQ(waitpid(-1, NULL, WNOHANG), -1); /* nor is anything left of it */
	EXPECT_EQ(errno, ECHILD);
}

TEST(test_child_is_killed_at_the_deadline)
{
	char text[64];
	uint64_t start_ns = child_clock_ns();

	EXPECT_EQ(shell("echo here; exec sleep 600", second_ns / 20, text, sizeof(text)),
		  -ETIMEDOUT);
	EXPECT(child_clock_ns() - start_ns < 300 * second_ns);
	EXPECT_EQ(waitpid(-1, NULL, WNOHANG), -1);
	/* One that closes its output goes on running, and is killed too. */
	EXPECT_EQ(shell("exec sleep 600 >&- 2>&-", second_ns / 20, text, sizeof(text)), -ETIMEDOUT);
	EXPECT_EQ(waitpid(-1, NULL, WNOHANG), -1);
}

TEST(test_child_that_a_signal_ends_has_no_status)
{
	char text[64];

	EXPECT_EQ(shell("kill -9 $$", 60 * second_ns, text, sizeof(text)), -EINTR);
}

static int add_one(void *context)
{
	return *(int *)context + 1;
}

TEST(test_child_fork_returns_what_the_function_returns)
{
	struct child c;
	int number = 4;

	EXPECT_EQ(child_fork(&c, add_one, &number), 0);
	EXPECT_EQ(child_finish(&c, child_clock_ns() + 60 * second_ns, NULL, 0), 5);
}

/* Says that it runs, and goes on for ever. */
static int run_for_ever(void *context)
{
	const int *pipe_ends = context;

	if (write(pipe_ends[1], "", 1) != 1)
		return 1;
	while (pause() != 0)
		;
	return 0;
}

/* Ends by a signal when a child of its own runs. */
static int orphan(void *context)
{
	const int *pipe_ends = context;
	struct child c;
	char byte;

	if (child_fork(&c, run_for_ever, context) != 0 || read(pipe_ends[0], &byte, 1) != 1)
		return 1;
	raise(SIGKILL);
	return 1;
}

TEST(test_child_ends_with_its_parent)
{
	int pipe_ends[2];
	struct child c;
	char byte;

	EXPECT_EQ(pipe(pipe_ends), 0);
	EXPECT_EQ(child_fork(&c, orphan, pipe_ends), 0);
	EXPECT_EQ(child_finish(&c, child_clock_ns() + 60 * second_ns, NULL, 0), -EINTR);
	close(pipe_ends[1]);
	/* The pipe is at its end once no process has it open for writing. */
	EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0);
	close(pipe_ends[0]);
}
