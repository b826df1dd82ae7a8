#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the tests of variants and sums up.

    run.py [--build] VARIANT... -- [NAME...]    names: parts of program/function
    run.py --slow                               where the time of the last runs went

Every test program prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
The last line is `N passed, N failed, N skipped`. With --build every variant is built first. The outputs
are in build/logs/tests/VARIANT/, the times in build/logs/times.json.
"""
import collections
import os
import re
import signal
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "runner"))
import records  # noqa: E402
from session import Session  # noqa: E402

TALK_LINES_MAX = 300
BUILD_LINES_MAX = 80
LINE = re.compile(r"^(ok|not ok|skip) (\S+?)(?:: (.*))?$")

Result = collections.namedtuple("Result", "variant program test what why")


def death(job, results):
    """How a program ended if not by its own report; None if it did report."""
    if job.is_late:
        how = "took too long"
    elif job.status < 0:
        how = "killed by signal %d" % -job.status
    elif job.status not in (0, 1, 77) or (job.status == 1 and
                                          all(r.what != "not ok" for r in results)):
        how = "exit status %d" % job.status
    else:
        return None
    return how + (", after " + results[-1].test if results else ", before a test was done")


def program_results(variant, job):
    """The results in one program's output. Dying is a failure of its own."""
    results, talk = [], []
    for line in job.output().splitlines():
        found = LINE.match(line)
        if found:
            results.append(Result(variant, job.name, found[2], found[1], found[3] or ""))
        else:
            talk.append(line)
    how = death(job, results)
    if how:
        results.append(Result(variant, job.name, job.name, "not ok", how))
    failures = [i for i, r in enumerate(results) if r.what == "not ok"]
    if failures and talk:
        # What the program said besides is shown once, with its last failure.
        last = results[failures[-1]]
        results[failures[-1]] = last._replace(why="\n".join([last.why] + talk[-TALK_LINES_MAX:]))
    return results


def build_failure(variant, job):
    """From the first thing that ninja could not build, else just the end."""
    lines = job.output().splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith("FAILED")), -40)
    why = ["failed; the whole log is in %s.out" % os.path.relpath(job.path)]
    return Result(variant, "build", "build", "not ok",
                  "\n".join(why + lines[first:][:BUILD_LINES_MAX]))


def report(results):
    for what, title in (("skip", "skipped"), ("not ok", "FAILED")):
        for r in results:
            if r.what == what:
                print("%s %s %s/%s: %s" % (title, r.variant, r.program, r.test, r.why))
    counts = collections.Counter(r.what for r in results)
    print("%d passed, %d failed, %d skipped" % (counts["ok"], counts["not ok"], counts["skip"]))
    return 1 if counts["not ok"] else 0


def run(variants, names, is_building):
    results = []

    def on_test(test):
        new = program_results(test.variant, test.job)
        results.extend(new)
        failed = [r for r in new if r.what == "not ok"]
        for r in failed:
            session.line.say("   FAILED %s %s/%s: %s" % (r.variant, r.program, r.test, r.why.partition("\n")[0]))
        return len(failed)

    session = Session(variants, names, is_building, on_test)
    session.run()
    if session.failed_build:
        results.append(build_failure(*session.failed_build))
    session.line.say("== in %.0f s" % session.line.elapsed_s())
    # In the order of variants and programs, not in that of their ends.
    order = {(t.variant, t.name): i for i, t in
             enumerate(t for tests in session.found.values() for t in tests)}
    return sorted(results, key=lambda r: (variants.index(r.variant),
                                          order.get((r.variant, r.program), -1)))


def main(args):
    if args == ["--slow"]:
        print("\n".join(records.slow(records.load())))
        return 0
    # Whatever ends this ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    is_building = args[0] == "--build"
    split = args.index("--")
    names = args[split + 1:]
    results = run(args[is_building:split], names, is_building)
    if not results:
        print("no test is named like: " + " ".join(names))
    return report(results) if results else report([]) or 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
