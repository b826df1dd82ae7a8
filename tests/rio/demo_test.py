#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""demo_test.py WEFT: weft demo cluster, as a person meets it.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import pty
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from script import environment, expect, expect_equal, main, run  # noqa: E402

WEFT = os.path.realpath(sys.argv[1])
PATIENCE_S = 60
# Slow, and not asked here.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
MIB = 1 << 20


def demo(folder, *words, **wishes):
    return run(WEFT, "demo", "cluster", *words, TMPDIR=folder, **wishes)


def start(folder, *words):
    """One that is under way, and the ids of its processes so far: its own, the unit's, the owner's."""
    demo = subprocess.Popen([WEFT, "demo", "cluster", *words], env=environment(TMPDIR=folder),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    ids = [demo.pid]
    while len(ids) < 3:
        line = demo.stdout.readline()
        if not line:
            raise AssertionError("it ended early")
        ids += [int(found) for found in re.findall(r"is process (\d+)", line)]
    return demo, ids


def is_running(pid):
    """A process that has ended, but whose parent does not wait for it, may stay as a zombie."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def await_memory(pid, wanted):
    """Until the process has so many bytes of memory."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with open("/proc/%d/statm" % pid) as f:
            if int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") > wanted:
                return
        time.sleep(0.01)
    raise AssertionError("nothing is written")


def expect_gone(ids):
    end = time.monotonic() + PATIENCE_S
    while any(is_running(pid) for pid in ids):
        if time.monotonic() > end:
            raise AssertionError("still there: %s" % [pid for pid in ids if is_running(pid)])
        time.sleep(0.01)


def row(text, name):
    """The two numbers of a row of the last table."""
    found = re.search(r"^%s +(\d+) +(\d+)$" % re.escape(name), text, re.M)
    expect("a row %s: %s" % (name, text), found)
    return int(found[1]), int(found[2])


def test_rio_s6_sys_12_three_programs_joined_only_by_adapters(folder):
    done = demo(folder, "--size", "64M")
    text = done.stdout
    expect_equal("status: " + text + done.stderr, done.returncode, 0)
    expect_equal("nothing on stderr", done.stderr, "")
    expect("all verified: " + text, "all verified" in text.splitlines()[-1])
    expect("nothing failed", "\nno " not in text)
    roles = re.findall(r"(I/O unit  2\.1|owner     1\.1) is process (\d+) at (127\.0\.0\.1:\d+)", text)
    users = re.findall(r"requester 3\.1, process (\d+), (wrote|read) 64\.0 MiB", text)
    expect_equal("a unit and an owner", [name for name, _, _ in roles],
                 ["I/O unit  2.1", "owner     1.1"])
    expect_equal("it was written and read", [verb for _, verb in users], ["wrote", "read"])
    ids = {pid for _, pid, _ in roles} | {pid for pid, _ in users}
    expect_equal("processes: %s" % ids, len(ids), 4)
    expect("each byte was compared", "every byte is as it was written" in text)
    expect_equal("no colours", "\033" in text, False)
    expect_equal("what it made is gone", os.listdir(folder), [])


def test_rio_01_the_owner_carried_no_payload_and_relayed_it_would_have(folder):
    text = demo(folder, "--size", "32M").stdout
    control = re.search(r"the owner's adapter carried 0 bytes of payload, and (\d+) bytes of control "
                        r"for (\d+) requests", text)
    expect("the owner's counters: " + text, control)
    expect_equal("requests", int(control[2]), 64)
    expect("little control: " + control[1], 0 < int(control[1]) < 4 * MIB)
    into, out = row(text, "requester to I/O unit")[0], row(text, "I/O unit to requester")[0]
    expect_equal("written, by the unit's adapter", into, 32 * MIB)
    # Behind the data of each request it says in 60 bytes how that went.
    expect("read, by the unit's adapter: %d" % out, 32 * MIB <= out <= 32 * MIB + 64 * 60)
    for name in "into the owner", "out of the owner":
        expect_equal(name, row(text, name), (0, 64 * MIB))
    expect_equal("in all", row(text, "in all"), (into + out, 128 * MIB))
    expect("connections made on demand", "over 2 data connections" in text)


def test_rio_02d_rio_03_a_denied_request_is_in_the_log(folder):
    text = demo(folder, "--size", "1M").stdout
    expect("the log: " + text,
           re.search(r"^ +20\d\d-\S+Z refused 4\.1#\d+ write disk 0\+1048576: rio_denied: ", text,
                     re.M))


def test_demo_of_a_file(folder):
    done = demo(folder, "--file", "--size", "16M")
    expect_equal("status: " + done.stdout + done.stderr, done.returncode, 0)
    expect("a file", "device disk (a temporary file)" in done.stdout)
    expect_equal("what it made is gone", os.listdir(folder), [])


def test_demo_that_is_interrupted_ends_everything(folder):
    for number in signal.SIGINT, signal.SIGTERM:
        under_way, ids = start(folder, "--size", "4G")
        under_way.send_signal(number)
        rest = under_way.communicate(timeout=PATIENCE_S)[0]
        expect_equal("status: " + rest, under_way.returncode, 1)
        expect("it says so: " + rest, "interrupted" in rest and "not verified" in rest)
        expect_gone(ids)
        expect_equal("what it made is gone", os.listdir(folder), [])


def test_demo_that_is_killed_leaves_no_process(folder):
    under_way, ids = start(folder, "--size", "4G")
    under_way.kill()
    under_way.wait()
    under_way.stdout.close()
    expect_gone(ids)


def test_demo_fails_if_a_role_dies(folder):
    under_way, ids = start(folder, "--size", "4G")
    await_memory(ids[1], 64 * MIB)  # its device fills: data moves
    os.kill(ids[1], signal.SIGKILL)
    rest = under_way.communicate(timeout=PATIENCE_S)[0]
    expect_equal("status: " + rest, under_way.returncode, 1)
    expect("it says so: " + rest, "not verified" in rest)
    expect_gone(ids)
    expect_equal("what it made is gone", os.listdir(folder), [])


def on_terminal(folder, **wishes):
    """What it writes to a terminal."""
    master, slave = pty.openpty()
    under_way = subprocess.Popen([WEFT, "demo", "cluster", "--size", "64M"], stdin=slave,
                                 stdout=slave, stderr=slave,
                                 env=environment(TMPDIR=folder, TERM="xterm", **wishes))
    os.close(slave)
    text = b""
    while True:
        try:
            more = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        text += more
    os.close(master)
    expect_equal("status", under_way.wait(timeout=PATIENCE_S), 0)
    return text.decode()


def test_demo_on_a_terminal_is_live_and_coloured(folder):
    text = on_terminal(folder, NO_COLOR=None)
    expect("green", "\033[32m" in text)
    expect("drawn again", re.search(r"\033\[\d+A\033\[J", text))
    expect("the picture", text.count("payload carried: 0 bytes") > 1)


def test_demo_respects_no_color(folder):
    text = on_terminal(folder, NO_COLOR="1")
    expect("no colour", not re.search(r"\033\[\d*m", text))
    expect("still live", re.search(r"\033\[\d+A\033\[J", text))


def test_demo_says_how_it_is_called(folder):
    for words in ((), ("fleet",), ("cluster", "x"), ("cluster", "--size"), ("cluster", "--size", "0"),
                  ("cluster", "--size", "1000"), ("cluster", "--size", "x"), ("cluster", "--live")):
        done = run(WEFT, "demo", *words, TMPDIR=folder)
        expect_equal("status of %r" % (words,), done.returncode, 2)
        expect_equal("nothing on stdout", done.stdout, "")
        expect("usage: " + done.stderr, "usage: weft demo cluster" in done.stderr)
    done = run(WEFT, "demo", "--help")
    expect_equal("status", done.returncode, 0)
    expect("usage: " + done.stdout, "usage: weft demo cluster" in done.stdout)
    expect_equal("nothing was made", os.listdir(folder), [])


main(globals())
