/* SPDX-License-Identifier: BSD-2-Clause */
/* fork() in programs that have connections: they stay the parent's, and its alone. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"
#include "unit/compat/cm_fixture.h"

enum { OK_STATUS = 42 };

/* The thread sanitizer is not told of a child by the system call, and takes it for its parent. */
#if defined(__has_feature)
enum { IS_CHILD_MISTAKEN = __has_feature(thread_sanitizer) };
#else
enum { IS_CHILD_MISTAKEN = 0 };
#endif

/* The child leaves as most do: what the libraries do as a process ends is done too. */
static void leave(bool is_good)
{
	exit(is_good ? OK_STATUS : 1);
}

static void expect_good(pid_t pid)
{
	int status = 0;

	REQUIRE(waitpid(pid, &status, 0) > 0);
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), OK_STATUS);
}

static uint8_t buffer[2][64];

/* One Send from near to far, by memory that is registered for it. */
static bool send_one(struct cm_pair *p, const char *text)
{
	struct ibv_mr *from = rdma_reg_msgs(p->near, buffer[0], sizeof(buffer[0]));
	struct ibv_mr *to = rdma_reg_msgs(p->far, buffer[1], sizeof(buffer[1]));
	struct ibv_wc wc;
	bool is_good = from && to;

	memset(buffer, 0, sizeof(buffer));
	strcpy((char *)buffer[0], text);
	is_good = is_good && rdma_post_recv(p->far, NULL, buffer[1], sizeof(buffer[1]), to) == 0 &&
		  rdma_post_send(p->near, NULL, buffer[0], sizeof(buffer[0]), from, 0) == 0 &&
		  rdma_get_send_comp(p->near, &wc) == 1 && wc.status == IBV_WC_SUCCESS &&
		  rdma_get_recv_comp(p->far, &wc) == 1 && wc.status == IBV_WC_SUCCESS &&
		  strcmp((char *)buffer[1], text) == 0;
	if (from)
		rdma_dereg_mr(from);
	if (to)
		rdma_dereg_mr(to);
	return is_good;
}

TEST(test_fork_a_child_that_ends_leaves_the_connection_alone)
{
	struct cm_pair p;

	cm_pair_make(&p);
	for (int i = 0; i < 5; i++) {
		pid_t pid = fork();

		if (pid == 0)
			leave(true);
		expect_good(pid);
		EXPECT(send_one(&p, "after"));
	}
	cm_expect_none(p.near_channel);
	cm_expect_none(p.far_channel);
	cm_pair_free(&p);
}

TEST(test_fork_a_child_makes_connections_of_its_own)
{
	struct cm_pair p;
	pid_t pid;

	cm_pair_make(&p);
	pid = fork();
	if (pid == 0) {
		struct cm_pair own;

		cm_pair_make(&own);
		leave(send_one(&own, "the child's"));
	}
	EXPECT(send_one(&p, "the parent's, meanwhile"));
	expect_good(pid);
	EXPECT(send_one(&p, "and after"));
	cm_pair_free(&p);
}

/* Whatever it tries: an error, or nothing; the parent does not notice. */
static bool misuse(struct cm_pair *p)
{
	struct ibv_sge sge = { .addr = (uintptr_t)buffer[0], .length = 8 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	struct ibv_mr *mr = ibv_reg_mr(p->near->pd, buffer[0], sizeof(buffer[0]), 0);
	struct rdma_cm_id *another = NULL;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;
	bool is_good = true;

	if (mr) {
		sge.lkey = mr->lkey;
		(void)ibv_post_send(p->near->qp, &wr, &bad);
	}
	for (int i = 0; i < 100; i++) {
		if (ibv_poll_cq(p->near->send_cq, 1, &wc) > 0)
			is_good &= wc.status != IBV_WC_SUCCESS;
	}
	(void)ibv_req_notify_cq(p->near->send_cq, 0);
	(void)ibv_modify_qp(p->near->qp, &attr, IBV_QP_STATE);
	(void)rdma_disconnect(p->far);
	if (mr)
		is_good &= ibv_dereg_mr(mr) == 0;
	/* An id that the parent made, and never used. */
	if (rdma_create_id(p->near_channel, &another, NULL, RDMA_PS_TCP) == 0)
		is_good &= rdma_destroy_id(another) == 0;
	rdma_destroy_qp(p->near);
	return is_good;
}

TEST(test_fork_a_child_that_uses_what_is_its_parents)
{
	struct cm_pair p;
	pid_t pid;

	cm_pair_make(&p);
	pid = fork();
	if (pid == 0)
		leave(misuse(&p));
	expect_good(pid);
	EXPECT(send_one(&p, "after"));
	cm_expect_none(p.near_channel);
	cm_expect_none(p.far_channel);
	cm_pair_free(&p);
}

/* A process dials, forks a child that outlives it, and is killed. */
static void dial_and_fork(uint16_t port, const int *alive)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id seen = { 0 };

	seen.route.addr.src_sin = cm_loopback(port);
	if (rdma_connect(cm_dialler(channel, &seen), NULL) != 0 || !cm_event(channel))
		_exit(1);
	if (fork() == 0) {
		char byte;

		/* Until the test is over. */
		close(alive[1]);
		(void)!read(alive[0], &byte, 1);
		_exit(0);
	}
	for (;;)
		pause();
}

