/* SPDX-License-Identifier: BSD-2-Clause */
/* Which users are trusted. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/unix_names.h"
#include "test.h"

enum { NOBODY = 65534, OTHER = 4242, TRUSTED = 40, NOT_TRUSTED = 41, CANNOT = 42 };

/* In a process of its own, which becomes another user: whether that one trusts what is its own. */
static int answer_after(int (*become)(void))
{
	int status = 0;
	pid_t pid = fork();

	REQUIRE(pid >= 0);
	if (pid == 0) {
		if (become() != 0)
			_exit(CANNOT);
		_exit(unix_user_is_trusted(geteuid()) ? TRUSTED : NOT_TRUSTED);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static uid_t overflow_uid(void)
{
	FILE *f = fopen("/proc/sys/kernel/overflowuid", "re");
	unsigned int uid = 0;

	REQUIRE(f && fscanf(f, "%u", &uid) == 1);
	(void)fclose(f);
	return uid;
}

/* Whether all users have a number here, as on a host and in few containers. */
static bool is_every_user_mapped(void)
{
	FILE *f = fopen("/proc/self/uid_map", "re");
	unsigned int first = 1, outside = 0, count = 0;

	REQUIRE(f && fscanf(f, "%u %u %u", &first, &outside, &count) == 3);
	(void)fclose(f);
	return first == 0 && count == UINT32_MAX;
}

static int become_nobody(void)
{
	return setuid(NOBODY);
}

static int become_unmapped(void)
{
	return unshare(CLONE_NEWUSER) == 0 && geteuid() == overflow_uid() ? 0 : -1;
}

/* What was read before says nothing of the new namespace. */
static int become_unmapped_late(void)
{
	(void)unix_user_is_trusted(geteuid());
	return become_unmapped();
}

static int become_unmapped_nobody(void)
{
	if (setuid(NOBODY) != 0 || !unix_user_is_trusted(NOBODY))
		return -1;
	return become_unmapped();
}

TEST(test_users_that_are_trusted)
{
	EXPECT(unix_user_is_trusted(geteuid()) || geteuid() == overflow_uid());
	EXPECT(unix_user_is_trusted(0) || overflow_uid() == 0);
	EXPECT(!unix_user_is_trusted(geteuid() == OTHER ? OTHER + 1 : OTHER));
	EXPECT(geteuid() == NOBODY || !unix_user_is_trusted(NOBODY));
}

TEST(test_nobody_is_a_user_where_all_are_mapped)
{
	int answer = answer_after(become_nobody);

	if (answer == CANNOT)
		SKIP("only root can become another user");
	EXPECT_EQ(answer, is_every_user_mapped() ? TRUSTED : NOT_TRUSTED);
}

TEST(test_users_without_a_number_are_not_trusted)
{
	if (answer_after(become_unmapped) == CANNOT)
		SKIP("no user namespace can be had");
	EXPECT_EQ(answer_after(become_unmapped), NOT_TRUSTED);
	EXPECT_EQ(answer_after(become_unmapped_late), NOT_TRUSTED);
	if (geteuid() == 0 && is_every_user_mapped())
		EXPECT_EQ(answer_after(become_unmapped_nobody), NOT_TRUSTED);
}
