#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""rio_wire_test.py SAMPLE ROOT: do docs/wire/rio.md and docs/wire/rio.lua say what the code does?

SAMPLE (rio_sample.c) prints good messages. They are put into a capture, in iWARP Sends, which tshark
reads with the dissector. It also writes what the fuzzers start from; what is kept must be that.
"""
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tshark  # noqa: E402

HEADER_BYTES = 24
TESTS = {}
NEEDS_TSHARK = set()


def test(function):
    TESTS[function.__name__] = function
    return function


def test_tshark(function):
    NEEDS_TSHARK.add(function.__name__)
    return test(function)


# --- a capture -----------------------------------------------------------------------------------


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def mpa_start(is_reply, private, revision=1):
    key = b"MPA ID Rep Frame" if is_reply else b"MPA ID Req Frame"
    return key + struct.pack(">BBH", 0x40 | (0x10 if revision == 2 else 0), revision,
                             len(private)) + private


def fpdu(ulpdu):
    frame = struct.pack(">H", len(ulpdu)) + ulpdu
    frame += bytes(-len(frame) % 4)
    return frame + struct.pack("<I", crc32c(frame))


def send(payload, msn, offset=0, is_last=True):
    """RFC 5041 section 4.3, RFC 5040 section 4.3: an untagged segment of a Send."""
    return fpdu(struct.pack(">BBIIII", 0x41 if is_last else 0x01, 0x43, 0, 0, msn, offset) + payload)


class Capture:
    """One TCP connection in a pcap file of raw IPv4 packets; each write is a packet."""

    def __init__(self, port=7471):
        self.packets, self.port, self.sent = [], port, [1, 1]
        self.packet(0, 0x02, b"", 0)
        self.packet(1, 0x12, b"", 0)

    def packet(self, way, flags, payload, seq):
        ports = (40000, self.port) if way == 0 else (self.port, 40000)
        address = bytes([192, 0, 2, 1 + way]), bytes([192, 0, 2, 2 - way])
        tcp = struct.pack(">HHIIBBHHH", *ports, seq, self.sent[1 - way], 0x50, flags, 65535, 0, 0)
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp) + len(payload), 0, 0, 64, 6, 0,
                         *address)
        self.packets.append(ip + tcp + payload)

    def write(self, way, payload):
        self.packet(way, 0x18, payload, self.sent[way])
        self.sent[way] += len(payload)

    def save(self, path):
        with open(path, "wb") as f:
            f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))
            for i, packet in enumerate(self.packets):
                f.write(struct.pack("<IIII", i, 0, len(packet), len(packet)) + packet)


def messages_capture(payloads, private=b"", revision=1):
    """The start frames, then each payload as a Send."""
    capture = Capture()
    capture.write(0, mpa_start(False, private, revision))
    capture.write(1, mpa_start(True, private, revision))
    for i, payload in enumerate(payloads):
        capture.write(0, send(payload, i + 1))
    return capture


# --- reading -------------------------------------------------------------------------------------


def dissect(capture, lua):
    """[{field: [values]}] of the packets behind the handshake and the start frames."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "rio.pcap")
        capture.save(path)
        frames = tshark.dissect(path, "-X", "lua_script:" + lua)
    return [fields for fields, _ in frames]


def differences(fields, wanted):
    """Each wanted value is a list: of numbers, or of texts."""
    for name, values in wanted.items():
        got = fields.get("weft_rio." + name, [])
        if values and isinstance(values[0], int):
            got = [tshark.number(v) for v in got]
        if got != values:
            yield "%s is %s, not %s" % (name, got, values)


def complaints(fields):
    return fields.get("_ws.expert.message", []) + fields.get("_ws.malformed", []) + \
        fields.get("_ws.lua.text", []) + fields.get("_ws.lua.error", [])


# --- what the samples hold: unit/wire/rio_fixture.c ----------------------------------------------

