#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""parts_test.py WEFT: what people run on a network card, on one that is split, between network namespaces.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`.
"""
import json
import os
import signal
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from card import SERVER, SERVER6, Card, HttpServer, ended, made_file, wait_until  # noqa: E402
from script import PATIENCE_S, expect, expect_equal, main, need, run, write  # noqa: E402

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
MIB = 1 << 20
MOST = 48 * MIB


def mac_of(namespace):
    link = json.loads(namespace.must("ip", "-j", "link", "show", "card0"))[0]
    return bytes.fromhex(link["address"].replace(":", ""))


# ---- iperf3 --------------------------------------------------------------------------------------

class Iperf:
    """A server of iperf3 on the LAN, and its clients in hosts."""

    def __init__(self, card):
        need("iperf3", "ss")
        self.card = card
        self.server = card.server.start("iperf3", "-s", **QUIET)
        wait_until("iperf3 listens", lambda: ":5201" in card.server.must("ss", "-ltn"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ended(self.server)

    def run(self, *words, server=SERVER):
        """What a client says in the end."""
        done = self.card.host_spaces[0].run("iperf3", "-J", "-c", server, *words)
        expect_equal("iperf3 %s: %s" % (words, done.stdout + done.stderr), done.returncode, 0)
        return json.loads(done.stdout)["end"]

    def move(self, *words, server=SERVER):
        """64 MiB; what is under way when the client ends, the server does not count."""
        said = self.run(*words, server=server)["sum_received"]
        expect("%s: it arrived: %r" % (words, said), said["bytes"] >= MOST)


def iperf_both_ways(folder, wire):
    with Card(folder, wire=wire).start() as card, Iperf(card) as iperf:
        before = card.hosts[0].link()
        for words in ([], ["-R"], ["-P", "4"]):
            iperf.move("-n", "64M", *words)
        iperf.move("-6", "-n", "64M", server=SERVER6)
        iperf.run("-t", "1", "--bidir")
        after = card.hosts[0].link()
        packets, crossed = (sum(after[what + way] - before[what + way] for way in ("_in", "_out"))
                            for what in ("packets", "bytes"))
        expect("by the card: %d bytes" % crossed, crossed >= 4 * MOST)
        expect("segments cross in one piece: %d packets" % packets, packets * 1500 < crossed)
        for words in ([], ["-R"]):
            said = iperf.run("-u", "-b", "2M", "-t", "1", *words)["sum"]
            expect("datagrams arrive: %r" % said, said["lost_packets"] < said["packets"])


def test_push_01_push_24_iperf3_both_ways_over_roce(folder):
    iperf_both_ways(folder, "roce")


def test_push_01_push_24_iperf3_both_ways_over_iwarp(folder):
    iperf_both_ways(folder, "iwarp")


def test_push_24_iperf3_by_an_interface_of_several_queues(folder):
    with Card(folder, port="tap:card0,queues=4").start() as card, Iperf(card) as iperf:
        for words in ([], ["-R"]):
            iperf.move("-n", "64M", "-P", "4", *words)
        link = card.hosts[0].link()
        expect("by the card: %r" % link, link["bytes_in"] > MOST and link["bytes_out"] > MOST and link["refused"] == 0)


# ---- A session that lasts ------------------------------------------------------------------------

SSHD = """Port 2222
ListenAddress %s
HostKey %s/server
AuthorizedKeysFile %s/user.pub
PidFile none
UsePAM no
StrictModes no
PrintMotd no
"""


class Ssh:
    """A session of a host with a daemon on the LAN, whose namespace has a user for it."""

    def __init__(self, folder, card):
        need("ssh", "ssh-keygen", "sshd", "ss")
        for name in ("server", "user"):
            done = run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", os.path.join(folder, name))
            expect_equal("ssh-keygen: " + done.stderr, done.returncode, 0)
        os.chmod(folder, 0o755)
        users = write(os.path.join(folder, "passwd"), "visitor:x:1000:1000::%s:/bin/sh\n" % folder, 0o644)
        config = write(os.path.join(folder, "sshd.conf"), SSHD % (SERVER, folder, folder), 0o600)
        # As that user: the namespace has no other that the daemon could become.
        self.server = card.server.start(
            "unshare", "-m", "sh", "-c", "mount --bind %s /etc/passwd && exec unshare -U --map-user=1000 "
            "--map-group=1000 /usr/sbin/sshd -D -e -f %s 2>%s/said" % (users, config, folder), **QUIET)
        wait_until("sshd listens", lambda: ":2222" in card.server.must("ss", "-ltn"))
        words = card.host_spaces[0].enter(
            "ssh", "-F", "none", "-p", "2222", "-i", folder + "/user", "-o", "UserKnownHostsFile=/dev/null",
            "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR", "visitor@" + SERVER, "exec cat")
        self.session = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session.kill()
        self.session.communicate()
        ended(self.server)

    def write(self, text):
        self.session.stdin.write(text + "\n")
        self.session.stdin.flush()

    def read(self):
        got = []
        reader = threading.Thread(target=lambda: got.append(self.session.stdout.readline()), daemon=True)
        reader.start()
        reader.join(PATIENCE_S)
        return got[0].strip() if got else None


def session_survives(folder, wire, stop_s):
    with Card(folder, wire=wire, lines="alive 60s").start() as card, Ssh(folder, card) as ssh:
        ssh.write("before")
        expect_equal("the session answers", ssh.read(), "before")
        os.kill(card.unit.process.pid, signal.SIGSTOP)
        card.host_spaces[0].must("ip", "link", "set", "card0", "mtu", "1400")  # a request that waits for its reply
        ssh.write("meanwhile")
        done = card.host_spaces[0].run("ping", "-c", "20", "-i", "0.2", "-w", str(stop_s), SERVER)
        expect("nothing passes: " + done.stdout, " 0 received" in done.stdout)
        os.kill(card.unit.process.pid, signal.SIGCONT)
        expect_equal("after the stop", ssh.read(), "meanwhile")
        ssh.write("after")
        expect_equal("the session goes on", ssh.read(), "after")
        wait_until("the unit agrees", lambda: card.unit.link()["mtu"] == 1400)
        expect_equal("one connection served it", card.hosts[0].said().count(" is connected"), 1)


def test_push_03_ssh_survives_a_stop_of_the_unit_over_roce(folder):
    """Longer than the retries of most connections take, and of requests; here it is `alive` that says how long."""
    session_survives(folder, "roce", 6)


def test_push_03_ssh_survives_a_stop_of_the_unit_over_iwarp(folder):
    session_survives(folder, "iwarp", 1)


# ---- Frames --------------------------------------------------------------------------------------

class Capture:
    """Frames at an interface. By dumpcap: tcpdump wants to become another user, whom no namespace of ours has."""

    def __init__(self, namespace, interface, path, wanted):
        need("dumpcap")
        self.path = path
        self.process = namespace.start("dumpcap", "-q", "-P", "-i", interface, "-f", wanted, "-w", path,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = self.process.stderr.readline()
        while "File: " not in said:
            expect("dumpcap begins: " + said, said)
            said = self.process.stderr.readline()

    def frames(self):
        with open(self.path, "rb") as f:
            data = f.read()
        at, frames = 24, []
        while at + 16 <= len(data):
            size = int.from_bytes(data[at + 8:at + 12], "little")
            frames.append(data[at + 16:at + 16 + size])
            at += 16 + size
        return frames

    def end(self):
        ended(self.process)
        self.process.stderr.close()


def captured(folder, wire):
    with Card(folder, wire=wire).start() as card:
        sides = [Capture(card.host_spaces[0], "card0", folder + "/host.pcap", "arp or icmp"),
                 Capture(card.server, "srv0", folder + "/lan.pcap", "arp or icmp")]
        try:
            for size in (0, 1, 1472, 1473, 20000):
                card.ping("-s", str(size), SERVER)
            mac = mac_of(card.host_spaces[0])
            # Of 20000 bytes there are 14 fragments.
            wait_until("both have all", lambda: all(len(side.frames()) >= 3 * 2 * (3 + 2 + 14) for side in sides))
        finally:
            for side in sides:
                side.end()
        for way, at in (("of the host", 6), ("to the host", 0)):
            host, lan = ([f for f in side.frames() if f[at:at + 6] == mac] for side in sides)
            expect("%s: there are some" % way, len(host) >= 3 * (3 + 2 + 14))
            expect("%s: the same, in the same order: %d and %d" % (way, len(host), len(lan)), host == lan)


def test_push_02_a_capture_sees_the_same_frames_on_both_sides_over_roce(folder):
    captured(folder, "roce")


def test_push_02_a_capture_sees_the_same_frames_on_both_sides_over_iwarp(folder):
    captured(folder, "iwarp")


# ---- Addresses -----------------------------------------------------------------------------------

class Dhcp:
    """dnsmasq on the LAN, with files by TFTP."""

    def __init__(self, card, folder, *words):
        need("dnsmasq")
        self.log = open(os.path.join(folder, "dnsmasq.log"), "w+", encoding="utf-8")
        self.server = card.server.start(
            "dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0", "--interface=srv0", "--bind-interfaces",
            "--dhcp-range=192.0.2.100,192.0.2.110,255.255.255.0,1h", "--dhcp-authoritative", "--no-ping",
            "--dhcp-leasefile=" + folder + "/leases", "--pid-file=" + folder + "/dnsmasq.pid", *words,
            stdout=self.log, stderr=self.log)
        wait_until("dnsmasq listens", lambda: ":67" in card.server.must("ss", "-lun"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ended(self.server)
        self.log.close()

    def said(self):
        self.log.flush()
        with open(self.log.name, encoding="utf-8") as f:
            return f.read()


LEASE = """#!/bin/sh
case $reason in
BOUND) ip addr add "$new_ip_address/24" dev "$interface" ;;
esac
"""


def addressed(folder, wire):
    need("dhclient")
    with Card(folder, wire=wire).start() as card, Dhcp(card, folder):
        host = card.host_spaces[0]
        host.must("ip", "addr", "flush", "dev", "card0")
        script = write(os.path.join(folder, "lease"), LEASE)
        client = host.start("dhclient", "-4", "-1", "-d", "-sf", script, "-lf", folder + "/client", "-pf",
                            folder + "/client.pid", "-cf", "/dev/null", "card0", **QUIET)
        try:
            wait_until("the host has an address",
                       lambda: "inet 192.0.2.1" in host.must("ip", "-4", "addr", "show", "card0"))
            card.ping(SERVER)
        finally:
            ended(client)


def test_push_02_dhcp_gives_the_host_an_address_over_roce(folder):
    addressed(folder, "roce")


def test_push_02_dhcp_gives_the_host_an_address_over_iwarp(folder):
    addressed(folder, "iwarp")


# ---- Hosts that share ----------------------------------------------------------------------------

SPOOF = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("card0", 0))
for mac in sys.argv[1:]:
    s.send(b"\\xff" * 6 + bytes.fromhex(mac) + b"\\x88\\xb5" + b"is it from here?" * 4)
"""


