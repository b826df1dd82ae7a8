#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""hostile_test.py WEFT: initiators that mean harm, over real sockets, and what is left of weft iscsi serve.

After each attack the target serves another initiator, and keeps nothing: no session, task, memory or descriptor.
Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import contextlib
import os
import random
import resource
import signal
import socket
import struct
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
import initiator as ini  # noqa: E402
from initiator import Gone, Initiator, Pdu, chap_response, text  # noqa: E402
from script import Skip, expect, expect_equal, main  # noqa: E402
from target import NAME, Target  # noqa: E402

# The address sanitizer keeps what was freed, by default a quarter of a GiB of it.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=8"

MIB = 1 << 20
HALF_OPEN = 10000
HALF_OPEN_KEPT = 256 + 64
SECRETS = "initiator alice 0123456789abcd\ntarget disk abcdef012345\n"


def wait_for(what, why):
    end_s = time.monotonic() + ini.PATIENCE_S
    while not what():
        expect("it does not come that " + why, time.monotonic() < end_s)
        time.sleep(0.02)


def kib_of(target, what="VmRSS"):
    with open("/proc/%d/status" % target.process.pid) as f:
        return int(next(line for line in f if line.startswith(what + ":")).split()[1])


def descriptors_of(target):
    return len(os.listdir("/proc/%d/fd" % target.process.pid))


def served(target, **more):
    """Another initiator gets what it reads."""
    with Initiator(target.port, NAME, isid=999).log_in(**more).ready() as good:
        good.read(0, 8)
        pdu, data = good.answer()
        expect_equal("status of the other initiator", pdu.status, ini.GOOD)
        expect_equal("its data", len(data), 4096)


def nothing_left(target, descriptors):
    wait_for(lambda: target.status()["connections"] == 0, "no connection is left")
    now = target.status()
    expect_equal("sessions, tasks, memory", (now["sessions"], now["tasks"], now["memory_used"]), (0, 0, 0))
    wait_for(lambda: descriptors_of(target) <= descriptors, "no descriptor is left")


class Attack(Target):
    """A target that is looked at afterwards."""

    def __init__(self, folder, *luns, **more):
        super().__init__(folder, *(luns or ("mem:8M",)), **more)

    def __enter__(self):
        super().__enter__()
        self.descriptors = descriptors_of(self)
        return self

    def log_in(self, **keys):
        return Initiator(self.port, NAME).log_in(**keys).ready()

    def over(self, **more):
        served(self, **more)
        nothing_left(self, self.descriptors)


# --- Data ----------------------------------------------------------------------------------------


def test_iscsi_writes_beyond_the_lun_are_refused(folder):
    with Attack(folder) as target:
        with target.log_in() as bad:
            for lba, blocks in ((16384, 1), (16383, 2), (0xffffffff, 1), (0, 0xffff), (0xffffff00, 0xffff)):
                bad.write(lba, blocks, b"x" * 512)
                pdu = bad.answer()[0]
                expect("%d+%d: %s" % (lba, blocks, pdu.sense()), pdu.status == ini.CHECK_CONDITION and
                       pdu.sense() in ((5, 0x21, 0), (5, 0x24, 0)))
            bad.read(16383, 1)
            expect("nothing was written", bad.answer()[1] == bytes(512))
        target.over()


def test_iscsi_data_that_was_not_asked_for_ends_nothing_but_its_command(folder):
    with Attack(folder) as target:
        with target.log_in(FirstBurstLength="4096", ImmediateData="Yes", InitialR2T="No") as bad:
            bad.write(0, 256, b"x" * 8192)  # FirstBurstLength ignored
            expect_equal("immediate data", bad.answer()[0].sense(), (0x0b, 0x0c, 0x0c))
        with target.log_in(InitialR2T="Yes") as bad:
            itt = bad.write(0, 256)
            r2t = bad.take_only(ini.R2T)
            bad.data_out(itt, r2t.ttt ^ 0x55aa, 0, 0, b"x" * 512)  # of no R2T
            seen = set()
            try:
                while not seen & {ini.REJECT, ini.RESPONSE}:
                    seen.add(bad.take().opcode)
            except Gone:
                seen.add("closed")
            expect("refused: %s" % seen, seen & {ini.REJECT, ini.RESPONSE, "closed"})
        target.over()


def test_iscsi_unsolicited_data_that_never_comes_holds_up_nobody(folder):
    with Attack(folder, lines="alive 2s") as target:
        with target.log_in(InitialR2T="No", FirstBurstLength="65536") as bad:
            for _ in range(32):  # F is not set: data is to follow
                bad.itt += 1
                bad.send(ini.COMMAND, ini.WRITE, struct.pack(">I", 65536) + bad.numbers() +
                         ini.cdb(0x2a, 0, 128).ljust(16, b"\0"))
                bad.cmd_sn += 1
            served(target)
            bad.answers_pings = False
            expect("it is given up", bad.is_closed())
        target.over()


