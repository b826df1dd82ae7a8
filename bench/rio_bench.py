#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""rio_bench.py [--json] [--rounds N] [--seconds S] [--weft PROGRAM]: what directed remote I/O is worth.

Measured against the same data relayed through the owner, a plain iWARP Write, nbdkit and tgtd, in one run
on one machine. In each round those that are compared run one after the other. Of the rounds the
calmest count, and of these the median. A missed goal is said, but no error: the machine may be a slow one.

Relayed: what the requester reads and writes is a device of another I/O unit, which reads and writes
the real one as a requester itself, and so moves the data twice. It stands for the adapter of an owner
that the data goes through; its processor time is counted with the owner's. Of the owner's processor time
all counts, also what a run's beginning and end take.
"""
import sys

from rio_processes import Cluster, Iscsi, Nbd, Place
from rows import (DISTURBED, Failure, Subject, command, options_read, ratio_of, run_bench, show_goal,
                  show_goal_head, show_line, show_pair_line, show_value, tell, verdict)

ROUNDS = 5
SECONDS = 1.5
GIB, MIB, SECTOR = 1 << 30, 1 << 20, 512
SPIN = "50us"
# Of a "notified" message without its entries: docs/wire/rio.md.
NOTIFIED_BYTES = 48


# ---- Subjects ----------------------------------------------------------------------------------

class Moved:
    """Processor time by the bytes that were moved meanwhile, of all rounds together."""

    def __init__(self):
        self.bytes, self.cpu_s = 0, 0.0

    def add(self, said, cpu_s_used):
        self.bytes += said["bytes"]
        self.cpu_s += cpu_s_used

    def per_gib(self):
        return self.cpu_s / self.bytes * GIB if self.bytes else None


class Bench:
    def __init__(self, place, options):
        self.place, self.options = place, options
        self.cluster = Cluster(place, options.weft)
        self.spinning = Cluster(place, options.weft, SPIN)
        self.others = [self.open_other(kind) for kind in (Nbd, Iscsi)]
        self.direct_cpu, self.relayed_cpu = Moved(), Moved()
        self.rows = self.sequential() + self.random() + self.latency()
        self.by_name = {s.name: s for s in self.rows}

    def open_other(self, kind):
        """Whatever is wrong with a program of others, weft is measured."""
        other = kind.__new__(kind)
        try:
            other.__init__(self.place)
        except (Failure, OSError) as e:
            other.why = str(e)
        return other

    # In this order they run: next to each other stands what is compared.
    def sequential(self):
        def moving(device, *more):
            def run(seconds):
                said = self.cluster.io_bench(seconds, device, "--block", "1M", "--depth", "16", *more)
                if device == "disk":
                    self.direct_cpu.add(said, said["own_cpu_s"])
                else:
                    self.relayed_cpu.add(said, said["own_cpu_s"] + said["relay_cpu_s"])
                return said["bytes"] / said["seconds"]
            return run
        text = "sequential %s, 1 MiB, depth 16"
        return [
            Subject("rio_relayed_read_1m", "  relayed through the owner", "B/s", moving("relayed")),
            Subject("rio_read_1m", text % "read", "B/s", moving("disk")),
            Subject("iwarp_write_1m", "  plain iWARP Write, 1 MiB, depth 16", "B/s",
                    self.cluster.perf_write),
            Subject("rio_write_1m", text % "write", "B/s", moving("disk", "--write")),
            Subject("rio_relayed_write_1m", "  relayed through the owner", "B/s",
                    moving("relayed", "--write")),
        ]

    def reads(self, depth, cluster):
        return lambda seconds: cluster.io_bench(
            seconds, "disk", "--block", "4k", "--random", "--depth", str(depth))

    def random(self):
        weft, spin, (nbd, iscsi) = self.reads(32, self.cluster), self.reads(32, self.spinning), self.others
        return [
            Subject("rio_random_4k_spin", "  the same, all roles spin " + SPIN, "requests/s",
                    lambda seconds: spin(seconds)["iops"]),
            Subject("rio_random_4k", "random read, 4 KiB, depth 32", "requests/s",
                    lambda seconds: weft(seconds)["iops"]),
            Subject("nbd_random_4k", "  " + nbd.title, "requests/s",
                    lambda seconds: nbd.random_reads(32, seconds), nbd.why),
            Subject("iscsi_random_4k", "  " + iscsi.title, "requests/s",
                    lambda seconds: iscsi.random_reads(32, seconds), iscsi.why),
        ]

    def latency(self):
        """The mean: iscsi-perf tells no other, and it only as so many a second."""
        (nbd, iscsi), spin, sleep = self.others, self.reads(1, self.spinning), self.reads(1, self.cluster)
        return [
            Subject("rio_latency_4k_spin", "read latency, 4 KiB, depth 1, all roles spin " + SPIN, "ns",
                    lambda seconds: 1e9 / spin(seconds)["iops"]),
            Subject("nbd_latency_4k", "  " + nbd.title, "ns",
                    lambda seconds: 1e9 / nbd.random_reads(1, seconds), nbd.why),
            Subject("iscsi_latency_4k", "  " + iscsi.title, "ns",
                    lambda seconds: 1e9 / iscsi.random_reads(1, seconds), iscsi.why),
            Subject("rio_latency_4k", "  the same, no role spins", "ns",
                    lambda seconds: 1e9 / sleep(seconds)["iops"]),
        ]

    # ---- What the owner's adapter carried ----

    COUNT = 64

    def carried(self, device, servers, block):
        """What came into the adapters of servers, and went out, for requests of this size."""
        before = [self.cluster.counters(s) for s in servers]
        for verb, path in (("read", "/dev/null"), ("write", "/dev/zero")):
            self.cluster.io(verb, device, "--block", str(block), "--length", str(block * self.COUNT),
                            "--depth", "1", "--file", path)
        after = [self.cluster.counters(s) for s in servers]
        return {key: sum(a[key] - b[key] for a, b in zip(after, before)) for key in after[0]}

    def payload(self, device, servers):
        """Payload in, payload out, and the bytes of control. What as many requests of one sector carry is
        control, but for how many ends a message tells of, which depends on time; more than that, in
        whole sectors, is payload."""
        large, small = (self.carried(device, servers, block) for block in (MIB, SECTOR))

        def more(way):
            messages = large["messages_" + way] - small["messages_" + way]
            bytes_more = large["payload_" + way] - small["payload_" + way] - messages * NOTIFIED_BYTES
            return max(0, bytes_more) // SECTOR * SECTOR
        return more("in"), more("out"), large["bytes_in"] + large["bytes_out"]

    def measure(self):
        c = self.cluster
        self.moved_bytes = 2 * self.COUNT * MIB
        self.own_payload, _, own_bytes = self.payload("disk", [c.own])
        self.own_control = own_bytes / (2 * self.COUNT)
        # All that goes over a wire goes through the I/O unit, or, relayed, through the relay.
        self.direct_wire = sum(self.payload("disk", [c.iou])[:2])
        self.relay_payload, relay_out, _ = self.payload("relayed", [c.relay])
        self.relay_wire = self.relay_payload + relay_out
        for n in range(self.options.rounds):
            for s in self.rows:
                tell("round %d of %d, %s" % (n + 1, self.options.rounds, s.title.strip()))
                s.sample(self.place.pids, self.options.seconds)
        tell(None)

    def is_cpu_disturbed(self):
        """It is of all rounds; who is disturbed often pays for cold caches, and sleeps less."""
        return any(s.is_disturbed() for s in self.rows if s.name.endswith("_1m"))

    def failed(self):
        """What of weft did not run: that is an error."""
        return [s for s in self.rows if s.why and not s.name.startswith(("nbd_", "iscsi_"))]


# ---- What is shown -----------------------------------------------------------------------------

# text, ours, theirs, goal, whether it is the most
GOALS = [
    ("sequential read, against relayed", "rio_read_1m", "rio_relayed_read_1m", 1.7, False),
    ("sequential read, against plain iWARP Write", "rio_read_1m", "iwarp_write_1m", 0.8, False),
    ("sequential write, against relayed", "rio_write_1m", "rio_relayed_write_1m", 1.7, False),
    ("sequential write, against plain iWARP Write", "rio_write_1m", "iwarp_write_1m", 0.8, False),
    ("random read, 4 KiB, against NBD", "rio_random_4k", "nbd_random_4k", 2, False),
    ("random read, 4 KiB, against iSCSI", "rio_random_4k", "iscsi_random_4k", 1, False),
    ("latency of 4 KiB, spinning, against NBD", "rio_latency_4k_spin", "nbd_latency_4k", 1, True),
    ("latency of 4 KiB, spinning, against iSCSI", "rio_latency_4k_spin", "iscsi_latency_4k", 1, True),
]
# Told, and no goal: who does not spin leaves a processor to others.
ASIDE = [
    ("random read, 4 KiB, spinning, against NBD", "rio_random_4k_spin", "nbd_random_4k"),
    ("latency of 4 KiB, not spinning, against NBD", "rio_latency_4k", "nbd_latency_4k"),
    ("latency of 4 KiB, not spinning, against iSCSI", "rio_latency_4k", "iscsi_latency_4k"),
]
CPU_GOAL = 0.01


def show_values(b):
    print("\nDirected remote I/O on loopback, memory device\n%-52s %12s" % ("what", "value"))
    # A subject first, then what it is compared with.
    order = [b.by_name[name] for name in (
        "rio_read_1m", "rio_relayed_read_1m", "iwarp_write_1m", "rio_write_1m", "rio_relayed_write_1m",
        "rio_random_4k", "rio_random_4k_spin", "nbd_random_4k", "iscsi_random_4k", "rio_latency_4k_spin",
        "rio_latency_4k",
        "nbd_latency_4k", "iscsi_latency_4k")]
    for s in order:
        show_value(s)
    for text, cpu in (("CPU of the owner for 1 GiB, requests of 1 MiB", b.direct_cpu),
                      ("  relayed: of owner and relay", b.relayed_cpu)):
        print("%-52s %12s" % (text, "-" if cpu.per_gib() is None else "%.2f ms" % (cpu.per_gib() * 1e3)))
    print("%-52s %12.1f bytes, for a request of 1 MiB" % ("control through the owner's adapter",
                                                         b.own_control))
    print("%-52s %12d bytes, of %d that were moved" % ("payload through the relay's adapters, if relayed",
                                                      b.relay_payload, b.moved_bytes))
    print("%-52s %12d bytes; relayed %d" % ("payload over the wires", b.direct_wire, b.relay_wire))


def show_table(b):
    show_values(b)
    show_goal_head()
    print("%-52s %4d bytes %4s %3d    %s" % ("payload through the owner's adapter", b.own_payload, "=", 0,
                                           verdict(b.own_payload == 0)))
    for text, ours, theirs, goal, is_most in GOALS:
        show_goal(text, (b.by_name[ours], b.by_name[theirs]), goal, is_most)
    for text, ours, theirs in ASIDE:
        ours, theirs = b.by_name[ours], b.by_name[theirs]
        ratio = ratio_of(ours.value(), theirs.value())
        is_disturbed = ours.is_disturbed() or theirs.is_disturbed()
        print("%-52s %10s%s" % (text, "not known" if ratio is None else "%.2f x" % ratio,
                                " ~" if is_disturbed else ""))
    cpu = ratio_of(b.direct_cpu.per_gib(), b.relayed_cpu.per_gib())
    if cpu is None:
        print("%-52s %10s" % ("CPU of the owner, against relayed", "not known"))
    else:
        print("%-52s %8.2f %% %4s %3g %%  %s%s"
              % ("CPU of the owner, against relayed", cpu * 100, "<=", CPU_GOAL * 100,
                 verdict(cpu <= CPU_GOAL), " ~" if b.is_cpu_disturbed() else ""))
    print("\n%.1f s each; the median of the calmest %d of %d rounds. Latencies are means."
          % (b.options.seconds, min(Subject.rounds_used, b.options.rounds), b.options.rounds))
    if any(s.is_disturbed() for s in b.rows):
        print(DISTURBED)


def show_lines(b):
    show_line("rio_owner_payload", b.own_payload, "bytes", "rio_moved", b.own_payload / b.moved_bytes)
    show_line("rio_relay_payload", b.relay_payload, "bytes", "rio_moved", b.relay_payload / b.moved_bytes)
    show_line("rio_wire_payload", b.direct_wire, "bytes", "rio_relayed_wire_payload",
              b.direct_wire / b.relay_wire)
    show_line("rio_owner_control", b.own_control, "bytes/request", "block_1m", b.own_control / MIB)
    pairs = [(g[1], g[2]) for g in GOALS] + [(a[1], a[2]) for a in ASIDE]
    for ours, theirs in ((b.by_name[x], b.by_name[y]) for x, y in pairs):
        show_pair_line(ours, theirs)
    cpu = ratio_of(b.direct_cpu.per_gib(), b.relayed_cpu.per_gib())
    if cpu is not None:
        show_line("rio_owner_cpu", b.direct_cpu.per_gib(), "s/GiB", "rio_relayed_cpu", cpu,
                  b.is_cpu_disturbed())


# ---- The command -------------------------------------------------------------------------------

def main():
    options = options_read(command(__doc__, ROUNDS, SECONDS))
    return run_bench("rio_bench", Place(), lambda place: Bench(place, options),
                     show_lines if options.json else show_table)


if __name__ == "__main__":
    sys.exit(main())
