# SPDX-License-Identifier: BSD-2-Clause
"""Runs programs of others, unmodified, on the drop-in libraries, and judges what they say.

A case is a server and its clients. The server is waited for until it listens at its port (or has
printed a line), the clients run one after the other or all at once, every output is kept, and
whatever does not end by itself is ended by its process id. A case may ask for a network of its own.
"""
import dataclasses
import errno
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import network
import sanitizers

LOOK_EVERY_S = 0.01
WAIT_S = 0.5
END_S = 5
TIMES_MOST = 10  # as long as planned, whatever kept the machine busy
TAIL = 12
# perftest times its processor's clock first, and ends where other work disturbed that: it says so, and
# has said nothing about us. It is asked again.
CLOCK_UNKNOWN = r"Correlation coefficient r\^2: .* < "
CLOCK_TRIES = 5
PERFTEST = ["ib_%s_%s" % (what, how) for what in ("atomic", "read", "send", "write") for how in ("bw", "lat")]


@dataclasses.dataclass
class Side:
    """A command and its verdict. PORT, DIR and LIBRARIES in words are replaced."""
    command: object  # a string that is split at spaces, or a list of words
    # Regular expressions; each must be found, in no order. With a number: in exactly so many lines.
    says: list = dataclasses.field(default_factory=list)
    says_not: list = dataclasses.field(default_factory=list)
    status: object = 0  # expected exit status; None: whatever; "ended": it stays, and is ended
    env: dict = dataclasses.field(default_factory=dict)
    # Politely, then not.
    end_by: list = dataclasses.field(default_factory=lambda: [signal.SIGTERM, signal.SIGKILL])


@dataclasses.dataclass
class Case:
    name: str
    server: Side = None
    client: Side = None
    clients: int = 1
    at_once: bool = False
    steps: list = dataclasses.field(default_factory=list)  # Sides in place of client, in turn
    network: bool = False  # run in a network.Network
    devices: str = None  # WEFT_DEVICES of every side that does not say otherwise
    is_near: bool = True  # RoCE's packets go by shared memory, not by UDP
    has_short_port: bool = False  # PORT is kept in 16 bits with a sign
    no_tsan: str = None  # why it cannot run with the thread sanitizer
    # A line of the server, or a function(its process id) -> bool; None: it listens at PORT.
    ready: object = None
    seconds: int = 30
    needs: object = None  # function() -> what else the machine lacks, or None
    prepare: object = None  # function(folder), before all
    check: object = None  # function(folder) -> why it failed, or None; after all have ended

    def sides(self):
        return [s for s in [self.server, self.client] + self.steps if s]

    def clients_in_turn(self):
        return self.steps or [self.client] * (self.clients if self.client else 0)


def words_of(side):
    return side.command.split() if isinstance(side.command, str) else side.command


def held_back_s(pid):
    """How long the busiest thread of a process was ready to run, and not let."""
    longest = 0
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/schedstat" % (pid, task), encoding="ascii") as f:
                longest = max(longest, int(f.read().split()[1]))
    except (OSError, IndexError):
        pass  # it has ended, or the kernel does not tell
    return longest / 1e9


class Patience:
    """So many seconds, of which those do not count in which the machine let the processes wait."""

    def __init__(self, seconds, pids=()):
        self.seconds, self.start = seconds, time.monotonic()
        self.held_back = {pid: 0 for pid in pids}

    def add(self, pid):
        self.held_back[pid] = 0

    def is_over(self):
        passed = time.monotonic() - self.start
        for pid, known in self.held_back.items():
            self.held_back[pid] = max(known, held_back_s(pid))  # 0 once it has ended
        return passed >= min(self.seconds + sum(self.held_back.values()),
                             TIMES_MOST * self.seconds)


class Process:
    """A program whose output goes to files; ended by its own process id."""

    def __init__(self, side, words, folder, name, env):
        self.side, self.words = side, words
        # Two, or what it says on one would tear the lines of the other.
        self.paths = [os.path.join(folder, name + end) for end in (".out", ".err")]
        with open(self.paths[0], "wb") as out, open(self.paths[1], "wb") as err:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, cwd=folder,
                                            stderr=err, env=dict(env, **side.env))

    def output(self):
        texts = []
        for path in self.paths:
            with open(path, encoding="utf-8", errors="replace") as f:
                texts.append(f.read())
        return "".join(t if not t or t.endswith("\n") else t + "\n" for t in texts)

    def has_ended(self):
        return self.process.poll() is not None

    def await_end(self, patience):
        while not self.has_ended() and not patience.is_over():
            try:
                self.process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                pass
        return self.has_ended()

    def end(self):
        for how in self.side.end_by:
            if not self.has_ended():
                self.process.send_signal(how)
                self.await_end(Patience(END_S, [self.process.pid]))


