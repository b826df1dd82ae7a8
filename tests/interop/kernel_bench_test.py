#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""kernel_bench_test.py BENCH: the bench next to the kernel's drivers asks a guest for what it should,
reads what perftest says there, and judges it. The guest is a script that says figures.

Prints `ok NAME` or `not ok NAME: why`, a line for each test.
"""
import functools
import json
import os
import subprocess
import sys
import tempfile

PATIENCE_S = 60
GUEST = r'''#!%s -SE
import os, re, sys, tarfile
here = os.path.dirname(os.path.abspath(__file__))
verb, words = sys.argv[1], " ".join(sys.argv[2:])
with open(os.path.join(here, "log"), "a") as log:
    log.write(verb + " " + words + "\n")
def seen(what):
    """How often it was asked for so far."""
    return open(os.path.join(here, "log")).read().count(what)
if verb == "up" and "-a kvm" in words and "KVM" not in os.environ:
    sys.exit("rig: the guest is not ready")
if verb == "up":
    print("RIG-READY 6.1.0-0-test after 1.00 s")
if verb == "pid":
    print(os.getppid())
if verb == "exec" and "tar -x" in words:
    names = tarfile.open(fileobj=sys.stdin.buffer, mode="r|").getnames()
    open(os.path.join(here, "names"), "w").write(" ".join(names))
ask = re.search(r"(ib_\w+) -s (\d+) -n (\d+) -F", words)
if ask:
    is_weft, is_near = "LD_LIBRARY_PATH=/rig/weft" in words, "roce_lo both" in words
    if "BROKEN" in os.environ and ask[1] == "ib_read_bw" and "rxe0" in words:
        print("Couldn't allocate MR")
        sys.exit(1)
    if "FLAKY" in os.environ and seen(ask[1]) %% 2 == 1:
        print("Unexpected CM event bl blka 8")
        sys.exit(1)
    print(" #bytes     #iterations    and so on")
    if ask[1].endswith("_lat"):
        print(" %%s %%s  1.00  900.00  %%s  77.0 1.0 99.0 99.9" %% (ask[2], ask[3], 6.5 if is_weft else 10))
    else:
        speed = 100 if not is_weft else 400 if is_near else 120
        print(" %%s   %%s    0.00    %%s   0.001" %% (ask[2], ask[3], speed))
''' % sys.executable
TOOLS = ["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_send_lat"]


def pairs(tools):
    return [("iwarp_" + t, "siw_" + t) for t in tools] + \
        [("iwarp_crc_" + t, "siw_crc_" + t) for t in ("ib_write_bw", "ib_send_lat")] + \
        [("%s_%s" % (end, t), "rxe_" + t) for t in tools for end in ("roce_udp", "roce_near")]


class Failure(Exception):
    pass


def require(is_true, why):
    if not is_true:
        raise Failure(why)


class Run:
    """The bench, with a guest and libraries that are none."""

    def __init__(self, *options, status=0, **env):
        with tempfile.TemporaryDirectory(prefix="weft-bench-test-") as folder:
            rig = os.path.join(folder, "rig")
            with open(rig, "w", encoding="utf-8") as f:
                f.write(GUEST)
            os.chmod(rig, 0o755)
            for name in ("libibverbs.so.1", "librdmacm.so.1"):
                os.symlink("/proc/self/exe", os.path.join(folder, name))
            done = subprocess.run([sys.executable, sys.argv[1], "--rig", rig, "--build", folder, *options],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=PATIENCE_S, env=dict(os.environ, **env))
            self.out, self.err = done.stdout, done.stderr
            require(done.returncode == status, "status %d: %s" % (done.returncode, self.err[-500:]))
            with open(os.path.join(folder, "log"), encoding="utf-8") as f:
                self.log = f.read().splitlines()
            with open(os.path.join(folder, "names"), encoding="utf-8") as f:
                self.names = f.read()

    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]

    def verdict(self, text):
        rows = [line[52:] for line in self.out.splitlines() if line[:52].strip() == text]
        require(len(rows) == 1, "rows of \"%s\": %s" % (text, rows))
        return rows[0]


@functools.lru_cache(maxsize=None)
def two_rounds():
    return Run("--json", "--rounds", "2", "--accel", "kvm", KVM="1")


def test_kernel_bench_gives_every_line():
    run = two_rounds()
    lines = run.lines()
    require([(x["bench"], x["versus"]) for x in lines] == pairs(TOOLS), "other lines: %s" % lines)
    for line in lines:
        is_lat = line["bench"].endswith("_lat")
        ratio = 0.65 if is_lat else 4 if line["bench"].startswith("roce_near") else 1.2
        require(abs(line["ratio"] - ratio) < 1e-6, "not %g: %s" % (ratio, line))
        require(line["unit"] == ("ns" if is_lat else "B/s"), "unit: %s" % line)
        require(line["value"] == (6500 if is_lat else ratio * 100 * (1 << 20)), "value: %s" % line)
    require(run.names == "libibverbs.so.1 librdmacm.so.1", "the guest has " + run.names)
    require(run.log[-1].startswith("down"), "the guest stays")
    require(not any(" -e" in x for x in run.log), "ends sleep where they may spin")


def test_kernel_bench_measures_in_turn_on_what_is_to_be_used():
    log = two_rounds().log
    uses = [line.split("use ")[1] for line in log if " use " in line]
    require(uses == ["siw", "siw:mpa_crc_required=1", "rxe"], "uses: %s" % uses)
    of = [line for line in log if "ib_send_bw" in line and ("rxe0" in line or "roce_lo" in line)]
    who = ["rxe" if "rxe0" in x else "udp" if "WEFT_NEAR=off" in x else "near" for x in of]
    require(who == ["rxe", "udp", "near"] * 2, "not in turn: %s" % who)
    require(all("WEFT_CRC=off" in x for x in log[:log.index("exec -t 60 use siw:mpa_crc_required=1")]
                if "iw_lo" in x), "weft has a CRC that siw has not")


def test_kernel_bench_judges_by_its_goals():
    run = Run("--rounds", "1", "--accel", "count")
    require("missed" in run.verdict("Write 64 KiB, iWARP to siw"), "1.2 x is enough: " + run.out)
    require("met" in run.verdict("Send 64 KiB, near to rxe"), "4 x is not enough: " + run.out)
    require("met" in run.verdict("latency of an 8-byte Send, UDP to rxe"), "0.65 x is too much: " + run.out)
    require("by count" in run.out and "emulated" in run.out, "does not say what it ran on: " + run.out)


def test_kernel_bench_counts_instructions_without_kvm():
    """On one processor: ends that spin would wait for the end of the other's turn."""
    run = Run("--rounds", "1")
    require("by count" in run.out, "does not say what it ran on: " + run.out)
    require(not any("ib_write_lat" in x for x in run.log), "two ends that spin, on one processor")
    require(all(" -e" in x for x in run.log if "ib_send_" in x), "two ends that spin")
    if os.access("/dev/kvm", os.W_OK):
        require("by kvm: rig: the guest is not ready" in run.err, "does not say why: " + run.err)
        require(run.log[[x[:2] for x in run.log].index("up") + 1].startswith("down"), "two guests")


