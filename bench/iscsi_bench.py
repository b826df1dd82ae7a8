#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""iscsi_bench.py [--json] [--rounds N] [--seconds S] [--weft PROGRAM]: how fast weft's iSCSI target and initiator are.

Measured against tgtd with libiscsi's iscsi-perf, against nbdkit with fio, and against a plain TCP stream, in
one run on one machine. In each round those that are compared run one after the other. Of the rounds the calmest
count, and of these the median. A missed goal is said, but no error: the machine may be a slow one.

Copies of payload are counted in the initiator by bench/copies.c, which stands before the C library's: what the
kernel does to move bytes between sockets and memory is not in it. The memory of an idle session is what the
target takes more, pages that are its own, for each of many sessions that do nothing.
"""
import json
import math
import os
import re
import socket
import subprocess
import sys
import time

from rio_processes import (DEVICE_BYTES, MIB, PATH, Iscsi, Nbd, Place, free_port, last_line, program,
                           why_absent)
from rows import (DISTURBED, Failure, Subject, command, options_read, run_bench, show_goal, show_goal_head,
                  show_line, show_pair_line, show_value, tell, verdict)

ROUNDS = 5
SECONDS = 1.5
TARGET = "iqn.2026-11.org.example:bench"
IDLE_SESSIONS, IDLE_GOAL = 48, 64 << 10
COPY_BYTES = 64 * MIB
PATIENCE_S = 20


# ---- weft --------------------------------------------------------------------------------------

class Weft:
    """A target of ours with a memory device, by TCP and by iSER on both wires."""

    def __init__(self, place, weft, name="target"):
        self.place, self.weft = place, weft
        conf = place.path(name + ".conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write("role iscsi-target\nlisten 127.0.0.1:0\niser roce 127.0.0.1:0\niser iwarp 127.0.0.1:0\n"
                    "sessions 256\ntarget %s\nlun 0 mem:%d\n" % (TARGET, DEVICE_BYTES))
        self.server = place.start(name, [weft, "iscsi", "serve", conf])
        self.urls = {}
        for wire, scheme in ("TCP", "iscsi"), ("iSER/RoCE", "iser"), ("iSER/iWARP", "iser"):
            at = self.server.await_line(r"serves at (\S+) by " + re.escape(wire))
            self.urls[wire] = "%s://%s/%s/0" % (scheme, at, TARGET)

    def fill(self):
        """No memory that was never touched."""
        with open(self.place.path("fill"), "wb") as f:
            for _ in range(DEVICE_BYTES // MIB):
                f.write(os.urandom(MIB))
        self.run("write", self.urls["TCP"], self.place.path("fill"))
        os.unlink(self.place.path("fill"))

    def run(self, *words, seconds=0, **more):
        return self.place.run([self.weft, "iscsi", *words, "--quiet"], seconds, **more)

    def bench(self, seconds, wire, block, depth, options="", *more):
        return json.loads(self.run("bench", self.urls[wire] + options, "--json", "--block", block, "--depth",
                                   str(depth), "--seconds", str(seconds), *more, seconds=seconds))

    def random_reads(self, wire):
        return lambda seconds: self.bench(seconds, wire, "4k", 32, "", "--random")["iops"]

    def reads_1m(self, options):
        return lambda seconds: self.bench(seconds, "TCP", "1M", 16, options)["mb_per_s"] * 1e6

    # ---- What is counted ----

    def copies(self, library):
        """Bytes that the initiator copies for so many of payload, read in requests of 1 MiB."""
        out = self.place.path("copies")
        env = dict(os.environ, LD_PRELOAD=library, WEFT_COPIES=out)
        self.run("read", self.urls["TCP"], "/dev/null", "--length", str(COPY_BYTES), env=env)
        with open(out, encoding="ascii") as f:
            whole = int(f.read())
        # What a session copies without any payload is none: logins, names.
        self.run("read", self.urls["TCP"], "/dev/null", "--length", "512", env=env)
        with open(out, encoding="ascii") as f:
            return max(0, whole - int(f.read()))

    def own_bytes(self):
        """Memory of the target that it does not share."""
        with open("/proc/%d/smaps_rollup" % self.server.pid, encoding="ascii") as f:
            return sum(int(line.split()[1]) for line in f if line.startswith("Private_")) << 10

    def sessions(self):
        said = json.loads(self.place.run([self.weft, "iscsi", "status", "--json", str(self.server.pid)]))
        return said["sessions"]

    def await_sessions(self, wanted):
        until = time.monotonic() + PATIENCE_S
        while self.sessions() != wanted:
            if time.monotonic() > until:
                raise Failure("the target has %d sessions, not %d" % (self.sessions(), wanted))
            time.sleep(0.05)

    def idle_session_bytes(self):
        """Each waits for a first byte to write that never comes."""
        self.run("info", self.urls["TCP"])
        self.await_sessions(0)
        before, idle = self.own_bytes(), []
        try:
            for _ in range(IDLE_SESSIONS):
                idle.append(subprocess.Popen([self.weft, "iscsi", "write", self.urls["TCP"], "--quiet"],
                                             stdin=subprocess.PIPE, stderr=subprocess.DEVNULL))
            self.await_sessions(IDLE_SESSIONS)
            return (self.own_bytes() - before) / IDLE_SESSIONS
        finally:
            for process in idle:
                process.kill()
                process.communicate()


def iscsi_perf(place, url, depth, seconds):
    """Reads a second. iscsi-perf knows only whole seconds."""
    whole = max(1, math.ceil(seconds))
    said = place.run([program("iscsi-perf"), "-m", str(depth), "-b", "8", "-t", str(whole), "-r", url], whole,
                     env=dict(os.environ, PATH=PATH))
    found = re.findall(r"iops average (\d+)", said)
    if not found:
        raise Failure("iscsi-perf: " + last_line(said))
    return float(found[-1])


# ---- Plain TCP ---------------------------------------------------------------------------------

SENDER = """
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
data = memoryview(bytearray(1 << 20))
try:
    while True:
        s.sendall(data)
