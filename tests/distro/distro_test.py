#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does distro.py fail when what it runs ends without saying how many tests passed?"""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../dropin")]
import distro  # noqa: E402
from script import expect_equal, main  # noqa: E402

SUITES = (["== test", "12 passed, 0 failed, 1 skipped"], ["12 passed, 2 failed, 0 skipped"])
PROGRAMS = (["ok rping", "skip mpi: no mpirun"], ["ok rping", "not ok fio: see the log"])


def counted(suites, programs):
    """What run_tests() counts when its two commands end in these ways, each (status, lines)."""
    answers = iter((suites, programs))
    distro.enter = lambda tree, command, has_network: next(answers)
    return distro.run_tests("tree")


def test_counts_of_suites_and_programs_are_added(folder):
    expect_equal("all pass", counted((0, SUITES[0]), (0, PROGRAMS[0])), [13, 0, 2])
    expect_equal("some fail", counted((1, SUITES[1]), (1, PROGRAMS[1])), [13, 3, 0])


def test_suites_without_a_count_fail(folder):
    expect_equal("no line", counted((0, []), (0, PROGRAMS[0])), [1, 1, 1])
    expect_equal("another line", counted((0, ["== test"]), (0, PROGRAMS[0])), [1, 1, 1])
    expect_equal("a status", counted((1, SUITES[0]), (0, PROGRAMS[0])), [13, 1, 2])


def test_programs_without_a_line_fail(folder):
    expect_equal("no line", counted((0, SUITES[0]), (0, [])), [12, 1, 1])
    expect_equal("a status", counted((1, SUITES[1]), (1, PROGRAMS[0])), [13, 3, 1])


main(globals())
