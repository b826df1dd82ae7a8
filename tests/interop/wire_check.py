#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Reads iWARP streams out of a capture, with no RDMA library: framing, CRC, Terminate.

    wire_check.py FILE.pcap      one line a stream; exit status 1 if one is wrong
"""
import collections
import struct
import sys

# One direction of a connection. complaints: texts; terminate: first two bytes of a Terminate
# message's body, or None; ops: RDMAP opcode -> messages' last segments and others.
Stream = collections.namedtuple(
    "Stream", "source port is_request has_crc fpdus ops terminate rtr complaints")

OPCODES = ["write", "read_request", "read_response", "send", "send_invalidate", "send_se",
           "send_se_invalidate", "terminate"]
START_BYTES = 20
FILE_BYTES = 24  # of the file's own header


def crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ 0x82F63B78 if n & 1 else n >> 1
        table.append(n)
    return table


CRC_TABLE = crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def frames(path, begin):
    """The frames from some place of the file on."""
    with open(path, "rb") as file:
        if file.read(FILE_BYTES)[:4] != b"\xd4\xc3\xb2\xa1":
            raise ValueError("not a capture of tcpdump's")
        file.seek(begin)
        raw = file.read()
    at = 0
    while at + 16 <= len(raw):
        size = struct.unpack_from("<I", raw, at + 8)[0]
        yield raw[at + 16:at + 16 + size]
        at += 16 + size


def tcp_of(frame):
    """(source, destination, TCP segment), or None."""
    kind = struct.unpack_from(">H", frame, 12)[0]
    if kind == 0x0800 and frame[23] == 6:
        head = (frame[14] & 15) * 4
        total = struct.unpack_from(">H", frame, 16)[0]
        return frame[26:30], frame[30:34], frame[14 + head:14 + total]
    if kind == 0x86DD and frame[20] == 6:
        size = struct.unpack_from(">H", frame, 18)[0]
        return frame[22:38], frame[38:54], frame[54:54 + size]
    return None


def streams_of(path, begin):
    """(source, destination, ports) -> bytes in order. A port used twice: the last connection."""
    bases, out = {}, {}
    for frame in frames(path, begin):
        found = tcp_of(frame)
        if not found:
            continue
        source, destination, tcp = found
        ports = struct.unpack_from(">HH", tcp)
        key = (source, destination) + ports
        sequence = struct.unpack_from(">I", tcp, 4)[0]
        data = tcp[(tcp[12] >> 4) * 4:]
        if tcp[13] & 2:  # SYN
            bases[key] = (sequence + 1) & 0xFFFFFFFF
            out[key] = bytearray()
        if key in bases and data:
            at = (sequence - bases[key]) & 0xFFFFFFFF
            if at <= len(out[key]):  # else a gap: the capture lost something
                out[key][at:at + len(data)] = data
    return out


def fpdus_of(data, at, has_crc, complaints):
    """(control byte of RDMAP, ULPDU) of every FPDU."""
    while at + 2 <= len(data):
        size = struct.unpack_from(">H", data, at)[0]
        end = at + ((2 + size + 3) & ~3)
        if end + 4 > len(data):
            complaints.append("an FPDU at %d runs past the end" % at)
            return
        got = struct.unpack_from("<I", data, end)[0]
        if has_crc and got != crc32c(data[at:end]):
            complaints.append("a wrong CRC at %d" % at)
        if size < 14:
            complaints.append("an FPDU of %d bytes at %d" % (size, at))
            return
        yield data[at + 3], bytes(data[at + 2:at + 2 + size])
        at = end + 4


def read_stream(key, data, back):
    flags, size = data[16], struct.unpack_from(">H", data, 18)[0]
    has_crc = bool((flags | (back[16] if len(back) > 16 else 0)) & 0x40)
    is_request = data[:START_BYTES].startswith(b"MPA ID Req")
    complaints, ops, terminate, rtr = [], collections.Counter(), None, None
    count = 0
    for control, ulpdu in fpdus_of(data, START_BYTES + size, has_crc, complaints):
        opcode = control & 15
        name = OPCODES[opcode] if opcode < len(OPCODES) else str(opcode)
        if count == 0 and is_request and len(ulpdu) == 14 and name == "write":
            rtr = "write"
        if count == 0 and is_request and name == "read_request" and ulpdu[30:34] == bytes(4):
            rtr = "read"
        if name == "terminate":
            terminate = ulpdu[18:20]
        ops[name] += 1
        count += 1
    return Stream(key[0], key[3] if is_request else key[2], is_request, has_crc, count, ops,
                  terminate, rtr, complaints)


def read_streams(path, begin=FILE_BYTES):
    out = streams_of(path, begin)
    found = []
    for key, data in out.items():
        if data[:7] == b"MPA ID " and len(data) >= START_BYTES:
            back = out.get((key[1], key[0], key[3], key[2]), b"")
            found.append(read_stream(key, data, back))
    return found


def main(paths):
    is_bad = False
    for path in paths:
        for s in read_streams(path):
            print("%s port %d %s crc %s, %d FPDUs %s%s%s %s" % (
                path, s.port, "request" if s.is_request else "reply",
                "on" if s.has_crc else "off", s.fpdus, dict(s.ops),
                " terminate " + s.terminate.hex() if s.terminate else "",
                " rtr " + s.rtr if s.rtr else "", "; ".join(s.complaints)))
            is_bad = is_bad or bool(s.complaints)
    return 1 if is_bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
