/* SPDX-License-Identifier: BSD-2-Clause */
/* What the system refuses: the errno value, of the thread that called; no descriptors left. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <weft/rio.h>
#include <weft/weft.h>

#include "test.h"

static void *in_another_thread(void *adapter)
{
	static int seen[2];

	seen[0] = weft_system_errno();
	REQUIRE(weft_capture_start(adapter, "/") == WEFT_R_SYSTEM);
	seen[1] = weft_system_errno();
	return seen;
}

TEST(test_api_system_errno_is_the_calling_threads)
{
	struct weft_adapter *adapter;
	pthread_t thread;
	void *seen;

	REQUIRE(weft_adapter_open(NULL, &adapter) == WEFT_OK);
	EXPECT_EQ(weft_capture_start(adapter, "/no/such/folder/file"), WEFT_R_SYSTEM);
	EXPECT_EQ(weft_system_errno(), ENOENT);
	/* Refusals with other reasons, and calls that go well, leave it. */
	EXPECT_EQ(weft_capture_stop(adapter), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_system_errno(), ENOENT);
	REQUIRE(pthread_create(&thread, NULL, in_another_thread, adapter) == 0);
	REQUIRE(pthread_join(thread, &seen) == 0);
	EXPECT_EQ(((int *)seen)[0], 0);
	EXPECT_EQ(((int *)seen)[1], EISDIR);
	EXPECT_EQ(weft_system_errno(), ENOENT);
	EXPECT_EQ(weft_adapter_close(adapter), WEFT_OK);
}

TEST(test_api_faults_that_cannot_be_read_open_no_adapter)
{
	struct weft_adapter *adapter = NULL;

	REQUIRE(setenv("WEFT_FAULTS", "seed=7,rnr=2", 1) == 0);
	EXPECT_EQ(weft_adapter_open(NULL, &adapter), WEFT_R_BAD_ARGUMENT);
	EXPECT(!adapter);
	REQUIRE(unsetenv("WEFT_FAULTS") == 0);
	REQUIRE(weft_adapter_open(NULL, &adapter) == WEFT_OK);
	EXPECT_EQ(weft_adapter_close(adapter), WEFT_OK);
}

TEST(test_api_no_descriptors_left_for_a_requester)
{
	const struct weft_rio_self self = { .platform = { .unit = 1, .process = 1 } };
	struct weft_rio_requester *requester = NULL;
	struct rlimit before, none;
	enum weft_reason refused;

	REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
	none = before;
	none.rlim_cur = 0;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
	refused = weft_rio_requester_open(&self, NULL, &requester);
	REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
	EXPECT_EQ(refused, WEFT_R_DESCRIPTORS);
	EXPECT(!requester);
}

TEST(test_api_no_descriptors_left_is_a_reason_of_its_own)
{
	struct weft_adapter *adapter;
	struct rlimit before, none;
	enum weft_reason refused;
	int fd = -1;

	REQUIRE(weft_adapter_open(NULL, &adapter) == WEFT_OK);
	REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
	none = before;
	none.rlim_cur = 0;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
	refused = weft_adapter_fd(adapter, &fd);
	REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
	EXPECT_EQ(refused, WEFT_R_DESCRIPTORS);
	EXPECT_EQ(fd, -1);
	/* As soon as there are some again, the same call succeeds. */
	EXPECT_EQ(weft_adapter_fd(adapter, &fd), WEFT_OK);
	EXPECT(fd >= 0);
	EXPECT_EQ(weft_adapter_close(adapter), WEFT_OK);
}
