# SPDX-License-Identifier: BSD-2-Clause
"""tgtd, the iSCSI target of package tgt, with a file as LUN 1."""
import os
import random
import shutil
import socket
import subprocess
import time

from script import Skip, run

PATIENCE_S = 60
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
NAME = "iqn.2001-04.test.weft:lun"
TRIES = 20


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
    raise AssertionError("no port is free")


class Tgt:
    def __init__(self, folder, length):
        for program in ("tgtd", "tgtadm"):
            if not shutil.which(program, path=PATH):
                raise Skip("there is no " + program)
        self.folder, self.length, self.process = folder, length, None
        self.lun = os.path.join(folder, "tgt.lun")
        # Its own control socket, so that it meets no other tgtd of the machine.
        self.env = dict(os.environ, PATH=PATH, TGT_IPC_SOCKET=os.path.join(folder, "tgt"))

    def __enter__(self):
        with open(self.lun, "wb") as f:
            f.truncate(self.length)
        for _ in range(TRIES):
            if self.begin():
                break
        else:
            raise AssertionError("tgtd does not begin")
        self.admin("--mode target --op new --tid 1 --targetname " + NAME)
        self.admin("--mode logicalunit --op new --tid 1 --lun 1 --backing-store " + self.lun)
        self.admin("--mode target --op bind --tid 1 --initiator-address ALL")
        return self

    def begin(self):
        """False: it ended at once, as another process took the port."""
        self.port = free_port()
        with open(os.path.join(self.folder, "tgtd.log"), "w") as log:
            self.process = subprocess.Popen(
                ["tgtd", "-f", "--iscsi", "portal=127.0.0.1:%d" % self.port], env=self.env,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and self.process.poll() is None:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return True
            time.sleep(0.01)  # nothing tells
        self.end()
        return False

    def end(self):
        # It waits for ever for its target to go, if it is asked to end.
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def __exit__(self, *_):
        self.end()

    def admin(self, words):
        done = run("tgtadm", "--lld", "iscsi", *words.split(), PATH=PATH,
                   TGT_IPC_SOCKET=self.env["TGT_IPC_SOCKET"])
        if done.returncode != 0:
            raise AssertionError("tgtadm: " + done.stderr)

    def portal(self):
        return "iscsi://127.0.0.1:%d" % self.port

    def url(self, lun=1):
        return "%s/%s/%d" % (self.portal(), NAME, lun)
