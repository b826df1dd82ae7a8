# SPDX-License-Identifier: BSD-2-Clause
"""What block clients see of a directed device when they may not, or when a role dies."""
import errno
import signal
import time

from nbd_cases import (FLUSH, READ, WRITE, NbdCase, RawClient, expect_info, expect_same, qemu_io,
                       random_file, read_file)
from nbd_cluster import LOOK_EVERY_S, Failure, Patience, Process, Side

MIB = 1 << 20
SIZE = 16 * MIB
# Slow enough that a copy is under way for a second or two.
SLOW = "delay:20ms(mem:16M)"
SLOW_FILE = "delay:20ms(file:DIR/disk,size=16M)"
COPY = ["nbdcopy", "--connections=2", "--requests=4", "--request-size=65536", "--flush"]
# One that fails hangs up at once. If several requests of a connection are under way then, nbdkit
# 1.32 may answer one where another just could not, and ends: connections.c, "sock >= 0".
VAIN_COPY = ["nbdcopy", "--connections=4", "--threads=4", "--requests=1", "--request-size=65536",
             "--flush"]
RESTARTS = 3
LOSSES = 10


# --- permission --------------------------------------------------------------------------------


def hidden(cluster):
    """A requester that may do nothing with a device does not even hear of it."""
    cluster.start("iounit")
    cluster.start("owner")
    cluster.run(cluster.kit_words("wait=300ms"), [r"cannot use disk: .*\(rio_device\)"], status=1)


def unknown_key(cluster):
    """Another key than the owner was told."""
    cluster.start("iounit")
    cluster.start("owner")
    cluster.run(["rm", "DIR/requester.key"])
    cluster.make_key("requester")
    cluster.run(cluster.kit_words("wait=500ms"), [r"cannot use disk: .*\((rio|connect|peer)_\w+\)"],
                status=1)


def denied(cluster):
    cluster.start_all()
    qemu_io(cluster, ["read -P 0 0 4k"], [r"^read 4096/4096"])
    qemu_io(cluster, ["write -P 1 0 4k"], ["(?i)operation not permitted"], [r"^wrote"], status=1)
    cluster.expect_kit_says(r"cannot write disk: .*\(rio_denied\)")
    qemu_io(cluster, ["read -P 0 0 4k"], [r"^read 4096/4096"])


# --- roles die ---------------------------------------------------------------------------------


def copy_begin(cluster, source, target, program=COPY):
    words = [w.replace("DIR", cluster.folder).replace("URI", cluster.uri)
             for w in program + [source, target]]
    copy = Process(Side(words), words, cluster.folder, "copy", cluster.tools.env)
    cluster.processes["copy"] = copy
    return copy


def log_of(cluster):
    try:
        with open(cluster.path("decisions.log"), encoding="utf-8") as f:
            return f.read()
    except OSError:
        return ""


def requests_so_far(cluster):
    return log_of(cluster).count("\n")


def await_requests(cluster, copy, count):
    """So many more decisions are in the log; the copy is in the middle."""
    want = requests_so_far(cluster) + count
    cluster.await_true(lambda: requests_so_far(cluster) >= want, "the copy ended too early", copy)


def copy_end(cluster, copy, status):
    if not copy.await_end(Patience(60 * cluster.tools.patience)):
        raise Failure("the copy does not end")
    if copy.process.returncode != status:
        raise Failure("the copy ends with status %d, not %d" % (copy.process.returncode, status))


def owner_restarts(cluster):
    """Again and again, in the middle of copies both ways: no copy fails."""
    data = random_file(cluster, "raw", SIZE, 3)
    cluster.start_all()
    for source, target in (("DIR/raw", "URI"), ("URI", "DIR/back")):
        copy = copy_begin(cluster, source, target)
        for _ in range(RESTARTS):
            await_requests(cluster, copy, 20)
            cluster.kill("owner")
            cluster.start("owner")
        copy_end(cluster, copy, 0)
    if read_file(cluster, "back") != data:
        raise Failure("the copy holds other data")


def owner_restarts_idle(cluster):
    """No client sends a request meanwhile."""
    cluster.start_all()
    qemu_io(cluster, ["write -P 5 0 1m", "flush"], ["^wrote"])
    cluster.kill("owner")
    cluster.start("owner")
    qemu_io(cluster, ["read -P 5 0 1m", "write -P 6 0 1m", "flush"], ["^wrote"])