def test_kernel_bench_says_what_fails():
    run = Run("--rounds", "1", "--accel", "count", status=1, BROKEN="1")
    require("not known" in run.verdict("Read 64 KiB, UDP to rxe"), "a verdict without a figure: " + run.out)
    require("Couldn't allocate MR" in run.err, "does not say why: " + run.err)
    require("met" in run.verdict("Write 64 KiB, near to rxe"), "others suffer: " + run.out)


def test_kernel_bench_tries_again():
    lines = Run("--json", "--rounds", "1", "--accel", "count", FLAKY="1").lines()
    require(all(x["ratio"] for x in lines), "gave up: %s" % lines)


def main():
    has_failed = False
    for test in (test_kernel_bench_gives_every_line,
                 test_kernel_bench_measures_in_turn_on_what_is_to_be_used,
                 test_kernel_bench_judges_by_its_goals,
                 test_kernel_bench_counts_instructions_without_kvm,
                 test_kernel_bench_says_what_fails,
                 test_kernel_bench_tries_again):
        try:
            test()
            print("ok " + test.__name__, flush=True)
        except (Failure, KeyError, ValueError, OSError) as e:
            has_failed = True
            print("not ok %s: %s" % (test.__name__, str(e).replace("\n", " / ")), flush=True)
    return 1 if has_failed else 0


sys.exit(main())
