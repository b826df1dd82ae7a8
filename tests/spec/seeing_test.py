#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""seeing_test.py SAMPLE WEFT: what does a person see of a running program?

SAMPLE (seeing_sample.c) is watched from outside: by Wireshark's dissectors and by the weft command.
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import capture_tshark_test as shark  # noqa: E402
import tshark  # noqa: E402

TESTS = {}
PATIENCE_S = 60
EVERY_OPCODE = set(range(12))
NOT_TERMINATE = EVERY_OPCODE - {7}


def test(function):
    TESTS[function.__name__] = function
    return function


class Place:
    """Where one test works, and how it runs the two programs."""

    def __init__(self, directory, sample, weft):
        self.directory, self.sample, self.weft = directory, sample, weft
        self.children = []

    def path(self, name):
        return os.path.join(self.directory, name)

    @staticmethod
    def environment(wishes):
        env = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
        return dict(env, **wishes)

    def run(self, *args, **wishes):
        return subprocess.run([self.sample, *args], env=self.environment(wishes), timeout=PATIENCE_S,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def start(self, *args, **wishes):
        """A sample that stays; it is ready when this returns."""
        child = subprocess.Popen([self.sample, *args], env=self.environment(wishes), text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
        self.children.append(child)
        line = child.stdout.readline()
        if line != "ready %d\n" % child.pid:
            raise ValueError("the sample says %r" % line)
        return child

    def ask(self, *args):
        return subprocess.run([self.weft, *args], env=self.environment({}), timeout=PATIENCE_S,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self):
        for child in self.children:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout, child.stderr):
                if stream:
                    stream.close()


def until(condition):
    """Whether it comes true."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


# --- captures ------------------------------------------------------------------------------------


def opcodes(frames):
    return {tshark.number(v) for f in frames for v in f.fields.get("iwarp_rdma.opcode", [])}


def capture_faults(path, wanted_opcodes, streams):
    """Is everything dissected, in as many streams, with good CRCs?"""
    frames = shark.dissect(path)
    yield from shark.frame_faults(frames, shark.USUAL)
    for frame in frames:
        crc = frame.text.get("iwarp_mpa.crc_check", [])
        if "iwarp_mpa.fpdu" in frame.fields and (len(crc) != 1 or "Good" not in crc[0]):
            yield "frame %d: CRC %s" % (frame.number, crc)
    if opcodes(frames) != wanted_opcodes:
        yield "opcodes seen: %s" % sorted(opcodes(frames))
    if {f.stream for f in frames} != set(range(streams)):
        yield "streams seen: %s" % sorted({f.stream for f in frames})
    starts = [sum(1 for f in frames if "iwarp_mpa.key." + kind in f.fields)
              for kind in ("req", "rep")]
    if starts != [streams, streams]:
        yield "requests and replies seen: %s" % starts


@test
def test_capture_by_environment_shows_every_message(place):
    """Two adapters share the file; what both of them see is there once."""
    before = time.time()
    done = place.run("story", WEFT_PCAP=place.path("of.%p.pcapng"))
    if done.returncode or done.stderr:
        yield "exit status %d: %s" % (done.returncode, done.stderr)
    files = os.listdir(place.directory)
    if len(files) != 1:
        yield "files made: %s" % files
    path = place.path(files[0])
    yield from capture_faults(path, EVERY_OPCODE, 2)
    frames = shark.dissect(path)
    yield from shark.tcp_faults(frames)
    times = [float(f.fields["frame.time_epoch"][0]) for f in frames]
    if times != sorted(times) or times[0] < before or times[-1] > time.time():
        yield "times are not those of the wall clock"


@test
def test_capture_by_the_program(place):
    path = place.path("it.pcapng")
    done = place.run("start", path)
    if done.returncode or done.stderr:
        yield "exit status %d: %s" % (done.returncode, done.stderr)
    yield from capture_faults(path, EVERY_OPCODE, 2)
    frames = shark.dissect(path)
    # On the first stream the initiator, which is captured, ends its direction first.
    first = [(tshark.number(f.fields["tcp.flags"][0]), f.fields["tcp.srcport"]) for f in frames
             if f.stream == 0]
    fins = [port for flags, port in first if flags & 0x01]
    if fins[0] != first[0][1]:
        yield "the ends come in the wrong order"


def killed_capture_faults(place, mode):
    path = place.path("it.pcapng")
    child = place.start(mode, WEFT_PCAP=path)

    def is_written():
        """Not just what filled a buffer before it was ready."""
        return opcodes(shark.dissect(path)) == NOT_TERMINATE

    if not until(is_written):
        yield "it was not written out in time"
    child.kill()
    child.wait()
    yield from capture_faults(path, NOT_TERMINATE, 1)


@test
def test_capture_of_a_killed_process_that_slept(place):
    yield from killed_capture_faults(place, "hold")


@test
def test_capture_of_a_killed_process_that_polled(place):
    yield from killed_capture_faults(place, "spin")


@test
def test_capture_that_cannot_be_made_is_reported_once(place):
    done = place.run("story", WEFT_PCAP=place.path("no/such/file"))
    if done.returncode != 0:
        yield "exit status %d: %s" % (done.returncode, done.stderr)
    if done.stderr.count("WEFT_PCAP=") != 1 or "No such file or directory" not in done.stderr:
        yield "it says: " + done.stderr


# --- traces --------------------------------------------------------------------------------------

# What the story must hold, in this order.
STORY = [
    "adapter 2  -          listens at 127.0.0.1:",
    "adapter 1  QP 010000  dials 127.0.0.1:",
    "adapter 2  -          a connection has come from 127.0.0.1:",
    "adapter 2  QP 010000  accepts the connection from 127.0.0.1:",
    "adapter 2  QP 010000  agrees with 127.0.0.1:",
    ": MPA revision 2, CRC, no markers, 16 Reads in and 16 out, a Write comes first",
    "adapter 1  QP 010000  is connected with 127.0.0.1:",
    "adapter 1  QP 010000  Write, request 0: success",
    "adapter 2  QP 010000  receive 0, 200000 bytes: success",
    "adapter 1  QP 010000  Fetch and add, request 0: success",
    "adapter 1  QP 010000  its stream: OPEN -> CLOSING",
    "adapter 2  QP 010000  RTS -> ERROR: peer_gone: ",
    "adapter 2  QP 010000  closes the connection with 127.0.0.1:",
    "adapter 2  QP 010001  refuses its peer: tag 0x",
    "adapter 2  QP 010001  sends Terminate 1/1/0x00 (DDP tagged buffer: invalid STag): tag_instance: "
    "The tag is stale",
    "adapter 2  QP 010001  RTS -> ERROR: tag_instance: The tag is stale",
    "adapter 1  QP 010001  gets Terminate 1/1/0x00 (DDP tagged buffer: invalid STag): tag_invalid: ",
    "adapter 1  QP 010002  is not connected with 127.0.0.1:",
    "connect_refused: No process listens at that address and port.",
]

# The phases of the link of the first queue pair: 1 dials, 2 waits for 1 to speak first.
LINKS = {
    1: ["connecting", "setup", "stream", "ended"],
    2: ["setup", "awaiting_rtr", "stream", "ended"],
}


def order_faults(text, parts):
    at = 0
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            yield "not there, or not in its place: " + part
        else:
            at = found


@test
def test_trace_tells_the_story(place):
    done = place.run("story", WEFT_TRACE=place.path("%p.trace"))
    if done.returncode or done.stderr:
        yield "exit status %d: %s" % (done.returncode, done.stderr)
    path = place.path(os.listdir(place.directory)[0])
    result = place.ask("trace", path)
    if result.returncode or result.stderr:
        yield "exit status %d: %s" % (result.returncode, result.stderr)
    yield from order_faults(result.stdout, STORY)
    times = [line.split()[0] for line in result.stdout.splitlines()]
    if times != sorted(times) and times[0][:2] != "23":
        yield "times go back"
    if result.stdout.count("is not connected") != 1 or "resets" in result.stdout:
        yield "the connection that failed is shown more than once"
    only = place.ask("trace", "--qp", "010001", "--kind", "terminate", path).stdout.splitlines()
    if len(only) != 2 or not all("QP 010001  " in o and "Terminate 1/1/0x00" in o for o in only):
        yield "by --qp and --kind: %s" % only
    links = place.ask("trace", "--qp", "010000", "--kind", "link", path).stdout.splitlines()
    for adapter, phases in LINKS.items():
        moves = [o.rsplit(": ", 1)[1] for o in links if "adapter %d  QP 010000  its link" % adapter in o]
        if moves != ["%s -> %s" % move for move in zip(phases, phases[1:])]:
            yield "its link went another way: %s" % moves
    tags = place.ask("trace", "--kind", "tag", path).stdout.splitlines()
    if not tags or not all(" tag 0x" in t for t in tags):
        yield "by --kind tag: %s" % tags
    if place.ask("trace", "--qp", "0abcde", path).stdout:
        yield "a queue pair that never was has events"


@test
def test_trace_is_followed_to_the_end_of_the_program(place):
    path = place.path("it.trace")
    child = place.start("hold", WEFT_TRACE=path)
    follower = subprocess.Popen([place.weft, "trace", "-f", path], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    place.children.append(follower)
    for line in follower.stdout:
        if "Fetch and add" in line:
            break
    else:
        yield "it ended before the program did"
    child.stdin.close()
    rest = follower.stdout.read()
    if follower.wait(PATIENCE_S) != 0:
        yield "exit status %d" % follower.returncode
    if "resets" in rest or "ERROR" in rest:
        yield "a good end looks bad: " + rest


@test
def test_trace_that_is_none_is_refused_in_one_sentence(place):
    good = place.path("good")
    place.run("story", WEFT_TRACE=good)
    with open(good, "rb") as f:
        content = f.read()

    def written(name, data):
        with open(place.path(name), "wb") as to:
            to.write(data)
        return place.path(name)

    cases = [(place.path("nothing"), "No such file"), (place.directory, "directory"),
             (written("empty", b""), "no trace of weft"),
             (written("text", b"hello" * 100), "no trace of weft"),
             (written("short", content[:20]), "no trace of weft"),
             (written("later", content[:17] + b"\2" + content[18:]), "version 2"),
             (written("zero", content[:18] + b"\0\0" + content[20:]), "no trace of weft")]
    for path, why in cases:
        result = place.ask("trace", path)
        if result.returncode != 1 or result.stdout or result.stderr.count("\n") != 1 or \
                why not in result.stderr:
            yield "%s: exit status %d: %s" % (path, result.returncode, result.stderr)
    cut = place.ask("trace", written("cut", content[:-7]))
    if cut.returncode != 0 or "within an event" not in cut.stderr or "dials" not in cut.stdout:
        yield "cut short: exit status %d: %s" % (cut.returncode, cut.stderr)
    for wrong in (["--kind", "fish", good], ["--qp", "x", good], [], [good, good], ["--what"]):
        if place.ask("trace", *wrong).returncode != 2:
            yield "%s is taken" % wrong


# --- the log -------------------------------------------------------------------------------------


@test
def test_log_is_off_unless_asked_for(place):
    for wishes in ({}, {"WEFT_LOG": "off"}, {"WEFT_LOG": ""}):
        done = place.run("story", **wishes)
        if done.returncode or done.stderr:
            yield "%s: %s" % (wishes, done.stderr)


@test
def test_log_tells_each_failure_once(place):
    lines = place.run("story", WEFT_LOG="error").stderr.splitlines()
    if len(lines) != 3:
        yield "%d lines: %s" % (len(lines), lines)
    both = r"^weft\[\d+\]: QP 010001, 127.0.0.1:\d+ to 127.0.0.1:\d+: failed: "
    for what in (both + "tag_instance: The tag is stale: .*$",
                 both + "tag_invalid: .* The peer said: DDP tagged buffer: invalid STag.$",
                 r"^weft\[\d+\]: QP 010002 to 127.0.0.1:\d+: not connected: connect_refused: "):
        if sum(1 for line in lines if re.search(what, line)) != 1:
            yield "not there once: " + what
    # The trace beside it takes nothing away.
    traced = place.run("story", WEFT_LOG="error", WEFT_TRACE=place.path("t")).stderr.splitlines()
    if len(traced) != 3:
        yield "%d lines with a trace: %s" % (len(traced), traced)


@test
def test_log_tells_good_ends_too(place):
    log = place.run("story", WEFT_LOG="info").stderr
    if log.count(": agreed: CRC, no markers, 16 Reads in, 16 out\n") != 4 or \
            log.count(": ended by this program.\n") != 1 or log.count(": ended: peer_gone: ") != 1:
        yield log


@test
def test_unknown_log_level_is_reported(place):
    lines = place.run("story", WEFT_LOG="loud").stderr.splitlines()
    if len(lines) != 4 or "WEFT_LOG=loud: " not in lines[0]:
        yield "%s" % lines


# --- counters ------------------------------------------------------------------------------------

# What the sample carries, both ways together: a ready-to-receive message, 7 lengths of Send, Write
# and Read, and twice Send, Send with invalidate, Write with immediate (two messages) and an atomic.
MESSAGES_OUT = 1 + 7 * 3 + 2 * 5
MESSAGES_IN = 7 + 2
PAYLOAD = 1 + 8 + 24 + 1000 + 1500 + 200000


def stat(place, *args):
    result = place.ask("stat", "--json", *args)
    if result.returncode or result.stderr:
        raise ValueError("exit status %d: %s" % (result.returncode, result.stderr))
    return json.loads(result.stdout)


def counter_faults(of, wanted):
    for key, value in wanted.items():
        if of[key] != value:
            yield "%s is %s, not %s" % (key, of[key], value)


@test
def test_stat_shows_counters_of_a_running_process(place):
    child = place.start("hold")
    seen = stat(place, str(child.pid))
    yield from counter_faults(seen, {"pid": child.pid, "program": "seeing_sample"})
    if len(seen["adapters"]) != 2:
        yield "adapters: %s" % seen["adapters"]
    near, far = seen["adapters"]
    yield from counter_faults(near, {"qps": 1, "cqs": 1, "pds": 1, "regions": 1, "links": 1,
                                     "listeners": 0, "accesses_refused": 0})
    yield from counter_faults(far, {"qps": 1, "windows": 2, "listeners": 1})
    (one,), (two,) = near["queue_pairs"], far["queue_pairs"]
    for of in (near, one):
        yield from counter_faults(of, {
            "messages_out": MESSAGES_OUT, "messages_in": MESSAGES_IN,
            "payload_out": 2 * PAYLOAD + 6 * 24, "payload_in": PAYLOAD})
    yield from counter_faults(one, {"state": "RTS", "link": "stream", "reason": "ok",
                                    "local": two["peer"], "peer": two["local"]})
    for way, back in (("in", "out"), ("out", "in")):
        for what in ("messages", "frames", "bytes", "payload"):
            if one["%s_%s" % (what, way)] != two["%s_%s" % (what, back)]:
                yield "%s do not agree" % what
    moved = one["calls_in"] + one["calls_out"] - one["calls_empty"]
    if not MESSAGES_OUT <= moved <= 3 * (MESSAGES_IN + MESSAGES_OUT):
        yield "%d system calls moved bytes" % moved
    # With a CRC, all that is received is copied, and the answer to the Read; the rest is small.
    for of, copied in (one, one["payload_in"]), (two, two["payload_in"] + two["payload_out"]):
        if not 0 <= of["payload_copied"] - copied < 20000:
            yield "copied: %d, not %d" % (of["payload_copied"], copied)


@test
def test_stat_in_words(place):
    child = place.start("hold")
    result = place.ask("stat", str(child.pid))
    if result.returncode or result.stderr:
        yield "exit status %d: %s" % (result.returncode, result.stderr)
    row = r"^  010000 RTS   TCP  127\.0\.0\.1:\d+ +9 +32 +\d+ +\d+ +\d+ +\d+ +\d\.\d\d +\d+\.\d  ok$"
    for what in (r"^process %d \(seeing_sample\), weft \d" % child.pid,
                 r"^adapter 1: 1 QPs, 1 CQs, 0 SRQs, 1 PDs, 1 regions, 0 windows, 1 connections, 0 ",
                 r"^  per message   \d\.\d\d system calls that moved bytes, \d+\.\d bytes copied$", row):
        if not re.search(what, result.stdout, re.M):
            yield "not there: %s in %s" % (what, result.stdout)
    listing = place.ask("stat").stdout
    if not re.search(r"^ *%d  seeing_sample +2 +2 +%d " % (
            child.pid, 2 * (MESSAGES_IN + MESSAGES_OUT)), listing, re.M):
        yield "not in the list: " + listing
    if child.pid not in [p["pid"] for p in stat(place)]:
        yield "not in the list as JSON"


@test
def test_stat_tells_why_a_queue_pair_failed(place):
    child = place.start("broken")

    def is_over():
        return all(a["links"] == 0 for a in stat(place, str(child.pid))["adapters"])

    if not until(is_over):
        yield "the connection does not end"
    near, far = stat(place, str(child.pid))["adapters"]
    (one,), (two,) = near["queue_pairs"], far["queue_pairs"]
    yield from counter_faults(one, {"state": "ERROR", "link": "ended", "reason": "tag_invalid",
                                    "said": "DDP tagged buffer: invalid STag"})
    yield from counter_faults(two, {"state": "ERROR", "reason": "tag_instance"})
    # What the ended connections carried is in the sum.
    yield from counter_faults(near, {"links": 0, "messages_in": 1, "messages_out": 2})
    yield from counter_faults(far, {"accesses_refused": 1})


@test
def test_stat_tells_of_memory_that_went(place):
    child = place.start("gone")
    seen = stat(place, str(child.pid))
    is_told = seen["memory_notices"] == "on"
    yield from counter_faults(seen, {"memory_faults": 1, "memory_unmapped": int(is_told),
                                     "memory_unwatched": 0 if is_told else seen["memory_unwatched"]})
    near = seen["adapters"][0]
    yield from counter_faults(near["queue_pairs"][0], {"state": "ERROR", "reason": "memory_gone"})
    words = place.ask("stat", str(child.pid)).stdout
    if not re.search(r"^  memory        1 accesses met missing pages, %d ranges unmapped" % is_told,
                     words, re.M):
        yield "not in words: " + words


@test
def test_stat_watches_to_the_end(place):
    child = place.start("work")
    watcher = subprocess.Popen([place.weft, "stat", "--json", "--watch", "0.1", str(child.pid)],
                               text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    place.children.append(watcher)
    seen, text = [], ""
    while len(seen) < 3:
        line = watcher.stdout.readline()
        text += line
        if line.endswith("]}]}\n"):
            seen.append(json.loads(text)["adapters"][0]["messages_out"])
            text = ""
    if not seen[0] < seen[1] < seen[2]:
        yield "messages: %s" % seen
    child.stdin.close()
    watcher.stdout.read()
    if watcher.wait(PATIENCE_S) != 1 or "shows no counters" not in watcher.stderr.read():
        yield "exit status %d" % watcher.returncode


def stat_socket(pid):
    s = socket.socket(socket.AF_UNIX)
    s.connect("\0weft/%d" % pid)
    return s


@test
def test_stat_survives_hostile_clients(place):
    """Clients that say nothing and never read, that talk, that leave: the program goes on."""
    child = place.start("work")
    before = stat(place, str(child.pid))["adapters"][0]
    if len(before["queue_pairs"]) != 2001:
        yield "%d queue pairs" % len(before["queue_pairs"])
    mute = [stat_socket(child.pid) for _ in range(12)]
    for _ in range(12):
        stat_socket(child.pid).close()
    talker = stat_socket(child.pid)
    talker.settimeout(0.1)
    try:
        talker.sendall(b"GET / HTTP/1.0\r\n" * 100000)
    except OSError:
        pass
    counts = [before["messages_out"]]
    for _ in range(2):
        counts.append(stat(place, str(child.pid))["adapters"][0]["messages_out"])
    if not counts[0] < counts[1] < counts[2]:
        yield "messages: %s" % counts
    if child.poll() is not None:
        yield "it died"
    for s in mute + [talker]:
        s.close()
    if not until(lambda: len(os.listdir("/proc/%d/fd" % child.pid)) < 20):
        yield "connections stay open"


@test
def test_stat_is_for_the_same_user_only(place):
    child = place.start("hold")
    pid = os.fork()
    if pid == 0:
        os.setuid(65534)
        s = stat_socket(child.pid)
        os._exit(0 if s.recv(1) == b"" else 1)
    if os.waitpid(pid, 0)[1] != 0:
        yield "another user is answered"
    if "adapters" not in stat(place, str(child.pid)):
        yield "no notification comes any more"


def stat_of_played(place, said, *options):
    """What `weft stat` makes of a report that this process sends: its status, output and complaint."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind("\0weft/%d" % os.getpid())
        door.listen()
        asker = subprocess.Popen([place.weft, "stat", *options, str(os.getpid())], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        place.children.append(asker)
        door.settimeout(PATIENCE_S)
        with door.accept()[0] as s:
            s.sendall(said)
        out, err = asker.communicate(timeout=PATIENCE_S)
    return asker.returncode, out, err


@test
def test_stat_of_one_that_ends_meanwhile_or_speaks_otherwise(place):
    for said, why in ((b"weft 1 pid=1\nadapter", "shows no counters"),
                      (b"weft 9\nend\n", "does not understand")):
        status, out, err = stat_of_played(place, said)
        if status != 1 or out or err.count("\n") != 1 or why not in err:
            yield "exit status %d: %s" % (status, err)


SPACE = (b"space mappings=7 has_pager=%d pins=1 pins_max=2 pinned_bytes=4096 pinned_bytes_max=8192 pinned=9 "
         b"pinned_byte_ns=2500000000 bytes_handed=3 faults=5 page_waits=6 brought=4\n")
PAGED = (b"weft 1 pid=1\nadapter number=1\nroce packets_in=1 dropped=2 kept_bytes=4096 kept_bytes_max=65536 "
         b"kept_byte_ns=1500000000\ndrop reason=ib_icrc packets=2\n" + SPACE % 1 + SPACE % 0 +
         b"qp number=010000 resent=0\nadapter number=2\nend\n")


@test
def test_send_s4_stat_shows_pins_faults_and_what_would_be_kept(place):
    text = stat_of_played(place, PAGED)[1]
    for line in (r"^ +not acknowledged 4096 bytes, at most 65536; 1\.500000 byte-seconds$",
                 r"^  dropped       2 packets: 2 for ib_icrc$",
                 r"^  space         7 mappings; pinned 4096 bytes in 1 pieces, at most 8192 in 2; 9 pieces so far, "
                 r"2\.500000 byte-seconds$",
                 r"^ +copied out 3 bytes; 5 faults, 4 pages brought back; 6 waits for pages of the process$",
                 r"^ +copied out 3 bytes; 5 faults, 4 pages brought back; there is no pager; "
                 r"6 waits for pages of the process$"):
        if not re.search(line, text, re.M):
            yield "not there: %s in %s" % (line, text)
    paged, bare = json.loads(stat_of_played(place, PAGED, "--json")[1])["adapters"]
    if [s["has_pager"] for s in paged["spaces"]] != [1, 0] or bare["spaces"] or \
            paged["spaces"][0]["pinned_byte_ns"] != 2500000000 or paged["roce"]["kept_bytes_max"] != 65536 or \
            paged["roce"]["drops"] != {"ib_icrc": 2} or len(paged["queue_pairs"]) != 1:
        yield "%s" % [paged, bare]


@test
def test_stat_of_an_earlier_version_leaves_out_what_it_does_not_tell(place):
    status, text, err = stat_of_played(place, b"weft 1 pid=1\nadapter number=1\nroce packets_in=1 dropped=0\nend\n")
    if status or err or "not acknowledged" in text or "space" in text:
        yield "exit status %d: %s%s" % (status, text, err)


@test
def test_stat_of_those_that_do_not_answer(place):
    off = place.start("hold", WEFT_STAT="off")
    stopped = place.start("hold")
    os.kill(stopped.pid, signal.SIGSTOP)
    for child, why in ((off, "shows no counters"), (stopped, "does not answer")):
        result = place.ask("stat", str(child.pid))
        if result.returncode != 1 or result.stdout or result.stderr.count("\n") != 1 or \
                why not in result.stderr:
            yield "exit status %d: %s" % (result.returncode, result.stderr)
    listed = place.ask("stat").stdout
    if not re.search(r"^ *%d  \(does not answer\)$" % stopped.pid, listed, re.M) or \
            re.search(r"^ *%d " % off.pid, listed, re.M):
        yield "listed: " + listed
    for wrong in (["x"], ["--watch"], ["--watch", "0"], ["1", "2"], ["1x"], ["--what"]):
        if place.ask("stat", *wrong).returncode != 2:
            yield "%s is taken" % wrong


# --- all -----------------------------------------------------------------------------------------


def judge(name, function, sample, weft):
    with tempfile.TemporaryDirectory() as directory:
        place = Place(directory, sample, weft)
        try:
            faults = list(function(place))
        except (ValueError, OSError, subprocess.TimeoutExpired) as error:
            faults = [str(error)]
        finally:
            place.end()
    return tshark.report(name, faults)


AS_ROOT = ["test_stat_is_for_the_same_user_only"]


def run(tests, sample, weft, *names):
    """All, or whose name contains one of the names; the exit status."""
    status = 0
    for name, function in tests.items():
        if names and not any(n in name for n in names):
            continue
        if name.startswith("test_capture_") and not shutil.which("tshark"):
            print("skip %s: tshark is not installed" % name)
        elif name in AS_ROOT and os.geteuid() != 0:
            print("skip %s: only root can be another user too" % name)
        elif not judge(name, function, sample, weft):
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(run(TESTS, *sys.argv[1:]))
