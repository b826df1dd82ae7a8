#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""devices_test.py WEFT BUILD: disks of iSCSI targets as devices of docs/store.md: for NBD clients by nbdkit, in
an I/O unit, in stripes and mirrors, and given on by another target.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import contextlib
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "../dropin"), os.path.join(HERE, "../rio")]
from roles import Roles  # noqa: E402
from script import Skip, expect, expect_equal, main, need, run  # noqa: E402
from target import WEFT, Target  # noqa: E402
from tgt import Tgt, free_port  # noqa: E402

PLUGIN = os.path.join(os.path.realpath(sys.argv[2]), "nbdkit-weft-plugin.so")
KIB, MIB = 1 << 10, 1 << 20
SIZE = 8 * MIB
ISER = "iser roce 127.0.0.1:0\niser iwarp 127.0.0.1:0\n"


def content(path):
    with open(path, "rb") as f:
        return f.read()


def random_file(folder, name, length):
    path = os.path.join(folder, name)
    with open(path, "wb") as f:
        f.write(os.urandom(length))
    return path


@contextlib.contextmanager
def disk(folder, name="weft", lines=ISER, device="file:DISK,size=%d" % SIZE):
    """A target with a disk of its own, and the file that it is."""
    place = os.path.join(folder, name)
    os.mkdir(place)
    path = os.path.join(place, "disk")
    with Target(place, device.replace("DISK", path), lines=lines) as target:
        yield target, path


# --- nbdkit ------------------------------------------------------------------------------------


def kit(device, command, *programs):
    """nbdkit with this device, for as long as the command of a shell runs, in which $uri is its URI."""
    need("nbdkit", *programs)
    if not os.path.exists(PLUGIN):
        raise Skip("weft was built without nbdkit (nbdkit-plugin-dev)")
    return run("nbdkit", "-U", "-", PLUGIN, "device=" + device, "--run", command)


def kit_good(device, command, *programs):
    done = kit(device, command, *programs)
    said = done.stdout + done.stderr
    expect("status %d: %s" % (done.returncode, said),
           done.returncode == 0 and "failed" not in said.lower() and "mismatch" not in said.lower())
    return said


def qemu_io(*commands):
    return "qemu-io -f raw %s $uri" % " ".join("-c '%s'" % c for c in commands)


def clients_of(folder, url, path):
    """QEMU's tools and fio, and what is on the disk then."""
    image = random_file(folder, "image", 3 * MIB + 512)
    os.truncate(image, 4 * MIB)
    kit_good(url, "qemu-img convert -n -f raw -O raw %s $uri && qemu-img convert -f raw -O qcow2 $uri %s.qcow2 && "
             "qemu-img info $uri" % (image, image), "qemu-img")
    done = run("qemu-img", "compare", "-f", "raw", "-F", "qcow2", path, image + ".qcow2")
    expect_equal("the image and the disk: " + done.stdout, done.returncode, 0)
    expect("the disk has the image", content(path)[:4 * MIB] == content(image))
    kit_good(url, qemu_io("write -P 0x5a 0 3M", "write -P 0xa5 -f 5M 64k", "flush", "read -P 0x5a 0 3M",
                          "read -P 0xa5 5M 64k", "write -z 1M 1M", "read -P 0 1M 1M", "discard 2M 1M",
                          "read -P 0x5a 0 1M"), "qemu-io")
    expect("the pattern", content(path)[:MIB] == b"\x5a" * MIB)
    said = kit_good(url, "fio --name=x --ioengine=nbd --uri=$uri --rw=randrw --bs=4k --iodepth=16 --size=4M "
                    "--verify=crc32c --verify_fatal=1 --verify_state_save=0", "fio")
    expect("fio: " + said, "err= 0" in said)


def test_iscsi_device_for_nbd_clients_by_tcp(folder):
    with disk(folder) as (target, path):
        clients_of(folder, target.url(), path)
        expect_equal("sessions left", target.status()["sessions"], 0)


def test_iscsi_device_for_nbd_clients_by_iser(folder):
    for wire in "RoCE", "iWARP":
        with disk(folder, wire) as (target, path):
            clients_of(folder, target.iser_url(wire), path)


def test_iscsi_device_for_nbd_clients_of_tgtd(folder):
    with Tgt(folder, SIZE) as tgt:
        clients_of(folder, tgt.url(), tgt.lun)


def test_iscsi_device_tells_clients_what_the_unit_is(folder):
    for device, words in (("mem:8M,block=4096", ("export-size: 8388608", "is_read_only: false", "can_fua: true",
                                                 "can_trim: true", "can_zero: true", "block_size_minimum: 4096")),
                          ("mem:1M,ro", ("is_read_only: true",))):
        with disk(folder, "weft%d" % len(words), device=device) as (target, _):
            said = kit_good(target.url(), "nbdinfo $uri", "nbdinfo")
            for word in words:
                expect("%s: %s" % (word, said), word in said)
    with disk(folder) as (target, _):
        said = kit_good(target.url() + ",ro", "nbdinfo $uri", "nbdinfo")
        expect("it can be made read-only: " + said, "is_read_only: true" in said)


