#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""reference_test.py WEFT HOST: a host writes to a storage node with two disks, and all is counted.

The storage node, the owner and the host are processes. There is no switch between them: storage_test.py of
the fabric has some.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from roles import PATIENCE_S, WEFT, Roles  # noqa: E402
from script import expect, expect_equal, main, run  # noqa: E402

HOST = os.path.realpath(sys.argv[2])
OFFSET, LENGTH = 65536, 131072
NO_CRC = {"WEFT_CRC": "off"}  # with a CRC the answer to a Read is a copy


def write_by_host(roles, data):
    """What it says of its request: reason, copies in its memory, payload in and out, connections."""
    host = subprocess.Popen([HOST, roles.path("requester.conf"), "disk", str(OFFSET), str(LENGTH)],
                            env=dict(os.environ, **NO_CRC), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    roles.running.append(host)
    host.stdin.write(data)
    host.stdin.flush()
    expect_equal("the host", host.stdout.readline(), b"begin\n")
    said = host.communicate(b"\n", timeout=PATIENCE_S)[0].decode().split()
    expect_equal("status of the host", host.returncode, 0)
    return said


def messages(capture, connection):
    """Those of the connection, once it is made and until one side leaves."""
    found = []
    for line in run(WEFT, "dump", capture).stdout.splitlines():
        m = re.match(r" +[\d.]+ +(\d+) (A>B|B>A)  (Send|RDMA [A-Z]\w+(?: \w+)?|Terminate)", line)
        if not m or m[1] != connection:
            continue
        if m[3] == "Terminate":
            break
        size = re.search(r", (\d+) bytes", line)[1] if m[3].startswith("RDMA") else ""
        found.append(" ".join([m[2], m[3], size]).strip())
    return found


def test_sys_s1_one_command_one_read_one_completion_and_no_copy(folder):
    os.makedirs(folder, exist_ok=True)
    disks = [os.path.join(folder, name) for name in ("first", "second")]
    capture = os.path.join(folder, "capture.pcapng")
    data = os.urandom(LENGTH)
    roles = Roles(folder, "mirror(%s)" % ",".join("file:%s,size=1M" % d for d in disks))
    roles.env["iounit"] = dict(NO_CRC, WEFT_PCAP=capture)
    with roles:
        said = write_by_host(roles, data)
        expect_equal("the end", said[0], "ok")
        expect_equal("copies of the payload in the host's memory", said[1], "0")
        expect_equal("payload that left the host", said[3], str(LENGTH))
        expect_equal("data connections", said[4], "1")
        roles.end(roles.owner)
        roles.end(roles.iounit)
    control, data_way = messages(capture, "1"), messages(capture, "2")
    expect_equal("with the owner: greeting, devices, grant; command; completion; revocation",
                 control, ["A>B Send", "B>A Send", "A>B Send", "B>A Send", "A>B Send",
                           "A>B Send", "B>A Send", "A>B Send"])
    expect_equal("with the host: one read; completion", data_way,
                 ["A>B RDMA Read Request %d" % LENGTH, "B>A RDMA Read Response %d" % LENGTH,
                  "A>B Send"])
    for disk in disks:
        with open(disk, "rb") as f:
            f.seek(OFFSET)
            expect("the bytes are on " + disk, f.read(LENGTH) == data)


main(globals())
