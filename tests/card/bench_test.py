#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""bench_test.py: ./dev bench card says of each goal whether it is met, whatever the figures are.

Prints `ok NAME` or `not ok NAME: why`, a line for each test.
"""
import contextlib
import io
import json
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "../dropin"), os.path.join(HERE, "../../bench")]
import card_bench  # noqa: E402
from rows import Subject  # noqa: E402
from script import expect, expect_equal, main  # noqa: E402

CALM = 99  # processors
# What the card is to reach: ours, theirs, the ratio, and whether it is the most.
WANTED = {("ping_card", "ping_socat"): (0.5, True), ("ping_card", "ping_vxlan"): (2, True),
          ("out_card", "out_socat"): (3, False), ("in_card", "in_socat"): (3, False),
          ("out_card", "out_veth"): (0.5, False), ("in_card", "in_veth"): (0.5, False),
          ("udp_card", "udp_socat"): (5, False), ("ping_card", "ping_card_pull"): (1, True)}


class Measured:
    """A bench that has measured these values: {subject: value}, of the others 1000."""

    def __init__(self, values, absent=(), wakes=0.5, left=CALM):
        self.rows = []
        for what, _, unit, _ in card_bench.WHAT:
            for way, title, _ in card_bench.WAYS:
                name = "%s_%s" % (what, way)
                row = Subject(name, title, unit, None, "it is not here" if name in absent else None)
                row.samples = [(values.get(name, 1000), left)]
                self.rows.append(row)
        self.by_name = {row.name: row for row in self.rows}
        self.costs, self.cpu_us = {"card": 1, "card_pull": 2}, {}
        self.idle = {"unit": wakes, "host": wakes}
        self.options = type("Options", (), {"seconds": 1, "rounds": 1})


def shown(show, bench):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        show(bench)
    return out.getvalue().splitlines()


def goal_line(text, bench):
    lines = [line for line in shown(card_bench.show_table, bench) if line.startswith(text)]
    expect("one line of %r: %r" % (text, lines), len(lines) == 1)
    return lines[0]


def test_goals_are_those_that_were_asked_for():
    expect_equal("goals", {(ours, theirs): (goal, is_most) for _, ours, theirs, goal, is_most in card_bench.GOALS},
                 WANTED)


def test_a_goal_is_met_up_to_its_ratio_and_missed_beyond():
    for text, ours, theirs, goal, is_most in card_bench.GOALS:
        for off, is_met in ((1, True), (0.99, is_most), (1.01, not is_most)):
            line = goal_line(text, Measured({ours: 1000 * goal * off, theirs: 1000}))
            expect("%s x %s: %s" % (goal, off, line), ("  met" in line) == is_met and ("  missed" in line) != is_met)


def test_wake_ups_beyond_one_a_second_are_too_many():
    for wakes, word in ((0, "met"), (1, "met"), (1.2, "missed")):
        for end in ("unit", "host"):
            expect_equal("%g wake-ups" % wakes, goal_line("wake-ups a second of an idle " + end,
                                                          Measured({}, wakes=wakes)).split()[-1], word)


def test_what_was_not_measured_is_not_called_met():
    for text, ours, theirs, *_ in card_bench.GOALS:
        for absent in (ours, theirs):
            line = goal_line(text, Measured({}, absent=[absent]))
            expect(line, "not known" in line and "met" not in line)


def test_figures_that_others_have_disturbed_are_marked():
    text = card_bench.GOALS[0][0]
    expect("calm", "~" not in goal_line(text, Measured({})))
    expect("disturbed", goal_line(text, Measured({}, left=0)).endswith("~"))


def test_lines_of_json_have_the_ratios():
    lines = [json.loads(line) for line in shown(card_bench.show_lines, Measured({"ping_card": 300}))]
    ratios = {(line["bench"], line["versus"]): line["ratio"] for line in lines}
    for ours, theirs in WANTED:
        expect_equal("%s and %s" % (ours, theirs), ratios[ours, theirs], 0.3 if ours == "ping_card" else 1)


main({name: (lambda _, test=test: test()) if name.startswith("test_") else test for name, test in globals().items()})
