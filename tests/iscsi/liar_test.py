#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""liar_test.py WEFT: weft's initiator and targets that lie, over real sockets: no lie is taken for data.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from liar import BLOCK, BYTES, FINAL, STATUS, UNDERFLOW, Liar  # noqa: E402
from script import expect, expect_equal, main, run  # noqa: E402

WEFT = os.path.realpath(sys.argv[1])
LENGTH, PIECE = 64 << 10, 8192


def whole(connection, header, length):
    for number, offset in enumerate(range(0, length, PIECE)):
        piece = min(PIECE, length - offset)
        connection.data_in(header, BYTES * piece, offset, FINAL | STATUS if offset + piece == length else 0, number)


def told(folder, lie, *reasons):
    """A read of which the target lies fails, for one of these reasons, and leaves no data."""
    with Liar(lambda c, h, length: lie(c, h, length) if length > BLOCK else whole(c, h, length)) as liar:
        path = os.path.join(folder, "read")
        done = run(WEFT, "iscsi", "read", "--retry", "1s", "--timeout", "3s", "--block", str(LENGTH), "--length",
                   str(LENGTH), liar.url, path)
        expect_equal("status: " + done.stderr, done.returncode, 1)
        expect("why: " + done.stderr, any(reason in done.stderr for reason in reasons))
        with open(path, "rb") as f:
            expect("no data", not f.read(1))


def test_iscsi_liar_tells_the_truth(folder):
    with Liar(whole) as liar:
        path = os.path.join(folder, "read")
        done = run(WEFT, "iscsi", "read", liar.url, path)
        expect_equal("status: " + done.stderr, done.returncode, 0)
        with open(path, "rb") as f:
            expect("data", f.read() == BYTES * (1 << 20))


