#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""bad_days_test.py WEFT: what a split network card does when its peers, its LAN or its guest do what they should not.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`.
"""
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from card import HOST, SERVER, WEFT, Card, End, ended, wait_until  # noqa: E402
from script import PATIENCE_S, expect, expect_equal, main  # noqa: E402

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
PEER_MAC = bytes.fromhex("020000000077")
OTHER_MAC = bytes.fromhex("020000000099")
EVERYONE = b"\xff" * 6
TYPE = b"\x88\xb5"  # for experiments on a LAN


class Peer:
    """Of a port socket:PATH,listen: frames, each after its length."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(path)
        self.stream = self.socket.makefile("rb")

    def send(self, frame):
        self.socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def receive(self, is_wanted):
        """The next frame that is."""
        while True:
            length = self.stream.read(4)
            expect("the port is there", len(length) == 4)
            frame = self.stream.read(int.from_bytes(length, "big"))
            if is_wanted(frame):
                return frame

    def close(self):
        self.stream.close()
        self.socket.close()


def frame(to, text, size=60, source=PEER_MAC):
    return (to + source + TYPE + text).ljust(size, b".")


def drops(end, way="in"):
    return {drop["reason"]: drop["count"] for drop in end.status()["drops"] if drop["way"] == way}


def is_experiment(received):
    return received[12:14] == TYPE


class SocketCard(Card):
    """The LAN and the host's card are sockets of the test's own."""

    def __init__(self, folder, **options):
        super().__init__(folder, lan="socket:%s/lan,listen" % folder, port="socket:%s/guest,listen" % folder,
                         macs=[":".join("%02x" % byte for byte in PEER_MAC)], **options)

    def __enter__(self):
        self.start()
        self.lan, self.guest = (Peer(os.path.join(self.folder, name)) for name in ("lan", "guest"))
        for end in self.ends:
            wait_until("its port is up", lambda end=end: end.status()["ports"][0]["up"])
        return self

    def __exit__(self, *_):
        self.lan.close()
        self.guest.close()
        self.close()


# ---- Frames --------------------------------------------------------------------------------------

def frames_pass(folder, wire):
    with SocketCard(folder, wire=wire) as card:
        for size in (14, 60, 256 - 12, 257 - 12, 1514):
            sent = frame(PEER_MAC, b"", size, OTHER_MAC)
            card.lan.send(sent)
            expect_equal("of the LAN, %d bytes" % size, card.guest.receive(is_experiment), sent)
            sent = frame(OTHER_MAC, b"", size)
            card.guest.send(sent)
            expect_equal("of the host, %d bytes" % size, card.lan.receive(is_experiment), sent)
        for tags in (b"\x81\0\0\x05", b"\x88\xa8\0\x07\x81\0\0\x05"):
            sent = PEER_MAC + OTHER_MAC + tags + TYPE + b"in a VLAN".ljust(60, b".")
            card.lan.send(sent)
            expect_equal("with its tags", card.guest.receive(lambda f, t=tags: f[12:16] == t[:4]), sent)


def test_push_10_push_20_frames_of_every_size_pass_over_roce(folder):
    frames_pass(folder, "roce")


def test_push_10_push_20_frames_of_every_size_pass_over_iwarp(folder):
    frames_pass(folder, "iwarp")


def test_push_14_frames_of_13_and_of_65536_bytes_are_dropped(folder):
    with SocketCard(folder) as card:
        for peer, end, other, to, source in ((card.lan, card.unit, card.guest, PEER_MAC, OTHER_MAC),
                                             (card.guest, card.hosts[0], card.lan, OTHER_MAC, PEER_MAC)):
            for size in (13, 65536):
                peer.send((to + source + b"x").ljust(size, b"x"))
            peer.send(frame(to, b"after them", source=source))
            expect("the next one comes, and nothing before it",
                   other.receive(is_experiment)[14:24] == b"after them")
            expect_equal("dropped, with reasons", drops(end), {"lan_short": 1, "lan_long": 1})


SEND = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("srv0", 0))
for word in sys.argv[1:]:
    text, size = word.split(":")
    s.send((b"\\xff" * 6 + b"\\x02\\0\\0\\0\\0\\x99\\x88\\xb5" + text.encode()).ljust(int(size), b"."))