def test_iscsi_a_storm_of_random_pdus_ends_their_connections_only(folder):
    rng = random.Random(7)
    with Attack(folder) as target:
        with Initiator(target.port, NAME, isid=7).log_in().ready() as good:
            for _ in range(300):
                with Initiator(target.port, NAME, isid=8) as bad:
                    try:
                        if rng.randrange(3):
                            bad.log_in(InitialR2T=rng.choice(["Yes", "No"]))
                        for _ in range(rng.randrange(1, 8)):
                            header = bytearray(rng.randbytes(48))
                            header[0] = rng.choice([0, 1, 2, 3, 4, 5, 6, 16, 0x40, 0x41, 0x43, header[0]])
                            header[4] = rng.choice([0, 0, 0, 1, 255])
                            header[5:8] = rng.choice([0, 0, 512, 8192, 1 << 23]).to_bytes(3, "big")
                            bad.socket.sendall(bytes(header) + rng.randbytes(rng.randrange(2048)))
                    except (Gone, ConnectionError, AssertionError):
                        pass
                good.read(rng.randrange(1000), 1)
                expect_equal("status of the other session", good.answer()[0].status, ini.GOOD)
        target.over()


# --- Order ---------------------------------------------------------------------------------------


def test_iscsi_commands_out_of_the_window_are_not_carried_out(folder):
    with Attack(folder) as target:
        with target.log_in() as bad:
            first = bad.cmd_sn
            for wrong in (first - 1, first - 5, first + 5000, first + (1 << 31), first - 2000):
                bad.write(0, 1, b"\xee" * 512, cmd_sn=wrong & 0xffffffff)
            bad.read(0, 1)
            pdu, data = bad.answer()
            expect_equal("of the read", (pdu.status, pdu.itt), (ini.GOOD, bad.itt))
            expect("nothing was written", data == bytes(512))
            expect_equal("ExpCmdSN", pdu.exp_cmd_sn, first + 1)
            # One is left out: those behind it wait, as many as the window has, and no more.
            for step in range(1, 400):
                bad.write(0, 1, b"\xee" * 512, cmd_sn=first + 1 + step)
            bad.ping()
            while bad.take().opcode != ini.NOP_IN:
                pass
            expect("tasks: %d" % target.status()["tasks"], target.status()["tasks"] <= 128)
        target.over()


def test_iscsi_ahs_games_end_the_connection_at_most(folder):
    def extra(length, kind, rest):
        return struct.pack(">HB", length, kind) + rest

    with Attack(folder) as target:
        for ahs in (extra(0, 0, b"\0"), extra(0xffff, 1, b"\0" * 17), extra(5, 2, b"\0" * 5), b"\xff" * 1020,
                    extra(17, 1, b"\0" * 17)[:8], extra(1, 0x3f, b"\0") * 255):
            with target.log_in() as bad:
                try:
                    bad.read(0, 1, ahs=ahs + bytes(-len(ahs) % 4))
                    bad.ping()
                    while bad.take().opcode != ini.NOP_IN:
                        pass
                except Gone:
                    pass
        target.over()


def test_iscsi_a_wrong_digest_ends_the_connection(folder):
    with Attack(folder) as target:
        with Initiator(target.port, NAME).log_in(HeaderDigest="CRC32C") as bad:
            bad.read(0, 1)
            bad.socket.sendall(b"\1\2\3\4")
            expect("a header's", bad.is_closed())
        with Initiator(target.port, NAME).log_in(DataDigest="CRC32C", ImmediateData="Yes") as bad:
            bad.write(0, 1, b"x" * 512)
            bad.socket.sendall(b"\1\2\3\4")
            expect_equal("data's", bad.take().opcode, ini.REJECT)
            bad.ping()  # The command has not come, and the connection is good.
            expect_equal("ExpCmdSN", bad.take_only(ini.NOP_IN).exp_cmd_sn, bad.cmd_sn - 1)
        with target.log_in() as good:
            good.read(0, 1)
            expect("nothing was written", good.answer()[1] == bytes(512))
        target.over()


# --- Logins --------------------------------------------------------------------------------------


