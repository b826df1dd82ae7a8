/* SPDX-License-Identifier: BSD-2-Clause */
/* System calls of a verbs program that polls: its main thread is traced, and they are counted. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"
#include "unit/compat/cm_fixture.h"

/*
 * OTHER: calls of raise(), and those that wait for the lock when the progress thread has it. A
 * second call in every poll would be ten times as many.
 */
enum { CALL = SIGTRAP | 0x80, PAIRS = 20, POLLS = 500, OTHER = POLLS / 10, UNABLE = 77 };

/* Signals mark where counting begins and ends; what the tracer lets pass of them is nothing. */
static void polling_child(void)
{
	struct cm_pair pairs[PAIRS];
	struct ibv_wc wc;
	int found = 0;

	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(UNABLE);
	for (int i = 0; i < PAIRS; i++)
		cm_pair_make(&pairs[i]);
	/* What is left of connecting is sent first. */
	for (int i = 0; i < POLLS; i++)
		found += ibv_poll_cq(pairs[0].near->send_cq, 1, &wc);
	raise(SIGUSR1);
	for (int i = 0; i < POLLS; i++)
		found += ibv_poll_cq(pairs[0].near->send_cq, 1, &wc);
	raise(SIGUSR1);
	_exit(found);
}

static bool is_yielding(pid_t pid)
{
	struct __ptrace_syscall_info info = { 0 };

	return ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(info), &info) > 0 &&
	       info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == SYS_sched_yield;
}

/* Lets it run to the next stop by that signal, and counts its calls on the way. -1: it ended. */
static int calls_until_signal(pid_t pid, int *yields)
{
	int stops = 0, status, pass = 0;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(intptr_t)pass) < 0 ||
		    waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
			return -1;
		if (WSTOPSIG(status) == SIGUSR1)
			return stops / 2;
		pass = WSTOPSIG(status) == CALL ? 0 : WSTOPSIG(status);
		stops += WSTOPSIG(status) == CALL;
		*yields += WSTOPSIG(status) == CALL && is_yielding(pid);
	}
}

TEST(test_ibv_poll_cq_of_an_empty_queue_makes_at_most_one_system_call)
{
	pid_t pid = fork();
	int status, calls, yields = 0;

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
	calls = calls_until_signal(pid, &yields);
	EXPECT(calls > 0);
	/* Whoever it waits for may need this core. */
	EXPECT(yields > 0 && yields < POLLS / 10);
	EXPECT(calls <= POLLS + OTHER);
	REQUIRE(ptrace(PTRACE_CONT, pid, NULL, NULL) == 0);
	REQUIRE(waitpid(pid, &status, 0) == pid);
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 0); /* it found nothing */
}
