#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""weft against the Linux kernel's siw and rxe, which run in a guest under QEMU.

    interop.py [--kernel SERIES] [--peer PROGRAM] [--weft PROGRAM] [--keep] [NAME...]

Prints `ok NAME`, `not ok NAME: why` for each case whose name contains one of the NAMEs, and a
summary; `skipped: reason` and exit status 0 if this machine cannot run the guest. --peer names
another build of siw_peer, --weft one of weft, --keep leaves the guest running. Captures are in
build/interop.
"""
import argparse
import collections
import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
import time

import interop_cases
import iscsi_cases
import roce_check
import rxe_cases
import wire_check

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RIG = os.path.join(HERE, "kernel", "rig.sh")
WEFT = os.path.join(ROOT, "build", "weft")
OUT = os.path.join(ROOT, "build", "interop")
KILL_SECONDS = 3
TRIES = 3
PORT_FIRST = 7500
LINE_MAX = 100
LOCK = "/run/weft-interop.lock"
CAPTURE_SECONDS = 0.1  # until what is on the wire is in the capture's file


Build = collections.namedtuple("Build", "weft peer")


class Program:
    """A program with its lines as they come; ended by its own process id."""

    def __init__(self, command):
        self.lines = []
        self.news = threading.Condition()
        self.has_ended = False
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        errors="replace")
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.news:
                self.lines.append(line.strip())
                self.news.notify_all()
        with self.news:
            self.has_ended = True
            self.news.notify_all()

    def has_line(self, pattern):
        return any(re.fullmatch(pattern, line) for line in self.lines)

    def await_line(self, pattern, deadline):
        with self.news:
            while not self.has_line(pattern) and not self.has_ended:
                if not self.news.wait(max(0, deadline - time.monotonic())):
                    break
            return self.has_line(pattern)

    def await_end(self, deadline):
        """Its exit status; None if it had to be killed."""
        try:
            return self.process.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.kill()
            self.reader.join(5)

    def kill(self):
        """By TERM at first, which `timeout` passes on to what it runs."""
        if self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def rig(*words, check=True):
    done = subprocess.run([RIG] + list(words), stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if check and done.returncode != 0:
        raise RuntimeError("rig.sh %s: %s" % (" ".join(words), done.stdout.strip()))
    return done


def first_missing(lines, wanted):
    """The first wanted line (a regular expression) that does not come, in this order."""
    at = 0
    for want in wanted:
        while at < len(lines) and not re.fullmatch(want, lines[at]):
            at += 1
        if at == len(lines):
            return want
        at += 1
    return None


def judge(case, who, program, status):
    never = [line for line in program.lines if case.never and re.search(case.never, line)]
    if never:
        return "%s says \"%s\"" % (who, never[0])
    missing = first_missing(program.lines, case.weft_says if who == "weft" else case.guest_says)
    if missing:
        return "%s does not say \"%s\"" % (who, missing)
    if status is None:
        return "%s does not end" % who
    if status != 0:
        return "%s ends with status %s" % (who, status)
    return None


def commands_of(case, port, build):
    def fill(text):
        return text.replace("PORT", str(port)).replace("HEX", "%04X" % port).replace("OURWEFT", build.weft)

    weft = [build.peer] + [fill(w) for w in case.weft]
    if case.is_program:
        weft = ["env", *case.env, "timeout", str(case.seconds), build.weft, "run"] + weft[1:]
    if case.is_program and case.weft_listens:
        weft = ["busybox", "sh", "-c", " ".join(weft) + fill(case.await_weft)]
    if case.serves:
        conf = os.path.join(OUT, "target.conf")
        with open(conf, "w", encoding="ascii") as f:
            f.write(fill(case.serves))
        weft = [build.weft, "iscsi", "serve", conf]
    return {
        "weft": [RIG, "host"] + weft,
        "guest": [RIG, "exec", "-t", str(case.seconds), fill(case.guest)],
    }


def run_case(case, port, build):
    """Why it failed, or None; and both programs' lines."""
    deadline = time.monotonic() + case.seconds
    commands = commands_of(case, port, build)
    order = ["weft", "guest"] if case.weft_listens else ["guest", "weft"]
    if not case.has_listener:
        order = order[1:]
    programs, talk, why = {}, [], None
    try:
        for who in order:
            programs[who] = Program(commands[who])
            if who == order[0] and case.has_listener and \
                    not programs[who].await_line(case.ready, deadline):
                why = "%s does not listen" % who
                break
        for who in reversed([w for w in order if w in programs]):
            if case.serves and who == "weft":
                programs[who].process.terminate()
            status = programs[who].await_end(deadline)
            why = why or judge(case, who, programs[who], status)
            talk += ["  %s: %s" % (who, line[:LINE_MAX]) for line in programs[who].lines]
    finally:
        for program in programs.values():
            program.kill()
    return why, talk


