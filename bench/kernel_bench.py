#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""kernel_bench.py [--json] [--rounds N] [--accel kvm|count] [--build DIR]: weft next to the kernel's siw and rxe.

perftest runs in the guest of ./dev interop, both ends there: on rdma-core and the kernel's driver, and on
weft's drop-in libraries, one after the other in each round. The median of the rounds counts. A missed goal is
said, but no error. The guest runs by KVM where it boots by that. Else one processor is emulated, whose clock
counts instructions, a nanosecond each (count): what others do on the machine changes nothing. Two ends that
spin would share that processor in turns of milliseconds, so the ends of Sends sleep there, and ib_write_lat,
which cannot, is left out.

The kernel's drivers are on the guest's eth0 and weft on lo of a network namespace, as rxe keeps UDP's port
4791. In either case the peer's address is the guest's own, so that packets go by lo; rxe hands those to
its own device on without IP and UDP.
"""
import argparse
import collections
import contextlib
import io
import os
import re
import subprocess
import sys
import tarfile

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "interop"))
import interop  # noqa: E402
from rows import (DISTURBED, Failure, Subject, show_goal, show_goal_head, show_pair_line,  # noqa: E402
                  show_value, tell)

ROUNDS = 5
PROCESSORS = {"kvm": min(os.cpu_count(), 4), "count": 1}
MTU = 9000  # RoCE's path MTU is 4096 then, as on lo
RUN_SECONDS = 60
TRIES = 3  # perftest's server closes its first listener, and opens another one: tests/interop/README.md
PORTS = range(7600, 7900)
LONGER = {"kvm": 20, "count": 1}  # so many times the count of messages

Program = collections.namedtuple("Program", "title size count")
PROGRAMS = {
    "ib_write_bw": Program("Write 64 KiB", 65536, 300),
    "ib_read_bw": Program("Read 64 KiB", 65536, 300),
    "ib_send_bw": Program("Send 64 KiB", 65536, 300),
    "ib_write_lat": Program("latency of an 8-byte Write", 8, 300),
    "ib_send_lat": Program("latency of an 8-byte Send", 8, 300),
}
BANDWIDTH_GOAL, LATENCY_GOAL = 1.5, 0.7

# Of whom: words for perftest, and weft's environment; the kernel has none.
End = collections.namedtuple("End", "name title words env")
# use: what is on eth0, for tests/interop/kernel/guest/use. siw agrees to a CRC only if it must.
Group = collections.namedtuple("Group", "use kernel wefts tools")
GROUPS = [
    Group("siw", End("siw", "siw", "-R -d siw0", None),
          [End("iwarp", "iWARP", "-R", "WEFT_DEVICES=iw_lo WEFT_CRC=off")], list(PROGRAMS)),
    Group("siw:mpa_crc_required=1", End("siw_crc", "siw, CRC", "-R -d siw0", None),
          [End("iwarp_crc", "iWARP, CRC", "-R", "WEFT_DEVICES=iw_lo")], ["ib_write_bw", "ib_send_lat"]),
    Group("rxe", End("rxe", "rxe", "-d rxe0 -x 1", None),
          [End("roce_udp", "UDP", "", "WEFT_DEVICES=roce_lo WEFT_NEAR=off"),
           End("roce_near", "near", "", "WEFT_DEVICES=roce_lo")], list(PROGRAMS)),
]
KERNEL_AT = "both %d 10.77.0.11 "
WEFT_AT = "ip netns exec weft env LD_LIBRARY_PATH=/rig/weft %s both %%d 127.0.0.1 "


def is_latency(tool):
    return tool.endswith("_lat")


def can_run(tool, accel):
    return accel != "count" or tool != "ib_write_lat"


def words_for(tool, accel):
    """-F: its opinion of the processor's clock is not asked for. -N: no clock for every message. -e: it
    sleeps."""
    words = ["-F"] if is_latency(tool) else ["-F", "-N"]
    return words + (["-e"] if accel == "count" and "_send_" in tool else [])


def figure(tool, size, count, said):
    """Bytes a second, or the median of the latencies in ns, of perftest's row."""
    row = re.search(r"^ *%d +%d +(.*)$" % (size, count), said, re.M)
    words = row[1].split() if row else []
    try:
        # t_min t_max t_typical ..., or: peak, average in MiB/s, rate
        value = float(words[2]) * 1e3 if is_latency(tool) else float(words[1]) * (1 << 20)
    except (IndexError, ValueError):
        value = 0
    if value <= 0:
        raise Failure("%s: %s" % (tool, (said.strip().splitlines() or ["it said nothing"])[-1]))
    return value


