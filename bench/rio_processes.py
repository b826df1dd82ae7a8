# SPDX-License-Identifier: BSD-2-Clause
"""The processes that rio_bench.py measures, all on loopback: the roles of directed remote I/O, with and
without a relay; nbdkit and tgtd; and what their clients say.

Whatever is started is ended by its process id, and its files are in one temporary folder.
"""
import json
import math
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from rows import Failure, cpu_s

PATIENCE_S = 20
END_S = 5
TRIES = 3
LOOK_EVERY_S = 0.01
MIB = 1 << 20
DEVICE_BYTES = 64 * MIB
# Where Debian installs servers; not in every user's PATH.
PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"


def free_port():
    """Below the ephemeral range, so that no connection takes the port by chance a moment later."""
    for _ in range(1000):
        port = random.randrange(15000, 30000)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise Failure("no port is free")


def last_line(text):
    lines = [line for line in re.split(r"[\r\n]+", text) if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"


class Process:
    """A server; its output goes to a file."""

    def __init__(self, folder, name, words, end_by=signal.SIGTERM, env=None):
        self.name, self.end_by = name, end_by
        self.log = os.path.join(folder, name + ".log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=env)
        self.pid = self.process.pid

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def await_true(self, is_ready):
        """What is_ready() returns, when that is something."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            ready = is_ready()
            if ready:
                return ready
            if self.process.poll() is not None:
                raise Failure("%s ended at once: %s" % (self.name, last_line(self.said())))
            time.sleep(LOOK_EVERY_S)
        raise Failure("%s does not begin: %s" % (self.name, last_line(self.said())))

    def await_line(self, pattern):
        return self.await_true(lambda: re.search(pattern + r"\n", self.said()))[1]

    def await_port(self, port):
        def is_listening():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0
        self.await_true(is_listening)

    def end(self):
        for how in (self.end_by, signal.SIGKILL):
            if self.process.poll() is None:
                self.process.send_signal(how)
                try:
                    self.process.wait(END_S)
                except subprocess.TimeoutExpired:
                    pass


class Place:
    """A temporary folder, and the servers that live in it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="weft-bench-")
        self.servers = []
        self.files = []  # elsewhere

    def path(self, name):
        return os.path.join(self.folder, name)

    def pids(self):
        return [s.pid for s in self.servers if s.process.poll() is None]

    def start(self, name, words, **more):
        self.servers.append(Process(self.folder, name, words, **more))
        return self.servers[-1]

    def run(self, words, seconds=0, **more):
        """A client that ends by itself, expected to take so long; what it says."""
        with subprocess.Popen(words, stdin=more.pop("stdin", subprocess.DEVNULL),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more) as client:
            try:
                out, err = client.communicate(timeout=seconds + PATIENCE_S)
            except subprocess.TimeoutExpired:
                raise Failure("%s does not end" % os.path.basename(words[0]))
            finally:
                if client.poll() is None:
                    client.kill()
        out, err = (text.decode(errors="replace") for text in (out, err))
        if client.returncode != 0:
            raise Failure("%s: %s" % (os.path.basename(words[0]), last_line(out + "\n" + err)))
        return out

    def end(self):
        for server in reversed(self.servers):
            server.end()
        self.servers = []

    def close(self):
        self.end()
        for path in self.files:
            os.unlink(path)
        shutil.rmtree(self.folder, ignore_errors=True)


# ---- weft --------------------------------------------------------------------------------------

class Cluster:
    """An I/O unit with a memory device, its owner, a requester; and a relay.

    The relay stands for an owner's adapter that the data goes through: an I/O unit whose device is
    that of the other one. It reads or writes there as a requester, and hands the data on.

    With a spin time all roles poll for that long before they sleep, and no process relays.
    """

    def __init__(self, place, weft, spin=None):
        self.place, self.weft, self.spin = place, weft, spin
        self.servers = []
        self.keys = {}
        for name in ("own", "iou", "relay", "relay-in", "io"):
            self.keys[name] = place.run([weft, "key", "new", self.path(name + ".key")]).strip()
        for last in (False,) * (TRIES - 1) + (True,):
            try:
                self.open()
                break
            except Failure:
                self.end()
                if last:
                    raise

    def path(self, name):
        return self.place.path(("spinning-" if self.spin else "") + name)

    def end(self):
        for server in reversed(self.servers):
            server.end()
            self.place.servers.remove(server)
        self.servers = []

    def configure(self, name, role, unit, lines):
        path = self.path(name + ".conf")
        if self.spin:
            lines = lines + ["spin " + self.spin]
        with open(path, "w", encoding="utf-8") as f:
            f.write("role %s\nself %d.1\nkey %s\n%s\n"
                    % (role, unit, self.path(name + ".key"), "\n".join(lines)))
        os.chmod(path, 0o600)

    def configure_own(self, own_at, iou_at, relay_at):
        self.configure("own", "owner", 1, [
            "listen " + own_at, "log " + self.path("decisions.log"),
            "iounit disks 2.1 %s %s" % (self.keys["iou"], iou_at),
            "iounit relay 5.1 %s %s" % (self.keys["relay"], relay_at),
            "requester relay-in 6.1 " + self.keys["relay-in"],
            "requester io 7.1 " + self.keys["io"],
            "allow relay-in all disks/*", "allow io all disks/*", "allow io all relay/*"])

    def open(self):
        boss = "owner boss 1.1 " + self.keys["own"]
        own_at, relay_at = ("127.0.0.1:%d" % free_port() for _ in range(2))
        self.configure("iou", "iounit", 2, ["listen 127.0.0.1:0", boss,
                                            "device 1 disk mem:%d" % DEVICE_BYTES])
        self.configure("relay", "iounit", 5, [
            "listen " + relay_at, boss,
            "device 1 relayed rio:\"%s\",device=disk" % self.path("relay-in.conf")])
        for name, unit in (("relay-in", 6), ("io", 7)):
            self.configure(name, "requester", unit, ["listen 127.0.0.1:0", boss + " " + own_at])
        self.iou = self.start("iou", "iou")
        self.configure_own(own_at, self.iou.await_line(r"serves at (\S+)"), relay_at)
        self.own = self.start("own", "own")
        self.own.await_line(r"takes requests at (\S+)")
        if not self.spin:
            self.relay = self.start("iou", "relay")
            self.relay.await_line(r"serves at (\S+)")
            self.perf = self.run("perf", ["perf", "--listen", "127.0.0.1:0", "--quiet"])
            self.perf_at = self.perf.await_line(r"listening at (\S+)")
        self.fill()

    def run(self, name, words):
        server = self.place.start(os.path.basename(self.path(name)), [self.weft, *words])
        self.servers.append(server)
        return server

    def start(self, command, name):
        return self.run(name, [command, self.path(name + ".conf")])

    def fill(self):
        """No memory that was never touched; and both ways to it are there."""
        with open(self.path("fill"), "wb") as f:
            for _ in range(DEVICE_BYTES // MIB):
                f.write(os.urandom(MIB))
        for device in ("disk",) if self.spin else ("relayed", "disk"):
            self.io("write", device, "--file", self.path("fill"))
        os.unlink(self.path("fill"))

    def io(self, verb, device, *options, seconds=0):
        try:
            return self.place.run([self.weft, "io", self.path("io.conf"), verb, device, "--quiet",
                                   *options], seconds)
        finally:
            # A line for each request; nothing reads them here.
            os.truncate(self.path("decisions.log"), 0)

    def io_bench(self, seconds, device, *options):
        """What it says, with bytes, and the processor time of the owner and of the relay."""
        counted = [self.own.pid] + ([] if self.spin else [self.relay.pid])
        before = [cpu_s(pid) for pid in counted]
        said = json.loads(self.io("bench", device, "--json", "--seconds", str(seconds), *options,
                                  seconds=seconds))
        used = [cpu_s(pid) - then for pid, then in zip(counted, before)]
        said["own_cpu_s"], said["relay_cpu_s"] = used[0], sum(used[1:])
        said["bytes"] = said["requests"] * said["block"]
        return said

    def perf_write(self, seconds):
        said = self.place.run([self.weft, "perf", "--op", "write", "--size", "1m", "--depth", "16",
                               "--seconds", str(seconds), "--json", "--quiet", self.perf_at], seconds)
        return json.loads(said)["bytes_per_s"]

    def counters(self, server):
        """All adapters of a process together."""
        said = json.loads(self.place.run([self.weft, "stat", "--json", str(server.pid)]))
        return {key: sum(a[key] for a in said["adapters"])
                for key in ("payload_in", "payload_out", "bytes_in", "bytes_out", "messages_in",
                            "messages_out")}


# ---- Others ------------------------------------------------------------------------------------

def program(name):
    return shutil.which(name, path=PATH)


def why_absent(names):
    absent = [name for name in names if not program(name)]
    return "not installed: " + ", ".join(absent) if absent else None


class Nbd:
    """nbdkit's memory plugin over TCP, and fio's nbd engine."""
    title = "nbdkit memory, fio"

    def __init__(self, place):
        self.place, self.why = place, why_absent(["nbdkit", "fio"])
        if not self.why and "nbd" not in place.run([program("fio"), "--enghelp"]).split():
            self.why = "this fio has no nbd engine"
        if self.why:
            return
        self.port = free_port()
        server = place.start("nbdkit", [program("nbdkit"), "-f", "-i", "127.0.0.1", "-p", str(self.port),
                                        "memory", str(DEVICE_BYTES)])
        server.await_port(self.port)
        self.fio(["--rw=write", "--bs=1m", "--iodepth=16"], 0)

    def fio(self, options, seconds):
        said = self.place.run([program("fio"), "--name=bench", "--ioengine=nbd", "--thread",
                               "--output-format=json", "--uri=nbd://127.0.0.1:%d" % self.port, "--size=%d" % DEVICE_BYTES]
                              + options, seconds, cwd=self.place.folder)
        return json.loads(said[said.index("{"):])["jobs"][0]

    def random_reads(self, depth, seconds):
        """A second."""
        return self.fio(["--rw=randread", "--norandommap", "--bs=4k", "--iodepth=%d" % depth,
                         "--time_based", "--runtime=%dms" % (seconds * 1000)], seconds)["read"]["iops"]


class Iscsi:
    """tgtd with a file in memory, and libiscsi's own iscsi-perf."""
    title = "tgtd, iscsi-perf"
    NAME = "iqn.2001-04.test.weft:bench"

    def __init__(self, place):
        self.place, self.why = place, why_absent(["tgtd", "tgtadm", "iscsi-perf"])
        if self.why:
            return
        self.port = free_port()
        # Its own control socket, so that it meets no other tgtd of the machine.
        self.env = dict(os.environ, PATH=PATH, TGT_IPC_SOCKET=place.path("tgt"))
        # It waits for ever for its target to go, if it is asked to end.
        server = place.start("tgtd", [program("tgtd"), "-f", "--iscsi",
                                      "portal=127.0.0.1:%d" % self.port],
                             end_by=signal.SIGKILL, env=self.env)
        server.await_port(self.port)
        self.make_lun()
        self.admin("--mode target --op new --tid 1 --targetname " + self.NAME)
        self.admin("--mode logicalunit --op new --tid 1 --lun 1 --backing-store " + self.lun)
        self.admin("--mode target --op bind --tid 1 --initiator-address ALL")

    def make_lun(self):
        shm = "/dev/shm"
        has_shm = os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > 2 * DEVICE_BYTES
        handle, self.lun = tempfile.mkstemp(prefix="weft-bench-", dir=shm if has_shm else self.place.folder)
        self.place.files.append(self.lun)
        with open(handle, "wb") as f:
            for _ in range(DEVICE_BYTES // MIB):
                f.write(os.urandom(MIB))

    def admin(self, words):
        self.place.run([program("tgtadm"), "--lld", "iscsi"] + words.split(), env=self.env)

    def random_reads(self, depth, seconds):
        """A second. iscsi-perf knows only whole ones."""
        whole = max(1, math.ceil(seconds))
        said = self.place.run([program("iscsi-perf"), "-m", str(depth), "-b", "8", "-t", str(whole), "-r",
                               "iscsi://127.0.0.1:%d/%s/1" % (self.port, self.NAME)], whole, env=self.env)
        found = re.findall(r"iops average (\d+)", said)
        if not found:
            raise Failure("iscsi-perf: " + last_line(said))
        return float(found[-1])
