/* SPDX-License-Identifier: BSD-2-Clause */
/* What a program makes of a fabric's process that is not there, lies, or ends (driver/sys). */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/fabric/fabric_attach.h"
#include "driver/fabric/fabric_hub.h"
#include "driver/sys/fabric_client.h"
#include "driver/sys/unix_sockets.h"
#include "test.h"

/* A process of a fabric that takes one connection and one message, and answers as a test says. */
struct stub {
	pthread_t thread;
	int listener;
	bool has_answer;
	struct fabric_msg answer;
	struct attach_message attached;
};

static const char *name_of_test(void)
{
	static char name[32];

	(void)snprintf(name, sizeof(name), "client-%ld", (long)getpid());
	return name;
}

static void *stub_run(void *of)
{
	struct stub *stub = of;
	struct pollfd p = { .fd = stub->listener, .events = POLLIN };
	uint8_t bytes[4096];
	int fd;

	REQUIRE(poll(&p, 1, -1) == 1); /* accept() does not wait */
	fd = accept(stub->listener, NULL, NULL);
	REQUIRE(fd >= 0);
	(void)!recv(fd, bytes, sizeof(bytes), 0);
	if (stub->has_answer)
		(void)fabric_msg_send(fd, &stub->answer);
	if (stub->attached.magic)
		(void)attach_message_send(fd, &stub->attached);
	close(fd);
	return NULL;
}

static void stub_open(struct stub *stub, const struct unix_names *names)
{
	bool are_all_foreign;

	stub->listener = unix_names_take(names, true, &are_all_foreign);
	REQUIRE(stub->listener >= 0);
	REQUIRE(pthread_create(&stub->thread, NULL, stub_run, stub) == 0);
}

static void stub_close(struct stub *stub)
{
	REQUIRE(pthread_join(stub->thread, NULL) == 0);
	close(stub->listener);
}

static enum weft_reason port_ask(struct stub *stub)
{
	struct unix_names names = fabric_socket_names(name_of_test());
	struct fabric_msg_port port;
	enum weft_reason r;

	REQUIRE(setenv("WEFT_FABRIC", name_of_test(), 1) == 0);
	REQUIRE(setenv("WEFT_NODE", "h1", 1) == 0);
	stub_open(stub, &names);
	r = fabric_client_port(1, &port);
	stub_close(stub);
	return r;
}

TEST(test_sys_01_a_fabric_that_does_not_run_is_absent)
{
	int fd;

	EXPECT_EQ(fabric_client_connect(name_of_test(), &fd), WEFT_R_FABRIC_ABSENT);
}

TEST(test_sys_01_a_fabric_that_ends_meanwhile_is_absent)
{
	struct fabric_msg ask = { .kind = FABRIC_MSG_PORT, .where.node = "h1" }, answer;
	struct stub stub = { .has_answer = false };
	int ends[2];

	/* It takes the question, and no answer comes. */
	EXPECT_EQ(port_ask(&stub), WEFT_R_FABRIC_ABSENT);
	/* It has gone before the question, though something of it is there still. */
	REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
	answer = (struct fabric_msg){ .kind = FABRIC_MSG_ANSWER };
	REQUIRE(fabric_msg_send(ends[1], &answer) == 0);
	close(ends[1]);
	EXPECT_EQ(fabric_client_ask(ends[0], &ask, &answer), WEFT_R_FABRIC_ABSENT);
	close(ends[0]);
}

TEST(test_sys_01_an_answer_of_another_kind_is_none)
{
	struct stub stub = { .has_answer = true, .answer.kind = FABRIC_MSG_ANSWER };

	EXPECT_EQ(port_ask(&stub), WEFT_R_FABRIC_ASK);
	stub.answer.reason = WEFT_R_FABRIC_NODE;
	EXPECT_EQ(port_ask(&stub), WEFT_R_FABRIC_NODE);
}

TEST(test_sys_01_a_program_at_no_node_has_no_port)
{
	struct fabric_msg_port port;
	char name[FABRIC_MSG_NAME + 1];

	REQUIRE(unsetenv("WEFT_NODE") == 0);
	EXPECT_EQ(fabric_client_port(1, &port), WEFT_R_FABRIC_NODE);
	memset(name, 'h', sizeof(name));
	name[FABRIC_MSG_NAME] = '\0';
	REQUIRE(setenv("WEFT_NODE", name, 1) == 0);
	EXPECT_EQ(fabric_client_port(1, &port), WEFT_R_FABRIC_NODE);
}

/* An adapter whose fabric ends in the middle of the greeting, or has no ring for it. */
TEST(test_sys_01_an_adapter_without_a_fabric_is_not_attached)
{
	const struct fabric_attach_config config = { .fabric = name_of_test(), .node = "h1" };
	struct unix_names names = attach_names_of(name_of_test());
	struct stub stub = { .has_answer = false };
	struct fabric_attach *attach;

	stub_open(&stub, &names);
	EXPECT_EQ(fabric_attach_open(&config, &attach), WEFT_R_FABRIC_ABSENT);
	stub_close(&stub);
	stub.attached = attach_message_of(ATTACH_ATTACHED);
	stub.attached.slot = 1;
	stub_open(&stub, &names);
	EXPECT_EQ(fabric_attach_open(&config, &attach), WEFT_R_FABRIC_ABSENT);
	stub_close(&stub);
}

TEST(test_sys_01_a_second_hub_of_a_name_is_refused)
{
	const struct fabric_hub_config config = { .nodes = 1 };
	struct fabric_hub *first, *second;

	MUST(fabric_hub_open(&config, name_of_test(), &first));
	EXPECT_EQ(fabric_hub_open(&config, name_of_test(), &second), WEFT_R_ADDRESS_IN_USE);
	fabric_hub_close(first);
	MUST(fabric_hub_open(&config, name_of_test(), &second));
	fabric_hub_close(second);
}
