#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""interface_test.py WEFT ROOT: what people set up, and set at an interface, holds at the unit, between network namespaces.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`.
"""
import hashlib
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from card import SERVER, WEFT, Card, HttpServer, ended, made_file, wait_until  # noqa: E402
from script import PATIENCE_S, Skip, expect, expect_equal, main, need, write  # noqa: E402

SEND = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("srv0", 0))
for to in sys.argv[1:]:
    s.send(bytes.fromhex(to) + b"\\x02\\0\\0\\0\\0\\x99" + (b"\\x88\\xb5" + to.encode()).ljust(60, b"."))
"""
RECEIVE = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind(("card0", 0))
print("ready", flush=True)
while True:
    frame = s.recv(2048)
    if frame[6:12] == b"\\x02\\0\\0\\0\\0\\x99":
        print(frame[:6].hex(), flush=True)
"""


class Frames:
    """Of the LAN, as the host's interface gets them."""

    def __init__(self, card):
        self.card = card
        self.process = card.host_spaces[0].start(sys.executable, "-u", "-c", RECEIVE, stdout=subprocess.PIPE)
        expect_equal("the interface is looked at", self.process.stdout.readline(), "ready\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ended(self.process)
        self.process.stdout.close()

    def of(self, *to):
        """Which of these are pushed to the host. All stations are the last, and get theirs."""
        everyone = "f" * 12
        self.card.server.must(sys.executable, "-c", SEND, *to, everyone)
        got = []
        for line in self.process.stdout:
            if line.strip() == everyone:
                return got
            got.append(line.strip())
        raise AssertionError("no frame for all stations came")

    def until(self, what, wanted, *to):
        """What the interface wants is asked for by a message: not at once."""
        wait_until(what, lambda: self.of(*to) == wanted)


OTHER, GROUP, GROUP_MAC = "020000000042", "239.1.2.3", "01005e010203"


def test_push_09_groups_and_promiscuous_mode_reach_the_unit(folder):
    with Card(folder).start() as card, Frames(card) as frames:
        host = card.host_spaces[0]
        expect_equal("neither is wanted", frames.of(OTHER, GROUP_MAC), [])
        host.must("ip", "maddr", "add", "01:00:5e:01:02:03", "dev", "card0")
        # The kernel says nothing of groups: the port looks when the host sends frames.
        card.ping(SERVER)
        frames.until("the group's frames come", [GROUP_MAC], OTHER, GROUP_MAC)
        host.must("ip", "maddr", "del", "01:00:5e:01:02:03", "dev", "card0")
        card.ping(SERVER)
        frames.until("they come no more", [], OTHER, GROUP_MAC)
        host.must("ip", "link", "set", "card0", "promisc", "on")
        frames.until("all come", [OTHER, GROUP_MAC], OTHER, GROUP_MAC)
        host.must("ip", "link", "set", "card0", "promisc", "off")
        frames.until("and no more", [], OTHER, GROUP_MAC)


def vlan(space, interface, number, address):
    made = space.run("ip", "link", "add", "link", interface, "name", "v%d" % number, "type", "vlan", "id", str(number))
    if made.returncode != 0:
        raise Skip("this kernel has no VLANs: " + made.stderr)
    space.must("ip", "addr", "add", address + "/24", "dev", "v%d" % number)
    space.must("ip", "link", "set", "v%d" % number, "up")


def test_push_09_vlans_of_the_interface_reach_the_unit(folder):
    with Card(folder).start() as card:
        host = card.host_spaces[0]
        for number in (5, 6):
            vlan(card.server, "srv0", number, "203.0.113.1" if number == 5 else "198.18.0.1")
        vlan(host, "card0", 5, "203.0.113.2")
        wait_until("frames of the VLAN pass", lambda: host.run("ping", "-c", "1", "-W", "1", "203.0.113.1").returncode == 0)
        card.ping("-s", "4000", "203.0.113.1")
        # One that it has no interface of does not cross: the broadcasts by which the server looks for an address.
        before = card.unit.link()["packets_out"]
        card.server.run("ping", "-c", "3", "-i", "0.2", "-W", "1", "198.18.0.2")
        without = card.unit.link()["packets_out"] - before
        vlan(host, "card0", 6, "198.18.0.2")
        wait_until("frames of the other VLAN pass",
                   lambda: card.server.run("ping", "-c", "1", "-W", "1", "198.18.0.2").returncode == 0)
        expect("%d packets were pushed" % without, without < 3)


def test_push_09_an_mtu_of_9000_carries_packets_of_9000_bytes(folder):
    with Card(folder, lines="mtu 9000") as card:
        card.unit_space.must("ip", "link", "set", "lan0", "mtu", "9000")
        card.server.must("ip", "link", "set", "srv0", "mtu", "9000")
        card.start()
        card.host_spaces[0].must("ip", "link", "set", "card0", "mtu", "9000")
        wait_until("both agree", lambda: card.unit.link()["mtu"] == 9000)
        before = card.hosts[0].link()["packets_in"]
        card.ping("-M", "do", "-s", "8972", SERVER)
        card.ping("-6", "-M", "do", "-s", "8952", "fd00:7::1")
        came = card.hosts[0].link()["packets_in"] - before
        expect("in one piece: %d packets" % came, came < 20)
        longer = card.host_spaces[0].run("ping", "-c", "1", "-w", "2", "-M", "do", "-s", "8973", SERVER)
        expect("and no longer ones: " + longer.stdout + longer.stderr, longer.returncode != 0)


def test_push_09_the_interface_has_the_link_of_the_lan(folder):
    def has_carrier():
        return "NO-CARRIER" not in card.host_spaces[0].must("ip", "link", "show", "card0")

    with Card(folder).start() as card:
        wait_until("there is a carrier", has_carrier)
        card.server.must("ip", "link", "set", "srv0", "down")
        wait_until("it goes with that of the LAN", lambda: not has_carrier())
        card.hosts[0].await_line("the LAN is down")
        card.server.must("ip", "link", "set", "srv0", "up")
        wait_until("it comes back", has_carrier)
        card.ping(SERVER)
        expect_equal("one connection all the time", card.hosts[0].said().count(" is connected"), 1)


def test_push_02_a_lan_by_passt_needs_no_privilege(folder):
    """The unit has no interface of the LAN: passt translates between its socket and what a plain process may do."""
    need("passt", "curl")
    path, digest = made_file(folder, 4)
    listener = os.path.join(folder, "passt")
    with Card(folder, lan="socket:" + listener) as card:
        card.unit_space.must("ip", "addr", "add", "192.0.2.9/24", "dev", "lan0")
        card.unit_space.must("ip", "route", "add", "default", "via", SERVER)
        passt = card.unit_space.start("passt", "--foreground", "--quiet", "--ipv4-only", "--no-map-gw", "--runas", "0", "--socket", listener,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            wait_until("passt listens", lambda: os.path.exists(listener) or passt.poll() is not None)
            if passt.poll() is not None:
                raise Skip("passt does not run here: " + passt.stdout.read())
            card.start()
            host = card.host_spaces[0]
            host.must("ip", "addr", "flush", "dev", "card0")
            host.must("ip", "addr", "add", "192.0.2.9/24", "dev", "card0")
            with HttpServer(card, path):
                done = subprocess.run(host.enter("curl", "-sS", "--max-time", str(PATIENCE_S), "http://%s:8080/page" % SERVER),
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            expect_equal("curl: " + done.stderr.decode(), done.returncode, 0)
            expect_equal("the page", hashlib.sha256(done.stdout).hexdigest(), digest)
        finally:
            ended(passt)
            passt.stdout.close()


# ---- The page ------------------------------------------------------------------------------------

class Machine:
    """A namespace with a folder, in which the page's commands are typed as they are printed."""

    def __init__(self, space, folder):
        self.space, self.folder, self.keys, self.running = space, folder, {}, []
        os.mkdir(folder)

    def type(self, line, keys):
        word = line.split("#")[0].strip()
        if word.startswith("weft card "):
            log = open(os.path.join(self.folder, "said"), "w+", encoding="utf-8")
            self.running.append((self.start(word, stdout=log, stderr=log), log))
            return
        with self.start(word, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as done:
            said = done.communicate(timeout=PATIENCE_S)[0]
        expect_equal("%s: %s" % (word, said), done.returncode, 0)
        if word.startswith("weft key new "):
            keys[word.split()[-1].split(".")[0].upper()] = next(w for w in said.split() if len(w) == 64)

    def start(self, line, **options):
        return self.space.start("env", "-C", self.folder, "PATH=%s:%s" % (os.path.dirname(WEFT), os.environ["PATH"]),
                                "sh", "-c", "exec " + line, **options)

    def said(self):
        with open(os.path.join(self.folder, "said"), encoding="utf-8") as f:
            return f.read()

    def close(self):
        for process, log in self.running:
            ended(process)
            log.close()


def blocks(page):
    """The section's text in pieces: lines that are printed as code, and others."""
    code = []
    for line in page.split("## Between two machines")[1].split("\n## ")[0].splitlines():
        if line.startswith("    "):
            code.append(line[4:])
        elif line:
            yield code, line
            code = []


def test_push_02_the_lan_is_a_bridge_of_the_unit(folder):
    """Its port there is a TAP interface that it makes."""
    with Card(folder, lan="tap:uplink") as card:
        made = card.unit_space.run("ip", "link", "add", "br0", "type", "bridge")
        if made.returncode != 0:
            raise Skip("no bridges here: " + made.stderr)
        card.start()
        for name in ("lan0", "uplink"):
            card.unit_space.must("ip", "link", "set", name, "master", "br0", "up")
        card.unit_space.must("ip", "link", "set", "br0", "up")
        card.ping(SERVER)
        card.ping("-s", "8000", SERVER)


def test_push_01_the_page_sets_up_a_card_between_two_machines(folder):
    with open(os.path.join(os.path.realpath(sys.argv[2]), "docs/card.md"), encoding="utf-8") as f:
        page = f.read()
    with Card(folder) as card:
        unit, host, server = card.unit_space, card.host_spaces[0], card.server
        unit.must("ip", "link", "set", "lan0", "down")
        unit.must("ip", "link", "set", "lan0", "name", "eth1", "up")
        server.must("ip", "addr", "add", "203.0.113.1/24", "dev", "srv0")
        unit.must("ip", "addr", "add", "192.0.2.10/24", "dev", "wu0")
        host.must("ip", "addr", "add", "192.0.2.11/24", "dev", "wh0")
        machines = [Machine(unit, folder + "/unit"), Machine(host, folder + "/host")]
        keys, files, lines, at = {}, [], [], 0
        for code, text in blocks(page):
            # Empty lines between blocks are not kept: a file is what follows its name, up to a command.
            name = None
            for line in code:
                if line.startswith("# "):
                    name = line[2:]
                    files.append((machines[at], name, []))
                elif line.startswith(("weft ", "ip ")):
                    name = None
                    lines.append((machines[at], line))
                elif name:
                    files[-1][2].append(line)
            at += text.startswith("On the other one")
        try:
            for machine, line in [each for each in lines if "key new" in each[1]]:
                machine.type(line, keys)
            for machine, name, texts in files:
                text = "\n".join(texts) + "\n"
                for end, key in keys.items():
                    text = text.replace("PUBLIC-KEY-OF-THE-" + end, key)
                write(os.path.join(machine.folder, name), text, 0o600)
            for machine, line in [each for each in lines if "key new" not in each[1]]:
                if line.startswith("ip "):
                    wait_until("it says so: " + host_said(machines), lambda: " is connected" in host_said(machines))
                machine.type(line, keys)
            card.ping("203.0.113.1")
            expect_equal("all was typed", len(lines), 6)
        finally:
            for machine in machines:
                machine.close()


def host_said(machines):
    return machines[1].said()


main(globals())