def owner_dies(cluster):
    """For good: requests fail when no owner has come for the time that wait= says."""
    random_file(cluster, "raw", SIZE, 4)
    cluster.start_all("wait=1s")
    copy = copy_begin(cluster, "DIR/raw", "URI", VAIN_COPY)
    await_requests(cluster, copy, 20)
    cluster.kill("owner")
    copy_end(cluster, copy, 1)
    cluster.expect_kit_says(r"cannot write disk: .*\(\w+\)")
    qemu_io(cluster, ["read 0 4k"], [], ["^read"], status=1)
    cluster.start("owner")
    qemu_io(cluster, ["read 0 4k"], ["^read 4096/4096"])


def iounit_dies(cluster):
    """What it had not flushed may be gone: the copy fails, and can be made again."""
    data = random_file(cluster, "raw", SIZE, 5)
    cluster.start_all()
    copy = copy_begin(cluster, "DIR/raw", "URI", VAIN_COPY)
    await_requests(cluster, copy, 20)
    cluster.kill("iounit")
    cluster.start("iounit")
    copy_end(cluster, copy, 1)
    cluster.expect_kit_says(r"cannot (write|flush) disk: .*\(rio_iounit_left\)")
    cluster.run(COPY + ["DIR/raw", "URI"])
    expect_same(cluster, "disk", data)


def loss_is_reported(cluster):
    """Nothing is under way when the I/O unit dies: the next flush of each connection says once that
    writes which were acknowledged are lost."""
    cluster.start_all()
    with RawClient(cluster.path("socket")) as raw, RawClient(cluster.path("socket")) as other:
        raw.expect(0, WRITE, 0, 4096, b"a" * 4096)
        raw.expect(0, FLUSH, 0, 0)
        raw.expect(0, WRITE, 0, 4096, b"b" * 4096)
        cluster.kill("iounit")
        cluster.start("iounit")
        raw.expect(0, READ, 0, 4096)
        raw.expect(errno.EIO, FLUSH, 0, 0)
        raw.expect(0, FLUSH, 0, 0)
        other.expect(errno.EIO, FLUSH, 0, 0)
        other.expect(0, FLUSH, 0, 0)
        cluster.expect_kit_says(r"cannot flush disk: .*\(rio_writes_lost\)")
        # All is flushed now.
        cluster.kill("iounit")
        cluster.start("iounit")
        raw.expect(0, FLUSH, 0, 0)


def loss_is_reported_at_once(cluster):
    """Two connections flush at the same moment: neither hears yes before it heard of the loss."""
    cluster.start_all()
    with RawClient(cluster.path("socket")) as raw, RawClient(cluster.path("socket")) as other:
        for _ in range(LOSSES):
            raw.expect(0, WRITE, 0, 4096, b"a" * 4096)
            other.expect(0, WRITE, 4096, 4096, b"b" * 4096)
            cluster.kill("iounit")
            cluster.start("iounit")
            raw.expect(0, READ, 0, 4096)
            for client in (raw, other):
                client.send(FLUSH, 0, 0)
            for client in (raw, other):
                if client.answer() != errno.EIO:
                    raise Failure("a connection is not told of the loss")
            for client in (raw, other):
                client.expect(0, FLUSH, 0, 0)


def nothing_is_lost(cluster):
    """A file whose I/O unit was killed, in the middle of a write, is as it was."""
    cluster.start_all()
    with RawClient(cluster.path("socket")) as raw:
        raw.expect(0, WRITE, 0, 4096, b"a" * 4096)
        raw.send(WRITE, 0, 4096, b"b" * 4096)
        cluster.await_true(lambda: log_of(cluster).count("allowed 7.1") == 2,
                           "the write is not asked for", cluster.processes["nbdkit"])
        cluster.kill("iounit")
        cluster.start("iounit")
        if raw.answer() != errno.EIO:
            raise Failure("a write does not say that the I/O unit has left")
        raw.expect(0, READ, 0, 4096)
        raw.expect(0, FLUSH, 0, 0)


