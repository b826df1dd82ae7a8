#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""parts_test.py WEFT: fabrics that are cut into parts, each a process in a network namespace of its own.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import signal
import socket
import subprocess
import sys
import threading

sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), "../card")]
from live import (Fabric, HOSTS, PATIENCE_S, TRIANGLE, WEFT, environment, expect, expect_equal, meet, need, read,
                  topology_of, up, wait_until)  # noqa: E402
from card import Namespace, key_make  # noqa: E402
from script import main, write  # noqa: E402

IP = ["192.0.2.1", "192.0.2.2"]
PORT = 7490
H3_IP = "127.1.0.2"  # port 1 of the third node of TRIANGLE


def port_free():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cut_make(folder, *parts, address=IP[0], port=PORT, alive="10s"):
    """The file of parts a, b and so on, and their keys: nodes of each; the first one listens."""
    path = os.path.join(folder, "parts")
    text = "alive %s\n" % alive
    for number, _ in enumerate(parts):
        name = "abc"[number]
        text += "part %s %s%s\n" % (name, key_make(folder, name), " %s:%d" % (address, port) if number == 0 else "")
    for number, nodes in enumerate(parts):
        text += "".join("nodes %s %s\n" % ("abc"[number], node) for node in nodes.split())
    return write(path, text, 0o644)


class Part(Fabric):
    """A part of a fabric; what it says is read as it comes."""

    def __init__(self, folder, name, path, inside=(), text=TRIANGLE):
        own = os.path.join(folder, "part-" + name)
        os.makedirs(own, exist_ok=True)
        super().__init__(own, text, name="parts-%d-%s" % (os.getpid(), name), inside=inside,
                         options=["--parts", path, "--part", name])
        self.lines = []

    def __enter__(self):
        super().__enter__()
        self.reader = threading.Thread(target=self.read, args=[self.process.stdout], daemon=True)
        self.reader.start()
        return self

    def read(self, stream):
        for line in stream:
            self.lines.append(line)

    def __exit__(self, *_):
        for program in reversed(self.started):
            program.end()
        self.process.terminate()
        self.process.wait(timeout=PATIENCE_S)
        self.reader.join()
        self.process.stdout.close()

    def refused(self, *words):
        """What a command of weft fabric says that is refused."""
        done = subprocess.run([*self.inside, WEFT, "fabric", *words], env=self.env(), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S)
        expect_equal("weft fabric %s: %s" % (" ".join(words), done.stdout), done.returncode, 1)
        return done.stdout

    def await_line(self, text, times=1):
        wait_until(lambda: "it says %r: %s" % (text, "".join(self.lines)),
                   lambda: "".join(self.lines).count(text) >= times)


class Two:
    """Two network namespaces, joined by a cable."""

    def __init__(self):
        need("unshare", "nsenter", "ip")
        self.spaces = [Namespace()]
        self.spaces.append(Namespace(self.spaces[0]))
        a, b = self.spaces
        a.must("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", str(b.holder.pid))
        for space, ip in zip(self.spaces, IP):
            space.must("ip", "address", "add", ip + "/24", "dev", "eth0")
            space.must("ip", "link", "set", "eth0", "up")

    def __enter__(self):
        return [space.enter() for space in self.spaces]

    def __exit__(self, *_):
        for space in reversed(self.spaces):
            space.close()


def test_fab_09_a_node_of_another_host(folder):
    """H3 is on the second host, all else on the first one."""
    need("ib_write_bw", "ibv_rc_pingpong", "ibnetdiscover")
    path = cut_make(folder, "S* H1 H2 H4 H5", "H3")
    with Two() as (first, second), Part(folder, "a", path, first) as a, Part(folder, "b", path, second) as b:
        a.await_line("part b is joined")
        up(a)
        a.await_active("H1", "H2", "H4", "H5")
        b.await_active("H3")
        meet(b, "H3", "H2", "ib_write_bw", "-n", "200", to_host=IP[1], other=a)
        meet(a, "H5", "H3", "ib_write_bw", "-n", "200", to_host=IP[0], other=b)
        meet(a, "H5", "H3", "ibv_rc_pingpong", "-n", "100", to_host=IP[0], other=b)
        meet(b, "H3", "H2", "ib_send_lat", "-n", "20", "-R", to_host=H3_IP, other=a)
        expect("management from there", '"H5"' in b.run("H3", "ibnetdiscover"))
        said = a.run("H3", "ibstat", status=None)
        expect("H3 is not here: " + said, "in part b of the fabric, and this is part a: run it where weft fabric run "
               "--part b runs, at %s. (fabric_part)" % IP[1] in said)
        said = b.refused("cut", "S1:3")
        expect("nor S1 there: " + said, "in part a of the fabric" in said and "at " + IP[0] in said)


