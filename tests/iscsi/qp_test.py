#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""qp_test.py WEFT EXAMPLE: a program with a queue pair in iSCSI mode, and weft iscsi serve, as processes.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import json
import os
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from script import environment, expect, expect_equal, main, need, run  # noqa: E402
from target import NAME, PATIENCE_S, WEFT, Target  # noqa: E402

EXAMPLE = os.path.realpath(sys.argv[2])
BYTES = 64 * 1024
DISK = bytes((i * 7 + i // 256) & 0xff for i in range(BYTES))


def command(target, **wishes):
    return run(EXAMPLE, "127.0.0.1:%d" % target.port, NAME, **wishes)


class Held:
    """The example, that waits where it has done its work."""

    def __init__(self, target, **wishes):
        self.process = subprocess.Popen(
            [EXAMPLE, "127.0.0.1:%d" % target.port, NAME, "hold"], env=environment(**wishes),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        self.said = self.process.stdout.readline()
        expect("it worked", " commands, " in self.said)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)

    def end(self):
        self.process.communicate(timeout=PATIENCE_S)
        expect_equal("its status", self.process.returncode, 0)


def disk(folder):
    path = os.path.join(folder, "disk")
    with open(path, "wb") as f:
        f.truncate(1 << 20)
    return path


def test_sys_s1_iscsi_s1_iscsi_qp_writes_and_reads_a_disk(folder):
    """One write command, whose memory the target asks for; one read; bytes of the disk; no copy of ours."""
    path = disk(folder)
    with Target(folder, "file:" + path) as target:
        done = command(target)
        expect_equal("its status (%s)" % done.stderr, done.returncode, 0)
        # A third command is TEST UNIT READY, whose sense data has 20 bytes.
        expect_equal("what it said", done.stdout,
                     "3 commands, 1 R2Ts, 8 Data-Ins; 65536 bytes placed, 65536 sent, 20 copied\n")
        target.end()
    with open(path, "rb") as f:
        expect("the bytes of the disk", f.read(BYTES) == DISK)


def test_iscsi_qp_in_weft_stat(folder):
    with Target(folder, "mem:1M") as target, Held(target) as held:
        pid = str(held.process.pid)
        report = json.loads(run(WEFT, "stat", "--json", pid).stdout)
        adapter = report["adapters"][0]
        expect_equal("entries", adapter["iscsi_regions"], 0)
        qp = adapter["queue_pairs"][0]
        wanted = {"service": "ISCSI", "state": "RTS", "link": "stream", "commands_open": 0, "commands": 3,
                  "responses": 3, "r2ts": 1, "data_ins": 8, "data_outs": 7, "bytes_placed": BYTES,
                  "bytes_sent": BYTES, "controls_in": 1, "controls_out": 1, "refused": 0, "dropped": 0,
                  "peer": "127.0.0.1:%d" % target.port, "reason": "ok"}
        expect_equal("the queue pair", {key: qp[key] for key in wanted}, wanted)
        words = run(WEFT, "stat", pid).stdout
        expect("its table: " + words, re.search(
            r"QP +state target +open +commands +R2Ts +Data-Ins +bytes placed +bytes sent +refused +dropped", words))
        expect("its line: " + words, re.search(r"RTS +127\.0\.0\.1:%d +0 +3 +1 +8 +65536 +65536 +0 +0 "
                                               % target.port, words))
        held.end()


def test_iscsi_qp_in_a_trace(folder):
    path = os.path.join(folder, "trace")
    with Target(folder, "mem:1M") as target:
        expect_equal("status", command(target, WEFT_TRACE=path).returncode, 0)
        port = target.port
    words = run(WEFT, "trace", path).stdout
    for wanted in ("dials 127.0.0.1:%d" % port, "127.0.0.1:%d: connecting -> stream" % port,
                   "iSCSI command, request 0: success", "now names 65536 bytes",
                   "its stream: OPEN -> CLOSING", "its stream: CLOSING -> CLOSED"):
        expect("%s: %s" % (wanted, words), wanted in words)
    streams = run(WEFT, "trace", "--kind", "stream", path).stdout.splitlines()
    expect_equal("moves of the stream", len(streams), 2)


def test_iscsi_qp_in_a_capture(folder):
    path = os.path.join(folder, "capture.pcapng")
    with Target(folder, "mem:1M") as target:
        expect_equal("status", command(target, WEFT_PCAP=path).returncode, 0)
        port = target.port
    words = run(WEFT, "dump", "--iscsi", str(port), path).stdout
    expect("all of it: " + words, "1 iSCSI connection, 23 PDUs\nall iSCSI traffic decoded" in words)
    expect("its R2T", "R2T, ITT" in words and "wants 57344 bytes, at 8192" in words)
    need("tshark")
    done = run("tshark", "-r", path, "-d", "tcp.port==%d,iscsi" % port, "-Y", "iscsi", "-T", "fields",
               "-e", "iscsi.opcode", HOME=folder)
    codes = [int(code, 0) for line in done.stdout.split() for code in line.split(",")]
    expect_equal("Data-Ins that Wireshark sees", codes.count(0x25), 8)
    expect_equal("Data-Outs", codes.count(0x05), 7)
    expect_equal("all PDUs", len(codes), 23)


def test_iscsi_qp_and_faults(folder):
    """Each of WEFT_FAULTS that a stream has: the program is told, and the target lives on."""
    with Target(folder, "mem:1M") as target:
        for fault, reason in (("disconnect_after=40KiB", "flushed"), ("qp_error=1", "fault_injected"),
                              ("connect_refused=1", "connect_refused"), ("post_full=1", "queue_full")):
            done = command(target, WEFT_FAULTS="seed=3," + fault)
            expect_equal("status with " + fault, done.returncode, 1)
            expect("%s: %s" % (fault, done.stderr), "(%s)" % reason in done.stderr)
            expect("made: " + done.stderr, "made by WEFT_FAULTS: " + fault.split("=")[0] in done.stderr)
        expect_equal("status with wc_delay", command(target, WEFT_FAULTS="seed=3,wc_delay=1:1ms").returncode, 0)
        expect_equal("sessions that are left", target.status()["sessions"], 0)
        expect_equal("status without faults", command(target).returncode, 0)


def test_iscsi_qp_of_a_killed_program(folder):
    """kill -9 leaves no session with the target, and the next program has its disk."""
    with Target(folder, "mem:1M") as target:
        for _ in range(5):
            with Held(target) as held:
                held.process.kill()
        until = time.monotonic() + PATIENCE_S
        while target.status()["sessions"] > 0:
            expect("its session is left", time.monotonic() < until)
        expect_equal("status of the next", command(target).returncode, 0)


def test_iscsi_qp_says_why_a_target_is_not_reached(folder):
    done = run(EXAMPLE, "127.0.0.1:1", NAME)
    expect_equal("status", done.returncode, 1)
    expect("no listener: " + done.stderr, "(connect_refused)" in done.stderr)
    with Target(folder, "mem:1M") as target:
        done = run(EXAMPLE, "127.0.0.1:%d" % target.port, NAME + "x")
        expect_equal("status", done.returncode, 1)
        expect("no such target: " + done.stderr, "refuses the login: 0x0203" in done.stderr)


main(globals())
