#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""paging_test.py WEFT EXAMPLE: weft demo paging and examples/paged.c, as a person meets them.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from script import environment, expect, expect_equal, main, run  # noqa: E402

WEFT, EXAMPLE = (os.path.realpath(path) for path in sys.argv[1:3])
PATIENCE_S = 60
MIB = 1 << 20
PAGE = 64 << 10


def numbers(pattern, text):
    found = re.search(pattern, text, re.M)
    expect("%s: %s" % (pattern, text), found)
    return [int(n) for n in found.groups()]


def expect_shown(done, size, memory):
    """All of the memory went by way of few frames, and nothing was pinned in between."""
    text = done.stdout
    expect_equal("status: " + text + done.stderr, done.returncode, 0)
    registered, allowed, frames = numbers(
        r"^(\d+) MiB are registered; the owner may have (\d+) MiB, of which (\d+) MiB are frames$", text)
    expect_equal("sizes", (registered, allowed), (size, memory))
    expect("%d of %d MiB are frames" % (frames, size), 0 < frames < size / 2)
    faults, evicted = numbers(r"^every byte was right; (\d+) faults were served, (\d+) pages were taken away", text)
    expect("%d faults: pages came back" % faults, faults > size * MIB // PAGE)
    expect("%d of %d pages were taken away" % (evicted, faults), evicted >= faults - (frames + 1) * MIB // PAGE)
    between, looks, most = numbers(r"^pinned: (\d+) bytes between packets, each of (\d+) times; (\d+) bytes at most", text)
    expect("pinned %d, seen %d times, at most %d" % (between, looks, most), between == 0 < looks and 0 < most < MIB)
    peak, = numbers(r"^the owner had (\d+) MiB of memory at most$", text)
    expect("%d MiB were used" % peak, peak <= memory)


def test_vmm_09_vmm_s2_send_06_demo_paging_serves_more_than_it_has(_):
    done = run(WEFT, "demo", "paging", "--size", "256M", "--memory", "64M")
    expect_shown(done, 256, 64)
    expect_equal("progress", re.findall(r"^(\d+) of 288 MiB are read$", done.stdout, re.M),
                 ["72", "144", "216", "288"])


def test_vmm_09_example_paged_is_the_same(_):
    expect_shown(run(EXAMPLE, "--size", "64M", "--memory", "80M"), 64, 80)


def test_demo_paging_refuses_what_cannot_be(_):
    done = run(WEFT, "demo", "paging", "--size", "64M", "--memory", "4M")
    expect_equal("status", done.returncode, 1)
    expect("why: " + done.stderr, "memory" in done.stderr)
    expect("nothing is claimed: " + done.stdout, "right" not in done.stdout)
    for words in (("paging", "--file"), ("paging", "--size", "0"), ("paging", "--size", "1000"),
                  ("paging", "--memory", "x"), ("cluster", "--memory", "64M")):
        done = run(WEFT, "demo", *words)
        expect_equal("status of %r" % (words,), done.returncode, 2)
        expect("usage: " + done.stderr, "weft demo paging [--size N] [--memory N]" in done.stderr)
    for words in (("--size",), ("--size", "4"), ("--pages", "4M")):
        done = run(EXAMPLE, *words)
        expect_equal("status of %r" % (words,), done.returncode, 2)
        expect("usage: " + done.stderr, "usage: paged" in done.stderr)


def start():
    return subprocess.Popen([WEFT, "demo", "paging", "--size", "32G", "--memory", "128M"], env=environment(),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


def parent_of(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            state, parent = f.read().rpartition(")")[2].split()[:2]
    except FileNotFoundError:
        return None
    return int(parent) if state != "Z" else None


def owner_of(demo):
    """What weft stat shows of the process that owns the memory: its space is in use."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and demo.poll() is None:
        for process in json.loads(run(WEFT, "stat", "--json").stdout or "[]"):
            spaces = [s for a in process["adapters"] for s in a["spaces"]]
            if parent_of(process["pid"]) == demo.pid and spaces and spaces[0]["brought"] > 100:
                return process["pid"], spaces
    raise AssertionError("no owner is seen")


def test_send_s4_stat_shows_the_pins_of_a_demo_that_runs(_):
    demo = start()
    try:
        pid, spaces = owner_of(demo)
        expect_equal("spaces", len(spaces), 1)
        space, = spaces
        expect("%s" % space, space["has_pager"] == 1 and space["mappings"] == (32 << 30) // PAGE and
               space["pins"] == space["pinned_bytes"] == 0 and space["pinned"] > 0 and
               space["pinned_byte_ns"] > 0 and space["faults"] >= space["brought"])
        words = run(WEFT, "stat", str(pid)).stdout
        expect(words, re.search(r"^  space         524288 mappings; pinned 0 bytes in 0 pieces, at most \d+", words, re.M))
        expect(words, re.search(r"not acknowledged \d+ bytes, at most \d+; ", words))
    finally:
        demo.kill()
        demo.communicate()


def test_demo_paging_that_is_killed_leaves_no_process(_):
    demo = start()
    try:
        pid, _ = owner_of(demo)
    finally:
        demo.send_signal(signal.SIGKILL)
        demo.communicate()
    end = time.monotonic() + PATIENCE_S
    while parent_of(pid) is not None and time.monotonic() < end:
        time.sleep(0.01)
    expect("process %d is gone" % pid, parent_of(pid) is None)


main(globals())
