#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""liar_test.py WEFT: weft's initiator and targets that lie, over real sockets: no lie is taken for data.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import sys

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


if __name__ == "__main__":
    main(globals())
