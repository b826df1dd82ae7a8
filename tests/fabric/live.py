# SPDX-License-Identifier: BSD-2-Clause
"""A fabric that runs, with Debian's own programs at its nodes. WEFT is the script's first word."""
import os
import re
import signal
import subprocess
import sys
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin")]
from script import PATIENCE_S, Skip, environment, expect, expect_equal, need  # noqa: E402,F401

WEFT = os.path.realpath((sys.argv + [""])[1])  # a bench that imports this sets it
os.environ["PATH"] += ":/usr/sbin:/sbin"
# Slow, and not asked here.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"

# Two ways between any two switches, and two hosts at the first two of them.
TRIANGLE = """
Switch 8 "S1"
[1] "H1"[1]
[2] "H2"[1]
[3] "S2"[3]
[4] "S3"[4]
Switch 8 "S2"
[1] "H3"[1]
[2] "H4"[1]
[4] "S3"[3]
Switch 8 "S3"
[1] "H5"[1]
Hca 1 "H1"
Hca 1 "H2"
Hca 1 "H3"
Hca 1 "H4"
Hca 1 "H5"
"""


def wait_until(what, is_true):
    """A condition, with patience: looked at again and again."""
    end = time.monotonic() + PATIENCE_S
    while not is_true():
        if time.monotonic() > end:
            raise AssertionError("waited in vain: " + (what() if callable(what) else what))
        time.sleep(0.02)


class Fabric:
    """weft fabric run, and the programs that it was asked to start: all of them end with it."""

    def __init__(self, folder, text=TRIANGLE, name=None):
        need("opensm", "ibstat")
        self.folder = folder
        self.name = name or "live-%d-%s" % (os.getpid(), os.path.basename(folder))[:40]
        self.path = os.path.join(folder, "topology")
        self.started = []
        if text:
            with open(self.path, "w", encoding="utf-8") as f:
                f.write(text)

    def __enter__(self):
        self.process = subprocess.Popen([WEFT, "fabric", "run", self.path, "--name", self.name], env=environment(),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True)
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
        done = subprocess.run([WEFT, "fabric", *words], env=self.env(), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S)
        expect_equal("weft fabric %s: %s" % (" ".join(words), done.stdout), done.returncode, 0)
        return done.stdout

    def run(self, node, *words, status=0, **wishes):
        """A program at a node, until it ends; returns what it printed."""
        done = subprocess.run([WEFT, "run", "--node", node, *words], env=self.env(**wishes), stdin=subprocess.DEVNULL,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S)
        if status is not None:
            expect_equal("%s: %s" % (" ".join(words), done.stdout), done.returncode, status)
        return done.stdout

    def start(self, node, *words, **wishes):
        program = Program(self, node, words, wishes)
        self.started.append(program)
        return program

    def opensm(self, node, *words, **wishes):
        """A subnet manager, in a folder of its own."""
        folder = os.path.join(self.folder, "opensm-" + node)
        os.makedirs(folder, exist_ok=True)
        return self.start(node, "opensm", "-f", os.path.join(folder, "log"), *words, OSM_TMP_DIR=folder,
                          OSM_CACHE_DIR=folder, **wishes)

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
    """One that runs at a node; what it prints goes to a file."""

    def __init__(self, fabric, node, words, wishes):
        self.words = words
        self.path = os.path.join(fabric.folder, "said-%d" % len(fabric.started))
        with open(self.path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([WEFT, "run", "--node", node, *words], env=fabric.env(**wishes),
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def said(self):
        with open(self.path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def await_line(self, text):
        wait_until(lambda: "%s says %r: %s" % (self.words[0], text, self.said()),
                   lambda: text in self.said() or self.process.poll() is not None)
        expect("%s says %r: %s" % (self.words[0], text, self.said()), text in self.said())

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
