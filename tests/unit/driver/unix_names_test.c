/* SPDX-License-Identifier: BSD-2-Clause */
/* Which users are trusted; what the answers of the kernel about names mean. */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/sys/unix_names.h"
#include "test.h"

enum { NOBODY = 65534, OTHER = 4242, TRUSTED = 40, NOT_TRUSTED = 41, CANNOT = 42 };

/* In a child process that becomes another user: does that user trust its own files? */
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

/* ---- Answers -------------------------------------------------------------------------------- */

static const struct unix_names names = { .usual = "weft.test", .type = SOCK_STREAM };

/* A part of an answer: a socket of that name, which listens. */
static void answer_socket(int s, const char *name, uint16_t flags)
{
	struct {
		struct nlmsghdr head;
		struct unix_diag_msg socket;
		struct nlattr name_head;
		char name[32];
	} m = {
		.head = { .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = flags },
		.socket = { .udiag_family = AF_UNIX,
			    .udiag_type = SOCK_STREAM,
			    .udiag_state = TCP_LISTEN,
			    .udiag_ino = 1 },
		.name_head = { .nla_type = UNIX_DIAG_NAME },
	};
	size_t bytes = strlen(name);

	REQUIRE(bytes < sizeof(m.name));
	memcpy(m.name + 1, name, bytes);
	m.name_head.nla_len = (uint16_t)(NLA_HDRLEN + 1 + bytes);
	m.head.nlmsg_len = sizeof(m);
	REQUIRE(send(s, &m, sizeof(m), 0) == sizeof(m));
}

static void answer_end(int s, uint16_t flags)
{
	struct nlmsghdr end = { .nlmsg_len = sizeof(end),
				.nlmsg_type = NLMSG_DONE,
				.nlmsg_flags = flags };

	REQUIRE(send(s, &end, sizeof(end), 0) == sizeof(end));
}

/* What lies there is the answers to come; how often was asked. */
static int find(const int ends[2], int *asked)
{
	struct unix_name found;
	char request[256];
	int r;

	REQUIRE(shutdown(ends[1], SHUT_WR) == 0); /* one more ask would have no answer */
	r = unix_names_find_by(ends[0], &names, &found);
	for (*asked = 0; recv(ends[1], request, sizeof(request), MSG_DONTWAIT) > 0;)
		++*asked;
	close(ends[0]);
	close(ends[1]);
	return r;
}

static void ends_open(int ends[2])
{
	REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
}

TEST(test_none_in_one_part_is_believed)
{
	int ends[2], asked;

	ends_open(ends);
	answer_socket(ends[1], "another", 0);
	answer_end(ends[1], 0);
	EXPECT_EQ(find(ends, &asked), 0);
	EXPECT_EQ(asked, 1);
}

TEST(test_none_in_several_parts_is_asked_for_again)
{
	int ends[2], asked;

	for (int has_second = 0; has_second < 2; has_second++) {
		ends_open(ends);
		answer_socket(ends[1], "another", 0);
		answer_socket(ends[1], "a third", 0);
		answer_end(ends[1], 0);
		answer_socket(ends[1], "another", 0);
		answer_socket(ends[1], has_second ? "weft.test.7" : "a third", 0);
		answer_end(ends[1], 0);
		EXPECT_EQ(find(ends, &asked), has_second);
		EXPECT_EQ(asked, 2);
	}
}

TEST(test_an_answer_that_was_interrupted_is_asked_for_again)
{
	int ends[2], asked;

	ends_open(ends);
	answer_socket(ends[1], "another", 0);
	answer_end(ends[1], NLM_F_DUMP_INTR);
	answer_socket(ends[1], "another", NLM_F_DUMP_INTR);
	answer_end(ends[1], 0);
	answer_socket(ends[1], "weft.test", 0);
	EXPECT_EQ(find(ends, &asked), 1);
	EXPECT_EQ(asked, 3);
	ends_open(ends);
	for (int i = 0; i < 3; i++)
		answer_end(ends[1], NLM_F_DUMP_INTR);
	EXPECT_EQ(find(ends, &asked), -EAGAIN);
	EXPECT_EQ(asked, 3);
}
