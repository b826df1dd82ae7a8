#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""push_wire_test.py SAMPLE ROOT: do docs/wire/push.md and docs/wire/push.lua say what the code does?

SAMPLE (push_sample.c) prints good messages and cells. Messages are put into a capture, in iWARP Sends with the tail
that they have between two processes, which tshark reads with the dissector. It also writes what the fuzzers start
from; what is kept must be that.
"""
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rio_wire_test as rio  # noqa: E402
import tshark  # noqa: E402

# What the samples hold: unit/wire/push_fixture.c.
WANTED = {
    "pools": {"function": [1], "count": [1], "pool": [7], "handle": [0xa105], "elements": [256],
              "element_bytes": [256], "address": [0x7f0012340000], "pool_context": [9]},
    "get": {"function": [2], "packet_bytes": [1514], "packets": [3]},
    "update": {"function": [3], "pool": [7], "first": [5], "elements": [3]},
    "flush": {"function": [4], "pool": [7, 300]},
    "flush_reply": {"function": [5]},
    "data": {"function": [6], "length": [14]},
    "indicate": {"function": [7], "pool": [300], "element": [5], "element_bytes": [100000], "bytes": [1514]},
    "release": {"function": [10], "pool": [7]},
    "pull": {"function": [11], "pool": [7], "first": [5], "elements": [1]},
    "hello": {"function": [8], "kind": [1], "role": [1], "mode": [2], "mtu": [9000], "queues": [2],
              "mac": ["02:00:00:00:00:07"], "pools_max": [16], "elements_max": [4096], "message_max": [2048]},
    "set_mac": {"kind": [2], "mac": ["02:00:00:00:00:07"]},
    "set_mtu": {"kind": [3], "mtu": [1500]},
    "set_filter": {"kind": [4], "flags": [2], "vlan": [7, 4094], "group": ["33:33:00:00:00:01"]},
    "set_offers": {"kind": [5], "features": [1 << 63], "queues": [1]},
    "link": {"kind": [6], "up": [1], "megabits": [25000]},
    "statistics": {"kind": [7], "counter": []},
    "statistics_reply": {"function": [9], "kind": [7], "reason": [0], "counter": list(range(1, 12))},
    "ping": {"kind": [8], "sent": [70000], "received": [69990]},
    "refusal": {"function": [9], "kind": [2], "reason": [77]},
}


TAIL = struct.pack(">Q", 5) + bytes(range(16))  # the sequence and the seal behind a message
TAIL_SHOWN = {"sequence": [5], "seal": [":".join("%02x" % byte for byte in TAIL[8:])]}


def lua_of(root):
    return os.path.join(root, "docs/wire/push.lua")


def page_of(root):
    with open(os.path.join(root, "docs/wire/push.md"), encoding="utf-8") as f:
        return f.read()


def differences(fields, wanted):
    for name, values in wanted.items():
        got = fields.get("weft_push." + name, [])
        if values and isinstance(values[0], int):
            got = [tshark.number(v) for v in got]
        if got != values:
            yield "%s is %s, not %s" % (name, got, values)


def test_push_16_documented_bytes_are_those_of_the_code(samples, root):
    """In each block of docs/wire/push.md that is marked `hex NAME`, all before two spaces is bytes."""
    blocks = re.findall(r"^```hex (\w+)\n(.*?)^```", page_of(root), re.M | re.S)
    if not {"pools", "flush"} <= {name for name, _ in blocks}:
        yield "the examples are missing"
    for name, text in blocks:
        digits = "".join(re.sub(r"\s", "", line.split("  ")[0]) for line in text.splitlines())
        if bytes.fromhex(digits) != samples.get(name):
            yield "%s is %s, not %s" % (name, samples.get(name, b"").hex(), digits)


def test_push_16_documented_functions_are_all(samples, root):
    functions = {samples[name][1] for name in WANTED}
    rows = {int(n) for n in re.findall(r"^\| (\d+) \| Buffer|^\| (\d+) \| SendData", page_of(root), re.M)
            for n in n if n}
    rows |= {int(n) for n in re.findall(r"^\| (\d+) \| CfgUtil", page_of(root), re.M)}
    if functions != set(range(1, 12)) or rows != functions:
        yield "functions are %s, rows %s" % (sorted(functions), sorted(rows))


def padded(message):
    """With its tail, as InfiniBand carries it: in whole words."""
    return message + TAIL + bytes(-len(message + TAIL) % 4)


def test_push_16_every_message_is_dissected(samples, root):
    if all(len(padded(samples[name])) == len(samples[name] + TAIL) for name in WANTED):
        yield "none is padded"
    frames = rio.dissect(rio.messages_capture([padded(samples[name]) for name in WANTED]), lua_of(root))[4:]
    for (name, wanted), fields in zip(WANTED.items(), frames):
        common = dict(TAIL_SHOWN, version=[1], context=[0x0102030405060708])
        for fault in differences(fields, dict(common, **wanted)):
            yield "%s: %s" % (name, fault)
        for what in rio.complaints(fields):
            yield "%s: %s" % (name, what)


def test_push_16_broken_messages_are_dissected_as_far_as_they_go(samples, root):
    whole = samples["hello"]
    cuts = [whole[:n] for n in range(13, len(whole))]  # as by a segment that has no more of it
    frames = rio.dissect(rio.messages_capture(cuts), lua_of(root))[4:]
    for cut, fields in zip(cuts, frames):
        if [tshark.number(v) for v in fields.get("weft_push.function", [])] != [8]:
            yield "%d bytes: not a request" % len(cut)
        if fields.get("_ws.lua.error"):
            yield "%d bytes: %s" % (len(cut), fields["_ws.lua.error"])
        if "weft_push.cut" not in fields:
            yield "%d bytes: nothing is said to be cut" % len(cut)


def test_push_18_other_sends_are_left_alone(samples, root):
    others = [b"", b"\0\x01", b"\0\x63" + samples["get"][2:], samples["get"][:3] + b"\x02" + samples["get"][4:],
              samples["pools"][:12] + b"\0\0\0\0" + samples["pools"][16:], samples["flush_reply"] + b"x",
              samples["flush_reply"] + TAIL + b"x"]
    frames = rio.dissect(rio.messages_capture(others), lua_of(root))[4:]
    for other, fields in zip(others, frames):
        if any(name.startswith("weft_push") for name in fields):
            yield "%s is taken for a message" % other.hex()


TESTS = (test_push_16_documented_bytes_are_those_of_the_code, test_push_16_documented_functions_are_all,
         test_push_16_every_message_is_dissected, test_push_16_broken_messages_are_dissected_as_far_as_they_go,
         test_push_18_other_sends_are_left_alone)
NEEDS_TSHARK = TESTS[2:]


def seed_faults(sample, root):
    """Is every file that SAMPLE writes kept as it is?"""
    with tempfile.TemporaryDirectory() as directory:
        for fuzzer in "push_msg_fuzz", "push_cell_fuzz":
            os.mkdir(os.path.join(directory, fuzzer))
        subprocess.run([sample, directory], check=True)
        for folder, _, names in os.walk(directory):
            for name in names:
                path = os.path.join("tests/fuzz/corpus", os.path.basename(folder), name)
                kept = os.path.join(root, path)
                with open(os.path.join(folder, name), "rb") as f:
                    if not os.path.exists(kept) or f.read() != open(kept, "rb").read():
                        yield path + " is another"


def main(sample, root):
    lines = subprocess.run([sample], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    samples = {name: bytes.fromhex(digits) for name, digits in (line.split("\t") for line in lines)}
    good = tshark.report("test_push_16_seeds_are_those_of_the_code", list(seed_faults(sample, root)))
    for function in TESTS:
        if function in NEEDS_TSHARK and not shutil.which("tshark"):
            print("skip %s: tshark is not installed" % function.__name__)
            continue
        good = tshark.report(function.__name__, list(function(samples, root))) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
