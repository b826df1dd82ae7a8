#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""card_test.py WEFT ROOT: frame ports joined by `weft card bridge`, between hosts that are network namespaces.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import signal
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dropin"))
from network import Network  # noqa: E402
from script import PATIENCE_S, Skip, environment, expect, expect_equal, main, need, run  # noqa: E402

WEFT = os.path.realpath(sys.argv[1])
ROOT = os.path.realpath(sys.argv[2])


class Bridge:
    """weft card bridge, in a namespace or here. What it says is read by a thread."""

    def __init__(self, ports, network=None):
        words = [WEFT, "card", "bridge", *ports]
        self.process = subprocess.Popen(network.enter(*words) if network else words, env=environment(),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        self.said, self.is_told = "", threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.until("weft card joins")

    def read(self):
        for line in self.process.stdout:
            with self.is_told:
                self.said += line
                self.is_told.notify_all()

    def until(self, text):
        with self.is_told:
            expect("%s: %s" % (text, self.said),
                   self.is_told.wait_for(lambda: text in self.said, PATIENCE_S))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=PATIENCE_S)
        self.reader.join(PATIENCE_S)
        expect_equal("status of the bridge: " + self.said, status, 0)
        return self.said


def host(address, mtu=1500):
    """A namespace with a TAP interface on a bridge's port, once it runs."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        raise Skip("this host has no TAP interfaces")
    need("ping")
    return Network()


def up(network, address):
    network.ip("addr", "add", address, "dev", "card0", "nodad")
    network.ip("link", "set", "card0", "up")


def ping(network, *words):
    return subprocess.run(network.enter("ping", "-n", "-i", "0.2", *words), timeout=PATIENCE_S,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)


class Pair:
    """Two hosts, a TAP each, and a socket between their bridges."""

    def __init__(self, folder, options=""):
        path = os.path.join(folder, "wire")
        self.left, self.right = host("left"), host("right")
        self.bridges = [Bridge(["tap:card0" + options, "socket:%s,listen" % path], self.left)]
        self.bridges.append(Bridge(["tap:card0" + options, "socket:" + path], self.right))
        for network, number in ((self.left, 1), (self.right, 2)):
            up(network, "192.0.2.%d/24" % number)
            network.ip("addr", "add", "fd00::%d/64" % number, "dev", "card0", "nodad")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for bridge in self.bridges:
            if bridge.process.poll() is None:
                bridge.process.kill()
                bridge.process.wait(timeout=PATIENCE_S)
        self.left.close()
        self.right.close()


def test_card_hosts_ping_each_other_through_tap_and_socket(folder):
    with Pair(folder) as pair:
        for words in (["192.0.2.2"], ["fd00::2"], ["-s", "65507", "192.0.2.2"]):
            done = ping(pair.left, "-c", "3", "-W", "10", *words)
            expect("%s: %s" % (words, done.stdout), " 0% packet loss" in done.stdout)
        said = [bridge.end() for bridge in pair.bridges]
        expect("frames are counted: " + said[0],
               re.search(r"tap:card0: link up\n  in   \d+ frames, \d{6,} bytes", said[0]))
        expect("nothing contradicts: " + said[0], "lan_offload" not in said[0] + said[1])


# The kernel leaves checksums and segments to the card; the socket has no word for them, so weft does them.
STREAM = """
import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if sys.argv[1] == "serve":
    s.bind(("192.0.2.2", 7000)); s.listen(1); print("ready", flush=True)
    c, _ = s.accept(); n = 0; total = 0
    while True:
        b = c.recv(1 << 20)
        if not b: break
        total = (total + sum(b[::997])) % 65521; n += len(b)
    print(n, flush=True)
else:
    s.connect(("192.0.2.2", 7000)); s.sendall(bytes(range(256)) * 4 * 1024 * 8); s.close()
