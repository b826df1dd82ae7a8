#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fabric_bench.py [--json] [--rounds N] [--seconds S] [--weft PROGRAM]: what a fabric that runs is worth.

perftest between two nodes at one switch of `weft fabric run`, next to the same on roce_lo, whose packets go by UDP or
by shared memory; in each round those that are compared run one after the other, by LIDs and by addresses. Of the rounds
the calmest count, and of these the median. Before that, OpenSM brings up a fabric of 10,000 endnodes and 1,000
switches, once: its log has the times. A missed goal is said, but no error: the machine may be a slow one.
"""
import datetime
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../tests/fabric"))
import live  # noqa: E402
from rio_processes import Place, free_port, last_line, why_absent  # noqa: E402
from rows import (DISTURBED, Failure, Subject, command, cpu_s, options_read, ratio_of, run_bench, show_goal,  # noqa: E402
                  show_goal_head, show_line, show_pair_line, show_value, tell)

ROUNDS = 5
SECONDS = 1
BRING_UP_S_MAX = 1200
MIB = 1 << 20
BRING_UP_S_GOAL, BRING_UP_GIB_GOAL = 120, 2
ENDNODES, SWITCHES = 10000, 1000
# The quickest of those that suit a tree.
ENGINE = "ftree"
SWITCH = live.topology_of("S1:1 H1:1,S1:2 H2:1,S1:3 H3:1")


# ---- Programs ------------------------------------------------------------------------------------

def row_of(said, columns):
    """The line of figures of perftest."""
    row = re.search(r"^ *\d+ +\d+ +([\d. \t]+)", said, re.M)
    if not row or len(row[1].split()) < columns:
        raise Failure("perftest: " + last_line(said))
    return [float(word) for word in row[1].split()]


def bandwidth_of(said):
    return row_of(said, 3)[1] * MIB


def latency_of(said):
    return row_of(said, 4)[3] * 1e3


WRITE = ("64 KiB, ib_write_bw", ["ib_write_bw", "-s", "65536"], 10000, bandwidth_of, "B/s")
SEND = ("8 bytes, ib_send_lat", ["ib_send_lat", "-s", "8"], 20000, latency_of, "ns")


class Way:
    """Between two programs: what runs each of them, and in which environment."""

    def __init__(self, place, name, title, env, server=(), client=()):
        self.place, self.name, self.title, self.env = place, name, title, env
        self.server, self.client = ["run", *server], ["run", *client]

    def run(self, what, seconds):
        _, words, a_second, read, _ = what
        port = str(free_port())
        words = [*words, "-F", "-p", port, "-n", str(int(a_second * seconds))]
        serving = self.place.start("%s-%s" % (self.name, port), [live.WEFT, *self.server, *words], env=self.env)
        try:
            serving.await_true(lambda: is_listening(int(port)))
            return read(self.place.run([live.WEFT, *self.client, *words, "localhost"], seconds, env=self.env))
        finally:
            serving.end()
            self.place.servers.remove(serving)


def is_listening(port):
    """Asks the system: perftest takes the first connection for its client."""
    listening = re.compile(r": \w+:%04X \w+:0000 0A " % port)
    return any(listening.search(live.read(path)) for path in ("/proc/net/tcp", "/proc/net/tcp6"))


# ---- Bring-up ------------------------------------------------------------------------------------

def switch_text(name, guid, ends):
    lines = "".join("[%d] \"%s\"[%d]\n" % (port + 1, *end) for port, end in enumerate(ends))
    return "switchguid=0x%x\nSwitch %d \"%s\"\n%s\n" % (guid, len(ends), name, lines)


def big_tree():
    """Three levels: 500 leaves of 20 endnodes in 25 pods; leaves have half as many cables up as down."""
    pods, leaves, uppers, ends, cores = 25, 20, 10, 20, 25  # of a pod, of a leaf, of an upper switch
    text, guids = [], iter(range(0x100000, 0x1000000, 0x100))
    for leaf in range(pods * leaves):
        down = [("H%d" % (leaf * ends + end + 1), 1) for end in range(ends)]
        up = [("U%d" % (leaf // leaves * uppers + upper), leaf % leaves + 1) for upper in range(uppers)]
        text.append(switch_text("L%d" % leaf, next(guids), down + up))
    for upper in range(pods * uppers):
        down = [("L%d" % (upper // uppers * leaves + leaf), ends + upper % uppers + 1) for leaf in range(leaves)]
        up = [("C%d" % (upper % uppers * cores + core), upper // uppers + 1) for core in range(cores)]
        text.append(switch_text("U%d" % upper, next(guids), down + up))
    for core in range(uppers * cores):
        down = [("U%d" % (pod * uppers + core // cores), leaves + core % cores + 1) for pod in range(pods)]
        text.append(switch_text("C%d" % core, next(guids), down))
    text += ["caguid=0x%x\nHca 1 \"H%d\"\n\n" % (next(guids), end + 1) for end in range(pods * leaves * ends)]
    return "".join(text)


def log_time(line):
    """Nov 19 12:57:06 949946 [...: of a year that is not told."""
    month, day, clock, us = line.split()[:4]
    return datetime.datetime.strptime("2000 %s %s %s %s" % (month, day, clock, us), "%Y %b %d %H:%M:%S %f").timestamp()


def peak_bytes(pid):
    return int(re.search(r"\nVmHWM:\s+(\d+) kB", live.read("/proc/%d/status" % pid))[1]) * 1024


class BringUp:
    """OpenSM at an endnode, from its first line to SUBNET UP; memory is that of both processes."""

    STEPS = [("found all nodes", "Entering MASTER"), ("routed", "tables configured"), ("all ports Active", "SUBNET UP")]

    def __init__(self, place):
        folder = place.path("big")
        os.mkdir(folder)
        with live.Fabric(folder, big_tree()) as fabric:
            if "%d endnodes, %d switches," % (ENDNODES, SWITCHES) not in fabric.said:
                raise Failure("not the fabric that was meant: " + fabric.said)
            manager = fabric.opensm("H1", "-R", ENGINE)
            end = time.monotonic() + BRING_UP_S_MAX
            while not (os.path.exists(manager.log) and "SUBNET UP" in live.read(manager.log)):
                if manager.process.poll() is not None or time.monotonic() > end:
                    raise Failure("opensm does not bring it up: " + last_line(manager.said()))
                time.sleep(0.1)
            self.pids = (manager.process.pid, fabric.process.pid)
            self.bytes = [peak_bytes(pid) for pid in self.pids]
            self.cpu_s = [cpu_s(pid) for pid in self.pids]
            self.steps = self.times(live.read(manager.log).splitlines())
        self.seconds = self.steps[-1][1]

    def times(self, lines):
        first = log_time(lines[0])
        return [(name, log_time(next(line for line in lines if text in line)) - first) for name, text in self.STEPS]

    def show(self):
        print("OpenSM (%s) brings up %d endnodes and %d switches" % (ENGINE, ENDNODES, SWITCHES))
        for name, seconds in self.steps:
            print("%-52s %12.1f s" % ("  " + name, seconds))
        for name, cpu, peak in zip(("opensm", "weft fabric run"), self.cpu_s, self.bytes):
            print("%-52s %12.1f s   %.2f GiB at most" % ("  CPU of " + name, cpu, peak / MIB / 1024))


# ---- The bench -----------------------------------------------------------------------------------

class Bench:
    def __init__(self, place, options):
        self.place, self.options = place, options
        tell("OpenSM and %d endnodes" % ENDNODES)
        self.bring_up = BringUp(place)
        self.ways = [
            Way(place, "fabric", "a fabric, through a switch", place.fabric_up().env(), ["--node", "H2"], ["--node", "H3"]),
            Way(place, "udp", "roce_lo, over UDP", live.environment(WEFT_DEVICES="roce_lo", WEFT_NEAR="off")),
            Way(place, "near", "roce_lo, by shared memory", live.environment(WEFT_DEVICES="roce_lo", WEFT_NEAR="on"))]
        self.rows = [Subject("%s_%s" % (what[1][0], way.name), "  " + way.title, what[4], self.runner(way, what))
                     for what in (WRITE, SEND) for way in self.ways]
        self.by_name = {s.name: s for s in self.rows}

    def runner(self, way, what):
        return lambda seconds: way.run(what, seconds)

    def measure(self):
        for n in range(self.options.rounds):
            for s in self.rows:
                tell("round %d of %d, %s" % (n + 1, self.options.rounds, s.name))
                s.sample(self.place.pids, self.options.seconds)
        tell(None)

    def failed(self):
        return [s for s in self.rows if s.why]


GOALS = [
    ("Write of 64 KiB, against roce_lo over UDP", "ib_write_bw_fabric", "ib_write_bw_udp", 0.5, False),
    ("Write of 64 KiB, against roce_lo by shared memory", "ib_write_bw_fabric", "ib_write_bw_near", 0.5, False),
    ("latency of a Send, against roce_lo over UDP", "ib_send_lat_fabric", "ib_send_lat_udp", 2.5, True),
    ("latency of a Send, against roce_lo by shared memory", "ib_send_lat_fabric", "ib_send_lat_near", 2.5, True),
]


def verdict(is_met):
    return "met" if is_met else "missed"


def show_table(b):
    print("\nA fabric that runs")
    b.bring_up.show()
    for what in (WRITE, SEND):
        print(what[0])
        for way in b.ways:
            show_value(b.by_name["%s_%s" % (what[1][0], way.name)])
    show_goal_head()
    for text, ours, theirs, goal, is_most in GOALS:
        show_goal(text, (b.by_name[ours], b.by_name[theirs]), goal, is_most)
    gib = sum(b.bring_up.bytes) / MIB / 1024
    for text, value, unit, goal in (("OpenSM's SUBNET UP", b.bring_up.seconds, "s", BRING_UP_S_GOAL),
                                    ("memory of opensm and weft fabric run", gib, "GiB", BRING_UP_GIB_GOAL)):
        print("%-52s %6.2f %-3s %4s %3g %-3s %s" % (text, value, unit, "<=", goal, unit, verdict(value <= goal)))
    print("\nThe median of the calmest %d of %d rounds. Latencies are means."
          % (min(Subject.rounds_used, b.options.rounds), b.options.rounds))
    if any(s.is_disturbed() for s in b.rows):
        print(DISTURBED)


def show_lines(b):
    for _, ours, theirs, *_ in GOALS:
        show_pair_line(b.by_name[ours], b.by_name[theirs])
    show_line("fabric_bring_up", b.bring_up.seconds, "s", "goal", b.bring_up.seconds / BRING_UP_S_GOAL)
    gib = sum(b.bring_up.bytes) / MIB / 1024
    show_line("fabric_bring_up_memory", gib, "GiB", "goal", gib / BRING_UP_GIB_GOAL)


class FabricPlace(Place):
    def __init__(self):
        super().__init__()
        self.fabric = None

    def fabric_up(self):
        """One switch, which OpenSM has brought up."""
        folder = self.path("small")
        os.mkdir(folder)
        self.fabric = live.Fabric(folder, SWITCH).__enter__()
        live.up(self.fabric)
        self.fabric.await_active("H2", "H3")
        return self.fabric

    def pids(self):
        return super().pids() + ([self.fabric.process.pid] if self.fabric else [])

    def close(self):
        if self.fabric:
            self.fabric.__exit__()
        super().close()


def bench_of(place, options):
    try:
        return Bench(place, options)
    except (AssertionError, subprocess.SubprocessError) as e:
        raise Failure(str(e)) from e


def main():
    options = options_read(command(__doc__, ROUNDS, SECONDS))
    why = why_absent(["opensm", "ibstat", "ib_write_bw", "ib_send_lat"])
    if why:
        sys.exit("fabric_bench: " + why)
    live.WEFT = options.weft
    return run_bench("fabric_bench", FabricPlace(), lambda place: bench_of(place, options),
                     show_lines if options.json else show_table)


if __name__ == "__main__":
    sys.exit(main())
