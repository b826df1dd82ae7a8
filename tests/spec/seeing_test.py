#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""seeing_test.py SAMPLE WEFT: what does a person see of a running program?

SAMPLE (seeing_sample.c) is watched from outside: by Wireshark's dissectors and by the weft command.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import capture_tshark_test as shark  # noqa: E402

TESTS = {}
PATIENCE_S = 20
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
            child.communicate()


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
    return {shark.number(v) for f in frames for v in f.fields.get("iwarp_rdma.opcode", [])}


def capture_faults(path, directory, wanted_opcodes, streams):
    """Is everything dissected, in as many streams, with good CRCs?"""
    frames = shark.dissect(path, directory)
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
    yield from capture_faults(path, place.directory, EVERY_OPCODE, 2)
    frames = shark.dissect(path, place.directory)
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
    yield from capture_faults(path, place.directory, EVERY_OPCODE, 2)


def killed_capture_faults(place, mode):
    path = place.path("it.pcapng")
    child = place.start(mode, WEFT_PCAP=path)

    def is_written():
        frames = shark.dissect(path, place.directory)
        return frames and "iwarp_rdma.opcode" in frames[-1].fields

    began = time.monotonic()
    if not until(is_written) or time.monotonic() - began > 5:
        yield "it was not written out in time"
    child.kill()
    child.wait()
    yield from capture_faults(path, place.directory, NOT_TERMINATE, 1)


@test
def test_capture_of_a_killed_process_that_slept(place):
    yield from killed_capture_faults(place, "hold")


@test
def test_capture_of_a_killed_process_that_polled(place):
    yield from killed_capture_faults(place, "spin")


@test
def test_capture_that_cannot_be_made_is_told_once(place):
    done = place.run("story", WEFT_PCAP=place.path("no/such/file"))
    if done.returncode != 0:
        yield "exit status %d: %s" % (done.returncode, done.stderr)
    if done.stderr.count("WEFT_PCAP=") != 1 or "No such file or directory" not in done.stderr:
        yield "it says: " + done.stderr


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
    for fault in faults[1:20]:
        print("%s: %s" % (name, fault))
    if faults:
        print("not ok %s: %s (%d faults)" % (name, faults[0].replace("\n", " "), len(faults)))
    else:
        print("ok " + name)
    return not faults


def main(sample, weft, *names):
    status = 0
    for name, function in TESTS.items():
        if names and not any(n in name for n in names):
            continue
        if name.startswith("test_capture_") and not shutil.which("tshark"):
            print("skip %s: tshark is not installed" % name)
        elif not judge(name, function, sample, weft):
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
