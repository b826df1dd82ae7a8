#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""silent_test.py VICTIM: TCP connections to an iWARP listener that say nothing, or almost nothing.

The server has few descriptors. The attacker opens more connections than that and keeps them; peers that
are there must go on, others must come in, and the server must keep most of its descriptors.
"""
import os
import sys
import time

from attack import Children, expect, main, need, until
from wire import PORT, Lan, Victims

VICTIM = os.path.realpath(sys.argv[1])
DESCRIPTORS, CONNECTIONS = 256, 600

# Opens connections, says a few bytes of an MPA request or nothing on each, and keeps them.
ATTACK = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
kept = []
for i in range(int(sys.argv[3])):
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
    if sys.argv[4]:
        s.sendall(sys.argv[4].encode())
    kept.append(s)
print("open", flush=True)
sys.stdin.read()
"""


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def attack(first_bytes):
    need("prlimit")
    with Lan(4) as (server, client, mallory, late), Children() as start:
        victims = Victims(start, VICTIM, (server, client), device="iw_eth0",
                          before=("prlimit", "--nofile=%d" % DESCRIPTORS))
        victims.go_on("before the attack")
        before = descriptors(victims.server.pid)
        attacker = start(*mallory.enter, sys.executable, "-c", ATTACK, server.ipv4, str(PORT),
                         str(CONNECTIONS), first_bytes)
        # More than the listener takes may stay with the kernel: then connecting takes long.
        until("some connections", lambda: descriptors(attacker.pid) > 100)
        began = time.monotonic()
        for host in (late, client):
            victims.connect(host)
        took = time.monotonic() - began
        expect("new connections within 15 s: %.1f s" % took, took < 15)
        held = descriptors(victims.server.pid) - before
        expect("descriptors that the silent hold: %d" % held, held <= DESCRIPTORS // 4)
        victims.go_on("after the attack")


def test_connections_without_a_word_keep_no_peer_out(folder):
    attack("")


def test_connections_that_begin_a_request_keep_no_peer_out(folder):
    attack("MPA ID Req")


main(globals())