def test_fab_13_a_part_that_is_killed_is_missed_at_once_and_may_come_back(folder):
    need("ibv_rc_pingpong")
    path = cut_make(folder, "S* H1 H2 H4 H5", "H3")
    with Two() as (first, second), Part(folder, "a", path, first) as a:
        with Part(folder, "b", path, second) as b:
            up(a)
            b.await_active("H3")
            b.process.kill()
            a.await_line("part b is gone")
        expect("where it would be", "that part is not joined now" in a.run("H3", "ibstat", status=None))
        wait_until("H3 is gone", lambda: '"H3"' not in a.run("H1", "ibnetdiscover"))
        meet(a, "H5", "H2", "ibv_rc_pingpong", "-n", "20")
        with Part(folder, "b", path, second) as b:
            b.await_active("H3")
            meet(a, "H5", "H3", "ibv_rc_pingpong", "-n", "20", to_host=IP[0], other=b)
            a.process.kill()
            b.await_line("part a is gone")
            wait_until("the link of H3 is down", lambda: "State: Down" in b.state("H3"))


def test_fab_13_a_part_that_is_stopped_is_missed_and_comes_back_when_it_goes_on(folder):
    """Its host answers for it, so TCP sees nothing; first the end that dials, then the one that listens."""
    need("ibv_rc_pingpong")
    path = cut_make(folder, "S* H1 H2 H4 H5", "H3", alive="2s")
    with Two() as (first, second), Part(folder, "a", path, first) as a, Part(folder, "b", path, second) as b:
        manager = up(a)
        b.await_active("H3")
        for times, (one, other, state) in enumerate([(b, a, None), (a, b, "H3")], 1):
            traps = read(manager.log).count("num:128")
            one.process.send_signal(signal.SIGSTOP)
            try:
                other.await_line("has said nothing")
                if state:
                    wait_until("the link of H3 is down", lambda: "State: Down" in b.state("H3"))
                else:
                    wait_until("H3 is gone", lambda: '"H3"' not in a.run("H1", "ibnetdiscover"))
                    manager.await_log("num:128", traps + 1)
            finally:
                one.process.send_signal(signal.SIGCONT)
            other.await_line("is joined", times + 1)
            b.await_active("H3")
            meet(a, "H5", "H3", "ibv_rc_pingpong", "-n", "20", to_host=IP[0], other=b)


def test_fab_09_a_fabric_of_two_halves(folder):
    """Two trunks join them, S1-S2 and S1-S3: one subnet manager, and a cut of one of both ways."""
    need("ib_write_bw", "ibv_rc_pingpong", "ibtracert", "perfquery")
    path = cut_make(folder, "S1 H1 H2", "*")
    with Two() as (first, second), Part(folder, "a", path, first) as a, Part(folder, "b", path, second) as b:
        b.await_line("part a is joined")
        up(a)
        a.await_active("H1", "H2")
        b.await_active("H3", "H4", "H5")
        for host in HOSTS:
            expect("all are seen", '"%s"' % host in b.run("H4", "ibnetdiscover"))
        meet(b, "H3", "H2", "ib_write_bw", "-n", "200", to_host=IP[1], other=a)
        meet(a, "H1", "H5", "ib_write_bw", "-n", "200", to_host=IP[0], other=b)
        a.weft("cut", "S1:3")
        wait_until("the other way", lambda: '"S3"' in a.run("H2", "ibtracert", str(a.lid("H2")), str(b.lid("H3")),
                                                            status=None))
        meet(b, "H3", "H2", "ib_write_bw", "-n", "200", to_host=IP[1], other=a)
        a.weft("mend", "S1:3")
        a.weft("errors", "S1:4", "100000")
        meet(b, "H5", "H2", "ib_write_bw", "-n", "200", to_host=IP[1], other=a)


def test_fab_09_three_parts_in_a_row_on_one_host(folder):
    """c is joined with a only, and b with a: addresses are passed on."""
    need("ib_send_lat", "ib_write_bw")
    path = cut_make(folder, "S2 H4", "S* H1 H2 H5", "H3", address="127.0.0.1", port=port_free())
    with Part(folder, "a", path) as a, Part(folder, "b", path) as b, Part(folder, "c", path) as c:
        a.await_line("part b is joined")
        a.await_line("part c is joined")
        up(b)
        c.await_active("H3")
        b.await_active("H2")
        meet(c, "H3", "H2", "ib_write_bw", "-n", "100", other=b)
        meet(c, "H3", "H2", "ib_send_lat", "-n", "20", "-R", to_host=H3_IP, other=b)
        said = c.weft("top", "--once")
        expect("only the cable of H3: " + said, said.count(" - ") == 1 and "H3:1" in said)


