#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""run_test.py WEFT: weft run as a person meets it.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import shutil
import socket
import subprocess
import sys

from script import (NOBODY, PATIENCE_S, Skip, compile_c, environment, expect, expect_equal, main,
                    need, need_root, run, run_with_port, write)

WEFT = os.path.realpath(sys.argv[1])
LIBRARIES = os.path.dirname(WEFT)
PROGRAM = "int main(void) { return 7; }\n"


def weft_run(*words, **wishes):
    return run(WEFT, "run", *words, **wishes)


def expect_refused(done, status, *words):
    expect_equal("status", done.returncode, status)
    expect_equal("stdout", done.stdout, "")
    for word in words:
        expect("%r in %r" % (word, done.stderr), word in done.stderr)
    expect("one line: " + done.stderr, done.stderr.count("\n") == 1 or "usage:" in done.stderr)


def test_run_passes_the_exit_status(_folder):
    for status in (0, 1, 7, 255):
        expect_equal("status", weft_run("sh", "-c", "exit %d" % status).returncode, status)


def test_run_passes_signals(_folder):
    expect_equal("status", weft_run("sh", "-c", "kill -TERM $$").returncode, -15)
    expect_equal("status", weft_run("sh", "-c", "kill -KILL $$").returncode, -9)


def test_run_leaves_no_process_between(_folder):
    child = subprocess.Popen([WEFT, "run", "sh", "-c", "echo $$"], stdout=subprocess.PIPE,
                             text=True, env=environment())
    expect_equal("process id", int(child.communicate(timeout=PATIENCE_S)[0]), child.pid)


def test_run_passes_the_arguments(_folder):
    done = weft_run("cat", "/proc/self/cmdline")
    expect_equal("arguments", done.stdout, "cat\0/proc/self/cmdline\0")
    expect_equal("options", weft_run("echo", "--log", "x", "-h", "--").stdout, "--log x -h --\n")
    expect_equal("after --", weft_run("--log", "off", "--", "echo", "a").stdout, "a\n")


def test_run_passes_standard_input(_folder):
    done = subprocess.run([WEFT, "run", "cat"], input="some\nlines", stdout=subprocess.PIPE,
                          text=True, timeout=PATIENCE_S)
    expect_equal("output", done.stdout, "some\nlines")


def test_run_sets_the_environment(_folder):
    done = weft_run("--devices", "iw_lo", "--pcap=/x/%p", "--trace", "/t", "--log", "info",
                    "--faults", "seed=7", "--policy", "strict", "--profile", "io", "--crc", "off", "--near=off", "--serve", "env",
                    WEFT_PCAP="old")
    lines = set(done.stdout.splitlines())
    for line in ("WEFT_DEVICES=iw_lo", "WEFT_PCAP=/x/%p", "WEFT_TRACE=/t", "WEFT_LOG=info",
                 "WEFT_FAULTS=seed=7", "WEFT_POLICY=strict", "WEFT_PROFILE=io", "WEFT_CRC=off", "WEFT_NEAR=off",
                 "WEFT_SERVE=on"):
        expect(line, line in lines)
    plain = weft_run("env", KEPT="yes").stdout
    expect("nothing of its own: " + plain, "WEFT_" not in plain)
    expect("the rest is kept", "KEPT=yes\n" in plain)


def test_run_refuses_faults_that_it_cannot_read(_folder):
    done = weft_run("--faults", "seed=7,qp_eror=0.1", "true")
    expect_refused(done, 125, "--faults: qp_eror=0.1: there are seed, qp_error")


def test_run_refuses_a_policy_that_is_none(_folder):
    expect_refused(weft_run("--policy", "lax", "true"), 125, "--policy takes open or strict, not lax")
    expect_equal("status", weft_run("--policy=open", "true").returncode, 0)


