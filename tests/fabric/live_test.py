#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""live_test.py WEFT: weft fabric run, Debian's opensm and infiniband-diags at nodes of it, and verbs programs.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path[:0] = [os.path.dirname(os.path.realpath(__file__))]
from live import (Fabric, HOSTS, PATIENCE_S, WEFT, environment, expect, expect_equal, meet, need, up)  # noqa: E402
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


def test_ud_02_opensm_finds_and_brings_up_switches_routers_and_endnodes(folder):
    text = 'Switch 8 "S1"\n[1] "H1"[1]\n[2] "R1"[1]\n[3] "H2"[1]\nHca 1 "H1"\nHca 1 "H2"\nRt 2 "R1"\n'
    with Fabric(folder, text=text) as fabric:
        up(fabric)
        fabric.await_active("H1", "H2")
        found = fabric.run("H2", "ibnetdiscover")
        expect_equal("nodes: " + found, [found.count("\n" + kind) for kind in ("Switch", "Rt", "Ca")], [1, 1, 2])
        lid = re.search(r'"R1" lid (\d+) ', found)[1]
        said = fabric.run("H2", "smpquery", "portinfo", lid, "1")
        expect(said, "LinkState:.......................Active" in said)
        said = fabric.run("H2", "saquery", "NR")
        expect(said, said.count("node_type...............") == 4 and "node_type...............Router" in said)


def test_fab_15_verbs_programs_move_data_through_switches(folder):
    need("ib_write_bw", "ibv_rc_pingpong")
    with Fabric(folder) as fabric:
        up(fabric)
        fabric.await_active("H2", "H3")
        said = meet(fabric, "H3", "H2", "ib_write_bw", "-n", "200")
        expect(said, "Link type       : IB" in said)


