#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""old_test.py SOURCE_DIR BUILD_DIR: programs that were built with earlier headers run with today's library.

tests/api/old/VERSION/program.c is compiled with the headers of its version beside it.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import shutil
import sys

from api import DIRECT_VERBS, headers, structs

from script import compile_c, expect, expect_equal, main, need, run_with_port

SOURCE, BUILD = (os.path.realpath(a) for a in sys.argv[1:3])
OLD = os.path.join(SOURCE, "tests/api/old")


def read(path):
    with open(path) as f:
        return f.read()


def output_of(folder, version, include):
    """What the program of a version says, in a network of its own."""
    need("gcc")
    program = compile_c(os.path.join(folder, "program"), read(os.path.join(OLD, version, "program.c")),
                        "-I", include, "-L", BUILD, "-lweft", "-pthread")
    done = run_with_port(folder, "free", program, LD_LIBRARY_PATH=BUILD)
    return done.stdout + done.stderr


def test_api_programs_of_earlier_versions_run(folder):
    for version in sorted(os.listdir(OLD)):
        expect_equal("program of " + version,
                     output_of(folder, version, os.path.join(OLD, version)), "good\n")


def test_api_programs_of_earlier_versions_use_every_struct(_):
    for version in sorted(os.listdir(OLD)):
        old = os.path.join(OLD, version)
        program = read(os.path.join(old, "program.c"))
        # Part of a request for privileged send queues; of no call; the wire's.
        left = {"weft_register", "weft_advert", "weft_rio_share", "weft_rio_term"}
        for name in headers(old):
            for struct, _ in structs(old, name) if name != DIRECT_VERBS else []:
                expect("%s in the program of %s" % (struct, version),
                       struct in left or struct in program)


def test_api_program_notices_a_struct_that_grew(folder):
    """For a library with a larger struct than the program has: a program with a smaller one."""
    include = os.path.join(folder, "include")
    shutil.copytree(os.path.join(OLD, "0.1"), include)
    path = os.path.join(include, "weft/weft.h")
    text = read(path)
    at = text.index("struct weft_usage {")
    with open(path, "w") as f:
        f.write(text[:at] + text[at:].replace("reserved[8]", "reserved[6]", 1))
    said = output_of(folder, "0.1", include)
    expect("the canary is seen: " + said, "usage.canary == CANARY" in said)


main(globals())
