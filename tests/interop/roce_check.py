#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Reads RoCE packets out of a capture, with no RDMA library: ICRC, UDP checksum, ports, sizes.

    roce_check.py FILE.pcap      one line a sender; exit status 1 if something is wrong
"""
import collections
import struct
import sys
import zlib

import wire_check

PORT = 4791
PORT_FIRST = 49152  # of the sources, IBA A17.9.2
BTH, MTU_MAX = 12, 4096
HEADERS_MAX = 12 + 8 + 28 + 4 + 8  # BTH, and more than any opcode has after it
OP_ACK = 0x11
UD = 3
NAKS = {0x60: "sequence", 0x61: "invalid", 0x62: "access", 0x63: "operational", 0x64: "invalid RD"}

# What one address sent.
Sender = collections.namedtuple("Sender", "packets opcodes naks repeated sizes complaints")


def udp_of(frame):
    """(IP header, UDP datagram), or None."""
    kind = struct.unpack_from(">H", frame, 12)[0]
    if kind == 0x0800 and frame[23] == 17:
        head = (frame[14] & 15) * 4
        total = struct.unpack_from(">H", frame, 16)[0]
        return frame[14:14 + head], frame[14 + head:14 + total]
    if kind == 0x86DD and frame[20] == 17:
        size = struct.unpack_from(">H", frame, 18)[0]
        return frame[14:54], frame[54:54 + size]
    return None


def icrc(ip, udp):
    """IBA A17.9.4: what routers change counts as ones."""
    ip, udp = bytearray(ip), bytearray(udp)
    if len(ip) == 40:
        ip[0:4] = bytes([ip[0] | 0x0F, 0xFF, 0xFF, 0xFF])
        ip[7] = 0xFF
    else:
        ip[1] = ip[8] = ip[10] = ip[11] = 0xFF
    udp[6] = udp[7] = 0xFF
    udp[8 + 4] = 0xFF
    return zlib.crc32(bytes(udp[:-4]), zlib.crc32(bytes(ip), zlib.crc32(b"\xff" * 8)))


def checksum_is_good(ip, udp):
    """RFC 768; none (0) is as good, RFC 6935."""
    if udp[6:8] == b"\0\0":
        return True
    addresses = ip[8:40] if len(ip) == 40 else ip[12:20]
    data = addresses + struct.pack(">HH", 17, len(udp)) + udp + b"\0" * (len(udp) & 1)
    return sum(struct.unpack(">%dH" % (len(data) // 2), data)) % 0xFFFF == 0


def complaints_of(ip, udp):
    source, _, size = struct.unpack_from(">HHH", udp)
    if size != len(udp) or size < 8 + BTH + 4 or size % 4:
        return ["%d bytes of UDP in %d" % (size, len(udp))]
    found = []
    if icrc(ip, udp) != struct.unpack("<I", udp[-4:])[0]:
        found.append("a wrong ICRC")
    if not checksum_is_good(ip, udp):
        found.append("a wrong UDP checksum")
    if source < PORT_FIRST:
        found.append("source port %d" % source)
    if len(ip) == 20 and ip[6:8] != b"\x40\0":
        found.append("fragments, or DF not set: %s" % ip[6:8].hex())
    if size - 8 > MTU_MAX + HEADERS_MAX:
        found.append("%d bytes" % size)
    return found


def read_senders(path, begin=wire_check.FILE_BYTES):
    """Address (bytes) -> Sender."""
    found, seen = {}, set()
    for frame in wire_check.frames(path, begin):
        datagram = udp_of(frame)
        if not datagram or struct.unpack_from(">H", datagram[1], 2)[0] != PORT:
            continue
        ip, udp = datagram
        who = ip[8:24] if len(ip) == 40 else ip[12:16]
        s = found.setdefault(who, Sender(collections.Counter(), collections.Counter(),
                                         collections.Counter(), collections.Counter(),
                                         collections.Counter(), []))
        s.complaints.extend(complaints_of(ip, udp))
        opcode, target, psn = udp[8], udp[13:16], udp[17:20]
        s.packets["all"] += 1
        s.opcodes["%02x" % opcode] += 1
        s.sizes[len(udp) + len(ip)] += 1
        if opcode & 31 == OP_ACK:
            syndrome = udp[20]
            if syndrome & 0x60:
                s.naks["RNR" if syndrome & 0x60 == 0x20 else NAKS.get(syndrome, syndrome)] += 1
        elif opcode >> 5 != UD:
            if (who, opcode, target, psn) in seen:
                s.repeated[opcode] += 1
            seen.add((who, opcode, target, psn))
    return found


def judge(path, begin, addresses):
    """A complaint, or None. One of the addresses must have sent something: UC and UD do not answer."""
    senders = read_senders(path, begin)
    if not any(address in senders for address in addresses):
        return "on the wire: no packet of %s" % " or ".join(a.hex() for a in addresses)
    for address, s in senders.items():
        if s.complaints:
            return "on the wire: %s of %s" % (s.complaints[0], address.hex())
    return None


def main(paths):
    is_bad = False
    for path in paths:
        for who, s in read_senders(path).items():
            print("%s %s: %d packets, opcodes %s, NAKs %s, %d sent again, at most %d bytes %s" % (
                path, who.hex(), s.packets["all"], dict(s.opcodes), dict(s.naks),
                sum(s.repeated.values()), max(s.sizes), "; ".join(sorted(set(s.complaints)))))
            is_bad = is_bad or bool(s.complaints)
    return 1 if is_bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