def change_device(cluster):
    cluster.kill("iounit")
    with open(cluster.path("iounit.conf"), "a+", encoding="utf-8") as f:
        f.seek(0)
        text = f.read().replace("mem:16M", "mem:32M")
        f.truncate(0)
        f.write(text)
    cluster.start("iounit")


def device_changes(cluster):
    """Connections from before cannot be told; new ones see the device as it is."""
    cluster.start_all()
    with RawClient(cluster.path("socket")) as raw:
        raw.expect(0, WRITE, 0, 4096, b"a" * 4096)
        change_device(cluster)
        raw.expect(errno.EIO, WRITE, 0, 4096, b"a" * 4096)
        raw.expect(errno.EIO, READ, 0, 4096)
    expect_info(cluster, {"export-size": 2 * SIZE})
    qemu_io(cluster, ["write -P 3 20m 64k", "read -P 3 20m 64k"], ["^read 65536/65536"])


def device_changes_unheard(cluster):
    """nbdkit asks for the device that it knows before it hears of the one that is there."""
    cluster.start_all()
    nbdkit = cluster.processes["nbdkit"].process
    with RawClient(cluster.path("socket")) as raw:
        raw.expect(0, WRITE, 0, 4096, b"a" * 4096)
        nbdkit.send_signal(signal.SIGSTOP)
        try:
            change_device(cluster)
            cluster.await_true(lambda: log_of(cluster).count("came iounit") == 2,
                               "the owner does not find the I/O unit", cluster.processes["owner"])
            raw.send(WRITE, 0, 4096, b"b" * 4096)
        finally:
            nbdkit.send_signal(signal.SIGCONT)
        if raw.answer() != errno.EIO:
            raise Failure("a write goes to another device than it was meant for")
    qemu_io(cluster, ["read -P 0 0 4k"], ["^read 4096/4096"])


def iounit_dies_reading(cluster):
    data = random_file(cluster, "raw", SIZE, 6)
    cluster.start_all()
    cluster.run(COPY + ["DIR/raw", "URI"])
    copy = copy_begin(cluster, "URI", "DIR/back")
    await_requests(cluster, copy, 20)
    cluster.kill("iounit")
    cluster.start("iounit")
    copy_end(cluster, copy, 0)
    if read_file(cluster, "back") != data:
        raise Failure("the copy holds other data")


def kit_dies(cluster):
    """The next nbdkit has the same name and key."""
    random_file(cluster, "raw", SIZE, 7)
    cluster.start_all()
    copy = copy_begin(cluster, "DIR/raw", "URI")
    await_requests(cluster, copy, 20)
    cluster.kill("nbdkit")
    copy_end(cluster, copy, 1)
    cluster.run(["rm", "DIR/socket", "DIR/kit.pid"])
    cluster.start_kit()
    qemu_io(cluster, ["write -P 9 0 1m", "read -P 9 0 1m"], ["^read 1048576/1048576"])


CASES = [
    NbdCase("hidden", "", "mem:16M", hidden, {"allow": "# nothing"}),
    NbdCase("unknown_key", "", "mem:16M", unknown_key),
    NbdCase("denied", "qemu-io", "mem:16M", denied, {"allow": "allow kit read disks/disk"}),
    NbdCase("owner_restarts", "nbdcopy", SLOW, owner_restarts),
    NbdCase("owner_restarts_idle", "qemu-io", "mem:16M", owner_restarts_idle),
    NbdCase("owner_dies", "nbdcopy qemu-io", SLOW, owner_dies),
    NbdCase("iounit_dies", "nbdcopy", SLOW_FILE, iounit_dies),
    NbdCase("iounit_dies_reading", "nbdcopy", SLOW_FILE, iounit_dies_reading),
    NbdCase("loss_is_reported", "", "mem:16M", loss_is_reported),
    NbdCase("loss_is_reported_at_once", "", "mem:16M", loss_is_reported_at_once),
    NbdCase("nothing_is_lost", "", "delay:500ms(file:DIR/disk,size=16M)", nothing_is_lost),
    NbdCase("device_changes", "nbdinfo qemu-io", "mem:16M", device_changes),
    NbdCase("device_changes_unheard", "qemu-io", "mem:16M", device_changes_unheard),
    NbdCase("kit_dies", "nbdcopy qemu-io", SLOW, kit_dies),
]
