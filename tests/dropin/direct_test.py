#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""direct_test.py BUILD_DIR SOURCE_DIR: <weft/weft_dv.h> as programs use it.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import subprocess
import sys

from script import PATIENCE_S, compile_c, environment, expect, expect_equal, main, need, run

BUILD, SOURCE = (os.path.realpath(a) for a in sys.argv[1:3])
EXAMPLE = os.path.join(BUILD, "examples/verbs_one_touch")
LIBRARY = os.path.join(BUILD, "libibverbs.so.1")

ASKS = """
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <weft/weft_dv.h>

int main(void)
{
	bool (*is_weft)(struct ibv_device *) = dlsym(RTLD_DEFAULT, "weftdv_device_is_weft");
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (is_weft && count > 0)
		return puts(is_weft(list[0]) ? "weft" : "other") < 0;
	return puts("no weft here") < 0;
}
"""

LINKS = """
#include <infiniband/verbs.h>
#include <stdio.h>
#include <weft/weft_dv.h>

int main(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	return count < 1 || !weftdv_device_is_weft(list[0]) || weftdv_device_is_weft(NULL);
}
"""


def calls():
    """Names that the header declares."""
    with open(os.path.join(SOURCE, "include/weft/weft_dv.h")) as f:
        return set(re.findall(r"^[^ /*\t][^;]*?\b(weftdv_\w+)\(", f.read(), re.M))


def test_direct_example_says_why_the_second_touch_failed(_):
    env = environment(LD_LIBRARY_PATH=BUILD)
    owner = subprocess.Popen([EXAMPLE, "listen", "0"], env=env, text=True, stdout=subprocess.PIPE)
    try:
        port = re.search(r"ready at port (\d+)", owner.stdout.readline())
        expect("the owner is ready", port)
        peer = run(EXAMPLE, "dial", "127.0.0.1", port[1], LD_LIBRARY_PATH=BUILD)
        said = owner.communicate(timeout=PATIENCE_S)[0].splitlines()
    finally:
        owner.kill()
        owner.wait()
    expect_equal("the peer: " + peer.stderr, peer.returncode, 0)
    expect_equal("the peer says", peer.stdout.splitlines(),
                 ["peer:  writes: success", "peer:  reads it back: remote access error (peer_rights)"])
    expect_equal("the owner's status", owner.returncode, 0)
    expect_equal("the owner says", said,
                 ['owner: holds "first and only"',
                  "owner: why it is over: The one touch of this entry has been used; bind it again "
                  "to allow another transfer."])


def test_trn_s1_rd_03_example_counts_queue_pairs_and_contexts(_):
    example = run(os.path.join(BUILD, "examples/rd_all_to_all"))
    expect_equal("status: " + example.stderr, example.returncode, 0)
    expect_equal("it says", example.stdout.splitlines(),
                 ["reliable datagrams: 108 messages, a node has 3 queue pairs and "
                  "3 end-to-end contexts",
                  "connections:        108 messages, a node has 27 queue pairs and "
                  "0 end-to-end contexts"])


def test_direct_calls_have_a_version_of_their_own(_):
    text = run("nm", "-D", "--defined-only", "--with-symbol-versions", LIBRARY).stdout
    exported = dict(re.findall(r" T (weftdv_\w+)@+(\S+)", text))
    expect("there are some", len(exported) > 5)
    expect_equal("nodes", set(exported.values()), {"WEFT_DV_1.0"})
    expect_equal("names", set(exported), calls())


def test_direct_calls_are_all_described(_):
    with open(os.path.join(SOURCE, "docs/direct-verbs.md")) as f:
        page = f.read()
    expect_equal("not described", {c for c in calls() if "`%s(" % c not in page}, set())


def test_direct_program_links_with_libibverbs_alone(folder):
    need("gcc")
    path = compile_c(os.path.join(folder, "links"), LINKS, "-Wall", "-Werror",
                     "-I" + os.path.join(SOURCE, "include"), "-L" + BUILD, "-libverbs")
    expect_equal("status", run(path, LD_LIBRARY_PATH=BUILD).returncode, 0)


def test_direct_program_asks_by_dlsym_and_runs_elsewhere(folder):
    need("gcc")
    path = compile_c(os.path.join(folder, "asks"), ASKS, "-I" + os.path.join(SOURCE, "include"),
                     "-libverbs", "-ldl")
    expect_equal("on weft", run(path, LD_LIBRARY_PATH=BUILD).stdout, "weft\n")
    expect_equal("on another", run(path).stdout, "no weft here\n")


main(globals())
