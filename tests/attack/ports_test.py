#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""ports_test.py PORTS VICTIM WEFT: another user of the host takes the names that keep librdmacm's ports on
RoCE, and those of the services that listeners are.

The names are abstract unix names, which the kernel gives to any user. The attacker takes them before the
victim's programs come. They may neither be kept from a port or a service by that, nor take one twice among
themselves, nor miss requests.
"""
import contextlib
import os
import resource
import socket
import sys

from attack import (NOBODY, Attacker, Children, copy_for_all, expect, expect_equal, main, need_users,
                    network, place_for_all)

PORTS, VICTIM, WEFT = (os.path.realpath(file) for file in sys.argv[1:4])
LAST = 65535
NAMES = 4  # of each port and service
OTHERS = 8  # processes of the victim's user, which share port 4791 with its server
PORT = 7471  # the victim's
FILES_OPEN = 64  # of an attacker besides its sockets
SPACE_TCP = 0x106
START = "/proc/sys/net/ipv4/ip_unprivileged_port_start"


def in_network():
    need_users()
    network()


def name_of(port, spare):
    return "\0weft.cm.port.%03x.%04x" % (SPACE_TCP, port) + (".%d" % spare if spare else "")


def service_name_of(port, spare):
    return "\0weft.roce.service.%016x" % (SPACE_TCP << 16 | port) + (".%d" % spare if spare else "")


# --- what attackers do ---------------------------------------------------------------------------


def take(names, kind=socket.SOCK_STREAM, is_listening=False):
    taken = []
    for name in names:
        s = socket.socket(socket.AF_UNIX, kind)
        s.bind(name)
        taken.append(s)
        if is_listening:  # with a connection that is not accepted, which has the name as well
            s.listen(4)
            taken.append(socket.socket(socket.AF_UNIX, kind))
            taken[-1].connect(name)
    return taken + [""]


def take_ports(first, step):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return take([name_of(port, 0) for port in range(first, LAST + 1, step)])


def take_one_port(kind, is_listening):
    return take([name_of(PORT, 0)], kind, is_listening)


def take_all_names_of_one_port():
    return take([name_of(PORT, spare) for spare in range(NAMES)])


def take_all_names_of_one_service(kind, is_listening):
    return take([service_name_of(PORT, spare) for spare in range(NAMES)], kind, is_listening)


def take_and_fill_all_names_of_one_service():
    """A process that connects there finds no room, and cannot see whose they are."""
    taken = take_all_names_of_one_service(socket.SOCK_SEQPACKET, False)[:-1]
    for s in taken[:NAMES]:
        s.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                taken.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
                taken[-1].setblocking(False)
                taken[-1].connect(s.getsockname())
    return taken + [""]


SERVICE_ATTACKS = ((take_all_names_of_one_service, socket.SOCK_SEQPACKET, True),
                   (take_all_names_of_one_service, socket.SOCK_SEQPACKET, False),
                   (take_all_names_of_one_service, socket.SOCK_STREAM, True),
                   (take_all_names_of_one_service, socket.SOCK_DGRAM, False),
                   (take_and_fill_all_names_of_one_service,))


# --- tests ---------------------------------------------------------------------------------------


def for_nobody(folder):
    """The program and its libraries, where every user may read them; the program's path."""
    libraries = os.path.join(os.path.dirname(PORTS), "../..")
    return copy_for_all(place_for_all(folder), PORTS,
                        *(os.path.join(libraries, file) for file in ("librdmacm.so.1", "libibverbs.so.1")))[0]


def hold_as_nobody(start, program, port):
    return hold(start, port, program=program, user=NOBODY, LD_LIBRARY_PATH=os.path.dirname(program))


def line_of(child):
    return child.stdout.readline().strip()


def hold(start, port, *words, **wishes):
    """A program that keeps a port, or what it said why it could not."""
    child = start(wishes.pop("program", PORTS), "127.0.0.1", str(port), *words,
                  WEFT_DEVICES="roce_*", WEFT_LOG="off", **wishes)
    return line_of(child)


def expect_refused(start, what, *words):
    said = hold(start, PORT, *words)
    expect(what + ": " + said, said.endswith("Address already in use"))


def test_all_ports_taken_by_another_user_keep_no_program_out(_):
    in_network()
    attackers = LAST // (resource.getrlimit(resource.RLIMIT_NOFILE)[1] - FILES_OPEN) + 1
    with contextlib.ExitStack() as attack, Children() as start:
        for first in range(1, attackers + 1):
            attack.enter_context(Attacker(take_ports, first, attackers))
        server = start(VICTIM, "127.0.0.1", WEFT_DEVICES="roce_*")
        expect_equal("the server, at its port", line_of(server), "listening")
        client = start(VICTIM, "127.0.0.1", "3", WEFT_DEVICES="roce_*")
        said = [line_of(client) for _ in range(3)]
        expect_equal("pings of a client, at a port that is chosen", said, ["0", "1", "2"])
        expect_equal("a privileged port", hold(start, 18, "listen"), "bound 18")


