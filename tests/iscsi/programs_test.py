#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""programs_test.py WEFT KIND_MEMORY: programs of others that use disks of weft iscsi serve: libiscsi's and QEMU's.

KIND_MEMORY: the library of kind_memory.c.
Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from script import Skip, expect, expect_equal, main, need, run  # noqa: E402
from target import NAME, PATIENCE_S, WEFT, Target  # noqa: E402

KIND_MEMORY = os.path.realpath(sys.argv[2])
MIB = 1 << 20
SECRETS = "initiator alice 0123456789abcd\ntarget disk abcdef012345\n"
ALICE = "alice%0123456789abcd"


def good(*words, **wishes):
    done = run(*words, **wishes)
    if done.returncode != 0:
        raise AssertionError("%s: status %d: %s%s" % (" ".join(words), done.returncode, done.stdout,
                                                      done.stderr))
    return done.stdout + done.stderr


def need_qemu():
    need("qemu-img", "qemu-io")
    done = run("qemu-img", "info", "iscsi://127.0.0.1:1/%s/0" % NAME)
    if "nknown protocol" in done.stderr:
        raise Skip("QEMU has no block driver for iSCSI (qemu-block-extra)")


def random_file(folder, name, length):
    path = os.path.join(folder, name)
    with open(path, "wb") as f:
        f.write(os.urandom(length))
    return path


# --- libiscsi ----------------------------------------------------------------------------------


def test_iscsi_ls_finds_target_and_luns(folder):
    need("iscsi-ls")
    with Target(folder, "mem:16M", "readonly mem:8M,block=4096") as target:
        said = good("iscsi-ls", "-s", target.portal())
        expect("the target: " + said, "Target:%s Portal:127.0.0.1:%d,1" % (NAME, target.port) in said)
        expect("LUN 0: " + said, "Lun:0    Type:DIRECT_ACCESS (Size:15M)" in said or
               "Lun:0    Type:DIRECT_ACCESS (Size:16M)" in said)
        expect("LUN 1: " + said, "Lun:1 " in said)
        counts = target.status()
        expect_equal("sessions", counts["sessions"], 0)
        expect_equal("logins refused", counts["refused"], 0)


