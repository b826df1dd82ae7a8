#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""users_test.py WEFT: another user of the host against a program on RoCE, in one network namespace.

The victim is `weft perf` of root, the attacker a process of the user nobody with no other rights. The
attacker may neither use up the victim's descriptors, nor hand it packets, nor get its packets, nor keep
others of the victim's user out by taking names.
"""
import errno
import fcntl
import json
import os
import resource
import socket
import struct
import subprocess
import sys

from attack import (NOBODY, Attacker, Children, as_user, copy_for_all, environment, expect,
                    expect_equal, main, need_users, network, place_for_all, run, until)

WEFT = os.path.realpath(sys.argv[1])
PORT = "18800"
SERVICE = "weft.roce.service.%016x" % (0x1060000 + int(PORT))
PLACES = 254
DESCRIPTORS_FEW = 64
HANDED_ON = 0x77664831
RING_GIVEN = 0x77664e31


def in_network():
    need_users()
    network()


def listen(start, **wishes):
    victim = start(WEFT, "perf", "--roce", "--listen", "127.0.0.1:" + PORT, **wishes)
    line = victim.stdout.readline()
    expect("the victim listens: %r" % line, line != "")
    return victim


def expect_served(what, **wishes):
    done = run(WEFT, "perf", "--roce", "--quiet", "--size", "64", "--seconds", "0.2",
               "127.0.0.1:" + PORT, **wishes)
    expect_equal("%s: a peer of the same user: %s%s" % (what, done.stdout, done.stderr),
                 done.returncode, 0)


def descriptors(child):
    return len(os.listdir("/proc/%d/fd" % child.pid))


# --- what attackers do ---------------------------------------------------------------------------


def name_connect(name):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect("\0" + name)
    return s


def name_take(name, kind=socket.SOCK_SEQPACKET, is_listening=True):
    s = socket.socket(socket.AF_UNIX, kind)
    s.bind("\0" + name)
    if is_listening:
        s.listen(16)
    return s


def connect_many():
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    return [name_connect("weft.roce.place.1") for _ in range(1100)] + [""]


def hand_over():
    """A UD message from 127.0.0.1, as processes of one user hand on to each other."""
    loop = socket.inet_aton("127.0.0.1") + bytes(12) + struct.pack(">H", 4791)
    packet = bytes([0x64, 0, 0xff, 0xff, 0, 1, 0, 0]) + bytes(100)
    head = struct.pack(">III4B", HANDED_ON, len(packet), len(packet), 0, 0, 64, 0)
    s = name_connect("weft.roce.place.1")
    s.settimeout(10)
    try:
        s.send(head + loop + loop + bytes(4) + packet)
        return [s, "sent away" if s.recv(1) == b"" else "answered"]
    except (ConnectionResetError, BrokenPipeError):
        return [s, "sent away"]
    except socket.timeout:
        return [s, "let in"]


def bind_port():
    bound = []
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET, "127.0.0.1"),
                            (socket.AF_INET6, "::"), (socket.AF_INET6, "::1")):
        for options in ((), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,),
                        (socket.SO_REUSEADDR, socket.SO_REUSEPORT)):
            s = socket.socket(family, socket.SOCK_DGRAM)
            if family == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            for option in options:
                s.setsockopt(socket.SOL_SOCKET, option, 1)
            try:
                s.bind((address, 4791))
                bound.append(address)
            except OSError as why:
                if why.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                    raise
    return [",".join(bound)]


def take_places(kind, is_listening):
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    return [name_take("weft.roce.place.%d" % place, kind, is_listening)
            for place in range(1, PLACES + 1)] + [""]


def take_places_full():
    """A process that connects there finds no room, and cannot see whose they are."""
    taken = take_places(socket.SOCK_SEQPACKET, False)[:-1]
    came = []
    for place, s in enumerate(taken, 1):
        s.listen(0)
        for _ in range(2):
            guest = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            guest.setblocking(False)
            try:
                guest.connect("\0weft.roce.place.%d" % place)
                came.append(guest)
            except BlockingIOError:
                break
    return taken + came + [""]


def take_service():
    return [name_take(SERVICE), ""]


def hand_over_ring():
    """Memory for packets, as adapters of one user hand over to each other."""
    s = name_connect("weft.roce.near.1")
    s.settimeout(10)
    ring = os.memfd_create("ring", os.MFD_ALLOW_SEALING)
    os.ftruncate(ring, resource.getpagesize() + (1 << 19))
    fcntl.fcntl(ring, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    try:
        socket.send_fds(s, [struct.pack("=II", RING_GIVEN, 200)], [ring])
        return [s, "sent away" if s.recv(1) == b"" else "answered"]
    except (ConnectionResetError, BrokenPipeError):
        return [s, "sent away"]
    except socket.timeout:
        return [s, "let in"]


def take_near_names():
    """Of the first slots, with their spare names."""
    return [name_take("weft.roce.near.%d%s" % (slot, spare)) for slot in range(1, 9)
            for spare in ("", ".1", ".2", ".3")] + [""]


# --- tests ---------------------------------------------------------------------------------------


def test_connections_of_another_user_use_up_no_descriptors(_):
    in_network()
    with Children() as start:
        victim = listen(start)
        before = descriptors(victim)
        with Attacker(connect_many):
            until("all are sent away", lambda: descriptors(victim) < before + DESCRIPTORS_FEW)
            expect_served("under attack")


def test_what_another_user_hands_over_is_not_taken(_):
    in_network()
    with Children() as start:
        victim = listen(start)
        with Attacker(hand_over) as attacker:
            expect_equal("what became of the attacker", attacker.said, "sent away")
        said = run(WEFT, "stat", "--json", str(victim.pid)).stdout
        roce = json.loads(said)["adapters"][0]["roce"]
        expect_equal("packets handed over: " + said, roce["handed_in"], 0)
        expect("connections that were sent away: " + said, roce["sent_away"] > 0)
        expect_served("after the attack")


def test_another_user_cannot_bind_the_port(_):
    """A process that shares the port gets a part of all packets."""
    in_network()
    with Children() as start:
        listen(start)
        with Attacker(bind_port) as attacker:
            expect_equal("addresses that the attacker bound", attacker.said, "")
        expect_served("after the attack")


def test_another_users_program_learns_why_it_has_no_roce(folder):
    in_network()
    place_for_all(folder)
    (weft,) = copy_for_all(folder, WEFT)
    with Children() as start:
        listen(start)
        done = subprocess.run([weft, "perf", "--roce", "--listen", "127.0.0.1:0"], env=environment(),
                              preexec_fn=as_user(NOBODY), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)
        expect("the reason: " + done.stdout, done.returncode != 0 and "another user" in done.stdout)


def test_another_user_reads_no_counters(folder):
    in_network()
    (weft,) = copy_for_all(place_for_all(folder), WEFT)
    with Children() as start:
        pid = str(listen(start).pid)
        expect("root reads them", '"packets_in"' in run(WEFT, "stat", "--json", pid).stdout)
        done = subprocess.run([weft, "stat", "--json", pid], env=environment(),
                              preexec_fn=as_user(NOBODY), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)
        expect("the other user does not: " + done.stdout,
               done.returncode != 0 and '"packets_in"' not in done.stdout)


def test_all_places_taken_by_another_user_keep_no_process_out(_):
    for kind, is_listening in ((socket.SOCK_SEQPACKET, True), (socket.SOCK_SEQPACKET, False),
                               (socket.SOCK_STREAM, True), (socket.SOCK_DGRAM, False)):
        in_network()
        with Attacker(take_places, kind, is_listening), Children() as start:
            listen(start)
            expect_served("under attack")


def test_places_taken_and_filled_by_another_user_keep_no_process_out(_):
    in_network()
    with Attacker(take_places_full), Children() as start:
        listen(start)
        expect_served("under attack")


def test_places_that_another_user_leaves_are_not_had_twice(_):
    """The victim has its place by a spare name; the usual one is free when the next process comes."""
    in_network()
    with Children() as start:
        with Attacker(take_places, socket.SOCK_SEQPACKET, True):
            listen(start)
        expect_served("after the attack")


def test_a_service_name_taken_by_another_user_takes_no_requests(_):
    in_network()
    with Attacker(take_service), Children() as start:
        listen(start)
        with open("/proc/net/unix") as f:
            names = f.read()
        expect("the attack was for this service: " + names, SERVICE + ".1" in names)
        expect_served("under attack")


def roce_counts(victim):
    said = run(WEFT, "stat", "--json", str(victim.pid)).stdout
    return json.loads(said)["adapters"][0]["roce"]


def test_a_ring_of_another_user_is_not_taken(_):
    in_network()
    with Children() as start:
        victim = listen(start, WEFT_NEAR="on")
        with Attacker(hand_over_ring) as attacker:
            expect_equal("what became of the attacker", attacker.said, "sent away")
        expect("connections that were sent away", roce_counts(victim)["sent_away"] > 0)
        expect_served("after the attack", WEFT_NEAR="on")
        expect("packets of a peer of the same user", roce_counts(victim)["near_in"] > 0)


def test_near_names_taken_by_another_user_leave_udp(_):
    """Nothing is shared with the user who took the name."""
    in_network()
    with Attacker(take_near_names), Children() as start:
        victim = listen(start, WEFT_NEAR="on")
        expect_served("under attack", WEFT_NEAR="on")
        roce = roce_counts(victim)
        expect_equal("packets by shared memory", roce["near_in"] + roce["near_out"], 0)
        expect("packets", roce["packets_in"] > 0)


main(globals())