def check_wire(case, streams):
    """What the capture says about a case; None if all is well."""
    if not case.has_mpa:
        return None
    if case.has_listener and len(streams) != 2 * case.connections:
        return "on the wire: %d directions" % len(streams)
    for s in streams:
        if s.complaints:
            return "on the wire: " + s.complaints[0]
        is_weft = s.is_request != case.weft_listens
        if case.crc is not None and s.has_crc != case.crc:
            return "on the wire: CRC %s" % ("on" if s.has_crc else "off")
        wanted = case.weft_terminates if is_weft else case.guest_terminates
        got = s.terminate.hex() if s.terminate else None
        if wanted != "any" and got != wanted:
            return "on the wire: Terminate %s of %s, expected %s" % (
                got, "weft" if is_weft else "the guest", wanted)
        if s.is_request and case.rtr != "any" and s.rtr != case.rtr:
            return "on the wire: RTR %s, expected %s" % (s.rtr, case.rtr)
    return None


def check_tshark(path):
    """Wireshark's own opinion on the framing: a complaint, or None."""
    done = subprocess.run(["tshark", "-n", "-r", path, "-Y", "iwarp_mpa.bad_length"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return "tshark: " + done.stderr.strip()
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else None


class Run:
    def __init__(self, build):
        self.build = build
        self.results = []

    def report(self, name, why, talk=()):
        self.results.append(why is None)
        if why is None:
            print("ok " + name, flush=True)
        else:
            print("\n".join(list(talk) + ["not ok %s: %s" % (name, why)]), flush=True)

    def attempts(self, case, capture):
        """Why it failed, or None; and what was said. Again, if the guest missed something."""
        for attempt in range(TRIES):
            port = PORT_FIRST + TRIES * len(self.results) + attempt
            begin = os.path.getsize(capture)
            why, talk = run_case(case, port, self.build)
            if not why or not case.may_miss or \
                    not any(re.search(case.may_miss, line) for line in talk):
                break
            print("again %s: %s" % (case.name, why), flush=True)
        time.sleep(CAPTURE_SECONDS)
        if case.roce:
            return why or roce_check.judge(capture, begin, case.roce), talk
        streams = wire_check.read_streams(capture, begin) if case.has_mpa else []
        return why or check_wire(case, [s for s in streams if s.port == port]), talk

    def group(self, group, cases, capture):
        """The cases of one group that are wanted, with one capture."""
        rig("exec", "-t", "30", "use %s && lose %d" % (group.use, group.lose))
        rig("mtu", str(group.mtu))
        rig("capture-start", capture, "tcp or udp port %d" % roce_check.PORT)
        for case in cases:
            self.report(case.name, *self.attempts(case, capture))
        rig("capture-stop")
        if all(case.has_mpa for case in cases):
            self.report("wire_" + cases[0].name, check_tshark(capture))


def prepare(series):
    """Makes the guest. The reason why that cannot be, or None."""
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun"
    if not os.path.exists("/bin/bash"):
        return "there is no bash"
    print("== prepare the guest, Linux %s" % series, flush=True)
    done = subprocess.run([os.path.join(HERE, "kernel", "build.sh"), series],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if done.returncode == 77:
        return done.stdout.strip().splitlines()[-1]
    if done.returncode != 0:
        sys.exit("interop: the guest could not be made")
    return None


@contextlib.contextmanager
def lone_guest(is_kept=False):
    """One guest at a time; and its network goes however this program ends."""
    lock = open(LOCK, "w", encoding="ascii")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit("interop: another run has the guest")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        rig("down")
        yield
    finally:
        if not is_kept:
            rig("down", check=False)
        lock.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernel", default="6.1")
    parser.add_argument("--peer", default=os.path.join(ROOT, "build/tests/interop/siw_peer"))
    parser.add_argument("--weft", default=WEFT)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    reason = prepare(args.kernel)
    if reason:
        print("skipped: " + reason)
        return 0
    os.makedirs(OUT, exist_ok=True)
    run = Run(Build(os.path.abspath(args.weft), os.path.abspath(args.peer)))
    with lone_guest(args.keep):
        print("== " + rig("up", "-k", args.kernel).stdout.strip(), flush=True)
        for number, group in enumerate(interop_cases.groups() + rxe_cases.groups() +
                                       iscsi_cases.groups()):
            cases = [c for c in group.cases
                     if not args.names or any(n in c.name for n in args.names)]
            if cases:
                print("== " + group.use, flush=True)
                run.group(group, cases, os.path.join(OUT, "%02d.pcap" % number))
    passed = sum(run.results)
    print("%d passed, %d failed, 0 skipped" % (passed, len(run.results) - passed))
    return 0 if run.results and passed == len(run.results) else 1


if __name__ == "__main__":
    sys.exit(main())
