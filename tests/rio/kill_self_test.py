#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""kill_self_test.py KILL_TEST: which seeds kill_test.py takes, and that a failure names its own.

Prints `ok NAME` or `not ok NAME: why`, a line for each test.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../dropin"))
from script import expect, expect_equal, main, run  # noqa: E402

KILL_TEST = os.path.realpath(sys.argv[1])


def kill(folder, *words):
    """With roles that end at once: a test that is run fails."""
    return run(sys.executable, KILL_TEST, "/bin/false", "/bin/false", *words, TMPDIR=folder)


def seeds(folder, *words):
    done = kill(folder, "no_such_test", *words)
    expect_equal("status", (done.returncode, done.stderr), (0, ""))
    return re.search(r"^# seeds ([\d ]+)$", done.stdout, re.M)[1].split()


def test_rio_kill_has_the_same_seeds_each_time(folder):
    expect("several", len(seeds(folder)) > 1)
    expect_equal("again", seeds(folder), seeds(folder))


def test_rio_kill_draws_a_seed_only_if_told_to(folder):
    expect("one of many", len({tuple(seeds(folder, "--draw")) for _ in range(3)}) > 1)
    expect_equal("as told", seeds(folder, "--seed", "77"), ["77"])


def test_rio_kill_names_the_seed_that_failed(folder):
    for words, seed in (((), seeds(folder)[0]), (("--seed", "77"), "77")):
        done = kill(folder, "owner_alone", *words)
        expect_equal("status", done.returncode, 1)
        expect("seed in " + done.stdout, "\nnot ok test_rio_kill_owner_alone: seed %s: " % seed in done.stdout)


main(globals())
