# SPDX-License-Identifier: BSD-2-Clause
"""A split network card between network namespaces of a script's own. WEFT is the script's first word.

    server --- LAN --- unit === wire === host        or more hosts, each by a wire of its own

Every line is a veth pair; the LAN is a bridge of the unit's namespace only where there is more than a server.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin")]
from script import PATIENCE_S, Skip, environment, expect, expect_equal, need, run  # noqa: E402

WEFT = os.path.realpath((sys.argv + [""])[1])  # a bench that imports this sets it
# Slow, and not asked here.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["PATH"] += ":/usr/sbin:/sbin"
SERVER, HOST = "192.0.2.1", "192.0.2.2"
SERVER6, HOST6 = "fd00:7::1", "fd00:7::2"


def wait_until(what, is_true):
    """A condition, with patience: looked at again and again."""
    end = time.monotonic() + PATIENCE_S
    while not is_true():
        if time.monotonic() > end:
            raise AssertionError("waited in vain: " + what)
        time.sleep(0.02)


class Namespace:
    """Of the network; all of one script are in one user namespace. It lives until its holder's input ends."""

    def __init__(self, inside=None):
        words = inside.enter("unshare", "-n") if inside else ["unshare", "-rnm"]
        self.holder = subprocess.Popen(
            [*words, "sh", "-c", "ip link set lo up && mount -t sysfs none /sys 2>/dev/null; echo up && exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = self.holder.stdout.readline().strip()
        if said != "up":
            self.close()
            raise Skip("no network namespace here: " + said)

    def enter(self, *words):
        return ["nsenter", "--target", str(self.holder.pid), "--user", "--net", "--mount",
                "--preserve-credentials", *words]

    def run(self, *words, **wishes):
        return run(*self.enter(*words), **wishes)

    def must(self, *words):
        done = self.run(*words)
        expect_equal(" ".join(words) + ": " + done.stdout + done.stderr, done.returncode, 0)
        return done.stdout

    def start(self, *words, wishes=None, **options):
        return subprocess.Popen(self.enter(*words), env=environment(**(wishes or {})), stdin=subprocess.DEVNULL, text=True,
                                **options)

    def close(self):
        self.holder.stdin.close()
        self.holder.wait(timeout=PATIENCE_S)
        self.holder.stdout.close()


def ended(process):
    """Ends a program that runs until it is told to."""
    process.terminate()
    process.wait(timeout=PATIENCE_S)


def made_file(folder, mib):
    """A file that compresses badly: its path, and its digest."""
    path = os.path.join(folder, "page")
    digest = hashlib.sha256()
    with open(path, "wb") as f:
        for _ in range(mib):
            piece = os.urandom(1 << 20)
            digest.update(piece)
            f.write(piece)
    return path, digest.hexdigest()


class HttpServer:
    """On the LAN; it serves the folder of a file."""

    def __init__(self, card, path):
        need("ss")
        self.log = open(path + ".log", "w", encoding="utf-8")
        self.process = card.server.start(sys.executable, "-u", "-m", "http.server", "--bind", SERVER, "8080",
                                         "--directory", os.path.dirname(path), stdout=self.log, stderr=self.log)
        wait_until("the server listens", lambda: ":8080" in card.server.must("ss", "-ltn"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ended(self.process)
        self.log.close()

    def said(self):
        with open(self.log.name, encoding="utf-8") as f:
            return f.read()


def key_make(folder, name):
    done = run(WEFT, "key", "new", os.path.join(folder, name + ".key"))
    expect_equal("weft key: " + done.stderr, done.returncode, 0)
    return next(word for word in done.stdout.split() if len(word) == 64)


class End:
    """weft card unit or host as a process."""

    def __init__(self, namespace, verb, path):
        self.namespace, self.verb, self.path, self.process = namespace, verb, path, None
        self.words = []  # before the command
        self.lines, self.wishes = [], {}  # of the environment

    def start(self):
        self.process = self.namespace.start(*self.words, WEFT, "card", self.verb, self.path, wishes=self.wishes,
                                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.lines = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.await_line(" card %s " % self.verb)

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    def said(self):
        return "".join(self.lines)

    def await_line(self, text, times=1):
        wait_until("%s says %r; it says %s" % (self.verb, text, self.said()),
                   lambda: self.said().count(text) >= times or
                   (self.process.poll() is not None and not self.reader.is_alive()))
        expect("%s says %r: %s" % (self.verb, text, self.said()), self.said().count(text) >= times)

    def status(self):
        done = self.namespace.run(WEFT, "card", "status", "--json", str(self.process.pid))
        expect_equal("weft card status: " + done.stderr, done.returncode, 0)
        return json.loads(done.stdout)

    def link(self):
        links = self.status()["links"]
        expect("there is a link: " + self.said(), links)
        return links[0]

    def kill(self):
        self.process.kill()
        self.wait()

    def end(self):
        """In order; what it said."""
        self.process.terminate()
        self.wait()
        expect_equal("status of %s; it said %s" % (self.verb, self.said()), self.process.returncode, 0)
        return self.said()

    def wait(self):
        self.process.wait(timeout=PATIENCE_S)
        self.reader.join(PATIENCE_S)
        self.process.stdout.close()


class Card:
    """
    A server, a unit and hosts. lan: port of the unit; port: of hosts; lines: more of all files; unit_lines,
    host_lines: of one kind; wire_mtu: of the wires between them.
    """

    def __init__(self, folder, wire="roce", hosts=1, lan="packet:lan0", port="tap:card0", lines="", unit_lines="",
                 host_lines="", macs=(), wire_mtu=1500):
        need("unshare", "nsenter", "ip", "ping")
        self.lan_port, self.port, self.wire_mtu = lan, port, wire_mtu
        self.folder, self.wire, self.lines = folder, wire, lines
        self.unit_lines, self.host_lines, self.macs = unit_lines, host_lines, list(macs) + [""] * hosts
        self.spaces, self.ends = [], []
        try:
            self.make(hosts)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def space(self):
        self.spaces.append(Namespace(self.spaces[0] if self.spaces else None))
        return self.spaces[-1]

    def pair(self, one, one_name, other, other_name):
        self.spaces[0].must("ip", "link", "add", one_name, "type", "veth", "peer", "name", other_name)
        for space, name in ((one, one_name), (other, other_name)):
            if space is not self.spaces[0]:
                self.spaces[0].must("ip", "link", "set", name, "netns", str(space.holder.pid))
            space.must("ip", "link", "set", name, "up")

    def make(self, hosts):
        self.unit_space = self.space()
        self.server = self.space()
        self.pair(self.unit_space, "lan0", self.server, "srv0")
        self.server.must("ip", "addr", "add", SERVER + "/24", "dev", "srv0")
        self.server.must("ip", "addr", "add", SERVER6 + "/64", "dev", "srv0", "nodad")
        self.host_spaces = [self.space() for _ in range(hosts)]
        for i, space in enumerate(self.host_spaces):
            self.pair(self.unit_space, "wu%d" % i, space, "wh%d" % i)
            for end, name in ((self.unit_space, "wu%d" % i), (space, "wh%d" % i)):
                end.must("ip", "link", "set", name, "mtu", str(self.wire_mtu))
            self.unit_space.must("ip", "addr", "add", "198.51.100.%d/31" % (2 * i), "dev", "wu%d" % i)
            space.must("ip", "addr", "add", "198.51.100.%d/31" % (2 * i + 1), "dev", "wh%d" % i)
        if not os.path.exists("/dev/net/tun"):
            raise Skip("there is no /dev/net/tun")
        self.files(hosts)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
            f.write(text)
        return path

    def files(self, hosts):
        unit_key = key_make(self.folder, "unit")
        keys = [key_make(self.folder, "host%d" % i) for i in range(hosts)]
        common = "wire %s\n%s\n" % (self.wire, self.lines)
        unit = "role card-unit\nself 2.1\nkey unit.key\nlan %s\nlisten :7480\n" % self.lan_port
        unit += common + self.unit_lines + "\n"
        for i, key in enumerate(keys):
            unit += "host h%d 3.%d %s %s\n" % (i, i + 1, key, self.macs[i])
        self.unit = End(self.unit_space, "unit", self.write("unit.conf", unit))
        self.hosts = []
        for i, space in enumerate(self.host_spaces):
            text = "role card-host\nself 3.%d\nkey host%d.key\ncard %s\n" % (i + 1, i, self.port)
            text += "unit u 2.1 %s 198.51.100.%d:7480\n" % (unit_key, 2 * i) + common + self.host_lines + "\n"
            self.hosts.append(End(space, "host", self.write("host%d.conf" % i, text)))
        self.ends = [self.unit, *self.hosts]

    def start(self):
        """All of them; each host has its address on the LAN."""
        self.unit.start()
        for i, host in enumerate(self.hosts):
            host.start()
            host.await_line(" is connected")
            if self.port.startswith("tap:card0"):
                self.address(i)
        return self

    def address(self, i=0):
        space = self.host_spaces[i]
        space.must("ip", "addr", "replace", "192.0.2.%d/24" % (i + 2), "dev", "card0")
        space.must("ip", "addr", "replace", "fd00:7::%d/64" % (i + 2), "dev", "card0", "nodad")
        space.must("ip", "link", "set", "card0", "up")

    def ping(self, *words, host=0, count=3):
        """
        The first requests are all answered. Without -w ping waits for the last reply no longer than for those before;
        with it, it sends more while a reply is late.
        """
        done = self.host_spaces[host].run("ping", "-c", str(count), "-i", "0.1", "-w", str(PATIENCE_S // 2), *words)
        expect_equal("ping %s: %s" % (" ".join(words), done.stdout + done.stderr), done.returncode, 0)
        answered = sorted(int(n) for n in re.findall(r"icmp_seq=(\d+) ", done.stdout))
        expect_equal("answered: " + done.stdout, answered[:count], list(range(1, count + 1)))
        return done.stdout

    def close(self):
        for end in self.ends:
            if end.process and end.process.poll() is None:
                end.process.kill()
                end.process.wait(timeout=PATIENCE_S)
        for space in reversed(self.spaces):
            space.close()
