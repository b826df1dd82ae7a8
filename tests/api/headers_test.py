#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""headers_test.py SOURCE_DIR: each public header alone is a C11 and a C++17 program.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import shutil
import sys

from api import DIRECT_VERBS, functions, headers

from script import expect, expect_equal, main, need, run, write

INCLUDE = os.path.join(os.path.realpath(sys.argv[1]), "include")
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]


def compile_alone(folder, compiler, standard, suffix):
    need(compiler)
    for name in headers(INCLUDE):
        source = write(os.path.join(folder, name + suffix), "#include <weft/%s>\n" % name, 0o644)
        done = run(compiler, "-std=" + standard, *STRICT, "-I", INCLUDE, source)
        expect_equal("%s by %s: %s" % (name, compiler, done.stderr), done.returncode, 0)


def test_api_headers_alone_are_c11_for_gcc(folder):
    compile_alone(folder, "gcc", "c11", ".c")


def test_api_headers_alone_are_c11_for_clang(folder):
    compile_alone(folder, "clang", "c11", ".c")


def test_api_headers_alone_are_cxx17_for_gcc(folder):
    compile_alone(folder, "g++", "c++17", ".cc")


def test_api_headers_alone_are_cxx17_for_clang(folder):
    compile_alone(folder, "clang++", "c++17", ".cc")


def names_in_object(folder, name):
    """The symbols that a C++ program needs which takes the address of all a header declares."""
    calls = sorted(functions(INCLUDE, [name]))
    lines = ["#include <weft/%s>" % name, "extern const void *const all[];",
             "const void *const all[] = {"]
    lines += ["\t(const void *)&%s," % call for call in calls] + ["};", ""]
    path = os.path.join(folder, name)
    write(path + ".cc", "\n".join(lines), 0o644)
    done = run("g++", "-std=c++17", "-I", INCLUDE, "-c", "-o", path + ".o", path + ".cc")
    expect("g++: " + done.stderr, done.returncode == 0)
    wanted = run("nm", "--undefined-only", path + ".o").stdout.split()
    return set(calls), {w for w in wanted if w != "U"}


def test_api_cxx_programs_link_with_c_names(folder):
    need("g++", "nm")
    for name in headers(INCLUDE):
        calls, wanted = names_in_object(folder, name)
        expect("%s declares calls" % name, calls or name == "version.h")
        expect_equal("names that %s wants" % name, wanted - {"_GLOBAL_OFFSET_TABLE_"}, calls)


def test_api_headers_include_no_header_but_the_language_and_their_own(folder):
    for name in headers(INCLUDE):
        with open(os.path.join(INCLUDE, "weft", name)) as f:
            lines = [line.split()[1] for line in f if line.startswith("#include")]
        for line in lines:
            expect("%s includes %s" % (name, line),
                   line.startswith("<weft/") or
                   line in ("<stdbool.h>", "<stddef.h>", "<stdint.h>"))
    expect(DIRECT_VERBS, DIRECT_VERBS in headers(INCLUDE))


main(globals())
