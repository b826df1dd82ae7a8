#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""session_test.py WEFT SAMPLE EXAMPLE: programs on <weft/iscsi.h> with weft's target, which is killed, and with tgtd.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`.
"""
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from script import expect, expect_equal, main, need, run  # noqa: E402
from target import PATIENCE_S, Target  # noqa: E402

SAMPLE, EXAMPLE = (os.path.realpath(a) for a in sys.argv[2:4])
TGTD_NAME = "iqn.2001-04.test.weft:lun"
os.environ["PATH"] += ":/usr/sbin:/sbin"


def disk(folder, mib):
    path = os.path.join(folder, "disk")
    with open(path, "wb") as f:
        f.truncate(mib << 20)
    return path


def test_iscsi_session_example_reads_a_disk(folder):
    path = disk(folder, 1)
    with open(path, "r+b") as f:
        f.write(b"\1\2\3\4" * (1 << 16))
    with Target(folder, "file:" + path) as target:
        done = run(EXAMPLE, target.url())
        expect_equal("status", done.returncode, 0)
        expect_equal("says", done.stdout,
                     "weft virtual disk, 1048576 bytes in blocks of 512\nsum of the bytes: 655360\n")
        done = run(EXAMPLE, target.url(lun=4))
        expect_equal("status without the LUN", done.returncode, 1)
        expect("it names the LUN: " + done.stderr, "has no logical unit 4" in done.stderr)


def test_iscsi_session_goes_on_when_the_target_is_killed(folder):
    """A cache that is lost with the process: what was lost is told, and written again."""
    blocks = 64 * 16
    path = disk(folder, 8)
    with Target(folder, "volatile:room=4M(file:%s)" % path) as target:
        sample = subprocess.Popen([SAMPLE, target.url(), str(blocks)], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        flushed = 0
        for line in sample.stdout:
            if not line.startswith("flushed"):
                break
            flushed = int(line.split()[1])
            if flushed % (blocks // 8) == 0 and flushed < blocks:
                target.kill()
                target.start()
        errors = sample.communicate(timeout=PATIENCE_S)[1]
        expect_equal("status; it says " + errors, sample.returncode, 0)
        expect("it ends well: " + line, line.startswith("good, "))
        expect("there were reconnects: " + line, int(line.split()[1]) >= 7)


class Cutter:
    """A way to a port whose connections it resets."""

    def __init__(self, port):
        self.to, self.ends, self.lock = port, [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.to))
            for end in near, far:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.ends += [near, far]
            for ends in (near, far), (far, near):
                threading.Thread(target=self.pass_on, args=ends, daemon=True).start()

    def pass_on(self, source, sink):
        try:
            while True:
                piece = source.recv(1 << 16)
                if not piece:
                    break
                sink.sendall(piece)
        except OSError:
            pass
        for end in source, sink:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        with self.lock:
            ends, self.ends = self.ends, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()


def test_iscsi_session_that_lost_its_connection_lost_no_writes(folder):
    """The target has not begun anew: what it acknowledged is in its cache."""
    blocks = 64 * 16
    with Target(folder, "volatile:room=4M(file:%s)" % disk(folder, 8)) as target, Cutter(target.port) as cutter:
        url = target.url().replace(":%d/" % target.port, ":%d/" % cutter.port)
        sample = subprocess.Popen([SAMPLE, url, str(blocks)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True)
        for line in sample.stdout:
            if not line.startswith("flushed"):
                break
            if int(line.split()[1]) % (blocks // 16) == 0:
                cutter.cut()
        errors = sample.communicate(timeout=PATIENCE_S)[1]
        expect_equal("status; it says " + errors, sample.returncode, 0)
        said = line.split()
        expect("there were reconnects: " + line, int(said[1]) >= 15)
        expect("no write was lost: " + line, said[3:5] == ["0", "flushes"])


class Tgtd:
    """tgtd with a disk in a file, at a free port."""

    def __init__(self, folder):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.env = dict(os.environ, TGT_IPC_SOCKET=os.path.join(folder, "control"))
        self.process = subprocess.Popen(
            ["tgtd", "-f", "--iscsi", "portal=127.0.0.1:%d" % self.port], env=self.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        path = disk(folder, 8)
        until = time.monotonic() + PATIENCE_S
        target = ("--mode", "target", "--op", "new", "--tid", "1", "--targetname", TGTD_NAME)
        while self.admin(*target) != 0 and time.monotonic() < until and self.process.poll() is None:
            time.sleep(0.05)  # its socket is there when it is
        for words in (("--mode", "logicalunit", "--op", "new", "--tid", "1", "--lun", "1",
                       "--backing-store", path),
                      ("--mode", "target", "--op", "bind", "--tid", "1", "--initiator-address",
                       "ALL")):
            expect_equal("tgtadm", self.admin(*words), 0)

    def admin(self, *words):
        return subprocess.run(["tgtadm", "--lld", "iscsi"] + list(words), env=self.env, check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)


def test_iscsi_session_with_tgtd(folder):
    need("tgtd")
    need("tgtadm")
    with Tgtd(folder) as target:
        portal = "iscsi://127.0.0.1:%d/" % target.port
        digests = "?header_digest=crc32c&data_digest=crc32c"
        done = run(EXAMPLE, portal + TGTD_NAME + "/1" + digests)
        expect("it does without digests: " + done.stderr, "the offer does not allow" in done.stderr)
        for more in ("", digests):
            done = run(SAMPLE, portal + TGTD_NAME + "/1" + more, "512")
            expect_equal("status; it says " + done.stderr, done.returncode, 0)
            expect("it ends well: " + done.stdout[-80:], "good, 0 reconnects" in done.stdout)
            for key in ("HeaderDigest", "DataDigest"):
                expect_equal("tgtadm", target.admin("--mode", "target", "--op", "update", "--tid",
                                                    "1", "--name", key, "--value", "CRC32C"), 0)
        done = run(EXAMPLE, portal + TGTD_NAME + "/1")
        expect("it is tgtd's disk: " + done.stdout, done.stdout.startswith("IET VIRTUAL-DISK, 8388608 "))
        done = run(EXAMPLE, portal + TGTD_NAME + "/7")
        expect("no such LUN: " + done.stderr, "has no logical unit 7" in done.stderr)
        done = run(EXAMPLE, portal + TGTD_NAME + "x/1")
        expect("no such target: " + done.stderr, "no target of this name" in done.stderr)


main(globals())
