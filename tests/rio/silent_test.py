#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""silent_test.py WEFT: a cluster whose network silently drops everything.

The roles are in a network namespace of their own, whose one interface is taken down: what was said is
lost, and nothing is answered. Skipped where the machine does not let a test have such a namespace.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from network import Network  # noqa: E402
from script import environment, expect, expect_equal, main, write  # noqa: E402

WEFT = os.path.realpath(sys.argv[1])
PATIENCE_S = 60
ALIVE_S = 1
# What the machine may take longer than TCP, which counts whole seconds; the requests' own timeout is
# far behind that.
NOTICED_S = 20
DATA_ADDRESS = "192.0.2.7"
TIMEOUT_S, HASTY_S = 300, 4 * ALIVE_S
# Its data is fetched, so there is a connection for that; then the device takes its time.
SLOW = ("write", "slow", "--length", "64k", "--file", "read")
# Slow, and not asked here.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"


class Cluster:
    """An I/O unit with a device, one whose device takes its time, an owner, and requesters."""

    def __init__(self, folder):
        self.folder, self.roles, self.env = folder, [], environment(WEFT_NEAR="off")
        self.network = Network()

    def __enter__(self):
        keys = {name: self.weft("key", "new", name + ".key").stdout.strip()
                for name in ("owner", "disks", "tape", "app")}
        alive = "alive %ds\ntimeout %ds\n" % (ALIVE_S, TIMEOUT_S)
        for name, unit, device in (("disks", 2, "disk mem:1M"), ("tape", 4, "slow delay:100s(mem:1M)")):
            self.file(name + ".conf", "role iounit\nself %d.1\nkey %s.key\nlisten 127.0.0.1:747%d\n"
                      "owner boss 1.1 %s\ndevice 1 %s\n" % (unit, name, unit, keys["owner"], device)
                      + alive)
        self.file("owner.conf", "role owner\nself 1.1\nkey owner.key\nlisten 127.0.0.1:7470\n"
                  "log decisions.log\niounit disks 2.1 %s 127.0.0.1:7472\n"
                  "iounit tape 4.1 %s 127.0.0.1:7474\nrequester app 3.1 %s\nallow app all *\n"
                  % (keys["disks"], keys["tape"], keys["app"]) + alive)
        app = ("role requester\nself 3.1\nkey app.key\nlisten 127.0.0.1:0\n"
               "owner boss 1.1 %s 127.0.0.1:7470\n" % keys["owner"] + alive)
        self.file("app.conf", app)
        self.file("away.conf", app.replace("127.0.0.1:0", DATA_ADDRESS + ":0"))
        self.file("hasty.conf", app.replace("timeout %ds" % TIMEOUT_S, "timeout %ds" % HASTY_S))
        for command in "iou disks.conf", "iou tape.conf", "own owner.conf":
            self.roles.append(self.start(*command.split()))
        return self

    def __exit__(self, *_):
        for role in self.roles:
            if role.poll() is None:
                role.kill()
            role.wait(timeout=PATIENCE_S)
        self.network.close()

    def file(self, name, text):
        write(os.path.join(self.folder, name), text, 0o600)

    def start(self, *words):
        """What it says is in a file that begins with its first words."""
        with open(os.path.join(self.folder, "-".join(words[:2])), "w") as out:
            return subprocess.Popen(self.network.enter(WEFT, *words), cwd=self.folder, env=self.env,
                                    stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def weft(self, *words):
        return subprocess.run(self.network.enter(WEFT, *words), cwd=self.folder, env=self.env,
                              timeout=PATIENCE_S, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def said(self, name):
        try:
            with open(os.path.join(self.folder, name)) as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def log(self):
        return self.said("decisions.log")

    def wait_said(self, name, pattern, after=0, seconds=NOTICED_S):
        """Until there is such a line behind so many bytes."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.said(name)[after:]):
            expect("%s in %s: %s" % (pattern, name, self.said(name)), time.monotonic() < end)
            time.sleep(0.01)

    def wait_log(self, pattern, after=0, seconds=PATIENCE_S):
        self.wait_said("decisions.log", pattern, after, seconds)

    def wait_connected(self):
        """Until a data connection is there, and all that was said over it was heard."""
        end = time.monotonic() + PATIENCE_S
        address = "%02X%02X%02X%02X" % tuple(reversed([int(n) for n in DATA_ADDRESS.split(".")]))
        while True:
            with open("/proc/%d/net/tcp" % self.roles[0].pid) as f:
                ends = [line.split()[1:5] for line in f]
            if [1 for near, far, state, queues in ends
                    if near.startswith(address) and state == "01" and queues == "00000000:00000000"]:
                return
            expect("a data connection: %s" % ends, time.monotonic() < end)
            time.sleep(0.01)

    def works(self):
        done = self.weft("io", "app.conf", "read", "disk", "--length", "64k", "--file", "read")
        expect_equal("status: %s, log: %s" % (done.stderr, self.log()), done.returncode, 0)


def test_rio_03_a_silent_host_is_noticed(folder):
    """No byte is in flight on any connection: only keepalives detect the loss."""
    with Cluster(folder) as cluster:
        cluster.works()
        cluster.wait_log(r" left requester 3\.1")
        at = len(cluster.log())
        # Much longer than the silence that is too long: a peer that answers when asked is not gone.
        done = cluster.weft("io", "hasty.conf", *SLOW)
        expect("it ends by its own timeout: " + done.stderr, "(rio_timeout)" in done.stderr)
        expect_equal("who left", set(re.findall(r" left (.*)", cluster.log()[at:])) -
                     {"requester 3.1"}, set())
        at = len(cluster.log())
        pending = cluster.start("io", "app.conf", *SLOW)
        cluster.roles.append(pending)
        cluster.wait_log(r" allowed 3\.1#\d+ write slow ", at)
        cluster.network.ip("link", "set", "lo", "down")
        cluster.wait_log(r" left requester 3\.1: stream_lost", at, NOTICED_S)
        for unit in "2", "4":
            cluster.wait_log(r" left iounit %s\.1: stream_lost" % unit, at, NOTICED_S)
        expect_equal("status", pending.wait(timeout=NOTICED_S), 1)
        said = cluster.said("io-app.conf")
        expect("why: " + said, re.search(r"\((rio_owner_left|peer_gone)\)$", said.strip()))
        # All is as before once the network is back: no peer is refused as already connected.
        at = len(cluster.log())
        cluster.network.ip("link", "set", "lo", "up")
        cluster.wait_log(r" came iounit 2\.1", at)
        cluster.works()
        expect("no peer was connected twice: " + cluster.log(), "rio_twice" not in cluster.log())
        for unit in "iou-disks.conf", "iou-tape.conf":
            cluster.wait_said(unit, r"1\.1 has left, the owner: The connection below the stream")


def test_rio_02i_a_silent_data_connection_is_noticed(folder):
    """Only the way between I/O unit and requester is gone; both hear from the owner as before."""
    with Cluster(folder) as cluster:
        cluster.network.ip("address", "add", DATA_ADDRESS + "/32", "dev", "lo")
        cluster.works()
        at = len(cluster.log())
        pending = cluster.start("io", "away.conf", *SLOW)
        cluster.roles.append(pending)
        cluster.wait_log(r" allowed 3\.1#\d+ write slow ", at)
        cluster.wait_connected()
        cluster.network.ip("address", "delete", DATA_ADDRESS + "/32", "dev", "lo")
        # What its device is at goes on: it is known there, and told by the owner.
        cluster.wait_said("iou-tape.conf", r"3\.1 is no longer connected: The connection below the stream")
        expect("the request is under way", pending.poll() is None)
        expect_equal("who left", set(re.findall(r" left (.*)", cluster.log()[at:])), set())


main(globals())