def sockets_of(pid):
    """Inodes of the sockets that a process has open."""
    found = set()
    try:
        for fd in os.listdir("/proc/%d/fd" % pid):
            try:
                to = os.readlink("/proc/%d/fd/%s" % (pid, fd))
            except OSError:
                continue  # closed meanwhile
            if to.startswith("socket:["):
                found.add(to[len("socket:["):-1])
    except OSError:
        pass  # it has ended
    return found


def is_listening(pid, port):
    """Whether the process listens at the port, in its own network: with a TCP socket, or RoCE's."""
    inodes = sockets_of(pid)
    for table in ("tcp", "tcp6"):
        try:
            with open("/proc/%d/net/%s" % (pid, table), encoding="ascii") as f:
                rows = [line.split() for line in f.readlines()[1:]]
        except OSError:
            continue
        for row in rows:
            if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port and row[9] in inodes:
                return True
    return is_serving(pid, port, inodes)


def is_serving(pid, port, inodes):
    """Whether it serves datagrams of RoCE at the port: then it has a name for that (udp_door.c)."""
    try:
        with open("/proc/%d/net/unix" % pid, encoding="ascii") as f:
            rows = [line.split() for line in f.readlines()[1:]]
    except OSError:
        return False
    return any(len(row) > 7 and row[6] in inodes and row[7].startswith("@weft.roce.service.") and
               int(row[7][-4:], 16) == port for row in rows)


def free_port(ports=(0,)):
    """The first of the ports that is free; 0 is any."""
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as s:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        for port in ports:
            try:
                s.bind(("::", port))
                return s.getsockname()[1]
            except OSError as e:
                if e.errno != errno.EADDRINUSE:
                    raise
        raise OSError(errno.EADDRINUSE, "none of %d ports is free" % len(ports))


def tail(text):
    return "".join("    | %s\n" % line[:160] for line in text.splitlines()[-TAIL:])


def judge_text(side, text):
    text = sanitizers.without_remarks(text)
    for want in side.says:
        pattern, count = want if isinstance(want, tuple) else (want, None)
        lines = sum(1 for line in text.splitlines() if re.search(pattern, line))
        if lines == 0 or (count is not None and lines != count):
            return "says \"%s\" %d times%s" % (
                pattern, lines, "" if count is None else ", not %d" % count)
    for pattern in side.says_not:
        found = re.search(pattern, text, re.MULTILINE)
        if found:
            return "says \"%s\"" % found[0]
    found = sanitizers.SAYS.search(text)
    return found and "sanitizer: \"%s\"" % found[0]


def judge(who, process, must_end):
    """Why this process failed, or None."""
    status = process.process.returncode
    why = judge_text(process.side, process.output())
    if why is None and must_end and status != process.side.status and \
            process.side.status is not None:
        why = "ends with status %s, not %s" % (status, process.side.status)
    return why and "%s %s" % (who, why)