def test_iscsi_inq_and_readcapacity16(folder):
    need("iscsi-inq", "iscsi-readcapacity16")
    with Target(folder, "mem:16M,block=4096") as target:
        said = good("iscsi-inq", target.url())
        expect("what it is: " + said, "DIRECT_ACCESS" in said and "weft" in said.lower())
        # Names are printed as they are, binary ones too.
        done = subprocess.run(["iscsi-inq", "-e", "1", "-c", "131", target.url()],
                              timeout=PATIENCE_S, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        expect("its names: %s" % done.stdout, NAME.encode() in done.stdout)
        said = good("iscsi-readcapacity16", target.url())
        expect("its size: " + said, "LBA Block Size:4096" in said.replace("  ", " ") or "4096" in said)
        expect("total: " + said, str(16 * MIB) in said)


def test_iscsi_swp_protects_and_unprotects(folder):
    need("iscsi-swp", "qemu-io")
    need_qemu()
    with Target(folder, "mem:1M") as target:
        good("iscsi-swp", "-s", "on", target.url())
        expect("it is on", "SWP:1" in good("iscsi-swp", target.url()))
        done = run("qemu-io", "-f", "raw", "-c", "write 0 4k", target.url())
        expect("no write: " + done.stderr, "write protected" in done.stderr)
        good("iscsi-swp", "-s", "off", target.url())
        expect("it is off", "SWP:0" in good("iscsi-swp", target.url()))
        qemu_io(target.url(), "write 0 4k")


def test_iscsi_perf_reads_at_depth(folder):
    need("iscsi-perf")
    with Target(folder, "mem:16M") as target:
        for words in ["-r"], ["-b", "256", "-m", "8"]:
            said = good("iscsi-perf", "-t", "1", *words, target.url())
            expect("figures: " + said, "iops" in said.lower())
        expect("reads are counted", target.status()["commands"] > 100)


def test_iscsi_wrong_lun_is_refused_by_sense(folder):
    need("iscsi-inq")
    with Target(folder, "mem:1M") as target:
        done = run("iscsi-readcapacity16", target.url(lun=5))
        expect("it fails", done.returncode != 0)
        expect("why: " + done.stderr, "LOGICAL_UNIT_NOT_SUPPORTED" in done.stdout + done.stderr)


# --- CHAP and access ---------------------------------------------------------------------------


def test_iscsi_chap_one_way_and_mutual(folder):
    need("iscsi-inq")
    with Target(folder, "mem:1M", secrets=SECRETS) as target:
        good("iscsi-inq", target.url(user=ALICE))
        mutual = "?target_user=disk&target_password=abcdef012345"
        good("iscsi-inq", target.url(user=ALICE, options=mutual))
        for url in (target.url(), target.url(user="alice%0123456789abcX"),
                    target.url(user="bob%0123456789abcd"),
                    target.url(user=ALICE, options=mutual[:-1] + "9")):
            expect("refused: " + url, run("iscsi-inq", url).returncode != 0)
        expect_equal("sessions", target.status()["sessions"], 0)
        said = target.end()
        expect("who: " + said, "authenticated as alice" in said)


def test_iscsi_discovery_by_chap(folder):
    need("iscsi-ls")
    with Target(folder, "mem:1M", lines="discovery-chap secrets", secrets=SECRETS) as target:
        expect("no secret", run("iscsi-ls", target.portal()).returncode != 0)
        expect("with it", NAME in good("iscsi-ls", target.portal(user=ALICE)))


def test_iscsi_access_by_name(folder):
    need("iscsi-inq")
    with Target(folder, "mem:1M", target="allow iqn.2026-11.org.example:friend\n") as target:
        good("iscsi-inq", "-i", "iqn.2026-11.org.example:friend", target.url())
        done = run("iscsi-inq", "-i", "iqn.2026-11.org.example:other", target.url())
        expect("refused", done.returncode != 0)
        expect("why: " + done.stderr, "uthorization" in done.stderr)
        done = run("iscsi-ls", "-i", "iqn.2026-11.org.example:other", target.portal())
        expect("it is not told: " + done.stdout, NAME not in done.stdout)
        expect("refusals", target.status()["refused"] >= 1)
        expect("told", "refused iqn.2026-11.org.example:other at 127.0.0.1" in target.end())


def test_iscsi_access_by_address(folder):
    need("iscsi-inq")
    with Target(folder, "mem:1M", target="allow any 192.0.2.0/24\n") as target:
        expect("refused", run("iscsi-inq", target.url()).returncode != 0)


# --- QEMU --------------------------------------------------------------------------------------


def test_iscsi_qemu_img_converts_and_compares(folder):
    need_qemu()
    image = random_file(folder, "image", 8 * MIB)
    disk = os.path.join(folder, "disk")
    with Target(folder, "file:%s,size=8M" % disk) as target:
        good("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", image, target.url())
        good("qemu-img", "compare", "-f", "raw", "-F", "raw", image, target.url())
        good("qemu-img", "convert", "-f", "raw", "-O", "qcow2", target.url(), image + ".qcow2")
        good("qemu-img", "compare", "-f", "raw", "-F", "qcow2", image, image + ".qcow2")
        target.end()
    with open(image, "rb") as a, open(disk, "rb") as b:
        expect("the file is the image", a.read() == b.read())


def qemu_io(url, *commands, **wishes):
    words = [word for command in commands for word in ("-c", command)]
    return good("qemu-io", "-f", "raw", *words, url, **wishes)


def test_iscsi_qemu_io_writes_reads_zeroes_and_discards(folder):
    need_qemu()
    with Target(folder, "mem:16M") as target:
        said = qemu_io(target.url(), "write -P 0x5a 0 3M", "write -P 0xa5 -f 5M 64k", "flush",
                       "read -P 0x5a 0 3M", "read -P 0xa5 5M 64k", "write -z 1M 1M",
                       "read -P 0 1M 1M", "discard 2M 1M", "read -P 0 2M 1M", "read -P 0x5a 0 1M")
        expect("all of it: " + said, "failed" not in said.lower() and "mismatch" not in said.lower())
        counts = target.status()
        expect_equal("sessions left", counts["sessions"], 0)


def test_iscsi_qemu_io_with_header_digests_and_chap(folder):
    need_qemu()
    with Target(folder, "mem:4M", secrets=SECRETS) as target:
        options = ("driver=raw,file.driver=iscsi,file.transport=tcp,file.portal=127.0.0.1:%d,"
                   "file.target=%s,file.lun=0,file.header-digest=crc32c,file.user=alice,"
                   "file.password-secret=word" % (target.port, NAME))
        words = ["qemu-io", "--object", "secret,id=word,data=0123456789abcd", "--image-opts"]
        words += ["-c", "write -P 7 0 1M", "-c", "read -P 7 0 1M", options]
        process = subprocess.Popen(words[:-1] + ["-c", "sleep 2000", options], text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        try:
            session = wait_for_session(target, "commands", 3)
            expect_equal("header digest", session["header_digest"], "CRC32C")
            said = process.communicate(timeout=PATIENCE_S)[0]
        finally:
            process.kill()
            process.wait()
        expect("all of it: " + said, process.returncode == 0 and "failed" not in said.lower())


def wait_for_session(target, key, least):
    """The first session once it has so much; no event tells, so it is asked again."""
    for _ in range(PATIENCE_S * 20):
        sessions = target.status()["sessions_now"]
        if sessions and sessions[0].get(key, 0) >= least:
            return sessions[0]
        time.sleep(0.05)
    raise AssertionError("no session with %s of %d" % (key, least))


def test_iscsi_a_readonly_lun_cannot_be_written(folder):
    need_qemu()
    with Target(folder, "readonly mem:1M") as target:
        done = run("qemu-io", "-f", "raw", "-c", "write 0 4k", target.url())
        expect("it fails: " + done.stdout + done.stderr, done.returncode != 0)
        good("qemu-io", "-r", "-f", "raw", "-c", "read -P 0 0 4k", target.url())


# --- QEMU by iSER ------------------------------------------------------------------------------


def qemu_by_iser(folder, wire, device):
    need_qemu()
    image = random_file(folder, "image", 8 * MIB)
    disk = os.path.join(folder, "disk")
    env = {"WEFT_DEVICES": device, "LD_PRELOAD": KIND_MEMORY}
    with Target(folder, "file:%s,size=8M" % disk, lines="iser %s 127.0.0.1:0" % wire.lower()) as target:
        # libiscsi 1.19 copies what it writes to a buffer of 256 KiB.
        options = ("driver=raw,file.driver=blkdebug,file.max-transfer=262144,file.image.driver=iscsi,"
                   "file.image.transport=iser,file.image.portal=127.0.0.1:%d,file.image.target=%s,"
                   "file.image.lun=0" % (target.ports["iSER/" + wire], NAME))
        said = good(WEFT, "run", "qemu-img", "info", target.iser_url(wire), **env)
        expect("its size: " + said, "(%d bytes)" % (8 * MIB) in said)
        words = [WEFT, "run", "qemu-io"]
        for command in ("write -P 0x5a 0 3M", "write -P 0xa5 -f 5M 64k", "flush", "read -P 0x5a 0 3M",
                        "read -P 0xa5 5M 64k", "write -z 1M 256k", "read -P 0 1M 256k", "discard 2M 1M",
                        "read -P 0 2M 1M", "read -P 0x5a 0 1M"):
            words += ["-c", command]
        said = good(*words, "--image-opts", options, **env)
        expect("all of it: " + said, "failed" not in said.lower() and "mismatch" not in said.lower())
        good(WEFT, "run", "qemu-img", "convert", "-n", "-f", "raw", "--target-image-opts", image, options, **env)
        good(WEFT, "run", "qemu-img", "compare", "--image-opts", "driver=file,filename=" + image, options, **env)
        with open(image, "r+b") as f:
            f.write(b"another")
        done = run(WEFT, "run", "qemu-img", "compare", "--image-opts", "driver=file,filename=" + image, options,
                   **env)
        expect("it is another: " + done.stdout, done.returncode == 1 and "offset 0" in done.stdout)
        wait_for(lambda: target.status()["connections"] == 0, "its connections end")
        left = target.status()
        expect_equal("sessions, tasks, memory", (left["sessions"], left["tasks"], left["memory_used"]), (0, 0, 0))
        expect("by iSER: %s" % left["portals"], {"address": "127.0.0.1:%d" % target.ports["iSER/" + wire],
                                                 "transport": "iSER/" + wire} in left["portals"])
        target.end()
    with open(image, "rb") as a, open(disk, "rb") as b:
        expect("the file is the image", a.read()[7:] == b.read()[7:])


def test_iscsi_qemu_img_and_qemu_io_by_iser_on_roce(folder):
    qemu_by_iser(folder, "RoCE", "roce_*")


def test_iscsi_qemu_img_and_qemu_io_by_iser_on_iwarp(folder):
    qemu_by_iser(folder, "iWARP", "iw_*")


# --- The process -------------------------------------------------------------------------------


def test_iscsi_status_is_for_people_and_programs(folder):
    with Target(folder, "mem:1M", lines="sessions 3\nmemory 40M\n", secrets=SECRETS) as target:
        report = target.status()
        expect_equal("sessions", (report["sessions"], report["sessions_max"]), (0, 3))
        expect_equal("memory", report["memory_bytes"], 40 * MIB)
        expect_equal("portals", report["portals"], [{"address": "127.0.0.1:%d" % target.port, "transport": "TCP"}])
        expect_equal("target", report["targets"][0]["name"], NAME)
        expect_equal("authentication", report["targets"][0]["authentication"], "CHAP,mutual")
        expect_equal("LUN", (report["luns"][0]["bytes"], report["luns"][0]["block"]), (MIB, 512))
        done = run(WEFT, "iscsi", "status", str(target.process.pid))
        expect_equal("status", done.returncode, 0)
        expect("words: " + done.stdout, "target " + NAME in done.stdout)
        expect_equal("of another process", run(WEFT, "iscsi", "status", "1").returncode, 1)


def test_iscsi_a_file_that_is_wrong_says_where(folder):
    target = Target(folder, "mem:1M", "file:/nowhere/at/all")
    path = target.write("target.conf", target.text % 0)
    done = run(WEFT, "iscsi", "serve", path)
    expect_equal("status", done.returncode, 1)
    expect("why: " + done.stderr, "target.conf:7:7: " in done.stderr)
    target.write("target.conf", target.text.replace("lun 0", "lan 0") % 0)
    done = run(WEFT, "iscsi", "serve", path)
    expect("why: " + done.stderr, "target.conf:6:1: there is no such keyword" in done.stderr)


def test_iscsi_a_port_in_use_is_told(folder):
    with Target(folder, "mem:1M") as target:
        second = os.path.join(folder, "second")
        os.mkdir(second)
        other = Target(second, "mem:1M")
        path = other.write("target.conf", other.text % target.port)
        done = run(WEFT, "iscsi", "serve", path)
        expect_equal("status", done.returncode, 1)
        expect("why: " + done.stderr, "cannot listen at 127.0.0.1:%d" % target.port in done.stderr)


def test_iscsi_a_client_that_is_killed_leaves_nothing(folder):
    need("iscsi-perf")
    with Target(folder, "mem:16M") as target:
        client = subprocess.Popen(["iscsi-perf", "-t", "60", "-r", target.url()],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        try:
            wait_for_session(target, "commands", 1000)
        finally:
            client.kill()
            client.wait()
        wait_for(lambda: target.status()["connections"] == 0, "its connection ends")
        left = target.status()
        expect_equal("sessions, tasks, memory",
                     (left["sessions"], left["tasks"], left["memory_used"]), (0, 0, 0))


def wait_for(what, why):
    for _ in range(PATIENCE_S * 20):
        if what():
            return
        time.sleep(0.05)
    raise AssertionError("it does not come that " + why)


def test_iscsi_the_target_ends_in_order_under_load(folder):
    need("iscsi-perf")
    with Target(folder, "mem:16M", lines="end-timeout 1s") as target:
        client = subprocess.Popen(["iscsi-perf", "-t", "60", "-r", "-x", "0", target.url()],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        try:
            wait_for_session(target, "commands", 1000)
            said = target.end()
        finally:
            client.kill()
            client.wait()
        expect("it ended: " + said, "iSCSI target has ended" in said)


main(globals())
