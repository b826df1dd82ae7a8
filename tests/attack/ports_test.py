#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""ports_test.py PORTS VICTIM: another user of the host takes the names that keep librdmacm's ports on RoCE.

The names are abstract unix names, which the kernel gives to any user. The attacker takes them before the
victim's programs come. They may neither be kept from a port by that, nor, as long as a spare name is left,
take a port twice among themselves.
"""
import contextlib
import os
import resource
import socket
import sys

from attack import (NOBODY, Attacker, Children, copy_for_all, expect, expect_equal, main, need_users,
                    network, place_for_all)

PORTS, VICTIM = (os.path.realpath(file) for file in sys.argv[1:3])
LAST = 65535
NAMES = 4  # of each port
PORT = 7471  # the victim's
FILES_OPEN = 64  # of an attacker besides its sockets
SPACE_TCP = 0x106
START = "/proc/sys/net/ipv4/ip_unprivileged_port_start"


def in_network():
    need_users()
    network()


def name_of(port, spare):
    return "\0weft.cm.port.%03x.%04x" % (SPACE_TCP, port) + (".%d" % spare if spare else "")


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
        expect_equal("the first", hold(start, PORT, "listen"), "bound %d" % PORT)
        expect_refused(start, "a second that listens", "listen")


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
