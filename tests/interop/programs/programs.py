#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Unmodified programs on the drop-in libraries.

    programs.py [--asan] [--keep] LIBRARIES [NAME...]

LIBRARIES is the folder that holds libibverbs.so.1 and librdmacm.so.1. Prints `ok NAME`,
`not ok NAME: why` or `skip NAME: reason` for each case whose name contains one of the NAMEs. --asan
says that they were built with gcc's address sanitizer, --keep leaves the outputs.
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


def asan_env():
    """The sanitizer must be in the program before all else; what a program leaks is its own."""
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout.strip()
    return {"LD_PRELOAD": os.path.realpath(library),
            "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--asan", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("libraries")
    parser.add_argument("names", nargs="*")
    o = parser.parse_args()
    runner = Runner(o.libraries, asan_env() if o.asan else None, o.keep)
    chosen = [c for c in CASES if not o.names or any(n in c.name for n in o.names)]
    return 0 if all([runner.run(case) for case in chosen]) else 1


if __name__ == "__main__":
    sys.exit(main())
