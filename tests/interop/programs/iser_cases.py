# SPDX-License-Identifier: BSD-2-Clause
"""iSER: tgtd (package tgt) serves a file, libiscsi's tools and qemu's block layer use it.

What the programs themselves ask for:
- tgtd's iSER wants both the address and the name of an initiator in its access lists, and keeps its
  port in a short int. It never gives a connection up over iWARP: it waits for TIMEWAIT_EXIT, which
  only InfiniBand has. So it cannot be told to end, and SIGTERM does not end it while it has a target.
- iscsi-ls takes iSER as "?iser" only, and looks at the LUNs (-s) over TCP whatever it was told.
- libiscsi 1.19 copies every iSER write, of any length, to a buffer of 256 KiB without looking: more
  in one command overruns it. So requests are that long at most, or blkdebug divides them. And it
  takes the list of its buffers for empty in memory that it never wrote: that must be zeros.
"""
import os
import random
import signal

from runner import Case, Side

KIB = 1 << 10
LUN_BYTES = 16 << 20
REQUEST_BYTES_MAX = 256 * KIB
NAME = "iqn.2001-04.test.weft:lun"
INITIATOR = "iqn.2001-04.test.weft:tools"
QEMU = "iqn.2008-11.org.linux-kvm"
URL = "iser://127.0.0.1:PORT/%s/1" % NAME
# Its own control socket, so that it meets no other tgtd of the machine.
ENV = {"TGT_IPC_SOCKET": "DIR/control"}

TGTD = Side("tgtd -f --iser port=PORT,pool_sz_mb=32 --iscsi portal=127.0.0.1:0", [],
            ["(?i)cq error", "unable to"], status="ended", env=ENV, end_by=[signal.SIGKILL])


def admin(words):
    return Side("tgtadm --lld iser " + words, [], ["tgtadm:"], env=ENV)


SET_UP = [
    admin("--mode target --op new --tid 1 --targetname " + NAME),
    admin("--mode logicalunit --op new --tid 1 --lun 1 --backing-store DIR/lun"),
    admin("--mode target --op bind --tid 1 --initiator-address ALL"),
    admin("--mode target --op bind --tid 1 --initiator-name " + INITIATOR),
    admin("--mode target --op bind --tid 1 --initiator-name " + QEMU),
]


def random_bytes(seed, length):
    return random.Random(seed).randbytes(length)


def write_file(folder, name, data):
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def read_file(folder, name):
    with open(os.path.join(folder, name), "rb") as f:
        return f.read()


def empty_lun(folder):
    write_file(folder, "lun", bytes(LUN_BYTES))


def iser(name, steps, prepare=empty_lun, **more):
    for side in steps:
        side.env = dict(side.env, MALLOC_PERTURB_="0")
    return Case("iser_" + name, TGTD, steps=SET_UP + steps, prepare=prepare, has_short_port=True,
                seconds=60, **more)


# With local files alone too: its coroutines take what its threads have read, by atomics of its own.
NO_TSAN = "qemu-img's own reads and copies look like a race at every 8 bytes, which takes for ever"

# --- patterns: (offset, length, byte) ----------------------------------------------------------

PATTERNS = [
    (0, REQUEST_BYTES_MAX, 0x5a),
    (1024 * KIB, 64 * KIB, 0xa5),
    (1024 * KIB + 64 * KIB, 4 * KIB, 0x11),  # next to the one before
    (3072 * KIB + 512, 512, 0x22),
    (5000 * KIB, 192 * KIB + 1536, 0x77),
    (LUN_BYTES - 8 * KIB, 8 * KIB, 0xee),
]
# In flight together, each of the greatest length.
AT_ONCE = [(8192 * KIB + i * REQUEST_BYTES_MAX, REQUEST_BYTES_MAX, 0x80 + i) for i in range(16)]


def qemu_io(commands, says):
    words = ["qemu-io", "-f", "raw"]
    for command in commands:
        words += ["-c", command]
    return Side(words + [URL], says, ["(?i)fail", "(?i)error"])


def write_patterns():
    commands = ["write -P %#x %d %d" % (byte, at, length) for at, length, byte in PATTERNS]
    commands += ["aio_write -P %#x %d %d" % (byte, at, length) for at, length, byte in AT_ONCE]
    return qemu_io(commands + ["aio_flush", "flush"],
                   [(r"^wrote (\d+)/\1 bytes", len(PATTERNS) + len(AT_ONCE))])