"""
LISTEN = """
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88b5))
s.bind(("card0", 0x88b5))
print("listens", flush=True)
print(s.recv(1 << 17)[14:].decode(), flush=True)
"""


def test_push_14_a_frame_too_long_takes_no_other_with_it(folder):
    """Both are in one batch of the LAN's: the unit is stopped until they wait for it."""
    with Card(folder).start() as card:
        card.ping(SERVER)
        for space, name in ((card.unit_space, "lan0"), (card.server, "srv0")):
            space.must("ip", "link", "set", name, "mtu", "65535")
        listener = card.host_spaces[0].start(sys.executable, "-c", LISTEN, stdout=subprocess.PIPE)
        expect_equal("it", listener.stdout.readline(), "listens\n")
        card.unit.process.send_signal(signal.SIGSTOP)
        card.server.must(sys.executable, "-c", SEND, "long:65549", "good:60")
        card.unit.process.send_signal(signal.SIGCONT)
        heard, _ = listener.communicate(timeout=PATIENCE_S)
        expect_equal("what the host hears", heard.strip(), "good".ljust(46, "."))
        expect_equal("dropped", drops(card.unit).get("lan_long"), 1)


def test_push_24_frames_of_a_host_without_a_unit_are_counted(folder):
    with SocketCard(folder) as card:
        card.unit.kill()
        card.hosts[0].await_line("no longer connected")
        for n in range(10):
            card.guest.send(frame(OTHER_MAC, b"%d" % n))
        wait_until("all of them are", lambda: card.hosts[0].status()["absent"] == 10)


def test_push_09_a_guest_gets_what_is_for_groups(folder):
    """It has no word for those that it wants: without them it would find no neighbour by IPv6."""
    with SocketCard(folder) as card:
        sent = frame(bytes.fromhex("3333ff000077"), b"who has it?", source=OTHER_MAC)
        card.lan.send(sent)
        expect_equal("the guest gets it", card.guest.receive(is_experiment), sent)


# ---- Too much ------------------------------------------------------------------------------------

def memory_kib(process):
    with open("/proc/%d/status" % process.pid, encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


def test_push_24_a_host_that_returns_nothing_loses_its_own_frames(folder):
    """Its guest reads nothing: elements do not come back, and the unit drops what is too much, and says so."""
    with SocketCard(folder) as card:
        sent = 0
        while card.unit.link()["dropped"] == 0:
            for _ in range(256):
                card.lan.send(frame(PEER_MAC, b"%d" % sent, 1514, OTHER_MAC))
                sent += 1
            expect("it ends: %r" % card.unit.link(), sent < 1 << 16)
        before = memory_kib(card.unit.process), memory_kib(card.hosts[0].process)
        for _ in range(4096):
            card.lan.send(frame(PEER_MAC, b"more", 1514, OTHER_MAC))
        wait_until("all that is too much is dropped", lambda: card.unit.link()["dropped"] >= 4096)
        link = card.unit.link()
        expect_equal("every element is in use or free: %r" % link, link["writing"], 0)
        expect("the host has the rest: %r" % link, link["used"] > 0 and link["state"] == "open")
        card.unit.await_line("h0 takes no packets: ")
        shown = card.unit_space.run(WEFT, "card", "status", str(card.unit.process.pid)).stdout
        expect("and for how long: " + shown, re.search(r"\d wait now: no element came back for \d+\.\d s$", shown, re.M))
        after = memory_kib(card.unit.process), memory_kib(card.hosts[0].process)
        expect("memory is bounded: %r, then %r KiB" % (before, after),
               all(now < then + (4 << 10) for then, now in zip(before, after)))
        # What was taken comes, once it is read, in its order; and so does what follows.
        for n in range(256):
            expect("frame %d" % n, card.guest.receive(is_experiment)[14:].startswith(b"%d." % n))
        while card.unit.link()["waiting"] > 0:
            card.guest.receive(is_experiment)
        card.unit.await_line("h0 takes packets again")
        expect_equal("it was named once", card.unit.said().count("takes no packets"), 1)
        card.guest.send(frame(OTHER_MAC, b"still here"))
        expect("the other way is open", card.lan.receive(is_experiment)[14:24] == b"still here")


FLOOD = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("srv0", 0))
frame = bytes.fromhex(sys.argv[1]) + b"\\x02\\0\\0\\0\\0\\x99\\x88\\xb5" + bytes(46)
for _ in range(int(sys.argv[2])):
    try:
        s.send(frame)
    except OSError:
        pass
