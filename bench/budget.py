#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""budget.py [--json] WEFT: instructions and cache misses of a message, room by room.

weft perf runs under callgrind, once as the sender and once as the receiver, against a native peer:
the end under callgrind is the slower one, so it never waits for the other. A short run and a longer
one are compared, so that what a program does once does not count. The budget is of weft's own
instructions, without those of libc and of the program; where it is exceeded that is said, and the exit
status is 1. Valgrind counts an instruction that copies many bytes (rep movsb) once for each of them.
"""
import collections
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 120
SHORT, LONG = "0.3", "1.5"
OTHERS, PROGRAM = "libc and others", "the program"

# What is measured: words for weft perf at both ends, for the sender alone, its environment, and the
# most instructions of its own that a message may take of the sender and of the receiver.
Case = collections.namedtuple("Case", "name both sender env budget")
SMALL = ["--op", "send", "--size", "64"]
LARGE = ["--op", "write", "--size", "64k"]
NEAR, UDP = {"WEFT_NEAR": "on"}, {"WEFT_NEAR": "off"}
CASES = [
    Case("near, Send of 64 bytes", ["--roce"], SMALL, NEAR, (2600, 2200)),
    Case("near, Write of 64 KiB", ["--roce"], LARGE, NEAR, (8500, 5000)),
    Case("RoCE by UDP, Send of 64 bytes", ["--roce"], SMALL, UDP, (2500, 2400)),
    Case("RoCE by UDP, Write of 64 KiB", ["--roce"], LARGE, UDP, (36000, 29000)),
    Case("iWARP, Send of 64 bytes", [], SMALL, {}, (1600, 1700)),
    Case("iWARP, Write of 64 KiB", [], LARGE, {}, (6000, 6500)),
]


def room(path):
    """The room of a source file, or where else the code is from."""
    found = re.search(r"/(src|cmd)/([\w/]+?)/?[^/]*\.[ch]$", path)
    if not found:
        return OTHERS
    parts = found[2].split("/")
    if found[1] == "cmd":
        return PROGRAM
    return "/".join(parts[:2] if parts[0] == "driver" else parts[:1])


def costs(profile):
    """By room: instructions, and misses of the first data cache."""
    files, sums = {}, collections.defaultdict(lambda: [0, 0])
    events, at, is_call = [], "", False
    with open(profile, encoding="utf-8") as lines:
        for line in lines:
            line = line.rstrip("\n")
            name = re.match(r"(fl|fi|fe|cfi|cfl)=(\(\d+\))(?: (.*))?$", line)
            if name:
                if name[3] is not None:
                    files[name[2]] = room(name[3])
                if name[1][0] == "f":
                    at = files[name[2]]
            elif line.startswith("events: "):
                events = line.split()[1:]
            elif line.startswith("calls="):
                is_call = True  # the next line has the cost of what is called
            elif re.match(r"[+*\-\d]", line):
                if not is_call:
                    cost = dict(zip(events, map(int, line.split()[1:])))
                    sums[at][0] += cost.get("Ir", 0)
                    sums[at][1] += cost.get("D1mr", 0) + cost.get("D1mw", 0)
                is_call = False
    return sums


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(command, env):
    """What the sender says at last; the listener may take its time to listen."""
    end = time.monotonic() + PATIENCE_S
    while True:
        done = subprocess.run(command, env=env, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=PATIENCE_S)
        if done.returncode == 0:
            return done.stdout.splitlines()[-1]
        if "connect_refused" not in done.stderr or time.monotonic() > end:
            sys.exit("%s\n%s" % (" ".join(command), done.stderr))


def run(weft, case, seconds, is_sender, folder):
    """Messages, and the costs of one end."""
    profile = os.path.join(folder, "profile")
    watch = ["valgrind", "--tool=callgrind", "--cache-sim=yes", "--quiet",
             "--callgrind-out-file=" + profile]
    at = "127.0.0.1:%d" % free_port()
    env = dict(os.environ, WEFT_NOTICES="off", **case.env)  # valgrind knows no userfaultfd
    perf = [weft, "perf", "--quiet"] + case.both
    listen = perf + ["--listen", at, "--once"]
    send = perf + case.sender + ["--seconds", seconds, "--json", at]
    listener = subprocess.Popen((watch if not is_sender else []) + listen, env=env,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        said = ask((watch if is_sender else []) + send, env)
        listener.wait(PATIENCE_S)
    finally:
        listener.kill()
        listener.wait()
    return json.loads(said)["messages"], costs(profile)


def per_message(weft, case, is_sender, folder):
    """By room, of one message."""
    few, before = run(weft, case, SHORT, is_sender, folder)
    many, after = run(weft, case, LONG, is_sender, folder)
    if many <= few:
        sys.exit("%s: the machine is too busy: no more messages in a longer time" % case.name)
    return {r: [(after[r][i] - before[r][i]) / (many - few) for i in (0, 1)] for r in after}


def measure(weft, case):
    with tempfile.TemporaryDirectory() as folder:
        ends = [per_message(weft, case, is_sender, folder) for is_sender in (True, False)]
    rooms = [(r, [end.get(r, [0, 0]) for end in ends]) for r in set(ends[0]) | set(ends[1])]
    rooms = [(r, of) for r, of in rooms if max(of[0][0], of[1][0]) >= 1]
    rooms.sort(key=lambda x: -(x[1][0][0] + x[1][1][0]))
    return rooms


def total(rooms, end):
    return [sum(of[end][i] for _, of in rooms) for i in (0, 1)]


def excess(case, rooms):
    """Whether the sender, and the receiver, is over its budget."""
    own = [(r, of) for r, of in rooms if r not in (OTHERS, PROGRAM)]
    return [total(own, end)[0] > case.budget[end] for end in (0, 1)]


def show(case, rooms):
    print("%-32s %12s %9s %12s %9s" % (case.name, "sender", "misses", "receiver", "misses"))
    for r, (sender, receiver) in rooms:
        print("  %-30s %12.0f %9.1f %12.0f %9.1f" % (r, *sender, *receiver))
    sums = [total(rooms, 0), total(rooms, 1)]
    print("  %-30s %12.0f %9.1f %12.0f %9.1f" % ("all", *sums[0], *sums[1]))
    over = [" OVER" if is_over else "" for is_over in excess(case, rooms)]
    print("  %-30s %12d %-9s %12d%s\n" % ("budget, of weft's own", case.budget[0], over[0],
                                          case.budget[1], over[1]))


def main():
    words = sys.argv[1:]
    is_json = "--json" in words
    weft = os.path.realpath([w for w in words if w != "--json"][0])
    is_good = True
    for case in CASES:
        if not is_json and sys.stderr.isatty():
            print("  ... " + case.name, end="\r", file=sys.stderr)
        rooms = measure(weft, case)
        if is_json:
            print(json.dumps({"part": "budget", "case": case.name, "budget": case.budget,
                              "rooms": {r: {"sender": s, "receiver": e} for r, (s, e) in rooms}}))
        else:
            show(case, rooms)
        is_good &= not any(excess(case, rooms))
    sys.exit(0 if is_good else 1)


main()
