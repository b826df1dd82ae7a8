#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""psn_test.py VICTIM WEFT: RoCE packets in a peer's name, with the right QP number and any sequence number.

The attacker knows the addresses and QP numbers of both ends. What it does not know is where their sequence
numbers are; it tries numbers all over the 2^24.
"""
import os
import random
import re
import signal
import struct
import sys
import time

from attack import Children, expect, main, run, until
from wire import Lan, Tap, Victims, bth, ethernet, roce, roce_parts

VICTIM, WEFT = (os.path.realpath(path) for path in sys.argv[1:])
SEND_ONLY, READ_REQUEST, ACK, GSI = 4, 0x0c, 0x11, 1
READ_ANSWERS = range(0x0d, 0x11)
NAK_SEQUENCE, NAK_ACCESS = 0x60, 0x62
FORGED = 2000
NEAR, NAKS = 4096, 64  # as far ahead a number is believed; as many are sent in a Read


def qpn_of(part):
    return struct.unpack("!I", part[4:8])[0] & 0xffffff


def psn_of(part):
    return struct.unpack("!I", part[8:12])[0] & 0xffffff


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
        expect("NAKs: %d in %.1f s, 1 to %d" % (naks, took, most), 1 <= naks <= most)


def read_request(frame):
    """(sequence number, responses of 4096 bytes) of a Read; None if the frame is none."""
    parts = roce_parts(frame)
    if not parts or parts[2][0] != READ_REQUEST:
        return None
    return psn_of(parts[2]), struct.unpack("!I", parts[2][24:28])[0] // 4096


def is_answer_of(frame, to):
    parts = roce_parts(frame)
    return parts and parts[1] == to.ipv4 and parts[2][0] in READ_ANSWERS


def stop_in_a_read(heard, server, client):
    """Stops the server early in a Read; the sequence numbers that are answered much later."""
    for _ in range(50):
        heard.drain()
        heard.has_lost()
        psn, count = read_request(heard.read(read_request))
        os.kill(server.pid, signal.SIGSTOP)
        answers = [psn_of(roce_parts(f)[2]) for f in heard.drain() if is_answer_of(f, client)]
        answered = max(((n - psn) & 0xffffff for n in answers), default=0)
        # What is asked for again, after a loss, may be a short rest.
        if count >= 4 * NEAR and answered < 2 * NEAR and not heard.has_lost():
            return [(psn + i) & 0xffffff for i in range(count - NEAR, count)]
        os.kill(server.pid, signal.SIGCONT)
    raise AssertionError("the server is always stopped too late")


def drops_of(host, pid):
    """Packets that a process dropped because of their sequence number."""
    found = re.search(r"(\d+) for ib_psn", run(*host.enter, WEFT, "stat", str(pid)).stdout)
    return int(found[1]) if found else 0


def drops_at_rest(host, pid):
    """The same when it has read all that came."""
    seen = [-1, drops_of(host, pid)]
    while seen[-1] != seen[-2]:
        seen.append(drops_of(host, pid))
    return seen[-1]


def test_forged_naks_end_no_connection(folder):
    """Within a Read: its answer has so many numbers that 1 of 1000 guesses is right."""
    with Lan(3) as (server, client, mallory), Children() as start:
        heard, tap = Tap(client), Tap(mallory)
        victims = Victims(start, VICTIM, (server, client), more=("read",))
        victims.go_on("before the attack", 1)
        qpn = numbers_of(heard, (server, client))[1]
        for _ in range(3):
            numbers = stop_in_a_read(heard, victims.server, client)
            before = drops_at_rest(client, victims.client.pid)
            for i in range(0, NEAR, NEAR // NAKS):
                answer = struct.pack("!I", (NAK_ACCESS if i % 3 else NAK_SEQUENCE) << 24)
                packet = bth(ACK, qpn, numbers[i]) + answer
                tap.send(ethernet(mallory, client, roce(server.ipv4, client.ipv4, packet)))
            until("the client drops the NAKs or ends",
                  lambda: victims.client.poll() is not None
                  or drops_of(client, victims.client.pid) >= before + NAKS, 5)
            os.kill(victims.server.pid, signal.SIGCONT)
            victims.go_on("after the attack", 2)


main(globals())