def test_iscsi_10000_half_open_logins_leave_room_for_others(folder):
    need, hard = HALF_OPEN + 500, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < need:
        raise Skip("this user may have %d descriptors only" % hard)
    with Attack(folder) as target:
        before = kib_of(target)
        resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))
        open_now = []
        try:
            for count in range(HALF_OPEN):
                s = socket.create_connection(("127.0.0.1", target.port))
                open_now.append(s)
                if count % 3:  # Nothing at all, a part of a header, or of a text.
                    s.sendall(b"\x43\x87" + bytes(20) if count % 3 == 1 else
                              b"\x43\x87\0\0\0\0\x20\0" + bytes(40) + b"InitiatorName=")
                if count % 1000 == 999:
                    served(target)
            wait_for(lambda: target.status()["connections"] <= HALF_OPEN_KEPT, "the oldest give way")
            served(target)
            grown = kib_of(target) - before
            expect("memory: %d KiB more" % grown, grown < 64 << 10)
            expect("descriptors: %d" % descriptors_of(target), descriptors_of(target) < HALF_OPEN_KEPT + 50)
        finally:
            for s in open_now:
                s.close()
        target.over()


def test_iscsi_endless_logins_and_texts_end(folder):
    with Attack(folder, lines="login-timeout 2s") as target:
        with Initiator(target.port, NAME) as bad:
            try:  # It never asks to go on.
                bad.ask_to_log_in(bad.names(), 0x04)
                for number in range(100000):
                    bad.ask_to_log_in(text(**{"X-org.example.%d" % number: "1"}), 0x04)
                raise AssertionError("it goes on for ever")
            except (Gone, AssertionError) as why:
                expect("it ends: %s" % why, "for ever" not in str(why))
        with Initiator(target.port, NAME) as bad:
            try:  # A text that never ends: C is set.
                while True:
                    bad.ask_to_log_in(b"InitiatorName=" + b"a" * 8000, 0x44)
            except (Gone, AssertionError, ConnectionError):
                pass
        with Initiator(target.port, NAME) as slow:
            begin = time.monotonic()
            slow.socket.sendall(b"\x43\x87" + bytes(10))
            expect("a slow one", slow.is_closed())
            expect("in time", time.monotonic() - begin < ini.PATIENCE_S / 2)
        with target.log_in() as bad:
            pdu, parts = None, 0
            while not pdu or pdu.opcode == ini.TEXT_BACK:
                bad.itt += 1
                bad.send(ini.TEXT | ini.IMMEDIATE, 0, struct.pack(">I", pdu.ttt if pdu else ini.NONE) +
                         bad.numbers(), text(**{"X-org.example.%d" % parts: "1"}), itt=77)
                pdu = bad.take()
                parts += 1
                expect("a text ends", parts < 1000)
            expect_equal("how", pdu.opcode, ini.REJECT)
            bad.read(0, 1)
            expect_equal("and the session goes on", bad.answer()[0].status, ini.GOOD)
        target.over()


def test_iscsi_chap_cannot_be_replayed_or_reflected(folder):
    mutual = {"CHAP_I": "9"}
    with Attack(folder, secrets=SECRETS) as target:
        with Initiator(target.port, NAME) as good:
            number, challenge, _ = good.challenge()
            right = chap_response(number, "0123456789abcd", challenge)
            answer = good.ask_to_log_in(text(CHAP_N="alice", CHAP_R="0x" + right), 0x81)
            expect_equal("the right one", answer.header[36], 0)
        with Initiator(target.port, NAME) as bad:
            again = bad.challenge()
            expect("challenges differ", again[:2] != (number, challenge))
            answer = bad.ask_to_log_in(text(CHAP_N="alice", CHAP_R="0x" + right), 0x81)
            expect_equal("a replay", answer.header[36:38], b"\x02\x01")
        # The target's own challenge is sent back, for it to answer: in this login, and in another.
        with Initiator(target.port, NAME) as bad, Initiator(target.port, NAME, isid=2) as other:
            number, challenge, _ = bad.challenge()
            other.challenge()
            for who in bad, other:
                mutual = {"CHAP_N": "disk", "CHAP_R": "0x" + "00" * 16, "CHAP_I": str(number),
                          "CHAP_C": "0x" + challenge.hex()}
                answer = who.ask_to_log_in(text(**mutual), 0x81)
                expect_equal("a reflection", answer.header[36:38], b"\x02\x01")
                expect("no response: %s" % answer.data, b"CHAP_R" not in answer.data)
        with Initiator(target.port, NAME) as bad:  # Past it
            answer = bad.ask_to_log_in(bad.names() + text(AuthMethod="None"))
            expect_equal("without", answer.header[36], 2)
        with Initiator(target.port, NAME) as bad:
            answer = bad.ask_to_log_in(bad.names())
            expect_equal("the stage left out", answer.header[36], 2)
        nothing_left(target, target.descriptors)


# --- Slow ones -----------------------------------------------------------------------------------


def test_iscsi_an_initiator_that_reads_nothing_does_not_grow_the_target(folder):
    with Attack(folder, "mem:64M", lines="alive 2s\nmemory 32M") as target:
        bad = []
        before = kib_of(target)
        try:
            for isid in range(8):
                one = Initiator(target.port, NAME, isid=isid + 10).log_in().ready()
                bad.append(one)
                for count in range(100):
                    one.read(count * 512, 512)
            most = max(kib_of(target) for _ in range(20))
            expect("memory: %d KiB more" % (most - before), most - before < 80 << 10)
            served(target)  # once the others have been given up
            wait_for(lambda: target.status()["sessions"] == 0, "they are given up")
        finally:
            for one in bad:
                one.socket.close()
        target.over()


