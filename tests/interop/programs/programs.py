#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Unmodified programs on the drop-in libraries.

    programs.py [--asan | --tsan] [--keep] LIBRARIES [NAME...]

LIBRARIES is the folder that holds libibverbs.so.1 and librdmacm.so.1. Prints `ok NAME`,
`not ok NAME: why` or `skip NAME: reason` for each case whose name contains one of the NAMEs. --asan
says that they were built with gcc's address sanitizer (./dev build gcc-san), --tsan with clang's
thread sanitizer (./dev build tsan); --keep leaves the outputs.
"""
import argparse
import os
import subprocess
import sys

import cm_cases
import fault_cases
import fio_cases
import iser_cases
import libfabric_cases
import perftest_cases
import verbs_cases
from runner import Runner

CASES = (verbs_cases.CASES + fio_cases.CASES + cm_cases.CASES + perftest_cases.CASES +
         libfabric_cases.CASES + iser_cases.CASES + fault_cases.CASES)


def library_of(compiler, name):
    """Where a compiler has a library. It must be in the program before all else."""
    path = subprocess.run([compiler, "-print-file-name=" + name], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()
    return os.path.realpath(path)


def asan_env():
    """What a program leaks is its own."""
    return {"LD_PRELOAD": library_of("gcc", "libasan.so"),
            "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}


def tsan_env():
    """Only the drop-in libraries are watched: what the programs do among themselves is not seen.

    The runtime is gcc's, which knows the same calls: that of clang 14, as a shared library, dies at
    the start of every program on arm64. Threads that a program leaks are its own.
    """
    return {"LD_PRELOAD": library_of("gcc", "libtsan.so"),
            "TSAN_OPTIONS": "ignore_noninstrumented_modules=1 die_after_fork=0 report_thread_leaks=0"}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    sanitizer = parser.add_mutually_exclusive_group()
    sanitizer.add_argument("--asan", action="store_const", const=asan_env, dest="env", default=dict)
    sanitizer.add_argument("--tsan", action="store_const", const=tsan_env, dest="env")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("libraries")
    parser.add_argument("names", nargs="*")
    o = parser.parse_args()
    runner = Runner(o.libraries, o.env(), o.keep)
    chosen = [c for c in CASES if not o.names or any(n in c.name for n in o.names)]
    return 0 if all([runner.run(case) for case in chosen]) else 1


if __name__ == "__main__":
    sys.exit(main())
