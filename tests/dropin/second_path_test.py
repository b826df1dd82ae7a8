#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""second_path_test.py WEFT: two hosts, each a namespace, that two links join; one of them is pulled.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import subprocess
import sys
import time

from network import Network
from script import PATIENCE_S, Skip, environment, expect, expect_equal, main

WEFT = os.path.realpath(sys.argv[1])
MOVED = 8 << 20  # bytes that tell data from what keeps a link alive


class Neighbour(Network):
    """A second namespace, of the same user namespace as the first."""

    def __init__(self, first):
        self.holder = subprocess.Popen(
            first.enter("unshare", "-n", "sh", "-c", "ip link set lo up && echo up && exec cat"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if self.holder.stdout.readline().strip() != "up":
            self.close()
            raise Skip("no second network namespace here")


class Hosts:
    """10.9.0.1 and 10.9.0.2, which are no link's: whichever leads there may be taken."""

    def __enter__(self):
        near = Network()
        self.ends = [near, Neighbour(near)]
        for link in "01":
            near.ip("link", "add", "link" + link, "type", "veth", "peer", "name", "link" + link, "netns",
                    str(self.ends[1].holder.pid))
            for end, host in enumerate(self.ends):
                host.ip("addr", "add", "10.9.%d.%d/24" % (1 + int(link), 1 + end), "dev", "link" + link)
                host.ip("link", "set", "link" + link, "up")
        for end, host in enumerate(self.ends):
            host.ip("addr", "add", "10.9.0.%d/32" % (1 + end), "dev", "lo")
            ways = [word for link in "12" for word in ("nexthop", "via", "10.9.%s.%d" % (link, 2 - end))]
            host.ip("route", "add", "10.9.0.%d/32" % (2 - end), "src", "10.9.0.%d" % (1 + end), *ways)
        return self

    def __exit__(self, *_):
        for host in reversed(self.ends):
            host.close()

    def start(self, end, *words):
        return subprocess.Popen(self.ends[end].enter(WEFT, *words), stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment())

    def sent(self):
        """Bytes that left the first host, by link."""
        said = subprocess.run(self.ends[0].enter("cat", "/proc/net/dev"), stdout=subprocess.PIPE, text=True).stdout
        return [int(re.search(r"link%d:(?: +\d+){8} +(\d+)" % link, said)[1]) for link in (0, 1)]

    def pull(self, link):
        for host in self.ends:
            host.ip("link", "set", "link%d" % link, "down")

    def await_bytes(self, link, program, before):
        end = time.monotonic() + PATIENCE_S
        while self.sent()[link] < before + MOVED:
            if program.poll() is not None or time.monotonic() > end:
                raise AssertionError("nothing goes by link %d: %s" % (link, program.stdout.read()))
            time.sleep(0.01)


def test_iwarp_15_link_that_fails_is_not_seen_where_another_way_leads(_folder):
    with Hosts() as hosts:
        server = hosts.start(1, "perf", "--listen", "10.9.0.2:7475", "--once")
        expect("it listens", server.stdout.readline())
        client = hosts.start(0, "perf", "--quiet", "--seconds", "6", "10.9.0.2:7475")
        try:
            end = time.monotonic() + PATIENCE_S
            sent = [0, 0]
            while max(sent) < MOVED:
                expect("data goes out", client.poll() is None and time.monotonic() < end)
                time.sleep(0.01)
                sent = hosts.sent()
            by = sent.index(max(sent))
            other = sent[1 - by]
            expect("%d bytes by the other link" % other, other < MOVED)
            hosts.pull(by)
            hosts.await_bytes(1 - by, client, other)
            said, _ = client.communicate(timeout=PATIENCE_S)
            expect_equal("client: " + said, client.returncode, 0)
            expect_equal("server", server.wait(PATIENCE_S), 0)
        finally:
            for program in client, server:
                program.kill()
                program.communicate()


main(globals())
