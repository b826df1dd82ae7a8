#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""bridge_test.py WEFT RAW_PING: the host's own ping, a bridge, a fabric, and a program at another node that answers.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__))]
from live import Fabric, PATIENCE_S, Skip, WEFT, expect, expect_equal, need, topology_of, up, wait_until  # noqa: E402
from script import go_to_own_network, main  # noqa: E402

RAW_PING = os.path.realpath(sys.argv[2])
# The bridge, a program, and two switches between them.
LINE = topology_of("S1:1 H1:1,S1:3 S2:3,S2:1 H2:1")
HAS_NETWORK = go_to_own_network()


def ip(*words):
    done = subprocess.run(["ip", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    expect_equal("ip %s: %s" % (" ".join(words), done.stdout), done.returncode, 0)


def ping(address):
    return subprocess.run(["ping", "-n", "-c", "3", "-i", "0.2", "-W", "10", "-s", "1001", address], text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=PATIENCE_S).stdout


def test_raw_02_raw_03_the_host_pings_a_node_across_a_bridge(folder):
    need("ping")
    if not HAS_NETWORK or not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        raise Skip("no network of its own with TUN interfaces can be had")
    with Fabric(folder, LINE) as fabric:
        up(fabric)
        fabric.await_active("H1", "H2")
        bridge = fabric.start("H1", WEFT, "fabric", "bridge", "weft0")
        bridge.await_line("H1 is a bridge to weft0")
        guid = int(re.search(r"Port GUID: 0x(\w+)", fabric.state("H2"))[1], 16)
        gid = "fe80::%x:%x:%x:%x" % tuple(guid >> shift & 0xffff for shift in (48, 32, 16, 0))
        ip("address", "add", "fe80::1/64", "dev", "weft0", "nodad")
        ip("link", "set", "weft0", "up")
        program = fabric.start("H2", RAW_PING, "lid:%d" % fabric.lid("H1"), gid)
        program.await_line("answers pings to")
        capture = fabric.weft_start("capture", "S1:3", os.path.join(folder, "capture"))
        capture.await_line("capturing to")
        said = ping(gid + "%weft0")
        expect_equal("answers: " + said, len(re.findall(r"1009 bytes from fe80::", said)), 3)
        capture.end()
        seen = subprocess.run([WEFT, "dump", os.path.join(folder, "capture")], stdout=subprocess.PIPE, text=True).stdout
        ways = "LID %d > %d" % (fabric.lid("H1"), fabric.lid("H2")), "LID %d > %d" % (fabric.lid("H2"), fabric.lid("H1"))
        for way in ways:
            expect("frames of %s: %s" % (way, seen), len(re.findall(way, seen)) >= 3)
        # Of another upper protocol the program has none, and no node has this address.
        nowhere = subprocess.run(["ping", "-n", "-c", "1", "-W", "1", gid[:-1] + "%x%%weft0" % (int(gid[-1], 16) ^ 1)],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        expect("it has no answer: " + nowhere.stdout, nowhere.returncode != 0)
        bridge.process.terminate()
        wait_until("the bridge ends", lambda: bridge.process.poll() is not None)
        expect_equal("status of the bridge", bridge.process.returncode, 0)
        # One whose fabric goes says so, and ends.
        bridge = fabric.start("H1", WEFT, "fabric", "bridge", "weft0")
        bridge.await_line("H1 is a bridge to weft0")
        fabric.process.terminate()
        wait_until("the bridge ends", lambda: bridge.process.poll() is not None)
        expect("it says why: " + bridge.said(), bridge.process.returncode != 0 and "fabric_absent" in bridge.said())


main(globals())