def test_push_05_hosts_that_share_a_unit_are_isolated(folder):
    with Card(folder, hosts=2, lines="alive 60s").start() as card, Iperf(card) as iperf:
        # What comes from the address of the other one does not get out.
        other, own = (mac_of(space) for space in card.host_spaces)
        lan = Capture(card.server, "srv0", folder + "/lan.pcap", "ether proto 0x88b5")
        card.host_spaces[1].must(sys.executable, "-c", SPOOF, other.hex(), own.hex())
        wait_until("a frame gets out", lan.frames)
        lan.end()
        expect_equal("from its own address", [frame[6:12] for frame in lan.frames()], [own])
        expect("the other is counted", card.unit.status()["foreign"] > 0)
        # One that does not run, and for which the LAN has much, keeps nothing from the other.
        os.kill(card.hosts[1].process.pid, signal.SIGSTOP)
        flood = card.server.start("ping", "-f", "-s", "1400", "192.0.2.3", **QUIET)
        try:
            iperf.move("-n", "64M")
            card.ping(SERVER, count=10)
        finally:
            ended(flood)
            os.kill(card.hosts[1].process.pid, signal.SIGCONT)
        card.ping(SERVER, host=1)


# ---- Guests --------------------------------------------------------------------------------------

GUEST = "02:00:00:00:00:77"
BOOT = """#!ipxe
imgfetch --name page http://%s:8080/page
imgfetch --name end http://%s:8080/end
"""


