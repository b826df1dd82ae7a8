#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""roles_test.py WEFT: weft iou, own and io as processes, where something is in their way.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import json
import os
import resource
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from roles import PATIENCE_S, WEFT, Roles  # noqa: E402
from script import expect, expect_equal, main, run  # noqa: E402

MIB = 1 << 20


def test_rio_02i_a_request_has_the_time_of_its_file(folder):
    with Roles(folder, "delay:3s(mem:1M)", requester="timeout 100ms\n") as roles:
        done = roles.io("read", "disk", "--length", "4k")
        expect_equal("status", done.returncode, 1)
        expect("why: %s" % done.stderr, b"(rio_timeout)" in done.stderr)


def test_rio_13d_a_person_sends_data_in_the_requests(folder):
    disk, data = os.path.join(folder, "disk"), os.urandom(10000)
    os.makedirs(folder, exist_ok=True)
    with Roles(folder, "file:%s,size=1M" % disk) as roles:
        words = "write", "disk", "--at", "8k", "--immediate"
        expect_equal("status", roles.io(*words, stdin=None, input=data).returncode, 0)
        done = roles.io(*words, "--block", "512k", stdin=None, input=bytes(512 << 10))
        expect_equal("status of one that is too long", done.returncode, 1)
        expect("why: %s" % done.stderr, b"(sgl_bytes)" in done.stderr)
        roles.iounit.terminate()
        said = roles.iounit.communicate(timeout=PATIENCE_S)[0]
        expect("no data connection: " + said,
               "payload in 0 out 0" in said and "data connections 0" in said)
        with open(disk, "rb") as f:
            f.seek(8192)
            expect("the bytes are on the disk", f.read(10240) == data + bytes(240))


def test_rio_14_a_person_copies_inside_the_io_unit(folder):
    disk, tape = os.path.join(folder, "disk"), os.path.join(folder, "tape")
    data = os.urandom(MIB)
    os.makedirs(folder, exist_ok=True)
    for path, text in (disk, data), (tape, bytes(MIB)):
        with open(path, "wb") as f:
            f.write(text)
    more = "device 2 tape file:%s\nmemory 256k\n" % tape
    with Roles(folder, "file:%s" % disk, owner="share q u\n", iounit=more) as roles:
        words = "copy", "disk", "tape", "--inside", "0", "--block", "64k"
        expect_equal("status", roles.io(*words, "--depth", "4").returncode, 0)
        done = roles.io(*words, "--depth", "5")
        expect_equal("status of one that needs more", done.returncode, 1)
        expect("why: %s" % done.stderr, b"(rio_platform)" in done.stderr)
        roles.iounit.terminate()
        said = roles.iounit.communicate(timeout=PATIENCE_S)[0]
        expect("no data connection: " + said, "data connections 0" in said)
        with open(tape, "rb") as f:
            expect("the bytes are on the tape", f.read() == data)


def payload_of_adapters(process):
    said = json.loads(run(WEFT, "stat", "--json", str(process.pid)).stdout)
    return [a["payload_in"] + a["payload_out"] for a in said["adapters"]]


def test_rio_09_data_connections_take_turns_at_the_adapters_of_a_unit(folder):
    """weft io connects anew each time. Of the first adapter, which has control too, so much is payload."""
    with Roles(folder, "mem:1M", iounit="adapters 3\n") as roles:
        for _ in range(3):
            expect_equal("status", roles.io("read", "disk", "--file", "/dev/null").returncode, 0)
        carried = payload_of_adapters(roles.iounit)
        expect_equal("adapters", len(carried), 3)
        expect("each has carried a read: %s" % carried,
               all(MIB <= each < MIB + 16384 for each in carried))


