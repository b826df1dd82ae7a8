#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""kill_test.py WEFT WRITER [COUNT [SEED]]: kill -9 of the target, of its client, or of both, in the middle of writes.

The disk has a cache that is lost with the process. What was acknowledged with FUA, or before a flush that was
acknowledged, is there afterwards; a client that is not killed goes on with the target that has begun again; nothing
of a client that was killed is left in the target, and nothing of a lost connection in the client. Clients are
qemu-io, and WRITER (writer_sample.c) by TCP and by iSER on both wires. SEED draws who is killed, when, and what is
written.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`.
"""
import os
import random
import select
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from script import expect, expect_equal, go_to_own_network, main, need, run  # noqa: E402
from target import PATIENCE_S, Target  # noqa: E402
from tgt import free_port  # noqa: E402

WRITER = os.path.realpath(sys.argv[2])
COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 60
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 21
# Each kind of test has a part of COUNT, and no fewer than show what gathers.
PART = max(COUNT // 3, 1)
SLOTS, SLOT = 64, 4096
MIB = 1 << 20
# What a process may have more than at its first rests: wires of RDMA keep sockets for a little while.
RESTS, DESCRIPTORS_MORE, MEMORY_MORE = 2, 4, 24 * MIB


class Model:
    """What each slot may hold, oldest first: after a loss of power (may), and as it is read now (now)."""

    def __init__(self):
        self.may = [[0] for _ in range(SLOTS)]
        self.now = [[0] for _ in range(SLOTS)]
        self.cached, self.covered = {}, {}
        self.asked, self.doubtful = set(), set()
        self.made_durable = 0

    def ask(self, slot, value):
        self.may[slot].append(value)
        self.now[slot].append(value)
        self.cached.pop(slot, None)
        self.doubtful.discard(slot)
        self.asked.add(slot)

    def acknowledge(self, slot, value, is_fua):
        self.now[slot] = [value]
        self.asked.discard(slot)
        if is_fua:
            self.durable(slot, value)
        elif slot not in self.doubtful:
            self.cached[slot] = value

    def durable(self, slot, value):
        """That value, or one that was asked for later."""
        values = self.may[slot]
        self.may[slot] = values[len(values) - 1 - values[::-1].index(value):]
        self.made_durable += 1

    def flush_begins(self):
        self.covered = dict(self.cached)

    def flush_ended(self):
        for slot, value in self.covered.items():
            self.durable(slot, value)
            if self.cached.get(slot) == value:
                del self.cached[slot]

    def flush_tells_of_loss(self):
        """Of any write that no flush covered, also of those whose end is told later."""
        self.cached, self.doubtful = {}, set(self.asked)

    def power_lost(self):
        self.now = [list(values) for values in self.may]
        self.cached, self.asked, self.doubtful = {}, set(), set()

    def take(self, line):
        """A line of writer_sample.c."""
        word, *numbers = line.split()
        if word == "S":
            self.ask(*map(int, numbers))
        elif word in ("A", "W"):
            self.acknowledge(*map(int, numbers), word == "A")
        elif word == "B":
            self.flush_begins()
        elif word == "D":
            self.flush_ended()
        elif word == "L":
            self.flush_tells_of_loss()

    def check(self, data, is_anew):
        """is_anew: nothing is in the cache of the target."""
        wrong = []
        for slot in range(SLOTS):
            values = set(data[slot * SLOT:(slot + 1) * SLOT])
            if not values <= set(self.now[slot]):
                wrong.append("slot %d has %s, not one of %s" % (slot, sorted(values)[:4], self.now[slot]))
            if len(values) == 1:
                self.now[slot] = list(values)
                if is_anew:
                    self.may[slot] = list(values)
        expect("; ".join(wrong[:4]), not wrong)


# --- Clients -----------------------------------------------------------------------------------


class Qemu:
    """A qemu-io that is told what to do, one thing at a time."""

    can_go_on = False

    def __init__(self, url, rng, model):
        self.rng, self.model, self.trouble = rng, model, ""
        self.process = subprocess.Popen(["qemu-io", "-f", "raw", "-t", "writeback", url],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        expect("qemu-io begins", self.ask("read 0 512", b"read 512/512", time.monotonic() + PATIENCE_S))

    def ask(self, command, word, until):
        """True: it acknowledged before then."""
        said = b""
        try:
            os.write(self.process.stdin.fileno(), command.encode() + b"\n")
        except BrokenPipeError:
            return False
        while word not in said:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return False
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece or b"rror" in piece or b"ailed" in piece:
                self.trouble = piece.decode(errors="replace")
                return False
            said += piece
        return True

    def write_until(self, until):
        while time.monotonic() < until:
            slot, value = self.rng.randrange(SLOTS), self.rng.randrange(1, 256)
            kind = self.rng.choice(["fua", "fua", "cached", "flush"])
            if kind == "flush":
                self.model.flush_begins()
                # A read behind it answers once the flush has.
                if not (self.ask("flush", b"qemu-io>", until) and
                        self.ask("read 0 512", b"read 512/512", until)):
                    return
                self.model.flush_ended()
                continue
            self.model.ask(slot, value)
            if not self.ask("write %s-P %d %d %d" % ("-f " if kind == "fua" else "", value, slot * SLOT, SLOT),
                            b"wrote ", until):
                return
            self.model.acknowledge(slot, value, kind == "fua")

    def kill(self):
        self.process.kill()
        self.process.stdout.close()
        self.process.stdin.close()
        self.process.wait()


class Writer:
    """writer_sample.c, which writes and flushes by itself, several at a time."""

    can_go_on = True

    def __init__(self, url, rng, model):
        self.model, self.acknowledged = model, 0
        self.heard, self.has_ended, self.last = threading.Condition(), False, ""
        self.process = subprocess.Popen([WRITER, url, str(rng.randrange(1 << 32))], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.acknowledge_more()

    def read(self):
        for line in self.process.stdout:
            with self.heard:
                self.model.take(line)
                self.last = line
                self.acknowledged += line[0] in "AW"
                self.heard.notify_all()
        with self.heard:
            self.has_ended = True
            self.heard.notify_all()

    def acknowledge_more(self):
        with self.heard:
            before = self.acknowledged
            self.heard.wait_for(lambda: self.acknowledged >= before + 16 or self.has_ended, PATIENCE_S)
            is_more = self.acknowledged >= before + 16
        if not is_more:
            self.process.kill()
            raise AssertionError("the writer does not go on: " + self.process.stderr.read())

    def write_until(self, until):
        time.sleep(max(0, until - time.monotonic()))  # it is the moment that was drawn

    def kill(self):
        self.process.kill()
        self.end()

    def stop(self):
        """In order, and it must be well."""
        self.process.stdin.close()
        expect_equal("status of the writer", (self.process.wait(PATIENCE_S), self.process.stderr.read()), (0, ""))
        self.end()
        expect_equal("its last line", self.last, "end\n")

    def end(self):
        self.process.wait(PATIENCE_S)
        self.reader.join(PATIENCE_S)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()


CLIENTS = {
    "qemu-io": lambda target, *more: Qemu(target.url(), *more),
    "tcp": lambda target, *more: Writer(target.url(), *more),
    "roce": lambda target, *more: Writer(target.iser_url("RoCE"), *more),
    "iwarp": lambda target, *more: Writer(target.iser_url("iWARP"), *more),
}


# --- What is left ------------------------------------------------------------------------------


def holds(pid):
    """Descriptors, mapped memory files, and bytes of memory of a process."""
    folder = "/proc/%d/" % pid
    with open(folder + "maps") as f:
        files = sum("memfd:" in line for line in f)
    with open(folder + "statm") as f:
        resident = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return len(os.listdir(folder + "fd")), files, resident


def kinds(pid):
    """Of its descriptors, how many of each."""
    folder, found = "/proc/%d/fd/" % pid, {}
    for number in os.listdir(folder):
        try:
            kind = os.readlink(folder + number).split("[")[0].split(" ")[0]
        except FileNotFoundError:
            continue
        found[kind] = found.get(kind, 0) + 1
    return ", ".join("%d of %s" % (count, kind) for kind, count in sorted(found.items()))


class Rests:
    """What a process held each time that it was looked at. It must not become more."""

    def __init__(self):
        self.seen = []

    def look(self, pid):
        """Waits for what is given back a little later: sockets of RDMA wires, rings of a process that was killed."""
        until = time.monotonic() + PATIENCE_S
        while True:
            now = holds(pid)
            before = [max(column) for column in zip(*self.seen[:RESTS])] or now
            more = [(what, had, has) for what, had, has, more in zip(("descriptors", "memory files", "bytes"), before,
                                                                     now, (DESCRIPTORS_MORE, 0, MEMORY_MORE))
                    if has > had + more]
            if not more or len(self.seen) < RESTS:
                self.seen.append(now)
                return
            expect("%s: %d, then %d after %d looks; open: %s" % (*more[0], len(self.seen), kinds(pid)),
                   time.monotonic() < until)
            time.sleep(0.02)


def rest(target):
    """Its connections have ended: no event tells, so it is asked again."""
    until = time.monotonic() + PATIENCE_S
    while True:
        status = target.status()
        left = {key: status[key] for key in ("sessions", "connections", "tasks", "memory_used") if status[key]}
        if not left:
            return
        expect("left behind: %s" % left, time.monotonic() < until)
        time.sleep(0.02)


# --- Tests -------------------------------------------------------------------------------------


def content(target):
    path = os.path.join(target.folder, "read")
    done = run("qemu-img", "dd", "-f", "raw", "-O", "raw", "if=" + target.url(), "of=" + path,
               "bs=%d" % SLOT, "count=%d" % SLOTS)
    expect("it can be read: %s" % done.stderr, done.returncode == 0)
    with open(path, "rb") as f:
        return f.read()


def kill_once(target, client, victim, model):
    """victim: target, client or both. True: what the target has now is durable."""
    if victim == "client":
        client.kill()
        expect("the target lives", target.process.poll() is None)
        return False
    target.kill()
    is_end = victim == "both" or not client.can_go_on
    if is_end:
        client.kill()
    target.start()
    if not is_end:
        client.acknowledge_more()
        client.stop()
    model.power_lost()
    return is_end


def disk_target(folder):
    """Its disk loses its cache with it, and its ports are the same when it begins again."""
    os.makedirs(folder, exist_ok=True)
    return Target(folder, "volatile:room=1M(file:%s,size=1M)" % os.path.join(folder, "disk"),
                  lines="iser roce 127.0.0.1:%d\niser iwarp 127.0.0.1:%d\nalive 2s\n" % (free_port(), free_port()))


def kill_many(folder, victims):
    need("qemu-io", "qemu-img")
    rng, model, rests = random.Random(SEED), Model(), Rests()
    with disk_target(folder) as target:
        for number in range(PART):
            who, victim = rng.choice(sorted(CLIENTS)), rng.choice(victims)
            try:
                client = CLIENTS[who](target, rng, model)
                client.write_until(time.monotonic() + rng.uniform(0.02, 0.3))
                is_anew = kill_once(target, client, victim, model)
                if victim != "client":
                    rests = Rests()
                # What the client asked for last may be done until then.
                rest(target)
                model.check(content(target), is_anew)
                rest(target)
                rests.look(target.process.pid)
            except AssertionError as why:
                raise AssertionError("seed %d, kill %d (%s, %s): %s %s" % (
                    SEED, number, victim, who, why, getattr(client, "trouble", ""))) from why
    print("# seed %d: %d kills, %d writes made durable" % (SEED, PART, model.made_durable))
    expect("some writes were made durable", model.made_durable > PART)


def test_iscsi_kill_9_keeps_what_was_acknowledged(folder):
    kill_many(folder, ["target", "client", "both"])


def test_iscsi_kill_9_of_clients_leaves_nothing_in_the_target(folder):
    kill_many(folder, ["client"])


def test_iscsi_kill_9_of_the_target_leaves_nothing_in_its_client(folder):
    """The same client goes on again and again."""
    need("qemu-img")
    for who in "tcp", "roce", "iwarp":
        rng, model, rests = random.Random(SEED), Model(), Rests()
        with disk_target(os.path.join(folder, who)) as target:
            client = CLIENTS[who](target, rng, model)
            try:
                for number in range(max(PART // 3, 1)):
                    client.write_until(time.monotonic() + rng.uniform(0.02, 0.3))
                    target.kill()
                    target.start()
                    client.acknowledge_more()
                    rests.look(client.process.pid)
                client.stop()
                model.power_lost()
                model.check(content(target), False)
                rest(target)
            except AssertionError as why:
                raise AssertionError("seed %d, %s, kill %d: %s" % (SEED, who, number, why)) from why
            finally:
                client.process.kill()
        expect("some writes were made durable", model.made_durable > PART // 3)


# Elsewhere other programs of this host connect to the RoCE of the target: descriptors of theirs come and go.
go_to_own_network()
main(globals())
