#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""nbd_device_test.py BUILD: nbdkit's plugin on a line of docs/store.md, without an owner.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from script import PATIENCE_S, Skip, expect, expect_equal, main, need, run  # noqa: E402

PLUGIN = os.path.join(os.path.realpath(sys.argv[1]), "nbdkit-weft-plugin.so")
MIB = 1 << 20


def kit(device, command, *programs):
    """nbdkit with this device, for as long as the command of a shell runs, in which $uri is its URI."""
    need("nbdkit", *programs)
    if not os.path.exists(PLUGIN):
        raise Skip("weft was built without nbdkit (nbdkit-plugin-dev)")
    return run("nbdkit", "-U", "-", PLUGIN, "device=" + device, "--run", command)


def qemu_io(*commands):
    return "qemu-io -f raw %s $uri" % " ".join("-c '%s'" % c for c in commands)


def expect_good(done):
    said = done.stdout + done.stderr
    expect("status %d: %s" % (done.returncode, said),
           done.returncode == 0 and "failed" not in said.lower() and "error" not in said.lower())


def test_nbd_device_writes_reads_zeroes_and_discards(_):
    for device in ("mem:16M", "stripe:64k(mem:8M,mem:8M)", "delay:1ms(mem:16M)"):
        expect_good(kit(device, qemu_io(
            "write -P 0x5a 0 3M", "write -P 0xa5 -f 5M 64k", "flush", "read -P 0x5a 0 3M",
            "read -P 0xa5 5M 64k", "write -z 1M 1M", "read -P 0 1M 1M", "discard 2M 1M",
            "read -P 0x5a 0 1M"), "qemu-io"))


def test_nbd_device_tells_clients_what_it_is(_):
    for device, size, words in (("mem:3M,block=4096", 3 * MIB, ("is_read_only: false", "can_fua: true")),
                                ("mem:1M,ro", MIB, ("is_read_only: true",))):
        done = kit(device, "nbdinfo --size $uri; nbdinfo $uri", "nbdinfo")
        expect("size: " + done.stdout, done.stdout.startswith("%d\n" % size))
        for word in words:
            expect("%s: %s" % (word, done.stdout), word in done.stdout)


def test_nbd_device_serves_many_requests_at_once(_):
    """A device that takes a while for each: they pass one another, and all come back."""
    done = kit("delay:2ms(mem:8M)", "fio --name=x --ioengine=nbd --uri=$uri --rw=randrw --bs=4k "
               "--iodepth=16 --size=8M --verify=crc32c --verify_fatal=1 --verify_state_save=0", "fio")
    expect("fio: " + done.stdout + done.stderr, done.returncode == 0 and "err= 0" in done.stdout)


def test_nbd_device_is_found_from_where_nbdkit_was_started(folder):
    """In the background nbdkit is at home elsewhere, and the device is opened once more."""
    need("nbdkit", "qemu-io")
    if not os.path.exists(PLUGIN):
        raise Skip("weft was built without nbdkit (nbdkit-plugin-dev)")
    socket, number = os.path.join(folder, "socket"), os.path.join(folder, "pid")
    before = os.getcwd()
    os.chdir(folder)
    try:
        done = run("nbdkit", "-U", socket, "-P", number, PLUGIN, "device=file:disk,size=1M")
    finally:
        os.chdir(before)
    expect_equal("status: " + done.stderr, done.returncode, 0)
    until = time.monotonic() + PATIENCE_S
    while not (os.path.exists(number) and open(number).read().endswith("\n")):
        expect("it begins", time.monotonic() < until)
        time.sleep(0.01)  # nothing tells
    pid = int(open(number).read())
    try:
        expect_good(run("qemu-io", "-f", "raw", "-c", "write -P 7 0 1M", "-c", "flush",
                        "nbd+unix:///?socket=" + socket))
    finally:
        os.kill(pid, signal.SIGTERM)
    with open(os.path.join(folder, "disk"), "rb") as f:
        expect("what was written is in the file", f.read() == b"\7" * MIB)


def test_nbd_device_that_fails_says_why(folder):
    done = kit("fault:at=0+4096(mem:1M)", qemu_io("read 0 4k", "read 64k 4k"), "qemu-io")
    expect("the client: " + done.stdout, "read failed: Input/output error" in done.stdout + done.stderr)
    expect("the rest can be read: " + done.stdout, "read 4096/4096" in done.stdout)
    expect("why: " + done.stderr, "cannot read the device: " in done.stderr and
           "(store_fault)" in done.stderr)


def test_nbd_device_that_cannot_be_opened_is_refused_at_once(folder):
    for device, says in (("disk", "at character 1: a device begins with mem: file: "),
                         ("file:%s/none" % folder, "at character 1, file: "),
                         ("mem:0", "at character 1, mem: ")):
        done = kit(device, "true")
        expect("status of %s" % device, done.returncode != 0)
        expect("why: " + done.stderr, "cannot use the device: " + says in done.stderr)


def test_nbd_device_says_which_member_a_mirror_leaves_out(_):
    done = kit("mirror(mem:1M,fault:at=0+4096(mem:1M))", qemu_io("write -P 1 0 64k", "read -P 1 0 64k"),
               "qemu-io")
    expect("it goes on: " + done.stdout, "read 65536/65536" in done.stdout)
    expect("told: " + done.stderr, "member 2 of its mirror is left out" in done.stderr)


main(globals())