def test_a_port_taken_by_another_user_is_not_had_twice(_):
    for kind, is_listening in ((socket.SOCK_STREAM, False), (socket.SOCK_STREAM, True),
                               (socket.SOCK_SEQPACKET, True), (socket.SOCK_DGRAM, False)):
        in_network()
        with Children() as start:
            with Attacker(take_one_port, kind, is_listening):
                expect_equal("the first", hold(start, PORT), "bound %d" % PORT)
                expect_refused(start, "the second")
            expect_refused(start, "the third, to which the usual name is free")


def test_all_names_of_a_port_taken_by_another_user_keep_no_program_out(_):
    in_network()
    with Attacker(take_all_names_of_one_port), Children() as start:
        expect_equal("the first", hold(start, PORT), "bound %d" % PORT)
        expect_refused(start, "a second")


def test_a_port_kept_by_a_hidden_name_is_not_had_twice(_):
    """The other user leaves: to the second program all names look free but the hidden one."""
    in_network()
    with Children() as start:
        with Attacker(take_all_names_of_one_port):
            expect_equal("the first", hold(start, PORT), "bound %d" % PORT)
        expect_refused(start, "the second")
        expect_equal("another port", hold(start, PORT + 1), "bound %d" % (PORT + 1))


def listen_at_service(start):
    """At the service of PORT without librdmacm, so that no name of a port keeps it out."""
    child = start(WEFT, "perf", "--roce", "--listen", "127.0.0.1:%d" % PORT)
    return line_of(child) or child.stderr.readline().strip()


def expect_found(start, when):
    """The kernel gives each client's request to one of the processes, most often not to the server."""
    for client in [start(VICTIM, "127.0.0.1", "1", WEFT_DEVICES="roce_*") for _ in range(OTHERS)]:
        expect_equal(when + ", a ping of a client", line_of(client), "0")


def test_all_names_of_a_service_taken_by_another_user_keep_no_program_out(_):
    for attack in SERVICE_ATTACKS:
        in_network()
        with Attacker(*attack), Children() as start:
            expect_equal("a listener, %s" % (attack,), hold(start, PORT, "listen"), "bound %d" % PORT)
            expect_refused(start, "a second", "listen")
        with Attacker(*attack), Children() as start:
            said = listen_at_service(start)
            expect("a listener without librdmacm, %s: %s" % (attack, said), "listening" in said)


def test_a_service_whose_names_another_user_has_is_found(_):
    for attack in SERVICE_ATTACKS:
        in_network()
        with Children() as start:
            for other in range(OTHERS):
                expect_equal("another", hold(start, PORT + 1 + other, "listen"), "bound %d" % (PORT + 1 + other))
            with Attacker(*attack):
                expect_equal("the server", line_of(start(VICTIM, "127.0.0.1", WEFT_DEVICES="roce_*")),
                             "listening")
                expect_found(start, "under attack")
            expect_found(start, "after the attack")


def test_a_service_whose_names_another_user_has_is_not_had_twice(_):
    for attack in SERVICE_ATTACKS:
        in_network()
        with Children() as start:
            with Attacker(*attack):
                expect_equal("the first", hold(start, PORT, "listen"), "bound %d" % PORT)
                said = listen_at_service(start)
                expect("the second: " + said, "address_in_use" in said)
            said = listen_at_service(start)
            expect("the third, to which the usual name is free: " + said, "address_in_use" in said)


def test_a_port_of_root_is_not_another_users(folder):
    """Root counts: its programs may hold what others have to keep from."""
    in_network()
    program = for_nobody(folder)
    name = socket.socket(socket.AF_UNIX)
    name.bind(name_of(PORT, 0))
    name.listen(0)
    with Children() as start:
        said = hold_as_nobody(start, program, PORT)
        expect("the port that root has: " + said, said.endswith("Address already in use"))
        expect_equal("another", hold_as_nobody(start, program, PORT + 1), "bound %d" % (PORT + 1))


def test_privileged_ports_are_those_of_tcp(folder):
    in_network()
    program = for_nobody(folder)
    for first, port, said in (("1024", 1023, "bind: Permission denied"), ("1000", 1000, "bound 1000"),
                              ("1000", 999, "bind: Permission denied"),
                              ("2000", 1999, "bind: Permission denied"), ("2000", 2000, "bound 2000")):
        with open(START, "w") as f:
            f.write(first)
        with Children() as start:
            expect_equal("port %d of a user, privileged below %s" % (port, first),
                         hold_as_nobody(start, program, port), said)
        with Children() as start:
            expect_equal("of root", hold(start, port), "bound %d" % port)


main(globals())
