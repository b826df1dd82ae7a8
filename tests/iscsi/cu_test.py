#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""cu_test.py WEFT KIND_MEMORY: libiscsi's conformance suite iscsi-test-cu, all of it, against weft iscsi serve.

cu_skips.txt has the tests that the suite skips, and why: what it skips must stand there, and what stands there it
must skip. It has the tests, too, that libiscsi cannot run over iSER. Nothing may fail. KIND_MEMORY: the library of
kind_memory.c. Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each run.
"""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../dropin"))
from script import expect, expect_equal, main, need, run  # noqa: E402
from target import WEFT, Target  # noqa: E402

KIND_MEMORY = os.path.realpath(sys.argv[2])
SUITE_S = 280


def results(said):
    """{suite.test: (has passed, what it says is skipped)}"""
    found, suite, test = {}, None, None
    for line in said.splitlines():
        if re.match(r"Suite: \S+$", line):
            suite = line.split()[1]
        elif re.match(r" +Test: \S+ \.\.\.", line):
            test = "%s.%s" % (suite, line.split()[1])
            found[test] = [None, []]
        if test and "[SKIPPED]" in line:
            found[test][1].append(line.split("[SKIPPED]")[1].strip())
        if test and re.search(r"(^|\.\.\.)passed", line):
            found[test][0] = True
        if test and re.match(r"FAILED$", line.strip()):
            found[test][0] = False
    return found


def known_skips(*kinds):
    """{suite.test: words} of the file, of what is skipped by runs of these kinds."""
    skips = {}
    with open(os.path.join(HERE, "cu_skips.txt")) as f:
        for line in f:
            words = line.split("#")[0].split(None, 2)
            if words and words[0] in kinds:
                skips[words[1]] = words[2].strip() if len(words) > 2 else ""
    return skips


def suite(url, *words, program=("iscsi-test-cu",), env=None):
    """Runs it on a path, and on a second one to the same unit: what it found."""
    done = subprocess.run([*program, "--dataloss", "--allow-sanitize", *words, url, url],
                          timeout=SUITE_S, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", env=env)
    found = results(done.stdout)
    failed = [test for test, (is_good, _) in found.items() if not is_good]
    expect("failed: %s\n%s" % (" ".join(failed), done.stdout[-2000:]), not failed)
    summary = re.search(r" tests +(\d+) +(\d+) +(\d+) +(\d+)", done.stdout)
    expect("a summary: %s: %s" % (words, done.stdout[-500:]), summary)
    expect_equal("tests that failed", int(summary[4]), 0)
    return found


def judge_skips(found, skips, is_all):
    skipped = {test: why for test, (_, why) in found.items() if why}
    for test, why in sorted(skipped.items()):
        expect("%s is skipped, and not in the list: %s" % (test, why[0]),
               test in skips and any(skips[test] in w for w in why))
    if is_all:
        expect_equal("in the list, and not skipped", sorted(set(skips) - set(skipped)), [])


def conform(target, kind, *words, lun=0):
    found = suite(target.url(lun), *words)
    is_all = words == ("-t", "ALL")
    judge_skips(found, known_skips("all", kind), is_all)
    expect("its tests are there: %d" % len(found), len(found) > 200 or not is_all)
    return len(found)


def conform_by_iser(target, wire, device):
    """Suite by suite: what libiscsi does to its memory counts for one process. What it cannot run is left out."""
    cannot, found = known_skips("iser-cannot"), {}
    env = dict(os.environ, WEFT_DEVICES=device, LD_PRELOAD=KIND_MEMORY)
    known = [line[len("ALL."):] for line in run("iscsi-test-cu", "--list").stdout.splitlines()
             if line.startswith("ALL.")]
    expect_equal("what it cannot run is there", sorted(set(cannot) - set(known)), [])
    # It compares a block that it did not write with zeros.
    parts = ["MultipathIO.CompareAndWrite"]
    for name in (n for n in known if "." not in n):
        tests = [n for n in known if n.startswith(name + ".")]
        good = [n for n in tests if n not in cannot]
        parts += [name] if good == tests else [n for n in good if n not in parts]
    for part in parts:
        found.update(suite(target.iser_url(wire), "-t", "ALL." + part,
                           program=[WEFT, "run", "iscsi-test-cu"], env=env))
    skips = known_skips("all", "iser")
    judge_skips(found, {test: skips[test] for test in skips if test not in cannot}, True)
    expect("its tests are there: %d" % len(found), len(found) > 180)
    counts = target.status()
    expect_equal("sessions, tasks, memory, connections",
                 (counts["sessions"], counts["tasks"], counts["memory_used"], counts["connections"]),
                 (0, 0, 0, 0))


def test_iscsi_test_cu_on_memory(folder):
    need("iscsi-test-cu")
    with Target(folder, "mem:100M") as target:
        conform(target, "mem", "-t", "ALL")
        counts = target.status()
        expect_equal("sessions, tasks, memory", (counts["sessions"], counts["tasks"],
                                                 counts["memory_used"]), (0, 0, 0))


def test_iscsi_test_cu_on_a_file_of_long_blocks(folder):
    need("iscsi-test-cu")
    disk = os.path.join(folder, "disk")
    with Target(folder, "file:%s,size=300M,block=4096" % disk) as target:
        conform(target, "file", "-t", "ALL")


def test_iscsi_test_cu_on_a_readonly_unit(folder):
    need("iscsi-test-cu")
    with Target(folder, "mem:1M", "readonly mem:100M") as target:
        expect("it ran", conform(target, "readonly", "-t", "ALL.ReadOnly", lun=1) > 0)


def test_iscsi_test_cu_by_iser_on_roce(folder):
    need("iscsi-test-cu")
    with Target(folder, "mem:100M", lines="iser roce 127.0.0.1:0") as target:
        conform_by_iser(target, "RoCE", "roce_*")


def test_iscsi_test_cu_by_iser_on_iwarp(folder):
    need("iscsi-test-cu")
    with Target(folder, "mem:100M", lines="iser iwarp 127.0.0.1:0") as target:
        conform_by_iser(target, "iWARP", "iw_*")


main(globals())
