#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""card_test.py WEFT: a split network card whose unit and host are at nodes of a fabric that runs.

    server --- LAN --- unit at H4 === fabric === host at H2 --- socket --- interface

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(os.path.dirname(os.path.realpath(__file__)), part) for part in ("../card", "../dropin")]
from card import SERVER, SERVER6, Card, ended  # noqa: E402
from live import WEFT, Fabric, expect, expect_equal, need, wait_until  # noqa: E402
from script import main  # noqa: E402

UNIT, HOST = "H4", "H2"


class FabricCard(Card):
    """Both ends and the fabric are in the namespace of the unit; the host's interface is in that of the host."""

    def __init__(self, folder, lines="", options=(), unit_at=UNIT + ":7480", wire="roce"):
        need("opensm")
        self.unit_at = unit_at
        self.socket = os.path.join(folder, "card.socket")
        self.bridge = None
        super().__init__(folder, wire, port="socket:%s,listen" % self.socket, lines=lines)
        self.fabric = Fabric(folder, name="card-%d" % os.getpid(), inside=self.unit_space.enter(), options=options)

    def files(self, hosts):
        super().files(hosts)
        with open(self.hosts[0].path, encoding="ascii") as f:
            text = f.read().replace("198.51.100.0:7480", self.unit_at)
        self.write("host0.conf", text)
        for end, node in ((self.unit, UNIT), (self.hosts[0], HOST)):
            end.namespace, end.words = self.unit_space, [WEFT, "run", "--node", node]

    def __enter__(self):
        self.fabric.__enter__()
        for end in self.ends:
            end.wishes = {"WEFT_FABRIC": self.fabric.name}
        self.fabric.opensm("H1")
        self.fabric.await_active(HOST, UNIT)
        return self

    def __exit__(self, *of):
        if self.bridge:
            ended(self.bridge)
        for end in self.ends:
            if end.process and end.process.poll() is None:
                end.kill()
        self.fabric.__exit__(*of)
        super().__exit__(*of)

    def start(self):
        super().start()
        space = self.host_spaces[0]
        self.bridge = space.start(WEFT, "card", "bridge", "tap:card0,mac=" + self.hosts[0].link()["mac"], "socket:" + self.socket,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until("there is an interface", lambda: space.run("ip", "link", "show", "card0").returncode == 0)
        self.address()
        return self


def test_fab_08_push_08_push_13_packets_cross_in_cells_of_256_bytes(folder):
    path = os.path.join(folder, "capture")
    with FabricCard(folder, options=["--mtu", "256"]) as card:
        card.start()
        card.ping(SERVER)
        capture = card.fabric.weft_start("capture", HOST + ":1", path)
        capture.await_line("capturing to")
        card.ping("-s", "1000", SERVER)
        capture.end()
    dump = subprocess.run([WEFT, "dump", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    expect_equal("weft dump: " + dump.stdout, dump.returncode, 0)
    # By queue pairs, which are those of both directions. One whose acknowledgement is late is sent again.
    packets = {}
    for kind, queue_pair, psn, length in re.findall(
            r"RC WRITE (First|Middle|Last with Immediate), QP (\w+), PSN (\w+), .*?(\d+) bytes(?:,|$)", dump.stdout, re.M):
        packets.setdefault(queue_pair, {}).setdefault(psn, (kind, int(length)))
    expect_equal("directions: " + dump.stdout, len(packets), 2)
    whole = int(re.search(r"WRITE First, .* (\d+) bytes to R_Key", dump.stdout)[1])
    cells = [("First", 256), ("Middle", 256), ("Middle", 256), ("Middle", 256), ("Last with Immediate", whole - 4 * 256)]
    for of in packets.values():
        expect_equal("of three pings: " + dump.stdout, list(of.values()), cells * (len(of) // len(cells)))
        expect("all of them: " + dump.stdout, len(of) >= 3 * len(cells))
    only_first = [line for line in dump.stdout.splitlines() if "R_Key" in line and "RC WRITE" in line]
    expect("only first cells have address and handle (PUSH-13)",
           all("WRITE First" in line or "WRITE Only" in line for line in only_first))


def test_push_08_a_link_of_the_card_outlives_a_cable(folder):
    with FabricCard(folder) as card:
        card.start()
        card.ping(SERVER)
        card.fabric.weft("cut", "S1:3")  # between the switches of the two
        card.ping(SERVER)
        card.ping("-s", "1000", SERVER6)
        for end in card.ends:
            expect_equal("links of it: " + end.said(), end.said().count(" is connected"), 1)


def test_push_07_send_mode_crosses_a_fabric(folder):
    with FabricCard(folder, lines="mode send\nalive 3s", options=["--mtu", "256"]) as card:
        card.start()
        card.ping("-s", "1000", SERVER)
        expect_equal("mode", card.unit.link()["mode"], "send")
        card.unit.kill()
        card.hosts[0].await_line("is no longer connected")
        card.unit.start()
        card.hosts[0].await_line(" is connected", times=2)
        card.ping("-s", "1000", SERVER)


def test_sys_09_a_card_at_a_node_says_what_it_cannot_do(folder):
    for wire, unit_at, why in (("roce", "H9:7480", "at a node of a fabric also NODE:7480"),
                               ("roce", UNIT + ":0", "an address is"),
                               ("iwarp", UNIT + ":7480", "wire iwarp goes by TCP")):
        inside = os.path.join(folder, "%d" % len(os.listdir(folder)))
        os.mkdir(inside)
        with FabricCard(inside, wire=wire, unit_at=unit_at) as card:
            host = card.hosts[0]
            done = host.namespace.run(*host.words, WEFT, "card", "host", host.path, **host.wishes)
            expect_equal("status: " + done.stdout + done.stderr, done.returncode, 1)
            expect("%s: %s" % (why, done.stderr), why in done.stderr)


main(globals())