def test_iscsi_device_that_is_not_there_is_refused_in_words(folder):
    silent = "127.0.0.1:%d" % free_port()
    for url, says in (("iscsi://%s/iqn.2026-11.org.example:disk/0" % silent, "onnect"),
                      ("iscsi://%s/disk/0" % silent, "this is no iSCSI name"),
                      ("iscsi:disk", "at character 7: a disk of an iSCSI target has a URL")):
        done = kit(url, "true")
        expect("status of " + url, done.returncode != 0)
        expect("why: " + done.stderr, says in done.stderr)
    with disk(folder) as (target, _):
        done = kit(target.url(lun=7), "true")
        expect("why: " + done.stderr, done.returncode != 0 and "at character 1, iscsi: " in done.stderr)


def test_iscsi_device_fails_a_flush_after_the_target_began_anew(folder):
    """What it had acknowledged may be lost: every flush says so from then on. Reads go on."""
    with disk(folder) as (target, _):
        with Roles(folder, target.url()) as roles:
            image = random_file(folder, "image", 64 * KIB)
            expect_equal("status of write", roles.io("write", "disk", "--file", image).returncode, 0)
            target.kill()
            target.start()
            done = roles.io("read", "disk", "--length", "64k", "--file", "/dev/null")
            expect_equal("status of read: %s" % done.stderr, done.returncode, 0)
            for _ in range(2):
                done = roles.io("flush", "disk")
                expect("why: %s" % done.stderr, done.returncode == 1 and b"store_lost" in done.stderr)


# --- I/O units, stripes, mirrors, another target -----------------------------------------------


def through_roles(roles, folder, path, length):
    image = random_file(folder, "image", length)
    done = roles.io("write", "disk", "--file", image)
    expect_equal("status of write: %s" % done.stderr, done.returncode, 0)
    done = roles.io("flush", "disk")
    expect_equal("status of flush: %s" % done.stderr, done.returncode, 0)
    if path:
        expect("the disk has it", content(path)[:length] == content(image))
    back = os.path.join(folder, "back")
    done = roles.io("read", "disk", "--length", str(length), "--file", back)
    expect_equal("status of read: %s" % done.stderr, done.returncode, 0)
    expect("read back", content(back) == content(image))


def test_iscsi_device_of_an_io_unit(folder):
    """A host that owns a disk of a storage area network directs an I/O unit that moves its data."""
    for wire in "TCP", "RoCE":
        place = os.path.join(folder, "roles" + wire)
        os.mkdir(place)
        with disk(folder, wire) as (target, path):
            url = target.url() if wire == "TCP" else target.iser_url(wire)
            with Roles(place, url) as roles:
                through_roles(roles, place, path, 2 * MIB)


def test_iscsi_devices_as_a_stripe(folder):
    with disk(folder, "a") as (a, _), disk(folder, "b") as (b, _):
        with Roles(folder, "stripe:64k(%s,%s)" % (a.url(), b.iser_url("RoCE"))) as roles:
            through_roles(roles, folder, None, 6 * MIB)
            expect("both have a part", a.status()["sessions_now"][0]["bytes_written"] >= 3 * MIB and
                   b.status()["sessions_now"][0]["bytes_written"] >= 3 * MIB)


def test_iscsi_device_as_a_member_of_a_mirror_that_dies(folder):
    """The mirror goes on without it, and says so; what was written is on the other."""
    local = os.path.join(folder, "local")
    with disk(folder) as (target, path):
        with Roles(folder, "mirror(file:%s,size=%d,%s,wait=0s)" % (local, SIZE, target.url())) as roles:
            through_roles(roles, folder, path, MIB)
            expect("the other has it", content(local)[:MIB] == content(path)[:MIB])
            target.kill()
            through_roles(roles, folder, local, MIB)
            roles.iounit.terminate()
            said = roles.iounit.communicate(timeout=60)[0]
            expect("told: " + said, "device disk: member 2 of its mirror is left out" in said)


def test_iscsi_device_given_on_by_another_target(folder):
    """A gateway: TCP in front, RDMA behind."""
    with disk(folder) as (behind, path):
        with disk(folder, "front", device=behind.iser_url("iWARP")) as (front, _):
            image = random_file(folder, "image", 2 * MIB)
            done = run(WEFT, "iscsi", "write", front.url(), image, "--verify", "--fua")
            expect_equal("status: " + done.stderr, done.returncode, 0)
            expect("it is behind", content(path)[:2 * MIB] == content(image))
            done = run("iscsi-inq", front.url())
            expect("libiscsi sees a disk: " + done.stdout, "DIRECT_ACCESS" in done.stdout)


main(globals())