def test_sys_04_run_refuses_a_profile_that_is_none(_folder):
    expect_refused(weft_run("--profile", "big", "true"), 125, "--profile takes host or io, not big")
    expect_equal("status", weft_run("--profile=host", "true").returncode, 0)


def test_run_refuses_a_crc_that_is_not_on_or_off(_folder):
    expect_refused(weft_run("--crc", "maybe", "true"), 125, "--crc takes on or off, not maybe")
    expect_equal("status", weft_run("--crc=on", "true").returncode, 0)


def test_run_puts_the_libraries_first(_folder):
    words = ("sh", "-c", "echo $LD_LIBRARY_PATH")
    expect_equal("alone", weft_run(*words).stdout, LIBRARIES + "\n")
    expect_equal("empty", weft_run(*words, LD_LIBRARY_PATH="").stdout, LIBRARIES + "\n")
    expect_equal("before others", weft_run(*words, LD_LIBRARY_PATH="/a:/b").stdout,
                 LIBRARIES + ":/a:/b\n")


def test_run_shows_devices_to_programs(_folder):
    need("ibv_devices", "ibv_devinfo")
    done = weft_run("ibv_devices")
    expect("iw_lo in " + done.stdout, done.returncode == 0 and "iw_lo " in done.stdout)
    done = weft_run("--devices", "iw_lo", "ibv_devinfo", "-l")
    expect_equal("only one", done.stdout.split(), ["1", "HCA", "found:", "iw_lo"])


def test_run_says_why_a_device_does_not_open(folder):
    # The first device, twice, as programs do that try each.
    text = ("import ctypes, errno\n"
            "v = ctypes.CDLL('libibverbs.so.1', use_errno=True)\n"
            "v.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)\n"
            "v.ibv_open_device.restype = ctypes.c_void_p\n"
            "first = ctypes.c_void_p(v.ibv_get_device_list(None)[0])\n"
            "for i in range(2):\n"
            "    print('opened' if v.ibv_open_device(first) else errno.errorcode[ctypes.get_errno()])\n")
    script = write(os.path.join(folder, "opens.py"), text, 0o644)

    def opens(how, **wishes):
        done = run_with_port(folder, how, WEFT, "run", sys.executable, script, **wishes)
        return done.stdout.split(), done.stderr

    expect_equal("free", opens("free"), (["opened"] * 2, ""))
    for wishes in ({}, {"WEFT_LOG": "error"}):
        words, said = opens("held", **wishes)
        expect_equal("held", words, ["EADDRINUSE"] * 2)
        expect_equal("lines of %r" % said, said.count("\n"), 1)
        expect(said, "]: roce_lo cannot be opened: roce_port: UDP port 4791 is held by" in said)
    expect_equal("off", opens("held", WEFT_LOG="off"), (["EADDRINUSE"] * 2, ""))