LIST = {
    "sgl.kind": [1, 3, 4, 5, 5], "sgl.last": [0, 0, 0, 0, 1], "sgl.length": [8, 12, 28, 24, 24],
    "sgl.address_bytes": [8], "sgl.context_bytes": [4], "sgl.page_shift": [12],
    "sgl.operation": [1], "sgl.fua": [0], "sgl.device": [3], "sgl.offset": [1 << 20],
    "sgl.range": [6144], "sgl.role": [1, 1], "sgl.ends": [0, 1], "sgl.handle": [0xa105, 0xa206],
    "sgl.bytes": [4096, 2048], "sgl.address": [0x7f0012340000, 0x7f0056780200], "timeout": [30000],
}
DEVICES = {
    "device.count": [2], "device.number": [3, 4], "device.block": [4096, 512],
    "device.size": [3 << 40, 512], "device.instance": [0x1a1b1c1d1e1f2021, 0],
    "device.flags": [14, 1], "device.read_only": [0, 1],
    "device.flush": [1, 0], "device.zeroes": [0, 0], "device.name": ["archive", "grüß"],
}
WANTED = {
    "hello": {"platform": ["7.1"], "role": [1], "ephemeral": [":".join(["e1"] * 32)],
              "key": [":".join(["4b"] * 32)], "term": [0x7e00000000000001],
              "incarnation": [0x7f00000000000002]},
    "welcome": {"platform": ["7.1"], "role": [2], "requests_max": [64], "list_max": [8144],
                "signature": [":".join(["51"] * 64)]},
    "prove": {"port": [7471], "family": [6], "ipv6": ["fd00::1"],
              "signature": [":".join(["52"] * 64)]},
    "request": dict(LIST, platform=["7.1"]),
    "command": dict(LIST, platform=["7.1", "7.1"], asked=[0x1112131415161718]),
    "status": {"reason": [36], "transaction": [1], "done": [4096], "text": ["no such device"]},
    "announce": dict(DEVICES, platform=["9.0"], token=[":".join(["70"] * 32)]),
    "grant": {"platform": ["7.1"], "family": [4], "port": [7471], "ipv4": ["192.0.2.7"]},
    "devices": DEVICES,
    "revoke": {"platform": ["9.0"]},
    "cancel": {}, "ping": {}, "pong": {},
    "bye": {"reason": [6]},
    "notified": {"notified.count": [2], "notified.id": [0x21, 0x22],
                 "notified.done": [4096, 8192]},
    "inquire": {"inquire.first": [40]},
    "report": {"report.total": [7], "report.count": [4], "seen.kind": [2, 1, 3, 4],
               "seen.here": [1, 0, 1, 1], "platform": ["1.1", "7.1", "9.0", "9.0"],
               "seen.now": [3, 0, 3], "seen.control_in": [70000], "seen.control_out": [90000],
               "seen.requests": [12, 9], "seen.refused": [2, 0], "seen.failed": [1, 1],
               "seen.read": [1 << 20] * 2, "seen.written": [8192] * 2, "seen.name": ["db", "disks"],
               "device.number": [0x10003], "device.name": ["archive"]},
}
GREETING = ("hello", "welcome", "prove")


# --- tests: each gives what is wrong, or nothing -------------------------------------------------


@test
def test_rio_documented_bytes_are_those_of_the_code(samples, root):
    """In each block of docs/wire/rio.md that is marked `hex NAME`, all before two spaces is bytes."""
    with open(os.path.join(root, "docs/wire/rio.md"), encoding="utf-8") as f:
        blocks = re.findall(r"^```hex (\w+)\n(.*?)^```", f.read(), re.M | re.S)
    if not {"list", "request"} <= {name for name, _ in blocks}:
        yield "the examples are missing"
    for name, text in blocks:
        digits = "".join(re.sub(r"\s", "", line.split("  ")[0]) for line in text.splitlines())
        if bytes.fromhex(digits) != samples.get(name):
            yield "%s is %s, not %s" % (name, samples.get(name, b"").hex(), digits)


@test
def test_rio_documented_types_and_kinds_are_all(samples, root):
    """Every message that is printed has a row in the table."""
    with open(os.path.join(root, "docs/wire/rio.md"), encoding="utf-8") as f:
        page = f.read()
    for name in WANTED:
        row = "| %d | %s |" % (samples[name][3], name)
        if row not in page:
            yield "no row begins with " + row


@test_tshark
def test_rio_every_message_is_dissected(samples, root):
    frames = dissect(messages_capture([samples[name] for name in WANTED]), lua_of(root))[4:]
    for (name, wanted), fields in zip(WANTED.items(), frames):
        common = {"magic": ["RF"], "version": [2], "type": [samples[name][3]], "sequence": [5],
                  "length": [len(samples[name])], "id": [0x0102030405060708],
                  "seal": [] if name in GREETING else [":".join(["5e"] * 16)], "zero": []}
        for fault in differences(fields, dict(common, **wanted)):
            yield "%s: %s" % (name, fault)
        for what in complaints(fields):
            yield "%s: %s" % (name, what)


