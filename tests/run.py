#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the tests of built variants and sums up.

    run.py VARIANT... -- [NAME...]      names: parts of program/function
    run.py --has-suite SUITE BUILD_DIR  exit status 0 if there is such a test

Every test program prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
The last line is `N passed, N failed, N skipped`.
"""
import collections
import json
import os
import re
import subprocess
import sys
import time

C_SUITES = ["unit", "spec", "sim", "thread"]
# variant: (suites, simulated seeds, seeds of the conformance suite)
PLAN = {
    "gcc": (C_SUITES + ["script"], 2000, 26),
    "clang": ([], 0, 0),  # built to compare its simulations with those of gcc
    "gcc-san": (C_SUITES, 200, 4),
    "clang-san": (C_SUITES, 200, 6),
    "tsan": (["thread"], 0, 0),
    "fuzz": (["fuzz"], 0, 0),
    "other": (["unit", "spec", "sim"], 100, 2),  # of the other processor, by QEMU: ./dev other
    "distro": (C_SUITES, 200, 4),  # gcc's, of another Debian: tests/distro/distro.py
}
TALK_LINES_MAX = 300
LINE = re.compile(r"^(ok|not ok|skip) (\S+?)(?:: (.*))?$")

Result = collections.namedtuple("Result", "variant program test what why")


def build_dir(variant):
    return "build" if variant in ("gcc", "distro") else "build/variants/" + variant


def tests_of(directory, suites):
    """Names of the test programs of some suites."""
    text = subprocess.run(["meson", "introspect", "--tests", directory],
                          check=True, stdout=subprocess.PIPE).stdout
    return [(t["name"], t["suite"][0].split(":")[-1]) for t in json.loads(text)
            if t["suite"][0].split(":")[-1] in suites]


def wrapper():
    """Sanitizers dislike strongly randomised addresses; without leave to stop that, go on."""
    try:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        if subprocess.run(["setarch", "-R", "true"], **quiet).returncode == 0:
            return ["--wrapper", "setarch -R"]
    except OSError:
        pass
    return []


def run_meson(variant, programs, names):
    """Runs programs by `meson test`, returns its records, one for each program."""
    env = dict(os.environ, WEFT_TEST=" ".join(names))
    env.setdefault("WEFT_SIM_SEEDS", str(PLAN[variant][1]))
    env.setdefault("WEFT_CONFORMANCE_SEEDS", str(PLAN[variant][2]))
    # One compiler is enough to find leaks: looking takes seconds a program on arm64.
    leaks = 0 if variant == "gcc-san" else 1
    env.setdefault("ASAN_OPTIONS",
                   "strict_string_checks=1:detect_leaks=%d:exitcode=99" % leaks)
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:exitcode=99")
    env.setdefault("TSAN_OPTIONS", "halt_on_error=1:second_deadlock_stack=1")
    directory = build_dir(variant)
    log = directory + "/meson-logs/dev.json"
    if os.path.exists(log):
        os.remove(log)
    command = ["meson", "test", "-C", directory, "--no-rebuild", "--logbase", "dev"]
    if "san" in variant:
        command += wrapper()
    if variant == "other":
        command += ["--timeout-multiplier", "10"]
    done = subprocess.run(command + programs, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    # With a wrapper meson adds its name to that of the log.
    logs = [os.path.join(directory, "meson-logs", f)
            for f in os.listdir(directory + "/meson-logs")
            if f.startswith("dev") and f.endswith(".json")]
    newest = max(logs, key=os.path.getmtime, default=None)
    if newest is None:
        sys.exit(done.stdout + "run.py: meson test left no log")
    with open(newest, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def death(record, results):
    """How a program ended if not by its own report; None if it did report."""
    code = record.get("returncode", 0)
    if record["result"] == "TIMEOUT":
        how = "took too long"
    elif code < 0:
        how = "killed by signal %d" % -code
    elif code not in (0, 1, 77) or (code == 1 and all(r.what != "not ok" for r in results)):
        how = "exit status %d" % code
    else:
        return None
    return how + (", after " + results[-1].test if results else ", before a test was done")


def program_results(variant, record):
    """The results in one program's output. Dying is a failure of its own."""
    output = record.get("stdout", "") + record.get("stderr", "")
    program = record["name"].split(" / ")[-1].split(":")[-1]
    results, talk = [], []
    for line in output.splitlines():
        found = LINE.match(line)
        if found:
            results.append(Result(variant, program, found[2], found[1], found[3] or ""))
        else:
            talk.append(line)
    how = death(record, results)
    if how:
        results.append(Result(variant, program, program, "not ok", how))
    failures = [i for i, r in enumerate(results) if r.what == "not ok"]
    if failures and talk:
        # What the program said besides is shown once, with its last failure.
        last = results[failures[-1]]
        results[failures[-1]] = last._replace(why="\n".join([last.why] + talk[-TALK_LINES_MAX:]))
    return results


def run_variant(variant, names):
    suites = PLAN[variant][0]
    programs = []
    for name, suite in tests_of(build_dir(variant), suites) if suites else []:
        # A program of ours chooses among its tests by itself; a script runs whole.
        if not names or suite in C_SUITES or any(n in name for n in names):
            programs.append(name)
    if not programs:
        return []
    print("== test %s" % variant, flush=True)
    start = time.monotonic()
    results = []
    for record in run_meson(variant, programs, names):
        results += program_results(variant, record)
    counts = collections.Counter(r.what for r in results)
    print("   %d passed, %d failed, %d skipped in %.0f s" % (
        counts["ok"], counts["not ok"], counts["skip"], time.monotonic() - start), flush=True)
    return results


def report(results):
    for what, title in (("skip", "skipped"), ("not ok", "FAILED")):
        for r in results:
            if r.what == what:
                print("%s %s %s/%s: %s" % (title, r.variant, r.program, r.test, r.why))
    counts = collections.Counter(r.what for r in results)
    print("%d passed, %d failed, %d skipped" % (counts["ok"], counts["not ok"], counts["skip"]))
    return 1 if counts["not ok"] else 0


def main(args):
    if args[0] == "--has-suite":
        return 0 if tests_of(args[2], [args[1]]) else 1
    split = args.index("--")
    names = args[split + 1:]
    results = []
    for variant in args[:split]:
        results += run_variant(variant, names)
    if not results:
        print("no test is named like: " + " ".join(names))
    return report(results) if results else report([]) or 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