def guest(folder, wire, port, *words):
    """The firmware of QEMU's card gets an address, a script and a page through the split card."""
    need("qemu-system-x86_64")
    path, _ = made_file(folder, 4)
    write(os.path.join(folder, "end"), "the page was there\n", 0o644)
    write(os.path.join(folder, "boot"), BOOT % (SERVER, SERVER), 0o644)
    with Card(folder, wire=wire, port=port.replace("FOLDER", folder), macs=[GUEST]).start() as card, HttpServer(card, path) as pages, \
            Dhcp(card, folder, "--enable-tftp", "--tftp-root=" + folder, "--dhcp-boot=boot", "--enable-ra",
                 "--dhcp-range=::,constructor:srv0,ra-only") as dhcp:
        qemu = card.host_spaces[0].start(
            "qemu-system-x86_64", "-accel", "tcg", "-nodefaults", "-no-user-config", "-display", "none", "-boot", "n",
            "-m", "64", *[word.replace("FOLDER", folder) for word in words], "-device", "virtio-net-pci,netdev=n,mac=" + GUEST,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            # The script fetches the second file only after all of the first.
            wait_until("the guest has it, or ends", lambda: "GET /end" in pages.said() or qemu.poll() is not None)
            # By IPv6 a neighbour is asked for in a group.
            card.server.must("ping", "-6", "-c", "1", "-w", str(PATIENCE_S // 2), "fe80::ff:fe00:77%srv0")
        finally:
            qemu.kill()
            said = qemu.communicate()[1]
        expect("it came by its own address: %s%s%s" % (said, dhcp.said(), pages.said()),
               GUEST in dhcp.said() and "GET /end" in pages.said())
        link = card.hosts[0].link()
        expect("by the card: %r" % link, link["bytes_in"] > 4 * MIB and link["refused"] == 0)


def guest_by_vhost_user(folder, wire):
    guest(folder, wire, "vhost-user:FOLDER/guest", "-object", "memory-backend-memfd,id=m,size=64M,share=on", "-machine",
          "pc,memory-backend=m", "-chardev", "socket,id=c,path=FOLDER/guest", "-netdev", "vhost-user,id=n,chardev=c")


def guest_by_socket(folder, wire):
    guest(folder, wire, "socket:FOLDER/guest,listen", "-netdev",
          "stream,id=n,server=off,addr.type=unix,addr.path=FOLDER/guest")


def test_push_01_guest_by_vhost_user_over_roce(folder):
    guest_by_vhost_user(folder, "roce")


def test_push_01_guest_by_vhost_user_over_iwarp(folder):
    guest_by_vhost_user(folder, "iwarp")


def test_push_01_guest_by_socket_over_roce(folder):
    guest_by_socket(folder, "roce")


def test_push_01_guest_by_socket_over_iwarp(folder):
    guest_by_socket(folder, "iwarp")


main(globals())
