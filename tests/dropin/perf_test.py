#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""perf_test.py BUILD: `weft perf` of that build, over iWARP and over RoCE.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import json
import os
import subprocess
import sys

from script import environment, expect, expect_equal, main, run

WEFT = os.path.join(sys.argv[1], "weft")
WIRES = {"iwarp": [], "roce": ["--roce"]}


class Server:
    """A server for one client, at a port of its own."""

    def __init__(self, *options):
        self.process = subprocess.Popen(
            [WEFT, "perf", "--listen", "--once", *options, "127.0.0.1:0"], env=environment(),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().split()[-1]

    def end(self):
        """Its status, and what it said."""
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said


def measure(wire, *options):
    """The lines that the client prints."""
    server = Server(*WIRES[wire])
    done = run(WEFT, "perf", "--json", "--quiet", "--seconds", "0.05", *WIRES[wire], *options,
               server.address)
    status, said = server.end()
    expect_equal("the client: %s; its status" % done.stderr, done.returncode, 0)
    expect_equal("the server: %s; its status" % said, status, 0)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(wire):
    for op in ("write", "read", "send"):
        for line in measure(wire, "--op", op, "--size", "1,4096,65537"):
            expect("%s of %u bytes: %r" % (op, line["size"], line), line["messages"] > 0)
            expect_equal("op", line["op"], op)
        line, = measure(wire, "--op", op, "--latency")
        expect("latency of %s: %r" % (op, line), 0 < line["least_ns"] <= line["median_ns"])
    line, = measure(wire, "--both", "--size", "4k")
    expect("both: %r" % line, line["messages"] > 0)


def test_perf_iwarp(_folder):
    check("iwarp")


def test_perf_roce(_folder):
    check("roce")


def test_perf_roce_packets_are_as_small_as_asked(_folder):
    line, = measure("roce", "--mtu", "256", "--size", "64k")
    expect("messages: %r" % line, line["messages"] > 0)


def test_perf_says_that_nobody_is_there(_folder):
    for wire, options in WIRES.items():
        done = run(WEFT, "perf", *options, "127.0.0.1:1")
        expect_equal(wire + ": status", done.returncode, 1)
        expect(wire + " says " + done.stderr, done.stderr.startswith("weft perf: cannot connect: "))


def test_perf_refuses_an_mtu_that_is_none(_folder):
    for mtu in ("0", "255", "1000", "8192", "x"):
        done = run(WEFT, "perf", "--roce", "--mtu", mtu, "127.0.0.1:1")
        expect_equal("status with " + mtu, done.returncode, 2)
        expect("it says " + done.stderr, "--mtu cannot be \"%s\"" % mtu in done.stderr)


main(globals())