except OSError:
    pass
"""


def plain_tcp(seconds):
    """A stream in pieces of 1 MiB, from one process to another: bytes a second."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        sender = subprocess.Popen([sys.executable, "-c", SENDER, str(listener.getsockname()[1])])
        try:
            listener.settimeout(PATIENCE_S)
            conn, _ = listener.accept()
            conn.settimeout(PATIENCE_S)
            with conn:
                room = memoryview(bytearray(MIB))
                conn.recv_into(room)
                begin, taken = time.monotonic(), 0
                while time.monotonic() - begin < seconds:
                    taken += conn.recv_into(room, MIB, socket.MSG_WAITALL)
                return taken / (time.monotonic() - begin)
        finally:
            sender.kill()
            sender.wait()


# ---- Subjects ----------------------------------------------------------------------------------

class Bench:
    def __init__(self, place, options):
        self.place, self.options = place, options
        self.weft = Weft(place, options.weft)
        self.weft.fill()
        self.nbd, self.tgt = (self.open_other(kind) for kind in (Nbd, Iscsi))
        self.rows = self.subjects()
        self.by_name = {s.name: s for s in self.rows}
        self.copied = self.idle = self.why_copies = None

    def open_other(self, kind):
        """Whatever is wrong with a program of others, weft is measured."""
        other = kind.__new__(kind)
        try:
            other.__init__(self.place)
        except (Failure, OSError) as e:
            other.why = str(e)
        return other

    # In this order they run: next to each other stands what is compared.
    def subjects(self):
        w, place = self.weft, self.place
        digests = "?header_digest=crc32c&data_digest=crc32c"
        return [
            Subject("tgt_perf_4k", "  tgtd, iscsi-perf", "requests/s",
                    lambda seconds: self.tgt.random_reads(32, seconds), self.tgt.why),
            Subject("iscsi_perf_4k", "weft's target, iscsi-perf", "requests/s",
                    lambda seconds: iscsi_perf(place, w.urls["TCP"], 32, seconds), why_absent(["iscsi-perf"])),
            Subject("nbd_4k", "  " + self.nbd.title, "requests/s",
                    lambda seconds: self.nbd.random_reads(32, seconds), self.nbd.why),
            Subject("iscsi_4k", "weft's target and initiator", "requests/s", w.random_reads("TCP")),
            Subject("iser_roce_4k", "  the same by iSER, RoCE", "requests/s", w.random_reads("iSER/RoCE")),
            Subject("iser_iwarp_4k", "  the same by iSER, iWARP", "requests/s", w.random_reads("iSER/iWARP")),
            Subject("tcp_1m", "  plain TCP, 1 MiB", "B/s", plain_tcp),
            Subject("iscsi_1m", "sequential read, 1 MiB, depth 16, no digests", "B/s", w.reads_1m("")),
            Subject("iscsi_1m_digests", "  the same with digests", "B/s", w.reads_1m(digests)),
        ]

    def measure(self):
        tell("copies")
        if os.path.exists(self.options.copies):
            self.copied = self.weft.copies(self.options.copies)
        else:
            self.why_copies = "there is no " + self.options.copies
        tell("idle sessions")
        # Of a target that has not done anything yet: what it once used it may keep.
        self.idle = Weft(self.place, self.options.weft, "idle").idle_session_bytes()
        for n in range(self.options.rounds):
            for s in self.rows:
                tell("round %d of %d, %s" % (n + 1, self.options.rounds, s.title.strip()))
                s.sample(self.place.pids, self.options.seconds)
        tell(None)

    def failed(self):
        """What of weft did not run: that is an error."""
        return [s for s in self.rows if s.why and s.name.startswith(("iscsi_4k", "iser", "iscsi_1m"))]


