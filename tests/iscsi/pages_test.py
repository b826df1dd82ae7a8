#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""pages_test.py WEFT ROOT: what docs/iscsi.md says a user does, from nothing to a machine that boots.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import socket
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../dropin"))
from script import environment, expect, expect_equal, main, need, run  # noqa: E402

WEFT, ROOT = (os.path.realpath(path) for path in sys.argv[1:3])
PATIENCE_S = 120
MIB = 1 << 20
# Slow, and not asked here.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"


def page():
    with open(os.path.join(ROOT, "docs/iscsi.md"), encoding="utf-8") as f:
        return f.read()


def block(name):
    """The commands of that block of the page."""
    return re.search(r"^```sh %s\n(.*?)^```" % name, page(), re.M | re.S)[1]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Page:
    """The target of the page, in a folder; ended by its id."""

    def __init__(self, folder):
        self.folder, self.port, self.target = folder, free_port(), None
        self.env = environment(PATH=os.path.dirname(WEFT) + ":" + os.environ["PATH"])

    def __enter__(self):
        self.shell("disk")
        self.shell("configure")
        words = block("start").split()
        expect_equal("a command in the background", words[-1], "&")
        self.target = subprocess.Popen(words[:-1], cwd=self.folder, env=self.env, text=True,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        for line in self.target.stdout:
            if " serves at " in line:
                return self
        raise AssertionError("the target of the page does not begin")

    def __exit__(self, *_):
        if self.target.poll() is None:
            self.target.kill()
        self.target.communicate(timeout=PATIENCE_S)

    def shell(self, name):
        """A block of the page, at a free port: what it said."""
        text = block(name).replace("3260", str(self.port))
        done = subprocess.run(["sh", "-eu", "-c", text], cwd=self.folder, env=self.env,
                              timeout=PATIENCE_S, stdin=subprocess.DEVNULL, text=True,
                              errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        expect_equal("status of %s: %s" % (name, done.stdout), done.returncode, 0)
        return done.stdout


def test_iscsi_the_machine_of_the_page_boots(folder):
    need("qemu-system-x86_64")
    with Page(folder) as shown:
        said = shown.shell("boot")
        expect("it boots: " + said, "hello from iSCSI\r\n" in said or "hello from iSCSI\n" in said)
        shown.target.terminate()
        said = shown.target.communicate(timeout=PATIENCE_S)[0]
        expect_equal("status of the target", shown.target.returncode, 0)
        expect("QEMU logged in: " + said, "session of iqn.2008-11.org.linux-kvm" in said)


def test_iscsi_the_clients_of_the_page_see_the_disk(folder):
    need("iscsi-ls", "qemu-img")
    with Page(folder) as shown:
        said = shown.shell("use")
        expect("the LUN: " + said, "Lun:0    Type:DIRECT_ACCESS" in said)
        expect("its size: " + said, "64 MiB" in said)
        expect("the status: " + said, "target iqn.2026-11.org.example:disk" in said)
        expect_equal("the file", os.path.getsize(os.path.join(folder, "disk.img")), 64 * MIB)


def test_iscsi_the_page_knows_every_line_of_the_configuration(_):
    with open(os.path.join(ROOT, "src/iscsi/target/config.c"), encoding="utf-8") as f:
        said = set(re.findall(r'"a line is: ([a-z-]+) ', f.read()))
    text = page()
    for word in said:
        expect("the page has a line %s" % word, re.search(r"[`\n ]%s [a-zA-Z]" % word, text))
    expect("lines are known", len(said) > 14)


def test_iscsi_the_pages_links_are_there(_):
    for link in re.findall(r"\]\(([^)#]+)\)", page()):
        expect(link, os.path.exists(os.path.join(ROOT, "docs", link)))
    for path in re.findall(r"`(tests/[a-z_./]+)`", page()):
        expect(path, os.path.exists(os.path.join(ROOT, path)))


def test_iscsi_help_names_what_the_page_uses(_):
    said = run(WEFT, "iscsi", "--help").stdout
    for words in re.findall(r"weft iscsi ([a-z]+)", page()):
        expect("weft iscsi %s: %s" % (words, said), "weft iscsi " + words in said)


main(globals())
