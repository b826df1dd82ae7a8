#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""raw_test.py BUILD_DIR: a program on raw datagrams, and the host's own ping at the other end.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import sys

from script import Skip, expect, expect_equal, main, need, run

BUILD = os.path.realpath(sys.argv[1])
EXAMPLE = os.path.join(BUILD, "examples/raw_ping")

# The host has an address there as soon as the example has made the interface.
# It is gone with the example, and answers that the host has not looked at yet with it: so the last one is not
# among those that count.
PINGS = """
mkfifo ready
"$0" weft0 fd00::2 4 > ready & example=$!
read line < ready
ip address add fd00::1/64 dev weft0 nodad && ip link set weft0 up &&
ping -n -c 3 -i 0.2 -W 10 -s 1000 fd00::2 || kill $example
ping -n -q -c 1 -W 1 fd00::2 > last
wait $example
"""


def in_own_network(folder, script, *words):
    need("unshare", "ip", "ping")
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        raise Skip("this host has no TUN interfaces")
    if run("unshare", "-rn", "true").returncode != 0:
        raise Skip("no network namespace of its own can be had")
    return run("unshare", "-rn", "sh", "-c", 'cd "$1"; ' + script, *words, folder)


def test_raw_01_the_host_pings_a_program(folder):
    ended = in_own_network(folder, PINGS, EXAMPLE)
    expect_equal("status: " + ended.stdout + ended.stderr, ended.returncode, 0)
    expect_equal("answers", len(re.findall(r"1008 bytes from fd00::2: icmp_seq", ended.stdout)), 3)
    expect("none is lost: " + ended.stdout, " 0% packet loss" in ended.stdout)


def test_raw_01_a_name_that_is_taken_is_refused_with_the_reason(folder):
    ended = in_own_network(folder, '"$0" lo fd00::2', EXAMPLE)
    expect_equal("status", ended.returncode, 1)
    expect("the reason: " + ended.stderr, ended.stderr.startswith("lo: ") and "(tun_name)" in ended.stderr)


main(globals())