class Runner:
    """Runs cases with the libraries of one build."""

    def __init__(self, libraries, sanitizer=None, keep=False):
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
        self.libraries = os.path.abspath(libraries)
        self.env.update({"LD_LIBRARY_PATH": self.libraries, "LC_ALL": "C"})
        # Where Debian has its servers; not in every user's path.
        self.env["PATH"] = self.env.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
        self.env.update(sanitizer(libraries) if sanitizer else {})
        # As weft run does, which would bring a sanitizer of its own.
        self.env["LD_PRELOAD"] = ":".join(
            ([self.env["LD_PRELOAD"]] if self.env.get("LD_PRELOAD") else []) +
            [os.path.join(self.libraries, "libweft-sysfs.so")])
        self.patience = sanitizers.PATIENCE if sanitizer else 1
        self.has_tsan = sanitizer is sanitizers.tsan_env
        self.keep = keep
        self.network = None  # that of the case that runs
        self.of_case = {}  # environment of every side of that case

    def start(self, side, name, port, folder):
        def fill(text):
            return text.replace("PORT", str(port)).replace("DIR", folder).replace(
                "LIBRARIES", self.libraries)
        words = (self.network.enter() if self.network else []) + [fill(w) for w in words_of(side)]
        env = dict(self.env, **self.of_case)
        if words_of(side)[0] in PERFTEST:
            # It may be asked for a hundred rows: see fast_clock.c.
            env["LD_PRELOAD"] += ":" + os.path.join(self.libraries, "tests/interop/libfast_clock.so")
        return Process(dataclasses.replace(side, env={k: fill(v) for k, v in side.env.items()}),
                       words, folder, name, env)

    @staticmethod
    def await_ready(case, server, port, patience):
        """Why the server is not ready, or None."""
        while not patience.is_over():
            if callable(case.ready) and case.ready(server.process.pid):
                return None
            if isinstance(case.ready, str) and re.search(case.ready, server.output(), re.MULTILINE):
                return None
            if not case.ready and is_listening(server.process.pid, port):
                return None
            if server.has_ended():
                return "the server ended at once, status %s" % server.process.returncode
            time.sleep(LOOK_EVERY_S)  # no event tells: it is polled
        return "the server does not listen"

    def run_clients(self, case, port, folder, patience, started):
        """Why, or None; started gets every client."""
        for i, side in enumerate(case.clients_in_turn()):
            client = self.start(side, "client%d" % i, port, folder)
            started.append(client)
            patience.add(client.process.pid)
            if not case.at_once and not client.await_end(patience):
                return "client %d does not end" % i
            # A step builds on the one before.
            why = case.steps and judge("step %d, %s," % (i, words_of(side)[0]), client, True)
            if why:
                return why
        for i, client in enumerate(started):
            if not client.await_end(patience):
                return "client %d does not end" % i
        for i, client in enumerate(started):
            why = judge("client" if case.clients == 1 else "client %d" % i, client, True)
            if why:
                return why
        return None

    @staticmethod
    def judge_server(case, server, patience):
        if case.server.status != "ended":
            if not server.await_end(patience):
                return "the server does not end"
            return judge("the server", server, True)
        # It may have something to say still of clients that have ended.
        while not patience.is_over() and not server.has_ended():
            why = judge("the server", server, False)
            if not why:
                return None
            time.sleep(LOOK_EVERY_S)
        if server.has_ended():
            return "the server did not stay, status %s" % server.process.returncode
        return why

    def run_in(self, case, folder):
        """Why the case failed, or None; and all processes."""
        patience = Patience(case.seconds * self.patience)
        ports = random.sample(range(10000, 32768), 100) if case.has_short_port else (0,)
        port = free_port(ports)
        server, clients, why = None, [], None
        try:
            if case.server:
                server = self.start(case.server, "server", port, folder)
                patience.add(server.process.pid)
                why = self.await_ready(case, server, port, patience)
            if not why:
                why = self.run_clients(case, port, folder, patience, clients)
            if server and not why:
                why = self.judge_server(case, server, patience)
        finally:
            for process in clients + ([server] if server else []):
                process.end()
        return why, ([server] if server else []) + clients

    def why_skip(self, case):
        """What the machine lacks for the case, or None. Makes the network if it needs one."""
        if case.no_tsan and self.has_tsan:
            return case.no_tsan
        for side in case.sides():
            program = words_of(side)[0]
            is_ours = program.startswith(("DIR/", "LIBRARIES/"))
            if not is_ours and not shutil.which(program, path=self.env["PATH"]):
                return "%s is not installed" % program
        lack = case.needs and case.needs()
        if lack:
            return lack
        if case.network:
            self.network = network.Network()
            return self.network.why_not
        return None

    def run(self, case):
        """True: it passed or was skipped. Prints the line for it."""
        try:
            self.of_case = dict({"WEFT_DEVICES": case.devices} if case.devices else {},
                                WEFT_NEAR="on" if case.is_near else "off")
            why = self.why_skip(case)
            if why:
                print("skip %s: %s" % (case.name, why), flush=True)
                return True
            return self.run_and_judge(case)
        finally:
            if self.network:
                self.network.close()
                self.network = None

    def run_and_judge(self, case):
        folder = tempfile.mkdtemp(prefix="weft-programs-")
        try:
            if case.prepare:
                case.prepare(folder)
            for _ in range(CLOCK_TRIES):
                why, processes = self.run_in(case, folder)
                if not any(re.search(CLOCK_UNKNOWN, p.output()) for p in processes):
                    break
            if not why and case.check:
                why = case.check(folder)
            if not why:
                print("ok %s" % case.name, flush=True)
                return True
            for p in processes:
                if p is processes[0] or p is processes[-1] or judge("", p, True):
                    print("  %s\n%s" % (" ".join(p.words), tail(p.output())), end="")
            print("not ok %s: %s" % (case.name, why), flush=True)
            return False
        finally:
            if not self.keep:
                shutil.rmtree(folder)
