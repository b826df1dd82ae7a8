/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports: on RoCE the connection manager's own, on iWARP those of TCP. */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"
#include "unit/compat/cm_fixture.h"

enum { OK_STATUS = 42, LATE_STATUS, NOBODY = 65534 };

static struct rdma_cm_id *fresh(struct rdma_event_channel *channel, enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	REQUIRE(rdma_create_id(channel, &id, NULL, ps) == 0);
	return id;
}

static int bind_to(struct rdma_cm_id *id, struct sockaddr_in at)
{
	return rdma_bind_addr(id, (struct sockaddr *)(void *)&at);
}

static struct sockaddr_in any(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
}

/* A socket as programs have them, which shares nothing; -1 and errno. */
static int socket_at(int type, struct sockaddr_in at)
{
	int s = socket(AF_INET, type, 0);

	REQUIRE(s >= 0);
	if (bind(s, (struct sockaddr *)(void *)&at, sizeof(at)) == 0 &&
	    (type != SOCK_STREAM || listen(s, 1) == 0))
		return s;
	close(s);
	return -1;
}

static uint16_t port_of(int s)
{
	struct sockaddr_in at;
	socklen_t size = sizeof(at);

	REQUIRE(getsockname(s, (struct sockaddr *)(void *)&at, &size) == 0);
	return ntohs(at.sin_port);
}

/* What UCX does: both at one port, whichever is first. */
static void expect_apart(enum rdma_port_space ps, int type, struct sockaddr_in at)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = fresh(channel, ps);
	int s = socket_at(type, at);

	REQUIRE(s >= 0);
	at.sin_port = htons(port_of(s));
	EXPECT_EQ(bind_to(id, at), 0);
	EXPECT_EQ(rdma_listen(id, 1), 0);
	EXPECT_EQ(rdma_get_src_port(id), at.sin_port);
	close(s);
	s = socket_at(type, at);
	EXPECT(s >= 0);
	close(s);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_listen_on_roce_at_a_port_of_tcp_or_udp)
{
	if (!cm_is_roce())
		SKIP("there is no RoCE device");
	expect_apart(RDMA_PS_TCP, SOCK_STREAM, cm_loopback(0));
	expect_apart(RDMA_PS_TCP, SOCK_STREAM, any(0));
	expect_apart(RDMA_PS_UDP, SOCK_DGRAM, cm_loopback(0));
}

/* iWARP's ports are TCP's: where it is listened on, the port must be free there. */
static void expect_one_space(void)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = fresh(channel, RDMA_PS_TCP);
	int s = socket_at(SOCK_STREAM, any(0));

	REQUIRE(s >= 0);
	EXPECT_EQ(bind_to(id, any(port_of(s))), -1);
	EXPECT_EQ(errno, EADDRINUSE);
	close(s);
	EXPECT_EQ(bind_to(id, any(0)), 0);
	EXPECT_EQ(rdma_listen(id, 1), 0);
	EXPECT_EQ(socket_at(SOCK_STREAM, any(ntohs(rdma_get_src_port(id)))), -1);
	EXPECT_EQ(errno, EADDRINUSE);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_listen_on_iwarp_takes_the_port_of_tcp)
{
	bool is_set = getenv("WEFT_DEVICES");

	if (!is_set)
		REQUIRE(setenv("WEFT_DEVICES", "roce_*,iw_*", 1) == 0);
	expect_one_space();
	if (!is_set)
		REQUIRE(unsetenv("WEFT_DEVICES") == 0);
}

TEST(test_rdma_bind_addr_to_an_address_that_another_id_has)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *first = fresh(channel, RDMA_PS_TCP), *second, *third;
	struct sockaddr_in at = cm_loopback(0);
	int on = 1;

	if (!cm_is_roce())
		SKIP("TCP lets it be used again until it is listened at");
	second = fresh(channel, RDMA_PS_TCP);
	third = fresh(channel, RDMA_PS_UDP);
	REQUIRE(rdma_set_option(first, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)) ==
		0);
	REQUIRE(bind_to(first, at) == 0);
	at.sin_port = rdma_get_src_port(first);
	EXPECT_EQ(bind_to(second, at), -1);
	EXPECT_EQ(errno, EADDRINUSE);
	EXPECT_EQ(bind_to(second, any(ntohs(at.sin_port))), -1);
	EXPECT_EQ(errno, EADDRINUSE);
	EXPECT_EQ(bind_to(third, at), 0); /* another port space */
	/* Both must want it. */
	REQUIRE(rdma_set_option(second, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on,
				sizeof(on)) == 0);
	EXPECT_EQ(bind_to(second, at), 0);
	EXPECT_EQ(rdma_listen(first, 1), 0);
	EXPECT_EQ(rdma_listen(second, 1), -1);
	EXPECT_EQ(errno, EADDRINUSE);
	EXPECT_EQ(rdma_destroy_id(first), 0);
	EXPECT_EQ(rdma_destroy_id(second), 0);
	EXPECT_EQ(rdma_destroy_id(third), 0);
	second = fresh(channel, RDMA_PS_TCP);
	EXPECT_EQ(bind_to(second, at), 0); /* free again */
	EXPECT_EQ(rdma_destroy_id(second), 0);
	rdma_destroy_event_channel(channel);
}

static void expect_status(pid_t pid)
{
	int status = 0;

	REQUIRE(waitpid(pid, &status, 0) == pid);
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), OK_STATUS);
}