def test_iscsi_a_half_that_comes_twice_is_no_whole(folder):
    def lie(c, header, length):
        c.data_in(header, BYTES * (length // 2), flags=0)
        c.data_in(header, BYTES * (length // 2), number=1)

    told(folder, lie, "iscsi_data_order")


def test_iscsi_condition_met_is_no_data(folder):
    told(folder, lambda c, header, _: c.respond(header, 4), "iscsi_status")
    told(folder, lambda c, header, _: c.data_in(header, BYTES * BLOCK, status=4), "iscsi_status")


def test_iscsi_good_without_data_is_no_data(folder):
    told(folder, lambda c, header, _: c.respond(header), "iscsi_data_missing")
    told(folder, lambda c, header, length: c.respond(header, 0, FINAL | UNDERFLOW, length), "iscsi_data_missing")
    told(folder, lambda c, header, _: c.data_in(header, BYTES * BLOCK, flags=FINAL | STATUS | UNDERFLOW),
         "iscsi_data_missing")


def test_iscsi_what_a_target_did_wrong_is_said(folder):
    told(folder, lambda c, header, length: c.data_in(header, BYTES * BLOCK, length - 1), "iscsi_entry_range")
    told(folder, lambda c, header, _: c.data_in(header, BYTES * BLOCK, itt=b"\0\0\0\0"), "iscsi_entry")
    told(folder, lambda c, header, _: c.r2t(header, 0, BLOCK), "iscsi_entry_right")


def test_iscsi_sizes_that_cannot_be_are_refused(_):
    for last, block in ((2 ** 64 - 1, 512), (2 ** 64 - 2, 512), (2 ** 63, 4096), (100, 0), (100, 511), (100, 1 << 24)):
        with Liar(whole, last, block) as liar:
            done = run(WEFT, "iscsi", "info", liar.url)
            expect_equal("%d blocks of %d: %s%s" % (last, block, done.stdout, done.stderr), done.returncode, 1)
            expect("why: " + done.stderr, "a size that cannot be (iscsi_unsupported)" in done.stderr)


def test_iscsi_luns_that_are_only_said_are_not_shown(_):
    for luns in 0, 1, 2, 5000:
        with Liar(whole) as liar:
            liar.luns = luns
            done = run(WEFT, "iscsi", "discover", liar.url)
            expect_equal("status: " + done.stderr, done.returncode, int(luns > 1))
            expect_equal("shown", done.stdout.count("LUN 0"), min(luns, 1))
            expect("it is told: " + done.stderr, luns <= 1 or "has %d LUNs, and names 1" % luns in done.stderr)


def test_iscsi_data_for_a_write_is_refused(folder):
    path = os.path.join(folder, "write")
    with open(path, "wb") as f:
        f.write(bytes(LENGTH))
    with Liar(lambda c, header, length: c.data_in(header, BYTES * BLOCK)) as liar:
        done = run(WEFT, "iscsi", "write", "--retry", "1s", "--timeout", "3s", "--block", str(LENGTH), liar.url, path)
        expect_equal("status: " + done.stderr, done.returncode, 1)
        expect("why: " + done.stderr, "iscsi_entry_right" in done.stderr)


def test_iscsi_a_second_response_ends_nothing_else(folder):
    """It is for a command that is over: the adapter drops it, and all others are carried out."""
    def lie(c, header, length):
        whole(c, header, length)
        c.stat_sn -= 1
        c.respond(header)

    with Liar(lie) as liar:
        path = os.path.join(folder, "read")
        done = run(WEFT, "iscsi", "read", "--block", "8k", liar.url, path)
        expect_equal("status: " + done.stderr, done.returncode, 0)
        with open(path, "rb") as f:
            expect("data", f.read() == BYTES * (1 << 20))


DIGESTS = {"HeaderDigest": "CRC32C", "DataDigest": "CRC32C"}


def test_iscsi_wrong_digests_are_no_data(folder):
    for what, reason in (("", ""), ("header", "iscsi_header_digest"), ("data", "iscsi_data_digest")):
        def lie(c, header, length, what=what):
            c.flips = what
            whole(c, header, length)

        with Liar(lie, answers=DIGESTS) as liar:
            path = os.path.join(folder, "read")
            url = liar.url + "?header_digest=crc32c&data_digest=crc32c"
            done = run(WEFT, "iscsi", "read", "--retry", "0s", "--timeout", "3s", "--block", str(PIECE), "--length",
                       str(PIECE), url, path)
            expect_equal("status of a wrong digest of %s: %s" % (what, done.stderr), done.returncode, int(what != ""))
            expect("why: " + done.stderr, reason in done.stderr)
            with open(path, "rb") as f:
                expect("data", f.read() == (b"" if what else BYTES * PIECE))


def refused(liar, *reasons):
    done = run(WEFT, "iscsi", "info", "--retry", "0s", liar.url)
    expect_equal("status: " + done.stderr, done.returncode, 1)
    expect("why: " + done.stderr, all(reason in done.stderr for reason in reasons))


def test_iscsi_logins_that_never_end_are_given_up(_):
    def never(c, header, _):
        c.answer_login(header, header[1] & 0x0c, b"")

    def more(c, header, _):
        c.answer_login(header, 0x40 | header[1] & 0x0c, b"X-org.example.key=" + b"1" * 4000)

    for login, reason in (never, "iscsi_endless"), (more, "iscsi_text_long"):
        with Liar(whole, login=login) as liar:
            refused(liar, reason)


def redirected(status, to):
    def login(c, header, _):
        c.answer_login(header, header[1] & 0x0c, b"TargetAddress=%s\0" % to.encode() if to else b"", status)
    return login


def test_iscsi_redirections_are_followed_a_few_times(folder):
    with Liar(whole) as there:
        address = there.url.split("/")[2]
        for status in 0x0101, 0x0102:
            with Liar(whole, login=redirected(status, address + ",1")) as here:
                path = os.path.join(folder, "read")
                done = run(WEFT, "iscsi", "read", "--length", str(LENGTH), here.url, path)
                expect_equal("status: " + done.stderr, done.returncode, 0)
                with open(path, "rb") as f:
                    expect("data", f.read() == BYTES * LENGTH)
                expect_equal("asked the first portal", here.connections, 1)
        for to, *reasons in (("", "iscsi_refused", "does not say where"), ("nowhere:0:0", "iscsi_value"),
                             ("127.0.0.1:1,1", "connect_refused")):
            with Liar(whole, login=redirected(0x0101, to)) as here:
                refused(here, *reasons)
        with Liar(whole) as here:
            here.login = redirected(0x0101, here.url.split("/")[2])
            refused(here, "iscsi_redirects")
            expect("it is not asked for ever: %d" % here.connections, here.connections < 10)


def test_iscsi_asynchronous_messages_lose_nothing(folder):
    def asks_to_log_out(c):
        c.tell(1, 0, 0, 3)

    def drops_connection(c):
        c.tell(2, 1, 0, 0)

    def drops_session(c):
        c.tell(3, 0, 0, 0)

    def asks_to_negotiate(c):
        c.tell(4, 0, 0, 3)

    def says_its_own(c):
        c.tell(255, 0, 0, 0)

    for tells, connections in ((asks_to_log_out, 2), (drops_connection, 2), (drops_session, 2),
                               (asks_to_negotiate, 1), (says_its_own, 1)):
        def lie(c, header, length, tells=tells):
            if not c.liar.held:
                c.liar.held.append(header)
                tells(c)
            whole(c, header, length)

        with Liar(lie) as liar:
            path = os.path.join(folder, "read")
            # Most requests are not under way yet when the message comes.
            done = run(WEFT, "iscsi", "read", "--block", "64k", "--depth", "2", liar.url, path)
            expect_equal("status after one that %s: %s" % (tells.__name__, done.stderr), done.returncode, 0)
            with open(path, "rb") as f:
                expect("data", f.read() == BYTES * (1 << 20))
            expect_equal("connections after one that " + tells.__name__, liar.connections, connections)


def test_iscsi_a_target_that_falls_silent_is_given_up(folder):
    """After alive_ns it is asked, and after as long again it is away; another connection serves."""
    silent = threading.Event()

    def lie(c, header, length):
        if not c.liar.held:
            c.liar.held.append(header)
            silent.wait()
            raise ConnectionError
        whole(c, header, length)

    with Liar(lie, is_parallel=True) as liar:
        path = os.path.join(folder, "read")
        done = run(WEFT, "iscsi", "read", liar.url, path)
        silent.set()
        expect_equal("status: " + done.stderr, done.returncode, 0)
        with open(path, "rb") as f:
            expect("data", f.read() == BYTES * (1 << 20))
        expect_equal("connections", liar.connections, 2)


if __name__ == "__main__":
    main(globals())
