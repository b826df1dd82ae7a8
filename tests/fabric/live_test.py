#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""live_test.py WEFT: weft fabric run, Debian's opensm and infiniband-diags at nodes of it, and verbs programs.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import subprocess
import sys

sys.path[:0] = [os.path.dirname(os.path.realpath(__file__))]
from live import (Fabric, PATIENCE_S, WEFT, environment, expect, expect_equal, need, wait_until)  # noqa: E402
from script import main  # noqa: E402


def test_fab_22d_opensm_brings_a_fabric_up(folder):
    with Fabric(folder) as fabric:
        expect_equal("what runs", fabric.said,
                     "fabric %s: 5 endnodes, 3 switches, 0 routers, 8 cables\n" % fabric.name)
        expect(fabric.state("H1"), "State: Initializing" in fabric.state("H1"))
        manager = fabric.opensm("H1")
        fabric.await_active("H1", "H2", "H3", "H4", "H5")
        lids = [fabric.lid("H%d" % i) for i in range(1, 6)]
        expect_equal("LIDs of their own", len(set(lids)), 5)
        found = fabric.run("H2", "ibnetdiscover")
        expect_equal("nodes: " + found, (found.count("\nSwitch"), found.count("\nCa")), (3, 5))
        way = fabric.run("H2", "ibtracert", str(lids[1]), str(lids[3]))
        expect(way, '"S1"' in way and '"S2"' in way and "To ca" in way)
        answer = fabric.run("H3", "sminfo")
        expect(answer, "sm lid %d " % lids[0] in answer and "SMINFO_MASTER" in answer)
        manager.end()
        expect(manager.said(), "Exiting SM" in manager.said())


def test_fab_15_verbs_programs_move_data_through_switches(folder):
    need("ib_write_bw", "ibv_rc_pingpong")
    with Fabric(folder) as fabric:
        fabric.opensm("H1")
        fabric.await_active("H2", "H3")
        words = ["ib_write_bw", "-n", "200", "-p", str(20000 + os.getpid() % 20000)]
        server = fabric.start("H3", *words)
        said = ""

        def is_done():
            nonlocal said
            done = subprocess.run([WEFT, "run", "--node", "H2", *words, "localhost"], env=fabric.env(), text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=PATIENCE_S)
            said = done.stdout
            return done.returncode == 0

        wait_until(lambda: said, is_done)
        expect(said, "Link type       : IB" in said)
        server.succeeds()


def test_fabric_says_why_it_does_not_run(folder):
    def refused(*words):
        done = subprocess.run([WEFT, *words], env=environment(WEFT_FABRIC="none-%d" % os.getpid()), text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        expect(" ".join(words) + ": " + done.stdout, done.returncode != 0 and done.stdout == "")
        return done.stderr

    with Fabric(folder) as fabric:
        said = refused("fabric", "run", fabric.path, "--name", fabric.name)
        expect(said, "(fabric_taken)" in said)
        said = fabric.run("H9", "ibstat", status=125)
        expect(said, said.startswith("weft run: --node H9: ") and "(fabric_node)" in said)
        expect_equal("cut", fabric.weft("cut", "S1"), "4 cables\n")
        expect(fabric.state("H1"), "State: Down" in fabric.state("H1"))
        expect_equal("mend", fabric.weft("mend", "S1:1"), "1 cable\n")
        expect(fabric.state("H1"), "State: Initializing" in fabric.state("H1"))
    for words in (["run"], ["run", "a", "b"], ["run", "x", "--name", ""], ["cut"], ["cut", ":1"], ["cut", "S1:0"],
                  ["cut", "S1:x"], ["cut", "S1:1", "2"], ["errors", "S1:1"], ["degrade", "S1:1", "0"], ["what"], []):
        expect(repr(words), "usage: weft fabric" in refused("fabric", *words))
    expect("absent", "(fabric_absent)" in refused("fabric", "cut", "S1"))
    expect("absent", "(fabric_absent)" in refused("run", "--node", "H1", "true"))
    expect("file", "No such file" in refused("fabric", "run", folder + "/none"))


main(globals())