"""


def stream(folder, options):
    with Pair(folder, options) as pair:
        server = subprocess.Popen(pair.right.enter(sys.executable, "-c", STREAM, "serve"),
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        expect_equal("server", server.stdout.readline(), "ready\n")
        subprocess.run(pair.left.enter(sys.executable, "-c", STREAM, "send"), check=True, timeout=PATIENCE_S)
        said = server.communicate(timeout=PATIENCE_S)[0]
        expect_equal("bytes", said, "%d\n" % (256 * 4 * 1024 * 8))
        said = pair.bridges[0].end()
        # Fewer frames from the host than to the socket: there were segments to cut.
        into = int(re.search(r"tap:card0\S*: .*\n  in   (\d+) frames", said)[1])
        out = int(re.search(r"socket:.*\n  in .*\n(?:       .*\n)*  out  (\d+) frames", said)[1])
        expect("segments were cut: " + said, out > into)


def test_card_completes_checksums_and_segments_of_tcp(folder):
    stream(folder, "")


def test_card_stream_by_interfaces_of_several_queues(folder):
    stream(folder, ",queues=4")


def test_card_packet_port_bridges_an_interface_that_there_is(folder):
    """A veth pair in one namespace: one end is the host's, the other the port's."""
    with Pair(folder) as pair:
        pair.bridges.pop(0).end()
        pair.left.ip("link", "add", "card0", "type", "veth", "peer", "name", "wire0")
        pair.left.ip("link", "set", "wire0", "up")
        up(pair.left, "192.0.2.1/24")
        pair.bridges.append(Bridge(["packet:wire0", "socket:%s/wire,listen" % folder], pair.left))
        done = ping(pair.left, "-c", "3", "-W", "10", "-s", "4000", "192.0.2.2")
        expect(done.stdout, " 0% packet loss" in done.stdout)
        # Tags of VLANs come and go where the kernel allows them.
        made = subprocess.run(pair.left.enter("ip", "link", "add", "link", "card0", "name", "v5", "type", "vlan",
                                              "id", "5"), stderr=subprocess.DEVNULL)
        if made.returncode == 0:
            pair.right.ip("link", "add", "link", "card0", "name", "v5", "type", "vlan", "id", "5")
            for network, number in ((pair.left, 1), (pair.right, 2)):
                network.ip("addr", "add", "198.51.100.%d/24" % number, "dev", "v5")
                network.ip("link", "set", "v5", "up")
            done = ping(pair.left, "-c", "2", "-W", "10", "-s", "4000", "198.51.100.2")
            expect(done.stdout, " 0% packet loss" in done.stdout)


def test_card_link_follows_the_other_port(folder):
    with Pair(folder) as pair:
        pair.bridges[0].until("socket:%s/wire,listen: link up" % folder)
        pair.bridges.pop(1).end()
        pair.bridges[0].until("socket:%s/wire,listen: link down, lan_ended" % folder)
        done = subprocess.run(pair.left.enter("ip", "link", "show", "card0"), stdout=subprocess.PIPE, text=True)
        expect("no carrier: " + done.stdout, "NO-CARRIER" in done.stdout)


def boot(folder, guest, *words):
    """The boot ROM of QEMU's card asks for an address, by DHCP: the frame comes out of a socket of ours."""
    need("qemu-system-x86_64")
    ours = os.path.join(folder, "ours")
    bridge = Bridge([guest, "socket:%s,listen" % ours])
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(PATIENCE_S)
    peer.connect(ours)
    qemu = subprocess.Popen(
        ["qemu-system-x86_64", "-accel", "tcg", "-nodefaults", "-no-user-config", "-display", "none",
         "-boot", "n", *words, "-device", "virtio-net-pci,netdev=n,mac=02:00:00:00:00:77"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        yield peer.makefile("rwb")
    finally:
        qemu.kill()
        said = qemu.communicate(timeout=PATIENCE_S)[0]
        peer.close()
    expect("QEMU has no complaint: %r" % said, b"rror" not in said)
    bridge.end()


def frame_from(stream):
    length = int.from_bytes(stream.read(4), "big")
    frame = stream.read(length)
    expect("the guest speaks", len(frame) == length > 14)
    expect_equal("its address", frame[6:12].hex(), "020000000077")
    return frame


def frame_to(stream, frame):
    stream.write(len(frame).to_bytes(4, "big") + frame)
    stream.flush()


def dhcp_request(stream):
    while True:
        frame = frame_from(stream)
        if frame[12:14] == b"\x08\x00" and frame[23] == 17:
            expect_equal("a DHCP request", int.from_bytes(frame[36:38], "big"), 67)
            return frame


def checksum(data):
    total = sum(int.from_bytes(data[i:i + 2], "big") for i in range(0, len(data), 2))
    while total > 0xffff:
        total = (total >> 16) + (total & 0xffff)
    return (~total & 0xffff).to_bytes(2, "big")


def dhcp_answer(request, kind):
    """To the guest: 192.0.2.7 of 192.0.2.1, an offer (2) or an acknowledgement (5)."""
    here, there = bytes([192, 0, 2, 1]), bytes([192, 0, 2, 7])
    bootp = (b"\x02" + request[43:50] + bytes(2) + request[52:54] + bytes(4) + there + here + bytes(4) +
             request[70:86] + bytes(192) + b"\x63\x82\x53\x63" + bytes([53, 1, kind, 54, 4]) + here +
             bytes([51, 4, 0, 1, 0, 0, 1, 4, 255, 255, 255, 0, 255]))
    udp = bytes([0, 67, 0, 68]) + (len(bootp) + 8).to_bytes(2, "big") + bytes(2) + bootp
    ip = b"\x45\x00" + (len(udp) + 20).to_bytes(2, "big") + bytes(4) + b"\x40\x11" + bytes(2) + here + there
    ip = ip[:10] + checksum(ip) + ip[12:]
    return request[6:12] + bytes.fromhex("020000000001") + b"\x08\x00" + ip + udp


def guest_gets_an_address(stream):
    """An offer, the request for just that, and then the guest looks for its server by ARP or says more."""
    frame_to(stream, dhcp_answer(dhcp_request(stream), 2))
    while True:
        request = dhcp_request(stream)
        if bytes([50, 4, 192, 0, 2, 7]) in request:
            break
        frame_to(stream, dhcp_answer(request, 2))
    frame_to(stream, dhcp_answer(request, 5))


def test_card_qemu_by_socket_gets_an_address(folder):
    guest = os.path.join(folder, "guest")
    for stream in boot(folder, "socket:%s,listen" % guest, "-m", "64", "-netdev",
                       "stream,id=n,server=off,addr.type=unix,addr.path=" + guest):
        guest_gets_an_address(stream)


def test_card_qemu_by_vhost_user_gets_an_address(folder):
    guest = os.path.join(folder, "guest")
    for stream in boot(folder, "vhost-user:" + guest, "-m", "64", "-object",
                       "memory-backend-memfd,id=m,size=64M,share=on", "-machine", "pc,memory-backend=m",
                       "-chardev", "socket,id=c,path=" + guest, "-netdev", "vhost-user,id=n,chardev=c"):
        guest_gets_an_address(stream)


def test_card_refuses_ports_that_are_none(_):
    for words, said in ((["tap:x,fanout=1", "tap:y"], "this kind of port has no such option"),
                        (["socket:/proc/none/x,listen", "tap:y"], "lan_none"),
                        (["nothing", "tap:y"], "it begins with")):
        done = run(WEFT, "card", "bridge", *words)
        expect_equal("status", done.returncode, 1)
        expect("the reason: " + done.stderr, said in done.stderr)
    expect_equal("one port", run(WEFT, "card", "bridge", "tap:x").returncode, 2)
    expect_equal("no verb", run(WEFT, "card").returncode, 2)


def test_card_page_and_help_know_every_option(_):
    with open(os.path.join(ROOT, "src/lan/plan.c"), encoding="utf-8") as f:
        options = set(re.findall(r'^\t\{ "([a-z]+)", [A-Z]', f.read(), re.M))
    with open(os.path.join(ROOT, "docs/card.md"), encoding="utf-8") as f:
        page = f.read()
    said = run(WEFT, "card", "--help").stdout
    expect("options are known: %s" % options, len(options) > 4)
    for option in options:
        expect("the page has " + option, re.search(r"`%s[`=]" % option, page))
        expect("the help has " + option, re.search(r"^  %s[ =]" % option, said, re.M))


main(globals())
