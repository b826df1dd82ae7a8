/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_get_cq_event(3) and the descriptor of its channel. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"
#include "unit/compat/loop_fixture.h"

static bool is_readable(const struct loop *l)
{
	struct pollfd p = { .fd = l->channel->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* One completion, and the event that it makes. */
static void make_event(struct loop *l)
{
	struct ibv_wc wc;

	REQUIRE(ibv_req_notify_cq(l->cq, 0) == 0);
	REQUIRE(loop_write_nothing(l) == 0);
	REQUIRE(ibv_poll_cq(l->cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
}

static void expect_event(struct loop *l)
{
	struct ibv_cq *cq;
	void *context;

	REQUIRE(is_readable(l));
	REQUIRE(ibv_get_cq_event(l->channel, &cq, &context) == 0);
	EXPECT(cq == l->cq);
	ibv_ack_cq_events(cq, 1);
}

TEST(test_ibv_get_cq_event_tells_each_one_and_each_makes_an_edge)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct ibv_cq *cq;
	struct loop l;
	void *context;

	loop_make(&l);
	EXPECT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, l.channel->fd, &e), 0);
	EXPECT(!is_readable(&l));
	make_event(&l);
	EXPECT_EQ(epoll_wait(epoll, &e, 1, 0), 1);
	EXPECT_EQ(epoll_wait(epoll, &e, 1, 0), 0);
	make_event(&l);
	EXPECT_EQ(epoll_wait(epoll, &e, 1, 0), 1);
	expect_event(&l);
	expect_event(&l);
	EXPECT(!is_readable(&l));
	EXPECT_EQ(fcntl(l.channel->fd, F_SETFL, O_NONBLOCK), 0);
	EXPECT_EQ(ibv_get_cq_event(l.channel, &cq, &context), -1);
	EXPECT_EQ(errno, EAGAIN);
	close(epoll);
	loop_free(&l);
}

/* A thread that finds the descriptor readable and then waits for the event would block for ever. */
TEST(test_ibv_destroy_cq_leaves_nothing_to_read)
{
	struct loop l;

	loop_make(&l);
	make_event(&l);
	EXPECT(is_readable(&l));
	EXPECT_EQ(ibv_destroy_qp(l.near), 0);
	EXPECT_EQ(ibv_destroy_qp(l.far), 0);
	EXPECT_EQ(ibv_destroy_cq(l.cq), 0);
	EXPECT(!is_readable(&l));
	EXPECT_EQ(ibv_destroy_comp_channel(l.channel), 0);
	EXPECT_EQ(ibv_dealloc_pd(l.pd), 0);
	EXPECT_EQ(ibv_close_device(l.context), 0);
}

static atomic_bool is_posted;

/* A cancellation point in it would end the thread there. */
static void *post_cancelled(void *context)
{
	(void)pthread_cancel(pthread_self());
	if (loop_write_nothing(context) == 0)
		atomic_store(&is_posted, true);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return NULL;
}

/* As rping ends its thread: it may be inside of any verb, which holds locks. */
TEST(test_ibv_post_send_of_a_cancelled_thread_goes_to_its_end)
{
	struct loop l;
	pthread_t thread;

	loop_make(&l);
	REQUIRE(ibv_req_notify_cq(l.cq, 0) == 0);
	REQUIRE(pthread_create(&thread, NULL, post_cancelled, &l) == 0);
	REQUIRE(pthread_join(thread, NULL) == 0);
	EXPECT(atomic_load(&is_posted));
	expect_event(&l);
	loop_free(&l);
}

/* A child that destroys what it has from its parent takes nothing from it. */
TEST(test_fork_a_child_that_destroys_its_copies_leaves_the_parents_event)
{
	struct loop l;
	int status = 0;
	pid_t pid;

	loop_make(&l);
	make_event(&l);
	pid = fork();
	if (pid == 0) {
		loop_free(&l);
		_exit(0);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	expect_event(&l);
	loop_free(&l);
}

/* man ibv_req_notify_cq: armed for solicited completions, every kind of message notifies. */
TEST(test_ibv_req_notify_cq_solicited_hears_of_each_kind_of_message)
{
	static const enum ibv_wr_opcode kinds[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						    IBV_WR_RDMA_WRITE_WITH_IMM };
	struct loop l;

	loop_make(&l);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct ibv_send_wr *bad, wr = { .opcode = kinds[i] };
		struct ibv_recv_wr *bad_recv, recv = { 0 };
		struct ibv_wc wc;

		for (int is_solicited = 0; is_solicited < 2; is_solicited++) {
			wr.send_flags = is_solicited ? IBV_SEND_SOLICITED : 0;
			REQUIRE(ibv_req_notify_cq(l.cq, 1) == 0);
			REQUIRE(ibv_post_recv(l.far, &recv, &bad_recv) == 0);
			REQUIRE(ibv_post_send(l.near, &wr, &bad) == 0);
			REQUIRE(ibv_poll_cq(l.cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
			EXPECT_EQ(is_readable(&l), is_solicited);
		}
		expect_event(&l);
	}
	loop_free(&l);
}
