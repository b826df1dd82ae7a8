# SPDX-License-Identifier: BSD-2-Clause
"""weft iscsi serve as a process, with the files that it needs. WEFT is the script's first word."""
import json
import os
import re
import subprocess
import sys
import threading

sys.path[:0] = [os.path.join(os.path.dirname(os.path.realpath(__file__)), part) for part in ("../dropin", "../attack")]
from attack import as_user  # noqa: E402
from script import expect_equal, run  # noqa: E402

WEFT = os.path.realpath(sys.argv[1])
PATIENCE_S = 60
NAME = "iqn.2026-11.org.example:disk"
# Slow, and not asked here.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"


class Target:
    """
    A target at a free port of this host. lines: of the node; luns: the devices of LUN 0 and on; enter: words that
    begin a command elsewhere; user: its number, who has the folder then.
    """

    def __init__(self, folder, *luns, lines="", target="", secrets=None, address="127.0.0.1", enter=(), user=None):
        self.folder, self.process, self.reader = folder, None, None
        self.enter, self.user = list(enter), user
        if user is not None:
            os.chown(folder, user, user)
        self.conf = os.path.join(folder, "target.conf")
        self.port = 0
        self.portals = 1 + lines.count("iser ")
        self.text = "role iscsi-target\nlisten %s:%%d\n%s\ntarget %s\n%s\n" % (
            address, lines, NAME, target)
        for number, lun in enumerate(luns):
            self.text += "lun %d %s\n" % (number, lun)
        if secrets:
            self.text += "chap secrets\n"
            self.write("secrets", secrets)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
            f.write(text)
        if self.user is not None:
            os.chown(path, self.user, self.user)
        return path

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.wait()
        self.log.close()

    def start(self):
        """The same port again after the first time."""
        self.write("target.conf", self.text % self.port)
        self.log = open(os.path.join(self.folder, "log"), "a+")
        begin = self.log.seek(0, os.SEEK_END)
        self.process = subprocess.Popen([*self.enter, WEFT, "iscsi", "serve", self.conf],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.log, text=True,
                                        preexec_fn=None if self.user is None else as_user(self.user))
        self.ports, self.lines = {}, []
        for line in self.process.stdout:
            self.lines.append(line)
            at = re.search(r" serves at \S+:(\d+) by (\S+)", line)
            if at:
                self.ports[at[2]] = int(at[1])
            if len(self.ports) == self.portals:
                self.port = self.ports["TCP"]
                # A full pipe would stop it.
                self.reader = threading.Thread(target=self.read, daemon=True)
                self.reader.start()
                return
        self.log.seek(begin)
        raise AssertionError("it does not begin: " + self.log.read())

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    def wait(self):
        self.process.wait(timeout=PATIENCE_S)
        if self.reader:
            self.reader.join(PATIENCE_S)
        self.process.stdout.close()
        self.reader = None

    def kill(self):
        self.process.kill()
        self.wait()
        self.log.close()

    def end(self):
        """In order; what it said."""
        self.process.terminate()
        self.wait()
        expect_equal("status of the target", self.process.returncode, 0)
        return "".join(self.lines)

    def url(self, lun=0, user="", options=""):
        """user: NAME%SECRET, as libiscsi has it."""
        return "iscsi://%s127.0.0.1:%d/%s/%d%s" % (user + "@" if user else "", self.port, NAME, lun,
                                                   options)

    def iser_url(self, wire, lun=0):
        """wire: RoCE or iWARP."""
        return "iser://127.0.0.1:%d/%s/%d" % (self.ports["iSER/" + wire], NAME, lun)

    def portal(self, user=""):
        return "iscsi://%s127.0.0.1:%d" % (user + "@" if user else "", self.port)

    def status(self):
        done = run(*self.enter, WEFT, "iscsi", "status", "--json", str(self.process.pid))
        expect_equal("status of weft iscsi status", done.returncode, 0)
        return json.loads(done.stdout)
