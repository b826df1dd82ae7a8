/* SPDX-License-Identifier: BSD-2-Clause */
/* System calls of a verbs program that polls: its main thread is traced, and they are counted. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"
#include "unit/compat/cm_fixture.h"

/*
 * MARK: a call that no poll makes, between two polls. MORE: polls that may make more calls than
 * one. While it stands by, the progress thread has one poll in eight at most ask about all
 * connections, and has the lock itself for a moment: a poll that meets it waits. How many do so
 * depends on how fast polls are; a second call in every poll would be all of them.
 */
enum { CALL = SIGTRAP | 0x80, MARK = SYS_getppid };
enum { PAIRS = 20, POLLS = 500, MORE = POLLS / 4, UNABLE = 77 };

/* A zero-length Write: the initiator repeats its own until it has received something. */
static void say_something(struct rdma_cm_id *id)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	REQUIRE(ibv_post_send(id->qp, &wr, &bad) == 0);
	while (ibv_poll_cq(id->send_cq, 1, &wc) == 0)
		sched_yield();
}

/* Signals mark where counting begins and ends; what the tracer lets pass of them is nothing. */
static void polling_child(void)
{
	struct cm_pair pairs[PAIRS];
	struct ibv_wc wc;
	int found = 0;

	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(UNABLE);
	for (int i = 0; i < PAIRS; i++) {
		cm_pair_make(&pairs[i]);
		say_something(pairs[i].far);
	}
	/* What is left of connecting is sent first. */
	for (int i = 0; i < POLLS; i++)
		found += ibv_poll_cq(pairs[0].near->send_cq, 1, &wc);
	raise(SIGUSR1);
	(void)syscall(MARK);
	for (int i = 0; i < POLLS; i++) {
		found += ibv_poll_cq(pairs[0].near->send_cq, 1, &wc);
		(void)syscall(MARK);
	}
	raise(SIGUSR1);
	_exit(found);
}

struct counted {
	int marks, yields;
	int calls; /* since the last mark */
	int dear;  /* polls that made more than one */
};

/* The call that it is about to make, or -1. */
static long call_number(pid_t pid)
{
	struct __ptrace_syscall_info info = { 0 };

	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return -1;
	return (long)info.entry.nr;
}

static void count(struct counted *c, long number)
{
	if (number != MARK) {
		c->calls += number >= 0;
		c->yields += number == SYS_sched_yield;
		return;
	}
	c->dear += c->marks++ > 0 && c->calls > 1;
	c->calls = 0;
}

/* Lets it run to the next stop by that signal, and counts on the way. False: it ended. */
static bool count_until_signal(pid_t pid, struct counted *c)
{
	int status, pass = 0;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(intptr_t)pass) < 0 ||
		    waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
			return false;
		if (WSTOPSIG(status) == SIGUSR1)
			return true;
		pass = WSTOPSIG(status) == CALL ? 0 : WSTOPSIG(status);
		if (WSTOPSIG(status) == CALL)
			count(c, call_number(pid));
	}
}

TEST(test_ibv_poll_cq_of_an_empty_queue_makes_at_most_one_system_call)
{
	pid_t pid = fork();
	struct counted c = { 0 };
	int status;

	if (pid == 0)
		polling_child();
	REQUIRE(pid > 0);
	do {
		REQUIRE(waitpid(pid, &status, 0) == pid);
		if (WIFEXITED(status) && WEXITSTATUS(status) == UNABLE)
			SKIP("this system does not let a process be traced");
		REQUIRE(WIFSTOPPED(status));
		if (WSTOPSIG(status) != SIGUSR1)
			REQUIRE(ptrace(PTRACE_CONT, pid, NULL,
				       (void *)(intptr_t)WSTOPSIG(status)) == 0);
	} while (WSTOPSIG(status) != SIGUSR1);
	REQUIRE(ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)(intptr_t)PTRACE_O_TRACESYSGOOD) == 0);
	REQUIRE(count_until_signal(pid, &c));
	EXPECT_EQ(c.marks, POLLS + 1);
	/* The process that it waits for may need this core. */
	EXPECT(c.yields > 0 && c.yields < POLLS / 10);
	EXPECT(c.dear <= MORE);
	REQUIRE(ptrace(PTRACE_CONT, pid, NULL, NULL) == 0);
	REQUIRE(waitpid(pid, &status, 0) == pid);
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 0); /* it found nothing */
}
