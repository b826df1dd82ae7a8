/* SPDX-License-Identifier: BSD-2-Clause */
/* The errno value beside WEFT_R_SYSTEM: of the thread that made the call, and no other. */
#include <errno.h>
#include <pthread.h>

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
