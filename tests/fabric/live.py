# SPDX-License-Identifier: BSD-2-Clause
"""A fabric that runs, with Debian's own programs at its nodes. WEFT is the script's first word."""
import glob
import os
import re
import signal
import subprocess
import sys
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin")]
from script import PATIENCE_S, Skip, environment, expect, expect_equal, need, patient  # noqa: E402,F401

WEFT = os.path.realpath((sys.argv + [""])[1])  # a bench that imports this sets it
os.environ["PATH"] += ":/usr/sbin:/sbin"
# Slow, and not asked here.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"

def topology_of(cables):
    """Text of a topology, as ibsim reads it too: cables are "S1:1 H1:1", switches have names in S and 8 ports."""
    ports = {}
    for cable in cables.split(","):
        a, b = (end.split(":") for end in cable.split())
        ports.setdefault(a[0], []).append((a[1], b))
        ports.setdefault(b[0], []).append((b[1], a))
    text = ""
    for number, node in enumerate(sorted(ports)):
        is_switch = node[0] == "S"
        text += "%sguid=0x%x\n%s \"%s\"\n" % ("switch" if is_switch else "ca", 0x100000 + 256 * number,
                                             "Switch 8" if is_switch else "Hca %d" % len(ports[node]), node)
        text += "".join("[%s] \"%s\"[%s]\n" % (port, *to) for port, to in sorted(ports[node])) + "\n"
    return text


# Two ways between any two switches, and two hosts at the first two of them.
TRIANGLE = topology_of("S1:1 H1:1,S1:2 H2:1,S2:1 H3:1,S2:2 H4:1,S3:1 H5:1,S1:3 S2:3,S1:4 S3:4,S2:4 S3:3")
HOSTS = ["H%d" % i for i in range(1, 6)]


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def wait_until(what, is_true):
    """A condition, with patience: looked at again and again."""
    end = time.monotonic() + PATIENCE_S
    while not is_true():
        if time.monotonic() > end:
            raise AssertionError("waited in vain: " + (what() if callable(what) else what))
        time.sleep(0.02)


def opensm_words(folder):
    """-d 2: each line of its log is there when it was said."""
    return ["opensm", "-d", "2", "-f", os.path.join(folder, "log")]