# ---- What is shown -----------------------------------------------------------------------------

# text, ours, theirs, goal
GOALS = [
    ("target by iscsi-perf, against tgtd", "iscsi_perf_4k", "tgt_perf_4k", 3),
    ("initiator and target, against tgtd and iscsi-perf", "iscsi_4k", "tgt_perf_4k", 5),
    ("initiator and target, against NBD", "iscsi_4k", "nbd_4k", 1),
    ("1 MiB reads without digests, against plain TCP", "iscsi_1m", "tcp_1m", 0.9),
    ("1 MiB reads with digests, against plain TCP", "iscsi_1m_digests", "tcp_1m", 0.75),
    ("iSER on RoCE, against iSCSI by TCP", "iser_roce_4k", "iscsi_4k", 1.5),
    ("iSER on iWARP, against iSCSI by TCP", "iser_iwarp_4k", "iscsi_4k", 1.5),
]


def show_table(b):
    print("\niSCSI on loopback, memory device; 4 KiB: random reads, depth 32\n%-52s %12s" % ("what", "value"))
    for s in b.rows:
        show_value(s)
    show_goal_head()
    for text, ours, theirs, goal in GOALS:
        show_goal(text, (b.by_name[ours], b.by_name[theirs]), goal, False)
    if b.copied is None:
        print("%-52s %10s  %s" % ("copies of payload by the initiator", "not known", b.why_copies))
    else:
        print("%-52s %4d bytes %4s %3d    %s, of %d that were read"
              % ("copies of payload by the initiator", b.copied, "=", 0, verdict(b.copied == 0), COPY_BYTES))
    print("%-52s %6.1f KiB %4s %3g    %s" % ("memory of an idle session of the target", b.idle / 1024, "<=",
                                           IDLE_GOAL / 1024, verdict(b.idle <= IDLE_GOAL)))
    print("\n%.1f s each; the median of the calmest %d of %d rounds."
          % (b.options.seconds, min(Subject.rounds_used, b.options.rounds), b.options.rounds))
    if any(s.is_disturbed() for s in b.rows):
        print(DISTURBED)


def show_lines(b):
    for _, ours, theirs, _ in GOALS:
        show_pair_line(b.by_name[ours], b.by_name[theirs])
    if b.copied is not None:
        show_line("iscsi_copied", b.copied, "bytes", "iscsi_read", b.copied / COPY_BYTES)
    show_line("iscsi_idle_session", b.idle, "bytes", "iscsi_idle_goal", b.idle / IDLE_GOAL)


# ---- The command -------------------------------------------------------------------------------

def main():
    parser = command(__doc__, ROUNDS, SECONDS)
    parser.add_argument("--copies", help="the library that counts copies; default: bench/libcopies.so beside weft")
    options = options_read(parser)
    options.copies = os.path.realpath(options.copies or
                                      os.path.join(os.path.dirname(options.weft), "bench/libcopies.so"))
    return run_bench("iscsi_bench", Place(), lambda place: Bench(place, options),
                     show_lines if options.json else show_table)


if __name__ == "__main__":
    sys.exit(main())