class Lender:
    """weft io source or sink by requester 4.1, under way; its memory, as it says."""

    def __init__(self, roles, *words):
        with open(roles.path("requester.conf")) as f, open(roles.path("lender.conf"), "w") as g:
            g.write(f.read() + "self 4.1\nkey lender.key\n")
        self.process = subprocess.Popen([WEFT, "io", roles.path("lender.conf"), *words],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        roles.running.append(self.process)
        self.memory = self.process.stdout.readline().strip()

    def end(self):
        self.process.terminate()
        said = self.process.communicate(timeout=PATIENCE_S)[1]
        expect_equal("status of the lender: " + said, self.process.returncode, 0)


def move_lent(roles, verb, memory):
    """Until owner, I/O unit and lender know each other."""
    end = time.monotonic() + PATIENCE_S
    while True:
        done = roles.io(verb, "disk", "--memory", memory, "--length", "256k", "--block", "64k")
        if b"(rio_platform)" not in done.stderr or time.monotonic() > end:
            return done


def test_mem_13_rio_06_a_person_moves_data_of_memory_that_another_lends(folder):
    os.makedirs(folder, exist_ok=True)
    source, sink = os.path.join(folder, "source"), os.path.join(folder, "sink")
    with open(source, "wb") as f:
        f.write(os.urandom(256 << 10))
    key = run(WEFT, "key", "new", os.path.join(folder, "lender.key")).stdout.strip()
    owner = "requester lender 4.1 %s\nshare q lender\n" % key
    with Roles(folder, "mem:1M", owner=owner) as roles:
        lender = Lender(roles, "source", "--file", source)
        done = move_lent(roles, "write", lender.memory)
        expect_equal("status of the write: %s" % done.stderr, done.returncode, 0)
        done = move_lent(roles, "read", lender.memory)
        expect_equal("status of one that writes to a source: %s" % done.stderr, done.returncode, 1)
        lender.end()
        lender = Lender(roles, "sink", "--file", sink, "--length", "256k")
        done = move_lent(roles, "read", lender.memory)
        expect_equal("status of the read: %s" % done.stderr, done.returncode, 0)
        lender.end()
        with open(source, "rb") as f, open(sink, "rb") as g:
            expect("what came is what was lent", f.read() == g.read())
        done = move_lent(roles, "read", "0.1:7:7")
        expect_equal("status of no memory", done.returncode, 2)
        expect_equal("status of no file", roles.io("source").returncode, 2)
        expect_equal("status of no length", roles.io("sink", "--file", sink).returncode, 2)


def test_rio_03_a_log_that_cannot_be_written_is_complained_of(folder):
    with Roles(folder, "mem:1M", owner="log /dev/full\n") as roles:
        expect_equal("status", roles.io("read", "disk", "--file", "/dev/null").returncode, 0)
        said = roles.end(roles.owner)
        expect("it says so, once: " + said, said.count("cannot write the log /dev/full") == 1)
        expect_equal("status", roles.owner.returncode, 1)


def test_rio_03_a_log_at_the_limit_of_files_is_complained_of(folder):
    with Roles(folder, "mem:1M", owner="log decisions\n") as roles:
        resource.prlimit(roles.owner.pid, resource.RLIMIT_FSIZE, (1024, 1024))
        for _ in range(20):
            expect_equal("status", roles.io("read", "disk", "--file", "/dev/null").returncode, 0)
        said = roles.end(roles.owner)
        expect("it says so, once: " + said, said.count("cannot write the log") == 1)
        expect_equal("status", roles.owner.returncode, 1)


def test_rio_03_who_was_sent_away_is_in_the_log_at_once(folder):
    with Roles(folder, "mem:1M", owner="log decisions\n") as roles:
        run(WEFT, "key", "new", roles.path("unknown.key"))
        with open(roles.path("requester.conf")) as f:
            text = f.read()
        with open(roles.path("requester.conf"), "w") as f:
            f.write(text + "key unknown.key\n")
        expect_equal("status", roles.io("list", "--wait", "100ms").returncode, 1)
        end = time.monotonic() + PATIENCE_S
        while True:
            with open(roles.path("decisions")) as f:
                if ": rio_unknown_peer: " in f.read():
                    break
            expect("it is written", time.monotonic() < end)


def read_number(path):
    with open(path) as f:
        return int(f.read())


def test_rio_09_of_two_owners_with_one_key_the_later_one_stays(folder):
    """The former says why it ends. Started again, it is the later one."""
    with Roles(folder, "mem:1M", owner="log first\nkey owner.key\n") as roles:
        with open(roles.path("owner.conf")) as f:
            text = f.read()
        with open(roles.path("other.conf"), "w") as f:
            f.write(text.replace("log first", "log second"))
        first, (second, _) = roles.owner, roles.start("own", "other")
        said = first.communicate(timeout=PATIENCE_S)[1]
        expect_equal("status", first.returncode, 3)
        expect("why: " + said, "(rio_superseded)" in said)
        with open(roles.path("first")) as f:
            expect("it is in the log", ": rio_superseded: " in f.read())
        expect_equal("the term", read_number(roles.path("first.term")),
                     read_number(roles.path("second.term")))
        expect("it serves", second.poll() is None)
        # Its clock may be slow: what it heard counts.
        with open(roles.path("first.term"), "w") as f:
            f.write("%d\n" % (1 << 63))
        first, _ = roles.start("own", "owner")
        second.communicate(timeout=PATIENCE_S)
        expect_equal("status", second.returncode, 3)
        expect_equal("the term", read_number(roles.path("first.term")), (1 << 63) + 1)
        expect("it serves", first.poll() is None)


def test_rio_09_a_unit_that_was_killed_refuses_the_former_owner_still(folder):
    """It has written down which owner was the latest, before it served it."""
    owner = "log first\nkey owner.key\n"
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "first.term"), "w") as f:
        f.write("%d\n" % (1 << 63))
    with Roles(folder, "mem:1M", owner=owner) as roles:
        expect_equal("status", roles.io("flush", "disk").returncode, 0)
        with open(roles.path("owner.conf")) as f:
            text = f.read()
        with open(roles.path("former.conf"), "w") as f:
            f.write(text.replace("log first", "log second"))
        at = text.split("iounit u 2.1 ")[1].split()[1]
        with open(roles.path("iounit.conf")) as f:
            text = f.read()
        with open(roles.path("iounit.conf"), "w") as f:
            f.write(text.replace("127.0.0.1:0", at))
        roles.end(roles.owner)
        roles.iounit.kill()
        roles.iounit.communicate(timeout=PATIENCE_S)
        roles.start("iou", "iounit")
        # It has the term of its clock, which is lower.
        former, _ = roles.start("own", "former")
        said = former.communicate(timeout=PATIENCE_S)[1]
        expect_equal("status", former.returncode, 3)
        expect("why: " + said, "(rio_superseded)" in said)
        later, _ = roles.start("own", "owner")
        end = time.monotonic() + PATIENCE_S
        while "came iounit 2.1" not in open(roles.path("first")).read().split("\n", 1)[1]:
            expect("it serves", later.poll() is None and time.monotonic() < end)


