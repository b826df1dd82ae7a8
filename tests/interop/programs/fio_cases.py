# SPDX-License-Identifier: BSD-2-Clause
"""fio's rdma engine (package fio), with every kind of transfer checked.

fio verifies what it receives by messages (send), by the checksum that the sender put in each block.
It cannot for RDMA Write and Read: the side whose memory is written does not look, and the reader
never knew what was there. Those run with their buffers in files, and the test compares these.
"""
import os
import random

from runner import Case, Side

BLOCK = 64 << 10
DEPTH = 8
BLOCKS = 128
FIO = ("fio --ioengine=rdma --hostname=127.0.0.1 --port=PORT --bs=64k --size=8m --iodepth=8 "
       "--name=%s --rw=%s %s")
NOT = ["(?i)error", "(?i) fail", "verify:"]
PATTERN = bytes.fromhex("0123456789abcdeffedcba98")


def fio(name, receiver, sender, more_receiver=(), **more):
    return Case("fio_" + name,
                Side(FIO % ("receiver", "read", receiver), [r"err= 0"] + list(more_receiver), NOT),
                Side(FIO % ("sender", "write", sender), [r"err= 0", r"io=8192KiB"], NOT),
                ready="waiting for connection", seconds=60, **more)


def blocks(folder, name):
    with open(os.path.join(folder, name), "rb") as f:
        data = f.read(DEPTH * BLOCK)
    return [data[i:i + BLOCK] for i in range(0, len(data), BLOCK)]


def check_written(folder):
    """Each write goes to one of the receiver's blocks, by lot; each is met many times."""
    whole = (PATTERN * (BLOCK // len(PATTERN) + 1))[:BLOCK]
    wrong = sum(b != whole for b in blocks(folder, "memory"))
    return "%d blocks do not hold what was written" % wrong if wrong else None


def make_file(folder, name, data):
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)
        # fio maps the file as it is, and more of it than its blocks.
        f.truncate(2 * DEPTH * BLOCK)


def prepare_write(folder):
    make_file(folder, "memory", b"")


def prepare_read(folder):
    make_file(folder, "memory", random.Random(1).randbytes(DEPTH * BLOCK))
    make_file(folder, "taken", b"")


def check_read(folder):
    """Each read takes one of the blocks, by lot."""
    there, taken = blocks(folder, "memory"), blocks(folder, "taken")
    if b"".join(there) != random.Random(1).randbytes(DEPTH * BLOCK):
        return "what was read has changed"
    wrong = sum(b not in there for b in taken)
    return "%d blocks hold what was never there" % wrong if wrong or not taken else None


CASES = [
    fio("write", "--mem=mmapshared:DIR/memory",
        "--verb=write --buffer_pattern=0x" + PATTERN.hex(),
        prepare=prepare_write, check=check_written),
    fio("read", "--mem=mmapshared:DIR/memory", "--verb=read --mem=mmapshared:DIR/taken",
        prepare=prepare_read, check=check_read),
    # It says for each block that it looks at it.
    fio("send", "--verify=crc32c --debug=verify", "--verb=send --verify=crc32c --do_verify=0",
        [(r"^verify +\d+ +crc32c verify io_u", BLOCKS)]),
]