def test_iscsi_memory_for_data_that_never_comes_is_taken_back(folder):
    with Attack(folder, "mem:64M", lines="memory 32M\nalive 3s") as target:
        bad, threads = [], []
        try:
            for isid in range(4):
                one = Initiator(target.port, NAME, isid=isid + 10).log_in(ImmediateData="No").ready()
                bad.append(one)
                for count in range(60):
                    one.write(count * 512, 512)
                threads.append(threading.Thread(target=one.is_closed))  # answers when it is asked
                threads[-1].start()
            served(target)
        finally:
            for one in bad:
                with contextlib.suppress(OSError):
                    one.socket.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(ini.PATIENCE_S)
            for one in bad:
                one.socket.close()
        target.over()


def test_iscsi_a_stuck_disk_stops_nobody_else(folder):
    with Attack(folder, "mem:8M", "delay:3600s(mem:8M)") as target:
        with target.log_in() as bad:
            for count in range(64):
                bad.read(count, 1, lun=1)
            served(target)
            bad.read(0, 1)  # of the same session, at the disk that works
            while True:
                pdu, _ = bad.answer()
                if pdu.itt == bad.itt:
                    break
            expect_equal("of LUN 0", pdu.status, ini.GOOD)
        wait_for(lambda: target.status()["connections"] == 0, "its connection ends")
        expect_equal("sessions", target.status()["sessions"], 0)
        served(target)


def test_iscsi_without_descriptors_those_who_are_there_go_on(folder):
    limit = 40
    with Attack(folder) as target:
        resource.prlimit(target.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
        with target.log_in() as good:
            crowd = []
            try:
                for _ in range(3 * limit):
                    s = socket.create_connection(("127.0.0.1", target.port))
                    s.setblocking(False)
                    crowd.append(s)
                for lba in range(100):
                    good.read(lba, 1)
                    expect_equal("status", good.answer()[0].status, ini.GOOD)
            finally:
                for s in crowd:
                    s.close()
        served(target)
        nothing_left(target, target.descriptors)


def test_iscsi_what_comes_with_the_end_of_a_connection_leaves_nothing(folder):
    with Attack(folder, lines="alive 3600s") as target:
        crowd = [Initiator(target.port, NAME, isid=isid).log_in().ready() for isid in range(8)]
        os.kill(target.process.pid, signal.SIGSTOP)  # Bytes and the end are one event then.
        for one in crowd:
            one.socket.sendall(bytes(20))
            one.socket.close()
        os.kill(target.process.pid, signal.SIGCONT)
        target.over()


def test_iscsi_immediate_commands_of_one_session_do_not_keep_others_out(folder):
    with Attack(folder, lines="sessions 4") as target:
        with target.log_in(ImmediateData="No") as bad:
            for _ in range(1000):
                bad.itt += 1
                bad.send(ini.COMMAND | ini.IMMEDIATE, ini.FINAL | ini.WRITE, struct.pack(">I", 512) + bad.numbers() +
                         ini.cdb(0x2a, 0, 1).ljust(16, b"\0"))
            seen = [bad.take().opcode for _ in range(1000)]
            expect("some are taken: %s" % set(seen), set(seen) == {ini.R2T, ini.REJECT})
            served(target)
        target.over()


def test_iscsi_a_stuck_disk_leaves_memory_to_others(folder):
    with Attack(folder, "mem:8M", "delay:3600s(mem:8M)", lines="memory 32M") as target:
        with target.log_in() as bad:
            for _ in range(100):
                bad.read(0, 1024, lun=1)
            wait_for(lambda: target.status()["memory_used"] > 8 * MIB, "it has memory")
            served(target)


def test_iscsi_a_verify_of_a_huge_disk_stops_nobody_else(folder):
    with Attack(folder, "mem:1T") as target:
        with target.log_in() as bad:
            bad.command(struct.pack(">BBQIBB", 0x8f, 0, 0, 0x7fffffff, 0, 0))
            served(target)


def test_iscsi_pdus_know_their_fields(_):
    pdu = Pdu(bytes([0x25, 0x81, 0, 2]) + bytes(12) + struct.pack(">IIIII", 1, 2, 3, 4, 5) + bytes(12), b"")
    expect_equal("fields", (pdu.opcode, pdu.status, pdu.itt, pdu.ttt, pdu.max_cmd_sn), (0x25, 2, 1, 2, 5))


if __name__ == "__main__":
    main(globals())
