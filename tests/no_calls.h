/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread that may make no system call: whatever it calls ends its process with SIGSYS. */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

/* How the process of such a thread ends, if no call ends it. */
enum { NO_CALLS_GOOD = 0, NO_CALLS_FAILED, NO_CALLS_NONE = 3 };

/* From here on this thread may only leave. False if the system has no such filters. */
static inline bool forbid_calls(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	const struct sock_fprog program = { .len = sizeof(code) / sizeof(*code), .filter = code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

/*
 * Not _exit(), nor marked as a function that does not return: before those a sanitizer makes calls
 * of its own.
 */
static inline void leave(int status)
{
	for (;;)
		syscall(SYS_exit_group, status);
}

/* How a child that runs this ended; its death by a call is SIGSYS. */
static inline int child_status(void (*run)(void *context), void *context)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		run(context);
	REQUIRE(pid > 0);
	REQUIRE(waitpid(pid, &status, 0) == pid);
	return status;
}

/* Reads the clock where that must be no call. */
static inline void probe_calls(void *context)
{
	struct timespec ts;

	(void)context;
	if (!forbid_calls())
		leave(NO_CALLS_NONE);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	leave(NO_CALLS_GOOD);
}

/* NULL, or why a thread cannot be watched here. */
static inline const char *no_calls_why_not(void)
{
	int status = child_status(probe_calls, NULL);

	if (WIFSIGNALED(status))
		return "reading the clock is a system call on this machine";
	return WEXITSTATUS(status) == NO_CALLS_NONE ? "this system has no seccomp filters" : NULL;
}
