#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""storage_test.py WEFT HOST: a host writes to a storage node with two disks, by iSER across two switches of a fabric,
and all that passes between the switches is counted.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../iscsi")]
from live import Fabric, PATIENCE_S, WEFT, expect, expect_equal, topology_of, up, wait_until  # noqa: E402
from script import main, run  # noqa: E402
from target import NAME, Target  # noqa: E402

HOST = os.path.realpath(sys.argv[2])
# So little that what is captured waits in a socket, however slow the one is that writes it to a file.
OFFSET, LENGTH = 65536, 32768
SIZE = 1 << 20
# A host, a storage node, and two switches between them.
LINE = topology_of("S1:1 H1:1,S1:3 S2:3,S2:1 H2:1")
HOSTS = ("H1", "H2")


class Storage(Target):
    """A node of the fabric with two disks, which are one mirror."""

    def __init__(self, fabric, folder):
        self.disks = [os.path.join(folder, name) for name in ("first", "second")]
        super().__init__(folder, "mirror(%s)" % ",".join("file:%s,size=%d" % (d, SIZE) for d in self.disks),
                         lines="iser roce 127.0.0.1:0\nalive 600s\n", target="\nallow any",
                         enter=["env", "WEFT_FABRIC=" + fabric.name, WEFT, "run", "--node", "H2"])

    def url_at(self, host):
        return "iser://%s:%d/%s/0" % (host, self.ports["iSER/RoCE"], NAME)


def frames(capture):
    """Of reliable connections: source and destination, operation, PSN, bytes."""
    found = []
    for line in run(WEFT, "dump", capture).stdout.splitlines():
        m = re.search(r"LID (\d+) > (\d+), .*  RC ([A-Z]+ [\w ]+|Acknowledge), QP \w+, PSN (\w+)(.*)", line)
        if m:
            size = re.search(r", (\d+) bytes", m[5])
            found.append((int(m[1]), int(m[2]), m[3], int(m[4], 16), int(size[1]) if size else 0))
    return found


def sends(found, a, b):
    """How many messages; a frame that was sent again has its PSN."""
    return len({psn for source, to, what, psn, _ in found if (source, to) == (a, b) and what.startswith("SEND")})


def reads(found, a, b, mtu):
    """Lengths of what is asked for; what is asked for again, from some byte on, has PSNs of the same."""
    asked = []
    for source, to, what, psn, size in found:
        if (source, to) == (a, b) and what == "READ Request" and not any(
                (psn - first & 0xffffff) < (length + mtu - 1) // mtu for first, length in asked):
            asked.append((psn, size))
    return [length for _, length in asked]


def write_by_host(fabric, storage, capture, data):
    """One command, of which all frames between the switches are captured; what the host says of it."""
    host = subprocess.Popen([WEFT, "run", "--node", "H1", HOST, storage.url_at("H2"), str(OFFSET), str(LENGTH)],
                            env=fabric.env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        host.stdin.write(data)
        host.stdin.flush()
        expect_equal("the host", host.stdout.readline(), b"begin\n")
        tap = fabric.weft_start("capture", "S1:3", capture)
        tap.await_line("capturing to")
        host.stdin.write(b"\n")
        host.stdin.flush()
        said = host.stdout.readline().decode().split()
        to, by = fabric.lid("H2"), fabric.lid("H1")
        wait_until("the completion is captured", lambda: sends(frames(capture), to, by) > 0)
        tap.end()
        carried = json.loads(run(WEFT, "stat", "--json", str(host.pid)).stdout)["adapters"][0]
        expect_equal("payload that the adapter of the host copied (SYS-06)", carried["payload_copied"], 0)
        expect("payload that it sent: %d" % carried["payload_out"], carried["payload_out"] >= LENGTH)
        expect("the capture lost nothing: " + tap.said(), " 0 lost" in tap.said())
        host.communicate(b"\n", timeout=PATIENCE_S)
        expect_equal("status of the host", host.returncode, 0)
    finally:
        if host.poll() is None:
            host.kill()
            host.communicate()
    return said


def test_sys_s1_sys_06_a_host_a_switch_and_a_storage_node(folder):
    capture, data = os.path.join(folder, "capture"), os.urandom(LENGTH)
    with Fabric(folder, LINE) as fabric:
        up(fabric)
        fabric.await_active(*HOSTS)
        with Storage(fabric, folder) as storage:
            expect_equal("the end, and copies of the payload in the host's memory",
                         write_by_host(fabric, storage, capture, data), ["ok", "0"])
            storage.end()
        host, node = (fabric.lid(name) for name in HOSTS)
        found = frames(capture)
        expect_equal("commands of the host", sends(found, host, node), 1)
        expect_equal("reads of the host's buffer", reads(found, node, host, 4096), [LENGTH])
        expect_equal("reads of the host", reads(found, host, node, 4096), [])
        expect_equal("completions of the storage node", sends(found, node, host), 1)
        expect("nothing is written", not [f for f in found if "WRITE" in f[2]])
        for disk in storage.disks:
            with open(disk, "rb") as f:
                f.seek(OFFSET)
                expect("the bytes are on " + disk, f.read(LENGTH) == data)


def test_sys_s1_disks_by_name_by_gid_and_by_address_of_a_node(folder):
    data = os.urandom(LENGTH)
    path = os.path.join(folder, "data")
    with open(path, "wb") as f:
        f.write(data)
    with Fabric(folder, LINE, options=("--spin", "200us")) as fabric:
        up(fabric)
        fabric.await_active(*HOSTS)
        with Storage(fabric, folder) as storage:
            gid = re.search(r"serves at \[(\S+)\]:\d+ by iSER/RoCE", "".join(storage.lines))[1]
            # Of node 1, as nodes are counted from 0 in their order in the topology: H1, H2, S1, S2.
            for number, host in enumerate(("H2", "[%s]" % gid, "127.1.0.1")):
                fabric.run("H1", WEFT, "iscsi", "write", storage.url_at(host), path, "--offset", str(number * LENGTH),
                           "--verify", "--quiet")
            said = fabric.run("H1", WEFT, "iscsi", "discover", "iser://H2:%d" % storage.ports["iSER/RoCE"])
            expect(said, NAME in said and "[%s]" % gid in said)
            said = fabric.run("H1", WEFT, "iscsi", "info", storage.url_at("127.1.0.9") + "?wire=roce", status=1)
            expect("there is no node 9: " + said, "127.1.0.9" in said)
            storage.end()
        for disk in storage.disks:
            with open(disk, "rb") as f:
                expect("three times the bytes on " + disk, f.read(3 * LENGTH) == 3 * data)


main(globals())
