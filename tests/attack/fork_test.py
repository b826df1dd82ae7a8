#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fork_test.py BUILD_DIR: a child by the system call, past fork(), exits in the middle of a connection.

No attacker, but harm of the same kind: the child has its parent's sockets, and its exit() ran the library's
last words over them. The victim is Debian's rping, into which a library is preloaded that makes such a child
whenever SIGUSR1 comes.
"""
import os
import signal
import sys

from attack import Children, compile_c, expect, main, need, network, until

BUILD = os.path.realpath(sys.argv[1])
WEFT = os.path.join(BUILD, "weft")
CHILDREN = 3
BYTES = 4000  # of a ping, and of the line that shows it
PINGS = 100  # lines: more than the buffers hold that lie between rping and this

SHIM = """
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The handler returns when the child is gone; a process that hangs at its end is killed by alarm(). */
static void make_child(int number)
{
	long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	int status;

	(void)number;
	if (child == 0) {
		signal(SIGALRM, SIG_DFL);
		alarm(10);
		exit(0);
	}
	waitpid((pid_t)child, &status, 0);
	(void)!write(2, "child gone\\n", 11);
}

__attribute__((constructor)) static void prepare(void)
{
	struct sigaction sa = { .sa_handler = make_child, .sa_flags = SA_RESTART };

	sigaction(SIGUSR1, &sa, 0);
}
"""


def rping(start, *words, **wishes):
    return start(WEFT, "run", "rping", "-a", "127.0.0.1", "-p", "7181", "-S", str(BYTES), *words,
                 WEFT_DEVICES="roce_*", **wishes)


def test_a_child_by_the_system_call_ends_no_connection_of_its_parent(folder):
    need("rping", "gcc")
    network()
    shim = compile_c(os.path.join(folder, "shim.so"), SHIM, "-shared", "-fPIC")
    with Children() as start:
        server = rping(start, "-s")  # it says nothing, so nothing need be read
        name = "weft.roce.service."
        until("the server listens", lambda: name in open("/proc/net/unix").read())
        client = rping(start, "-c", "-v", LD_PRELOAD=shim)
        expect("the client pings", "ping" in client.stdout.readline())
        for _ in range(CHILDREN):
            os.kill(client.pid, signal.SIGUSR1)
            expect("the child is gone", "child gone" in client.stderr.readline())
            for _ in range(PINGS):
                line = client.stdout.readline()
                expect("the client pings on", line != "")
        expect("both are there", client.poll() is None and server.poll() is None)


main(globals())