"""
FLOOD_FRAMES = 200000
FEW = 100  # frames of the LAN for others


def test_push_24_in_a_flood_drops_are_counted_and_control_is_answered(folder):
    with Card(folder).start() as card:
        card.ping(SERVER)
        before = memory_kib(card.unit.process)
        flood = card.server.start(sys.executable, "-c", FLOOD, card.hosts[0].link()["mac"].replace(":", ""),
                                  str(FLOOD_FRAMES), **QUIET)
        # Control: the host asks for shorter frames, and the unit agrees.
        wait_until("the flood has begun", lambda: card.unit.link()["packets_out"] > 1000)
        card.host_spaces[0].must("ip", "link", "set", "card0", "mtu", "1400")
        wait_until("the unit knows it", lambda: card.unit.link()["mtu"] == 1400)
        expect_equal("all was sent", flood.wait(timeout=PATIENCE_S), 0)
        wait_until("nothing waits", lambda: card.unit.link()["waiting"] == card.unit.link()["writing"] == 0)
        unit = card.unit.status()
        came, link = unit["ports"][0]["frames_in"], unit["links"][0]
        counted = link["packets_out"] + link["dropped"] + unit["busy"]
        expect("all that came was passed on, or counted: %d, %r" % (came, link), came - FEW <= counted <= came + FEW)
        lost = sum(drops(card.unit).values()) + rx_dropped(card)
        expect("and so was what did not come: %d and %d" % (came, lost), came + lost >= FLOOD_FRAMES)
        expect("memory is bounded", memory_kib(card.unit.process) < before + (64 << 10))
        expect_equal("the link is the same", card.unit.said().count(" is connected"), 1)
        card.ping(SERVER)


def rx_dropped(card):
    """By the kernel, before the unit's socket."""
    shown = json.loads(card.unit_space.must("ip", "-s", "-j", "link", "show", "lan0"))
    return shown[0]["stats64"]["rx"]["dropped"]


# ---- A LAN that takes nothing -------------------------------------------------------------------

def send_until(card, what, is_true, size=1514):
    """Frames of the host, one at a time, until that is true; how many."""
    sent = 0
    while not is_true():
        card.guest.send(frame(OTHER_MAC, b"%d." % sent, size))
        sent += 1
        expect("%s after %d frames: %r" % (what, sent, card.unit.status()), sent < 1 << 12)
        wait_until("the unit has it", lambda: card.unit.link()["packets_in"] >= sent)
    return sent


def test_push_24_the_last_frames_for_a_full_lan_come_by_themselves(folder):
    with SocketCard(folder) as card:
        sent = send_until(card, "frames are held for the LAN", lambda: card.unit.status()["ports"][0]["held"] > 0)
        for n in range(sent):
            expect("frame %d of %d" % (n, sent), card.lan.receive(is_experiment)[14:].startswith(b"%d." % n))


def test_push_24_frames_in_sends_that_find_a_full_lan_are_dropped(folder):
    """Each frame of the LAN wakes the unit, which has no more room than before."""
    with SocketCard(folder, host_lines="inline 1024") as card:
        send_until(card, "frames are held for the LAN", lambda: card.unit.status()["ports"][0]["held"] > 0, 1000)
        for n in range(64):
            card.lan.send(frame(PEER_MAC, b"%d." % n, source=OTHER_MAC))
            expect("frame %d" % n, card.guest.receive(is_experiment)[14:].startswith(b"%d." % n))
            before = card.unit.link()["packets_in"]
            card.guest.send(frame(OTHER_MAC, b"more", 1000))
            wait_until("it came", lambda: card.unit.link()["packets_in"] > before)
        expect("dropped: %r" % card.unit.status(), card.unit.status()["busy"] >= 32)


def test_push_24_a_port_that_has_room_again_is_found_without_a_free_buffer(folder):
    """The host has none, as the LAN takes nothing of it. That it looks for no more frames must not keep it from
    seeing that its guest takes some."""
    with SocketCard(folder) as card:
        host, sent = card.hosts[0], 0
        while host.link()["for_port"] == 0:
            for _ in range(64):
                card.lan.send(frame(PEER_MAC, b"%d." % sent, 1514, OTHER_MAC))
                sent += 1
            expect("it ends: %r" % host.link(), sent < 1 << 14)
        sent = 0
        while host.status()["buffers_free"] > 0:
            for _ in range(16):
                card.guest.send(frame(OTHER_MAC, b"%d." % sent, 1514))
                sent += 1
            expect("it ends: %r" % host.status(), sent < 1 << 12)
        # The unit drops what the host had no elements for; the host has the others.
        for n in range(host.link()["packets_in"]):
            expect("frame %d" % n, card.guest.receive(is_experiment)[14:].startswith(b"%d." % n))
        for n in range(sent):
            expect("frame %d" % n, card.lan.receive(is_experiment)[14:].startswith(b"%d." % n))


# ---- No descriptors ------------------------------------------------------------------------------

def test_push_24_a_unit_without_descriptors_takes_its_lan_later(folder):
    with SocketCard(folder) as card:
        card.lan.close()
        card.unit.await_line("link down: The peer of the frame port closed")
        unit = card.unit.process.pid
        limits = resource.prlimit(unit, resource.RLIMIT_NOFILE)
        used = max(int(name) for name in os.listdir("/proc/%d/fd" % unit))
        resource.prlimit(unit, resource.RLIMIT_NOFILE, (used + 1, limits[1]))
        card.lan = Peer(os.path.join(folder, "lan"))
        card.unit.await_line("link down: The process, or the host, has no file descriptor left")
        card.hosts[0].await_line("the LAN is down")
        resource.prlimit(unit, resource.RLIMIT_NOFILE, limits)
        card.unit.await_line("link up", times=2)
        sent = frame(PEER_MAC, b"at last", source=OTHER_MAC)
        card.lan.send(sent)
        expect_equal("it goes on", card.guest.receive(is_experiment), sent)