def test_rio_09_a_unit_that_cannot_write_the_term_down_says_so_and_serves(folder):
    with Roles(folder, "mem:1M") as roles:
        os.makedirs(roles.path("iounit.key.term.new"))
        roles.end(roles.owner)
        roles.owner, at = roles.start("own", "owner")
        with open(roles.path("requester.conf")) as f:
            words = f.read().split()
        roles.write("requester", "owner o 1.1 %s %s\n" % (words[words.index("1.1") + 1], at))
        expect_equal("status", roles.io("flush", "disk").returncode, 0)
        said = roles.end(roles.iounit)
        expect("it says so: " + said, "weft iou: cannot keep the term in " in said)


def test_rio_09_only_the_role_may_read_its_term(folder):
    old = os.umask(0o022)
    try:
        with Roles(folder, "mem:1M", owner="log first\n") as roles:
            expect_equal("status", roles.io("flush", "disk").returncode, 0)
            for name in ("first.term", "iounit.key.term"):
                expect_equal(name, oct(os.stat(roles.path(name)).st_mode & 0o777), "0o600")
    finally:
        os.umask(old)


def test_rio_09_the_highest_term_of_all_follows_itself(folder):
    """The one before it is followed by it, and is not taken for no number."""
    most = (1 << 64) - 1
    with open(os.path.join(folder, "first.term"), "w") as f:
        f.write("%d\n" % (most - 1))
    with Roles(folder, "mem:1M", owner="log first\n") as roles:
        expect_equal("the term", read_number(roles.path("first.term")), most)
        expect_equal("said", roles.end(roles.owner), "")
        roles.owner, _ = roles.start("own", "owner")
        expect_equal("the term", read_number(roles.path("first.term")), most)
        said = roles.end(roles.owner)
        expect("it says so: " + said, "is the highest there is" in said)


