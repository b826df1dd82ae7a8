#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""manual_test.py BUILD_DIR: the help of the commands.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../dropin"))
from script import expect, expect_equal, main, run  # noqa: E402

BUILD = os.path.realpath(sys.argv[1])
WEFT = os.path.join(BUILD, "weft")


def commands():
    return re.findall(r"^  (\w+) ", run(WEFT, "help").stdout.partition("Environment")[0], re.M)


def test_help_of_every_command_is_the_same_by_both_ways(folder):
    whole = run(WEFT, "help", "--all").stdout
    expect("some", len(commands()) > 10)
    for name in commands():
        done = run(WEFT, name, "--help")
        expect_equal(name, (done.returncode, done.stderr), (0, ""))
        expect("usage of " + name, done.stdout.startswith("usage: weft %s" % name))
        expect_equal(name + " -h", run(WEFT, name, "-h").stdout, done.stdout)
        expect_equal("help " + name, run(WEFT, "help", name).stdout, done.stdout)
        expect(name + " is in help --all", "\n" + done.stdout in whole)
    expect_equal("--help", run(WEFT, "--help").stdout, run(WEFT, "help").stdout)


def test_help_of_no_command_is_refused(folder):
    for args in (["nothing"], ["help", "nothing"]):
        done = run(WEFT, *args)
        expect_equal("status", (done.returncode, done.stdout), (2, ""))
        expect("names it: " + done.stderr, 'no command "nothing"' in done.stderr)
    expect_equal("two words", run(WEFT, "help", "run", "sim").returncode, 2)


main(globals())