def test_run_shows_files_of_devices_under_sys(_folder):
    where = "/sys/class/infiniband/roce_lo/"
    done = weft_run("cat", where + "ports/1/gid_attrs/types/0", where + "ports/1/gid_attrs/ndevs/0",
                    where + "ports/1/gids/0", where + "node_type")
    expect_equal("files", done.stdout.splitlines(),
                 ["RoCE v2", "lo", "0000:0000:0000:0000:0000:ffff:7f00:0001", "1: CA"])
    expect_equal("a link", weft_run("readlink", where + "device/driver").stdout.split("/")[-1],
                 "weft\n")
    expect_equal("no such", weft_run("cat", where + "nothing").returncode, 1)
    for slash in ("", "/"):
        expect_equal("the interface", weft_run("ls", where + "device/net" + slash).stdout, "lo\n")
    names = weft_run("ls", where).stdout.split()
    expect("files and folders in %s" % names, {"node_guid", "ports", "device"} <= set(names))
    expect_equal("no such folder", weft_run("ls", where + "device/nothing").returncode, 2)
    expect_equal("no folder", weft_run("ls", where + "node_guid").stdout, where + "node_guid\n")
    listed = weft_run("ls", "/sys/class/infiniband").stdout.split()
    expect("all devices: %s" % listed, {"roce_lo", "iw_lo"} <= set(listed))
    expect_equal("by their pattern", weft_run("sh", "-c", "echo /sys/class/infiniband/roce_l*").stdout,
                 "/sys/class/infiniband/roce_lo\n")
    expect_equal("of one kind", weft_run("--devices", "iw_lo", "ls", "/sys/class/infiniband/").stdout,
                 "iw_lo\n")
    expect_equal("others' folders", weft_run("ls", "/").stdout, subprocess.run(
        ["ls", "/"], stdout=subprocess.PIPE, text=True, check=True).stdout)
    expect_equal("not to be seen", weft_run("--devices", "iw_lo", "cat", where + "node_type").returncode,
                 1)
    expect_equal("kept", weft_run("sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD="").stdout,
                 LIBRARIES + "/libweft-sysfs.so\n")



# Every call on an open folder, once on a made-up one and once on a real one beside it.
FOLDER_CALLS = r"""
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
class Entry(ctypes.Structure):
    _fields_ = [("ino", ctypes.c_uint64), ("off", ctypes.c_int64), ("reclen", ctypes.c_uint16),
                ("type", ctypes.c_ubyte), ("name", ctypes.c_char * 256)]
for name, result in (("opendir", ctypes.c_void_p), ("readdir", ctypes.POINTER(Entry)),
                     ("readdir64", ctypes.POINTER(Entry)), ("telldir", ctypes.c_long)):
    getattr(libc, name).restype = result
def names(dir, call):
    entry = call(dir)
    while entry:
        yield entry.contents.name.decode()
        entry = call(dir)
def names_r(dir, call):
    entry, result = Entry(), ctypes.POINTER(Entry)()
    while call(dir, ctypes.byref(entry), ctypes.byref(result)) == 0 and result:
        assert ctypes.addressof(result.contents) == ctypes.addressof(entry)
        yield entry.name.decode()
folders = [ctypes.c_void_p(libc.opendir(path.encode())) for path in sys.argv[1:]]
for dir in folders:
    assert dir.value
    start = libc.telldir(dir)
    first = next(names(dir, libc.readdir))
    after = libc.telldir(dir)
    rest = list(names(dir, libc.readdir))
    libc.seekdir(dir, ctypes.c_long(after))
    assert list(names(dir, libc.readdir64)) == rest
    libc.rewinddir(dir)
    assert list(names_r(dir, libc.readdir_r)) == [first] + rest
    libc.seekdir(dir, ctypes.c_long(start))
    assert list(names_r(dir, libc.readdir64_r)) == [first] + rest
    fd = libc.dirfd(dir)
    assert fd >= 0 or ctypes.get_errno() == errno.ENOTSUP
    print(fd >= 0, *sorted([first] + rest))
for dir in folders + [ctypes.c_void_p(libc.opendir(sys.argv[1].encode()))]:
    assert libc.closedir(dir) == 0
"""


def test_run_folders_of_devices_know_every_call(folder):
    for name in ("b", "a", "c"):
        open(os.path.join(folder, name), "w").close()
    done = weft_run("python3", "-c", FOLDER_CALLS, "/sys/class/infiniband/roce_lo/ports/1", folder)
    expect("folders of both kinds: " + done.stderr, done.returncode == 0)
    ours, real = done.stdout.splitlines()
    expect("a port's folder: " + ours, ours.startswith("False ") and "gids" in ours.split())
    expect_equal("a real one", real.split(), ["True", ".", "..", "a", "b", "c"])


# Netlink as programs speak it, on a socket for RDMA: 20 is NETLINK_RDMA, 270 is SOL_NETLINK.
NETLINK = r"""
import ctypes, errno, os, select, signal, socket, struct, sys
signal.alarm(60)
libc = ctypes.CDLL(None, use_errno=True)
GET, PORT_GET, RES_GET, REQUEST, ACK, DUMP, ERROR, DONE = 1, 5, 9, 1, 4, 0x300, 2, 3
def opened(flags=0):
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | flags, 20)
def request(command, flags, attributes=b"", sequence=5):
    return struct.pack("=IHHII", 16 + len(attributes), (5 << 10) + command, REQUEST | flags, sequence,
                       0) + attributes
def number(type, value):
    return struct.pack("=HHI", 8, type, value)
def messages(text):
    while text:
        length, type, flags, sequence, pid = struct.unpack_from("=IHHII", text)
        yield type, pid, text[16:length]
        text = text[length:]
def devices(s, send=None):
    (send or s.send)(request(GET, DUMP))
    found = []
    while True:
        for type, pid, body in messages(s.recv(8192)):
            if type == DONE:
                return found
            assert pid == s.getsockname()[0], (pid, s.getsockname())
            found.append(body[12:8 + struct.unpack_from("=H", body, 8)[0] - 1].decode())
def result(s, *words):
    s.sendto(request(*words), (0, 0))
    text, sender = s.recvfrom(8192)
    assert sender == (0, 0), sender
    (type, pid, body), = messages(text)
    assert type == ERROR, type
    return -struct.unpack_from("=i", body)[0]
def error_of(call, *words):
    try:
        call(*words)
    except OSError as e:
        return e.errno
def is_readable(s):
    return select.select([s], [], [], 0)[0] == [s]
"""

NETLINK_CALLS = r"""
s = opened()
s.bind((0, 0))
assert s.getsockname() == (os.getpid(), 0), s.getsockname()
names = devices(s)
assert "roce_lo" in names and "iw_lo" in names, names
assert devices(s, lambda text: s.sendmsg([text[:5], text[5:]], [], 0, (0, 0))) == names
text, _, _, sender = (s.send(request(GET, DUMP)), s.recvmsg(8192))[1]
assert sender == (0, 0) and len(text) > 16, sender
assert not is_readable(s)
s.setsockopt(270, 10, 1)
s.setsockopt(270, 11, 1)
assert error_of(s.setsockopt, 270, 1, 4) == errno.EOPNOTSUPP
assert error_of(s.setsockopt, 270, 99, 1) == errno.ENOPROTOOPT
assert error_of(opened().bind, (0, 1)) == errno.EOPNOTSUPP
assert result(s, GET, 0, number(1, 999999)) == errno.EINVAL
assert result(s, PORT_GET, ACK, number(1, 1) + number(3, 2)) == errno.EINVAL
assert result(s, RES_GET, DUMP) == errno.EOPNOTSUPP
assert error_of(s.sendto, request(GET, DUMP), (os.getpid() + 1, 0)) == errno.ECONNREFUSED
assert error_of(s.send, b"\0" * 100000) == errno.EMSGSIZE
assert not is_readable(s)
other = opened(socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
assert other.getsockname()[0] != os.getpid() and error_of(other.recv, 100) == errno.EAGAIN
fd = other.fileno()
other.bind((77777, 0))
assert other.fileno() == fd and other.getsockname() == (77777, 0)
assert error_of(other.recv, 100) == errno.EAGAIN and not os.get_inheritable(fd)
assert devices(other) == names and not is_readable(s)
# A place for the address without a place for its length is refused, not written to.
address, text = ctypes.create_string_buffer(16), ctypes.create_string_buffer(8192)
fd = s.fileno()
assert libc.getsockname(fd, address, None) == -1 and ctypes.get_errno() == errno.EFAULT
assert libc.getsockname(fd, None, ctypes.byref(ctypes.c_uint(12))) == -1 and ctypes.get_errno() == errno.EFAULT
s.send(request(GET, DUMP))
assert libc.recvfrom(fd, text, len(text), 0, address, None) == -1 and ctypes.get_errno() == errno.EFAULT
while is_readable(s):
    s.recv(8192)
# A program without room for the answer is told so.
assert error_of(lambda: [s.send(request(GET, DUMP)) for i in range(10000)]) == errno.ENOBUFS
print("served")
"""

NETLINK_SHARED = r"""
s = opened()
names = devices(s)
copy = s.dup()
assert copy.getsockname() == s.getsockname() and devices(copy) == names
s.send(request(GET, DUMP))
assert is_readable(copy) and is_readable(s)
copy.recv(8192)
assert not is_readable(s)
s.close()
assert devices(copy) == names
# In place of another, and another in its place.
plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
plain.bind(("127.0.0.1", 0))
place = os.dup(plain.fileno())
os.dup2(copy.fileno(), place)
moved = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20, fileno=place)
assert devices(moved) == names
os.dup2(plain.fileno(), place)
back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 0, fileno=place)
moved.detach()
assert back.getsockname() == plain.getsockname()
back.sendto(b"plain", plain.getsockname())
assert plain.recvfrom(10) == (b"plain", plain.getsockname())
# Parent and child have one socket.
child = os.fork()
if child == 0:
    ok = devices(copy) == names
    copy.send(request(GET, DUMP))
    os._exit(0 if ok else 1)
assert os.waitpid(child, 0)[1] == 0
assert is_readable(copy) and len(copy.recv(8192)) > 16
# What a closed one leaves behind.
before = len(os.listdir("/proc/self/fd"))
for i in range(50):
    devices(opened())
assert len(os.listdir("/proc/self/fd")) == before
assert open("/proc/net/unix").read().count("@weft.rdma.%08x." % copy.getsockname()[0]) == 1
print("shared")
"""

# Verbs and netlink number devices alike.
NETLINK_NUMBERS = r"""
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_get_device_name.restype = ctypes.c_char_p
s, names, i = opened(), {}, 0
all = verbs.ibv_get_device_list(None)
while all[i]:
    device = ctypes.c_void_p(all[i])
    names[verbs.ibv_get_device_index(device)] = verbs.ibv_get_device_name(device)
    i += 1
assert len(names) == i == len(devices(s)), (names, i)
for index, name in names.items():
    s.send(request(GET, 0, number(1, index)))
    assert name + b"\0" in s.recv(8192), name
print("alike")
"""

# libnl chooses a socket's number itself.
NETLINK_LIBNL = r"""
nl = ctypes.CDLL("libnl-3.so.200")
nl.nl_socket_alloc.restype = nl.nlmsg_hdr.restype = ctypes.c_void_p
nl.nl_socket_get_local_port.restype = ctypes.c_uint32
s, found = ctypes.c_void_p(nl.nl_socket_alloc()), []
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def hear(message, _):
    head = nl.nlmsg_hdr(ctypes.c_void_p(message))
    found.append(ctypes.string_at(head, ctypes.c_uint32.from_address(head).value))
    return 0
assert nl.nl_connect(s, 20) == 0
number_wished = nl.nl_socket_get_local_port(s)
assert socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20,
                     fileno=os.dup(nl.nl_socket_get_fd(s))).getsockname() == (number_wished, 0)
assert nl.nl_socket_modify_cb(s, 0, 3, hear, None) == 0
assert nl.nl_send_simple(s, (5 << 10) + GET, DUMP, None, 0) > 0
assert nl.nl_recvmsgs_default(s) == 0
assert any(b"roce_lo\0" in text for text in found), found
print("heard")
"""

# No datagram of another process gets in, though the socket has a name.
NETLINK_GUARDED = r"""
s = opened()
name = next(line.split()[-1] for line in open("/proc/net/unix") if "@weft.rdma.%08x." % os.getpid() in line)
other = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
assert error_of(other.sendto, b"forged", "\0" + name[1:]) == errno.EPERM
assert error_of(other.connect, "\0" + name[1:]) == errno.EPERM
assert not is_readable(s)
print("guarded")
"""

# A duplicate of the socket is one too, however it is made, and whatever its number is.
NETLINK_COPIES = r"""
import fcntl, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (2000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
s = opened()
names = devices(s)
def is_one(fd):
    return devices(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20, fileno=fd)) == names
assert is_one(libc.dup(s.fileno()))
assert is_one(libc.dup2(s.fileno(), 101))
assert is_one(libc.dup3(s.fileno(), 102, os.O_CLOEXEC))
for duplicate in (fcntl.fcntl, libc.fcntl, libc.fcntl64):
    for command in (fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC):
        for least in (200, 1023, 1024, 1500):
            fd = duplicate(s.fileno(), command, least)
            assert fd >= least and is_one(os.dup(fd)) and is_one(fd), (duplicate, command, least)
assert fcntl.fcntl(s.fileno(), fcntl.F_GETFD) == fcntl.FD_CLOEXEC
assert fcntl.fcntl(s.fileno(), fcntl.F_SETFL, os.O_NONBLOCK) == 0 and error_of(s.recv, 1) == errno.EAGAIN
assert libc.dup(-1) == -1 and ctypes.get_errno() == errno.EBADF
print("copied")
"""

# Descriptors that never were such a socket are not looked at: this one has the name of one.
NETLINK_ELSE = r"""
s = opened()
name = b"\0weft.rdma.00000007.0123456789abcdef"
plain = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
plain.bind(name)
assert plain.getsockname() == name, plain.getsockname()
assert "roce_lo" in devices(s)
print("left alone")
"""


def expect_netlink(script, says):
    done = weft_run("python3", "-c", NETLINK + script)
    expect_equal("netlink: " + done.stderr, done.stdout, says + "\n")


def test_run_netlink_of_rdma_is_served(_folder):
    expect_netlink(NETLINK_CALLS, "served")


def test_run_netlink_of_rdma_survives_dup_fork_and_close(_folder):
    expect_netlink(NETLINK_SHARED, "shared")


def test_run_netlink_of_rdma_survives_every_way_to_duplicate(_folder):
    expect_netlink(NETLINK_COPIES, "copied")


def test_run_netlink_of_rdma_costs_other_sockets_no_system_call(_folder):
    expect_netlink(NETLINK_ELSE, "left alone")


def test_run_netlink_of_rdma_numbers_devices_as_verbs_do(_folder):
    expect_netlink(NETLINK_NUMBERS, "alike")


def test_run_netlink_of_rdma_by_libnl(_folder):
    if run("python3", "-c", "import ctypes; ctypes.CDLL('libnl-3.so.200')").returncode != 0:
        raise Skip("there is no libnl-3")
    expect_netlink(NETLINK_LIBNL, "heard")


def test_run_netlink_of_rdma_takes_nothing_from_others(_folder):
    expect_netlink(NETLINK_GUARDED, "guarded")


def test_run_netlink_of_others_is_the_kernels(_folder):
    need("ip")
    for words in (("ip", "-j", "link"), ("ip", "-j", "rule")):
        plain = run(*words)
        expect("%s: %s" % (words, plain.stderr), plain.returncode == 0)
        expect_equal(" ".join(words), weft_run(*words).stdout, plain.stdout)
    # Without weft's libibverbs that of RDMA is, too.
    script = NETLINK + "print(error_of(opened))\nprint(error_of(opened) or opened().getsockname()[1])\n"
    expect_equal("the kernel's", run("python3", "-c", script,
                                     LD_PRELOAD=LIBRARIES + "/libweft-sysfs.so").stdout,
                 run("python3", "-c", script).stdout)


# What stat() and lstat() are to programs linked with a glibc before 2.33, which have no such calls.
OLD_CALLS = r"""
import ctypes, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
version = 1 if platform.machine() == "x86_64" else 0
def result_of(call, *words):
    room = ctypes.create_string_buffer(b"\xff" * 256, 256)
    return call(*words, room), room.raw
for path in sys.argv[1:]:
    path = path.encode()
    for old, now in (("__xstat", "stat"), ("__lxstat", "lstat"), ("__xstat64", "stat64"),
                     ("__lxstat64", "lstat64")):
        before, after = result_of(libc[old], version, path), result_of(libc[now], path)
        print(before[0], before == after)
"""


def test_run_shows_files_of_devices_to_older_programs(_folder):
    done = weft_run("python3", "-c", OLD_CALLS, "/sys/class/infiniband/roce_lo/device/driver", WEFT)
    expect_equal("as by newer calls", done.stdout, "0 True\n" * 8)


def test_run_shows_devices_to_ucx(_folder):
    need("ucx_info")
    done = weft_run("ucx_info", "-d")
    found = [line.split()[-1] for line in done.stdout.splitlines() if "Transport:" in line]
    expect("rc_verbs and ud_verbs in %s" % found, {"rc_verbs", "ud_verbs"} <= set(found))
    expect("roce_lo in " + done.stdout, "roce_lo:1" in done.stdout)


def test_run_connects_rping(_folder):
    need("rping")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    server = subprocess.Popen([WEFT, "run", "rping", "-s", "-a", "127.0.0.1", "-p", port, "-C", "3",
                               "-V"], env=environment(), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        for _ in range(400):  # until it listens
            done = weft_run("rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", "3", "-V", "-v")
            if done.returncode == 0 or server.poll() is not None:
                break
        expect_equal("client", done.returncode, 0)
        expect_equal("pings", done.stdout.count("ping data: rdma-ping-"), 3)
        server.wait(PATIENCE_S)
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


def test_run_finds_programs_in_path(folder):
    write(os.path.join(folder, "mine"), "#!/bin/sh\necho found\n")
    hidden = os.path.join(folder, "hidden")
    os.mkdir(hidden)
    write(os.path.join(hidden, "mine"), "not this\n", 0o644)
    expect_equal("found", weft_run("mine", PATH=hidden + ":/nowhere:" + folder).stdout, "found\n")
    expect_refused(weft_run("mine", PATH=hidden), 126, hidden + "/mine", "cannot be executed")
    expect_equal("path", weft_run(folder + "/mine").stdout, "found\n")


def test_run_runs_scripts(folder):
    inner = write(os.path.join(folder, "inner"), "#!/bin/sh\necho inner $2\n")
    outer = write(os.path.join(folder, "outer"), "#! %s arg\nunused\n" % inner)
    expect_equal("script of a script", weft_run(outer, "x").stdout, "inner %s\n" % outer)
    lost = write(os.path.join(folder, "lost"), "#!/no/such/shell -x\n")
    expect_refused(weft_run(lost), 127, lost, "interpreter /no/such/shell is not found")


def test_run_refuses_wrong_calls(_folder):
    for words, why in ((("--nonsense", "true"), "there is no option --nonsense"), ((), "which program"),
                       (("--log",), "what is to follow --log"), (("--log", "loud", "true"), "loud"),
                       (("--devices", "x"), "which program")):
        expect_refused(weft_run(*words), 125, why, "usage: weft run")
    done = weft_run("--help")
    expect("help", done.returncode == 0 and done.stdout.startswith("usage: weft run"))


def test_run_refuses_what_is_not_there(folder):
    expect_refused(weft_run("no-such-program"), 127, "no-such-program", "is not found", "PATH")
    expect_refused(weft_run("/no/such/program"), 127, "/no/such/program")
    expect_refused(weft_run(""), 127, "is not found")
    expect_refused(weft_run(folder), 126, folder, "cannot be executed")
    plain = write(os.path.join(folder, "plain"), "#!/bin/sh\n", 0o644)
    expect_refused(weft_run(plain), 126, plain, "chmod +x")


def test_run_refuses_what_is_no_program(folder):
    for text in ("", "#", "just text\n", "\x7fELF", "\x7fELF" + "\2\1\1" + "\0" * 200):
        path = write(os.path.join(folder, "it"), text)
        expect_refused(weft_run(path), 126, path, "neither an ELF program nor a script")


def test_run_refuses_static_programs(folder):
    need("gcc")
    path = compile_c(os.path.join(folder, "static"), PROGRAM, "-static")
    expect_refused(weft_run(path), 126, path, "statically linked", "link it dynamically")
    script = write(os.path.join(folder, "script"), "#!%s\n" % path)
    expect_refused(weft_run(script), 126, script, "statically linked")


def test_run_refuses_other_architectures(folder):
    path = os.path.join(folder, "true")
    shutil.copy(shutil.which("true"), path)
    with open(path, "r+b") as f:  # e_machine
        f.seek(18)
        f.write(b"\x15\x00")
    expect_refused(weft_run(path), 126, "another architecture (ppc64, 64 bits, little endian)")


def test_run_refuses_musl(folder):
    need("gcc")
    path = compile_c(os.path.join(folder, "musl"), PROGRAM,
                     "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1")
    expect_refused(weft_run(path), 126, path, "musl", "glibc")


def test_run_refuses_more_rights(folder):
    need("gcc")
    need_root()
    path = compile_c(os.path.join(folder, "prog"), PROGRAM)
    os.chown(path, NOBODY, -1)
    os.chmod(path, 0o4755)
    expect_refused(weft_run(path), 126, path, "LD_LIBRARY_PATH", "run a copy")
    os.chown(path, 0, NOBODY)
    os.chmod(path, 0o2755)
    expect_refused(weft_run(path), 126, path, "set-group-ID")
    os.chmod(path, 0o2745)  # then it means locking
    expect_equal("not for the group", weft_run(path).returncode, 7)
    # What it is already, it need not become.
    os.chown(path, 0, 0)
    os.chmod(path, 0o6755)
    expect_equal("its own user", weft_run(path).returncode, 7)


def test_run_knows_where_rights_cannot_be_gained(folder):
    need("gcc", "setpriv")
    need_root()
    path = compile_c(os.path.join(folder, "prog"), PROGRAM)
    os.chown(path, NOBODY, -1)
    os.chmod(path, 0o4755)
    expect_equal("status", run("setpriv", "--no-new-privs", WEFT, "run", path).returncode, 7)


def test_run_refuses_what_it_cannot_read(folder):
    need("gcc", "setpriv")
    need_root()
    if not os.access(WEFT, os.R_OK):
        raise Skip("others cannot reach weft")
    os.chmod(folder, 0o755)
    path = compile_c(os.path.join(folder, "prog"), PROGRAM)
    os.chmod(path, 0o711)
    done = run("setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", WEFT,
               "run", path)
    if "setpriv" in done.stderr:
        raise Skip("another user cannot run weft here: " + done.stderr.strip())
    expect_refused(done, 126, path, "cannot be read")


def test_run_refuses_without_its_libraries(folder):
    alone = os.path.join(folder, "weft")
    shutil.copy(WEFT, alone)
    expect_refused(run(alone, "run", "true"), 125, "weft's libraries are not all in")
    for name in ("libibverbs.so.1", "librdmacm.so.1"):
        shutil.copy(os.path.join(LIBRARIES, name), folder)
    expect_refused(run(alone, "run", "true"), 125, "weft's libraries are not all in")
    shutil.copy(os.path.join(LIBRARIES, "libibumad.so.3"), folder)
    expect_equal("all", run(alone, "run", "true").returncode, 0)
    odd = os.path.join(folder, "a:b")
    os.mkdir(odd)
    for name in ("weft", "libibverbs.so.1", "librdmacm.so.1", "libibumad.so.3"):
        shutil.move(os.path.join(folder, name), odd)
    expect_refused(run(os.path.join(odd, "weft"), "run", "true"), 125, "colon")


main(globals())