def test_devices_are_listed_for_programs(folder):
    with Roles(folder, "mem:1M,block=4096,ro") as roles:
        device = json.loads(roles.io("list", "--json").stdout)
        expect_equal("the device", device, {"name": "disk", "number": 1 << 16 | 1, "size": MIB,
                                            "block": 4096, "iounit": "2.1", "readonly": True})


def test_more_than_the_device_holds_is_not_written_as_if_it_were_all(folder):
    with Roles(folder, "mem:1M") as roles:
        image = roles.path("image")
        with open(image, "wb") as f:
            f.write(bytes(MIB + 1))
        for words in (("--file", image), ("--file", image, "--at", "512k")):
            done = roles.io("write", "disk", *words)
            expect_equal("status", done.returncode, 1)
            expect("why: %s" % done.stderr, b"the input has more" in done.stderr)
        expect_equal("so much of it", roles.io("write", "disk", "--file", image, "--length", "1M"
                                               ).returncode, 0)
        os.truncate(image, MIB)
        expect_equal("all of it", roles.io("write", "disk", "--file", image).returncode, 0)


def test_who_never_reached_the_owner_has_not_lost_it(folder):
    """Whenever one gives up, also in the middle of another try."""
    with Roles(folder, "mem:1M") as roles:
        roles.write("requester", "owner o 1.1 %s 127.0.0.1:1\n" % ("ab" * 32))
        for ms in range(200, 400, 10):
            done = roles.io("list", "--wait", "%dms" % ms)
            expect("why: %s" % done.stderr, b"(connect_refused)" in done.stderr)


def test_who_leaves_in_order_had_no_error(folder):
    with Roles(folder, "mem:1M") as roles:
        expect_equal("status", roles.io("read", "disk", "--file", "/dev/null").returncode, 0)
        roles.end(roles.owner)
        roles.iounit.terminate()
        said = roles.iounit.communicate(timeout=PATIENCE_S)[0]
        expect("told: " + said, " 3.1 is no longer connected\n" in said)
        expect("told: " + said, " 1.1 has left, the owner\n" in said)


def test_a_member_that_a_mirror_leaves_out_is_reported_once(folder):
    """A process that opens the mirror anew must know which members to leave out."""
    with Roles(folder, "mirror(mem:1M,fault:at=0+4096(mem:1M))") as roles:
        image = roles.path("image")
        with open(image, "wb") as f:
            f.write(bytes(MIB))
        for _ in range(2):
            expect_equal("status", roles.io("write", "disk", "--file", image).returncode, 0)
        roles.iounit.terminate()
        said = roles.iounit.communicate(timeout=PATIENCE_S)[0]
        expect_equal("told: " + said, said.count("device disk: member 2 of its mirror is left out "
                                                 "from now on: "), 1)


def test_a_device_without_a_name_is_not_just_any(folder):
    """An empty variable in a script must not write to the first device there is."""
    with Roles(folder, "mem:1M") as roles:
        expect_equal("the device is there", roles.io("flush", "disk").returncode, 0)
        for words in (("zero", ""), ("read", ""), ("copy", "disk", "")):
            done = roles.io(*words)
            expect_equal("status of %s" % (words,), done.returncode, 2)
            expect("why: %s" % done.stderr, b"a device has a name" in done.stderr)


main(globals())
