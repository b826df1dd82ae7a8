# SPDX-License-Identifier: BSD-2-Clause
"""Hosts on one network, each a namespace, and frames that an attacker makes byte by byte."""
import os
import select
import socket
import struct
import subprocess
import sys
import zlib

from attack import PATIENCE_S, Skip, need, network, until

ROCE_PORT, PORT = 4791, 7471
MTU = "9000"  # so that RoCE has 4096, which is more than any network must carry


class Host:
    """A namespace with the addresses 10.7.0.N and fd07::N, on the same switch as all others."""

    def __init__(self, number):
        self.number = number
        self.ipv4 = "10.7.0.%d" % number
        self.ipv6 = "fd07::%d" % number
        self.mac = bytes([2, 0, 0, 0, 0, number])
        # It ends with its standard input, so with this process.
        self.holder = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; cat"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.enter = ("nsenter", "--net=/proc/%d/ns/net" % self.holder.pid)
        self._plug_in()

    def _plug_in(self):
        port, pid = "port%d" % self.number, str(self.holder.pid)
        _ip("link", "add", port, "mtu", MTU, "type", "veth", "peer", "name", "eth0", "mtu", MTU,
            "netns", pid)
        _ip("link", "set", port, "master", "switch", "up")
        self.ip("link", "set", "lo", "up")
        self.ip("link", "set", "eth0", "address", ":".join("%02x" % b for b in self.mac), "up")
        self.ip("addr", "add", self.ipv4 + "/24", "dev", "eth0")
        self.ip("addr", "add", self.ipv6 + "/64", "dev", "eth0", "nodad")

    def ip(self, *words):
        subprocess.run([*self.enter, "ip", *words], check=True)

    def address(self, family):
        return self.ipv6 if family == 6 else self.ipv4

    def close(self):
        self.holder.kill()
        self.holder.communicate()


def _ip(*words):
    subprocess.run(["ip", *words], check=True)


class Lan:
    """`with Lan(3) as (a, b, mallory):` three hosts on a switch of their own."""

    def __init__(self, count):
        self.count = count
        self.hosts = []

    def __enter__(self):
        need("ip", "nsenter", "unshare")
        network()
        done = subprocess.run(["ip", "link", "add", "switch", "type", "bridge", "mcast_snooping",
                               "0"], stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise Skip("no bridge can be made here: " + done.stderr.strip())
        _ip("link", "set", "switch", "up")
        try:
            for i in range(self.count):
                self.hosts.append(Host(i + 1))
        except BaseException:
            self.__exit__()
            raise
        return self.hosts

    def __exit__(self, *why):
        for host in self.hosts:
            host.close()


# ---- Frames -------------------------------------------------------------------------------------

def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def packed(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.inet_pton(family, address)


def ip_header(source, to, protocol, payload_bytes, ttl=64):
    """As Linux numbers packets that must not be fragmented: with 0."""
    if ":" in source:
        return struct.pack("!IHBB", 6 << 28, payload_bytes, protocol, ttl) + packed(source) + packed(to)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + payload_bytes, 0, 0x4000, ttl, protocol, 0,
                       packed(source), packed(to))
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:]


def udp_header(source_port, to_port, payload_bytes):
    """Without a checksum, which a receiver of RoCE does not ask for."""
    return struct.pack("!HHHH", source_port, to_port, 8 + payload_bytes, 0)


def ethernet(source, to, packet):
    return to.mac + source.mac + (b"\x86\xdd" if packet[0] >> 4 == 6 else b"\x08\x00") + packet


def roce(source, to, bth_and_payload, source_port=0xd000):
    """An IP packet with a right ICRC (IBA annex A17: fields that routers change count as ones)."""
    length = len(bth_and_payload) + 4
    ip = ip_header(source, to, 17, 8 + length)
    udp = udp_header(source_port, ROCE_PORT, length)
    if ":" in source:
        masked = bytes([0x6f, 0xff, 0xff, 0xff]) + ip[4:7] + b"\xff" + ip[8:]
    else:
        masked = ip[:1] + b"\xff" + ip[2:8] + b"\xff" + ip[9:10] + b"\xff\xff" + ip[12:]
    bth = bth_and_payload
    icrc = zlib.crc32(b"\xff" * 8 + masked + udp[:6] + b"\xff\xff" + bth[:4] + b"\xff" + bth[5:])
    return ip + udp + bth + struct.pack("<I", icrc)


