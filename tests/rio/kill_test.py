#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""kill_test.py WEFT WRITER [--kills N] [--seed N | --draw] [NAME...]: acknowledged writes survive kill -9 of every role.

An I/O unit with a device, an owner and a writer (writer_sample.c) run as processes. At random points one
of them, or several, are killed and started again, or stopped for longer than requests may take; and another
writer takes over from one that was killed. Each time, when blocks are written again, the writer is told
to stop, and every block is looked at, in the file and through the device: each of its sectors must be one
of those that it may have.

- A write that was acknowledged replaces what was there. One that failed, or whose writer was killed, may be
  there or not, until another one is acknowledged: then it never is.
- What was seen stays until the block is written again.
- Where the death of the I/O unit is a loss of power (`volatile`) each sector has a value since the last durable
  one: written with FUA, or before a flush that was acknowledged, with none that failed in between.

Nothing may hang, and no process may gather descriptors or memory.

Prints `ok NAME` or `not ok NAME: why`, a line for each test. The seed of what failed is in the line:
--seed runs it again, as far as time lets it be the same. Without it the seeds are those listed below,
by which the kills are divided, or with --draw a random one.
"""
import argparse
import os
import queue
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE_S = 30
SECTOR, BLOCK_SECTORS, SLOTS = 512, 16, 48
BLOCK = SECTOR * BLOCK_SECTORS
SPARE = 4 << 20  # of a file: mirrors keep something of their own there
HEADER = re.compile(rb"weft (\d+) (\d+) (\d+) ")
# What a process may have more than when it was seen at rest for the third time.
RESTS, DESCRIPTORS_MORE, KIB_MORE, STACK_KIB = 3, 4, 24 * 1024, 8 * 1024


class Failure(Exception):
    pass


# ---- Blocks ------------------------------------------------------------------------------------

def sector(slot, nth, version):
    """As writer_sample.c makes it."""
    made = b"weft %d %d %d " % (slot, nth, version)
    seed = ((slot * 2654435761) ^ ((version & 0xffffffff) * 40503) ^ nth) & 0xffffffff
    more = bytearray()
    for _ in range(SECTOR - len(made)):
        seed = (seed * 1103515245 + 12345) & 0xffffffff
        more.append((seed >> 16) & 0xff)
    return made + bytes(more)


class Blocks:
    """What the writers have said of every block, and what its sectors may be by that."""

    def __init__(self):
        self.lock = threading.Lock()
        self.durable = {}  # slot: version
        self.since = {slot: {0} for slot in range(SLOTS)}  # the durable version and all later ones
        # What each sector may be now; versions of a block are asked for one after the other.
        self.may = {slot: [{0} for _ in range(BLOCK_SECTORS)] for slot in range(SLOTS)}
        self.last = 0
        self.acknowledged = self.failed = 0
        self.known = {}  # sector bytes that were found right: (slot, nth, version)

    def take(self, word, slot, version):
        with self.lock:
            if word == "S":
                self.since[slot].add(version)
                for may in self.may[slot]:
                    may.add(version)
                self.last = max(self.last, version)
            elif word == "W":
                self.replace(slot, version)
            elif word == "A":
                self.acknowledged += 1
                if version > self.durable.get(slot, 0):
                    self.durable[slot] = version
                    self.since[slot] = {v for v in self.since[slot] if v >= version}
                self.replace(slot, version)
            elif word == "F":
                self.failed += 1

    def replace(self, slot, version):
        self.may[slot] = [{v for v in may if v >= version} for may in self.may[slot]]

    def power_lost(self):
        for slot in range(SLOTS):
            self.may[slot] = [set(self.since[slot]) for _ in range(BLOCK_SECTORS)]

    def version_of(self, slot, nth, data):
        if data == bytes(SECTOR):
            return 0
        header = HEADER.match(data)
        if not header:
            raise Failure("block %d sector %d is no sector: %r" % (slot, nth, data[:32]))
        said = tuple(int(x) for x in header.groups())
        if self.known.get((slot, nth)) == data:
            return said[2]
        if said[:2] != (slot, nth) or data != sector(*said):
            raise Failure("block %d sector %d holds another, or a damaged one: %r"
                          % (slot, nth, data[:32]))
        self.known[(slot, nth)] = data
        return said[2]

    def check(self, data, where, is_cached=False):
        """
        True of bytes that were read while nothing was written; then they stay. What lies below a cache
        may be any of those since the durable one.
        """
        if len(data) != SLOTS * BLOCK:
            raise Failure("%s: %d bytes" % (where, len(data)))
        for slot in range(SLOTS):
            for nth in range(BLOCK_SECTORS):
                at = slot * BLOCK + nth * SECTOR
                version = self.version_of(slot, nth, data[at:at + SECTOR])
                may = self.since[slot] if is_cached else self.may[slot][nth]
                if version not in may:
                    raise Failure("%s: block %d sector %d has version %d; durable %d, may be %s"
                                  % (where, slot, nth, version, self.durable.get(slot, 0), sorted(may)))
                if not is_cached:
                    self.may[slot][nth] = {version}


# ---- Processes ---------------------------------------------------------------------------------

class Role:
    def __init__(self, cluster, name, words):
        self.cluster, self.name, self.words = cluster, name, words
        self.process, self.rest, self.rests = None, None, 0
        self.lives = 0

    def start(self):
        log = open(os.path.join(self.cluster.folder, self.name + ".log"), "ab")
        self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        self.rest, self.rests = None, 0
        self.lives += 1

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def hang(self, seconds):
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def alive(self):
        if self.process.poll() is not None:
            with open(os.path.join(self.cluster.folder, self.name + ".log"), "rb") as f:
                said = f.read().decode(errors="replace").strip().splitlines()[-3:]
            raise Failure("%s ended by itself, status %d: %s"
                          % (self.name, self.process.returncode, " / ".join(said)))

    def holds(self):
        """
        Descriptors, and memory in KiB: what it has asked the system for, without stacks, as a file's
        threads begin when they are needed. What it has touched of that grows for long, as slots are
        used in turn.
        """
        pid = self.process.pid
        with open("/proc/%d/status" % pid) as f:
            status = dict(line.split(":", 1) for line in f)
        kib = int(status["VmData"].split()[0]) - int(status["Threads"]) * STACK_KIB
        return len(os.listdir("/proc/%d/fd" % pid)), kib

    def look_at_rest(self):
        now = self.holds()
        self.rests += 1
        if self.rests <= RESTS:
            self.rest = now
        if now[0] > self.rest[0] + DESCRIPTORS_MORE or now[1] > self.rest[1] + KIB_MORE:
            raise Failure("%s holds %d descriptors and %d KiB, and held %d and %d"
                          % ((self.name,) + now + self.rest))


class Writer(Role):
    who = "writer"  # or "heir", who takes over from it, and so on

    def take_over(self):
        """Of one that was killed: once the owner knows that (docs/rio.md, rule 10)."""
        self.cluster.wait_until_gone(self.who)
        self.who = "heir" if self.who == "writer" else "writer"

    def start(self):
        words = self.words + [str(SLOTS), str(self.cluster.dice.randrange(1 << 32)),
                              str(self.cluster.blocks.last + 1)]
        words[1] = self.cluster.path(self.who + ".conf")
        err = open(os.path.join(self.cluster.folder, "writer.log"), "ab")
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err,
                                        bufsize=0)
        err.close()
        self.idle = queue.Queue()
        self.fatal = None
        self.reader = threading.Thread(target=self.read, args=(self.process,), daemon=True)
        self.reader.start()
        self.rest, self.rests = None, 0
        self.lives += 1

    def read(self, process):
        for line in process.stdout:
            if not line.endswith(b"\n"):
                return  # it was killed as it spoke
            words = line.decode().split()
            if words[0] == "idle":
                self.idle.put(True)
            elif words[0] == "fatal":
                self.fatal = line.decode()
            else:
                self.cluster.blocks.take(words[0], int(words[1]), int(words[2]))

    def kill(self):
        super().kill()
        self.reader.join()  # it has said everything
        self.process.stdin.close()
        self.process.stdout.close()

    def tell(self, word):
        self.process.stdin.write(word + b"\n")

    def stop(self):
        self.tell(b"stop")
        try:
            self.idle.get(timeout=PATIENCE_S)
        except queue.Empty:
            raise Failure("the writer hangs%s" % (": " + self.fatal if self.fatal else ""))


def free_port():
    """Below those that the system gives to connections, so that it is free again later."""
    while True:
        port = random.randrange(15000, 30000)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


class Device:
    """
    A device's line, in which FILE and OTHER are files; how long requests may take; whether the file has
    what the device has, or what it will have, or something else.
    """

    def __init__(self, line, timeout_ms=30000, file="same"):
        self.line, self.timeout_ms, self.file = line, timeout_ms, file
        self.is_volatile = "volatile" in line


class Cluster:
    def __init__(self, options, device, dice):
        weft = self.weft = options.weft
        self.dice, self.device, self.blocks = dice, device, Blocks()
        self.folder = tempfile.mkdtemp(prefix="weft-kill-")
        self.file = os.path.join(self.folder, "disk")
        line = device.line
        for name in ("FILE", "OTHER"):
            line = line.replace(name, "%s,size=%d" % (self.file if name == "FILE" else self.path("other"),
                                                     SLOTS * BLOCK + SPARE))
        self.configure(line)
        self.iou = Role(self, "iou", [weft, "iou", self.path("iou.conf")])
        self.own = Role(self, "own", [weft, "own", self.path("own.conf")])
        self.writer = Writer(self, "writer", [options.writer, ""])
        self.roles = [self.iou, self.own, self.writer]

    def path(self, name):
        return os.path.join(self.folder, name)

    def key(self, name):
        return subprocess.run([self.weft, "key", "new", self.path(name + ".key")], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.strip()

    def put(self, name, text):
        with open(self.path(name + ".conf"), "w") as f:
            f.write(text)
        os.chmod(self.path(name + ".conf"), 0o600)

    def configure(self, line):
        requesters = {"writer": 7, "reader": 8, "heir": 9}
        keys = {name: self.key(name) for name in ["own", "iou"] + list(requesters)}
        own_at, iou_at = ("127.0.0.1:%d" % free_port() for _ in range(2))
        timeout = "timeout %dms\n" % self.device.timeout_ms
        self.put("own", "role owner\nself 1.1\nkey own.key\nlisten %s\nlog decisions.log\n"
                        "iounit disks 2.1 %s %s\n%s%swatch reader\nallow reader read disks/disk\n"
                        "allow writer read,write,flush disks/disk\n"
                        "allow heir read,write,flush disks/disk\n"
                 % (own_at, keys["iou"], iou_at, timeout,
                    "".join("requester %s %d.1 %s\n" % (name, unit, keys[name])
                            for name, unit in requesters.items())))
        self.put("iou", "role iounit\nself 2.1\nkey iou.key\nlisten %s\nowner boss 1.1 %s\n%s"
                        "device 1 disk %s\n" % (iou_at, keys["own"], timeout, line))
        for name, unit in requesters.items():
            self.put(name, "role requester\nself %d.1\nkey %s.key\nlisten 127.0.0.1:0\n%s"
                           "owner boss 1.1 %s %s\n"
                     % (unit, name, "" if name == "reader" else timeout, keys["own"], own_at))

    def start(self):
        for role in self.roles:
            role.start()

    def end(self):
        for role in self.roles:
            if role.process and role.process.poll() is None:
                role.kill()

    def alive(self):
        for role in self.roles:
            role.alive()

    def wait_for_progress(self):
        """Until blocks are acknowledged that were asked for from now on."""
        first, wanted = self.blocks.last + 1, 8
        until = time.monotonic() + PATIENCE_S
        while sum(v >= first for v in list(self.blocks.durable.values())) < wanted:
            self.alive()
            if time.monotonic() > until:
                raise Failure("nothing is written any more%s"
                              % (": " + self.writer.fatal if self.writer.fatal else ""))
            time.sleep(0.002)

    def wait_until_gone(self, name):
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            seen = subprocess.run([self.weft, "cluster", self.path("reader.conf"), "--once"], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE_S)
            if re.search(r"^%s +\S+ +not connected" % name, seen.stdout, re.M):
                return
        raise Failure("the owner does not notice that %s is gone: %s" % (name, seen.stderr.strip()))

    def look_at_file(self):
        if self.device.file == "other":
            return
        with open(self.file, "rb") as f:
            self.blocks.check(f.read(SLOTS * BLOCK), "in the file", self.device.file == "cached")

    def look_through_device(self):
        read = subprocess.run([self.weft, "io", self.path("reader.conf"), "read", "disk", "--quiet",
                               "--length", str(SLOTS * BLOCK)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE_S)
        if read.returncode != 0:
            raise Failure("cannot be read: " + read.stderr.decode().strip())
        self.blocks.check(read.stdout, "through the device")

    def look(self):
        self.writer.stop()
        self.look_at_file()
        self.look_through_device()
        self.look_through_device()  # a mirror reads from another member now
        for role in self.roles:
            role.look_at_rest()
        self.writer.tell(b"go")


# ---- Tests -------------------------------------------------------------------------------------

def kill_one_round(c, victims):
    time.sleep(c.dice.random() ** 2 * 0.15)
    if c.dice.random() < 0.2:
        # Longer than requests may take, if that is not long.
        c.dice.choice((c.iou, c.own)).hang(min(c.device.timeout_ms / 1000, 0.5) * c.dice.uniform(0.5, 2))
    for role in victims:
        role.kill()
        if role is c.iou and c.device.is_volatile:
            c.blocks.power_lost()
        if role is c.writer:
            continue
        if c.dice.random() < 0.3:
            time.sleep(c.dice.random() * 0.05)
    if c.writer in victims and c.own not in victims and c.dice.random() < 0.5:
        c.writer.take_over()
    for role in victims:
        role.start()
    c.wait_for_progress()
    c.look()


def victims_of(c):
    """One of them mostly; now and then two, or all, in any order."""
    count = c.dice.choices((1, 2, 3), (8, 2, 1))[0]
    return c.dice.sample(c.roles, count)


def run_kills(options, device, kills, choose, dice):
    c = Cluster(options, device, dice)
    done = 0
    try:
        c.start()
        c.wait_for_progress()
        c.look()
        while done < kills:
            victims = choose(c)
            done += len(victims)
            kill_one_round(c, victims)
        print("# %d kills, %d blocks acknowledged, %d not; lives: %s; %s, timeout %d ms"
              % (done, c.blocks.acknowledged, c.blocks.failed,
                 ", ".join("%s %d" % (r.name, r.lives) for r in c.roles), device.line,
                 device.timeout_ms), flush=True)
    except (Failure, subprocess.SubprocessError) as e:
        raise Failure("%s, timeout %d ms, after %d kills, files in %s: %s"
                      % (device.line, device.timeout_ms, done, c.folder, e))
    finally:
        c.end()
    shutil.rmtree(c.folder)


def only(name):
    return lambda c: [getattr(c, name)]


# Of a slow one more is under way when it is killed; timeouts are such that some strike.
DRAWN = [
    ("file:FILE", "same"),
    ("delay:40ms(file:FILE,threads)", "same"),
    ("delay:70ms(file:FILE)", "same"),
    ("stripe:64k(file:FILE,file:OTHER)", "other"),
    ("mirror(file:FILE,file:OTHER)", "other"),
    ("mirror(delay:40ms(file:FILE),file:OTHER)", "other"),
    ("mirror(file:FILE,fault:error=0.002(file:OTHER))", "other"),
    ("volatile(file:FILE)", "cached"),
    ("delay:30ms(volatile:keep=0.5(file:FILE))", "cached"),
    ("mirror(volatile:keep=0.5(file:FILE),volatile:keep=0.5,seed=2(file:OTHER))", "other"),
]


def run_drawn(options, device, kills, choose, dice):
    """A new cluster for every few kills, each with a device and a timeout of its own."""
    while kills > 0:
        line, file = dice.choice(DRAWN)
        device = Device(line, dice.choice((90, 150, 300, 30000)), file)
        share = min(kills, KILLS_DRAWN)
        run_kills(options, device, share, choose, random.Random(dice.random()))
        kills -= share


# What is killed, and what the device is: one that is slow has more under way when it is.
TESTS = {
    "test_rio_kill_any_role_of_a_file": (run_kills, Device("file:FILE"), 6, victims_of),
    "test_rio_kill_any_role_of_a_slow_file":
        (run_kills, Device("delay:80ms(file:FILE,threads)"), 6, victims_of),
    "test_rio_kill_owner_alone": (run_kills, Device("delay:150ms(file:FILE)"), 3, only("own")),
    "test_rio_kill_iounit_alone": (run_kills, Device("file:FILE,direct"), 3, only("iou")),
    "test_rio_kill_requester_alone": (run_kills, Device("delay:150ms(file:FILE)"), 4, only("writer")),
    "test_rio_kill_any_role_of_a_device_as_drawn": (run_drawn, None, 10, victims_of),
}
KILLS, KILLS_DRAWN = 32, 5
SEEDS = (1, 2)
DRAWN_SEEDS = (3, 7, 9, 29, 38)  # stripes, a slow mirror, a cache, a slow one, a mirror with faults


def run_test(name, options, only_seed):
    run, device, share, choose = TESTS[name]
    seeds = (DRAWN_SEEDS if run is run_drawn else SEEDS) if only_seed is None else (only_seed,)
    kills = max(len(seeds), options.kills * share // KILLS)
    for i, seed in enumerate(seeds):
        try:
            run(options, device, kills * (i + 1) // len(seeds) - kills * i // len(seeds), choose,
                random.Random(seed))
        except (Failure, subprocess.SubprocessError) as e:
            raise Failure("seed %d: %s" % (seed, e))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weft")
    parser.add_argument("writer")
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    options.weft, options.writer = os.path.realpath(options.weft), os.path.realpath(options.writer)
    seed = random.randrange(1 << 32) if options.draw else options.seed
    print("# seeds", *(SEEDS + DRAWN_SEEDS if seed is None else [seed]), flush=True)
    has_failed = False
    for name in TESTS:
        if options.names and not any(n in name for n in options.names):
            continue
        try:
            run_test(name, options, seed)
            print("ok " + name, flush=True)
        except Failure as e:
            has_failed = True
            print("not ok %s: %s" % (name, e), flush=True)
    sys.exit(1 if has_failed else 0)


main()