# ---- Refusals ------------------------------------------------------------------------------------

def is_closed(s):
    """The other end has ended the connection."""
    s.settimeout(PATIENCE_S)
    try:
        while s.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


def alone(folder):
    """Part a of two, at a port of this host."""
    port = port_free()
    path = cut_make(folder, "S* H1 H2 H4 H5", "H3", address="127.0.0.1", port=port)
    return port, Part(folder, "a", path)


def test_bytes_that_no_part_sends_end_their_connection_with_a_reason(folder):
    port, part = alone(folder)
    with part as a:
        for number, said in enumerate([b"\0\0\0\0", b"\0\0\x01\x41" + bytes(400), b"\xff" * 8, b"GET / HTTP/1.1\r\n\r\n",
                                       b"\0\0\0\x08" + bytes(8), b"\0\0\x01\x40" + bytes(320)]):
            with socket.create_connection(("127.0.0.1", port)) as s:
                s.sendall(said)
                expect("it is ended", is_closed(s))
            a.await_line("refused a connection from 127.0.0.1", number + 1)
        expect("it runs", a.process.poll() is None)


def test_a_connection_that_says_half_a_greeting_ends_in_time(folder):
    port, part = alone(folder)
    with part as a, socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(b"\0\0\0")
        expect("it is ended", is_closed(s))
        a.await_line("refused a connection")


def test_a_flood_of_connections_takes_no_more_than_its_room(folder):
    port, part = alone(folder)
    with part as a:
        held = []
        for _ in range(100):
            s = socket.create_connection(("127.0.0.1", port))
            s.sendall(b"\0\0")
            held.append(s)
        for s in held[:84]:
            expect("the older ones have made room", is_closed(s))
        files = os.listdir("/proc/%d/fd" % a.process.pid)
        expect("it has %d files open" % len(files), len(files) < 40)
        for s in held:
            s.close()


def test_a_key_that_is_not_known_is_refused(folder):
    """Its own file says otherwise."""
    port, part = alone(folder)
    liar = os.path.join(folder, "liar")
    os.makedirs(liar)
    with part as a:
        path = cut_make(liar, "S* H1 H2 H4 H5", "H3", address="127.0.0.1", port=port)
        with open(os.path.join(folder, "parts"), encoding="utf-8") as f:
            key = f.read().split()[4]
        text = open(path, encoding="utf-8").read()
        write(path, text.replace(text.split()[4], key), 0o644)  # it knows the key of a
        with Part(liar, "b", path) as b:
            a.await_line("refused a connection")
            b.await_line("part a cannot be joined")
            wait_until("the link is down", lambda: "State: Down" in b.state("H3"))
        expect("nothing joined: %s" % a.lines, "is joined" not in "".join(a.lines))


def test_parts_of_different_topologies_do_not_join(folder):
    port, part = alone(folder)
    other = topology_of("S1:1 H1:1,S1:2 H2:1,S2:1 H3:1,S2:2 H4:1,S3:1 H5:1,S1:3 S2:3,S1:4 S3:4,S2:5 S3:3")
    with part as a, Part(folder, "b", os.path.join(folder, "parts"), text=other):
        a.await_line("another topology")


def test_files_of_parts_that_make_no_sense_are_refused(folder):
    key = key_make(folder, "a")
    cases = {
        "part a " + key[1:]: "64 hexadecimal digits",
        "part a %s nowhere" % key: "an address is",
        "part a %s\npart b %s" % (key, key): "another part has this key",
        "nodes a H1": "no part of this name",
        "part b " + key: "there is no part a",
        "part a %s\nnodes a H*" % key: "is in no part",
        "part a %s\nnodes a *\npart c %s\nalive 1us" % (key, key_make(folder, "c")): "a time of silence",
        "part c %s\npart a %s\nnodes c H1\nnodes a *" % (key_make(folder, "d"), key): "needs an address",
        "part a %s\nnodes a *" % key_make(folder, "e"): "the key of this part is another one",
    }
    topology = write(os.path.join(folder, "topology"), TRIANGLE, 0o644)
    for text, why in cases.items():
        path = write(os.path.join(folder, "parts"), text + "\n", 0o644)
        done = subprocess.run([WEFT, "fabric", "run", topology, "--parts", path, "--part", "a"], env=environment(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=PATIENCE_S)
        expect_equal(text + ": " + done.stdout, done.returncode, 1)
        expect("%s: %s" % (text, done.stdout), why in done.stdout)


main(globals())
