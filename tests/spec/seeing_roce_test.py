#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""seeing_roce_test.py SAMPLE WEFT: what does a person see of a program that uses RoCE?

SAMPLE (seeing_roce_sample.c) is watched from outside: by Wireshark's dissectors and by the weft
command. All of it runs in a network namespace of its own, where no other process has RoCE's port.
"""
import collections
import os
import re
import signal
import socket
import struct
import sys
import time
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../dropin"))
import seeing_test as seeing  # noqa: E402
import tshark  # noqa: E402
from script import go_to_own_network  # noqa: E402

TESTS = {}

# What the sample says: RC's opcodes but RD's and XRC's, a datagram.
ACKNOWLEDGE, UD_SEND_ONLY = 17, 100
WRITES = {6, 7, 8}
STORY = set(range(0, 5)) - {3} | {6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 23, UD_SEND_ONLY}
PSN, MTU, LARGE = 0xffffc0, 1024, 200000
REJ_REASON = "infiniband.cm.rej.reason"


def test(function):
    TESTS[function.__name__] = function
    return function


# --- captures ------------------------------------------------------------------------------------

Packet = collections.namedtuple("Packet", "is_outgoing time bytes")


def packets_of(path):
    """The packets of a capture, by code of its own: blocks of pcapng, in network byte order."""
    with open(path, "rb") as f:
        data = f.read()
    at, packets = 0, []
    while at < len(data):
        kind, length = struct.unpack_from(">II", data.ljust(at + 8, b"\0"), at)
        if length == 0 or at + length > len(data):
            break  # it is being written
        if kind == 6:
            high, low, captured = struct.unpack_from(">III", data, at + 12)
            flags, = struct.unpack_from(">I", data, at + 28 + (captured + 3) // 4 * 4 + 4)
            packets.append(Packet(flags & 3 == 2, (high << 32 | low) / 1e9,
                                  data[at + 28:at + 28 + captured]))
        at += length
    return packets


def is_reject(packet):
    """ConnectReject: of IPv4, behind BTH and DETH the attribute of a MAD."""
    return len(packet) == 308 and packet[28 + 20 + 16:28 + 20 + 18] == b"\0\x12"


def icrc(packet):
    """Annex A17: what a network may change counts as ones; 8 bytes of ones stand for LRH."""
    b = bytearray(packet)
    if b[0] >> 4 == 4:
        udp, masked = 20, [1, 8, 10, 11]
    else:
        udp, masked = 40, [1, 2, 3, 7]
        b[0] |= 0x0f
    for at in masked + [udp + 6, udp + 7, udp + 8 + 4]:
        b[at] = 0xff
    return zlib.crc32(b"\xff" * 8 + bytes(b[:-4]))


def icrc_faults(packets):
    for i, p in enumerate(packets):
        if struct.unpack("<I", p.bytes[-4:])[0] != icrc(p.bytes):
            yield "packet %d: bad ICRC" % (i + 1)


def dissect(path):
    """[{field: [values]}] of each frame. Without RPCoRDMA, see capture_tshark_test.py."""
    return [fields for fields, _ in
            tshark.dissect(path, "-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
                           "--disable-protocol", "rpcordma")]


def number(frame, field):
    return int(frame[field][0], 0)


def opcodes(frames):
    return {number(f, "infiniband.bth.opcode") for f in frames}


def frame_faults(frames):
    """Does Wireshark take each for InfiniBand, and has it nothing to say against it?"""
    for i, f in enumerate(frames):
        if f["udp.checksum.status"] != ["1"] or f.get("ip.checksum.status", ["1"]) != ["1"]:
            yield "frame %d: bad checksum" % (i + 1)
        if f["udp.dstport"] != ["4791"] or "infiniband.bth.opcode" not in f:
            yield "frame %d: not RoCE" % (i + 1)
        if "_ws.malformed" in f or "_ws.expert" in f:
            yield "frame %d: %s" % (i + 1, f.get("_ws.expert.message", ["malformed"]))


def capture_faults(packets, frames, wanted):
    if len(packets) != len(frames):
        yield "%d packets, %d frames" % (len(packets), len(frames))
    yield from icrc_faults(packets)
    yield from frame_faults(frames)
    if opcodes(frames) != wanted:
        yield "opcodes seen: %s, not %s" % (sorted(opcodes(frames)), sorted(wanted))


def story_faults(place, version):
    before = time.time()
    done = place.run("story", version, WEFT_PCAP=place.path("of.%p.pcapng"))
    if done.returncode or done.stderr:
        yield "exit status %d: %s" % (done.returncode, done.stderr)
    path = place.path(os.listdir(place.directory)[0])
    packets, frames = packets_of(path), dissect(path)
    yield from capture_faults(packets, frames, STORY)
    times = [p.time for p in packets]
    if times != sorted(times) or times[0] < before or times[-1] > time.time():
        yield "times are not those of the wall clock"
    # Nothing is lost here: each packet was sent by one adapter, and came to the other as it was.
    # What was sent again, just before the end, may not have come again.
    sent = collections.Counter(p.bytes for p in packets if p.is_outgoing)
    come = collections.Counter(p.bytes for p in packets if not p.is_outgoing)
    if come - sent or set(sent) != set(come):
        yield "%d packets sent, %d come, %d of which were not sent so" % (
            sum(sent.values()), sum(come.values()), sum((come - sent).values()))
    dumped = place.ask("dump", "--quiet", path)
    if dumped.returncode != 0 or "\nall RDMA traffic decoded\n" not in dumped.stdout:
        yield "weft dump: " + dumped.stdout
    if [f[REJ_REASON] for f in frames if f.get(REJ_REASON)] != [["0x001c"]] * 2:
        yield "the refusal: %s" % [f[REJ_REASON] for f in frames if f.get(REJ_REASON)]


@test
def test_capture_roce_shows_every_packet_ipv4(place):
    yield from story_faults(place, "4")


@test
def test_capture_roce_shows_every_packet_ipv6(place):
    yield from story_faults(place, "6")


@test
def test_capture_roce_by_the_program_is_of_one_end(place):
    """Segments that the kernel cuts apart are there one by one; what comes after the stop is not."""
    path = place.path("it.pcapng")
    done = place.run("start", "4", path)
    if done.returncode or done.stderr:
        yield "exit status %d: %s" % (done.returncode, done.stderr)
    packets, frames = packets_of(path), dissect(path)
    yield from capture_faults(packets, frames, STORY)
    out = [f for f, p in zip(frames, packets) if p.is_outgoing]
    # The one Write of 200000 bytes; the others fit in a packet, or in two.
    large = [f for f in out if number(f, "infiniband.bth.opcode") in WRITES]
    count = (LARGE + MTU - 1) // MTU
    at = next(i for i, f in enumerate(large) if number(f, "infiniband.bth.opcode") == 6 and
              number(f, "infiniband.reth.dmalen") == LARGE)
    large = large[at:at + count]
    psns = [number(f, "infiniband.bth.psn") for f in large]
    if psns != [(psns[0] + i) % (1 << 24) for i in range(count)]:
        yield "numbers of the large Write: %s" % psns
    lengths = [number(f, "udp.length") - 8 for f in large]
    rest = LARGE - (count - 1) * MTU
    if lengths != [12 + 16 + MTU + 4] + [12 + MTU + 4] * (count - 2) + [12 + rest + 4]:
        yield "lengths of the large Write: %s" % lengths
    for field, wanted in (("ip.dsfield.dscp", 0x68 >> 2), ("ip.ttl", 33)):
        if {number(f, field) for f in large} != {wanted}:
            yield "%s: %s" % (field, {f[field][0] for f in large})
    if number(out[-1], "infiniband.bth.destqp") != 1:
        yield "the end was not the end: %s" % out[-1]["infiniband.bth.opcode"]
    if any(number(f, "infiniband.aeth.syndrome") & 0x60 == 0x60 for f in frames
           if "infiniband.aeth.syndrome" in f):
        yield "what came after the stop is there"


@test
def test_capture_roce_of_a_killed_process(place):
    path = place.path("it.pcapng")
    child = place.start("hold", "4", WEFT_PCAP=path)
    # The last that it said: the refusal, to the GSI of the end that had asked.
    if not seeing.until(lambda: sum(1 for p in packets_of(path) if is_reject(p.bytes)) == 2):
        yield "it was not written out in time"
    child.kill()
    child.wait()
    yield from capture_faults(packets_of(path), dissect(path), STORY)


# --- traces and the log --------------------------------------------------------------------------


def trace_of(place, faults, *args):
    path = place.path("it.trace")
    child = place.start("verify", "4", WEFT_TRACE=path, WEFT_FAULTS=faults)
    child.stdin.close()
    child.wait(seeing.PATIENCE_S)
    result = place.ask("trace", *args, path)
    if result.returncode or result.stderr:
        raise ValueError("exit status %d: %s" % (result.returncode, result.stderr))
    return result.stdout


@test
def test_trace_roce_tells_of_peers_and_repair(place):
    text = trace_of(place, "seed=5,loss=0.02")
    peers = re.findall(r"adapter (\d)  QP (\w+)  its peer is at 127\.0\.0\.1:4791, QP (\w+)$", text, re.M)
    if [p[0] for p in sorted(peers)] != ["1", "2"] or peers[0][1:] != peers[1][:0:-1]:
        yield "peers: %s" % peers
    if " a fault on purpose: loss" not in text:
        yield "no fault is shown"
    said = re.findall(r"QP \w+  says NAK PSN sequence error, PSN (\w+)$", text, re.M)
    heard = re.findall(r"QP \w+  hears NAK PSN sequence error, PSN (\w+)$", text, re.M)
    if not heard or set(heard) - set(said):
        yield "NAKs said: %s, heard: %s" % (said, heard)


@test
def test_trace_roce_tells_why_packets_were_dropped(place):
    lines = trace_of(place, "seed=5,corrupt=0.02", "--kind", "dropped").splitlines()
    if not lines or not all("  a packet for it is dropped: " in t for t in lines) or \
            sum(1 for t in lines if ": ib_icrc: " in t) < 5:
        yield "%s" % lines[:20]


@test
def test_log_roce_tells_both_ends(place):
    lines = place.run("story", "4", WEFT_LOG="error").stderr.splitlines()
    both = r"^weft\[\d+\]: QP %s, 127.0.0.1:\d+ to 127.0.0.1:4791, QP %s: failed: %s: "
    for what in (both % (r"02\w{4}", r"01\w{4}", "tag_instance"),
                 both % (r"01\w{4}", r"02\w{4}", "peer_rights")):
        if sum(1 for line in lines if re.search(what, line)) != 1:
            yield "not there once: %s in %s" % (what, lines)
    if len(lines) != 2:
        yield "%s" % lines


# --- counters ------------------------------------------------------------------------------------

# 7 lengths of Send, Write and Read, twice Send, Send with invalidate, Write with immediate and an
# atomic; of these come back the answers of Reads and atomics.
MESSAGES_OUT, MESSAGES_IN = 7 * 3 + 2 * 4, 7 + 2
# The datagram was another queue pair's.
DATAGRAMS = 1


@test
def test_stat_roce_shows_counters_of_a_running_process(place):
    child = place.start("hold", "4")
    seen = seeing.stat(place, str(child.pid))
    near, far = seen["adapters"]
    yield from seeing.counter_faults(near, {
        "qps": 1, "links": 1, "messages_in": MESSAGES_IN, "messages_out": MESSAGES_OUT + DATAGRAMS})
    yield from seeing.counter_faults(far, {
        "qps": 1, "links": 1, "messages_out": MESSAGES_IN, "messages_in": MESSAGES_OUT + DATAGRAMS})
    (one,), (two,) = near["queue_pairs"], far["queue_pairs"]
    yield from seeing.counter_faults(one, {
        "state": "RTS", "link": "near", "reason": "ok", "service": "RC", "peer": "127.0.0.1:4791",
        "peer_qp": two["number"], "messages_in": MESSAGES_IN, "messages_out": MESSAGES_OUT,
        "payload_out": 2 * seeing.PAYLOAD + 6 * 24, "payload_in": seeing.PAYLOAD})
    for way, back in (("in", "out"), ("out", "in")):
        for what in ("messages", "payload"):
            if one["%s_%s" % (what, way)] != two["%s_%s" % (what, back)]:
                yield "%s do not agree" % what
    for of in (near, far):
        roce = of["roce"]
        yield from seeing.counter_faults(roce, {"refused": 0, "refused_for": "ok", "packets_out":
                                                of["frames_out"], "packets_in": of["frames_in"]})
        by_udp = of["frames_out"] - roce["near_out"]
        by_packets = of["payload_out"]
        if of is far:
            by_packets -= 200000 + 1500 + 1000  # which its peer read without packets
        if not 0 < by_udp <= of["calls_out"] * 64 or of["bytes_out"] < by_packets:
            yield "it cannot be: %s" % of
        if roce["near_out"] < of["queue_pairs"][0]["frames_out"]:
            yield "a connection within the host is not near: %s" % of


@test
def test_stat_roce_in_words(place):
    child = place.start("hold", "4")
    result = place.ask("stat", str(child.pid))
    if result.returncode or result.stderr:
        yield "exit status %d: %s" % (result.returncode, result.stderr)
    row = r"^  01\w{4} RTS   RC   near 127\.0\.0\.1:4791 +%d +%d +\d+ +\d+ +\d+ +\d+ +\d+ +\d+ +\d+ +\d+  ok$"
    for what in (r"^  RoCE          \d+ packets in, \d+ out; \d+ sent again, ",
                 r"^  dropped       \d+ packets", row % (MESSAGES_IN, MESSAGES_OUT)):
        if not re.search(what, result.stdout, re.M):
            yield "not there: %s in %s" % (what, result.stdout)
    if not re.search(r"^ *%d  seeing_roce_sam\w* +2 +2 +%d " % (
            child.pid, 2 * (MESSAGES_IN + MESSAGES_OUT + DATAGRAMS)), place.ask("stat").stdout, re.M):
        yield "not in the list: " + place.ask("stat").stdout


@test
def test_stat_roce_tells_why_a_queue_pair_failed(place):
    """What its connection carried is still there."""
    child = place.start("broken", "4")
    near, far = seeing.stat(place, str(child.pid))["adapters"]
    (one,), (two,) = near["queue_pairs"], far["queue_pairs"]
    yield from seeing.counter_faults(one, {
        "state": "ERROR", "link": "ended", "reason": "peer_rights", "messages_out": MESSAGES_OUT + 1,
        "messages_in": MESSAGES_IN})
    yield from seeing.counter_faults(two, {"state": "ERROR", "link": "ended", "reason": "tag_instance",
                                           "messages_in": MESSAGES_OUT})
    yield from seeing.counter_faults(far, {"accesses_refused": 1, "links": 0})
    if one["naks_in"] < 1 or far["roce"]["naks_out"] < 1:
        yield "NAKs: %d in, %d out" % (one["naks_in"], far["roce"]["naks_out"])


def packet(number, length=16):
    """A Send of RC to a queue pair, with an ICRC that is no good."""
    return (struct.pack(">BBHII", 4, 0x40, 0xffff, number, PSN) + b"\0" * 8)[:length]


@test
def test_stat_roce_tells_why_packets_were_dropped(place):
    child = place.start("hold", "4")
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    number = int(seeing.stat(place, str(child.pid))["adapters"][0]["queue_pairs"][0]["number"], 16)
    for bad, count in ((packet(number), 3), (packet(number + 1), 2), (packet(number, 8), 5)):
        for _ in range(count):
            sender.sendto(bad, ("127.0.0.1", 4791))
    wanted = {"ib_icrc": 3, "peer_unknown": 2, "ib_short": 5}

    def drops():
        """The kernel decides which process gets a packet that is too short to name a queue pair."""
        seen = seeing.stat(place, str(child.pid))["adapters"]
        total = collections.Counter()
        for a in seen:
            total.update(a["roce"]["drops"])
            if sum(a["roce"]["drops"].values()) != a["roce"]["dropped"]:
                raise ValueError("the sum is wrong: %s" % a["roce"])
        return total

    if not seeing.until(lambda: drops() == wanted):
        yield "dropped: %s" % drops()
    text = place.ask("stat", str(child.pid)).stdout
    if not re.search(r"^  dropped       \d+ packets: .*3 for ib_icrc", text, re.M):
        yield "in words: " + text


@test
def test_stat_roce_tells_what_its_sockets_had_no_room_for(place):
    child = place.start("hold", "4")
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def lost():
        return sum(a["roce"]["overruns"] for a in seeing.stat(place, str(child.pid))["adapters"])

    if lost() != 0:
        yield "it begins with %d" % lost()
    os.kill(child.pid, signal.SIGSTOP)
    # More than any socket holds, to a queue pair that does not exist.
    for _ in range(20000):
        sender.sendto(b"\x04" + b"\0" * 3999, ("127.0.0.1", 4791))
    os.kill(child.pid, signal.SIGCONT)
    if lost() < 1000:
        yield "lost: %d" % lost()


# --- faults --------------------------------------------------------------------------------------


def faulty(place, faults, version="4", **wishes):
    """Carries and looks at every byte; gives what stat then shows, and how many were made of each."""
    child = place.start("verify", version, WEFT_FAULTS=faults, **wishes)
    seen = seeing.stat(place, str(child.pid))["adapters"]
    child.stdin.close()
    said = child.stderr.read()
    if child.wait(seeing.PATIENCE_S) != 0:
        raise ValueError("exit status %d: %s" % (child.returncode, said))
    made = re.search(r"^weft\[\d+\]: made by WEFT_FAULTS: (.*)$", said, re.M)
    if not made or "on purpose, by WEFT_FAULTS=%s\n" % faults not in said:
        raise ValueError("it says: " + said)
    return seen, {k: int(v) for k, v in (m.split() for m in made.group(1).split(", "))}


def of_all(seen, key):
    return sum(a["roce"][key] for a in seen)


@test
def test_faults_roce_what_is_lost_is_sent_again(place):
    for version in "46":
        seen, made = faulty(place, "seed=5,loss=0.02", version)
        if made.get("loss", 0) < 20 or list(made) != ["loss"]:
            yield "made: %s" % made
        if of_all(seen, "resent") < 10 or of_all(seen, "packets_in") >= of_all(seen, "packets_out"):
            yield "of %d packets %d came, %d were sent again" % (
                of_all(seen, "packets_out"), of_all(seen, "packets_in"), of_all(seen, "resent"))


@test
def test_faults_roce_what_is_damaged_is_dropped_and_sent_again(place):
    """By the ICRC, unless the damage shows before that, as in the destination queue pair."""
    for version in "46":
        path = place.path("v%s.pcapng" % version)
        seen, made = faulty(place, "seed=5,corrupt=0.02", version, WEFT_PCAP=path)
        drops = collections.Counter()
        for a in seen:
            drops.update(a["roce"]["drops"])
        # Behind what was dropped others come too early.
        found = sum(drops.values()) - drops.get("ib_psn", 0)
        if made.get("corrupt", 0) < 20 or not made["corrupt"] / 2 <= found <= made["corrupt"]:
            yield "made: %s, dropped: %s" % (made, drops)
        if drops["ib_icrc"] < 10 or of_all(seen, "resent") < 10:
            yield "dropped: %s, sent again: %d" % (drops, of_all(seen, "resent"))
        # The capture has what was sent so; what is damaged on its way in was good when it came.
        bad = [p for p in packets_of(path) if list(icrc_faults([p]))]
        if not 0 < sum(1 for p in bad if p.is_outgoing) < made["corrupt"]:
            yield "%d bad packets in the capture" % len(bad)
        if {p.bytes for p in bad if not p.is_outgoing} - {p.bytes for p in bad if p.is_outgoing}:
            yield "bad packets have come that were not sent"


@test
def test_faults_roce_what_comes_twice_or_late_is_carried_out_once(place):
    seen, made = faulty(place, "seed=5,duplicate=0.05,reorder=0.02,delay=0.01:2ms")
    if not {"duplicate", "reorder", "delay"} == set(made) or min(made.values()) < 10:
        yield "made: %s" % made
    if of_all(seen, "duplicates") < 10:
        yield "duplicates: %d" % of_all(seen, "duplicates")
    seen, made = faulty(place, "loss=0.01,corrupt=0.01,duplicate=0.01,reorder=0.01,delay=0.01")
    if len(made) != 5:
        yield "made: %s" % made


@test
def test_faults_roce_a_connection_is_cut_off(place):
    child = place.start("broken", "4", WEFT_FAULTS="seed=1")
    if not place.ask("stat", str(child.pid)).stdout:
        yield "a seed alone does something"
    done = place.run("verify", "4", WEFT_FAULTS="disconnect_after=100KB", WEFT_LOG="info")
    if done.returncode != 1 or "round " not in done.stderr:
        yield "exit status %d: %s" % (done.returncode, done.stderr)
    for what in (r"failed: fault_injected: ", r"QP \w+: WEFT_FAULTS: disconnect_after$",
                 r"made by WEFT_FAULTS: disconnect_after \d$"):
        if not re.search(what, done.stderr, re.M):
            yield "not there: %s in %s" % (what, done.stderr)


# --- all -----------------------------------------------------------------------------------------


def main(sample, weft, *names):
    if not go_to_own_network():
        print("skip seeing_roce: no network namespace of its own can be had")
        return 77
    return seeing.run(TESTS, sample, weft, *names)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