def test_fab_15_a_capture_has_the_frames_of_a_port(folder):
    need("ibv_rc_pingpong")
    path = os.path.join(folder, "capture")
    with Fabric(folder) as fabric:
        up(fabric)
        capture = fabric.weft_start("capture", "H3:1", path)
        capture.await_line("capturing to")
        meet(fabric, "H3", "H2", "ibv_rc_pingpong", "-n", "10")
        lids = fabric.lid("H2"), fabric.lid("H3")
        capture.end()
        expect(capture.said(), re.search(r"\n\d+ frames, 0 lost", capture.said()))
        dump = subprocess.run([WEFT, "dump", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        expect(dump.stdout, "LID %d > %d, lane 0" % lids in dump.stdout and "RC SEND" in dump.stdout)
        expect(dump.stdout, dump.stdout.endswith("all RDMA traffic decoded\n"))
        if shutil.which("tshark"):
            seen = subprocess.run(["tshark", "-r", path, "-Y", "infiniband.bth.opcode == 0x11", "-T", "fields", "-e",
                                   "infiniband.lrh.slid"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            expect_equal("acknowledgements from", set(seen.stdout.split()), {str(lid) for lid in lids})


def test_fab_15_a_capture_that_ends_has_all_that_passed_before(folder):
    need("ibv_rc_pingpong")
    path = os.path.join(folder, "capture")
    with Fabric(folder) as fabric:
        up(fabric)
        fabric.await_active("H2", "H3")
        capture = fabric.weft_start("capture", "H3:1", path)
        capture.await_line("capturing to")
        capture.process.send_signal(signal.SIGSTOP)
        meet(fabric, "H3", "H2", "ibv_rc_pingpong", "-n", "10")
        capture.process.send_signal(signal.SIGTERM)
        capture.process.send_signal(signal.SIGCONT)
        capture.process.wait(timeout=PATIENCE_S)
        frames = int(re.search(r"(\d+) frames, 0 lost", capture.said())[1])
        expect(capture.said(), frames >= 20)


def test_fab_10_top_shows_cables_and_what_passes(folder):
    with Fabric(folder) as fabric:
        up(fabric)
        fabric.await_active(*HOSTS)
        fabric.weft("cut", "S2:4")
        said = fabric.weft("top", "--once")
        expect(said, said.startswith("fabric %s: 8 nodes, 8 cables, of which 7 are active and 1 cut\n" % fabric.name))
        expect(said, re.search(r"\n\d programs: \d+ datagrams from them, \d+ to them, \d+ not answered yet, ", said))
        expect(said, re.search(r"\nH1:1 - S1:1 +Active +4 \[\.{8}\] +0\.\d\d > +0\.\d\d < \[\.{8}\] +0 +0 +0\n", said))
        expect(said, re.search(r"\nS2:4 - S3:3 +cut ", said))
        view = fabric.weft_start("top")
        view.await_line("MB/s out")
        view.kill()


def test_sys_04_sys_03_a_device_has_the_ports_of_its_profile(folder):
    need("ibv_devinfo")
    text = 'Switch 8 "S1"\n' + "".join('[%d] "H1"[%d]\n' % (i, i) for i in range(1, 7)) + 'Hca 6 "H1"\n'
    with Fabric(folder, text=text) as fabric:
        for profile, ports in ("io", 2), ("host", 4), (None, 6):
            words = ["--profile", profile] if profile else []
            done = subprocess.run([WEFT, "run", "--node", "H1", *words, "ibv_devinfo"], text=True, stdout=subprocess.PIPE,
                                  env=environment(WEFT_FABRIC=fabric.name))
            expect(done.stdout, "phys_port_cnt:\t\t\t%d\n" % ports in done.stdout)
            expect_equal("ports", done.stdout.count("\tport:\t"), ports)


def test_fab_07_links_hide_errors_and_count_them(folder):
    need("ib_write_bw")
    with Fabric(folder) as fabric:
        up(fabric)
        fabric.await_active("H2", "H3")
        fabric.weft("errors", "H3:1", "1000000")
        meet(fabric, "H3", "H2", "ib_write_bw", "-n", "200")
        counted = fabric.run("H2", "perfquery", str(fabric.lid("H3")), "1")
        expect(counted, re.search(r"SymbolErrorCounter:\.+[1-9]", counted))
        expect(counted, "PortXmitDiscards:................0\n" in counted)
        bad = fabric.run("H2", "ibqueryerrors", status=None)
        expect(bad, 'Errors for "H3"' in bad and "SymbolErrorCounter == " in bad)


def test_fab_09_a_degraded_cable_is_slow(folder):
    need("ib_write_bw")
    with Fabric(folder) as fabric:
        up(fabric)
        fabric.await_active("H2", "H3")
        fabric.weft("degrade", "H3:1", "1000")
        said = meet(fabric, "H3", "H2", "ib_write_bw", "-n", "5")
        rate = float(re.search(r"\n 65536 +5 +\S+ +(\S+)", said)[1])
        # 10 Mbit/s, in MiB.
        expect(said, 0 < rate < 1.25)


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
    for words in (["run"], ["run", "a", "b"], ["run", "x", "--name", ""], ["run", "x", "--mtu", "0"],
                  ["run", "x", "--mtu", "300"], ["run", "x", "--mtu", "8192"], ["cut"], ["cut", ":1"], ["cut", "S1:0"],
                  ["cut", "S1:x"], ["cut", "S1:1", "2"], ["top", "x"], ["capture", "S1"], ["capture", ":1", "x"],
                  ["errors", "S1:1"], ["degrade", "S1:1", "0"], ["what"], []):
        expect(repr(words), "usage: weft fabric" in refused("fabric", *words))
    for words in (["cut", "S1"], ["top", "--once"], ["top"], ["capture", "S1", "x"]):
        expect(repr(words), "(fabric_absent)" in refused("fabric", *words))
    expect("absent", "(fabric_absent)" in refused("run", "--node", "H1", "true"))
    expect("file", "No such file" in refused("fabric", "run", folder + "/none"))


main(globals())
