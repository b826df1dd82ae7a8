#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""card_bench.py [--json] [--rounds N] [--seconds S] [--weft PROGRAM]: what a split network card is worth.

A host reaches a server on a LAN through another machine, all of them network namespaces of this one, joined by
veth: by a split card; by a tunnel of TCP (socat, and one of weft's own frame ports, which keeps the ends of frames);
by VXLAN of the kernel; and, directly, by a veth pair. A relay (bench/card_relay.c) is the floor of any tunnel of two
processes: it reads and writes the same sockets as the card, and does nothing else. In each round those that are compared run one after
the other. Of the rounds the calmest count, and of these the median. A missed goal is said, but no error: the
machine may be a slow one.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../tests/card"))
import card as split  # noqa: E402
from rio_processes import Place, why_absent  # noqa: E402
from rows import (DISTURBED, Failure, Subject, command, cpu_s, options_read, ratio_of, run_bench, show_goal,  # noqa: E402
                  show_goal_head, show_line, show_pair_line, show_value, tell)
from script import Skip  # noqa: E402

ROUNDS = 5
SECONDS = 2
IDLE_S = 10
STILL_S = 2
TRIES = 5
DATAGRAM_BYTES = 64
TUNNEL_PORT = "7777"
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


# ---- Ways to the server --------------------------------------------------------------------------

class Way:
    """Between the server's namespace and the host's; why: there is none."""

    why = None

    def __init__(self, place, name):
        self.folder = place.path(name)
        os.mkdir(self.folder)
        self.processes = []

    def run(self, *words, seconds):
        done = subprocess.run(self.host.enter(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=seconds + split.PATIENCE_S)
        if done.returncode != 0:
            raise Failure("%s: %s" % (words[0], (done.stdout + done.stderr).strip()[-200:]))
        return done.stdout

    def ready(self):
        """The server answers; iperf3 waits there."""
        self.start(self.server, "iperf3", "-s")
        split.wait_until("the server answers",
                         lambda: self.host.run("ping", "-c", "1", "-W", "1", split.SERVER).returncode == 0)

    def start(self, namespace, *words):
        self.processes.append(namespace.start(*words, **QUIET))

    def ping_ns(self, seconds):
        """The mean of a round trip, one after the other."""
        said = self.run("ping", "-A", "-q", "-w", "%d" % max(1, seconds), split.SERVER, seconds=seconds)
        return float(re.search(r"= [\d.]+/([\d.]+)/", said)[1]) * 1e6

    def iperf(self, seconds, *words):
        said = json.loads(self.run("iperf3", "-J", "-c", split.SERVER, "-t", "%d" % max(1, seconds), *words,
                                   seconds=seconds))
        if "error" in said:
            raise Failure("iperf3: " + said["error"])
        return said["end"]

    def stream(self, seconds, *words):
        return self.iperf(seconds, *words)["sum_received"]["bits_per_second"] / 8

    def datagrams(self, seconds):
        """Those that arrive in a second, of as many as the host can send."""
        said = self.iperf(seconds, "-u", "-b", "0", "-l", str(DATAGRAM_BYTES))["sum"]
        return (said["packets"] - said["lost_packets"]) / said["seconds"]

    def pids(self):
        return [p.pid for p in self.processes]

    def is_there(self):
        return all(p.poll() is None for p in self.processes)

    def close(self):
        for process in self.processes:
            split.ended(process)


class SplitCard(Way):
    def __init__(self, place, name, **options):
        super().__init__(place, name)
        self.card = split.Card(self.folder, **options)
        try:
            self.card.start()
        except BaseException:
            self.card.close()
            raise
        self.server, self.host = self.card.server, self.card.host_spaces[0]
        self.ready()

    def pids(self):
        return super().pids() + [end.process.pid for end in self.card.ends]

    def quiet(self):
        """Nothing is sent: IPv6 looks for routers and neighbours by itself, and says farewell to its groups."""
        for namespace in (self.server, self.host, self.card.unit_space):
            namespace.must("sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6")
        frames = None
        while frames != self.frames():
            frames = self.frames()
            time.sleep(STILL_S)

    def frames(self):
        """That the server and the host have sent to each other so far."""
        return [json.loads(namespace.must("ip", "-j", "-s", "link", "show", name))[0]["stats64"]["tx"]["packets"]
                for namespace, name in ((self.server, "srv0"), (self.host, "card0"))]

    def counted(self):
        link = self.card.hosts[0].link()
        if link["state"] != "open":
            raise Failure("the card has no link: " + self.card.hosts[0].said())
        return link

    def close(self):
        super().close()
        self.card.close()


class Bridged(Way):
    """The namespaces of a card, without its processes: the host's interface, and the unit's, are others'."""

    def __init__(self, place, name):
        super().__init__(place, name)
        self.card = split.Card(self.folder)
        self.unit = self.card.unit_space
        self.server, self.host = self.card.server, self.card.host_spaces[0]
        try:
            self.connect()
            self.ready()
        except BaseException:
            self.close()
            raise

    def bridge(self, interface):
        """With the LAN."""
        for words in (["add", "br0", "type", "bridge"], ["set", "br0", "up"], ["set", "lan0", "master", "br0"],
                      ["set", interface, "master", "br0"], ["set", interface, "up"]):
            self.unit.must("ip", "link", *words)

    def interface_of(self, namespace, interface):
        split.wait_until(interface, lambda: namespace.run("ip", "link", "show", interface).returncode == 0)

    def address(self, interface):
        self.host.must("ip", "addr", "add", split.HOST + "/24", "dev", interface)
        self.host.must("ip", "link", "set", interface, "up")

    def close(self):
        super().close()
        self.card.close()


class Socat(Bridged):
    """Frames lose their ends where TCP joins them: what then arrives is no frame, and is lost."""

    def connect(self):
        tap = "TUN,tun-type=tap,iff-no-pi,iff-up,tun-name=tap0"
        self.start(self.unit, "socat", "TCP-LISTEN:%s,nodelay" % TUNNEL_PORT, tap)
        split.wait_until("socat", lambda: TUNNEL_PORT in self.unit.must("ss", "-ltn"))
        self.start(self.host, "socat", "TCP:198.51.100.0:%s,nodelay" % TUNNEL_PORT, tap)
        for namespace in (self.unit, self.host):
            self.interface_of(namespace, "tap0")
        self.bridge("tap0")
        self.address("tap0")


class FramesByTcp(Bridged):
    def connect(self):
        self.start(self.unit, split.WEFT, "card", "bridge", "packet:lan0",
                   "socket:198.51.100.0:%s,listen" % TUNNEL_PORT)
        split.wait_until("the tunnel", lambda: TUNNEL_PORT in self.unit.must("ss", "-ltn"))
        self.start(self.host, split.WEFT, "card", "bridge", "tap:card0", "socket:198.51.100.0:" + TUNNEL_PORT)
        self.interface_of(self.host, "card0")
        self.address("card0")


class Relay(Bridged):
    """Two processes without RDMA, by UDP: a round trip is four of their wake-ups, and little else."""

    def connect(self):
        relay = os.path.join(os.path.dirname(split.WEFT), "bench/card_relay")
        if not os.path.exists(relay):
            raise Failure("there is no %s" % relay)
        self.start(self.unit, relay, "packet:lan0", "198.51.100.0", "198.51.100.1")
        self.start(self.host, relay, "tap:card0", "198.51.100.1", "198.51.100.0")
        self.interface_of(self.host, "card0")
        self.address("card0")


class Vxlan(Bridged):
    def connect(self):
        for namespace, here, there, dev in ((self.unit, "0", "1", "wu0"), (self.host, "1", "0", "wh0")):
            namespace.must("ip", "link", "add", "vx0", "type", "vxlan", "id", "7", "local", "198.51.100." + here,
                           "remote", "198.51.100." + there, "dstport", "4789", "dev", dev)
        self.bridge("vx0")
        self.address("vx0")


class Plain(Bridged):
    """The LAN's cable ends at the host."""

    def connect(self):
        self.unit.must("ip", "link", "set", "lan0", "netns", str(self.host.holder.pid))
        self.address("lan0")


# ---- Subjects ------------------------------------------------------------------------------------

SPIN = "50us"
WAYS = [  # name, how it is called, how it is made
    ("card", "split card, RoCE", lambda place: SplitCard(place, "card")),
    ("card_spin", "split card, RoCE, both spin " + SPIN,
     lambda place: SplitCard(place, "card_spin", lines="spin " + SPIN)),
    ("card_jumbo", "split card, RoCE, a wire of 9000 bytes",
     lambda place: SplitCard(place, "card_jumbo", wire_mtu=9000)),
    ("card_iwarp", "split card, iWARP", lambda place: SplitCard(place, "card_iwarp", wire="iwarp")),
    ("card_pull", "split card, RoCE, push-pull",
     lambda place: SplitCard(place, "card_pull", unit_lines="pull on")),
    ("socat", "TCP tunnel, socat", lambda place: Socat(place, "socat")),
    ("frames", "TCP tunnel, weft card bridge", lambda place: FramesByTcp(place, "frames")),
    ("relay", "relay without RDMA, the floor", lambda place: Relay(place, "relay")),
    ("vxlan", "kernel VXLAN", lambda place: Vxlan(place, "vxlan")),
    ("veth", "veth, directly", lambda place: Plain(place, "veth")),
]
OURS = ("card", "card_spin", "card_jumbo", "card_iwarp", "card_pull", "frames", "relay")
WHAT = [  # of which ways, unit, how
    ("ping", "ping, mean round trip", "ns", lambda way, seconds: way.ping_ns(seconds)),
    ("out", "TCP stream, host to LAN", "B/s", lambda way, seconds: way.stream(seconds)),
    ("in", "TCP stream, LAN to host", "B/s", lambda way, seconds: way.stream(seconds, "-R")),
    ("udp", "64-byte datagrams that arrive", "requests/s", lambda way, seconds: way.datagrams(seconds)),
]


class Absent:
    def __init__(self, why):
        self.why = why

    def pids(self):
        return []

    def close(self):
        pass


class Bench:
    def __init__(self, place, options):
        self.place, self.options = place, options
        split.WEFT = options.weft
        self.makers = {name: make for name, _, make in WAYS}
        for name, _, make in WAYS:
            tell(name)
            place.ways[name] = self.made(make)
        self.rows = [Subject("%s_%s" % (what, name), "  %s" % title, unit, self.runner(how, name), place.ways[name].why)
                     for what, _, unit, how in WHAT for name, title, _ in WAYS]
        self.by_name = {s.name: s for s in self.rows}
        self.idle, self.cpu_us, self.costs = {}, {}, {}

    def made(self, make):
        try:
            return make(self.place)
        except (Failure, Skip, AssertionError, OSError) as e:
            return Absent(str(e))

    def tried(self, how, name, seconds):
        """socat ends where a flood makes it write what is no frame; and what iperf3 would say may be lost there."""
        for _ in range(TRIES - 1):
            try:
                return how(self.living(name), seconds)
            except Failure:
                pass
        return how(self.living(name), seconds)

    def living(self, name):
        """A way; made anew if one of its processes has ended."""
        way = self.place.ways[name]
        if not way.is_there():
            way.close()
            shutil.rmtree(way.folder)
            self.place.ways[name] = way = self.makers[name](self.place)
        return way

    def runner(self, how, name):
        def run(seconds):
            if how is not WHAT[3][3] or name != "card":
                return self.tried(how, name, seconds)
            way = self.place.ways[name]
            ends = [end.process.pid for end in way.card.ends]
            before, cpu = way.counted(), sum(cpu_s(pid) for pid in ends)
            value = how(way, seconds)
            after = way.counted()
            packets = sum(after[key] - before[key] for key in ("packets_in", "packets_out"))
            self.cpu_us.setdefault(name, []).append((sum(cpu_s(pid) for pid in ends) - cpu) / packets * 1e6)
            return value
        return run

    def measure(self):
        self.place.ways["card"].quiet()
        self.idle = {end.verb: self.wakes(end) for end in self.place.ways["card"].card.ends}
        for name in ("card", "card_pull"):
            self.costs[name] = self.cost(self.place.ways[name])
        for n in range(self.options.rounds):
            for s in self.rows:
                tell("round %d of %d, %s" % (n + 1, self.options.rounds, s.name))
                s.sample(self.place.pids, self.options.seconds)
        tell(None)

    def wakes(self, end):
        """How often a second an end wakes up on an idle link."""
        def switches():
            folder, count = "/proc/%d/task" % end.process.pid, 0
            for task in os.listdir(folder):
                with open("%s/%s/status" % (folder, task), encoding="ascii") as f:
                    count += int(re.search(r"\nvoluntary_ctxt_switches:\s+(\d+)", f.read())[1])
            return count
        before = switches()
        time.sleep(IDLE_S)
        return (switches() - before) / IDLE_S

    def cost(self, way):
        """Messages for each packet, both ways, while one ping follows the other."""
        before = way.counted()
        way.ping_ns(1)
        after = way.counted()
        packets, messages = (sum(after[what + key] - before[what + key] for key in ("_in", "_out"))
                             for what in ("packets", "messages"))
        return messages / packets

    def failed(self):
        return [s for s in self.rows if s.why and s.name.split("_", 1)[1] in OURS]


# ---- What is shown -------------------------------------------------------------------------------

# text, ours, theirs, goal, whether it is the most
GOALS = [
    ("ping, against a TCP tunnel (socat)", "ping_card", "ping_socat", 0.5, True),
    ("ping, against kernel VXLAN", "ping_card", "ping_vxlan", 2, True),
    ("TCP stream out, against a TCP tunnel (socat)", "out_card", "out_socat", 3, False),
    ("TCP stream in, against a TCP tunnel (socat)", "in_card", "in_socat", 3, False),
    ("TCP stream out, against plain veth", "out_card", "out_veth", 0.5, False),
    ("TCP stream in, against plain veth", "in_card", "in_veth", 0.5, False),
    ("64-byte datagrams, against a TCP tunnel (socat)", "udp_card", "udp_socat", 5, False),
    ("ping, push-push against push-pull", "ping_card", "ping_card_pull", 1, True),
]
# Told, and no goal.
ASIDE = [
    ("ping, against frames by TCP", "ping_card", "ping_frames"),
    ("ping, against the floor", "ping_card", "ping_relay"),
    ("ping, the floor against kernel VXLAN", "ping_relay", "ping_vxlan"),
    ("ping, iWARP, against the floor", "ping_card_iwarp", "ping_relay"),
    ("ping, spinning, against kernel VXLAN", "ping_card_spin", "ping_vxlan"),
    ("TCP stream out, against the floor", "out_card", "out_relay"),
    ("TCP stream in, against the floor", "in_card", "in_relay"),
    ("TCP stream out, the floor against plain veth", "out_relay", "out_veth"),
    ("TCP stream in, the floor against plain veth", "in_relay", "in_veth"),
    ("TCP stream out, 9000 bytes, against plain veth", "out_card_jumbo", "out_veth"),
    ("TCP stream in, 9000 bytes, against plain veth", "in_card_jumbo", "in_veth"),
    ("TCP stream out, iWARP, against plain veth", "out_card_iwarp", "out_veth"),
    ("TCP stream in, iWARP, against plain veth", "in_card_iwarp", "in_veth"),
    ("TCP stream out, against frames by TCP", "out_card", "out_frames"),
    ("TCP stream in, against frames by TCP", "in_card", "in_frames"),
    ("64-byte datagrams, against the floor", "udp_card", "udp_relay"),
    ("64-byte datagrams, against frames by TCP", "udp_card", "udp_frames"),
    ("64-byte datagrams, against kernel VXLAN", "udp_card", "udp_vxlan"),
]
WAKES_GOAL = 1


def cpu_per_packet(b):
    return sorted(b.cpu_us["card"])[len(b.cpu_us["card"]) // 2] if b.cpu_us.get("card") else None


def show_table(b):
    print("\nA split network card, between namespaces\n%-52s %12s" % ("what", "value"))
    for what, title, _, _ in WHAT:
        print(title)
        for name, _, _ in WAYS:
            show_value(b.by_name["%s_%s" % (what, name)])
    cpu_us = cpu_per_packet(b)
    print("%-52s %12s" % ("CPU of unit and host for a datagram", "-" if cpu_us is None else "%.2f us" % cpu_us))
    for name, title in (("card", "push-push"), ("card_pull", "push-pull")):
        print("%-52s %12.2f" % ("messages a packet, %s" % title, b.costs[name]))
    show_goal_head()
    for text, ours, theirs, goal, is_most in GOALS:
        show_goal(text, (b.by_name[ours], b.by_name[theirs]), goal, is_most)
    for verb, wakes in b.idle.items():
        print("%-52s %8.2f   %4s %3g    %s" % ("wake-ups a second of an idle " + verb, wakes, "<=", WAKES_GOAL,
                                             "met" if wakes <= WAKES_GOAL else "missed"))
    for text, ours, theirs in ASIDE:
        ratio = ratio_of(b.by_name[ours].value(), b.by_name[theirs].value())
        print("%-52s %10s" % (text, "not known" if ratio is None else "%.2f x" % ratio))
    print("\n%g s each; the median of the calmest %d of %d rounds. Pings are means."
          % (b.options.seconds, min(Subject.rounds_used, b.options.rounds), b.options.rounds))
    if any(s.is_disturbed() for s in b.rows):
        print(DISTURBED)


def show_lines(b):
    for _, ours, theirs, *_ in GOALS + ASIDE:
        show_pair_line(b.by_name[ours], b.by_name[theirs])
    show_line("card_messages", b.costs["card"], "messages/packet", "card_pull_messages",
              b.costs["card"] / b.costs["card_pull"])
    for verb, wakes in b.idle.items():
        show_line("card_idle_" + verb, wakes, "wakes/s", "goal", wakes / WAKES_GOAL)


# ---- The command ---------------------------------------------------------------------------------

class CardPlace(Place):
    def __init__(self):
        super().__init__()
        self.ways = {}

    def pids(self):
        return super().pids() + [pid for way in self.ways.values() for pid in way.pids()]

    def close(self):
        for way in self.ways.values():
            way.close()
        super().close()


def main():
    options = options_read(command(__doc__, ROUNDS, SECONDS))
    why = why_absent(["ping", "iperf3", "ip"])
    if why:
        sys.exit("card_bench: " + why)
    return run_bench("card_bench", CardPlace(), lambda place: Bench(place, options),
                     show_lines if options.json else show_table)


if __name__ == "__main__":
    sys.exit(main())
