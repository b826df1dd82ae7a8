/* SPDX-License-Identifier: BSD-2-Clause */
/* What a role shows of itself, when it has no descriptor left for those who ask. */
#include "test.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "descriptors.h"
#include "roles/reporter.h"

enum { PATIENCE_MS = 20000 };

static char *text_make(void *of, size_t *length)
{
	char *text = strdup(of);

	*length = strlen(of);
	return text;
}

static void client_connect(int fd)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "weft/test-reporter/%ld",
			 (long)getpid());

	MUST_EQ(connect(fd, (const struct sockaddr *)&at,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)),
		0);
}

TEST(test_reporter_without_descriptors_waits_and_goes_on)
{
	static char shown[] = "here";
	struct reporter *r = reporter_open("test-reporter", text_make, shown);
	struct pollfd p = { .events = POLLIN };
	char got[sizeof(shown)] = "";
	struct rlimit before;
	uint64_t now_ns = 1, due_ns;
	int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	REQUIRE(r != NULL && client >= 0);
	p.fd = reporter_descriptor(r);
	before = descriptors_end();
	client_connect(client);
	/* Each time it is asked, it has nothing more to do until it looks again. */
	for (int i = 0; i < 3; i++) {
		MUST_EQ(poll(&p, 1, PATIENCE_MS), 1);
		reporter_serve(r, now_ns);
		EXPECT_EQ(poll(&p, 1, 0), 0);
		due_ns = reporter_expire(r, now_ns);
		MUST_EQ(due_ns > now_ns && due_ns < UINT64_MAX, true);
		now_ns = due_ns;
		(void)reporter_expire(r, now_ns);
	}
	REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
	MUST_EQ(poll(&p, 1, PATIENCE_MS), 1);
	reporter_serve(r, now_ns);
	EXPECT_EQ(recv(client, got, sizeof(got), MSG_WAITALL), sizeof(shown) - 1);
	EXPECT_STR(got, shown);
	EXPECT_EQ(reporter_expire(r, now_ns), UINT64_MAX);
	close(client);
	reporter_close(r);
}