# ---- Clumsy administrators -----------------------------------------------------------------------

def test_push_05_two_hosts_with_one_key_do_not_take_turns_ever_faster(folder):
    """The newer connection is the host's. The other one dials again, but after ever longer."""
    turns = 14
    with SocketCard(folder) as card:
        with open(os.path.join(folder, "host0.conf"), encoding="ascii") as f:
            twin = End(card.host_spaces[0], "host", card.write("twin.conf", f.read().replace("/guest", "/twin")))
        card.ends.append(twin)
        began = time.monotonic()
        twin.start()
        card.unit.await_line(" is connected, by", times=turns)
        # Each waits 50 ms, and twice as long after each turn.
        waited = sum(0.05 * 2 ** n for n in range(turns // 2 - 2))
        expect("their waits add up: " + card.unit.said(), time.monotonic() - began > waited)


# ---- Gone ----------------------------------------------------------------------------------------

def carrier(card):
    return "NO-CARRIER" not in card.host_spaces[0].must("ip", "link", "show", "card0")


class Pings:
    """From a namespace, until told: what is sent to an end that has gone comes back."""

    def __init__(self, space, to):
        self.process = space.start("ping", "-q", "-i", "0.05", to, **QUIET)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ended(self.process)


def killed(folder, wire):
    """By their silence, they would be missed after 200 s at the earliest, longer than a test has patience."""
    with Card(folder, wire=wire, lines="alive 600s").start() as card:
        card.ping(SERVER)
        with Pings(card.host_spaces[0], SERVER):
            card.unit.kill()
            wait_until("the carrier goes", lambda: not carrier(card))
        card.hosts[0].await_line("u is no longer connected")
        card.unit.start()
        wait_until("the carrier comes", lambda: carrier(card))
        card.ping(SERVER)
        with Pings(card.server, HOST):
            card.hosts[0].kill()
            card.unit.await_line("h0 is no longer connected")
        card.hosts[0].start()
        card.hosts[0].await_line(" is connected")
        card.address()
        card.ping(SERVER)


def packets_of(space, interface):
    return int(space.must("cat", "/sys/class/net/%s/statistics/tx_packets" % interface))


def stays_up(folder, wire):
    """With no frame at all, and nothing else that would wake an end, as a question for its state does."""
    with SocketCard(folder, wire=wire, lines="alive 1s") as card:
        for space in card.spaces:
            space.must("sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6")
        before = packets_of(card.host_spaces[0], "wh0")
        wait_until("the ends ask each other", lambda: packets_of(card.host_spaces[0], "wh0") - before >= 20)
        for end in card.ends:
            expect("it is still there: " + end.said(), "no longer connected" not in end.said())
            expect("for long: %r" % end.link(), end.link()["age_ms"] > 2000)


def test_push_03_an_idle_link_stays_up_over_roce(folder):
    stays_up(folder, "roce")


def test_push_03_an_idle_link_stays_up_over_iwarp(folder):
    stays_up(folder, "iwarp")


def test_push_24_kill_9_of_either_side_is_known_at_once_over_roce(folder):
    killed(folder, "roce")


def test_push_24_kill_9_of_either_side_is_known_at_once_over_iwarp(folder):
    killed(folder, "iwarp")


def stops_alone(folder, wire):
    """Its peer neither answers the flush nor is missed soon, and nothing else wakes it."""
    with SocketCard(folder, wire=wire, lines="alive 600s") as card:
        host, unit = card.hosts[0], card.unit
        os.kill(unit.process.pid, signal.SIGSTOP)
        host.end()
        os.kill(unit.process.pid, signal.SIGCONT)
        host.start()
        host.await_line(" is connected")
        os.kill(host.process.pid, signal.SIGSTOP)
        unit.end()


def test_push_17_an_end_stops_while_its_peer_does_not_run_over_roce(folder):
    stops_alone(folder, "roce")


def test_push_17_an_end_stops_while_its_peer_does_not_run_over_iwarp(folder):
    stops_alone(folder, "iwarp")


def test_push_24_kill_9_on_an_idle_link_is_known_when_it_is_asked(folder):
    """Nothing is sent that could come back, until the other end asks whether the killed one is there."""
    with Card(folder, lines="alive 9s").start() as card:
        card.ping(SERVER)
        card.unit.kill()
        wait_until("the carrier goes", lambda: not carrier(card))
        card.hosts[0].await_line("u is no longer connected")
        expect("not by its silence: " + card.hosts[0].said(), "did not answer in time" not in card.hosts[0].said())


main(globals())
