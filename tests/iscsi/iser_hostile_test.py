#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""iser_hostile_test.py WEFT ISER_WIRE: ends by iSER that mean harm, over real queue pairs of both wires.

Initiators against weft iscsi serve, which refuses each for a reason, serves another one and keeps nothing; and targets
against weft's initiator, for which no lie is data. Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`.
"""
import os
import random
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
import initiator as ini  # noqa: E402
from hostile_test import Attack, served, wait_for  # noqa: E402
from initiator import Gone  # noqa: E402
from iser_wire import (CONTROL, HEADER, HELLO, HELLO_REPLY, SHORT_HEADER, IserInitiator,  # noqa: E402
                       IserLiar, header)
from liar import BLOCK, FINAL, NONE  # noqa: E402
from script import expect, expect_equal, go_to_own_network, main, run  # noqa: E402
from target import NAME, WEFT  # noqa: E402

WIRE = os.path.realpath(sys.argv[2])
WIRES = {"roce": "iSER/RoCE", "iwarp": "iSER/iWARP"}
LINES = "iser roce 127.0.0.1:0\niser iwarp 127.0.0.1:0\n"
LENGTH = 64 << 10
# What the target says of the end of a session.
PEER_REFUSED = ("does not grant this access", "not valid", "lies outside")
WE_REFUSE = ("not valid", "index lies outside the table", "does not grant")
NO_TAG, NO_KIND = "names no memory of the initiator", "or of a Hello that was not agreed upon"
TOO_MUCH, NO_ROOM = "longer than the MaxRecvDataSegmentLength", "longer than the receive that was posted"
NO_HEADER, NO_PDU = "is shorter", "end inside the header"


# --- Initiators ----------------------------------------------------------------------------------


class IserAttack(Attack):
    def __init__(self, folder):
        super().__init__(folder, "mem:8M", lines=LINES)

    def dial(self, wire, isid=1):
        return IserInitiator(WIRE, wire, self.ports[WIRES[wire]], NAME, isid)

    def log_in(self, wire, **keys):  # pylint: disable=arguments-differ
        return self.dial(wire).log_in(**keys).ready()

    def over(self):  # pylint: disable=arguments-differ
        """As of any attack; but RoCE keeps some sockets to use them again, which kill_test.py watches."""
        served(self)
        wait_for(lambda: self.status()["connections"] == 0, "no connection is left")
        now = self.status()
        expect_equal("sessions, tasks, memory", (now["sessions"], now["tasks"], now["memory_used"]), (0, 0, 0))

    def refused(self, wire, does, *words):
        """What a session does ends it, for a reason with one of these words; another goes on. Returns what the first says."""
        begin = len(self.lines)
        with self.dial(wire, isid=7).log_in().ready() as beside, self.log_in(wire) as bad:
            does(bad)
            bad.end()
            wait_for(lambda: any("end of the session" in line for line in self.lines[begin:]), "it is told")
            said = [line for line in self.lines[begin:] if "end of the session" in line][0]
            expect("%s by %s: %s" % (words, wire, said), any(word in said for word in words))
            beside.reads_into(beside.wire.write_tag).read(0, 8)
            expect_equal("the one beside", beside.answer()[0].status, ini.GOOD)
        self.over()
        return bad.wire.why


def each_is_refused(folder, *attacks):
    with IserAttack(folder) as target:
        for wire in WIRES:
            for does, *words in attacks:
                target.refused(wire, does, *words)


def test_iser_data_goes_by_rdma_on_real_queue_pairs(folder):
    """What the attacks below do wrong, done right."""
    with IserAttack(folder) as target:
        for wire in WIRES:
            with target.log_in(wire) as good:
                good.wire.say("fill", 0xab, LENGTH)
                good.writes_from(good.wire.read_tag).write(0, LENGTH // 512)
                expect_equal("status of the write", good.answer()[0].status, ini.GOOD)
                good.wire.say("fill", 0, LENGTH)
                good.reads_into(good.wire.write_tag, 4096).read(0, 8)
                expect_equal("status of the read", good.answer()[0].status, ini.GOOD)
                expect("data", good.memory(3 * 4096) == bytes(4096) + b"\xab" * 4096 + bytes(4096))
            target.over()


def test_iser_wrong_stags_end_the_session_that_named_them(folder):
    """The memory is that of the initiator, whose adapter says what is wrong."""
    def reads(offset, pick):
        return lambda bad: bad.reads_into(pick(bad.wire), offset).read(0, 8)

    def writes(offset, pick):
        return lambda bad: bad.writes_from(pick(bad.wire), offset).write(0, 8)

    with IserAttack(folder) as target:
        for wire in WIRES:
            for does, why in (
                    (reads(0, lambda w: w.write_tag ^ 0xff), "tag_instance"),
                    (reads(0, lambda w: 0), "tag_invalid"),
                    (writes(0, lambda w: w.read_tag ^ 0xff), "tag_instance"),
                    (reads(0, lambda w: w.read_tag), "right_remote_write"),
                    (writes(0, lambda w: w.write_tag), "right_remote_read"),
                    (reads((1 << 20) - 4095, lambda w: w.write_tag), "range_bounds"),
                    (writes(-1, lambda w: w.read_tag), "range_bounds")):
                expect_equal("why", target.refused(wire, does, *PEER_REFUSED), why)
            with target.log_in(wire) as good:
                good.reads_into(good.wire.write_tag).read(0, 8)
                good.answer()
                expect("nothing was written", good.memory(4096) == bytes(4096))


def test_iser_a_command_without_the_stag_that_it_needs_is_refused(folder):
    each_is_refused(folder, (lambda bad: bad.read(0, 8), NO_TAG),
                    (lambda bad: bad.write(0, 8), NO_TAG),
                    (lambda bad: bad.reads_into(bad.wire.write_tag).write(0, 8), NO_TAG),
                    (lambda bad: bad.writes_from(bad.wire.read_tag).read(0, 8), NO_TAG))


def test_iser_messages_beyond_the_limits_are_refused(folder):
    def ping(length):
        return lambda bad: bad.ping(b"x" * length)

    def raw(message):
        return lambda bad: bad.wire.send(message)

    each_is_refused(folder, (ping(8193), TOO_MUCH), (ping(8196), TOO_MUCH), (ping(16000), NO_ROOM),
                    (raw(header() + bytes(16000)), NO_ROOM), (raw(b""), NO_HEADER), (raw(header()), NO_PDU),
                    (raw(header() + bytes(47)), NO_PDU), (raw(header()[:-1]), NO_HEADER),
                    (raw(header() + bytes([0, 0x80, 0, 0, 0, 0, 16, 0]) + bytes(40)), NO_PDU))


def test_iser_hello_that_was_not_agreed_upon_is_refused(folder):
    def hello(kind):
        return lambda bad: bad.wire.send(struct.pack(">BBH", kind, 0xaa, 16) + bytes(HEADER - 4))

    each_is_refused(folder, (hello(HELLO), NO_KIND), (hello(HELLO_REPLY), NO_KIND), (hello(0x40), NO_KIND),
                    (hello(0xf0), NO_KIND))
    with IserAttack(folder) as target:
        for wire in WIRES:
            with target.dial(wire) as old:  # RFC 5046 wants a Hello, which this one announces
                old.log_in(iSERHelloRequired="Yes")
                hello(HELLO)(old)
                expect("it ends: %s" % old.end(), old.wire.why)
            with target.dial(wire) as old:  # its header is shorter
                login = header()[:SHORT_HEADER] + bytes([0x43, 0x87]) + bytes(46)
                old.wire.send(login)
                expect("it ends: %s" % old.end(), old.wire.why)
            target.over()


def test_iser_data_out_where_rdma_read_is_due_moves_nothing(folder):
    with IserAttack(folder) as target:
        for wire in WIRES:
            with target.log_in(wire) as bad:
                bad.wire.say("fill", 0x11, 4096)
                itt = bad.writes_from(bad.wire.read_tag).write(0, 8)
                for ttt in itt, ini.NONE, 0:
                    bad.data_out(itt, ttt, 0, 0, b"x" * 4096)
                bad.end_or_ping()
            with target.log_in(wire) as good:
                good.reads_into(good.wire.write_tag).read(0, 8)
                expect_equal("status", good.answer()[0].status, ini.GOOD)
                expect("no data of a Data-Out", good.memory(4096) in (bytes(4096), b"\x11" * 4096))
            target.over()


def test_iser_memory_of_the_target_cannot_be_reached(folder):
    def writes(tag):
        return lambda bad: bad.wire.say("write", tag, 0x10000, 4096)

    each_is_refused(folder, *((writes(tag), *WE_REFUSE) for tag in (0, 1, 0x100, 0xffffffff)))
    with IserAttack(folder) as target:
        for wire in WIRES:
            with target.log_in(wire) as bad:  # The target has agreed to carry out none.
                bad.wire.say("read", 1, 0x10000, 4096)
                expect("no Read", bad.wire.next("done")[0] in ("reads_none", "tag_invalid"))


def test_iser_invalidation_of_a_tag_of_the_target_ends_the_connection(folder):
    """It says in its private data that it takes none."""
    def invalidates(tag):
        def does(bad):
            bad.socket.invalidated = tag
            bad.ping()
        return does

    each_is_refused(folder, *((invalidates(tag), *WE_REFUSE) for tag in (0, 1, 0x101, 0xffffffff)))


def test_iser_a_login_without_rdma_is_refused(folder):
    with IserAttack(folder) as target:
        for wire in WIRES:
            for keys in {}, {"RDMAExtensions": "No"}:
                with target.dial(wire) as bad:
                    answer = bad.ask_to_log_in(bad.names() + ini.text(**keys))
                    expect_equal("login status", answer.header[36], 2)
            target.over()


def test_iser_a_storm_of_random_messages_ends_their_connections_only(folder):
    rng = random.Random(7)
    with IserAttack(folder) as target:
        for wire in WIRES:
            with target.dial(wire, isid=9).log_in().ready() as good:
                for _ in range(40):
                    with target.dial(wire, isid=8) as bad:
                        try:
                            if rng.randrange(3):
                                bad.log_in()
                            storm(rng, bad)
                        except (Gone, AssertionError):
                            pass
                    good.reads_into(good.wire.write_tag).read(rng.randrange(1000), 1)
                    expect_equal("status of the other session", good.answer()[0].status, ini.GOOD)
            target.over()


def storm(rng, bad):
    for _ in range(rng.randrange(1, 8)):
        pdu = bytearray(rng.randbytes(48))
        pdu[0] = rng.choice([0, 1, 2, 3, 4, 5, 6, 16, 0x40, 0x41, 0x43, pdu[0]])
        pdu[4] = rng.choice([0, 0, 0, 1, 255])
        pdu[5:8] = rng.choice([0, 0, 512, 8192, 1 << 23]).to_bytes(3, "big")
        front = bytearray(header(rng.choice([CONTROL, CONTROL, HELLO]), (bad.wire.read_tag, bad.wire.address),
                                 (bad.wire.write_tag, bad.wire.address)))
        if not rng.randrange(3):
            front[rng.randrange(HEADER)] ^= rng.randrange(256)
        bad.wire.send(bytes(front) + bytes(pdu) + rng.randbytes(rng.randrange(2048)))


# --- Targets -------------------------------------------------------------------------------------


def truth(connection, command, length):
    connection.write(b"\xd5" * length)
    connection.respond(command)


def told(folder, lie, *reasons, count=1):
    """A read of which the target lies fails, for one of these reasons, and leaves no data."""
    for wire in WIRES:
        with IserLiar(WIRE, wire, lambda c, h, n: (lie if n > BLOCK else truth)(c, h, n)) as liar:
            path = os.path.join(folder, "read")
            done = run(WEFT, "iscsi", "read", "--retry", "0s", "--timeout", "3s", "--block", str(LENGTH), "--length",
                       str(LENGTH * count), liar.url, path)
            expect_equal("status by %s: %s" % (wire, done.stderr), done.returncode, 1)
            expect("why by %s: %s" % (wire, done.stderr), any(reason in done.stderr for reason in reasons))
            with open(path, "rb") as f:
                expect("no data", not f.read(1))
            expect("the target: %s" % liar.failed, not liar.failed)


def test_iser_liar_tells_the_truth(folder):
    for wire in WIRES:
        with IserLiar(WIRE, wire, truth) as liar:
            path = os.path.join(folder, "read")
            done = run(WEFT, "iscsi", "read", liar.url, path)
            expect_equal("status: " + done.stderr, done.returncode, 0)
            with open(path, "rb") as f:
                expect("data", f.read() == b"\xd5" * (1 << 20))


def reaching(word, tag=0, offset=0, length=4096):
    """A target that names other memory than it was lent."""
    def lie(connection, command, _):
        stag, address = connection.socket.tag(True)
        connection.socket.wire.say(word, (stag ^ tag) & 0xffffffff, address + offset, length)
        connection.done()  # on iWARP a Write is good when it has been sent
        connection.respond(command)
    return lie


def test_iser_a_target_reaches_the_memory_of_its_command_only(folder):
    told(folder, reaching("write", tag=1), "tag_instance")
    told(folder, reaching("write", tag=0xff00), "tag_invalid")
    told(folder, reaching("write", offset=LENGTH - 4095), "range_bounds")
    told(folder, reaching("write", offset=-1), "range_wrap")
    told(folder, reaching("read"), "right_remote_read")


def test_iser_pdus_that_rdma_takes_the_place_of_are_refused(folder):
    told(folder, lambda c, h, n: c.data_in(h, b"x" * 4096), "iscsi_unexpected")
    told(folder, lambda c, h, n: c.r2t(h, 0, n), "iscsi_unexpected")


def test_iser_messages_of_a_target_that_are_none_are_refused(folder):
    def raw(message):
        return lambda c, h, n: c.socket.wire.send(message)

    told(folder, raw(header(HELLO_REPLY)), "iser_opcode")
    told(folder, raw(header(HELLO)), "iser_opcode")
    told(folder, raw(header()[:-1]), "iser_short")
    told(folder, raw(header() + bytes(40)), "iscsi_short")
    told(folder, raw(header() + bytes(16000)), "receive_too_short")


def second(answer):
    """Of two commands only the second is answered: answer(connection, its header, the tag of the first)."""
    def lie(connection, command, _):
        tag = connection.socket.tag(True)[0]
        if connection.liar.held:
            answer(connection, command, connection.liar.held[0])
        connection.liar.held.append(tag)
    return lie


def test_iser_answers_to_no_command_are_refused(folder):
    def twice(connection, command, _):
        connection.respond(command)
        connection.respond(command)

    told(folder, second(twice), "iscsi_no_task", count=2)
    told(folder, second(lambda c, h, _: c.respond(bytes(16) + b"\0\1\2\3" + bytes(28))), "iscsi_no_task", count=2)


def test_iser_a_target_invalidates_the_tag_of_the_command_only(folder):
    def invalidates(change):
        def answer(connection, command, first):
            connection.socket.invalidated = change(connection, first)
            connection.respond(command)
        return second(answer)

    told(folder, invalidates(lambda c, first: first), "iser_invalidated", count=2)
    told(folder, invalidates(lambda c, first: first ^ 1), "tag_instance", count=2)
    told(folder, invalidates(lambda c, first: 0), "tag_invalid", count=2)

    def ping(connection, _, first):
        connection.socket.invalidated = first
        connection.send(0x20, FINAL, NONE, b"\0\0\0\1")

    told(folder, second(ping), "iser_invalidated", count=2)


def test_iser_memory_of_a_command_that_is_over_cannot_be_reached(folder):
    """Each second command shows that the one before is over: there the target writes then."""
    def lie(connection, command, length):
        if not connection.liar.held:
            connection.liar.held.append(connection.socket.tag(True))
            truth(connection, command, length)
            return
        tag, address = connection.liar.held.pop()
        connection.socket.wire.say("fill", ord("x"), 4096)
        connection.socket.wire.say("write", tag, address, 4096)
        connection.take()

    for wire in WIRES:
        with IserLiar(WIRE, wire, lie) as liar:
            path = os.path.join(folder, "read")
            done = run(WEFT, "iscsi", "read", "--depth", "1", "--block", str(LENGTH), "--length", str(4 * LENGTH),
                       liar.url, path)
            expect_equal("status: " + done.stderr, done.returncode, 0)
            with open(path, "rb") as f:
                expect("no data but what was true", f.read() == b"\xd5" * 4 * LENGTH)
            expect_equal("connections: each Write ends one", liar.connections, 4)


if __name__ == "__main__":
    go_to_own_network()
    main(globals())
