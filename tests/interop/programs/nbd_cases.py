# SPDX-License-Identifier: BSD-2-Clause
"""What block clients do with a directed device when nothing goes wrong."""
import dataclasses
import errno
import json
import os
import random
import socket
import struct

from nbd_cluster import Failure

KIB, MIB, TIB = 1 << 10, 1 << 20, 1 << 40
MEMORY = "mem:16M"
FILE = "file:DIR/disk,size=16M,block=4096"
SIZE = 16 * MIB
BAD = ["(?i)error", "(?i)fail", "(?i)could not"]


@dataclasses.dataclass
class NbdCase:
    name: str
    needs: str  # programs
    device: str
    run: object  # function(cluster); raises Failure
    more: dict = dataclasses.field(default_factory=dict)  # for the Cluster


def random_file(cluster, name, length, seed=1):
    """With a hole in it, as images have them."""
    data = bytearray(random.Random(seed).randbytes(length))
    data[length // 4:length // 2] = bytes(length // 2 - length // 4)
    with open(cluster.path(name), "wb") as f:
        f.write(data)
    return bytes(data)


def read_file(cluster, name):
    with open(cluster.path(name), "rb") as f:
        return f.read()


def expect_same(cluster, name, data):
    """The file begins with the data; the rest of the device is as it was: zeroes."""
    got = read_file(cluster, name)
    if got[:len(data)] != data:
        raise Failure("%s holds other data" % name)
    if any(got[len(data):]):
        raise Failure("%s has something behind the data" % name)


# --- nbdinfo -----------------------------------------------------------------------------------


def info_of(cluster):
    return json.loads(cluster.run(["nbdinfo", "--json", "--no-content", "URI"]))["exports"][0]


def expect_info(cluster, wanted):
    info = info_of(cluster)
    for key, value in wanted.items():
        if info.get(key) != value:
            raise Failure("nbdinfo says %s %s, not %s" % (key, info.get(key), value))


ABLE = {"is_read_only": False, "can_fast_zero": True, "can_flush": True, "can_fua": True,
        "can_multi_conn": True, "can_trim": True, "can_zero": True}


def info(size, block, more):
    def run(cluster):
        cluster.start_all()
        expect_info(cluster, dict({
            "export-size": size, "block_size_minimum": block, "block_size_preferred": 4096,
            "block_size_maximum": 64 * MIB}, **more))
    return run


def readonly(cluster):
    cluster.start_all()
    expect_info(cluster, {"is_read_only": True, "export-size": SIZE})
    cluster.run(["qemu-io", "-r", "-f", "raw", "-c", "read -P 0 0 64k", "URI"],
                [r"^read 65536/65536 bytes"])
    cluster.run(["qemu-io", "-f", "raw", "-c", "write -P 1 0 64k", "URI"], ["Permission denied"],
                [r"^wrote"], status=1)
    with RawClient(cluster.path("socket")) as raw:
        raw.expect(errno.EPERM, WRITE, 0, 512, b"x" * 512)
        raw.expect(errno.EPERM, TRIM, 0, 512)


# --- qemu-img ----------------------------------------------------------------------------------


def images(length, image_format):
    """There and back, also if the image is no multiple of anything."""
    def run(cluster):
        data = random_file(cluster, "raw", length)
        source = "DIR/raw"
        if image_format == "qcow2":
            source = "DIR/qcow2"
            cluster.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", "DIR/raw", source])
        cluster.start_all()
        cluster.run(["qemu-img", "convert", "-n", "-f", image_format, "-O", "raw", source, "URI"],
                    [], BAD)
        cluster.run(["qemu-img", "compare", "-f", image_format, "-F", "raw", source, "URI"],
                    ["^Images are identical.$"], BAD)
        cluster.run(["qemu-img", "convert", "-f", "raw", "-O", "raw", "URI", "DIR/back"], [], BAD)
        if os.path.getsize(cluster.path("back")) != SIZE:
            raise Failure("the device has another size than it had")
        expect_same(cluster, "back", data)
        expect_on_disk(cluster, data)
    return run


def expect_on_disk(cluster, data):
    """The I/O unit's file itself, where there is one."""
    if os.path.exists(cluster.path("disk")):
        expect_same(cluster, "disk", data)


def qcow2_on_device(cluster):
    data = random_file(cluster, "raw", 5 * MIB + 512)
    cluster.start_all()
    cluster.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", "DIR/raw", "URI"], [], BAD)
    cluster.run(["qemu-img", "check", "-f", "qcow2", "URI"], ["^No errors were found"], [])
    cluster.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", "URI", "DIR/back"], [], BAD)
    if read_file(cluster, "back") != data:
        raise Failure("the image is not the one that was written")


# --- qemu-io -----------------------------------------------------------------------------------


def qemu_io(cluster, commands, says, says_not=None, status=0):
    words = ["qemu-io", "-f", "raw", "-d", "unmap"]
    for command in commands:
        words += ["-c", command]
    cluster.run(words + ["URI"], says, BAD if says_not is None else says_not, status=status)


def patterns(cluster):
    cluster.start_all()
    writes = [(0, 256 * KIB, 0x5a), (MIB, 64 * KIB, 0xa5), (2 * MIB, 2 * MIB, 0x11),
              (5000 * KIB, 192 * KIB, 0x77), (SIZE - 8 * KIB, 8 * KIB, 0xee)]
    at_once = [(8 * MIB + i * 256 * KIB, 256 * KIB, 0x80 + i) for i in range(16)]
    commands = ["write -P %#x %d %d" % (byte, at, length) for at, length, byte in writes]
    commands += ["write -f -P 0x99 7m 64k", "write -P 0x33 1000000 1000"]  # FUA; no whole blocks
    commands += ["aio_write -P %#x %d %d" % (byte, at, length) for at, length, byte in at_once]
    commands += ["aio_flush", "flush"]
    # The middle of one becomes zeroes; once the room may go, once it stays.
    commands += ["write -z -u 2560k 512k", "write -z 3m 4k", "write -z -f 3140k 4k"]
    qemu_io(cluster, commands + ["flush"], [(r"^wrote (\d+)/\1 bytes", len(writes) + 2 + 16 + 3)])
    reads = [(0, 256 * KIB, 0x5a), (MIB, 64 * KIB, 0xa5), (2 * MIB, 512 * KIB, 0x11),
             (2560 * KIB, 516 * KIB, 0), (3076 * KIB, 64 * KIB, 0x11), (3140 * KIB, 4 * KIB, 0),
             (3144 * KIB, 952 * KIB, 0x11), (5000 * KIB, 192 * KIB, 0x77), (7 * MIB, 64 * KIB, 0x99),
             (1000000, 1000, 0x33), (SIZE - 8 * KIB, 8 * KIB, 0xee)] + at_once
    commands = ["read -P %#x %d %d" % (byte, at, length) for at, length, byte in reads]
    commands += ["aio_read -P %#x %d %d" % (byte, at, length) for at, length, byte in at_once]
    qemu_io(cluster, commands + ["aio_flush"],
            [(r"^read (\d+)/\1 bytes", len(reads) + len(at_once))])


def discard(cluster):
    """What is discarded may be anything until it is written; what is beside it stays."""
    cluster.start_all()
    qemu_io(cluster, ["write -P 0x44 0 4m", "discard 1m 1m", "flush", "write -P 0x45 1m 64k",
                      "read -P 0x44 0 1m", "read -P 0x45 1m 64k", "read -P 0x44 2m 2m"],
            [r"^discard 1048576/1048576 bytes", (r"^read (\d+)/\1 bytes", 3)])


def huge(cluster):
    """Beyond 2 TiB, and at the very end; the file stays sparse."""
    cluster.start_all()
    expect_info(cluster, {"export-size": 3 * TIB})
    at = [0, 2 * TIB - 4096, 2 * TIB, 5 * TIB // 2 + 512, 3 * TIB - 4096]
    qemu_io(cluster, ["write -P %#x %d 4096" % (0x10 + i, a) for i, a in enumerate(at)] + ["flush"],
            [(r"^wrote 4096/4096 bytes", len(at))])
    qemu_io(cluster, ["read -P %#x %d 4096" % (0x10 + i, a) for i, a in enumerate(at)] +
            ["read -P 0 %d 4096" % TIB], [(r"^read 4096/4096 bytes", len(at) + 1)])
    qemu_io(cluster, ["write -P 1 %d 4096" % (3 * TIB)], [], [r"^wrote"], status=1)
    if os.stat(cluster.path("disk")).st_blocks > 1024:
        raise Failure("the file is not sparse any more")


# --- nbdcopy, fio ------------------------------------------------------------------------------


def nbdcopy(cluster):
    data = random_file(cluster, "raw", SIZE)
    cluster.start_all()
    cluster.run(["nbdcopy", "--connections=4", "--requests=16", "--flush", "DIR/raw", "URI"])
    expect_on_disk(cluster, data)
    cluster.run(["nbdcopy", "--connections=4", "--requests=16", "URI", "DIR/back"])
    if read_file(cluster, "back") != data:
        raise Failure("nbdcopy brings other data back")


def nbdcopy_big_requests(cluster):
    """As large as NBD has them."""
    data = random_file(cluster, "raw", SIZE)
    cluster.start_all()
    for source, target in (("DIR/raw", "URI"), ("URI", "DIR/back")):
        cluster.run(["nbdcopy", "--connections=2", "--request-size=8388608", source, target])
    if read_file(cluster, "back") != data:
        raise Failure("nbdcopy brings other data back")


def fio_words(more):
    return ["fio", "--name=v", "--ioengine=nbd", "--uri=URI", "--size=%d" % SIZE] + more


def fio(cluster):
    cluster.start_all()
    cluster.run(fio_words(["--rw=randrw", "--bs=4k", "--iodepth=16", "--verify=crc32c",
                           "--verify_fatal=1", "--time_based", "--runtime=3"]),
                [r"err= 0"], ["verify:"])


# --- what the programs do not say --------------------------------------------------------------

READ, WRITE, FLUSH, TRIM, ZERO = 0, 1, 3, 4, 6  # NBD_CMD_...
FUA, NO_HOLE, FAST = 1, 2, 16  # NBD_CMD_FLAG_...


class RawClient:
    """Asks for anything, whatever the server said that it takes."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.get(18)  # NBDMAGIC, IHAVEOPT, flags
        # NO_ZEROES; then EXPORT_NAME, with an empty name.
        self.socket.sendall(struct.pack(">IQII", 3, 0x49484156454F5054, 1, 0))
        self.get(10)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.socket.close()

    def get(self, length):
        data = b""
        while len(data) < length:
            more = self.socket.recv(length - len(data))
            if not more:
                raise Failure("nbdkit hangs up")
            data += more
        return data

    def send(self, command, at, length, data=b"", flags=0):
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, flags, command, 1, at, length) + data)

    def answer(self):
        """The error; NBD's are those of Linux."""
        return struct.unpack(">IIQ", self.get(16))[1]

    def ask(self, command, at, length, data=b"", flags=0):
        """The error, and what was read."""
        self.send(command, at, length, data, flags)
        error = self.answer()
        return error, self.get(length) if command == READ and error == 0 else b""

    def expect(self, error, *what, **more):
        got = self.ask(*what, **more)
        if got[0] != error:
            raise Failure("request %s ends with error %d, not %d" % (what[:3], got[0], error))
        return got[1]


def unaligned(cluster):
    """What is not whole blocks is refused, with the reason; what is beside it stays."""
    cluster.start_all()
    with RawClient(cluster.path("socket")) as raw:
        raw.expect(0, WRITE, 0, 8192, b"a" * 8192)
        raw.expect(errno.EINVAL, WRITE, 512, 4096, b"b" * 4096)
        raw.expect(errno.EINVAL, WRITE, 0, 512, b"b" * 512)
        raw.expect(errno.EINVAL, READ, 1, 4096)
        raw.expect(errno.EINVAL, TRIM, 4096, 100)
        raw.expect(errno.EINVAL, ZERO, 4095, 4096)
        if raw.expect(0, READ, 0, 8192) != b"a" * 8192:
            raise Failure("a refused request has changed the device")
    cluster.expect_kit_says(r"cannot write disk: .*\(store_align\)")


def flags(cluster):
    """Every flag with every command that takes it."""
    cluster.start_all()
    with RawClient(cluster.path("socket")) as raw:
        raw.expect(0, WRITE, 0, 65536, b"a" * 65536, flags=FUA)
        raw.expect(0, ZERO, 0, 4096, flags=FUA)
        raw.expect(0, ZERO, 8192, 4096, flags=NO_HOLE | FUA)
        raw.expect(0, ZERO, 16384, 4096, flags=FAST)
        raw.expect(0, ZERO, 24576, 4096, flags=FAST | NO_HOLE | FUA)
        raw.expect(0, TRIM, 32768, 4096, flags=FUA)
        raw.expect(0, WRITE, 32768, 4096, b"a" * 4096)
        raw.expect(0, TRIM, 40960, 4096)
        raw.expect(0, WRITE, 40960, 4096, b"a" * 4096)
        raw.expect(0, FLUSH, 0, 0)
        want = bytearray(b"a" * 65536)
        for at in (0, 8192, 16384, 24576):
            want[at:at + 4096] = bytes(4096)
        if raw.expect(0, READ, 0, 65536) != want:
            raise Failure("the device holds other data")
    for said in (r"write disk 0\+65536 fua", r"write zeroes disk 8192\+4096 fua",
                 r"write zeroes disk 16384\+4096 by", r"discard disk 32768\+4096 \(1 of 2\)",
                 r"flush disk \(2 of 2\)", r"discard disk 40960\+4096 by", r"flush disk by"):
        cluster.expect_decision("allowed .* " + said)


# --- starting nbdkit ---------------------------------------------------------------------------


def kit_pid(cluster):
    """The number of an nbdkit that has begun to serve, or None."""
    try:
        with open(cluster.path("kit.pid"), encoding="ascii") as f:
            return int(f.read() or 0) or None
    except FileNotFoundError:
        return None


def background(cluster):
    """nbdkit forks: what is wrong is told before, and threads are made after."""
    cluster.start("iounit")
    cluster.start("owner")
    words = [w for w in cluster.kit_words("wait=300ms") if w != "-f"]
    cluster.run([w.replace("device=disk", "device=another") for w in words],
                [r"cannot use another: .*\(rio_device\)"], status=1)
    cluster.run(words, [], BAD)
    # The child writes its number, in one piece, when the parent may have ended already.
    cluster.await_true(lambda: kit_pid(cluster), "nbdkit does not begin in the background")
    pid = kit_pid(cluster)
    try:
        qemu_io(cluster, ["write -P 7 0 1m", "read -P 7 0 1m"], [r"^read 1048576/1048576"])
    finally:
        os.kill(pid, 15)


def parameters(cluster):
    plugin, config = cluster.tools.plugin, "config=DIR/requester.conf"
    for words, says in (([config], "device= is needed: with config=FILE the name"),
                        (["device=disk"], "cannot use the device: at character 1: a device begins with"),
                        ([config, "device=disk", "wait=soon"], "wait=soon: a time is"),
                        ([config, "device=disk", "size=1"], "no parameter \"size\""),
                        (["config=DIR/none", "device=disk"], "none: cannot be opened"),
                        (["config=DIR/owner.conf", "device=disk"], "the file of another role")):
        cluster.run(["nbdkit", "-f", plugin] + words, [says], status=1)


CASES = [
    NbdCase("info_memory", "nbdinfo", MEMORY, info(SIZE, 512, ABLE)),
    NbdCase("info_file", "nbdinfo", FILE, info(SIZE, 4096, ABLE)),
    NbdCase("readonly", "nbdinfo qemu-io", "mem:16M,ro", readonly),
    NbdCase("qemu_img_raw", "qemu-img", MEMORY, images(SIZE, "raw")),
    NbdCase("qemu_img_raw_odd", "qemu-img", FILE, images(3 * MIB + 1234, "raw")),
    NbdCase("qemu_img_qcow2", "qemu-img", FILE, images(SIZE, "qcow2")),
    NbdCase("qemu_img_qcow2_odd", "qemu-img", MEMORY, images(5 * MIB + 777, "qcow2")),
    NbdCase("qemu_img_qcow2_on_device", "qemu-img", FILE, qcow2_on_device),
    NbdCase("qemu_io_memory", "qemu-io", MEMORY, patterns),
    NbdCase("qemu_io_file", "qemu-io", FILE, patterns),
    NbdCase("qemu_io_file_512", "qemu-io", "file:DIR/disk,size=16M", patterns),
    NbdCase("discard_memory", "qemu-io", MEMORY, discard),
    NbdCase("discard_file", "qemu-io", FILE, discard),
    NbdCase("huge", "nbdinfo qemu-io", "file:DIR/disk,size=3T", huge),
    NbdCase("nbdcopy_memory", "nbdcopy", MEMORY, nbdcopy),
    NbdCase("nbdcopy_file", "nbdcopy", FILE, nbdcopy),
    NbdCase("nbdcopy_big_requests", "nbdcopy", MEMORY, nbdcopy_big_requests),
    NbdCase("fio_memory", "fio", MEMORY, fio),
    NbdCase("fio_file", "fio", FILE, fio),
    NbdCase("unaligned", "", FILE, unaligned),
    NbdCase("flags_memory", "", MEMORY, flags),
    NbdCase("flags_file", "", FILE, flags),
    NbdCase("background", "qemu-io", MEMORY, background),
    NbdCase("parameters", "", MEMORY, parameters),
]
