#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""icmp_test.py VICTIM: an attacker forges ICMP errors about a RoCE connection's packets; and a true one.

Off the path it knows the addresses of both ends and nothing else: it tries all source ports that weft sends from.
On the path it quotes packets that are out.
"""
import os
import struct
import sys
import time

from attack import Children, expect, main, until
from wire import (ROCE_PORT, Lan, Tap, Victims, checksum, ethernet, ip_header, packed,
                  roce_parts, udp_header)

VICTIM = os.path.realpath(sys.argv[1])
SOURCE_PORTS = range(0xc000, 0x10000)
TOO_SMALL = {4: 552, 6: 1280}
UDP_BYTES, ICMP_BYTES, IP_BYTES = 8, 8, {4: 20, 6: 40}


def icmp(family, kind, about):
    """(type, code, the 32 bits that follow the checksum) for each family."""
    forms = {"too big": {4: (3, 4, TOO_SMALL[4]), 6: (2, 0, TOO_SMALL[6])},
             "port unreachable": {4: (3, 3, 0), 6: (1, 4, 0)}}
    return struct.pack("!BBHI", *forms[kind][family][:2], 0, forms[kind][family][2]) + about


def error_about(mallory, sender, receiver, ports, kind, family):
    """An ICMP error to the sender, from nowhere special, about a packet of its to the receiver."""
    ends = sender.address(family), receiver.address(family)
    inner = ip_header(*ends, 17, 8 + 1080) + udp_header(*ports, 1080)
    return error_frame(mallory, sender, mallory.address(family), kind, inner)


def error_frame(mallory, sender, source, kind, about):
    """The same, from that address, about the packet that begins so."""
    family = 6 if ":" in source else 4
    to = sender.address(family)
    body = icmp(family, kind, about)
    pseudo = b""
    if family == 6:
        pseudo = packed(source) + packed(to) + struct.pack("!II", len(body), 58)
    body = body[:2] + struct.pack("!H", checksum(pseudo + body)) + body[4:]
    packet = ip_header(source, to, 1 if family == 4 else 58, len(body)) + body
    return ethernet(mallory, sender, packet)


def errors_about(mallory, sender, receiver, kind, family):
    """One about every pair of ports, of which only the ports and the checksum differ."""
    def plain(ports):
        return error_about(mallory, sender, receiver, ports, kind, family)
    frame = bytearray(plain((0, 0)))
    ports_at = len(frame) - UDP_BYTES
    sum_at = ports_at - IP_BYTES[family] - ICMP_BYTES + 2
    rest = 0xffff - struct.unpack_from("!H", frame, sum_at)[0]
    # The sockets that receive have weft's own port.
    pairs = [(port, ROCE_PORT) for port in SOURCE_PORTS] + [(ROCE_PORT, port) for port in SOURCE_PORTS]
    for ports in pairs:
        total = rest + sum(ports)
        while total > 0xffff:
            total = (total & 0xffff) + (total >> 16)
        struct.pack_into("!HH", frame, ports_at, *ports)
        struct.pack_into("!H", frame, sum_at, 0xffff - total)
        if ports in (pairs[0], pairs[-1]) and frame != plain(ports):
            raise AssertionError("the checksum of ports %d and %d is wrong" % ports)
        yield frame


def attack(kind, family):
    with Lan(3) as (server, client, mallory), Children() as start:
        victims = Victims(start, VICTIM, (server, client), family)
        victims.go_on("before the attack")
        tap = Tap(mallory)
        for sender, receiver in ((client, server), (server, client)):
            for frame in errors_about(mallory, sender, receiver, kind, family):
                tap.send(frame)
            victims.go_on("after the attack on %s" % sender.address(family))


def test_fragmentation_needed_ipv4(folder):
    attack("too big", 4)


def test_packet_too_big_ipv6(folder):
    attack("too big", 6)


def test_port_unreachable_ipv4(folder):
    attack("port unreachable", 4)


def test_port_unreachable_ipv6(folder):
    attack("port unreachable", 6)


FORGED, QUOTED_BYTES = 500, 128


def test_errors_that_quote_what_is_out_end_nothing(folder):
    """In the name of the true peer, about requests that it has not answered yet."""
    for family in (4, 6):
        with Lan(3) as (server, client, mallory), Children() as start:
            heard, tap = Tap(client), Tap(mallory)
            victims = Victims(start, VICTIM, (server, client), family)
            victims.go_on("before the attack")
            for _ in range(FORGED):
                frame = heard.read(lambda f: (roce_parts(f) or ("",))[0] == client.address(family))
                tap.send(error_frame(mallory, client, server.address(family), "port unreachable",
                                     frame[14:14 + QUOTED_BYTES]))
            victims.go_on("after the attack")


def test_rc_04_a_killed_peer_is_missed_at_once(folder):
    """Its host says so. By its silence it would be missed after some seconds.

    The client reads: one that has its acknowledgement, and awaits an echo, sends nothing that could come back.
    """
    for family in (4, 6):
        with Lan(2) as (server, client), Children() as start:
            victims = Victims(start, VICTIM, (server, client), family, more=("read",))
            victims.go_on("before the end", more=2)
            victims.server.kill()
            began = time.monotonic()
            until("the client ends", lambda: victims.client.poll() is not None)
            took = time.monotonic() - began
            why = victims.client.stderr.read()
            expect("it has lost its peer: " + why, "transport retry counter exceeded" in why)
            expect("at once: %.2f s" % took, took < 1)


main(globals())
