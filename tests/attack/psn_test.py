#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""psn_test.py VICTIM: RoCE packets in a peer's name, with the right QP number and any sequence number.

The attacker knows the addresses and QP numbers of both ends. What it does not know is where their sequence
numbers are; it tries numbers all over the 2^24.
"""
import os
import random
import struct
import sys
import time

from attack import Children, expect, main
from wire import Lan, Tap, Victims, bth, ethernet, roce, roce_parts

VICTIM = os.path.realpath(sys.argv[1])
SEND_ONLY, ACK, GSI = 4, 0x11, 1
NAK_SEQUENCE, NAK_ACCESS = 0x60, 0x62
FORGED = 2000


def qpn_of(part):
    return struct.unpack("!I", part[4:8])[0] & 0xffffff


def is_data(frame):
    parts = roce_parts(frame)
    return parts and qpn_of(parts[2]) != GSI


def numbers_of(tap, ends):
    """The QP numbers that packets to each of two addresses have."""
    found = {}
    while len(found) < 2:
        parts = roce_parts(tap.read(is_data))
        found[parts[1]] = qpn_of(parts[2])
    return [found[end.ipv4] for end in ends]


def is_nak(frame, to):
    parts = roce_parts(frame)
    if not parts or parts[1] != to.ipv4 or parts[2][0] != ACK:
        return False
    return parts[2][12] & 0x60 == 0x60


def test_forged_requests_of_any_number_bring_few_naks(folder):
    """Each NAK makes the true peer send again all that it has on its way."""
    with Lan(3) as (server, client, mallory), Children() as start:
        heard, tap = Tap(client), Tap(mallory)
        victims = Victims(start, VICTIM, (server, client))
        victims.go_on("before the attack")
        qpn = numbers_of(heard, (server, client))[0]
        draw, naks, began = random.Random(5), 0, time.monotonic()
        for i in range(FORGED):
            packet = bth(SEND_ONLY, qpn, draw.getrandbits(24), asks=True) + b"forged!!"
            tap.send(ethernet(mallory, server, roce(client.ipv4, server.ipv4, packet)))
            if i % 20 == 0:
                victims.go_on("during the attack", 1)
            naks += sum(is_nak(f, client) for f in heard.drain())
        victims.go_on("after the attack")
        naks += sum(is_nak(f, client) for f in heard.drain())
        took = time.monotonic() - began
        most = 10 * took + 10
        expect("NAKs: %d in %.1f s, at most %d" % (naks, took, most), naks <= most)


def test_forged_naks_end_no_connection(folder):
    with Lan(3) as (server, client, mallory), Children() as start:
        heard, tap = Tap(client), Tap(mallory)
        victims = Victims(start, VICTIM, (server, client))
        victims.go_on("before the attack")
        ends = (server, client)
        numbers = numbers_of(heard, ends)
        draw = random.Random(6)
        for i in range(2 * FORGED):
            to, source, qpn = ends[i % 2], ends[1 - i % 2], numbers[i % 2]
            answer = struct.pack("!I", (NAK_ACCESS if i % 3 else NAK_SEQUENCE) << 24)
            packet = bth(ACK, qpn, draw.getrandbits(24)) + answer
            tap.send(ethernet(mallory, to, roce(source.ipv4, to.ipv4, packet)))
        victims.go_on("after the attack")


main(globals())
