# SPDX-License-Identifier: BSD-2-Clause
"""An I/O unit, an owner and an nbdkit that serves a directed device, each a process of its own."""
import os
import re
import shutil
import subprocess
import tempfile
import time

from runner import (LOOK_EVERY_S, Patience, Process, Side, free_port, is_listening, judge_text,
                    tail)

START_S = 20
ROLES = ("owner", "iounit", "requester")

FILES = {
    "owner": """role owner
self 1.1
key owner.key
listen 127.0.0.1:{owner_port}
log decisions.log
iounit disks 2.1 {iounit} 127.0.0.1:{iounit_port}
requester kit 7.1 {requester}
{allow}
""",
    "iounit": """role iounit
self 2.1
key iounit.key
listen 127.0.0.1:{iounit_port}
owner boss 1.1 {owner}
device 1 disk {device}
""",
    "requester": """role requester
self 7.1
key requester.key
listen 127.0.0.1:0
owner boss 1.1 {owner} 127.0.0.1:{owner_port}
""",
}


class Failure(Exception):
    """Why a case failed."""


class Tools:
    """Where what is tested is, and in which environment it runs."""

    def __init__(self, weft, plugin, sanitizer_env=None, patience=1):
        self.weft, self.plugin = os.path.abspath(weft), os.path.abspath(plugin)
        self.kit_env = sanitizer_env or {}
        # weft itself has its sanitizer inside; looking for leaks takes seconds a process.
        self.env = dict(os.environ, LC_ALL="C")
        self.env.update({k: v for k, v in self.kit_env.items() if k != "LD_PRELOAD"})
        self.patience = patience


class Cluster:
    """With one device, "disk"; DIR in its description is the folder of this cluster."""

    def __init__(self, tools, device, allow="allow kit all disks/*"):
        self.tools = tools
        self.folder = tempfile.mkdtemp(prefix="weft-nbd-")
        self.processes = {}
        self.ports = {"owner": free_port(), "iounit": free_port()}
        self.uri = "nbd+unix:///?socket=" + self.path("socket")
        keys = {role: self.make_key(role) for role in ROLES}
        for role in ROLES:
            with open(self.path(role + ".conf"), "w", encoding="utf-8") as f:
                f.write(FILES[role].format(
                    owner_port=self.ports["owner"], iounit_port=self.ports["iounit"], allow=allow,
                    device=device.replace("DIR", self.folder), **keys))
            os.chmod(self.path(role + ".conf"), 0o600)

    def path(self, name):
        return os.path.join(self.folder, name)

    def make_key(self, role):
        done = subprocess.run([self.tools.weft, "key", "new", self.path(role + ".key")],
                              check=True, stdout=subprocess.PIPE, text=True, env=self.tools.env)
        return re.search("[0-9a-f]{64}", done.stdout)[0]

    # --- roles ---------------------------------------------------------------------------------

    def launch(self, name, words, env=None):
        self.processes[name] = Process(Side(words), words, self.folder, name,
                                       dict(self.tools.env, **(env or {})))
        return self.processes[name]

    def start(self, role):
        command = {"owner": "own", "iounit": "iou"}[role]
        process = self.launch(role, [self.tools.weft, command, self.path(role + ".conf")])
        self.await_true(lambda: is_listening(process.process.pid, self.ports[role]),
                        "the %s does not listen" % role, process)

    def kill(self, role):
        self.processes[role].process.kill()
        self.processes[role].process.wait()

    def kit_words(self, *parameters):
        return ["nbdkit", "-f", "-U", self.path("socket"), "-P", self.path("kit.pid"),
                self.tools.plugin, "config=" + self.path("requester.conf"), "device=disk"] + \
            list(parameters)

    def start_kit(self, *parameters):
        process = self.launch("nbdkit", self.kit_words(*parameters), self.tools.kit_env)
        # Its last step before it serves; then it is asked.
        self.await_true(lambda: os.path.exists(self.path("kit.pid")), "nbdkit does not begin",
                        process)

    def start_all(self, *parameters):
        self.start("iounit")
        self.start("owner")
        self.start_kit(*parameters)

    def await_true(self, what, why, process=None):
        deadline = time.monotonic() + START_S * self.tools.patience
        while not what():
            if (process and process.has_ended()) or time.monotonic() > deadline:
                raise Failure(why)
            time.sleep(LOOK_EVERY_S)  # no event tells: it is polled

    # --- programs ------------------------------------------------------------------------------

    def run(self, words, says=(), says_not=(), status=0, seconds=60):
        """Runs a program to its end; what it said. DIR and URI in its words are replaced."""
        words = [w.replace("DIR", self.folder).replace("URI", self.uri) for w in words]
        name = "program%d" % len(self.processes)
        process = self.launch(name, words, self.tools.kit_env if words[0] == "nbdkit" else None)
        if not process.await_end(Patience(seconds * self.tools.patience, [process.process.pid])):
            raise Failure("%s does not end" % words[0])
        why = judge_text(Side(words, list(says), list(says_not)), process.output())
        if not why and status is not None and process.process.returncode != status:
            why = "ends with status %d, not %s" % (process.process.returncode, status)
        if why:
            raise Failure("%s %s" % (words[0], why))
        return process.output()

    def kit_says(self):
        return self.processes["nbdkit"].output()

    def expect_kit_says(self, pattern):
        if not re.search(pattern, self.kit_says()):
            raise Failure("nbdkit does not say \"%s\"" % pattern)

    def expect_decision(self, pattern):
        """In the owner's log, where it is a few milliseconds later."""
        until = time.monotonic() + START_S * self.tools.patience
        while True:
            is_late = time.monotonic() > until
            with open(self.path("decisions.log"), encoding="utf-8") as f:
                if re.search(pattern, f.read()):
                    return
            if is_late:
                raise Failure("the owner's log has no \"%s\"" % pattern)
            time.sleep(LOOK_EVERY_S)

    def check_kit(self):
        """It must be there still, and no sanitizer may have spoken, of a role neither."""
        if "nbdkit" in self.processes and self.processes["nbdkit"].has_ended():
            raise Failure("nbdkit did not stay")
        for name, process in self.processes.items():
            why = judge_text(Side([]), process.output())
            if why:
                raise Failure("%s %s" % (name, why))

    def end(self):
        # nbdkit first: it says good-bye to its peers while they run.
        for process in reversed(list(self.processes.values())):
            process.end()

    def show(self):
        for name, process in self.processes.items():
            if process.output():
                print("  %s:\n%s" % (name, tail(process.output())), end="")

    def remove(self):
        shutil.rmtree(self.folder)
