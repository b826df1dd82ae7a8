# SPDX-License-Identifier: BSD-2-Clause
"""weft iou, own and io as processes, with the files that they need. WEFT is the script's first word."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from script import run  # noqa: E402

WEFT = os.path.realpath(sys.argv[1])
PATIENCE_S = 60
# Slow, and not asked here.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"


class Roles:
    """An I/O unit with one device, an owner, and the file of a requester that may do all."""

    def __init__(self, folder, device, **more):
        """more: lines for the file of a role. Variables of its environment are in env."""
        self.folder, self.device, self.running = folder, device, []
        self.more, self.env = more, {}

    def __enter__(self):
        keys = {who: run(WEFT, "key", "new", self.path(who + ".key")).stdout.strip()
                for who in ("owner", "iounit", "requester")}
        self.write("iounit", "owner o 1.1 %s\ndevice 1 disk %s\n" % (keys["owner"], self.device))
        self.iounit, at = self.start("iou", "iounit")
        self.write("owner", "iounit u 2.1 %s %s\nrequester q 3.1 %s\nallow q all *\n" %
                   (keys["iounit"], at, keys["requester"]))
        self.owner, at = self.start("own", "owner")
        self.write("requester", "owner o 1.1 %s %s\n" % (keys["owner"], at))
        return self

    def __exit__(self, *_):
        for role in reversed(self.running):
            if role.poll() is None:
                role.kill()
            role.communicate(timeout=PATIENCE_S)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, role, text):
        with open(self.path(role + ".conf"), "w") as f:
            f.write("role %s\nlisten 127.0.0.1:0\n%s%s" % (role, text, self.more.get(role, "")))

    def start(self, command, role):
        """The process, and where it says that it is."""
        process = subprocess.Popen([WEFT, command, self.path(role + ".conf")],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **self.env.get(role, {})})
        self.running.append(process)
        for line in process.stdout:
            if " at 127.0.0.1:" in line:
                return process, line.split()[-1]
        raise AssertionError("it does not begin: " + process.stderr.read())

    def io(self, *words, **wishes):
        return subprocess.run([WEFT, "io", self.path("requester.conf"), *words],
                              timeout=PATIENCE_S, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              **{"stdin": subprocess.DEVNULL, **wishes})

    def end(self, process):
        """In order; what it complained of."""
        process.terminate()
        return process.communicate(timeout=PATIENCE_S)[1]
