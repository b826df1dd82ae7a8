#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""units_test.py WEFT: I/O units as processes of their own, several of them in one unit.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from script import environment, expect, expect_equal, main, run, write  # noqa: E402

WEFT = os.path.realpath(sys.argv[1])
PATIENCE_S = 60
# Slow, and not asked here.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
SIZE = 1 << 20


def free_ports(count):
    """Ports that no other process uses at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Unit:
    """Unit 2 with these I/O processors, 2.1 and up: the lines of their devices. An owner, a requester."""

    def __init__(self, folder, processors):
        self.folder, self.roles = folder, {}
        names = ["iop%d" % n for n in range(1, len(processors) + 1)]
        keys = {name: self.make_key(name) for name in names + ["boss", "app"]}
        ports = dict(zip(names + ["boss"], free_ports(len(names) + 1)))
        for n, (name, lines) in enumerate(zip(names, processors), 1):
            self.conf(name, "role iounit\nself 2.%d\nlisten 127.0.0.1:%d\nowner boss 1.1 %s\n%s" %
                      (n, ports[name], keys["boss"], "".join(line + "\n" for line in lines)))
        known = "".join("iounit %s 2.%d %s 127.0.0.1:%d\n" % (name, n, keys[name], ports[name])
                        for n, name in enumerate(names, 1))
        self.conf("boss", "role owner\nself 1.1\nlisten 127.0.0.1:%d\nlog decisions.log\n%s"
                  "requester app 7.1 %s\nallow app all *\nwatch app\n" %
                  (ports["boss"], known, keys["app"]))
        self.conf("app", "role requester\nself 7.1\nlisten 127.0.0.1:0\n"
                  "owner boss 1.1 %s 127.0.0.1:%d\n" % (keys["boss"], ports["boss"]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for role in self.roles.values():
            if role.poll() is None:
                role.kill()
            role.communicate(timeout=PATIENCE_S)

    def make_key(self, name):
        done = run(WEFT, "key", "new", os.path.join(self.folder, name + ".key"))
        return re.search("[0-9a-f]{64}", done.stdout)[0]

    def conf(self, name, text):
        role, rest = text.split("\n", 1)
        write(os.path.join(self.folder, name + ".conf"), "%s\nkey %s.key\n%s" % (role, name, rest), 0o600)

    def start(self, name):
        command = "own" if name == "boss" else "iou"
        self.roles[name] = subprocess.Popen([WEFT, command, name + ".conf"], cwd=self.folder,
                                            env=environment(), stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = ""
        while command == "iou" and "serves at" not in said:
            line = self.roles[name].stdout.readline().decode()
            expect("%s begins: %s" % (name, said), line)
            said += line
        return self.roles[name].pid

    def weft(self, *words, **more):
        done = subprocess.run([WEFT, *words], cwd=self.folder, env=environment(),
                              timeout=PATIENCE_S, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              **({"stdin": subprocess.DEVNULL} if "input" not in more else more))
        expect_equal("status of %s: %s" % (" ".join(words), done.stderr), done.returncode, 0)
        return done.stdout

    def put(self, device, data):
        self.weft("io", "app.conf", "write", device, "--at", "0", input=data)

    def get(self, device, length):
        return self.weft("io", "app.conf", "read", device, "--at", "0", "--length", str(length))

    def seen(self):
        return json.loads(self.weft("cluster", "app.conf", "--once", "--json"))

    def await_connected(self, *platforms):
        end = time.monotonic() + PATIENCE_S
        while True:
            seen = self.seen()
            there = {u["platform"] for u in seen["iounits"] if u["connected"]}
            if there == set(platforms):
                return seen
            expect("connected: %s" % there, time.monotonic() < end)


def shared_memory(test):
    """A place in the machine's memory that any process of it can reach, which is gone afterwards."""
    def run_test(folder):
        where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.NamedTemporaryFile(prefix="weft-units-", dir=where) as f:
            f.truncate(SIZE)
            test(folder, f.name)
    return run_test


def test_sys_02_an_io_unit_stands_alone_and_may_have_no_device(folder):
    with Unit(folder, [(), ("device 1 disk mem:1M",)]) as unit:
        # No other process runs yet, and these report no error.
        unit.start("iop1")
        unit.start("iop2")
        expect_equal("they run", [unit.roles[n].poll() for n in ("iop1", "iop2")], [None, None])
        unit.start("boss")
        seen = unit.await_connected("2.1", "2.2")
        while not seen["devices"]:
            seen = unit.seen()
        expect_equal("devices", [(d["platform"], d["name"]) for d in seen["devices"]],
                     [("2.2", "disk")])
        unit.put("disk", b"x" * 512)
        # They outlive the owner that directs them.
        unit.roles["boss"].kill()
        unit.roles["boss"].wait(timeout=PATIENCE_S)
        unit.start("boss")
        unit.await_connected("2.1", "2.2")
        expect_equal("what is on the device", unit.get("disk", 512), b"x" * 512)


@shared_memory
def test_sys_02_io_processors_share_the_units_memory_and_have_their_own(folder, common):
    devices = [("device 1 own%d mem:1M" % n, "device 2 common%d file:%s,ro" % (n, common))
               for n in (1, 2)]
    with Unit(folder, devices) as unit:
        pids = {unit.start("iop1"), unit.start("iop2")}
        unit.start("boss")
        unit.await_connected("2.1", "2.2")
        expect_equal("processes", len(pids), 2)
        # The same device number, and the same place there: of each its own memory.
        one, two, both = (bytes([n]) * 4096 for n in (1, 2, 3))
        unit.put("own1", one)
        expect_equal("the other's own", unit.get("own2", 4096), bytes(4096))
        unit.put("own2", two)
        expect_equal("its own", unit.get("own1", 4096), one)
        # What lies in the unit's memory both reach, as it is now.
        with open(common, "r+b", buffering=0) as f:
            for now in (both, one):
                f.seek(0)
                f.write(now)
                for name in ("common1", "common2"):
                    expect_equal(name, unit.get(name, 4096), now)
        # One dies: the other has what it had, and what both had.
        unit.roles["iop1"].send_signal(signal.SIGKILL)
        unit.await_connected("2.2")
        expect_equal("its own still", unit.get("own2", 4096), two)
        expect_equal("common still", unit.get("common2", 4096), one)
        unit.start("iop1")
        unit.await_connected("2.1", "2.2")
        expect_equal("a new one's own", unit.get("own1", 4096), bytes(4096))
        expect_equal("common again", unit.get("common1", 4096), one)
        with open(os.path.join(folder, "decisions.log")) as f:
            log = f.read()
        for n in (1, 2):
            expect("2.%d was directed by its own name" % n,
                   re.search(r"allowed 7\.1#\d+ read common%d.* at 2\.%d$" % (n, n), log, re.M))


main(globals())
