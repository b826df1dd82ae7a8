#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""capture_tshark_test.py SAMPLE: does Wireshark read our captures as we mean them?

SAMPLE (capture_sample.c) writes captures and tells what must be found in each FPDU.
"""
import collections
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tshark  # noqa: E402

Frame = collections.namedtuple("Frame", "number stream direction fields text")

GOOD = "1"
TESTS = {}


def test(function):
    TESTS[function.__name__] = function
    return function


# --- reading -------------------------------------------------------------------------------------


def dissect(path):
    """RPCoRDMA is not tried: Wireshark looks for its header in every Send without asking how long that
    is, and calls one of no or few bytes malformed. Contents come before ports: a port that the
    system has chosen may be one by which Wireshark knows another protocol, as 34980 or 57000."""
    frames = []
    for fields, text in tshark.dissect(path, "-o", "tcp.check_checksum:TRUE",
                                       "-o", "ip.check_checksum:TRUE",
                                       "-o", "tcp.try_heuristic_first:TRUE",
                                       "--disable-protocol", "rpcordma"):
        direction = {"1": "in", "2": "out"}.get(
            "%d" % int(fields["frame.packet_flags_direction"][0], 0))
        frames.append(Frame(int(fields["frame.number"][0]), int(fields["tcp.stream"][0]),
                            direction, fields, text))
    return frames


def payload(frame):
    return bytes.fromhex(frame.fields.get("tcp.payload", [""])[0].replace(":", ""))


def wanted(lines, name):
    """(stream, direction) -> [{field: number}], in order."""
    found = collections.defaultdict(list)
    for line in lines:
        file, stream, direction, *pairs = line.split("\t")
        if file == name:
            found[int(stream), direction].append(
                {k: int(v) for k, v in (pair.split("=") for pair in pairs)})
    return found


# --- judging: each gives what is wrong, or nothing -----------------------------------------------


def fpdu_faults(frames, fpdus, of):
    """Are these the FPDUs of one direction, each in a frame of its own, every field and CRC right?"""
    seen = [f for f in frames if (f.stream, f.direction) == of and "iwarp_mpa.fpdu" in f.fields]
    if len(seen) != len(fpdus):
        yield "stream %d %s: %d FPDUs found of %d" % (*of, len(seen), len(fpdus))
    for frame, fpdu in zip(seen, fpdus):
        for field, value in fpdu.items():
            got = [tshark.number(v) for v in frame.fields.get(field, [])]
            if got != [value]:
                yield "frame %d: %s is %s, not %d" % (frame.number, field, got, value)
        crc = frame.text["iwarp_mpa.crc_check"]
        if len(crc) != 1 or "Good" not in crc[0]:
            yield "frame %d: CRC %s" % (frame.number, crc)


def frame_faults(frames, allowed):
    """Are checksums good, and has Wireshark nothing to say against a frame but what is allowed?"""
    for frame in frames:
        has = frame.fields
        if has["tcp.checksum.status"] != [GOOD] or has.get("ip.checksum.status", [GOOD]) != [GOOD]:
            yield "frame %d: bad checksum" % frame.number
        if "_ws.malformed" in has or "_ws.unreassembled" in has:
            yield "frame %d: malformed" % frame.number
        for what in has.get("_ws.expert.message", []):
            if not any(a in what for a in allowed):
                yield "frame %d: %s" % (frame.number, what)


def tcp_faults(frames):
    """Does every stream begin with a handshake, go on without a gap, and end with FINs or RST?"""
    for stream in sorted({f.stream for f in frames}):
        mine = [f for f in frames if f.stream == stream]
        flags = [tshark.number(f.fields["tcp.flags"][0]) for f in mine]
        if flags[:3] != [0x02, 0x12, 0x10]:
            yield "stream %d: begins with %s" % (stream, flags[:3])
        fins = sum(1 for f in flags if f & 0x01)
        if (fins, flags[-1]) not in ((2, 0x10), (0, 0x14)):
            yield "stream %d: %d FINs, ends with %#x" % (stream, fins, flags[-1])
        due = {}
        for f in mine:
            seq, ack = tshark.number(f.fields["tcp.seq"][0]), tshark.number(f.fields["tcp.ack"][0])
            other = "in" if f.direction == "out" else "out"
            if seq != due.get(f.direction, 0) or ack != due.get(other, 0):
                yield "frame %d: seq %d ack %d, due %s" % (f.number, seq, ack, due)
            due[f.direction] = tshark.number(f.fields["tcp.nxtseq"][0])


# --- tests ---------------------------------------------------------------------------------------

# What Wireshark notes about any connection.
USUAL = ["Connection establish request", "Connection establish acknowledge", "Connection finish",
         "This frame initiates the connection closing",
         "This frame undergoes the connection closing", "Connection reset",
         "Rev field is NOT set to one"]  # it knows RFC 5044, not RFC 6581
REUSED = ["A new tcp session is started with the same ports as an earlier session in this trace"]


@test
def test_capture_every_message_is_dissected(files):
    """All of it: every kind of message, both IP versions, both MPA revisions, many lengths."""
    frames, fpdus = files("every")
    yield from frame_faults(frames, USUAL)
    yield from tcp_faults(frames)
    if sorted(fpdus) != [(s, d) for s in (0, 1) for d in ("in", "out")]:
        yield "the sample tells of %s" % sorted(fpdus)
    for of, wanted_of in fpdus.items():
        yield from fpdu_faults(frames, wanted_of, of)
    opcodes = {tshark.number(v) for f in frames for v in f.fields.get("iwarp_rdma.opcode", [])}
    if opcodes != set(range(12)):
        yield "opcodes seen: %s" % sorted(opcodes)


@test
def test_rfc5044_7_1_capture_shows_start_frames(files):
    frames, _ = files("every")
    got = []
    for f in frames:
        for kind in ("req", "rep"):
            if "iwarp_mpa.key." + kind in f.fields:
                got.append((f.stream, f.direction, kind, tshark.number(f.fields["iwarp_mpa.rev"][0]),
                            tshark.number(f.fields["iwarp_mpa.pdlength"][0])))
    want = [(0, "out", "req", 1, 0), (0, "in", "rep", 1, 512), (1, "in", "req", 2, 60),
            (1, "out", "rep", 2, 60)]
    if got != want:
        yield "start frames: %s" % got


@test
def test_capture_ports_used_again_are_another_stream(files):
    """Wireshark knows MPA connections by their ports only: it does not see the second pair of start
    frames, and takes those two PDUs for FPDUs. The rest must be right."""
    frames, fpdus = files("again")
    yield from tcp_faults(frames)
    rest = [f for f in frames if f.stream == 0 or not payload(f).startswith(b"MPA ID")]
    if len(rest) != len(frames) - 2:
        yield "%d start frames on the second stream" % (len(frames) - len(rest))
    yield from frame_faults(rest, USUAL + REUSED)
    for of, wanted_of in fpdus.items():
        yield from fpdu_faults(rest, wanted_of, of)


@test
def test_capture_markers_in_both_directions_are_dissected(files):
    """Of an FPDU that ends where a marker is due, and has one itself, Wireshark expects one more;
    and of one that comes in pieces it may count too few. The sample holds neither."""
    frames, fpdus = files("markers_both")
    yield from frame_faults(frames, USUAL)
    yield from tcp_faults(frames)
    for of, wanted_of in fpdus.items():
        yield from fpdu_faults(frames, wanted_of, of)


@test
def test_capture_markers_in_one_direction_are_dissected(files):
    """Wireshark expects them in both directions then, so it cannot read the other one."""
    frames, fpdus = files("markers_one")
    yield from tcp_faults(frames)
    yield from fpdu_faults(frames, fpdus[0, "out"], (0, "out"))


def main(sample):
    if not shutil.which("tshark"):
        for name in TESTS:
            print("skip %s: tshark is not installed" % name)
        return 77
    status = 0
    with tempfile.TemporaryDirectory() as directory:
        lines = subprocess.run([sample, directory], check=True, stdout=subprocess.PIPE,
                               text=True).stdout.splitlines()

        def files(name):
            return (dissect(os.path.join(directory, name + ".pcapng")),
                    wanted(lines, name))

        for name, function in TESTS.items():
            if not tshark.report(name, list(function(files))):
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
