#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""initiator_test.py WEFT: weft iscsi discover, info, read, write, copy and bench, with disks of our own target,
by TCP and by iSER on both wires, and of tgtd.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import contextlib
import json
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from script import expect, expect_equal, main, need, run  # noqa: E402
from target import NAME, PATIENCE_S, WEFT, Target  # noqa: E402
from tgt import NAME as TGT_NAME, Tgt, free_port  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
SIZE = 8 * MIB
ISER = "iser roce 127.0.0.1:0\niser iwarp 127.0.0.1:0\n"
MINE = "user alice\npassword 0123456789abcd\n"
THEIRS = "target_user disk\ntarget_password abcdef012345\n"
SECRETS = "initiator alice 0123456789abcd\ntarget disk abcdef012345\n"


def weft(*words, **wishes):
    return run(WEFT, "iscsi", *words, **wishes)


def good(*words):
    done = weft(*words)
    expect_equal("status of %s: %s" % (" ".join(words), done.stderr), done.returncode, 0)
    return done.stdout


def good_json(*words):
    return json.loads(good(*words, "--json"))


def refused(says, *words, status=1):
    """It fails, and says why; each of what it must say."""
    done = weft(*words)
    expect_equal("status of %s: %s" % (" ".join(words), done.stderr), done.returncode, status)
    for word in [says] if isinstance(says, str) else says:
        expect("%s says %s: %s" % (" ".join(words), word, done.stderr), word in done.stderr)
    return done.stderr