@test_tshark
def test_rio_private_data_is_dissected(samples, root):
    """In both revisions of MPA, the second of which has four bytes of its own before it."""
    wanted = {"magic": ["RD"], "data.kind": [0], "from": ["9.0"], "to": ["7.1"], "reason": [0],
              "data.counter": [12], "data.nonce": [":".join(["0c"] * 32)],
              "seal": [":".join(["5e"] * 16)]}
    for revision in 1, 2:
        private = (b"\x80\x10\x80\x10" if revision == 2 else b"") + samples["data"]
        frames = dissect(messages_capture([], private, revision), lua_of(root))
        for fields in frames[2:4]:
            for fault in differences(fields, wanted):
                yield "revision %d: %s" % (revision, fault)
    frames = dissect(messages_capture([], b"x" * 80), lua_of(root))
    if any(name.startswith("weft_rio") for fields in frames for name in fields):
        yield "other private data is taken for ours"


@test_tshark
def test_rio_broken_messages_are_dissected_as_far_as_they_go(samples, root):
    """Every truncation is shown without an error of the dissector, and most of it is told."""
    whole = samples["request"]
    cuts = [whole[:n] for n in range(HEADER_BYTES, len(whole), 4)]
    frames = dissect(messages_capture(cuts), lua_of(root))[4:]
    for cut, fields in zip(cuts, frames):
        if tshark.number(fields["weft_rio.type"][0]) != 4:
            yield "%d bytes: not a request" % len(cut)
        if fields.get("_ws.lua.error") or any("Lua" in c for c in complaints(fields)):
            yield "%d bytes: %s" % (len(cut), complaints(fields))
        # Between two elements nothing shows that there are more.
    if not any("weft_rio.cut" in fields for fields in frames):
        yield "nothing is said to be cut"
    broken = bytearray(whole)
    broken[HEADER_BYTES + 8 + 3] = 2
    fields = dissect(messages_capture([bytes(broken)]), lua_of(root))[4]
    if "weft_rio.bad" not in fields:
        yield "an element of 2 bytes goes unnoticed"


@test_tshark
def test_rio_other_sends_are_left_alone(samples, root):
    others = [b"", b"R", b"RF\x02", b"RF\x01" + samples["ping"][3:], b"XX" + samples["ping"][2:],
              samples["ping"][:3] + b"\x12" + samples["ping"][4:],
              samples["ping"][:4] + b"\xff" + samples["ping"][5:]]
    frames = dissect(messages_capture(others), lua_of(root))[4:]
    for other, fields in zip(others, frames):
        if any(name.startswith("weft_rio") for name in fields):
            yield "%s is taken for a message" % other.hex()


def lua_of(root):
    return os.path.join(root, "docs/wire/rio.lua")


def seed_faults(sample, root):
    """Is every file that SAMPLE writes kept as it is?"""
    kept = os.path.join(root, "tests/fuzz/corpus")
    with tempfile.TemporaryDirectory() as directory:
        for fuzzer in "rio_list_fuzz", "rio_msg_fuzz":
            os.mkdir(os.path.join(directory, fuzzer))
        subprocess.run([sample, directory], check=True)
        for folder, _, names in os.walk(directory):
            for name in names:
                path = os.path.join(os.path.basename(folder), name)
                try:
                    with open(os.path.join(kept, path), "rb") as f:
                        have = f.read()
                except FileNotFoundError:
                    have = None
                with open(os.path.join(folder, name), "rb") as f:
                    if f.read() != have:
                        yield "tests/fuzz/corpus/%s is another" % path


def main(sample, root):
    TESTS["test_rio_seeds_are_those_of_the_code"] = lambda *_: seed_faults(sample, root)
    lines = subprocess.run([sample], check=True, stdout=subprocess.PIPE,
                           text=True).stdout.splitlines()
    samples = {name: bytes.fromhex(digits) for name, digits in (line.split("\t") for line in lines)}
    has_tshark = shutil.which("tshark")
    status = 0
    for name, function in TESTS.items():
        if name in NEEDS_TSHARK and not has_tshark:
            print("skip %s: tshark is not installed" % name)
            continue
        if not tshark.report(name, list(function(samples, root))):
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