/* Bound is enough: nothing listens. */
TEST(test_rdma_bind_addr_to_a_port_of_another_process)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = fresh(channel, RDMA_PS_TCP);
	int up[2], down[2];
	uint16_t port = 0;
	pid_t pid;

	if (!cm_is_roce())
		SKIP("TCP lets it be used again until it is listened at");
	REQUIRE(pipe(up) == 0 && pipe(down) == 0);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		struct rdma_cm_id *other = fresh(cm_channel(), RDMA_PS_TCP);
		bool is_good = bind_to(other, cm_loopback(0)) == 0;

		port = ntohs(rdma_get_src_port(other));
		is_good = is_good && write(up[1], &port, sizeof(port)) == sizeof(port);
		close(down[1]);
		is_good = is_good && read(down[0], &port, sizeof(port)) == 0;
		_exit(is_good ? OK_STATUS : 1);
	}
	REQUIRE(read(up[0], &port, sizeof(port)) == sizeof(port));
	EXPECT_EQ(bind_to(id, cm_loopback(port)), -1);
	EXPECT_EQ(errno, EADDRINUSE);
	close(down[1]);
	expect_status(pid);
	EXPECT_EQ(bind_to(id, cm_loopback(port)), 0);
	close(up[0]);
	close(up[1]);
	close(down[0]);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* What a process releases is free, though a child of its has the socket still. */
TEST(test_rdma_bind_addr_to_a_port_of_before_fork)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = fresh(channel, RDMA_PS_TCP);
	struct sockaddr_in at = cm_loopback(0);
	int up[2], down[2];
	char c = 0;
	pid_t pid;

	REQUIRE(bind_to(id, at) == 0);
	at.sin_port = rdma_get_src_port(id);
	REQUIRE(pipe(up) == 0 && pipe(down) == 0);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		close(down[1]);
		_exit(write(up[1], &c, 1) == 1 && read(down[0], &c, 1) == 0 ? OK_STATUS : 1);
	}
	REQUIRE(read(up[0], &c, 1) == 1); /* the child is past fork() */
	EXPECT_EQ(rdma_destroy_id(id), 0);
	id = fresh(channel, RDMA_PS_TCP);
	EXPECT_EQ(bind_to(id, at), 0);
	EXPECT_EQ(rdma_listen(id, 1), 0);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	close(up[0]);
	close(up[1]);
	close(down[0]);
	close(down[1]);
	expect_status(pid);
	rdma_destroy_event_channel(channel);
}

/* How often processes that bind one port at once have come so far. */
struct race {
	atomic_int here, bound, tried, left;
	uint16_t port;
};

enum { RACERS = 2, ROUNDS = 2000, RACE_PORTS = 20000, MEET_S = 30 };

static time_t now_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* Until all have come here, in this round. One that failed never does: its parent is told. */
static void meet(atomic_int *count, int round)
{
	const time_t deadline_s = now_s() + MEET_S;

	atomic_fetch_add(count, 1);
	while (atomic_load(count) < RACERS * (round + 1)) {
		if (now_s() >= deadline_s)
			_exit(LATE_STATUS);
		sched_yield();
	}
}

static void race(struct race *r)
{
	struct rdma_event_channel *channel = cm_channel();
	bool is_good = true;

	for (int round = 0; round < ROUNDS; round++) {
		struct rdma_cm_id *id = fresh(channel, RDMA_PS_TCP);

		meet(&r->here, round);
		if (bind_to(id, cm_loopback(r->port)) == 0)
			atomic_fetch_add(&r->bound, 1);
		meet(&r->tried, round);
		is_good &= atomic_load(&r->bound) == round + 1; /* not two, and not none */
		is_good &= rdma_destroy_id(id) == 0;
		meet(&r->left, round);
	}
	_exit(is_good ? OK_STATUS : 1);
}

TEST(test_rdma_bind_addr_of_processes_at_once)
{
	struct race *r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			      -1, 0);
	pid_t pids[RACERS];

	if (!cm_is_roce())
		SKIP("TCP lets it be used again until it is listened at");
	REQUIRE(r != MAP_FAILED);
	/* The same test may run beside this one, of another build. */
	r->port = (uint16_t)(RACE_PORTS + getpid() % 10000);
	for (int i = 0; i < RACERS; i++) {
		pids[i] = fork();
		REQUIRE(pids[i] >= 0);
		if (pids[i] == 0)
			race(r);
	}
	for (int i = 0; i < RACERS; i++)
		expect_status(pids[i]);
	EXPECT_EQ(atomic_load(&r->bound), ROUNDS);
	munmap(r, sizeof(*r));
}

/* Below 1024 it takes the right that it takes for TCP. */
TEST(test_rdma_bind_addr_to_a_privileged_port)
{
	struct rdma_event_channel *channel = cm_channel();
	pid_t pid = fork();

	REQUIRE(pid >= 0);
	if (pid == 0) {
		struct rdma_cm_id *id;

		setenv("WEFT_LOG", "off", 1); /* RoCE's port is the other user's */
		if (geteuid() == 0 && setuid(NOBODY) != 0)
			_exit(1);
		id = fresh(cm_channel(), RDMA_PS_TCP);
		_exit(bind_to(id, cm_loopback(1023)) < 0 && errno == EACCES ? OK_STATUS : 1);
	}
	expect_status(pid);
	rdma_destroy_event_channel(channel);
}