def read_patterns():
    """By another process. -P: qemu-io compares, and complains."""
    both = PATTERNS + AT_ONCE
    commands = ["read -P %#x %d %d" % (byte, at, length) for at, length, byte in both]
    commands += ["aio_read -P %#x %d %d" % (byte, at, length) for at, length, byte in AT_ONCE]
    commands += ["aio_flush", "read -P 0 %d 4096" % (2048 * KIB)]
    return qemu_io(commands, [(r"^read (\d+)/\1 bytes", len(both) + len(AT_ONCE) + 1)])


def check_patterns(folder):
    want = bytearray(LUN_BYTES)
    for at, length, byte in PATTERNS + AT_ONCE:
        want[at:at + length] = bytes([byte]) * length
    return None if read_file(folder, "lun") == want else "the file of the LUN holds other data"


# --- a whole image -----------------------------------------------------------------------------

# "blkdebug" divides what is longer than libiscsi can take.
DIVIDED = ("driver=raw,file.driver=blkdebug,file.max-transfer=%d,file.image.driver=iscsi,"
           "file.image.transport=iser,file.image.portal=127.0.0.1:PORT,file.image.target=%s,"
           "file.image.lun=1" % (REQUEST_BYTES_MAX, NAME))
IMAGE = "driver=raw,file.driver=file,file.filename=DIR/"
IMAGE_NOT = ["(?i)error", "(?i)could not", "(?i)fail"]


def prepare_image(folder):
    empty_lun(folder)
    write_file(folder, "image", random_bytes(1, LUN_BYTES))


def check_image(folder):
    image = read_file(folder, "image")
    for name in ("lun", "back"):
        if read_file(folder, name) != image:
            return "%s is not the image that was written" % name
    return None


CASES = [
    iser("tools", [
        Side("iscsi-ls -i %s iscsi://127.0.0.1:PORT/?iser" % INITIATOR,
             [(r"^Target:%s Portal:127\.0\.0\.1:\d+,1$" % NAME, 1)], ["(?i)fail"]),
        Side("iscsi-inq -i %s %s" % (INITIATOR, URL),
             ["^Peripheral Device Type:DIRECT_ACCESS$", "^Vendor:IET ", "^Product:VIRTUAL-DISK"]),
        Side("iscsi-inq -i %s iser://[::1]:PORT/%s/1" % (INITIATOR, NAME), ["^Vendor:IET "]),
        Side("iscsi-inq -i %s -e 1 -c 128 %s" % (INITIATOR, URL), ["^Unit Serial Number:"]),
        Side("iscsi-readcapacity16 -i %s %s" % (INITIATOR, URL), [r"\b%d\b" % LUN_BYTES]),
        # A name that may not come in is told so.
        Side("iscsi-inq -i iqn.2001-04.test.weft:unknown " + URL, ["Target not found"], status=10),
    ]),
    # Our own initiator, whose name is in tgtd's list; the example reads half a MiB of zeroes.
    iser("session", [
        Side("LIBRARIES/tests/session_sample %s?initiator=%s 512" % (URL, INITIATOR),
             ["^good, 0 reconnects"]),
        Side("LIBRARIES/examples/iscsi_disk %s?initiator=%s" % (URL, INITIATOR),
             ["^IET VIRTUAL-DISK, %d bytes in blocks of 512$" % LUN_BYTES]),
    ]),
    iser("qemu_io", [write_patterns(), read_patterns()], check=check_patterns),
    iser("qemu_img", [
        Side("qemu-img info -f raw " + URL, [r"^virtual size: .*\(%d bytes\)$" % LUN_BYTES], IMAGE_NOT),
        Side("qemu-img convert -n --image-opts --target-image-opts %simage %s" % (IMAGE, DIVIDED),
             [], IMAGE_NOT),
        Side("qemu-img compare --image-opts %simage %s" % (IMAGE, DIVIDED),
             ["^Images are identical.$"], IMAGE_NOT),
        Side("qemu-img convert --image-opts -O raw %s DIR/back" % DIVIDED, [], IMAGE_NOT),
    ], prepare=prepare_image, check=check_image, no_tsan=NO_TSAN),
]
