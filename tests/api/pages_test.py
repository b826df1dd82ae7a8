#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""pages_test.py SOURCE_DIR PROGRAM: docs/api.md shows the program that is built, and it runs.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import sys

from api import functions, headers

from script import expect, expect_equal, main, run

SOURCE, PROGRAM = (os.path.realpath(a) for a in sys.argv[1:3])


def read(path):
    with open(os.path.join(SOURCE, path)) as f:
        return f.read()


def test_api_page_shows_the_example(_):
    shown = re.findall(r"^```c\n(.*?)^```$", read("docs/api.md"), re.S | re.M)
    expect_equal("programs on the page", len(shown), 1)
    expect("docs/api.md shows examples/first_write.c as it is",
           shown[0] == read("examples/first_write.c"))
    expect("about sixty lines", shown[0].count("\n") <= 70)


def test_api_example_writes(_):
    version = re.search(r"version: '([\d.]+)'", read("meson.build")).group(1)
    done = run(PROGRAM)
    expect_equal("status and words", (done.returncode, done.stdout, done.stderr),
                 (0, "weft %s: written by RDMA\n" % version, ""))


def test_api_page_names_only_calls_that_exist(_):
    include = os.path.join(SOURCE, "include")
    calls = functions(include, headers(include))
    for name in set(re.findall(r"\b(weft(?:dv)?_\w+)\(", read("docs/api.md"))):
        expect("%s is declared" % name, name in calls or "OBJECT" in name)


main(globals())
