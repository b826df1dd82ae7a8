# SPDX-License-Identifier: BSD-2-Clause
"""What programs need in their environment to run on drop-in libraries built with a sanitizer."""
import os
import re
import subprocess

# What a sanitizer says; libraries that were built without never say it.
SAYS = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|ThreadSanitizer: CHECK failed|"
                  r"runtime error:")
# What the address sanitizer says of coroutines, which is no verdict.
REMARKS = re.compile(r"^(==\d+==WARNING: ASan .*|False positive error reports may follow)$", re.MULTILINE)
# A report of the thread sanitizer; where weft has no part in it, it is of a program or its libraries
# alone, whose atomics are not seen. Handlers of signals are theirs too (perftest's opens files).
REPORT = re.compile(r"^=+\nWARNING: ThreadSanitizer.*?^=+$", re.MULTILINE | re.DOTALL)
HANDLER = re.compile(r"signal handler spoils errno|inside of a signal")
WEFT = re.compile(r"\((libibverbs|librdmacm|libibumad)\.so\.\d")
# How much longer everything may take.
PATIENCE = 4


def library_of(compiler, name):
    """Where a compiler has a library. It must be in the program before all else."""
    path = subprocess.run([compiler, "-print-file-name=" + name], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()
    return os.path.realpath(path)


def beside(libraries):
    """See beside_sanitizer.c."""
    return os.path.join(os.path.abspath(libraries), "tests/interop/libbeside_sanitizer.so")


def asan_env(libraries):
    """What a program leaks is its own. New memory is zeros: libiscsi counts on it."""
    return {"LD_PRELOAD": library_of("gcc", "libasan.so") + ":" + beside(libraries),
            "ASAN_OPTIONS": "detect_leaks=0:malloc_fill_byte=0",
            "UBSAN_OPTIONS": "print_stacktrace=1"}


def tsan_env(libraries):
    """Only the drop-in libraries are watched, and what the programs do by way of libc.

    The runtime is gcc's, which knows the same calls: that of clang 14, as a shared library, dies at
    the start of every program on arm64. Threads that a program leaks are its own. What it reports is
    judged by without_remarks(), so the program's status is left alone; at its end it would wait a
    second for races.

    (Not ignore_noninstrumented_modules: on Linux all modules count as such, so that whatever a call
    of libc has part in is silenced, weft's free() too; and a thread that is cancelled in a call, as
    libiscsi's is, ends the program.)
    """
    return {"LD_PRELOAD": beside(libraries) + ":" + library_of("gcc", "libtsan.so"),
            "TSAN_OPTIONS": "die_after_fork=0 report_thread_leaks=0 atexit_sleep_ms=100 exitcode=0"}


def is_of_weft(report):
    return WEFT.search(report) and not HANDLER.search(report.splitlines()[1])


def without_remarks(text):
    """What a program said, without what a sanitizer says of others than weft."""
    text = REMARKS.sub("", text)
    return REPORT.sub(lambda report: report[0] if is_of_weft(report[0]) else "", text)


def add_options(parser):
    """--asan and --tsan; the one that was given is the function `sanitizer`, or None."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--asan", action="store_const", const=asan_env, dest="sanitizer")
    group.add_argument("--tsan", action="store_const", const=tsan_env, dest="sanitizer")
