# SPDX-License-Identifier: BSD-2-Clause
"""What the attack scripts share: networks of their own, other users, and a victim to watch.

A script defines test_... functions and ends with main(globals()); each test attacks and expects the
attack to fail. Results are said as tests/dropin/script.py says them.
"""
import ctypes
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../dropin"))
from script import (NOBODY, PATIENCE_S, Skip, compile_c, environment, expect,  # noqa: E402,F401
                    expect_equal, main, need, run, write)

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def network():
    """Takes this process, and what it starts from now on, into a new network with only lo, or skips."""
    need("ip")
    user, group = os.geteuid(), os.getegid()
    flags = CLONE_NEWNET if user == 0 else CLONE_NEWNET | CLONE_NEWUSER
    if LIBC.unshare(flags) != 0:
        raise Skip("no network namespace of its own can be had: " + os.strerror(ctypes.get_errno()))
    if user != 0:
        for name, text in (("setgroups", "deny"), ("uid_map", "0 %d 1" % user),
                           ("gid_map", "0 %d 1" % group)):
            with open("/proc/self/" + name, "w") as f:
                f.write(text)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def need_users():
    """Skips unless processes of other users can be started."""
    with open("/proc/self/uid_map") as f:
        ids = sum(int(line.split()[2]) for line in f)
    if os.geteuid() != 0 or ids <= NOBODY:
        raise Skip("only root of all users can act as another user")


def as_user(uid):
    """For preexec_fn: a process of another user, with no rights but that user's."""
    def change():
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    return change


def place_for_all(folder):
    """Makes a test's folder one that other users can look into and write to, as /tmp is."""
    os.chmod(folder, 0o1777)
    return folder


def until(what, condition, patience_s=PATIENCE_S):
    """Awaits that a condition comes true; fails if it does not."""
    end = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(what + ": not within %d s" % patience_s)
        time.sleep(0.01)


class Attacker:
    """A process of another user that runs a function, then stays until it is told to go.

    The function returns a list that is kept, whose last member is in `.said` as text. The process is a
    fork of this one: the other user may not be able to read this program, but what it imported is there.
    """

    def __init__(self, function, *arguments, user=NOBODY):
        from_child, to_parent = os.pipe()
        from_parent, self.to_child = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.to_child)
            os.close(from_child)
            self.attack(function, arguments, user, to_parent, from_parent)
        os.close(to_parent)
        os.close(from_parent)
        with os.fdopen(from_child) as f:
            self.said = f.read()
        if not self.said.startswith("said "):
            self.go()
            raise AssertionError("the attacker failed: " + self.said)
        self.said = self.said[len("said "):]

    @staticmethod
    def attack(function, arguments, user, to_parent, from_parent):
        try:
            as_user(user)()
            kept = function(*arguments)  # sockets that it returns stay open with their list
            os.write(to_parent, b"said " + str(kept[-1]).encode())
            os.close(to_parent)
            os.read(from_parent, 1)
        except BaseException as why:
            os.write(to_parent, repr(why).encode())
        os._exit(0)

    def go(self):
        if self.pid:
            os.close(self.to_child)
            os.waitpid(self.pid, 0)
            self.pid = 0

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.go()


class Children:
    """Processes of a test, which end with it: `with Children() as start: start(words)`."""

    def __init__(self):
        self.all = []

    def __enter__(self):
        return self.start

    def start(self, *words, user=None, **wishes):
        env = environment(**wishes)
        child = subprocess.Popen(words, env=env, text=True, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 preexec_fn=as_user(user) if user is not None else None)
        self.all.append(child)
        return child

    def __exit__(self, *why):
        for child in self.all:
            child.kill()
            child.communicate()


def copy_for_all(folder, *files):
    """Copies programs to where every user may run them; their new paths."""
    made = []
    for file in files:
        to = os.path.join(folder, os.path.basename(file))
        shutil.copy(file, to)
        os.chmod(to, 0o755)
        made.append(to)
    return made