class Guest:
    """The guest, and what was booted."""

    def __init__(self, options):
        self.options, self.ports = options, 0
        self.accel, self.system = self.boot()
        self.pid = int(interop.rig("pid").stdout)
        self.prepare()

    def boot(self):
        accels = [self.options.accel] if self.options.accel else ["kvm", "count"]
        if not self.options.accel and not os.access("/dev/kvm", os.W_OK):
            accels = ["count"]
        for accel in accels:
            done = interop.rig("up", "-k", self.options.kernel, "-m", str(MTU), "-a", accel, "-c",
                               str(PROCESSORS[accel]), check=False)
            if done.returncode == 0:
                return accel, re.search(r"RIG-READY (\S+)", done.stdout)[1]
            why = (done.stdout.strip().splitlines() or ["it said nothing"])[-1]
            sys.stderr.write("kernel_bench: by %s: %s\n" % (accel, why))
            interop.rig("down")
        raise Failure("the guest does not boot")

    def prepare(self):
        """weft's libraries, with what the guest lacks of theirs, and a network for them."""
        libraries = [os.path.join(self.options.build, name) for name in ("libibverbs.so.1", "librdmacm.so.1")]
        listed = subprocess.run(["ldd", *libraries], stdout=subprocess.PIPE, text=True, check=True).stdout
        libraries += sorted(set(re.findall(r"=> (/\S*/libisal\S*)", listed)))
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", dereference=True) as tar:
            for path in libraries:
                tar.add(path, os.path.basename(path))
        done = subprocess.run([interop.RIG, "exec", "-t", str(RUN_SECONDS),
                               "mkdir /rig/weft && tar -x -C /rig/weft && ip netns add weft"
                               " && ip -n weft link set lo up"],
                              input=packed.getvalue(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise Failure("the guest takes no libraries: " + done.stdout.decode(errors="replace").strip())

    def perftest(self, tool, end):
        """One run of it: both ends, in the guest."""
        size, count = PROGRAMS[tool].size, PROGRAMS[tool].count * LONGER[self.accel]
        command = (WEFT_AT % end.env if end.env else KERNEL_AT) + "%s -s %d -n %d %s %s" % (
            tool, size, count, " ".join(words_for(tool, self.accel)), end.words)
        for attempt in range(TRIES):
            port = PORTS[self.ports % len(PORTS)]
            self.ports += 1
            done = interop.rig("exec", "-t", str(RUN_SECONDS), command % port, check=False)
            try:
                return figure(tool, size, count, done.stdout)
            except Failure:
                if attempt + 1 == TRIES:
                    raise
        return None


class Counted(Subject):
    """By a clock that counts instructions: the load of the machine does not matter."""

    def is_disturbed(self):
        return False


class Bench:
    def __init__(self, guest):
        self.guest = guest
        self.pairs = []  # ours, theirs, the tool, and what they are
        self.by_use = {group.use: self.subjects(group) for group in GROUPS}

    def subjects(self, group):
        """In the order in which they run: the kernel's, then weft's."""
        rows = []
        for tool in (t for t in group.tools if can_run(t, self.guest.accel)):
            text = PROGRAMS[tool].title
            theirs = self.subject(group.kernel, "%s: %s, %s" % (group.kernel.title, text, tool), tool)
            rows.append(theirs)
            for end in group.wefts:
                rows.append(self.subject(end, "  weft, " + end.title, tool))
                self.pairs.append((rows[-1], theirs, tool,
                                   "%s, %s to %s" % (text, end.title, group.kernel.title)))
        return rows

    def subject(self, end, title, tool):
        kind = Counted if self.guest.accel == "count" else Subject
        s = kind("%s_%s" % (end.name, tool), title, "ns" if is_latency(tool) else "B/s",
                 lambda _: self.guest.perftest(tool, end))
        s.rounds_used = self.guest.options.rounds
        return s

    def measure(self, rounds):
        for use, rows in self.by_use.items():
            interop.rig("exec", "-t", "60", "use " + use)
            for n in range(rounds):
                for s in rows:
                    tell("round %d of %d, %s" % (n + 1, rounds, s.title.strip()))
                    s.sample(lambda: [self.guest.pid], None)
        tell(None)

    def rows(self):
        return [s for rows in self.by_use.values() for s in rows]


def show_table(b, loads, rounds):
    print("\nperftest in the guest, on the kernel's drivers and on weft\n%-52s %12s" % ("what", "value"))
    for s in b.rows():
        show_value(s)
    show_goal_head()
    for ours, theirs, tool, text in b.pairs:
        goal = (LATENCY_GOAL, True) if is_latency(tool) else (BANDWIDTH_GOAL, False)
        show_goal(text, (ours, theirs), *goal)
    print("\nThe guest: Linux %s, processors: %d, by %s. The median of %d rounds."
          % (b.guest.system, PROCESSORS[b.guest.accel], b.guest.accel, rounds))
    print("The load of this machine: %.1f before, %.1f after." % tuple(loads))
    if b.guest.accel == "count":
        print("count: the guest is emulated, and an instruction takes a nanosecond; the ends of Sends sleep.")
    if any(s.is_disturbed() for s in b.rows()):
        print(DISTURBED)


def options_read():
    parser = argparse.ArgumentParser(usage=__doc__.split(":")[0], description=__doc__.partition("\n\n")[2])
    parser.add_argument("--json", action="store_true", help="one object a line instead of the table")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--accel", choices=sorted(LONGER), help="how the guest runs; else what works")
    parser.add_argument("--kernel", default="6.1")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where weft's libraries are")
    parser.add_argument("--rig", help="what drives the guest, which is there; for tests")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("at least one round")
    return options


def main():
    options = options_read()
    if options.rig:
        interop.RIG, interop.LOCK = options.rig, options.rig + ".lock"
    with contextlib.redirect_stdout(sys.stderr):
        reason = None if options.rig else interop.prepare(options.kernel)
    if reason:
        print("skipped: " + reason)
        return 0
    try:
        with interop.lone_guest():
            loads = [os.getloadavg()[0]]
            bench = Bench(Guest(options))
            bench.measure(options.rounds)
            loads.append(os.getloadavg()[0])
        if options.json:
            for ours, theirs, _, _ in bench.pairs:
                show_pair_line(ours, theirs)
        else:
            show_table(bench, loads, options.rounds)
        failed = [s for s in bench.rows() if s.why]
        for s in failed:
            sys.stderr.write("kernel_bench: %s: %s\n" % (s.name, s.why))
        return 1 if failed else 0
    except (Failure, RuntimeError) as e:
        tell(None)
        sys.stderr.write("kernel_bench: %s\n" % e)
        return 1
    except KeyboardInterrupt:
        tell(None)
        return 130


if __name__ == "__main__":
    sys.exit(main())