def write(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as f:
        f.write(data)
    return path


def content(path):
    with open(path, "rb") as f:
        return f.read()


def data_of(url, *options):
    """What weft iscsi read gives on its standard output."""
    done = subprocess.run([WEFT, "iscsi", "read", url, *options], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE_S)
    expect_equal("status of read: %s" % done.stderr, done.returncode, 0)
    return done.stdout


@contextlib.contextmanager
def weft_disk(folder, wire):
    """The URL of an empty disk of our own target, and the file that it is."""
    disk = os.path.join(folder, "disk")
    with Target(folder, "file:%s,size=%d" % (disk, SIZE), lines=ISER) as target:
        yield (target.url() if wire == "TCP" else target.iser_url(wire)), disk


@contextlib.contextmanager
def tgt_disk(folder):
    with Tgt(folder, SIZE) as tgt:
        yield tgt.url(), tgt.lun


# --- Every verb, everywhere --------------------------------------------------------------------


def all_verbs(folder, url, disk):
    image = os.urandom(3 * MIB) + bytes(2 * MIB) + os.urandom(MIB + 512)
    path = write(folder, "image", image)
    said = good_json("write", url, path, "--verify")
    expect_equal("written", (said["bytes"], said["verified"]), (len(image), True))
    expect("it is on the disk", content(disk)[:len(image)] == image)
    expect("read back", data_of(url, "--length", str(len(image)), "--block", "64k", "--depth", "7") == image)
    expect("a part", data_of(url, "--offset", "1M", "--length", "4k") == image[MIB:MIB + 4 * KIB])
    whole = os.path.join(folder, "whole")
    good("read", url, whole)
    expect("all of it", content(whole) == content(disk))
    good("write", url, path, "--offset", "1M", "--length", "64k", "--fua", "--block", "16k")
    expect("the part that was written", content(disk)[MIB:MIB + 64 * KIB] == image[:64 * KIB])
    copied = os.path.join(folder, "copied")
    said = good_json("copy", url, "file:%s,size=%d" % (copied, SIZE), "--verify")
    expect_equal("copied", said["bytes"], SIZE)
    expect("the copy", content(copied) == content(disk))
    for more in [], ["--random"], ["--write", "--offset", "4M", "--length", "1M", "--random"]:
        figures = good_json("bench", url, "--seconds", "0.2", "--depth", "8", *more)
        expect("figures: %s" % figures, figures["requests"] > 0 and figures["iops"] > 0 and
               figures["p99_us"] >= figures["median_us"] > 0 and figures["cpu"] > 0)
    expect("the rest is what it was", content(disk)[:MIB] == image[:MIB])


def test_iscsi_initiator_every_verb_by_tcp(folder):
    with weft_disk(folder, "TCP") as (url, disk):
        all_verbs(folder, url, disk)


def test_iscsi_initiator_every_verb_by_iser_on_roce(folder):
    with weft_disk(folder, "RoCE") as (url, disk):
        all_verbs(folder, url, disk)


def test_iscsi_initiator_every_verb_by_iser_on_iwarp(folder):
    with weft_disk(folder, "iWARP") as (url, disk):
        all_verbs(folder, url, disk)


def test_iscsi_initiator_every_verb_with_tgtd(folder):
    with tgt_disk(folder) as (url, disk):
        all_verbs(folder, url, disk)


def test_iscsi_initiator_with_digests(folder):
    with weft_disk(folder, "TCP") as (url, disk):
        url += "?header_digest=crc32c&data_digest=crc32c"
        info = good_json("info", url)
        expect_equal("digests", (info["header_digest"], info["data_digest"]), (True, True))
        all_verbs(folder, url, disk)


# --- What is there -----------------------------------------------------------------------------


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


def test_iscsi_discover_lists_targets_and_units(folder):
    with Target(folder, "mem:16M", "readonly mem:8M,block=4096") as target:
        said = lines_of(good("discover", target.portal(), "--json"))
        expect_equal("targets", [x["target"] for x in said], [NAME])
        expect("portal: %s" % said, said[0]["portal"].startswith("127.0.0.1:%d" % target.port))
        units = lines_of(good("discover", target.url(), "--json"))
        expect_equal("units", [(x["lun"], x["device_type"], x["size"], x["block"]) for x in units],
                     [(0, 0, 16 * MIB, 512), (1, 0, 8 * MIB, 4096)])
        words = good("discover", target.portal()) + good("discover", target.url())
        for word in (NAME, "LUN 0", "LUN 1", "disk", "16.0 MiB", "weft"):
            expect("%s in %s" % (word, words), word in words)


def test_iscsi_discover_needs_no_unit_at_the_lun(folder):
    """The LUN of the URL need not be there, nor LUN 0, nor be ready."""
    with Target(folder, target="\nlun 3 mem:2M\nlun 200 mem:1M") as target:
        for url in target.url(), target.url(lun=7), target.url(lun=3):
            units = lines_of(good("discover", url, "--json"))
            expect_equal("units of " + url, [(x["lun"], x["size"]) for x in units], [(3, 2 * MIB), (200, MIB)])
        refused("has no logical unit 0", "info", target.url())


def test_iscsi_discover_of_tgtd(folder):
    with Tgt(folder, SIZE) as tgt:
        said = lines_of(good("discover", tgt.portal(), "--json"))
        expect_equal("targets", [x["target"] for x in said], [TGT_NAME])
        units = {x["lun"]: x for x in lines_of(good("discover", tgt.url(), "--json"))}
        expect_equal("the controller", units[0]["device_type"], 12)
        expect_equal("the disk", (units[1]["device_type"], units[1]["size"]), (0, SIZE))


def test_iscsi_target_ends_in_time_though_an_initiator_does_not_look(folder):
    """It is told to log out, and waits for a reader of what it has read instead."""
    for wire in "RoCE", "iWARP":
        with Target(folder, "mem:8M", lines=ISER + "end-timeout 1s\n") as target, \
                subprocess.Popen([WEFT, "iscsi", "read", "--retry", "0s", target.iser_url(wire)],
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as client:
            expect("it reads", client.stdout.read(1))
            begin_s = time.monotonic()
            target.end()
            expect("the end takes %.1f s" % (time.monotonic() - begin_s), time.monotonic() - begin_s < 9)
            client.stdout.close()
            client.wait(PATIENCE_S)


def test_iscsi_discover_by_iser(folder):
    with Target(folder, "mem:1M", lines=ISER) as target:
        for wire in "RoCE", "iWARP":
            units = lines_of(good("discover", target.iser_url(wire), "--json"))
            expect_equal("units by " + wire, [x["size"] for x in units], [MIB])


def test_iscsi_info_has_unit_and_session(folder):
    with Target(folder, "mem:16M", "readonly mem:8M,block=4096") as target:
        info = good_json("info", target.url())
        expect_equal("size", (info["size"], info["block"], info["lun"]), (16 * MIB, 512, 0))
        expect_equal("who", (info["target"], info["state"], info["vendor"]), (NAME, "connected", "weft"))
        expect("initiator: %s" % info, info["initiator"].startswith("iqn."))
        expect("negotiated: %s" % info, info["burst"] > 0 and info["recv_segment"] > 0 and
               info["commands"] > 0)
        expect_equal("portal", info["portal"], "127.0.0.1:%d" % target.port)
        other = good_json("info", target.url(lun=1))
        expect_equal("the other", (other["readonly"], other["block"], info["readonly"]), (True, 4096, False))
        words = good("info", target.url())
        for word in ("LUN 0 of " + NAME, "16.0 MiB (16777216 bytes)", "write cache", "digests", "connected"):
            expect("%s in %s" % (word, words), word in words)


def test_iscsi_initiator_says_its_name(folder):
    friend = "iqn.2026-11.org.example:friend"
    with Target(folder, "mem:1M", target="allow %s\n" % friend) as target:
        expect_equal("name", good_json("info", target.url(), "--initiator", friend)["initiator"], friend)
        refused("iscsi_", "info", target.url(), "--initiator", "iqn.2026-11.org.example:other")
        refused("iscsi_", "info", target.url())


# --- CHAP --------------------------------------------------------------------------------------


def test_iscsi_initiator_proves_who_it_is(folder):
    with Target(folder, "mem:1M", lines="discovery-chap secrets", secrets=SECRETS) as target:
        secrets = os.path.join(folder, "mine")
        target.write("mine", MINE)
        good("info", target.url(), "--secrets", secrets)
        good("info", target.url(user="alice%0123456789abcd"))
        expect("targets", NAME in good("discover", target.portal(), "--secrets", secrets))
        target.write("mine", MINE + THEIRS)
        good("info", target.url(), "--secrets", secrets)
        for words in ([target.url()], [target.url(user="alice%0123456789abcX")],
                      [target.url(user="bob%0123456789abcd")]):
            said = refused("iscsi_", "info", *words)
            expect("no secret is told: " + said, "0123456789" not in said)
        target.write("mine", MINE + THEIRS.replace("345", "349"))
        refused("iscsi_chap", "info", target.url(), "--secrets", secrets)
        os.chmod(secrets, 0o644)
        refused(secrets, "info", target.url(), "--secrets", secrets)
        expect_equal("sessions", target.status()["sessions"], 0)


# --- Copies ------------------------------------------------------------------------------------


def test_iscsi_copy_between_two_targets(folder):
    os.mkdir(os.path.join(folder, "weft"))
    with tgt_disk(folder) as (theirs, their_disk), \
            weft_disk(os.path.join(folder, "weft"), "TCP") as (ours, our_disk):
        image = os.urandom(2 * MIB)
        good("write", theirs, write(folder, "image", image))
        good("copy", theirs, ours, "--verify")
        expect("there", content(our_disk) == content(their_disk))
        good("copy", ours, theirs, "--offset", "0", "--length", "1M", "--to", "4M")
        expect("and back", content(their_disk)[4 * MIB:5 * MIB] == image[:MIB])


def test_iscsi_copy_leaves_zeroes_out(folder):
    """A sparse disk stays sparse, also where there was data before."""
    with weft_disk(folder, "TCP") as (url, disk):
        good("write", url, write(folder, "old", os.urandom(2 * MIB)))
        said = good_json("copy", "mem:8M", url)
        expect_equal("zeroes", (said["bytes"], said["zero_bytes"]), (SIZE, SIZE))
        expect("the old data is gone", content(disk) == bytes(SIZE))
        copy = os.path.join(folder, "copy")
        good("copy", url, copy)
        expect_equal("length", os.path.getsize(copy), SIZE)
        expect_equal("blocks of the file", os.stat(copy).st_blocks, 0)


def test_iscsi_write_takes_a_pipe_and_fills_up_the_last_block(folder):
    with weft_disk(folder, "TCP") as (url, disk):
        good("write", url, write(folder, "old", b"\xff" * 4096))
        done = subprocess.run([WEFT, "iscsi", "write", url], input=b"abc" * 333, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=PATIENCE_S)
        expect_equal("status: %s" % done.stderr, done.returncode, 0)
        expect("what was written", content(disk)[:4096] == (b"abc" * 333).ljust(1024, b"\0") + b"\xff" * 3072)


# --- Refusals ----------------------------------------------------------------------------------


def test_iscsi_initiator_called_wrongly(folder):
    url = "iscsi://127.0.0.1:1/%s/0" % NAME
    for words in (["info"], ["info", url, url], ["read"], ["read", url, "a", "b"], ["copy", url], ["bench"],
                  ["discover"], ["info", url, "--fua"], ["read", url, "--to", "1"], ["read", url, "--length", "x"],
                  ["bench", url, "--seconds", "0"], ["bench", url, "--block", "0"],
                  ["write", url, "--depth", "5000"], ["nothing"]):
        done = weft(*words)
        expect_equal("status of %s: %s" % (words, done.stderr), done.returncode, 2)
        expect("something is said", done.stderr != "")
    refused("this is no URL", "read", "disk", status=2)
    refused("--length x: no such value", "read", url, "--length", "x", status=2)


def test_iscsi_initiator_says_why_there_is_no_disk(folder):
    url = "iscsi://127.0.0.1:%d/%s/0" % (free_port(), NAME)
    for words in (["info", url], ["discover", url], ["discover", url.split("/iqn")[0]], ["read", url], ["copy", url, "mem:1M"],
                  ["bench", url]):
        refused(["weft iscsi: iscsi://127.0.0.1:", "onnect"], *words)
    refused("iscsi_url", "info", "iscsi://127.0.0.1:1/disk/0")
    with Target(folder, "mem:1M") as target:
        refused("iscsi_", "info", target.url().replace(":disk/", ":other/"))
        refused("iscsi_", "info", target.url(lun=5))
        expect_equal("sessions", target.status()["sessions"], 0)


def test_iscsi_ranges_are_checked_before_anything_is_written(folder):
    disk = os.path.join(folder, "disk")
    with Target(folder, "file:%s,size=1M" % disk, "readonly mem:1M", "mem:2M,block=4096") as target:
        url, image = target.url(), write(folder, "image", b"x" * MIB)
        refused("no multiple of its blocks of 512", "read", url, "--offset", "100")
        refused("no multiple of its blocks of 4096", "write", target.url(lun=2), image, "--offset", "512")
        refused("it has only 1048576 bytes", "read", url, "--offset", "1M", "--length", "512")
        refused("it has only", "read", url, "--offset", "2M")
        refused("no multiple", "read", url, "--length", "100")
        refused("it is read-only", "write", target.url(lun=1), image)
        refused("there is no room", "copy", target.url(lun=2), url)
        refused("--fua and --verify", "read", url, "--verify")
        refused("a file is read and written from its beginning", "copy", image, url, "--offset", "512")
        refused("No such file", "write", url, os.path.join(folder, "none"))
        refused("No such file", "copy", os.path.join(folder, "none"), url)
        refused("at character 1, file:", "copy", "file:%s/none" % folder, url)
        refused("beyond the end", "bench", url, "--offset", "2M")
        refused("multiples of the unit's blocks", "bench", target.url(lun=2), "--block", "512")
        refused("read-only", "bench", target.url(lun=1), "--write")
        expect("nothing was written", content(disk) == bytes(MIB))


def test_iscsi_write_of_too_much_fails(folder):
    with Target(folder, "mem:1M") as target:
        refused("more than the 1048576 bytes", "write", target.url(), write(folder, "image", b"x" * (MIB + 1)))
        good("write", target.url(), os.path.join(folder, "image"), "--length", "1M")


def test_iscsi_read_to_a_full_disk_fails(folder):
    with Target(folder, "mem:1M") as target:
        good("write", target.url(), write(folder, "image", b"x" * MIB))
        refused("No space left", "read", target.url(), "/dev/full")


def test_iscsi_what_the_unit_refuses_is_told_in_its_words(folder):
    """A disk with a place that cannot be read."""
    with Target(folder, "fault:at=64k+4096(mem:1M)") as target:
        refused(["read of iscsi://", "at byte 65536", "iscsi_status"], "read", target.url(), "/dev/null",
                "--block", "4k")
        refused("iscsi_status", "bench", target.url(), "--seconds", "0.1", "--block", "64k")


# --- Bad days ----------------------------------------------------------------------------------


class Writer:
    """weft iscsi write from a pipe, a bit at a time."""

    def __init__(self, url, *options):
        self.process = subprocess.Popen([WEFT, "iscsi", "write", url, "--block", "64k", *options],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def give(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def end(self):
        """Its status, and what it said."""
        said = self.process.communicate(timeout=PATIENCE_S)[1].decode()
        return self.process.returncode, said


def await_written(target, least):
    """Nothing tells, so the target is asked until it is so."""
    until = time.monotonic() + PATIENCE_S
    while sum(x["bytes_written"] for x in target.status()["sessions_now"]) < least:
        expect("so much is written", time.monotonic() < until)


def interrupted(folder, *options):
    """A target that is killed in the middle of a write, and begins again."""
    disk = os.path.join(folder, "disk")
    image = os.urandom(2 * MIB)
    with Target(folder, "file:%s,size=%d" % (disk, SIZE)) as target:
        writer = Writer(target.url(), *options)
        writer.give(image[:MIB])
        await_written(target, 512 * KIB)
        target.kill()
        target.start()
        writer.give(image[MIB:])
        status, said = writer.end()
        return status, said, content(disk)[:len(image)] == image


def test_iscsi_write_goes_on_after_the_target_was_away(folder):
    """With FUA each write is durable when it was acknowledged, so nothing can be lost."""
    status, said, is_same = interrupted(folder, "--fua")
    expect_equal("status: " + said, status, 0)
    expect("all is there", is_same)


def test_iscsi_write_says_that_writes_may_be_lost(folder):
    """What became of the cache of a target that began anew is not known."""
    status, said, _ = interrupted(folder)
    expect_equal("status: " + said, status, 1)
    expect("why: " + said, "flush of iscsi://" in said and "store_lost" in said)


def test_iscsi_write_of_a_disk_that_is_protected_meanwhile(folder):
    need("iscsi-swp")
    with Target(folder, "mem:4M") as target:
        writer = Writer(target.url())
        writer.give(b"x" * 64 * KIB)
        await_written(target, 64 * KIB)
        expect_equal("status of iscsi-swp", run("iscsi-swp", "-s", "on", target.url()).returncode, 0)
        with contextlib.suppress(BrokenPipeError):
            writer.give(b"x" * 64 * KIB)
        status, said = writer.end()
        expect_equal("status: " + said, status, 1)
        expect("why: " + said, "write of iscsi://" in said and "DATA PROTECT" in said and "(store_readonly)" in said)


def test_iscsi_write_ends_if_the_target_stays_away(folder):
    with Target(folder, "mem:4M") as target:
        writer = Writer(target.url(), "--retry", "0s")
        writer.give(bytes(range(256)) * 4096)
        await_written(target, 512 * KIB)
        target.kill()
        with contextlib.suppress(BrokenPipeError):
            writer.give(bytes(range(256)) * 4096)
        status, said = writer.end()
        expect_equal("status: " + said, status, 1)
        expect("why: " + said, "weft iscsi: " in said and "127.0.0.1" in said)


main(globals())
