#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""access_test.py WEFT: who may use disks of weft iscsi serve, from addresses other than loopback, and as another user.

Addresses are those of a network namespace of the test's own. Prints `ok NAME`, `not ok NAME: why` or
`skip NAME: reason`, a line for each test.
"""
import contextlib
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from network import Network  # noqa: E402
from script import expect, expect_equal, main, need, run  # noqa: E402
from target import NAME, WEFT, Target  # noqa: E402
from attack import need_users  # noqa: E402

LOOPBACK, V4, V4_OTHER, V6 = "127.0.0.1", "192.0.2.7", "198.51.100.7", "2001:db8::7"
SECRETS = "initiator alice 0123456789abcd\ntarget disk abcdef012345\n"
ALICE = "alice%0123456789abcd"
OTHER_USER = 65534


class Site:
    """A target at all addresses of a network, and programs beside it."""

    def __init__(self, network, target):
        self.network, self.target = network, target

    def run(self, *words, **wishes):
        return run(*self.network.enter(*words), **wishes)

    def host(self, address):
        return "[%s]" % address if ":" in address else address

    def url(self, address, user="", options=""):
        return "iscsi://%s%s:%d/%s/0%s" % (user + "@" if user else "", self.host(address), self.target.port, NAME,
                                           options)

    def iser_url(self, wire, address):
        return "iser://%s:%d/%s/0" % (self.host(address), self.target.ports["iSER/" + wire], NAME)

    def admits(self, *words, **wishes):
        done = self.run(*words, **wishes)
        expect_equal("%s: %s" % (" ".join(words), done.stderr), done.returncode, 0)
        return done.stdout

    def refuses(self, why, *words, **wishes):
        done = self.run(*words, **wishes)
        expect("refused: %s: %s" % (" ".join(words), done.stdout), done.returncode != 0)
        expect("%s says %s: %s" % (" ".join(words), why, done.stderr), why in done.stderr)


@contextlib.contextmanager
def site(folder, address="", **options):
    network = Network()
    try:
        for own in V4 + "/32", V4_OTHER + "/32", V6 + "/128 nodad":
            network.ip("addr", "add", *own.split(), "dev", "lo")
        with Target(folder, "mem:1M", address=address, enter=network.enter(), **options) as target:
            yield Site(network, target)
    finally:
        network.close()


# --- Addresses ---------------------------------------------------------------------------------


def test_iscsi_access_without_a_rule_is_for_loopback_only(folder):
    need("iscsi-inq", "iscsi-ls")
    with site(folder) as s:
        s.admits("iscsi-inq", s.url(LOOPBACK))
        expect("it is named", NAME in s.admits("iscsi-ls", "iscsi://%s:%d" % (LOOPBACK, s.target.port)))
        s.admits(WEFT, "iscsi", "info", s.url(LOOPBACK))
        for address in V4, V4_OTHER:
            s.refuses("uthorization", "iscsi-inq", s.url(address))
            s.refuses("iscsi_", WEFT, "iscsi", "info", s.url(address))
            done = s.run("iscsi-ls", "iscsi://%s:%d" % (address, s.target.port))
            expect("it is not named at %s: %s" % (address, done.stdout), NAME not in done.stdout)
        expect_equal("sessions", s.target.status()["sessions"], 0)
        said = s.target.end()
        for address in V4, V4_OTHER:
            expect("told: " + said, "at %s:" % address in said and "refused" in said)


def test_iscsi_access_without_a_rule_is_for_loopback_only_by_ipv6(folder):
    need("iscsi-inq")
    with site(folder, "[::]") as s:
        s.admits("iscsi-inq", s.url("::1"))
        s.refuses("uthorization", "iscsi-inq", s.url(V6))


def iser_for_loopback_only(folder, wire):
    with site(folder, lines="iser %s %s:0\n" % (wire.lower(), V4)) as s:
        s.refuses("iscsi_", WEFT, "iscsi", "info", s.iser_url(wire, V4))
        expect_equal("sessions", s.target.status()["sessions"], 0)
        said = s.target.end()
        expect("told: " + said, "refused" in said and "at %s" % V4 in said)


def test_iscsi_access_by_iser_on_roce_is_for_loopback_only(folder):
    iser_for_loopback_only(folder, "RoCE")


def test_iscsi_access_by_iser_on_iwarp_is_for_loopback_only(folder):
    iser_for_loopback_only(folder, "iWARP")


def test_iscsi_access_by_rule_is_for_its_addresses_only(folder):
    need("iscsi-inq", "qemu-io")
    with site(folder, target="allow any 192.0.2.0/24\n") as s:
        s.admits("iscsi-inq", s.url(V4))
        s.admits("qemu-io", "-f", "raw", "-c", "write -P 7 0 64k", "-c", "read -P 7 0 64k", s.url(V4))
        for address in V4_OTHER, LOOPBACK:
            s.refuses("uthorization", "iscsi-inq", s.url(address))
            s.refuses("uthorization", "qemu-io", "-f", "raw", "-c", "read 0 64k", s.url(address))


# --- CHAP --------------------------------------------------------------------------------------


def test_iscsi_access_from_elsewhere_by_mutual_chap(folder):
    need("iscsi-inq")
    with site(folder, target="allow any %s\n" % V4, secrets=SECRETS) as s:
        mutual = "?target_user=disk&target_password=abcdef012345"
        s.admits("iscsi-inq", s.url(V4, ALICE, mutual))
        # The target that cannot prove itself is not used.
        done = s.run("iscsi-inq", s.url(V4, ALICE, mutual[:-1] + "9"))
        expect("another secret of the target", done.returncode != 0)
        for user in "", "alice%0123456789abcX", "bob%0123456789abcd":
            expect("as " + user, s.run("iscsi-inq", s.url(V4, user, mutual)).returncode != 0)
        expect("a secret does not help elsewhere",
               s.run("iscsi-inq", s.url(V4_OTHER, ALICE, mutual)).returncode != 0)
        secrets = s.target.write("mine", "user alice\npassword 0123456789abcd\ntarget_user disk\n"
                                 "target_password abcdef012345\n")
        s.admits(WEFT, "iscsi", "info", s.url(V4), "--secrets", secrets)
        s.target.write("mine", "user alice\npassword 0123456789abcd\ntarget_user disk\n"
                       "target_password abcdef012349\n")
        s.refuses("iscsi_", WEFT, "iscsi", "info", s.url(V4), "--secrets", secrets)


def test_iscsi_access_of_qemu_by_chap(folder):
    need("qemu-io")
    with site(folder, target="allow any %s\n" % V4, secrets=SECRETS) as s:
        options = ("driver=raw,file.driver=iscsi,file.transport=tcp,file.portal=%s:%d,file.target=%s,file.lun=0,"
                   "file.user=alice,file.password-secret=word" % (V4, s.target.port, NAME))
        words = ["-c", "write -P 7 0 64k", "-c", "read -P 7 0 64k", "--image-opts", options]
        s.admits("qemu-io", "--object", "secret,id=word,data=0123456789abcd", *words)
        s.refuses("uthenticat", "qemu-io", "--object", "secret,id=word,data=0123456789abcX", *words)
        s.admits("qemu-io", "-f", "raw", "-c", "read -P 7 0 64k", s.url(V4, ALICE))
        s.refuses("", "qemu-io", "-f", "raw", "-c", "read 0 64k", s.url(V4))


# --- RoCE's port -------------------------------------------------------------------------------

# A socket that does not share the port, as that of the kernel's rxe.
HOLD_PORT = "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 4791)); " \
            "print('up', flush=True); sys.stdin.read()"


def test_iscsi_iser_on_iwarp_needs_no_port_of_roce(folder):
    network = Network()
    holder = subprocess.Popen(network.enter(sys.executable, "-c", HOLD_PORT), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    try:
        expect_equal("the port is taken", holder.stdout.readline(), "up\n")
        with Target(folder, "mem:1M", lines="iser iwarp 127.0.0.1:0\n", enter=network.enter()) as target:
            done = run(*network.enter(WEFT, "iscsi", "info", target.iser_url("iWARP")))
            expect_equal("by iWARP: " + done.stderr, done.returncode, 0)
            target.end()
        target = Target(folder, "mem:1M", lines="iser roce 127.0.0.1:0\n", enter=network.enter())
        try:
            target.start()
            raise AssertionError("it serves by RoCE")
        except AssertionError as why:
            expect("the reason: %s" % why, "UDP port 4791 is held" in str(why) and "127.0.0.1:0" in str(why))
        expect_equal("its status", target.process.wait(), 1)
        target.process.stdout.close()
    finally:
        holder.stdin.close()
        holder.wait()
        holder.stdout.close()
        network.close()


# --- Users -------------------------------------------------------------------------------------


def as_other_user(folder):
    need_users()
    os.chmod(folder, 0o755)
    device = "file:%s,size=1M" % os.path.join(folder, "disk")
    return Target(folder, device, lines="iser iwarp 127.0.0.1:0\n", secrets=SECRETS, user=OTHER_USER)


def test_iscsi_serves_without_root(folder):
    need("qemu-io")
    with as_other_user(folder) as target:
        with open("/proc/%d/status" % target.process.pid) as f:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        expect_equal("its users", status["Uid"].split(), [str(OTHER_USER)] * 4)
        expect_equal("its rights", int(status["CapEff"], 16), 0)
        expect("its port: %d" % target.port, target.port > 1024)
        done = run("qemu-io", "-f", "raw", "-c", "write -f -P 9 0 64k", "-c", "read -P 9 0 64k", target.url(user=ALICE))
        expect_equal("qemu-io: " + done.stdout + done.stderr, done.returncode, 0)
        with open(os.path.join(folder, "disk"), "rb") as f:
            expect("it is in the file", f.read(65536) == b"\x09" * 65536)
        secrets = os.path.join(folder, "mine")
        target.write("mine", "user alice\npassword 0123456789abcd\n")
        os.chown(secrets, 0, 0)
        copy = os.path.join(folder, "copy")
        done = run(WEFT, "iscsi", "read", target.iser_url("iWARP"), copy, "--length", "64k", "--secrets", secrets)
        expect_equal("by iSER: " + done.stderr, done.returncode, 0)
        with open(copy, "rb") as f:
            expect("the same by iSER", f.read() == b"\x09" * 65536)
        target.end()


main(globals())
