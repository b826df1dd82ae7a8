/* SPDX-License-Identifier: BSD-2-Clause */
/* What devices say of themselves: to programs of other versions, and to several threads. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"
#include "unit/compat/loop_fixture.h"

enum { BEYOND = 64, LOOKS = 50 };

static bool is_all(const uint8_t *bytes, size_t length, uint8_t value)
{
	for (size_t i = 0; i < length; i++) {
		if (bytes[i] != value)
			return false;
	}
	return true;
}

/* A newer program's structs are longer, an older one's shorter: what we know not is zero. */
TEST(test_attributes_beyond_those_known_are_zero)
{
	struct ibv_context *context = loop_context();
	struct verbs_context *v = verbs_get_ctx(context);
	union {
		struct ibv_device_attr_ex device;
		struct ibv_port_attr port;
		struct ibv_gid_entry gid;
		uint8_t bytes[sizeof(struct ibv_device_attr_ex) + 2 * BEYOND];
	} a;

	memset(&a, 0xff, sizeof(a));
	EXPECT_EQ(v->query_device_ex(context, NULL, &a.device, sizeof(a.device) + BEYOND), 0);
	EXPECT(is_all(a.bytes + sizeof(a.device), BEYOND, 0));
	EXPECT(is_all(a.bytes + sizeof(a.device) + BEYOND, BEYOND, 0xff));
	EXPECT_EQ(a.device.phys_port_cnt_ex, 1);

	memset(&a, 0xff, sizeof(a));
	EXPECT_EQ(v->query_device_ex(context, NULL, &a.device, sizeof(a.device.orig_attr)), 0);
	EXPECT(is_all(a.bytes + sizeof(a.device.orig_attr), BEYOND, 0xff));
	EXPECT_EQ(v->query_device_ex(context, NULL, &a.device, sizeof(a.device.orig_attr) - 1),
		  EINVAL);

	memset(&a, 0xff, sizeof(a));
	EXPECT_EQ(v->query_port(context, 1, &a.port, sizeof(a.port) + BEYOND), 0);
	EXPECT(is_all(a.bytes + sizeof(a.port), BEYOND, 0));
	EXPECT(is_all(a.bytes + sizeof(a.port) + BEYOND, BEYOND, 0xff));
	EXPECT_EQ(a.port.state, IBV_PORT_ACTIVE);

	memset(&a, 0xff, sizeof(a));
	EXPECT_EQ(_ibv_query_gid_ex(context, 1, 0, &a.gid, 0, sizeof(a.gid) + BEYOND), 0);
	EXPECT(is_all(a.bytes + sizeof(a.gid), BEYOND, 0));
	EXPECT(is_all(a.bytes + sizeof(a.gid) + BEYOND, BEYOND, 0xff));
	EXPECT_EQ(a.gid.port_num, 1);
	EXPECT_EQ(ibv_close_device(context), 0);
}

/* A program that polls its memory may see the bytes of one copy in any order. */
TEST(test_ibv_query_qp_data_in_order_promises_nothing)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						  IBV_WR_RDMA_READ };
	struct loop l;

	loop_make(&l);
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		EXPECT_EQ(ibv_query_qp_data_in_order(l.near, ops[i], 0), 0);
	loop_free(&l);
}

/* rdma-core 44 has no such call, rdma-core 56 declares it: there it is the same function. */
TEST(test_ibv_wr_opcode_str_names_every_opcode)
{
	static const char *const names[] = { "rdma-write",
					     "rdma-write-with-imm",
					     "send",
					     "send-with-imm",
					     "rdma-read",
					     "atomic-cmp-and-swp",
					     "atomic-fetch-and-add",
					     "local-inv",
					     "bind-mw",
					     "send-with-inv",
					     "tso",
					     "driver1",
					     "unknown",
					     "unknown",
					     "flush",
					     "atomic-write",
					     "unknown" };
	void *symbol = dlsym(RTLD_DEFAULT, "ibv_wr_opcode_str");
	const char *(*name_of)(enum ibv_wr_opcode opcode);

	if (!symbol)
		symbol = dlsym(RTLD_DEFAULT, "weftv_wr_opcode_str");
	REQUIRE(symbol);
	memcpy(&name_of, &symbol, sizeof(name_of));
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		EXPECT_STR(name_of((enum ibv_wr_opcode)i), names[i]);
}

/* man ibv_get_device_list: a caller that cannot look is told so, and not that there are none. */
TEST(test_ibv_get_device_list_that_cannot_look_says_so)
{
	pid_t pid = fork();
	int status = 0;

	REQUIRE(pid >= 0);
	if (pid == 0) {
		const struct rlimit none = { 0, 0 };
		struct ibv_device **list;
		int count = -1;

		setrlimit(RLIMIT_NOFILE, &none);
		list = ibv_get_device_list(&count);
		_exit(!list && errno == EMFILE && count == 0 ? 0 : 1);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void *look_again(void *is_done)
{
	for (int i = 0; i < LOOKS; i++) {
		struct ibv_device **list = ibv_get_device_list(NULL);

		if (list)
			ibv_free_device_list(list);
	}
	atomic_store((atomic_bool *)is_done, true);
	return NULL;
}

/* The thread sanitizer sees to the rest. */
TEST(test_a_device_is_the_same_while_another_thread_lists_devices)
{
	struct ibv_context *context = loop_context();
	struct ibv_device *device = context->device;
	uint64_t guid = ibv_get_device_guid(device);
	int index = ibv_get_device_index(device);
	atomic_bool is_done = false;
	pthread_t thread;

	EXPECT(guid != 0 && index > 0);
	REQUIRE(pthread_create(&thread, NULL, look_again, &is_done) == 0);
	while (!atomic_load(&is_done)) {
		EXPECT(ibv_get_device_guid(device) == guid);
		EXPECT_EQ(ibv_get_device_index(device), index);
	}
	REQUIRE(pthread_join(thread, NULL) == 0);
	EXPECT_EQ(ibv_close_device(context), 0);
}
