#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""pages_test.py WEFT DIRECTED ROOT: a cluster that is set up as docs/rio.md says, and weft cluster.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from script import environment, expect, expect_equal, main, run  # noqa: E402

WEFT, DIRECTED, ROOT = (os.path.realpath(path) for path in sys.argv[1:4])
PATIENCE_S = 60
# Slow, and not asked here.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
MIB = 1 << 20


def page(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def blocks():
    """name: the commands of that block of docs/rio.md."""
    return dict(re.findall(r"^```sh ([a-z-]+)\n(.*?)^```", page("docs/rio.md"), re.M | re.S))


def free_ports(count):
    """Ports that no other process uses at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Cluster:
    """The one of docs/rio.md, in a folder; its roles are started here, to be ended by their ids."""

    def __init__(self, folder, more=""):
        """more: lines that every configuration has besides the page's."""
        self.folder, self.roles, self.more = folder, [], more
        self.env = environment(PATH=os.path.dirname(WEFT) + ":" + os.environ["PATH"])
        self.ports = dict(zip(("7470", "7471"), free_ports(2)))

    def __enter__(self):
        self.shell("set-up")
        for name in "disks", "owner", "app", "screen":
            with open(os.path.join(self.folder, name + ".conf"), "a") as f:
                f.write(self.more)
        for line in blocks()["start"].splitlines():
            words = line.split()
            expect_equal("a command in the background", words[-1], "&")
            self.roles.append(subprocess.Popen(words[:-1], cwd=self.folder, env=self.env,
                                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                               stderr=subprocess.STDOUT, text=True))
        return self

    def __exit__(self, *_):
        for role in self.roles:
            if role.poll() is None:
                role.terminate()
            role.communicate(timeout=PATIENCE_S)

    def shell(self, name):
        """A block of the page; its ports are replaced by free ones."""
        text = re.sub("|".join(self.ports), lambda said: str(self.ports[said[0]]), blocks()[name])
        done = subprocess.run(["sh", "-eu", "-c", text], cwd=self.folder, env=self.env,
                              timeout=PATIENCE_S, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        expect_equal("status of %s: %s" % (name, done.stdout + done.stderr), done.returncode, 0)
        return done.stdout, done.stderr

    def weft(self, *words):
        return subprocess.run([WEFT, *words], cwd=self.folder, env=self.env, timeout=PATIENCE_S,
                              stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)

    def seen(self):
        done = self.weft("cluster", "screen.conf", "--once", "--json")
        expect_equal("status: " + done.stderr, done.returncode, 0)
        return json.loads(done.stdout)

    def await_disk(self):
        """Both roles have begun: the I/O unit has offered its device to the owner."""
        end_s = time.monotonic() + PATIENCE_S
        while "disk" not in self.weft("io", "app.conf", "list").stdout:
            expect("the disk is offered in time", time.monotonic() < end_s)

    def end(self, nth):
        """A role in order; what it said."""
        self.roles[nth].terminate()
        said = self.roles[nth].communicate(timeout=PATIENCE_S)[0]
        expect_equal("status: " + said, self.roles[nth].returncode, 0)
        return said


def carried(said):
    return [int(n) for n in re.search(r"carried payload in (\d+) out (\d+), control in (\d+) out "
                                      r"(\d+), data connections (\d+)\n", said).groups()]


def test_rio_s6_sys_12_the_cluster_of_the_page_works(folder):
    with Cluster(folder) as cluster:
        said = cluster.shell("use")[0]
        expect("the device: " + said, re.search(r"^disk +67108864 bytes", said, re.M))
        expect("it was measured: " + said, "random" in said or "sequential" in said)
        said, complaint = cluster.shell("refused")
        expect("the log: " + said, "refused 3.1#" in said and "33554432+1048576: rio_denied" in said)
        expect("who asked is told: " + complaint, "(rio_denied)" in complaint)
        said = cluster.shell("watch")[0]
        expect("the owner carried nothing: " + said, "payload: 0 bytes in, 0 bytes out;" in said)
        expect("the unit: " + said, re.search(r"^disks +2\.1 +0 +\d+ +0 +0 .* 8\.0 MiB", said, re.M))
        owner, unit = carried(cluster.end(1)), carried(cluster.end(0))
    expect_equal("payload at the owner", owner[:2], [0, 0])
    expect("control at the owner", owner[2] > 0 and owner[3] > 0)
    expect("payload at the unit: %s" % unit, unit[0] >= 8 * MIB and unit[1] >= 8 * MIB)
    expect("connections at the unit: %s" % unit, unit[4] >= 2)


def test_rio_03_cluster_shows_every_peer(folder):
    with Cluster(folder) as cluster:
        cluster.shell("use")
        seen = cluster.seen()
        owner = seen["owner"]
        expect_equal("the owner", (owner["name"], owner["platform"]), ("boss", "1.1"))
        expect_equal("its payload", (owner["payload_in"], owner["payload_out"]), (0, 0))
        expect("its control", owner["control_in"] > 0 and owner["control_out"] > 0)
        expect_equal("its data connections", owner["data_connections"], 0)
        who = {r["name"]: r for r in seen["requesters"]}
        expect_equal("requesters", sorted(who), ["app", "screen"])
        expect_equal("who is connected", [who["app"]["connected"], who["screen"]["connected"]],
                     [False, True])
        unit, = seen["iounits"]
        expect_equal("the unit", (unit["name"], unit["platform"], unit["connected"]),
                     ("disks", "2.1", True))
        expect_equal("bytes written", unit["written"], 8 * MIB)
        expect("bytes read", unit["read"] >= 8 * MIB)
        device, = seen["devices"]
        expect_equal("the device", (device["name"], device["platform"], device["size"],
                                    device["block"], device["readonly"]),
                     ("disk", "2.1", 64 * MIB, 512, False))
        # An I/O unit that is gone is shown so, without its devices.
        cluster.end(0)
        end = time.monotonic() + PATIENCE_S
        while cluster.seen()["iounits"][0]["connected"]:
            expect("it is noticed", time.monotonic() < end)
        expect_equal("devices", cluster.seen()["devices"], [])


def test_rio_03_denied_watch_is_answered_and_logged(folder):
    with Cluster(folder) as cluster:
        for words in (("--once",), ("--json", "--once"), ()):
            done = cluster.weft("cluster", "app.conf", *words)
            expect_equal("status", done.returncode, 1)
            expect_equal("nothing is shown", done.stdout, "")
            expect("why: " + done.stderr, "(rio_denied)" in done.stderr)
        with open(os.path.join(folder, "decisions.log")) as f:
            log = f.read()
        expect("the log: " + log, log.count("refused 3.1 watch: rio_denied") == 3)


def test_rio_02_roles_that_spin_work_as_others_do(folder):
    with Cluster(folder, "spin 200us\n") as cluster:
        said = cluster.shell("use")[0]
        expect("the device: " + said, re.search(r"^disk +67108864 bytes", said, re.M))
        complaint = cluster.shell("refused")[1]
        expect("who asked is told: " + complaint, "(rio_denied)" in complaint)
        expect_equal("bytes written", cluster.seen()["iounits"][0]["written"], 8 * MIB)
        cluster.end(1)
        cluster.end(0)


def looks(*words, **where):
    """
    How much a command looks, in processor time (ms) and in times that it let others run: one that
    spins yields after each look, so on a busy machine it has little time and many switches.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([WEFT, *words], timeout=PATIENCE_S, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, **where)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    expect_equal("status: " + done.stderr, done.returncode, 1)
    time_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1000 * time_s + after.ru_nvcsw - before.ru_nvcsw + after.ru_nivcsw - before.ru_nivcsw


def test_rio_02_io_spins_as_its_file_says_or_its_option(folder):
    """There is no owner: it waits, and looks for one all the time or sleeps."""
    with Cluster(folder) as cluster:
        cluster.await_disk()
        cluster.end(1)
        cluster.end(0)
    with open(os.path.join(folder, "app.conf")) as f:
        plain = f.read()
    with open(os.path.join(folder, "spin.conf"), "w") as f:
        f.write(plain + "spin 1s\n")
    # Beside other work a second is too short for a command that spins to get much of the processor.
    for wait in "1s", "4s", "16s":
        words = "list", "--wait", wait
        quiet = looks("io", "app.conf", *words, cwd=folder)
        by_option = looks("io", "app.conf", *words, "--spin", "1s", cwd=folder)
        by_file = looks("io", "spin.conf", *words, cwd=folder)
        against_file = looks("io", "spin.conf", *words, "--spin", "0s", cwd=folder)
        if min(by_option, by_file) > 2 * max(quiet, against_file):
            return
    expect("spinning looks more: %d quiet, %d by option, %d by file, %d against it" %
           (quiet, by_option, by_file, against_file), False)


def log_of(folder):
    with open(os.path.join(folder, "decisions.log")) as f:
        return f.read()


def test_rio_03_the_log_is_whole_when_the_owner_has_ended(folder):
    with Cluster(folder) as cluster:
        cluster.seen()
        for count in range(1, 4):
            done = cluster.weft("io", "app.conf", "write", "disk", "--at", "32M", "--length", "512",
                                "--file", "/dev/zero", "--quiet")
            expect_equal("status: " + done.stderr, done.returncode, 1)
            expect_equal("refusals that are there at once", log_of(folder).count(" refused 3.1#"),
                         count)
        done = cluster.weft("io", "app.conf", "read", "disk", "--length", "2M", "--block", "4k",
                            "--file", "/dev/null", "--quiet")
        expect_equal("status: " + done.stderr, done.returncode, 0)
        cluster.end(1)
    log = log_of(folder)
    expect_equal("each request that was allowed", log.count(" allowed 3.1#"), 512)
    expect_equal("and that it went well", log.count(" 4096 bytes\n"), 512)


def test_cluster_is_live(folder):
    with Cluster(folder) as cluster:
        watch = subprocess.Popen([WEFT, "cluster", "screen.conf", "--json"], cwd=folder,
                                 env=cluster.env, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, text=True)
        try:
            first = json.loads(watch.stdout.readline())
            cluster.shell("use")
            while json.loads(watch.stdout.readline())["iounits"][0]["written"] != 8 * MIB:
                pass
            expect_equal("before", first["iounits"][0]["written"] if first["iounits"] else 0, 0)
        finally:
            watch.send_signal(signal.SIGTERM)
            watch.stdout.close()
            watch.wait(timeout=PATIENCE_S)


def test_cluster_without_an_owner_says_so(folder):
    with Cluster(folder) as cluster:
        cluster.seen()  # it has begun
        cluster.end(1)
        done = cluster.weft("cluster", "screen.conf", "--once", "--wait", "200ms")
        expect_equal("status", done.returncode, 1)
        expect("why: " + done.stderr, "weft cluster: the owner: " in done.stderr)
        done = cluster.weft("cluster", "owner.conf", "--once")
        expect_equal("status", done.returncode, 1)
        expect("whose file it is: " + done.stderr, "owner.conf" in done.stderr)


def test_cluster_says_how_it_is_called(folder):
    for words in ((), ("a", "b"), ("a", "--wait"), ("a", "--wait", "x"), ("a", "--live")):
        done = run(WEFT, "cluster", *words)
        expect_equal("status of %r" % (words,), done.returncode, 2)
        expect("usage: " + done.stderr, "usage: weft cluster FILE" in done.stderr)
    done = run(WEFT, "cluster", "--help")
    expect_equal("status", done.returncode, 0)
    expect("usage: " + done.stdout, "usage: weft cluster FILE" in done.stdout)


def test_sys_12_the_example_runs(folder):
    done = run(DIRECTED)
    expect_equal("status: " + done.stdout + done.stderr, done.returncode, 0)
    expect("both ways", "written and read back: 2 MiB in two fragments each" in done.stdout)
    expect("a denial", "outside of what the rule allows: rio_denied" in done.stdout)
    expect("no payload: " + done.stdout, done.stdout.rstrip().endswith("the owner 0"))


def test_rio_page_shows_lines_of_the_example(folder):
    example = page("examples/directed.c")
    shown, = re.findall(r"^```c\n(.*?)^```", page("docs/rio.md"), re.M | re.S)
    for line in shown.splitlines():
        expect("in examples/directed.c: " + line, line.strip() in example)


def test_rio_pages_name_files_and_calls_that_are_there(folder):
    header = page("include/weft/rio.h")
    for name in "docs/rio.md", "docs/security.md":
        text = page(name)
        for call in set(re.findall(r"`(weft_rio_[a-z_]+[a-z])`", text)):
            expect("%s: %s" % (name, call), call + "(" in header)
        for link in re.findall(r"\]\(([^)#]+)\)", text):
            expect("%s: %s" % (name, link), os.path.exists(os.path.join(ROOT, "docs", link)))
        reasons = set(re.findall(r"`((?:rio|peer)_[a-z_]+)`", text))
        for reason in reasons:
            expect_equal("%s: %s" % (name, reason), run(WEFT, "explain", reason).returncode, 0)


main(globals())