/* A context that a child inherits is none of those that its own devices count. */
TEST(test_fork_a_child_closes_its_parents_context_and_keeps_its_own)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *inherited, *own;
	struct ibv_pd *pd;
	pid_t pid;

	REQUIRE(list && list[0]);
	inherited = ibv_open_device(list[0]);
	REQUIRE(inherited);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		own = ibv_open_device(list[0]);
		ibv_free_device_list(list);
		(void)ibv_close_device(inherited);
		pd = own ? ibv_alloc_pd(own) : NULL;
		leave(pd && ibv_dealloc_pd(pd) == 0 && ibv_close_device(own) == 0);
	}
	expect_good(pid);
	pd = ibv_alloc_pd(inherited);
	REQUIRE(pd);
	EXPECT_EQ(ibv_dealloc_pd(pd), 0);
	EXPECT_EQ(ibv_close_device(inherited), 0);
	ibv_free_device_list(list);
}

TEST(test_fork_a_peer_learns_of_a_parents_death_though_its_child_lives)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener, *id;
	int alive[2], ports[2], status;
	uint16_t port;
	pid_t pid;

	REQUIRE(pipe(alive) == 0 && pipe(ports) == 0);
	/* Before this process has anything that the other would inherit. */
	pid = fork();
	if (pid == 0) {
		if (read(ports[0], &port, sizeof(port)) != sizeof(port))
			_exit(1);
		close(ports[1]);
		dial_and_fork(port, alive);
	}
	channel = cm_channel();
	listener = cm_listener(channel);
	port = ntohs(rdma_get_src_port(listener));
	REQUIRE(write(ports[1], &port, sizeof(port)) == sizeof(port));
	id = cm_accept(channel);
	cm_expect(channel, RDMA_CM_EVENT_ESTABLISHED);
	EXPECT_EQ(kill(pid, SIGKILL), 0);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	cm_expect(channel, RDMA_CM_EVENT_DISCONNECTED);
	close(alive[0]);
	close(alive[1]); /* the child of the one that was killed ends as well */
	close(ports[0]);
	close(ports[1]);
	rdma_destroy_qp(id);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	EXPECT_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

/* ---- Ports ---------------------------------------------------------------------------------- */

static struct rdma_cm_id *reusing(bool may_reuse)
{
	struct rdma_cm_id *id;
	int on = may_reuse;

	REQUIRE(rdma_create_id(cm_channel(), &id, NULL, RDMA_PS_TCP) == 0);
	REQUIRE(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)) ==
		0);
	return id;
}

/* 0 or an errno. */
static int bind_at(struct rdma_cm_id *id, uint16_t port)
{
	struct sockaddr_in at = cm_loopback(port);

	return rdma_bind_addr(id, (struct sockaddr *)(void *)&at) == 0 ? 0 : errno;
}

/* As another process sees it: the id is new, and goes. */
static int bind_once(uint16_t port, bool may_reuse)
{
	struct rdma_cm_id *id = reusing(may_reuse);
	int error = bind_at(id, port);

	REQUIRE(rdma_destroy_id(id) == 0);
	return error;
}

static pid_t child_of(bool is_by_system_call)
{
	return is_by_system_call ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
}

/* Tells a port that it holds, and has a child that outlives it. */
static void hold_and_fork(int tell, const int *alive, bool is_by_system_call)
{
	struct rdma_cm_id *id = reusing(false);
	uint16_t port;
	char byte = 0;

	if (bind_at(id, 0) != 0)
		_exit(1);
	port = ntohs(rdma_get_src_port(id));
	close(alive[1]);
	if (child_of(is_by_system_call) == 0) {
		/* Its first call. Then it stays until the test is over. */
		if (!rdma_create_event_channel() || write(tell, &port, sizeof(port)) < 0)
			_exit(1);
		(void)!read(alive[0], &byte, 1);
		_exit(OK_STATUS);
	}
	(void)!read(alive[0], &byte, 1);
	_exit(0);
}