def bth(opcode, qpn, psn, asks=False):
    return struct.pack("!BBHII", opcode, 0, 0xffff, qpn, (0x80000000 if asks else 0) | psn)


class Tap:
    """A host's interface, of which every frame can be read and to which any can be written."""

    def __init__(self, host):
        # A socket belongs to the namespace in which it was made: a child makes it and hands it over.
        mine, its = socket.socketpair()
        maker = ("import array, socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300); "
                 "s.bind(('eth0', 3)); m = socket.socket(fileno=0); "
                 "m.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, "
                 "array.array('i', [s.fileno()]))])")
        subprocess.run([*host.enter, sys.executable, "-c", maker], stdin=its, check=True)
        _, fds, _, _ = socket.recv_fds(mine, 1, 1)
        mine.close()
        its.close()
        self.socket = socket.socket(fileno=fds[0])
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)  # SO_RCVBUFFORCE

    def send(self, frame):
        while True:
            try:
                self.socket.send(frame)
                return
            except (BlockingIOError, OSError) as why:
                if not isinstance(why, BlockingIOError) and why.errno != 105:  # ENOBUFS
                    raise
                select.select([], [self.socket], [], 0.01)

    def read(self, is_wanted, wait_s=PATIENCE_S):
        """The next frame that is wanted; None when the time is over."""
        while select.select([self.socket], [], [], wait_s)[0]:
            frame = self.socket.recv(65536)
            if is_wanted(frame):
                return frame
        return None

    def has_lost(self):
        """Whether frames found no room since this was asked last."""
        _, lost = struct.unpack("II", self.socket.getsockopt(263, 6, 8))  # PACKET_STATISTICS
        return lost > 0

    def drain(self):
        frames = []
        while select.select([self.socket], [], [], 0)[0]:
            frames.append(self.socket.recv(65536))
        return frames


def roce_parts(frame):
    """(source, to, BTH and what follows) of a RoCE frame; else None."""
    if frame[12:14] == b"\x08\x00" and frame[23] == 17:
        source, to, at = frame[26:30], frame[30:34], 34
    elif frame[12:14] == b"\x86\xdd" and frame[20] == 17:
        source, to, at = frame[22:38], frame[38:54], 54
    else:
        return None
    if struct.unpack("!H", frame[at + 2:at + 4])[0] != ROCE_PORT:
        return None
    family = socket.AF_INET if len(source) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, source), socket.inet_ntop(family, to), frame[at + 8:-4]


# ---- Victims ------------------------------------------------------------------------------------

class Victims:
    """A server, and a client that is connected to it: its lines tell that traffic goes on."""

    def __init__(self, start, program, ends, family=4, device="roce_eth0", before=(), more=()):
        """before: words before the server's own, as prlimit; more: words for the client."""
        server, client = ends
        self.start = start
        self.device = device
        self.at = server.address(family)
        self.program = program
        self.server = self._run(server, before=before)
        self.server.stdout.readline()
        self.client = self._run(client, "0", *more)
        self.count = 0
        os.set_blocking(self.client.stdout.fileno(), False)

    def _run(self, host, *more, before=()):
        return self.start(*host.enter, *before, self.program, self.at, *more,
                          WEFT_DEVICES=self.device)

    def connect(self, host, patience_s=PATIENCE_S):
        """One more connection, for a message and its echo; fails if it does not come about."""
        child = self._run(host, "1")
        until("a client on %s ends" % host.ipv4, lambda: child.poll() is not None, patience_s)
        if child.returncode != 0:
            raise AssertionError("a client on %s: %s" % (host.ipv4, child.stderr.read()))

    def look(self):
        """How many messages and echoes there were."""
        while select.select([self.client.stdout], [], [], 0)[0]:
            data = os.read(self.client.stdout.fileno(), 1 << 20)
            if not data:
                break
            self.count += data.count(b"\n")
        return self.count

    def go_on(self, what, more=20, patience_s=20):
        """So many more messages get there and back, or the test fails."""
        wanted = self.look() + more

        def is_there():
            for child in (self.client, self.server):
                if child.poll() is not None:
                    raise AssertionError("%s: a victim ended: %s" % (what, child.stderr.read()))
            return self.look() >= wanted
        until("%s: %d more messages" % (what, more), is_there, patience_s)