class Fabric:
    """weft fabric run, and the programs that it was asked to start: all of them end with it."""

    def __init__(self, folder, text=TRIANGLE, name=None, inside=(), options=()):
        need("opensm", "ibstat")
        self.folder = folder
        self.inside, self.options = list(inside), list(options)  # words before each command; of weft fabric run
        self.name = name or "live-%d-%s" % (os.getpid(), os.path.basename(folder))[:40]
        self.path = os.path.join(folder, "topology")
        self.started = []
        if text:
            with open(self.path, "w", encoding="utf-8") as f:
                f.write(text)

    def __enter__(self):
        self.process = subprocess.Popen([*self.inside, WEFT, "fabric", "run", self.path, "--name", self.name,
                                         *self.options], env=environment(), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.said = self.process.stdout.readline()
        if not self.said.startswith("fabric "):
            self.process.wait()
            raise AssertionError("weft fabric run: " + self.said)
        return self

    def __exit__(self, *_):
        for program in reversed(self.started):
            program.end()
        self.process.terminate()
        self.process.wait(timeout=PATIENCE_S)
        said = self.process.stdout.read()
        self.process.stdout.close()
        expect_equal("weft fabric run said " + said, self.process.returncode, 0)

    def env(self, **wishes):
        return environment(WEFT_FABRIC=self.name, **wishes)

    def weft(self, *words):
        """A command of weft fabric; returns what it printed."""
        done = subprocess.run([*self.inside, WEFT, "fabric", *words], env=self.env(), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S)
        expect_equal("weft fabric %s: %s" % (" ".join(words), done.stdout), done.returncode, 0)
        return done.stdout

    def weft_start(self, *words):
        """One that runs until it is told to end."""
        program = Program(os.path.join(self.folder, "said-%d" % len(self.started)), [*self.inside, WEFT, "fabric", *words],
                          self.env())
        self.started.append(program)
        return program

    def run(self, node, *words, status=0, **wishes):
        """A program at a node, until it ends; returns what it printed."""
        done = subprocess.run([*self.inside, WEFT, "run", "--node", node, *words], env=self.env(**wishes),
                              stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=PATIENCE_S)
        if status is not None:
            expect_equal("%s: %s" % (" ".join(words), done.stdout), done.returncode, status)
        return done.stdout

    def start(self, node, *words, **wishes):
        program = Program(os.path.join(self.folder, "said-%d" % len(self.started)),
                          [*self.inside, WEFT, "run", "--node", node, *words], self.env(**wishes))
        self.started.append(program)
        return program

    def opensm(self, node, *words, **wishes):
        """A subnet manager, in a folder of its own, which has a log."""
        folder = os.path.join(self.folder, "opensm-" + node)
        os.makedirs(folder, exist_ok=True)
        manager = self.start(node, *opensm_words(folder), *words, OSM_TMP_DIR=folder, OSM_CACHE_DIR=folder, **wishes)
        manager.log = os.path.join(folder, "log")
        return manager

    def state(self, node):
        return self.run(node, "ibstat", "fab0", "1")

    def is_active(self, node):
        return "State: Active" in self.state(node)

    def lid(self, node):
        return int(re.search(r"Base lid: (\d+)", self.state(node))[1])

    def await_active(self, *nodes):
        for node in nodes:
            wait_until(lambda n=node: "%s is active: %s" % (n, self.state(n)), lambda n=node: self.is_active(n))


class Program:
    """One that runs; what it prints goes to a file."""

    def __init__(self, path, words, env, cwd=None):
        self.words, self.path = words, path
        with open(self.path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(words, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT)

    def said(self):
        return read(self.path)

    def await_line(self, text):
        wait_until(lambda: "%s says %r: %s" % (self.words[0], text, self.said()),
                   lambda: text in self.said() or self.process.poll() is not None)
        expect("%s says %r: %s" % (self.words[0], text, self.said()), text in self.said())

    def await_log(self, text, times=1):
        """Of opensm."""
        wait_until(lambda: "the log says %r: %s" % (text, read(self.log)),
                   lambda: os.path.exists(self.log) and read(self.log).count(text) >= times)

    def succeeds(self):
        status = self.process.wait(timeout=PATIENCE_S)
        expect_equal("%s: %s" % (" ".join(self.words), self.said()), status, 0)
        return self.said()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        """By SIGTERM; one that does not mind it is killed."""
        if self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()


class Ibsim:
    """The same topology in Debian's simulator of management datagrams, whose clients leave folders where they run."""

    def __init__(self, folder, text=TRIANGLE):
        need("ibsim")
        found = glob.glob("/usr/lib/*/umad2sim/libumad2sim.so")
        if not found:
            raise Skip("there is no libumad2sim")
        self.library, self.folder = found[0], folder
        self.socket = "live-%d" % os.getpid()
        with open(os.path.join(folder, "net"), "w", encoding="utf-8") as f:
            f.write(text)

    def env(self, node):
        return environment(IBSIM_SOCKNAME=self.socket, SIM_HOST=node, LD_PRELOAD=self.library, OSM_TMP_DIR=self.folder,
                           OSM_CACHE_DIR=self.folder)

    def __enter__(self):
        said = os.path.join(self.folder, "ibsim")
        with open(said, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(["ibsim", "-s", os.path.join(self.folder, "net")],
                                            env=environment(IBSIM_SOCKNAME=self.socket), stdin=subprocess.PIPE,
                                            stdout=log, stderr=log)
        wait_until("ibsim is ready", lambda: "simulator ready" in read(said))
        self.manager = Program(os.path.join(self.folder, "said"), opensm_words(self.folder), self.env("H1"),
                               cwd=self.folder)
        self.manager.log = os.path.join(self.folder, "log")
        self.manager.await_log("SUBNET UP")
        return self

    def __exit__(self, *_):
        self.manager.end()
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()

    def run(self, node, *words, status=0):
        done = subprocess.run(words, env=self.env(node), cwd=self.folder, stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=PATIENCE_S)
        if status is not None:
            expect_equal("ibsim: %s: %s" % (" ".join(words), done.stdout), done.returncode, status)
        return done.stdout


def up(fabric, node="H1", *words, **wishes):
    """A subnet manager that has set the fabric up."""
    manager = fabric.opensm(node, *words, **wishes)
    manager.await_log("SUBNET UP")
    return manager


def meet(fabric, to, by, *words, to_host="localhost", port=0, other=None, **wishes):
    """The same program at two nodes, which meet at a port of TCP; what the one that asks, in `other`, printed."""
    words = patient([*words, "-p", str(port or 20000 + os.getpid() % 20000)])
    server = fabric.start(to, *words, **wishes)
    other = other or fabric
    said = ""

    def is_done():
        nonlocal said
        client = subprocess.run([*other.inside, WEFT, "run", "--node", by, *words, to_host], env=other.env(**wishes),
                                text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                timeout=PATIENCE_S)
        said = client.stdout
        return client.returncode == 0

    wait_until(lambda: said + server.said(), is_done)
    server.succeeds()
    return said
