#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""bench_test.py BENCH WEFT: the bench of directed remote I/O counts right, has figures of speed, whatever they
are, says which programs are absent, and leaves nothing behind.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 100
ENDING_S = 10
MOVED = 128 << 20  # 64 reads and 64 writes of a MiB
SHORT = ["--rounds", "1", "--seconds", "0.2"]
# What each line compares; and what must be installed.
OTHERS = {"nbd": ["nbdkit", "fio"], "iscsi": ["tgtd", "tgtadm", "iscsi-perf"]}
LINES = [
    ("rio_owner_payload", "rio_moved"), ("rio_relay_payload", "rio_moved"),
    ("rio_wire_payload", "rio_relayed_wire_payload"),
    ("rio_owner_control", "block_1m"),
    ("rio_read_1m", "rio_relayed_read_1m"), ("rio_read_1m", "iwarp_write_1m"),
    ("rio_write_1m", "rio_relayed_write_1m"), ("rio_write_1m", "iwarp_write_1m"),
    ("rio_random_4k", "nbd_random_4k"), ("rio_random_4k", "iscsi_random_4k"),
    ("rio_latency_4k_spin", "nbd_latency_4k"), ("rio_latency_4k_spin", "iscsi_latency_4k"),
    ("rio_random_4k_spin", "nbd_random_4k"),
    ("rio_latency_4k", "nbd_latency_4k"), ("rio_latency_4k", "iscsi_latency_4k"),
    ("rio_owner_cpu", "rio_relayed_cpu"),
]


class Failure(Exception):
    pass


def require(is_true, why):
    if not is_true:
        raise Failure(why)


def processes_in(folder):
    """The running processes that have a word with the folder in their command."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                words = f.read().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue  # ended meanwhile
        if folder in words:
            found.append(words)
    return found


class Run:
    """The bench, with a folder for what it makes."""

    def __init__(self, options, **env):
        self.folder = tempfile.mkdtemp(prefix="weft-bench-test-")
        self.process = subprocess.Popen(
            [sys.executable, sys.argv[1], "--weft", sys.argv[2], *options], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=dict(os.environ, TMPDIR=self.folder, **env))

    def end(self, status):
        """What it said."""
        try:
            out, err = self.process.communicate(timeout=PATIENCE_S)
            require(self.process.returncode == status, "status %d, not %d: %s"
                    % (self.process.returncode, status, (out + err).strip()[-500:]))
            left = os.listdir(self.folder)
            require(not left, "it leaves %s" % left)
            # What it has killed is in the list of processes for a moment more.
            until = time.monotonic() + ENDING_S
            while processes_in(self.folder):
                require(time.monotonic() < until, "it leaves processes: %s" % processes_in(self.folder))
                time.sleep(0.01)  # there is no notification: poll
            return out
        except subprocess.TimeoutExpired:
            self.process.terminate()  # it ends what it has started
            self.process.communicate()
            raise Failure("it does not end")
        finally:
            shutil.rmtree(self.folder)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def look_at_line(line):
    absent = [p for p in OTHERS.get(line["versus"].split("_")[0], [])
              if not shutil.which(p, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")]
    require(is_number(line["value"]), "no value: %s" % line)
    if absent:
        require(line["ratio"] is None and absent[0] in line["why"], "does not say what is absent: %s" % line)
    else:
        require(is_number(line["ratio"]), "no ratio: %s" % line)
    if line["bench"] == "rio_owner_payload":
        require(line["value"] == 0, "payload went through the owner: %s" % line)
    elif line["bench"] == "rio_relay_payload":
        # The counters see payload where there is some.
        require(0.99 < line["ratio"] < 1.01, "the relay carried other than all: %s" % line)
    else:
        require(line["value"] > 0, "nothing was measured: %s" % line)


@functools.lru_cache(maxsize=None)
def lines_of_a_run():
    return [json.loads(line) for line in Run(["--json"] + SHORT).end(0).splitlines()]


def test_rio_bench_gives_every_line():
    lines = lines_of_a_run()
    require([(x["bench"], x["versus"]) for x in lines] == LINES, "other lines: %s" % lines)
    for line in lines:
        look_at_line(line)


def test_rio_s7_half_the_payload_of_a_relay_and_none_through_the_owner():
    """Of 128 MiB, by the counters of processes that did both."""
    of = {x["bench"]: x for x in lines_of_a_run()}
    wire, relay, owner = of["rio_wire_payload"], of["rio_relay_payload"], of["rio_owner_payload"]
    require(owner["value"] == 0, "through the owner: %s" % owner)
    require(abs(wire["value"] / MOVED - 1) < 0.01, "directed: %s" % wire)
    require(abs(relay["value"] / MOVED - 1) < 0.01, "into the relay: %s" % relay)
    require(abs(wire["ratio"] - 0.5) < 0.005, "directed against relayed: %s" % wire)


def test_rio_bench_says_who_is_absent():
    text = Run(SHORT, PATH="/nonexistent").end(0)
    for name in ("nbdkit, fio", "iscsi-perf"):
        require("not installed: " in text and name in text, "does not name %s: %s" % (name, text))
    rows = {line[:52].strip(): line[52:] for line in text.splitlines()}
    for goal in ("payload through the owner's adapter", "sequential read, against relayed",
                 "sequential write, against plain iWARP Write", "CPU of the owner, against relayed"):
        require("met" in rows[goal] or "missed" in rows[goal], "no verdict: %s" % rows[goal])
    require("not known" in rows["random read, 4 KiB, against NBD"], "a verdict without a figure")


def test_rio_bench_ends_all_when_interrupted():
    run = Run(["--rounds", "50"])
    until = time.monotonic() + PATIENCE_S
    while not any("relay.conf" in words for words in processes_in(run.folder)):
        require(run.process.poll() is None and time.monotonic() < until, "it does not begin")
        time.sleep(0.01)  # there is no notification: poll
    run.process.send_signal(signal.SIGINT)
    run.end(130)


def main():
    has_failed = False
    # The parent may have set this signal to be ignored; then the bench would ignore it too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for test in (test_rio_bench_gives_every_line,
                 test_rio_s7_half_the_payload_of_a_relay_and_none_through_the_owner,
                 test_rio_bench_says_who_is_absent,
                 test_rio_bench_ends_all_when_interrupted):
        try:
            test()
            print("ok " + test.__name__, flush=True)
        except (Failure, KeyError, ValueError) as e:
            has_failed = True
            print("not ok %s: %s" % (test.__name__, str(e).replace("\n", " / ")), flush=True)
    return 1 if has_failed else 0


sys.exit(main())
