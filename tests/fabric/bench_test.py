#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""bench_test.py WEFT: ./dev bench fabric says of each goal of a fabric that runs whether it is met, whatever the figures.

Prints `ok NAME` or `not ok NAME: why`, a line for each test.
"""
import contextlib
import io
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "../dropin"), os.path.join(HERE, "../../bench")]
import fabric_bench  # noqa: E402
from rows import Subject  # noqa: E402
from script import expect, expect_equal, main  # noqa: E402

CALM = 99  # processors
GIB = 1 << 30
# What a fabric is to reach: ours, theirs, the ratio, and whether it is the most.
WANTED = {("ib_write_bw_fabric", "ib_write_bw_udp"): (0.5, False), ("ib_write_bw_fabric", "ib_write_bw_near"): (0.5, False),
          ("ib_send_lat_fabric", "ib_send_lat_udp"): (2.5, True), ("ib_send_lat_fabric", "ib_send_lat_near"): (2.5, True)}
SAID = """
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      200              3000.00            2000.00\t\t   0.032000
"""
SAID_LATENCY = """
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]
 8       200          1.00           9.00         2.00     \t       3.50        \t0.10
"""


class Measured:
    """A bench that has measured these values: {subject: value}, of the others 1000."""

    def __init__(self, values, absent=(), left=CALM, seconds=60, gib=1):
        self.ways = [fabric_bench.Way(None, name, name, {}) for name in ("fabric", "udp", "near")]
        self.rows = []
        for what in (fabric_bench.WRITE, fabric_bench.SEND):
            for way in self.ways:
                name = "%s_%s" % (what[1][0], way.name)
                row = Subject(name, way.title, what[4], None, "it is not here" if name in absent else None)
                row.samples = [(values.get(name, 1000), left)]
                self.rows.append(row)
        self.by_name = {row.name: row for row in self.rows}
        self.options = type("Options", (), {"seconds": 1, "rounds": 1})
        self.bring_up = fabric_bench.BringUp.__new__(fabric_bench.BringUp)
        self.bring_up.seconds, self.bring_up.bytes = seconds, [gib * GIB / 2] * 2
        self.bring_up.steps, self.bring_up.cpu_s = [("all ports Active", seconds)], [1, 1]


def shown(show, bench):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        show(bench)
    return out.getvalue().splitlines()


def goal_line(text, bench):
    lines = [line for line in shown(fabric_bench.show_table, bench) if line.startswith(text + " ")]
    expect("one line of %r: %r" % (text, lines), len(lines) == 1)
    return lines[0]


def test_goals_are_those_that_were_asked_for():
    expect_equal("goals", {(ours, theirs): (goal, is_most) for _, ours, theirs, goal, is_most in fabric_bench.GOALS},
                 WANTED)


def test_a_goal_is_met_up_to_its_ratio_and_missed_beyond():
    for text, ours, theirs, goal, is_most in fabric_bench.GOALS:
        for off, is_met in ((1, True), (0.99, is_most), (1.01, not is_most)):
            line = goal_line(text, Measured({ours: 1000 * goal * off, theirs: 1000}))
            expect("%s x %s: %s" % (goal, off, line), ("  met" in line) == is_met and ("  missed" in line) != is_met)


def test_what_was_not_measured_is_not_called_met():
    for text, ours, theirs, *_ in fabric_bench.GOALS:
        for absent in (ours, theirs):
            line = goal_line(text, Measured({}, absent=[absent]))
            expect(line, "not known" in line and "met" not in line)


def test_a_bring_up_has_120_seconds_and_2_gib():
    for seconds, word in ((120, "met"), (121, "missed")):
        expect_equal("%d s" % seconds, goal_line("OpenSM's SUBNET UP", Measured({}, seconds=seconds)).split()[-1], word)
    for gib, word in ((2, "met"), (2.1, "missed")):
        expect_equal("%g GiB" % gib, goal_line("memory of opensm and weft fabric run", Measured({}, gib=gib)).split()[-1], word)


def test_lines_of_json_have_the_ratios():
    lines = [json.loads(line) for line in shown(fabric_bench.show_lines, Measured({"ib_write_bw_fabric": 300}))]
    ratios = {(line["bench"], line["versus"]): line["ratio"] for line in lines}
    for ours, theirs in WANTED:
        expect_equal("%s and %s" % (ours, theirs), ratios[ours, theirs], 0.3 if ours == "ib_write_bw_fabric" else 1)
    expect_equal("bring-up", (ratios["fabric_bring_up", "goal"], ratios["fabric_bring_up_memory", "goal"]), (0.5, 0.5))


def test_the_rows_of_perftest_are_read():
    expect_equal("bandwidth", fabric_bench.bandwidth_of(SAID), 2000 * (1 << 20))
    expect_equal("latency", fabric_bench.latency_of(SAID_LATENCY), 3500)


def test_what_opensm_brings_up_has_10000_endnodes_and_1000_switches():
    done = subprocess.run([sys.argv[1], "fabric", "show", "-"], input=fabric_bench.big_tree(), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    expect(done.stdout[-300:], done.stdout.endswith("10000 endnodes, 1000 switches, 0 routers, 21250 cables\n"))


def test_time_is_that_of_opensm_s_log():
    bring_up = Measured({}).bring_up
    log = ["Nov 30 23:59:59 500000 [1] 0x80 -> Entering DISCOVERING state", "Dec 01 00:00:01 000000 [1] -> Entering MASTER state",
           "Dec 01 00:00:02 250000 [1] 0x02 -> ftree tables configured on all switches", "Dec 01 00:01:00 000000 [1] -> SUBNET UP"]
    expect_equal("steps", [round(at, 3) for _, at in bring_up.times(log)], [1.5, 2.75, 60.5])


main({name: (lambda _, test=test: test()) if name.startswith("test_") else test for name, test in globals().items()})
