# SPDX-License-Identifier: BSD-2-Clause
"""Which tests a variant runs, and how."""
import ast
import collections
import configparser
import json
import os
import random
import re
import subprocess

from jobs import Job

C_SUITES = ["unit", "spec", "sim", "live"]
# What a variant runs, how many seeds, and what it costs in CPU seconds where nothing is known yet.
Variant = collections.namedtuple("Variant", "suites sim_seeds conformance_seeds build_s tests_s")
PLAN = {
    "gcc": Variant(C_SUITES + ["script"], 600, 10, 90, 380),
    "gcc-san": Variant(["unit", "live"], 0, 0, 80, 80),
    "clang-san": Variant(C_SUITES + ["compilers"], 100, 3, 115, 170),
    "tsan": Variant(["tsan"], 0, 0, 45, 100),
    "fuzz": Variant(["fuzz"], 0, 0, 45, 45),
    "other": Variant(["unit", "spec", "sim"], 100, 2, 150, 600),  # by QEMU: ./dev other
    "distro": Variant(C_SUITES, 200, 4, 0, 150),  # gcc's, of another Debian: tests/distro/distro.py
}
STEPS = 600  # of a build, where nothing is known yet
# How much of a processor's time a test takes: half if it waits for others most of the time.
WEIGHTS = {"live": 1, "script": 1}
WEIGHT = 2
# Worlds are made and unmade by the thousand: glibc keeps their pages instead of asking for new ones.
KEPT_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000"}
LOGS = "build/logs"

Test = collections.namedtuple("Test", "variant name suite job weight priority")


def build_dir(variant):
    return "build" if variant in ("gcc", "distro") else "build/variants/" + variant


def capacity():
    return WEIGHT * (os.cpu_count() or 1)


def described_tests(directory):
    text = subprocess.run(["meson", "introspect", "--tests", directory],
                          check=True, stdout=subprocess.PIPE).stdout
    return json.loads(text)


def wrapper(variant):
    """What stands before the command of a test."""
    if variant == "other":
        cross = configparser.ConfigParser()
        cross.read("build/other/cross.ini")
        return ast.literal_eval(cross["binaries"]["exe_wrapper"])
    # Sanitizers dislike strongly randomised addresses; without leave to stop that, go on.
    if "san" in variant:
        try:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            if subprocess.run(["setarch", "-R", "true"], **quiet).returncode == 0:
                return ["setarch", "-R"]
        except OSError:
            pass
    return []


def environment(variant, names):
    env = dict(os.environ, WEFT_TEST=" ".join(names))
    env.setdefault("WEFT_SIM_SEEDS", str(PLAN[variant].sim_seeds))
    env.setdefault("WEFT_CONFORMANCE_SEEDS", str(PLAN[variant].conformance_seeds))
    # One compiler is enough to find leaks: looking takes seconds a program on arm64.
    leaks = 0 if variant == "gcc-san" else 1
    env.setdefault("ASAN_OPTIONS",
                   "strict_string_checks=1:detect_leaks=%d:exitcode=99" % leaks)
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:exitcode=99")
    env.setdefault("TSAN_OPTIONS", "halt_on_error=1:second_deadlock_stack=1")
    # Memory that is used before it is written, or after it was freed, is not always zero.
    env.setdefault("MALLOC_PERTURB_", str(random.randint(1, 255)))
    return env


def tests_of(variant, names):
    """The tests that a variant runs, if it is built. With names only what may hold tests of such a name."""
    suites = PLAN[variant].suites
    directory = os.path.abspath(build_dir(variant))
    before, common = wrapper(variant), environment(variant, names)
    tests = []
    for t in described_tests(directory):
        # The first says how it runs; any of them, which variants run it.
        own_suites, name = [s.split(":")[-1] for s in t["suite"]], t["name"]
        suite = own_suites[0]
        # A program of ours chooses among its tests by itself; a script runs whole.
        if not set(own_suites) & set(suites) or (names and suite not in C_SUITES and
                                                 not any(n in name for n in names)):
            continue
        path = os.path.abspath("%s/tests/%s/%s" % (LOGS, variant, name))
        if os.path.exists(path + ".times"):
            os.remove(path + ".times")
        own = dict(t["env"], WEFT_TEST_TIMES=path + ".times")
        if suite == "sim":
            own.update(KEPT_MEMORY)
        job = Job(name, before + t["cmd"], path, cwd=directory,
                  env={**common, **own},
                  limit_s=t["timeout"] * (10 if variant == "other" else 1))
        weight = WEIGHTS.get(suite, WEIGHT) if t["is_parallel"] else capacity()
        tests.append(Test(variant, name, suite, job, weight, t["priority"]))
    return tests


def build_job(variant, is_nice):
    """./dev knows how."""
    return Job("build", ["./dev", "build-tests", variant],
               os.path.abspath("%s/build-%s" % (LOGS, variant)), is_nice=is_nice)


def steps_of(text):
    """[done, total] as ninja's last line of progress in a log has it."""
    found = None
    for found in re.finditer(r"^\[(\d+)/(\d+)\] ", text, re.M):
        pass
    return [int(found[1]), int(found[2])] if found else None