static void expect_kept_by_both(bool is_by_system_call)
{
	int alive[2], port_pipe[2], status;
	uint16_t port;
	pid_t pid;

	REQUIRE(pipe(alive) == 0 && pipe(port_pipe) == 0);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0)
		hold_and_fork(port_pipe[1], alive, is_by_system_call);
	close(port_pipe[1]);
	REQUIRE(read(port_pipe[0], &port, sizeof(port)) == sizeof(port));
	EXPECT_EQ(bind_once(port, false), EADDRINUSE);
	EXPECT_EQ(kill(pid, SIGKILL), 0);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(bind_once(port, false), EADDRINUSE);
	close(alive[0]);
	close(alive[1]);
	expect_good(-1); /* the child of the one that was killed */
	EXPECT_EQ(bind_once(port, false), 0);
	close(port_pipe[0]);
}

/* As in the kernel, where the open file has it: it is free when both are gone. */
TEST(test_fork_a_port_is_its_parents_and_its_childs)
{
	if (!cm_is_roce())
		SKIP("ports of iWARP are TCP's");
	REQUIRE(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	expect_kept_by_both(false);
	if (!IS_CHILD_MISTAKEN)
		expect_kept_by_both(true);
	REQUIRE(prctl(PR_SET_CHILD_SUBREAPER, 0) == 0);
}

/* A child that takes turns with its parent, which begins. */
struct turns {
	int to_child[2], to_parent[2];
};

static void turn_end(const int *pipe)
{
	REQUIRE(write(pipe[1], "", 1) == 1);
}

static void turn_await(const int *pipe)
{
	char byte;

	REQUIRE(read(pipe[0], &byte, 1) == 1);
}

/* It releases what it has from its parent: that is the parent's still. */
static bool child_shares(const struct turns *t, struct rdma_cm_id *parents, uint16_t port)
{
	struct rdma_cm_id *own = reusing(true);
	bool is_good = bind_once(port, false) == EADDRINUSE && bind_at(own, port) == 0;

	is_good = is_good && rdma_destroy_id(parents) == 0;
	turn_end(t->to_parent);
	turn_await(t->to_child);
	return is_good;
}

/* In the kernel the option is of ids, whatever process has them. */
TEST(test_fork_a_child_shares_a_port_if_both_may_reuse_it)
{
	struct rdma_cm_id *id = reusing(true);
	struct turns t;
	uint16_t port;
	pid_t pid;

	if (!cm_is_roce())
		SKIP("ports of iWARP are TCP's");
	REQUIRE(pipe(t.to_child) == 0 && pipe(t.to_parent) == 0);
	REQUIRE(bind_at(id, 0) == 0);
	port = ntohs(rdma_get_src_port(id));
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		close(t.to_child[1]);
		leave(child_shares(&t, id, port));
	}
	turn_await(t.to_parent);
	EXPECT_EQ(bind_once(port, false), EADDRINUSE);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	/* What the child bound itself is not released by its parent. */
	EXPECT_EQ(bind_once(port, true), EADDRINUSE);
	turn_end(t.to_child);
	expect_good(pid);
	EXPECT_EQ(bind_once(port, false), 0);
}

static bool child_binds_what_is_released(const struct turns *t, uint16_t port)
{
	bool is_good = bind_once(port, true) == EADDRINUSE;
	struct rdma_cm_id *own = reusing(false);

	turn_end(t->to_parent);
	turn_await(t->to_child);
	is_good = is_good && bind_at(own, port) == 0;
	turn_end(t->to_parent);
	turn_await(t->to_child);
	return is_good;
}

TEST(test_fork_a_child_has_a_port_no_more_that_its_parent_released)
{
	struct rdma_cm_id *id = reusing(false);
	struct turns t;
	uint16_t port;
	pid_t pid;

	if (!cm_is_roce())
		SKIP("ports of iWARP are TCP's");
	REQUIRE(pipe(t.to_child) == 0 && pipe(t.to_parent) == 0);
	REQUIRE(bind_at(id, 0) == 0);
	port = ntohs(rdma_get_src_port(id));
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		close(t.to_child[1]);
		leave(child_binds_what_is_released(&t, port));
	}
	turn_await(t.to_parent);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	turn_end(t.to_child);
	turn_await(t.to_parent);
	EXPECT_EQ(bind_once(port, false), EADDRINUSE);
	turn_end(t.to_child);
	expect_good(pid);
	EXPECT_EQ(bind_once(port, false), 0);
}
